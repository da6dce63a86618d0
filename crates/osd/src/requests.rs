//! Clients' requests on their way in: the checks that need no object, the throttle, and what clients are told of maps.
//!
//! Follows the order of Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_request`, `do_op`). Read next: `pg::client_io`.

use crate::core::Core;
use crate::counters::Stamps;
use crate::limits::USUAL_OBJECT_BYTES;
use crate::map_follower::is_served;
use crate::ops;
use crate::ops::execution::{Caller, Circumstances};
use crate::ops::tuning::Tuning;
use crate::osd::{Osd, Work, WorkOf};
use crate::pg::client_io::ClientRequest;
use crate::pg::replica_reads;
use crate::reply;
use crate::scheduler::WorkClass;
use crate::session::{Share, Until};
use base::{Bug, EVersion, Epoch, Errno, PgId, SnapId};
use qos::GroupId;
use store::ObjectId;
use wire::messages::backoff_op::{BLOCK, UNBLOCK};
use wire::messages::{Backoff, OsdOp};
use wire::net::{ConnId, Envelope};
use wire::osd::{HObject, OpCode, OsdOpItem, RequestFlags, SpgId};

impl Osd {
    /// A client's request has arrived.
    pub(crate) fn client_request(&mut self, conn: ConnId, tid: u64, message: Box<OsdOp>) {
        let pg = message.pgid.pg;
        if self.core.sessions.get(conn).is_none() || self.core.sessions.holds(conn, pg) || self.life.stopping.is_some()
        {
            return;
        }
        if message.map_epoch > self.core.epoch() {
            return self.wait_for_map(message.map_epoch, conn, Envelope::with_tid(tid, *message));
        }
        share_map(&mut self.core, conn, message.map_epoch);
        let payload: usize = message.ops.iter().map(|item| item.payload.len()).sum();
        let bytes = 512 + message.object.len() + payload;
        let Some(share) = self.core.sessions.admit(conn, pg, bytes) else {
            self.core.throttle.get_or_fail_fail.inc();
            return hold_requests(&mut self.core, conn, pg, Until::Drained);
        };
        self.core.throttle.get_or_fail_success.inc();
        match self.open_request(conn, tid, message, (bytes, share)) {
            Opened::Work(mut request) => {
                request.interval = self.core.epoch();
                if request.plan.class != ops::OpClass::Read {
                    self.core.pushes.client_writes(self.core.now);
                }
                self.assign(&mut request);
                let read: u64 = request.plan.want.data.iter().map(|extent| extent.len.min(USUAL_OBJECT_BYTES)).sum();
                self.submit(WorkClass::Client, bytes + read as usize, Work { pg, what: WorkOf::Request(request) });
            }
            Opened::Refused(request, errno) => {
                reply::error(&mut self.core, &request, errno, EVersion::default(), 0);
                self.core.sessions.release(bytes);
            }
            Opened::Dropped => self.core.sessions.release(bytes),
        }
    }

    /// Finds out whose promise of service a request falls under.
    fn assign(&mut self, request: &mut ClientRequest) {
        let Some(session) = self.core.sessions.get(request.conn) else { return };
        let (message, tenants) = (&request.message, &mut self.core.tenants);
        let (pool, namespace) = (message.pgid.pg.pool, &message.locator.nspace);
        request.tenant = tenants.of(pool, &session.peer.entity, namespace, &message.object);
        tenants.arrived(self.core.now, request.tenant);
    }

    /// Checks a request as far as that needs no object.
    fn open_request(&self, conn: ConnId, tid: u64, message: Box<OsdOp>, (bytes, share): (usize, Share)) -> Opened {
        let Some(session) = self.core.sessions.get(conn) else { return Opened::Dropped };
        let reqid = message.request_id(session.peer.name, tid);
        let caller = Caller::of(&session.peer);
        let circumstances =
            Circumstances { caller, now: self.core.now, last_user_version: 0, tuning: self.core.tuning };
        let plan = ops::plan_at(message.snap, &message.ops, &self.core.tuning);
        let checked = check_form(&message, &self.core.tuning)
            .and_then(|()| check_names(&message, &self.core.tuning))
            .and_then(|()| session.caps.check(&self.core.map, &message));
        let object = match &checked {
            Ok(()) => {
                let locator = &message.locator;
                ObjectId::new(message.hash, &locator.nspace, &locator.key, &message.object, SnapId::HEAD)
            }
            Err(_) => ObjectId::record(""),
        };
        let empty = || ops::Plan { class: ops::OpClass::Read, want: Default::default() };
        let (plan, planned) = match plan {
            Ok(plan) => (plan, Ok(())),
            Err(errno) => (empty(), Err(errno)),
        };
        let (view, answers, interval) = (None, Vec::new(), Epoch(0));
        let stamps = Stamps::at(self.core.now);
        let request = Box::new(ClientRequest {
            conn,
            tid,
            reqid,
            message,
            object,
            plan,
            view,
            answers,
            copied: None,
            circumstances,
            trims: None,
            mended: false,
            bytes,
            tenant: GroupId::NONE,
            share,
            interval,
            stamps,
        });
        match checked.and(planned).and_then(|()| self.check_place(&request)) {
            Ok(true) => Opened::Work(request),
            Ok(false) => Opened::Dropped,
            Err(errno) => Opened::Refused(request, errno),
        }
    }

    /// Whether a request that has waited in the queue is still to be done here; if not, its client is told what it has to
    /// know to send it again.
    pub(crate) fn still_wanted(&mut self, request: Box<ClientRequest>) -> Option<Box<ClientRequest>> {
        let there = self.core.sessions.get(request.conn).is_some() && !self.life.stopped && !request.share.is_void();
        let same_map = request.interval == self.core.epoch();
        match if there && !same_map { self.check_place(&request) } else { Ok(there) } {
            Ok(true) => return Some(request),
            Ok(false) => leave_to_client(&mut self.core, &request),
            Err(errno) => {
                reply::error(&mut self.core, &request, errno, EVersion::default(), 0);
                self.core.sessions.release(request.bytes);
            }
        }
        None
    }

    /// Whether the request belongs here: false for one that its client will send again to the right place.
    fn check_place(&self, request: &ClientRequest) -> Result<bool, Errno> {
        let (map, message) = (&self.core.map, &request.message);
        let pg = message.pgid.pg;
        let Some(pool) = map.pool(pg.pool) else { return Ok(false) };
        let Some(history) = self.core.placement.get(pg) else { return Ok(false) };
        if !is_served(map, pg.pool) {
            return Err(Errno::EOPNOTSUPP);
        }
        if map.is_blocklisted(&request.circumstances.caller.addr) {
            return Err(Errno::ESHUTDOWN);
        }
        if history.current.acting_primary != self.core.me() {
            if message.map_epoch < history.since {
                return Ok(false);
            }
            if !replica_reads::asks_any_member(request) || !history.current.acting.contains(&self.core.me()) {
                return Err(Errno::ENXIO);
            }
            if !replica_reads::may_serve(request) {
                return Err(Errno::EAGAIN);
            }
        }
        if message.map_epoch < history.since && message.ops.iter().all(ops::watch::is_ping) {
            // Its client does not know yet that it has to come back; pings are not sent again.
            return Ok(false);
        }
        if !message.object.is_empty() && pool.raw_pg_to_pg(PgId::new(pg.pool, message.hash)) != pg {
            return if message.map_epoch < self.core.epoch() { Ok(false) } else { Err(Errno::EINVAL) };
        }
        let writes = request.plan.class != ops::OpClass::Read;
        if writes && crate::pg::fullness::is_overtaken(&self.core, request) {
            return Ok(false);
        }
        check_kind(request)
    }
}

/// What became of a request on arrival.
enum Opened {
    Work(Box<ClientRequest>),
    Refused(Box<ClientRequest>, Errno),
    Dropped,
}

/// What no request may be, whatever it concerns.
fn check_form(message: &OsdOp, tuning: &Tuning) -> Result<(), Errno> {
    // A request has to do something: read, write, or what only cache tiers do.
    let does = |item: &OsdOpItem| item.op.reads_or_calls() || item.op.writes() || item.op.is_cache();
    if message.flags.has(RequestFlags::PARALLELEXEC) || !message.ops.iter().any(does) {
        return Err(Errno::EINVAL);
    }
    let writes = message.ops.iter().any(ops::writes_to);
    let payload: usize = message.ops.iter().map(|item| item.payload.len()).sum();
    if writes && payload > tuning.write_bytes_max as usize { Err(Errno::EMSGSIZE) } else { Ok(()) }
}

fn check_names(message: &OsdOp, tuning: &Tuning) -> Result<(), Errno> {
    let name_max = tuning.object_name_bytes_max as usize;
    let long = message.object.len() > name_max
        || message.locator.key.len() > name_max
        || message.locator.nspace.len() > tuning.namespace_bytes_max as usize;
    if long {
        return Err(Errno::ENAMETOOLONG);
    }
    let concerns_pg = message.ops.iter().any(|item| item.op.is_pg());
    if message.object.is_empty() != concerns_pg { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Snapshots that cannot be written.
fn check_kind(request: &ClientRequest) -> Result<bool, Errno> {
    let message = &request.message;
    if !message.object.is_empty() {
        let writes = request.plan.class != ops::OpClass::Read;
        let directory = message.snap == SnapId::DIR;
        let lists = |item: &OsdOpItem| item.op == OpCode::LIST_SNAPS;
        // The set of snapshots is all that can be asked of it, and is asked of nothing else.
        if writes && message.snap != SnapId::HEAD || message.ops.iter().any(|item| lists(item) != directory) {
            return Err(Errno::EINVAL);
        }
    }
    Ok(true)
}

/// Gives up a request that its client is to send again, to whoever the newest map says. The client has to be told: by
/// itself librados asks for a map only when a request has waited for 10 s (v16.2 `src/osdc/Objecter.cc`, `tick`).
pub fn leave_to_client(core: &mut Core, request: &ClientRequest) {
    core.sessions.release(request.bytes);
    share_map(core, request.conn, request.message.map_epoch);
}

/// Sends a client the maps it lacks, once.
pub fn share_map(core: &mut Core, conn: ConnId, has: Epoch) {
    let epoch = core.epoch();
    let Some(session) = core.sessions.get_mut(conn) else { return };
    session.has_map = session.has_map.max(has);
    if session.has_map < epoch && has < epoch {
        let from = core::mem::replace(&mut session.has_map, epoch);
        for maps in core.blobs.since(core.config.fsid, from) {
            core.send(conn, Envelope::new(maps));
        }
    }
}

/// Asks a client to hold its requests for a PG; the one that is dropped now it will send again. Who has been told to go
/// on, and was not heard to hold yet, will as well.
pub fn hold_requests(core: &mut Core, conn: ConnId, pg: PgId, until: Until) {
    if until == Until::Active {
        core.sessions.void_queued(conn, pg);
    }
    if core.sessions.holds(conn, pg) {
        return;
    }
    if let Some(id) = core.sessions.hold(conn, pg, until) {
        send_backoff(core, conn, pg, id, BLOCK);
    }
}

/// Tells those who hold requests for a PG to go on.
pub fn resume_requests(core: &mut Core, pg: PgId) {
    if Bug::BackoffsForgotten.is_planted() {
        return;
    }
    for (conn, pg, id) in core.sessions.resume(Some(pg)) {
        send_backoff(core, conn, pg, id, UNBLOCK);
    }
}

/// Tells everybody who holds requests to go on, once there is room again.
pub fn resume_all(core: &mut Core) {
    for (conn, pg, id) in core.sessions.resume(None) {
        send_backoff(core, conn, pg, id, UNBLOCK);
    }
}

fn send_backoff(core: &mut Core, conn: ConnId, pg: PgId, id: u64, op: u8) {
    let pg_num = core.map.pool(pg.pool).map_or(1, |pool| pool.pg_num);
    let message = Backoff {
        pgid: SpgId::replicated(pg),
        map_epoch: core.epoch(),
        op,
        id,
        begin: HObject::pg_start(pg.pool, pg.seed),
        end: crate::pg::listing::range_end(pg, pg_num),
    };
    core.send(conn, Envelope::new(message));
}
