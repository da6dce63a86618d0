//! Random transactions, where mistakes live: around the ends of blocks, over copies, over what was just written.

use base::{PgId, PoolId, Rng};
use bytes::Bytes;
use store::{CollectionId, HashRange, ObjectId, Op, Part, SnapId, Transaction};

pub(crate) const COLLECTIONS: u64 = 3;
const OBJECTS: u64 = 6;

pub(crate) fn collection(index: u64) -> CollectionId {
    if index == 0 { CollectionId::Meta } else { CollectionId::Pg(PgId::new(PoolId(1), index as u32)) }
}

pub(crate) fn object(index: u64) -> ObjectId {
    ObjectId::new(
        (index as u32).wrapping_mul(0x1357_9bdf),
        b"",
        b"",
        format!("object {index}").as_bytes(),
        SnapId::HEAD,
    )
}

fn small(rng: &mut Rng) -> Bytes {
    let len = if rng.chance(1, 20) { 3000 } else { rng.below(30) };
    Bytes::from(vec![rng.below(256) as u8; len as usize])
}

fn key(rng: &mut Rng) -> Bytes {
    Bytes::from(format!("key {:02}", rng.below(40)))
}

fn offset(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => rng.below(200),
        1 => rng.below(20) * 4096,
        2 => 8192 - 50 + rng.below(100),
        _ => rng.below(300_000),
    }
}

fn data(rng: &mut Rng) -> Bytes {
    let len = match rng.below(8) {
        0 => 0,
        1 | 2 => rng.below(100),
        3 | 4 => 4096,
        5 => rng.below(20_000),
        6 => 16_384 + rng.below(3) * 4096,
        _ => rng.below(120_000),
    };
    let mut bytes = vec![0; len as usize];
    rng.fill(&mut bytes);
    bytes.into()
}

fn op(rng: &mut Rng) -> Op {
    match rng.below(22) {
        0 => Op::Touch,
        1..=8 => Op::Write(offset(rng), data(rng)),
        9 => Op::Zero(offset(rng), rng.below(50_000)),
        10 => Op::Truncate(offset(rng)),
        11 => Op::Remove,
        12 => Op::SetAttr(key(rng), small(rng)),
        13 => Op::RemoveAttr(key(rng)),
        14 => Op::ClearAttrs,
        // Now and then more than the log takes.
        15 if rng.chance(1, 8) => {
            let values: Vec<Bytes> = (0..12).map(|_| Bytes::from(vec![rng.below(256) as u8; 26_000])).collect();
            Op::OmapSet(values.into_iter().map(|value| (key(rng), value)).collect())
        }
        15..=17 => Op::OmapSet((0..rng.below(12)).map(|_| (key(rng), small(rng))).collect()),
        18 => Op::OmapRemove((0..rng.below(5)).map(|_| key(rng)).collect()),
        19 => {
            let (a, b) = (key(rng), key(rng));
            Op::OmapRemoveRange(a.clone().min(b.clone()), a.max(b))
        }
        20 if rng.chance(1, 4) => Op::OmapClear,
        20 => Op::OmapHeader(small(rng)),
        _ => Op::Touch,
    }
}

/// Lets the collection have another part: split off another, or merged with it, as that exists or not.
pub(crate) fn add_part(rng: &mut Rng, t: &mut Transaction, other: CollectionId, exists: bool) {
    let range = HashRange::of_seed(1 + 2 * rng.below(4) as u32, 1 + rng.below(3) as u32);
    if exists {
        return t.parts.push(Part::Merge { range, source: other });
    }
    let mut child = Transaction::create(other);
    for name in ["a record", "another"] {
        child.push(&ObjectId::record(name), Op::OmapSet(vec![(key(rng), small(rng))]));
        child.push(&ObjectId::record(name), Op::SetAttr(key(rng), small(rng)));
    }
    t.parts.push(Part::Split { range, child });
}

/// A transaction of a collection that exists, or not yet.
pub(crate) fn transaction(rng: &mut Rng, collection: CollectionId, exists: bool) -> Transaction {
    if exists && rng.chance(1, 150) {
        return Transaction::remove(collection);
    }
    let mut t = if exists { Transaction::new(collection) } else { Transaction::create(collection) };
    for _ in 0..rng.below(4) + u64::from(exists) {
        let target = object(rng.below(OBJECTS));
        match rng.below(16) {
            0 => t.clone_object(&target, &object(rng.below(OBJECTS))),
            1 => t.rename(&target, &object(rng.below(OBJECTS))),
            _ => t.push(&target, op(rng)),
        }
    }
    t
}
