//! Who was cloned from an image: the list in its own header, and the older directory of a pool (`old_*`).

use super::header::{change_op_features, op_feature};
use super::types::{Snap, SnapOwner};
use super::{Answer, Ctx, done, input, required, set, snapshots, stored, unset};
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeSet;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// A cloned image (`ChildImageSpec`). Ordered as Ceph orders them, which the encoding of a set shows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Child {
    pool: i64,
    nspace: Bytes,
    image: Bytes,
}

impl Encode for Child {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.i64(self.pool);
            e.put(&self.image);
            e.put(&self.nspace);
        });
    }
}

impl Decode for Child {
    const MIN_BYTES: usize = 18;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("ChildImageSpec", 2, |d, version| {
            let (pool, image) = (d.i64()?, d.get()?);
            Ok(Child { pool, image, nspace: if version >= 2 { d.get()? } else { Bytes::new() } })
        })
    }
}

fn key(snap: u64) -> Vec<u8> {
    format!("snap_children_{snap:016x}").into_bytes()
}

pub(super) fn attach(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, child): (u64, Child) = input(given)?;
    let snap = snapshots::required(ctx, id)?;
    if matches!(snap.owner, SnapOwner::Trash { .. }) {
        return Err(Errno::ENOENT.into());
    }
    let mut children: BTreeSet<Child> = stored(ctx, &key(id))?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    set(ctx, &key(id), &children)?;
    let count = snap.children.saturating_add(1);
    snapshots::write(ctx, Snap { children: count, ..snap })?;
    change_op_features(ctx, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)?;
    done()
}

pub(super) fn detach(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, child): (u64, Child) = input(given)?;
    let snap = snapshots::required(ctx, id)?;
    let mut children: BTreeSet<Child> = stored(ctx, &key(id))?.unwrap_or_default();
    if snap.children as usize != children.len() {
        return Err(Errno::EINVAL.into());
    }
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        unset(ctx, &key(id))?;
    } else {
        set(ctx, &key(id), &children)?;
    }
    snapshots::write(ctx, Snap { children: children.len() as u32, ..snap })?;
    if children.is_empty() {
        let mut others = false;
        snapshots::each(ctx, |_, other| {
            others = other.id != id && other.children > 0;
            Ok(!others)
        })?;
        if !others {
            change_op_features(ctx, 0, op_feature::CLONE_PARENT)?;
        }
    }
    done()
}

pub(super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: u64 = input(given)?;
    snapshots::required(ctx, id)?;
    Ok(required::<BTreeSet<Child>>(ctx, &key(id))?.to_bytes())
}

/// A parent as the key of the pool's directory of children: its encoding.
struct ParentKey(Bytes);

impl Decode for ParentKey {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (pool, image, snap) = (d.u64()?, d.blob()?, d.u64()?);
        Ok(ParentKey((pool, (image, snap)).to_bytes()))
    }
}

type Ids = BTreeSet<Bytes>;

pub(super) fn old_add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (ParentKey(key), child): (ParentKey, Bytes) = input(given)?;
    let mut children: Ids = stored(ctx, &key)?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    set(ctx, &key, &children)?;
    done()
}

pub(super) fn old_remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (ParentKey(key), child): (ParentKey, Bytes) = input(given)?;
    let mut children: Ids = required(ctx, &key)?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        ctx.remove_value(&key)?;
    } else {
        set(ctx, &key, &children)?;
    }
    done()
}

pub(super) fn old_list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let ParentKey(key) = input(given)?;
    Ok(required::<Ids>(ctx, &key)?.to_bytes())
}
