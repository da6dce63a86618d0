//! A store that keeps everything in memory and completes at once: for tests, and for measuring all but the disk.
//!
//! Owns its collections; `image` turns them into records, so that a clean shutdown can be resumed. Nothing survives a
//! crash, by intent.
//!
//! Read next: `object`, where the data lies.

mod data;
mod image;
mod key;
mod object;

use crate::contract::{AheadId, CommitId, Completion, ObjectStore, ReadId, StoreError};
use crate::hash_range::HashRange;
use crate::id::{CollectionId, ObjectId};
use crate::limits::LIST_OBJECTS_MAX;
use crate::read::{ListEntry, ListWant, ObjectView, ReadRequest, ReadResult, ReadWhat};
use crate::transaction::{Op, Part, Transaction};
use base::Instant;
use bytes::Bytes;
use core::ops::Bound;
pub use image::Restore;
use key::Key;
use object::Object;
use std::collections::{BTreeMap, VecDeque};

type Collection = BTreeMap<ObjectId, Object>;

/// The store.
#[derive(Debug, Default)]
pub struct MemoryStore {
    collections: BTreeMap<CollectionId, Collection>,
    completions: VecDeque<Completion>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Applies a transaction at once.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<(), StoreError> {
        transaction.check(|id| self.collections.contains_key(id))?;
        let id = transaction.collection;
        if transaction.remove {
            self.collections.remove(&id);
            return Ok(());
        }
        transaction.parts.iter().for_each(|part| self.apply_part(id, part));
        apply_all(self.collections.entry(id).or_default(), transaction);
        Ok(())
    }

    fn apply_part(&mut self, id: CollectionId, part: &Part) {
        let mut other = match part {
            Part::Split { .. } => Collection::new(),
            Part::Merge { source, .. } => self.collections.remove(source).unwrap_or_default(),
        };
        let collection = self.collections.entry(id).or_default();
        let mut moved = take_range(collection, part.range());
        match part {
            Part::Split { child, .. } => {
                apply_all(&mut moved, child);
                self.collections.insert(child.collection, moved);
            }
            Part::Merge { range, .. } => collection.append(&mut take_range(&mut other, *range)),
        }
    }

    /// Answers a question at once.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadResult, StoreError> {
        if request.what == ReadWhat::Collections {
            return Ok(ReadResult::Collections(self.collections.keys().copied().collect()));
        }
        let collection = self.collections.get(&request.collection).ok_or(StoreError::NoCollection)?;
        Ok(match &request.what {
            ReadWhat::Object(id, want) => ReadResult::Object(Box::new(match collection.get(id) {
                Some(object) => object.view(want),
                None => ObjectView {
                    data: vec![Bytes::new(); want.data.len()],
                    allocated: vec![Vec::new(); want.allocated.len()],
                    omap: vec![Default::default(); want.omap.len()],
                    ..ObjectView::default()
                },
            })),
            ReadWhat::List(want) => list(collection, want),
            ReadWhat::Collections => unreachable!("answered above"),
        })
    }

    /// The bytes that objects take, about: data blocks, attributes and maps.
    pub fn held_bytes(&self) -> u64 {
        self.collections.values().flat_map(|c| c.values()).map(Object::held_bytes).sum()
    }
}

/// Takes the objects of a range out.
fn take_range(collection: &mut Collection, range: HashRange) -> Collection {
    let mut taken = collection.split_off(&HashRange::start(range.first()));
    if let Some(next) = range.last().checked_add(1) {
        collection.append(&mut taken.split_off(&HashRange::start(next)));
    }
    taken
}

fn apply_all(collection: &mut Collection, transaction: &Transaction) {
    let mut ops = transaction.ops.as_slice();
    while let Some((target, _)) = ops.first() {
        let run = ops.iter().take_while(|(at, _)| at == target).count();
        apply(collection, &transaction.objects, *target, &ops[..run]);
        ops = &ops[run..];
    }
}

/// Applies a run of ops on one object.
fn apply(collection: &mut Collection, objects: &[ObjectId], target: u16, run: &[(u16, Op)]) {
    let id = &objects[usize::from(target)];
    let mut rest = run.iter().map(|(_, op)| op).peekable();
    while let Some(op) = rest.next() {
        match op {
            Op::Remove => {
                collection.remove(id);
            }
            Op::CloneTo(to) => {
                let copy = collection.entry(id.clone()).or_default().clone();
                collection.insert(objects[usize::from(*to)].clone(), copy);
            }
            Op::RenameTo(to) => {
                let object = collection.remove(id).unwrap_or_default();
                collection.insert(objects[usize::from(*to)].clone(), object);
            }
            Op::RemoveAttr(_) | Op::ClearAttrs | Op::OmapRemove(_) | Op::OmapRemoveRange(..) | Op::OmapClear => {
                if let Some(object) = collection.get_mut(id) {
                    change(object, op);
                }
            }
            _ => {
                // One look-up serves the changes that follow on the same object.
                let object = match collection.get_mut(id) {
                    Some(object) => object,
                    None => collection.entry(id.clone()).or_default(),
                };
                change(object, op);
                let plain = |op: &&Op| !matches!(op, Op::Remove | Op::CloneTo(_) | Op::RenameTo(_));
                while let Some(op) = rest.next_if(plain) {
                    change(object, op);
                }
            }
        }
    }
}

/// Applies a change that concerns one existing object.
fn change(object: &mut Object, op: &Op) {
    match op {
        Op::Touch | Op::Remove | Op::CloneTo(_) | Op::RenameTo(_) => {}
        Op::Write(offset, data) => object.write(*offset, data),
        Op::Zero(offset, len) => object.zero(*offset, *len),
        Op::Truncate(size) => object.truncate(*size),
        Op::SetAttr(name, value) => set(&mut object.attrs, name, value),
        Op::RemoveAttr(name) => {
            object.attrs.remove(&name[..]);
        }
        Op::ClearAttrs => object.attrs.clear(),
        Op::OmapSet(entries) => entries.iter().for_each(|(key, value)| set(&mut object.omap, key, value)),
        Op::OmapRemove(keys) => keys.iter().for_each(|key| {
            object.omap.remove(&key[..]);
        }),
        Op::OmapRemoveRange(first, end) => remove_range(&mut object.omap, first, end),
        Op::OmapClear => {
            object.omap.clear();
            object.omap_header = Bytes::new();
        }
        Op::OmapHeader(header) => object.omap_header = Bytes::copy_from_slice(header),
    }
}

/// Sets an entry to copies of its key and value: the originals are slices of a message's buffer.
fn set(map: &mut BTreeMap<Key, Bytes>, key: &[u8], value: &[u8]) {
    map.insert(Key::new(key), Bytes::copy_from_slice(value));
}

fn remove_range(map: &mut BTreeMap<Key, Bytes>, first: &Bytes, end: &Bytes) {
    // Off the front where the range begins there, as the trimming of a log does.
    while let Some(entry) = map.first_entry() {
        if entry.key().bytes() < &first[..] || entry.key().bytes() >= &end[..] {
            break;
        }
        entry.remove();
    }
    while let Some((key, _)) = map.range::<[u8], _>((Bound::Included(&first[..]), Bound::Unbounded)).next() {
        if key.bytes() >= &end[..] {
            break;
        }
        let key = key.clone();
        map.remove(&key);
    }
}

fn list(collection: &Collection, want: &ListWant) -> ReadResult {
    let max = want.max.min(LIST_OBJECTS_MAX);
    let mut entries = Vec::new();
    let mut add = |(id, object): (&ObjectId, &Object)| {
        if entries.len() == max {
            return Some(id.clone());
        }
        let attr = want.attr.as_ref().and_then(|name| object.attrs.get(&name[..]).cloned());
        entries.push(ListEntry { id: id.clone(), size: object.size, attr });
        None
    };
    let next = match &want.from {
        Some(from) => collection.range(from..).find_map(&mut add),
        None => collection.iter().find_map(&mut add),
    };
    ReadResult::List { entries, next }
}

impl ObjectStore for MemoryStore {
    fn submit_commit(&mut self, _now: Instant, id: CommitId, transaction: Transaction) {
        let result = self.commit(&transaction);
        self.completions.push_back(Completion::Committed(id, result));
    }

    fn submit_read(&mut self, _now: Instant, id: ReadId, request: ReadRequest) {
        let result = self.read(&request);
        self.completions.push_back(Completion::Read(id, result));
    }

    /// There is nothing to be gained here.
    fn submit_ahead(&mut self, _now: Instant, id: AheadId, _offset: u64, _data: Bytes) {
        self.completions.push_back(Completion::Ahead(id));
    }

    fn forget_ahead(&mut self, _id: AheadId) {}

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_the_conformance_suite() {
        crate::conformance::run(MemoryStore::new);
    }
}
