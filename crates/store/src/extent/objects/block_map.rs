//! Where each block of an object's data lies on the device, and that block's checksum.
//!
//! Owns the mapping and its encoding (`FORMAT.md`, "Objects"). It is a tree of two levels: chunks of 64 blocks in groups of
//! eight. Copies share both until one of them changes: every change of an object begins with a copy of it, which touches
//! the counters of a few groups, then those of one group's chunks, and copies one chunk.
//!
//! Invariants: no chunk is empty of blocks, and no group of chunks.

use crate::extent::layout::{BLOCK, BlockRun, push_block};
use smallvec::SmallVec;
use std::sync::Arc;
use wire::{Decoder, Encoder, Malformed};

/// Blocks of one chunk: 256 KiB of data, so that the change of a block copies less than a kilobyte.
const CHUNK_BLOCKS: u64 = 64;

/// Chunks of one group: 2 MiB of data, and as many pointers as a line of the processor's cache holds.
const GROUP_CHUNKS: u64 = 8;

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

/// Neighbouring chunks, where there are any.
type Group = [Option<Arc<Chunk>>; GROUP_CHUNKS as usize];

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct BlockMap {
    /// By their number. Those of an object of 4 MiB, as a block device's image has, lie in the map itself.
    groups: SmallVec<[(u64, Arc<Group>); 2]>,
    chunks: usize,
}

impl BlockMap {
    /// How many chunks it has.
    pub(crate) fn chunks_held(&self) -> usize {
        self.chunks
    }

    /// The bytes of memory it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.groups.len() * (size_of::<Group>() + 48) + self.chunks * (size_of::<Chunk>() + 16)
    }

    fn find_group(&self, group: u64) -> Result<usize, usize> {
        self.groups.binary_search_by_key(&group, |(number, _)| *number)
    }

    /// Chunks from one number on, in order.
    fn chunks_from(&self, first: u64) -> impl Iterator<Item = (u64, &Chunk)> {
        let from = self.groups.partition_point(|(number, _)| *number < first / GROUP_CHUNKS);
        self.groups[from..]
            .iter()
            .flat_map(|(number, group)| (*number * GROUP_CHUNKS..).zip(group.iter()))
            .filter_map(move |(key, chunk)| Some((key, &**chunk.as_ref().filter(|_| key >= first)?)))
    }

    /// The chunks that blocks from `first` up to, without, `end` are in.
    fn chunks_of(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, &Chunk)> {
        self.chunks_from(first / CHUNK_BLOCKS).take_while(move |(key, _)| key * CHUNK_BLOCKS < end)
    }

    /// A chunk that is this map's own, made where it is missing.
    fn chunk_mut(&mut self, key: u64) -> &mut Chunk {
        let group = key / GROUP_CHUNKS;
        let place = self.find_group(group).unwrap_or_else(|place| {
            self.groups.insert(place, (group, Arc::default()));
            place
        });
        let chunk = &mut Arc::make_mut(&mut self.groups[place].1)[(key % GROUP_CHUNKS) as usize];
        self.chunks += usize::from(chunk.is_none());
        Arc::make_mut(chunk.get_or_insert_default())
    }

    /// Where a block of data lies; none for a hole.
    pub(crate) fn mapped(&self, index: u64) -> Option<Mapped> {
        let key = index / CHUNK_BLOCKS;
        let group = &self.groups[self.find_group(key / GROUP_CHUNKS).ok()?].1;
        let chunk = group[(key % GROUP_CHUNKS) as usize].as_ref()?;
        let at = (index % CHUNK_BLOCKS) as usize;
        (chunk.blocks[at] != 0).then(|| Mapped { block: chunk.blocks[at], crc: chunk.crcs[at] })
    }

    /// Maps a block anew and says where it lay.
    pub(crate) fn map(&mut self, index: u64, mapped: Mapped) -> Option<Mapped> {
        let chunk = self.chunk_mut(index / CHUNK_BLOCKS);
        let at = (index % CHUNK_BLOCKS) as usize;
        let old = Mapped { block: chunk.blocks[at], crc: chunk.crcs[at] };
        (chunk.blocks[at], chunk.crcs[at]) = (mapped.block, mapped.crc);
        (old.block != 0).then_some(old)
    }

    /// Unmaps the blocks from `first` up to, without, `end`; where they lay is appended to `dropped`.
    pub(crate) fn unmap(&mut self, first: u64, end: u64, dropped: &mut Vec<BlockRun>) {
        let (mut kept, mut emptied) = (Vec::new(), Vec::new());
        for (key, chunk) in self.chunks_of(first, end) {
            let base = key * CHUNK_BLOCKS;
            let (from, to) = (first.saturating_sub(base) as usize, (end - base).min(CHUNK_BLOCKS) as usize);
            for &block in chunk.blocks[from..to].iter().filter(|&&block| block != 0) {
                push_block(dropped, block);
            }
            match chunk.blocks[..from].iter().chain(&chunk.blocks[to..]).all(|&block| block == 0) {
                true => emptied.push(key),
                false => kept.push((key, from..to)),
            }
        }
        for (key, blocks) in kept {
            let chunk = self.chunk_mut(key);
            chunk.blocks[blocks.clone()].fill(0);
            chunk.crcs[blocks].fill(0);
        }
        self.remove_chunks(&emptied);
    }

    fn remove_chunks(&mut self, keys: &[u64]) {
        for key in keys {
            let place = self.find_group(key / GROUP_CHUNKS).expect("the chunk was there");
            Arc::make_mut(&mut self.groups[place].1)[(key % GROUP_CHUNKS) as usize] = None;
        }
        self.chunks -= keys.len();
        if !keys.is_empty() {
            self.groups.retain(|(_, group)| group.iter().any(Option::is_some));
        }
    }

    /// All mapped blocks, by index.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, Mapped)> + '_ {
        self.chunks_from(0).flat_map(|(key, chunk)| {
            let mapped = move |at: usize| Mapped { block: chunk.blocks[at], crc: chunk.crcs[at] };
            let all = (0..CHUNK_BLOCKS as usize).filter(|&at| chunk.blocks[at] != 0);
            all.map(move |at| (key * CHUNK_BLOCKS + at as u64, mapped(at)))
        })
    }

    /// All mapped blocks as runs on the device.
    pub(crate) fn runs(&self) -> Vec<BlockRun> {
        let mut runs = Vec::new();
        self.all().for_each(|(_, mapped)| push_block(&mut runs, mapped.block));
        runs
    }

    /// The indices of mapped blocks in a range, as runs.
    pub(crate) fn mapped_in(&self, first: u64, end: u64) -> Vec<BlockRun> {
        let mut runs = Vec::new();
        for (key, chunk) in self.chunks_of(first, end) {
            for at in (0..CHUNK_BLOCKS).filter(|at| chunk.blocks[*at as usize] != 0) {
                let index = key * CHUNK_BLOCKS + at;
                if index >= first && index < end {
                    push_block(&mut runs, index);
                }
            }
        }
        runs
    }

    /// Appends it as a part of an object's value.
    pub(crate) fn encode(&self, e: &mut Encoder) {
        e.len(self.chunks);
        for (key, chunk) in self.chunks_from(0) {
            e.u64(key);
            encode_chunk(chunk, e);
        }
    }

    /// Reads that part.
    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<BlockMap, Malformed> {
        let (mut map, mut next) = (BlockMap::default(), 0);
        for _ in 0..d.len(26)? {
            let key = d.u64()?;
            if key < next || key > u64::MAX / BLOCK / CHUNK_BLOCKS {
                return Err(Malformed::new("object", "has chunks out of order"));
            }
            next = key + 1;
            *map.chunk_mut(key) = decode_chunk(d)?;
        }
        Ok(map)
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
    use std::collections::BTreeMap;

    #[test]
    fn copies_share_until_one_changes() {
        let mut a = BlockMap::default();
        (0..200).for_each(|i| assert_eq!(a.map(i, Mapped { block: 100 + i, crc: i as u32 }), None));
        let b = a.clone();
        assert_eq!(a.map(5, Mapped { block: 9, crc: 9 }), Some(Mapped { block: 105, crc: 5 }));
        assert_eq!(b.mapped(5), Some(Mapped { block: 105, crc: 5 }));
        assert_eq!(a.runs(), [BlockRun::new(100, 5), BlockRun::new(9, 1), BlockRun::new(106, 194)]);
    }

    #[test]
    fn unmapping_gives_back_what_was_there() {
        let mut a = BlockMap::default();
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
        assert_eq!(a, BlockMap::default());
    }

    #[test]
    fn it_is_the_map_that_a_sorted_map_would_be() {
        let mut rng = Rng::new(2);
        for _ in 0..40 {
            let (mut map, mut model, mut before) = (BlockMap::default(), BTreeMap::new(), Vec::new());
            for step in 0..60 {
                // Over several groups, with gaps between them.
                let first = rng.below(3000);
                if rng.chance(1, 3) {
                    let (end, mut dropped) = (first + rng.below(1200), Vec::new());
                    map.unmap(first, end, &mut dropped);
                    let gone: Vec<u64> = model.range(first..end).map(|(index, _)| *index).collect();
                    let gone = gone.iter().filter_map(|index| model.remove(index));
                    let expected: Vec<u64> = gone.map(|mapped: Mapped| mapped.block).collect();
                    assert_eq!(dropped.iter().flat_map(|run| run.start..run.end()).collect::<Vec<_>>(), expected);
                } else {
                    for index in first..first + 1 + rng.below(100) {
                        let mapped = Mapped { block: 1 + rng.below(1 << 40), crc: rng.u64() as u32 };
                        assert_eq!(map.map(index, mapped), model.insert(index, mapped));
                    }
                }
                assert_eq!(map.all().collect::<Vec<_>>(), model.iter().map(|(i, m)| (*i, *m)).collect::<Vec<_>>());
                assert_eq!(map.chunks_held(), map.chunks_from(0).count());
                assert_eq!(map.mapped(first), model.get(&first).copied());
                let (from, to) = (rng.below(3000), rng.below(3000));
                let within: Vec<u64> = map.mapped_in(from, to).iter().flat_map(|run| run.start..run.end()).collect();
                let indices = model.keys().copied().filter(|index| (from..to).contains(index));
                assert_eq!(within, indices.collect::<Vec<_>>());
                if step % 20 == 0 {
                    before.push((map.clone(), model.clone()));
                }
            }
            // What was copied is as it was then.
            for (map, model) in before {
                assert!(map.all().eq(model.into_iter()));
            }
        }
    }
}
