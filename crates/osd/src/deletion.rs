//! Placement groups that are to go: their objects are removed in the background, a few at a time.
//!
//! A group is marked first, durably: from then on it counts as gone, also after a start, which goes on with it. Then turn
//! after turn, each in the class of what nobody waits for, looks up some objects and removes them in one transaction, with
//! a pause between (`osd_delete_sleep`); what is left in the end, its records, goes with the collection. A group that
//! comes back here meanwhile is not held up: the rest goes at once.
//!
//! Follows Ceph v16.2 `src/osd/PG.cc` (`do_delete_work`) and `src/osd/OSD.cc` (`get_osd_delete_sleep`) for pace and cost.
//!
//! Invariant: no group is both here and to go.

use crate::core::CommitFor;
use crate::osd::{Osd, Work, WorkOf};
use crate::pg::PgRead;
use crate::scheduler::WorkClass;
use base::{Duration, Instant, PgId};
use std::collections::{BTreeMap, BTreeSet};
use store::{CollectionId, ListWant, ObjectId, Op, RECORD, ReadRequest, ReadResult, ReadWhat, StoreError, Transaction};

/// The records that a group may have, at the most: they are listed beside its objects.
const RECORDS_MAX: usize = 16;

/// The object of a collection that marks it as one that is to go.
pub fn deletion_object() -> ObjectId {
    ObjectId::record("deletion")
}

/// The groups that are to go.
#[derive(Debug)]
pub struct Deletions {
    /// Each with the number of its deletion: a group may come back, and go again.
    groups: BTreeMap<PgId, u64>,
    begun: u64,
    /// Those whose next turn may be scheduled, and when that of others may be.
    wanted: Vec<PgId>,
    timers: BTreeSet<(Instant, PgId)>,
    /// The pause between two turns of a group.
    sleep: Duration,
    /// Objects of a turn at the most (`osd_target_transaction_size`).
    turn_objects: usize,
    /// What a turn costs (`osd_pg_delete_cost`).
    cost_bytes: usize,
}

impl Default for Deletions {
    fn default() -> Deletions {
        Deletions {
            groups: BTreeMap::new(),
            begun: 0,
            wanted: Vec::new(),
            timers: BTreeSet::new(),
            sleep: Duration::ZERO,
            turn_objects: 30,
            cost_bytes: 1 << 20,
        }
    }
}

impl Deletions {
    /// Takes over the options.
    pub fn set(&mut self, sleep: Duration, turn_objects: usize, cost_bytes: usize) {
        (self.sleep, self.turn_objects, self.cost_bytes) = (sleep, turn_objects.max(1), cost_bytes);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a turn is to be scheduled.
    pub fn wants_turns(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// When the next pause ends.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn begin(&mut self, pg: PgId) -> u64 {
        self.begun += 1;
        self.groups.insert(pg, self.begun);
        self.begun
    }

    /// Goes on with one that a start has found.
    pub(crate) fn resume(&mut self, pg: PgId) {
        self.begin(pg);
        self.wanted.push(pg);
    }

    fn is_current(&self, pg: PgId, number: u64) -> bool {
        self.groups.get(&pg) == Some(&number)
    }
}

impl Osd {
    /// A group's collection is to go.
    pub(crate) fn delete_collection(&mut self, pg: PgId) {
        let number = self.core.deletions.begin(pg);
        let mut t = Transaction::new(CollectionId::Pg(pg));
        t.push(&deletion_object(), Op::Touch);
        self.core.commit(CommitFor::Deletion(pg, number, Duration::ZERO), t);
    }

    /// Groups come (back) here: what is left of them goes first, at once.
    pub(crate) fn make_way(&mut self, comes: impl Fn(PgId) -> bool) {
        let back: Vec<PgId> = self.core.deletions.groups.keys().copied().filter(|pg| comes(*pg)).collect();
        back.into_iter().for_each(|pg| self.end_deletion(pg));
    }

    fn end_deletion(&mut self, pg: PgId) {
        self.core.deletions.groups.remove(&pg);
        self.core.commit(CommitFor::Own, Transaction::remove(CollectionId::Pg(pg)));
    }

    /// The mark, or what a turn has removed, is durable.
    pub(crate) fn deletion_committed(&mut self, pg: PgId, number: u64, pause: Duration) {
        let deletions = &mut self.core.deletions;
        if !deletions.is_current(pg, number) {
            return;
        }
        if pause == Duration::ZERO {
            deletions.wanted.push(pg);
        } else {
            deletions.timers.insert((self.core.now + pause, pg));
        }
    }

    /// Puts the turns into the queue whose time has come.
    pub(crate) fn schedule_deletions(&mut self) {
        let (now, deletions) = (self.core.now, &mut self.core.deletions);
        while let Some((_, pg)) = deletions.timers.first().copied().filter(|(at, _)| *at <= now) {
            deletions.timers.pop_first();
            deletions.wanted.push(pg);
        }
        let cost = deletions.cost_bytes;
        for pg in core::mem::take(&mut deletions.wanted) {
            self.scheduler.enqueue(now, WorkClass::BestEffort, cost, Work { pg, what: WorkOf::Delete });
        }
    }

    /// A turn: looks up the next objects.
    pub(crate) fn delete_turn(&mut self, pg: PgId) {
        let deletions = &self.core.deletions;
        let Some(number) = deletions.groups.get(&pg).copied() else { return };
        let want = ListWant { from: None, max: deletions.turn_objects + RECORDS_MAX, attr: None };
        let request = ReadRequest { collection: CollectionId::Pg(pg), what: ReadWhat::List(want) };
        self.core.read(pg, PgRead::ToDelete(number), request);
    }

    /// The store has listed them, or cannot.
    pub(crate) fn delete_listed(&mut self, pg: PgId, number: u64, result: Result<ReadResult, StoreError>) {
        if !self.core.deletions.is_current(pg, number) {
            return;
        }
        let Ok(ReadResult::List { entries, .. }) = result else { return self.end_deletion(pg) };
        let objects = entries.into_iter().map(|entry| entry.id).filter(|id| id.snap() != RECORD);
        let mut t = Transaction::new(CollectionId::Pg(pg));
        objects.take(self.core.deletions.turn_objects).for_each(|id| t.push(&id, Op::Remove));
        if t.is_empty() {
            return self.end_deletion(pg);
        }
        let pause = self.core.deletions.sleep;
        self.core.commit(CommitFor::Deletion(pg, number, pause), t);
    }
}
