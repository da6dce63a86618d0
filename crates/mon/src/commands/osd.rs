//! `osd`: questions about the OSD map and single OSDs.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`preprocess_command`) and the manager's `osd perf`, `osd ok-to-stop`.

use super::{Answer, Call, CommandSpec, Refused, Reply, parse_osd, refuse, spec};
use crate::crush_view;
use crate::format::{Align, Table, Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use base::{Epoch, Errno, Instant, OsdId};
use maps::{ObjectLocator, OsdMap};
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::Encode;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd stat", "summarize the OSDs", "osd", "r", stat),
    spec("osd ls name=epoch,type=CephInt,range=0,req=false", "list OSD ids", "osd", "r", ls),
    spec("osd getmap name=epoch,type=CephInt,range=0,req=false", "write the encoded OSD map", "osd", "r", getmap),
    spec(
        "osd getcrushmap name=epoch,type=CephInt,range=0,req=false",
        "write the encoded CRUSH map",
        "osd",
        "r",
        getcrushmap,
    ),
    spec("osd getmaxosd", "show one more than the highest OSD id", "osd", "r", getmaxosd),
    spec("osd find name=id,type=CephOsdName", "show where an OSD is", "osd", "r", find),
    spec("osd info name=id,type=CephOsdName,req=false", "show what the map says of one OSD or all", "osd", "r", info),
    spec(
        "osd metadata name=id,type=CephOsdName,req=false",
        "show what an OSD says of its machine",
        "osd",
        "r",
        metadata,
    ),
    spec(
        "osd count-metadata name=property,type=CephString",
        "count OSDs by a field of their metadata",
        "osd",
        "r",
        count_metadata,
    ),
    spec("osd versions", "count OSDs by version", "osd", "r", versions),
    spec("osd numa-status", "show NUMA placement of OSDs", "osd", "r", numa_status),
    spec(
        "osd map name=pool,type=CephPoolname name=object,type=CephObjectname name=nspace,type=CephString,req=false",
        "show where an object is or would be",
        "osd",
        "r",
        map_object,
    ),
    spec("osd perf", "show latencies of OSDs", "osd", "r", perf),
    spec("osd blocked-by", "show which OSDs keep placement groups from peering", "osd", "r", blocked_by),
    spec(
        "osd last-stat-seq name=id,type=CephOsdName",
        "show the number of an OSD's latest statistics",
        "osd",
        "r",
        last_stat_seq,
    ),
    spec(
        "osd ok-to-stop name=ids,type=CephString,n=N name=max,type=CephInt,req=false",
        "check whether OSDs can be stopped with all data available",
        "osd",
        "r",
        ok_to_stop,
    ),
    spec(
        "osd safe-to-destroy name=ids,type=CephString,n=N",
        "check whether OSDs can be destroyed without losing redundancy",
        "osd",
        "r",
        safe_to_destroy,
    ),
];

/// The map that a command with an optional epoch is about.
pub(super) fn map_of(mon: &Mon, call: &Call) -> Result<OsdMap, Refused> {
    match call.int_opt("epoch")? {
        None | Some(0) => Ok(mon.osds.map().clone()),
        Some(epoch) => {
            let map = u32::try_from(epoch).ok().and_then(|e| mon.osds.map_at(Epoch(e)));
            map.ok_or_else(|| Refused::new(Errno::ENOENT, format!("there is no map for epoch {epoch}")))
        }
    }
}

/// The OSDs that `ids` names: `all` or `any`, or ids with or without `osd.`.
pub(super) fn osds_named(mon: &Mon, ids: &[String]) -> Result<BTreeSet<OsdId>, Refused> {
    if ids.iter().any(|id| matches!(id.as_str(), "all" | "any" | "*")) {
        return Ok(mon.osds.map().osd_ids().collect());
    }
    ids.iter()
        .map(|id| parse_osd(id).map_err(|_| Refused::new(Errno::EINVAL, format!("invalid osd id {id}"))))
        .collect()
}

/// Placement groups that are served by other OSDs than placement says.
pub(super) fn remapped_pgs(map: &OsdMap) -> usize {
    map.pg_temp.len()
}

/// The members of `osd stat`'s JSON; `ceph -s` has them too.
pub(super) fn stat_members(map: &OsdMap) -> Value {
    let counts = map.osd_counts();
    object! {
        "epoch" => map.epoch.0,
        "num_osds" => counts.exist,
        "num_up_osds" => counts.up,
        "osd_up_since" => map.last_up_change.secs,
        "num_in_osds" => counts.r#in,
        "osd_in_since" => map.last_in_change.secs,
        "num_remapped_pgs" => remapped_pgs(map),
    }
}

/// The counts as `osd stat` and `ceph -s` print them.
pub(super) fn stat_text(map: &OsdMap, now: Instant) -> String {
    let counts = map.osd_counts();
    let since = |at: wire::types::UTime| match at.secs {
        0 => String::new(),
        _ => format!(" (since {})", quantity::age(now.since(at.into()))),
    };
    let (up, r#in) = (since(map.last_up_change), since(map.last_in_change));
    format!("{} osds: {} up{up}, {} in{in}", counts.exist, counts.up, counts.r#in)
}

fn stat(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let plain = || {
        let remapped = match remapped_pgs(map) {
            0 => String::new(),
            n => format!("; {n} remapped pgs"),
        };
        let flags: Vec<&str> = shown_flags(map);
        let flags = if flags.is_empty() { String::new() } else { format!("\nflags {}", flags.join(",")) };
        format!("{}; epoch: e{}{remapped}{flags}\n", stat_text(map, call.now), map.epoch)
    };
    Ok(Reply::either(call, || stat_members(map), plain))
}

/// The flags that are worth a word: not those every cluster has.
pub(super) fn shown_flags(map: &OsdMap) -> Vec<&'static str> {
    const USUAL: [&str; 4] = ["sortbitwise", "recovery_deletes", "purged_snapdirs", "pglog_hardlimit"];
    map.flags.names().filter(|name| !USUAL.contains(name)).collect()
}

fn ls(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    let plain = || map.osd_ids().map(|osd| format!("{osd}\n")).collect();
    Ok(Reply::either(call, || Value::array(map.osd_ids().map(|osd| osd.0)), plain))
}

fn getmap(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    Ok(Reply::data(map.encoded().bytes).with_status(format!("got osdmap epoch {}", map.epoch)))
}

fn getcrushmap(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    Ok(Reply::data(map.crush.to_bytes()).with_status(map.crush_version.to_string()))
}

fn getmaxosd(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let value = || object! { "epoch" => map.epoch.0, "max_osd" => map.max_osd() };
    Ok(Reply::either(call, value, || format!("max_osd = {} in epoch {}\n", map.max_osd(), map.epoch)))
}

fn existing(mon: &Mon, call: &Call) -> Result<OsdId, Refused> {
    let osd = call.osd("id")?;
    if mon.osds.map().exists(osd) { Ok(osd) } else { refuse(Errno::ENOENT, format!("osd.{osd} does not exist")) }
}

fn find(mon: &mut Mon, call: &Call) -> Answer {
    let osd = existing(mon, call)?;
    let map = mon.osds.map();
    let addrs = map.addrs(osd).map(|a| a.client.clone()).unwrap_or_default();
    let mut value = object! {
        "osd" => osd.0,
        "addrs" => address::addr_vec(&addrs),
        "osd_fsid" => map.uuid(osd).unwrap_or_default().to_string(),
    };
    if let Some(host) = mon.osds.metadata(osd).and_then(|m| m.get("hostname")) {
        value.push("host", host);
    }
    let location = crush_view::full_location(&map.crush, osd.0).into_iter().collect::<BTreeMap<_, _>>();
    value.push("crush_location", Value::members(location));
    Ok(Reply::value(call, &value))
}

fn info(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let Some(osd) = call.osd_opt("id")? else {
        let all = || Value::array(map.osd_ids().map(|osd| super::osd_dump::osd_value(map, osd)));
        let plain = || map.osd_ids().map(|osd| super::osd_dump::osd_line(map, osd) + "\n").collect();
        return Ok(Reply::either(call, all, plain));
    };
    if !map.exists(osd) {
        return refuse(Errno::EINVAL, format!("osd.{osd} does not exist"));
    }
    let plain = || super::osd_dump::osd_line(map, osd) + "\n";
    Ok(Reply::either(call, || super::osd_dump::osd_value(map, osd), plain))
}

fn metadata_value(mon: &Mon, osd: OsdId) -> Value {
    let mut value = object! { "id" => osd.0 };
    if let Some(metadata) = mon.osds.metadata(osd) {
        value.extend(Value::members(metadata.clone()));
    }
    value
}

fn metadata(mon: &mut Mon, call: &Call) -> Answer {
    if let Some(osd) = call.osd_opt("id")? {
        if !mon.osds.map().exists(osd) {
            return refuse(Errno::ENOENT, format!("osd.{osd} does not exist"));
        }
        return Ok(Reply::value(call, &metadata_value(mon, osd)));
    }
    let all = Value::array(mon.osds.map().osd_ids().map(|osd| metadata_value(mon, osd)));
    Ok(Reply::value(call, &all))
}

/// How many OSDs have which value of a metadata field.
pub(super) fn count_by(mon: &Mon, field: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for osd in mon.osds.map().osd_ids() {
        let value = mon.osds.metadata(osd).and_then(|m| m.get(field)).map_or("unknown", String::as_str);
        *counts.entry(value.to_owned()).or_insert(0) += 1;
    }
    counts
}

fn count_metadata(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::members(count_by(mon, &call.text("property")?))))
}

fn versions(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::members(count_by(mon, "ceph_version"))))
}

fn numa_status(mon: &mut Mon, call: &Call) -> Answer {
    let mut table = Table::new();
    for heading in ["OSD", "HOST", "NETWORK", "STORAGE", "AFFINITY", "CPUS"] {
        table.column(heading, Align::Left);
    }
    let mut values = Vec::new();
    for osd in mon.osds.map().osd_ids() {
        let host = mon.osds.metadata(osd).and_then(|m| m.get("hostname")).cloned().unwrap_or_default();
        values.push(object! { "osd" => osd.0, "host" => host.as_str() });
        table.row([osd.to_string(), host, "-".to_owned(), "-".to_owned(), "-".to_owned(), "-".to_owned()]);
    }
    Ok(Reply::either(call, || Value::Array(values), || table.render()))
}

fn map_object(mon: &mut Mon, call: &Call) -> Answer {
    let (pool_name, object) = (call.text("pool")?, call.text("object")?);
    let namespace = call.text_opt("nspace")?.unwrap_or_default();
    let map = mon.osds.map();
    let Some(pool) = map.pool_id(&pool_name) else {
        return refuse(Errno::ENOENT, format!("pool {pool_name} does not exist"));
    };
    let locator = ObjectLocator { namespace: namespace.as_bytes(), ..ObjectLocator::pool(pool) };
    let raw = map.object_to_raw_pg(&locator, object.as_bytes());
    let (Some(raw), Some(pg)) = (raw, map.object_to_pg(&locator, object.as_bytes())) else {
        return refuse(Errno::ENOENT, format!("pool {pool_name} does not exist"));
    };
    let full_name = if namespace.is_empty() { object } else { format!("{namespace}/{object}") };
    let sets = map.pg_to_up_acting(pg);
    let ids = |osds: &[OsdId]| Value::array(osds.iter().map(|o| o.0));
    let value = || {
        object! {
            "epoch" => map.epoch.0,
            "pool" => pool_name.as_str(),
            "pool_id" => pool.0,
            "objname" => full_name.as_str(),
            "raw_pgid" => raw.to_string(),
            "pgid" => pg.to_string(),
            "up" => ids(&sets.up),
            "up_primary" => sets.up_primary.0,
            "acting" => ids(&sets.acting),
            "acting_primary" => sets.acting_primary.0,
        }
    };
    let plain = || {
        format!(
            "osdmap e{} pool '{pool_name}' ({pool}) object '{full_name}' -> pg {raw} ({pg}) -> up ({}, p{}) acting ({}, p{})\n",
            map.epoch,
            set_text(&sets.up),
            sets.up_primary,
            set_text(&sets.acting),
            sets.acting_primary
        )
    };
    Ok(Reply::either(call, value, plain))
}

/// A set of OSDs: `[0,1,2]`.
pub(super) fn set_text(osds: &[OsdId]) -> String {
    let ids: Vec<String> =
        osds.iter().map(|o| if o.0 == i32::MAX { "NONE".to_owned() } else { o.to_string() }).collect();
    format!("[{}]", ids.join(","))
}

fn perf(mon: &mut Mon, call: &Call) -> Answer {
    let stats: Vec<_> = mon.stats.osds().collect();
    let value = || {
        let infos = stats.iter().map(|(osd, stat)| {
            object! { "id" => osd.0, "perf_stats" => super::pg_dump::perf_value(stat) }
        });
        let infos = object! { "osd_perf_infos" => Value::array(infos) };
        object! { "pg_ready" => true, "osdstats" => infos }
    };
    let plain = || {
        let mut table = Table::new();
        table.column("osd", Align::Right);
        table.column("commit_latency(ms)", Align::Right);
        table.column("apply_latency(ms)", Align::Right);
        for (osd, stat) in &stats {
            let ms = |ms: u32| ms.to_string();
            table.row([osd.to_string(), ms(stat.perf.commit_latency_ms), ms(stat.perf.apply_latency_ms)]);
        }
        table.render()
    };
    Ok(Reply::either(call, value, plain))
}

fn blocked_by(mon: &mut Mon, call: &Call) -> Answer {
    let mut blockers: BTreeMap<OsdId, u64> = BTreeMap::new();
    for (_, stat) in mon.stats.pgs() {
        for osd in &stat.blocked_by {
            *blockers.entry(*osd).or_insert(0) += 1;
        }
    }
    let value = || Value::array(blockers.iter().map(|(osd, n)| object! { "osd" => osd.0, "num_blocked" => *n }));
    let plain = || {
        let mut table = Table::new();
        table.column("osd", Align::Right);
        table.column("num_blocked", Align::Right);
        blockers.iter().for_each(|(osd, n)| table.row([osd.to_string(), n.to_string()]));
        table.render()
    };
    Ok(Reply::either(call, value, plain))
}

/// How many placement groups each OSD in the cluster is in the acting set of.
pub(super) fn pgs_by_osd(map: &OsdMap) -> BTreeMap<OsdId, u64> {
    let mut counts: BTreeMap<OsdId, u64> = map.osd_ids().filter(|osd| map.is_in(*osd)).map(|osd| (osd, 0)).collect();
    for pg in crate::services::stats::all_pgs(map) {
        for osd in map.pg_to_up_acting(pg).acting {
            if let Some(count) = counts.get_mut(&osd) {
                *count += 1;
            }
        }
    }
    counts
}

fn last_stat_seq(mon: &mut Mon, call: &Call) -> Answer {
    let osd = existing(mon, call)?;
    let seq = mon.stats.osd(osd).map_or(0, |stat| stat.seq);
    Ok(Reply::either(call, || Value::from(seq), || format!("{seq}\n")))
}

fn ok_to_stop(mon: &mut Mon, call: &Call) -> Answer {
    let osds = osds_named(mon, &call.list("ids")?)?;
    let map = mon.osds.map();
    let (mut ok, mut not_ok, mut degraded) = (0u64, Vec::new(), Vec::new());
    for pg in crate::services::stats::all_pgs(map) {
        let acting = map.pg_to_up_acting(pg).acting;
        let left = acting.iter().filter(|osd| !osds.contains(osd)).count();
        if left == acting.len() {
            continue;
        }
        let min_size = map.pool(pg.pool).map_or(1, |p| usize::from(p.min_size));
        let active = mon.stats.state(pg).is_some_and(|s| s.contains(maps::stats::PgState::ACTIVE));
        if left >= min_size && active {
            ok += 1;
            degraded.push(pg.to_string());
        } else {
            not_ok.push(pg.to_string());
        }
    }
    let fine = not_ok.is_empty();
    let mut value = object! {
        "ok_to_stop" => fine,
        "osds" => Value::array(osds.iter().map(|o| o.0)),
        "num_ok_pgs" => ok,
        "num_not_ok_pgs" => not_ok.len(),
    };
    if !not_ok.is_empty() {
        value.push("bad_become_inactive", not_ok.clone());
    }
    if !degraded.is_empty() {
        value.push("ok_become_degraded", degraded);
    }
    let data = value.to_json() + "\n";
    if fine {
        return Ok(Reply::data(data));
    }
    let text = format!("unsafe to stop osd(s) at this time ({} PGs are or would become offline)", not_ok.len());
    Err(Refused { data: data.into(), ..Refused::new(Errno::EBUSY, text) })
}

fn safe_to_destroy(mon: &mut Mon, call: &Call) -> Answer {
    let osds = osds_named(mon, &call.list("ids")?)?;
    let counts = pgs_by_osd(mon.osds.map());
    let (mut safe, mut active, mut missing, mut stored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for osd in &osds {
        let pgs = counts.get(osd).copied().unwrap_or(0);
        match mon.stats.osd(*osd) {
            _ if !mon.osds.map().exists(*osd) => safe.push(osd.0),
            _ if pgs > 0 => active.push(osd.0),
            None => missing.push(osd.0),
            Some(stat) if stat.num_pgs > 0 => stored.push(osd.0),
            Some(_) => safe.push(osd.0),
        }
    }
    if call.format.is_plain() && safe.len() < osds.len() {
        let list = |ids: &[i32]| ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
        let mut text = String::new();
        if !active.is_empty() {
            let pgs: u64 = active.iter().map(|id| counts.get(&OsdId(*id)).copied().unwrap_or(0)).sum();
            text += &format!("OSD(s) {} have {pgs} pgs currently mapped to them. ", list(&active));
        }
        if !missing.is_empty() {
            text += &format!(
                "OSD(s) {} have no reported stats, and not all PGs are active+clean; we cannot draw any conclusions. ",
                list(&missing)
            );
        }
        if !stored.is_empty() {
            text += &format!(
                "OSD(s) {} last reported they still store some PG data, and not all PGs are active+clean; we cannot be sure they aren't still needed. ",
                list(&stored)
            );
        }
        return refuse(Errno::EBUSY, text);
    }
    let ids = |ids: Vec<i32>| Value::array(ids);
    let plain_ids = safe.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    let value = object! {
        "safe_to_destroy" => ids(safe),
        "active" => ids(active),
        "missing_stats" => ids(missing),
        "stored_pgs" => ids(stored),
    };
    let status = format!("OSD(s) {plain_ids} are safe to destroy without reducing data durability.");
    if call.format.is_plain() {
        return Ok(Reply::status(status));
    }
    Ok(Reply::value(call, &value))
}
