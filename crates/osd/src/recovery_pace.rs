//! How fast an OSD recovers: how many objects at once, with what pause between them, and whose turn is next.
//!
//! PGs ask for turns and get them in that order; each turn goes through the scheduler under its own class. Options are
//! Ceph's: `osd_recovery_max_active`, `osd_recovery_sleep` (each with its defaults by kind of device),
//! `osd_recovery_max_single_start` and `osd_recovery_delay_start`: so long after a group has begun to serve, no turn begins.
//!
//! Invariant: turns that are scheduled and objects that are under way are together no more than `max_active`, but for
//! objects that clients wait for.

use crate::limits::RECOVERIES_MAX;
use base::{Duration, Instant, PgId};
use std::collections::{BTreeSet, VecDeque};

/// The pace.
#[derive(Debug)]
pub struct RecoveryPace {
    max_active: usize,
    sleep: Duration,
    delay: Duration,
    /// When a group has begun to serve, the last of all.
    peered: Option<Instant>,
    /// Objects that a turn starts at most.
    pub single_start: usize,
    active: usize,
    scheduled: usize,
    /// When the last turn was scheduled; the pause counts from there, also if it is changed meanwhile.
    last: Option<Instant>,
    wanted: VecDeque<PgId>,
    wants: BTreeSet<PgId>,
}

impl Default for RecoveryPace {
    fn default() -> RecoveryPace {
        RecoveryPace {
            max_active: 1,
            sleep: Duration::ZERO,
            delay: Duration::ZERO,
            peered: None,
            single_start: 1,
            active: 0,
            scheduled: 0,
            last: None,
            wanted: VecDeque::new(),
            wants: BTreeSet::new(),
        }
    }
}

impl RecoveryPace {
    /// Takes over the options, as far as there is room.
    pub fn set(&mut self, max_active: usize, sleep: Duration, single_start: usize) {
        let max_active = max_active.clamp(1, RECOVERIES_MAX);
        (self.max_active, self.sleep, self.single_start) = (max_active, sleep, single_start.max(1));
    }

    /// Takes over how long recovery waits after a group has begun to serve.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// A group has begun to serve.
    pub fn peered(&mut self, now: Instant) {
        self.peered = Some(now);
    }

    /// A PG has something to recover.
    pub fn want(&mut self, pg: PgId) {
        if self.wants.insert(pg) {
            self.wanted.push_back(pg);
        }
    }

    /// An object's recovery has begun.
    pub fn began(&mut self) {
        self.active += 1;
    }

    /// An object's recovery has ended.
    pub fn ended(&mut self) {
        self.active = self.active.checked_sub(1).expect("what ends has begun");
    }

    /// How many objects are under way.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Whether more may be under way.
    pub fn has_room(&self) -> bool {
        self.active + self.scheduled < self.max_active
    }

    fn not_before(&self) -> Instant {
        let after = |at: Option<Instant>, pause| at.map_or(Instant::ZERO, |at| at + pause);
        after(self.last, self.sleep).max(after(self.peered, self.delay))
    }

    /// The next PG whose turn may be scheduled.
    pub fn next(&mut self, now: Instant) -> Option<PgId> {
        if !self.has_room() || now < self.not_before() {
            return None;
        }
        let pg = self.wanted.pop_front()?;
        self.wants.remove(&pg);
        self.scheduled += 1;
        self.last = Some(now);
        Some(pg)
    }

    /// A scheduled turn begins.
    pub fn turn_begins(&mut self) {
        self.scheduled = self.scheduled.checked_sub(1).expect("each turn was scheduled");
    }

    /// When a turn may be scheduled that may not now.
    pub fn next_wakeup(&self) -> Option<Instant> {
        (self.has_room() && !self.wanted.is_empty()).then(|| self.not_before())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    /// With limits lifted, what was on its way to one member was more than its session could hold. That was given up and
    /// everything asked for again, without end.
    #[test]
    fn what_is_under_way_fits_a_session_whatever_the_options_say() {
        let mut pace = RecoveryPace::default();
        pace.set(1000, Duration::ZERO, 1);
        (0..1000).for_each(|seed| pace.want(PgId::new(PoolId(1), seed)));
        let begun = (0..1000).filter(|_| pace.next(Instant::from_secs(1)).is_some()).count();
        let bytes = begun as u64 * crate::limits::PUSH_BYTES_MAX;
        assert!(bytes <= wire::msgr::limits::BACKLOG_BYTES_MAX as u64 / 2, "{begun} at once");
    }

    #[test]
    fn turns_go_around_within_the_bounds() {
        let mut pace = RecoveryPace::default();
        pace.set(2, Duration::from_millis(10), 1);
        let (a, b) = (PgId::new(PoolId(1), 0), PgId::new(PoolId(1), 1));
        let at = |ms| Instant::from_secs(1) + Duration::from_millis(ms);
        [a, b, a].into_iter().for_each(|pg| pace.want(pg));
        assert_eq!((pace.next(at(0)), pace.next(at(5))), (Some(a), None), "not without the pause");
        assert_eq!(pace.next_wakeup(), Some(at(10)));
        pace.turn_begins();
        pace.began();
        assert_eq!(pace.next(at(10)), Some(b));
        pace.want(a);
        assert_eq!((pace.next(at(30)), pace.next_wakeup()), (None, None), "one under way, one scheduled");
        pace.ended();
        assert_eq!(pace.next(at(30)), Some(a));
    }
    #[test]
    fn nothing_begins_until_the_delay_after_peering_is_over() {
        let (mut pace, pg) = (RecoveryPace::default(), PgId::new(PoolId(1), 0));
        let at = Instant::from_secs;
        pace.set_delay(Duration::from_secs(5));
        pace.want(pg);
        pace.peered(at(10));
        pace.peered(at(12));
        assert_eq!((pace.next(at(16)), pace.next_wakeup()), (None, Some(at(17))));
        assert_eq!(pace.next(at(17)), Some(pg));
        pace.turn_begins();
        pace.want(pg);
        pace.peered(at(20));
        assert_eq!(pace.next(at(20)), None);
        pace.set_delay(Duration::ZERO);
        assert_eq!(pace.next(at(20)), Some(pg), "an operator takes the delay back");
    }
}
