//! What is promised beyond a weight: the tags of a reservation and of limits, and what service does to them.
//!
//! Owns the charges: what of a piece of work counts by weight, of a reservation and of a limit.

use crate::afar::{Afar, Elsewhere, Settled};
use crate::limits::{AFAR_CREDIT, LIMIT_CREDIT, RESERVATION_CREDIT, RESERVED_BYTES_PER_UNIT};
use crate::promise::Promise;
use crate::work::Cost;
use base::Bug;

/// What an entrant that others serve too may make up for of its reservation when it comes back here: a little less than makes
/// the clock of reservations stop, which is all entrants'. Who asks at random times uses up some of it by chance: with half as
/// much, one of five hundred who asked for four fifths of what is reserved waited a hundred times as long as alone for more
/// than one request in a hundred.
pub(super) const AFAR_RESERVATION_CREDIT_NS: u64 = RESERVATION_CREDIT.as_nanos() as u64 / 10 * 9;

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

/// One line of cache beside that of the entrant.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Rates {
    pub(super) r: u64,
    pub(super) l: u64,
    pub(super) b: u64,
    /// Nothing below the entrant may run before, while it is held for that.
    pub(super) held_until: u64,
    pub(super) reservation_ns: (f64, f64),
    pub(super) limit_ns: (f64, f64),
}

const _: () = assert!(size_of::<Rates>() == 64, "one line");

impl Rates {
    pub(super) fn new(promise: &Promise) -> Rates {
        let mut rates = Rates::default();
        rates.set_promise(promise);
        rates
    }

    /// What service costs from now on. The tags stay as they are.
    pub(super) fn set_promise(&mut self, promise: &Promise) {
        self.reservation_ns = promise.reservation_ns();
        self.limit_ns = promise.limit_ns();
    }

    /// When the limits allow more.
    pub(super) fn limited_until(&self) -> u64 {
        self.l.max(self.b)
    }

    pub(super) fn charge_limits(&mut self, now: u64, charge: Charge, afar: Option<&mut Afar>) {
        let credit = if afar.is_some() { AFAR_CREDIT } else { LIMIT_CREDIT };
        let floor = now.saturating_sub(credit.as_nanos() as u64);
        let (mut requests, mut bytes) = (charge.limited, charge.bytes as f64);
        if Bug::BytesFree.is_planted() {
            bytes = 0.0;
        }
        if let Some(afar) = afar {
            (requests, bytes) = afar.served(requests, bytes);
        }
        if self.limit_ns.0 > 0.0 {
            self.l = self.l.max(floor).saturating_add(rounded_up(requests * self.limit_ns.0));
        }
        if self.limit_ns.1 > 0.0 {
            self.b = self.b.max(floor).saturating_add(rounded_up(bytes * self.limit_ns.1));
        }
    }

    /// Gives what it moved `r` on by.
    pub(super) fn charge_reservation(&mut self, charge: Charge, afar: Option<&mut Afar>) -> u64 {
        let (unit_ns, byte_ns) = self.reservation_ns;
        let mut ns = f64::max(charge.reserved * unit_ns, charge.bytes as f64 * byte_ns);
        if let Some(afar) = afar {
            ns = afar.served_reserved(ns);
        }
        let moved = ns as u64;
        self.r = self.r.saturating_add(moved);
        moved
    }

    /// Others have served it: what was charged for them ahead of the news is corrected.
    pub(super) fn settle(
        &mut self,
        (now, behind): (u64, u64),
        active: bool,
        afar: &mut Afar,
        others: Elsewhere,
    ) -> Settled {
        let due = now.saturating_sub(behind);
        let waits = active && self.limited_until() > now;
        let floor = now.saturating_sub(AFAR_CREDIT.as_nanos() as u64);
        let others = if Bug::OthersUnsettled.is_planted() { Elsewhere::default() } else { others };
        let (served, more) = afar.settle(others);
        let stood = behind - core::mem::replace(&mut afar.behind_seen, behind);
        let moved = |tag: u64, floor: u64, ns: f64| {
            let tag = if ns > 0.0 { tag.max(floor) } else { tag };
            tag.saturating_add_signed(ns as i64)
        };
        self.l = moved(self.l, floor, more.requests * self.limit_ns.0);
        self.b = moved(self.b, floor, more.bytes * self.limit_ns.1);
        if self.reservation_ns.0 > 0.0 {
            // The clock of reservations stands still here while this server cannot keep them; that of the others goes on.
            // What they have served by it meanwhile would else keep this tag ahead of the clock here for good.
            let floor = due.saturating_sub(AFAR_RESERVATION_CREDIT_NS);
            let ahead = self.r.saturating_sub(due).min(stood);
            self.r = moved(self.r - ahead, floor, more.reserved_ns);
        }
        Settled { served, waits, queued: active }
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
