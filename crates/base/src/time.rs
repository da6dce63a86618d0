//! Time as engines see it: a number that somebody hands in.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// Nanoseconds since the Unix epoch on a clock that never goes back.
///
/// The runtime reads the wall clock once at start and advances by the steady clock from there; the simulator counts
/// virtual time from a fixed date. So one number serves for deadlines and for the timestamps that clients see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The Unix epoch itself.
    pub const ZERO: Instant = Instant(0);

    /// From seconds since the Unix epoch.
    pub const fn from_secs(secs: u64) -> Instant {
        Instant(secs * 1_000_000_000)
    }

    /// Whole seconds since the Unix epoch.
    pub const fn secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds past the whole second.
    pub const fn subsec_nanos(self) -> u32 {
        (self.0 % 1_000_000_000) as u32
    }

    /// The time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.secs(), self.subsec_nanos())
    }
}
