//! How often this life of an OSD was marked down of late, although it lives.
//!
//! Owns the limit (`osd_max_markdown_count` within `osd_max_markdown_period`). Whom the others lose again and again, for
//! whatever reason, makes all groups peer each time: beyond the limit it stays down until somebody starts it anew. Ceph's
//! ends itself then (v16.2 `src/osd/OSD.cc`, `_committed_osd_maps`); here it may share a process with others.

use base::{Duration, Instant};
use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(crate) struct Markdowns {
    /// Those of the last period, the oldest first; at most one more than are allowed.
    times: VecDeque<Instant>,
    count_max: usize,
    period: Duration,
    stays_down: bool,
}

impl Markdowns {
    /// None so far.
    pub(crate) fn new() -> Markdowns {
        Markdowns { times: VecDeque::new(), count_max: usize::MAX, period: Duration::ZERO, stays_down: false }
    }

    /// How many are allowed within which time, from now on.
    pub(crate) fn set(&mut self, count_max: usize, period: Duration) {
        (self.count_max, self.period) = (count_max, period);
    }

    /// The OSD was marked down. Gives what to say where that is once too often.
    pub(crate) fn note(&mut self, now: Instant) -> Option<String> {
        self.times.push_back(now);
        while self.times.front().is_some_and(|at| now.since(*at) > self.period) {
            self.times.pop_front();
        }
        self.stays_down = self.times.len() > self.count_max;
        self.stays_down.then(|| {
            format!(
                "marked down {} > osd_max_markdown_count {} in last {} seconds, stays down until it is started anew",
                self.times.len(),
                self.count_max,
                self.period.as_secs()
            )
        })
    }

    /// Whether it has been too often.
    pub(crate) fn stays_down(&self) -> bool {
        self.stays_down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_within_the_period_counts() {
        let mut markdowns = Markdowns::new();
        markdowns.set(2, Duration::from_secs(10));
        let mut note = |second| markdowns.note(Instant::from_secs(second)).is_some();
        assert_eq!([0, 6, 12, 17, 24, 28].map(&mut note), [false; 6], "never three within ten seconds");
        assert!(note(29), "28, 24 and this one");
        assert!(markdowns.stays_down());
    }
}
