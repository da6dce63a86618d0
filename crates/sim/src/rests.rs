//! Clients that rest now and then, all of a client's requests together, while the cluster goes on.
//!
//! Who has rested comes back with a map of long ago, and to OSDs that have died and come back since.

use base::{Duration, Instant, Rng};

/// Who rests.
#[derive(Debug)]
pub(crate) struct Rests {
    /// A stream of its own, so that the rest is drawn as without.
    rng: Rng,
    longest: Duration,
    until: Vec<Instant>,
}

/// One in how many requests a rest follows.
const AFTER_ONE_IN: u64 = 60;

impl Rests {
    /// Clients that rest at most so long at a time.
    pub(crate) fn new(seed: u64, clients: u32, longest: Duration) -> Rests {
        let rng = Rng::new(seed ^ 0x0072_6573_7469_6E67);
        Rests { rng, longest, until: vec![Instant::ZERO; clients as usize] }
    }

    /// When a client makes a request that it would make at `at`.
    pub(crate) fn wakes(&mut self, client: usize, at: Instant) -> Instant {
        if self.longest == Duration::ZERO {
            return at;
        }
        let until = &mut self.until[client];
        if *until <= at && self.rng.chance(1, AFTER_ONE_IN) {
            let nanos = u64::try_from(self.longest.as_nanos()).unwrap_or(u64::MAX);
            *until = at + Duration::from_nanos(self.rng.below(nanos));
        }
        at.max(*until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_rests_as_a_whole_and_not_for_longer_than_it_may() {
        let (second, longest) = (Duration::from_secs(1), Duration::from_secs(20));
        let mut rests = Rests::new(1, 2, longest);
        let (mut now, mut rested) = (Instant::from_secs(100), 0);
        for _ in 0..1000 {
            let at = rests.wakes(0, now);
            assert!(at >= now && at.since(now) <= longest);
            if at > now {
                rested += 1;
                assert_eq!(rests.wakes(0, now), at, "its other requests wait, too");
            }
            now = at.max(now + second);
        }
        assert!(rested > 5, "{rested}");
        let mut never = Rests::new(1, 2, Duration::ZERO);
        assert!((0..1000).all(|_| never.wakes(1, now) == now));
    }
}
