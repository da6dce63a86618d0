//! An image's snapshots, in its header: one entry each under `snapshot_` and the id in hexadecimal.

use super::header::{change_op_features, feature, op_feature, require};
use super::types::{NO_SNAP, PROTECTION_END, Parent, SNAP_MAX, Snap, SnapOwner};
use super::{Answer, Ctx, done, input, old_format, parent, parsed, set, stored, unset, visit};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::types::Uuid;
use wire::{Decode, Decoder, Encode, Malformed};

const PREFIX: &[u8] = b"snapshot_";

pub(super) fn key(id: u64) -> Vec<u8> {
    format!("snapshot_{id:016x}").into_bytes()
}

/// The snapshot with this id; ENOENT if there is none.
pub(super) fn required(ctx: &mut Ctx<'_, '_>, id: u64) -> Result<Snap, Stop> {
    super::required(ctx, &key(id))
}

/// Calls `visit` with every snapshot, by id, until it says no.
pub(super) fn each(
    ctx: &mut Ctx<'_, '_>,
    mut each: impl FnMut(&mut Ctx<'_, '_>, Snap) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    visit(ctx, PREFIX, b"", |ctx, _, value| each(ctx, parsed(&value)?))
}

/// Writes a snapshot's record. One that says its parent itself is rewritten in the newer form, where the image says it
/// once for all and a snapshot only says how much of it shows through.
pub(super) fn write(ctx: &mut Ctx<'_, '_>, mut snap: Snap) -> Result<(), Stop> {
    if snap.parent.exists() {
        let known = stored::<Parent>(ctx, parent::KEY)?.unwrap_or_default();
        if !known.exists() {
            set(ctx, parent::KEY, &Parent { overlap: None, ..snap.parent.clone() })?;
        }
        snap.overlap = snap.parent.overlap;
        snap.parent = Parent::default();
    }
    set(ctx, &key(snap.id), &snap)
}

/// The snapshot that an input names; EINVAL for the image itself.
fn named(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Result<Snap, Stop> {
    let id: u64 = input(given)?;
    if id == NO_SNAP {
        return Err(Errno::EINVAL.into());
    }
    required(ctx, id)
}

pub(super) fn context(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let mut ids = Vec::new();
    visit(ctx, PREFIX, b"", |_, key, _| {
        let id = core::str::from_utf8(&key).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        ids.push(id.ok_or(Errno::EIO)?);
        Ok(true)
    })?;
    let seq: u64 = super::required(ctx, b"snap_seq")?;
    ids.reverse();
    Ok((seq, ids).to_bytes())
}

pub(super) fn name(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    Ok(named(ctx, given)?.name.to_bytes())
}

pub(super) fn timestamp(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    Ok(named(ctx, given)?.at.to_bytes())
}

pub(super) fn show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    Ok(named(ctx, given)?.info())
}

struct AddInput {
    name: Bytes,
    id: u64,
    owner: SnapOwner,
}

impl Decode for AddInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (name, id) = (d.get()?, d.u64()?);
        Ok(AddInput { name, id, owner: if d.remaining() > 0 { d.get()? } else { SnapOwner::User } })
    }
}

pub(super) fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let AddInput { name, id, owner } = input(given)?;
    if owner == SnapOwner::Unknown || id > SNAP_MAX {
        return Err(Errno::EINVAL.into());
    }
    // Somebody else may have made a newer one meanwhile.
    if id < super::required::<u64>(ctx, b"snap_seq")? {
        return Err(Errno::ESTALE.into());
    }
    let image_size = super::required(ctx, b"size")?;
    let flags = stored(ctx, b"flags")?.unwrap_or(0);
    let limit = stored::<u64>(ctx, b"snap_limit")?.unwrap_or(u64::MAX);
    let mut count = 0;
    each(ctx, |_, other| {
        count += 1;
        if count >= limit {
            return Err(Errno::EDQUOT.into());
        }
        let same = name == other.name && owner == other.owner || id == other.id;
        if same { Err(Errno::EEXIST.into()) } else { Ok(true) }
    })?;
    let parent = stored::<Parent>(ctx, parent::KEY)?.unwrap_or_default();
    if matches!(owner, SnapOwner::Trash { .. }) {
        change_op_features(ctx, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    set(ctx, b"snap_seq", &id)?;
    let at = ctx.now();
    write(ctx, Snap { id, name, image_size, parent, flags, at, owner, ..Snap::default() })?;
    done()
}

pub(super) fn rename(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, name): (u64, Bytes) = input(given)?;
    each(ctx, |_, other| {
        let taken = other.owner == SnapOwner::User && other.name == name;
        if taken { Err(Errno::EEXIST.into()) } else { Ok(true) }
    })?;
    let snap = required(ctx, id)?;
    if snap.owner != SnapOwner::User {
        return Err(Errno::EINVAL.into());
    }
    write(ctx, Snap { name, ..snap })?;
    done()
}

pub(super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: u64 = input(given)?;
    let snap = required(ctx, id)?;
    if snap.protection != 0 || snap.children > 0 {
        return Err(Errno::EBUSY.into());
    }
    unset(ctx, &key(id))?;
    let (mut cloned, mut trashed) = (false, false);
    each(ctx, |_, other| {
        if other.id != id {
            cloned |= other.parent.spec.pool != -1 || other.overlap.is_some();
            trashed |= matches!(other.owner, SnapOwner::Trash { .. });
        }
        Ok(true)
    })?;
    let parent = stored::<Parent>(ctx, parent::KEY)?.filter(Parent::exists);
    let head_cloned = parent.as_ref().is_some_and(|parent| parent.overlap.is_some());
    if parent.is_some() && !head_cloned && !cloned {
        unset(ctx, parent::KEY)?;
    }
    let mut over = 0;
    if !cloned && !head_cloned {
        over |= op_feature::CLONE_CHILD;
    }
    if !trashed {
        over |= op_feature::SNAP_TRASH;
    }
    if over != 0 {
        change_op_features(ctx, 0, over)?;
    }
    done()
}

pub(super) fn move_to_trash(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: u64 = input(given)?;
    let snap = required(ctx, id)?;
    if snap.protection != 0 {
        return Err(Errno::EBUSY.into());
    }
    if matches!(snap.owner, SnapOwner::Trash { .. }) {
        return Err(Errno::EEXIST.into());
    }
    change_op_features(ctx, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    let owner = SnapOwner::Trash { name: snap.name.clone(), kind: snap.owner.kind() };
    let name = Uuid::from_random(ctx.random_bytes()).to_string().into();
    write(ctx, Snap { name, owner, ..snap })?;
    done()
}

pub(super) fn protection(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: u64 = input(given)?;
    ctx.stat()?;
    if id == NO_SNAP {
        return Err(Errno::EINVAL.into());
    }
    let snap = required(ctx, id)?;
    if snap.protection >= PROTECTION_END {
        return Err(Errno::EIO.into());
    }
    Ok(snap.protection.to_bytes())
}

pub(super) fn set_protection(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, protection): (u64, u8) = input(given)?;
    ctx.stat()?;
    require(ctx, feature::LAYERING)?;
    if id == NO_SNAP || protection >= PROTECTION_END {
        return Err(Errno::EINVAL.into());
    }
    let snap = required(ctx, id)?;
    write(ctx, Snap { protection, ..snap })?;
    done()
}

pub(super) fn limit(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(stored::<u64>(ctx, b"snap_limit")?.unwrap_or(u64::MAX).to_bytes())
}

pub(super) fn set_limit(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let limit: u64 = input(given)?;
    if limit == u64::MAX {
        ctx.remove_value(b"snap_limit")?;
        return done();
    }
    let count = match old_format::snap_count(ctx)? {
        Some(count) => count,
        None => {
            let mut count = 0;
            visit(ctx, PREFIX, b"", |_, _, _| {
                count += 1;
                Ok(true)
            })?;
            count
        }
    };
    if limit < count {
        return Err(Errno::ERANGE.into());
    }
    set(ctx, b"snap_limit", &limit)?;
    done()
}
