//! Commands for this monitor in particular: `ceph tell mon.a ...`.
//!
//! Follows Ceph v16.2: the administration commands of a daemon, and those of the monitor that are about itself.

use super::mon::quorum_value;
use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::{Value, address};
use crate::mon::Mon;
use crate::object;
use crate::options::{self, normalize_name};
use crate::version;
use base::Errno;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("version", "show the monitor's version", "mon", "r", version),
    spec("mon_status", "show this monitor's state", "mon", "r", mon_status),
    spec("quorum_status", "show the monitors' quorum", "mon", "r", mon_status),
    spec("sessions", "list the sessions", "mon", "r", sessions),
    spec("ops", "list the requests in flight", "mon", "r", ops),
    spec("config get name=var,type=CephString", "show an option of this monitor", "mon", "r", config_get),
    spec("config show", "show the options of this monitor that were set", "mon", "r", config_show),
    spec(
        "config set name=var,type=CephString name=val,type=CephString,n=N",
        "set an option of this monitor until it restarts",
        "mon",
        "rw",
        config_set,
    ),
    spec(
        "injectargs name=injected_args,type=CephString,n=N",
        "set options of this monitor until it restarts",
        "mon",
        "rw",
        injectargs,
    ),
    spec("compact", "compact the monitor's store", "mon", "rw", compact),
];

fn version(_: &mut Mon, call: &Call) -> Answer {
    let value = object! { "version" => version::SHORT, "release" => version::RELEASE, "release_type" => "stable" };
    Ok(Reply::value(call, &value))
}

fn mon_status(mon: &mut Mon, call: &Call) -> Answer {
    let mut value = object! { "name" => mon.config.name.as_str(), "rank" => 0, "state" => "leader" };
    value.extend(quorum_value(mon, call));
    Ok(Reply::value(call, &value))
}

fn sessions(mon: &mut Mon, call: &Call) -> Answer {
    let value = Value::array(mon.sessions.iter().map(|(_, session)| {
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

fn ops(_: &mut Mon, call: &Call) -> Answer {
    // Every request is handled at once; what waits for the disk is an answer, not an operation.
    Ok(Reply::value(call, &object! { "ops" => Value::Array(vec![]), "num_ops" => 0 }))
}

fn config_get(mon: &mut Mon, call: &Call) -> Answer {
    let name = normalize_name(&call.text("var")?);
    if options::find(&name).is_none() {
        return refuse(Errno::ENOENT, format!("error getting '{name}': (2) No such file or directory"));
    }
    Ok(Reply::value(call, &Value::members([(name.clone(), mon.option(&name))])))
}

fn config_show(mon: &mut Mon, call: &Call) -> Answer {
    let all = crate::options_table::OPTIONS.iter().map(|o| (o.name, mon.option(o.name)));
    Ok(Reply::value(call, &Value::members(all)))
}

fn set_option(mon: &mut Mon, name: &str, value: &str) -> Result<(), super::Refused> {
    let name = normalize_name(name);
    let Some(option) = options::find(&name) else {
        return refuse(Errno::ENOENT, format!("error setting '{name}' to '{value}': (2) No such file or directory"));
    };
    match option.normalize(value) {
        Ok(value) => drop(mon.config.options.insert(name, value)),
        Err(why) => return refuse(Errno::EINVAL, format!("error setting '{name}' to '{value}': {why}")),
    }
    mon.apply_options();
    Ok(())
}

fn config_set(mon: &mut Mon, call: &Call) -> Answer {
    set_option(mon, &call.text("var")?, &call.list("val")?.join(" "))?;
    Ok(Reply::value(call, &object! { "success" => "" }))
}

fn injectargs(mon: &mut Mon, call: &Call) -> Answer {
    let text = call.list("injected_args")?.join(" ");
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--") else {
            return refuse(Errno::EINVAL, format!("expected --option value, got '{word}'"));
        };
        let value = match name.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (name, words.next().unwrap_or("true").to_owned()),
        };
        set_option(mon, value.0, &value.1)?;
    }
    Ok(Reply::empty())
}

fn compact(_: &mut Mon, _: &Call) -> Answer {
    Ok(Reply::status("the store compacts itself"))
}
