//! What every scheduler keeps, whatever it is asked for: run against each implementation.

use base::{Duration, Instant};
use proptest::prelude::*;
use qos::{
    AnyScheduler, Cfq, CfqConfig, Class, Cost, CostModel, Dequeued, Fifo, GroupId, MClock, MClockConfig, Priority,
    Profile, Promise, Scheduler, StreamId, Work, Wpq, WpqConfig,
};
use std::collections::BTreeMap;

const BEGIN: Instant = Instant::from_secs(1000);

type Make = fn() -> AnyScheduler<u64>;

fn mclock(profile: Profile) -> AnyScheduler<u64> {
    let cost = CostModel { per_io: 0.05, per_byte: 0.000_011 };
    let mut queue = MClock::new(MClockConfig { cost, ..MClockConfig::profile(profile, 1000.0) });
    let promise = Promise::new(50.0, 3, Some(100.0)).and_then(|p| p.at_most_bytes(1e6)).expect("sound");
    queue.promise_group(BEGIN, Class::Client, GroupId(1), Some(promise));
    AnyScheduler::MClock(Box::new(queue))
}

fn cfq(slice_idle_ms: u64) -> AnyScheduler<u64> {
    let mut queue = Cfq::new(CfqConfig { slice_idle: Duration::from_millis(slice_idle_ms), ..CfqConfig::default() });
    queue.set_weight(Class::Client, GroupId(1), Some(1000));
    AnyScheduler::Cfq(Box::new(queue))
}

const ALL: [(&str, Make); 7] = [
    ("fifo", || AnyScheduler::Fifo(Fifo::default())),
    ("wpq", || AnyScheduler::Wpq(Box::new(Wpq::new(WpqConfig::default())))),
    ("mclock high_client_ops", || mclock(Profile::HighClientOps)),
    ("mclock balanced", || mclock(Profile::Balanced)),
    ("mclock high_recovery_ops", || mclock(Profile::HighRecoveryOps)),
    ("cfq in time", || cfq(8)),
    ("cfq in requests", || cfq(0)),
];

/// What happens to a scheduler.
#[derive(Clone, Debug)]
enum Step {
    Enqueue(Work),
    Dequeue,
    /// The oldest that is under way is done.
    Complete,
    /// Time passes, or seems to go back.
    Clock(i64),
    Pass(Work),
}

fn work() -> impl Strategy<Value = Work> {
    let class = prop::sample::select(vec![Class::Client, Class::Recovery, Class::BestEffort, Class::Immediate]);
    let priority = prop::sample::select(vec![0u8, 3, 5, 63, 196, 255]);
    let bytes = prop_oneof![4 => Just(4096u64), 1 => 0u64..1 << 24, 1 => Just(u64::MAX)];
    (class, 0u32..3, 0u64..6, priority, 0u32..3, bytes).prop_map(|(class, group, stream, priority, ios, bytes)| Work {
        class,
        group: GroupId(group),
        stream: StreamId(stream),
        priority: Priority(priority),
        cost: Cost { ios, ..Cost::one(bytes) },
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => work().prop_map(Step::Enqueue),
        5 => Just(Step::Dequeue),
        4 => Just(Step::Complete),
        3 => (0i64..20_000_000).prop_map(Step::Clock),
        1 => prop_oneof![Just(-1_000_000_000i64), Just(3_600_000_000_000i64)].prop_map(Step::Clock),
        1 => work().prop_map(Step::Pass),
    ]
}

/// Checks a scheduler against what was put in.
struct Judge {
    queue: AnyScheduler<u64>,
    now: Instant,
    latest: Instant,
    /// By what keeps its order: the numbers that wait.
    expected: BTreeMap<(Class, GroupId, StreamId, Priority), std::collections::VecDeque<u64>>,
    waiting: usize,
    under_way: std::collections::VecDeque<Work>,
    next: u64,
    trace: Vec<u64>,
}

impl Judge {
    fn new(queue: AnyScheduler<u64>) -> Judge {
        let (expected, under_way) = Default::default();
        Judge { queue, now: BEGIN, latest: BEGIN, expected, waiting: 0, under_way, next: 0, trace: Vec::new() }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Enqueue(work) => {
                self.queue.enqueue(self.now, *work, self.next).expect("there is room");
                let key = (work.class, work.group, work.stream, work.priority);
                self.expected.entry(key).or_default().push_back(self.next);
                self.waiting += 1;
                self.next += 1;
            }
            Step::Dequeue => drop(self.dequeue()),
            Step::Complete => {
                if let Some(work) = self.under_way.pop_front() {
                    self.queue.completed(self.now, &work);
                }
            }
            Step::Clock(by) => {
                self.now = Instant(self.now.0.saturating_add_signed(*by));
                self.latest = self.latest.max(self.now);
            }
            Step::Pass(work) => {
                if self.queue.pass(self.now, work) {
                    assert_eq!(self.waiting, 0, "nothing overtakes what waits");
                    self.under_way.push_back(*work);
                }
            }
        }
        assert_eq!(self.queue.len(), self.waiting);
        let mut seen = Vec::new();
        self.queue.visit(&mut |_, item| seen.push(*item));
        seen.sort_unstable();
        let mut expected: Vec<u64> = self.expected.values().flatten().copied().collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        assert_eq!(self.queue.states().iter().map(|state| state.queued).sum::<usize>(), self.waiting);
    }

    fn dequeue(&mut self) -> Dequeued<u64> {
        let next = self.queue.dequeue(self.now);
        match &next {
            Dequeued::Ready(work, item) => {
                let key = (work.class, work.group, work.stream, work.priority);
                let first = self.expected.get_mut(&key).and_then(|queue| queue.pop_front());
                assert_eq!(first, Some(*item), "a stream keeps its order, and nothing comes twice");
                let immediate = |(key, queue): (&(Class, _, _, _), &std::collections::VecDeque<u64>)| {
                    key.0 == Class::Immediate && !queue.is_empty()
                };
                let waits = self.expected.iter().any(immediate);
                assert!(work.class == Class::Immediate || !waits, "what must not wait goes first");
                self.waiting -= 1;
                self.under_way.push_back(*work);
                self.trace.push(*item);
            }
            Dequeued::NotBefore(at) => {
                assert!(*at > self.now && self.waiting > 0, "a time to come, for work that is there");
            }
            Dequeued::Empty => assert_eq!(self.waiting, 0, "work is there"),
        }
        next
    }

    /// Follows the scheduler's own times until nothing is left.
    fn finish(&mut self) {
        let mut waits = 0;
        self.now = self.latest;
        loop {
            match self.dequeue() {
                Dequeued::Ready(..) => waits = 0,
                Dequeued::NotBefore(at) => {
                    waits += 1;
                    assert!(waits < 100, "waiting as it says leads to work");
                    (self.now, self.latest) = (at, at);
                }
                Dequeued::Empty => break,
            }
        }
        assert!(self.expected.values().all(|queue| queue.is_empty()), "everything came out");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everything_comes_out_once_in_order_and_in_time(steps in prop::collection::vec(step(), 1..200)) {
        for (name, make) in ALL {
            let run = || {
                let mut judge = Judge::new(make());
                steps.iter().for_each(|step| judge.apply(step));
                judge.finish();
                judge.trace
            };
            prop_assert_eq!(run(), run(), "{} does the same twice", name);
        }
    }

    #[test]
    fn another_scheduler_takes_over(steps in prop::collection::vec(step(), 1..100), from in 0..ALL.len(), to in 0..ALL.len()) {
        let mut judge = Judge::new(ALL[from].1());
        steps.iter().for_each(|step| judge.apply(step));
        judge.queue.replace(judge.now, ALL[to].1());
        judge.finish();
    }
}

fn client(stream: u64, bytes: u64) -> Work {
    Work {
        class: Class::Client,
        group: GroupId::NONE,
        stream: StreamId(stream),
        priority: Priority(63),
        cost: Cost::one(bytes),
    }
}

/// A client with a thousand requests of a MiB queued, another with one small one: with all but the control, the second
/// is not made to wait for the first.
#[test]
fn one_stream_cannot_shut_out_another() {
    for (name, make) in ALL {
        let mut queue = make();
        for n in 0..1000 {
            queue.enqueue(BEGIN, client(1, 1 << 20), n).expect("there is room");
        }
        let mut now = BEGIN;
        let served = core::iter::from_fn(|| queue.dequeue(now).ready()).take(5).count();
        assert!(served >= 1, "{name}");
        queue.enqueue(now, client(2, 4096), 7777).expect("there is room");
        let mut before = 0;
        loop {
            match queue.dequeue(now) {
                Dequeued::Ready(work, item) => {
                    queue.completed(now, &work);
                    if item == 7777 {
                        break;
                    }
                    before += 1;
                }
                Dequeued::NotBefore(at) => now = at,
                Dequeued::Empty => panic!("{name} has lost it"),
            }
            now = now + Duration::from_millis(10);
        }
        match name {
            "fifo" => assert_eq!(before, 1000 - served, "{name}"),
            // A turn of a stream may last so long.
            "cfq in time" => assert!(before <= 15, "{name}: {before}"),
            "cfq in requests" => assert!(before <= 8, "{name}: {before}"),
            _ => assert!(before <= 1, "{name}: {before}"),
        }
    }
}

#[test]
fn a_full_scheduler_hands_work_back() {
    for (name, make) in ALL {
        let mut queue = make();
        let refused =
            (0..=qos::limits::QUEUED_MAX as u64).find(|n| queue.enqueue(BEGIN, client(*n % 7, 1), *n).is_err());
        assert_eq!(refused, Some(qos::limits::QUEUED_MAX as u64), "{name}");
        assert_eq!(queue.enqueue(BEGIN, client(1, 1), 9), Err(qos::Full(9)), "{name}");
        let mut count = 0;
        queue.drain(&mut |_, _| count += 1);
        assert_eq!((count, queue.len()), (qos::limits::QUEUED_MAX, 0), "{name}");
        assert_eq!(queue.dequeue(BEGIN), Dequeued::Empty, "{name}");
    }
}

/// More streams than are told apart: all are served.
#[test]
fn more_streams_than_are_known_are_served() {
    for (name, make) in ALL {
        let mut queue = make();
        let streams = qos::limits::FLOWS_MAX as u64 + 10;
        (0..streams).for_each(|n| queue.enqueue(BEGIN, client(n, 1), n).expect("there is room"));
        let (mut now, mut served) = (BEGIN, 0);
        loop {
            match queue.dequeue(now) {
                Dequeued::Ready(work, _) => {
                    queue.completed(now, &work);
                    served += 1;
                }
                Dequeued::NotBefore(at) => now = at,
                Dequeued::Empty => break,
            }
        }
        assert_eq!(served, streams, "{name}");
    }
}
