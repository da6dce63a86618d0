//! Pools that get more placement groups: objects, logs, what is lacking and statistics go where they belong, on every
//! holder, whatever was going on.

mod harness;

use base::{Duration, PgId, SnapId};
use bytes::Bytes;
use harness::{Cluster, POOL, open};
use maps::stats::PgStat;
use std::sync::Arc;
use store::{CollectionId, ReadRequest, ReadResult, ReadWhat};
use wire::osd::{OpCode, OsdOpItem, SnapContext};

fn set_pg_num(c: &mut Cluster, pg_num: u32) {
    c.publish(|map, inc| {
        let mut pool = maps::PgPool::clone(map.pool(POOL).expect("it is there"));
        (pool.pg_num, pool.pg_num_target, pool.pg_num_pending) = (pg_num, pg_num, pg_num);
        pool.last_change = inc.epoch;
        inc.new_pools.insert(POOL, pool);
    });
}

fn append(c: &Cluster, name: &str, data: &[u8]) -> wire::messages::OsdOp {
    let item = OsdOpItem::extent(OpCode::APPEND, 0, data.len() as u64);
    c.request(name, vec![item.with_payload(Bytes::copy_from_slice(data))])
}

fn fill(c: &mut Cluster, count: u32) {
    for i in 0..count {
        assert_eq!(c.write(&format!("o{i}"), &[i as u8; 100]), 0);
    }
}

fn assert_filled(c: &mut Cluster, count: u32) {
    for i in 0..count {
        assert_eq!(c.read(&format!("o{i}")).as_deref(), Ok(&[i as u8; 100][..]), "o{i}");
    }
}

/// What every OSD that runs holds: the same, and no object where it does not belong.
fn assert_in_place(c: &Cluster, osds: i32) {
    let pool = Arc::clone(c.map.pool(POOL).expect("it is there"));
    let held = |osd: i32, pg: PgId| {
        let what = ReadWhat::List(store::ListWant { from: None, max: 10_000, attr: None });
        let collection = CollectionId::Pg(pg);
        let Ok(ReadResult::List { entries, .. }) = c.store(osd).read(&ReadRequest { collection, what }) else {
            panic!("osd.{osd} has no {pg}")
        };
        entries.into_iter().map(|entry| entry.id).filter(|id| id.is_clients()).collect::<Vec<_>>()
    };
    for seed in 0..pool.pg_num {
        let pg = PgId::new(POOL, seed);
        let objects = held(0, pg);
        for id in &objects {
            assert_eq!(pool.raw_pg_to_pg(PgId::new(POOL, id.hash())), pg, "{id:?}");
        }
        (1..osds).for_each(|osd| assert_eq!(held(osd, pg), objects, "{pg}"));
    }
}

fn objects_counted(c: &Cluster) -> Vec<i64> {
    let pg_num = c.map.pool(POOL).expect("it is there").pg_num;
    let stats = (0..pg_num).map(|seed| open::<PgStat>(&c.pg_stats[&PgId::new(POOL, seed)]));
    stats.map(|stat| if stat.invalid.all { -1 } else { stat.stats.sum.num_objects }).collect()
}

#[test]
fn objects_are_where_they_belong_and_counted_after_a_split() {
    let mut c = Cluster::new(21, 3, 3, 2, 3);
    fill(&mut c, 60);
    for pg_num in [5, 16] {
        set_pg_num(&mut c, pg_num);
        c.settle();
        assert_eq!(c.active(), pg_num as usize);
        assert_filled(&mut c, 60);
        assert_in_place(&c, 3);
        assert_eq!(objects_counted(&c).iter().sum::<i64>(), 60, "{:?}", objects_counted(&c));
    }
    fill(&mut c, 90);
    c.settle();
    assert_eq!(objects_counted(&c).iter().sum::<i64>(), 90);
    // What was divided is what a start finds.
    for osd in 0..3 {
        c.kill(osd);
        c.start(osd);
    }
    c.settle();
    assert_filled(&mut c, 90);
    assert_eq!(objects_counted(&c).iter().sum::<i64>(), 90);
}

#[test]
fn a_request_that_is_sent_again_to_the_new_group_is_recognised() {
    let mut c = Cluster::new(22, 3, 3, 2, 1);
    let mut sent = Vec::new();
    for i in 0..24 {
        let name = format!("o{i}");
        let op = append(&c, &name, b"once");
        sent.push((name, c.send(1, op)));
    }
    // Some are done, some on their way, some nowhere yet.
    (0..150).for_each(|_| assert!(c.step(), "there is more to come"));
    set_pg_num(&mut c, 8);
    (0..20).for_each(|_| assert!(c.step(), "there is more to come"));
    for (name, tid) in &sent {
        let again = append(&c, name, b"once");
        c.resend(1, *tid, again);
    }
    c.settle();
    for (name, tid) in &sent {
        assert!(c.replies[&(1, *tid)].iter().all(|reply| reply.result == 0), "{name}");
        assert_eq!(c.read(name).as_deref(), Ok(&b"once"[..]), "{name}");
    }
}

#[test]
fn what_a_member_lacks_is_divided_too() {
    let mut c = Cluster::new(23, 3, 3, 2, 1);
    fill(&mut c, 40);
    let (_, _, primary) = c.locate("o0");
    let away = (primary + 1) % 3;
    c.kill(away);
    c.settle();
    for i in 0..40 {
        assert_eq!(c.write(&format!("o{i}"), b"older"), 0);
    }
    // It comes back, learns what it lacks, and the pool is divided before it has any of it; it goes again and misses one.
    for osd in 0..3 {
        if osd != away {
            c.admin(osd, r#"{"prefix":"config set","var":"osd_recovery_sleep","val":["3600"]}"#);
        }
    }
    c.start(away);
    c.settle_for(Duration::from_secs(3));
    set_pg_num(&mut c, 4);
    c.settle_for(Duration::from_secs(3));
    assert_eq!(c.active(), 4);
    c.kill(away);
    c.settle();
    set_pg_num(&mut c, 7);
    c.settle();
    fill(&mut c, 40);
    for osd in (0..3).filter(|osd| *osd != away) {
        c.admin(osd, r#"{"prefix":"config set","var":"osd_recovery_sleep","val":["0"]}"#);
    }
    c.start(away);
    c.settle();
    assert_in_place(&c, 3);
    c.kill(primary);
    c.settle();
    assert_filled(&mut c, 40);
}

#[test]
fn clones_are_found_to_be_trimmed_after_a_split() {
    let mut c = Cluster::new(24, 3, 3, 2, 1);
    fill(&mut c, 30);
    for i in 0..30 {
        let mut op = append(&c, &format!("o{i}"), b"more");
        op.snap_context = SnapContext { seq: SnapId(2), snaps: vec![SnapId(2)] };
        assert_eq!(c.call_op(op).result, 0);
    }
    set_pg_num(&mut c, 8);
    c.settle();
    assert_eq!(objects_counted(&c).iter().sum::<i64>(), 60);
    c.publish(|map, inc| {
        let mut pool = maps::PgPool::clone(map.pool(POOL).expect("it is there"));
        pool.snap_seq = SnapId(3);
        inc.new_pools.insert(POOL, pool);
        let mut removed = maps::SnapSet::default();
        removed.insert(SnapId(2));
        inc.new_removed_snaps.insert(POOL, removed);
    });
    c.settle();
    assert_eq!(objects_counted(&c).iter().sum::<i64>(), 30, "{:#?}", c.log);
    assert_in_place(&c, 3);
}
