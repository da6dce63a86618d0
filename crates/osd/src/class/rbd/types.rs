//! What an image's header says of its parent and its snapshots.
//!
//! Follows Ceph v16.2 `src/cls/rbd/cls_rbd.h` and `cls_rbd_types.{h,cc}`. Records older than Nautilus are read, and
//! written back in its form, as an OSD does whose cluster requires Nautilus.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// In place of a snapshot: the image itself (CEPH_NOSNAP).
pub(super) const NO_SNAP: u64 = u64::MAX - 1;
/// The last id that a snapshot can have (CEPH_MAXSNAP).
pub(super) const SNAP_MAX: u64 = u64::MAX - 2;

/// Where an image was cloned from (`cls_rbd_parent`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Parent {
    pub(super) spec: ParentSpec,
    /// How much of the parent shows through the image itself; none where only snapshots have a parent.
    pub(super) overlap: Option<u64>,
}

/// A snapshot of an image as another one's parent (`ParentImageSpec`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ParentSpec {
    pub(super) pool: i64,
    pub(super) nspace: Bytes,
    pub(super) image: Bytes,
    pub(super) snap: u64,
}

impl Default for ParentSpec {
    fn default() -> ParentSpec {
        ParentSpec { pool: -1, nspace: Bytes::new(), image: Bytes::new(), snap: NO_SNAP }
    }
}

impl Encode for ParentSpec {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.i64(self.pool);
            e.put(&self.nspace);
            e.put(&self.image);
            e.u64(self.snap);
        });
    }
}

impl Decode for ParentSpec {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("ParentImageSpec", 1, |d, _| {
            Ok(ParentSpec { pool: d.i64()?, nspace: d.get()?, image: d.get()?, snap: d.u64()? })
        })
    }
}

impl Parent {
    /// Whether there is one.
    pub(super) fn exists(&self) -> bool {
        self.spec.pool >= 0 && !self.spec.image.is_empty() && self.spec.snap != NO_SNAP
    }
}

impl Encode for Parent {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 2, |e| {
            e.i64(self.spec.pool);
            e.put(&self.spec.nspace);
            e.put(&self.spec.image);
            e.u64(self.spec.snap);
            e.put(&self.overlap);
        });
    }
}

impl Decode for Parent {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_rbd_parent", 2, |d, version| {
            let pool = d.i64()?;
            let nspace = if version >= 2 { d.get()? } else { Bytes::new() };
            let spec = ParentSpec { pool, nspace, image: d.get()?, snap: d.u64()? };
            let overlap = if version >= 2 { d.get()? } else { Some(d.u64()?) };
            Ok(Parent { spec, overlap })
        })
    }
}

/// Whose a snapshot is (`SnapshotNamespace`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum SnapOwner {
    /// A user's.
    #[default]
    User,
    /// Part of a snapshot of a group.
    Group { pool: i64, group: Bytes, snap: Bytes },
    /// Deleted, but still needed by clones.
    Trash {
        name: Bytes,
        /// What it was before, as `SnapOwner::kind` says.
        kind: u32,
    },
    /// The mirror's.
    Mirror(Box<MirrorSnap>),
    /// Nothing that is known here.
    Unknown,
}

/// A snapshot by which an image is mirrored (`MirrorSnapshotNamespace`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct MirrorSnap {
    pub(super) state: u8,
    pub(super) complete: bool,
    pub(super) peers: BTreeSet<Bytes>,
    pub(super) primary: Bytes,
    pub(super) primary_snap: u64,
    pub(super) last_copied: u64,
    pub(super) snap_seqs: BTreeMap<u64, u64>,
}

impl MirrorSnap {
    /// Whether the image is another one's copy (`MIRROR_SNAPSHOT_STATE_NON_PRIMARY`, `..._DEMOTED`).
    pub(super) fn is_copy(&self) -> bool {
        matches!(self.state, 2 | 3)
    }
}

impl SnapOwner {
    /// The number of the kind.
    pub(super) fn kind(&self) -> u32 {
        match self {
            SnapOwner::User => 0,
            SnapOwner::Group { .. } => 1,
            SnapOwner::Trash { .. } => 2,
            SnapOwner::Mirror(_) => 3,
            SnapOwner::Unknown => u32::MAX,
        }
    }
}

impl Encode for SnapOwner {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u32(self.kind());
            match self {
                SnapOwner::User | SnapOwner::Unknown => {}
                SnapOwner::Group { pool, group, snap } => {
                    e.i64(*pool);
                    e.put(group);
                    e.put(snap);
                }
                SnapOwner::Trash { name, kind } => {
                    e.put(name);
                    e.u32(*kind);
                }
                SnapOwner::Mirror(mirror) => {
                    e.u8(mirror.state);
                    e.bool(mirror.complete);
                    e.put(&mirror.peers);
                    e.put(&mirror.primary);
                    e.u64(mirror.primary_snap);
                    e.u64(mirror.last_copied);
                    e.put(&mirror.snap_seqs);
                }
            }
        });
    }
}

impl Decode for SnapOwner {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("SnapshotNamespace", 1, |d, _| {
            Ok(match d.u32()? {
                0 => SnapOwner::User,
                1 => SnapOwner::Group { pool: d.i64()?, group: d.get()?, snap: d.get()? },
                2 => SnapOwner::Trash { name: d.get()?, kind: d.u32()? },
                3 => SnapOwner::Mirror(Box::new(MirrorSnap {
                    state: d.u8()?,
                    complete: d.bool()?,
                    peers: d.get()?,
                    primary: d.get()?,
                    primary_snap: d.u64()?,
                    last_copied: d.u64()?,
                    snap_seqs: d.get()?,
                })),
                _ => SnapOwner::Unknown,
            })
        })
    }
}

/// A snapshot as the header keeps it (`cls_rbd_snap`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Snap {
    pub(super) id: u64,
    pub(super) name: Bytes,
    pub(super) image_size: u64,
    /// 0 unprotected, 1 in between, 2 protected.
    pub(super) protection: u8,
    /// Only in records older than Nautilus; later ones say it once for the image.
    pub(super) parent: Parent,
    pub(super) flags: u64,
    pub(super) at: UTime,
    pub(super) owner: SnapOwner,
    pub(super) children: u32,
    pub(super) overlap: Option<u64>,
}

/// The first protection status that does not exist.
pub(super) const PROTECTION_END: u8 = 3;

impl Encode for Snap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(8, 8, |e| {
            e.u64(self.id);
            e.put(&self.name);
            e.u64(self.image_size);
            e.u8(self.protection);
            e.u64(self.flags);
            e.put(&self.owner);
            e.put(&self.at);
            e.u32(self.children);
            e.put(&self.overlap);
        });
    }
}

impl Decode for Snap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let old = d.peek().get(1).is_some_and(|&compat| compat < 8);
        d.versioned("cls_rbd_snap", 8, |d, version| {
            let (id, name, image_size) = (d.u64()?, d.get()?, d.u64()?);
            let mut snap = Snap { id, name, image_size, ..Snap::default() };
            if old {
                let _features = d.u64()?;
            }
            if version >= 2 && old {
                snap.parent = d.get()?;
            }
            if version >= 3 {
                snap.protection = d.u8()?;
            }
            if version >= 4 {
                snap.flags = d.u64()?;
            }
            if version >= 5 {
                snap.owner = d.get()?;
            }
            if version >= 6 {
                snap.at = d.get()?;
            }
            if version >= 7 {
                snap.children = d.u32()?;
            }
            if version >= 8 {
                snap.overlap = d.get()?;
            }
            Ok(snap)
        })
    }
}

impl Snap {
    /// What clients are told of it (`SnapshotInfo`).
    pub(super) fn info(&self) -> Bytes {
        let mut e = Encoder::new();
        e.versioned(1, 1, |e| {
            e.u64(self.id);
            e.put(&self.owner);
            e.put(&self.name);
            e.u64(self.image_size);
            e.put(&self.at);
            e.u32(self.children);
        });
        e.finish()
    }
}
