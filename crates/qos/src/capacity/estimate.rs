//! A capacity, and the load that shows it.

/// As much to do as when the estimate was made, and as much done for what there was to do, with allowance for chance.
pub(super) const AS_MUCH: f64 = 0.9;
/// Pieces and units under way that an assumed capacity stands for.
const ASSUMED_LOAD: f64 = 16.0;

/// What a device does, and with how much to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Units a second.
    pub(super) capacity: f64,
    /// The least number of units under way that showed it, and in how many pieces.
    pub(super) load: f64,
    pub(super) pieces: f64,
}

impl Estimate {
    pub(super) fn assumed(capacity: f64) -> Estimate {
        Estimate { capacity, load: ASSUMED_LOAD, pieces: ASSUMED_LOAD }
    }

    /// What part of the load that showed this there was. Few large pieces and many small ones may be as much to do.
    pub(super) fn part_there(&self, seen: &Estimate) -> f64 {
        (seen.load / self.load).max(seen.pieces / self.pieces)
    }

    /// Whether a device with as much to do as this capacity takes, or with the most that it is ever given, does less.
    pub(super) fn is_missed_by(&self, seen: &Estimate, is_most: bool) -> bool {
        let there = if is_most { 1.0 } else { self.part_there(seen) };
        there >= AS_MUCH && seen.capacity < self.capacity * if there < 1.0 { AS_MUCH * there } else { 1.0 }
    }

    /// Comes down to what is seen of a device with a little less to do than this takes. With as much it would do between that
    /// and more in proportion; half way is what is known of it.
    pub(super) fn come_down_to(&mut self, seen: &Estimate) {
        let there = self.part_there(seen);
        if (AS_MUCH..1.0).contains(&there) {
            self.capacity = self.capacity.min(seen.capacity * (1.0 + 1.0 / there) / 2.0);
        }
    }

    pub(super) fn needs_no_more_than(&mut self, seen: &Estimate) {
        (self.load, self.pieces) = (self.load.min(seen.load), self.pieces.min(seen.pieces));
    }
}
