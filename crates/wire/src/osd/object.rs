//! Objects as RADOS names and orders them: hobject, locator, snapshot context, shard of a placement group.
//!
//! Follows Ceph v16.2 `src/common/hobject.{h,cc}`, `src/osd/osd_types.{h,cc}` (`object_locator_t`, `spg_t`) and
//! `src/common/snap_types.h`. The order is the bitwise one, so that splitting a placement group keeps ranges whole.
//!
//! Read next: `op`.

use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use base::{PgId, PoolId, SnapId};
use bytes::Bytes;
use core::cmp::Ordering;
use core::fmt;

/// An object in its total order (`hobject_t`): what a placement group is a range of.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HObject {
    /// Placement key where it differs from the name; usually empty.
    pub key: Bytes,
    /// The name.
    pub name: Bytes,
    /// The snapshot, or `SnapId::HEAD`.
    pub snap: SnapId,
    /// The placement hash of key and namespace.
    pub hash: u32,
    /// Past every object.
    pub max: bool,
    /// The namespace; usually empty.
    pub nspace: Bytes,
    /// The pool; `i64::MIN` before every pool.
    pub pool: PoolId,
}

impl HObject {
    /// Before every object.
    pub const MIN: HObject = HObject {
        key: Bytes::new(),
        name: Bytes::new(),
        snap: SnapId(0),
        hash: 0,
        max: false,
        nspace: Bytes::new(),
        pool: PoolId(i64::MIN),
    };

    /// After every object.
    pub const MAX: HObject = HObject {
        key: Bytes::new(),
        name: Bytes::new(),
        snap: SnapId(0),
        hash: 0,
        max: true,
        nspace: Bytes::new(),
        pool: PoolId(i64::MIN),
    };

    /// The live object `name` at `hash`; a key that equals the name is dropped, as Ceph does.
    pub fn head(pool: PoolId, nspace: Bytes, key: Bytes, name: Bytes, hash: u32) -> HObject {
        let key = if key == name { Bytes::new() } else { key };
        HObject { key, name, snap: SnapId::HEAD, hash, max: false, nspace, pool }
    }

    /// The first place of a placement group's range: its hash, no name.
    pub fn pg_start(pool: PoolId, seed: u32) -> HObject {
        HObject { hash: seed, pool, ..HObject::MIN }
    }

    /// Whether this is the place before every object.
    pub fn is_min(&self) -> bool {
        *self == HObject::MIN
    }

    /// The hash with its bits in reverse: the first thing objects of a pool are ordered by.
    pub fn bitwise_key(&self) -> u32 {
        self.hash.reverse_bits()
    }

    /// What the placement hash is taken of: the key, or the name if there is none.
    pub fn effective_key(&self) -> &Bytes {
        if self.key.is_empty() { &self.name } else { &self.key }
    }

    /// A copy that shares no buffer with the message it came from, for keeping.
    pub fn detached(&self) -> HObject {
        HObject {
            key: Bytes::copy_from_slice(&self.key),
            name: Bytes::copy_from_slice(&self.name),
            nspace: Bytes::copy_from_slice(&self.nspace),
            ..*self
        }
    }
}

impl Default for HObject {
    fn default() -> HObject {
        HObject::MIN
    }
}

impl Ord for HObject {
    fn cmp(&self, other: &HObject) -> Ordering {
        if self.max || other.max {
            return self.max.cmp(&other.max);
        }
        self.pool
            .cmp(&other.pool)
            .then_with(|| self.bitwise_key().cmp(&other.bitwise_key()))
            .then_with(|| self.nspace.cmp(&other.nspace))
            .then_with(|| self.effective_key().cmp(other.effective_key()))
            .then_with(|| self.name.cmp(&other.name))
            .then_with(|| self.snap.cmp(&other.snap))
            // Not in Ceph's order, where a key that equals the name does not occur: keeps Ord and Eq of one mind.
            .then_with(|| self.key.cmp(&other.key))
            .then_with(|| self.hash.cmp(&other.hash))
    }
}

impl PartialOrd for HObject {
    fn partial_cmp(&self, other: &HObject) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max {
            return f.write_str("MAX");
        }
        if self.is_min() {
            return f.write_str("MIN");
        }
        let part = |bytes: &Bytes| bytes.escape_ascii().to_string().replace(':', "%3a");
        let (nspace, key, name) = (part(&self.nspace), part(&self.key), part(&self.name));
        write!(f, "{}:{:08x}:{nspace}:{key}:{name}:", self.pool, self.bitwise_key())?;
        match self.snap {
            SnapId::HEAD => f.write_str("head"),
            SnapId::DIR => f.write_str("snapdir"),
            SnapId(snap) => write!(f, "{snap:x}"),
        }
    }
}

impl fmt::Debug for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for HObject {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 3, |e| {
            e.blob(&self.key);
            e.blob(&self.name);
            e.put(&self.snap);
            e.u32(self.hash);
            e.bool(self.max);
            e.blob(&self.nspace);
            e.i64(self.pool.0);
        });
    }
}

impl Decode for HObject {
    const MIN_BYTES: usize = 39;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("hobject_t", 4, |d, version| {
            if version < 4 {
                return Err(Malformed::new("hobject_t", "is older than any supported peer's"));
            }
            Ok(HObject {
                key: d.blob()?,
                name: d.blob()?,
                snap: d.get()?,
                hash: d.u32()?,
                max: d.bool()?,
                nspace: d.blob()?,
                pool: PoolId(d.i64()?),
            })
        })
    }
}

/// How a client says where an object belongs (`object_locator_t`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectLocator {
    /// The pool.
    pub pool: PoolId,
    /// Placement key; empty for the name itself.
    pub key: Bytes,
    /// The namespace.
    pub nspace: Bytes,
    /// A fixed placement hash instead of a name's, as listings use; -1 for none.
    pub hash: i64,
}

impl ObjectLocator {
    /// The pool alone.
    pub fn new(pool: PoolId) -> ObjectLocator {
        ObjectLocator { pool, key: Bytes::new(), nspace: Bytes::new(), hash: -1 }
    }
}

impl Encode for ObjectLocator {
    fn encode(&self, e: &mut Encoder) {
        let compat = if self.hash == -1 { 3 } else { 6 };
        e.versioned(6, compat, |e| {
            e.i64(self.pool.0);
            e.i32(-1); // the preferred OSD of long ago
            e.blob(&self.key);
            e.blob(&self.nspace);
            e.i64(self.hash);
        });
    }
}

impl Decode for ObjectLocator {
    const MIN_BYTES: usize = 26;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("object_locator_t", 6, |d, version| {
            if version < 5 {
                return Err(Malformed::new("object_locator_t", "is older than any supported peer's"));
            }
            let pool = PoolId(d.i64()?);
            d.i32()?;
            let (key, nspace) = (d.blob()?, d.blob()?);
            let hash = if version >= 6 { d.i64()? } else { -1 };
            if hash != -1 && !key.is_empty() {
                return Err(Malformed::new("object_locator_t", "has both a key and a hash"));
            }
            Ok(ObjectLocator { pool, key, nspace, hash })
        })
    }
}

/// The snapshots a write must preserve: the newest of all, and those that exist, newest first (`SnapContext`).
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct SnapContext {
    /// The newest snapshot ever taken.
    pub seq: SnapId,
    /// Existing snapshots, descending.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// Whether it is one that Ceph's OSDs accept: descending, none above `seq`.
    pub fn is_valid(&self) -> bool {
        self.snaps.first().is_none_or(|&newest| newest <= self.seq) && self.snaps.is_sorted_by(|a, b| a > b)
    }
}

impl Encode for SnapContext {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.seq);
        e.put(&self.snaps);
    }
}

impl Decode for SnapContext {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(SnapContext { seq: d.get()?, snaps: d.get()? })
    }
}

/// A placement group's shard (`spg_t`); replicated pools have the one shard `NO_SHARD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpgId {
    /// The placement group.
    pub pg: PgId,
    /// The shard; -1 in replicated pools.
    pub shard: i8,
}

impl SpgId {
    /// `shard_id_t::NO_SHARD`.
    pub const NO_SHARD: i8 = -1;

    /// The only shard of a replicated placement group.
    pub fn replicated(pg: PgId) -> SpgId {
        SpgId { pg, shard: Self::NO_SHARD }
    }
}

impl Default for SpgId {
    fn default() -> SpgId {
        SpgId::replicated(PgId::default())
    }
}

impl fmt::Debug for SpgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shard < 0 { write!(f, "{}", self.pg) } else { write!(f, "{}s{}", self.pg, self.shard) }
    }
}

impl Encode for SpgId {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.pg);
            e.i8(self.shard);
        });
    }
}

impl Decode for SpgId {
    const MIN_BYTES: usize = 24;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("spg_t", 1, |d, _| Ok(SpgId { pg: d.get()?, shard: d.i8()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &'static str, hash: u32) -> HObject {
        HObject::head(PoolId(1), Bytes::new(), Bytes::new(), Bytes::from_static(name.as_bytes()), hash)
    }

    #[test]
    fn objects_are_ordered_by_reversed_hash_then_name() {
        let mut objects = [HObject::MAX, object("b", 1), object("a", 1), object("z", 0x8000_0000), HObject::MIN];
        objects.sort();
        let expect = [HObject::MIN, object("z", 0x8000_0000), object("a", 1), object("b", 1), HObject::MAX];
        assert_eq!(objects, expect);
        // The start of a placement group's range is no later than any object with its hash.
        assert!(HObject::pg_start(PoolId(1), 1) < object("", 1));
    }

    #[test]
    fn a_key_that_equals_the_name_is_dropped() {
        let name = Bytes::from_static(b"n");
        assert!(HObject::head(PoolId(1), Bytes::new(), name.clone(), name, 0).key.is_empty());
    }

    #[test]
    fn snapshot_contexts_descend() {
        assert!(SnapContext { seq: SnapId(4), snaps: vec![SnapId(4), SnapId(2)] }.is_valid());
        assert!(!SnapContext { seq: SnapId(4), snaps: vec![SnapId(2), SnapId(4)] }.is_valid());
        assert!(!SnapContext { seq: SnapId(3), snaps: vec![SnapId(4)] }.is_valid());
    }
}
