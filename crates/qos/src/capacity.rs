//! What a device can do, learnt from what it does: no benchmark, no pause in its work.
//!
//! The device is watched in short windows: how many units it did in a second of having something to do (X), how many
//! pieces of work it had on average (N), how long each took (R). Delay against load says what X means, by the bounds of
//! queueing (Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing Surveys, 1978): a
//! device with little to do takes the time R0 that a piece takes alone, and X grows with N; one with more than it can work
//! on at once makes the rest wait, R grows with N, and X stays what it is: the capacity.
//!
//! So a window with a higher X than was known raises the estimate whatever the load, as a device does no more than it
//! can. A lower one lowers it only if the device was at its limit: work waited (R well above R0, and above what it is on a
//! device that commits in groups and has little to do, with several pieces at a time), or there was as much to do as when
//! the estimate was made. R0 is the shortest R of late; it is forgotten slowly, as a device that has become slower has a
//! longer one. What is assumed before anything was seen counts as seen under some load: little to do says nothing against
//! it.

use crate::limits::{
    CAPACITY_ALONE_MEMORY, CAPACITY_BUSY_MIN, CAPACITY_MEMORY, CAPACITY_WINDOW, CAPACITY_WINDOW_MAX,
    CAPACITY_WINDOW_WORKS_MIN,
};
use base::{Duration, Instant};

/// Work waited for the device if it took so many times as long as it takes alone, with so many pieces under way. Up to
/// twice as long says nothing: a piece that finds a group commit under way waits for the rest of that one and for its own.
const WAITED: f64 = 2.5;
/// As much to do as when the estimate was made, with allowance for chance.
const AS_MUCH: f64 = 0.9;

/// What is seen of a device in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Instant,
    /// Up to when time is accounted for.
    until: Instant,
    /// Time with something under way.
    busy: Duration,
    /// The sum over all work of the time it was under way, in seconds.
    delay_s: f64,
    works: u32,
    units: f64,
}

/// Pieces of work under way that an assumed capacity stands for.
const ASSUMED_LOAD: f64 = 16.0;

/// What is known.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Units a second.
    capacity: f64,
    /// Pieces of work under way on average as it was learnt.
    load: f64,
}

/// Watches a device and says how many units it does a second.
#[derive(Clone, Copy, Debug)]
pub struct CapacityMeter {
    window: Window,
    under_way: u32,
    known: Estimate,
    /// Whether anything of that was seen.
    has_learnt: bool,
    /// The time that work takes alone, in seconds.
    alone_s: Option<f64>,
}

impl CapacityMeter {
    /// A meter for a device of which so many units a second are assumed.
    pub fn new(assumed: f64) -> CapacityMeter {
        CapacityMeter {
            window: Window::default(),
            under_way: 0,
            known: Estimate { capacity: assumed, load: ASSUMED_LOAD },
            has_learnt: false,
            alone_s: None,
        }
    }

    /// The device has been given work.
    pub fn begin(&mut self, now: Instant) {
        self.account(now);
        self.under_way += 1;
    }

    /// The device has done work of so many units.
    pub fn end(&mut self, now: Instant, units: f64) {
        self.account(now);
        self.under_way = self.under_way.saturating_sub(1);
        self.window.works += 1;
        self.window.units += units.max(0.0);
        let window = self.window;
        let lasted = now.since(window.began);
        let enough = lasted >= CAPACITY_WINDOW && window.works >= CAPACITY_WINDOW_WORKS_MIN;
        if enough || lasted >= CAPACITY_WINDOW_MAX {
            if window.works >= CAPACITY_WINDOW_WORKS_MIN && window.busy >= CAPACITY_BUSY_MIN {
                self.learn(&window);
            }
            self.window = Window { began: now, until: now, ..Window::default() };
        }
    }

    /// Units a second that the device does; none before anything was seen that speaks for or against what is assumed.
    pub fn capacity(&self) -> Option<f64> {
        self.has_learnt.then_some(self.known.capacity)
    }

    /// About how long a piece of work takes alone, as far as it was seen.
    pub fn base_delay(&self) -> Option<Duration> {
        self.alone_s.map(Duration::from_secs_f64)
    }

    fn account(&mut self, now: Instant) {
        let window = &mut self.window;
        if window.began == Instant::ZERO {
            (window.began, window.until) = (now, now);
        }
        if self.under_way > 0 {
            let passed = now.since(window.until);
            window.busy += passed;
            window.delay_s += passed.as_secs_f64() * f64::from(self.under_way);
        }
        window.until = window.until.max(now);
    }

    fn learn(&mut self, window: &Window) {
        let busy_s = window.busy.as_secs_f64();
        let (rate, load) = (window.units / busy_s, window.delay_s / busy_s);
        let delay_s = window.delay_s / f64::from(window.works);
        let aged = (busy_s / CAPACITY_ALONE_MEMORY.as_secs_f64()).exp();
        let alone_s = self.alone_s.map_or(delay_s, |alone_s| delay_s.min(alone_s * aged));
        self.alone_s = Some(alone_s);
        let known = &mut self.known;
        let waited = load > WAITED && delay_s > WAITED * alone_s;
        if rate > known.capacity || waited || load >= AS_MUCH * known.load {
            let part = 1.0 - (-busy_s / CAPACITY_MEMORY.as_secs_f64()).exp();
            known.capacity += (rate - known.capacity) * part;
            known.load += (load - known.load) * part;
            self.has_learnt = true;
        }
    }
}
