//! The checks of splits and merges.

use super::{Driver, PG, bytes};
use crate::contract::{CommitId, Completion, ReadId, StoreError};
use crate::hash_range::HashRange;
use crate::id::{CollectionId, ObjectId};
use crate::read::{AttrsWant, Extent, ListWant, ObjectView, ObjectWant, OmapWant, ReadRequest, ReadResult, ReadWhat};
use crate::transaction::{Op, Part, Transaction};
use base::{Instant, PgId, PoolId, SnapId};
use bytes::Bytes;

const CHILD: CollectionId = CollectionId::Pg(PgId { pool: PoolId(1), seed: 7 });

fn object(hash: u32, snap: SnapId) -> ObjectId {
    ObjectId::new(hash, b"", b"", format!("{hash:x}").as_bytes(), snap)
}

fn fill(d: &mut Driver<'_>) {
    d.commit(Transaction::create(PG)).expect("new");
    for hash in 0..64 {
        for snap in [SnapId(4), SnapId::HEAD] {
            let mut t = Transaction::new(PG);
            let id = object(hash, snap);
            t.push(&id, Op::Write(5, Bytes::from(vec![hash as u8; 5000])));
            t.push(&id, Op::SetAttr(bytes("n"), bytes("v")));
            t.push(&id, Op::OmapSet(vec![(bytes("k"), Bytes::from(vec![hash as u8]))]));
            d.commit(t).expect("valid");
        }
    }
    let mut t = Transaction::new(PG);
    t.push(&ObjectId::record("log"), Op::OmapSet(vec![(bytes("entry"), bytes("old"))]));
    d.commit(t).expect("valid");
}

fn split(range: HashRange) -> Transaction {
    let mut t = Transaction::new(PG);
    let mut child = Transaction::create(CHILD);
    child.push(&ObjectId::record("log"), Op::OmapSet(vec![(bytes("entry"), bytes("child's"))]));
    t.parts.push(Part::Split { range, child });
    t.push(&ObjectId::record("log"), Op::OmapSet(vec![(bytes("entry"), bytes("parent's"))]));
    t
}

fn listed(d: &mut Driver<'_>, collection: CollectionId) -> Vec<ObjectId> {
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let want = ListWant { from, max: 11, attr: None };
        let Ok(ReadResult::List { entries, next }) = d.ask(collection, ReadWhat::List(want)) else {
            panic!("a listing gives a list");
        };
        ids.extend(entries.into_iter().map(|entry| entry.id));
        from = next;
        if from.is_none() {
            return ids;
        }
    }
}

fn view(d: &mut Driver<'_>, collection: CollectionId, id: ObjectId) -> ObjectView {
    let all = OmapWant::Range { after: bytes(""), prefix: bytes(""), entries: 9, bytes: 99, values: true };
    let want = ObjectWant {
        attrs: AttrsWant::All,
        data: vec![Extent { offset: 0, len: u64::MAX }],
        omap: vec![all],
        ..ObjectWant::default()
    };
    match d.ask(collection, ReadWhat::Object(id, want)) {
        Ok(ReadResult::Object(view)) => *view,
        other => panic!("an object's read gives its view: {other:?}"),
    }
}

fn of(range: Option<HashRange>, inside: bool) -> Vec<ObjectId> {
    let within = |hash: u32| range.is_none_or(|range| range.contains(hash.reverse_bits()) == inside);
    let heads = (0..64).filter(|hash| within(*hash));
    let mut ids: Vec<_> = heads.flat_map(|hash| [SnapId(4), SnapId::HEAD].map(|snap| object(hash, snap))).collect();
    ids.push(ObjectId::record("log"));
    ids.sort();
    ids
}

fn entry(d: &mut Driver<'_>, collection: CollectionId) -> Bytes {
    view(d, collection, ObjectId::record("log")).omap[0].entries[0].1.clone()
}

pub(super) fn ranges_change_their_collection(d: &mut Driver<'_>) {
    fill(d);
    let range = HashRange::of_seed(7, 3);
    d.commit(split(range)).expect("valid");
    assert_eq!((listed(d, PG), listed(d, CHILD)), (of(Some(range), false), of(Some(range), true)));
    assert_eq!((entry(d, PG), entry(d, CHILD)), (bytes("parent's"), bytes("child's")));
    let moved = object(15, SnapId(4));
    let seen = view(d, CHILD, moved.clone());
    assert_eq!((seen.size, &seen.data[0][5..]), (5005, &[15; 5000][..]));
    assert_eq!((seen.attrs.len(), seen.omap[0].entries.len()), (1, 1), "attributes and maps come along");
    assert!(!view(d, PG, moved.clone()).exists);
    // What has its place in neither way is nobody else's.
    let mut t = Transaction::new(PG);
    t.push(&moved, Op::Write(0, bytes("the parent's own")));
    d.commit(t).expect("valid");
    assert_eq!(view(d, CHILD, moved.clone()).size, 5005, "the same name in another collection is another object");
    let mut t = Transaction::new(CHILD);
    t.push(&object(1, SnapId::HEAD), Op::Write(0, bytes("the child's own")));
    t.push(&object(23, SnapId::HEAD), Op::Remove);
    d.commit(t).expect("valid");
    assert_eq!(view(d, PG, object(1, SnapId::HEAD)).size, 5005);
    let mut t = Transaction::new(PG);
    t.parts.push(Part::Merge { range, source: CHILD });
    d.commit(t).expect("valid");
    assert_eq!(
        d.ask(CHILD, ReadWhat::List(ListWant { from: None, max: 1, attr: None })),
        Err(StoreError::NoCollection)
    );
    let mut all = of(None, true);
    all.retain(|id| *id != object(23, SnapId::HEAD));
    assert_eq!(listed(d, PG), all);
    assert_eq!(view(d, PG, moved).size, 5005, "the source's objects replace the target's");
    assert_eq!(view(d, PG, object(1, SnapId::HEAD)).size, 5005, "and its others go");
    assert_eq!(entry(d, PG), bytes("parent's"), "as do its records");
    d.commit(split(range)).expect("as before");
    d.commit(Transaction::remove(PG)).expect("valid");
    assert_eq!(listed(d, CHILD).len(), of(Some(range), true).len() - 1, "what was split off stays");
}

pub(super) fn bad_parts_change_nothing(d: &mut Driver<'_>) {
    fill(d);
    let range = HashRange::of_seed(7, 3);
    let bad = |change: &dyn Fn(&mut Transaction)| {
        let mut t = split(range);
        change(&mut t);
        t
    };
    let source = |t: &mut Transaction, source| t.parts.push(Part::Merge { range, source });
    let refused = [
        (split(HashRange::of_seed(0, 1)), StoreError::BadPart),
        (bad(&|t| t.parts.push(t.parts[0].clone())), StoreError::BadPart),
        (bad(&|t| source(t, PG)), StoreError::BadPart),
        (bad(&|t| source(t, CollectionId::Meta)), StoreError::NoCollection),
        (bad(&|t| t.ops.push((0, Op::Write(u64::MAX, bytes("x"))))), StoreError::TooLarge),
    ];
    for (t, error) in refused {
        assert_eq!(d.commit(t), Err(error));
        assert_eq!(listed(d, PG), of(None, true), "all or nothing");
    }
    d.commit(Transaction::create(CHILD)).expect("new");
    assert_eq!(d.commit(split(range)), Err(StoreError::CollectionExists));
}

pub(super) fn what_follows_a_split_waits_for_it(d: &mut Driver<'_>) {
    fill(d);
    let range = HashRange::of_seed(7, 3);
    let mut writes = Transaction::new(CHILD);
    writes.push(&object(7, SnapId::HEAD), Op::Truncate(1));
    let mut merge = Transaction::new(PG);
    merge.parts.push(Part::Merge { range, source: CHILD });
    for (id, t) in [split(range), writes, merge, split(range)].into_iter().enumerate() {
        d.store.submit_commit(Instant::ZERO, CommitId(1000 + id as u64), t);
    }
    let what = ReadWhat::Object(object(7, SnapId::HEAD), ObjectWant::default());
    d.store.submit_read(Instant::ZERO, ReadId(1), ReadRequest { collection: CHILD, what });
    let (mut committed, mut size) = (0, None);
    while let Some(completion) = d.store.poll_completion() {
        match completion {
            Completion::Committed(_, result) => {
                assert_eq!(result, Ok(()));
                committed += 1;
            }
            Completion::Read(_, Ok(ReadResult::Object(view))) => size = Some(view.size),
            other => panic!("an object's read gives its view: {other:?}"),
        }
    }
    assert_eq!((committed, size), (4, Some(1)));
}
