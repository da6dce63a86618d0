//! Copies across placement groups and OSDs, and the answers of writes that failed: what a log is for beside changes.

mod harness;

use base::SnapId;
use bytes::Bytes;
use harness::{Cluster, POOL};
use std::collections::BTreeMap;
use store::{CollectionId, ListWant, ReadRequest, ReadResult, ReadWhat, STAGED};
use wire::osd::copy::copy_flags;
use wire::osd::payload::{KeyValues, OmapPage, OmapRange};
use wire::osd::{ObjectLocator, OpCode, OpFlags, OpParams, OsdOpItem};
use wire::{Decode, Encode, Encoder};

fn copy_from(name: &str, version: u64, truncation: Option<(u32, u64)>) -> OsdOpItem {
    let mut e = Encoder::new();
    e.blob(name.as_bytes());
    e.put(&ObjectLocator::new(POOL));
    if let Some((seq, size)) = truncation {
        e.u32(seq);
        e.u64(size);
    }
    let flags = if truncation.is_some() { copy_flags::TRUNCATE_SEQ } else { 0 };
    let params = OpParams::CopyFrom { snap: SnapId::HEAD, version, flags, fadvise_flags: 0 };
    OsdOpItem::new(OpCode::COPY_FROM2).with_params(params).with_payload(e.finish())
}

fn fill(c: &mut Cluster, name: &str, size: usize, keys: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..size).map(|i| (i / 4096) as u8 ^ i as u8).collect();
    assert_eq!(c.write(name, &data), 0);
    let entries: KeyValues = (0..keys).map(|i| (format!("k{i:06}").into(), vec![i as u8; 100].into())).collect();
    let ops = vec![
        OsdOpItem::xattr(OpCode::SETXATTR, b"a", b"1"),
        OsdOpItem::new(OpCode::OMAPSETHEADER).with_payload("header"),
        OsdOpItem::new(OpCode::OMAPSETVALS).with_payload(entries.to_bytes()),
    ];
    assert_eq!(c.call(name, ops).result, 0);
    data
}

fn assert_is_copy(c: &mut Cluster, name: &str, data: &[u8], keys: usize) {
    assert!(c.read(name).as_deref() == Ok(data), "{name}: the data differs");
    let reply = c.call(name, vec![OsdOpItem::new(OpCode::GETXATTRS), OsdOpItem::new(OpCode::OMAPGETHEADER)]);
    assert_eq!(KeyValues::from_bytes(&reply.ops[0].item.payload), Ok(BTreeMap::from([("a".into(), "1".into())])));
    assert_eq!(reply.ops[1].item.payload, Bytes::from_static(b"header"));
    let (mut after, mut found) = (Bytes::new(), 0);
    loop {
        let range = OmapRange { start_after: after.clone(), max: 1000, prefix: Bytes::new() };
        let reply = c.call(name, vec![OsdOpItem::new(OpCode::OMAPGETVALS).with_payload(range.to_values())]);
        let page: OmapPage<KeyValues> = OmapPage::from_bytes(&reply.ops[0].item.payload).expect("a page");
        found += page.found.len();
        match page.found.into_keys().next_back() {
            Some(last) if page.truncated => after = last,
            _ => break,
        }
    }
    assert_eq!(found, keys, "{name}");
}

fn assert_nothing_aside(c: &Cluster) {
    for osd in 0..3 {
        for pg in (0..8).map(|seed| base::PgId::new(POOL, seed)) {
            let what = ReadWhat::List(ListWant { from: None, max: 1000, attr: None });
            let found = c.store(osd).read(&ReadRequest { collection: CollectionId::Pg(pg), what });
            let Ok(ReadResult::List { entries, .. }) = found else { continue };
            assert!(entries.iter().all(|entry| entry.id.snap() != STAGED), "osd.{osd}: {entries:?}");
        }
    }
}

#[test]
fn copies_have_all_that_their_sources_have() {
    let mut c = Cluster::new(21, 3, 3, 2, 8);
    let small = fill(&mut c, "small", 1000, 10);
    let large = fill(&mut c, "large", (20 << 20) + 17, 20_000);
    for (source, data, keys) in [("small", &small, 10), ("large", &large, 20_000)] {
        for i in 0..6 {
            let name = format!("{source} {i}");
            if i % 2 == 0 {
                assert_eq!(c.write(&name, b"what was there before"), 0);
                assert_eq!(c.call(&name, vec![OsdOpItem::xattr(OpCode::SETXATTR, b"old", b"x")]).result, 0);
            }
            assert_eq!(c.call(&name, vec![copy_from(source, 0, None)]).result, 0, "{name}");
            assert_is_copy(&mut c, &name, data, keys);
        }
    }
    c.settle();
    assert_nothing_aside(&c);
    for osd in 1..3 {
        assert_eq!(c.store(osd).held_bytes(), c.store(0).held_bytes(), "every member has the same");
    }
}

#[test]
fn copies_that_cannot_be_leave_nothing() {
    let mut c = Cluster::new(22, 3, 3, 2, 8);
    fill(&mut c, "source", 9 << 20, 10);
    for (copy, code) in [
        (copy_from("missing", 0, None), -2),
        (copy_from("source", 1 << 40, None), -75),
        (copy_from("source", 1, None), -34),
        (copy_from("target", 0, None), -22),
    ] {
        assert_eq!(c.call("target", vec![copy]).result, code);
        assert_eq!(c.read("target"), Err(-2));
    }
    let exclusive = OsdOpItem::new(OpCode::CREATE).with_flags(OpFlags::EXCL);
    assert_eq!(c.call("target", vec![copy_from("source", 0, None), exclusive]).result, -17);
    assert_eq!(c.read("target"), Err(-2));
    assert_eq!(c.write("target", b"the object is free again"), 0);
    c.settle();
    assert_nothing_aside(&c);
}

#[test]
fn a_copy_may_get_another_truncation_than_its_source_has() {
    let mut c = Cluster::new(23, 3, 3, 2, 8);
    assert_eq!(c.write("source", b"0123456789"), 0);
    assert_eq!(c.call("target", vec![copy_from("source", 0, Some((7, 4)))]).result, 0);
    assert_eq!(c.read("target").as_deref(), Ok(&b"0123456789"[..]));
    let params = OpParams::Extent { offset: 0, length: 0, truncate_size: 2, truncate_seq: 7 };
    assert_eq!(c.call("target", vec![OsdOpItem::new(OpCode::TRIMTRUNC).with_params(params)]).result, 0);
    assert_eq!(c.read("target").as_deref(), Ok(&b"0123456789"[..]), "that truncation has been");
}

#[test]
fn a_copy_survives_the_loss_of_its_source_s_primary() {
    let mut c = Cluster::new(24, 3, 3, 2, 8);
    let data = fill(&mut c, "source", 12 << 20, 10);
    let source_primary = c.locate("source").2;
    let target = (0..100).map(|i| format!("target {i}")).find(|name| c.locate(name).2 != source_primary);
    let target = target.expect("placement groups have different primaries");
    let op = c.request(&target, vec![copy_from("source", 0, None)]);
    let tid = c.send(1, op.clone());
    for _ in 0..3 {
        c.step();
    }
    c.kill(source_primary);
    for _ in 0..20 {
        c.settle();
        if c.replies.contains_key(&(1, tid)) {
            break;
        }
        // As a client does when a map shows another primary.
        let op = wire::messages::OsdOp { map_epoch: c.map.epoch, ..op.clone() };
        c.resend(1, tid, op);
    }
    assert_eq!(c.replies[&(1, tid)][0].result, 0, "{:#?}", c.log);
    assert_is_copy(&mut c, &target, &data, 10);
}

#[test]
fn a_resent_write_that_failed_fails_again() {
    let mut c = Cluster::new(25, 3, 3, 2, 8);
    assert_eq!(c.write("x", b"1"), 0);
    let exclusive = OsdOpItem::new(OpCode::CREATE).with_flags(OpFlags::EXCL);
    let op = c.request("x", vec![exclusive]);
    let tid = c.send(1, op.clone());
    c.settle();
    assert_eq!(c.replies[&(1, tid)][0].result, -17);
    assert_eq!(c.call("x", vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    c.resend(1, tid, op.clone());
    c.settle();
    assert_eq!(c.replies[&(1, tid)][1].result, -17, "its answer is in the log");
    assert_eq!(c.read("x"), Err(-2), "and it is not executed again");
    // A new primary knows as well.
    let primary = c.locate("x").2;
    c.kill(primary);
    c.settle();
    let op = wire::messages::OsdOp { map_epoch: c.map.epoch, ..op };
    c.resend(1, tid, op);
    c.settle();
    assert_eq!(c.replies[&(1, tid)].last().map(|reply| reply.result), Some(-17));
    assert_eq!(c.read("x"), Err(-2));
}

#[test]
fn copies_that_cross_each_other_end() {
    for (seed, size) in [(26, 1000), (27, 1000), (28, 1000), (29, 9 << 20)] {
        let mut c = Cluster::new(seed, 3, 3, 2, 8);
        let names = ["a", "b", "c"];
        let sources: Vec<Vec<u8>> = names.iter().map(|name| fill(&mut c, name, size + name.len(), 3)).collect();
        for (name, data) in names.iter().zip(&sources) {
            assert!(c.read(name).as_deref() == Ok(data));
        }
        assert_eq!(c.write("b", b"this is b"), 0);
        assert_eq!(c.write("c", b"this is c"), 0);
        // Two against each other, and three in a ring; each waits for what another holds.
        let asked = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")].map(|(to, from)| {
            let op = c.request(to, vec![copy_from(from, 0, None)]);
            c.send(1, op)
        });
        for _ in 0..20 {
            c.settle();
        }
        for tid in asked {
            let result = c.replies.get(&(1, tid)).map(|replies| replies[0].result);
            assert!(matches!(result, Some(0 | -34)), "seed {seed}: {result:?}: done, or its source changed meanwhile");
        }
        for name in names {
            let data = c.read(name).expect("it is there");
            let one_of = [&sources[0][..], b"this is b", b"this is c"];
            assert!(one_of.contains(&&data[..]), "seed {seed}: {name} is a mixture");
            assert_eq!(c.write(name, b"the object is free again"), 0);
        }
        c.settle();
        assert_nothing_aside(&c);
    }
}

#[test]
fn what_a_copy_left_aside_goes_when_the_group_serves_again() {
    let mut tried = 0;
    for seed in 50..70 {
        let mut c = Cluster::new(seed, 3, 3, 2, 8);
        let data = fill(&mut c, "source", 40 << 20, 10);
        let (_, _, primary) = c.locate("target");
        let op = c.request("target", vec![copy_from("source", 0, None)]);
        let tid = c.send(1, op);
        let aside = |c: &Cluster| {
            let (pg, ..) = c.locate("target");
            let what = ReadWhat::List(ListWant { from: None, max: 1000, attr: None });
            let found = (0..3).filter(|osd| *osd != primary).map(|osd| {
                let found = c.store(osd).read(&ReadRequest { collection: CollectionId::Pg(pg), what: what.clone() });
                let Ok(ReadResult::List { entries, .. }) = found else { panic!("{found:?}") };
                entries.iter().any(|entry| entry.id.snap() == STAGED)
            });
            found.collect::<Vec<_>>().contains(&true)
        };
        for _ in 0..10_000 {
            if aside(&c) || !c.step() {
                break;
            }
        }
        assert!(aside(&c), "seed {seed}: the first part has come");
        assert!(!c.replies.contains_key(&(1, tid)));
        if c.osd(primary).shown_log(c.locate("target").0).is_some_and(|log| log.entries.len() > 1) {
            // More is on its way, perhaps all of it: what was not answered may happen still.
            continue;
        }
        tried += 1;
        c.kill(primary);
        c.settle();
        assert!(!aside(&c), "seed {seed}: the new primary gives it up");
        c.start(primary);
        c.settle();
        c.settle();
        assert_nothing_aside(&c);
        assert_eq!(c.read("target"), Err(-2));
        assert_eq!(c.call("target", vec![copy_from("source", 0, None)]).result, 0);
        assert!(c.read("target").as_deref() == Ok(&data[..]));
    }
    assert!(tried >= 5, "{tried}");
}
