//! What a member shows of its objects when copies are compared.
//!
//! Owns what is compared and its encoding between OSDs (ours, version 1). Its counterpart in Ceph is `ScrubMap` (v16.2
//! `src/osd/osd_types.h`). Of data and maps there are checksums, made as Ceph makes them
//! (`ReplicatedBackend::be_deep_scrub`), so that both clusters print the same numbers.

use crate::limits::SCRUB_ATTR_BYTES_MAX;
use crate::ops::state::{INFO_ATTR, USER_ATTR_PREFIX};
use base::checksum::{CRC_SEED, crc32c};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{ObjectId, ObjectView};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// The objects of a range.
pub type ShownObjects = BTreeMap<ObjectId, Shown>;

/// A user's attribute: what is too long is compared by its checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownAttr {
    /// Its beginning.
    pub value: Bytes,
    /// How long it is.
    pub len: u64,
    /// The checksum of all of it.
    pub crc: u32,
}

impl ShownAttr {
    fn of(value: &Bytes) -> ShownAttr {
        let beginning = value.slice(..value.len().min(SCRUB_ATTR_BYTES_MAX));
        ShownAttr { value: beginning, len: value.len() as u64, crc: crc32c(CRC_SEED, value) }
    }
}

/// A life of an object as a member has it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    /// Its size in bytes.
    pub size: u64,
    /// Its record; none where it has none.
    pub record: Option<Bytes>,
    /// Users' attributes, by their own names.
    pub attrs: BTreeMap<Bytes, ShownAttr>,
    /// Whether its map has a header or an entry.
    pub has_omap: bool,
    /// The checksum of its data, where it was read.
    pub data_digest: Option<u32>,
    /// The checksum of its map, where that was read.
    pub omap_digest: Option<u32>,
    /// The store could not read its data or its map.
    pub read_error: bool,
    /// The store could not even tell what there is.
    pub stat_error: bool,
}

impl Shown {
    /// What a store tells without reading data.
    pub fn of(view: &ObjectView) -> Shown {
        let own = |(name, value): &(Bytes, Bytes)| {
            (name.first() == Some(&USER_ATTR_PREFIX)).then(|| (name.slice(1..), ShownAttr::of(value)))
        };
        let entries = view.omap.iter().any(|part| !part.entries.is_empty());
        Shown {
            size: view.size,
            record: view.attr(&INFO_ATTR).cloned(),
            attrs: view.attrs.iter().filter_map(own).collect(),
            has_omap: entries || !view.omap_header.is_empty(),
            ..Shown::default()
        }
    }
}

impl Encode for Shown {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.u64(self.size);
        e.put(&self.record);
        e.len(self.attrs.len());
        for (name, attr) in &self.attrs {
            e.blob(name);
            e.blob(&attr.value);
            e.u64(attr.len);
            e.u32(attr.crc);
        }
        e.bool(self.has_omap);
        for digest in [self.data_digest, self.omap_digest] {
            e.bool(digest.is_some());
            e.u32(digest.unwrap_or_default());
        }
        e.bool(self.read_error);
        e.bool(self.stat_error);
    }
}

impl Decode for Shown {
    const MIN_BYTES: usize = 27;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("shown object", "has an unknown version"));
        }
        let mut shown = Shown { size: d.u64()?, record: d.get()?, ..Shown::default() };
        for _ in 0..d.len(20)? {
            let name = d.blob()?;
            shown.attrs.insert(name, ShownAttr { value: d.blob()?, len: d.u64()?, crc: d.u32()? });
        }
        shown.has_omap = d.bool()?;
        shown.data_digest = digest(d)?;
        shown.omap_digest = digest(d)?;
        (shown.read_error, shown.stat_error) = (d.bool()?, d.bool()?);
        Ok(shown)
    }
}

fn digest(d: &mut Decoder<'_>) -> Result<Option<u32>, Malformed> {
    let (known, digest) = (d.bool()?, d.u32()?);
    Ok(known.then_some(digest))
}

/// The objects of a range as they travel.
pub fn pack(objects: &ShownObjects) -> Bytes {
    let mut e = Encoder::new();
    e.len(objects.len());
    for (id, shown) in objects {
        e.put(id);
        e.put(shown);
    }
    e.finish()
}

/// Reads what `pack` wrote.
pub fn unpack(bytes: &Bytes) -> Result<ShownObjects, Malformed> {
    let mut d = Decoder::shared(bytes);
    let mut objects = ShownObjects::new();
    for _ in 0..d.len(ObjectId::MIN_BYTES + Shown::MIN_BYTES)? {
        let id = d.get()?;
        objects.insert(id, d.get()?);
    }
    d.finish("shown objects")?;
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SnapId;

    #[test]
    fn it_travels_and_no_prefix_of_it_is_taken_for_it() {
        let long = Bytes::from(vec![7; SCRUB_ATTR_BYTES_MAX + 1]);
        let attrs = vec![(INFO_ATTR, Bytes::from_static(b"record")), (Bytes::from_static(b"ua"), long)];
        let view = ObjectView { exists: true, size: 9, attrs, ..ObjectView::default() };
        let mut shown = Shown::of(&view);
        assert_eq!(shown.attrs[&b"a"[..]].value.len(), SCRUB_ATTR_BYTES_MAX);
        (shown.data_digest, shown.read_error) = (Some(5), true);
        let id = ObjectId::new(1, b"", b"", b"o", SnapId::HEAD);
        let objects = ShownObjects::from([(id.clone(), shown), (id.with_snap(SnapId(3)), Shown::default())]);
        let packed = pack(&objects);
        assert_eq!(unpack(&packed), Ok(objects));
        for cut in 0..packed.len() {
            assert!(unpack(&packed.slice(..cut)).is_err(), "cut at {cut}");
        }
    }
}
