//! Pools that get fewer placement groups: two become one on every holder that has both, others are filled, and nobody
//! writes what the merge would lose.

mod harness;

use base::{Duration, OsdId, PgId};
use bytes::Bytes;
use harness::{Cluster, POOL};
use store::{CollectionId, ReadRequest, ReadResult, ReadWhat};
use wire::messages::backoff_op::{BLOCK, UNBLOCK};
use wire::osd::{OpCode, OsdOpItem};

fn edit(c: &mut Cluster, change: impl FnOnce(&mut maps::PgPool)) {
    c.publish(|map, inc| {
        let mut pool = maps::PgPool::clone(map.pool(POOL).expect("it is there"));
        change(&mut pool);
        pool.last_change = inc.epoch;
        inc.new_pools.insert(POOL, pool);
    });
}

/// Lets the last group be merged; the harness's monitor does what a report of readiness asks for.
fn announce(c: &mut Cluster) {
    edit(c, |pool| {
        pool.pgp_num = pool.pg_num - 1;
        pool.pg_num_pending = pool.pg_num;
    });
    c.settle();
    edit(c, |pool| pool.pg_num_pending = pool.pg_num - 1);
}

fn append(c: &Cluster, name: &str, data: &[u8]) -> wire::messages::OsdOp {
    let item = OsdOpItem::extent(OpCode::APPEND, 0, data.len() as u64);
    c.request(name, vec![item.with_payload(Bytes::copy_from_slice(data))])
}

fn fill(c: &mut Cluster, count: u32, with: u8) {
    for i in 0..count {
        assert_eq!(c.write(&format!("o{i}"), &[with; 100]), 0);
    }
}

fn assert_filled(c: &mut Cluster, count: u32, with: u8) {
    for i in 0..count {
        assert_eq!(c.read(&format!("o{i}")).as_deref(), Ok(&[with; 100][..]), "o{i}");
    }
}

fn held(c: &Cluster, osd: i32, pg: PgId) -> Vec<store::ObjectId> {
    let what = ReadWhat::List(store::ListWant { from: None, max: 10_000, attr: None });
    match c.store(osd).read(&ReadRequest { collection: CollectionId::Pg(pg), what }) {
        Ok(ReadResult::List { entries, .. }) => {
            entries.into_iter().map(|entry| entry.id).filter(|id| id.is_clients()).collect()
        }
        _ => Vec::new(),
    }
}

fn pg_num(c: &Cluster) -> u32 {
    c.map.pool(POOL).expect("it is there").pg_num
}

fn assert_same(c: &Cluster, count: usize) {
    let all = |osd: i32| (0..9).flat_map(|seed| held(c, osd, PgId::new(POOL, seed))).collect::<Vec<_>>();
    assert_eq!(all(0).len(), count);
    assert_eq!((all(1), all(2)), (all(0), all(0)));
    for seed in pg_num(c)..9 {
        assert!((0..3).all(|osd| held(c, osd, PgId::new(POOL, seed)).is_empty()), "nothing is left of {seed}");
    }
}

#[test]
fn groups_are_merged_one_after_the_other() {
    let mut c = Cluster::new(31, 3, 3, 2, 5);
    fill(&mut c, 60, 1);
    while pg_num(&c) > 1 {
        let before = pg_num(&c);
        announce(&mut c);
        c.settle();
        assert_eq!(pg_num(&c), before - 1, "{:#?}", c.log);
        assert_eq!(c.active(), before as usize - 1);
        assert_filled(&mut c, 60, 1);
        assert_same(&c, 60);
    }
    fill(&mut c, 70, 2);
    for osd in 0..3 {
        c.kill(osd);
        c.start(osd);
    }
    c.settle();
    assert_filled(&mut c, 70, 2);
    assert_same(&c, 70);
}

/// Clients had been asked to hold requests for a group that then others led, and with which another was merged. When the
/// first led it again, it took no request for what had come with the other, for all were to be held; their clients, who had
/// been told of less, had sent them, and did not again.
#[test]
fn what_was_held_of_a_group_goes_on_when_another_leads() {
    let mut c = Cluster::new(36, 3, 3, 2, 2);
    fill(&mut c, 20, 1);
    let of = |c: &Cluster, seed| (0..20).map(|i| format!("o{i}")).find(|name| c.locate(name).0.seed == seed);
    let (kept, merged) = (of(&c, 0).expect("one of twenty"), of(&c, 1).expect("one of twenty"));
    let (_, _, first) = c.locate(&kept);
    let others: Vec<i32> = (0..3).filter(|osd| *osd != first).collect();
    for osd in &others {
        c.kill(*osd);
        c.mark_down(*osd);
    }
    c.settle();
    let op = append(&c, &kept, b"held");
    c.send(1, op);
    c.settle();
    let told = |c: &Cluster| c.backoffs.iter().map(|backoff| backoff.op).collect::<Vec<_>>();
    assert_eq!(told(&c), [BLOCK]);
    c.mark_out(first);
    c.settle();
    assert_eq!(told(&c), [BLOCK, UNBLOCK]);
    others.iter().for_each(|osd| c.start(*osd));
    c.settle();
    announce(&mut c);
    c.settle();
    assert_eq!((pg_num(&c), c.active()), (1, 1));
    for osd in &others {
        c.cut.push((first, *osd));
    }
    let (pg, _, _) = c.locate(&kept);
    c.publish(|_, inc| {
        inc.new_weight.extend([(OsdId(first), maps::osd_state::WEIGHT_ONE)]);
        inc.new_pg_temp.insert(pg, Vec::new());
    });
    c.settle_for(Duration::from_secs(1));
    assert_eq!(c.locate(&merged).2, first);
    let op = append(&c, &merged, b"more");
    let tid = c.send(1, op);
    c.settle_for(Duration::from_secs(1));
    assert!(!c.replies.contains_key(&(1, tid)), "it does not serve yet");
    c.cut.clear();
    c.settle();
    assert!(c.replies.contains_key(&(1, tid)), "{:#?}", c.log);
}

#[test]
fn a_request_that_is_sent_again_to_the_merged_group_is_recognised() {
    let mut c = Cluster::new(32, 3, 3, 2, 2);
    let mut sent = Vec::new();
    edit(&mut c, |pool| pool.pgp_num = 1);
    c.settle();
    for i in 0..24 {
        let name = format!("o{i}");
        let op = append(&c, &name, b"once");
        sent.push((name, c.send(1, op)));
    }
    (0..100).for_each(|_| assert!(c.step(), "there is more to come"));
    edit(&mut c, |pool| pool.pg_num_pending = 1);
    for _ in 0..3 {
        (0..20).for_each(|_| assert!(c.step(), "there is more to come"));
        for (name, tid) in &sent {
            let again = append(&c, name, b"once");
            c.resend(1, *tid, again);
        }
    }
    c.settle();
    assert_eq!(pg_num(&c), 1, "{:#?}", c.log);
    for (name, tid) in &sent {
        let again = append(&c, name, b"once");
        c.resend(1, *tid, again);
    }
    c.settle();
    for (name, _) in &sent {
        assert_eq!(c.read(name).as_deref(), Ok(&b"once"[..]), "{name}");
    }
}

#[test]
fn a_holder_that_was_away_is_filled_after_the_merge() {
    let mut c = Cluster::new(33, 3, 3, 2, 4);
    fill(&mut c, 40, 1);
    edit(&mut c, |pool| pool.pgp_num = 3);
    c.settle();
    c.kill(2);
    c.settle();
    fill(&mut c, 40, 2);
    // With a member away nothing is merged, and clients are served again.
    edit(&mut c, |pool| pool.pg_num_pending = 3);
    c.settle_for(Duration::from_secs(8));
    assert_eq!((pg_num(&c), c.map.pool(POOL).expect("there").pg_num_pending), (4, 4), "{:#?}", c.log);
    fill(&mut c, 40, 3);
    c.start(2);
    c.settle();
    announce(&mut c);
    c.settle_for(Duration::from_millis(1));
    c.kill(1);
    c.settle();
    c.start(1);
    c.settle();
    if pg_num(&c) == 4 {
        announce(&mut c);
        c.settle();
    }
    assert_eq!(pg_num(&c), 3, "{:#?}", c.log);
    assert_filled(&mut c, 40, 3);
    assert_same(&c, 40);
}

/// Power went when a group had been joined and divided again, and another was not durable as it had become. The start went
/// from the old map on: by the one that joined the group it was no more, and what the last life had made of a later one was
/// deleted.
#[test]
fn what_was_joined_and_divided_again_is_not_deleted_after_a_start() {
    let mut c = Cluster::new(37, 1, 1, 1, 4);
    fill(&mut c, 40, 1);
    c.hold_commits_to(0, CollectionId::Pg(PgId::new(POOL, 0)));
    announce(&mut c);
    c.settle();
    assert_eq!(pg_num(&c), 3, "{:#?}", c.log);
    edit(&mut c, |pool| {
        (pool.pg_num, pool.pg_num_target, pool.pg_num_pending) = (4, 4, 4);
    });
    c.settle_for(Duration::from_secs(1));
    let divided = held(&c, 0, PgId::new(POOL, 3));
    assert!(!divided.is_empty());
    c.kill(0);
    c.start(0);
    c.settle();
    assert_eq!(held(&c, 0, PgId::new(POOL, 3)), divided);
    assert_filled(&mut c, 40, 1);
}
