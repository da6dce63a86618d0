//! Snapshots as the monitor keeps them: numbers given out, kinds that exclude each other, removals that end when every
//! placement group has said so.

mod cluster;

use base::{Duration, Epoch, OsdId, PgId, PoolId, SnapId};
use cluster::Cluster;
use maps::SnapSet;
use maps::stats::{OsdStat, PgStat, PgState, StoreStatfs};
use wire::codec::{Decode, Encode};
use wire::messages::{Message, PaxosHead, PgStats, PoolOp, PoolOpReply, Sealed, pool_op};
use wire::net::ConnId;
use wire::types::{EntityName, EntityType};

const POOL: i64 = 1;

fn with_pool() -> (Cluster, ConnId) {
    let (mut c, admin) = Cluster::with_osds(3);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    (c, admin)
}

fn ask(c: &mut Cluster, conn: ConnId, op: u32, snap: u64, name: &str) -> PoolOpReply {
    c.received(conn);
    let (paxos, fsid) = (PaxosHead::default(), c.config.fsid);
    let m = PoolOp { paxos, fsid, pool: POOL as u32, op, auid: 0, snap, name: name.to_owned(), pad: 0, crush_rule: 0 };
    c.send(conn, m);
    let found = c.received(conn).into_iter().find_map(|m| match m {
        Message::PoolOpReply(reply) => Some(*reply),
        _ => None,
    });
    found.expect("an answer")
}

fn new_number(c: &mut Cluster, conn: ConnId) -> u64 {
    let reply = ask(c, conn, pool_op::CREATE_UNMANAGED_SNAP, 0, "");
    assert_eq!(reply.result, 0);
    u64::from_bytes(&reply.response.expect("a number")).expect("eight bytes")
}

/// Every placement group of the pool reports these snapshots as purged.
fn report(c: &mut Cluster, seeds: core::ops::Range<u32>, purged: &[u64]) {
    let conn = c.osd_session(0, 6800);
    let mut set = SnapSet::default();
    purged.iter().for_each(|snap| set.insert(SnapId(*snap)));
    let stat = PgStat {
        state: PgState::ACTIVE.with(PgState::CLEAN),
        reported_epoch: Epoch(99),
        reported_seq: purged.len() as u64 + 1,
        acting_primary: OsdId(0),
        purged_snaps: set,
        ..PgStat::default()
    };
    let pg_stats = seeds.map(|seed| (PgId::new(PoolId(POOL), seed), Sealed(stat.to_bytes()))).collect();
    let osd_stat = Sealed(OsdStat::of_store(StoreStatfs::default()).to_bytes());
    c.send(conn, PgStats { fsid: c.config.fsid, osd_stat, pg_stats, epoch: Epoch(1), ..PgStats::default() });
    c.pass(Duration::from_millis(30));
}

#[test]
fn a_pools_snapshots_have_names_and_are_shown() {
    let (mut c, admin) = with_pool();
    let said = c.command(admin, r#"{"prefix":"osd pool mksnap","pool":"p","snap":"one"}"#);
    assert_eq!((said.0, said.1.as_str()), (0, "created pool p snap one"));
    let again = c.command(admin, r#"{"prefix":"osd pool mksnap","pool":"p","snap":"one"}"#);
    assert_eq!((again.0, again.1.as_str()), (0, "pool p snap one already exists"));
    let client = c.admin();
    assert_eq!(ask(&mut c, client, pool_op::CREATE_SNAP, 0, "two").result, 0);
    let dump = c.json(admin, "osd dump");
    let pool = &dump["pools"][0];
    assert_eq!((pool["snap_mode"].as_str(), pool["snap_seq"].as_u64()), (Some("pool"), Some(2)));
    assert_eq!(pool["pool_snaps"][1]["name"].as_str(), Some("two"));
    assert!(pool["flags_names"].as_str().is_some_and(|names| names.contains("pool_snaps")));
    assert!(c.ok(admin, r#"{"prefix":"osd dump"}"#).contains("\tsnap 1 'one' "));
    // The other kind is refused from now on.
    assert_eq!(ask(&mut c, client, pool_op::CREATE_UNMANAGED_SNAP, 0, "").result, -22);
    assert_eq!(ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, 1, "").result, -22);
    let said = c.command(admin, r#"{"prefix":"osd pool rmsnap","pool":"p","snap":"one"}"#);
    assert_eq!((said.0, said.1.as_str()), (0, "removed pool p snap one"));
    assert_eq!(ask(&mut c, client, pool_op::DELETE_SNAP, 0, "one").result, 0, "removing it again is no error");
    let dump = c.json(admin, "osd dump");
    assert_eq!(dump["pools"][0]["snap_seq"].as_u64(), Some(3), "a removal counts, too");
    assert_eq!(dump["removed_snaps_queue"][0]["snaps"][0]["begin"].as_u64(), Some(1));
}

#[test]
fn numbers_of_clients_own_snapshots_are_given_out_and_taken_back() {
    let (mut c, admin) = with_pool();
    let client = c.admin();
    assert_eq!(new_number(&mut c, client), 2, "1 was never usable");
    assert_eq!(new_number(&mut c, client), 3);
    assert_eq!(ask(&mut c, client, pool_op::CREATE_SNAP, 0, "x").result, -22);
    let said = c.command(admin, r#"{"prefix":"osd pool mksnap","pool":"p","snap":"x"}"#);
    assert_eq!((said.0, said.1.as_str()), (-22, "pool p is in unmanaged snaps mode"));
    assert_eq!(ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, 9, "").result, -2);
    let reply = ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, 2, "");
    assert_eq!((reply.result, reply.response), (0, None));
    assert_eq!(ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, 2, "").result, 0);
    assert_eq!(c.json(admin, "osd dump")["pools"][0]["snap_seq"].as_u64(), Some(4), "removed once");
    assert_eq!(new_number(&mut c, client), 5);
}

#[test]
fn a_removal_ends_when_every_group_has_said_so() {
    let (mut c, admin) = with_pool();
    let client = c.admin();
    let snap = new_number(&mut c, client);
    ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, snap, "");
    let queue = |c: &mut Cluster| c.json(admin, "osd dump")["removed_snaps_queue"].as_array().map(Vec::len);
    assert_eq!(queue(&mut c), Some(1));
    report(&mut c, 0..3, &[snap, 77]);
    assert_eq!(queue(&mut c), Some(1), "one has not reported");
    report(&mut c, 3..4, &[]);
    assert_eq!(queue(&mut c), Some(1), "one still has some of it");
    report(&mut c, 3..4, &[snap, 77]);
    assert_eq!(queue(&mut c), Some(0));
    let dump = c.json(admin, "osd dump");
    assert_eq!(dump["new_purged_snaps"][0]["snaps"][0]["begin"].as_u64(), Some(snap));
    // What is gone is gone, over a restart, too.
    c.mon.shutdown(c.now);
    c.drain();
    let mut c = Cluster::resume(c.now, c.config.clone(), c.store.clone());
    let (client, admin) = (c.admin(), c.admin());
    assert_eq!(ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, snap, "").result, 0);
    let dump = c.json(admin, "osd dump");
    assert_eq!(dump["removed_snaps_queue"].as_array().map(Vec::len), Some(0));
    assert_eq!(dump["pools"][0]["snap_seq"].as_u64(), Some(3));
}

#[test]
fn a_deleted_pool_leaves_no_queue() {
    let (mut c, admin) = with_pool();
    let client = c.admin();
    let snap = new_number(&mut c, client);
    ask(&mut c, client, pool_op::DELETE_UNMANAGED_SNAP, snap, "");
    c.ok(admin, r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#);
    assert_eq!(c.json(admin, "osd dump")["removed_snaps_queue"].as_array().map(Vec::len), Some(0));
}

#[test]
fn who_may_write_objects_may_number_snapshots_and_no_more() {
    let (mut c, admin) = with_pool();
    c.ok(
        admin,
        r#"{"prefix":"auth get-or-create","entity":"client.w","caps":["mon","allow r","osd","allow rw pool=p"]}"#,
    );
    c.ok(
        admin,
        r#"{"prefix":"auth get-or-create","entity":"client.r","caps":["mon","allow r","osd","allow r pool=p"]}"#,
    );
    let open = |c: &mut Cluster, name: &str, num| {
        c.open(name, EntityName { kind: EntityType::CLIENT, num }, cluster::addrs(0), "allow r")
    };
    let (writer, reader) = (open(&mut c, "client.w", 4200), open(&mut c, "client.r", 4201));
    assert_eq!(ask(&mut c, reader, pool_op::CREATE_UNMANAGED_SNAP, 0, "").result, -1);
    assert_eq!(ask(&mut c, writer, pool_op::CREATE_SNAP, 0, "x").result, -1);
    assert_eq!(ask(&mut c, writer, pool_op::CREATE_UNMANAGED_SNAP, 0, "").result, 0);
}

/// A tenant with one namespace of a pool could write images there and not take snapshots of them.
#[test]
fn who_may_write_to_one_namespace_may_number_the_pools_snapshots() {
    let (mut c, admin) = with_pool();
    let mut result = |number: u64, osd: &str| {
        let entity = format!("client.t{number}");
        let caps = format!(r#"["mon","profile rbd","osd","{osd}"]"#);
        c.ok(admin, &format!(r#"{{"prefix":"auth get-or-create","entity":"{entity}","caps":{caps}}}"#));
        let name = EntityName { kind: EntityType::CLIENT, num: 4300 + number as i64 };
        let conn = c.open(&entity, name, cluster::addrs(0), "profile rbd");
        ask(&mut c, conn, pool_op::CREATE_UNMANAGED_SNAP, 0, "").result
    };
    assert_eq!(result(1, "profile rbd pool=p namespace=n"), 0);
    assert_eq!(result(2, "allow rw pool=p object_prefix x"), 0);
    assert_eq!(result(3, "allow w"), 0);
    assert_eq!(result(4, "profile rbd-read-only pool=p, profile rbd pool=q"), -1);
    assert_eq!(result(5, "allow rw namespace=n"), -1);
    assert_eq!(result(6, "allow rw tag test *=*"), -1);
    assert_eq!(result(7, "allow class rbd"), -1);
}
