//! Mirroring of a pool: whether, how, with whom, which images, and what the mirrors say of them.

pub(super) mod images;
pub(super) mod instances;
pub(super) mod peers;
pub(super) mod snapshots;
pub(super) mod status;

use super::{Answer, Ctx, done, input, required, set as put, stored, unset};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::Encode;

const UUID: &[u8] = b"mirror_uuid";
const MODE: &[u8] = b"mirror_mode";

const DISABLED: u32 = 0;
/// Images that say so, or all of the pool.
const MODES: [u32; 2] = [1, 2];

/// Who the pool is among its mirrors; ENOENT if it has never been one.
fn own_uuid(ctx: &mut Ctx<'_, '_>) -> Result<Bytes, Stop> {
    Ok(ctx.value(UUID)?.ok_or(Errno::ENOENT)?)
}

pub(super) fn uuid(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(own_uuid(ctx)?.to_bytes())
}

pub(super) fn set_uuid(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let uuid: Bytes = input(given)?;
    if uuid.is_empty() || stored::<u32>(ctx, MODE)?.unwrap_or(DISABLED) != DISABLED {
        return Err(Errno::EINVAL.into());
    }
    ctx.set_value(UUID, uuid)?;
    done()
}

pub(super) fn mode(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(required::<u32>(ctx, MODE)?.to_bytes())
}

pub(super) fn set_mode(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let mode: u32 = input(given)?;
    if mode == DISABLED {
        if !peers::all(ctx)?.is_empty() {
            return Err(Errno::EBUSY.into());
        }
        unset(ctx, MODE)?;
        unset(ctx, UUID)?;
        return done();
    }
    if !MODES.contains(&mode) || ctx.value(UUID)?.is_none() {
        return Err(Errno::EINVAL.into());
    }
    put(ctx, MODE, &mode)?;
    done()
}

/// EINVAL if the pool is not mirrored.
fn require_mode(ctx: &mut Ctx<'_, '_>) -> Result<(), Stop> {
    match stored::<u32>(ctx, MODE)? {
        None | Some(DISABLED) => Err(Errno::EINVAL.into()),
        Some(_) => Ok(()),
    }
}
