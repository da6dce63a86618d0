//! The one trait of all schedulers.
//!
//! Read next: `tests/conformance`, which says what every implementation has to keep.

use crate::work::Work;
use base::Instant;

/// What is to be done now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dequeued<T> {
    /// This.
    Ready(Work, T),
    /// Nothing before then, unless work comes or is completed.
    NotBefore(Instant),
    /// Nothing is left.
    Empty,
}

impl<T> Dequeued<T> {
    /// The work, if there is some.
    pub fn ready(self) -> Option<(Work, T)> {
        match self {
            Dequeued::Ready(work, item) => Some((work, item)),
            Dequeued::NotBefore(_) | Dequeued::Empty => None,
        }
    }
}

/// The scheduler is full; here is the work again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the scheduler holds as much as it may")]
pub struct Full<T>(pub T);

/// A part of a scheduler's queue, for reports.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueState {
    /// Which.
    pub name: String,
    /// Pieces of work in it.
    pub queued: usize,
    /// Flows that have work in it.
    pub flows: usize,
    /// The share it is promised, where it is promised one.
    pub promise: Option<crate::Promise>,
    /// When the earliest of it may run, if that is later than now.
    pub not_before: Option<Instant>,
}

/// Decides which work is next.
///
/// Work of one stream, class and priority leaves in the order in which it came. `now` never goes back; a call with an
/// earlier one counts as made at the latest known.
pub trait Scheduler<T> {
    /// Takes work in. A full scheduler hands it back.
    fn enqueue(&mut self, now: Instant, work: Work, item: T) -> Result<(), Full<T>>;

    /// Gives what is next. After `NotBefore` it is worth asking again at that time, after `enqueue`, and after
    /// `completed`.
    fn dequeue(&mut self, now: Instant) -> Dequeued<T>;

    /// Work that `dequeue` gave has been done. Schedulers that charge service in time, or wait for a stream's next
    /// request, need to know; the others don't listen.
    fn completed(&mut self, now: Instant, work: &Work);

    /// Whether work that has just come may run at once, past the queue: nothing waits, and nothing speaks against it.
    /// It is then accounted for as if it had been queued and given out. An owner with capacity to spare saves itself
    /// the way through the queue; asking is always optional.
    fn pass(&mut self, now: Instant, work: &Work) -> bool;

    /// Pieces of work in the queue.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes everything out in some order that keeps that of each stream: for another scheduler to take over.
    fn drain(&mut self, take: &mut dyn FnMut(Work, T));

    /// Looks at everything that waits, in no particular order.
    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T));

    /// Reports what waits.
    fn states(&self) -> Vec<QueueState>;
}
