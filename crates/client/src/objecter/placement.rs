//! Where a request has to go by a given map, and whether it may.
//!
//! Follows Ceph v16.2 `src/osdc/Objecter.cc` (`_calc_target`, `target_should_be_paused`).

use crate::request::Request;
use base::{Epoch, OsdId, PgId, Rng};
use maps::osd_map::MapFlags;
use maps::{ObjectLocator, OsdMap, UpActing};
use wire::osd::RequestFlags;

/// A request's place by one map. Two that are equal need no second attempt: the OSD that has the first still serves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placement {
    /// The placement group.
    pub(super) pg: PgId,
    /// The full placement hash.
    pub(super) hash: u32,
    /// Its OSDs; the acting primary serves it.
    pub(super) sets: UpActing,
    /// What else begins a new interval: the pool's size, its least size, its number of placement groups.
    sizes: (u8, u8, u32),
    /// Up to when the pool asked for everything to be sent again.
    force_resend: Epoch,
}

/// Why a request cannot be sent by the present map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// There is no map yet.
    NoMap,
    /// The pool is not in the map: newer than it, or gone.
    NoPool,
    /// The placement group is not in the map.
    NoPg,
    /// Nobody serves the placement group.
    NoPrimary,
    /// The cluster or the pool is paused or full.
    Paused,
}

impl Placement {
    /// Who serves it.
    pub(super) fn primary(&self) -> OsdId {
        self.sets.acting_primary
    }

    /// Who is asked: the primary, or any member by chance where the request allows that and only reads.
    pub(super) fn asked(&self, request: &Request, rng: &mut Rng) -> OsdId {
        let any = RequestFlags::BALANCE_READS | RequestFlags::LOCALIZE_READS;
        let members: Vec<OsdId> = self.sets.acting.iter().copied().filter(|osd| *osd != OsdId::NONE).collect();
        if !request.flags.has(any) || !request.reads() || request.writes() || members.is_empty() {
            return self.primary();
        }
        members[rng.below(members.len() as u64) as usize]
    }

    /// Whether what was sent by `sent_epoch` to this place has to be sent again.
    pub(super) fn forced_since(&self, sent_epoch: Epoch) -> bool {
        self.force_resend > sent_epoch
    }
}

/// Where `request` has to go by `map`.
pub(super) fn place(map: &OsdMap, request: &Request) -> Result<Placement, Hold> {
    let target = &request.target;
    let pool = map.pool(target.pool).ok_or(Hold::NoPool)?;
    let (pg, hash) = match target.pg {
        Some(pg) if pg.seed < pool.pg_num => (pg, pg.seed),
        Some(_) => return Err(Hold::NoPg),
        None => {
            let locator = ObjectLocator { pool: target.pool, namespace: &target.nspace, key: &target.key, hash: None };
            let raw = map.object_to_raw_pg(&locator, &target.object).ok_or(Hold::NoPool)?;
            (pool.raw_pg_to_pg(raw), raw.seed)
        }
    };
    if is_paused(map, request, pool.is_full()) {
        return Err(Hold::Paused);
    }
    let sets = map.pg_to_up_acting(pg);
    if sets.acting_primary == OsdId::NONE {
        return Err(Hold::NoPrimary);
    }
    let sizes = (pool.size, pool.min_size, pool.pg_num);
    Ok(Placement { pg, hash, sets, sizes, force_resend: pool.last_force_op_resend })
}

fn is_paused(map: &OsdMap, request: &Request, pool_full: bool) -> bool {
    let full = map.flags.contains(MapFlags::FULL) || pool_full;
    let heeds_full = !request.flags.has(RequestFlags::FULL_TRY | RequestFlags::FULL_FORCE);
    (request.reads() && map.flags.contains(MapFlags::PAUSERD))
        || (request.writes() && (map.flags.contains(MapFlags::PAUSEWR) || (full && heeds_full)))
}
