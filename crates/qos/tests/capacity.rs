//! What the meter learns of devices whose capacity is known, under loads that show it and loads that do not.

use base::{Duration, Instant, Rng};
use qos::{CapacityMeter, Waits};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const BEGIN: Instant = Instant::from_secs(1_000_000);

/// So many runs of what chance has a part in.
const SEEDS: u64 = 8;

/// A device that works on `width` pieces at once, each for `alone`, give or take a quarter; or one that commits in
/// groups: it takes all that waits, works on it for `alone`, and takes nothing else until then.
struct Bench {
    meter: CapacityMeter,
    now: Instant,
    width: usize,
    in_groups: bool,
    /// So long in each tenth of a second it does nothing.
    pauses: Duration,
    /// After a break it does up to so many pieces in a tenth of the time: it has saved that up since `paid_to`.
    saves: u32,
    paid_to: Instant,
    alone: Duration,
    ends: BinaryHeap<Reverse<Instant>>,
    waiting: VecDeque<()>,
    rng: Rng,
}

impl Bench {
    fn new(width: usize, alone_us: u64) -> Bench {
        Bench {
            meter: CapacityMeter::new(1.0),
            now: BEGIN,
            width,
            in_groups: false,
            pauses: Duration::ZERO,
            saves: 0,
            paid_to: BEGIN,
            alone: Duration::from_micros(alone_us),
            ends: BinaryHeap::new(),
            waiting: VecDeque::new(),
            rng: Rng::new(1),
        }
    }

    fn known(&self) -> f64 {
        self.meter.learnt().expect("the device has worked").capacity
    }

    fn capacity(&self) -> f64 {
        self.width as f64 / self.alone.as_secs_f64()
    }

    fn submit(&mut self) {
        self.meter.begin(self.now, 1.0);
        self.waiting.push_back(());
        self.start();
    }

    fn start(&mut self) {
        if self.in_groups {
            if self.ends.is_empty() {
                let end = self.now + self.takes();
                self.ends.extend(self.waiting.drain(..).map(|()| Reverse(end)));
            }
            return;
        }
        while self.ends.len() < self.width && self.waiting.pop_front().is_some() {
            let end = self.now + self.takes();
            self.ends.push(Reverse(end));
        }
    }

    fn takes(&mut self) -> Duration {
        if self.saves > 0 {
            self.paid_to = self.paid_to.max(self.now - self.alone.mul_f64(f64::from(self.saves))) + self.alone;
            return self.paid_to.since(self.now).max(self.alone.mul_f64(0.1));
        }
        let takes = self.alone.mul_f64(0.75 + self.rng.below(1000) as f64 / 2000.0);
        let tenth = Duration::from_millis(100);
        let into = Duration::from_nanos((self.now + takes).0 % tenth.as_nanos() as u64);
        takes + self.pauses.saturating_sub(into)
    }

    /// Lets time pass until the next piece is done, but not beyond `until`; whether one was.
    fn step(&mut self, until: Instant) -> bool {
        match self.ends.peek() {
            Some(Reverse(end)) if *end <= until => {
                self.now = *end;
                self.ends.pop();
                self.meter.end(self.now, 1.0);
                self.start();
                true
            }
            _ => {
                self.now = until;
                false
            }
        }
    }

    /// Somebody keeps `depth` pieces under way for so long.
    fn keep(&mut self, depth: usize, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            while self.ends.len() + self.waiting.len() < depth {
                self.submit();
            }
            self.step(end);
        }
    }

    /// Somebody keeps `depth` pieces under way or waiting for so long, and is let have `share` of the capacity that is known;
    /// gives how many pieces a second were done.
    fn keep_limited(&mut self, depth: usize, share: f64, time: Duration) -> f64 {
        let (end, mut free_at, mut done) = (self.now + time, self.now, 0);
        while self.now < end {
            let limit = self.meter.learnt().expect("known by now").believed * share;
            let mut under_way = self.ends.len() + self.waiting.len();
            // What a limit has held back is no credit beyond a moment.
            free_at = free_at.max(self.now - qos::limits::LIMIT_CREDIT);
            while under_way < depth && free_at <= self.now {
                self.submit();
                free_at = free_at + Duration::from_secs_f64(1.0 / limit);
                under_way += 1;
            }
            let is_limited = under_way < depth;
            self.meter.wait(self.now, if is_limited { Waits::ForLimit } else { Waits::Not });
            done += usize::from(self.step(if is_limited { end.min(free_at) } else { end }));
        }
        self.meter.wait(self.now, Waits::Not);
        done as f64 / time.as_secs_f64()
    }

    /// Somebody sends a piece every `every`, whatever becomes of the others.
    fn drip(&mut self, every: Duration, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.submit();
            let next = self.now + every;
            while self.step(next) {}
        }
    }

    fn assert_known(&self, what: &str) {
        let known = self.known();
        let off = known / self.capacity() - 1.0;
        assert!(off.abs() <= 0.1, "{what}: {known:.0} a second is known of {:.0}", self.capacity());
    }
}

#[test]
fn a_busy_device_is_known_in_ten_seconds_and_followed_when_it_changes() {
    // A disk, one with some commands at once, a flash drive.
    for (width, alone_us, depth) in [(1, 3000, 8), (4, 8000, 32), (64, 3000, 128)] {
        let mut bench = Bench::new(width, alone_us);
        bench.keep(depth, Duration::from_secs(10));
        bench.assert_known("at first");
        bench.alone *= 5;
        bench.keep(depth, Duration::from_secs(10));
        bench.assert_known("five times slower");
        bench.alone /= 5;
        bench.keep(depth, Duration::from_secs(10));
        bench.assert_known("five times faster again");
        // Whoever is at his limit for long knows no longer how fast one piece alone would be, and follows all the same.
        bench.keep(depth, Duration::from_secs(100));
        bench.alone = bench.alone.mul_f64(1.3);
        bench.keep(depth, Duration::from_secs(10));
        bench.assert_known("somewhat slower after long");
    }
}

#[test]
fn little_to_do_does_not_make_a_device_slow() {
    let mut bench = Bench::new(16, 1000);
    bench.keep(64, Duration::from_secs(10));
    bench.assert_known("at its limit");
    bench.keep(1, Duration::from_secs(60));
    bench.assert_known("after a minute of one piece at a time");
    bench.drip(Duration::from_millis(20), Duration::from_secs(60));
    bench.assert_known("after a minute of next to nothing");
    bench.keep(6, Duration::from_secs(60));
    bench.assert_known("after a minute of some work");
}

#[test]
fn waiting_for_a_group_under_way_does_not_make_a_device_slow() {
    let mut bench = Bench { in_groups: true, ..Bench::new(1, 5000) };
    bench.drip(Duration::from_micros(100), Duration::from_secs(10));
    let known = bench.known();
    assert!((known / 10_000.0 - 1.0).abs() <= 0.1, "{known}");
    // One piece at a time, then some: each finds a group under way, and waits for the rest of that one and for its own.
    for _ in 0..12 {
        bench.keep(1, Duration::from_secs(2));
        bench.drip(Duration::from_micros(400), Duration::from_secs(3));
    }
    let later = bench.known();
    assert!((later / known - 1.0).abs() <= 0.1, "{known} became {later} as less came");
}

#[test]
fn a_device_that_slows_down_is_noticed_at_a_lower_load_too() {
    let mut bench = Bench::new(4, 1000);
    bench.keep(64, Duration::from_secs(10));
    bench.keep(2, Duration::from_secs(5));
    bench.alone *= 5;
    bench.keep(12, Duration::from_secs(10));
    bench.assert_known("five times slower, and a fifth of the load");
    let mut bench = Bench::new(2, 1000);
    bench.keep(2, Duration::from_secs(10));
    bench.alone *= 5;
    bench.keep(2, Duration::from_secs(10));
    bench.assert_known("five times slower, with two pieces at a time");
}

#[test]
fn a_sender_that_is_held_to_what_is_known_finds_out_that_there_is_more() {
    // Recovery alone, limited to the capacity: the device has become five times faster meanwhile.
    let mut bench = Bench::new(8, 1000);
    bench.keep(32, Duration::from_secs(10));
    bench.alone /= 5;
    let end = bench.now + Duration::from_secs(10);
    while bench.now < end {
        let limit = bench.meter.learnt().expect("known by now").believed;
        // It sends in bursts, as turns of recovery come.
        let burst = (limit / 20.0).ceil() as usize;
        (0..burst).for_each(|_| bench.submit());
        let next = bench.now + Duration::from_millis(50);
        while bench.step(next) {}
    }
    bench.assert_known("five times faster, under a limit");
}

#[test]
fn limits_that_are_shares_of_the_capacity_do_not_wear_it_down() {
    // A disk, a flash drive, and what commits in groups, the latter two also with work of their own to do; with the limits
    // of clients in two profiles. Chance decides how a change falls together with a try whether the device does more.
    let devices = [(1, false, 32, 0), (16, false, 64, 0), (16, false, 64, 30), (1, true, 64, 0), (1, true, 64, 30)];
    for (seed, (width, in_groups, depth, pauses_ms)) in
        (1..=SEEDS).flat_map(|seed| devices.map(|device| (seed, device)))
    {
        for share in [1.0, 0.8] {
            let (pauses, rng) = (Duration::from_millis(pauses_ms), Rng::new(seed));
            let mut bench = Bench { in_groups, pauses, rng, ..Bench::new(width, 2000) };
            bench.keep(depth, Duration::from_secs(10));
            let mut check = |change: f64, what: &str| {
                bench.alone = bench.alone.mul_f64(change);
                bench.keep_limited(depth, share, Duration::from_secs(10));
                let known = bench.known();
                let any_time = Duration::from_millis(bench.rng.below(8000));
                let given = bench.keep_limited(depth, share, Duration::from_secs(60) + any_time);
                let at_a_time = if in_groups { depth } else { width };
                let at_best = at_a_time as f64 / bench.alone.as_secs_f64() * (1.0 - pauses_ms as f64 / 100.0);
                // A pause costs somewhat less than it lasts: what is under way goes on after it.
                let right = 0.9..if pauses_ms > 0 { 1.2 } else { 1.1 };
                let device =
                    format!("{what}, {share} of {at_best:.0}, {width} wide, {pauses_ms} ms of pauses, seed {seed}");
                assert!(right.contains(&(known / at_best)), "{device}: {known:.0} a second are known");
                assert!(right.contains(&(given / at_best / share)), "{device}: {given:.0} a second were let in");
            };
            check(1.0, "after a while");
            check(5.0, "five times slower");
            check(0.2, "five times faster again");
        }
    }
}

#[test]
fn what_a_device_saves_up_in_the_breaks_that_a_limit_makes_is_not_what_it_does() {
    let mut bench = Bench { saves: 16, ..Bench::new(1, 5000) };
    bench.keep(4, Duration::from_secs(10));
    bench.assert_known("without a limit");
    for round in 0..30 {
        let done = bench.keep_limited(4, 0.8, Duration::from_secs(2));
        bench.assert_known(&format!("limited, {round}: {done:.0} are done"));
    }
}

#[test]
fn who_comes_and_goes_under_a_limit_does_not_wear_a_capacity_down() {
    for (width, in_groups, depth) in [(1, false, 32), (16, false, 64), (1, true, 64)] {
        let mut bench = Bench { in_groups, ..Bench::new(width, 2000) };
        bench.keep(depth, Duration::from_secs(10));
        let known = bench.known();
        for ms in (300..3000).step_by(100) {
            bench.keep_limited(depth, 0.8, Duration::from_millis(ms));
            bench.keep(1, Duration::from_secs(1));
        }
        let part = bench.known() / known;
        assert!((0.9..1.1).contains(&part), "{part:.2}, {width} wide");
    }
}

#[test]
fn what_costs_more_counts_for_more_and_idle_time_counts_for_nothing() {
    let mut meter = CapacityMeter::new(1.0);
    let mut now = BEGIN;
    for _ in 0..3000 {
        meter.begin(now, 10.0);
        now = now + Duration::from_millis(4);
        meter.end(now, 10.0);
        now = now + Duration::from_millis(6);
    }
    let known = meter.learnt().expect("the device has worked").capacity;
    assert!((known - 2500.0).abs() < 1.0, "{known}");
}

#[test]
fn few_large_pieces_do_not_hide_what_a_device_does_with_small_ones() {
    // Large pieces cost a hundred times as much as small ones and take ten times as long.
    let mut meter = CapacityMeter::new(1.0);
    let mut now = BEGIN;
    let mut keep = |depth: usize, units: f64, each: Duration| {
        (0..depth).for_each(|_| meter.begin(now, units));
        for _ in 0..Duration::from_secs(10).as_nanos() / each.as_nanos() {
            now = now + each;
            meter.end(now, units);
            meter.begin(now, units);
        }
        (0..depth).for_each(|_| meter.end(now, units));
        meter.learnt().expect("the device has worked").capacity
    };
    assert!((keep(8, 100.0, Duration::from_millis(10)) - 10_000.0).abs() < 1.0);
    let small = keep(64, 1.0, Duration::from_millis(1));
    assert!((small / 1000.0 - 1.0).abs() <= 0.1, "{small}");
}

#[test]
fn what_is_assumed_stands_until_something_speaks_against_it() {
    let mut bench = Bench::new(16, 1000);
    bench.meter = CapacityMeter::new(20_000.0);
    bench.keep(1, Duration::from_secs(20));
    // As much to do as is assumed is done no faster than the pieces one by one.
    bench.assert_known("one piece at a time");
    bench.meter = CapacityMeter::new(10_000.0);
    bench.keep(1, Duration::from_secs(20));
    assert_eq!(bench.meter.learnt(), None, "one piece at a time says nothing against it");
    bench.keep(32, Duration::from_secs(10));
    bench.assert_known("less than was assumed");
    bench.meter = CapacityMeter::new(300.0);
    bench.keep(2, Duration::from_secs(10));
    let known = bench.known();
    assert!(known > 1500.0, "{known}");
}
