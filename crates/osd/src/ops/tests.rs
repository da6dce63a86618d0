//! Compounds against a memory store: one table per family, and a property against a model.

use super::execution::{Caller, Circumstances, Watching};
use super::*;
use crate::limits::{OBJECT_BYTES_MAX, WATCHERS_MAX};
use crate::watch::{LiveWatches, WatchName, WatchRecord};
use base::{Epoch, Instant, PgId, PoolId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use store::{CollectionId, MemoryStore, ObjectId, ReadRequest, ReadResult, ReadWhat, SnapId, Transaction};
use wire::osd::OpParams;
use wire::osd::op::CmpOp;
use wire::osd::op::watch_op;
use wire::osd::payload::{
    KeySet, KeyValues, NotifyAck, NotifyRequest, OmapAssertions, OmapPage, OmapRange, SparseRead, StatReply,
    WatcherList,
};
use wire::types::{AddrKind, EntityAddr, EntityName, EntityType, UTime};
use wire::{Decode, Encode};

const PG: CollectionId = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 });

fn asker(num: i64) -> Caller {
    let addr = EntityAddr::msgr2("10.0.0.4:0".parse().expect("an address"), 77);
    Caller { name: EntityName { kind: EntityType::CLIENT, num }, addr, own: false }
}

struct Bench {
    store: MemoryStore,
    object: ObjectId,
    version: u64,
    asker: Caller,
    live: LiveWatches,
}

impl Bench {
    fn new() -> Bench {
        let mut store = MemoryStore::new();
        store.commit(&Transaction::create(PG)).expect("new");
        Bench {
            store,
            object: ObjectId::new(9, b"", b"", b"object", SnapId::HEAD),
            version: 0,
            asker: asker(4),
            live: LiveWatches::default(),
        }
    }

    fn view(&self, want: ObjectWant) -> Box<ObjectView> {
        let request = ReadRequest { collection: PG, what: ReadWhat::Object(self.object.clone(), want) };
        match self.store.read(&request) {
            Ok(ReadResult::Object(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self) -> ObjectState {
        let want = ObjectWant { attrs: AttrsWant::Named(vec![INFO_ATTR]), ..Default::default() };
        ObjectState::of(&self.view(want)).expect("our own record")
    }

    fn run(&mut self, ops: Vec<OsdOpItem>) -> Outcome {
        self.run_with(ops, false)
    }

    fn run_with(&mut self, ops: Vec<OsdOpItem>, returns_outputs: bool) -> Outcome {
        let plan = plan(&ops, &Tuning::default()).expect("few ops");
        let state = self.state();
        let view = (plan.class != OpClass::Write).then(|| self.view(plan.want));
        let mtime = UTime { secs: 77, nanos: 0 };
        let view = view.as_deref();
        let (caller, now, tuning) = (self.asker, Instant(0), Default::default());
        let circumstances = Circumstances { caller, now, last_user_version: 0, tuning };
        let watching =
            Watching { object: &self.object, live: &self.live, next_notification: 0x5_0000_0000, timeout_s: 30 };
        let (context, removed) = Default::default();
        let snaps = snaps::Snaps::of_head(&context, &removed);
        let mut answers: Vec<ObjectView> = Vec::new();
        let mut outcome = loop {
            let request = Request {
                ops: &ops,
                state: state.clone(),
                view,
                answers: &answers,
                copied: None,
                mtime,
                circumstances,
                returns_outputs,
                watching,
                snaps,
            };
            match execute(&request) {
                Ok(outcome) => break outcome,
                Err(ask) => answers.push(*self.view(ask.want)),
            }
        };
        if outcome.is_change() {
            self.version += 1;
            outcome.seal(EVersion::new(Epoch(2), self.version), self.version);
            let mut t = Transaction::new(PG);
            outcome.changes.iter().for_each(|op| t.push(&self.object, op.clone()));
            self.store.commit(&t).expect("valid");
            assert_eq!(self.state(), outcome.state, "what the next op is told is what the store has");
        }
        outcome
    }

    fn code(&mut self, op: OsdOpItem) -> i32 {
        self.run(vec![op]).result
    }

    fn output(&mut self, op: OsdOpItem) -> Bytes {
        let outcome = self.run(vec![op]);
        assert!(outcome.result >= 0, "{outcome:?}");
        outcome.ops[0].item.payload.clone()
    }

    fn data(&mut self) -> Vec<u8> {
        self.output(OsdOpItem::extent(OpCode::READ, 0, 0)).to_vec()
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn write(offset: u64, data: &str) -> OsdOpItem {
    OsdOpItem::extent(OpCode::WRITE, offset, data.len() as u64).with_payload(bytes(data))
}

fn full(data: &str) -> OsdOpItem {
    OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(bytes(data))
}

fn range(op: OpCode, offset: u64, len: u64) -> OsdOpItem {
    OsdOpItem::extent(op, offset, len)
}

fn cmpxattr(name: &str, value: &[u8], op: CmpOp, mode: u8) -> OsdOpItem {
    let mut item = OsdOpItem::xattr(OpCode::CMPXATTR, name.as_bytes(), value);
    (item.args[8], item.args[9]) = (op as u8, mode);
    item
}

#[test]
fn sparse_reads_name_what_is_there_and_give_one_piece_as_it_is() {
    let mut b = Bench::new();
    let big = |letter: &str| letter.repeat(64 << 10);
    b.run(vec![write(0, &big("a"))]);
    let sparse = range(OpCode::SPARSE_READ, 4096, 1 << 20);
    let outcome = &b.run(vec![sparse.clone()]).ops[0];
    let expected = SparseRead { extents: BTreeMap::from([(4096, 60 << 10)]), data: bytes(&big("a")[4096..]) };
    assert_eq!((&outcome.item.payload, outcome.lead.len()), (&expected.data, 24));
    assert_eq!(outcome.output_len(), expected.to_bytes().len());
    assert_eq!([&outcome.lead[..], &outcome.item.payload].concat(), expected.to_bytes());

    // Two pieces are put together, and one that comes with a change is remembered with it.
    b.run(vec![write(256 << 10, &big("b"))]);
    let outcome = &b.run(vec![sparse.clone()]).ops[0];
    let extents = BTreeMap::from([(4096, 60 << 10), (256 << 10, 64 << 10)]);
    let expected = SparseRead { extents, data: bytes(&(big("a")[4096..].to_owned() + &big("b"))) };
    assert_eq!((&outcome.item.payload, outcome.lead.len()), (&expected.to_bytes(), 0));
    let outcome = &b.run_with(vec![range(OpCode::SPARSE_READ, 4096, 5), write(0, "c")], true).ops[0];
    let expected = SparseRead { extents: BTreeMap::from([(4096, 5)]), data: bytes("aaaaa") };
    assert_eq!((&outcome.item.payload, outcome.lead.len()), (&expected.to_bytes(), 0));

    // Where nothing is, there is nothing to name.
    let outcome = &b.run(vec![range(OpCode::SPARSE_READ, 128 << 10, 4096)]).ops[0];
    assert_eq!(outcome.item.payload, SparseRead::default().to_bytes());
}

#[test]
fn data_ops_do_what_ceph_s_do() {
    let mut b = Bench::new();
    let e = |errno: Errno| errno.code();
    let steps: Vec<(OsdOpItem, i32, &str)> = vec![
        (OsdOpItem::new(OpCode::DELETE), e(Errno::ENOENT), ""),
        (OsdOpItem::new(OpCode::STAT), e(Errno::ENOENT), ""),
        // At snapshot 0 it was not there either.
        (OsdOpItem::new(OpCode::ROLLBACK), 0, ""),
        (range(OpCode::TRUNCATE, 5, 0), 0, ""),
        (range(OpCode::ZERO, 0, 5), 0, ""),
        (write(3, "abc"), 0, "\0\0\0abc"),
        (full("hello world"), 0, "hello world"),
        (range(OpCode::APPEND, 0, 1).with_payload("!"), 0, "hello world!"),
        (range(OpCode::ZERO, 0, 2), 0, "\0\0llo world!"),
        // Zeros that reach the end cut the object; zeros beyond it are nothing.
        (range(OpCode::ZERO, 6, 100), 0, "\0\0llo "),
        (range(OpCode::ZERO, 100, 100), 0, "\0\0llo "),
        (range(OpCode::TRUNCATE, 3, 0), 0, "\0\0l"),
        (range(OpCode::TRUNCATE, 5, 0), 0, "\0\0l\0\0"),
        (write(8, ""), 0, "\0\0l\0\0\0\0\0"),
        (write(0, ""), 0, "\0\0l\0\0\0\0\0"),
        (full("ab"), 0, "ab"),
        (range(OpCode::WRITE, 0, 3).with_payload("no"), e(Errno::EINVAL), "ab"),
        (write(OBJECT_BYTES_MAX, "x"), e(Errno::EFBIG), "ab"),
        (range(OpCode::TRUNCATE, OBJECT_BYTES_MAX + 1, 0), e(Errno::EFBIG), "ab"),
        (OsdOpItem::new(OpCode::CREATE).with_flags(OpFlags::EXCL), e(Errno::EEXIST), "ab"),
        (OsdOpItem::new(OpCode::CREATE), 0, "ab"),
        (range(OpCode::CMPEXT, 0, 2).with_payload("ab"), 0, "ab"),
        (range(OpCode::CMPEXT, 0, 2).with_payload("ax"), -4096, "ab"),
        (range(OpCode::CMPEXT, 0, 4).with_payload("ab\0\0"), 0, "ab"),
    ];
    for (op, code, content) in steps {
        let text = format!("{op:?}");
        assert_eq!(b.code(op), code, "{text}");
        if b.state().exists {
            assert_eq!(String::from_utf8_lossy(&b.data()), content, "{text}");
        } else {
            assert_eq!(content, "", "{text}");
        }
    }
    let stat: StatReply = Decode::from_bytes(&b.output(OsdOpItem::new(OpCode::STAT))).expect("a stat");
    assert_eq!((stat.size, stat.mtime.secs), (2, 77));
    assert_eq!(b.code(OsdOpItem::new(OpCode::DELETE)), 0);
    assert!(!b.state().exists);
}

#[test]
fn reads_end_where_the_object_does() {
    let mut b = Bench::new();
    b.run(vec![full("0123456789")]);
    for (offset, len, expected) in
        [(0, 0, "0123456789"), (4, 3, "456"), (8, 9, "89"), (10, 5, ""), (99, 0, ""), (5, 0, "56789")]
    {
        assert_eq!(b.output(range(OpCode::READ, offset, len)), bytes(expected), "{offset}~{len}");
    }
}

#[test]
fn truncations_of_cephfs_are_ordered_by_their_sequence() {
    let mut b = Bench::new();
    let truncated = |item: OsdOpItem, size: u64, seq: u32| {
        let (offset, length) = item.range();
        item.with_params(OpParams::Extent { offset, length, truncate_size: size, truncate_seq: seq })
    };
    b.run(vec![full("0123456789")]);
    assert_eq!(b.code(truncated(range(OpCode::TRIMTRUNC, 0, 0), 4, 2)), 0);
    assert_eq!(b.data(), b"0123");
    assert_eq!(b.code(truncated(range(OpCode::TRIMTRUNC, 0, 0), 1, 2)), 0, "an old one is nothing");
    assert_eq!(b.data(), b"0123");
    // A write that was sent before the truncation does not bring back what that cut off.
    assert_eq!(b.code(truncated(write(2, "xxxx"), 10, 1)), 0);
    assert_eq!(b.data(), b"01xx");
    // One that was sent after a truncation that has not come yet applies it first.
    assert_eq!(b.code(truncated(write(3, "y"), 1, 3)), 0);
    assert_eq!(b.data(), b"0\0\0y");
    // A read after such a truncation sees its size.
    let read = truncated(range(OpCode::READ, 0, 9), 2, 4);
    assert_eq!(b.output(read), bytes("0\0"));
}

#[test]
fn compounds_succeed_or_fail_as_one() {
    let mut b = Bench::new();
    let outcome = b.run(vec![full("a"), OsdOpItem::new(OpCode::CREATE).with_flags(OpFlags::EXCL)]);
    assert_eq!(outcome.result, Errno::EEXIST.code());
    assert!(!b.state().exists, "nothing of a failed compound stays");
    let failing = OsdOpItem::xattr(OpCode::GETXATTR, b"none", b"").with_flags(OpFlags::FAILOK);
    let outcome = b.run(vec![OsdOpItem::new(OpCode::CREATE), failing, write(0, "b")]);
    assert_eq!((outcome.result, outcome.ops[1].result), (0, Errno::ENOENT.code()), "FAILOK goes on");
    assert_eq!(b.data(), b"b");
    let outcome = b.run(vec![OsdOpItem::new(OpCode::DELETE), full("again")]);
    assert_eq!((outcome.result, b.data()), (0, b"again".to_vec()), "deleting and creating in one");
    let outcome = b.run(vec![range(OpCode::READ, 0, 0), full("new")]);
    assert_eq!(outcome.ops[0].item.payload, Bytes::new(), "a write's outputs stay here");
    let outcome = b.run_with(vec![range(OpCode::READ, 0, 0), write(0, "N")], true);
    assert_eq!(outcome.ops[0].item.payload, bytes("new"), "unless they are asked for");
    b.run(vec![full(&"long".repeat(100))]);
    let outcome = b.run_with(vec![range(OpCode::READ, 0, 0), write(0, "N")], true);
    assert_eq!((outcome.result, outcome.ops[0].result), (Errno::EOVERFLOW.code(), Errno::EOVERFLOW.code()));
    assert_eq!(b.code(OsdOpItem::new(OpCode::GETXATTRS)), 0);
}

#[test]
fn versions_are_asserted() {
    let mut b = Bench::new();
    b.run(vec![full("1")]);
    b.run(vec![full("2")]);
    let assert_ver = |version| OsdOpItem::new(OpCode::ASSERT_VER).with_params(OpParams::AssertVer { version });
    for (version, code) in [(2, 0), (1, -34), (3, -75), (0, -22)] {
        assert_eq!(b.run(vec![assert_ver(version), range(OpCode::READ, 0, 0)]).result, code, "{version}");
    }
}

#[test]
fn attributes_are_set_compared_and_removed() {
    let mut b = Bench::new();
    let get = |name: &str| OsdOpItem::xattr(OpCode::GETXATTR, name.as_bytes(), b"");
    assert_eq!(b.code(get("a")), Errno::ENOENT.code());
    assert_eq!(b.code(OsdOpItem::xattr(OpCode::SETXATTR, b"a", b"5")), 0);
    assert_eq!(b.code(get("b")), Errno::ENODATA.code());
    assert_eq!(b.output(get("a")), bytes("5"));
    let all: KeyValues = Decode::from_bytes(&b.output(OsdOpItem::new(OpCode::GETXATTRS))).expect("a map");
    assert_eq!(all, BTreeMap::from([(bytes("a"), bytes("5"))]), "the OSD's own record is not listed");
    let seven = 7u64.to_le_bytes();
    let cases = [
        (cmpxattr("a", b"5", CmpOp::Eq, 1), 1),
        (cmpxattr("a", b"6", CmpOp::Eq, 1), Errno::ECANCELED.code()),
        (cmpxattr("a", b"6", CmpOp::Gt, 1), 1),
        (cmpxattr("a", &seven, CmpOp::Gt, 2), 1),
        (cmpxattr("a", &seven, CmpOp::Lt, 2), Errno::ECANCELED.code()),
        (cmpxattr("a", b"7", CmpOp::Eq, 2), Errno::EINVAL.code()),
        (cmpxattr("none", b"", CmpOp::Eq, 1), 1),
        (cmpxattr("a", b"5", CmpOp::Eq, 9), Errno::EINVAL.code()),
    ];
    for (op, code) in cases {
        assert_eq!(b.code(op.clone()), code, "{op:?}");
    }
    assert_eq!(b.code(OsdOpItem::xattr(OpCode::SETXATTR, &[b'n'; 101], b"")), Errno::ENAMETOOLONG.code());
    assert_eq!(b.code(OsdOpItem::xattr(OpCode::SETXATTR, b"n", &[0; 65_537])), 0, "no bound of their own");
    assert_eq!(b.code(OsdOpItem::xattr(OpCode::RMXATTR, b"a", b"")), 0);
    assert_eq!(b.code(get("a")), Errno::ENODATA.code());
    let mut lying = OsdOpItem::xattr(OpCode::SETXATTR, b"a", b"1");
    lying.payload = bytes("a");
    assert_eq!(b.code(lying), Errno::EINVAL.code());
}

#[test]
fn maps_are_set_paged_compared_and_cleared() {
    let mut b = Bench::new();
    let op = |code: OpCode, payload: Bytes| OsdOpItem::new(code).with_payload(payload);
    let entries: KeyValues = (0..5).map(|i| (bytes(&format!("k{i}")), bytes(&format!("v{i}")))).collect();
    assert_eq!(b.code(op(OpCode::OMAPRMKEYS, KeySet::new().to_bytes())), Errno::ENOENT.code());
    assert_eq!(b.code(OsdOpItem::new(OpCode::OMAPCLEAR)), Errno::ENOENT.code());
    assert_eq!(b.code(op(OpCode::OMAPSETVALS, entries.to_bytes())), 0);
    assert_eq!(b.code(op(OpCode::OMAPSETHEADER, bytes("head"))), 0);
    assert_eq!(b.output(OsdOpItem::new(OpCode::OMAPGETHEADER)), bytes("head"));
    let page = OmapRange { start_after: bytes("k1"), max: 2, prefix: bytes("k") };
    let values = b.output(op(OpCode::OMAPGETVALS, page.to_values()));
    let values: OmapPage<KeyValues> = OmapPage::from_bytes(&values).expect("a page");
    assert_eq!(
        (values.found.into_keys().collect::<Vec<_>>(), values.truncated),
        (vec![bytes("k2"), bytes("k3")], true)
    );
    let keys = b.output(op(OpCode::OMAPGETKEYS, OmapRange { start_after: bytes("k3"), max: 9, ..page }.to_keys()));
    let keys: OmapPage<BTreeSet<Bytes>> = OmapPage::from_bytes(&keys).expect("a page");
    assert_eq!((keys.found, keys.truncated), (BTreeSet::from([bytes("k4")]), false));
    let some = b.output(op(OpCode::OMAPGETVALSBYKEYS, KeySet::from([bytes("k0"), bytes("x")]).to_bytes()));
    assert_eq!(KeyValues::from_bytes(&some), Ok(BTreeMap::from([(bytes("k0"), bytes("v0"))])));
    let assertions = |key: &str, value: &str, op: CmpOp| -> Bytes {
        OmapAssertions::from([(bytes(key), (bytes(value), op as i32))]).to_bytes()
    };
    for (key, value, how, code) in [
        ("k0", "v0", CmpOp::Eq, 0),
        ("k0", "v1", CmpOp::Eq, -125),
        ("k0", "v1", CmpOp::Lt, 0),
        ("none", "", CmpOp::Eq, 0),
        ("k0", "v0", CmpOp::Ne, -22),
    ] {
        assert_eq!(b.code(op(OpCode::OMAP_CMP, assertions(key, value, how))), code, "{key} {how:?} {value}");
    }
    // Two comparisons and a read in one compound: each gets its own part of the store's answer.
    let outcome = b.run(vec![
        op(OpCode::OMAP_CMP, assertions("k1", "v1", CmpOp::Eq)),
        op(OpCode::OMAP_CMP, Bytes::from_static(b"\xff")).with_flags(OpFlags::FAILOK),
        op(OpCode::OMAP_CMP, assertions("k2", "v2", CmpOp::Eq)),
        op(OpCode::OMAPGETVALSBYKEYS, KeySet::from([bytes("k3")]).to_bytes()),
    ]);
    assert_eq!(outcome.result, 0, "{outcome:?}");
    assert_eq!(KeyValues::from_bytes(&outcome.ops[3].item.payload), Ok(BTreeMap::from([(bytes("k3"), bytes("v3"))])));
    assert_eq!(b.code(op(OpCode::OMAPRMKEYRANGE, (bytes("k1"), bytes("k3")).to_bytes())), 0);
    assert_eq!(b.code(op(OpCode::OMAPRMKEYS, KeySet::from([bytes("k0")]).to_bytes())), 0);
    assert_eq!(b.code(op(OpCode::OMAPSETVALS, bytes("x"))), Errno::EINVAL.code());
    let all = OmapRange { max: 99, ..OmapRange::default() };
    let left: OmapPage<BTreeSet<Bytes>> =
        OmapPage::from_bytes(&b.output(op(OpCode::OMAPGETKEYS, all.to_keys()))).expect("a page");
    assert_eq!(left.found, BTreeSet::from([bytes("k3"), bytes("k4")]));
    assert_eq!(b.code(OsdOpItem::new(OpCode::OMAPCLEAR)), 0);
    assert_eq!(b.output(OsdOpItem::new(OpCode::OMAPGETHEADER)), Bytes::new());
}

#[test]
fn what_is_out_of_scope_is_refused() {
    let mut b = Bench::new();
    b.run(vec![full("x")]);
    let out_of_scope = [
        OpCode::CACHE_FLUSH,
        OpCode::CACHE_TRY_FLUSH,
        OpCode::CACHE_EVICT,
        OpCode::CACHE_PIN,
        OpCode::CACHE_UNPIN,
        OpCode::ISDIRTY,
        OpCode::UNDIRTY,
        OpCode::SET_REDIRECT,
        OpCode::SET_CHUNK,
        OpCode::TIER_PROMOTE,
        OpCode::TIER_FLUSH,
        OpCode::TIER_EVICT,
        OpCode::UNSET_MANIFEST,
        OpCode::MASKTRUNC,
        OpCode::SETTRUNC,
        OpCode::SETXATTRS,
        OpCode::RESETXATTRS,
        OpCode::CLONERANGE,
        OpCode::ASSERT_SRC_VERSION,
        OpCode::SRC_CMPXATTR,
        OpCode(0x12FE),
        OpCode(0x22FE),
    ];
    for op in out_of_scope {
        assert_eq!(b.code(OsdOpItem::new(op)), Errno::EOPNOTSUPP.code(), "{op:?}");
    }
    assert_eq!(b.data(), b"x");
}

#[test]
fn plans_say_how_requests_are_ordered() {
    for (ops, class) in [
        (vec![range(OpCode::READ, 0, 0)], OpClass::Read),
        (vec![OsdOpItem::new(OpCode::STAT)], OpClass::Read),
        (vec![full("x")], OpClass::Write),
        (vec![OsdOpItem::new(OpCode::STAT), full("x")], OpClass::Write),
        (vec![cmpxattr("a", b"", CmpOp::Eq, 1), full("x")], OpClass::ReadModify),
    ] {
        assert_eq!(plan(&ops, &Tuning::default()).map(|p| p.class), Ok(class), "{ops:?}");
    }
}

fn any_op() -> impl Strategy<Value = OsdOpItem> {
    let text = || "[a-c]{0,6}";
    prop_oneof![
        (0u64..20, text()).prop_map(|(o, t)| write(o, &t)),
        text().prop_map(|t| full(&t)),
        text().prop_map(|t| range(OpCode::APPEND, 0, t.len() as u64).with_payload(bytes(&t))),
        (0u64..20, 1u64..20).prop_map(|(o, l)| range(OpCode::ZERO, o, l)),
        (0u64..20).prop_map(|o| range(OpCode::TRUNCATE, o, 0)),
        any::<bool>().prop_map(|excl| {
            OsdOpItem::new(OpCode::CREATE).with_flags(if excl { OpFlags::EXCL } else { OpFlags::default() })
        }),
        Just(OsdOpItem::new(OpCode::DELETE)),
        (0u64..20, text()).prop_map(|(o, t)| range(OpCode::CMPEXT, o, t.len() as u64).with_payload(bytes(&t))),
    ]
}

/// What a compound does to an object that is only bytes; a code below 0 leaves it as it was.
fn model(before: &Option<Vec<u8>>, ops: &[OsdOpItem]) -> Result<Option<Vec<u8>>, i32> {
    let mut now = before.clone();
    let old = before.clone().unwrap_or_default();
    for item in ops {
        let (offset, len) = (item.range().0 as usize, item.range().1 as usize);
        let size = now.as_ref().map_or(0, Vec::len);
        match item.op {
            OpCode::WRITE | OpCode::APPEND => {
                let at = if item.op == OpCode::APPEND { size } else { offset };
                let data = now.get_or_insert_default();
                data.resize(size.max(at + len), 0);
                data[at..at + len].copy_from_slice(&item.payload);
            }
            OpCode::WRITEFULL => now = Some(item.payload.to_vec()),
            OpCode::ZERO => {
                if let Some(data) = &mut now {
                    let end = (offset + len).min(size);
                    if offset < size && end == size {
                        data.truncate(offset);
                    } else if offset < size {
                        data[offset..end].fill(0);
                    }
                }
            }
            OpCode::TRUNCATE => now.iter_mut().for_each(|data| data.resize(offset, 0)),
            OpCode::CREATE if now.is_some() && item.flags.has(OpFlags::EXCL) => return Err(Errno::EEXIST.code()),
            OpCode::CREATE => drop(now.get_or_insert_default()),
            OpCode::DELETE if now.is_none() => return Err(Errno::ENOENT.code()),
            OpCode::DELETE => now = None,
            _ => {
                let held = |i: usize| old.get(offset + i).filter(|_| offset + i < size).copied().unwrap_or(0);
                if let Some(at) = (0..len).find(|i| item.payload[*i] != held(*i)) {
                    return Err(-4095 - at as i32);
                }
            }
        }
    }
    Ok(now)
}

proptest! {
    #[test]
    fn compounds_do_what_the_model_does(
        compounds in proptest::collection::vec(proptest::collection::vec(any_op(), 1..5), 1..10),
    ) {
        let mut b = Bench::new();
        let mut expected = None;
        for ops in compounds {
            let writes = ops.iter().any(|item| item.op.writes());
            let result = b.run(ops.clone()).result;
            match model(&expected, &ops) {
                Err(_) if !writes && expected.is_none() => prop_assert_eq!(result, Errno::ENOENT.code()),
                Ok(_) if !writes && expected.is_none() => prop_assert_eq!(result, Errno::ENOENT.code()),
                Err(code) => prop_assert_eq!(result, code, "{:?}", ops),
                Ok(now) => {
                    prop_assert_eq!(result, 0, "{:?}", ops);
                    expected = now;
                }
            }
            prop_assert_eq!(b.state().exists, expected.is_some(), "{:?}", ops);
            if let Some(data) = &expected {
                prop_assert_eq!(&b.data(), data, "{:?}", ops);
            }
        }
    }
}

fn watch_as(op: u8, cookie: u64, timeout_s: u32) -> OsdOpItem {
    OsdOpItem::new(OpCode::WATCH).with_params(OpParams::Watch { cookie, version: 0, op, generation: 0, timeout_s })
}

fn name(num: i64, cookie: u64) -> WatchName {
    WatchName { cookie, entity: EntityName { kind: EntityType::CLIENT, num } }
}

#[test]
fn watches_are_recorded_and_what_is_to_be_done_is_told() {
    let mut b = Bench::new();
    let watch = || vec![watch_as(watch_op::WATCH, 7, 0)];
    assert_eq!(b.run(watch()).result, Errno::ENOENT.code());
    b.run(vec![OsdOpItem::new(OpCode::CREATE)]);
    for op in [watch_op::RECONNECT, watch_op::PING] {
        assert_eq!(b.run(vec![watch_as(op, 7, 0)]).result, Errno::ENOTCONN.code());
    }
    let outcome = b.run(watch());
    assert!(outcome.is_change() && !outcome.user_modified, "watching is no change that users see");
    let record = WatchRecord { timeout_s: 30, addr: EntityAddr { kind: AddrKind::Any, ..b.asker.addr } };
    let connect = |cookie, record, pings| vec![Effect::Connect { watch: name(4, cookie), record, pings }];
    assert_eq!(outcome.effects, connect(7, record, true));
    let again = b.run(watch());
    assert!(!again.is_change(), "a second watch under the same handle is the first");
    assert_eq!(again.effects, outcome.effects);
    assert_eq!(b.run(vec![watch_as(watch_op::RECONNECT, 7, 0)]).effects, outcome.effects);
    assert_eq!(b.run(vec![watch_as(watch_op::PING, 7, 0)]).result, Errno::ETIMEDOUT.code(), "its session is gone");
    let legacy = b.run(vec![watch_as(watch_op::LEGACY_WATCH, 8, 5)]);
    assert_eq!(legacy.effects, connect(8, WatchRecord { timeout_s: 5, ..record }, false));
    let list = b.run(vec![OsdOpItem::new(OpCode::LIST_WATCHERS)]);
    let list = WatcherList::from_bytes(&list.ops[0].item.payload).expect("a list");
    let listed: Vec<_> = list.watchers.iter().map(|w| (w.name.num, w.cookie, w.timeout_s)).collect();
    assert_eq!(listed, [(4, 7, 30), (4, 8, 5)]);
    b.asker = asker(5);
    assert_eq!(b.run(vec![watch_as(watch_op::UNWATCH, 7, 0)]).effects, [], "of another client");
    b.asker = asker(4);
    let ended = b.run(vec![watch_as(watch_op::UNWATCH, 7, 0)]);
    assert!(ended.is_change());
    assert_eq!(ended.effects, [Effect::Disconnect { watch: name(4, 7), tell: false }]);
    assert!(!b.run(vec![watch_as(watch_op::UNWATCH, 7, 0)]).is_change());
    assert_eq!(b.run(vec![watch_as(watch::EXPIRE, 8, 0)]).effects, [], "not for clients");
    let removed = b.run(vec![OsdOpItem::new(OpCode::DELETE)]);
    assert_eq!(removed.effects, [Effect::Disconnect { watch: name(4, 8), tell: true }]);
    b.run(vec![OsdOpItem::new(OpCode::CREATE)]);
    assert_eq!(b.state().info.watchers, None, "another object of that name is not watched");
}

#[test]
fn a_failed_compound_watches_nothing_and_watchers_are_bounded() {
    let mut b = Bench::new();
    let excl = OsdOpItem::new(OpCode::CREATE).with_flags(OpFlags::EXCL);
    b.run(vec![excl.clone()]);
    let outcome = b.run(vec![watch_as(watch_op::WATCH, 7, 0), excl]);
    assert_eq!((outcome.result, &outcome.effects[..]), (Errno::EEXIST.code(), &[][..]));
    assert_eq!(b.state().info.watchers, None);
    for cookie in 0..WATCHERS_MAX as u64 {
        assert_eq!(b.run(vec![watch_as(watch_op::WATCH, cookie, 0)]).result, 0);
    }
    assert_eq!(b.run(vec![watch_as(watch_op::WATCH, u64::MAX, 0)]).result, Errno::ENOSPC.code());
    assert_eq!(b.run(vec![watch_as(watch_op::WATCH, 3, 0)]).result, 0, "one that is there already");
}

#[test]
fn notifications_are_numbered_and_answers_are_passed_on() {
    let mut b = Bench::new();
    let notify = |timeout_s| {
        let payload = NotifyRequest { protocol: 1, timeout_s, payload: Bytes::from_static(b"hi") }.to_bytes();
        OsdOpItem::new(OpCode::NOTIFY).with_params(OpParams::Notify { cookie: 9 }).with_payload(payload)
    };
    assert_eq!(b.run(vec![notify(0)]).result, Errno::ENOENT.code());
    b.run(vec![OsdOpItem::new(OpCode::CREATE)]);
    let outcome = b.run(vec![notify(0), notify(3)]);
    let first = 0x5_0000_0000u64;
    let sent = |id, timeout_s| Effect::Notify { id, cookie: 9, timeout_s, payload: Bytes::from_static(b"hi") };
    assert_eq!(outcome.effects, [sent(first, 30), sent(first + 1, 3)]);
    assert_eq!(outcome.ops[0].item.payload, first.to_bytes());
    assert_eq!(outcome.ops[1].item.payload, (first + 1).to_bytes());
    let ack = OsdOpItem::new(OpCode::NOTIFY_ACK).with_params(OpParams::Notify { cookie: 11 });
    let payload = NotifyAck { notify_id: first, cookie: 7, payload: Bytes::from_static(b"yes") }.to_bytes();
    let acked = b.run(vec![ack.clone().with_payload(payload)]);
    let said = Bytes::from_static(b"yes");
    assert_eq!(acked.effects, [Effect::Ack { id: first, cookie: Some(7), payload: said }]);
    let old = b.run(vec![ack]);
    assert_eq!(old.effects, [Effect::Ack { id: 11, cookie: None, payload: Bytes::new() }]);
}
