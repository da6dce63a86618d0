//! OSD maps on their way to those who follow them.
//!
//! Follows Ceph v16.2 `src/messages/MOSDMap.h`. Crate `maps` opens the blobs.

use super::body::{Rest, message};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::Uuid;
use base::{Epoch, PoolId};
use bytes::Bytes;
use std::collections::BTreeMap;

message! {
    /// Maps, whole or as changes to the one before.
    OsdMap(41, 4, 3) {
        /// The cluster.
        fsid: Uuid,
        /// Changes, by the epoch they lead to.
        incremental: BTreeMap<Epoch, Bytes>,
        /// Whole maps.
        full: BTreeMap<Epoch, Bytes>,
        /// The oldest epoch the sender has.
        oldest: Epoch = since 2,
        /// The newest.
        newest: Epoch = since 2,
        /// Snapshots removed in epochs that are skipped here, by pool.
        gap_removed_snaps: BTreeMap<PoolId, SnapIntervals> = since 4,
    }

    /// CephFS's maps (`maps::FsMap`).
    FsMap(45, 1, 1) {
        /// The maps' epoch.
        epoch: Epoch,
        /// The maps.
        map: Rest,
    }

    /// CephFS's maps, as much as a client may see.
    FsMapUser(103, 1, 1) {
        /// The maps' epoch.
        epoch: Epoch,
        /// The maps.
        map: Rest,
    }

    /// One file system's map of MDSs.
    MdsMap(21, 2, 1) {
        /// The cluster.
        fsid: Uuid,
        /// The map's epoch.
        epoch: Epoch,
        /// The map.
        map: Bytes,
        /// The file system's name.
        fs_name: String = since 2,
    }

    /// Asks which snapshots have been purged, of an OSD that scrubs its own records of them.
    MonGetPurgedSnaps(76, 1, 1) {
        /// The usual head.
        paxos: super::PaxosHead,
        /// The first epoch of interest.
        start: Epoch,
        /// The one after the last.
        last: Epoch,
    }

    /// The purged snapshots asked for.
    MonGetPurgedSnapsReply(77, 1, 1) {
        /// The usual head.
        paxos: super::PaxosHead,
        /// The first epoch.
        start: Epoch,
        /// The one after the last.
        last: Epoch,
        /// By epoch and pool.
        purged: BTreeMap<Epoch, BTreeMap<PoolId, SnapIntervals>>,
    }
}

/// Ranges of snapshot numbers: start and length (`snap_interval_set_t`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapIntervals(pub BTreeMap<u64, u64>);

impl Encode for SnapIntervals {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0);
    }
}

impl Decode for SnapIntervals {
    const MIN_BYTES: usize = 4;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(SnapIntervals(d.get()?))
    }
}
