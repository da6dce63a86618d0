//! Many queues in one allocation.
//!
//! A scheduler has thousands of queues of which most hold one piece of work or none; a ring buffer for each would cost
//! more than the work. Invariant: every place is in one list or in the list of free ones.

use crate::work::Cost;
use prefetch_index::prefetch_index;

const END: u32 = u32::MAX;

/// One queue among those of a `Lists`: the places of its first and its last entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.first == END
    }
}

impl Default for List {
    fn default() -> Self {
        List { first: END, last: END }
    }
}

/// The entries of all queues. Each lies in a place, and the places' links lie apart: to add to a queue means to change the
/// link of its last entry, which is long out of the cache, while all links of thousands of queues are in it.
#[derive(Debug)]
pub(crate) struct Lists<E> {
    entries: Vec<Option<E>>,
    /// By place, the next one of its queue or of the free ones; `END` behind the last.
    next: Vec<u32>,
    free: u32,
}

impl<E> Default for Lists<E> {
    fn default() -> Self {
        Lists { entries: Vec::new(), next: Vec::new(), free: END }
    }
}

impl<E> Lists<E> {
    /// Adds to a queue's end.
    pub(crate) fn push(&mut self, list: &mut List, entry: E) {
        let place = match self.free {
            END => {
                self.entries.push(Some(entry));
                self.next.push(END);
                (self.entries.len() - 1) as u32
            }
            place => {
                self.free = self.next[place as usize];
                self.entries[place as usize] = Some(entry);
                place
            }
        };
        self.next[place as usize] = END;
        if list.first == END {
            list.first = place;
        } else {
            self.next[list.last as usize] = place;
        }
        list.last = place;
    }

    /// Has the cache fetch a queue's front.
    pub(crate) fn look_ahead(&self, list: &List) {
        prefetch_index(&self.entries, list.first as usize);
        prefetch_index(&self.next, list.first as usize);
        prefetch_index(&self.next, list.last as usize);
    }

    /// All that are in some queue, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().flatten()
    }

    /// Takes from a queue's front.
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<E> {
        let place = list.first;
        let entry = self.entries.get_mut(place as usize)?.take();
        list.first = core::mem::replace(&mut self.next[place as usize], self.free);
        self.free = place;
        entry
    }
}

/// Work that waits, without what belongs to its flow as a whole.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) work: crate::Work,
    pub(crate) item: T,
}

impl<T> Waiting<T> {
    pub(crate) fn cost(&self) -> Cost {
        self.work.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_share_their_places_and_keep_their_order() {
        let (mut lists, mut a, mut b) = (Lists::default(), List::default(), List::default());
        for round in 0..3 {
            for n in 0..10 {
                lists.push(&mut a, n);
                lists.push(&mut b, 100 + n);
            }
            assert!((0..10).all(|n| lists.pop(&mut a) == Some(n)), "round {round}");
            assert!((0..10).all(|n| lists.pop(&mut b) == Some(100 + n)), "round {round}");
            assert!(lists.pop(&mut a).is_none() && lists.pop(&mut b).is_none());
        }
        assert_eq!(lists.entries.len(), 20, "places are used again");
    }
}
