//! Groups of images: which images a group has, which group an image is in, and snapshots of whole groups.

use super::header::{change_op_features, op_feature};
use super::{Answer, Ctx, ListInput, done, input, listed, parsed, required, set, visit};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const IMAGE_PREFIX: &[u8] = b"image_";
const SNAP_PREFIX: &[u8] = b"snapshot_";
/// In an image's header: its group.
const GROUP_KEY: &[u8] = b"rbd_group_ref";

/// An image of a group (`GroupImageSpec`).
struct Image {
    id: Bytes,
    pool: i64,
}

impl Encode for Image {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.id);
            e.i64(self.pool);
        });
    }
}

impl Decode for Image {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("GroupImageSpec", 1, |d, _| Ok(Image { id: d.get()?, pool: d.i64()? }))
    }
}

impl Image {
    /// Its key without the prefix; empty for no image.
    fn name(&self) -> Vec<u8> {
        if self.pool == -1 { Vec::new() } else { [format!("{:016x}_", self.pool).as_bytes(), &self.id].concat() }
    }

    fn key(&self) -> Vec<u8> {
        if self.pool == -1 { Vec::new() } else { [IMAGE_PREFIX, &self.name()].concat() }
    }

    /// What a key without its prefix says; EIO if it is no image's.
    fn of(name: &Bytes) -> Result<Image, Stop> {
        let at = name.iter().position(|&b| b == b'_').ok_or(Errno::EIO)?;
        let pool = core::str::from_utf8(&name[..at]).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Ok(Image { id: name.slice(at + 1..), pool: pool.ok_or(Errno::EIO)? as i64 })
    }
}

/// An image of a group and whether it knows of it (`GroupImageStatus`).
struct Member(Image, u8);

impl Encode for Member {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
            e.u8(self.1);
        });
    }
}

impl Decode for Member {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("GroupImageStatus", 1, |d, _| Ok(Member(d.get()?, d.u8()?)))
    }
}

pub(super) fn set_image(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Member(image, state) = input(given)?;
    set(ctx, &image.key(), &state)?;
    done()
}

pub(super) fn remove_image(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let image: Image = input(given)?;
    ctx.remove_value(&image.key())?;
    done()
}

pub(super) fn list_images(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (after, max): (Image, u64) = input(given)?;
    let asked = ListInput { after: after.name().into(), max };
    let found = listed(ctx, IMAGE_PREFIX, &asked, parsed::<u8>)?;
    let members = found.iter().map(|(name, state)| Ok(Member(Image::of(name)?, *state)));
    Ok(members.collect::<Result<Vec<Member>, Stop>>()?.to_bytes())
}

/// A group (`GroupSpec`).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    pool: i64,
    id: Bytes,
}

impl Encode for Group {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.i64(self.pool);
            e.put(&self.id);
        });
    }
}

impl Decode for Group {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("GroupSpec", 1, |d, _| Ok(Group { pool: d.i64()?, id: d.get()? }))
    }
}

/// The group that an image is in. A record that cannot be read is EINVAL here.
fn group_of(ctx: &mut Ctx<'_, '_>) -> Result<Option<Group>, Stop> {
    ctx.value(GROUP_KEY)?.map(|value| input(&value)).transpose()
}

pub(super) fn join(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let group: Group = input(given)?;
    match group_of(ctx)? {
        Some(held) if held == group => return done(),
        Some(_) => return Err(Errno::EEXIST.into()),
        None => {}
    }
    change_op_features(ctx, op_feature::GROUP, op_feature::GROUP)?;
    set(ctx, GROUP_KEY, &group)?;
    done()
}

pub(super) fn leave(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let group: Group = input(given)?;
    let held = group_of(ctx)?.ok_or(Errno::ENOENT)?;
    if held != group {
        return Err(Errno::EBADF.into());
    }
    ctx.remove_value(GROUP_KEY)?;
    change_op_features(ctx, 0, op_feature::GROUP)?;
    done()
}

pub(super) fn of_image(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let none = Group { pool: -1, id: Bytes::new() };
    Ok(group_of(ctx)?.unwrap_or(none).to_bytes())
}

/// A snapshot of one image of a group (`ImageSnapshotSpec`).
#[derive(Clone, PartialEq, Eq, Debug)]
struct ImageSnap {
    pool: i64,
    image: Bytes,
    snap: u64,
}

impl Encode for ImageSnap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.i64(self.pool);
            e.put(&self.image);
            e.u64(self.snap);
        });
    }
}

impl Decode for ImageSnap {
    const MIN_BYTES: usize = 26;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("ImageSnapshotSpec", 1, |d, _| Ok(ImageSnap { pool: d.i64()?, image: d.get()?, snap: d.u64()? }))
    }
}

/// A snapshot of a group (`GroupSnapshot`).
#[derive(Clone, PartialEq, Eq, Debug)]
struct GroupSnap {
    id: Bytes,
    name: Bytes,
    state: u8,
    snaps: Vec<ImageSnap>,
}

/// Not all images have it yet (GROUP_SNAPSHOT_STATE_INCOMPLETE).
const INCOMPLETE: u8 = 0;

impl Encode for GroupSnap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.id);
            e.put(&self.name);
            e.u8(self.state);
            e.put(&self.snaps);
        });
    }
}

impl Decode for GroupSnap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("GroupSnapshot", 1, |d, _| {
            Ok(GroupSnap { id: d.get()?, name: d.get()?, state: d.u8()?, snaps: d.get()? })
        })
    }
}

fn snap_key(id: &[u8]) -> Vec<u8> {
    [SNAP_PREFIX, id].concat()
}

pub(super) fn set_snap(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let snap: GroupSnap = input(given)?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    visit(ctx, SNAP_PREFIX, b"", |_, _, value| {
        let other: GroupSnap = parsed(&value)?;
        if other.name == snap.name && other.id != snap.id { Err(Errno::EEXIST.into()) } else { Ok(true) }
    })?;
    if snap.state == INCOMPLETE && ctx.value(&snap_key(&snap.id))?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    set(ctx, &snap_key(&snap.id), &snap)?;
    done()
}

pub(super) fn remove_snap(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    ctx.remove_value(&snap_key(&id))?;
    done()
}

pub(super) fn show_snap(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    Ok(required::<GroupSnap>(ctx, &snap_key(&id))?.to_bytes())
}

pub(super) fn list_snaps(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (after, max): (GroupSnap, u64) = input(given)?;
    let found = listed(ctx, SNAP_PREFIX, &ListInput { after: after.id, max }, parsed::<GroupSnap>)?;
    Ok(found.into_iter().map(|(_, snap)| snap).collect::<Vec<_>>().to_bytes())
}
