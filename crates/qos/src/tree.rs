//! Work in two levels: branches that share the device (classes, priorities), and in each the flows that share the branch.
//!
//! Both levels are competitions by the same rules (`tags`). A branch all of whose flows have to wait is held itself, so
//! that its turn goes to another.
//!
//! Invariants: a flow is active exactly when it has work, a branch exactly when one of its flows is; idle flows without a
//! limit are forgotten once next to nothing is gained by that.

use crate::afar::{Elsewhere, Settled};
use crate::limits::{FLOWS_KEPT_MIN, FLOWS_MAX, UNPROMISED_PATIENCE};
use crate::lists::{List, Lists, Waiting};
use crate::promise::Promise;
use crate::scheduler::Dequeued;
use crate::tags::{Charge, Next, Phase, Tags};
use crate::work::{Cost, CostModel, GroupId, Work};
use base::hash::FixedState;
use base::{Duration, Instant};
use core::hash::BuildHasher;
use hashbrown::HashTable;

/// What work of one flow has in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
enum FlowKind {
    /// Nothing: a free slot.
    #[default]
    Nobody,
    Group,
    Stream,
    /// There was no room for a flow of its own.
    Others,
}

/// Whose work counts as one flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct FlowKey {
    kind: FlowKind,
    id: u64,
}

impl FlowKey {
    const OTHERS: FlowKey = FlowKey { kind: FlowKind::Others, id: 0 };

    fn group(group: GroupId) -> FlowKey {
        FlowKey { kind: FlowKind::Group, id: u64::from(group.0) }
    }

    fn of(work: &Work) -> FlowKey {
        match work.group {
            GroupId::NONE => FlowKey { kind: FlowKind::Stream, id: work.stream.0 },
            group => FlowKey::group(group),
        }
    }

    fn hash(&self) -> u64 {
        FixedState::default().hash_one(self)
    }
}

const _: () = assert!(Tags::<FlowKey>::IS_SMALL, "a flow and its tags");

/// What one branch holds.
#[derive(Debug)]
struct Branch<T> {
    tags: Tags<FlowKey>,
    /// By the key of its flow. The table holds no keys: they lie in the flows, which will be looked at next in any case.
    slots: HashTable<u32>,
    /// By slot. So close together the cache has them all, and what waits first can be looked ahead for before the flow is there.
    lists: Vec<List>,
    waiting: Lists<Waiting<T>>,
    queued: usize,
    /// When so many flows are known, those that may be are forgotten.
    look_through_at: usize,
}

impl<T> Default for Branch<T> {
    fn default() -> Self {
        Branch {
            tags: Tags::default(),
            slots: HashTable::new(),
            lists: Vec::new(),
            waiting: Lists::default(),
            queued: 0,
            look_through_at: FLOWS_KEPT_MIN,
        }
    }
}

impl<T> Branch<T> {
    /// The slot of a flow that is known.
    fn find(&self, key: FlowKey) -> Option<u32> {
        self.slots.find(key.hash(), |slot| *self.tags.of(*slot) == key).copied()
    }

    /// The flow of some work, made if there is none.
    fn slot(&mut self, key: FlowKey, promise: impl FnOnce() -> Option<Promise>) -> u32 {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        if self.slots.len() >= self.look_through_at {
            self.forget_idle();
        }
        let key = if self.slots.len() < FLOWS_MAX { key } else { FlowKey::OTHERS };
        if let Some(slot) = self.find(key) {
            return slot;
        }
        let slot = self.tags.add(promise().unwrap_or(Promise::weight(1)), key);
        self.lists.resize(self.lists.len().max(slot as usize + 1), List::default());
        self.slots.insert_unique(key.hash(), slot, |slot| self.tags.of(*slot).hash());
        slot
    }

    fn forget_idle(&mut self) {
        for slot in self.tags.slots() {
            let key = *self.tags.of(slot);
            if key.kind != FlowKind::Nobody && self.tags.is_forgettable(slot) {
                let entry = self.slots.find_entry(key.hash(), |other| *other == slot);
                entry.expect("a known flow has its entry").remove();
                self.tags.forget(slot);
            }
        }
        self.look_through_at = (2 * self.slots.len()).max(FLOWS_KEPT_MIN);
    }

    fn push(&mut self, now: Instant, work: Work, item: T, promise: impl FnOnce() -> Option<Promise>) {
        let slot = self.slot(FlowKey::of(&work), promise);
        let list = &mut self.lists[slot as usize];
        let is_first = list.is_empty();
        self.waiting.push(list, Waiting { work, item });
        self.queued += 1;
        if is_first {
            self.tags.activate(now, slot);
        }
    }

    /// Has the cache fetch what giving out the next work will ask for.
    fn look_ahead(&self) {
        for slot in self.tags.candidates() {
            self.tags.look_ahead(slot);
            self.waiting.look_ahead(&self.lists[slot as usize]);
        }
    }

    /// Who is next.
    fn next(&mut self, now: Instant) -> Next {
        self.tags.next(now, |_| Duration::ZERO)
    }

    /// A branch in which some flows have reservations and none is due keeps a little of its own for them: so they need not
    /// wait for it when they come. What waits there meanwhile is promised nothing in particular.
    fn patience(&self, now: Instant) -> Duration {
        match self.tags.reservations(now) {
            (true, false) => UNPROMISED_PATIENCE,
            _ => Duration::ZERO,
        }
    }

    fn pop(&mut self, now: Instant, slot: u32, phase: Phase, cost: &CostModel) -> (Waiting<T>, Charge) {
        let list = &mut self.lists[slot as usize];
        let waiting = self.waiting.pop(list).expect("an active flow has work");
        let stays = !list.is_empty();
        let units = cost.units(waiting.cost());
        self.queued -= 1;
        self.tags.charge(now, slot, phase, Charge::of_flow(units, waiting.cost()), stays);
        self.look_ahead();
        let charge = Charge::alike(units, u64::from(waiting.cost().bytes));
        (waiting, charge)
    }
}

/// A branch as reports show it.
pub(crate) struct BranchState {
    pub(crate) queued: usize,
    pub(crate) flows: usize,
    pub(crate) promise: Promise,
    pub(crate) not_before: Option<Instant>,
}

/// What was given out, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) branch: usize,
    pub(crate) phase: Phase,
    pub(crate) charge: Charge,
}

/// Branches and their flows.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    top: Tags<()>,
    branches: Vec<Branch<T>>,
    cost: CostModel,
    queued: usize,
    now: Instant,
}

impl<T> Tree<T> {
    /// A tree without branches.
    pub(crate) fn new(cost: CostModel) -> Tree<T> {
        Tree { top: Tags::of_many(), branches: Vec::new(), cost, queued: 0, now: Instant::ZERO }
    }

    /// Adds a branch; gives its number.
    pub(crate) fn add_branch(&mut self, promise: Promise) -> usize {
        self.branches.push(Branch::default());
        self.top.add(promise, ()) as usize
    }

    /// The present, which never goes back.
    pub(crate) fn clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// How costs are computed from now on.
    pub(crate) fn set_cost(&mut self, cost: CostModel) {
        self.cost = cost;
    }

    /// Gives a branch another promise, which holds at once.
    pub(crate) fn promise_branch(&mut self, now: Instant, branch: usize, promise: Promise) {
        let now = self.clock(now);
        self.top.promise(now, branch as u32, promise);
    }

    /// Gives a group another promise in a branch, which holds at once.
    pub(crate) fn promise_group(&mut self, now: Instant, branch: usize, group: GroupId, promise: Promise) {
        let now = self.clock(now);
        let flows = &mut self.branches[branch];
        if let Some(slot) = flows.find(FlowKey::group(group)) {
            flows.tags.promise(now, slot, promise);
            self.top.let_go(now, branch as u32);
        }
    }

    /// Settles with others who keep the same promise to a group; gives what was served here since the last time.
    pub(crate) fn settle_group(
        &mut self,
        now: Instant,
        branch: usize,
        (group, promise): (GroupId, Promise),
        others: Elsewhere,
    ) -> Settled {
        let now = self.clock(now);
        let flows = &mut self.branches[branch];
        let slot = flows.slot(FlowKey::group(group), || Some(promise));
        if *flows.tags.of(slot) == FlowKey::OTHERS {
            return Settled::default();
        }
        let own = flows.tags.settle(now, slot, others);
        self.top.let_go(now, branch as u32);
        own
    }

    /// Something was done for a group elsewhere than here.
    pub(crate) fn done_besides(&mut self, now: Instant, branch: usize, group: GroupId, cost: Cost) {
        let now = self.clock(now);
        let units = self.cost.units(cost);
        let flows = &mut self.branches[branch];
        if let Some(slot) = flows.find(FlowKey::group(group)) {
            flows.tags.charge_besides(now, slot, units);
        }
    }

    /// Takes work in; `promise` is that of its group, asked for when its flow is not known.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        branch: usize,
        work: Work,
        item: T,
        promise: impl FnOnce() -> Option<Promise>,
    ) {
        let now = self.clock(now);
        let flows = &mut self.branches[branch];
        flows.push(now, work, item, promise);
        self.queued += 1;
        if flows.queued == 1 {
            self.top.activate(now, branch as u32);
        } else {
            self.top.let_go(now, branch as u32);
        }
    }

    /// What is next, and what it was charged.
    pub(crate) fn pop(&mut self, now: Instant) -> (Dequeued<T>, Option<Given>) {
        let now = self.clock(now);
        loop {
            let patience = |branch: u32| self.branches[branch as usize].patience(now);
            let (branch, phase) = match self.top.next(now, patience) {
                Next::Entrant(branch, phase) => (branch, phase),
                Next::NotBefore(at) => return (Dequeued::NotBefore(at), None),
                Next::Nobody => return (Dequeued::Empty, None),
            };
            match self.branches[branch as usize].next(now) {
                Next::Entrant(slot, reason) => {
                    let (waiting, given) = self.give(now, (branch, phase), (slot, reason));
                    return (Dequeued::Ready(waiting.work, waiting.item), Some(given));
                }
                Next::NotBefore(at) => self.top.hold(now, branch, at),
                Next::Nobody => unreachable!("an active branch has an active flow"),
            }
        }
    }

    /// What the reservation of a branch and in that the reservation of a flow make due, whatever else is.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Waiting<T>, Given)> {
        let now = self.clock(now);
        for (number, branch) in (0..).zip(&mut self.branches) {
            if branch.tags.reservations(now).1
                && self.top.is_due(now, number)
                && let Next::Entrant(slot, Phase::Reservation) = branch.next(now)
            {
                return Some(self.give(now, (number, Phase::Reservation), (slot, Phase::Reservation)));
            }
        }
        None
    }

    /// Gives out what is next of a flow of a branch, each for its reason.
    fn give(
        &mut self,
        now: Instant,
        (branch, phase): (u32, Phase),
        (slot, reason): (u32, Phase),
    ) -> (Waiting<T>, Given) {
        let flows = &mut self.branches[branch as usize];
        let (waiting, charge) = flows.pop(now, slot, reason, &self.cost);
        let stays = flows.queued > 0;
        self.queued -= 1;
        self.top.charge(now, branch, phase, charge, stays);
        (waiting, Given { branch: branch as usize, phase, charge })
    }

    /// Whether work may run at once, nothing else being there.
    pub(crate) fn pass(&mut self, now: Instant, branch: usize, work: &Work, promised: bool) -> Option<Given> {
        let now = self.clock(now);
        if self.queued > 0 || promised {
            return None;
        }
        let charge = Charge::alike(self.cost.units(work.cost), u64::from(work.cost.bytes));
        let phase = self.top.pass(now, branch as u32, charge)?;
        Some(Given { branch, phase, charge })
    }

    /// A branch has been served elsewhere.
    pub(crate) fn served_elsewhere(&mut self, now: Instant, branch: usize, charge: Charge, reserved: f64) {
        let now = self.clock(now);
        self.top.charge_elsewhere(now, branch as u32, charge, reserved);
    }

    /// Pieces of work in it.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Takes everything out, stream by stream in order.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        for (number, branch) in self.branches.iter_mut().enumerate() {
            for slot in branch.tags.slots() {
                while let Some(waiting) = branch.waiting.pop(&mut branch.lists[slot as usize]) {
                    take(waiting.work, waiting.item);
                }
                branch.tags.deactivate(slot);
            }
            branch.queued = 0;
            self.top.deactivate(number as u32);
        }
        self.queued = 0;
    }

    /// Looks at everything.
    pub(crate) fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        self.branches
            .iter()
            .flat_map(|branch| branch.waiting.entries())
            .for_each(|waiting| see(&waiting.work, &waiting.item));
    }

    /// Whether there is work that the limit of its branch does not let run.
    pub(crate) fn is_limited(&self) -> bool {
        (0..self.branches.len() as u32).any(|branch| self.top.is_limited(self.now, branch))
    }

    /// A branch as reports show it.
    pub(crate) fn state(&self, branch: usize) -> BranchState {
        BranchState {
            queued: self.branches[branch].queued,
            flows: self.branches[branch].tags.active(),
            promise: self.top.promised(branch as u32),
            not_before: self.top.not_before(self.now, branch as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Class, Priority, StreamId};

    /// A million clients come and go: what is remembered of them stays small, also while others keep the branch busy.
    #[test]
    fn who_is_gone_is_forgotten() {
        let mut tree = Tree::new(CostModel::REQUESTS);
        let branch = tree.add_branch(Promise::weight(1));
        let work = |stream| Work {
            class: Class::Client,
            group: GroupId::NONE,
            stream: StreamId(stream),
            priority: Priority(63),
            cost: Cost::one(4096),
        };
        let now = Instant::from_secs(1);
        (0..10).for_each(|n| tree.push(now, branch, work(n), n, || None));
        for stream in 10..1_000_000 {
            tree.push(now, branch, work(stream), stream, || None);
            assert!(tree.pop(now).0.ready().is_some());
        }
        assert_eq!(tree.queued(), 10);
        assert!(tree.branches[branch].slots.len() <= 2 * FLOWS_KEPT_MIN);
    }
}
