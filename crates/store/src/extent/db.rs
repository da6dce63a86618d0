//! The store's state as transactions and reads see it: two layers of changes over the tree, data that is on its way to
//! its place, collections, space.
//!
//! Owns looking things up through the layers. What is not in memory is a `Fault`: the engine has it read and asks
//! again.
//!
//! Invariant: what `active` says counts more than `frozen`, that more than the tree under `root`; between checkpoints
//! `frozen` is empty.
//!
//! Read next: `execute`, which changes it, and `checkpoint`, which makes the tree of it.

use super::cache::Cache;
use super::keys::{self, CollectionNumber, Key};
use super::layout::{BlockRun, Geometry};
use super::memtable::{Entry, Memtable, Said};
use super::object::{Mapped, Object};
use super::page::{Page, PagePtr};
use super::shared::Shared;
use super::space::Space;
use super::tree::{self, Fault, Pages, TreeScan};
use crate::contract::StoreError;
use crate::id::CollectionId;
use base::hash::FixedHashMap;
use bytes::Bytes;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use wire::Decoder;

/// What was read last is kept beside the cache, so that who asked finds it however small the cache is.
const FRESH_MAX: usize = 32;

/// What has changed between two checkpoints.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) table: Memtable,
    /// Data in the log that is not yet in its place.
    pub(super) deferred: BTreeMap<u64, Bytes>,
    /// Blocks handed out to objects.
    pub(super) given: Vec<BlockRun>,
    /// Blocks that no object holds any more.
    pub(super) freed: Vec<BlockRun>,
    /// How many blocks that is.
    pub(super) freed_blocks: u64,
    /// Bytes of data written to their place directly.
    pub(super) direct_bytes: u64,
}

/// Something read from the device, or known to be damaged.
#[derive(Clone, Debug)]
pub(super) enum Fetched {
    Page(Arc<Page>),
    Data(Bytes),
    Bad(StoreError),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Db {
    pub(super) root: Option<PagePtr>,
    pub(super) active: Layer,
    pub(super) frozen: Layer,
    pub(super) cache: Cache,
    fresh: VecDeque<(u64, Fetched)>,
    /// Data of large writes whose device requests have not ended.
    pub(super) direct: FixedHashMap<u64, Bytes>,
    pub(super) collections: BTreeMap<CollectionId, CollectionNumber>,
    /// Removed collections whose objects are still there.
    pub(super) trash: BTreeSet<CollectionNumber>,
    pub(super) shared: Shared,
    pub(super) space: Space,
    pub(super) next_number: u64,
}

/// What a key has.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Object(Arc<Object>),
    Raw(Bytes),
}

impl Pages for Db {
    fn page(&mut self, ptr: PagePtr) -> Result<Arc<Page>, Fault> {
        if let Some(page) = self.cache.page(ptr.block) {
            return Ok(page);
        }
        match self.fresh.iter().find(|(block, _)| *block == ptr.block) {
            Some((_, Fetched::Page(page))) => Ok(page.clone()),
            Some((_, Fetched::Bad(error))) => Err(error.clone().into()),
            _ => Err(Fault::Page(ptr)),
        }
    }
}

impl Db {
    pub(super) fn new(geometry: Geometry, cache_bytes: usize) -> Db {
        Db {
            root: None,
            active: Layer::default(),
            frozen: Layer::default(),
            cache: Cache::new(cache_bytes),
            fresh: VecDeque::new(),
            direct: FixedHashMap::default(),
            collections: BTreeMap::new(),
            trash: BTreeSet::new(),
            shared: Shared::default(),
            space: Space::new(geometry),
            next_number: 1,
        }
    }

    /// Takes what was read.
    pub(super) fn fetched(&mut self, block: u64, fetched: Fetched) {
        match &fetched {
            Fetched::Page(page) => self.cache.keep_page(block, page.clone()),
            Fetched::Data(data) => self.cache.keep_data(block, data.clone()),
            Fetched::Bad(_) => {}
        }
        self.fresh.push_back((block, fetched));
        if self.fresh.len() > FRESH_MAX {
            self.fresh.pop_front();
        }
    }

    /// A block has a new content: forgets the old one.
    pub(super) fn forget_block(&mut self, block: u64) {
        self.cache.forget_block(block);
        self.fresh.retain(|(at, _)| *at != block);
    }

    /// The content of a block of data.
    pub(super) fn data(&mut self, mapped: Mapped) -> Result<Bytes, Fault> {
        if let Some(data) = self.data_in_memory(mapped.block) {
            return Ok(data);
        }
        match self.fresh.iter().find(|(block, _)| *block == mapped.block) {
            Some((_, Fetched::Data(data))) => Ok(data.clone()),
            Some((_, Fetched::Bad(error))) => Err(error.clone().into()),
            _ => Err(Fault::Data(mapped.block, mapped.crc)),
        }
    }

    /// The content of a block of data, where it is in memory.
    pub(super) fn data_in_memory(&mut self, block: u64) -> Option<Bytes> {
        self.data_on_its_way(block).or_else(|| self.cache.data(block))
    }

    /// The content of a block of data that may not be in its place yet.
    pub(super) fn data_on_its_way(&self, block: u64) -> Option<Bytes> {
        let waiting = self.active.deferred.get(&block).or_else(|| self.frozen.deferred.get(&block));
        waiting.or_else(|| self.direct.get(&block)).cloned()
    }

    /// The object at a key.
    pub(super) fn object(&mut self, key: &Key) -> Result<Option<Arc<Object>>, Fault> {
        for layer in [&self.active, &self.frozen] {
            match layer.table.look(key) {
                Said::Entry(Entry::Object(object)) => return Ok(Some(object.clone())),
                Said::Entry(_) | Said::Removed => return Ok(None),
                Said::Nothing => {}
            }
        }
        if let Some(object) = self.cache.object(key) {
            return Ok(Some(object));
        }
        let root = self.root;
        let Some(value) = tree::get(self, root, key)? else { return Ok(None) };
        let object = Arc::new(decode_object(&value)?);
        self.cache.keep_object(key.clone(), object.clone());
        Ok(Some(object))
    }

    /// The value at a key that is no object's.
    pub(super) fn raw(&mut self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        for layer in [&self.active, &self.frozen] {
            match layer.table.look(key) {
                Said::Entry(Entry::Raw(value)) => return Ok(Some(value.clone())),
                Said::Entry(_) | Said::Removed => return Ok(None),
                Said::Nothing => {}
            }
        }
        let root = self.root;
        tree::get(self, root, key)
    }

    /// Begins to go through what keys have, from the first one not below `from`.
    pub(super) fn scan(&self, from: &[u8]) -> Scan {
        Scan { from: from.into(), tree: TreeScan::new(self.root, from) }
    }

    /// Writes the runs of shared blocks that have changed into the active layer.
    pub(super) fn note_shared(&mut self) {
        for start in self.shared.take_changed() {
            let entry = match self.shared.get(start) {
                Some(extra) => {
                    let mut e = wire::Encoder::new();
                    extra.encode(&mut e);
                    Entry::Raw(e.finish())
                }
                None => Entry::Gone,
            };
            self.active.table.put(keys::shared(start), entry);
        }
    }

    /// One holder less of these blocks; those that nobody holds are free after the next checkpoint.
    pub(super) fn drop_blocks(&mut self, run: BlockRun) {
        let before = self.active.freed.len();
        let mut free = Vec::new();
        self.shared.drop_run(run, &mut free);
        self.active.freed_blocks += free.iter().map(|run| run.len).sum::<u64>();
        self.active.freed.extend(free);
        debug_assert!(self.active.freed.len() >= before);
    }
}

/// Reads an object's value; nothing of it shares the page.
pub(super) fn decode_object(value: &[u8]) -> Result<Object, StoreError> {
    let mut d = Decoder::new(value);
    let object = Object::decode(&mut d)?;
    d.finish("object")?;
    Ok(object)
}

/// Goes through what keys have. It looks anew at each step, so that it may be kept while nothing changes.
#[derive(Debug)]
pub(super) struct Scan {
    from: Key,
    tree: TreeScan,
}

impl Scan {
    /// The next key below `end` that has something. After a fault it may be asked again.
    pub(super) fn next(&mut self, db: &mut Db, end: &[u8]) -> Result<Option<(Key, Found)>, Fault> {
        loop {
            let next_of = |table: &Memtable| {
                let next = table.entries_from(Bound::Included(&*self.from)).next();
                next.map(|(key, _)| key.clone())
            };
            let (active, frozen) = (next_of(&db.active.table), next_of(&db.frozen.table));
            let tree = loop {
                let found = self.tree.peek(db)?.map(|(page, at)| (Key::from(page.key(at)), page.value_bytes(at)));
                match found {
                    Some((key, _)) if key < self.from => self.tree.advance(),
                    found => break found,
                }
            };
            let candidates = [active.as_ref(), frozen.as_ref(), tree.as_ref().map(|(key, _)| key)];
            let Some(key) = candidates.into_iter().flatten().min().cloned() else { return Ok(None) };
            if &*key >= end {
                return Ok(None);
            }
            let mut after = key.to_vec();
            after.push(0);
            self.from = after.into();
            let said = [&db.active.table, &db.frozen.table].into_iter().find_map(|table| match table.look(&key) {
                Said::Entry(Entry::Object(object)) => Some(Some(Found::Object(object.clone()))),
                Said::Entry(Entry::Raw(value)) => Some(Some(Found::Raw(value.clone()))),
                Said::Entry(Entry::Gone) | Said::Removed => Some(None),
                Said::Nothing => None,
            });
            let found = match (said, tree) {
                (Some(found), _) => found,
                (None, Some((_, value))) if key[0] == keys::OBJECT => {
                    Some(Found::Object(Arc::new(decode_object(&value)?)))
                }
                (None, Some((_, value))) => Some(Found::Raw(value)),
                (None, None) => None,
            };
            if let Some(found) = found {
                return Ok(Some((key, found)));
            }
        }
    }
}
