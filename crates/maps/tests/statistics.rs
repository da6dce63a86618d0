//! Statistics and the small maps inside messages captured from Ceph 16.2.15: opened, read and written back.

mod fixtures;

use bytes::Bytes;
use fixtures::messages;
use maps::stats::{PgStat, PgState, PoolStat, StoreStatfs};
use maps::{FsMap, MgrMap, MonMap, OsdStat, ServiceMap};
use wire::codec::{Decode, Encode};
use wire::messages::Message;

/// Reads, checks that writing gives the same bytes, and hands over the value.
fn survives<T: Decode + Encode>(bytes: &Bytes) -> T {
    let value = T::from_bytes(bytes).unwrap_or_else(|e| panic!("{e}: {bytes:?}"));
    assert_eq!(value.to_bytes(), *bytes);
    value
}

#[test]
fn reports_of_osds_and_groups_survive() {
    let mut groups = 0;
    for message in messages(87) {
        let Message::PgStats(report) = message else { panic!("{message:?}") };
        let osd: OsdStat = survives(&report.osd_stat.0);
        assert_eq!(osd.kb, (osd.statfs.total >> 10) as i64);
        assert_eq!(osd.kb_avail, (osd.statfs.available >> 10) as i64);
        assert_eq!(OsdStat::of_store(osd.statfs).kb_used, osd.kb_used);
        assert_eq!(osd.seq >> 32, u64::from(osd.up_from.0));
        for (pg, stat) in &report.pg_stats {
            let stat: PgStat = survives(&stat.0);
            assert!(stat.reported_epoch <= report.epoch && !stat.acting.is_empty(), "{pg}: {stat:?}");
            assert_ne!(stat.state, PgState(0));
            groups += 1;
        }
        for statfs in report.pool_stats.values() {
            survives::<StoreStatfs>(&statfs.0);
        }
    }
    assert!(groups > 0);
}

#[test]
fn pool_statistics_survive() {
    let replies = messages(59);
    assert!(replies.len() >= 2);
    for message in replies {
        let Message::GetPoolStatsReply(reply) = message else { panic!("{message:?}") };
        for stat in reply.stats.values() {
            let stat: PoolStat = survives(&stat.0);
            assert!(stat.stats.sum.num_objects <= stat.stats.sum.num_object_copies);
        }
    }
}

#[test]
fn maps_for_clients_survive() {
    for message in messages(4) {
        let Message::MonMap(message) = message else { panic!("{message:?}") };
        survives::<MonMap>(&message.map);
    }
    for message in messages(45) {
        let Message::FsMap(message) = message else { panic!("{message:?}") };
        assert_eq!(survives::<FsMap>(&message.map.0), FsMap::default());
    }
    let managers = messages(1796);
    assert!(managers.len() >= 3);
    for message in managers {
        let Message::MgrMap(message) = message else { panic!("{message:?}") };
        let map: MgrMap = survives(&message.map.0);
        assert_eq!(map.client_addrs.len(), map.client_names.len());
    }
    let services = messages(1799);
    assert!(!services.is_empty());
    for message in services {
        let Message::ServiceMap(message) = message else { panic!("{message:?}") };
        survives::<ServiceMap>(&message.map.0);
    }
}
