//! What is seen of a device in some time.

use super::estimate::Estimate;
use crate::window::FULL;
use base::Duration;

/// Limits were in force if they were for this part of the time.
const LIMITED: f64 = 0.1;

/// What is seen of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Time that passed, in seconds; that in which something was asked of the device, and was under way or held back by a limit;
    /// those in which work waited for room, or for a limit.
    pub(super) lasted_s: f64,
    pub(super) asked_s: f64,
    pub(super) full_s: f64,
    pub(super) limited_s: f64,
    /// The sum over all work of the time it was under way, in seconds, and the same of its units.
    pub(super) delay_s: f64,
    pub(super) load_s: f64,
    pub(super) works: f64,
    pub(super) units: f64,
}

impl Seen {
    /// Takes in a window; what was before counts for a third after `memory` at work.
    pub(super) fn take_in(&mut self, window: &Seen, memory: Duration) {
        let kept = (-window.asked_s / memory.as_secs_f64()).exp();
        *self = Seen {
            lasted_s: self.lasted_s * kept + window.lasted_s,
            asked_s: self.asked_s * kept + window.asked_s,
            full_s: self.full_s * kept + window.full_s,
            limited_s: self.limited_s * kept + window.limited_s,
            delay_s: self.delay_s * kept + window.delay_s,
            load_s: self.load_s * kept + window.load_s,
            works: self.works * kept + window.works,
            units: self.units * kept + window.units,
        };
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limited_s >= LIMITED * self.lasted_s
    }

    pub(super) fn is_full(&self) -> bool {
        self.full_s >= FULL * self.lasted_s
    }

    /// Units a second, whether or not there was something to do.
    pub(super) fn given(&self) -> f64 {
        self.units / self.lasted_s
    }

    pub(super) fn mean_delay_s(&self) -> f64 {
        self.delay_s / self.works
    }

    /// What this shows, if it shows all.
    pub(super) fn estimate(&self) -> Estimate {
        Estimate {
            capacity: self.units / self.asked_s,
            load: self.load_s / self.asked_s,
            pieces: self.delay_s / self.asked_s,
        }
    }
}
