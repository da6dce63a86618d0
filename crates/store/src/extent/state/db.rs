//! The store's state as transactions and reads see it: two layers of changes over the tree, data that is on its way to
//! its place, collections, space.
//!
//! Owns looking things up through the layers. What is not in memory is a `Fault`: the engine has it read and asks
//! again.
//!
//! Invariant: what `active` says counts more than `frozen`, that more than the tree under `root`; between checkpoints
//! `frozen` is empty.
//!
//! Read next: `objects::execute`, which changes it, and `engine::checkpoint`, which makes the tree of it.

use crate::contract::StoreError;
use crate::extent::device::aligned;
use crate::extent::layout::{BLOCK, BlockRun, Geometry, push_run};
use crate::extent::objects::block_map::Mapped;
use crate::extent::objects::object::Object;
use crate::extent::space::Space;
use crate::extent::space::shared::Shared;
use crate::extent::state::cache::Cache;
use crate::extent::state::collection::{Collection, Stretch};
use crate::extent::state::fresh::Fresh;
use crate::extent::state::memtable::{Entry, Memtable, Said};
use crate::extent::tree::key::Key;
use crate::extent::tree::keys;
use crate::extent::tree::page::{Page, PagePtr};
use crate::extent::tree::{self, Fault, Pages, TreeScan};
use crate::id::CollectionId;
use bytes::Bytes;
use core::ops::Bound;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::Decoder;

/// The largest write of data that waited for its place, in blocks.
const PLACED_BLOCKS_MAX: u64 = 64;

/// What has changed between two checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) table: Memtable,
    /// Data in the log that is not yet in its place.
    pub(crate) deferred: BTreeMap<u64, Bytes>,
    /// Blocks handed out to objects.
    pub(crate) given: Vec<BlockRun>,
    /// Blocks that no object holds any more.
    pub(crate) freed: Vec<BlockRun>,
    /// How many blocks that is.
    pub(crate) freed_blocks: u64,
    /// Bytes of data written to their place directly.
    pub(crate) direct_bytes: u64,
}

impl Layer {
    /// The first block from one on that waits for its place, and as much data, a piece for each block, as follows it there.
    pub(crate) fn waiting_from(&self, block: u64) -> Option<(u64, Vec<Bytes>)> {
        let mut rest = self.deferred.range(block..).peekable();
        let first = *rest.peek()?.0;
        let run = (first..first + PLACED_BLOCKS_MAX)
            .map_while(|block| rest.next_if(|(at, _)| **at == block).map(|(_, data)| aligned(data.clone())));
        Some((first, run.collect()))
    }
}

/// Something read from the device, or known to be damaged.
#[derive(Clone, Debug)]
pub(crate) enum Fetched {
    Page(Arc<Page>),
    Data(Bytes),
    Bad(StoreError),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Db {
    pub(crate) root: Option<PagePtr>,
    pub(crate) active: Layer,
    pub(crate) frozen: Layer,
    pub(crate) cache: Cache,
    pub(crate) fresh: Fresh,
    /// Pages that go with the one that the last fault named.
    pub(crate) expected: Vec<PagePtr>,
    /// Data of large writes to its place that have not ended, by the first block of each.
    pub(crate) direct: BTreeMap<u64, Bytes>,
    /// What has waited for its place and is being written to it, by the first block: a piece for each.
    pub(crate) placing: BTreeMap<u64, Vec<Bytes>>,
    pub(crate) collections: BTreeMap<CollectionId, Collection>,
    /// What removed collections had, where objects are still there.
    pub(crate) trash: BTreeSet<Stretch>,
    pub(crate) shared: Shared,
    pub(crate) space: Space,
    pub(crate) next_number: u64,
}

/// What a key has.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Object(Arc<Object>),
    Raw(Bytes),
}

impl Pages for Db {
    fn page(&mut self, ptr: PagePtr) -> Result<Arc<Page>, Fault> {
        // Also where the cache has it: the next time it may not.
        let fresh = self.fresh.get(ptr.block);
        if let Some(page) = self.cache.page(ptr.block) {
            return Ok(page);
        }
        match fresh {
            Some(Fetched::Page(page)) => Ok(page.clone()),
            Some(Fetched::Bad(error)) => Err(error.clone().into()),
            _ => Err(Fault::Page(ptr)),
        }
    }

    fn expect(&mut self, ahead: Vec<PagePtr>) {
        self.expected = ahead;
    }
}

impl Db {
    pub(crate) fn new(geometry: Geometry, cache_bytes: usize) -> Db {
        Db {
            root: None,
            active: Layer::default(),
            frozen: Layer::default(),
            cache: Cache::new(cache_bytes),
            fresh: Fresh::default(),
            expected: Vec::new(),
            direct: BTreeMap::new(),
            placing: BTreeMap::new(),
            collections: BTreeMap::new(),
            trash: BTreeSet::new(),
            shared: Shared::default(),
            space: Space::new(geometry),
            next_number: 1,
        }
    }

    /// Takes what was read.
    pub(crate) fn fetched(&mut self, block: u64, fetched: Fetched) {
        match &fetched {
            Fetched::Page(page) => self.cache.keep_page(block, page.clone()),
            Fetched::Data(data) => self.cache.keep_data(block, data.clone()),
            Fetched::Bad(_) => {}
        }
        self.fresh.keep(block, fetched);
    }

    /// Blocks have a new content: forgets the old one.
    pub(crate) fn forget(&mut self, run: BlockRun) {
        self.cache.forget(run);
        (run.start..run.end()).for_each(|block| self.fresh.forget(block));
    }

    /// The content of a block of data.
    pub(crate) fn data(&mut self, mapped: Mapped) -> Result<Bytes, Fault> {
        if let Some(data) = self.data_on_its_way(mapped.block) {
            return Ok(data);
        }
        let fresh = self.fresh.get(mapped.block);
        if let Some(data) = self.cache.data(mapped.block) {
            return Ok(data.slice(..BLOCK as usize));
        }
        match fresh {
            Some(Fetched::Data(data)) => Ok(data.clone()),
            Some(Fetched::Bad(error)) => Err(error.clone().into()),
            _ => Err(Fault::Data(mapped.block, mapped.crc)),
        }
    }

    /// The content of a block of data, where it is in memory, and of as many after it as lie in the same buffer. Of
    /// single blocks for a `long` read nothing is said: it would come in pieces.
    pub(crate) fn data_in_memory(&mut self, block: u64, long: bool) -> Option<Bytes> {
        let on_its_way = self.data_on_its_way(block);
        on_its_way.or_else(|| if long { self.cache.data_of_run(block) } else { self.cache.data(block) })
    }

    /// The content of a block of data that may not be in its place yet.
    pub(crate) fn data_on_its_way(&self, block: u64) -> Option<Bytes> {
        let waiting = self.active.deferred.get(&block).or_else(|| self.frozen.deferred.get(&block));
        let placed = || {
            let (first, pieces) = self.placing.range(..=block).next_back()?;
            pieces.get((block - first) as usize)
        };
        waiting.or_else(placed).cloned().or_else(|| {
            let (first, run) = self.direct.range(..=block).next_back()?;
            part(*first, run, block)
        })
    }

    /// These blocks are written: what a checkpoint put there need not stay in memory until it ends. It is durable in the
    /// log until then, and reads find it in its place.
    pub(crate) fn in_place(&mut self, run: BlockRun) {
        if !self.frozen.deferred.is_empty() {
            (run.start..run.end()).for_each(|block| drop(self.frozen.deferred.remove(&block)));
        }
    }

    /// Data that waits since the last checkpoint began, from a block on or, where none is left behind it, from the first
    /// on: it is on its way to its place now.
    pub(crate) fn send_waiting(&mut self, from: u64) -> Option<(u64, Vec<Bytes>)> {
        let (first, pieces) = self.active.waiting_from(from).or_else(|| self.active.waiting_from(0))?;
        let end = first + pieces.len() as u64;
        (first..end).for_each(|block| drop(self.active.deferred.remove(&block)));
        self.placing.insert(first, pieces.clone());
        Some((first, pieces))
    }

    /// Bytes of data that may not be in their place yet.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let placing: usize = self.placing.values().map(Vec::len).sum();
        let blocks = self.active.deferred.len() + self.frozen.deferred.len() + placing;
        blocks as u64 * BLOCK + self.direct.values().map(|data| data.len() as u64).sum::<u64>()
    }

    /// The content of a block that waits for its place lies elsewhere, too: the buffer that it came in is let go.
    pub(crate) fn move_waiting(&mut self, block: u64, data: Bytes) {
        if let Some(content) = self.active.deferred.get_mut(&block) {
            debug_assert!(*content == data, "the same content");
            *content = data;
        }
    }

    /// The object at a key.
    pub(crate) fn object(&mut self, key: &Key) -> Result<Option<Arc<Object>>, Fault> {
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
    pub(crate) fn raw(&mut self, key: &Key) -> Result<Option<Bytes>, Fault> {
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
    pub(crate) fn scan(&self, from: &[u8]) -> Scan {
        Scan { from: from.into(), tree: TreeScan::new(self.root, from) }
    }

    /// Writes the runs of shared blocks that have changed into the active layer.
    pub(crate) fn note_shared(&mut self) {
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

    /// These blocks, which were handed out, hold what only the log names: they are free after the next checkpoint.
    pub(crate) fn lend(&mut self, runs: &[BlockRun]) {
        let blocks: u64 = runs.iter().map(|run| run.len).sum();
        self.active.direct_bytes += blocks * BLOCK;
        self.active.freed_blocks += blocks;
        self.active.given.extend(runs);
        self.active.freed.extend(runs);
    }

    /// One holder less of these blocks; those that nobody holds are free after the next checkpoint.
    pub(crate) fn drop_blocks(&mut self, run: BlockRun) {
        let Db { shared, active, .. } = self;
        shared.drop_run(run, |free| {
            active.freed_blocks += free.len;
            // What is written again needs no place.
            while let Some((&block, _)) = active.deferred.range(free.start..free.end()).next() {
                active.deferred.remove(&block);
            }
            push_run(&mut active.freed, free);
        });
    }
}

/// A block's content out of that of a run of blocks, if it is in there.
pub(crate) fn part(first: u64, run: &Bytes, block: u64) -> Option<Bytes> {
    let at = (block - first).checked_mul(BLOCK).filter(|at| *at < run.len() as u64)? as usize;
    Some(run.slice(at..at + BLOCK as usize))
}

/// Reads an object's value; nothing of it shares the page.
pub(crate) fn decode_object(value: &[u8]) -> Result<Object, StoreError> {
    let mut d = Decoder::new(value);
    let object = Object::decode(&mut d)?;
    d.finish("object")?;
    Ok(object)
}

/// Goes through what keys have. It looks anew at each step, so that it may be kept while nothing changes.
#[derive(Debug)]
pub(crate) struct Scan {
    from: Key,
    tree: TreeScan,
}

impl Scan {
    /// The next key below `end` that has something. After a fault it may be asked again.
    pub(crate) fn next(&mut self, db: &mut Db, end: &[u8]) -> Result<Option<(Key, Found)>, Fault> {
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
