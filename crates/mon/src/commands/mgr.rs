//! `mgr` and the commands of manager modules that make sense without a manager.
//!
//! The monitor does the manager's duties; these commands say so in Ceph's shapes, so that tools which ask go on.

use super::{Answer, Call, CommandSpec, Reply, spec};
use crate::format::{Align, Table, Value, address, quantity};
use crate::mon::Mon;
use crate::object;

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
        empty_list,
    ),
    spec("mgr versions", "count managers by version", "mgr", "r", empty_object),
    spec("service dump", "list registered services", "service", "r", service_dump),
    spec("service status", "show the status of registered services", "service", "r", empty_object),
    spec("device ls", "list devices", "mgr", "r", device_ls),
    spec("crash ls", "list crash reports", "mgr", "r", crash_ls),
    spec("balancer status", "show what the balancer does", "mgr", "r", balancer_status),
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

fn empty_list(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::Array(vec![])))
}

fn module_ls(_: &mut Mon, call: &Call) -> Answer {
    let none = || Value::Array(vec![]);
    let value = object! { "always_on_modules" => none(), "enabled_modules" => none(), "disabled_modules" => none() };
    Ok(Reply::value(call, &value))
}

fn service_dump(mon: &mut Mon, call: &Call) -> Answer {
    let value =
        object! { "epoch" => 1, "modified" => quantity::local_time(mon.started), "services" => Value::object() };
    Ok(Reply::value(call, &value))
}

fn device_ls(_: &mut Mon, call: &Call) -> Answer {
    let plain = || {
        let mut table = Table::new();
        ["DEVICE", "HOST:DEV", "DAEMONS", "WEAR", "LIFE EXPECTANCY"].iter().for_each(|h| table.column(h, Align::Left));
        table.render()
    };
    Ok(Reply::either(call, || Value::Array(vec![]), plain))
}

fn crash_ls(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::either(call, || Value::Array(vec![]), String::new))
}

fn balancer_status(_: &mut Mon, call: &Call) -> Answer {
    let value = object! {
        "active" => false,
        "last_optimize_duration" => "",
        "last_optimize_started" => "",
        "mode" => "none",
        "no_optimization_needed" => true,
        "optimize_result" => "there is no balancer here",
        "plans" => Value::Array(vec![]),
    };
    Ok(Reply::value(call, &value))
}

fn progress(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::either(call, Value::object, || "Nothing in progress\n".to_owned()))
}

fn progress_json(_: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &object! { "completed" => Value::Array(vec![]), "events" => Value::Array(vec![]) }))
}
