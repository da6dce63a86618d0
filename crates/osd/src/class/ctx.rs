//! What a method sees of its request and its object, and how it changes the object.
//!
//! Follows Ceph v16.2 `src/objclass/class_api.cc`: everything a method does is an op within its op. Reads ask the store
//! (and the request runs again with the answer); they see the object as it was before the request, except for existence
//! and size. Changes are ops that run at once, through the functions that clients' ops use.

use super::Flags;
use crate::limits::{CLASS_PAGE_ENTRIES_MAX, CLASS_READS_MAX, OMAP_BYTES_MAX, OMAP_ENTRIES_MAX};
use crate::ops::execution::{AskOf, Caller, Circumstances, Execution, Stop};
use crate::ops::state::{USER_ATTR_PREFIX, user_attr};
use base::{Errno, Instant, Rng};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::read::OmapPart;
use store::{AttrsWant, Extent, ObjectView, ObjectWant, OmapWant};
use wire::Encode;
use wire::osd::payload::{KeySet, KeyValues};
use wire::osd::{OpCode, OpFlags, OsdOpItem};
use wire::types::{EntityAddr, EntityName, UTime};

/// The context of one call.
#[derive(Debug)]
pub(crate) struct Ctx<'x, 'r> {
    x: &'x mut Execution<'r>,
    result: i32,
    failure: Bytes,
    reads: u32,
    writes: u32,
}

/// What an object is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    /// Bytes.
    pub(crate) size: u64,
}

impl<'x, 'r> Ctx<'x, 'r> {
    pub(super) fn new(x: &'x mut Execution<'r>) -> Ctx<'x, 'r> {
        Ctx { x, result: 0, failure: Bytes::new(), reads: 0, writes: 0 }
    }

    /// What the method has done so far.
    pub(super) fn used(&self) -> Used {
        Used { reads: self.reads > 0, writes: self.writes > 0 }
    }

    /// The method's result where it succeeds, its output where it fails.
    pub(super) fn finish(self) -> (i32, Bytes) {
        (self.result, self.failure)
    }

    /// Who calls.
    pub(crate) fn caller(&self) -> Caller {
        self.x.request.circumstances.caller
    }

    /// The time.
    pub(crate) fn now(&self) -> UTime {
        self.x.request.circumstances.now.into()
    }

    /// A result above 0, in place of 0.
    pub(crate) fn set_result(&mut self, result: i32) {
        self.result = result;
    }

    /// What goes back to the client with the failure that follows.
    pub(crate) fn answer_failure(&mut self, out: Bytes) {
        self.failure = out;
    }

    /// A text that no other change of the pool gets (`cls_cxx_subop_version`): version and number of the op within.
    pub(crate) fn change_name(&self) -> String {
        format!("{}.{}", self.x.request.circumstances.last_user_version, self.x.ops_done)
    }

    /// Letters and digits that nobody can foresee well; the same in each run of the request.
    pub(crate) fn random_text(&self, len: usize) -> Bytes {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut random = self.random();
        (0..len).map(|_| LETTERS[random.below(64) as usize]).collect()
    }

    /// Sixteen bytes like `random_text`.
    pub(crate) fn random_bytes(&self) -> [u8; 16] {
        let mut random = self.random();
        let mut out = [0; 16];
        random.fill(&mut out);
        out
    }

    fn random(&self) -> Rng {
        let Circumstances { caller, now: Instant(now), last_user_version, .. } = self.x.request.circumstances;
        let parts = [caller.name.num as u64, last_user_version, u64::from(self.x.ops_done)];
        Rng::new(parts.into_iter().fold(now, |seed, part| Rng::new(seed ^ part).u64()))
    }

    fn count_read(&mut self) -> Result<(), Stop> {
        self.reads += 1;
        if self.reads > CLASS_READS_MAX { Err(Errno::E2BIG.into()) } else { Ok(()) }
    }

    /// Counts a read that needs no answer of the store.
    fn count_known(&mut self) {
        self.reads += 1;
        self.x.ops_done += 1;
    }

    fn ask(&mut self, want: ObjectWant) -> Result<&'r ObjectView, Stop> {
        self.count_read()?;
        let view = self.x.ask(AskOf::Itself, want)?;
        self.x.ops_done += 1;
        Ok(view)
    }

    fn change(&mut self, item: &OsdOpItem) -> Result<(), Stop> {
        self.writes += 1;
        self.x.step(item)?;
        self.x.ops_done += 1;
        Ok(())
    }

    /// The object's size; ENOENT if it is missing. Sees what the request has done.
    pub(crate) fn stat(&mut self) -> Result<Stat, Stop> {
        self.x.require_exists()?;
        self.x.ops_done += 1;
        Ok(Stat { size: self.x.state.size })
    }

    /// The newest snapshot that a writer of the object knew of, before this request; none if the object is missing.
    pub(crate) fn snap_seq(&self) -> Option<u64> {
        let state = &self.x.request.state;
        state.is_stored().then(|| state.info.clones.as_ref().map_or(0, |clones| clones.seq.0))
    }

    /// Who watches the object, as it was before the request.
    pub(crate) fn watchers(&self) -> BTreeSet<(EntityName, EntityAddr)> {
        let watchers = self.x.state.info.watchers.as_deref().into_iter().flatten();
        watchers.map(|(name, record)| (name.entity, record.addr)).collect()
    }

    /// Data; a length of 0 is "to the end". Shorter where the object ends.
    pub(crate) fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop> {
        let size = self.x.state.size;
        let end = if len == 0 { size } else { size.min(offset.saturating_add(len)) };
        if offset >= end {
            self.count_known();
            return Ok(Bytes::new());
        }
        let data = vec![Extent { offset, len: end - offset }];
        let view = self.ask(ObjectWant { data, ..ObjectWant::default() })?;
        Ok(view.data.first().cloned().unwrap_or_default())
    }

    /// An attribute: ENODATA if there is none, ENOENT if there is no object.
    pub(crate) fn attr(&mut self, name: &[u8]) -> Result<Bytes, Stop> {
        let full = user_attr(name);
        let attrs = AttrsWant::Named(vec![full.clone()]);
        let view = self.ask(ObjectWant { attrs, ..ObjectWant::default() })?;
        let missing = if view.exists { Errno::ENODATA } else { Errno::ENOENT };
        Ok(view.attr(&full).cloned().ok_or(missing)?)
    }

    /// All of the users' attributes. ENOENT if there is no object.
    pub(crate) fn attrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop> {
        let view = self.ask(ObjectWant { attrs: AttrsWant::All, ..ObjectWant::default() })?;
        if !view.exists {
            return Err(Errno::ENOENT.into());
        }
        let users = view.attrs.iter().filter(|(name, _)| name.first() == Some(&USER_ATTR_PREFIX));
        Ok(users.map(|(name, value)| (name.slice(1..), value.clone())).collect())
    }

    /// The map's header; empty if there is none.
    pub(crate) fn omap_header(&mut self) -> Result<Bytes, Stop> {
        Ok(self.ask(ObjectWant { omap_header: true, ..ObjectWant::default() })?.omap_header.clone())
    }

    /// An entry of the map.
    pub(crate) fn value(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        if let Some(map) = self.x.whole_map()? {
            self.count_known();
            let place = map.entries.binary_search_by(|(known, _)| known.as_ref().cmp(key));
            return Ok(place.ok().map(|place| map.entries[place].1.clone()));
        }
        let want = OmapWant::Keys(vec![Bytes::copy_from_slice(key)]);
        Ok(self.omap(want)?.entries.into_iter().next().map(|(_, value)| value))
    }

    /// Entries of the map after `after` whose keys begin with `prefix`, at most so many.
    pub(crate) fn values(&mut self, after: &Bytes, prefix: &'static [u8], max: u64) -> Result<OmapPart, Stop> {
        self.page(after, prefix, max.min(OMAP_ENTRIES_MAX), true)
    }

    /// The same for a method that goes through many, and so takes more at once than a client may have.
    pub(crate) fn many_values(&mut self, after: &Bytes, prefix: &'static [u8], max: u64) -> Result<OmapPart, Stop> {
        self.page(after, prefix, max.min(CLASS_PAGE_ENTRIES_MAX), true)
    }

    /// Says that the method is about to look for so many entries, one by one: they are read at once if that is less work.
    pub(crate) fn expect_lookups(&mut self, lookups: usize) -> Result<(), Stop> {
        if self.x.known_map().is_none() {
            self.reads += 1;
            self.x.map_for(lookups as u64)?;
        }
        Ok(())
    }

    /// Keys of the map after `after`, at most so many.
    pub(crate) fn keys(&mut self, after: &Bytes, max: u64) -> Result<OmapPart, Stop> {
        self.page(after, b"", max.min(OMAP_ENTRIES_MAX), false)
    }

    fn page(&mut self, after: &Bytes, prefix: &'static [u8], max: u64, values: bool) -> Result<OmapPart, Stop> {
        if let Some(map) = self.x.known_map() {
            self.count_known();
            return Ok(part_of(map, after, prefix, max));
        }
        let (after, prefix) = (after.clone(), Bytes::from_static(prefix));
        self.omap(OmapWant::Range { after, prefix, entries: max, bytes: OMAP_BYTES_MAX, values })
    }

    fn omap(&mut self, want: OmapWant) -> Result<OmapPart, Stop> {
        let view = self.ask(ObjectWant { omap: vec![want], ..ObjectWant::default() })?;
        Ok(view.omap.first().cloned().unwrap_or_default())
    }

    /// Creates the object; EEXIST if it is there and has to be new.
    pub(crate) fn create(&mut self, exclusive: bool) -> Result<(), Stop> {
        let flags = if exclusive { OpFlags::EXCL } else { OpFlags::default() };
        self.change(&OsdOpItem::new(OpCode::CREATE).with_flags(flags))
    }

    /// Removes the object. ENOENT if it is missing.
    pub(crate) fn remove(&mut self) -> Result<(), Stop> {
        self.change(&OsdOpItem::new(OpCode::DELETE))
    }

    /// Writes data at an offset.
    pub(crate) fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        self.change(&OsdOpItem::extent(OpCode::WRITE, offset, data.len() as u64).with_payload(data))
    }

    /// Replaces the data.
    pub(crate) fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        self.change(&OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(data))
    }

    /// Sets the size.
    pub(crate) fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        self.change(&OsdOpItem::extent(OpCode::TRUNCATE, size, 0))
    }

    /// Sets an attribute.
    pub(crate) fn set_attr(&mut self, name: &[u8], value: Bytes) -> Result<(), Stop> {
        self.change(&OsdOpItem::xattr(OpCode::SETXATTR, name, &value))
    }

    /// Sets an entry of the map.
    pub(crate) fn set_value(&mut self, key: &[u8], value: Bytes) -> Result<(), Stop> {
        self.set_values([(Bytes::copy_from_slice(key), value)].into())
    }

    /// Sets entries of the map.
    pub(crate) fn set_values(&mut self, entries: KeyValues) -> Result<(), Stop> {
        self.change(&OsdOpItem::new(OpCode::OMAPSETVALS).with_payload(entries.to_bytes()))
    }

    /// Removes an entry of the map; ENOENT if the object is missing, nothing if the entry is.
    pub(crate) fn remove_value(&mut self, key: &[u8]) -> Result<(), Stop> {
        let keys: KeySet = [Bytes::copy_from_slice(key)].into();
        self.change(&OsdOpItem::new(OpCode::OMAPRMKEYS).with_payload(keys.to_bytes()))
    }

    /// Removes the entries from the first key up to, without, the second.
    pub(crate) fn remove_range(&mut self, first: Bytes, end: Bytes) -> Result<(), Stop> {
        self.change(&OsdOpItem::new(OpCode::OMAPRMKEYRANGE).with_payload((first, end).to_bytes()))
    }

    /// Sets the map's header.
    pub(crate) fn set_omap_header(&mut self, header: Bytes) -> Result<(), Stop> {
        self.change(&OsdOpItem::new(OpCode::OMAPSETHEADER).with_payload(header))
    }
}

/// A part of a map, as the store would give it.
fn part_of(map: &OmapPart, after: &[u8], prefix: &[u8], max: u64) -> OmapPart {
    let begins = |key: &[u8]| key >= prefix && (after.is_empty() || key > after);
    let first = map.entries.partition_point(|(key, _)| !begins(key));
    let mut rest = map.entries[first..].iter().take_while(|(key, _)| key.starts_with(prefix));
    let entries = rest.by_ref().take(usize::try_from(max).unwrap_or(usize::MAX)).cloned().collect();
    OmapPart { entries, more: rest.next().is_some() }
}

/// What a call has done, against its flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Used {
    reads: bool,
    writes: bool,
}

impl Used {
    /// Whether `flags` allow it.
    pub(super) fn within(self, flags: Flags) -> bool {
        (!self.reads || flags.reads()) && (!self.writes || flags.writes())
    }
}
