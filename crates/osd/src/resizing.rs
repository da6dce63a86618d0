//! Pools whose number of PGs changes: every holder divides or joins its PGs when it learns of it, and at its start those
//! that it had not come to; who leads two that are to be merged tells the monitor whether they are ready.
//!
//! Read next: `pg::split`, `pg::merge`.

use crate::core::CommitFor;
use crate::limits::{ASK_AGAIN, MERGE_WAIT};
use crate::osd::Osd;
use crate::pg::Pg;
use base::{EVersion, Epoch, PgId, PoolId};
use maps::pool::merge_target;
use maps::{OsdMap, PgPool};
use std::collections::BTreeMap;
use store::{HashRange, Transaction};
use wire::messages::OsdPgReadyToMerge;
use wire::net::Envelope;

impl Osd {
    /// Divides or joins the PGs whose pool has another number of them now than when they were looked at last. To be done
    /// with each map, before intervals begin with it.
    pub(crate) fn resize_pgs(&mut self, map: &OsdMap, contiguous: bool) {
        let mut behind: BTreeMap<PoolId, u32> = BTreeMap::new();
        for pg in self.pgs.values_mut() {
            let Some(pool) = map.pool(pg.id.pool) else { continue };
            if pg.info.pg_num == 0 {
                // Of a store that knows of no splits yet.
                (pg.info.pg_num, pg.info.resized_at) = (pool.pg_num, map.epoch);
            }
            // A start finds what was done with a map that it does not know yet.
            if pg.info.pg_num != pool.pg_num && map.epoch > pg.info.resized_at {
                let old = behind.entry(pg.id.pool).or_insert(0);
                *old = (*old).max(pg.info.pg_num);
            }
        }
        for (id, old) in behind {
            let Some(pool) = map.pool(id).cloned() else { continue };
            if old > pool.pg_num {
                self.merge_pgs(id, old, &pool, map.epoch, contiguous);
            } else {
                self.split_pgs(id, &pool, map.epoch);
            }
        }
    }

    fn split_pgs(&mut self, id: PoolId, pool: &PgPool, at: Epoch) {
        self.make_way(|pg| pg.pool == id);
        let grows = |pg: &Pg| pg.id.pool == id && pg.info.pg_num < pool.pg_num && pg.info.resized_at < at;
        let ids: Vec<PgId> = self.pgs_in_order(grows).into_iter().map(|pg| pg.id).collect();
        for id in ids {
            let Some(pg) = self.pgs.get_mut(&id) else { continue };
            let old = pg.info.pg_num;
            for child in pg.split(&mut self.core, old, pool, at) {
                self.pgs.entry(child.id).or_insert_with(|| Box::new(child));
            }
        }
    }

    fn merge_pgs(&mut self, id: PoolId, old: u32, pool: &PgPool, at: Epoch, contiguous: bool) {
        let mut before = PgPool::clone(pool);
        for seed in (pool.pg_num..old).rev() {
            let (source, target) = (PgId::new(id, seed), merge_target(PgId::new(id, seed)));
            before.pg_num = seed + 1;
            let range = HashRange::of_seed(seed, before.split_bits(seed));
            let meta = Some(&pool.last_pg_merge).filter(|meta| contiguous && meta.source == source);
            // A start may find it here again already, made by a map that comes later.
            let is_old = self.pgs.get(&source).is_some_and(|pg| pg.info.resized_at < at);
            let gone = is_old.then(|| self.take_source(source)).flatten();
            match self.pgs.get_mut(&target) {
                // What was joined with this very map before a start, while other PGs were not, stays as it is.
                Some(pg) if pg.exists && pg.info.resized_at >= at && !gone.as_ref().is_some_and(|gone| gone.exists) => {
                }
                Some(pg) if pg.exists => pg.merge(&mut self.core, gone, range, pool, at, meta),
                _ => {
                    // It was not clean here, so that others have it.
                    if let Some(gone) = gone.filter(|gone| gone.exists) {
                        self.core.commit(CommitFor::Resize, Transaction::remove(gone.collection()));
                    }
                }
            }
        }
        let is_behind = |pg: &Pg| pg.id.pool == id && pg.info.pg_num > pool.pg_num && pg.info.resized_at < at;
        for pg in self.pgs.values_mut().filter(|pg| is_behind(pg)) {
            (pg.info.pg_num, pg.info.resized_at) = (pool.pg_num, at);
            if pg.exists {
                let mut t = pg.transaction();
                pg.put_info(&mut t);
                self.core.commit(CommitFor::Resize, t);
            }
        }
    }

    /// Takes a PG out that is to be merged; its clients find the other by the map, once that is followed.
    fn take_source(&mut self, id: PgId) -> Option<Pg> {
        let mut pg = self.pgs.remove(&id)?;
        pg.end_interval(&mut self.core);
        self.left.extend(pg.waiting.drain(..));
        self.core.wishes.forget(id);
        Some(*pg)
    }

    /// A split or merge is durable.
    pub(crate) fn resized(&mut self) {
        if self.life.maps_unstored && !self.core.is_resizing() {
            self.store_maps();
        }
    }

    /// Takes note of whether merges are pending.
    pub(crate) fn follow_merges(&mut self) {
        let pending = self.core.map.pools.values().any(|pool| pool.pg_num_pending < pool.pg_num);
        let since = self.life.merges_since.filter(|_| pending);
        self.life.merges_since = since.or(pending.then_some(self.core.now));
    }

    /// Tells the monitor of the merges whose source this OSD leads.
    pub(crate) fn say_of_merges(&mut self) {
        let (now, Some(since)) = (self.core.now, self.life.merges_since) else { return };
        if now < self.life.merge_said + ASK_AGAIN / 8 {
            return;
        }
        self.life.merge_said = now;
        let pending = |pool: &PgPool| pool.pg_num_pending < pool.pg_num;
        let pools = self.core.map.pools.iter().filter(|(_, pool)| pending(pool));
        let sources: Vec<PgId> = pools.map(|(id, pool)| PgId::new(*id, pool.pg_num - 1)).collect();
        for source in sources {
            if !self.pgs.get(&source).is_some_and(|pg| pg.is_primary()) {
                continue;
            }
            let ready = self.ready_to_merge(source);
            if let Some(message) = ready.or_else(|| (now >= since + MERGE_WAIT).then(|| self.not_ready(source))) {
                self.mon.send(Envelope::new(message));
            }
        }
    }

    fn not_ready(&self, source: PgId) -> OsdPgReadyToMerge {
        OsdPgReadyToMerge {
            paxos: self.paxos(),
            source,
            source_version: EVersion::default(),
            target_version: EVersion::default(),
            last_epoch_started: Epoch(0),
            last_epoch_clean: Epoch(0),
            ready: false,
        }
    }

    /// What to say of a PG and the one it is to be merged into, once both are clean here, on the same members.
    fn ready_to_merge(&self, source: PgId) -> Option<OsdPgReadyToMerge> {
        let (from, into) = (self.pgs.get(&source)?, self.pgs.get(&merge_target(source))?);
        let settled = |pg: &Pg| pg.is_at_rest() && !pg.is_active() && pg.missing.is_empty();
        if !settled(from) || !settled(into) || from.sets.acting != into.sets.acting {
            return None;
        }
        Some(OsdPgReadyToMerge {
            source_version: from.info.last_update,
            target_version: into.info.last_update,
            last_epoch_started: from.info.last_epoch_started.max(into.info.last_epoch_started),
            last_epoch_clean: from.info.last_epoch_clean.min(into.info.last_epoch_clean),
            ready: true,
            ..self.not_ready(source)
        })
    }
}
