//! The studies `baseline` and `recovery`: what a client keeps while a cluster makes itself whole.
//!
//! `recovery` follows the steps of a published study ("QoS Study with mClock and WPQ Schedulers" in Ceph's documentation):
//! four OSDs, size 3, one OSD down and out while a recovery pool is filled with 4 MiB objects, then up and in; a client
//! writes 4 KiB at random from then on.

mod cluster;
mod configuration;
mod hardware;
mod load;
mod on_cluster;
mod osd_model;
mod published;
mod sim;
mod undo;

pub use on_cluster::{OnCluster, OnClusterOptions};

use crate::conduct::Study;
use crate::error::StudyError;
use crate::measurement::{Measurement, Metric};
use crate::progress::Progress;
use crate::results::{ChartOf, Results, agreement};
use base::Duration;
use configuration::Configuration;
use hardware::Hardware;
use std::collections::BTreeMap;

/// How close a figure is to a published one to count as met.
const AGREES_WITHIN: f64 = 0.15;

/// What the study of clusters measures.
fn metrics() -> Vec<Metric> {
    let metric = |key, name, decimals| Metric { key, name, decimals };
    vec![
        metric("client_iops", "client IOPS", 0),
        metric("client_mean_ms", "latency mean ms", 2),
        metric("client_p95_ms", "95% ms", 1),
        metric("client_p99_ms", "99% ms", 1),
        metric("client_p99_5_ms", "99.5% ms", 1),
        metric("recovered_objects_per_s", "objects/s recovered", 1),
        metric("recovered_mib_per_s", "MiB/s recovered", 0),
        metric("time_to_clean_s", "s to clean", 0),
    ]
}

fn charts() -> Vec<ChartOf> {
    let latencies = vec!["client_mean_ms", "client_p95_ms", "client_p99_ms", "client_p99_5_ms"];
    vec![
        ChartOf::Metrics { title: "Client's writes", unit: "IOPS", keys: vec!["client_iops"] },
        ChartOf::Metrics { title: "Client's latency", unit: "ms", keys: latencies },
        ChartOf::Metrics { title: "Recovery", unit: "objects/s", keys: vec!["recovered_objects_per_s"] },
        ChartOf::Series { title: "Client's mean latency over time", unit: "ms", key: "client_latency_ms" },
        ChartOf::Series { title: "Objects misplaced or degraded", unit: "objects", key: "misplaced_objects" },
    ]
}

/// `recovery` in virtual time.
#[derive(Debug)]
pub struct RecoverySim {
    cases: Vec<(String, Hardware, Option<Configuration>)>,
    options: RecoverySimOptions,
}

/// What can be chosen in virtual time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoverySimOptions {
    /// Only the client alone: the study `baseline`.
    pub baseline: bool,
    /// Kinds of OSD by the beginnings of their names; all for none.
    pub devices: Vec<String>,
    /// Objects in the recovery pool; the published numbers for none.
    pub objects: Option<u32>,
    /// Shards that keep an OSD's promises together, from 1 to 16; as those of the published cluster for none.
    pub shards: Option<u32>,
}

/// How long the client is alone for the baseline.
const ALONE: Duration = Duration::from_secs(20);

impl RecoverySim {
    /// The study with those options.
    pub fn new(options: RecoverySimOptions) -> Result<RecoverySim, StudyError> {
        let devices = &options.devices;
        if let Some(shards) = options.shards.filter(|shards| !(1..=16).contains(shards)) {
            let why = format!("has to be from 1 to 16, not {shards}");
            return Err(StudyError::Option { option: "shards", why });
        }
        let all = Hardware::all();
        if let Some(unknown) = devices.iter().find(|name| !all.iter().any(|kind| kind.name.starts_with(&name[..]))) {
            let why = format!("there is no '{unknown}' among {}", all.each_ref().map(|kind| kind.name).join("; "));
            return Err(StudyError::Option { option: "device-model", why });
        }
        let wanted =
            |kind: &&Hardware| devices.is_empty() || devices.iter().any(|name| kind.name.starts_with(&name[..]));
        let mut cases = Vec::new();
        for kind in all.iter().filter(wanted) {
            cases.push((format!("{}, client alone", kind.name), kind.clone(), None));
            for configuration in Configuration::ALL.into_iter().filter(|_| !options.baseline) {
                cases.push((format!("{}, {}", kind.name, configuration.name()), kind.clone(), Some(configuration)));
            }
        }
        Ok(RecoverySim { cases, options })
    }
}

impl Study for RecoverySim {
    fn name(&self) -> &'static str {
        if self.options.baseline { "baseline" } else { "recovery" }
    }

    fn about(&self) -> Vec<String> {
        vec![
            "Four OSDs, size 3. One was away while a recovery pool was filled with 4 MiB objects; from the moment it is \
             back, a client keeps 64 random 4 KiB writes under way until everything is clean. What it gets is measured for \
             300 s at the most, as long as the published runs without recovery took."
                .to_owned(),
            "In virtual time, OSDs are queues: the schedulers of Loligo's crate qos with the values of Ceph's options, \
             threads, a throttle, and a store that is a model of a device. Limits lifted means osd_max_backfills and \
             osd_recovery_max_active 1000. Shards are those of the published cluster, each with its own queue and its part \
             of the promises (Loligo's keep them together: --shards 1). A turn of recovery is charged osd_recovery_cost \
             (20 MiB), as there; Loligo itself charges what an object has. A group has one object under way, and what \
             comes from other OSDs passes mClock by."
                .to_owned(),
            "Published figures are those of Ceph's documentation, \"QoS Study with mClock and WPQ Schedulers\". The \
             model's parameters are listed below with their origins. The published baseline of the undisturbed client is \
             what the client itself comes to on nvme, whose data sheet promises three times as much, and what the disks come \
             to; nothing is fitted to any other row."
                .to_owned(),
        ]
    }

    fn options(&self) -> BTreeMap<String, String> {
        let shards = self.options.shards.map_or("as the published cluster's".to_owned(), |shards| shards.to_string());
        let way = format!("{} passes over its bytes at {} B/s (estimated)", sim::PASSES, sim::PASS_BYTES_PER_S);
        let mut options = BTreeMap::from([("shards".to_owned(), shards), ("an object's way".to_owned(), way)]);
        for (_, kind, _) in &self.cases {
            options.extend(kind.parameters());
            let objects = self.options.objects.unwrap_or(kind.objects);
            options.insert(format!("{}: recovery objects", kind.name), objects.to_string());
        }
        options
    }

    fn configurations(&self) -> Vec<String> {
        self.cases.iter().map(|(name, ..)| name.clone()).collect()
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn charts(&self) -> Vec<ChartOf> {
        charts()
    }

    fn run(&mut self, configuration: &str, seed: u64, progress: &Progress) -> Result<Measurement, StudyError> {
        let case = self.cases.iter().find(|(name, ..)| name == configuration).expect("one of its configurations");
        let (_, kind, configuration) = case;
        let objects = if configuration.is_some() { self.options.objects.unwrap_or(kind.objects) } else { 0 };
        let configuration = configuration.unwrap_or(Configuration::WpqDefault);
        let plan = sim::Plan { configuration, objects, alone: ALONE, shards: self.options.shards, seed };
        Ok(sim::run(kind, &plan, progress))
    }

    fn published(&self) -> Vec<(String, &'static str, f64)> {
        let mut all = Vec::new();
        for (name, kind, configuration) in &self.cases {
            for (key, value) in published::figures(kind.name, *configuration) {
                all.push((name.clone(), key, value));
            }
        }
        all
    }

    fn findings(&self, results: &Results) -> Vec<String> {
        let mut findings = agreement(results, AGREES_WITHIN);
        let told: Vec<(&Hardware, Configuration)> = (self.cases.iter())
            .filter(|(name, ..)| results.spread(name, "client_iops").is_some())
            .filter_map(|(_, kind, configuration)| Some((kind, (*configuration)?)))
            .collect();
        let known = published::explanations(&told).map(|text| format!("known from other runs of this model: {text}"));
        findings.extend(known);
        findings
    }
}
