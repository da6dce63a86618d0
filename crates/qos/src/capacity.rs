//! What a device can do, learnt from what it does: no benchmark, no pause in its work.
//!
//! The device is watched in short windows: how many units it did in a second of having something to do (X), how many it
//! had before it on average (N), how long each piece of work took (R). Delay against load says what X means, by the bounds
//! of queueing (Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing Surveys, 1978): a
//! device with little to do takes the time R0 that a piece takes alone, and X grows with N; one with more than it can work
//! on at once makes the rest wait, R grows with N, and X stays what it is: the capacity. A device that commits in groups
//! does more the more it has to do, for long. What is known of a device is a capacity, and the least load that showed it.
//!
//! A window with a higher X than was known raises the estimate whatever the load, as a device does no more than it can. A
//! lower one lowers it only if the device was at its limit and is slower than it was: if it had as much to do as the
//! capacity takes and that took longer, or if work waited for the device longer than this capacity explains (Zahorjan et
//! al., "Balanced Job Bound Analysis of Queueing Networks", Communications of the ACM, 1982: R is at most R0 and the time
//! that all that is there takes at capacity). R0 is the shortest R of late; it is forgotten slowly, as a device that has
//! become slower has a longer one. What is assumed before anything was seen counts as seen under some load: little to do
//! says nothing against it.
//!
//! Where limits are shares of the capacity, they hold back the very work that would show it, and an estimate that is once
//! too low stays so. A device that does less than is known because it is given no more says nothing. If it does nearly all
//! that it may, it is believed to do more, little by little, until work takes longer or the limits hold nothing back any
//! more: then what it did is what is known, and nothing more is believed before work takes less time than it did.

use crate::limits::{
    CAPACITY_ALONE_MEMORY, CAPACITY_BELIEF, CAPACITY_BUSY_MIN, CAPACITY_MEMORY, CAPACITY_WINDOW, CAPACITY_WINDOW_MAX,
    CAPACITY_WINDOW_WORKS_MIN,
};
use base::{Duration, Instant};

/// Work waited for the device if it took longer than so many times what it takes alone and, besides, what all that is under
/// way takes at capacity. A piece that finds a group commit under way waits for the rest of that one and for its own: that
/// is twice, give or take chance.
const WAITED: f64 = 3.0;
/// So many pieces under way may be in one another's way.
const SEVERAL: f64 = 1.5;
/// As much to do as when the estimate was made, with allowance for chance.
const AS_MUCH: f64 = 0.9;
/// As much done as is known, with allowance for chance.
const NEARLY: f64 = 0.95;
/// Limits hold back a part of what the device could do, rather than of what somebody is promised of it, if with them in
/// force it does at least so much of what is known. The least limit of any profile is 80%.
const NEAR_LIMIT: f64 = 0.7;
/// A device that is given more than it can do, and one that has become faster, show it by delays so many times as long.
const SLOWER: f64 = 2.0;
const FASTER: f64 = 0.6;
/// Limits were in force if they were for this part of a window.
const LIMITED: f64 = 0.1;

/// What is seen of a device in one window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Instant,
    /// Up to when time is accounted for.
    until: Instant,
    /// Time with something under way.
    busy: Duration,
    /// Time in which a limit held back what the device had room for.
    limited: Duration,
    /// The sum over all work of the time it was under way, in seconds, and the same of its units.
    delay_s: f64,
    load_s: f64,
    works: u32,
    units: f64,
}

/// Units under way that an assumed capacity stands for.
const ASSUMED_LOAD: f64 = 16.0;

/// What is believed of a device that limits keep from showing what it does.
#[derive(Clone, Copy, Debug)]
enum Belief {
    /// Nothing but what is known.
    Untried,
    /// More than `from`, unless work takes much longer than `delay_s`. The device has done up to `best` units a second
    /// meanwhile.
    Trying { from: f64, best: f64, delay_s: f64 },
    /// Nothing more, unless work takes much less than `delay_s`.
    Tried { delay_s: f64 },
}

/// What is known.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Units a second.
    capacity: f64,
    /// The least number of units under way that showed it.
    load: f64,
}

impl Estimate {
    fn follow(&mut self, rate: f64, load: f64, part: f64) {
        self.capacity += (rate - self.capacity) * part;
        self.load += (load - self.load) * part;
    }

    /// Whether a device with as much to do as this capacity takes does less.
    fn is_missed_by(&self, rate: f64, load: f64) -> bool {
        load >= AS_MUCH * self.load && rate * self.load < self.capacity * load
    }
}

/// Watches a device and says how many units it does a second.
#[derive(Clone, Copy, Debug)]
pub struct CapacityMeter {
    window: Window,
    works_under_way: u32,
    units_under_way: f64,
    is_limited: bool,
    known: Estimate,
    /// Whether anything of that was seen.
    has_learnt: bool,
    belief: Belief,
    /// The time that work took of late, in seconds: its mean, and the shortest, which is what it takes alone.
    delay_s: Option<f64>,
    alone_s: Option<f64>,
}

impl CapacityMeter {
    /// A meter for a device of which so many units a second are assumed.
    pub fn new(assumed: f64) -> CapacityMeter {
        CapacityMeter {
            window: Window::default(),
            works_under_way: 0,
            units_under_way: 0.0,
            is_limited: false,
            known: Estimate { capacity: assumed, load: ASSUMED_LOAD },
            has_learnt: false,
            belief: Belief::Untried,
            delay_s: None,
            alone_s: None,
        }
    }

    /// The device has been given work of so many units.
    pub fn begin(&mut self, now: Instant, units: f64) {
        self.account(now);
        self.works_under_way += 1;
        self.units_under_way += units.max(0.0);
    }

    /// The device has done work that was begun with so many units.
    pub fn end(&mut self, now: Instant, units: f64) {
        self.account(now);
        self.works_under_way = self.works_under_way.saturating_sub(1);
        self.units_under_way =
            if self.works_under_way == 0 { 0.0 } else { (self.units_under_way - units.max(0.0)).max(0.0) };
        self.window.works += 1;
        self.window.units += units.max(0.0);
        let window = self.window;
        let lasted = now.since(window.began);
        let enough = lasted >= CAPACITY_WINDOW && window.works >= CAPACITY_WINDOW_WORKS_MIN;
        if enough || lasted >= CAPACITY_WINDOW_MAX {
            if window.works >= CAPACITY_WINDOW_WORKS_MIN && window.busy >= CAPACITY_BUSY_MIN {
                self.learn(&window, lasted);
            }
            self.window = Window { began: now, until: now, ..Window::default() };
        }
    }

    /// Whether limits that are shares of the capacity hold work back from now on that the device has room for.
    pub fn limit(&mut self, now: Instant, is_limited: bool) {
        if self.is_limited != is_limited {
            self.account(now);
            self.is_limited = is_limited;
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
        let passed = now.since(window.until);
        if self.works_under_way > 0 {
            window.busy += passed;
            window.delay_s += passed.as_secs_f64() * f64::from(self.works_under_way);
            window.load_s += passed.as_secs_f64() * self.units_under_way;
        }
        if self.is_limited {
            window.limited += passed;
        }
        window.until = window.until.max(now);
    }

    fn learn(&mut self, window: &Window, lasted: Duration) {
        let busy_s = window.busy.as_secs_f64();
        let (rate, load) = (window.units / busy_s, window.load_s / busy_s);
        let part = 1.0 - (-busy_s / CAPACITY_MEMORY.as_secs_f64()).exp();
        let waited = self.note_delay(window, part) && rate < self.known.capacity;
        let (given, limited) = (window.units / lasted.as_secs_f64(), window.limited >= lasted.mul_f64(LIMITED));
        if limited && given >= NEAR_LIMIT * self.known.capacity {
            return self.believe(rate, load, busy_s);
        }
        let known = &mut self.known;
        match self.belief {
            Belief::Trying { from, best, delay_s } if given >= NEAR_LIMIT * from => {
                (known.capacity, self.belief) = (best.max(rate), Belief::Tried { delay_s });
            }
            // Who wanted more has gone.
            Belief::Trying { from, .. } => (known.capacity, self.belief) = (from, Belief::Untried),
            Belief::Untried | Belief::Tried { .. } => {}
        }
        if waited {
            known.load = known.load.min(load);
        }
        if rate > known.capacity || known.is_missed_by(rate, load) {
            if rate < AS_MUCH * known.capacity {
                self.belief = Belief::Untried;
            }
            known.follow(rate, load, part);
            self.has_learnt = true;
        } else if rate >= NEARLY * known.capacity && load < known.load {
            known.follow(known.capacity, load, part);
        }
    }

    /// The device does nearly all that is known of it, and a limit keeps it from doing more.
    fn believe(&mut self, rate: f64, load: f64, busy_s: f64) {
        let (known, delay) = (&mut self.known, self.delay_s.unwrap_or_default());
        self.has_learnt = true;
        self.belief = match self.belief {
            Belief::Tried { delay_s } if delay > FASTER * delay_s => self.belief,
            Belief::Trying { best, delay_s, .. } if delay > SLOWER * delay_s => {
                known.capacity = best.max(rate);
                Belief::Tried { delay_s }
            }
            tried => {
                let (from, best, delay_s) = match tried {
                    Belief::Trying { from, best, delay_s } => (from, best, delay_s),
                    Belief::Untried | Belief::Tried { .. } => (known.capacity, rate, delay),
                };
                known.capacity *= (busy_s / CAPACITY_BELIEF.as_secs_f64()).exp();
                Belief::Trying { from, best: best.max(rate), delay_s: delay_s.min(delay) }
            }
        };
        if rate > known.capacity {
            *known = Estimate { capacity: rate, load: known.load.max(load) };
        }
    }

    /// Takes in how long work took; whether it waited for the device longer than the known capacity explains.
    fn note_delay(&mut self, window: &Window, part: f64) -> bool {
        let (busy_s, delay_s) = (window.busy.as_secs_f64(), window.delay_s / f64::from(window.works));
        let aged = (busy_s / CAPACITY_ALONE_MEMORY.as_secs_f64()).exp();
        // One window says little: a device may be busy with something of its own for as long.
        let delay_s = self.delay_s.map_or(delay_s, |of_late| of_late + (delay_s - of_late) * part);
        let alone_s = self.alone_s.map_or(delay_s, |alone_s| delay_s.min(alone_s * aged));
        (self.delay_s, self.alone_s) = (Some(delay_s), Some(alone_s));
        let at_capacity_s = window.load_s / busy_s / self.known.capacity;
        window.delay_s > SEVERAL * busy_s && delay_s > WAITED * alone_s + at_capacity_s
    }
}
