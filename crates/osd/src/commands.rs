//! `ceph tell osd.N COMMAND`: the commands an OSD answers itself.
//!
//! Owns the table of commands with their descriptions, which the CLI asks for first, and their execution. Whoever is
//! not allowed everything with OSDs is refused, as in Ceph (v16.2 `src/osd/OSD.cc`).

use crate::core::Core;
use crate::pg::Pg;
use crate::stats::{Reporter, pg_state};
use base::hash::FixedHashMap;
use base::{Errno, PgId};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use wire::messages::{Command, CommandReply};
use wire::net::ConnId;

/// A command: its words, what it is for.
struct Described {
    words: &'static [&'static str],
    help: &'static str,
}

const COMMANDS: &[Described] = &[
    Described { words: &["version"], help: "report version of OSD" },
    Described { words: &["status"], help: "high-level status of OSD" },
    Described { words: &["flush_pg_stats"], help: "flush pg stats" },
    Described { words: &["dump_ops_in_flight"], help: "show the ops currently in flight" },
    Described { words: &["dump_pg_states"], help: "show the state of every pg that this OSD leads" },
    Described { words: &["get_command_descriptions"], help: "list available commands" },
];

/// Runs a command.
pub fn run(
    core: &mut Core,
    pgs: &FixedHashMap<PgId, Box<Pg>>,
    stats: &Reporter,
    conn: ConnId,
    command: &Command,
) -> CommandReply {
    let allowed = core.sessions.get(conn).is_some_and(|session| session.caps.allows_all());
    if !allowed {
        return refused(Errno::EACCES, "access denied");
    }
    let Some((prefix, format)) = parse(&command.command) else {
        return refused(Errno::EINVAL, "command not understood");
    };
    match prefix.as_str() {
        "get_command_descriptions" => done(&descriptions(), false),
        "version" => {
            done(&json!({"version": crate::VERSION_TEXT, "release": "pacific", "release_type": "stable"}), format)
        }
        "status" => done(&status(core, pgs), format),
        "flush_pg_stats" => {
            core.stats_changed = true;
            // The report that is about to be sent carries the next number.
            CommandReply { output: Bytes::from(format!("{}\n", stats.seq(core) + 1)), ..CommandReply::default() }
        }
        "dump_ops_in_flight" => done(&ops_in_flight(core, pgs), format),
        "dump_pg_states" => done(&states(core, pgs), format),
        _ => refused(Errno::EINVAL, &format!("unrecognized command: {prefix}")),
    }
}

/// The command's words and whether its output should be compact.
fn parse(words: &[String]) -> Option<(String, bool)> {
    let value: Value = serde_json::from_str(&words.concat()).ok()?;
    let prefix = value.get("prefix")?.as_str()?.to_owned();
    let compact = value.get("format").and_then(Value::as_str).is_some_and(|format| format == "json");
    Some((prefix, compact))
}

fn refused(errno: Errno, status: &str) -> CommandReply {
    CommandReply { result: errno.code(), status: status.to_owned(), ..CommandReply::default() }
}

fn done(value: &Value, compact: bool) -> CommandReply {
    let text = if compact { value.to_string() } else { format!("{value:#}") };
    CommandReply { output: Bytes::from(text + "\n"), ..CommandReply::default() }
}

fn descriptions() -> Value {
    let describe = |(i, c): (usize, &Described)| {
        let value = json!({"sig": c.words, "help": c.help});
        (format!("cmd{i:03}"), value)
    };
    Value::Object(COMMANDS.iter().enumerate().map(describe).collect::<Map<_, _>>())
}

fn status(core: &Core, pgs: &FixedHashMap<PgId, Box<Pg>>) -> Value {
    json!({
        "cluster_fsid": core.config.fsid.to_string(),
        "osd_fsid": core.config.osd_fsid.to_string(),
        "whoami": core.config.id.0,
        "state": "active",
        "newest_map": core.epoch().0,
        "num_pgs": pgs.len(),
    })
}

fn ops_in_flight(core: &Core, pgs: &FixedHashMap<PgId, Box<Pg>>) -> Value {
    let mut ops: Vec<Value> = Vec::new();
    for pg in pgs.values() {
        for write in &pg.in_flight {
            let request = &write.request;
            ops.push(json!({
                "description": format!("osd_op({} {} {:?})", request.reqid, pg.id, request.message.ops),
                "type_data": {"flag_point": "waiting for sub ops"},
            }));
        }
        for request in &pg.waiting {
            ops.push(json!({
                "description": format!("osd_op({} {} {:?})", request.reqid, pg.id, request.message.ops),
                "type_data": {"flag_point": "waiting for peered"},
            }));
        }
    }
    let (requests, bytes) = core.sessions.load();
    json!({"num_ops": requests, "num_bytes": bytes, "ops": ops})
}

fn states(core: &Core, pgs: &FixedHashMap<PgId, Box<Pg>>) -> Value {
    let mut led: Vec<&Pg> = pgs.values().filter(|pg| pg.is_primary()).map(|pg| &**pg).collect();
    led.sort_unstable_by_key(|pg| pg.id);
    let one = |pg: &&Pg| {
        let state = pg_state(core, pg).names().collect::<Vec<_>>().join("+");
        (pg.id.to_string(), json!({"state": state, "last_update": pg.info.last_update.to_string()}))
    };
    Value::Object(led.iter().map(one).collect())
}
