//! The OSD maps of one real cluster's life, held against Ceph 16.2.15's bytes and its `osdmaptool`.
//!
//! They lie in `crates/wire/tests/golden/maps` (README.md there): every incremental from epoch 1 on, some whole maps,
//! and what `osdmaptool --test-map-pgs-dump-all` says of those.

mod fixtures;

use base::{OsdId, PgId};
use bytes::Bytes;
use fixtures::{golden_maps, numbered};
use maps::{ApplyError, Incremental, MonMap, OsdMap};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::codec::{Decode, Encode};

fn increments() -> Vec<Incremental> {
    let found = numbered("osdmap.inc.", ".bin");
    let epochs: Vec<u32> = found.keys().copied().collect();
    assert!(epochs.len() > 100 && epochs.iter().copied().eq(1..=epochs.len() as u32), "{epochs:?}");
    found.values().map(|bytes| Incremental::from_bytes(bytes).expect("a real incremental")).collect()
}

fn fulls() -> BTreeMap<u32, Bytes> {
    let found = numbered("osdmap.full.", ".bin");
    assert!(found.len() > 10);
    found
}

fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b).or((a.len() != b.len()).then_some(a.len().min(b.len())))
}

#[test]
fn whole_maps_encode_to_the_bytes_they_came_from() {
    for (epoch, bytes) in fulls() {
        let map = OsdMap::from_bytes(&bytes).expect("a real map");
        let encoded = map.encoded();
        assert_eq!(difference(&encoded.bytes, &bytes), None, "epoch {epoch}");
        assert_eq!(bytes[bytes.len() - 4..], encoded.crc.to_le_bytes());
        assert_eq!((map.epoch.0, map.to_bytes()), (epoch, bytes));
    }
}

#[test]
fn incrementals_encode_to_the_bytes_they_came_from() {
    for (epoch, bytes) in numbered("osdmap.inc.", ".bin") {
        let inc = Incremental::from_bytes(&bytes).expect("a real incremental");
        assert_eq!(difference(&inc.to_bytes(), &bytes), None, "epoch {epoch}");
        assert_eq!(inc.encode_features, maps::incremental::ENCODING_FEATURES);
    }
}

#[test]
fn applying_every_incremental_gives_the_monitors_maps() {
    let fulls = fulls();
    let mut map = OsdMap::new(Default::default());
    let mut compared = 0;
    for inc in increments() {
        map.apply(&inc).unwrap_or_else(|e| panic!("epoch {}: {e}", inc.epoch));
        let encoded = map.encoded();
        if let Some(full) = fulls.get(&map.epoch.0) {
            assert_eq!(difference(&encoded.bytes, full), None, "epoch {}", map.epoch);
            compared += 1;
        }
        // A whole map inside the incremental carries its own checksum.
        if inc.full_map.is_empty() {
            assert_eq!(encoded.crc, inc.full_crc, "epoch {}", map.epoch);
        }
    }
    assert_eq!(compared, fulls.len());
}

#[test]
fn real_maps_place_as_osdmaptool_does() {
    let fulls = fulls();
    let mut groups = 0;
    for (epoch, said) in numbered("placement.", ".txt") {
        let map = OsdMap::from_bytes(&fulls[&epoch]).expect("a real map");
        let said = String::from_utf8(said.to_vec()).expect("text");
        for line in said.lines().filter(|line| line.contains(" raw (")) {
            let pg = PgId::parse(line.split(' ').next().unwrap_or_default()).expect("a group's name");
            assert_eq!(fixtures::placement_line(&map, pg), line, "epoch {epoch}");
            groups += 1;
        }
    }
    assert!(groups > 500, "{groups}");
}

#[test]
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let incs = increments();
    let mut map = OsdMap::new(Default::default());
    assert_eq!(map.apply(&incs[1]), Err(ApplyError::OtherCluster(incs[1].fsid)));
    map.apply(&incs[0]).expect("the first");
    let before = map.clone();
    assert_eq!(map.apply(&incs[0]), Err(ApplyError::NotNext { have: before.epoch, got: before.epoch }));
    let spoil = |change: fn(&mut Incremental)| {
        let mut inc = incs[1].clone();
        change(&mut inc);
        inc
    };
    let foreign = spoil(|inc| inc.fsid = wire::types::Uuid([7; 16]));
    assert_eq!(map.apply(&foreign), Err(ApplyError::OtherCluster(foreign.fsid)));
    for (inc, what) in [
        (spoil(|inc| inc.new_weight.extend([(OsdId(1000), 0x10000)])), "an OSD past the end"),
        (spoil(|inc| inc.new_up_thru.extend([(OsdId(-1), base::Epoch(1))])), "a negative OSD"),
        (spoil(|inc| inc.new_max_osd = Some(u32::MAX >> 1)), "a huge max_osd"),
        (spoil(|inc| inc.crush = Bytes::from_static(b"rubbish")), "a broken CRUSH map"),
        (spoil(|inc| inc.full_map = Bytes::from_static(b"rubbish")), "a broken whole map"),
        (
            spoil(|inc| {
                let purged = maps::SnapSet::interval(base::SnapId(1), 1);
                inc.new_purged_snaps.insert(base::PoolId(1), purged);
            }),
            "purged snapshots that nobody removed",
        ),
    ] {
        assert!(map.apply(&inc).is_err(), "{what}");
        assert_eq!(map, before, "{what}");
    }
}

#[test]
fn maps_of_many_epochs_share_what_did_not_change() {
    let mut map = OsdMap::new(Default::default());
    let (mut same_crush, mut same_addrs, mut same_pools) = (0, 0, 0);
    for inc in increments() {
        let before = map.clone();
        map.apply(&inc).expect("it follows");
        if !inc.full_map.is_empty() {
            continue;
        }
        if inc.crush.is_empty() {
            assert!(Arc::ptr_eq(&before.crush, &map.crush));
            same_crush += 1;
        }
        if let (Some(a), Some(b), true) =
            (before.addrs(OsdId(0)), map.addrs(OsdId(0)), inc.new_up.is_empty() && inc.new_state.is_empty())
        {
            assert!(Arc::ptr_eq(a, b));
            same_addrs += 1;
        }
        for (id, pool) in before.pools.iter().filter(|(id, _)| !inc.new_pools.contains_key(id)) {
            assert!(map.pools.get(id).is_none_or(|now| Arc::ptr_eq(now, pool)));
            same_pools += 1;
        }
    }
    assert!(same_crush > 50 && same_addrs > 50 && same_pools > 50);
}

#[test]
fn the_monitor_map_survives() {
    let bytes = Bytes::from(std::fs::read(golden_maps().join("monmap.bin")).expect("a fixture"));
    let map = MonMap::from_bytes(&bytes).expect("a real map");
    assert_eq!(map.to_bytes(), bytes);
    assert_eq!(map.by_rank(0).map(|mon| mon.name.as_str()), Some("a"));
    assert_eq!((map.rank_of("a"), map.rank_of("b")), (Some(0), None));
    assert_eq!(map.persistent_features.names().last(), Some("elector-pinging"));
    let addrs = map.monitors["a"].public_addrs.clone();
    assert_eq!(MonMap::single(map.fsid, map.created, "a", addrs), map);
}
