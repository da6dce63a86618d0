//! `osd`: questions about the OSD map and single OSDs.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`preprocess_command`) and the manager's `osd perf`, `osd ok-to-stop`.

use super::{Answer, Call, CommandSpec, Refused, Reply, parse_osd, refuse, spec};
use crate::crush_view;
use crate::format::{Align, Table, Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use base::{Epoch, Errno, Instant, OsdId};
use maps::stats::PgState;
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
        let Some(metadata) = mon.osds.metadata(osd).filter(|metadata| !metadata.is_empty()) else { continue };
        let value = metadata.get(field).map_or("unknown", String::as_str);
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
    let (left, right) = (Align::Left, Align::Right);
    let columns =
        [("OSD", right), ("HOST", left), ("NETWORK", right), ("STORAGE", right), ("AFFINITY", right), ("CPUS", left)];
    columns.into_iter().for_each(|(heading, align)| table.column(heading, align));
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
    let value = || {
        let infos = Value::array(blockers.iter().map(|(osd, n)| object! { "id" => osd.0, "num_blocked" => *n }));
        object! { "pg_ready" => true, "osd_blocked_by" => object! { "osd_blocked_by_infos" => infos } }
    };
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
    let osd = call.osd("id")?;
    let seq = mon.stats.osd(osd).map_or(0, |stat| stat.seq);
    Ok(Reply::either(call, || Value::from(seq), || format!("{seq}\n")))
}

fn ok_to_stop(mon: &mut Mon, call: &Call) -> Answer {
    let osds = osds_named(mon, &call.list("ids")?)?;
    let map = mon.osds.map();
    let (mut ok, mut not_ok) = (0u64, 0u64);
    let [mut idle, mut stopped, mut degraded] = [const { Vec::new() }; 3];
    for pg in crate::services::stats::all_pgs(map) {
        let acting = map.pg_to_up_acting(pg).acting;
        let left = acting.iter().filter(|osd| !osds.contains(osd)).count();
        if left == acting.len() {
            continue;
        }
        let enough = left >= map.pool(pg.pool).map_or(1, |p| usize::from(p.min_size));
        let active = mon.stats.state(pg).is_some_and(|s| s.contains(PgState::ACTIVE));
        if !active {
            idle.push(pg.to_string());
        }
        if !enough {
            stopped.push(pg.to_string());
        }
        if active && enough {
            ok += 1;
            degraded.push(pg.to_string());
        } else {
            not_ok += 1;
        }
    }
    let fine = not_ok == 0;
    let mut value = object! {
        "ok_to_stop" => fine,
        "osds" => Value::array(osds.iter().map(|o| o.0)),
        "num_ok_pgs" => ok,
        "num_not_ok_pgs" => not_ok,
    };
    let lists = [("bad_already_inactive", idle), ("bad_become_inactive", stopped), ("ok_become_degraded", degraded)];
    for (name, pgs) in lists.into_iter().filter(|(_, pgs)| !pgs.is_empty()) {
        value.push(name, pgs);
    }
    let data = value.to_json() + "\n";
    if fine {
        return Ok(Reply::data(data));
    }
    let text = format!("unsafe to stop osd(s) at this time ({} PGs are or would become offline)", not_ok);
    Err(Refused { data: data.into(), ..Refused::new(Errno::EBUSY, text) })
}

/// OSDs by whether they may be destroyed, and what speaks against it.
#[derive(Default)]
struct Destructible {
    safe: Vec<i32>,
    active: Vec<i32>,
    missing: Vec<i32>,
    stored: Vec<i32>,
    /// Placement groups that are mapped to the active ones.
    pgs: u64,
}

impl Destructible {
    fn of(mon: &Mon, osds: &BTreeSet<OsdId>) -> Destructible {
        let counts = pgs_by_osd(mon.osds.map());
        let clean = crate::services::stats::all_pgs(mon.osds.map())
            .all(|pg| mon.stats.state(pg).is_some_and(|s| s.contains(PgState::ACTIVE) && s.contains(PgState::CLEAN)));
        let mut all = Destructible::default();
        for osd in osds {
            let pgs = counts.get(osd).copied().unwrap_or(0);
            match mon.stats.osd(*osd) {
                _ if !mon.osds.map().exists(*osd) => all.safe.push(osd.0),
                _ if pgs > 0 => {
                    all.active.push(osd.0);
                    all.pgs += pgs;
                }
                _ if clean => all.safe.push(osd.0),
                None => all.missing.push(osd.0),
                Some(stat) if stat.num_pgs > 0 => all.stored.push(osd.0),
                Some(_) => all.safe.push(osd.0),
            }
        }
        all
    }

    /// Why not all may be; none if they may.
    fn objection(&self) -> Option<String> {
        let mut text = String::new();
        if !self.active.is_empty() {
            text += &format!("OSD(s) {} have {} pgs currently mapped to them. ", joined(&self.active), self.pgs);
        }
        if !self.missing.is_empty() {
            text += &format!(
                "OSD(s) {} have no reported stats, and not all PGs are active+clean; we cannot draw any conclusions. ",
                joined(&self.missing)
            );
        }
        if !self.stored.is_empty() {
            text += &format!(
                "OSD(s) {} last reported they still store some PG data, and not all PGs are active+clean; we cannot be sure they aren't still needed. ",
                joined(&self.stored)
            );
        }
        (!text.is_empty()).then_some(text)
    }
}

fn joined(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

/// Refuses where the data of one of these OSDs may be needed.
pub(super) fn refuse_unless_safe(mon: &Mon, osds: &BTreeSet<OsdId>) -> Result<(), Refused> {
    Destructible::of(mon, osds).objection().map_or(Ok(()), |text| refuse(Errno::EBUSY, text))
}

fn safe_to_destroy(mon: &mut Mon, call: &Call) -> Answer {
    let osds = osds_named(mon, &call.list("ids")?)?;
    if call.format.is_plain() {
        refuse_unless_safe(mon, &osds)?;
    }
    let Destructible { safe, active, missing, stored, .. } = Destructible::of(mon, &osds);
    let status = format!("OSD(s) {} are safe to destroy without reducing data durability.", joined(&safe));
    if call.format.is_plain() {
        return Ok(Reply::status(status));
    }
    let value = object! {
        "safe_to_destroy" => Value::array(safe),
        "active" => Value::array(active),
        "missing_stats" => Value::array(missing),
        "stored_pgs" => Value::array(stored),
    };
    Ok(Reply::value(call, &value))
}
