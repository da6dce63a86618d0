//! One who competes: its place by weight, and what service does to it.
//!
//! Read next: `rates` for what may be promised it beyond a weight.

use super::rates::whole;
use crate::limits::WEIGHT_MAX;
use crate::promise::Promise;

/// Of the time of weights, in a unit of work at weight 1.
pub(super) const WEIGHT_SCALE: f64 = (1u64 << 20) as f64;

/// What is known of an entrant by a yes or no.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Is {
    Active = 1 << 24,
    Held = 1 << 25,
    /// Nothing below it may run for now (`Tags::held_until`).
    HeldBelow = 1 << 26,
    Reserving = 1 << 27,
    Limited = 1 << 28,
    /// Promised something in bytes (`ByteRates`).
    RatedInBytes = 1 << 29,
    /// Others serve it too.
    Afar = 1 << 30,
    /// It had something past this competition since it was served last (`Tags::besides`).
    ServedBesides = 1 << 31,
}

/// The part of `Entrant::standing` that is the weight.
const WEIGHT_BITS: u32 = (1 << 24) - 1;

const _: () = assert!(WEIGHT_MAX <= WEIGHT_BITS, "weights leave the bits above");

/// Who competes: half a line of cache, the only one that service touches of whom nothing but a weight is promised. Ten
/// thousand take their turns in no order that a cache could know, so each line costs more than all that is computed with it,
/// and less where those of all have room in the cache. That is why what the owner of the competition knows of it, `F`, lies
/// here too, and why what few have lies elsewhere.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Entrant<F> {
    pub(super) p: u64,
    pub(super) of: F,
    /// What its last service cost.
    last_units: f32,
    /// Its weight, and above that what it `Is`.
    standing: u32,
}

impl<F> Entrant<F> {
    pub(super) fn new(promise: &Promise, of: F) -> Entrant<F> {
        let mut entrant = Entrant { p: 0, of, last_units: 0.0, standing: 0 };
        entrant.set_promise(promise);
        entrant
    }

    pub(super) fn is(&self, what: Is) -> bool {
        self.standing & what as u32 != 0
    }

    /// Notes that it is, or is not.
    pub(super) fn set(&mut self, what: Is, is_so: bool) {
        self.standing = self.standing & !(what as u32) | if is_so { what as u32 } else { 0 };
    }

    /// The same; gives whether it was before.
    pub(super) fn replace(&mut self, what: Is, is_so: bool) -> bool {
        let before = self.is(what);
        self.set(what, is_so);
        before
    }

    /// What service costs it from now on. The tag stays as it is.
    pub(super) fn set_promise(&mut self, promise: &Promise) {
        self.standing = self.standing & !WEIGHT_BITS | promise.parts();
        let (reserved, limit) = (promise.reservation_ns(), promise.limit_ns());
        self.set(Is::Reserving, reserved.0 > 0.0);
        self.set(Is::Limited, limit != (0.0, 0.0));
        self.set(Is::RatedInBytes, reserved.1 > 0.0 || limit.1 > 0.0);
        self.set(Is::Afar, self.is(Is::Afar) && promise.is_kept_together());
    }

    /// Whether servers that share its promise have to know of one another's service.
    pub(super) fn is_kept_together(&self) -> bool {
        self.standing & (Is::Reserving as u32 | Is::Limited as u32) != 0
    }

    /// What a unit of work moves `p` on by.
    pub(super) fn weight_step(&self) -> f64 {
        WEIGHT_SCALE / f64::from(self.standing & WEIGHT_BITS)
    }

    /// What its last service moved `p` on by.
    pub(super) fn last_step(&self) -> u64 {
        self.step(f64::from(self.last_units))
    }

    pub(super) fn charge_weight(&mut self, units: f64) {
        self.last_units = units as f32;
        self.p = self.p.saturating_add(self.step(units));
    }

    fn step(&self, units: f64) -> u64 {
        whole(units * self.weight_step()).max(1)
    }
}
