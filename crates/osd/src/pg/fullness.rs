//! Writes to a pool that is full: what still goes, what is refused, what is left for its client to send again.
//!
//! Owns the judgement of one write by what it would add. Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc`
//! (`prepare_transaction`, `do_op`): what does not grow the pool goes; a client that says that it wants to try hears
//! why not; every other gets no answer, because it holds its writes itself once it has the map, and sends them again
//! when there is room. Where a member's store is about to be full although the map does not say so yet, it is the same
//! if the map is going to, and otherwise all hear that there is no space: no member may be given what its store would
//! refuse.

use super::Pg;
use super::client_io::ClientRequest;
use crate::core::Core;
use crate::ops::Outcome;
use crate::ops::state::ObjectState;
use base::{Epoch, Errno, PoolId};
use maps::OsdMap;
use maps::osd_map::MapFlags;
use maps::pool::PoolFlags;
use std::collections::BTreeMap;
use store::Op;
use wire::osd::RequestFlags;
use wire::types::EntityType;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is executed.
    Goes,
    /// Its client hears this.
    Refused(Errno),
    /// Its client will send it again.
    Dropped,
}

/// Since which map pools have been full.
#[derive(Debug, Default)]
pub struct FullPools {
    since: BTreeMap<PoolId, Epoch>,
}

impl FullPools {
    /// Follows the maps one by one.
    pub fn follow(&mut self, map: &OsdMap) {
        let whole = map.flags.contains(MapFlags::FULL);
        self.since.retain(|id, _| map.pool(*id).is_some_and(|pool| whole || pool.is_full()));
        for (id, _) in map.pools.iter().filter(|(_, pool)| whole || pool.is_full()) {
            self.since.entry(*id).or_insert(map.epoch);
        }
    }

    /// Whether a client with the map of `epoch` could not know that the pool is full.
    pub fn is_news_to(&self, pool: PoolId, epoch: Epoch) -> bool {
        self.since.get(&pool).is_some_and(|since| *since > epoch)
    }
}

/// Whether a request does not ask how full anything is: the metadata server's, which knows when to stop, and those that
/// make room by force.
fn is_exempt(request: &ClientRequest) -> bool {
    let caller = request.circumstances.caller;
    caller.own || caller.name.kind == EntityType::MDS || request.message.flags.has(RequestFlags::FULL_FORCE)
}

/// Whether a write was sent before its client could know that the pool is full: it will hold it, and send it again.
pub(crate) fn is_overtaken(core: &Core, request: &ClientRequest) -> bool {
    let message = &request.message;
    core.full_pools.is_news_to(message.pgid.pg.pool, message.map_epoch)
        && !message.flags.has(RequestFlags::FULL_TRY)
        && !is_exempt(request)
}

impl Pg {
    /// What becomes of a write that would lead from `before` to `outcome`.
    pub(super) fn judge_fullness(
        &self,
        core: &Core,
        request: &ClientRequest,
        before: &ObjectState,
        outcome: &Outcome,
    ) -> Verdict {
        if is_exempt(request) {
            return Verdict::Goes;
        }
        let (had, has) = (before.totals(), outcome.state.totals());
        let grows = has.objects > had.objects || has.bytes > had.bytes;
        let tries = request.message.flags.has(RequestFlags::FULL_TRY);
        let full = core.map.pool(self.id.pool).filter(|pool| pool.is_full() && grows);
        match full {
            Some(_) if !tries => Verdict::Dropped,
            Some(pool) if pool.flags.contains(PoolFlags::FULL_QUOTA) => Verdict::Refused(Errno::EDQUOT),
            Some(_) => Verdict::Refused(Errno::ENOSPC),
            None if self.has_room_for(core, bytes_brought(&outcome.changes), tries && !grows) => Verdict::Goes,
            None if !tries && self.will_be_full(core) => Verdict::Dropped,
            None => Verdict::Refused(Errno::ENOSPC),
        }
    }

    fn will_be_full(&self, core: &Core) -> bool {
        core.rooms.will_be_called_full(core.me(), &self.sets.acting, core.map.full_ratio)
    }

    /// Whether every member has room for so many bytes from each primary. Who removes a large thing writes small ones,
    /// and may use a part of the reserve for them (`tries`).
    fn has_room_for(&self, core: &Core, bytes: u64, tries: bool) -> bool {
        let into_reserve = tries && bytes <= RESERVE_WRITE_BYTES_MAX;
        let left = core.rooms.left_at(core.me(), &self.sets.acting, into_reserve);
        bytes == 0 || left >= bytes.saturating_mul(core.rooms.primaries())
    }
}

/// The largest write that may use the reserve: what the removal of an image changes in its header and object map.
const RESERVE_WRITE_BYTES_MAX: u64 = 64 << 10;

/// How many bytes changes bring; none where they only remove.
fn bytes_brought(changes: &[Op]) -> u64 {
    let of = |op: &Op| match op {
        Op::Write(_, data) => data.len(),
        Op::SetAttr(name, value) => name.len() + value.len(),
        Op::OmapSet(entries) => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
        Op::OmapHeader(header) => header.len(),
        _ => 0,
    };
    changes.iter().map(|op| of(op) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::PgPool;
    use std::sync::Arc;

    #[test]
    fn a_pool_is_full_since_the_map_that_said_so_first() {
        let mut map = OsdMap::new(Default::default());
        let full = PgPool { flags: PoolFlags::FULL, ..PgPool::default() };
        map.pools.insert(PoolId(1), Arc::new(PgPool::default()));
        map.pools.insert(PoolId(2), Arc::new(full.clone()));
        let mut pools = FullPools::default();
        for epoch in 5..8 {
            map.epoch = Epoch(epoch);
            pools.follow(&map);
        }
        assert!(pools.is_news_to(PoolId(2), Epoch(4)) && !pools.is_news_to(PoolId(2), Epoch(5)));
        assert!(!pools.is_news_to(PoolId(1), Epoch(0)));
        map.pools.insert(PoolId(2), Arc::new(PgPool::default()));
        map.epoch = Epoch(8);
        pools.follow(&map);
        assert!(!pools.is_news_to(PoolId(2), Epoch(4)), "room again");
        map.flags = MapFlags::FULL;
        map.epoch = Epoch(9);
        pools.follow(&map);
        assert!(pools.is_news_to(PoolId(1), Epoch(8)) && pools.is_news_to(PoolId(2), Epoch(8)));
    }
}
