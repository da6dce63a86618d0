//! Laying down a new store, and opening one: superblock, bitmap, collections, shared blocks, then the log.
//!
//! Owns the start. It reads and waits, as nobody is served yet; what it cannot make sense of is an error, never a loss
//! passed over in silence.

use super::device::{IoBuf, ReadAt, WriteAt};
use super::engine::figures::ExtentOptions;
use super::engine::jobs;
use super::engine::store::ExtentStore;
use super::layout::{Areas, BLOCK, BlockRun, Geometry, Role, SUPERBLOCKS};
use super::log::record::{Entry, OutOfLine};
use super::log::replay;
use super::log::{Log, USUAL_BYTES_MAX};
use super::objects::execute::{self, Before, Rules};
use super::objects::place::TORN;
use super::space::shared::Extra;
use super::state::collection::Collection;
use super::state::db::{Db, Fetched, Found};
use super::superblock::{self, Label, LogPoint, OpenError, Superblock};
use super::tree::Fault;
use super::tree::keys;
use super::tree::page::Page;
use crate::contract::StoreError;
use bytes::Bytes;
use std::sync::Arc;
use wire::{Decoder, Malformed};

/// Lays an empty store down on devices of these sizes, one behind the other, whatever they held before.
pub fn format(device: &mut dyn WriteAt, label: Label, areas: &Areas) -> Result<(), OpenError> {
    let geometry = Geometry::new(areas)?;
    let nothing = IoBuf::new(BLOCK as usize);
    for block in SUPERBLOCKS.into_iter().flatten() {
        device.write_at(block * BLOCK, nothing.as_ref())?;
    }
    device.flush()?;
    let mut db = Db::new(geometry, 0);
    // Both places of many pages in one write: the pages come in order.
    let mut index = 0;
    while index < geometry.bitmap_pages() {
        let count = BITMAP_BATCH.min(geometry.bitmap_pages() - index);
        let first = geometry.bitmap_block(index, 0);
        let mut batch = IoBuf::new((count * 2 * BLOCK) as usize);
        for _ in 0..count {
            let (block, page) = db.space.next_page(1).ok_or(Malformed::new("bitmap of space", "lacks a page"))?;
            let at = ((block - first) * BLOCK) as usize;
            batch.as_mut()[at..at + BLOCK as usize].copy_from_slice(page.as_ref());
        }
        device.write_at(first * BLOCK, batch.as_ref())?;
        index += count;
    }
    // A file system takes long to find room for a log that grows: its usual part has some before.
    let usual = IoBuf::new(1 << 20);
    let mut at = 0;
    while at < geometry.log_bytes().min(USUAL_BYTES_MAX) {
        let len = (geometry.log_bytes() - at).min(1 << 20);
        device.write_at(geometry.log_start() * BLOCK + at, &usual.as_ref()[..len as usize])?;
        at += len;
    }
    for role in [Role::Meta, Role::Log] {
        if let Some(run) = geometry.member(role) {
            device.write_at(run.start * BLOCK, superblock::member_label(&label, role, run).as_ref())?;
        }
    }
    device.flush()?;
    let superblock = Superblock {
        label,
        geometry,
        generation: 1,
        root: None,
        log: LogPoint { sequence: 1, position: 0, previous_crc: 0 },
        next_number: 1,
        bitmap_sum: db.space.sum(),
    };
    for block in superblock.places() {
        device.write_at(block * BLOCK, superblock.encode().as_ref())?;
    }
    Ok(device.flush()?)
}

/// The areas of the store on a main device: they say which devices belong to it beside that.
pub fn geometry(main: &mut dyn ReadAt) -> Result<Geometry, OpenError> {
    Ok(superblock::find(main)?.geometry)
}

/// Opens a store on all its devices, one behind the other: everything that was acknowledged is in it.
pub fn open(device: &mut dyn ReadAt, options: ExtentOptions) -> Result<ExtentStore, OpenError> {
    let sb = superblock::find(device)?;
    superblock::check_members(device, &sb)?;
    let mut end = None;
    loop {
        let mut db = load(device, &sb, options.cache_bytes)?;
        let found = replay::read(device, &sb, end)?;
        match replay_all(device, &mut db, &sb, &found)? {
            None => {
                let log = Log::new(sb.geometry, sb.label.salt, sb.log, found.next, sb.generation);
                return Ok(ExtentStore::new(sb.label, sb.geometry, options, db, log));
            }
            // Its data did not all arrive; nobody was told that it had. Once more, without it.
            Some(torn) => end = Some(torn),
        }
    }
}

/// The state that a superblock leads to, without the log.
pub(crate) fn load(device: &mut dyn ReadAt, sb: &Superblock, cache_bytes: usize) -> Result<Db, OpenError> {
    let mut db = Db::new(sb.geometry, cache_bytes);
    load_bitmap(device, sb, &mut db)?;
    db.root = sb.root;
    db.next_number = sb.next_number;
    scan(device, &mut db, keys::COLLECTION, |db, key, value| {
        db.collections.insert(keys::read_collection(key)?, Collection::read(value)?);
        Ok(())
    })?;
    scan(device, &mut db, keys::SHARED, |db, key, value| {
        let start = keys::number(key).ok_or(Malformed::new("shared blocks", "have no first block"))?;
        let extra = Extra::decode(&mut Decoder::new(value))?;
        if !sb.geometry.is_data(BlockRun::new(start, extra.len)) {
            return Err(Malformed::new("shared blocks", "lie where no data is"));
        }
        db.shared.load(start, extra);
        Ok(())
    })?;
    scan(device, &mut db, keys::TRASH, |db, key, _| {
        db.trash.insert(keys::read_trash(key)?);
        Ok(())
    })?;
    Ok(db)
}

/// Pages of the bitmap read at once.
const BITMAP_BATCH: u64 = 128;

fn load_bitmap(device: &mut dyn ReadAt, sb: &Superblock, db: &mut Db) -> Result<(), OpenError> {
    let pages = sb.geometry.bitmap_pages();
    let mut index = 0;
    while index < pages {
        let count = BITMAP_BATCH.min(pages - index);
        let mut buf = IoBuf::to_fill((count * 2 * BLOCK) as usize);
        device.read_at(sb.geometry.bitmap_block(index, 0) * BLOCK, &mut buf)?;
        for places in buf.as_ref().chunks_exact(2 * BLOCK as usize) {
            let (first, second) = places.split_at(BLOCK as usize);
            db.space.load_page(index, [first, second], sb.generation)?;
            index += 1;
        }
    }
    Ok(db.space.finish_loading(sb.bitmap_sum)?)
}

/// Goes through all keys of a kind.
fn scan(
    device: &mut dyn ReadAt,
    db: &mut Db,
    kind: u8,
    mut each: impl FnMut(&mut Db, &[u8], &[u8]) -> Result<(), Malformed>,
) -> Result<(), OpenError> {
    let mut scan = db.scan(&[kind]);
    while let Some((key, found)) = settle(device, db, |db| scan.next(db, &[kind + 1]))? {
        match found {
            Found::Raw(value) => each(db, &key, &value)?,
            Found::Object(_) => return Err(Malformed::new("tree", "has an object where none belongs").into()),
        }
    }
    Ok(())
}

/// Tries something until everything that it needs has been read.
pub(crate) fn settle<T>(
    device: &mut dyn ReadAt,
    db: &mut Db,
    mut what: impl FnMut(&mut Db) -> Result<T, Fault>,
) -> Result<T, OpenError> {
    loop {
        db.fresh.begin_round();
        let (block, fetched) = match what(db) {
            Ok(value) => return Ok(value),
            Err(Fault::Page(ptr)) => {
                let bytes = read_blocks(device, ptr.block, u64::from(ptr.blocks))?;
                (ptr.block, Fetched::Page(Arc::new(Page::parse(ptr, bytes)?)))
            }
            Err(Fault::Data(block, crc)) => {
                let data = read_blocks(device, block, 1)?;
                let good = jobs::check(&data, &[crc]).map(|()| Fetched::Data(data));
                (block, good.unwrap_or_else(Fetched::Bad))
            }
            Err(Fault::Failed(StoreError::Corrupt(error))) => return Err(OpenError::Corrupt(error)),
            Err(Fault::Failed(_) | Fault::Room | Fault::Turn) => {
                return Err(Malformed::new("log", "has an entry that cannot be carried out").into());
            }
        };
        db.fetched(block, fetched);
    }
}

fn read_blocks(device: &mut dyn ReadAt, block: u64, blocks: u64) -> Result<Bytes, OpenError> {
    let end = block.checked_add(blocks).filter(|&end| end <= device.size() / BLOCK && blocks > 0);
    end.ok_or(Malformed::new("extent store", "names blocks beyond its device"))?;
    let mut buf = IoBuf::to_fill((blocks * BLOCK) as usize);
    device.read_at(block * BLOCK, &mut buf)?;
    Ok(Bytes::from_owner(buf))
}

/// Carries out the log again. Names the record whose data is not there, if there is one.
fn replay_all(
    device: &mut dyn ReadAt,
    db: &mut Db,
    sb: &Superblock,
    found: &replay::Found,
) -> Result<Option<u64>, OpenError> {
    let geometry: Geometry = sb.geometry;
    for record in &found.records {
        let sequence = record.header.point.sequence;
        let unsure = sequence > found.durable;
        for bytes in &record.entries {
            match (replay_entry(device, db, sb.label.salt, bytes, unsure), unsure) {
                (Ok(()), _) => {}
                (Err(OpenError::Corrupt(TORN)), true) => return Ok(Some(sequence)),
                (Err(error), _) => return Err(error),
            }
        }
    }
    debug_assert!(db.space.free() <= geometry.data_blocks());
    Ok(None)
}

fn replay_entry(device: &mut dyn ReadAt, db: &mut Db, salt: u64, bytes: &Bytes, unsure: bool) -> Result<(), OpenError> {
    let entry = match Entry::decode(bytes)? {
        Entry::OutOfLine(place) => {
            if !place.runs.iter().all(|run| db.space.take(*run)) {
                return Err(Malformed::new("log entry", "lies in blocks that are taken").into());
            }
            db.lend(&place.runs);
            Entry::decode(&read_out_of_line(device, salt, &place)?)?
        }
        entry => entry,
    };
    match entry {
        Entry::OutOfLine(_) => Err(Malformed::new("log entry", "lies elsewhere than where it lies").into()),
        Entry::Clear { stretch, count } => settle(device, db, |db| execute::clear(db, stretch, count)),
        Entry::Transaction { transaction, given, direct } => {
            let given_runs = given.len();
            execute::check(db, &transaction).map_err(|_| Malformed::new("log", "has an impossible transaction"))?;
            let rules = Rules { direct_min: usize::MAX, lying: &[] };
            let outcome = settle(device, db, |db| {
                let before = Before { given: given.iter().copied().collect(), direct: direct.clone(), unsure };
                execute::run(db, &transaction, rules, Some(before))
            })?;
            if outcome.given.len() != given_runs {
                return Err(Malformed::new("log entry", "gives blocks that nothing needs").into());
            }
            Ok(())
        }
    }
}

/// The entry that lies in these blocks; torn where it is not what was written there.
pub(crate) fn read_out_of_line(device: &mut dyn ReadAt, salt: u64, place: &OutOfLine) -> Result<Bytes, OpenError> {
    let mut body = Vec::with_capacity(place.len);
    for run in &place.runs {
        body.extend_from_slice(&read_blocks(device, run.start, run.len)?);
    }
    body.truncate(place.len);
    if place.matches(salt, &body) { Ok(body.into()) } else { Err(TORN.into()) }
}
