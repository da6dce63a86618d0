//! What goes before everything else, the most urgent first.

use crate::scheduler::Scheduler;
use crate::work::{Class, Priority, Work};
use base::Instant;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Above every priority: what must not wait.
const IMMEDIATE: u16 = 256;

/// Work of the immediate class, and of priorities from the cut-off on.
#[derive(Debug)]
pub(crate) struct Strict<T> {
    cut_off: Priority,
    queues: BTreeMap<Reverse<u16>, VecDeque<(Work, T)>>,
    queued: usize,
}

impl<T> Strict<T> {
    pub(crate) fn new(cut_off: Priority) -> Strict<T> {
        Strict { cut_off, queues: BTreeMap::new(), queued: 0 }
    }

    /// Where the strict order begins.
    pub(crate) fn cut_off(&self) -> Priority {
        self.cut_off
    }

    /// Where it begins from now on. See `sort_again` for what is queued.
    pub(crate) fn set_cut_off(&mut self, cut_off: Priority) {
        self.cut_off = cut_off;
    }

    /// Whether work belongs here.
    pub(crate) fn takes(&self, work: &Work) -> bool {
        work.class == Class::Immediate || work.priority >= self.cut_off
    }

    pub(crate) fn push(&mut self, work: Work, item: T) {
        let level = if work.class == Class::Immediate { IMMEDIATE } else { u16::from(work.priority.0) };
        self.queues.entry(Reverse(level)).or_default().push_back((work, item));
        self.queued += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(Work, T)> {
        if self.queued == 0 {
            return None;
        }
        let mut level = self.queues.first_entry().expect("what is counted is there");
        let next = level.get_mut().pop_front().expect("no empty level is kept");
        if level.get().is_empty() {
            level.remove();
        }
        self.queued -= 1;
        Some(next)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        while let Some((work, item)) = self.pop() {
            take(work, item);
        }
    }

    pub(crate) fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        self.queues.values().flatten().for_each(|(work, item)| see(work, item));
    }

    /// As reports show it.
    pub(crate) fn state(&self) -> crate::QueueState {
        let (queued, flows) = (self.queued, self.queues.len());
        crate::QueueState { name: "strict".to_owned(), queued, flows, promise: None, not_before: None }
    }
}

/// Moves everything that is queued to where it belongs after `change`: what came earlier must not be overtaken by what its
/// stream sends later.
pub(crate) fn sort_again<T, S: Scheduler<T>>(queue: &mut S, now: Instant, change: impl FnOnce(&mut S)) {
    let mut all = Vec::with_capacity(queue.len());
    queue.drain(&mut |work, item| all.push((work, item)));
    change(queue);
    for (work, item) in all {
        assert!(queue.enqueue(now, work, item).is_ok(), "there was room for it");
    }
}
