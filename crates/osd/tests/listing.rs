//! Listings: by cursor, by namespace, by filter, in the old form.

mod harness;

use base::{Errno, PgId, SnapId};
use bytes::Bytes;
use harness::{Cluster, POOL};
use std::collections::BTreeSet;
use wire::messages::{OsdOp, OsdOpReply};
use wire::osd::payload::{ListReply, OldListReply};
use wire::osd::{HObject, ObjectLocator, OpCode, OpParams, OsdOpItem, RequestFlags, SnapContext, SpgId};
use wire::{Decode, Encode, Encoder};

const PG_NUM: u32 = 4;

/// A filter as clients write it.
fn filter(kind: &str, arguments: &[&[u8]]) -> Vec<u8> {
    let mut e = Encoder::new();
    [b"pg".as_slice(), b"filter", kind.as_bytes()].iter().chain(arguments).for_each(|part| e.blob(part));
    e.finish().to_vec()
}

fn ask(c: &mut Cluster, seed: u32, nspace: &'static str, item: OsdOpItem) -> OsdOpReply {
    let pg = PgId::new(POOL, seed);
    let locator = ObjectLocator { nspace: nspace.into(), hash: i64::from(seed), ..ObjectLocator::new(POOL) };
    let mut op = OsdOp::new(SpgId::replicated(pg), seed, locator, Bytes::new(), vec![item]);
    op.map_epoch = c.map.epoch;
    op.flags = RequestFlags::READ | RequestFlags::PGOP;
    c.call_op(op)
}

fn page(op: OpCode, count: u64, filter: &[u8], cursor: &HObject) -> OsdOpItem {
    let payload = [filter, &cursor.to_bytes()].concat();
    OsdOpItem::new(op).with_params(OpParams::List { count, start_epoch: 0 }).with_payload(payload)
}

/// Every name in the pool, and how many pages that took.
fn names(c: &mut Cluster, nspace: &'static str, count: u64, filter: Option<&[u8]>) -> (BTreeSet<String>, usize) {
    let op = if filter.is_some() { OpCode::PGNLS_FILTER } else { OpCode::PGNLS };
    let (mut all, mut pages) = (BTreeSet::new(), 0);
    for seed in 0..PG_NUM {
        let mut cursor = HObject::MIN;
        loop {
            let reply = ask(c, seed, nspace, page(op, count, filter.unwrap_or_default(), &cursor));
            assert!(reply.result >= 0, "{}", reply.result);
            let list = ListReply::from_bytes(&reply.ops[0].item.payload).expect("a page");
            assert!(list.entries.len() as u64 <= count);
            assert!(list.handle > cursor, "a listing goes on");
            pages += 1;
            for entry in list.entries {
                let name = String::from_utf8(entry.name.to_vec()).expect("our own name");
                assert!(all.insert(name), "listed twice");
            }
            if reply.result == 1 {
                break;
            }
            cursor = list.handle;
        }
    }
    (all, pages)
}

fn filled(seed: u64, count: usize) -> Cluster {
    let mut c = Cluster::new(seed, 3, 3, 2, PG_NUM);
    for i in 0..count {
        let name = format!("object-{i}");
        let value = format!("{}", i % 3);
        assert_eq!(c.call(&name, vec![OsdOpItem::xattr(OpCode::SETXATTR, b"rest", value.as_bytes())]).result, 0);
    }
    assert_eq!(c.write("plain", b"no attribute"), 0);
    c
}

#[test]
fn pages_of_any_size_name_every_object_once() {
    let mut c = filled(41, 60);
    for count in [1, 7, 1000] {
        assert_eq!(names(&mut c, "", count, None).0.len(), 61, "{count} a page");
    }
    assert_eq!(names(&mut c, "other", 10, None).0.len(), 0);
    assert_eq!(names(&mut c, "\x01", 10, None).0.len(), 61, "all namespaces");
}

#[test]
fn filters_choose_by_attribute() {
    let mut c = filled(42, 60);
    for kind in ["plain", "hello.hello"] {
        let red = filter(kind, &[b"_rest", b"1"]);
        for count in [1, 10, 1000] {
            let (found, pages) = names(&mut c, "", count, Some(&red));
            let expected = (0..60).filter(|i| i % 3 == 1).map(|i| format!("object-{i}")).collect();
            assert_eq!(found, expected, "{kind}, {count} a page");
            assert!(count > 10 || pages >= 61 / count as usize, "a request looks at no more than it may return");
        }
        assert_eq!(names(&mut c, "", 10, Some(&filter(kind, &[b"_rest", b"9"]))).0.len(), 0);
        assert_eq!(names(&mut c, "", 10, Some(&filter(kind, &[b"_none", b""]))).0.len(), 0);
        assert_eq!(names(&mut c, "", 10, Some(&filter(kind, &[b"", b""]))).0.len(), 61);
    }
}

#[test]
fn what_cannot_be_listed_is_refused() {
    let mut c = filled(43, 5);
    let mut code = |op: OpCode, filter: &[u8]| ask(&mut c, 0, "", page(op, 10, filter, &HObject::MIN)).result;
    for op in [OpCode::PGNLS_FILTER, OpCode::PGLS_FILTER] {
        assert_eq!(code(op, &filter("nobody", &[])), Errno::EINVAL.code());
        assert_eq!(code(op, &filter("nobody.filter", &[])), Errno::EPERM.code());
        assert_eq!(code(op, &filter("hello.nothing", &[])), Errno::EINVAL.code());
        assert_eq!(code(op, &[]), Errno::EINVAL.code());
    }
    let cursor = HObject { hash: 1, pool: POOL, ..HObject::MIN };
    assert_eq!(
        ask(&mut c, 0, "", page(OpCode::PGNLS, 9, &[], &cursor)).result,
        Errno::EINVAL.code(),
        "another group's"
    );
    let garbage = OsdOpItem::new(OpCode::PGNLS)
        .with_params(OpParams::List { count: 9, start_epoch: 0 })
        .with_payload(&b"\x01\xff\xff"[..]);
    assert_eq!(ask(&mut c, 0, "", garbage).result, Errno::EINVAL.code());
    assert_eq!(ask(&mut c, 0, "", OsdOpItem::new(OpCode(0x15FE))).result, Errno::EINVAL.code());
    let sets = ask(&mut c, 0, "", OsdOpItem::new(OpCode::PG_HITSET_LS));
    assert_eq!((sets.result, sets.ops[0].item.payload.as_ref()), (0, &[0; 4][..]));
    assert_eq!(ask(&mut c, 0, "", OsdOpItem::new(OpCode::PG_HITSET_GET)).result, Errno::ENOENT.code());
}

#[test]
fn the_old_form_lists_one_namespace() {
    let mut c = filled(44, 40);
    let one = filter("plain", &[b"_rest", b"1"]);
    for (op, filter, expected) in [(OpCode::PGLS, &[][..], 41), (OpCode::PGLS_FILTER, &one[..], 13)] {
        let mut all = BTreeSet::new();
        for seed in 0..PG_NUM {
            let mut cursor = HObject::MIN;
            loop {
                let reply = ask(&mut c, seed, "", page(op, 7, filter, &cursor));
                let list = OldListReply::from_bytes(&reply.ops[0].item.payload).expect("a page");
                all.extend(list.entries);
                if reply.result == 1 {
                    assert_eq!(list.handle, HObject::MAX);
                    break;
                }
                assert_eq!(reply.result, 0);
                cursor = list.handle;
            }
        }
        assert_eq!(all.len(), expected);
    }
    let everywhere = ask(&mut c, 0, "\x01", page(OpCode::PGLS, 100, &[], &HObject::MIN));
    assert_eq!(OldListReply::from_bytes(&everywhere.ops[0].item.payload).expect("a page").entries.len(), 0);
}

#[test]
fn a_deleted_object_with_clones_is_not_listed() {
    let mut c = filled(45, 3);
    let mut op = c.request("object-1", vec![OsdOpItem::new(OpCode::DELETE)]);
    op.snap_context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    assert_eq!(c.call_op(op).result, 0);
    let left: BTreeSet<String> = ["object-0", "object-2", "plain"].map(str::to_owned).into();
    assert_eq!(names(&mut c, "", 2, None).0, left);
    assert_eq!(names(&mut c, "", 2, Some(&filter("plain", &[b"_rest", b"1"]))).0.len(), 0);
}
