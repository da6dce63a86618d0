//! Objects, and groups, of which no holder is left: when they may be given up, what becomes of them, and that it lasts.

mod harness;

use base::{Duration, OsdId};
use bytes::Bytes;
use harness::{Cluster, open};
use maps::OsdState;
use maps::osd_map::MapFlags;
use maps::stats::{PgStat, PgState};
use wire::messages::OsdOp;
use wire::osd::{OpCode, OsdOpItem, SnapContext};

fn stat(c: &Cluster) -> PgStat {
    open(&c.pg_stats[&c.locate("old").0])
}

fn unfound(c: &Cluster) -> i64 {
    stat(c).stats.sum.num_objects_unfound
}

fn is_clean(c: &Cluster) -> bool {
    stat(c).state == PgState::ACTIVE.with(PgState::CLEAN)
}

fn give_up(c: &mut Cluster, osd: i32, how: &str) -> (i32, String) {
    let (pg, _, _) = c.locate("old");
    c.tell(osd, &format!(r#"{{"prefix":"pg","pgid":"{pg}","cmd":"mark_unfound_lost","mulcmd":"{how}"}}"#))
}

fn write_op(c: &Cluster, name: &str, data: &[u8]) -> OsdOp {
    let item = OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64);
    c.request(name, vec![item.with_payload(Bytes::copy_from_slice(data))])
}

/// A write after a snapshot, so that what was there stays as a clone.
fn write_past(c: &mut Cluster, name: &str, data: &[u8], snap: u64) {
    let mut op = write_op(c, name, data);
    op.snap_context = SnapContext { seq: base::SnapId(snap), snaps: vec![base::SnapId(snap)] };
    assert_eq!(c.call_op(op).result, 0);
}

fn read_at(c: &mut Cluster, name: &str, snap: u64) -> Result<Bytes, i32> {
    let mut op = c.request(name, vec![OsdOpItem::extent(OpCode::READ, 0, 0)]);
    op.snap = base::SnapId(snap);
    let reply = c.call_op(op);
    if reply.result < 0 { Err(reply.result) } else { Ok(reply.ops[0].item.payload.clone()) }
}

const OTHERS: u32 = 4;

/// Two of two members; one was away while the other wrote, took its log when it came back, and has nothing of that
/// when the other goes away. Gives who went away and who is left.
fn without_the_newest(seed: u64) -> (Cluster, i32, i32) {
    let mut c = Cluster::new(seed, 2, 2, 1, 1);
    let (_, _, gone) = c.locate("old");
    let left = 1 - gone;
    for i in 0..OTHERS {
        assert_eq!(c.write(&format!("o{i}"), b"other"), 0);
    }
    assert_eq!(c.write("old", b"first"), 0);
    assert_eq!(c.write("snapped", b"before"), 0);
    write_past(&mut c, "snapped", b"after", 1);
    assert_eq!(c.write("removed", b"x"), 0);
    c.kill(left);
    c.settle();
    assert_eq!(c.write("old", b"second"), 0);
    assert_eq!(c.write("new", b"only there"), 0);
    write_past(&mut c, "snapped", b"later", 2);
    assert_eq!(c.call("removed", vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    c.set_flags(MapFlags::NORECOVER);
    c.start(left);
    c.settle();
    assert_eq!(c.active(), 1);
    let (pg, _, leads) = c.locate("old");
    let spares = |osd: i32| c.osd(leads).spares(pg, OsdId(osd));
    assert_eq!((spares(left), spares(gone)), (Some(true), Some(false)), "one has everything, the other not");
    c.kill(gone);
    c.mark_down(gone);
    c.set_flags(MapFlags::default());
    c.settle();
    assert_eq!((c.active(), unfound(&c)), (1, 3), "what was removed leaves nothing to be found: {:#?}", c.log);
    (c, gone, left)
}

fn log_at_most(c: &mut Cluster, osd: i32, entries: u32) {
    for (option, value) in [("osd_min_pg_log_entries", 1), ("osd_max_pg_log_entries", entries)] {
        c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
    }
}

fn check_reverted(c: &mut Cluster) {
    assert_eq!(c.read("old").as_deref(), Ok(&b"first"[..]));
    assert_eq!(c.read("new"), Err(-2), "of what never was elsewhere nothing is left");
    assert_eq!(c.read("removed"), Err(-2));
    assert_eq!(c.read("snapped").as_deref(), Ok(&b"after"[..]));
    assert_eq!(read_at(c, "snapped", 1).as_deref(), Ok(&b"before"[..]));
    for i in 0..OTHERS {
        assert_eq!(c.read(&format!("o{i}")).as_deref(), Ok(&b"other"[..]));
    }
}

#[test]
fn what_somebody_may_have_is_not_given_up() {
    let (mut c, gone, left) = without_the_newest(21);
    for how in ["revert", "delete"] {
        let text = "pg has 3 unfound objects but we haven't probed all sources, not marking lost";
        assert_eq!(give_up(&mut c, left, how), (-22, text.to_owned()));
    }
    assert_eq!(give_up(&mut c, left, "mark").0, -22);
    c.start(gone);
    c.settle();
    assert_eq!(c.read("old").as_deref(), Ok(&b"second"[..]), "nothing was lost after all");
    assert_eq!(c.read("new").as_deref(), Ok(&b"only there"[..]));
    assert!(is_clean(&c));
    let (_, _, primary) = c.locate("old");
    assert_eq!(give_up(&mut c, primary, "delete"), (0, "pg has no unfound objects".to_owned()));
    assert_eq!(c.read("old").as_deref(), Ok(&b"second"[..]));
}

/// What was given up became what a member had of it, an older version than one that had been answered and that a holder
/// which is no member any more still had.
#[test]
fn what_is_reverted_is_the_newest_that_anybody_has() {
    revert_to_the_newest(false);
}

#[test]
fn who_knows_that_it_lacks_the_newest_is_asked_for_what_was_before() {
    revert_to_the_newest(true);
}

fn revert_to_the_newest(third_knows: bool) {
    let mut c = Cluster::new(29, 3, 2, 1, 1);
    let (pg, _, first) = c.locate("old");
    let acting = c.map.pg_to_up_acting(pg).acting;
    let second = acting.iter().map(|osd| osd.0).find(|osd| *osd != first).expect("two members");
    let third = 3 - first - second;
    assert_eq!(c.write("old", b"of the second"), 0);
    c.kill(second);
    c.mark_down(second);
    c.mark_out(second);
    c.settle();
    assert_eq!(c.write("old", b"of the third"), 0);
    c.kill(third);
    c.mark_down(third);
    c.settle();
    assert_eq!(c.write("old", b"of the first alone"), 0);
    c.set_flags(MapFlags::NORECOVER);
    if third_knows {
        c.start(third);
        c.settle();
        c.kill(third);
        c.mark_down(third);
    }
    c.mark_out(third);
    c.mark_in(second);
    c.start(second);
    c.settle();
    c.kill_and_forget(first);
    c.mark_down(first);
    c.mark_lost(first);
    c.set_flags(MapFlags::default());
    // With an empty disk it is filled, but for what nobody has: nobody else is needed as a member.
    c.start(first);
    c.settle();
    c.start(third);
    c.settle();
    assert_eq!((c.active(), unfound(&c)), (1, 1), "{:#?}", c.log);
    let (_, _, primary) = c.locate("old");
    assert!(!c.map.pg_to_up_acting(pg).acting.contains(&OsdId(third)));
    assert_eq!(give_up(&mut c, primary, "revert").0, 0, "{:#?}", c.log);
    c.settle();
    assert_eq!(c.read("old").as_deref(), Ok(&b"of the third"[..]));
    assert_eq!(unfound(&c), 0);
}

/// Who alone had what was unfound came back when the log of who was left did not reach back to its own: it was to be
/// filled, nobody asked it for what it still had, and that was lost for good.
#[test]
fn who_is_to_be_filled_is_asked_for_what_is_unfound() {
    let (mut c, gone, left) = without_the_newest(24);
    log_at_most(&mut c, left, 5);
    for i in 0..40 {
        assert_eq!(c.write(&format!("o{}", i % OTHERS), b"more"), 0);
    }
    assert_eq!(unfound(&c), 3);
    c.start(gone);
    c.settle();
    c.settle();
    assert!(c.log.iter().any(|line| line.contains("is being filled")), "{:#?}", c.log);
    assert_eq!(c.read("old").as_deref(), Ok(&b"second"[..]), "{:#?}", c.log);
    assert_eq!(c.read("new").as_deref(), Ok(&b"only there"[..]));
    assert_eq!(c.read("removed"), Err(-2));
    assert_eq!(c.read("snapped").as_deref(), Ok(&b"later"[..]));
    assert_eq!(read_at(&mut c, "snapped", 1).as_deref(), Ok(&b"before"[..]));
    assert_eq!(read_at(&mut c, "snapped", 2).as_deref(), Ok(&b"after"[..]));
    assert!(is_clean(&c), "{:?}", stat(&c).state);
    assert_eq!(c.store(0).held_bytes(), c.store(1).held_bytes());
}

/// What such a holder has may be older than what is missed, or not be there: that is no word on what became of it.
#[test]
fn who_is_to_be_filled_gives_nothing_older() {
    let mut c = Cluster::new(25, 3, 3, 1, 1);
    let (pg, _, newest) = c.locate("old");
    let others: Vec<i32> = (0..3).filter(|osd| *osd != newest).collect();
    let [older, left] = others[..] else { panic!("three members of {pg}") };
    assert_eq!(c.write("old", b"first"), 0);
    c.kill(older);
    c.kill(left);
    c.settle();
    assert_eq!(c.write("old", b"second"), 0);
    assert_eq!(c.write("new", b"only there"), 0);
    c.set_flags(MapFlags::NORECOVER);
    c.start(left);
    c.settle();
    c.kill(newest);
    c.mark_down(newest);
    c.set_flags(MapFlags::default());
    c.settle();
    log_at_most(&mut c, left, 5);
    for _ in 0..40 {
        assert_eq!(c.write("other", b"more"), 0);
    }
    c.start(older);
    c.settle();
    assert!(c.log.iter().any(|line| line.contains("is being filled")), "{:#?}", c.log);
    assert_eq!(unfound(&c), 2, "{:#?}", c.log);
    c.start(newest);
    c.settle();
    c.settle();
    assert_eq!(c.read("old").as_deref(), Ok(&b"second"[..]));
    assert_eq!(c.read("new").as_deref(), Ok(&b"only there"[..]));
    assert!(is_clean(&c), "{:?}", stat(&c).state);
}

#[test]
fn what_is_reverted_is_as_it_was_and_waiting_clients_go_on() {
    let (mut c, gone, left) = without_the_newest(22);
    let waits = c.send(7, c.request("old", vec![OsdOpItem::extent(OpCode::READ, 0, 0)]));
    c.mark_lost(gone);
    c.settle();
    assert!(!c.replies.contains_key(&(7, waits)), "nobody has it");
    let text = "pg has 3 objects unfound and apparently lost marking";
    assert_eq!(give_up(&mut c, left, "revert"), (0, text.to_owned()));
    assert!(
        c.cluster_log.iter().any(|line| line == text) || {
            c.settle();
            c.cluster_log.iter().any(|line| line == text)
        }
    );
    c.settle();
    assert_eq!(c.replies[&(7, waits)][0].ops[0].item.payload, b"first"[..]);
    assert_eq!(unfound(&c), 0);
    check_reverted(&mut c);
    assert_eq!(c.write("old", b"third"), 0);
    assert_eq!(c.read("old").as_deref(), Ok(&b"third"[..]));
}

/// Whoever comes back with what was given up follows the others; so does its count of objects.
#[test]
fn a_holder_that_comes_back_takes_what_was_decided() {
    for how in ["revert", "delete"] {
        let (mut c, gone, left) = without_the_newest(23);
        c.mark_lost(gone);
        c.settle();
        assert_eq!(give_up(&mut c, left, how).0, 0);
        c.start(gone);
        c.settle();
        c.settle();
        assert!(is_clean(&c), "{:?} {:#?}", stat(&c).state, c.log);
        let objects = i64::from(OTHERS) + if how == "revert" { 3 } else { 0 };
        assert_eq!(stat(&c).stats.sum.num_objects, objects, "{how}: counted anew");
        assert_eq!(c.store(0).held_bytes(), c.store(1).held_bytes());
        for other in [gone, left] {
            c.kill(other);
            c.mark_down(other);
            c.settle();
            if how == "revert" {
                check_reverted(&mut c);
            } else {
                for name in ["old", "new", "snapped"] {
                    assert_eq!(c.read(name), Err(-2), "{name}");
                }
                assert_eq!(read_at(&mut c, "snapped", 1), Err(-2), "its clones went with it");
            }
            c.start(other);
            c.settle();
        }
    }
}

/// The decision is in the log, and nothing of it done yet, when its primary starts anew, or another leads.
#[test]
fn what_was_decided_outlives_peering() {
    let mut c = Cluster::new(24, 3, 3, 1, 1);
    let (_, _, gone) = c.locate("old");
    let others: Vec<i32> = (0..3).filter(|osd| *osd != gone).collect();
    assert_eq!(c.write("old", b"first"), 0);
    // One of the others sees the second write, too.
    c.kill(others[0]);
    c.settle();
    assert_eq!(c.write("old", b"second"), 0);
    c.kill(others[1]);
    c.settle();
    assert_eq!(c.write("old", b"third"), 0);
    assert_eq!(c.write("new", b"x"), 0);
    c.set_flags(MapFlags::NORECOVER);
    others.iter().for_each(|osd| c.start(*osd));
    c.settle();
    c.kill(gone);
    c.mark_lost(gone);
    c.set_flags(MapFlags::default());
    c.settle();
    assert_eq!((c.active(), unfound(&c)), (1, 2), "{:#?}", c.log);
    let (_, _, primary) = c.locate("old");
    c.set_flags(MapFlags::NORECOVER);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(give_up(&mut c, primary, "revert").0, 0);
    for osd in others {
        c.kill(osd);
        c.settle();
        c.start(osd);
        c.settle();
    }
    c.set_flags(MapFlags::default());
    c.settle();
    assert_eq!(unfound(&c), 0, "{:#?}", c.log);
    assert_eq!(c.read("old").as_deref(), Ok(&b"second"[..]), "the newest that a member had, wherever that was");
    assert_eq!(c.read("new"), Err(-2));
    assert_eq!(c.write("old", b"fourth"), 0);
    c.start(gone);
    c.settle();
    assert!(is_clean(&c), "{:?} {:#?}", stat(&c).state, c.log);
    assert_eq!(c.read("old").as_deref(), Ok(&b"fourth"[..]));
    assert_eq!(c.read("new"), Err(-2));
}

/// Only one is left, who was recovering beside those who served: it knows what it lacks, and leads.
#[test]
fn one_who_knows_what_it_lacks_leads_where_all_others_are_lost() {
    let mut c = Cluster::new(25, 3, 3, 1, 1);
    for osd in 0..3 {
        c.admin(osd, r#"{"prefix":"config set","var":"osd_async_recovery_min_cost","val":["5"]}"#);
    }
    let (_, _, primary) = c.locate("old");
    let left = (primary + 1) % 3;
    for i in 0..20 {
        assert_eq!(c.write(&format!("o{i}"), b"first"), 0);
    }
    c.kill(left);
    c.settle();
    for i in 0..10 {
        assert_eq!(c.write(&format!("o{i}"), b"second"), 0);
    }
    c.set_flags(MapFlags::NORECOVER);
    c.start(left);
    c.settle();
    let (pg, _, _) = c.locate("old");
    let acting = c.map.pg_to_up_acting(pg).acting;
    assert!(!acting.contains(&base::OsdId(left)), "{acting:?}: it recovers beside the others");
    let others: Vec<i32> = (0..3).filter(|osd| *osd != left).collect();
    for osd in &others {
        c.kill(*osd);
        c.mark_down(*osd);
    }
    c.settle();
    assert_eq!(c.active(), 0, "who is away may have had writes: {:#?}", c.log);
    others.iter().for_each(|osd| c.mark_lost(*osd));
    c.set_flags(MapFlags::default());
    c.settle();
    assert_eq!((c.active(), unfound(&c)), (1, 10), "{:#?}", c.log);
    assert_eq!(c.read("o15").as_deref(), Ok(&b"first"[..]));
    assert_eq!(give_up(&mut c, left, "revert").0, 0);
    assert_eq!(c.read("o3").as_deref(), Ok(&b"first"[..]));
    assert_eq!(c.write("o3", b"third"), 0);
    others.iter().for_each(|osd| c.start(*osd));
    c.settle();
    c.settle();
    assert!(is_clean(&c), "{:?} {:#?}", stat(&c).state, c.log);
    assert_eq!(c.read("o3").as_deref(), Ok(&b"third"[..]));
    assert_eq!(c.read("o4").as_deref(), Ok(&b"first"[..]));
}

/// Who was the last to be written to is away: nobody serves until it comes back, or is given up.
#[test]
fn a_group_is_down_until_who_saw_its_last_writes_is_lost() {
    for (comes_back, removed) in [(false, false), (true, false), (false, true)] {
        let mut c = Cluster::new(26, 2, 2, 1, 1);
        let (_, _, last) = c.locate("old");
        let left = 1 - last;
        assert_eq!(c.write("old", b"first"), 0);
        c.kill(left);
        c.settle();
        assert_eq!(c.write("old", b"second"), 0);
        c.kill(last);
        c.mark_down(last);
        c.start(left);
        c.settle();
        assert_eq!((c.active(), stat(&c).state.contains(PgState::DOWN)), (0, true), "{:#?}", c.log);
        assert_eq!(stat(&c).blocked_by, [OsdId(last)]);
        let (pg, _, _) = c.locate("old");
        c.make_anew(pg);
        c.settle();
        assert_eq!(c.active(), 0, "there is a copy, old as it may be");
        if removed {
            c.publish(|_, inc| inc.new_state.extend([(OsdId(last), OsdState::EXISTS)]));
            c.settle();
            let stat = stat(&c);
            assert!(stat.state.contains(PgState::INCOMPLETE) && stat.blocked_by.is_empty(), "{:?}", stat.state);
            continue;
        }
        if comes_back {
            c.start(last);
        } else {
            c.mark_lost(last);
        }
        c.settle();
        let expected = if comes_back { &b"second"[..] } else { &b"first"[..] };
        assert_eq!(c.read("old").as_deref(), Ok(expected), "what was lost is lost");
        if !comes_back {
            assert_eq!(c.write("old", b"third"), 0);
            c.start(last);
            c.settle();
            c.settle();
            assert!(is_clean(&c), "{:?} {:#?}", stat(&c).state, c.log);
            assert_eq!(c.read("old").as_deref(), Ok(&b"third"[..]));
        }
    }
}

/// All holders are gone for good: others begin with nothing, and old copies that turn up yield to what is written since.
#[test]
fn a_group_made_anew_begins_with_nothing() {
    for short_logs in [false, true] {
        let mut c = Cluster::new(27, 4, 2, 1, 1);
        if short_logs {
            for osd in 0..4 {
                for (option, value) in [("osd_min_pg_log_entries", "1"), ("osd_max_pg_log_entries", "2")] {
                    c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
                }
            }
        }
        let (pg, _, _) = c.locate("old");
        let holders: Vec<i32> = c.map.pg_to_up_acting(pg).acting.iter().map(|osd| osd.0).collect();
        for name in ["old", "older", "oldest"] {
            assert_eq!(c.write(name, b"first"), 0);
        }
        for osd in &holders {
            c.kill(*osd);
            c.mark_down(*osd);
            c.mark_out(*osd);
        }
        c.settle();
        assert_eq!((c.active(), stat(&c).state.contains(PgState::DOWN)), (0, true), "{:#?}", c.log);
        c.make_anew(pg);
        c.settle();
        assert!(is_clean(&c), "{:?} {:#?}", stat(&c).state, c.log);
        assert_eq!(c.read("old"), Err(-2));
        assert_eq!(c.write("new", b"x"), 0);
        let (_, _, primary) = c.locate("old");
        c.make_anew(pg);
        c.settle();
        assert_eq!(c.read("new").as_deref(), Ok(&b"x"[..]), "one that serves is left alone");
        c.kill(primary);
        c.settle();
        assert_eq!(c.read("new").as_deref(), Ok(&b"x"[..]), "both have it");
        c.start(primary);
        for osd in &holders {
            c.start(*osd);
            c.mark_in(*osd);
        }
        c.settle();
        c.settle();
        let now: Vec<i32> = c.map.pg_to_up_acting(pg).acting.iter().map(|osd| osd.0).collect();
        assert_eq!(now, holders, "the group is back where it was");
        assert!(is_clean(&c), "{:?} {:#?}", stat(&c).state, c.log);
        assert_eq!(c.read("new").as_deref(), Ok(&b"x"[..]));
        assert_eq!(c.read("old"), Err(-2), "what was given up does not come back");
        assert_eq!(stat(&c).stats.sum.num_objects, 1);
        assert_eq!(c.store(holders[0]).held_bytes(), c.store(holders[1]).held_bytes());
    }
}
