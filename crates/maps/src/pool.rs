//! A pool (`pg_pool_t`): how many copies of what, in how many placement groups, under which rule.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.{h,cc}`, `pg_pool_t`. Owns the folding of hashes into placement groups and of
//! those into placement seeds. Its bytes are in `codec`.
//!
//! Read next: `placement`, which goes on from the seed to OSDs.

mod codec;
mod parts;

use crate::hash::{ObjectHash, stable_mod};
use crate::pool_options::PoolOptions;
use crate::snap_set::SnapSet;
use base::{Epoch, PgId, SnapId};
use std::borrow::Cow;
use std::collections::BTreeMap;
use wire::types::UTime;

pub use parts::{AutoscaleMode, CACHE_MODES, HitSetParams, PgMergeMeta, PoolSnap, StretchPeering, Tiering};

/// How a pool keeps its objects safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PoolKind {
    /// Whole copies.
    #[default]
    Replicated,
    /// Erasure-coded shards; decoded so that foreign maps are readable.
    Erasure,
}

impl PoolKind {
    /// The name on the command line and in dumps.
    pub fn name(self) -> &'static str {
        match self {
            PoolKind::Replicated => "replicated",
            PoolKind::Erasure => "erasure",
        }
    }
}

/// A pool's flags (`pg_pool_t::FLAG_*`). Bits unknown here are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolFlags(pub u64);

macro_rules! flags {
    ($($name:ident = $bit:literal, $text:literal, $doc:literal;)*) => {
        impl PoolFlags {
            $(#[doc = $doc] pub const $name: PoolFlags = PoolFlags(1 << $bit);)*

            const NAMES: &'static [(u64, &'static str)] = &[$((1 << $bit, $text)),*];
        }
    };
}

flags! {
    HASHPSPOOL = 0, "hashpspool", "The pool's number is hashed into placement seeds, so that pools do not overlap.";
    FULL = 1, "full", "Writes are refused: the cluster or the quota is full.";
    EC_OVERWRITES = 2, "ec_overwrites", "Erasure-coded objects may be overwritten.";
    INCOMPLETE_CLONES = 3, "incomplete_clones", "A cache tier that may lack clones.";
    NODELETE = 4, "nodelete", "The pool cannot be deleted.";
    NOPGCHANGE = 5, "nopgchange", "pg_num cannot be changed.";
    NOSIZECHANGE = 6, "nosizechange", "size and min_size cannot be changed.";
    WRITE_FADVISE_DONTNEED = 7, "write_fadvise_dontneed", "Writes are not cached.";
    NOSCRUB = 8, "noscrub", "No scrubs.";
    NODEEP_SCRUB = 9, "nodeep-scrub", "No deep scrubs.";
    FULL_QUOTA = 10, "full_quota", "Full because of its quota.";
    NEARFULL = 11, "nearfull", "Some of its OSDs are nearly full.";
    BACKFILLFULL = 12, "backfillfull", "Some of its OSDs are too full to backfill to.";
    SELFMANAGED_SNAPS = 13, "selfmanaged_snaps", "Clients choose the snapshots of each object.";
    POOL_SNAPS = 14, "pool_snaps", "The pool as a whole has snapshots.";
    CREATING = 15, "creating", "Its placement groups are being created.";
    EIO = 16, "eio", "Ops fail with EIO instead of waiting.";
    BULK = 17, "bulk", "Expected to grow large.";
}

impl PoolFlags {
    /// Are all of these set?
    pub fn contains(self, flags: PoolFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// With these set.
    pub const fn with(self, flags: PoolFlags) -> PoolFlags {
        PoolFlags(self.0 | flags.0)
    }

    /// With these clear.
    pub const fn without(self, flags: PoolFlags) -> PoolFlags {
        PoolFlags(self.0 & !flags.0)
    }

    /// The names of the flags that are set, in order of bit.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name)
    }

    /// The flag of that name.
    pub fn from_name(name: &str) -> Option<PoolFlags> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(bit, _)| PoolFlags(*bit))
    }
}

/// One pool's settings and state.
///
/// New pools of a monitor start from `PgPool::default()` with flags, sizes and counts set; times and epochs are the
/// caller's.
#[derive(Clone, PartialEq, Debug)]
pub struct PgPool {
    /// Copies or shards.
    pub kind: PoolKind,
    /// How many copies (or shards).
    pub size: u8,
    /// The fewest that must be up for the pool to serve.
    pub min_size: u8,
    /// The CRUSH rule's number.
    pub crush_rule: u8,
    /// How names are hashed.
    pub object_hash: ObjectHash,
    /// Placement groups there are; never 0 in a map that decodes.
    pub pg_num: u32,
    /// Placement groups as placement counts them.
    pub pgp_num: u32,
    /// What the monitor is moving pg_num to.
    pub pg_num_target: u32,
    /// What the monitor is moving pgp_num to.
    pub pgp_num_target: u32,
    /// What pg_num will be once pending merges are done.
    pub pg_num_pending: u32,
    /// The epoch of the last change of this pool.
    pub last_change: Epoch,
    /// The last change of which clients must resend their ops.
    pub last_force_op_resend: Epoch,
    /// The same for clients before Nautilus.
    pub last_force_op_resend_prenautilus: Epoch,
    /// The same for clients before Luminous.
    pub last_force_op_resend_preluminous: Epoch,
    /// The last merge.
    pub last_pg_merge: PgMergeMeta,
    /// The highest snapshot number given out.
    pub snap_seq: SnapId,
    /// When that was.
    pub snap_epoch: Epoch,
    /// Snapshots of the pool as a whole.
    pub snaps: BTreeMap<SnapId, PoolSnap>,
    /// Snapshots removed, as releases before Octopus kept them.
    pub removed_snaps: SnapSet,
    /// An account number of old; 0.
    pub auid: u64,
    /// Flags.
    pub flags: PoolFlags,
    /// Bytes it may hold; 0 is unlimited.
    pub quota_max_bytes: u64,
    /// Objects it may hold; 0 is unlimited.
    pub quota_max_objects: u64,
    /// Cache tiering.
    pub tiering: Tiering,
    /// Free-form properties of old; empty.
    pub properties: BTreeMap<String, String>,
    /// Erasure coding's stripe width, bytes; 0 in replicated pools.
    pub stripe_width: u32,
    /// Erasure coding's profile; empty in replicated pools.
    pub erasure_code_profile: String,
    /// Whether erasure-coded reads ask every shard.
    pub fast_read: bool,
    /// Objects the creator expects.
    pub expected_num_objects: u64,
    /// Optional settings.
    pub options: PoolOptions,
    /// Which applications use it, and their keys.
    pub applications: BTreeMap<String, BTreeMap<String, String>>,
    /// When it was made.
    pub create_time: UTime,
    /// The autoscaler's leave.
    pub autoscale_mode: AutoscaleMode,
    /// Stretch mode; the default where the pool is not stretched.
    pub stretch: StretchPeering,
}

impl Default for PgPool {
    fn default() -> PgPool {
        PgPool {
            kind: PoolKind::Replicated,
            size: 3,
            min_size: 2,
            crush_rule: 0,
            object_hash: ObjectHash::Rjenkins,
            pg_num: 1,
            pgp_num: 1,
            pg_num_target: 1,
            pgp_num_target: 1,
            pg_num_pending: 1,
            last_change: Epoch(0),
            last_force_op_resend: Epoch(0),
            last_force_op_resend_prenautilus: Epoch(0),
            last_force_op_resend_preluminous: Epoch(0),
            last_pg_merge: PgMergeMeta::default(),
            snap_seq: SnapId(0),
            snap_epoch: Epoch(0),
            snaps: BTreeMap::new(),
            removed_snaps: SnapSet::default(),
            auid: 0,
            flags: PoolFlags::HASHPSPOOL,
            quota_max_bytes: 0,
            quota_max_objects: 0,
            tiering: Tiering::default(),
            properties: BTreeMap::new(),
            stripe_width: 0,
            erasure_code_profile: String::new(),
            fast_read: false,
            expected_num_objects: 0,
            options: PoolOptions::default(),
            applications: BTreeMap::new(),
            create_time: UTime::default(),
            autoscale_mode: AutoscaleMode::Off,
            stretch: StretchPeering::default(),
        }
    }
}

impl PgPool {
    /// Sets pg_num, pgp_num and their targets at once, as for a new pool.
    pub fn set_pg_num(&mut self, count: u32) {
        self.pg_num = count;
        self.pgp_num = count;
        self.pg_num_target = count;
        self.pgp_num_target = count;
        self.pg_num_pending = count;
    }

    /// Is an acting set a list of equals (replicated), rather than one place per shard?
    pub fn can_shift_osds(&self) -> bool {
        self.kind == PoolKind::Replicated
    }

    /// The hash of an object's key or name within its namespace: the raw seed of its placement group.
    pub fn hash_key(&self, key: &[u8], namespace: &[u8]) -> u32 {
        let text = if namespace.is_empty() {
            Cow::Borrowed(key)
        } else {
            // 0x1F, the unit separator, stands between namespace and key.
            Cow::Owned([namespace, b"\x1f", key].concat())
        };
        self.object_hash.hash(&text)
    }

    /// Folds a raw placement group into one that exists.
    pub fn raw_pg_to_pg(&self, raw: PgId) -> PgId {
        PgId::new(raw.pool, stable_mod(raw.seed, self.pg_num, mask(self.pg_num)))
    }

    /// Whether a merge is pending that the group has a part in: it does not serve then.
    pub fn is_premerge(&self, pg: PgId) -> bool {
        self.is_resized_to(self.pg_num_pending.min(self.pg_num), pg)
    }

    /// Whether a group has a part in the splits or merges that lead to so many groups, or back.
    pub fn is_resized_to(&self, pg_num: u32, pg: PgId) -> bool {
        let (fewer, more) = (self.pg_num.min(pg_num), self.pg_num.max(pg_num));
        pg.seed >= fewer && fewer < more || (fewer..more).any(|seed| ancestor(PgId { seed, ..pg }, fewer) == pg)
    }

    /// How many of the lowest bits of an object's hash are those of its placement group's seed (v16.2
    /// `src/osd/osd_types.cc`, `pg_t::get_split_bits`).
    pub fn split_bits(&self, seed: u32) -> u32 {
        split_bits(seed, self.pg_num)
    }

    /// The seed that CRUSH is asked with (`raw_pg_to_pps`).
    pub fn placement_seed(&self, pg: PgId) -> u32 {
        let folded = stable_mod(pg.seed, self.pgp_num, mask(self.pgp_num));
        let pool = pg.pool.0 as u32;
        if self.flags.contains(PoolFlags::HASHPSPOOL) {
            crush::hash::hash2(folded, pool)
        } else {
            folded.wrapping_add(pool)
        }
    }

    /// Does it refuse writes for want of room?
    pub fn is_full(&self) -> bool {
        self.flags.contains(PoolFlags::FULL)
    }

    /// Makes a snapshot of the whole pool and gives its number. The caller has checked that snapshots are not the
    /// clients' own here and that no other has this name.
    pub fn add_snap(&mut self, name: &str, stamp: UTime, epoch: Epoch) -> SnapId {
        self.flags = self.flags.with(PoolFlags::POOL_SNAPS);
        self.snap_seq = SnapId(self.snap_seq.0.saturating_add(1));
        self.snap_epoch = epoch;
        self.snaps.insert(self.snap_seq, PoolSnap { id: self.snap_seq, stamp, name: name.to_owned() });
        self.snap_seq
    }

    /// Forgets a snapshot of the whole pool; false if there is none of that number.
    pub fn remove_snap(&mut self, id: SnapId, epoch: Epoch) -> bool {
        let removed = self.snaps.remove(&id).is_some();
        if removed {
            self.snap_seq = SnapId(self.snap_seq.0.saturating_add(1));
            self.snap_epoch = epoch;
        }
        removed
    }

    /// Gives out a number for a snapshot that clients keep themselves. The first is 2: 1 was never usable.
    pub fn add_selfmanaged_snap(&mut self, epoch: Epoch) -> SnapId {
        self.flags = self.flags.with(PoolFlags::SELFMANAGED_SNAPS);
        self.snap_seq = SnapId(self.snap_seq.0.max(1).saturating_add(1));
        self.snap_epoch = epoch;
        self.snap_seq
    }

    /// Notes that clients gave a snapshot of their own back; the caller adds it to the incremental's removed snaps.
    pub fn remove_selfmanaged_snap(&mut self, epoch: Epoch) {
        self.snap_seq = SnapId(self.snap_seq.0.saturating_add(1));
        self.snap_epoch = epoch;
    }

    /// The pool snapshot of that name.
    pub fn snap_by_name(&self, name: &str) -> Option<&PoolSnap> {
        self.snaps.values().find(|snap| snap.name == name)
    }

    /// Are snapshots the clients' own here? (Ceph also counts pools of old that only show it by what was removed.)
    pub fn is_selfmanaged_snaps(&self) -> bool {
        self.flags.contains(PoolFlags::SELFMANAGED_SNAPS)
    }
}

/// The placement group that one is merged into: without the highest bit of its seed (`pg_t::get_parent`).
pub fn merge_target(source: PgId) -> PgId {
    PgId { seed: source.seed & !source.seed.checked_ilog2().map_or(0, |bit| 1 << bit), ..source }
}

/// The placement group that had a group's objects when its pool had only so many of them (`pg_t::get_ancestor`).
pub fn ancestor(pg: PgId, pg_num: u32) -> PgId {
    PgId::new(pg.pool, stable_mod(pg.seed, pg_num, mask(pg_num)))
}

fn split_bits(seed: u32, pg_num: u32) -> u32 {
    let mask = mask(pg_num);
    // Where the next bit would lead to a group that there is not, that bit is not looked at.
    let bits = mask.count_ones();
    let sibling = seed | (mask ^ mask >> 1);
    if seed & (mask ^ mask >> 1) == 0 && sibling >= pg_num { bits.saturating_sub(1) } else { bits }
}

/// The smallest 2^n - 1 that covers `count - 1`.
fn mask(count: u32) -> u32 {
    u32::MAX.checked_shr(count.saturating_sub(1).leading_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_a_part_in_a_merge_are_known() {
        let mut pool = PgPool::default();
        pool.set_pg_num(7);
        let pg = |seed| PgId::new(base::PoolId(1), seed);
        let premerge = |pool: &PgPool| (0..7).filter(|seed| pool.is_premerge(pg(*seed))).collect::<Vec<_>>();
        assert!(premerge(&pool).is_empty());
        pool.pg_num_pending = 6;
        assert_eq!((premerge(&pool), merge_target(pg(6)), merge_target(pg(1))), (vec![2, 6], pg(2), pg(0)));
        let resized: Vec<u32> = (0..9).filter(|seed| pool.is_resized_to(9, pg(*seed))).collect();
        assert_eq!(resized, [0, 3, 7, 8]);
    }

    #[test]
    fn a_group_has_the_hashes_that_end_in_its_bits_and_its_ancestor_had_them() {
        for pg_num in 1..70 {
            let mut pool = PgPool::default();
            pool.set_pg_num(pg_num);
            for hash in (0..3000u32).map(|i| i.wrapping_mul(0x9E37_79B9)) {
                let raw = PgId::new(base::PoolId(1), hash);
                let pg = pool.raw_pg_to_pg(raw);
                for seed in 0..pg_num {
                    let ends = (hash ^ seed) & !u32::MAX.checked_shl(pool.split_bits(seed)).unwrap_or(0) == 0;
                    assert_eq!(ends, seed == pg.seed, "{pg_num} {hash} {seed}");
                }
                for fewer in 1..=pg_num {
                    let mut before = PgPool::default();
                    before.set_pg_num(fewer);
                    assert_eq!(ancestor(pg, fewer), before.raw_pg_to_pg(raw));
                }
            }
        }
    }
}
