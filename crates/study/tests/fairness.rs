//! The study `fairness` in virtual time, quickly: shares follow weights, and the same seed gives the same report.

use device::DeviceModel;
use std::path::Path;
use study::{Conduct, Fairness, FairnessOptions, Results, Stop, StudyError, Target, conduct};

fn quick(out: &Path, devices: &[&str], readers: &[u32]) -> Results {
    on_models(out, devices.iter().map(|name| named(name)).collect(), readers).expect("it runs")
}

fn named(name: &str) -> DeviceModel {
    DeviceModel::named(name).expect("a model")
}

fn on_models(out: &Path, devices: Vec<DeviceModel>, readers: &[u32]) -> Result<Results, StudyError> {
    let options = FairnessOptions {
        on: Target::Sim,
        devices,
        readers: readers.to_vec(),
        seconds: 10,
        read_ahead_kib: 128,
        scratch: out.to_owned(),
        stop: Stop::default(),
    };
    let how =
        Conduct { on: Target::Sim, out: out.to_owned(), runs: 1, seed: 1, only: None, version: "test".to_owned() };
    conduct(&mut Fairness::new(options)?, &how)
}

/// Two models of one name once shared their results, and a changed one went on with those of the model before.
#[test]
fn results_belong_to_one_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let two = on_models(dir.path(), vec![named("ssd"), DeviceModel { queue_depth: 1, ..named("ssd") }], &[1]);
    assert!(matches!(two, Err(StudyError::Option { option: "device-model", .. })), "{two:?}");
    on_models(dir.path(), vec![named("ssd")], &[1]).expect("it runs");
    on_models(dir.path(), vec![named("ssd")], &[1]).expect("it goes on");
    let changed = on_models(dir.path(), vec![DeviceModel { noise: 0.0, ..named("ssd") }], &[1]);
    assert!(changed.is_err_and(|why| why.to_string().contains("device ssd")));
}

#[test]
fn shares_follow_weights_in_both_modes() {
    let dir = tempfile::tempdir().expect("a directory");
    let results = quick(dir.path(), &["ssd", "hdd-array"], &[2, 8]);
    for (name, _) in &results.configurations {
        let error = results.spread(name, "share_error_percent").expect("measured").mean;
        // Turns of a disk are long; in ten seconds there are not many of them.
        let most = if name.starts_with("hdd-array, time") { 25.0 } else { 5.0 };
        assert!(error < most, "{name}: {error}%");
    }
    let total = |mode: &str, readers| {
        let name = format!("hdd-array, {mode}, {readers} readers a group");
        results.spread(&name, "total_kb_s").expect("measured").mean
    };
    // What the mode is for: many readers keep an array busy that one at a time cannot; what is left is the link's.
    assert!(total("IOPS mode", 8) > 1.5 * total("time mode", 8), "{}", results.table());
    assert!((total("IOPS mode", 8) / 377_187.0 - 1.0).abs() < 0.15, "as published: {}", results.table());
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let report = || {
        let dir = tempfile::tempdir().expect("a directory");
        quick(dir.path(), &["hdd"], &[2]);
        std::fs::read_to_string(dir.path().join("report.html")).expect("a report")
    };
    assert_eq!(report(), report());
}

#[test]
fn a_cluster_has_no_device_to_study() {
    let options = FairnessOptions {
        on: Target::named("/etc/ceph/ceph.conf"),
        devices: Vec::new(),
        readers: vec![1],
        seconds: 1,
        read_ahead_kib: 128,
        scratch: ".".into(),
        stop: Stop::default(),
    };
    let line = Fairness::new(options).expect_err("refused").to_string();
    let expected = "does not run --on /etc/ceph/ceph.conf: it is about a device's scheduler, on sim or on live";
    assert_eq!(line, format!("the study fairness {expected}"));
}
