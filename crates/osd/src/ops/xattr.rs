//! Ops on an object's attributes.
//!
//! One with an empty name would be, in Ceph, the object's own record (v16.2 `src/osd/PrimaryLogPG.cc` puts a `_` before
//! users' names, and `_` alone is the record's): setting it does nothing, and reading it shows the record. Here there is
//! no such attribute.

use super::execution::{Execution, NOTHING, Step, Stop, fail};
use super::state::{USER_ATTR_PREFIX, user_attr};
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
    } else if let Ok((name, _)) = xattr_parts(item) {
        match &mut want.attrs {
            AttrsWant::None => want.attrs = AttrsWant::Named(vec![user_attr(&name)]),
            AttrsWant::Named(names) => names.push(user_attr(&name)),
            AttrsWant::All => {}
        }
    }
}

fn parts(item: &OsdOpItem) -> Result<(Bytes, Bytes), Stop> {
    xattr_parts(item).map_err(|_| Errno::EINVAL.into())
}

fn held(x: &Execution, name: &[u8]) -> Result<Bytes, Errno> {
    // Reads see what was there before the request.
    let missing = if x.view.exists { Errno::ENODATA } else { Errno::ENOENT };
    x.view.attr(&user_attr(name)).cloned().ok_or(missing)
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
    if !x.view.exists {
        x.failed_output = all.to_bytes();
        return fail(Errno::ENOENT);
    }
    x.result = 0;
    Ok(all.to_bytes())
}

pub(super) fn compare(x: &mut Execution, item: &OsdOpItem) -> Step {
    let (name, given) = parts(item)?;
    let OpParams::Xattr { cmp_op, cmp_mode, .. } = item.params() else { return fail(Errno::EINVAL) };
    let Some(op) = CmpOp::from_wire(cmp_op) else { return fail(Errno::EINVAL) };
    // A missing attribute compares as an empty one.
    let stored = match held(x, &name) {
        Err(Errno::ENODATA) => Bytes::new(),
        stored => stored?,
    };
    let holds = match cmp_mode {
        CMP_MODE_STRING => op.holds(given, stored),
        CMP_MODE_U64 => {
            let given = u64::from_bytes(&given).map_err(|_| Errno::EINVAL)?;
            op.holds(given, number(&stored))
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

/// The decimal number that an attribute's text begins with, as C's `strtoull` reads it: space before it is skipped, a
/// minus takes it from 2^64, too large a one is the largest, and no digits are 0.
fn number(text: &[u8]) -> u64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|c| c.is_ascii_digit());
    let add = |number: Option<u64>, digit: &u8| number?.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    match digits.fold(Some(0), add) {
        Some(number) if negative => number.wrapping_neg(),
        Some(number) => number,
        None => u64::MAX,
    }
}

/// `osd_max_attr_size`, where 0 is no limit.
fn attr_too_large(x: &Execution, bytes: usize) -> bool {
    let max = x.tuning().attr_bytes_max;
    max > 0 && bytes > max as usize
}

pub(super) fn set(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Xattr { name_len, .. } = item.params() else { return fail(Errno::EINVAL) };
    if name_len > x.tuning().attr_name_bytes_max {
        return fail(Errno::ENAMETOOLONG);
    }
    let (name, value) = parts(item)?;
    if attr_too_large(x, value.len()) {
        return fail(Errno::EFBIG);
    }
    x.ensure_exists();
    x.changes.push(if name.is_empty() { Op::Touch } else { Op::SetAttr(user_attr(&name), value) });
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
