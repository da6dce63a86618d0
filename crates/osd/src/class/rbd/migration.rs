//! An image on its way to another place: where it comes from or goes, and how far it is.
//!
//! An image of the old format says so in the text at the beginning of its header.

use super::header::feature;
use super::{Answer, Ctx, done, input, required, set as put, stored, unset};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

const KEY: &[u8] = b"migration";
/// How a header of the old format begins (RBD_HEADER_TEXT).
const OLD_TEXT: &[u8] = b"<<< Rados Block Device Image >>>\n\0";
/// How it begins while the image is migrated (RBD_MIGRATE_HEADER_TEXT).
const OLD_MIGRATING_TEXT: &[u8] = b"<<< Migrating RBD Image      >>>\n\0";

/// The header is the source's (MIGRATION_HEADER_TYPE_SRC).
const SOURCE: u8 = 1;
/// The header is the destination's (MIGRATION_HEADER_TYPE_DST).
const DESTINATION: u8 = 2;

/// `MigrationSpec`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Migration {
    side: u8,
    pool: i64,
    nspace: Bytes,
    name: Bytes,
    image: Bytes,
    snap_seqs: BTreeMap<u64, u64>,
    overlap: u64,
    flatten: bool,
    mirroring: bool,
    state: u8,
    description: Bytes,
    mirror_mode: u8,
    source: Bytes,
}

impl Encode for Migration {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(3, if self.source.is_empty() { 1 } else { 3 }, |e| {
            e.u8(self.side);
            e.i64(self.pool);
            [&self.nspace, &self.name, &self.image].into_iter().for_each(|text| e.put(text));
            e.put(&self.snap_seqs);
            e.u64(self.overlap);
            e.bool(self.flatten);
            e.bool(self.mirroring);
            e.u8(self.state);
            e.put(&self.description);
            e.u8(self.mirror_mode);
            e.put(&self.source);
        });
    }
}

impl Decode for Migration {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("MigrationSpec", 3, |d, version| {
            Ok(Migration {
                side: d.u8()?,
                pool: d.i64()?,
                nspace: d.get()?,
                name: d.get()?,
                image: d.get()?,
                snap_seqs: d.get()?,
                overlap: d.u64()?,
                flatten: d.bool()?,
                mirroring: d.bool()?,
                state: d.u8()?,
                description: d.get()?,
                mirror_mode: if version >= 2 { d.u8()? } else { 0 },
                source: if version >= 3 { d.get()? } else { Bytes::new() },
            })
        })
    }
}

/// Whether a header of the old format says that its image is migrated; ENXIO if it is no such header.
fn old_is_migrating(ctx: &mut Ctx<'_, '_>) -> Result<bool, Stop> {
    let text = ctx.read(0, OLD_TEXT.len() as u64)?;
    match &text[..] {
        OLD_TEXT => Ok(false),
        OLD_MIGRATING_TEXT => Ok(true),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// Writes the beginning of an old header, but for its last zero, which is there.
fn set_old_text(ctx: &mut Ctx<'_, '_>, text: &'static [u8]) -> Result<(), Stop> {
    ctx.write(0, Bytes::from_static(&text[..text.len() - 1]))
}

pub(super) fn set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let migration: Migration = input(given)?;
    if ctx.value(KEY)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    match stored::<u64>(ctx, b"features")? {
        None => {
            if old_is_migrating(ctx)? {
                return Err(Errno::EEXIST.into());
            }
            if migration.side != SOURCE {
                return Err(Errno::EINVAL.into());
            }
            set_old_text(ctx, OLD_MIGRATING_TEXT)?;
        }
        Some(features) if features & feature::MIGRATING != 0 => {
            if migration.side != DESTINATION {
                return Err(Errno::EEXIST.into());
            }
        }
        Some(features) => put(ctx, b"features", &(features | feature::MIGRATING))?,
    }
    put(ctx, KEY, &migration)?;
    done()
}

fn read(ctx: &mut Ctx<'_, '_>) -> Result<Migration, Stop> {
    match stored::<u64>(ctx, b"features")? {
        None if !old_is_migrating(ctx)? => return Err(Errno::EINVAL.into()),
        Some(features) if features & feature::MIGRATING == 0 => return Err(Errno::EINVAL.into()),
        _ => {}
    }
    required(ctx, KEY)
}

pub(super) fn set_state(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (state, description): (u8, Bytes) = input(given)?;
    let migration = read(ctx)?;
    put(ctx, KEY, &Migration { state, description, ..migration })?;
    done()
}

pub(super) fn show(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(read(ctx)?.to_bytes())
}

pub(super) fn remove(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    unset(ctx, KEY)?;
    match stored::<u64>(ctx, b"features")? {
        None => {
            if !old_is_migrating(ctx)? {
                return Err(Errno::EINVAL.into());
            }
            set_old_text(ctx, OLD_TEXT)?;
        }
        Some(features) if features & feature::MIGRATING != 0 => {
            put(ctx, b"features", &(features & !feature::MIGRATING))?;
        }
        Some(_) => {}
    }
    done()
}
