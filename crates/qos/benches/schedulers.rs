//! What an op costs in each scheduler: one in and one out, with many streams that have work queued.
//!
//! Sizes of ops and what tenants are promised differ, so that streams come in an order of which no cache knows the next:
//! were they all alike, they would be served in the order in which they lie in memory.
//!
//! `cargo bench -p qos`; what the C++ library dmclock takes for the same: `benches/dmclock/main.cc`.

use base::{Duration, Instant, Rng};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use qos::{
    AnyScheduler, Cfq, CfqConfig, Class, Cost, CostModel, Dequeued, Elsewhere, Fifo, GroupId, MClock, MClockConfig,
    Priority, Profile, Promise, Scheduler, Served, StreamId, Work, Wpq, WpqConfig,
};

const BEGIN: Instant = Instant::from_secs(1000);
const CAPACITY: f64 = 1_000_000.0;

fn work(n: u64, grouped: bool) -> Work {
    // One op in eight is background work; the streams are clients'.
    let class = if n % 8 == 7 { Class::Recovery } else { Class::Client };
    Work {
        class,
        group: if grouped { GroupId(n as u32 + 1) } else { GroupId::NONE },
        stream: StreamId(n),
        priority: Priority(if class == Class::Client { 63 } else { 3 }),
        cost: Cost::one(4096),
    }
}

/// One of some number of 4 KiB blocks, up to 64 KiB.
fn cost(rng: &mut Rng) -> Cost {
    Cost::one(4096 * (1 + rng.below(16)))
}

fn mclock() -> MClock<u64> {
    let cost = CostModel { per_io: 0.75, per_byte: 0.25 / 4096.0 };
    MClock::new(MClockConfig { cost, ..MClockConfig::profile(Profile::HighClientOps, CAPACITY) })
}

/// As many groups as there are streams, each with a reservation and a limit.
fn tenants(streams: u64) -> MClock<u64> {
    let mut queue = mclock();
    let mean = CAPACITY / 2.0 / streams as f64;
    let mut rng = Rng::new(streams);
    (0..streams).for_each(|n| {
        let each = mean * (50 + rng.below(100)) as f64 / 100.0;
        let promise = Promise::new(each * 0.9, 1, Some(each * 4.0)).expect("sound");
        queue.promise_group(BEGIN, work(n, true).class, GroupId(n as u32 + 1), Some(promise));
    });
    queue
}

fn cfq(slice_idle_ms: u64) -> AnyScheduler<u64> {
    let slice_idle = Duration::from_millis(slice_idle_ms);
    AnyScheduler::Cfq(Box::new(Cfq::new(CfqConfig { slice_idle, ..CfqConfig::default() })))
}

/// Fills the queue with two ops a stream, then gives out one and takes in the next of that stream, and so on.
fn one_in_one_out(bench: &mut criterion::Bencher<'_>, mut queue: AnyScheduler<u64>, streams: u64, grouped: bool) {
    let (mut now, mut rng) = (BEGIN, Rng::new(streams));
    for n in (0..streams).chain(0..streams) {
        queue.enqueue(now, Work { cost: cost(&mut rng), ..work(n, grouped) }, n).expect("there is room");
    }
    // Until they have left the order in which they came.
    (0..8 * streams).for_each(|_| {
        one(&mut queue, &mut now, &mut rng);
    });
    bench.iter(|| one(&mut queue, &mut now, &mut rng));
}

/// Gives out one op and takes in the next of its stream.
fn one(queue: &mut AnyScheduler<u64>, now: &mut Instant, rng: &mut Rng) -> u64 {
    loop {
        *now = *now + Duration::from_micros(1);
        match queue.dequeue(*now) {
            Dequeued::Ready(work, n) => {
                queue.completed(*now, &work);
                queue.enqueue(*now, Work { cost: cost(rng), ..work }, n).expect("there is room");
                break n;
            }
            Dequeued::NotBefore(at) => *now = at,
            Dequeued::Empty => unreachable!("as much comes as goes"),
        }
    }
}

fn schedulers(c: &mut Criterion) {
    let mut group = c.benchmark_group("one in, one out");
    for streams in [1, 100, 10_000] {
        let mut add = |name: &str, grouped: bool, make: &dyn Fn() -> AnyScheduler<u64>| {
            group.bench_function(BenchmarkId::new(name, streams), |bench| {
                one_in_one_out(bench, make(), streams, grouped);
            });
        };
        add("fifo", false, &|| AnyScheduler::Fifo(Fifo::default()));
        add("wpq", false, &|| AnyScheduler::Wpq(Box::new(Wpq::new(WpqConfig::default()))));
        add("mclock", false, &|| AnyScheduler::MClock(Box::new(mclock())));
        add("mclock, each with a reservation and a limit", true, &|| AnyScheduler::MClock(Box::new(tenants(streams))));
        add("mclock, each with promises kept with other servers", true, &|| {
            let mut queue = tenants(streams);
            let served = Served { requests: 9.0, bytes: 36_864.0, reserved_ns: 1e6 };
            let others = Elsewhere { served, servers: 2, waits: false };
            (0..streams).for_each(|n| {
                queue.settle(BEGIN, work(n, true).class, GroupId(n as u32 + 1), others);
            });
            AnyScheduler::MClock(Box::new(queue))
        });
        add("cfq in time", false, &|| cfq(8));
        add("cfq in requests", false, &|| cfq(0));
        add("cfq in requests, each its group", true, &|| cfq(0));
    }
    group.finish();
}

fn passing(c: &mut Criterion) {
    let mut queue = mclock();
    let mut now = BEGIN;
    c.bench_function("mclock, past the empty queue", |bench| {
        bench.iter(|| {
            now = now + Duration::from_micros(1);
            queue.pass(now, &work(1, false))
        });
    });
}

criterion_group!(benches, schedulers, passing);
criterion_main!(benches);
