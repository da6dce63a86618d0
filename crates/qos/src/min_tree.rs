//! The smallest of many keys, each of a slot: set, change and remove a key wherever it is, and ask whose is least.
//!
//! Keys lie in blocks of eight, one cache line each, by slot; the least of each block is a key of a block one level up, and
//! so on to a single block. A key changes in its place, and only minima above it follow: with ten thousand slots that is
//! five lines, of which the upper ones are always near. A heap moves as many entries about, and has to note for each where
//! it is now, in a line that is near to nothing.
//!
//! Invariants: an entry of a level is the least of its block one level below; the top level is one block; what is not in has
//! the key `NONE`.

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
        self.0.iter().copied().fold(NONE, u64::min)
    }
}

/// The smallest key first, of equal ones that of the smallest slot. Slots are small numbers.
#[derive(Debug)]
pub(crate) struct MinTree {
    /// The slots' keys, then the minima of each level by the next.
    levels: Vec<Vec<Block>>,
    len: usize,
}

impl Default for MinTree {
    fn default() -> Self {
        MinTree { levels: vec![vec![Block::EMPTY]], len: 0 }
    }
}

impl MinTree {
    /// The smallest key.
    pub(crate) fn least(&self) -> Option<u64> {
        self.levels.last().map(|top| top[0].least()).filter(|key| *key != NONE)
    }

    /// The smallest key and its slot.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        let key = self.least()?;
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let place =
                level[at].0.iter().position(|entry| *entry == key).expect("a minimum is that of an entry below");
            at = at * FAN + place;
        }
        Some((key, at as u32))
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot in, or gives it another key.
    pub(crate) fn set(&mut self, slot: u32, key: u64) {
        if slot as usize >= self.levels[0].len() * FAN {
            self.grow(slot as usize / FAN + 1);
        }
        self.len += usize::from(self.replace(slot as usize, key.min(KEY_MAX)) == NONE);
    }

    /// Takes a slot out, if it is in.
    pub(crate) fn remove(&mut self, slot: u32) {
        if (slot as usize) < self.levels[0].len() * FAN {
            self.len -= usize::from(self.replace(slot as usize, NONE) != NONE);
        }
    }

    /// Puts a key in a slot's place; gives the one before.
    fn replace(&mut self, slot: usize, key: u64) -> u64 {
        let before = core::mem::replace(&mut self.levels[0][slot / FAN].0[slot % FAN], key);
        let mut at = slot / FAN;
        for level in 1..self.levels.len() {
            let least = self.levels[level - 1][at].least();
            let above = &mut self.levels[level][at / FAN].0[at % FAN];
            if *above == least {
                break;
            }
            *above = least;
            at /= FAN;
        }
        before
    }

    /// Makes room for so many blocks of slots, and for as many again as there are.
    fn grow(&mut self, blocks: usize) {
        let blocks = blocks.max(2 * self.levels[0].len());
        self.levels.truncate(1);
        self.levels[0].resize(blocks, Block::EMPTY);
        while let Some(below) = self.levels.last().filter(|level| level.len() > 1) {
            let mut level = vec![Block::EMPTY; below.len().div_ceil(FAN)];
            below.iter().enumerate().for_each(|(at, block)| level[at / FAN].0[at % FAN] = block.least());
            self.levels.push(level);
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
