//! `cas`: references to a chunk of deduplicated data.
//!
//! Follows Ceph v16.2 `src/cls/cas/cls_cas.cc` and `cls_cas_ops.h`. The chunk goes with its last reference.
//! Read next: `references`.

mod references;

use super::{Answer, Ctx, Flags, Method, Unless, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use references::References;
use wire::osd::HObject;
use wire::{Decode, Decoder, Encode, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("chunk_create_or_get_ref", Flags::RD_WR, create_or_take),
    method("chunk_get_ref", Flags::RD_WR, take),
    method("chunk_put_ref", Flags::RD_WR, put),
    method("references_chunk", Flags::RD, references_chunk),
];

const ATTR: &[u8] = b"chunk_refs";
/// The chunk's data must be what is given, where it exists already.
const VERIFY: u64 = 1;

/// None where the object is missing.
fn stored(ctx: &mut Ctx<'_, '_>) -> Result<References, Stop> {
    match ctx.attr(ATTR).unless(Errno::ENODATA)? {
        Some(bytes) => Decoder::shared(&bytes).get().map_err(|_| Errno::EIO.into()),
        None => Ok(References::default()),
    }
}

struct CreateInput {
    source: HObject,
    flags: u64,
    data: Bytes,
}

impl Decode for CreateInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_cas_chunk_create_or_get_ref_op", 1, |d, _| {
            Ok(CreateInput { source: d.get()?, flags: d.u64()?, data: d.get()? })
        })
    }
}

fn create_or_take(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let CreateInput { source, flags, data } = input(given)?;
    let mut references = match stored(ctx).unless(Errno::ENOENT)? {
        None => {
            ctx.write_full(data)?;
            References::default()
        }
        Some(references) => {
            if flags & VERIFY != 0 && ctx.read(0, 0)? != data {
                return Err(Errno::ENOMSG.into());
            }
            references
        }
    };
    references.add(source);
    ctx.set_attr(ATTR, references.to_bytes())?;
    done()
}

/// `cls_cas_chunk_get_ref_op` and `cls_cas_chunk_put_ref_op`.
struct Source(HObject);

impl Decode for Source {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_cas_chunk_get_ref_op", 1, |d, _| Ok(Source(d.get()?)))
    }
}

fn take(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Source(source) = input(given)?;
    let mut references = stored(ctx)?;
    references.add(source);
    ctx.set_attr(ATTR, references.to_bytes())?;
    done()
}

fn put(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Source(source) = input(given)?;
    let mut references = stored(ctx)?;
    if !references.remove(&source) {
        return Err(Errno::ENOLINK.into());
    }
    if references.is_empty() {
        ctx.remove()?;
    } else {
        ctx.set_attr(ATTR, references.to_bytes())?;
    }
    done()
}

/// How often the object's manifest names a chunk: objects here have no manifests.
fn references_chunk(_: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let _chunk: Bytes = input(given)?;
    Err(Errno::ENOLINK.into())
}
