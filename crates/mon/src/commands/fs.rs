//! `fs` and `mds`: there is no file system yet, and these commands say so in Ceph's shapes.
//!
//! Follows Ceph v16.2 `src/mon/MDSMonitor.cc` and `src/mds/FSMap.cc`.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::Errno;
use maps::fs_map::FsMap;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("fs ls", "list file systems", "fs", "r", ls),
    spec("fs dump name=epoch,type=CephInt,range=0,req=false", "show the file systems' map", "mds", "r", dump),
    spec("fs get name=fs_name,type=CephString", "show one file system", "fs", "r", get),
    spec("fs status name=fs,type=CephString,req=false", "show the state of file systems", "mgr", "r", status),
    spec(
        "fs new name=fs_name,type=CephString,goodchars=[A-Za-z0-9-_.] name=metadata,type=CephString name=data,type=CephString",
        "make a file system",
        "fs",
        "rw",
        new,
    ),
    spec("mds stat", "summarize metadata servers", "mds", "r", stat),
    spec(
        "mds metadata name=who,type=CephString,req=false",
        "show what metadata servers say of their machines",
        "mds",
        "r",
        metadata,
    ),
    spec("mds versions", "count metadata servers by version", "mds", "r", versions),
];

fn fsmap_value(map: &FsMap) -> Value {
    let features = |set: &maps::fs_map::FeatureSet| {
        Value::members(set.names.iter().map(|(bit, name)| (format!("feature_{bit}"), name.as_str())))
    };
    object! {
        "epoch" => map.epoch.0,
        "default_fscid" => map.legacy_client_fscid,
        "compat" => object! {
            "compat" => features(&map.compat[0]),
            "ro_compat" => features(&map.compat[1]),
            "incompat" => features(&map.compat[2]),
        },
        "feature_flags" => object! {
            "enable_multiple" => map.enable_multiple,
            "ever_enabled_multiple" => map.ever_enabled_multiple,
        },
        "standbys" => Value::Array(vec![]),
        "filesystems" => Value::Array(vec![]),
    }
}

fn ls(_: &mut Mon, call: &Call) -> Answer {
    let reply = Reply::either(call, || Value::Array(vec![]), || "No filesystems enabled\n".to_owned());
    Ok(reply.with_line_end_if(!call.format.is_plain()))
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.fs_map();
    let plain = || {
        let set = |i: usize| {
            let names: Vec<String> = map.compat[i].names.iter().map(|(bit, name)| format!("{bit}={name}")).collect();
            format!("{{{}}}", names.join(","))
        };
        let compat = format!("compat={},rocompat={},incompat={}", set(0), set(1), set(2));
        format!(
            "e{}\nenable_multiple, ever_enabled_multiple: 1,1\ndefault compat: {compat}\nlegacy client fscid: -1\n \nNo filesystems configured\n",
            map.epoch
        )
    };
    let reply = Reply::either(call, || fsmap_value(&map), plain).with_line_end_if(!call.format.is_plain());
    Ok(reply.with_status(format!("dumped fsmap epoch {}", map.epoch)))
}

fn get(_: &mut Mon, call: &Call) -> Answer {
    let name = call.text("fs_name")?;
    refuse(Errno::ENOENT, format!("filesystem '{name}' not found"))
}

fn status(_: &mut Mon, call: &Call) -> Answer {
    let value = || object! { "clients" => Value::Array(vec![]), "mds_version" => Value::Array(vec![]), "mdsmap" => Value::Array(vec![]), "pools" => Value::Array(vec![]) };
    Ok(Reply::either(call, value, String::new))
}

fn new(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "file systems are not supported yet")
}

fn stat(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.fs_map();
    let value =
        || object! { "fsmap" => fsmap_value(&map), "mdsmap_first_committed" => 1, "mdsmap_last_committed" => 1 };
    Ok(Reply::either(call, value, String::new).with_line_end())
}

fn metadata(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::Array(vec![])))
}

fn versions(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::object()))
}
