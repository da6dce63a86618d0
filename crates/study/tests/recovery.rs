//! The study `recovery` in virtual time, quickly.

use std::path::Path;
use study::{Conduct, RecoverySim, RecoverySimOptions, Results, Target, conduct};

fn quick(out: &Path, device: &str, objects: u32) -> Results {
    let devices = vec![device.to_owned()];
    let options = RecoverySimOptions { baseline: false, devices, objects: Some(objects), shards: None };
    let mut study = RecoverySim::new(options).expect("sound options");
    let how =
        Conduct { on: Target::Sim, out: out.to_owned(), runs: 1, seed: 1, only: None, version: "test".to_owned() };
    conduct(&mut study, &how).expect("it runs")
}

/// Published were 80, 120 and 159 objects a second under the three profiles: as their limits of recovery, 100%, 150% and
/// 200%, and not as what they reserve, 25%, 40% and 60%.
#[test]
fn recovery_goes_at_the_limit_of_each_profile() {
    let dir = tempfile::tempdir().expect("a directory");
    let results = quick(dir.path(), "nvme", 3_200);
    let of = |name: &str, key| results.spread(&format!("nvme, {name}"), key).expect(name).mean;
    let alone = of("client alone", "client_iops");
    assert!((alone / 21_500.0 - 1.0).abs() < 0.05, "{alone}");
    let rate = |profile: &str| of(&format!("mclock, {profile}"), "recovered_objects_per_s");
    let least = rate("high_client_ops");
    for (profile, limit) in [("balanced", 1.5), ("high_recovery_ops", 2.0)] {
        let times = rate(profile) / least;
        assert!((times / limit - 1.0).abs() < 0.05, "{profile}: {times}");
    }
    // Three primaries, and what a turn of 20 MiB costs in 4 KiB writes.
    let turn = 0.05 + 0.000_011 * f64::from(20 << 20);
    assert!(least < 3.0 * 21_500.0 / turn, "{least}");
    for profile in ["high_client_ops", "balanced", "high_recovery_ops"] {
        let client = of(&format!("mclock, {profile}"), "client_iops");
        assert!(client > of("wpq, limits lifted", "client_iops"), "{profile}: {client}\n{}", results.table());
    }
}

/// A group has one object under way: with one group at a time, as by default, nothing else overlaps.
#[test]
fn by_default_one_object_is_recovered_after_the_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let results = quick(dir.path(), "nvme", 640);
    let rate = results.spread("nvme, wpq, default limits", "recovered_objects_per_s").expect("measured").mean;
    // 4 MiB read at 2.8 and written at 1.9 GB/s, and through six passes at 4 between.
    let each_s = f64::from(4 << 20) * (1.0 / 2.8e9 + 6.0 / 4e9 + 1.0 / 1.9e9);
    assert!(rate < 1.0 / each_s && rate > 0.8 / each_s, "{rate} of {}", 1.0 / each_s);
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
    let line = RecoverySim::new(options(&["tape"], None)).expect_err("refused").to_string();
    assert!(line.starts_with("--device-model: there is no 'tape' among nvme; hdd with"), "{line}");
    let line = RecoverySim::new(options(&[], Some(17))).expect_err("refused").to_string();
    assert_eq!(line, "--shards: has to be from 1 to 16, not 17");
}
