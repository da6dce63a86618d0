//! An image's header: creation, size, features, striping, flags, times.

use super::parent;
use super::snapshots;
use super::types::{NO_SNAP, Parent};
use super::{Answer, Ctx, done, input, required, set, stored, unset};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::types::UTime;
use wire::{Decode, Decoder, Encode, Malformed};

/// Image features (v16.2 `src/include/rbd/features.h`).
pub(super) mod feature {
    pub(in super::super) const LAYERING: u64 = 1 << 0;
    pub(super) const STRIPING: u64 = 1 << 1;
    const EXCLUSIVE_LOCK: u64 = 1 << 2;
    const OBJECT_MAP: u64 = 1 << 3;
    const FAST_DIFF: u64 = 1 << 4;
    pub(in super::super) const DEEP_FLATTEN: u64 = 1 << 5;
    const JOURNALING: u64 = 1 << 6;
    pub(super) const DATA_POOL: u64 = 1 << 7;
    pub(super) const OPERATIONS: u64 = 1 << 8;
    pub(in super::super) const MIGRATING: u64 = 1 << 9;
    const NON_PRIMARY: u64 = 1 << 10;
    const DIRTY_CACHE: u64 = 1 << 11;
    pub(super) const ALL: u64 = (1 << 12) - 1;
    /// Who does not know these can neither read nor write the image.
    pub(super) const INCOMPATIBLE: u64 = LAYERING | STRIPING | DATA_POOL | DIRTY_CACHE;
    /// Who does not know these cannot write the image.
    pub(super) const WRITE_INCOMPATIBLE: u64 = INCOMPATIBLE
        | EXCLUSIVE_LOCK
        | OBJECT_MAP
        | FAST_DIFF
        | DEEP_FLATTEN
        | JOURNALING
        | OPERATIONS
        | MIGRATING
        | NON_PRIMARY;
    /// Can be switched.
    pub(super) const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// Can be switched off.
    pub(super) const MUTABLE_OFF: u64 = MUTABLE | DEEP_FLATTEN;
    /// The class's own business.
    pub(super) const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// What an image has been used for that old clients cannot deal with.
pub(super) mod op_feature {
    pub(in super::super) const CLONE_PARENT: u64 = 1 << 0;
    pub(in super::super) const CLONE_CHILD: u64 = 1 << 1;
    pub(in super::super) const GROUP: u64 = 1 << 2;
    pub(in super::super) const SNAP_TRASH: u64 = 1 << 3;
    pub(super) const ALL: u64 = (1 << 4) - 1;
}

/// The largest order whose objects' size is a number.
const ORDER_MAX: u8 = 63;

/// ENOEXEC if the image lacks a feature, or has none because it is of the old format.
pub(super) fn require(ctx: &mut Ctx<'_, '_>, needed: u64) -> Result<(), Stop> {
    match stored::<u64>(ctx, b"features")? {
        Some(features) if features & needed == needed => Ok(()),
        _ => Err(Errno::ENOEXEC.into()),
    }
}

/// Notes what the image is used for, within `mask`.
pub(super) fn change_op_features(ctx: &mut Ctx<'_, '_>, wanted: u64, mask: u64) -> Result<(), Stop> {
    let features: u64 = required(ctx, b"features")?;
    let before = stored::<u64>(ctx, b"op_features")?.unwrap_or(0);
    let after = before & !mask | wanted & mask;
    if after == before {
        return Ok(());
    }
    let with = if after == 0 {
        unset(ctx, b"op_features")?;
        features & !feature::OPERATIONS
    } else {
        set(ctx, b"op_features", &after)?;
        features | feature::OPERATIONS
    };
    if with != features {
        set(ctx, b"features", &with)?;
    }
    Ok(())
}

struct CreateInput {
    size: u64,
    order: u8,
    features: u64,
    prefix: Bytes,
    data_pool: i64,
}

impl Decode for CreateInput {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (size, order, features, prefix) = (d.u64()?, d.u8()?, d.u64()?, d.get()?);
        let data_pool = if d.remaining() > 0 { d.i64()? } else { -1 };
        Ok(CreateInput { size, order, features, prefix, data_pool })
    }
}

pub(super) fn create(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let asked: CreateInput = input(given)?;
    if asked.features & !feature::ALL != 0 {
        return Err(Errno::ENOSYS.into());
    }
    if asked.prefix.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if ctx.value(b"object_prefix")?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    let elsewhere = asked.features & feature::DATA_POOL != 0;
    if asked.features & feature::OPERATIONS != 0 || elsewhere != (asked.data_pool != -1) {
        return Err(Errno::EINVAL.into());
    }
    let now = ctx.now().to_bytes();
    let mut values: BTreeMap<Bytes, Bytes> = [
        ("size", asked.size.to_bytes()),
        ("order", asked.order.to_bytes()),
        ("features", asked.features.to_bytes()),
        ("object_prefix", asked.prefix.to_bytes()),
        ("snap_seq", 0u64.to_bytes()),
        ("create_timestamp", now.clone()),
        ("access_timestamp", now.clone()),
        ("modify_timestamp", now),
    ]
    .map(|(key, value)| (Bytes::from(key), value))
    .into();
    if elsewhere {
        values.insert("data_pool_id".into(), asked.data_pool.to_bytes());
    }
    ctx.set_values(values)?;
    done()
}

pub(super) fn features(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct FeaturesInput {
        read_only: bool,
    }
    impl Decode for FeaturesInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            let _snap = d.u64()?;
            Ok(FeaturesInput { read_only: if d.remaining() > 0 { d.bool()? } else { false } })
        }
    }
    let FeaturesInput { read_only } = input(given)?;
    let features: u64 = required(ctx, b"features")?;
    let mask = if read_only { feature::INCOMPATIBLE } else { feature::WRITE_INCOMPATIBLE };
    Ok((features, features & mask).to_bytes())
}

pub(super) fn set_features(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (wanted, mask): (u64, u64) = input(given)?;
    let before = stored::<u64>(ctx, b"features")?.unwrap_or(0);
    if mask & feature::INTERNAL != 0 {
        return Err(Errno::EINVAL.into());
    }
    // Newer clients may want to switch off what is not known here.
    let mask = mask & feature::ALL;
    if wanted & mask & !feature::MUTABLE != 0 || !wanted & mask & !feature::MUTABLE_OFF != 0 {
        return Err(Errno::EINVAL.into());
    }
    set(ctx, b"features", &(before & !mask | wanted & mask))?;
    done()
}

pub(super) fn size(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let snap: u64 = input(given)?;
    let order: u8 = required(ctx, b"order")?;
    let size: u64 = if snap == NO_SNAP { required(ctx, b"size")? } else { snapshots::required(ctx, snap)?.image_size };
    Ok((order, size).to_bytes())
}

pub(super) fn set_size(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let size: u64 = input(given)?;
    let before: u64 = required(ctx, b"size")?;
    set(ctx, b"size", &size)?;
    if size < before {
        let parent = stored::<Parent>(ctx, parent::KEY)?.unwrap_or_default();
        if parent.exists() && parent.overlap.unwrap_or(0) > size {
            set(ctx, parent::KEY, &Parent { overlap: Some(size), ..parent })?;
        }
    }
    done()
}

pub(super) fn object_prefix(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(required::<Bytes>(ctx, b"object_prefix")?.to_bytes())
}

pub(super) fn data_pool(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(stored::<i64>(ctx, b"data_pool_id")?.unwrap_or(-1).to_bytes())
}

pub(super) fn all_features(_: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(feature::ALL.to_bytes())
}

/// How large objects of an order are; EIO for an order that no image can have.
fn object_size(order: u8) -> Result<u64, Stop> {
    if order <= ORDER_MAX { Ok(1 << order) } else { Err(Errno::EIO.into()) }
}

pub(super) fn striping(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    ctx.stat()?;
    require(ctx, feature::STRIPING)?;
    let unit = match stored::<u64>(ctx, b"stripe_unit")? {
        Some(unit) => unit,
        None => object_size(stored::<u8>(ctx, b"order")?.ok_or(Errno::EIO)?)?,
    };
    let count = stored::<u64>(ctx, b"stripe_count")?.unwrap_or(1);
    Ok((unit, count).to_bytes())
}

pub(super) fn set_striping(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (unit, count): (u64, u64) = input(given)?;
    if unit == 0 || count == 0 {
        return Err(Errno::EINVAL.into());
    }
    ctx.stat()?;
    require(ctx, feature::STRIPING)?;
    let size = object_size(required(ctx, b"order")?)?;
    if size % unit != 0 {
        return Err(Errno::EINVAL.into());
    }
    set(ctx, b"stripe_unit", &unit)?;
    set(ctx, b"stripe_count", &count)?;
    done()
}

pub(super) fn time(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Answer {
    Ok(stored::<UTime>(ctx, key)?.unwrap_or_default().to_bytes())
}

pub(super) fn set_time(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> Answer {
    ctx.stat()?;
    let now = ctx.now();
    set(ctx, key, &now)?;
    done()
}

pub(super) fn flags(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let snap: u64 = input(given)?;
    let flags = if snap == NO_SNAP {
        stored::<u64>(ctx, b"flags")?.unwrap_or(0)
    } else {
        snapshots::required(ctx, snap)?.flags
    };
    Ok(flags.to_bytes())
}

pub(super) fn set_flags(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    struct FlagsInput {
        flags: u64,
        mask: u64,
        snap: u64,
    }
    impl Decode for FlagsInput {
        fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
            let (flags, mask) = (d.u64()?, d.u64()?);
            Ok(FlagsInput { flags, mask, snap: if d.remaining() > 0 { d.u64()? } else { NO_SNAP } })
        }
    }
    let FlagsInput { flags, mask, snap } = input(given)?;
    let changed = |before: u64| before & !mask | flags & mask;
    if snap == NO_SNAP {
        let before = stored::<u64>(ctx, b"flags")?.unwrap_or(0);
        set(ctx, b"flags", &changed(before))?;
    } else {
        let mut snap = snapshots::required(ctx, snap)?;
        snap.flags = changed(snap.flags);
        snapshots::write(ctx, snap)?;
    }
    done()
}

pub(super) fn op_features(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    Ok(stored::<u64>(ctx, b"op_features")?.unwrap_or(0).to_bytes())
}

pub(super) fn set_op_features(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let (wanted, mask): (u64, u64) = input(given)?;
    if mask & !op_feature::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    change_op_features(ctx, wanted, mask)?;
    done()
}
