//! What a holder of a PG lacks although its log tells of it: the missing set, kept on disk beside the log.
//!
//! Objects are missing as a whole, under their head's name: a request never sees a head of one version beside clones of
//! another. What has to be copied of one is noted (`Need`): the clones that the writes touched, or all of them.
//!
//! Owns the record object whose map is the set, the encoding of its entries (ours, version 2; it reads version 1), and the comparison of
//! two logs that says what a holder lacks once it takes the other as its own. Its counterpart in Ceph is
//! `pg_missing_t` (v16.2 `src/osd/osd_types.h`) with `PGLog::merge_log`; nothing is rolled back here: what an
//! abandoned write changed is copied from a holder where it was never changed.
//!
//! Invariant: the set in memory is the one on disk after the transactions submitted so far.

use super::log::{LogEntry, Lost, PgLog};
use base::{Bug, EVersion, SnapId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::{HashRange, ObjectId, Op, Transaction};
use wire::{Decode, Decoder, Encode, Encoder, Malformed};

/// What is to be had of a missing object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Need {
    /// The version of its head; zero where it never was: nothing shall be left of it.
    pub version: EVersion,
    /// Whether that version may be that there is no object.
    pub deletes: bool,
    /// The clones that differ beside the head; none for all that the head tells of.
    pub clones: Option<BTreeSet<SnapId>>,
    /// The version of the history that all agree on at which the object is here meanwhile, whole and with its clones;
    /// zero where it is not here, or is what no log tells of.
    pub have: EVersion,
    /// That version is not a write's: it was given up for this.
    pub lost: Option<Lost>,
}

impl Need {
    /// Everything of an object at this version.
    pub fn whole(version: EVersion, deletes: bool) -> Need {
        Need { version, deletes, ..Need::default() }
    }

    /// What this write changed.
    pub fn of(entry: &LogEntry) -> Need {
        // What was lost may have touched any of them.
        let clones = entry.lost.is_none().then(|| entry.clones.iter().copied().collect());
        Need { version: entry.version, deletes: entry.deletes, clones, have: entry.prior, lost: entry.lost }
    }

    /// What was there before this write, in place of what it changed.
    fn before(entry: &LogEntry) -> Need {
        let (deletes, have) = (entry.prior == EVersion::default(), EVersion::default());
        Need { version: entry.prior, deletes, have, lost: None, ..Need::of(entry) }
    }

    /// Whether what is here is what the object was reverted to.
    pub fn is_here(&self) -> bool {
        matches!(self.lost, Some(Lost::Reverted(to)) if to == self.have)
    }

    /// The version that it was given up for; zero where it was not, or nothing is left of it.
    pub fn reverted_to(&self) -> EVersion {
        match self.lost {
            Some(Lost::Reverted(to)) => to,
            _ => EVersion::default(),
        }
    }

    /// Whether nobody is needed to come by it.
    pub fn needs_nobody(&self) -> bool {
        self.is_here() || self.lost == Some(Lost::Deleted)
    }

    /// Whether the newest write may have left nothing, and its holder may know that by itself.
    pub fn may_be_nothing(&self) -> bool {
        let untouched = self.clones.as_ref().is_some_and(BTreeSet::is_empty);
        self.deletes && (untouched || self.version == EVersion::default())
    }

    /// Whether an object at this version is what is wanted.
    pub fn is_met_by(&self, version: EVersion) -> bool {
        self.version == version || self.lost == Some(Lost::Reverted(version))
    }

    /// This in place of `older`, of which nothing was copied.
    fn after(mut self, older: &Need) -> Need {
        self.clones = match (self.clones, &older.clones) {
            (Some(mut clones), Some(older)) => {
                clones.extend(older);
                Some(clones)
            }
            _ => None,
        };
        self.have = older.have;
        self
    }
}

impl Encode for Need {
    fn encode(&self, e: &mut Encoder) {
        e.u8(2);
        e.put(&self.version);
        e.bool(self.deletes);
        e.bool(self.clones.is_some());
        e.put(&self.clones.iter().flatten().copied().collect::<Vec<SnapId>>());
        e.put(&self.have);
        e.put(&self.lost);
    }
}

impl Decode for Need {
    const MIN_BYTES: usize = 19;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let format = d.u8()?;
        if !matches!(format, 1 | 2) {
            return Err(Malformed::new("missing object", "has an unknown version"));
        }
        let (version, deletes, some) = (d.get()?, d.bool()?, d.bool()?);
        let clones: Vec<SnapId> = d.get()?;
        let (have, lost) = if format == 2 { (d.get()?, d.get()?) } else { Default::default() };
        Ok(Need { version, deletes, clones: some.then(|| clones.into_iter().collect()), have, lost })
    }
}

/// The object of a PG's collection whose map is the missing set.
pub fn missing_object() -> ObjectId {
    ObjectId::record("missing")
}

/// A missing set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Missing {
    objects: BTreeMap<ObjectId, Need>,
}

impl Missing {
    /// Reads what was kept, or sent.
    pub fn read(entries: &[(Bytes, Bytes)]) -> Result<Missing, Malformed> {
        let one = |(head, need): &(Bytes, Bytes)| Ok((ObjectId::from_bytes(head)?, Need::from_bytes(need)?));
        Ok(Missing { objects: entries.iter().map(one).collect::<Result<_, Malformed>>()? })
    }

    /// The set as it is sent.
    pub fn to_entries(&self) -> Vec<(Bytes, Bytes)> {
        self.objects.iter().map(|(head, need)| (head.to_bytes(), need.to_bytes())).collect()
    }

    /// How many objects are missing.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What is to be had of an object, if it is missing.
    pub fn get(&self, head: &ObjectId) -> Option<&Need> {
        self.objects.get(head)
    }

    /// Whether an object is missing.
    pub fn contains(&self, head: &ObjectId) -> bool {
        self.objects.contains_key(head)
    }

    /// The objects, in order.
    pub fn heads(&self) -> impl Iterator<Item = &ObjectId> {
        self.objects.keys()
    }

    /// The objects with what is to be had of them.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectId, &Need)> {
        self.objects.iter()
    }

    /// Adds an object, or what else is to be had of one.
    pub fn add(&mut self, head: ObjectId, need: Need) {
        let need = match self.objects.get(&head) {
            Some(older) => need.after(older),
            None => need,
        };
        self.objects.insert(head, need);
    }

    /// The same, on disk as well.
    pub fn add_and_store(&mut self, head: ObjectId, need: Need, t: &mut Transaction) {
        let key = head.to_bytes();
        self.add(head.clone(), need);
        if Bug::MissingNotKept.is_planted() {
            return;
        }
        t.push(&missing_object(), Op::OmapSet(vec![(key, self.objects[&head].to_bytes())]));
    }

    /// Takes an object out that is there now.
    pub fn remove(&mut self, head: &ObjectId) -> bool {
        self.objects.remove(head).is_some()
    }

    /// The same, on disk as well.
    pub fn remove_and_store(&mut self, head: &ObjectId, t: &mut Transaction) {
        if self.remove(head) {
            t.push(&missing_object(), Op::OmapRemove(vec![head.to_bytes()]));
        }
    }

    /// Takes out the objects of a range, and gives the set of them.
    pub fn take_range(&mut self, range: HashRange) -> Missing {
        let mut rest = self.objects.split_off(&HashRange::start(range.first()));
        if let Some(next) = range.last().checked_add(1) {
            self.objects.append(&mut rest.split_off(&HashRange::start(next)));
        }
        Missing { objects: rest }
    }

    /// Forgets everything, on disk as well.
    pub fn clear_and_store(&mut self, t: &mut Transaction) {
        if !core::mem::take(&mut self.objects).is_empty() {
            t.push(&missing_object(), Op::OmapClear);
        }
    }

    /// The newest version up to which nothing is missing (`last_complete`), in this log.
    pub fn last_complete(&self, log: &PgLog) -> EVersion {
        let lacks = |entry: &LogEntry| self.get(&entry.object).is_some_and(|need| need.version <= entry.version);
        let below_log = self.objects.values().any(|need| need.version <= log.tail());
        if below_log {
            return EVersion::default();
        }
        let complete = log.entries().take_while(|entry| !lacks(&entry.open())).last();
        complete.map_or(log.tail(), |entry| entry.version())
    }
}

/// What a holder with the log `ours` lacks once `theirs` is its log: objects of writes that it alone has, and of those
/// that it does not have. None where the logs do not touch.
pub fn differing(ours: &PgLog, theirs: &PgLog) -> Option<BTreeMap<ObjectId, Need>> {
    let common = ours.common_point(theirs)?;
    let mut lacks: BTreeMap<ObjectId, Need> = BTreeMap::new();
    let mut note = |entry: &LogEntry, need: Need| {
        if let Some(known) = lacks.get_mut(&entry.object) {
            *known = need.after(known);
        } else {
            lacks.insert(entry.object.clone(), need);
        }
    };
    // From the newest to the oldest, so that what was before the oldest of them stays.
    fn since(log: &PgLog, version: EVersion) -> impl Iterator<Item = LogEntry> {
        log.after(version).map(|entry| entry.open()).filter(|entry| !entry.changes_nothing)
    }
    if !Bug::DivergentKept.is_planted() {
        let ours: Vec<LogEntry> = since(ours, common).collect();
        ours.iter().rev().for_each(|entry| note(entry, Need::before(entry)));
    }
    since(theirs, common).for_each(|entry| note(&entry, Need::of(&entry)));
    Some(lacks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::info::Totals;
    use base::Epoch;
    use store::CollectionId;
    use wire::osd::OsdReqId;

    fn v(epoch: u32, version: u64) -> EVersion {
        EVersion::new(Epoch(epoch), version)
    }

    fn object(name: &str) -> ObjectId {
        ObjectId::new(1, b"", b"", name.as_bytes(), SnapId::HEAD)
    }

    fn entry(version: EVersion, name: &str, prior: EVersion, clones: &[u64]) -> LogEntry {
        LogEntry {
            version,
            prior,
            object: object(name),
            clones: clones.iter().copied().map(SnapId).collect(),
            deletes: false,
            changes_nothing: false,
            reqid: OsdReqId::default(),
            user_version: version.version,
            result: 0,
            outputs: Vec::new(),
            totals: Totals::default(),
            lost: None,
        }
    }

    fn log(tail: EVersion, entries: Vec<LogEntry>) -> PgLog {
        PgLog::new(tail, entries).expect("in order")
    }

    #[test]
    fn what_is_lacking_is_what_only_one_of_two_logs_has() {
        let start = EVersion::default();
        let common = entry(v(1, 2), "a", start, &[]);
        let ours = log(
            v(1, 1),
            vec![
                common.clone(),
                entry(v(1, 3), "old", v(1, 1), &[7]),
                entry(v(1, 4), "old", v(1, 3), &[8]),
                entry(v(1, 5), "new", start, &[]),
            ],
        );
        let failed = LogEntry { changes_nothing: true, ..entry(v(4, 4), "x", start, &[]) };
        let theirs = log(v(1, 1), vec![common, entry(v(4, 3), "a", v(1, 2), &[9]), failed]);
        let lacks = differing(&ours, &theirs).expect("they touch");
        let need = |version, deletes, clones: &[u64], have| Need {
            version,
            deletes,
            clones: Some(clones.iter().copied().map(SnapId).collect()),
            have,
            lost: None,
        };
        let expected = [
            (object("a"), need(v(4, 3), false, &[9], v(1, 2))),
            (object("new"), need(start, true, &[], start)),
            (object("old"), need(v(1, 1), false, &[7, 8], start)),
        ];
        assert_eq!(lacks.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(differing(&ours, &ours), Some(BTreeMap::new()));
        assert_eq!(differing(&ours, &log(v(4, 9), vec![])), None, "logs that do not touch say nothing");
    }

    #[test]
    fn the_set_is_kept_and_read_again() {
        let mut missing = Missing::default();
        let mut t = Transaction::new(CollectionId::Meta);
        missing.add_and_store(object("a"), Need::of(&entry(v(1, 3), "a", v(1, 1), &[5])), &mut t);
        missing.add_and_store(object("a"), Need::of(&entry(v(1, 4), "a", v(1, 3), &[6])), &mut t);
        missing.add_and_store(object("b"), Need::whole(v(1, 2), false), &mut t);
        let Some((_, Op::OmapSet(last))) = t.ops.get(1) else { panic!("{t:?}") };
        let read = Missing::read(last).expect("our own");
        assert_eq!(read.get(&object("a")), missing.get(&object("a")));
        assert_eq!(missing.get(&object("a")).and_then(|n| n.clones.as_ref()).map(BTreeSet::len), Some(2));
        assert_eq!(Missing::read(&missing.to_entries()), Ok(missing.clone()));
        missing.add(object("b"), Need::of(&entry(v(1, 9), "b", v(1, 2), &[5])));
        assert_eq!(missing.get(&object("b")), Some(&Need::whole(v(1, 9), false)), "all stays all");
        let reverted = LogEntry { lost: Some(Lost::Reverted(v(1, 1))), ..entry(v(2, 5), "a", v(1, 4), &[]) };
        missing.add_and_store(object("a"), Need::of(&reverted), &mut t);
        let need = missing.get(&object("a")).cloned().expect("it is missing");
        assert!(need.clones.is_none() && need.have == v(1, 1) && need.is_here() && need.is_met_by(v(1, 1)));
        assert_eq!(Need::from_bytes(&need.to_bytes()), Ok(need));
        missing.add(object("a"), Need::of(&entry(v(2, 6), "a", v(2, 5), &[])));
        assert!(missing.get(&object("a")).is_some_and(|need| !need.needs_nobody() && !need.is_met_by(v(1, 1))));
        missing.remove_and_store(&object("a"), &mut t);
        assert_eq!(t.ops.last(), Some(&(0, Op::OmapRemove(vec![object("a").to_bytes()]))));
        missing.clear_and_store(&mut t);
        assert!(missing.is_empty() && t.ops.last() == Some(&(0, Op::OmapClear)));
    }

    #[test]
    fn complete_is_what_comes_before_the_first_gap() {
        let start = EVersion::default();
        let log = log(start, (1..5).map(|n| entry(v(1, n), &n.to_string(), start, &[])).collect());
        let mut missing = Missing::default();
        assert_eq!(missing.last_complete(&log), v(1, 4));
        missing.add(object("3"), Need::whole(v(1, 3), false));
        assert_eq!(missing.last_complete(&log), v(1, 2));
        missing.add(object("9"), Need::whole(start, true));
        assert_eq!(missing.last_complete(&log), start);
    }
}
