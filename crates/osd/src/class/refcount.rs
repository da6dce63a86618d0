//! `refcount`: named references to an object, which goes with the last of them.
//!
//! Follows Ceph v16.2 `src/cls/refcount/cls_refcount.cc` and `cls_refcount_ops.h`. An object without the attribute has,
//! for callers that say so, one reference without a name (the wildcard), so that objects older than their counting
//! can be shared.

use super::{Answer, Ctx, Flags, Method, Unless, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("get", Flags::RD_WR, take),
    method("put", Flags::RD_WR, put),
    method("set", Flags::RD_WR, set),
    method("read", Flags::RD, read),
];

const ATTR: &[u8] = b"refcount";
const WILDCARD: Bytes = Bytes::new();

/// `obj_refcount`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct References {
    held: BTreeMap<Bytes, bool>,
    /// Those given back: a name is given back once.
    retired: BTreeSet<Bytes>,
}

impl Encode for References {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.held);
            e.put(&self.retired);
        });
    }
}

impl Decode for References {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("obj_refcount", 2, |d, version| {
            Ok(References { held: d.get()?, retired: if version >= 2 { d.get()? } else { BTreeSet::new() } })
        })
    }
}

fn stored(ctx: &mut Ctx<'_, '_>, implicit: bool) -> Result<References, Stop> {
    match ctx.attr(ATTR).unless(Errno::ENODATA)? {
        Some(bytes) => Decoder::shared(&bytes).get().map_err(|_| Errno::EIO.into()),
        None => {
            let held = implicit.then_some((WILDCARD, true)).into_iter().collect();
            Ok(References { held, retired: BTreeSet::new() })
        }
    }
}

/// `cls_refcount_get_op` and `cls_refcount_put_op`.
struct Named {
    tag: Bytes,
    implicit: bool,
}

impl Decode for Named {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_refcount_get_op", 1, |d, _| Ok(Named { tag: d.get()?, implicit: d.bool()? }))
    }
}

fn take(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Named { tag, implicit } = input(given)?;
    let mut references = stored(ctx, implicit)?;
    references.held.insert(tag, true);
    ctx.set_attr(ATTR, references.to_bytes())?;
    done()
}

fn put(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Named { tag, implicit } = input(given)?;
    let mut references = stored(ctx, implicit)?;
    if references.held.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let name = match references.held.contains_key(&tag) {
        true => Some(tag.clone()),
        false => Some(WILDCARD).filter(|_| implicit && references.held.contains_key(&WILDCARD)),
    };
    let Some(name) = name.filter(|_| !references.retired.contains(&tag)) else { return done() };
    references.held.remove(&name);
    references.retired.insert(tag);
    if references.held.is_empty() {
        ctx.remove()?;
    } else {
        ctx.set_attr(ATTR, references.to_bytes())?;
    }
    done()
}

/// `cls_refcount_set_op` and `cls_refcount_read_ret`: the names.
struct Names(Vec<Bytes>);

impl Encode for Names {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| e.put(&self.0));
    }
}

impl Decode for Names {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_refcount_set_op", 1, |d, _| Ok(Names(d.get()?)))
    }
}

fn set(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let Names(names) = input(given)?;
    if names.is_empty() {
        ctx.remove()?;
    } else {
        let held = names.into_iter().map(|name| (name, true)).collect();
        ctx.set_attr(ATTR, References { held, retired: BTreeSet::new() }.to_bytes())?;
    }
    done()
}

fn read(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct ReadInput(bool);
    impl Decode for ReadInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            d.versioned("cls_refcount_read_op", 1, |d, _| Ok(ReadInput(d.bool()?)))
        }
    }
    let ReadInput(implicit) = input(given)?;
    Ok(Names(stored(ctx, implicit)?.held.into_keys().collect()).to_bytes())
}
