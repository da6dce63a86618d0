//! What this OSD reports of itself and the PGs it leads (`MPGStats`), and when.
//!
//! States are named as Ceph's (v16.2 `src/osd/PeeringState.cc`); counts are those of the PG's log entries, so that
//! every member would report the same.

use crate::core::{BadReads, Core};
use crate::limits::{STATS_INTERVAL_BUSY, STATS_INTERVAL_MIN};
use crate::pg::peering::Step;
use crate::pg::reservation::{Reservation, Step as SlotStep};
use crate::pg::{Pg, Role};
use base::hash::FixedHashMap;
use base::{Duration, Instant, PgId};
use maps::stats::{InvalidStats, ObjectStatCollection, ObjectStatSum, OsdStat, PerfStat, PgStat, PgState, StoreStatfs};
use std::collections::BTreeMap;
use wire::Encode;
use wire::messages::{PaxosHead, PgStats, Sealed, SlotWork};
use wire::types::UTime;

/// Decides when to report.
#[derive(Debug)]
pub struct Reporter {
    interval: Duration,
    last: Instant,
    sent: u64,
    perf: PerfStat,
}

impl Reporter {
    /// Reports every `interval`, and soon after changes.
    pub fn new(interval: Duration) -> Reporter {
        Reporter { interval, last: Instant::ZERO, sent: 0, perf: PerfStat::default() }
    }

    /// When the next report is due.
    pub fn due(&self, core: &Core) -> Instant {
        self.last
            + if core.stats_changed {
                STATS_INTERVAL_MIN
            } else if core.counts_changed {
                STATS_INTERVAL_BUSY.min(self.interval)
            } else {
                self.interval
            }
    }

    /// The report, if it is due.
    pub fn report(&mut self, core: &mut Core, pgs: &mut FixedHashMap<PgId, Box<Pg>>) -> Option<PgStats> {
        if core.now < self.due(core) {
            return None;
        }
        (core.stats_changed, core.counts_changed) = (false, false);
        self.last = core.now;
        self.sent += 1;
        let latency_ms = core.take_commit_latency_ms();
        // A store makes a transaction readable no later than durable; the memory store both at once.
        self.perf = PerfStat { commit_latency_ms: latency_ms, apply_latency_ms: latency_ms };
        let pg_stats = pgs.values_mut().filter(|pg| pg.is_primary());
        let pg_stats = pg_stats.map(|pg| (pg.id, Sealed(pg_stat(core, pg).to_bytes()))).collect();
        let by_pool = room_by_pool(pgs);
        let pool_stats = by_pool.iter().map(|(pool, room)| (*pool, Sealed(room.to_bytes()))).collect();
        Some(PgStats {
            paxos: PaxosHead::new(u64::from(core.epoch().0)),
            fsid: core.config.fsid,
            osd_stat: Sealed(self.osd_stat(core, pgs, &by_pool).to_bytes()),
            pg_stats,
            epoch: core.epoch(),
            had_map_for: UTime::default(),
            pool_stats,
        })
    }

    fn osd_stat(
        &self,
        core: &Core,
        pgs: &FixedHashMap<PgId, Box<Pg>>,
        by_pool: &BTreeMap<i64, StoreStatfs>,
    ) -> OsdStat {
        let stored: i64 = by_pool.values().map(|room| room.allocated).sum();
        // A store on a device knows better: objects take whole blocks there, and what was overwritten leaves late.
        let used = stored.max(i64::try_from(core.store_used).unwrap_or(i64::MAX));
        let used = core.rooms.to_be_reported(used.unsigned_abs()).cast_signed();
        let room = StoreStatfs {
            total: core.config.store_bytes,
            available: core.config.store_bytes.saturating_sub(used.unsigned_abs()),
            allocated: used,
            data_stored: stored,
            ..StoreStatfs::default()
        };
        let up_from = core.map.info(core.me()).map_or_else(Default::default, |info| info.up_from);
        OsdStat {
            hb_peers: core.heartbeats.watched().collect(),
            up_from,
            perf: self.perf,
            seq: u64::from(up_from.0) << 32 | self.sent,
            os_alerts: alerts(core),
            num_pgs: pgs.values().filter(|pg| pg.sets.acting.contains(&core.me())).count() as u32,
            ..OsdStat::of_store(room)
        }
    }

    /// The number of the newest report, for `flush_pg_stats`.
    pub fn seq(&self, core: &Core) -> u64 {
        let up_from = core.map.info(core.me()).map_or(0, |info| info.up_from.0);
        u64::from(up_from) << 32 | self.sent
    }
}

/// What the monitor warns of, by OSD and code, in the manner of Ceph's stores (v16.2 `src/os/bluestore/BlueStore.cc`,
/// `_log_alerts`). The code is ours: Ceph has one for reads that went well the second time only.
fn alerts(core: &Core) -> BTreeMap<i32, BTreeMap<String, String>> {
    let bad = core.bad_reads;
    if bad == BadReads::default() {
        return BTreeMap::new();
    }
    let text = format!("{} reads found what had not been written, {} failed", bad.corrupt, bad.failed);
    BTreeMap::from([(core.me().0, BTreeMap::from([("EXTENT_READ_ERRORS".to_owned(), text)]))])
}

fn room_by_pool(pgs: &FixedHashMap<PgId, Box<Pg>>) -> BTreeMap<i64, StoreStatfs> {
    let mut by_pool: BTreeMap<i64, StoreStatfs> = BTreeMap::new();
    for pg in pgs.values() {
        let room = by_pool.entry(pg.id.pool.0).or_default();
        room.allocated += pg.info.totals.bytes as i64;
        room.data_stored += pg.info.totals.bytes as i64;
    }
    by_pool
}

/// The state of a PG as its primary sees it.
pub fn pg_state(core: &Core, pg: &Pg) -> PgState {
    let size = core.map.pool(pg.id.pool).map_or(0, |pool| usize::from(pool.size));
    let undersized = pg.sets.acting.len() < size;
    let never_served = core.placement.get(pg.id).is_some_and(|h| h.born_known && h.past.is_empty());
    let creating = never_served && pg.info.last_epoch_started.0 == 0;
    let creating = if creating { PgState::CREATING } else { PgState::default() };
    let trims = || pg.snaps.turn.is_some() || core.trims.pauses(pg.id);
    let mut state = match &pg.role {
        Role::Active(_) if undersized || !pg.is_clean() => PgState::ACTIVE,
        Role::Active(_) if pg.snaps.failed => PgState::ACTIVE.with(PgState::CLEAN).with(PgState::SNAPTRIM_ERROR),
        Role::Active(_) if trims() => PgState::ACTIVE.with(PgState::CLEAN).with(PgState::SNAPTRIM),
        Role::Active(_) if pg.snaps.has_to_trim() => PgState::ACTIVE.with(PgState::CLEAN).with(PgState::SNAPTRIM_WAIT),
        Role::Active(_) => PgState::ACTIVE.with(PgState::CLEAN),
        Role::Peering(peering) => match &peering.step {
            Step::Down(stuck) if stuck.blocked_by.is_empty() => PgState::INCOMPLETE,
            Step::Down(_) => PgState::DOWN,
            Step::Activating { .. } => PgState::ACTIVATING.with(creating),
            Step::Asking(_) | Step::Remapping | Step::Fetching(_) | Step::Promising => PgState::PEERING.with(creating),
        },
        Role::Peered(_) if core.map.pool(pg.id.pool).is_some_and(|pool| pool.is_premerge(pg.id)) => {
            let clean = if pg.is_at_rest() { PgState::CLEAN } else { PgState::default() };
            PgState::PEERED.with(PgState::PREMERGE).with(clean)
        }
        Role::Peered(_) => PgState::PEERED,
        Role::Waiting | Role::Replica(..) => PgState::default(),
    };
    // Of one that is down or incomplete nothing is known that would have a size.
    let undersized = undersized && pg.stuck().is_none();
    if undersized {
        state = state.with(PgState::UNDERSIZED);
    }
    if pg.is_laggy(core) {
        state = state.with(PgState::LAGGY);
    }
    state = state.with(scrub_state(pg));
    if matches!(pg.role, Role::Active(_) | Role::Peered(_)) {
        let lacking = pg.lacking(core);
        if lacking.degraded > 0 || undersized && pg.info.totals.objects > 0 {
            state = state.with(PgState::DEGRADED);
        }
        state = state.with(recovery_state(pg, lacking.unfound > 0));
    } else if undersized && pg.info.totals.objects > 0 {
        state = state.with(PgState::DEGRADED);
    }
    if pg.sets.up != pg.sets.acting {
        state = state.with(PgState::REMAPPED);
    }
    state
}

/// What scrubs do to a PG, and have found.
fn scrub_state(pg: &Pg) -> PgState {
    let mut state = PgState::default();
    if let Some(kind) = pg.scrubbing.kind() {
        state = state.with(PgState::SCRUBBING);
        state = if kind.deep { state.with(PgState::DEEP_SCRUB) } else { state };
        state = if kind.repair { state.with(PgState::REPAIR) } else { state };
    }
    let errors = pg.info.scrubs.errors() > 0;
    state = if errors { state.with(PgState::INCONSISTENT) } else { state };
    if errors && pg.scrubbing.failed_repair { state.with(PgState::FAILED_REPAIR) } else { state }
}

/// What recovery does to a PG.
fn recovery_state(pg: &Pg, unfound: bool) -> PgState {
    if pg.recovery.complete {
        return PgState::default();
    }
    let mut state = match &pg.recovery.reservation {
        Some(Reservation { work: SlotWork::Backfill, step, .. }) => match step {
            SlotStep::Reserved => PgState::BACKFILLING,
            SlotStep::TooFull => PgState::BACKFILL_TOOFULL,
            SlotStep::Local | SlotStep::Remote(_) => PgState::BACKFILL_WAIT,
        },
        Some(Reservation { step, .. }) => match step {
            SlotStep::Reserved => PgState::RECOVERING,
            SlotStep::TooFull => PgState::RECOVERY_TOOFULL,
            SlotStep::Local | SlotStep::Remote(_) => PgState::RECOVERY_WAIT,
        },
        None => match (pg.recovery.is_filling(), unfound && !pg.recovery.is_working()) {
            (true, true) => PgState::BACKFILL_UNFOUND,
            (false, true) => PgState::RECOVERY_UNFOUND,
            (true, false) if pg.missing.is_empty() => PgState::BACKFILL_WAIT,
            (_, false) => PgState::RECOVERY_WAIT,
        },
    };
    let forced = [(pg.forced.recovery, PgState::FORCED_RECOVERY), (pg.forced.backfill, PgState::FORCED_BACKFILL)];
    forced.into_iter().filter(|(on, _)| *on).for_each(|(_, word)| state = state.with(word));
    state
}

/// What is counted of a PG.
fn stat_sum(core: &Core, pg: &Pg) -> ObjectStatSum {
    let size = core.map.pool(pg.id.pool).map_or(0, |pool| i64::from(pool.size));
    let (objects, counters) = (pg.info.totals.objects as i64, &pg.counters);
    let lacking = pg.lacking(core);
    ObjectStatSum {
        num_bytes: pg.info.totals.bytes as i64,
        num_objects: objects,
        num_object_clones: pg.info.totals.clones as i64,
        num_object_copies: objects * size,
        num_objects_missing_on_primary: lacking.on_primary as i64,
        num_objects_missing: lacking.on_primary as i64,
        num_objects_degraded: lacking.degraded as i64,
        num_objects_misplaced: lacking.misplaced as i64,
        num_objects_unfound: lacking.unfound as i64,
        num_objects_recovered: counters.objects_recovered as i64,
        num_bytes_recovered: counters.bytes_recovered as i64,
        num_keys_recovered: counters.keys_recovered as i64,
        num_scrub_errors: pg.info.scrubs.errors() as i64,
        num_shallow_scrub_errors: pg.info.scrubs.shallow_errors as i64,
        num_deep_scrub_errors: pg.info.scrubs.deep_errors as i64,
        num_rd: counters.reads as i64,
        num_rd_kb: (counters.read_bytes >> 10) as i64,
        num_wr: counters.writes as i64,
        num_wr_kb: (counters.written_bytes >> 10) as i64,
        ..ObjectStatSum::default()
    }
}

/// The statistics of a PG that this OSD leads.
pub(crate) fn pg_stat(core: &Core, pg: &mut Pg) -> PgStat {
    pg.counters.reported += 1;
    let sum = stat_sum(core, pg);
    let state = pg_state(core, pg);
    let now = UTime::from(core.now);
    let since = |is: bool| if is { now } else { UTime::from(pg.last_change) };
    let active = state.contains(PgState::ACTIVE);
    let blocked_by = match &pg.role {
        Role::Peering(peering) => peering.blocked_by().into_iter().collect(),
        _ => Vec::new(),
    };
    PgStat {
        version: pg.info.last_update,
        reported_seq: pg.counters.reported,
        reported_epoch: core.epoch(),
        state,
        log_start: pg.log.tail(),
        ondisk_log_start: pg.log.tail(),
        created: core.placement.get(pg.id).map_or_else(Default::default, |h| h.known_since),
        last_epoch_clean: pg.info.last_epoch_clean,
        last_scrub: pg.info.scrubs.last,
        last_scrub_stamp: pg.info.scrubs.stamp,
        last_deep_scrub: pg.info.scrubs.last_deep,
        last_deep_scrub_stamp: pg.info.scrubs.deep_stamp,
        last_clean_scrub_stamp: pg.info.scrubs.clean_stamp,
        invalid: InvalidStats { all: pg.info.unsettled, ..InvalidStats::default() },
        stats: ObjectStatCollection { sum, ..ObjectStatCollection::default() },
        log_size: pg.log.len() as i64,
        ondisk_log_size: pg.log.len() as i64,
        up: pg.sets.up.clone(),
        acting: pg.sets.acting.clone(),
        up_primary: pg.sets.up_primary,
        acting_primary: pg.sets.acting_primary,
        last_fresh: now,
        last_change: UTime::from(pg.last_change),
        last_active: since(active),
        last_peered: since(active || state.contains(PgState::PEERED)),
        last_clean: since(state.contains(PgState::CLEAN)),
        last_unstale: now,
        last_undegraded: since(!state.contains(PgState::DEGRADED)),
        last_fullsized: since(!state.contains(PgState::UNDERSIZED)),
        last_became_active: UTime::from(pg.last_active),
        last_became_peered: UTime::from(pg.last_active),
        mapping_epoch: pg.since,
        blocked_by,
        snaptrimq_len: u32::try_from(pg.snaps.to_trim().size()).unwrap_or(u32::MAX),
        purged_snaps: pg.snaps.purged.clone(),
        ..PgStat::default()
    }
}
