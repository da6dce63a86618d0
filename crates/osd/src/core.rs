//! What every part of the engine shares: the map, the way out, and who waits for which completion.
//!
//! Owns the numbering of reads and commits. Refuses to know what a completion means: it hands back what was left with
//! it.

use crate::cluster_log::{self, ClusterLog};
use crate::config::OsdConfig;
use crate::copies::{Copies, LOOPBACK};
use crate::counters::{OpHistograms, OsdCounters, StoreCounters, ThrottleCounters};
use crate::deletion::Deletions;
use crate::heartbeats::Heartbeats;
use crate::limits::{
    CONFIRMED_MAX, CONFIRMED_USUAL, LOG_ENTRIES_MAX, LOG_ENTRIES_REMEMBERED, PUSH_BYTES_MAX, USUAL_OBJECT_BYTES,
};
use crate::map_follower::MapBlobs;
use crate::ops::tuning::Tuning;
use crate::peers::Peers;
use crate::pg::acting::RecoveryLimits;
use crate::pg::fullness::FullPools;
use crate::pg::{PgCommit, PgRead};
use crate::placement::Placement;
use crate::pull_pace::{PullPace, Pulled};
use crate::push_pace::PushPace;
use crate::recovery_pace::RecoveryPace;
use crate::reservations::Reservations;
use crate::room::Rooms;
use crate::scheduler::assumed_capacity;
use crate::scrub_pace::ScrubPace;
use crate::session::Sessions;
use crate::store_meter::{Given, StoreMeter};
use crate::suspects::Suspects;
use crate::tenants::TenantTable;
use crate::tracking::Finished;
use crate::trim_pace::TrimPace;
use crate::wishes::Wishes;
use admin::Settings;
use admin::counters::Latency;
use admin::ops::History;
use base::hash::FixedHashMap;
use base::{Duration, Epoch, Instant, OsdId, PgId};
use bytes::Bytes;
use maps::{OsdMap, OsdState};
use qos::Way;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use store::{AheadId, CommitId, ObjectId, ReadId, ReadRequest, StoreError, Transaction};
use wire::messages::{Confirmed, SubCommit};
use wire::net::{ConnId, Envelope, NetCommand};

pub use base::log::Level;

/// What the engine asks of its driver.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Something for the network.
    Net(NetCommand),
    /// A question to the store; the answer comes back by `Osd::handle_read`.
    Read {
        /// Names it.
        id: ReadId,
        /// The question.
        request: ReadRequest,
    },
    /// A transaction for the store; `Osd::handle_committed` says that it is durable.
    Commit {
        /// Names it.
        id: CommitId,
        /// The changes.
        transaction: Transaction,
    },
    /// Data for the store ahead of its transaction; `Osd::handle_ahead` says that this may come.
    Ahead {
        /// Names it.
        id: AheadId,
        /// Where in its object it will be written.
        offset: u64,
        /// The data.
        data: Bytes,
    },
    /// That transaction is not going to come.
    ForgetAhead(AheadId),
    /// A line for the log.
    Log {
        /// How bad it is.
        level: Level,
        /// The line.
        text: String,
    },
    /// The end: nothing more will come.
    Stopped,
    /// The end of this life, not of the OSD: the store cannot read what a transaction needs, or maps are missing that are
    /// not to be had any more. The store is to be opened again, and an engine made of what it holds; what this one's PGs
    /// then lack comes from other members.
    BeginAgain,
}

/// Whose a read is.
#[derive(Debug)]
pub struct ReadFor {
    /// The placement group.
    pub pg: PgId,
    /// What it is for.
    pub what: PgRead,
    given: Given,
}

/// Whose a commit is.
#[derive(Debug)]
pub enum CommitFor {
    /// A placement group's.
    Pg(PgId, PgCommit),
    /// What became of a placement group by a split or merge: the map that asked for it is stored after it.
    Resize,
    /// The OSD's own records, for which nothing waits.
    Own,
    /// The first of them: without it, the next start would take the store for empty.
    Birth,
    /// A piece of a measurement of the store.
    Bench,
    /// The note of an object that the store may not be able to read.
    Suspect,
    /// A step of the deletion of a placement group with this number, after which there is a pause.
    Deletion(PgId, u64, Duration),
}

/// Reads that the store could not answer since this OSD was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BadReads {
    /// What lay there was not what had been written.
    pub corrupt: u64,
    /// The device failed to read.
    pub failed: u64,
}

/// A commit that the store has not answered.
#[derive(Debug)]
struct Committing {
    began: Instant,
    whose: CommitFor,
    given: Given,
}

/// Whose data has been given to the store ahead: a piece of an object that is fetched.
#[derive(Debug)]
pub struct AheadFor {
    /// The placement group.
    pub pg: PgId,
    /// The object.
    pub head: ObjectId,
    /// Tells the fetch from others of the same object.
    pub round: u32,
    given: Given,
}

/// The shared part.
#[derive(Debug)]
pub struct Core {
    /// The time of the input being handled.
    pub now: Instant,
    /// The parameters.
    pub config: OsdConfig,
    /// The current map; of epoch 0 before the first.
    pub map: Arc<OsdMap>,
    /// The newest maps, as they travel.
    pub blobs: MapBlobs,
    /// The map in which this store was new.
    pub born: Epoch,
    /// Where every PG is and was.
    pub placement: Placement,
    /// Sessions of clients.
    pub sessions: Sessions,
    /// Sessions to other OSDs.
    pub peers: Peers,
    /// Who of them lives, and what was promised to whom.
    pub heartbeats: Heartbeats,
    /// Room in this OSD's store and in those of others.
    pub rooms: Rooms,
    /// The bytes that the store says are taken; 0 where it does not say.
    pub store_used: u64,
    /// Reads that it could not answer.
    pub bad_reads: BadReads,
    /// What it has counted; none for one in memory.
    pub store_counters: Option<StoreCounters>,
    /// Copies whose sources are being fetched.
    pub copies: Copies,
    /// The state of a PG has changed: worth a report at once.
    pub stats_changed: bool,
    /// Objects or bytes have changed: worth a report soon.
    pub counts_changed: bool,
    /// How fast this OSD recovers.
    pub pace: RecoveryPace,
    /// How much others pull at once.
    pub pulls: PullPace,
    /// How much is held at once for members.
    pub pushes: PushPace,
    /// Slots for its own PGs' recovery and backfill, and for others'.
    pub reservations: Reservations,
    /// Objects that the store may not be able to read.
    pub suspects: Suspects,
    /// Groups that are to go.
    pub deletions: Deletions,
    /// When and how much it scrubs.
    pub scrubs: ScrubPace,
    /// Tenants: whose requests are whose, and what was served of each.
    pub tenants: TenantTable,
    /// Acting sets that its PGs wish for.
    pub wishes: Wishes,
    /// Log entries that a PG keeps, and how many one trim removes at the least.
    pub log_bounds: (usize, usize),
    /// Older entries that a PG remembers (`osd_pg_log_dups_tracked`).
    pub log_remembered_max: usize,
    /// The most data bytes of one piece of an object that another member copies (`osd_recovery_max_chunk`).
    pub push_bytes_max: u64,
    /// Who serves while it recovers.
    pub recovery_limits: RecoveryLimits,
    /// When PGs get turns of trimming removed snapshots.
    pub trims: TrimPace,
    /// The up_thru that some PG waits for.
    pub up_thru_wanted: Epoch,
    /// Since which map pools have been full.
    pub full_pools: FullPools,
    /// When which PG wants to look at its watches.
    pub alarms: BTreeSet<(Instant, PgId)>,
    /// How many notifications there have been.
    pub notifications: u32,
    /// How many requests this OSD has asked of itself.
    pub own_requests: u64,
    /// The options.
    pub settings: Settings,
    /// What is counted.
    pub counters: OsdCounters,
    /// Operations by latency and size.
    pub histograms: OpHistograms,
    /// What the throttle of clients' requests counts.
    pub throttle: ThrottleCounters,
    /// The slowest requests of late.
    pub history: History<Finished>,
    /// Whether that is kept (`osd_enable_op_tracker`).
    pub track: bool,
    /// Seconds of silence after which a watch ends, where the client does not say (`osd_client_watch_timeout`).
    pub watch_timeout_s: u32,
    /// A request is slow after so long (`osd_op_complaint_time`).
    pub complaint: Duration,
    /// Options that ops obey.
    pub tuning: Tuning,
    /// Lines on their way to the cluster log.
    pub cluster_log: ClusterLog,
    out: VecDeque<Command>,
    /// What primaries are to be told is durable here, by session: told when nothing else is left to say.
    confirmations: Vec<(ConnId, Vec<Confirmed>)>,
    reads: FixedHashMap<u64, ReadFor>,
    commits: FixedHashMap<u64, Committing>,
    ahead: FixedHashMap<u64, AheadFor>,
    /// How much work the store has, does a second, and may have at once.
    pub store_meter: StoreMeter,
    /// Of the commits since the last report.
    commit_latency: Latency,
    next_id: u64,
}

impl Core {
    /// An input has come, at this time.
    pub(crate) fn advance(&mut self, now: Instant) {
        debug_assert!(now >= self.now, "time went back by {:?}", self.now.since(now));
        self.now = now;
    }

    /// A core that has not seen anything yet.
    pub fn new(now: Instant, config: OsdConfig, map: Arc<OsdMap>, placement: Placement, born: Epoch) -> Core {
        let settings = Settings::from_file(config.options.clone());
        let cluster_log = ClusterLog::new(&config);
        let store_meter = StoreMeter::new(assumed_capacity(&settings, config.is_rotational()));
        Core {
            now,
            config,
            map,
            blobs: MapBlobs::default(),
            born,
            placement,
            sessions: Sessions::default(),
            peers: Peers::default(),
            heartbeats: Heartbeats::new(now),
            rooms: Rooms::default(),
            store_used: 0,
            bad_reads: BadReads::default(),
            store_counters: None,
            copies: Copies::default(),
            stats_changed: true,
            counts_changed: false,
            pace: RecoveryPace::default(),
            pulls: PullPace::default(),
            pushes: PushPace::default(),
            reservations: Reservations::default(),
            suspects: Suspects::default(),
            deletions: Deletions::default(),
            scrubs: ScrubPace::default(),
            tenants: TenantTable::default(),
            wishes: Wishes::default(),
            log_bounds: (LOG_ENTRIES_MAX, 1),
            log_remembered_max: LOG_ENTRIES_REMEMBERED,
            push_bytes_max: PUSH_BYTES_MAX,
            recovery_limits: RecoveryLimits::default(),
            trims: TrimPace::default(),
            up_thru_wanted: Epoch(0),
            full_pools: FullPools::default(),
            alarms: BTreeSet::new(),
            notifications: 0,
            own_requests: 0,
            settings,
            counters: OsdCounters::default(),
            histograms: OpHistograms::default(),
            throttle: ThrottleCounters::default(),
            history: History::default(),
            track: true,
            watch_timeout_s: 30,
            complaint: Duration::from_secs(30),
            tuning: Tuning::default(),
            cluster_log,
            out: VecDeque::new(),
            confirmations: Vec::new(),
            reads: FixedHashMap::default(),
            commits: FixedHashMap::default(),
            ahead: FixedHashMap::default(),
            store_meter,
            commit_latency: Latency::default(),
            next_id: 1,
        }
    }

    /// This OSD's number.
    pub fn me(&self) -> OsdId {
        self.config.id
    }

    /// Whether the store is on a rotating disk.
    pub fn is_rotational(&self) -> bool {
        self.config.is_rotational()
    }

    /// Whether the store is too full to be given whole copies: beyond the map's `backfillfull_ratio` or, where it keeps no
    /// account, by what the map says.
    pub fn is_backfill_full(&self) -> bool {
        let called = self.map.state(self.me()).0 & OsdState::BACKFILLFULL.with(OsdState::FULL).0 != 0;
        self.rooms.is_beyond(self.map.backfillfull_ratio).unwrap_or(called)
    }

    /// The current epoch.
    pub fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    /// The number of the next notification, unique in the cluster's PG for good: Ceph's `get_next_id`.
    pub fn next_notification(&self) -> u64 {
        u64::from(self.epoch().0) << 32 | u64::from(self.notifications)
    }

    /// Queues a command.
    pub fn push(&mut self, command: Command) {
        self.out.push_back(command);
    }

    /// Queues something for the network.
    pub fn net(&mut self, command: NetCommand) {
        self.out.push_back(Command::Net(command));
    }

    /// Sends on a session.
    pub fn send(&mut self, conn: ConnId, envelope: Envelope) {
        if conn == LOOPBACK {
            return self.copies.looped.push_back(envelope);
        }
        self.net(NetCommand::Send { conn, envelope });
    }

    /// Sends to another OSD, on a session that is opened if need be. An OSD that the map shows as down gets nothing:
    /// its interval is over or about to be.
    pub fn send_osd(&mut self, osd: OsdId, envelope: Envelope) {
        if let Some(conn) = self.peers.session(osd, &self.map, &mut self.out) {
            self.send(conn, envelope);
        }
    }

    /// Runs `change` on the peers with the way out.
    pub fn with_peers<T>(
        &mut self,
        change: impl FnOnce(&mut Peers, &OsdMap, Instant, &mut VecDeque<Command>) -> T,
    ) -> T {
        change(&mut self.peers, &self.map, self.now, &mut self.out)
    }

    /// Writes a line.
    pub fn log(&mut self, level: Level, text: impl Into<String>) {
        self.push(Command::Log { level, text: text.into() });
    }

    /// Asks the store.
    pub fn read(&mut self, pg: PgId, what: PgRead, request: ReadRequest) {
        self.next_id += 1;
        let bytes = request.data_bytes().min(USUAL_OBJECT_BYTES);
        // Another OSD's pull is answered at once: its own queue has decided when.
        let way = if matches!(what, PgRead::Piece(..)) { Way::Besides } else { Way::Scheduled };
        let given = self.store_meter.begin(self.now, bytes, way);
        self.reads.insert(self.next_id, ReadFor { pg, what, given });
        self.push(Command::Read { id: ReadId(self.next_id), request });
    }

    /// Commits to the store.
    pub fn commit(&mut self, whose: CommitFor, transaction: Transaction) {
        self.next_id += 1;
        let way = if matches!(&whose, CommitFor::Pg(_, what) if what.is_done_at_once()) {
            Way::Besides
        } else {
            Way::Scheduled
        };
        let given = self.store_meter.begin(self.now, transaction.data_bytes(), way);
        self.commits.insert(self.next_id, Committing { began: self.now, whose, given });
        self.push(Command::Commit { id: CommitId(self.next_id), transaction });
    }

    /// Gives the store a piece of an object that is fetched, at `offset` of it, ahead of its transaction.
    pub fn give_ahead(&mut self, pg: PgId, head: ObjectId, round: u32, offset: u64, data: Bytes) -> AheadId {
        self.next_id += 1;
        let given = self.store_meter.begin(self.now, data.len() as u64, Way::Besides);
        self.ahead.insert(self.next_id, AheadFor { pg, head, round, given });
        let id = AheadId(self.next_id);
        self.push(Command::Ahead { id, offset, data });
        id
    }

    /// What was left with such data, which has got there.
    pub fn take_ahead(&mut self, id: AheadId) -> Option<AheadFor> {
        let ahead = self.ahead.remove(&id.0)?;
        self.store_meter.end(self.now, ahead.given);
        Some(ahead)
    }

    /// Its transaction is not going to come.
    pub fn forget_ahead(&mut self, id: AheadId) {
        self.take_ahead(id);
        self.push(Command::ForgetAhead(id));
    }

    /// What was left with a read.
    pub fn take_read(&mut self, id: ReadId) -> Option<ReadFor> {
        let read = self.reads.remove(&id.0)?;
        self.store_meter.end(self.now, read.given);
        if let PgRead::Piece(Pulled { bytes, .. }) = read.what {
            self.pulls.ended(bytes);
        }
        Some(read)
    }

    /// The reads that the store has not answered.
    pub fn reading(&self) -> impl Iterator<Item = &ReadFor> {
        self.reads.values()
    }

    /// The store could not answer a read: the operator hears of it now, and of its kind as long as this OSD lives.
    pub fn note_bad_read(&mut self, pg: PgId, error: &StoreError) {
        match error {
            StoreError::Corrupt(_) => self.bad_reads.corrupt += 1,
            StoreError::Device => self.bad_reads.failed += 1,
            _ => return,
        }
        self.stats_changed = true;
        let text = format!("pg {pg}: a read of the store failed: {error}");
        self.cluster_log.line(self.now, cluster_log::Level::ERROR, text);
    }

    /// Whether the store still owes a commit of this PG.
    pub fn is_committing(&self, pg: PgId) -> bool {
        let concerns = |whose: &CommitFor| match whose {
            CommitFor::Pg(id, _) => *id == pg,
            CommitFor::Resize => true,
            CommitFor::Own | CommitFor::Birth | CommitFor::Bench | CommitFor::Suspect | CommitFor::Deletion(..) => {
                false
            }
        };
        self.commits.values().any(|commit| concerns(&commit.whose))
    }

    /// Whether the store still owes a split or merge.
    pub fn is_resizing(&self) -> bool {
        self.commits.values().any(|commit| matches!(commit.whose, CommitFor::Resize))
    }

    /// What was left with a commit.
    pub fn take_commit(&mut self, id: CommitId) -> Option<CommitFor> {
        let commit = self.commits.remove(&id.0)?;
        self.store_meter.end(self.now, commit.given);
        let took = self.now.since(commit.began);
        self.commit_latency.add(took);
        self.histograms.committed(took);
        Some(commit.whose)
    }

    /// The mean latency of commits since this was last asked, in milliseconds.
    pub fn take_commit_latency_ms(&mut self) -> u32 {
        let (count, sum_ns) = core::mem::take(&mut self.commit_latency).totals();
        u32::try_from(sum_ns.checked_div(count).unwrap_or(0) / 1_000_000).unwrap_or(u32::MAX)
    }

    /// Tells a primary that a write is durable here. What becomes durable together is told in one message: it costs
    /// both ends less than one for each write.
    pub fn confirm(&mut self, conn: ConnId, write: Confirmed) {
        match self.confirmations.iter_mut().find(|(to, writes)| *to == conn && writes.len() < CONFIRMED_MAX) {
            Some((_, writes)) => writes.push(write),
            None => {
                let mut writes = Vec::with_capacity(CONFIRMED_USUAL);
                writes.push(write);
                self.confirmations.push((conn, writes));
            }
        }
    }

    /// The next command.
    pub fn poll(&mut self) -> Option<Command> {
        if self.out.is_empty() {
            for (conn, writes) in core::mem::take(&mut self.confirmations) {
                self.send(conn, Envelope::new(SubCommit { writes }));
            }
        }
        self.out.pop_front()
    }

    /// Whether the store still owes completions.
    pub fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.commits.is_empty() && self.ahead.is_empty()
    }
}
