//! The store as an engine: transactions and reads in, device requests out, completions back.
//!
//! Owns the order of work. What can be done at once is; what needs something from the device first waits in its
//! collection's queue (`submissions`) and is tried again.
//!
//! Invariants: a commit is reported only when its group is durable; after a failed write or flush none is.
//!
//! Read next: `submissions`, `log` (when a commit is durable), `background`.

use super::ahead::Ahead;
use super::checkpoint::{Checkpoint, Pace};
use super::direct;
use super::figures::{ExtentCounts, ExtentOptions, Usage};
use super::jobs::{Jobs, PieceId};
use super::long_reads::LongReads;
use super::paced::Paced;
use super::placing::Placing;
use super::reallocation::Reallocation;
use super::untold::Untold;
use crate::contract::{AheadId, CommitId, Completion, ObjectStore, ReadId, StoreError};
use crate::extent::device::{DeviceFailed, Io, IoBuf, IoId, ROUNDED_BYTES_MIN};
use crate::extent::layout::{BLOCK, BlockRun, Geometry};
use crate::extent::log::body::Lying;
use crate::extent::log::{Log, Waiting};
use crate::extent::state::db::Db;
use crate::extent::superblock::Label;
use crate::extent::tree::page::PagePtr;
use crate::id::CollectionId;
use crate::read::ReadRequest;
use crate::transaction::Transaction;
use base::Instant;
use base::hash::FixedHashMap;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of direct writes after which a checkpoint begins: what they replaced is free only after it.
const DIRECT_BYTES_MAX: u64 = 256 << 20;

/// Blocks given up after which a checkpoint begins: 64 MiB of removed objects are free, and the device's again, soon.
const FREED_BLOCKS_MAX: u64 = 16 << 10;

/// Why a request went to the device.
#[derive(Debug)]
pub(super) enum Purpose {
    Record,
    Direct {
        group: u64,
        first: u64,
        bytes: usize,
    },
    GroupFlush,
    Ahead {
        of: AheadId,
        bytes: usize,
    },
    FetchPage(PagePtr),
    FetchData(u64, u32),
    Piece {
        piece: PieceId,
        block: u64,
        /// It is one of many, and waited for its turn.
        later: bool,
    },
    /// Data that has waited, from this block on.
    Placing(u64),
    Background(BlockRun),
    BackgroundFlush,
    Superblock,
    Discard(BlockRun),
}

/// Something that waits for its turn.
#[derive(Debug)]
pub(super) enum Pending {
    Commit(CommitId, Transaction),
    Read(ReadId, ReadRequest),
}

/// Blocks that become free once reads that may still look at them have ended.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Reads begun up to this one may.
    pub(super) before: u64,
    pub(super) runs: Vec<BlockRun>,
}

/// See the module.
#[derive(Debug)]
pub struct ExtentStore {
    pub(super) label: Label,
    pub(super) geometry: Geometry,
    pub(super) options: ExtentOptions,
    pub(crate) db: Db,
    pub(super) log: Log,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) checkpoint_wanted: bool,
    /// What the last checkpoint wrote, in bytes.
    pub(super) last_written: u64,
    pub(super) placing: Placing,
    pub(super) ahead: Ahead,
    pub(super) direct: Paced,
    pub(super) superblocks_left: usize,
    /// The checkpoint's flush is under way, or its superblocks are.
    pub(super) ending: bool,
    pub(super) again: bool,
    pub(super) jobs: Jobs,
    pub(super) long_reads: LongReads,
    pub(super) reallocation: Reallocation,
    pub(super) queues: BTreeMap<CollectionId, VecDeque<Pending>>,
    /// In whose queue others wait as long as there is one: where one transaction concerns them both.
    pub(super) joined: BTreeMap<CollectionId, CollectionId>,
    pub(super) retry: bool,
    /// Blocks being read for those who wait.
    pub(super) fetching: BTreeSet<u64>,
    pub(super) requests: FixedHashMap<u64, Purpose>,
    /// When reads on their way began: request numbers, in order.
    pub(super) reading: BTreeSet<u64>,
    pub(super) leaving: VecDeque<Leaving>,
    pub(super) untold: Untold,
    /// When somebody last wrote.
    pub(super) committed_at: Instant,
    pub(super) next_io: u64,
    pub(super) out: VecDeque<(IoId, Io)>,
    pub(super) completions: VecDeque<Completion>,
    /// Collections of which nothing is committed any more, and why.
    pub(super) halted: BTreeMap<CollectionId, StoreError>,
    pub(super) failed: bool,
    pub(super) counts: ExtentCounts,
}

impl ExtentStore {
    /// A store over what was loaded; `open` makes it.
    pub(crate) fn new(label: Label, geometry: Geometry, options: ExtentOptions, mut db: Db, log: Log) -> ExtentStore {
        db.expected.clear();
        ExtentStore {
            label,
            geometry,
            options,
            db,
            log,
            checkpoint: None,
            checkpoint_wanted: false,
            last_written: 0,
            placing: Placing::default(),
            ahead: Ahead::default(),
            direct: Paced::new(direct::UNDER_WAY_BYTES_MAX),
            superblocks_left: 0,
            ending: false,
            again: false,
            jobs: Jobs::default(),
            long_reads: LongReads::default(),
            reallocation: Reallocation::default(),
            queues: BTreeMap::new(),
            joined: BTreeMap::new(),
            retry: false,
            fetching: BTreeSet::new(),
            requests: FixedHashMap::default(),
            reading: BTreeSet::new(),
            leaving: VecDeque::new(),
            untold: Untold::default(),
            committed_at: Instant::ZERO,
            next_io: 0,
            out: VecDeque::new(),
            completions: VecDeque::new(),
            halted: BTreeMap::new(),
            failed: false,
            counts: ExtentCounts::default(),
        }
    }

    /// Whose store it is.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Changes how much is kept in memory of pages, objects and data.
    pub fn set_cache_bytes(&mut self, bytes: usize) {
        self.options.cache_bytes = bytes;
        self.db.cache.set_bytes_max(bytes);
    }

    /// What has been counted.
    pub fn counts(&self) -> ExtentCounts {
        ExtentCounts {
            waiting_bytes: self.db.waiting_bytes(),
            change_bytes: (self.db.active.table.bytes() + self.db.frozen.table.bytes()) as u64,
            space_bytes: self.db.space.bytes() as u64,
            buffer_bytes: IoBuf::stock_bytes() as u64,
            cache: self.db.cache.counts(),
            ..self.counts
        }
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        let total = self.geometry.pages_start() - self.geometry.data_start();
        Usage { total: total * BLOCK, free: self.db.space.free_for_data() * BLOCK }
    }

    /// Whether the device has failed a write: nothing is committed any more.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// Asks for a checkpoint: before a clean stop, so that the next start has no log to read.
    pub fn request_checkpoint(&mut self) {
        self.checkpoint_wanted = true;
    }

    /// Whether everything submitted is answered and nothing is on its way: a checkpoint asked for has ended, too.
    pub fn is_quiet(&self) -> bool {
        let wanted = self.checkpoint.is_some() || self.checkpoint_wanted && !self.db.active.table.is_empty();
        (!wanted || self.failed)
            && self.requests.is_empty()
            && self.out.is_empty()
            && self.queues.is_empty()
            && !self.again
    }

    /// The number of the group of commits that the device is about to make durable. Only one is on its way at a time.
    pub fn committing(&self) -> Option<u64> {
        self.log.under_way()
    }

    /// How many reads wait for data from the device.
    pub fn reads_under_way(&self) -> usize {
        self.jobs.under_way()
    }

    /// Whether it wants `poll_device` to be called again although nothing has ended: it works in small steps.
    pub fn has_work(&self) -> bool {
        self.again
    }

    /// The next request for the device. To be asked until there is none, after everything else was handed in: what is
    /// submitted between two rounds shares a record.
    pub fn poll_device(&mut self) -> Option<(IoId, Io)> {
        if self.out.is_empty() {
            self.pump();
        }
        self.out.pop_front()
    }

    /// A request has ended; a read's buffer comes back.
    pub fn device_done(&mut self, id: IoId, result: Result<Option<IoBuf>, DeviceFailed>) {
        let Some(purpose) = self.requests.remove(&id.0) else { return };
        self.reading.remove(&id.0);
        let failed = result.is_err();
        let data = result.ok().flatten().map(|buf| {
            if buf.as_ref().len() < ROUNDED_BYTES_MIN {
                self.db.cache.note_slack(buf.slack());
            }
            Bytes::from_owner(buf)
        });
        match purpose {
            Purpose::FetchPage(ptr) => self.page_came(ptr, data),
            Purpose::FetchData(block, crc) => self.data_came(block, crc, data),
            Purpose::Piece { piece, block, later } => {
                if later {
                    self.later_piece_ended();
                }
                self.piece_came(piece, block, data);
            }
            Purpose::Discard(run) => {
                self.free(run);
                self.retry = true;
            }
            _ if failed || self.failed => self.fail(),
            Purpose::Record => {
                let flush = self.log.written();
                self.group_went_on(flush);
            }
            Purpose::Direct { group, first, bytes } => self.written_directly(group, first, bytes),
            Purpose::GroupFlush => self.finish_group(true),
            Purpose::Ahead { of, bytes } => self.piece_is_ahead(of, bytes),
            Purpose::Placing(first) => self.placed(first),
            Purpose::Background(run) => {
                self.db.in_place(run);
                if let Some(checkpoint) = &mut self.checkpoint {
                    checkpoint.writes -= 1;
                }
            }
            Purpose::BackgroundFlush => self.write_superblocks(),
            Purpose::Superblock => {
                self.superblocks_left -= 1;
                if self.superblocks_left == 0 {
                    self.finish_checkpoint();
                }
            }
        }
        self.release();
    }

    pub(super) fn request(&mut self, io: Io, purpose: Purpose) {
        self.next_io += 1;
        if matches!(io, Io::Read { .. }) {
            self.reading.insert(self.next_io);
            self.counts.device_reads += 1;
        }
        self.requests.insert(self.next_io, purpose);
        self.out.push_back((IoId(self.next_io), io));
    }

    pub(super) fn group_went_on(&mut self, flush: bool) {
        if flush {
            self.request(Io::Flush, Purpose::GroupFlush);
        } else {
            self.finish_group(false);
        }
    }

    fn finish_group(&mut self, flushed: bool) {
        let done = self.log.finish(flushed);
        self.tell(done);
        self.retry = true;
    }

    fn tell(&mut self, done: Vec<Waiting>) {
        self.completions.extend(done.into_iter().map(|(id, result)| Completion::Committed(id, result)));
    }

    /// The device has failed to write: nobody is told that anything is durable.
    pub(super) fn fail(&mut self) {
        self.failed = true;
        let waiting = self.log.abandon();
        let waiting = waiting.into_iter().map(|(id, result)| (id, result.and(Err(StoreError::Device)))).collect();
        self.tell(waiting);
        self.abandon_ahead();
        self.abandon_direct();
        self.checkpoint = None;
        self.again = false;
        for (_, queue) in core::mem::take(&mut self.queues) {
            for pending in queue {
                self.completions.push_back(match pending {
                    Pending::Commit(id, _) => Completion::Committed(id, Err(StoreError::Device)),
                    Pending::Read(id, _) => Completion::Read(id, Err(StoreError::Device)),
                });
            }
        }
    }

    /// Does what can be done now: those who waited, the next record, a step of the checkpoint.
    fn pump(&mut self) {
        self.again = false;
        if core::mem::take(&mut self.retry) {
            self.run_queues();
        }
        if self.failed || self.options.read_only {
            return;
        }
        self.clear_trash();
        if let Some(sealed) = self.log.seal() {
            self.counts.records += 1;
            self.counts.record_bytes += sealed.data.len() as u64;
            for Lying { block, at } in sealed.blocks {
                self.db.move_waiting(block, sealed.data.slice(at..at + BLOCK as usize));
            }
            let io = Io::Write { offset: sealed.offset, data: sealed.data, durable: sealed.durable };
            self.request(io, Purpose::Record);
            self.retry = !self.queues.is_empty();
        }
        if self.checkpoint.is_none() {
            self.think_of_a_checkpoint();
        } else {
            self.place_waiting();
        }
        self.step_checkpoint();
    }

    /// Begins a checkpoint when there is a reason; what one that is under way contains is none for another.
    fn think_of_a_checkpoint(&mut self) {
        let is_pressing = self.is_checkpoint_pressing();
        if !is_pressing && !self.log.is_due() {
            return self.place_waiting();
        }
        if self.log.has_entries() || self.placing.writes > 0 {
            return;
        }
        self.checkpoint_wanted = false;
        if !self.db.active.table.is_empty() {
            let waiting = self.db.active.deferred.len() as u64 * BLOCK;
            let way = if is_pressing { 0 } else { self.log.due_bytes() / 2 };
            let pace = Pace { way, expected: self.last_written.max(waiting) };
            let (generation, point) = (self.log.generation + 1, self.log.next);
            self.checkpoint = Some(Checkpoint::begin(&mut self.db, generation, point, self.log.total, pace));
        }
    }

    /// Whether somebody waits for what a checkpoint brings, or soon would.
    pub(super) fn is_checkpoint_pressing(&self) -> bool {
        self.checkpoint_wanted
            || self.db.active.direct_bytes > DIRECT_BYTES_MAX
            || self.pages_at_stake() > self.room_for_pages() / 4
            || self.holds_room_back()
    }

    /// Blocks that the next checkpoints may need for pages, at the most.
    pub(super) fn pages_at_stake(&self) -> u64 {
        self.db.active.table.blocks_at_stake() + self.db.frozen.table.blocks_at_stake()
    }

    /// Whether what a checkpoint would free is worth one: a good part of what is free, or much.
    fn holds_room_back(&self) -> bool {
        self.db.active.freed_blocks > FREED_BLOCKS_MAX.min(self.db.space.free_for_data() / 4)
    }

    /// Blocks for pages: those that data leaves alone, and some of what data may have, as a page needs neighbours.
    pub(super) fn room_for_pages(&self) -> u64 {
        let for_data = self.db.space.free_for_data();
        self.db.space.free() - for_data + for_data / 4
    }
}

impl ObjectStore for ExtentStore {
    fn submit_commit(&mut self, now: Instant, id: CommitId, transaction: Transaction) {
        self.untold.note_asked(now);
        self.committed_at = now;
        if self.failed || self.options.read_only {
            return self.completions.push_back(Completion::Committed(id, Err(StoreError::Device)));
        }
        self.submit(transaction.collection, Pending::Commit(id, transaction));
    }

    fn submit_read(&mut self, now: Instant, id: ReadId, request: ReadRequest) {
        self.untold.note_asked(now);
        self.submit(request.collection, Pending::Read(id, request));
    }

    fn submit_ahead(&mut self, now: Instant, id: AheadId, offset: u64, data: Bytes) {
        self.untold.note_asked(now);
        self.give_ahead(id, offset, &data);
    }

    fn forget_ahead(&mut self, id: AheadId) {
        self.forget(id);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}
