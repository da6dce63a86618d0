//! The side of a PG that follows: answers to a primary's questions, becoming equal to it, and its writes.
//!
//! Invariant: a replica applies only the writes of the primary and peering that made it one, in order, each once.

use super::log::{LogEntry, PgLog};
use super::{Pg, PgCommit, Role};
use crate::core::{CommitFor, Core, Level};
use base::{EVersion, Epoch, OsdId};
use store::Transaction;
use wire::messages::{Confirmed, PgLog as PgLogMessage, PgLogQuery, PgNotify, PgQuery, PgSync, PgSynced, SubWrite};
use wire::net::{ConnId, Envelope};
use wire::{Decode, Decoder, Encode, Malformed};

impl Pg {
    /// A primary asks what is here.
    pub fn handle_query(&mut self, core: &mut Core, conn: ConnId, query: &PgQuery) {
        let message = PgNotify {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: query.peering,
            born: core.born,
            info: self.exists.then(|| self.info.to_bytes()),
        };
        core.send(conn, Envelope::new(message));
    }

    /// A primary asks for the log.
    pub fn handle_log_query(&mut self, core: &mut Core, conn: ConnId, query: &PgLogQuery) {
        let message = PgLogMessage {
            pg: self.id,
            map_epoch: core.epoch(),
            peering: query.peering,
            info: self.info.to_bytes(),
            entries: self.log.entries().iter().map(Encode::to_bytes).collect(),
        };
        core.send(conn, Envelope::new(message));
    }

    /// The primary asks to become equal to it.
    pub fn handle_sync(&mut self, core: &mut Core, conn: ConnId, from: OsdId, message: &PgSync) {
        if self.sets.acting_primary != from || !self.sets.acting.contains(&core.me()) {
            return;
        }
        match self.synced_log(message) {
            Ok((info, log)) => self.start_sync(core, from, message.peering, info, log, Some(conn)),
            Err(error) => core.log(Level::Error, format!("pg {}: {from:?} sent what cannot be read: {error}", self.id)),
        }
    }

    /// The primary's whole log: what it sent, after what is here where it left that out.
    fn synced_log(&self, message: &PgSync) -> Result<(super::info::PgInfo, PgLog), Malformed> {
        let info = super::info::PgInfo::from_bytes(&message.info)?;
        let sent = message.entries.iter().map(LogEntry::from_bytes).collect::<Result<Vec<_>, _>>()?;
        let log = match message.since {
            Some(since) if since == self.info.last_update => {
                let kept = self.log.after(info.log_tail).cloned();
                PgLog::new(info.log_tail.max(self.log.tail()), kept.chain(sent).collect())?
            }
            Some(_) => return Err(Malformed::new("sync", "begins where this log does not end")),
            None => PgLog::new(info.log_tail, sent)?,
        };
        if log.head() != info.last_update {
            return Err(Malformed::new("sync", "does not lead to its record's last update"));
        }
        Ok((info, log))
    }

    /// The own store says that this replica is equal.
    pub fn say_synced(&mut self, core: &mut Core, conn: ConnId, peering: Epoch) {
        if matches!(self.role, Role::Replica(_, current) if current == peering) {
            core.stats_changed = true;
            core.send(conn, Envelope::new(PgSynced { pg: self.id, map_epoch: core.epoch(), peering }));
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
                self.append_to_log(entry, write.entry.clone(), write.trim_to, &mut transaction);
                self.counters.writes += 1;
                core.counters.replicated((write.transaction.len() + write.payload.len()) as u64);
                let why = PgCommit::ReplicaWrite(conn, write.peering, write.version);
                core.commit(CommitFor::Pg(self.id, why), transaction);
            }
            Err(error) => core.log(Level::Error, format!("pg {}: a write from {from:?}: {error}", self.id)),
        }
    }

    fn open_write(&self, write: &SubWrite) -> Result<(LogEntry, Transaction), Malformed> {
        let entry = LogEntry::from_bytes(&write.entry)?;
        let mut d = Decoder::shared(&write.transaction);
        let transaction = Transaction::decode_with_payload(&mut d, &write.payload)?;
        d.finish("replicated transaction")?;
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
