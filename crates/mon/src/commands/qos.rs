//! `qos`: tenants and what they are promised.
//!
//! Ours; Ceph has no such commands. What they say lies in the option `osd_qos_tenants` of the section `osd`: the central
//! configuration keeps it, knows its history and brings it to OSDs, and so would a quorum of real monitors.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Align, Table, Value};
use crate::mon::Mon;
use crate::object;
use crate::services::config::Target;
use admin::options::{OptionKind, parse_number};
use base::{Errno, PoolId};
use maps::tenants::{OPTION, TenantPromise, Tenants, Who};
use wire::cephx::AuthName;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "qos set name=tenant,type=CephString name=reservation,type=CephString,req=false \
         name=reservation_bytes,type=CephString,req=false name=weight,type=CephString,req=false \
         name=limit,type=CephString,req=false name=limit_bytes,type=CephString,req=false \
         name=data_pool,type=CephPoolname,req=false",
        "promise a tenant (client.NAME, pool:POOL, namespace:POOL/NAMESPACE, image:POOL/[NAMESPACE/]ID) operations and \
         bytes a second: at least, at most, and parts of the rest; 0 takes a figure back; for an image whose data lies in \
         another pool, which that is",
        "osd",
        "rw",
        set,
    ),
    spec("qos rm name=tenant,type=CephString", "take back all that a tenant is promised", "osd", "rw", remove),
    spec("qos ls", "list the tenants and what they are promised", "osd", "r", list),
    spec("qos show name=tenant,type=CephString", "show what a tenant is promised", "osd", "r", show),
];

impl Mon {
    fn who(&self, call: &Call) -> Result<Who, Refused> {
        let map = self.osds.map();
        Who::named(&call.text("tenant")?, |name| map.pool_id(name)).map_err(|bad| {
            let errno = if matches!(bad, maps::tenants::BadTenant::Pool(_)) { Errno::ENOENT } else { Errno::EINVAL };
            Refused::new(errno, bad.to_string())
        })
    }

    /// A tenant that may have been promised something before its pool was removed: such a pool has its number for a name.
    fn who_is_promised(&self, call: &Call) -> Result<Who, Refused> {
        let named = self.who(call);
        if named.is_ok() {
            return named;
        }
        let text = call.text("tenant")?;
        self.tenants().0.into_keys().find(|who| self.shown_tenant(who) == text).map_or(named, Ok)
    }

    /// Makes these the tenants, if that can be.
    fn set_tenants(&mut self, call: &Call, tenants: &Tenants) -> Result<(), Refused> {
        let text = tenants.to_string();
        if let Err(bad) = Tenants::parse(&text) {
            return refuse(Errno::EINVAL, bad.to_string());
        }
        self.check_tenants(tenants)?;
        let target = Target { section: "osd".to_owned(), mask: Default::default() };
        let value = (!tenants.0.is_empty()).then_some(text);
        let title = format!("{} {}", call.entity, call.prefix);
        self.central.change(call.now, &title, vec![(target, OPTION.to_owned(), value)]);
        Ok(())
    }
}

fn set(mon: &mut Mon, call: &Call) -> Answer {
    let who = mon.who(call)?;
    let mut tenants = mon.tenants();
    if let Who::Entity(name) = &who
        && !tenants.0.contains_key(&who)
        && AuthName::parse(name).is_none_or(|name| mon.auth.mon.keys.entity(&name).is_none())
    {
        return refuse(Errno::ENOENT, format!("{name} does not exist; `ceph auth get-or-create {name}` makes it"));
    }
    let remark = match &who {
        Who::Image(..) => "the monitor cannot see whether there is an image of that id; `loligo qos set` looks",
        _ => "",
    };
    let data_pool = data_pool(mon, call, &who)?;
    let promise = tenants.0.entry(who).or_default();
    promise.data_pool = data_pool.unwrap_or(promise.data_pool);
    let mut given = false;
    for (figure, _) in TenantPromise::default().figures() {
        let Some(text) = call.text_opt(figure)? else { continue };
        let kind = if figure.ends_with("_bytes") { OptionKind::Size } else { OptionKind::Uint };
        let value = parse_number(kind, &text).map_err(|why| Refused::new(Errno::EINVAL, format!("{figure}: {why}")))?;
        promise.set(figure, value);
        given = true;
    }
    if !given {
        let text = "nothing is promised: give reservation, reservation_bytes, weight, limit or limit_bytes";
        return refuse(Errno::EINVAL, text);
    }
    promise.check().map_err(|bad| Refused::new(Errno::EINVAL, bad.to_string()))?;
    mon.set_tenants(call, &tenants)?;
    Ok(Reply::status(remark))
}

/// The pool that an image's data lies in, none where that is its own; none at all if nothing is said about it.
fn data_pool(mon: &Mon, call: &Call, who: &Who) -> Result<Option<Option<PoolId>>, Refused> {
    let Some(name) = call.text_opt("data_pool")? else { return Ok(None) };
    let Who::Image(own, ..) = who else {
        return refuse(Errno::EINVAL, "only an image may have its data in another pool");
    };
    match mon.osds.map().pool_id(&name) {
        Some(pool) => Ok(Some(Some(pool).filter(|pool| pool != own))),
        None => refuse(Errno::ENOENT, format!("'{name}' is no pool")),
    }
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let who = mon.who_is_promised(call)?;
    let mut tenants = mon.tenants();
    if tenants.0.remove(&who).is_none() {
        return refuse(Errno::ENOENT, format!("{} is promised nothing", mon.shown_tenant(&who)));
    }
    mon.set_tenants(call, &tenants)?;
    Ok(Reply::empty())
}

fn shown_data_pool(mon: &Mon, promise: &TenantPromise) -> Option<String> {
    let pool = promise.data_pool?;
    Some(mon.osds.map().pool_name(pool).map_or_else(|| pool.0.to_string(), str::to_owned))
}

fn tenant_value(mon: &Mon, who: &Who, promise: &TenantPromise) -> Value {
    let mut value = object! {
        "tenant" => mon.shown_tenant(who),
        // By which OSDs name it.
        "id" => format!("{:016x}", who.id().0),
    };
    for (figure, number) in promise.figures() {
        value.push(figure, number);
    }
    if let Some(pool) = shown_data_pool(mon, promise) {
        value.push("data_pool", pool);
    }
    value
}

fn list(mon: &mut Mon, call: &Call) -> Answer {
    let tenants = mon.tenants();
    let value = || Value::array(tenants.0.iter().map(|(who, promise)| tenant_value(mon, who, promise)));
    let plain = || {
        let mut table = Table::new();
        table.column("TENANT", Align::Left);
        for heading in ["RESERVATION", "BYTES", "WEIGHT", "LIMIT", "BYTES"] {
            table.column(heading, Align::Right);
        }
        for (who, promise) in &tenants.0 {
            let shown = |number: u64| if number == 0 { "-".to_owned() } else { number.to_string() };
            let figures = promise.figures().map(|(_, number)| shown(number));
            table.row(core::iter::once(mon.shown_tenant(who)).chain(figures));
        }
        table.render()
    };
    Ok(Reply::either(call, value, plain))
}

fn show(mon: &mut Mon, call: &Call) -> Answer {
    let who = mon.who_is_promised(call)?;
    let tenants = mon.tenants();
    let Some(promise) = tenants.0.get(&who) else {
        return refuse(Errno::ENOENT, format!("{} is promised nothing", mon.shown_tenant(&who)));
    };
    let plain = || {
        let figures = promise.figures().into_iter().map(|(figure, number)| format!("{figure}: {number}\n"));
        figures.chain(shown_data_pool(mon, promise).map(|pool| format!("data_pool: {pool}\n"))).collect()
    };
    Ok(Reply::either(call, || tenant_value(mon, &who, promise), plain))
}
