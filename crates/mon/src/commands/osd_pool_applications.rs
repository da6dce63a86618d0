//! `osd pool application`: what pools are used for.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_command_pool_application`).

use super::osd_pool::pool_named;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use base::{Errno, PoolId};
use std::collections::BTreeMap;

/// Bounds of Ceph's (`MAX_POOL_APPLICATIONS`, `..._KEYS`, `..._LENGTH`).
const APPLICATIONS_MAX: usize = 4;
const KEYS_MAX: usize = 64;
const LENGTH_MAX: usize = 128;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "osd pool application enable name=pool,type=CephPoolname name=app,type=CephString,goodchars=[A-Za-z0-9-_.] name=yes_i_really_mean_it,type=CephBool,req=false",
        "let an application (cephfs, rbd, rgw or any other) use a pool",
        "osd",
        "rw",
        enable,
    ),
    spec(
        "osd pool application disable name=pool,type=CephPoolname name=app,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "end an application's use of a pool",
        "osd",
        "rw",
        disable,
    ),
    spec(
        "osd pool application set name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString,goodchars=[A-Za-z0-9-_.] name=value,type=CephString,goodchars=[A-Za-z0-9-_.=]",
        "set an application's key on a pool",
        "osd",
        "rw",
        set,
    ),
    spec(
        "osd pool application rm name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString",
        "remove an application's key from a pool",
        "osd",
        "rw",
        remove,
    ),
    spec(
        "osd pool application get name=pool,type=CephPoolname,req=false name=app,type=CephString,req=false name=key,type=CephString,req=false",
        "show which applications use pools, and their keys",
        "osd",
        "r",
        get,
    ),
];

type Applications = BTreeMap<String, BTreeMap<String, String>>;

fn pool(mon: &mut Mon, call: &Call) -> Result<(String, PoolId, Applications), Refused> {
    let name = call.text("pool")?;
    let next = mon.osds.upcoming();
    let id = pool_named(next, &name)?;
    let applications = next.pool(id).map(|p| p.applications.clone()).unwrap_or_default();
    Ok((name, id, applications))
}

fn enable(mon: &mut Mon, call: &Call) -> Answer {
    let (name, id, applications) = pool(mon, call)?;
    let app = call.text("app")?;
    if app.is_empty() {
        return refuse(Errno::EINVAL, "application name must be provided");
    }
    if applications.contains_key(&app) {
        return Ok(Reply::status(format!("enabled application '{app}' on pool '{name}'")));
    }
    if !applications.is_empty() && !call.flag("yes_i_really_mean_it") {
        let text = format!(
            "Are you SURE? Pool '{name}' already has an enabled application; pass --yes-i-really-mean-it to proceed anyway"
        );
        return refuse(Errno::EPERM, text);
    }
    if applications.len() >= APPLICATIONS_MAX {
        return refuse(
            Errno::EINVAL,
            format!("too many enabled applications on pool '{name}'; max {APPLICATIONS_MAX}"),
        );
    }
    if app.len() > LENGTH_MAX {
        return refuse(Errno::EINVAL, format!("application name '{app}' too long; max length {LENGTH_MAX}"));
    }
    mon.osds.edit_pool(id, |pool| {
        pool.applications.entry(app.clone()).or_default();
    });
    Ok(Reply::status(format!("enabled application '{app}' on pool '{name}'")))
}

fn disable(mon: &mut Mon, call: &Call) -> Answer {
    let (name, id, applications) = pool(mon, call)?;
    let app = call.text("app")?;
    if !call.flag("yes_i_really_mean_it") {
        return refuse(
            Errno::EPERM,
            "Are you SURE? Disabling an application within a pool might result in loss of application functionality; \
             pass --yes-i-really-mean-it to proceed anyway",
        );
    }
    if !applications.contains_key(&app) {
        return Ok(Reply::status(format!("application '{app}' is not enabled on pool '{name}'")));
    }
    mon.osds.edit_pool(id, |pool| drop(pool.applications.remove(&app)));
    Ok(Reply::status(format!("disable application '{app}' on pool '{name}'")))
}

fn set(mon: &mut Mon, call: &Call) -> Answer {
    let (name, id, applications) = pool(mon, call)?;
    let (app, key, value) = (call.text("app")?, call.text("key")?, call.text("value")?);
    let Some(keys) = applications.get(&app) else {
        return refuse(Errno::ENOENT, format!("application '{app}' is not enabled on pool '{name}'"));
    };
    if key.is_empty() {
        return refuse(Errno::EINVAL, "key must be provided");
    }
    if !keys.contains_key(&key) && keys.len() >= KEYS_MAX {
        return refuse(
            Errno::EINVAL,
            format!("too many keys set for application '{app}' on pool '{name}'; max {KEYS_MAX}"),
        );
    }
    if key.len() > LENGTH_MAX || value.len() > LENGTH_MAX {
        return refuse(Errno::EINVAL, format!("key '{key}' or its value too long; max length {LENGTH_MAX}"));
    }
    let status = format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'");
    mon.osds.edit_pool(id, |pool| {
        pool.applications.entry(app).or_default().insert(key, value);
    });
    Ok(Reply::status(status))
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let (name, id, applications) = pool(mon, call)?;
    let (app, key) = (call.text("app")?, call.text("key")?);
    let Some(keys) = applications.get(&app) else {
        return refuse(Errno::ENOENT, format!("application '{app}' is not enabled on pool '{name}'"));
    };
    if !keys.contains_key(&key) {
        return Ok(Reply::status(format!("application '{app}' on pool '{name}' does not have key '{key}'")));
    }
    mon.osds.edit_pool(id, |pool| {
        if let Some(keys) = pool.applications.get_mut(&app) {
            keys.remove(&key);
        }
    });
    Ok(Reply::status(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}

fn applications_value(applications: &Applications) -> Value {
    Value::members(applications.iter().map(|(app, keys)| (app.clone(), Value::members(keys.clone()))))
}

fn get(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let Some(name) = call.text_opt("pool")?.filter(|n| !n.is_empty()) else {
        let all = map.pools.iter().map(|(id, pool)| {
            (map.pool_name(*id).unwrap_or_default().to_owned(), applications_value(&pool.applications))
        });
        return Ok(Reply::value(call, &Value::members(all)));
    };
    let id = pool_named(map, &name)?;
    let applications = map.pool(id).map(|p| p.applications.clone()).unwrap_or_default();
    let Some(app) = call.text_opt("app")?.filter(|a| !a.is_empty()) else {
        return Ok(Reply::value(call, &applications_value(&applications)));
    };
    let Some(keys) = applications.get(&app) else {
        return refuse(Errno::ENOENT, format!("pool '{name}' has no application '{app}'"));
    };
    let Some(key) = call.text_opt("key")?.filter(|k| !k.is_empty()) else {
        return Ok(Reply::value(call, &Value::members(keys.clone())));
    };
    let Some(value) = keys.get(&key) else {
        return refuse(Errno::ENOENT, format!("application '{app}' on pool '{name}' does not have key '{key}'"));
    };
    let shown = || Value::Text(value.clone());
    Ok(Reply::either(call, shown, || format!("{value}\n")))
}
