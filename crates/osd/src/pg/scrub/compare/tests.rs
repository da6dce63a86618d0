//! Copies that differ in every way that is told apart.

use super::*;
use crate::ops::clones::CloneInfo;
use base::{EVersion, Epoch};
use bytes::Bytes;
use std::sync::Arc;
use wire::Encode;

fn head(name: &str) -> ObjectId {
    ObjectId::new(1, b"", b"", name.as_bytes(), SnapId::HEAD)
}

fn info(version: u64) -> ObjectInfo {
    ObjectInfo { version: EVersion::new(Epoch(1), version), user_version: version, ..ObjectInfo::default() }
}

fn shown(info: &ObjectInfo, data: u32) -> Shown {
    Shown { size: 9, record: Some(info.to_bytes()), data_digest: Some(data), omap_digest: Some(1), ..Shown::default() }
}

/// What three members show of one object, the first of them the primary.
fn three(copies: [Option<Shown>; 3]) -> Compared {
    let map = |copy: Option<Shown>| copy.into_iter().map(|shown| (head("o"), shown)).collect();
    let maps = copies.into_iter().enumerate().map(|(at, copy)| (OsdId(at as i32), map(copy))).collect();
    compare(&maps, OsdId(0))
}

fn bad(compared: &Compared) -> Vec<i32> {
    compared.objects[0].bad.iter().map(|osd| osd.0).collect()
}

#[test]
fn equal_copies_are_right() {
    let copy = || Some(shown(&info(7), 5));
    assert_eq!(three([copy(), copy(), copy()]), Compared::default());
}

#[test]
fn what_most_have_is_right_and_the_primary_only_among_equals() {
    let (one, two) = (Some(shown(&info(7), 5)), Some(shown(&info(7), 6)));
    let compared = three([one.clone(), two.clone(), two.clone()]);
    assert_eq!((bad(&compared), compared.deep_errors, compared.shallow_errors), (vec![0], 1, 0));
    assert_eq!(compared.objects[0].errors, object_error::DATA_DIGEST_MISMATCH);
    assert!(compared.objects[0].shards[&OsdId(1)].selected);
    let compared = three([one, two, None]);
    assert_eq!((bad(&compared), compared.deep_errors, compared.shallow_errors), (vec![1, 2], 1, 1));
    assert_eq!(compared.objects[0].shards[&OsdId(2)].errors, shard_error::MISSING);
}

#[test]
fn what_cannot_be_read_is_never_right_however_many_have_it() {
    let unreadable = || Some(Shown { read_error: true, data_digest: None, omap_digest: None, ..shown(&info(7), 0) });
    let compared = three([unreadable(), unreadable(), Some(shown(&info(7), 5))]);
    assert_eq!((bad(&compared), compared.deep_errors), (vec![0, 1], 2));
    let found = &compared.objects[0];
    assert_eq!((found.errors, found.shards[&OsdId(0)].errors), (0, shard_error::READ_ERROR));
    assert_eq!((found.version, found.head_version), (Some(info(7).version), Some(info(7).version)));
    let compared = three([unreadable(), unreadable(), unreadable()]);
    assert_eq!((compared.objects[0].version, compared.deep_errors), (None, 3), "nothing to go by");
}

#[test]
fn the_newest_record_is_right_and_one_that_cannot_be_read_is_not() {
    let garbage = Shown { record: Some(Bytes::from_static(b"x")), ..shown(&info(9), 5) };
    let compared = three([Some(shown(&info(7), 5)), Some(shown(&info(8), 5)), Some(garbage)]);
    assert_eq!(bad(&compared), vec![0, 2]);
    let found = &compared.objects[0];
    assert_eq!(found.errors & object_error::OBJECT_INFO_INCONSISTENCY, object_error::OBJECT_INFO_INCONSISTENCY);
    assert_eq!(found.shards[&OsdId(2)].errors, shard_error::INFO_CORRUPTED);
}

#[test]
fn sizes_attributes_and_maps_are_told_apart() {
    let right = || shown(&info(7), 5);
    let differing = |change: &dyn Fn(&mut Shown)| {
        let mut other = right();
        change(&mut other);
        three([Some(right()), Some(right()), Some(other)]).objects[0].errors
    };
    let attr = |value: &'static [u8]| {
        let view = store::ObjectView { attrs: vec![(Bytes::from_static(b"ua"), value.into())], ..Default::default() };
        Shown::of(&view).attrs
    };
    assert_eq!(differing(&|s| s.size = 8), object_error::SIZE_MISMATCH);
    assert_eq!(differing(&|s| s.omap_digest = Some(2)), object_error::OMAP_DIGEST_MISMATCH);
    assert_eq!(differing(&|s| s.has_omap = true), object_error::OBJECT_INFO_INCONSISTENCY);
    assert_eq!(differing(&|s| s.attrs = attr(b"1")), object_error::ATTR_NAME_MISMATCH);
    let with = |value| Some(Shown { attrs: attr(value), ..right() });
    let compared = three([with(b"1"), with(b"1"), with(b"2")]);
    assert_eq!((compared.objects[0].errors, compared.shallow_errors), (object_error::ATTR_VALUE_MISMATCH, 1));
}

#[test]
fn clones_are_held_against_what_their_head_says() {
    let clone = |id, size| CloneInfo { id: SnapId(id), snaps: vec![SnapId(id)], size, overlap: Default::default() };
    let past = Clones { seq: SnapId(5), list: vec![clone(2, 9), clone(4, 8)] };
    let with_past = ObjectInfo { clones: Some(Arc::new(past)), ..info(7) };
    let mut map = ShownObjects::from([(head("o"), shown(&with_past, 5))]);
    map.insert(head("o").with_snap(SnapId(4)), shown(&info(3), 5));
    map.insert(head("o").with_snap(SnapId(5)), shown(&info(3), 5));
    map.insert(head("p").with_snap(SnapId(1)), shown(&info(2), 5));
    let compared = compare(&BTreeMap::from([(OsdId(0), map.clone()), (OsdId(1), map)]), OsdId(0));
    assert!(compared.objects.is_empty(), "the copies are equal");
    let errors: Vec<(ObjectId, u64)> = compared.snapshots.iter().map(|s| (s.object.clone(), s.errors)).collect();
    assert_eq!(
        errors,
        [
            (head("o").with_snap(SnapId(4)), snapset_error::SIZE_MISMATCH),
            (head("o"), snapset_error::CLONE_MISSING | snapset_error::EXTRA_CLONES),
            (head("p").with_snap(SnapId(1)), snapset_error::HEADLESS),
        ]
    );
    assert_eq!(
        (&compared.snapshots[1].missing[..], &compared.snapshots[1].extra[..]),
        (&[SnapId(2)][..], &[SnapId(5)][..])
    );
    assert_eq!(compared.shallow_errors, 4);
}
