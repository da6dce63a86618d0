//! Commands that OSDs answer themselves, as of `ceph tell osd.N`.
//!
//! Each goes over a connection of its own, which ends with the answer: a command may take long, and a session with requests
//! need not know of it. A command is never sent again: whether it may be run twice is for the caller to know.
//!
//! Invariant: each command is answered once; by ENXIO where the OSD is not up or the connection is lost.

use base::{Errno, OsdId};
use bytes::Bytes;
use maps::OsdMap;
use std::collections::{BTreeMap, VecDeque};
use wire::messages::{Command, Message};
use wire::net::{ConnId, ConnIds, Envelope, NetCommand, NetEvent, Policy};
use wire::types::EntityType;

use crate::engine::{CommandId, CommandReply};

/// Commands for OSDs that wait for a map or for their answer.
#[derive(Debug, Default)]
pub(crate) struct Tells {
    waiting: VecDeque<(CommandId, OsdId, String)>,
    asked: BTreeMap<ConnId, CommandId>,
    commands: VecDeque<NetCommand>,
}

impl Tells {
    /// Takes a command on.
    pub(crate) fn submit(&mut self, id: CommandId, osd: OsdId, json: String) {
        self.waiting.push_back((id, osd, json));
    }

    /// How many have no answer yet.
    pub(crate) fn under_way(&self) -> usize {
        self.waiting.len() + self.asked.len()
    }

    /// The next command for the transport. What can be answered at once goes to `replies`.
    pub(crate) fn poll_command(
        &mut self,
        map: Option<&OsdMap>,
        conns: &mut ConnIds,
        replies: &mut VecDeque<CommandReply>,
    ) -> Option<NetCommand> {
        if let Some(map) = map {
            for (id, osd, json) in self.waiting.drain(..) {
                let Some(addrs) = map.addrs(osd).filter(|_| map.is_up(osd)) else {
                    replies.push_back(unanswered(id, format!("{osd} is not up")));
                    continue;
                };
                let (conn, to) = (conns.allocate(), addrs.client.clone());
                let command = Command { fsid: map.fsid, command: vec![json], input: Bytes::new() };
                self.commands.push_back(NetCommand::Open { conn, to, kind: EntityType::OSD, policy: Policy::Lossy });
                self.commands.push_back(NetCommand::Send { conn, envelope: Envelope::with_tid(id.0, command) });
                self.asked.insert(conn, id);
            }
        }
        self.commands.pop_front()
    }

    /// Takes an event of a command's connection; gives back any other.
    pub(crate) fn handle_net(&mut self, event: NetEvent, replies: &mut VecDeque<CommandReply>) -> Option<NetEvent> {
        match event {
            NetEvent::Message { conn, envelope } if self.asked.contains_key(&conn) => {
                // An OSD also sends its map to whoever comes.
                if let Message::CommandReply(reply) = envelope.message {
                    let id = self.asked.remove(&conn).expect("just seen");
                    let (result, status, output) = (reply.result, reply.status, reply.output);
                    replies.push_back(CommandReply { id, result, status, output });
                    self.commands.push_back(NetCommand::Close { conn });
                }
            }
            NetEvent::Closed { conn, .. } if self.asked.contains_key(&conn) => {
                let id = self.asked.remove(&conn).expect("just seen");
                replies.push_back(unanswered(id, "the connection was lost before the answer".to_owned()));
            }
            other => return Some(other),
        }
        None
    }
}

fn unanswered(id: CommandId, status: String) -> CommandReply {
    CommandReply { id, result: Errno::ENXIO.code(), status, output: Bytes::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Epoch;
    use maps::{Incremental, OsdAddrs, OsdState};
    use wire::messages::{CommandReply as Answer, Ping};
    use wire::net::CloseReason;
    use wire::types::{AddrVec, EntityAddr, UTime, Uuid};

    const FSID: Uuid = Uuid([3; 16]);

    fn addr(osd: u16) -> AddrVec {
        AddrVec::one(EntityAddr::msgr2(std::net::SocketAddr::from(([127, 0, 0, 1], 6800 + osd)), 1))
    }

    /// OSDs 0 and 1 are up, 2 is known and down.
    fn map() -> OsdMap {
        let mut map = OsdMap::new(FSID);
        let mut inc = Incremental::new(FSID, Epoch(1), UTime::default());
        inc.new_max_osd = Some(3);
        for osd in 0..3 {
            inc.new_state.insert(OsdId(osd), OsdState::EXISTS);
        }
        for osd in 0..2 {
            inc.new_up.insert(OsdId(osd), OsdAddrs { client: addr(osd as u16), ..OsdAddrs::default() });
        }
        map.apply(&inc).expect("a change that fits");
        map
    }

    fn poll(tells: &mut Tells, map: Option<&OsdMap>) -> (Vec<NetCommand>, Vec<(u64, i32)>) {
        let (mut conns, mut replies) = (ConnIds::default(), VecDeque::new());
        let commands = std::iter::from_fn(|| tells.poll_command(map, &mut conns, &mut replies)).collect();
        (commands, replies.iter().map(|reply| (reply.id.0, reply.result)).collect())
    }

    #[test]
    fn each_command_is_answered_once() {
        let (mut tells, map) = (Tells::default(), map());
        for osd in 0..3 {
            tells.submit(CommandId(10 + osd as u64), OsdId(osd), format!("{{\"prefix\": \"{osd}\"}}"));
        }
        assert_eq!(poll(&mut tells, None), (vec![], vec![]), "nobody knows yet where OSDs are");
        let (commands, replies) = poll(&mut tells, Some(&map));
        assert_eq!(replies, [(12, Errno::ENXIO.code())], "osd.2 is down");
        let opened: Vec<(ConnId, AddrVec)> = commands
            .iter()
            .filter_map(|command| match command {
                NetCommand::Open { conn, to, .. } => Some((*conn, to.clone())),
                _ => None,
            })
            .collect();
        assert_eq!(opened.iter().map(|(_, to)| to.clone()).collect::<Vec<_>>(), [addr(0), addr(1)]);
        let sent = |command: &NetCommand| match command {
            NetCommand::Send { envelope, .. } => match &envelope.message {
                Message::Command(command) => Some((command.fsid, command.command.clone())),
                _ => None,
            },
            _ => None,
        };
        let told: Vec<_> = commands.iter().filter_map(sent).collect();
        assert_eq!(told[1], (FSID, vec!["{\"prefix\": \"1\"}".to_owned()]));

        let mut replies = VecDeque::new();
        let message = |conn, envelope| NetEvent::Message { conn, envelope };
        let answer = || Answer { result: 0, status: String::new(), output: Bytes::from_static(b"{}") };
        let first = opened[0].0;
        assert_eq!(tells.handle_net(message(first, Envelope::new(Ping::default())), &mut replies), None);
        assert!(replies.is_empty(), "a map or a ping is no answer");
        assert_eq!(tells.handle_net(message(first, Envelope::new(answer())), &mut replies), None);
        let closed = NetEvent::Closed { conn: opened[1].0, why: CloseReason::Fault };
        assert_eq!(tells.handle_net(closed, &mut replies), None);
        let got: Vec<_> = replies.iter().map(|reply| (reply.id.0, reply.result)).collect();
        assert_eq!(got, [(10, 0), (11, Errno::ENXIO.code())]);
        assert_eq!(tells.under_way(), 0);
        let again = message(first, Envelope::new(answer()));
        assert_eq!(tells.handle_net(again.clone(), &mut replies), Some(again), "it is nobody's any more");
        assert_eq!(poll(&mut tells, Some(&map)).0, [NetCommand::Close { conn: first }]);
    }
}
