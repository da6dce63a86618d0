//! The manager's door: where clients that ask the manager come in.
//!
//! The monitor does the manager's duties. Clients look for a manager of its own all the same, and would wait for one
//! for ever: the managers' map names this process under another address, where it calls itself `mgr` and lets in who
//! has a ticket for the manager (v16.2 `src/mgr/MgrClient.cc`, `DaemonServer.cc`). Owns what is answered there:
//! commands about the cluster, which are the monitor's own, and commands about the manager as a daemon (`ceph tell
//! mgr ...`), with options of its own. Refuses everything that monitors alone answer.
//!
//! Read next: `commands::manager_door`, the tables.

use crate::commands::{Call, flatten};
use crate::mon::{LogLevel, Mon};
use crate::sessions::Session;
use admin::counters::CounterSet;
use admin::settings::Settings;
use admin::{Administered, Answer, Layer, refuse};
use base::{Errno, Instant};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::caps::mon::MonRequest;
use wire::cephx::AuthName;
use wire::messages::{Command, CommandReply, Message, MgrCommand, MgrCommandReply};
use wire::net::ConnId;
use wire::types::{EntityName, EntityType, Uuid};

/// The number of the manager's name: the last one that no client gets (`wire::cephx`, `FIRST_GLOBAL_ID`).
pub const MANAGER_GID: u64 = 0xfff;

/// The manager's name in the protocol.
pub fn manager_name() -> EntityName {
    EntityName { kind: EntityType::MGR, num: MANAGER_GID as i64 }
}

/// What Ceph says to one who may not do what it asks.
const DENIED: &str = "access denied: does your client key have mgr caps? See http://docs.ceph.com/docs/master/mgr/\
                      administrator/#client-authentication";

admin::counters! {
    /// What goes through the manager's door.
    pub struct ManagerCounters {
        sessions: Gauge ["sess", 5, None] "Open sessions";
        commands: Counter ["cmd", 5, None] "Commands answered";
        commands_refused: Counter ["cmdr", 5, None] "Commands refused for want of capabilities";
    }
}

/// The manager as a daemon.
#[derive(Debug, Default)]
pub(crate) struct Manager {
    name: String,
    pub(crate) map_epoch: u64,
    settings: Settings,
    counters: ManagerCounters,
}

impl Manager {
    /// The manager of a monitor: it has that one's name and configuration file.
    pub(crate) fn new(name: &str, options: &BTreeMap<String, String>) -> Manager {
        Manager {
            name: name.to_owned(),
            map_epoch: 0,
            settings: Settings::from_file(options.clone()),
            counters: ManagerCounters::default(),
        }
    }
}

impl Administered for Manager {
    fn entity(&self) -> String {
        format!("mgr.{}", self.name)
    }

    fn layer(&self, layer: Layer, option: &str) -> Option<String> {
        self.settings.layer(layer, option).map(str::to_owned)
    }

    fn set_override(&mut self, option: &str, value: Option<String>) {
        self.settings.set_override(option, value);
    }

    fn visit_counters(&self, see: &mut dyn FnMut(&str, &dyn CounterSet)) {
        see("mgr", &self.counters);
    }

    fn reset_counters(&mut self, _: Option<&str>) {
        self.counters.reset();
    }
}

/// Which commands are asked for: those about the cluster, or those about the daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    Cluster,
    Daemon,
}

impl Mon {
    /// Takes a message that came through the manager's door.
    pub(crate) fn dispatch_to_manager(&mut self, now: Instant, conn: ConnId, tid: u64, message: Message) {
        match message {
            Message::MgrCommand(m) => {
                let MgrCommand { command, input, .. } = *m;
                let (result, status, output) =
                    flatten(self.run_for_manager(now, conn, &command, input, About::Cluster));
                self.reply(conn, tid, MgrCommandReply { result, status, output });
            }
            Message::Command(m) => {
                let Command { fsid, command, input } = *m;
                // Clients from before MgrCommand leave the cluster out where they mean a command about the cluster.
                let about = if fsid == Uuid::default() { About::Cluster } else { About::Daemon };
                let (result, status, output) = flatten(self.run_for_manager(now, conn, &command, input, about));
                self.reply(conn, tid, CommandReply { result, status, output });
            }
            // A service that leaves waits for its goodbye.
            Message::MgrClose(m) => self.reply(conn, tid, *m),
            Message::Ping(m) => self.reply(conn, tid, *m),
            other => self.debug_log(LogLevel::Debug, format!("the manager ignored {} of {conn:?}", other.name())),
        }
    }

    /// The value that a layer gives one of the manager's options.
    pub(crate) fn manager_layer(&self, layer: Layer, option: &str) -> Option<String> {
        match layer {
            Layer::Mon => self.central.value_for(&self.manager.entity(), option).map(str::to_owned),
            _ => self.manager.layer(layer, option),
        }
    }

    fn run_for_manager(&mut self, now: Instant, conn: ConnId, parts: &[String], input: Bytes, about: About) -> Answer {
        self.urgent = true;
        let Some(session) = self.sessions.get(conn).cloned() else { return refuse(Errno::EACCES, DENIED) };
        let call = Call::parse(now, &session.peer.entity, parts, input)?;
        let answer = match about {
            About::Cluster => self.run_about_cluster(&session, &call),
            About::Daemon => self.run_about_manager(&session, &call),
        };
        let counters = &mut self.manager.counters;
        let denied = answer.as_ref().is_err_and(|refused| refused.errno == Errno::EACCES);
        if denied {
            counters.commands_refused.inc()
        } else {
            counters.commands.inc()
        }
        answer
    }

    fn run_about_cluster(&mut self, session: &Session, call: &Call) -> Answer {
        if call.prefix == "get_command_descriptions" {
            return Ok(admin::Reply::data(self.manager_table.descriptions()));
        }
        let Some(spec) = self.manager_table.find(call) else {
            if call.prefix.starts_with("rbd ") {
                // What the tool `rbd` takes for an answer: it then says that the module is not enabled.
                return refuse(Errno::EOPNOTSUPP, "statistics, tasks and schedules of block images are not kept here");
            }
            return refuse(Errno::EINVAL, format!("No handler found for '{}'", call.prefix));
        };
        let allowed = AuthName::parse(&session.peer.entity).is_some_and(|entity| {
            let args: BTreeMap<String, String> = call.as_pairs().into_iter().collect();
            let from = session.peer.socket.map(|socket| socket.ip());
            let needs = crate::dispatch::rights_of(spec.perm);
            let (service, command) = (spec.module, call.prefix.as_str());
            let request = MonRequest { entity: &entity, service, command, args: &args, needs, from };
            session.manager.as_ref().is_some_and(|caps| caps.is_capable(&request))
        });
        self.audit(session, call, spec.perm, allowed);
        if allowed { (spec.run)(self, call) } else { refuse(Errno::EACCES, DENIED) }
    }

    /// A command about the daemon needs everything, as with every other daemon.
    fn run_about_manager(&mut self, session: &Session, call: &Call) -> Answer {
        if !session.manager.as_ref().is_some_and(|caps| caps.is_allow_all()) {
            self.audit(session, call, "rw", false);
            return refuse(Errno::EACCES, DENIED);
        }
        let table = crate::commands::manager_tell_table();
        if let Some(answer) = table.answer_of_itself(call) {
            return answer;
        }
        let Some(spec) = table.find(call) else { return refuse(Errno::EINVAL, "unknown command") };
        self.audit(session, call, spec.perm, true);
        let entity = self.entity_for_config(&self.manager.entity(), &self.config.hostname);
        let central = self.central.effective(&entity);
        let central = central.into_iter().map(|(name, (value, _))| (name.to_owned(), value.to_owned())).collect();
        self.manager.settings.replace_central(central);
        self.manager.map_epoch = self.elections;
        self.manager.counters.sessions.0 = self.sessions.iter().filter(|(_, s)| s.manager.is_some()).count() as u64;
        (spec.run)(&mut self.manager, call)
    }
}
