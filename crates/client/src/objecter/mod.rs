//! Requests to OSDs: targets, sessions, resends, back-offs, completions.
//!
//! Owns the OSD map as the client sees it and every request under way. A request is held (no map, no pool, nobody
//! serves it, paused) or belongs to the session of the OSD that serves it, where it has been sent or waits for the
//! connection or for a back-off to end. A new map moves requests; a lost connection makes all of its requests unsent.
//!
//! Follows Ceph v16.2 `src/osdc/Objecter.cc`.
//!
//! Read next: `placement` (where a request goes), `session`, `replies`.

mod placement;
mod replies;
mod session;

#[cfg(test)]
mod tests;

use crate::limits;
use crate::request::{Completion, Failure, OpId, Request};
use base::{Bug, Duration, Epoch, Errno, Instant, OsdId, Rng};
use maps::{Incremental, OsdMap};
use placement::{Hold, Placement, place};
use session::Session;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use wire::messages::{self, OsdOp, Ping};
use wire::net::{ConnId, ConnIds, Envelope, NetCommand, NetEvent, Policy};
use wire::osd::{HObject, ObjectLocator, RequestFlags, SpgId};
use wire::types::EntityType;
use wire::{Decode, Malformed};

/// What the objecter wants to know from the monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Maps from this epoch on; 0 is the newest whole one.
    Maps(Epoch),
    /// The number of the newest map.
    NewestEpoch,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Objecter {
    features: u64,
    map: Option<Arc<OsdMap>>,
    last_tid: u64,
    ops: BTreeMap<u64, Op>,
    tids: BTreeMap<OpId, u64>,
    held: BTreeSet<u64>,
    /// Requests whose pool is unknown, until the monitor has said how new a map can be.
    probing: bool,
    sessions: BTreeMap<OsdId, Session>,
    conns: BTreeMap<ConnId, OsdId>,
    deadlines: BTreeSet<(Instant, u64)>,
    next_probe: Instant,
    rng: Rng,
    commands: VecDeque<NetCommand>,
    wishes: VecDeque<Wish>,
    completions: VecDeque<Completion>,
}

#[derive(Debug)]
struct Op {
    id: OpId,
    request: Request,
    placement: Option<Placement>,
    /// The session it belongs to; none while it is held.
    osd: Option<OsdId>,
    /// Whether it is on its way over that session's present connection.
    sent: bool,
    attempts: u32,
    sent_epoch: Epoch,
    sent_at: Instant,
    submitted: Instant,
    deadline: Option<Instant>,
}

impl Objecter {
    /// An objecter without a map. `features` are what requests say about the client.
    pub fn new(now: Instant, features: u64, rng: Rng) -> Objecter {
        Objecter {
            features,
            map: None,
            last_tid: 0,
            ops: BTreeMap::new(),
            tids: BTreeMap::new(),
            held: BTreeSet::new(),
            probing: false,
            sessions: BTreeMap::new(),
            conns: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_probe: now + limits::LAGGY_AFTER,
            rng,
            commands: VecDeque::new(),
            wishes: VecDeque::new(),
            completions: VecDeque::new(),
        }
    }

    /// The newest map, once there is one.
    pub fn map(&self) -> Option<&Arc<OsdMap>> {
        self.map.as_ref()
    }

    /// How many requests are under way.
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// Whether requests are held until a map lets them go.
    pub fn waits_for_map(&self) -> bool {
        !self.held.is_empty()
    }

    /// The epoch of the map that is needed next; 0 is the newest whole one.
    pub fn next_epoch(&self) -> Epoch {
        if self.map.is_some() { self.epoch().next() } else { Epoch(0) }
    }

    /// Takes a request on. EBUSY if there are too many, EEXIST if another has its id; the request is dropped then.
    pub fn submit(&mut self, now: Instant, id: OpId, request: Request) -> Result<(), Errno> {
        if self.ops.len() >= limits::REQUESTS_MAX {
            return Err(Errno::EBUSY);
        }
        if self.tids.contains_key(&id) {
            return Err(Errno::EEXIST);
        }
        let deadline = request.timeout.map(|timeout| now + timeout);
        let op = Op {
            id,
            request,
            placement: None,
            osd: None,
            sent: false,
            attempts: 0,
            sent_epoch: Epoch(0),
            sent_at: now,
            submitted: now,
            deadline,
        };
        let tid = self.add(op);
        self.route(now, tid);
        Ok(())
    }

    /// Forgets a request: it may still be applied, but will not complete.
    pub fn cancel(&mut self, id: OpId) {
        if let Some(&tid) = self.tids.get(&id) {
            self.remove(tid);
        }
    }

    /// The next completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// The next thing to ask the monitor.
    pub fn poll_wish(&mut self) -> Option<Wish> {
        self.wishes.pop_front()
    }

    /// The next command for the transport.
    pub fn poll_command(&mut self, now: Instant, conns: &mut ConnIds) -> Option<NetCommand> {
        if self.commands.is_empty() {
            let due = |session: &Session| session.conn.is_none() && session.open_at <= now && !session.tids.is_empty();
            let osd = *self.sessions.iter().find(|(_, session)| due(session))?.0;
            self.open(now, osd, conns);
        }
        self.commands.pop_front()
    }

    /// When `handle_timer` should be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let reopen = self.sessions.values().filter(|s| s.conn.is_none() && !s.tids.is_empty()).map(|s| s.open_at);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let probe = (!self.ops.is_empty()).then_some(self.next_probe);
        reopen.chain(deadline).chain(probe).min()
    }

    /// To be called at `next_wakeup`, or at any other time.
    pub fn handle_timer(&mut self, now: Instant) {
        while let Some((_, tid)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.complete(tid, Err(Failure::TimedOut));
        }
        if self.next_probe <= now {
            self.next_probe = now + limits::LAGGY_AFTER / 2;
            self.probe(now);
        }
    }

    /// Takes an event of an OSD's session; those of others are left alone.
    pub fn handle_net(&mut self, now: Instant, event: NetEvent) {
        match event {
            NetEvent::Opened { .. } | NetEvent::Reset { .. } => {}
            NetEvent::Message { conn, envelope } => {
                if let Some(&osd) = self.conns.get(&conn) {
                    self.handle_message(now, osd, envelope);
                }
            }
            NetEvent::Closed { conn, .. } => {
                if let Some(osd) = self.conns.remove(&conn) {
                    self.session_lost(now, osd);
                    self.wish_for_maps();
                }
            }
        }
    }

    /// Takes maps that the monitor or an OSD sent, as far as they follow the one we have. An undecodable map is
    /// dropped and asked for anew as a whole. A request that one of them moved is sent again even where the last one
    /// moves it back: its OSD may not have been there in between, and then has dropped it.
    pub fn handle_maps(&mut self, now: Instant, maps: &messages::OsdMap) {
        if self.map.as_ref().is_some_and(|map| map.fsid != maps.fsid) {
            return;
        }
        let before = self.epoch();
        if self.advance(maps).is_err() {
            self.wishes.push_back(Wish::Maps(Epoch(0)));
        }
        let after = self.epoch();
        if after > before {
            self.route_held(now);
        }
        if maps.newest > after && after > Epoch(0) && maps.oldest > after.next() {
            // What follows ours has been trimmed.
            self.wishes.push_back(Wish::Maps(Epoch(0)));
        } else if maps.newest > after {
            self.wish_for_maps();
        }
    }

    /// Takes the monitor's word on how new a map can be: requests for pools that even that map lacks fail.
    pub fn handle_newest_epoch(&mut self, now: Instant, newest: Epoch) {
        self.probing = false;
        if self.epoch() < newest {
            return self.wish_for_maps();
        }
        for tid in self.held.iter().copied().collect::<Vec<_>>() {
            let op = &self.ops[&tid];
            if matches!(self.place(&op.request), Err(Hold::NoPool | Hold::NoPg)) {
                self.complete(tid, Err(Failure::Refused(Errno::ENOENT)));
            } else {
                self.route(now, tid);
            }
        }
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        assert_eq!(self.ops.len(), self.tids.len(), "each request has one id");
        for (tid, op) in &self.ops {
            assert_eq!(self.tids.get(&op.id), Some(tid), "a request's id names it");
            match op.osd {
                None => assert!(self.held.contains(tid) && !op.sent, "a request without a session is held and unsent"),
                Some(osd) => {
                    let session = self.sessions.get(&osd).expect("a request's session exists");
                    assert!(session.tids.contains(tid) && !self.held.contains(tid), "a session knows its requests");
                    assert!(!op.sent || session.conn.is_some(), "what is sent is on a connection");
                }
            }
        }
        let listed: usize = self.sessions.values().map(|session| session.tids.len()).sum();
        assert_eq!(listed + self.held.len(), self.ops.len(), "each request is in one place");
        let open = self.sessions.values().filter(|session| session.conn.is_some()).count();
        assert_eq!(open, self.conns.len(), "each connection belongs to a session");
    }

    fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    fn wish_for_maps(&mut self) {
        let wish = Wish::Maps(self.next_epoch());
        if self.wishes.back() != Some(&wish) {
            self.wishes.push_back(wish);
        }
    }

    fn advance(&mut self, maps: &messages::OsdMap) -> Result<(), Malformed> {
        let mut map = self.map.clone();
        for _ in 0..limits::MAPS_PER_MESSAGE_MAX {
            let epoch = self.epoch();
            let incremental = map.as_mut().zip(maps.incremental.get(&epoch.next()));
            if let Some((map, blob)) = incremental {
                let incremental = Incremental::from_bytes(blob)?;
                let applied = Arc::make_mut(map).apply(&incremental);
                applied.map_err(|_| Malformed::new("incremental OSD map", "does not follow the map before"))?;
            } else if let Some((_, blob)) = maps.full.range(epoch.next()..).next_back() {
                map = Some(Arc::new(OsdMap::from_bytes(blob)?));
            } else {
                break;
            }
            self.map.clone_from(&map);
            self.take_back(self.epoch() > epoch.next());
        }
        Ok(())
    }

    /// Follows one map: closes sessions with OSDs that are gone or elsewhere, and takes back what has moved; after
    /// `unknown` maps all, for whatever may have moved in one of them.
    fn take_back(&mut self, unknown: bool) {
        let Some(map) = self.map.clone() else { return };
        let moved = |osd: OsdId, session: &Session| {
            !map.is_up(osd) || map.addrs(osd).is_none_or(|addrs| addrs.client != session.addrs)
        };
        let gone: Vec<OsdId> = self.sessions.iter().filter(|(osd, s)| moved(**osd, s)).map(|(osd, _)| *osd).collect();
        for osd in gone {
            let session = self.sessions.remove(&osd).expect("it was just listed");
            if let Some(conn) = session.conn {
                self.conns.remove(&conn);
                self.commands.push_back(NetCommand::Close { conn });
            }
            session.tids.into_iter().for_each(|tid| self.hold(tid));
        }
        let stays = |op: &Op| match (&op.placement, place(&map, &op.request)) {
            (Some(old), Ok(new)) => *old == new && !new.forced_since(op.sent_epoch) && !unknown,
            _ => false,
        };
        let placed = self.ops.iter().filter(|(_, op)| op.placement.is_some());
        let moved: Vec<u64> = placed.filter(|(_, op)| !stays(op)).map(|(tid, _)| *tid).collect();
        moved.into_iter().for_each(|tid| self.hold(tid));
    }

    /// Takes a request from its session, if it has one.
    fn hold(&mut self, tid: u64) {
        let op = self.ops.get_mut(&tid).expect("only requests that exist are held");
        (op.placement, op.sent) = (None, false);
        if let Some(session) = op.osd.take().and_then(|osd| self.sessions.get_mut(&osd)) {
            session.tids.remove(&tid);
        }
        self.held.insert(tid);
    }

    /// Sends what is held and can be sent by the newest map, and forgets sessions that nobody needs.
    fn route_held(&mut self, now: Instant) {
        self.held.clone().into_iter().for_each(|tid| self.route(now, tid));
        let map = self.map.as_ref();
        let is_up = |osd: OsdId| map.is_some_and(|map| map.is_up(osd));
        self.sessions.retain(|osd, session| !session.tids.is_empty() || session.conn.is_some() && is_up(*osd));
    }

    fn place(&self, request: &Request) -> Result<Placement, Hold> {
        place(self.map.as_ref().ok_or(Hold::NoMap)?, request)
    }

    fn add(&mut self, op: Op) -> u64 {
        self.last_tid += 1;
        let tid = self.last_tid;
        self.tids.insert(op.id, tid);
        self.deadlines.extend(op.deadline.map(|at| (at, tid)));
        self.ops.insert(tid, op);
        self.held.insert(tid);
        tid
    }

    fn remove(&mut self, tid: u64) -> Option<Op> {
        let op = self.ops.remove(&tid)?;
        self.tids.remove(&op.id);
        self.held.remove(&tid);
        if let Some(at) = op.deadline {
            self.deadlines.remove(&(at, tid));
        }
        if let Some(session) = op.osd.and_then(|osd| self.sessions.get_mut(&osd)) {
            session.tids.remove(&tid);
        }
        Some(op)
    }

    fn complete(&mut self, tid: u64, result: Result<crate::request::Reply, Failure>) {
        if let Some(op) = self.remove(tid) {
            self.completions.push_back(Completion { id: op.id, result });
        }
    }

    /// Puts a held request where it belongs by the present map, and sends it if it can be sent.
    fn route(&mut self, now: Instant, tid: u64) {
        match self.place(&self.ops[&tid].request) {
            Err(why) => self.ask_about(why),
            Ok(placement) => {
                let op = self.ops.get_mut(&tid).expect("only requests that exist are routed");
                let osd = placement.asked(&op.request, &mut self.rng);
                let addrs = self.map.as_ref().and_then(|map| map.addrs(osd)).map(|addrs| addrs.client.clone());
                op.placement = Some(placement);
                op.osd = Some(osd);
                self.held.remove(&tid);
                let session = self.sessions.entry(osd).or_insert_with(|| Session::new(now, addrs.unwrap_or_default()));
                session.tids.insert(tid);
                self.send_if_possible(now, osd, tid);
            }
        }
    }

    /// Asks the monitor for what would end a hold.
    fn ask_about(&mut self, why: Hold) {
        match why {
            Hold::NoPool | Hold::NoPg if !self.probing => {
                self.probing = true;
                self.wishes.push_back(Wish::NewestEpoch);
            }
            Hold::NoMap | Hold::NoPool | Hold::NoPg | Hold::NoPrimary | Hold::Paused => {}
        }
    }

    fn open(&mut self, now: Instant, osd: OsdId, conns: &mut ConnIds) {
        let session = self.sessions.get_mut(&osd).expect("only sessions that exist are opened");
        let conn = conns.allocate();
        session.conn = Some(conn);
        self.conns.insert(conn, osd);
        let (to, tids) = (session.addrs.clone(), session.tids.clone());
        self.commands.push_back(NetCommand::Open { conn, to, kind: EntityType::OSD, policy: Policy::Lossy });
        for tid in tids {
            self.send_if_possible(now, osd, tid);
        }
    }

    fn send_if_possible(&mut self, now: Instant, osd: OsdId, tid: u64) {
        let session = &self.sessions[&osd];
        let op = self.ops.get_mut(&tid).expect("a session's requests exist");
        let Some(conn) = session.conn else { return };
        if op.sent {
            return;
        }
        let message = op.message(now, self.features, self.map.as_ref().map_or(Epoch(0), |map| map.epoch));
        if session.is_blocked(message.pgid, &op.place_in_order()) {
            return;
        }
        (op.sent, op.sent_at, op.sent_epoch) = (true, now, message.map_epoch);
        op.attempts += 1;
        self.commands.push_back(NetCommand::Send { conn, envelope: Envelope::with_tid(tid, message) });
    }

    /// Notes that the connection to an OSD is gone: all of its requests are unsent again.
    fn session_lost(&mut self, now: Instant, osd: OsdId) {
        let session = self.sessions.get_mut(&osd).expect("a connection's session exists");
        session.lost(now, Duration::from_nanos(self.rng.below(10_000_000)));
        for tid in session.tids.iter().filter(|_| !Bug::UnsentForgotten.is_planted()) {
            self.ops.get_mut(tid).expect("a session's requests exist").sent = false;
        }
    }

    /// Pings the sessions of requests that wait for long, so that a dead connection shows, and asks for newer maps.
    fn probe(&mut self, now: Instant) {
        let laggy = |op: &&Op| now.since(op.sent_at) >= limits::LAGGY_AFTER;
        let osds: BTreeSet<Option<OsdId>> = self.ops.values().filter(laggy).map(|op| op.osd).collect();
        if osds.is_empty() {
            return;
        }
        for conn in osds.iter().flatten().filter_map(|osd| self.sessions[osd].conn) {
            self.commands.push_back(NetCommand::Send { conn, envelope: Envelope::new(Ping::default()) });
        }
        self.probing = false;
        self.wish_for_maps();
        let unplaced = self.held.iter().filter_map(|tid| self.place(&self.ops[tid].request).err()).collect::<Vec<_>>();
        unplaced.into_iter().for_each(|why| self.ask_about(why));
    }
}

impl Op {
    /// The object in its order, for comparison with back-offs' ranges. A request about a placement group stands before
    /// the group's first object.
    fn place_in_order(&self) -> HObject {
        let placement = self.placement.as_ref().expect("only placed requests have a session");
        let target = &self.request.target;
        match target.pg {
            Some(pg) => HObject::pg_start(pg.pool, pg.seed),
            None => {
                let (nspace, key, name) = (target.nspace.clone(), target.key.clone(), target.object.clone());
                HObject::head(target.pool, nspace, key, name, placement.hash)
            }
        }
    }

    fn message(&self, now: Instant, features: u64, map_epoch: Epoch) -> OsdOp {
        let placement = self.placement.as_ref().expect("only placed requests are sent");
        let (request, target) = (&self.request, &self.request.target);
        // A request about a placement group names it by its hash.
        let hash = target.pg.map_or(-1, |pg| i64::from(pg.seed));
        let locator = ObjectLocator { pool: target.pool, key: target.key.clone(), nspace: target.nspace.clone(), hash };
        let pgid = SpgId::replicated(placement.pg);
        let base = OsdOp::new(pgid, placement.hash, locator, target.object.clone(), request.ops.clone());
        let mut flags = request.flags | RequestFlags::ONDISK | RequestFlags::KNOWN_REDIR;
        for (needed, flag) in [
            (request.reads(), RequestFlags::READ),
            (request.writes(), RequestFlags::WRITE),
            (self.attempts > 0, RequestFlags::RETRY),
        ] {
            flags = if needed { flags | flag } else { flags };
        }
        // The time of a write is when it was submitted, so that all attempts say the same.
        let mtime = if request.writes() { self.submitted } else { now };
        OsdOp {
            map_epoch,
            flags,
            mtime: mtime.into(),
            snap: request.snap,
            snap_context: request.snap_context.clone(),
            retry_attempt: i32::try_from(self.attempts).unwrap_or(i32::MAX),
            features,
            ..base
        }
    }
}
