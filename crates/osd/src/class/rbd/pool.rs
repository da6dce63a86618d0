//! What a pool has besides its directory: the trash, from where images can come back, and its namespaces.

use super::{Answer, Ctx, ListInput, as_map, done, input, is_valid_id, listed, parsed, required, set, stored};
use base::Errno;
use bytes::Bytes;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const TRASH_PREFIX: &[u8] = b"id_";
const NAMESPACE_PREFIX: &[u8] = b"name_";

/// An image in the trash (`TrashImageSpec`).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Trashed {
    /// Who put it there.
    source: u8,
    name: Bytes,
    at: UTime,
    /// Until when it is kept.
    until: UTime,
    state: u8,
}

impl Encode for Trashed {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.u8(self.source);
            e.put(&self.name);
            e.put(&self.at);
            e.put(&self.until);
            e.u8(self.state);
        });
    }
}

impl Decode for Trashed {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("TrashImageSpec", 2, |d, version| {
            Ok(Trashed {
                source: d.u8()?,
                name: d.get()?,
                at: d.get()?,
                until: d.get()?,
                state: if version >= 2 { d.u8()? } else { 0 },
            })
        })
    }
}

fn trash_key(id: &[u8]) -> Vec<u8> {
    [TRASH_PREFIX, id].concat()
}

pub(super) fn trash_add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    ctx.create(false)?;
    let (id, trashed): (Bytes, Trashed) = input(given)?;
    if !is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    if stored::<Trashed>(ctx, &trash_key(&id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    set(ctx, &trash_key(&id), &trashed)?;
    done()
}

pub(super) fn trash_remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    ctx.value(&trash_key(&id))?.ok_or(Errno::ENOENT)?;
    ctx.remove_value(&trash_key(&id))?;
    done()
}

pub(super) fn trash_list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    Ok(as_map(&listed(ctx, TRASH_PREFIX, &asked, parsed::<Trashed>)?))
}

pub(super) fn trash_show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    Ok(ctx.value(&trash_key(&id))?.ok_or(Errno::ENOENT)?)
}

pub(super) fn set_trash_state(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, (state, expected)): (Bytes, (u8, u8)) = input(given)?;
    let trashed: Trashed = required(ctx, &trash_key(&id))?;
    if trashed.state == expected {
        set(ctx, &trash_key(&id), &Trashed { state, ..trashed })?;
    } else if trashed.state != state {
        return Err(Errno::ESTALE.into());
    }
    done()
}

fn namespace_key(name: &[u8]) -> Vec<u8> {
    [NAMESPACE_PREFIX, name].concat()
}

pub(super) fn namespace_add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let name: Bytes = input(given)?;
    if ctx.value(&namespace_key(&name))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    ctx.set_value(&namespace_key(&name), Bytes::new())?;
    done()
}

pub(super) fn namespace_remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let name: Bytes = input(given)?;
    ctx.value(&namespace_key(&name))?.ok_or(Errno::ENOENT)?;
    ctx.remove_value(&namespace_key(&name))?;
    done()
}

pub(super) fn namespace_list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    let found = listed(ctx, NAMESPACE_PREFIX, &asked, |_| Ok(()))?;
    Ok(found.into_iter().map(|(name, ())| name).collect::<Vec<Bytes>>().to_bytes())
}
