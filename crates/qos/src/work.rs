//! Work as a scheduler sees it: whose it is, how urgent, how much. What it is, only its owner knows.
//!
//! Read next: `scheduler`, which takes it.

/// What kind of service work is part of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// What must not wait: others wait for it, or it costs next to nothing. Never delayed by any scheduler.
    Immediate,
    /// What somebody outside asked for.
    Client,
    /// Making copies whole again.
    Recovery,
    /// What nobody waits for: verification, clean-up.
    BestEffort,
}

impl Class {
    /// The classes among which service is shared; all but `Immediate`.
    pub const SHARED: [Class; 3] = [Class::Client, Class::Recovery, Class::BestEffort];

    /// The place in a table of shared classes; none for what is never shared.
    pub fn place(self) -> Option<usize> {
        match self {
            Class::Immediate => None,
            Class::Client => Some(0),
            Class::Recovery => Some(1),
            Class::BestEffort => Some(2),
        }
    }

    /// A word for reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Immediate => "immediate",
            Class::Client => "client",
            Class::Recovery => "background_recovery",
            Class::BestEffort => "background_best_effort",
        }
    }
}

/// Streams that share one promise of service: a tenant, a control group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct GroupId(pub u32);

impl GroupId {
    /// That of streams which belong to nobody in particular: each counts for itself.
    pub const NONE: GroupId = GroupId(0);
}

/// One sequence of work whose parts keep their order: a client's session, a process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamId(pub u64);

/// How urgent work is, where a scheduler looks at that: more is sooner, and weighs more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(pub u8);

/// What work asks of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Requests that the device will see.
    pub ios: u32,
    /// Bytes that they will move.
    pub bytes: u32,
}

impl Cost {
    /// One request of so many bytes; more than 4 GiB count as that.
    pub fn one(bytes: u64) -> Cost {
        Cost { ios: 1, bytes: bytes.try_into().unwrap_or(u32::MAX) }
    }
}

/// What a scheduler is told about a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// The kind of service.
    pub class: Class,
    /// Whose promise it falls under.
    pub group: GroupId,
    /// The sequence it is part of.
    pub stream: StreamId,
    /// Its urgency.
    pub priority: Priority,
    /// Its size.
    pub cost: Cost,
}

/// How much of a device's capacity work takes, in units of which the device does its capacity's number a second.
///
/// With a capacity in small requests a second, `per_io` says what a request without data costs and `per_byte` what each
/// byte adds; nothing costs less than one unit, as a device that does n small requests a second does no more of any.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel {
    /// Units for each request.
    pub per_io: f64,
    /// Units for each byte.
    pub per_byte: f64,
}

impl CostModel {
    /// Every request costs the same.
    pub const REQUESTS: CostModel = CostModel { per_io: 1.0, per_byte: 0.0 };

    /// The units that work costs: at least 1, at most a thousand million; figures that are none count as 0.
    pub fn units(&self, cost: Cost) -> f64 {
        let units = self.per_io * f64::from(cost.ios) + self.per_byte * f64::from(cost.bytes);
        if units.is_nan() { 1.0 } else { units.clamp(1.0, crate::limits::UNITS_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_never_less_than_a_request_nor_without_bound() {
        let flash = CostModel { per_io: 0.05, per_byte: 0.000_011 };
        assert_eq!(flash.units(Cost::one(4096)), 1.0);
        assert!((flash.units(Cost::one(4 << 20)) - 46.187).abs() < 0.001);
        assert_eq!(CostModel { per_io: f64::NAN, per_byte: 1.0 }.units(Cost::one(1)), 1.0);
        assert_eq!(CostModel { per_io: 1e300, per_byte: 1e300 }.units(Cost::one(u64::MAX)), crate::limits::UNITS_MAX);
        assert_eq!(CostModel { per_io: -5.0, per_byte: 0.0 }.units(Cost { ios: 0, bytes: 0 }), 1.0);
    }
}
