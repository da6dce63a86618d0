//! Which of an image's objects exist: two bits each, in the data of an object of its own.

use super::bit_vector::{
    BLOCK_BYTES, BitVector, CHECKSUMS_AT, HEADER_BYTES, byte_of, checksum, data_bytes, element, header_len, set_element,
};
use super::{Answer, Ctx, Unless, done, input};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Malformed};

/// The object is there (OBJECT_EXISTS).
const EXISTS: u8 = 1;
/// It is there, and was not changed since the last snapshot (OBJECT_EXISTS_CLEAN).
const EXISTS_CLEAN: u8 = 3;

/// The most objects that a map is made for (`MAX_OBJECT_MAP_OBJECT_COUNT`).
const OBJECTS_MAX: u64 = 256_000_000;

/// The whole map; ENOENT if there is none.
fn read(ctx: &mut Ctx<'_, '_>) -> Result<BitVector, Stop> {
    let size = ctx.stat()?.size;
    if size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let data = ctx.read(0, size)?;
    Decoder::shared(&data).get().map_err(|_| Errno::EINVAL.into())
}

pub(super) fn load(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(read(ctx)?.encoded(false))
}

pub(super) fn save(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let map: BitVector = input(given)?;
    ctx.write_full(map.encoded(true))?;
    done()
}

pub(super) fn resize(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (count, state): (u64, u8) = input(given)?;
    if count > OBJECTS_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut map = read(ctx).unless(Errno::ENOENT)?.unwrap_or_default();
    let before = map.len();
    // What is cut off must not be in use.
    if (count..before).any(|at| map.get(at) != state) {
        return Err(Errno::ESTALE.into());
    }
    map.resize(count);
    (before..count).for_each(|at| map.set(at, state));
    ctx.write_full(map.encoded(true))?;
    done()
}

struct UpdateInput {
    start: u64,
    end: u64,
    state: u8,
    only: Option<u8>,
}

impl Decode for UpdateInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(UpdateInput { start: d.u64()?, end: d.u64()?, state: d.u8()?, only: d.get()? })
    }
}

impl UpdateInput {
    fn changes(&self, state: u8) -> bool {
        let meant = match self.only {
            None => true,
            Some(only) => only == state || only == EXISTS && state == EXISTS_CLEAN,
        };
        meant && state != self.state
    }
}

/// Changes the states of a range, reading and writing only the blocks in which it lies.
pub(super) fn update(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: UpdateInput = input(given)?;
    ctx.stat()?;
    let header = ctx.read(0, HEADER_BYTES)?;
    let len = header_len(&header).map_err(|_| Errno::EINVAL)?;
    if asked.start >= asked.end || asked.end > len {
        return Err(Errno::ERANGE.into());
    }
    let first_block = byte_of(asked.start) / BLOCK_BYTES;
    let end_block = byte_of(asked.end - 1) / BLOCK_BYTES + 1;
    let blocks = end_block - first_block;
    let first_byte = first_block * BLOCK_BYTES;
    let bytes = (end_block * BLOCK_BYTES).min(data_bytes(len)) - first_byte;
    let sums_at = HEADER_BYTES + data_bytes(len) + CHECKSUMS_AT + first_block * 4;
    let sums = ctx.read(sums_at, blocks * 4)?;
    let stored = ctx.read(HEADER_BYTES + first_byte, bytes)?;
    let actual = checksums(&stored);
    if stored.len() as u64 != bytes || actual != sums {
        return Err(Errno::EINVAL.into());
    }
    let mut data = stored.to_vec();
    // Element numbers count from the first block on.
    let base = first_byte * 4;
    let mut changed = false;
    for at in asked.start - base..asked.end - base {
        if asked.changes(element(&data, at)) {
            set_element(&mut data, at, asked.state);
            changed = true;
        }
    }
    if changed {
        let sums = checksums(&data);
        ctx.write(HEADER_BYTES + first_byte, data.into())?;
        ctx.write(sums_at, sums.into())?;
    }
    done()
}

fn checksums(data: &[u8]) -> Vec<u8> {
    data.chunks(BLOCK_BYTES as usize).flat_map(|block| checksum(block).to_le_bytes()).collect()
}

/// After a snapshot: what exists is unchanged since.
pub(super) fn add_snapshot(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let mut map = read(ctx)?;
    let mut changed = false;
    for at in 0..map.len() {
        if map.get(at) == EXISTS {
            map.set(at, EXISTS_CLEAN);
            changed = true;
        }
    }
    if changed {
        ctx.write_full(map.encoded(true))?;
    }
    done()
}

/// A snapshot goes: what was changed before it counts as changed since the one before.
pub(super) fn remove_snapshot(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let gone: BitVector = input(given)?;
    let mut map = read(ctx)?;
    let mut changed = false;
    for at in 0..map.len() {
        if map.get(at) == EXISTS_CLEAN && (at >= gone.len() || gone.get(at) == EXISTS) {
            map.set(at, EXISTS);
            changed = true;
        }
    }
    if changed {
        ctx.write_full(map.encoded(true))?;
    }
    done()
}
