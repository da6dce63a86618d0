//! Placement groups made anew: whose primary is told, until it serves, also by a monitor that has started since.

mod cluster;

use base::{Epoch, OsdId, PgId, PoolId};
use cluster::Cluster;
use maps::stats::{OsdStat, PgStat, PgState, StoreStatfs};
use wire::codec::Encode;
use wire::messages::{Message, PgStats, Sealed};
use wire::net::ConnId;

const PG: PgId = PgId { pool: PoolId(1), seed: 0 };
const FORCE: &str = r#"{"prefix":"osd force-create-pg","pgid":"1.0","yes_i_really_mean_it":true}"#;

/// The groups that an OSD was told to make since this was asked last.
fn told(c: &mut Cluster, conn: ConnId) -> Vec<PgId> {
    let creates = c.received(conn).into_iter().filter_map(|m| match m {
        Message::OsdPgCreate(m) => Some(m),
        _ => None,
    });
    creates.flat_map(|m| m.pgs.into_keys().map(|spg| spg.pg)).collect()
}

fn report(c: &mut Cluster, conn: ConnId, state: PgState) {
    let stat = PgStat { state, reported_epoch: Epoch(99), acting_primary: OsdId(0), ..PgStat::default() };
    let osd_stat = Sealed(OsdStat::of_store(StoreStatfs::default()).to_bytes());
    let pg_stats = [(PG, Sealed(stat.to_bytes()))].into();
    c.send(conn, PgStats { fsid: c.config.fsid, osd_stat, pg_stats, epoch: Epoch(1), ..PgStats::default() });
    c.pass(base::Duration::from_millis(30));
}

#[test]
fn a_primary_is_told_until_it_serves() {
    let (mut c, admin) = Cluster::with_osds(1);
    c.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1,"size":1,"yes_i_really_mean_it":true}"#);
    let conn = c.osd_session(0, 6800);
    let unsure = c.command(admin, r#"{"prefix":"osd force-create-pg","pgid":"1.0"}"#);
    assert!(unsure.0 == -1 && unsure.1.contains("--yes-i-really-mean-it to proceed"), "{unsure:?}");
    let nowhere = r#"{"prefix":"osd force-create-pg","pgid":"7.0","yes_i_really_mean_it":true}"#;
    assert_eq!(c.command(admin, nowhere).0, -2);
    report(&mut c, conn, PgState::DOWN);
    assert_eq!(told(&mut c, conn), [], "nobody has asked for it");
    assert_eq!(c.command(admin, FORCE).1, "pg 1.0 now creating, ok");
    assert_eq!(told(&mut c, conn), [PG]);
    assert_eq!(c.command(admin, FORCE).1, "pg 1.0 already creating");
    report(&mut c, conn, PgState::DOWN);
    assert_eq!(told(&mut c, conn), [PG], "it may not have heard");

    let mut c = Cluster::resume(c.now, c.config.clone(), c.store.clone());
    let conn = c.osd_session(0, 6800);
    report(&mut c, conn, PgState::DOWN);
    assert_eq!(told(&mut c, conn), [PG], "the monitor has not forgotten");
    report(&mut c, conn, PgState::ACTIVE.with(PgState::CLEAN));
    assert_eq!(told(&mut c, conn), []);
    report(&mut c, conn, PgState::DOWN);
    assert_eq!(told(&mut c, conn), [], "it was made; what became of it since is another matter");
    let mut c = Cluster::resume(c.now, c.config.clone(), c.store.clone());
    let conn = c.osd_session(0, 6800);
    report(&mut c, conn, PgState::DOWN);
    assert_eq!(told(&mut c, conn), []);
}
