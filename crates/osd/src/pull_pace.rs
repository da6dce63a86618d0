//! How much of what other OSDs pull is read at once: so many bytes, first come, first served.
//!
//! They may ask for dozens of objects at a time. A device that reads all of those side by side is done with each of them
//! late: whoever pulls would have nothing to write for as long, then everything at once, and nothing to read meanwhile.
//!
//! Invariant: what is read at once is at most [`PULLED_BYTES_MAX`] and one piece; nobody has a piece waiting twice.

use crate::limits::PULLED_BYTES_MAX;
use base::PgId;
use std::collections::VecDeque;
use wire::messages::PgPull;
use wire::net::ConnId;

/// A piece of an object that another OSD has asked for.
#[derive(Debug)]
pub struct Pulled {
    /// The session on which it did.
    pub conn: ConnId,
    /// What it wants.
    pub pull: Box<PgPull>,
    /// About how many bytes that is.
    pub bytes: u64,
}

/// What waits, and how much is being read.
#[derive(Debug, Default)]
pub struct PullPace {
    reading: u64,
    waiting: VecDeque<Pulled>,
}

impl PullPace {
    /// Another OSD wants a piece; again, if it does not know whether it has asked.
    pub fn want(&mut self, pulled: Pulled) {
        let same = |other: &Pulled| {
            other.conn == pulled.conn && other.pull.pg == pulled.pull.pg && other.pull.object == pulled.pull.object
        };
        self.waiting.retain(|other| !same(other));
        self.waiting.push_back(pulled);
    }

    /// A session is gone, and with it who wanted something.
    pub fn closed(&mut self, conn: ConnId) {
        self.waiting.retain(|pulled| pulled.conn != conn);
    }

    /// What may be read now, and the group that has it.
    pub fn take(&mut self) -> Option<(PgId, Pulled)> {
        let pulled = if self.reading < PULLED_BYTES_MAX { self.waiting.pop_front()? } else { return None };
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
    use bytes::Bytes;

    fn pulled(conn: u64, object: &'static str, round: u32, bytes: u64) -> Pulled {
        let pg = PgId::new(PoolId(1), 0);
        let pull = PgPull { pg, object: Bytes::from_static(object.as_bytes()), round, ..PgPull::default() };
        Pulled { conn: ConnId(conn), pull: Box::new(pull), bytes }
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
            pace.want(pulled(1, object, round as u32, half));
        }
        assert_eq!([begin(&mut pace), begin(&mut pace), begin(&mut pace)], [Some(0), Some(1), None]);
        pace.ended(half);
        assert_eq!([begin(&mut pace), begin(&mut pace)], [Some(2), None]);
    }

    #[test]
    fn one_of_any_size_is_read() {
        let mut pace = PullPace::default();
        pace.want(pulled(1, "large", 1, 2 * PULLED_BYTES_MAX));
        assert_eq!(begin(&mut pace), Some(1));
    }

    #[test]
    fn who_asks_again_waits_once_and_who_is_gone_does_not() {
        let mut pace = PullPace::default();
        for (conn, round) in [(1, 1), (1, 2), (2, 3)] {
            pace.want(pulled(conn, "a", round, 1));
        }
        pace.closed(ConnId(2));
        assert_eq!([begin(&mut pace), begin(&mut pace)], [Some(2), None]);
    }
}
