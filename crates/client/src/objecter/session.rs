//! A session with one OSD: its connection, the requests on it, and the back-offs it asked for.

use base::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use wire::net::ConnId;
use wire::osd::{HObject, SpgId};
use wire::types::AddrVec;

/// A session with one OSD.
#[derive(Debug)]
pub(super) struct Session {
    /// Where the OSD is.
    pub(super) addrs: AddrVec,
    /// The connection, unless one is still to be opened.
    pub(super) conn: Option<ConnId>,
    /// When to open one, if there is none.
    pub(super) open_at: Instant,
    /// Attempts since the OSD last answered.
    pub(super) failures: u32,
    /// The requests on it.
    pub(super) tids: BTreeSet<u64>,
    backoffs: BTreeMap<SpgId, BTreeMap<u64, Range>>,
}

/// Objects that a back-off concerns: from `begin` up to but not including `end`; if they are equal, that object.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    begin: HObject,
    end: HObject,
}

impl Session {
    /// A session to be opened at once.
    pub(super) fn new(now: Instant, addrs: AddrVec) -> Session {
        Session { addrs, conn: None, open_at: now, failures: 0, tids: BTreeSet::new(), backoffs: BTreeMap::new() }
    }

    /// Notes that the connection is gone; the next is to be opened after a while.
    pub(super) fn lost(&mut self, now: Instant, jitter: Duration) {
        self.conn = None;
        self.backoffs.clear();
        let wait = crate::limits::REOPEN_MIN * 2u32.saturating_pow(self.failures.min(16));
        self.open_at = now + wait.min(crate::limits::REOPEN_MAX) + jitter;
        self.failures += 1;
    }

    /// Notes a back-off.
    pub(super) fn block(&mut self, pg: SpgId, id: u64, begin: HObject, end: HObject) {
        // Ranges are kept, so they must not hold on to the message they came in.
        let range = Range { begin: begin.detached(), end: end.detached() };
        self.backoffs.entry(pg).or_default().insert(id, range);
    }

    /// Takes a back-off back.
    pub(super) fn unblock(&mut self, pg: SpgId, id: u64) {
        if let Some(ranges) = self.backoffs.get_mut(&pg) {
            ranges.remove(&id);
            if ranges.is_empty() {
                self.backoffs.remove(&pg);
            }
        }
    }

    /// How many back-offs there are.
    pub(super) fn backoff_count(&self) -> usize {
        self.backoffs.values().map(BTreeMap::len).sum()
    }

    /// Whether requests for `object` are to be held.
    pub(super) fn is_blocked(&self, pg: SpgId, object: &HObject) -> bool {
        let within = |range: &Range| {
            object >= &range.begin && (object < &range.end || range.begin == range.end && object == &range.begin)
        };
        self.backoffs.get(&pg).is_some_and(|ranges| ranges.values().any(within))
    }
}
