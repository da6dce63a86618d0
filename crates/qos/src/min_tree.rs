//! The smallest of many keys, each of a slot: set, change and remove a key wherever it is, and ask whose is least.
//!
//! Keys lie in blocks of eight, one cache line each, by slot; the least of each block is a key of a block one level up, and
//! so on to a single block. A key changes in its place, and only minima above it follow: with ten thousand slots that is
//! five lines, of which the upper ones are always near. A heap moves as many entries about, and has to note for each where
//! it is now, in a line that is near to nothing.
//!
//! With each minimum its slot is kept, apart from the keys, so that whose is least is known without a way down. A block is
//! searched only where its minimum goes, and then without branches: nothing could predict them.
//!
//! Invariants: an entry of a block that is no leaf is the least of the block below it, and has its slot; `least` is that of
//! the root; what is not in has the key `NONE`; of equal keys the one of the smallest slot is least.

use prefetch_index::prefetch_index;

const FAN: usize = 8;
/// The key of a slot that is not in.
const NONE: u64 = u64::MAX;
/// The largest key; a larger one counts as this.
pub(crate) const KEY_MAX: u64 = NONE - 1;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u64; FAN]);

impl Block {
    const EMPTY: Block = Block([NONE; FAN]);

    /// The least key, and where it is first.
    fn least(&self) -> (u64, usize) {
        let at = |place: usize| (self.0[place], place);
        let less = |a: (u64, usize), b: (u64, usize)| if b.0 < a.0 { b } else { a };
        less(less(less(at(0), at(1)), less(at(2), at(3))), less(less(at(4), at(5)), less(at(6), at(7))))
    }
}

/// A key and whose it is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    slot: u32,
}

/// The smallest key first, of equal ones that of the smallest slot. Slots are small numbers.
#[derive(Debug)]
pub(crate) struct MinTree {
    /// Level by level from the root on: below entry e of block b lies block `8 * b + 1 + e`. Of the last level, the leaves,
    /// there are as many as have been needed.
    blocks: Vec<Block>,
    /// Whose the keys are, of each block that is no leaf.
    slots: Vec<[u32; FAN]>,
    least: Entry,
    len: usize,
}

impl Default for MinTree {
    fn default() -> Self {
        let least = Entry { key: NONE, slot: 0 };
        MinTree { blocks: vec![Block::EMPTY], slots: Vec::new(), least, len: 0 }
    }
}

impl MinTree {
    /// The smallest key.
    pub(crate) fn least(&self) -> Option<u64> {
        self.first().map(|(key, _)| key)
    }

    /// The smallest key and its slot.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let Entry { key, slot } = self.least;
        (key != NONE).then_some((key, slot))
    }

    /// Has the cache fetch a slot's key.
    pub(crate) fn look_ahead(&self, slot: u32) {
        prefetch_index(&self.blocks, self.leaf_of(slot));
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot in, or gives it another key.
    pub(crate) fn set(&mut self, slot: u32, key: u64) {
        if self.leaf_of(slot) >= self.blocks.len() {
            self.grow(slot as usize / FAN);
        }
        self.len += usize::from(self.replace(slot, key.min(KEY_MAX)) == NONE);
    }

    /// Takes a slot out, if it is in.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.leaf_of(slot) < self.blocks.len() {
            self.len -= usize::from(self.replace(slot, NONE) != NONE);
        }
    }

    /// The leaf with a slot's key. Leaves lie behind all other blocks.
    fn leaf_of(&self, slot: u32) -> usize {
        self.slots.len() + slot as usize / FAN
    }

    /// The least of a block.
    fn least_of(&self, at: usize) -> Entry {
        let (key, place) = self.blocks[at].least();
        let slot = match self.slots.get(at) {
            Some(slots) => slots[place],
            None => ((at - self.slots.len()) * FAN + place) as u32,
        };
        Entry { key, slot }
    }

    /// Puts a key in a slot's place; gives the one before.
    fn replace(&mut self, slot: u32, key: u64) -> u64 {
        let mut at = self.leaf_of(slot);
        let before = core::mem::replace(&mut self.blocks[at].0[slot as usize % FAN], key);
        if before == key {
            return before;
        }
        let (mut old, mut new) = (slot, Entry { key, slot });
        while at > 0 {
            let (above, place) = ((at - 1) / FAN, (at - 1) % FAN);
            let known = Entry { key: self.blocks[above].0[place], slot: self.slots[above][place] };
            let Some(least) = self.least_after(known, old, new, at) else { return before };
            (self.blocks[above].0[place], self.slots[above][place]) = (least.key, least.slot);
            (at, old, new) = (above, known.slot, least);
        }
        if let Some(least) = self.least_after(self.least, old, new, 0) {
            self.least = least;
        }
        before
    }

    /// The least of a block now that what is `new` has come in the place of what was of the slot `old`; none if it is who
    /// was `known` to be.
    fn least_after(&self, known: Entry, old: u32, new: Entry, at: usize) -> Option<Entry> {
        if new.key < known.key {
            Some(new)
        } else if known.slot == old || new.key == known.key {
            Some(self.least_of(at))
        } else {
            None
        }
    }

    /// Makes room for that leaf and those before it, and for as many again as there are.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, leaf: usize) {
        let mut leaves = self.blocks.split_off(self.slots.len());
        leaves.resize((leaf + 1).max(2 * leaves.len()), Block::EMPTY);
        let mut above = self.slots.len();
        while leaves.len() > above * (FAN - 1) + 1 {
            above = above * FAN + 1;
        }
        self.slots = vec![[0; FAN]; above];
        self.blocks = vec![Block::EMPTY; above];
        self.blocks.extend(leaves);
        for at in (1..self.blocks.len()).rev() {
            let Entry { key, slot } = self.least_of(at);
            let (above, place) = ((at - 1) / FAN, (at - 1) % FAN);
            self.blocks[above].0[place] = key;
            self.slots[above][place] = slot;
        }
        self.least = self.least_of(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..700, prop::option::of(0u64..100)), 0..400)) {
            let (mut tree, mut model) = (MinTree::default(), BTreeMap::new());
            for (slot, key) in steps {
                match key {
                    Some(key) => {
                        tree.set(slot, key);
                        model.insert(slot, key);
                    }
                    None => {
                        tree.remove(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(tree.len(), model.len());
                let first = model.iter().map(|(slot, key)| (*key, *slot)).min();
                prop_assert_eq!(tree.first(), first);
                prop_assert_eq!(tree.least(), first.map(|(key, _)| key));
            }
        }
    }
}
