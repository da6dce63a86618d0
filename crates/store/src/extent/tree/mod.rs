//! Looking things up in the metadata tree.
//!
//! Owns the way from the root to a leaf. A page that is not in memory ends the attempt: the caller has it read and asks
//! again. Pages never change, so an attempt may be repeated at will.

pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod merge;
pub(crate) mod page;

use crate::contract::StoreError;
use crate::extent::tree::key::Key;
use crate::extent::tree::page::{Page, PagePtr};
use bytes::Bytes;
use std::sync::Arc;

/// Why something cannot be done now, or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// This page has to be read first.
    Page(PagePtr),
    /// This block of data, with this checksum, has to be read first.
    Data(u64, u32),
    /// A checkpoint has to end first: until then there is no room.
    Room,
    /// The next group has to begin first.
    Turn,
    /// It fails.
    Failed(StoreError),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Failed(error)
    }
}

impl From<wire::Malformed> for Fault {
    fn from(error: wire::Malformed) -> Fault {
        Fault::Failed(error.into())
    }
}

/// Pages in memory.
pub(crate) trait Pages {
    /// The page, or what has to happen first.
    fn page(&mut self, ptr: PagePtr) -> Result<Arc<Page>, Fault>;

    /// Pages that are likely to be wanted after one that has just been missing.
    fn expect(&mut self, _ahead: Vec<PagePtr>) {}
}

/// Leaves that are read together with one that a scan lacks: 128 KiB with it.
const AHEAD_LEAVES: usize = 15;

/// A leaf, and the key from which on the next one is responsible.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) page: Arc<Page>,
    pub(crate) bound: Option<Key>,
}

/// How deep a tree may be: far beyond what any device holds, so that a loop of pages ends.
pub(crate) const LEVELS_MAX: u8 = 32;

/// Refuses a child whose level is not one below its parent's.
pub(crate) fn check_level(parent: Option<u8>, page: &Page) -> Result<(), Fault> {
    match parent {
        Some(level) if page.level().checked_add(1) == Some(level) => Ok(()),
        None if page.level() < LEVELS_MAX => Ok(()),
        _ => Err(wire::Malformed::new("page", "is not of the level where it stands").into()),
    }
}

/// The leaf where `key` belongs. `goes_on` if the ones behind it are likely to be wanted, too.
fn leaf(pages: &mut dyn Pages, root: PagePtr, key: &[u8], goes_on: bool) -> Result<Leaf, Fault> {
    let mut page = pages.page(root)?;
    check_level(None, &page)?;
    let mut bound = None;
    while page.level() > 0 {
        let at = page.child_for(key);
        if at + 1 < page.len() {
            bound = Some(page.key(at + 1).into());
        }
        let found = pages.page(page.child(at));
        if goes_on && page.level() == 1 && matches!(found, Err(Fault::Page(_))) {
            pages.expect((at + 1..page.len()).take(AHEAD_LEAVES).map(|at| page.child(at)).collect());
        }
        let child = found?;
        check_level(Some(page.level()), &child)?;
        page = child;
    }
    Ok(Leaf { page, bound })
}

/// The value of `key`.
pub(crate) fn get(pages: &mut dyn Pages, root: Option<PagePtr>, key: &[u8]) -> Result<Option<Bytes>, Fault> {
    let Some(root) = root else { return Ok(None) };
    let mut page = pages.page(root)?;
    check_level(None, &page)?;
    while page.level() > 0 {
        let child = pages.page(page.child(page.child_for(key)))?;
        check_level(Some(page.level()), &child)?;
        page = child;
    }
    let at = page.lower_bound(key);
    Ok((at < page.len() && page.key(at) == key).then(|| page.value_bytes(at)))
}

/// Goes through the entries of a tree from some key on.
#[derive(Debug)]
pub(crate) struct TreeScan {
    root: Option<PagePtr>,
    leaf: Option<(Leaf, usize)>,
    next: Option<Key>,
    /// Whether it has passed over a whole leaf.
    goes_on: bool,
}

impl TreeScan {
    /// Begins at the first key not below `from`.
    pub(crate) fn new(root: Option<PagePtr>, from: &[u8]) -> TreeScan {
        TreeScan { root, leaf: None, next: Some(from.into()), goes_on: false }
    }

    /// The leaf and the place in it of the next entry. After a fault it may be asked again.
    pub(crate) fn peek(&mut self, pages: &mut dyn Pages) -> Result<Option<(&Page, usize)>, Fault> {
        let Some(root) = self.root else { return Ok(None) };
        loop {
            match &self.leaf {
                Some((leaf, at)) if *at < leaf.page.len() => break,
                Some((leaf, _)) => {
                    self.next = leaf.bound.clone();
                    self.leaf = None;
                    self.goes_on = true;
                }
                None => {
                    let Some(from) = &self.next else { return Ok(None) };
                    let leaf = leaf(pages, root, from, self.goes_on)?;
                    let at = leaf.page.lower_bound(from);
                    self.leaf = Some((leaf, at));
                }
            }
        }
        Ok(self.leaf.as_ref().map(|(leaf, at)| (&*leaf.page, *at)))
    }

    /// Passes over the entry that `peek` showed.
    pub(crate) fn advance(&mut self) {
        if let Some((_, at)) = &mut self.leaf {
            *at += 1;
        }
    }
}
