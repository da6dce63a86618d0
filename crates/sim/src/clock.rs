//! What time a node believes it is: clocks are set apart, and go apart.

use crate::world::BEGINNING;
use base::{Instant, Rng};

/// A node's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock {
    /// How far ahead it is at the beginning, in nanoseconds.
    ahead: i64,
    /// How much it gains, in nanoseconds for each millisecond.
    gains: i64,
}

const MILLISECOND: i64 = 1_000_000;

/// `value` times `by` divided by `over`. What fits into 64 bits, as it does for hours of any clock, costs a few cycles only.
fn scaled(value: i128, by: i64, over: i64) -> i128 {
    match i64::try_from(value).ok().and_then(|value| value.checked_mul(by)) {
        Some(product) => i128::from(product / over),
        None => value * i128::from(by) / i128::from(over),
    }
}

impl Clock {
    /// A clock that gains or loses up to so many millionths, and is up to a thousand times as many nanoseconds off.
    pub(crate) fn draw(ppm_max: u32, rng: &mut Rng) -> Clock {
        let mut within = |max: i64| rng.below(2 * max as u64 + 1) as i64 - max;
        let ppm = i64::from(ppm_max);
        Clock { ahead: within(ppm * 1_000_000), gains: within(ppm) }
    }

    /// What it shows.
    pub(crate) fn shows(self, now: Instant) -> Instant {
        let elapsed = i128::from(now.0) - i128::from(BEGINNING.0);
        let off = i128::from(self.ahead) + scaled(elapsed, self.gains, MILLISECOND);
        Instant((i128::from(now.0) + off) as u64)
    }

    /// The first moment at which it shows this, or later.
    pub(crate) fn when(self, shown: Instant) -> Instant {
        let since = i128::from(shown.0) - i128::from(BEGINNING.0) - i128::from(self.ahead);
        let elapsed = scaled(since, MILLISECOND, MILLISECOND + self.gains);
        // Rounding takes a nanosecond or two either way.
        let mut at = Instant((i128::from(BEGINNING.0) + elapsed - 2).max(0) as u64);
        while self.shows(at) < shown {
            at.0 += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_by_what_the_clock_shows() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let clock = Clock::draw(500, &mut rng);
            let now = Instant(BEGINNING.0 + rng.below(1_000_000_000_000));
            let at = clock.when(clock.shows(now));
            assert!(at <= now && clock.shows(at) == clock.shows(now), "{clock:?} {now:?} {at:?}");
        }
        assert_eq!(Clock::default().shows(Instant(7)), Instant(7));
    }
}
