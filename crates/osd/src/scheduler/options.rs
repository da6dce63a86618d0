//! What Ceph's options make of a scheduler.
//!
//! Names, defaults and units are those of v16.2 (`src/common/options.cc`), and so are the units of cost: what an operation
//! costs, in thousandths of a second on flash and in seconds on a rotating disk, is taken as its number of small
//! operations, one at the least (`src/osd/scheduler/mClockScheduler.cc`, `calc_scaled_cost`). Two things are different:
//! fractions are not rounded away, and an `osd_mclock_cost_per_..._usec` without a device in its name, which there stands
//! in other units than its kin, here has theirs.
//!
//! What a device can do is what `osd_mclock_max_capacity_iops_...` says if anybody set it, else what the OSD has learnt,
//! and before that the release's figure.
//!
//! Invariant: the options in force follow from the settings and from what was learnt. Nothing is written back, so no value
//! of a profile is left over in another.

use crate::osd::Work;
use admin::{Settings, Value, object};
use base::{Duration, Instant};
use qos::{
    AnyScheduler, Cfq, CfqConfig, Class, CostModel, Fifo, Learnt, Load, MClock, MClockConfig, Priority, Profile,
    Promise, Wpq, WpqConfig,
};

/// What v16.2 means by no limit.
const LIMIT_NONE: f64 = 999_999.0;

/// Which scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Fifo,
    Wpq,
    MClock,
    Cfq,
}

impl Kind {
    /// The value of `osd_op_queue`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Fifo => "fifo",
            Kind::Wpq => "wpq",
            Kind::MClock => "mclock_scheduler",
            Kind::Cfq => "cfq",
        }
    }
}

/// The parameters of each.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Parameters {
    Fifo,
    Wpq(WpqConfig),
    MClock(MClockConfig),
    Cfq(CfqConfig),
}

/// The source of a capacity that somebody set.
pub(super) const SET: &str = "set";

/// What the device does a second, in small operations, and who says so.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Capacity {
    pub(super) iops: Learnt,
    pub(super) source: &'static str,
}

fn device_name(rotational: bool) -> &'static str {
    if rotational { "hdd" } else { "ssd" }
}

/// The capacity that is assumed of a device before anything is known of it, in small operations a second.
pub(crate) fn assumed_capacity(settings: &Settings, rotational: bool) -> f64 {
    settings.number(&Capacity::option(rotational))
}

impl Capacity {
    fn option(rotational: bool) -> String {
        format!("osd_mclock_max_capacity_iops_{}", device_name(rotational))
    }

    fn of(settings: &Settings, rotational: bool, learnt: Option<Learnt>) -> Capacity {
        let option = Capacity::option(rotational);
        let configured = Learnt::from(settings.number(&option));
        match learnt {
            _ if settings.is_given(&option) => Capacity { iops: configured, source: SET },
            Some(iops) => Capacity { iops, source: "learnt" },
            None => Capacity { iops: configured, source: "default" },
        }
    }
}

/// All options of the queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct QueueOptions {
    parameters: Parameters,
    profile: Option<Profile>,
    pub(super) capacity: Capacity,
    /// What work costs.
    pub(crate) cost: CostModel,
    /// By class: clients, recovery, best effort.
    pub(super) priorities: [u8; 3],
    /// What the store is given at once at the most, and whether it is to be learnt how much less will do.
    pub(crate) room: (Load, bool),
}

impl QueueOptions {
    /// What the settings say, on a rotating disk or on flash that was seen to do so many operations a second.
    pub(crate) fn of(settings: &Settings, rotational: bool, learnt: Option<Learnt>) -> QueueOptions {
        let device = device_name(rotational);
        let of_device = |name: &str| match settings.number(name) {
            unset if unset <= 0.0 => settings.number(&format!("{name}_{device}")),
            number => number,
        };
        let cut_off = Priority(if settings.value("osd_op_queue_cut_off") == "low" { 64 } else { 196 });
        let profile = Profile::named(&settings.value("osd_mclock_profile"));
        let capacity = Capacity::of(settings, rotational, learnt);
        let per_unit = if rotational { 1e-6 } else { 1e-3 };
        let cost = CostModel {
            per_io: of_device("osd_mclock_cost_per_io_usec") * per_unit,
            per_byte: of_device("osd_mclock_cost_per_byte_usec") * per_unit,
        };
        let parameters = match settings.value("osd_op_queue").as_str() {
            "fifo" => Parameters::Fifo,
            "cfq" => Parameters::Cfq(cfq(settings)),
            "mclock_scheduler" => {
                let classes = profile.map_or_else(|| custom(settings), |profile| profile.promises(capacity.iops));
                Parameters::MClock(MClockConfig { classes, cost, cut_off })
            }
            _ => Parameters::Wpq(WpqConfig { cut_off, ..WpqConfig::default() }),
        };
        let priority = |name: &str| settings.number(name).clamp(1.0, 63.0) as u8;
        QueueOptions {
            parameters,
            profile,
            capacity,
            cost,
            priorities: [
                priority("osd_client_op_priority"),
                priority("osd_recovery_op_priority"),
                priority("osd_snap_trim_priority"),
            ],
            room: room(settings, of_device("osd_op_queue_store_ios")),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.parameters {
            Parameters::Fifo => Kind::Fifo,
            Parameters::Wpq(_) => Kind::Wpq,
            Parameters::MClock(_) => Kind::MClock,
            Parameters::Cfq(_) => Kind::Cfq,
        }
    }

    /// What clients are promised at least, in operations a second.
    pub(super) fn client_reservation(&self) -> f64 {
        match self.parameters {
            Parameters::MClock(config) => config.classes[0].reservation(),
            Parameters::Fifo | Parameters::Wpq(_) | Parameters::Cfq(_) => 0.0,
        }
    }

    /// The profile, as `osd_mclock_profile` names it.
    pub(super) fn profile_name(&self) -> &'static str {
        self.profile.map_or("custom", Profile::name)
    }

    /// What the scheduler goes by beside what its classes are promised, for `dump_op_pq_state`.
    pub(super) fn dump_parameters(&self) -> Value {
        let ms = |duration: Duration| Value::Float(duration.as_secs_f64() * 1e3);
        let of_cost = |cut_off: Priority, cost: CostModel| {
            object! {
                "cut_off" => u64::from(cut_off.0),
                "cost_per_io" => Value::Float(cost.per_io),
                "cost_per_byte" => Value::Float(cost.per_byte),
            }
        };
        match self.parameters {
            Parameters::Fifo => object! {},
            Parameters::Wpq(WpqConfig { cut_off, cost }) => of_cost(cut_off, cost),
            Parameters::MClock(MClockConfig { cut_off, cost, .. }) => of_cost(cut_off, cost),
            Parameters::Cfq(config) => {
                let [client, recovery, best_effort] = config.weights.map(u64::from);
                object! {
                    "charged_in" => if config.charges_requests() { "requests" } else { "time" },
                    "slice_ms" => ms(config.slice),
                    "target_latency_ms" => ms(config.target_latency),
                    "slice_idle_ms" => ms(config.slice_idle),
                    "group_idle_ms" => ms(config.group_idle),
                    "quantum" => u64::from(config.quantum),
                    "weights" => object! {
                        "client" => client,
                        "background_recovery" => recovery,
                        "background_best_effort" => best_effort,
                    },
                }
            }
        }
    }

    /// How urgent work of a class is. A client's own word counts for nothing, so that none can put itself first.
    pub(super) fn priority(&self, class: Class) -> u8 {
        class.place().map_or(u8::MAX, |place| self.priorities[place])
    }

    /// An empty scheduler.
    pub(super) fn scheduler(&self) -> AnyScheduler<Work> {
        match self.parameters {
            Parameters::Fifo => AnyScheduler::Fifo(Fifo::default()),
            Parameters::Wpq(config) => AnyScheduler::Wpq(Box::new(Wpq::new(config))),
            Parameters::MClock(config) => AnyScheduler::MClock(Box::new(MClock::new(config))),
            Parameters::Cfq(config) => AnyScheduler::Cfq(Box::new(Cfq::new(config))),
        }
    }

    /// Gives a scheduler these parameters; false if it is of another kind, or has counted what was served in another way.
    pub(super) fn configure(&self, now: Instant, queue: &mut AnyScheduler<Work>) -> bool {
        match (self.parameters, queue) {
            (Parameters::Fifo, AnyScheduler::Fifo(_)) => {}
            (Parameters::Wpq(config), AnyScheduler::Wpq(queue)) => queue.configure(now, config),
            (Parameters::MClock(config), AnyScheduler::MClock(queue)) => queue.configure(now, config),
            (Parameters::Cfq(config), AnyScheduler::Cfq(queue))
                if config.charges_requests() == queue.config().charges_requests() =>
            {
                queue.configure(config);
            }
            _ => return false,
        }
        true
    }
}

/// What the store may have at once. Who says how many operations, means so many.
fn room(settings: &Settings, ios: f64) -> (Load, bool) {
    let (ios, learns) = (ios.max(1.0), settings.number("osd_op_queue_store_ios") <= 0.0);
    let bytes = settings.number("osd_op_queue_store_bytes").max(1.0) as u64;
    let units = if learns { ios } else { qos::limits::WINDOW_LOAD_MAX };
    (Load { ios: ios as usize, bytes, units }, learns)
}

/// The nine values of the profile `custom`. What would contradict itself is brought into range: a weight of 0 to 1, a
/// limit of 0 to none (as in v16.2), a reservation above its limit to the limit.
fn custom(settings: &Settings) -> [Promise; 3] {
    ["client", "background_recovery", "background_best_effort"].map(|class| {
        let value = |what: &str| settings.number(&format!("osd_mclock_scheduler_{class}_{what}"));
        let limit = Some(value("lim")).filter(|limit| *limit > 0.0 && *limit < LIMIT_NONE);
        let reservation = value("res").clamp(0.0, limit.unwrap_or(1e12));
        let weight = value("wgt").clamp(1.0, f64::from(qos::limits::WEIGHT_MAX)) as u32;
        Promise::new(reservation, weight, limit).expect("brought into range")
    })
}

fn cfq(settings: &Settings) -> CfqConfig {
    let ms = |name: &str| Duration::from_secs_f64(settings.number(name) / 1e3);
    let weights =
        ["osd_cfq_client_weight", "osd_cfq_background_recovery_weight", "osd_cfq_background_best_effort_weight"];
    CfqConfig {
        slice: ms("osd_cfq_slice_sync"),
        target_latency: ms("osd_cfq_target_latency"),
        slice_idle: ms("osd_cfq_slice_idle"),
        group_idle: ms("osd_cfq_group_idle"),
        quantum: settings.number("osd_cfq_quantum") as u32,
        weights: weights.map(|name| settings.number(name) as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        Settings::from_file(values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    fn mclock(values: &[(&str, &str)], rotational: bool) -> MClockConfig {
        let all = [values, &[("osd_op_queue", "mclock_scheduler")]].concat();
        match QueueOptions::of(&settings(&all), rotational, None).parameters {
            Parameters::MClock(config) => config,
            other => panic!("{other:?}"),
        }
    }

    fn shown(config: &MClockConfig) -> [(f64, u32, Option<f64>); 3] {
        config.classes.map(|p| (p.reservation(), p.parts(), p.limit()))
    }

    #[test]
    fn defaults_are_those_of_the_release() {
        let wpq = QueueOptions::of(&settings(&[]), false, None);
        assert_eq!((wpq.kind(), wpq.priorities), (Kind::Wpq, [63, 3, 5]));
        assert_eq!(wpq.parameters, Parameters::Wpq(WpqConfig { cut_off: Priority(196), ..WpqConfig::default() }));
        let flash = mclock(&[], false);
        assert_eq!(shown(&flash)[0], (10_750.0, 2, None));
        assert_eq!(shown(&flash)[1], (5375.0, 1, Some(21_500.0)));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(flash.cost.per_io, 0.05) && near(flash.cost.per_byte, 0.000_011), "{flash:?}");
        let disk = mclock(&[], true);
        assert_eq!(shown(&disk)[1], (78.75, 1, Some(315.0)));
        assert!(near(disk.cost.per_io, 0.025) && near(disk.cost.per_byte, 5.2e-6), "{disk:?}");
    }

    #[test]
    fn cfq_has_its_defaults_and_what_is_set() {
        let of = |values: &[(&str, &str)]| {
            let all = [values, &[("osd_op_queue", "cfq")]].concat();
            QueueOptions::of(&settings(&all), false, None)
        };
        assert_eq!(of(&[]).parameters, Parameters::Cfq(CfqConfig::default()));
        let set = [("osd_cfq_slice_idle", "0"), ("osd_cfq_quantum", "32"), ("osd_cfq_client_weight", "1000")];
        let expected =
            CfqConfig { slice_idle: Duration::ZERO, quantum: 32, weights: [1000, 500, 100], ..CfqConfig::default() };
        assert_eq!(of(&set).parameters, Parameters::Cfq(expected));
        // What was charged in time is not continued in requests.
        let mut queue = of(&[]).scheduler();
        assert!(of(&[("osd_cfq_quantum", "4")]).configure(Instant::ZERO, &mut queue));
        assert!(!of(&set).configure(Instant::ZERO, &mut queue));
    }

    #[test]
    fn what_is_set_for_custom_counts_under_custom_alone() {
        let left = [
            ("osd_mclock_scheduler_client_res", "10"),
            ("osd_mclock_scheduler_client_wgt", "0"),
            ("osd_mclock_scheduler_client_lim", "5"),
            ("osd_mclock_scheduler_background_recovery_lim", "0"),
        ];
        assert_eq!(shown(&mclock(&left, false)), shown(&mclock(&[], false)));
        let custom = mclock(&[&left[..], &[("osd_mclock_profile", "custom")]].concat(), false);
        assert_eq!(shown(&custom), [(5.0, 1, Some(5.0)), (1.0, 1, None), (1.0, 1, None)]);
    }

    #[test]
    fn what_was_learnt_counts_unless_somebody_says_otherwise() {
        let of = |values: &[(&str, &str)], learnt| QueueOptions::of(&settings(values), true, learnt).capacity;
        assert_eq!(of(&[], None), Capacity { iops: 315.0.into(), source: "default" });
        let learnt = Learnt { capacity: 120.5, believed: 150.0 };
        assert_eq!(of(&[], Some(learnt)), Capacity { iops: learnt, source: "learnt" });
        let set = [("osd_mclock_max_capacity_iops_hdd", "200")];
        assert_eq!(of(&set, Some(learnt)), Capacity { iops: 200.0.into(), source: SET });
    }

    #[test]
    fn an_option_without_a_device_in_its_name_wins_if_it_is_set() {
        let set = mclock(&[("osd_mclock_cost_per_io_usec", "100"), ("osd_mclock_cost_per_io_usec_ssd", "7")], false);
        assert!((set.cost.per_io - 0.1).abs() < 1e-9);
        let (room, learns) = QueueOptions::of(&settings(&[]), true, None).room;
        assert_eq!((room.ios, room.units, learns), (32, 32.0, true));
        let (room, learns) = QueueOptions::of(&settings(&[("osd_op_queue_store_ios", "5")]), true, None).room;
        assert_eq!((room.ios, room.bytes, learns), (5, 64 << 20, false));
    }
}
