//! One who competes: its place by weight, and what service does to it.
//!
//! Read next: `rates` for what may be promised it beyond a weight.

use crate::promise::Promise;

/// Of the time of weights, in a unit of work at weight 1.
pub(super) const WEIGHT_SCALE: f64 = (1u64 << 20) as f64;

/// Who competes: one line of cache, the only one that service touches of whom nothing but a weight is promised. Ten thousand
/// take their turns in no order that a cache could know, so each line costs more than all that is computed with it. That is
/// why what the owner of the competition knows of it, `F`, lies here too.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entrant<F> {
    pub(super) p: u64,
    /// What its last service moved `p` on by.
    pub(super) last_step: u64,
    /// The busy period that `p` is of.
    pub(super) period: u64,
    weight: u32,
    /// What it had past this competition since it was served last.
    pub(super) besides: f32,
    pub(super) active: bool,
    pub(super) held: bool,
    /// Nothing below it may run for now (`Rates::held_until`).
    pub(super) held_below: bool,
    pub(super) reserves: bool,
    pub(super) limited: bool,
    /// Others serve it too.
    pub(super) afar: bool,
    pub(super) of: F,
}

impl<F> Entrant<F> {
    pub(super) fn new(promise: &Promise, of: F) -> Entrant<F> {
        let mut entrant = Entrant {
            p: 0,
            last_step: 0,
            period: 0,
            weight: 1,
            besides: 0.0,
            active: false,
            held: false,
            held_below: false,
            reserves: false,
            limited: false,
            afar: false,
            of,
        };
        entrant.set_promise(promise);
        entrant
    }

    /// What service costs it from now on. The tag stays as it is.
    pub(super) fn set_promise(&mut self, promise: &Promise) {
        self.weight = promise.parts();
        self.reserves = promise.reservation_ns() != (0.0, 0.0);
        self.limited = promise.limit_ns() != (0.0, 0.0);
        self.afar &= promise.is_kept_together();
    }

    /// Whether servers that share its promise have to know of one another's service.
    pub(super) fn is_kept_together(&self) -> bool {
        self.reserves || self.limited
    }

    /// What a unit of work moves `p` on by.
    pub(super) fn weight_step(&self) -> f64 {
        WEIGHT_SCALE / f64::from(self.weight)
    }

    pub(super) fn charge_weight(&mut self, units: f64) {
        self.last_step = ((units * self.weight_step()) as u64).max(1);
        self.p = self.p.saturating_add(self.last_step);
    }
}
