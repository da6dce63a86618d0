//! The engine's front: inputs in, the right PG or session called, commands out.
//!
//! Owns the PGs, the monitor client, the messages that wait for a newer map, and the OSD's own life from boot to a
//! clean stop. Decides nothing about objects: see `pg`.
//!
//! Invariant: every input leaves the scheduler empty; what has to wait, waits in a place of its own with a bound.

use crate::boot::{BootImage, boot_message, store_maps};
use crate::config::OsdConfig;
use crate::core::{Command, CommitFor, Core, Level};
use crate::limits::{
    ASK_AGAIN, BEACON_INTERVAL, MAP_WAITING_MAX, NAMESPACE_BYTES_MAX, OBJECT_NAME_BYTES_MAX, SHUTDOWN_WAIT,
};
use crate::map_follower::{follow, is_served};
use crate::ops;
use crate::pg::Pg;
use crate::pg::client_io::ClientRequest;
use crate::reply;
use crate::scheduler::{Fifo, Scheduler, WorkClass};
use crate::stats::Reporter;
use base::hash::FixedHashMap;
use base::rng::SecretRng;
use base::{EVersion, Epoch, Errno, Instant, OsdId, PgId, SnapId};
use maps::OsdMap;
use monclient::{Handled, MonClient, MonClientConfig, MonEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::{CommitId, ObjectId, ReadId, ReadResult, StoreError, Transaction};
use wire::cephx::AuthName;
use wire::messages::backoff_op::{BLOCK, UNBLOCK};
use wire::messages::{
    self, Backoff, Message, OsdAlive, OsdBeacon, OsdFailure, OsdMarkMeDown, OsdOp, PaxosHead, PgNotify, osd_failure,
};
use wire::net::{ConnId, ConnIds, Envelope, NetCommand, NetEvent};
use wire::osd::{HObject, RequestFlags, SpgId};
use wire::types::EntityType;

/// One OSD.
#[derive(Debug)]
pub struct Osd {
    core: Core,
    mon: MonClient,
    conns: ConnIds,
    pgs: FixedHashMap<PgId, Box<Pg>>,
    scheduler: Fifo<Work>,
    waiting_for_map: BTreeMap<Epoch, Vec<(ConnId, Envelope)>>,
    waiting_count: usize,
    life: Life,
    stats: Reporter,
}

/// Work on its way through the scheduler.
#[derive(Debug)]
struct Work {
    pg: PgId,
    request: Box<ClientRequest>,
}

/// The OSD's own life.
#[derive(Debug)]
struct Life {
    meta_exists: bool,
    /// The map shows this life as up.
    up: bool,
    /// The map in which this life came up; 0 before.
    boot_epoch: Epoch,
    boot_sent: Instant,
    alive_sent: (Epoch, Instant),
    beacon_sent: Instant,
    maps_asked: Instant,
    stopping: Option<Instant>,
    stopped: bool,
}

impl Osd {
    /// An OSD with what its store has. It opens its monitor session at the first `poll_command`.
    pub fn new(now: Instant, config: OsdConfig, rng: SecretRng, image: BootImage) -> Osd {
        let name = AuthName::new(EntityType::OSD, config.id.to_string());
        let mut mon_config = MonClientConfig::new(name, config.key.clone(), config.mon_addrs.clone());
        mon_config.fsid = Some(config.fsid);
        mon_config.hostname = config.metadata.get("hostname").cloned().unwrap_or_default();
        let mut mon = MonClient::new(now, mon_config, rng);
        let map = image.map.unwrap_or_else(|| Arc::new(OsdMap::new(config.fsid)));
        // The whole history from the first map on, so that PGs' past intervals are known.
        mon.subscribe("osdmap", u64::from(map.epoch.0) + 1, false);
        let stats = Reporter::new(config.stats_interval);
        let meta_exists = image.born.is_some();
        let mut core = Core::new(now, config, map, image.placement, image.born.unwrap_or(Epoch(0)));
        core.blobs.set_full(core.map.epoch, image.map_blob);
        let mut pgs = FixedHashMap::default();
        for mut pg in image.pgs {
            if let Some(history) = core.placement.get(pg.id) {
                (pg.sets, pg.since) = (history.current.clone(), history.since);
            }
            pgs.insert(pg.id, Box::new(pg));
        }
        let life = Life {
            meta_exists,
            up: false,
            boot_epoch: Epoch(0),
            boot_sent: Instant::ZERO,
            alive_sent: (Epoch(0), Instant::ZERO),
            beacon_sent: Instant::ZERO,
            maps_asked: Instant::ZERO,
            stopping: None,
            stopped: false,
        };
        Osd {
            core,
            mon,
            conns: ConnIds::default(),
            pgs,
            scheduler: Fifo::default(),
            waiting_for_map: BTreeMap::new(),
            waiting_count: 0,
            life,
            stats,
        }
    }

    /// Who answers the handshakes of this OSD's messenger.
    pub fn auth(&mut self) -> &mut (impl wire::auth::Auth + use<>) {
        self.mon.auth()
    }

    /// The next command.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.core.poll().or_else(|| self.mon.poll_command(&mut self.conns).map(Command::Net))
    }

    /// When `handle_timer` should be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let life = &self.life;
        let asking = !life.up || life.stopping.is_some() || self.core.up_thru_wanted > life.alive_sent.0;
        let speaks = self.mon.session().is_some() && life.up && !life.stopped;
        let own = if asking || !speaks { self.core.now + ASK_AGAIN / 4 } else { life.beacon_sent + BEACON_INTERVAL };
        let stats = speaks.then(|| self.stats.due(&self.core));
        [
            Some(own),
            self.mon.next_wakeup(),
            self.core.peers.next_wakeup(),
            stats,
            life.stopping,
            self.scheduler.next_wakeup(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// To be called at `next_wakeup`, or at any other time.
    pub fn handle_timer(&mut self, now: Instant) {
        self.core.now = now;
        self.mon.handle_timer(now);
        self.drain_mon();
        self.tick_peers();
        self.speak();
        if self.life.stopping.is_some_and(|deadline| deadline <= now) {
            self.stop();
        }
    }

    /// Something from the network.
    pub fn handle_net(&mut self, now: Instant, event: NetEvent) {
        self.core.now = now;
        if self.mon.handle_net(now, &event) == Handled::Yes {
            self.drain_mon();
            self.speak();
            return;
        }
        match event {
            NetEvent::Message { conn, envelope } => self.message(conn, envelope),
            NetEvent::Opened { conn, peer } => {
                if self.core.peers.owner(conn).is_some() {
                    self.core.peers.opened(conn);
                } else if !self.core.sessions.open(conn, peer) {
                    self.core.net(NetCommand::Close { conn });
                }
            }
            NetEvent::Reset { conn } => {
                if let Some(osd) = self.core.peers.owner(conn) {
                    self.pgs.values_mut().for_each(|pg| pg.peer_reset(&mut self.core, osd));
                }
            }
            NetEvent::Closed { conn, why } => {
                if self.core.peers.owner(conn).is_none() {
                    self.core.sessions.close(conn);
                } else if let Some(osd) = self.core.peers.closed(conn, why, now) {
                    self.report_failure(osd);
                }
            }
        }
        self.run();
    }

    /// The store has answered a read.
    pub fn handle_read(&mut self, now: Instant, id: ReadId, result: Result<ReadResult, StoreError>) {
        self.core.now = now;
        let Some(read) = self.core.take_read(id) else { return };
        if let Some(pg) = self.pgs.get_mut(&read.pg) {
            pg.handle_read(&mut self.core, read.what, result);
        } else if let crate::pg::PgRead::Request(request) = read.what {
            self.core.sessions.release(request.bytes);
        }
    }

    /// The store has a transaction.
    pub fn handle_committed(&mut self, now: Instant, id: CommitId, result: Result<(), StoreError>) {
        self.core.now = now;
        let Some(commit) = self.core.take_commit(id) else { return };
        if let Err(error) = result {
            // What is not durable must not be confirmed; without its store an OSD is of no use.
            self.core.log(Level::Error, format!("the store refused a transaction: {error}; stopping"));
            return self.stop();
        }
        match commit {
            CommitFor::Maps => {}
            CommitFor::Pg(id, what) => {
                if let Some(pg) = self.pgs.get_mut(&id) {
                    pg.handle_commit(&mut self.core, what);
                }
            }
        }
        if self.core.sessions.drained() {
            resume_all(&mut self.core);
        }
    }

    /// Begins a clean stop: asks to be marked down, then `Command::Stopped`.
    pub fn shutdown(&mut self, now: Instant) {
        self.core.now = now;
        if self.life.stopping.is_some() {
            return;
        }
        self.life.stopping = Some(now + SHUTDOWN_WAIT);
        if !self.life.up {
            return self.stop();
        }
        let message = OsdMarkMeDown {
            paxos: PaxosHead::new(u64::from(self.core.epoch().0)),
            fsid: self.core.config.fsid,
            target: self.core.me(),
            target_addrs: self.core.config.public_addrs.clone(),
            epoch: self.core.epoch(),
            request_ack: true,
            down_and_dead: true,
        };
        self.mon.send(Envelope::new(message));
    }

    fn stop(&mut self) {
        if !core::mem::replace(&mut self.life.stopped, true) {
            self.core.push(Command::Stopped);
        }
    }

    /// Hears the monitor client.
    fn drain_mon(&mut self) {
        while let Some(event) = self.mon.poll_event() {
            match event {
                MonEvent::OsdMap(message) => self.maps(&message),
                MonEvent::Ready | MonEvent::Rotating => {
                    self.life.boot_sent = Instant::ZERO;
                    self.life.alive_sent.1 = Instant::ZERO;
                    self.core.stats_changed = true;
                }
                MonEvent::Denied(errno) => {
                    self.core.log(Level::Error, format!("the monitor refuses this OSD: {errno}"));
                }
                MonEvent::Message(envelope) => match envelope.message {
                    Message::OsdMarkMeDown(m) if m.target == self.core.me() && self.life.stopping.is_some() => {
                        self.stop()
                    }
                    Message::PgStatsAck(_) => {}
                    other => self.core.log(Level::Debug, format!("the monitor sent {}", other.name())),
                },
                MonEvent::MgrMap(_)
                | MonEvent::Lost
                | MonEvent::Config(_)
                | MonEvent::MonMap(_)
                | MonEvent::CommandReply { .. }
                | MonEvent::CommandDropped { .. }
                | MonEvent::Version { .. } => {}
            }
        }
    }

    /// New maps.
    fn maps(&mut self, message: &messages::OsdMap) {
        let before = Arc::clone(&self.core.map);
        let followed = follow(&mut self.core.blobs, &before, self.core.config.fsid, message);
        if let Some(trouble) = followed.trouble {
            self.core.log(Level::Error, format!("a map cannot be used: {trouble}"));
        }
        let mut moved = BTreeSet::new();
        let mut last = before;
        for next in &followed.maps {
            let previous = (last.epoch.0 > 0).then_some(&*last);
            // Before the first map ever there is nothing to be contiguous with; epoch 1 begins everything.
            let contiguous = next.contiguous && (previous.is_some() || next.map.epoch.0 == 1);
            let change = self.core.placement.follow(previous, &next.map, contiguous);
            moved.extend(change.moved);
            for pg in change.gone {
                moved.remove(&pg);
                self.remove_pg(pg);
            }
            last = Arc::clone(&next.map);
        }
        if followed.maps.is_empty() {
            return self.ask_for_maps(message.newest);
        }
        self.core.map = last;
        self.mon.got("osdmap", u64::from(self.core.epoch().0));
        let blob = message.full.get(&self.core.epoch()).cloned();
        let blob = blob.unwrap_or_else(|| self.core.map.encoded().bytes);
        self.core.blobs.set_full(self.core.epoch(), blob);
        self.core.with_peers(|peers, map, _, out| peers.follow(map, out));
        if self.notice_own_state() {
            // Up at last: what was only noted until now begins.
            moved.extend(self.core.placement.iter().map(|(pg, _)| pg));
        }
        self.move_pgs(&moved);
        self.store_maps();
        if message.newest > self.core.epoch() {
            self.ask_for_maps(message.newest);
        }
        self.wake_waiting();
        self.run();
    }

    /// Something is missing between the map that is here and the newest.
    fn ask_for_maps(&mut self, newest: Epoch) {
        if newest > self.core.epoch() && self.core.now >= self.life.maps_asked + ASK_AGAIN / 8 {
            self.life.maps_asked = self.core.now;
            self.mon.subscribe("osdmap", u64::from(self.core.epoch().0) + 1, false);
        }
    }

    /// Looks whether the map shows this life as up; tells whether that is new.
    fn notice_own_state(&mut self) -> bool {
        let me = self.core.me();
        let ours = |addrs: &maps::OsdAddrs| {
            addrs.client.msgr2() == self.core.config.public_addrs.msgr2()
                && addrs.cluster.msgr2() == self.core.config.cluster_addrs.msgr2()
        };
        let up = self.core.map.is_up(me) && self.core.map.addrs(me).is_some_and(|addrs| ours(addrs));
        if up && !self.life.up {
            self.life.boot_epoch = self.core.epoch();
            self.core.log(Level::Info, format!("up in epoch {}", self.core.epoch()));
        } else if !up && self.life.up {
            self.core.log(Level::Warn, format!("marked down in epoch {}", self.core.epoch()));
            self.life.boot_sent = Instant::ZERO;
        }
        if !up && self.life.stopping.is_some() {
            self.stop();
        }
        let was = core::mem::replace(&mut self.life.up, up);
        up && !was
    }

    /// Begins new intervals where there are any, and tells the other PGs of the new map.
    fn move_pgs(&mut self, moved: &BTreeSet<PgId>) {
        let me = self.core.me();
        for id in moved {
            let Some(history) = self.core.placement.get(*id) else { continue };
            let (sets, since) = (history.current.clone(), history.since);
            if !self.pgs.contains_key(id) {
                if !sets.concerns(me) || !is_served(&self.core.map, id.pool) {
                    continue;
                }
                self.pgs.insert(*id, Box::new(Pg::new(*id)));
            }
            let pg = self.pgs.get_mut(id).expect("it is there now");
            pg.start_interval(&mut self.core, sets, since, self.life.up);
        }
        self.pgs.retain(|_, pg| pg.exists || pg.sets.concerns(me));
        let mut companions = BTreeSet::new();
        for (id, pg) in &mut self.pgs {
            if pg.sets.concerns(me) {
                pg.companions(me, &mut companions);
            }
            if self.life.up && !moved.contains(id) {
                pg.follow_map(&mut self.core);
            }
        }
        self.core.peers.watch(companions);
        self.tick_peers();
    }

    fn tick_peers(&mut self) {
        for osd in self.core.with_peers(|peers, map, now, out| peers.tick(map, now, out)) {
            self.pgs.values_mut().for_each(|pg| pg.peer_reset(&mut self.core, osd));
        }
    }

    fn remove_pg(&mut self, id: PgId) {
        if let Some(mut pg) = self.pgs.remove(&id) {
            pg.requeue_requests(&mut self.core);
            pg.drop_requests(&mut self.core);
            if pg.exists {
                let t = Transaction::remove(pg.collection());
                self.core.commit(CommitFor::Maps, t);
            }
            self.core.stats_changed = true;
        }
    }

    fn store_maps(&mut self) {
        let create = !core::mem::replace(&mut self.life.meta_exists, true);
        if self.core.born == Epoch(0) {
            // New in this map: whatever was before it, this store does not have.
            self.core.born = self.core.epoch();
        }
        let t = store_maps(&self.core, create);
        self.core.commit(CommitFor::Maps, t);
    }

    /// Sends the monitor what it should know by now.
    fn speak(&mut self) {
        let now = self.core.now;
        if self.mon.session().is_none() || self.core.epoch() == Epoch(0) || self.life.stopped {
            return;
        }
        if !self.life.up && self.life.stopping.is_none() {
            if now >= self.life.boot_sent + ASK_AGAIN && (self.mon.can_verify() || self.core.config.key.is_none()) {
                self.life.boot_sent = now;
                if self.life.boot_epoch == Epoch(0) && self.core.born == Epoch(0) {
                    self.core.born = self.core.epoch();
                }
                self.mon.send(Envelope::new(boot_message(&self.core, self.life.boot_epoch)));
            }
            return;
        }
        let have = self.core.map.info(self.core.me()).map_or(Epoch(0), |info| info.up_thru);
        let wanted = self.core.up_thru_wanted;
        let (sent, at) = self.life.alive_sent;
        if wanted > have && (wanted > sent || now >= at + ASK_AGAIN) {
            self.life.alive_sent = (wanted, now);
            self.mon.send(Envelope::new(OsdAlive { paxos: self.paxos(), want: wanted }));
        }
        if now >= self.life.beacon_sent + BEACON_INTERVAL {
            self.life.beacon_sent = now;
            let beacon = OsdBeacon {
                paxos: self.paxos(),
                pgs: self.primary_pgs(),
                min_last_epoch_clean: self.core.epoch(),
                last_purged_snaps_scrub: Default::default(),
                report_interval_s: BEACON_INTERVAL.as_secs() as u32,
            };
            self.mon.send(Envelope::new(beacon));
        }
        if let Some(message) = self.stats.report(&mut self.core, &mut self.pgs) {
            self.mon.send(Envelope::new(message));
        }
    }

    fn paxos(&self) -> PaxosHead {
        PaxosHead::new(u64::from(self.core.epoch().0))
    }

    fn primary_pgs(&self) -> Vec<PgId> {
        let mut ids: Vec<PgId> = self.pgs.values().filter(|pg| pg.is_primary()).map(|pg| pg.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Nobody listens where another OSD should be.
    fn report_failure(&mut self, osd: OsdId) {
        let now = self.core.now;
        if !self.life.up || self.life.stopping.is_some() || self.core.peers.should_report(osd, now).is_none() {
            return;
        }
        let Some(addrs) = self.core.map.addrs(osd) else { return };
        let message = OsdFailure {
            paxos: self.paxos(),
            fsid: self.core.config.fsid,
            target: osd,
            target_addrs: addrs.client.clone(),
            epoch: self.core.epoch(),
            flags: osd_failure::FAILED | osd_failure::IMMEDIATE,
            failed_for_s: 0,
        };
        self.core.log(Level::Warn, format!("{osd:?} refuses connections: reported as failed"));
        self.mon.send(Envelope::new(message));
    }

    /// A message of a session that is not the monitor's.
    fn message(&mut self, conn: ConnId, envelope: Envelope) {
        if self.life.stopped {
            return;
        }
        match envelope.message {
            Message::OsdOp(op) => self.client_request(conn, envelope.tid, op),
            Message::Command(command) => {
                let reply = crate::commands::run(&mut self.core, &self.pgs, &self.stats, conn, &command);
                self.core.send(conn, Envelope::with_tid(envelope.tid, reply));
            }
            Message::Backoff(_) | Message::Ping(_) => {}
            message => {
                let from = self.core.peers.owner(conn).or_else(|| {
                    let name = self.core.sessions.get(conn)?.peer.name;
                    (name.kind == EntityType::OSD).then(|| OsdId(i32::try_from(name.num).unwrap_or(-1)))
                });
                match from {
                    Some(from) => self.peer_message(conn, from, Envelope { message, ..envelope }),
                    None => self.core.log(Level::Debug, format!("a client sent {}: ignored", message.name())),
                }
            }
        }
    }

    /// Keeps a message until its map has come.
    fn wait_for_map(&mut self, epoch: Epoch, conn: ConnId, envelope: Envelope) {
        if self.waiting_count >= MAP_WAITING_MAX {
            return;
        }
        self.waiting_count += 1;
        self.waiting_for_map.entry(epoch).or_default().push((conn, envelope));
        self.ask_for_maps(epoch);
    }

    fn wake_waiting(&mut self) {
        let later = self.waiting_for_map.split_off(&self.core.epoch().next());
        for (conn, envelope) in core::mem::replace(&mut self.waiting_for_map, later).into_values().flatten() {
            self.waiting_count -= 1;
            self.message(conn, envelope);
        }
    }

    /// A message of another OSD.
    fn peer_message(&mut self, conn: ConnId, from: OsdId, envelope: Envelope) {
        let Some((id, epoch)) = addressed_to(&envelope.message) else {
            return self.core.log(Level::Debug, format!("{from:?} sent {}: ignored", envelope.message.name()));
        };
        if epoch.is_some_and(|epoch| epoch > self.core.epoch()) {
            return self.wait_for_map(epoch.unwrap_or_default(), conn, envelope);
        }
        let since = self.core.placement.get(id).map(|history| history.since);
        if epoch.is_some_and(|epoch| since.is_none_or(|since| epoch < since)) {
            return;
        }
        let Some(pg) = self.pgs.get_mut(&id) else {
            if let Message::PgQuery(query) = &envelope.message {
                let (map_epoch, born) = (self.core.epoch(), self.core.born);
                let nothing = PgNotify { pg: id, map_epoch, peering: query.peering, born, info: None };
                self.core.send(conn, Envelope::new(nothing));
            }
            return;
        };
        let core = &mut self.core;
        match envelope.message {
            Message::SubWrite(m) => pg.handle_sub_write(core, conn, from, &m),
            Message::SubCommit(m) => pg.handle_sub_commit(core, from, &m),
            Message::PgQuery(m) => pg.handle_query(core, conn, &m),
            Message::PgNotify(m) => pg.handle_notify(core, from, &m),
            Message::PgLogQuery(m) => pg.handle_log_query(core, conn, &m),
            Message::PgLog(m) => pg.handle_log(core, from, &m),
            Message::PgSync(m) => pg.handle_sync(core, conn, from, &m),
            Message::PgSynced(m) => pg.handle_synced(core, from, m.peering),
            Message::PgPull(m) => pg.handle_pull(core, conn, m),
            Message::PgPush(m) => pg.handle_push(core, from, *m),
            Message::PgScan(m) => pg.handle_scan(core, conn, m),
            Message::PgScanReply(m) => pg.handle_scan_reply(core, from, &m),
            Message::PgRemove(_) if pg.sets.acting_primary == from && !pg.sets.concerns(core.me()) => {
                self.remove_pg(id);
            }
            _ => {}
        }
    }

    /// A client's request has arrived.
    fn client_request(&mut self, conn: ConnId, tid: u64, message: Box<OsdOp>) {
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
        if !self.core.sessions.admit(bytes) {
            return hold_requests(&mut self.core, conn, pg);
        }
        match self.open_request(conn, tid, message, bytes) {
            Opened::Work(request) => {
                self.scheduler.enqueue(self.core.now, WorkClass::Client, bytes, Work { pg, request });
            }
            Opened::Refused(request, errno) => {
                reply::error(&mut self.core, &request, errno, EVersion::default(), 0);
                self.core.sessions.release(bytes);
            }
            Opened::Dropped => self.core.sessions.release(bytes),
        }
    }

    /// Checks a request as far as that needs no object.
    fn open_request(&self, conn: ConnId, tid: u64, message: Box<OsdOp>, bytes: usize) -> Opened {
        let Some(session) = self.core.sessions.get(conn) else { return Opened::Dropped };
        let reqid = message.request_id(session.peer.name, tid);
        let plan = ops::plan(&message.ops);
        let checked = check_names(&message).and_then(|()| session.caps.check(&self.core.map, &message));
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
        let request = Box::new(ClientRequest { conn, tid, reqid, message, object, plan, bytes, interval: Epoch(0) });
        match checked.and(planned).and_then(|()| self.check_place(&request)) {
            Ok(true) => Opened::Work(request),
            Ok(false) => Opened::Dropped,
            Err(errno) => Opened::Refused(request, errno),
        }
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
        if history.current.acting_primary != self.core.me() {
            if message.map_epoch < history.since {
                return Ok(false);
            }
            let any_replica = RequestFlags::BALANCE_READS | RequestFlags::LOCALIZE_READS;
            let retry = message.flags.has(any_replica) && history.current.acting.contains(&self.core.me());
            return Err(if retry { Errno::EAGAIN } else { Errno::ENXIO });
        }
        if !message.object.is_empty() && pool.raw_pg_to_pg(PgId::new(pg.pool, message.hash)) != pg {
            return if message.map_epoch < self.core.epoch() { Ok(false) } else { Err(Errno::EINVAL) };
        }
        let peer = self.core.sessions.get(request.conn).map(|session| &session.peer);
        if peer.is_some_and(|peer| peer.addrs.0.iter().any(|addr| map.is_blocklisted(addr))) {
            return Err(Errno::ESHUTDOWN);
        }
        check_kind(request, pool)
    }

    /// Runs what the scheduler lets through.
    fn run(&mut self) {
        while let Some(work) = self.scheduler.dequeue(self.core.now) {
            match self.pgs.get_mut(&work.pg) {
                Some(pg) => pg.handle_request(&mut self.core, work.request),
                None => self.core.sessions.release(work.request.bytes),
            }
        }
    }

    /// The current map's epoch.
    pub fn epoch(&self) -> Epoch {
        self.core.epoch()
    }

    /// Whether the map shows this OSD, in this life, as up.
    pub fn is_up(&self) -> bool {
        self.life.up
    }

    /// How many PGs this OSD leads, and how many of those serve.
    pub fn primaries(&self) -> (usize, usize) {
        let led = self.pgs.values().filter(|pg| pg.is_primary()).count();
        (led, self.pgs.values().filter(|pg| pg.is_active()).count())
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        self.mon.check_invariants();
        self.pgs.values().for_each(|pg| pg.check_invariants());
        let waiting: usize = self.waiting_for_map.values().map(Vec::len).sum();
        assert_eq!(waiting, self.waiting_count, "waiting messages are counted");
        assert!(waiting <= MAP_WAITING_MAX, "too many messages wait for maps");
    }
}

/// What became of a request on arrival.
enum Opened {
    Work(Box<ClientRequest>),
    Refused(Box<ClientRequest>, Errno),
    Dropped,
}

fn check_names(message: &OsdOp) -> Result<(), Errno> {
    let long = message.object.len() > OBJECT_NAME_BYTES_MAX
        || message.locator.key.len() > OBJECT_NAME_BYTES_MAX
        || message.locator.nspace.len() > NAMESPACE_BYTES_MAX;
    if long {
        return Err(Errno::ENAMETOOLONG);
    }
    let concerns_pg = message.ops.iter().any(|item| item.op.is_pg());
    if message.object.is_empty() != concerns_pg { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Snapshots and full pools: what cannot be done, or not now.
fn check_kind(request: &ClientRequest, pool: &maps::PgPool) -> Result<bool, Errno> {
    let message = &request.message;
    if message.snap != SnapId::HEAD && !message.object.is_empty() {
        let writes = request.plan.class != ops::OpClass::Read;
        return Err(if writes { Errno::EINVAL } else { Errno::EOPNOTSUPP });
    }
    if request.plan.class == ops::OpClass::Read {
        return Ok(true);
    }
    if !message.snap_context.snaps.is_empty() || !pool.snaps.is_empty() {
        return Err(Errno::EOPNOTSUPP);
    }
    if pool.is_full() && !message.flags.has(RequestFlags::FULL_FORCE) && !only_frees(message) {
        return if message.flags.has(RequestFlags::FULL_TRY) { Err(Errno::EDQUOT) } else { Ok(false) };
    }
    Ok(true)
}

/// Whether a request only makes room.
fn only_frees(message: &OsdOp) -> bool {
    message.ops.iter().all(|item| !item.op.writes() || item.op == wire::osd::OpCode::DELETE)
}

/// The PG that a peer's message is for, and the sender's map where it says.
fn addressed_to(message: &Message) -> Option<(PgId, Option<Epoch>)> {
    Some(match message {
        Message::SubWrite(m) => (m.pg, None),
        Message::SubCommit(m) => (m.pg, None),
        Message::PgQuery(m) => (m.pg, Some(m.map_epoch)),
        Message::PgNotify(m) => (m.pg, Some(m.map_epoch)),
        Message::PgLogQuery(m) => (m.pg, Some(m.map_epoch)),
        Message::PgLog(m) => (m.pg, Some(m.map_epoch)),
        Message::PgSync(m) => (m.pg, Some(m.map_epoch)),
        Message::PgSynced(m) => (m.pg, Some(m.map_epoch)),
        Message::PgPull(m) => (m.pg, Some(m.map_epoch)),
        Message::PgPush(m) => (m.pg, Some(m.map_epoch)),
        Message::PgScan(m) => (m.pg, Some(m.map_epoch)),
        Message::PgScanReply(m) => (m.pg, Some(m.map_epoch)),
        Message::PgRemove(m) => (m.pg, Some(m.map_epoch)),
        _ => return None,
    })
}

/// Sends a client the maps it lacks, once.
pub fn share_map(core: &mut Core, conn: ConnId, has: Epoch) {
    let epoch = core.epoch();
    let Some(session) = core.sessions.get_mut(conn) else { return };
    session.has_map = session.has_map.max(has);
    if session.has_map < epoch && has < epoch {
        let from = core::mem::replace(&mut session.has_map, epoch);
        let maps = core.blobs.since(core.config.fsid, from);
        core.send(conn, Envelope::new(maps));
    }
}

/// Asks a client to hold its requests for a PG; the one that is dropped now it will send again.
pub fn hold_requests(core: &mut Core, conn: ConnId, pg: PgId) {
    if core.sessions.holds(conn, pg) {
        return;
    }
    if let Some(id) = core.sessions.hold(conn, pg) {
        send_backoff(core, conn, pg, id, BLOCK);
    }
}

/// Tells those who hold requests for a PG to go on.
pub fn resume_requests(core: &mut Core, pg: PgId) {
    for (conn, pg, id) in core.sessions.resume(Some(pg)) {
        send_backoff(core, conn, pg, id, UNBLOCK);
    }
}

fn resume_all(core: &mut Core) {
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
