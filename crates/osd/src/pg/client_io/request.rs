//! A client's request on its way, and a write that waits for members.

use crate::counters::Stamps;
use crate::ops::copy::Copied;
use crate::ops::execution::{Circumstances, Request, Watching};
use crate::ops::state::ObjectState;
use crate::ops::{OpClass, Plan};
use crate::pg::snaps::PgSnaps;
use crate::pg::trimming::TrimOf;
use crate::session::Share;
use crate::watch::Effect;
use base::{EVersion, Epoch, Errno};
use qos::GroupId;
use store::{ObjectId, ObjectView};
use wire::messages::{OpOutcome, OsdOp};
use wire::net::ConnId;
use wire::osd::{OpCode, OsdReqId};
use wire::types::EntityType;

/// A client's request on its way.
#[derive(Debug)]
pub struct ClientRequest {
    /// The session it came on.
    pub conn: ConnId,
    /// By which the client matches the answer.
    pub tid: u64,
    /// Its name for ever.
    pub reqid: OsdReqId,
    /// The request itself.
    pub message: Box<OsdOp>,
    /// Its object.
    pub object: ObjectId,
    /// What it needs.
    pub plan: Plan,
    /// What the store answered to that; a request that only writes does not keep it.
    pub view: Option<Box<ObjectView>>,
    /// What the store answered to the questions that its ops asked since.
    pub answers: Vec<ObjectView>,
    /// What fetching its copy's source came to.
    pub copied: Option<Result<Copied, Errno>>,
    /// Who asks, and what was the case when it started.
    pub circumstances: Circumstances,
    /// The clone that it trims; a request of the PG itself, which nobody waits for.
    pub trims: Option<TrimOf>,
    /// It has waited for its object to be mended, and is not to do so again.
    pub mended: bool,
    /// What it was counted as on arrival.
    pub bytes: usize,
    /// Whose promise of service it falls under.
    pub tenant: GroupId,
    /// The same among what its session uses.
    pub share: Share,
    /// The interval in which it was started; a late answer of the store to an older one starts it again. Before that,
    /// the map that it was checked against.
    pub interval: Epoch,
    /// When it reached the stages of its way.
    pub stamps: Stamps,
}

impl ClientRequest {
    /// The request as `execute` takes it.
    pub(in crate::pg) fn ready<'a>(
        &'a self,
        state: ObjectState,
        returns_outputs: bool,
        watching: Watching<'a>,
        snaps: &'a PgSnaps,
    ) -> Request<'a> {
        Request {
            ops: &self.message.ops,
            state,
            view: self.view.as_deref(),
            answers: &self.answers,
            copied: self.copied.as_ref(),
            mtime: self.message.mtime,
            circumstances: self.circumstances,
            returns_outputs,
            watching,
            snaps: snaps.of_request(self),
        }
    }

    /// Whether another OSD (or this one) reads the object to copy it.
    pub fn reads_for_copy(&self) -> bool {
        self.plan.class == OpClass::Read
            && self.circumstances.caller.name.kind == EntityType::OSD
            && self.message.ops.iter().any(|item| item.op == OpCode::COPY_GET)
    }

    /// Bytes that came with its ops.
    pub fn payload_bytes(&self) -> u64 {
        self.message.ops.iter().map(|item| item.payload.len() as u64).sum()
    }

    /// Whether it may wait for its object to be mended, and begin again.
    pub(in crate::pg) fn may_be_mended(&self) -> bool {
        !self.mended && self.trims.is_none() && self.copied.is_none()
    }

    /// Nothing that was read before counts any more.
    pub(in crate::pg) fn begin_again(&mut self, plan: Plan) {
        self.plan = plan;
        self.forget_answers();
    }

    pub(super) fn forget_answers(&mut self) {
        self.view = None;
        self.copied = None;
        self.answers = Vec::new();
    }
}

/// A write that not all members have.
#[derive(Debug)]
pub struct InFlight {
    /// Its version.
    pub version: EVersion,
    /// The version it gives its object.
    pub user_version: u64,
    /// The answer.
    pub result: i32,
    /// The answer's parts.
    pub outcomes: Vec<OpOutcome>,
    /// What is to be done about watches.
    pub effects: Vec<Effect>,
    /// The request.
    pub request: Box<ClientRequest>,
    /// The same request, sent again meanwhile.
    pub again: Vec<Box<ClientRequest>>,
}
