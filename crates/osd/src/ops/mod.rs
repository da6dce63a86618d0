//! Execution of a request's ops: a pure function of what the object is and what is asked.
//!
//! `plan` says what the ops have to read, before anything runs; `execute` takes the answer and gives results, the
//! changes to commit and the state the object will have. An op that finds out only while it runs what it needs (a
//! class's method, a read of a snapshot) asks, and the request is run again from the start when the answer is there.
//! Reads inside a compound see the object as it was before the compound, except for its existence and size, as in
//! Ceph (v16.2 `src/osd/PrimaryLogPG.cc`, `do_osd_ops`).
//!
//! Invariants: the ops succeed or fail as one (a failed compound changes nothing); `execute` consumes the answer's
//! parts in the order in which `plan` asked for them, and further answers in the order of the questions.
//!
//! Read next: `execution`: a compound while it runs; `data`, `xattr`, `omap`: one file per family of ops; `snaps`: what
//! snapshots do to requests; `state`: what an op knows of its object.

mod checksum;
pub mod clones;
pub mod copy;
mod data;
pub mod execution;
pub mod extents;
mod omap;
pub mod snaps;
pub mod state;
mod tmap;
pub mod tuning;
pub mod watch;
mod xattr;

#[cfg(test)]
mod tests;

use crate::class::Call;
use crate::limits::{CALLS_PER_REQUEST_MAX, OPS_PER_REQUEST_MAX, WRITE_REPLY_BYTES_MAX};
use crate::watch::Effect;
use base::{EVersion, Errno, SnapId};
use bytes::Bytes;
use execution::{Ask, Execution, Request, Stop};
use state::{INFO_ATTR, ObjectState};
use store::{AttrsWant, ObjectView, ObjectWant, Op};
use tuning::Tuning;
use wire::messages::OpOutcome;
use wire::osd::{OpCode, OpFlags, OsdOpItem};
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
    /// What it reads. Where the object's state is not known, its record has to come along: `ask_record`.
    pub want: ObjectWant,
}

/// Says what `ops` need. Errors are those for which nothing is worth reading: the whole request is refused.
pub fn plan(ops: &[OsdOpItem], tuning: &Tuning) -> Result<Plan, Errno> {
    let calls = calls(ops);
    if calls > CALLS_PER_REQUEST_MAX || ops.len() - calls > OPS_PER_REQUEST_MAX {
        return Err(Errno::EINVAL);
    }
    let mut want = ObjectWant::default();
    let (mut writes, mut reads) = (false, false);
    for item in ops {
        writes |= self::writes(item)?;
        reads |= match item.op {
            OpCode::READ | OpCode::SYNC_READ | OpCode::SPARSE_READ | OpCode::MAPEXT | OpCode::CMPEXT => {
                data::plan(item, &mut want);
                true
            }
            OpCode::COPY_GET => {
                copy::plan_get(item, &mut want);
                true
            }
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => true,
            OpCode::CHECKSUM => {
                checksum::plan(item, &mut want);
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
                omap::plan(item, tuning, &mut want);
                true
            }
            OpCode::TMAPGET | OpCode::TMAPUP | OpCode::TMAP2OMAP => {
                tmap::plan(&mut want);
                true
            }
            // A method that only writes may yet want to know whether the object is there. What a watch answers depends
            // on the watches
            // before it. Clearing a map is a change only if there is one.
            OpCode::CALL | OpCode::WATCH | OpCode::OMAPCLEAR => true,
            _ => false,
        };
    }
    // The copy is made aside in one place for each object.
    if ops.iter().filter(|item| copies(item.op)).count() > 1 {
        return Err(Errno::EINVAL);
    }
    let class = match (writes, reads) {
        (false, _) => OpClass::Read,
        (true, false) => OpClass::Write,
        (true, true) => OpClass::ReadModify,
    };
    Ok(Plan { class, want })
}

/// How many of `ops` call methods.
fn calls(ops: &[OsdOpItem]) -> usize {
    ops.iter().filter(|item| item.op == OpCode::CALL).count()
}

/// Adds the object's record to what is read, for a request whose object is not known.
pub fn ask_record(want: &mut ObjectWant) {
    match &mut want.attrs {
        AttrsWant::None => want.attrs = AttrsWant::Named(vec![INFO_ATTR]),
        AttrsWant::Named(names) => names.push(INFO_ATTR),
        AttrsWant::All => {}
    }
}

/// Whether an op fetches its object from elsewhere.
pub fn copies(op: OpCode) -> bool {
    op == OpCode::COPY_FROM || op == OpCode::COPY_FROM2
}

/// Whether an op's change is one that users see: one that grows the user version. Copies have their source's.
fn shows(item: &OsdOpItem) -> bool {
    item.op != OpCode::WATCH && !copies(item.op)
}

/// Whether an op changes its object. EOPNOTSUPP for a call of what is not here.
fn writes(item: &OsdOpItem) -> Result<bool, Errno> {
    if item.op == OpCode::CALL { Ok(Call::of(item)?.method.flags.writes()) } else { Ok(writes_to(item)) }
}

/// Whether an op may change its object by its code and parameters alone: a watch's ping is a write by its code only.
pub fn writes_to(item: &OsdOpItem) -> bool {
    item.op.writes() && !watch::is_ping(item)
}

/// Whether an op needs the right to read: a watch does, because its answer tells of what was before.
pub fn reads_from(item: &OsdOpItem) -> bool {
    item.op.reads() || item.op == OpCode::WATCH
}

/// What is read first for a request that reads at `snap`: if that is not the head, only what tells which life it means.
pub fn plan_at(snap: SnapId, ops: &[OsdOpItem], tuning: &Tuning) -> Result<Plan, Errno> {
    let mut plan = plan(ops, tuning)?;
    if snap != SnapId::HEAD && plan.class == OpClass::Read {
        plan.want = ObjectWant::default();
    }
    Ok(plan)
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
    /// The clone that the object becomes a copy of, before `changes`.
    pub restored: Option<SnapId>,
    /// The object afterwards; its record's versions are still the old ones.
    pub state: ObjectState,
    /// Whether the change is one that users see, so that the user version grows.
    pub user_modified: bool,
    /// What is to be done about watches once the changes are durable; nothing if it failed.
    pub effects: Vec<Effect>,
    /// Whether the answer is remembered although nothing changed. One that was too long is not.
    pub logged: bool,
}

impl Outcome {
    /// Whether anything is to be committed.
    pub fn is_change(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Completes the changes with the object's record at its new versions.
    pub fn seal(&mut self, version: EVersion, user_version: u64) {
        if self.state.is_stored() {
            self.state.info.version = version;
            self.state.info.user_version = user_version;
            self.changes.push(Op::SetAttr(INFO_ATTR, self.state.info.to_attr()));
        }
    }
}

/// Runs a request, from its first op on. `Err` says what has to be read before it can run (again).
pub fn execute(request: &Request<'_>) -> Result<Outcome, Box<Ask>> {
    let before = &request.state;
    let writes = |item: &OsdOpItem| writes(item).unwrap_or(false);
    let any_writes = request.ops.iter().any(writes);
    let directory = request.snaps.read_at == SnapId::DIR && before.is_stored();
    if any_writes {
        if let Err(errno) = snaps::check_context(request) {
            return Ok(snaps::refused(request, errno));
        }
    } else if request.snaps.read_at < SnapId::HEAD {
        return snaps::execute_at(request);
    }
    let nothing_read = ObjectView::default();
    let mut x = Execution::new(request, request.view.unwrap_or(&nothing_read));
    let mut outcomes = bare_outcomes(request.ops);
    let mut user_modified = false;
    if !any_writes && !before.exists && !directory {
        x.result = Errno::ENOENT.code();
    } else {
        for (item, outcome) in request.ops.iter().zip(&mut outcomes) {
            user_modified |= shows(item) && writes(item);
            match x.step(item) {
                Ok(out) => {
                    outcome.item.payload = out;
                    outcome.lead = core::mem::take(&mut x.output_lead);
                    outcome.sum = x.output_sum.take();
                    if any_writes {
                        outcome.join();
                    }
                    outcome.result = x.result;
                }
                Err(Stop::Fail(code)) => {
                    outcome.item.payload = core::mem::take(&mut x.failed_output);
                    outcome.result = code;
                    x.result = if item.flags.has(OpFlags::FAILOK) { 0 } else { code };
                }
                Err(Stop::Ask(ask)) => return Err(ask),
            }
            if item.op == OpCode::CALL {
                outcome.item.set_output_len();
            }
            if x.result < 0 {
                break;
            }
            x.ops_done += 1;
        }
    }
    Ok(conclude(x, outcomes, user_modified, any_writes))
}

/// What a compound comes to whose ops have run.
fn conclude(mut x: Execution<'_>, mut outcomes: Vec<OpOutcome>, user_modified: bool, writes: bool) -> Outcome {
    let request = x.request;
    let mut changed = x.result >= 0 && !x.changes.is_empty();
    let mut logged = writes;
    let mut result = x.result;
    if changed && request.returns_outputs {
        result = bound_outputs(&mut outcomes, result);
        (changed, logged) = (result >= 0, result >= 0);
    } else if changed {
        outcomes.iter_mut().for_each(|outcome| outcome.item.payload = Bytes::new());
        result = 0;
    }
    if changed {
        if x.state.exists && request.mtime != UTime::default() {
            x.state.info.mtime = request.mtime;
        }
        snaps::keep_past(&mut x);
    }
    Outcome {
        result,
        ops: outcomes,
        changes: if changed { x.changes } else { Vec::new() },
        restored: x.restored.filter(|_| changed),
        state: if changed { x.state } else { request.state.clone() },
        user_modified,
        effects: if result >= 0 { x.effects } else { Vec::new() },
        logged,
    }
}

/// The request's ops with nothing done: parameters echoed, nothing out.
pub fn bare_outcomes(ops: &[OsdOpItem]) -> Vec<OpOutcome> {
    let bare = |item: &OsdOpItem| OpOutcome::of(OsdOpItem { payload: Bytes::new(), ..*item });
    ops.iter().map(bare).collect()
}

/// A write's outputs go back only within bounds, because they have to be remembered for a resent request.
fn bound_outputs(outcomes: &mut [OpOutcome], result: i32) -> i32 {
    let mut result = result;
    for outcome in outcomes {
        if outcome.item.payload.len() > WRITE_REPLY_BYTES_MAX {
            (outcome.item.payload, outcome.sum) = (Bytes::new(), None);
            outcome.result = Errno::EOVERFLOW.code();
            result = Errno::EOVERFLOW.code();
        }
    }
    result
}
