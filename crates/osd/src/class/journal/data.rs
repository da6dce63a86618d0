//! Appends to a journal's data objects, refused once an object is full.

use super::super::{Answer, Ctx, Unless, done, input};
use base::Errno;
use bytes::Bytes;

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
    // Ceph pads the object to the store's allocation unit where every client is known to be Octopus or newer, which
    // makes its own writes cheaper; readers take both.
    ctx.write(size, data)?;
    done()
}
