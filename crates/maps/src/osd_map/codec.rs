//! The OSD map's bytes: an envelope of two sections, one that clients read and one for OSDs, and a checksum.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc`, `OSDMap::encode` with every significant feature: envelope 8, client section
//! 9, OSD section 9 (10 in stretch mode, 11 where networks are shut out). Refuses older sections (clusters whose `require_osd_release` is below
//! Nautilus), newer fields it would drop on re-encoding, wrong checksums, and per-OSD vectors of unequal lengths.

use super::{EncodedMap, OsdMap, OsdTable, StretchMode};
use crate::limits;
use crate::osd_state::{OsdAddrs, OsdState};
use crate::pool::PgPool;
use base::PoolId;
use base::checksum::{CRC_SEED, crc32c};
use crush::CrushMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::AddrVec;

/// The envelope's version and the oldest reader's.
pub(crate) const ENVELOPE: (u8, u8) = (8, 7);

const CLIENT_VERSION: u8 = 9;
const OSD_VERSION: u8 = 9;
const OSD_VERSION_STRETCH: u8 = 10;
const OSD_VERSION_RANGES: u8 = 11;

/// Appends an envelope of `sections` followed by a checksum and `tail`, and gives the checksum: over everything but
/// itself.
pub(crate) fn encode_checked(
    e: &mut Encoder,
    sections: impl FnOnce(&mut Encoder),
    tail: impl FnOnce(&mut Encoder),
) -> u32 {
    let start = e.position();
    let mut at = 0;
    e.versioned(ENVELOPE.0, ENVELOPE.1, |e| {
        sections(e);
        at = e.position();
        e.u32(0);
        tail(e);
    });
    let bytes = e.as_slice();
    let crc = crc32c(crc32c(CRC_SEED, &bytes[start..at]), &bytes[at + 4..]);
    e.patch_u32(at, crc);
    crc
}

/// Reads what [`encode_checked`] wrote and checks it.
pub(crate) fn decode_checked<'a, T>(
    d: &mut Decoder<'a>,
    what: &'static str,
    sections: impl FnOnce(&mut Decoder<'a>) -> Result<T, Malformed>,
    tail: impl FnOnce(&mut T, &mut Decoder<'a>) -> Result<(), Malformed>,
) -> Result<(T, u32), Malformed> {
    let whole = d.peek();
    let (mut crc_at, mut stored) = (0, 0);
    let mut value = d.versioned(what, ENVELOPE.0, |d, version| {
        if version < ENVELOPE.0 {
            return Err(Malformed::new(what, "has no checksum: it is older than Firefly writes"));
        }
        let len = d.remaining();
        let mut value = sections(d)?;
        // Six bytes of header come before the envelope's content.
        crc_at = 6 + len - d.remaining();
        stored = d.u32()?;
        tail(&mut value, d)?;
        Ok(value)
    });
    let used = &whole[..whole.len() - d.remaining()];
    if value.is_ok() && crc32c(crc32c(CRC_SEED, &used[..crc_at]), &used[crc_at + 4..]) != stored {
        value = Err(Malformed::new(what, "has a wrong checksum"));
    }
    value.map(|value| (value, stored))
}

/// One of the four vectors of addresses, which hold one per OSD.
fn encode_addrs(e: &mut Encoder, table: &OsdTable, which: fn(&OsdAddrs) -> &AddrVec) {
    e.len(table.addrs.len());
    table.addrs.iter().for_each(|addrs| e.put(which(addrs)));
}

impl OsdMap {
    /// The map's one true encoding and its checksum.
    pub fn encoded(&self) -> EncodedMap {
        let mut e = Encoder::with_capacity(4096 + 400 * self.osds.state.len() + 400 * self.pools.len());
        let crc = self.encode_into(&mut e);
        EncodedMap { bytes: e.finish(), crc }
    }

    fn encode_into(&self, e: &mut Encoder) -> u32 {
        let sections = |e: &mut Encoder| {
            e.versioned(CLIENT_VERSION, 1, |e| self.encode_client_section(e));
            let version = self.osd_version();
            e.versioned(version, 1, |e| self.encode_osd_section(e, version));
        };
        encode_checked(e, sections, |_| ())
    }

    fn encode_client_section(&self, e: &mut Encoder) {
        e.put(&self.fsid);
        e.put(&self.epoch);
        e.put(&self.created);
        e.put(&self.modified);
        e.len(self.pools.len());
        for (id, pool) in &self.pools {
            e.put(id);
            e.put(&**pool);
        }
        e.put(&self.pool_names);
        // Narrower here than in incrementals. A pool numbered past 32 bits cannot be reached by counting.
        e.i32(i32::try_from(self.pool_max.0).unwrap_or(i32::MAX));
        e.put(&self.flags);
        e.i32(self.max_osd());
        e.put(&self.osds.state);
        e.put(&self.osds.weight);
        encode_addrs(e, &self.osds, |addrs| &addrs.client);
        e.put(&*self.pg_temp);
        e.put(&*self.primary_temp);
        match &self.osds.primary_affinity {
            Some(affinity) => e.put(affinity),
            None => e.len(0),
        }
        e.sized(|e| e.put(&*self.crush));
        e.put(&*self.erasure_code_profiles);
        e.put(&*self.pg_upmap);
        e.put(&*self.pg_upmap_items);
        e.u32(self.crush_version);
        e.put(&self.new_removed_snaps);
        e.put(&self.new_purged_snaps);
        e.put(&self.last_up_change);
        e.put(&self.last_in_change);
    }

    /// The oldest version of the OSD section that can say everything.
    fn osd_version(&self) -> u8 {
        match (self.range_blocklist.is_empty(), self.stretch.enabled) {
            (false, _) => OSD_VERSION_RANGES,
            (true, true) => OSD_VERSION_STRETCH,
            (true, false) => OSD_VERSION,
        }
    }

    fn encode_osd_section(&self, e: &mut Encoder, version: u8) {
        encode_addrs(e, &self.osds, |addrs| &addrs.heartbeat_back);
        e.put(&self.osds.info);
        e.put(&*self.blocklist);
        encode_addrs(e, &self.osds, |addrs| &addrs.cluster);
        e.put(&self.cluster_snapshot_epoch);
        e.string(&self.cluster_snapshot);
        e.put(&*self.osds.uuid);
        e.put(&self.osds.xinfo);
        encode_addrs(e, &self.osds, |addrs| &addrs.heartbeat_front);
        e.f32(self.nearfull_ratio);
        e.f32(self.full_ratio);
        e.f32(self.backfillfull_ratio);
        e.put(&self.require_min_compat_client);
        e.put(&self.require_osd_release);
        e.put(&*self.removed_snaps_queue);
        e.put(&self.crush_node_flags);
        e.put(&self.device_class_flags);
        if version >= OSD_VERSION_STRETCH {
            e.bool(self.stretch.enabled);
            e.u32(self.stretch.bucket_count);
            e.u32(self.stretch.degraded);
            e.u32(self.stretch.recovering);
            e.i32(self.stretch.bucket_type);
        }
        if version >= OSD_VERSION_RANGES {
            e.put(&*self.range_blocklist);
        }
    }
}

impl Encode for OsdMap {
    fn encode(&self, e: &mut Encoder) {
        self.encode_into(e);
    }
}

/// The addresses' vectors as they come, before they are joined per OSD.
#[derive(Default)]
struct AddrColumns {
    client: Vec<AddrVec>,
    cluster: Vec<AddrVec>,
    front: Vec<AddrVec>,
    back: Vec<AddrVec>,
}

impl OsdMap {
    fn decode_client_section(&mut self, d: &mut Decoder<'_>, columns: &mut AddrColumns) -> Result<(), Malformed> {
        self.fsid = d.get()?;
        self.epoch = d.get()?;
        self.created = d.get()?;
        self.modified = d.get()?;
        self.pools = d.get::<BTreeMap<_, PgPool>>()?.into_iter().map(|(id, pool)| (id, Arc::new(pool))).collect();
        self.pool_names = d.get()?;
        self.pool_max = PoolId(i64::from(d.i32()?));
        self.flags = d.get()?;
        let max_osd = d.i32()?;
        self.osds.state = d.get::<Vec<OsdState>>()?;
        if usize::try_from(max_osd) != Ok(self.osds.state.len()) || max_osd as u32 > limits::MAX_OSD {
            return Err(Malformed::new("OSDMap", "has max_osd out of range or another count of OSDs"));
        }
        self.osds.weight = d.get()?;
        columns.client = d.get()?;
        self.pg_temp = Arc::new(d.get()?);
        self.primary_temp = Arc::new(d.get()?);
        let affinity: Vec<u32> = d.get()?;
        self.osds.primary_affinity = (!affinity.is_empty()).then_some(affinity);
        self.crush = Arc::new(CrushMap::from_bytes(&d.blob()?)?);
        self.erasure_code_profiles = Arc::new(d.get()?);
        self.pg_upmap = Arc::new(d.get()?);
        self.pg_upmap_items = Arc::new(d.get()?);
        self.crush_version = d.u32()?;
        self.new_removed_snaps = d.get()?;
        self.new_purged_snaps = d.get()?;
        self.last_up_change = d.get()?;
        self.last_in_change = d.get()?;
        Ok(())
    }

    fn decode_osd_section(
        &mut self,
        d: &mut Decoder<'_>,
        version: u8,
        columns: &mut AddrColumns,
    ) -> Result<(), Malformed> {
        columns.back = d.get()?;
        self.osds.info = d.get()?;
        self.blocklist = Arc::new(d.get()?);
        columns.cluster = d.get()?;
        self.cluster_snapshot_epoch = d.get()?;
        self.cluster_snapshot = d.string()?;
        self.osds.uuid = Arc::new(d.get()?);
        self.osds.xinfo = d.get()?;
        columns.front = d.get()?;
        self.nearfull_ratio = d.f32()?;
        self.full_ratio = d.f32()?;
        self.backfillfull_ratio = d.f32()?;
        self.require_min_compat_client = d.get()?;
        self.require_osd_release = d.get()?;
        self.removed_snaps_queue = Arc::new(d.get()?);
        self.crush_node_flags = d.get()?;
        self.device_class_flags = d.get()?;
        if version >= OSD_VERSION_STRETCH {
            self.stretch = StretchMode {
                enabled: d.bool()?,
                bucket_count: d.u32()?,
                degraded: d.u32()?,
                recovering: d.u32()?,
                bucket_type: d.i32()?,
            };
        }
        if version >= OSD_VERSION_RANGES {
            self.range_blocklist = Arc::new(d.get()?);
        }
        Ok(())
    }

    /// Joins the columns per OSD and checks that each column has one entry per OSD.
    fn join(&mut self, columns: AddrColumns) -> Result<(), Malformed> {
        let table = &mut self.osds;
        let count = table.state.len();
        let lens = [
            table.weight.len(),
            table.info.len(),
            table.xinfo.len(),
            table.uuid.len(),
            table.primary_affinity.as_ref().map_or(count, Vec::len),
            columns.client.len(),
            columns.cluster.len(),
            columns.front.len(),
            columns.back.len(),
        ];
        if lens.iter().any(|len| *len != count) {
            return Err(Malformed::new("OSDMap", "does not have one entry per OSD everywhere"));
        }
        let pairs = columns.client.into_iter().zip(columns.cluster);
        let heartbeats = columns.front.into_iter().zip(columns.back);
        table.addrs = pairs
            .zip(heartbeats)
            .map(|((client, cluster), (heartbeat_front, heartbeat_back))| {
                Arc::new(OsdAddrs { client, cluster, heartbeat_front, heartbeat_back })
            })
            .collect();
        Ok(())
    }
}

impl Decode for OsdMap {
    const MIN_BYTES: usize = 128;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let sections = |d: &mut Decoder<'_>| {
            let mut map = OsdMap::new(Default::default());
            let mut columns = AddrColumns::default();
            d.versioned("OSDMap client section", CLIENT_VERSION, |d, version| {
                section_version("OSDMap", version, CLIENT_VERSION..=CLIENT_VERSION)?;
                map.decode_client_section(d, &mut columns)
            })?;
            d.versioned("OSDMap OSD section", OSD_VERSION, |d, version| {
                section_version("OSDMap", version, OSD_VERSION..=OSD_VERSION_RANGES)?;
                map.decode_osd_section(d, version, &mut columns)
            })?;
            map.join(columns)?;
            Ok(map)
        };
        Ok(decode_checked(d, "OSDMap", sections, |_, _| Ok(()))?.0)
    }
}

/// Refuses sections that lack fields or that have fields which re-encoding would lose.
pub(crate) fn section_version(
    what: &'static str,
    version: u8,
    known: core::ops::RangeInclusive<u8>,
) -> Result<(), Malformed> {
    if version < *known.start() {
        return Err(Malformed::new(what, "has a section older than Nautilus writes"));
    }
    if version > *known.end() {
        return Err(Malformed::new(what, "has a section newer than Pacific writes"));
    }
    Ok(())
}
