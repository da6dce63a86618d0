//! Requests that a map takes away from where they were sent: whoever drops one tells its client of the map, by which it is
//! sent again.
//!
//! A client asks for no maps while it waits. Requests of groups that were divided, joined or removed were dropped without a
//! word, and waited until librados looked for itself, 10 to 15 s later.

mod harness;

use base::{Epoch, PgId};
use bytes::Bytes;
use harness::{Cluster, POOL};
use osd::limits::MAPS_TOLD_MAX;
use wire::osd::{OpCode, OsdOpItem};

/// Some requests, each of a client of its own and with its group: writes, appends after reading, and reads.
fn send_some(c: &mut Cluster) -> Vec<(u64, u64, PgId, String)> {
    let item = |code: OpCode, len: u64| OsdOpItem::extent(code, 0, len);
    let data = Bytes::from_static(b"data");
    let ops = [
        vec![item(OpCode::WRITEFULL, 4).with_payload(data.clone())],
        vec![item(OpCode::READ, 4), item(OpCode::APPEND, 4).with_payload(data)],
        vec![item(OpCode::READ, 4)],
    ];
    let mut sent = Vec::new();
    for client in 1..=24 {
        let name = format!("o{}", client % 8);
        let op = c.request(&name, ops[client as usize % ops.len()].clone());
        let group = op.pgid.pg;
        sent.push((client, c.send(client, op), group, name));
    }
    sent
}

/// Changes the map after so many steps; then each client whose request belongs elsewhere, or nowhere, has its answer or the
/// map.
fn nobody_waits_for_nothing(change: fn(&mut Cluster)) {
    let mut dropped = 0;
    for steps in (0..400).step_by(7) {
        let mut c = Cluster::new(steps, 3, 3, 2, 2);
        let sent = send_some(&mut c);
        for _ in 0..steps {
            c.step();
        }
        change(&mut c);
        let newest = c.map.epoch;
        c.settle();
        for (client, tid, group, name) in sent {
            let stays = c.map.pool(POOL).is_some() && c.locate(&name).0 == group;
            if !stays && !c.replies.contains_key(&(client, tid)) {
                let told = c.maps_told.get(&client).and_then(|maps| maps.last()).copied();
                assert!(told >= Some(newest), "request {tid} after {steps} steps: told of {told:?}, not of {newest:?}");
                dropped += 1;
            }
        }
    }
    assert!(dropped > 0, "nothing was dropped");
}

fn set_pg_num(c: &mut Cluster, pg_num: u32) {
    c.publish(|map, inc| {
        let mut pool = maps::PgPool::clone(map.pool(POOL).expect("it is there"));
        pool.set_pg_num(pg_num);
        pool.last_change = inc.epoch;
        inc.new_pools.insert(POOL, pool);
    });
}

#[test]
fn when_a_group_is_divided() {
    nobody_waits_for_nothing(|c| set_pg_num(c, 9));
}

#[test]
fn when_groups_are_joined() {
    nobody_waits_for_nothing(|c| set_pg_num(c, 1));
}

#[test]
fn when_a_pool_is_removed() {
    nobody_waits_for_nothing(|c| c.publish(|_, inc| inc.old_pools.extend([POOL])));
}

/// Who lacks some epochs is told of each, in order and in a message of its own; who lacks too many, of the newest.
#[test]
fn a_client_is_told_of_the_maps_that_it_lacks() {
    let mut c = Cluster::new(1, 3, 3, 2, 2);
    let old = c.request("o", vec![OsdOpItem::extent(OpCode::READ, 0, 4)]);
    for _ in 0..MAPS_TOLD_MAX {
        c.publish(|_, _| {});
    }
    c.settle();
    let (had, newest) = (old.map_epoch, c.map.epoch);
    c.send(1, old.clone());
    c.settle();
    assert_eq!(c.maps_told[&1], (had.0 + 1..=newest.0).map(Epoch).collect::<Vec<_>>());
    c.publish(|_, _| {});
    c.settle();
    c.send(2, old);
    c.settle();
    assert_eq!(c.maps_told[&2], [newest.next()]);
}
