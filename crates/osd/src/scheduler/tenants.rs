//! What a tenant's promise is to each scheduler.
//!
//! mClock keeps all of it within what the class of clients gets: a tenant's reservation is served before other clients, its
//! limit is held, and its weight counts against those of other tenants and of sessions that belong to none, which have 1
//! each. WPQ knows the weight alone. CFQ divides by groups whose weights go from 100 to 1000, of which a tenant gets a
//! hundred for each part; sessions that belong to none are one group of 500. The order of arrival knows nothing.

use crate::osd::Work;
use base::Instant;
use maps::tenants::TenantPromise;
use qos::{AnyScheduler, Class, GroupId, Promise};

/// A weight of 1, to CFQ.
const CFQ_PART: u32 = 100;

/// Promises a tenant something; none for nothing.
pub(super) fn promise(now: Instant, queue: &mut AnyScheduler<Work>, group: GroupId, promise: Option<&TenantPromise>) {
    let weight = promise.map(|promise| promise.weight as u32);
    match queue {
        AnyScheduler::MClock(queue) => queue.promise_group(now, Class::Client, group, promise.map(rates)),
        AnyScheduler::Wpq(queue) => queue.set_weight(now, group, weight),
        AnyScheduler::Cfq(queue) => queue.set_weight(Class::Client, group, weight.map(|parts| parts * CFQ_PART)),
        AnyScheduler::Fifo(_) => {}
    }
}

fn rates(promise: &TenantPromise) -> Promise {
    let limit = (promise.limit > 0).then_some(promise.limit as f64);
    let mut rates = Promise::new(promise.reservation as f64, promise.weight as u32, limit);
    if promise.reservation_bytes > 0 {
        rates = rates.and_then(|rates| rates.at_least_bytes(promise.reservation_bytes as f64));
    }
    if promise.limit_bytes > 0 {
        rates = rates.and_then(|rates| rates.at_most_bytes(promise.limit_bytes as f64));
    }
    rates.expect("it was checked when it was read")
}
