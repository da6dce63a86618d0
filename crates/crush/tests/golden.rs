//! Captured bytes and placements of Ceph 16.2.15, for machines without its tools; and maps that are out to harm.

use base::Rng;
use bytes::Bytes;
use crush::CrushMap;
use crush::edit::parse_location;
use wire::{Decode, Encode};

struct Golden {
    map: &'static [u8],
    mappings: &'static str,
}

macro_rules! golden {
    ($name:literal) => {
        Golden {
            map: include_bytes!(concat!("golden/", $name, ".crush")),
            mappings: include_str!(concat!("golden/", $name, ".mappings")),
        }
    };
}

const GOLDEN: [Golden; 3] = [golden!("straw2"), golden!("legacy"), golden!("classes")];

fn decode(bytes: &[u8]) -> CrushMap {
    CrushMap::from_bytes(&Bytes::copy_from_slice(bytes)).expect("a golden map decodes")
}

#[test]
fn golden_maps_decode_and_encode_to_the_same_bytes() {
    for golden in GOLDEN {
        assert_eq!(&decode(golden.map).to_bytes()[..], golden.map);
    }
}

#[test]
fn golden_seeds_are_placed_as_ceph_placed_them() {
    let mut checked = 0;
    for golden in GOLDEN {
        let map = decode(golden.map);
        let (mut rule, mut size, mut weights, mut x) = (0, 0, Vec::new(), 0);
        for line in golden.mappings.lines() {
            if let Some(query) = line.strip_prefix("rule ") {
                let words: Vec<&str> = query.split(' ').collect();
                rule = words[0].parse().expect("a rule");
                size = words[2].parse().expect("a size");
                weights = vec![0x10000; map.max_devices() as usize];
                for word in &words[4..] {
                    let (device, weight) = word.split_once(':').expect("DEVICE:WEIGHT");
                    weights[device.parse::<usize>().expect("a device")] = weight.parse().expect("a weight");
                }
                x = 0;
                continue;
            }
            let expected: Vec<i32> =
                line.split(' ').filter(|id| !id.is_empty()).map(|id| id.parse().expect("a device")).collect();
            assert_eq!(map.do_rule(rule, x, size, &weights, Some(0)), expected, "seed {x} of rule {rule}");
            x += 1;
            checked += 1;
        }
    }
    assert_eq!(checked, 3 * 5 * 40);
}

#[test]
fn cut_maps_are_refused_except_where_older_releases_ended() {
    for golden in GOLDEN {
        let whole = golden.map.len();
        let readable =
            (0..whole).filter(|len| CrushMap::from_bytes(&Bytes::copy_from_slice(&golden.map[..*len])).is_ok());
        // After the names, each generation of tunables, and the classes: eight places at most.
        assert!(readable.count() <= 8);
        let longer = [golden.map, &[0]].concat();
        assert!(CrushMap::from_bytes(&Bytes::from(longer)).is_err(), "trailing bytes are refused");
    }
}

/// Whatever bytes arrive, decoding gives an error or a map that maps, walks and edits without harm.
#[test]
fn damaged_maps_do_no_harm() {
    let mut rng = Rng::new(7);
    let mut survived = 0;
    for golden in GOLDEN {
        for _ in 0..200 {
            let mut bytes = golden.map.to_vec();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = match rng.below(3) {
                    0 => 0xff,
                    1 => bytes[at] ^ (1 << rng.below(8)),
                    _ => rng.below(256) as u8,
                };
            }
            let Ok(mut map) = CrushMap::from_bytes(&Bytes::from(bytes)) else { continue };
            survived += 1;
            let weights = vec![0x10000; 40];
            let rules: Vec<i32> = map.rules().map(|(id, _)| id).collect();
            for rule in rules {
                for x in 0..1 {
                    assert!(map.do_rule(rule, x, 5, &weights, Some(0)).len() <= 5);
                }
            }
            assert!(map.tree(true).len() <= crush::limits::WALK_NODES_MAX as usize);
            let location = parse_location(["host=host0", "root=default"]).expect("a location");
            // Whether these succeed depends on the damage; that the result is whole does not.
            let _ = map.create_or_move_item(3, 0x10000, "osd.3", &location);
            let _ = map.set_device_class(3, "nvme");
            let _ = map.reweight_all();
            let _ = map.remove_item("osd.1", false);
            assert_eq!(CrushMap::from_bytes(&map.to_bytes()), Ok(map));
        }
    }
    assert!(survived > 60, "some damage must get past decoding for this to test anything: {survived}");
}

/// A bucket in a bucket in itself: Ceph's mapper would walk it for ever.
#[test]
fn maps_that_contain_themselves_are_refused() {
    let mut map = CrushMap::simple("host").expect("host is a type");
    let at = parse_location(["rack=r", "root=default"]).expect("a location");
    map.insert_item(0, 0x10000, "osd.0", &at).expect("a new item");
    let mut bytes = map.to_bytes().to_vec();
    // The rack (-2) holds the device 0; make it hold the root (-1) instead.
    let rack = [(-2i32).to_le_bytes().as_slice(), &3u16.to_le_bytes(), &[5, 0], &0x10000u32.to_le_bytes()].concat();
    let at = bytes.windows(rack.len()).position(|window| window == rack).expect("the rack is in the bytes");
    let item = at + rack.len() + 4;
    bytes[item..item + 4].copy_from_slice(&(-1i32).to_le_bytes());
    let error = CrushMap::from_bytes(&Bytes::from(bytes)).expect_err("a cycle");
    assert!(error.why.contains("contains itself"), "{error}");
}
