//! A placement group as one of its holders knows it.
//!
//! Owns the record, the log and the missing set, the state machine that leads from a new interval to serving
//! (`peering`), what is done for members that lack objects (`recovery`, `backfill`, `fetch`) and what that needs
//! (`reservation`), the comparison of copies (`scrub`), the order of requests on each object (`order`), their execution (`client_io`), watches (`watching`) and the replica's side of writes
//! (`replica`) and reads (`replica_reads`). Refuses to know sessions' rights and maps' contents beyond its own interval.
//!
//! Invariants: requests are executed only by a primary that is active; the log, the missing set and the objects always
//! agree, because every change commits all: what the log tells of and the set does not name is there, up to
//! `last_backfill`.
//!
//! Read next: `peering`.

pub mod acting;
mod backfill;
pub mod client_io;
pub mod copying;
pub mod fetch;
pub mod fullness;
pub mod info;
pub mod listing;
pub mod listing_filter;
pub mod log;
pub mod lost;
pub mod member;
pub mod merge;
pub mod missing;
pub mod order;
pub mod peering;
pub mod recovery;
pub mod replica;
pub mod replica_reads;
pub mod reservation;
pub mod scrub;
pub mod snaps;
pub mod split;
mod strays;
mod survey;
pub mod trimming;
pub mod watching;

use crate::core::{CommitFor, Core, Level};
use crate::placement::PgHistory;
use crate::pull_pace::Pulled;
use crate::replication::Replication;
use crate::watch::LiveWatches;
use base::hash::FixedHashMap;
use base::{EVersion, Epoch, OsdId, PgId};
use bytes::Bytes;
use client_io::{ClientRequest, InFlight};
use fetch::Fetch;
use info::{INFO_KEY, PgInfo, info_object};
use log::{PgLog, log_object};
use maps::UpActing;
use missing::Missing;
use order::ObjectQueue;
use peering::Peering;
use recovery::Recovery;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{CollectionId, ObjectId, Op, ReadResult, StoreError, Transaction};
use wire::messages::Message;
use wire::net::ConnId;
use wire::{Encode, Malformed};

/// What a PG's read was for.
#[derive(Debug)]
pub enum PgRead {
    /// A client's request: what its ops want, or the object's state.
    Request(Box<ClientRequest>),
    /// A client's read that a replica answers, in this peering.
    AtReplica(Box<ClientRequest>, Epoch),
    /// A client's listing.
    Listing(Box<listing::Listing>),
    /// A piece of an object for another OSD.
    Piece(Pulled),
    /// What is here of an object that is to be fetched, in this attempt.
    OwnRecord(ObjectId, u32),
    /// The next part for a member that is being filled, in this peering.
    PartToGive(Epoch),
    /// What is here of such a part, in this attempt.
    PartHere(u32),
    /// Objects to be counted, in this interval.
    Survey(Epoch),
    /// The clones that stand for a snapshot, to trim them.
    SnapIndex(Epoch),
    /// The next range of a scrub, in this attempt.
    ScrubRange(u32),
    /// What is here of such a range, for this scan.
    Scan(u32),
    /// The record of an object whose data cannot be read, in this interval.
    Damaged(ObjectId, Epoch),
    /// Objects of a group that is to go, in the deletion of this number.
    ToDelete(u64),
}

/// What a PG's commit was for.
#[derive(Debug)]
pub enum PgCommit {
    /// A write of the primary.
    Write(Epoch, EVersion),
    /// A write of a replica, to be confirmed on this session.
    ReplicaWrite(ConnId, Epoch, EVersion),
    /// The record, as a peering begins: what is here is durable.
    Own(Epoch),
    /// The record, in a peering: the step is durable.
    Peering(Epoch),
    /// Something that the primary of this peering waits to hear on this session.
    Answer(ConnId, Epoch, Box<Message>),
    /// What was asked for on this session, now that it is durable.
    Tell(ConnId, Box<Message>),
    /// An object that was missing is in place.
    Pulled(Epoch, ObjectId),
    /// A clone that is not there has left the index.
    Trimmed(Epoch),
    /// Nobody waits.
    Nothing,
}

impl PgCommit {
    /// Whether it has not come out of this OSD's scheduler: another's primary, or what was fetched, decides when.
    pub fn is_done_at_once(&self) -> bool {
        matches!(self, Self::ReplicaWrite(..) | Self::Answer(..) | Self::Pulled(..) | Self::Nothing)
    }
}

/// What this OSD is to the PG in the present interval.
#[derive(Debug)]
pub enum Role {
    /// Not a member, or waiting for its primary.
    Waiting,
    /// Follows this primary in this peering.
    Replica(OsdId, Epoch),
    /// Leads, and is on its way to serving.
    Peering(Box<Peering>),
    /// Leads and serves.
    Active(Replication),
    /// Leads members that agree, too few to serve.
    Peered(Epoch),
}

/// A placement group.
#[derive(Debug)]
pub struct Pg {
    /// Its name.
    pub id: PgId,
    /// Its collection, once the store has it.
    pub exists: bool,
    /// The record.
    pub info: PgInfo,
    /// The log.
    pub log: PgLog,
    /// Where the PG is.
    pub sets: UpActing,
    /// The first map of this interval.
    pub since: Epoch,
    /// The first map since which it has had the same primary.
    pub led_since: Epoch,
    /// What this OSD is to it.
    pub role: Role,
    /// What its log tells of and is not here.
    pub missing: Missing,
    /// Objects on their way here.
    pub fetching: BTreeMap<ObjectId, Fetch>,
    /// The part that is being compared, where this holder is filled.
    pub filling: Option<Box<backfill::Filling>>,
    /// What is counted anew, after a split.
    survey: Option<Box<survey::Survey>>,
    /// Numbers attempts to fetch and to compare.
    fetch_rounds: u32,
    /// What the primary does for those who lack objects.
    pub recovery: Recovery,
    /// The slot that the primary has, or seeks, of this OSD.
    lent: Option<reservation::Lent>,
    /// What an operator wants done first.
    pub forced: reservation::Forced,
    /// What is known of its scrubs.
    pub scrubbing: scrub::Scrubbing,
    /// The range that is being looked at.
    pub scan: Option<Box<scrub::scan::Scan>>,
    /// Numbers those.
    scans: u32,
    /// What is here of these objects is wrong, and counts as missing.
    pub mending: BTreeSet<ObjectId>,
    /// Requests that wait for the PG to become active, in order.
    pub waiting: VecDeque<Box<ClientRequest>>,
    /// Objects with requests, and recently used ones.
    pub objects: FixedHashMap<ObjectId, ObjectQueue>,
    /// Writes that not all members have yet, in order.
    pub in_flight: VecDeque<InFlight>,
    /// Reads that this OSD answers without leading.
    pub replica_reads: replica_reads::ReplicaReads,
    /// Watches and notifications that are alive.
    pub watches: LiveWatches,
    /// When this PG's alarm goes off, if it is set.
    pub alarm: Option<base::Instant>,
    /// What it knows of its pool's snapshots.
    pub snaps: snaps::PgSnaps,
    /// Counters since this OSD started.
    pub counters: Counters,
    /// The log object's name, which every write needs.
    pub log_id: ObjectId,
    /// When it last became active, for statistics.
    pub last_active: base::Instant,
    /// When the state last changed.
    pub last_change: base::Instant,
}

/// What has been done, for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests that wrote.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Copies of objects that recovery has made.
    pub objects_recovered: u64,
    /// Bytes of their data.
    pub bytes_recovered: u64,
    /// Entries of their maps.
    pub keys_recovered: u64,
    /// How often statistics have been made.
    pub reported: u64,
}

impl Pg {
    /// A PG that is not on disk yet.
    pub fn new(id: PgId) -> Pg {
        Pg {
            id,
            exists: false,
            info: PgInfo::default(),
            log: PgLog::default(),
            sets: UpActing::nobody(),
            since: Epoch(0),
            led_since: Epoch(0),
            role: Role::Waiting,
            missing: Missing::default(),
            fetching: BTreeMap::new(),
            filling: None,
            survey: None,
            fetch_rounds: 0,
            recovery: Recovery::default(),
            lent: None,
            forced: reservation::Forced::default(),
            scrubbing: scrub::Scrubbing::default(),
            scan: None,
            scans: 0,
            mending: BTreeSet::new(),
            waiting: VecDeque::new(),
            objects: FixedHashMap::default(),
            in_flight: VecDeque::new(),
            replica_reads: replica_reads::ReplicaReads::default(),
            watches: LiveWatches::default(),
            alarm: None,
            snaps: snaps::PgSnaps::default(),
            counters: Counters::default(),
            log_id: log_object(),
            last_active: base::Instant::ZERO,
            last_change: base::Instant::ZERO,
        }
    }

    /// A PG as it was left on disk.
    pub fn load(
        id: PgId,
        info: PgInfo,
        entries: Vec<log::LogEntry>,
        missing: &[(Bytes, Bytes)],
    ) -> Result<Pg, Malformed> {
        // Writes add entries and leave the record as it is.
        let log = PgLog::new(info.log_tail, entries)?;
        let head = info.last_update.max(log.head());
        let log = log.leading_to(head)?;
        let mut pg = Pg { exists: true, info, missing: Missing::read(missing)?, ..Pg::new(id) };
        pg.adopt_log(log);
        Ok(pg)
    }

    /// Takes a log as the PG's own; the record follows its newest entry.
    pub fn adopt_log(&mut self, log: PgLog) {
        self.info.last_update = log.head();
        self.info.log_tail = log.tail();
        if let Some(newest) = log.newest() {
            self.info.last_user_version = self.info.last_user_version.max(newest.user_version);
            self.info.totals = newest.totals;
        }
        self.log = log;
    }

    /// The collection.
    pub fn collection(&self) -> CollectionId {
        CollectionId::Pg(self.id)
    }

    /// Whether this OSD leads the PG.
    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Peering(_) | Role::Active(_) | Role::Peered(_))
    }

    /// The peering that made it active, if it is.
    pub fn active_peering(&self) -> Option<Epoch> {
        match &self.role {
            Role::Active(replication) => Some(replication.peering()),
            _ => None,
        }
    }

    /// Whether it serves.
    pub fn is_active(&self) -> bool {
        matches!(self.role, Role::Active(_))
    }

    /// A transaction on the PG's collection, which it creates if need be.
    pub fn transaction(&mut self) -> Transaction {
        if core::mem::replace(&mut self.exists, true) {
            return Transaction::new(self.collection());
        }
        let mut t = Transaction::create(self.collection());
        t.push(&self.log_id, Op::Touch);
        t
    }

    /// Appends the record to a transaction.
    pub fn put_info(&self, t: &mut Transaction) {
        t.push(&info_object(), Op::SetAttr(INFO_KEY, self.info.to_bytes()));
    }

    /// Stores the record.
    pub fn commit_info(&mut self, core: &mut Core, why: PgCommit) {
        let mut t = self.transaction();
        self.put_info(&mut t);
        core.commit(CommitFor::Pg(self.id, why), t);
    }

    /// Takes note of where it is in the present interval.
    pub fn place(&mut self, history: &PgHistory) {
        self.sets = history.current.clone();
        (self.since, self.led_since) = (history.since, history.led_since);
    }

    /// Begins a new interval where it has been placed. An OSD that is not up (yet) only takes note.
    pub fn start_interval(&mut self, core: &mut Core, up: bool) {
        core.wishes.forget(self.id);
        self.begin(core, self.since, up);
    }

    /// Peers anew in the same interval, as if a new one began with the present map.
    pub(crate) fn peer_anew(&mut self, core: &mut Core) {
        if core.epoch() > self.since {
            self.begin(core, core.epoch(), true);
        }
    }

    fn begin(&mut self, core: &mut Core, since: Epoch, up: bool) {
        self.since = since;
        self.end_interval(core);
        self.follow_snaps(&core.map);
        self.last_change = core.now;
        core.stats_changed = true;
        if self.sets.acting_primary == core.me() && up {
            self.start_peering(core);
        } else {
            self.drop_requests(core);
            if up {
                self.announce(core);
            }
        }
    }

    /// Nothing that was under way counts any more; requests wait for the next interval.
    pub(crate) fn end_interval(&mut self, core: &mut Core) {
        self.abandon_recovery(core);
        (self.filling, self.survey) = (None, None);
        self.role = Role::Waiting;
        self.send_replica_reads_away(core);
        self.forget_watches(core);
        self.snaps.begin_interval();
        self.requeue_requests(core);
        // What was held may be somebody else's by the next, and the group may have grown beyond the range that was named.
        crate::requests::resume_requests(core, self.id);
    }

    /// The map has changed within the interval.
    pub fn follow_map(&mut self, core: &mut Core) {
        self.follow_snaps(&core.map);
        self.ask_for_trim(core);
        self.fail_fetches_from_the_dead(core);
        self.announce(core);
        if matches!(self.role, Role::Peering(_)) {
            self.peering_map_changed(core);
        }
        self.look_for_unfound(core);
        // A flag may hold it back, or no longer.
        self.go_on_recovering(core);
    }

    /// The PG's other members, those that peering waits for, and who else may have what is missing: it matters that they
    /// live.
    pub fn companions(&self, me: OsdId, into: &mut BTreeSet<OsdId>) {
        let all = self.sets.acting.iter().chain(&self.sets.up);
        into.extend(all.copied().filter(|osd| *osd != me && *osd != OsdId::NONE && osd.0 != i32::MAX));
        // Of these nobody else may notice that they have died.
        if let Role::Peering(peering) = &self.role {
            into.extend(peering.waits_for());
            into.extend(peering.holders());
        } else if !self.missing.is_empty() {
            into.extend(self.recovery.strays());
        }
        into.remove(&me);
    }

    /// A piece of a copy went out, or came, while this OSD leads.
    fn count_recovered(&mut self, bytes: usize, keys: usize) {
        if self.is_primary() {
            self.counters.bytes_recovered += bytes as u64;
            self.counters.keys_recovered += keys as u64;
        }
    }

    /// A read is answered.
    pub fn handle_read(&mut self, core: &mut Core, what: PgRead, result: Result<ReadResult, StoreError>) {
        if let PgRead::Scan(number) = what {
            return self.scan_read(core, number, result);
        }
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                core.log(Level::Error, format!("pg {}: read failed: {error}", self.id));
                match what {
                    PgRead::Request(request) => self.request_failed(core, request, &error),
                    PgRead::AtReplica(request, _) => replica_reads::to_primary(core, request),
                    PgRead::Listing(listing) => self.listing_failed(core, *listing),
                    PgRead::Piece(pulled) => self.piece_failed(core, &pulled, &error),
                    PgRead::OwnRecord(head, _) => self.fetch_failed(core, &head),
                    PgRead::Damaged(head, interval) => self.damaged_read(core, &head, interval, None),
                    PgRead::ScrubRange(round) => self.range_failed(core, round),
                    PgRead::SnapIndex(interval) => self.trimming_failed(core, interval),
                    PgRead::PartToGive(_) | PgRead::PartHere(_) => {}
                    PgRead::Scan(_) | PgRead::Survey(_) | PgRead::ToDelete(_) => {}
                }
                return;
            }
        };
        match (what, result) {
            (PgRead::Request(request), ReadResult::Object(view)) => self.request_read(core, request, view),
            (PgRead::AtReplica(request, peering), ReadResult::Object(view)) => {
                self.replica_read(core, request, peering, view);
            }
            (PgRead::Listing(listing), ReadResult::List { entries, next }) => {
                self.listing_read(core, listing, entries, next);
            }
            (PgRead::Listing(listing), ReadResult::Object(view)) => self.listing_object_read(core, listing, &view),
            (PgRead::Piece(pulled), ReadResult::Object(view)) => self.piece_read(core, &pulled, *view),
            (PgRead::OwnRecord(head, round), ReadResult::Object(view)) => {
                self.own_record_read(core, &head, round, &view);
            }
            (PgRead::SnapIndex(interval), ReadResult::Object(view)) => self.snap_index_read(core, interval, *view),
            (PgRead::ScrubRange(round), ReadResult::List { entries, next }) => {
                self.range_read(core, round, &entries, next);
            }
            (PgRead::Damaged(head, interval), ReadResult::Object(view)) => {
                self.damaged_read(core, &head, interval, Some(&view));
            }
            (PgRead::PartToGive(peering), ReadResult::List { entries, next }) => {
                self.part_read(core, peering, entries, next);
            }
            (PgRead::PartHere(round), ReadResult::List { entries, next }) => {
                self.own_part_read(core, round, entries, next);
            }
            (PgRead::Survey(interval), ReadResult::List { entries, next }) => {
                self.survey_read(core, interval, entries, next);
            }
            (what, _) => unreachable!("the store answers the question that was asked: {what:?}"),
        }
    }

    /// A commit is durable.
    pub fn handle_commit(&mut self, core: &mut Core, what: PgCommit) {
        match what {
            PgCommit::Write(peering, version) => self.local_commit(core, peering, version),
            PgCommit::ReplicaWrite(conn, peering, version) => self.confirm(core, conn, peering, version),
            PgCommit::Own(peering) => self.own_committed(core, peering),
            PgCommit::Peering(peering) => self.peering_committed(core, peering),
            PgCommit::Answer(conn, peering, message) => self.answer(core, conn, peering, *message),
            PgCommit::Tell(conn, message) => core.send(conn, wire::net::Envelope::new(*message)),
            PgCommit::Pulled(peering, head) => self.pulled(core, peering, &head),
            PgCommit::Trimmed(interval) => self.clone_trimmed(core, interval),
            PgCommit::Nothing => {}
        }
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        assert_eq!(self.log.head(), self.info.last_update, "pg {}: the record follows the log", self.id);
        assert!(self.is_active() || self.in_flight.is_empty(), "pg {}: writes in flight while inactive", self.id);
        let ordered = self.in_flight.iter().zip(self.in_flight.iter().skip(1));
        assert!(ordered.clone().all(|(a, b)| a.version < b.version), "pg {}: writes out of order", self.id);
        for queue in self.objects.values() {
            queue.check_invariants();
        }
        self.watches.check_invariants();
        self.check_recovery();
        self.check_scrub();
        assert!(self.is_active() || self.watches.is_empty(), "pg {}: watches while inactive", self.id);
    }
}
