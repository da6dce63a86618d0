//! Which of a pool's images are mirrored.

use super::super::{Answer, Ctx, ListInput, as_map, done, input, parsed, required, set as put, stored, unset};
use super::status;
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const PREFIX: &[u8] = b"image_";
/// The image is about to be mirrored no more (MIRROR_IMAGE_STATE_DISABLING).
const DISABLING: u8 = 0;

/// It is mirrored (MIRROR_IMAGE_STATE_ENABLED).
const ENABLED: u8 = 1;

/// `MirrorImage`.
pub(super) struct Image {
    pub(super) global_id: Bytes,
    state: u8,
    mode: u8,
}

impl Encode for Image {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.global_id);
            e.u8(self.state);
            e.u8(self.mode);
        });
    }
}

impl Decode for Image {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("MirrorImage", 2, |d, version| {
            let (global_id, state) = (d.get()?, d.u8()?);
            Ok(Image { global_id, state, mode: if version >= 2 { d.u8()? } else { 0 } })
        })
    }
}

impl Image {
    /// Whether it is mirrored.
    pub(super) fn is_enabled(&self) -> bool {
        self.state == ENABLED
    }
}

/// The images that a listing asks for, by id.
pub(super) fn listed(ctx: &mut Ctx<'_, '_>, asked: &ListInput) -> Result<Vec<(Bytes, Image)>, Stop> {
    super::super::listed(ctx, PREFIX, asked, parsed::<Image>)
}

pub(super) fn key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

pub(super) fn global_key(id: &[u8]) -> Vec<u8> {
    [b"global_", id].concat()
}

pub(in super::super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    let found = listed(ctx, &asked)?;
    let found: Vec<(Bytes, Bytes)> = found.into_iter().map(|(id, image)| (id, image.global_id)).collect();
    Ok(as_map(&found))
}

pub(in super::super) fn id_of(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let global_id: Bytes = input(given)?;
    Ok(required::<Bytes>(ctx, &global_key(&global_id))?.to_bytes())
}

pub(in super::super) fn show(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    Ok(required::<Image>(ctx, &key(&id))?.to_bytes())
}

pub(in super::super) fn set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (id, image): (Bytes, Image) = input(given)?;
    match stored::<Image>(ctx, &key(&id))? {
        Some(known) if known.global_id != image.global_id => return Err(Errno::EINVAL.into()),
        Some(_) => {}
        None => {
            if stored::<Bytes>(ctx, &global_key(&image.global_id))?.is_some() {
                return Err(Errno::EEXIST.into());
            }
            // Somebody else was faster in ending it.
            if image.state == DISABLING {
                return Err(Errno::ENOENT.into());
            }
        }
    }
    put(ctx, &key(&id), &image)?;
    put(ctx, &global_key(&image.global_id), &id)?;
    done()
}

pub(in super::super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    let image: Image = required(ctx, &key(&id))?;
    if image.state != DISABLING {
        return Err(Errno::EBUSY.into());
    }
    ctx.remove_value(&key(&id))?;
    unset(ctx, &global_key(&image.global_id))?;
    status::remove_all(ctx, &image.global_id)?;
    done()
}
