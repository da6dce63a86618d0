//! Clients' requests on an active primary: from arrival to answer.
//!
//! The way: `handle_request` -> (wait for the PG) -> the object's queue -> (ask the store) -> `ops::execute` -> answer,
//! or log entry and transaction -> replication -> all members have it -> answer. A request that was executed before is
//! answered from the log, once all members have it.

use super::fullness::Verdict;
use super::log::{LogEntry, log_key};
use super::order::ObjectQueue;
use super::snaps::{AroundWrite, PgSnaps};
use super::trimming::TrimOf;
use super::{Pg, PgCommit, PgRead, Role};
use crate::core::{CommitFor, Core, Level};
use crate::counters::Stamps;
use crate::limits::{OBJECT_STATES_KEPT_MAX, PG_WAITING_MAX, WRITE_REPLY_BYTES_MAX};
use crate::ops::copy::Copied;
use crate::ops::execution::{Ask, AskOf, Circumstances, Request, Watching};
use crate::ops::state::ObjectState;
use crate::ops::{OpClass, Outcome, Plan, bare_outcomes, execute};
use crate::replication::ReplicatedWrite;
use crate::reply;
use crate::session::{Share, Until};
use crate::watch::Effect;
use base::{Bug, EVersion, Epoch, Errno, Instant, OsdId};
use bytes::Bytes;
use qos::GroupId;
use std::sync::Arc;
use store::{Extent, ObjectId, ObjectView, ObjectWant, Op, ReadRequest, ReadWhat, STAGED, StoreError, Transaction};
use wire::Encode;
use wire::messages::{OpOutcome, OsdOp};
use wire::net::ConnId;
use wire::osd::{OpCode, OsdReqId, RequestFlags};
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
    pub(super) fn ready<'a>(
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
    pub(super) fn may_be_mended(&self) -> bool {
        !self.mended && self.trims.is_none() && self.copied.is_none()
    }

    /// Nothing that was read before counts any more.
    pub(super) fn begin_again(&mut self, plan: Plan) {
        self.plan = plan;
        self.forget_answers();
    }

    fn forget_answers(&mut self) {
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

impl Pg {
    /// Takes a request that belongs here, from the queue or from wherever it was held: before every start of one.
    pub fn handle_request(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        if request.message.map_epoch < self.led_since {
            // It was sent when another OSD led the PG, or before one did in between: its client has sent it there, may have
            // been refused there, and sends it again (v16.2 `src/osd/PG.cc`, `can_discard_op`).
            return crate::requests::leave_to_client(core, &request);
        }
        if request.stamps.reached == Instant::ZERO {
            request.stamps.reached = core.now;
            core.counters.op_before_dequeue_op_lat.add(core.now.since(request.stamps.initiated));
        }
        if self.sets.acting_primary != core.me() {
            return self.read_at_replica(core, request);
        }
        if !self.is_active() || !self.has_lease(core) {
            request.stamps.waited = core.now;
            if self.waiting.len() >= PG_WAITING_MAX || self.cannot_serve() {
                crate::requests::hold_requests(core, request.conn, self.id, Until::Active);
                core.sessions.release(request.bytes);
            } else {
                self.waiting.push_back(request);
            }
            return;
        }
        request.interval = self.since;
        if request.message.object.is_empty() {
            return self.start_listing(core, request);
        }
        let class = request.plan.class;
        if let Some(queue) = self.objects.get_mut(&request.object) {
            let beside_copy = queue.copying && request.reads_for_copy();
            if beside_copy || queue.waiting.is_empty() && queue.admits(class) {
                return self.start_request(core, request);
            }
        } else {
            self.forget_idle_objects();
            self.objects.insert(request.object.clone(), ObjectQueue::default());
            self.mark_queue(&request.object);
            if self.objects[&request.object].admits(class) {
                return self.start_request(core, request);
            }
        }
        let object = request.object.clone();
        request.stamps.blocked = core.now;
        self.objects.get_mut(&object).expect("it is there now").waiting.push_back(request);
        self.hurry(core, &object);
        self.preempt_scrub(core, &object, class);
    }

    fn forget_idle_objects(&mut self) {
        if self.objects.len() >= 2 * OBJECT_STATES_KEPT_MAX {
            self.objects.retain(|_, queue| !queue.is_idle());
        }
    }

    /// Starts a request that its object admits.
    pub(super) fn start_request(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        request.circumstances.now = core.now;
        request.circumstances.last_user_version = self.info.last_user_version;
        request.stamps.started = core.now;
        let suspect = request.plan.class != OpClass::Read && core.is_suspect_for(self.id.pool, &request);
        let queue = self.objects.get_mut(&request.object).expect("the caller has made it");
        core.counters.object_ctx_cache_total.inc();
        let known = queue.state.is_some();
        core.counters.object_ctx_cache_hit.0 += u64::from(known);
        match request.plan.class {
            OpClass::Read => queue.readers += 1,
            OpClass::Write if known && !suspect => return self.run_write(core, request),
            OpClass::Write | OpClass::ReadModify => queue.exclusive = true,
        }
        let mut want = core::mem::take(&mut request.plan.want);
        if !known {
            crate::ops::ask_record(&mut want);
        }
        if suspect {
            // After what the ops want; as it lies on the device.
            want.data.push(Extent { offset: 0, len: u64::MAX });
            want.uncached = true;
        }
        let object = request.object.clone();
        self.read_for(core, request, object, want);
    }

    fn read_for(&self, core: &mut Core, request: Box<ClientRequest>, object: ObjectId, want: ObjectWant) {
        let what = ReadWhat::Object(object, want);
        core.read(self.id, PgRead::Request(request), ReadRequest { collection: self.collection(), what });
    }

    /// Starts what an object's queue admits now.
    pub(super) fn pump(&mut self, core: &mut Core, object: &ObjectId) {
        while let Some(queue) = self.objects.get_mut(object) {
            if let Some(copied) = queue.take_copied() {
                self.run_write(core, copied);
                continue;
            }
            if queue.take_push() {
                self.push(core, object);
                continue;
            }
            let Some(request) = queue.pop_admitted() else { break };
            self.start_request(core, request);
        }
    }

    /// The store has told what a request asked for: what its plan wants, then what its ops ask.
    pub fn request_read(&mut self, core: &mut Core, mut request: Box<ClientRequest>, view: Box<ObjectView>) {
        if request.interval != self.since || !self.is_active() {
            return self.restart_request(core, request);
        }
        if request.plan.class != OpClass::Read {
            self.clear_if_checked(core, &request);
        }
        if request.view.is_some() {
            request.answers.push(*view);
        } else {
            let queue = self.objects.get_mut(&request.object).expect("a request under way keeps its queue");
            if queue.state.is_none() {
                let stored = match ObjectState::of(&view) {
                    Ok(state) => state,
                    Err(error) => {
                        core.log(Level::Error, format!("pg {}: {:?}: {error}", self.id, request.object));
                        return self.refuse_read(core, request, Errno::EIO);
                    }
                };
                queue.state = Some(stored.clone());
                self.load_watches(core, &request.object, &stored);
            }
            request.view = (request.plan.class != OpClass::Write).then_some(view);
        }
        let object = request.object.clone();
        match request.plan.class {
            OpClass::Read => self.run_read(core, request),
            OpClass::Write | OpClass::ReadModify => self.run_write(core, request),
        }
        self.pump(core, &object);
    }

    /// Reads what a request's ops ask for; its object is held meanwhile as it was for the plan's read.
    fn answer_ask(&mut self, core: &mut Core, request: Box<ClientRequest>, ask: Ask) {
        let object = match ask.of {
            AskOf::Itself => request.object.clone(),
            AskOf::Life(snap) => request.object.with_snap(snap),
            AskOf::Copy => return self.start_copy(core, request),
        };
        self.read_for(core, request, object, ask.want);
    }

    /// The interval in which a request began is over. A primary still owes an answer; others leave that to the client.
    pub fn restart_request(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        match crate::ops::plan_at(request.message.snap, &request.message.ops, &request.circumstances.tuning) {
            Ok(plan) if self.is_primary() && request.trims.is_none() && self.has_place_of(core, &request) => {
                request.begin_again(plan);
                self.handle_request(core, request);
            }
            _ => crate::requests::leave_to_client(core, &request),
        }
    }

    /// The store could not tell.
    pub fn request_failed(&mut self, core: &mut Core, request: Box<ClientRequest>, error: &StoreError) {
        if request.interval != self.since || !self.is_active() {
            return self.restart_request(core, request);
        }
        if let Err(request) = self.mend_for(core, request, error) {
            self.refuse_read(core, request, Errno::EIO);
        }
    }

    pub(super) fn refuse_read(&mut self, core: &mut Core, request: Box<ClientRequest>, errno: Errno) {
        let queue = self.objects.get_mut(&request.object).expect("a request under way keeps its queue");
        match request.plan.class {
            OpClass::Read => queue.readers -= 1,
            OpClass::Write | OpClass::ReadModify => queue.exclusive = false,
        }
        let object = request.object.clone();
        reply::error(core, &request, errno, EVersion::default(), 0);
        core.sessions.release(request.bytes);
        self.pump(core, &object);
    }

    fn run_read(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        let queue = self.objects.get_mut(&request.object).expect("a request under way keeps its queue");
        let state = queue.state.clone().expect("the caller knows it");
        if self.is_shut_out(core, &request) {
            return self.refuse_read(core, request, Errno::ESHUTDOWN);
        }
        let user_version = state.info.user_version;
        let watching = self.watching(core, &request.object);
        let executed = execute(&request.ready(state, true, watching, &self.snaps));
        let mut outcome = match executed {
            Ok(outcome) => outcome,
            Err(ask) => return self.answer_ask(core, request, *ask),
        };
        Pg::take_numbers(core, &outcome.effects);
        self.objects.get_mut(&request.object).expect("it was just there").readers -= 1;
        self.carry_out(core, &request, user_version, core::mem::take(&mut outcome.effects));
        self.answer_read(core, request, outcome);
    }

    /// Answers a request that has read.
    pub(super) fn answer_read(&mut self, core: &mut Core, request: Box<ClientRequest>, outcome: Outcome) {
        self.counters.reads += 1;
        self.counters.read_bytes += outcome.ops.iter().map(|o| o.item.payload.len() as u64).sum::<u64>();
        if !outcome.state.exists && outcome.result < 0 {
            reply::error(core, &request, Errno(-outcome.result), EVersion::default(), 0);
        } else {
            let user_version = if outcome.result >= 0 { outcome.state.info.user_version } else { 0 };
            reply::read(core, &request, outcome.result, outcome.ops, user_version);
        }
        core.sessions.release(request.bytes);
    }

    /// Executes a write on an object whose state is known.
    pub(super) fn run_write(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        let object = &request.object;
        let queue = self.objects.get_mut(object).expect("a request under way keeps its queue");
        queue.exclusive = false;
        let before = queue.state.clone().expect("the caller knows it");
        if self.is_shut_out(core, &request) {
            reply::error(core, &request, Errno::ESHUTDOWN, EVersion::default(), 0);
            return core.sessions.release(request.bytes);
        }
        if let Some(of) = request.trims {
            return self.run_trim(core, request, of, before);
        }
        let Some(request) = self.answer_from_log(core, request) else { return };
        let returns_outputs = request.message.flags.has(RequestFlags::RETURNVEC);
        let watching = self.watching(core, &request.object);
        let executed = execute(&request.ready(before.clone(), returns_outputs, watching, &self.snaps));
        let mut outcome = match executed {
            Ok(outcome) => outcome,
            Err(ask) => {
                self.objects.get_mut(&request.object).expect("it was just there").exclusive = true;
                return self.answer_ask(core, request, *ask);
            }
        };
        Pg::take_numbers(core, &outcome.effects);
        if outcome.is_change() {
            match self.judge_fullness(core, &request, &before, &outcome) {
                Verdict::Goes => return self.submit(core, request, before, outcome),
                Verdict::Refused(errno) => reply::error(core, &request, errno, EVersion::default(), 0),
                Verdict::Dropped => crate::requests::share_map(core, request.conn, request.message.map_epoch),
            }
            self.give_up_copy(core, &request);
            return core.sessions.release(request.bytes);
        }
        self.carry_out(core, &request, before.info.user_version, core::mem::take(&mut outcome.effects));
        self.give_up_copy(core, &request);
        if outcome.logged {
            return self.submit_answer(core, request, &before, outcome);
        }
        reply::done(core, &request, outcome.result, outcome.ops, EVersion::default(), 0);
        core.sessions.release(request.bytes);
    }

    /// Logs what a write that changes nothing is answered, so that it is answered the same when it is resent.
    fn submit_answer(
        &mut self,
        core: &mut Core,
        mut request: Box<ClientRequest>,
        before: &ObjectState,
        outcome: Outcome,
    ) {
        let answered = match &request.copied {
            _ if outcome.result == Errno::ENOENT.code() => self.info.last_user_version,
            Some(Ok(copied)) => copied.user_version,
            _ => before.info.user_version,
        };
        request.forget_answers();
        let version = EVersion::new(core.epoch(), self.info.last_update.version + 1);
        let entry = LogEntry {
            version,
            prior: before.info.version,
            object: request.object.clone(),
            clones: Vec::new(),
            deletes: false,
            changes_nothing: true,
            reqid: request.reqid,
            user_version: self.info.last_user_version,
            result: outcome.result,
            outputs: remembered(&request, &outcome.ops),
            totals: self.info.totals,
            lost: None,
        };
        let queue = self.objects.get_mut(&request.object).expect("a request under way keeps its queue");
        queue.writers += 1;
        let transaction = Transaction::new(self.collection());
        self.send_write(core, request.tenant, entry, transaction);
        self.in_flight.push_back(InFlight {
            version,
            user_version: answered,
            result: outcome.result,
            outcomes: outcome.ops,
            effects: Vec::new(),
            request,
            again: Vec::new(),
        });
    }

    /// Sends a write to all members and the own store, and appends its entry to the log.
    pub(super) fn send_write(
        &mut self,
        core: &mut Core,
        tenant: GroupId,
        entry: LogEntry,
        mut transaction: Transaction,
    ) {
        let version = entry.version;
        let only_log = self.recovery.who_only_log(&entry.object);
        self.recovery.note_write(&entry);
        let Role::Active(replication) = &mut self.role else { unreachable!("only an active PG executes") };
        let (keep, batch) = core.log_bounds;
        let trim_to = self.log.trim_point(keep, batch, replication.all_committed()).unwrap_or_default();
        let (entry_bytes, only_log) = (entry.to_bytes(), only_log.as_slice());
        let (bytes, changes) = (&entry_bytes, &transaction);
        let tenant = core.tenants.id_of(tenant);
        let write = ReplicatedWrite { version, entry: bytes, transaction: changes, trim_to, tenant, only_log };
        replication.submit(core, &write);
        let peering = self.since;
        self.append_to_log(core, entry, entry_bytes, trim_to, &mut transaction);
        core.commit(CommitFor::Pg(self.id, PgCommit::Write(peering, version)), transaction);
    }

    /// Answers a request that was executed before; gives it back if it was not.
    fn answer_from_log(&mut self, core: &mut Core, request: Box<ClientRequest>) -> Option<Box<ClientRequest>> {
        let known = self.log.find(&request.reqid).filter(|_| !Bug::ResendsAppliedAgain.is_planted());
        let Some(entry) = known else { return Some(request) };
        if let Ok(at) = self.in_flight.binary_search_by_key(&entry.version, |write| write.version)
            && !Bug::ResendsAnsweredEarly.is_planted()
        {
            self.in_flight[at].again.push(request);
            return None;
        }
        let mut outcomes = bare_outcomes(&request.message.ops);
        for (outcome, (result, out)) in outcomes.iter_mut().zip(&entry.outputs) {
            outcome.result = *result;
            outcome.item.payload = out.clone();
        }
        let user_version = if entry.changes_nothing { 0 } else { entry.user_version };
        reply::done(core, &request, entry.result, outcomes, entry.version, user_version);
        core.sessions.release(request.bytes);
        None
    }

    /// Gives a write its version and sends it on its way.
    pub(super) fn submit(
        &mut self,
        core: &mut Core,
        mut request: Box<ClientRequest>,
        before: ObjectState,
        mut outcome: Outcome,
    ) {
        request.forget_answers();
        let version = EVersion::new(core.epoch(), self.info.last_update.version + 1);
        let user_version = if outcome.user_modified {
            let seen = before.info.user_version.max(outcome.state.info.user_version);
            (self.info.last_user_version.max(seen) + 1).max(version.version)
        } else {
            outcome.state.info.user_version
        };
        outcome.seal(version, user_version);
        self.count_write(&request.object, &before, &outcome);
        let mut transaction = Transaction::new(self.collection());
        transaction.ops.reserve_exact(outcome.changes.len() + 2);
        transaction.objects.push(request.object.clone());
        let mut around =
            AroundWrite::begin(&mut transaction, &request.object, &before, &outcome.state, outcome.restored);
        transaction.ops.extend(outcome.changes.drain(..).map(|op| (0, op)));
        around.end(&mut transaction, &request.object);
        if outcome.restored == Some(STAGED) {
            transaction.push(&request.object.with_snap(STAGED), Op::Remove);
        }
        let entry = LogEntry {
            version,
            prior: before.info.version,
            object: request.object.clone(),
            clones: around.touched,
            deletes: !outcome.state.exists,
            changes_nothing: false,
            reqid: request.reqid,
            user_version,
            result: outcome.result,
            outputs: remembered(&request, &outcome.ops),
            totals: self.info.totals,
            lost: None,
        };
        let queue = self.objects.get_mut(&request.object).expect("a request under way keeps its queue");
        queue.state = Some(outcome.state.clone());
        queue.writers += 1;
        self.send_write(core, request.tenant, entry, transaction);
        self.in_flight.push_back(InFlight {
            version,
            user_version,
            result: outcome.result,
            outcomes: outcome.ops,
            effects: outcome.effects,
            request,
            again: Vec::new(),
        });
    }

    fn count_write(&mut self, object: &ObjectId, before: &ObjectState, outcome: &Outcome) {
        let (before, after) = (before.totals(), outcome.state.totals());
        self.info.totals.change(before, after);
        self.survey_change(object, before, after);
        if outcome.ops.is_empty() {
            // The PG's own: no client wrote.
            return;
        }
        self.counters.writes += 1;
        let payload = |op: &Op| if let Op::Write(_, data) = op { data.len() as u64 } else { 0 };
        self.counters.written_bytes += outcome.changes.iter().map(payload).sum::<u64>();
    }

    /// Appends an entry to the log, in memory and in the transaction that carries its changes; trims what may go.
    pub fn append_to_log(
        &mut self,
        core: &Core,
        entry: LogEntry,
        bytes: Bytes,
        trim_to: EVersion,
        t: &mut Transaction,
    ) {
        t.push(&self.log_id, Op::OmapSet(vec![(log_key(entry.version), bytes)]));
        self.info.last_update = entry.version;
        self.info.last_user_version = self.info.last_user_version.max(entry.user_version);
        self.info.totals = entry.totals;
        self.log.append(&entry);
        if trim_to > self.log.tail() {
            let remember = if Bug::RequestsForgotten.is_planted() { 0 } else { core.log_remembered_max };
            self.log.trim(trim_to, remember, t);
            self.info.log_tail = self.log.tail();
            self.put_info(t);
        }
    }

    /// This OSD's own store has a write.
    pub fn local_commit(&mut self, core: &mut Core, interval: Epoch, version: EVersion) {
        if interval == self.since {
            self.member_committed(core, core.me(), version);
        }
    }

    /// A member has everything up to `version`: answers what all have now.
    pub fn member_committed(&mut self, core: &mut Core, from: base::OsdId, version: EVersion) {
        if let Ok(at) = self.in_flight.binary_search_by_key(&version, |write| write.version) {
            self.in_flight[at].request.stamps.committed_by(core.now, from == core.me());
        }
        let Role::Active(replication) = &mut self.role else { return };
        let Some(all) = replication.committed(from, version) else { return };
        while self.in_flight.front().is_some_and(|write| write.version <= all) {
            let write = self.in_flight.pop_front().expect("there is a front");
            self.finish_write(core, write);
        }
        self.given_up(core, all);
        if self.recovery.has_incomplete() {
            // A member may have waited for this to be done with.
            self.go_on_recovering(core);
        }
    }

    fn finish_write(&mut self, core: &mut Core, write: InFlight) {
        let object = write.request.object.clone();
        for again in &write.again {
            let outcomes = write.outcomes.clone();
            reply::done(core, again, write.result, outcomes, write.version, write.user_version);
            core.sessions.release(again.bytes);
        }
        if write.request.trims.is_some() {
            self.clone_trimmed(core, write.request.interval);
        } else {
            reply::done(core, &write.request, write.result, write.outcomes, write.version, write.user_version);
        }
        // Who sent it again has another session by now.
        let asked_last = write.again.last().unwrap_or(&write.request);
        self.carry_out(core, asked_last, write.user_version, write.effects);
        core.sessions.release(write.request.bytes);
        core.counts_changed = true;
        if let Some(queue) = self.objects.get_mut(&object) {
            queue.writers -= 1;
            if queue.writers == 0 && (queue.to_push || !queue.waiting.is_empty()) {
                self.pump(core, &object);
            }
        }
    }

    /// Takes back every request that is not answered, in order, to be started again when the PG is active.
    pub fn requeue_requests(&mut self, core: &mut Core) {
        let mut all = Vec::new();
        for write in self.in_flight.drain(..) {
            all.push(write.request);
            all.extend(write.again);
        }
        let held = |queue: ObjectQueue| queue.copied.into_iter().chain(queue.waiting);
        let mut queued: Vec<_> = self.objects.drain().flat_map(|(_, queue)| held(queue)).collect();
        // Requests of one session keep their order; the map of objects has none.
        queued.sort_by_key(|request| (request.conn, request.tid));
        all.extend(queued);
        all.extend(self.waiting.drain(..));
        // Those for objects that belong to another PG now are for their clients to send there.
        let (id, map) = (self.id, Arc::clone(&core.map));
        let gone = |request: &ClientRequest, core: &Core| {
            request.trims.is_some() || core.sessions.get(request.conn).is_none() || !has_place_of(&map, id, request)
        };
        for mut request in all {
            // What it wants from the store was taken when it started.
            match crate::ops::plan_at(request.message.snap, &request.message.ops, &request.circumstances.tuning) {
                Ok(plan) if !gone(&request, core) => {
                    request.begin_again(plan);
                    self.waiting.push_back(request);
                }
                _ => crate::requests::leave_to_client(core, &request),
            }
        }
    }

    fn has_place_of(&self, core: &Core, request: &ClientRequest) -> bool {
        has_place_of(&core.map, self.id, request)
    }

    /// Gives up the requests of a PG that this OSD no longer leads, and tells their clients of the new map.
    pub fn drop_requests(&mut self, core: &mut Core) {
        for request in core::mem::take(&mut self.waiting) {
            crate::requests::leave_to_client(core, &request);
        }
    }

    /// Asks the clients of requests that wait to hold them: the PG cannot serve before something outside changes.
    pub(super) fn hold_waiting(&mut self, core: &mut Core) {
        for request in core::mem::take(&mut self.waiting) {
            crate::requests::hold_requests(core, request.conn, self.id, Until::Active);
            core.sessions.release(request.bytes);
        }
    }

    /// Whether every other member has promised not to go on without this one yet: then what it has is the newest.
    pub(super) fn has_lease(&self, core: &Core) -> bool {
        let mut others = self.sets.acting.iter().filter(|osd| **osd != core.me() && **osd != OsdId::NONE);
        others.all(|osd| core.heartbeats.has_lease(core.now, *osd))
    }

    /// A member has promised again after a while: starts what has waited for that.
    pub(crate) fn lease_renewed(&mut self, core: &mut Core) {
        if self.is_active() && self.has_lease(core) {
            crate::requests::resume_requests(core, self.id);
            self.start_waiting(core);
        }
    }

    /// Starts everything that waited for the PG.
    pub fn start_waiting(&mut self, core: &mut Core) {
        for request in core::mem::take(&mut self.waiting) {
            self.handle_request(core, request);
        }
    }
}

/// Whether the request's object belongs to this PG, by this map.
fn has_place_of(map: &maps::OsdMap, id: base::PgId, request: &ClientRequest) -> bool {
    let object = || map.pool(id.pool).map(|pool| pool.raw_pg_to_pg(base::PgId::new(id.pool, request.object.hash())));
    request.message.object.is_empty() || object() == Some(id)
}

/// What has to be remembered so that a resent request gets the same answer.
fn remembered(request: &ClientRequest, outcomes: &[OpOutcome]) -> Vec<(i32, Bytes)> {
    if !request.message.flags.has(RequestFlags::RETURNVEC) {
        return Vec::new();
    }
    let output = |out: &Bytes| {
        // Successful writes are bounded already; what a failed one read is not worth keeping.
        if out.len() > WRITE_REPLY_BYTES_MAX { Bytes::new() } else { Bytes::copy_from_slice(out) }
    };
    outcomes.iter().map(|o| (o.result, output(&o.item.payload))).collect()
}
