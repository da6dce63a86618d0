//! A drive's sectors: what is read, and what a power cut leaves.
//!
//! What is written and not flushed may be there after a power cut, or not, or in part, sector by sector and in any order;
//! so may what was still under way.

use base::Rng;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::extent::device::{DeviceFailed, Io, IoBuf, ReadAt, WriteAt, placed};
use store::extent::layout::BLOCK;

/// What is written at once, whatever happens.
const SECTOR: usize = 512;
const BLOCK_BYTES: usize = BLOCK as usize;

/// Blocks by number; what was never written is zeros.
type Blocks = BTreeMap<u64, Bytes>;

/// A drive.
#[derive(Debug, Default)]
pub(crate) struct Sectors {
    size: u64,
    /// As whoever reads sees it.
    cache: Blocks,
    /// What a power cut leaves for sure.
    media: Blocks,
    unflushed: Vec<(u64, Bytes)>,
    /// How many writes have been made durable so far.
    flushed: usize,
}

fn put(blocks: &mut Blocks, offset: u64, data: &Bytes) {
    let first = offset / BLOCK;
    for (number, at) in (first..).zip((0..data.len()).step_by(BLOCK_BYTES)) {
        // A copy: a slice would keep its whole buffer alive.
        blocks.insert(number, Bytes::copy_from_slice(&data[at..at + BLOCK_BYTES]));
    }
}

impl Sectors {
    /// A drive of that size with zeros on it.
    pub(crate) fn new(size: u64) -> Sectors {
        Sectors { size, ..Sectors::default() }
    }

    /// Writes that have ended so far: a flush that begins now makes these durable.
    pub(crate) fn written(&self) -> usize {
        self.flushed + self.unflushed.len()
    }

    /// Ends a request that began when so many writes had ended.
    pub(crate) fn end(&mut self, io: Io, written: usize) -> Option<IoBuf> {
        match io {
            Io::Read { offset, mut buf } => {
                self.read_at(offset, &mut buf).ok()?;
                return Some(buf);
            }
            Io::Write { offset, data, durable } => {
                put(&mut self.cache, offset, &data);
                if durable {
                    put(&mut self.media, offset, &data);
                } else {
                    self.unflushed.push((offset, data));
                }
            }
            Io::WriteVectored { offset, pieces } => {
                for (offset, data) in placed(offset, pieces) {
                    put(&mut self.cache, offset, &data);
                    self.unflushed.push((offset, data));
                }
            }
            Io::Flush => {
                for (offset, data) in self.unflushed.drain(..written.saturating_sub(self.flushed)) {
                    self.flushed += 1;
                    put(&mut self.media, offset, &data);
                }
            }
            Io::Discard { offset, len } => {
                let blocks = offset / BLOCK..(offset + len) / BLOCK;
                for blocks_of in [&mut self.cache, &mut self.media] {
                    blocks.clone().for_each(|block| drop(blocks_of.remove(&block)));
                }
            }
        }
        None
    }

    /// The power goes, with these requests under way.
    pub(crate) fn cut(&mut self, under_way: impl Iterator<Item = Io>, rng: &mut Rng) {
        let begun = under_way.flat_map(|io| match io {
            Io::Write { offset, data, .. } => placed(offset, vec![data]),
            Io::WriteVectored { offset, pieces } => placed(offset, pieces),
            _ => placed(0, Vec::new()),
        });
        let mut unsure: Vec<(u64, Bytes)> = self.unflushed.drain(..).chain(begun).collect();
        let share = rng.below(5);
        while !unsure.is_empty() {
            let (offset, data) = unsure.swap_remove(rng.below(unsure.len() as u64) as usize);
            let whole = rng.chance(1, 3);
            let mut found = IoBuf::new(data.len());
            read(&self.media, offset, &mut found);
            for (old, new) in found.as_mut().chunks_mut(SECTOR).zip(data.chunks(SECTOR)) {
                if whole || rng.below(4) < share {
                    old.copy_from_slice(new);
                }
            }
            put(&mut self.media, offset, &Bytes::copy_from_slice(found.as_ref()));
        }
        self.flushed = 0;
        self.cache = self.media.clone();
    }
}

fn read(blocks: &Blocks, offset: u64, buf: &mut IoBuf) {
    let first = offset / BLOCK;
    for (number, part) in (first..).zip(buf.as_mut().chunks_mut(BLOCK_BYTES)) {
        match blocks.get(&number) {
            Some(block) => part.copy_from_slice(block),
            None => part.fill(0),
        }
    }
}

impl ReadAt for Sectors {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        if offset + buf.as_ref().len() as u64 > self.size {
            return Err(DeviceFailed);
        }
        read(&self.cache, offset, buf);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl WriteAt for Sectors {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed> {
        put(&mut self.cache, offset, &Bytes::copy_from_slice(data));
        put(&mut self.media, offset, &Bytes::copy_from_slice(data));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DeviceFailed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(drive: &mut Sectors, block: u64) -> Vec<u8> {
        let mut buf = IoBuf::new(BLOCK_BYTES);
        drive.read_at(block * BLOCK, &mut buf).expect("it is there");
        buf.as_ref().to_vec()
    }

    #[test]
    fn a_power_cut_leaves_what_was_flushed_and_some_of_the_rest() {
        let write = |block: u64, byte: u8, durable: bool| Io::Write {
            offset: block * BLOCK,
            data: vec![byte; BLOCK_BYTES].into(),
            durable,
        };
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..100 {
            let mut drive = Sectors::new(1 << 20);
            drive.end(write(1, 1, true), 0);
            drive.end(write(2, 2, false), 0);
            let written = drive.written();
            drive.end(write(3, 3, false), 0);
            drive.end(Io::Flush, written);
            assert_eq!(at(&mut drive, 3), [3; BLOCK_BYTES]);
            drive.cut([write(4, 4, true)].into_iter(), &mut Rng::new(seed));
            assert_eq!((at(&mut drive, 1), at(&mut drive, 2)), (vec![1; BLOCK_BYTES], vec![2; BLOCK_BYTES]));
            match at(&mut drive, 3).iter().filter(|byte| **byte == 3).count() {
                0 => lost += 1,
                BLOCK_BYTES => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 0 && kept > 0 && torn > 0, "{lost} {kept} {torn}");
    }
}
