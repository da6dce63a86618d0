//! What is checked: OSDs, the map, pools and placement groups.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc` (`OSDMap::check_health`) and `src/mon/PGMap.cc` (`get_health_checks`): codes,
//! texts and thresholds are Ceph's, but that a starting monitor does not wait before it speaks of placement groups that
//! do not serve: who waits for HEALTH_OK waits for them.
//!
//! Read next: `services::health`, which keeps mutes and tells the log.

use crate::crush_view;
use crate::mon::Mon;
use crate::services::health::{Check, Checks, Severity};
use crate::services::log::LogLevel as ClusterLevel;
use crate::services::stats::all_pgs;
use base::{Duration, Instant, OsdId, PgId};
use maps::osd_map::MapFlags;
use maps::pool::PoolFlags;
use maps::pool_options::OptionKey;
use maps::stats::{PgStat, PgState};
use maps::{OsdMap, OsdState};
use std::collections::{BTreeMap, BTreeSet};

/// A group that is not as it should be for longer than this is stuck (`mon_pg_stuck_threshold`).
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// How many placement groups a check lists (`mon_health_max_detail`).
const DETAIL_MAX: usize = 50;

/// How many daemons with slow operations a summary names.
const SLOW_DAEMONS_NAMED_MAX: usize = 10;

/// The alerts of stores: Ceph's code or, where it has none, ours, and what it says of an OSD.
const STORE_ALERTS: [(&str, &str); 2] = [
    ("BLUESTORE_SPURIOUS_READ_ERRORS", "have spurious read errors"),
    ("EXTENT_READ_ERRORS", "cannot read all that they hold"),
];

fn warn(summary: String, detail: Vec<String>) -> Check {
    let count = detail.len().max(1) as u64;
    Check { severity: Severity::Warn, summary, detail, count }
}

fn error(summary: String, detail: Vec<String>) -> Check {
    Check { severity: Severity::Error, ..warn(summary, detail) }
}

impl Mon {
    /// Everything that is wrong now.
    pub(crate) fn health_checks(&self, now: Instant) -> Checks {
        let mut checks = Checks::new();
        self.check_osds(&mut checks);
        self.check_flags(&mut checks);
        self.check_fullness(&mut checks);
        self.check_pools(&mut checks);
        self.check_pgs(now, &mut checks);
        self.check_scrubs(now, &mut checks);
        self.check_settings(&mut checks);
        self.check_promises(&mut checks);
        self.check_slow_ops(&mut checks);
        self.check_store_alerts(&mut checks);
        checks
    }

    /// Tells the cluster log what changed, and ends mutes.
    pub(crate) fn watch_health(&mut self, now: Instant) {
        let checks = self.health_checks(now);
        self.health.expire_mutes(now, &checks);
        for (severity, line) in self.health.changes(&checks) {
            let level = match severity {
                Severity::Ok => ClusterLevel::INFO,
                Severity::Warn => ClusterLevel::WARN,
                Severity::Error => ClusterLevel::ERROR,
            };
            self.cluster_log(now, level, "cluster", line);
        }
    }

    fn check_osds(&self, checks: &mut Checks) {
        let map = self.osds.map();
        let down: Vec<OsdId> = map.osd_ids().filter(|o| map.is_down(*o) && map.is_in(*o)).collect();
        if !down.is_empty() {
            let lines =
                down.iter().map(|o| format!("osd.{o} ({}) is down", crush_view::location_text(&map.crush, o.0)));
            checks.insert("OSD_DOWN", warn(format!("{} osds down", down.len()), lines.collect()));
            self.check_subtrees(map, &down, checks);
        }
        let counts = map.osd_counts();
        let wanted = self.option_number("osd_pool_default_size") as usize;
        if counts.exist < wanted && self.option_bool("mon_warn_on_too_few_osds") {
            let summary = format!("OSD count {} < osd_pool_default_size {wanted}", counts.exist);
            checks.insert("TOO_FEW_OSDS", warn(summary, vec![]));
        }
    }

    /// Whole hosts and larger parts of the tree that are down.
    fn check_subtrees(&self, map: &OsdMap, down: &[OsdId], checks: &mut Checks) {
        const CODES: [(&str, &str); 3] =
            [("host", "OSD_HOST_DOWN"), ("rack", "OSD_RACK_DOWN"), ("root", "OSD_ROOT_DOWN")];
        for (kind, code) in CODES {
            let buckets: BTreeSet<i32> =
                down.iter().filter_map(|o| crush_view::ancestor_of_type(&map.crush, o.0, kind)).collect();
            let (mut lines, mut osds) = (Vec::new(), 0);
            for bucket in buckets {
                let below: Vec<OsdId> =
                    crush_view::osds_below(&map.crush, bucket).into_iter().filter(|o| map.is_in(*o)).collect();
                if below.is_empty() || below.iter().any(|o| map.is_up(*o)) {
                    continue;
                }
                osds += below.len();
                let name = map.crush.item_name(bucket).unwrap_or_default();
                let place = crush_view::location_text(&map.crush, bucket);
                lines.push(format!("{kind} {name} ({place}) ({} osds) is down", below.len()));
            }
            if !lines.is_empty() {
                checks.insert(code, warn(format!("{} {kind} ({osds} osds) down", lines.len()), lines));
            }
        }
    }

    /// Tenants who do not get what they were promised. The code is ours.
    fn check_promises(&self, checks: &mut Checks) {
        let mut lines = self.broken_promises();
        if !lines.is_empty() {
            lines.truncate(DETAIL_MAX);
            checks.insert("TENANT_PROMISES", warn("Tenants are promised what cannot be kept".to_owned(), lines));
        }
    }

    fn check_flags(&self, checks: &mut Checks) {
        let map = self.osds.map();
        let warned = MapFlags(map.flags.0)
            .without(MapFlags::SORTBITWISE.with(MapFlags::RECOVERY_DELETES).with(MapFlags::PURGED_SNAPDIRS))
            .without(MapFlags::PGLOG_HARDLIMIT.with(MapFlags::NEARFULL).with(MapFlags::FULL));
        let names: Vec<&str> = warned.names().collect();
        if !names.is_empty() {
            let check = warn(format!("{} flag(s) set", names.join(",")), vec![]);
            checks.insert("OSDMAP_FLAGS", Check { count: names.len() as u64, ..check });
        }
        let bits = OsdState::NOUP.with(OsdState::NODOWN).with(OsdState::NOIN).with(OsdState::NOOUT);
        let mut lines: Vec<String> = (map.osd_ids())
            .filter(|o| map.state(*o).0 & bits.0 != 0)
            .map(|o| {
                let names: Vec<&str> = OsdState(map.state(o).0 & bits.0).names().collect();
                format!("osd.{o} has flags {}", names.join(","))
            })
            .collect();
        for (node, flags) in &map.crush_node_flags {
            let names: Vec<&str> = OsdState(*flags).names().collect();
            lines.push(format!("{} has flags {}", map.crush.item_name(*node).unwrap_or("?"), names.join(",")));
        }
        for (class, flags) in &map.device_class_flags {
            let names: Vec<&str> = OsdState(*flags).names().collect();
            let class = map.crush.class_name(*class).unwrap_or("?");
            lines.push(format!("device class '{class}' has flags {}", names.join(",")));
        }
        if !lines.is_empty() {
            let summary = format!(
                "{} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set",
                lines.len()
            );
            checks.insert("OSD_FLAGS", warn(summary, lines));
        }
    }

    fn check_fullness(&self, checks: &mut Checks) {
        let map = self.osds.map();
        let (mut full, mut backfillfull, mut nearfull) = (Vec::new(), Vec::new(), Vec::new());
        for osd in map.osd_ids().filter(|o| map.is_in(*o)) {
            let used = self.stats.osd(osd).map_or(0.0, |stat| stat.statfs.used_ratio());
            let state = map.state(osd);
            let is = |bit: OsdState, ratio: f32| state.contains(bit) || (ratio > 0.0 && used >= f64::from(ratio));
            if is(OsdState::FULL, map.full_ratio) {
                full.push(format!("osd.{osd} is full"));
            } else if is(OsdState::BACKFILLFULL, map.backfillfull_ratio) {
                backfillfull.push(format!("osd.{osd} is backfill full"));
            } else if is(OsdState::NEARFULL, map.nearfull_ratio) {
                nearfull.push(format!("osd.{osd} is near full"));
            }
        }
        if !full.is_empty() {
            checks.insert("OSD_FULL", error(format!("{} full osd(s)", full.len()), full));
        }
        if !backfillfull.is_empty() {
            checks
                .insert("OSD_BACKFILLFULL", warn(format!("{} backfillfull osd(s)", backfillfull.len()), backfillfull));
        }
        if !nearfull.is_empty() {
            checks.insert("OSD_NEARFULL", warn(format!("{} nearfull osd(s)", nearfull.len()), nearfull));
        }
    }

    fn check_pools(&self, checks: &mut Checks) {
        let map = self.osds.map();
        let (mut no_app, mut full, mut single, mut pgp) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut backfillfull, mut nearfull) = (Vec::new(), Vec::new());
        for (id, pool) in &map.pools {
            let name = map.pool_name(*id).unwrap_or_default();
            if pool.applications.is_empty() && self.stats.pool_sum(*id).objects() > 0 {
                no_app.push(format!("application not enabled on pool '{name}'"));
            }
            if pool.flags.contains(PoolFlags::FULL) {
                let quota = pool.flags.contains(PoolFlags::FULL_QUOTA);
                let why = if quota { "running out of quota" } else { "no space" };
                full.push(format!("pool '{name}' is full ({why})"));
            } else if pool.flags.contains(PoolFlags::BACKFILLFULL) {
                backfillfull.push(format!("pool '{name}' is backfillfull"));
            } else if pool.flags.contains(PoolFlags::NEARFULL) {
                nearfull.push(format!("pool '{name}' is nearfull"));
            }
            if pool.size == 1 {
                single.push(format!("pool '{name}' has no replicas configured"));
            }
            if pool.pgp_num < pool.pg_num {
                pgp.push(format!("pool '{name}' pg_num {} > pgp_num {}", pool.pg_num, pool.pgp_num));
            }
        }
        if !no_app.is_empty() && self.option_bool("mon_warn_on_pool_no_app") {
            let summary = format!("{} pool(s) do not have an application enabled", no_app.len());
            no_app.push(
                "use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', 'rgw', or freeform for custom applications."
                    .to_owned(),
            );
            let count = no_app.len() as u64 - 1;
            checks.insert("POOL_APP_NOT_ENABLED", Check { count, ..warn(summary, no_app) });
        }
        if !full.is_empty() {
            checks.insert("POOL_FULL", warn(format!("{} pool(s) full", full.len()), full));
        }
        if !backfillfull.is_empty() {
            let summary = format!("{} pool(s) backfillfull", backfillfull.len());
            checks.insert("POOL_BACKFILLFULL", warn(summary, backfillfull));
        }
        if !nearfull.is_empty() {
            checks.insert("POOL_NEARFULL", warn(format!("{} pool(s) nearfull", nearfull.len()), nearfull));
        }
        if !single.is_empty() && self.option_bool("mon_warn_on_pool_no_redundancy") {
            let summary = format!("{} pool(s) have no replicas configured", single.len());
            checks.insert("POOL_NO_REDUNDANCY", warn(summary, single));
        }
        if !pgp.is_empty() {
            checks.insert("SMALLER_PGP_NUM", warn(format!("{} pools have pg_num > pgp_num", pgp.len()), pgp));
        }
    }

    /// Since when a group has been in a state that it may pass through; none for states that are trouble at once.
    fn trouble_since(&self, stat: &PgStat, word: &str, created: Instant) -> Option<Instant> {
        let at = match word {
            "inactive" => stat.last_active,
            "peering" => stat.last_peered,
            "stale" => stat.last_unstale,
            "undersized" => stat.last_fullsized,
            _ => return None,
        };
        Some(Instant::from(at).max(created))
    }

    fn check_settings(&self, checks: &mut Checks) {
        let map = self.osds.map();
        if self.option("mon_osd_down_out_interval") == "0" && self.option_bool("mon_warn_on_osd_down_out_interval_zero")
        {
            let summary = format!("mon.{} has mon_osd_down_out_interval set to 0", self.config.name);
            checks.insert("OSD_NO_DOWN_OUT_INTERVAL", warn(summary, vec![]));
        }
        let ignored: Vec<String> =
            self.ignored_queue_settings().into_iter().filter(|ignored| ignored.matters).map(|i| i.text).collect();
        if !ignored.is_empty() {
            let summary = format!("{} mClock setting(s) have no effect under a built-in profile", ignored.len());
            checks.insert("OSD_MCLOCK_SETTINGS_IGNORED", warn(summary, ignored));
        }
        let osds = map.osd_counts().r#in as u64;
        let max = self.option_number("mon_max_pg_per_osd") as u64;
        let pgs: u64 = map.pools.values().map(|p| u64::from(p.pg_num) * u64::from(p.size)).sum();
        if osds > 0 && max > 0 && pgs / osds > max {
            checks.insert("TOO_MANY_PGS", warn(format!("too many PGs per OSD ({} > max {max})", pgs / osds), vec![]));
        }
    }

    /// Requests that take too long (v16.2 `src/mgr/DaemonHealthMetricCollector.cc`); exporters read the text.
    fn check_slow_ops(&self, checks: &mut Checks) {
        let slow: Vec<_> = self.daemon_reports.osds().filter(|(_, report)| report.slow_ops.0 > 0).collect();
        let count: u64 = slow.iter().map(|(_, report)| u64::from(report.slow_ops.0)).sum();
        let oldest = slow.iter().map(|(_, report)| report.slow_ops.1).max().unwrap_or(0);
        let names: Vec<String> =
            slow.iter().take(SLOW_DAEMONS_NAMED_MAX).map(|(osd, _)| format!("osd.{osd}")).collect();
        let who = match slow.len() {
            0 => return,
            1 => format!("{} has slow ops", names[0]),
            n if n > SLOW_DAEMONS_NAMED_MAX => format!("daemons [{}]... have slow ops.", names.join(",")),
            _ => format!("daemons [{}] have slow ops.", names.join(",")),
        };
        let check = warn(format!("{count} slow ops, oldest one blocked for {oldest} sec, {who}"), vec![]);
        checks.insert("SLOW_OPS", Check { count, ..check });
    }

    /// What the OSDs' stores warn of (`os_alerts`).
    fn check_store_alerts(&self, checks: &mut Checks) {
        let map = self.osds.map();
        let up = self.stats.osds().filter(|(osd, _)| map.is_up(*osd));
        let mut found: BTreeMap<&str, BTreeMap<i32, &str>> = BTreeMap::new();
        for (osd, alerts) in up.flat_map(|(_, stat)| &stat.os_alerts) {
            for (code, text) in alerts {
                found.entry(code).or_default().insert(*osd, text);
            }
        }
        for (code, osds) in found {
            // Of others' stores than ours this one knows no code.
            let Some((code, meaning)) = STORE_ALERTS.iter().find(|(known, _)| *known == code) else { continue };
            let lines = osds.iter().map(|(osd, text)| format!(" osd.{osd} {text}")).collect();
            checks.insert(code, warn(format!("{} OSD(s) {meaning}", osds.len()), lines));
        }
    }

    fn check_pgs(&self, now: Instant, checks: &mut Checks) {
        let map = self.osds.map();
        let mut found: BTreeMap<&'static str, Trouble> = BTreeMap::new();
        for pg in all_pgs(map) {
            let stat = self.stats.stat_or_unknown(map, pg);
            let created = map.pool(pg.pool).map_or(Instant::ZERO, |p| p.create_time.into());
            for (code, word) in troubles_of(&stat) {
                let since = self.trouble_since(&stat, word, created);
                // States that placement groups pass through are worth a word once they last; at a monitor's start
                // they are, too, for nobody knows yet how long they have lasted.
                let starting = created < self.started && now.since(self.started) < STUCK_AFTER;
                if since.is_none_or(|since| starting || now.since(since) >= STUCK_AFTER) {
                    let span = now.since(since.unwrap_or(now).max(self.started));
                    found.entry(code).or_default().add(pg, &stat, word, span);
                }
            }
        }
        let sum = self.stats.sum();
        let counts = sum.counts();
        if counts.num_objects_degraded > 0 && counts.num_object_copies > 0 {
            let entry = found.entry("PG_DEGRADED").or_default();
            let percent = counts.num_objects_degraded as f64 * 100.0 / counts.num_object_copies as f64;
            let (degraded, copies) = (counts.num_objects_degraded, counts.num_object_copies);
            entry.prefix = format!("{degraded}/{copies} objects degraded ({percent:.3}%)");
        }
        for (code, trouble) in found {
            checks.insert(code, trouble.into_check(code));
        }
        if counts.num_objects_misplaced > 0 && counts.num_object_copies > 0 {
            let percent = counts.num_objects_misplaced as f64 * 100.0 / counts.num_object_copies as f64;
            let (misplaced, copies) = (counts.num_objects_misplaced, counts.num_object_copies);
            let summary = format!("{misplaced}/{copies} objects misplaced ({percent:.3}%)");
            checks.insert("OBJECT_MISPLACED", warn(summary, vec![]));
        }
        if counts.num_objects_unfound > 0 && counts.num_objects > 0 {
            let percent = counts.num_objects_unfound as f64 * 100.0 / counts.num_objects as f64;
            let summary =
                format!("{}/{} objects unfound ({percent:.3}%)", counts.num_objects_unfound, counts.num_objects);
            checks.insert("OBJECT_UNFOUND", warn(summary, vec![]));
        }
        if counts.num_scrub_errors > 0 {
            checks.insert("OSD_SCRUB_ERRORS", error(format!("{} scrub errors", counts.num_scrub_errors), vec![]));
        }
    }
}

impl Mon {
    /// Scrubs that should have been (v16.2 `src/mon/PGMap.cc`, `get_health_checks`).
    fn check_scrubs(&self, now: Instant, checks: &mut Checks) {
        let kinds = [
            ("PG_NOT_SCRUBBED", "scrubbed", "mon_warn_pg_not_scrubbed_ratio", "osd_scrub_max_interval"),
            ("PG_NOT_DEEP_SCRUBBED", "deep-scrubbed", "mon_warn_pg_not_deep_scrubbed_ratio", "osd_deep_scrub_interval"),
        ];
        let map = self.osds.map();
        for (code, word, ratio, interval) in kinds {
            let (ratio, general) = (self.option_number(ratio), self.option_number(interval));
            if ratio <= 0.0 {
                continue;
            }
            let deep = word == "deep-scrubbed";
            let key = if deep { OptionKey::DEEP_SCRUB_INTERVAL } else { OptionKey::SCRUB_MAX_INTERVAL };
            let mut late = Vec::new();
            for pg in all_pgs(map) {
                let stat = self.stats.stat_or_unknown(map, pg);
                let stamp = if deep { stat.last_deep_scrub_stamp } else { stat.last_scrub_stamp };
                let own = map.pool(pg.pool).and_then(|pool| pool.options.double(key)).filter(|own| *own > 0.0);
                let bearable = Duration::from_secs_f64((own.unwrap_or(general) * (1.0 + ratio)).clamp(0.0, 1e9));
                // What nobody has reported has no stamp, and other checks to fail.
                if stamp.secs > 0 && now.since(stamp.into()) > bearable {
                    let since = crate::format::quantity::local_time(stamp.into());
                    late.push(format!("pg {pg} not {word} since {since}"));
                }
            }
            if !late.is_empty() {
                let (count, summary) = (late.len() as u64, format!("{} pgs not {word} in time", late.len()));
                late.truncate(DETAIL_MAX);
                checks.insert(code, Check { count, ..warn(summary, late) });
            }
        }
    }
}

/// Which checks a placement group's state fails, and by which word.
fn troubles_of(stat: &PgStat) -> Vec<(&'static str, &'static str)> {
    let state = stat.state;
    let mut troubles = Vec::new();
    if !state.contains(PgState::ACTIVE) {
        troubles.push(("PG_AVAILABILITY", "inactive"));
    }
    let table = [
        (PgState::DOWN, "PG_AVAILABILITY", "down"),
        (PgState::INCOMPLETE, "PG_AVAILABILITY", "incomplete"),
        (PgState::PEERING, "PG_AVAILABILITY", "peering"),
        (PgState::STALE, "PG_AVAILABILITY", "stale"),
        (PgState::DEGRADED, "PG_DEGRADED", "degraded"),
        (PgState::UNDERSIZED, "PG_DEGRADED", "undersized"),
        (PgState::INCONSISTENT, "PG_DAMAGED", "inconsistent"),
        (PgState::SNAPTRIM_ERROR, "PG_DAMAGED", "snaptrim_error"),
        (PgState::FAILED_REPAIR, "PG_DAMAGED", "failed_repair"),
        (PgState::RECOVERY_UNFOUND, "PG_DAMAGED", "recovery_unfound"),
        (PgState::BACKFILL_UNFOUND, "PG_DAMAGED", "backfill_unfound"),
        (PgState::RECOVERY_TOOFULL, "PG_RECOVERY_FULL", "recovery_toofull"),
        (PgState::BACKFILL_TOOFULL, "PG_BACKFILL_FULL", "backfill_toofull"),
    ];
    troubles.extend(table.into_iter().filter(|(bit, ..)| state.contains(*bit)).map(|(_, code, word)| (code, word)));
    troubles
}

/// One PG check under construction.
#[derive(Default)]
struct Trouble {
    prefix: String,
    words: BTreeMap<&'static str, u64>,
    detail: BTreeMap<PgId, String>,
}

impl Trouble {
    fn add(&mut self, pg: PgId, stat: &PgStat, word: &'static str, span: Duration) {
        *self.words.entry(word).or_insert(0) += 1;
        if self.detail.len() >= DETAIL_MAX {
            return;
        }
        let state = if stat.state == PgState::default() { "unknown".to_owned() } else { stat.state.to_string() };
        let ids: Vec<String> = stat.acting.iter().map(|o| o.to_string()).collect();
        let acting = format!("[{}]", ids.join(","));
        let line = if span >= STUCK_AFTER {
            let span = crate::format::quantity::age(span);
            format!("pg {pg} is stuck {word} for {span}, current state {state}, last acting {acting}")
        } else {
            format!("pg {pg} is {state}, acting {acting}")
        };
        self.detail.entry(pg).or_insert(line);
    }

    fn into_check(self, code: &str) -> Check {
        let (title, severity) = match code {
            "PG_AVAILABILITY" => ("Reduced data availability", Severity::Warn),
            "PG_DEGRADED" => ("Degraded data redundancy", Severity::Warn),
            "PG_DAMAGED" => ("Possible data damage", Severity::Error),
            "PG_RECOVERY_FULL" => ("Full OSDs blocking recovery", Severity::Error),
            _ => ("Low space hindering backfill (add storage if this doesn't resolve itself)", Severity::Warn),
        };
        let words = self.words.iter().map(|(word, n)| format!("{n} pg{} {word}", if *n == 1 { "" } else { "s" }));
        let prefix = Some(self.prefix).filter(|p| !p.is_empty());
        let parts: Vec<String> = prefix.into_iter().chain(words).collect();
        let count = self.words.values().sum::<u64>().max(1);
        let detail = self.detail.into_values().collect();
        Check { severity, summary: format!("{title}: {}", parts.join(", ")), detail, count }
    }
}
