//! One of the schedulers, chosen while running.

use crate::cfq::Cfq;
use crate::fifo::Fifo;
use crate::mclock::MClock;
use crate::scheduler::{Dequeued, Full, QueueState, Scheduler};
use crate::work::Work;
use crate::wpq::Wpq;
use base::Instant;

/// Any of them, without a virtual call.
#[derive(Debug)]
pub enum AnyScheduler<T> {
    /// First come, first served.
    Fifo(Fifo<T>),
    /// By priority.
    Wpq(Box<Wpq<T>>),
    /// By promises.
    MClock(Box<MClock<T>>),
    /// By turns.
    Cfq(Box<Cfq<T>>),
}

macro_rules! each {
    ($any:expr, $queue:ident => $body:expr) => {
        match $any {
            AnyScheduler::Fifo($queue) => $body,
            AnyScheduler::Wpq($queue) => $body,
            AnyScheduler::MClock($queue) => $body,
            AnyScheduler::Cfq($queue) => $body,
        }
    };
}

impl<T> AnyScheduler<T> {
    /// Puts another scheduler in its place, which takes over what is queued.
    pub fn replace(&mut self, now: Instant, mut next: AnyScheduler<T>) {
        self.drain(&mut |work, item| {
            assert!(next.enqueue(now, work, item).is_ok(), "all schedulers hold equally much");
        });
        *self = next;
    }
}

impl<T> Scheduler<T> for AnyScheduler<T> {
    fn enqueue(&mut self, now: Instant, work: Work, item: T) -> Result<(), Full<T>> {
        each!(self, queue => queue.enqueue(now, work, item))
    }

    fn dequeue(&mut self, now: Instant) -> Dequeued<T> {
        each!(self, queue => queue.dequeue(now))
    }

    fn completed(&mut self, now: Instant, work: &Work) {
        each!(self, queue => queue.completed(now, work))
    }

    fn pass(&mut self, now: Instant, work: &Work) -> bool {
        each!(self, queue => queue.pass(now, work))
    }

    fn len(&self) -> usize {
        each!(self, queue => queue.len())
    }

    fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        each!(self, queue => queue.drain(take))
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        each!(self, queue => queue.visit(see))
    }

    fn states(&self) -> Vec<QueueState> {
        each!(self, queue => queue.states())
    }
}
