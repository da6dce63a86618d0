//! Who is connected: the peer, what it may do, what it has been sent.
//!
//! Owns one record per session of the transport. Refuses to send anything: `subscriptions` and the handlers do.

use base::{Epoch, Instant};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::caps::{MgrCap, MonCap};
use wire::messages::Subscription;
use wire::net::{ConnId, Peer};
use wire::types::EntityType;

use crate::limits::SESSIONS_MAX;

/// One session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Who is there.
    pub peer: Arc<Peer>,
    /// What it may do.
    pub caps: MonCap,
    /// What it may do with the manager, if that is whom it called; with the monitor it may do nothing then.
    pub manager: Option<MgrCap>,
    /// What it wants to hear of.
    pub subscriptions: BTreeMap<String, Subscription>,
    /// The newest OSD map epoch sent.
    pub osd_epoch: Epoch,
    /// Until when it is sent OSD maps because it has asked once.
    pub maps_until: Option<Instant>,
    /// The options last sent; none before the first time.
    pub config: Option<BTreeMap<String, String>>,
    /// The versions of configuration and CRUSH map that `config` was made from.
    pub config_seen: Option<(u64, u32)>,
    /// The host it says it runs on; empty before it did.
    pub hostname: String,
}

impl Session {
    /// A new session: nothing sent yet. Capabilities that do not parse allow nothing.
    pub fn new(peer: Arc<Peer>) -> Session {
        let manager = (peer.called == Some(EntityType::MGR)).then(|| MgrCap::from_ticket(&peer.caps));
        Session {
            caps: if manager.is_some() { MonCap::default() } else { MonCap::from_ticket(&peer.caps) },
            manager,
            peer,
            subscriptions: BTreeMap::new(),
            osd_epoch: Epoch(0),
            maps_until: None,
            config: None,
            config_seen: None,
            hostname: String::new(),
        }
    }

    /// Whether a daemon of this kind is there.
    pub fn is(&self, kind: EntityType) -> bool {
        self.peer.name.kind == kind
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    by_conn: BTreeMap<ConnId, Session>,
}

impl Sessions {
    /// Takes a new session; false where there are too many.
    pub fn open(&mut self, conn: ConnId, peer: Arc<Peer>) -> bool {
        if self.by_conn.len() >= SESSIONS_MAX {
            return false;
        }
        self.by_conn.insert(conn, Session::new(peer));
        true
    }

    /// Forgets a session.
    pub fn close(&mut self, conn: ConnId) {
        self.by_conn.remove(&conn);
    }

    /// A session.
    pub fn get(&self, conn: ConnId) -> Option<&Session> {
        self.by_conn.get(&conn)
    }

    /// A session, to change.
    pub fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.by_conn.get_mut(&conn)
    }

    /// All of them, in order of id.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &Session)> {
        self.by_conn.iter().map(|(conn, session)| (*conn, session))
    }

    /// The monitor's own: those that did not come through the manager's door.
    pub fn own(&self) -> impl Iterator<Item = (ConnId, &Session)> {
        self.iter().filter(|(_, session)| session.manager.is_none())
    }

    /// All of them, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnId, &mut Session)> {
        self.by_conn.iter_mut().map(|(conn, session)| (*conn, session))
    }
}
