//! Statistics from OSDs to whoever does the manager's duties.
//!
//! Follows Ceph v16.2 `src/messages/MPGStats.h` and `MPGStatsAck.h`. Crate `maps` opens the sealed structures.

use super::body::{PaxosHead, Sealed, message};
use crate::types::{UTime, Uuid};
use base::{Epoch, PgId};
use std::collections::BTreeMap;

message! {
    /// An OSD's statistics and those of the placement groups it leads.
    PgStats(87, 2, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// An encoded `osd_stat_t`.
        osd_stat: Sealed,
        /// Encoded `pg_stat_t`.
        pg_stats: BTreeMap<PgId, Sealed>,
        /// The OSD's map.
        epoch: Epoch,
        /// How long it has had that map; historical.
        had_map_for: UTime,
        /// Room used by pool: encoded `store_statfs_t`.
        pool_stats: BTreeMap<i64, Sealed> = since 2,
    }

    /// Which statistics have arrived.
    PgStatsAck(88, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// By placement group: the version and epoch reported.
        pgs: BTreeMap<PgId, (u64, Epoch)>,
    }
}
