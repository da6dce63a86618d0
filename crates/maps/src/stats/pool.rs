//! Sums over a pool, and over the cluster as `statfs` sees it.

use super::object::ObjectStatCollection;
use super::osd::StoreStatfs;
use super::pg::PgStat;
use crate::record::record;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

record! {
    /// A pool's sums (`pool_stat_t`, version 7).
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    PoolStat("pool_stat_t", 7, 5, 7) {
        /// Over its objects.
        stats: ObjectStatCollection,
        /// Log entries.
        log_size: i64,
        /// Log entries on disk.
        ondisk_log_size: i64,
        /// Members of up sets.
        up: i32,
        /// Members of acting sets.
        acting: i32,
        /// Room it takes.
        store: StoreStatfs,
        /// How many OSDs count room by pool.
        num_store_stats: i32,
    }
}

impl PoolStat {
    /// Adds one placement group's counts.
    pub fn add(&mut self, pg: &PgStat) {
        self.stats.sum += &pg.stats.sum;
        self.log_size = self.log_size.wrapping_add(pg.log_size);
        self.ondisk_log_size = self.ondisk_log_size.wrapping_add(pg.ondisk_log_size);
        self.up = self.up.wrapping_add(pg.up.len() as i32);
        self.acting = self.acting.wrapping_add(pg.acting.len() as i32);
    }
}

/// The cluster's room as `statfs` sees it (`struct ceph_statfs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClusterStatfs {
    /// KiB of room.
    pub kb: u64,
    /// KiB used.
    pub kb_used: u64,
    /// KiB free.
    pub kb_avail: u64,
    /// Objects.
    pub num_objects: u64,
}

impl Encode for ClusterStatfs {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.kb);
        e.u64(self.kb_used);
        e.u64(self.kb_avail);
        e.u64(self.num_objects);
    }
}

impl Decode for ClusterStatfs {
    const MIN_BYTES: usize = 32;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(ClusterStatfs { kb: d.u64()?, kb_used: d.u64()?, kb_avail: d.u64()?, num_objects: d.u64()? })
    }
}
