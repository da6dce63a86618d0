//! `osd blocklist`: clients that are shut out.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc`. An entry lasts an hour unless it says otherwise.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::{Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use base::{Duration, Errno};

/// How long an entry lasts by default (`mon_osd_blocklist_default_expire`).
const DEFAULT_SECS: f64 = 3600.0;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd blocklist name=blocklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false", "shut a client out for <expire> seconds, or let it in again", "osd", "rw", change),
    spec("osd blocklist ls", "list the clients that are shut out", "osd", "r", list),
    spec("osd blocklist clear", "let everybody in again", "osd", "rw", clear),
    spec("osd blacklist name=blacklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false", "shut a client out for <expire> seconds, or let it in again", "osd", "rw", change).deprecated(),
    spec("osd blacklist ls", "list the clients that are shut out", "osd", "r", list).deprecated(),
    spec("osd blacklist clear", "let everybody in again", "osd", "rw", clear).deprecated(),
];

fn change(mon: &mut Mon, call: &Call) -> Answer {
    let op = match call.text_opt("blocklistop")? {
        Some(op) => op,
        None => call.text("blacklistop")?,
    };
    let text = call.text("addr")?;
    let Some(addr) = address::parse(&text) else {
        return refuse(Errno::EINVAL, format!("'{text}' is no address"));
    };
    let shown = address::without_kind(&addr);
    if op == "rm" {
        if !mon.osds.upcoming().blocklist.contains_key(&addr) {
            return Ok(Reply::status(format!("{shown} isn't blocklisted")));
        }
        let in_map = mon.osds.map().blocklist.contains_key(&addr);
        let pending = mon.osds.change();
        pending.new_blocklist.remove(&addr);
        if in_map {
            pending.old_blocklist.push(addr);
        }
        return Ok(Reply::status(format!("un-blocklisting {shown}")));
    }
    if op != "add" {
        return refuse(Errno::EINVAL, format!("unknown operation '{op}'"));
    }
    let secs = call.float_opt("expire")?.filter(|s| *s > 0.0).unwrap_or(DEFAULT_SECS).min(1e9);
    let until = call.now + Duration::from_secs_f64(secs);
    let pending = mon.osds.change();
    pending.old_blocklist.retain(|a| *a != addr);
    pending.new_blocklist.insert(addr, until.into());
    let status = format!(
        "blocklisting {shown} until {} ({} sec)",
        quantity::local_time(until),
        crate::format::value::percent_g(secs, 6)
    );
    Ok(Reply::status(status))
}

fn list(mon: &mut Mon, call: &Call) -> Answer {
    let entries = &mon.osds.map().blocklist;
    let status = format!("listed {} entries", entries.len());
    let until = |at: &wire::types::UTime| quantity::local_time((*at).into());
    let value = || {
        Value::array(
            entries.iter().map(|(addr, at)| object! { "addr" => address::without_kind(addr), "until" => until(at) }),
        )
    };
    let plain =
        || entries.iter().map(|(addr, at)| format!("{} {}\n", address::without_kind(addr), until(at))).collect();
    Ok(Reply::either(call, value, plain).with_status(status))
}

fn clear(mon: &mut Mon, _: &Call) -> Answer {
    let all: Vec<_> = mon.osds.map().blocklist.keys().copied().collect();
    let pending = mon.osds.change();
    pending.new_blocklist.clear();
    pending.old_blocklist = all;
    Ok(Reply::status(" removed all blocklist entries"))
}
