//! An object as the store knows it: size, attributes, where each block of its data lies and that block's checksum.
//!
//! Owns the mapping from an object's blocks to the device's, in chunks of 64 blocks that copies of the object share
//! until one of them changes, and the value's encoding in the tree (`FORMAT.md`, "Objects").
//!
//! Invariants: no chunk is empty of blocks; bytes of a mapped block beyond the object's end are zeros.

use crate::extent::layout::{BLOCK, BlockRun, push_block};
use crate::extent::tree::keys::ObjectNumber;
use bytes::Bytes;
use std::sync::Arc;
use wire::{Decoder, Encoder, Malformed};

/// Blocks of one chunk: 256 KiB of data, so that the change of a block copies less than a kilobyte.
pub(crate) const CHUNK_BLOCKS: u64 = 64;

/// Where one block of data lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Mapped {
    /// The device's block.
    pub(crate) block: u64,
    /// The checksum of what it holds.
    pub(crate) crc: u32,
}

/// Where 64 blocks of data lie; block 0 is a hole.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Chunk {
    blocks: [u64; CHUNK_BLOCKS as usize],
    crcs: [u32; CHUNK_BLOCKS as usize],
}

impl Default for Chunk {
    fn default() -> Chunk {
        Chunk { blocks: [0; CHUNK_BLOCKS as usize], crcs: [0; CHUNK_BLOCKS as usize] }
    }
}

/// An object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Object {
    /// Its number, by which its map's entries are found.
    pub(crate) number: ObjectNumber,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Whether its map has ever had an entry; if not, nobody looks for one.
    pub(crate) has_omap: bool,
    /// The map's header.
    pub(crate) omap_header: Bytes,
    /// Attributes, by name.
    pub(crate) attrs: Vec<(Bytes, Bytes)>,
    /// By their number. Every change of an object begins with a copy of this, which a vector makes cheap.
    chunks: Vec<(u64, Arc<Chunk>)>,
}

impl Object {
    /// An object with nothing in it.
    pub(crate) fn new(number: ObjectNumber) -> Object {
        Object { number, ..Object::default() }
    }

    /// How many chunks its map has.
    pub(crate) fn chunks_held(&self) -> usize {
        self.chunks.len()
    }

    fn find_chunk(&self, key: u64) -> Result<usize, usize> {
        self.chunks.binary_search_by_key(&key, |(key, _)| *key)
    }

    /// The places of the chunks that blocks from `first` up to, without, `end` are in; there is a block.
    fn chunks_of(&self, first: u64, end: u64) -> core::ops::Range<usize> {
        let (first, last) = (first / CHUNK_BLOCKS, (end - 1) / CHUNK_BLOCKS);
        let from = self.chunks.partition_point(|(key, _)| *key < first);
        from..from + self.chunks[from..].partition_point(|(key, _)| *key <= last)
    }

    /// Where a block of data lies; none for a hole.
    pub(crate) fn mapped(&self, index: u64) -> Option<Mapped> {
        let chunk = &self.chunks[self.find_chunk(index / CHUNK_BLOCKS).ok()?].1;
        let at = (index % CHUNK_BLOCKS) as usize;
        (chunk.blocks[at] != 0).then(|| Mapped { block: chunk.blocks[at], crc: chunk.crcs[at] })
    }

    /// Maps a block anew and says where it lay.
    pub(crate) fn map(&mut self, index: u64, mapped: Mapped) -> Option<Mapped> {
        let key = index / CHUNK_BLOCKS;
        let place = self.find_chunk(key).unwrap_or_else(|place| {
            self.chunks.insert(place, (key, Arc::default()));
            place
        });
        let chunk = Arc::make_mut(&mut self.chunks[place].1);
        let at = (index % CHUNK_BLOCKS) as usize;
        let old = Mapped { block: chunk.blocks[at], crc: chunk.crcs[at] };
        (chunk.blocks[at], chunk.crcs[at]) = (mapped.block, mapped.crc);
        (old.block != 0).then_some(old)
    }

    /// Unmaps the blocks from `first` up to, without, `end`; where they lay is appended to `dropped`.
    pub(crate) fn unmap(&mut self, first: u64, end: u64, dropped: &mut Vec<BlockRun>) {
        if first >= end {
            return;
        }
        let touched = self.chunks_of(first, end);
        let mut emptied = Vec::new();
        for (place, (key, chunk)) in self.chunks.iter_mut().enumerate().take(touched.end).skip(touched.start) {
            let base = *key * CHUNK_BLOCKS;
            let (from, to) = (first.saturating_sub(base) as usize, (end - base).min(CHUNK_BLOCKS) as usize);
            for &block in chunk.blocks[from..to].iter().filter(|&&block| block != 0) {
                push_block(dropped, block);
            }
            if chunk.blocks[..from].iter().chain(&chunk.blocks[to..]).all(|&block| block == 0) {
                emptied.push(place);
                continue;
            }
            let chunk = Arc::make_mut(chunk);
            chunk.blocks[from..to].fill(0);
            chunk.crcs[from..to].fill(0);
        }
        // Only what lies at the ends of the range may be left, so what is emptied is one run.
        if let (Some(first), Some(last)) = (emptied.first(), emptied.last()) {
            self.chunks.drain(*first..=*last);
        }
    }

    /// All mapped blocks, by index.
    pub(crate) fn all_mapped(&self) -> impl Iterator<Item = (u64, Mapped)> + '_ {
        self.chunks.iter().flat_map(|(key, chunk)| {
            let mapped = move |at: usize| Mapped { block: chunk.blocks[at], crc: chunk.crcs[at] };
            let all = (0..CHUNK_BLOCKS as usize).filter(|&at| chunk.blocks[at] != 0);
            all.map(move |at| (key * CHUNK_BLOCKS + at as u64, mapped(at)))
        })
    }

    /// All mapped blocks as runs on the device.
    pub(crate) fn runs(&self) -> Vec<BlockRun> {
        let mut runs = Vec::new();
        self.all_mapped().for_each(|(_, mapped)| push_block(&mut runs, mapped.block));
        runs
    }

    /// The indices of mapped blocks in a range, as runs.
    pub(crate) fn mapped_in(&self, first: u64, end: u64) -> Vec<BlockRun> {
        let mut runs = Vec::new();
        if first < end {
            for (key, chunk) in &self.chunks[self.chunks_of(first, end)] {
                for at in (0..CHUNK_BLOCKS).filter(|at| chunk.blocks[*at as usize] != 0) {
                    let index = key * CHUNK_BLOCKS + at;
                    if index >= first && index < end {
                        push_block(&mut runs, index);
                    }
                }
            }
        }
        runs
    }

    /// Sets an attribute to copies of its name and value.
    pub(crate) fn set_attr(&mut self, name: &[u8], value: &[u8]) {
        let value = Bytes::copy_from_slice(value);
        match self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)) {
            Ok(at) => self.attrs[at].1 = value,
            Err(at) => self.attrs.insert(at, (Bytes::copy_from_slice(name), value)),
        }
    }

    /// Removes an attribute.
    pub(crate) fn remove_attr(&mut self, name: &[u8]) {
        if let Ok(at) = self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)) {
            self.attrs.remove(at);
        }
    }

    /// The attribute.
    pub(crate) fn attr(&self, name: &[u8]) -> Option<&Bytes> {
        self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok().map(|at| &self.attrs[at].1)
    }

    /// The bytes of memory it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let attrs: usize = self.attrs.iter().map(|(n, v)| n.len() + v.len() + 96).sum();
        160 + attrs + self.omap_header.len() + self.chunks.len() * (size_of::<Chunk>() + 48)
    }

    /// The value in the tree.
    pub(crate) fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.u64(self.number.0);
        e.u64(self.size);
        e.bool(self.has_omap);
        e.blob(&self.omap_header);
        e.len(self.attrs.len());
        for (name, value) in &self.attrs {
            e.blob(name);
            e.blob(value);
        }
        e.len(self.chunks.len());
        for (key, chunk) in &self.chunks {
            e.u64(*key);
            encode_chunk(chunk, e);
        }
    }

    /// Reads a value. Attributes are slices of the decoder's buffer.
    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Object, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("object", "has an unknown version"));
        }
        let (number, size) = (ObjectNumber(d.u64()?), d.u64()?);
        let (has_omap, omap_header) = (d.bool()?, d.blob()?);
        let mut object = Object { number, size, has_omap, omap_header, ..Object::default() };
        let attrs = d.len(8)?;
        object.attrs.reserve_exact(attrs);
        for _ in 0..attrs {
            object.attrs.push((d.blob()?, d.blob()?));
        }
        if !object.attrs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Malformed::new("object", "has attributes out of order"));
        }
        let mut next = 0;
        for _ in 0..d.len(26)? {
            let key = d.u64()?;
            if key < next || key > u64::MAX / BLOCK / CHUNK_BLOCKS {
                return Err(Malformed::new("object", "has chunks out of order"));
            }
            next = key + 1;
            object.chunks.push((key, Arc::new(decode_chunk(d)?)));
        }
        Ok(object)
    }
}

/// Runs of neighbours on the device, then the checksums of all mapped blocks.
fn encode_chunk(chunk: &Chunk, e: &mut Encoder) {
    let count_at = e.position();
    e.u32(0);
    let (mut runs, mut at) = (0, 0);
    while at < CHUNK_BLOCKS as usize {
        let start = chunk.blocks[at];
        if start == 0 {
            at += 1;
            continue;
        }
        let more = chunk.blocks[at..].iter().zip(start..).take_while(|(block, expected)| *block == expected);
        let len = more.count();
        e.u8(at as u8);
        e.u8(len as u8);
        e.u64(start);
        runs += 1;
        at += len;
    }
    e.patch_u32(count_at, runs);
    for at in (0..CHUNK_BLOCKS as usize).filter(|&at| chunk.blocks[at] != 0) {
        e.u32(chunk.crcs[at]);
    }
}

fn decode_chunk(d: &mut Decoder<'_>) -> Result<Chunk, Malformed> {
    let bad = Malformed::new("object", "has a chunk whose runs are out of bounds");
    let mut chunk = Chunk::default();
    let mut next = 0;
    let runs = d.u32()?;
    for _ in 0..runs {
        let (at, len, start) = (usize::from(d.u8()?), usize::from(d.u8()?), d.u64()?);
        if at < next || len == 0 || at + len > CHUNK_BLOCKS as usize || start == 0 || start > u64::MAX / BLOCK {
            return Err(bad);
        }
        chunk.blocks[at..at + len].iter_mut().zip(start..).for_each(|(block, value)| *block = value);
        next = at + len;
    }
    if runs == 0 {
        return Err(bad);
    }
    for at in (0..CHUNK_BLOCKS as usize).filter(|&at| chunk.blocks[at] != 0) {
        chunk.crcs[at] = d.u32()?;
    }
    Ok(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn filled(rng: &mut Rng) -> Object {
        let mut object = Object { number: ObjectNumber(7), size: rng.u64(), ..Object::default() };
        object.omap_header = Bytes::from_static(b"header");
        for _ in 0..rng.below(300) {
            let mapped = Mapped { block: 1 + rng.below(1 << 40), crc: rng.u64() as u32 };
            object.map(rng.below(1000), mapped);
        }
        object.set_attr(b"b", b"2");
        object.set_attr(b"a", b"1");
        object
    }

    #[test]
    fn values_round_trip_and_cut_ones_are_refused() {
        let mut rng = Rng::new(1);
        for _ in 0..50 {
            let object = filled(&mut rng);
            let mut e = Encoder::new();
            object.encode(&mut e);
            let bytes = e.finish();
            let mut d = Decoder::shared(&bytes);
            assert_eq!(Object::decode(&mut d).as_ref(), Ok(&object));
            assert_eq!(d.remaining(), 0);
            let cut = rng.below(bytes.len() as u64) as usize;
            assert!(Object::decode(&mut Decoder::new(&bytes[..cut])).is_err());
        }
    }

    #[test]
    fn copies_share_until_one_changes() {
        let mut a = Object::default();
        (0..200).for_each(|i| assert_eq!(a.map(i, Mapped { block: 100 + i, crc: i as u32 }), None));
        let b = a.clone();
        assert_eq!(a.map(5, Mapped { block: 9, crc: 9 }), Some(Mapped { block: 105, crc: 5 }));
        assert_eq!(b.mapped(5), Some(Mapped { block: 105, crc: 5 }));
        assert_eq!(a.runs(), [BlockRun::new(100, 5), BlockRun::new(9, 1), BlockRun::new(106, 194)]);
    }

    #[test]
    fn unmapping_gives_back_what_was_there() {
        let mut a = Object::default();
        (0..200).for_each(|i| assert!(a.map(i, Mapped { block: 100 + i, crc: 0 }).is_none()));
        let mut dropped = Vec::new();
        a.unmap(60, 130, &mut dropped);
        assert_eq!(dropped, [BlockRun::new(160, 70)]);
        assert_eq!(
            (a.mapped(59).is_some(), a.mapped(60), a.mapped(129), a.mapped(130).is_some()),
            (true, None, None, true)
        );
        assert_eq!(a.mapped_in(50, 140), [BlockRun::new(50, 10), BlockRun::new(130, 10)]);
        a.unmap(0, u64::MAX, &mut dropped);
        assert_eq!(a, Object::default());
    }
}
