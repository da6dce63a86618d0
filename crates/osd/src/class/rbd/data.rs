//! Methods on an image's data objects: filling a clone's object from its parent, giving back zeros, and a check that a
//! writer knows of the newest snapshot.

use super::{Answer, Ctx, Unless, done, input};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Whether the object is there: then a copy from the parent comes too late, and is not wanted.
fn exists(ctx: &mut Ctx<'_, '_>) -> Result<bool, Stop> {
    Ok(ctx.stat().unless(Errno::ENOENT)?.is_some())
}

pub(super) fn copy_up(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    if !exists(ctx)? {
        ctx.write(0, given.clone())?;
    }
    done()
}

pub(super) fn copy_up_sparse(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (extents, data): (BTreeMap<u64, u64>, Bytes) = input(given)?;
    if exists(ctx)? {
        return done();
    }
    if extents.is_empty() {
        ctx.create(true)?;
        return done();
    }
    let mut rest = data;
    for (offset, len) in extents {
        let len = usize::try_from(len).ok().filter(|&len| len <= rest.len()).ok_or(Errno::EINVAL)?;
        let part = rest.split_to(len);
        ctx.write(offset, part)?;
    }
    done()
}

pub(super) fn assert_snap_seq(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (seq, relation): (u64, u8) = input(given)?;
    // An object that is not there has seen no snapshot.
    let newer = match ctx.snap_seq() {
        Some(seen) => seq > seen,
        None => true,
    };
    match relation {
        0 if newer => done(),
        1 if !newer => done(),
        0 | 1 => Err(Errno::ERANGE.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

pub(super) fn sparsify(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (grain, remove_empty): (u64, bool) = input(given)?;
    let grain = usize::try_from(grain).ok().filter(|&grain| grain > 0).ok_or(Errno::EINVAL)?;
    ctx.stat()?;
    let data = ctx.read(0, 0)?;
    let runs = runs(&data, grain);
    match runs.as_slice() {
        [] if remove_empty => ctx.remove()?,
        [] if !data.is_empty() => ctx.truncate(0)?,
        [] => {}
        [(0, len)] if *len == data.len() => {}
        runs => {
            ctx.truncate(0)?;
            for &(at, len) in runs {
                ctx.write(at as u64, data.slice(at..at + len))?;
            }
        }
    }
    done()
}

/// Where data is that is not zero, in whole grains: place and length.
fn runs(data: &[u8], grain: usize) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    for part in data.chunks(grain) {
        if part.iter().any(|&b| b != 0) {
            match runs.last_mut() {
                Some((start, len)) if *start + *len == at => *len += part.len(),
                _ => runs.push((at, part.len())),
            }
        }
        at += part.len();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_whole_grains() {
        assert_eq!(runs(&[0, 0, 1, 0, 0, 0, 0, 2, 3], 2), [(2, 2), (6, 3)]);
        assert_eq!(runs(&[1, 0, 0, 1], 4), [(0, 4)]);
        assert_eq!(runs(&[0; 9], 4), []);
    }
}
