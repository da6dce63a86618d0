//! A pool's bytes.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.cc`, `pg_pool_t::encode`: version 29, or 30 for a stretched pool. Refuses
//! older versions, pool kinds other than replicated and erasure, and counts of placement groups that are 0 or beyond
//! [`limits::PG_NUM_MAX`].

use super::{AutoscaleMode, PgPool, PoolFlags, PoolKind, StretchPeering};
use crate::limits;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

impl Encode for PgPool {
    fn encode(&self, e: &mut Encoder) {
        let stretched = self.stretch.bucket_count > 0;
        e.versioned(if stretched { 30 } else { 29 }, 5, |e| {
            self.encode_basics(e);
            self.encode_tiering(e);
            self.encode_later(e);
            if stretched {
                e.u32(self.stretch.bucket_count);
                e.u32(self.stretch.bucket_target);
                e.u32(self.stretch.bucket_barrier);
                e.i32(self.stretch.mandatory_member);
            }
        });
    }
}

impl PgPool {
    fn encode_basics(&self, e: &mut Encoder) {
        e.u8(match self.kind {
            PoolKind::Replicated => 1,
            PoolKind::Erasure => 3,
        });
        e.u8(self.size);
        e.u8(self.crush_rule);
        e.put(&self.object_hash);
        e.u32(self.pg_num);
        e.u32(self.pgp_num);
        // Counts of localized groups, gone since Cuttlefish.
        e.u32(0);
        e.u32(0);
        e.put(&self.last_change);
        e.put(&self.snap_seq);
        e.put(&self.snap_epoch);
        e.put(&self.snaps);
        e.put(&self.removed_snaps);
        e.u64(self.auid);
        e.u64(self.flags.0);
        // The crash replay interval, gone since Jewel.
        e.u32(0);
        e.u8(self.min_size);
        e.u64(self.quota_max_bytes);
        e.u64(self.quota_max_objects);
    }

    fn encode_tiering(&self, e: &mut Encoder) {
        let tiering = &self.tiering;
        e.put(&tiering.tiers);
        e.put(&tiering.tier_of);
        e.u8(tiering.cache_mode);
        e.put(&tiering.read_tier);
        e.put(&tiering.write_tier);
        e.put(&self.properties);
        e.put(&tiering.hit_set);
        e.u32(tiering.hit_set_period_secs);
        e.u32(tiering.hit_set_count);
        e.u32(self.stripe_width);
        e.u64(tiering.target_max_bytes);
        e.u64(tiering.target_max_objects);
        e.u32(tiering.target_dirty_ratio_micro);
        e.u32(tiering.target_full_ratio_micro);
        e.u32(tiering.min_flush_age_secs);
        e.u32(tiering.min_evict_age_secs);
        e.string(&self.erasure_code_profile);
        e.put(&self.last_force_op_resend_preluminous);
        e.u32(tiering.min_read_recency);
        e.u64(self.expected_num_objects);
        e.u32(tiering.target_dirty_high_ratio_micro);
        e.u32(tiering.min_write_recency);
        e.bool(tiering.use_gmt_hitset);
        e.bool(self.fast_read);
        e.u32(tiering.hit_set_grade_decay_rate);
        e.u32(tiering.hit_set_search_last);
    }

    fn encode_later(&self, e: &mut Encoder) {
        e.put(&self.options);
        e.put(&self.last_force_op_resend_prenautilus);
        e.put(&self.applications);
        e.put(&self.create_time);
        e.u32(self.pg_num_target);
        e.u32(self.pgp_num_target);
        e.u32(self.pg_num_pending);
        // Two epochs of merges as early Nautilus kept them.
        e.u32(0);
        e.u32(0);
        e.put(&self.last_force_op_resend);
        e.u8(self.autoscale_mode as u8);
        e.put(&self.last_pg_merge);
    }

    fn decode_basics(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.kind = match d.u8()? {
            1 => PoolKind::Replicated,
            3 => PoolKind::Erasure,
            _ => return Err(Malformed::new("pg_pool_t", "is of an unknown kind")),
        };
        self.size = d.u8()?;
        self.crush_rule = d.u8()?;
        self.object_hash = d.get()?;
        self.pg_num = d.u32()?;
        self.pgp_num = d.u32()?;
        d.skip(8)?;
        self.last_change = d.get()?;
        self.snap_seq = d.get()?;
        self.snap_epoch = d.get()?;
        self.snaps = d.get()?;
        self.removed_snaps = d.get()?;
        self.auid = d.u64()?;
        self.flags = PoolFlags(d.u64()?);
        d.skip(4)?;
        self.min_size = d.u8()?;
        self.quota_max_bytes = d.u64()?;
        self.quota_max_objects = d.u64()?;
        Ok(())
    }

    fn decode_tiering(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        let tiering = &mut self.tiering;
        tiering.tiers = d.get()?;
        tiering.tier_of = d.get()?;
        tiering.cache_mode = d.u8()?;
        tiering.read_tier = d.get()?;
        tiering.write_tier = d.get()?;
        self.properties = d.get()?;
        tiering.hit_set = d.get()?;
        tiering.hit_set_period_secs = d.u32()?;
        tiering.hit_set_count = d.u32()?;
        self.stripe_width = d.u32()?;
        tiering.target_max_bytes = d.u64()?;
        tiering.target_max_objects = d.u64()?;
        tiering.target_dirty_ratio_micro = d.u32()?;
        tiering.target_full_ratio_micro = d.u32()?;
        tiering.min_flush_age_secs = d.u32()?;
        tiering.min_evict_age_secs = d.u32()?;
        self.erasure_code_profile = d.string()?;
        self.last_force_op_resend_preluminous = d.get()?;
        tiering.min_read_recency = d.u32()?;
        self.expected_num_objects = d.u64()?;
        tiering.target_dirty_high_ratio_micro = d.u32()?;
        tiering.min_write_recency = d.u32()?;
        tiering.use_gmt_hitset = d.bool()?;
        self.fast_read = d.bool()?;
        tiering.hit_set_grade_decay_rate = d.u32()?;
        tiering.hit_set_search_last = d.u32()?;
        Ok(())
    }

    fn decode_later(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.options = d.get()?;
        self.last_force_op_resend_prenautilus = d.get()?;
        self.applications = d.get()?;
        self.create_time = d.get()?;
        self.pg_num_target = d.u32()?;
        self.pgp_num_target = d.u32()?;
        self.pg_num_pending = d.u32()?;
        d.skip(8)?;
        self.last_force_op_resend = d.get()?;
        self.autoscale_mode = match d.u8()? {
            0 => AutoscaleMode::Off,
            1 => AutoscaleMode::Warn,
            2 => AutoscaleMode::On,
            _ => return Err(Malformed::new("pg_pool_t", "has an unknown autoscale mode")),
        };
        self.last_pg_merge = d.get()?;
        Ok(())
    }
}

impl Decode for PgPool {
    /// An envelope around nothing but the fixed fields is longer; this bounds maps of pools well enough.
    const MIN_BYTES: usize = 256;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("pg_pool_t", 30, |d, version| {
            if version < 29 {
                return Err(Malformed::new("pg_pool_t", "is older than Nautilus writes"));
            }
            let mut pool = PgPool::default();
            pool.decode_basics(d)?;
            pool.decode_tiering(d)?;
            pool.decode_later(d)?;
            if version >= 30 {
                pool.stretch = StretchPeering {
                    bucket_count: d.u32()?,
                    bucket_target: d.u32()?,
                    bucket_barrier: d.u32()?,
                    mandatory_member: d.i32()?,
                };
            }
            let counts = [pool.pg_num, pool.pgp_num, pool.pg_num_target, pool.pgp_num_target, pool.pg_num_pending];
            if counts.iter().any(|count| *count > limits::PG_NUM_MAX) {
                return Err(Malformed::new("pg_pool_t", "has more placement groups than are supported"));
            }
            if pool.pg_num == 0 || pool.pgp_num == 0 {
                return Err(Malformed::new("pg_pool_t", "has no placement groups"));
            }
            Ok(pool)
        })
    }
}
