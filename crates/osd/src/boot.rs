//! What an OSD finds in its store when it starts, and how it announces itself.
//!
//! Owns the record of the OSD itself (ours, version 1) in the collection `Meta`.

use crate::config::OsdConfig;
use crate::core::Core;
use crate::deletion::deletion_object;
use crate::pg::Pg;
use crate::pg::info::{INFO_KEY, PgInfo, info_object};
use crate::pg::log::{LogEntry, log_object};
use crate::pg::missing::missing_object;
use crate::placement::Placement;
use crate::suspects::{Suspects, suspects_object};
use base::{Epoch, PgId};
use bytes::Bytes;
use maps::OsdMap;
use std::sync::Arc;
use store::{
    AttrsWant, CollectionId, Extent, ObjectId, ObjectView, ObjectWant, OmapWant, Op, ReadRequest, ReadResult, ReadWhat,
    StoreError, Transaction,
};
use wire::messages::{OsdBoot, OsdSuperblock, PaxosHead};
use wire::types::Uuid;
use wire::{Decode, Decoder, Encoder, Malformed};

/// The features of a Pacific peer with all that is significant (v16.2 `src/include/ceph_features.h`,
/// `CEPH_FEATURES_ALL`).
pub const FEATURES: u64 = 0x3F01_CFBF_FFDF_FFFF;

const PLACEMENT_ATTR: Bytes = Bytes::from_static(b"placement");
const SUPERBLOCK_ATTR: Bytes = Bytes::from_static(b"superblock");

fn osd_object() -> ObjectId {
    ObjectId::record("osd")
}

/// What the store has.
#[derive(Debug, Default)]
pub struct BootImage {
    /// The map in which the store was new; none if it still is.
    pub born: Option<Epoch>,
    /// The newest map.
    pub map: Option<Arc<OsdMap>>,
    /// Its blob.
    pub map_blob: Bytes,
    /// Where every PG is and was.
    pub placement: Placement,
    /// The PGs.
    pub pgs: Vec<Pg>,
    /// Those that are to go.
    pub deleting: Vec<PgId>,
    /// Objects that the store may not be able to read.
    pub suspects: Suspects,
}

/// Asks a store and waits for its answer.
pub type Ask<'a> = &'a mut dyn FnMut(ReadRequest) -> Result<ReadResult, StoreError>;

impl BootImage {
    /// Reads a store. An empty one gives the image of a new OSD; one with placement groups and without the OSD's record,
    /// which is older than any of them, has lost something and is refused.
    pub fn load(id: base::OsdId, osd_fsid: Uuid, ask: Ask<'_>) -> Result<BootImage, StoreError> {
        let every = ReadRequest { collection: CollectionId::Meta, what: ReadWhat::Collections };
        let ReadResult::Collections(collections) = ask(every)? else { return Err(odd()) };
        if !collections.contains(&CollectionId::Meta) {
            return if collections.is_empty() { Ok(BootImage::default()) } else { Err(odd()) };
        }
        let view = ask_object(ask, CollectionId::Meta, osd_object(), true)?;
        let mut image = BootImage::default();
        let Some(superblock) = view.attr(&SUPERBLOCK_ATTR) else { return Err(odd()) };
        image.born = Some(read_superblock(superblock, id, osd_fsid)?);
        if let Some(blob) = view.data.first().filter(|blob| !blob.is_empty()) {
            let map = Arc::new(OsdMap::from_bytes(blob)?);
            let placement = view.attr(&PLACEMENT_ATTR).ok_or_else(odd)?;
            image.placement = Placement::from_bytes(placement, &map)?;
            image.map_blob = blob.clone();
            image.map = Some(map);
        }
        let suspects = ask_object(ask, CollectionId::Meta, suspects_object(), false)?;
        image.suspects = Suspects::read(suspects.omap.first().map_or(&[][..], |part| &part.entries))?;
        for collection in collections {
            if let CollectionId::Pg(pg) = collection {
                if ask_object(ask, collection, deletion_object(), false)?.exists {
                    image.deleting.push(pg);
                } else {
                    image.pgs.push(load_pg(ask, pg)?);
                }
            }
        }
        Ok(image)
    }
}

fn odd() -> StoreError {
    Malformed::new("OSD store", "does not have what an OSD's store has").into()
}

/// Entries of a map asked for at once. A store that lacks a page of what it is asked for may begin anew when it has come.
const ENTRIES_AT_ONCE: u64 = 128;

/// All of an object but, unless it is wanted, its data.
fn ask_object(ask: Ask<'_>, collection: CollectionId, id: ObjectId, data: bool) -> Result<ObjectView, StoreError> {
    let mut view = ask_part(ask, collection, id.clone(), data, Bytes::new())?;
    while let Some(part) = view.omap.first_mut().filter(|part| part.more) {
        let after = part.entries.last().map(|(key, _)| key.clone()).ok_or_else(odd)?;
        let mut next = ask_part(ask, collection, id.clone(), false, after)?.omap.pop().ok_or_else(odd)?;
        part.entries.append(&mut next.entries);
        part.more = next.more;
    }
    Ok(view)
}

fn ask_part(
    ask: Ask<'_>,
    collection: CollectionId,
    id: ObjectId,
    data: bool,
    after: Bytes,
) -> Result<ObjectView, StoreError> {
    let everything =
        OmapWant::Range { after, prefix: Bytes::new(), entries: ENTRIES_AT_ONCE, bytes: u64::MAX, values: true };
    let want = ObjectWant {
        attrs: AttrsWant::All,
        data: if data { vec![Extent { offset: 0, len: u64::MAX }] } else { vec![] },
        omap: vec![everything],
        ..ObjectWant::default()
    };
    match ask(ReadRequest { collection, what: ReadWhat::Object(id, want) })? {
        ReadResult::Object(view) => Ok(*view),
        _ => Err(odd()),
    }
}

fn load_pg(ask: Ask<'_>, pg: PgId) -> Result<Pg, StoreError> {
    let collection = CollectionId::Pg(pg);
    let record = ask_object(ask, collection, info_object(), false)?;
    let info = match record.attr(&INFO_KEY) {
        Some(info) => PgInfo::from_bytes(info)?,
        // The first copies had come, the record had not: nothing is here.
        None => PgInfo::default(),
    };
    let log = ask_object(ask, collection, log_object(), false)?;
    let entries = log.omap.first().map_or(&[][..], |part| &part.entries);
    let entries = entries.iter().map(|(_, entry)| LogEntry::from_bytes(entry)).collect::<Result<Vec<_>, _>>()?;
    let missing = ask_object(ask, collection, missing_object(), false)?;
    let missing = missing.omap.first().map_or(&[][..], |part| &part.entries);
    Ok(Pg::load(pg, info, entries, missing)?)
}

fn read_superblock(bytes: &Bytes, id: base::OsdId, osd_fsid: Uuid) -> Result<Epoch, Malformed> {
    let mut d = Decoder::shared(bytes);
    if d.u8()? != 1 {
        return Err(Malformed::new("superblock", "has an unknown version"));
    }
    let (stored_id, stored_fsid, born): (base::OsdId, Uuid, Epoch) = (d.get()?, d.get()?, d.get()?);
    d.finish("superblock")?;
    if stored_id != id || stored_fsid != osd_fsid {
        return Err(Malformed::new("superblock", "is another OSD's"));
    }
    Ok(born)
}

/// Stores the newest map and what follows from it. `create` for the first time.
pub fn store_maps(core: &Core, create: bool) -> Transaction {
    let mut t = if create { Transaction::create(CollectionId::Meta) } else { Transaction::new(CollectionId::Meta) };
    let object = osd_object();
    let blob = core.blobs.full().clone();
    t.push(&object, Op::Truncate(blob.len() as u64));
    t.push(&object, Op::Write(0, blob));
    t.push(&object, Op::SetAttr(PLACEMENT_ATTR, core.placement.to_bytes()));
    let mut e = Encoder::new();
    e.u8(1);
    e.put(&core.config.id);
    e.put(&core.config.osd_fsid);
    e.put(&core.born);
    t.push(&object, Op::SetAttr(SUPERBLOCK_ATTR, e.finish()));
    t
}

/// The announcement.
pub fn boot_message(core: &Core, boot_epoch: Epoch) -> OsdBoot {
    let OsdConfig { id, fsid, osd_fsid, cluster_addrs, public_addrs, metadata, .. } = &core.config;
    let mut metadata = metadata.clone();
    let mut add = |key: &str, value: String| {
        metadata.entry(key.to_owned()).or_insert(value);
    };
    add("ceph_version", crate::VERSION_TEXT.to_owned());
    add("ceph_version_short", crate::VERSION.to_owned());
    add("ceph_release", "pacific".to_owned());
    add("front_addr", public_addrs.to_string());
    add("hb_front_addr", public_addrs.to_string());
    add("hb_back_addr", cluster_addrs.to_string());
    add("back_addr", cluster_addrs.to_string());
    let superblock = OsdSuperblock {
        cluster_fsid: *fsid,
        whoami: *id,
        current_epoch: core.epoch(),
        oldest_map: core.epoch(),
        newest_map: core.epoch(),
        osd_fsid: *osd_fsid,
        ..OsdSuperblock::default()
    };
    OsdBoot {
        paxos: PaxosHead::new(u64::from(core.epoch().0)),
        superblock,
        hb_back_addrs: cluster_addrs.clone(),
        cluster_addrs: cluster_addrs.clone(),
        boot_epoch,
        hb_front_addrs: public_addrs.clone(),
        metadata,
        features: FEATURES,
    }
}
