//! When groups get their turns of removing snapshots: at once, or after a pause (`osd_snap_trim_sleep`).

use base::{Duration, Instant, PgId};
use std::collections::BTreeSet;

/// The pace.
#[derive(Debug, Default)]
pub struct TrimPace {
    sleep: Duration,
    wanted: Vec<PgId>,
    /// Groups that pause, by when that ends.
    timers: BTreeSet<(Instant, PgId)>,
}

impl TrimPace {
    /// How long groups pause before each turn from now on.
    pub fn set(&mut self, sleep: Duration) {
        self.sleep = sleep;
    }

    /// A group wants a turn.
    pub fn want(&mut self, now: Instant, pg: PgId) {
        if self.sleep == Duration::ZERO {
            self.wanted.push(pg);
        } else {
            self.timers.insert((now + self.sleep, pg));
        }
    }

    /// Whether a turn is to be scheduled.
    pub fn wants_turns(&self, now: Instant) -> bool {
        !self.wanted.is_empty() || self.next_wakeup().is_some_and(|at| at <= now)
    }

    /// The groups whose turns are to be scheduled.
    pub fn take(&mut self, now: Instant) -> Vec<PgId> {
        while let Some((_, pg)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            self.wanted.push(pg);
        }
        core::mem::take(&mut self.wanted)
    }

    /// Whether a group pauses between two turns.
    pub fn pauses(&self, pg: PgId) -> bool {
        self.timers.iter().any(|(_, paused)| *paused == pg)
    }

    /// When the next pause ends.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    #[test]
    fn turns_come_at_once_or_after_the_pause() {
        let (mut pace, pg) = (TrimPace::default(), PgId::new(PoolId(1), 0));
        let at = |ms| Instant::from_secs(1) + Duration::from_millis(ms);
        pace.want(at(0), pg);
        assert!(pace.wants_turns(at(0)));
        assert_eq!(pace.take(at(0)), [pg]);
        pace.set(Duration::from_millis(10));
        pace.want(at(5), pg);
        assert!(pace.pauses(pg) && !pace.pauses(PgId::new(PoolId(1), 1)));
        assert!(!pace.wants_turns(at(14)) && pace.take(at(14)).is_empty());
        assert_eq!((pace.next_wakeup(), pace.wants_turns(at(15))), (Some(at(15)), true));
        assert_eq!((pace.take(at(15)), pace.next_wakeup()), (vec![pg], None));
        assert!(!pace.pauses(pg));
    }
}
