//! What is going to happen, in order of time; at the same time, in order of planning.

use base::Instant;
use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events to come.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<Planned<E>>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<E> {
    at: Instant,
    order: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), planned: 0 }
    }

    /// Plans an event.
    pub(crate) fn plan(&mut self, at: Instant, event: E) {
        self.planned += 1;
        self.heap.push(Reverse(Planned { at, order: self.planned, event }));
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(planned)| planned.at)
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<(Instant, E)> {
        self.heap.pop().map(|Reverse(planned)| (planned.at, planned.event))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Planned<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
