//! Listing a PG's objects for clients.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_pg_op`, PGNLS): a cursor is an object, the answer carries the next
//! one, and result 1 with the start of the next PG's range says that this PG has no more.

use super::client_io::ClientRequest;
use super::{Pg, PgRead};
use crate::core::Core;
use crate::limits::LIST_NAMES_MAX;
use crate::ops::bare_outcomes;
use crate::ops::clones::Life;
use crate::ops::state::{INFO_ATTR, ObjectInfo};
use crate::reply;
use base::{EVersion, Errno, PgId, SnapId};
use store::{ListWant, ObjectId, ReadRequest, ReadWhat};
use wire::osd::payload::{ListEntry, ListReply, list_cursor};
use wire::osd::{HObject, OpCode, OpParams, OsdOpItem};
use wire::{Decode, Decoder, Encode};

/// Names all namespaces (`CEPH_ALL_NSPACES`).
const ALL_NAMESPACES: &[u8] = b"\x01";

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    request: Box<ClientRequest>,
    entries: Vec<ListEntry>,
    max: usize,
}

impl Pg {
    /// Takes a request that concerns the PG as a whole.
    pub(super) fn start_listing(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        match self.plan_listing(core, &request) {
            Ok((from, max)) => {
                let listing = Box::new(Listing { request, entries: Vec::new(), max });
                self.list(core, listing, from);
            }
            Err(errno) => {
                reply::error(core, &request, errno, EVersion::default(), 0);
                core.sessions.release(request.bytes);
            }
        }
    }

    fn plan_listing(&self, core: &Core, request: &ClientRequest) -> Result<(Option<ObjectId>, usize), Errno> {
        let [item] = request.message.ops.as_slice() else { return Err(Errno::EINVAL) };
        if item.op == OpCode::SCRUBLS {
            return Err(self.inconsistencies(item));
        }
        if item.op != OpCode::PGNLS {
            return Err(Errno::EOPNOTSUPP);
        }
        let OpParams::List { count, .. } = item.params() else { return Err(Errno::EINVAL) };
        let cursor = list_cursor(&item.payload).map_err(|_| Errno::EINVAL)?;
        let longest = usize::from(u16::MAX);
        if count == 0 || cursor.nspace.len() > longest || cursor.key.len() > longest {
            return Err(Errno::EINVAL);
        }
        let beyond = !cursor.max && cursor >= range_end(self.id, self.pg_num(core));
        if beyond || !cursor.is_min() && cursor < HObject::pg_start(self.id.pool, self.id.seed) {
            return Err(Errno::EINVAL);
        }
        let from = ObjectId::new(cursor.hash, &cursor.nspace, &cursor.key, &cursor.name, cursor.snap);
        let from = if cursor.max {
            // Past every object: nothing can follow.
            Some(ObjectId::new(u32::MAX, b"\xff", b"", b"", SnapId(u64::MAX)))
        } else {
            (!cursor.is_min()).then_some(from)
        };
        Ok((from, count.min(LIST_NAMES_MAX) as usize))
    }

    /// What scrubs have found: nothing is known of a PG that was never scrubbed. A client that began to ask in another
    /// interval has to begin again (`do_scrub_ls`).
    fn inconsistencies(&self, item: &OsdOpItem) -> Errno {
        let interval = Decoder::shared(&item.payload).versioned("scrub_ls_arg_t", 1, |d, _| d.u32());
        match interval {
            Err(_) => Errno::EINVAL,
            Ok(interval) if interval != 0 && interval != self.since.0 => Errno::EAGAIN,
            Ok(_) => Errno::ENOENT,
        }
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
        let namespace = &listing.request.message.locator.nspace;
        let all = namespace.as_ref() == ALL_NAMESPACES;
        for entry in found {
            let id = entry.id;
            let head = id.is_clients() && id.snap() == SnapId::HEAD;
            let asked = all || id.namespace() == namespace.as_ref();
            if head && asked && was_there(listing.request.message.snap, entry.attr.as_ref()) {
                let copy = |bytes: &[u8]| bytes::Bytes::copy_from_slice(bytes);
                listing.entries.push(ListEntry {
                    nspace: copy(id.namespace()),
                    name: copy(id.name()),
                    locator: copy(id.key()),
                });
            }
        }
        match next {
            Some(next) if listing.entries.len() < listing.max => self.list(core, listing, Some(next)),
            next => self.answer_listing(core, *listing, next),
        }
    }

    fn restart_listing(&mut self, core: &mut Core, request: Box<ClientRequest>) {
        if self.is_primary() {
            self.handle_request(core, request);
        } else {
            core.sessions.release(request.bytes);
        }
    }

    fn answer_listing(&mut self, core: &mut Core, listing: Listing, next: Option<ObjectId>) {
        let (handle, result) = match next {
            Some(next) => (hobject(&next, self.id), 0),
            None => (range_end(self.id, self.pg_num(core)), 1),
        };
        let request = listing.request;
        let mut outcomes = bare_outcomes(&request.message.ops);
        outcomes[0].item.payload = ListReply { handle, entries: listing.entries }.to_bytes();
        reply::done(core, &request, result, outcomes, self.info.last_update, self.info.last_user_version);
        self.counters.reads += 1;
        core.sessions.release(request.bytes);
    }

    fn pg_num(&self, core: &Core) -> u32 {
        core.map.pool(self.id.pool).map_or(1, |pool| pool.pg_num)
    }
}

/// Whether an object with this record was there at a snapshot.
fn was_there(snap: SnapId, record: Option<&bytes::Bytes>) -> bool {
    let Some(Ok(info)) = record.map(ObjectInfo::from_bytes) else { return true };
    match &info.clones {
        Some(clones) if snap < SnapId::HEAD => match clones.life_at(snap) {
            Some(Life::Head) => !info.whiteout,
            life => life.is_some(),
        },
        _ => !info.whiteout,
    }
}

/// An object as clients name it.
fn hobject(id: &ObjectId, pg: PgId) -> HObject {
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
