//! What the shares come to: a device that takes its time, senders that behave well and badly, and a stopwatch.

use base::{Duration, Instant};
use proptest::prelude::*;
use qos::{
    AnyScheduler, Cfq, CfqConfig, Class, Cost, CostModel, Dequeued, GroupId, Ledger, MClock, MClockConfig, Priority,
    Profile, Promise, Scheduler, StreamId, Work, Wpq, WpqConfig,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const BEGIN: Instant = Instant::from_secs(1_000_000);

fn work(class: Class, group: u32, stream: u64) -> Work {
    Work { class, group: GroupId(group), stream: StreamId(stream), priority: Priority(63), cost: Cost::one(4096) }
}

fn with_ios(work: Work, ios: u32) -> Work {
    Work { cost: Cost { ios, ..work.cost }, ..work }
}

/// Somebody who sends.
#[derive(Clone, Copy, Debug)]
struct Sender {
    work: Work,
    /// How many it keeps queued while it is there.
    depth: usize,
    /// When it is there, in milliseconds of the run.
    from_ms: u64,
    to_ms: u64,
}

fn always(work: Work) -> Sender {
    Sender { work, depth: 4, from_ms: 0, to_ms: u64::MAX }
}

/// A device that serves one piece of work after the other, `rate` units a second, and says what it served when.
struct Bench<S> {
    queue: S,
    now: Instant,
    rate: f64,
    served: Vec<(Instant, usize, u32)>,
}

impl<S: Scheduler<usize>> Bench<S> {
    fn new(queue: S, rate: f64) -> Bench<S> {
        Bench { queue, now: BEGIN, rate, served: Vec::new() }
    }

    /// Runs for so long; gives the units a second of each sender.
    fn run(&mut self, senders: &[Sender], time: Duration) -> Vec<f64> {
        let (begin, end) = (self.now, self.now + time);
        let first = self.served.len();
        let mut waiting = vec![0; senders.len()];
        while self.now < end {
            let ms = self.now.since(begin).as_millis() as u64;
            for (n, sender) in senders.iter().enumerate().filter(|(_, s)| (s.from_ms..s.to_ms).contains(&ms)) {
                while waiting[n] < sender.depth {
                    self.queue.enqueue(self.now, sender.work, n).expect("there is room");
                    waiting[n] += 1;
                }
            }
            match self.queue.dequeue(self.now) {
                Dequeued::Ready(work, n) => {
                    waiting[n] -= 1;
                    self.served.push((self.now, n, work.cost.ios));
                    self.now = self.now + Duration::from_secs_f64(f64::from(work.cost.ios) / self.rate);
                    self.queue.completed(self.now, &work);
                }
                // Senders that come meanwhile are looked at every millisecond.
                Dequeued::NotBefore(at) => self.now = at.min(self.now + Duration::from_millis(1)),
                Dequeued::Empty => self.now = self.now + Duration::from_millis(1),
            }
        }
        let mut units = vec![0.0; senders.len()];
        self.served[first..].iter().for_each(|(_, n, ios)| units[*n] += f64::from(*ios));
        // The next run begins with an empty queue.
        self.queue.drain(&mut |_, _| {});
        units.iter().map(|units| units / time.as_secs_f64()).collect()
    }

    /// Panics if a sender got more than `limit` units a second in any stretch of time, but for what limits allow.
    fn check_limit(&self, n: usize, limit: f64, largest: f64) {
        let all: Vec<(f64, f64)> = (self.served.iter().filter(|(_, who, _)| *who == n))
            .map(|(at, _, ios)| (at.since(BEGIN).as_secs_f64(), f64::from(*ios)))
            .collect();
        // Served in any stretch [i, j]: at most limit * (t + slack) and one piece of work. One pass: the stretch that is
        // worst for its end begins where the excess so far was least.
        let slack = qos::limits::LIMIT_CREDIT.as_secs_f64();
        let (mut sum, mut least) = (0.0, f64::INFINITY);
        for (at, ios) in all {
            least = f64::min(least, sum - limit * at);
            sum += ios;
            let excess = (sum - limit * at) - least;
            assert!(excess <= limit * slack + largest * 1.001, "limit {limit} passed by {excess} at {at}");
        }
    }
}

fn mclock(classes: [Promise; 3]) -> MClock<usize> {
    MClock::new(MClockConfig { classes, cost: CostModel::REQUESTS, cut_off: Priority(196) })
}

fn near(got: f64, wanted: f64, part: f64) -> bool {
    (got - wanted).abs() <= wanted * part
}

fn promise() -> impl Strategy<Value = (f64, u32, Option<f64>)> {
    (0.0..0.33f64, 1u32..20, prop::option::of(0.05..1.5f64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Three classes that always want more, on a device of 1,000 requests a second: none gets less than its reservation,
    /// none more than its limit, and the device rests only if all are at their limits.
    #[test]
    fn reservations_and_limits_hold_and_nothing_is_wasted(
        figures in [promise(), promise(), promise()],
        ios in [1u32..20, 1u32..20, 1u32..20],
    ) {
        let rate = 1000.0;
        let classes = figures.map(|(share, weight, limit)| {
            let limit = limit.map(|limit| limit * rate);
            Promise::new((share * rate).min(limit.unwrap_or(rate)), weight, limit).expect("sound")
        });
        let senders: Vec<Sender> = Class::SHARED.iter().zip(ios)
            .map(|(class, ios)| always(with_ios(work(*class, 0, 1), ios))).collect();
        let mut bench = Bench::new(mclock(classes), rate);
        let got = bench.run(&senders, Duration::from_secs(20));
        for (n, class) in classes.iter().enumerate() {
            // Of 20 s, one large request more or less.
            let grain = f64::from(*ios.iter().max().expect("three")) * 3.0 / 20.0;
            prop_assert!(got[n] >= class.reservation() * 0.99 - grain, "{n}: {got:?} of {classes:?}");
            if let Some(limit) = class.limit() {
                bench.check_limit(n, limit, f64::from(ios[n]));
            }
        }
        let allowed: f64 = classes.iter().map(|class| class.limit().unwrap_or(f64::INFINITY)).sum();
        prop_assert!(got.iter().sum::<f64>() >= 0.98 * allowed.min(rate) - 3.0, "{got:?} of {classes:?}");
    }

    /// Without reservations and limits, classes, and the streams in them, get parts by weight whatever their requests cost.
    #[test]
    fn shares_follow_weights_whatever_requests_cost(
        weights in [1u32..100, 1u32..100, 1u32..100],
        ios in [1u32..64, 1u32..64, 1u32..64],
    ) {
        let mut bench = Bench::new(mclock(weights.map(Promise::weight)), 10_000.0);
        let senders: Vec<Sender> = Class::SHARED.iter().zip(ios)
            .map(|(class, ios)| always(with_ios(work(*class, 0, 1), ios))).collect();
        let got = bench.run(&senders, Duration::from_secs(60));
        let all: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        for n in 0..3 {
            let wanted = 10_000.0 * f64::from(weights[n]) / all;
            prop_assert!((got[n] - wanted).abs() <= 0.02 * wanted + 8.0, "{n}: {got:?} for {weights:?}");
        }
    }

    /// Whoever comes and goes gets, while it is there, what its weight says: what it did not use before is no credit, what
    /// others used alone is no debt of theirs.
    #[test]
    fn who_comes_back_has_neither_credit_nor_debt(away_ms in 10u64..5000, weight in 1u32..10, ios in 1u32..20) {
        let classes = [Promise::weight(weight), Promise::new(200.0, 1, None).expect("sound"), Promise::weight(1)];
        let mut bench = Bench::new(mclock(classes), 1000.0);
        let steady = always(with_ios(work(Class::Client, 0, 1), ios));
        let comes = Sender { from_ms: away_ms, ..always(work(Class::Recovery, 0, 2)) };
        bench.run(&[steady, comes], Duration::from_millis(away_ms + 2000));
        let back = BEGIN + Duration::from_millis(away_ms);
        // In the first tenth of a second after it is back it has its share, and not more.
        let early = |n: usize| -> f64 {
            let window = |at: Instant| at >= back && at < back + Duration::from_millis(200);
            bench.served.iter().filter(|(at, who, _)| window(*at) && *who == n).map(|(_, _, ios)| f64::from(*ios)).sum()
        };
        let share = (200.0 / f64::from(weight + 1)).max(200.0 * 0.2);
        let grain = 2.0 * f64::from(ios) + 3.0;
        prop_assert!((early(1) - share).abs() <= 0.05 * share + grain, "{} for {share}", early(1));
    }

    /// Whatever was promised before, another promise is in force at once and to the letter.
    #[test]
    fn a_change_of_profile_leaves_nothing_behind(order in prop::collection::vec(0usize..4, 1..6), ios in 1u32..50) {
        let custom = Promise::new(1.0, 1, Some(2.0)).expect("sound");
        let of = |n: usize| match n {
            0 => Profile::HighClientOps.promises(1000.0),
            1 => Profile::Balanced.promises(1000.0),
            2 => Profile::HighRecoveryOps.promises(1000.0),
            _ => [custom; 3],
        };
        let config = |classes| MClockConfig { classes, cost: CostModel::REQUESTS, cut_off: Priority(196) };
        let senders: Vec<Sender> = Class::SHARED.iter().map(|class| always(with_ios(work(*class, 0, 1), ios))).collect();
        let mut bench = Bench::new(mclock(of(3)), 1000.0);
        bench.run(&senders, Duration::from_secs(1));
        for n in order {
            bench.queue.configure(bench.now, config(of(n)));
            let changed = bench.run(&senders, Duration::from_secs(5));
            let fresh = Bench::new(mclock(of(n)), 1000.0).run(&senders, Duration::from_secs(5));
            for class in 0..3 {
                let grain = f64::from(ios) * 2.0 / 5.0 + 0.03 * fresh[class];
                prop_assert!((changed[class] - fresh[class]).abs() <= grain, "{changed:?} after a change, {fresh:?} fresh");
            }
        }
    }

    /// Tenants of a class: reservations and limits hold among them, streams without any share what is left.
    #[test]
    fn tenants_get_what_they_are_promised(reservations in prop::collection::vec(1.0..90.0f64, 1..5), hogs in 1u64..20) {
        let mut queue = mclock(Profile::HighClientOps.promises(1000.0));
        let mut senders = vec![always(with_ios(work(Class::Recovery, 0, 1), 30))];
        for (n, reservation) in reservations.iter().enumerate() {
            let promise = Promise::new(*reservation, 1, Some(reservation * 1.2)).expect("sound");
            queue.promise_group(BEGIN, Class::Client, GroupId(n as u32 + 1), Some(promise));
            senders.push(always(work(Class::Client, n as u32 + 1, 1)));
        }
        (0..hogs).for_each(|n| senders.push(Sender { depth: 50, ..always(work(Class::Client, 0, 100 + n)) }));
        let mut bench = Bench::new(queue, 1000.0);
        let got = bench.run(&senders, Duration::from_secs(10));
        for (n, reservation) in reservations.iter().enumerate() {
            prop_assert!(got[n + 1] >= reservation * 0.99 - 0.3, "{n}: {got:?} for {reservations:?}");
            bench.check_limit(n + 1, reservation * 1.2, 1.0);
        }
        let left = &got[reservations.len() + 1..];
        let mean = left.iter().sum::<f64>() / left.len() as f64;
        prop_assert!(left.iter().all(|rate| near(*rate, mean, 0.05)), "{left:?}");
    }
}

/// The clock jumps by an hour while all have work queued: what was reserved in that hour is not made up for at the cost of
/// those without a reservation.
#[test]
fn a_jump_of_the_clock_is_no_hour_of_reservations() {
    let classes = [Promise::weight(1), Promise::new(500.0, 1, None).expect("sound"), Promise::weight(1)];
    let mut bench = Bench::new(mclock(classes), 1000.0);
    let senders = [always(work(Class::Client, 0, 1)), always(work(Class::Recovery, 0, 2))];
    for _ in 0..4 {
        bench.queue.enqueue(BEGIN, senders[1].work, 1).expect("there is room");
    }
    bench.now = BEGIN + Duration::from_secs(3600);
    let queued = core::iter::from_fn(|| bench.queue.dequeue(bench.now).ready()).count();
    assert_eq!(queued, 4);
    let got = bench.run(&senders, Duration::from_secs(3));
    assert!(near(got[0], 500.0, 0.02) && near(got[1], 500.0, 0.02), "{got:?}");
    // With work queued all the time.
    let stays = Sender { depth: 1000, ..senders[1] };
    let got = [stays; 2].map(|sender| {
        (0..1000).for_each(|_| bench.queue.enqueue(bench.now, sender.work, 1).expect("there is room"));
        let late = bench.now + Duration::from_secs(3600);
        bench.now = late;
        let mut served = [0, 0];
        for _ in 0..4000 {
            bench.queue.enqueue(bench.now, senders[0].work, 0).expect("there is room");
            bench.queue.enqueue(bench.now, sender.work, 1).expect("there is room");
            let (_, who) = bench.queue.dequeue(bench.now).ready().expect("there is work");
            served[who] += 1;
            bench.now = bench.now + Duration::from_millis(1);
        }
        served
    });
    assert!(got.iter().all(|served| served[0] >= 1700), "the client has about half of 4000: {got:?}");
}

/// A device at a fifth of what it was taken for cannot keep the reservations. They are served in proportion, and who has
/// none is slowed down but not shut out.
#[test]
fn a_slow_device_divides_what_it_has() {
    let promise = |r| Promise::new(r, 1, None).expect("sound");
    let mut bench = Bench::new(mclock([promise(600.0), promise(300.0), Promise::weight(1)]), 200.0);
    let senders: Vec<Sender> = Class::SHARED.iter().map(|class| always(work(*class, 0, 1))).collect();
    let got = bench.run(&senders, Duration::from_secs(100));
    assert!(near(got[0] / got[1], 2.0, 0.1), "{got:?}");
    assert!(near(got[2], 200.0 / 16.0, 0.1), "{got:?}");
}

/// A request of a thousand units is let through when it comes, and then paid for: its class is back at its limit in the
/// long run, and the others hardly notice.
#[test]
fn a_huge_request_is_paid_for() {
    let limit = Promise::new(0.0, 1, Some(100.0)).expect("sound");
    let mut bench = Bench::new(mclock([Promise::weight(1), limit, Promise::weight(1)]), 1000.0);
    let huge = with_ios(work(Class::Recovery, 0, 2), 1000);
    let got = bench.run(&[always(work(Class::Client, 0, 1)), always(huge)], Duration::from_secs(100));
    assert!(near(got[1], 100.0, 0.11), "{got:?}");
    assert!(near(got[0], 900.0, 0.02), "{got:?}");
    bench.check_limit(1, 100.0, 1000.0);
}

/// Shards of one device, each with the whole device's promises and one ledger: the limit is the device's, however unevenly
/// the work is spread.
#[test]
fn shards_share_one_limit_and_one_reservation() {
    for (shards, busy) in [(1usize, 1usize), (4, 4), (16, 16), (16, 3), (16, 1)] {
        let ledger = Arc::new(Ledger::default());
        let limit = Promise::new(300.0, 1, Some(500.0)).expect("sound");
        let config = MClockConfig {
            classes: [limit, Promise::weight(1), Promise::weight(1)],
            cost: CostModel::REQUESTS,
            cut_off: Priority(196),
        };
        let mut queues: Vec<MClock<u32>> = (0..shards).map(|_| MClock::sharing(config, Arc::clone(&ledger))).collect();
        let (mut served, mut of_shard, mut now) = (0u32, BTreeMap::<usize, u32>::new(), BEGIN);
        let mut order: Vec<usize> = (0..shards).collect();
        for _ in 0..100_000 {
            order.sort_by_key(|n| of_shard.get(n).copied().unwrap_or(0));
            for n in order.iter().copied() {
                if n < busy && queues[n].is_empty() {
                    queues[n].enqueue(now, work(Class::Client, 0, 1), 0).expect("there is room");
                }
                if queues[n].dequeue(now).ready().is_some() {
                    served += 1;
                    *of_shard.entry(n).or_default() += 1;
                }
            }
            now = now + Duration::from_micros(100);
        }
        assert!(near(f64::from(served), 5000.0, 0.01), "{served} in 10 s from {busy} of {shards}");
        let least = of_shard.values().min().copied().unwrap_or(0);
        assert!(f64::from(least) > 0.5 * 5000.0 / busy as f64, "each has its part: {of_shard:?}");
    }
}

/// What passes the empty queue is accounted for: a limit holds also where nothing ever waits.
#[test]
fn what_passes_by_is_charged() {
    let limit = Promise::new(0.0, 1, Some(100.0)).expect("sound");
    let mut queue = mclock([limit; 3]);
    let (mut passed, mut now) = (0, BEGIN);
    for _ in 0..10_000 {
        passed += u32::from(queue.pass(now, &work(Class::Client, 0, 1)));
        now = now + Duration::from_millis(1);
    }
    // And what it may make up for of the time before.
    let most = 1002 + qos::limits::LIMIT_CREDIT.as_millis() as u32 / 10;
    assert!((1000..=most).contains(&passed), "{passed} in 10 s");
}

/// What is done for a tenant past the queue counts against its part by weight, and never shuts it out.
#[test]
fn what_is_done_besides_shrinks_a_part_by_weight() {
    let got = |besides: u32| {
        let mut queue = mclock([Promise::weight(1); 3]);
        let (mut now, mut served) = (BEGIN, [0u32; 2]);
        for n in 0..2000 {
            for who in [0, 1] {
                queue.enqueue(now, work(Class::Client, who as u32 + 1, 1), who).expect("there is room");
            }
            let (_, who) = queue.dequeue(now).ready().expect("there is work");
            served[who] += 1;
            if n % 2 == 0 {
                (0..besides).for_each(|_| queue.done_besides(now, Class::Client, GroupId(1), Cost::one(4096)));
            }
            now = now + Duration::from_millis(1);
        }
        served
    };
    // One besides for each two that are served: the first gets (2000 - 1000) / 2 of its own.
    let once = got(1);
    assert!((480..=520).contains(&once[0]), "{once:?}");
    let flooded = got(1000);
    assert!(flooded[0] >= 20, "{flooded:?}");
}

/// Below the cut-off priorities are weights; from it on they are an order.
#[test]
fn wpq_is_strict_above_its_cut_off_and_fair_below() {
    let prio = |priority, stream| Work { priority: Priority(priority), ..work(Class::Client, 0, stream) };
    let config = WpqConfig { cost: CostModel::REQUESTS, ..WpqConfig::default() };
    let mut bench = Bench::new(Wpq::new(config), 1000.0);
    let senders = [always(prio(63, 1)), always(prio(63, 2)), always(with_ios(prio(3, 3), 20)), always(prio(0, 4))];
    let got = bench.run(&senders, Duration::from_secs(100));
    let whole = f64::from(63 + 3 + 1);
    for (n, parts) in [31.5, 31.5, 3.0, 1.0].into_iter().enumerate() {
        assert!(near(got[n], 1000.0 * parts / whole, 0.03), "{n}: {got:?}");
    }
    let mut queue = Wpq::new(config);
    for (n, priority) in [(1, 63), (2, 196), (3, 255), (4, 200), (5, 196)] {
        queue.enqueue(BEGIN, prio(priority, 1), n).expect("there is room");
    }
    let order: Vec<i32> = core::iter::from_fn(|| queue.dequeue(BEGIN).ready().map(|(_, n)| n)).collect();
    assert_eq!(order, [3, 4, 2, 5, 1]);
    queue.enqueue(BEGIN, prio(63, 1), 1).expect("there is room");
    queue.configure(BEGIN, WpqConfig { cut_off: Priority(60), ..config });
    queue.enqueue(BEGIN, prio(63, 1), 2).expect("there is room");
    let order: Vec<i32> = core::iter::from_fn(|| queue.dequeue(BEGIN).ready().map(|(_, n)| n)).collect();
    assert_eq!(order, [1, 2], "a stream keeps its order when the cut-off moves");
}

/// Groups of eight weights with one reader each that sends its next request when the last is answered: with waiting for
/// streams and for groups, time follows weight; in requests, so do requests.
#[test]
fn cfq_groups_follow_their_weights() {
    for (slice_idle_ms, readers) in [(8u64, 1u64), (8, 4), (0, 1), (0, 4)] {
        let mut queue =
            Cfq::new(CfqConfig { slice_idle: Duration::from_millis(slice_idle_ms), ..CfqConfig::default() });
        let mut senders = Vec::new();
        for group in 1..=8 {
            queue.set_weight(Class::Client, GroupId(group), Some(100 * group));
            (0..readers).for_each(|n| {
                senders.push(Sender { depth: 1, ..always(work(Class::Client, group, u64::from(group) * 100 + n)) });
            });
        }
        let mut bench = Bench::new(queue, 1000.0);
        let got = bench.run(&senders, Duration::from_secs(120));
        for group in 0..8 {
            let of_group: f64 = got[group * readers as usize..(group + 1) * readers as usize].iter().sum();
            let wanted = 1000.0 * (group + 1) as f64 / 36.0;
            assert!(near(of_group, wanted, 0.1), "{slice_idle_ms} ms, {readers} readers, {group}: {got:?}");
        }
    }
}

/// What somebody got while nobody else wanted anything was nobody else's: who comes then shares with it at once.
#[test]
fn nothing_is_held_against_who_was_alone() {
    type Make = fn() -> AnyScheduler<usize>;
    fn cfq(slice_idle_ms: u64) -> AnyScheduler<usize> {
        let slice_idle = Duration::from_millis(slice_idle_ms);
        AnyScheduler::Cfq(Box::new(Cfq::new(CfqConfig { slice_idle, ..CfqConfig::default() })))
    }
    let schedulers: [(&str, Make); 4] = [
        ("wpq", || AnyScheduler::Wpq(Box::new(Wpq::new(WpqConfig::default())))),
        ("mclock", || AnyScheduler::MClock(Box::new(mclock(Profile::HighClientOps.promises(1000.0))))),
        ("cfq in time", || cfq(8)),
        ("cfq in requests", || cfq(0)),
    ];
    for (name, make) in schedulers {
        for busy_ms in [20_000, 1] {
            let mut bench = Bench::new(make(), 1000.0);
            // Alone it works for 20 s without a pause, or once, and is not heard of until the other comes.
            let first = Sender { to_ms: busy_ms, ..always(work(Class::Client, 1, 1)) };
            let again = Sender { from_ms: 20_000, ..always(work(Class::Client, 1, 1)) };
            let second = Sender { from_ms: 20_000, ..always(work(Class::Client, 2, 2)) };
            let got = bench.run(&[first, again, second], Duration::from_secs(24));
            let (again, second) = (got[1] * 24.0, got[2] * 24.0);
            assert!(near(again, second, 0.15), "{name}, {busy_ms} ms: {again} and {second} in four seconds");
        }
    }
}

/// A stream that takes long to think is not waited for: the device would stand still.
#[test]
fn cfq_does_not_wait_for_who_thinks_long() {
    let mut bench = Bench::new(Cfq::new(CfqConfig::default()), 1000.0);
    let mut idle = 0u32;
    let busy = always(work(Class::Client, 1, 1));
    for round in 0..50 {
        let before = bench.served.len();
        // A second stream sends one request every 50 ms.
        let rare = Sender { depth: 1, to_ms: 1, ..always(work(Class::Client, 2, 2)) };
        bench.run(&[busy, rare], Duration::from_millis(50));
        if round >= 25 {
            idle += 50u32.saturating_sub((bench.served.len() - before) as u32);
        }
    }
    assert!(idle <= 25, "{idle} ms of 1250 spent waiting");
}

/// A tenant with a reservation that asks now and then, beside others of its class without end and background work in large
/// pieces: it waits for what the device has begun, and for nothing else.
#[test]
fn who_is_promised_something_waits_for_one_piece_of_others_work() {
    let mut queue = mclock(Profile::HighClientOps.promises(1000.0));
    let promise = Promise::new(100.0, 1, None).expect("sound");
    queue.promise_group(BEGIN, Class::Client, GroupId(1), Some(promise));
    let others: Vec<Work> = [(Class::Client, 1), (Class::Client, 1), (Class::Recovery, 12), (Class::BestEffort, 12)]
        .into_iter()
        .zip(2..)
        .map(|((class, ios), stream)| with_ios(work(class, 0, stream), ios))
        .collect();
    for n in (0..others.len()).cycle().take(4 * others.len()) {
        queue.enqueue(BEGIN, others[n], n + 1).expect("there is room");
    }
    let (mut now, mut came, mut asks_at, mut waits) = (BEGIN, BEGIN, BEGIN, Vec::new());
    while now < BEGIN + Duration::from_secs(30) {
        if asks_at <= now {
            queue.enqueue(now, work(Class::Client, 1, 1), 0).expect("there is room");
            came = asks_at;
            asks_at = asks_at + Duration::from_millis(37);
        }
        let (done, who) = queue.dequeue(now).ready().expect("there is always work");
        match who {
            0 => waits.push(now.since(came)),
            n => queue.enqueue(now, others[n - 1], n).expect("there is room"),
        }
        now = now + Duration::from_millis(u64::from(done.cost.ios));
    }
    // At first nobody has fallen behind, and large pieces go as soon as anything else.
    let longest = waits[waits.len() / 10..].iter().max().expect("it was served");
    assert!(waits.len() > 700 && *longest <= Duration::from_millis(12), "{longest:?} of {}", waits.len());
}

/// What may go to a device that has no room for anything else: what a tenant's reservation makes due, and only that.
#[test]
fn what_is_due_is_a_tenants_within_its_reservation() {
    let mut queue = mclock(Profile::HighClientOps.promises(1000.0));
    let promise = Promise::new(100.0, 1, None).expect("sound");
    queue.promise_group(BEGIN, Class::Client, GroupId(1), Some(promise));
    for (n, of) in [work(Class::Recovery, 0, 1), work(Class::Client, 0, 2)].into_iter().cycle().take(40).enumerate() {
        queue.enqueue(BEGIN, of, n).expect("there is room");
    }
    assert_eq!(queue.dequeue_due(BEGIN), None, "nobody's");
    (100..110).for_each(|n| queue.enqueue(BEGIN, work(Class::Client, 1, 3), n).expect("there is room"));
    let mut due = Vec::new();
    for now in (0..50).map(|ms| BEGIN + Duration::from_millis(ms)) {
        due.extend(std::iter::from_fn(|| queue.dequeue_due(now)).map(|(_, n)| n));
    }
    assert_eq!(due, [100, 101, 102, 103, 104], "one in 10 ms, in order");
    assert_eq!(queue.len(), 45);
    // What was given so is charged as ever: until the next is due, others are served.
    let next = queue.dequeue(BEGIN + Duration::from_millis(49)).ready().expect("there is work").1;
    assert!(next < 40, "{next}");
}
