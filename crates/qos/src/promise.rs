//! What a class of work or a tenant is promised: at least, in proportion, at most.

use crate::limits::{RESERVED_BYTES_PER_UNIT, WEIGHT_MAX};

/// A share of service. A class's rates are in units a second (see `CostModel`): small requests a second, in the usual
/// model. A group's limit counts requests of any size, its reservation requests of up to 64 KiB: larger ones count as
/// several, so that what is reserved can be held against what a device does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Promise {
    reservation: f64,
    reservation_bytes: f64,
    weight: u32,
    limit: f64,
    limit_bytes: f64,
}

/// Why figures make no promise. The caller is to blame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadPromise {
    /// A rate is negative, infinite where it must not be, or not a number.
    #[error("a rate has to be a number from 0 on")]
    Rate,
    /// A weight of 0 would shut its owner out, one beyond the maximum could not be told from others.
    #[error("a weight has to be from 1 to {WEIGHT_MAX}")]
    Weight,
    /// A limit of 0 would shut its owner out.
    #[error("a limit has to be more than 0")]
    Limit,
    /// More is reserved than may be had.
    #[error("the reservation is above the limit")]
    ReservationAboveLimit,
}

impl Promise {
    /// A share by weight alone. Panics for a weight that is none.
    pub const fn weight(weight: u32) -> Promise {
        assert!(weight >= 1 && weight <= WEIGHT_MAX, "a weight");
        let none = f64::INFINITY;
        Promise { reservation: 0.0, reservation_bytes: none, weight, limit: none, limit_bytes: none }
    }

    /// At least `reservation` units a second, `weight` parts of what is left, at most `limit` units a second.
    pub fn new(reservation: f64, weight: u32, limit: Option<f64>) -> Result<Promise, BadPromise> {
        let limit = limit.unwrap_or(f64::INFINITY);
        if !(reservation >= 0.0 && reservation.is_finite()) || limit.is_nan() {
            return Err(BadPromise::Rate);
        }
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(BadPromise::Weight);
        }
        if limit <= 0.0 {
            return Err(BadPromise::Limit);
        }
        if reservation > limit {
            return Err(BadPromise::ReservationAboveLimit);
        }
        Ok(Promise { reservation, limit, ..Promise::weight(weight) })
    }

    /// Also at least `reservation` bytes a second: what is beyond either rate is not reserved. Where no units are reserved,
    /// as many are as it takes in requests of 64 KiB. To be said before `at_most_bytes`.
    pub fn at_least_bytes(self, reservation: f64) -> Result<Promise, BadPromise> {
        if !(reservation > 0.0 && reservation.is_finite()) {
            return Err(BadPromise::Rate);
        }
        let units = if self.reservation > 0.0 { self.reservation } else { reservation / RESERVED_BYTES_PER_UNIT };
        Ok(Promise { reservation: units.min(self.limit), reservation_bytes: reservation, ..self })
    }

    /// Also at most `limit` bytes a second.
    pub fn at_most_bytes(self, limit: f64) -> Result<Promise, BadPromise> {
        if limit.is_nan() {
            return Err(BadPromise::Rate);
        }
        if self.reservation_bytes.is_finite() && self.reservation_bytes > limit {
            return Err(BadPromise::ReservationAboveLimit);
        }
        if limit <= 0.0 { Err(BadPromise::Limit) } else { Ok(Promise { limit_bytes: limit, ..self }) }
    }

    /// The least, in units a second; 0 for none.
    pub fn reservation(&self) -> f64 {
        self.reservation
    }

    /// The least, in bytes a second.
    pub fn reservation_bytes(&self) -> Option<f64> {
        self.reservation_bytes.is_finite().then_some(self.reservation_bytes)
    }

    /// Parts of what is left.
    pub fn parts(&self) -> u32 {
        self.weight
    }

    /// The most, in units a second.
    pub fn limit(&self) -> Option<f64> {
        self.limit.is_finite().then_some(self.limit)
    }

    /// The most, in bytes a second.
    pub fn limit_bytes(&self) -> Option<f64> {
        self.limit_bytes.is_finite().then_some(self.limit_bytes)
    }

    /// Whether servers that share the promise have to know of one another's service: a weight means a part of each.
    pub(crate) fn is_kept_together(&self) -> bool {
        self.reservation > 0.0 || self.limit.is_finite() || self.limit_bytes.is_finite()
    }

    /// Nanoseconds of reservation that a unit and a byte use up; 0 without a reservation.
    pub(crate) fn reservation_ns(&self) -> (f64, f64) {
        if self.reservation > 0.0 { (1e9 / self.reservation, 1e9 / self.reservation_bytes) } else { (0.0, 0.0) }
    }

    /// Nanoseconds of the limits that a unit and a byte use up; 0 without a limit.
    pub(crate) fn limit_ns(&self) -> (f64, f64) {
        (1e9 / self.limit, 1e9 / self.limit_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_would_starve_or_contradict_are_refused() {
        let bad = |r, w, l| Promise::new(r, w, l).expect_err("refused");
        assert_eq!(bad(-1.0, 1, None), BadPromise::Rate);
        assert_eq!(bad(f64::NAN, 1, None), BadPromise::Rate);
        assert_eq!(bad(f64::INFINITY, 1, None), BadPromise::Rate);
        assert_eq!(bad(0.0, 0, None), BadPromise::Weight);
        assert_eq!(bad(0.0, WEIGHT_MAX + 1, None), BadPromise::Weight);
        assert_eq!(bad(0.0, 1, Some(0.0)), BadPromise::Limit);
        assert_eq!(bad(11.0, 1, Some(10.0)), BadPromise::ReservationAboveLimit);
        let good = Promise::new(10.0, 3, Some(10.0)).expect("sound");
        assert_eq!((good.reservation(), good.parts(), good.limit()), (10.0, 3, Some(10.0)));
        assert_eq!(good.at_most_bytes(0.0), Err(BadPromise::Limit));
        assert_eq!(good.at_most_bytes(1e6).expect("sound").limit_bytes(), Some(1e6));
        let bytes = Promise::weight(1).at_least_bytes(1e6).expect("sound");
        assert_eq!((bytes.reservation(), bytes.reservation_bytes()), (1e6 / 65_536.0, Some(1e6)));
        assert_eq!(bytes.at_most_bytes(0.9e6), Err(BadPromise::ReservationAboveLimit));
        assert_eq!(good.at_least_bytes(0.0), Err(BadPromise::Rate));
    }
}
