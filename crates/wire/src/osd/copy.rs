//! What copying an object from one OSD to another takes: a part of the object, and how far the copy has come.
//!
//! Follows Ceph v16.2 `src/osd/osd_types.{h,cc}` (`object_copy_cursor_t`, `object_copy_data_t`) and
//! `src/osdc/Objecter.h` (`ObjectOperation::copy_get`, `copy_from`).

use super::{ObjectLocator, OpCode, OpParams, OsdOpItem, OsdReqId};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::UTime;
use base::SnapId;
use bytes::Bytes;
use std::collections::BTreeMap;

use super::payload::KeyValues;

/// Flags of copy-from (`CEPH_OSD_COPY_FROM_FLAG_*`).
pub mod copy_flags {
    /// The source's snapshot number is a clone's number.
    pub const MAP_SNAP_CLONE: u8 = 8;
    /// The source is read in order with writes to it.
    pub const RWORDERED: u8 = 16;
    /// The payload ends with the truncation that the copy gets in place of its source's.
    pub const TRUNCATE_SEQ: u8 = 32;
    /// All that Ceph knows: beside these flush (1), ignore-overlay (2) and ignore-cache (4).
    pub const ALL: u8 = 63;
}

/// How far a copy has come.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyCursor {
    /// The attributes are copied.
    pub attrs_done: bool,
    /// The data is copied up to here.
    pub data_offset: u64,
    /// All of it.
    pub data_done: bool,
    /// The map is copied up to and with this key.
    pub omap_after: Bytes,
    /// All of it.
    pub omap_done: bool,
}

impl CopyCursor {
    /// Whether everything is copied.
    pub fn is_done(&self) -> bool {
        self.attrs_done && self.data_done && self.omap_done
    }
}

impl Encode for CopyCursor {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.bool(self.attrs_done);
            e.u64(self.data_offset);
            e.bool(self.data_done);
            e.blob(&self.omap_after);
            e.bool(self.omap_done);
        });
    }
}

impl Decode for CopyCursor {
    const MIN_BYTES: usize = 21;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("object_copy_cursor_t", 1, |d, _| {
            Ok(CopyCursor {
                attrs_done: d.bool()?,
                data_offset: d.u64()?,
                data_done: d.bool()?,
                omap_after: d.blob()?,
                omap_done: d.bool()?,
            })
        })
    }
}

/// A part of an object that is being copied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyData {
    /// The whole object's size in bytes.
    pub size: u64,
    /// When it was modified.
    pub mtime: UTime,
    /// Its attributes, in the first part.
    pub attrs: KeyValues,
    /// Data.
    pub data: Bytes,
    /// Entries of its map as a map is encoded, or nothing.
    pub omap: Bytes,
    /// Where the next part begins.
    pub cursor: CopyCursor,
    /// The header of its map.
    pub omap_header: Bytes,
    /// The newest of CephFS's truncations that it has seen.
    pub truncate_seq: u32,
    /// The size that one cut it to.
    pub truncate_size: u64,
}

impl Encode for CopyData {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(8, 5, |e| {
            e.u64(self.size);
            e.put(&self.mtime);
            e.put(&self.attrs);
            e.blob(&self.data);
            e.blob(&self.omap);
            e.put(&self.cursor);
            e.blob(&self.omap_header);
            e.put(&Vec::<SnapId>::new()); // the snapshots of a clone, for cache tiers
            e.put(&SnapId(0)); // the newest snapshot seen, likewise
            e.u32(0); // no digests follow that mean anything
            e.u32(0);
            e.u32(0);
            e.put(&Vec::<(OsdReqId, u64)>::new()); // requests to be recognised at the copy, likewise
            e.u32(self.truncate_seq);
            e.u64(self.truncate_size);
            e.put(&BTreeMap::<u32, i32>::new());
        });
    }
}

impl Decode for CopyData {
    const MIN_BYTES: usize = 6;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("object_copy_data_t", 8, |d, _| {
            let mut copy = CopyData {
                size: d.u64()?,
                mtime: d.get()?,
                attrs: d.get()?,
                data: d.blob()?,
                omap: d.blob()?,
                cursor: d.get()?,
                omap_header: d.blob()?,
                ..CopyData::default()
            };
            d.get::<Vec<SnapId>>()?;
            d.get::<SnapId>()?;
            let _digests = (d.u32()?, d.u32()?, d.u32()?);
            d.get::<Vec<(OsdReqId, u64)>>()?;
            copy.truncate_seq = d.u32()?;
            copy.truncate_size = d.u64()?;
            Ok(copy)
        })
    }
}

/// Asks for the next part of an object, of at most about so many bytes.
pub fn copy_get(cursor: &CopyCursor, bytes_max: u64) -> OsdOpItem {
    let mut e = Encoder::new();
    e.put(cursor);
    e.u64(bytes_max);
    OsdOpItem::new(OpCode::COPY_GET).with_params(OpParams::CopyGet { max: bytes_max }).with_payload(e.finish())
}

/// What a copy-get asks for.
pub fn copy_get_parts(payload: &Bytes) -> Result<(CopyCursor, u64), Malformed> {
    let mut d = Decoder::shared(payload);
    Ok((d.get()?, d.u64()?))
}

/// What a copy-from is to copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopySource {
    /// The source's name.
    pub object: Bytes,
    /// Where it is.
    pub locator: ObjectLocator,
    /// Which of its snapshots, or the head.
    pub snap: SnapId,
    /// The version that it must have; 0 is any.
    pub version: u64,
    /// `copy_flags`.
    pub flags: u8,
    /// Sequence and size of the truncation that the copy gets in place of its source's.
    pub truncation: Option<(u32, u64)>,
}

impl CopySource {
    /// What a copy-from or copy-from2 asks for.
    pub fn of(item: &OsdOpItem) -> Result<CopySource, Malformed> {
        let OpParams::CopyFrom { snap, version, flags, .. } = item.params() else {
            return Err(Malformed::new("copy-from", "has another operation's code"));
        };
        let second = item.op == OpCode::COPY_FROM2;
        if second && flags & !copy_flags::ALL != 0 {
            return Err(Malformed::new("copy-from", "has unknown flags"));
        }
        let mut d = Decoder::shared(&item.payload);
        let (object, locator) = (d.blob()?, d.get()?);
        let truncation =
            if second && flags & copy_flags::TRUNCATE_SEQ != 0 { Some((d.u32()?, d.u64()?)) } else { None };
        Ok(CopySource { object, locator, snap, version, flags, truncation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip() {
        let cursor = CopyCursor { attrs_done: true, data_offset: 9, omap_after: "k".into(), ..CopyCursor::default() };
        let item = copy_get(&cursor, 77);
        assert_eq!(copy_get_parts(&item.payload), Ok((cursor.clone(), 77)));
        let data = CopyData {
            size: 9,
            mtime: UTime { secs: 1, nanos: 2 },
            attrs: KeyValues::from([("a".into(), "1".into())]),
            data: "data".into(),
            omap: "map".into(),
            cursor,
            omap_header: "header".into(),
            truncate_seq: 3,
            truncate_size: 4,
        };
        assert_eq!(CopyData::from_bytes(&data.to_bytes()), Ok(data.clone()));
        let bytes = data.to_bytes();
        assert!((0..bytes.len()).all(|cut| CopyData::from_bytes(&bytes.slice(..cut)).is_err()));
    }
}
