//! What is submitted: tried at once or in its turn.
//!
//! Owns the queues of those who wait. A collection's transactions run in the order of their submission; a read runs
//! after the transactions before it and before those after it; reads do not wait for reads.

use super::store::{ExtentStore, Pending, Purpose};
use crate::contract::{CommitId, Completion, ReadId, StoreError};
use crate::extent::engine::jobs::Begun;
use crate::extent::layout::BLOCK;
use crate::extent::log::{Log, record};
use crate::extent::objects::execute::{self, Outcome, Rules};
use crate::extent::objects::view;
use crate::extent::state::db::Layer;
use crate::extent::tree::Fault;
use crate::id::CollectionId;
use crate::read::ReadRequest;
use crate::transaction::Transaction;
use std::collections::VecDeque;

impl ExtentStore {
    /// Makes a transaction's changes and has them written down. A fault changes nothing.
    pub(super) fn try_commit(&mut self, transaction: &Transaction) -> Result<(), Fault> {
        if let Some(error) = self.halted.get(&transaction.collection) {
            return Err(Fault::Failed(error.clone()));
        }
        execute::check(&self.db, transaction)?;
        let sized = |direct_min: usize| (direct_min, execute::entry_bytes(transaction, direct_min));
        let max = Log::entry_bytes_max(&self.geometry);
        let (mut direct_min, mut bytes) = sized(self.options.direct_min);
        if bytes > max {
            (direct_min, bytes) = sized(2 * BLOCK as usize);
        }
        if bytes > max {
            return self.try_commit_out_of_line(transaction, direct_min, bytes);
        }
        if !self.log.takes(bytes) {
            return Err(Fault::Turn);
        }
        if !self.log.has_room(bytes) || self.pages_at_stake() > self.room_for_pages() / 2 {
            return Err(Fault::Room);
        }
        let outcome = self.carry_out(transaction, direct_min)?;
        self.log.append(|body| {
            record::encode_transaction(transaction, &outcome.given, &outcome.direct, body);
            outcome.carried.iter().for_each(|(block, data)| body.note_block(*block, data));
        });
        self.write_directly(outcome.writes);
        Ok(())
    }

    /// Makes a transaction's changes. A fault changes nothing.
    pub(super) fn carry_out(&mut self, transaction: &Transaction, direct_min: usize) -> Result<Outcome, Fault> {
        let lying = self.lies_ahead(transaction)?;
        let outcome = execute::run(&mut self.db, transaction, Rules { direct_min, lying: &lying }, None)?;
        self.take_over(transaction, &lying);
        self.counts.transactions += 1;
        Ok(outcome)
    }

    /// Tries a transaction; false when it has to wait.
    pub(super) fn commit(&mut self, id: CommitId, transaction: &Transaction) -> bool {
        let result = match self.try_commit(transaction) {
            Ok(()) => Ok(()),
            Err(Fault::Failed(error)) => {
                if matches!(error, StoreError::Corrupt(_) | StoreError::Device) {
                    // What follows may build on it.
                    self.halted.insert(transaction.collection, error.clone());
                }
                self.forget_ahead_of(transaction);
                Err(error)
            }
            Err(Fault::Room) if !self.room_may_come() => {
                self.forget_ahead_of(transaction);
                Err(StoreError::NoSpace)
            }
            Err(Fault::Room) => {
                self.checkpoint_wanted = true;
                return false;
            }
            Err(Fault::Turn) => return false,
            Err(fault) => {
                self.fetch(fault);
                return false;
            }
        };
        if let Some((id, result)) = self.log.wait((id, result)) {
            self.completions.push_back(Completion::Committed(id, result));
        }
        true
    }

    /// Whether waiting can help somebody who lacks room.
    fn room_may_come(&self) -> bool {
        let frees = |layer: &Layer| layer.freed_blocks > 0;
        self.log.is_busy()
            || self.log.has_entries()
            || self.checkpoint.is_some()
            || !self.db.trash.is_empty()
            || !self.leaving.is_empty()
            || self.ahead.gives_back()
            || self.reallocation.gives_back()
            || frees(&self.db.active)
            || self.requests.values().any(|purpose| matches!(purpose, Purpose::Discard(_)))
            || self.pages_at_stake() > self.room_for_pages() / 2
            || self.log.total > self.log.contained
    }

    /// Tries a read; false when it has to wait.
    pub(super) fn read(&mut self, id: ReadId, request: &ReadRequest) -> bool {
        match view::answer(&mut self.db, request) {
            Ok(answer) => match self.jobs.begin(id, answer) {
                Begun::Done(completion) => self.completions.push_back(completion),
                Begun::Wants(wants) => {
                    self.note_pieces(id, request, wants.len());
                    self.read_pieces(wants);
                }
            },
            Err(Fault::Failed(error)) => self.completions.push_back(Completion::Read(id, Err(error))),
            Err(fault) => {
                self.fetch(fault);
                return false;
            }
        }
        true
    }

    /// Goes through the queues: each collection as far as it gets.
    pub(super) fn run_queues(&mut self) {
        self.db.fresh.begin_round();
        for (collection, mut queue) in core::mem::take(&mut self.queues) {
            let mut waiting = VecDeque::new();
            while let Some(pending) = queue.pop_front() {
                let done = match &pending {
                    Pending::Read(id, request) => self.read(*id, request),
                    // A transaction waits for the reads before it.
                    Pending::Commit(id, transaction) => waiting.is_empty() && self.commit(*id, transaction),
                };
                if !done {
                    let is_commit = matches!(pending, Pending::Commit(..));
                    waiting.push_back(pending);
                    if is_commit {
                        break;
                    }
                }
            }
            waiting.append(&mut queue);
            if !waiting.is_empty() {
                self.queues.insert(collection, waiting);
            } else if !self.joined.is_empty() {
                self.joined.retain(|_, queue| *queue != collection);
            }
        }
    }

    /// In whose queue a collection's submissions wait.
    fn queue_of(&self, collection: CollectionId) -> CollectionId {
        self.joined.get(&collection).copied().unwrap_or(collection)
    }

    /// Whether somebody waits who is concerned with a collection.
    pub(super) fn has_queue(&self, collection: CollectionId) -> bool {
        self.queues.contains_key(&self.queue_of(collection))
    }

    /// Lets everything that waits for one of a transaction's collections wait in one queue, it behind it, and whatever
    /// comes behind it.
    fn join_queues(&mut self, transaction: &Transaction) {
        let main = self.queue_of(transaction.collection);
        for part in &transaction.parts {
            let queue = self.queue_of(part.other());
            if queue != main {
                let waiting = self.queues.remove(&queue).unwrap_or_default();
                if !waiting.is_empty() {
                    self.queues.entry(main).or_default().extend(waiting);
                }
                self.joined.values_mut().filter(|to| **to == queue).for_each(|to| *to = main);
                self.joined.insert(queue, main);
            }
        }
    }

    pub(super) fn submit(&mut self, collection: CollectionId, pending: Pending) {
        if let Pending::Commit(_, transaction) = &pending
            && !transaction.parts.is_empty()
        {
            self.join_queues(transaction);
        }
        let collection = self.queue_of(collection);
        if let Some(queue) = self.queues.get_mut(&collection) {
            // Reads do not wait for reads.
            let reads_only = queue.iter().all(|pending| matches!(pending, Pending::Read(..)));
            let overtakes = reads_only && matches!(pending, Pending::Read(..));
            if !overtakes {
                return queue.push_back(pending);
            }
        }
        let done = match &pending {
            Pending::Read(id, request) => self.read(*id, request),
            Pending::Commit(id, transaction) => self.commit(*id, transaction),
        };
        if !done {
            self.queues.entry(collection).or_default().push_back(pending);
        } else if !self.joined.is_empty() && !self.queues.contains_key(&collection) {
            self.joined.retain(|_, queue| *queue != collection);
        }
    }
}
