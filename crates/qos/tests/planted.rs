//! The classic mistakes of schedulers, put back one by one: each breaks the promise whose check is beside it.

use base::planted::BUGS;
use base::{Bug, Duration, Instant};
use qos::{
    Class, Cost, CostModel, Dequeued, Elsewhere, GroupId, Ledger, MClock, MClockConfig, Priority, Promise, Scheduler,
    Served, StreamId, Work,
};
use std::sync::Arc;

const BEGIN: Instant = Instant::from_secs(1_000_000);
/// What the device does in a millisecond: one request.
const REQUEST: Duration = Duration::from_millis(1);

fn work(class: Class) -> Work {
    Work { class, group: GroupId::NONE, stream: StreamId(1), priority: Priority(63), cost: Cost::one(4096) }
}

fn promise(reservation: f64, limit: Option<f64>) -> Promise {
    Promise::new(reservation, 1, limit).expect("sound")
}

fn config(classes: [Promise; 3]) -> MClockConfig {
    MClockConfig { classes, cost: CostModel::REQUESTS, cut_off: Priority(196) }
}

/// Clients and recovery want more all the time, each in its own stretch of time; says how many of each were served in the
/// last `measured` requests' time.
fn served(classes: [Promise; 3], clients_from: u32, total: u32, measured: u32) -> (u32, u32) {
    let mut queue = MClock::new(config(classes));
    let (mut now, mut counts) = (BEGIN, (0, 0));
    for step in 0..total {
        if step == clients_from {
            (0..4).for_each(|_| queue.enqueue(now, work(Class::Client), ()).expect("there is room"));
        }
        if step == 0 {
            (0..4).for_each(|_| queue.enqueue(now, work(Class::Recovery), ()).expect("there is room"));
        }
        if let Dequeued::Ready(done, ()) = queue.dequeue(now) {
            let count = if done.class == Class::Client { &mut counts.0 } else { &mut counts.1 };
            *count += u32::from(step >= total - measured);
            queue.enqueue(now, done, ()).expect("there is room");
        }
        now = now + REQUEST;
    }
    counts
}

/// Recovery works for ten seconds before clients come: from then on both have a half.
fn who_comes_has_no_credit() -> bool {
    let (clients, recovery) = served([Promise::weight(1); 3], 10_000, 11_000, 1000);
    clients.abs_diff(recovery) <= 20
}

/// Recovery, of much less weight, has been alone for ten seconds: its reservation is there when clients come.
fn what_was_left_over_is_not_held_against_a_reservation() -> bool {
    let (clients, recovery) = (Promise::weight(50), promise(200.0, None));
    served([clients, recovery, Promise::weight(1)], 10_000, 12_000, 2000).1 >= 390
}

/// Clients of fifty times the weight do not keep recovery from its reservation.
fn a_reservation_goes_before_weight() -> bool {
    served([Promise::weight(50), promise(300.0, None), Promise::weight(1)], 0, 4000, 2000).1 >= 590
}

/// Four shards of one device, all with work: one limit.
fn shards_have_one_limit() -> bool {
    let ledger = Arc::new(Ledger::default());
    let limited = config([promise(0.0, Some(200.0)), Promise::weight(1), Promise::weight(1)]);
    let mut shards: Vec<MClock<()>> = (0..4).map(|_| MClock::sharing(limited, Arc::clone(&ledger))).collect();
    let mut count = 0;
    for step in 0..4000 {
        let now = BEGIN + REQUEST * step;
        for shard in &mut shards {
            if shard.is_empty() {
                shard.enqueue(now, work(Class::Client), ()).expect("there is room");
            }
            count += u32::from(shard.dequeue(now).ready().is_some());
        }
    }
    count <= 850
}

/// A tenant may have a mebibyte a second.
fn bytes_have_a_limit() -> bool {
    let mut queue = MClock::new(config([Promise::weight(1); 3]));
    let limit = Promise::weight(1).at_most_bytes(f64::from(1 << 20)).expect("sound");
    queue.promise_group(BEGIN, Class::Client, GroupId(1), Some(limit));
    let large = Work { group: GroupId(1), cost: Cost::one(64 << 10), ..work(Class::Client) };
    let mut count = 0;
    for step in 0..4000 {
        let now = BEGIN + REQUEST * step;
        if queue.is_empty() {
            queue.enqueue(now, large, ()).expect("there is room");
        }
        count += u32::from(queue.dequeue(now).ready().is_some());
    }
    count <= 66
}

/// Two servers, both with work of a tenant, that settle every 100 ms: one limit.
fn servers_have_one_limit() -> bool {
    let mut servers = [(); 2].map(|()| MClock::new(config([Promise::weight(1); 3])));
    let limit = promise(0.0, Some(100.0));
    servers.iter_mut().for_each(|server| server.promise_group(BEGIN, Class::Client, GroupId(1), Some(limit)));
    let (mut told, mut count) = ([Served::default(); 2], 0);
    for step in 0..10_000 {
        let now = BEGIN + REQUEST * step;
        for server in &mut servers {
            if server.is_empty() {
                let of_tenant = Work { group: GroupId(1), ..work(Class::Client) };
                server.enqueue(now, of_tenant, ()).expect("there is room");
            }
            count += u32::from(server.dequeue(now).ready().is_some());
        }
        if step % 100 == 99 {
            let others = [told[1], told[0]];
            for (n, server) in servers.iter_mut().enumerate() {
                let elsewhere = Elsewhere { served: others[n], servers: 1, waits: true };
                told[n] = server.settle(now, Class::Client, GroupId(1), elsewhere).served;
            }
        }
    }
    count <= 1100
}

#[test]
fn every_mistake_breaks_a_promise() {
    let checks: [(Bug, fn() -> bool); 6] = [
        (Bug::IdleKeepCredit, who_comes_has_no_credit),
        (Bug::WeightUsesReservation, what_was_left_over_is_not_held_against_a_reservation),
        (Bug::WeightBeforeReservation, a_reservation_goes_before_weight),
        (Bug::ShardsUnheard, shards_have_one_limit),
        (Bug::BytesFree, bytes_have_a_limit),
        (Bug::OthersUnsettled, servers_have_one_limit),
    ];
    for (bug, keeps) in checks {
        assert!(keeps(), "{bug:?}: the promise is not kept without it");
        let _planting = Bug::plant(Some(bug));
        assert!(!keeps(), "{bug:?} is not found");
    }
    let of_schedulers: Vec<Bug> = BUGS.iter().map(|listed| listed.bug).filter(|bug| !bug.is_simulated()).collect();
    assert_eq!(of_schedulers, checks.map(|(bug, _)| bug), "each has its check");
}
