//! Ops on an object's map.

use super::execution::{AskOf, Execution, NOTHING, Step, Stop, fail};
use super::tuning::Tuning;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeSet;
use store::{ObjectWant, OmapWant, Op};
use wire::osd::op::CmpOp;
use wire::osd::payload::{KeySet, KeyValues, OmapAssertions, OmapKeyRange, OmapPage, OmapRange};
use wire::osd::{OpCode, OsdOpItem};
use wire::{Decode, Decoder, Encode, Malformed};

/// Adds what a reading op needs; nothing for a payload that does not follow its format.
pub(super) fn plan(item: &OsdOpItem, tuning: &Tuning, want: &mut ObjectWant) {
    match item.op {
        OpCode::OMAPGETHEADER => want.omap_header = true,
        OpCode::OMAPGETKEYS | OpCode::OMAPGETVALS => {
            if let Ok(range) = range(item) {
                let entries = entries_max(&range, tuning) + u64::from(may_begin_empty(&range));
                want.omap.push(OmapWant::Range {
                    after: range.start_after,
                    prefix: range.prefix,
                    entries,
                    bytes: u64::from(tuning.omap_bytes_max),
                    values: item.op == OpCode::OMAPGETVALS,
                });
            }
        }
        OpCode::OMAPGETVALSBYKEYS => {
            if let Ok(keys) = read::<KeySet>(&item.payload) {
                want.omap.push(OmapWant::Keys(keys.into_iter().collect()));
            }
        }
        _ => {
            if let Ok(assertions) = read::<OmapAssertions>(&item.payload) {
                want.omap.push(OmapWant::Keys(assertions.into_keys().collect()));
            }
        }
    }
}

fn entries_max(range: &OmapRange, tuning: &Tuning) -> u64 {
    range.max.min(u64::from(tuning.omap_entries_max))
}

/// Whether the store's answer may begin with the entry of the empty key: Ceph lists what comes after a key, and nothing
/// comes before that one.
fn may_begin_empty(range: &OmapRange) -> bool {
    range.start_after.is_empty() && range.max > 0
}

fn range(item: &OsdOpItem) -> Result<OmapRange, Malformed> {
    if item.op == OpCode::OMAPGETVALS { OmapRange::values(&item.payload) } else { OmapRange::keys(&item.payload) }
}

/// Reads the head of a payload. Ceph's OSDs ignore what follows, so do we.
fn read<T: Decode>(payload: &Bytes) -> Result<T, Malformed> {
    Decoder::shared(payload).get()
}

fn parsed<T>(payload: Result<T, Malformed>) -> Result<T, Stop> {
    payload.map_err(|_| Errno::EINVAL.into())
}

/// The entries of the next part that the plan had read.
fn take_entries<'a>(x: &mut Execution<'a>) -> &'a [(Bytes, Bytes)] {
    x.take_omap().map_or(&[], |part| part.entries.as_slice())
}

pub(super) fn get_page(x: &mut Execution, item: &OsdOpItem) -> Step {
    let range = parsed(range(item))?;
    let (mut entries, mut truncated) = x.take_omap().map_or((&[][..], false), |part| (&part.entries[..], part.more));
    if may_begin_empty(&range) {
        if entries.first().is_some_and(|(key, _)| key.is_empty()) {
            entries = &entries[1..];
        }
        let max = usize::try_from(entries_max(&range, x.tuning())).unwrap_or(usize::MAX);
        truncated |= entries.len() > max;
        entries = &entries[..entries.len().min(max)];
    }
    Ok(if item.op == OpCode::OMAPGETVALS {
        OmapPage { found: entries.iter().cloned().collect::<KeyValues>(), truncated }.to_bytes()
    } else {
        let found: BTreeSet<Bytes> = entries.iter().map(|(key, _)| key.clone()).collect();
        OmapPage { found, truncated }.to_bytes()
    })
}

pub(super) fn get_header(x: &mut Execution) -> Step {
    Ok(x.view.omap_header.clone())
}

pub(super) fn get_by_keys(x: &mut Execution, item: &OsdOpItem) -> Step {
    parsed(read::<KeySet>(&item.payload))?;
    let found: KeyValues = take_entries(x).iter().cloned().collect();
    Ok(found.to_bytes())
}

pub(super) fn compare(x: &mut Execution, item: &OsdOpItem) -> Step {
    let assertions = parsed(read::<OmapAssertions>(&item.payload));
    let found = if assertions.is_ok() { take_entries(x) } else { &[] };
    x.require_exists()?;
    for (key, (given, op)) in assertions? {
        // A missing key compares as an empty value. Here it is the stored value that stands on the left.
        let at = found.binary_search_by(|(held, _)| held.cmp(&key));
        let stored = at.map(|at| found[at].1.clone()).unwrap_or_default();
        let holds = match u8::try_from(op).ok().and_then(CmpOp::from_wire) {
            Some(CmpOp::Eq) => stored == given,
            Some(CmpOp::Lt) => stored < given,
            Some(CmpOp::Gt) => stored > given,
            _ => return fail(Errno::EINVAL),
        };
        if !holds {
            return fail(Errno::ECANCELED);
        }
    }
    NOTHING
}

pub(super) fn set(x: &mut Execution, item: &OsdOpItem) -> Step {
    let entries: KeyValues = parsed(read(&item.payload))?;
    x.ensure_exists();
    x.changes.push(Op::OmapSet(entries.into_iter().collect()));
    x.result = 0;
    NOTHING
}

pub(super) fn set_header(x: &mut Execution, item: &OsdOpItem) -> Step {
    x.ensure_exists();
    x.changes.push(Op::OmapHeader(item.payload.clone()));
    x.result = 0;
    NOTHING
}

pub(super) fn remove_keys(x: &mut Execution, item: &OsdOpItem) -> Step {
    x.require_exists()?;
    let keys: KeySet = parsed(read(&item.payload))?;
    x.changes.push(Op::OmapRemove(keys.into_iter().collect()));
    x.result = 0;
    NOTHING
}

pub(super) fn remove_range(x: &mut Execution, item: &OsdOpItem) -> Step {
    x.require_exists()?;
    let (first, end): OmapKeyRange = parsed(read(&item.payload))?;
    x.changes.push(Op::OmapRemoveRange(first, end));
    x.result = 0;
    NOTHING
}

pub(super) fn clear(x: &mut Execution) -> Step {
    x.require_exists()?;
    x.result = 0;
    // An object without a map is not changed, and so gets no new version.
    let first = OmapWant::Range { after: Bytes::new(), prefix: Bytes::new(), entries: 1, bytes: 1, values: false };
    let view = x.ask(AskOf::Itself, ObjectWant { omap_header: true, omap: vec![first], ..ObjectWant::default() })?;
    let stored = !view.omap_header.is_empty() || view.omap.iter().any(|part| !part.entries.is_empty() || part.more);
    let fills = |op: &Op| matches!(op, Op::OmapSet(_) | Op::OmapHeader(_));
    if stored || x.changes.iter().any(fills) {
        x.changes.push(Op::OmapClear);
    }
    NOTHING
}
