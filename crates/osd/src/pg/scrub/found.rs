//! What scrubs have found, and how clients are told of it (`rados list-inconsistent-obj`, `list-inconsistent-snapset`).
//!
//! Owns the errors' numbers and the answers' encodings: Ceph v16.2 `src/include/rados/rados_types.hpp`,
//! `src/common/scrub_types.cc`, `src/osd/osd_types.cc` (`object_info_t`, `SnapSet`). An OSD keeps its objects' records in
//! a form of its own; here they become those that clients can read.

use super::shown::Shown;
use crate::ops::clones::Clones;
use crate::ops::state::ObjectInfo;
use base::{EVersion, OsdId, PgId, SnapId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectId;
use wire::osd::{HObject, ObjectLocator, OsdReqId};
use wire::types::UTime;
use wire::{Decode, Decoder, Encoder, Malformed};

/// What is wrong with a copy (`err_t`).
pub mod shard_error {
    /// It is not there.
    pub const MISSING: u64 = 1 << 1;
    /// The store cannot tell anything of it.
    pub const STAT_ERROR: u64 = 1 << 2;
    /// The store cannot read it.
    pub const READ_ERROR: u64 = 1 << 3;
    /// It has no record.
    pub const INFO_MISSING: u64 = 1 << 14;
    /// Its record cannot be read.
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    /// Of these, what only a deep scrub sees.
    pub const DEEP: u64 = READ_ERROR;

    /// In words, for the cluster log.
    pub fn words(errors: u64) -> Vec<&'static str> {
        let all = [
            (MISSING, "missing"),
            (STAT_ERROR, "candidate had a stat error"),
            (READ_ERROR, "candidate had a read error"),
            (INFO_MISSING, "candidate had a missing info key"),
            (INFO_CORRUPTED, "candidate had a corrupt info"),
        ];
        all.into_iter().filter(|(bit, _)| errors & bit != 0).map(|(_, word)| word).collect()
    }
}

/// How copies differ (`obj_err_t`).
pub mod object_error {
    /// In their records.
    pub const OBJECT_INFO_INCONSISTENCY: u64 = 1 << 1;
    /// In their data.
    pub const DATA_DIGEST_MISMATCH: u64 = 1 << 4;
    /// In their maps.
    pub const OMAP_DIGEST_MISMATCH: u64 = 1 << 5;
    /// In their sizes.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// In attributes' values.
    pub const ATTR_VALUE_MISMATCH: u64 = 1 << 7;
    /// In which attributes there are.
    pub const ATTR_NAME_MISMATCH: u64 = 1 << 8;
    /// In what they know of their clones.
    pub const SNAPSET_INCONSISTENCY: u64 = 1 << 9;
    /// Of these, what only a deep scrub sees.
    pub const DEEP: u64 = DATA_DIGEST_MISMATCH | OMAP_DIGEST_MISMATCH;
}

/// How clones differ from what their head says (`inconsistent_snapset_t`).
pub mod snapset_error {
    /// A clone is not there.
    pub const CLONE_MISSING: u64 = 1 << 2;
    /// A clone has no head.
    pub const HEADLESS: u64 = 1 << 5;
    /// A clone is not as large as its head says.
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// Clones that their head does not know.
    pub const EXTRA_CLONES: u64 = 1 << 9;
}

/// A copy of an object that something is wrong with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundShard {
    /// What is wrong with this one.
    pub errors: u64,
    /// Whether it is the primary's.
    pub primary: bool,
    /// Whether it is the one to go by.
    pub selected: bool,
    /// What its holder shows; none where it has none.
    pub shown: Option<Shown>,
}

/// An object that something is wrong with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundObject {
    /// Which.
    pub object: ObjectId,
    /// The user version of the copy to go by.
    pub user_version: u64,
    /// Its version in the log; none where no copy is any good.
    pub version: Option<EVersion>,
    /// The version of its head, of which everything is to be copied.
    pub head_version: Option<EVersion>,
    /// How copies differ.
    pub errors: u64,
    /// Each copy.
    pub shards: BTreeMap<OsdId, FoundShard>,
    /// Whose copies are to be replaced.
    pub bad: BTreeSet<OsdId>,
}

/// An object whose clones are not as they should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundSnapshots {
    /// The head, or the clone.
    pub object: ObjectId,
    /// What is wrong.
    pub errors: u64,
    /// Clones that the head does not know.
    pub extra: Vec<SnapId>,
    /// Clones that are not there.
    pub missing: Vec<SnapId>,
    /// What the head says.
    pub clones: Option<Clones>,
}

impl Default for FoundObject {
    fn default() -> FoundObject {
        FoundObject {
            object: ObjectId::record(""),
            user_version: 0,
            version: None,
            head_version: None,
            errors: 0,
            shards: BTreeMap::new(),
            bad: BTreeSet::new(),
        }
    }
}

impl Default for FoundSnapshots {
    fn default() -> FoundSnapshots {
        FoundSnapshots { object: ObjectId::record(""), errors: 0, extra: Vec::new(), missing: Vec::new(), clones: None }
    }
}

/// What a client asks for (`scrub_ls_arg_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The interval in which it began to ask; 0 for the present one.
    pub interval: u32,
    /// Whether it asks for snapshots.
    pub snapshots: bool,
    after: (Bytes, Bytes, SnapId),
    max: u64,
}

impl Decode for Question {
    const MIN_BYTES: usize = 38;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("scrub_ls_arg_t", 1, |d, _| {
            Ok(Question {
                interval: d.u32()?,
                snapshots: d.u32()? != 0,
                after: (d.blob()?, d.blob()?, d.get()?),
                max: d.u64()?,
            })
        })
    }
}

/// What the last scrub has found, in order of objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Objects.
    pub objects: Vec<FoundObject>,
    /// Objects with their clones.
    pub snapshots: Vec<FoundSnapshots>,
}

impl Findings {
    /// Answers a client (`scrub_ls_result_t`).
    pub fn answer(&self, question: &Question, interval: u32, pg: PgId) -> Bytes {
        let max = usize::try_from(question.max).unwrap_or(usize::MAX);
        let ids = |ids: Vec<&ObjectId>| {
            let (name, nspace, snap) = &question.after;
            let is = |id: &&ObjectId| id.name() == &name[..] && id.namespace() == &nspace[..] && id.snap() == *snap;
            if name.is_empty() { 0 } else { ids.iter().position(is).map_or(ids.len(), |at| at + 1) }
        };
        let values: Vec<Bytes> = if question.snapshots {
            let from = ids(self.snapshots.iter().map(|found| &found.object).collect());
            self.snapshots.iter().skip(from).take(max).map(encode_snapshots).collect()
        } else {
            let from = ids(self.objects.iter().map(|found| &found.object).collect());
            self.objects.iter().skip(from).take(max).map(|found| encode_object(found, pg)).collect()
        };
        let mut e = Encoder::new();
        e.versioned(1, 1, |e| {
            e.u32(interval);
            e.put(&values);
        });
        e.finish()
    }
}

/// `object_id_t`.
fn encode_id(e: &mut Encoder, id: &ObjectId) {
    e.versioned(1, 1, |e| {
        e.blob(id.name());
        e.blob(id.namespace());
        e.blob(id.key());
        e.put(&id.snap());
    });
}

/// `inconsistent_obj_wrapper`.
fn encode_object(found: &FoundObject, pg: PgId) -> Bytes {
    let mut e = Encoder::new();
    e.versioned(2, 2, |e| {
        e.u64(found.errors);
        encode_id(e, &found.object);
        e.u64(found.user_version);
        e.len(found.shards.len());
        for (osd, shard) in &found.shards {
            e.versioned(1, 1, |e| {
                e.i32(osd.0);
                e.u8(u8::MAX); // no shard of an erasure-coded object
            });
            encode_shard(e, &found.object, shard, pg);
        }
        e.u64(found.shards.values().fold(0, |all, shard| all | shard.errors));
    });
    e.finish()
}

/// `shard_info_wrapper`.
fn encode_shard(e: &mut Encoder, id: &ObjectId, shard: &FoundShard, pg: PgId) {
    e.versioned(3, 3, |e| {
        e.u64(shard.errors);
        e.bool(shard.primary);
        let Some(shown) = shard.shown.as_ref().filter(|_| shard.errors & shard_error::MISSING == 0) else { return };
        let mut attrs: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        let user = |name: &Bytes| Bytes::from([b"_", &name[..]].concat());
        attrs.extend(shown.attrs.iter().map(|(name, attr)| (user(name), attr.value.clone())));
        if let Some(record) = &shown.record {
            let (info, snapset) = match ObjectInfo::from_bytes(record) {
                Ok(info) => (object_info(id, shown, &info, pg), snapset(info.clones.as_deref())),
                // As it is: it is not shown but as what cannot be read.
                Err(_) => (record.clone(), record.clone()),
            };
            attrs.insert(Bytes::from_static(b"_"), info);
            if id.snap() == SnapId::HEAD {
                attrs.insert(Bytes::from_static(b"snapset"), snapset);
            }
        }
        e.put(&attrs);
        e.u64(shown.size);
        for digest in [shown.omap_digest, shown.data_digest] {
            e.bool(digest.is_some());
            e.u32(digest.unwrap_or_default());
        }
        e.bool(shard.selected);
    });
}

/// `inconsistent_snapset_wrapper`.
fn encode_snapshots(found: &FoundSnapshots) -> Bytes {
    let mut e = Encoder::new();
    e.versioned(2, 1, |e| {
        e.u64(found.errors);
        encode_id(e, &found.object);
        e.put(&found.extra);
        e.put(&found.missing);
        e.blob(&found.clones.as_ref().map_or(Bytes::new(), |clones| snapset(Some(clones))));
    });
    e.finish()
}

/// Flags of `object_info_t`.
mod info_flags {
    pub(super) const WHITEOUT: u32 = 1 << 1;
    pub(super) const DIRTY: u32 = 1 << 2;
    pub(super) const OMAP: u32 = 1 << 3;
}

/// An object's record as clients read it (`object_info_t`). What an OSD does not keep is as if it had never been set.
fn object_info(id: &ObjectId, shown: &Shown, info: &ObjectInfo, pg: PgId) -> Bytes {
    let object: HObject = crate::pg::listing::hobject(id, pg);
    let locator = ObjectLocator {
        key: object.key.clone(),
        nspace: object.nspace.clone(),
        hash: -1,
        ..ObjectLocator::new(pg.pool)
    };
    let mut flags = info_flags::DIRTY;
    flags |= if info.whiteout { info_flags::WHITEOUT } else { 0 };
    flags |= if shown.has_omap { info_flags::OMAP } else { 0 };
    let mut e = Encoder::new();
    e.versioned(17, 8, |e| {
        e.put(&object);
        e.put(&locator);
        e.u32(0); // a category, of old
        e.put(&info.version);
        e.put(&EVersion::default()); // the version before
        e.put(&OsdReqId::default()); // the last request
        e.u64(shown.size);
        e.put(&info.mtime);
        if id.snap() == SnapId::HEAD {
            e.put(&OsdReqId::default()); // who held a lock, of old
        } else {
            e.u32(0); // snapshots, of old
        }
        e.u64(u64::from(info.truncate_seq));
        e.u64(info.truncate_size);
        e.bool(false); // lost
        e.u32(0); // watchers, of old
        e.put(&EVersion::new(base::Epoch(0), info.user_version));
        e.bool(false); // uses a tmap, of old
        e.len(info.watchers.as_ref().map_or(0, |watchers| watchers.len()));
        for (name, record) in info.watchers.iter().flat_map(|watchers| watchers.iter()) {
            e.put(name);
            e.versioned(4, 3, |e| {
                e.u64(name.cookie);
                e.u32(record.timeout_s);
                e.put(&record.addr);
            });
        }
        e.u32(flags);
        e.put(&UTime::default()); // when it was written by the OSD's clock
        e.u32(0); // the data's digest
        e.u32(0); // the map's
        e.u64(0); // hints: the expected size of the object
        e.u64(0); // and of writes
        e.u32(0); // and their flags
    });
    e.finish()
}

/// A head's past as clients read it (`SnapSet`).
fn snapset(clones: Option<&Clones>) -> Bytes {
    let none = Clones::default();
    let clones = clones.unwrap_or(&none);
    let mut e = Encoder::new();
    e.versioned(3, 2, |e| {
        e.put(&clones.seq);
        e.bool(true); // the head exists, of old
        let snaps: BTreeSet<SnapId> = clones.list.iter().flat_map(|clone| clone.snaps.iter().copied()).collect();
        e.put(&snaps.into_iter().rev().collect::<Vec<_>>());
        e.put(&clones.list.iter().map(|clone| clone.id).collect::<Vec<_>>());
        e.len(clones.list.len());
        for clone in &clones.list {
            e.put(&clone.id);
            let shared: Vec<(u64, u64)> = clone.overlap.iter().map(|extent| (extent.offset, extent.len)).collect();
            e.put(&shared);
        }
        e.len(clones.list.len());
        for clone in &clones.list {
            e.put(&clone.id);
            e.u64(clone.size);
        }
        e.len(clones.list.len());
        for clone in &clones.list {
            e.put(&clone.id);
            e.put(&clone.snaps.iter().rev().copied().collect::<Vec<_>>());
        }
    });
    e.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Epoch, PoolId};

    /// The record of `obj1` as an OSD of Ceph 16.2.15 had it: 20,000 bytes, written once in full.
    const CEPHS: &str = "1108fd00000004032500000000000000040000006f626a31feffffffffffffffffdef86c000000000002000000000000\
         0006031c0000000200000000000000ffffffff0000000000000000ffffffffffffffff00000000010000000000000012\
         000000000000000000000000000000020215000000082410000000000000010000000000000000000000204e00000000\
         000038d1026bf6b3f0200202150000000000000000000000000000000000000000000000000000000000000000000000\
         0000000000000000000001000000000000000000000000000000001400000038d1026bc0d01d215c814fb4ffffffff00\
         00000000000000000000000000000000000000";

    #[test]
    fn records_are_told_as_ceph_keeps_them() {
        let hex = CEPHS.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).expect("digits"));
        let cephs: Vec<u8> = hex.map(|byte| u8::from_str_radix(byte, 16).expect("digits")).collect();
        let id = ObjectId::new(0x6CF8_DEFF, b"", b"", b"obj1", SnapId::HEAD);
        let mtime = UTime { secs: 0x6B02_D138, nanos: 0x20F0_B3F6 };
        let info = ObjectInfo { version: EVersion::new(Epoch(18), 1), user_version: 1, mtime, ..ObjectInfo::default() };
        let shown = Shown { size: 20_000, ..Shown::default() };
        let ours = object_info(&id, &shown, &info, PgId::new(PoolId(2), 0x1F));
        assert_eq!(ours.len(), cephs.len());
        // Who asked, then flags, the OSD's own time and digests, are not kept here.
        for kept in [0..117, 138..219, 239..cephs.len()] {
            assert_eq!(&ours[kept.clone()], &cephs[kept]);
        }
        let empty = [&[3, 2, 29, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 20]].concat();
        assert_eq!(snapset(None), empty, "as Ceph's of an object without snapshots");
    }
}
