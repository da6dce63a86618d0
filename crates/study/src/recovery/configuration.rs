//! Which scheduler, which limits: the configurations of the study, as Ceph's options.

use admin::Settings;
use qos::{AnyScheduler, CostModel, Ledger, MClock, MClockConfig, Priority, Profile, Wpq, WpqConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Copies of a write go before requests of clients, both by a share: v16.2's `CEPH_MSG_PRIO_DEFAULT`.
pub(super) const REPLICA_PRIORITY: Priority = Priority(127);
/// The priority of an object's turn: v16.2's default of `osd_recovery_priority`.
pub(super) const TURN_PRIORITY: Priority = Priority(5);
/// What a turn is charged, whatever its object's size: v16.2's default of `osd_recovery_cost`.
pub(super) const TURN_COST_BYTES: u64 = 20 << 20;

/// A configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Configuration {
    /// WPQ with the default limits of recovery.
    WpqDefault,
    /// WPQ with the limits lifted.
    WpqLifted,
    /// mClock under a profile, with the limits lifted.
    MClock(Profile),
}

impl Configuration {
    pub(super) const ALL: [Configuration; 5] = [
        Configuration::WpqDefault,
        Configuration::WpqLifted,
        Configuration::MClock(Profile::HighClientOps),
        Configuration::MClock(Profile::Balanced),
        Configuration::MClock(Profile::HighRecoveryOps),
    ];

    pub(super) fn name(self) -> String {
        match self {
            Configuration::WpqDefault => "wpq, default limits".to_owned(),
            Configuration::WpqLifted => "wpq, limits lifted".to_owned(),
            Configuration::MClock(profile) => format!("mclock, {}", profile.name()),
        }
    }

    pub(super) fn is_mclock(self) -> bool {
        matches!(self, Configuration::MClock(_))
    }

    /// Requests a second that an OSD reserves for its clients, where it reserves any.
    pub(super) fn reserved(self, capacity: f64) -> Option<f64> {
        match self {
            Configuration::MClock(profile) => Some(profile.promises(capacity)[0].reservation()),
            Configuration::WpqDefault | Configuration::WpqLifted => None,
        }
    }

    /// The options that differ from the defaults; `capacity` is an OSD's in 4 KiB writes a second.
    pub(super) fn options(self, capacity: f64) -> BTreeMap<&'static str, String> {
        let mut options = BTreeMap::new();
        let queue = if let Configuration::MClock(_) = self { "mclock_scheduler" } else { "wpq" };
        options.insert("osd_op_queue", queue.to_owned());
        if self != Configuration::WpqDefault {
            options.insert("osd_max_backfills", "1000".to_owned());
            options.insert("osd_recovery_max_active", "1000".to_owned());
            options.insert("osd_async_recovery_min_cost", "1".to_owned());
        }
        if let Configuration::MClock(profile) = self {
            options.insert("osd_mclock_profile", profile.name().to_owned());
            options.insert("osd_mclock_max_capacity_iops_ssd", capacity.to_string());
            options.insert("osd_mclock_max_capacity_iops_hdd", capacity.to_string());
        }
        options
    }
}

/// How the shards of an OSD keep what it promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queues {
    /// Each its part, by itself: v16.2's `mClockScheduler::set_max_osd_capacity`.
    Apart(u32),
    /// All of them the whole, together: as Loligo's, which has one.
    Together(u32),
}

/// What the options come to on an OSD of the model.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    pub(super) settings: Settings,
    rotational: bool,
}

impl InForce {
    pub(super) fn new(configuration: Configuration, capacity: f64, rotational: bool) -> InForce {
        let options = configuration.options(capacity);
        let values = options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        InForce { settings: Settings::from_file(values), rotational }
    }

    /// An option that is 0 for the device's own default.
    pub(super) fn by_device(&self, name: &str) -> f64 {
        let device = if self.rotational { "hdd" } else { "ssd" };
        match self.settings.number(name) {
            unset if unset <= 0.0 => self.settings.number(&format!("{name}_{device}")),
            set => set,
        }
    }

    pub(super) fn is_mclock(&self) -> bool {
        self.settings.value("osd_op_queue") == "mclock_scheduler"
    }

    /// The schedulers of an OSD's shards.
    ///
    /// v16.2's WPQ looks at a request's cost only beside the dearest of its own priority; where the requests of a
    /// priority are alike, priorities share by number, not by cost (`src/common/WeightedPriorityQueue.h`). So here, where
    /// its results are what is compared. Loligo's own default counts bytes.
    pub(super) fn schedulers<T>(&self, queues: Queues) -> Vec<AnyScheduler<T>> {
        let (Queues::Apart(shards) | Queues::Together(shards)) = queues;
        let cut_off = Priority(196);
        if !self.is_mclock() {
            let config = WpqConfig { cut_off, cost: CostModel::REQUESTS };
            return (0..shards).map(|_| AnyScheduler::Wpq(Box::new(Wpq::new(config)))).collect();
        }
        let device = if self.rotational { "hdd" } else { "ssd" };
        let capacity = self.settings.number(&format!("osd_mclock_max_capacity_iops_{device}"));
        let profile = Profile::named(&self.settings.value("osd_mclock_profile")).expect("a profile of the study");
        // The options' microseconds count as thousandths of a second on flash, as seconds on a disk: see `osd`.
        let per_unit = if self.rotational { 1e-6 } else { 1e-3 };
        let cost = CostModel {
            per_io: self.by_device("osd_mclock_cost_per_io_usec") * per_unit,
            per_byte: self.by_device("osd_mclock_cost_per_byte_usec") * per_unit,
        };
        let part = if let Queues::Apart(shards) = queues { capacity / f64::from(shards) } else { capacity };
        let config = MClockConfig { classes: profile.promises(part), cost, cut_off };
        let ledger = Arc::new(Ledger::default());
        let queue = |_| {
            let ledger = if let Queues::Apart(_) = queues { Arc::default() } else { Arc::clone(&ledger) };
            AnyScheduler::MClock(Box::new(MClock::sharing(config, ledger)))
        };
        (0..shards).map(queue).collect()
    }
}
