//! One object in memory: sparse data in blocks, attributes, map.
//!
//! Data is kept in blocks of 64 KiB that are shared by clones and copied when one of the sharers writes: an overwrite
//! of 4 KiB touches one block however large the object is. Invariant: a block ends at the latest where the object
//! does, and what a block or the lack of one does not hold reads as zeros.
//!
//! Read next: `block`, of what data consists, and `key`, by which maps are ordered.

use super::block::{BLOCK, Block, Part, SHARED_BYTES_MIN};
use super::key::Key;
use crate::read::{AttrsWant, Extent, ObjectView, ObjectWant, OmapPart, OmapWant};
use bytes::{Bytes, BytesMut};
use core::ops::Bound;
use std::collections::BTreeMap;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// An object's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) size: u64,
    blocks: BTreeMap<u64, Block>,
    pub(super) attrs: BTreeMap<Key, Bytes>,
    pub(super) omap_header: Bytes,
    pub(super) omap: BTreeMap<Key, Bytes>,
}

impl Object {
    /// Overwrites from `offset`, extending the object where it must. Whole blocks of a large write are kept where
    /// they are, the rest is copied.
    pub(super) fn write(&mut self, offset: u64, data: &Bytes) {
        self.size = self.size.max(offset + data.len() as u64);
        let mut done = 0;
        let mut replaced = None;
        while done < data.len() {
            let at = offset + done as u64;
            let (index, start) = (at / BLOCK, (at % BLOCK) as usize);
            let len = (data.len() - done).min(BLOCK as usize - start);
            if len == BLOCK as usize && data.len() >= SHARED_BYTES_MIN {
                let former = self.blocks.insert(index, Block::part(data, done));
                self.settle_former(&mut replaced, index, former);
            } else {
                let block = self.blocks.entry(index).or_default();
                if let Some(part) = block.write(start, &data[done..done + len]) {
                    self.settle_former(&mut replaced, index, Some(Block::Part(part)));
                }
            }
            done += len;
        }
        self.settle(replaced);
    }

    /// Remembers a part that was just replaced; settles the one remembered before if it was of another buffer.
    fn settle_former(&mut self, replaced: &mut Option<(u64, Part)>, index: u64, former: Option<Block>) {
        let Some(Block::Part(part)) = former else { return };
        if replaced.as_ref().is_some_and(|(_, last)| last.is_beside(&part)) {
            return;
        }
        let before = replaced.replace((index, part));
        self.settle(before);
    }

    /// Lets go of a buffer of which less than half is still in use: what is in use is copied.
    fn settle(&mut self, replaced: Option<(u64, Part)>) {
        let Some((index, part)) = replaced else { return };
        let (before, after) = part.blocks_around();
        let range = index.saturating_sub(before)..=index + after;
        let shares = |block: &Block| matches!(block, Block::Part(other) if other.is_beside(&part));
        let used = self.blocks.range(range.clone()).filter(|(_, block)| shares(block)).count() as u64;
        if used > 0 && used * BLOCK < part.buffer_len() / 2 {
            let parts = self.blocks.range_mut(range).filter(|(_, block)| shares(block));
            parts.for_each(|(_, block)| block.own());
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
            let mut replaced = None;
            for (index, block) in self.blocks.split_off(&size.div_ceil(BLOCK)) {
                self.settle_former(&mut replaced, index, Some(block));
            }
            if let Some(last) = self.blocks.get_mut(&(size / BLOCK)) {
                last.truncate((size % BLOCK) as usize);
            }
            self.settle(replaced);
        }
        self.size = size;
    }

    fn discard(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let mut replaced = None;
        let touched: Vec<u64> = self.blocks.range(start / BLOCK..end.div_ceil(BLOCK)).map(|(i, _)| *i).collect();
        for index in touched {
            let base = index * BLOCK;
            let from = start.saturating_sub(base) as usize;
            let to = (end - base).min(BLOCK) as usize;
            let block = self.blocks.get_mut(&index).expect("the index was just listed");
            let (from, to) = (from.min(block.len()), to.min(block.len()));
            if from == 0 && to == block.len() {
                let former = self.blocks.remove(&index);
                self.settle_former(&mut replaced, index, former);
            } else if to == block.len() {
                block.truncate(from);
            } else {
                block.fill_zeros(from, to);
            }
        }
        self.settle(replaced);
    }

    /// Reads a range, cut off at the object's end: where it was written in one large piece, a slice of that, else one
    /// copy.
    pub(super) fn read(&self, extent: Extent) -> Bytes {
        let end = extent.offset.saturating_add(extent.len).min(self.size);
        if extent.offset >= end {
            return Bytes::new();
        }
        if let Some(slice) = self.slice(extent.offset, end) {
            return slice;
        }
        let mut out = BytesMut::with_capacity((end - extent.offset) as usize);
        let mut at = extent.offset;
        while at < end {
            let (index, start) = (at / BLOCK, (at % BLOCK) as usize);
            let len = (end - at).min(BLOCK - start as u64) as usize;
            let held = self.blocks.get(&index).map_or(&[][..], |b| b.bytes().get(start..).unwrap_or(&[]));
            let held = &held[..held.len().min(len)];
            out.extend_from_slice(held);
            out.resize(out.len() + len - held.len(), 0);
            at += len as u64;
        }
        out.freeze()
    }

    /// The range as a slice of the one buffer that holds all of it, if there is one.
    fn slice(&self, start: u64, end: u64) -> Option<Bytes> {
        let (first, last) = (start / BLOCK, (end - 1) / BLOCK);
        let Block::Part(head) = self.blocks.get(&first)? else { return None };
        let follows = |(index, block): (&u64, &Block)| matches!(block, Block::Part(part) if part.is_at(head, (index - first) * BLOCK));
        let all = self.blocks.range(first..=last);
        (all.clone().count() as u64 == last - first + 1 && all.into_iter().all(follows))
            .then(|| head.slice((start % BLOCK) as usize, (end - start) as usize))
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
        e.len(self.blocks.len());
        for (index, block) in &self.blocks {
            e.u64(*index);
            e.blob(block.bytes());
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
        let mut blocks = BTreeMap::new();
        for _ in 0..d.len(12)? {
            let (index, block) = (d.u64()?, d.slice()?);
            let end = index.checked_mul(BLOCK).and_then(|base| base.checked_add(block.len() as u64));
            if block.len() as u64 > BLOCK || end.is_none_or(|end| end > size) {
                return Err(Malformed::new("object image", "has a block beyond its bounds"));
            }
            blocks.insert(index, Block::from(block.to_vec()));
        }
        // The image is one buffer: what stays must not keep all of it alive.
        let pairs = |d: &mut Decoder<'_>| -> Result<BTreeMap<Key, Bytes>, Malformed> {
            let len = d.len(8)?;
            (0..len).map(|_| Ok((Key::new(d.slice()?), Bytes::copy_from_slice(d.slice()?)))).collect()
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

    fn at(offset: u64, len: u64) -> Extent {
        Extent { offset, len }
    }

    #[test]
    fn an_overwrite_leaves_the_blocks_of_a_clone_alone_and_shares_the_rest() {
        for whole in [false, true] {
            let mut a = Object::default();
            let data = Bytes::from(vec![1; 4 * BLOCK as usize]);
            match whole {
                true => a.write(0, &data),
                false => (0..4).for_each(|i| a.write(i * BLOCK, &data.slice(..BLOCK as usize))),
            }
            let b = a.clone();
            a.write(BLOCK + 5, &Bytes::from_static(&[9; 10]));
            assert_eq!(b.read(at(BLOCK + 5, 10)), vec![1; 10]);
            assert_eq!(a.read(at(BLOCK + 4, 12)).as_ref(), [&[1][..], &[9; 10], &[1]].concat());
            let shared = a.blocks.iter().filter(|(i, block)| block.bytes().as_ptr() == b.blocks[i].bytes().as_ptr());
            assert_eq!(shared.count(), 3);
        }
    }

    #[test]
    fn holes_cost_nothing_and_read_as_zeros() {
        let mut a = Object::default();
        a.write(10 * BLOCK + 7, &Bytes::from_static(b"x"));
        a.zero(0, 20 * BLOCK);
        assert_eq!((a.size, a.blocks.len()), (20 * BLOCK, 0));
        a.write(3, &Bytes::from_static(b"abc"));
        a.truncate(4);
        a.truncate(8);
        assert_eq!(a.read(at(0, 100)).as_ref(), b"\0\0\0a\0\0\0\0");
        assert_eq!(a.allocated(at(0, 100)), [at(0, 4)]);
    }

    #[test]
    fn a_large_write_is_kept_and_read_where_it_is() {
        let data: Bytes = (0..10 * BLOCK as usize).map(|i| (i / 7) as u8).collect::<Vec<_>>().into();
        let mut a = Object::default();
        a.write(100, &data);
        let slice = a.read(at(BLOCK + 9, 6 * BLOCK));
        assert_eq!(slice, data.slice((BLOCK + 9 - 100) as usize..(7 * BLOCK + 9 - 100) as usize));
        assert_eq!(slice.as_ptr(), data[(BLOCK + 9 - 100) as usize..].as_ptr());
        // Its ends are not whole blocks; what spans them is a copy.
        assert_eq!(a.read(at(0, 100 + data.len() as u64))[100..], data);
        // A hole in the middle, and a block of another write.
        a.zero(3 * BLOCK, BLOCK);
        a.write(4 * BLOCK, &data.slice(..BLOCK as usize));
        let read = a.read(at(2 * BLOCK, 4 * BLOCK));
        let (b, from) = (BLOCK as usize, 2 * BLOCK as usize - 100);
        let expected = [&data[from..from + b], &vec![0; b], &data[..b], &data[from + 3 * b..from + 4 * b]].concat();
        assert_eq!(read, expected);
    }

    #[test]
    fn a_buffer_of_which_little_is_used_is_let_go() {
        let data = Bytes::from(vec![3; 8 * BLOCK as usize]);
        let parts = |o: &Object| o.blocks.values().filter(|block| matches!(block, Block::Part(_))).count();
        let filled = || {
            let mut o = Object::default();
            o.write(0, &data);
            o
        };
        let mut a = filled();
        (0..4).for_each(|i| a.write(i * BLOCK, &Bytes::from_static(b"small")));
        assert_eq!(parts(&a), 4, "half of it is worth keeping");
        a.write(4 * BLOCK, &Bytes::from_static(b"small"));
        assert_eq!(parts(&a), 0);
        let mut b = filled();
        b.truncate(2 * BLOCK + 1);
        assert_eq!((parts(&b), b.read(at(0, 3 * BLOCK)).len()), (0, 2 * BLOCK as usize + 1));
        let mut c = filled();
        c.zero(BLOCK, 7 * BLOCK);
        assert_eq!((parts(&c), c.read(at(0, 2)).as_ref()), (0, &[3, 3][..]));
        let mut d = filled();
        d.write(BLOCK, &Bytes::from(vec![4; 7 * BLOCK as usize]));
        assert_eq!(parts(&d), 7, "the new buffer's parts stay");
        assert_eq!(d.read(at(BLOCK - 1, 2)).as_ref(), [3, 4]);
    }
}
