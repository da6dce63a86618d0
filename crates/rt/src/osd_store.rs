//! The stores that an OSD may have, as its loop drives them.
//!
//! Owns the choice, the opening of each, and what a clean stop leaves: a memory store its image, an extent store a
//! checkpoint.

use crate::block_device::Ended;
use crate::clock::entropy;
use crate::extent_devices::ExtentDevices;
use crate::image;
use admin::counters::{Counter, Gauge};
use base::rng::SecretRng;
use base::{Duration, Instant, OsdId};
use bytes::Bytes;
use osd::counters::StoreCounters;
use osd::room::Room;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use store::extent::{self, Label};
use store::{
    AheadId, CommitId, Completion, ExtentOptions, ExtentStore, MemoryStore, ObjectStore, ReadId, ReadRequest,
    ReadResult, StoreError, Transaction,
};
use wire::types::Uuid;

/// Where an OSD keeps its objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// In memory; a clean stop saves them, a crash loses them.
    Memory,
    /// On a file or block device.
    Extent,
}

impl StoreKind {
    /// The kind that the option `osd_objectstore` names; the extent store where it is not set.
    pub fn of(options: &BTreeMap<String, String>) -> Result<StoreKind, String> {
        match options.get("osd_objectstore").map(String::as_str) {
            Some("memory" | "memstore") => Ok(StoreKind::Memory),
            None | Some("extent") => Ok(StoreKind::Extent),
            Some(other) => Err(format!("osd_objectstore = {other}: expected memory or extent")),
        }
    }

    /// Its name, as the option has it.
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Memory => "memory",
            StoreKind::Extent => "extent",
        }
    }
}

/// The size a memory store claims, as there is no device to ask: more than tests and measurements fill, because writes
/// are held back from the map's full ratio of it on.
pub const MEMORY_STORE_BYTES: u64 = 16 << 30;

/// What the cache may have until the OSD says otherwise, and where there is none.
const CACHE_BYTES: usize = 16 << 20;

/// The smallest run of free blocks that a device is told of: 1 MiB. What objects leave behind is larger, and what
/// overwriting leaves is soon used again; a file system takes as long for a block as for a thousand.
const DISCARD_BLOCKS_MIN: u64 = 256;

/// An OSD's store.
#[derive(Debug)]
pub(crate) enum OsdStore {
    Memory { store: MemoryStore, image: PathBuf },
    Extent(Box<ExtentDrive>),
}

/// An extent store and its devices.
#[derive(Debug)]
pub(crate) struct ExtentDrive {
    store: ExtentStore,
    devices: ExtentDevices,
    ended: Vec<Ended>,
}

fn in_file(path: &Path, error: &dyn Display) -> String {
    format!("{}: {error}", path.display())
}

impl OsdStore {
    /// Opens the store in an OSD's directory, made where there is none, and says its name.
    pub(crate) fn open(
        kind: StoreKind,
        id: OsdId,
        cluster: Uuid,
        data: &Path,
        options: &BTreeMap<String, String>,
    ) -> Result<(OsdStore, Uuid), String> {
        match kind {
            StoreKind::Memory => open_memory(id, data),
            StoreKind::Extent => open_extent(id, cluster, data, options),
        }
    }

    /// How many bytes it can hold.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            OsdStore::Memory { .. } => MEMORY_STORE_BYTES,
            OsdStore::Extent(drive) => drive.store.usage().total,
        }
    }

    /// How full it is; none where it keeps no account.
    pub(crate) fn room(&self) -> Option<Room> {
        let OsdStore::Extent(drive) = self else { return None };
        let usage = drive.store.usage();
        Some(Room { total: usage.total, free: usage.free })
    }

    /// Bounds its cache.
    pub(crate) fn set_cache_bytes(&mut self, bytes: u64) {
        if let OsdStore::Extent(drive) = self {
            drive.store.set_cache_bytes(bytes as usize);
        }
    }

    /// What it has counted; none where it does not count.
    pub(crate) fn counters(&self) -> Option<StoreCounters> {
        let OsdStore::Extent(drive) = self else { return None };
        let counts = drive.store.counts();
        Some(StoreCounters {
            transactions: Counter(counts.transactions),
            log_records: Counter(counts.records),
            log_bytes: Counter(counts.record_bytes),
            direct_bytes: Counter(counts.direct_bytes),
            reallocated_bytes: Counter(counts.reallocated_bytes),
            checkpoints: Counter(counts.checkpoints),
            checkpoint_bytes: Counter(counts.checkpoint_bytes),
            device_reads: Counter(counts.device_reads),
            cache_hit: Counter(counts.cache.hits),
            cache_miss: Counter(counts.cache.misses),
            cache_bytes: Gauge(counts.cache.bytes),
            waiting_bytes: Gauge(counts.waiting_bytes),
            change_bytes: Gauge(counts.change_bytes),
            space_bytes: Gauge(counts.space_bytes),
            buffer_bytes: Gauge(counts.buffer_bytes),
            checksum_errors: Counter(counts.checksum_errors),
        })
    }

    /// What rings when the device has something to say.
    pub(crate) fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        match self {
            OsdStore::Memory { .. } => Ok(Vec::new()),
            OsdStore::Extent(drive) => drive.devices.bells(),
        }
    }

    /// How many reads wait for a device that can be waited for.
    pub(crate) fn reads_owed(&self) -> u64 {
        match self {
            OsdStore::Extent(drive) if drive.devices.can_wait_for_data() => drive.store.reads_under_way() as u64,
            _ => 0,
        }
    }

    /// The number of the group of commits that is on its way to a device that can be waited for.
    pub(crate) fn committing(&self) -> Option<u64> {
        match self {
            OsdStore::Extent(drive) if drive.devices.can_wait_for_log() => drive.store.committing(),
            _ => None,
        }
    }

    /// Waits until the device has ended so many requests, at the longest for `limit`.
    pub(crate) fn wait_for_data(&mut self, count: u64, limit: Duration) -> Result<(), String> {
        match self {
            OsdStore::Memory { .. } => Ok(()),
            OsdStore::Extent(drive) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                drive.devices.wait_for_data(count, limit).map_err(|e| e.to_string())
            }
        }
    }

    /// Whether it has something to do although nobody asked and nothing ended.
    pub(crate) fn has_work(&self) -> bool {
        match self {
            OsdStore::Memory { .. } => false,
            OsdStore::Extent(drive) => drive.store.has_work(),
        }
    }

    /// Lets it do, now and then, what nobody waits for.
    pub(crate) fn rest(&mut self, now: Instant) {
        if let OsdStore::Extent(drive) = self {
            drive.store.rest(now);
        }
    }

    pub(crate) fn submit_commit(&mut self, now: Instant, id: CommitId, transaction: Transaction) {
        match self {
            OsdStore::Memory { store, .. } => store.submit_commit(now, id, transaction),
            OsdStore::Extent(drive) => drive.store.submit_commit(now, id, transaction),
        }
    }

    pub(crate) fn submit_read(&mut self, now: Instant, id: ReadId, request: ReadRequest) {
        match self {
            OsdStore::Memory { store, .. } => store.submit_read(now, id, request),
            OsdStore::Extent(drive) => drive.store.submit_read(now, id, request),
        }
    }

    pub(crate) fn submit_ahead(&mut self, now: Instant, id: AheadId, offset: u64, data: Bytes) {
        match self {
            OsdStore::Memory { store, .. } => store.submit_ahead(now, id, offset, data),
            OsdStore::Extent(drive) => drive.store.submit_ahead(now, id, offset, data),
        }
    }

    pub(crate) fn forget_ahead(&mut self, id: AheadId) {
        match self {
            OsdStore::Memory { store, .. } => store.forget_ahead(id),
            OsdStore::Extent(drive) => drive.store.forget_ahead(id),
        }
    }

    /// The next completion. Asked when everything else is done: then the device gets its requests.
    pub(crate) fn poll_completion(&mut self, now: Instant) -> Result<Option<Completion>, String> {
        match self {
            OsdStore::Memory { store, .. } => Ok(store.poll_completion()),
            OsdStore::Extent(drive) => drive.poll_completion(now),
        }
    }

    /// Asks and waits: for the start, when nobody is served yet.
    pub(crate) fn ask(&mut self, request: ReadRequest) -> Result<ReadResult, StoreError> {
        match self {
            OsdStore::Memory { store, .. } => store.read(&request),
            OsdStore::Extent(drive) => drive.ask(request),
        }
    }

    /// Commits and waits: for tools, when nobody is served.
    pub(crate) fn commit(&mut self, transaction: Transaction) -> Result<(), StoreError> {
        match self {
            OsdStore::Memory { store, .. } => store.commit(&transaction),
            OsdStore::Extent(drive) => drive.commit(transaction),
        }
    }

    /// Leaves what a clean stop leaves.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        match self {
            OsdStore::Memory { store, image } => image::save(image, store).map_err(|e| in_file(image, &e)),
            OsdStore::Extent(drive) => drive.close(),
        }
    }
}

/// The store that a clean stop left and its name, or a new one with a new name.
fn open_memory(id: OsdId, data: &Path) -> Result<(OsdStore, Uuid), String> {
    let (image, fsid_file) = (data.join("memory.image"), data.join("fsid"));
    if let Some(store) = image::take(&image).map_err(|e| in_file(&image, &e))? {
        let text = std::fs::read_to_string(&fsid_file).map_err(|e| in_file(&fsid_file, &e))?;
        let fsid = Uuid::parse(text.trim()).ok_or_else(|| in_file(&fsid_file, &"is not a uuid"))?;
        return Ok((OsdStore::Memory { store, image }, fsid));
    }
    if fsid_file.exists() {
        tracing::warn!("osd.{id}: no image of a clean stop: the objects in memory are lost, starting empty");
    }
    let fsid = new_name(&fsid_file)?;
    Ok((OsdStore::Memory { store: MemoryStore::new(), image }, fsid))
}

fn new_name(fsid_file: &Path) -> Result<Uuid, String> {
    let fsid = Uuid::from_random(SecretRng::from_entropy(entropy()).bytes());
    std::fs::write(fsid_file, format!("{fsid}\n")).map_err(|e| in_file(fsid_file, &e))?;
    Ok(fsid)
}

/// The store on `block` and what belongs to it. A new one is laid down where there is none yet.
fn open_extent(
    id: OsdId,
    cluster: Uuid,
    data: &Path,
    options: &BTreeMap<String, String>,
) -> Result<(OsdStore, Uuid), String> {
    let (block, fsid_file) = (data.join("block"), data.join("fsid"));
    let discards =
        options.get("bdev_enable_discard").is_none_or(|value| matches!(value.as_str(), "true" | "1" | "yes"));
    let settings = ExtentOptions {
        cache_bytes: CACHE_BYTES,
        discard_blocks_min: discards.then_some(DISCARD_BLOCKS_MIN),
        ..ExtentOptions::default()
    };
    let mut rng = SecretRng::from_entropy(entropy());
    let (mut devices, new) = ExtentDevices::open(data, options, !fsid_file.exists(), rng.u64())?;
    if let Some(areas) = new {
        let label = Label { cluster, osd: id, store: Uuid::from_random(rng.bytes()), salt: rng.u64() };
        extent::format(&mut devices, label, &areas).map_err(|e| in_file(&block, &e))?;
    }
    let store = extent::open(&mut devices, settings).map_err(|e| in_file(&block, &e))?;
    let label = *store.label();
    if label.cluster != cluster || label.osd != id {
        return Err(in_file(&block, &format!("is the store of osd.{} of cluster {}", label.osd, label.cluster)));
    }
    // For whoever looks; the store knows its name itself.
    std::fs::write(&fsid_file, format!("{}\n", label.store)).map_err(|e| in_file(&fsid_file, &e))?;
    Ok((OsdStore::Extent(Box::new(ExtentDrive { store, devices, ended: Vec::new() })), label.store))
}

impl ExtentDrive {
    fn poll_completion(&mut self, now: Instant) -> Result<Option<Completion>, String> {
        loop {
            if let Some(completion) = self.store.poll_completion() {
                return Ok(Some(completion));
            }
            if !self.work(Some(now)).map_err(|e| e.to_string())? {
                return Ok(self.store.poll_completion());
            }
        }
    }

    /// Hands the store's requests to the device and takes what has ended; whether anything has.
    fn work(&mut self, now: Option<Instant>) -> io::Result<bool> {
        while let Some((id, io)) = self.store.poll_device() {
            self.devices.push(now, id, io);
        }
        self.devices.submit()?;
        self.devices.ended(now, &mut self.ended)?;
        let any = !self.ended.is_empty();
        for (id, result) in self.ended.drain(..) {
            self.store.device_done(id, result);
        }
        Ok(any)
    }

    /// Works until `done` says so, waiting for the device.
    fn work_until<T>(&mut self, mut done: impl FnMut(&mut ExtentStore) -> Option<T>) -> io::Result<T> {
        loop {
            if let Some(value) = done(&mut self.store) {
                return Ok(value);
            }
            if !self.work(None)? && !self.store.has_work() && self.devices.in_flight() > 0 {
                self.devices.wait()?;
            }
        }
    }

    fn ask(&mut self, request: ReadRequest) -> Result<ReadResult, StoreError> {
        self.store.submit_read(Instant::ZERO, ReadId(0), request);
        let answer = self.work_until(|store| match store.poll_completion() {
            Some(Completion::Read(_, result)) => Some(result),
            _ => None,
        });
        answer.map_err(|_| StoreError::Device)?
    }

    fn commit(&mut self, transaction: Transaction) -> Result<(), StoreError> {
        self.store.submit_commit(Instant::ZERO, CommitId(0), transaction);
        let answer = self.work_until(|store| match store.poll_completion() {
            Some(Completion::Committed(_, result)) => Some(result),
            _ => None,
        });
        answer.map_err(|_| StoreError::Device)?
    }

    fn close(&mut self) -> Result<(), String> {
        self.store.request_checkpoint();
        self.work_until(|store| store.is_quiet().then_some(())).map_err(|e| e.to_string())?;
        if self.store.is_failed() { Err("the device failed".to_owned()) } else { Ok(()) }
    }
}
