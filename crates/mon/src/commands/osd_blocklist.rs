//! `osd blocklist`: clients and networks that are shut out.
//!
//! Follows Ceph v16.2.15 `src/mon/OSDMonitor.cc`. An entry lasts `mon_osd_blocklist_default_expire` (an hour) unless it
//! says otherwise; `osd_watch` ends what is over.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Value, address, quantity};
use crate::mon::Mon;
use crate::object;
use base::{Duration, Errno};
use std::collections::BTreeMap;
use wire::types::{AddrKind, EntityAddr, UTime};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd blocklist name=range,type=CephString,goodchars=[range],req=false name=blocklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false", "shut a client, or with 'range' a network, out for <expire> seconds, or let it in again", "osd", "rw", change),
    spec("osd blocklist ls", "list the clients that are shut out", "osd", "r", list),
    spec("osd blocklist clear", "let everybody in again", "osd", "rw", clear),
    spec("osd blacklist name=blacklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false", "shut a client out for <expire> seconds, or let it in again", "osd", "rw", change).deprecated(),
    spec("osd blacklist ls", "list the clients that are shut out", "osd", "r", list).deprecated(),
    spec("osd blacklist clear", "let everybody in again", "osd", "rw", clear).deprecated(),
];

/// What a command is about: a client's address, or a network.
struct Target {
    addr: EntityAddr,
    is_range: bool,
}

impl Target {
    fn of(call: &Call) -> Result<Target, Refused> {
        let is_range = match call.text_opt("range")?.as_deref() {
            None => false,
            Some("range") => true,
            Some(_) => return refuse(Errno::EINVAL, "Did you mean to specify \"osd blocklist range\"?"),
        };
        let text = call.text("addr")?;
        let Some(addr) = address::parse(&text) else {
            return refuse(Errno::EINVAL, format!("unable to parse address {text}"));
        };
        if !is_range {
            return Ok(Target { addr, is_range });
        }
        let bits = addr.socket.map_or(0, |socket| if socket.is_ipv4() { 32 } else { 128 });
        if !text.contains('/') {
            let shown = address::without_kind(&addr);
            let text = format!("You specified a range command, but {shown} does not parse as a CIDR range");
            return refuse(Errno::EINVAL, text);
        }
        if addr.nonce > bits {
            return refuse(Errno::EINVAL, "Too many bits in range for that protocol!");
        }
        Ok(Target { addr: EntityAddr { kind: AddrKind::Cidr, ..addr }, is_range })
    }

    fn shown(&self) -> String {
        if self.is_range { address::range(&self.addr) } else { address::without_kind(&self.addr) }
    }

    /// What is in the map, and what the next one adds and takes away.
    fn lists<'a>(&self, mon: &'a mut Mon) -> (bool, &'a mut BTreeMap<EntityAddr, UTime>, &'a mut Vec<EntityAddr>) {
        let map = mon.osds.map();
        let listed = if self.is_range { &map.range_blocklist } else { &map.blocklist };
        let in_map = listed.contains_key(&self.addr);
        let pending = mon.osds.change();
        if self.is_range {
            (in_map, &mut pending.new_range_blocklist, &mut pending.old_range_blocklist)
        } else {
            (in_map, &mut pending.new_blocklist, &mut pending.old_blocklist)
        }
    }
}

fn change(mon: &mut Mon, call: &Call) -> Answer {
    let op = match call.text_opt("blocklistop")? {
        Some(op) => op,
        None => call.text("blacklistop")?,
    };
    let target = Target::of(call)?;
    let shown = target.shown();
    if op == "rm" {
        let next = mon.osds.upcoming();
        let listed = if target.is_range { &next.range_blocklist } else { &next.blocklist };
        if !listed.contains_key(&target.addr) {
            return Ok(Reply::status(format!("{shown} isn't blocklisted")));
        }
        let (in_map, new, old) = target.lists(mon);
        new.remove(&target.addr);
        if in_map {
            old.push(target.addr);
        }
        return Ok(Reply::status(format!("un-blocklisting {shown}")));
    }
    if op != "add" {
        return refuse(Errno::EINVAL, format!("unknown operation '{op}'"));
    }
    let default = mon.option_number("mon_osd_blocklist_default_expire");
    let secs = call.float_opt("expire")?.filter(|s| *s > 0.0).unwrap_or(default).clamp(0.0, 1e9);
    let until = call.now + Duration::from_secs_f64(secs);
    let (_, new, old) = target.lists(mon);
    old.retain(|addr| *addr != target.addr);
    new.insert(target.addr, until.into());
    let status = format!(
        "blocklisting {shown} until {} ({} sec)",
        quantity::local_time(until),
        crate::format::value::percent_g(secs, 6)
    );
    Ok(Reply::status(status))
}

fn list(mon: &mut Mon, call: &Call) -> Answer {
    let (clients, ranges) = (&mon.osds.map().blocklist, &mon.osds.map().range_blocklist);
    let status = format!("listed {} entries", clients.len() + ranges.len());
    let until = |at: &UTime| quantity::local_time((*at).into());
    if call.format.is_plain() {
        let client = |(addr, at): (&EntityAddr, &UTime)| format!("{} {}\n", address::without_kind(addr), until(at));
        let range = |(addr, at): (&EntityAddr, &UTime)| format!("{} {}\n", address::range(addr), until(at));
        let lines: String = clients.iter().map(client).chain(ranges.iter().map(range)).collect();
        return Ok(Reply::data(lines).with_status(status));
    }
    // Two documents, one behind the other, as Ceph writes them.
    let entry = |what: &'static str, (addr, at): (&EntityAddr, &UTime)| {
        object! { what => address::without_kind(addr), "until" => until(at) }
    };
    let clients = Value::array(clients.iter().map(|e| entry("addr", e)));
    let ranges = Value::array(ranges.iter().map(|e| entry("range", e)));
    Ok(Reply::data(call.format.render(&clients) + &call.format.render(&ranges)).with_status(status))
}

fn clear(mon: &mut Mon, _: &Call) -> Answer {
    let map = mon.osds.map();
    let clients: Vec<_> = map.blocklist.keys().copied().collect();
    let ranges: Vec<_> = map.range_blocklist.keys().copied().collect();
    let pending = mon.osds.change();
    pending.new_blocklist.clear();
    pending.new_range_blocklist.clear();
    pending.old_blocklist = clients;
    pending.old_range_blocklist = ranges;
    Ok(Reply::status(" removed all blocklist entries"))
}
