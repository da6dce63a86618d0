//! Ready-made promises for the classes, as shares of what the device can do.

use crate::capacity::Learnt;
use crate::promise::Promise;

/// Whom to favour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Clients before background work.
    #[default]
    HighClientOps,
    /// Clients and recovery alike.
    Balanced,
    /// Recovery before clients.
    HighRecoveryOps,
}

impl Profile {
    /// The profile of that name.
    pub fn named(name: &str) -> Option<Profile> {
        [Profile::HighClientOps, Profile::Balanced, Profile::HighRecoveryOps].into_iter().find(|p| p.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Profile::HighClientOps => "high_client_ops",
            Profile::Balanced => "balanced",
            Profile::HighRecoveryOps => "high_recovery_ops",
        }
    }

    /// What it promises clients, recovery and best effort, in this order, on a device that does `capacity` units a
    /// second, as limits that are shares of `believed`. The figures are Ceph's (v16.2,
    /// `doc/rados/configuration/mclock-config-ref.rst`). A capacity that is none counts as one unit a second.
    pub fn promises(self, capacity: impl Into<Learnt>) -> [Promise; 3] {
        let Learnt { capacity, believed } = capacity.into();
        let share_of =
            |capacity: f64| move |share: f64| share * if capacity.is_finite() { capacity.max(1.0) } else { 1.0 };
        let (of, to) = (share_of(capacity), share_of(believed));
        let table: [(f64, u32, Option<f64>); 3] = match self {
            Profile::HighClientOps => [(of(0.5), 2, None), (of(0.25), 1, Some(to(1.0))), (of(0.25), 2, None)],
            Profile::Balanced => [(of(0.4), 1, Some(to(1.0))), (of(0.4), 1, Some(to(1.5))), (of(0.2), 2, None)],
            Profile::HighRecoveryOps => [(of(0.3), 1, Some(to(0.8))), (of(0.6), 2, Some(to(2.0))), (1.0, 2, None)],
        };
        table.map(|(reservation, weight, limit)| Promise::new(reservation, weight, limit).expect("the table is sound"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_say_what_the_table_says() {
        let shown = |profile: Profile| {
            profile.promises(1000.0).map(|p| (p.reservation().round(), p.parts(), p.limit().map(f64::round)))
        };
        let max = None;
        assert_eq!(shown(Profile::HighClientOps), [(500.0, 2, max), (250.0, 1, Some(1000.0)), (250.0, 2, max)]);
        assert_eq!(shown(Profile::Balanced), [(400.0, 1, Some(1000.0)), (400.0, 1, Some(1500.0)), (200.0, 2, max)]);
        let recovery = [(300.0, 1, Some(800.0)), (600.0, 2, Some(2000.0)), (1.0, 2, max)];
        assert_eq!(shown(Profile::HighRecoveryOps), recovery);
        for capacity in [1.0, 315.0, 21_500.0, 49_999.7] {
            assert_eq!(Profile::HighRecoveryOps.promises(capacity)[2].reservation(), 1.0, "the least, exactly");
        }
        for profile in ["high_client_ops", "balanced", "high_recovery_ops"] {
            assert_eq!(Profile::named(profile).map(Profile::name), Some(profile));
        }
        assert_eq!(Profile::named("custom"), None);
        let tried = Profile::HighRecoveryOps.promises(Learnt { capacity: 1000.0, believed: 1500.0 })[0];
        assert_eq!((tried.reservation().round(), tried.limit().map(f64::round)), (300.0, Some(1200.0)));
        for odd in [0.0, -5.0, f64::NAN, f64::INFINITY, 0.1] {
            assert_eq!(Profile::Balanced.promises(odd)[0].reservation(), 0.4);
        }
    }
}
