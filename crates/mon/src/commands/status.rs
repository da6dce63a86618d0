//! `status`: the cluster on one page.
//!
//! Follows Ceph v16.2 `src/mon/Monitor.cc` (`get_cluster_status`) and `src/mon/PGMap.cc` (`print_summary`).

use super::health::status_lines;
use super::osd::{shown_flags, stat_members, stat_text};
use super::{Answer, Call, CommandSpec, Reply, spec};
use crate::format::{Value, quantity};
use crate::mon::Mon;
use crate::object;
use crate::services::progress::Event;
use crate::services::stats::all_pgs;
use maps::OsdMap;
use maps::stats::PgState;

pub(super) const COMMANDS: &[CommandSpec] = &[spec("status", "show the cluster's state", "mon", "r", status)];

fn status(mon: &mut Mon, call: &Call) -> Answer {
    let checks = mon.health_checks(call.now);
    let value = || {
        let map = mon.osds.map();
        object! {
            "fsid" => mon.config.fsid.to_string(),
            "health" => mon.health.value(&checks, false),
            "election_epoch" => mon.election_epoch(),
            "quorum" => vec![0u32],
            "quorum_names" => vec![mon.config.name.as_str()],
            "quorum_age" => call.now.since(mon.started).as_secs(),
            "monmap" => object! {
                "epoch" => mon.monmap.epoch().0,
                "min_mon_release_name" => mon.monmap.map().min_mon_release.name(),
                "num_mons" => mon.monmap.map().monitors.len(),
            },
            "osdmap" => stat_members(map),
            "pgmap" => pgmap_value(mon, map),
            "fsmap" => object! { "epoch" => 1, "by_rank" => Value::Array(vec![]), "up:standby" => 0 },
            "mgrmap" => object! {
                "available" => true,
                "num_standbys" => 0,
                "modules" => Value::Array(vec![]),
                "services" => Value::object(),
            },
            "servicemap" => object! {
                "epoch" => 1,
                "modified" => quantity::local_time(mon.started),
                "services" => Value::object(),
            },
            "progress_events" => Value::members(mon.progress.current().map(|event| (event.id(), progress_value(event, call)))),
        }
    };
    Ok(Reply::either(call, value, || plain(mon, call, &checks)).with_line_end_if(!call.format.is_plain()))
}

/// How many placement groups are unknown, how many serve nothing, and how many there are.
fn availability(mon: &Mon, map: &OsdMap) -> (u64, u64, u64) {
    let (mut unknown, mut inactive, mut total) = (0, 0, 0);
    for pg in all_pgs(map) {
        total += 1;
        match mon.stats.state(pg) {
            None => unknown += 1,
            Some(state) if !state.contains(PgState::ACTIVE) => inactive += 1,
            Some(_) => {}
        }
    }
    (unknown, inactive, total)
}

fn pgmap_value(mon: &Mon, map: &OsdMap) -> Value {
    let (sum, osds) = (mon.stats.sum(), mon.stats.osd_sum());
    let states = mon.stats.by_state(map).into_iter().map(|(name, n)| object! { "state_name" => name, "count" => n });
    let (unknown, inactive, total) = availability(mon, map);
    let mut value = object! {
        "pgs_by_state" => Value::array(states),
        "num_pgs" => total,
        "num_pools" => map.pools.len(),
        "num_objects" => sum.objects(),
        "data_bytes" => sum.bytes(),
        "bytes_used" => osds.used_bytes(),
        "bytes_avail" => osds.available_bytes(),
        "bytes_total" => osds.total_bytes(),
    };
    let ratio = |n: u64| n as f64 / total.max(1) as f64;
    if inactive > 0 {
        value.push("inactive_pgs_ratio", ratio(inactive));
    }
    if unknown > 0 {
        value.push("unknown_pgs_ratio", ratio(unknown));
    }
    value.extend(sum.recovery_value());
    let rates = mon.stats.total_rates();
    value.extend(rates.recovery_value());
    value.extend(rates.client_value());
    value
}

fn progress_value(event: &Event, call: &Call) -> Value {
    object! { "message" => event.text(call.now, 6), "progress" => event.done(), "add_to_ceph_s" => true }
}

fn plain(mon: &Mon, call: &Call, checks: &crate::services::health::Checks) -> String {
    let map = mon.osds.map();
    let (status, lines) = status_lines(mon, checks);
    let mut text = format!("  cluster:\n    id:     {}\n    health: {}\n", mon.config.fsid, status.name());
    text.extend(lines.iter().map(|line| format!("            {line}\n")));
    let muted = super::health::muted_text(mon);
    if !muted.is_empty() {
        text += &format!("           {muted}\n");
    }
    let (name, age) = (&mon.config.name, quantity::age(call.now.since(mon.started)));
    text += &format!(" \n  services:\n    mon: 1 daemons, quorum {name} (age {age})\n");
    text += &format!("    mgr: {name}(active, since {age})\n");
    text += &format!("    osd: {}", stat_text(map, call.now));
    let remapped = super::osd::remapped_pgs(map);
    if remapped > 0 {
        text += &format!("; {remapped} remapped pgs");
    }
    text.push('\n');
    let flags = shown_flags(map);
    if !flags.is_empty() {
        text += &format!("         flags {}\n", flags.join(","));
    }
    text += &data_section(mon, map);
    if let Some(event) = mon.progress.current() {
        text += &format!("  progress:\n    {}\n \n", event.text(call.now, 6));
    }
    text
}

fn data_section(mon: &Mon, map: &OsdMap) -> String {
    let (sum, osds) = (mon.stats.sum(), mon.stats.osd_sum());
    let (unknown, inactive, total) = availability(mon, map);
    let mut text = format!(
        " \n  data:\n    pools:   {} pools, {total} pgs\n    objects: {} objects, {}\n    usage:   {} used, {} / {} avail\n",
        map.pools.len(),
        quantity::count(sum.objects()),
        quantity::bytes(sum.bytes()),
        quantity::bytes(osds.used_bytes()),
        quantity::bytes(osds.available_bytes()),
        quantity::bytes(osds.total_bytes())
    );
    let mut lines = Vec::new();
    let percent = |n: u64| n as f64 * 100.0 / total.max(1) as f64;
    if unknown > 0 {
        lines.push(format!("{:.3}% pgs unknown", percent(unknown)));
    }
    if inactive > 0 {
        lines.push(format!("{:.3}% pgs not active", percent(inactive)));
    }
    lines.extend(sum.recovery_lines());
    let states = mon.stats.by_state(map);
    let width = states.iter().map(|(_, n)| n.to_string().len()).max().unwrap_or(0);
    lines.extend(states.iter().map(|(name, n)| format!("{n:<width$} {name}")));
    for (i, line) in lines.iter().enumerate() {
        text += &format!("    {}{line}\n", if i == 0 { "pgs:     " } else { "         " });
    }
    if lines.is_empty() {
        text += "    pgs:     \n";
    }
    text.push_str(" \n");
    let rates = mon.stats.total_rates();
    let io = [("client:  ", rates.client_text()), ("recovery:", rates.recovery_text())];
    let io: String = io.into_iter().filter_map(|(what, line)| Some(format!("    {what} {}\n", line?))).collect();
    if !io.is_empty() {
        text += &format!("  io:\n{io} \n");
    }
    text
}
