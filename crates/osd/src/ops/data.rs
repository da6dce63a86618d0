//! Ops on an object's data and existence.

use super::execution::{Execution, NOTHING, Step, Stop, fail};
use super::watch;
use crate::limits::OBJECT_BYTES_MAX;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Extent, ObjectWant, Op};
use wire::Encode;
use wire::osd::payload::{SparseRead, StatReply};
use wire::osd::{OpCode, OpFlags, OpParams, OsdOpItem};

/// The most that one op reads: the largest object. What is longer is cut off by the object's end in any case.
const READ_BYTES_MAX: u64 = OBJECT_BYTES_MAX;

/// Adds what a reading op needs.
pub(super) fn plan(item: &OsdOpItem, want: &mut ObjectWant) {
    let (offset, length) = item.range();
    let whole_if_zero = if length == 0 { READ_BYTES_MAX } else { length.min(READ_BYTES_MAX) };
    match item.op {
        OpCode::SPARSE_READ => {
            let extent = Extent { offset, len: length.min(READ_BYTES_MAX) };
            want.data.push(extent);
            want.allocated.push(extent);
        }
        OpCode::MAPEXT => want.allocated.push(Extent { offset, len: length.min(READ_BYTES_MAX) }),
        OpCode::CMPEXT => want.data.push(Extent { offset, len: length.min(item.payload.len() as u64) }),
        _ => want.data.push(Extent { offset, len: whole_if_zero }),
    }
}

/// Where a read has to end: at the object's end, or where a truncation that the writer of the object has not seen
/// yet will end it (CephFS).
fn readable_size(x: &Execution, item: &OsdOpItem) -> u64 {
    let OpParams::Extent { offset, length, truncate_size, truncate_seq } = item.params() else { return x.state.size };
    let (truncate_size, truncate_seq) = sane_truncation(truncate_size, truncate_seq);
    let beyond = offset.saturating_add(length) > truncate_size;
    if x.state.info.truncate_seq < truncate_seq && beyond && x.state.size > truncate_size {
        truncate_size
    } else {
        x.state.size
    }
}

/// "Never truncated" is written as sequence 1 and size -1 by old clients.
fn sane_truncation(size: u64, seq: u32) -> (u64, u32) {
    if seq == 1 && size == u64::MAX { (0, 0) } else { (size, seq) }
}

pub(super) fn read(x: &mut Execution, item: &OsdOpItem) -> Step {
    let (mut data, sum) = x.take_summed_data();
    let readable = readable_size(x, item).saturating_sub(item.range().0);
    x.result = 0;
    if readable == 0 {
        return NOTHING;
    }
    require_stored(x)?;
    x.output_sum = sum.filter(|_| data.len() as u64 <= readable);
    data.truncate(usize::try_from(readable).unwrap_or(usize::MAX));
    Ok(data)
}

/// Reads see what was there before the request: what the request has just created is not there.
fn require_stored(x: &Execution) -> Result<(), Stop> {
    if x.view.exists { Ok(()) } else { Err(Errno::ENOENT.into()) }
}

pub(super) fn sparse_read(x: &mut Execution, item: &OsdOpItem) -> Step {
    let ((data, sum), allocated) = (x.take_summed_data(), x.take_allocated());
    let OpParams::Extent { truncate_size, truncate_seq, .. } = item.params() else { return fail(Errno::EINVAL) };
    if sane_truncation(truncate_size, truncate_seq).1 != 0 {
        return fail(Errno::EINVAL);
    }
    require_stored(x)?;
    let (start, end) = (item.range().0, x.state.size);
    let mut extents = BTreeMap::new();
    let mut parts = Vec::new();
    for e in allocated {
        let len = e.len.min(end.saturating_sub(e.offset));
        let from = (e.offset - start) as usize;
        if data.get(from..from + len as usize).is_some_and(|part| !part.is_empty()) {
            extents.insert(e.offset, len);
            parts.push(data.slice(from..from + len as usize));
        }
    }
    x.result = 0;
    match &parts[..] {
        [part] => {
            // What a client reads where there are no holes goes out as the store has it.
            x.output_sum = sum.filter(|_| part.len() == data.len());
            x.output_lead = SparseRead::lead(&extents, part.len());
            Ok(part.clone())
        }
        _ => Ok(SparseRead { extents, data: parts.concat().into() }.to_bytes()),
    }
}

pub(super) fn map_extents(x: &mut Execution) -> Step {
    let allocated = x.take_allocated();
    require_stored(x)?;
    let extents: BTreeMap<u64, u64> = allocated.iter().map(|e| (e.offset, e.len)).collect();
    Ok(extents.to_bytes())
}

/// The greatest errno: a comparison that fails at byte N answers minus this minus N.
const ERRNO_MAX: i32 = 4095;

pub(super) fn compare_extent(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Extent { offset, truncate_size, truncate_seq, .. } = item.params() else {
        return fail(Errno::EINVAL);
    };
    let mut data = x.take_data();
    let (truncate_size, truncate_seq) = sane_truncation(truncate_size, truncate_seq);
    if x.state.info.truncate_seq < truncate_seq && offset.saturating_add(item.range().1) > truncate_size {
        data.truncate(usize::try_from(truncate_size.saturating_sub(offset)).unwrap_or(usize::MAX));
    }
    data.truncate(usize::try_from(x.state.size.saturating_sub(offset)).unwrap_or(usize::MAX));
    let held = data.iter().copied().chain(core::iter::repeat(0));
    match item.payload.iter().zip(held).position(|(given, held)| *given != held) {
        Some(at) => Err(Stop::Fail(-ERRNO_MAX - i32::try_from(at).unwrap_or(i32::MAX - ERRNO_MAX))),
        None => {
            x.result = 0;
            NOTHING
        }
    }
}

pub(super) fn stat(x: &mut Execution) -> Step {
    x.require_exists()?;
    Ok(StatReply { size: x.state.size, mtime: x.state.info.mtime }.to_bytes())
}

/// EFBIG where a range reaches beyond the largest object (`check_offset_and_length`).
fn check_range(x: &Execution, offset: u64, length: u64) -> Result<(), Stop> {
    let max = u64::from(x.tuning().object_bytes_max);
    let fits = offset < max && length <= max && offset + length <= max;
    if fits { Ok(()) } else { Err(Errno::EFBIG.into()) }
}

pub(super) fn write(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Extent { offset, length, truncate_size, truncate_seq } = item.params() else {
        return fail(Errno::EINVAL);
    };
    let (truncate_size, truncate_seq) = sane_truncation(truncate_size, truncate_seq);
    if length != item.payload.len() as u64 {
        return fail(Errno::EINVAL);
    }
    write_at(x, offset, item.payload.clone(), truncate_size, truncate_seq)
}

fn write_at(x: &mut Execution, offset: u64, mut data: Bytes, truncate_size: u64, truncate_seq: u32) -> Step {
    let seen = x.state.info.truncate_seq;
    if seen != 0 && seen > truncate_seq && offset.saturating_add(data.len() as u64) > x.state.size {
        // The write was sent before a truncation that has already come: what lies beyond is cut off.
        data.truncate(x.state.size.saturating_sub(offset) as usize);
    }
    if truncate_seq > seen {
        // The write was sent after a truncation that is still on its way.
        if x.state.exists && truncate_size <= OBJECT_BYTES_MAX {
            set_size(x, truncate_size);
        }
        x.state.info.truncate_seq = truncate_seq;
        x.state.info.truncate_size = truncate_size;
    }
    check_range(x, offset, data.len() as u64)?;
    let truncation = (x.state.info.truncate_seq, x.state.info.truncate_size);
    x.ensure_exists();
    (x.state.info.truncate_seq, x.state.info.truncate_size) = truncation;
    let end = offset + data.len() as u64;
    if data.is_empty() {
        if offset > x.state.size {
            set_size(x, offset);
        } else {
            x.changes.push(Op::Touch);
        }
    } else {
        x.changes.push(Op::Write(offset, data));
        x.state.size = x.state.size.max(end);
    }
    x.result = 0;
    NOTHING
}

fn set_size(x: &mut Execution, size: u64) {
    x.changes.push(Op::Truncate(size));
    x.state.size = size;
}

pub(super) fn append(x: &mut Execution, item: &OsdOpItem) -> Step {
    if item.range().1 != item.payload.len() as u64 {
        return fail(Errno::EINVAL);
    }
    let seq = x.state.info.truncate_seq;
    write_at(x, x.state.size, item.payload.clone(), x.state.info.truncate_size, seq)
}

pub(super) fn write_full(x: &mut Execution, item: &OsdOpItem) -> Step {
    if item.range().1 != item.payload.len() as u64 {
        return fail(Errno::EINVAL);
    }
    replace(x, item.payload.clone())
}

/// Puts `data` in place of the object's.
pub(super) fn replace(x: &mut Execution, data: Bytes) -> Step {
    let length = data.len() as u64;
    check_range(x, 0, length)?;
    x.ensure_exists();
    if length < x.state.size {
        // Nothing of what there was is kept, not even the part of a block: it may be one that cannot be read.
        x.changes.push(Op::Truncate(0));
    }
    if length > 0 {
        x.changes.push(Op::Write(0, data));
    } else {
        x.changes.push(Op::Touch);
    }
    x.state.size = length;
    x.result = 0;
    NOTHING
}

pub(super) fn write_same(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::WriteSame { offset, length, data_length } = item.params() else { return fail(Errno::EINVAL) };
    x.result = 0;
    if length == 0 {
        return NOTHING;
    }
    if data_length == 0 || data_length != item.payload.len() as u64 || length % data_length != 0 {
        return fail(Errno::EINVAL);
    }
    check_range(x, offset, length)?;
    let data = item.payload.repeat((length / data_length) as usize);
    write_at(x, offset, data.into(), x.state.info.truncate_size, x.state.info.truncate_seq)
}

pub(super) fn zero(x: &mut Execution, item: &OsdOpItem) -> Step {
    let (offset, length) = item.range();
    if length == 0 {
        return fail(Errno::EINVAL);
    }
    let inside = offset < OBJECT_BYTES_MAX && length <= OBJECT_BYTES_MAX;
    let at_end = x.state.exists && inside && offset + length >= x.state.size;
    if at_end && offset >= x.state.size {
        // Zeros beyond the end are nothing; zeros up to the end are cut off.
        return NOTHING;
    }
    check_range(x, offset, length)?;
    if at_end {
        set_size(x, offset);
    } else if x.state.exists {
        x.changes.push(Op::Zero(offset, length));
    }
    x.result = 0;
    NOTHING
}

pub(super) fn truncate(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Extent { mut offset, length, truncate_size, truncate_seq } = item.params() else {
        return fail(Errno::EINVAL);
    };
    let (truncate_size, truncate_seq) = sane_truncation(truncate_size, truncate_seq);
    if item.op == OpCode::TRIMTRUNC {
        offset = truncate_size;
    }
    x.result = 0;
    if !x.state.exists {
        return NOTHING;
    }
    check_range(x, offset, length)?;
    if truncate_seq != 0 {
        if offset != truncate_size {
            return fail(Errno::EINVAL);
        }
        if truncate_seq <= x.state.info.truncate_seq {
            return NOTHING;
        }
        x.state.info.truncate_seq = truncate_seq;
        x.state.info.truncate_size = truncate_size;
    }
    set_size(x, offset);
    NOTHING
}

pub(super) fn create(x: &mut Execution, item: &OsdOpItem) -> Step {
    if x.state.exists && item.flags.has(OpFlags::EXCL) {
        return fail(Errno::EEXIST);
    }
    // A category, which objects no longer have.
    if !item.payload.is_empty() && wire::Decoder::shared(&item.payload).blob().is_err() {
        return fail(Errno::EINVAL);
    }
    x.ensure_exists();
    x.changes.push(Op::Touch);
    x.result = 0;
    NOTHING
}

pub(super) fn delete(x: &mut Execution) -> Step {
    x.require_exists()?;
    watch::end_all(x);
    x.state = Default::default();
    x.changes.push(Op::Remove);
    x.result = 0;
    NOTHING
}

/// An allocation hint creates the object, as it does in Ceph; nothing here allocates by it.
pub(super) fn hint(x: &mut Execution) -> Step {
    x.ensure_exists();
    x.changes.push(Op::Touch);
    x.result = 0;
    NOTHING
}

/// Changes nothing but the object's version.
pub(super) fn start_sync(x: &mut Execution) -> Step {
    if x.state.exists {
        x.changes.push(Op::Touch);
    }
    x.result = 0;
    NOTHING
}
