//! `/metrics`: the cluster in Prometheus' text format.
//!
//! Names, labels and help texts' meaning are those of Ceph v16.2 `src/pybind/mgr/prometheus/module.py`, so that boards
//! made for Ceph show data. Everything comes from what the monitor knows already.

use crate::commands::pool_stats_value;
use crate::format::Value;
use crate::mon::Mon;
use crate::services::health::Severity;
use admin::counters::{CounterSpec, Reading};
use admin::{Administered, options};
use base::{Instant, OsdId, PoolId};
use core::fmt::Write;
use maps::stats::PgState;
use std::collections::BTreeMap;

/// Counters of less priority are not shown (`PRIO_USEFUL`).
const PRIORITY_MIN: u8 = 5;

const OSD_FLAGS: [&str; 9] =
    ["noup", "nodown", "noout", "noin", "nobackfill", "norebalance", "norecover", "noscrub", "nodeep-scrub"];

/// What is told of a pool's recovery (`OSD_POOL_STATS` there); 0 where nothing recovers.
const RECOVERY_FIGURES: [&str; 5] = [
    "recovering_objects_per_sec",
    "recovering_bytes_per_sec",
    "recovering_keys_per_sec",
    "num_objects_recovered",
    "num_bytes_recovered",
];

/// A pool's figures: the name here, and the member of `df`'s answer that has it.
const POOL_FIGURES: [&str; 16] = [
    "max_avail",
    "avail_raw",
    "stored",
    "stored_raw",
    "objects",
    "dirty",
    "quota_bytes",
    "quota_objects",
    "rd",
    "rd_bytes",
    "wr",
    "wr_bytes",
    "compress_bytes_used",
    "compress_under_bytes",
    "bytes_used",
    "percent_used",
];

/// One metric: what it is and its samples.
struct Metric {
    kind: &'static str,
    help: String,
    samples: Vec<(String, f64)>,
}

/// The page under construction: metrics in the order of their names.
#[derive(Default)]
struct Page {
    metrics: BTreeMap<String, Metric>,
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Page {
    fn add(&mut self, kind: &'static str, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}=\"{}\"", escaped(v))).collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        let metric = (self.metrics.entry(name.replace(['.', '-', ' ', ':'], "_"))).or_insert_with(|| Metric {
            kind,
            help: help.to_owned(),
            samples: Vec::new(),
        });
        metric.samples.push((labels, value));
    }

    /// A daemon's counter: a mean is two, as Ceph's exporter has it.
    fn counter(&mut self, daemon: &str, path: &str, spec: (u8, &str), reading: Reading) {
        let (bits, help) = spec;
        let labels = [("ceph_daemon", daemon)];
        let kind = if bits & 8 != 0 { "counter" } else { "gauge" };
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        match reading {
            Reading::Number(number) => self.add(kind, path, help, &labels, number as f64),
            Reading::Time(nanos) => self.add(kind, path, help, &labels, seconds(nanos)),
            Reading::Average(count, sum) | Reading::Latency(count, sum) => {
                let sum = if matches!(reading, Reading::Latency(..)) { seconds(sum) } else { sum as f64 };
                self.add("counter", &format!("{path}_sum"), &format!("{help} Total"), &labels, sum);
                self.add("counter", &format!("{path}_count"), &format!("{help} Count"), &labels, count as f64);
            }
        }
    }

    fn render(&self) -> String {
        let mut out = String::new();
        for (name, metric) in &self.metrics {
            // Writing to a String cannot fail.
            let _ = write!(out, "\n# HELP ceph_{name} {}\n# TYPE ceph_{name} {}\n", escaped(&metric.help), metric.kind);
            for (labels, value) in &metric.samples {
                let _ = writeln!(out, "ceph_{name}{labels} {value:?}");
            }
        }
        out.push('\n');
        out
    }
}

fn number(value: Option<&Value>) -> f64 {
    match value {
        Some(Value::Int(n)) => *n as f64,
        Some(Value::Uint(n)) => *n as f64,
        Some(Value::Float(n)) => *n,
        _ => 0.0,
    }
}

impl Mon {
    /// The page.
    pub fn metrics(&self, now: Instant) -> String {
        let mut page = Page::default();
        self.health_metrics(now, &mut page);
        self.daemon_metrics(&mut page);
        self.osd_metrics(&mut page);
        self.pool_metrics(&mut page);
        self.counter_metrics(&mut page);
        page.render()
    }

    fn health_metrics(&self, now: Instant, page: &mut Page) {
        let checks = self.health_checks(now);
        let severity = |s: Severity| match s {
            Severity::Ok => 0.0,
            Severity::Warn => 1.0,
            Severity::Error => 2.0,
        };
        let unmuted = checks.iter().filter(|(code, _)| !self.health.is_muted(code));
        let worst = unmuted.map(|(_, check)| severity(check.severity)).fold(0.0, f64::max);
        page.add("untyped", "health_status", "Cluster health status", &[], worst);
        let slow: u32 = self.daemon_reports.osds().map(|(_, report)| report.slow_ops.0).sum();
        page.add("gauge", "healthcheck_slow_ops", "Requests that take too long", &[], f64::from(slow));
        for (code, check) in &checks {
            let name = if check.severity == Severity::Error { "HEALTH_ERR" } else { "HEALTH_WARN" };
            let labels = [("name", *code), ("severity", name)];
            page.add("gauge", "health_detail", "healthcheck status by type (0=inactive, 1=active)", &labels, 1.0);
        }
        for (osd, report) in self.daemon_reports.osds() {
            let daemon = format!("osd.{osd}");
            let labels = [("type", "SLOW_OPS"), ("ceph_daemon", daemon.as_str())];
            let help = "Health metrics for Ceph daemons";
            page.add("gauge", "daemon_health_metrics", help, &labels, f64::from(report.slow_ops.0));
        }
    }

    fn daemon_metrics(&self, page: &mut Page) {
        let mon = self.entity();
        let addr = self.config.addrs.0.first().and_then(|addr| addr.socket).map(|s| s.ip().to_string());
        let version = crate::version::LONG;
        let labels = [
            ("ceph_daemon", mon.as_str()),
            ("hostname", &self.config.hostname),
            ("public_addr", addr.as_deref().unwrap_or_default()),
            ("rank", "0"),
            ("ceph_version", version),
        ];
        page.add("untyped", "mon_metadata", "MON Metadata", &labels, 1.0);
        page.add("gauge", "mon_quorum_status", "Monitors in quorum", &labels[..1], 1.0);
        // The monitor does the manager's duties.
        let mgr = format!("mgr.{}", self.config.name);
        let labels = [("ceph_daemon", mgr.as_str()), ("hostname", &self.config.hostname), ("ceph_version", version)];
        page.add("gauge", "mgr_metadata", "MGR metadata", &labels, 1.0);
        page.add("gauge", "mgr_status", "MGR status (0=standby, 1=active)", &labels[..1], 1.0);
    }

    fn osd_metrics(&self, page: &mut Page) {
        let map = self.osds.map();
        let flags: Vec<&str> = map.flags.names().collect();
        for flag in OSD_FLAGS {
            let set = f64::from(u8::from(flags.contains(&flag)));
            page.add("untyped", &format!("osd_flag_{flag}"), &format!("OSD Flag {flag}"), &[], set);
        }
        for osd in map.osd_ids() {
            self.one_osd_metrics(page, osd);
        }
        let room = self.stats.osd_sum();
        let figures = [
            ("total_bytes", room.total_bytes()),
            ("total_used_bytes", room.used_bytes()),
            ("total_used_raw_bytes", room.used_bytes()),
        ];
        for (name, value) in figures {
            page.add("gauge", &format!("cluster_{name}"), &format!("DF {name}"), &[], value as f64);
        }
        let sum = self.stats.sum();
        let counts = sum.counts();
        let objects = [
            ("degraded", counts.num_objects_degraded),
            ("misplaced", counts.num_objects_misplaced),
            ("unfound", counts.num_objects_unfound),
        ];
        for (name, value) in objects {
            page.add("gauge", &format!("num_objects_{name}"), &format!("Number of {name} objects"), &[], value as f64);
        }
    }

    fn one_osd_metrics(&self, page: &mut Page, osd: OsdId) {
        let map = self.osds.map();
        let daemon = format!("osd.{osd}");
        let host = |addrs: &wire::types::AddrVec| {
            addrs.0.first().and_then(|addr| addr.socket).map_or_else(String::new, |s| s.ip().to_string())
        };
        let addrs = map.addrs(osd);
        let (public, cluster) = addrs.map_or_else(Default::default, |a| (host(&a.client), host(&a.cluster)));
        let metadata = self.osds.metadata(osd);
        let said = |key: &str| metadata.and_then(|m| m.get(key)).map(String::as_str).unwrap_or_default();
        let labels = [
            ("back_iface", said("back_iface")),
            ("ceph_daemon", daemon.as_str()),
            ("cluster_addr", &cluster),
            ("device_class", map.device_class(osd).unwrap_or_default()),
            ("front_iface", said("front_iface")),
            ("hostname", said("hostname")),
            ("objectstore", said("osd_objectstore")),
            ("public_addr", &public),
            ("ceph_version", said("ceph_version")),
        ];
        page.add("untyped", "osd_metadata", "OSD Metadata", &labels, 1.0);
        let label = [("ceph_daemon", daemon.as_str())];
        let is = |what: bool| f64::from(u8::from(what));
        let weight = map.weight(osd) as f64 / 65536.0;
        for (name, value) in [("weight", weight), ("up", is(map.is_up(osd))), ("in", is(map.is_in(osd)))] {
            page.add("untyped", &format!("osd_{name}"), &format!("OSD status {name}"), &label, value);
        }
        let perf = self.stats.osd(osd).map(|stat| stat.perf).unwrap_or_default();
        let stats = [("apply_latency_ms", perf.apply_latency_ms), ("commit_latency_ms", perf.commit_latency_ms)];
        for (name, value) in stats {
            page.add("gauge", &format!("osd_{name}"), &format!("OSD stat {name}"), &label, f64::from(value));
        }
    }

    fn pool_metrics(&self, page: &mut Page) {
        let map = self.osds.map();
        let mut by_pool: BTreeMap<PoolId, BTreeMap<&'static str, u64>> = BTreeMap::new();
        for pg in crate::services::stats::all_pgs(map) {
            let stat = self.stats.stat_or_unknown(map, pg);
            let states = by_pool.entry(pg.pool).or_default();
            *states.entry("total").or_default() += 1;
            for state in stat.state.names() {
                *states.entry(state).or_default() += 1;
            }
            if stat.state == PgState::default() {
                *states.entry("unknown").or_default() += 1;
            }
        }
        for (id, pool) in &map.pools {
            let (number_text, name) = (id.0.to_string(), map.pool_name(*id).unwrap_or_default());
            let label = [("pool_id", number_text.as_str())];
            let metadata = [
                label[0],
                ("name", name),
                ("type", "replicated"),
                ("description", "replica:"),
                ("compression_mode", "none"),
            ];
            let description = format!("replica:{}", pool.size);
            let metadata = metadata.map(|(k, v)| if k == "description" { (k, description.as_str()) } else { (k, v) });
            page.add("untyped", "pool_metadata", "POOL Metadata", &metadata, 1.0);
            let stats = pool_stats_value(self, *id, pool, true);
            for figure in POOL_FIGURES {
                let grows = matches!(figure, "rd" | "rd_bytes" | "wr" | "wr_bytes");
                let kind = if grows { "counter" } else { "gauge" };
                let (name, help) = (format!("pool_{figure}"), format!("DF pool {figure}"));
                page.add(kind, &name, &help, &label, number(stats.member(figure)));
            }
            let recovery = self.stats.pool_rates(*id).recovery_value();
            for figure in RECOVERY_FIGURES {
                let (name, help) = (format!("pool_{figure}"), format!("OSD pool stats: {figure}"));
                page.add("gauge", &name, &help, &label, number(recovery.member(figure)));
            }
            let none = BTreeMap::new();
            let states = by_pool.get(id).unwrap_or(&none);
            let total = states.get("total").copied().unwrap_or(0);
            page.add("gauge", "pg_total", "PG Total Count per Pool", &label, total as f64);
            let all = PgState(u64::MAX);
            for state in all.names().chain(["unknown"]) {
                let count = states.get(state).copied().unwrap_or(0);
                page.add("gauge", &format!("pg_{state}"), &format!("PG {state} per pool"), &label, count as f64);
            }
        }
    }

    fn counter_metrics(&self, page: &mut Page) {
        for (osd, report) in self.daemon_reports.osds() {
            let daemon = format!("osd.{osd}");
            for (path, (kind, said)) in &report.counters {
                let reading = match (kind.kind & 4 != 0, kind.kind & 1 != 0) {
                    (true, true) => Reading::Latency(said.count, said.value),
                    (true, false) => Reading::Average(said.count, said.value),
                    (false, true) => Reading::Time(said.value),
                    (false, false) => Reading::Number(said.value),
                };
                if kind.priority >= PRIORITY_MIN {
                    page.counter(&daemon, path, (kind.kind, &kind.description), reading);
                }
            }
        }
        let mon = self.entity();
        self.visit_counters(&mut |set, counters| {
            counters.visit(&mut |spec: &CounterSpec, reading| {
                if spec.priority >= PRIORITY_MIN {
                    page.counter(&mon, &format!("{set}.{}", spec.name), (spec.bits, spec.help), reading);
                }
            });
        });
    }

    /// Where the page is served, for `mgr services`; none where it is not.
    pub fn serve_metrics_at(&mut self, url: String) {
        debug_assert!(options::find("mgr/prometheus/server_port").is_some(), "the port has its option");
        self.metrics_url = Some(url);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_prometheus_text() {
        let mut page = Page::default();
        page.add("gauge", "osd_up", "OSD status up", &[("ceph_daemon", "osd.0")], 1.0);
        page.add("gauge", "osd_up", "OSD status up", &[("ceph_daemon", "osd.\"1\n")], 0.0);
        page.counter("osd.0", "osd.op_latency", (5, "Time"), Reading::Latency(4, 2_500_000_000));
        page.counter("osd.0", "throttle-osd_client_bytes.val", (2, "Held"), Reading::Number(7));
        let text = concat!(
            "\n# HELP ceph_osd_op_latency_count Time Count\n# TYPE ceph_osd_op_latency_count counter\n",
            "ceph_osd_op_latency_count{ceph_daemon=\"osd.0\"} 4.0\n",
            "\n# HELP ceph_osd_op_latency_sum Time Total\n# TYPE ceph_osd_op_latency_sum counter\n",
            "ceph_osd_op_latency_sum{ceph_daemon=\"osd.0\"} 2.5\n",
            "\n# HELP ceph_osd_up OSD status up\n# TYPE ceph_osd_up gauge\n",
            "ceph_osd_up{ceph_daemon=\"osd.0\"} 1.0\nceph_osd_up{ceph_daemon=\"osd.\\\"1\\n\"} 0.0\n",
            "\n# HELP ceph_throttle_osd_client_bytes_val Held\n# TYPE ceph_throttle_osd_client_bytes_val gauge\n",
            "ceph_throttle_osd_client_bytes_val{ceph_daemon=\"osd.0\"} 7.0\n\n",
        );
        assert_eq!(page.render(), text);
    }
}
