//! Writes: executed, logged, sent to all members, answered when all have them.

use super::{ClientRequest, InFlight};
use crate::core::{CommitFor, Core};
use crate::limits::WRITE_REPLY_BYTES_MAX;
use crate::ops::state::ObjectState;
use crate::ops::{Outcome, bare_outcomes, execute};
use crate::pg::fullness::Verdict;
use crate::pg::log::{LogEntry, log_key};
use crate::pg::snaps::AroundWrite;
use crate::pg::{Pg, PgCommit, Role};
use crate::replication::ReplicatedWrite;
use crate::reply;
use crate::requests::share_map;
use base::{Bug, EVersion, Epoch, Errno};
use bytes::Bytes;
use qos::GroupId;
use store::{ObjectId, Op, STAGED, Transaction};
use wire::Encode;
use wire::messages::OpOutcome;
use wire::osd::RequestFlags;

impl Pg {
    /// Executes a write on an object whose state is known.
    pub(in crate::pg) fn run_write(&mut self, core: &mut Core, request: Box<ClientRequest>) {
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
                Verdict::Dropped => share_map(core, request.conn, request.message.map_epoch),
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
    pub(in crate::pg) fn send_write(
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
    pub(in crate::pg) fn submit(
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
        transaction.sums = request.message.sums.clone();
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
