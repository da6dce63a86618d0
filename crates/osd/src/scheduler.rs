//! The place where the order of work is decided: the crate `qos`, fed with an OSD's work and asked when the store has room.
//!
//! Everything an OSD does for others passes through here, with its class and its cost. What the store has been given it
//! does in an order of its own; so it is given no more at once than it needs to be busy (`store_meter`), and the rest waits
//! here, where promises are kept. Work that finds nothing waiting and room in the store goes past the queue.
//!
//! Owns the queue and the options that shape it. Refuses to know what work does.
//!
//! Read next: `options`, which makes a scheduler's parameters of Ceph's options.

mod options;
mod tenants;

pub(crate) use options::{QueueOptions, assumed_capacity};

use crate::osd::{Work, WorkOf};
use crate::store_meter::StoreMeter;
use admin::{Value, object};
use base::Instant;
use maps::tenants::TenantPromise;
use options::{Kind, SET};
use qos::{
    AnyScheduler, Class, Cost, Dequeued, Elsewhere, GroupId, Learnt, Priority, QueueState, Scheduler, Settled,
    StreamId, Waits,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A change of the device's capacity by less than this part changes no promise.
const CAPACITY_NOTICED: f64 = 0.02;

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

impl WorkClass {
    fn class(self) -> Class {
        match self {
            WorkClass::Client => Class::Client,
            WorkClass::Peering => Class::Immediate,
            WorkClass::Recovery => Class::Recovery,
            WorkClass::BestEffort => Class::BestEffort,
        }
    }
}

/// Says that work is done when it is dropped, to a scheduler that wants to know.
#[derive(Debug)]
pub struct UnderWay {
    work: qos::Work,
    done: Arc<Mutex<Vec<qos::Work>>>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(self.work);
    }
}

/// An OSD's queue of work.
#[derive(Debug)]
pub(crate) struct OpQueue {
    queue: AnyScheduler<Work>,
    options: QueueOptions,
    /// Work that has been done, for schedulers that want to know.
    done: Arc<Mutex<Vec<qos::Work>>>,
    /// What was queued may run from then on.
    wakeup: Option<Instant>,
    waits: Waits,
    /// What tenants are promised.
    tenants: BTreeMap<GroupId, TenantPromise>,
}

impl OpQueue {
    pub(crate) fn new(options: QueueOptions) -> OpQueue {
        let (done, tenants) = (Arc::default(), BTreeMap::new());
        OpQueue { queue: options.scheduler(), options, done, wakeup: None, waits: Waits::Not, tenants }
    }

    /// Other options, in force at once, also for what is queued.
    pub(crate) fn configure(&mut self, now: Instant, options: QueueOptions) {
        if self.options == options {
            return;
        }
        let kept = self.options.priorities == options.priorities && options.configure(now, &mut self.queue);
        if !kept {
            // All of it by the new priorities: what a stream sends later must not overtake what it has sent.
            let mut next = options.scheduler();
            self.tenants.iter().for_each(|(group, promise)| tenants::promise(now, &mut next, *group, Some(promise)));
            self.queue.drain(&mut |mut work, item| {
                work.priority = Priority(options.priority(work.class));
                assert!(next.enqueue(now, work, item).is_ok(), "all schedulers hold equally much");
            });
            self.queue = next;
        }
        self.options = options;
        // Whatever was waited for, it may be time now.
        self.wakeup = self.wakeup.map(|_| now);
    }

    /// Other promises to a tenant, in force at once; none for nothing.
    pub(crate) fn promise(&mut self, now: Instant, group: GroupId, promise: Option<TenantPromise>) {
        match promise {
            Some(promise) => self.tenants.insert(group, promise),
            None => self.tenants.remove(&group),
        };
        tenants::promise(now, &mut self.queue, group, promise.as_ref());
        self.wakeup = self.wakeup.map(|_| now);
    }

    /// Settles with other OSDs what was served of a tenant; nothing where the scheduler keeps no rates.
    pub(crate) fn settle(&mut self, now: Instant, group: GroupId, others: Elsewhere) -> Settled {
        let AnyScheduler::MClock(queue) = &mut self.queue else { return Settled::default() };
        self.wakeup = self.wakeup.map(|_| now);
        queue.settle(now, Class::Client, group, others)
    }

    /// Something was done for a tenant past the queue: it counts against its part of what is left.
    pub(crate) fn done_besides(&mut self, now: Instant, group: GroupId, bytes: u64) {
        if let AnyScheduler::MClock(queue) = &mut self.queue {
            queue.done_besides(now, Class::Client, group, Cost::one(bytes));
        }
    }

    /// Operations a second that clients are promised; 0 where the scheduler keeps no promises.
    pub(crate) fn client_reservation(&self) -> f64 {
        self.options.client_reservation()
    }

    /// Whether promises should be shares of what was learnt of the device now, and are shares of something else.
    pub(crate) fn should_learn(&self, Learnt { capacity, believed }: Learnt) -> bool {
        let taken = self.options.capacity;
        let is_news = |learnt: f64, taken: f64| (learnt - taken).abs() > CAPACITY_NOTICED * taken;
        taken.source != SET && (is_news(capacity, taken.iops.capacity) || is_news(believed, taken.iops.believed))
    }

    /// Whether work that has just come may run at once; the store has room.
    pub(crate) fn pass(&mut self, now: Instant, class: WorkClass, cost_bytes: usize, of: &Work) -> bool {
        self.queue.is_empty() && self.queue.pass(now, &self.describe(class, cost_bytes, of))
    }

    /// Takes work of a class; `cost_bytes` is what it will move.
    pub(crate) fn enqueue(&mut self, now: Instant, class: WorkClass, cost_bytes: usize, work: Work) {
        let described = self.describe(class, cost_bytes, &work);
        let taken = self.queue.enqueue(now, described, work);
        assert!(taken.is_ok(), "requests, and turns of placement groups, are bounded far below a scheduler's room");
    }

    /// Gives the next, if any may run now and the store has room. Whoever holds the second part until the work is done
    /// lets a scheduler know that wants to.
    pub(crate) fn dequeue(&mut self, now: Instant, store: &StoreMeter) -> Option<(Work, Option<UnderWay>)> {
        (self.wakeup, self.waits) = (None, Waits::Not);
        if self.queue.is_empty() {
            return None;
        }
        if !store.has_room() {
            self.waits = Waits::ForRoom;
            return self.dequeue_due(now, store).map(|work| (work, None));
        }
        let wants_to_know = self.options.kind() == Kind::Cfq;
        if wants_to_know {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.drain(..).for_each(|work| self.queue.completed(now, &work));
        }
        match self.queue.dequeue(now) {
            Dequeued::Ready(work, item) => {
                let done = || UnderWay { work, done: Arc::clone(&self.done) };
                Some((item, wants_to_know.then(done)))
            }
            Dequeued::NotBefore(at) => {
                self.wakeup = Some(at);
                if matches!(&self.queue, AnyScheduler::MClock(queue) if queue.is_limited()) {
                    self.waits = Waits::ForLimit;
                }
                None
            }
            Dequeued::Empty => None,
        }
    }

    /// The same where the store has room for nothing but what a tenant's reservation makes due.
    fn dequeue_due(&mut self, now: Instant, store: &StoreMeter) -> Option<Work> {
        match &mut self.queue {
            AnyScheduler::MClock(queue) if store.has_room_for_due() => queue.dequeue_due(now).map(|(_, item)| item),
            _ => None,
        }
    }

    /// What work waited for when this was last asked for some: a limit is one of a class.
    pub(crate) fn waits(&self) -> Waits {
        self.waits
    }

    /// When work may run that may not now. What waits for the store needs no time: an answer of the store lets it go on.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// All work that waits.
    pub(crate) fn visit<'a>(&'a self, mut see: impl FnMut(&'a Work)) {
        self.queue.visit(&mut |_, work| see(work));
    }

    /// What waits and what is promised, for `dump_op_pq_state`.
    pub(crate) fn dump(&self, now: Instant, store: &StoreMeter) -> Value {
        let states = self.queue.states();
        let strict = states.first().map_or(0, |state| state.queued);
        object! {
            "scheduler" => self.options.kind().name(),
            "parameters" => self.options.dump_parameters(),
            "profile" => self.options.profile_name(),
            "capacity" => object! {
                "iops" => Value::Float(self.options.capacity.iops.capacity),
                "believed" => Value::Float(self.options.capacity.iops.believed),
                "source" => self.options.capacity.source,
            },
            "queue_sizes" => object! {
                "high_priority_queue" => strict as u64,
                "scheduler" => (self.queue.len() - strict) as u64,
            },
            "queues" => Value::array(states.iter().map(|state| dump_queue(state, now))),
            "store" => store.dump(),
        }
    }

    fn describe(&self, class: WorkClass, cost_bytes: usize, work: &Work) -> qos::Work {
        let (group, stream) = match &work.what {
            WorkOf::Request(request) => (request.tenant, request.conn.0),
            // A placement group's turns are a stream of their own, in classes of their own.
            _ => (GroupId::NONE, (work.pg.pool.0 as u64) << 32 | u64::from(work.pg.seed)),
        };
        qos::Work {
            class: class.class(),
            group,
            stream: StreamId(stream),
            priority: Priority(self.options.priority(class.class())),
            cost: Cost::one(cost_bytes as u64),
        }
    }
}

fn dump_queue(state: &QueueState, now: Instant) -> Value {
    let mut shown = object! {
        "name" => state.name.as_str(),
        "queued" => state.queued as u64,
        "flows" => state.flows as u64,
    };
    if let Some(promise) = state.promise {
        shown.push("reservation", Value::Float(promise.reservation()));
        shown.push("weight", Value::from(u64::from(promise.parts())));
        shown.push("limit", promise.limit().map_or(Value::from("max"), Value::Float));
    }
    if let Some(at) = state.not_before {
        shown.push("waits_ms", Value::Float(at.since(now).as_secs_f64() * 1000.0));
    }
    shown
}
