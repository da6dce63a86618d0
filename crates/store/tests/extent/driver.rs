//! The engine with a disk that forgets, driven step by step.

use crate::disk::{Disk, Still};
use base::checksum::{CRC_SEED, crc32c};
use base::{Instant, OsdId, Rng};
use bytes::Bytes;
use std::collections::VecDeque;
use store::extent::layout::{Areas, BLOCK, Geometry};
use store::extent::{ExtentOptions, ExtentStore, Label, check, format, open};
use store::{
    AheadId, AttrsWant, CollectionId, CommitId, Completion, Extent, ListWant, ObjectStore, ObjectView, ObjectWant,
    OmapWant, Op, ReadId, ReadRequest, ReadResult, ReadWhat, StoreError, Transaction,
};
use wire::types::Uuid;

/// A small device, so that everything wraps around often.
pub(crate) const DEVICE_BYTES: usize = 16 << 20;
pub(crate) const LOG_BYTES: u64 = 512 << 10;

pub(crate) fn options() -> ExtentOptions {
    ExtentOptions {
        cache_bytes: 256 << 10,
        direct_min: 16 << 10,
        discard_blocks_min: Some(2),
        scattered_pieces_min: 4,
        read_only: false,
    }
}

/// With a cache that keeps long reads, too.
pub(crate) fn roomy() -> ExtentOptions {
    ExtentOptions { cache_bytes: 16 << 20, ..options() }
}

pub(crate) fn label() -> Label {
    Label { cluster: Uuid([1; 16]), osd: OsdId(0), store: Uuid([2; 16]), salt: 0x1234_5678_9abc_def0 }
}

pub(crate) fn formatted(bytes: usize, log_bytes: u64) -> Vec<u8> {
    laid_down(&Areas::single(bytes as u64, log_bytes))
}

/// With devices for the metadata and the log beside the main one: one behind the other, on a disk as forgetful as all
/// of them together.
pub(crate) fn formatted_apart() -> Vec<u8> {
    laid_down(&Areas { main: DEVICE_BYTES as u64, meta: 4 << 20, log: LOG_BYTES, log_apart: true })
}

fn laid_down(areas: &Areas) -> Vec<u8> {
    let blocks = Geometry::new(areas).expect("there is room").all_blocks();
    // What a device held before is of no interest.
    let mut device = Still(vec![0x5A; (blocks * BLOCK) as usize]);
    format(&mut device, label(), areas).expect("there is room");
    device.0
}

/// A store and its disk.
pub(crate) struct Driven {
    pub(crate) store: ExtentStore,
    pub(crate) disk: Disk,
    pub(crate) rng: Rng,
    completions: VecDeque<Completion>,
    next_read: u64,
    next_ahead: u64,
}

impl Driven {
    pub(crate) fn open(media: Vec<u8>, options: ExtentOptions, rng: Rng) -> Driven {
        let mut still = Still(media);
        let store = open(&mut still, options).expect("it opens");
        Driven { store, disk: Disk::new(still.0), rng, completions: VecDeque::new(), next_read: 1 << 40, next_ahead: 0 }
    }

    pub(crate) fn new() -> Driven {
        Driven::open(formatted(DEVICE_BYTES, LOG_BYTES), options(), Rng::new(1))
    }

    /// Lets the engine hand over its requests, and the disk end one of them. False when nothing is left to do.
    pub(crate) fn step(&mut self) -> bool {
        while let Some((id, io)) = self.store.poll_device() {
            self.disk.submit(id, io);
        }
        let Some((id, result)) = self.disk.step(&mut self.rng) else { return self.store.has_work() };
        self.store.device_done(id, result);
        true
    }

    pub(crate) fn settle(&mut self) {
        while self.step() {}
        assert!(self.store.is_quiet(), "nothing is under way and nothing waits: {:?}", self.store);
    }

    pub(crate) fn checkpoint(&mut self) {
        self.settle();
        self.store.request_checkpoint();
        self.settle();
    }

    /// Stops cleanly: what is on the disk then.
    pub(crate) fn close(mut self) -> Vec<u8> {
        self.checkpoint();
        let Driven { disk, mut rng, .. } = self;
        disk.cut(&mut rng)
    }

    pub(crate) fn commit(&mut self, transaction: Transaction) -> Result<(), StoreError> {
        self.next_read += 1;
        let id = CommitId(self.next_read);
        self.store.submit_commit(Instant::ZERO, id, transaction);
        let mut went_on = true;
        loop {
            while let Some(completion) = self.store.poll_completion() {
                match completion {
                    Completion::Committed(done, result) if done == id => return result,
                    other => self.completions.push_back(other),
                }
            }
            assert!(went_on, "a commit comes to its end");
            went_on = self.step();
        }
    }

    /// Gives the store some of a transaction's data ahead, which some is forgotten of, and may let it get there.
    pub(crate) fn give_ahead(&mut self, rng: &mut Rng, transaction: &mut Transaction) {
        let Transaction { ops, ahead, .. } = transaction;
        for (at, (_, op)) in ops.iter().enumerate() {
            let (Op::Write(offset, data), true) = (op, rng.chance(1, 2)) else { continue };
            self.next_ahead += 1;
            let id = AheadId(self.next_ahead);
            self.store.submit_ahead(Instant::ZERO, id, *offset, data.clone());
            for _ in 0..rng.below(4) {
                self.step();
            }
            match rng.below(6) {
                0 => self.store.forget_ahead(id),
                _ => ahead.push((at, id)),
            }
        }
    }

    /// The answer as a store gives it that keeps no checksums.
    pub(crate) fn ask(&mut self, request: ReadRequest) -> Result<ReadResult, StoreError> {
        let mut result = self.ask_with_sums(request);
        if let Ok(ReadResult::Object(view)) = &mut result {
            view.sums.clear();
        }
        result
    }

    /// The answer, whose checksums are those of the data.
    pub(crate) fn ask_with_sums(&mut self, request: ReadRequest) -> Result<ReadResult, StoreError> {
        self.next_read += 1;
        let id = ReadId(self.next_read);
        self.store.submit_read(Instant::ZERO, id, request);
        let mut went_on = true;
        loop {
            while let Some(completion) = self.store.poll_completion() {
                match completion {
                    Completion::Read(done, result) if done == id => {
                        result.iter().for_each(check_sums);
                        return result;
                    }
                    other => self.completions.push_back(other),
                }
            }
            assert!(went_on, "a read comes to its end");
            went_on = self.step();
        }
    }

    /// Completions that came while something else was waited for, and since.
    pub(crate) fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front().or_else(|| self.store.poll_completion())
    }
}

impl ObjectStore for Driven {
    fn submit_commit(&mut self, now: Instant, id: CommitId, transaction: Transaction) {
        self.store.submit_commit(now, id, transaction);
    }

    fn submit_read(&mut self, now: Instant, id: ReadId, request: ReadRequest) {
        self.store.submit_read(now, id, request);
    }

    fn submit_ahead(&mut self, now: Instant, id: AheadId, offset: u64, data: Bytes) {
        self.store.submit_ahead(now, id, offset, data);
    }

    fn forget_ahead(&mut self, id: AheadId) {
        self.store.forget_ahead(id);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        loop {
            match self.store.poll_completion() {
                Some(completion) => return Some(completion),
                None if self.step() => {}
                // The last step may have brought one.
                None => return self.store.poll_completion(),
            }
        }
    }
}

/// Asks a store and waits.
pub(crate) type Ask<'a> = &'a mut dyn FnMut(ReadRequest) -> Result<ReadResult, StoreError>;

/// Everything of an object.
pub(crate) fn everything() -> ObjectWant {
    let all =
        OmapWant::Range { after: Bytes::new(), prefix: Bytes::new(), entries: 9999, bytes: 1 << 30, values: true };
    ObjectWant {
        attrs: AttrsWant::All,
        data: vec![Extent { offset: 0, len: u64::MAX }],
        allocated: Vec::new(),
        omap_header: true,
        omap: vec![all],
        uncached: false,
    }
}

/// Everything that a collection has, by object; none where it does not exist.
pub(crate) fn contents(collection: CollectionId, ask: Ask<'_>) -> Option<Vec<(String, ObjectView)>> {
    let (mut out, mut from) = (Vec::new(), None);
    loop {
        let what = ReadWhat::List(ListWant { from, max: 5, attr: None });
        let (entries, next) = match ask(ReadRequest { collection, what }) {
            Ok(ReadResult::List { entries, next }) => (entries, next),
            Err(StoreError::NoCollection) => return None,
            other => panic!("a listing gives a list: {other:?}"),
        };
        for entry in entries {
            let what = ReadWhat::Object(entry.id.clone(), everything());
            match ask(ReadRequest { collection, what }) {
                Ok(ReadResult::Object(view)) => {
                    assert!(view.exists, "what is listed exists");
                    out.push((format!("{:?}", entry.id), *view));
                }
                other => panic!("an object's read gives its view: {other:?}"),
            }
        }
        from = next;
        if from.is_none() {
            return Some(out);
        }
    }
}

/// Checksums that come with data are those of the data.
fn check_sums(result: &ReadResult) {
    if let ReadResult::Object(view) = result {
        for (data, sum) in view.data.iter().zip(&view.sums) {
            assert!(sum.is_none_or(|sum| sum == crc32c(CRC_SEED, data)), "of {} bytes", data.len());
        }
    }
}

/// Checks a disk as it lies there.
pub(crate) fn assert_clean(media: &[u8], when: &str) {
    let report = check(&mut Still(media.to_vec()), true);
    assert_eq!(report.problems, [], "{when}");
}
