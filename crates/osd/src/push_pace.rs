//! How much is held still at once for members that lack it, in the order it came: little while clients write.
//!
//! Nobody writes to an object while members fetch it. Turns may come faster than a member's device takes what they bring;
//! were all of those objects held from their turns on, clients would wait for the last as long as for all of them. What a
//! client waits for already is not asked to wait here.
//!
//! Invariant: what is held in its turn while clients write is less than [`HELD_BYTES_MAX`] and one object; what waits is
//! under way in its group.

use crate::limits::{CLIENTS_REST, HELD_BYTES_MAX};
use base::{Instant, PgId};
use std::collections::VecDeque;
use store::ObjectId;

/// What waits, and how much is held.
#[derive(Debug, Default)]
pub struct PushPace {
    held: u64,
    /// When a client wrote last.
    written: Option<Instant>,
    waiting: VecDeque<(PgId, ObjectId)>,
}

impl PushPace {
    /// An object is to be given to members.
    pub fn want(&mut self, pg: PgId, head: ObjectId) {
        self.waiting.push_back((pg, head));
    }

    /// It is not, or not in its turn.
    pub fn forget(&mut self, pg: PgId, head: &ObjectId) {
        self.waiting.retain(|(of, waits)| *of != pg || waits != head);
    }

    /// A client's write has come.
    pub fn client_writes(&mut self, now: Instant) {
        self.written = Some(now);
    }

    /// The next object that may be held.
    pub fn take(&mut self, now: Instant) -> Option<(PgId, ObjectId)> {
        let clients_rest = self.written.is_none_or(|at| now.since(at) >= CLIENTS_REST);
        if clients_rest || self.held < HELD_BYTES_MAX { self.waiting.pop_front() } else { None }
    }

    /// So much is held.
    pub fn began(&mut self, bytes: u64) {
        self.held += bytes;
    }

    /// Members have it, or it is given up.
    pub fn ended(&mut self, bytes: u64) {
        self.held = self.held.checked_sub(bytes).expect("what ends has begun");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{PoolId, SnapId};

    #[test]
    fn what_is_held_makes_the_rest_wait_in_its_order() {
        let named = |name: &str| ObjectId::new(1, b"", b"", name.as_bytes(), SnapId::HEAD);
        const PART: u64 = HELD_BYTES_MAX * 3 / 4;
        let (mut pace, pg) = (PushPace::default(), PgId::new(PoolId(1), 0));
        ["a", "b", "c", "d", "e"].into_iter().for_each(|name| pace.want(pg, named(name)));
        let now = Instant::from_secs(7);
        pace.client_writes(now);
        let begin = |pace: &mut PushPace| {
            let (_, head) = pace.take(now)?;
            pace.began(PART);
            Some(head)
        };
        assert_eq!([begin(&mut pace), begin(&mut pace)], [Some(named("a")), Some(named("b"))]);
        assert_eq!(begin(&mut pace), None, "more than the bound is held");
        pace.forget(pg, &named("c"));
        pace.ended(PART);
        assert_eq!([begin(&mut pace), begin(&mut pace)], [Some(named("d")), None]);
        assert_eq!(pace.take(now + CLIENTS_REST), Some((pg, named("e"))), "nobody is in the way");
    }

    #[test]
    fn one_of_any_size_is_held() {
        let (mut pace, pg) = (PushPace::default(), PgId::new(PoolId(1), 0));
        pace.client_writes(Instant::ZERO);
        pace.want(pg, ObjectId::new(1, b"", b"", b"large", SnapId::HEAD));
        assert!(pace.take(Instant::ZERO).is_some());
    }
}
