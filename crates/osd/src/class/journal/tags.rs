//! A journal's tags: each says who wrote the entries that follow it, in classes that are pruned one by one.

use super::super::{Answer, Ctx, done, input};
use super::types::{Client, DISCONNECTED, Tag};
use super::{NEXT_TAG, NEXT_TAG_CLASS, PAGE_ENTRIES, clients, read};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::{Decode, Decoder, Encode, Malformed};

const PREFIX: &[u8] = b"tag_";
/// Asks for a class that no tag has (`Tag::TAG_CLASS_NEW`).
const NEW_CLASS: u64 = u64::MAX;

fn key(id: u64) -> Vec<u8> {
    format!("tag_{id:016x}").into_bytes()
}

/// Calls `visit` for every tag with its key, in order of their ids, until it says no.
fn visit(
    ctx: &mut Ctx<'_, '_>,
    mut visit: impl FnMut(&mut Ctx<'_, '_>, Bytes, Tag) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    let mut after = Bytes::from_static(PREFIX);
    loop {
        let page = ctx.values(&after, PREFIX, PAGE_ENTRIES)?;
        let Some((last, _)) = page.entries.last() else { return Ok(()) };
        after = last.clone();
        for (key, value) in page.entries {
            let tag: Tag = Decoder::shared(&value).get().map_err(|_| Errno::EIO)?;
            if !visit(ctx, key, tag)? {
                return Ok(());
            }
        }
        if !page.more {
            return Ok(());
        }
    }
}

/// The oldest tag that a client still needs; none if nothing may be pruned.
fn oldest_needed(ctx: &mut Ctx<'_, '_>, without: Option<&[u8]>) -> Result<Option<u64>, Stop> {
    let without = without.map(clients::key);
    let (mut oldest, mut after) = (None, Bytes::new());
    loop {
        let page = ctx.values(&after, clients::PREFIX, PAGE_ENTRIES)?;
        for (key, value) in page.entries {
            after = key;
            if without.as_ref().is_some_and(|without| *without == after) {
                continue;
            }
            let client: Client = Decoder::shared(&value).get().map_err(|_| Errno::EIO)?;
            if client.state == DISCONNECTED {
                continue;
            }
            // A client that has committed nothing may need everything.
            let Some(tag) = client.position.oldest_tag() else { return Ok(None) };
            oldest = Some(oldest.map_or(tag, |oldest: u64| oldest.min(tag)));
        }
        if !page.more {
            return Ok(oldest);
        }
    }
}

/// The newest tag of each class up to and with the first that is not older than `oldest`: what is older in its class
/// is needed by nobody.
fn class_minimums(ctx: &mut Ctx<'_, '_>, oldest: u64) -> Result<BTreeMap<u64, u64>, Stop> {
    let mut minimums = BTreeMap::new();
    visit(ctx, |_, key_of_tag, tag| {
        if key(tag.id) != key_of_tag {
            return Err(Errno::EINVAL.into());
        }
        minimums.insert(tag.class, tag.id);
        Ok(tag.id < oldest)
    })?;
    Ok(minimums)
}

/// Removes the tags that no client needs; `without` is a client that leaves.
pub(super) fn expire(ctx: &mut Ctx<'_, '_>, without: Option<&[u8]>) -> Result<(), Stop> {
    let Some(oldest) = oldest_needed(ctx, without)? else { return Ok(()) };
    let minimums = class_minimums(ctx, oldest)?;
    visit(ctx, |ctx, key, tag| {
        if minimums.get(&tag.class).is_some_and(|&minimum| tag.id < minimum) {
            ctx.remove_value(&key)?;
        }
        Ok(tag.id < oldest)
    })
}

pub(super) fn show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: u64 = input(given)?;
    Ok(read::<Tag>(ctx, &key(id))?.to_bytes())
}

struct CreateInput {
    id: u64,
    class: u64,
    data: Bytes,
}

impl Decode for CreateInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(CreateInput { id: d.u64()?, class: d.u64()?, data: d.get()? })
    }
}

pub(super) fn create(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let CreateInput { id, mut class, data } = input(given)?;
    if ctx.value(&key(id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    if read::<u64>(ctx, NEXT_TAG)? != id {
        return Err(Errno::ESTALE.into());
    }
    let next_class: u64 = read(ctx, NEXT_TAG_CLASS)?;
    if class == NEW_CLASS {
        class = next_class;
        ctx.set_value(NEXT_TAG_CLASS, class.wrapping_add(1).to_bytes())?;
    } else if class >= next_class {
        return Err(Errno::EINVAL.into());
    }
    expire(ctx, None)?;
    ctx.set_value(NEXT_TAG, id.wrapping_add(1).to_bytes())?;
    ctx.set_value(&key(id), Tag { id, class, data }.to_bytes())?;
    done()
}

struct ListInput {
    start_after: u64,
    max: u64,
    client: Bytes,
    class: Option<u64>,
}

impl Decode for ListInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(ListInput { start_after: d.u64()?, max: d.u64()?, client: d.get()?, class: d.get()? })
    }
}

pub(super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let ListInput { start_after, max, client, class } = input(given)?;
    let client: Client = read(ctx, &clients::key(&client))?;
    let minimums = match client.position.oldest_tag() {
        Some(oldest) => listed_minimums(ctx, oldest)?,
        None => BTreeMap::new(),
    };
    let mut tags: Vec<Tag> = Vec::new();
    visit(ctx, |_, _, tag| {
        let new = start_after == 0 || tag.id > start_after;
        let needed = tag.id >= minimums.get(&tag.class).copied().unwrap_or(0);
        if new {
            if needed && class.is_none_or(|class| class == tag.class) {
                tags.push(tag);
            }
            // Ceph looks only after it has added one.
            return Ok((tags.len() as u64) < max);
        }
        Ok(true)
    })?;
    Ok(tags.to_bytes())
}

/// As `class_minimums`, for a list: keys are not checked.
fn listed_minimums(ctx: &mut Ctx<'_, '_>, oldest: u64) -> Result<BTreeMap<u64, u64>, Stop> {
    let mut minimums = BTreeMap::new();
    visit(ctx, |_, _, tag| {
        minimums.insert(tag.class, tag.id);
        Ok(tag.id < oldest)
    })?;
    Ok(minimums)
}
