//! What the store does a second, learnt while it works, and how much it is to be given at once.
//!
//! Promises of service are shares of the first; by the second, what has to wait does so in the scheduler (`qos::Window`).
//! Everything that the store is given counts, whoever wants it, at what it costs by the scheduler's reckoning.
//!
//! Owns the account of what the store has not answered. Invariant: what has begun ends with the same load.

use admin::{Value, object};
use base::Instant;
use qos::{CapacityMeter, Cost, CostModel, Learnt, Load, Waits, Way, Window};

/// Something that the store has been given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Given {
    load: Load,
    way: Way,
}

/// Watches the store.
#[derive(Debug)]
pub struct StoreMeter {
    meter: CapacityMeter,
    cost: CostModel,
    window: Window,
}

impl StoreMeter {
    /// A meter for a store of which so many units a second are assumed.
    pub fn new(assumed: f64) -> StoreMeter {
        // The options say how much, before anything is done.
        let window = Window::new(Load::one(1, 1.0), false);
        StoreMeter { meter: CapacityMeter::new(assumed), cost: CostModel::REQUESTS, window }
    }

    /// Reckons by other costs from now on.
    pub fn set_cost(&mut self, cost: CostModel) {
        self.cost = cost;
    }

    /// No more than `most` at once from now on; how much less will do is learnt, or not.
    pub fn set_window(&mut self, most: Load, learns: bool) {
        self.window.set(most, learns);
    }

    /// The store has been given a read or a transaction that moves so many bytes of data.
    pub fn begin(&mut self, now: Instant, bytes: u64, way: Way) -> Given {
        let load = Load::one(bytes, self.cost.units(Cost::one(bytes)));
        self.meter.begin(now, load.units);
        self.window.begin(now, load, way);
        Given { load, way }
    }

    /// The store has answered it.
    pub fn end(&mut self, now: Instant, given: Given) {
        self.meter.end(now, given.load.units);
        self.window.end(now, given.load, given.way);
    }

    /// What queued work waits for from now on.
    pub fn wait(&mut self, now: Instant, waits: Waits) {
        self.meter.wait(now, waits);
        self.window.wait(now, waits);
    }

    /// Whether the store may be given more out of the scheduler.
    pub fn has_room(&self) -> bool {
        self.window.has_room()
    }

    /// Whether it may be given what a reservation makes due.
    pub fn has_room_for_due(&self) -> bool {
        self.window.has_room_for_due()
    }

    /// How many bytes work that nobody waits for should move at a time.
    pub fn piece_bytes(&self) -> u64 {
        self.window.piece_bytes(&self.cost)
    }

    /// What it does, as far as it was seen.
    pub fn learnt(&self) -> Option<Learnt> {
        self.meter.learnt()
    }

    /// What the store has to do and may have at once, for `dump_op_pq_state`.
    pub fn dump(&self) -> Value {
        let (load, most) = (self.window.load(), self.window.most());
        let mut shown = object! {
            "ios" => load.ios as u64,
            "ios_max" => most.ios as u64,
            "bytes" => load.bytes,
            "bytes_max" => most.bytes,
            "units" => Value::Float(load.units),
            "window" => Value::Float(most.units),
        };
        if let Some(delay) = self.meter.base_delay() {
            shown.push("base_delay_ms", Value::Float(delay.as_secs_f64() * 1000.0));
        }
        shown
    }
}
