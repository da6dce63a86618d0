//! The study `fairness`: eight groups of sequential readers share a device by weight.
//!
//! In virtual time `qos::Cfq` stands before a model of a device; in real time the kernel's bfq, which does the same job
//! in Linux today, before a loop device. Both in two modes: with `slice_idle`, where a turn belongs to one stream and
//! service is time, and without, where a device may work for many and service is requests.
//!
//! Published figures are those of the patches that brought the second mode to Linux (V. Goyal, "cfq-iosched: Implement
//! IOPS mode and group_idle tunable", linux-kernel, July 2010; Linux 2.6.36): an array of 12 SATA disks in RAID 5.

mod live;
mod sim;

use crate::conduct::Study;
use crate::error::StudyError;
use crate::measurement::{Measurement, Metric};
use crate::progress::Progress;
use crate::results::{ChartOf, Results};
use crate::stop::Stop;
use crate::target::Target;
use device::DeviceModel;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The groups' weights.
const WEIGHTS: [u32; 8] = [100, 200, 300, 400, 500, 600, 700, 800];

/// The keys of what each group gets, and their headings.
const GROUPS: [Metric; 8] = {
    const fn rate(key: &'static str, name: &'static str) -> Metric {
        Metric { key, name, decimals: 0 }
    }
    [
        rate("group_100_kb_s", "100"),
        rate("group_200_kb_s", "200"),
        rate("group_300_kb_s", "300"),
        rate("group_400_kb_s", "400"),
        rate("group_500_kb_s", "500"),
        rate("group_600_kb_s", "600"),
        rate("group_700_kb_s", "700"),
        rate("group_800_kb_s", "800"),
    ]
};

/// Published totals: mode, readers of a group, KB/s.
const PUBLISHED: [(Mode, u32, f64); 4] = [
    (Mode::Time, 1, 212_613.0),
    (Mode::Time, 8, 164_517.0),
    (Mode::Requests, 1, 214_815.0),
    (Mode::Requests, 8, 377_187.0),
];

/// The published row that the model does not come to, and what is known of that.
const EXPLAINED: &str = "hdd-array, time mode, 8 readers a group";
const EXPLANATION: &str = "in the model turns cost next to nothing: what was read ahead for a stream is still in the \
                           array's cache when its turn comes again, a second later. The published rates are as if every \
                           turn lost 10 ms of 264 MB/s, a seek and half a rotation: of 16 ms that a turn lasts here, and of \
                           40 ms with one reader a group, where the same holds in requests, as Linux 2.6.36 ends such turns \
                           by time, too. Here turns in requests end after `quantum` of them, which takes 5 ms: a cache that \
                           forgot would take more from that row than this one is off.";

/// What is shared out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Time: `slice_idle` 8 ms, `group_idle` 8 ms, `quantum` 8.
    Time,
    /// Requests: `slice_idle` 0.
    Requests,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Time => "time mode",
            Mode::Requests => "IOPS mode",
        }
    }
}

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct FairnessOptions {
    /// `Sim` or `Live`.
    pub on: Target,
    /// The devices in virtual time.
    pub devices: Vec<DeviceModel>,
    /// Readers of each group, one configuration each.
    pub readers: Vec<u32>,
    /// Seconds of a run that are measured.
    pub seconds: u32,
    /// What a reader has read ahead for it at a time, in KiB.
    pub read_ahead_kib: u32,
    /// Where the loop device's file goes.
    pub scratch: PathBuf,
    /// When to stop.
    pub stop: Stop,
}

/// The study.
#[derive(Debug)]
pub struct Fairness {
    options: FairnessOptions,
    cases: Vec<(String, Case)>,
}

/// A configuration.
#[derive(Clone, Debug)]
struct Case {
    /// The model in virtual time; none for the loop device.
    device: Option<DeviceModel>,
    mode: Mode,
    readers: u32,
}

impl Fairness {
    /// The study with those options.
    pub fn new(options: FairnessOptions) -> Result<Fairness, StudyError> {
        let out_of = |option, value: u32, most: u32| {
            let why = format!("has to be from 1 to {most}, not {value}");
            if (1..=most).contains(&value) { Ok(()) } else { Err(StudyError::Option { option, why }) }
        };
        out_of("seconds", options.seconds, 3600)?;
        out_of("read-ahead-kib", options.read_ahead_kib, 16_384)?;
        options.readers.iter().try_for_each(|readers| out_of("readers", *readers, 64))?;
        let mut names = BTreeSet::new();
        if let Some(twice) = options.devices.iter().find(|model| !names.insert(&model.name)) {
            let why = format!("two of them are called '{}'", twice.name);
            return Err(StudyError::Option { option: "device-model", why });
        }
        let devices: Vec<Option<DeviceModel>> = match &options.on {
            Target::Sim => options.devices.iter().cloned().map(Some).collect(),
            Target::Live => vec![None],
            Target::Cluster(_) => {
                let instead = "it is about a device's scheduler, on sim or on live";
                return Err(StudyError::NotThere { study: "fairness", on: options.on.name().to_owned(), instead });
            }
        };
        let mut cases = Vec::new();
        for device in &devices {
            for mode in [Mode::Time, Mode::Requests] {
                for readers in &options.readers {
                    let of = device.as_ref().map_or("bfq on a loop device", |model| &model.name);
                    let name = format!("{of}, {}, {readers} readers a group", mode.name());
                    cases.push((name, Case { device: device.clone(), mode, readers: *readers }));
                }
            }
        }
        Ok(Fairness { options, cases })
    }
}

impl Study for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn about(&self) -> Vec<String> {
        let who = match self.options.on {
            Target::Sim => {
                "The scheduler is cfq of Loligo's crate qos, before models of devices in virtual time. A reader reads a \
                 file of its own in order, 4 KiB at a time; like Linux, the page cache reads ahead for it: the next \
                 window is asked for when the reader enters the last one that was read."
            }
            _ => {
                "The scheduler is the kernel's bfq with weights of the blkio controller, before a loop device over a \
                 file. A reader is fio, reading a part of the device of its own in order, 4 KiB at a time, without the \
                 page cache."
            }
        };
        vec![
            "Eight groups with weights from 100 to 800, each with as many sequential readers as the configuration says. \
             In time mode the scheduler waits for a stream's next request (slice_idle 8 ms, group_idle 8 ms, quantum \
             8) and charges time; in IOPS mode (slice_idle 0) it charges requests."
                .to_owned(),
            who.to_owned(),
            "KB are 1024 bytes. The error of shares is that of the group that is furthest from its weight's share."
                .to_owned(),
        ]
    }

    fn options(&self) -> BTreeMap<String, String> {
        let options = &self.options;
        let mut all = BTreeMap::from([("seconds".to_owned(), options.seconds.to_string())]);
        if options.on == Target::Sim {
            all.insert("read-ahead-kib".to_owned(), options.read_ahead_kib.to_string());
            for model in &options.devices {
                all.insert(format!("device {}", model.name), format!("{model:?}"));
            }
        }
        let readers: Vec<String> = options.readers.iter().map(u32::to_string).collect();
        all.insert("readers".to_owned(), readers.join(","));
        all
    }

    fn versions(&self) -> Result<BTreeMap<String, String>, StudyError> {
        if self.options.on == Target::Live { live::versions(&self.options) } else { Ok(BTreeMap::new()) }
    }

    fn configurations(&self) -> Vec<String> {
        self.cases.iter().map(|(name, _)| name.clone()).collect()
    }

    fn metrics(&self) -> Vec<Metric> {
        let metric = |key, name, decimals| Metric { key, name, decimals };
        let mut all = vec![
            metric("total_kb_s", "total KB/s", 0),
            metric("share_error_percent", "error of shares %", 1),
            metric("read_mean_ms", "request mean ms", 2),
            metric("read_p99_ms", "request 99% ms", 1),
        ];
        all.extend(GROUPS);
        all
    }

    fn charts(&self) -> Vec<ChartOf> {
        let keys = GROUPS.iter().map(|metric| metric.key).collect();
        vec![
            ChartOf::Metrics { title: "Total", unit: "KB/s", keys: vec!["total_kb_s"] },
            ChartOf::Metrics { title: "Rate of each group by weight", unit: "KB/s", keys },
        ]
    }

    fn run(&mut self, configuration: &str, seed: u64, progress: &Progress) -> Result<Measurement, StudyError> {
        let (_, case) = self.cases.iter().find(|(name, _)| name == configuration).expect("one of its configurations");
        match &case.device {
            Some(model) => Ok(sim::run(&self.options, model, case, seed, progress)),
            None => live::run(&self.options, case, progress),
        }
    }

    fn published(&self) -> Vec<(String, &'static str, f64)> {
        let of = |case: &Case| {
            let known = |(mode, readers, _): &&(Mode, u32, f64)| (*mode, *readers) == (case.mode, case.readers);
            let array = case.device.as_ref().is_some_and(|model| model.name == "hdd-array");
            PUBLISHED.iter().find(known).filter(|_| array).map(|(.., rate)| *rate)
        };
        self.cases.iter().filter_map(|(name, case)| Some((name.clone(), "total_kb_s", of(case)?))).collect()
    }

    fn findings(&self, results: &Results) -> Vec<String> {
        let mut findings = crate::results::agreement(results, 0.15);
        if results.configurations.iter().any(|(name, _)| name == EXPLAINED) {
            findings.push(format!("{EXPLAINED}: {EXPLANATION}"));
        }
        let errors = self.cases.iter().filter_map(|(name, _)| {
            let spread = results.spread(name, "share_error_percent")?;
            Some((name, spread.mean))
        });
        let (good, bad): (Vec<_>, Vec<_>) = errors.partition(|(_, error)| *error <= 10.0);
        findings.push(format!("shares follow weights within 10% in {} of {}", good.len(), good.len() + bad.len()));
        findings.extend(bad.into_iter().map(|(name, error)| format!("{name}: a group is {error:.0}% off its share")));
        findings
    }
}

/// Adds what the groups got, given in bytes in order of their weights, over so many seconds.
fn put_rates(measurement: &mut Measurement, bytes: [u64; 8], seconds: f64) {
    let total: u64 = bytes.iter().sum();
    measurement.put("total_kb_s", total as f64 / 1024.0 / seconds);
    let weights: u32 = WEIGHTS.iter().sum();
    let mut worst = 0.0f64;
    for ((bytes, weight), metric) in bytes.into_iter().zip(WEIGHTS).zip(GROUPS) {
        measurement.put(metric.key, bytes as f64 / 1024.0 / seconds);
        let promised = f64::from(weight) / f64::from(weights);
        worst = worst.max((bytes as f64 / (total.max(1) as f64) / promised - 1.0).abs());
    }
    measurement.put("share_error_percent", 100.0 * worst);
}
