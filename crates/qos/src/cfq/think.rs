//! How long a sender takes between an answer and its next request: whether waiting for it is worth while.

use base::{Duration, Instant};

/// Samples before the mean says anything.
const SAMPLES_MIN: u32 = 4;

/// A decaying mean of think times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThinkTime {
    last_done: Option<Instant>,
    mean_ns: u64,
    samples: u32,
}

impl ThinkTime {
    /// A request has been answered.
    pub(crate) fn answered(&mut self, now: Instant) {
        self.last_done = Some(now);
    }

    /// A request has come while no other was there.
    pub(crate) fn asked(&mut self, now: Instant) {
        let Some(done) = self.last_done else { return };
        // A long absence counts, but need not be unlearnt for as long.
        let think = now.since(done).min(Duration::from_secs(1)).as_nanos() as u64;
        self.samples = self.samples.saturating_add(1);
        self.mean_ns = if self.samples == 1 { think } else { (7 * self.mean_ns + think) / 8 };
    }

    /// Whether the next request is likely to come within `wait`.
    pub(crate) fn is_prompt(&self, wait: Duration) -> bool {
        self.samples < SAMPLES_MIN || Duration::from_nanos(self.mean_ns) <= wait
    }

    /// When waiting for the next request has lasted for `wait`; from `since` on where nothing was answered yet.
    pub(crate) fn patience_ends(&self, since: Instant, wait: Duration) -> Instant {
        self.last_done.map_or(since, |done| done.max(since)) + wait
    }
}
