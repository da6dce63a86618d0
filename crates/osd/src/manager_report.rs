//! What the OSD tells whoever does the manager's duties: its counters, and whether its requests take too long.
//!
//! Follows Ceph v16.2 `src/mgr/MgrClient.cc` (`MgrClient::_send_report`) for how counters are declared once a session and
//! packed in order of their names, `src/mgr/DaemonHealthMetric.h` for the health metrics, and `src/osd/OSD.cc`
//! (`OSD::get_health_metrics`) for the line in the cluster log.

use crate::cluster_log::Level;
use crate::osd::Osd;
use crate::tracking::SlowOps;
use admin::counters::{Reading, Unit};
use admin::{Administered, Layer};
use base::Instant;
use std::collections::BTreeMap;
use wire::messages::{CounterType, MgrReport, Rest};
use wire::{Encode, Encoder};

/// Counters below this priority stay here (`mgr_stats_threshold`).
const PRIORITY_MIN: u8 = 5;

/// Requests that take too long (`daemon_metric::SLOW_OPS`).
const SLOW_OPS: u8 = 0;

/// When reports go out, and what the other side knows.
#[derive(Debug, Default)]
pub(crate) struct ManagerReports {
    sent: Option<Instant>,
    declared: bool,
    /// Whether the last report told of slow requests.
    slow: bool,
    /// The configuration that was told last.
    config: Option<Configuration>,
}

/// Options that something gave a value: by name, and by the number of what gave it (`CONF_*`, v16.2
/// `src/common/config.h`).
type Configuration = BTreeMap<String, BTreeMap<i32, String>>;

/// The numbers of layers there.
const LEVELS: [(Layer, i32); 3] = [(Layer::Mon, 1), (Layer::File, 2), (Layer::Override, 5)];

impl ManagerReports {
    /// Something has changed that people will want to see.
    pub(crate) fn report_soon(&mut self) {
        self.sent = None;
    }

    /// The session is new: nothing has been declared on it.
    pub(crate) fn begin_again(&mut self) {
        *self = ManagerReports::default();
    }
}

/// A slow-ops metric: how many, and the age of the oldest in seconds.
struct Metric(SlowOps);

impl Encode for Metric {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u8(SLOW_OPS);
            e.u32(u32::try_from(self.0.count).unwrap_or(u32::MAX));
            e.u32(u32::try_from(self.0.oldest.as_secs()).unwrap_or(u32::MAX));
        });
    }
}

impl Osd {
    /// The configuration as it is reported: whole, if it is not what was told last, and encoded; else nothing.
    fn config_report(&mut self) -> Vec<u8> {
        let mut config = Configuration::new();
        for (layer, level) in LEVELS {
            for (name, value) in self.core.settings.given(layer) {
                config.entry(name.to_owned()).or_default().insert(level, value.to_owned());
            }
        }
        if self.manager.config.as_ref() == Some(&config) {
            return Vec::new();
        }
        let mut e = Encoder::new();
        e.put(&config);
        // Options of the monitor's that this daemon does not know.
        e.len(0);
        self.manager.config = Some(config);
        e.as_slice().to_vec()
    }

    /// The report, if it is due.
    pub(crate) fn manager_report(&mut self) -> Option<MgrReport> {
        let now = self.core.now;
        if self.manager.sent.is_some_and(|at| now < at + self.core.config.stats_interval) {
            return None;
        }
        self.manager.sent = Some(now);
        let slow = self.slow_ops();
        if slow.count > 0 {
            let text = self.slow_text(slow);
            self.core.cluster_log.line(now, Level::WARN, text);
        }
        self.manager.slow = slow.count > 0;
        let declare = !core::mem::replace(&mut self.manager.declared, true);
        let mut counters = BTreeMap::new();
        self.visit_counters(&mut |set, counted| {
            counted.visit(&mut |spec, reading| {
                if spec.priority >= PRIORITY_MIN {
                    counters.insert(format!("{set}.{}", spec.name), (*spec, reading));
                }
            });
        });
        let declared = counters.iter().filter(|_| declare).map(|(path, (spec, _))| CounterType {
            path: path.clone(),
            description: spec.help.to_owned(),
            nick: spec.nick.to_owned(),
            kind: spec.bits,
            priority: spec.priority,
            unit: u8::from(spec.unit == Unit::Bytes),
        });
        let mut packed = Encoder::new();
        packed.versioned(1, 1, |e| {
            for (_, reading) in counters.values() {
                match *reading {
                    Reading::Number(number) | Reading::Time(number) => e.u64(number),
                    Reading::Average(count, sum) | Reading::Latency(count, sum) => {
                        e.u64(sum);
                        e.u64(count);
                        e.u64(count);
                    }
                }
            }
        });
        let mut rest = Encoder::new();
        rest.put(&vec![Metric(slow)]);
        rest.blob(&self.config_report());
        // No performance queries, no status of tasks, no metric reports.
        rest.len(0);
        rest.bool(false);
        rest.bool(false);
        Some(MgrReport {
            daemon_name: self.core.me().to_string(),
            declared: declared.collect(),
            packed: packed.finish(),
            undeclared: Vec::new(),
            service_name: String::new(),
            daemon_status: None,
            metrics: Rest(rest.finish()),
        })
    }
}
