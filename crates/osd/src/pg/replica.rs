//! The side of a PG that follows: answers to a primary's questions, taking its log, and its writes.
//!
//! Invariant: a replica applies only the writes of the primary and peering that made it one, in order, each once.

use super::fetch::{Asker, Fetch};
use super::info::{LastBackfill, PgInfo};
use super::log::{LogEntry, PgLog};
use super::missing::{Need, differing};
use super::{Pg, PgCommit, Role};
use crate::core::{CommitFor, Core, Level};
use base::{Bug, EVersion, Epoch, OsdId};
use maps::tenants::TenantId;
use store::{ObjectId, Op, Transaction};
use wire::messages::{
    Confirmed, Message, PgActivate, PgActivated, PgLog as PgLogMessage, PgLogQuery, PgNotify, PgQuery, PgRecover,
    SubWrite,
};
use wire::net::{ConnId, Envelope};
use wire::{Decode, Decoder, Encode, Malformed};

impl Pg {
    /// A primary asks what is here. What is said has to stay true if the power goes: others may come to build on it.
    pub fn handle_query(&mut self, core: &mut Core, conn: ConnId, query: &PgQuery) {
        let message = PgNotify {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: query.peering,
            born: core.born,
            info: self.exists.then(|| self.info.to_bytes()),
            missing: self.missing.len() as u64,
        };
        if self.exists && core.is_committing(self.id) && !Bug::SaidBeforeDurable.is_planted() {
            self.commit_info(core, PgCommit::Tell(conn, Box::new(message.into())));
        } else {
            core.send(conn, Envelope::new(message));
        }
    }

    /// A primary asks for the log.
    pub fn handle_log_query(&mut self, core: &mut Core, conn: ConnId, query: &PgLogQuery) {
        let message = PgLogMessage {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: query.peering,
            info: self.info.to_bytes(),
            entries: self.log.all().map(|entry| entry.open().to_bytes()).collect(),
        };
        core.send(conn, Envelope::new(message));
    }

    /// The primary gives its log: takes it as its own, and says what is lacking.
    pub fn handle_activate(&mut self, core: &mut Core, conn: ConnId, from: OsdId, message: &PgActivate) {
        let newer = matches!(self.role, Role::Replica(_, current) if current > message.peering);
        if newer || self.sets.acting_primary != from || !self.sets.concerns(core.me()) {
            return;
        }
        match self.given_log(message) {
            Ok((info, log)) => {
                self.abandon_fetches(core);
                self.abandon_scrub(core);
                self.take_slot_back(core);
                self.filling = None;
                let t = self.take_log(info, log, message.serves);
                self.role = Role::Replica(from, message.peering);
                core.stats_changed = true;
                let answer = PgActivated {
                    pg: self.id,
                    map_epoch: core.epoch(),
                    peering: message.peering,
                    last_backfill: self.info.last_backfill.to_bytes(),
                    missing: self.missing.to_entries(),
                };
                let why = PgCommit::Answer(conn, message.peering, Box::new(answer.into()));
                core.commit(CommitFor::Pg(self.id, why), t);
            }
            Err(error) => core.log(Level::Error, format!("pg {}: {from:?} sent what cannot be read: {error}", self.id)),
        }
    }

    /// The primary's whole log: what it sent, after what is here where it left that out.
    fn given_log(&self, message: &PgActivate) -> Result<(PgInfo, PgLog), Malformed> {
        let info = PgInfo::from_bytes(&message.info)?;
        let sent = message.entries.iter().map(LogEntry::from_bytes).collect::<Result<Vec<_>, _>>()?;
        let log = match message.since {
            Some(since) if self.log.contains(since) => {
                let kept = self.log.all().take_while(|entry| entry.version() <= since).map(|entry| entry.open());
                PgLog::new(info.log_tail.max(self.log.tail()), kept.chain(sent).collect())?
            }
            Some(_) => return Err(Malformed::new("log", "begins where this log has nothing")),
            None => PgLog::new(info.log_tail, sent)?,
        };
        let log = log.leading_to(info.last_update)?;
        Ok((info, log))
    }

    /// Takes another holder's log and record as its own; what is lacking then goes into the missing set. One whose log
    /// does not touch that one is to be filled from the beginning. One that does not serve is not complete before it has
    /// what it lacks; one that does is at once: all agree on the log. What the transaction leaves is durable as a whole.
    ///
    /// One that is not complete takes all but the word that the PG is active (`testify`): the primary's own store may
    /// never get that far, and nobody who has all of it would then be among those who were active last.
    pub(super) fn take_log(&mut self, info: PgInfo, log: PgLog, serves: bool) -> Transaction {
        let had_nothing = !self.exists;
        let same = self.exists && (self.log.head(), self.log.tail()) == (log.head(), log.tail());
        let mut t = self.transaction();
        // Parts of copies that this log alone may tell of: nobody else will give them up.
        for object in self.log.left_aside() {
            t.push(&object.staged(), Op::Remove);
        }
        let mut last_backfill = self.info.last_backfill.clone();
        match differing(&self.log, &log) {
            Some(lacks) => {
                for (head, need) in lacks.into_iter().filter(|(head, _)| last_backfill.covers(head)) {
                    self.info.unsettled |= need.lost.is_some();
                    self.missing.add_and_store(head, need, &mut t);
                }
            }
            // A group made anew to which nobody has written.
            None if had_nothing && log.head().version == 0 => {}
            None => {
                self.missing.clear_and_store(&mut t);
                last_backfill =
                    if Bug::GapsTakenForLogs.is_planted() { last_backfill } else { LastBackfill::nothing() };
            }
        }
        if !same {
            log.store(&mut t);
        }
        if last_backfill.is_listed() {
            let complete = serves || self.missing.is_empty();
            last_backfill = if complete { LastBackfill::MAX } else { LastBackfill::listed() };
        }
        let scrubs = core::mem::take(&mut self.info.scrubs).or_later(info.scrubs.clone());
        let PgInfo { pg_num, resized_at, unsettled, .. } = self.info;
        let known = if last_backfill.is_max() { info.last_epoch_started } else { self.info.last_epoch_started };
        self.info = PgInfo { last_backfill, scrubs, pg_num, resized_at, unsettled, last_epoch_started: known, ..info };
        self.adopt_log(log);
        self.put_info(&mut t);
        t
    }

    /// Says what a commit was to be said of, if it is still this peering's.
    pub(super) fn answer(&mut self, core: &mut Core, conn: ConnId, peering: Epoch, message: Message) {
        if matches!(self.role, Role::Replica(_, current) if current == peering) {
            core.send(conn, Envelope::new(message));
        }
    }

    /// The primary holds an object still that is missing here: fetches it.
    pub fn handle_recover(&mut self, core: &mut Core, conn: ConnId, from: OsdId, message: &PgRecover) {
        if !matches!(self.role, Role::Replica(primary, p) if primary == from && p == message.peering) {
            return;
        }
        if let (Ok(head), Ok(need)) = (ObjectId::from_bytes(&message.object), Need::from_bytes(&message.need)) {
            let asker = Asker { conn, hold: message.hold };
            let tenant = (message.tenant != 0).then_some(TenantId(message.tenant));
            let fetch = Fetch::new(&head, need, from, message.peering, Some(asker));
            self.start_fetch(core, head, fetch.waited_for(false, tenant));
        }
    }

    /// The primary sends a write.
    pub fn handle_sub_write(&mut self, core: &mut Core, conn: ConnId, from: OsdId, write: &SubWrite) {
        if !matches!(self.role, Role::Replica(primary, peering) if primary == from && peering == write.peering) {
            return;
        }
        if write.version <= self.info.last_update {
            // Sent again after a reset: it is here, and durable as soon as what was submitted before this is.
            return self.commit_info(core, PgCommit::ReplicaWrite(conn, write.peering, self.info.last_update));
        }
        match self.open_write(write) {
            Ok((entry, mut transaction)) => {
                if Bug::ConfirmedBeforeDurable.is_planted() {
                    self.confirm(core, conn, write.peering, write.version);
                }
                if !entry.changes_nothing && !Bug::HoldIgnored.is_planted() {
                    // The primary does not hold it still any more: what comes now may be older than this.
                    self.abandon_fetch(core, &entry.object);
                }
                if write.logged_only && !entry.changes_nothing && self.info.last_backfill.covers(&entry.object) {
                    self.missing.add_and_store(entry.object.clone(), Need::of(&entry), &mut transaction);
                }
                if entry.lost.is_some() {
                    self.unsettle(&mut transaction);
                }
                self.testify(write.peering, &mut transaction);
                self.append_to_log(core, entry, write.entry.clone(), write.trim_to, &mut transaction);
                self.counters.writes += 1;
                core.counters.replicated((write.transaction.len() + write.payload.len()) as u64);
                let why = PgCommit::ReplicaWrite(conn, write.peering, write.version);
                core.commit(CommitFor::Pg(self.id, why), transaction);
            }
            Err(error) => core.log(Level::Error, format!("pg {}: a write from {from:?}: {error}", self.id)),
        }
    }

    /// There are writes, so the PG is active: whoever decides what is true later has to know of them.
    fn testify(&mut self, peering: Epoch, t: &mut Transaction) {
        if self.info.last_epoch_started < peering {
            self.info.last_epoch_started = peering;
            self.put_info(t);
        }
    }

    fn open_write(&self, write: &SubWrite) -> Result<(LogEntry, Transaction), Malformed> {
        let entry = LogEntry::from_bytes(&write.entry)?;
        let transaction = if write.logged_only {
            Transaction::new(self.collection())
        } else {
            let mut d = Decoder::shared(&write.transaction);
            let mut transaction = Transaction::decode_with_payload(&mut d, &write.payload)?;
            d.finish("replicated transaction")?;
            transaction.sums = write.sums.clone();
            transaction
        };
        if !write.logged_only
            && (self.missing.contains(&entry.object) || !self.info.last_backfill.covers(&entry.object))
        {
            return Err(Malformed::new("replicated write", "changes an object that is missing here"));
        }
        if transaction.collection != self.collection() || transaction.create || transaction.remove {
            return Err(Malformed::new("replicated transaction", "concerns another placement group"));
        }
        if entry.version != write.version || entry.version.version != self.info.last_update.version + 1 {
            return Err(Malformed::new("replicated write", "does not follow the one before"));
        }
        Ok((entry, transaction))
    }

    /// The own store has a replicated write.
    pub fn confirm(&mut self, core: &mut Core, conn: ConnId, peering: Epoch, version: EVersion) {
        if matches!(self.role, Role::Replica(_, current) if current == peering) {
            core.confirm(conn, Confirmed { pg: self.id, peering, version });
        }
    }

    /// A replica confirms.
    pub fn handle_confirmed(&mut self, core: &mut Core, from: OsdId, write: &Confirmed) {
        if self.active_peering() == Some(write.peering) {
            self.member_committed(core, from, write.version);
        }
    }
}
