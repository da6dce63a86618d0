//! What is promised beyond a weight: the tags of a reservation and of limits, and what service does to them.
//!
//! Owns the charges: what of a piece of work counts by weight, of a reservation and of a limit.

use crate::afar::{Account, Afar, Elsewhere, Past, Settled};
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
        let reserved = ios.max(f64::from(cost.bytes) / RESERVED_BYTES_PER_UNIT);
        Charge { units, reserved, limited: ios, bytes: u64::from(cost.bytes) }
    }
}

/// Half a line of cache, as the entrant: what is promised in requests.
#[derive(Debug, Default)]
#[repr(align(32))]
pub(super) struct Rates {
    pub(super) r: u64,
    pub(super) l: u64,
    reservation_ns: f64,
    limit_ns: f64,
}

/// What is promised in bytes, where anything is.
#[derive(Debug, Default)]
pub(super) struct ByteRates {
    pub(super) b: u64,
    reservation_ns: f64,
    limit_ns: f64,
    afar: Account,
}

/// All that is promised an entrant beyond a weight: in requests, and if so in bytes, and where others serve it too what is
/// charged for them.
pub(super) struct Promised<'a> {
    pub(super) rates: &'a mut Rates,
    pub(super) bytes: Option<&'a mut ByteRates>,
    pub(super) afar: Option<&'a mut Afar>,
}

impl Promised<'_> {
    /// Puts another promise in force at `now`, and as the clock of reservations says `due`: what is owed by the old one is
    /// owed by the new.
    pub(super) fn set_promise(&mut self, (now, due): (u64, u64), promise: &Promise) {
        let (reservation_ns, limit_ns) = (promise.reservation_ns(), promise.limit_ns());
        self.rates.l = owed(self.rates.l, now, self.rates.limit_ns, limit_ns.0);
        let ns = reservation_ns.0;
        self.rates.r = if ns > 0.0 { owed(self.rates.r, due, self.rates.reservation_ns, ns) } else { due };
        (self.rates.reservation_ns, self.rates.limit_ns) = (reservation_ns.0, limit_ns.0);
        if let Some(bytes) = &mut self.bytes {
            bytes.b = owed(bytes.b, now, bytes.limit_ns, limit_ns.1);
            (bytes.reservation_ns, bytes.limit_ns) = (reservation_ns.1, limit_ns.1);
        }
    }

    /// The limits allow no more for what was before `floor`.
    pub(super) fn raise_limits(&mut self, floor: u64) {
        self.rates.l = self.rates.l.max(floor);
        if let Some(bytes) = &mut self.bytes {
            bytes.b = bytes.b.max(floor);
        }
    }

    /// When the limits allow more.
    pub(super) fn limited_until(&self) -> u64 {
        limited_until(self.rates, self.bytes.as_deref())
    }

    pub(super) fn charge_limits(&mut self, now: u64, charge: Charge) {
        let is_afar = self.afar.is_some();
        let credit = if is_afar { AFAR_CREDIT } else { LIMIT_CREDIT };
        let floor = now.saturating_sub(credit.as_nanos() as u64);
        let requests = self.afar.as_mut().map_or(charge.limited, |afar| afar.requests.serve(charge.limited));
        let rates = &mut *self.rates;
        if rates.limit_ns > 0.0 {
            rates.l = rates.l.max(floor).saturating_add(rounded_up(requests * rates.limit_ns));
        }
        if let Some(rates) = &mut self.bytes {
            let own = if Bug::BytesFree.is_planted() { 0.0 } else { charge.bytes as f64 };
            let bytes = if is_afar { rates.afar.serve(own) } else { own };
            if rates.limit_ns > 0.0 {
                rates.b = rates.b.max(floor).saturating_add(rounded_up(bytes * rates.limit_ns));
            }
        }
    }

    /// Gives what it moved `r` on by.
    pub(super) fn charge_reservation(&mut self, charge: Charge) -> u64 {
        let mut ns = charge.reserved * self.rates.reservation_ns;
        if let Some(bytes) = &self.bytes {
            ns = ns.max(charge.bytes as f64 * bytes.reservation_ns);
        }
        if let Some(afar) = &mut self.afar {
            ns = afar.reserved_ns.serve(ns);
        }
        let moved = whole(ns);
        self.rates.r = self.rates.r.saturating_add(moved);
        moved
    }

    /// Others have served it: what was charged for them ahead of the news is corrected.
    pub(super) fn settle(
        &mut self,
        (now, behind): (u64, u64),
        active: bool,
        past: &mut Past,
        others: Elsewhere,
    ) -> Settled {
        let due = now.saturating_sub(behind);
        let waits = active && self.limited_until() > now;
        let floor = now.saturating_sub(AFAR_CREDIT.as_nanos() as u64);
        let others = if Bug::OthersUnsettled.is_planted() { Elsewhere::default() } else { others };
        let Some(afar) = &mut self.afar else { return Settled::default() };
        let mut uncounted = Account::default();
        let bytes = self.bytes.as_mut().map_or(&mut uncounted, |bytes| &mut bytes.afar);
        let (served, more) = past.settle(afar, bytes, others);
        let stood = behind - core::mem::replace(&mut past.behind_seen, behind);
        let moved = |tag: u64, floor: u64, ns: f64| {
            let tag = if ns > 0.0 { tag.max(floor) } else { tag };
            tag.saturating_add_signed(ns as i64)
        };
        let rates = &mut *self.rates;
        rates.l = moved(rates.l, floor, more.requests * rates.limit_ns);
        if let Some(bytes) = &mut self.bytes {
            bytes.b = moved(bytes.b, floor, more.bytes * bytes.limit_ns);
        }
        if rates.reservation_ns > 0.0 {
            // The clock of reservations stands still here while this server cannot keep them; that of the others goes on.
            // What they have served by it meanwhile would else keep this tag ahead of the clock here for good.
            let floor = due.saturating_sub(AFAR_RESERVATION_CREDIT_NS);
            let ahead = rates.r.saturating_sub(due).min(stood);
            rates.r = moved(rates.r - ahead, floor, more.reserved_ns);
        }
        Settled { served, waits, queued: active }
    }
}

/// When the limits allow more.
pub(super) fn limited_until(rates: &Rates, bytes: Option<&ByteRates>) -> u64 {
    rates.l.max(bytes.map_or(0, |bytes| bytes.b))
}

/// A tag that shows what is owed since `from` at another price of a unit.
fn owed(tag: u64, from: u64, old_ns: f64, new_ns: f64) -> u64 {
    let units = if old_ns > 0.0 { tag.saturating_sub(from) as f64 / old_ns } else { 0.0 };
    from.saturating_add((units * new_ns) as u64)
}

/// The whole units of a cost or a time that is not negative, up to 2^63: the conversion of a processor, where that to `u64`
/// takes two of them and a choice.
pub(super) fn whole(units: f64) -> u64 {
    debug_assert!(units >= 0.0, "{units} is no cost");
    units as i64 as u64
}

/// The whole nanoseconds that a time takes, up to 2^63. (`f64::ceil` is a call of a library on processors of the baseline.)
fn rounded_up(ns: f64) -> u64 {
    let whole = ns as i64;
    whole.saturating_add(i64::from((whole as f64) < ns)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        for ns in [0.0, 0.001, 1.0, 1.5, 999_999.0, 999_999.000_1, 1e15 + 0.5, 9e18] {
            assert_eq!(rounded_up(ns), ns.ceil() as u64, "{ns}");
        }
        assert_eq!(rounded_up(f64::INFINITY), i64::MAX as u64);
    }
}
