//! The keys of the metadata tree: bytes whose order is the order of what they name.
//!
//! Owns their encoding and the reading of it back. A key begins with its kind; objects of a collection sort exactly as
//! `ObjectId` does, so that listings are scans. Text is escaped (a zero byte becomes 0, 1) and ended by 0, 0.
//!
//! Invariant: for two objects of a collection, the order of their keys is the order of their ids.

use crate::extent::state::collection::Stretch;
use crate::extent::tree::key::Key;
use crate::hash_range::HashRange;
use crate::id::{CollectionId, ObjectId};
use base::{PgId, PoolId, SnapId};
use wire::Malformed;

/// A collection: its id to its number.
pub(crate) const COLLECTION: u8 = 1;
/// An object, by its collection's number and its name.
pub(crate) const OBJECT: u8 = 2;
/// An entry of an object's map, by the object's number.
pub(crate) const OMAP: u8 = 3;
/// A run of blocks that several objects share.
pub(crate) const SHARED: u8 = 4;
/// What a removed collection had, where objects are still there.
pub(crate) const TRASH: u8 = 5;

/// Numbers a collection for good: one that is removed and made again gets another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct CollectionNumber(pub(crate) u64);

/// Numbers an object for good, through renames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct ObjectNumber(pub(crate) u64);

pub(crate) fn collection(id: CollectionId) -> Key {
    let mut key = vec![COLLECTION];
    match id {
        CollectionId::Meta => key.push(0),
        CollectionId::Pg(pg) => {
            key.push(1);
            // The sign turned over, so that bytes sort as numbers do.
            key.extend_from_slice(&((pg.pool.0 as u64) ^ 1 << 63).to_be_bytes());
            key.extend_from_slice(&pg.seed.to_be_bytes());
        }
    }
    key.into()
}

pub(crate) fn read_collection(key: &[u8]) -> Result<CollectionId, Malformed> {
    match (key.first_chunk::<2>(), key.len()) {
        (Some([COLLECTION, 0]), 2) => Ok(CollectionId::Meta),
        (Some([COLLECTION, 1]), 14) => {
            let pool = u64::from_be_bytes(key[2..10].try_into().expect("eight bytes")) ^ 1 << 63;
            let seed = u32::from_be_bytes(key[10..14].try_into().expect("four bytes"));
            Ok(CollectionId::Pg(PgId { pool: PoolId(pool as i64), seed }))
        }
        _ => Err(Malformed::new("collection key", "is none")),
    }
}

fn numbered(kind: u8, number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(96);
    key.push(kind);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number in a key of a kind that begins with one.
pub(crate) fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?))
}

fn push_text(key: &mut Vec<u8>, text: &[u8]) {
    // Zero bytes are rare.
    for (at, part) in text.split(|byte| *byte == 0).enumerate() {
        if at > 0 {
            key.extend_from_slice(&[0, 1]);
        }
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&[0, 0]);
}

/// The first key that no object of the stretch is before.
pub(crate) fn objects(stretch: &Stretch) -> Key {
    objects_from(stretch.number, stretch.range.first())
}

fn objects_from(number: CollectionNumber, reversed_hash: u32) -> Key {
    let mut key = numbered(OBJECT, number.0);
    key.extend_from_slice(&reversed_hash.to_be_bytes());
    key.into()
}

/// The first key after all objects of the stretch.
pub(crate) fn objects_end(stretch: &Stretch) -> Key {
    match stretch.range.last().checked_add(1) {
        Some(next) => objects_from(stretch.number, next),
        None => numbered(OBJECT, stretch.number.0 + 1).into(),
    }
}

pub(crate) fn object(collection: CollectionNumber, id: &ObjectId) -> Key {
    // Without zero bytes in the texts it is exactly that long, and need not be moved to get a length of its own.
    let texts = id.namespace().len() + 2 + id.name().len() + 2;
    let keyed = if id.key().is_empty() { 0 } else { id.key().len() + 2 };
    let mut key = Vec::with_capacity(9 + 4 + texts + keyed + 1 + 8);
    key.push(OBJECT);
    key.extend_from_slice(&collection.0.to_be_bytes());
    key.extend_from_slice(&id.reversed_hash().to_be_bytes());
    push_text(&mut key, id.namespace());
    if id.key().is_empty() {
        push_text(&mut key, id.name());
        key.push(1);
    } else {
        // Before or after the object whose name is this key, as the names compare.
        push_text(&mut key, id.key());
        key.push(if id.name() < id.key() { 0 } else { 2 });
        push_text(&mut key, id.name());
    }
    key.extend_from_slice(&id.snap().0.to_be_bytes());
    key.into()
}

fn take_text<'a>(key: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = key;
    loop {
        match rest {
            [0, 0, tail @ ..] => return Some(tail),
            [0, 1, tail @ ..] => {
                text.push(0);
                rest = tail;
            }
            [0, ..] | [] => return None,
            [byte, tail @ ..] => {
                text.push(*byte);
                rest = tail;
            }
        }
    }
}

pub(crate) fn read_object(key: &[u8]) -> Result<ObjectId, Malformed> {
    let parse = || {
        let hash = u32::from_be_bytes(key.get(9..13)?.try_into().ok()?).reverse_bits();
        let (mut namespace, mut locator, mut name) = (Vec::new(), Vec::new(), Vec::new());
        let rest = take_text(key.get(13..)?, &mut namespace)?;
        let rest = take_text(rest, &mut locator)?;
        let rest = match rest.split_first()? {
            (1, rest) => {
                core::mem::swap(&mut locator, &mut name);
                rest
            }
            (0 | 2, rest) => take_text(rest, &mut name)?,
            _ => return None,
        };
        let snap = SnapId(u64::from_be_bytes(rest.try_into().ok()?));
        let bounded = namespace.len() <= usize::from(u16::MAX) && locator.len() <= usize::from(u16::MAX);
        bounded.then(|| ObjectId::new(hash, &namespace, &locator, &name, snap))
    };
    parse().ok_or(Malformed::new("object key", "does not read as one"))
}

/// The key before all entries of an object's map.
pub(crate) fn omap(object: ObjectNumber) -> Key {
    numbered(OMAP, object.0).into()
}

/// The first key after all entries of an object's map.
pub(crate) fn omap_end(object: ObjectNumber) -> Key {
    numbered(OMAP, object.0 + 1).into()
}

pub(crate) fn omap_entry(object: ObjectNumber, entry: &[u8]) -> Key {
    let mut key = Vec::with_capacity(9 + entry.len());
    key.push(OMAP);
    key.extend_from_slice(&object.0.to_be_bytes());
    key.extend_from_slice(entry);
    key.into()
}

/// The client's part of an entry's key.
pub(crate) fn read_omap_entry(key: &[u8]) -> &[u8] {
    key.get(9..).unwrap_or_default()
}

pub(crate) fn shared(block: u64) -> Key {
    numbered(SHARED, block).into()
}

pub(crate) fn trash(stretch: &Stretch) -> Key {
    let mut key = numbered(TRASH, stretch.number.0);
    if stretch.range != HashRange::ALL {
        key.extend_from_slice(&stretch.range.first().to_be_bytes());
        key.extend_from_slice(&stretch.range.last().to_be_bytes());
    }
    key.into()
}

pub(crate) fn read_trash(key: &[u8]) -> Result<Stretch, Malformed> {
    let parse = || {
        let number = CollectionNumber(number(key)?);
        let word = |at: usize| Some(u32::from_be_bytes(key.get(at..at + 4)?.try_into().ok()?));
        match key.len() {
            9 => Some(Stretch { number, range: HashRange::ALL }),
            17 => Some(Stretch { number, range: HashRange::new(word(9)?, word(13)?)? }),
            _ => None,
        }
    };
    parse().ok_or(Malformed::new("removed collection", "has no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), Just(b'a'), Just(255)], 0..4)
    }

    fn id() -> impl Strategy<Value = ObjectId> {
        (0u32..3, text(), text(), text(), 0u64..3).prop_map(|(hash, namespace, key, name, snap)| {
            ObjectId::new(hash << 30, &namespace, &key, &name, SnapId(u64::MAX - snap))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn keys_sort_as_objects_do_and_read_back(a in id(), b in id()) {
            let number = CollectionNumber(7);
            let (ka, kb) = (object(number, &a), object(number, &b));
            prop_assert_eq!(ka.cmp(&kb), a.cmp(&b), "{:?} {:?}", a, b);
            prop_assert_eq!(read_object(&ka), Ok(a.clone()));
            let stretch = Stretch { number, range: HashRange::ALL };
            prop_assert!(objects(&stretch) < ka && ka < objects_end(&stretch));
            let (first, second) = (a.reversed_hash(), b.reversed_hash());
            if let Some(range) = HashRange::new(first, second) {
                let stretch = Stretch { number, range };
                prop_assert!(objects(&stretch) < ka && ka < objects_end(&stretch));
                prop_assert!(first == 0 || object(number, &ObjectId::new(0, b"", b"", b"z", SnapId::HEAD)) < objects(&stretch));
                prop_assert_eq!(read_trash(&trash(&stretch)), Ok(stretch));
            }
        }
    }

    #[test]
    fn collections_sort_and_read_back_and_broken_keys_are_refused() {
        let pg = |pool, seed| CollectionId::Pg(PgId::new(PoolId(pool), seed));
        let ids = [CollectionId::Meta, pg(-1, 5), pg(1, 2), pg(1, 3), pg(256, 0)];
        let keys = ids.map(collection);
        assert!(keys.is_sorted());
        assert_eq!(keys.map(|key| read_collection(&key).expect("ours")), ids);
        assert!(read_collection(&[COLLECTION, 1, 0]).is_err());
        let key = object(CollectionNumber(1), &ObjectId::new(9, b"n", b"k", b"name", SnapId::HEAD));
        (0..key.len()).for_each(|cut| assert!(read_object(&key[..cut]).is_err(), "{cut}"));
    }
}
