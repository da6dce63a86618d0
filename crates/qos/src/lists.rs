//! Many queues in one allocation.
//!
//! A scheduler has thousands of queues of which most hold one piece of work or none; a ring buffer for each would cost
//! more than the work. Invariant: every node is in one list or in the list of free ones.

use crate::work::Cost;

const END: u32 = u32::MAX;

/// One queue among those of a `Lists`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        List { first: END, last: END }
    }
}

#[derive(Debug)]
struct Node<E> {
    entry: Option<E>,
    next: u32,
}

/// The entries of all queues.
#[derive(Debug)]
pub(crate) struct Lists<E> {
    nodes: Vec<Node<E>>,
    free: List,
}

impl<E> Default for Lists<E> {
    fn default() -> Self {
        Lists { nodes: Vec::new(), free: List::default() }
    }
}

impl<E> Lists<E> {
    /// Adds to a queue's end.
    pub(crate) fn push(&mut self, list: &mut List, entry: E) {
        let node = Node { entry: Some(entry), next: END };
        let place = match self.free.first {
            END => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
            place => {
                self.free.first = self.nodes[place as usize].next;
                self.nodes[place as usize] = node;
                place
            }
        };
        match list.last {
            END => list.first = place,
            last => self.nodes[last as usize].next = place,
        }
        list.last = place;
    }

    /// All that are in some queue, in no particular order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &E> {
        self.nodes.iter().filter_map(|node| node.entry.as_ref())
    }

    /// Takes from a queue's front.
    pub(crate) fn pop(&mut self, list: &mut List) -> Option<E> {
        let place = list.first;
        let node = self.nodes.get_mut(place as usize)?;
        let entry = node.entry.take();
        list.first = core::mem::replace(&mut node.next, self.free.first);
        self.free.first = place;
        if list.first == END {
            list.last = END;
        }
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
    fn queues_share_their_nodes_and_keep_their_order() {
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
        assert_eq!(lists.nodes.len(), 20, "nodes are used again");
    }
}
