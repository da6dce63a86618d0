//! What the shards of one device have served, so that promises hold for the device and not for each shard.
//!
//! Dividing a reservation or a limit by the number of shards is wrong as soon as one shard has more to do than another.
//! Here every shard keeps the undivided promises and advances its tags by what the others have served, which it reads
//! from these counters: the shards share one virtual clock. The same bookkeeping, with counts that arrive in messages,
//! is dmClock's `delta` and `rho`, for one tenant on many devices.
//!
//! The counters only grow and each is read alone, so no order among them is needed. Shards of different threads may miss
//! what is being served at that moment: a limit may be passed by one piece of work a shard.

use crate::tags::{Charge, Phase};
use base::Bug;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Of a unit, so that fractions of units add up.
const SCALE: f64 = 1024.0;

#[derive(Debug, Default)]
struct Served {
    units: AtomicU64,
    reserved_units: AtomicU64,
    bytes: AtomicU64,
}

/// The counters that the shards of one device share.
#[derive(Debug, Default)]
pub struct Ledger {
    classes: [Served; 3],
}

/// What one shard knows of them.
#[derive(Debug)]
pub(crate) struct Account {
    ledger: Arc<Ledger>,
    seen: [(u64, u64, u64); 3],
}

impl Account {
    /// From now on; what was served before is nothing to a new shard.
    pub(crate) fn new(ledger: Arc<Ledger>) -> Account {
        let seen = core::array::from_fn(|class| {
            let served = &ledger.classes[class];
            (served.units.load(Relaxed), served.reserved_units.load(Relaxed), served.bytes.load(Relaxed))
        });
        Account { ledger, seen }
    }

    /// Tells the others what this shard has served.
    pub(crate) fn add(&mut self, class: usize, phase: Phase, charge: Charge) {
        let (served, seen) = (&self.ledger.classes[class], &mut self.seen[class]);
        let units = (charge.units * SCALE) as u64;
        let reserved = if phase == Phase::Reservation { units } else { 0 };
        served.units.fetch_add(units, Relaxed);
        served.reserved_units.fetch_add(reserved, Relaxed);
        served.bytes.fetch_add(charge.bytes, Relaxed);
        seen.0 = seen.0.wrapping_add(units);
        seen.1 = seen.1.wrapping_add(reserved);
        seen.2 = seen.2.wrapping_add(charge.bytes);
    }

    /// What the others have served of a class since this was asked last: in all, and the units for reservations.
    pub(crate) fn news(&mut self, class: usize) -> Option<(Charge, f64)> {
        let (served, seen) = (&self.ledger.classes[class], &mut self.seen[class]);
        let units = served.units.load(Relaxed);
        if units == seen.0 || Bug::ShardsUnheard.is_planted() {
            return None;
        }
        let (reserved, bytes) = (served.reserved_units.load(Relaxed), served.bytes.load(Relaxed));
        let more = |now: u64, before: u64| now.wrapping_sub(before);
        let charge = Charge::alike(more(units, seen.0) as f64 / SCALE, more(bytes, seen.2));
        let reserved_units = more(reserved, seen.1) as f64 / SCALE;
        *seen = (units, reserved, bytes);
        Some((charge, reserved_units))
    }
}
