//! One object in memory: sparse data in blocks, attributes, map.
//!
//! Owns what the parts mean together; where data lies is the business of `data`, how keys are kept that of `key`.

use super::data::{BLOCK, Data};
use super::key::Key;
use crate::read::{AttrsWant, Extent, ObjectView, ObjectWant, OmapPart, OmapWant};
use bytes::Bytes;
use core::ops::Bound;
use std::collections::BTreeMap;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// An object's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) size: u64,
    data: Data,
    pub(super) attrs: BTreeMap<Key, Bytes>,
    pub(super) omap_header: Bytes,
    pub(super) omap: BTreeMap<Key, Bytes>,
}

impl Object {
    /// Overwrites from `offset`, extending the object where it must.
    pub(super) fn write(&mut self, offset: u64, data: &Bytes) {
        self.size = self.size.max(offset + data.len() as u64);
        self.data.write(offset, data);
    }

    /// Makes a range read as zeros and extends the object to its end.
    pub(super) fn zero(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.size = self.size.max(end);
        self.data.discard(offset, end);
    }

    /// Sets the size.
    pub(super) fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.data.truncate(size);
        }
        self.size = size;
    }

    /// Reads a range, cut off at the object's end.
    pub(super) fn read(&self, extent: Extent) -> Bytes {
        let end = extent.offset.saturating_add(extent.len).min(self.size);
        if extent.offset >= end { Bytes::new() } else { self.data.read(extent.offset, end) }
    }

    /// The parts of a range that blocks hold, neighbours joined.
    fn allocated(&self, extent: Extent) -> Vec<Extent> {
        let end = extent.offset.saturating_add(extent.len).min(self.size);
        let mut out: Vec<Extent> = Vec::new();
        if extent.offset >= end {
            return out;
        }
        for (index, block) in self.data.blocks_in(extent.offset, end) {
            let from = (index * BLOCK).max(extent.offset);
            let to = (index * BLOCK + block.len() as u64).min(end);
            if from >= to {
                continue;
            }
            match out.last_mut() {
                Some(last) if last.offset + last.len == from => last.len += to - from,
                _ => out.push(Extent { offset: from, len: to - from }),
            }
        }
        out
    }

    /// The bytes of memory that its parts take, about.
    pub(super) fn held_bytes(&self) -> u64 {
        let blocks: usize = self.data.blocks().map(|(_, bytes)| bytes.len()).sum();
        let pairs: usize = self.attrs.iter().chain(&self.omap).map(|(k, v)| k.bytes().len() + v.len()).sum();
        (blocks + pairs + self.omap_header.len()) as u64
    }

    /// Answers a request.
    pub(super) fn view(&self, want: &ObjectWant) -> ObjectView {
        let attrs = match &want.attrs {
            AttrsWant::None => Vec::new(),
            AttrsWant::All => self.attrs.iter().map(|(n, v)| (n.to_bytes(), v.clone())).collect(),
            AttrsWant::Named(names) => {
                let found = names.iter().filter_map(|n| Some((n.clone(), self.attrs.get(&n[..])?.clone())));
                let mut found: Vec<_> = found.collect();
                found.sort();
                found.dedup();
                found
            }
        };
        ObjectView {
            exists: true,
            size: self.size,
            attrs,
            data: want.data.iter().map(|e| self.read(*e)).collect(),
            sums: Vec::new(),
            allocated: want.allocated.iter().map(|e| self.allocated(*e)).collect(),
            omap_header: if want.omap_header { self.omap_header.clone() } else { Bytes::new() },
            omap: want.omap.iter().map(|w| self.omap_part(w)).collect(),
        }
    }

    fn omap_part(&self, want: &OmapWant) -> OmapPart {
        let mut part = OmapPart::default();
        match want {
            OmapWant::Keys(keys) => {
                let found = keys.iter().filter_map(|k| Some((k.clone(), self.omap.get(&k[..])?.clone())));
                part.entries = found.collect();
                part.entries.sort();
                part.entries.dedup();
            }
            OmapWant::Range { after, prefix, entries, bytes, values } => {
                let lower = if after.is_empty() && prefix.is_empty() {
                    Bound::Unbounded
                } else if after < prefix {
                    Bound::Included(prefix.as_ref())
                } else {
                    Bound::Excluded(after.as_ref())
                };
                let mut taken_bytes = 0;
                for (key, value) in self.omap.range::<[u8], _>((lower, Bound::Unbounded)) {
                    if !key.bytes().starts_with(prefix) {
                        break;
                    }
                    let value = if *values { value.clone() } else { Bytes::new() };
                    let size = (key.bytes().len() + value.len()) as u64;
                    let count = part.entries.len() as u64;
                    if count >= *entries || count > 0 && taken_bytes + size > *bytes {
                        part.more = true;
                        break;
                    }
                    taken_bytes += size;
                    part.entries.push((key.to_bytes(), value));
                }
            }
        }
        part
    }
}

/// Size, blocks, attributes, map header, map.
impl Encode for Object {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.size);
        e.len(self.data.blocks().len());
        for (index, bytes) in self.data.blocks() {
            e.u64(index);
            e.blob(bytes);
        }
        let pairs = |e: &mut Encoder, map: &BTreeMap<Key, Bytes>| {
            e.len(map.len());
            map.iter().for_each(|(key, value)| {
                e.blob(key.bytes());
                e.blob(value);
            });
        };
        pairs(e, &self.attrs);
        e.put(&self.omap_header);
        pairs(e, &self.omap);
    }
}

impl Decode for Object {
    const MIN_BYTES: usize = 24;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let size = d.u64()?;
        let mut data = Data::default();
        for _ in 0..d.len(12)? {
            let (index, block) = (d.u64()?, d.slice()?);
            let end = index.checked_mul(BLOCK).and_then(|base| base.checked_add(block.len() as u64));
            if block.len() as u64 > BLOCK || end.is_none_or(|end| end > size) {
                return Err(Malformed::new("object image", "has a block beyond its bounds"));
            }
            data.insert(index, block.to_vec());
        }
        // The image is one buffer: what stays must not keep all of it alive.
        let pairs = |d: &mut Decoder<'_>| -> Result<BTreeMap<Key, Bytes>, Malformed> {
            let len = d.len(8)?;
            (0..len).map(|_| Ok((Key::new(d.slice()?), Bytes::copy_from_slice(d.slice()?)))).collect()
        };
        let attrs = pairs(d)?;
        let omap_header = Bytes::copy_from_slice(d.slice()?);
        let omap = pairs(d)?;
        Ok(Object { size, data, attrs, omap_header, omap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64, len: u64) -> Extent {
        Extent { offset, len }
    }

    #[test]
    fn holes_cost_nothing_and_read_as_zeros() {
        let mut a = Object::default();
        a.write(10 * BLOCK + 7, &Bytes::from_static(b"x"));
        a.zero(0, 20 * BLOCK);
        assert_eq!((a.size, a.data.blocks().len()), (20 * BLOCK, 0));
        a.write(3, &Bytes::from_static(b"abc"));
        a.truncate(4);
        a.truncate(8);
        assert_eq!(a.read(at(0, 100)).as_ref(), b"\0\0\0a\0\0\0\0");
        assert_eq!(a.allocated(at(0, 100)), [at(0, 4)]);
    }
}
