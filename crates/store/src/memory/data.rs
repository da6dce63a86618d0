//! An object's data: blocks of its own, and buffers in which large writes arrived.
//!
//! Owns the choice between copying and keeping. The whole blocks of a large write stay in the buffer they were received
//! in: a MiB then costs no copy on its way in. A read inside a buffer or a block is a slice of it, which costs none on
//! its way out. A small write changes what it writes to in place as long as nobody else holds that (a reader's answer on
//! its way, a clone); where somebody does, the block that is written gets bytes of its own.
//!
//! Invariants: a block that is part of a buffer lies in it where its index says, `used` counts those blocks, and a
//! buffer of which less than half is still used is let go, its rest copied.

use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The size of a block: large enough that whole-object I/O is a few copies, small enough that the copy of a shared
/// one costs microseconds.
pub(super) const BLOCK: u64 = 64 << 10;

/// A write of at least this many bytes is kept where it is. The memory behind it may be larger by what a socket's
/// read leaves room for, 64 KiB: at most a quarter then.
pub(super) const KEPT_BYTES_MIN: usize = 256 << 10;

/// A read of at least this many bytes is answered with a slice of what is held.
const SLICED_BYTES_MIN: u64 = 1 << 10;

/// A block ends at the latest where the object does; what it does not hold reads as zeros.
#[derive(Clone, Debug)]
enum Block {
    /// Shared by clones, copied when one of them writes.
    Own(Arc<Vec<u8>>),
    /// The first `len` bytes of its place in a buffer.
    Part { buffer: u32, len: usize },
}

/// A block as the owner of slices of it.
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The middle of a large write, which begins and ends with whole blocks.
#[derive(Clone, Debug)]
struct Buffer {
    bytes: Bytes,
    /// The index of its first block.
    first: u64,
    /// How many blocks are still part of it.
    used: u64,
}

impl Buffer {
    fn blocks(&self) -> u64 {
        self.bytes.len() as u64 / BLOCK
    }

    fn part(&self, index: u64, len: usize) -> &[u8] {
        &self.bytes[self.at(index)..][..len]
    }

    fn at(&self, index: u64) -> usize {
        ((index - self.first) * BLOCK) as usize
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    blocks: BTreeMap<u64, Block>,
    buffers: BTreeMap<u32, Buffer>,
    last_buffer: u32,
}

/// The buffers that a change took blocks from.
type Touched = Vec<u32>;

impl Data {
    /// Overwrites from `offset`.
    pub(super) fn write(&mut self, offset: u64, data: &Bytes) {
        let mut touched = Touched::new();
        let end = offset + data.len() as u64;
        let (first, last) = (offset.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
        if data.len() >= KEPT_BYTES_MIN && last > first {
            let (head, tail) = ((first - offset) as usize, (last - offset) as usize);
            self.copy(offset, &data[..head], &mut touched);
            self.keep(first / BLOCK, data.slice(head..tail), &mut touched);
            self.copy(last, &data[tail..], &mut touched);
        } else {
            self.copy(offset, data, &mut touched);
        }
        self.settle(touched);
    }

    fn keep(&mut self, first: u64, bytes: Bytes, touched: &mut Touched) {
        self.last_buffer += 1;
        let (id, used) = (self.last_buffer, bytes.len() as u64 / BLOCK);
        self.buffers.insert(id, Buffer { bytes, first, used });
        for index in first..first + used {
            self.replace(index, Some(Block::Part { buffer: id, len: BLOCK as usize }), touched);
        }
    }

    fn copy(&mut self, mut offset: u64, mut data: &[u8], touched: &mut Touched) {
        while !data.is_empty() {
            let (index, start) = (offset / BLOCK, (offset % BLOCK) as usize);
            let (here, rest) = data.split_at(data.len().min(BLOCK as usize - start));
            if !self.write_in_place(index, start, here) {
                let block = self.own(index, touched);
                if start == block.len() {
                    block.extend_from_slice(here);
                } else {
                    block.resize(block.len().max(start + here.len()), 0);
                    block[start..start + here.len()].copy_from_slice(here);
                }
            }
            offset += here.len() as u64;
            data = rest;
        }
    }

    /// Changes a buffer that nobody else holds; false where that is not so.
    fn write_in_place(&mut self, index: u64, start: usize, data: &[u8]) -> bool {
        let Some(Block::Part { buffer, len }) = self.blocks.get(&index) else { return false };
        if start + data.len() > *len {
            return false;
        }
        let buffer = self.buffers.get_mut(buffer).expect("a part's buffer is held");
        let at = buffer.at(index) + start;
        match core::mem::take(&mut buffer.bytes).try_into_mut() {
            Ok(mut bytes) => {
                bytes[at..at + data.len()].copy_from_slice(data);
                buffer.bytes = bytes.freeze();
                true
            }
            Err(shared) => {
                buffer.bytes = shared;
                false
            }
        }
    }

    /// A block's bytes, its own from here on.
    fn own(&mut self, index: u64, touched: &mut Touched) -> &mut Vec<u8> {
        if !matches!(self.blocks.get(&index), Some(Block::Own(_))) {
            let bytes = self.block(index).to_vec();
            self.replace(index, Some(Block::Own(Arc::new(bytes))), touched);
        }
        match self.blocks.get_mut(&index) {
            Some(Block::Own(bytes)) => Arc::make_mut(bytes),
            _ => unreachable!("it was just given its own"),
        }
    }

    /// What a block holds.
    fn block(&self, index: u64) -> &[u8] {
        self.blocks.get(&index).map_or(&[], |block| self.bytes(index, block))
    }

    fn bytes<'a>(&'a self, index: u64, block: &'a Block) -> &'a [u8] {
        match block {
            Block::Own(bytes) => bytes,
            Block::Part { buffer, len } => self.buffers[buffer].part(index, *len),
        }
    }

    fn replace(&mut self, index: u64, block: Option<Block>, touched: &mut Touched) {
        let former = match block {
            Some(block) => self.blocks.insert(index, block),
            None => self.blocks.remove(&index),
        };
        if let Some(Block::Part { buffer, .. }) = former {
            self.buffers.get_mut(&buffer).expect("a part's buffer is held").used -= 1;
            if touched.last() != Some(&buffer) {
                touched.push(buffer);
            }
        }
    }

    /// Lets go of the buffers that are hardly used any more.
    fn settle(&mut self, touched: Touched) {
        for id in touched {
            let Some(buffer) = self.buffers.get(&id).filter(|buffer| buffer.used * 2 < buffer.blocks()) else {
                continue;
            };
            for (index, block) in self.blocks.range_mut(buffer.first..buffer.first + buffer.blocks()) {
                if let Block::Part { buffer: its, len } = block
                    && *its == id
                {
                    *block = Block::Own(Arc::new(buffer.part(*index, *len).to_vec()));
                }
            }
            self.buffers.remove(&id);
        }
    }

    /// Forgets everything from `size` on.
    pub(super) fn truncate(&mut self, size: u64) {
        let mut touched = Touched::new();
        let gone: Vec<u64> = self.blocks.range(size.div_ceil(BLOCK)..).map(|(index, _)| *index).collect();
        gone.into_iter().for_each(|index| self.replace(index, None, &mut touched));
        self.cut(size / BLOCK, (size % BLOCK) as usize);
        self.settle(touched);
    }

    fn cut(&mut self, index: u64, keep: usize) {
        match self.blocks.get_mut(&index) {
            Some(Block::Own(bytes)) if bytes.len() > keep => Arc::make_mut(bytes).truncate(keep),
            Some(Block::Part { len, .. }) => *len = keep.min(*len),
            _ => {}
        }
    }

    /// Makes a range read as zeros.
    pub(super) fn discard(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let mut old = Touched::new();
        let touched: Vec<u64> = self.blocks.range(start / BLOCK..end.div_ceil(BLOCK)).map(|(i, _)| *i).collect();
        for index in touched {
            let (base, len) = (index * BLOCK, self.block(index).len());
            let from = (start.saturating_sub(base) as usize).min(len);
            let to = ((end - base).min(BLOCK) as usize).min(len);
            if from == 0 && to == len {
                self.replace(index, None, &mut old);
            } else if to == len {
                self.cut(index, from);
            } else {
                self.own(index, &mut old)[from..to].fill(0);
            }
        }
        self.settle(old);
    }

    /// Reads a range: where it lies in one buffer or block, a slice of that, else one copy.
    pub(super) fn read(&self, start: u64, end: u64) -> Bytes {
        if let Some(slice) = self.slice(start, end) {
            return slice;
        }
        let mut out = BytesMut::with_capacity((end - start) as usize);
        let mut at = start;
        while at < end {
            let (index, from) = (at / BLOCK, (at % BLOCK) as usize);
            let len = (end - at).min(BLOCK - from as u64) as usize;
            let held = self.block(index).get(from..).unwrap_or(&[]);
            let held = &held[..held.len().min(len)];
            out.extend_from_slice(held);
            out.resize(out.len() + len - held.len(), 0);
            at += len as u64;
        }
        out.freeze()
    }

    fn slice(&self, start: u64, end: u64) -> Option<Bytes> {
        // A few bytes are as soon copied, and a slice of them might be in a writer's way.
        if end - start < SLICED_BYTES_MIN {
            return None;
        }
        let (first, last) = (start / BLOCK, (end - 1) / BLOCK);
        let id = match self.blocks.get(&first)? {
            Block::Part { buffer, .. } => buffer,
            Block::Own(bytes) => {
                let (from, to) = ((start % BLOCK) as usize, (end - first * BLOCK) as usize);
                let held = Held(bytes.clone());
                return (to <= bytes.len()).then(|| Bytes::from_owner(held).slice(from..to));
            }
        };
        let mut expected = first;
        for (index, block) in self.blocks.range(first..=last) {
            let needed = if *index == last { (end - last * BLOCK) as usize } else { BLOCK as usize };
            let there = matches!(block, Block::Part { buffer, len } if buffer == id && *len >= needed);
            if !there || *index != expected {
                return None;
            }
            expected += 1;
        }
        let buffer = &self.buffers[id];
        let at = buffer.at(first) + (start % BLOCK) as usize;
        (expected == last + 1).then(|| buffer.bytes.slice(at..at + (end - start) as usize))
    }

    /// The blocks that hold something, in order.
    pub(super) fn blocks(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|(index, block)| (*index, self.bytes(*index, block)))
    }

    /// The same, of those that overlap a range.
    pub(super) fn blocks_in(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let range = self.blocks.range(start / BLOCK..end.div_ceil(BLOCK));
        range.map(|(index, block)| (*index, self.bytes(*index, block)))
    }

    /// Gives a block its bytes.
    pub(super) fn insert(&mut self, index: u64, bytes: Vec<u8>) {
        self.replace(index, Some(Block::Own(Arc::new(bytes))), &mut Touched::new());
    }
}

/// Equal if the blocks hold the same bytes, wherever these are.
impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        self.blocks().eq(other.blocks())
    }
}

impl Eq for Data {}

#[cfg(test)]
mod tests;
