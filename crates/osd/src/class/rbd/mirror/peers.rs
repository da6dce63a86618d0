//! With whom a pool is mirrored.

use super::super::{Answer, Ctx, done, input, parsed, required, set as put, unset, visit};
use super::{own_uuid, require_mode};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::types::{UTime, Uuid};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const PREFIX: &[u8] = b"mirror_peer_";

/// We get from it.
pub(super) const RECEIVES: u8 = 0;
/// It gets from us.
pub(super) const SENDS: u8 = 1;
pub(super) const BOTH: u8 = 2;

/// `MirrorPeer`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Peer {
    uuid: Bytes,
    site: Bytes,
    client: Bytes,
    pub(super) direction: u8,
    pub(super) mirror_uuid: Bytes,
    last_seen: UTime,
}

impl Encode for Peer {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            [&self.uuid, &self.site, &self.client].into_iter().for_each(|text| e.put(text));
            // Once a pool's id.
            e.i64(-1);
            e.u8(self.direction);
            e.put(&self.mirror_uuid);
            e.put(&self.last_seen);
        });
    }
}

impl Decode for Peer {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("MirrorPeer", 2, |d, version| {
            let (uuid, site, client) = (d.get()?, d.get()?, d.get()?);
            let _pool = d.i64()?;
            let mut peer = Peer { uuid, site, client, direction: BOTH, ..Peer::default() };
            if version >= 2 {
                (peer.direction, peer.mirror_uuid, peer.last_seen) = (d.u8()?, d.get()?, d.get()?);
            }
            Ok(peer)
        })
    }
}

impl Peer {
    fn is_valid(&self) -> bool {
        let reachable = match self.direction {
            SENDS => true,
            RECEIVES | BOTH => !self.client.is_empty(),
            _ => false,
        };
        reachable && !self.uuid.is_empty() && !self.site.is_empty()
    }
}

fn key(uuid: &[u8]) -> Vec<u8> {
    [PREFIX, uuid].concat()
}

/// All peers.
pub(super) fn all(ctx: &mut Ctx<'_, '_>) -> Result<Vec<Peer>, Stop> {
    let mut peers = Vec::new();
    visit(ctx, PREFIX, b"", |_, _, value| {
        peers.push(parsed(&value)?);
        Ok(true)
    })?;
    Ok(peers)
}

fn write(ctx: &mut Ctx<'_, '_>, peer: &Peer) -> Answer {
    put(ctx, &key(&peer.uuid), peer)?;
    done()
}

pub(in super::super) fn list(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(all(ctx)?.to_bytes())
}

pub(in super::super) fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let peer: Peer = input(given)?;
    require_mode(ctx)?;
    if !peer.is_valid() || peer.uuid == own_uuid(ctx)? || peer.direction == SENDS {
        return Err(Errno::EINVAL.into());
    }
    for other in all(ctx)? {
        if other.uuid == peer.uuid {
            return Err(Errno::ESTALE.into());
        }
        if other.site == peer.site || !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid {
            return Err(Errno::EEXIST.into());
        }
    }
    write(ctx, &peer)
}

pub(in super::super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let uuid: Bytes = input(given)?;
    unset(ctx, &key(&uuid))?;
    done()
}

pub(in super::super) fn set_client(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (uuid, client): (Bytes, Bytes) = input(given)?;
    let peer: Peer = required(ctx, &key(&uuid))?;
    write(ctx, &Peer { client, ..peer })
}

pub(in super::super) fn set_site(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (uuid, site): (Bytes, Bytes) = input(given)?;
    let peers = all(ctx)?;
    if peers.iter().any(|peer| peer.uuid != uuid && peer.site == site) {
        return Err(Errno::EEXIST.into());
    }
    let peer = peers.into_iter().find(|peer| peer.uuid == uuid).ok_or(Errno::ENOENT)?;
    write(ctx, &Peer { site, ..peer })
}

pub(in super::super) fn set_direction(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (uuid, direction): (Bytes, u8) = input(given)?;
    let peer: Peer = required(ctx, &key(&uuid))?;
    write(ctx, &Peer { direction, ..peer })
}

struct PingInput {
    site: Bytes,
    mirror_uuid: Bytes,
    direction: u8,
}

impl Decode for PingInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(PingInput { site: d.get()?, mirror_uuid: d.get()?, direction: d.u8()? })
    }
}

/// Somebody mirrors this pool: known from now on, if not before.
pub(in super::super) fn ping(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let PingInput { site, mirror_uuid, direction } = input(given)?;
    if direction != SENDS {
        return Err(Errno::EINVAL.into());
    }
    require_mode(ctx)?;
    if site.is_empty() || mirror_uuid.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let peers = all(ctx)?;
    let by_site = peers.iter().find(|peer| peer.site == site);
    let site_fits = by_site.is_some_and(|peer| peer.mirror_uuid.is_empty() || peer.mirror_uuid == mirror_uuid);
    let by_uuid = if site_fits { None } else { peers.iter().find(|peer| peer.mirror_uuid == mirror_uuid) };
    let mut peer = match (by_site, by_uuid) {
        // Two peers: the other's name stays as it is.
        (Some(_), Some(peer)) => peer.clone(),
        (None, Some(peer)) => Peer { site, ..peer.clone() },
        (Some(peer), None) => Peer { mirror_uuid, ..peer.clone() },
        (None, None) => {
            let uuid = Uuid::from_random(ctx.random_bytes()).to_string().into();
            Peer { uuid, direction: SENDS, site, mirror_uuid, ..Peer::default() }
        }
    };
    if peer.direction == RECEIVES {
        peer.direction = BOTH;
    }
    peer.last_seen = ctx.now();
    if !peer.is_valid() {
        return Err(Errno::EINVAL.into());
    }
    write(ctx, &peer)
}
