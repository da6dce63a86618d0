//! Ranges that a read found in many pieces are laid out anew.
//!
//! Owns the choice and the way. Data never overwrites data, so an object that is written here and there lies here and
//! there, and is slow to read from end to end. Whoever does read it so has brought the data into memory, checked: it gets
//! neighbouring blocks, is written to them as data that is given `ahead` is, and a transaction that writes what is there
//! already makes them the object's. (WAFL, of NetApp, calls this read reallocation.)
//!
//! Nobody waits for it: one range at a time, only where free blocks lie together and are many, and what has changed
//! meanwhile is left as it is.
//!
//! Invariant: the object's data is the same before and after, whatever happens beside it: its blocks are looked at in the
//! moment in which they are replaced.

use super::ahead::REALLOCATED;
use super::jobs;
use super::store::ExtentStore;
use crate::contract::{Completion, ReadId};
use crate::extent::layout::{BLOCK, BlockRun, push_block};
use crate::extent::objects::block_map::Mapped;
use crate::extent::objects::object::Object;
use crate::extent::tree::keys;
use crate::id::{CollectionId, ObjectId};
use crate::read::{Extent, ReadRequest, ReadResult, ReadWhat};
use crate::transaction::{Op, Transaction};
use bytes::Bytes;
use std::sync::Arc;

/// Runs longer than this, on average, are read about as fast as longer ones.
const RUN_BLOCKS_MAX: usize = 8;

/// So many times fewer runs there have to be afterwards.
const GAIN_MIN: usize = 4;

/// The part of the device that has to be free: what is replaced is free only after the next checkpoint.
const FREE_PART: u64 = 8;

/// The longest range, 4 MiB.
const RANGE_BLOCKS_MAX: u64 = 1024;

/// A range of whole blocks of an object, and where it lay when it was read.
#[derive(Debug)]
pub(super) struct Scattered {
    collection: CollectionId,
    object: ObjectId,
    /// Its first block within the object.
    first: u64,
    places: Vec<Mapped>,
}

impl Scattered {
    /// Where its blocks lie.
    fn runs(&self) -> Vec<BlockRun> {
        let mut runs = Vec::new();
        self.places.iter().for_each(|mapped| push_block(&mut runs, mapped.block));
        runs
    }

    fn bytes(&self) -> usize {
        self.places.len() * BLOCK as usize
    }

    /// Whether an object has it there.
    fn is_of(&self, object: &Object) -> bool {
        (self.first..).zip(&self.places).all(|(index, place)| object.blocks.mapped(index) == Some(*place))
    }
}

/// The range that is being laid out anew.
#[derive(Debug, Default)]
pub(super) enum Reallocation {
    #[default]
    None,
    /// It is being read, by whoever wanted it: from this byte of the answer on.
    Read(ReadId, usize, Scattered),
    /// It is being written.
    Written(Scattered, Bytes),
}

impl Reallocation {
    /// Whether it has blocks that it may give back.
    pub(super) fn gives_back(&self) -> bool {
        matches!(self, Reallocation::Written(..))
    }
}

impl ExtentStore {
    /// Takes note of a read that needs so many pieces from the device.
    pub(super) fn note_pieces(&mut self, id: ReadId, request: &ReadRequest, pieces: usize) {
        let is_idle = matches!(self.reallocation, Reallocation::None);
        if !is_idle || pieces < self.options.scattered_pieces_min || self.failed || self.options.read_only {
            return;
        }
        if let Some((skip, scattered)) = self.scattered(request) {
            self.reallocation = Reallocation::Read(id, skip, scattered);
        }
    }

    /// The whole blocks that a read asks for, up to a hole, if they are worth it; and how much of the answer is before them.
    fn scattered(&mut self, request: &ReadRequest) -> Option<(usize, Scattered)> {
        let ReadWhat::Object(id, want) = &request.what else { return None };
        let &[Extent { offset, len }] = &want.data[..] else { return None };
        let object = self.present(request.collection, id).filter(|_| !want.uncached)?;
        let (first, end) = (offset.div_ceil(BLOCK), offset.saturating_add(len).min(object.size) / BLOCK);
        let range = first..end.min(first + RANGE_BLOCKS_MAX);
        let places = range.map_while(|index| object.blocks.mapped(index)).collect();
        let scattered = Scattered { collection: request.collection, object: id.clone(), first, places };
        let runs = scattered.runs();
        let is_worth_it = scattered.bytes() >= self.options.direct_min
            && runs.len() >= self.options.scattered_pieces_min
            && scattered.places.len() < runs.len() * RUN_BLOCKS_MAX
            && !runs.iter().any(|run| self.db.shared.holds_any(*run));
        is_worth_it.then(|| ((first * BLOCK - offset) as usize, scattered))
    }

    /// An object, if it is at hand.
    fn present(&mut self, collection: CollectionId, id: &ObjectId) -> Option<Arc<Object>> {
        let key = keys::object(self.db.collections.get(&collection)?.number_of(id), id);
        self.db.object(&key).ok()?
    }

    /// A read has ended. If it is the one, what it brought is written to its new places.
    pub(super) fn read_ended(&mut self, done: &Completion) {
        let Completion::Read(id, result) = done else { return };
        if !matches!(&self.reallocation, Reallocation::Read(read, ..) if read == id) {
            return;
        }
        let Reallocation::Read(_, skip, scattered) = core::mem::take(&mut self.reallocation) else { return };
        let range = skip..skip + scattered.bytes();
        if let Ok(ReadResult::Object(view)) = result
            && let Some(data) = view.data.first().filter(|data| data.len() >= range.end).map(|data| data.slice(range))
            && self.lay_out(&scattered, &data)
        {
            self.reallocation = Reallocation::Written(scattered, data);
        }
    }

    /// Has the range written to other blocks, where that is a gain.
    fn lay_out(&mut self, scattered: &Scattered, data: &Bytes) -> bool {
        let usage = self.usage();
        if self.failed || usage.free < usage.total / FREE_PART {
            return false;
        }
        let Ok(runs) = self.hand_out(scattered.places.len() as u64) else { return false };
        if runs.len() * GAIN_MIN > scattered.runs().len() {
            runs.into_iter().for_each(|run| self.db.space.release(run));
            return false;
        }
        self.write_ahead(REALLOCATED, runs, data.clone());
        true
    }

    /// The range is in its new places: they become the object's, if it still lies where it lay.
    pub(super) fn laid_out(&mut self) {
        if let Reallocation::Written(scattered, data) = core::mem::take(&mut self.reallocation)
            && self.take_over_reallocated(&scattered, data)
        {
            self.counts.reallocated_bytes += scattered.bytes() as u64;
        } else {
            self.forget(REALLOCATED);
        }
    }

    fn take_over_reallocated(&mut self, scattered: &Scattered, data: Bytes) -> bool {
        // Who waits was there first.
        if self.has_queue(scattered.collection) {
            return false;
        }
        let object = self.present(scattered.collection, &scattered.object);
        // The write computes checksums anew: what has gone wrong in memory since the read must not get good ones.
        let crcs: Vec<u32> = scattered.places.iter().map(|place| place.crc).collect();
        if !object.is_some_and(|object| scattered.is_of(&object)) || jobs::check(&data, &crcs).is_err() {
            return false;
        }
        let mut transaction = Transaction::new(scattered.collection);
        transaction.push(&scattered.object, Op::Write(scattered.first * BLOCK, data));
        transaction.ahead.push((0, REALLOCATED));
        // A fault has changed nothing.
        self.try_commit(&transaction).is_ok()
    }
}
