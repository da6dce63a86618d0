//! Reads that a client asks of any member (`CEPH_OSD_FLAG_BALANCE_READS`, `LOCALIZE_READS`), on one that does not lead.
//!
//! A replica answers from its own store what it knows to be durable at every member, and sends everything else to the
//! primary (EAGAIN, upon which the client asks there). What that is the primary says when it is asked
//! (`PgCommittedQuery`), which happens when a read comes for an object that has changed since; so writes pay nothing
//! for reads elsewhere. Ceph's rule is the same (v16.2 `src/osd/PeeringState.h`, `can_serve_replica_read`), but its
//! replicas learn what is durable from later writes only.
//!
//! Invariants: an answer holds only what no member can lose, and every write that was acknowledged before the read
//! came. The first, because no entry of this replica's log after the primary's word concerns the object, neither
//! when the store is asked nor when it has answered; the second, because a write is acknowledged only when this replica
//! has it, and because a later interval begins only after every member that is up has learnt of it (`peering` asks all
//! of them, with its map).

use super::client_io::ClientRequest;
use super::{Pg, PgRead, Role};
use crate::core::{Core, Level};
use crate::limits::{PG_WAITING_MAX, REPLICA_READ_ENTRIES_MAX};
use crate::ops::OpClass;
use crate::ops::execute;
use crate::ops::execution::AskOf;
use crate::ops::state::ObjectState;
use crate::reply;
use base::{Bug, EVersion, Epoch, Errno, OsdId};
use std::collections::VecDeque;
use store::{ObjectId, ObjectView, ReadRequest, ReadWhat};
use wire::messages::{PgCommitted, PgCommittedQuery};
use wire::net::{ConnId, Envelope};
use wire::osd::{OpCode, RequestFlags};

/// What a replica knows of its peering, and the reads that wait to know more.
#[derive(Debug, Default)]
pub struct ReplicaReads {
    /// The peering that the rest is about.
    peering: Epoch,
    /// Every member has everything up to here; none before the primary has said so.
    committed: Option<EVersion>,
    /// The primary has been asked and has not answered.
    asked: bool,
    waiting: VecDeque<Box<ClientRequest>>,
}

impl ReplicaReads {
    /// The reads that wait for the primary's word.
    pub fn waiting(&self) -> impl Iterator<Item = &ClientRequest> {
        self.waiting.iter().map(|request| &**request)
    }
}

/// Whether a client lets any member answer.
pub fn asks_any_member(request: &ClientRequest) -> bool {
    request.message.flags.has(RequestFlags::BALANCE_READS | RequestFlags::LOCALIZE_READS)
}

/// Whether a member that does not lead may answer at all: a read of an object, which needs neither its order among
/// writes nor its watches.
pub fn may_serve(request: &ClientRequest) -> bool {
    let watches =
        |op: OpCode| matches!(op, OpCode::WATCH | OpCode::NOTIFY | OpCode::NOTIFY_ACK | OpCode::LIST_WATCHERS);
    asks_any_member(request)
        && request.plan.class == OpClass::Read
        && !request.message.object.is_empty()
        && !request.message.flags.has(RequestFlags::RWORDERED)
        && !request.message.ops.iter().any(|item| watches(item.op))
}

impl Pg {
    /// Takes a read as a replica.
    pub(super) fn read_at_replica(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        request.interval = self.since;
        let Role::Replica(_, peering) = self.role else { return to_primary(core, request) };
        if self.replica_reads.peering != peering {
            self.send_replica_reads_away(core);
            self.replica_reads.peering = peering;
        }
        if !self.has_lease(core) {
            // The others may have gone on without this member; the primary knows.
            to_primary(core, request);
        } else if self.is_settled(&request.object) {
            self.start_replica_read(core, request);
        } else if self.replica_reads.waiting.len() >= PG_WAITING_MAX {
            to_primary(core, request);
        } else {
            self.replica_reads.waiting.push_back(request);
            if !self.replica_reads.asked {
                self.ask_what_is_committed(core);
            }
        }
    }

    /// Whether every member is known to have all that this one has of the object.
    fn is_settled(&self, object: &ObjectId) -> bool {
        let Role::Replica(_, peering) = self.role else { return false };
        if Bug::BalancedReadsUnchecked.is_planted() {
            return !self.missing.contains(object) && self.info.last_backfill.covers(object);
        }
        let reads = &self.replica_reads;
        let Some(committed) = reads.committed.filter(|_| reads.peering == peering) else { return false };
        if self.missing.contains(object) || !self.info.last_backfill.covers(object) {
            return false;
        }
        // Where too much has been written since to be looked through, the primary's newer word shortens that.
        self.log.after(committed).take(REPLICA_READ_ENTRIES_MAX).all(|entry| !entry.is_about(object))
            && self.log.after(committed).nth(REPLICA_READ_ENTRIES_MAX).is_none()
    }

    fn ask_what_is_committed(&mut self, core: &mut Core) {
        let Role::Replica(primary, peering) = self.role else { return };
        self.replica_reads.asked = true;
        let query = PgCommittedQuery { pg: self.id, map_epoch: core.epoch(), peering };
        core.send_osd(primary, Envelope::new(query));
    }

    /// A replica asks the primary.
    pub fn handle_committed_query(&mut self, core: &mut Core, conn: ConnId, query: &PgCommittedQuery) {
        let version = match &self.role {
            Role::Active(replication) if replication.peering() == query.peering => Some(replication.all_committed()),
            _ => None,
        };
        let (pg, map_epoch, peering) = (self.id, core.epoch(), query.peering);
        core.send(conn, Envelope::new(PgCommitted { pg, map_epoch, peering, version }));
    }

    /// The primary has answered.
    pub fn handle_committed(&mut self, core: &mut Core, from: OsdId, answer: &PgCommitted) {
        let reads = &mut self.replica_reads;
        let current = matches!(self.role, Role::Replica(primary, peering)
            if primary == from && peering == answer.peering && peering == reads.peering);
        if !current {
            return;
        }
        reads.asked = false;
        // What was said once stays true in this peering.
        reads.committed = reads.committed.max(answer.version);
        for request in core::mem::take(&mut reads.waiting) {
            if self.is_settled(&request.object) {
                self.start_replica_read(core, request);
            } else {
                to_primary(core, request);
            }
        }
    }

    /// What was asked of `osd`, or its answer, may be lost.
    pub(super) fn ask_again_what_is_committed(&mut self, core: &mut Core, osd: OsdId) {
        if self.replica_reads.asked && matches!(self.role, Role::Replica(primary, _) if primary == osd) {
            self.ask_what_is_committed(core);
        }
    }

    /// The interval, or the peering, is over: whoever waits asks the primary.
    pub(crate) fn send_replica_reads_away(&mut self, core: &mut Core) {
        let reads = core::mem::take(&mut self.replica_reads);
        reads.waiting.into_iter().for_each(|request| to_primary(core, request));
    }

    fn start_replica_read(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        request.circumstances.now = core.now;
        request.circumstances.last_user_version = self.info.last_user_version;
        request.stamps.started = core.now;
        let mut want = core::mem::take(&mut request.plan.want);
        crate::ops::ask_record(&mut want);
        let what = ReadWhat::Object(request.object.clone(), want);
        let collection = self.collection();
        core.read(self.id, PgRead::AtReplica(request, self.replica_reads.peering), ReadRequest { collection, what });
    }

    /// The store has told what a read asked for.
    pub(super) fn replica_read(
        &mut self,
        core: &mut Core,
        mut request: Box<ClientRequest>,
        peering: Epoch,
        view: Box<ObjectView>,
    ) {
        // Meanwhile a write may have come, and may be part of what was read.
        if request.interval != self.since || self.replica_reads.peering != peering || !self.is_settled(&request.object)
        {
            return to_primary(core, request);
        }
        if request.view.is_some() {
            request.answers.push(*view);
        } else {
            request.view = Some(view);
        }
        let state = match ObjectState::of(request.view.as_deref().expect("it was just put there")) {
            Ok(state) => state,
            Err(error) => {
                core.log(Level::Error, format!("pg {}: {:?}: {error}", self.id, request.object));
                return refuse(core, request, Errno::EIO);
            }
        };
        if self.is_shut_out(core, &request) {
            return refuse(core, request, Errno::ESHUTDOWN);
        }
        let watching = self.watching(core, &request.object);
        match execute(&request.ready(state, true, watching, &self.snaps)) {
            Ok(outcome) => self.answer_read(core, request, outcome),
            Err(ask) => {
                let object = match ask.of {
                    AskOf::Itself => request.object.clone(),
                    AskOf::Life(snap) => request.object.with_snap(snap),
                    AskOf::Copy => return to_primary(core, request),
                };
                let what = ReadWhat::Object(object, ask.want);
                let collection = self.collection();
                core.read(self.id, PgRead::AtReplica(request, peering), ReadRequest { collection, what });
            }
        }
    }
}

/// Lets the client ask the primary: Ceph's word for it.
pub(super) fn to_primary(core: &mut Core, request: Box<ClientRequest>) {
    refuse(core, request, Errno::EAGAIN);
}

fn refuse(core: &mut Core, request: Box<ClientRequest>, errno: Errno) {
    reply::error(core, &request, errno, EVersion::default(), 0);
    core.sessions.release(request.bytes);
}
