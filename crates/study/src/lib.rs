//! Benchmark studies: configurations, runs of each, what they measured, and a report that others can check.
//!
//! A [`Study`] names its configurations and runs one of them once. The house does the rest ([`conduct`]): as many runs of
//! each as asked for, those found in the output directory left out, mean and spread over runs, a table, JSON and a page
//! of HTML with charts, all of which state the machine, the seed, the versions and the options.
//!
//! | study | in virtual time (`sim`) | in real time (`live`, or any cluster by its `ceph.conf`) |
//! |---|---|---|
//! | `fairness` | `qos::Cfq` over models of devices | the kernel's bfq over a loop device |
//! | `tenants` | four OSDs that recover and scrub, a thousand tenants, `qos::MClock` over models of devices | |
//! | `baseline`, `recovery` | OSDs as queues with `qos`'s schedulers | four OSDs, stock fio, stock `ceph` |
//!
//! Owns workloads, measurements and reports. Refuses to know how a cluster works: what runs live is driven through stock
//! clients, so that every cluster is measured by the same program.
//!
//! Invariants: the same options give the same report of a study in virtual time, byte for byte; a run that is recorded is
//! never repeated; a directory never mixes runs of different options; what a study has set up is gone when it ends, also by
//! an error or because it was asked to stop.
//!
//! Read next: `conduct`, then a study.
#![forbid(unsafe_code)]

mod chart;
mod conduct;
mod conversation;
mod error;
mod fairness;
mod latency;
mod measurement;
mod progress;
mod record;
mod recovery;
mod report;
mod results;
mod statistics;
mod stop;
mod table;
mod target;
mod tenants;
mod tool;

pub use chart::{Bars, Line, Lines};
pub use conduct::{Conduct, Study, conduct};
pub use device::DeviceModel;
pub use error::StudyError;
pub use fairness::{Fairness, FairnessOptions};
pub use latency::{Latencies, OverTime};
pub use measurement::{Measurement, Metric};
pub use progress::Progress;
pub use record::Record;
pub use recovery::{OnCluster, OnClusterOptions, RecoverySim, RecoverySimOptions};
pub use results::{ChartOf, Detail, Results};
pub use statistics::Spread;
pub use stop::Stop;
pub use target::Target;
pub use tenants::{TenantsOptions, TenantsStudy};
