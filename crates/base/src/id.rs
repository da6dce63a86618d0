//! Newtypes for the ids that Ceph's world is addressed by.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// An OSD's number; -1 (`OsdId::NONE`) where a placement slot is empty.
    OsdId(i32), "osd."
);
id!(
    /// A pool's number, from 1; -1 is no pool.
    PoolId(i64), "pool "
);
id!(
    /// A version of the OSD map (or of another of the monitor's maps), from 1; 0 is none.
    Epoch(u32), "e"
);
id!(
    /// The number the monitor gives an authenticated entity.
    GlobalId(u64), "gid "
);

id!(
    /// A snapshot's number, from 1 within its pool.
    SnapId(u64), "snap "
);

impl SnapId {
    /// The live object, above every snapshot (`CEPH_NOSNAP`).
    pub const HEAD: SnapId = SnapId(u64::MAX - 1);
    /// The object's set of snapshots (`CEPH_SNAPDIR`).
    pub const DIR: SnapId = SnapId(u64::MAX);
}

impl OsdId {
    /// No OSD: CRUSH_ITEM_NONE is another value, this is the -1 of acting sets on the wire.
    pub const NONE: OsdId = OsdId(-1);
}

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// A placement group: a pool and a seed below its `pg_num` (or, before folding, a raw hash).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgId {
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The placement seed.
    pub seed: u32,
}

impl PgId {
    /// The placement group `seed` of `pool`.
    pub fn new(pool: PoolId, seed: u32) -> PgId {
        PgId { pool, seed }
    }

    /// Parses the text form, `POOL.SEED` with the seed in hexadecimal.
    pub fn parse(text: &str) -> Option<PgId> {
        let (pool, seed) = text.split_once('.')?;
        Some(PgId { pool: PoolId(pool.parse().ok()?), seed: u32::from_str_radix(seed, 16).ok()? })
    }
}

impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool.0, self.seed)
    }
}

impl fmt::Debug for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pg {self}")
    }
}

/// A version in a placement group's log: the interval's map epoch, then a count (`eversion_t`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EVersion {
    /// The map epoch under which the primary made the entry.
    pub epoch: Epoch,
    /// Counts the group's writes; 0 is before the first.
    pub version: u64,
}

impl EVersion {
    /// The version `version` made under `epoch`.
    pub fn new(epoch: Epoch, version: u64) -> EVersion {
        EVersion { epoch, version }
    }
}

impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch.0, self.version)
    }
}

impl fmt::Debug for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
