//! The place where the order of work is decided: one small trait, and the simplest that implements it.
//!
//! Everything an OSD does for others passes through here, with its class and its cost. The schedulers that keep
//! promises of service implement the same trait.

use base::Instant;
use std::collections::VecDeque;

/// Whose work it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorkClass {
    /// A client's request.
    Client,
    /// Replicated writes, confirmations, peering: what others wait for.
    Peering,
    /// Objects for members that lack them.
    Recovery,
    /// What nobody waits for: the trimming of removed snapshots.
    BestEffort,
}

/// Decides which work is next.
pub trait Scheduler<T> {
    /// Takes work of a class; `cost_bytes` is what it will move.
    fn enqueue(&mut self, now: Instant, class: WorkClass, cost_bytes: usize, work: T);

    /// Gives the next, if any may run now.
    fn dequeue(&mut self, now: Instant) -> Option<T>;

    /// When work may run that may not now.
    fn next_wakeup(&self) -> Option<Instant>;
}

/// First come, first served.
#[derive(Debug)]
pub struct Fifo<T> {
    queue: VecDeque<T>,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo { queue: VecDeque::new() }
    }
}

impl<T> Scheduler<T> for Fifo<T> {
    fn enqueue(&mut self, _now: Instant, _class: WorkClass, _cost_bytes: usize, work: T) {
        self.queue.push_back(work);
    }

    fn dequeue(&mut self, _now: Instant) -> Option<T> {
        self.queue.pop_front()
    }

    fn next_wakeup(&self) -> Option<Instant> {
        None
    }
}
