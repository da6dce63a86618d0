//! The weighted priority queue: urgent work in strict order, the rest in proportion to its priority.
//!
//! From a cut-off on, a priority goes before all lower ones. Below it each priority is a class that gets service in
//! proportion to its number, whatever its requests cost, and the streams of a class get equal parts. The order follows
//! from what was served, not from dice: no class waits longer than its share says.
//!
//! It never idles and knows no limits: what it has, it gives. After Ceph's queue of that name, which draws lots.

use crate::limits::{PRIORITIES, QUEUED_MAX, WEIGHT_MAX};
use crate::promise::Promise;
use crate::scheduler::{Dequeued, Full, QueueState, Scheduler};
use crate::strict::Strict;
use crate::tree::Tree;
use crate::work::{CostModel, GroupId, Priority, Work};
use base::Instant;
use std::collections::BTreeMap;

/// The parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WpqConfig {
    /// The lowest priority that is served in strict order.
    pub cut_off: Priority,
    /// What requests cost.
    pub cost: CostModel,
}

impl Default for WpqConfig {
    /// Strict from 196 on; a request costs as much as the transfer of 64 KiB, about where a flash device's time for
    /// the bytes overtakes that for the request.
    fn default() -> Self {
        WpqConfig { cut_off: Priority(196), cost: CostModel { per_io: 1.0, per_byte: 1.0 / 65_536.0 } }
    }
}

/// The weighted priority queue.
#[derive(Debug)]
pub struct Wpq<T> {
    strict: Strict<T>,
    shared: Tree<T>,
    /// The branch of each priority, once it has been seen.
    branches: Box<[Option<u8>; PRIORITIES]>,
    priorities: Vec<Priority>,
    weights: BTreeMap<GroupId, Promise>,
}

impl<T> Wpq<T> {
    /// An empty queue.
    pub fn new(config: WpqConfig) -> Wpq<T> {
        Wpq {
            strict: Strict::new(config.cut_off),
            shared: Tree::new(config.cost),
            branches: Box::new([None; PRIORITIES]),
            priorities: Vec::new(),
            weights: BTreeMap::new(),
        }
    }

    /// Other parameters, in force at once.
    pub fn configure(&mut self, now: Instant, config: WpqConfig) {
        self.shared.set_cost(config.cost);
        if self.strict.cut_off() != config.cut_off {
            crate::strict::sort_again(self, now, |queue| queue.strict.set_cut_off(config.cut_off));
        }
    }

    /// A group's weight among the streams and groups of its priority; none for that of a stream, 1.
    pub fn set_weight(&mut self, now: Instant, group: GroupId, weight: Option<u32>) {
        match weight {
            Some(weight) => self.weights.insert(group, Promise::weight(weight.clamp(1, WEIGHT_MAX))),
            None => self.weights.remove(&group),
        };
        let promise = self.weights.get(&group).copied().unwrap_or(Promise::weight(1));
        (0..self.priorities.len()).for_each(|branch| self.shared.promise_group(now, branch, group, promise));
    }

    fn branch(&mut self, priority: Priority) -> usize {
        if let Some(branch) = self.branches[usize::from(priority.0)] {
            return usize::from(branch);
        }
        // Priority 0 would never be served; it counts as the next.
        let branch = self.shared.add_branch(Promise::weight(u32::from(priority.0).max(1)));
        self.branches[usize::from(priority.0)] = Some(branch as u8);
        self.priorities.push(priority);
        branch
    }
}

impl<T> Scheduler<T> for Wpq<T> {
    fn enqueue(&mut self, now: Instant, work: Work, item: T) -> Result<(), Full<T>> {
        if self.len() >= QUEUED_MAX {
            return Err(Full(item));
        }
        if self.strict.takes(&work) {
            self.strict.push(work, item);
        } else {
            let branch = self.branch(work.priority);
            let weights = &self.weights;
            self.shared.push(now, branch, work, item, || weights.get(&work.group).copied());
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Instant) -> Dequeued<T> {
        match self.strict.pop() {
            Some((work, item)) => Dequeued::Ready(work, item),
            None => self.shared.pop(now).0,
        }
    }

    fn completed(&mut self, _now: Instant, _work: &Work) {}

    fn pass(&mut self, _now: Instant, _work: &Work) -> bool {
        self.is_empty()
    }

    fn len(&self) -> usize {
        self.strict.queued() + self.shared.queued()
    }

    fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        self.strict.drain(take);
        self.shared.drain(take);
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        self.strict.visit(see);
        self.shared.visit(see);
    }

    fn states(&self) -> Vec<QueueState> {
        let mut order: Vec<(Priority, usize)> = self.priorities.iter().copied().zip(0..).collect();
        order.sort_unstable_by_key(|(priority, _)| core::cmp::Reverse(*priority));
        let shared = order.into_iter().map(|(priority, branch)| {
            let state = self.shared.state(branch);
            QueueState {
                name: format!("priority {}", priority.0),
                queued: state.queued,
                flows: state.flows,
                promise: Some(state.promise),
                not_before: None,
            }
        });
        core::iter::once(self.strict.state()).chain(shared).collect()
    }
}
