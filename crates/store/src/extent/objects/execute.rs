//! Carrying out a transaction: first on the side, then, once nothing can fail any more, for all to see.
//!
//! Owns what each op means for objects, maps and blocks. A transaction runs against the objects it names, copied; if
//! something has to be read first, what it has taken is given back and it is run again later. So it changes the state
//! whole or not at all. Most, once their objects are there, cannot fail: these change the objects themselves. Where data
//! goes is `place`'s.
//!
//! Invariant: from the same state, the same transaction with the same given blocks has the same result; replay relies
//! on it.

use crate::contract::StoreError;
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::log::record::DirectWrite;
use crate::extent::objects::object::Object;
use crate::extent::state::collection::{Collection, Stretch};
use crate::extent::state::db::{Db, Found};
use crate::extent::state::memtable::Entry;
use crate::extent::tree::Fault;
use crate::extent::tree::key::Key;
use crate::extent::tree::keys::{self, CollectionNumber, ObjectNumber};
use crate::id::CollectionId;
use crate::transaction::{Op, Part, Transaction};
use base::sums::Sums;
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How a transaction is to be run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// The middle of a write of at least so many bytes goes to its place directly; smaller ones go by the log.
    pub(crate) direct_min: usize,
    /// What lies in its place already.
    pub(crate) lying: &'a [InPlace],
}

/// The whole blocks of a write, in their place before the transaction.
#[derive(Clone, Debug)]
pub(crate) struct InPlace {
    /// Which write, by its place among the ops.
    pub(crate) op: usize,
    pub(crate) runs: Vec<BlockRun>,
}

/// What a log entry knows of the first time.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    pub(crate) given: VecDeque<BlockRun>,
    pub(crate) direct: Vec<DirectWrite>,
    /// Whether data that went to its place directly may not have arrived there, and has to be looked at.
    pub(crate) unsure: bool,
}

/// What a transaction leads to beside its changes.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The blocks it was given, as they were given.
    pub(crate) given: SmallVec<[BlockRun; 2]>,
    /// What was done with its large writes.
    pub(crate) direct: Vec<DirectWrite>,
    /// What goes to its place directly: the first block and the data.
    pub(crate) writes: Vec<(u64, Bytes)>,
    /// Blocks that wait for their place and whose content is a part of the transaction's own data, not copied.
    pub(crate) carried: SmallVec<[(u64, Bytes); 2]>,
}

/// A change to who holds blocks.
pub(crate) enum Hold {
    Add(BlockRun),
    Drop(BlockRun),
}

/// A change to an object's map.
enum MapChange {
    Put(Key, Bytes),
    Remove(Key),
    RemoveRange(Key, Key),
}

/// An object that the transaction names.
pub(crate) struct Slot {
    key: Key,
    loaded: bool,
    /// The active layer lacks it meanwhile.
    taken: bool,
    changed: bool,
    object: Option<Arc<Object>>,
}

/// A transaction under way. What most transactions have few of has its room in here: each of these lists would else cost
/// a write an allocation.
pub(crate) struct Work<'a> {
    pub(crate) db: &'a mut Db,
    pub(crate) rules: Rules<'a>,
    pub(crate) before: Option<Before>,
    slots: SmallVec<[Slot; 3]>,
    /// The slot of each object of the transaction's table.
    slot_of: SmallVec<[usize; 3]>,
    map_changes: SmallVec<[MapChange; 2]>,
    pub(crate) holds: SmallVec<[Hold; 2]>,
    /// New contents of runs of blocks, by the first, and whether they go to their places directly.
    pub(crate) contents: BTreeMap<u64, (Bytes, bool)>,
    pub(crate) outcome: Outcome,
    /// The transaction's.
    pub(crate) sums: Sums,
    next_number: u64,
}

/// Refuses what cannot be done as a whole.
pub(crate) fn check(db: &Db, t: &Transaction) -> Result<(), StoreError> {
    t.check(|id| db.collections.contains_key(id))
}

/// About how long the log entry is if writes of at least `direct_min` bytes stay out of it, but for their checksums.
pub(crate) fn entry_bytes(t: &Transaction, direct_min: usize) -> usize {
    let pairs = |entries: &[(Bytes, Bytes)]| entries.iter().map(|(k, v)| k.len() + v.len() + 8).sum();
    let of_op = |op: &Op| match op {
        // Ends, and of each block its checksum and, at worst, where it lies.
        Op::Write(_, data) if data.len() >= direct_min => 8192 + data.len() / 128,
        Op::Write(_, data) => data.len() + data.len() / 128,
        Op::SetAttr(name, value) => name.len() + value.len(),
        Op::RemoveAttr(name) | Op::OmapHeader(name) => name.len(),
        Op::OmapSet(entries) => pairs(entries),
        Op::OmapRemove(keys) => keys.iter().map(|k| k.len() + 4).sum(),
        Op::OmapRemoveRange(first, end) => first.len() + end.len(),
        _ => 0,
    };
    let parts: usize = t.parts.iter().map(|part| part_bytes(part, direct_min)).sum();
    let objects: usize = t.objects.iter().map(|o| o.namespace().len() + o.key().len() + o.name().len() + 24).sum();
    128 + parts + objects + t.ops.iter().map(|(_, op)| of_op(op) + 64).sum::<usize>()
}

fn part_bytes(part: &Part, direct_min: usize) -> usize {
    if let Part::Split { child, .. } = part { entry_bytes(child, direct_min) } else { 64 }
}

/// What collections are after a transaction, and what of theirs belongs to none any more.
struct Arrangement {
    collections: BTreeMap<CollectionId, Option<Collection>>,
    dropped: Vec<Stretch>,
    next_number: u64,
}

impl Arrangement {
    /// Of a transaction that `check` has let pass.
    fn of(db: &Db, t: &Transaction) -> Arrangement {
        let (collections, dropped) = (BTreeMap::new(), Vec::new());
        let mut it = Arrangement { collections, dropped, next_number: db.next_number };
        let mut own = match db.collections.get(&t.collection) {
            Some(own) => own.clone(),
            None => it.new_collection(),
        };
        for part in &t.parts {
            let range = part.range();
            let had = own.within(range);
            own = match part {
                Part::Split { child, .. } => {
                    let new = it.new_collection().with(range, &had);
                    it.collections.insert(child.collection, Some(new));
                    // What is written there from now on is not the other's.
                    let hole = Stretch { number: it.new_number(), range };
                    own.with(range, &[hole])
                }
                Part::Merge { source, .. } => {
                    let other = &db.collections[source];
                    it.dropped.extend(had);
                    let cut = |stretch: &Stretch| stretch.range.without(range).map(|rest| (stretch.number, rest));
                    for (number, rest) in other.stretches().iter().flat_map(cut) {
                        it.dropped.extend(rest.map(|range| Stretch { number, range }));
                    }
                    it.collections.insert(*source, None);
                    own.with(range, &other.within(range))
                }
            };
        }
        it.collections.insert(t.collection, Some(own));
        it
    }

    fn new_number(&mut self) -> CollectionNumber {
        self.next_number += 1;
        CollectionNumber(self.next_number - 1)
    }

    fn new_collection(&mut self) -> Collection {
        Collection::new(self.new_number())
    }

    fn after(&self, id: CollectionId) -> &Collection {
        self.collections[&id].as_ref().expect("only sources of merges go")
    }

    /// Makes it so.
    fn publish(self, db: &mut Db) {
        for (id, collection) in self.collections {
            match collection {
                Some(collection) => {
                    db.active.table.put(keys::collection(id), Entry::Raw(collection.value()));
                    db.collections.insert(id, collection);
                }
                None => {
                    db.active.table.put(keys::collection(id), Entry::Gone);
                    db.collections.remove(&id);
                }
            }
        }
        self.dropped.into_iter().for_each(|stretch| drop_stretch(db, stretch));
    }
}

fn drop_stretch(db: &mut Db, stretch: Stretch) {
    db.active.table.put(keys::trash(&stretch), Entry::Raw(Bytes::new()));
    db.trash.insert(stretch);
}

/// Runs a transaction that `check` has let pass.
pub(crate) fn run(db: &mut Db, t: &Transaction, rules: Rules<'_>, before: Option<Before>) -> Result<Outcome, Fault> {
    if t.remove {
        remove_collection(db, t);
        return Ok(Outcome::default());
    }
    // What only changes objects leaves collections as they are.
    let arrangement = (t.create || !t.parts.is_empty()).then(|| Arrangement::of(db, t));
    let next_number = arrangement.as_ref().map_or(db.next_number, |arrangement| arrangement.next_number);
    let collection = match &arrangement {
        Some(arrangement) => arrangement.after(t.collection).clone(),
        None => db.collections[&t.collection].clone(),
    };
    let sure = before.is_none() && arrangement.is_none() && cannot_fail(db, t, rules);
    let mut work = Work::new(db, rules, before, next_number);
    work.sums = t.sums.clone();
    if sure {
        return work.apply_in_place(t, &collection);
    }
    let parts = t.parts.iter().try_for_each(|part| match (part, &arrangement) {
        (Part::Split { child, .. }, Some(arrangement)) => work.apply_all(child, arrangement.after(child.collection)),
        _ => Ok(()),
    });
    match parts.and_then(|()| work.apply_all(t, &collection)) {
        Ok(()) => {
            if let Some(arrangement) = arrangement {
                arrangement.publish(work.db);
            }
            Ok(work.publish())
        }
        Err(fault) => {
            work.undo();
            Err(fault)
        }
    }
}

/// Whether nothing can go wrong once the objects are there: no op needs more than they are, and there is room.
fn cannot_fail(db: &Db, t: &Transaction, rules: Rules<'_>) -> bool {
    let mut bytes = 0;
    let harmless = t.ops.iter().all(|(_, op)| match op {
        Op::Write(offset, data) => {
            bytes += data.len() as u64;
            offset.is_multiple_of(BLOCK) && data.len().is_multiple_of(BLOCK as usize)
        }
        Op::Touch | Op::SetAttr(..) | Op::RemoveAttr(_) | Op::ClearAttrs | Op::OmapHeader(_) => true,
        Op::OmapSet(_) | Op::OmapRemove(_) | Op::OmapRemoveRange(..) => true,
        Op::Zero(..) | Op::Truncate(_) | Op::Remove | Op::CloneTo(_) | Op::RenameTo(_) | Op::OmapClear => false,
    });
    harmless && rules.lying.is_empty() && bytes / BLOCK <= db.space.free_for_data()
}

fn remove_collection(db: &mut Db, t: &Transaction) {
    if let Some(collection) = db.collections.remove(&t.collection) {
        db.active.table.put(keys::collection(t.collection), Entry::Gone);
        collection.stretches().iter().for_each(|stretch| drop_stretch(db, *stretch));
    }
}

/// Removes up to `count` objects of a removed collection's stretch, and the stretch with the last of them.
pub(crate) fn clear(db: &mut Db, stretch: Stretch, count: u32) -> Result<(), Fault> {
    let (mut scan, end) = (db.scan(&keys::objects(&stretch)), keys::objects_end(&stretch));
    let mut found = Vec::new();
    while found.len() < count as usize {
        match scan.next(db, &end)? {
            Some((key, Found::Object(object))) => found.push((key, object)),
            Some((_, Found::Raw(_))) => return Err(wire::Malformed::new("object key", "has no object").into()),
            None => break,
        }
    }
    let last = found.len() < count as usize;
    for (key, object) in found {
        object.blocks.runs().into_iter().for_each(|run| db.drop_blocks(run));
        if object.has_omap {
            db.active.table.remove_range(keys::omap(object.number), keys::omap_end(object.number));
        }
        db.cache.forget_object(&key);
        db.active.table.put(key, Entry::Gone);
    }
    db.note_shared();
    if last {
        db.trash.remove(&stretch);
        db.active.table.put(keys::trash(&stretch), Entry::Gone);
    }
    Ok(())
}

impl<'a> Work<'a> {
    fn new(db: &'a mut Db, rules: Rules<'a>, before: Option<Before>, next_number: u64) -> Work<'a> {
        Work {
            db,
            rules,
            before,
            slots: SmallVec::new(),
            slot_of: SmallVec::new(),
            map_changes: SmallVec::new(),
            holds: SmallVec::new(),
            contents: BTreeMap::new(),
            outcome: Outcome::default(),
            sums: Sums::default(),
            next_number,
        }
    }

    /// One slot per object, also where the table names one twice.
    fn name_objects(&mut self, t: &Transaction, collection: &Collection) {
        let (first, mut by_key) = (self.slots.len(), BTreeMap::new());
        self.slot_of.clear();
        for id in &t.objects {
            let key = keys::object(collection.number_of(id), id);
            let next = self.slots.len();
            // Most transactions name two or three.
            let slot = match t.objects.len() {
                0..=8 => self.slots[first..].iter().position(|slot| slot.key == key).map_or(next, |at| first + at),
                _ => *by_key.entry(key.clone()).or_insert(next),
            };
            if slot == next {
                self.slots.push(Slot { key, loaded: false, taken: false, changed: false, object: None });
            }
            self.slot_of.push(slot);
        }
    }

    /// The ops of a transaction on its collection, or on the one that is split off it; the objects of both differ.
    fn apply_all(&mut self, t: &Transaction, collection: &Collection) -> Result<(), Fault> {
        self.name_objects(t, collection);
        t.ops.iter().enumerate().try_for_each(|(at, (object, op))| self.apply(at, usize::from(*object), op))
    }

    /// The same where nothing can fail but the reading of the objects: those of the active layer, which nobody else holds,
    /// are taken out of it and changed where they are, not copied.
    fn apply_in_place(mut self, t: &Transaction, collection: &Collection) -> Result<Outcome, Fault> {
        self.name_objects(t, collection);
        for (object, op) in &t.ops {
            let slot = self.slot_of[usize::from(*object)];
            if !matches!(op, Op::OmapSet(_) | Op::OmapRemove(_) | Op::OmapRemoveRange(..)) {
                self.take(slot);
            }
            if let Err(fault) = self.load(slot) {
                self.put_back();
                return Err(fault);
            }
        }
        for (at, (object, op)) in t.ops.iter().enumerate() {
            self.apply(at, usize::from(*object), op).expect("nothing is missing, and there is room");
        }
        Ok(self.publish())
    }

    /// Takes an object out of the active layer, if it is there.
    fn take(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if !slot.loaded
            && let Some(object) = self.db.active.table.take_object(&slot.key)
        {
            (slot.object, slot.loaded, slot.taken) = (Some(object), true, true);
        }
    }

    /// Puts back what was taken, as it was.
    fn put_back(self) {
        for slot in self.slots.into_iter().filter(|slot| slot.taken) {
            self.db.active.table.put(slot.key, slot.object.map_or(Entry::Gone, Entry::Object));
        }
    }

    fn load(&mut self, slot: usize) -> Result<(), Fault> {
        if !self.slots[slot].loaded {
            self.slots[slot].object = self.db.object(&self.slots[slot].key)?;
            self.slots[slot].loaded = true;
        }
        Ok(())
    }

    /// The object, if it exists.
    pub(crate) fn existing(&mut self, slot: usize) -> Option<&mut Object> {
        let slot = &mut self.slots[slot];
        let object = slot.object.as_mut()?;
        slot.changed = true;
        Some(Arc::make_mut(object))
    }

    /// The object, made where it is missing.
    pub(crate) fn object(&mut self, slot: usize) -> &mut Object {
        if self.slots[slot].object.is_none() {
            let number = self.new_number();
            self.slots[slot].object = Some(Arc::new(Object::new(number)));
        }
        self.existing(slot).expect("it was just made")
    }

    fn new_number(&mut self) -> ObjectNumber {
        self.next_number += 1;
        ObjectNumber(self.next_number - 1)
    }

    fn apply(&mut self, at: usize, object: usize, op: &Op) -> Result<(), Fault> {
        let slot = self.slot_of[object];
        self.load(slot)?;
        match op {
            Op::Touch => {
                self.object(slot);
            }
            Op::Write(offset, data) => self.write(at, slot, *offset, data)?,
            Op::Zero(offset, len) => self.zero(slot, *offset, *len)?,
            Op::Truncate(size) => self.truncate(slot, *size)?,
            Op::Remove => self.remove(slot),
            Op::CloneTo(to) => self.clone_to(slot, self.slot_of[usize::from(*to)])?,
            Op::RenameTo(to) => self.rename_to(slot, self.slot_of[usize::from(*to)])?,
            Op::SetAttr(name, value) => self.object(slot).set_attr(name, value),
            Op::RemoveAttr(name) => {
                if let Some(object) = self.existing(slot) {
                    object.remove_attr(name);
                }
            }
            Op::ClearAttrs => {
                if let Some(object) = self.existing(slot) {
                    object.attrs.clear();
                }
            }
            Op::OmapHeader(header) => self.object(slot).omap_header = Bytes::copy_from_slice(header),
            Op::OmapSet(_) | Op::OmapRemove(_) | Op::OmapRemoveRange(..) | Op::OmapClear => self.change_map(slot, op),
        }
        Ok(())
    }

    fn change_map(&mut self, slot: usize, op: &Op) {
        if let Op::OmapSet(entries) = op {
            let number = self.number_with_map(slot, entries.is_empty());
            for (key, value) in entries {
                let value = Bytes::copy_from_slice(value);
                self.map_changes.push(MapChange::Put(keys::omap_entry(number, key), value));
            }
            return;
        }
        let Some(object) = self.existing(slot) else { return };
        let (number, had) = (object.number, object.has_omap);
        if matches!(op, Op::OmapClear) {
            object.has_omap = false;
            object.omap_header = Bytes::new();
        }
        match op {
            Op::OmapRemove(keys) if had => {
                self.map_changes.extend(keys.iter().map(|key| MapChange::Remove(keys::omap_entry(number, key))));
            }
            Op::OmapRemoveRange(first, end) if had => {
                let (first, end) = (keys::omap_entry(number, first), keys::omap_entry(number, end));
                self.map_changes.push(MapChange::RemoveRange(first, end));
            }
            Op::OmapClear if had => self.clear_map(number),
            _ => {}
        }
    }

    /// The number of an object that has a map now, or `may_lack` one. Where it was there and had one, as a PG's log does at
    /// every write, it stays what it is.
    fn number_with_map(&mut self, slot: usize, may_lack: bool) -> ObjectNumber {
        match &self.slots[slot].object {
            Some(object) if object.has_omap || may_lack => object.number,
            _ => {
                let object = self.object(slot);
                object.has_omap |= !may_lack;
                object.number
            }
        }
    }

    fn clear_map(&mut self, number: ObjectNumber) {
        self.map_changes.push(MapChange::RemoveRange(keys::omap(number), keys::omap_end(number)));
    }

    fn remove(&mut self, slot: usize) {
        let Some(object) = self.slots[slot].object.take() else { return };
        self.slots[slot].changed = true;
        self.holds.extend(object.blocks.runs().into_iter().map(Hold::Drop));
        if object.has_omap {
            self.clear_map(object.number);
        }
    }

    fn clone_to(&mut self, from: usize, to: usize) -> Result<(), Fault> {
        self.object(from);
        if from == to {
            return Ok(());
        }
        self.load(to)?;
        self.remove(to);
        let mut copy = self.object(from).clone();
        self.holds.extend(copy.blocks.runs().into_iter().map(Hold::Add));
        let original = copy.number;
        copy.number = self.new_number();
        if copy.has_omap {
            for (key, value) in self.map_of(original)? {
                self.map_changes.push(MapChange::Put(keys::omap_entry(copy.number, &key), value));
            }
        }
        self.slots[to].object = Some(Arc::new(copy));
        self.slots[to].changed = true;
        Ok(())
    }

    fn rename_to(&mut self, from: usize, to: usize) -> Result<(), Fault> {
        self.object(from);
        if from == to {
            return Ok(());
        }
        self.load(to)?;
        self.remove(to);
        self.slots[to].object = self.slots[from].object.take();
        self.slots[to].changed = true;
        Ok(())
    }

    /// All entries of an object's map, with what this transaction has changed in it.
    fn map_of(&mut self, number: ObjectNumber) -> Result<BTreeMap<Vec<u8>, Bytes>, Fault> {
        let (mut scan, end) = (self.db.scan(&keys::omap(number)), keys::omap_end(number));
        let mut entries = BTreeMap::new();
        while let Some((key, found)) = scan.next(self.db, &end)? {
            if let Found::Raw(value) = found {
                entries.insert(key.to_vec(), value);
            }
        }
        for change in &self.map_changes {
            match change {
                MapChange::Put(key, value) => drop(entries.insert(key.to_vec(), value.clone())),
                MapChange::Remove(key) => drop(entries.remove(&key[..])),
                MapChange::RemoveRange(first, end) => {
                    entries.retain(|key, _| key[..] < first[..] || key[..] >= end[..])
                }
            }
        }
        let ours = entries.into_iter().filter(|(key, _)| keys::number(key) == Some(number.0));
        Ok(ours.map(|(key, value)| (keys::read_omap_entry(&key).to_vec(), value)).collect())
    }

    /// Everything has gone well: makes the changes, none of which can fail.
    fn publish(mut self) -> Outcome {
        let db = self.db;
        db.next_number = self.next_number;
        for slot in self.slots.into_iter().filter(|slot| slot.changed || slot.taken) {
            // What is in the active layer is not in the cache.
            if !slot.taken {
                db.cache.forget_object(&slot.key);
            }
            db.active.table.put(slot.key, slot.object.map_or(Entry::Gone, Entry::Object));
        }
        for change in self.map_changes {
            match change {
                MapChange::Put(key, value) => db.active.table.put(key, Entry::Raw(value)),
                MapChange::Remove(key) => db.active.table.put(key, Entry::Gone),
                MapChange::RemoveRange(first, end) => db.active.table.remove_range(first, end),
            }
        }
        for (block, (data, direct)) in self.contents {
            if direct {
                db.direct.insert(block, data);
            } else {
                db.active.deferred.insert(block, data);
            }
        }
        // After the contents: what the transaction itself has written again does not wait for its place.
        for hold in self.holds {
            match hold {
                Hold::Add(run) => db.shared.add(run),
                Hold::Drop(run) => db.drop_blocks(run),
            }
        }
        db.note_shared();
        db.active.direct_bytes +=
            self.outcome.direct.iter().map(|direct| direct.crcs.len() as u64 * BLOCK).sum::<u64>();
        db.active.given.extend(self.outcome.given.iter().copied());
        core::mem::take(&mut self.outcome)
    }

    /// Gives back what was taken.
    fn undo(self) {
        let lying: Vec<&BlockRun> = self.rules.lying.iter().flat_map(|lying| &lying.runs).collect();
        let taken = self.outcome.given.iter().filter(|run| !lying.contains(run));
        taken.for_each(|run| self.db.space.release(*run));
    }
}
