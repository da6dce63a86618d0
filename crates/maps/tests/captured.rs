//! The OSD maps of one real cluster's life, held against Ceph 16.2.15's bytes.
//!
//! `golden/osdmap_increments.pack` holds every incremental of the cluster from epoch 1 on, `golden/osdmap_fulls.pack`
//! whole maps of some epochs, as the monitor sent them: each a u32 length and the bytes. During that life pools were
//! made, renamed, resized, snapshotted and removed, OSDs went down, out, were reweighted and replaced, and mappings
//! were overridden.

use bytes::Bytes;
use maps::{ApplyError, Incremental, OsdMap};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::codec::{Decode, Decoder, Encode};

fn records(pack: &'static [u8]) -> Vec<Bytes> {
    let pack = Bytes::from_static(pack);
    let mut d = Decoder::shared(&pack);
    let mut records = vec![];
    while d.remaining() > 0 {
        records.push(d.blob().expect("a pack of whole records"));
    }
    records
}

fn increments() -> Vec<Bytes> {
    records(include_bytes!("golden/osdmap_increments.pack"))
}

fn fulls() -> Vec<Bytes> {
    records(include_bytes!("golden/osdmap_fulls.pack"))
}

#[test]
fn whole_maps_encode_to_the_bytes_they_came_from() {
    for bytes in fulls() {
        let map = OsdMap::from_bytes(&bytes).expect("a real map");
        let encoded = map.encoded();
        assert!(
            encoded.bytes == bytes,
            "epoch {}: first difference at byte {:?}",
            map.epoch,
            difference(&encoded.bytes, &bytes)
        );
        assert_eq!(bytes[bytes.len() - 4..], encoded.crc.to_le_bytes());
    }
}

#[test]
fn incrementals_encode_to_the_bytes_they_came_from() {
    for bytes in increments() {
        let inc = Incremental::from_bytes(&bytes).expect("a real incremental");
        let encoded = inc.to_bytes();
        assert!(encoded == bytes, "epoch {}: first difference at byte {:?}", inc.epoch, difference(&encoded, &bytes));
    }
}

#[test]
fn applying_every_incremental_gives_the_monitors_maps() {
    let fulls: BTreeMap<_, _> =
        fulls().into_iter().map(|bytes| (OsdMap::from_bytes(&bytes).expect("a real map").epoch, bytes)).collect();
    let mut map = OsdMap::new(Default::default());
    let mut compared = 0;
    for bytes in increments() {
        let inc = Incremental::from_bytes(&bytes).expect("a real incremental");
        map.apply(&inc).unwrap_or_else(|e| panic!("epoch {}: {e}", inc.epoch));
        let encoded = map.encoded();
        if let Some(full) = fulls.get(&map.epoch) {
            assert!(encoded.bytes == *full, "epoch {}: byte {:?}", map.epoch, difference(&encoded.bytes, full));
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
fn what_does_not_follow_is_refused_and_changes_nothing() {
    let increments = increments();
    let incs: Vec<Incremental> =
        increments.iter().map(|bytes| Incremental::from_bytes(bytes).expect("a real incremental")).collect();
    let mut map = OsdMap::new(Default::default());
    assert!(matches!(map.apply(&incs[1]), Err(ApplyError::OtherCluster(_) | ApplyError::NotNext { .. })));
    map.apply(&incs[0]).expect("the first");
    let before = map.clone();
    assert_eq!(map.apply(&incs[0]), Err(ApplyError::NotNext { have: before.epoch, got: before.epoch }));
    let mut foreign = incs[1].clone();
    foreign.fsid = wire::types::Uuid([7; 16]);
    assert_eq!(map.apply(&foreign), Err(ApplyError::OtherCluster(foreign.fsid)));
    let mut far = incs[1].clone();
    far.new_weight.insert(base::OsdId(1000), 0x10000);
    assert!(matches!(map.apply(&far), Err(ApplyError::Inconsistent(_))));
    let mut huge = incs[1].clone();
    huge.new_max_osd = Some(u32::MAX >> 1);
    assert!(matches!(map.apply(&huge), Err(ApplyError::Inconsistent(_))));
    assert_eq!(map, before);
}

#[test]
fn maps_of_many_epochs_share_what_did_not_change() {
    let mut map = OsdMap::new(Default::default());
    let (mut same_crush, mut same_addrs) = (0, 0);
    for bytes in increments() {
        let inc = Incremental::from_bytes(&bytes).expect("a real incremental");
        let before = map.clone();
        map.apply(&inc).expect("it follows");
        if inc.full_map.is_empty() && inc.crush.is_empty() {
            assert!(Arc::ptr_eq(&before.crush, &map.crush));
            same_crush += 1;
        }
        if let (Some(a), Some(b), true) = (
            before.addrs(base::OsdId(0)),
            map.addrs(base::OsdId(0)),
            inc.new_up.is_empty() && inc.new_state.is_empty() && inc.full_map.is_empty(),
        ) {
            assert!(Arc::ptr_eq(a, b));
            same_addrs += 1;
        }
    }
    assert!(same_crush > 50 && same_addrs > 50);
}

fn difference(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b).or((a.len() != b.len()).then_some(a.len().min(b.len())))
}
