//! What an OSD says of itself (`osd_stat_t`, version 14): room, heartbeats, latencies.

use crate::record::record;
use base::{Epoch, OsdId};
use core::ops::AddAssign;
use std::collections::BTreeMap;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};

record! {
    /// Room in a store, bytes (`store_statfs_t`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    StoreStatfs("store_statfs_t", 1, 1, 1) {
        /// All of it.
        total: u64,
        /// Free.
        available: u64,
        /// Kept back by the store.
        internally_reserved: u64,
        /// Given to data.
        allocated: i64,
        /// Data as clients count it.
        data_stored: i64,
        /// Data after compression.
        data_compressed: i64,
        /// Room that compressed data takes.
        data_compressed_allocated: i64,
        /// Compressed data before compression.
        data_compressed_original: i64,
        /// Room that omap takes.
        omap_allocated: i64,
        /// Room that the store's own metadata takes.
        internal_metadata: i64,
    }
}

impl StoreStatfs {
    /// Bytes that are not free, whatever they are for.
    pub fn used_raw(&self) -> u64 {
        self.total.saturating_sub(self.available)
    }

    /// The used share of all room; 0 where there is none.
    pub fn used_ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used_raw() as f64 / self.total as f64 }
    }
}

impl AddAssign<&StoreStatfs> for StoreStatfs {
    fn add_assign(&mut self, other: &StoreStatfs) {
        self.total = self.total.wrapping_add(other.total);
        self.available = self.available.wrapping_add(other.available);
        self.internally_reserved = self.internally_reserved.wrapping_add(other.internally_reserved);
        self.allocated = self.allocated.wrapping_add(other.allocated);
        self.data_stored = self.data_stored.wrapping_add(other.data_stored);
        self.data_compressed = self.data_compressed.wrapping_add(other.data_compressed);
        self.data_compressed_allocated = self.data_compressed_allocated.wrapping_add(other.data_compressed_allocated);
        self.data_compressed_original = self.data_compressed_original.wrapping_add(other.data_compressed_original);
        self.omap_allocated = self.omap_allocated.wrapping_add(other.omap_allocated);
        self.internal_metadata = self.internal_metadata.wrapping_add(other.internal_metadata);
    }
}

/// A store's latencies, milliseconds (`objectstore_perf_stat_t`). Written as version 1, as Pacific OSDs do in their
/// reports; version 2, in nanoseconds, is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PerfStat {
    /// Until a transaction is durable.
    pub commit_latency_ms: u32,
    /// Until a transaction is readable.
    pub apply_latency_ms: u32,
}

impl Encode for PerfStat {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u32(self.commit_latency_ms);
            e.u32(self.apply_latency_ms);
        });
    }
}

impl Decode for PerfStat {
    const MIN_BYTES: usize = 14;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("objectstore_perf_stat_t", 2, |d, version| {
            let mut latency_ms =
                || Ok(if version < 2 { d.u32()? } else { u32::try_from(d.u64()? / 1_000_000).unwrap_or(u32::MAX) });
            Ok(PerfStat { commit_latency_ms: latency_ms()?, apply_latency_ms: latency_ms()? })
        })
    }
}

/// Round trips of heartbeats to one peer over one network, microseconds: over one, five and fifteen minutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PingTimes {
    /// Means.
    pub average_us: [u32; 3],
    /// Shortest.
    pub min_us: [u32; 3],
    /// Longest.
    pub max_us: [u32; 3],
    /// The latest.
    pub last_us: u32,
}

impl Encode for PingTimes {
    fn encode(&self, e: &mut Encoder) {
        for times in [self.average_us, self.min_us, self.max_us] {
            times.into_iter().for_each(|time| e.u32(time));
        }
        e.u32(self.last_us);
    }
}

impl Decode for PingTimes {
    const MIN_BYTES: usize = 40;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let three = |d: &mut Decoder<'_>| Ok([d.u32()?, d.u32()?, d.u32()?]);
        Ok(PingTimes { average_us: three(d)?, min_us: three(d)?, max_us: three(d)?, last_us: d.u32()? })
    }
}

/// Heartbeats to one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeartbeatTimes {
    /// When they were last noted, seconds since the Unix epoch.
    pub last_update_secs: u32,
    /// Over the cluster's network.
    pub back: PingTimes,
    /// Over the clients' network.
    pub front: PingTimes,
}

impl Encode for HeartbeatTimes {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.last_update_secs);
        e.put(&self.back);
        e.put(&self.front);
    }
}

impl Decode for HeartbeatTimes {
    const MIN_BYTES: usize = 84;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(HeartbeatTimes { last_update_secs: d.u32()?, back: d.get()?, front: d.get()? })
    }
}

record! {
    /// A histogram by powers of two (`pow2_hist_t`).
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    PowerHistogram("pow2_hist_t", 1, 1, 1) {
        /// How many values had as many bits as the index.
        bins: Vec<i32>,
    }
}

record! {
    /// What an OSD says of itself.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    OsdStat("osd_stat_t", 14, 2, 14) {
        /// KiB of room; follows from `statfs`, kept for old readers.
        kb: i64,
        /// KiB not free; follows from `statfs`.
        kb_used: i64,
        /// KiB free; follows from `statfs`.
        kb_avail: i64,
        /// Objects waiting for snapshots to be trimmed.
        snap_trim_queue_len: i32,
        /// Groups trimming snapshots.
        num_snap_trimming: i32,
        /// Whom it sends heartbeats to.
        hb_peers: Vec<OsdId>,
        /// Of old; empty.
        hb_out: Vec<OsdId>,
        /// How long ops have waited, by powers of two of milliseconds.
        op_queue_age_hist: PowerHistogram,
        /// The store's latencies.
        perf: PerfStat,
        /// The epoch its life began in.
        up_from: Epoch,
        /// Counts its reports: the epoch of its life above, a counter below.
        seq: u64,
        /// Groups it leads or holds.
        num_pgs: u32,
        /// KiB of data.
        kb_used_data: i64,
        /// KiB of omap.
        kb_used_omap: i64,
        /// KiB of the store's metadata.
        kb_used_meta: i64,
        /// Room in its store.
        statfs: StoreStatfs,
        /// The store's alerts by OSD: kind and text.
        os_alerts: BTreeMap<i32, BTreeMap<String, String>>,
        /// Objects repaired.
        num_shards_repaired: u64,
        /// How many OSDs this stands for: 1, more in sums.
        num_osds: u32,
        /// Of these, how many count room by pool.
        num_per_pool_osds: u32,
        /// Of these, how many count omap by pool.
        num_per_pool_omap_osds: u32,
        /// Heartbeats by peer.
        hb_pingtime: BTreeMap<OsdId, HeartbeatTimes>,
    }
}

impl OsdStat {
    /// The report of one OSD whose store has this room; fills in what follows from it.
    pub fn of_store(statfs: StoreStatfs) -> OsdStat {
        let kib = |bytes: u64| (bytes >> 10) as i64;
        OsdStat {
            kb: kib(statfs.total),
            kb_used: kib(statfs.used_raw()),
            kb_avail: kib(statfs.available),
            kb_used_data: statfs.allocated >> 10,
            kb_used_omap: statfs.omap_allocated >> 10,
            kb_used_meta: statfs.internal_metadata >> 10,
            statfs,
            num_osds: 1,
            num_per_pool_osds: 1,
            ..OsdStat::default()
        }
    }
}
