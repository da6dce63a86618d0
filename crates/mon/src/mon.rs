//! The monitor itself: takes events, lets the services decide, writes, then speaks.
//!
//! Owns the order of things. An event is handled at once against the newest state; changes collect in the services;
//! `settle` turns all of them into one batch as soon as none is in flight (commands at once, daemons' reports after a
//! short gathering), and what was said meanwhile leaves when that batch is on disk.
//!
//! Invariants: see `outbox` and `services::osd_map`; `check_invariants` checks them.
//!
//! Read next: `dispatch` for messages, `commands` for the CLI, `subscriptions` for what goes out unasked.

use crate::administration::Counters;
use crate::commands::CommandTable;
use crate::limits::{GATHER, OUTBOX_MAX, TICK};
use crate::manager_door::Manager;
use crate::outbox::{Outbox, PersistId};
use crate::services::auth::AuthService;
use crate::services::config::ConfigService;
use crate::services::config_key::ConfigKeyService;
use crate::services::creating_pgs::CreatingPgs;
use crate::services::daemon_reports::DaemonReports;
use crate::services::health::HealthService;
use crate::services::log::{LogLevel as ClusterLevel, LogService};
use crate::services::mon_map::MonMapService;
use crate::services::osd_map::OsdMapService;
use crate::services::osd_reports::OsdReports;
use crate::services::progress::Progress;
use crate::services::purged_snaps::PurgedSnaps;
use crate::services::stats::StatsService;
use crate::services::stats::all_pgs;
use crate::sessions::Sessions;
use crate::store::{BadStore, Batch, BatchWrites, Image, StoreKey};
use crate::tenants::KnownParts;
use crate::tracking::{Requests, describe};
use admin::Administered;
use base::rng::SecretRng;
use base::{Epoch, Instant, OsdId, PoolId};
use bytes::Bytes;
use maps::stats::PgState;
use std::collections::BTreeMap;
use wire::auth::{Auth, ConMode};
use wire::cephx::{AuthName, EntityAuth, KeyServerConfig};
use wire::messages::{LogEntry, Message, OsdBoot};
use wire::net::{ConnId, Envelope, NetCommand, NetEvent};
use wire::types::{AddrVec, EntityName, EntityType, Uuid};

pub use base::log::Level as LogLevel;

/// What the engine wants done.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Something for the network.
    Net(NetCommand),
    /// Make a batch durable, whole, then call `handle_persisted`.
    Persist {
        /// Names the batch.
        id: PersistId,
        /// Prefix, key, and value or removal, in order of key.
        batch: BatchWrites,
    },
    /// A line for the daemon's log.
    Log {
        /// How bad.
        level: LogLevel,
        /// The line.
        text: String,
    },
    /// A shutdown is complete: everything is on disk.
    Stopped,
}

/// What the monitor is told at start, beside its store.
#[derive(Clone, Debug)]
pub struct MonConfig {
    /// The cluster.
    pub fsid: Uuid,
    /// The monitor's name: `a`.
    pub name: String,
    /// Where it listens.
    pub addrs: AddrVec,
    /// Where it listens as the manager; empty for nowhere.
    pub manager_addrs: AddrVec,
    /// The host it runs on.
    pub hostname: String,
    /// Connection modes to offer, favourite first.
    pub modes: Vec<ConMode>,
    /// Options from the configuration file; they win over the central configuration, as with Ceph.
    pub options: BTreeMap<String, String>,
    /// More to say in `mon metadata`.
    pub metadata: BTreeMap<String, String>,
}

/// An OSD that a new cluster begins with.
#[derive(Clone, PartialEq, Debug)]
pub struct InitialOsd {
    /// Its id.
    pub id: OsdId,
    /// The uuid of its data; zero where it will say so when it boots.
    pub uuid: Uuid,
    /// The host it is on.
    pub host: String,
    /// Its device class.
    pub device_class: String,
    /// The size of its store.
    pub size_bytes: u64,
}

/// What a new cluster begins with.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// The monitors' own key and capabilities.
    pub mon_auth: EntityAuth,
    /// The first entities.
    pub entities: Vec<(AuthName, EntityAuth)>,
    /// The first OSDs: they exist, are out of nothing, and wait for their first boot.
    pub osds: Vec<InitialOsd>,
    /// The highest id that is taken from the pools to come.
    pub pool_max: PoolId,
}

/// The monitor.
pub struct Mon {
    pub(crate) config: MonConfig,
    pub(crate) started: Instant,
    /// How often this monitor has started: its elections, won alone, and the managers' maps.
    pub(crate) elections: u64,
    elections_written: bool,
    pub(crate) sessions: Sessions,
    pub(crate) osds: OsdMapService,
    pub(crate) purged_snaps: PurgedSnaps,
    pub(crate) known_parts: KnownParts,
    pub(crate) creating_pgs: CreatingPgs,
    pub(crate) reports: OsdReports,
    pub(crate) auth: AuthService,
    pub(crate) central: ConfigService,
    pub(crate) config_keys: ConfigKeyService,
    pub(crate) log: LogService,
    pub(crate) stats: StatsService,
    pub(crate) health: HealthService,
    pub(crate) monmap: MonMapService,
    pub(crate) table: CommandTable,
    pub(crate) tell_table: CommandTable,
    pub(crate) manager_table: CommandTable,
    pub(crate) manager: Manager,
    /// Options set until the monitor stops.
    pub(crate) overrides: BTreeMap<String, String>,
    pub(crate) counters: Counters,
    pub(crate) daemon_reports: DaemonReports,
    /// How far recovery is.
    pub(crate) progress: Progress,
    /// For how many ticks merges have been pending.
    pub(crate) merge_ticks: BTreeMap<PoolId, u32>,
    pub(crate) requests: Requests,
    /// Where the metrics are served.
    pub(crate) metrics_url: Option<String>,
    /// Boots that wait until the map says that the OSD's previous life is over.
    pub(crate) deferred_boots: Vec<(ConnId, OsdBoot)>,
    /// A command waits: do not gather.
    pub(crate) urgent: bool,
    outbox: Outbox,
    propose_at: Option<Instant>,
    next_tick: Instant,
    log_seq: u64,
    published_line: u64,
    stopping: bool,
}

impl Mon {
    /// The first batch of a new cluster's monitor.
    pub fn mkfs(now: Instant, config: &MonConfig, new: &NewCluster, rng: &mut SecretRng) -> BatchWrites {
        let mut batch = Batch::default();
        batch.put("mon", "fsid", config.fsid.to_string());
        batch.put("mon", "format", "1");
        MonMapService::create(now, config, &mut batch);
        AuthService::create(now, &new.mon_auth, &new.entities, rng, &mut batch);
        let map = crate::genesis::first_osd_map(now, config, new);
        OsdMapService::create(&map, &mut batch);
        batch.into_writes()
    }

    /// A monitor that goes on where its store left off.
    pub fn new(
        now: Instant,
        config: MonConfig,
        mut rng: SecretRng,
        contents: BTreeMap<StoreKey, Bytes>,
    ) -> Result<Mon, BadStore> {
        let image = Image(contents);
        let stored = image.get("mon", "fsid").ok_or_else(|| BadStore::Missing("mon", "fsid".to_owned()))?;
        if *stored != config.fsid.to_string().as_bytes() {
            return Err(BadStore::OtherCluster {
                asked: config.fsid,
                found: String::from_utf8_lossy(stored).into_owned(),
            });
        }
        let key_config = KeyServerConfig::default();
        let auth_rng = SecretRng::from_entropy(rng.bytes());
        let osds = OsdMapService::load(&image)?;
        let mut mon = Mon {
            auth: AuthService::load(&image, key_config, config.modes.clone(), auth_rng)?,
            central: ConfigService::load(&image)?,
            config_keys: ConfigKeyService::load(&image),
            log: LogService::load(&image)?,
            health: HealthService::load(&image)?,
            monmap: MonMapService::load(now, &image, &config)?,
            purged_snaps: PurgedSnaps::load(&image)?,
            known_parts: KnownParts::default(),
            creating_pgs: CreatingPgs::load(&image)?,
            reports: OsdReports::new(now, osds.map()),
            stats: StatsService::default(),
            sessions: Sessions::default(),
            table: crate::commands::table(),
            tell_table: crate::commands::tell_table(),
            manager_table: crate::commands::manager_table(),
            manager: Manager::new(&config.name, &config.options),
            overrides: BTreeMap::new(),
            counters: Counters::default(),
            daemon_reports: DaemonReports::default(),
            progress: Progress::default(),
            merge_ticks: BTreeMap::new(),
            requests: Requests::default(),
            metrics_url: None,
            deferred_boots: Vec::new(),
            urgent: true,
            outbox: Outbox::default(),
            propose_at: None,
            next_tick: now + TICK,
            log_seq: 0,
            published_line: 0,
            stopping: false,
            started: now,
            elections: image.decode("mon", "elections")?.unwrap_or(0) + 1,
            elections_written: false,
            osds,
            config,
        };
        mon.apply_options();
        (mon.counters.mon.num_elections.0, mon.counters.mon.election_win.0) = (1, 1);
        mon.auth.mon.rotate(now);
        let text = format!("mon.{} is new leader, mons {} in quorum (ranks 0)", mon.config.name, mon.config.name);
        mon.cluster_log(now, ClusterLevel::INFO, "cluster", text);
        mon.settle(now);
        Ok(mon)
    }

    /// Takes an event from the network.
    pub fn handle_net(&mut self, now: Instant, event: NetEvent) {
        match event {
            NetEvent::Opened { conn, peer } => {
                self.counters.mon.session_add.inc();
                if !self.sessions.open(conn, peer) {
                    self.counters.mon.session_trim.inc();
                    self.outbox.push_now(Command::Net(NetCommand::Close { conn }));
                }
            }
            NetEvent::Message { conn, envelope } => {
                if self.outbox.held() >= OUTBOX_MAX {
                    self.sessions.close(conn);
                    self.outbox.push_now(Command::Net(NetCommand::Close { conn }));
                } else if !self.stopping {
                    let source = self.sessions.get(conn).map(|s| format!("{} {}", s.peer.name, s.peer.addrs));
                    let request = self.requests.begin(now, describe(&envelope.message), source.unwrap_or_default());
                    self.dispatch(now, conn, envelope);
                    let dirty = self.dirty();
                    self.requests.handled(now, request, self.outbox.gate(dirty));
                }
            }
            NetEvent::Reset { conn } | NetEvent::Closed { conn, .. } => {
                self.counters.mon.session_rm.inc();
                self.sessions.close(conn);
                self.deferred_boots.retain(|(c, _)| *c != conn);
            }
        }
        self.settle(now);
    }

    /// Takes the news that a batch is on disk.
    pub fn handle_persisted(&mut self, now: Instant, id: PersistId) {
        if self.outbox.persisted(id) {
            let began = self.counters.began;
            self.requests.persisted(now, id);
            self.counters.paxos.commit.inc();
            self.counters.paxos.commit_latency.add(now.since(began));
            self.settle(now);
        }
    }

    /// A deadline has passed.
    pub fn handle_timer(&mut self, now: Instant) {
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.tick(now);
        }
        self.settle(now);
    }

    /// The next deadline.
    pub fn next_wakeup(&self) -> Option<Instant> {
        let propose = self.propose_at.filter(|_| !self.outbox.in_flight());
        Some(propose.map_or(self.next_tick, |at| at.min(self.next_tick)))
    }

    /// The next thing to do.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.outbox.poll()
    }

    /// The keys, for handshakes.
    pub fn auth(&mut self) -> &mut dyn Auth {
        &mut self.auth.mon
    }

    /// Begins a clean stop: what is pending is written, then `Stopped` comes out.
    pub fn shutdown(&mut self, now: Instant) {
        if !self.stopping {
            self.stopping = true;
            self.urgent = true;
            self.say(Command::Stopped);
            self.settle(now);
        }
    }

    /// What the keys to the cluster are: the administrator's view, for the driver's own use at set-up.
    pub fn entity_auth(&self, name: &AuthName) -> Option<&EntityAuth> {
        self.auth.mon.keys.entity(name)
    }

    /// The newest OSD map's epoch.
    pub fn epoch(&self) -> Epoch {
        self.osds.epoch()
    }

    /// Checks of the newest OSD map what must always hold: dear, and needed once for each.
    pub fn check_newest_map(&self) {
        self.osds.check_newest();
    }

    /// Checks what must always hold of all else.
    pub fn check_invariants(&self) {
        self.outbox.check_invariants();
        self.osds.check_invariants();
        self.stats.check_invariants();
    }

    fn follow_recovery(&mut self, now: Instant) {
        let map = self.osds.map();
        let is_clean = |state: Option<PgState>| state.is_some_and(|state| state.contains(PgState::CLEAN));
        let unclean = all_pgs(map).filter(|pg| !is_clean(self.stats.state(*pg))).count() as u64;
        let sum = self.stats.sum();
        let counts = sum.counts();
        let copies = counts.num_objects_degraded.saturating_add(counts.num_objects_misplaced);
        self.progress.follow(now, u64::try_from(copies).unwrap_or(0), unclean);
    }

    fn tick(&mut self, now: Instant) {
        self.auth.mon.rotate(now);
        self.expire_blocklist(now);
        self.watch_osds(now);
        self.stats.tick(now);
        self.follow_recovery(now);
        self.watch_fullness(now);
        self.step_pg_nums();
        self.watch_health(now);
        if self.log.dirty() && self.propose_at.is_none() {
            self.propose_at = Some(now);
        }
    }

    /// Changes that answers have to wait for.
    pub(crate) fn dirty(&self) -> bool {
        self.osds.dirty()
            || self.purged_snaps.dirty()
            || self.creating_pgs.dirty()
            || self.auth.dirty()
            || self.central.dirty()
            || self.config_keys.dirty()
            || self.health.dirty()
            || self.monmap.dirty()
            || !self.elections_written
    }

    /// Writes what is to be written, if it is time, and tells everybody.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.auth.collect();
        if self.published_line < self.log.newest() {
            self.published_line = self.log.newest();
            self.publish_log();
        }
        loop {
            if self.propose_at.is_none() && (self.dirty() || self.stopping && self.log.dirty()) {
                self.propose_at = Some(if self.urgent { now } else { now + GATHER });
            } else if self.urgent && self.propose_at.is_some() {
                self.propose_at = Some(now);
            }
            self.urgent = false;
            if self.outbox.in_flight() || self.propose_at.is_none_or(|at| at > now) {
                return;
            }
            self.propose_at = None;
            self.write(now);
        }
    }

    fn write(&mut self, now: Instant) {
        let mut batch = Batch::default();
        if !core::mem::replace(&mut self.elections_written, true) {
            batch.encode("mon", "elections", &self.elections);
        }
        let new_epoch = self.osds.submit(now, &mut batch);
        self.purged_snaps.flush(&mut batch);
        self.creating_pgs.flush(&mut batch);
        self.auth.flush(&mut batch);
        self.central.flush(&mut batch);
        self.config_keys.flush(&mut batch);
        self.health.flush(&mut batch);
        self.monmap.flush(&mut batch);
        self.log.flush(&mut batch);
        if batch.is_empty() {
            return;
        }
        let (keys, bytes) = batch.size();
        self.counters.began = now;
        self.counters.paxos.begin.inc();
        self.counters.paxos.begin_keys.add(keys);
        self.counters.paxos.begin_bytes.add(bytes);
        self.outbox.submit(batch);
        if new_epoch {
            self.after_new_epoch(now);
        }
        self.publish(now);
    }

    fn after_new_epoch(&mut self, now: Instant) {
        self.reports.follow(now, self.osds.map());
        self.stats.forget_stale(self.osds.map());
        self.drop_pg_creates();
        self.daemon_reports.follow(self.osds.map(), |conn| self.sessions.get(conn).is_some());
        for (conn, boot) in core::mem::take(&mut self.deferred_boots) {
            self.boot_osd(now, conn, boot);
        }
    }

    /// Queues an output behind the changes made so far.
    pub(crate) fn say(&mut self, command: Command) {
        self.auth.collect();
        let dirty = self.dirty();
        self.outbox.push(command, dirty);
    }

    /// Sends a message on a session.
    pub(crate) fn send(&mut self, conn: ConnId, message: impl Into<Message>) {
        self.say(Command::Net(NetCommand::Send { conn, envelope: Envelope::new(message) }));
    }

    /// Answers a message on its session.
    pub(crate) fn reply(&mut self, conn: ConnId, tid: u64, message: impl Into<Message>) {
        self.say(Command::Net(NetCommand::Send { conn, envelope: Envelope::with_tid(tid, message) }));
    }

    /// Writes a line to the daemon's own log.
    pub(crate) fn debug_log(&mut self, level: LogLevel, text: String) {
        self.outbox.push_now(Command::Log { level, text });
    }

    /// Writes a line to the cluster log in the monitor's name.
    pub(crate) fn cluster_log(&mut self, now: Instant, level: ClusterLevel, channel: &str, text: String) {
        self.log_seq += 1;
        let own = match level {
            ClusterLevel::WARN => LogLevel::Warn,
            ClusterLevel::ERROR => LogLevel::Error,
            _ => LogLevel::Info,
        };
        if channel == "cluster" {
            self.debug_log(own, format!("cluster log: {text}"));
        }
        self.log.add(LogEntry {
            name: wire::messages::AuthName { kind: EntityType::MON, id: self.config.name.clone() },
            rank: EntityName::mon(0),
            addrs: self.config.addrs.clone(),
            stamp: now.into(),
            seq: self.log_seq,
            level: level.0,
            text,
            channel: channel.to_owned(),
        });
    }

    /// The value that an option has for the monitor.
    pub(crate) fn option(&self, name: &str) -> String {
        let spec = crate::options::find(name);
        spec.map_or_else(String::new, |spec| admin::settings::effective(spec, |layer| self.layer(layer, name)))
    }

    /// An option as a number; the table's defaults all parse.
    pub(crate) fn option_number(&self, name: &str) -> f64 {
        self.option(name).parse().unwrap_or(0.0)
    }

    /// An option as a switch.
    pub(crate) fn option_bool(&self, name: &str) -> bool {
        self.option(name) == "true"
    }

    /// The lowest id that no OSD may have (`mon_max_osd`).
    pub(crate) fn osd_id_max(&self) -> i32 {
        (self.option_number("mon_max_osd") as i32).clamp(0, crate::limits::OSD_ID_MAX)
    }

    /// How many placement groups a pool may have (`mon_max_pool_pg_num`).
    pub(crate) fn pool_pg_num_max(&self) -> i64 {
        (self.option_number("mon_max_pool_pg_num") as i64).min(crate::limits::POOL_PG_NUM_MAX)
    }

    /// Takes over the options that other parts keep a copy of.
    pub(crate) fn apply_options(&mut self) {
        let secs = |mon: &Mon, name: &str| base::Duration::from_secs_f64(mon.option_number(name).clamp(1.0, 1e9));
        let config = KeyServerConfig {
            auth_mon_ticket_ttl: secs(self, "auth_mon_ticket_ttl"),
            auth_service_ticket_ttl: secs(self, "auth_service_ticket_ttl"),
            auth_allow_insecure_global_id_reclaim: self.option_bool("auth_allow_insecure_global_id_reclaim"),
        };
        self.auth.mon.keys.set_config(config);
        self.apply_history_options();
    }
}
