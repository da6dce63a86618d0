//! Commands: the table of them, how one is found and run.
//!
//! Owns the list (every module's `COMMANDS`), the check of capabilities and the audit line. What each does is in the
//! module that its first words name; `osd` is spread over several.
//!
//! Read next: `admin::command`, then any module.

mod auth;
mod config;
mod config_key;
mod df;
mod fs;
mod health;
mod log;
mod manager_door;
mod mgr;
mod mgr_modules;
mod mon;
mod osd;
mod osd_blocklist;
mod osd_crush;
mod osd_crush_class;
mod osd_crush_rules;
mod osd_crush_weight_set;
mod osd_df;
mod osd_dump;
mod osd_membership;
mod osd_pool;
mod osd_pool_applications;
mod osd_pool_autoscale;
mod osd_pool_create;
mod osd_pool_get;
mod osd_pool_set;
mod osd_reweight;
mod osd_settings;
mod osd_status;
mod osd_tier;
mod osd_tree;
mod osd_upmap;
mod pg;
mod pg_dump;
mod pg_force;
mod pg_list;
mod qos;
mod status;
mod telemetry;
mod tell;

pub(crate) use df::pool_stats_value;
pub(crate) use manager_door::{manager_table, manager_tell_table};
pub(crate) use osd_pool_create::NewPool;
pub(crate) use tell::pong;

pub use admin::command::{Call, parse_osd};
pub use admin::{Answer, Refused, Reply, refuse};

use crate::mon::{LogLevel, Mon};
use crate::services::log::LogLevel as ClusterLevel;
use crate::sessions::Session;
use admin::Common;
use base::{Errno, Instant};
use bytes::Bytes;
use wire::messages::{Command, CommandReply, MonCommand, MonCommandAck};
use wire::net::ConnId;
use wire::types::{EntityName, EntityType};

/// One command of the monitor.
pub type CommandSpec = admin::CommandSpec<Mon>;

/// The monitor's commands, indexed.
pub type CommandTable = admin::CommandTable<Mon>;

pub(crate) use admin::spec;

const MODULES: &[&[CommandSpec]] = &[
    pg::COMMANDS,
    pg_list::COMMANDS,
    pg_dump::COMMANDS,
    pg_force::COMMANDS,
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
    osd_upmap::COMMANDS,
    osd_reweight::COMMANDS,
    osd_settings::COMMANDS,
    osd_status::COMMANDS,
    osd_tier::COMMANDS,
    osd_blocklist::COMMANDS,
    osd_crush::COMMANDS,
    osd_crush_class::COMMANDS,
    osd_crush_rules::COMMANDS,
    osd_crush_weight_set::COMMANDS,
    osd_pool::COMMANDS,
    osd_pool_create::COMMANDS,
    osd_pool_get::COMMANDS,
    osd_pool_set::COMMANDS,
    osd_pool_applications::COMMANDS,
    osd_pool_autoscale::COMMANDS,
    config_key::COMMANDS,
    config::COMMANDS,
    qos::COMMANDS,
    mgr::COMMANDS,
    mgr_modules::COMMANDS,
    telemetry::COMMANDS,
];

/// All commands of the monitor.
pub(crate) fn table() -> CommandTable {
    CommandTable::of(MODULES)
}

/// The commands that `ceph tell mon.X` and `ceph daemon mon.X` reach.
pub(crate) fn tell_table() -> CommandTable {
    CommandTable::of_daemon(&[tell::COMMANDS], Common::<Mon>::COMMANDS)
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
        if let Some(answer) = table.answer_of_itself(&call).filter(|_| tell || call.prefix != "help") {
            return answer;
        }
        let Some(spec) = table.find(&call) else { return refuse(Errno::EINVAL, "unrecognized command") };
        let allowed = session.may_run(&call, spec);
        self.audit(&session, &call, spec.perm, allowed);
        if !allowed {
            return refuse(Errno::EACCES, "access denied");
        }
        let answer = (spec.run)(self, &call);
        if answer.is_ok() && spec.perm.contains('w') && self.dirty() && !may_hold_secrets(&call) {
            let text = format!("{} cmd='[{}]': finished", asker(&session), call.audit_text());
            self.cluster_log(now, ClusterLevel::INFO, "audit", text);
        }
        answer
    }

    /// Runs a command of the admin socket.
    pub(crate) fn run_admin(&mut self, now: Instant, command: &str) -> Answer {
        self.urgent = true;
        let call = Call::parse(now, "admin socket", &[command.to_owned()], Bytes::new())?;
        if let Some(answer) = self.tell_table.answer_of_itself(&call) {
            return answer;
        }
        let Some(spec) = self.tell_table.find(&call) else { return refuse(Errno::EINVAL, "unknown command") };
        let text = format!("from='admin socket' entity='admin socket' cmd='{}'", call.prefix);
        self.cluster_log(now, ClusterLevel::DEBUG, "audit", format!("{text} args=[]: dispatch"));
        (spec.run)(self, &call)
    }

    /// Notes who asked for what: in the cluster log what may change anything, in the daemon's what cannot.
    pub(crate) fn audit(&mut self, session: &Session, call: &Call, perm: &str, allowed: bool) {
        if may_hold_secrets(call) {
            return;
        }
        let verdict = if allowed { "dispatch" } else { "access denied" };
        let text = format!("{} cmd=[{}]: {verdict}", asker(session), call.audit_text());
        if !perm.contains('w') && allowed {
            // Questions change nothing: they are for who debugs the daemon.
            self.debug_log(LogLevel::Debug, text);
        } else {
            self.cluster_log(call.now, ClusterLevel::INFO, "audit", text);
        }
    }
}

/// Whether a command's arguments may be passwords: the audit log leaves it out (v16.2 `Monitor::handle_command`).
fn may_hold_secrets(call: &Call) -> bool {
    matches!(call.prefix.as_str(), "config set" | "config-key set")
}

/// Who asks, as the audit log has it: a client's number says nothing there, its address does.
fn asker(session: &Session) -> String {
    let peer = &session.peer;
    let name = match peer.name.kind {
        EntityType::CLIENT => EntityName { num: -1, ..peer.name },
        _ => peer.name,
    };
    format!("from='{name} {}' entity='{}'", crate::format::address::legacy(&peer.addrs), peer.entity)
}

/// An answer as messages carry it: result, status line and data.
pub(crate) fn flatten(answer: Answer) -> (i32, String, Bytes) {
    match answer {
        Ok(reply) => (0, reply.text, reply.data),
        Err(refused) => (refused.errno.code(), refused.text, refused.data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sound() {
        for (table, least) in [(table(), 150), (tell_table(), 18)] {
            let parsed: serde_json::Value = serde_json::from_slice(&table.descriptions()).expect("they are JSON");
            assert_eq!(parsed.as_object().map(|o| o.len()), Some(table.iter().count()));
            assert!(table.iter().count() >= least);
            for (spec, signature) in table.iter() {
                assert!(!spec.help.is_empty() && !spec.module.is_empty(), "{}", spec.sig);
                assert!(spec.perm.chars().all(|c| "rwx".contains(c)) && !spec.perm.is_empty(), "{}", spec.sig);
                assert!(!signature.prefix.is_empty());
                assert_eq!(spec.flags & 8, 0, "no command needs a manager");
            }
        }
    }
}
