//! What an OSD shows of the groups that it leads, and of what it has in hand, to whoever checks it from outside.
//!
//! Read next: `pg::log`.

use crate::osd::Osd;
use base::{EVersion, Epoch, PgId};
use wire::osd::OsdReqId;

/// The log of a group, as its primary has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownLog {
    /// The version before its first entry.
    pub tail: EVersion,
    /// Its entries by version, oldest first, and whose they are.
    pub entries: Vec<(EVersion, OsdReqId)>,
}

/// What an OSD has in hand for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// Requests of clients, and of its own, that are not done.
    pub requests: usize,
    /// Their bytes.
    pub request_bytes: usize,
    /// Messages that wait for newer maps.
    pub waiting_for_map: usize,
    /// Sessions that others have opened.
    pub sessions: usize,
}

impl Osd {
    /// What it has in hand.
    pub fn load(&self) -> Load {
        let (requests, request_bytes) = self.core.sessions.load();
        let (waiting_for_map, sessions) = (self.waiting_count, self.core.sessions.len());
        Load { requests, request_bytes, waiting_for_map, sessions }
    }

    /// The groups that this OSD leads and serves, each with the peering since which it does.
    pub fn served(&self) -> impl Iterator<Item = (PgId, Epoch)> + '_ {
        self.pgs.values().filter_map(|pg| Some((pg.id, pg.active_peering()?)))
    }

    /// The log of a group that it holds.
    pub fn shown_log(&self, id: PgId) -> Option<ShownLog> {
        let log = &self.pgs.get(&id)?.log;
        let entries = log.entries().map(|entry| (entry.version(), entry.reqid())).collect();
        Some(ShownLog { tail: log.tail(), entries })
    }
}
