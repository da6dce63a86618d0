//! A PG's objects, log, missing set and record divided among it and the PGs that its pool has got beside it.
//!
//! Each holder divides what it holds by itself, as soon as it knows of the map: objects change their collection by ranges
//! of their hashes, in one transaction with the records of all parts (`store::Part`), so that a power cut leaves the
//! whole or all parts. The record says for how many PGs it was last done (`pg_num`), which is how a start finds what is
//! still to be done. Log entries go with their objects, remembered ones too: whoever resends a request to the new PG is
//! recognised there. All parts lead to the version that the whole did, wherever its entry went: holders remember
//! differently many old entries, and would else come to different newest ones.
//!
//! What each part holds is guessed (as Ceph does, v16.2 `src/osd/osd_types.cc`, `object_stat_sum_t::split`) until its
//! primary has counted it (`survey`).
//!
//! Invariant: holders with the same log come to the same parts.

use super::Pg;
use super::log::{LogEntry, PgLog, log_key, log_object};
use super::missing::missing_object;
use crate::core::{CommitFor, Core};
use base::{Bug, Epoch, PgId};
use maps::PgPool;
use maps::pool::ancestor;
use store::{HashRange, ObjectId, Op, Part, Transaction};
use wire::Encode;

impl Pg {
    /// Divides it: its pool had `old` PGs and has those of `pool` since the map `at`. Gives the new ones, which begin with the next
    /// interval.
    pub fn split(&mut self, core: &mut Core, old: u32, pool: &PgPool, at: Epoch) -> Vec<Pg> {
        (self.info.pg_num, self.info.resized_at) = (pool.pg_num, at);
        if pool.is_resized_to(old, self.id) {
            self.end_interval(core);
        }
        if !self.exists {
            return Vec::new();
        }
        let seeds = (old..pool.pg_num).filter(|seed| ancestor(PgId::new(self.id.pool, *seed), old) == self.id);
        let seeds: Vec<u32> = seeds.collect();
        let mut t = self.transaction();
        if !seeds.is_empty() {
            let guess = self.info.totals.divided(seeds.len() as u64 + 1);
            self.info.unsettled = true;
            let mut children = Vec::with_capacity(seeds.len());
            for seed in seeds {
                let range = HashRange::of_seed(seed, pool.split_bits(seed));
                let child = self.split_off(PgId::new(self.id.pool, seed), range, &mut t);
                children.push((child, range));
            }
            self.settle_totals(guess, &mut t);
            self.put_info(&mut t);
            let parts = children.iter_mut().map(|(child, range)| {
                child.settle_totals(guess, &mut Transaction::new(child.collection()));
                Part::Split { range: *range, child: child.whole_record() }
            });
            t.parts = parts.collect();
            core.commit(CommitFor::Resize, t);
            core.stats_changed = true;
            return children.into_iter().map(|(child, _)| child).collect();
        }
        self.put_info(&mut t);
        core.commit(CommitFor::Resize, t);
        Vec::new()
    }

    /// What belongs to one new PG; appends to the transaction what forgets it here.
    fn split_off(&mut self, id: PgId, range: HashRange, t: &mut Transaction) -> Pg {
        let moves = |object: &ObjectId| range.contains(object.reversed_hash());
        let entries = self.log.take_out(|entry| !moves(&entry.object));
        if !entries.is_empty() {
            let keys = entries.iter().map(|entry: &LogEntry| log_key(entry.version)).collect();
            t.push(&log_object(), Op::OmapRemove(keys));
        }
        let missing = self.missing.take_range(range);
        if !missing.is_empty() {
            let keys = missing.heads().map(Encode::to_bytes).collect();
            t.push(&missing_object(), Op::OmapRemove(keys));
        }
        let entries = if Bug::SplitForgetsRequests.is_planted() { Vec::new() } else { entries };
        let log = PgLog::new(self.log.tail(), entries).and_then(|log| log.leading_to(self.log.head()));
        let log = log.expect("a part of a log is in order");
        let missing = if Bug::SplitForgetsMissing.is_planted() { Default::default() } else { missing };
        let mut child = Pg { exists: true, info: self.info.clone(), missing, ..Pg::new(id) };
        child.adopt_log(log);
        child
    }

    /// The record follows the log as it is now, and both say that the PG holds this much.
    fn settle_totals(&mut self, totals: super::info::Totals, t: &mut Transaction) {
        if let Some(newest) = self.log.set_totals(totals) {
            t.push(&log_object(), Op::OmapSet(vec![(log_key(newest.version), newest.to_bytes())]));
        }
        self.info.totals = totals;
        self.info.last_update = self.log.head();
    }

    /// All records of a new PG.
    fn whole_record(&self) -> Transaction {
        let mut t = Transaction::create(self.collection());
        self.log.store(&mut t);
        if !self.missing.is_empty() {
            t.push(&missing_object(), Op::OmapSet(self.missing.to_entries()));
        }
        self.put_info(&mut t);
        t
    }
}
