//! The commands that every daemon has, over what every daemon has.
//!
//! Follows Ceph v16.2 `src/common/ceph_context.cc` (`CephContext::_do_command`) for names, shapes and refusals.

use crate::command::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::counters::{self, CounterSet, CounterSpec, Reading};
use crate::format::Value;
use crate::histogram::{self, Histogram};
use crate::object;
use crate::options::{self, OPTIONS, OptionSpec, normalize_name};
use crate::settings::{self, Layer};
use base::Errno;
use bytes::Bytes;

/// The release whose behaviour is followed.
pub const VERSION: &str = "16.2.15";

/// What stands where Ceph names its commit.
pub const BUILD: &str = concat!("loligo ", env!("CARGO_PKG_VERSION"));

/// A daemon that can be administered.
pub trait Administered: Sized + 'static {
    /// Its name: `osd.0`.
    fn entity(&self) -> String;

    /// The value that a layer gives an option.
    fn layer(&self, layer: Layer, option: &str) -> Option<String>;

    /// Sets or unsets a value until the daemon stops, and goes by it from now on.
    fn set_override(&mut self, option: &str, value: Option<String>);

    /// Shows the daemon's counters, set by set.
    fn visit_counters(&self, see: &mut dyn FnMut(&str, &dyn CounterSet));

    /// Shows the daemon's histograms, each with its set, its name and a line about it.
    fn visit_histograms(&self, _see: &mut dyn FnMut(&str, &str, &str, &Histogram)) {}

    /// Sets back the counters of one set or of all.
    fn reset_counters(&mut self, set: Option<&str>);
}

/// The common commands of the engine `E`.
pub struct Common<E>(core::marker::PhantomData<E>);

impl<E: Administered> Common<E> {
    /// Their table.
    pub const COMMANDS: &'static [CommandSpec<E>] = &[
        spec("help", "list the commands there are", "admin", "r", of_the_table),
        spec("get_command_descriptions", "describe the commands there are", "admin", "r", of_the_table),
        spec("version", "show the daemon's version", "admin", "r", version),
        spec("git_version", "show what the daemon was built from", "admin", "r", git_version),
        spec("config show", "show all options as they are in force", "admin", "r", config_show),
        spec("config get name=var,type=CephString", "show one option", "admin", "r", config_get),
        spec("config help name=var,type=CephString,req=false", "describe an option, or all", "admin", "r", config_help),
        spec("config diff", "show the options that were set anywhere", "admin", "r", config_diff),
        spec("config diff get name=var,type=CephString", "show where one option was set", "admin", "r", config_diff),
        spec(
            "config set name=var,type=CephString name=val,type=CephString,n=N",
            "set an option until the daemon restarts",
            "admin",
            "rw",
            config_set,
        ),
        spec("config unset name=var,type=CephString", "take such a setting back", "admin", "rw", config_unset),
        spec(
            "injectargs name=injected_args,type=CephString,n=N",
            "set options, given as arguments",
            "admin",
            "rw",
            inject,
        ),
        spec(
            "perf dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
            "show counters",
            "admin",
            "r",
            perf_dump,
        ),
        spec("perf schema", "describe counters", "admin", "r", perf_schema),
        spec(
            "perf histogram dump name=logger,type=CephString,req=false name=counter,type=CephString,req=false",
            "show histograms",
            "admin",
            "r",
            histogram_dump,
        ),
        spec("perf histogram schema", "describe histograms", "admin", "r", histogram_schema),
        spec("perf reset name=var,type=CephString", "set counters back: one set's, or all", "admin", "rw", perf_reset),
        spec("log flush", "write out buffered log lines", "admin", "rw", log_command),
        spec("log dump", "write recent log lines to the log", "admin", "rw", log_command),
        spec("log reopen", "open the log file anew", "admin", "rw", log_command),
    ];
}

/// The table answers these before any command runs (`CommandTable::answer_of_itself`).
fn of_the_table<E>(_: &mut E, call: &Call) -> Answer {
    refuse(Errno::EINVAL, format!("{} is answered by the table of commands", call.prefix))
}

fn version<E>(_: &mut E, call: &Call) -> Answer {
    Ok(Reply::value(call, &object! { "version" => VERSION, "release" => "pacific", "release_type" => "stable" }))
}

fn git_version<E>(_: &mut E, call: &Call) -> Answer {
    Ok(Reply::value(call, &object! { "git_version" => BUILD }))
}

/// The value in force.
fn value_of<E: Administered>(engine: &E, option: &OptionSpec) -> String {
    let value = settings::effective(option, |layer| engine.layer(layer, option.name));
    settings::expand(&value, &engine.entity())
}

fn known(name: &str, doing: &str) -> Result<&'static OptionSpec, Refused> {
    options::find(&normalize_name(name))
        .ok_or_else(|| Refused::new(Errno::ENOENT, format!("error {doing}: (2) No such file or directory")))
}

fn config_show<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let mut all = object! { "name" => engine.entity(), "cluster" => "ceph" };
    let mut options: Vec<&OptionSpec> = OPTIONS.iter().collect();
    options.sort_unstable_by_key(|option| option.name);
    options.into_iter().for_each(|option| all.push(option.name, value_of(engine, option)));
    Ok(Reply::value(call, &all))
}

fn config_get<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let name = call.text("var")?;
    let option = known(&name, &format!("getting '{name}'"))?;
    Ok(Reply::value(call, &Value::members([(option.name, value_of(engine, option))])))
}

fn config_help<E>(_: &mut E, call: &Call) -> Answer {
    if let Some(name) = call.text_opt("var")? {
        let option = known(&name, &format!("describing '{name}'"))?;
        return Ok(Reply::value(call, &Value::members([("option", option.describe())])));
    }
    let all = Value::array(OPTIONS.iter().map(OptionSpec::describe));
    Ok(Reply::value(call, &Value::members([("options", all)])))
}

fn config_diff<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let one = call.text_opt("var")?;
    if let Some(name) = &one {
        known(name, &format!("getting '{name}'"))?;
    }
    let value = settings::difference(&engine.entity(), one.as_deref(), |layer, name| engine.layer(layer, name));
    Ok(Reply::value(call, &value))
}

/// Sets an option; gives back the words that say so.
fn set<E: Administered>(engine: &mut E, name: &str, value: &str) -> Result<String, Refused> {
    let option = known(name, &format!("setting '{name}' to '{value}'"))?;
    let Ok(normal) = option.normalize(value) else {
        return refuse(Errno::EINVAL, format!("error setting '{name}' to '{value}': (22) Invalid argument"));
    };
    engine.set_override(option.name, Some(normal.clone()));
    let note = if option.runtime { "" } else { "(not observed, change may require restart) " };
    Ok(format!("{} = '{normal}' {note}", option.name))
}

fn config_set<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let said = set(engine, &call.text("var")?, &call.list("val")?.join(" "))?;
    Ok(Reply::value(call, &object! { "success" => said }))
}

fn config_unset<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let name = call.text("var")?;
    let option = known(&name, &format!("unsetting '{name}'"))?;
    engine.set_override(option.name, None);
    Ok(Reply::value(call, &Value::object()))
}

/// Options are set up to the first value that cannot be, whatever else stands beside them; what names no option is told
/// at the end (v16.2 `src/common/config.cc`, `md_config_t::injectargs`).
fn inject<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let text = call.list("injected_args")?.join(" ");
    let (mut words, mut said, mut unknown) = (text.split_whitespace().peekable(), String::new(), Vec::new());
    while let Some(word) = words.next() {
        let argument = word.strip_prefix("--").unwrap_or_default();
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        if options::find(&normalize_name(name)).is_none() {
            unknown.push(word);
            continue;
        }
        let value = value.or_else(|| words.next_if(|next| !next.starts_with("--"))).unwrap_or("true");
        said += &set(engine, name, value).map_err(|no| match no.errno {
            Errno::EINVAL => {
                Refused::new(no.errno, format!("Parse error setting {name} to '{value}' using injectargs."))
            }
            _ => no,
        })?;
    }
    if !unknown.is_empty() {
        let text = format!(" failed to parse arguments: {}\n{said}", unknown.join(","));
        return refuse(Errno::EINVAL, text);
    }
    Ok(Reply::value(call, &Value::object()).with_status(said))
}

fn perf<E: Administered>(
    engine: &E,
    (set, counter): (Option<&str>, Option<&str>),
    show: fn(&CounterSpec, Reading) -> Value,
) -> Value {
    let mut all = Value::object();
    engine.visit_counters(&mut |name, counters| {
        if set.is_none_or(|set| set == name) {
            let value = counters::set_value(counters, counter, show);
            if counter.is_none() || value != Value::object() {
                all.push(name, value);
            }
        }
    });
    all
}

fn perf_dump<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let (set, counter) = (call.text_opt("logger")?, call.text_opt("counter")?);
    let one = (set.as_deref().filter(|s| !s.is_empty()), counter.as_deref().filter(|c| !c.is_empty()));
    Ok(Reply::value(call, &perf(engine, one, |_, reading| counters::reading_value(reading))))
}

fn perf_schema<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    Ok(Reply::value(call, &perf(engine, (None, None), |spec, _| counters::schema_value(spec))))
}

/// The histograms, one object a set, of one set or one counter only where these are named.
fn histograms<E: Administered>(
    engine: &E,
    (set, counter): (Option<&str>, Option<&str>),
    show: fn(&str, &Histogram) -> Value,
) -> Value {
    let mut sets: Vec<(String, Value)> = Vec::new();
    // Sets without any are there too, as with Ceph.
    engine.visit_counters(&mut |name, _| sets.push((name.to_owned(), Value::object())));
    engine.visit_histograms(&mut |owner, name, help, histogram| {
        if counter.is_none_or(|counter| counter == name)
            && let Some((_, members)) = sets.iter_mut().find(|(set, _)| set == owner)
        {
            members.push(name, show(help, histogram));
        }
    });
    let meant = |name: &str, members: &Value| {
        set.is_none_or(|set| set == name) && (counter.is_none() || *members != Value::object())
    };
    Value::members(sets.into_iter().filter(|(name, members)| meant(name, members)))
}

fn histogram_dump<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let (set, counter) = (call.text_opt("logger")?, call.text_opt("counter")?);
    let one = (set.as_deref().filter(|s| !s.is_empty()), counter.as_deref().filter(|c| !c.is_empty()));
    Ok(Reply::value(call, &histograms(engine, one, |_, histogram| histogram.value())))
}

fn histogram_schema<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    Ok(Reply::value(call, &histograms(engine, (None, None), |help, _| histogram::schema_value(help))))
}

fn perf_reset<E: Administered>(engine: &mut E, call: &Call) -> Answer {
    let name = call.text("var")?;
    let mut known = name == "all";
    engine.visit_counters(&mut |set, _| known |= set == name);
    if !known {
        return Ok(Reply::value(call, &object! { "error" => format!("Not find: {name}") }));
    }
    engine.reset_counters(Some(name.as_str()).filter(|name| *name != "all"));
    Ok(Reply::value(call, &object! { "success" => format!("perf reset {name}") }))
}

/// Lines are written as they come and the file is never held open for long: there is nothing left to do.
fn log_command<E>(_: &mut E, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::object()))
}

/// An answer as the admin socket carries it: there is no room for an errno, so that a refusal begins with its text
/// (v16.2 `src/common/admin_socket.cc`, `AdminSocket::do_accept`).
pub fn socket_text(answer: Answer) -> Bytes {
    match answer {
        Ok(reply) => reply.data,
        Err(refused) => {
            let code = refused.errno.code().unsigned_abs();
            let what = refused.errno.text().unwrap_or("Unknown error");
            let mut text = format!("ERROR: ({code}) {what}\n{}\n", refused.text).into_bytes();
            text.extend_from_slice(&refused.data);
            text.into()
        }
    }
}

#[cfg(test)]
mod tests;
