//! `mon`, `quorum_status`, `versions` and other questions about the cluster's daemons.
//!
//! Follows Ceph v16.2 `src/mon/Monitor.cc` and `src/mon/MonmapMonitor.cc`.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use crate::version;
use base::{Errno, Instant};
use std::collections::BTreeMap;
use wire::codec::Encode;
use wire::types::EntityType;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("fsid", "show the cluster's id", "mon", "r", fsid),
    spec("version", "show the monitor's version", "mon", "r", version),
    spec("versions", "count daemons by version", "mon", "r", versions),
    spec("features", "count connected peers by features", "mon", "r", features),
    spec("quorum_status", "show the monitors' quorum", "mon", "r", quorum_status),
    spec("time-sync-status", "show how the monitors' clocks agree", "mon", "r", time_sync_status),
    spec("report name=tags,type=CephString,n=N,req=false", "show everything at once", "mon", "r", report),
    spec("mon dump name=epoch,type=CephInt,range=0,req=false", "show the monitors' map", "mon", "r", dump),
    spec("mon stat", "summarize the monitors", "mon", "r", stat),
    spec("mon getmap name=epoch,type=CephInt,range=0,req=false", "write the encoded monitors' map", "mon", "r", getmap),
    spec(
        "mon metadata name=id,type=CephString,req=false",
        "show what monitors say of their machines",
        "mon",
        "r",
        metadata,
    ),
    spec(
        "mon count-metadata name=property,type=CephString",
        "count monitors by a field of their metadata",
        "mon",
        "r",
        count_metadata,
    ),
    spec("mon versions", "count monitors by version", "mon", "r", mon_versions),
    spec(
        "mon feature ls name=with_value,type=CephChoices,strings=--with-value,req=false",
        "list the features monitors agree on",
        "mon",
        "r",
        feature_ls,
    ),
    spec(
        "mon ok-to-stop name=ids,type=CephString,n=N",
        "check whether monitors can be stopped",
        "mon",
        "r",
        ok_to_stop,
    ),
    spec("mon ok-to-rm name=id,type=CephString", "check whether a monitor can be removed", "mon", "r", ok_to_rm),
    spec("mon ok-to-add-offline", "check whether a monitor can be added before it runs", "mon", "r", ok_to_add_offline),
];

impl Mon {
    /// The number of the election that this monitor won: odd during, even after, as Ceph counts.
    pub(crate) fn election_epoch(&self) -> u64 {
        self.elections * 2 + 1
    }

    /// What this monitor says of its machine.
    pub(crate) fn own_metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = self.config.metadata.clone();
        for (key, value) in [
            ("addrs", self.config.addrs.to_string()),
            ("hostname", self.config.hostname.clone()),
            ("ceph_version", version::LONG.to_owned()),
            ("ceph_version_short", version::SHORT.to_owned()),
            ("ceph_release", version::RELEASE.to_owned()),
        ] {
            metadata.entry(key.to_owned()).or_insert(value);
        }
        metadata
    }
}

fn fsid(mon: &mut Mon, call: &Call) -> Answer {
    let fsid = mon.config.fsid.to_string();
    Ok(Reply::either(call, || object! { "fsid" => fsid.as_str() }, || format!("{fsid}\n")))
}

fn version(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::either(call, || object! { "version" => version::LONG }, || format!("{}\n", version::LONG)))
}

fn versions(mon: &mut Mon, call: &Call) -> Answer {
    let mons = BTreeMap::from([(version::LONG.to_owned(), 1u64)]);
    let osds = super::osd::count_by(mon, "ceph_version");
    // The manager is the monitor's process.
    let mgrs = mons.clone();
    let mut overall = BTreeMap::from([(version::LONG.to_owned(), 2u64)]);
    osds.iter().for_each(|(version, n)| *overall.entry(version.clone()).or_insert(0) += n);
    let value = object! {
        "mon" => Value::members(mons),
        "mgr" => Value::members(mgrs),
        "osd" => Value::members(osds),
        "mds" => Value::object(),
        "overall" => Value::members(overall),
    };
    Ok(Reply::value(call, &value))
}

fn features(mon: &mut Mon, call: &Call) -> Answer {
    let mut counts: BTreeMap<EntityType, BTreeMap<u64, u64>> = BTreeMap::new();
    for myself in [EntityType::MON, EntityType::MGR] {
        *counts.entry(myself).or_default().entry(version::FEATURES).or_insert(0) += 1;
    }
    for (_, session) in mon.sessions.own() {
        *counts.entry(session.peer.name.kind).or_default().entry(session.peer.features).or_insert(0) += 1;
    }
    let value = counts.into_iter().map(|(kind, by_features)| {
        let list = by_features.into_iter().map(|(features, num)| {
            object! { "features" => format!("{features:#x}"), "release" => "luminous", "num" => num }
        });
        (kind.name(), Value::array(list))
    });
    Ok(Reply::value(call, &Value::members(value)))
}

fn monmap_value(mon: &Mon) -> Value {
    let map = mon.monmap.map();
    let monitors = map.iter().map(|(rank, info)| {
        object! {
            "rank" => rank,
            "name" => info.name.as_str(),
            "public_addrs" => address::addr_vec(&info.public_addrs),
            "addr" => address::legacy(&info.public_addrs),
            "public_addr" => address::legacy(&info.public_addrs),
            "priority" => info.priority,
            "weight" => info.weight,
            "crush_location" => "{}",
        }
    });
    object! {
        "epoch" => map.epoch.0,
        "fsid" => map.fsid.to_string(),
        "modified" => quantity::utc_time(map.last_changed.into()),
        "created" => quantity::utc_time(map.created.into()),
        "min_mon_release" => map.min_mon_release.0,
        "min_mon_release_name" => map.min_mon_release.name(),
        "election_strategy" => map.strategy.number(),
        "disallowed_leaders: " => "",
        "stretch_mode" => map.stretch_mode_enabled,
        "tiebreaker_mon" => map.tiebreaker_mon.as_str(),
        "removed_ranks: " => "",
        "features" => object! {
            "persistent" => Value::array(map.persistent_features.names()),
            "optional" => Value::array(map.optional_features.names()),
        },
        "mons" => Value::array(monitors),
    }
}

/// The members of `quorum_status`; `mon_status` has them too.
pub(super) fn quorum_value(mon: &Mon, now: Instant) -> Value {
    let features = mon.monmap.map().persistent_features;
    object! {
        "election_epoch" => mon.election_epoch(),
        "quorum" => vec![0u32],
        "quorum_names" => vec![mon.config.name.as_str()],
        "quorum_leader_name" => mon.config.name.as_str(),
        "quorum_age" => now.since(mon.started).as_secs(),
        "features" => object! {
            "quorum_con" => version::FEATURES.to_string(),
            "quorum_mon" => Value::array(features.names()),
        },
        "monmap" => monmap_value(mon),
    }
}

fn quorum_status(mon: &mut Mon, call: &Call) -> Answer {
    let value = quorum_value(mon, call.now);
    let text = if call.format.is_plain() { value.to_json() } else { call.format.render(&value) };
    Ok(Reply::data(text).with_line_end())
}

fn time_sync_status(mon: &mut Mon, call: &Call) -> Answer {
    let checks = object! { "epoch" => mon.election_epoch(), "round" => 0, "round_status" => "finished" };
    Ok(Reply::value(call, &object! { "timechecks" => checks }))
}

fn report(mon: &mut Mon, call: &Call) -> Answer {
    let checks = mon.health_checks(call.now);
    let value = object! {
        "cluster_fingerprint" => mon.config.fsid.to_string(),
        "version" => version::SHORT,
        "commit" => "",
        "timestamp" => quantity::local_time(call.now),
        "tag" => call.list("tags")?.join(" "),
        "health" => mon.health.value(&checks, true),
        "monmap_first_committed" => 1,
        "monmap_last_committed" => mon.monmap.epoch().0,
        "monmap" => monmap_value(mon),
        "quorum" => vec![0u32],
        "osdmap" => super::osd_dump::dump_value(mon.osds.map()),
        "osd_metadata" => Value::array(mon.osds.map().osd_ids().filter_map(|osd| {
            let mut value = object! { "id" => osd.0 };
            value.extend(Value::members(mon.osds.metadata(osd)?.clone()));
            Some(value)
        })),
        "osdmap_first_committed" => mon.osds.first().0,
        "osdmap_last_committed" => mon.osds.epoch().0,
        "crushmap" => super::osd_crush::dump_value(mon.osds.map()),
    };
    let text = call.format.render(&value);
    let checksum = base::checksum::crc32c(base::checksum::CRC_SEED, text.as_bytes());
    Ok(Reply::data(text).with_status(format!("report {checksum}")))
}

fn check_epoch(mon: &Mon, call: &Call) -> Result<(), Refused> {
    match call.int_opt("epoch")? {
        Some(epoch) if epoch != 0 && epoch != i64::from(mon.monmap.epoch().0) => {
            refuse(Errno::ENOENT, format!("there is no map for epoch {epoch}"))
        }
        _ => Ok(()),
    }
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    check_epoch(mon, call)?;
    let map = mon.monmap.map();
    let value = || {
        let mut value = monmap_value(mon);
        value.push("quorum", vec![0u32]);
        value
    };
    let plain = || {
        let time = |at: wire::types::UTime| quantity::local_time(at.into());
        let mut text = format!(
            "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: {}\n",
            map.epoch,
            map.fsid,
            time(map.last_changed),
            time(map.created),
            map.min_mon_release.0,
            map.min_mon_release.name(),
            map.strategy.number()
        );
        text.extend(map.iter().map(|(rank, info)| format!("{rank}: {} mon.{}\n", info.public_addrs, info.name)));
        text
    };
    let reply = Reply::either(call, value, plain).with_line_end_if(!call.format.is_plain());
    Ok(reply.with_status(format!("dumped monmap epoch {}", map.epoch)))
}

fn stat(mon: &mut Mon, call: &Call) -> Answer {
    let (map, name) = (mon.monmap.map(), &mon.config.name);
    let value = || {
        object! {
            "epoch" => map.epoch.0,
            "min_mon_release_name" => map.min_mon_release.name(),
            "num_mons" => map.monitors.len(),
            "leader" => name.as_str(),
            "quorum" => Value::Array(vec![object! { "rank" => 0, "name" => name.as_str() }]),
        }
    };
    let plain = || {
        let monitors: Vec<String> =
            map.iter().map(|(_, info)| format!("{}={}", info.name, info.public_addrs)).collect();
        format!(
            "e{}: {} mons at {{{}}} removed_ranks: {{}}, election epoch {}, leader 0 {name}, quorum 0 {name}\n",
            map.epoch,
            map.monitors.len(),
            monitors.join(","),
            mon.election_epoch()
        )
    };
    Ok(Reply::either(call, value, plain).with_line_end_if(!call.format.is_plain()))
}

fn getmap(mon: &mut Mon, call: &Call) -> Answer {
    check_epoch(mon, call)?;
    let map = mon.monmap.map();
    Ok(Reply::data(map.to_bytes()).with_status(format!("got monmap epoch {}", map.epoch)))
}

fn check_name(mon: &Mon, name: &str) -> Result<(), Refused> {
    if name == mon.config.name { Ok(()) } else { refuse(Errno::ENOENT, "requested mon not found") }
}

fn metadata(mon: &mut Mon, call: &Call) -> Answer {
    let mut value = object! { "name" => mon.config.name.as_str() };
    value.extend(Value::members(mon.own_metadata()));
    if let Some(name) = call.text_opt("id")? {
        check_name(mon, &name)?;
        return Ok(Reply::value(call, &value));
    }
    Ok(Reply::value(call, &Value::Array(vec![value])).with_line_end_if(!call.format.is_plain()))
}

fn count_metadata(mon: &mut Mon, call: &Call) -> Answer {
    let value = mon.own_metadata().get(&call.text("property")?).cloned().unwrap_or_else(|| "unknown".to_owned());
    Ok(Reply::value(call, &Value::members([(value, 1)])))
}

fn mon_versions(_: &mut Mon, call: &Call) -> Answer {
    let value = Value::members([(version::LONG, 1)]);
    Ok(Reply::value(call, &value).with_line_end_if(!call.format.is_plain()))
}

fn feature_ls(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.monmap.map();
    let names: Vec<&str> = maps::mon_map::MonFeatures::PACIFIC.names().collect();
    let persistent: Vec<&str> = map.persistent_features.names().collect();
    let value = || {
        object! {
            "all" => object! { "supported" => names.clone(), "persistent" => names.clone() },
            "monmap" => object! {
                "persistent" => persistent.clone(),
                "optional" => Value::array(map.optional_features.names()),
                "required" => persistent.clone(),
            },
        }
    };
    let plain = || {
        let (all, have) = (names.join(","), persistent.join(","));
        format!(
            "all features\n\tsupported: [{all}]\n\tpersistent: [{all}]\non current monmap (epoch {})\n\tpersistent: [{have}]\n\trequired: [{have}]\n",
            map.epoch
        )
    };
    Ok(Reply::either(call, value, plain).with_line_end_if(!call.format.is_plain()))
}

fn ok_to_stop(mon: &mut Mon, call: &Call) -> Answer {
    let ids = call.list("ids")?;
    if ids.iter().all(|id| *id != mon.config.name) {
        return Ok(Reply::status(
            "quorum should be preserved (a) after stopping []".replace("(a)", &format!("({})", mon.config.name)),
        ));
    }
    refuse(Errno::EBUSY, format!("not enough monitors would be available () after stopping mons [{}]", ids.join(",")))
}

fn ok_to_rm(mon: &mut Mon, call: &Call) -> Answer {
    let id = call.text("id")?;
    if id != mon.config.name {
        return Ok(Reply::status(format!("mon.{id} does not exist")));
    }
    refuse(
        Errno::EBUSY,
        format!("not enough monitors quorum () would be available after removing mon.{id} (current quorum {id})"),
    )
}

fn ok_to_add_offline(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EBUSY, "adding a monitor that does not run would break the quorum of one")
}
