//! A disk that forgets: what is not flushed may be lost, kept or torn by a power cut, sector by sector, in any order.

use base::Rng;
use bytes::Bytes;
use store::extent::device::{DeviceFailed, Io, IoBuf, IoId, ReadAt, WriteAt, placed};

/// What is written at once, whatever happens.
const SECTOR: usize = 512;

struct Unflushed {
    offset: usize,
    data: Bytes,
}

/// The disk.
pub(crate) struct Disk {
    /// As whoever reads sees it.
    cache: Vec<u8>,
    /// What a power cut leaves for sure.
    media: Vec<u8>,
    unflushed: Vec<Unflushed>,
    /// Requests under way; a flush with the number of writes that were complete when it began.
    queue: Vec<(IoId, Io, usize)>,
    /// How many writes have been made durable so far: what a flush's number counts from.
    flushed: usize,
    /// Requests carried out.
    pub(crate) steps: u64,
    /// Bytes that it was told are free.
    pub(crate) discarded: u64,
    /// A request to fail, counted from now.
    pub(crate) fail_after: Option<u64>,
}

impl Disk {
    pub(crate) fn new(media: Vec<u8>) -> Disk {
        let cache = media.clone();
        let (unflushed, queue) = (Vec::new(), Vec::new());
        Disk { cache, media, unflushed, queue, flushed: 0, steps: 0, discarded: 0, fail_after: None }
    }

    pub(crate) fn submit(&mut self, id: IoId, io: Io) {
        let complete = self.flushed + self.unflushed.len();
        self.queue.push((id, io, complete));
    }

    /// Carries out one of the requests, in no order.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Option<(IoId, Result<Option<IoBuf>, DeviceFailed>)> {
        if self.queue.is_empty() {
            return None;
        }
        self.steps += 1;
        let at = rng.below(self.queue.len() as u64) as usize;
        let (id, io, complete) = self.queue.swap_remove(at);
        if let Some(left) = &mut self.fail_after {
            *left = left.saturating_sub(1);
            if *left == 0 && !matches!(io, Io::Read { .. }) {
                self.fail_after = None;
                return Some((id, Err(DeviceFailed)));
            }
        }
        Some((id, Ok(self.carry_out(io, complete))))
    }

    fn carry_out(&mut self, io: Io, complete: usize) -> Option<IoBuf> {
        match io {
            Io::Read { offset, mut buf } => {
                let offset = offset as usize;
                let len = buf.as_ref().len();
                buf.as_mut().copy_from_slice(&self.cache[offset..offset + len]);
                return Some(buf);
            }
            Io::Write { offset, data, durable } => {
                assert_eq!((offset % 4096, data.len() % 4096), (0, 0), "whole blocks");
                assert_eq!(data.as_ptr().align_offset(4096), 0, "aligned");
                let offset = offset as usize;
                self.cache[offset..offset + data.len()].copy_from_slice(&data);
                if durable {
                    self.media[offset..offset + data.len()].copy_from_slice(&data);
                } else {
                    self.unflushed.push(Unflushed { offset, data });
                }
            }
            Io::WriteVectored { offset, pieces } => {
                for (offset, data) in placed(offset, pieces) {
                    self.carry_out(Io::Write { offset, data, durable: false }, complete);
                }
            }
            Io::Flush => {
                for write in self.unflushed.drain(..complete.saturating_sub(self.flushed)) {
                    self.flushed += 1;
                    self.media[write.offset..write.offset + write.data.len()].copy_from_slice(&write.data);
                }
            }
            Io::Discard { offset, len } => {
                let range = offset as usize..(offset + len) as usize;
                self.discarded += len;
                self.cache[range.clone()].fill(0xDD);
                self.media[range].fill(0xDD);
            }
        }
        None
    }

    /// The power goes: what is found afterwards.
    pub(crate) fn cut(mut self, rng: &mut Rng) -> Vec<u8> {
        for (_, io, _) in self.queue.drain(..) {
            let (offset, pieces) = match io {
                Io::Write { offset, data, .. } => (offset, vec![data]),
                Io::WriteVectored { offset, pieces } => (offset, pieces),
                _ => continue,
            };
            let writes = placed(offset, pieces).map(|(offset, data)| Unflushed { offset: offset as usize, data });
            self.unflushed.extend(writes);
        }
        let share = rng.below(5);
        while !self.unflushed.is_empty() {
            let at = rng.below(self.unflushed.len() as u64) as usize;
            let Unflushed { offset, data } = self.unflushed.swap_remove(at);
            let whole = rng.chance(1, 3);
            for (index, sector) in data.chunks(SECTOR).enumerate() {
                if whole || rng.below(4) < share {
                    let from = offset + index * SECTOR;
                    self.media[from..from + sector.len()].copy_from_slice(sector);
                }
            }
        }
        self.media
    }
}

/// A device that is only looked at, or laid down.
pub(crate) struct Still(pub(crate) Vec<u8>);

impl ReadAt for Still {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        let len = buf.as_ref().len();
        let from = self.0.get(offset as usize..offset as usize + len).ok_or(DeviceFailed)?;
        buf.as_mut().copy_from_slice(from);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}

impl WriteAt for Still {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed> {
        let to = self.0.get_mut(offset as usize..offset as usize + data.len()).ok_or(DeviceFailed)?;
        to.copy_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DeviceFailed> {
        Ok(())
    }
}
