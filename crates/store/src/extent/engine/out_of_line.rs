//! Entries too long for the log's ring: they are written to blocks of data, and an entry in the ring says where.
//!
//! Owns those blocks' way. They are handed out before the transaction runs, so that nothing can fail after it; they are
//! written with its group, as large writes are; and they are free again after the checkpoint that contains the
//! transaction. So the ring bounds no transaction: a small store takes a PG's whole log at once, as a large one does.
//!
//! Invariant: between checkpoints they are taken, in no bitmap, and only the log names them.

use super::store::ExtentStore;
use crate::contract::StoreError;
use crate::extent::layout::{BLOCK, BlockRun, push_run};
use crate::extent::log::body::Body;
use crate::extent::log::record::{self, OutOfLine};
use crate::extent::tree::Fault;
use crate::limits::TRANSACTION_BYTES_MAX;
use crate::transaction::Transaction;
use bytes::Bytes;

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
        let outcome = tried.inspect_err(|_| runs.iter().for_each(|run| self.db.space.release(*run)))?;
        // The record does not hold its data: what came in larger buffers is copied out of them.
        for (block, data) in &outcome.carried {
            self.db.move_waiting(*block, Bytes::copy_from_slice(data));
        }
        let mut body = Body::default();
        record::encode_transaction(transaction, &outcome.given, &outcome.direct, &mut body);
        self.append_out_of_line(runs, &body);
        self.write_directly(outcome.writes);
        Ok(())
    }

    /// So many blocks, in as few runs as there are.
    pub(super) fn hand_out(&mut self, blocks: u64) -> Result<Vec<BlockRun>, Fault> {
        if self.db.space.free_for_data() < blocks {
            return Err(Fault::Room);
        }
        let (mut runs, mut left) = (Vec::new(), blocks);
        while left > 0 {
            let run = self.db.space.allocate(left).expect("so many are free");
            left -= run.len;
            push_run(&mut runs, run);
        }
        Ok(runs)
    }

    /// Writes an entry to these blocks, and to the log where it is.
    fn append_out_of_line(&mut self, runs: Vec<BlockRun>, body: &Body) {
        let (runs, rest) = cut(runs, (body.len() as u64).div_ceil(BLOCK));
        let whole = Bytes::from_owner(body.gather());
        let (mut writes, mut at) = (Vec::with_capacity(runs.len()), 0);
        for run in &runs {
            let end = at + (run.len * BLOCK) as usize;
            writes.push((run.start, whole.slice(at..end)));
            at = end;
        }
        let entry = OutOfLine::new(self.label.salt, runs, body);
        self.log.append(|body| entry.encode(body.text()));
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
