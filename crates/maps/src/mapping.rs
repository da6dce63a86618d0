//! Where every placement group of a map is, kept from one epoch to the next.
//!
//! Asking CRUSH costs microseconds a group; most epochs change nothing it depends on. [`Mapping`] keeps CRUSH's answers
//! and the sets that follow from them. An update asks CRUSH again only for pools whose inputs changed, and recomputes
//! the sets only when something they depend on did; it says which groups moved.
//!
//! Invariant: after `update(map)`, `get(pg)` equals `map.pg_to_up_acting(pg)` for every group (the tests hold it so).

use crate::osd_map::OsdMap;
use crate::osd_state::OsdState;
use crate::placement::UpActing;
use crate::pool::{PgPool, PoolFlags};
use base::{Epoch, OsdId, PgId, PoolId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sets of all placement groups of one epoch.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// The map they were last computed from.
    map: Option<Arc<OsdMap>>,
    pools: BTreeMap<PoolId, PoolMapping>,
}

#[derive(Clone, Debug, Default)]
struct PoolMapping {
    /// CRUSH's answers, `size` places a group at most, one group after the other.
    raw: Vec<OsdId>,
    /// Where each group's answer ends in `raw`.
    raw_end: Vec<u32>,
    sets: Vec<UpActing>,
}

impl PoolMapping {
    fn raw_of(&self, seed: usize) -> &[OsdId] {
        let start = if seed == 0 { 0 } else { self.raw_end[seed - 1] };
        &self.raw[start as usize..self.raw_end[seed] as usize]
    }
}

impl Mapping {
    /// The sets of no map at all; the first update names every group as moved.
    pub fn new() -> Mapping {
        Mapping::default()
    }

    /// The epoch they are of.
    pub fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    /// The map they are of.
    pub fn map(&self) -> Option<&Arc<OsdMap>> {
        self.map.as_ref()
    }

    /// The sets of a group that exists.
    pub fn get(&self, pg: PgId) -> Option<&UpActing> {
        self.pools.get(&pg.pool)?.sets.get(pg.seed as usize)
    }

    /// Every group with its sets, in order.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.pools.iter().flat_map(|(pool, mapping)| {
            mapping.sets.iter().enumerate().map(|(seed, sets)| (PgId::new(*pool, seed as u32), sets))
        })
    }

    /// The groups in whose up or acting set `osd` is. A scan: some 10 ns a group.
    pub fn pgs_of(&self, osd: OsdId) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.iter().filter(move |(_, sets)| sets.concerns(osd))
    }

    /// Moves on to `map` (any other map, usually the next epoch's). Gives the groups that are new, gone, or whose sets
    /// changed, in order.
    pub fn update(&mut self, map: &Arc<OsdMap>) -> Vec<PgId> {
        let before = self.map.replace(Arc::clone(map));
        let mut moved = vec![];
        self.pools.retain(|id, mapping| {
            let kept = map.pools.contains_key(id);
            if !kept {
                moved.extend((0..mapping.sets.len()).map(|seed| PgId::new(*id, seed as u32)));
            }
            kept
        });
        let same_crush = before.as_ref().is_some_and(|before| same_crush_inputs(before, map));
        let same_osds = before.as_ref().is_some_and(|before| same_set_inputs(before, map));
        for (id, pool) in &map.pools {
            let old_pool = before.as_ref().and_then(|before| before.pools.get(id));
            let same_pool = old_pool.is_some_and(|old| Arc::ptr_eq(old, pool) || same_placement(old, pool));
            let mapping = self.pools.entry(*id).or_default();
            if !(same_crush && same_pool) {
                mapping.ask_crush(map, pool, *id);
            }
            match &before {
                Some(before) if same_crush && same_pool && same_osds => {
                    mapping.follow_temps(before, map, pool, *id, &mut moved);
                }
                _ => mapping.follow_all(map, pool, *id, &mut moved),
            }
        }
        moved.sort_unstable();
        moved
    }
}

impl PoolMapping {
    fn ask_crush(&mut self, map: &OsdMap, pool: &PgPool, id: PoolId) {
        let mut placer = map.placer(pool, id);
        let mut osds = vec![];
        self.raw.clear();
        self.raw_end.clear();
        self.raw.reserve(pool.pg_num as usize * usize::from(pool.size.min(4)));
        for seed in 0..pool.pg_num {
            placer.place(pool.placement_seed(PgId::new(id, seed)), &mut osds);
            self.raw.extend_from_slice(&osds);
            self.raw_end.push(self.raw.len() as u32);
        }
    }

    fn follow_all(&mut self, map: &OsdMap, pool: &PgPool, id: PoolId, moved: &mut Vec<PgId>) {
        let count = pool.pg_num as usize;
        moved.extend((count..self.sets.len()).map(|seed| PgId::new(id, seed as u32)));
        self.sets.truncate(count);
        for seed in 0..count {
            self.follow(map, pool, PgId::new(id, seed as u32), moved);
        }
    }

    /// Only temporary sets and explicit mappings may differ: looks at the groups that have one in either map.
    fn follow_temps(&mut self, before: &OsdMap, map: &OsdMap, pool: &PgPool, id: PoolId, moved: &mut Vec<PgId>) {
        let mut pgs = vec![];
        let all = PgId::new(id, 0)..=PgId::new(id, u32::MAX);
        differing(&before.pg_temp, &map.pg_temp, &all, &mut pgs);
        differing(&before.primary_temp, &map.primary_temp, &all, &mut pgs);
        differing(&before.pg_upmap, &map.pg_upmap, &all, &mut pgs);
        differing(&before.pg_upmap_items, &map.pg_upmap_items, &all, &mut pgs);
        pgs.sort_unstable();
        pgs.dedup();
        for pg in pgs.into_iter().filter(|pg| pg.seed < pool.pg_num) {
            self.follow(map, pool, pg, moved);
        }
    }

    fn follow(&mut self, map: &OsdMap, pool: &PgPool, pg: PgId, moved: &mut Vec<PgId>) {
        let seed = pg.seed as usize;
        let raw = self.raw_of(seed).to_vec();
        let sets = map.up_acting_of(pool, pg, pool.placement_seed(pg), raw);
        match self.sets.get_mut(seed) {
            Some(old) if *old == sets => return,
            Some(old) => *old = sets,
            None => self.sets.push(sets),
        }
        moved.push(pg);
    }
}

/// The keys in `range` whose values differ.
fn differing<V: PartialEq>(
    before: &Arc<BTreeMap<PgId, V>>,
    after: &Arc<BTreeMap<PgId, V>>,
    range: &core::ops::RangeInclusive<PgId>,
    out: &mut Vec<PgId>,
) {
    if Arc::ptr_eq(before, after) {
        return;
    }
    let changed = |from: &BTreeMap<PgId, V>, to: &BTreeMap<PgId, V>, out: &mut Vec<PgId>| {
        out.extend(from.range(range.clone()).filter(|(pg, value)| to.get(pg) != Some(value)).map(|(pg, _)| *pg));
    };
    changed(before, after, out);
    changed(after, before, out);
}

/// Would CRUSH answer the same, pools aside?
fn same_crush_inputs(a: &OsdMap, b: &OsdMap) -> bool {
    let exist = |map: &OsdMap, at: usize| map.osds.state[at].contains(OsdState::EXISTS);
    (Arc::ptr_eq(&a.crush, &b.crush) || a.crush == b.crush)
        && a.osds.weight == b.osds.weight
        && (0..a.osds.state.len()).all(|at| exist(a, at) == exist(b, at))
}

/// Do the same sets follow from the same answers, temporary ones and explicit mappings aside?
fn same_set_inputs(a: &OsdMap, b: &OsdMap) -> bool {
    let up = |map: &OsdMap, at: usize| map.osds.state[at].contains(OsdState::UP);
    a.osds.state.len() == b.osds.state.len()
        && (0..a.osds.state.len()).all(|at| up(a, at) == up(b, at))
        && a.osds.primary_affinity == b.osds.primary_affinity
}

/// Is the pool placed the same?
fn same_placement(a: &PgPool, b: &PgPool) -> bool {
    let key = |pool: &PgPool| {
        let hashed = pool.flags.contains(PoolFlags::HASHPSPOOL);
        (pool.kind, pool.size, pool.crush_rule, pool.pg_num, pool.pgp_num, hashed)
    };
    key(a) == key(b)
}
