//! Which of a pool's images are mirrored.

use super::super::visit;
use super::super::{Answer, Ctx, ListInput, as_map, done, input, listed, parsed, required, set as put, stored, unset};
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const PREFIX: &[u8] = b"image_";
/// The image is about to be mirrored no more (MIRROR_IMAGE_STATE_DISABLING).
const DISABLING: u8 = 0;

/// `MirrorImage`.
struct Image {
    global_id: Bytes,
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

fn key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

fn global_key(id: &[u8]) -> Vec<u8> {
    [b"global_", id].concat()
}

pub(in super::super) fn list(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    let found = listed(ctx, PREFIX, &asked, |value| Ok(parsed::<Image>(value)?.global_id))?;
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
    // What mirrors may have said of it.
    unset(ctx, &[b"status_global_", &image.global_id[..]].concat())?;
    visit(ctx, b"remote_status_global_", &[&image.global_id[..], b"_"].concat(), |ctx, name, _| {
        let own = name.strip_prefix(&image.global_id[..]).is_some_and(|rest| rest.starts_with(b"_"));
        if own {
            unset(ctx, &[b"remote_status_global_", &name[..]].concat())?;
        }
        Ok(own)
    })?;
    done()
}
