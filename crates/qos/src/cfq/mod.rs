//! Complete fairness queueing: groups get the device for time in proportion to their weights, one stream at a time.
//!
//! A turn belongs to one stream of the group that has had least. While it lasts, the stream's requests go to the device,
//! and when it has none for a moment the scheduler waits for the next (`slice_idle`): a stream that reads in order would
//! lose its place on a disk to another's seek. The time of a turn is charged to its group, from the first answer on: until
//! then the device was busy with what the turn before had left.
//!
//! With `slice_idle` 0 service is charged in requests: a device that works on many at once has no time that could be
//! said to be one stream's. Nothing waits on a stream then, but a group whose last stream is about to send more is still
//! waited for (`group_idle`), as else it would lose its place among the groups each time.
//!
//! After the scheduler of that name in Linux 2.6.38 to 4.20 (`block/cfq-iosched.c`, `Documentation/block/
//! cfq-iosched.txt`): its groups, slices and idling; not its priorities, preemption and asynchronous queues.
//!
//! Invariants: a turn ends, whatever its stream does, one slice after its first answer, and the longest slice after it
//! began where there is none; nobody is charged more for a turn, so that who was alone has no debt; something is always
//! dispatched or waited for with a time at which the wait ends.

mod groups;
mod think;

use crate::limits::QUEUED_MAX;
use crate::promise::Promise;
use crate::scheduler::{Dequeued, Full, QueueState, Scheduler};
use crate::strict::Strict;
use crate::work::{Class, GroupId, Priority, Work};
use base::{Duration, Instant};
use groups::{GroupKey, Groups, Service};
use std::collections::BTreeMap;

/// The least weight of a group.
pub const GROUP_WEIGHT_MIN: u32 = 100;
/// The greatest weight of a group.
pub const GROUP_WEIGHT_MAX: u32 = 1000;

/// The shortest slice: below, turns cost more than they order.
const SLICE_MIN: Duration = Duration::from_millis(1);

/// The parameters. The defaults are Linux's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CfqConfig {
    /// The longest turn of a stream.
    pub slice: Duration,
    /// How long all that have work should take for one turn each: with many groups, turns become shorter.
    pub target_latency: Duration,
    /// How long to wait for a stream's next request; 0 to charge service in requests instead of time.
    pub slice_idle: Duration,
    /// How long to wait for a group's next request; 0 for not at all.
    pub group_idle: Duration,
    /// How many requests of a stream may be under way while others wait; without `slice_idle`, of one turn.
    pub quantum: u32,
    /// The weights, from 100 to 1000, of groups that have none of their own: clients', recovery's, best effort's.
    pub weights: [u32; 3],
}

impl Default for CfqConfig {
    fn default() -> Self {
        CfqConfig {
            slice: Duration::from_millis(100),
            target_latency: Duration::from_millis(300),
            slice_idle: Duration::from_millis(8),
            group_idle: Duration::from_millis(8),
            quantum: 8,
            weights: [500, 500, 100],
        }
    }
}

impl CfqConfig {
    /// Whether service is charged in requests, and not in time: what groups have had of one says nothing of the other.
    pub fn charges_requests(&self) -> bool {
        self.slice_idle == Duration::ZERO
    }
}

/// The turn of a stream.
#[derive(Clone, Copy, Debug)]
struct Turn {
    group: u32,
    stream: u32,
    /// How long it may be once its first request is answered.
    slice: Duration,
    /// When its time began to count.
    began: Instant,
    ends: Instant,
    /// Requests of the stream that an earlier turn has left at the device.
    left_over: u32,
    answered: bool,
    dispatched: u32,
    requests: u64,
}

impl Turn {
    /// A request of its stream is answered.
    fn answered(&mut self, now: Instant) {
        if self.left_over > 0 {
            self.left_over -= 1;
        } else if !self.answered {
            self.answered = true;
            (self.began, self.ends) = (now, now + self.slice);
        }
    }
}

/// What a turn comes to now.
enum Step {
    Dispatch,
    Wait(Instant),
    /// Nobody else has work; the turn may go on when some comes.
    Rest,
    Over,
}

/// The scheduler.
#[derive(Debug)]
pub struct Cfq<T> {
    config: CfqConfig,
    strict: Strict<T>,
    groups: Groups<T>,
    weights: BTreeMap<GroupKey, u32>,
    turn: Option<Turn>,
    queued: usize,
    now: Instant,
}

impl<T> Cfq<T> {
    /// An empty scheduler. What is immediate goes first; priorities mean nothing.
    pub fn new(config: CfqConfig) -> Cfq<T> {
        Cfq {
            config,
            strict: Strict::new(Priority(u8::MAX)),
            groups: Groups::default(),
            weights: BTreeMap::new(),
            turn: None,
            queued: 0,
            now: Instant::ZERO,
        }
    }

    /// Other parameters, in force from the next turn on. Those that charge service in another way are for a new scheduler.
    pub fn configure(&mut self, config: CfqConfig) {
        self.config = config;
        for class in Class::SHARED {
            self.set_known_weight((class, GroupId::NONE));
        }
    }

    /// A group's weight, brought into the range from 100 to 1000; none for that of its class.
    pub fn set_weight(&mut self, class: Class, group: GroupId, weight: Option<u32>) {
        let key = (class, group);
        match weight {
            Some(weight) => self.weights.insert(key, weight.clamp(GROUP_WEIGHT_MIN, GROUP_WEIGHT_MAX)),
            None => self.weights.remove(&key),
        };
        self.set_known_weight(key);
    }

    fn set_known_weight(&mut self, key: GroupKey) {
        self.groups.set_weight(key, weight_of(&self.weights, &self.config, key));
    }

    /// The parameters it has.
    pub fn config(&self) -> &CfqConfig {
        &self.config
    }

    fn in_requests(&self) -> bool {
        self.config.charges_requests()
    }

    /// How long the next turn of a stream of `group` may be: its part of the time that all should take.
    fn slice(&self, group: u32) -> Duration {
        let group = self.groups.group(group);
        let all = self.groups.weights().max(1) as f64;
        let part = self.config.target_latency.mul_f64(f64::from(group.weight) / all);
        let part = part / (group.waiting() as u32 + 1);
        part.max(2 * self.config.slice_idle).clamp(SLICE_MIN, self.longest_slice())
    }

    fn longest_slice(&self) -> Duration {
        self.config.slice.max(SLICE_MIN)
    }

    fn begin(&mut self, now: Instant) -> bool {
        let Some((group, stream)) = self.groups.begin() else { return false };
        let slice = self.slice(group);
        let ends = now + self.longest_slice();
        let left_over = self.groups.stream(stream).under_way;
        let (answered, dispatched, requests) = (false, 0, 0);
        self.turn = Some(Turn { group, stream, slice, began: now, ends, left_over, answered, dispatched, requests });
        true
    }

    fn end(&mut self, now: Instant, turn: Turn) {
        let time = now.min(turn.ends).since(turn.began);
        let service = if self.in_requests() { Service::Requests(turn.requests) } else { Service::Time(time) };
        self.groups.end(turn.group, turn.stream, service);
        self.turn = None;
    }

    /// What is to be done about the turn that goes on.
    fn step(&self, now: Instant, turn: &Turn) -> Step {
        let (group, stream) = (self.groups.group(turn.group), self.groups.stream(turn.stream));
        let contended = self.groups.others() > 0 || group.waiting() > 0;
        // Also where nobody else is there: who comes then is to find that nobody has had much more than the others.
        if now >= turn.ends {
            return Step::Over;
        }
        if stream.queued > 0 {
            let used_up = if self.in_requests() { turn.dispatched } else { stream.under_way };
            return match used_up >= self.config.quantum.max(1) {
                true if self.in_requests() => Step::Over,
                true if contended => Step::Wait(turn.ends),
                _ => Step::Dispatch,
            };
        }
        if !contended {
            return Step::Rest;
        }
        let idle = self.config.slice_idle;
        if !self.in_requests() && stream.think.is_prompt(idle) {
            return wait(now, turn, stream.under_way, stream.think.patience_ends(turn.began, idle));
        }
        let idle = self.config.group_idle;
        if idle > Duration::ZERO && group.waiting() == 0 && group.think.is_prompt(idle) {
            return wait(now, turn, group.under_way, group.think.patience_ends(turn.began, idle));
        }
        Step::Over
    }
}

/// Waits for the end of what is under way, then for what follows, but not beyond the turn.
fn wait(now: Instant, turn: &Turn, under_way: u32, patience_ends: Instant) -> Step {
    if under_way > 0 {
        return Step::Wait(turn.ends);
    }
    if now >= patience_ends { Step::Over } else { Step::Wait(patience_ends.min(turn.ends)) }
}

fn weight_of(weights: &BTreeMap<GroupKey, u32>, config: &CfqConfig, key: GroupKey) -> u32 {
    let of_class = key.0.place().map_or(GROUP_WEIGHT_MAX, |place| config.weights[place]);
    weights.get(&key).copied().unwrap_or(of_class).clamp(GROUP_WEIGHT_MIN, GROUP_WEIGHT_MAX)
}

impl<T> Scheduler<T> for Cfq<T> {
    fn enqueue(&mut self, now: Instant, work: Work, item: T) -> Result<(), Full<T>> {
        self.now = self.now.max(now);
        if self.len() >= QUEUED_MAX {
            return Err(Full(item));
        }
        if work.class == Class::Immediate {
            self.strict.push(work, item);
        } else {
            let (weights, config) = (&self.weights, &self.config);
            self.groups.push(self.now, work, item, |key| weight_of(weights, config, key));
            self.queued += 1;
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Instant) -> Dequeued<T> {
        self.now = self.now.max(now);
        let now = self.now;
        if let Some((work, item)) = self.strict.pop() {
            return Dequeued::Ready(work, item);
        }
        loop {
            let Some(turn) = self.turn else {
                match self.begin(now) {
                    true => continue,
                    false => return Dequeued::Empty,
                }
            };
            match self.step(now, &turn) {
                Step::Dispatch => {
                    let (work, item) = self.groups.pop(turn.stream).expect("the stream has work");
                    self.queued -= 1;
                    let turn = self.turn.as_mut().expect("the turn goes on");
                    turn.dispatched += 1;
                    turn.requests += u64::from(work.cost.ios.max(1));
                    return Dequeued::Ready(work, item);
                }
                Step::Wait(until) => return Dequeued::NotBefore(until),
                Step::Rest => return Dequeued::Empty,
                Step::Over => self.end(now, turn),
            }
        }
    }

    fn completed(&mut self, now: Instant, work: &Work) {
        self.now = self.now.max(now);
        let stream = self.groups.completed(self.now, work);
        if let Some(turn) = self.turn.as_mut().filter(|turn| stream == Some(turn.stream)) {
            turn.answered(self.now);
        }
    }

    fn pass(&mut self, _now: Instant, work: &Work) -> bool {
        // Everything else has to be seen by the turns.
        self.is_empty() && work.class == Class::Immediate
    }

    fn len(&self) -> usize {
        self.strict.queued() + self.queued
    }

    fn drain(&mut self, take: &mut dyn FnMut(Work, T)) {
        self.strict.drain(take);
        self.groups.drain(take);
        (self.turn, self.queued) = (None, 0);
    }

    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Work, &'a T)) {
        self.strict.visit(see);
        self.groups.visit(see);
    }

    fn states(&self) -> Vec<QueueState> {
        let groups = self.groups.all().map(|group| QueueState {
            name: format!("{} group {}", group.key.0.name(), group.key.1.0),
            queued: group.queued,
            flows: group.waiting(),
            promise: Some(Promise::weight(group.weight)),
            not_before: None,
        });
        core::iter::once(self.strict.state()).chain(groups).collect()
    }
}
