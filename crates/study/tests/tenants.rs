//! The study `tenants` in virtual time, quickly: promises are kept at one shard and at sixteen while OSDs recover and scrub.

use device::DeviceModel;
use std::sync::OnceLock;
use study::{Conduct, Detail, Results, Target, TenantsOptions, TenantsStudy, conduct};

/// A tenth of an ssd, so that a test has a tenth to do in as much time.
const SLOW_SSD: &str =
    "like = ssd\nname = slow ssd\nread_latency_us = 1000\nread_iops = 9800\nread_bytes_per_s = 5.5e7";
const SECONDS: u32 = 8;

/// The study, once for all tests.
fn quick() -> &'static Results {
    static RESULTS: OnceLock<Results> = OnceLock::new();
    RESULTS.get_or_init(run)
}

fn run() -> Results {
    let dir = tempfile::tempdir().expect("a directory");
    let options = TenantsOptions {
        devices: vec![DeviceModel::from_figures(SLOW_SSD).expect("it describes a device")],
        tenants: 96,
        shards: vec![1, 16],
        seconds: SECONDS,
    };
    let mut study = TenantsStudy::new(options).expect("sound options");
    let version = "test".to_owned();
    let how = Conduct { on: Target::Sim, out: dir.path().to_owned(), runs: 1, seed: 1, only: None, version };
    conduct(&mut study, &how).expect("it runs")
}

fn value(results: &Results, name: &str, key: &str) -> f64 {
    results.runs(name).first().and_then(|run| run.value(key)).unwrap_or_else(|| panic!("no {key} of {name}"))
}

fn column(detail: &Detail, key: &str) -> Vec<f64> {
    let place = detail.columns.iter().position(|column| column.key == key).expect("a column");
    detail.rows.iter().filter_map(|(_, values)| values[place]).collect()
}

#[test]
fn promises_are_kept_at_one_shard_and_at_sixteen() {
    let results = quick();
    for shards in ["1", "16"] {
        let name = |who: &str| format!("slow ssd, shards {shards}, {who}");
        let beside = name("beside hogs");
        let of = |key| value(results, &beside, key);
        let told = results.table();
        assert!(of("reservation_met_percent") >= 99.0 && of("asked_met_percent") >= 99.0, "{told}");
        let ahead_s = (of("limit_reached_percent") / 100.0 - 1.0) * f64::from(SECONDS);
        assert!(ahead_s <= qos::limits::AFAR_CREDIT.as_secs_f64(), "{told}");
        assert!(of("backlog_percent") >= 99.0, "who wants more has something queued: {told}");
        for background in ["recovery_mib_s", "scrub_mib_s"] {
            let each_second = &results.runs(&beside)[0].series[background];
            assert_eq!(each_second.len(), SECONDS as usize);
            assert!(each_second.iter().all(|(_, mib)| *mib >= 10.0), "{background}: {each_second:?}");
        }
        let alone = value(results, &name("victims alone"), "victim_p99_ms");
        assert!(of("victim_p99_ms") <= 1.5 * alone, "{told}");
        // The same without promises: what the figures would show if nobody kept any.
        let unpromised = |key| value(results, &name("beside hogs, nothing promised"), key);
        assert!(unpromised("reservation_met_percent") < 90.0 && unpromised("limit_reached_percent") > 150.0, "{told}");
        assert!(unpromised("victim_p99_ms") > 10.0 * alone, "{told}");
    }
}

#[test]
fn the_report_tells_of_every_tenant_what_it_was_promised_and_got() {
    let results = quick();
    let beside = "slow ssd, shards 1, beside hogs";
    let details: Vec<&Detail> = results.details.iter().filter(|detail| detail.title.starts_with(beside)).collect();
    let rows: Vec<usize> = details.iter().map(|detail| detail.rows.len()).collect();
    assert_eq!(rows, [24, 12, 48, 12], "who want more, limited, victims, hogs");
    let worst = 100.0 + column(details[0], "deviation_percent")[0];
    assert!((worst - value(results, beside, "reservation_met_percent")).abs() < 1e-9, "the worst off comes first");
    assert_eq!(column(details[0], "limit_per_s").len(), 12);
    let ratios = column(details[2], "p99_ratio");
    assert!(ratios.len() == 48 && ratios.is_sorted_by(|a, b| a >= b) && ratios[0] > 1.0, "{ratios:?}");
    assert!(results.table().contains("in company ms") && results.to_json().contains("\"p99_ratio\""));
}
