//! How a write reaches every member of its PG's acting set: the strategy, behind one interface.
//!
//! A strategy is told of the members when the PG becomes active, gets every write once, in order, and says up to which
//! version all members have it durably. It refuses to know what a write does, who asked for it, or when a PG is ready.
//!
//! Invariant: `all_committed` never goes back, and covers only what every member has confirmed.
//!
//! Read next: `primary_copy`.

pub mod primary_copy;

use crate::core::Core;
use base::{EVersion, Epoch, OsdId, PgId};
use bytes::Bytes;
use maps::tenants::TenantId;
use primary_copy::PrimaryCopy;
use store::Transaction;

/// A write as replicas see it.
#[derive(Debug)]
pub struct ReplicatedWrite<'a> {
    /// Its version.
    pub version: EVersion,
    /// Its encoded log entry.
    pub entry: &'a Bytes,
    /// Its changes to the object, without those to the log.
    pub transaction: &'a Transaction,
    /// Up to where replicas may trim their logs.
    pub trim_to: EVersion,
    /// For whom it is done.
    pub tenant: Option<TenantId>,
    /// The members that do not have the object as it was: they get the entry without the changes.
    pub only_log: &'a [OsdId],
}

/// The strategy of an active PG.
#[derive(Debug)]
pub enum Replication {
    /// The primary sends each write to all others.
    PrimaryCopy(PrimaryCopy),
}

impl Replication {
    /// Begins with these members, all of which have everything up to `version`.
    pub fn primary_copy(pg: PgId, peering: Epoch, members: &[OsdId], version: EVersion) -> Replication {
        Replication::PrimaryCopy(PrimaryCopy::new(pg, peering, members, version))
    }

    /// Sends a write to the other members. The caller commits it locally and says so by `committed`.
    pub fn submit(&mut self, core: &mut Core, write: &ReplicatedWrite<'_>) {
        match self {
            Replication::PrimaryCopy(s) => s.submit(core, write),
        }
    }

    /// A member (this OSD among them) has everything up to `version`. Gives what all have, if that grew.
    pub fn committed(&mut self, from: OsdId, version: EVersion) -> Option<EVersion> {
        match self {
            Replication::PrimaryCopy(s) => s.committed(from, version),
        }
    }

    /// The peering that made the members what they are.
    pub fn peering(&self) -> Epoch {
        match self {
            Replication::PrimaryCopy(s) => s.peering(),
        }
    }

    /// What all members have.
    pub fn all_committed(&self) -> EVersion {
        match self {
            Replication::PrimaryCopy(s) => s.all_committed(),
        }
    }

    /// Up to where a member has everything; none where it is no member.
    pub fn progress(&self, osd: OsdId) -> Option<EVersion> {
        match self {
            Replication::PrimaryCopy(s) => s.progress(osd),
        }
    }

    /// A member forgot the session: what it had not confirmed is sent again.
    pub fn peer_reset(&mut self, core: &mut Core, osd: OsdId) {
        match self {
            Replication::PrimaryCopy(s) => s.peer_reset(core, osd),
        }
    }
}
