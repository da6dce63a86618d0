//! The smallest of many keys, each of a slot: set, change and remove a key wherever it is, and ask whose is least.
//!
//! Keys lie in blocks of eight, one cache line each, by slot; the least of each block is a key of a block one level up, and
//! so on to a single block. A key changes in its place, and only minima above it follow: with ten thousand slots that is
//! five lines, of which the upper ones are always near. A heap moves as many entries about, and has to note for each where
//! it is now, in a line that is near to nothing. What is looked for in a block is found without branches: nothing could
//! predict them.
//!
//! Invariants: an entry of a block that is no leaf is the least of the block below it; `least` is that of the root; what is
//! not in has the key `NONE`.

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

    fn least(&self) -> u64 {
        let [a, b, c, d, e, f, g, h] = self.0;
        a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
    }

    /// Where a key is first. It has to be there.
    fn place_of(&self, key: u64) -> usize {
        let places = (0..FAN).fold(0, |places, place| places | (u32::from(self.0[place] == key) << place));
        debug_assert!(places != 0, "a minimum is that of an entry below");
        places.trailing_zeros() as usize
    }
}

/// The smallest key first, of equal ones that of the smallest slot. Slots are small numbers.
#[derive(Debug)]
pub(crate) struct MinTree {
    /// Level by level from the root on: below entry e of block b lies block `8 * b + 1 + e`. Of the last level, the leaves,
    /// there are as many as have been needed.
    blocks: Vec<Block>,
    /// The first leaf.
    leaves_at: usize,
    least: u64,
    len: usize,
}

impl Default for MinTree {
    fn default() -> Self {
        MinTree { blocks: vec![Block::EMPTY], leaves_at: 0, least: NONE, len: 0 }
    }
}

impl MinTree {
    /// The smallest key.
    pub(crate) fn least(&self) -> Option<u64> {
        (self.least != NONE).then_some(self.least)
    }

    /// The smallest key and its slot.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let key = self.least()?;
        let mut at = 0;
        while at < self.leaves_at {
            at = at * FAN + 1 + self.blocks[at].place_of(key);
        }
        Some((key, ((at - self.leaves_at) * FAN + self.blocks[at].place_of(key)) as u32))
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot in, or gives it another key.
    pub(crate) fn set(&mut self, slot: u32, key: u64) {
        if self.leaves_at + slot as usize / FAN >= self.blocks.len() {
            self.grow(slot as usize / FAN);
        }
        self.len += usize::from(self.replace(slot, key.min(KEY_MAX)) == NONE);
    }

    /// Takes a slot out, if it is in.
    pub(crate) fn remove(&mut self, slot: u32) {
        if self.leaves_at + (slot as usize / FAN) < self.blocks.len() {
            self.len -= usize::from(self.replace(slot, NONE) != NONE);
        }
    }

    /// Puts a key in a slot's place; gives the one before.
    fn replace(&mut self, slot: u32, key: u64) -> u64 {
        let mut at = self.leaves_at + slot as usize / FAN;
        let block = &mut self.blocks[at];
        let before = core::mem::replace(&mut block.0[slot as usize % FAN], key);
        let mut least = block.least();
        while at > 0 {
            let above = (at - 1) / FAN;
            let block = &mut self.blocks[above];
            if core::mem::replace(&mut block.0[(at - 1) % FAN], least) == least {
                return before;
            }
            (at, least) = (above, block.least());
        }
        self.least = least;
        before
    }

    /// Makes room for that leaf and those before it, and for as many again as there are.
    fn grow(&mut self, leaf: usize) {
        let mut leaves = self.blocks.split_off(self.leaves_at);
        leaves.resize((leaf + 1).max(2 * leaves.len()), Block::EMPTY);
        while leaves.len() > self.leaves_at * (FAN - 1) + 1 {
            self.leaves_at = self.leaves_at * FAN + 1;
        }
        self.blocks.clear();
        self.blocks.resize(self.leaves_at, Block::EMPTY);
        self.blocks.extend(leaves);
        for at in (1..self.blocks.len()).rev() {
            self.blocks[(at - 1) / FAN].0[(at - 1) % FAN] = self.blocks[at].least();
        }
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
