//! Pools and snapshots through librados' own calls, and how much room there is.
//!
//! Follows Ceph v16.2 `src/messages/MPoolOp.h`, `MPoolOpReply.h`, `MStatfs.h`, `MStatfsReply.h`, `MGetPoolStats.h`,
//! `MGetPoolStatsReply.h` and `src/include/ceph_fs.h` (`POOL_OP_*`, `ceph_statfs`).

use super::body::{PaxosHead, Sealed, message};
use crate::types::Uuid;
use base::{Epoch, PoolId};
use bytes::Bytes;
use std::collections::BTreeMap;

message! {
    /// Changes a pool.
    PoolOp(49, 4, 2) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// The pool's number; 0 when creating.
        pool: u32,
        /// What to do (`pool_op`).
        op: u32,
        /// Historical: an owner.
        auid: u64,
        /// The snapshot to remove.
        snap: u64,
        /// The pool's or the snapshot's name.
        name: String,
        /// Historical: a rule's number in one byte.
        pad: u8,
        /// The placement rule for a new pool; -1 is the default.
        crush_rule: i16 = since 4,
    }

    /// The answer.
    PoolOpReply(48, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// 0, or an errno negated.
        result: i32,
        /// The OSD map's epoch that holds the change.
        epoch: Epoch,
        /// What the change returned; a snapshot's number.
        response: Option<Bytes>,
    }

    /// Asks how much room there is.
    StatFs(13, 2, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// Only for this pool.
        pool: Option<PoolId> = since 2,
    }

    /// How much room there is.
    StatFsReply(14, 1, 1) {
        /// The cluster.
        fsid: Uuid,
        /// The statistics' version.
        version: u64,
        /// All of it, KiB.
        total_kib: u64,
        /// Used, KiB.
        used_kib: u64,
        /// Available, KiB.
        available_kib: u64,
        /// Objects.
        objects: u64,
    }

    /// Asks for statistics of pools.
    GetPoolStats(58, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// The pools' names.
        pools: Vec<String>,
    }

    /// Statistics of pools.
    GetPoolStatsReply(59, 2, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// By name: an encoded `pool_stat_t` (`maps`).
        stats: BTreeMap<String, Sealed>,
        /// Whether OSDs count omap by pool.
        per_pool: bool = since 2,
    }
}

/// What a `PoolOp` does (`POOL_OP_*`).
pub mod pool_op {
    /// Create a pool.
    pub const CREATE: u32 = 0x01;
    /// Delete a pool.
    pub const DELETE: u32 = 0x02;
    /// Change its owner; historical.
    pub const AUID_CHANGE: u32 = 0x03;
    /// Take a pool snapshot.
    pub const CREATE_SNAP: u32 = 0x11;
    /// Remove a pool snapshot.
    pub const DELETE_SNAP: u32 = 0x12;
    /// Take a number for a self-managed snapshot.
    pub const CREATE_UNMANAGED_SNAP: u32 = 0x21;
    /// Remove a self-managed snapshot.
    pub const DELETE_UNMANAGED_SNAP: u32 = 0x22;
}
