//! Random transactions against a model so simple that it is right by inspection: a vector of bytes per object.

use base::{PgId, PoolId};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{
    AttrsWant, CollectionId, Extent, MemoryStore, ObjectId, ObjectWant, OmapWant, Op, ReadRequest, ReadResult,
    ReadWhat, SnapId, Transaction,
};
use wire::{Decoder, Encoder};

const PG: CollectionId = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 });
const OBJECTS: u16 = 4;

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    data: Vec<u8>,
    attrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
    header: Bytes,
}

fn id(index: u16) -> ObjectId {
    ObjectId::new(u32::from(index) * 0x1357_9bdf, b"", b"", &[b'a' + index as u8], SnapId::HEAD)
}

fn key() -> impl Strategy<Value = Bytes> {
    (0u8..20).prop_map(|k| Bytes::from(vec![b'k', k]))
}

fn op() -> impl Strategy<Value = Op> {
    // Offsets around the ends of blocks, where mistakes live.
    let offset = || prop_oneof![0u64..100, 65_000u64..66_100, 131_000u64..131_200];
    let len = || prop_oneof![0usize..50, 4096usize..4097, 60_000usize..140_000];
    prop_oneof![
        Just(Op::Touch),
        (offset(), len(), any::<u8>()).prop_map(|(o, l, b)| Op::Write(o, Bytes::from(vec![b; l]))),
        (offset(), len(), any::<u8>()).prop_map(|(o, l, b)| Op::Write(o, Bytes::from(vec![b; l]))),
        (offset(), len()).prop_map(|(o, l)| Op::Zero(o, l as u64)),
        offset().prop_map(Op::Truncate),
        Just(Op::Remove),
        (key(), key()).prop_map(|(k, v)| Op::SetAttr(k, v)),
        key().prop_map(Op::RemoveAttr),
        Just(Op::ClearAttrs),
        proptest::collection::vec((key(), key()), 0..5).prop_map(Op::OmapSet),
        proptest::collection::vec(key(), 0..5).prop_map(Op::OmapRemove),
        (key(), key()).prop_map(|(a, b)| Op::OmapRemoveRange(a, b)),
        Just(Op::OmapClear),
        key().prop_map(Op::OmapHeader),
        (0..OBJECTS).prop_map(Op::CloneTo),
        (0..OBJECTS).prop_map(Op::RenameTo),
    ]
}

fn model_apply(model: &mut BTreeMap<u16, Model>, at: u16, op: &Op) {
    let grow = |m: &mut Model, end: usize| m.data.resize(m.data.len().max(end), 0);
    match op {
        Op::Remove => {
            model.remove(&at);
        }
        Op::CloneTo(to) => {
            let copy = model.entry(at).or_default().clone();
            model.insert(*to, copy);
        }
        Op::RenameTo(to) => {
            let object = model.remove(&at).unwrap_or_default();
            model.insert(*to, object);
        }
        Op::RemoveAttr(_) | Op::ClearAttrs | Op::OmapRemove(_) | Op::OmapRemoveRange(..) | Op::OmapClear => {
            let Some(m) = model.get_mut(&at) else { return };
            match op {
                Op::RemoveAttr(name) => drop(m.attrs.remove(name)),
                Op::ClearAttrs => m.attrs.clear(),
                Op::OmapRemove(keys) => keys.iter().for_each(|k| drop(m.omap.remove(k))),
                Op::OmapRemoveRange(a, b) => m.omap.retain(|k, _| k < a || k >= b),
                _ => (m.omap, m.header) = Default::default(),
            }
        }
        _ => {
            let m = model.entry(at).or_default();
            match op {
                Op::Write(offset, data) => {
                    let end = *offset as usize + data.len();
                    // An empty write beyond the end extends the object.
                    grow(m, end);
                    m.data[*offset as usize..end].copy_from_slice(data);
                }
                Op::Zero(offset, len) => {
                    let end = (*offset + *len) as usize;
                    grow(m, end);
                    m.data[*offset as usize..end].fill(0);
                }
                Op::Truncate(size) => m.data.resize(*size as usize, 0),
                Op::SetAttr(name, value) => drop(m.attrs.insert(name.clone(), value.clone())),
                Op::OmapSet(entries) => m.omap.extend(entries.iter().cloned()),
                Op::OmapHeader(header) => m.header = header.clone(),
                _ => {}
            }
        }
    }
}

fn view(store: &MemoryStore, index: u16, extents: &[(u64, u64)]) -> (Option<Model>, Vec<Bytes>, Vec<Extent>) {
    let whole = Extent { offset: 0, len: u64::MAX };
    let mut data = vec![whole];
    data.extend(extents.iter().map(|&(offset, len)| Extent { offset, len }));
    let everything =
        OmapWant::Range { after: Bytes::new(), prefix: Bytes::new(), entries: 999, bytes: 99_999, values: true };
    let want = ObjectWant {
        attrs: AttrsWant::All,
        data,
        allocated: vec![whole],
        omap_header: true,
        omap: vec![everything],
        uncached: false,
    };
    let request = ReadRequest { collection: PG, what: ReadWhat::Object(id(index), want) };
    let Ok(ReadResult::Object(v)) = store.read(&request) else { panic!("the collection exists") };
    let model = v.exists.then(|| {
        assert_eq!(v.size, v.data[0].len() as u64);
        Model {
            data: v.data[0].to_vec(),
            attrs: v.attrs.iter().cloned().collect(),
            omap: v.omap[0].entries.iter().cloned().collect(),
            header: v.omap_header.clone(),
        }
    });
    (model, v.data[1..].to_vec(), v.allocated[0].clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_store_does_what_the_model_does(
        steps in proptest::collection::vec(proptest::collection::vec((0..OBJECTS, op()), 1..6), 1..12),
        extents in proptest::collection::vec((0u64..200_000, 0u64..100_000), 3),
    ) {
        let mut store = MemoryStore::new();
        store.commit(&Transaction::create(PG)).expect("new");
        let mut model = BTreeMap::new();
        for ops in steps {
            let mut t = Transaction::new(PG);
            t.objects = (0..OBJECTS).map(id).collect();
            for (at, op) in ops {
                model_apply(&mut model, at, &op);
                t.ops.push((at, op));
            }
            // Through the format that replicas read, every time.
            let mut e = Encoder::new();
            let payload = t.encode_with_payload(&mut e);
            let bytes = e.finish();
            let decoded = Transaction::decode_with_payload(&mut Decoder::shared(&bytes), &payload);
            prop_assert_eq!(decoded.as_ref(), Ok(&t));
            store.commit(&t).expect("valid");
        }
        let again = MemoryStore::from_records(store.records()).expect("just dumped");
        for index in 0..OBJECTS {
            let (seen, parts, allocated) = view(&store, index, &extents);
            prop_assert_eq!(seen.as_ref(), model.get(&index));
            let data = seen.as_ref().map_or(&[][..], |m| &m.data);
            for (part, (offset, len)) in parts.iter().zip(&extents) {
                let start = (*offset as usize).min(data.len());
                let end = ((offset + len) as usize).min(data.len());
                prop_assert_eq!(part.as_ref(), &data[start..end]);
            }
            let mut outside = data.to_vec();
            for e in allocated {
                outside[e.offset as usize..(e.offset + e.len) as usize].fill(0);
            }
            prop_assert!(outside.iter().all(|&b| b == 0), "what is not allocated reads as zeros");
            prop_assert_eq!(view(&again, index, &[]).0, seen);
        }
    }
}
