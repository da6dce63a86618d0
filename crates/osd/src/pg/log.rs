//! A PG's log: its newest writes, in order, and by request.
//!
//! Owns the entries, their encoding (ours, version 2, or 3 for what was given up), and the index by which a resent request is recognised. Its
//! counterpart in Ceph is `pg_log_t` (v16.2 `src/osd/PGLog.h`), without rollback. Read next: `missing`.
//!
//! Beyond its tail it remembers older entries, by which nobody is brought up to date any more but a resent request is
//! recognised.
//!
//! An OSD holds thousands of entries for each of its PGs: room for them grows in small steps, and the index holds places
//! rather than requests.
//!
//! Invariants: versions grow strictly; `tail` is the version before the first entry that counts; `head` is the newest
//! version that the PG has passed through, which after a split may be that of an entry that went to another PG; the
//! index names exactly the entries held that have a request, of several with the same one the newest.

use super::info::Totals;
use base::hash::FixedState;
use base::{EVersion, SnapId};
use bytes::Bytes;
use core::hash::BuildHasher;
use hashbrown::HashTable;
use std::collections::{BTreeSet, VecDeque};
use store::{ObjectId, Op, Transaction};
use wire::osd::OsdReqId;
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// What an operator made of an object of which no holder was left (`lost`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// It is as it was at this version.
    Reverted(EVersion),
    /// It is gone.
    Deleted,
}

impl Encode for Lost {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Lost::Reverted(to) => {
                e.u8(0);
                e.put(to);
            }
            Lost::Deleted => e.u8(1),
        }
    }
}

impl Decode for Lost {
    const MIN_BYTES: usize = 1;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.u8()? {
            0 => Ok(Lost::Reverted(d.get()?)),
            1 => Ok(Lost::Deleted),
            _ => Err(Malformed::new("lost object", "is nothing that it may be")),
        }
    }
}

/// One write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// Its place in the PG's history.
    pub version: EVersion,
    /// The version its object had before; zero for a new one.
    pub prior: EVersion,
    /// The object.
    pub object: ObjectId,
    /// Its clones that the write made, changed or removed.
    pub clones: Vec<SnapId>,
    /// Whether the write left no object; of a write aside, whether it gave up what there was.
    pub deletes: bool,
    /// Whether it changed nothing that anybody sees: it failed, or there was nothing to do, and it is here so that a
    /// resent request gets the same answer (Ceph's `ERROR` entries); or it wrote a part of a copy aside.
    pub changes_nothing: bool,
    /// Whose it is; nobody's for a write aside.
    pub reqid: OsdReqId,
    /// The user version it gave the object.
    pub user_version: u64,
    /// What the client was answered.
    pub result: i32,
    /// Results and outputs of its ops, where the client wanted them.
    pub outputs: Vec<(i32, Bytes)>,
    /// What the PG holds after it.
    pub totals: Totals,
    /// What the object was given up for; none for a write.
    pub lost: Option<Lost>,
}

/// What an entry's encoding begins with: a write, or what was given up.
const WRITE: u8 = 2;
const GIVEN_UP: u8 = 3;

impl Encode for LogEntry {
    fn encode(&self, e: &mut Encoder) {
        e.u8(if self.lost.is_some() { GIVEN_UP } else { WRITE });
        e.put(&self.version);
        e.put(&self.prior);
        e.put(&self.object);
        e.put(&self.clones);
        e.bool(self.deletes);
        e.bool(self.changes_nothing);
        e.put(&self.reqid);
        e.u64(self.user_version);
        e.i32(self.result);
        e.put(&self.outputs);
        e.put(&self.totals);
        if let Some(lost) = &self.lost {
            e.put(lost);
        }
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 118;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let format = d.u8()?;
        if !matches!(format, WRITE | GIVEN_UP) {
            return Err(Malformed::new("log entry", "has an unknown version"));
        }
        Ok(LogEntry {
            version: d.get()?,
            prior: d.get()?,
            object: d.get()?,
            clones: d.get()?,
            deletes: d.bool()?,
            changes_nothing: d.bool()?,
            reqid: d.get()?,
            user_version: d.u64()?,
            result: d.i32()?,
            outputs: d.get()?,
            totals: d.get()?,
            lost: if format == GIVEN_UP { Some(d.get()?) } else { None },
        })
    }
}

impl LogEntry {
    /// Whether it wrote a part of a copy aside, or gave such parts up.
    pub fn is_aside(&self) -> bool {
        self.changes_nothing && self.reqid == OsdReqId::default()
    }
}

/// The object of a PG's collection whose map holds the log.
pub fn log_object() -> ObjectId {
    ObjectId::record("log")
}

/// The key of an entry in the log object's map: big-endian, so that keys sort as versions do.
pub fn log_key(version: EVersion) -> Bytes {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&version.epoch.0.to_be_bytes());
    key[4..].copy_from_slice(&version.version.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

fn hash_of(reqid: &OsdReqId) -> u64 {
    FixedState::default().hash_one(reqid)
}

/// A PG's log.
#[derive(Clone, Debug, Default)]
pub struct PgLog {
    tail: EVersion,
    head: EVersion,
    /// All that are held, the remembered ones first.
    entries: VecDeque<LogEntry>,
    /// How many of them are only remembered.
    remembered: usize,
    /// How many have been forgotten before the first: with its place here, an entry's number for good.
    forgotten: u64,
    /// The entries' numbers by their requests.
    by_reqid: HashTable<u64>,
}

/// Of the entries that are held, this part more is made room for when there is none left.
const GROWTH: usize = 8;

impl PgLog {
    /// The log with these entries, remembered ones up to `tail` and those after it; refuses entries out of order.
    pub fn new(tail: EVersion, entries: Vec<LogEntry>) -> Result<PgLog, Malformed> {
        let mut log = PgLog { tail, head: tail, ..PgLog::default() };
        for entry in entries {
            if log.entries.back().is_some_and(|before| entry.version <= before.version) {
                return Err(Malformed::new("pg log", "has entries out of order"));
            }
            log.remembered += usize::from(entry.version <= tail);
            log.hold(entry);
        }
        Ok(log)
    }

    /// The same log, which leads to `head`; refuses one that leads beyond it.
    pub fn leading_to(self, head: EVersion) -> Result<PgLog, Malformed> {
        if self.head > head {
            return Err(Malformed::new("pg log", "leads beyond its record's last update"));
        }
        Ok(PgLog { head, ..self })
    }

    /// The newest version.
    pub fn head(&self) -> EVersion {
        self.head
    }

    /// The version before the oldest entry.
    pub fn tail(&self) -> EVersion {
        self.tail
    }

    /// The entries after the tail, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.range(self.remembered..)
    }

    /// All entries that are held, the remembered ones first.
    pub fn all(&self) -> &VecDeque<LogEntry> {
        &self.entries
    }

    /// How many entries there are after the tail.
    pub fn len(&self) -> usize {
        self.entries.len() - self.remembered
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the newest entry.
    pub fn append(&mut self, entry: LogEntry) {
        assert!(entry.version > self.head(), "callers give each write the next version");
        self.hold(entry);
    }

    fn hold(&mut self, entry: LogEntry) {
        let (number, reqid) = (self.forgotten + self.entries.len() as u64, entry.reqid);
        self.head = self.head.max(entry.version);
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(self.entries.len() / GROWTH + 1);
        }
        self.entries.push_back(entry);
        if reqid == OsdReqId::default() {
            return;
        }
        let (entries, forgotten) = (&self.entries, self.forgotten);
        let of = |number: &u64| entries[(number - forgotten) as usize].reqid;
        match self.by_reqid.find_mut(hash_of(&reqid), |held| of(held) == reqid) {
            Some(held) => *held = number,
            None => drop(self.by_reqid.insert_unique(hash_of(&reqid), number, |held| hash_of(&of(held)))),
        }
    }

    /// Lets the oldest entry go.
    fn forget(&mut self) -> Option<LogEntry> {
        let entry = self.entries.pop_front()?;
        if let Ok(held) = self.by_reqid.find_entry(hash_of(&entry.reqid), |number| *number == self.forgotten) {
            held.remove();
        }
        self.forgotten += 1;
        Some(entry)
    }

    /// The write that `reqid` led to, if it is remembered.
    pub fn find(&self, reqid: &OsdReqId) -> Option<&LogEntry> {
        let entry = |number: &u64| &self.entries[(number - self.forgotten) as usize];
        self.by_reqid.find(hash_of(reqid), |number| entry(number).reqid == *reqid).map(entry)
    }

    /// Whether this version is one of the entries, the one before them, or the newest.
    pub fn contains(&self, version: EVersion) -> bool {
        let is_entry = || self.entries.binary_search_by_key(&version, |entry| entry.version).is_ok();
        version == self.tail || version == self.head || version > self.tail && is_entry()
    }

    /// The entries after `version`.
    pub fn after(&self, version: EVersion) -> impl Iterator<Item = &LogEntry> {
        let start = self.entries.partition_point(|entry| entry.version <= version);
        self.entries.range(start.max(self.remembered)..)
    }

    /// The objects of which parts of copies may lie aside. An object is held while it is copied to, so its next entry
    /// that is not aside is the copy's own, which leaves nothing.
    pub fn left_aside(&self) -> BTreeSet<ObjectId> {
        let mut left = BTreeSet::new();
        for entry in self.entries() {
            if entry.is_aside() && !entry.deletes {
                left.insert(entry.object.clone());
            } else if !left.is_empty() {
                left.remove(&entry.object);
            }
        }
        left
    }

    /// Moves the tail to `to`, remembers as many of the entries before it as told, and appends to `transaction` what
    /// forgets the others on disk.
    pub fn trim(&mut self, to: EVersion, remember: usize, transaction: &mut Transaction) {
        while let Some(entry) = self.entries.get(self.remembered).filter(|entry| entry.version <= to) {
            self.tail = entry.version;
            self.remembered += 1;
        }
        let mut forgotten = None;
        while self.remembered > remember {
            let entry = self.forget().expect("those remembered are held");
            self.remembered -= 1;
            forgotten = Some(entry.version);
        }
        if let Some(last) = forgotten {
            let end = EVersion { version: last.version + 1, ..last };
            transaction.push(&log_object(), Op::OmapRemoveRange(log_key(EVersion::default()), log_key(end)));
        }
    }

    /// Where to trim to so that `keep` entries stay, if that forgets at least `batch` and nothing after `committed`.
    pub fn trim_point(&self, keep: usize, batch: usize, committed: EVersion) -> Option<EVersion> {
        let excess = self.len().checked_sub(keep).filter(|&n| n >= batch)?;
        let to = self.entries[self.remembered + excess - 1].version.min(committed);
        (to > self.tail).then_some(to)
    }

    /// Takes out the entries that are not wanted any more, and gives them.
    pub fn take_out(&mut self, wanted: impl Fn(&LogEntry) -> bool) -> Vec<LogEntry> {
        let all = core::mem::take(&mut self.entries);
        let (kept, out): (Vec<_>, Vec<_>) = all.into_iter().partition(|entry| wanted(entry));
        (self.remembered, self.by_reqid) = (0, HashTable::new());
        for entry in kept {
            self.remembered += usize::from(entry.version <= self.tail);
            self.hold(entry);
        }
        out
    }

    /// Sets what the PG holds after the newest write; gives that entry, if there is one.
    pub fn set_totals(&mut self, totals: Totals) -> Option<&LogEntry> {
        let newest = self.entries.back_mut()?;
        newest.totals = totals;
        Some(newest)
    }

    /// Writes the whole log in place of what the log object has.
    pub fn store(&self, t: &mut Transaction) {
        let object = log_object();
        t.push(&object, Op::Touch);
        t.push(&object, Op::OmapClear);
        let entries = self.entries.iter().map(|entry| (log_key(entry.version), entry.to_bytes())).collect();
        t.push(&object, Op::OmapSet(entries));
    }

    /// The newest version that both have passed through.
    pub fn common_point(&self, theirs: &PgLog) -> Option<EVersion> {
        let entries = self.entries().rev().map(|entry| entry.version);
        [self.head].into_iter().chain(entries).chain([self.tail]).find(|version| theirs.contains(*version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Epoch;
    use store::CollectionId;
    use wire::types::EntityName;

    fn entry(epoch: u32, version: u64, object: &str) -> LogEntry {
        LogEntry {
            version: EVersion::new(Epoch(epoch), version),
            prior: EVersion::default(),
            object: ObjectId::new(1, b"", b"", object.as_bytes(), SnapId::HEAD),
            clones: Vec::new(),
            deletes: false,
            changes_nothing: false,
            reqid: OsdReqId { name: EntityName::client(base::GlobalId(4)), tid: version, inc: epoch as i32 },
            user_version: version,
            result: 0,
            outputs: vec![(0, Bytes::from_static(b"out"))],
            totals: Totals { objects: version, clones: 0, bytes: 0 },
            lost: None,
        }
    }

    fn log(tail: (u32, u64), entries: &[(u32, u64, &str)]) -> PgLog {
        let entries = entries.iter().map(|(e, v, o)| entry(*e, *v, o)).collect();
        PgLog::new(EVersion::new(Epoch(tail.0), tail.1), entries).expect("in order")
    }

    fn names(objects: &BTreeSet<ObjectId>) -> Vec<String> {
        objects.iter().map(|o| String::from_utf8_lossy(o.name()).into_owned()).collect()
    }

    #[test]
    fn entries_round_trip_and_are_found_by_request() {
        let mut log = log((0, 0), &[(1, 1, "a"), (1, 2, "b"), (2, 3, "a")]);
        let e = entry(1, 2, "b");
        assert_eq!(LogEntry::from_bytes(&e.to_bytes()), Ok(e.clone()));
        for lost in [Lost::Deleted, Lost::Reverted(EVersion::new(Epoch(7), 9))] {
            let e = LogEntry { lost: Some(lost), ..e.clone() };
            assert_eq!(LogEntry::from_bytes(&e.to_bytes()), Ok(e));
        }
        assert_eq!(log.find(&e.reqid), Some(&e));
        let mut t = Transaction::new(CollectionId::Meta);
        log.trim(EVersion::new(Epoch(1), 1), 2, &mut t);
        log.trim(e.version, 2, &mut t);
        assert_eq!((log.find(&e.reqid), log.tail(), log.len()), (Some(&e), e.version, 1));
        assert!(!log.contains(EVersion::new(Epoch(1), 1)), "what is remembered brings nobody up to date");
        let again = PgLog::new(log.tail(), log.all().iter().cloned().collect()).expect("in order");
        assert_eq!((again.len(), again.find(&e.reqid), again.head()), (1, Some(&e), log.head()));
        assert!(t.ops.is_empty());
        log.trim(e.version, 0, &mut t);
        assert_eq!((log.find(&e.reqid), log.tail(), log.len()), (None, e.version, 1));
        let range = Op::OmapRemoveRange(log_key(EVersion::default()), log_key(EVersion::new(Epoch(1), 3)));
        assert_eq!(t.ops, [(0, range)]);
        assert!(log_key(EVersion::new(Epoch(1), 300)) < log_key(EVersion::new(Epoch(2), 3)));
    }

    #[test]
    fn of_a_request_that_came_twice_the_newest_is_found_while_it_is_held() {
        let twice = |version| LogEntry { reqid: entry(1, 1, "a").reqid, ..entry(1, version, "a") };
        let mut log = PgLog::default();
        (1..=300).for_each(|version| log.append(entry(1, version, "a")));
        log.append(twice(301));
        let found = |log: &PgLog, reqid: &OsdReqId| log.find(reqid).map(|entry| entry.version.version);
        let (first, second) = (entry(1, 1, "a").reqid, entry(1, 2, "b").reqid);
        assert_eq!((found(&log, &first), found(&log, &second)), (Some(301), Some(2)));
        let mut t = Transaction::new(CollectionId::Meta);
        log.trim(EVersion::new(Epoch(1), 2), 0, &mut t);
        assert_eq!((found(&log, &first), found(&log, &second)), (Some(301), None));
        assert!((3..=300).all(|n| found(&log, &entry(1, n, "").reqid) == Some(n)));
        assert!(log.entries.capacity() < 400);
        log.trim(log.head(), 0, &mut t);
        assert_eq!((found(&log, &first), log.by_reqid.len()), (None, 0));
    }

    #[test]
    fn entries_out_of_order_are_refused() {
        assert!(PgLog::new(EVersion::default(), vec![entry(2, 2, "a"), entry(1, 3, "b")]).is_err());
        assert!(log((1, 1), &[(2, 2, "a")]).leading_to(EVersion::new(Epoch(2), 1)).is_err());
    }

    #[test]
    fn parts_whose_entries_went_elsewhere_still_meet_at_the_newest() {
        let head = EVersion::new(Epoch(2), 9);
        let part = |tail| log(tail, &[]).leading_to(head).expect("nothing is beyond it");
        let (short, long) = (part((1, 7)), part((1, 3)));
        assert_eq!(short.common_point(&long), Some(head));
        let mut divided = log((1, 3), &[(1, 4, "a"), (2, 9, "b")]);
        divided.take_out(|entry| entry.version.version == 4);
        assert_eq!((divided.head(), divided.len()), (head, 1));
        assert_eq!(log((1, 3), &[(1, 4, "a")]).common_point(&divided), Some(EVersion::new(Epoch(1), 4)));
    }

    #[test]
    fn what_lies_aside_is_known_from_the_log() {
        let aside = |version, object, deletes| {
            let reqid = OsdReqId::default();
            LogEntry { changes_nothing: true, reqid, deletes, ..entry(1, version, object) }
        };
        let entries = vec![
            aside(1, "put in place", false),
            aside(2, "put in place", false),
            aside(3, "given up", false),
            entry(1, 4, "put in place"),
            aside(5, "given up", true),
            aside(6, "left", false),
            entry(1, 7, "other"),
        ];
        let log = PgLog::new(EVersion::default(), entries).expect("in order");
        assert_eq!(names(&log.left_aside()), ["left"]);
    }

    #[test]
    fn trimming_keeps_what_is_not_committed_everywhere() {
        let l = log((0, 0), &[(1, 1, "a"), (1, 2, "a"), (1, 3, "a"), (1, 4, "a")]);
        let v = |n| EVersion::new(Epoch(1), n);
        assert_eq!(l.trim_point(2, 1, v(4)), Some(v(2)));
        assert_eq!(l.trim_point(2, 1, v(1)), Some(v(1)));
        assert_eq!(l.trim_point(2, 1, EVersion::default()), None);
        assert_eq!(l.trim_point(2, 3, v(4)), None);
    }
}
