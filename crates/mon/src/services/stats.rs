//! The manager's duty of statistics: what placement groups and OSDs report, summed by pool and cluster.
//!
//! Owns the newest report of each placement group and OSD, and a short history of sums, from which rates come. Nothing
//! is persisted: OSDs report again within seconds. A group of which nobody reports is unknown; one whose primary went
//! down is stale until another reports.
//!
//! Follows Ceph v16.2 `src/mon/PGMap.cc`.

use super::stat_sum::{Rates, StatSum};
use base::{Bug, Duration, Epoch, Instant, OsdId, PgId, PoolId};
use maps::stats::{ObjectStatSum, OsdStat, PgStat, PgState, StoreStatfs};
use maps::{OsdMap, SnapSet};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use wire::codec::Decode;
use wire::messages::PgStats;

/// How far back rates look (v16.2 `mon_stat_smooth_intervals` of a few reports).
const RATE_WINDOW: Duration = Duration::from_secs(6);

/// One moment's sums.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    by_pool: BTreeMap<PoolId, ObjectStatSum>,
}

/// The service.
#[derive(Debug, Default)]
pub struct StatsService {
    pgs: BTreeMap<PgId, PgStat>,
    osds: BTreeMap<OsdId, OsdStat>,
    /// Room by pool, of OSDs that count it.
    pool_store: BTreeMap<(PoolId, OsdId), StoreStatfs>,
    history: VecDeque<Sample>,
    version: u64,
    stamp: Instant,
}

/// Every placement group there should be.
pub fn all_pgs(map: &OsdMap) -> impl Iterator<Item = PgId> + '_ {
    map.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num).map(|seed| PgId::new(*id, seed)))
}

impl StatsService {
    /// Takes a report of an OSD; gives the version and epoch of each placement group in it, for the acknowledgement.
    /// Parts that do not decode, and groups that do not exist, are skipped.
    pub fn take(&mut self, now: Instant, map: &OsdMap, from: OsdId, m: &PgStats) -> BTreeMap<PgId, (u64, Epoch)> {
        if let Ok(stat) = OsdStat::from_bytes(&m.osd_stat.0) {
            self.osds.insert(from, stat);
        }
        self.pool_store.retain(|(_, osd), _| *osd != from);
        for (pool, sealed) in &m.pool_stats {
            if let (true, Ok(statfs)) = (map.pools.contains_key(&PoolId(*pool)), StoreStatfs::from_bytes(&sealed.0)) {
                self.pool_store.insert((PoolId(*pool), from), statfs);
            }
        }
        let mut taken = BTreeMap::new();
        for (pg, sealed) in &m.pg_stats {
            let Ok(stat) = PgStat::from_bytes(&sealed.0) else { continue };
            if !map.pg_exists(*pg) {
                continue;
            }
            taken.insert(*pg, (stat.reported_seq, stat.reported_epoch));
            let version = |s: &PgStat| (s.reported_epoch, s.reported_seq);
            let newer = self
                .pgs
                .get(pg)
                .is_none_or(|have| version(&stat) >= version(have) || have.state.contains(PgState::STALE));
            if newer {
                self.pgs.insert(*pg, stat);
            }
        }
        self.version += 1;
        self.stamp = now;
        taken
    }

    /// Follows a new map: groups that are gone are forgotten, those whose primary is down are stale.
    pub fn forget_stale(&mut self, map: &OsdMap) {
        self.pgs.retain(|pg, _| map.pg_exists(*pg));
        self.osds.retain(|osd, _| map.exists(*osd));
        self.pool_store.retain(|(pool, osd), _| map.pools.contains_key(pool) && map.exists(*osd));
        for stat in self.pgs.values_mut() {
            if map.is_down(stat.acting_primary) {
                stat.state = stat.state.with(PgState::STALE);
            }
        }
    }

    /// Remembers the sums of this moment.
    pub fn tick(&mut self, now: Instant) {
        let mut by_pool: BTreeMap<PoolId, ObjectStatSum> = BTreeMap::new();
        for (pg, stat) in &self.pgs {
            *by_pool.entry(pg.pool).or_default() += &stat.stats.sum;
        }
        self.history.push_back(Sample { at: now, by_pool });
        while self.history.len() > 2 && self.history.front().is_some_and(|s| now.since(s.at) > RATE_WINDOW) {
            self.history.pop_front();
        }
    }

    /// Counts reports.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// When the latest report came.
    pub fn stamp(&self) -> Instant {
        self.stamp
    }

    /// The reports of placement groups.
    pub fn pgs(&self) -> impl Iterator<Item = (PgId, &PgStat)> {
        self.pgs.iter().map(|(pg, stat)| (*pg, stat))
    }

    /// The report of one placement group.
    pub fn pg(&self, pg: PgId) -> Option<&PgStat> {
        self.pgs.get(&pg)
    }

    /// The state of a placement group; none if nobody reported it.
    pub fn state(&self, pg: PgId) -> Option<PgState> {
        self.pgs.get(&pg).map(|stat| stat.state)
    }

    /// The report of a placement group, or what stands for one that nobody reported: where it should be.
    pub fn stat_or_unknown(&self, map: &OsdMap, pg: PgId) -> Cow<'_, PgStat> {
        if let Some(stat) = self.pgs.get(&pg) {
            return Cow::Borrowed(stat);
        }
        let sets = map.pg_to_up_acting(pg);
        Cow::Owned(PgStat {
            up: sets.up,
            up_primary: sets.up_primary,
            acting: sets.acting,
            acting_primary: sets.acting_primary,
            ..PgStat::default()
        })
    }

    /// The reports of OSDs.
    pub fn osds(&self) -> impl DoubleEndedIterator<Item = (OsdId, &OsdStat)> {
        self.osds.iter().map(|(osd, stat)| (*osd, stat))
    }

    /// The report of one OSD.
    pub fn osd(&self, osd: OsdId) -> Option<&OsdStat> {
        self.osds.get(&osd)
    }

    /// How many placement groups are in which state; those nobody reported are `unknown`. The most first, as Ceph
    /// prints them.
    pub fn by_state(&self, map: &OsdMap) -> Vec<(String, u64)> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for pg in all_pgs(map) {
            let state = self.state(pg).map_or_else(|| "unknown".to_owned(), |s| s.to_string());
            *counts.entry(state).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then(b.0.cmp(&a.0)));
        counts
    }

    /// A pool's sums.
    pub fn pool_sum(&self, pool: PoolId) -> StatSum {
        let range = PgId::new(pool, 0)..=PgId::new(pool, u32::MAX);
        let mut sum = StatSum::of_pgs(self.pgs.range(range).map(|(_, stat)| stat));
        for (_, statfs) in self.pool_store.range((pool, OsdId(i32::MIN))..=(pool, OsdId(i32::MAX))) {
            sum.add_store(statfs);
        }
        sum
    }

    /// The snapshots of which every placement group of a pool says that nothing is left; none where one has not
    /// reported yet.
    pub fn purged_by_all(&self, map: &OsdMap, pool: PoolId) -> Option<SnapSet> {
        let mut all: Option<SnapSet> = None;
        for seed in 0..map.pool(pool)?.pg_num {
            let purged = &self.pgs.get(&PgId::new(pool, seed))?.purged_snaps;
            match &mut all {
                Some(all) if Bug::PurgedByOne.is_planted() => all.union_with(purged),
                Some(all) => all.intersect_with(purged),
                None => all = Some(purged.clone()),
            }
        }
        all
    }

    /// The sums of all pools.
    pub fn sum(&self) -> StatSum {
        StatSum::of_pgs(self.pgs.values())
    }

    /// The sum of all OSDs that are in, or of those of one device class.
    pub fn osd_sum_of(&self, map: &OsdMap, class: Option<&str>) -> OsdSum {
        let mut sum = OsdSum::default();
        for (osd, stat) in &self.osds {
            if class.is_none_or(|class| map.device_class(*osd) == Some(class)) {
                sum.add(stat);
            }
        }
        sum
    }

    /// The sum of all OSDs.
    pub fn osd_sum(&self) -> OsdSum {
        let mut sum = OsdSum::default();
        self.osds.values().for_each(|stat| sum.add(stat));
        sum
    }

    /// A pool's rates.
    pub fn pool_rates(&self, pool: PoolId) -> Rates {
        self.rates(|sample| sample.by_pool.get(&pool).copied().unwrap_or_default())
    }

    /// The rates of all pools.
    pub fn total_rates(&self) -> Rates {
        self.rates(|sample| {
            sample.by_pool.values().fold(ObjectStatSum::default(), |mut sum, pool| {
                sum += pool;
                sum
            })
        })
    }

    fn rates(&self, sum: impl Fn(&Sample) -> ObjectStatSum) -> Rates {
        let (Some(old), Some(new)) = (self.history.front(), self.history.back()) else { return Rates::default() };
        let mut delta = sum(new);
        delta -= &sum(old);
        Rates::new(delta, new.at.since(old.at))
    }

    /// Checks what must always hold.
    pub fn check_invariants(&self) {
        assert!(self.history.iter().is_sorted_by_key(|s| s.at), "samples are in order of time");
    }
}

/// Sums over OSDs.
#[derive(Clone, Debug, Default)]
pub struct OsdSum {
    /// The sum, in the shape of one OSD's report.
    pub stat: OsdStat,
}

impl OsdSum {
    fn add(&mut self, stat: &OsdStat) {
        let sum = &mut self.stat;
        sum.kb = sum.kb.saturating_add(stat.kb);
        sum.kb_used = sum.kb_used.saturating_add(stat.kb_used);
        sum.kb_avail = sum.kb_avail.saturating_add(stat.kb_avail);
        sum.kb_used_data = sum.kb_used_data.saturating_add(stat.kb_used_data);
        sum.kb_used_omap = sum.kb_used_omap.saturating_add(stat.kb_used_omap);
        sum.kb_used_meta = sum.kb_used_meta.saturating_add(stat.kb_used_meta);
        sum.num_pgs = sum.num_pgs.saturating_add(stat.num_pgs);
        sum.num_osds = sum.num_osds.saturating_add(stat.num_osds);
        sum.num_per_pool_osds = sum.num_per_pool_osds.saturating_add(stat.num_per_pool_osds);
        sum.num_per_pool_omap_osds = sum.num_per_pool_omap_osds.saturating_add(stat.num_per_pool_omap_osds);
        sum.statfs += &stat.statfs;
    }

    /// All room.
    pub fn total_bytes(&self) -> u64 {
        self.stat.statfs.total
    }

    /// Free room.
    pub fn available_bytes(&self) -> u64 {
        self.stat.statfs.available
    }

    /// Room that is not free.
    pub fn used_bytes(&self) -> u64 {
        self.stat.statfs.used_raw()
    }

    /// Whether every OSD counts room by pool.
    pub fn counts_by_pool(&self) -> bool {
        self.stat.num_osds > 0 && self.stat.num_osds == self.stat.num_per_pool_osds
    }
}
