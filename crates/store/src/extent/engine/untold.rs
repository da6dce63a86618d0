//! Telling the device of what is free.
//!
//! Owns which long runs of free blocks the device has not been told of, and when it is. A device that was told has to find
//! room anew for what is written there, and the telling takes its time: it is told when nobody has asked anything for a
//! while, and of what is soon used again not at all. Only where much has come together it is told while others work.

use super::store::{ExtentStore, Purpose};
use crate::extent::device::Io;
use crate::extent::layout::{BLOCK, BlockRun};
use base::{Duration, Instant};
use std::collections::VecDeque;

/// How long nobody must have asked anything.
const REST: Duration = Duration::from_secs(1);
/// Blocks that are soon used again, 256 MiB: the device is not told of them.
const KEPT_BLOCKS: u64 = 64 << 10;
/// Blocks of which the device is not told while others work, 8 GiB.
const BUSY_BLOCKS_MAX: u64 = 2 << 20;
/// Blocks it is told of in one rest, 1 GiB: whoever asks next waits for no more.
const REST_BLOCKS_MAX: u64 = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Untold {
    /// What became free the longest ago comes first; some is in use again.
    runs: VecDeque<BlockRun>,
    blocks: u64,
    /// When somebody asked for something last.
    asked_at: Instant,
}

impl Untold {
    /// Somebody asks for something.
    pub(super) fn note_asked(&mut self, now: Instant) {
        self.asked_at = now;
    }

    /// A run has become free.
    pub(super) fn add(&mut self, run: BlockRun) {
        self.blocks += run.len;
        self.runs.push_back(run);
    }

    /// The next run, where there are more blocks than may be kept.
    fn next_above(&mut self, kept_max: u64) -> Option<BlockRun> {
        let run = self.runs.pop_front_if(|_| self.blocks > kept_max)?;
        self.blocks -= run.len;
        Some(run)
    }
}

impl ExtentStore {
    /// Tells the device of what is free, where nobody has anything to do.
    pub(super) fn discard_at_rest(&mut self, now: Instant) {
        if now.since(self.untold.asked_at) >= REST && self.is_quiet() {
            self.discard(KEPT_BLOCKS.min(self.geometry.data_blocks() / 64), REST_BLOCKS_MAX);
        }
    }

    /// Tells the device of what has come together while others work.
    pub(super) fn discard_surplus(&mut self) {
        self.discard(BUSY_BLOCKS_MAX.min(self.geometry.data_blocks() / 8), u64::MAX);
    }

    fn discard(&mut self, kept_max: u64, told_max: u64) {
        let Some(min) = self.options.discard_blocks_min else { return };
        let mut told = 0;
        while told < told_max
            && let Some(run) = self.untold.next_above(kept_max)
        {
            for run in self.db.space.take_free(run, min) {
                told += run.len;
                let io = Io::Discard { offset: run.start * BLOCK, len: run.len * BLOCK };
                self.request(io, Purpose::Discard(run));
            }
        }
    }
}
