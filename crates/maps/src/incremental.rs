//! The change from one epoch's OSD map to the next (`OSDMap::Incremental`): its fields and bytes.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.{h,cc}` with every significant feature: envelope 8, client section 8, OSD
//! section 9 (10 when stretch mode changes, 11 when networks are shut out or let in). Refuses the same foreign encodings as the map's codec.
//!
//! Read next: [`apply`], which says what the fields do.

pub mod apply;

use crate::osd_map::codec::{decode_checked, encode_checked, section_version};
use crate::osd_map::{ErasureProfiles, MapFlags, StretchMode};
use crate::osd_state::{OsdAddrs, OsdState, OsdXInfo};
use crate::pool::PgPool;
use crate::release::Release;
use crate::snap_set::SnapSet;
use base::{Epoch, OsdId, PgId, PoolId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::{AddrVec, EntityAddr, UTime, Uuid};

pub use apply::ApplyError;

/// The features that decide encodings, all of which a Pacific cluster has (`OSDMap::get_encoding_features` of a map
/// that requires Pacific OSDs, as captured from 16.2.15).
pub const ENCODING_FEATURES: u64 = 0x0f00_0880_1021_2a04;

const CLIENT_VERSION: u8 = 8;
const OSD_VERSION: u8 = 9;
const OSD_VERSION_STRETCH: u8 = 10;
const OSD_VERSION_RANGES: u8 = 11;

/// A change of the OSD map. Empty collections and `None` change nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Incremental {
    /// The cluster.
    pub fsid: Uuid,
    /// The epoch this leads to.
    pub epoch: Epoch,
    /// When it was made.
    pub modified: UTime,
    /// The highest pool number used.
    pub new_pool_max: Option<PoolId>,
    /// All flags of the cluster.
    pub new_flags: Option<MapFlags>,
    /// A whole map that replaces everything; the other fields are ignored then. Empty for none.
    pub full_map: Bytes,
    /// A whole encoded CRUSH map. Empty for none.
    pub crush: Bytes,
    /// One past the highest OSD id.
    pub new_max_osd: Option<u32>,
    /// Pools added or changed, whole.
    pub new_pools: BTreeMap<PoolId, PgPool>,
    /// Pools' new names.
    pub new_pool_names: BTreeMap<PoolId, String>,
    /// Pools removed.
    pub old_pools: BTreeSet<PoolId>,
    /// OSDs that are up from now on, and where.
    pub new_up: BTreeMap<OsdId, OsdAddrs>,
    /// State bits to flip. No bits at all stand for UP; flipping EXISTS of an OSD that exists removes all about it.
    pub new_state: BTreeMap<OsdId, OsdState>,
    /// Override weights, 16.16.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Temporary acting sets; an empty one ends it.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Temporary primaries; [`OsdId::NONE`] ends it.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// Primary affinities, 16.16.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// Erasure code profiles set.
    pub new_erasure_code_profiles: ErasureProfiles,
    /// Erasure code profiles removed.
    pub old_erasure_code_profiles: Vec<String>,
    /// Whole mappings set.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Whole mappings removed.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// Replacements set: (from, to).
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Replacements removed.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// Snapshots removed.
    pub new_removed_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots whose removal is finished.
    pub new_purged_snaps: BTreeMap<PoolId, SnapSet>,
    /// When OSDs went up or down; zero changes nothing.
    pub new_last_up_change: UTime,
    /// When OSDs went in or out; zero changes nothing.
    pub new_last_in_change: UTime,
    /// Epochs in which OSDs were alive.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// Lives that ended cleanly: begin and end.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// OSDs whose data is declared lost.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Client instances shut out, and until when.
    pub new_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Client instances let in again.
    pub old_blocklist: Vec<EntityAddr>,
    /// Networks shut out, and until when.
    pub new_range_blocklist: BTreeMap<EntityAddr, UTime>,
    /// Networks let in again.
    pub old_range_blocklist: Vec<EntityAddr>,
    /// A name for the cluster's state, of old; empty.
    pub cluster_snapshot: String,
    /// Uuids of OSDs' data.
    pub new_uuid: BTreeMap<OsdId, Uuid>,
    /// What else is known of OSDs, whole.
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    /// What the encoder's cluster can read. [`ENCODING_FEATURES`].
    pub encode_features: u64,
    /// Used share from which there is a warning.
    pub new_nearfull_ratio: Option<f32>,
    /// Used share from which nothing is written.
    pub new_full_ratio: Option<f32>,
    /// Used share from which nothing is backfilled.
    pub new_backfillfull_ratio: Option<f32>,
    /// The oldest clients allowed.
    pub new_require_min_compat_client: Option<Release>,
    /// The oldest OSDs allowed.
    pub new_require_osd_release: Option<Release>,
    /// noup and so on by CRUSH node; no bits remove the node.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    /// The same by device class.
    pub new_device_class_flags: BTreeMap<i32, u32>,
    /// Stretch mode as it is from now on.
    pub new_stretch: Option<StretchMode>,
    /// The checksum inside the resulting map's encoding ([`crate::EncodedMap::crc`]): how an OSD knows that it applied
    /// everything as the monitor did.
    pub full_crc: u32,
}

impl Incremental {
    /// The change that does nothing but lead to `epoch`.
    pub fn new(fsid: Uuid, epoch: Epoch, modified: UTime) -> Incremental {
        Incremental { fsid, epoch, modified, encode_features: ENCODING_FEATURES, ..Incremental::default() }
    }
}

/// No release: what stands for "unchanged" on the wire.
const NO_RELEASE: u8 = u8::MAX;

impl Incremental {
    fn encode_client_section(&self, e: &mut Encoder) {
        e.put(&self.fsid);
        e.put(&self.epoch);
        e.put(&self.modified);
        e.put(&self.new_pool_max.unwrap_or(PoolId(-1)));
        e.i32(self.new_flags.map_or(-1, |flags| flags.0 as i32));
        e.blob(&self.full_map);
        e.blob(&self.crush);
        e.i32(self.new_max_osd.map_or(-1, |max| max as i32));
        e.put(&self.new_pools);
        e.put(&self.new_pool_names);
        e.put(&self.old_pools);
        self.encode_addrs(e, |addrs| &addrs.client);
        e.put(&self.new_state);
        e.put(&self.new_weight);
        e.put(&self.new_pg_temp);
        e.put(&self.new_primary_temp);
        e.put(&self.new_primary_affinity);
        e.put(&self.new_erasure_code_profiles);
        e.put(&self.old_erasure_code_profiles);
        e.put(&self.new_pg_upmap);
        e.put(&self.old_pg_upmap);
        e.put(&self.new_pg_upmap_items);
        e.put(&self.old_pg_upmap_items);
        e.put(&self.new_removed_snaps);
        e.put(&self.new_purged_snaps);
        e.put(&self.new_last_up_change);
        e.put(&self.new_last_in_change);
    }

    /// The oldest version of the OSD section that can say everything.
    fn osd_version(&self) -> u8 {
        if !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty() {
            OSD_VERSION_RANGES
        } else if self.new_stretch.is_some() {
            OSD_VERSION_STRETCH
        } else {
            OSD_VERSION
        }
    }

    fn encode_osd_section(&self, e: &mut Encoder, version: u8) {
        self.encode_addrs(e, |addrs| &addrs.heartbeat_back);
        e.put(&self.new_up_thru);
        e.put(&self.new_last_clean_interval);
        e.put(&self.new_lost);
        e.put(&self.new_blocklist);
        e.put(&self.old_blocklist);
        self.encode_addrs(e, |addrs| &addrs.cluster);
        e.string(&self.cluster_snapshot);
        e.put(&self.new_uuid);
        e.put(&self.new_xinfo);
        self.encode_addrs(e, |addrs| &addrs.heartbeat_front);
        e.u64(self.encode_features);
        e.f32(self.new_nearfull_ratio.unwrap_or(-1.0));
        e.f32(self.new_full_ratio.unwrap_or(-1.0));
        e.f32(self.new_backfillfull_ratio.unwrap_or(-1.0));
        e.u8(self.new_require_min_compat_client.map_or(NO_RELEASE, |release| release.0));
        e.u8(self.new_require_osd_release.map_or(NO_RELEASE, |release| release.0));
        e.put(&self.new_crush_node_flags);
        e.put(&self.new_device_class_flags);
        if version >= OSD_VERSION_STRETCH {
            let stretch = self.new_stretch.unwrap_or_default();
            e.bool(self.new_stretch.is_some());
            e.u32(stretch.bucket_count);
            e.u32(stretch.degraded);
            e.u32(stretch.recovering);
            e.i32(stretch.bucket_type);
            e.bool(stretch.enabled);
        }
        if version >= OSD_VERSION_RANGES {
            e.put(&self.new_range_blocklist);
            e.put(&self.old_range_blocklist);
        }
    }

    fn encode_addrs(&self, e: &mut Encoder, which: fn(&OsdAddrs) -> &AddrVec) {
        e.len(self.new_up.len());
        for (osd, addrs) in &self.new_up {
            e.put(osd);
            e.put(which(addrs));
        }
    }

    fn decode_client_section(&mut self, d: &mut Decoder<'_>) -> Result<BTreeMap<OsdId, AddrVec>, Malformed> {
        self.fsid = d.get()?;
        self.epoch = d.get()?;
        self.modified = d.get()?;
        self.new_pool_max = Some(d.get()?).filter(|max| *max != PoolId(-1));
        self.new_flags = u32::try_from(d.i32()?).ok().map(MapFlags);
        self.full_map = d.blob()?;
        self.crush = d.blob()?;
        self.new_max_osd = u32::try_from(d.i32()?).ok();
        self.new_pools = d.get()?;
        self.new_pool_names = d.get()?;
        self.old_pools = d.get()?;
        let client = d.get()?;
        self.new_state = d.get()?;
        self.new_weight = d.get()?;
        self.new_pg_temp = d.get()?;
        self.new_primary_temp = d.get()?;
        self.new_primary_affinity = d.get()?;
        self.new_erasure_code_profiles = d.get()?;
        self.old_erasure_code_profiles = d.get()?;
        self.new_pg_upmap = d.get()?;
        self.old_pg_upmap = d.get()?;
        self.new_pg_upmap_items = d.get()?;
        self.old_pg_upmap_items = d.get()?;
        self.new_removed_snaps = d.get()?;
        self.new_purged_snaps = d.get()?;
        self.new_last_up_change = d.get()?;
        self.new_last_in_change = d.get()?;
        Ok(client)
    }

    fn decode_osd_section(
        &mut self,
        d: &mut Decoder<'_>,
        version: u8,
        client: BTreeMap<OsdId, AddrVec>,
    ) -> Result<(), Malformed> {
        let back = d.get()?;
        self.new_up_thru = d.get()?;
        self.new_last_clean_interval = d.get()?;
        self.new_lost = d.get()?;
        self.new_blocklist = d.get()?;
        self.old_blocklist = d.get()?;
        let cluster = d.get()?;
        self.cluster_snapshot = d.string()?;
        self.new_uuid = d.get()?;
        self.new_xinfo = d.get()?;
        let front = d.get()?;
        self.new_up = join_addrs(client, cluster, front, back)?;
        self.encode_features = d.u64()?;
        let ratio = |value: f32| Some(value).filter(|ratio| *ratio >= 0.0);
        self.new_nearfull_ratio = ratio(d.f32()?);
        self.new_full_ratio = ratio(d.f32()?);
        self.new_backfillfull_ratio = ratio(d.f32()?);
        let release = |number: u8| (number != NO_RELEASE).then_some(Release(number));
        self.new_require_min_compat_client = release(d.u8()?);
        self.new_require_osd_release = release(d.u8()?);
        self.new_crush_node_flags = d.get()?;
        self.new_device_class_flags = d.get()?;
        if version >= OSD_VERSION_STRETCH {
            let changes = d.bool()?;
            let (bucket_count, degraded, recovering) = (d.u32()?, d.u32()?, d.u32()?);
            let bucket_type = d.i32()?;
            let stretch = StretchMode { enabled: d.bool()?, bucket_count, degraded, recovering, bucket_type };
            self.new_stretch = changes.then_some(stretch);
        }
        if version >= OSD_VERSION_RANGES {
            self.new_range_blocklist = d.get()?;
            self.old_range_blocklist = d.get()?;
        }
        Ok(())
    }
}

/// Joins the four maps of addresses, which name the same OSDs.
fn join_addrs(
    client: BTreeMap<OsdId, AddrVec>,
    mut cluster: BTreeMap<OsdId, AddrVec>,
    mut front: BTreeMap<OsdId, AddrVec>,
    mut back: BTreeMap<OsdId, AddrVec>,
) -> Result<BTreeMap<OsdId, OsdAddrs>, Malformed> {
    let uneven = Malformed::new("OSDMap::Incremental", "has addresses of different OSDs in its four maps");
    if [cluster.len(), front.len(), back.len()].iter().any(|len| *len != client.len()) {
        return Err(uneven);
    }
    let mut joined = BTreeMap::new();
    for (osd, client) in client {
        let others = (cluster.remove(&osd), front.remove(&osd), back.remove(&osd));
        let (Some(cluster), Some(heartbeat_front), Some(heartbeat_back)) = others else { return Err(uneven) };
        joined.insert(osd, OsdAddrs { client, cluster, heartbeat_front, heartbeat_back });
    }
    Ok(joined)
}

impl Encode for Incremental {
    fn encode(&self, e: &mut Encoder) {
        let sections = |e: &mut Encoder| {
            e.versioned(CLIENT_VERSION, 1, |e| self.encode_client_section(e));
            let version = self.osd_version();
            e.versioned(version, 1, |e| self.encode_osd_section(e, version));
        };
        encode_checked(e, sections, |e| e.u32(self.full_crc));
    }
}

impl Decode for Incremental {
    const MIN_BYTES: usize = 128;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let sections = |d: &mut Decoder<'_>| {
            let mut inc = Incremental::default();
            let client = d.versioned("OSDMap::Incremental client section", CLIENT_VERSION, |d, version| {
                section_version("OSDMap::Incremental", version, CLIENT_VERSION..=CLIENT_VERSION)?;
                inc.decode_client_section(d)
            })?;
            d.versioned("OSDMap::Incremental OSD section", OSD_VERSION, |d, version| {
                section_version("OSDMap::Incremental", version, OSD_VERSION..=OSD_VERSION_RANGES)?;
                inc.decode_osd_section(d, version, client)
            })?;
            Ok(inc)
        };
        let tail = |inc: &mut Incremental, d: &mut Decoder<'_>| {
            inc.full_crc = d.u32()?;
            Ok(())
        };
        Ok(decode_checked(d, "OSDMap::Incremental", sections, tail)?.0)
    }
}
