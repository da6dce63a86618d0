//! What the primary says of a placement group (`pg_stat_t`, version 26).
//!
//! Follows Ceph v16.2 `src/osd/osd_types.cc`, `pg_stat_t::encode`. The upper half of the states was added at the end;
//! encodings before version 24 lack it and are refused.

use super::object::ObjectStatCollection;
use super::pg_state::PgState;
use crate::record::record;
use crate::snap_set::SnapSet;
use base::{EVersion, Epoch, OsdId, PgId};
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::UTime;

record! {
    /// An OSD and the shard it holds; -1 in replicated pools (`pg_shard_t`).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    PgShard("pg_shard_t", 1, 1, 1) {
        /// The OSD.
        osd: OsdId,
        /// The shard.
        shard: i8,
    }
}

/// What the primary says of a placement group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PgStat {
    /// The last version written.
    pub version: EVersion,
    /// Counts the reports of an epoch.
    pub reported_seq: u64,
    /// The map epoch of the report.
    pub reported_epoch: Epoch,
    /// States.
    pub state: PgState,
    /// Before the log's first entry.
    pub log_start: EVersion,
    /// The same on disk.
    pub ondisk_log_start: EVersion,
    /// The epoch it was made in.
    pub created: Epoch,
    /// The last epoch it was clean in.
    pub last_epoch_clean: Epoch,
    /// Which group it was split from.
    pub parent: PgId,
    /// How many bits of the hash that split added.
    pub parent_split_bits: u32,
    /// The version of the last scrub.
    pub last_scrub: EVersion,
    /// When that was.
    pub last_scrub_stamp: UTime,
    /// The version of the last deep scrub.
    pub last_deep_scrub: EVersion,
    /// When that was.
    pub last_deep_scrub_stamp: UTime,
    /// When a scrub last found nothing wrong.
    pub last_clean_scrub_stamp: UTime,
    /// Counts over its objects.
    pub stats: ObjectStatCollection,
    /// Log entries.
    pub log_size: i64,
    /// Log entries on disk.
    pub ondisk_log_size: i64,
    /// Objects waiting for snapshots to be trimmed.
    pub snaptrimq_len: u32,
    /// Its up set.
    pub up: Vec<OsdId>,
    /// Its acting set.
    pub acting: Vec<OsdId>,
    /// The up set's leader.
    pub up_primary: OsdId,
    /// The acting set's leader.
    pub acting_primary: OsdId,
    /// OSDs that keep it from peering.
    pub blocked_by: Vec<OsdId>,
    /// The last report.
    pub last_fresh: UTime,
    /// The last change of state.
    pub last_change: UTime,
    /// When it was last active.
    pub last_active: UTime,
    /// When it was last peered.
    pub last_peered: UTime,
    /// When it was last clean.
    pub last_clean: UTime,
    /// When it was last not stale.
    pub last_unstale: UTime,
    /// When it was last not degraded.
    pub last_undegraded: UTime,
    /// When it was last not undersized.
    pub last_fullsized: UTime,
    /// When it became active.
    pub last_became_active: UTime,
    /// When it became peered.
    pub last_became_peered: UTime,
    /// The epoch its sets are of.
    pub mapping_epoch: Epoch,
    /// Snapshots purged since the last report.
    pub purged_snaps: SnapSet,
    /// Which counts cannot be trusted until the next scrub.
    pub invalid: InvalidStats,
    /// OSDs that miss nothing.
    pub avail_no_missing: BTreeSet<PgShard>,
    /// How many objects each set of OSDs has.
    pub object_location_counts: BTreeMap<BTreeSet<PgShard>, i32>,
}

/// Counts of a group that cannot be trusted until the next scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InvalidStats {
    /// All of them.
    pub all: bool,
    /// Dirty objects.
    pub dirty: bool,
    /// Omap.
    pub omap: bool,
    /// Hit sets.
    pub hit_set: bool,
    /// Bytes of hit sets.
    pub hit_set_bytes: bool,
    /// Pinned objects.
    pub pin: bool,
    /// Manifests.
    pub manifest: bool,
}

impl Encode for PgStat {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(26, 22, |e| {
            self.encode_first(e);
            self.encode_later(e);
        });
    }
}

impl PgStat {
    fn encode_first(&self, e: &mut Encoder) {
        e.put(&self.version);
        e.u64(self.reported_seq);
        e.put(&self.reported_epoch);
        e.u32(self.state.0 as u32);
        e.put(&self.log_start);
        e.put(&self.ondisk_log_start);
        e.put(&self.created);
        e.put(&self.last_epoch_clean);
        e.put(&self.parent);
        e.u32(self.parent_split_bits);
        e.put(&self.last_scrub);
        e.put(&self.last_scrub_stamp);
        e.put(&self.stats);
        e.i64(self.log_size);
        e.i64(self.ondisk_log_size);
        e.put(&self.up);
        e.put(&self.acting);
        e.put(&self.last_fresh);
        e.put(&self.last_change);
        e.put(&self.last_active);
        e.put(&self.last_clean);
        e.put(&self.last_unstale);
        e.put(&self.mapping_epoch);
        e.put(&self.last_deep_scrub);
        e.put(&self.last_deep_scrub_stamp);
    }

    fn encode_later(&self, e: &mut Encoder) {
        e.bool(self.invalid.all);
        e.put(&self.last_clean_scrub_stamp);
        e.put(&self.last_became_active);
        e.bool(self.invalid.dirty);
        e.put(&self.up_primary);
        e.put(&self.acting_primary);
        e.bool(self.invalid.omap);
        e.bool(self.invalid.hit_set);
        e.put(&self.blocked_by);
        e.put(&self.last_undegraded);
        e.put(&self.last_fullsized);
        e.bool(self.invalid.hit_set_bytes);
        e.put(&self.last_peered);
        e.put(&self.last_became_peered);
        e.bool(self.invalid.pin);
        e.u32(self.snaptrimq_len);
        e.u32((self.state.0 >> 32) as u32);
        e.put(&self.purged_snaps);
        e.bool(self.invalid.manifest);
        e.put(&self.avail_no_missing);
        e.put(&self.object_location_counts);
    }

    fn decode_first(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.version = d.get()?;
        self.reported_seq = d.u64()?;
        self.reported_epoch = d.get()?;
        self.state = PgState(u64::from(d.u32()?));
        self.log_start = d.get()?;
        self.ondisk_log_start = d.get()?;
        self.created = d.get()?;
        self.last_epoch_clean = d.get()?;
        self.parent = d.get()?;
        self.parent_split_bits = d.u32()?;
        self.last_scrub = d.get()?;
        self.last_scrub_stamp = d.get()?;
        self.stats = d.get()?;
        self.log_size = d.i64()?;
        self.ondisk_log_size = d.i64()?;
        self.up = d.get()?;
        self.acting = d.get()?;
        self.last_fresh = d.get()?;
        self.last_change = d.get()?;
        self.last_active = d.get()?;
        self.last_clean = d.get()?;
        self.last_unstale = d.get()?;
        self.mapping_epoch = d.get()?;
        self.last_deep_scrub = d.get()?;
        self.last_deep_scrub_stamp = d.get()?;
        Ok(())
    }

    fn decode_later(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.invalid.all = d.bool()?;
        self.last_clean_scrub_stamp = d.get()?;
        self.last_became_active = d.get()?;
        self.invalid.dirty = d.bool()?;
        self.up_primary = d.get()?;
        self.acting_primary = d.get()?;
        self.invalid.omap = d.bool()?;
        self.invalid.hit_set = d.bool()?;
        self.blocked_by = d.get()?;
        self.last_undegraded = d.get()?;
        self.last_fullsized = d.get()?;
        self.invalid.hit_set_bytes = d.bool()?;
        self.last_peered = d.get()?;
        self.last_became_peered = d.get()?;
        self.invalid.pin = d.bool()?;
        self.snaptrimq_len = d.u32()?;
        self.state = self.state.with(PgState(u64::from(d.u32()?) << 32));
        self.purged_snaps = d.get()?;
        self.invalid.manifest = d.bool()?;
        self.avail_no_missing = d.get()?;
        self.object_location_counts = d.get()?;
        Ok(())
    }
}

impl Decode for PgStat {
    const MIN_BYTES: usize = 256;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("pg_stat_t", 26, |d, version| {
            if version < 26 {
                return Err(Malformed::new("pg_stat_t", "is older than Pacific writes"));
            }
            let mut stat = PgStat::default();
            stat.decode_first(d)?;
            stat.decode_later(d)?;
            Ok(stat)
        })
    }
}
