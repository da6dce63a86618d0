//! What OSDs tell the monitors: that they are up, alive, failed, full; and what the monitors ask of them.
//!
//! Follows Ceph v16.2 `src/messages/MOSDBoot.h`, `MOSDFailure.h`, `MOSDAlive.h`, `MOSDMarkMeDown.h`,
//! `MOSDMarkMeDead.h`, `MOSDFull.h`, `MOSDPGTemp.h`, `MOSDBeacon.h`, `MOSDPGCreated.h`, `MOSDPGCreate2.h`,
//! `MOSDScrub2.h`, and `src/osd/osd_types.cc` (`OSDSuperblock`), `src/include/CompatSet.h`.

use super::body::{PaxosHead, Sealed, message};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::osd::SpgId;
use crate::types::{AddrVec, UTime, Uuid};
use base::{EVersion, Epoch, OsdId, PgId};
use std::collections::BTreeMap;

message! {
    /// An OSD is ready to be marked up.
    OsdBoot(71, 7, 7) {
        /// The head; the version is the OSD's newest map.
        paxos: PaxosHead,
        /// Who it is and which maps it has.
        superblock: OsdSuperblock,
        /// Where it answers heartbeats from the cluster network.
        hb_back_addrs: AddrVec,
        /// Where other OSDs reach it.
        cluster_addrs: AddrVec,
        /// The map in which it was last up in this life; 0 at first.
        boot_epoch: Epoch,
        /// Where it answers heartbeats from the public network.
        hb_front_addrs: AddrVec,
        /// What kind of machine and store it is (`ceph osd metadata`).
        metadata: BTreeMap<String, String>,
        /// Its features.
        features: u64,
    }

    /// Another OSD does not answer, or (flag 1 missing) answers again.
    OsdFailure(72, 4, 4) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// Which OSD.
        target: OsdId,
        /// Which life of it.
        target_addrs: AddrVec,
        /// The reporter's map.
        epoch: Epoch,
        /// `osd_failure`.
        flags: u8,
        /// For how many seconds.
        failed_for_s: i32,
    }

    /// An OSD wants the map to say that it was alive in this epoch (`up_thru`).
    OsdAlive(73, 1, 1) {
        /// The head; the version is the OSD's newest map.
        paxos: PaxosHead,
        /// The epoch.
        want: Epoch,
    }

    /// An OSD is going to stop; and the monitor's answer, the same message.
    OsdMarkMeDown(74, 4, 3) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// Which OSD.
        target: OsdId,
        /// Which life of it.
        target_addrs: AddrVec,
        /// The OSD's map.
        epoch: Epoch,
        /// Whether it waits for an answer.
        request_ack: bool,
        /// Whether it will not even serve what it knows any more.
        down_and_dead: bool = since 4,
    }

    /// An OSD that is marked down says that it has noticed.
    OsdMarkMeDead(123, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// Which OSD.
        target: OsdId,
        /// The OSD's map.
        epoch: Epoch,
    }

    /// How full an OSD is.
    OsdFull(75, 1, 1) {
        /// The head.
        paxos: PaxosHead,
        /// The OSD's map.
        epoch: Epoch,
        /// State bits of the OSD map: nearfull, backfillfull, full.
        state: u32,
    }

    /// A primary asks for another acting set while it backfills.
    OsdPgTemp(78, 2, 1) {
        /// The head.
        paxos: PaxosHead,
        /// The OSD's map.
        epoch: Epoch,
        /// Acting sets; empty takes the wish back.
        pg_temp: BTreeMap<PgId, Vec<OsdId>>,
        /// Set it although the map already says so.
        forced: bool = since 2,
    }

    /// A primary says whether a placement group and the one that it is to be merged into are ready.
    OsdPgReadyToMerge(122, 1, 1) {
        /// The head; the version is the OSD's newest map.
        paxos: PaxosHead,
        /// The group that goes.
        source: PgId,
        /// Its last version.
        source_version: EVersion,
        /// The other's.
        target_version: EVersion,
        /// The last start of both.
        last_epoch_started: Epoch,
        /// When both were clean last.
        last_epoch_clean: Epoch,
        /// Whether they are; if not, the merge is given up for now.
        ready: bool,
    }

    /// An OSD is alive; sent regularly.
    OsdBeacon(79, 3, 1) {
        /// The head; the version is the OSD's newest map.
        paxos: PaxosHead,
        /// Its placement groups.
        pgs: Vec<PgId>,
        /// The oldest epoch its placement groups still need.
        min_last_epoch_clean: Epoch,
        /// When it last compared its records of purged snapshots.
        last_purged_snaps_scrub: UTime = since 2,
        /// How often it sends this, in seconds.
        report_interval_s: u32 = since 3,
    }

    /// A placement group has been created.
    OsdPgCreated(116, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// Which.
        pg: PgId,
    }

    /// Tells an OSD to create placement groups.
    OsdPgCreate(120, 2, 1) {
        /// The map that holds them.
        epoch: Epoch,
        /// Each one's epoch of creation and its time.
        pgs: BTreeMap<SpgId, (Epoch, UTime)>,
        /// Each one's encoded `pg_history_t` and `PastIntervals`.
        history: BTreeMap<SpgId, (Sealed, Sealed)> = since 2,
    }

    /// Tells an OSD to scrub placement groups.
    OsdScrub(121, 1, 1) {
        /// The cluster.
        fsid: Uuid,
        /// The sender's map.
        epoch: Epoch,
        /// Which.
        pgs: Vec<SpgId>,
        /// Whether to repair.
        repair: bool,
        /// Whether to read data too.
        deep: bool,
    }

    /// Tells an OSD to recover placement groups before others, or no longer to.
    OsdForceRecovery(151, 2, 2) {
        /// The cluster.
        fsid: Uuid,
        /// Which.
        pgs: Vec<SpgId>,
        /// What is meant, in `force_recovery`'s bits.
        options: u8,
    }
}

/// What an `OsdForceRecovery` asks for (`OFR_*`).
pub mod force_recovery {
    /// Recovery first.
    pub const RECOVERY: u8 = 1;
    /// Backfill first.
    pub const BACKFILL: u8 = 2;
    /// No longer.
    pub const CANCEL: u8 = 4;
}

/// What an `OsdFailure` says (`MOSDFailure::FLAG_*`).
pub mod osd_failure {
    /// The OSD still answers again: the report is taken back.
    pub const ALIVE: u8 = 0;
    /// It has failed.
    pub const FAILED: u8 = 1;
    /// Nobody listens there; believe it at once.
    pub const IMMEDIATE: u8 = 2;
}

/// One of a `CompatSet`'s three sets: a bit for each feature and its name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FeatureSet {
    /// A bit for each feature.
    pub mask: u64,
    /// The features' names by bit.
    pub names: BTreeMap<u64, String>,
}

impl Encode for FeatureSet {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.mask);
        e.put(&self.names);
    }
}

impl Decode for FeatureSet {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(FeatureSet { mask: d.u64()?, names: d.get()? })
    }
}

/// Which features of a disk format a reader must know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompatSet {
    /// May be ignored.
    pub compat: FeatureSet,
    /// Must be known for writing.
    pub ro_compat: FeatureSet,
    /// Must be known.
    pub incompat: FeatureSet,
}

impl Encode for CompatSet {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.compat);
        e.put(&self.ro_compat);
        e.put(&self.incompat);
    }
}

impl Decode for CompatSet {
    const MIN_BYTES: usize = 36;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(CompatSet { compat: d.get()?, ro_compat: d.get()?, incompat: d.get()? })
    }
}

/// Who an OSD is and which maps it has (`OSDSuperblock`, version 10).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdSuperblock {
    /// The cluster it belongs to.
    pub cluster_fsid: Uuid,
    /// Its number.
    pub whoami: OsdId,
    /// The map it last worked with.
    pub current_epoch: Epoch,
    /// The oldest map it has.
    pub oldest_map: Epoch,
    /// The newest.
    pub newest_map: Epoch,
    /// Historical.
    pub weight: f64,
    /// Its disk format's features.
    pub compat_features: CompatSet,
    /// The last epoch in which it was surely clean.
    pub clean_thru: Epoch,
    /// The epoch in which it was last mounted.
    pub mounted: Epoch,
    /// Names its disk.
    pub osd_fsid: Uuid,
    /// The last epoch in which the cluster was marked full.
    pub last_map_marked_full: Epoch,
    /// The same by pool.
    pub pool_last_map_marked_full: BTreeMap<i64, Epoch>,
    /// How far purged snapshots are recorded.
    pub purged_snaps_last: Epoch,
    /// When that record was last compared.
    pub last_purged_snaps_scrub: UTime,
    /// Below which the monitors have trimmed OSD maps; version 10.
    pub osdmap_trim_lower_bound: Epoch,
}

impl Encode for OsdSuperblock {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(10, 5, |e| {
            e.put(&self.cluster_fsid);
            e.put(&self.whoami);
            e.put(&self.current_epoch);
            e.put(&self.oldest_map);
            e.put(&self.newest_map);
            e.f64(self.weight);
            e.put(&self.compat_features);
            e.put(&self.clean_thru);
            e.put(&self.mounted);
            e.put(&self.osd_fsid);
            e.put(&self.last_map_marked_full);
            e.put(&self.pool_last_map_marked_full);
            e.put(&self.purged_snaps_last);
            e.put(&self.last_purged_snaps_scrub);
            e.put(&self.osdmap_trim_lower_bound);
        });
    }
}

impl Decode for OsdSuperblock {
    const MIN_BYTES: usize = 6;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("OSDSuperblock", 10, |d, version| {
            if version < 9 {
                return Err(Malformed::new("OSDSuperblock", "is older than any supported peer's"));
            }
            Ok(OsdSuperblock {
                cluster_fsid: d.get()?,
                whoami: d.get()?,
                current_epoch: d.get()?,
                oldest_map: d.get()?,
                newest_map: d.get()?,
                weight: d.f64()?,
                compat_features: d.get()?,
                clean_thru: d.get()?,
                mounted: d.get()?,
                osd_fsid: d.get()?,
                last_map_marked_full: d.get()?,
                pool_last_map_marked_full: d.get()?,
                purged_snaps_last: d.get()?,
                last_purged_snaps_scrub: d.get()?,
                osdmap_trim_lower_bound: if version >= 10 { d.get()? } else { Epoch(0) },
            })
        })
    }
}
