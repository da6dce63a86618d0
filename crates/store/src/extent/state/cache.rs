//! What is kept in memory of the device: pages of the tree, blocks of data, objects read from pages.
//!
//! Owns the bound in bytes and the choice of what goes: a clock's hand passes over the entries, spares those used since
//! its last round and takes the others. Everything here is also on the device.

use crate::extent::objects::object::Object;
use crate::extent::tree::keys::Key;
use crate::extent::tree::page::Page;
use base::hash::FixedHashMap;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// What names an entry: an object by its key, all else by its first block.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Name {
    Block(u64),
    Object(Key),
}

#[derive(Clone, Debug)]
enum Kept {
    Page(Arc<Page>),
    Data(Bytes),
    Object(Arc<Object>),
}

#[derive(Debug)]
struct Slot {
    kept: Kept,
    bytes: usize,
    used: bool,
    /// Tells this entry from an earlier one of the same name, of which the clock may still know.
    stamp: u64,
}

/// How often something was found, and how often not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Found in memory.
    pub hits: u64,
    /// Had to be read.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache {
    slots: FixedHashMap<Name, Slot>,
    clock: VecDeque<(Name, u64)>,
    bytes: usize,
    bytes_max: usize,
    stamp: u64,
    hits: u64,
    misses: u64,
}

/// What an entry costs beside its content.
const OVERHEAD: usize = 128;

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Cache {
        let (slots, clock) = (FixedHashMap::default(), VecDeque::new());
        Cache { slots, clock, bytes: 0, bytes_max, stamp: 0, hits: 0, misses: 0 }
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits, misses: self.misses, bytes: self.bytes as u64 }
    }

    fn find(&mut self, name: &Name) -> Option<&Kept> {
        match self.slots.get_mut(name) {
            Some(slot) => {
                slot.used = true;
                self.hits += 1;
                Some(&slot.kept)
            }
            None => {
                self.misses += 1;
                None
            }
        }
    }

    pub(crate) fn page(&mut self, block: u64) -> Option<Arc<Page>> {
        match self.find(&Name::Block(block))? {
            Kept::Page(page) => Some(page.clone()),
            _ => None,
        }
    }

    pub(crate) fn data(&mut self, block: u64) -> Option<Bytes> {
        match self.find(&Name::Block(block))? {
            Kept::Data(data) => Some(data.clone()),
            _ => None,
        }
    }

    pub(crate) fn object(&mut self, key: &Key) -> Option<Arc<Object>> {
        match self.find(&Name::Object(key.clone()))? {
            Kept::Object(object) => Some(object.clone()),
            _ => None,
        }
    }

    pub(crate) fn keep_page(&mut self, block: u64, page: Arc<Page>) {
        let bytes = page.bytes();
        self.keep(Name::Block(block), Kept::Page(page), bytes);
    }

    /// Keeps a block of data. It is the whole of its buffer, which for the sake of alignment has twice its size.
    pub(crate) fn keep_data(&mut self, block: u64, data: Bytes) {
        let bytes = 2 * data.len();
        self.keep(Name::Block(block), Kept::Data(data), bytes);
    }

    pub(crate) fn keep_object(&mut self, key: Key, object: Arc<Object>) {
        let bytes = object.held_bytes() + 2 * key.len();
        self.keep(Name::Object(key), Kept::Object(object), bytes);
    }

    fn keep(&mut self, name: Name, kept: Kept, bytes: usize) {
        self.stamp += 1;
        let bytes = bytes + OVERHEAD;
        let slot = Slot { kept, bytes, used: false, stamp: self.stamp };
        self.bytes += bytes;
        if let Some(old) = self.slots.insert(name.clone(), slot) {
            self.bytes -= old.bytes;
        }
        self.clock.push_back((name, self.stamp));
        while self.bytes > self.bytes_max {
            self.turn();
        }
        // Those forgotten leave their places on the clock; it is swept before they outnumber the living.
        if self.clock.len() > 2 * self.slots.len() + 64 {
            let slots = &self.slots;
            self.clock.retain(|(name, stamp)| slots.get(name).is_some_and(|slot| slot.stamp == *stamp));
        }
    }

    /// Moves the hand by one.
    fn turn(&mut self) {
        let Some((name, stamp)) = self.clock.pop_front() else { return };
        let Some(slot) = self.slots.get_mut(&name).filter(|slot| slot.stamp == stamp) else { return };
        if slot.used {
            slot.used = false;
            self.clock.push_back((name, stamp));
        } else {
            self.bytes -= slot.bytes;
            self.slots.remove(&name);
        }
    }

    /// Forgets what began at a block that now holds something else.
    pub(crate) fn forget_block(&mut self, block: u64) {
        if let Some(slot) = self.slots.remove(&Name::Block(block)) {
            self.bytes -= slot.bytes;
        }
    }

    /// Forgets an object that has changed.
    pub(crate) fn forget_object(&mut self, key: &Key) {
        if let Some(slot) = self.slots.remove(&Name::Object(key.clone())) {
            self.bytes -= slot.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let mut cache = Cache::new(100 * 1024);
        for block in 1..1000 {
            cache.keep_data(block, Bytes::from(vec![0; 512]));
            assert!(cache.data(1).is_some(), "used again and again");
            assert!(cache.bytes <= 100 * 1024 && cache.clock.len() < 400);
        }
        assert!(cache.data(2).is_none() && cache.data(999).is_some());
        (0..1000).for_each(|block| cache.forget_block(block));
        assert_eq!((cache.bytes, cache.slots.len()), (0, 0));
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_not_kept() {
        let mut cache = Cache::new(1000);
        cache.keep_data(1, Bytes::from(vec![0; 4096]));
        assert!(cache.data(1).is_none());
        assert_eq!(cache.bytes, 0);
    }
}
