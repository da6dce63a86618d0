//! Commands: the table of them, how one is found and run.
//!
//! Owns the list (every module's `COMMANDS`), the check of capabilities and the audit line. What each does is in the
//! module that its first words name; `osd` is spread over several.
//!
//! Read next: `answer`, `arguments`, then any module.

mod answer;
mod arguments;
mod auth;
mod config;
mod config_key;
mod descriptions;
mod df;
mod fs;
mod health;
mod log;
mod mgr;
mod mon;
mod osd;
mod osd_blocklist;
mod osd_crush;
mod osd_crush_rules;
mod osd_df;
mod osd_dump;
mod osd_membership;
mod osd_pool;
mod osd_pool_applications;
mod osd_pool_create;
mod osd_pool_get;
mod osd_pool_set;
mod osd_settings;
mod osd_tree;
mod pg;
mod pg_dump;
mod pg_list;
mod signature;
mod status;
mod tell;

pub(crate) use osd_pool_create::NewPool;

pub use answer::{Answer, Refused, Reply, refuse};
pub use arguments::{Call, parse_osd};
pub use signature::{Parameter, Signature};

use crate::mon::{LogLevel, Mon};
use crate::services::log::LogLevel as ClusterLevel;
use crate::sessions::Session;
use base::{Errno, Instant};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::messages::{Command, CommandReply, MonCommand, MonCommandAck};
use wire::net::ConnId;

/// What a handler is.
pub type Handler = fn(&mut Mon, &Call) -> Answer;

/// One command.
pub struct CommandSpec {
    /// Its signature in Ceph's notation.
    pub sig: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The module whose capability it needs.
    pub module: &'static str,
    /// The permissions it needs, of `r`, `w` and `x`.
    pub perm: &'static str,
    /// `Flag` bits; 4 is deprecated, 32 hidden from help.
    pub flags: u32,
    /// What carries it out.
    pub run: Handler,
}

/// A command with the usual flags.
pub(crate) const fn spec(
    sig: &'static str,
    help: &'static str,
    module: &'static str,
    perm: &'static str,
    run: Handler,
) -> CommandSpec {
    CommandSpec { sig, help, module, perm, flags: 0, run }
}

impl CommandSpec {
    pub(crate) const fn deprecated(self) -> CommandSpec {
        CommandSpec { flags: 4, ..self }
    }
}

const MODULES: &[&[CommandSpec]] = &[
    pg::COMMANDS,
    pg_list::COMMANDS,
    pg_dump::COMMANDS,
    auth::COMMANDS,
    mon::COMMANDS,
    log::COMMANDS,
    status::COMMANDS,
    health::COMMANDS,
    df::COMMANDS,
    fs::COMMANDS,
    osd::COMMANDS,
    osd_dump::COMMANDS,
    osd_tree::COMMANDS,
    osd_df::COMMANDS,
    osd_membership::COMMANDS,
    osd_settings::COMMANDS,
    osd_blocklist::COMMANDS,
    osd_crush::COMMANDS,
    osd_crush_rules::COMMANDS,
    osd_pool::COMMANDS,
    osd_pool_create::COMMANDS,
    osd_pool_get::COMMANDS,
    osd_pool_set::COMMANDS,
    osd_pool_applications::COMMANDS,
    config_key::COMMANDS,
    config::COMMANDS,
    mgr::COMMANDS,
];

/// A set of commands, indexed.
pub struct CommandTable {
    commands: Vec<(&'static CommandSpec, Signature)>,
    by_prefix: BTreeMap<String, Vec<usize>>,
    descriptions: Bytes,
}

impl CommandTable {
    /// All commands of the monitor.
    pub fn new() -> CommandTable {
        CommandTable::of(MODULES)
    }

    /// The commands that `ceph tell mon.X` reaches.
    pub fn for_tell() -> CommandTable {
        CommandTable::of(&[tell::COMMANDS])
    }

    fn of(modules: &[&'static [CommandSpec]]) -> CommandTable {
        let specs = modules.iter().flat_map(|module| module.iter());
        let commands: Vec<_> = specs.map(|spec| (spec, Signature::parse(spec.sig))).collect();
        let mut by_prefix: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, (_, signature)) in commands.iter().enumerate() {
            by_prefix.entry(signature.prefix.clone()).or_default().push(i);
        }
        let descriptions = descriptions::describe(commands.iter().map(|(spec, s)| (*spec, s))).into();
        CommandTable { commands, by_prefix, descriptions }
    }

    /// The command a call means: of those with its prefix the first whose required arguments are all there.
    pub fn find(&self, call: &Call) -> Option<&'static CommandSpec> {
        let candidates = self.by_prefix.get(&call.prefix)?;
        let complete = |i: &&usize| self.commands[**i].1.parameters.iter().all(|p| !p.required() || call.has(p.name()));
        let chosen = candidates.iter().find(complete).or(candidates.first())?;
        Some(self.commands[*chosen].0)
    }

    /// What `get_command_descriptions` answers.
    pub fn descriptions(&self) -> Bytes {
        self.descriptions.clone()
    }
}

impl Default for CommandTable {
    fn default() -> CommandTable {
        CommandTable::new()
    }
}

impl Mon {
    /// Runs a command of a session and answers it.
    pub(crate) fn mon_command(&mut self, now: Instant, conn: ConnId, tid: u64, m: MonCommand) {
        self.urgent = true;
        let answer = if m.fsid == self.config.fsid {
            self.run(now, conn, &m.command, m.input.clone(), false)
        } else {
            refuse(Errno::EPERM, "wrong fsid")
        };
        let (result, status, output) = flatten(answer);
        let ack = MonCommandAck { result, status, output, command: m.command, ..MonCommandAck::default() };
        self.reply(conn, tid, ack);
    }

    /// Runs a command sent to this monitor in particular (`ceph tell mon.a`).
    pub(crate) fn told_command(&mut self, now: Instant, conn: ConnId, tid: u64, m: Command) {
        self.urgent = true;
        let answer = if m.fsid == self.config.fsid {
            self.run(now, conn, &m.command, m.input.clone(), true)
        } else {
            refuse(Errno::EPERM, "wrong fsid")
        };
        let (result, status, output) = flatten(answer);
        self.reply(conn, tid, CommandReply { result, status, output });
    }

    fn run(&mut self, now: Instant, conn: ConnId, parts: &[String], input: Bytes, tell: bool) -> Answer {
        let Some(session) = self.sessions.get(conn) else { return refuse(Errno::EACCES, "access denied") };
        let session = session.clone();
        let call = Call::parse(now, &session.peer.entity, parts, input)?;
        let table = if tell { &self.tell_table } else { &self.table };
        if call.prefix == "get_command_descriptions" {
            return Ok(Reply::data(table.descriptions()));
        }
        let Some(spec) = table.find(&call) else { return refuse(Errno::EINVAL, "unrecognized command") };
        let allowed = session.may_run(&call, spec);
        self.audit(&session, &call, spec, allowed);
        if !allowed {
            return refuse(Errno::EACCES, "access denied");
        }
        (spec.run)(self, &call)
    }

    fn audit(&mut self, session: &Session, call: &Call, spec: &CommandSpec, allowed: bool) {
        let (name, addrs, entity) = (session.peer.name, &session.peer.addrs, &session.peer.entity);
        let verdict = if allowed { "dispatch" } else { "access denied" };
        let text = format!("from='{name} {addrs}' entity='{entity}' cmd=[{}]: {verdict}", call.audit_text());
        if !spec.perm.contains('w') && allowed {
            // Questions change nothing: they are for who debugs the daemon.
            self.debug_log(LogLevel::Debug, text);
        } else {
            self.cluster_log(call.now, ClusterLevel::INFO, "audit", text);
        }
    }
}

fn flatten(answer: Answer) -> (i32, String, Bytes) {
    match answer {
        Ok(reply) => (0, reply.text, reply.data),
        Err(refused) => (refused.errno.code(), refused.text, refused.data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let table = CommandTable::new();
        let parsed: serde_json::Value = serde_json::from_slice(&table.descriptions()).expect("descriptions are JSON");
        assert_eq!(parsed.as_object().map(|o| o.len()), Some(table.commands.len()));
        for (spec, signature) in &table.commands {
            assert!(!spec.help.is_empty() && !spec.module.is_empty(), "{}", spec.sig);
            assert!(spec.perm.chars().all(|c| "rwx".contains(c)) && !spec.perm.is_empty(), "{}", spec.sig);
            assert!(!signature.prefix.is_empty());
            assert_eq!(spec.flags & 8, 0, "no command needs a manager");
        }
    }
}
