//! Making the next tree: the frozen changes merged into the pages of the last one.
//!
//! Owns the walk. It goes through the changes in the order of their keys, one leaf at a time: the leaf's entries and
//! the changes that belong there become one or more new leaves, written at once. The inner pages on the way are open
//! in memory and written as soon as the walk has passed them. No page of the old tree is touched.
//!
//! Invariants: the old tree stays whole; `replaced` names exactly its pages that the new one does not use.

use crate::extent::device::IoBuf;
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::state::db::Db;
use crate::extent::state::memtable::Memtable;
use crate::extent::tree::key::Key;
use crate::extent::tree::page::{self, PAGE_BYTES, Page, PagePtr, entry_bytes};
use crate::extent::tree::{Fault, Pages, check_level};
use base::checksum::{CRC_SEED, crc32c};
use bytes::Bytes;
use core::ops::Bound;
use std::sync::Arc;

/// A leaf smaller than this takes its right neighbour in.
const PAGE_BYTES_MIN: usize = PAGE_BYTES / 4;

/// Blocks that the writer takes at a time: pages that follow each other go out in one write.
const CHUNK_BLOCKS: u64 = 64;

/// Puts new pages next to each other.
#[derive(Debug, Default)]
pub(crate) struct PageWriter {
    chunk: Option<(BlockRun, IoBuf)>,
    filled: u64,
    /// What is ready to be written: the first block and the bytes.
    pub(crate) ready: Vec<(u64, Bytes)>,
    /// The blocks of all pages so far.
    pub(crate) pages: Vec<BlockRun>,
}

impl PageWriter {
    fn write(&mut self, db: &mut Db, level: u8, entries: &[(Key, Bytes)]) -> Result<PagePtr, Fault> {
        let encoded = page::encode(level, entries);
        let bytes = Bytes::from_owner(encoded);
        let blocks = bytes.len() as u64 / BLOCK;
        if self.chunk.as_ref().is_none_or(|(run, _)| run.len - self.filled < blocks) {
            self.flush(db);
            let run = db.space.allocate_whole(blocks.max(CHUNK_BLOCKS)).or_else(|| db.space.allocate_whole(blocks));
            let run = run.ok_or(Fault::Room)?;
            self.chunk = Some((run, IoBuf::to_fill((run.len * BLOCK) as usize)));
        }
        let (run, buf) = self.chunk.as_mut().expect("it was just made");
        let at = (self.filled * BLOCK) as usize;
        buf.as_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
        let ptr = PagePtr { block: run.start + self.filled, blocks: blocks as u32, crc: crc32c(CRC_SEED, &bytes) };
        self.pages.push(BlockRun::new(ptr.block, blocks));
        self.filled += blocks;
        db.cache.keep_written(ptr.block, Arc::new(Page::encoded(level, entries.len(), bytes)));
        Ok(ptr)
    }

    /// Makes what there is ready to be written; gives back what was not needed.
    pub(crate) fn flush(&mut self, db: &mut Db) {
        let Some((run, buf)) = self.chunk.take() else { return };
        if self.filled < run.len {
            db.space.release(BlockRun::new(run.start + self.filled, run.len - self.filled));
        }
        if self.filled > 0 {
            self.ready.push((run.start, Bytes::from_owner(buf).slice(..(self.filled * BLOCK) as usize)));
        }
        self.filled = 0;
    }
}

/// A child of an open page.
#[derive(Debug)]
enum Child {
    Disk(PagePtr),
    Open(Box<Inner>),
}

/// An inner page that is being changed.
#[derive(Debug)]
struct Inner {
    level: u8,
    children: Vec<(Key, Child)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Merge {
    top: Option<Inner>,
    root: Option<PagePtr>,
    /// Changes below this key are in; none when all are.
    from: Option<Key>,
    /// The old tree's pages that have been replaced.
    pub(crate) replaced: Vec<BlockRun>,
    pub(crate) writer: PageWriter,
}

/// What one leaf's step ends with: where to go on.
type Next = Option<Key>;

impl Merge {
    /// Begins with the old tree.
    pub(crate) fn new(root: Option<PagePtr>) -> Merge {
        Merge { top: None, root, from: Some(Key::default()), replaced: Vec::new(), writer: PageWriter::default() }
    }

    /// Merges the changes of one leaf; true when there are no more. After a fault it may be asked again.
    pub(crate) fn step(&mut self, db: &mut Db) -> Result<bool, Fault> {
        let Some(from) = &self.from else { return Ok(true) };
        let Some(key) = db.frozen.table.next_change(from) else {
            self.from = None;
            return Ok(true);
        };
        if self.top.is_none() {
            self.top = Some(self.open_top(db)?);
        }
        let mut top = self.top.take().expect("it was just made");
        let result = self.descend(db, &mut top, &key, &Key::default(), None);
        self.top = Some(top);
        self.from = result?;
        Ok(self.from.is_none())
    }

    /// A page above the root, so that the root is a child like any other.
    fn open_top(&self, db: &mut Db) -> Result<Inner, Fault> {
        let Some(ptr) = self.root else { return Ok(Inner { level: 1, children: Vec::new() }) };
        let root = db.page(ptr)?;
        check_level(None, &root)?;
        Ok(Inner { level: root.level() + 1, children: vec![(Key::default(), Child::Disk(ptr))] })
    }

    fn descend(
        &mut self,
        db: &mut Db,
        inner: &mut Inner,
        key: &Key,
        lower: &Key,
        bound: Option<Key>,
    ) -> Result<Next, Fault> {
        let at = inner.children.partition_point(|(first, _)| first <= key).saturating_sub(1);
        if inner.level == 1 {
            return self.merge_leaf(db, inner, at, key, lower, bound);
        }
        // The walk goes to the right: what is open on the left is done.
        let mut at = at;
        let open = inner.children[..at].iter().rposition(|(_, child)| matches!(child, Child::Open(_)));
        if let Some(open) = open {
            at = at - 1 + self.close_child(db, inner, open)?;
        }
        let (level, bound) = (inner.level, inner.children.get(at + 1).map(|(key, _)| key.clone()).or(bound));
        let Some((first, child)) = inner.children.get_mut(at) else {
            // Nothing is left below: begin anew.
            let child = Inner { level: level - 1, children: Vec::new() };
            inner.children.push((lower.clone(), Child::Open(Box::new(child))));
            return self.descend(db, inner, key, lower, bound);
        };
        // The first child is responsible for all that its parent is, also for what a removed neighbour was.
        if at == 0 {
            first.clone_from(lower);
        }
        let lower = first.clone();
        if let Child::Disk(ptr) = *child {
            let page = db.page(ptr)?;
            check_level(Some(level), &page)?;
            let children = (0..page.len()).map(|at| (Key::from(page.key(at)), Child::Disk(page.child(at))));
            let mut children: Vec<_> = children.collect();
            children[0].0 = first.clone();
            *child = Child::Open(Box::new(Inner { level: level - 1, children }));
            self.replaced.push(BlockRun::new(ptr.block, u64::from(ptr.blocks)));
        }
        let Child::Open(open) = child else { unreachable!("it was just opened") };
        self.descend(db, open, key, &lower, bound)
    }

    /// Merges the changes of the leaf at `at`, and of its neighbours on the right while the result is small.
    fn merge_leaf(
        &mut self,
        db: &mut Db,
        parent: &mut Inner,
        at: usize,
        key: &Key,
        lower: &Key,
        outer_bound: Option<Key>,
    ) -> Result<Next, Fault> {
        let first = if at == 0 { lower.clone() } else { parent.children[at].0.clone() };
        let (mut entries, mut from, mut count) = (Vec::new(), key.clone(), 0);
        let mut old = Vec::new();
        let bound = loop {
            let page = match parent.children.get(at + count) {
                Some((leaf, Child::Disk(ptr))) => {
                    let leaf = if count == 0 { &first } else { leaf };
                    let end = parent.children.get(at + count + 1).map(|(key, _)| key).or(outer_bound.as_ref());
                    old.push(BlockRun::new(ptr.block, u64::from(ptr.blocks)));
                    count += 1;
                    // What is removed as a whole, as the old entries of a log are, need not be read.
                    match end.is_some_and(|end| db.frozen.table.removes_all(leaf, end)) {
                        true => None,
                        false => Some(leaf_page(db, *ptr)?),
                    }
                }
                Some((_, Child::Open(_))) => unreachable!("leaves are never open"),
                None => None,
            };
            let next = parent.children.get(at + count).map(|(key, _)| key.clone());
            let bound = next.clone().or(outer_bound.clone());
            entries.reserve(page.as_ref().map_or(0, |page| page.len()));
            merge_entries(&db.frozen.table, page.as_deref(), &from, bound.as_deref(), &mut entries);
            let size: usize = entries.iter().map(|(k, v)| entry_bytes(k, v)).sum();
            match next {
                Some(next) if size < PAGE_BYTES_MIN => from = next,
                _ => break bound,
            }
        };
        let mut leaves = write_pages(&mut self.writer, db, 0, &entries)?;
        if let Some((key, _)) = leaves.first_mut() {
            *key = first;
        }
        let leaves = leaves.into_iter().map(|(key, ptr)| (key, Child::Disk(ptr)));
        parent.children.splice(at..at + count, leaves);
        self.replaced.extend(old);
        Ok(bound)
    }

    /// Writes an open child and all that is open below it; returns how many pages it has become.
    fn close_child(&mut self, db: &mut Db, parent: &mut Inner, at: usize) -> Result<usize, Fault> {
        let first = parent.children[at].0.clone();
        let Child::Open(open) = &mut parent.children[at].1 else { return Ok(1) };
        let mut pages = self.close(db, open)?;
        if let Some((key, _)) = pages.first_mut() {
            *key = first;
        }
        let count = pages.len();
        parent.children.splice(at..=at, pages.into_iter().map(|(key, ptr)| (key, Child::Disk(ptr))));
        Ok(count)
    }

    fn close(&mut self, db: &mut Db, inner: &mut Inner) -> Result<Vec<(Key, PagePtr)>, Fault> {
        while let Some(at) = inner.children.iter().position(|(_, child)| matches!(child, Child::Open(_))) {
            self.close_child(db, inner, at)?;
        }
        let entries: Vec<(Key, Bytes)> = inner
            .children
            .iter()
            .filter_map(|(key, child)| match child {
                Child::Disk(ptr) => Some((key.clone(), ptr.to_bytes())),
                Child::Open(_) => None,
            })
            .collect();
        write_pages(&mut self.writer, db, inner.level, &entries)
    }

    /// All changes are in: writes what is open, and gives the new root.
    pub(crate) fn finish(&mut self, db: &mut Db) -> Result<Option<PagePtr>, Fault> {
        let Some(mut top) = self.top.take() else { return Ok(self.root) };
        while let Some(at) = top.children.iter().position(|(_, child)| matches!(child, Child::Open(_))) {
            self.close_child(db, &mut top, at)?;
        }
        let disk = |(key, child)| match child {
            Child::Disk(ptr) => Some((key, ptr)),
            Child::Open(_) => None,
        };
        let mut pages: Vec<(Key, PagePtr)> = top.children.into_iter().filter_map(disk).collect();
        let mut level = top.level;
        while pages.len() > 1 {
            let entries: Vec<_> = pages.into_iter().map(|(key, ptr)| (key, ptr.to_bytes())).collect();
            pages = write_pages(&mut self.writer, db, level, &entries)?;
            level += 1;
        }
        self.writer.flush(db);
        Ok(pages.pop().map(|(_, ptr)| ptr))
    }
}

fn leaf_page(db: &mut Db, ptr: PagePtr) -> Result<Arc<Page>, Fault> {
    let page = db.page(ptr)?;
    check_level(Some(1), &page)?;
    Ok(page)
}

/// Cuts entries into pages of the right size and writes them; returns each one's first key and place.
fn write_pages(
    writer: &mut PageWriter,
    db: &mut Db,
    level: u8,
    entries: &[(Key, Bytes)],
) -> Result<Vec<(Key, PagePtr)>, Fault> {
    let mut pages = Vec::new();
    let (mut start, mut size) = (0, 16);
    for (at, (key, value)) in entries.iter().enumerate() {
        let bytes = entry_bytes(key, value);
        if at > start && size + bytes > PAGE_BYTES {
            pages.push((entries[start].0.clone(), writer.write(db, level, &entries[start..at])?));
            (start, size) = (at, 16);
        }
        size += bytes;
    }
    if start < entries.len() {
        pages.push((entries[start].0.clone(), writer.write(db, level, &entries[start..])?));
    }
    Ok(pages)
}

/// Appends a leaf's entries with the changes from `from` up to, without, `bound`.
fn merge_entries(
    table: &Memtable,
    page: Option<&Page>,
    from: &[u8],
    bound: Option<&[u8]>,
    out: &mut Vec<(Key, Bytes)>,
) {
    let mut changes = table
        .entries_from(Bound::Included(from))
        .take_while(|(key, _)| bound.is_none_or(|bound| &***key < bound))
        .peekable();
    let first = page.map_or(from, |page| page.key(0).min(from));
    let mut removed = table.removed_from(first).peekable();
    for at in 0..page.map_or(0, Page::len) {
        let page = page.expect("it has entries");
        let key = page.key(at);
        let mut changed = false;
        while let Some((change, entry)) = changes.next_if(|(change, _)| &***change <= key) {
            changed = &**change == key;
            out.extend(entry.value().map(|value| (change.clone(), value)));
        }
        while removed.next_if(|(_, end)| &***end <= key).is_some() {}
        if !changed && removed.peek().is_none_or(|(first, _)| key < &***first) {
            out.push((key.into(), page.value_bytes(at)));
        }
    }
    for (key, entry) in changes {
        out.extend(entry.value().map(|value| (key.clone(), value)));
    }
}
