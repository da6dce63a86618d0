//! Steps towards the number of placement groups that an operator has asked for: the manager's duty.
//!
//! A merge takes one group at a time, once `pgp_num` has brought it to where its target is and both are clean: the map
//! says that it is pending, both stop serving, their primary says that they are ready, and the next map has one group
//! less. If they are not, or nobody says anything for too long, it is given up and tried again later.
//!
//! Splitting waits until every group of the pool serves and, if there are many more groups than places for them, until
//! `pgp_num` has followed. `pgp_num`, which moves data, goes only as far at a time as `target_max_misplaced_ratio` lets
//! it.
//!
//! Follows Ceph v16.2 `src/mgr/DaemonServer.cc` (`adjust_pgs`) and, for what a step sets, `src/mon/OSDMonitor.cc`
//! (`prepare_command_pool_set`, `pg_num_actual`; `prepare_pg_ready_to_merge`).

use crate::mon::Mon;
use base::{OsdId, PgId, PoolId};
use maps::PgPool;
use maps::pool::{PgMergeMeta, merge_target};
use maps::stats::PgState;
use wire::messages::OsdPgReadyToMerge;

/// For how many ticks a merge may be pending: its groups do not serve meanwhile.
const MERGE_TICKS_MAX: u32 = 15;

impl Mon {
    /// Goes one step in each pool that is not where it should be.
    pub(crate) fn step_pg_nums(&mut self) {
        let map = self.osds.upcoming();
        let differs = |pool: &PgPool| {
            let targets = (pool.pg_num_target, pool.pgp_num_target.min(pool.pg_num_target));
            (pool.pg_num, pool.pgp_num) != targets || pool.pg_num_pending != pool.pg_num
        };
        let pools: Vec<(PoolId, PgPool)> =
            map.pools.iter().filter(|(_, pool)| differs(pool)).map(|(id, pool)| (*id, PgPool::clone(pool))).collect();
        for (id, pool) in pools {
            if let Some(pg_num) = self.next_pg_num(id, &pool) {
                let epoch = self.osds.next_epoch();
                self.osds.edit_pool(id, |pool| {
                    (pool.pg_num, pool.pg_num_pending) = (pg_num, pg_num);
                    // Clients of old do not know that this begins an interval.
                    pool.last_force_op_resend_preluminous = epoch;
                });
            } else if pool.pg_num_pending < pool.pg_num {
                self.wait_for_merge(id, &pool);
            } else if self.may_merge(id, &pool) {
                self.merge_ticks.remove(&id);
                self.change_pending(id, |pool| pool.pg_num_pending = pool.pg_num - 1);
            } else if let Some(pgp_num) = self.next_pgp_num(id, &pool) {
                self.osds.edit_pool(id, |pool| pool.pgp_num = pgp_num);
            }
        }
    }

    /// Changes what of a pool's number of groups is pending: an interval that clients of old do not know of.
    fn change_pending(&mut self, id: PoolId, change: impl FnOnce(&mut PgPool)) {
        let epoch = self.osds.next_epoch();
        self.osds.edit_pool(id, |pool| {
            change(pool);
            pool.last_force_op_resend_prenautilus = epoch;
        });
    }

    /// Gives a merge up of which nothing is heard.
    fn wait_for_merge(&mut self, id: PoolId, pool: &PgPool) {
        let ticks = self.merge_ticks.entry(id).or_insert(0);
        *ticks += 1;
        if *ticks > MERGE_TICKS_MAX {
            self.merge_ticks.remove(&id);
            self.change_pending(id, |pool| pool.pg_num_pending = pool.pg_num);
            let text = format!("the merge of pg {id}.{:x} is put off: nothing was heard of it", pool.pg_num_pending);
            self.debug_log(base::log::Level::Warn, text);
        }
    }

    /// Whether the last group of a pool may be merged now.
    fn may_merge(&self, id: PoolId, pool: &PgPool) -> bool {
        if pool.pg_num_target >= pool.pg_num || pool.pgp_num >= pool.pg_num {
            return false;
        }
        let source = PgId::new(id, pool.pg_num - 1);
        let stats = [source, merge_target(source)].map(|pg| self.stats.pg(pg));
        let clean = PgState::ACTIVE.with(PgState::CLEAN);
        matches!(stats, [Some(a), Some(b)] if a.state == clean && b.state == clean && a.acting == b.acting)
    }

    /// A primary says whether two groups are ready to be merged.
    pub(crate) fn ready_to_merge(&mut self, osd: OsdId, m: &OsdPgReadyToMerge) {
        let next = self.osds.upcoming();
        let Some(pool) = next.pool(m.source.pool) else { return };
        let pending = pool.pg_num_pending.checked_add(1) == Some(pool.pg_num) && m.source.seed == pool.pg_num_pending;
        let current = m.paxos.version >= u64::from(pool.last_change.0);
        if !pending || !current || next.pg_to_up_acting(m.source).acting_primary != osd {
            return;
        }
        self.merge_ticks.remove(&m.source.pool);
        let ready_epoch = self.osds.next_epoch();
        self.change_pending(m.source.pool, |pool| {
            if m.ready {
                pool.pg_num -= 1;
                pool.last_pg_merge = PgMergeMeta {
                    source: m.source,
                    ready_epoch,
                    last_epoch_started: m.last_epoch_started,
                    last_epoch_clean: m.last_epoch_clean,
                    source_version: m.source_version,
                    target_version: m.target_version,
                };
            }
            pool.pg_num_pending = pool.pg_num;
        });
    }

    /// Whether every group of a pool has been reported to be in one of these states.
    fn all_pgs_are(&self, id: PoolId, pool: &PgPool, is: impl Fn(PgState) -> bool) -> bool {
        (0..pool.pg_num).all(|seed| self.stats.state(PgId::new(id, seed)).is_some_and(&is))
    }

    /// To how many groups the pool may be split now.
    fn next_pg_num(&self, id: PoolId, pool: &PgPool) -> Option<u32> {
        if pool.pg_num_target <= pool.pg_num {
            return None;
        }
        let serves = |state: PgState| {
            (state.contains(PgState::ACTIVE) || state.contains(PgState::PEERED)) && !state.contains(PgState::CREATING)
        };
        let jump = (self.option_number("mgr_max_pg_num_change") as u32).max(1);
        let gap = pool.pg_num - pool.pgp_num.min(pool.pg_num);
        if gap >= jump || !self.all_pgs_are(id, pool, serves) {
            return None;
        }
        Some(pool.pg_num_target.min(pool.pg_num.saturating_add(jump - gap)))
    }

    /// How far the placement of the pool's groups may change now.
    fn next_pgp_num(&self, id: PoolId, pool: &PgPool) -> Option<u32> {
        let target = pool.pgp_num_target.min(pool.pg_num);
        let target = target.min(pool.pg_num_target);
        if target == pool.pgp_num || !self.all_pgs_are(id, pool, |state| state.contains(PgState::ACTIVE)) {
            return None;
        }
        let sum = self.stats.sum();
        let counts = sum.counts();
        let misplaced = counts.num_objects_misplaced as f64 / (counts.num_object_copies.max(1)) as f64;
        let max = self.option_number("target_max_misplaced_ratio").clamp(0.0, 1.0);
        if max > 0.0 && misplaced > max {
            return None;
        }
        let room = if max > 0.0 { max - misplaced } else { 1.0 };
        let step = ((f64::from(pool.pg_num) * room) as u32).max(1);
        Some(target.clamp(pool.pgp_num.saturating_sub(step).max(1), pool.pgp_num.saturating_add(step)))
    }
}
