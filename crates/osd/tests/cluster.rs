//! Three engines, no network: replication, resent requests, interval changes, lost members.

mod harness;

use base::{Duration, OsdId};
use bytes::Bytes;
use harness::Cluster;
use store::CollectionId;
use wire::messages::OsdOp;
use wire::osd::{OpCode, OsdOpItem};

fn write_item(data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

fn append_item(data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::APPEND, 0, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

#[test]
fn a_new_cluster_serves_and_replicates() {
    let mut c = Cluster::new(1, 3, 3, 2, 8);
    assert_eq!(c.active(), 8, "{:#?}", c.log);
    assert_eq!(c.write("hello", b"world"), 0);
    assert_eq!(c.read("hello").as_deref(), Ok(&b"world"[..]));
    assert_eq!(c.read("nothing"), Err(-2));
    for osd in 1..3 {
        assert_eq!(c.store(osd).held_bytes(), c.store(0).held_bytes(), "every member has the same");
    }
}

#[test]
fn a_killed_replica_is_noticed_and_what_was_in_flight_is_answered() {
    let mut c = Cluster::new(2, 3, 3, 2, 8);
    let (pg, _, primary) = c.locate("x");
    let replica = c.map.pg_to_up_acting(pg).acting.iter().map(|o| o.0).find(|o| *o != primary).expect("a replica");
    let op = c.request("x", vec![append_item(b"once")]);
    c.cut.push((primary, replica));
    let tid = c.send(1, op);
    while c.step() {}
    assert!(!c.replies.contains_key(&(1, tid)), "a write waits for all members");
    c.kill(replica);
    c.cut.clear();
    c.settle();
    assert!(!c.map.is_up(OsdId(replica)), "nobody listens there: it is reported");
    assert_eq!(c.replies[&(1, tid)][0].result, 0);
    assert_eq!(c.read("x").as_deref(), Ok(&b"once"[..]));
    // It comes back and is made equal before the PG serves again.
    c.start(replica);
    c.settle();
    assert_eq!(c.active(), 8, "{:#?}", c.log);
    c.kill(primary);
    c.settle();
    assert_eq!(c.read("x").as_deref(), Ok(&b"once"[..]));
}

/// An OSD that held no data was "up" until somebody looked: only those who shared groups watched one another.
#[test]
fn who_shares_no_group_is_missed_as_well() {
    let mut c = Cluster::new(14, 5, 2, 1, 1);
    let acting = c.map.pg_to_up_acting(c.locate("x").0).acting;
    let idle: Vec<i32> = (0..5).filter(|osd| !acting.contains(&OsdId(*osd))).collect();
    c.kill(idle[0]);
    c.settle();
    assert!(!c.map.is_up(OsdId(idle[0])), "nobody has noticed");
    // Nor do those alone who share one notice each other.
    c.kill(acting[0].0);
    c.kill(acting[1].0);
    c.settle();
    assert!(acting.iter().all(|osd| !c.map.is_up(*osd)), "nobody has noticed");
}

#[test]
fn requests_of_every_kind_survive_the_end_of_their_interval() {
    let mut c = Cluster::new(9, 3, 3, 2, 2);
    assert_eq!(c.write("x", b"12"), 0);
    let (pg, _, primary) = c.locate("x");
    let replica = c.map.pg_to_up_acting(pg).acting.iter().map(|o| o.0).find(|o| *o != primary).expect("a replica");
    c.cut.push((primary, replica));
    let compare = OsdOpItem::extent(OpCode::CMPEXT, 0, 2).with_payload(Bytes::from_static(b"12"));
    let tids: Vec<u64> = [
        vec![compare, append_item(b"3")],
        vec![OsdOpItem::extent(OpCode::READ, 0, 0)],
        vec![append_item(b"4")],
        vec![OsdOpItem::new(OpCode::STAT)],
    ]
    .into_iter()
    .map(|ops| {
        let op = c.request("x", ops);
        c.send(1, op)
    })
    .collect();
    while c.step() {}
    c.kill(replica);
    c.cut.clear();
    c.settle();
    for tid in &tids {
        let results: Vec<i32> = c.replies[&(1, *tid)].iter().map(|r| r.result).collect();
        assert_eq!(results, [0], "request {tid}");
    }
    assert_eq!(c.read("x").as_deref(), Ok(&b"1234"[..]));
}

#[test]
fn a_resent_request_is_answered_and_not_executed_again() {
    let mut c = Cluster::new(3, 3, 3, 2, 4);
    let op = c.request("x", vec![append_item(b"a")]);
    let tid = c.send(1, op.clone());
    c.resend(1, tid, op.clone());
    c.settle_for(Duration::from_millis(500));
    c.resend(1, tid, op.clone());
    c.settle_for(Duration::from_millis(500));
    let replies = &c.replies[&(1, tid)];
    assert_eq!(replies.len(), 3);
    assert!(replies.iter().all(|r| (r.result, r.user_version) == (0, 1)), "{replies:?}");
    assert_eq!(c.read("x").as_deref(), Ok(&b"a"[..]));
    // The next primary knows it as well, and leaves what was sent before it led.
    let (_, _, primary) = c.locate("x");
    c.kill(primary);
    c.settle();
    c.resend(1, tid, op.clone());
    c.settle_for(Duration::from_millis(500));
    assert_eq!(c.replies[&(1, tid)].len(), 3);
    c.resend(1, tid, OsdOp { map_epoch: c.map.epoch, ..op });
    c.settle_for(Duration::from_millis(500));
    assert_eq!(c.replies[&(1, tid)].len(), 4);
    assert_eq!(c.read("x").as_deref(), Ok(&b"a"[..]));
}

/// How long an append is known after it: `osd_pg_log_dups_tracked` was declared and heeded by nobody.
#[test]
fn requests_are_remembered_beyond_the_log_as_long_as_an_option_says() {
    for (remembered, appended) in [(200, "a"), (20, "aa")] {
        let mut c = Cluster::new(48, 3, 3, 2, 1);
        for osd in 0..3 {
            for (option, value) in [
                ("osd_min_pg_log_entries", 1),
                ("osd_max_pg_log_entries", 5),
                ("osd_pg_log_trim_min", 1),
                ("osd_pg_log_dups_tracked", remembered),
            ] {
                c.admin(osd, &format!(r#"{{"prefix":"config set","var":"{option}","val":["{value}"]}}"#));
            }
        }
        let op = c.request("x", vec![append_item(b"a")]);
        let tid = c.send(1, op.clone());
        (0..100).for_each(|i| assert_eq!(c.write(&format!("other{i}"), b"1"), 0));
        c.resend(1, tid, op);
        c.settle_for(Duration::from_millis(500));
        assert_eq!(c.read("x").as_deref(), Ok(appended.as_bytes()), "{remembered} remembered");
    }
}

/// An OSD that took many maps at once was primary as before, and did what it had held since before another one led the
/// group. There the client had sent it as well and been refused: what was refused was done after all.
#[test]
fn what_is_held_since_before_another_led_is_left_for_its_client_to_send_again() {
    let mut c = Cluster::new(13, 2, 2, 1, 1);
    let (_, _, primary) = c.locate("x");
    let other = 1 - primary;
    c.cut.push((primary, other));
    c.settle_for(Duration::from_secs(30));
    let op = c.request("x", vec![append_item(b"1")]);
    let tid = c.send(1, op.clone());
    c.settle_for(Duration::from_secs(1));
    assert!(!c.replies.contains_key(&(1, tid)), "it waits for the other's promise");
    c.unmapped.push(primary);
    c.mark_out(primary);
    assert_eq!(c.locate("x").2, other);
    c.mark_in(primary);
    assert_eq!(c.locate("x").2, primary);
    c.cut.clear();
    c.unmapped.clear();
    c.publish(|_, _| {});
    c.settle();
    assert_eq!(c.active(), 1, "{:#?}", c.log);
    assert_eq!(c.read("x"), Err(-2), "it was done");
    assert!(!c.replies.contains_key(&(1, tid)));
    c.resend(1, tid, OsdOp { map_epoch: c.map.epoch, ..op });
    assert_eq!(c.read("x").as_deref(), Ok(&b"1"[..]));
}

/// What had been sent within one rule of the same primary is done, however many intervals have begun since.
#[test]
fn what_is_held_over_intervals_of_one_primary_is_done_once() {
    let mut c = Cluster::new(13, 2, 2, 1, 1);
    let (_, _, primary) = c.locate("x");
    let other = 1 - primary;
    c.cut.push((primary, other));
    c.settle_for(Duration::from_secs(30));
    let op = c.request("x", vec![append_item(b"1")]);
    let tid = c.send(1, op);
    c.settle_for(Duration::from_secs(1));
    assert!(!c.replies.contains_key(&(1, tid)), "it waits for the other's promise");
    c.unmapped.push(primary);
    c.mark_out(other);
    c.mark_in(other);
    c.cut.clear();
    c.unmapped.clear();
    c.publish(|_, _| {});
    c.settle();
    assert_eq!(c.replies[&(1, tid)].len(), 1);
    assert_eq!(c.read("x").as_deref(), Ok(&b"1"[..]));
}

#[test]
fn a_stale_member_alone_does_not_serve() {
    let mut c = Cluster::new(4, 3, 2, 1, 1);
    let acting: Vec<i32> = c.map.pg_to_up_acting(c.locate("x").0).acting.iter().map(|o| o.0).collect();
    assert_eq!(c.write("x", b"old"), 0);
    // One member goes, the other takes a write alone, goes too, and the first returns.
    c.kill(acting[0]);
    c.mark_down(acting[0]);
    (0..3).filter(|o| !acting.contains(o)).for_each(|o| c.kill(o));
    c.settle();
    assert_eq!(c.write("x", b"new"), 0);
    c.kill(acting[1]);
    c.mark_down(acting[1]);
    c.start(acting[0]);
    c.settle();
    assert_eq!(c.active(), 0, "it would serve what is old: {:#?}", c.log);
    c.start(acting[1]);
    c.settle();
    assert_eq!(c.read("x").as_deref(), Ok(&b"new"[..]));
}

#[test]
fn a_new_member_gets_everything() {
    let mut c = Cluster::new(5, 4, 3, 2, 4);
    for i in 0..40 {
        let data = vec![i as u8; 1000 * i];
        assert_eq!(c.write(&format!("o{i}"), &data), 0);
    }
    // More writes than a log keeps, so that logs cannot tell.
    for i in 0..2300u32 {
        let op = c.request("hot", vec![write_item(&i.to_le_bytes())]);
        c.send(2, op);
    }
    c.settle();
    let (_, _, primary) = c.locate("hot");
    c.kill_and_forget(primary);
    c.mark_down(primary);
    c.mark_out(primary);
    c.settle();
    assert_eq!(c.active(), 4, "{:#?}", c.log);
    let all: Vec<i32> = (0..4).filter(|o| *o != primary).collect();
    c.kill(all[0]);
    c.settle();
    for i in 0..40 {
        assert_eq!(c.read(&format!("o{i}")).map(|d| d.len()), Ok(1000 * i), "o{i}");
    }
    assert_eq!(c.read("hot").as_deref(), Ok(&2299u32.to_le_bytes()[..]));
}

/// An OSD that was not told of some maps, which are gone, does not know whether it has led its groups since: it took the
/// map after the gap for the first, and dropped what a client had sent by one within. A client that had all maps, and saw
/// nothing change, would not have sent it again.
#[test]
fn who_has_missed_maps_that_are_gone_begins_another_life() {
    for gone in [true, false] {
        let mut c = Cluster::new(13, 3, 3, 2, 4);
        assert_eq!(c.write("x", b"1"), 0);
        let (_, _, primary) = c.locate("x");
        c.unmapped.push(primary);
        c.publish(|_, _| {});
        let op = c.request("x", vec![append_item(b"2")]);
        (0..3).for_each(|_| c.publish(|_, _| {}));
        let last = c.map.epoch;
        if gone {
            c.forget_old_maps();
        }
        c.unmapped.clear();
        c.publish(|_, _| {});
        c.settle();
        let up_from = c.map.info(OsdId(primary)).expect("it exists").up_from;
        assert_eq!(up_from > last, gone, "its clients see a new interval, and send again: {:#?}", c.log);
        assert_eq!(c.active(), 4, "{:#?}", c.log);
        let tid = c.send(1, OsdOp { map_epoch: if gone { c.map.epoch } else { op.map_epoch }, ..op });
        c.settle();
        assert_eq!(c.replies[&(1, tid)].len(), 1);
        assert_eq!(c.read("x").as_deref(), Ok(&b"12"[..]));
    }
}

/// A new OSD served before its record of itself was durable. A store that keeps the order of each collection only could
/// then have groups and no record after a power cut, and the next start took it for empty.
#[test]
fn a_new_osd_is_announced_when_its_record_is_durable() {
    let mut c = Cluster::new(8, 3, 3, 2, 4);
    c.kill_and_forget(1);
    c.mark_down(1);
    c.settle();
    c.start(1);
    c.hold_commits_to(1, CollectionId::Meta);
    c.settle_for(Duration::from_secs(20));
    assert!(!c.map.is_up(OsdId(1)));
    c.release_commits(1);
    c.settle();
    assert!(c.map.is_up(OsdId(1)));
    assert_eq!(c.active(), 4);
}

#[test]
fn a_cluster_that_stopped_resumes() {
    let mut c = Cluster::new(6, 3, 3, 2, 8);
    for i in 0..20 {
        assert_eq!(c.write(&format!("o{i}"), b"kept"), 0);
    }
    for osd in 0..3 {
        c.stop(osd);
    }
    for osd in 0..3 {
        c.start(osd);
    }
    c.settle();
    assert_eq!(c.active(), 8, "{:#?}", c.log);
    for i in 0..20 {
        assert_eq!(c.read(&format!("o{i}")).as_deref(), Ok(&b"kept"[..]));
    }
}

#[test]
fn too_few_members_do_not_serve() {
    let mut c = Cluster::new(7, 3, 3, 2, 2);
    assert_eq!(c.write("x", b"1"), 0);
    c.kill(0);
    c.settle();
    assert_eq!(c.active(), 2, "{:#?}", c.log);
    c.kill(1);
    c.mark_down(1);
    c.settle();
    assert_eq!(c.active(), 0);
    c.start(0);
    c.settle();
    assert_eq!(c.active(), 2, "{:#?}", c.log);
    assert_eq!(c.read("x").as_deref(), Ok(&b"1"[..]));
}

#[test]
fn requests_to_the_wrong_osd_are_refused_or_dropped() {
    let mut c = Cluster::new(8, 3, 3, 2, 4);
    let (_, _, primary) = c.locate("x");
    let other = (primary + 1) % 3;
    let op = c.request("x", vec![write_item(b"1")]);
    c.send_to(other, 1, 900, op.clone());
    let mut old = op.clone();
    old.map_epoch = base::Epoch(1);
    c.send_to(other, 1, 901, old);
    let mut early = op;
    early.map_epoch = c.map.epoch.next();
    c.send_to(primary, 1, 902, early);
    c.settle_for(Duration::from_millis(300));
    assert_eq!(c.replies[&(1, 900)][0].result, -6, "ENXIO for one who should know better");
    assert!(!c.replies.contains_key(&(1, 901)), "dropped: its client will learn of the new map");
    assert!(!c.replies.contains_key(&(1, 902)), "a newer map is waited for");
    c.publish(|_, _| {});
    c.settle_for(Duration::from_millis(300));
    assert_eq!(c.replies[&(1, 902)][0].result, 0);
}

/// A former member lost power while it was asked, and was back before the primary saw a map of it: all of its maps came
/// at once, none of them ended the interval, and the primary waited for an answer to what the old life had been asked.
#[test]
fn who_begins_another_life_while_it_is_asked_is_asked_again() {
    let mut c = Cluster::new(12, 2, 1, 1, 1);
    assert_eq!(c.write("x", b"kept"), 0);
    let (_, _, before) = c.locate("x");
    let primary = 1 - before;
    c.cut.push((before, primary));
    c.mark_out(before);
    c.settle_for(Duration::from_secs(1));
    assert_eq!((c.locate("x").2, c.active()), (primary, 0), "it asks who had it");
    c.unmapped.push(primary);
    c.kill(before);
    c.start(before);
    c.settle_for(Duration::from_secs(1));
    c.cut.clear();
    c.unmapped.clear();
    c.publish(|_, _| {});
    c.settle();
    assert_eq!(c.active(), 1, "{:#?}", c.log);
    assert_eq!(c.read("x").as_deref(), Ok(&b"kept"[..]));
}

/// Random kills, returns and writes; in the end everybody agrees and every acknowledged append is there once, in order.
#[test]
fn acknowledged_appends_survive_random_faults() {
    for seed in 0..12 {
        let mut c = Cluster::new(100 + seed, 3, 3, 2, 2);
        let mut sent: Vec<(u64, OsdOp, u8)> = Vec::new();
        for round in 0..30u8 {
            for _ in 0..c.rng.below(4) {
                let byte = sent.len() as u8;
                let op = c.request("log", vec![append_item(&[byte])]);
                let tid = c.send(1, op.clone());
                sent.push((tid, op, byte));
            }
            for _ in 0..c.rng.below(60) {
                c.step();
            }
            let running: Vec<i32> = (0..3).filter(|o| c.is_running(*o)).collect();
            let victim = c.rng.below(3) as i32;
            match c.rng.below(6) {
                0 if running.len() == 3 => c.kill(victim),
                1 if !c.is_running(victim) => c.start(victim),
                2 => c.settle_for(Duration::from_millis(300)),
                3 if round % 5 == 0 => c.settle(),
                _ => {}
            }
        }
        (0..3).for_each(|o| {
            if !c.is_running(o) {
                c.start(o);
            }
        });
        c.settle();
        for (tid, mut op, _) in sent.clone() {
            if !c.replies.contains_key(&(1, tid)) {
                op.map_epoch = c.map.epoch;
                c.resend(1, tid, op);
            }
        }
        c.settle();
        assert_eq!(c.active(), 2, "seed {seed}: {:#?}", c.log);
        let data = c.read("log").unwrap_or_default();
        let mut seen = data.to_vec();
        seen.sort_unstable();
        let mut expected: Vec<u8> = sent.iter().map(|(_, _, byte)| *byte).collect();
        expected.sort_unstable();
        assert_eq!(seen, expected, "seed {seed}: every append once; log {:#?}", c.log);
    }
}

/// A holder told of what it had, went down in the map while another was still waited for, and was taken for the authority
/// all the same. It could not be asked for its log, and nobody asked when it was up again.
#[test]
fn a_holder_that_goes_down_after_it_has_told_is_asked_again() {
    let mut c = Cluster::new(41, 3, 1, 1, 1);
    let (_, _, first) = c.locate("o0");
    for i in 0..20 {
        assert_eq!(c.write(&format!("o{i}"), b"first"), 0);
    }
    // Nobody is clean from now on, so that all who had it are asked.
    let pace = |c: &mut Cluster, sleep: &str| {
        for osd in 0..3 {
            c.admin(osd, &format!(r#"{{"prefix":"config set","var":"osd_recovery_sleep","val":["{sleep}"]}}"#));
        }
    };
    pace(&mut c, "3600");
    c.mark_out(first);
    c.settle();
    let (_, _, second) = c.locate("o0");
    assert_eq!(c.write("new", b"second"), 0);
    let third = 3 - first - second;
    c.cut.push((third, first));
    c.mark_out(second);
    c.settle_for(Duration::from_secs(1));
    assert_eq!((c.locate("o0").2, c.active()), (third, 0));
    c.unmapped.push(second);
    c.mark_down(second);
    c.settle_for(Duration::from_secs(20));
    c.cut.clear();
    c.settle_for(Duration::from_secs(1));
    // The next map that the third sees shows the second as up again.
    c.unmapped = vec![third];
    c.publish(|_, _| {});
    c.settle();
    c.unmapped.clear();
    c.publish(|_, _| {});
    c.settle();
    pace(&mut c, "0");
    c.settle();
    assert_eq!(c.active(), 1, "{:#?}", c.log);
    assert_eq!(c.read("new").as_deref(), Ok(&b"second"[..]));
    assert_eq!(c.read("o7").as_deref(), Ok(&b"first"[..]));
}

/// Whom others lose again and again came back each time, and all groups peered anew.
#[test]
fn an_osd_that_is_marked_down_too_often_stays_down_until_it_is_started_anew() {
    let mut c = Cluster::new(45, 3, 3, 2, 8);
    for times in 1..=6 {
        c.mark_down(1);
        c.settle();
        assert_eq!(c.map.is_up(OsdId(1)), times < 6, "{times}: {:#?}", c.log);
    }
    c.kill(1);
    c.start(1);
    c.settle();
    assert!(c.map.is_up(OsdId(1)), "{:#?}", c.log);
}

/// A member that is not heard promises nothing: requests wait then, which is shown as soon as its last promise is over.
#[test]
fn a_group_whose_member_is_not_heard_is_laggy() {
    let mut c = Cluster::new(49, 3, 3, 2, 1);
    let (pg, _, primary) = c.locate("x");
    let member = c.map.pg_to_up_acting(pg).acting.iter().map(|osd| osd.0).find(|osd| *osd != primary).expect("another");
    let state = |c: &Cluster| harness::open::<maps::stats::PgStat>(&c.pg_stats[&pg]).state.to_string();
    c.settle();
    c.cut.push((primary, member));
    c.settle_for(Duration::from_secs(9));
    assert_eq!(state(&c), "active+clean", "promises last for 16 s, and are renewed every 4 s");
    c.settle_for(Duration::from_secs(13));
    assert_eq!(state(&c), "active+clean+laggy");
    c.cut.clear();
    c.settle();
    assert_eq!(state(&c), "active+clean");
}
