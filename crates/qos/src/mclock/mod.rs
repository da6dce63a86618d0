//! mClock: every class of work gets its reservation, stays under its limit, and shares the rest by weight.
//!
//! Classes compete for the device, and in each the groups (tenants) and streams that have work compete for what their
//! class gets, by the same rules. What must not wait, and what is more urgent than a cut-off, goes before all of that.
//!
//! Promises are parameters and nothing else: `configure` puts them in force at once, and nothing of former ones remains.
//! (A scheduler that writes its profile into its owner's configuration reads its own leavings later on.)
//!
//! Read next: `tags` for the rules, `profile` for ready-made promises, `ledger` for shards.

mod ledger;
mod profile;

pub use ledger::Ledger;
pub use profile::Profile;

use crate::afar::{Elsewhere, Settled};
use crate::limits::QUEUED_MAX;
use crate::promise::Promise;
use crate::scheduler::{Dequeued, Full, QueueState, Scheduler};
use crate::strict::Strict;
use crate::tree::{Given, Tree};
use crate::work::{Class, Cost, CostModel, GroupId, Priority, Work};
use base::Instant;
use ledger::Account;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MClockConfig {
    /// What clients, recovery and best effort are promised.
    pub classes: [Promise; 3],
    /// What requests cost, in the units of the promises.
    pub cost: CostModel,
    /// The lowest priority that goes before everything shared.
    pub cut_off: Priority,
}

impl MClockConfig {
    /// A profile on a device that does `capacity` requests a second.
    pub fn profile(profile: Profile, capacity: f64) -> MClockConfig {
        MClockConfig { classes: profile.promises(capacity), cost: CostModel::REQUESTS, cut_off: Priority(196) }
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct MClock<T> {
    strict: Strict<T>,
    shared: Tree<T>,
    /// By class and group.
    groups: BTreeMap<(Class, GroupId), Promise>,
    account: Option<Account>,
}

impl<T> MClock<T> {
    /// An empty scheduler that has its device for itself.
    pub fn new(config: MClockConfig) -> MClock<T> {
        let mut shared = Tree::new(config.cost);
        for promise in config.classes {
            shared.add_branch(promise);
        }
        MClock { strict: Strict::new(config.cut_off), shared, groups: BTreeMap::new(), account: None }
    }

    /// An empty scheduler that shares its device with all others of the same ledger. Each is given the promises of the
    /// whole device. Whoever drives them asks them in turn: one that always asks first gets what the others could have.
    /// Classes keep their promises so; of groups' promises, each knows only what it has served itself: those need one queue.
    pub fn sharing(config: MClockConfig, ledger: Arc<Ledger>) -> MClock<T> {
        MClock { account: Some(Account::new(ledger)), ..MClock::new(config) }
    }

    /// Other parameters, in force at once.
    pub fn configure(&mut self, now: Instant, config: MClockConfig) {
        self.shared.set_cost(config.cost);
        if self.strict.cut_off() != config.cut_off {
            crate::strict::sort_again(self, now, |queue| queue.strict.set_cut_off(config.cut_off));
        }
        for (branch, promise) in config.classes.into_iter().enumerate() {
            self.shared.promise_branch(now, branch, promise);
        }
    }

    /// What a group is promised of its class, in force at once; none to treat it like any stream. That the reservations
    /// of a class's groups fit into its own is for the caller to see to: beyond, they get it in proportion.
    pub fn promise_group(&mut self, now: Instant, class: Class, group: GroupId, promise: Option<Promise>) {
        let Some(branch) = class.place() else { return };
        match promise {
            Some(promise) => self.groups.insert((class, group), promise),
            None => self.groups.remove(&(class, group)),
        };
        self.shared.promise_group(now, branch, group, promise.unwrap_or(Promise::weight(1)));
    }

    /// Settles with other servers that keep the same promise to a group: takes in what they have served since the last
    /// time, and gives what was served here, for them. To be called every so often, also when there is no news: what a
    /// server charges itself ahead for others is corrected here. A group
    /// with neither a reservation nor a limit has nothing to settle: weights divide what each server has left.
    pub fn settle(&mut self, now: Instant, class: Class, group: GroupId, others: Elsewhere) -> Settled {
        let promise = self.groups.get(&(class, group)).copied().filter(Promise::is_kept_together);
        let (Some(branch), Some(promise)) = (class.place(), promise) else { return Settled::default() };
        self.shared.settle_group(now, branch, (group, promise), others)
    }

    /// Something was done for a group past this queue, and used the device: the group's part by weight shrinks by it, though
    /// by no more than `BESIDES_UNITS_MAX` between two services. Neither its reservation nor its limit is touched.
    pub fn done_besides(&mut self, now: Instant, class: Class, group: GroupId, cost: Cost) {
        if let Some(branch) = class.place() {
            self.shared.done_besides(now, branch, group, cost);
        }
    }

    /// Gives what the reservation of a group makes due, as far as its class has reserved that: what may go to a device that
    /// has no room for anything else (`Window::has_room_for_due`).
    pub fn dequeue_due(&mut self, now: Instant) -> Option<(Work, T)> {
        if self.strict.queued() > 0 {
            return None;
        }
        self.hear(now);
        let (waiting, given) = self.shared.pop_due(now)?;
        self.tell(Some(given));
        Some((waiting.work, waiting.item))
    }

    /// Whether work waits for no other reason than the limit of its class, as of when the scheduler was asked last
    /// (`CapacityMeter::limit`).
    pub fn is_limited(&self) -> bool {
        self.shared.is_limited()
    }

    /// Takes note of what other shards have served.
    fn hear(&mut self, now: Instant) {
        let Some(account) = &mut self.account else { return };
        for branch in 0..Class::SHARED.len() {
            if let Some((charge, reserved)) = account.news(branch) {
                self.shared.served_elsewhere(now, branch, charge, reserved);
            }
        }
    }

    fn tell(&mut self, given: Option<Given>) {
        if let (Some(account), Some(given)) = (&mut self.account, given) {
            account.add(given.branch, given.phase, given.charge);
        }
    }
}

impl<T> Scheduler<T> for MClock<T> {
    fn enqueue(&mut self, now: Instant, work: Work, item: T) -> Result<(), Full<T>> {
        if self.len() >= QUEUED_MAX {
            return Err(Full(item));
        }
        match work.class.place().filter(|_| !self.strict.takes(&work)) {
            Some(branch) => {
                let groups = &self.groups;
                let promise = || groups.get(&(work.class, work.group)).copied();
                self.shared.push(now, branch, work, item, promise);
            }
            None => self.strict.push(work, item),
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Instant) -> Dequeued<T> {
        if let Some((work, item)) = self.strict.pop() {
            return Dequeued::Ready(work, item);
        }
        self.hear(now);
        let (next, served) = self.shared.pop(now);
        self.tell(served);
        next
    }

    fn completed(&mut self, _now: Instant, _work: &Work) {}

    fn pass(&mut self, now: Instant, work: &Work) -> bool {
        if !self.is_empty() {
            return false;
        }
        let Some(branch) = work.class.place().filter(|_| !self.strict.takes(work)) else { return true };
        self.hear(now);
        let promised = work.group != GroupId::NONE && self.groups.contains_key(&(work.class, work.group));
        let served = self.shared.pass(now, branch, work, promised);
        self.tell(served);
        served.is_some()
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
        let shared = Class::SHARED.into_iter().zip(0..).map(|(class, branch)| {
            let state = self.shared.state(branch);
            QueueState {
                name: class.name().to_owned(),
                queued: state.queued,
                flows: state.flows,
                promise: Some(state.promise),
                not_before: state.not_before,
            }
        });
        core::iter::once(self.strict.state()).chain(shared).collect()
    }
}
