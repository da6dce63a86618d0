//! `auth`: entities, their keys and capabilities.
//!
//! Follows Ceph v16.2 `src/mon/AuthMonitor.cc` (`preprocess_command`, `prepare_command`): what is asked for twice is
//! granted twice, what contradicts what is there is refused with EINVAL.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::Errno;
use std::collections::BTreeMap;
use wire::cephx::{AuthName, EntityAuth};
use wire::keyring::Keyring;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "auth export name=entity,type=CephString,req=false",
        "write the keyring of an entity, or of all",
        "auth",
        "rx",
        export,
    ),
    spec("auth get name=entity,type=CephString", "write an entity's keyring", "auth", "rx", get),
    spec("auth get-key name=entity,type=CephString", "show an entity's key", "auth", "rx", print_key),
    spec("auth print-key name=entity,type=CephString", "show an entity's key", "auth", "rx", print_key),
    spec("auth print_key name=entity,type=CephString", "show an entity's key", "auth", "rx", print_key),
    spec("auth list", "list entities with keys and capabilities", "auth", "rx", list).deprecated(),
    spec("auth ls", "list entities with keys and capabilities", "auth", "rx", list),
    spec("auth import", "add the entities of a keyring given with -i <file>", "auth", "rwx", import),
    spec(
        "auth add name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        "add an entity with a key from the input file or a random one, and capabilities",
        "auth",
        "rwx",
        add,
    ),
    spec(
        "auth get-or-create-key name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        "show an entity's key, adding it if it is not there; capabilities given must be those it has",
        "auth",
        "rwx",
        get_or_create_key,
    ),
    spec(
        "auth get-or-create name=entity,type=CephString name=caps,type=CephString,n=N,req=false",
        "write an entity's keyring, adding it if it is not there; capabilities given must be those it has",
        "auth",
        "rwx",
        get_or_create,
    ),
    spec(
        "auth caps name=entity,type=CephString name=caps,type=CephString,n=N",
        "replace an entity's capabilities",
        "auth",
        "rwx",
        set_caps,
    ),
    spec("auth del name=entity,type=CephString", "remove an entity", "auth", "rwx", remove).deprecated(),
    spec("auth rm name=entity,type=CephString", "remove an entity", "auth", "rwx", remove),
];

type Caps = BTreeMap<String, String>;

fn entity(call: &Call) -> Result<AuthName, Refused> {
    AuthName::parse(&call.text("entity")?).ok_or_else(|| Refused::new(Errno::EINVAL, "bad entity name"))
}

fn caps(call: &Call) -> Result<Caps, Refused> {
    let words = call.list("caps")?;
    if words.len() % 2 != 0 {
        return refuse(Errno::EINVAL, "bad capabilities request; odd number of arguments");
    }
    let mut caps = Caps::new();
    for pair in words.chunks_exact(2) {
        check_caps(&pair[0], &pair[1])?;
        caps.insert(pair[0].clone(), pair[1].clone());
    }
    Ok(caps)
}

/// Refuses capabilities that no daemon could read.
fn check_caps(service: &str, text: &str) -> Result<(), Refused> {
    wire::caps::validate(service, text).map_err(|bad| Refused::new(Errno::EINVAL, bad.to_string()))
}

fn input_keyring(call: &Call) -> Result<Keyring, Refused> {
    let text =
        core::str::from_utf8(&call.input).map_err(|_| Refused::new(Errno::EINVAL, "the keyring is not UTF-8"))?;
    Keyring::parse(text).map_err(|e| Refused::new(Errno::EINVAL, format!("error decoding keyring: {e}")))
}

fn keyring_reply(call: &Call, keyring: &Keyring) -> Reply {
    let value = || {
        Value::array(keyring.entities.iter().map(|(name, auth)| {
            object! {
                "entity" => name.to_string(),
                "key" => auth.key.to_text(),
                "caps" => Value::members(auth.caps.clone()),
            }
        }))
    };
    Reply::either(call, value, || keyring.to_text())
}

fn find(mon: &Mon, name: &AuthName) -> Option<EntityAuth> {
    mon.auth.mon.keys.entity(name).cloned()
}

fn export(mon: &mut Mon, call: &Call) -> Answer {
    if !call.has("entity") {
        let entities = mon.auth.mon.keys.entities().map(|(n, a)| (n.clone(), a.clone())).collect();
        return Ok(keyring_reply(call, &Keyring { entities }).with_status("exported master keyring"));
    }
    let name = entity(call)?;
    let Some(auth) = find(mon, &name) else {
        return refuse(Errno::ENOENT, format!("no key for {name}"));
    };
    let status = format!("export auth(key={})", auth.key.to_text());
    Ok(keyring_reply(call, &Keyring::one(name, auth)).with_status(status))
}

fn get(mon: &mut Mon, call: &Call) -> Answer {
    let name = entity(call)?;
    let Some(auth) = find(mon, &name) else {
        return refuse(Errno::ENOENT, format!("failed to find {name} in keyring"));
    };
    let status = format!("exported keyring for {name}");
    Ok(keyring_reply(call, &Keyring::one(name, auth)).with_status(status))
}

fn print_key(mon: &mut Mon, call: &Call) -> Answer {
    let name = entity(call)?;
    let Some(auth) = find(mon, &name) else {
        return refuse(Errno::ENOENT, format!("don't have {name}"));
    };
    let key = auth.key.to_text();
    Ok(Reply::either(call, || object! { "key" => key.as_str() }, || key.clone()))
}

fn list(mon: &mut Mon, call: &Call) -> Answer {
    let keys = &mon.auth.mon.keys;
    if !call.format.is_plain() {
        let entities = keys.entities().map(|(name, auth)| {
            object! {
                "entity" => name.to_string(),
                "key" => auth.key.to_text(),
                "caps" => Value::members(auth.caps.clone()),
            }
        });
        return Ok(Reply::value(call, &object! { "auth_dump" => Value::array(entities) }));
    }
    let mut text = String::new();
    for (name, auth) in keys.entities() {
        text += &format!("{name}\n\tkey: {}\n", auth.key.to_text());
        for (service, caps) in &auth.caps {
            text += &format!("\tcaps: [{service}] {caps}\n");
        }
    }
    Ok(Reply::data(text).with_status("installed auth entries:\n"))
}

fn import(mon: &mut Mon, call: &Call) -> Answer {
    let keyring = input_keyring(call)?;
    if keyring.entities.is_empty() {
        return refuse(Errno::EINVAL, "auth import: no data supplied");
    }
    for auth in keyring.entities.values() {
        auth.caps.iter().try_for_each(|(service, text)| check_caps(service, text))?;
    }
    for (name, auth) in keyring.entities {
        mon.auth.mon.keys.set(name, auth);
    }
    Ok(Reply::status("imported keyring"))
}

fn add(mon: &mut Mon, call: &Call) -> Answer {
    let (name, mut caps) = (entity(call)?, caps(call)?);
    let given = if call.input.is_empty() { None } else { input_keyring(call)?.entity(&name).cloned() };
    if !call.input.is_empty() && given.is_none() {
        return refuse(Errno::EINVAL, format!("key for {name} not found in provided keyring"));
    }
    if let Some(given) = &given
        && caps.is_empty()
    {
        given.caps.iter().try_for_each(|(service, text)| check_caps(service, text))?;
        caps = given.caps.clone();
    }
    if let Some(auth) = find(mon, &name) {
        if given.as_ref().is_some_and(|g| g.key != auth.key) {
            return refuse(Errno::EINVAL, format!("entity {name} exists but key does not match"));
        }
        if auth.caps != caps {
            return refuse(Errno::EINVAL, format!("entity {name} exists but caps do not match"));
        }
        return Ok(Reply::empty());
    }
    let key = given.map_or_else(|| mon.auth.mon.generate_key(call.now), |g| g.key);
    mon.auth.mon.keys.set(name.clone(), EntityAuth { key, caps });
    Ok(Reply::status(format!("added key for {name}")))
}

/// The entity's record, made if it is not there.
fn found_or_made(mon: &mut Mon, call: &Call) -> Result<(AuthName, EntityAuth), Refused> {
    let (name, mut caps) = (entity(call)?, caps(call)?);
    if let Some(auth) = find(mon, &name) {
        for (service, text) in &caps {
            if auth.caps.get(service) != Some(text) {
                return refuse(Errno::EINVAL, format!("key for {name} exists but cap {service} does not match"));
            }
        }
        return Ok((name, auth));
    }
    let given = if call.input.is_empty() { None } else { input_keyring(call)?.entity(&name).cloned() };
    if let Some(given) = &given
        && caps.is_empty()
    {
        given.caps.iter().try_for_each(|(service, text)| check_caps(service, text))?;
        caps = given.caps.clone();
    }
    let key = given.map_or_else(|| mon.auth.mon.generate_key(call.now), |g| g.key);
    let auth = EntityAuth { key, caps };
    mon.auth.mon.keys.set(name.clone(), auth.clone());
    Ok((name, auth))
}

fn get_or_create_key(mon: &mut Mon, call: &Call) -> Answer {
    let (_, auth) = found_or_made(mon, call)?;
    let key = auth.key.to_text();
    Ok(Reply::either(call, || object! { "key" => key.as_str() }, || format!("{key}\n")))
}

fn get_or_create(mon: &mut Mon, call: &Call) -> Answer {
    let (name, auth) = found_or_made(mon, call)?;
    Ok(keyring_reply(call, &Keyring::one(name, EntityAuth { caps: Caps::new(), ..auth })))
}

fn set_caps(mon: &mut Mon, call: &Call) -> Answer {
    let name = entity(call)?;
    let Some(auth) = find(mon, &name) else {
        return refuse(Errno::ENOENT, format!("couldn't find entry {name}"));
    };
    let caps = caps(call)?;
    mon.auth.mon.keys.set(name.clone(), EntityAuth { caps, ..auth });
    Ok(Reply::status(format!("updated caps for {name}")))
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let name = entity(call)?;
    if !mon.auth.mon.keys.remove(&name) {
        return Ok(Reply::status(format!("entity {name} does not exist")));
    }
    Ok(Reply::status("updated"))
}
