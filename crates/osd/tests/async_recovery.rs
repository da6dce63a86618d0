//! Members that lack much recover beside those who serve (asynchronous recovery).

mod harness;

use base::{Duration, OsdId, PgId};
use harness::{Cluster, POOL, open};
use maps::stats::{PgStat, PgState};

const PG: PgId = PgId { pool: POOL, seed: 0 };

fn set_all(c: &mut Cluster, option: &str, value: &str) {
    for osd in (0..9).filter(|osd| c.is_running(*osd)).collect::<Vec<_>>() {
        c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
    }
}

/// A cluster of one PG in which who lacks more than ten objects does not serve.
fn cluster(seed: u64, size: u8, min_size: u8) -> Cluster {
    let mut c = Cluster::new(seed, i32::from(size), size, min_size, 1);
    few_may_lack(&mut c);
    c
}

fn few_may_lack(c: &mut Cluster) {
    set_all(c, "osd_async_recovery_min_cost", "10");
    set_all(c, "osd_force_auth_primary_missing_objects", "10");
}

/// Recovers nothing but what somebody waits for.
fn hold(c: &mut Cluster, hold: bool) {
    set_all(c, "osd_recovery_sleep", if hold { "3600" } else { "0" });
}

fn fill(c: &mut Cluster, count: u32, with: u8) {
    for i in 0..count {
        assert_eq!(c.write(&format!("o{i}"), &[with; 100]), 0);
    }
}

fn acting(c: &Cluster) -> Vec<i32> {
    c.map.pg_to_up_acting(PG).acting.iter().map(|osd| osd.0).collect()
}

fn stat(c: &Cluster) -> PgStat {
    open(&c.pg_stats[&PG])
}

fn is_clean(c: &Cluster) -> bool {
    stat(c).state == PgState::ACTIVE.with(PgState::CLEAN)
}

/// Lets a member miss writes to thirty objects and come back while nothing recovers; gives it.
fn come_back(c: &mut Cluster, osd: i32) {
    fill(c, 30, 1);
    c.kill(osd);
    c.settle();
    fill(c, 30, 2);
    hold(c, true);
    c.start(osd);
    few_may_lack(c);
    hold(c, true);
    c.settle_for(Duration::from_secs(4));
}

#[test]
fn who_lacks_much_holds_no_writes_and_serves_once_it_has_all() {
    let mut c = cluster(41, 3, 2);
    let all = acting(&c);
    come_back(&mut c, all[2]);
    assert_eq!(acting(&c), all[..2], "the others suffice");
    let state = stat(&c).state;
    assert!(state.contains(PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::REMAPPED)), "{state:?}");
    let before = stat(&c).stats.sum.num_objects_degraded;
    assert!(before >= 29, "{:?}", stat(&c).stats.sum);
    assert_eq!(c.write("o5", b"new"), 0);
    assert_eq!(c.write("another", b"new"), 0);
    c.settle_for(Duration::from_secs(6));
    assert_eq!(stat(&c).stats.sum.num_objects_degraded, before, "nobody had to wait for a copy");
    hold(&mut c, false);
    c.settle();
    assert!(is_clean(&c), "{:?}", stat(&c).state);
    assert_eq!(acting(&c), all);
    c.kill(all[0]);
    c.kill(all[1]);
    c.start(all[0]);
    c.settle();
    assert_eq!(c.read("o5").as_deref(), Ok(&b"new"[..]));
    assert_eq!(c.read("o6").as_deref(), Ok(&[2; 100][..]));
}

#[test]
fn a_primary_that_lacks_much_leads_once_it_has_all() {
    let mut c = cluster(42, 3, 2);
    let all = acting(&c);
    come_back(&mut c, all[0]);
    assert!(!acting(&c).contains(&all[0]), "{:?}", acting(&c));
    assert_eq!(c.read("o3").as_deref(), Ok(&[2; 100][..]), "no read waits");
    hold(&mut c, false);
    c.settle();
    assert!(is_clean(&c), "{:?}", stat(&c).state);
    assert_eq!(acting(&c), all);
}

/// The map may name the leader (`osd primary-temp`). The group wished itself back to the one that CRUSH puts first, which
/// the wish could not bring about, and never served again.
#[test]
fn whom_an_operator_chooses_leads() {
    let mut c = cluster(46, 3, 2);
    let all = acting(&c);
    fill(&mut c, 5, 1);
    let leader = OsdId(all[1]);
    c.publish(|_, inc| inc.new_primary_temp.extend([(PG, leader)]));
    c.settle();
    let sets = c.map.pg_to_up_acting(PG);
    assert_eq!((acting(&c), sets.acting_primary), (all.clone(), leader));
    assert!(is_clean(&c), "{:?}", stat(&c).state);
    assert_eq!(c.write("o1", b"new"), 0);
    assert_eq!(c.read("o1").as_deref(), Ok(&b"new"[..]));
    c.publish(|_, inc| inc.new_primary_temp.extend([(PG, OsdId::NONE)]));
    c.settle();
    assert_eq!(c.map.pg_to_up_acting(PG).acting_primary, OsdId(all[0]));
    assert!(is_clean(&c), "{:?}", stat(&c).state);
    assert_eq!(c.read("o1").as_deref(), Ok(&b"new"[..]));
}

#[test]
fn who_is_needed_serves_whatever_it_lacks() {
    let mut c = cluster(43, 2, 2);
    let all = acting(&c);
    fill(&mut c, 30, 1);
    c.kill(all[1]);
    c.settle();
    // Nobody serves: what it lacks it lacks already.
    c.start(all[1]);
    c.settle();
    assert_eq!(acting(&c), all);
    let mut c = cluster(44, 3, 2);
    let all = acting(&c);
    come_back(&mut c, all[2]);
    assert_eq!(acting(&c), all[..2]);
    c.kill(all[1]);
    c.settle_for(Duration::from_secs(20));
    assert_eq!(acting(&c), [all[0], all[2]], "without it there are too few");
    assert_eq!(c.active(), 1, "{:#?}", c.log);
    assert_eq!(c.write("o7", b"new"), 0, "what is written to it gets first");
    assert_eq!(c.read("o8").as_deref(), Ok(&[2; 100][..]));
    c.start(all[1]);
    hold(&mut c, false);
    c.settle();
    assert!(is_clean(&c), "{:?}", stat(&c).state);
}

#[test]
fn who_recovers_beside_the_others_does_not_decide_what_is_true() {
    let mut c = cluster(45, 3, 1);
    let all = acting(&c);
    come_back(&mut c, all[2]);
    // As many as the pool allows recover beside: the third only.
    assert_eq!(acting(&c), all[..2]);
    assert_eq!(c.write("o9", b"new"), 0);
    c.kill(all[0]);
    c.kill(all[1]);
    c.settle_for(Duration::from_secs(20));
    assert_eq!(c.active(), 0, "it knows of writes that it does not have");
    c.start(all[1]);
    few_may_lack(&mut c);
    c.settle();
    assert_eq!(c.read("o9").as_deref(), Ok(&b"new"[..]));
    assert_eq!(c.read("o10").as_deref(), Ok(&[2; 100][..]));
}
