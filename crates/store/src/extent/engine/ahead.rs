//! Large data on its way to its place ahead of its transaction.
//!
//! Owns that way. What is given ahead gets its blocks at once and is written to them in pieces, few at a time: so the record
//! of a commit is never far behind it at the device. Its transaction comes when all is written, and names these blocks; the
//! group that it joins has only its record and a flush to wait for. (Data that comes with its transaction is written with
//! the group, and everybody in the group waits for it.)
//!
//! What waits is bounded by whoever gives: it has its own bound of what it does at a time.
//!
//! Invariant: until their transaction runs these blocks are taken, but in no bitmap and in no log: a crash frees them.

use super::paced::Paced;
use super::reallocation::Reallocation;
use super::store::{ExtentStore, Purpose};
use crate::contract::{AheadId, Completion};
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::log::record::cut;
use crate::extent::objects::execute::InPlace;
use crate::extent::tree::Fault;
use crate::transaction::{Op, Transaction};
use base::hash::FixedHashMap;
use bytes::Bytes;

/// A piece: large enough for a disk's full rate.
const PIECE_BYTES: usize = 512 << 10;

/// What is on its way at once: a disk of 200 MiB/s has it written in 5 ms.
const UNDER_WAY_BYTES_MAX: usize = 1 << 20;

/// What the store gives itself: a range that is laid out anew.
pub(super) const REALLOCATED: AheadId = AheadId(u64::MAX);

/// Data that has been given ahead.
#[derive(Debug)]
struct Given {
    runs: Vec<BlockRun>,
    /// Pieces that are not written.
    left: usize,
    /// Its transaction is not going to come.
    forgotten: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Ahead {
    given: FixedHashMap<AheadId, Given>,
    pieces: Paced,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { given: FixedHashMap::default(), pieces: Paced::new(UNDER_WAY_BYTES_MAX) }
    }
}

impl Ahead {
    /// Whether some of its blocks become free.
    pub(super) fn gives_back(&self) -> bool {
        self.given.values().any(|given| given.forgotten)
    }
}

impl ExtentStore {
    /// Gives data that a write at `offset` will bring its place. What gets none now goes there with its transaction.
    pub(super) fn give_ahead(&mut self, id: AheadId, offset: u64, data: &Bytes) {
        let (head, tail) = cut(offset, data.len());
        let is_large = data.len() >= self.options.direct_min && head + tail < data.len();
        let blocks = (data.len().saturating_sub(head + tail)) as u64 / BLOCK;
        let runs = match is_large && !self.failed && !self.options.read_only {
            true => self.hand_out(blocks).unwrap_or_default(),
            false => Vec::new(),
        };
        if runs.is_empty() {
            return self.completions.push_back(Completion::Ahead(id));
        }
        self.write_ahead(id, runs, data.slice(head..data.len() - tail));
    }

    /// Has whole blocks written to these.
    pub(super) fn write_ahead(&mut self, id: AheadId, runs: Vec<BlockRun>, data: Bytes) {
        let (mut at, mut left) = (0, 0);
        self.counts.direct_bytes += data.len() as u64;
        for run in &runs {
            let end = at + (run.len * BLOCK) as usize;
            for from in (at..end).step_by(PIECE_BYTES) {
                let piece = data.slice(from..end.min(from + PIECE_BYTES));
                let purpose = Purpose::Ahead { of: id, bytes: piece.len() };
                self.ahead.pieces.push(purpose, run.start + (from - at) as u64 / BLOCK, piece);
                left += 1;
            }
            at = end;
        }
        self.ahead.given.insert(id, Given { runs, left, forgotten: false });
        self.send_ahead();
    }

    fn send_ahead(&mut self) {
        while let Some((io, purpose)) = self.ahead.pieces.next() {
            self.request(io, purpose);
        }
    }

    /// A piece is written.
    pub(super) fn piece_is_ahead(&mut self, id: AheadId, bytes: usize) {
        self.ahead.pieces.ended(bytes);
        if let Some(given) = self.ahead.given.get_mut(&id) {
            given.left -= 1;
            if given.left == 0 && given.forgotten {
                self.give_back(id);
            } else if given.left == 0 && id == REALLOCATED {
                self.laid_out();
            } else if given.left == 0 {
                self.completions.push_back(Completion::Ahead(id));
                // Its transaction may wait for it.
                self.retry = true;
            }
        }
        self.send_ahead();
    }

    /// The transaction is not going to come.
    pub(super) fn forget(&mut self, id: AheadId) {
        let Some(given) = self.ahead.given.get_mut(&id) else { return };
        given.left -= self.ahead.pieces.strike(|purpose| matches!(purpose, Purpose::Ahead { of, .. } if *of == id));
        given.forgotten = true;
        if given.left == 0 {
            self.give_back(id);
        }
    }

    fn give_back(&mut self, id: AheadId) {
        let given = self.ahead.given.remove(&id);
        given.iter().flat_map(|given| &given.runs).for_each(|run| self.db.space.release(*run));
        // Somebody may wait for room.
        self.retry = true;
    }

    /// Where what was given ahead of a transaction lies, by its ops. A fault where some of it is still on its way.
    pub(super) fn lies_ahead(&self, transaction: &Transaction) -> Result<Vec<InPlace>, Fault> {
        let mut lying = Vec::new();
        for (op, id) in &transaction.ahead {
            let (Some(given), Some((_, Op::Write(offset, data)))) =
                (self.ahead.given.get(id), transaction.ops.get(*op))
            else {
                continue;
            };
            if given.left > 0 {
                return Err(Fault::Turn);
            }
            let (head, tail) = cut(*offset, data.len());
            let blocks: u64 = given.runs.iter().map(|run| run.len).sum();
            if head + tail + (blocks * BLOCK) as usize == data.len() {
                lying.push(InPlace { op: *op, runs: given.runs.clone() });
            }
        }
        Ok(lying)
    }

    /// A transaction has run: what it found in its place is its own.
    pub(super) fn take_over(&mut self, transaction: &Transaction, lying: &[InPlace]) {
        if !lying.is_empty() {
            self.log.add_written();
        }
        for (op, id) in &transaction.ahead {
            match lying.iter().any(|lying| lying.op == *op) {
                true => drop(self.ahead.given.remove(id)),
                false => self.forget(*id),
            }
        }
    }

    /// A transaction is refused, and with it what was given ahead of it.
    pub(super) fn forget_ahead_of(&mut self, transaction: &Transaction) {
        transaction.ahead.iter().for_each(|(_, id)| self.forget(*id));
    }

    /// The device has failed: nobody waits for what does not get there any more.
    pub(super) fn abandon_ahead(&mut self) {
        let Ahead { mut given, .. } = core::mem::take(&mut self.ahead);
        given.remove(&REALLOCATED);
        self.reallocation = Reallocation::None;
        let mut waited_for: Vec<AheadId> =
            given.into_iter().filter(|(_, it)| it.left > 0 && !it.forgotten).map(|(id, _)| id).collect();
        waited_for.sort_unstable();
        self.completions.extend(waited_for.into_iter().map(Completion::Ahead));
    }
}
