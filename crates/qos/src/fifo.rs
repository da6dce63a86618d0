//! First come, first served: the control of every comparison.

use crate::limits::QUEUED_MAX;
use crate::scheduler::{Dequeued, Full, QueueState, Scheduler};
use crate::work::{Class, Work};
use base::Instant;
use std::collections::VecDeque;

/// First come, first served; what must not wait goes before all else.
#[derive(Debug)]
pub struct Fifo<T> {
    immediate: VecDeque<(Work, T)>,
    queue: VecDeque<(Work, T)>,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo { immediate: VecDeque::new(), queue: VecDeque::new() }
    }
}

impl<T> Scheduler<T> for Fifo<T> {
    fn enqueue(&mut self, _now: Instant, work: Work, item: T) -> Result<(), Full<T>> {
        if self.len() >= QUEUED_MAX {
            return Err(Full(item));
        }
        let queue = if work.class == Class::Immediate { &mut self.immediate } else { &mut self.queue };
        queue.push_back((work, item));
        Ok(())
    }

    fn dequeue(&mut self, _now: Instant) -> Dequeued<T> {
        let next = self.immediate.pop_front().or_else(|| self.queue.pop_front());
        next.map_or(Dequeued::Empty, |(work, item)| Dequeued::Ready(work, item))
    }

    fn completed(&mut self, _now: Instant, _work: &Work) {}

    fn pass(&mut self, _now: Instant, _work: &Work) -> bool {
        self.is_empty()
    }

    fn len(&self) -> usize {
        self.immediate.len() + self.queue.len()
    }

    fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        self.immediate.drain(..).chain(self.queue.drain(..)).for_each(|(work, item)| take(work, item));
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        self.immediate.iter().chain(&self.queue).for_each(|(work, item)| see(work, item));
    }

    fn states(&self) -> Vec<QueueState> {
        let state = |name: &str, queued| QueueState {
            name: name.to_owned(),
            queued,
            flows: usize::from(queued > 0),
            promise: None,
            not_before: None,
        };
        vec![state("immediate", self.immediate.len()), state("queue", self.queue.len())]
    }
}
