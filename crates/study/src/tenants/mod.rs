//! The study `tenants`: what a thousand tenants of four OSDs get while others want all they can have.
//!
//! In virtual time only: each OSD is `qos::MClock` before a model of a device, which is given as much at once as
//! `qos::Window` lets it have, and all of them settle every 100 ms, as OSDs do. An OSD has one queue for all its shards; for
//! comparison there is one with a queue each, which must settle with the others as those of other OSDs do. Half of the
//! tenants are victims, who ask for less than is reserved for them and want it soon; the others want more than they are
//! promised, or everything. Each OSD recovers and scrubs besides.
//!
//! Read next: `population` for who they are, `sim` for what happens, `figures` for what is made of it.

mod account;
mod figures;
mod population;
mod sim;

use crate::conduct::Study;
use crate::error::StudyError;
use crate::measurement::{Measurement, Metric};
use crate::progress::Progress;
use crate::results::{ChartOf, Detail, Results};
use device::DeviceModel;
use std::collections::BTreeMap;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct TenantsOptions {
    /// The device of each OSD.
    pub devices: Vec<DeviceModel>,
    /// How many tenants.
    pub tenants: u32,
    /// Shards of an OSD, a configuration each.
    pub shards: Vec<u32>,
    /// Seconds of a run that are measured.
    pub seconds: u32,
}

/// Who is there, and whether promises are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Company {
    /// The victims and nobody else.
    Alone,
    /// Everybody, with promises.
    Promised,
    /// Everybody, without.
    Unpromised,
}

impl Company {
    fn name(self) -> &'static str {
        match self {
            Company::Alone => "victims alone",
            Company::Promised => "beside hogs",
            Company::Unpromised => "beside hogs, nothing promised",
        }
    }
}

/// A configuration.
#[derive(Clone, Debug)]
struct Case {
    device: DeviceModel,
    shards: u32,
    /// Queues of an OSD: one for all its shards, or one for each.
    queues: u32,
    company: Company,
}

impl Case {
    fn name(&self, company: Company) -> String {
        let each = if self.queues > 1 { ", a queue each" } else { "" };
        format!("{}, shards {}{each}, {}", self.device.name, self.shards, company.name())
    }

    /// The configuration of the victims alone that this one is held against.
    fn alone(&self) -> String {
        Case { queues: 1, ..self.clone() }.name(Company::Alone)
    }
}

/// The study.
#[derive(Debug)]
pub struct TenantsStudy {
    options: TenantsOptions,
    cases: Vec<Case>,
}

impl TenantsStudy {
    /// The study with those options.
    pub fn new(options: TenantsOptions) -> Result<TenantsStudy, StudyError> {
        let within = |option, value: u32, least: u32, most: u32| {
            let why = format!("has to be from {least} to {most}, not {value}");
            if (least..=most).contains(&value) { Ok(()) } else { Err(StudyError::Option { option, why }) }
        };
        within("seconds", options.seconds, 1, 3600)?;
        within("tenants", options.tenants, 8, 4096)?;
        options.shards.iter().try_for_each(|shards| within("shards", *shards, 1, 64))?;
        let mut cases = Vec::new();
        for device in &options.devices {
            for shards in &options.shards {
                let case = |queues, company| Case { device: device.clone(), shards: *shards, queues, company };
                cases.extend([Company::Alone, Company::Promised, Company::Unpromised].map(|who| case(1, who)));
                if *shards > 1 {
                    cases.push(case(*shards, Company::Promised));
                }
            }
        }
        Ok(TenantsStudy { options, cases })
    }
}

/// What a tenant may make up for of its limit where others serve it too (`qos::limits::AFAR_CREDIT`). It can do so once, so
/// that of a longer time it is a smaller part.
const LIMIT_AHEAD_MS_MAX: f64 = qos::limits::AFAR_CREDIT.as_millis() as f64;

/// How many milliseconds' worth of its limit somebody had more than all of it, who had so many per cent of it for so long.
fn ahead_ms(limit_reached_percent: f64, seconds: u32) -> f64 {
    (limit_reached_percent / 100.0 - 1.0).max(0.0) * f64::from(seconds) * 1e3
}

impl Study for TenantsStudy {
    fn name(&self) -> &'static str {
        "tenants"
    }

    fn about(&self) -> Vec<String> {
        vec![
            "Four OSDs, each Loligo's crate qos (mClock, high_client_ops) before a model of a device in virtual time. An OSD \
             of Loligo has one queue, whatever osd_op_num_shards says: the number says who does the work and not in which \
             order. For comparison there is one with a queue for each shard, as Ceph's have, which shares out what it has \
             as OSDs do among themselves. OSDs tell one another every 100 ms what each has served. What a device is \
             given at once is learnt (qos::Window), and an OSD's own reads come in pieces of a quarter of that. Nothing is \
             replicated."
                .to_owned(),
            "Of the tenants one half are victims: they ask for 80% of what is reserved for each, at random times. A \
             quarter have a reservation, every second one of them also a limit of 105% of it, and keep 16 requests under \
             way; so do an eighth who are held to a limit, and an eighth who are hogs, to whom nothing is promised. \
             Promises are of three sizes, 1:2:4. Requests of a tenant go to all OSDs alike, to some more (4:3:2:1), to two \
             or to one. On the busiest OSD reservations are 80% of what it reserves for clients. Requests are reads of \
             4 KiB. All the time each OSD also recovers, 8 pieces of 64 KiB at a time, and scrubs deeply, 2 of 512 KiB."
                .to_owned(),
            "Reservation met and limit reached are those of the tenant that is worst off, or furthest beyond; backlog is the \
             part of the time in which the tenant with least had a request waiting, of those who want more than they are \
             promised."
                .to_owned(),
        ]
    }

    fn options(&self) -> BTreeMap<String, String> {
        let options = &self.options;
        let mut all = BTreeMap::from([
            ("seconds".to_owned(), options.seconds.to_string()),
            ("tenants".to_owned(), options.tenants.to_string()),
        ]);
        for model in &options.devices {
            all.insert(format!("device {}", model.name), format!("{:?}", model.media));
        }
        let shards: Vec<String> = options.shards.iter().map(u32::to_string).collect();
        all.insert("shards".to_owned(), shards.join(","));
        all
    }

    fn configurations(&self) -> Vec<String> {
        self.cases.iter().map(|case| case.name(case.company)).collect()
    }

    fn metrics(&self) -> Vec<Metric> {
        figures::metrics()
    }

    fn charts(&self) -> Vec<ChartOf> {
        vec![
            ChartOf::Metrics {
                title: "Reservation met by the worst off",
                unit: "%",
                keys: vec!["reservation_met_percent"],
            },
            ChartOf::Metrics { title: "A victim's 99th percentile", unit: "ms", keys: vec!["victim_p99_ms"] },
            ChartOf::Series { title: "Recovery", unit: "MiB/s", key: "recovery_mib_s" },
            ChartOf::Series { title: "Deep scrub", unit: "MiB/s", key: "scrub_mib_s" },
        ]
    }

    fn run(&mut self, configuration: &str, seed: u64, progress: &Progress) -> Result<Measurement, StudyError> {
        let case = self.cases.iter().find(|case| case.name(case.company) == configuration);
        Ok(sim::run(&self.options, case.expect("one of its configurations"), seed, progress))
    }

    fn findings(&self, results: &Results) -> Vec<String> {
        let kept = |case: &&Case| case.company == Company::Promised;
        let found = |case: &Case| {
            let comparison = if case.queues > 1 { "for comparison: " } else { "" };
            self.found(results, case).into_iter().map(move |found| format!("{comparison}{found}"))
        };
        self.cases.iter().filter(kept).flat_map(found).collect()
    }

    fn details(&self, results: &Results) -> Vec<Detail> {
        let of = |case: &Case| {
            let (beside, alone) = (case.name(Company::Promised), case.alone());
            figures::details(results, &sim::tenants(&self.options, case), &beside, &alone)
        };
        self.cases.iter().filter(|case| case.company == Company::Promised).flat_map(of).collect()
    }
}

impl TenantsStudy {
    /// Whether what was promised was kept, in sentences.
    fn found(&self, results: &Results, case: &Case) -> Vec<String> {
        let (beside, alone) = (case.name(Company::Promised), case.alone());
        let mean = |name: &str, key| results.spread(name, key).map(|spread| spread.mean);
        let of = |key| mean(&beside, key);
        let mut found = Vec::new();
        if let (Some(met), Some(limit), Some(asked), Some(second)) = (
            of("reservation_met_percent"),
            of("limit_reached_percent"),
            of("asked_met_percent"),
            of("limit_second_percent"),
        ) {
            let kept = if met >= 99.0 { "kept within 1%" } else { "not kept" };
            let ahead_ms = ahead_ms(limit, self.options.seconds);
            let passed = if ahead_ms <= LIMIT_AHEAD_MS_MAX { "not passed" } else { "passed" };
            found.push(format!(
                "{beside}: reservations {kept} (the worst off has {met:.2}%, victims {asked:.2}% of what they ask for), \
                 limits {passed} (the furthest has {limit:.2}% of its own, {ahead_ms:.0} ms ahead of it where it may make up \
                 for {LIMIT_AHEAD_MS_MAX} once, and in its busiest second {second:.1}%)"
            ));
        }
        let least = |key| {
            let runs = results.runs(&beside).iter().filter_map(|run| run.series.get(key));
            runs.flatten().map(|(_, mib)| *mib).reduce(f64::min)
        };
        if let (Some(recovery), Some(scrub)) = (least("recovery_mib_s"), least("scrub_mib_s")) {
            found.push(format!(
                "{beside}: in every second at least {recovery:.0} MiB are recovered and {scrub:.0} MiB scrubbed"
            ));
        }
        let worst = figures::worst_ratio(results, &sim::tenants(&self.options, case), &beside, &alone);
        if let (Some(together), Some(apart), Some(worst)) = (of("victim_p99_ms"), mean(&alone, "victim_p99_ms"), worst)
        {
            found.push(format!(
                "{beside}: victims' 99th percentile is {:.2} times what it is alone, that of the worst off {worst:.2} times",
                together / apart
            ));
        }
        found
    }
}
