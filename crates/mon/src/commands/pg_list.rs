//! `pg ls` and its kin: placement groups in short lines.
//!
//! Follows Ceph v16.2 `src/mon/PGMap.cc` (`dump_filtered_pg_stats`, `process_pg_map_command`).

use super::osd::set_text;
use super::osd_pool::pool_named;
use super::pg_dump::{OMAP_NOTE, pg_value, version};
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Align, Table, Value, quantity};
use crate::mon::Mon;
use crate::object;
use crate::services::stats::all_pgs;
use base::{Duration, Errno, Instant, OsdId, PgId, PoolId};
use maps::stats::show::state_text;
use maps::stats::{PgStat, PgState};
use std::borrow::Cow;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
        "list a pool's placement groups",
        "pg",
        "r",
        ls_by_pool,
    ),
    spec(
        "pg ls-by-primary name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "list the placement groups an OSD leads",
        "pg",
        "r",
        ls_by_primary,
    ),
    spec(
        "pg ls-by-osd name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "list the placement groups of an OSD",
        "pg",
        "r",
        ls_by_osd,
    ),
    spec(
        "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "list placement groups",
        "pg",
        "r",
        ls,
    ),
    spec(
        "pg dump_stuck name=stuckops,type=CephChoices,strings=inactive|unclean|stale|undersized|degraded,n=N,req=false name=threshold,type=CephInt,req=false",
        "list placement groups that have been in trouble for long",
        "pg",
        "r",
        dump_stuck,
    ),
    spec(
        "pg debug name=debugop,type=CephChoices,strings=unfound_objects_exist|degraded_pgs_exist",
        "tell whether there are unfound objects or degraded placement groups",
        "pg",
        "r",
        debug,
    ),
];

/// How long a group must be in trouble to be stuck (`mon_pg_stuck_threshold`).
const STUCK_SECS: i64 = 60;

type Wanted<'a> = &'a dyn Fn(PgId, &PgStat) -> bool;

fn states(call: &Call) -> Result<Vec<PgState>, Refused> {
    let names = call.list("states")?;
    let mut states = Vec::new();
    for name in names.iter().filter(|n| *n != "all") {
        let Some(state) = PgState::from_name(name) else {
            return refuse(
                Errno::EINVAL,
                format!("'{name}' is not a valid pg state, available choices: {}", choices()),
            );
        };
        states.push(state);
    }
    Ok(states)
}

fn choices() -> String {
    PgState(u64::MAX).names().collect::<Vec<_>>().join("+")
}

fn list(mon: &Mon, call: &Call, pool: Option<PoolId>, wanted: Wanted<'_>) -> Answer {
    let states = states(call)?;
    let map = mon.osds.map();
    if let Some(pool) = pool
        && map.pool(pool).is_none()
    {
        return refuse(Errno::ENOENT, format!("pool {pool} does not exist"));
    }
    let pgs: Vec<(PgId, Cow<'_, PgStat>)> = all_pgs(map)
        .filter(|pg| pool.is_none_or(|pool| pg.pool == pool))
        .map(|pg| (pg, mon.stats.stat_or_unknown(map, pg)))
        .filter(|(pg, stat)| wanted(*pg, stat) && states.iter().all(|s| stat.state.contains(*s)))
        .collect();
    let value = || {
        let stats = pgs.iter().map(|(pg, stat)| pg_value(*pg, stat));
        object! { "pg_ready" => true, "pg_stats" => Value::array(stats) }
    };
    let reply = Reply::either(call, value, || table(&pgs, call.now));
    Ok(reply.with_line_end_if(!call.format.is_plain()))
}

fn table(pgs: &[(PgId, Cow<'_, PgStat>)], now: Instant) -> String {
    let mut table = Table::new();
    table.column("PG", Align::Left);
    for heading in ["OBJECTS", "DEGRADED", "MISPLACED", "UNFOUND", "BYTES", "OMAP_BYTES*", "OMAP_KEYS*", "LOG"] {
        table.column_with(heading, Align::Left, Align::Right);
    }
    for heading in ["STATE", "SINCE", "VERSION", "REPORTED", "UP", "ACTING", "SCRUB_STAMP", "DEEP_SCRUB_STAMP"] {
        table.column_with(heading, Align::Left, Align::Right);
    }
    for (pg, stat) in pgs {
        let c = &stat.stats.sum;
        let mut row: Vec<String> = vec![pg.to_string()];
        let counts = [
            c.num_objects,
            c.num_objects_degraded,
            c.num_objects_misplaced,
            c.num_objects_unfound,
            c.num_bytes,
            c.num_omap_bytes,
            c.num_omap_keys,
            stat.log_size,
        ];
        row.extend(counts.map(|n| n.to_string()));
        row.push(state_text(stat.state));
        let since = if stat.last_change.secs == 0 { Duration::ZERO } else { now.since(stat.last_change.into()) };
        row.push(quantity::age(since));
        row.push(version(stat.version));
        row.push(format!("{}:{}", stat.reported_epoch, stat.reported_seq));
        row.push(format!("{}p{}", set_text(&stat.up), stat.up_primary));
        row.push(format!("{}p{}", set_text(&stat.acting), stat.acting_primary));
        row.push(quantity::local_time(stat.last_scrub_stamp.into()));
        row.push(quantity::local_time(stat.last_deep_scrub_stamp.into()));
        table.row(row);
    }
    format!("{}\n{OMAP_NOTE}\n", table.render())
}

fn ls_by_pool(mon: &mut Mon, call: &Call) -> Answer {
    let pool = pool_named(mon.osds.map(), &call.text("poolstr")?)
        .map_err(|r| Refused { text: r.text.replace("unrecognized pool", "pool") + " does not exist", ..r })?;
    list(mon, call, Some(pool), &|_, _| true)
}

fn pool(call: &Call) -> Result<Option<PoolId>, Refused> {
    Ok(call.int_opt("pool")?.filter(|id| *id >= 0).map(PoolId))
}

fn ls_by_primary(mon: &mut Mon, call: &Call) -> Answer {
    let osd = call.osd("osd")?;
    list(mon, call, pool(call)?, &|_, stat| stat.acting_primary == osd)
}

fn ls_by_osd(mon: &mut Mon, call: &Call) -> Answer {
    let osd = call.osd("osd")?;
    if !mon.osds.map().is_up(osd) {
        return refuse(Errno::EAGAIN, format!("osd {osd} is not up"));
    }
    list(mon, call, pool(call)?, &|_, stat| stat.acting.contains(&osd) || stat.up.contains(&osd))
}

fn ls(mon: &mut Mon, call: &Call) -> Answer {
    list(mon, call, pool(call)?, &|_, _| true)
}

/// Whether a group is stuck in one of the named ways, and since when.
fn stuck(stat: &PgStat, ways: &[String], cutoff: Instant) -> bool {
    let is = |way: &str| ways.iter().any(|w| w == way);
    let before = |at: wire::types::UTime| Instant::from(at) < cutoff;
    (is("inactive") && !stat.state.contains(PgState::ACTIVE) && before(stat.last_active))
        || (is("unclean") && !stat.state.contains(PgState::CLEAN) && before(stat.last_clean))
        || (is("degraded") && stat.state.contains(PgState::DEGRADED) && before(stat.last_undegraded))
        || (is("undersized") && stat.state.contains(PgState::UNDERSIZED) && before(stat.last_fullsized))
        || (is("stale") && stat.state.contains(PgState::STALE) && before(stat.last_unstale))
}

fn dump_stuck(mon: &mut Mon, call: &Call) -> Answer {
    let mut ways = call.list("stuckops")?;
    if ways.is_empty() {
        ways = vec!["unclean".to_owned()];
    }
    let threshold = call.int_opt("threshold")?.filter(|t| *t > 0).unwrap_or(STUCK_SECS);
    let cutoff = call.now - Duration::from_secs(threshold.unsigned_abs());
    let map = mon.osds.map();
    let pgs: Vec<(PgId, Cow<'_, PgStat>)> = all_pgs(map)
        .map(|pg| (pg, mon.stats.stat_or_unknown(map, pg)))
        .filter(|(_, stat)| stuck(stat, &ways, cutoff))
        .collect();
    let value = || {
        let stats = pgs.iter().map(|(pg, stat)| pg_value(*pg, stat));
        object! { "pg_ready" => true, "stuck_pg_stats" => Value::array(stats) }
    };
    let plain = || {
        if pgs.is_empty() {
            return String::new();
        }
        let mut table = Table::new();
        for heading in ["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"] {
            table.column_with(heading, Align::Left, Align::Right);
        }
        for (pg, s) in &pgs {
            let leader = |osd: OsdId| osd.to_string();
            table.row([
                pg.to_string(),
                state_text(s.state),
                set_text(&s.up),
                leader(s.up_primary),
                set_text(&s.acting),
                leader(s.acting_primary),
            ]);
        }
        table.render()
    };
    Ok(Reply::either(call, value, plain).with_line_end_if(!call.format.is_plain()).with_status("ok"))
}

fn debug(mon: &mut Mon, call: &Call) -> Answer {
    let op = call.text("debugop")?;
    let found = mon.stats.pgs().any(|(_, stat)| match op.as_str() {
        "unfound_objects_exist" => stat.stats.sum.num_objects_unfound > 0,
        _ => stat.stats.sum.num_objects_degraded > 0,
    });
    Ok(Reply::data(if found { "TRUE\n" } else { "FALSE\n" }))
}
