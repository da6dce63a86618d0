//! `config-key`: the key-value store for tools.
//!
//! Follows Ceph v16.2 `src/mon/ConfigKeyService.cc`.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::Value;
use crate::limits::CONFIG_KEY_BYTES_MAX;
use crate::mon::Mon;
use base::Errno;
use bytes::Bytes;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("config-key get name=key,type=CephString", "show the value of <key>", "config-key", "r", get),
    spec(
        "config-key set name=key,type=CephString name=val,type=CephString,req=false",
        "set <key> to <val> or to the input file",
        "config-key",
        "rw",
        set,
    ),
    spec(
        "config-key put name=key,type=CephString name=val,type=CephString,req=false",
        "set <key> to <val> or to the input file",
        "config-key",
        "rw",
        set,
    )
    .deprecated(),
    spec("config-key del name=key,type=CephString", "remove <key>", "config-key", "rw", remove).deprecated(),
    spec("config-key rm name=key,type=CephString", "remove <key>", "config-key", "rw", remove),
    spec("config-key exists name=key,type=CephString", "check whether <key> is set", "config-key", "r", exists),
    spec("config-key list", "list keys", "config-key", "r", list).deprecated(),
    spec("config-key ls", "list keys", "config-key", "r", list),
    spec(
        "config-key dump name=key,type=CephString,req=false",
        "show keys and values, of keys that begin with <key>",
        "config-key",
        "r",
        dump,
    ),
];

fn get(mon: &mut Mon, call: &Call) -> Answer {
    let key = call.text("key")?;
    match mon.config_keys.get(&key) {
        Some(value) => Ok(Reply::data(value.clone())),
        None => refuse(Errno::ENOENT, format!("error obtaining '{key}': (2) No such file or directory")),
    }
}

fn set(mon: &mut Mon, call: &Call) -> Answer {
    let key = call.text("key")?;
    let value = match call.text_opt("val")? {
        Some(text) => Bytes::from(text),
        None => call.input.clone(),
    };
    if value.len() > CONFIG_KEY_BYTES_MAX {
        let text = format!(
            "error: entry size limited to {CONFIG_KEY_BYTES_MAX} bytes. Use 'mon config key max entry size' to manually adjust"
        );
        return refuse(Errno::EFBIG, text);
    }
    mon.config_keys.set(&key, value);
    Ok(Reply::status(format!("set {key}")))
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let key = call.text("key")?;
    mon.config_keys.remove(&key);
    Ok(Reply::status("key deleted"))
}

fn exists(mon: &mut Mon, call: &Call) -> Answer {
    let key = call.text("key")?;
    match mon.config_keys.get(&key) {
        Some(_) => Ok(Reply::status(format!("key '{key}' exists"))),
        None => refuse(Errno::ENOENT, format!("key '{key}' doesn't exist")),
    }
}

fn list(mon: &mut Mon, call: &Call) -> Answer {
    let keys = Value::array(mon.config_keys.with_prefix("").map(|(key, _)| key));
    Ok(Reply::value(call, &keys))
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let prefix = call.text_opt("key")?.unwrap_or_default();
    let shown = |value: &Bytes| match core::str::from_utf8(value) {
        Ok(text) if !text.chars().any(|c| c.is_control() && !c.is_whitespace()) => text.to_owned(),
        _ => format!("<<< binary blob of length {} >>>", value.len()),
    };
    let pairs = mon.config_keys.with_prefix(&prefix).map(|(key, value)| (key.clone(), shown(value)));
    Ok(Reply::value(call, &Value::members(pairs)))
}
