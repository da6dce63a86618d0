//! Acting sets that this OSD's PGs wish for, until the map has an answer.

use crate::limits::ASK_AGAIN;
use base::{Instant, OsdId, PgId};
use std::collections::BTreeMap;

/// The wishes.
#[derive(Debug, Default)]
pub struct Wishes {
    sets: BTreeMap<PgId, Vec<OsdId>>,
    unsent: bool,
    sent: Instant,
}

impl Wishes {
    /// A PG wants this acting set; an empty one is the up set.
    pub fn wish(&mut self, pg: PgId, acting: Vec<OsdId>) {
        if self.sets.get(&pg) != Some(&acting) {
            self.sets.insert(pg, acting);
            self.unsent = true;
        }
    }

    /// A PG is in a new interval: it may wish anew.
    pub fn forget(&mut self, pg: PgId) {
        self.sets.remove(&pg);
    }

    /// When to ask (again).
    pub fn next_wakeup(&self) -> Option<Instant> {
        let due = if self.unsent { Instant::ZERO } else { self.sent + ASK_AGAIN };
        (!self.sets.is_empty()).then_some(due)
    }

    /// What to ask the monitor now.
    pub fn take_due(&mut self, now: Instant) -> Option<BTreeMap<PgId, Vec<OsdId>>> {
        if self.next_wakeup().is_none_or(|due| due > now) {
            return None;
        }
        (self.unsent, self.sent) = (false, now);
        Some(self.sets.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    #[test]
    fn wishes_are_repeated_until_they_are_answered() {
        let mut wishes = Wishes::default();
        let (pg, now) = (PgId::new(PoolId(1), 0), Instant::from_secs(100));
        assert_eq!((wishes.next_wakeup(), wishes.take_due(now)), (None, None));
        wishes.wish(pg, vec![OsdId(2)]);
        assert_eq!(wishes.take_due(now), Some(BTreeMap::from([(pg, vec![OsdId(2)])])));
        wishes.wish(pg, vec![OsdId(2)]);
        assert_eq!((wishes.next_wakeup(), wishes.take_due(now)), (Some(now + ASK_AGAIN), None));
        assert!(wishes.take_due(now + ASK_AGAIN).is_some());
        wishes.wish(pg, vec![]);
        assert!(wishes.take_due(now + ASK_AGAIN).is_some(), "another wish goes at once");
        wishes.forget(pg);
        assert_eq!(wishes.next_wakeup(), None);
    }
}
