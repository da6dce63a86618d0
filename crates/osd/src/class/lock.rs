//! `lock`: advisory locks on an object, kept in its attributes.
//!
//! Follows Ceph v16.2 `src/cls/lock/cls_lock.cc`, `cls_lock_ops.cc` and `cls_lock_types.cc`. A lock is an attribute
//! `lock.NAME` that holds its holders; one whose holders' time is over is free. An ephemeral lock's object goes with
//! its holder.

use super::{Answer, Ctx, Flags, Method, Unless, done, input, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::types::{AddrKind, EntityAddr, EntityName, UTime};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

pub(super) const METHODS: &[Method] = &[
    method("lock", Flags::RD_WR_PROMOTE, lock),
    method("unlock", Flags::RD_WR_PROMOTE, unlock),
    method("break_lock", Flags::RD_WR, break_lock),
    method("get_info", Flags::RD, info),
    method("list_locks", Flags::RD, list),
    method("assert_locked", Flags::RD_PROMOTE, assert_locked),
    method("set_cookie", Flags::RD_WR_PROMOTE, set_cookie),
];

const ATTR_PREFIX: &[u8] = b"lock.";

/// How a lock is held (`ClsLockType`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Kind(u8);

impl Kind {
    const EXCLUSIVE: Kind = Kind(1);
    const SHARED: Kind = Kind(2);
    const EPHEMERAL: Kind = Kind(3);

    fn is_exclusive(self) -> bool {
        self == Kind::EXCLUSIVE || self == Kind::EPHEMERAL
    }

    fn is_valid(self) -> bool {
        self.is_exclusive() || self == Kind::SHARED
    }
}

wire::newtype_codec! { Kind = Kind as u8; }

/// Taking a lock that one holds already renews it.
const MAY_RENEW: u8 = 1;
/// Only renew.
const MUST_RENEW: u8 = 2;

/// Who holds a lock (`locker_id_t`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct HolderId {
    entity: EntityName,
    cookie: Bytes,
}

impl Encode for HolderId {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.entity);
            e.put(&self.cookie);
        });
    }
}

impl Decode for HolderId {
    const MIN_BYTES: usize = 19;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("locker_id_t", 1, |d, _| Ok(HolderId { entity: d.get()?, cookie: d.get()? }))
    }
}

/// What is known of a holder (`locker_info_t`).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Holder {
    /// Zero for never.
    expires: UTime,
    addr: EntityAddr,
    description: Bytes,
}

impl Encode for Holder {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.expires);
            e.put(&self.addr);
            e.put(&self.description);
        });
    }
}

impl Decode for Holder {
    const MIN_BYTES: usize = 25;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("locker_info_t", 1, |d, _| Ok(Holder { expires: d.get()?, addr: d.get()?, description: d.get()? }))
    }
}

/// A lock (`lock_info_t`; `cls_lock_get_info_reply` has the same form).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Lock {
    holders: BTreeMap<HolderId, Holder>,
    kind: Kind,
    tag: Bytes,
}

impl Encode for Lock {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.holders);
            e.put(&self.kind);
            e.put(&self.tag);
        });
    }
}

impl Decode for Lock {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("lock_info_t", 1, |d, _| Ok(Lock { holders: d.get()?, kind: d.get()?, tag: d.get()? }))
    }
}

fn attr(name: &[u8]) -> Vec<u8> {
    [ATTR_PREFIX, name].concat()
}

/// The lock `name`, without the holders whose time is over. ENOENT if the object is missing.
fn read(ctx: &mut Ctx<'_, '_>, name: &[u8]) -> Result<Lock, Stop> {
    let Some(stored) = ctx.attr(&attr(name)).unless(Errno::ENODATA)? else { return Ok(Lock::default()) };
    let mut lock = Lock::from_stored(&stored)?;
    let now = ctx.now();
    lock.holders.retain(|_, holder| holder.expires == UTime::default() || holder.expires >= now);
    if lock.holders.is_empty() && lock.kind == Kind::EPHEMERAL {
        ctx.remove()?;
    }
    Ok(lock)
}

impl Lock {
    fn from_stored(bytes: &Bytes) -> Result<Lock, Stop> {
        Decoder::shared(bytes).get().map_err(|_| Errno::EIO.into())
    }
}

fn write(ctx: &mut Ctx<'_, '_>, name: &[u8], lock: &Lock) -> Result<(), Stop> {
    ctx.set_attr(&attr(name), lock.to_bytes())
}

/// Adds a span to a time as `utime_t` does: what does not fit ends at the last second.
fn later(at: UTime, span: UTime) -> UTime {
    let nanos = u64::from(at.nanos) + u64::from(span.nanos);
    let secs = u64::from(at.secs) + u64::from(span.secs) + nanos / 1_000_000_000;
    UTime { secs: u32::try_from(secs).unwrap_or(u32::MAX), nanos: (nanos % 1_000_000_000) as u32 }
}

struct LockInput {
    name: Bytes,
    kind: Kind,
    cookie: Bytes,
    tag: Bytes,
    description: Bytes,
    span: UTime,
    flags: u8,
}

impl Decode for LockInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_lock_lock_op", 1, |d, _| {
            Ok(LockInput {
                name: d.get()?,
                kind: d.get()?,
                cookie: d.get()?,
                tag: d.get()?,
                description: d.get()?,
                span: d.get()?,
                flags: d.u8()?,
            })
        })
    }
}

fn lock(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: LockInput = input(given)?;
    let may_renew = asked.flags & MAY_RENEW != 0;
    let must_renew = asked.flags & MUST_RENEW != 0;
    if !asked.kind.is_valid() || asked.name.is_empty() || may_renew && must_renew {
        return Err(Errno::EINVAL.into());
    }
    let mut lock = read(ctx, &asked.name).unless(Errno::ENOENT)?.unwrap_or_default();
    if !lock.holders.is_empty() && asked.tag != lock.tag {
        return Err(Errno::EBUSY.into());
    }
    let caller = ctx.caller();
    let id = HolderId { entity: caller.name, cookie: asked.cookie };
    let held = lock.holders.remove(&id).is_some();
    if held && !may_renew && !must_renew {
        return Err(Errno::EEXIST.into());
    }
    if !held && must_renew {
        return Err(Errno::ENOENT.into());
    }
    if !lock.holders.is_empty() && (asked.kind.is_exclusive() || lock.kind != asked.kind) {
        return Err(Errno::EBUSY.into());
    }
    let expires = if asked.span == UTime::default() { asked.span } else { later(ctx.now(), asked.span) };
    // Ceph keeps addresses as if they were msgr1's, so that a client that came by either is the same holder.
    let addr = EntityAddr { kind: AddrKind::Legacy, ..caller.addr };
    lock.kind = asked.kind;
    lock.tag = asked.tag;
    lock.holders.insert(id, Holder { expires, addr, description: asked.description });
    write(ctx, &asked.name, &lock)?;
    done()
}

fn release(ctx: &mut Ctx<'_, '_>, name: &[u8], id: &HolderId) -> Answer {
    let mut lock = read(ctx, name)?;
    if lock.holders.remove(id).is_none() {
        return Err(Errno::ENOENT.into());
    }
    if lock.kind == Kind::EPHEMERAL {
        ctx.remove()?;
    } else {
        write(ctx, name, &lock)?;
    }
    done()
}

struct UnlockInput {
    name: Bytes,
    cookie: Bytes,
}

impl Decode for UnlockInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_lock_unlock_op", 1, |d, _| Ok(UnlockInput { name: d.get()?, cookie: d.get()? }))
    }
}

fn unlock(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let UnlockInput { name, cookie } = input(given)?;
    let id = HolderId { entity: ctx.caller().name, cookie };
    release(ctx, &name, &id)
}

struct BreakInput {
    name: Bytes,
    id: HolderId,
}

impl Decode for BreakInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_lock_break_op", 1, |d, _| {
            Ok(BreakInput { name: d.get()?, id: HolderId { entity: d.get()?, cookie: d.get()? } })
        })
    }
}

fn break_lock(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let BreakInput { name, id } = input(given)?;
    release(ctx, &name, &id)
}

fn info(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct InfoInput(Bytes);
    impl Decode for InfoInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            d.versioned("cls_lock_get_info_op", 1, |d, _| Ok(InfoInput(d.get()?)))
        }
    }
    let InfoInput(name) = input(given)?;
    Ok(read(ctx, &name)?.to_bytes())
}

fn list(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    let attrs = ctx.attrs()?;
    let names: Vec<Bytes> =
        attrs.keys().filter(|name| name.starts_with(ATTR_PREFIX)).map(|name| name.slice(ATTR_PREFIX.len()..)).collect();
    let mut e = Encoder::new();
    e.versioned(1, 1, |e| e.put(&names));
    Ok(e.finish())
}

/// What names a lock that the caller says it holds.
struct HeldInput {
    name: Bytes,
    kind: Kind,
    cookie: Bytes,
    tag: Bytes,
}

impl HeldInput {
    fn read(d: &mut Decoder<'_>) -> Result<HeldInput, Malformed> {
        Ok(HeldInput { name: d.get()?, kind: d.get()?, cookie: d.get()?, tag: d.get()? })
    }

    /// The lock, if the caller holds it as it says; EBUSY if not.
    fn check(&self, ctx: &mut Ctx<'_, '_>) -> Result<(Lock, HolderId), Stop> {
        if !self.kind.is_valid() || self.name.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        let lock = read(ctx, &self.name)?;
        let id = HolderId { entity: ctx.caller().name, cookie: self.cookie.clone() };
        if lock.kind == self.kind && lock.tag == self.tag && lock.holders.contains_key(&id) {
            Ok((lock, id))
        } else {
            Err(Errno::EBUSY.into())
        }
    }
}

impl Decode for HeldInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_lock_assert_op", 1, |d, _| HeldInput::read(d))
    }
}

fn assert_locked(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: HeldInput = input(given)?;
    asked.check(ctx)?;
    done()
}

struct CookieInput {
    held: HeldInput,
    new: Bytes,
}

impl Decode for CookieInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("cls_lock_set_cookie_op", 1, |d, _| Ok(CookieInput { held: HeldInput::read(d)?, new: d.get()? }))
    }
}

fn set_cookie(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let CookieInput { held, new } = input(given)?;
    let (mut lock, id) = held.check(ctx)?;
    let new_id = HolderId { entity: id.entity, cookie: new };
    if lock.holders.contains_key(&new_id) {
        return Err(Errno::EBUSY.into());
    }
    let holder = lock.holders.remove(&id).expect("checked above");
    lock.holders.insert(new_id, holder);
    write(ctx, &held.name, &lock)?;
    done()
}
