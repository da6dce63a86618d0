//! Whole clusters under faults: judged, and repeated to the event.

use base::Duration;
use sim::{Options, Planted, Report, run};

fn must_be_well(options: &Options) -> Report {
    let report = run(options);
    assert!(report.failures.is_empty(), "to see this again: {}\n{}", report.command, report.failures.join("\n"));
    assert!(report.operations > 0, "nobody did anything");
    report
}

#[test]
fn a_quiet_cluster_answers_everything() {
    let options = Options { faults: false, duration: Duration::from_secs(20), ..Options::new(1) };
    let report = must_be_well(&options);
    assert_eq!(report.unknown, 0, "{report:?}");
}

#[test]
fn the_same_seed_goes_the_same_way_and_another_does_not() {
    let options = Options { duration: Duration::from_secs(20), ..Options::new(2) };
    let first = must_be_well(&options);
    assert_eq!(run(&options), first);
    let other = must_be_well(&Options { seed: 3, ..options });
    assert_ne!(other.trace_hash, first.trace_hash);
}

#[test]
fn clusters_under_faults_keep_their_promises() {
    for seed in 10..16 {
        let report = must_be_well(&Options { secure: seed % 3 == 0, ..Options::new(seed) });
        assert!(report.faults > 5, "seed {seed}: only {} faults", report.faults);
        assert!(report.snapshots > 5, "seed {seed}: only {} snapshots", report.snapshots);
    }
}

#[test]
fn clusters_that_break_three_times_a_second_keep_their_promises() {
    for seed in 30..34 {
        let options = Options {
            osds: 5,
            objects: 4,
            depth: 3,
            think: Duration::from_millis(60),
            fault_every: Duration::from_millis(300),
            duration: Duration::from_secs(40),
            ..Options::new(seed)
        };
        must_be_well(&options);
    }
}

#[test]
fn planted_faults_are_found() {
    for planted in [Planted::ForgetfulDisks, Planted::LostWrites, Planted::DoubleAppends, Planted::StaleReads] {
        // Not every run meets the fault; a few together must.
        let found = (20..26).any(|seed| {
            let options = Options { planted: Some(planted), fault_every: Duration::from_secs(1), ..Options::new(seed) };
            !run(&options).failures.is_empty()
        });
        assert!(found, "{planted:?} is not found");
    }
}
