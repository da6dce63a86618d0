//! How much of what other OSDs pull is read at once: so many bytes, what clients wait for first, else in the order it came.
//!
//! They may ask for dozens of objects at a time. A device that reads all of those side by side is done with each of them
//! late: whoever pulls would have nothing to write for as long, then everything at once, and nothing to read meanwhile.
//!
//! Invariant: what is read at once is at most [`PULLED_BYTES_MAX`] and one piece; nobody has a piece waiting twice.

use crate::limits::PULLED_BYTES_MAX;
use base::{PgId, SnapId};
use std::collections::VecDeque;
use store::ObjectId;
use wire::messages::PgPull;
use wire::net::ConnId;

/// A piece of an object that another OSD has asked for.
#[derive(Debug)]
pub struct Pulled {
    /// The session on which it did.
    pub conn: ConnId,
    /// What it wants.
    pub pull: Box<PgPull>,
    /// Which object, or clone, that is a piece of.
    pub id: ObjectId,
    /// About how many bytes that is.
    pub bytes: u64,
}

impl Pulled {
    /// The head of what it is a piece of.
    pub fn head(&self) -> ObjectId {
        self.id.with_snap(SnapId::HEAD)
    }
}

/// What waits, and how much is being read.
#[derive(Debug, Default)]
pub struct PullPace {
    reading: u64,
    /// What clients wait for.
    urgent: VecDeque<Pulled>,
    waiting: VecDeque<Pulled>,
}

impl PullPace {
    /// Another OSD wants a piece; again, if it does not know whether it has asked.
    pub fn want(&mut self, pulled: Pulled, urgent: bool) {
        let same =
            |other: &Pulled| other.conn == pulled.conn && other.pull.pg == pulled.pull.pg && other.id == pulled.id;
        self.retain(|other| !same(other));
        if urgent { self.urgent.push_back(pulled) } else { self.waiting.push_back(pulled) }
    }

    /// A client has come to wait for an object: what was asked of it on this session, or on any, comes first.
    pub fn hurry(&mut self, conn: Option<ConnId>, pg: PgId, head: &ObjectId) {
        let is_it = |pulled: &mut Pulled| {
            conn.is_none_or(|conn| pulled.conn == conn) && pulled.pull.pg == pg && pulled.head() == *head
        };
        while let Some(at) = self.waiting.iter_mut().position(is_it) {
            self.urgent.extend(self.waiting.remove(at));
        }
    }

    /// A session is gone, and with it who wanted something.
    pub fn closed(&mut self, conn: ConnId) {
        self.retain(|pulled| pulled.conn != conn);
    }

    fn retain(&mut self, keeps: impl Fn(&Pulled) -> bool) {
        self.urgent.retain(&keeps);
        self.waiting.retain(&keeps);
    }

    /// What may be read now, and the group that has it.
    pub fn take(&mut self) -> Option<(PgId, Pulled)> {
        let may = self.reading < PULLED_BYTES_MAX;
        let pulled = if may { self.urgent.pop_front().or_else(|| self.waiting.pop_front())? } else { return None };
        Some((pulled.pull.pg, pulled))
    }

    /// So much is being read.
    pub fn began(&mut self, bytes: u64) {
        self.reading += bytes;
    }

    /// The store has answered such a read.
    pub fn ended(&mut self, bytes: u64) {
        self.reading = self.reading.checked_sub(bytes).expect("what ends has begun");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    fn named(object: &str) -> ObjectId {
        ObjectId::new(1, b"", b"", object.as_bytes(), SnapId::HEAD)
    }

    fn pulled(conn: u64, object: &'static str, round: u32, bytes: u64) -> Pulled {
        let pg = PgId::new(PoolId(1), 0);
        let pull = PgPull { pg, round, ..PgPull::default() };
        Pulled { conn: ConnId(conn), pull: Box::new(pull), id: named(object), bytes }
    }

    fn begin(pace: &mut PullPace) -> Option<u32> {
        let (_, pulled) = pace.take()?;
        pace.began(pulled.bytes);
        Some(pulled.pull.round)
    }

    #[test]
    fn what_waits_comes_in_turn_as_others_are_done() {
        let mut pace = PullPace::default();
        let half = PULLED_BYTES_MAX / 2;
        for (round, object) in ["a", "b", "c", "d"].into_iter().enumerate() {
            pace.want(pulled(1, object, round as u32, half), false);
        }
        assert_eq!([begin(&mut pace), begin(&mut pace), begin(&mut pace)], [Some(0), Some(1), None]);
        pace.ended(half);
        assert_eq!([begin(&mut pace), begin(&mut pace)], [Some(2), None]);
    }

    #[test]
    fn one_of_any_size_is_read() {
        let mut pace = PullPace::default();
        pace.want(pulled(1, "large", 1, 2 * PULLED_BYTES_MAX), false);
        assert_eq!(begin(&mut pace), Some(1));
    }

    #[test]
    fn what_a_client_waits_for_comes_first() {
        let mut pace = PullPace::default();
        for (round, object) in ["a", "b", "c", "d"].into_iter().enumerate() {
            pace.want(pulled(1, object, round as u32, 1), object == "c");
        }
        let pg = PgId::new(PoolId(1), 0);
        pace.hurry(Some(ConnId(2)), pg, &named("b"));
        pace.hurry(Some(ConnId(1)), pg, &named("d"));
        let order: Vec<_> = core::iter::from_fn(|| begin(&mut pace)).collect();
        assert_eq!(order, [2, 3, 0, 1]);
    }

    #[test]
    fn who_asks_again_waits_once_and_who_is_gone_does_not() {
        let mut pace = PullPace::default();
        for (conn, round) in [(1, 1), (1, 2), (2, 3)] {
            pace.want(pulled(conn, "a", round, 1), round == 1);
        }
        pace.closed(ConnId(2));
        assert_eq!([begin(&mut pace), begin(&mut pace)], [Some(2), None]);
    }
}
