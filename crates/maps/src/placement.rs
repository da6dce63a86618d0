//! From an object's name to the OSDs that hold it.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc`: `map_to_pg`, `object_locator_to_pg`, `_pg_to_raw_osds`, `_apply_upmap`,
//! `_raw_to_up_osds`, `_apply_primary_affinity`, `_get_temp_osds`, `_pg_to_up_acting_osds`. Every client computes the
//! same; one difference and it would look for its data on the wrong OSD.
//!
//! The way: name -> hash -> placement group -> seed -> CRUSH -> raw set; explicit mappings replace members of it; up
//! set: those that are up; primary affinity picks its leader; acting set: the temporary one if there is, else up.

use crate::osd_map::OsdMap;
use crate::osd_state::WEIGHT_ONE;
use crate::pool::{PgPool, PoolKind};
use base::{OsdId, PgId, PoolId};
use crush::{ChooseArgs, Scratch};

/// CRUSH's mark for an empty place in an erasure-coded set (`CRUSH_ITEM_NONE`).
pub const EMPTY_PLACE: OsdId = OsdId(0x7fff_ffff);

/// What decides an object's placement besides its name (`object_locator_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectLocator<'a> {
    /// The pool.
    pub pool: PoolId,
    /// The namespace; empty is the default one.
    pub namespace: &'a [u8],
    /// A key to hash instead of the name; empty for none.
    pub key: &'a [u8],
    /// The hash itself, instead of hashing anything.
    pub hash: Option<u32>,
}

impl ObjectLocator<'_> {
    /// The default namespace of a pool, hashing names.
    pub fn pool(pool: PoolId) -> ObjectLocator<'static> {
        ObjectLocator { pool, namespace: b"", key: b"", hash: None }
    }
}

/// Which OSDs a placement group is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpActing {
    /// Where placement says it should be, those that are up. In erasure-coded pools one place per shard, some
    /// [`EMPTY_PLACE`].
    pub up: Vec<OsdId>,
    /// Their leader; [`OsdId::NONE`] if there is nobody.
    pub up_primary: OsdId,
    /// Who serves it now.
    pub acting: Vec<OsdId>,
    /// Their leader; [`OsdId::NONE`] if there is nobody.
    pub acting_primary: OsdId,
}

impl UpActing {
    /// Nobody at all: a pool or group that does not exist.
    pub fn nobody() -> UpActing {
        UpActing { up: vec![], up_primary: OsdId::NONE, acting: vec![], acting_primary: OsdId::NONE }
    }

    /// Is `osd` in one of the sets?
    pub fn concerns(&self, osd: OsdId) -> bool {
        self.up.contains(&osd) || self.acting.contains(&osd)
    }
}

impl OsdMap {
    /// An object's raw placement group, its seed a whole hash; none if the pool does not exist.
    pub fn object_to_raw_pg(&self, locator: &ObjectLocator<'_>, name: &[u8]) -> Option<PgId> {
        let pool = self.pools.get(&locator.pool)?;
        let text = if locator.key.is_empty() { name } else { locator.key };
        let seed = locator.hash.unwrap_or_else(|| pool.hash_key(text, locator.namespace));
        Some(PgId::new(locator.pool, seed))
    }

    /// An object's placement group; none if the pool does not exist.
    pub fn object_to_pg(&self, locator: &ObjectLocator<'_>, name: &[u8]) -> Option<PgId> {
        let raw = self.object_to_raw_pg(locator, name)?;
        Some(self.pools.get(&locator.pool)?.raw_pg_to_pg(raw))
    }

    /// The OSDs of a placement group that exists; nobody for any other.
    pub fn pg_to_up_acting(&self, pg: PgId) -> UpActing {
        match self.pools.get(&pg.pool) {
            Some(pool) if pg.seed < pool.pg_num => self.up_acting(pool, pg),
            _ => UpActing::nobody(),
        }
    }

    /// The OSDs of a raw placement group (a whole hash as its seed), as clients ask.
    pub fn raw_pg_to_up_acting(&self, raw: PgId) -> UpActing {
        self.pools.get(&raw.pool).map_or_else(UpActing::nobody, |pool| self.up_acting(pool, raw))
    }

    /// The sets without temporary ones: what acting becomes once `pg_temp` ends (`pg_to_raw_up`).
    pub fn pg_to_up(&self, pg: PgId) -> (Vec<OsdId>, OsdId) {
        self.pools.get(&pg.pool).map_or((vec![], OsdId::NONE), |pool| self.up(pool, pg))
    }

    /// What CRUSH alone says, members that do not exist left out (`pg_to_raw_osds`).
    pub fn pg_to_raw(&self, pg: PgId) -> Vec<OsdId> {
        self.pools.get(&pg.pool).map_or(vec![], |pool| self.raw(pool, pool.placement_seed(pg), pg.pool))
    }

    /// CRUSH's number of the rule that a pool's groups follow; none where its rule is for pools of another kind or
    /// size, in which case they are mapped nowhere.
    pub fn rule_of(&self, pool: &PgPool) -> Option<i32> {
        let kind = match pool.kind {
            PoolKind::Replicated => crush::rule::REPLICATED,
            PoolKind::Erasure => crush::rule::ERASURE,
        };
        let fits = |rule: &crush::Rule| {
            rule.ruleset == pool.crush_rule && rule.kind == kind && (rule.min_size..=rule.max_size).contains(&pool.size)
        };
        self.crush.rules().find(|(_, rule)| fits(rule)).map(|(id, _)| id)
    }

    fn up_acting(&self, pool: &PgPool, pg: PgId) -> UpActing {
        let seed = pool.placement_seed(pg);
        self.up_acting_of(pool, pg, seed, self.raw(pool, seed, pg.pool))
    }

    /// The sets that follow from what CRUSH said.
    pub(crate) fn up_acting_of(&self, pool: &PgPool, pg: PgId, seed: u32, raw: Vec<OsdId>) -> UpActing {
        let (up, up_primary) = self.up_of(pool, pg, seed, raw);
        let (temp, temp_primary) = self.temp(pool, pg);
        let acting_primary = match temp_primary {
            None if temp.is_empty() => up_primary,
            None => OsdId::NONE,
            Some(primary) => primary,
        };
        let acting = if temp.is_empty() { up.clone() } else { temp };
        UpActing { up, up_primary, acting, acting_primary }
    }

    fn up(&self, pool: &PgPool, pg: PgId) -> (Vec<OsdId>, OsdId) {
        let seed = pool.placement_seed(pg);
        self.up_of(pool, pg, seed, self.raw(pool, seed, pg.pool))
    }

    fn up_of(&self, pool: &PgPool, pg: PgId, seed: u32, raw: Vec<OsdId>) -> (Vec<OsdId>, OsdId) {
        let mut osds = raw;
        self.apply_upmap(pool, pg, &mut osds);
        drop_unless(pool, &mut osds, |osd| self.is_up(osd));
        let primary = first(&osds);
        let primary = self.apply_primary_affinity(pool, seed, &mut osds).unwrap_or(primary);
        (osds, primary)
    }

    fn raw(&self, pool: &PgPool, seed: u32, id: PoolId) -> Vec<OsdId> {
        let mut osds = vec![];
        self.placer(pool, id).place(seed, &mut osds);
        osds
    }

    /// What computes CRUSH's mappings for a pool, one after the other.
    pub(crate) fn placer<'a>(&'a self, pool: &'a PgPool, id: PoolId) -> Placer<'a> {
        // Weight sets are per pool, or one for all of them.
        let weight_set = self.crush.choose_args_for(id.0);
        Placer { map: self, pool, rule: self.rule_of(pool), weight_set, scratch: Scratch::default(), found: vec![] }
    }

    /// Is this an OSD of the map whose weight is nothing?
    fn is_weightless(&self, osd: OsdId) -> bool {
        self.slot(osd).is_some_and(|at| self.osds.weight[at] == 0)
    }

    fn apply_upmap(&self, pool: &PgPool, raw: PgId, osds: &mut Vec<OsdId>) {
        if self.pg_upmap.is_empty() && self.pg_upmap_items.is_empty() {
            return;
        }
        let pg = pool.raw_pg_to_pg(raw);
        if let Some(mapped) = self.pg_upmap.get(&pg) {
            // A target that is out voids the whole mapping, the replacements below included.
            if mapped.iter().any(|osd| self.is_weightless(*osd)) {
                return;
            }
            osds.clone_from(mapped);
        }
        for (from, to) in self.pg_upmap_items.get(&pg).into_iter().flatten() {
            if !osds.contains(to)
                && !self.is_weightless(*to)
                && let Some(place) = osds.iter_mut().find(|osd| **osd == *from)
            {
                *place = *to;
            }
        }
    }

    /// Picks the leader by affinity, where any member's is not the default, and puts it first where places do not
    /// matter.
    fn apply_primary_affinity(&self, pool: &PgPool, seed: u32, osds: &mut [OsdId]) -> Option<OsdId> {
        self.osds.primary_affinity.as_ref()?;
        let affinity = |osd: OsdId| self.primary_affinity(osd);
        if osds.iter().all(|osd| *osd == EMPTY_PLACE || affinity(*osd) == WEIGHT_ONE) {
            return None;
        }
        // Group and OSD together decide, so that each OSD is passed over for its share of the groups it is in. If all
        // are passed over, the first of them leads after all.
        let accepts = |osd: OsdId| {
            let share = affinity(osd);
            share >= WEIGHT_ONE || crush::hash::hash2(seed, osd.0 as u32) >> 16 < share
        };
        let willing = osds.iter().position(|osd| *osd != EMPTY_PLACE && accepts(*osd));
        let at = willing.or_else(|| osds.iter().position(|osd| *osd != EMPTY_PLACE))?;
        let primary = osds[at];
        if pool.can_shift_osds() {
            osds[..=at].rotate_right(1);
        }
        Some(primary)
    }

    fn temp(&self, pool: &PgPool, raw: PgId) -> (Vec<OsdId>, Option<OsdId>) {
        if self.pg_temp.is_empty() && self.primary_temp.is_empty() {
            return (vec![], None);
        }
        let pg = pool.raw_pg_to_pg(raw);
        let mut osds = self.pg_temp.get(&pg).cloned().unwrap_or_default();
        drop_unless(pool, &mut osds, |osd| self.is_up(osd));
        let primary = self.primary_temp.get(&pg).copied().or_else(|| osds.iter().copied().find(|o| *o != EMPTY_PLACE));
        (osds, primary)
    }
}

/// Computes CRUSH's mappings for one pool, reusing its buffers.
pub(crate) struct Placer<'a> {
    map: &'a OsdMap,
    pool: &'a PgPool,
    rule: Option<i32>,
    weight_set: Option<&'a ChooseArgs>,
    scratch: Scratch,
    found: Vec<i32>,
}

impl Placer<'_> {
    /// Replaces what is in `osds` by the mapping for `seed`, members that do not exist left out.
    pub(crate) fn place(&mut self, seed: u32, osds: &mut Vec<OsdId>) {
        osds.clear();
        let Some(rule) = self.rule else { return };
        let (map, size) = (self.map, usize::from(self.pool.size));
        map.crush.do_rule_into(rule, seed, size, map.weights(), self.weight_set, &mut self.scratch, &mut self.found);
        osds.extend(self.found.iter().copied().map(OsdId));
        drop_unless(self.pool, osds, |osd| map.exists(osd));
    }
}

/// Removes OSDs that fail `keep`, or empties their place where places matter.
fn drop_unless(pool: &PgPool, osds: &mut Vec<OsdId>, keep: impl Fn(OsdId) -> bool) {
    if pool.can_shift_osds() {
        osds.retain(|osd| keep(*osd));
    } else {
        osds.iter_mut().filter(|osd| !keep(**osd)).for_each(|osd| *osd = EMPTY_PLACE);
    }
}

/// The first OSD of a set that is one.
fn first(osds: &[OsdId]) -> OsdId {
    osds.iter().copied().find(|osd| *osd != EMPTY_PLACE).unwrap_or(OsdId::NONE)
}
