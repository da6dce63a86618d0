//! How much a device is given at once: so much that it does all it can, and no more, so that what has to wait waits in the
//! scheduler, where promises are kept, and not in the device, whose order is its own.
//!
//! The size of the window is learnt from what the device answers to it. While work waits for room, slices of time with a
//! window somewhat larger than its size alternate with slices of one somewhat smaller, and the device's throughput in both
//! is compared. If a larger window brings more, the size grows, else it shrinks: so it stays where the last per cent of
//! window brings next to no throughput. Below that point the device would idle; above, work queues up inside it.
//!
//! Capacity times the delay of a piece of work alone (Little's law, as in BBR: Cardwell et al., "BBR: Congestion-Based
//! Congestion Control", ACM Queue 2016) is the same point for a device that works on a fixed number of pieces at once, but
//! not for one that does more the more it may choose from, as a disk with its arm; and the least delay of late says little
//! where reads and writes take different times. Comparing neighbouring slices asks nothing but what is wanted to know, after
//! the manner of PCC (Dong et al., "PCC: Re-architecting Congestion Control for Consistent High Performance", NSDI 2015).
//!
//! The order of slices is larger, smaller, smaller, larger: a load that rises or falls meanwhile cancels out. A slice
//! begins to count when what the one before has let in is out again. A slice in which work did not wait, or waited for a
//! limit, says nothing.
//!
//! Where there was room at times the size grows a step; where there always was, it comes down to the most that was under way.
//!
//! Invariant: what was done under limits never changes the size.

use crate::limits::{WINDOW_LOAD_MAX, WINDOW_SLICE, WINDOW_SLICE_MAX, WINDOW_SLICE_WINDOWS, WINDOW_SLICE_WORKS_MIN};
use crate::work::CostModel;
use base::{Duration, Instant};

/// By how much slices are larger or smaller than the size.
const STEP: f64 = 1.12;
/// The order of slices: whether each is larger.
const ORDER: [bool; 4] = [true, false, false, true];
/// Throughput gained by a per cent of window, in per cent, at which the size stays.
const RESPONSE_WANTED: f64 = 0.06;
/// How far the size follows what was seen, on a logarithmic scale.
const GAIN: f64 = 1.5;
/// The most by which it shrinks and grows at a time, on that scale. A window too small costs throughput: out of it fast.
const CHANGE: (f64, f64) = (-0.1, 0.4);
/// The device has as much to do as it may for all that matters if there is no room for so much of the time.
pub(crate) const FULL: f64 = 0.9;
/// There is room whenever it is asked for if there is none for less of the time than that.
const TOUCHED: f64 = 0.05;
/// The least by which more has to be under way in larger slices for a comparison, on a logarithmic scale.
const GROWN_MIN: f64 = 0.05;
/// What the last turn of slices says counts for so much.
const RESPONSE_NEW: f64 = 0.3;
/// Pieces of background work that a window has room for, and their least size: below, the way to the device costs more
/// than the transfer.
const PIECES: f64 = 4.0;
const PIECE_BYTES_MIN: u64 = 16 << 10;
/// For what is due there is room while the device has no more than so many times what it may have of the rest. With as much
/// as that it does no more work than before and everybody's way through it takes longer; with less who is due waits for
/// pieces of background work, which stand beyond the size by up to a quarter of it.
const ROOM_FOR_DUE: f64 = 1.35;
/// What is done past the scheduler takes no more than this part of the window.
const BESIDES_PART: f64 = 0.75;

/// What a device has been given and not answered, or may be given at once.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Pieces of work.
    pub ios: usize,
    /// Bytes that they move.
    pub bytes: u64,
    /// What they cost (`CostModel`).
    pub units: f64,
}

impl Load {
    /// One piece of work.
    pub fn one(bytes: u64, units: f64) -> Load {
        Load { ios: 1, bytes, units }
    }

    fn add(&mut self, more: Load) {
        *self = Load { ios: self.ios + more.ios, bytes: self.bytes + more.bytes, units: self.units + more.units };
    }

    fn take(&mut self, less: Load) {
        let units = if self.ios > less.ios { (self.units - less.units).max(0.0) } else { 0.0 };
        *self = Load { ios: self.ios.saturating_sub(less.ios), bytes: self.bytes.saturating_sub(less.bytes), units };
    }
}

/// What work waits for before it is given to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// Nothing: there is none, or none that may be done yet for other reasons.
    Not,
    /// Room: the device has as much as it is to have.
    ForRoom,
    /// A limit that is a share of the capacity, where there is room.
    ForLimit,
}

/// How a piece of work came to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Out of the scheduler, when there was room.
    Scheduled,
    /// Past it.
    Besides,
}

/// What is seen of the device in one slice.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// Units of what the slice before has let in and that are not out yet.
    leaving: f64,
    began: Instant,
    /// Up to when time is accounted for.
    until: Instant,
    /// Time in which there was no room; in which there was, and a limit held back what there was room for.
    full: Duration,
    limited: Duration,
    /// The sum over time of units under way, in unit seconds, and the most that were.
    load_s: f64,
    peak: f64,
    units: f64,
    works: u32,
}

/// What was seen of the device in the slices of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    lasted: Duration,
    full: Duration,
    limited: Duration,
    load_s: f64,
    peak: f64,
    units: f64,
}

impl Seen {
    fn add(&mut self, slice: &Slice, lasted: Duration) {
        self.lasted += lasted;
        self.full += slice.full;
        self.limited += slice.limited;
        self.load_s += slice.load_s;
        self.peak = self.peak.max(slice.peak);
        self.units += slice.units;
    }

    /// The part of the time in which there was no room.
    fn full(&self) -> f64 {
        self.full.as_secs_f64() / self.lasted.as_secs_f64()
    }

    /// Whether limits set what was done, and not the window.
    fn is_limited(&self) -> bool {
        self.limited.as_secs_f64() > TOUCHED * self.lasted.as_secs_f64()
    }

    /// Units a second, and units under way.
    fn rate_and_load(&self) -> (f64, f64) {
        let seconds = self.lasted.as_secs_f64();
        (self.units / seconds, self.load_s / seconds)
    }
}

/// The window of one device.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Never more than this at once. Its units are how the size begins.
    most: Load,
    learns: bool,
    waits: Waits,
    size: f64,
    scheduled: Load,
    besides: Load,
    slice: Slice,
    turn: usize,
    /// Of this turn of slices: the smaller ones, the larger ones.
    seen: [Seen; 2],
    /// Throughput gained by window of late, each in per cent.
    response: f64,
}

impl Window {
    /// A window that lets in no more than `most` at once: from the first, and learning how much less will do, or always.
    pub fn new(most: Load, learns: bool) -> Window {
        let size = most.units.clamp(1.0, WINDOW_LOAD_MAX);
        Window {
            most,
            learns,
            waits: Waits::Not,
            size,
            scheduled: Load::default(),
            besides: Load::default(),
            slice: Slice::default(),
            turn: 0,
            seen: [Seen::default(); 2],
            response: RESPONSE_WANTED,
        }
    }

    /// Other bounds, in force at once; what was learnt is forgotten if they are.
    pub fn set(&mut self, most: Load, learns: bool) {
        if (self.most, self.learns) != (most, learns) {
            let fresh = Window::new(most, learns);
            *self = Window { scheduled: self.scheduled, besides: self.besides, waits: self.waits, ..fresh };
        }
    }

    /// Whether the device may be given more.
    pub fn has_room(&self) -> bool {
        self.has_room_within(self.size())
    }

    /// Whether it may be given what is promised to be done now. The way through a device takes its time whether others are
    /// before it or not; who waited for room first would wait for both, one after the other.
    pub fn has_room_for_due(&self) -> bool {
        self.has_room_within(self.size() * ROOM_FOR_DUE)
    }

    fn has_room_within(&self, size: f64) -> bool {
        let Load { ios, bytes, .. } = self.load();
        let most = self.most;
        let units = self.scheduled.units + self.besides.units.min(BESIDES_PART * size);
        ios < most.ios.max(1) && bytes < most.bytes.max(1) && units < size || self.scheduled.ios == 0
    }

    /// The device has been given a piece of work.
    pub fn begin(&mut self, now: Instant, work: Load, way: Way) {
        self.account(now);
        self.of(way).add(work);
    }

    /// The device has done one that it was given in that way.
    pub fn end(&mut self, now: Instant, work: Load, way: Way) {
        self.account(now);
        self.of(way).take(work);
        if !self.learns {
            return;
        }
        let slice = &mut self.slice;
        if slice.leaving > 0.0 {
            slice.leaving -= work.units;
            if slice.leaving <= 0.0 {
                *slice = Slice { began: now, until: now, ..Slice::default() };
            }
            return;
        }
        slice.units += work.units;
        slice.works += 1;
        let lasted = now.since(slice.began);
        let enough = lasted >= WINDOW_SLICE
            && slice.works >= WINDOW_SLICE_WORKS_MIN
            && slice.units >= WINDOW_SLICE_WINDOWS * slice.peak;
        if enough || lasted >= WINDOW_SLICE_MAX {
            self.end_slice(now, lasted);
        }
    }

    /// What work waits for from now on.
    pub fn wait(&mut self, now: Instant, waits: Waits) {
        if self.waits != waits {
            self.account(now);
            self.waits = waits;
        }
    }

    /// What the device has to do.
    pub fn load(&self) -> Load {
        let mut load = self.scheduled;
        load.add(self.besides);
        load
    }

    /// What it may have at once; the units are what was learnt.
    pub fn most(&self) -> Load {
        Load { units: self.size, ..self.most }
    }

    /// How many bytes work that nobody waits for should move at a time, so that who comes next does not wait long for it to
    /// be done: a quarter of what the device has before it.
    pub fn piece_bytes(&self, cost: &CostModel) -> u64 {
        let bytes = (self.size / PIECES - cost.per_io) / cost.per_byte;
        if bytes.is_nan() { u64::MAX } else { (bytes as u64).max(PIECE_BYTES_MIN) / PIECE_BYTES_MIN * PIECE_BYTES_MIN }
    }

    fn size(&self) -> f64 {
        match (self.learns, ORDER[self.turn]) {
            (false, _) => self.size,
            (true, true) => self.size * STEP,
            (true, false) => self.size / STEP,
        }
    }

    fn of(&mut self, way: Way) -> &mut Load {
        match way {
            Way::Scheduled => &mut self.scheduled,
            Way::Besides => &mut self.besides,
        }
    }

    fn account(&mut self, now: Instant) {
        let (full, units) = (!self.has_room(), self.load().units);
        let slice = &mut self.slice;
        let passed = now.since(slice.until);
        slice.until = now;
        slice.load_s += units * passed.as_secs_f64();
        slice.peak = slice.peak.max(units);
        if full {
            slice.full += passed;
        } else if self.waits == Waits::ForLimit {
            slice.limited += passed;
        }
    }

    fn end_slice(&mut self, now: Instant, lasted: Duration) {
        self.seen[usize::from(ORDER[self.turn])].add(&self.slice, lasted);
        self.slice = Slice { leaving: self.load().units, began: now, until: now, ..Slice::default() };
        self.turn += 1;
        if self.turn == ORDER.len() {
            self.turn = 0;
            self.learn();
        }
    }

    fn learn(&mut self) {
        let [smaller, larger] = core::mem::take(&mut self.seen);
        if smaller.is_limited() || larger.is_limited() {
            // What limits leave of the work needs less of a window than all of it will.
            return;
        }
        let change = match smaller.full() {
            full if full >= FULL => {
                let ((rate, load), (larger_rate, larger_load)) = (smaller.rate_and_load(), larger.rate_and_load());
                let grown = (larger_load / load).ln();
                if grown < GROWN_MIN {
                    // As much as is asked for: beyond, the window says nothing.
                    (load / self.size).ln().max(CHANGE.0)
                } else {
                    let response = (larger_rate / rate).ln() / grown;
                    self.response += RESPONSE_NEW * (response - self.response);
                    (GAIN * (self.response - RESPONSE_WANTED)).clamp(CHANGE.0, CHANGE.1)
                }
            }
            full if full > TOUCHED => STEP.ln(),
            _ => (smaller.peak.max(larger.peak) / self.size).ln().min(0.0),
        };
        if change.is_finite() {
            // Nothing was seen of more than the most that was under way.
            let most = smaller.peak.max(larger.peak).max(1.0) * STEP;
            self.size = (self.size * change.exp()).min(most).clamp(1.0, WINDOW_LOAD_MAX);
        }
    }
}
