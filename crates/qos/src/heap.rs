//! A heap of slots by key whose entries can be changed and removed wherever they are.
//!
//! Invariant: `places[slot]` is where `slot` stands in `nodes`, or `NOWHERE`. Four children a node: half the levels of a
//! binary heap, and siblings share a cache line.

const NOWHERE: u32 = u32::MAX;
const CHILDREN: usize = 4;

/// The smallest key first. Slots are small numbers.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    nodes: Vec<(u64, u32)>,
    places: Vec<u32>,
}

impl Heap {
    /// The slot with the smallest key.
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.nodes.first().copied()
    }

    /// How many slots are in it.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Puts a slot in, or gives it another key.
    pub(crate) fn set(&mut self, slot: u32, key: u64) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NOWHERE);
        }
        let place = self.places[slot as usize];
        if place == NOWHERE {
            self.nodes.push((key, slot));
            return self.up(self.nodes.len() - 1);
        }
        let before = core::mem::replace(&mut self.nodes[place as usize].0, key);
        if key < before {
            self.up(place as usize);
        } else if key > before {
            self.down(place as usize);
        }
    }

    /// Takes a slot out, if it is in.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(place) = self.places.get_mut(slot as usize).filter(|place| **place != NOWHERE) else { return };
        let place = core::mem::replace(place, NOWHERE) as usize;
        self.nodes.swap_remove(place);
        if let Some((_, moved)) = self.nodes.get(place).copied() {
            self.places[moved as usize] = place as u32;
            self.up(place);
            let place = self.places[moved as usize];
            self.down(place as usize);
        }
    }

    fn up(&mut self, mut place: usize) {
        let node = self.nodes[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.nodes[parent].0 <= node.0 {
                break;
            }
            self.put(place, self.nodes[parent]);
            place = parent;
        }
        self.put(place, node);
    }

    fn down(&mut self, mut place: usize) {
        let node = self.nodes[place];
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.nodes.len());
            let Some(least) = children.min_by_key(|child| self.nodes[*child].0) else { break };
            if self.nodes[least].0 >= node.0 {
                break;
            }
            self.put(place, self.nodes[least]);
            place = least;
        }
        self.put(place, node);
    }

    fn put(&mut self, place: usize, node: (u64, u32)) {
        self.nodes[place] = node;
        self.places[node.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..40, prop::option::of(0u64..100)), 0..400)) {
            let (mut heap, mut model) = (Heap::default(), BTreeMap::new());
            for (slot, key) in steps {
                match key {
                    Some(key) => {
                        heap.set(slot, key);
                        model.insert(slot, key);
                    }
                    None => {
                        heap.remove(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(heap.len(), model.len());
                prop_assert_eq!(heap.first().map(|(key, _)| key), model.values().copied().min());
                if let Some((key, slot)) = heap.first() {
                    prop_assert_eq!(model.get(&slot), Some(&key));
                }
            }
        }
    }
}
