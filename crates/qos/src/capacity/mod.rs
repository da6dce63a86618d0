//! What a device can do, learnt from what it does: no benchmark, no pause in its work.
//!
//! The device is watched in short windows: how many units it did in a second of having something to do (X), how many it
//! had before it on average (N), how long each piece of work took (R). One window says little of a device that works in
//! jerks, so what is reckoned with is the sums of the last seconds. Delay against load says what X means, by the bounds
//! of queueing (Denning and Buzen, "The Operational Analysis of Queueing Network Models", ACM Computing Surveys, 1978): a
//! device with little to do takes the time R0 that a piece takes alone, and X grows with N; one with more than it can work
//! on at once makes the rest wait, R grows with N, and X stays what it is: the capacity. A device that commits in groups
//! does more the more it has to do, for long. What is known of a device is a capacity, and the least load that showed it.
//!
//! What a limit holds back is something to do as well. In the breaks that it makes a store writes its checkpoints and a drive
//! saves up what it may do at once: between them it does more than it could go on doing.
//!
//! A higher X than was known raises the estimate whatever the load, as a device does no more than it can. A lower one
//! lowers it only if the device was at its limit and is slower than it was: if it had as much to do as the capacity
//! takes, or as it is ever given (`Window`), and that took longer, or if work waited for the device longer than this
//! capacity explains (Zahorjan et al., "Balanced Job Bound Analysis of Queueing Networks", Communications of the ACM,
//! 1982: R is at most R0 and the time that all that is there takes at capacity). R0 is the shortest R of late; it is
//! forgotten slowly, as a device that has become slower has a longer one. Of what is assumed before anything was seen,
//! no more is kept than delays allow: X grows no faster than N.
//!
//! Where limits are shares of the capacity, they hold back the very work that would show it, and an estimate that is once
//! too low stays so. A device that does less than is known because it is given no more says nothing. If a limit holds back
//! what there is room for, then the device is believed to do more, little by little, until the limit holds nothing back any
//! more; what it does then is what is known. That is tried when a limit begins to hold, when work takes much less time
//! than it did or as much to do is done more slowly, and otherwise rarely: meanwhile limits are not what they should be.
//!
//! What is known is a mean of the last seconds and the highest of such means. While the device becomes slower there is still
//! in it what the device did before, and what a try shows then replaces it; where no limit was in force for some seconds it
//! comes down to what is seen with about as much to do.

mod estimate;
mod seen;

use crate::limits::{
    CAPACITY_ALONE_MEMORY, CAPACITY_ASKED_MIN, CAPACITY_BELIEF, CAPACITY_MEMORY, CAPACITY_MOMENT, CAPACITY_SETTLED,
    CAPACITY_TRIES_APART, CAPACITY_WINDOW, CAPACITY_WINDOW_MAX, CAPACITY_WINDOW_WORKS_MIN,
};
use crate::window::Waits;
use base::{Duration, Instant};
use estimate::{AS_MUCH, Estimate};
use seen::Seen;

/// Work waited for the device if it took longer than so many times what it takes alone and, besides, what all that is under
/// way takes at capacity. A piece that finds a group commit under way waits for the rest of that one and for its own: that
/// is twice, give or take chance.
const WAITED: f64 = 3.0;
/// So many pieces under way may be in one another's way.
const SEVERAL: f64 = 1.5;
/// As much done as is known, with allowance for chance, and clearly less to do.
const NEARLY: f64 = 0.95;
const LESS: f64 = 0.8;
/// A device that has become slower may need so much less to do to show what it does.
const FAR_LESS: f64 = 0.6;
/// Limits hold back a part of what the device could do, rather than of what somebody is promised of it, if with them in
/// force it does at least so much of what is known. The least limit of any profile is 80%; a try is some way ahead of what
/// comes of it.
const NEAR_LIMIT: f64 = 0.5;
/// A device that has become faster shows it by delays that are shorter by this factor. No more than so many times what was
/// known is believed of it at once.
const FASTER: f64 = 1.7;
const FASTER_AT_ONCE: f64 = 4.0;

/// What was learnt of a device, in units a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Learnt {
    /// What it does.
    pub capacity: f64,
    /// What limits are to be shares of: more than that while they are to show whether it does more.
    pub believed: f64,
}

impl From<f64> for Learnt {
    /// So much, and no more is believed.
    fn from(capacity: f64) -> Learnt {
        Learnt { capacity, believed: capacity }
    }
}

/// What is believed of a device that limits keep from showing what it does.
#[derive(Clone, Copy, Debug)]
enum Belief {
    /// Nothing but what is known.
    Untried,
    /// So many units a second, and more from window to window.
    Rising { capacity: f64 },
    /// So much that limits hold nothing back: this is what the device does then.
    Showing { capacity: f64, shown: Seen },
    /// Nothing more; limits have held for so many seconds at work since that was tried.
    Tried { since_s: f64 },
}

/// Watches a device and says how many units it does a second.
#[derive(Clone, Copy, Debug)]
pub struct CapacityMeter {
    /// When the window began, and up to when time is accounted for in it.
    began: Instant,
    until: Instant,
    window: Seen,
    works_under_way: u32,
    units_under_way: f64,
    waits: Waits,
    /// For how many seconds at work no limit has held anything back.
    unlimited_s: f64,
    /// The last half second and the last seconds at work, faded.
    just_now: Seen,
    of_late: Seen,
    assumed: f64,
    known: Estimate,
    /// Whether the device was becoming slower when that was seen: then what it did before is still in it.
    is_falling: bool,
    /// Whether a load as large as an estimate takes has shown it.
    has_learnt: bool,
    belief: Belief,
    /// The shortest time that work took of late, in seconds, which is what it takes alone.
    alone_s: Option<f64>,
    /// The time that it took under limits, or without, when last it was tried whether the device does more.
    limited_delay_s: Option<f64>,
}

impl CapacityMeter {
    /// A meter for a device of which so many units a second are assumed.
    pub fn new(assumed: f64) -> CapacityMeter {
        CapacityMeter {
            began: Instant::ZERO,
            until: Instant::ZERO,
            window: Seen::default(),
            works_under_way: 0,
            units_under_way: 0.0,
            waits: Waits::Not,
            unlimited_s: 0.0,
            just_now: Seen::default(),
            of_late: Seen::default(),
            assumed,
            known: Estimate::assumed(assumed),
            is_falling: false,
            has_learnt: false,
            belief: Belief::Untried,
            alone_s: None,
            limited_delay_s: None,
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
        self.window.works += 1.0;
        self.window.units += units.max(0.0);
        let lasted = now.since(self.began);
        let enough = self.window.works >= CAPACITY_WINDOW_WORKS_MIN;
        if (enough && lasted >= CAPACITY_WINDOW) || lasted >= CAPACITY_WINDOW_MAX {
            let window = Seen { lasted_s: lasted.as_secs_f64(), ..self.window };
            if enough && window.asked_s >= CAPACITY_ASKED_MIN.as_secs_f64() {
                self.learn(&window);
            }
            (self.began, self.window) = (now, Seen::default());
        }
    }

    /// What work waits for from now on.
    pub fn wait(&mut self, now: Instant, waits: Waits) {
        if self.waits != waits {
            self.account(now);
            self.waits = waits;
        }
    }

    /// What the device does; none before anything was seen that speaks for or against what is assumed.
    pub fn learnt(&self) -> Option<Learnt> {
        let capacity = self.known.capacity;
        (self.has_learnt || capacity < self.assumed).then(|| Learnt { capacity, believed: self.believed() })
    }

    /// About how long a piece of work takes alone, as far as it was seen.
    pub fn base_delay(&self) -> Option<Duration> {
        self.alone_s.map(Duration::from_secs_f64)
    }

    fn account(&mut self, now: Instant) {
        if self.began == Instant::ZERO {
            (self.began, self.until) = (now, now);
        }
        let passed_s = now.since(self.until).as_secs_f64();
        let window = &mut self.window;
        if self.works_under_way > 0 || self.waits == Waits::ForLimit {
            window.asked_s += passed_s;
            window.delay_s += passed_s * f64::from(self.works_under_way);
            window.load_s += passed_s * self.units_under_way;
        }
        match self.waits {
            Waits::Not => {}
            Waits::ForRoom => window.full_s += passed_s,
            Waits::ForLimit => window.limited_s += passed_s,
        }
        self.until = self.until.max(now);
    }

    fn learn(&mut self, window: &Seen) {
        self.just_now.take_in(window, CAPACITY_MOMENT);
        self.of_late.take_in(window, CAPACITY_MEMORY);
        let waited = self.note_delay(window.asked_s);
        self.unlimited_s = if window.is_limited() { 0.0 } else { self.unlimited_s + window.asked_s };
        let seen = self.of_late.estimate();
        let falls_short = self.just_now.given() < NEAR_LIMIT * self.known.capacity;
        match self.belief {
            // Who wanted more has gone, or the device does no more what it did.
            Belief::Rising { .. } | Belief::Showing { .. } if falls_short => {
                self.belief = Belief::Untried;
                self.revise(&seen, self.is_most());
            }
            _ if self.is_held_back() => self.believe(window.asked_s),
            Belief::Rising { capacity } => self.belief = Belief::Showing { capacity, shown: Seen::default() },
            Belief::Showing { capacity, shown } => self.show(window, capacity, shown),
            Belief::Untried | Belief::Tried { .. } if falls_short || self.is_free() => self.follow(&seen, waited),
            Belief::Untried | Belief::Tried { .. } => {}
        }
        if seen.capacity > self.known.capacity {
            self.know(&seen);
        }
    }

    /// Whether limits have held nothing back for so long that next to nothing is left of what was done under them.
    fn is_settled(&self) -> bool {
        self.unlimited_s >= CAPACITY_SETTLED.as_secs_f64()
    }

    /// Whether the device was given as much as it ever is. While it is only tried what it does without limits, the window that
    /// it is behind may be too small for that.
    fn is_most(&self) -> bool {
        self.is_settled() && self.of_late.is_full()
    }

    /// Whether no limit kept the device of late from showing what it does. Just after a try, what was done while the belief
    /// rose is still in what was seen of late.
    fn is_free(&self) -> bool {
        match self.belief {
            Belief::Tried { .. } => self.is_settled(),
            _ => !self.of_late.is_limited(),
        }
    }

    /// Takes in a window of a try.
    fn show(&mut self, window: &Seen, capacity: f64, mut shown: Seen) {
        shown.take_in(window, Duration::MAX);
        self.belief = if shown.asked_s < CAPACITY_MEMORY.as_secs_f64() {
            Belief::Showing { capacity, shown }
        } else {
            self.conclude(&shown.estimate());
            Belief::Tried { since_s: 0.0 }
        };
    }

    /// Follows a device that no limit keeps from showing what it does.
    fn follow(&mut self, seen: &Estimate, waited: bool) {
        if waited {
            self.known.needs_no_more_than(seen);
        }
        self.limited_delay_s = Some(self.of_late.mean_delay_s());
        self.revise(seen, self.is_most());
        if self.is_settled() && self.has_learnt {
            self.known.come_down_to(seen);
        }
    }

    /// This is what the device does.
    fn know(&mut self, seen: &Estimate) {
        (self.known, self.has_learnt, self.is_falling) = (*seen, true, false);
    }

    fn believed(&self) -> f64 {
        match self.belief {
            Belief::Untried | Belief::Tried { .. } => self.known.capacity,
            Belief::Rising { capacity } | Belief::Showing { capacity, .. } => capacity.max(self.known.capacity),
        }
    }

    /// Whether a limit keeps a device from doing more that does about what is believed of it.
    fn is_held_back(&self) -> bool {
        self.just_now.is_limited() && self.just_now.given() >= NEAR_LIMIT * self.believed()
    }

    /// A limit holds the device back, which was at work for so long since that was asked last.
    fn believe(&mut self, asked_s: f64) {
        self.has_learnt = true;
        let capacity = self.believed();
        self.belief = match self.belief {
            Belief::Untried => Belief::Rising { capacity },
            Belief::Tried { since_s } => self.try_again(since_s + asked_s),
            Belief::Rising { .. } | Belief::Showing { .. } => {
                Belief::Rising { capacity: capacity * (asked_s / CAPACITY_BELIEF.as_secs_f64()).exp() }
            }
        };
    }

    /// What to believe of a device that is held back, and was so until `since_s` after it was tried whether it does more.
    fn try_again(&mut self, since_s: f64) -> Belief {
        let settled_s = CAPACITY_SETTLED.as_secs_f64();
        if since_s < settled_s {
            return Belief::Tried { since_s };
        }
        // What a try had made wait is gone; the device may have changed before the try, while it lasted, or since. A try that
        // was made for this very reason may have been made in the middle of a change.
        let delay_s = self.of_late.mean_delay_s();
        let before_s = self.limited_delay_s.unwrap_or(delay_s);
        let faster = before_s / delay_s;
        let is_due = since_s >= CAPACITY_TRIES_APART.as_secs_f64();
        if is_due || faster > FASTER || self.known.is_missed_by(&self.of_late.estimate(), false) {
            self.limited_delay_s = Some(if is_due { delay_s } else { delay_s.min(before_s) });
            Belief::Rising { capacity: self.known.capacity * faster.clamp(1.0, FASTER_AT_ONCE) }
        } else {
            Belief::Tried { since_s }
        }
    }

    /// Takes in what a try has shown.
    fn conclude(&mut self, shown: &Estimate) {
        self.revise(shown, false);
        if self.is_falling && shown.capacity < self.known.capacity && self.known.part_there(shown) >= FAR_LESS {
            self.know(shown);
        }
        self.is_falling = false;
    }

    /// Takes in what the device does while no limit keeps it from doing more; whether that is with the most that it is ever
    /// given.
    fn revise(&mut self, seen: &Estimate, is_most: bool) {
        let known = &mut self.known;
        if seen.capacity > known.capacity || known.is_missed_by(seen, is_most) {
            let falls_far = seen.capacity < AS_MUCH * known.capacity;
            if falls_far {
                self.belief = Belief::Untried;
            }
            let is_falling = falls_far || self.is_falling && seen.capacity < known.capacity;
            self.know(seen);
            self.is_falling = is_falling;
        } else if !self.has_learnt {
            // With as much to do as is assumed it would do no more than this.
            known.capacity = self.assumed.min(seen.capacity / known.part_there(seen));
        } else if seen.capacity >= NEARLY * known.capacity && known.part_there(seen) <= LESS {
            known.needs_no_more_than(seen);
        }
    }

    /// Takes in how long work took; whether it waited for the device longer than the known capacity explains.
    fn note_delay(&mut self, asked_s: f64) -> bool {
        let aged = (asked_s / CAPACITY_ALONE_MEMORY.as_secs_f64()).exp();
        let (seen, delay_s) = (self.of_late.estimate(), self.of_late.mean_delay_s());
        let alone_s = self.alone_s.map_or(delay_s, |alone_s| delay_s.min(alone_s * aged));
        self.alone_s = Some(alone_s);
        seen.pieces > SEVERAL && delay_s > WAITED * alone_s + seen.load / self.known.capacity
    }
}
