//! When an OSD scrubs: how many placement groups at once, which is next, and the turns of those that are at it.
//!
//! A scrub takes a place on every member (`osd_max_scrubs`), the primary's first; who does not get all of them gives
//! back what it has and tries again a while later. Turns go through the scheduler under the best-effort class.
//!
//! Owns the places and the pace. Which placement group is due is its own business (`pg::scrub::due`).
//!
//! Invariant: no more placement groups have a place than `osd_max_scrubs`.

use crate::limits::{SCRUB_LOOK_INTERVAL, SCRUB_TRY_AGAIN};
use base::{Duration, Instant, PgId};
use std::collections::BTreeSet;

/// Options of scrubs.
#[derive(Clone, PartialEq, Debug)]
pub struct ScrubOptions {
    /// Places (`osd_max_scrubs`).
    pub max: usize,
    /// The pause between two ranges (`osd_scrub_sleep`).
    pub sleep: Duration,
    /// Objects of a range at the most (`osd_scrub_chunk_max`).
    pub range_objects: usize,
    /// Whether what is found is repaired at once (`osd_scrub_auto_repair`).
    pub auto_repair: bool,
    /// Up to how many errors (`osd_scrub_auto_repair_num_errors`).
    pub auto_repair_errors_max: u64,
    /// Between two scrubs, at least (`osd_scrub_min_interval`).
    pub min_interval: Duration,
    /// After which a scrub is due at any hour (`osd_scrub_max_interval`).
    pub max_interval: Duration,
    /// Between two deep scrubs (`osd_deep_scrub_interval`).
    pub deep_interval: Duration,
    /// By which part of the first interval it is stretched at the most (`osd_scrub_interval_randomize_ratio`).
    pub stretch: f64,
    /// The hours of the day (UTC) in which scrubs begin; the same twice for all of them.
    pub hours: (u64, u64),
}

impl Default for ScrubOptions {
    fn default() -> ScrubOptions {
        let day = Duration::from_secs(86_400);
        ScrubOptions {
            max: 1,
            sleep: Duration::ZERO,
            range_objects: 25,
            auto_repair: false,
            auto_repair_errors_max: 5,
            min_interval: day,
            max_interval: day * 7,
            deep_interval: day * 7,
            stretch: 0.5,
            hours: (0, 0),
        }
    }
}

/// The pace.
#[derive(Debug, Default)]
pub struct ScrubPace {
    /// The options.
    pub options: ScrubOptions,
    /// Placement groups that have a place here.
    places: BTreeSet<PgId>,
    /// When to look whether one is due.
    look_at: Instant,
    /// Those that go on at a time of their own.
    timers: BTreeSet<(Instant, PgId)>,
    /// Turns that are wanted, with their costs in bytes.
    turns: Vec<(PgId, usize)>,
}

impl ScrubPace {
    /// Takes a place; false if there is none.
    pub fn take_place(&mut self, pg: PgId) -> bool {
        let free = self.places.contains(&pg) || self.places.len() < self.options.max;
        if free {
            self.places.insert(pg);
        }
        free
    }

    /// Gives a place back.
    pub fn give_place(&mut self, pg: PgId) {
        if self.places.remove(&pg) {
            self.timers.retain(|(_, timer)| *timer != pg);
            self.look_at = Instant::ZERO;
        }
    }

    /// Who has a place.
    pub fn places(&self) -> impl Iterator<Item = PgId> {
        self.places.iter().copied()
    }

    /// Whether there is a place.
    pub fn has_place(&self) -> bool {
        self.places.len() < self.options.max
    }

    /// Another has no place: tries again when some time has passed, not both at the same time.
    pub fn refused(&mut self, now: Instant, salt: u64) {
        let spread = SCRUB_TRY_AGAIN / 16 * (salt % 17) as u32;
        self.look_at = now + SCRUB_TRY_AGAIN / 4 + spread;
    }

    /// Somebody has asked for a scrub.
    pub fn look_soon(&mut self) {
        self.look_at = Instant::ZERO;
    }

    /// Whether it is time to look which placement group is due.
    pub fn is_time(&mut self, now: Instant) -> bool {
        let is = now >= self.look_at && self.has_place();
        if is {
            self.look_at = now + SCRUB_LOOK_INTERVAL;
        }
        is
    }

    /// Wakes a placement group at this time.
    pub fn wake_at(&mut self, at: Instant, pg: PgId) {
        self.timers.insert((at, pg));
    }

    /// The next placement group whose time has come.
    pub fn pop_timer(&mut self, now: Instant) -> Option<PgId> {
        let (at, pg) = *self.timers.first()?;
        (at <= now).then(|| {
            self.timers.pop_first();
            pg
        })
    }

    /// When something is to be done.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let look = self.has_place().then_some(self.look_at);
        look.into_iter().chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    /// A placement group wants a turn that reads about so many bytes.
    pub fn want_turn(&mut self, pg: PgId, cost_bytes: usize) {
        self.turns.push((pg, cost_bytes));
    }

    /// Whether turns are wanted.
    pub fn wants_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The turns that are wanted.
    pub fn take_turns(&mut self) -> Vec<(PgId, usize)> {
        core::mem::take(&mut self.turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    #[test]
    fn places_are_counted_and_come_back() {
        let mut pace = ScrubPace::default();
        let (a, b) = (PgId::new(PoolId(1), 0), PgId::new(PoolId(1), 1));
        let now = Instant::from_secs(100);
        assert!(pace.take_place(a) && pace.take_place(a) && !pace.take_place(b));
        pace.wake_at(now, a);
        assert!(!pace.is_time(now));
        pace.give_place(a);
        assert_eq!(pace.pop_timer(now), None, "its timer goes with its place");
        assert!(pace.is_time(now) && !pace.is_time(now), "one look at a time");
        pace.refused(now, 3);
        let again = pace.next_wakeup().expect("it tries again");
        assert!(again > now && again < now + SCRUB_TRY_AGAIN * 2);
        assert!(pace.take_place(b) && pace.next_wakeup().is_none());
    }
}
