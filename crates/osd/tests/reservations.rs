//! Slots of recovery and backfill, and what holds groups back from them.

mod harness;

use base::{Duration, PgId};
use harness::{Cluster, POOL, open};
use maps::osd_map::MapFlags;
use maps::stats::{PgStat, PgState};
use wire::messages::force_recovery;

fn set(c: &mut Cluster, osd: i32, option: &str, value: &str) {
    c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
}

/// A pause between recoveries in which nothing happens by itself.
fn hold(c: &mut Cluster, osds: i32, hold: bool) {
    (0..osds).for_each(|osd| set(c, osd, "osd_recovery_sleep", if hold { "3600" } else { "0" }));
}

/// Logs that tell of the last writes only: who comes anew is filled.
fn keep_short_logs(c: &mut Cluster, osds: i32) {
    for osd in 0..osds {
        set(c, osd, "osd_min_pg_log_entries", "1");
        set(c, osd, "osd_max_pg_log_entries", "5");
    }
}

fn fill(c: &mut Cluster, count: u32, with: u8) {
    for i in 0..count {
        assert_eq!(c.write(&format!("o{i}"), &[with; 100]), 0);
    }
}

fn flags(c: &mut Cluster, flags: MapFlags) {
    c.publish(|_, inc| inc.new_flags = Some(flags));
    c.settle_for(Duration::from_secs(3));
}

fn stat(c: &Cluster, pg: PgId) -> PgStat {
    open(&c.pg_stats[&pg])
}

fn states(c: &Cluster, pgs: u32) -> Vec<PgState> {
    (0..pgs).map(|seed| stat(c, PgId::new(POOL, seed)).state).collect()
}

fn clean(c: &Cluster, pgs: u32) -> bool {
    states(c, pgs).iter().all(|state| *state == PgState::ACTIVE.with(PgState::CLEAN))
}

fn count(states: &[PgState], word: PgState) -> usize {
    states.iter().filter(|state| state.contains(word)).count()
}

/// Eight groups that osd.2 has to catch up with, of which most wait for a slot.
fn waiting_for_slots(seed: u64) -> Cluster {
    let mut c = Cluster::new(seed, 3, 3, 2, 8);
    fill(&mut c, 60, 1);
    c.kill(2);
    c.settle();
    fill(&mut c, 60, 2);
    hold(&mut c, 2, true);
    c.start(2);
    hold(&mut c, 3, true);
    c.settle_for(Duration::from_secs(3));
    c
}

#[test]
fn an_osd_recovers_one_group_at_a_time_and_the_forced_one_first() {
    let mut c = waiting_for_slots(21);
    let before = states(&c, 8);
    assert!((1..=3).contains(&count(&before, PgState::RECOVERING)), "{before:?}");
    assert!(count(&before, PgState::RECOVERY_WAIT) >= 4, "{before:?}");
    // One that osd.2 does not lead: those all need a slot of its.
    let waits = |seed: &u32| {
        let pg = PgId::new(POOL, *seed);
        before[*seed as usize].contains(PgState::RECOVERY_WAIT) && c.map.pg_to_up_acting(pg).acting_primary.0 != 2
    };
    let pg = PgId::new(POOL, (0..8).find(waits).expect("one waits"));
    c.force(pg, force_recovery::RECOVERY);
    c.settle_for(Duration::from_secs(3));
    let state = stat(&c, pg).state;
    assert!(state.contains(PgState::RECOVERING.with(PgState::FORCED_RECOVERY)), "{state:?}");
    assert!(count(&states(&c, 8), PgState::RECOVERING) <= 3, "{:?}", states(&c, 8));
    c.force(pg, force_recovery::RECOVERY | force_recovery::CANCEL);
    c.settle_for(Duration::from_secs(3));
    assert!(!stat(&c, pg).state.contains(PgState::FORCED_RECOVERY));
    hold(&mut c, 3, false);
    c.settle();
    c.settle();
    assert!(clean(&c, 8), "{:?}", states(&c, 8));
    assert_eq!(c.store(2).held_bytes(), c.store(0).held_bytes());
}

/// A member that gives up its own session to the primary took back the slot, too, for which the primary had asked on
/// another that stood. The primary did not ask again, and the group waited for ever.
#[test]
fn what_a_primary_has_asked_for_lasts_as_long_as_the_session_on_which_it_did() {
    let mut c = waiting_for_slots(23);
    assert!(count(&states(&c, 8), PgState::RECOVERY_WAIT) >= 4, "{:?}", states(&c, 8));
    (0..2).for_each(|primary| c.end_sessions(2, primary));
    c.settle_for(Duration::from_secs(3));
    hold(&mut c, 3, false);
    (0..4).for_each(|_| c.settle());
    assert!(clean(&c, 8), "{:?}", states(&c, 8));
}

#[test]
fn flags_hold_recovery_back_but_not_what_clients_wait_for() {
    let mut c = Cluster::new(22, 3, 3, 2, 1);
    let pg = PgId::new(POOL, 0);
    fill(&mut c, 20, 1);
    let replica = c.map.pg_to_up_acting(pg).acting[1].0;
    c.kill(replica);
    c.settle();
    fill(&mut c, 20, 2);
    flags(&mut c, MapFlags::NORECOVER);
    c.start(replica);
    c.settle_for(Duration::from_secs(5));
    let before = stat(&c, pg);
    assert!(before.state.contains(PgState::RECOVERY_WAIT.with(PgState::DEGRADED)), "{:?}", before.state);
    assert_eq!(before.stats.sum.num_objects_degraded, 20);
    assert_eq!(c.write("o3", b"new"), 0);
    c.settle_for(Duration::from_secs(3));
    assert_eq!(stat(&c, pg).stats.sum.num_objects_degraded, 19);
    flags(&mut c, MapFlags::NOBACKFILL);
    c.settle();
    assert!(clean(&c, 1), "that is none: {:?}", states(&c, 1));
}

/// A group with all its copies is moved, another has lost one: to an OSD that dies and is marked out before anybody
/// notices, so that peering waits for one that is no member any more.
#[test]
fn backfill_waits_for_its_flags_and_rebalancing_for_its_own() {
    for (flag, lost, goes) in [
        (MapFlags::NOBACKFILL, true, false),
        (MapFlags::NOREBALANCE, true, true),
        (MapFlags::NOREBALANCE, false, false),
        (MapFlags::NORECOVER, false, false),
    ] {
        let mut c = Cluster::new(23, 4, 3, 2, 1);
        keep_short_logs(&mut c, 4);
        let pg = PgId::new(POOL, 0);
        fill(&mut c, 20, 1);
        let leaves = c.map.pg_to_up_acting(pg).acting[1].0;
        flags(&mut c, flag);
        if lost {
            c.kill(leaves);
        }
        c.mark_out(leaves);
        c.settle();
        c.settle();
        let state = stat(&c, pg).state;
        assert_eq!(clean(&c, 1), goes, "{flag:?}, lost: {lost}: {state:?} {:#?}", c.log);
        assert_eq!(state.contains(PgState::BACKFILL_WAIT), !goes, "{flag:?}, lost: {lost}: {state:?}");
        flags(&mut c, MapFlags::default());
        c.settle();
        c.settle();
        assert!(clean(&c, 1), "{flag:?}, lost: {lost}: {:?}", states(&c, 1));
    }
}

#[test]
fn a_store_that_is_too_full_is_not_filled_until_it_has_room() {
    let mut c = Cluster::new(24, 4, 3, 2, 1);
    keep_short_logs(&mut c, 4);
    let pg = PgId::new(POOL, 0);
    fill(&mut c, 20, 1);
    c.publish(|_, inc| inc.new_backfillfull_ratio = Some(0.9));
    let sets = c.map.pg_to_up_acting(pg);
    let comes = (0..4).find(|osd| !sets.acting.iter().any(|o| o.0 == *osd)).expect("one is free");
    (0..4).for_each(|osd| set(&mut c, osd, "osd_backfill_retry_interval", "5"));
    c.set_room(comes, 1 << 30, 50 << 20);
    c.kill(sets.acting[1].0);
    c.mark_out(sets.acting[1].0);
    c.settle_for(Duration::from_secs(4));
    let state = stat(&c, pg).state;
    let expected = state.contains(PgState::BACKFILL_TOOFULL) && !state.contains(PgState::BACKFILL_WAIT);
    assert!(expected, "{state:?} {:#?}", c.log);
    c.set_room(comes, 1 << 30, 500 << 20);
    c.settle_for(Duration::from_secs(12));
    assert!(clean(&c, 1), "{:?} {:#?}", states(&c, 1), c.log);
}
