//! `version`: a version number with a tag in an attribute, set, raised and checked under conditions.
//!
//! Follows Ceph v16.2 `src/cls/version/cls_version.cc`, `cls_version_types.h` and `cls_version_ops.h`.

use super::{Answer, Ctx, Flags, Method, Unless, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("set", Flags::RD_WR, set),
    method("inc", Flags::RD_WR, inc),
    method("inc_conds", Flags::RD_WR, inc),
    method("read", Flags::RD, read),
    method("check_conds", Flags::RD, check),
];

const ATTR: &[u8] = b"ceph.objclass.version";
/// The length of a tag that is made up here.
const TAG_BYTES: usize = 24;

/// `obj_version`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Version {
    number: u64,
    tag: Bytes,
}

impl Encode for Version {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.u64(self.number);
            e.put(&self.tag);
        });
    }
}

impl Decode for Version {
    const MIN_BYTES: usize = 18;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("obj_version", 1, |d, _| Ok(Version { number: d.u64()?, tag: d.get()? }))
    }
}

/// `obj_version_cond`.
struct Condition {
    version: Version,
    kind: u32,
}

impl Decode for Condition {
    const MIN_BYTES: usize = 28;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("obj_version_cond", 1, |d, _| Ok(Condition { version: d.get()?, kind: d.u32()? }))
    }
}

impl Condition {
    /// Whether the object's version meets the condition; kinds that are not known hold (`VersionCond`).
    fn holds(&self, held: &Version) -> bool {
        let given = &self.version;
        match self.kind {
            1 => held == given,
            2 => held.number > given.number,
            3 => held.number >= given.number,
            4 => held.number < given.number,
            5 => held.number <= given.number,
            6 => held.tag == given.tag,
            7 => held.tag != given.tag,
            _ => true,
        }
    }
}

/// `cls_version_inc_op` and `cls_version_check_op`.
struct Conditions(Vec<Condition>);

impl Decode for Conditions {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_version_inc_op", 1, |d, _| {
            let _unused: Version = d.get()?;
            Ok(Conditions(d.get()?))
        })
    }
}

impl Conditions {
    fn check(&self, held: &Version) -> Result<(), Stop> {
        if self.0.iter().all(|condition| condition.holds(held)) { Ok(()) } else { Err(Errno::ECANCELED.into()) }
    }
}

fn stored(ctx: &mut Ctx<'_, '_>) -> Result<Option<Version>, Stop> {
    match ctx.attr(ATTR).unless(Errno::ENODATA).unless(Errno::ENOENT)?.flatten() {
        Some(bytes) => Decoder::shared(&bytes).get().map(Some).map_err(|_| Errno::EIO.into()),
        None => Ok(None),
    }
}

/// `cls_version_set_op` and `cls_version_read_ret`: a version in one more envelope.
struct Enveloped(Version);

impl Encode for Enveloped {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| e.put(&self.0));
    }
}

impl Decode for Enveloped {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_version_set_op", 1, |d, _| Ok(Enveloped(d.get()?)))
    }
}

fn set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Enveloped(version) = input(given)?;
    ctx.set_attr(ATTR, version.to_bytes())?;
    done()
}

fn inc(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let conditions: Conditions = input(given)?;
    let mut version = match stored(ctx)? {
        Some(version) => version,
        // An object's first version is 1 with a tag of its own; it is then raised like any other.
        None => Version { number: 1, tag: ctx.random_text(TAG_BYTES) },
    };
    conditions.check(&version)?;
    version.number = version.number.wrapping_add(1);
    ctx.set_attr(ATTR, version.to_bytes())?;
    done()
}

fn check(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let conditions: Conditions = input(given)?;
    conditions.check(&stored(ctx)?.unwrap_or_default())?;
    done()
}

fn read(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(Enveloped(stored(ctx)?.unwrap_or_default()).to_bytes())
}
