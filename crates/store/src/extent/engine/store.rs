//! The store as an engine: transactions and reads in, device requests out, completions back.
//!
//! Owns the order of work. What can be done at once is; what needs something from the device first waits in its
//! collection's queue and is tried again. A collection's transactions run in the order of their submission, and a read
//! runs after the transactions before it and before those after it.
//!
//! Invariants: a commit is reported only when its group is durable; after a failed write or flush none is.
//!
//! Read next: `objects::execute` (what a transaction does), `log` (when it is durable), `checkpoint`.

use crate::contract::{CommitId, Completion, ObjectStore, ReadId, StoreError};
use crate::extent::device::{DeviceFailed, Io, IoBuf, IoId};
use crate::extent::engine::checkpoint::{Checkpoint, Want};
use crate::extent::engine::jobs::{self, Begun, Jobs, PieceId};
use crate::extent::layout::{BLOCK, BlockRun, Geometry};
use crate::extent::log::record;
use crate::extent::log::{Log, Waiting};
use crate::extent::objects::execute::{self, Rules};
use crate::extent::objects::view;
use crate::extent::state::cache::CacheCounts;
use crate::extent::state::db::{Db, Fetched, Layer};
use crate::extent::superblock::{Label, Superblock};
use crate::extent::tree::Fault;
use crate::extent::tree::keys::CollectionNumber;
use crate::extent::tree::page::{Page, PagePtr};
use crate::id::CollectionId;
use crate::read::ReadRequest;
use crate::transaction::Transaction;
use base::Instant;
use base::hash::FixedHashMap;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use wire::Encoder;

/// How a store is to work; nothing of it is on the device.
#[derive(Clone, Copy, Debug)]
pub struct ExtentOptions {
    /// Bytes of pages, objects and data kept in memory.
    pub cache_bytes: usize,
    /// Writes of at least so many bytes go to their places at once, smaller ones by the log.
    pub direct_min: usize,
    /// Whether the device is told which blocks are free.
    pub discard: bool,
    /// Whether it is only looked at: nothing is written, no transaction taken.
    pub read_only: bool,
}

impl Default for ExtentOptions {
    fn default() -> ExtentOptions {
        ExtentOptions { cache_bytes: 32 << 20, direct_min: 64 << 10, discard: false, read_only: false }
    }
}

/// What a store has counted since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtentCounts {
    /// Transactions.
    pub transactions: u64,
    /// Records of the log, each the durability of a group of transactions.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Bytes of data written to their places at once.
    pub direct_bytes: u64,
    /// Checkpoints that ended.
    pub checkpoints: u64,
    /// Bytes that they wrote.
    pub checkpoint_bytes: u64,
    /// Reads that needed the device.
    pub device_reads: u64,
    /// Pages or blocks whose checksum was wrong.
    pub checksum_errors: u64,
    /// The cache's.
    pub cache: CacheCounts,
}

/// How full a store is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// What data may have.
    pub total: u64,
    /// What of that is free.
    pub free: u64,
}

/// Bytes of direct writes after which a checkpoint begins: what they replaced is free only after it.
const DIRECT_BYTES_MAX: u64 = 256 << 20;

/// Objects of a removed collection cleared away by one record.
const CLEAR_OBJECTS: u32 = 64;

/// Why a request went to the device.
#[derive(Debug)]
enum Purpose {
    Record,
    Direct { group: u64, first: u64, blocks: u64 },
    GroupFlush,
    FetchPage(PagePtr),
    FetchData(u64, u32),
    Piece(PieceId, u64),
    Background,
    BackgroundFlush,
    Superblock,
    Discard(BlockRun),
}

/// Something that waits for its turn.
#[derive(Debug)]
enum Pending {
    Commit(CommitId, Transaction),
    Read(ReadId, ReadRequest),
}

/// Blocks that become free once reads that may still look at them have ended.
#[derive(Debug)]
struct Leaving {
    /// Reads begun up to this one may.
    before: u64,
    runs: Vec<BlockRun>,
}

/// See the module.
#[derive(Debug)]
pub struct ExtentStore {
    label: Label,
    geometry: Geometry,
    options: ExtentOptions,
    pub(crate) db: Db,
    log: Log,
    checkpoint: Option<Checkpoint>,
    checkpoint_wanted: bool,
    superblocks_left: usize,
    /// The checkpoint's flush is under way, or its superblocks are.
    ending: bool,
    again: bool,
    jobs: Jobs,
    queues: BTreeMap<CollectionId, VecDeque<Pending>>,
    retry: bool,
    /// Blocks being read for those who wait.
    fetching: BTreeSet<u64>,
    requests: FixedHashMap<u64, Purpose>,
    /// When reads on their way began: request numbers, in order.
    reading: BTreeSet<u64>,
    leaving: VecDeque<Leaving>,
    next_io: u64,
    out: VecDeque<(IoId, Io)>,
    completions: VecDeque<Completion>,
    scratch: Encoder,
    failed: bool,
    counts: ExtentCounts,
}

impl ExtentStore {
    /// A store over what was loaded; `open` makes it.
    pub(crate) fn new(label: Label, geometry: Geometry, options: ExtentOptions, db: Db, log: Log) -> ExtentStore {
        ExtentStore {
            label,
            geometry,
            options,
            db,
            log,
            checkpoint: None,
            checkpoint_wanted: false,
            superblocks_left: 0,
            ending: false,
            again: false,
            jobs: Jobs::default(),
            queues: BTreeMap::new(),
            retry: false,
            fetching: BTreeSet::new(),
            requests: FixedHashMap::default(),
            reading: BTreeSet::new(),
            leaving: VecDeque::new(),
            next_io: 0,
            out: VecDeque::new(),
            completions: VecDeque::new(),
            scratch: Encoder::new(),
            failed: false,
            counts: ExtentCounts::default(),
        }
    }

    /// Whose store it is.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// What has been counted.
    pub fn counts(&self) -> ExtentCounts {
        ExtentCounts { cache: self.db.cache.counts(), ..self.counts }
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
        let data = result.ok().flatten().map(Bytes::from_owner);
        match purpose {
            Purpose::FetchPage(ptr) => self.page_came(ptr, data),
            Purpose::FetchData(block, crc) => self.data_came(block, crc, data),
            Purpose::Piece(piece, block) => self.piece_came(piece, block, data),
            Purpose::Discard(run) => self.free(run),
            _ if failed || self.failed => self.fail(),
            Purpose::Record => {
                let flush = self.log.written();
                self.group_went_on(flush);
            }
            Purpose::Direct { group, first, blocks } => {
                (first..first + blocks).for_each(|block| drop(self.db.direct.remove(&block)));
                let flush = self.log.direct_done(group);
                self.group_went_on(flush);
            }
            Purpose::GroupFlush => self.finish_group(true),
            Purpose::Background => {
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

    fn request(&mut self, io: Io, purpose: Purpose) {
        self.next_io += 1;
        if matches!(io, Io::Read { .. }) {
            self.reading.insert(self.next_io);
            self.counts.device_reads += 1;
        }
        self.requests.insert(self.next_io, purpose);
        self.out.push_back((IoId(self.next_io), io));
    }

    // ---- the log

    fn group_went_on(&mut self, flush: bool) {
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
    fn fail(&mut self) {
        self.failed = true;
        let waiting = self.log.abandon();
        let waiting = waiting.into_iter().map(|(id, result)| (id, result.and(Err(StoreError::Device)))).collect();
        self.tell(waiting);
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
            let io = Io::Write { offset: sealed.offset, data: sealed.data, durable: sealed.durable };
            self.request(io, Purpose::Record);
            self.retry = !self.queues.is_empty();
        }
        self.checkpoint_wanted |= self.log.is_due()
            || self.db.active.direct_bytes > DIRECT_BYTES_MAX
            || self.pages_at_stake() > self.room_for_pages() / 4;
        if self.checkpoint_wanted && self.checkpoint.is_none() && !self.log.has_entries() {
            self.checkpoint_wanted = false;
            if !self.db.active.table.is_empty() {
                let generation = self.log.generation + 1;
                self.checkpoint = Some(Checkpoint::begin(&mut self.db, generation, self.log.next, self.log.total));
            }
        }
        self.step_checkpoint();
    }

    /// Blocks that the next checkpoints may need for pages, at the most.
    fn pages_at_stake(&self) -> u64 {
        4 * (self.db.active.table.len() + self.db.frozen.table.len()) as u64
    }

    /// Blocks for pages: those that data leaves alone, and some of what data may have, as a page needs neighbours.
    fn room_for_pages(&self) -> u64 {
        let for_data = self.db.space.free_for_data();
        self.db.space.free() - for_data + for_data / 4
    }

    fn clear_trash(&mut self) {
        let Some(&collection) = self.db.trash.first() else { return };
        if self.log.is_busy() || !self.log.has_room(64) {
            return;
        }
        match self.clear(collection) {
            Ok(()) | Err(Fault::Room | Fault::Turn) => {}
            Err(Fault::Failed(_)) => self.fail(),
            Err(fault) => self.fetch(fault),
        }
    }

    fn clear(&mut self, collection: CollectionNumber) -> Result<(), Fault> {
        execute::clear(&mut self.db, collection, CLEAR_OBJECTS)?;
        record::encode_clear(collection, CLEAR_OBJECTS, &mut self.scratch);
        let entry = self.scratch.take();
        self.log.append(&entry);
        Ok(())
    }

    // ---- transactions and reads

    fn try_commit(&mut self, transaction: &Transaction) -> Result<(), Fault> {
        execute::check(&self.db, transaction)?;
        let max = Log::entry_bytes_max(&self.geometry);
        let small_enough = |direct_min: &usize| execute::entry_bytes(transaction, *direct_min) <= max;
        let direct_min = [self.options.direct_min, 2 * BLOCK as usize].into_iter().find(small_enough);
        let direct_min = direct_min.ok_or(StoreError::TooLarge)?;
        let bytes = execute::entry_bytes(transaction, direct_min);
        if !self.log.takes(bytes) {
            return Err(Fault::Turn);
        }
        if !self.log.has_room(bytes) || self.pages_at_stake() > self.room_for_pages() / 2 {
            return Err(Fault::Room);
        }
        let outcome = execute::run(&mut self.db, transaction, Rules { direct_min }, None)?;
        record::encode_transaction(transaction, &outcome.given, &outcome.direct, &mut self.scratch);
        let entry = self.scratch.take();
        self.log.append(&entry);
        self.counts.transactions += 1;
        for (first, data) in outcome.writes {
            self.counts.direct_bytes += data.len() as u64;
            let (group, blocks) = (self.log.add_direct(), data.len() as u64 / BLOCK);
            let io = Io::Write { offset: first * BLOCK, data, durable: false };
            self.request(io, Purpose::Direct { group, first, blocks });
        }
        Ok(())
    }

    /// Tries a transaction; false when it has to wait.
    fn commit(&mut self, id: CommitId, transaction: &Transaction) -> bool {
        let result = match self.try_commit(transaction) {
            Ok(()) => Ok(()),
            Err(Fault::Failed(error)) => Err(error),
            Err(Fault::Room) if !self.room_may_come() => Err(StoreError::NoSpace),
            Err(Fault::Room) => {
                self.checkpoint_wanted = true;
                return false;
            }
            Err(Fault::Turn) => return false,
            Err(fault) => {
                self.fetch(fault);
                return false;
            }
        };
        if let Some((id, result)) = self.log.wait((id, result)) {
            self.completions.push_back(Completion::Committed(id, result));
        }
        true
    }

    /// Whether waiting can help somebody who lacks room.
    fn room_may_come(&self) -> bool {
        let frees = |layer: &Layer| layer.freed_blocks > 0;
        self.log.is_busy()
            || self.log.has_entries()
            || self.checkpoint.is_some()
            || !self.db.trash.is_empty()
            || !self.leaving.is_empty()
            || frees(&self.db.active)
            || self.pages_at_stake() > self.room_for_pages() / 2
            || self.log.total > self.log.contained
    }

    /// Tries a read; false when it has to wait.
    fn read(&mut self, id: ReadId, request: &ReadRequest) -> bool {
        match view::answer(&mut self.db, request) {
            Ok(answer) => match self.jobs.begin(id, answer) {
                Begun::Done(completion) => self.completions.push_back(completion),
                Begun::Wants(wants) => {
                    for (piece, block, blocks) in wants {
                        let buf = IoBuf::new(blocks * BLOCK as usize);
                        self.request(Io::Read { offset: block * BLOCK, buf }, Purpose::Piece(piece, block));
                    }
                }
            },
            Err(Fault::Failed(error)) => self.completions.push_back(Completion::Read(id, Err(error))),
            Err(fault) => {
                self.fetch(fault);
                return false;
            }
        }
        true
    }

    /// Has read what somebody lacks.
    fn fetch(&mut self, fault: Fault) {
        let (block, blocks, purpose) = match fault {
            Fault::Page(ptr) => (ptr.block, u64::from(ptr.blocks), Purpose::FetchPage(ptr)),
            Fault::Data(block, crc) => (block, 1, Purpose::FetchData(block, crc)),
            Fault::Room | Fault::Turn | Fault::Failed(_) => return,
        };
        if !self.fetching.insert(block) {
            return;
        }
        if !self.geometry.is_data(BlockRun::new(block, blocks)) || blocks > self.geometry.log_blocks {
            let error = wire::Malformed::new("page", "lies where no page can be").into();
            return self.came(block, Fetched::Bad(error));
        }
        let buf = IoBuf::new((blocks * BLOCK) as usize);
        self.request(Io::Read { offset: block * BLOCK, buf }, purpose);
    }

    fn came(&mut self, block: u64, fetched: Fetched) {
        self.fetching.remove(&block);
        self.counts.checksum_errors += u64::from(matches!(fetched, Fetched::Bad(StoreError::Corrupt(_))));
        self.db.fetched(block, fetched);
        self.retry = true;
    }

    fn page_came(&mut self, ptr: PagePtr, data: Option<Bytes>) {
        let page = data.ok_or(StoreError::Device).and_then(|data| Ok(Page::parse(ptr, data)?));
        self.came(ptr.block, page.map_or_else(Fetched::Bad, |page| Fetched::Page(Arc::new(page))));
    }

    fn data_came(&mut self, block: u64, crc: u32, data: Option<Bytes>) {
        let data = data.ok_or(StoreError::Device).and_then(|data| jobs::check(&data, &[crc]).map(|()| data));
        self.came(block, data.map_or_else(Fetched::Bad, Fetched::Data));
    }

    fn piece_came(&mut self, piece: PieceId, block: u64, data: Option<Bytes>) {
        let (done, good) = self.jobs.came(piece, data.ok_or(StoreError::Device));
        match good {
            Some(data) if data.len() as u64 == BLOCK => self.db.cache.keep_data(block, data),
            Some(_) => {}
            None => self.counts.checksum_errors += 1,
        }
        self.completions.extend(done);
    }

    /// Goes through the queues: each collection as far as it gets.
    fn run_queues(&mut self) {
        for (collection, mut queue) in core::mem::take(&mut self.queues) {
            let mut waiting = VecDeque::new();
            while let Some(pending) = queue.pop_front() {
                let done = match &pending {
                    Pending::Read(id, request) => self.read(*id, request),
                    // A transaction waits for the reads before it.
                    Pending::Commit(id, transaction) => waiting.is_empty() && self.commit(*id, transaction),
                };
                if !done {
                    let is_commit = matches!(pending, Pending::Commit(..));
                    waiting.push_back(pending);
                    if is_commit {
                        break;
                    }
                }
            }
            waiting.append(&mut queue);
            if !waiting.is_empty() {
                self.queues.insert(collection, waiting);
            }
        }
    }

    fn submit(&mut self, collection: CollectionId, pending: Pending) {
        if let Some(queue) = self.queues.get_mut(&collection) {
            // Reads do not wait for reads.
            let reads_only = queue.iter().all(|pending| matches!(pending, Pending::Read(..)));
            let overtakes = reads_only && matches!(pending, Pending::Read(..));
            if !overtakes {
                return queue.push_back(pending);
            }
        }
        let done = match &pending {
            Pending::Read(id, request) => self.read(*id, request),
            Pending::Commit(id, transaction) => self.commit(*id, transaction),
        };
        if !done {
            self.queues.entry(collection).or_default().push_back(pending);
        }
    }

    // ---- checkpoints

    fn step_checkpoint(&mut self) {
        let Some(checkpoint) = self.checkpoint.as_mut().filter(|_| !self.ending) else { return };
        match checkpoint.step(&mut self.db) {
            Ok(Want::Write { offset, data }) => {
                self.counts.checkpoint_bytes += data.len() as u64;
                self.request(Io::Write { offset, data, durable: false }, Purpose::Background);
            }
            Ok(Want::Again) => self.again = true,
            Ok(Want::Wait) => {}
            // The records that it contains have to be durable before it is.
            Ok(Want::Flush) if self.log.durable + 1 < checkpoint.point.sequence => {}
            Ok(Want::Flush) => {
                self.ending = true;
                self.request(Io::Flush, Purpose::BackgroundFlush);
            }
            Err(Fault::Failed(_) | Fault::Room | Fault::Turn) => self.fail(),
            Err(fault) => self.fetch(fault),
        }
    }

    fn write_superblocks(&mut self) {
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

    fn finish_checkpoint(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        self.ending = false;
        self.db.root = checkpoint.root;
        self.db.frozen = Layer::default();
        self.log.tail = checkpoint.point;
        self.log.contained = checkpoint.log_total;
        self.log.generation = checkpoint.generation;
        self.counts.checkpoints += 1;
        self.leaving.push_back(Leaving { before: self.next_io, runs: checkpoint.freed });
        self.retry = true;
    }

    /// Frees what nobody reads any more.
    fn release(&mut self) {
        let oldest = self.reading.first().copied().unwrap_or(u64::MAX);
        while let Some(leaving) = self.leaving.pop_front_if(|leaving| leaving.before < oldest) {
            for run in leaving.runs {
                if self.options.discard {
                    let io = Io::Discard { offset: run.start * BLOCK, len: run.len * BLOCK };
                    self.request(io, Purpose::Discard(run));
                } else {
                    self.free(run);
                }
            }
            self.retry = true;
        }
    }

    fn free(&mut self, run: BlockRun) {
        (run.start..run.end()).for_each(|block| self.db.forget_block(block));
        self.db.space.release(run);
    }
}

impl ObjectStore for ExtentStore {
    fn submit_commit(&mut self, _now: Instant, id: CommitId, transaction: Transaction) {
        if self.failed || self.options.read_only {
            return self.completions.push_back(Completion::Committed(id, Err(StoreError::Device)));
        }
        self.submit(transaction.collection, Pending::Commit(id, transaction));
    }

    fn submit_read(&mut self, _now: Instant, id: ReadId, request: ReadRequest) {
        self.submit(request.collection, Pending::Read(id, request));
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}
