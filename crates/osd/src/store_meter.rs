//! What the store does a second, learnt while it works: promises of service are shares of that.
//!
//! Everything that the store is given counts, whoever wants it, at what it costs by the scheduler's reckoning.

use base::Instant;
use qos::{CapacityMeter, Cost, CostModel};

/// Watches the store.
#[derive(Debug)]
pub struct StoreMeter {
    meter: CapacityMeter,
    cost: CostModel,
}

impl StoreMeter {
    /// A meter for a store of which so many units a second are assumed.
    pub fn new(assumed: f64) -> StoreMeter {
        StoreMeter { meter: CapacityMeter::new(assumed), cost: CostModel::REQUESTS }
    }

    /// Reckons by other costs from now on.
    pub fn set_cost(&mut self, cost: CostModel) {
        self.cost = cost;
    }

    /// The store has been given a read or a transaction.
    pub fn begin(&mut self, now: Instant) {
        self.meter.begin(now);
    }

    /// The store has answered one that moved so many bytes of data.
    pub fn end(&mut self, now: Instant, bytes: u64) {
        self.meter.end(now, self.cost.units(Cost::one(bytes)));
    }

    /// Units a second, as far as it was seen.
    pub fn capacity(&self) -> Option<f64> {
        self.meter.capacity()
    }
}
