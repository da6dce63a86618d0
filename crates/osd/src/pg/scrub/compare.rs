//! Comparing the copies of a range: which objects differ, which copy is right, and what is wrong with the others.
//!
//! Owns the rules; reads nothing, changes nothing. Which errors there are and how they are counted follows Ceph v16.2
//! `src/osd/PGBackend.cc` (`be_select_auth_object`, `be_compare_scrub_objects`, `be_compare_scrubmaps`) and
//! `src/osd/PrimaryLogPG.cc` (`scrub_snapshot_metadata`). The right copy is chosen otherwise: of the newest readable
//! ones what most members have, and only then what the primary has.

use super::found::{FoundObject, FoundShard, FoundSnapshots, object_error, shard_error, snapset_error};
use super::shown::{Shown, ShownObjects};
use crate::ops::clones::Clones;
use crate::ops::state::ObjectInfo;
use base::{Bug, OsdId, SnapId};
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectId;
use wire::Decode;

/// What a comparison came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// Objects whose copies are not all right.
    pub objects: Vec<FoundObject>,
    /// Objects whose clones are not what their heads say.
    pub snapshots: Vec<FoundSnapshots>,
    /// Errors that are seen without reading data.
    pub shallow_errors: u64,
    /// The others.
    pub deep_errors: u64,
    /// A line for each error, for the cluster log.
    pub lines: Vec<String>,
}

impl Compared {
    /// Counts an object's, or a copy's, errors as one; none counts as none.
    fn count(&mut self, errors: u64, deep: u64) {
        self.deep_errors += u64::from(errors & deep != 0);
        self.shallow_errors += u64::from(errors != 0 && errors & deep == 0);
    }
}

/// Compares what members show of a range.
pub fn compare(maps: &BTreeMap<OsdId, ShownObjects>, primary: OsdId) -> Compared {
    let mut compared = Compared::default();
    let ids: BTreeSet<&ObjectId> = maps.values().flat_map(BTreeMap::keys).collect();
    let mut right: BTreeMap<&ObjectId, (&Shown, ObjectInfo)> = BTreeMap::new();
    for id in ids {
        let copies: BTreeMap<OsdId, Option<&Shown>> = maps.iter().map(|(osd, map)| (*osd, map.get(id))).collect();
        if let Some(found) = compare_object(id, &copies, primary, &mut right, &mut compared) {
            compared.objects.push(found);
        }
    }
    for found in &mut compared.objects {
        let head = right.get(&found.object.with_snap(SnapId::HEAD));
        found.head_version = head.map(|(_, info)| info.version);
    }
    compare_snapshots(&right, &mut compared);
    compared
}

/// What is wrong with a copy by itself.
fn own_errors(shown: &Shown) -> u64 {
    let mut errors = 0;
    if shown.stat_error {
        return shard_error::STAT_ERROR;
    }
    if shown.read_error {
        errors |= shard_error::READ_ERROR;
    }
    match shown.record.as_ref().map(ObjectInfo::from_bytes) {
        None => errors | shard_error::INFO_MISSING,
        Some(Err(_)) => errors | shard_error::INFO_CORRUPTED,
        Some(Ok(_)) => errors,
    }
}

/// The copy to go by: of those without errors the newest, of these what most have, of these the primary's.
fn authority<'a>(
    copies: &BTreeMap<OsdId, Option<&'a Shown>>,
    primary: OsdId,
) -> Option<(OsdId, &'a Shown, ObjectInfo)> {
    let good = copies.iter().filter_map(|(osd, shown)| Some((*osd, (*shown)?)));
    let trusted = |osd: &OsdId| Bug::RepairByPrimary.is_planted() && *osd == primary;
    let good = good.filter(|(osd, shown)| own_errors(shown) == 0 || trusted(osd));
    let good: Vec<_> = good
        .filter_map(|(osd, shown)| Some((osd, shown, ObjectInfo::from_bytes(shown.record.as_ref()?).ok()?)))
        .collect();
    let newest = good.iter().map(|(_, _, info)| info.version).max()?;
    let like = |shown: &Shown| good.iter().filter(|(_, other, _)| *other == shown).count();
    let rank = |(osd, shown, _): &&(OsdId, &Shown, ObjectInfo)| {
        (trusted(osd), like(shown), *osd == primary, core::cmp::Reverse(*osd))
    };
    good.iter().filter(|(_, _, info)| info.version == newest).max_by_key(rank).cloned()
}

/// How a copy differs from the one to go by.
fn differences(right: &Shown, other: &Shown) -> (u64, Vec<&'static str>) {
    let differs = |a: Option<u32>, b: Option<u32>| a.is_some() && b.is_some() && a != b;
    let clones = |shown: &Shown| {
        shown.record.as_ref().and_then(|record| ObjectInfo::from_bytes(record).ok()).and_then(|info| info.clones)
    };
    let names = |shown: &Shown| shown.attrs.keys().cloned().collect::<Vec<_>>();
    let common = right.attrs.iter().filter_map(|(name, attr)| Some((attr, other.attrs.get(name)?)));
    let table = [
        (differs(right.data_digest, other.data_digest), object_error::DATA_DIGEST_MISMATCH, "data_digest"),
        (differs(right.omap_digest, other.omap_digest), object_error::OMAP_DIGEST_MISMATCH, "omap_digest"),
        (
            right.record != other.record || right.has_omap != other.has_omap,
            object_error::OBJECT_INFO_INCONSISTENCY,
            "object info",
        ),
        (clones(right) != clones(other), object_error::SNAPSET_INCONSISTENCY, "snapset"),
        (right.size != other.size, object_error::SIZE_MISMATCH, "size"),
        (names(right) != names(other), object_error::ATTR_NAME_MISMATCH, "attr name"),
        ({ common }.any(|(a, b)| a != b), object_error::ATTR_VALUE_MISMATCH, "attr value"),
    ];
    let found = table.into_iter().filter(|(is, ..)| *is);
    found.fold((0, Vec::new()), |(errors, mut words), (_, error, word)| {
        words.push(word);
        (errors | error, words)
    })
}

/// Compares the copies of one life of an object.
fn compare_object<'a>(
    id: &'a ObjectId,
    copies: &BTreeMap<OsdId, Option<&'a Shown>>,
    primary: OsdId,
    right: &mut BTreeMap<&'a ObjectId, (&'a Shown, ObjectInfo)>,
    compared: &mut Compared,
) -> Option<FoundObject> {
    let authority = authority(copies, primary);
    let mut found = FoundObject {
        object: id.clone(),
        user_version: authority.as_ref().map_or(0, |(_, _, info)| info.user_version),
        version: authority.as_ref().map(|(_, _, info)| info.version),
        ..FoundObject::default()
    };
    for (osd, shown) in copies {
        let mut shard = FoundShard { primary: *osd == primary, shown: shown.cloned(), ..FoundShard::default() };
        shard.errors = shown.map_or(shard_error::MISSING, own_errors);
        shard.selected = authority.as_ref().is_some_and(|(by, ..)| by == osd);
        let mut differs = Vec::new();
        if let (Some((_, auth, _)), Some(shown)) = (&authority, shown)
            && !shown.stat_error
        {
            let (errors, words) = differences(auth, shown);
            // Of what could not be read nobody knows whether it differs.
            let comparable = if shown.read_error { !object_error::DEEP } else { !0 };
            found.errors |= errors & comparable;
            differs = words;
        }
        compared.count(shard.errors, shard_error::DEEP);
        if shard.errors != 0 || !differs.is_empty() {
            found.bad.insert(*osd);
            let what = shard_error::words(shard.errors).into_iter().map(str::to_owned);
            let what: Vec<String> = what.chain(differs.iter().map(|word| format!("{word} mismatch"))).collect();
            compared.lines.push(format!("shard {osd} soid {{pool}}:{id:?} : {}", what.join(", ")));
        }
        found.shards.insert(*osd, shard);
    }
    match authority {
        Some((_, shown, info)) => drop(right.insert(id, (shown, info))),
        None => compared.lines.push(format!("soid {{pool}}:{id:?} : failed to pick suitable object info")),
    }
    compared.count(found.errors, object_error::DEEP);
    let wrong = found.errors != 0 || !found.bad.is_empty();
    wrong.then_some(found)
}

/// Compares heads with their clones, as the right copies have them.
fn compare_snapshots(right: &BTreeMap<&ObjectId, (&Shown, ObjectInfo)>, compared: &mut Compared) {
    let mut clones_of: BTreeMap<ObjectId, BTreeMap<SnapId, u64>> = BTreeMap::new();
    for (id, (shown, _)) in right.iter().filter(|(id, _)| id.snap() != SnapId::HEAD) {
        clones_of.entry(id.with_snap(SnapId::HEAD)).or_default().insert(id.snap(), shown.size);
    }
    for (id, (_, info)) in right.iter().filter(|(id, _)| id.snap() == SnapId::HEAD) {
        let there = clones_of.remove(*id).unwrap_or_default();
        let said = info.clones.as_deref().cloned().unwrap_or_default();
        compare_clones(id, &said, &there, compared);
    }
    for (head, clones) in clones_of {
        for snap in clones.keys() {
            let object = head.with_snap(*snap);
            compared.lines.push(format!("{{pool}}:{object:?} : no head"));
            compared.shallow_errors += 1;
            let errors = snapset_error::HEADLESS;
            compared.snapshots.push(FoundSnapshots { object, errors, ..FoundSnapshots::default() });
        }
    }
}

fn compare_clones(head: &ObjectId, said: &Clones, there: &BTreeMap<SnapId, u64>, compared: &mut Compared) {
    let mut found = FoundSnapshots { object: head.clone(), clones: Some(said.clone()), ..FoundSnapshots::default() };
    for clone in &said.list {
        match there.get(&clone.id) {
            None => found.missing.push(clone.id),
            Some(size) if *size != clone.size => {
                let object = head.with_snap(clone.id);
                compared.lines.push(format!("{{pool}}:{object:?} : size {size} != clone_size {}", clone.size));
                compared.shallow_errors += 1;
                let errors = snapset_error::SIZE_MISMATCH;
                compared.snapshots.push(FoundSnapshots { object, errors, ..FoundSnapshots::default() });
            }
            Some(_) => {}
        }
    }
    found.extra = there.keys().filter(|snap| said.get(**snap).is_none()).copied().collect();
    for (snaps, error, word) in [
        (&found.missing, snapset_error::CLONE_MISSING, "missing clone(s)"),
        (&found.extra, snapset_error::EXTRA_CLONES, "clone(s) not in snapset"),
    ] {
        if !snaps.is_empty() {
            found.errors |= error;
            compared.shallow_errors += snaps.len() as u64;
            compared.lines.push(format!("{{pool}}:{head:?} : {} {word}", snaps.len()));
        }
    }
    if found.errors != 0 {
        compared.snapshots.push(found);
    }
}

#[cfg(test)]
mod tests;
