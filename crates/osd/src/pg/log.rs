//! A PG's log: its newest writes, in order, and by request.
//!
//! Owns the order of the entries, and that a resent request is recognised. Its counterpart in Ceph is
//! `pg_log_t` (v16.2 `src/osd/PGLog.h`), without rollback. Read next: `entry`, `packed`, `missing`.
//!
//! Beyond its tail it remembers older entries, by which nobody is brought up to date any more but a resent request is
//! recognised.
//!
//! An OSD holds thousands of entries for each of its PGs: they are packed, and of their requests only marks lie beside.
//!
//! Invariants: versions grow strictly; `tail` is the version before the first entry that counts; `head` is the newest
//! version that the PG has passed through, which after a split may be that of an entry that went to another PG; of
//! several entries with the same request the newest is found.

mod entry;
mod packed;
mod requests;

pub use entry::{LogEntry, Lost};
pub use packed::Packed;

use super::info::Totals;
use base::EVersion;
use bytes::Bytes;
use packed::PackedEntries;
use requests::Requests;
use std::collections::BTreeSet;
use store::{ObjectId, Op, Transaction};
use wire::osd::OsdReqId;
use wire::{Encode, Malformed};

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

/// A PG's log.
#[derive(Clone, Debug, Default)]
pub struct PgLog {
    tail: EVersion,
    head: EVersion,
    /// All that are held, the remembered ones first.
    entries: PackedEntries,
    /// How many of them are only remembered.
    remembered: usize,
    /// By which request each of them came.
    requests: Requests,
}

impl PgLog {
    /// The log with these entries, remembered ones up to `tail` and those after it; refuses entries out of order.
    pub fn new(tail: EVersion, entries: Vec<LogEntry>) -> Result<PgLog, Malformed> {
        let mut log = PgLog { tail, head: tail, ..PgLog::default() };
        let mut last = None;
        for entry in entries {
            if last.replace(entry.version).is_some_and(|before| entry.version <= before) {
                return Err(Malformed::new("pg log", "has entries out of order"));
            }
            log.remembered += usize::from(entry.version <= tail);
            log.hold(&entry);
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
    pub fn entries(&self) -> impl Iterator<Item = Packed<'_>> {
        self.entries.iter_from(self.remembered)
    }

    /// All entries that are held, the remembered ones first.
    pub fn all(&self) -> impl Iterator<Item = Packed<'_>> {
        self.entries.iter_from(0)
    }

    /// The newest entry that is held.
    pub fn newest(&self) -> Option<LogEntry> {
        Some(self.entries.get(self.entries.len().checked_sub(1)?).open())
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.requests.bytes()
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
    pub fn append(&mut self, entry: &LogEntry) {
        assert!(entry.version > self.head(), "callers give each write the next version");
        self.hold(entry);
    }

    fn hold(&mut self, entry: &LogEntry) {
        self.head = self.head.max(entry.version);
        self.entries.push_back(entry);
        self.requests.push_back(&entry.reqid);
    }

    /// Lets the oldest entry go; gives its version.
    fn forget(&mut self) -> Option<EVersion> {
        self.requests.pop_front();
        self.entries.pop_front()
    }

    /// The write that `reqid` led to, if it is remembered: of several the newest.
    pub fn find(&self, reqid: &OsdReqId) -> Option<LogEntry> {
        let mut may_be = self.requests.may_have(reqid).map(|at| self.entries.get(at));
        may_be.find(|entry| entry.reqid() == *reqid).map(|entry| entry.open())
    }

    /// Whether this version is one of the entries, the one before them, or the newest.
    pub fn contains(&self, version: EVersion) -> bool {
        version == self.tail || version == self.head || version > self.tail && self.entry_of(version).is_some()
    }

    /// The entry of this version, if it is held.
    pub fn entry_of(&self, version: EVersion) -> Option<Packed<'_>> {
        let last = self.entries.up_to(version).checked_sub(1)?;
        Some(self.entries.get(last)).filter(|entry| entry.version() == version)
    }

    /// The entries after `version`.
    pub fn after(&self, version: EVersion) -> impl Iterator<Item = Packed<'_>> {
        self.entries.iter_from(self.entries.up_to(version).max(self.remembered))
    }

    /// The objects of which parts of copies may lie aside. An object is held while it is copied to, so its next entry
    /// that is not aside is the copy's own, which leaves nothing.
    pub fn left_aside(&self) -> BTreeSet<ObjectId> {
        let mut left = BTreeSet::new();
        for packed in self.entries() {
            let aside = packed.is_aside();
            if !aside && left.is_empty() {
                continue;
            }
            let entry = packed.open();
            if aside && !entry.deletes {
                left.insert(entry.object);
            } else {
                left.remove(&entry.object);
            }
        }
        left
    }

    /// Moves the tail to `to`, remembers as many of the entries before it as told, and appends to `transaction` what
    /// forgets the others on disk.
    pub fn trim(&mut self, to: EVersion, remember: usize, transaction: &mut Transaction) {
        let passed = self.entries().map(|entry| entry.version()).take_while(|version| *version <= to);
        let (count, last) = passed.fold((0, self.tail), |(count, _), version| (count + 1, version));
        self.remembered += count;
        self.tail = last;
        let mut forgotten = None;
        while self.remembered > remember {
            forgotten = self.forget();
            self.remembered -= 1;
        }
        if let Some(last) = forgotten {
            let end = EVersion { version: last.version + 1, ..last };
            transaction.push(&log_object(), Op::OmapRemoveRange(log_key(EVersion::default()), log_key(end)));
        }
    }

    /// Where to trim to so that `keep` entries stay, if that forgets at least `batch` and nothing after `committed`.
    pub fn trim_point(&self, keep: usize, batch: usize, committed: EVersion) -> Option<EVersion> {
        let excess = self.len().checked_sub(keep).filter(|&n| n >= batch)?;
        let to = self.entries.get(self.remembered + excess - 1).version().min(committed);
        (to > self.tail).then_some(to)
    }

    /// Takes out the entries that are not wanted any more, and gives them.
    pub fn take_out(&mut self, wanted: impl Fn(&LogEntry) -> bool) -> Vec<LogEntry> {
        let all = core::mem::take(&mut self.entries);
        (self.remembered, self.requests) = (0, Requests::default());
        let mut out = Vec::new();
        for entry in all.iter_from(0).map(|entry| entry.open()) {
            if wanted(&entry) {
                self.remembered += usize::from(entry.version <= self.tail);
                self.hold(&entry);
            } else {
                out.push(entry);
            }
        }
        out
    }

    /// Sets what the PG holds after the newest write; gives that entry, if there is one.
    pub fn set_totals(&mut self, totals: Totals) -> Option<LogEntry> {
        let newest = LogEntry { totals, ..self.entries.pop_back()? };
        self.entries.push_back(&newest);
        Some(newest)
    }

    /// Writes the whole log in place of what the log object has.
    pub fn store(&self, t: &mut Transaction) {
        let object = log_object();
        t.push(&object, Op::Touch);
        t.push(&object, Op::OmapClear);
        let entries = self.all().map(|entry| (log_key(entry.version()), entry.open().to_bytes())).collect();
        t.push(&object, Op::OmapSet(entries));
    }

    /// The newest version that both have passed through.
    pub fn common_point(&self, theirs: &PgLog) -> Option<EVersion> {
        if theirs.contains(self.head) {
            return Some(self.head);
        }
        let shared = self.entries.newest_of(self.remembered, |entry| theirs.contains(entry.version()));
        let shared = shared.map_or(self.tail, |entry| entry.version());
        theirs.contains(shared).then_some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Epoch, SnapId};
    use store::CollectionId;
    use wire::Decode;
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
        assert_eq!(log.find(&e.reqid), Some(e.clone()));
        let mut t = Transaction::new(CollectionId::Meta);
        log.trim(EVersion::new(Epoch(1), 1), 2, &mut t);
        log.trim(e.version, 2, &mut t);
        assert_eq!((log.find(&e.reqid), log.tail(), log.len()), (Some(e.clone()), e.version, 1));
        assert!(!log.contains(EVersion::new(Epoch(1), 1)), "what is remembered brings nobody up to date");
        let again = PgLog::new(log.tail(), log.all().map(|entry| entry.open()).collect()).expect("in order");
        assert_eq!((again.len(), again.find(&e.reqid), again.head()), (1, Some(e.clone()), log.head()));
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
        (1..=300).for_each(|version| log.append(&entry(1, version, "a")));
        log.append(&twice(301));
        let found = |log: &PgLog, reqid: &OsdReqId| log.find(reqid).map(|entry| entry.version.version);
        let (first, second) = (entry(1, 1, "a").reqid, entry(1, 2, "b").reqid);
        assert_eq!((found(&log, &first), found(&log, &second)), (Some(301), Some(2)));
        let mut t = Transaction::new(CollectionId::Meta);
        log.trim(EVersion::new(Epoch(1), 2), 0, &mut t);
        assert_eq!((found(&log, &first), found(&log, &second)), (Some(301), None));
        assert!((3..=300).all(|n| found(&log, &entry(1, n, "").reqid) == Some(n)));
        log.trim(log.head(), 0, &mut t);
        assert_eq!((found(&log, &first), log.all().count()), (None, 0));
    }

    #[test]
    fn a_write_that_is_remembered_takes_some_twenty_bytes() {
        let (mut log, mut t) = (PgLog::default(), Transaction::new(CollectionId::Meta));
        for version in 1..=30_000 {
            let usual = entry(3, version, &format!("rbd_data.10226b8b4567.{:016x}", version * 7 % 128));
            let totals = Totals { objects: 128, clones: 0, bytes: 128 << 22 };
            let prior = EVersion::new(Epoch(3), version.saturating_sub(100));
            log.append(&LogEntry { outputs: Vec::new(), prior, totals, ..usual });
            log.trim(EVersion::new(Epoch(3), version.saturating_sub(2000)), 3000, &mut t);
        }
        let each = log.bytes() / 5000;
        assert!((15..24).contains(&each), "{each} bytes");
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
