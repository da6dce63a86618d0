//! What is going to happen, in order of time; at the same time, in order of planning.

use base::Instant;
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events to come.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// When what is planned happens, the how manieth plan it was, and where the event lies: what is sorted is small.
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    events: Vec<Option<E>>,
    /// Places of events that have happened.
    free: Vec<usize>,
    planned: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), planned: 0 }
    }

    /// Plans an event.
    pub(crate) fn plan(&mut self, at: Instant, event: E) {
        self.planned += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.heap.push(Reverse((at, self.planned, place)));
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<(Instant, E)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        self.free.push(place);
        let event = self.events[place].take().expect("what is planned lies in its place");
        Some((at, event))
    }
}
