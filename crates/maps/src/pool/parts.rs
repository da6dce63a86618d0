//! The structures inside a pool: snapshots, merges, cache tiering, stretch peering.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.{h,cc}` and `src/osd/HitSet.h`. Read next: `pool`, which holds them.

use base::{EVersion, Epoch, PgId, PoolId, SnapId};
use bytes::Bytes;
use std::collections::BTreeSet;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::UTime;

/// A snapshot of the whole pool (`pool_snap_info_t`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolSnap {
    /// Its number.
    pub id: SnapId,
    /// When it was made.
    pub stamp: UTime,
    /// What it is called.
    pub name: String,
}

impl Encode for PoolSnap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 2, |e| {
            e.put(&self.id);
            e.put(&self.stamp);
            e.string(&self.name);
        });
    }
}

impl Decode for PoolSnap {
    const MIN_BYTES: usize = 26;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("pool_snap_info_t", 2, |d, _| Ok(PoolSnap { id: d.get()?, stamp: d.get()?, name: d.string()? }))
    }
}

/// A cache tier's hit sets (`HitSet::Params`): carried, not interpreted, for tiering is out of scope.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HitSetParams {
    /// 0 none, 1 explicit hashes, 2 explicit objects, 3 bloom filter.
    pub kind: u8,
    /// The kind's parameters as encoded.
    pub parameters: Bytes,
}

impl Encode for HitSetParams {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u8(self.kind);
            e.raw(&self.parameters);
        });
    }
}

impl Decode for HitSetParams {
    const MIN_BYTES: usize = 7;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("HitSet::Params", 1, |d, _| Ok(HitSetParams { kind: d.u8()?, parameters: d.bytes(d.remaining())? }))
    }
}

/// What the last merge of two placement groups started from (`pg_merge_meta_t`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgMergeMeta {
    /// The group that was merged away.
    pub source: PgId,
    /// When both were ready.
    pub ready_epoch: Epoch,
    /// The target's last_epoch_started then.
    pub last_epoch_started: Epoch,
    /// The target's last_epoch_clean then.
    pub last_epoch_clean: Epoch,
    /// The source's last version.
    pub source_version: EVersion,
    /// The target's last version.
    pub target_version: EVersion,
}

impl Encode for PgMergeMeta {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.source);
            e.put(&self.ready_epoch);
            e.put(&self.last_epoch_started);
            e.put(&self.last_epoch_clean);
            e.put(&self.source_version);
            e.put(&self.target_version);
        });
    }
}

impl Decode for PgMergeMeta {
    const MIN_BYTES: usize = 59;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("pg_merge_meta_t", 1, |d, _| {
            Ok(PgMergeMeta {
                source: d.get()?,
                ready_epoch: d.get()?,
                last_epoch_started: d.get()?,
                last_epoch_clean: d.get()?,
                source_version: d.get()?,
                target_version: d.get()?,
            })
        })
    }
}

/// Whether the autoscaler may change the number of placement groups (`pg_autoscale_mode_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AutoscaleMode {
    /// Never.
    #[default]
    Off,
    /// It only warns.
    Warn,
    /// It does.
    On,
}

impl AutoscaleMode {
    /// The name on the command line and in dumps.
    pub fn name(self) -> &'static str {
        match self {
            AutoscaleMode::Off => "off",
            AutoscaleMode::Warn => "warn",
            AutoscaleMode::On => "on",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<AutoscaleMode> {
        [AutoscaleMode::Off, AutoscaleMode::Warn, AutoscaleMode::On].into_iter().find(|mode| mode.name() == name)
    }
}

/// The names of `pg_pool_t::cache_mode_t`, by number.
pub const CACHE_MODES: [&str; 7] = ["none", "writeback", "forward", "readonly", "readforward", "readproxy", "proxy"];

/// Cache tiering's fields, carried so that foreign maps survive a round trip; tiering itself is out of scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tiering {
    /// The pools in front of this one.
    pub tiers: BTreeSet<u64>,
    /// The pool this one is in front of; -1 none.
    pub tier_of: PoolId,
    /// An index into [`CACHE_MODES`].
    pub cache_mode: u8,
    /// Where reads go instead; -1 here.
    pub read_tier: PoolId,
    /// Where writes go instead; -1 here.
    pub write_tier: PoolId,
    /// How hits are remembered.
    pub hit_set: HitSetParams,
    /// Seconds per hit set.
    pub hit_set_period_secs: u32,
    /// How many hit sets are kept.
    pub hit_set_count: u32,
    /// The size the cache aims at, bytes.
    pub target_max_bytes: u64,
    /// The number of objects the cache aims at.
    pub target_max_objects: u64,
    /// Dirty share at which flushing starts, in millionths.
    pub target_dirty_ratio_micro: u32,
    /// Dirty share at which flushing speeds up, in millionths.
    pub target_dirty_high_ratio_micro: u32,
    /// Full share at which eviction starts, in millionths.
    pub target_full_ratio_micro: u32,
    /// Seconds before a dirty object may be flushed.
    pub min_flush_age_secs: u32,
    /// Seconds before an object may be evicted.
    pub min_evict_age_secs: u32,
    /// Hit sets an object must be in to be promoted by a read.
    pub min_read_recency: u32,
    /// Hit sets an object must be in to be promoted by a write.
    pub min_write_recency: u32,
    /// Whether hit sets are named by GMT.
    pub use_gmt_hitset: bool,
    /// The decay of temperature per hit set, percent.
    pub hit_set_grade_decay_rate: u32,
    /// How many hit sets a temperature looks at.
    pub hit_set_search_last: u32,
}

impl Default for Tiering {
    fn default() -> Tiering {
        Tiering {
            tiers: BTreeSet::new(),
            tier_of: PoolId(-1),
            cache_mode: 0,
            read_tier: PoolId(-1),
            write_tier: PoolId(-1),
            hit_set: HitSetParams::default(),
            hit_set_period_secs: 0,
            hit_set_count: 0,
            target_max_bytes: 0,
            target_max_objects: 0,
            target_dirty_ratio_micro: 0,
            target_dirty_high_ratio_micro: 0,
            target_full_ratio_micro: 0,
            min_flush_age_secs: 0,
            min_evict_age_secs: 0,
            min_read_recency: 0,
            min_write_recency: 0,
            use_gmt_hitset: true,
            hit_set_grade_decay_rate: 0,
            hit_set_search_last: 0,
        }
    }
}

/// A stretched pool's peering rule: groups need members in so many buckets of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StretchPeering {
    /// Buckets needed; 0 where the pool is not stretched.
    pub bucket_count: u32,
    /// Buckets aimed at.
    pub bucket_target: u32,
    /// The CRUSH type of the buckets.
    pub bucket_barrier: u32,
    /// A bucket that must be among them; CRUSH_ITEM_NONE for none.
    pub mandatory_member: i32,
}
