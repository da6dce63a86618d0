//! Placement groups that serve while members lack objects: on demand, in the background, by the log and part by part.

mod harness;

use base::{Bug, Duration, OsdId, PgId, SnapId};
use bytes::Bytes;
use harness::{Cluster, POOL, open};
use maps::stats::{PgStat, PgState};
use store::ObjectId;
use wire::Encode;
use wire::messages::OsdOp;
use wire::osd::payload::ListReply;
use wire::osd::{HObject, ObjectLocator, OpCode, OpParams, OsdOpItem, RequestFlags, SnapContext, SpgId};

/// A pause between recoveries in which nothing happens by itself.
fn hold_recovery(c: &mut Cluster, osds: &[i32], hold: bool) {
    let value = if hold { "3600" } else { "0" };
    for osd in osds {
        let command = format!(r#"{{"prefix":"config set","var":"osd_recovery_sleep","val":["{value}"]}}"#);
        c.admin(*osd, &command);
    }
}

fn keep_short_logs(c: &mut Cluster, osds: i32) {
    for osd in 0..osds {
        for (option, value) in [("osd_min_pg_log_entries", "1"), ("osd_max_pg_log_entries", "5")] {
            c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
        }
    }
}

fn stat(c: &Cluster, name: &str) -> PgStat {
    open(&c.pg_stats[&c.locate(name).0])
}

fn is_clean(c: &Cluster, name: &str) -> bool {
    stat(c, name).state == PgState::ACTIVE.with(PgState::CLEAN)
}

/// The primary of the only PG, and another member.
fn members(c: &Cluster) -> (i32, i32) {
    let (pg, _, primary) = c.locate("o0");
    let acting = c.map.pg_to_up_acting(pg).acting;
    (primary, acting.iter().map(|osd| osd.0).find(|osd| *osd != primary).expect("another member"))
}

fn fill(c: &mut Cluster, count: u32, with: u8) {
    for i in 0..count {
        assert_eq!(c.write(&format!("o{i}"), &[with; 100]), 0);
    }
}

/// `osd_recovery_max_chunk` was declared and heeded by nobody.
#[test]
fn objects_come_in_pieces_as_large_as_an_option_says() {
    let mut c = Cluster::new(47, 3, 3, 2, 1);
    let (primary, replica) = members(&c);
    fill(&mut c, 1, 1);
    c.kill(replica);
    c.settle();
    let large: Vec<u8> = (0..1 << 20).map(|at| (at >> 10) as u8).collect();
    assert_eq!(c.write("o0", &large), 0);
    for osd in (0..3).filter(|osd| *osd != replica) {
        c.admin(osd, r#"{"prefix":"config set","var":"osd_recovery_max_chunk","val":["131072"]}"#);
    }
    c.start(replica);
    c.settle();
    assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
    let dump = c.admin(replica, r#"{"prefix":"perf dump"}"#);
    assert_eq!(dump["osd"]["subop_push"].as_u64(), Some(8));
    assert_eq!(dump["osd"]["recovery_bytes"].as_u64(), Some(1 << 20));
    let dump = c.admin(primary, r#"{"prefix":"perf dump"}"#);
    assert_eq!(dump["osd"]["recovery_ops"].as_u64(), Some(1));
    c.kill(primary);
    c.settle();
    assert!(c.read("o0").expect("its copies") == large);
}

#[test]
fn a_member_that_comes_back_is_given_what_it_lacks_while_clients_write() {
    let mut c = Cluster::new(11, 3, 3, 2, 1);
    let (primary, replica) = members(&c);
    fill(&mut c, 20, 1);
    c.kill(replica);
    c.settle();
    fill(&mut c, 20, 2);
    assert_eq!(c.call("o19", vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    hold_recovery(&mut c, &[primary], true);
    c.start(replica);
    c.settle_for(Duration::from_secs(3));
    assert_eq!(c.active(), 1, "it serves before anything is copied: {:#?}", c.log);
    let before = stat(&c, "o0");
    assert!(before.state.contains(PgState::ACTIVE.with(PgState::DEGRADED)), "{:?}", before.state);
    assert!(before.stats.sum.num_objects_degraded >= 18, "{:?}", before.stats.sum);
    assert_eq!(c.read("o3").as_deref(), Ok(&[2; 100][..]), "the primary has it");
    assert_eq!(c.write("o5", b"new"), 0, "an object that is written to comes first");
    c.settle_for(Duration::from_secs(3));
    let during = stat(&c, "o0").stats.sum.num_objects_degraded;
    assert_eq!(during, before.stats.sum.num_objects_degraded - 1);
    hold_recovery(&mut c, &[primary], false);
    c.settle();
    assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
    assert_eq!(c.store(replica).held_bytes(), c.store(primary).held_bytes());
    c.kill(primary);
    c.settle();
    assert_eq!(c.read("o5").as_deref(), Ok(&b"new"[..]));
    assert_eq!(c.read("o19"), Err(-2));
}

#[test]
fn a_primary_that_comes_back_serves_what_it_has_not_copied_yet() {
    let mut c = Cluster::new(12, 3, 3, 2, 1);
    let (primary, _) = members(&c);
    fill(&mut c, 10, 1);
    c.kill(primary);
    c.settle();
    fill(&mut c, 10, 2);
    assert_eq!(c.call("o9", vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    c.start(primary);
    // It leads as soon as it is up; its first turn of recovery is its last for now.
    c.settle_for(Duration::from_millis(100));
    hold_recovery(&mut c, &[primary], true);
    c.settle_for(Duration::from_secs(3));
    assert_eq!(c.locate("o0").2, primary);
    for i in 0..9 {
        assert_eq!(c.read(&format!("o{i}")).as_deref(), Ok(&[2; 100][..]), "o{i}");
    }
    assert_eq!(c.read("o9"), Err(-2), "what was deleted meanwhile is not there");
    hold_recovery(&mut c, &[primary], false);
    c.settle();
    assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
}

/// A primary gave a member that came back its log, with a write that was not durable on itself, and lost power. The member
/// had kept the log, which named a write that no disk had: the object was unfound for good, though nobody had been told
/// that the write was done and there had always been a whole copy of what it was before.
#[test]
fn a_log_is_given_to_others_once_it_is_durable_here() {
    for power_goes in [true, false] {
        let mut c = Cluster::new(19, 2, 2, 1, 1);
        let (primary, replica) = members(&c);
        fill(&mut c, 3, 1);
        c.kill(replica);
        c.settle();
        fill(&mut c, 3, 2);
        c.hold_commits(primary);
        let write = OsdOpItem::extent(OpCode::WRITEFULL, 0, 3).with_payload(Bytes::from_static(b"new"));
        let tid = c.send(1, c.request("o0", vec![write]));
        c.settle_for(Duration::from_secs(1));
        c.start(replica);
        c.settle_for(Duration::from_secs(3));
        assert!(!c.replies.contains_key(&(1, tid)), "it is nowhere yet");
        if power_goes {
            c.kill(primary);
            c.settle();
            c.start(primary);
        } else {
            c.release_commits(primary);
        }
        c.settle();
        let expected: &[u8] = if power_goes { &[2; 100] } else { b"new" };
        assert_eq!(c.read("o0").as_deref(), Ok(expected), "{:#?}", c.log);
        assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
        assert_eq!(c.store(0).held_bytes(), c.store(1).held_bytes());
        assert_eq!(c.replies.contains_key(&(1, tid)), !power_goes);
    }
}

/// The only holder of an object died while the primary fetched it, and came back: it had been asked once, and was not
/// asked again.
#[test]
fn what_was_lost_with_its_only_holder_is_found_when_that_comes_back() {
    let mut c = Cluster::new(15, 2, 1, 1, 1);
    fill(&mut c, 5, 1);
    let (_, _, holder) = c.locate("o0");
    let primary = 1 - holder;
    c.mark_out(holder);
    while c.osd(primary).primaries() != (1, 1) {
        if !c.step() {
            c.settle_for(Duration::from_millis(100));
        }
    }
    c.kill(holder);
    c.settle();
    assert!(stat(&c, "o0").stats.sum.num_objects_unfound > 0, "{:#?}", c.log);
    c.start(holder);
    c.settle();
    for i in 0..5 {
        assert_eq!(c.read(&format!("o{i}")).as_deref(), Ok(&[1; 100][..]), "o{i}");
    }
}

#[test]
fn a_listing_waits_for_what_may_be_there_or_not() {
    let mut c = Cluster::new(13, 3, 3, 2, 1);
    let (primary, _) = members(&c);
    fill(&mut c, 6, 1);
    c.kill(primary);
    c.settle();
    assert_eq!(c.call("o1", vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    assert_eq!(c.write("later", b"x"), 0);
    c.start(primary);
    c.settle_for(Duration::from_millis(300));
    let item = OsdOpItem::new(OpCode::PGNLS).with_params(OpParams::List { count: 100, start_epoch: 0 });
    let ops = vec![item.with_payload(HObject::MIN.to_bytes())];
    let locator = ObjectLocator { hash: 0, ..ObjectLocator::new(POOL) };
    let pg = SpgId::replicated(PgId::new(POOL, 0));
    let mut op = OsdOp::new(pg, 0, locator, Bytes::new(), ops);
    op.map_epoch = c.map.epoch;
    op.flags = RequestFlags::READ | RequestFlags::PGOP;
    let reply = c.call_op(op);
    let listed: ListReply = open(&reply.ops[0].item.payload);
    let mut names: Vec<String> =
        listed.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    names.sort();
    assert_eq!(names, ["later", "o0", "o2", "o3", "o4", "o5"]);
}

#[test]
fn a_member_whose_log_does_not_reach_is_filled_while_others_serve() {
    let mut c = Cluster::new(14, 3, 3, 2, 1);
    keep_short_logs(&mut c, 3);
    let (primary, replica) = members(&c);
    fill(&mut c, 40, 1);
    c.kill(replica);
    c.settle();
    fill(&mut c, 40, 2);
    for i in 30..40 {
        assert_eq!(c.call(&format!("o{i}"), vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    }
    hold_recovery(&mut c, &[primary], true);
    c.start(replica);
    keep_short_logs(&mut c, 3);
    c.settle_for(Duration::from_secs(3));
    let (pg, _, _) = c.locate("o0");
    let sets = c.map.pg_to_up_acting(pg);
    assert!(sets.up.contains(&OsdId(replica)) && !sets.acting.contains(&OsdId(replica)), "{sets:?}");
    let state = stat(&c, "o0").state;
    assert!(state.contains(PgState::ACTIVE.with(PgState::REMAPPED).with(PgState::UNDERSIZED)), "{state:?}");
    fill(&mut c, 20, 3);
    hold_recovery(&mut c, &[primary], false);
    c.settle();
    c.settle();
    assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
    assert_eq!(c.map.pg_to_up_acting(pg).acting, sets.up, "what was asked for a while is given back");
    assert_eq!(c.store(replica).held_bytes(), c.store(primary).held_bytes());
    c.kill(primary);
    c.settle();
    for i in 0..40 {
        let expected = if i < 20 {
            Ok(vec![3; 100])
        } else if i < 30 {
            Ok(vec![2; 100])
        } else {
            Err(-2)
        };
        assert_eq!(c.read(&format!("o{i}")).map(|data| data.to_vec()), expected, "o{i}");
    }
}

/// The primary of a group is replaced by an empty one: who has the data goes on serving until it is filled.
#[test]
fn an_empty_primary_lets_others_serve() {
    let mut c = Cluster::new(15, 3, 3, 2, 1);
    keep_short_logs(&mut c, 3);
    let (primary, _) = members(&c);
    fill(&mut c, 30, 1);
    c.kill_and_forget(primary);
    c.settle();
    let others: Vec<i32> = (0..3).filter(|osd| *osd != primary).collect();
    hold_recovery(&mut c, &others, true);
    c.start(primary);
    c.settle_for(Duration::from_secs(3));
    let (pg, _, leads) = c.locate("o0");
    assert!(leads != primary && c.active() == 1, "{:?} {:#?}", c.map.pg_to_up_acting(pg), c.log);
    fill(&mut c, 10, 2);
    hold_recovery(&mut c, &others, false);
    c.settle();
    c.settle();
    assert_eq!(c.locate("o0").2, primary, "it leads when it has everything");
    assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
    for i in 0..30 {
        let with = if i < 10 { 2 } else { 1 };
        assert_eq!(c.read(&format!("o{i}")).map(|data| data.to_vec()), Ok(vec![with; 100]), "o{i}");
    }
}

/// Two of three are replaced by empty ones: nobody can be served, yet the last one fills them.
#[test]
fn too_few_members_are_filled_before_they_serve() {
    let mut c = Cluster::new(16, 3, 3, 2, 1);
    keep_short_logs(&mut c, 3);
    let (primary, _) = members(&c);
    fill(&mut c, 30, 1);
    for osd in (0..3).filter(|osd| *osd != primary) {
        c.kill_and_forget(osd);
        c.mark_down(osd);
        c.start(osd);
    }
    c.settle();
    c.settle();
    assert!(is_clean(&c, "o0"), "{:?} {:#?}", stat(&c, "o0").state, c.log);
    c.kill(primary);
    c.settle();
    assert_eq!(c.read("o7").as_deref(), Ok(&[1; 100][..]));
}

/// A member that caught up kept keys in its index of snapshots for clones that others had trimmed meanwhile.
#[test]
fn clones_and_their_index_come_along() {
    let mut c = Cluster::new(17, 3, 3, 2, 1);
    let (primary, replica) = members(&c);
    let write_at = |c: &mut Cluster, seq: u64, data: &[u8]| {
        let item = OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64);
        let mut op = c.request("o0", vec![item.with_payload(Bytes::copy_from_slice(data))]);
        op.snap_context = SnapContext { seq: SnapId(seq), snaps: (1..=seq).rev().map(SnapId).collect() };
        assert_eq!(c.call_op(op).result, 0);
    };
    write_at(&mut c, 0, b"first");
    write_at(&mut c, 1, b"second");
    c.kill(replica);
    c.settle();
    write_at(&mut c, 2, b"third");
    write_at(&mut c, 3, b"fourth");
    c.start(replica);
    c.settle();
    assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
    assert_eq!(c.store(replica).held_bytes(), c.store(primary).held_bytes());
    c.kill(primary);
    c.settle();
    for (snap, data) in [(1, &b"first"[..]), (2, b"second"), (3, b"third")] {
        let mut op = c.request("o0", vec![OsdOpItem::extent(OpCode::READ, 0, 0)]);
        op.snap = SnapId(snap);
        assert_eq!(c.call_op(op).ops[0].item.payload, data, "at {snap}");
    }
}

/// A primary that had lost a session asked once more for an object that its member had fetched. What came of that later went
/// over what was written since.
#[test]
fn what_is_fetched_twice_does_not_go_over_what_is_written_since() {
    for planted in [None, Some(Bug::HoldIgnored)] {
        let _planting = Bug::plant(planted);
        let mut c = Cluster::new(20, 3, 3, 2, 1);
        let (primary, replica) = members(&c);
        fill(&mut c, 4, 1);
        c.kill(replica);
        c.settle();
        fill(&mut c, 4, 2);
        hold_recovery(&mut c, &[primary], true);
        c.start(replica);
        c.settle_for(Duration::from_secs(3));
        c.hold_commits(replica);
        let item = OsdOpItem::extent(OpCode::APPEND, 0, 3).with_payload(Bytes::from_static(b"new"));
        let request = c.request("o3", vec![item]);
        let tid = c.send(1, request);
        c.settle_for(Duration::from_millis(500));
        // It has been fetched, and is not durable. The primary asks again, and again the object sets out.
        c.give_up_session(primary, replica);
        c.answers_cut.push((replica, primary));
        c.settle_for(Duration::from_secs(1));
        assert!(!c.replies.contains_key(&(1, tid)));
        c.release_commits(replica);
        c.settle_for(Duration::from_secs(1));
        assert!(c.replies.contains_key(&(1, tid)), "the first answer is good: {:#?}", c.log);
        c.answers_cut.clear();
        hold_recovery(&mut c, &[primary], false);
        c.settle();
        assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
        assert_eq!(c.store(replica).held_bytes() == c.store(primary).held_bytes(), planted.is_none());
    }
}

/// What others pull is read in turn: a client that came to wait for one of them waited for all that were asked for before.
#[test]
fn what_a_client_waits_for_is_read_before_what_else_is_pulled() {
    const LACKED: u64 = 24;
    for lacks in ["the primary", "another member"] {
        let mut c = Cluster::new(21, 3, 2, 1, 1);
        let (primary, replica) = members(&c);
        let (who, source) = if lacks == "the primary" { (primary, replica) } else { (replica, primary) };
        fill(&mut c, 24, 1);
        c.kill(who);
        c.settle();
        (0..LACKED).for_each(|i| assert_eq!(c.write(&format!("o{i}"), &vec![2; 4 << 20]), 0));
        c.start(who);
        for osd in [who, source] {
            for option in ["osd_recovery_max_active", "osd_recovery_max_single_start"] {
                c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["100"]}}"#));
            }
        }
        let id = |name: &String| ObjectId::new(c.locate(name).1, b"", b"", name.as_bytes(), SnapId::HEAD);
        let last = (0..LACKED).map(|i| format!("o{i}")).max_by_key(id).expect("some");
        c.slow_store = Some(source);
        let recovered = |c: &Cluster| c.store(who).held_bytes() >> 22;
        let deadline = c.now + Duration::from_secs(60);
        while recovered(&c) == 0 {
            assert!(c.now < deadline, "nothing is recovered: {:#?}", c.log);
            if !c.step() {
                c.settle_for(Duration::from_millis(100));
            }
        }
        let item = OsdOpItem::extent(OpCode::APPEND, 0, 3).with_payload(Bytes::from_static(b"new"));
        let request = c.request(&last, vec![item]);
        let tid = c.send(1, request);
        while !c.replies.contains_key(&(1, tid)) {
            assert!(c.step());
        }
        let there = recovered(&c);
        assert!(there <= LACKED * 2 / 3, "{lacks} lacks them: {there} were there when the client was answered");
        c.settle();
        assert!(is_clean(&c, "o0"), "{:?}", stat(&c, "o0").state);
    }
}
