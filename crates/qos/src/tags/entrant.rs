//! One who competes: its tags, and what service does to them.
//!
//! Owns the charges: what of a piece of work counts by weight, of a reservation and of a limit.

use crate::afar::{Afar, Elsewhere, Settled};
use crate::limits::{AFAR_CREDIT, LIMIT_CREDIT, RESERVATION_CREDIT, RESERVED_BYTES_PER_UNIT};
use crate::min_tree::KEY_MAX;
use crate::promise::Promise;
use crate::work::Cost;
use base::Bug;

/// Of the time of weights, in a unit of work at weight 1.
pub(super) const WEIGHT_SCALE: f64 = (1u64 << 20) as f64;

/// What an entrant that others serve too may make up for of its reservation when it comes back here: well below where the
/// clock of reservations stops, which is all entrants'.
pub(super) const AFAR_RESERVATION_CREDIT_NS: u64 = RESERVATION_CREDIT.as_nanos() as u64 / 2;

/// What service costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// By weight.
    pub(crate) units: f64,
    /// Of a reservation.
    pub(crate) reserved: f64,
    /// Of a limit.
    pub(crate) limited: f64,
    pub(crate) bytes: u64,
}

impl Charge {
    /// The same by weight, of a reservation and of a limit: a class's.
    pub(crate) fn alike(units: f64, bytes: u64) -> Charge {
        Charge { units, reserved: units, limited: units, bytes }
    }

    /// That of a flow in a class: limits count requests, reservations those of a size that is the same everywhere.
    pub(crate) fn of_flow(units: f64, cost: Cost) -> Charge {
        let ios = f64::from(cost.ios.max(1));
        let reserved = ios.max(cost.bytes as f64 / RESERVED_BYTES_PER_UNIT);
        Charge { units, reserved, limited: ios, bytes: cost.bytes }
    }
}

/// Who competes, and its tags: two lines of cache side by side. Whom nothing but a weight is promised, service touches in
/// the first only. Ten thousand take their turns in no order that a cache could know, so each line costs more than all that
/// is computed with it.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Entrant {
    pub(super) p: u64,
    pub(super) weight_step: f64,
    /// What its last service moved `p` on by.
    pub(super) last_step: u64,
    /// The busy period that `p` is of.
    pub(super) period: u64,
    /// What it had past this competition since it was served last.
    pub(super) besides: f64,
    /// Nothing below it may run before.
    pub(super) held_until: u64,
    pub(super) r: u64,
    pub(super) active: bool,
    pub(super) held: bool,
    reserves: bool,
    limited: bool,

    pub(super) l: u64,
    pub(super) b: u64,
    pub(super) reservation_ns: (f64, f64),
    pub(super) limit_ns: (f64, f64),
    /// What its last service by reservation moved `r` on by.
    pub(super) last_reserved: u64,
    /// Where others serve it too.
    pub(super) afar: Option<Box<Afar>>,
}

const _: () = assert!(size_of::<Entrant>() == 128, "two lines");
const _: () = assert!(core::mem::offset_of!(Entrant, l) == 64, "what is only for reservations and limits lies apart");

impl Entrant {
    pub(super) fn new(promise: Promise) -> Entrant {
        let mut entrant = Entrant {
            p: 0,
            weight_step: 0.0,
            last_step: 0,
            period: 0,
            besides: 0.0,
            held_until: 0,
            r: 0,
            active: false,
            held: false,
            reserves: false,
            limited: false,
            l: 0,
            b: 0,
            reservation_ns: (0.0, 0.0),
            limit_ns: (0.0, 0.0),
            last_reserved: 0,
            afar: None,
        };
        entrant.set_promise(&promise);
        entrant
    }

    /// What service costs it from now on. The tags stay as they are.
    pub(super) fn set_promise(&mut self, promise: &Promise) {
        self.weight_step = WEIGHT_SCALE / f64::from(promise.parts());
        self.reservation_ns = promise.reservation_ns();
        self.limit_ns = promise.limit_ns();
        self.reserves = self.reservation_ns != (0.0, 0.0);
        self.limited = self.limit_ns != (0.0, 0.0);
        if !promise.is_kept_together() {
            self.afar = None;
        }
    }

    pub(super) fn reserves(&self) -> bool {
        self.reserves
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limited
    }

    /// Whether servers that share its promise have to know of one another's service.
    pub(super) fn is_kept_together(&self) -> bool {
        self.reserves || self.limited
    }

    /// When its limits, and what is below it, let it run.
    pub(super) fn runs_from(&self) -> u64 {
        let limits = if self.limited { self.l.max(self.b) } else { 0 };
        limits.max(self.held_until).min(KEY_MAX)
    }

    pub(super) fn charge_limits(&mut self, now: u64, charge: Charge) {
        if !self.is_kept_together() {
            return;
        }
        let credit = if self.afar.is_some() { AFAR_CREDIT } else { LIMIT_CREDIT };
        let floor = now.saturating_sub(credit.as_nanos() as u64);
        let (mut requests, mut bytes) = (charge.limited, charge.bytes as f64);
        if Bug::BytesFree.is_planted() {
            bytes = 0.0;
        }
        if let Some(afar) = &mut self.afar {
            (requests, bytes) = afar.served(requests, bytes);
        }
        if self.limit_ns.0 > 0.0 {
            self.l = self.l.max(floor).saturating_add(rounded_up(requests * self.limit_ns.0));
        }
        if self.limit_ns.1 > 0.0 {
            self.b = self.b.max(floor).saturating_add(rounded_up(bytes * self.limit_ns.1));
        }
    }

    pub(super) fn charge_reservation(&mut self, charge: Charge) {
        if !self.reserves {
            return;
        }
        let (unit_ns, byte_ns) = self.reservation_ns;
        let mut ns = f64::max(charge.reserved * unit_ns, charge.bytes as f64 * byte_ns);
        if let Some(afar) = &mut self.afar {
            ns = afar.served_reserved(ns);
        }
        self.last_reserved = ns as u64;
        self.r = self.r.saturating_add(self.last_reserved);
    }

    /// Others have served it: what was charged for them ahead of the news is corrected.
    pub(super) fn settle(&mut self, (now, behind): (u64, u64), others: Elsewhere) -> Settled {
        let due = now.saturating_sub(behind);
        let waits = self.active && self.l.max(self.b) > now;
        let floor = now.saturating_sub(AFAR_CREDIT.as_nanos() as u64);
        let others = if Bug::OthersUnsettled.is_planted() { Elsewhere::default() } else { others };
        let afar = self.afar.get_or_insert_default();
        let (served, more) = afar.settle(others);
        let stood = behind - core::mem::replace(&mut afar.behind_seen, behind);
        let moved = |tag: u64, floor: u64, ns: f64| {
            let tag = if ns > 0.0 { tag.max(floor) } else { tag };
            tag.saturating_add_signed(ns as i64)
        };
        self.l = moved(self.l, floor, more.requests * self.limit_ns.0);
        self.b = moved(self.b, floor, more.bytes * self.limit_ns.1);
        if self.reserves {
            // The clock of reservations stands still here while this server cannot keep them; that of the others goes on.
            // What they have served by it meanwhile would else keep this tag ahead of the clock here for good.
            let floor = due.saturating_sub(AFAR_RESERVATION_CREDIT_NS);
            let ahead = self.r.saturating_sub(due).min(stood);
            self.r = moved(self.r - ahead, floor, more.reserved_ns);
        }
        Settled { served, waits, queued: self.active }
    }

    pub(super) fn charge_weight(&mut self, units: f64) {
        self.last_step = ((units * self.weight_step) as u64).max(1);
        self.p = self.p.saturating_add(self.last_step);
    }
}

/// The whole nanoseconds that a time takes. (`f64::ceil` is a call of a library on processors of the baseline.)
fn rounded_up(ns: f64) -> u64 {
    let whole = ns as u64;
    whole.saturating_add(u64::from((whole as f64) < ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        for ns in [0.0, 0.001, 1.0, 1.5, 999_999.0, 999_999.000_1, 1e15 + 0.5, 1e19] {
            assert_eq!(rounded_up(ns), ns.ceil() as u64, "{ns}");
        }
        assert_eq!(rounded_up(f64::INFINITY), u64::MAX);
    }
}
