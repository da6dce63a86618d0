//! `rbd`: the life of an image's header, its clones, its object map, and a pool's directories.

use super::bench::{Bench, call, enveloped, no, nothing, text};
use crate::limits::CALLS_PER_REQUEST_MAX;
use base::Errno;
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::osd::{OpCode, OsdOpItem};
use wire::{Decoder, Encode, Encoder};

const HEAD: u64 = u64::MAX - 1;
/// What `rbd create` asks for: layering, exclusive lock, object map, fast diff, deep flatten.
const DEFAULT_FEATURES: u64 = 61;
const DEEP_FLATTEN: u64 = 32;

fn encoded(body: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut e = Encoder::new();
    body(&mut e);
    e.finish()
}

/// A text as it stands, without its length.
fn text_of(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn numbers(numbers: &[u64]) -> Bytes {
    encoded(|e| numbers.iter().for_each(|n| e.u64(*n)))
}

fn image(features: u64) -> Bench {
    let mut b = Bench::new();
    let create = encoded(|e| {
        e.u64(8 << 20);
        e.u8(22);
        e.u64(features);
        e.string("rbd_data.1");
    });
    assert_eq!(b.call("rbd", "create", create.clone()), nothing());
    assert_eq!(b.call("rbd", "create", create), no(Errno::EEXIST));
    b
}

fn snapshot(b: &mut Bench, name: &str, id: u64) -> Result<Bytes, i32> {
    b.call("rbd", "snapshot_add", [text(name), numbers(&[id])].concat())
}

fn op_features(b: &mut Bench) -> Bytes {
    b.call("rbd", "op_features_get", "").expect("an image")
}

#[test]
fn sizes_and_features_follow_their_rules() {
    let mut b = image(DEFAULT_FEATURES);
    assert_eq!(b.call("rbd", "get_size", numbers(&[HEAD])), Ok((22u8, 8u64 << 20).to_bytes()));
    assert_eq!(b.call("rbd", "set_size", numbers(&[4 << 20])), nothing());
    assert_eq!(b.call("rbd", "set_features", numbers(&[0, 4])), nothing());
    assert_eq!(b.call("rbd", "set_features", numbers(&[1, 1])), no(Errno::EINVAL));
    assert_eq!(b.call("rbd", "get_features", numbers(&[HEAD])), Ok(numbers(&[57, 57])));
    assert_eq!(b.call("rbd", "get_stripe_unit_count", ""), no(Errno::ENOEXEC));
    assert_eq!(Bench::new().call("rbd", "get_size", numbers(&[HEAD])), no(Errno::ENOENT));
}

#[test]
fn snapshots_have_distinct_names_and_growing_ids() {
    let mut b = image(DEFAULT_FEATURES);
    assert_eq!(snapshot(&mut b, "one", 4), nothing());
    assert_eq!(snapshot(&mut b, "one", 5), no(Errno::EEXIST));
    assert_eq!(snapshot(&mut b, "two", 3), no(Errno::ESTALE));
    assert_eq!(snapshot(&mut b, "two", 6), nothing());
    let context = b.call("rbd", "get_snapcontext", "");
    assert_eq!(context, Ok((6u64, vec![6u64, 4]).to_bytes()));
    let protect = |status: u8| encoded(|e| e.put(&(4u64, status)));
    assert_eq!(b.call("rbd", "set_protection_status", protect(2)), nothing());
    assert_eq!(b.call("rbd", "snapshot_remove", numbers(&[4])), no(Errno::EBUSY));
    assert_eq!(b.call("rbd", "set_protection_status", protect(0)), nothing());
    assert_eq!(b.call("rbd", "snapshot_trash_add", numbers(&[4])), nothing());
    assert_eq!(op_features(&mut b), numbers(&[8]), "the trash is in use");
    assert_eq!(b.call("rbd", "snapshot_remove", numbers(&[4])), nothing());
    assert_eq!(op_features(&mut b), numbers(&[0]));
    assert_eq!(b.call("rbd", "get_snapcontext", ""), Ok((6u64, vec![6u64]).to_bytes()));
}

#[test]
fn more_snapshots_than_one_page_are_all_seen() {
    let mut b = image(DEFAULT_FEATURES);
    for id in 1..=600 {
        assert_eq!(snapshot(&mut b, &format!("snap{id}"), id), nothing());
    }
    let ids: Vec<u64> = (1..=600).rev().collect();
    assert_eq!(b.call("rbd", "get_snapcontext", ""), Ok((600u64, ids).to_bytes()));
    assert_eq!(b.call("rbd", "snapshot_set_limit", numbers(&[599])), no(Errno::ERANGE));
    assert_eq!(b.call("rbd", "snapshot_set_limit", numbers(&[600])), nothing());
    assert_eq!(snapshot(&mut b, "more", 601), no(Errno::EDQUOT));
}

/// librbd asks for every snapshot of an image in one request, several things each. Every question cost another run of
/// all the calls before it: with sixty snapshots a snapshot took half a second.
#[test]
fn asking_for_all_snapshots_in_one_request_asks_the_store_once() {
    let mut b = image(DEFAULT_FEATURES);
    for id in 1..=100 {
        assert_eq!(snapshot(&mut b, &format!("snap{id}"), id), nothing());
    }
    let mut compare = |ids: core::ops::RangeInclusive<u64>| {
        let methods = ["get_protection_status", "get_snapshot_timestamp", "snapshot_get"];
        let asked: Vec<_> = ids.flat_map(|id| methods.map(|method| (method, numbers(&[id])))).collect();
        let alone: Vec<_> = asked.iter().map(|(method, id)| b.call("rbd", method, id.clone())).collect();
        let together: Vec<_> = asked.iter().map(|(method, id)| call("rbd", method, id.clone())).collect();
        let outcome = b.run(&together).expect("calls that are known");
        assert_eq!(outcome.result, 0);
        assert!(outcome.ops.iter().map(|op| Ok(op.item.payload.clone())).eq(alone));
        b.asked
    };
    assert_eq!(compare(1..=100), 1);
    assert_eq!(compare(7..=7), 3, "few calls read only their entries");
    // A header too large to be read at once: entry by entry, with the same answers.
    let pairs = encoded(|e| {
        e.u32(1100);
        for n in 0..1100 {
            e.string(&format!("key{n}"));
            e.string("value");
        }
    });
    assert_eq!(b.call("rbd", "metadata_set", pairs), nothing());
    let ids = [1, 2].map(|id| call("rbd", "snapshot_get", numbers(&[id])));
    let outcome = b.run(&[ids.clone(), ids].concat()).expect("calls that are known");
    assert_eq!((outcome.result, b.asked), (0, 5));
}

/// A request might have no more than 1,024 ops, and a map of more than 1,024 entries was read entry by entry, each with
/// another run of all calls: an image with 257 snapshots could not be opened any more, and one with many pairs of metadata
/// took the square of its snapshots.
#[test]
fn an_image_with_many_snapshots_and_much_metadata_is_opened_as_any_other() {
    let mut b = image(DEFAULT_FEATURES);
    for id in 1..=300 {
        assert_eq!(snapshot(&mut b, &format!("snap{id}"), id), nothing());
    }
    let pairs = encoded(|e| {
        e.u32(3000);
        for n in 0..3000 {
            e.string(&format!("key{n}"));
            e.string("value");
        }
    });
    assert_eq!(b.call("rbd", "metadata_set", pairs), nothing());
    let methods = ["snapshot_get", "parent_overlap_get", "get_flags", "get_protection_status"];
    let asked: Vec<_> = (1..=300).flat_map(|id| methods.map(|method| call("rbd", method, numbers(&[id])))).collect();
    let outcome = b.run(&asked).expect("no more calls than allowed");
    assert_eq!((outcome.result, outcome.ops.len(), b.asked), (0, 1200, 1));
    let last = outcome.ops[1196].item.payload.clone();
    assert_eq!(b.call("rbd", "snapshot_get", numbers(&[300])), Ok(last));
    let too_many = vec![asked[0].clone(); CALLS_PER_REQUEST_MAX + 1];
    assert_eq!(b.run(&too_many).err(), Some(Errno::EINVAL));
}

fn parent(image: &str) -> Bytes {
    enveloped(|e| {
        e.i64(2);
        e.string("");
        e.string(image);
        e.u64(4);
    })
}

#[test]
fn a_parent_stays_as_long_as_a_snapshot_shows_it() {
    for (features, kept) in [(DEFAULT_FEATURES, false), (DEFAULT_FEATURES & !DEEP_FLATTEN, true)] {
        let mut b = image(features);
        let attach = [parent("p"), numbers(&[99 << 20])].concat();
        assert_eq!(b.call("rbd", "parent_attach", attach.clone()), nothing());
        assert_eq!(b.call("rbd", "parent_attach", attach), no(Errno::EEXIST));
        let overlap = |n: Option<u64>| Ok(n.to_bytes());
        assert_eq!(b.call("rbd", "parent_overlap_get", numbers(&[HEAD])), overlap(Some(8 << 20)));
        assert_eq!(snapshot(&mut b, "one", 5), nothing());
        assert_eq!(b.call("rbd", "set_size", numbers(&[1 << 20])), nothing());
        assert_eq!(b.call("rbd", "parent_overlap_get", numbers(&[HEAD])), overlap(Some(1 << 20)));
        assert_eq!(b.call("rbd", "parent_overlap_get", numbers(&[5])), overlap(Some(8 << 20)));
        assert_eq!(b.call("rbd", "parent_detach", ""), nothing());
        let shown = b.call("rbd", "parent_get", "").expect("an image");
        assert_eq!(shown == parent("p"), kept);
        assert_eq!(b.call("rbd", "snapshot_remove", numbers(&[5])), nothing());
        assert_ne!(b.call("rbd", "parent_get", ""), Ok(parent("p")));
    }
}

#[test]
fn a_snapshot_with_children_stays() {
    let mut b = image(DEFAULT_FEATURES);
    snapshot(&mut b, "base", 4).expect("new");
    let child = |name: &str| {
        encoded(|e| {
            e.u64(4);
            e.versioned(2, 1, |e| {
                e.i64(3);
                e.string(name);
                e.string("");
            });
        })
    };
    assert_eq!(b.call("rbd", "child_attach", child("a")), nothing());
    assert_eq!(b.call("rbd", "child_attach", child("a")), no(Errno::EEXIST));
    assert_eq!(b.call("rbd", "snapshot_remove", numbers(&[4])), no(Errno::EBUSY));
    assert_eq!(op_features(&mut b), numbers(&[1]));
    assert_eq!(b.call("rbd", "child_detach", child("b")), no(Errno::ENOENT));
    assert_eq!(b.call("rbd", "child_detach", child("a")), nothing());
    assert_eq!(op_features(&mut b), numbers(&[0]));
    assert_eq!(b.call("rbd", "snapshot_remove", numbers(&[4])), nothing());
}

#[test]
fn a_directory_finds_names_by_ids_and_ids_by_names() {
    let mut b = Bench::new();
    let texts = |texts: &[&str]| encoded(|e| texts.iter().for_each(|t| e.string(t)));
    assert_eq!(b.call("rbd", "dir_add_image", texts(&["one", "1a"])), nothing());
    assert_eq!(b.call("rbd", "dir_add_image", texts(&["one", "2b"])), no(Errno::EEXIST));
    assert_eq!(b.call("rbd", "dir_add_image", texts(&["two", "1a"])), no(Errno::EBADF));
    assert_eq!(b.call("rbd", "dir_rename_image", texts(&["one", "uno", "1a"])), nothing());
    assert_eq!(b.call("rbd", "dir_get_id", text("uno")), Ok(text("1a")));
    assert_eq!(b.call("rbd", "dir_get_name", text("1a")), Ok(text("uno")));
    assert_eq!(b.call("rbd", "dir_remove_image", texts(&["one", "1a"])), no(Errno::ENOENT));
    let list = [text(""), numbers(&[10])].concat();
    assert_eq!(b.call("rbd", "dir_list", list), Ok([&1u32.to_le_bytes()[..], &texts(&["uno", "1a"])].concat().into()));
}

/// Each look into the directory runs the method again from its beginning: with pages of one size, thousands of images
/// took as many pages, squared.
#[test]
fn a_long_listing_looks_into_the_map_a_few_times() {
    let mut b = Bench::new();
    let names: BTreeMap<Bytes, Bytes> = (0..5000).map(|n| (text_of(&format!("name_{n:04}")), text("1a"))).collect();
    b.run(&[OsdOpItem::new(OpCode::OMAPSETVALS).with_payload(names.to_bytes())]).expect("one op");
    let mut list = |after: &str, max: u64| {
        let found = b.call("rbd", "dir_list", [text(after), numbers(&[max])].concat()).expect("a directory");
        let found: BTreeMap<Bytes, Bytes> = Decoder::shared(&found).get().expect("names and ids");
        (found.len(), found.keys().next_back().cloned(), b.asked)
    };
    assert_eq!(list("", u64::MAX), (5000, Some(text_of("4999")), 4), "512, 1024, 2048 and the rest");
    assert_eq!(list("0099", 100), (100, Some(text_of("0199")), 1));
    assert_eq!(list("4999", 100), (0, None, 1));
}

/// What is said of each image was looked for by itself: the square of their number, and E2BIG with 128 images.
#[test]
fn what_mirrors_say_of_many_images_is_read_at_once() {
    let mut b = Bench::new();
    for n in 0..300 {
        let image = encoded(|e| {
            e.string(&format!("{n:03}"));
            e.versioned(2, 1, |e| {
                e.string(&format!("global{n:03}"));
                e.u8(1);
                e.u8(0);
            });
        });
        assert_eq!(b.call("rbd", "mirror_image_set", image), nothing());
    }
    let says = encoded(|e| {
        e.string("global007");
        e.versioned(2, 1, |e| {
            e.string("site");
            e.u8(4);
            e.string("replaying");
            e.u64(0);
            e.bool(true);
        });
    });
    assert_eq!(b.call("rbd", "mirror_image_status_set", says), nothing());
    let unknown: BTreeMap<u8, i32> = [(0, 300)].into();
    assert_eq!(b.call("rbd", "mirror_image_status_get_summary", ""), Ok(unknown.to_bytes()));
    assert_eq!(b.asked, 2);
    let list =
        |b: &mut Bench, max: u64| b.call("rbd", "mirror_image_status_list", [text(""), numbers(&[max])].concat());
    let (few, all) = (list(&mut b, 8).expect("images"), list(&mut b, 300).expect("images"));
    assert_eq!(b.asked, 2);
    let status = b.call("rbd", "mirror_image_status_get", text("global007")).expect("one site's");
    for listed in [few, all] {
        assert!(listed.ends_with(&[&1u32.to_le_bytes(), &text("007")[..], &status].concat()));
    }
    assert_eq!(b.call("rbd", "mirror_image_instance_list", [text(""), numbers(&[300])].concat()), Ok(0u32.to_bytes()));
    assert_eq!(b.asked, 2);
}

#[test]
fn object_maps_change_block_by_block() {
    let mut b = Bench::new();
    let count = 40_000u64;
    let resize = |count: u64, state: u8| (count, state).to_bytes();
    let update = |start: u64, end: u64, state: u8| (numbers(&[start, end]), state, Option::<u8>::None);
    let change = |b: &mut Bench, start: u64, end: u64, state: u8| {
        let (range, state, only) = update(start, end, state);
        b.call("rbd", "object_map_update", [range, state.to_bytes(), only.to_bytes()].concat())
    };
    assert_eq!(b.call("rbd", "object_map_resize", resize(count, 0)), nothing());
    assert_eq!(change(&mut b, 16_380, 16_390, 1), nothing(), "across two blocks");
    assert_eq!(change(&mut b, count - 1, count, 2), nothing());
    assert_eq!(change(&mut b, count - 1, count + 1, 2), no(Errno::ERANGE));
    assert_eq!(b.call("rbd", "object_map_snap_add", ""), nothing());
    let map = b.call("rbd", "object_map_load", "").expect("checksums fit");
    let mut d = Decoder::shared(&map);
    d.blob().expect("a header");
    let data = d.peek();
    let state = |at: u64| data[(at / 4) as usize] >> (6 - at % 4 * 2) & 3;
    assert_eq!([16_379, 16_380, 16_389, 16_390, count - 1].map(state), [0, 3, 3, 0, 2]);
    assert_eq!(b.call("rbd", "object_map_resize", resize(9, 0)), no(Errno::ESTALE));
    assert_eq!(b.call("rbd", "object_map_resize", resize(count - 1, 2)), nothing());
}

#[test]
fn inputs_that_cannot_be_read_are_refused_everywhere() {
    let mut b = image(DEFAULT_FEATURES);
    for method in ["set_size", "snapshot_add", "parent_attach", "child_attach", "dir_add_image", "object_map_save"] {
        assert_eq!(b.call("rbd", method, "\u{1}"), no(Errno::EINVAL), "{method}");
    }
}
