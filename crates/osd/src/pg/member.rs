//! Another member of a PG, as its primary knows it: what it lacks, and how it comes by it.
//!
//! One is brought up to date by the log while it serves, or beside those who serve (`acting`), or is filled part by part
//! (`backfill`). The last two do not count as complete before they have everything.

use super::info::LastBackfill;
use super::missing::{Missing, Need};
use base::EVersion;
use store::ObjectId;

/// Another member, as its primary knows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Member {
    /// What it lacks of the log's objects.
    pub missing: Missing,
    /// How far it is filled.
    pub last_backfill: LastBackfill,
    /// Objects of the parts that it has been given.
    pub filled: u64,
    /// The newest write that it only logged.
    pub(super) only_logged: EVersion,
}

impl Member {
    /// Whether it has the object as it is.
    pub(super) fn has(&self, head: &ObjectId) -> bool {
        self.last_backfill.covers(head) && !self.missing.contains(head)
    }

    /// Whether the object can be had of it: as it is, or as it was given up for.
    pub(super) fn can_give(&self, head: &ObjectId) -> bool {
        self.has(head) || self.last_backfill.covers(head) && self.missing.get(head).is_some_and(Need::is_here)
    }

    /// The version at which it has an object that it lacks, which all agree on; zero for none.
    pub(super) fn has_of(&self, head: &ObjectId) -> EVersion {
        let need = self.missing.get(head).filter(|_| self.last_backfill.covers(head));
        need.map_or(EVersion::default(), |need| need.have)
    }

    /// Whether it has everything.
    pub(super) fn is_complete(&self) -> bool {
        self.last_backfill.is_max() && self.missing.is_empty()
    }

    /// Whether it is filled part by part. Else all that it lacks has been known from the beginning.
    pub fn is_backfilled(&self) -> bool {
        !self.last_backfill.is_listed() || !self.last_backfill.is_max() && self.filled > 0
    }

    /// Whether it recovers beside those who serve.
    pub fn recovers_beside(&self) -> bool {
        !self.last_backfill.is_max() && !self.is_backfilled()
    }
}
