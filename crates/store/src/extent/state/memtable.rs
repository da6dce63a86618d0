//! The changes to the metadata tree that no checkpoint has taken up yet.
//!
//! Owns their form: entries by key, and ranges of keys that are removed from what lies below. An entry counts more
//! than a removed range, a range more than the tree.
//!
//! Invariants: ranges neither overlap nor touch; an entry inside a range was made after the range was removed.

use crate::extent::layout::BLOCK;
use crate::extent::objects::object::Object;
use crate::extent::tree::key::Key;
use bytes::Bytes;
use core::borrow::Borrow;
use core::ops::Bound;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::sync::Arc;
use wire::Encoder;

/// Chunks of an object's map whose encoding fills a block: each has a checksum of 4 bytes for each of 64 blocks, and
/// runs.
const CHUNKS_A_BLOCK: u64 = 12;

/// What an entry takes beside its key and value: its place in the map, and what the allocator rounds up.
const ENTRY_OVERHEAD: usize = 152;

/// What a key has.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// An object; encoded when it goes to the tree.
    Object(Arc<Object>),
    /// A value as it is.
    Raw(Bytes),
    /// Nothing, whatever the tree says.
    Gone,
}

impl Entry {
    /// About how many blocks the value takes; none where a page of the usual size holds several.
    fn large_blocks(&self) -> u64 {
        match self {
            Entry::Object(object) => object.blocks.chunks_held() as u64 / CHUNKS_A_BLOCK,
            Entry::Raw(value) => value.len() as u64 / BLOCK,
            Entry::Gone => 0,
        }
    }

    /// The bytes of memory it takes with its key, about. Objects share with those before them what has not changed.
    fn held_bytes(&self, key: &Key) -> usize {
        let value = match self {
            Entry::Object(object) => object.held_bytes(),
            Entry::Raw(value) => value.len(),
            Entry::Gone => 0,
        };
        ENTRY_OVERHEAD + key.len() + value
    }

    /// The value for the tree; none where there is none.
    pub(crate) fn value(&self) -> Option<Bytes> {
        match self {
            Entry::Object(object) => {
                let mut e = Encoder::with_capacity(object.held_bytes());
                object.encode(&mut e);
                Some(e.finish())
            }
            Entry::Raw(value) => Some(value.clone()),
            Entry::Gone => None,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    puts: BTreeMap<Key, Entry>,
    ranges: BTreeMap<Key, Key>,
    /// Blocks that large values take beyond a page of the usual size; those of values since replaced included.
    large_blocks: u64,
    bytes: usize,
}

/// What a memtable says of a key.
pub(crate) enum Said<'a> {
    /// This entry.
    Entry(&'a Entry),
    /// The key lies in a removed range.
    Removed,
    /// Nothing.
    Nothing,
}

impl Memtable {
    pub(crate) fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.ranges.is_empty()
    }

    pub(crate) fn look<K: Ord + AsRef<[u8]> + ?Sized>(&self, key: &K) -> Said<'_>
    where
        Key: Borrow<K>,
    {
        match self.puts.get(key) {
            Some(entry) => Said::Entry(entry),
            None if self.removes(key.as_ref()) => Said::Removed,
            None => Said::Nothing,
        }
    }

    /// Whether the key lies in a removed range.
    pub(crate) fn removes(&self, key: &[u8]) -> bool {
        !self.ranges.is_empty() && self.removed_from(key).next().is_some_and(|(first, _)| &**first <= key)
    }

    /// Whether every key from `first` up to, without, `end` lies in a removed range.
    pub(crate) fn removes_all(&self, first: &[u8], end: &[u8]) -> bool {
        self.removed_from(first).next().is_some_and(|(from, to)| &**from <= first && &**to >= end)
    }

    /// The removed ranges that end behind a key, in order.
    pub(crate) fn removed_from(&self, key: &[u8]) -> impl Iterator<Item = (&Key, &Key)> {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        let behind = self.ranges.range::<[u8], _>((Bound::Excluded(key), Bound::Unbounded));
        before.filter(|(_, end)| &***end > key).into_iter().chain(behind)
    }

    pub(crate) fn put(&mut self, key: Key, entry: Entry) {
        let (large, grows) = (entry.large_blocks(), matches!(entry, Entry::Raw(_)));
        self.bytes += entry.held_bytes(&key);
        let at = self.puts.entry(key);
        let before = match at {
            MapEntry::Occupied(mut at) => {
                self.bytes -= at.get().held_bytes(at.key());
                Some(at.insert(entry))
            }
            MapEntry::Vacant(at) => {
                at.insert(entry);
                None
            }
        };
        if before.is_none() || grows {
            self.large_blocks += large;
        }
    }

    /// Takes an object out that is to be put back, changed or not: meanwhile its key has nothing.
    pub(crate) fn take_object(&mut self, key: &Key) -> Option<Arc<Object>> {
        let entry = self.puts.get_mut(key).filter(|entry| matches!(entry, Entry::Object(_)))?;
        let Entry::Object(object) = core::mem::replace(entry, Entry::Gone) else { return None };
        self.bytes -= object.held_bytes();
        Some(object)
    }

    /// Blocks that its entries may need as pages, at the most.
    pub(crate) fn blocks_at_stake(&self) -> u64 {
        4 * self.len() as u64 + self.large_blocks
    }

    /// Removes the keys from `first` up to, without, `end`.
    pub(crate) fn remove_range(&mut self, mut first: Key, mut end: Key) {
        if first >= end {
            return;
        }
        while let Some((key, _)) = self.puts.range::<[u8], _>((Bound::Included(&*first), Bound::Excluded(&*end))).next()
        {
            let key = key.clone();
            if let Some(entry) = self.puts.remove(&key) {
                self.bytes -= entry.held_bytes(&key);
            }
        }
        // Join with those that overlap or touch.
        while let Some((start, stop)) =
            self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*end))).next_back()
        {
            if *stop < first {
                break;
            }
            let start = start.clone();
            let stop = self.ranges.remove(&start).expect("it was just found");
            first = first.min(start);
            end = end.max(stop);
        }
        self.ranges.insert(first, end);
    }

    /// The entries from a key on, in order.
    pub(crate) fn entries_from(&self, key: Bound<&[u8]>) -> impl Iterator<Item = (&Key, &Entry)> {
        self.puts.range::<[u8], _>((key, Bound::Unbounded))
    }

    /// The first key at or after `from` that has an entry or lies in a removed range.
    pub(crate) fn next_change(&self, from: &[u8]) -> Option<Key> {
        if self.removes(from) {
            return Some(from.into());
        }
        let bound = (Bound::Included(from), Bound::Unbounded);
        let put = self.puts.range::<[u8], _>(bound).next().map(|(key, _)| key);
        let range = self.ranges.range::<[u8], _>(bound).next().map(|(key, _)| key);
        put.into_iter().chain(range).min().cloned()
    }

    /// The bytes of memory that its entries take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.puts.len() + self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::collections::BTreeSet;

    fn key(n: u64) -> Key {
        vec![n as u8].into()
    }

    #[test]
    fn ranges_join_and_entries_made_later_stay() {
        let mut rng = Rng::new(3);
        for _ in 0..300 {
            let (mut table, mut removed, mut put) = (Memtable::default(), BTreeSet::new(), BTreeSet::new());
            for _ in 0..12 {
                let (a, b) = (rng.below(60), rng.below(60));
                if rng.chance(1, 2) {
                    table.remove_range(key(a), key(b));
                    removed.extend(a..b);
                    put.retain(|k| *k < a || *k >= b);
                } else {
                    table.put(key(a), Entry::Raw(Bytes::new()));
                    put.insert(a);
                }
            }
            for n in 0..60 {
                let said = table.look(&key(n));
                assert_eq!(matches!(said, Said::Entry(_)), put.contains(&n));
                assert_eq!(table.bytes(), put.len() * (ENTRY_OVERHEAD + 1));
                assert_eq!(table.removes(&key(n)), removed.contains(&n));
                let next = (n..60).find(|k| put.contains(k) || removed.contains(k)).map(key);
                assert_eq!(table.next_change(&key(n)), next);
                let until = (n..60).find(|k| !removed.contains(k)).unwrap_or(60);
                assert!(until == n || table.removes_all(&key(n), &key(until)));
                assert!(!table.removes_all(&key(n), &key(until + 1)));
            }
            let ranges: Vec<_> = table.ranges.iter().collect();
            assert!(ranges.windows(2).all(|w| w[0].1 < w[1].0), "{ranges:?}");
        }
    }
}
