//! Placement and bytes held against Ceph's `crushtool` over random maps of every algorithm, tunable and rule shape.

mod oracle;

use base::Rng;
use crush::CrushMap;
use crush::edit::parse_location;
use oracle::{Flavour, Oracle, Query, decode, random_map};
use wire::Encode;

const ALL: &[&str] = &["uniform", "list", "tree", "straw", "straw2"];

/// `maps` random maps, each compiled by crushtool, re-encoded by us to the same bytes, and mapped by both.
fn compare(seed: u64, maps: u32, flavour: Flavour) {
    let oracle = Oracle::new();
    let mut rng = Rng::new(seed);
    for _ in 0..maps {
        let text = random_map(&mut rng, flavour);
        let bytes = oracle.compile(&text);
        let map = decode(&bytes);
        assert_eq!(&map.to_bytes()[..], &bytes[..], "re-encoding differs for\n{text}");
        for _ in 0..4 {
            oracle.assert_same_mappings(&map, &Query::random(&mut rng, &map), 150);
        }
        if flavour.choose_args {
            // Text maps cannot say the default key, so it is put into the bytes, over the first key.
            let mut bytes = bytes;
            let at = bytes.len() - map.choose_args().to_bytes().len() + 4;
            bytes[at..at + 8].copy_from_slice(&crush::choose_args::DEFAULT.to_le_bytes());
            let map = decode(&bytes);
            assert!(map.choose_args().contains_key(&crush::choose_args::DEFAULT));
            oracle.assert_same_mappings(&map, &Query::random(&mut rng, &map), 150);
        }
    }
}

#[test]
fn straw2_maps_place_as_in_ceph() {
    compare(1, 10, Flavour { algorithms: &["straw2"], legacy_tunables: false, classes: false, choose_args: false });
}

#[test]
fn maps_of_all_algorithms_place_as_in_ceph() {
    compare(2, 10, Flavour { algorithms: ALL, legacy_tunables: false, classes: false, choose_args: false });
}

#[test]
fn legacy_tunables_place_as_in_ceph() {
    compare(3, 15, Flavour { algorithms: ALL, legacy_tunables: true, classes: false, choose_args: false });
}

#[test]
fn device_classes_place_as_in_ceph() {
    compare(4, 10, Flavour { algorithms: &["straw2"], legacy_tunables: false, classes: true, choose_args: false });
}

#[test]
fn choose_args_place_as_in_ceph() {
    compare(5, 10, Flavour { algorithms: &["straw2"], legacy_tunables: false, classes: true, choose_args: true });
}

/// Weights above 32,768 (some 32 PiB) no longer fit a signed 32-bit number, which Ceph's draw divides by.
#[test]
fn huge_weights_place_as_in_ceph() {
    let oracle = Oracle::new();
    let mut map = CrushMap::simple("osd").expect("osd is a type");
    let at = parse_location(["root=default"]).expect("a location");
    for (device, weight) in [(0, 40_000 << 16), (1, 10 << 16), (2, 20_000 << 16), (3, 5_000 << 16)] {
        map.insert_item(device, weight, &format!("osd.{device}"), &at).expect("a new item");
    }
    for size in 1..4 {
        oracle.assert_same_mappings(&map, &Query { rule: 0, size, weights: Vec::new(), pool: None }, 300);
    }
}
