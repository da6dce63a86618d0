//! Steps towards the number of placement groups that an operator has asked for: the manager's duty.
//!
//! Splitting waits until every group of the pool serves and, if there are many more groups than places for them, until
//! `pgp_num` has followed. `pgp_num`, which moves data, goes only as far at a time as `target_max_misplaced_ratio` lets
//! it.
//!
//! Follows Ceph v16.2 `src/mgr/DaemonServer.cc` (`adjust_pgs`) and, for what a step sets, `src/mon/OSDMonitor.cc`
//! (`prepare_command_pool_set`, `pg_num_actual`).

use crate::mon::Mon;
use base::{PgId, PoolId};
use maps::PgPool;
use maps::stats::PgState;

impl Mon {
    /// Goes one step in each pool that is not where it should be.
    pub(crate) fn step_pg_nums(&mut self) {
        let map = self.osds.upcoming();
        let differs = |pool: &PgPool| {
            (pool.pg_num, pool.pgp_num) != (pool.pg_num_target, pool.pgp_num_target.min(pool.pg_num_target))
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
            } else if let Some(pgp_num) = self.next_pgp_num(id, &pool) {
                self.osds.edit_pool(id, |pool| pool.pgp_num = pgp_num);
            }
        }
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
