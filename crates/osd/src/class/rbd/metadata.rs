//! Names and values that users and librbd keep with an image.

use super::{Answer, Ctx, ListInput, as_map, done, input, listed};
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::Encode;

const PREFIX: &[u8] = b"metadata_";
/// How many a listing gives that does not say how many it wants.
const DEFAULT_ENTRIES: u64 = 64;

fn key(name: &[u8]) -> Bytes {
    [PREFIX, name].concat().into()
}

pub(super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let mut asked: ListInput = input(given)?;
    if asked.max == 0 {
        asked.max = DEFAULT_ENTRIES;
    }
    Ok(as_map(&listed(ctx, PREFIX, &asked, |value| Ok(value.clone()))?))
}

pub(super) fn set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let values: BTreeMap<Bytes, Bytes> = input(given)?;
    ctx.set_values(values.into_iter().map(|(name, value)| (key(&name), value)).collect())?;
    done()
}

pub(super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let name: Bytes = input(given)?;
    ctx.remove_value(&key(&name))?;
    done()
}

pub(super) fn show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let name: Bytes = input(given)?;
    Ok(ctx.value(&key(&name))?.ok_or(Errno::ENOENT)?.to_bytes())
}
