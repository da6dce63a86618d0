//! The OSD map: everything clients and OSDs must agree on to find data (`OSDMap`).
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.{h,cc}`. Owns the map's fields and the questions asked of them; its bytes are in
//! [`codec`], its changes in [`crate::incremental`], placement in [`crate::placement`].
//!
//! Invariant: everything kept per OSD has one entry per id below `max_osd`; those fields are private for it. The rest
//! is plain data. Large parts sit behind `Arc`, so that keeping the maps of many epochs costs what changed.
//!
//! Read next: `incremental`, the only way maps change in a running cluster.

pub mod codec;
pub mod flags;

use crate::osd_state::{OsdAddrs, OsdInfo, OsdState, OsdXInfo, WEIGHT_ONE};
use crate::pool::PgPool;
use crate::release::Release;
use crate::snap_set::SnapSet;
use base::{Epoch, OsdId, PgId, PoolId};
use bytes::Bytes;
use core::net::IpAddr;
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::types::{AddrKind, EntityAddr, UTime, Uuid};

pub use flags::MapFlags;

/// Settings of erasure codes by profile name.
pub type ErasureProfiles = BTreeMap<String, BTreeMap<String, String>>;

/// A map and its one true encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedMap {
    /// The whole encoding.
    pub bytes: Bytes,
    /// The checksum inside it, which incrementals to this map name.
    pub crc: u32,
}

/// Stretch mode: two sites and a tiebreaker. Carried and placed by; the monitor never enters it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StretchMode {
    /// Is it on?
    pub enabled: bool,
    /// How many sites.
    pub bucket_count: u32,
    /// How many sites are left; 0 when healthy.
    pub degraded: u32,
    /// Non-zero while coming back.
    pub recovering: u32,
    /// The CRUSH type of a site.
    pub bucket_type: i32,
}

/// The OSD map of one epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdMap {
    /// The cluster.
    pub fsid: Uuid,
    /// Which version this is.
    pub epoch: Epoch,
    /// When the cluster was made.
    pub created: UTime,
    /// When this version was made.
    pub modified: UTime,
    /// The pools.
    pub pools: BTreeMap<PoolId, Arc<PgPool>>,
    /// Their names.
    pub pool_names: BTreeMap<PoolId, String>,
    /// The highest pool number ever used.
    pub pool_max: PoolId,
    /// Flags of the whole cluster.
    pub flags: MapFlags,
    /// Placement groups served by others than placement says, for now.
    pub pg_temp: Arc<BTreeMap<PgId, Vec<OsdId>>>,
    /// Placement groups led by another than placement says, for now.
    pub primary_temp: Arc<BTreeMap<PgId, OsdId>>,
    /// How data is spread.
    pub crush: Arc<CrushMap>,
    /// Counts the changes of `crush`.
    pub crush_version: u32,
    /// Erasure codes.
    pub erasure_code_profiles: Arc<ErasureProfiles>,
    /// Whole mappings that replace CRUSH's.
    pub pg_upmap: Arc<BTreeMap<PgId, Vec<OsdId>>>,
    /// Single OSDs replaced in CRUSH's mapping: (from, to).
    pub pg_upmap_items: Arc<BTreeMap<PgId, Vec<(OsdId, OsdId)>>>,
    /// Snapshots removed in this very epoch.
    pub new_removed_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots whose removal was finished in this very epoch.
    pub new_purged_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots being removed.
    pub removed_snaps_queue: Arc<BTreeMap<PoolId, SnapSet>>,
    /// When an OSD last went up or down.
    pub last_up_change: UTime,
    /// When an OSD last went in or out.
    pub last_in_change: UTime,
    /// Client instances that must not write any more, and until when.
    pub blocklist: Arc<BTreeMap<EntityAddr, UTime>>,
    /// The same of whole networks: addresses of kind [`AddrKind::Cidr`], whose nonce is the prefix length in bits.
    pub range_blocklist: Arc<BTreeMap<EntityAddr, UTime>>,
    /// The epoch of `cluster_snapshot`.
    pub cluster_snapshot_epoch: Epoch,
    /// A name given to the cluster's state, of old; empty.
    pub cluster_snapshot: String,
    /// Used share of an OSD from which there is a warning.
    pub nearfull_ratio: f32,
    /// Used share from which nothing is backfilled to it.
    pub backfillfull_ratio: f32,
    /// Used share from which nothing is written.
    pub full_ratio: f32,
    /// The oldest clients allowed.
    pub require_min_compat_client: Release,
    /// The oldest OSDs allowed.
    pub require_osd_release: Release,
    /// noup, noout and so on by CRUSH node.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// The same by device class.
    pub device_class_flags: BTreeMap<i32, u32>,
    /// Stretch mode.
    pub stretch: StretchMode,

    pub(crate) osds: OsdTable,
}

/// What is kept per OSD id. All vectors have the same length, `max_osd`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct OsdTable {
    pub(crate) state: Vec<OsdState>,
    pub(crate) weight: Vec<u32>,
    pub(crate) addrs: Vec<Arc<OsdAddrs>>,
    /// None while every OSD has the default: it is left out of the bytes then.
    pub(crate) primary_affinity: Option<Vec<u32>>,
    pub(crate) info: Vec<OsdInfo>,
    pub(crate) xinfo: Vec<OsdXInfo>,
    pub(crate) uuid: Arc<Vec<Uuid>>,
}

impl OsdTable {
    pub(crate) fn resize(&mut self, len: usize) {
        if len == self.state.len() {
            return;
        }
        self.state.resize(len, OsdState::default());
        self.weight.resize(len, 0);
        let nowhere = Arc::new(OsdAddrs::default());
        self.addrs.resize(len, nowhere);
        if let Some(affinity) = &mut self.primary_affinity {
            affinity.resize(len, WEIGHT_ONE);
        }
        self.info.resize(len, OsdInfo::default());
        self.xinfo.resize(len, OsdXInfo::default());
        Arc::make_mut(&mut self.uuid).resize(len, Uuid::default());
    }

    pub(crate) fn set_primary_affinity(&mut self, at: usize, affinity: u32) {
        match &mut self.primary_affinity {
            None if affinity == WEIGHT_ONE => {}
            slot => slot.get_or_insert_with(|| vec![WEIGHT_ONE; self.state.len()])[at] = affinity,
        }
    }
}

impl OsdMap {
    /// An empty map of epoch 0, to which the first incremental is applied.
    pub fn new(fsid: Uuid) -> OsdMap {
        OsdMap {
            fsid,
            epoch: Epoch(0),
            created: UTime::default(),
            modified: UTime::default(),
            pools: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_max: PoolId(0),
            flags: MapFlags::default(),
            pg_temp: Arc::default(),
            primary_temp: Arc::default(),
            crush: Arc::default(),
            crush_version: 1,
            erasure_code_profiles: Arc::default(),
            pg_upmap: Arc::default(),
            pg_upmap_items: Arc::default(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            removed_snaps_queue: Arc::default(),
            last_up_change: UTime::default(),
            last_in_change: UTime::default(),
            blocklist: Arc::default(),
            range_blocklist: Arc::default(),
            cluster_snapshot_epoch: Epoch(0),
            cluster_snapshot: String::new(),
            nearfull_ratio: 0.0,
            backfillfull_ratio: 0.0,
            full_ratio: 0.0,
            require_min_compat_client: Release::UNKNOWN,
            require_osd_release: Release::UNKNOWN,
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
            stretch: StretchMode::default(),
            osds: OsdTable::default(),
        }
    }

    /// One past the highest OSD id there may be.
    pub fn max_osd(&self) -> i32 {
        self.osds.state.len() as i32
    }

    /// Makes room for ids below `max_osd`; what was above is forgotten. For making a first map; running clusters
    /// change this by incremental. Clamped to [`crate::limits::MAX_OSD`].
    pub fn set_max_osd(&mut self, max_osd: u32) {
        self.osds.resize(max_osd.min(crate::limits::MAX_OSD) as usize);
    }

    /// Where `osd` is in the per-OSD vectors, if its id is below `max_osd`.
    pub(crate) fn slot(&self, osd: OsdId) -> Option<usize> {
        usize::try_from(osd.0).ok().filter(|at| *at < self.osds.state.len())
    }

    /// State bits; none set for an id past `max_osd`.
    pub fn state(&self, osd: OsdId) -> OsdState {
        self.slot(osd).map_or(OsdState::default(), |at| self.osds.state[at])
    }

    /// Is there such an OSD?
    pub fn exists(&self, osd: OsdId) -> bool {
        self.state(osd).contains(OsdState::EXISTS)
    }

    /// Does it exist and is it up?
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.state(osd).contains(OsdState::EXISTS.with(OsdState::UP))
    }

    /// Not up: an OSD that does not exist is down.
    pub fn is_down(&self, osd: OsdId) -> bool {
        !self.is_up(osd)
    }

    /// Does it exist and take data?
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.weight(osd) != 0
    }

    /// Not in: an OSD that does not exist is out.
    pub fn is_out(&self, osd: OsdId) -> bool {
        !self.is_in(osd)
    }

    /// The override weight, 16.16: 0 out, 0x10000 in, between reweighted; 0 past `max_osd`.
    pub fn weight(&self, osd: OsdId) -> u32 {
        self.slot(osd).map_or(0, |at| self.osds.weight[at])
    }

    /// The same map with other override weights of some OSDs: for asking where everything would go.
    pub fn with_weights(&self, weights: &BTreeMap<OsdId, u32>) -> OsdMap {
        let mut map = self.clone();
        for (osd, weight) in weights {
            if let Some(at) = map.slot(*osd) {
                map.osds.weight[at] = *weight;
            }
        }
        map
    }

    /// Override weights of all ids, as CRUSH wants them.
    pub fn weights(&self) -> &[u32] {
        &self.osds.weight
    }

    /// How willing an OSD is to be primary, 16.16.
    pub fn primary_affinity(&self, osd: OsdId) -> u32 {
        match (&self.osds.primary_affinity, self.slot(osd)) {
            (Some(affinity), Some(at)) => affinity[at],
            _ => WEIGHT_ONE,
        }
    }

    /// Epochs of its lives, if the id is below `max_osd`.
    pub fn info(&self, osd: OsdId) -> Option<&OsdInfo> {
        self.slot(osd).map(|at| &self.osds.info[at])
    }

    /// What else is known of it, if the id is below `max_osd`.
    pub fn xinfo(&self, osd: OsdId) -> Option<&OsdXInfo> {
        self.slot(osd).map(|at| &self.osds.xinfo[at])
    }

    /// The uuid of its data, if the id is below `max_osd`; all zero when it has none.
    pub fn uuid(&self, osd: OsdId) -> Option<Uuid> {
        self.slot(osd).map(|at| self.osds.uuid[at])
    }

    /// Where it listens, if the id is below `max_osd`. Stale for an OSD that is down.
    pub fn addrs(&self, osd: OsdId) -> Option<&Arc<OsdAddrs>> {
        self.slot(osd).map(|at| &self.osds.addrs[at])
    }

    /// The OSD whose data has this uuid.
    pub fn osd_by_uuid(&self, uuid: Uuid) -> Option<OsdId> {
        self.osds.uuid.iter().position(|known| *known == uuid).map(|at| OsdId(at as i32))
    }

    /// The OSDs there are, in order of id.
    pub fn osd_ids(&self) -> impl Iterator<Item = OsdId> + '_ {
        (0..self.max_osd()).map(OsdId).filter(|osd| self.exists(*osd))
    }

    /// How many there are, how many of them are up, and how many in.
    pub fn osd_counts(&self) -> OsdCounts {
        self.osd_ids().fold(OsdCounts::default(), |sum, osd| OsdCounts {
            exist: sum.exist + 1,
            up: sum.up + usize::from(self.is_up(osd)),
            r#in: sum.r#in + usize::from(self.is_in(osd)),
        })
    }

    /// A pool by number.
    pub fn pool(&self, id: PoolId) -> Option<&Arc<PgPool>> {
        self.pools.get(&id)
    }

    /// A pool's name.
    pub fn pool_name(&self, id: PoolId) -> Option<&str> {
        self.pool_names.get(&id).map(String::as_str)
    }

    /// A pool's number by its name. Linear: names are looked up by people, not by ops.
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        self.pool_names.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }

    /// Is there such a placement group?
    pub fn pg_exists(&self, pg: PgId) -> bool {
        self.pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num)
    }

    /// Is this very client instance, its whole address, or its network blocklisted? Entries are of no particular
    /// protocol; one without port and nonce stands for every instance at its address.
    pub fn is_blocklisted(&self, addr: &EntityAddr) -> bool {
        if self.blocklist.is_empty() && self.range_blocklist.is_empty() {
            return false;
        }
        let instance = EntityAddr { kind: AddrKind::Any, ..*addr };
        let mut host = EntityAddr { nonce: 0, ..instance };
        if let Some(socket) = &mut host.socket {
            socket.set_port(0);
        }
        let listed =
            self.blocklist.contains_key(&instance) || (host.socket.is_some() && self.blocklist.contains_key(&host));
        listed || self.range_blocklist.keys().any(|range| is_within(range, addr))
    }

    /// The device class of an OSD, if CRUSH gives it one.
    pub fn device_class(&self, osd: OsdId) -> Option<&str> {
        self.crush.item_class(osd.0)
    }
}

/// Whether an address lies in a network.
fn is_within(range: &EntityAddr, addr: &EntityAddr) -> bool {
    let (Some(range_ip), Some(ip)) = (range.socket.map(|s| s.ip()), addr.socket.map(|s| s.ip())) else { return false };
    let (differ, width) = match (range_ip, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits() ^ b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits(), 128),
        _ => return false,
    };
    let host_bits = width - range.nonce.min(width);
    differ.checked_shr(host_bits).unwrap_or(0) == 0
}

/// How many OSDs there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OsdCounts {
    /// That exist.
    pub exist: usize,
    /// That are up.
    pub up: usize,
    /// That are in.
    pub r#in: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_shut_out_to_the_bit() {
        let addr = |text: &str| EntityAddr::msgr2(text.parse().expect("an address"), 77);
        let range = |text: &str, bits| EntityAddr { kind: AddrKind::Cidr, nonce: bits, ..addr(text) };
        let shuts_out = |range: EntityAddr, text: &str| {
            let mut map = OsdMap::new(Uuid::default());
            map.range_blocklist = Arc::new(BTreeMap::from([(range, UTime::default())]));
            map.is_blocklisted(&addr(text))
        };
        assert!(shuts_out(range("10.1.2.0:0", 23), "10.1.3.255:4"));
        assert!(!shuts_out(range("10.1.2.0:0", 23), "10.1.4.0:0"));
        assert!(!shuts_out(range("10.1.2.0:0", 24), "10.1.3.255:0"));
        assert!(shuts_out(range("10.1.2.7:0", 32), "10.1.2.7:0") && !shuts_out(range("10.1.2.7:0", 32), "10.1.2.6:0"));
        assert!(shuts_out(range("0.0.0.0:0", 0), "10.1.4.0:0") && !shuts_out(range("0.0.0.0:0", 0), "[::1]:0"));
        assert!(shuts_out(range("[2001:db8::]:0", 32), "[2001:db8:ffff::1]:0"));
        assert!(!shuts_out(range("[2001:db8::]:0", 33), "[2001:db8:ffff::1]:0"));
        assert!(shuts_out(range("[::]:0", 0), "[2001::1]:0"));
    }
}
