//! `log` and `log last`: the cluster log.

use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::services::log::{LogLevel, line_value, plain_lines};
use base::Errno;
use wire::messages::{AuthName, LogEntry};
use wire::types::{AddrVec, EntityName, EntityType};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("log name=logtext,type=CephString,n=N", "write a line to the cluster log", "mon", "rw", write),
    spec(
        "log last name=num,type=CephInt,range=1,req=false \
         name=level,type=CephChoices,strings=debug|info|sec|warn|error,req=false \
         name=channel,type=CephChoices,strings=*|cluster|audit|cephadm,req=false",
        "show the last lines of the cluster log",
        "mon",
        "r",
        last,
    ),
];

fn write(mon: &mut Mon, call: &Call) -> Answer {
    let text = call.list("logtext")?.join(" ");
    // The line is the client's own; it numbers none.
    let name = call.entity.split_once('.').map_or(("client", ""), |(kind, id)| (kind, id));
    let kind = EntityType::from_name(name.0).unwrap_or(EntityType::CLIENT);
    mon.log.add(LogEntry {
        name: AuthName { kind, id: name.1.to_owned() },
        rank: EntityName { kind, num: -1 },
        addrs: AddrVec::default(),
        stamp: call.now.into(),
        seq: 0,
        level: LogLevel::INFO.0,
        text,
        channel: "cluster".to_owned(),
    });
    Ok(Reply::empty())
}

fn last(mon: &mut Mon, call: &Call) -> Answer {
    let count = usize::try_from(call.int_opt("num")?.unwrap_or(20)).unwrap_or(0);
    let name = call.text_opt("level")?.unwrap_or_else(|| "info".to_owned());
    let Some(level) = LogLevel::from_name(&name) else {
        return refuse(Errno::EINVAL, format!("'{name}' is no log level"));
    };
    let channel = call.text_opt("channel")?.unwrap_or_else(|| "cluster".to_owned());
    let lines = mon.log.last(count, level, &channel);
    if call.format.is_plain() {
        return Ok(Reply::data(plain_lines(&lines)));
    }
    Ok(Reply::value(call, &Value::array(lines.into_iter().map(line_value))))
}
