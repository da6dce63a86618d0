//! Entries too long for the log's ring: they are written to blocks of data, and an entry in the ring says where.
//!
//! Owns those blocks' way. They are handed out before the transaction runs, so that nothing can fail after it; they are
//! written with its group, as large writes are; and they are free again after the checkpoint that contains the
//! transaction. So the ring bounds no transaction: a small store takes a PG's whole log at once, as a large one does.
//!
//! Invariant: between checkpoints they are taken, in no bitmap, and only the log names them.

use super::store::ExtentStore;
use crate::contract::StoreError;
use crate::extent::device::IoBuf;
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::log::record::OutOfLine;
use crate::extent::tree::Fault;
use crate::limits::TRANSACTION_BYTES_MAX;
use crate::transaction::Transaction;
use bytes::Bytes;
use wire::Encoder;

impl ExtentStore {
    /// Tries a transaction whose entry has at most so many bytes, more than the ring takes.
    pub(super) fn try_commit_out_of_line(
        &mut self,
        transaction: &Transaction,
        direct_min: usize,
        bytes: usize,
    ) -> Result<(), Fault> {
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(StoreError::TransactionTooLarge.into());
        }
        let blocks = (bytes as u64).div_ceil(BLOCK);
        let runs = self.hand_out(blocks)?;
        let entry_bytes = OutOfLine::entry_bytes(runs.len());
        // Its pages, which may be half empty, are more than a checkpoint's usual rest: they count before it is let in.
        let pages = self.pages_at_stake() + 2 * blocks;
        let tried = match () {
            () if !self.log.takes(entry_bytes) => Err(Fault::Turn),
            () if !self.log.has_room(entry_bytes) || pages > self.room_for_pages() => Err(Fault::Room),
            () => self.carry_out(transaction, direct_min),
        };
        let writes = tried.inspect_err(|_| runs.iter().for_each(|run| self.db.space.release(*run)))?;
        self.append_out_of_line(runs);
        self.write_directly(writes);
        Ok(())
    }

    fn hand_out(&mut self, blocks: u64) -> Result<Vec<BlockRun>, Fault> {
        if self.db.space.free_for_data() < blocks {
            return Err(Fault::Room);
        }
        let (mut runs, mut left) = (Vec::new(), blocks);
        while left > 0 {
            let run = self.db.space.allocate(left).expect("so many are free");
            left -= run.len;
            runs.push(run);
        }
        Ok(runs)
    }

    /// Writes the entry that is in `scratch` to these blocks, and to the log where it is.
    fn append_out_of_line(&mut self, runs: Vec<BlockRun>) {
        let body = self.scratch.as_slice();
        let (runs, rest) = cut(runs, (body.len() as u64).div_ceil(BLOCK));
        let mut left = body;
        let mut writes = Vec::with_capacity(runs.len());
        for run in &runs {
            let (piece, after) = left.split_at(left.len().min((run.len * BLOCK) as usize));
            let mut buf = IoBuf::with_capacity((run.len * BLOCK) as usize);
            buf.append(piece);
            buf.fill_up();
            writes.push((run.start, Bytes::from_owner(buf)));
            left = after;
        }
        let entry = OutOfLine::new(self.label.salt, runs, body);
        let mut e = Encoder::new();
        entry.encode(&mut e);
        self.log.append(e.as_slice());
        rest.into_iter().for_each(|run| self.db.space.release(run));
        self.db.lend(&entry.runs);
        self.write_directly(writes);
    }
}

/// The first so many blocks of these, and the others.
fn cut(runs: Vec<BlockRun>, mut blocks: u64) -> (Vec<BlockRun>, Vec<BlockRun>) {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for run in runs {
        let taken = run.len.min(blocks);
        blocks -= taken;
        let parts = [BlockRun::new(run.start, taken), BlockRun::new(run.start + taken, run.len - taken)];
        for (part, to) in parts.into_iter().zip([&mut first, &mut rest]).filter(|(part, _)| part.len > 0) {
            to.push(part);
        }
    }
    (first, rest)
}
