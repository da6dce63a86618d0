//! What every store must do, as checks that any implementation can be run through.
//!
//! `run` panics with the name of the promise that was broken. The checks use only the contract, and wait for
//! completions by polling, so that a store that defers its work can be driven between polls by its `ObjectStore`.

mod splits;

use crate::contract::{AheadId, CommitId, Completion, ObjectStore, ReadId, StoreError};
use crate::id::{CollectionId, ObjectId};
use crate::limits::OBJECT_BYTES_MAX;
use crate::read::{AttrsWant, Extent, ListWant, ObjectView, ObjectWant, OmapWant, ReadRequest, ReadResult, ReadWhat};
use crate::transaction::{Op, Transaction};
use base::{Instant, PgId, PoolId, SnapId};
use bytes::Bytes;

/// Runs every check, each on a store that `make` makes.
pub fn run<S: ObjectStore>(make: impl Fn() -> S) {
    for check in [
        collections_come_and_go,
        data_is_sparse_and_overwritable,
        sizes_follow_writes_zeros_and_truncates,
        attributes_are_kept_by_name,
        maps_are_ordered_and_paged,
        copies_and_renames_take_everything,
        listings_are_ordered_and_resume,
        a_bad_transaction_changes_nothing,
        commits_of_a_collection_complete_in_order,
        data_given_ahead_is_what_its_transaction_brings,
        splits::ranges_change_their_collection,
        splits::bad_parts_change_nothing,
        splits::what_follows_a_split_waits_for_it,
    ] {
        check(&mut Driver { store: &mut make(), next: 0 });
    }
}

struct Driver<'a> {
    store: &'a mut dyn ObjectStore,
    next: u64,
}

impl Driver<'_> {
    fn commit(&mut self, transaction: Transaction) -> Result<(), StoreError> {
        self.next += 1;
        let id = CommitId(self.next);
        self.store.submit_commit(Instant::ZERO, id, transaction);
        match self.store.poll_completion() {
            Some(Completion::Committed(done, result)) if done == id => result,
            other => panic!("a commit completes with its own id: {other:?}"),
        }
    }

    fn apply(&mut self, object: &ObjectId, ops: impl IntoIterator<Item = Op>) {
        let mut t = Transaction::new(PG);
        ops.into_iter().for_each(|op| t.push(object, op));
        self.commit(t).expect("a valid transaction commits");
    }

    fn ask(&mut self, collection: CollectionId, what: ReadWhat) -> Result<ReadResult, StoreError> {
        self.next += 1;
        let id = ReadId(self.next);
        self.store.submit_read(Instant::ZERO, id, ReadRequest { collection, what });
        match self.store.poll_completion() {
            Some(Completion::Read(done, result)) if done == id => result,
            other => panic!("a read completes with its own id: {other:?}"),
        }
    }

    fn view(&mut self, object: &ObjectId, want: ObjectWant) -> ObjectView {
        match self.ask(PG, ReadWhat::Object(object.clone(), want)) {
            Ok(ReadResult::Object(view)) => *view,
            other => panic!("an object's read gives its view: {other:?}"),
        }
    }

    fn data(&mut self, object: &ObjectId, offset: u64, len: u64) -> Bytes {
        let mut view = self.view(object, ObjectWant { data: vec![Extent { offset, len }], ..Default::default() });
        view.data.pop().expect("a buffer per extent")
    }
}

const PG: CollectionId = CollectionId::Pg(PgId { pool: PoolId(1), seed: 3 });

fn object(name: &str) -> ObjectId {
    ObjectId::new(name.len() as u32 * 0x0101_0101, b"", b"", name.as_bytes(), SnapId::HEAD)
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn collections_come_and_go(d: &mut Driver<'_>) {
    assert_eq!(d.commit(Transaction::new(PG)), Err(StoreError::NoCollection), "a missing collection is refused");
    assert_eq!(d.commit(Transaction::create(PG)), Ok(()));
    assert_eq!(d.commit(Transaction::create(PG)), Err(StoreError::CollectionExists), "no second creation");
    assert_eq!(d.commit(Transaction::create(CollectionId::Meta)), Ok(()));
    let both = ReadResult::Collections(vec![CollectionId::Meta, PG]);
    assert_eq!(d.ask(PG, ReadWhat::Collections), Ok(both));
    d.apply(&object("a"), [Op::Touch]);
    assert_eq!(d.commit(Transaction::remove(PG)), Ok(()));
    let what = ReadWhat::Object(object("a"), ObjectWant::default());
    assert_eq!(d.ask(PG, what), Err(StoreError::NoCollection), "a removed collection is gone");
    assert_eq!(d.commit(Transaction::create(PG)), Ok(()));
    assert!(!d.view(&object("a"), ObjectWant::default()).exists, "a removed collection's objects are gone");
}

fn data_is_sparse_and_overwritable(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let o = object("data");
    d.apply(&o, [Op::Write(1 << 20, Bytes::from(vec![7; 5000]))]);
    d.apply(&o, [Op::Write((1 << 20) + 100, Bytes::from(vec![8; 10])), Op::Write(3, bytes("start"))]);
    assert_eq!(d.data(&o, 0, 10).as_ref(), b"\0\0\0start\0\0", "holes read as zeros");
    assert_eq!(d.data(&o, (1 << 20) + 98, 4).as_ref(), [7, 7, 8, 8], "an overwrite stays within its range");
    assert_eq!(d.data(&o, (1 << 20) + 4990, 100).len(), 10, "reads end where the object does");
    assert_eq!(d.data(&o, 1 << 30, 100).len(), 0, "reads beyond the end are empty");
    let want = ObjectWant { allocated: vec![Extent { offset: 0, len: u64::MAX }], ..Default::default() };
    let map = d.view(&o, want).allocated.remove(0);
    assert!(map.iter().any(|e| e.offset + e.len == (1 << 20) + 5000), "allocated parts reach the end: {map:?}");
    assert!(map.iter().map(|e| e.len).sum::<u64>() < 1 << 20, "the hole between is no allocated part: {map:?}");
}

fn sizes_follow_writes_zeros_and_truncates(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let o = object("size");
    let steps = [
        (Op::Touch, 0),
        (Op::Write(10, bytes("abcdef")), 16),
        (Op::Zero(12, 2), 16),
        (Op::Zero(100, 28), 128),
        (Op::Truncate(14), 14),
        (Op::Truncate(20), 20),
        (Op::Write(5, Bytes::new()), 20),
    ];
    for (op, size) in steps {
        d.apply(&o, [op.clone()]);
        assert_eq!(d.view(&o, ObjectWant::default()).size, size, "after {op:?}");
    }
    assert_eq!(d.data(&o, 10, 100).as_ref(), b"ab\0\0\0\0\0\0\0\0", "what was cut off stays gone");
    d.apply(&o, [Op::Remove, Op::Remove]);
    assert!(!d.view(&o, ObjectWant::default()).exists, "removal is idempotent");
    d.apply(&o, [Op::Remove, Op::Touch]);
    assert!(d.view(&o, ObjectWant::default()).exists, "ops of one transaction apply in order");
}

fn attributes_are_kept_by_name(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let o = object("attrs");
    d.apply(&o, [Op::RemoveAttr(bytes("a"))]);
    assert!(!d.view(&o, ObjectWant::default()).exists, "removing from a missing object creates nothing");
    d.apply(&o, ["b", "a", "c"].map(|n| Op::SetAttr(bytes(n), bytes("1"))));
    d.apply(&o, [Op::SetAttr(bytes("a"), bytes("2")), Op::RemoveAttr(bytes("b"))]);
    let all = d.view(&o, ObjectWant { attrs: AttrsWant::All, ..Default::default() }).attrs;
    assert_eq!(all, [(bytes("a"), bytes("2")), (bytes("c"), bytes("1"))], "ordered by name");
    let names = AttrsWant::Named(vec![bytes("c"), bytes("z")]);
    let named = d.view(&o, ObjectWant { attrs: names, ..Default::default() }).attrs;
    assert_eq!(named, [(bytes("c"), bytes("1"))], "missing names are left out");
    d.apply(&o, [Op::ClearAttrs]);
    let want = ObjectWant { attrs: AttrsWant::All, ..Default::default() };
    assert_eq!(d.view(&o, want).attrs, []);
}

fn maps_are_ordered_and_paged(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let o = object("omap");
    let entries: Vec<_> = (0..10).rev().map(|i| (bytes(&format!("k{i}")), bytes(&format!("v{i}")))).collect();
    d.apply(&o, [Op::OmapSet(entries), Op::OmapHeader(bytes("head"))]);
    let range = |after: &str, prefix: &str, entries: u64, max_bytes: u64, values: bool| OmapWant::Range {
        after: bytes(after),
        prefix: bytes(prefix),
        entries,
        bytes: max_bytes,
        values,
    };
    let mut ask = |want: OmapWant| {
        let view = d.view(&o, ObjectWant { omap: vec![want], omap_header: true, ..Default::default() });
        assert_eq!(view.omap_header, bytes("head"));
        let part = view.omap.into_iter().next().expect("a part per want");
        (part.entries.iter().map(|(k, _)| String::from_utf8_lossy(k).into_owned()).collect::<Vec<_>>(), part.more)
    };
    assert_eq!(ask(range("k6", "", 2, 99, true)), (vec!["k7".into(), "k8".into()], true), "after its start");
    assert_eq!(ask(range("", "k9", 5, 99, true)), (vec!["k9".into()], false), "a prefix ends the range");
    assert_eq!(ask(range("", "", 99, 8, true)), (vec!["k0".into(), "k1".into()], true), "bytes are bounded");
    assert_eq!(ask(range("", "", 99, 1, true)), (vec!["k0".into()], true), "one entry comes in any case");
    assert_eq!(ask(range("", "", 0, 99, false)), (vec![], true), "none asked, none given");
    assert_eq!(ask(OmapWant::Keys(vec![bytes("k3"), bytes("x")])), (vec!["k3".into()], false));
    d.apply(&o, [Op::OmapRemove(vec![bytes("k0"), bytes("x")]), Op::OmapRemoveRange(bytes("k3"), bytes("k8"))]);
    let want = ObjectWant { omap: vec![range("", "", 99, 99, false)], ..Default::default() };
    let left = d.view(&o, want.clone()).omap.remove(0).entries;
    let keys = ["k1", "k2", "k8", "k9"].map(|k| (bytes(k), Bytes::new()));
    assert_eq!(left, keys, "a removed range excludes its end");
    d.apply(&o, [Op::OmapClear]);
    let view = d.view(&o, ObjectWant { omap_header: true, ..want });
    assert_eq!((view.omap[0].entries.len(), view.omap_header.len()), (0, 0), "clearing takes the header along");
}

fn copies_and_renames_take_everything(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let (a, b, c) = (object("a"), object("bb"), object("ccc"));
    d.apply(&a, [Op::Write(0, bytes("one")), Op::SetAttr(bytes("n"), bytes("1"))]);
    d.apply(&a, [Op::OmapSet(vec![(bytes("k"), bytes("v"))])]);
    d.apply(&b, [Op::Write(0, bytes("longer than one")), Op::SetAttr(bytes("m"), bytes("1"))]);
    let mut t = Transaction::new(PG);
    t.clone_object(&a, &b);
    t.push(&a, Op::Write(0, bytes("two")));
    t.rename(&a, &c);
    d.commit(t).expect("valid");
    let all = ObjectWant {
        attrs: AttrsWant::All,
        data: vec![Extent { offset: 0, len: 99 }],
        omap: vec![OmapWant::Keys(vec![bytes("k")])],
        ..Default::default()
    };
    let (vb, vc) = (d.view(&b, all.clone()), d.view(&c, all));
    assert_eq!(vb.data, [bytes("one")], "a copy keeps what it was taken of");
    assert_eq!(vc.data, [bytes("two")]);
    assert_eq!((&vb.attrs, &vb.omap), (&vc.attrs, &vc.omap), "attributes and map come along");
    assert_eq!(vb.attrs, [(bytes("n"), bytes("1"))], "nothing of the replaced object stays");
    assert!(!d.view(&a, ObjectWant::default()).exists, "a renamed object is gone");
}

fn listings_are_ordered_and_resume(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let mut ids: Vec<ObjectId> = (0..100u32)
        .map(|i| ObjectId::new(i.wrapping_mul(0x9E37_79B9), b"", b"", format!("{i}").as_bytes(), SnapId::HEAD))
        .collect();
    for id in &ids {
        d.apply(id, [Op::SetAttr(bytes("n"), Bytes::copy_from_slice(id.name()))]);
    }
    ids.sort();
    let (mut listed, mut from) = (Vec::new(), None);
    loop {
        let want = ListWant { from, max: 7, attr: Some(bytes("n")) };
        let Ok(ReadResult::List { entries, next }) = d.ask(PG, ReadWhat::List(want)) else {
            panic!("a listing gives a list");
        };
        assert!(entries.len() <= 7, "no more than asked for");
        for entry in entries {
            assert_eq!(entry.attr.as_deref(), Some(entry.id.name()), "the attribute comes along");
            listed.push(entry.id);
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids);
}

fn a_bad_transaction_changes_nothing(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    for bad in [
        Op::Write(OBJECT_BYTES_MAX, bytes("x")),
        Op::Write(u64::MAX, bytes("x")),
        Op::Zero(u64::MAX, 2),
        Op::Truncate(OBJECT_BYTES_MAX + 1),
    ] {
        let mut t = Transaction::new(PG);
        t.push(&object("a"), Op::Write(0, bytes("x")));
        t.push(&object("b"), bad);
        assert_eq!(d.commit(t), Err(StoreError::TooLarge));
        assert!(!d.view(&object("a"), ObjectWant::default()).exists, "all or nothing");
    }
}

fn commits_of_a_collection_complete_in_order(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let o = object("order");
    for i in 0..10 {
        let mut t = Transaction::new(PG);
        t.push(&o, Op::Write(i, bytes("x")));
        d.store.submit_commit(Instant::ZERO, CommitId(1000 + i), t);
    }
    let what = ReadWhat::Object(o, ObjectWant::default());
    d.store.submit_read(Instant::ZERO, ReadId(1), ReadRequest { collection: PG, what });
    let mut commits = Vec::new();
    let mut size = None;
    while let Some(completion) = d.store.poll_completion() {
        match completion {
            Completion::Committed(id, result) => commits.push((id.0, result)),
            Completion::Read(_, Ok(ReadResult::Object(view))) => size = Some(view.size),
            other => panic!("an object's read gives its view: {other:?}"),
        }
    }
    assert_eq!(commits, (1000..1010).map(|i| (i, Ok(()))).collect::<Vec<_>>());
    assert_eq!(size, Some(10), "a read sees what was submitted before it");
}

fn data_given_ahead_is_what_its_transaction_brings(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    let o = object("ahead");
    for (number, (offset, len)) in [(0, 100), (0, 300_000), (4096, 200_000), (50, 150_000)].into_iter().enumerate() {
        let (kept, forgotten) = (AheadId(2 * number as u64), AheadId(2 * number as u64 + 1));
        let data = Bytes::from(vec![number as u8 + 1; len]);
        for id in [kept, forgotten] {
            d.store.submit_ahead(Instant::ZERO, id, offset, data.clone());
            assert_eq!(d.store.poll_completion(), Some(Completion::Ahead(id)));
        }
        assert_ne!(d.data(&o, offset, len as u64), data, "nothing is changed yet");
        d.store.forget_ahead(forgotten);
        let mut t = Transaction::new(PG);
        t.push_ahead(&o, Op::Write(offset, data.clone()), kept);
        assert_eq!(d.commit(t), Ok(()));
        assert_eq!(d.data(&o, offset, len as u64), data);
        let mut t = Transaction::new(PG);
        t.push_ahead(&o, Op::Write(offset, data.clone()), forgotten);
        assert_eq!(d.commit(t), Ok(()), "what is forgotten goes with its transaction");
        assert_eq!(d.data(&o, offset, len as u64), data);
    }
}
