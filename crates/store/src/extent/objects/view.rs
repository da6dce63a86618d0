//! Answering questions: what comes from metadata at once, and a plan for the data.
//!
//! Owns the meaning of a read request. Everything but an object's data is in the answer when this returns; data that
//! is not in memory is planned as reads of the device, as few as its places allow.

use crate::contract::StoreError;
use crate::extent::layout::BLOCK;
use crate::extent::objects::block_map::Mapped;
use crate::extent::objects::object::Object;
use crate::extent::state::collection::Stretch;
use crate::extent::state::db::{Db, Found};
use crate::extent::tree::Fault;
use crate::extent::tree::keys;
use crate::limits::LIST_OBJECTS_MAX;
use crate::read::{
    AttrsWant, Extent, ListEntry, ListWant, ObjectView, ObjectWant, OmapPart, OmapWant, ReadRequest, ReadResult,
    ReadWhat,
};
use base::checksum::joined;
use bytes::Bytes;

/// Of ranges up to this long, single blocks are looked for in the cache; of longer ones only runs.
pub(crate) const SHORT_BYTES_MAX: u64 = 64 << 10;

/// The most blocks of one read of the device.
const READ_BLOCKS_MAX: usize = 1024;

/// A part of a range of data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// In memory.
    Ready {
        /// The part.
        data: Bytes,
        /// Its checksum, where it is whole blocks and not a hole.
        sum: Option<u32>,
    },
    /// On the device, in consecutive blocks.
    Stored {
        /// The first.
        block: u64,
        /// Each one's checksum.
        crcs: Vec<u32>,
        /// Where in them the part begins.
        skip: usize,
        /// How long it is, in bytes.
        len: usize,
    },
}

/// An answer, and what its data consists of: a list for each range asked for.
pub(crate) struct Answer {
    pub(crate) result: ReadResult,
    pub(crate) data: Vec<Vec<Piece>>,
    /// Whether what comes from the device may be asked for again.
    pub(crate) keeps: bool,
}

/// Answers a question as far as metadata goes.
pub(crate) fn answer(db: &mut Db, request: &ReadRequest) -> Result<Answer, Fault> {
    let plain = |result| Ok(Answer { result, data: Vec::new(), keeps: false });
    if request.what == ReadWhat::Collections {
        return plain(ReadResult::Collections(db.collections.keys().copied().collect()));
    }
    let collection = db.collections.get(&request.collection).ok_or(StoreError::NoCollection)?;
    match &request.what {
        ReadWhat::List(want) => {
            let stretches = collection.stretches().clone();
            plain(list(db, &stretches, want)?)
        }
        ReadWhat::Object(id, want) => {
            let number = collection.number_of(id);
            let Some(object) = db.object(&keys::object(number, id))? else {
                return plain(ReadResult::Object(Box::new(missing(want))));
            };
            let view = view(db, &object, want)?;
            let data = want.data.iter().map(|extent| plan(db, &object, *extent, want.uncached)).collect();
            Ok(Answer { result: ReadResult::Object(Box::new(view)), data, keeps: !want.uncached })
        }
        ReadWhat::Collections => unreachable!("answered above"),
    }
}

fn missing(want: &ObjectWant) -> ObjectView {
    ObjectView {
        data: vec![Bytes::new(); want.data.len()],
        allocated: vec![Vec::new(); want.allocated.len()],
        omap: vec![OmapPart::default(); want.omap.len()],
        ..ObjectView::default()
    }
}

fn view(db: &mut Db, object: &Object, want: &ObjectWant) -> Result<ObjectView, Fault> {
    let attrs = match &want.attrs {
        AttrsWant::None => Vec::new(),
        AttrsWant::All => object.attrs.clone(),
        AttrsWant::Named(names) => {
            let found = names.iter().filter_map(|n| Some((n.clone(), object.attr(n)?.clone())));
            let mut found: Vec<_> = found.collect();
            found.sort();
            found.dedup();
            found
        }
    };
    Ok(ObjectView {
        exists: true,
        size: object.size,
        attrs,
        data: vec![Bytes::new(); want.data.len()],
        sums: vec![None; want.data.len()],
        allocated: want.allocated.iter().map(|extent| allocated(object, *extent)).collect(),
        omap_header: if want.omap_header { object.omap_header.clone() } else { Bytes::new() },
        omap: want.omap.iter().map(|want| omap_part(db, object, want)).collect::<Result<_, _>>()?,
    })
}

/// A range cut off at the object's end.
fn clipped(object: &Object, extent: Extent) -> Option<(u64, u64)> {
    let end = extent.offset.saturating_add(extent.len).min(object.size);
    (extent.offset < end).then_some((extent.offset, end))
}

fn allocated(object: &Object, extent: Extent) -> Vec<Extent> {
    let Some((from, to)) = clipped(object, extent) else { return Vec::new() };
    let runs = object.blocks.mapped_in(from / BLOCK, to.div_ceil(BLOCK));
    let cut = |offset: u64, end: u64| Extent { offset: offset.max(from), len: end.min(to) - offset.max(from) };
    runs.into_iter().map(|run| cut(run.start * BLOCK, run.end() * BLOCK)).collect()
}

/// What a range of an object's data consists of.
fn plan(db: &mut Db, object: &Object, extent: Extent, uncached: bool) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let Some((mut at, end)) = clipped(object, extent) else { return pieces };
    let long = end - at > SHORT_BYTES_MAX;
    let mut hole = 0;
    let flush_hole = |hole: &mut usize, pieces: &mut Vec<Piece>| {
        if *hole > 0 {
            pieces.push(Piece::Ready { data: vec![0; core::mem::take(hole)].into(), sum: None });
        }
    };
    while at < end {
        let (index, from) = (at / BLOCK, (at % BLOCK) as usize);
        let len = (BLOCK as usize - from).min((end - at) as usize);
        let Some(mapped) = object.blocks.mapped(index) else {
            (at, hole) = (at + len as u64, hole + len);
            continue;
        };
        flush_hole(&mut hole, &mut pieces);
        let kept = match uncached {
            true => db.data_on_its_way(mapped.block),
            false => db.data_in_memory(mapped.block, long),
        };
        if let Some(data) = kept {
            let max = (data.len() as u64 / BLOCK).min(end.div_ceil(BLOCK) - index);
            let (blocks, sum) = in_a_row(object, index, mapped, max);
            let whole = (blocks * BLOCK) as usize;
            let len = (whole - from).min((end - at) as usize);
            pieces.push(Piece::Ready { data: data.slice(from..from + len), sum: (len == whole).then_some(sum) });
            at += len as u64;
            continue;
        }
        at += len as u64;
        match pieces.last_mut() {
            Some(Piece::Stored { block, crcs, len: total, .. })
                if *block + crcs.len() as u64 == mapped.block && crcs.len() < READ_BLOCKS_MAX =>
            {
                crcs.push(mapped.crc);
                *total += len;
            }
            _ => pieces.push(Piece::Stored { block: mapped.block, crcs: vec![mapped.crc], skip: from, len }),
        }
    }
    flush_hole(&mut hole, &mut pieces);
    pieces
}

/// How many blocks of an object, from a mapped one on, lie one after the other on the device, `max` at the most; and the
/// checksum of them all.
fn in_a_row(object: &Object, index: u64, first: Mapped, max: u64) -> (u64, u32) {
    let follows = |ahead: u64| object.blocks.mapped(index + ahead).filter(|next| next.block == first.block + ahead);
    let others = (1..max).map_while(follows);
    others.fold((1, first.crc), |(blocks, sum), next| (blocks + 1, joined(sum, next.crc, 1)))
}

fn omap_part(db: &mut Db, object: &Object, want: &OmapWant) -> Result<OmapPart, Fault> {
    let mut part = OmapPart::default();
    if !object.has_omap {
        return Ok(part);
    }
    let number = object.number;
    match want {
        OmapWant::Keys(wanted) => {
            for key in wanted {
                if let Some(value) = db.raw(&keys::omap_entry(number, key))? {
                    part.entries.push((key.clone(), value));
                }
            }
            part.entries.sort();
            part.entries.dedup();
        }
        OmapWant::Range { after, prefix, entries, bytes, values } => {
            let from = if after.is_empty() || after < prefix {
                keys::omap_entry(number, prefix)
            } else {
                // The first key after it.
                keys::omap_entry(number, &[after, &[0][..]].concat())
            };
            let (mut scan, end) = (db.scan(&from), keys::omap_end(number));
            let mut taken = 0;
            while let Some((key, found)) = scan.next(db, &end)? {
                let key = keys::read_omap_entry(&key);
                if !key.starts_with(prefix) {
                    break;
                }
                let Found::Raw(value) = found else { continue };
                let value = if *values { value } else { Bytes::new() };
                let size = (key.len() + value.len()) as u64;
                let count = part.entries.len() as u64;
                if count >= *entries || count > 0 && taken + size > *bytes {
                    part.more = true;
                    break;
                }
                taken += size;
                part.entries.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(&value)));
            }
        }
    }
    Ok(part)
}

fn list(db: &mut Db, stretches: &[Stretch], want: &ListWant) -> Result<ReadResult, Fault> {
    let max = want.max.min(LIST_OBJECTS_MAX);
    let first = want.from.as_ref().map_or(0, |id| id.reversed_hash());
    let mut entries = Vec::new();
    for stretch in stretches.iter().filter(|stretch| stretch.range.last() >= first) {
        let within = want.from.as_ref().filter(|id| stretch.range.contains(id.reversed_hash()));
        let from = within.map_or(keys::objects(stretch), |id| keys::object(stretch.number, id));
        let (mut scan, end) = (db.scan(&from), keys::objects_end(stretch));
        while let Some((key, found)) = scan.next(db, &end)? {
            let id = keys::read_object(&key)?;
            if entries.len() == max {
                return Ok(ReadResult::List { entries, next: Some(id) });
            }
            let Found::Object(object) = found else { continue };
            let attr = want.attr.as_ref().and_then(|name| object.attr(name).cloned());
            entries.push(ListEntry { id, size: object.size, attr });
        }
    }
    Ok(ReadResult::List { entries, next: None })
}
