//! Virtual disks: what survives a crash, and what it costs to get there.
//!
//! An OSD's disk is two memory stores: one as its engine sees it, one as it will be found after a crash. A transaction
//! reaches the second when it is reported durable; a crash keeps some prefix of those that were not, as disks do. A loose
//! one keeps a prefix of each collection's, and ends them in any order between collections: stores promise no more.

use base::{Bug, Duration, Instant, Rng};
use bytes::Bytes;
use mon::{BatchWrites, PersistId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{
    CollectionId, CommitId, Completion, MemoryStore, ObjectId, ObjectWant, Op, Part, ReadId, ReadRequest, ReadResult,
    ReadWhat, StoreError, Transaction,
};
use wire::Malformed;

/// A fast flash drive's time for a flush, at the least ...
const COMMIT_MIN: Duration = Duration::from_micros(30);
/// ... and what chance adds at most.
const COMMIT_JITTER_NANOS: u64 = 100_000;
const READ_MIN: Duration = Duration::from_micros(20);
const READ_JITTER_NANOS: u64 = 60_000;

/// An OSD's disk.
#[derive(Debug, Default)]
pub(crate) struct OsdDisk {
    live: MemoryStore,
    durable: MemoryStore,
    pending: VecDeque<(CommitId, Transaction)>,
    busy_until: Instant,
    /// Whether it keeps no order between collections; then until when it is busy with each.
    loose: bool,
    lanes: BTreeMap<CollectionId, Instant>,
    /// How often longer than a fast drive it takes.
    slowness: u32,
    /// Until when it is slower still.
    slow_until: Instant,
    /// Until when nothing that it was given ends.
    hangs_until: Instant,
    /// To when that was put off which was to end while it hung.
    put_off_to: Instant,
    /// Collections of which nothing ends until then.
    stuck: BTreeSet<CollectionId>,
    stuck_until: Instant,
    /// Objects whose data it cannot read any more, until they are written anew.
    rotten: BTreeSet<(CollectionId, ObjectId)>,
    /// Collections of which it takes nothing more: a transaction met what is rotten.
    halted: BTreeSet<CollectionId>,
    /// What it has confirmed and not kept.
    confirmed: VecDeque<Transaction>,
    /// How much it can hold, if it keeps an account.
    capacity: Option<u64>,
    /// What it held when that was counted last, and what transactions have brought since.
    held: u64,
    uncounted: u64,
    /// What something else has taken, and until when.
    taken: u64,
    taken_until: Instant,
}

/// How much may come before what a disk holds is counted anew.
const UNCOUNTED_MAX: u64 = 64 << 10;

/// How often longer a disk takes that is much slower for a while.
const SLOW: u32 = 100;

/// At the most so much longer: about a second for each transaction.
const SLOWEST: u32 = 10_000;

/// How many transactions a forgetful disk may be behind.
const FORGOTTEN_MAX: usize = 64;

impl OsdDisk {
    /// An empty disk, so many times slower than a fast drive, which keeps the order between collections or does not.
    pub(crate) fn new(slowness: u32, loose: bool) -> OsdDisk {
        OsdDisk { slowness, loose, ..OsdDisk::default() }
    }

    /// Lets it hold so much, and no more.
    pub(crate) fn with_capacity(self, bytes: u64) -> OsdDisk {
        OsdDisk { capacity: Some(bytes), ..self }
    }

    /// Something else takes room until so much is left, and has it until then.
    pub(crate) fn fill(&mut self, left: u64, until: Instant) {
        let used = self.used();
        self.taken = self.capacity.map_or(0, |capacity| capacity.saturating_sub(used + left));
        self.taken_until = until;
    }

    /// How much it can hold, and what of that is left; none where it keeps no account.
    pub(crate) fn room(&mut self, now: Instant) -> Option<(u64, u64)> {
        let capacity = self.capacity?;
        let taken = if now < self.taken_until { self.taken } else { 0 };
        Some((capacity, capacity.saturating_sub(self.used() + taken)))
    }

    fn used(&mut self) -> u64 {
        if self.uncounted > UNCOUNTED_MAX || self.held == 0 {
            (self.held, self.uncounted) = (self.live.held_bytes(), 0);
        }
        self.held + self.uncounted
    }

    /// Whether there is room for a transaction.
    fn takes_in(&mut self, now: Instant, transaction: &Transaction) -> bool {
        let Some((_, free)) = self.room(now) else { return true };
        let brought = bytes_brought(transaction);
        self.uncounted += brought;
        brought <= free
    }

    /// Another one of its kind, and empty.
    pub(crate) fn replace(&mut self) {
        *self = OsdDisk { capacity: self.capacity, ..OsdDisk::new(self.slowness, self.loose) };
    }

    /// How much is not durable yet.
    pub(crate) fn owes(&self) -> usize {
        self.pending.len()
    }

    /// Makes it much slower until then.
    pub(crate) fn slow_down(&mut self, until: Instant) {
        self.slow_until = until;
    }

    /// Lets nothing end until then.
    pub(crate) fn hang(&mut self, until: Instant) {
        self.hangs_until = self.hangs_until.max(until);
    }

    /// Whether it owes something that divides or joins collections.
    pub(crate) fn owes_parts(&self) -> bool {
        self.pending.iter().any(|(_, transaction)| !transaction.parts.is_empty())
    }

    /// Lets nothing end until then of collections that it owes to divide or to join; where it keeps the order of all,
    /// nothing at all.
    pub(crate) fn stick(&mut self, now: Instant, until: Instant) {
        if !self.loose {
            return self.hang(until);
        }
        if self.stuck_until <= now {
            self.stuck.clear();
        }
        let owed = self.pending.iter().filter(|(_, transaction)| !transaction.parts.is_empty());
        self.stuck.extend(owed.flat_map(|(_, transaction)| collections(transaction)));
        self.stuck_until = self.stuck_until.max(until);
    }

    fn is_stuck(&self, now: Instant, transaction: &Transaction) -> bool {
        now < self.stuck_until && collections(transaction).iter().any(|collection| self.stuck.contains(collection))
    }

    /// When that ends which would end now, if it hangs. What was put off before ends first, however long it hangs meanwhile.
    pub(crate) fn puts_off(&mut self, now: Instant, what: &Stored) -> Option<Instant> {
        if self.hangs_until <= now {
            return self.keeps_back(now, what);
        }
        if self.put_off_to <= now {
            self.put_off_to = self.hangs_until;
        }
        Some(self.put_off_to)
    }

    /// When a transaction ends that would end now, if what it is for is stuck.
    fn keeps_back(&self, now: Instant, what: &Stored) -> Option<Instant> {
        let Stored::Committed(id) = what else { return None };
        let (_, transaction) = self.pending.iter().find(|(pending, _)| pending == id)?;
        self.is_stuck(now, transaction).then_some(self.stuck_until)
    }

    fn slowness(&self, now: Instant) -> u32 {
        if now < self.slow_until { (self.slowness * SLOW).min(SLOWEST) } else { self.slowness }
    }

    /// How long a read takes.
    pub(crate) fn read_time(&self, now: Instant, rng: &mut Rng) -> Duration {
        (READ_MIN + Duration::from_nanos(rng.below(READ_JITTER_NANOS))) * self.slowness(now)
    }

    /// Takes a transaction; says when it is durable, or why it is refused.
    pub(crate) fn commit(
        &mut self,
        now: Instant,
        id: CommitId,
        transaction: Transaction,
        rng: &mut Rng,
    ) -> Result<Instant, StoreError> {
        if self.meets_rot(&transaction) || self.halted.contains(&transaction.collection) {
            self.halted.insert(transaction.collection);
            return Err(rot());
        }
        if !self.takes_in(now, &transaction) {
            return Err(StoreError::NoSpace);
        }
        self.live.commit(&transaction)?;
        self.rot_or_heal(&transaction);
        let took = COMMIT_MIN + Duration::from_nanos(rng.below(COMMIT_JITTER_NANOS));
        // What hangs, or is stuck, already ends first.
        let stuck_until = if self.is_stuck(now, &transaction) { self.stuck_until } else { now };
        let done = now.max(self.hangs_until).max(stuck_until) + took * self.slowness(now);
        let done = self.done_at(done, &transaction);
        self.pending.push_back((id, transaction));
        Ok(done)
    }

    /// When a transaction is durable that by itself would be so then: not before those that it has to come after.
    fn done_at(&mut self, done: Instant, transaction: &Transaction) -> Instant {
        if !self.loose {
            self.busy_until = self.busy_until.max(done);
            return self.busy_until;
        }
        let touched = collections(transaction);
        let before = touched.iter().filter_map(|collection| self.lanes.get(collection)).max();
        let done = before.map_or(done, |before| done.max(*before));
        self.lanes.extend(touched.into_iter().map(|collection| (collection, done)));
        done
    }

    /// A transaction is durable now.
    pub(crate) fn committed(&mut self, id: CommitId) {
        let at = self.pending.iter().position(|(pending, _)| *pending == id);
        let (_, transaction) = at.and_then(|at| self.pending.remove(at)).expect("each becomes durable once");
        self.confirmed.push_back(transaction);
        let behind = if Bug::ForgetfulDisks.is_planted() { FORGOTTEN_MAX } else { 0 };
        while self.confirmed.len() > behind {
            let transaction = self.confirmed.pop_front().expect("there is one more than allowed");
            self.keep(&transaction);
        }
    }

    fn keep(&mut self, transaction: &Transaction) {
        self.durable.commit(transaction).expect("what the live store took, the durable one takes");
    }

    /// Reads as the engine sees things.
    pub(crate) fn read(&self, request: &ReadRequest) -> Result<ReadResult, StoreError> {
        if let ReadWhat::Object(id, want) = &request.what
            && !want.data.is_empty()
            && self.rotten.contains(&(request.collection, id.clone()))
        {
            return Err(rot());
        }
        self.live.read(request)
    }

    /// An object's data rots, if there is any.
    pub(crate) fn rot(&mut self, collection: CollectionId, id: ObjectId) {
        let what = ReadWhat::Object(id.clone(), ObjectWant::default());
        let view = self.live.read(&ReadRequest { collection, what });
        if matches!(view, Ok(ReadResult::Object(view)) if view.size > 0) {
            self.rotten.insert((collection, id));
        }
    }

    /// The objects that are rotten.
    pub(crate) fn rotten(&self) -> Vec<(CollectionId, ObjectId)> {
        self.rotten.iter().cloned().collect()
    }

    /// Whether a transaction writes into what is rotten: what it leaves of that cannot be read.
    fn meets_rot(&self, transaction: &Transaction) -> bool {
        let mut replaced = BTreeSet::new();
        transaction.ops.iter().any(|(object, op)| match op {
            Op::Remove | Op::Truncate(0) => {
                replaced.insert(*object);
                false
            }
            Op::Write(..) | Op::Zero(..) | Op::Truncate(_) => {
                let id = &transaction.objects[usize::from(*object)];
                !replaced.contains(object) && self.rotten.contains(&(transaction.collection, id.clone()))
            }
            _ => false,
        })
    }

    /// What is replaced is whole again; a clone of what is rotten is rotten.
    fn rot_or_heal(&mut self, transaction: &Transaction) {
        if transaction.remove {
            // A former member's copy of a placement group goes as a whole.
            self.rotten.retain(|(collection, _)| *collection != transaction.collection);
        }
        let key = |at: &u16| (transaction.collection, transaction.objects[usize::from(*at)].clone());
        for (object, op) in &transaction.ops {
            match op {
                Op::Remove | Op::Truncate(0) => drop(self.rotten.remove(&key(object))),
                Op::CloneTo(to) | Op::RenameTo(to) => {
                    let rotten = self.rotten.contains(&key(object));
                    self.rotten.remove(&key(to));
                    if rotten {
                        self.rotten.insert(key(to));
                    }
                    if matches!(op, Op::RenameTo(_)) {
                        self.rotten.remove(&key(object));
                    }
                }
                _ => {}
            }
        }
    }

    /// The store as it is found after a crash: with some of what was not yet durable.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let pending = core::mem::take(&mut self.pending).into_iter().map(|(_, transaction)| transaction);
        let unsure: Vec<Transaction> = core::mem::take(&mut self.confirmed).into_iter().chain(pending).collect();
        let unsure = if self.loose { some_of_each(unsure, rng) } else { unsure };
        let kept = if self.loose { unsure.len() } else { rng.below(unsure.len() as u64 + 1) as usize };
        // With the bug the last ones are kept instead of the first, if the store takes them.
        let skipped = if Bug::DisorderlyDisks.is_planted() { unsure.len() - kept } else { 0 };
        unsure.iter().skip(skipped).take(kept).for_each(|transaction| drop(self.durable.commit(transaction)));
        self.live = MemoryStore::from_records(self.durable.records()).expect("a store reads its own image");
        (self.busy_until, self.hangs_until, self.put_off_to) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
        self.stuck_until = Instant::ZERO;
        self.lanes.clear();
        self.halted.clear();
        self.held = 0;
    }
}

/// How many bytes a transaction brings.
fn bytes_brought(transaction: &Transaction) -> u64 {
    let of = |op: &Op| match op {
        Op::Write(_, data) => data.len(),
        Op::SetAttr(name, value) => name.len() + value.len(),
        Op::OmapSet(entries) => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
        _ => 0,
    };
    transaction.ops.iter().map(|(_, op)| of(op) as u64).sum()
}

/// The collections that a transaction changes.
fn collections(transaction: &Transaction) -> Vec<CollectionId> {
    let parts = transaction.parts.iter().map(|part| match part {
        Part::Split { child, .. } => child.collection,
        Part::Merge { source, .. } => *source,
    });
    parts.chain([transaction.collection]).collect()
}

/// One in how many transactions is the first of its collection that a crash takes away.
const LOST_ONE_IN: u64 = 3;

/// A beginning of each collection's transactions.
fn some_of_each(all: Vec<Transaction>, rng: &mut Rng) -> Vec<Transaction> {
    let mut ended = BTreeSet::new();
    let stays = |transaction: &Transaction| {
        let touched = collections(transaction);
        let stays = !touched.iter().any(|collection| ended.contains(collection)) && !rng.chance(1, LOST_ONE_IN);
        if !stays {
            ended.extend(touched);
        }
        stays
    };
    all.into_iter().filter(stays).collect()
}

fn rot() -> StoreError {
    Malformed::new("block", "does not have the checksum that was noted").into()
}

/// A monitor's key-value file.
#[derive(Debug, Default)]
pub(crate) struct MonDisk {
    pub(crate) contents: BTreeMap<(String, String), Bytes>,
    pending: VecDeque<(PersistId, BatchWrites)>,
    busy_until: Instant,
}

impl MonDisk {
    /// Takes a batch; says when it is durable.
    pub(crate) fn persist(&mut self, now: Instant, id: PersistId, batch: BatchWrites, rng: &mut Rng) -> Instant {
        self.pending.push_back((id, batch));
        let done = now + COMMIT_MIN + Duration::from_nanos(rng.below(COMMIT_JITTER_NANOS));
        self.busy_until = self.busy_until.max(done);
        self.busy_until
    }

    /// How much is not durable yet.
    pub(crate) fn owes(&self) -> usize {
        self.pending.len()
    }

    /// The oldest batch is durable now.
    pub(crate) fn persisted(&mut self) -> PersistId {
        let (id, batch) = self.pending.pop_front().expect("each batch becomes durable once");
        self.apply(batch);
        id
    }

    /// Writes a batch at once.
    pub(crate) fn apply(&mut self, batch: BatchWrites) {
        for (prefix, key, value) in batch {
            match value {
                Some(value) => self.contents.insert((prefix, key), value),
                None => self.contents.remove(&(prefix, key)),
            };
        }
    }

    /// What is found after a crash: batches are whole or not there.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        let kept = rng.below(self.pending.len() as u64 + 1);
        for (_, batch) in core::mem::take(&mut self.pending).into_iter().take(kept as usize) {
            self.apply(batch);
        }
        self.busy_until = Instant::ZERO;
    }
}

/// Something a disk has finished.
#[derive(Debug)]
pub(crate) enum Stored {
    /// An OSD's transaction.
    Committed(CommitId),
    /// An OSD's transaction was refused.
    Refused(CommitId, StoreError),
    /// A read.
    Read(ReadId, Result<ReadResult, StoreError>),
    /// Something that an extent store has ended.
    Completed(Completion),
    /// The monitor's oldest batch.
    Persisted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{PgId, PoolId};

    /// Which of four transactions, two of each of two collections, a crash leaves.
    fn left(loose: bool, seed: u64) -> [bool; 4] {
        let (mut disk, mut rng) = (OsdDisk::new(1, loose), Rng::new(seed));
        let (a, b) = (CollectionId::Meta, CollectionId::Pg(PgId::new(PoolId(1), 0)));
        let object = ObjectId::record;
        let mut number = 0;
        let mut commit = |disk: &mut OsdDisk, transaction: Transaction, rng: &mut Rng| {
            number += 1;
            disk.commit(Instant::ZERO, CommitId(number), transaction, rng).expect("it takes all of it");
            CommitId(number)
        };
        for collection in [a, b] {
            let made = commit(&mut disk, Transaction::create(collection), &mut rng);
            disk.committed(made);
        }
        let names = [(a, "1"), (b, "2"), (a, "3"), (b, "4")];
        for (collection, name) in names {
            let mut transaction = Transaction::new(collection);
            transaction.push(&object(name), Op::Touch);
            commit(&mut disk, transaction, &mut rng);
        }
        assert_eq!(disk.owes(), 4);
        disk.crash(&mut rng);
        names.map(|(collection, name)| {
            let what = ReadWhat::Object(object(name), ObjectWant::default());
            matches!(disk.read(&ReadRequest { collection, what }), Ok(ReadResult::Object(view)) if view.exists)
        })
    }

    /// A disk that hung once more while it hung let what was to end then end before what had been put off already: a new
    /// group's first write before the split that made it.
    #[test]
    fn what_is_put_off_first_ends_first() {
        let (mut disk, at) = (OsdDisk::new(1, true), |second| Instant::from_secs(second));
        let what = Stored::Committed(CommitId(1));
        disk.hang(at(5));
        assert_eq!(disk.puts_off(at(2), &what), Some(at(5)));
        disk.hang(at(8));
        assert_eq!(disk.puts_off(at(3), &what), Some(at(5)), "behind the first");
        assert_eq!((disk.puts_off(at(5), &what), disk.puts_off(at(6), &what)), (Some(at(8)), Some(at(8))));
        assert_eq!(disk.puts_off(at(8), &what), None);
    }

    #[test]
    fn a_disk_that_is_stuck_with_a_join_goes_on_with_the_rest_if_it_is_loose() {
        let (at, pg) = (Instant::from_secs, |seed| CollectionId::Pg(PgId::new(PoolId(1), seed)));
        for loose in [true, false] {
            let (mut disk, mut rng) = (OsdDisk::new(1, loose), Rng::new(1));
            let mut number = 0;
            let mut commit = |disk: &mut OsdDisk, transaction: Transaction| {
                number += 1;
                let done = disk.commit(at(1), CommitId(number), transaction, &mut rng).expect("it takes all of it");
                (done, Stored::Committed(CommitId(number)))
            };
            for collection in [CollectionId::Meta, pg(0), pg(1)] {
                commit(&mut disk, Transaction::create(collection));
                disk.committed(disk.pending[0].0);
            }
            let mut join = Transaction::new(pg(0));
            join.parts.push(Part::Merge { range: store::HashRange::of_seed(1, 1), source: pg(1) });
            let (_, joined) = commit(&mut disk, join);
            disk.stick(at(1), at(5));
            disk.stick(at(1), at(3));
            assert_eq!(disk.puts_off(at(2), &joined), Some(at(5)), "no sooner because it is stuck again");
            let (later, _) = commit(&mut disk, Transaction::new(pg(0)));
            assert!(later > at(5), "behind what is stuck");
            let (other, map) = commit(&mut disk, Transaction::new(CollectionId::Meta));
            assert_eq!((other < at(5), disk.puts_off(at(2), &map)), (loose, (!loose).then_some(at(5))));
            assert_eq!(disk.puts_off(at(5), &joined), None);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_room_comes_back() {
        let (mut disk, mut rng) = (OsdDisk::new(1, false).with_capacity(100_000), Rng::new(1));
        let now = Instant::from_secs(5);
        let mut write = |disk: &mut OsdDisk, at: Instant, number: u64, bytes: usize| {
            let mut transaction = Transaction::create(CollectionId::Meta);
            if number > 1 {
                transaction = Transaction::new(CollectionId::Meta);
            }
            transaction.push(&ObjectId::record("1"), Op::Write(0, vec![7; bytes].into()));
            disk.commit(at, CommitId(number), transaction, &mut rng).map(|_| disk.committed(CommitId(number)))
        };
        assert_eq!(write(&mut disk, now, 1, 70_000), Ok(()));
        let (total, free) = disk.room(now).expect("it keeps an account");
        assert_eq!(total, 100_000);
        assert!((15_000..=30_000).contains(&free), "{free}");
        disk.fill(5000, now + Duration::from_secs(1));
        assert_eq!(disk.room(now), Some((100_000, 5000)));
        assert_eq!(write(&mut disk, now, 2, 5001), Err(StoreError::NoSpace));
        let later = now + Duration::from_secs(1);
        assert_eq!(write(&mut disk, later, 3, 5001), Ok(()));
        assert_eq!(OsdDisk::new(1, false).room(now), None, "others keep none");
    }

    #[test]
    fn a_crash_leaves_a_beginning_of_all_or_of_each_collection() {
        let found = |loose| (0..200).map(|seed| left(loose, seed)).collect::<BTreeSet<_>>();
        let beginnings = (0..=4).map(|kept| [0, 1, 2, 3].map(|at| at < kept)).collect();
        assert_eq!(found(false), beginnings);
        let loose = found(true);
        assert!(loose.iter().all(|[a, b, c, d]| (*a || !c) && (*b || !d)), "{loose:?}");
        assert_eq!(loose.len(), 9, "what is left of one says nothing of the other");
    }
}
