//! Copies are compared and mended while clients are served.

mod harness;

use base::{PgId, SnapId};
use bytes::Bytes;
use harness::{Cluster, open};
use maps::stats::{PgStat, PgState};
use store::Transaction;
use store::{AttrsWant, CollectionId, Extent, ObjectId, ObjectView, ObjectWant, Op, ReadRequest, ReadResult, ReadWhat};
use wire::osd::{OpCode, OsdOpItem};
use wire::{Decoder, Encoder};

fn stat(c: &Cluster) -> PgStat {
    open(&c.pg_stats[&c.locate("o0").0])
}

/// The primary of the only PG, and the others.
fn members(c: &Cluster) -> (PgId, i32, Vec<i32>) {
    let (pg, _, primary) = c.locate("o0");
    let acting = c.map.pg_to_up_acting(pg).acting;
    (pg, primary, acting.iter().map(|osd| osd.0).filter(|osd| *osd != primary).collect())
}

fn cluster(seed: u64, objects: u32) -> Cluster {
    let mut c = Cluster::new(seed, 3, 3, 2, 1);
    for i in 0..objects {
        assert_eq!(c.write(&format!("o{i}"), &[i as u8; 100]), 0);
    }
    c.settle();
    c
}

fn id_of(c: &Cluster, name: &str) -> ObjectId {
    ObjectId::new(c.locate(name).1, b"", b"", name.as_bytes(), SnapId::HEAD)
}

fn damage(c: &mut Cluster, osd: i32, name: &str, op: Op) {
    let mut t = Transaction::new(CollectionId::Pg(c.locate(name).0));
    t.push(&id_of(c, name), op);
    c.damage(osd, &t);
}

fn held(c: &Cluster, osd: i32, name: &str) -> ObjectView {
    let want =
        ObjectWant { attrs: AttrsWant::All, data: vec![Extent { offset: 0, len: u64::MAX }], ..ObjectWant::default() };
    let what = ReadWhat::Object(id_of(c, name), want);
    match c.store(osd).read(&ReadRequest { collection: CollectionId::Pg(c.locate(name).0), what }) {
        Ok(ReadResult::Object(view)) => *view,
        other => panic!("{other:?}"),
    }
}

fn scrub(c: &mut Cluster, deep: bool, repair: bool) -> PgStat {
    c.scrub(c.locate("o0").0, deep, repair);
    c.settle();
    stat(c)
}

/// What a client is told of objects that something is wrong with: their names, and what all of their copies suffer from.
fn listed(c: &mut Cluster) -> Result<Vec<(Bytes, u64, u64)>, i32> {
    let mut e = Encoder::new();
    e.versioned(1, 1, |e| {
        e.u32(0);
        e.u32(0);
        e.blob(b"");
        e.blob(b"");
        e.put(&SnapId(0));
        e.u64(32);
    });
    let mut op = c.request("", vec![OsdOpItem::new(OpCode::SCRUBLS).with_payload(e.finish())]);
    op.pgid = wire::osd::SpgId::replicated(c.locate("o0").0);
    let reply = c.call_op(op);
    if reply.result < 0 {
        return Err(reply.result);
    }
    let payload = reply.ops[0].item.payload.clone();
    let mut d = Decoder::shared(&payload);
    let values: Vec<Bytes> =
        d.versioned("scrub_ls_result_t", 1, |d, _| Ok((d.u32()?, d.get()?).1)).expect("Ceph's form");
    let one = |value: &Bytes| {
        let mut d = Decoder::shared(value);
        let all = d.versioned("inconsistent_obj_t", 2, |d, _| {
            let errors = d.u64()?;
            let name = d.versioned("object_id_t", 1, |d, _| {
                let name = d.blob()?;
                let _place = (d.blob()?, d.blob()?, d.u64()?);
                Ok(name)
            })?;
            let rest = d.bytes(d.remaining() - 8)?;
            assert!(!rest.is_empty(), "its shards");
            Ok((name, errors, d.u64()?))
        });
        all.expect("Ceph's form")
    };
    Ok(values.iter().map(one).collect())
}

#[test]
fn what_differs_is_found_listed_and_repaired() {
    let mut c = cluster(21, 40);
    let (_, primary, others) = members(&c);
    assert_eq!(listed(&mut c), Err(-2), "nothing is known before the first scrub");
    let clean = scrub(&mut c, true, false);
    assert_eq!((clean.stats.sum.num_scrub_errors, listed(&mut c)), (0, Ok(vec![])));
    assert!(clean.last_deep_scrub_stamp == clean.last_scrub_stamp && clean.last_deep_scrub == clean.version);

    damage(&mut c, others[0], "o7", Op::Write(50, Bytes::from_static(b"x")));
    damage(&mut c, primary, "o8", Op::Write(50, Bytes::from_static(b"x")));
    let shallow = scrub(&mut c, false, false);
    assert_eq!(shallow.stats.sum.num_scrub_errors, 0, "only a deep scrub reads data");
    damage(&mut c, primary, "o9", Op::Remove);
    damage(&mut c, others[1], "o10", Op::Truncate(7));
    damage(&mut c, others[1], "o11", Op::SetAttr(Bytes::from_static(b"ux"), Bytes::from_static(b"y")));
    let shallow = scrub(&mut c, false, false).stats.sum;
    assert_eq!((shallow.num_shallow_scrub_errors, shallow.num_deep_scrub_errors), (3, 0));
    let deep = scrub(&mut c, true, false);
    assert_eq!(
        (deep.stats.sum.num_shallow_scrub_errors, deep.stats.sum.num_deep_scrub_errors),
        (2, 3),
        "{:#?}",
        c.cluster_log
    );
    assert!(deep.state.contains(PgState::INCONSISTENT.with(PgState::CLEAN)));
    let mut found = listed(&mut c).expect("it was scrubbed");
    found.sort();
    let (missing, digest, size, name) = (1 << 1, 1 << 4, 1 << 6, 1 << 8);
    let expected =
        [("o10", size | digest, 0), ("o11", name, 0), ("o7", digest, 0), ("o8", digest, 0), ("o9", 0, missing)];
    assert_eq!(found, expected.map(|(name, errors, union)| (Bytes::from_static(name.as_bytes()), errors, union)));

    let repaired = scrub(&mut c, true, true);
    assert_eq!((repaired.state, repaired.stats.sum.num_scrub_errors), (PgState::ACTIVE.with(PgState::CLEAN), 0));
    for name in ["o7", "o8", "o9", "o10", "o11"] {
        let right = held(&c, primary, name);
        assert_eq!(&right.data[0][..], &[name[1..].parse::<u8>().expect("a number"); 100], "{name}");
        others.iter().for_each(|osd| assert_eq!(held(&c, *osd, name), right, "{name}"));
    }
    assert_eq!(listed(&mut c), Ok(vec![]), "it has looked once more");
    let lines: Vec<_> = c.cluster_log.iter().filter(|line| line.contains("fixed")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with("repair 5 errors, 5 fixed"), "{lines:?}");
}

#[test]
fn writes_and_a_scrub_get_on_beside_each_other() {
    for seed in 30..34 {
        let mut c = cluster(seed, 60);
        let pg = c.locate("o0").0;
        let before = stat(&c).last_deep_scrub_stamp;
        c.scrub(pg, true, false);
        let mut tids = Vec::new();
        for i in 0..200u32 {
            let item =
                OsdOpItem::extent(OpCode::WRITE, u64::from(i % 90), 10).with_payload(Bytes::from(vec![i as u8; 10]));
            let op = c.request(&format!("o{}", i * 7 % 60), vec![item]);
            tids.push(c.send(1, op));
            for _ in 0..c.rng.below(30) {
                c.step();
            }
        }
        c.settle();
        for tid in tids {
            assert_eq!(c.replies[&(1, tid)][0].result, 0);
        }
        c.settle();
        let after = stat(&c);
        assert!(after.last_deep_scrub_stamp > before, "seed {seed}: it came to its end");
        assert_eq!(after.stats.sum.num_scrub_errors, 0, "seed {seed}: {:#?}", c.cluster_log);
    }
}

#[test]
fn a_member_that_goes_away_ends_the_scrub_and_the_next_one_comes() {
    let mut c = cluster(41, 30);
    let (pg, _, others) = members(&c);
    c.scrub(pg, true, false);
    for _ in 0..40 {
        c.step();
    }
    c.kill(others[0]);
    c.settle();
    assert!(!stat(&c).state.contains(PgState::SCRUBBING), "{:?}", stat(&c).state);
    let before = stat(&c).last_deep_scrub_stamp;
    c.start(others[0]);
    c.settle();
    c.settle();
    assert!(stat(&c).last_deep_scrub_stamp > before, "what was asked for is done once it can be");
}
