//! The order of requests on one object: reads beside reads, writes after writes, and never a read of what may yet
//! be lost.
//!
//! Reads wait until the writes before them are durable everywhere; writes that need only the object's state follow each
//! other without waiting; writes that depend on contents run alone, but need not wait to be durable before the next
//! begins. Requests start in the order of their arrival, but for one kind: while a copy waits for its source, others'
//! copies read the object as it was before, or copies that cross each other would wait for each other for ever.
//!
//! Recovery has its part in this: nothing runs on what is missing here, nothing writes where too few members have the
//! object, and members that lack it are given it while it counts as being read. So has scrub: nothing writes while copies
//! are compared.

use super::client_io::ClientRequest;
use crate::ops::OpClass;
use crate::ops::state::ObjectState;
use base::Bug;
use std::collections::VecDeque;

/// An object with requests.
#[derive(Debug, Default)]
pub struct ObjectQueue {
    /// What it is after the writes in flight; none until the store has told.
    pub state: Option<ObjectState>,
    /// Reads under way.
    pub readers: u32,
    /// Writes that not all members have.
    pub writers: u32,
    /// A request is being prepared that nothing may pass: it waits for the store.
    pub exclusive: bool,
    /// That request waits for the source of its copy: it has changed nothing, and other copies may read meanwhile.
    pub copying: bool,
    /// That request, its source here, while such reads are under way.
    pub copied: Option<Box<ClientRequest>>,
    /// It is missing here.
    pub unreadable: bool,
    /// Too few members have it for a write to be safe.
    pub degraded: bool,
    /// Its copies are being compared: nobody writes to it.
    pub scrubbed: bool,
    /// Members that lack it are to be given it, before anything else begins.
    pub to_push: bool,
    /// Requests that wait, in order.
    pub waiting: VecDeque<Box<ClientRequest>>,
}

impl ObjectQueue {
    /// Whether a request of this class may start now.
    pub fn admits(&self, class: OpClass) -> bool {
        match class {
            _ if self.exclusive || self.unreadable || self.to_push => false,
            OpClass::Write | OpClass::ReadModify if self.degraded || self.scrubbed => false,
            OpClass::Read => self.writers == 0 || Bug::ReadsBesideWrites.is_planted(),
            OpClass::Write => self.readers == 0,
            OpClass::ReadModify => self.readers == 0 && self.writers == 0,
        }
    }

    /// The waiting reads of other OSDs' copies.
    pub fn take_reads_for_copies(&mut self) -> VecDeque<Box<ClientRequest>> {
        let (reads, rest) = self.waiting.drain(..).partition(|request| request.reads_for_copy());
        self.waiting = rest;
        reads
    }

    /// The copy that waited for reads to end, once they have.
    pub fn take_copied(&mut self) -> Option<Box<ClientRequest>> {
        if self.readers > 0 { None } else { self.copied.take() }
    }

    /// Whether members may be given the object now, if they are to be: it counts as being read from then on.
    pub fn take_push(&mut self) -> bool {
        let now = self.to_push && !self.exclusive && (self.writers == 0 || Bug::RecoveryOverWrites.is_planted());
        if now {
            self.to_push = false;
            self.readers += 1;
        }
        now
    }

    /// Whether nothing goes on.
    pub fn is_idle(&self) -> bool {
        self.readers == 0 && self.writers == 0 && !self.exclusive && !self.to_push && self.waiting.is_empty()
    }

    /// The next waiting request, if it may start.
    pub fn pop_admitted(&mut self) -> Option<Box<ClientRequest>> {
        let class = self.waiting.front()?.plan.class;
        if self.admits(class) { self.waiting.pop_front() } else { None }
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        assert!(self.readers == 0 || self.writers == 0, "a read runs beside a write");
        let stuck = self.waiting.front().is_some_and(|r| self.admits(r.plan.class));
        assert!(!stuck, "a request waits that could run");
        assert!(!self.to_push || self.exclusive || self.writers > 0, "members wait for what they could be given");
        assert!(self.exclusive || !self.copying && self.copied.is_none(), "a copy does not hold its object");
        assert!(self.copied.is_none() || self.readers > 0, "a copy waits for nobody");
    }
}
