//! The names of collections and objects, and the order in which a collection lists its objects.
//!
//! Objects are ordered as Ceph orders them inside a PG (v16.2 `src/common/hobject.h`, `cmp(hobject_t, hobject_t)`):
//! by the bits of the placement hash in reverse, so that the objects of a PG stay neighbours when it splits, then by
//! namespace, locator key or name, name, snapshot.
//!
//! Invariant: a locator key equal to the name is stored as no key, so that one object has one name.

use base::{PgId, SnapId};
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// A collection: a PG's objects, or the OSD's own records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CollectionId {
    /// The OSD's own records: superblock, maps.
    Meta,
    /// A placement group.
    Pg(PgId),
}

impl Encode for CollectionId {
    fn encode(&self, e: &mut Encoder) {
        match self {
            CollectionId::Meta => e.u8(0),
            CollectionId::Pg(pg) => {
                e.u8(1);
                e.put(pg);
            }
        }
    }
}

impl Decode for CollectionId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.u8()? {
            0 => Ok(CollectionId::Meta),
            1 => Ok(CollectionId::Pg(d.get()?)),
            _ => Err(Malformed::new("collection id", "has an unknown kind")),
        }
    }
}

/// The `snap` of a copy under construction that will take the head's place. Never listed to clients.
pub const STAGED: SnapId = SnapId(u64::MAX - 16);

/// What is added to a clone's `snap` for a copy under construction that will take its place. Clients' snapshots stay
/// below.
const STAGED_CLONE: u64 = 1 << 63;

/// The `snap` of a record of the OSD about its collection. Never listed to clients.
pub const RECORD: SnapId = SnapId(u64::MAX - 17);

/// An object inside a collection. Cloning shares the name.
#[derive(Clone)]
pub struct ObjectId {
    reversed_hash: u32,
    namespace_len: u16,
    key_len: u16,
    snap: SnapId,
    /// Namespace, key and name, one after the other.
    text: Arc<[u8]>,
}

impl ObjectId {
    /// The object `name` in `namespace`, placed by `hash` (and by `key` where that is not empty).
    ///
    /// Names longer than 65,535 bytes are cut off by nobody: callers check their limits (2,048 for Ceph) first.
    pub fn new(hash: u32, namespace: &[u8], key: &[u8], name: &[u8], snap: SnapId) -> ObjectId {
        let key = if key == name { &[][..] } else { key };
        let text: Arc<[u8]> =
            if namespace.is_empty() && key.is_empty() { name.into() } else { [namespace, key, name].concat().into() };
        ObjectId {
            reversed_hash: hash.reverse_bits(),
            namespace_len: u16::try_from(namespace.len()).expect("callers bound namespaces"),
            key_len: u16::try_from(key.len()).expect("callers bound locator keys"),
            snap,
            text,
        }
    }

    /// A record of the OSD in a collection.
    pub fn record(name: &str) -> ObjectId {
        ObjectId::new(0, b"", b"", name.as_bytes(), RECORD)
    }

    /// The same object in another of its lives.
    pub fn with_snap(&self, snap: SnapId) -> ObjectId {
        ObjectId { snap, ..self.clone() }
    }

    /// The placement hash.
    pub fn hash(&self) -> u32 {
        self.reversed_hash.reverse_bits()
    }

    /// The placement hash with its bits in reverse: the first criterion of the order.
    pub fn reversed_hash(&self) -> u32 {
        self.reversed_hash
    }

    /// The namespace; empty for the default one.
    pub fn namespace(&self) -> &[u8] {
        &self.text[..usize::from(self.namespace_len)]
    }

    /// The locator key; empty where the name places the object.
    pub fn key(&self) -> &[u8] {
        let start = usize::from(self.namespace_len);
        &self.text[start..start + usize::from(self.key_len)]
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.text[usize::from(self.namespace_len) + usize::from(self.key_len)..]
    }

    /// Which of the object's lives.
    pub fn snap(&self) -> SnapId {
        self.snap
    }

    /// The copy under construction that will take its place.
    pub fn staged(&self) -> ObjectId {
        self.with_snap(if self.snap == SnapId::HEAD { STAGED } else { SnapId(self.snap.0 | STAGED_CLONE) })
    }

    /// Whether clients may see it: not a record or a copy under construction.
    pub fn is_clients(&self) -> bool {
        self.snap == SnapId::HEAD || self.snap.0 < STAGED_CLONE
    }

    fn effective_key(&self) -> &[u8] {
        if self.key_len == 0 { self.name() } else { self.key() }
    }
}

impl PartialEq for ObjectId {
    fn eq(&self, other: &Self) -> bool {
        self.reversed_hash == other.reversed_hash
            && self.snap == other.snap
            && self.namespace_len == other.namespace_len
            && self.key_len == other.key_len
            && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

impl Eq for ObjectId {}

impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.reversed_hash.cmp(&other.reversed_hash).then_with(|| {
            if Arc::ptr_eq(&self.text, &other.text)
                && self.namespace_len == other.namespace_len
                && self.key_len == other.key_len
            {
                return self.snap.cmp(&other.snap);
            }
            (self.namespace(), self.effective_key(), self.name(), self.snap).cmp(&(
                other.namespace(),
                other.effective_key(),
                other.name(),
                other.snap,
            ))
        })
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.reversed_hash);
        state.write_u64(self.snap.0);
        state.write(&self.text);
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        write!(f, "{:08x}:{}:{}:{}", self.reversed_hash, text(self.namespace()), text(self.key()), text(self.name()))?;
        match self.snap {
            SnapId::HEAD => f.write_str(":head"),
            STAGED => f.write_str(":staged"),
            RECORD => f.write_str(":record"),
            SnapId(snap) => write!(f, ":{snap:x}"),
        }
    }
}

/// Ours: hash u32, snap u64, then namespace, key and name with u16 lengths.
impl Encode for ObjectId {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.hash());
        e.u64(self.snap.0);
        e.u16(self.namespace_len);
        e.u16(self.key_len);
        e.len(self.text.len());
        e.raw(&self.text);
    }
}

impl Decode for ObjectId {
    const MIN_BYTES: usize = 20;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (hash, snap) = (d.u32()?, SnapId(d.u64()?));
        let (namespace_len, key_len) = (d.u16()?, d.u16()?);
        let text = d.slice()?;
        if usize::from(namespace_len) + usize::from(key_len) > text.len() {
            return Err(Malformed::new("object id", "has lengths beyond its text"));
        }
        let id = ObjectId { reversed_hash: hash.reverse_bits(), namespace_len, key_len, snap, text: text.into() };
        if key_len > 0 && id.key() == id.name() {
            return Err(Malformed::new("object id", "names its locator key twice"));
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(hash: u32, namespace: &str, key: &str, name: &str) -> ObjectId {
        ObjectId::new(hash, namespace.as_bytes(), key.as_bytes(), name.as_bytes(), SnapId::HEAD)
    }

    #[test]
    fn the_order_is_by_reversed_hash_then_namespace_key_name_snap() {
        let ordered = [
            id(0, "", "", "z"),
            id(0x8000_0000, "", "", "a"),
            id(0x4000_0000, "", "", "b"),
            id(1, "", "", "b"),
            id(1, "", "a", "x").with_snap(SnapId(4)),
            id(1, "n", "", "a"),
            id(1, "n", "a", "b").with_snap(SnapId(3)),
            id(1, "n", "a", "b"),
        ];
        let mut sorted = ordered.to_vec();
        sorted.sort();
        // "b" without a key is placed by its name, so it follows the object with the key "a".
        let expected = [0, 1, 2, 4, 3, 5, 6, 7].map(|i: usize| ordered[i].clone());
        assert_eq!(sorted, expected);
    }

    #[test]
    fn copies_under_construction_have_names_of_their_own() {
        let head = id(7, "", "", "a");
        let clone = head.with_snap(SnapId(3));
        let staged = [head.staged(), clone.staged(), head.with_snap(SnapId(4)).staged()];
        assert!(staged.iter().all(|id| !id.is_clients()) && !ObjectId::record("r").is_clients());
        assert!(head.is_clients() && clone.is_clients());
        assert!(staged[0] != staged[1] && staged[1] != staged[2]);
    }

    #[test]
    fn a_key_equal_to_the_name_is_no_key() {
        assert_eq!(id(7, "", "a", "a"), id(7, "", "", "a"));
    }

    #[test]
    fn encodings_round_trip_and_lying_lengths_are_refused() {
        let object = id(0xdead_beef, "space", "key", "name");
        assert_eq!(ObjectId::from_bytes(&object.to_bytes()), Ok(object.clone()));
        let mut bytes = object.to_bytes().to_vec();
        bytes[12] = 200;
        assert!(ObjectId::from_bytes(&bytes.into()).is_err());
    }
}
