//! What a run says of its tenants, and what the report makes of it, tenant by tenant.
//!
//! A promise is held against the tenant that is worst off, never against a mean.

use super::account::Account;
use super::population::{Kind, Tenant};
use crate::latency::Latencies;
use crate::measurement::{Measurement, Metric};
use crate::results::{Detail, Results};
use base::Instant;

/// Figures of each tenant.
const ASKED: &str = "asked_per_s";
const RECEIVED: &str = "received_per_s";
const BACKLOG: &str = "backlog_percent";
const MOST: &str = "most_in_a_second";
const P99: &str = "p99_ms";

/// What was measured of the tenants of a run, and when.
pub(super) struct Measured<'a> {
    pub(super) tenants: &'a [Tenant],
    pub(super) accounts: &'a mut [Account],
    pub(super) from: Instant,
    pub(super) end: Instant,
}

impl Measured<'_> {
    /// Adds the figures of each tenant, and of all of a kind those of who is worst off.
    pub(super) fn put(self, measurement: &mut Measurement) {
        let seconds = self.end.since(self.from).as_secs_f64();
        let mut each = |key: &str, figure: &dyn Fn(&mut Account) -> f64| {
            let figures: Vec<f64> = self.accounts.iter_mut().map(figure).collect();
            measurement.of_each.insert(key.to_owned(), figures);
        };
        each(ASKED, &|account| account.asked as f64 / seconds);
        each(RECEIVED, &|account| account.served as f64 / seconds);
        each(BACKLOG, &|account| account.backlog_percent(self.from, self.end));
        each(MOST, &|account| account.most_in_a_second as f64);
        each(P99, &|account| account.p99_ms());
        let of = |key: &str| measurement.of_each[key].clone();
        let (asked, received, backlog, most) = (of(ASKED), of(RECEIVED), of(BACKLOG), of(MOST));
        let all = || self.tenants.iter().enumerate();
        let kind = |wanted| all().filter(move |(_, tenant)| tenant.kind == wanted).map(|(n, _)| n);
        let limited = || all().filter_map(|(n, tenant)| Some((n, tenant.limit?)));
        let least = |figures: &mut dyn Iterator<Item = f64>| figures.reduce(f64::min);
        let greatest = |figures: &mut dyn Iterator<Item = f64>| figures.reduce(f64::max);
        let found = [
            ("asked_met_percent", least(&mut kind(Kind::Victim).map(|n| 100.0 * received[n] / asked[n]))),
            (
                "reservation_met_percent",
                least(&mut kind(Kind::Greedy).map(|n| 100.0 * received[n] / self.tenants[n].reservation)),
            ),
            ("limit_reached_percent", greatest(&mut limited().map(|(n, limit)| 100.0 * received[n] / limit))),
            ("limit_second_percent", greatest(&mut limited().map(|(n, limit)| 100.0 * most[n] / limit))),
            ("backlog_percent", least(&mut kind(Kind::Greedy).chain(kind(Kind::Limited)).map(|n| backlog[n]))),
        ];
        let took_part = |key| key == "asked_met_percent" || received.iter().zip(self.tenants).any(is_company);
        for (key, figure) in found.into_iter().filter(|(key, _)| took_part(*key)) {
            figure.into_iter().for_each(|figure| measurement.put(key, figure));
        }
    }
}

/// Whether somebody else than a victim was served.
fn is_company((received, tenant): (&f64, &Tenant)) -> bool {
    tenant.kind != Kind::Victim && *received > 0.0
}

/// Adds what all victims together waited for, and where.
pub(super) fn put_latencies(measurement: &mut Measurement, [all, queued, in_device]: [&Latencies; 3]) {
    measurement.put_latencies("victim", all);
    measurement.put_latencies("victim_queued", queued);
    measurement.put_latencies("victim_in_device", in_device);
}

/// The columns of the report's table.
pub(super) fn metrics() -> Vec<Metric> {
    let metric = |key, name, decimals| Metric { key, name, decimals };
    vec![
        metric("reservation_met_percent", "reservation met %", 2),
        metric("backlog_percent", "backlog %", 1),
        metric("limit_reached_percent", "limit reached %", 2),
        metric("limit_second_percent", "in a second %", 1),
        metric("asked_met_percent", "victims' requests met %", 2),
        metric("victim_mean_ms", "victim mean ms", 3),
        metric("victim_p99_ms", "victim 99% ms", 3),
        metric("victim_queued_p99_ms", "of that queued 99% ms", 3),
        metric("victim_in_device_p99_ms", "in the device 99% ms", 3),
        metric("window_units", "window", 1),
        metric("client_iops", "client IOPS", 0),
        metric("recovery_mib_s", "recovery MiB/s", 0),
        metric("scrub_mib_s", "scrub MiB/s", 0),
    ]
}

/// A figure of each tenant: its mean over the runs of a configuration.
fn of_each(results: &Results, configuration: &str, key: &str) -> Option<Vec<f64>> {
    let runs: Vec<&Vec<f64>> = results.runs(configuration).iter().filter_map(|run| run.of_each.get(key)).collect();
    let count = runs.iter().map(|figures| figures.len()).min()?;
    let mean = |n: usize| runs.iter().map(|figures| figures[n]).sum::<f64>() / runs.len() as f64;
    Some((0..count).map(mean).collect())
}

/// How long a victim waits.
#[derive(Clone, Copy, Debug)]
struct Waits {
    alone_ms: f64,
    beside_ms: f64,
}

impl Waits {
    fn ratio(self) -> f64 {
        self.beside_ms / self.alone_ms
    }
}

/// The 99th percentile of each tenant that is a victim, alone and in company; nothing where one of both was not run.
fn waits(results: &Results, tenants: &[Tenant], beside: &str, alone: &str) -> Vec<Option<Waits>> {
    let both = of_each(results, beside, P99).zip(of_each(results, alone, P99));
    let of = |(n, tenant): (usize, &Tenant)| {
        let (beside, alone) = both.as_ref().filter(|_| tenant.kind == Kind::Victim)?;
        Some(Waits { alone_ms: alone[n], beside_ms: beside[n] })
    };
    tenants.iter().enumerate().map(of).collect()
}

/// By how much the 99th percentile of the victim that is worst off is longer than it is alone.
pub(super) fn worst_ratio(results: &Results, tenants: &[Tenant], beside: &str, alone: &str) -> Option<f64> {
    waits(results, tenants, beside, alone).into_iter().flatten().map(Waits::ratio).reduce(f64::max)
}

/// What the tenants of each kind were promised and got beside one another, those who are worst off first.
pub(super) fn details(results: &Results, tenants: &[Tenant], beside: &str, alone: &str) -> Vec<Detail> {
    let figures = |key| of_each(results, beside, key);
    let (Some(asked), Some(received), Some(backlog), Some(most)) =
        (figures(ASKED), figures(RECEIVED), figures(BACKLOG), figures(MOST))
    else {
        return Vec::new();
    };
    let waits = waits(results, tenants, beside, alone);
    let row = |n: usize| {
        let tenant = &tenants[n];
        let reservation = (tenant.reservation > 0.0).then_some(tenant.reservation);
        let due = match tenant.kind {
            Kind::Victim => Some(asked[n]),
            Kind::Greedy => reservation,
            Kind::Limited => tenant.limit,
            Kind::Hog => None,
        };
        let deviation = due.map(|due| 100.0 * (received[n] / due - 1.0));
        let values = vec![
            reservation,
            tenant.limit,
            Some(asked[n]),
            Some(backlog[n]),
            Some(received[n]),
            deviation,
            tenant.limit.map(|limit| 100.0 * most[n] / limit),
            waits[n].map(|waits| waits.alone_ms),
            waits[n].map(|waits| waits.beside_ms),
            waits[n].map(Waits::ratio),
        ];
        let badness = match tenant.kind {
            Kind::Victim => waits[n].map(Waits::ratio),
            Kind::Greedy => deviation.map(|deviation| -deviation),
            Kind::Limited => deviation,
            Kind::Hog => Some(received[n]),
        };
        (badness.unwrap_or(0.0), (format!("tenant {n}, {}", tenant.spread.0), values))
    };
    let of_kind = |(kind, title): (Kind, &str)| {
        let all = tenants.iter().enumerate().filter(|(_, tenant)| tenant.kind == kind);
        let mut rows: Vec<_> = all.map(|(n, _)| row(n)).collect();
        rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        Detail { title: format!("{beside}: {title}"), columns: columns(), rows }
    };
    let kinds = [
        (Kind::Greedy, "who want more than is reserved for them; deviation from the reservation"),
        (Kind::Limited, "who are held to a limit; deviation from the limit"),
        (Kind::Victim, "victims; deviation from what they asked for"),
        (Kind::Hog, "hogs, to whom nothing is promised"),
    ];
    kinds.into_iter().map(of_kind).collect()
}

fn columns() -> Vec<Metric> {
    let metric = |key, name, decimals| Metric { key, name, decimals };
    vec![
        metric("reservation_per_s", "reservation/s", 1),
        metric("limit_per_s", "limit/s", 1),
        metric(ASKED, "asked/s", 1),
        metric(BACKLOG, "backlog %", 1),
        metric(RECEIVED, "received/s", 1),
        metric("deviation_percent", "deviation %", 2),
        metric("limit_second_percent", "in a second % of limit", 1),
        metric("alone_p99_ms", "99% alone ms", 3),
        metric(P99, "99% in company ms", 3),
        metric("p99_ratio", "ratio", 2),
    ]
}
