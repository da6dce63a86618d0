//! Two PGs that become one: the source's objects join the target's, on each holder by itself.
//!
//! Before, the map has said that it will be so: neither serves, both have become clean on the same members, and the map
//! that merges them names the versions at which that was (`PgMergeMeta`). A holder that has both, complete and at those
//! versions, has the whole; its log begins anew behind both, and the old entries are only remembered, so that resent
//! requests are recognised. Any other holder has something else, and is filled.
//!
//! Follows Ceph v16.2 `src/osd/PeeringState.cc` (`merge_from`) and `src/osd/PGLog.h` (`merge_from`).
//!
//! Invariant: holders of the whole come to the same record but for what they remember.

use super::Pg;
use super::info::{LastBackfill, PgInfo};
use super::log::{LogEntry, PgLog};
use crate::core::{CommitFor, Core};
use base::{Bug, EVersion, Epoch};
use maps::PgPool;
use maps::pool::PgMergeMeta;
use store::{HashRange, Op, Part};
use wire::osd::OsdReqId;

impl Pg {
    /// Whether this holder has all of it at this version.
    fn is_whole_at(&self, version: EVersion) -> bool {
        let same = self.info.last_update == version || Bug::MergeOfUnequals.is_planted();
        self.exists && same && self.info.last_backfill.is_max() && self.missing.is_empty()
    }

    /// Takes the source in, of which the objects of `range` are: its pool is `pool` since the map `at`. `meta` is what
    /// that map says of this merge, where it does.
    pub fn merge(
        &mut self,
        core: &mut Core,
        source: Option<Pg>,
        range: HashRange,
        pool: &PgPool,
        at: Epoch,
        meta: Option<&PgMergeMeta>,
    ) {
        self.end_interval(core);
        (self.info.pg_num, self.info.resized_at) = (pool.pg_num, at);
        if !self.exists {
            return;
        }
        let source = source.filter(|source| source.exists);
        let mut t = self.transaction();
        let aside = self.log.left_aside().into_iter().chain(source.iter().flat_map(|source| source.log.left_aside()));
        aside.for_each(|object| t.push(&object.staged(), Op::Remove));
        t.parts.extend(source.iter().map(|source| Part::Merge { range, source: source.collection() }));
        let whole = meta
            .zip(source.as_ref())
            .filter(|(meta, source)| self.is_whole_at(meta.target_version) && source.is_whole_at(meta.source_version));
        let log = match whole {
            Some((meta, source)) => self.join(source, meta, at),
            None => {
                // Who was active before is for those to say who have the whole: what is not whole binds nobody.
                (self.info.last_backfill, self.info.last_epoch_started) = (LastBackfill::nothing(), Epoch(0));
                PgLog::default()
            }
        };
        self.missing.clear_and_store(&mut t);
        self.info.unsettled = true;
        self.adopt_log(log);
        self.log.store(&mut t);
        self.put_info(&mut t);
        core.commit(CommitFor::Resize, t);
        core.stats_changed = true;
    }

    /// The record of both, and the log that goes on from there.
    fn join(&mut self, source: &Pg, meta: &PgMergeMeta, at: Epoch) -> PgLog {
        let mut totals = self.info.totals;
        totals.change(Default::default(), source.info.totals);
        self.info = PgInfo {
            last_user_version: self.info.last_user_version.max(source.info.last_user_version),
            last_epoch_started: meta.last_epoch_started,
            last_epoch_clean: meta.last_epoch_clean,
            totals,
            ..self.info.clone()
        };
        let version = meta.source_version.version.max(meta.target_version.version) + 1;
        let both = self.log.all().chain(source.log.all());
        let both = both.filter(|entry| entry.reqid() != OsdReqId::default());
        let mut entries: Vec<LogEntry> = both.map(|entry| entry.open()).collect();
        entries.sort_by_key(|entry| entry.version);
        // Both may have used a version; what is only remembered may as well have another.
        let mut last = EVersion::default();
        for entry in &mut entries {
            if entry.version <= last {
                entry.version = EVersion { version: last.version + 1, ..last };
            }
            last = entry.version;
        }
        let mut log = PgLog::new(EVersion::new(at, version), entries).expect("they were put in order");
        log.set_totals(totals);
        log
    }
}
