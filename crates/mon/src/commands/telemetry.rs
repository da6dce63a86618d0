//! `telemetry`: nothing is sent to anybody, and these commands say so.
//!
//! Follows Ceph v16.2 `src/pybind/mgr/telemetry/module.py` for the shape of the status.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::Errno;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("telemetry status", "show whether anything is reported to anybody", "mgr", "r", status),
    spec("telemetry off", "report nothing", "mgr", "rw", off),
    spec("telemetry on name=license,type=CephString,req=false", "reporting is not supported", "mgr", "rw", unsupported),
    spec("telemetry show name=channels,type=CephString,n=N,req=false", "show the report", "mgr", "r", unsupported),
    spec("telemetry show-device", "show the report about devices", "mgr", "r", unsupported),
    spec("telemetry show-all", "show the whole report", "mgr", "r", unsupported),
    spec(
        "telemetry send name=endpoint,type=CephChoices,strings=ceph|device,n=N,req=false \
         name=license,type=CephString,req=false",
        "reporting is not supported",
        "mgr",
        "rw",
        unsupported,
    ),
];

fn status(_: &mut Mon, call: &Call) -> Answer {
    let nothing = || Value::Digits("null".to_owned());
    let value = object! {
        "channel_basic" => false,
        "channel_crash" => false,
        "channel_device" => false,
        "channel_ident" => false,
        "contact" => nothing(),
        "description" => nothing(),
        "device_url" => "",
        "enabled" => false,
        "interval" => 24,
        "last_opt_revision" => 1,
        "last_upload" => nothing(),
        "leaderboard" => false,
        "log_level" => "",
        "log_to_cluster" => false,
        "log_to_cluster_level" => "info",
        "log_to_file" => false,
        "organization" => nothing(),
        "proxy" => nothing(),
        "url" => "",
    };
    Ok(Reply::value(call, &value))
}

fn off(_: &mut Mon, _: &Call) -> Answer {
    Ok(Reply::empty())
}

fn unsupported(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "there is no report: nothing is sent to anybody")
}
