//! Listing a PG's objects for clients.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_pg_op`): a cursor is an object, the answer carries the next one,
//! and result 1 with the start of the next PG's range (of old: the end of everything) says that this PG has no more.
//! With a filter, each object of a page that the filter wants to see is read by itself, and a page may be short, or
//! empty, though more follow: a request looks at no more objects than it may return.
//!
//! Read next: `listing_filter`.

use super::client_io::ClientRequest;
use super::listing_filter::Filter;
use super::scrub::found::Question;
use super::{Pg, PgRead};
use crate::core::Core;
use crate::limits::{LIST_NAMES_MAX, PG_WAITING_MAX};
use crate::ops::bare_outcomes;
use crate::ops::state::{INFO_ATTR, ObjectInfo};
use crate::reply;
use base::{EVersion, Errno, PgId, SnapId};
use bytes::Bytes;
use std::collections::VecDeque;
use store::{AttrsWant, ListWant, ObjectId, ObjectView, ObjectWant, ReadRequest, ReadWhat};
use wire::osd::payload::{ListEntry, ListReply, OldListReply, list_cursor};
use wire::osd::{HObject, OpCode, OpParams, OsdOpItem};
use wire::{Decode, Decoder, Encode};

/// Names all namespaces (`CEPH_ALL_NSPACES`).
const ALL_NAMESPACES: &[u8] = b"\x01";
/// Where cache tiers keep what they know of their objects' use (`osd_hit_set_namespace`); not listed.
const HIT_SET_NAMESPACE: &[u8] = b".ceph-internal";

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    request: Box<ClientRequest>,
    /// As clients before 2014 ask: of one namespace, answered without them.
    old: bool,
    filter: Option<Filter>,
    entries: Vec<ListEntry>,
    max: usize,
    /// Objects whose attribute the filter has to see, the one that is being read first.
    unseen: VecDeque<ObjectId>,
    /// Where to go on after those; none at the end.
    next: Option<ObjectId>,
}

impl Pg {
    /// Takes a request that concerns the PG as a whole.
    pub(super) fn start_listing(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        if !self.missing.is_empty() && self.recovery.listings.len() < PG_WAITING_MAX {
            // What is missing may be there or not.
            return self.recovery.listings.push_back(request);
        }
        let answered = match request.message.ops.as_slice() {
            [item] => match item.op {
                OpCode::PGNLS | OpCode::PGNLS_FILTER | OpCode::PGLS | OpCode::PGLS_FILTER => {
                    match self.plan_listing(core, &request, item) {
                        Ok((filter, from, max)) => {
                            let old = item.op == OpCode::PGLS || item.op == OpCode::PGLS_FILTER;
                            let (entries, unseen, next) = (Vec::new(), VecDeque::new(), None);
                            let listing = Listing { request, old, filter, entries, max, unseen, next };
                            return self.list(core, Box::new(listing), from);
                        }
                        Err(errno) => Err(errno),
                    }
                }
                OpCode::SCRUBLS => self.inconsistencies(item),
                // Nobody counts what is used here: an empty list of sets, and none of them.
                OpCode::PG_HITSET_LS => Ok(0u32.to_bytes()),
                OpCode::PG_HITSET_GET => Err(Errno::ENOENT),
                _ => Err(Errno::EINVAL),
            },
            _ => Err(Errno::EINVAL),
        };
        match answered {
            Ok(output) => self.answer_pg_op(core, &request, 0, output),
            Err(errno) => reply::error(core, &request, errno, EVersion::default(), 0),
        }
        core.sessions.release(request.bytes);
    }

    /// What is wanted, from where on, and how many at most.
    fn plan_listing(
        &self,
        core: &Core,
        request: &ClientRequest,
        item: &OsdOpItem,
    ) -> Result<(Option<Filter>, Option<ObjectId>, usize), Errno> {
        let (mut filter, mut payload) = (None, item.payload.clone());
        if matches!(item.op, OpCode::PGNLS_FILTER | OpCode::PGLS_FILTER) {
            let mut d = Decoder::shared(&item.payload);
            filter = Some(Filter::read(&mut d)?);
            let rest = d.remaining();
            payload = item.payload.slice(item.payload.len() - rest..);
        }
        let OpParams::List { count, .. } = item.params() else { return Err(Errno::EINVAL) };
        let cursor = list_cursor(&payload).map_err(|_| Errno::EINVAL)?;
        let longest = usize::from(u16::MAX);
        if request.message.snap != SnapId::HEAD
            || count == 0
            || cursor.nspace.len() > longest
            || cursor.key.len() > longest
        {
            return Err(Errno::EINVAL);
        }
        let beyond = !cursor.max && cursor >= range_end(self.id, self.pg_num(core));
        if beyond || !cursor.is_min() && cursor < HObject::pg_start(self.id.pool, self.id.seed) {
            return Err(Errno::EINVAL);
        }
        let from = if cursor.max {
            // Past every object: nothing can follow.
            Some(ObjectId::new(u32::MAX, b"\xff", b"", b"", SnapId(u64::MAX)))
        } else {
            let from = ObjectId::new(cursor.hash, &cursor.nspace, &cursor.key, &cursor.name, cursor.snap);
            (!cursor.is_min()).then_some(from)
        };
        Ok((filter, from, count.min(LIST_NAMES_MAX) as usize))
    }

    /// What scrubs have found: nothing is known of a PG that was not scrubbed in this interval. A client that began to ask
    /// in another one has to begin again (`do_scrub_ls`).
    fn inconsistencies(&self, item: &OsdOpItem) -> Result<Bytes, Errno> {
        let question = Question::from_bytes(&item.payload).map_err(|_| Errno::EINVAL)?;
        if question.interval != 0 && question.interval != self.since.0 {
            return Err(Errno::EAGAIN);
        }
        let findings = self.scrubbing.findings.as_ref().ok_or(Errno::ENOENT)?;
        Ok(findings.answer(&question, self.since.0, self.id))
    }

    fn list(&mut self, core: &mut Core, listing: Box<Listing>, from: Option<ObjectId>) {
        let attr = Some(INFO_ATTR);
        let what = ReadWhat::List(ListWant { from, max: listing.max - listing.entries.len(), attr });
        core.read(self.id, PgRead::Listing(listing), ReadRequest { collection: self.collection(), what });
    }

    /// The store has listed a part.
    pub(super) fn listing_read(
        &mut self,
        core: &mut Core,
        mut listing: Box<Listing>,
        found: Vec<store::ListEntry>,
        next: Option<ObjectId>,
    ) {
        if listing.request.interval != self.since || !self.is_active() {
            return self.restart_listing(core, listing.request);
        }
        listing.next = next;
        for entry in found {
            if listing.concerns(&entry.id) && is_there(entry.attr.as_ref()) {
                listing.see(entry.id);
            }
        }
        self.go_on_listing(core, listing);
    }

    /// The store has shown an object that the filter has to see.
    pub(super) fn listing_object_read(&mut self, core: &mut Core, mut listing: Box<Listing>, view: &ObjectView) {
        if listing.request.interval != self.since || !self.is_active() {
            return self.restart_listing(core, listing.request);
        }
        if let (Some(id), Some(filter)) = (listing.unseen.pop_front(), &listing.filter) {
            let found = filter.wants().and_then(|name| view.attr(&name));
            // One that was removed since is not there.
            if view.exists && filter.admits(id.name(), found) {
                listing.take(&id);
            }
        }
        self.go_on_listing(core, listing);
    }

    fn go_on_listing(&mut self, core: &mut Core, mut listing: Box<Listing>) {
        let wanted = listing.filter.as_ref().and_then(Filter::wants);
        if let (Some(id), Some(attr)) = (listing.unseen.front().cloned(), wanted) {
            let want = ObjectWant { attrs: AttrsWant::Named(vec![attr]), ..ObjectWant::default() };
            let what = ReadWhat::Object(id, want);
            core.read(self.id, PgRead::Listing(listing), ReadRequest { collection: self.collection(), what });
            return;
        }
        let (full, filtered) = (listing.entries.len() >= listing.max, listing.filter.is_some());
        let enough = |next: &ObjectId| full || filtered && next.is_clients();
        match listing.next.take() {
            // The PG's own records, which come first, are no places for a cursor.
            Some(next) if !enough(&next) => self.list(core, listing, Some(next)),
            next => self.answer_listing(core, *listing, next),
        }
    }

    /// The store could not tell.
    pub(super) fn listing_failed(&mut self, core: &mut Core, listing: Listing) {
        reply::error(core, &listing.request, Errno::EIO, EVersion::default(), 0);
        core.sessions.release(listing.request.bytes);
    }

    fn restart_listing(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        if self.is_primary() {
            self.handle_request(core, request);
        } else {
            crate::requests::leave_to_client(core, &request);
        }
    }

    fn answer_listing(&mut self, core: &mut Core, listing: Listing, next: Option<ObjectId>) {
        let (handle, result) = match next {
            Some(next) => (hobject(&next, self.id), 0),
            None if listing.old => (HObject::MAX, 1),
            None => (range_end(self.id, self.pg_num(core)), 1),
        };
        let output = if listing.old {
            let entries = listing.entries.into_iter().map(|entry| (entry.name, entry.locator)).collect();
            OldListReply { handle, entries }.to_bytes()
        } else {
            ListReply { handle, entries: listing.entries }.to_bytes()
        };
        self.answer_pg_op(core, &listing.request, result, output);
        core.sessions.release(listing.request.bytes);
    }

    fn answer_pg_op(&mut self, core: &mut Core, request: &ClientRequest, result: i32, output: Bytes) {
        let mut outcomes = bare_outcomes(&request.message.ops);
        outcomes[0].item.payload = output;
        reply::done(core, request, result, outcomes, self.info.last_update, self.info.last_user_version);
        self.counters.reads += 1;
    }

    fn pg_num(&self, core: &Core) -> u32 {
        core.map.pool(self.id.pool).map_or(1, |pool| pool.pg_num)
    }
}

impl Listing {
    /// The request that asks.
    pub fn into_request(self) -> Box<ClientRequest> {
        self.request
    }

    /// Whether an object may be among those that are asked for, by its name.
    fn concerns(&self, id: &ObjectId) -> bool {
        let namespace = self.request.message.locator.nspace.as_ref();
        let asked = if self.old {
            id.namespace() == namespace
        } else {
            id.namespace() != HIT_SET_NAMESPACE && (namespace == ALL_NAMESPACES || id.namespace() == namespace)
        };
        asked && id.is_clients() && id.snap() == SnapId::HEAD
    }

    /// Takes an object, or leaves that to what the filter says when it has seen it.
    fn see(&mut self, id: ObjectId) {
        match &self.filter {
            Some(filter) if filter.wants().is_some() => self.unseen.push_back(id),
            Some(filter) if !filter.admits(id.name(), None) => {}
            _ => self.take(&id),
        }
    }

    fn take(&mut self, id: &ObjectId) {
        let copy = Bytes::copy_from_slice;
        let (nspace, name, locator) = (copy(id.namespace()), copy(id.name()), copy(id.key()));
        self.entries.push(ListEntry { nspace, name, locator });
    }
}

/// Whether an object with this record exists: one that cannot be read is there, and shows when it is.
fn is_there(record: Option<&Bytes>) -> bool {
    !matches!(record.map(ObjectInfo::from_bytes), Some(Ok(info)) if info.whiteout)
}

/// An object as clients name it.
pub(super) fn hobject(id: &ObjectId, pg: PgId) -> HObject {
    let copy = |bytes: &[u8]| bytes::Bytes::copy_from_slice(bytes);
    HObject {
        key: copy(id.key()),
        name: copy(id.name()),
        snap: id.snap(),
        hash: id.hash(),
        max: false,
        nspace: copy(id.namespace()),
        pool: pg.pool,
    }
}

/// The first place after a PG's range of hashes, of `pg_num` PGs (`pg_t::get_hobj_end`).
pub fn range_end(pg: PgId, pg_num: u32) -> HObject {
    let start = u64::from(pg.seed.reverse_bits());
    let end = (start | (0xFFFF_FFFF_u64 >> split_bits(pg.seed, pg_num))) + 1;
    match u32::try_from(end) {
        Ok(end) => HObject { hash: end.reverse_bits(), pool: pg.pool, snap: SnapId::HEAD, ..HObject::MIN },
        Err(_) => HObject::MAX,
    }
}

/// How many low bits of a hash decide for this PG (`pg_t::get_split_bits`).
fn split_bits(seed: u32, pg_num: u32) -> u32 {
    if pg_num <= 1 {
        return 0;
    }
    let bits = u32::BITS - pg_num.leading_zeros();
    let half = 1 << (bits - 1);
    if seed % half < pg_num % half { bits } else { bits - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PoolId;

    #[test]
    fn ranges_of_all_pgs_tile_the_hashes() {
        for pg_num in [1u32, 2, 3, 8, 12, 100] {
            let mut starts: Vec<u64> = (0..pg_num).map(|seed| u64::from(seed.reverse_bits())).collect();
            starts.sort_unstable();
            starts.push(1 << 32);
            for seed in 0..pg_num {
                let start = u64::from(seed.reverse_bits());
                let at = starts.binary_search(&start).expect("it is one of them");
                let end = range_end(PgId::new(PoolId(1), seed), pg_num);
                let end = if end.max { 1 << 32 } else { u64::from(end.bitwise_key()) };
                assert_eq!(end, starts[at + 1], "{seed} of {pg_num}");
            }
        }
    }
}
