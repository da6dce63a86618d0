//! Snapshots of images of the old format, whose header is one piece of data: a fixed part, the snapshots' ids and sizes,
//! and their names, each with a zero behind it, the newest first.
//!
//! Follows Ceph v16.2 `src/include/rbd_types.h` (`rbd_obj_header_ondisk`). A header whose parts do not fit together is
//! EINVAL, so that the format in use is told from this one.

use super::{Answer, Ctx, Unless, done, input, stored};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decoder, Encoder, Malformed};

/// Bytes of the fixed part.
const FIXED_BYTES: usize = 112;
/// Where in it the image's size is; the newest snapshot's id, their number, and the bytes of their names follow.
const SIZE_AT: usize = 80;
/// Bytes of a snapshot's id and size.
const SNAP_BYTES: usize = 16;

struct Snap {
    id: u64,
    size: u64,
    name: Bytes,
}

/// A header.
struct Header {
    fixed: Bytes,
    size: u64,
    seq: u64,
    snaps: Vec<Snap>,
}

/// The image's size, the newest snapshot's id, how many there are, and the bytes of their names.
fn fixed_part(fixed: &[u8]) -> Result<(u64, u64, u32, u64), Malformed> {
    let mut d = Decoder::new(fixed);
    d.skip(SIZE_AT)?;
    let (size, seq, count, _) = (d.u64()?, d.u64()?, d.u32()?, d.u32()?);
    Ok((size, seq, count, d.u64()?))
}

fn read(ctx: &mut Ctx<'_, '_>) -> Result<Header, Stop> {
    let fixed = ctx.read(0, FIXED_BYTES as u64)?;
    let (size, seq, count, names_len) = fixed_part(&fixed).map_err(|_| Errno::EINVAL)?;
    let snaps_len = u64::from(count) * SNAP_BYTES as u64;
    let whole = (FIXED_BYTES as u64).saturating_add(snaps_len).saturating_add(names_len);
    if whole > ctx.stat()?.size {
        return Err(Errno::EINVAL.into());
    }
    let rest = if whole > FIXED_BYTES as u64 {
        ctx.read(FIXED_BYTES as u64, whole - FIXED_BYTES as u64)?
    } else {
        Bytes::new()
    };
    let snaps = snaps_of(&rest, count).map_err(|_| Errno::EIO)?;
    Ok(Header { fixed, size, seq, snaps })
}

fn snaps_of(rest: &Bytes, count: u32) -> Result<Vec<Snap>, Malformed> {
    let mut d = Decoder::shared(rest);
    let places = (0..count).map(|_| Ok((d.u64()?, d.u64()?))).collect::<Result<Vec<_>, Malformed>>()?;
    let mut names = rest.slice(rest.len() - d.remaining()..);
    let mut snaps = Vec::with_capacity(places.len());
    for (id, size) in places {
        let end = names.iter().position(|&b| b == 0).ok_or(Malformed::new("old header", "lacks a name"))?;
        let name = names.split_to(end);
        let _zero = names.split_to(1);
        snaps.push(Snap { id, size, name });
    }
    Ok(snaps)
}

impl Header {
    fn write(&self, ctx: &mut Ctx<'_, '_>) -> Answer {
        let mut e = Encoder::new();
        e.raw(&self.fixed[..SIZE_AT]);
        e.u64(self.size);
        e.u64(self.seq);
        e.u32(self.snaps.len() as u32);
        e.raw(&self.fixed[SIZE_AT + 20..SIZE_AT + 24]);
        e.u64(self.snaps.iter().map(|snap| snap.name.len() as u64 + 1).sum());
        for snap in &self.snaps {
            e.u64(snap.id);
            e.u64(snap.size);
        }
        for snap in &self.snaps {
            e.raw(&snap.name);
            e.u8(0);
        }
        ctx.write_full(e.finish())?;
        done()
    }

    fn knows(&self, name: &[u8]) -> bool {
        self.snaps.iter().any(|snap| snap.name == name)
    }
}

/// A name as C reads it: up to the first zero.
fn c_text(name: &Bytes) -> Bytes {
    name.slice(..name.iter().position(|&b| b == 0).unwrap_or(name.len()))
}

/// How many snapshots a header of the old format has; none if it is of another.
pub(super) fn snap_count(ctx: &mut Ctx<'_, '_>) -> Result<Option<u64>, Stop> {
    Ok(read(ctx).unless(Errno::EINVAL)?.map(|header| header.snaps.len() as u64))
}

pub(super) fn list(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let header = read(ctx)?;
    let mut e = Encoder::new();
    e.u64(header.seq);
    e.len(header.snaps.len());
    for snap in &header.snaps {
        e.u64(snap.id);
        e.u64(snap.size);
        e.put(&snap.name);
    }
    Ok(e.finish())
}

pub(super) fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let mut header = read(ctx)?;
    let (name, id): (Bytes, u64) = input(given)?;
    let name = c_text(&name);
    if header.seq > id {
        return Err(Errno::ESTALE.into());
    }
    let limit = stored::<u64>(ctx, b"snap_limit")?.unwrap_or(u64::MAX);
    if header.snaps.len() as u64 >= limit {
        return Err(Errno::EDQUOT.into());
    }
    if header.knows(&name) {
        return Err(Errno::EEXIST.into());
    }
    header.seq = id;
    header.snaps.insert(0, Snap { id, size: header.size, name });
    header.write(ctx)
}

pub(super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let mut header = read(ctx)?;
    let name: Bytes = input(given)?;
    let name = c_text(&name);
    let at = header.snaps.iter().position(|snap| snap.name == name).ok_or(Errno::ENOENT)?;
    header.snaps.remove(at);
    header.write(ctx)
}

pub(super) fn rename(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let mut header = read(ctx)?;
    let (id, name): (u64, Bytes) = input(given)?;
    let name = c_text(&name);
    if header.knows(&name) {
        return Err(Errno::EEXIST.into());
    }
    let snap = header.snaps.iter_mut().find(|snap| snap.id == id).ok_or(Errno::ENOENT)?;
    snap.name = name;
    header.write(ctx)
}
