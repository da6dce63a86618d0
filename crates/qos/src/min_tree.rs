//! The smallest of many keys, each of a slot: set, change and remove a key wherever it is, and ask whose is least.
//!
//! Keys lie in blocks of eight, one cache line each, by slot; the least of each block is a key of a node above eight of them,
//! and so on to a single node. A key changes in its place, and only minima above it follow: with ten thousand slots that is
//! five blocks, of which the upper ones are always near. A heap moves as many entries about, and has to note for each where
//! it is now, in a line that is near to nothing.
//!
//! With each minimum its slot is kept, so that whose is least is known without a way down. A block is searched only where its
//! minimum goes, and then without branches: nothing could predict them.
//!
//! Invariants: an entry of a node is the least of what is below it, and has its slot; `least` is that of all; what is not in
//! has the key `NONE`; of equal keys the one of the smallest slot is least.

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

/// Eight blocks' least keys, and whose they are.
#[derive(Clone, Copy, Debug)]
struct Node {
    keys: Block,
    slots: [u32; FAN],
}

impl Node {
    const EMPTY: Node = Node { keys: Block::EMPTY, slots: [0; FAN] };

    fn at(&self, place: usize) -> Entry {
        Entry { key: self.keys.0[place], slot: self.slots[place] }
    }

    fn put(&mut self, place: usize, entry: Entry) {
        (self.keys.0[place], self.slots[place]) = (entry.key, entry.slot);
    }

    fn least(&self) -> Entry {
        let (key, place) = self.keys.least();
        Entry { key, slot: self.slots[place] }
    }
}

/// The smallest key first, of equal ones that of the smallest slot. Slots are small numbers.
#[derive(Debug)]
pub(crate) struct MinTree {
    /// The keys, by slot; as many as have been needed.
    leaves: Vec<Block>,
    /// Level by level from the root on, and the leaves behind the last: below entry e of node n lies number `8 * n + 1 + e`.
    nodes: Vec<Node>,
    least: Entry,
    len: usize,
}

impl Default for MinTree {
    fn default() -> Self {
        let least = Entry { key: NONE, slot: 0 };
        MinTree { leaves: vec![Block::EMPTY], nodes: Vec::new(), least, len: 0 }
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
        prefetch_index(&self.leaves, slot as usize / FAN);
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts a slot in, or gives it another key.
    pub(crate) fn set(&mut self, slot: u32, key: u64) {
        let leaf = slot as usize / FAN;
        if leaf >= self.leaves.len() {
            self.grow(leaf);
        }
        self.len += usize::from(self.replace(slot, key.min(KEY_MAX)) == NONE);
    }

    /// Takes a slot out, if it is in.
    pub(crate) fn remove(&mut self, slot: u32) {
        if (slot as usize) < self.leaves.len() * FAN {
            self.len -= usize::from(self.replace(slot, NONE) != NONE);
        }
    }

    /// Puts a key in a slot's place; gives the one before.
    #[inline]
    fn replace(&mut self, slot: u32, key: u64) -> u64 {
        let leaf = &mut self.leaves[slot as usize / FAN];
        let before = core::mem::replace(&mut leaf.0[slot as usize % FAN], key);
        if self.nodes.is_empty() {
            // Of few it is cheaper to look at all than to guess whether that is needed.
            let (key, place) = leaf.least();
            self.least = Entry { key, slot: place as u32 };
        } else if before != key {
            self.follow(slot, key);
        }
        before
    }

    /// Has the minima above a slot follow its key.
    #[inline(never)]
    fn follow(&mut self, slot: u32, key: u64) {
        let leaf = slot as usize / FAN;
        let (mut at, mut place) = above(self.nodes.len() + leaf);
        let mut known = self.nodes[at].at(place);
        let least = least_after(known, slot, Entry { key, slot }, || least_of_leaf(&self.leaves, leaf));
        let Some(mut least) = least else { return };
        while at > 0 {
            let (parent, place_there) = above(at);
            let known_there = self.nodes[parent].at(place_there);
            let node = &mut self.nodes[at];
            node.put(place, least);
            let Some(next) = least_after(known_there, known.slot, least, || node.least()) else { return };
            (at, place, known, least) = (parent, place_there, known_there, next);
        }
        let root = &mut self.nodes[0];
        root.put(place, least);
        if let Some(least) = least_after(self.least, known.slot, least, || root.least()) {
            self.least = least;
        }
    }

    /// Makes room for that leaf and those before it, and for as many again as there are.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, leaf: usize) {
        self.leaves.resize((leaf + 1).max(2 * self.leaves.len()), Block::EMPTY);
        let mut nodes = self.nodes.len();
        while self.leaves.len() > nodes * (FAN - 1) + 1 {
            nodes = nodes * FAN + 1;
        }
        self.nodes = vec![Node::EMPTY; nodes];
        for leaf in 0..self.leaves.len() {
            let (at, place) = above(nodes + leaf);
            self.nodes[at].put(place, least_of_leaf(&self.leaves, leaf));
        }
        for below in (1..nodes).rev() {
            let (at, place) = above(below);
            let least = self.nodes[below].least();
            self.nodes[at].put(place, least);
        }
        self.least = self.nodes[0].least();
    }
}

/// Below which node the one of some number is, or leaf behind all nodes, and in which place.
fn above(number: usize) -> (usize, usize) {
    ((number - 1) / FAN, (number - 1) % FAN)
}

fn least_of_leaf(leaves: &[Block], leaf: usize) -> Entry {
    let (key, place) = leaves[leaf].least();
    Entry { key, slot: (leaf * FAN + place) as u32 }
}

/// The least of a block now that what is `new` has come in the place of what was of the slot `old`; none if it is who was
/// `known` to be. The block is searched only if need be.
#[inline(always)]
fn least_after(known: Entry, old: u32, new: Entry, search: impl FnOnce() -> Entry) -> Option<Entry> {
    if new.key < known.key {
        Some(new)
    } else if known.slot == old || new.key == known.key {
        Some(search())
    } else {
        None
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
