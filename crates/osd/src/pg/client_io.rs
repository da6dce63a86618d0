//! Clients' requests on an active primary: from arrival to answer.
//!
//! The way: `handle_request` -> (wait for the PG) -> the object's queue -> (ask the store) -> `ops::execute` -> answer,
//! or log entry and transaction -> replication -> all members have it -> answer. A request that was executed before is
//! answered from the log, once all members have it.
//!
//! Here: the object's queue, the store's answers, and reads. Read next: `request` (what is on its way), `writing`, `waiting`
//! (for the PG, and over the end of an interval).

mod request;
mod waiting;
mod writing;

pub use request::{ClientRequest, InFlight};

use super::order::ObjectQueue;
use super::{Pg, PgRead};
use crate::core::{Core, Level};
use crate::limits::{OBJECT_STATES_KEPT_MAX, PG_WAITING_MAX};
use crate::ops::execution::{Ask, AskOf};
use crate::ops::state::ObjectState;
use crate::ops::{OpClass, Outcome, execute};
use crate::reply;
use crate::requests::{hold_requests, leave_to_client};
use crate::session::Until;
use base::{EVersion, Errno, Instant};
use store::{Extent, ObjectId, ObjectView, ObjectWant, ReadRequest, ReadWhat, StoreError};

impl Pg {
    /// Takes a request that belongs here, from the queue or from wherever it was held: before every start of one.
    pub fn handle_request(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        if request.message.map_epoch < self.led_since {
            // It was sent when another OSD led the PG, or before one did in between: its client has sent it there, may have
            // been refused there, and sends it again (v16.2 `src/osd/PG.cc`, `can_discard_op`).
            return leave_to_client(core, &request);
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
                hold_requests(core, request.conn, self.id, Until::Active);
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

    /// The store could not tell.
    pub fn request_failed(&mut self, core: &mut Core, request: Box<ClientRequest>, error: &StoreError) {
        if request.interval != self.since || !self.is_active() {
            return self.restart_request(core, request);
        }
        if let Err(request) = self.mend_for(core, request, error) {
            if request.trims.is_some() {
                self.trimming_failed(core, request.interval);
            }
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
        self.counters.read_bytes += outcome.ops.iter().map(|o| o.output_len() as u64).sum::<u64>();
        if !outcome.state.exists && outcome.result < 0 {
            reply::error(core, &request, Errno(-outcome.result), EVersion::default(), 0);
        } else {
            let user_version = if outcome.result >= 0 { outcome.state.info.user_version } else { 0 };
            reply::read(core, &request, outcome.result, outcome.ops, user_version);
        }
        core.sessions.release(request.bytes);
    }
}
