//! The mirrors at work on a pool: who there is, and which image each has.

use super::super::{Answer, Ctx, ListInput, Unless, as_map, done, input, set as put, unset, visit};
use super::status::{Inst, instance, put_inst};
use super::{images, status};
use base::Errno;
use bytes::Bytes;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const PREFIX: &[u8] = b"instance_";
const MAP_PREFIX: &[u8] = b"image_map_";

/// A client as it travels in a map.
struct Named(Inst);

impl Encode for Named {
    fn encode(&self, e: &mut Encoder) {
        put_inst(e, &self.0);
    }
}

pub(in super::super) fn of_image(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let global_id: Bytes = input(given)?;
    Ok(Named(instance(ctx, &global_id)?).to_bytes())
}

pub(in super::super) fn of_images(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    let mut found = Vec::new();
    // Images that nobody mirrors now do not count against what is wanted.
    let images = images::listed(ctx, &ListInput { after: asked.after, max: u64::MAX })?;
    ctx.expect_lookups(images.len())?;
    for (id, image) in images {
        if found.len() as u64 >= asked.max {
            break;
        }
        let inst = status::instance(ctx, &image.global_id).unless(Errno::ENOENT).unless(Errno::ESTALE)?;
        found.extend(inst.flatten().map(|inst| (id, Named(inst))));
    }
    Ok(as_map(&found))
}

pub(in super::super) fn list(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let mut ids: Vec<Bytes> = Vec::new();
    visit(ctx, PREFIX, b"", |_, id, _| {
        ids.push(id);
        Ok(true)
    })?;
    Ok(ids.to_bytes())
}

fn key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

pub(in super::super) fn add(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    ctx.set_value(&key(&id), Bytes::new())?;
    done()
}

pub(in super::super) fn remove(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let id: Bytes = input(given)?;
    ctx.remove_value(&key(&id))?;
    done()
}

/// Which mirror has an image (`MirrorImageMap`).
struct Mapped {
    instance: Bytes,
    at: UTime,
    data: Bytes,
}

impl Encode for Mapped {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.instance);
            e.put(&self.at);
            e.put(&self.data);
        });
    }
}

impl Decode for Mapped {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("MirrorImageMap", 1, |d, _| Ok(Mapped { instance: d.get()?, at: d.get()?, data: d.get()? }))
    }
}

pub(in super::super) fn list_map(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: ListInput = input(given)?;
    // An entry that cannot be read is EINVAL here.
    Ok(as_map(&super::super::listed(ctx, MAP_PREFIX, &asked, input::<Mapped>)?))
}

pub(in super::super) fn update_map(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (global_id, mapped): (Bytes, Mapped) = input(given)?;
    put(ctx, &[MAP_PREFIX, &global_id[..]].concat(), &mapped)?;
    done()
}

pub(in super::super) fn remove_map(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let global_id: Bytes = input(given)?;
    unset(ctx, &[MAP_PREFIX, &global_id[..]].concat())?;
    done()
}
