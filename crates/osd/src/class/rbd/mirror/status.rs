//! What mirrors say of the images that they mirror, each for its own site. A status counts as up as long as the client
//! that has said it watches the object.
//!
//! Follows Ceph v16.2 `src/cls/rbd/cls_rbd_types.cc` (`MirrorImageSiteStatus`, `MirrorImageStatus`). The own site's status
//! is under `status_global_`, the others' under `remote_status_global_`, with the image's global id.

use super::super::{Answer, Ctx, ListInput, as_map, done, input, parsed, required, set as put, stored, unset, visit};
use super::images::{self, Image};
use super::peers::{BOTH, Peer, RECEIVES, SENDS};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::types::{AddrKind, EntityAddr, EntityName, UTime};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const PREFIX: &[u8] = b"status_global_";
const REMOTE_PREFIX: &[u8] = b"remote_status_global_";

const UNKNOWN: u8 = 0;
const ERROR: u8 = 1;

/// A client as it says so itself (`entity_inst_t`).
pub(super) type Inst = (EntityName, EntityAddr);

/// Encodes a client.
pub(super) fn put_inst(e: &mut Encoder, (name, addr): &Inst) {
    e.put(name);
    e.put(addr);
}

/// What one site says (`MirrorImageSiteStatus`); the own site's name is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Status {
    site: Bytes,
    state: u8,
    description: Bytes,
    at: UTime,
    up: bool,
}

impl Status {
    fn put_rest(&self, e: &mut Encoder) {
        e.u8(self.state);
        e.put(&self.description);
        e.put(&self.at);
        e.bool(self.up);
    }
}

impl Decode for Status {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("MirrorImageSiteStatus", 2, |d, version| {
            let site = if version >= 2 { d.get()? } else { Bytes::new() };
            Ok(Status { site, state: d.u8()?, description: d.get()?, at: d.get()?, up: d.bool()? })
        })
    }
}

/// The same as it is kept: who said it, and what (`MirrorImageSiteStatusOnDisk`).
struct Kept {
    origin: Inst,
    status: Status,
}

impl Encode for Kept {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| put_inst(e, &self.origin));
        e.versioned(1, 1, |e| self.status.put_rest(e));
    }
}

impl Decode for Kept {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let origin = d.versioned("MirrorImageSiteStatusOnDisk", 1, |d, _| {
            let (name, addr): Inst = d.get()?;
            Ok((name, EntityAddr { kind: AddrKind::Any, ..addr }))
        })?;
        Ok(Kept { origin, status: d.get()? })
    }
}

fn key(global_id: &[u8], site: &[u8]) -> Vec<u8> {
    if site.is_empty() { [PREFIX, global_id].concat() } else { [REMOTE_PREFIX, global_id, b"_", site].concat() }
}

/// All that sites say of an image, the own first (`MirrorImageStatus`).
struct AllStatus(Vec<Status>);

impl AllStatus {
    fn own(&self) -> Option<&Status> {
        self.0.first().filter(|status| status.site.is_empty())
    }

    fn remote(&self) -> &[Status] {
        &self.0[usize::from(self.own().is_some())..]
    }

    /// The image's state in one word, for a pool with these peers.
    fn summary(&self, direction: u8, sites: &BTreeSet<Bytes>) -> u8 {
        let mut state = None;
        if direction != SENDS {
            state = self.own().filter(|own| own.up).map(|own| own.state);
        }
        let mut missing = 0;
        if direction != RECEIVES {
            missing = sites.len();
            for status in self.remote() {
                missing -= usize::from(missing > 0 && sites.contains(&status.site));
                let here = if status.up { status.state } else { UNKNOWN };
                state = Some(match state {
                    _ if status.state == ERROR => ERROR,
                    None => here,
                    Some(ERROR) => ERROR,
                    Some(state) => state.min(here),
                });
            }
        }
        if missing > 0 { UNKNOWN } else { state.unwrap_or(UNKNOWN) }
    }
}

impl Encode for AllStatus {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            self.own().unwrap_or(&Status::default()).put_rest(e);
            e.bool(self.own().is_some());
            e.len(self.remote().len());
            for status in self.remote() {
                e.put(&status.site);
                status.put_rest(e);
            }
        });
    }
}

/// What sites say of an image; empty if nobody says anything.
fn of_image(ctx: &mut Ctx<'_, '_>, global_id: &Bytes, watchers: &BTreeSet<Inst>) -> Result<AllStatus, Stop> {
    let mut all = Vec::new();
    let mut take = |site: Bytes, kept: Kept| {
        all.push(Status { site, up: watchers.contains(&kept.origin), ..kept.status });
    };
    if let Some(own) = stored::<Kept>(ctx, &key(global_id, b""))? {
        take(Bytes::new(), own);
    }
    let begin = [&global_id[..], b"_"].concat();
    visit(ctx, REMOTE_PREFIX, &begin, |_, name, value| {
        let ours = name.starts_with(&begin);
        if ours {
            take(name.slice(begin.len()..), parsed(&value)?);
        }
        Ok(ours)
    })?;
    Ok(AllStatus(all))
}

/// Notes what a site says; nothing if the image is not mirrored (any more).
pub(in super::super) fn set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (global_id, status): (Bytes, Status) = input(given)?;
    let Some(image) = stored::<Bytes>(ctx, &images::global_key(&global_id))? else { return done() };
    let Some(image) = stored::<Image>(ctx, &images::key(&image))? else { return done() };
    if !image.is_enabled() {
        return done();
    }
    let caller = ctx.caller();
    let origin = (caller.name, EntityAddr { kind: AddrKind::Any, ..caller.addr });
    let site = status.site.clone();
    let status = Status { site: Bytes::new(), up: false, at: ctx.now(), ..status };
    put(ctx, &key(&global_id, &site), &Kept { origin, status })?;
    done()
}

pub(in super::super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let global_id: Bytes = input(given)?;
    remove_all(ctx, &global_id)?;
    done()
}

/// Forgets what sites said of an image.
pub(super) fn remove_all(ctx: &mut Ctx<'_, '_>, global_id: &Bytes) -> Result<(), Stop> {
    unset(ctx, &key(global_id, b""))?;
    let begin = [&global_id[..], b"_"].concat();
    visit(ctx, REMOTE_PREFIX, &begin, |ctx, name, _| {
        let ours = name.starts_with(&begin);
        if ours {
            unset(ctx, &[REMOTE_PREFIX, &name[..]].concat())?;
        }
        Ok(ours)
    })
}

/// Forgets what was said by those who are gone.
pub(in super::super) fn remove_down(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let watchers = ctx.watchers();
    for prefix in [PREFIX, REMOTE_PREFIX] {
        visit(ctx, prefix, b"", |ctx, name, value| {
            let kept: Kept = parsed(&value)?;
            if !watchers.contains(&kept.origin) {
                ctx.remove_value(&[prefix, &name[..]].concat())?;
            }
            Ok(true)
        })?;
    }
    done()
}

pub(in super::super) fn show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let global_id: Bytes = input(given)?;
    let watchers = ctx.watchers();
    let all = of_image(ctx, &global_id, &watchers)?;
    if all.0.is_empty() { Err(Errno::ENOENT.into()) } else { Ok(all.to_bytes()) }
}

pub(in super::super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    let watchers = ctx.watchers();
    let found = images::listed(ctx, &asked)?;
    ctx.expect_lookups(2 * found.len())?;
    let mut statuses = Vec::new();
    for (id, image) in &found {
        let all = of_image(ctx, &image.global_id, &watchers)?;
        if !all.0.is_empty() {
            statuses.push((id.clone(), all));
        }
    }
    Ok([as_map(&found), as_map(&statuses)].concat().into())
}

pub(in super::super) fn summary(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    // Older clients name no peers.
    let peers: Vec<Peer> = if given.is_empty() { Vec::new() } else { input(given)? };
    let mut direction = peers.first().map_or(RECEIVES, |peer| peer.direction);
    let mut sites = BTreeSet::new();
    for peer in peers.iter().filter(|peer| peer.direction != RECEIVES) {
        sites.insert(peer.mirror_uuid.clone());
        if direction != peer.direction {
            direction = BOTH;
        }
    }
    let watchers = ctx.watchers();
    let mut states: BTreeMap<u8, i32> = BTreeMap::new();
    let found = images::listed(ctx, &ListInput { after: Bytes::new(), max: u64::MAX })?;
    ctx.expect_lookups(2 * found.len())?;
    for (_, image) in found {
        let all = of_image(ctx, &image.global_id, &watchers)?;
        *states.entry(all.summary(direction, &sites)).or_default() += 1;
    }
    Ok(states.to_bytes())
}

/// Who mirrors an image here: the client that says its own site's status, as long as it is up.
pub(super) fn instance(ctx: &mut Ctx<'_, '_>, global_id: &Bytes) -> Result<Inst, Stop> {
    let kept: Kept = required(ctx, &key(global_id, b""))?;
    if ctx.watchers().contains(&kept.origin) { Ok(kept.origin) } else { Err(Errno::ESTALE.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_worst_that_counts() {
        let status = |site: &'static str, state, up| Status { site: site.into(), state, up, ..Status::default() };
        let sites = |sites: &[&'static str]| sites.iter().map(|site| Bytes::from(*site)).collect();
        let all = AllStatus(vec![status("", 4, true), status("a", 3, true), status("b", 5, false)]);
        for (direction, peers, state) in
            [(RECEIVES, &[][..], 4), (SENDS, &["a"], UNKNOWN), (SENDS, &["c"], UNKNOWN), (BOTH, &["a", "b"], UNKNOWN)]
        {
            assert_eq!(all.summary(direction, &sites(peers)), state, "{direction} {peers:?}");
        }
        let all = AllStatus(vec![status("a", 3, true), status("b", ERROR, false)]);
        assert_eq!(all.summary(SENDS, &sites(&["a", "b"])), ERROR);
        assert_eq!(AllStatus(Vec::new()).summary(RECEIVES, &sites(&[])), UNKNOWN);
        assert_eq!(AllStatus(vec![status("a", 3, true)]).summary(SENDS, &sites(&["a"])), 3);
    }
}
