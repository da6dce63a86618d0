//! Whether all members of every placement group hold the same: objects, their clones, and the index of snapshots.

use base::{OsdId, PgId, SnapId};
use bytes::Bytes;
use maps::OsdMap;
use std::collections::BTreeSet;
use store::{
    AttrsWant, CollectionId, Extent, ListWant, ObjectId, ObjectView, ObjectWant, OmapWant, ReadRequest, ReadResult,
    ReadWhat,
};
use wire::Decode;

/// Asks an OSD's disk; none where it cannot tell.
pub(crate) type Read<'a> = &'a mut dyn FnMut(OsdId, &ReadRequest) -> Option<ReadResult>;

/// What is wrong with the copies of a PG; none where all members that should hold it hold the same and lack nothing.
pub(crate) fn difference(map: &OsdMap, pg: PgId, read: Read<'_>) -> Option<String> {
    let sets = map.pg_to_up_acting(pg);
    if sets.acting != sets.up {
        return Some(format!("pg {pg} is served by {:?}, not by {:?}", sets.acting, sets.up));
    }
    let mut first: Option<(OsdId, Vec<(ObjectId, ObjectView)>)> = None;
    for osd in sets.acting {
        let Some(held) = contents(&mut |request| read(osd, request), pg) else {
            return Some(format!("pg {pg}: osd.{osd} does not hold it"));
        };
        let lacks = |(id, view): &&(ObjectId, ObjectView)| {
            *id == ObjectId::record("missing") && view.omap.iter().any(|part| !part.entries.is_empty())
        };
        if held.iter().any(|object| lacks(&object)) {
            return Some(format!("pg {pg}: osd.{osd} lacks objects"));
        }
        let held: Vec<_> = held.into_iter().filter(|(id, _)| *id != ObjectId::record("missing")).collect();
        if let Some((clone, _)) = held.iter().find(|(id, _)| id.is_clients() && id.snap() != SnapId::HEAD) {
            return Some(format!("pg {pg}: osd.{osd} has {clone:?}, which stands for no snapshot"));
        }
        match &first {
            None => first = Some((osd, held)),
            Some((other, theirs)) if *theirs != held => {
                let only = |a: &[(ObjectId, ObjectView)], b: &[(ObjectId, ObjectView)]| {
                    a.iter().filter(|object| !b.contains(object)).cloned().collect::<Vec<_>>()
                };
                let (here, there) = (only(&held, theirs), only(theirs, &held));
                return Some(format!("pg {pg}: osd.{osd} has {here:?} where osd.{other} has {there:?}"));
            }
            Some(_) => {}
        }
    }
    None
}

/// Everything that members must have in common, and the missing set; none where the disk does not have the PG.
fn contents(read: &mut dyn FnMut(&ReadRequest) -> Option<ReadResult>, pg: PgId) -> Option<Vec<(ObjectId, ObjectView)>> {
    let collection = CollectionId::Pg(pg);
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let what = ReadWhat::List(ListWant { from, max: 1000, attr: None });
        let Some(ReadResult::List { entries, next }) = read(&ReadRequest { collection, what }) else { return None };
        ids.extend(entries.into_iter().map(|entry| entry.id));
        from = next;
        if from.is_none() {
            break;
        }
    }
    let records = [ObjectId::record("snaps"), ObjectId::record("missing")];
    ids.retain(|id| id.is_clients() || records.contains(id));
    let everything =
        OmapWant::Range { after: Bytes::new(), prefix: Bytes::new(), entries: u64::MAX, bytes: u64::MAX, values: true };
    let want = ObjectWant {
        attrs: AttrsWant::All,
        data: vec![Extent { offset: 0, len: u64::MAX }],
        omap_header: true,
        omap: vec![everything],
        ..ObjectWant::default()
    };
    let mut object = |id: ObjectId| match read(&ReadRequest {
        collection,
        what: ReadWhat::Object(id.clone(), want.clone()),
    }) {
        // A record that nothing was ever put into is as good as none.
        Some(ReadResult::Object(view)) if !id.is_clients() && view.omap.iter().all(|part| part.entries.is_empty()) => {
            None
        }
        Some(ReadResult::Object(view)) => Some((id, *view)),
        _ => None,
    };
    let there: BTreeSet<ObjectId> = ids.iter().cloned().collect();
    let mut held: Vec<(ObjectId, ObjectView)> = ids.into_iter().filter_map(&mut object).collect();
    for (_, view) in held.iter_mut().filter(|(id, _)| *id == ObjectId::record("snaps")) {
        // Entries of clones that are elsewhere since a split, or gone, stand for nothing: a new primary looks.
        let stands = |(key, _): &(Bytes, Bytes)| clone_of(key).is_some_and(|clone| there.contains(&clone));
        view.omap.iter_mut().for_each(|part| part.entries.retain(stands));
    }
    held.retain(|(id, view)| id.is_clients() || view.omap.iter().any(|part| !part.entries.is_empty()));
    Some(held)
}

/// The clone that an entry of the index of snapshots names.
fn clone_of(key: &Bytes) -> Option<ObjectId> {
    ObjectId::from_bytes(&key.get(size_of::<u64>()..).map(Bytes::copy_from_slice)?).ok()
}
