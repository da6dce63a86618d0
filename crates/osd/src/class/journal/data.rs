//! Appends to a journal's data objects, refused once an object is full.

use super::super::{Answer, Ctx, Unless, done, input};
use base::Errno;
use bytes::Bytes;

/// To what an append is padded: this many bytes, where the store says nothing of how it allocates.
const PAD_BYTES: u64 = 8;

pub(super) fn guard(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let size_max: u64 = input(given)?;
    match ctx.stat().unless(Errno::ENOENT)? {
        Some(stat) if stat.size >= size_max => Err(Errno::EOVERFLOW.into()),
        _ => done(),
    }
}

pub(super) fn append(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (size_max, data): (u64, Bytes) = input(given)?;
    let size = ctx.stat().unless(Errno::ENOENT)?.map_or(0, |stat| stat.size);
    if size >= size_max {
        return Err(Errno::EOVERFLOW.into());
    }
    let end = size + data.len() as u64;
    ctx.write(size, data)?;
    let padded = end.next_multiple_of(PAD_BYTES);
    if padded != end {
        ctx.truncate(padded)?;
    }
    done()
}
