//! The order of outputs: nothing leaves before the batch it depends on is on disk.
//!
//! Owns one queue. Whatever the engine says while it has changes that are not on disk yet waits for the batch that
//! will carry them; everything said later waits behind it. So a client never sees a state that a crash could take
//! back, and never sees answers out of order.
//!
//! Invariants: gates never decrease along the queue; at most one batch is in flight.

use crate::Command;
use crate::store::{Batch, BatchWrites};
use base::Bug;
use std::collections::VecDeque;

/// Names one batch, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PersistId(pub u64);

/// The queue.
#[derive(Debug, Default)]
pub struct Outbox {
    ready: VecDeque<Command>,
    held: VecDeque<(PersistId, Command)>,
    submitted: PersistId,
    persisted: PersistId,
}

impl Outbox {
    /// Queues an output. `dirty` says that there are changes no submitted batch carries yet.
    pub fn push(&mut self, command: Command, dirty: bool) {
        match self.gate(dirty) {
            None => self.ready.push_back(command),
            Some(gate) => self.held.push_back((gate, command)),
        }
    }

    /// The batch that what is said now waits for, if it waits.
    pub fn gate(&self, dirty: bool) -> Option<PersistId> {
        let gate = if dirty { PersistId(self.submitted.0 + 1) } else { self.submitted };
        let gate = self.held.back().map_or(gate, |(last, _)| gate.max(*last));
        (gate > self.persisted && !Bug::MonitorSpeaksEarly.is_planted()).then_some(gate)
    }

    /// Queues an output that depends on nothing: log lines.
    pub fn push_now(&mut self, command: Command) {
        self.ready.push_back(command);
    }

    /// Whether a batch is on its way to the disk.
    pub fn in_flight(&self) -> bool {
        self.persisted < self.submitted
    }

    /// Sends a batch on its way; none may be in flight.
    pub fn submit(&mut self, batch: Batch) {
        assert!(!self.in_flight(), "one batch is in flight at a time");
        self.submitted.0 += 1;
        let batch: BatchWrites = batch.into_writes();
        self.ready.push_back(Command::Persist { id: self.submitted, batch });
    }

    /// Takes the news that a batch is on disk, and lets go what waited for it. False if it is not the one in flight.
    pub fn persisted(&mut self, id: PersistId) -> bool {
        if !self.in_flight() || id != self.submitted {
            return false;
        }
        self.persisted = id;
        while self.held.front().is_some_and(|(gate, _)| *gate <= id) {
            let (_, command) = self.held.pop_front().expect("the front was just seen");
            self.ready.push_back(command);
        }
        true
    }

    /// The next output to carry out.
    pub fn poll(&mut self) -> Option<Command> {
        self.ready.pop_front()
    }

    /// How many outputs wait for the disk.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether the queue's order is as it should be.
    pub fn check_invariants(&self) {
        assert!(self.held.iter().is_sorted_by_key(|(gate, _)| *gate), "gates never decrease");
        assert!(self.held.front().is_none_or(|(gate, _)| *gate > self.persisted), "what may leave has left");
        assert!(self.submitted.0 - self.persisted.0 <= 1, "one batch is in flight at a time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Command {
        Command::Log { level: crate::LogLevel::Info, text: text.to_owned() }
    }

    #[test]
    fn outputs_wait_for_their_batch_and_keep_their_order() {
        let mut outbox = Outbox::default();
        outbox.push(line("read"), false);
        assert_eq!(outbox.poll(), Some(line("read")));
        outbox.push(line("changed"), true);
        outbox.push(line("read behind it"), false);
        assert_eq!(outbox.poll(), None);
        outbox.submit(Batch::default());
        outbox.push(line("changed again"), true);
        assert!(matches!(outbox.poll(), Some(Command::Persist { id: PersistId(1), .. })));
        assert!(!outbox.persisted(PersistId(7)));
        assert_eq!((outbox.gate(false), outbox.gate(true)), (Some(PersistId(2)), Some(PersistId(2))));
        assert!(outbox.persisted(PersistId(1)));
        assert_eq!(outbox.poll(), Some(line("changed")));
        assert_eq!(outbox.poll(), Some(line("read behind it")));
        assert_eq!(outbox.poll(), None);
        outbox.check_invariants();
        outbox.submit(Batch::default());
        assert!(outbox.persisted(PersistId(2)));
        outbox.poll();
        assert_eq!(outbox.poll(), Some(line("changed again")));
        assert_eq!(outbox.held(), 0);
    }
}
