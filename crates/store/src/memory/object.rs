//! One object in memory: sparse data in blocks, attributes, map.
//!
//! Data is kept in blocks of 64 KiB that are shared by clones and copied when one of the sharers writes: an overwrite
//! of 4 KiB touches one block however large the object is. Invariant: a block ends at the latest where the object
//! does, and what a block or the lack of one does not hold reads as zeros.

use crate::read::{AttrsWant, Extent, ObjectView, ObjectWant, OmapPart, OmapWant};
use bytes::{Bytes, BytesMut};
use core::ops::Bound;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// The size of a block: large enough that whole-object I/O is a few copies, small enough that the copy of a shared
/// one costs microseconds.
pub(super) const BLOCK: u64 = 64 << 10;

/// An object's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) size: u64,
    blocks: BTreeMap<u64, Arc<Vec<u8>>>,
    pub(super) attrs: BTreeMap<Bytes, Bytes>,
    pub(super) omap_header: Bytes,
    pub(super) omap: BTreeMap<Bytes, Bytes>,
}

impl Object {
    /// Overwrites from `offset`, extending the object where it must.
    pub(super) fn write(&mut self, mut offset: u64, mut data: &[u8]) {
        self.size = self.size.max(offset + data.len() as u64);
        while !data.is_empty() {
            let (index, start) = (offset / BLOCK, (offset % BLOCK) as usize);
            let len = data.len().min(BLOCK as usize - start);
            let block = Arc::make_mut(self.blocks.entry(index).or_default());
            let end = start + len;
            if start == block.len() {
                block.extend_from_slice(&data[..len]);
            } else {
                if block.len() < end {
                    block.resize(end, 0);
                }
                block[start..end].copy_from_slice(&data[..len]);
            }
            offset += len as u64;
            data = &data[len..];
        }
    }

    /// Makes a range read as zeros and extends the object to its end.
    pub(super) fn zero(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.size = self.size.max(end);
        self.discard(offset, end);
    }

    /// Sets the size.
    pub(super) fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.blocks.split_off(&size.div_ceil(BLOCK));
            if let Some(last) = self.blocks.get_mut(&(size / BLOCK)) {
                let keep = (size % BLOCK) as usize;
                if last.len() > keep {
                    Arc::make_mut(last).truncate(keep);
                }
            }
        }
        self.size = size;
    }

    fn discard(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let touched: Vec<u64> = self.blocks.range(start / BLOCK..end.div_ceil(BLOCK)).map(|(i, _)| *i).collect();
        for index in touched {
            let base = index * BLOCK;
            let from = start.saturating_sub(base) as usize;
            let to = (end - base).min(BLOCK) as usize;
            let block = self.blocks.get_mut(&index).expect("the index was just listed");
            let (from, to) = (from.min(block.len()), to.min(block.len()));
            if from == 0 && to == block.len() {
                self.blocks.remove(&index);
            } else if to == block.len() {
                Arc::make_mut(block).truncate(from);
            } else {
                Arc::make_mut(block)[from..to].fill(0);
            }
        }
    }

    /// Reads a range, cut off at the object's end: one copy.
    pub(super) fn read(&self, extent: Extent) -> Bytes {
        let end = extent.offset.saturating_add(extent.len).min(self.size);
        if extent.offset >= end {
            return Bytes::new();
        }
        let mut out = BytesMut::with_capacity((end - extent.offset) as usize);
        let mut at = extent.offset;
        while at < end {
            let (index, start) = (at / BLOCK, (at % BLOCK) as usize);
            let len = (end - at).min(BLOCK - start as u64) as usize;
            let held = self.blocks.get(&index).map_or(&[][..], |b| b.get(start..).unwrap_or(&[]));
            let held = &held[..held.len().min(len)];
            out.extend_from_slice(held);
            out.resize(out.len() + len - held.len(), 0);
            at += len as u64;
        }
        out.freeze()
    }

    /// The parts of a range that blocks hold, neighbours joined.
    fn allocated(&self, extent: Extent) -> Vec<Extent> {
        let end = extent.offset.saturating_add(extent.len).min(self.size);
        let mut out: Vec<Extent> = Vec::new();
        if extent.offset >= end {
            return out;
        }
        for (index, block) in self.blocks.range(extent.offset / BLOCK..end.div_ceil(BLOCK)) {
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
        let blocks: usize = self.blocks.values().map(|b| b.len()).sum();
        let pairs: usize = self.attrs.iter().chain(&self.omap).map(|(k, v)| k.len() + v.len()).sum();
        (blocks + pairs + self.omap_header.len()) as u64
    }

    /// Answers a request.
    pub(super) fn view(&self, want: &ObjectWant) -> ObjectView {
        let attrs = match &want.attrs {
            AttrsWant::None => Vec::new(),
            AttrsWant::All => self.attrs.iter().map(|(n, v)| (n.clone(), v.clone())).collect(),
            AttrsWant::Named(names) => {
                let found = names.iter().filter_map(|n| self.attrs.get_key_value(n));
                let mut found: Vec<_> = found.map(|(n, v)| (n.clone(), v.clone())).collect();
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
            allocated: want.allocated.iter().map(|e| self.allocated(*e)).collect(),
            omap_header: if want.omap_header { self.omap_header.clone() } else { Bytes::new() },
            omap: want.omap.iter().map(|w| self.omap_part(w)).collect(),
        }
    }

    fn omap_part(&self, want: &OmapWant) -> OmapPart {
        let mut part = OmapPart::default();
        match want {
            OmapWant::Keys(keys) => {
                let found = keys.iter().filter_map(|k| self.omap.get_key_value(k));
                part.entries = found.map(|(k, v)| (k.clone(), v.clone())).collect();
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
                    if !key.starts_with(prefix) {
                        break;
                    }
                    let value = if *values { value.clone() } else { Bytes::new() };
                    let size = (key.len() + value.len()) as u64;
                    let count = part.entries.len() as u64;
                    if count >= *entries || count > 0 && taken_bytes + size > *bytes {
                        part.more = true;
                        break;
                    }
                    taken_bytes += size;
                    part.entries.push((key.clone(), value));
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
        e.len(self.blocks.len());
        for (index, block) in &self.blocks {
            e.u64(*index);
            e.blob(block);
        }
        e.put(&self.attrs);
        e.put(&self.omap_header);
        e.put(&self.omap);
    }
}

impl Decode for Object {
    const MIN_BYTES: usize = 24;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let size = d.u64()?;
        let mut blocks = BTreeMap::new();
        for _ in 0..d.len(12)? {
            let (index, block) = (d.u64()?, d.slice()?);
            let end = index.checked_mul(BLOCK).and_then(|base| base.checked_add(block.len() as u64));
            if block.len() as u64 > BLOCK || end.is_none_or(|end| end > size) {
                return Err(Malformed::new("object image", "has a block beyond its bounds"));
            }
            blocks.insert(index, Arc::new(block.to_vec()));
        }
        // The image is one buffer: what stays must not keep all of it alive.
        let pairs = |d: &mut Decoder<'_>| -> Result<BTreeMap<Bytes, Bytes>, Malformed> {
            let len = d.len(8)?;
            (0..len).map(|_| Ok((Bytes::copy_from_slice(d.slice()?), Bytes::copy_from_slice(d.slice()?)))).collect()
        };
        let attrs = pairs(d)?;
        let omap_header = Bytes::copy_from_slice(d.slice()?);
        let omap = pairs(d)?;
        Ok(Object { size, blocks, attrs, omap_header, omap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overwrite_leaves_the_blocks_of_a_clone_alone_and_shares_the_rest() {
        let mut a = Object::default();
        a.write(0, &vec![1; 4 * BLOCK as usize]);
        let b = a.clone();
        a.write(BLOCK + 5, &[9; 10]);
        assert_eq!(b.read(Extent { offset: BLOCK + 5, len: 10 }), vec![1; 10]);
        let shared = a.blocks.iter().filter(|(i, block)| Arc::ptr_eq(block, &b.blocks[i])).count();
        assert_eq!(shared, 3);
    }

    #[test]
    fn holes_cost_nothing_and_read_as_zeros() {
        let mut a = Object::default();
        a.write(10 * BLOCK + 7, b"x");
        a.zero(0, 20 * BLOCK);
        assert_eq!((a.size, a.blocks.len()), (20 * BLOCK, 0));
        a.write(3, b"abc");
        a.truncate(4);
        a.truncate(8);
        assert_eq!(a.read(Extent { offset: 0, len: 100 }).as_ref(), b"\0\0\0a\0\0\0\0");
        assert_eq!(a.allocated(Extent { offset: 0, len: 100 }), [Extent { offset: 0, len: 4 }]);
    }
}
