//! Pools whose number of PGs changes: every holder divides its PGs when it learns of it, and at its start those that
//! it had not come to.
//!
//! Read next: `pg::split`.

use crate::osd::Osd;
use base::PgId;
use maps::OsdMap;

impl Osd {
    /// Divides the PGs whose pool has more of them now than when they were looked at last. To be done with each map,
    /// before intervals begin with it.
    pub(crate) fn resize_pgs(&mut self, map: &OsdMap) {
        // A start finds what was done with a map that it does not know yet.
        let behind = |pg: &crate::pg::Pg| {
            map.epoch > pg.info.resized_at && map.pool(pg.id.pool).is_some_and(|pool| pg.info.pg_num != pool.pg_num)
        };
        let mut ids: Vec<PgId> = self.pgs.values().filter(|pg| behind(pg)).map(|pg| pg.id).collect();
        ids.sort_unstable();
        for id in ids {
            let (Some(pool), Some(pg)) = (map.pool(id.pool), self.pgs.get_mut(&id)) else { continue };
            let old = pg.info.pg_num;
            if old == 0 || old > pool.pg_num {
                // Of a store that knows of no splits yet; or its pool has been made smaller.
                (pg.info.pg_num, pg.info.resized_at) = (pool.pg_num, map.epoch);
                continue;
            }
            for child in pg.split(&mut self.core, old, pool, map.epoch) {
                self.pgs.entry(child.id).or_insert_with(|| Box::new(child));
            }
        }
    }
}
