//! Carrying out the log again.
//!
//! Owns the order in which it is done: entry by entry, as they were the first time. The pages with the objects of the
//! next ones are read ahead, many at once: a log of small writes names thousands of objects, and each would else be
//! waited for by itself.

use super::{read_blocks, settle};
use crate::extent::device::ReadAt;
use crate::extent::layout::BLOCK;
use crate::extent::log::record::{Entry, OutOfLine};
use crate::extent::log::replay::{Found, Record};
use crate::extent::objects::execute::{self, Before, Rules};
use crate::extent::objects::place::TORN;
use crate::extent::state::db::{Db, Fetched};
use crate::extent::superblock::{OpenError, Superblock};
use crate::extent::tree::key::Key;
use crate::extent::tree::page::{Page, PagePtr};
use crate::extent::tree::{Fault, LEVELS_MAX, keys};
use crate::transaction::Op;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::Malformed;

/// Entries whose objects are read ahead, and the bytes at the most of their data, which comes back as zeros where it lies in
/// its place, and of pages for them: usually one of 8 KiB for each, but that of an object of 128 MiB has up to half a megabyte.
const AHEAD_ENTRIES: usize = 256;
const AHEAD_BYTES_MAX: u64 = 4 << 20;

/// Carries out the log again. Names the record whose data is not there, if there is one.
pub(super) fn carry_out<'a>(
    device: &mut dyn ReadAt,
    db: &mut Db,
    sb: &Superblock,
    found: &'a Found,
) -> Result<Option<u64>, OpenError> {
    let of_record =
        |record: &'a Record| record.entries.iter().map(|bytes| (record.header.point.sequence, bytes, &record.apart));
    let mut entries = found.records.iter().flat_map(of_record);
    loop {
        let next = take_some(&mut entries);
        if next.is_empty() {
            break;
        }
        read_ahead(device, db, next.iter().filter_map(|(_, entry)| entry.as_ref().ok()));
        for (sequence, entry) in next {
            let unsure = sequence > found.durable;
            match entry.map_err(OpenError::from).and_then(|entry| again(device, db, sb.label.salt, entry, unsure)) {
                Ok(()) => {}
                Err(OpenError::Corrupt(TORN)) if unsure => return Ok(Some(sequence)),
                Err(error) => return Err(error),
            }
        }
    }
    debug_assert!(db.space.free() <= sb.geometry.data_blocks());
    Ok(None)
}

/// The next entries. What cannot be read is an error only in its turn: the log may end before it.
fn take_some<'a>(
    entries: &mut impl Iterator<Item = (u64, &'a Bytes, &'a Bytes)>,
) -> Vec<(u64, Result<Entry, Malformed>)> {
    let (mut next, mut bytes) = (Vec::new(), 0);
    while next.len() < AHEAD_ENTRIES
        && bytes < AHEAD_BYTES_MAX
        && let Some((sequence, encoded, apart)) = entries.next()
    {
        let entry = Entry::decode(encoded, apart);
        bytes += entry.as_ref().map_or(0, data_bytes);
        next.push((sequence, entry));
    }
    next
}

fn data_bytes(entry: &Entry) -> u64 {
    let Entry::Transaction { transaction, .. } = entry else { return 0 };
    let of_op = |(_, op): &(u16, Op)| if let Op::Write(_, data) = op { data.len() as u64 } else { 0 };
    transaction.ops.iter().map(of_op).sum()
}

/// Has the pages in memory that lead to the objects of these entries, level by level. What cannot be read is left to
/// whoever needs it.
fn read_ahead<'a>(device: &mut dyn ReadAt, db: &mut Db, entries: impl Iterator<Item = &'a Entry>) {
    let mut left = AHEAD_BYTES_MAX;
    let mut keys: Vec<Key> = entries.flat_map(|entry| objects(db, entry)).collect();
    for _ in 0..LEVELS_MAX {
        let mut lacking = BTreeMap::new();
        keys.retain(|key| match db.object(key) {
            Err(Fault::Page(ptr)) => {
                lacking.insert(ptr.block, ptr);
                true
            }
            _ => false,
        });
        let fits = |ptr: &PagePtr| {
            let bytes = u64::from(ptr.blocks) * BLOCK;
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        };
        let lacking: Vec<PagePtr> = lacking.into_values().take_while(fits).collect();
        if lacking.is_empty() || !read_pages(device, db, &lacking) {
            return;
        }
    }
}

/// Where the objects of an entry are kept, as far as their collection is there.
fn objects(db: &Db, entry: &Entry) -> Vec<Key> {
    let Entry::Transaction { transaction, .. } = entry else { return Vec::new() };
    let Some(collection) = db.collections.get(&transaction.collection) else { return Vec::new() };
    transaction.objects.iter().map(|id| keys::object(collection.number_of(id), id)).collect()
}

/// Whether all of these pages are in memory now.
fn read_pages(device: &mut dyn ReadAt, db: &mut Db, pages: &[PagePtr]) -> bool {
    let end = device.size() / BLOCK;
    let inside = |ptr: &PagePtr| ptr.block.checked_add(u64::from(ptr.blocks)).is_some_and(|last| last <= end);
    if !pages.iter().all(inside) {
        return false;
    }
    let places: Vec<_> = pages.iter().map(|ptr| (ptr.block * BLOCK, ptr.blocks as usize * BLOCK as usize)).collect();
    let Ok(bufs) = device.read_all(&places) else { return false };
    let mut all = true;
    for (ptr, buf) in pages.iter().zip(bufs) {
        match Page::parse(*ptr, Bytes::from_owner(buf)) {
            Ok(page) => db.fetched(ptr.block, Fetched::Page(Arc::new(page))),
            Err(_) => all = false,
        }
    }
    all
}

fn again(device: &mut dyn ReadAt, db: &mut Db, salt: u64, entry: Entry, unsure: bool) -> Result<(), OpenError> {
    let entry = match entry {
        Entry::OutOfLine(place) => {
            if !place.runs.iter().all(|run| db.space.take(*run)) {
                return Err(Malformed::new("log entry", "lies in blocks that are taken").into());
            }
            db.lend(&place.runs);
            Entry::decode(&read_out_of_line(device, salt, &place)?, &Bytes::new())?
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
