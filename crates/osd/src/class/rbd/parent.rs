//! Where a cloned image comes from: the form in use, and the older one without namespaces (`old_*`).

use super::header::{change_op_features, feature, op_feature, require};
use super::snapshots;
use super::types::{NO_SNAP, Parent, ParentSpec, Snap};
use super::{Answer, Ctx, Unless, done, input, required, set, stored, unset};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const KEY: &[u8] = b"parent";

/// Whether the image can have a parent at all.
fn has_layers(ctx: &mut Ctx<'_, '_>) -> Result<bool, Stop> {
    Ok(require(ctx, feature::LAYERING).unless(Errno::ENOEXEC)?.is_some())
}

pub(super) fn show(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    ctx.stat()?;
    if !has_layers(ctx)? {
        return Ok(ParentSpec::default().to_bytes());
    }
    let mut spec = ParentSpec::default();
    match stored::<Parent>(ctx, KEY)? {
        Some(parent) => spec = parent.spec,
        // Snapshots of the older form may still say it, each for itself.
        None => snapshots::each(ctx, |_, snap| {
            if snap.parent.exists() {
                spec = snap.parent.spec;
            }
            Ok(true)
        })?,
    }
    Ok(spec.to_bytes())
}

pub(super) fn overlap(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let snap: u64 = input(given)?;
    let overlap = if !has_layers(ctx)? {
        None
    } else if snap == NO_SNAP {
        stored::<Parent>(ctx, KEY)?.and_then(|parent| parent.overlap)
    } else {
        let snap = snapshots::required(ctx, snap)?;
        snap.overlap.or(if snap.parent.exists() { snap.parent.overlap } else { None })
    };
    Ok(overlap.to_bytes())
}

struct AttachInput {
    spec: ParentSpec,
    overlap: u64,
    again: bool,
}

impl Decode for AttachInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (spec, overlap) = (d.get()?, d.u64()?);
        Ok(AttachInput { spec, overlap, again: if d.remaining() > 0 { d.bool()? } else { false } })
    }
}

pub(super) fn attach(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let AttachInput { spec, overlap, again } = input(given)?;
    attach_to(ctx, spec, overlap, again)
}

fn attach_to(ctx: &mut Ctx<'_, '_>, spec: ParentSpec, overlap: u64, again: bool) -> Answer {
    ctx.stat()?;
    require(ctx, feature::LAYERING)?;
    let mut parent = Parent { spec, overlap: Some(overlap) };
    if !parent.exists() || overlap == 0 {
        return Err(Errno::EINVAL.into());
    }
    if let Some(known) = stored::<Parent>(ctx, KEY)? {
        // One that only snapshots still have may be taken up again.
        if (known.overlap.is_some() || known.spec != parent.spec) && !again {
            return Err(Errno::EEXIST.into());
        }
    }
    let size: u64 = required(ctx, b"size")?;
    parent.overlap = Some(overlap.min(size));
    set(ctx, KEY, &parent)?;
    done()
}

pub(super) fn detach(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    detach_from(ctx, false)
}

fn detach_from(ctx: &mut Ctx<'_, '_>, old: bool) -> Answer {
    ctx.stat()?;
    require(ctx, feature::LAYERING)?;
    let features: u64 = required(ctx, b"features")?;
    let parent: Parent = required(ctx, KEY)?;
    if old && !parent.spec.nspace.is_empty() {
        return Err(Errno::EXDEV.into());
    }
    if parent.overlap.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let mut snaps_keep_it = false;
    snapshots::each(ctx, |ctx, snap| {
        if snap.parent.spec.pool == -1 && snap.overlap.is_none() {
            return Ok(true);
        }
        if features & feature::DEEP_FLATTEN == 0 {
            snaps_keep_it = true;
            return Ok(false);
        }
        snapshots::write(ctx, Snap { parent: Parent::default(), overlap: None, ..snap })?;
        Ok(true)
    })?;
    if snaps_keep_it {
        set(ctx, KEY, &Parent { overlap: None, ..parent })?;
    } else {
        unset(ctx, KEY)?;
        change_op_features(ctx, 0, op_feature::CLONE_CHILD)?;
    }
    done()
}

pub(super) fn old_show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let snap: u64 = input(given)?;
    ctx.stat()?;
    let mut parent = Parent::default();
    if has_layers(ctx)? {
        parent = stored(ctx, KEY)?.unwrap_or_default();
        if !parent.spec.nspace.is_empty() {
            return Err(Errno::EXDEV.into());
        }
        if snap != NO_SNAP {
            let snap = stored::<Snap>(ctx, &snapshots::key(snap))?.unwrap_or_default();
            if snap.parent.exists() {
                parent = snap.parent;
            } else if snap.overlap.is_some() {
                if !parent.exists() {
                    return Err(Errno::EINVAL.into());
                }
                parent.overlap = snap.overlap;
            } else {
                parent = Parent::default();
            }
        }
    }
    let mut e = Encoder::new();
    e.i64(parent.spec.pool);
    e.put(&parent.spec.image);
    e.u64(parent.spec.snap);
    e.u64(parent.overlap.unwrap_or(0));
    Ok(e.finish())
}

pub(super) fn old_set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct SetInput(ParentSpec, u64);
    impl Decode for SetInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            let spec = ParentSpec { pool: d.i64()?, nspace: Bytes::new(), image: d.get()?, snap: d.u64()? };
            Ok(SetInput(spec, d.u64()?))
        }
    }
    let SetInput(spec, overlap) = input(given)?;
    attach_to(ctx, spec, overlap, false)
}

pub(super) fn old_remove(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    detach_from(ctx, true)
}
