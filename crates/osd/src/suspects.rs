//! Objects of which a transaction could not be carried out: the store cannot read what it would have kept of them.
//!
//! The OSD begins again when that happens, and where other members have the write, or a good copy, the object comes from
//! them. Where nobody has, the write would come again, and fail again, for ever. So the object is noted first, durably:
//! the next write that would keep a part of it reads all of it before. If that can be read, the object is cleared; if not,
//! it is mended from another member (`pg::scrub::repair`), or the client is told EIO.
//!
//! Invariant: the set in memory is the one on disk after the transactions submitted so far.

use crate::core::{Command, CommitFor, Core, Level};
use crate::limits::SUSPECTS_MAX;
use crate::ops;
use crate::osd::Osd;
use crate::pg::client_io::ClientRequest;
use crate::pg::{Pg, PgCommit};
use base::PoolId;
use bytes::Bytes;
use std::collections::BTreeSet;
use store::{CollectionId, ObjectId, Op, StoreError, Transaction};
use wire::osd::OpCode;
use wire::{Decode, Encode, Malformed};

/// The object whose map has them.
pub fn suspects_object() -> ObjectId {
    ObjectId::record("suspects")
}

/// The objects, each with its pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Suspects(BTreeSet<(PoolId, ObjectId)>);

impl Suspects {
    /// Reads what was kept.
    pub fn read(entries: &[(Bytes, Bytes)]) -> Result<Suspects, Malformed> {
        let one = |(key, _): &(Bytes, Bytes)| <(PoolId, ObjectId)>::from_bytes(key);
        Ok(Suspects(entries.iter().map(one).collect::<Result<_, Malformed>>()?))
    }

    fn contains(&self, pool: PoolId, head: &ObjectId) -> bool {
        !self.0.is_empty() && self.0.contains(&(pool, head.clone()))
    }
}

impl Core {
    /// An object can be read, or is another.
    pub(crate) fn clear_suspect(&mut self, pool: PoolId, head: &ObjectId) {
        if self.suspects.contains(pool, head) {
            let key = (pool, head.clone());
            self.suspects.0.remove(&key);
            let mut t = Transaction::new(CollectionId::Meta);
            t.push(&suspects_object(), Op::OmapRemove(vec![key.to_bytes()]));
            self.commit(CommitFor::Own, t);
        }
    }

    /// Whether a request is to read all of its object before it writes to it: it would keep some of what may be rotten.
    pub(crate) fn is_suspect_for(&self, pool: PoolId, request: &ClientRequest) -> bool {
        let replaces = |op: OpCode| matches!(op, OpCode::WRITEFULL | OpCode::DELETE) || ops::copies(op);
        let first = || request.message.ops.iter().find(|item| ops::writes_to(item));
        self.suspects.contains(pool, &request.object)
            && request.trims.is_none()
            && first().is_some_and(|item| !replaces(item.op))
    }
}

impl Osd {
    /// The store cannot read what a transaction needs: begins again, once it is noted of which object that was.
    pub(crate) fn transaction_failed(&mut self, whose: &CommitFor, error: &StoreError) {
        if matches!(whose, CommitFor::Suspect) {
            return self.suspect_noted();
        }
        if core::mem::replace(&mut self.life.stopped, true) {
            return;
        }
        let text = format!("the store cannot carry out a transaction: {error}; beginning again");
        self.core.log(Level::Error, text);
        let known = self
            .culprit(whose)
            .filter(|key| self.core.suspects.0.len() < SUSPECTS_MAX && !self.core.suspects.0.contains(key));
        let Some(key) = known else { return self.suspect_noted() };
        let mut t = Transaction::new(CollectionId::Meta);
        t.push(&suspects_object(), Op::OmapSet(vec![(key.to_bytes(), Bytes::new())]));
        self.core.suspects.0.insert(key);
        self.core.commit(CommitFor::Suspect, t);
    }

    /// The note is durable, or there is none: the next life begins with what the store holds.
    pub(crate) fn suspect_noted(&mut self) {
        self.core.push(Command::BeginAgain);
    }

    /// The object that a write was for.
    fn culprit(&self, whose: &CommitFor) -> Option<(PoolId, ObjectId)> {
        let CommitFor::Pg(id, what) = whose else { return None };
        let (PgCommit::Write(_, version) | PgCommit::ReplicaWrite(_, _, version)) = what else { return None };
        let entry = self.pgs.get(id)?.log.entry_of(*version)?;
        Some((id.pool, entry.open().object))
    }
}

impl Pg {
    /// What a request has asked for could be read; if that was all of its object, the object is sound.
    pub(crate) fn clear_if_checked(&self, core: &mut Core, request: &ClientRequest) {
        if request.view.is_none() && core.is_suspect_for(self.id.pool, request) {
            core.clear_suspect(self.id.pool, &request.object);
        }
    }
}
