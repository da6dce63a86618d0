//! What is learnt of a store that commits in groups, behind a window and under limits that are shares of what is learnt:
//! each of the three changes what the others see.

use base::{Duration, Instant, Rng};
use qos::{CapacityMeter, Load, Waits, Way, Window};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const WORK: Load = Load { ios: 1, bytes: 4096, units: 1.0 };
/// What the store is given at once at the most, before it is learnt how much less will do.
const MOST: Load = Load { ios: 32, bytes: 1 << 20, units: 32.0 };
const SEEDS: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    GroupEnds,
    LimitAllows,
}

/// A store, and a client that keeps `depth` pieces under way, each sent a moment after another was answered.
struct Bench {
    now: Instant,
    rng: Rng,
    events: BinaryHeap<Reverse<(Instant, Event)>>,
    meter: CapacityMeter,
    window: Window,
    /// A group takes so long, give or take half.
    alone: Duration,
    /// Now and then, about every second and a half, one takes so much longer.
    jerk: Duration,
    jerks_at: Instant,
    group: usize,
    is_committing: bool,
    queued: usize,
    /// The limit lets the next in then; the last such time that there is an event for.
    free_at: Instant,
    asked_for: Instant,
}

impl Bench {
    fn new(depth: usize, seed: u64) -> Bench {
        let now = Instant::from_secs(1_000_000);
        Bench {
            now,
            rng: Rng::new(seed),
            events: BinaryHeap::from(vec![Reverse((now, Event::Arrives)); depth]),
            meter: CapacityMeter::new(1.0),
            window: Window::new(MOST, true),
            alone: Duration::from_millis(20),
            jerk: Duration::ZERO,
            jerks_at: now,
            group: 0,
            is_committing: false,
            queued: 0,
            free_at: now,
            asked_for: now,
        }
    }

    fn known(&self) -> f64 {
        self.meter.learnt().expect("the store has worked").capacity
    }

    fn after(&mut self, time: Duration, event: Event) {
        self.events.push(Reverse((self.now + time, event)));
    }

    /// Lets time pass; the client is let have `share` of what is believed, or all. Gives how many a second were done.
    fn run(&mut self, share: Option<f64>, time: Duration) -> f64 {
        let (end, mut done) = (self.now + time, 0);
        loop {
            self.submit(share);
            self.commit();
            match self.events.peek() {
                Some(Reverse((at, event))) if *at <= end => {
                    let event = *event;
                    self.now = *at;
                    self.events.pop();
                    done += self.happen(event);
                }
                _ => break,
            }
        }
        self.now = end;
        done as f64 / time.as_secs_f64()
    }

    fn submit(&mut self, share: Option<f64>) {
        let limit = share.and_then(|share| self.meter.learnt().map(|learnt| share * learnt.believed));
        self.free_at = self.free_at.max(self.now - qos::limits::LIMIT_CREDIT);
        while self.queued > 0 && self.window.has_room() && (limit.is_none() || self.free_at <= self.now) {
            self.meter.begin(self.now, WORK.units);
            self.window.begin(self.now, WORK, Way::Scheduled);
            (self.queued, self.group) = (self.queued - 1, self.group + 1);
            self.free_at = self.free_at + limit.map_or(Duration::ZERO, |limit| Duration::from_secs_f64(1.0 / limit));
        }
        let waits = match (self.queued, self.window.has_room()) {
            (0, _) => Waits::Not,
            (_, false) => Waits::ForRoom,
            (_, true) => Waits::ForLimit,
        };
        if waits == Waits::ForLimit && self.asked_for < self.free_at {
            self.asked_for = self.free_at;
            self.events.push(Reverse((self.free_at, Event::LimitAllows)));
        }
        self.meter.wait(self.now, waits);
        self.window.wait(self.now, waits);
    }

    fn commit(&mut self) {
        if !self.is_committing && self.group > 0 {
            let mut takes = self.alone.mul_f64(0.5 + self.rng.below(1000) as f64 / 1000.0);
            if self.jerk > Duration::ZERO && self.now >= self.jerks_at {
                takes += self.jerk;
                self.jerks_at = self.now + Duration::from_millis(1000 + self.rng.below(1000));
            }
            self.after(takes, Event::GroupEnds);
            // What comes from now on is in the next.
            self.is_committing = true;
            for _ in 0..core::mem::take(&mut self.group) {
                let answered = takes + Duration::from_micros(100 + self.rng.below(500));
                self.after(answered, Event::Arrives);
            }
        }
    }

    fn happen(&mut self, event: Event) -> usize {
        match event {
            Event::Arrives => self.queued += 1,
            Event::LimitAllows => {}
            Event::GroupEnds => {
                self.is_committing = false;
                let committed = self.window.load().ios - self.group;
                for _ in 0..committed {
                    self.meter.end(self.now, WORK.units);
                    self.window.end(self.now, WORK, Way::Scheduled);
                }
                return committed;
            }
        }
        0
    }
}

#[test]
fn a_store_behind_a_window_and_under_a_limit_is_followed_and_loses_nothing() {
    for (seed, depth) in (1..=SEEDS).flat_map(|seed| [(seed, 16), (seed, 64)]) {
        let mut bench = Bench::new(depth, seed);
        let mut capacity = [1, 5].map(|slower| {
            bench.alone = Duration::from_millis(4 * slower);
            bench.run(None, Duration::from_secs(5));
            bench.run(None, Duration::from_secs(20))
        });
        for share in [1.0, 0.8] {
            for _ in 0..3 {
                capacity.reverse();
                let is_fast = capacity[0] > capacity[1];
                bench.alone = Duration::from_millis(if is_fast { 4 } else { 20 });
                bench.run(Some(share), Duration::from_secs(10));
                // The next change comes at any time; meanwhile it may be tried whether the store does more.
                let (halves, mut done) = (20 + bench.rng.below(16), 0.0);
                for half in 0..=halves {
                    let known = bench.known() / capacity[0];
                    let case = format!("{half}: {share} of {:.0} a second at depth {depth}, seed {seed}", capacity[0]);
                    let right = if is_fast { 0.92..1.08 } else { 0.9..1.1 };
                    assert!(right.contains(&known), "{case}: {known:.2} of it are known");
                    done += bench.run(Some(share), Duration::from_millis(500)) / capacity[0];
                }
                let done = done / (halves + 1) as f64;
                assert!(
                    (0.85..1.15).contains(&(done / share)),
                    "{share} at depth {depth}, seed {seed}: {done:.2} are done"
                );
            }
        }
    }
}

/// Who is limited needs little of a window. When the limit rises, a window that was made small for him would be the next.
#[test]
fn a_limit_makes_no_window_smaller() {
    let mut bench = Bench::new(64, 1);
    bench.run(None, Duration::from_secs(10));
    let before = bench.window.most().units;
    let done = bench.run(Some(0.1), Duration::from_secs(20));
    let (after, known) = (bench.window.most().units, bench.known());
    assert!(done < 0.12 * known, "{done:.0} of {known:.0} a second");
    assert!(after > 0.8 * before, "a window of {before:.0} became {after:.0}");
}

/// In one run chance may make it smaller for a while.
#[test]
fn a_store_that_works_in_jerks_keeps_the_window_that_it_needs() {
    let done = |learns| {
        let of_seed = |seed| {
            let window = Window::new(MOST, learns);
            let (alone, jerk) = (Duration::from_millis(10), Duration::from_millis(300));
            let mut bench = Bench { window, alone, jerk, ..Bench::new(16, seed) };
            bench.run(None, Duration::from_secs(10));
            bench.run(None, Duration::from_secs(60))
        };
        (1..=SEEDS).map(of_seed).sum::<f64>()
    };
    let part = done(true) / done(false);
    assert!(part > 0.97, "{part:.3} of what it does with a window that is always large enough");
}
