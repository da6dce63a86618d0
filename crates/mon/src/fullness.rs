//! Full OSDs and full pools: from what OSDs report to the flags by which clients and OSDs hold writes back.
//!
//! Owns the bits FULL, BACKFILLFULL and NEARFULL of OSDs, and those and FULL_QUOTA of pools. An OSD's share of used room
//! against the map's ratios gives its bit; a pool has the worst of the OSDs that its rule may choose, and is full by
//! quota when its objects or bytes reach one. Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`update_pools_status`,
//! `encode_pending`) and `src/osd/OSD.cc` (`recalc_full_state`), but that the monitor judges OSDs by their statistics.

use crate::crush_view;
use crate::format::quantity;
use crate::mon::Mon;
use crate::services::log::LogLevel as ClusterLevel;
use base::{Instant, OsdId, PoolId};
use maps::pool::PoolFlags;
use maps::{OsdMap, OsdState, PgPool};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How full something is; an OSD or a pool is one of these at most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Fullness {
    #[default]
    Roomy,
    Nearfull,
    Backfillfull,
    Full,
}

impl Fullness {
    fn of_osd(map: &OsdMap, used: f64) -> Fullness {
        let beyond = |ratio: f32| ratio > 0.0 && used >= f64::from(ratio);
        match () {
            () if beyond(map.full_ratio) => Fullness::Full,
            () if beyond(map.backfillfull_ratio) => Fullness::Backfillfull,
            () if beyond(map.nearfull_ratio) => Fullness::Nearfull,
            () => Fullness::Roomy,
        }
    }

    fn from_state(state: OsdState) -> Fullness {
        match () {
            () if state.contains(OsdState::FULL) => Fullness::Full,
            () if state.contains(OsdState::BACKFILLFULL) => Fullness::Backfillfull,
            () if state.contains(OsdState::NEARFULL) => Fullness::Nearfull,
            () => Fullness::Roomy,
        }
    }

    fn state(self) -> OsdState {
        match self {
            Fullness::Full => OsdState::FULL,
            Fullness::Backfillfull => OsdState::BACKFILLFULL,
            Fullness::Nearfull => OsdState::NEARFULL,
            Fullness::Roomy => OsdState::default(),
        }
    }

    fn pool_flag(self) -> PoolFlags {
        match self {
            Fullness::Full => PoolFlags::FULL,
            Fullness::Backfillfull => PoolFlags::BACKFILLFULL,
            Fullness::Nearfull => PoolFlags::NEARFULL,
            Fullness::Roomy => PoolFlags::default(),
        }
    }
}

const OSD_BITS: OsdState = OsdState::FULL.with(OsdState::BACKFILLFULL).with(OsdState::NEARFULL);
const POOL_FLAGS: PoolFlags =
    PoolFlags::FULL.with(PoolFlags::BACKFILLFULL).with(PoolFlags::NEARFULL).with(PoolFlags::FULL_QUOTA);

impl Mon {
    /// Brings the flags up to date with what was reported.
    pub(crate) fn watch_fullness(&mut self, now: Instant) {
        self.watch_full_osds();
        let by_rule = fullness_by_rule(self.osds.upcoming());
        let pools: Vec<(PoolId, Arc<PgPool>)> =
            self.osds.upcoming().pools.iter().map(|(id, pool)| (*id, Arc::clone(pool))).collect();
        for (id, pool) in pools {
            let limited = pool.quota_max_bytes > 0 || pool.quota_max_objects > 0;
            let sum = limited.then(|| self.stats.pool_sum(id));
            let by_quota = sum.and_then(|sum| quota_reached(&pool, sum.bytes(), sum.objects()));
            let was_by_quota = pool.flags.contains(PoolFlags::FULL_QUOTA);
            let by_osds = by_rule.get(&pool.crush_rule).copied().unwrap_or_default();
            let wanted = match by_quota {
                Some(_) => PoolFlags::FULL.with(PoolFlags::FULL_QUOTA),
                None => by_osds.pool_flag(),
            };
            let flags = pool.flags.without(POOL_FLAGS).with(wanted);
            if flags == pool.flags {
                continue;
            }
            let name = self.osds.upcoming().pool_name(id).unwrap_or_default().to_owned();
            match by_quota {
                Some(why) if !was_by_quota => {
                    let text = format!("pool '{name}' is full (reached quota's {why})");
                    self.cluster_log(now, ClusterLevel::WARN, "cluster", text);
                }
                None if was_by_quota => {
                    let text = format!("pool '{name}' no longer out of quota; removing NO_QUOTA flag");
                    self.cluster_log(now, ClusterLevel::INFO, "cluster", text);
                }
                _ => {}
            }
            self.osds.edit_pool(id, |pool| pool.flags = flags);
        }
    }

    fn watch_full_osds(&mut self) {
        let (map, stats) = (self.osds.upcoming(), &self.stats);
        let flip = |osd: OsdId| {
            let wanted = Fullness::of_osd(map, stats.osd(osd)?.statfs.used_ratio()).state();
            let flip = OsdState((map.state(osd).0 & OSD_BITS.0) ^ wanted.0);
            (flip != OsdState::default()).then_some((osd, flip))
        };
        let flips: Vec<_> = map.osd_ids().filter(|osd| map.is_up(*osd)).filter_map(flip).collect();
        for (osd, flip) in flips {
            self.osds.flip_state(osd, flip);
        }
    }
}

/// The limit that a pool has reached, as the log names it.
fn quota_reached(pool: &PgPool, bytes: u64, objects: u64) -> Option<String> {
    if pool.quota_max_bytes > 0 && bytes >= pool.quota_max_bytes {
        return Some(format!("max_bytes: {}", quantity::bytes(pool.quota_max_bytes)));
    }
    let many = pool.quota_max_objects > 0 && objects >= pool.quota_max_objects;
    many.then(|| format!("max_objects: {}", pool.quota_max_objects))
}

/// The worst of the OSDs, of those that are up and in, from which each rule chooses.
fn fullness_by_rule(map: &OsdMap) -> BTreeMap<u8, Fullness> {
    let tight: BTreeMap<OsdId, Fullness> = (map.osd_ids())
        .filter(|osd| map.is_up(*osd) && map.is_in(*osd))
        .map(|osd| (osd, Fullness::from_state(map.state(osd))))
        .filter(|(_, fullness)| *fullness > Fullness::Roomy)
        .collect();
    if tight.is_empty() {
        return BTreeMap::new();
    }
    let mut by_rule = BTreeMap::new();
    let rules: BTreeSet<u8> = map.pools.values().map(|pool| pool.crush_rule).collect();
    for id in rules {
        let Some(rule) = map.crush.rule(i32::from(id)) else { continue };
        let roots = rule.steps.iter().filter(|step| step.op == crush::rule::Op::TAKE).map(|step| step.arg1);
        let osds = roots.flat_map(|root| crush_view::osds_below(&map.crush, root));
        let worst = osds.filter_map(|osd| tight.get(&osd)).max().copied().unwrap_or_default();
        by_rule.insert(id, worst);
    }
    by_rule
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_reached_at_their_number() {
        let pool = |bytes, objects| PgPool { quota_max_bytes: bytes, quota_max_objects: objects, ..PgPool::default() };
        assert_eq!(quota_reached(&pool(0, 0), u64::MAX, u64::MAX), None);
        assert_eq!(quota_reached(&pool(10, 2), 9, 1), None);
        assert_eq!(quota_reached(&pool(10 << 10, 2), 10 << 10, 1).as_deref(), Some("max_bytes: 10 KiB"));
        assert_eq!(quota_reached(&pool(0, 2), 9, 2).as_deref(), Some("max_objects: 2"));
    }

    #[test]
    fn an_osd_is_one_kind_of_full_at_a_time() {
        let mut map = OsdMap::new(Default::default());
        assert_eq!(Fullness::of_osd(&map, 1.0), Fullness::Roomy, "no ratios, no limits");
        (map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio) = (0.5, 0.6, 0.7);
        let kinds = [0.4, 0.51, 0.61, 0.71].map(|used| Fullness::of_osd(&map, used));
        assert_eq!(kinds, [Fullness::Roomy, Fullness::Nearfull, Fullness::Backfillfull, Fullness::Full]);
        assert!(kinds.iter().all(|kind| Fullness::from_state(kind.state()) == *kind));
    }
}
