//! Names and ids: a pool's directory of images or of groups, which finds one by the other, and the object that holds
//! an image's id.

use super::{Answer, Ctx, ListInput, as_map, done, input, is_valid_id, listed, parsed, required, set};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::{Decode, Decoder, Encode, Malformed};

const NAME_PREFIX: &[u8] = b"name_";
const ID_PREFIX: &[u8] = b"id_";

fn name_key(name: &[u8]) -> Bytes {
    [NAME_PREFIX, name].concat().into()
}

fn id_key(id: &[u8]) -> Bytes {
    [ID_PREFIX, id].concat().into()
}

pub(super) fn id(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let size = ctx.stat()?.size;
    if size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let data = ctx.read(0, size)?;
    Ok(parsed::<Bytes>(&data)?.to_bytes())
}

pub(super) fn set_id(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let size = ctx.stat()?.size;
    let id: Bytes = input(given)?;
    if !is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    if size != 0 {
        return Err(Errno::EEXIST.into());
    }
    ctx.write(0, id.to_bytes())?;
    done()
}

pub(super) fn id_of(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let name: Bytes = input(given)?;
    Ok(required::<Bytes>(ctx, &name_key(&name))?.to_bytes())
}

pub(super) fn name_of(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    Ok(required::<Bytes>(ctx, &id_key(&id))?.to_bytes())
}

pub(super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    Ok(as_map(&listed(ctx, NAME_PREFIX, &asked, parsed::<Bytes>)?))
}

pub(super) fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    ctx.create(false)?;
    let (name, id): (Bytes, Bytes) = input(given)?;
    enter(ctx, &name, &id, true)
}

/// Enters a name with its id. A rename has just taken the id out, but does not see that yet.
fn enter(ctx: &mut Ctx<'_, '_>, name: &Bytes, id: &Bytes, id_is_new: bool) -> Answer {
    if name.is_empty() || !is_valid_id(id) {
        return Err(Errno::EINVAL.into());
    }
    if ctx.value(&name_key(name))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if ctx.value(&id_key(id))?.is_some() && id_is_new {
        return Err(Errno::EBADF.into());
    }
    let values: BTreeMap<Bytes, Bytes> = [(name_key(name), id.to_bytes()), (id_key(id), name.to_bytes())].into();
    ctx.set_values(values)?;
    done()
}

pub(super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (name, id): (Bytes, Bytes) = input(given)?;
    take_out(ctx, &name, &id)?;
    done()
}

/// Takes a name and its id out; ESTALE if they do not belong together any more.
fn take_out(ctx: &mut Ctx<'_, '_>, name: &Bytes, id: &Bytes) -> Result<(), Stop> {
    let held_id: Bytes = required(ctx, &name_key(name))?;
    let held_name: Bytes = required(ctx, &id_key(id))?;
    if held_id != *id || held_name != *name {
        return Err(Errno::ESTALE.into());
    }
    ctx.remove_value(&name_key(name))?;
    ctx.remove_value(&id_key(id))
}

pub(super) fn rename(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct RenameInput {
        from: Bytes,
        to: Bytes,
        id: Bytes,
    }
    impl Decode for RenameInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            Ok(RenameInput { from: d.get()?, to: d.get()?, id: d.get()? })
        }
    }
    let RenameInput { from, to, id } = input(given)?;
    take_out(ctx, &from, &id)?;
    enter(ctx, &to, &id, false)
}

/// Images may be added.
const READY: u8 = 0;
/// None may be added any more: the pool is about to be given up.
const ADD_DISABLED: u8 = 1;

pub(super) fn assert_state(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let state: u8 = input(given)?;
    if required::<u8>(ctx, b"state")? == state { done() } else { Err(Errno::ENOENT.into()) }
}

pub(super) fn set_state(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let state: u8 = input(given)?;
    match state {
        READY => {}
        ADD_DISABLED => {
            ctx.stat()?;
            if !ctx.values(&NAME_PREFIX.into(), NAME_PREFIX, 1)?.entries.is_empty() {
                return Err(Errno::EBUSY.into());
            }
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    set(ctx, b"state", &state)?;
    done()
}
