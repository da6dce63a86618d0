//! `mgr`, `service` and `progress`: the commands about a manager that make sense without one.
//!
//! The monitor does the manager's duties; these commands say so in Ceph's shapes, so that tools which ask go on.
//!
//! Read next: `mgr_modules`.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::{Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use crate::services::progress::Event;
use base::Errno;
use std::collections::BTreeMap;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("mgr stat", "show who does the manager's duties", "mgr", "r", stat),
    spec("mgr dump name=epoch,type=CephInt,range=0,req=false", "show the managers' map", "mgr", "r", dump),
    spec("mgr services", "list services that manager modules offer", "mgr", "r", services),
    spec("mgr module ls", "list manager modules", "mgr", "r", module_ls),
    spec(
        "mgr metadata name=who,type=CephString,req=false",
        "show what managers say of their machines",
        "mgr",
        "r",
        metadata,
    ),
    spec(
        "mgr count-metadata name=property,type=CephString",
        "count managers by a field of their metadata",
        "mgr",
        "r",
        count_metadata,
    ),
    spec("mgr versions", "count managers by version", "mgr", "r", versions),
    spec("mgr fail name=who,type=CephString,req=false", "there is no other manager to take over", "mgr", "rw", fail),
    spec(
        "mgr module enable name=module,type=CephString name=force,type=CephChoices,strings=--force,req=false",
        "enable a manager module",
        "mgr",
        "rw",
        module_enable,
    ),
    spec("mgr module disable name=module,type=CephString", "disable a manager module", "mgr", "rw", module_disable),
    spec("service dump", "list registered services", "service", "r", service_dump),
    spec("service status", "show the status of registered services", "service", "r", empty_object),
    spec("progress clear", "forget finished work", "mgr", "rw", progress_clear),
    spec("progress", "show long-running work", "mgr", "r", progress),
    spec("progress json", "show long-running work as JSON", "mgr", "r", progress_json),
];

fn stat(mon: &mut Mon, call: &Call) -> Answer {
    let value = object! {
        "epoch" => mon.elections,
        "available" => true,
        "active_name" => mon.config.name.as_str(),
        "num_standby" => 0,
    };
    Ok(Reply::value(call, &value))
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.mgr_map();
    let value = object! {
        "epoch" => map.epoch.0,
        "active_gid" => map.active_gid.0,
        "active_name" => mon.config.name.as_str(),
        "active_addrs" => address::addr_vec(&map.active_addrs),
        "active_addr" => address::legacy(&map.active_addrs),
        "active_change" => quantity::local_time(mon.started),
        "active_mgr_features" => map.active_features,
        "available" => true,
        "standbys" => Value::Array(vec![]),
        "modules" => Value::Array(vec![]),
        "available_modules" => Value::Array(vec![]),
        "services" => Value::object(),
        "always_on_modules" => Value::object(),
        "last_failure_osd_epoch" => 0,
        "active_clients" => Value::Array(vec![]),
    };
    Ok(Reply::value(call, &value))
}

fn services(mon: &mut Mon, call: &Call) -> Answer {
    let urls = mon.metrics_url.iter().map(|url| ("prometheus", url));
    Ok(Reply::value(call, &Value::members(urls)))
}

fn empty_object(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::object()))
}

/// The manager's metadata: the monitor's, as it is the same process.
fn own_metadata(mon: &Mon) -> BTreeMap<String, String> {
    let mut metadata = mon.own_metadata();
    let addrs = &mon.config.manager_addrs;
    metadata.insert("addrs".to_owned(), addrs.to_string());
    if let Some(socket) = addrs.0.first().and_then(|addr| addr.socket) {
        metadata.insert("addr".to_owned(), socket.ip().to_string());
    }
    metadata
}

fn metadata(mon: &mut Mon, call: &Call) -> Answer {
    let mut value = object! { "name" => mon.config.name.as_str() };
    value.extend(Value::members(own_metadata(mon)));
    match call.text_opt("who")? {
        None => Ok(Reply::value(call, &Value::Array(vec![value]))),
        Some(who) if who == mon.config.name => Ok(Reply::value(call, &value)),
        Some(who) => refuse(Errno::ENOENT, format!("mgr.{who} does not exist")),
    }
}

fn count_metadata(mon: &mut Mon, call: &Call) -> Answer {
    let value = own_metadata(mon).remove(&call.text("property")?).unwrap_or_else(|| "unknown".to_owned());
    Ok(Reply::value(call, &Value::members([(value, 1)])))
}

fn versions(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::members([(crate::version::LONG, 1)])))
}

fn fail(mon: &mut Mon, call: &Call) -> Answer {
    if let Some(who) = call.text_opt("who")?.filter(|who| *who != mon.config.name) {
        return Ok(Reply::status(format!("Daemon not found '{who}', already failed?")));
    }
    refuse(Errno::EOPNOTSUPP, "the monitor does the manager's duties; there is no other manager to take over")
}

/// The modules whose duties are done, and cannot be left.
const ALWAYS_ON: [&str; 7] = ["balancer", "crash", "devicehealth", "iostat", "pg_autoscaler", "progress", "status"];

/// The module whose page is served.
const PROMETHEUS: &str = "prometheus";

fn module_ls(mon: &mut Mon, call: &Call) -> Answer {
    let enabled = mon.metrics_url.iter().map(|_| PROMETHEUS);
    let value = object! {
        "always_on_modules" => Value::array(ALWAYS_ON),
        "enabled_modules" => Value::array(enabled),
        "disabled_modules" => Value::Array(vec![]),
    };
    Ok(Reply::value(call, &value))
}

fn module_enable(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("module")?;
    if ALWAYS_ON.contains(&name.as_str()) {
        return Ok(Reply::status(format!("module '{name}' is already enabled (always-on)")));
    }
    match (name.as_str(), &mon.metrics_url) {
        (PROMETHEUS, Some(_)) => Ok(Reply::status(format!("module '{name}' is already enabled"))),
        (PROMETHEUS, None) => refuse(Errno::EOPNOTSUPP, "mgr/prometheus/server_port of the configuration file decides"),
        _ => {
            let text = format!("all mgr daemons do not support module '{name}', pass --force to force enablement");
            refuse(Errno::ENOENT, text)
        }
    }
}

fn module_disable(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("module")?;
    if ALWAYS_ON.contains(&name.as_str()) {
        return refuse(Errno::EINVAL, format!("module '{name}' cannot be disabled (always-on)"));
    }
    if name == PROMETHEUS && mon.metrics_url.is_some() {
        return refuse(Errno::EOPNOTSUPP, "mgr/prometheus/server_port of the configuration file decides");
    }
    Ok(Reply::status(format!("module '{name}' is already disabled")))
}

fn service_dump(mon: &mut Mon, call: &Call) -> Answer {
    let value =
        object! { "epoch" => 1, "modified" => quantity::local_time(mon.started), "services" => Value::object() };
    Ok(Reply::value(call, &value))
}

fn progress(mon: &mut Mon, call: &Call) -> Answer {
    let plain = || {
        let current = mon.progress.current().into_iter().map(|event| event.text(call.now, 4));
        let over = mon.progress.completed().rev().map(|event| format!("[Complete]: {}", event.text(call.now, 4)));
        let text: String = current.chain(over).map(|text| text + "\n").collect();
        if text.is_empty() { "Nothing in progress\n".to_owned() } else { text }
    };
    Ok(Reply::either(call, Value::object, plain))
}

fn progress_clear(mon: &mut Mon, _: &Call) -> Answer {
    mon.progress.clear();
    Ok(Reply::empty())
}

fn progress_json(mon: &mut Mon, call: &Call) -> Answer {
    let completed = Value::array(mon.progress.completed().map(Event::value));
    let events = Value::array(mon.progress.current().map(Event::value));
    Ok(Reply::value(call, &object! { "completed" => completed, "events" => events }))
}
