//! Laying down a new store, and opening one: superblock, bitmap, collections, shared blocks, then the log.
//!
//! Owns the start. It reads and waits, as nobody is served yet; what it cannot make sense of is an error, never a loss
//! passed over in silence.
//!
//! Read next: `again`, which carries out what the log holds.

mod again;

pub(crate) use again::read_out_of_line;

use crate::contract::StoreError;
use crate::extent::device::{IoBuf, ReadAt, WriteAt};
use crate::extent::engine::figures::ExtentOptions;
use crate::extent::engine::jobs;
use crate::extent::engine::store::ExtentStore;
use crate::extent::layout::{Areas, BLOCK, BlockRun, Geometry, Role, SUPERBLOCKS};
use crate::extent::log::replay;
use crate::extent::log::{Log, USUAL_BYTES_MAX};
use crate::extent::space::shared::Extra;
use crate::extent::state::collection::Collection;
use crate::extent::state::db::{Db, Fetched, Found};
use crate::extent::superblock::{self, Label, LogPoint, OpenError, Superblock};
use crate::extent::tree::Fault;
use crate::extent::tree::keys;
use crate::extent::tree::page::Page;
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
        match again::carry_out(device, &mut db, &sb, &found)? {
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
