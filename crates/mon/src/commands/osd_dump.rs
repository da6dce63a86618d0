//! `osd dump`: the whole OSD map, readable.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc` (`OSDMap::dump`, `OSDMap::print`).

use super::osd::map_of;
use super::osd_pool::{pool_line, pool_value, snap_lines};
use super::{Answer, Call, CommandSpec, Reply, spec};
use crate::format::value::percent_g;
use crate::format::{Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use base::{OsdId, PgId};
use maps::{OsdMap, OsdState};

pub(super) const COMMANDS: &[CommandSpec] =
    &[spec("osd dump name=epoch,type=CephInt,range=0,req=false", "show the OSD map", "osd", "r", dump)];

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    Ok(Reply::either(call, || dump_value(&map), || dump_text(&map)).with_line_end_if(!call.format.is_plain()))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(",")
}

/// The map as programs read it.
pub(super) fn dump_value(map: &OsdMap) -> Value {
    let mut flags: Vec<&str> = map.flags.names().collect();
    let flags_text = flags.join(",");
    flags.sort_unstable();
    let time = |at: wire::types::UTime| quantity::local_time(at.into());
    let mut value = object! {
        "epoch" => map.epoch.0,
        "fsid" => map.fsid.to_string(),
        "created" => time(map.created),
        "modified" => time(map.modified),
        "last_up_change" => time(map.last_up_change),
        "last_in_change" => time(map.last_in_change),
        "flags" => flags_text,
        "flags_num" => map.flags.0,
        "flags_set" => flags,
        "crush_version" => map.crush_version,
        "full_ratio" => map.full_ratio,
        "backfillfull_ratio" => map.backfillfull_ratio,
        "nearfull_ratio" => map.nearfull_ratio,
        "cluster_snapshot" => map.cluster_snapshot.as_str(),
        "pool_max" => map.pool_max.0,
        "max_osd" => map.max_osd(),
        "require_min_compat_client" => map.require_min_compat_client.name(),
        "min_compat_client" => "jewel",
        "require_osd_release" => map.require_osd_release.name(),
        "pools" => Value::array(map.pools.iter().map(|(id, pool)| pool_value(map, *id, pool, "pool"))),
        "osds" => Value::array(map.osd_ids().map(|osd| osd_value(map, osd))),
        "osd_xinfo" => Value::array(map.osd_ids().map(|osd| xinfo_value(map, osd))),
    };
    value.extend(mappings_value(map));
    value
}

fn ids(osds: &[OsdId]) -> Value {
    Value::array(osds.iter().map(|o| o.0))
}

fn mappings_value(map: &OsdMap) -> Value {
    let snaps = |of: &std::collections::BTreeMap<base::PoolId, maps::SnapSet>| {
        Value::array(of.iter().map(|(pool, set)| {
            let intervals = set.intervals().map(|(start, len)| object! { "begin" => start.0, "length" => len });
            object! { "pool" => pool.0, "snaps" => Value::array(intervals) }
        }))
    };
    let pg = |pg: &PgId| pg.to_string();
    object! {
        "pg_upmap" => Value::array(map.pg_upmap.iter().map(|(p, o)| object! { "pgid" => pg(p), "osds" => ids(o) })),
        "pg_upmap_items" => Value::array(map.pg_upmap_items.iter().map(|(p, pairs)| {
            let pairs = pairs.iter().map(|(from, to)| object! { "from" => from.0, "to" => to.0 });
            object! { "pgid" => pg(p), "mappings" => Value::array(pairs) }
        })),
        "pg_temp" => Value::array(map.pg_temp.iter().map(|(p, o)| object! { "pgid" => pg(p), "osds" => ids(o) })),
        "primary_temp" => Value::array(map.primary_temp.iter().map(|(p, o)| object! { "pgid" => pg(p), "osd" => o.0 })),
        "blocklist" => Value::members(map.blocklist.iter().map(|(addr, until)| {
            (address::without_kind(addr), quantity::local_time((*until).into()))
        })),
        "range_blocklist" => Value::members(map.range_blocklist.iter().map(|(range, until)| {
            (address::range(range), quantity::local_time((*until).into()))
        })),
        "erasure_code_profiles" => Value::members(map.erasure_code_profiles.iter().map(|(name, profile)| {
            (name.clone(), Value::members(profile.clone()))
        })),
        "removed_snaps_queue" => snaps(&map.removed_snaps_queue),
        "new_removed_snaps" => snaps(&map.new_removed_snaps),
        "new_purged_snaps" => snaps(&map.new_purged_snaps),
        "crush_node_flags" => Value::members(map.crush_node_flags.iter().map(|(node, bits)| {
            let name = map.crush.item_name(*node).map_or_else(|| node.to_string(), str::to_owned);
            (name, Value::array(OsdState(*bits).names()))
        })),
        "device_class_flags" => Value::members(map.device_class_flags.iter().map(|(class, bits)| {
            let name = map.crush.class_name(*class).map_or_else(|| class.to_string(), str::to_owned);
            (name, Value::array(OsdState(*bits).names()))
        })),
        "stretch_mode" => object! {
            "stretch_mode_enabled" => map.stretch.enabled,
            "stretch_bucket_count" => map.stretch.bucket_count,
            "degraded_stretch_mode" => map.stretch.degraded,
            "recovering_stretch_mode" => map.stretch.recovering,
            "stretch_mode_bucket" => map.stretch.bucket_type,
        },
    }
}

fn weight(fixed: u32) -> f64 {
    f64::from(fixed) / 65536.0
}

/// One OSD as programs read it.
pub(super) fn osd_value(map: &OsdMap, osd: OsdId) -> Value {
    let addrs = map.addrs(osd).map(|a| (**a).clone()).unwrap_or_default();
    let info = map.info(osd).copied().unwrap_or_default();
    object! {
        "osd" => osd.0,
        "uuid" => map.uuid(osd).unwrap_or_default().to_string(),
        "up" => i32::from(map.is_up(osd)),
        "in" => i32::from(map.is_in(osd)),
        "weight" => weight(map.weight(osd)),
        "primary_affinity" => weight(map.primary_affinity(osd)),
        "last_clean_begin" => info.last_clean_begin.0,
        "last_clean_end" => info.last_clean_end.0,
        "up_from" => info.up_from.0,
        "up_thru" => info.up_thru.0,
        "down_at" => info.down_at.0,
        "lost_at" => info.lost_at.0,
        "public_addrs" => address::addr_vec(&addrs.client),
        "cluster_addrs" => address::addr_vec(&addrs.cluster),
        "heartbeat_back_addrs" => address::addr_vec(&addrs.heartbeat_back),
        "heartbeat_front_addrs" => address::addr_vec(&addrs.heartbeat_front),
        "public_addr" => address::legacy(&addrs.client),
        "cluster_addr" => address::legacy(&addrs.cluster),
        "heartbeat_back_addr" => address::legacy(&addrs.heartbeat_back),
        "heartbeat_front_addr" => address::legacy(&addrs.heartbeat_front),
        "state" => Value::array(map.state(osd).names()),
    }
}

fn xinfo_value(map: &OsdMap, osd: OsdId) -> Value {
    let x = map.xinfo(osd).copied().unwrap_or_default();
    object! {
        "osd" => osd.0,
        "down_stamp" => quantity::local_time(x.down_stamp.into()),
        "laggy_probability" => x.laggy_fraction(),
        "laggy_interval" => x.laggy_interval_secs,
        "features" => x.features,
        "old_weight" => x.old_weight,
        "last_purged_snaps_scrub" => quantity::local_time(x.last_purged_snaps_scrub.into()),
        "dead_epoch" => x.dead_epoch.0,
    }
}

/// One OSD as people read it.
pub(super) fn osd_line(map: &OsdMap, osd: OsdId) -> String {
    let addrs = map.addrs(osd).map(|a| (**a).clone()).unwrap_or_default();
    let info = map.info(osd).copied().unwrap_or_default();
    let up = if map.is_up(osd) { "up  " } else { "down" };
    let placed = if map.is_in(osd) { "in " } else { "out" };
    let mut line = format!("osd.{osd} {up} {placed} weight {}", percent_g(weight(map.weight(osd)), 6));
    if map.primary_affinity(osd) != crate::services::osd_map::IN {
        line += &format!(" primary_affinity {}", percent_g(weight(map.primary_affinity(osd)), 6));
    }
    line += &format!(
        " up_from {} up_thru {} down_at {} last_clean_interval [{},{})",
        info.up_from, info.up_thru, info.down_at, info.last_clean_begin, info.last_clean_end
    );
    if info.lost_at.0 > 0 {
        line += &format!(" lost_at {}", info.lost_at);
    }
    line += &format!(" {} {} {}", addrs.client, addrs.cluster, names(map.state(osd).names()));
    let uuid = map.uuid(osd).unwrap_or_default();
    if uuid != wire::types::Uuid::default() {
        line += &format!(" {uuid}");
    }
    line
}

/// The map as people read it.
fn dump_text(map: &OsdMap) -> String {
    let time = |at: wire::types::UTime| quantity::local_time(at.into());
    let ratio = |r: f32| percent_g(f64::from(r), 6);
    let mut text = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\n\
         full_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\n",
        map.epoch,
        map.fsid,
        time(map.created),
        time(map.modified),
        names(map.flags.names()),
        map.crush_version,
        ratio(map.full_ratio),
        ratio(map.backfillfull_ratio),
        ratio(map.nearfull_ratio)
    );
    text += &format!("require_min_compat_client {}\nmin_compat_client jewel\n", map.require_min_compat_client.name());
    text += &format!("require_osd_release {}\nstretch_mode_enabled false\n", map.require_osd_release.name());
    for (id, pool) in &map.pools {
        text += &pool_line(map, *id, pool);
        text.push('\n');
        text += &snap_lines(map, *id, pool);
    }
    text += &format!("max_osd {}\n", map.max_osd());
    for osd in map.osd_ids() {
        text += &osd_line(map, osd);
        text.push('\n');
    }
    for (pg, osds) in map.pg_upmap.iter() {
        text += &format!("pg_upmap {pg} {}\n", super::osd::set_text(osds));
    }
    for (pg, pairs) in map.pg_upmap_items.iter() {
        let pairs: Vec<String> = pairs.iter().map(|(from, to)| format!("{from},{to}")).collect();
        text += &format!("pg_upmap_items {pg} [{}]\n", pairs.join(","));
    }
    for (pg, osds) in map.pg_temp.iter() {
        text += &format!("pg_temp {pg} {}\n", super::osd::set_text(osds));
    }
    for (pg, osd) in map.primary_temp.iter() {
        text += &format!("primary_temp {pg} {osd}\n");
    }
    for (addr, until) in map.blocklist.iter() {
        text += &format!("blocklist {} expires {}\n", address::without_kind(addr), time(*until));
    }
    for (range, until) in map.range_blocklist.iter() {
        text += &format!("range blocklist {} expires {}\n", address::range(range), time(*until));
    }
    text
}
