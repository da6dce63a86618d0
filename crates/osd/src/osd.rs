//! The engine's front: inputs in, the right PG or session called, commands out.
//!
//! Owns the PGs, the monitor client, and the messages that wait for a newer map. Decides nothing about objects.
//!
//! Invariant: what an input leaves in the scheduler waits for the store or for its time: the store's next answer, or
//! `next_wakeup`, lets it go on. What has to wait for something else, waits in a place of its own with a bound.
//!
//! Read next: `life` (boot to stop), `following` (maps), `requests` (clients), `peer_messages` (other OSDs), `pg`.

use crate::bench::Bench;
use crate::boot::BootImage;
use crate::config::OsdConfig;
use crate::core::{AheadFor, Command, CommitFor, Core, Level};
use crate::counters::StoreCounters;
use crate::life::{Life, Record};
use crate::limits::{ASK_AGAIN, BEACON_INTERVAL, MAP_WAITING_MAX};
use crate::manager_report::ManagerReports;
use crate::markdowns::Markdowns;
use crate::memory::Memory;
use crate::pg::client_io::ClientRequest;
use crate::pg::{Pg, PgRead};
use crate::requests::leave_to_client;
use crate::scheduler::{OpQueue, QueueOptions, UnderWay, WorkClass};
use crate::stats::Reporter;
use admin::Transport;
use base::hash::FixedHashMap;
use base::rng::SecretRng;
use base::{Epoch, Instant, OsdId, PgId};
use maps::OsdMap;
use monclient::{Handled, MonClient, MonClientConfig, MonEvent};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use store::{AheadId, CommitId, ReadId, ReadResult, StoreError};
use wire::cephx::AuthName;
use wire::messages::Message;
use wire::messages::backoff_op::ACK_BLOCK;
use wire::net::{ConnId, ConnIds, Envelope, NetCommand, NetEvent, Peer, TicketCaps};
use wire::types::EntityType;

/// One OSD.
#[derive(Debug)]
pub struct Osd {
    pub(crate) core: Core,
    pub(crate) mon: MonClient,
    conns: ConnIds,
    pub(crate) pgs: FixedHashMap<PgId, Box<Pg>>,
    pub(crate) scheduler: OpQueue,
    waiting_for_map: BTreeMap<Epoch, Vec<(ConnId, Envelope)>>,
    /// Requests of PGs that are gone with a map: their clients are told of it when it is followed.
    pub(crate) left: VecDeque<Box<ClientRequest>>,
    pub(crate) waiting_count: usize,
    pub(crate) life: Life,
    pub(crate) stats: Reporter,
    pub(crate) manager: ManagerReports,
    pub(crate) bench: Option<Bench>,
    pub(crate) transport: Transport,
    pub(crate) transport_base: Transport,
    /// What its memory is divided into.
    pub(crate) memory: Memory,
}

/// Work on its way through the scheduler.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) pg: PgId,
    pub(crate) what: WorkOf,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum WorkOf {
    /// A client's request.
    Request(Box<ClientRequest>),
    /// A turn of trimming removed snapshots.
    Trim,
    /// A turn of recovery.
    Recover,
    /// A turn of looking at what is here of a scrub's range.
    Scrub,
    /// A turn of removing what is left of a group.
    Delete,
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
        let record = if image.born.is_some() { Record::Durable } else { Record::None };
        let mut core = Core::new(now, config, map, image.placement, image.born.unwrap_or(Epoch(0)));
        core.blobs.set_full(core.map.epoch, image.map_blob);
        let mut pgs = FixedHashMap::default();
        core.suspects = image.suspects;
        image.deleting.into_iter().for_each(|pg| core.deletions.resume(pg));
        // The power may have gone between the map and what it asks for, here too: a pool's number is never given again.
        let gone = |pg: &Pg, map: &OsdMap| map.pool(pg.id.pool).is_none() && pg.id.pool <= map.pool_max;
        let (of_gone_pools, here): (Vec<Pg>, Vec<Pg>) = image.pgs.into_iter().partition(|pg| gone(pg, &core.map));
        for mut pg in here {
            if let Some(history) = core.placement.get(pg.id) {
                pg.place(history);
            }
            pgs.insert(pg.id, Box::new(pg));
        }
        let life = Life {
            record,
            up: false,
            boot_epoch: Epoch(0),
            boot_sent: Instant::ZERO,
            alive_sent: (Epoch(0), Instant::ZERO),
            beacon_sent: Instant::ZERO,
            beacon_interval: BEACON_INTERVAL,
            down_since: Instant::ZERO,
            markdowns: Markdowns::new(),
            maps_asked: Instant::ZERO,
            maps_unstored: false,
            merge_said: Instant::ZERO,
            merges_since: None,
            stopping: None,
            stopped: false,
        };
        let scheduler = OpQueue::new(QueueOptions::of(&core.settings, core.is_rotational(), None));
        let mut osd = Osd {
            core,
            mon,
            conns: ConnIds::default(),
            pgs,
            scheduler,
            waiting_for_map: BTreeMap::new(),
            left: VecDeque::new(),
            waiting_count: 0,
            life,
            stats,
            manager: ManagerReports::default(),
            bench: None,
            transport: Transport::default(),
            transport_base: Transport::default(),
            memory: Memory::default(),
        };
        osd.apply_options();
        of_gone_pools.iter().for_each(|pg| osd.delete_collection(pg.id));
        // The power may have gone between the map and what it asks for.
        let map = Arc::clone(&osd.core.map);
        osd.resize_pgs(&map, true);
        osd
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
        let own =
            if asking || !speaks { self.core.now + ASK_AGAIN / 4 } else { life.beacon_sent + life.beacon_interval };
        let stats = speaks.then(|| self.stats.due(&self.core));
        [
            Some(own),
            self.mon.next_wakeup(),
            self.core.peers.next_wakeup(),
            self.core.heartbeats.next_wakeup(),
            self.core.copies.next_wakeup(),
            stats,
            life.stopping,
            self.core.alarms.first().map(|(at, _)| *at),
            self.core.pace.next_wakeup(),
            self.core.trims.next_wakeup(),
            self.core.reservations.next_wakeup(),
            self.core.scrubs.next_wakeup().filter(|_| life.up),
            self.core.wishes.next_wakeup().filter(|_| speaks),
            self.core.tenants.next_wakeup(),
            self.scheduler.next_wakeup(),
            self.core.deletions.next_wakeup(),
            life.merges_since.filter(|_| speaks).map(|_| life.merge_said + ASK_AGAIN / 8),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// To be called at `next_wakeup`, or at any other time.
    pub fn handle_timer(&mut self, now: Instant) {
        self.core.advance(now);
        self.mon.handle_timer(now);
        self.drain_mon();
        self.tick_peers();
        self.tick_heartbeats();
        self.ring_alarms();
        self.tick_scrubs();
        self.schedule_deletions();
        self.retry_reserving();
        self.follow_capacity();
        self.ask_sources_again();
        self.settle_tenants();
        self.run_queued();
        self.speak();
        if self.life.stopping.is_some_and(|deadline| deadline <= now) {
            self.stop();
        }
    }

    /// Something from the network.
    pub fn handle_net(&mut self, now: Instant, event: NetEvent) {
        self.core.advance(now);
        if self.mon.handle_net(now, &event) == Handled::Yes {
            self.drain_mon();
            self.speak();
            return;
        }
        match event {
            NetEvent::Message { conn, envelope } => self.message(conn, envelope),
            NetEvent::Opened { conn, peer } => {
                if self.core.peers.owner(conn).is_some() {
                    let probed = self.core.peers.opened(conn);
                    // Where both opened one, the peer asks on ours: what it may do does not depend on who was first.
                    let caps = TicketCaps { allow_all: true, ..TicketCaps::default() };
                    self.core.sessions.open(conn, Arc::new(Peer { caps, ..Peer::clone(&peer) }));
                    probed.into_iter().for_each(|osd| self.ping(osd));
                } else if !self.core.sessions.open(conn, peer) {
                    self.core.net(NetCommand::Close { conn });
                }
            }
            NetEvent::Reset { conn } => {
                if let Some(osd) = self.core.peers.owner(conn) {
                    self.pgs.values_mut().for_each(|pg| pg.peer_forgot(&mut self.core, osd));
                    self.tell_room_again(osd);
                }
            }
            NetEvent::Closed { conn, why } => {
                self.core.pulls.closed(conn);
                if self.core.peers.owner(conn).is_none() {
                    for pg in self.core.sessions.close(conn) {
                        if let Some(pg) = self.pgs.get_mut(&pg) {
                            pg.session_closed(&mut self.core, conn);
                        }
                    }
                } else {
                    self.core.sessions.close(conn);
                    if let Some(osd) = self.core.peers.closed(conn, why, now) {
                        self.core.heartbeats.is_gone(osd);
                        self.report_failure(osd);
                    }
                }
            }
        }
        self.run();
        self.run_copies();
        // A replica's word may have been the last that a request waited for.
        self.let_go_on();
    }

    /// The store has answered a read.
    pub fn handle_read(&mut self, now: Instant, id: ReadId, result: Result<ReadResult, StoreError>) {
        self.core.advance(now);
        let Some(read) = self.core.take_read(id) else { return };
        if let Err(error) = &result {
            self.core.note_bad_read(read.pg, error);
        }
        if let (PgRead::Piece(pulled), Ok(ReadResult::Object(view))) = (&read.what, &result) {
            self.note_copied(pulled.pull.tenant, view.data.iter().map(|bytes| bytes.len() as u64).sum());
        }
        if let PgRead::ToDelete(number) = read.what {
            self.delete_listed(read.pg, number, result);
        } else if let Some(pg) = self.pgs.get_mut(&read.pg) {
            pg.handle_read(&mut self.core, read.what, result);
        } else {
            match read.what {
                PgRead::Request(request) | PgRead::AtReplica(request, _) => leave_to_client(&mut self.core, &request),
                PgRead::Listing(listing) => leave_to_client(&mut self.core, &listing.into_request()),
                _ => {}
            }
        }
        self.let_go_on();
        self.run_queued();
        self.run_copies();
    }

    /// The store has a transaction.
    pub fn handle_committed(&mut self, now: Instant, id: CommitId, result: Result<(), StoreError>) {
        self.core.advance(now);
        let Some(commit) = self.core.take_commit(id) else { return };
        if let Err(error) = result {
            if matches!(error, StoreError::Corrupt(_)) {
                return self.transaction_failed(&commit, &error);
            }
            // What is not durable must not be confirmed; without its store an OSD is of no use.
            self.core.log(Level::Error, format!("the store refused a transaction: {error}; stopping"));
            return self.stop();
        }
        match commit {
            CommitFor::Own => {}
            CommitFor::Birth => self.born(),
            CommitFor::Resize => self.resized(),
            CommitFor::Bench => self.bench_committed(),
            CommitFor::Suspect => self.suspect_noted(),
            CommitFor::Deletion(pg, number, pause) => self.deletion_committed(pg, number, pause),
            CommitFor::Pg(id, what) => {
                if let Some(pg) = self.pgs.get_mut(&id) {
                    pg.handle_commit(&mut self.core, what);
                }
            }
        }
        self.let_go_on();
        self.run_queued();
        self.run_copies();
    }

    /// A transaction's data is where the transaction will find it.
    pub fn handle_ahead(&mut self, now: Instant, id: AheadId) {
        self.core.advance(now);
        let Some(AheadFor { pg, head, round, .. }) = self.core.take_ahead(id) else { return };
        match self.pgs.get_mut(&pg) {
            Some(pg) => pg.piece_is_ahead(&mut self.core, &head, round, id),
            None => self.core.forget_ahead(id),
        }
        self.let_go_on();
        self.run_queued();
        self.run_copies();
    }

    /// The store says what it has counted.
    pub fn note_store(&mut self, counters: StoreCounters) {
        self.core.store_counters = Some(counters);
    }

    /// Tells those who hold requests to go on, once they may.
    pub(crate) fn let_go_on(&mut self) {
        if self.core.sessions.somebody_holds() {
            crate::requests::resume_all(&mut self.core);
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
                    self.core.cluster_log.send_again();
                    self.manager.begin_again();
                }
                MonEvent::Config(config) => self.take_central_config(config.options),
                MonEvent::Denied(errno) => {
                    self.core.log(Level::Error, format!("the monitor refuses this OSD: {errno}"));
                }
                MonEvent::Message(envelope) => match envelope.message {
                    Message::OsdMarkMeDown(m) if m.target == self.core.me() && self.life.stopping.is_some() => {
                        self.stop()
                    }
                    Message::OsdScrub(scrub) => self.asked_to_scrub(&scrub),
                    Message::OsdForceRecovery(force) => self.asked_to_force(&force),
                    Message::OsdPgCreate(create) => self.asked_to_create(&create),
                    Message::PgStatsAck(_) => {}
                    Message::LogAck(ack) => self.core.cluster_log.acknowledged(&ack),
                    other => self.core.log(Level::Debug, format!("the monitor sent {}", other.name())),
                },
                MonEvent::MgrMap(_)
                | MonEvent::Lost
                | MonEvent::MonMap(_)
                | MonEvent::CommandReply { .. }
                | MonEvent::CommandDropped { .. }
                | MonEvent::Version { .. } => {}
            }
        }
    }

    /// A message of a session that is not the monitor's.
    fn message(&mut self, conn: ConnId, envelope: Envelope) {
        if self.life.stopped {
            return;
        }
        match envelope.message {
            Message::OsdOp(op) => self.client_request(conn, envelope.tid, op),
            Message::OsdOpReply(reply) if self.core.peers.owner(conn).is_some() => {
                self.source_answered(envelope.tid, *reply);
            }
            Message::Command(command) => self.told(conn, envelope.tid, &command),
            Message::Backoff(backoff) if backoff.op == ACK_BLOCK => {
                self.core.sessions.heard(conn, backoff.pgid.pg, backoff.id);
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
    pub(crate) fn wait_for_map(&mut self, epoch: Epoch, conn: ConnId, envelope: Envelope) {
        if self.waiting_count >= MAP_WAITING_MAX {
            return;
        }
        self.waiting_count += 1;
        self.core.counters.messages_delayed_for_map.inc();
        self.waiting_for_map.entry(epoch).or_default().push((conn, envelope));
        self.ask_for_maps(epoch);
    }

    pub(crate) fn wake_waiting(&mut self) {
        let later = self.waiting_for_map.split_off(&self.core.epoch().next());
        for (conn, envelope) in core::mem::replace(&mut self.waiting_for_map, later).into_values().flatten() {
            self.waiting_count -= 1;
            self.message(conn, envelope);
        }
    }

    /// Schedules the turns that PGs have asked for since, and runs what may go on.
    fn run_queued(&mut self) {
        self.hold_for_members();
        self.answer_pulls();
        let recovers = self.core.pace.next_wakeup().is_some_and(|at| at <= self.core.now);
        let waits = self.core.trims.wants_turns(self.core.now)
            || self.core.scrubs.wants_turns()
            || self.core.reservations.is_due();
        let waits = waits || self.core.deletions.wants_turns();
        if recovers || waits || !self.scheduler.is_empty() {
            self.run();
        }
    }

    /// Does work now if nothing speaks against it, else when its turn comes.
    pub(crate) fn submit(&mut self, class: WorkClass, cost_bytes: usize, work: Work) {
        let now = self.core.now;
        if self.core.store_meter.has_room() && self.scheduler.pass(now, class, cost_bytes, &work) {
            self.perform(work, None);
        } else {
            self.scheduler.enqueue(now, class, cost_bytes, work);
        }
    }

    /// Runs what the scheduler lets through.
    pub(crate) fn run(&mut self) {
        self.hold_for_members();
        self.answer_pulls();
        self.hand_out_slots();
        self.schedule_recovery();
        for pg in self.core.trims.take(self.core.now) {
            self.scheduler.enqueue(self.core.now, WorkClass::BestEffort, 0, Work { pg, what: WorkOf::Trim });
        }
        self.schedule_scrubs();
        self.schedule_deletions();
        while let Some((mut work, under_way)) = self.scheduler.dequeue(self.core.now, &self.core.store_meter) {
            if let WorkOf::Request(request) = work.what {
                let Some(request) = self.still_wanted(request) else { continue };
                work.what = WorkOf::Request(request);
            }
            self.perform(work, under_way);
        }
        self.core.store_meter.wait(self.core.now, self.scheduler.waits());
    }

    fn perform(&mut self, work: Work, under_way: Option<UnderWay>) {
        match (self.pgs.get_mut(&work.pg), work.what) {
            (Some(pg), WorkOf::Request(mut request)) => {
                request.share.until_done(under_way);
                pg.handle_request(&mut self.core, request);
            }
            (Some(pg), WorkOf::Trim) => pg.trim(&mut self.core),
            (Some(pg), WorkOf::Scrub) => {
                pg.scan_turn(&mut self.core);
                self.schedule_scrubs();
            }
            (_, WorkOf::Delete) => self.delete_turn(work.pg),
            (pg, WorkOf::Recover) => {
                self.core.pace.turn_begins();
                if let Some(pg) = pg {
                    pg.recover(&mut self.core);
                }
                self.hand_out_slots();
                self.schedule_recovery();
            }
            (None, WorkOf::Request(request)) => leave_to_client(&mut self.core, &request),
            (None, WorkOf::Trim | WorkOf::Scrub) => {}
        }
    }

    /// The current map's epoch.
    pub fn epoch(&self) -> Epoch {
        self.core.epoch()
    }

    /// The current map; of epoch 0 before the first.
    pub fn map(&self) -> &Arc<OsdMap> {
        &self.core.map
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

    /// The PGs that this OSD leads and that are not active and clean, each with its state and, if it is down, why.
    pub fn unsettled(&self) -> Vec<(PgId, String)> {
        let one = |pg: &Pg| {
            let why = pg.stuck().map_or(String::new(), |stuck| format!(" ({})", stuck.why));
            (pg.id, format!("{}{why}", crate::stats::pg_state(&self.core, pg)))
        };
        self.pgs_in_order(|pg| pg.is_primary() && !pg.is_at_rest()).into_iter().map(one).collect()
    }

    /// Whether a PG that this OSD leads serves and has everything without another OSD's disk, or this one's, too; none where
    /// it does not lead it.
    pub fn spares(&self, pg: PgId, osd: OsdId) -> Option<bool> {
        let pg = self.pgs.get(&pg).filter(|pg| pg.is_primary())?;
        Some(pg.spares(self.core.me(), osd))
    }

    /// The PGs of this OSD that are so, by their ids.
    pub(crate) fn pgs_in_order(&self, fits: impl Fn(&Pg) -> bool) -> Vec<&Pg> {
        let mut all: Vec<&Pg> = self.pgs.values().map(Box::as_ref).filter(|pg| fits(pg)).collect();
        all.sort_unstable_by_key(|pg| pg.id);
        all
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        self.mon.check_invariants();
        self.pgs.values().for_each(|pg| pg.check_invariants());
        self.core.reservations.check_invariants();
        let waiting: usize = self.waiting_for_map.values().map(Vec::len).sum();
        assert_eq!(waiting, self.waiting_count, "waiting messages are counted");
        assert!(waiting <= MAP_WAITING_MAX, "too many messages wait for maps");
    }
}
