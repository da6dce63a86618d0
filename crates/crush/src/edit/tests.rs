//! Edits without Ceph's tools at hand: what they refuse, that a refusal changes nothing, and the monitor's usual way.

use super::{EditError, parse_location, parse_weight};
use crate::map::CrushMap;
use crate::{Algorithm, Bucket, ITEM_NONE, SimpleRule};
use base::Errno;
use std::collections::BTreeSet;
use wire::{Decode, Encode};

fn place(args: &[&str]) -> super::Location {
    parse_location(args.iter().copied()).expect("a location")
}

/// Three hosts of three OSDs, of weight 1 each, even ones ssd.
fn nine() -> CrushMap {
    let mut map = CrushMap::simple("host").expect("host is a type");
    for osd in 0..9 {
        let at = place(&[&format!("host=h{}", osd / 3), "root=default"]);
        assert_eq!(map.create_or_move_item(osd, 0x10000, &format!("osd.{osd}"), &at), Ok(true));
        map.set_device_class(osd, if osd % 2 == 0 { "ssd" } else { "hdd" }).expect("a new device has no class");
    }
    map
}

#[test]
fn a_booting_osd_makes_its_host_and_finds_itself_there_the_next_time() {
    let mut map = nine();
    assert_eq!(map.item_weight(-1), Some(9 << 16));
    let again = map.clone();
    assert_eq!(map.create_or_move_item(4, 0x2_0000, "osd.4", &place(&["host=h1", "root=default"])), Ok(false));
    assert_eq!(map, again, "an OSD that is in place keeps its weight");
    assert_eq!(map.create_or_move_item(4, 0x2_0000, "osd.4", &place(&["host=h2", "root=default"])), Ok(true));
    assert_eq!(map.full_location(4), place(&["host=h2", "root=default"]));
    assert_eq!(map.item_weight(4), Some(0x1_0000), "a move keeps the weight");
    assert_eq!(map.item_weight(-1), Some(9 << 16));
}

#[test]
fn every_seed_finds_three_hosts_and_classes_are_kept_apart() {
    let mut map = nine();
    let ssd = SimpleRule { class: "ssd", ..SimpleRule::replicated("fast", "default", "osd") };
    let fast = map.add_simple_rule(&ssd).expect("the root has ssds");
    let weights = [0x10000; 9];
    for x in 0..500 {
        let devices = map.do_rule(0, x, 3, &weights, None);
        let hosts: BTreeSet<i32> = devices.iter().map(|device| device / 3).collect();
        assert_eq!((devices.len(), hosts.len()), (3, 3), "seed {x}");
        let devices = map.do_rule(fast, x, 3, &weights, None);
        assert!(devices.len() == 3 && devices.iter().all(|device| device % 2 == 0 && *device != ITEM_NONE), "seed {x}");
    }
    assert_eq!(CrushMap::from_bytes(&map.to_bytes()), Ok(map));
}

#[test]
fn refusals_name_their_cause_and_change_nothing() {
    let mut map = nine();
    map.add_simple_rule(&SimpleRule { class: "ssd", ..SimpleRule::replicated("fast", "default", "osd") })
        .expect("rule");
    let before = map.clone();
    let refused = [
        (map.remove_item("h0", false), Errno::ENOTEMPTY),
        (map.remove_item("nobody", false), Errno::ENOENT),
        (map.insert_item(20, 1, "no/name", &place(&["host=h0"])), Errno::EINVAL),
        (map.insert_item(20, 1, "osd.3", &place(&["host=h0"])), Errno::EEXIST),
        (map.insert_item(20, 1, "osd.20", &place(&["planet=earth"])), Errno::EINVAL),
        (map.insert_item(20, 1, "osd.20", &place(&["root=h0"])), Errno::EINVAL),
        (map.insert_item(20, u32::MAX, "osd.20", &place(&["host=h0"])), Errno::ERANGE),
        (map.insert_item(ITEM_NONE, 1, "osd.20", &place(&["host=h0"])), Errno::ENOENT),
        (map.link_bucket("default", &place(&["host=h0"])), Errno::ELOOP),
        (map.link_bucket("osd.1", &place(&["host=h0"])), Errno::ENOTDIR),
        (map.set_device_class(0, "hdd").map(drop), Errno::EBUSY),
        (map.remove_class("ssd"), Errno::EBUSY),
        (map.rename_bucket("h0", "h1"), Errno::EEXIST),
        (map.rename_bucket("osd.0", "h9"), Errno::ENOTDIR),
        (map.add_named_bucket("r", "nonsense").map(drop), Errno::EINVAL),
        (map.remove_rule(17), Errno::ENOENT),
        (map.reweight_item("nobody", 1), Errno::ENOENT),
    ];
    for (at, (result, errno)) in refused.into_iter().enumerate() {
        assert_eq!(result.map_err(|error| error.errno()), Err(errno), "refusal {at}");
    }
    assert_eq!(map, before);
    assert_eq!(parse_weight(-1.0), Err(EditError::InvalidWeight("-1".to_owned())));
    assert!(parse_weight(f64::NAN).is_err() && parse_weight(1e9).is_err());
    assert!(parse_location(["host"]).is_err() && parse_location(["host="]).is_err());
}

#[test]
fn shadow_trees_follow_renames_and_go_with_their_class() {
    let mut map = nine();
    map.rename_bucket("h0", "first").expect("the name is free");
    map.rename_class("ssd", "flash").expect("the name is free");
    assert!(map.item_id("first~flash").is_some() && map.item_id("h0~ssd").is_none());
    map.remove_class("flash").expect("no rule uses it");
    assert!(map.item_id("first~flash").is_none() && map.class_id("flash").is_none());
    assert_eq!(map.buckets().filter(|bucket| map.is_shadow(bucket.id())).count(), 4, "hdd's shadows stay");
}

#[test]
fn removing_the_last_of_a_host_leaves_an_empty_host_that_can_go() {
    let mut map = nine();
    for osd in 0..3 {
        map.remove_item(&format!("osd.{osd}"), false).expect("the OSD is there");
    }
    map.remove_item("h0", false).expect("the host is empty");
    assert_eq!((map.item_weight(-1), map.item_id("h0")), (Some(6 << 16), None));
    map.remove_item("h1", true).expect("unlinking needs no emptiness");
    assert_eq!((map.item_weight(-1), map.parent(map.item_id("h1").expect("it stays"))), (Some(3 << 16), None));
}

/// In every set that has weight sets, each parent's weight for a child is the sum of the child's, at each position.
fn assert_sets_add_up(map: &CrushMap) {
    for args in map.choose_args().values() {
        for (id, arg) in args.iter() {
            let bucket = map.bucket(id).expect("choose args belong to buckets");
            for (position, item) in bucket.items().iter().enumerate() {
                let Some(child) = args.arg(*item) else { continue };
                for (set, weights) in arg.weight_sets.iter().enumerate() {
                    assert_eq!(weights.len(), bucket.items().len());
                    assert_eq!(
                        weights[position],
                        child.weight_sets[set].iter().sum::<u32>(),
                        "{item} in {id}, set {set}"
                    );
                }
            }
        }
    }
}

#[test]
fn weight_sets_keep_adding_up_over_edits() {
    let mut map = nine();
    assert!(map.create_weight_set(crate::choose_args::DEFAULT, 2));
    assert!(!map.create_weight_set(crate::choose_args::DEFAULT, 2), "there is one");
    assert_sets_add_up(&map);
    map.reweight_item("osd.3", 0x3_0000).expect("the OSD is there");
    assert_sets_add_up(&map);
    map.insert_item(9, 0x1_8000, "osd.9", &place(&["host=h9", "rack=r0", "root=default"])).expect("a new OSD");
    assert_sets_add_up(&map);
    map.move_item("h1", &place(&["rack=r0"])).expect("the rack is there");
    assert_sets_add_up(&map);
    map.set_device_class(9, "ssd").expect("a new OSD has no class");
    map.remove_item("osd.0", false).expect("the OSD is there");
    map.reweight_all().expect("weights that fit");
    assert_sets_add_up(&map);
    assert_eq!(CrushMap::from_bytes(&map.to_bytes()), Ok(map));
}

#[test]
fn a_weight_set_decides_where_its_pool_goes_and_no_other() {
    let mut map = nine();
    let chosen = |map: &CrushMap, pool: Option<i64>| {
        (0..200).filter(|x| map.do_rule(0, *x, 3, &[0x1_0000; 9], pool).contains(&4)).count()
    };
    let before = chosen(&map, None);
    assert!(map.create_weight_set(7, 1));
    assert_eq!(chosen(&map, Some(7)), before, "it begins with the buckets' own weights");
    map.reweight_in_weight_set(7, "osd.4", &[0]).expect("the OSD is there");
    assert_sets_add_up(&map);
    assert_eq!((chosen(&map, Some(7)), chosen(&map, None)), (0, before));
    let root = map.reweight_in_weight_set(7, "default", &[0]).expect_err("nothing holds a root");
    assert_eq!(root.errno(), base::Errno::ENOENT);
    assert!(map.remove_weight_set(7) && !map.remove_weight_set(7));
}

#[test]
fn swapped_buckets_bring_their_items_names_and_weights() {
    let mut map = nine();
    map.create_weight_set(crate::choose_args::DEFAULT, 1);
    map.reweight_item("osd.0", 0x3_0000).expect("the OSD is there");
    map.add_named_bucket("new", "host").expect("a name that is free");
    let (old_place, new_place) = (map.item_id("h0").expect("a host"), map.item_id("new").expect("just made"));
    let (osds, weight) = (map.bucket(old_place).expect("a host").items().to_vec(), map.item_weight(old_place));
    map.swap_buckets("h0", "new").expect("neither contains the other");
    assert_eq!((map.item_id("h0"), map.item_id("new")), (Some(new_place), Some(old_place)));
    assert_eq!(map.bucket(new_place).expect("a host").items(), osds);
    assert_eq!((map.item_weight(new_place), map.item_weight(old_place)), (weight, Some(0)));
    assert_sets_add_up(&map);
    assert_eq!(map.swap_buckets("default", "new").expect_err("nested").errno(), base::Errno::EINVAL);
    assert_eq!(CrushMap::from_bytes(&map.to_bytes()), Ok(map));
}

#[test]
fn straw_buckets_become_straw2() {
    let mut map = nine();
    let host = map.item_id("h0").expect("a host");
    let items: Vec<(i32, u32)> = map.bucket(host).expect("a host").weighted_items().collect();
    let straw = Bucket::new(host, 1, Algorithm::Straw, &items, 1).expect("it fits");
    *map.bucket_mut(host).expect("a host") = straw;
    assert_eq!(map.straw_to_straw2(), Ok(1));
    assert_eq!(map, nine());
    assert_eq!(map.straw_to_straw2(), Ok(0));
}
