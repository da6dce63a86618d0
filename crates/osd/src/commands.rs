//! The commands an OSD answers itself: `ceph tell osd.N ...`, `ceph daemon osd.N ...`.
//!
//! Owns the table and what its commands do. Over the network, whoever is not allowed everything with OSDs is refused, as
//! in Ceph (v16.2 `src/osd/OSD.cc`, `OSD::asok_command`); names, arguments and shapes are those found there.

use crate::life::beacon_message;
use crate::osd::Osd;
use crate::pg::Pg;
use crate::stats::pg_state;
use crate::unfound::is_giving_up;
use admin::command::CommandTable;
use admin::ops::{OpView, blocked_value, in_flight_value};
use admin::{Answer, Call, CommandSpec, Common, Reply, Value, object, refuse, spec};
use base::{Errno, PgId};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use wire::messages::{Command, CommandReply};
use wire::net::{ConnId, Envelope};

const COMMANDS: &[CommandSpec<Osd>] = &[
    spec("status", "show how this OSD is", "osd", "r", status),
    spec("flush_pg_stats", "report statistics now; gives the report's number", "osd", "rw", flush_pg_stats),
    spec("ops name=filterstr,type=CephString,n=N,req=false", "list operations under way", "osd", "r", ops),
    spec(
        "dump_ops_in_flight name=filterstr,type=CephString,n=N,req=false",
        "list operations under way",
        "osd",
        "r",
        ops,
    ),
    spec(
        "dump_blocked_ops name=filterstr,type=CephString,n=N,req=false",
        "list operations that take too long",
        "osd",
        "r",
        blocked_ops,
    ),
    spec(
        "dump_historic_ops name=filterstr,type=CephString,n=N,req=false",
        "list the slowest operations of late, by arrival",
        "osd",
        "r",
        historic_ops,
    ),
    spec(
        "dump_historic_ops_by_duration name=filterstr,type=CephString,n=N,req=false",
        "list the slowest operations of late, by duration",
        "osd",
        "r",
        historic_ops_by_duration,
    ),
    spec(
        "dump_historic_slow_ops name=filterstr,type=CephString,n=N,req=false",
        "list the last slow operations",
        "osd",
        "r",
        historic_slow_ops,
    ),
    spec("dump_pg_states", "show the state of every PG that this OSD leads", "osd", "r", pg_states),
    spec("get_mapped_pools", "list the pools that have PGs here", "osd", "r", mapped_pools),
    spec("dump_op_pq_state", "show the queue of operations and what its classes are promised", "osd", "r", queue_state),
    spec("dump_tenants", "show what tenants are promised and what they were served here", "osd", "r", tenants),
    spec("get_latest_osdmap", "ask the monitor for a newer OSD map", "osd", "r", latest_map),
    spec("send_beacon", "send the monitor a sign of life now", "osd", "r", send_beacon),
    spec(
        "bench name=count,type=CephInt,req=false name=size,type=CephInt,req=false \
         name=object_size,type=CephInt,req=false name=object_num,type=CephInt,req=false",
        "measure how fast the store takes writes: bytes in all, bytes a write, and of how many objects of which size",
        "osd",
        "rw",
        crate::bench::on_the_socket,
    ),
    spec("compact", "compact the store", "osd", "rw", compact),
    spec(
        "cluster_log name=level,type=CephChoices,strings=error|warning|info|debug name=message,type=CephString,n=N",
        "write a line to the cluster log",
        "osd",
        "rw",
        cluster_log,
    ),
];

/// The table.
pub(crate) fn table() -> &'static CommandTable<Osd> {
    static TABLE: LazyLock<CommandTable<Osd>> = LazyLock::new(|| {
        CommandTable::of_daemon(&[COMMANDS, crate::dumps::COMMANDS, crate::pg_query::COMMANDS], Common::<Osd>::COMMANDS)
    });
    &TABLE
}

fn queue_state(osd: &mut Osd, call: &Call) -> Answer {
    let queue = osd.scheduler.dump(osd.core.now, &osd.core.store_meter);
    Ok(Reply::value(call, &object! { "OSD:ShardedOpWQ:0" => queue }))
}

fn tenants(osd: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &osd.core.tenants.dump(&osd.core.map)))
}

impl Osd {
    /// A command that came over the network.
    pub(crate) fn told(&mut self, conn: ConnId, tid: u64, command: &Command) {
        let session = self.core.sessions.get(conn).filter(|session| session.caps.allows_all());
        let call = match session.map(|session| session.peer.entity.clone()) {
            Some(entity) => Call::parse(self.core.now, &entity, &command.command, command.input.clone()),
            None => refuse(Errno::EACCES, "access denied"),
        };
        let answer = match call {
            // It answers when the store has.
            Ok(call) if call.prefix == "bench" => match self.begin_bench(conn, tid, call) {
                Ok(()) => return,
                Err(no) => Err(no),
            },
            // It answers when all members have logged it.
            Ok(call) if is_giving_up(&call) => match self.give_up_unfound(conn, tid, &call) {
                Some(answer) => answer,
                None => return,
            },
            Ok(call) => self.run_command(&call),
            Err(no) => Err(no),
        };
        let reply = match answer {
            Ok(reply) => CommandReply { result: 0, status: reply.text, output: reply.data },
            Err(no) => CommandReply { result: no.errno.code(), status: no.text, output: no.data },
        };
        self.core.send(conn, Envelope::with_tid(tid, reply));
    }
}

fn status(osd: &mut Osd, call: &Call) -> Answer {
    let core = &osd.core;
    let state = match (osd.life.stopping.is_some(), osd.life.up) {
        (true, _) => "stopping",
        (false, true) => "active",
        (false, false) => "booting",
    };
    let value = object! {
        "cluster_fsid" => core.config.fsid.to_string(),
        "osd_fsid" => core.config.osd_fsid.to_string(),
        "whoami" => core.config.id.0,
        "state" => state,
        "oldest_map" => core.blobs.oldest().0,
        "cluster_osdmap_trim_lower_bound" => core.blobs.oldest().0,
        "newest_map" => core.epoch().0,
        "num_pgs" => osd.pgs.len(),
    };
    Ok(Reply::value(call, &value))
}

fn flush_pg_stats(osd: &mut Osd, _: &Call) -> Answer {
    osd.core.stats_changed = true;
    // The report that is about to be sent carries the next number.
    Ok(Reply::data(format!("{}\n", osd.stats.seq(&osd.core) + 1)))
}

/// The operations whose description has every text that the call asks for.
fn chosen_ops(osd: &Osd, call: &Call) -> Result<Vec<OpView>, admin::Refused> {
    let filters = call.list("filterstr")?;
    let mut ops = osd.ops_in_flight();
    ops.retain(|op| filters.iter().all(|text| op.description.contains(text.as_str())));
    Ok(ops)
}

fn ops(osd: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &in_flight_value(osd.core.now, &chosen_ops(osd, call)?)))
}

fn blocked_ops(osd: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &blocked_value(osd.core.now, &chosen_ops(osd, call)?, osd.core.complaint)))
}

fn historic_ops(osd: &mut Osd, call: &Call) -> Answer {
    let now = osd.core.now;
    Ok(Reply::value(call, &osd.core.history.value(now, false)))
}

fn historic_ops_by_duration(osd: &mut Osd, call: &Call) -> Answer {
    let now = osd.core.now;
    Ok(Reply::value(call, &osd.core.history.value(now, true)))
}

fn historic_slow_ops(osd: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &osd.core.history.slow_value(osd.core.now)))
}

fn pg_states(osd: &mut Osd, call: &Call) -> Answer {
    let led = osd.pgs_in_order(Pg::is_primary);
    let one = |pg: &Pg| {
        let state = pg_state(&osd.core, pg).names().collect::<Vec<_>>().join("+");
        (pg.id.to_string(), object! { "state" => state, "last_update" => pg.info.last_update.to_string() })
    };
    Ok(Reply::value(call, &Value::members(led.into_iter().map(one))))
}

fn mapped_pools(osd: &mut Osd, call: &Call) -> Answer {
    let pools: BTreeSet<i64> = osd.pgs.keys().map(|pg: &PgId| pg.pool.0).collect();
    Ok(Reply::value(call, &Value::array(pools)))
}

fn latest_map(osd: &mut Osd, _: &Call) -> Answer {
    let next = u64::from(osd.core.epoch().0) + 1;
    osd.mon.subscribe("osdmap", next, false);
    Ok(Reply::empty())
}

fn send_beacon(osd: &mut Osd, _: &Call) -> Answer {
    if osd.life.up {
        let beacon = beacon_message(osd);
        osd.mon.send(Envelope::new(beacon));
    }
    Ok(Reply::empty())
}

/// The memory store leaves no holes.
fn compact(_: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &object! { "elapsed_time" => 0 }))
}

fn cluster_log(osd: &mut Osd, call: &Call) -> Answer {
    let level = match call.text("level")?.as_str() {
        "error" => crate::cluster_log::Level::ERROR,
        "warning" => crate::cluster_log::Level::WARN,
        "info" => crate::cluster_log::Level::INFO,
        "debug" => crate::cluster_log::Level::DEBUG,
        other => return refuse(Errno::EINVAL, format!("'{other}' is no level of the cluster log")),
    };
    let text = call.list("message")?.join(" ");
    osd.core.cluster_log.line(osd.core.now, level, text);
    Ok(Reply::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        let parsed: serde_json::Value = serde_json::from_slice(&table().descriptions()).expect("they are JSON");
        assert_eq!(parsed.as_object().map(|o| o.len()), Some(table().iter().count()));
        for (spec, signature) in table().iter() {
            assert!(!spec.help.is_empty() && !signature.prefix.is_empty(), "{}", spec.sig);
        }
        for needed in ["perf dump", "config show", "dump_historic_ops", "status", "query", "pg"] {
            assert!(table().iter().any(|(_, s)| s.prefix == needed), "{needed}");
        }
    }
}
