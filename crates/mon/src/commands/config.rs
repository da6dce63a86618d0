//! `config`: the central configuration.
//!
//! Follows Ceph v16.2 `src/mon/ConfigMonitor.cc`, and `src/pybind/mgr`'s `config show`, which is the monitor's here:
//! it knows what the central configuration makes of a daemon, and what the options' defaults are.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Align, Table, Value, quantity};
use crate::mon::Mon;
use crate::object;
use crate::options::OPTIONS;
use crate::options::{self, Level, OptionSpec, normalize_name};
use crate::services::config::Target;
use admin::settings::LAYERS;
use admin::{Administered, Layer};
use base::{Errno, OsdId};
use maps::tenants::{self, Tenants};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "config set name=who,type=CephString name=name,type=CephString name=value,type=CephString name=force,type=CephBool,req=false",
        "set an option for a section: global, a type of daemon or client, or one of them",
        "config",
        "rw",
        set,
    ),
    spec(
        "config rm name=who,type=CephString name=name,type=CephString",
        "take back what was set for an option",
        "config",
        "rw",
        remove,
    ),
    spec(
        "config get name=who,type=CephString name=key,type=CephString,req=false",
        "show what options an entity gets",
        "config",
        "r",
        get,
    ),
    spec("config dump", "show all options that were set", "mon", "r", dump),
    spec("config help name=key,type=CephString", "describe an option", "config", "r", help),
    spec("config ls", "list the options there are", "config", "r", list),
    spec(
        "config assimilate-conf",
        "take over the options of a configuration file, and return what has to stay in one",
        "config",
        "rw",
        assimilate,
    ),
    spec("config log name=num,type=CephInt,req=false", "show the latest changes", "config", "r", log),
    spec("config reset name=num,type=CephInt,range=0", "go back to version <num>", "config", "rw", reset),
    spec(
        "config generate-minimal-conf",
        "write the configuration file that a client needs",
        "config",
        "r",
        minimal_conf,
    ),
    spec(
        "config show name=who,type=CephString name=key,type=CephString,req=false",
        "show the options a running daemon uses",
        "mgr",
        "r",
        show,
    ),
    spec(
        "config show-with-defaults name=who,type=CephString",
        "show the options a running daemon uses, defaults too",
        "mgr",
        "r",
        show_with_defaults,
    ),
];

fn target(who: &str) -> Result<Target, Refused> {
    Target::parse(who).ok_or_else(|| Refused::new(Errno::EINVAL, format!("unrecognized config target '{who}'")))
}

/// What a process has to know before it can ask the monitor, and what it would lose the monitor by (`no_mon_update` in
/// v16.2 `src/common/options/global.yaml.in`).
const NEVER_CENTRAL: [&str; 4] = ["fsid", "host", "mon_host", "keyring"];

fn set(mon: &mut Mon, call: &Call) -> Answer {
    let target = target(&call.text("who")?)?;
    let (name, value) = (normalize_name(&call.text("name")?), call.text("value")?);
    if NEVER_CENTRAL.contains(&name.as_str()) {
        return refuse(Errno::EINVAL, format!("{name} is special and cannot be stored by the mon"));
    }
    let value = match options::find(&name) {
        None if call.flag("force") => value,
        None => return refuse(Errno::EINVAL, format!("unrecognized config option '{name}'")),
        Some(option) => match option.normalize(&value) {
            Ok(value) => value,
            Err(_) if call.flag("force") => value,
            Err(why) => return refuse(Errno::EINVAL, format!("error parsing value: {why}")),
        },
    };
    if name == tenants::OPTION {
        let tenants = Tenants::parse(&value).map_err(|bad| Refused::new(Errno::EINVAL, bad.to_string()))?;
        mon.check_tenants(&tenants)?;
    }
    mon.central.change(call.now, &title(call), vec![(target.clone(), name.clone(), Some(value.clone()))]);
    mon.apply_options();
    Ok(Reply::status(mon.remark_on_setting(&target, &name, &value)))
}

fn title(call: &Call) -> String {
    format!("{} {}", call.entity, call.prefix)
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let target = target(&call.text("who")?)?;
    let name = normalize_name(&call.text("name")?);
    mon.central.change(call.now, &title(call), vec![(target, name, None)]);
    mon.apply_options();
    Ok(Reply::empty())
}

fn level(name: &str) -> &'static str {
    options::find(name).map_or(Level::Dev.name(), |o| o.level.name())
}

fn runtime(name: &str) -> bool {
    options::find(name).is_some_and(|o| o.runtime)
}

fn mask_members(target: &Target) -> Vec<(String, Value)> {
    let mut members = Vec::new();
    if let Some((kind, value)) = &target.mask.location {
        members.push(("location_type".to_owned(), kind.into()));
        members.push(("location_value".to_owned(), value.into()));
    }
    if !target.mask.device_class.is_empty() {
        members.push(("device_class".to_owned(), Value::from(&target.mask.device_class)));
    }
    members
}

fn settings_table() -> Table {
    let mut table = Table::new();
    for heading in ["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"] {
        table.column(heading, Align::Left);
    }
    table
}

fn settings_row(table: &mut Table, who: String, target: &Target, name: &str, value: &str) {
    let fixed = if runtime(name) { "" } else { "*" };
    table.row([
        who,
        target.mask.to_string(),
        level(name).to_owned(),
        name.to_owned(),
        value.to_owned(),
        fixed.to_owned(),
    ]);
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    // Global first, then each type with its entities below it: the sections' own order but for the indentation.
    let depth = |section: &str| match section {
        "global" => 0,
        s => 1 + usize::from(s.contains('.')),
    };
    let mut settings: Vec<_> = mon.central.settings().collect();
    settings.sort_by_key(|(target, name, _)| {
        (target.section != "global", target.section.clone(), *name, target.mask.clone())
    });
    let value = || {
        Value::array(settings.iter().map(|(target, name, value)| {
            let mut setting = object! {
                "section" => target.section.as_str(),
                "name" => *name,
                "value" => *value,
                "level" => level(name),
                "can_update_at_runtime" => runtime(name),
                "mask" => target.mask.to_string(),
            };
            setting.extend(Value::Object(mask_members(target)));
            setting
        }))
    };
    let plain = || {
        let mut table = settings_table();
        for (target, name, value) in &settings {
            let who = format!("{}{}", " ".repeat(2 * depth(&target.section)), target.section);
            settings_row(&mut table, who, target, name, value);
        }
        table.render()
    };
    Ok(Reply::either(call, value, plain))
}

fn get(mon: &mut Mon, call: &Call) -> Answer {
    let who = call.text("who")?;
    let target = target(&who)?;
    let entity = mon.entity_for_config(&target.section, "");
    let effective = mon.central.effective(&entity);
    if let Some(key) = call.text_opt("key")? {
        let key = normalize_name(&key);
        if key == "fsid" {
            return Ok(Reply::data(format!("{}\n", mon.config.fsid)));
        }
        let Some(option) = options::find(&key) else {
            return refuse(Errno::ENOENT, format!("unrecognized key '{key}'"));
        };
        let value = effective.get(option.name).map_or(option.default, |(value, _)| value);
        return Ok(Reply::data(format!("{value}\n")));
    }
    let value = || {
        Value::members(effective.iter().map(|(name, (value, from))| {
            let setting = object! {
                "value" => *value,
                "section" => from.section.as_str(),
                "mask" => Value::Object(mask_members(from)),
                "can_update_at_runtime" => runtime(name),
            };
            (name.to_string(), setting)
        }))
    };
    let plain = || {
        let mut table = settings_table();
        for (name, (value, from)) in &effective {
            settings_row(&mut table, from.section.clone(), from, name, value);
        }
        table.render()
    };
    Ok(Reply::either(call, value, plain))
}

fn help(_: &mut Mon, call: &Call) -> Answer {
    let key = normalize_name(&call.text("key")?);
    let Some(option) = options::find(&key) else {
        return refuse(Errno::ENOENT, format!("configuration option '{key}' not recognized"));
    };
    Ok(Reply::either(call, || option.describe(), || plain_help(option)))
}

fn plain_help(option: &OptionSpec) -> String {
    let (name, kind, level) = (option.name, option.kind.name(), option.level.name());
    let mut text = format!("{name} - {}\n  ({kind}, {level})\n  Default: {}\n", option.about, option.default);
    for (what, bound) in [("Minimum", option.range.0), ("Maximum", option.range.1)] {
        if let Some(bound) = bound {
            text += &format!("  {what}: {bound}\n");
        }
    }
    if !option.choices.is_empty() {
        text += &format!("  Possible values:  {}\n", option.choices.join(" "));
    }
    text + &format!("  Can update at runtime: {}\n", option.runtime)
}

fn list(_: &mut Mon, call: &Call) -> Answer {
    let names = || OPTIONS.iter().map(|o| o.name);
    let plain = || names().map(|name| format!("{name}\n")).collect();
    Ok(Reply::either(call, || Value::array(names()), plain))
}

fn log(mon: &mut Mon, call: &Call) -> Answer {
    let count = usize::try_from(call.int_opt("num")?.unwrap_or(10)).unwrap_or(0);
    let versions: Vec<_> = mon.central.history().iter().rev().take(count).collect();
    let value = || {
        Value::array(versions.iter().map(|(number, version)| {
            let changes = version.changes.iter().map(|change| {
                let mut value = object! { "name" => change.key.as_str() };
                if let Some(before) = &change.before {
                    value.push("previous_value", before);
                }
                if let Some(after) = &change.after {
                    value.push("new_value", after);
                }
                value
            });
            object! {
                "version" => **number,
                "timestamp" => quantity::local_time(version.at),
                "name" => version.title.as_str(),
                "changes" => Value::array(changes),
            }
        }))
    };
    let plain = || {
        let mut text = String::new();
        for (number, version) in &versions {
            let (at, title) = (quantity::local_time(version.at), &version.title);
            text += &format!("--- {number} --- {at} --- {title} ---\n");
            for change in &version.changes {
                let line = |sign, value: &Option<String>| {
                    value.as_ref().map_or(String::new(), |v| format!("{sign} {} = {v}\n", change.key))
                };
                text += &line('-', &change.before);
                text += &line('+', &change.after);
            }
        }
        text
    };
    Ok(Reply::either(call, value, plain))
}

fn reset(mon: &mut Mon, call: &Call) -> Answer {
    let number = call.int("num")?;
    let edits = u32::try_from(number).ok().and_then(|n| mon.central.edits_back_to(n));
    let Some(edits) = edits else {
        return refuse(Errno::EINVAL, format!("version {number} of the configuration is not kept; see `config log`"));
    };
    mon.central.change(call.now, &format!("reset to {number}"), edits);
    mon.apply_options();
    Ok(Reply::empty())
}

fn minimal_conf(mon: &mut Mon, _: &Call) -> Answer {
    let (fsid, addrs) = (mon.config.fsid, &mon.config.addrs);
    Ok(Reply::data(format!("# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {addrs}\n")))
}

/// Options that a process needs before it can ask the monitor: they stay in the file.
fn stays_in_file(option: &OptionSpec) -> bool {
    !option.runtime && option.level == Level::Basic || option.name == "keyring"
}

fn assimilate(mon: &mut Mon, call: &Call) -> Answer {
    let Ok(text) = core::str::from_utf8(&call.input) else { return refuse(Errno::EINVAL, "the file is not UTF-8") };
    let (mut section, mut edits, mut rest) = (String::from("global"), Vec::new(), Vec::<(String, String)>::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').trim().to_owned();
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return refuse(Errno::EINVAL, format!("line {number}: expected NAME = VALUE"));
        };
        let (name, value) = (normalize_name(name.trim()), value.trim().trim_matches('"'));
        let known = options::find(&name).filter(|o| !stays_in_file(o));
        let normal = known.and_then(|o| o.normalize(value).ok());
        match (Target::parse(&section), normal) {
            (Some(target), Some(value)) => edits.push((target, name, Some(value))),
            _ => rest.push((section.clone(), format!("\t{name} = {value}\n"))),
        }
    }
    mon.central.change(call.now, &title(call), edits);
    mon.apply_options();
    let mut out = String::new();
    let mut at = None;
    for (section, line) in &rest {
        if at != Some(section) {
            out += &format!("[{section}]\n");
            at = Some(section);
        }
        out += line;
    }
    Ok(Reply::data(out))
}

/// An option of a running daemon: its value, where that is from, and what it overrides, the strongest first.
struct Running {
    option: &'static OptionSpec,
    value: String,
    source: &'static str,
    overrides: Vec<(&'static str, String)>,
}

impl Running {
    /// From what there is, the weakest first; the default where there is nothing.
    fn of(option: &'static OptionSpec, given: impl Iterator<Item = (&'static str, String)>) -> Running {
        let mut overrides: Vec<_> =
            given.map(|(source, value)| (source, option.normalize(&value).unwrap_or(value))).collect();
        let (source, value) = overrides.pop().unwrap_or(("default", option.default.to_owned()));
        overrides.reverse();
        Running { option, value, source, overrides }
    }
}

/// Where a value is from, by the number that daemons report (`CONF_*`).
fn source_name(level: i32) -> &'static str {
    match level {
        0 => "default",
        1 => "mon",
        2 => "file",
        3 => "env",
        4 => "cmdline",
        5 => "override",
        _ => "final",
    }
}

/// What gives a daemon's options their values.
type Layered<'a> = &'a dyn Fn(Layer, &str) -> Option<String>;

/// What is known of a running daemon's options: an OSD reports them, the monitor and the manager are this process.
fn running(mon: &Mon, who: &str) -> Result<Vec<Running>, Refused> {
    let osd = who.strip_prefix("osd.").and_then(|id| id.parse().ok()).map(OsdId);
    let own: Option<Layered<'_>> = match who {
        _ if *who == mon.entity() => Some(&|layer, name| mon.layer(layer, name)),
        _ if *who == mon.manager.entity() => Some(&|layer, name| mon.manager_layer(layer, name)),
        _ => None,
    };
    if let Some(layer_of) = own {
        let of = |option: &'static OptionSpec| {
            Running::of(option, LAYERS.iter().filter_map(|l| Some((l.name(), layer_of(*l, option.name)?))))
        };
        return Ok(OPTIONS.iter().map(of).collect());
    }
    let report = osd.filter(|osd| mon.osds.map().is_up(*osd)).and_then(|osd| mon.daemon_reports.of(osd));
    let Some(config) = report.and_then(|report| report.config.as_ref()) else {
        return refuse(Errno::ENOENT, format!("no config state for daemon {who}"));
    };
    let of = |option: &'static OptionSpec| {
        let given = config.get(option.name).into_iter().flatten();
        Running::of(option, given.map(|(level, value)| (source_name(*level), value.clone())))
    };
    Ok(OPTIONS.iter().map(of).collect())
}

fn show(mon: &mut Mon, call: &Call) -> Answer {
    let who = call.text("who")?;
    let mut options = running(mon, &who)?;
    if let Some(key) = call.text_opt("key")? {
        let key = normalize_name(&key);
        return match options.into_iter().find(|running| running.option.name == key) {
            Some(running) => Ok(Reply::data(format!("{}\n", running.value))),
            None => refuse(Errno::ENOENT, format!("unrecognized key '{key}'")),
        };
    }
    options.retain(|running| running.source != "default");
    Ok(show_options(call, options))
}

fn show_with_defaults(mon: &mut Mon, call: &Call) -> Answer {
    Ok(show_options(call, running(mon, &call.text("who")?)?))
}

fn show_options(call: &Call, mut options: Vec<Running>) -> Reply {
    options.sort_by_key(|running| running.option.name);
    let value = || {
        Value::array(options.iter().map(|running| {
            let Running { option, value, source, overrides } = running;
            let mut shown = object! { "name" => option.name, "value" => value.as_str(), "source" => *source };
            if !overrides.is_empty() {
                let overridden = overrides.iter().map(|(source, value)| {
                    object! { "source" => *source, "value" => value.as_str() }
                });
                shown.push("overrides", Value::array(overridden));
            }
            shown
        }))
    };
    let plain = || {
        let mut table = Table::new();
        for heading in ["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"] {
            table.column(heading, Align::Left);
        }
        for Running { option, value, source, overrides } in &options {
            // What is overridden by the same value stands in parentheses.
            let mut overridden = String::new();
            for (source, weaker) in overrides.iter().rev() {
                let comma = if overridden.is_empty() { "" } else { "," };
                let text =
                    if weaker == value { format!("({source}[{weaker}])") } else { format!("{source}[{weaker}]") };
                overridden += &format!("{comma}{text}");
            }
            table.row([option.name.to_owned(), value.clone(), (*source).to_owned(), overridden, String::new()]);
        }
        table.render()
    };
    Reply::either(call, value, plain)
}
