//! Reads in many pieces, as of an object that was written here and there: 4 MiB may lie in 1,024 places.
//!
//! Owns the bound of their later pieces on their way, so that a device that takes requests in turn comes to pages, short
//! reads and the log between them. What has to wait counts as begun: the blocks that it will read are not given away.

use super::store::{ExtentStore, Purpose};
use crate::extent::device::{Io, IoBuf, IoId};
use crate::extent::engine::jobs::PieceId;
use crate::extent::layout::BLOCK;
use std::collections::VecDeque;

/// Pieces of a read that go to the device at once, whatever else is on its way.
const FIRST_PIECES: usize = 4;

/// Later pieces of all reads on their way at once: as many as keep a drive of flash busy.
const LATER_PIECES_MAX: usize = 32;

/// Later pieces.
#[derive(Debug, Default)]
pub(super) struct LongReads {
    waiting: VecDeque<(IoId, Io)>,
    under_way: usize,
}

impl ExtentStore {
    /// Asks for the pieces of a read: which, the first block, how many.
    pub(super) fn read_pieces(&mut self, pieces: Vec<(PieceId, u64, usize)>) {
        for (index, (piece, block, blocks)) in pieces.into_iter().enumerate() {
            let (later, buf) = (index >= FIRST_PIECES, IoBuf::to_fill(blocks * BLOCK as usize));
            self.request(Io::Read { offset: block * BLOCK, buf }, Purpose::Piece { piece, block, later });
            if later {
                self.long_reads.waiting.extend(self.out.pop_back());
            }
        }
        self.send_later_pieces();
    }

    fn send_later_pieces(&mut self) {
        while self.long_reads.under_way < LATER_PIECES_MAX
            && let Some(request) = self.long_reads.waiting.pop_front()
        {
            self.long_reads.under_way += 1;
            self.out.push_back(request);
        }
    }

    /// A later piece has come, or cannot be had.
    pub(super) fn later_piece_ended(&mut self) {
        self.long_reads.under_way -= 1;
        self.send_later_pieces();
    }
}
