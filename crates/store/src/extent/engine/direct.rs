//! Large data on its way to its place with its transaction.
//!
//! Owns that way. The group that is being built has to wait for it; the record of the one before does not, which is why only
//! so much is on its way at once. Each piece is copied as it goes, to where it lies in one piece for the device, too.
//!
//! What waits is bounded by what commits may be under way.

use super::store::{ExtentStore, Purpose};
use crate::extent::device::{BUFFER_BYTES_MAX, Io, in_one_piece};
use crate::extent::layout::BLOCK;
use bytes::Bytes;
use std::collections::VecDeque;

/// What is written to its place at once: the first block and the data, whole blocks.
pub(super) type DirectWrites = Vec<(u64, Bytes)>;

/// What is on its way at once.
const UNDER_WAY_BYTES_MAX: usize = 4 << 20;

/// A write that waits for its turn.
#[derive(Debug)]
struct Write {
    group: u64,
    first: u64,
    data: Bytes,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Direct {
    waiting: VecDeque<Write>,
    under_way_bytes: usize,
}

impl ExtentStore {
    /// Hands over the writes of data that belong to the group that is being built.
    pub(super) fn write_directly(&mut self, writes: DirectWrites) {
        for (first, data) in writes {
            self.counts.direct_bytes += data.len() as u64;
            let group = self.log.add_direct();
            self.direct.waiting.push_back(Write { group, first, data });
        }
        self.send_direct();
    }

    fn send_direct(&mut self) {
        while self.direct.under_way_bytes < UNDER_WAY_BYTES_MAX
            && let Some(Write { group, first, data }) = self.direct.waiting.pop_front()
        {
            let bytes = data.len();
            self.direct.under_way_bytes += bytes;
            // What is larger was put together for the device.
            let data = if bytes <= BUFFER_BYTES_MAX { in_one_piece(&data) } else { data };
            let io = Io::Write { offset: first * BLOCK, data, durable: false };
            self.request(io, Purpose::Direct { group, first, bytes });
        }
    }

    /// One of them is in its place.
    pub(super) fn written_directly(&mut self, group: u64, first: u64, bytes: usize) {
        self.direct.under_way_bytes -= bytes;
        self.send_direct();
        self.db.direct.remove(&first);
        let flush = self.log.direct_done(group);
        self.group_went_on(flush);
    }

    /// The device has failed: nothing more is written.
    pub(super) fn abandon_direct(&mut self) {
        self.direct.waiting.clear();
    }
}
