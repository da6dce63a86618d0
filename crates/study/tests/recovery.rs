//! The study `recovery` in virtual time, quickly.

use std::path::Path;
use study::{Conduct, RecoverySim, RecoverySimOptions, Results, Target, conduct};

fn quick(out: &Path, device: &str, objects: u32) -> Results {
    let devices = vec![device.to_owned()];
    let options = RecoverySimOptions { baseline: false, devices, objects: Some(objects), shards: 1 };
    let mut study = RecoverySim::new(options).expect("sound options");
    let how =
        Conduct { on: Target::Sim, out: out.to_owned(), runs: 1, seed: 1, only: None, version: "test".to_owned() };
    conduct(&mut study, &how).expect("it runs")
}

#[test]
fn profiles_give_recovery_what_they_reserve_for_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let results = quick(dir.path(), "nvme", 1_000);
    let of = |name: &str, key| results.spread(&format!("nvme, {name}"), key).expect(name).mean;
    let alone = of("client alone", "client_iops");
    assert!((alone / 21_500.0 - 1.0).abs() < 0.05, "{alone}");
    // Three primaries, and what a turn of 20 MiB costs in 4 KiB writes.
    let turn = 0.05 + 0.000_011 * f64::from(20 << 20);
    for (profile, reserved) in [("high_client_ops", 0.25), ("balanced", 0.4), ("high_recovery_ops", 0.6)] {
        let rate = of(&format!("mclock, {profile}"), "recovered_objects_per_s");
        let least = 3.0 * reserved * 21_500.0 / turn;
        assert!(rate >= 0.9 * least && rate < 1.5 * least, "{profile}: {rate}, reserved {least}");
        let client = of(&format!("mclock, {profile}"), "client_iops");
        assert!(client > of("wpq, limits lifted", "client_iops"), "{profile}: {client}\n{}", results.table());
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let report = || {
        let dir = tempfile::tempdir().expect("a directory");
        quick(dir.path(), "hdd alone", 40);
        std::fs::read_to_string(dir.path().join("report.html")).expect("a report")
    };
    assert_eq!(report(), report());
}

#[test]
fn what_does_not_exist_is_named() {
    let options = |devices: &[&str], shards| RecoverySimOptions {
        baseline: true,
        devices: devices.iter().map(|name| (*name).to_owned()).collect(),
        objects: None,
        shards,
    };
    let line = RecoverySim::new(options(&["tape"], 1)).expect_err("refused").to_string();
    assert!(line.starts_with("--device-model: there is no 'tape' among nvme; hdd with"), "{line}");
    let line = RecoverySim::new(options(&[], 17)).expect_err("refused").to_string();
    assert_eq!(line, "--shards: has to be from 1 to 16, not 17");
}
