//! Where a transaction's data goes.
//!
//! Owns writes, zeros and truncations. Data never overwrites data: every block that changes gets a new place, and its
//! old content, where only a part of it changes, is read and merged. What is small travels in the log and is written to
//! its place later; what is large is written there at once.

use crate::extent::device::BUFFER_BYTES_MAX;
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::log::record::{DirectWrite, cut};
use crate::extent::objects::block_map::Mapped;
use crate::extent::objects::execute::{Hold, Work};
use crate::extent::state::db::part;
use crate::extent::tree::Fault;
use bytes::Bytes;
use smallvec::SmallVec;
use wire::Malformed;

const BLOCK_BYTES: usize = BLOCK as usize;

/// What replay says of a large write whose data is not in its place.
pub(crate) const TORN: Malformed = Malformed { what: "large write", why: "has not arrived whole" };

impl<'a> Work<'a> {
    /// Blocks for new data, as few runs as there are.
    fn give(&mut self, blocks: u64) -> Result<SmallVec<[u64; 2]>, Fault> {
        let mut out = SmallVec::with_capacity(blocks as usize);
        while (out.len() as u64) < blocks {
            let missing = blocks - out.len() as u64;
            let run = match &mut self.before {
                None => self.db.space.allocate(missing).ok_or(Fault::Room)?,
                Some(before) => {
                    let bad = Malformed::new("log entry", "gives blocks that do not fit");
                    let run = before.given.pop_front().filter(|run| run.len > 0 && run.len <= missing).ok_or(bad)?;
                    if !self.db.space.take(run) {
                        return Err(Malformed::new("log entry", "gives blocks that are taken").into());
                    }
                    run
                }
            };
            self.outcome.given.push(run);
            out.extend(run.start..run.end());
        }
        Ok(out)
    }

    /// The present content of a block of data.
    fn content(&mut self, mapped: Mapped) -> Result<Bytes, Fault> {
        match self
            .contents
            .range(..=mapped.block)
            .next_back()
            .and_then(|(first, (run, _))| part(*first, run, mapped.block))
        {
            Some(data) => Ok(data),
            None => self.db.data(mapped),
        }
    }

    fn map(&mut self, slot: usize, index: u64, mapped: Mapped) {
        let Some(old) = self.object(slot).blocks.map(index, mapped) else { return };
        match self.holds.last_mut() {
            Some(Hold::Drop(run)) if run.end() == old.block => run.len += 1,
            _ => self.holds.push(Hold::Drop(BlockRun::new(old.block, 1))),
        }
    }

    /// Gives a block of the object new content, by the log.
    fn put(&mut self, slot: usize, index: u64, block: u64, data: Bytes) {
        let crc = self.sums.sum(&data);
        self.map(slot, index, Mapped { block, crc });
        self.contents.insert(block, (data, false));
    }

    /// The content of a block of the object with a part of it changed.
    fn merged(&mut self, slot: usize, index: u64, change: impl FnOnce(&mut [u8])) -> Result<Bytes, Fault> {
        let mut data = match self.object(slot).blocks.mapped(index) {
            Some(mapped) => self.content(mapped)?.to_vec(),
            None => vec![0; BLOCK_BYTES],
        };
        change(&mut data);
        Ok(data.into())
    }

    pub(crate) fn write(&mut self, op: usize, slot: usize, offset: u64, data: &Bytes) -> Result<(), Fault> {
        let object = self.object(slot);
        object.size = object.size.max(offset + data.len() as u64);
        let known = self.before.as_ref().map(|before| before.direct.iter().find(|d| d.op == op).cloned());
        let direct = match &known {
            Some(known) => known.is_some(),
            None => self.lying(op).is_some() || data.len() >= self.rules.direct_min.max(2 * BLOCK_BYTES),
        };
        if !direct {
            return self.write_small(slot, offset, data);
        }
        let (head, tail) = cut(offset, data.len());
        let tail_at = data.len() - tail;
        self.write_small(slot, offset, &data.slice(..head))?;
        let first = (offset + head as u64) / BLOCK;
        let crcs = match known.flatten() {
            Some(before) => self.place_again(slot, first, before.crcs)?,
            None => self.place(op, slot, first, data.slice(head..tail_at))?,
        };
        self.outcome.direct.push(DirectWrite { op, crcs });
        self.write_small(slot, offset + tail_at as u64, &data.slice(tail_at..))
    }

    /// Where the data of this write lies already.
    fn lying(&self, op: usize) -> Option<&'a [BlockRun]> {
        self.rules.lying.iter().find(|lying| lying.op == op).map(|lying| &lying.runs[..])
    }

    /// Whole blocks that are written to their places at once, or are there; returns their checksums.
    fn place(&mut self, op: usize, slot: usize, first: u64, data: Bytes) -> Result<Vec<u32>, Fault> {
        let crcs: Vec<u32> = data.chunks_exact(BLOCK_BYTES).map(|content| self.sums.sum(content)).collect();
        let blocks = match self.lying(op) {
            Some(runs) => {
                self.outcome.given.extend_from_slice(runs);
                runs.iter().flat_map(|run| run.start..run.end()).collect()
            }
            None => {
                let blocks = self.give((data.len() / BLOCK_BYTES) as u64)?;
                self.send(&blocks, data);
                blocks
            }
        };
        for (index, (&block, &crc)) in (first..).zip(blocks.iter().zip(&crcs)) {
            self.map(slot, index, Mapped { block, crc });
        }
        Ok(crcs)
    }

    /// Has data written to its blocks: in as few writes as they are runs, but for the longest of them.
    fn send(&mut self, blocks: &[u64], data: Bytes) {
        let mut rest = data;
        let runs = blocks.chunk_by(|block, next| *next == block + 1);
        for run in runs.flat_map(|run| run.chunks(BUFFER_BYTES_MAX / BLOCK_BYTES)) {
            let piece = rest.split_to(run.len() * BLOCK_BYTES);
            self.contents.insert(run[0], (piece.clone(), true));
            self.outcome.writes.push((run[0], piece));
        }
    }

    /// The same from the log: the data is in its place.
    fn place_again(&mut self, slot: usize, first: u64, crcs: Vec<u32>) -> Result<Vec<u32>, Fault> {
        let blocks = self.give(crcs.len() as u64)?;
        let unsure = self.before.as_ref().is_some_and(|before| before.unsure);
        for (at, (&block, &crc)) in blocks.iter().zip(&crcs).enumerate() {
            if unsure {
                match self.db.data(Mapped { block, crc }) {
                    Ok(_) => {}
                    Err(Fault::Failed(_)) => return Err(TORN.into()),
                    Err(fault) => return Err(fault),
                }
            }
            self.map(slot, first + at as u64, Mapped { block, crc });
        }
        Ok(crcs)
    }

    fn write_small(&mut self, slot: usize, offset: u64, data: &Bytes) -> Result<(), Fault> {
        if data.is_empty() {
            return Ok(());
        }
        let (first, end) = (offset / BLOCK, (offset + data.len() as u64).div_ceil(BLOCK));
        let blocks = self.give(end - first)?;
        for (index, block) in (first..end).zip(blocks) {
            let begin = index * BLOCK;
            let from = begin.saturating_sub(offset) as usize;
            let into = offset.saturating_sub(begin) as usize;
            let len = (BLOCK_BYTES - into).min(data.len() - from);
            let part = data.slice(from..from + len);
            let content = if len == BLOCK_BYTES {
                self.outcome.carried.push((block, part.clone()));
                part
            } else {
                self.merged(slot, index, |old| old[into..into + len].copy_from_slice(&part))?
            };
            self.put(slot, index, block, content);
        }
        Ok(())
    }

    /// Makes a part of a block zeros, where it is mapped.
    fn zero_part(&mut self, slot: usize, index: u64, from: usize, to: usize) -> Result<(), Fault> {
        if from >= to || self.object(slot).blocks.mapped(index).is_none() {
            return Ok(());
        }
        let content = self.merged(slot, index, |old| old[from..to].fill(0))?;
        let block = self.give(1)?[0];
        self.put(slot, index, block, content);
        Ok(())
    }

    fn unmap(&mut self, slot: usize, first: u64, end: u64) {
        let mut dropped = Vec::new();
        self.object(slot).blocks.unmap(first, end, &mut dropped);
        self.holds.extend(dropped.into_iter().map(Hold::Drop));
    }

    pub(crate) fn zero(&mut self, slot: usize, offset: u64, len: u64) -> Result<(), Fault> {
        let end = offset + len;
        let object = self.object(slot);
        object.size = object.size.max(end);
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        if first > last {
            // Inside one block.
            return self.zero_part(slot, last, (offset % BLOCK) as usize, (end % BLOCK) as usize);
        }
        self.unmap(slot, first, last);
        if !offset.is_multiple_of(BLOCK) {
            self.zero_part(slot, first - 1, (offset % BLOCK) as usize, BLOCK_BYTES)?;
        }
        self.zero_part(slot, last, 0, (end % BLOCK) as usize)
    }

    pub(crate) fn truncate(&mut self, slot: usize, size: u64) -> Result<(), Fault> {
        let object = self.object(slot);
        let shrinks = size < object.size;
        object.size = size;
        if shrinks {
            self.unmap(slot, size.div_ceil(BLOCK), u64::MAX);
            if !size.is_multiple_of(BLOCK) {
                self.zero_part(slot, size / BLOCK, (size % BLOCK) as usize, BLOCK_BYTES)?;
            }
        }
        Ok(())
    }
}
