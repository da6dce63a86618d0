//! `hello`: Ceph's example class. Tests of clients and of this OSD use it, the two methods that break their flags
//! among them.
//!
//! Follows Ceph v16.2 `src/cls/hello/cls_hello.cc`.

use super::{Answer, Ctx, Flags, Method, done, method};
use crate::ops::execution::Stop;
use base::Errno;
use bytes::Bytes;

pub(super) const METHODS: &[Method] = &[
    method("say_hello", Flags::RD, say),
    method("record_hello", Flags::WR_PROMOTE, record),
    method("write_return_data", Flags::WR, write_and_answer),
    method("writes_dont_return_data", Flags::WR, write_and_answer),
    method("write_too_much_return_data", Flags::WR, write_and_answer_much),
    method("replay", Flags::RD, replay),
    method("turn_it_to_11", Flags::RD_WR_PROMOTE, shout),
    method("bad_reader", Flags::WR, read_without_right),
    method("bad_writer", Flags::RD, write_without_right),
];

/// The longest name that is greeted.
const NAME_BYTES_MAX: usize = 100;
/// How much of a greeting is read back.
const GREETING_BYTES_MAX: u64 = 1100;

fn greeting(name: &Bytes) -> Result<Bytes, Stop> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::EINVAL.into());
    }
    let name: &[u8] = if name.is_empty() { b"world" } else { name };
    Ok([b"Hello, ", name, b"!"].concat().into())
}

fn say(_: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    greeting(given)
}

fn record(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    let text = greeting(given)?;
    if ctx.stat().is_ok() {
        return Err(Errno::EEXIST.into());
    }
    ctx.write_full(text)?;
    sign(ctx, b"said_by")
}

/// Notes who called.
fn sign(ctx: &mut Ctx<'_, '_>, attr: &[u8]) -> Answer {
    let caller = ctx.caller();
    ctx.set_attr(attr, format!("{} {}", caller.name, caller.addr).into())?;
    done()
}

fn write_and_answer(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    ctx.set_attr(b"foo", Bytes::from_static(b"bar"))?;
    if !given.is_empty() {
        ctx.answer_failure(Bytes::from_static(b"too much input data!"));
        return Err(Errno::EINVAL.into());
    }
    ctx.set_result(42);
    Ok(Bytes::from_static(b"you might see this"))
}

fn write_and_answer_much(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    ctx.set_attr(b"foo", Bytes::from_static(b"bar"))?;
    ctx.set_result(42);
    Ok(b"you should not see this because it is toooooo long. ".repeat(10).into())
}

fn replay(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    ctx.read(0, GREETING_BYTES_MAX)
}

fn shout(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    if !given.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let text = ctx.read(0, GREETING_BYTES_MAX)?.to_ascii_uppercase();
    ctx.write_full(text.into())?;
    sign(ctx, b"amplified_by")
}

fn read_without_right(ctx: &mut Ctx<'_, '_>, _: &Bytes) -> Answer {
    ctx.read(0, 100)
}

fn write_without_right(ctx: &mut Ctx<'_, '_>, given: &Bytes) -> Answer {
    ctx.write_full(given.clone())?;
    done()
}
