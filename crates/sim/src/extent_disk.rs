//! An OSD's disk with the durable store on it: the engine that runs in production, over a drive that forgets (`sectors`)
//! and takes as long as a model of one (`device`).
//!
//! After every power cut the store has to be free of damage before it is opened again.

use crate::sectors::Sectors;
use base::{Duration, Instant, Rng};
use bytes::Bytes;
use device::{Device, DeviceModel, IoId as RequestId, IoKind};
use std::collections::{BTreeMap, VecDeque};
use store::extent::device::{Io, IoId};
use store::extent::layout::Areas;
use store::extent::{ExtentOptions, ExtentStore, Label, check, format, open};
use store::{AheadId, CommitId, Completion, ObjectStore, ReadId, ReadRequest, ReadResult, StoreError, Transaction};
use wire::types::Uuid;

/// Small, so that checkpoints are frequent and the log's ring goes around often.
const DRIVE_BYTES: u64 = 64 << 20;
const LOG_BYTES: u64 = 512 << 10;
/// Beyond the numbers that an engine gives its reads.
const ASKED_AT_ONCE: ReadId = ReadId(u64::MAX);

/// The disk.
#[derive(Debug)]
pub(crate) struct ExtentDisk {
    sectors: Sectors,
    store: Option<ExtentStore>,
    device: Device,
    /// Requests under way, with the writes that had ended when they began.
    under_way: BTreeMap<u64, (Io, usize)>,
    completed: VecDeque<Completion>,
    /// When its next wake-up is planned.
    pub(crate) wake_at: Option<Instant>,
    /// Until when it is not to be reached.
    held_until: Instant,
}

impl ExtentDisk {
    /// A new store on a new drive of that model; `number` tells it from others, `seed` decides its noise.
    pub(crate) fn new(model: DeviceModel, number: u32, seed: u64) -> ExtentDisk {
        let mut sectors = Sectors::new(DRIVE_BYTES);
        let store = Uuid([number as u8 + 1; 16]);
        let label = Label { cluster: Uuid([1; 16]), osd: base::OsdId(number as i32), store, salt: seed };
        format(&mut sectors, label, &Areas::single(DRIVE_BYTES, LOG_BYTES)).expect("there is room");
        ExtentDisk {
            sectors,
            store: None,
            device: Device::new(model, seed),
            under_way: BTreeMap::new(),
            completed: VecDeque::new(),
            wake_at: None,
            held_until: Instant::ZERO,
        }
    }

    /// Another one of its kind, and empty.
    pub(crate) fn replace(&mut self, number: u32, seed: u64) {
        *self = ExtentDisk::new(self.device.model().clone(), number, seed);
    }

    /// Opens the store, if it is not open. An error says what is damaged.
    pub(crate) fn open(&mut self) -> Result<(), String> {
        if self.store.is_some() {
            return Ok(());
        }
        let report = check(&mut self.sectors, true);
        if !report.problems.is_empty() {
            return Err(format!("a power cut has damaged a store: {:?}", report.problems));
        }
        let options = ExtentOptions {
            cache_bytes: 256 << 10,
            direct_min: 8 << 10,
            discard_blocks_min: Some(2),
            scattered_pieces_min: 4,
            read_only: false,
        };
        let store = open(&mut self.sectors, options).map_err(|error| format!("a store does not open: {error}"))?;
        self.store = Some(store);
        Ok(())
    }

    /// Takes a transaction.
    pub(crate) fn commit(&mut self, now: Instant, id: CommitId, transaction: Transaction) {
        if let Some(store) = &mut self.store {
            store.submit_commit(now, id, transaction);
        }
    }

    /// Takes data ahead of its transaction.
    pub(crate) fn give_ahead(&mut self, now: Instant, id: AheadId, offset: u64, data: Bytes) {
        if let Some(store) = &mut self.store {
            store.submit_ahead(now, id, offset, data);
        }
    }

    /// That transaction is not going to come.
    pub(crate) fn forget_ahead(&mut self, id: AheadId) {
        if let Some(store) = &mut self.store {
            store.forget_ahead(id);
        }
    }

    /// Takes a question.
    pub(crate) fn ask(&mut self, now: Instant, id: ReadId, request: ReadRequest) {
        if let Some(store) = &mut self.store {
            store.submit_read(now, id, request);
        }
    }

    /// Lets the store do what nobody waits for.
    pub(crate) fn rest(&mut self, now: Instant) {
        if let Some(store) = &mut self.store {
            store.rest(now);
        }
    }

    /// Lets it stand still until then.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.held_until = self.held_until.max(until);
    }

    /// How much is not durable yet.
    pub(crate) fn owes(&self) -> usize {
        self.under_way.values().filter(|(io, _)| !matches!(io, Io::Read { .. } | Io::Discard { .. })).count()
    }

    /// Does what can be done now; gives what has ended.
    pub(crate) fn work(&mut self, now: Instant) -> Vec<Completion> {
        let Some(store) = &mut self.store else { return Vec::new() };
        loop {
            while let Some((IoId(number), io)) = store.poll_device() {
                let (kind, offset, bytes) = shape(&io);
                self.under_way.insert(number, (io, self.sectors.written()));
                self.device.submit(now, RequestId(number), device::Io { kind, offset, bytes });
            }
            let ended = if now < self.held_until { None } else { self.device.poll(now) };
            let Some(RequestId(number)) = ended else {
                if store.has_work() {
                    continue;
                }
                break;
            };
            if let Some((io, written)) = self.under_way.remove(&number) {
                store.device_done(IoId(number), Ok(self.sectors.end(io, written)));
            }
        }
        while let Some(completion) = store.poll_completion() {
            self.completed.push_back(completion);
        }
        self.completed.drain(..).collect()
    }

    /// When `work` has something to do again.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.device.next_wakeup().map(|at| at.max(self.held_until))
    }

    /// Answers at once, as if no time passed: for what looks at a disk from outside.
    pub(crate) fn read(&mut self, request: &ReadRequest) -> Result<ReadResult, StoreError> {
        let Some(store) = &mut self.store else { return Err(StoreError::Device) };
        store.submit_read(Instant::ZERO, ASKED_AT_ONCE, request.clone());
        loop {
            let request = store.poll_device();
            let did = request.is_some();
            if let Some((id, io)) = request {
                let written = self.sectors.written();
                store.device_done(id, Ok(self.sectors.end(io, written)));
            }
            while let Some(completion) = store.poll_completion() {
                match completion {
                    Completion::Read(ASKED_AT_ONCE, result) => return result,
                    other => self.completed.push_back(other),
                }
            }
            if did || store.has_work() {
                continue;
            }
            // What was under way before has to end first.
            let Some((number, (io, written))) = self.under_way.pop_first() else { return Err(StoreError::Device) };
            store.device_done(IoId(number), Ok(self.sectors.end(io, written)));
        }
    }

    /// The power goes.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.store = None;
        let under_way = core::mem::take(&mut self.under_way);
        self.sectors.cut(under_way.into_values().map(|(io, _)| io), rng);
        self.device = Device::new(self.device.model().clone(), rng.u64());
        self.completed.clear();
        (self.wake_at, self.held_until) = (None, Instant::ZERO);
    }
}

/// What a model has to know of a request.
fn shape(io: &Io) -> (IoKind, u64, u64) {
    match io {
        Io::Read { offset, buf } => (IoKind::Read, *offset, buf.as_ref().len() as u64),
        Io::Write { offset, data, durable: false } => (IoKind::Write, *offset, data.len() as u64),
        Io::Write { offset, data, durable: true } => (IoKind::DurableWrite, *offset, data.len() as u64),
        Io::WriteVectored { offset, pieces } => {
            (IoKind::Write, *offset, pieces.iter().map(|piece| piece.len() as u64).sum())
        }
        // A discard is a note in the drive's tables.
        Io::Discard { offset, .. } => (IoKind::Write, *offset, 512),
        Io::Flush => (IoKind::Flush, 0, 0),
    }
}

/// How long a drive that is disturbed stands still at the most.
pub(crate) const HELD_MAX: Duration = Duration::from_secs(2);
