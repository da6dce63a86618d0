//! Whether all members of every placement group hold the same: objects, their clones, and the index of snapshots.

use crate::disk::OsdDisk;
use base::{OsdId, PgId};
use bytes::Bytes;
use maps::OsdMap;
use store::{
    AttrsWant, CollectionId, Extent, ListWant, ObjectId, ObjectView, ObjectWant, OmapWant, ReadRequest, ReadResult,
    ReadWhat,
};

/// What is wrong with the copies of a PG; none where all members that should hold it hold the same and lack nothing.
pub(crate) fn difference<'a>(map: &OsdMap, pg: PgId, disk: impl Fn(OsdId) -> Option<&'a OsdDisk>) -> Option<String> {
    let sets = map.pg_to_up_acting(pg);
    if sets.acting != sets.up {
        return Some(format!("pg {pg} is served by {:?}, not by {:?}", sets.acting, sets.up));
    }
    let mut first: Option<(OsdId, Vec<(ObjectId, ObjectView)>)> = None;
    for osd in sets.acting {
        let Some(held) = disk(osd).and_then(|disk| contents(disk, pg)) else {
            return Some(format!("pg {pg}: osd.{osd} does not hold it"));
        };
        let lacks = |(id, view): &&(ObjectId, ObjectView)| {
            *id == ObjectId::record("missing") && view.omap.iter().any(|part| !part.entries.is_empty())
        };
        if held.iter().any(|object| lacks(&object)) {
            return Some(format!("pg {pg}: osd.{osd} lacks objects"));
        }
        let held: Vec<_> = held.into_iter().filter(|(id, _)| *id != ObjectId::record("missing")).collect();
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
fn contents(disk: &OsdDisk, pg: PgId) -> Option<Vec<(ObjectId, ObjectView)>> {
    let collection = CollectionId::Pg(pg);
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let what = ReadWhat::List(ListWant { from, max: 1000, attr: None });
        let Ok(ReadResult::List { entries, next }) = disk.read(&ReadRequest { collection, what }) else { return None };
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
    let read = |id: ObjectId| match disk
        .read(&ReadRequest { collection, what: ReadWhat::Object(id.clone(), want.clone()) })
    {
        // A record that nothing was ever put into is as good as none.
        Ok(ReadResult::Object(view)) if !id.is_clients() && view.omap.iter().all(|part| part.entries.is_empty()) => {
            None
        }
        Ok(ReadResult::Object(view)) => Some((id, *view)),
        _ => None,
    };
    Some(ids.into_iter().filter_map(read).collect())
}
