//! Work that nobody waits for: steps of the checkpoint, freeing what it replaced, clearing removed collections away.

use super::checkpoint::Want;
use super::store::{ExtentStore, Leaving, Purpose};
use crate::extent::device::Io;
use crate::extent::layout::{BLOCK, BlockRun, push_run};
use crate::extent::log::record;
use crate::extent::objects::execute;
use crate::extent::state::collection::Stretch;
use crate::extent::state::db::Layer;
use crate::extent::superblock::Superblock;
use crate::extent::tree::Fault;
use base::{Bug, Duration, Instant};
use bytes::Bytes;

/// Objects of a removed collection cleared away by one record.
const CLEAR_OBJECTS: u32 = 64;

/// How long nobody must have written for what the log holds to be taken up.
const PAUSE: Duration = Duration::from_secs(2);

/// Less memory than this is not worth a checkpoint after each of a few writes a minute.
const PAUSE_BYTES_MIN: u64 = 256 << 10;

impl ExtentStore {
    /// To be called now and then, about once a second: what can wait for a pause is done in one.
    pub fn rest(&mut self, now: Instant) {
        if self.failed || self.options.read_only {
            return;
        }
        self.take_up_in_a_pause(now);
        self.discard_at_rest(now);
    }

    /// A checkpoint, if nobody has written for a while: what it takes up is memory that readers have a use for, a block of
    /// data often more than itself, as its record holds others that are gone; and the next start has no log to read.
    fn take_up_in_a_pause(&mut self, now: Instant) {
        let held = self.db.waiting_bytes() + self.db.active.table.bytes() as u64;
        let is_pause = now.since(self.committed_at) >= PAUSE;
        // What one that is under way takes up is no reason for another, which would press on commits that go on beside it.
        if is_pause && self.checkpoint.is_none() && held >= PAUSE_BYTES_MIN {
            self.checkpoint_wanted = true;
        }
    }

    pub(super) fn clear_trash(&mut self) {
        let Some(&stretch) = self.db.trash.first() else { return };
        if self.log.is_busy() || !self.log.has_room(64) {
            return;
        }
        match self.clear(stretch) {
            Ok(()) | Err(Fault::Room | Fault::Turn) => {}
            Err(Fault::Failed(_)) => self.fail(),
            Err(fault) => self.fetch(fault),
        }
    }

    fn clear(&mut self, stretch: Stretch) -> Result<(), Fault> {
        execute::clear(&mut self.db, stretch, CLEAR_OBJECTS)?;
        self.log.append(|body| record::encode_clear(stretch, CLEAR_OBJECTS, body.text()));
        Ok(())
    }

    pub(super) fn step_checkpoint(&mut self) {
        let may_wait = self.log.is_busy() && !self.is_checkpoint_pressing();
        let Some(checkpoint) = self.checkpoint.as_mut().filter(|_| !self.ending) else { return };
        if may_wait && checkpoint.is_ahead(self.log.total) {
            return;
        }
        match checkpoint.step(&mut self.db) {
            Ok(Want::Write(block, pieces)) => {
                let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                self.counts.checkpoint_bytes += bytes;
                let run = BlockRun::new(block, bytes / BLOCK);
                self.request(Io::WriteVectored { offset: block * BLOCK, pieces }, Purpose::Background(run));
            }
            Ok(Want::Again) => self.again = true,
            Ok(Want::Wait) => {}
            // The records that it contains have to be durable before it is.
            Ok(Want::Flush) if self.log.durable + 1 < checkpoint.point.sequence => {}
            Ok(Want::Flush) if Bug::CheckpointUnflushed.is_planted() => {
                self.ending = true;
                self.write_superblocks();
            }
            Ok(Want::Flush) => {
                self.ending = true;
                self.request(Io::Flush, Purpose::BackgroundFlush);
            }
            Err(Fault::Failed(_) | Fault::Room | Fault::Turn) => self.fail(),
            Err(fault) => self.fetch(fault),
        }
    }

    pub(super) fn write_superblocks(&mut self) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let superblock = Superblock {
            label: self.label,
            geometry: self.geometry,
            generation: checkpoint.generation,
            root: checkpoint.root,
            log: checkpoint.point,
            next_number: checkpoint.next_number,
            bitmap_sum: self.db.space.sum(),
        };
        let places = superblock.places();
        let data = Bytes::from_owner(superblock.encode());
        self.superblocks_left = places.len();
        for block in places {
            let io = Io::Write { offset: block * BLOCK, data: data.clone(), durable: true };
            self.request(io, Purpose::Superblock);
        }
    }

    pub(super) fn finish_checkpoint(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        self.ending = false;
        self.db.root = checkpoint.root;
        self.db.frozen = Layer::default();
        self.log.tail = checkpoint.point;
        self.log.contained = checkpoint.log_total;
        self.log.generation = checkpoint.generation;
        self.counts.checkpoints += 1;
        self.last_written = checkpoint.written;
        self.leaving.push_back(Leaving { before: self.next_io, runs: checkpoint.freed });
        self.retry = true;
    }

    /// Frees what nobody reads any more.
    pub(super) fn release(&mut self) {
        let oldest = self.reading.first().copied().unwrap_or(u64::MAX);
        while let Some(leaving) = self.leaving.pop_front_if(|leaving| leaving.before < oldest) {
            for run in joined(leaving.runs) {
                self.free(run);
                if self.options.discard_blocks_min.is_some_and(|min| run.len >= min) {
                    self.untold.add(run);
                }
            }
            self.discard_surplus();
            self.retry = true;
        }
    }

    pub(super) fn free(&mut self, run: BlockRun) {
        self.db.forget(run);
        self.db.space.release(run);
    }
}

/// The same blocks in as few runs as there are.
fn joined(mut runs: Vec<BlockRun>) -> Vec<BlockRun> {
    runs.sort_unstable();
    let mut out = Vec::new();
    runs.into_iter().for_each(|run| push_run(&mut out, run));
    out
}
