//! Execution of a request's ops: a pure function of what the object is and what is asked.
//!
//! `plan` says what the ops have to read, before anything runs; `execute` takes the answer and gives results, the
//! changes to commit and the state the object will have. Reads inside a compound see the object as it was before the
//! compound, except for its existence and size, as in Ceph (v16.2 `src/osd/PrimaryLogPG.cc`, `do_osd_ops`).
//!
//! Invariants: the ops succeed or fail as one (a failed compound changes nothing); `execute` consumes the answer's
//! parts in the order in which `plan` asked for them.
//!
//! Read next: `data`, `xattr`, `omap`: one file per family of ops; `state`: what an op knows of its object.

mod data;
mod omap;
pub mod state;
mod xattr;

#[cfg(test)]
mod tests;

use crate::limits::{OPS_PER_REQUEST_MAX, WRITE_REPLY_BYTES_MAX};
use base::{EVersion, Errno};
use bytes::Bytes;
use state::{INFO_ATTR, ObjectInfo, ObjectState};
use store::{AttrsWant, ObjectView, ObjectWant, Op};
use wire::messages::OpOutcome;
use wire::osd::{OpCode, OpFlags, OpParams, OsdOpItem};
use wire::types::UTime;

/// How a request has to be ordered with others on the same object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpClass {
    /// Only reads: runs beside other reads, after the writes before it are durable.
    Read,
    /// Writes that need no more than the object's state: any number in flight.
    Write,
    /// Writes that depend on the object's contents: alone.
    ReadModify,
}

/// What a request needs before it can run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How it is ordered.
    pub class: OpClass,
    /// What it reads; `INFO_ATTR` is among it.
    pub want: ObjectWant,
}

/// Says what `ops` need. Errors are those for which nothing is worth reading: the whole request is refused.
pub fn plan(ops: &[OsdOpItem]) -> Result<Plan, Errno> {
    if ops.len() > OPS_PER_REQUEST_MAX {
        return Err(Errno::EINVAL);
    }
    let mut want = ObjectWant { attrs: AttrsWant::Named(vec![INFO_ATTR]), ..ObjectWant::default() };
    let (mut writes, mut reads) = (false, false);
    for item in ops {
        writes |= item.op.writes();
        reads |= match item.op {
            OpCode::READ | OpCode::SYNC_READ | OpCode::SPARSE_READ | OpCode::MAPEXT | OpCode::CMPEXT => {
                data::plan(item, &mut want);
                true
            }
            OpCode::GETXATTR | OpCode::GETXATTRS | OpCode::CMPXATTR => {
                xattr::plan(item, &mut want);
                true
            }
            OpCode::OMAPGETKEYS
            | OpCode::OMAPGETVALS
            | OpCode::OMAPGETHEADER
            | OpCode::OMAPGETVALSBYKEYS
            | OpCode::OMAP_CMP => {
                omap::plan(item, &mut want);
                true
            }
            _ => false,
        };
    }
    let class = match (writes, reads) {
        (false, _) => OpClass::Read,
        (true, false) => OpClass::Write,
        (true, true) => OpClass::ReadModify,
    };
    Ok(Plan { class, want })
}

/// A request that is ready to run.
#[derive(Debug)]
pub struct Request<'a> {
    /// The ops.
    pub ops: &'a [OsdOpItem],
    /// The object as the writes before this one leave it.
    pub state: ObjectState,
    /// The answer to the plan's `want`; none for a request of class `Write`.
    pub view: Option<Box<ObjectView>>,
    /// The client's time.
    pub mtime: UTime,
    /// Whether a write's outputs go back to the client.
    pub returns_outputs: bool,
}

/// What a request comes to.
#[derive(Debug)]
pub struct Outcome {
    /// 0 or more, or an errno negated.
    pub result: i32,
    /// Each op's result and output.
    pub ops: Vec<OpOutcome>,
    /// What the request changes in the object, without its record; empty if it failed or changes nothing.
    pub changes: Vec<Op>,
    /// The object afterwards; its record's versions are still the old ones.
    pub state: ObjectState,
    /// Whether the change is one that users see, so that the user version grows.
    pub user_modified: bool,
}

impl Outcome {
    /// Whether anything is to be committed.
    pub fn is_change(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Completes the changes with the object's record at its new versions.
    pub fn seal(&mut self, version: EVersion, user_version: u64) {
        if self.state.exists {
            self.state.info.version = version;
            self.state.info.user_version = user_version;
            self.changes.push(Op::SetAttr(INFO_ATTR, self.state.info.to_attr()));
        }
    }
}

/// Runs a request.
pub fn execute(request: Request<'_>) -> Outcome {
    let before = request.state;
    let writes = request.ops.iter().any(|item| item.op.writes());
    let mut x = Execution {
        state: before,
        view: request.view.unwrap_or_default(),
        taken: Taken::default(),
        changes: Vec::new(),
        result: 0,
    };
    let mut outcomes = bare_outcomes(request.ops);
    let mut user_modified = false;
    if !writes && !before.exists {
        x.result = Errno::ENOENT.code();
    } else {
        for (item, outcome) in request.ops.iter().zip(&mut outcomes) {
            user_modified |= item.op.writes() && item.op != OpCode::WATCH;
            match x.step(item) {
                Ok(out) => {
                    outcome.item.payload = out;
                    outcome.result = x.result;
                }
                Err(code) => {
                    outcome.result = code;
                    x.result = if item.flags.has(OpFlags::FAILOK) { 0 } else { code };
                }
            }
            if x.result < 0 {
                break;
            }
        }
    }
    let changed = x.result >= 0 && !x.changes.is_empty();
    let mut result = x.result;
    if changed {
        result =
            if request.returns_outputs { bound_outputs(&mut outcomes, result) } else { drop_outputs(&mut outcomes) };
        if x.state.exists {
            x.state.info.mtime = request.mtime;
        }
    }
    Outcome {
        result,
        ops: outcomes,
        changes: if changed { x.changes } else { Vec::new() },
        state: if changed { x.state } else { before },
        user_modified,
    }
}

/// The request's ops with nothing done: parameters echoed, nothing out.
pub fn bare_outcomes(ops: &[OsdOpItem]) -> Vec<OpOutcome> {
    let bare = |item: &OsdOpItem| OpOutcome { item: OsdOpItem { payload: Bytes::new(), ..*item }, result: 0 };
    ops.iter().map(bare).collect()
}

/// A write's outputs go back only within bounds, because they have to be remembered for a resent request.
fn bound_outputs(outcomes: &mut [OpOutcome], result: i32) -> i32 {
    let mut result = result;
    for outcome in outcomes {
        if outcome.item.payload.len() > WRITE_REPLY_BYTES_MAX {
            outcome.item.payload = Bytes::new();
            outcome.result = Errno::EOVERFLOW.code();
            result = Errno::EOVERFLOW.code();
        }
    }
    result
}

fn drop_outputs(outcomes: &mut [OpOutcome]) -> i32 {
    outcomes.iter_mut().for_each(|outcome| outcome.item.payload = Bytes::new());
    0
}

/// How much of the store's answer has been used.
#[derive(Debug, Default)]
struct Taken {
    data: usize,
    allocated: usize,
    omap: usize,
}

/// A compound while it runs.
#[derive(Debug)]
struct Execution {
    state: ObjectState,
    view: Box<ObjectView>,
    taken: Taken,
    changes: Vec<Op>,
    /// What the op before left: an op that does not set its result keeps it, as in Ceph.
    result: i32,
}

/// An op's output, or its result where it fails.
type Step = Result<Bytes, i32>;

const NOTHING: Step = Ok(Bytes::new());

fn fail(errno: Errno) -> Step {
    Err(errno.code())
}

impl Execution {
    fn step(&mut self, item: &OsdOpItem) -> Step {
        match item.op {
            OpCode::READ | OpCode::SYNC_READ => data::read(self, item),
            OpCode::SPARSE_READ => data::sparse_read(self, item),
            OpCode::MAPEXT => data::map_extents(self),
            OpCode::CMPEXT => data::compare_extent(self, item),
            OpCode::STAT => data::stat(self),
            OpCode::ASSERT_VER => self.assert_version(item),
            OpCode::LIST_WATCHERS => self.list_watchers(),
            OpCode::WRITE => data::write(self, item),
            OpCode::WRITEFULL => data::write_full(self, item),
            OpCode::WRITESAME => data::write_same(self, item),
            OpCode::APPEND => data::append(self, item),
            OpCode::ZERO => data::zero(self, item),
            OpCode::TRUNCATE | OpCode::TRIMTRUNC => data::truncate(self, item),
            OpCode::CREATE => data::create(self, item),
            OpCode::DELETE => data::delete(self),
            OpCode::SETALLOCHINT => data::hint(self),
            OpCode::GETXATTR => xattr::get(self, item),
            OpCode::GETXATTRS => xattr::get_all(self),
            OpCode::CMPXATTR => xattr::compare(self, item),
            OpCode::SETXATTR => xattr::set(self, item),
            OpCode::RMXATTR => xattr::remove(self, item),
            OpCode::OMAPGETKEYS | OpCode::OMAPGETVALS => omap::get_page(self, item),
            OpCode::OMAPGETHEADER => omap::get_header(self),
            OpCode::OMAPGETVALSBYKEYS => omap::get_by_keys(self, item),
            OpCode::OMAP_CMP => omap::compare(self, item),
            OpCode::OMAPSETVALS => omap::set(self, item),
            OpCode::OMAPSETHEADER => omap::set_header(self, item),
            OpCode::OMAPRMKEYS => omap::remove_keys(self, item),
            OpCode::OMAPRMKEYRANGE => omap::remove_range(self, item),
            OpCode::OMAPCLEAR => omap::clear(self),
            _ => fail(Errno::EOPNOTSUPP),
        }
    }

    /// Creates the object if it is missing.
    fn ensure_exists(&mut self) {
        if !self.state.exists {
            self.state = ObjectState { exists: true, size: 0, info: ObjectInfo::default() };
            self.changes.push(Op::Touch);
        }
    }

    /// ENOENT if the object is missing.
    fn require_exists(&self) -> Result<(), i32> {
        if self.state.exists { Ok(()) } else { Err(Errno::ENOENT.code()) }
    }

    fn assert_version(&mut self, item: &OsdOpItem) -> Step {
        let OpParams::AssertVer { version } = item.params() else { return fail(Errno::EINVAL) };
        match version.cmp(&self.state.info.user_version) {
            _ if version == 0 => fail(Errno::EINVAL),
            core::cmp::Ordering::Less => fail(Errno::ERANGE),
            core::cmp::Ordering::Greater => fail(Errno::EOVERFLOW),
            core::cmp::Ordering::Equal => NOTHING,
        }
    }

    /// Nobody watches, because watching is refused: an empty `obj_list_watch_response_t`.
    fn list_watchers(&mut self) -> Step {
        let mut e = wire::Encoder::new();
        e.versioned(1, 1, |e| e.len(0));
        self.result = 0;
        Ok(e.finish())
    }
}
