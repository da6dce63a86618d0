//! Ops on an object's attributes.

use super::execution::{Execution, NOTHING, Step, Stop, fail};
use super::state::{USER_ATTR_PREFIX, user_attr};
use crate::limits::{ATTR_NAME_BYTES_MAX, ATTR_VALUE_BYTES_MAX};
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{AttrsWant, ObjectWant, Op};
use wire::osd::op::{CMP_MODE_STRING, CMP_MODE_U64, CmpOp};
use wire::osd::payload::xattr_parts;
use wire::osd::{OpCode, OpParams, OsdOpItem};
use wire::{Decode, Encode};

/// Adds what a reading op needs.
pub(super) fn plan(item: &OsdOpItem, want: &mut ObjectWant) {
    if item.op == OpCode::GETXATTRS {
        want.attrs = AttrsWant::All;
    } else if let (AttrsWant::Named(names), Ok((name, _))) = (&mut want.attrs, xattr_parts(item)) {
        names.push(user_attr(&name));
    }
}

fn parts(item: &OsdOpItem) -> Result<(Bytes, Bytes), Stop> {
    xattr_parts(item).map_err(|_| Errno::EINVAL.into())
}

fn held(x: &Execution, name: &[u8]) -> Result<Bytes, Errno> {
    x.view.attr(&user_attr(name)).cloned().ok_or(Errno::ENODATA)
}

pub(super) fn get(x: &mut Execution, item: &OsdOpItem) -> Step {
    let (name, _) = parts(item)?;
    let value = held(x, &name)?;
    x.result = 0;
    Ok(value)
}

pub(super) fn get_all(x: &mut Execution) -> Step {
    let users = x.view.attrs.iter().filter(|(name, _)| name.first() == Some(&USER_ATTR_PREFIX));
    let all: BTreeMap<Bytes, Bytes> = users.map(|(name, value)| (name.slice(1..), value.clone())).collect();
    x.result = 0;
    Ok(all.to_bytes())
}

pub(super) fn compare(x: &mut Execution, item: &OsdOpItem) -> Step {
    let (name, given) = parts(item)?;
    let OpParams::Xattr { cmp_op, cmp_mode, .. } = item.params() else { return fail(Errno::EINVAL) };
    let Some(op) = CmpOp::from_wire(cmp_op) else { return fail(Errno::EINVAL) };
    // A missing attribute compares as an empty one.
    let stored = held(x, &name).unwrap_or_default();
    let holds = match cmp_mode {
        CMP_MODE_STRING => op.holds(given, stored),
        CMP_MODE_U64 => {
            let given = u64::from_bytes(&given).map_err(|_| Errno::EINVAL)?;
            op.holds(given, number(&stored)?)
        }
        _ => return fail(Errno::EINVAL),
    };
    if !holds {
        return fail(Errno::ECANCELED);
    }
    // A comparison that holds answers 1, not 0.
    x.result = 1;
    NOTHING
}

/// An attribute's text as a decimal number; an empty one is 0.
fn number(text: &[u8]) -> Result<u64, Stop> {
    if text.is_empty() {
        return Ok(0);
    }
    let text = core::str::from_utf8(text).ok().and_then(|t| t.trim_end_matches('\0').parse().ok());
    text.ok_or(Errno::EINVAL.into())
}

pub(super) fn set(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Xattr { name_len, value_len, .. } = item.params() else { return fail(Errno::EINVAL) };
    if value_len as usize > ATTR_VALUE_BYTES_MAX {
        return fail(Errno::EFBIG);
    }
    if name_len as usize > ATTR_NAME_BYTES_MAX {
        return fail(Errno::ENAMETOOLONG);
    }
    let (name, value) = parts(item)?;
    x.ensure_exists();
    x.changes.push(Op::SetAttr(user_attr(&name), value));
    x.result = 0;
    NOTHING
}

pub(super) fn remove(x: &mut Execution, item: &OsdOpItem) -> Step {
    let (name, _) = parts(item)?;
    x.require_exists()?;
    x.changes.push(Op::RemoveAttr(user_attr(&name)));
    x.result = 0;
    NOTHING
}
