//! Clients that hurry for a while when an OSD has come back, so that what they write runs into what it is told and given.
//!
//! At the pace of the rest of a run a member is compared, filled and recovered between two writes, as a rule.

use base::{Duration, Epoch, Instant, Rng};

/// When clients hurry.
#[derive(Debug)]
pub(crate) struct Rushes {
    /// A stream of its own, so that the rest is drawn as without.
    rng: Rng,
    may: bool,
    /// The newest map that showed more OSDs as up than the one before.
    seen: Epoch,
    until: Instant,
}

/// How long a rush lasts at the most.
const LASTS_MAX_NANOS: u64 = 1_000_000_000;
/// How much shorter pauses are in it.
const FASTER: u32 = 8;

impl Rushes {
    /// Rushes, or none at all.
    pub(crate) fn new(seed: u64, may: bool) -> Rushes {
        Rushes { rng: Rng::new(seed ^ 0x0072_7573_6865_7321), may, seen: Epoch(0), until: Instant::ZERO }
    }

    /// A map of this epoch shows that an OSD has come back.
    pub(crate) fn has_company(&mut self, now: Instant, epoch: Epoch) {
        if self.may && epoch > self.seen {
            self.seen = epoch;
            if self.rng.chance(1, 2) {
                self.until = now + Duration::from_nanos(self.rng.below(LASTS_MAX_NANOS));
            }
        }
    }

    /// The mean pause between a client's requests now, where it is this otherwise.
    pub(crate) fn pause(&self, now: Instant, usual: Duration) -> Duration {
        if now < self.until { usual / FASTER } else { usual }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_begins_with_a_map_and_ends() {
        let usual = Duration::from_millis(80);
        let (mut rushes, mut none) = (Rushes::new(1, true), Rushes::new(1, false));
        let mut hurried = 0;
        for epoch in 1..100 {
            let now = Instant::from_secs(u64::from(epoch) * 10);
            for rushes in [&mut rushes, &mut none] {
                rushes.has_company(now, Epoch(epoch));
                // Others hear of the same map later.
                rushes.has_company(now + Duration::from_secs(5), Epoch(epoch));
                assert_eq!(rushes.pause(now + Duration::from_secs(1), usual), usual);
            }
            assert_eq!(none.pause(now, usual), usual);
            hurried += u32::from(rushes.pause(now, usual) == usual / 8);
        }
        assert!((30..70).contains(&hurried), "{hurried}");
    }
}
