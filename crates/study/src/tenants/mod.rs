//! The study `tenants`: what a thousand tenants of four OSDs get while others want all they can have.
//!
//! In virtual time only: each OSD is `qos::MClock` before a model of a device, which is given as much at once as
//! `qos::Window` lets it have, and all of them settle every 100 ms, as OSDs do. An OSD has one shard or several. They share
//! one window, and either one queue, so that their number says who does the work and not in which order, or have a queue
//! each, which must settle with the others as those of other OSDs do. Half of the tenants are victims, who ask for less than is reserved for them and want
//! it soon; a quarter have the same reservation and want more; an eighth are held to a limit; an eighth are hogs to whom
//! nothing is promised. Each OSD recovers and scrubs besides.

mod sim;

use crate::conduct::Study;
use crate::error::StudyError;
use crate::measurement::{Measurement, Metric};
use crate::progress::Progress;
use crate::results::{ChartOf, Results};
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
                let queues = if *shards == 1 { vec![1] } else { vec![1, *shards] };
                for queues in queues {
                    for company in [Company::Alone, Company::Promised, Company::Unpromised] {
                        cases.push(Case { device: device.clone(), shards: *shards, queues, company });
                    }
                }
            }
        }
        Ok(TenantsStudy { options, cases })
    }
}

/// How much of its limit a tenant may have in so many seconds: what servers take in before they hear of one another, and
/// what they may make up for, comes once.
fn limit_percent_max(seconds: u32) -> f64 {
    100.0 * (1.0 + 0.25 / f64::from(seconds))
}

impl Study for TenantsStudy {
    fn name(&self) -> &'static str {
        "tenants"
    }

    fn about(&self) -> Vec<String> {
        vec![
            "Four OSDs, each a queue of Loligo's crate qos (mClock, high_client_ops) before a model of a device in virtual \
             time, in as many shards as the configuration says, of one queue or a queue each; a request goes to any of \
             them. Queues tell one another every 100 ms what each has served. What a device is given at once is \
             learnt (qos::Window), and an OSD's own reads come in pieces of a quarter of that. Nothing is replicated."
                .to_owned(),
            "Of the tenants one half are victims: they ask for 80% of what is reserved for each, at random times. A \
             quarter have the same reservation and keep 16 requests under way; an eighth are held to a limit of as much; \
             an eighth are hogs, to whom nothing is promised. Reservations are 80% of what OSDs reserve for clients. \
             Requests are reads of 4 KiB. Each OSD also recovers, 8 pieces of 64 KiB at a time, and scrubs."
                .to_owned(),
            "Reservation met and limit reached are those of the tenant that is worst off, or furthest beyond.".to_owned(),
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
        let metric = |key, name, decimals| Metric { key, name, decimals };
        vec![
            metric("reservation_met_percent", "reservation met %", 1),
            metric("limit_reached_percent", "limit reached %", 1),
            metric("victim_mean_ms", "victim mean ms", 3),
            metric("victim_p99_ms", "victim 99% ms", 3),
            metric("victim_queued_p99_ms", "of that queued 99% ms", 3),
            metric("victim_in_device_p99_ms", "in the device 99% ms", 3),
            metric("window_units", "window", 1),
            metric("client_iops", "client IOPS", 0),
            metric("recovery_iops", "recovery IOPS", 0),
            metric("scrub_iops", "scrub IOPS", 0),
        ]
    }

    fn charts(&self) -> Vec<ChartOf> {
        vec![
            ChartOf::Metrics {
                title: "Reservation met by the worst off",
                unit: "%",
                keys: vec!["reservation_met_percent"],
            },
            ChartOf::Metrics { title: "A victim's 99th percentile", unit: "ms", keys: vec!["victim_p99_ms"] },
        ]
    }

    fn run(&mut self, configuration: &str, seed: u64, progress: &Progress) -> Result<Measurement, StudyError> {
        let case = self.cases.iter().find(|case| case.name(case.company) == configuration);
        Ok(sim::run(&self.options, case.expect("one of its configurations"), seed, progress))
    }

    fn findings(&self, results: &Results) -> Vec<String> {
        let mean = |name: &str, key| results.spread(name, key).map(|spread| spread.mean);
        let mut findings = Vec::new();
        for case in self.cases.iter().filter(|case| case.company == Company::Promised) {
            let name = case.name(Company::Promised);
            let (met, limit) = (mean(&name, "reservation_met_percent"), mean(&name, "limit_reached_percent"));
            if let (Some(met), Some(limit)) = (met, limit) {
                let kept = if met >= 99.0 { "kept within 1%" } else { "not kept" };
                let passed = if limit <= limit_percent_max(self.options.seconds) { "not passed" } else { "passed" };
                findings.push(format!(
                    "{name}: reservations {kept} (the worst off has {met:.1}%), limits {passed} ({limit:.1}%)"
                ));
            }
            let alone = mean(&case.name(Company::Alone), "victim_p99_ms");
            if let (Some(beside), Some(alone)) = (mean(&name, "victim_p99_ms"), alone) {
                findings.push(format!(
                    "{name}: a victim's 99th percentile is {:.2} times what it is alone",
                    beside / alone
                ));
            }
        }
        findings
    }
}
