//! Data on its way from the log's records to its place, before a checkpoint asks for it.
//!
//! Owns the bound of what waits in memory. Data never overwrites data, so its place is free in the durable tree: it may
//! be written at any time, and a crash leaves nothing behind that counts. Whoever writes a block again soon is spared the
//! first write, as long as it waits.
//!
//! Invariant: no checkpoint begins while such writes are on their way: its flush covers them all.

use super::store::{ExtentStore, Purpose};
use crate::extent::device::Io;
use crate::extent::layout::BLOCK;

/// Bytes of data that may wait in memory, or a part of the log's size: enough that neighbours make large writes.
const WAITING_BYTES_MAX: u64 = 2 << 20;
const WAITING_PART_MAX: u64 = 16;

/// Writes on their way at once.
const WRITES_MAX: usize = 2;

/// How far the writing is.
#[derive(Debug, Default)]
pub(super) struct Placing {
    /// Behind the last block sent.
    cursor: u64,
    /// Writes on their way.
    pub(super) writes: usize,
}

impl ExtentStore {
    /// Sends what waits beyond the bound, in turn: blocks are handed out in order, so the next ones wait longest.
    pub(super) fn place_waiting(&mut self) {
        let waiting_max = WAITING_BYTES_MAX.min(self.geometry.log_bytes() / WAITING_PART_MAX);
        while self.placing.writes < WRITES_MAX
            && self.db.active.deferred.len() as u64 * BLOCK > waiting_max
            && let Some((first, pieces)) = self.db.send_waiting(self.placing.cursor)
        {
            self.placing.cursor = first + pieces.len() as u64;
            self.placing.writes += 1;
            self.counts.checkpoint_bytes += pieces.len() as u64 * BLOCK;
            self.request(Io::WriteVectored { offset: first * BLOCK, pieces }, Purpose::Placing(first));
        }
    }

    /// Such a write has ended.
    pub(super) fn placed(&mut self, first: u64) {
        self.db.placing.remove(&first);
        self.placing.writes -= 1;
    }
}
