//! Object classes: methods that clients call on an object, with an input and an output of their own.
//!
//! A class is a table of methods; a method is a pure function of what it is given and what it asks about the object
//! (`Ctx`), and changes the object through the very ops that clients send. Owns the registry, and the rules around a
//! call: Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_osd_ops`, CEPH_OSD_OP_CALL), `src/osd/OSD.cc` (`init_op_flags`) and
//! `src/osd/ClassHandler.cc`.
//!
//! Invariants: a method never knows more than its request and its answers, so that a call that asks can run again; a
//! method whose flags do not say that it reads (writes) cannot, and fails with EIO if it tries.
//!
//! Read next: `ctx`; then any class: one file or folder each, as Ceph names it.

mod cas;
mod ctx;
mod hello;
mod journal;
mod lock;
mod log;
mod numops;
mod rbd;
mod refcount;
mod time_key;
mod timeindex;
mod version;

#[cfg(test)]
mod tests;

use crate::ops::execution::{Execution, Step, Stop};
use base::Errno;
use bytes::Bytes;
pub(crate) use ctx::Ctx;
use wire::osd::OsdOpItem;
use wire::osd::payload::call_parts;
use wire::{Decode, Decoder};

/// What a method may do (`CLS_METHOD_*`, v16.2 `src/include/rados/objclass.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags(u8);

impl Flags {
    /// It reads the object.
    pub(crate) const RD: Flags = Flags(1);
    /// It changes the object.
    pub(crate) const WR: Flags = Flags(2);
    /// It reads and changes.
    pub(crate) const RD_WR: Flags = Flags(3);
    /// It reads; a cache tier would have to bring the object in.
    pub(crate) const RD_PROMOTE: Flags = Flags(1 | 8);
    /// It changes; a cache tier would have to bring the object in.
    pub(crate) const WR_PROMOTE: Flags = Flags(2 | 8);
    /// It reads and changes; a cache tier would have to bring the object in.
    pub(crate) const RD_WR_PROMOTE: Flags = Flags(3 | 8);

    /// Whether the method reads the object.
    pub(crate) fn reads(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether the method changes the object.
    pub(crate) fn writes(self) -> bool {
        self.0 & 2 != 0
    }
}

/// A method's output, or why there is none.
pub(crate) type Answer = Result<Bytes, Stop>;

/// A method's code: it gets the context of its call, and its input.
type Run = fn(&mut Ctx<'_, '_>, &Bytes) -> Answer;

/// A method of a class.
#[derive(Debug)]
pub(crate) struct Method {
    name: &'static str,
    pub(crate) flags: Flags,
    run: Run,
}

const fn method(name: &'static str, flags: Flags, run: Run) -> Method {
    Method { name, flags, run }
}

/// The classes: name and methods.
const CLASSES: &[(&str, &[Method])] = &[
    ("cas", cas::METHODS),
    ("hello", hello::METHODS),
    ("journal", journal::METHODS),
    ("lock", lock::METHODS),
    ("log", log::METHODS),
    ("numops", numops::METHODS),
    ("rbd", rbd::METHODS),
    ("refcount", refcount::METHODS),
    ("timeindex", timeindex::METHODS),
    ("version", version::METHODS),
];

/// Classes that Ceph's OSDs load (`osd_class_load_list`) and that are not here: their methods are not supported. Any
/// other name is one that nobody may load.
const LEFT_OUT: &[&str] = &["2pc_queue", "cephfs", "cmpomap", "fifo", "otp", "queue", "rgw", "rgw_gc", "user"];

/// Whether a class is one that Ceph's OSDs load, be it here or not.
pub(crate) fn may_be_loaded(class: &[u8]) -> bool {
    let mut names = CLASSES.iter().map(|(name, _)| name).chain(LEFT_OUT);
    names.any(|name| name.as_bytes() == class)
}

/// A call as a request names it.
#[derive(Debug)]
pub(crate) struct Call {
    /// The class's name.
    pub(crate) class: &'static str,
    /// What is called.
    pub(crate) method: &'static Method,
    input: Bytes,
}

impl Call {
    /// What an op calls. EOPNOTSUPP for a class or method that is not here, EPERM for a class that Ceph does not know,
    /// EINVAL for lengths beyond the payload.
    pub(crate) fn of(item: &OsdOpItem) -> Result<Call, Errno> {
        let (class, name, input) = call_parts(item).map_err(|_| Errno::EINVAL)?;
        let known = CLASSES.iter().find(|(known, _)| known.as_bytes() == class);
        let Some((class, methods)) = known else {
            let left_out = LEFT_OUT.iter().any(|name| name.as_bytes() == class);
            return Err(if left_out { Errno::EOPNOTSUPP } else { Errno::EPERM });
        };
        let method = methods.iter().find(|method| method.name.as_bytes() == name).ok_or(Errno::EOPNOTSUPP)?;
        Ok(Call { class, method, input })
    }

    /// The method's name.
    pub(crate) fn method_name(&self) -> &'static str {
        self.method.name
    }
}

/// Runs a call within a request.
pub(crate) fn call(x: &mut Execution<'_>, item: &OsdOpItem) -> Step {
    let Call { method, input, .. } = Call::of(item)?;
    let mut ctx = Ctx::new(x);
    let answer = (method.run)(&mut ctx, &input);
    let used = ctx.used();
    if let Err(Stop::Ask(_)) = answer {
        return answer;
    }
    let (result, failure) = ctx.finish();
    if !used.within(method.flags) {
        return Err(Errno::EIO.into());
    }
    match answer {
        Ok(out) => {
            x.result = result;
            Ok(out)
        }
        Err(stop) => {
            x.failed_output = failure;
            Err(stop)
        }
    }
}

/// A method's input; bytes after it are ignored, as in Ceph. EINVAL if it does not follow its format.
fn input<T: Decode>(given: &Bytes) -> Result<T, Stop> {
    Decoder::shared(given).get().map_err(|_| Errno::EINVAL.into())
}

/// The answer of a method that has done its work and has nothing to say.
fn done() -> Answer {
    Ok(Bytes::new())
}

/// Failures that a caller expects.
trait Unless<T> {
    /// None in place of a failure with this errno.
    fn unless(self, errno: Errno) -> Result<Option<T>, Stop>;
}

impl<T> Unless<T> for Result<T, Stop> {
    fn unless(self, errno: Errno) -> Result<Option<T>, Stop> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Fail(code)) if code == errno.code() => Ok(None),
            Err(stop) => Err(stop),
        }
    }
}
