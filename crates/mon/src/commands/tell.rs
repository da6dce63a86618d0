//! Commands for this monitor in particular: `ceph tell mon.a ...`.
//!
//! Follows Ceph v16.2: the monitor's commands that are about itself. What every daemon has comes from `admin`.

use super::mon::quorum_value;
use super::{Answer, Call, CommandSpec, Reply, spec};
use crate::format::{Value, address};
use crate::mon::Mon;
use crate::object;
use base::Instant;
use wire::Encode;
use wire::messages::{Ping, Rest};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("mon_status", "show this monitor's state", "mon", "r", mon_status),
    spec("quorum_status", "show the monitors' quorum", "mon", "r", mon_status),
    spec("sessions", "list the sessions", "mon", "r", sessions),
    spec("ops", "list the requests in flight", "mon", "r", ops),
    spec("dump_historic_ops", "list the slowest requests of late", "mon", "r", historic_ops),
    spec("dump_historic_slow_ops", "list the last slow requests", "mon", "r", historic_slow_ops),
    spec("compact", "compact the monitor's store", "mon", "rw", compact),
];

fn mon_status(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &status_value(mon, call.now)))
}

fn status_value(mon: &Mon, now: Instant) -> Value {
    let mut value = object! { "name" => mon.config.name.as_str(), "rank" => 0, "state" => "leader" };
    value.extend(quorum_value(mon, now));
    value
}

/// The answer to a ping: how the cluster and this monitor are (v16.2 `src/mon/Monitor.cc`, `handle_ping`).
pub(crate) fn pong(mon: &mut Mon, now: Instant) -> Ping {
    let checks = mon.health_checks(now);
    let value = object! { "health" => mon.health.value(&checks, false), "mon_status" => status_value(mon, now) };
    Ping { report: Rest(value.to_pretty_json().to_bytes()) }
}

fn sessions(mon: &mut Mon, call: &Call) -> Answer {
    let value = Value::array(mon.sessions.own().map(|(_, session)| {
        object! {
            "name" => session.peer.name.to_string(),
            "entity_name" => session.peer.entity.as_str(),
            "addrs" => address::addr_vec(&session.peer.addrs),
            "con_features" => session.peer.features,
            "open" => true,
            "global_id" => session.peer.global_id,
            "subscriptions" => Value::array(session.subscriptions.keys()),
        }
    }));
    Ok(Reply::value(call, &value))
}

fn ops(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &mon.requests.under_way_value(call.now)))
}

fn historic_ops(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &mon.requests.history_value(call.now)))
}

fn historic_slow_ops(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &mon.requests.slow_value(call.now)))
}

fn compact(_: &mut Mon, _: &Call) -> Answer {
    Ok(Reply::status("the store compacts itself"))
}
