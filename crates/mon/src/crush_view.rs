//! Questions to the CRUSH tree that several commands and rules ask.
//!
//! Owns walks only; changes are in `commands::crush_edit`. Shadow buckets of device classes are never part of an
//! answer. Walks are bounded by the number of buckets, so that a loop in a foreign map ends them.

use base::OsdId;
use crush::CrushMap;
use std::collections::BTreeSet;

/// The bucket directly above an item, outside the shadow trees.
pub(crate) fn parent(crush: &CrushMap, item: i32) -> Option<i32> {
    let above = crush.buckets().find(|b| !crush.is_shadow(b.id()) && b.position(item).is_some());
    above.map(|b| b.id())
}

/// Type and name of every bucket above an item, the nearest first (`CrushWrapper::get_full_location_ordered`).
pub(crate) fn full_location(crush: &CrushMap, item: i32) -> Vec<(String, String)> {
    let mut location = Vec::new();
    let mut at = item;
    for _ in 0..=crush.max_buckets() {
        let Some(above) = parent(crush, at) else { break };
        let kind = crush.bucket(above).and_then(|b| crush.type_name(i32::from(b.kind()))).unwrap_or_default();
        let name = crush.item_name(above).unwrap_or_default();
        location.push((kind.to_owned(), name.to_owned()));
        at = above;
    }
    location
}

/// The same as one text from the root down: `root=default,host=a`.
pub(crate) fn location_text(crush: &CrushMap, item: i32) -> String {
    let location = full_location(crush, item);
    let parts: Vec<String> = location.iter().rev().map(|(kind, name)| format!("{kind}={name}")).collect();
    parts.join(",")
}

/// The nearest bucket above an item that is of the named type.
pub(crate) fn ancestor_of_type(crush: &CrushMap, item: i32, kind: &str) -> Option<i32> {
    let wanted = crush.type_id(kind)?;
    let mut at = item;
    for _ in 0..=crush.max_buckets() {
        at = parent(crush, at)?;
        if crush.bucket(at).is_some_and(|b| i32::from(b.kind()) == wanted) {
            return Some(at);
        }
    }
    None
}

/// The OSDs below a bucket, or the OSD itself.
pub(crate) fn osds_below(crush: &CrushMap, item: i32) -> BTreeSet<OsdId> {
    crush.devices_below(item).into_iter().map(OsdId).collect()
}

/// The roots: buckets in no other bucket, shadow trees left out, in order of id.
pub(crate) fn roots(crush: &CrushMap) -> Vec<i32> {
    let mut roots: Vec<i32> =
        (crush.buckets().map(|b| b.id())).filter(|id| !crush.is_shadow(*id) && parent(crush, *id).is_none()).collect();
    roots.sort_unstable();
    roots
}

/// A weight of 16.16 fixed point as a number.
pub(crate) fn weight(fixed: u32) -> f64 {
    f64::from(fixed) / 65536.0
}
