//! One daemon's ends of its sessions with other daemons of the same process.
//!
//! Owns the translation between `wire::net`'s commands and events and the hub's letters. Refuses to know threads:
//! the reactor posts the outgoing batches and hands in the arrived ones.

use crate::hub::{Hub, Letter, LocalId, Mailbox};
use base::hash::FixedHashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::net::{CloseReason, ConnId, NetCommand, NetEvent, Peer};
use wire::types::AddrVec;

#[derive(Debug)]
struct Session {
    id: LocalId,
    to: Arc<Mailbox>,
    outgoing: Vec<Letter>,
}

/// The sessions.
#[derive(Debug)]
pub struct LocalSessions {
    hub: Hub,
    mailbox: Arc<Mailbox>,
    me: Arc<Peer>,
    sessions: FixedHashMap<ConnId, Session>,
    conns: FixedHashMap<LocalId, ConnId>,
    dirty: Vec<ConnId>,
    events: VecDeque<NetEvent>,
    accepted: u64,
}

/// Accepted local sessions are numbered from here, the messenger's from 0: both have the accepted bit.
const ACCEPTED_BASE: u64 = ConnId::ACCEPTED | 1 << 62;

impl LocalSessions {
    /// No sessions yet; registers `me` with the hub.
    pub fn new(hub: Hub, me: Peer) -> LocalSessions {
        let mailbox = Arc::new(Mailbox::default());
        hub.register(&me.addrs, &mailbox);
        LocalSessions {
            hub,
            mailbox,
            me: Arc::new(me),
            sessions: FixedHashMap::default(),
            conns: FixedHashMap::default(),
            dirty: Vec::new(),
            events: VecDeque::new(),
            accepted: 0,
        }
    }

    /// Where letters for this daemon arrive.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Carries out a command if it concerns a daemon of this process, else gives it back.
    pub fn command(&mut self, command: NetCommand) -> Option<NetCommand> {
        match command {
            NetCommand::Open { conn, ref to, .. } => {
                if !self.open(conn, to) {
                    return Some(command);
                }
            }
            NetCommand::Send { conn, envelope } => {
                let Some(session) = self.sessions.get_mut(&conn) else {
                    return Some(NetCommand::Send { conn, envelope });
                };
                if session.outgoing.is_empty() {
                    self.dirty.push(conn);
                }
                session.outgoing.push(Letter::Message { session: session.id, envelope });
            }
            NetCommand::Close { conn } => {
                let Some(mut session) = self.sessions.remove(&conn) else { return Some(command) };
                self.conns.remove(&session.id);
                session.outgoing.push(Letter::Close { session: session.id });
                session.to.post(&mut session.outgoing);
            }
        }
        None
    }

    fn open(&mut self, conn: ConnId, to: &AddrVec) -> bool {
        let Some((mailbox, id)) = self.hub.find(to) else { return false };
        let open = Letter::Open { session: id, peer: self.me.clone(), reply_to: self.mailbox.clone() };
        self.sessions.insert(conn, Session { id, to: mailbox, outgoing: vec![open] });
        self.conns.insert(id, conn);
        self.dirty.push(conn);
        true
    }

    /// Takes one letter from the mailbox.
    pub fn receive(&mut self, letter: Letter) {
        match letter {
            Letter::Open { session, peer, reply_to } => {
                self.accepted += 1;
                let conn = ConnId(ACCEPTED_BASE | self.accepted);
                let accepted = Letter::Accepted { session, peer: self.me.clone() };
                self.sessions.insert(conn, Session { id: session, to: reply_to, outgoing: vec![accepted] });
                self.conns.insert(session, conn);
                self.dirty.push(conn);
                self.events.push_back(NetEvent::Opened { conn, peer });
            }
            Letter::Accepted { session, peer } => {
                if let Some(&conn) = self.conns.get(&session) {
                    self.events.push_back(NetEvent::Opened { conn, peer });
                }
            }
            Letter::Message { session, envelope } => {
                if let Some(&conn) = self.conns.get(&session) {
                    self.events.push_back(NetEvent::Message { conn, envelope });
                }
            }
            Letter::Close { session } => {
                if let Some(conn) = self.conns.remove(&session) {
                    self.sessions.remove(&conn);
                    self.events.push_back(NetEvent::Closed { conn, why: CloseReason::Fault });
                }
            }
        }
    }

    /// The next thing to tell the engine.
    pub fn poll_event(&mut self) -> Option<NetEvent> {
        self.events.pop_front()
    }

    /// Hands all outgoing letters over. A daemon that is gone closes its sessions.
    pub fn flush(&mut self) {
        for conn in std::mem::take(&mut self.dirty) {
            let Some(session) = self.sessions.get_mut(&conn) else { continue };
            if !session.to.post(&mut session.outgoing) {
                self.conns.remove(&session.id);
                self.sessions.remove(&conn);
                self.events.push_back(NetEvent::Closed { conn, why: CloseReason::Refused });
            }
        }
    }
}

impl Drop for LocalSessions {
    fn drop(&mut self) {
        self.hub.unregister(&self.me.addrs);
        self.mailbox.close();
        for session in self.sessions.values_mut() {
            session.outgoing.push(Letter::Close { session: session.id });
            session.to.post(&mut session.outgoing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::messages::{Message, Payload};
    use wire::net::{Envelope, Policy, TicketCaps};
    use wire::types::{EntityAddr, EntityName, EntityType};

    fn daemon(hub: &Hub, num: i64) -> LocalSessions {
        let addr = EntityAddr::msgr2(([127, 0, 0, 1], 6800 + num as u16).into(), 1);
        let name = EntityName { kind: EntityType::OSD, num };
        let caps = TicketCaps { allow_all: true, ..TicketCaps::default() };
        let entity = format!("osd.{num}");
        let addrs = AddrVec::one(addr);
        let me = Peer { name, entity, called: None, addrs, socket: None, global_id: 0, features: 0, caps };
        LocalSessions::new(hub.clone(), me)
    }

    fn arrived(sessions: &mut LocalSessions) -> Vec<NetEvent> {
        let mut letters = Vec::new();
        sessions.mailbox().take(&mut letters);
        letters.into_iter().for_each(|l| sessions.receive(l));
        std::iter::from_fn(|| sessions.poll_event()).collect()
    }

    #[test]
    fn messages_arrive_in_order_and_a_dropped_daemon_closes_its_sessions() {
        let hub = Hub::default();
        let (mut a, mut b) = (daemon(&hub, 0), daemon(&hub, 1));
        let conn = ConnId(1);
        let to = b.me.addrs.clone();
        let open = NetCommand::Open { conn, to, kind: EntityType::OSD, policy: Policy::Lossless };
        assert_eq!(a.command(open), None);
        for kind in [7, 8] {
            let envelope = Envelope::new(Message::Unknown(Box::new(Payload { kind, ..Payload::default() })));
            assert_eq!(a.command(NetCommand::Send { conn, envelope }), None);
        }
        a.flush();
        let at_b = arrived(&mut b);
        assert!(matches!(&at_b[0], NetEvent::Opened { peer, .. } if peer.entity == "osd.0"));
        let kinds: Vec<u16> = at_b[1..]
            .iter()
            .map(|e| match e {
                NetEvent::Message { envelope: Envelope { message: Message::Unknown(p), .. }, .. } => p.kind,
                other => panic!("expected a message, got {other:?}"),
            })
            .collect();
        assert_eq!(kinds, [7, 8]);
        b.flush();
        assert!(matches!(&arrived(&mut a)[..], [NetEvent::Opened { conn: ConnId(1), .. }]));
        drop(b);
        assert_eq!(arrived(&mut a), [NetEvent::Closed { conn, why: CloseReason::Fault }]);
    }

    #[test]
    fn an_unknown_address_is_left_to_the_network() {
        let hub = Hub::default();
        let mut a = daemon(&hub, 0);
        let to = AddrVec::one(EntityAddr::msgr2(([127, 0, 0, 1], 1).into(), 9));
        let open = NetCommand::Open { conn: ConnId(1), to, kind: EntityType::OSD, policy: Policy::Lossy };
        assert_eq!(a.command(open.clone()), Some(open));
    }
}
