//! A journal's clients: who replays it, and how far each has come.

use super::super::{Answer, Ctx, done, input};
use super::types::{Client, DISCONNECTED, Position};
use super::{ORDER, SPLAY_WIDTH, read, tags};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::{Decode, Decoder, Encode, Malformed};

pub(super) const PREFIX: &[u8] = b"client_";
/// How many clients one look takes (`JOURNAL_MAX_RETURN`).
const PAGE_CLIENTS: u64 = 256;

pub(super) fn key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

/// Clients by id, after `start_after`.
fn page(ctx: &mut Ctx<'_, '_>, start_after: &[u8], max: u64) -> Result<BTreeMap<Bytes, Client>, Stop> {
    let after = if start_after.is_empty() { Vec::new() } else { key(start_after) };
    let entries = ctx.values(&after.into(), PREFIX, max)?.entries;
    let read = |value: &Bytes| Decoder::shared(value).get().map_err(|_| Errno::EIO.into());
    entries.iter().map(|(_, value)| read(value).map(|client: Client| (client.id.clone(), client))).collect()
}

/// From where a new client has to begin: where the client that is furthest behind is.
fn furthest_behind(ctx: &mut Ctx<'_, '_>) -> Result<Position, Stop> {
    let (mut behind, mut least, mut after) = (Position::default(), None, Bytes::new());
    loop {
        let batch = page(ctx, &after, PAGE_CLIENTS)?;
        let Some(last) = batch.keys().next_back().cloned() else { return Ok(behind) };
        for client in batch.values().filter(|client| client.state != DISCONNECTED) {
            let Some(first) = client.position.0.first() else {
                behind = Position::default();
                break;
            };
            let here = (first.tag, first.entry);
            if least.is_none_or(|least| here < least) {
                least = Some(here);
                behind = client.position.clone();
            }
        }
        // A client that names itself otherwise than its key does must not lead in circles.
        if (batch.len() as u64) < PAGE_CLIENTS || last <= after {
            return Ok(behind);
        }
        after = last;
    }
}

pub(super) fn show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    Ok(read::<Client>(ctx, &key(&id))?.to_bytes())
}

pub(super) fn register(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, data): (Bytes, Bytes) = input(given)?;
    read::<u8>(ctx, ORDER)?;
    if ctx.value(&key(&id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let position = furthest_behind(ctx)?;
    let client = Client { id: id.clone(), data, position, state: 0 };
    ctx.set_value(&key(&id), client.to_bytes())?;
    done()
}

fn change(ctx: &mut Ctx<'_, '_>, id: &[u8], apply: impl FnOnce(&mut Client)) -> Answer {
    let mut client: Client = read(ctx, &key(id))?;
    apply(&mut client);
    ctx.set_value(&key(id), client.to_bytes())?;
    done()
}

pub(super) fn update_data(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, data): (Bytes, Bytes) = input(given)?;
    change(ctx, &id, |client| client.data = data)
}

pub(super) fn update_state(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, state): (Bytes, u8) = input(given)?;
    change(ctx, &id, |client| client.state = state)
}

pub(super) fn unregister(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    ctx.value(&key(&id))?.ok_or(Errno::ENOENT)?;
    ctx.remove_value(&key(&id))?;
    tags::expire(ctx, Some(&id))?;
    done()
}

pub(super) fn commit(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, position): (Bytes, Position) = input(given)?;
    let splay_width: u8 = read(ctx, SPLAY_WIDTH)?;
    if position.0.len() > usize::from(splay_width) {
        return Err(Errno::EINVAL.into());
    }
    let mut client: Client = read(ctx, &key(&id))?;
    if client.position != position {
        client.position = position;
        ctx.set_value(&key(&id), client.to_bytes())?;
    }
    done()
}

struct ListInput {
    start_after: Bytes,
    max: u64,
}

impl Decode for ListInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(ListInput { start_after: d.get()?, max: d.u64()? })
    }
}

pub(super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let ListInput { start_after, max } = input(given)?;
    let clients: Vec<Client> = page(ctx, &start_after, max)?.into_values().collect();
    Ok(clients.to_bytes())
}
