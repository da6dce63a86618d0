//! Snapshots by which an image is mirrored: who still needs them, and how far they are copied.

use super::super::types::{MirrorSnap, Snap, SnapOwner};
use super::super::{Answer, Ctx, done, input, snapshots};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;

/// The snapshot and what makes it a mirror's; EINVAL if it is none.
fn required(ctx: &mut Ctx<'_, '_>, id: u64) -> Result<(Snap, Box<MirrorSnap>), Stop> {
    let mut snap = snapshots::required(ctx, id)?;
    match core::mem::take(&mut snap.owner) {
        SnapOwner::Mirror(mirror) => Ok((snap, mirror)),
        _ => Err(Errno::EINVAL.into()),
    }
}

pub(in super::super) fn unlink_peer(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, peer): (u64, Bytes) = input(given)?;
    let (snap, mut mirror) = required(ctx, id)?;
    if !mirror.peers.contains(&peer) {
        return Err(Errno::ENOENT.into());
    }
    if mirror.peers.len() == 1 {
        // The last one: with a newer snapshot there, the caller should rather remove this one.
        snapshots::each(ctx, |_, other| {
            let newer = other.id > id && matches!(other.owner, SnapOwner::Mirror(_));
            if newer { Err(Errno::ERESTART.into()) } else { Ok(true) }
        })?;
    }
    mirror.peers.remove(&peer);
    snapshots::write(ctx, Snap { owner: SnapOwner::Mirror(mirror), ..snap })?;
    done()
}

pub(in super::super) fn set_progress(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, (complete, last_copied)): (u64, (bool, u64)) = input(given)?;
    let (snap, mut mirror) = required(ctx, id)?;
    mirror.complete = complete;
    if mirror.is_copy() {
        mirror.last_copied = last_copied;
    }
    snapshots::write(ctx, Snap { owner: SnapOwner::Mirror(mirror), ..snap })?;
    done()
}
