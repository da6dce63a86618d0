//! `journal`: the metadata of a journal (RBD's journaling feature) in an object's map, and guarded appends to its data.
//!
//! Follows Ceph v16.2 `src/cls/journal/cls_journal.cc`. Here: creation and the sets of objects in use. A header's keys
//! are those of Ceph, because clients of another OSD may come back to it. Read next: `clients`, `tags`, `data`, `types`.

mod clients;
mod data;
mod tags;
mod types;

use super::{Answer, Ctx, Flags, Method, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("create", Flags::RD_WR, create),
    method("get_order", Flags::RD, |ctx, _| show::<u8>(ctx, ORDER)),
    method("get_splay_width", Flags::RD, |ctx, _| show::<u8>(ctx, SPLAY_WIDTH)),
    method("get_pool_id", Flags::RD, |ctx, _| show::<i64>(ctx, POOL_ID)),
    method("get_minimum_set", Flags::RD, |ctx, _| show::<u64>(ctx, MINIMUM_SET)),
    method("set_minimum_set", Flags::RD_WR, set_minimum_set),
    method("get_active_set", Flags::RD, |ctx, _| show::<u64>(ctx, ACTIVE_SET)),
    method("set_active_set", Flags::RD_WR, set_active_set),
    method("get_client", Flags::RD, clients::show),
    method("client_register", Flags::RD_WR, clients::register),
    method("client_update_data", Flags::RD_WR, clients::update_data),
    method("client_update_state", Flags::RD_WR, clients::update_state),
    method("client_unregister", Flags::RD_WR, clients::unregister),
    method("client_commit", Flags::RD_WR, clients::commit),
    method("client_list", Flags::RD, clients::list),
    method("get_next_tag_tid", Flags::RD, |ctx, _| show::<u64>(ctx, NEXT_TAG)),
    method("get_tag", Flags::RD, tags::show),
    method("tag_create", Flags::RD_WR, tags::create),
    method("tag_list", Flags::RD, tags::list),
    method("guard_append", Flags::RD_WR, data::guard),
    method("append", Flags::RD_WR, data::append),
];

const ORDER: &[u8] = b"order";
const SPLAY_WIDTH: &[u8] = b"splay_width";
const POOL_ID: &[u8] = b"pool_id";
const MINIMUM_SET: &[u8] = b"minimum_set";
const ACTIVE_SET: &[u8] = b"active_set";
const NEXT_TAG: &[u8] = b"next_tag_tid";
const NEXT_TAG_CLASS: &[u8] = b"next_tag_class";

/// How many entries one look into the map takes.
const PAGE_ENTRIES: u64 = 64;

/// The value of a key; ENOENT if it has none, EINVAL if it does not follow its format.
fn read<T: Decode>(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Result<T, Stop> {
    let value = ctx.value(key)?.ok_or(Errno::ENOENT)?;
    Decoder::shared(&value).get().map_err(|_| Errno::EINVAL.into())
}

fn show<T: Decode + Encode>(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Answer {
    Ok(read::<T>(ctx, key)?.to_bytes())
}

struct CreateInput {
    order: u8,
    splay_width: u8,
    pool_id: i64,
}

impl Decode for CreateInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(CreateInput { order: d.u8()?, splay_width: d.u8()?, pool_id: d.i64()? })
    }
}

fn create(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let CreateInput { order, splay_width, pool_id } = input(given)?;
    if ctx.value(ORDER)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    ctx.set_value(ORDER, order.to_bytes())?;
    ctx.set_value(SPLAY_WIDTH, splay_width.to_bytes())?;
    ctx.set_value(POOL_ID, pool_id.to_bytes())?;
    for key in [ACTIVE_SET, MINIMUM_SET, NEXT_TAG, NEXT_TAG_CLASS] {
        ctx.set_value(key, 0u64.to_bytes())?;
    }
    done()
}

fn set_minimum_set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let set: u64 = input(given)?;
    if read::<u64>(ctx, ACTIVE_SET)? < set {
        return Err(Errno::EINVAL.into());
    }
    raise(ctx, MINIMUM_SET, set)
}

fn set_active_set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let set: u64 = input(given)?;
    if read::<u64>(ctx, MINIMUM_SET)? > set {
        return Err(Errno::EINVAL.into());
    }
    raise(ctx, ACTIVE_SET, set)
}

/// Sets only grow: ESTALE for one that is behind.
fn raise(ctx: &mut Ctx<'_, '_>, key: &[u8], set: u64) -> Answer {
    let current: u64 = read(ctx, key)?;
    if set < current {
        return Err(Errno::ESTALE.into());
    }
    if set > current {
        ctx.set_value(key, set.to_bytes())?;
    }
    done()
}
