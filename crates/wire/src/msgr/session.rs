//! A session: the part of a conversation that outlives its streams.
//!
//! Owns the sequence numbers, the cookies and the messages that a lossless peer has not acknowledged (Ceph v16.2
//! `src/msg/async/ProtocolV2.h`: in_seq, out_seq, sent, client_cookie, ...).
//!
//! Invariants: the backlog's messages are numbered without gaps; an acknowledged message is never sent again.

use super::stream::StreamId;
use crate::messages::Payload;
use crate::net::{ConnId, Peer, Policy};
use crate::types::{EntityAddr, EntityType};
use base::{Bug, Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

/// Names a session inside the messenger, where it may have several `ConnId`s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct SessionId(pub(super) u64);

/// What a session is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// A stream of ours is on its way.
    Connecting,
    /// Messages flow.
    Ready {
        /// Since when.
        since: Instant,
    },
    /// Pausing before we connect again.
    Backoff,
    /// Waiting for the peer to connect again.
    Standby,
}

/// A message that is not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) tid: u64,
    pub(super) priority: u16,
    pub(super) payload: Payload,
}

impl Outgoing {
    pub(super) fn bytes(&self) -> usize {
        let Payload { front, middle, lead, data, .. } = &self.payload;
        front.len() + middle.len() + lead.len() + data.len()
    }
}

/// Messages to send or to send again, numbered from `first_seq`.
#[derive(Debug)]
pub(super) struct Backlog {
    queue: VecDeque<Outgoing>,
    first_seq: u64,
    bytes: usize,
}

impl Backlog {
    fn new() -> Backlog {
        Backlog { queue: VecDeque::new(), first_seq: 1, bytes: 0 }
    }

    /// The number that the next message gets, for one that is not kept.
    pub(super) fn pass(&mut self) -> u64 {
        assert!(self.queue.is_empty(), "a message must not overtake those that wait");
        self.first_seq += 1;
        self.first_seq - 1
    }

    /// Keeps a message and returns its number.
    pub(super) fn push(&mut self, message: Outgoing) -> u64 {
        self.bytes += message.bytes();
        self.queue.push_back(message);
        self.last_seq()
    }

    /// The number of the last message that was given one.
    pub(super) fn last_seq(&self) -> u64 {
        self.first_seq + self.queue.len() as u64 - 1
    }

    /// Forgets messages up to `seq`. A peer that acknowledges what it was never sent gains nothing.
    pub(super) fn acknowledge(&mut self, seq: u64) {
        while self.first_seq <= seq
            && let Some(message) = self.queue.pop_front()
        {
            self.bytes -= message.bytes();
            self.first_seq += 1;
        }
    }

    /// Numbers all that is left from 1, for a new session.
    pub(super) fn renumber(&mut self) {
        self.first_seq = 1;
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Backlog::new();
    }

    /// The messages with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Outgoing)> {
        (self.first_seq..).zip(&self.queue)
    }

    /// How many bytes are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// The name that events carry.
    pub(super) conn: ConnId,
    /// Names it had before the engine opened a session to a peer that had already opened this one.
    pub(super) former: Vec<ConnId>,
    pub(super) policy: Policy,
    pub(super) kind: EntityType,
    /// Where to connect, if the engine opened it.
    pub(super) target: Option<EntityAddr>,
    /// The address under which it is found when the peer connects.
    pub(super) key: Option<EntityAddr>,
    pub(super) peer: Option<Arc<Peer>>,
    /// Whether the engine has been told that `conn` is open.
    pub(super) opened: bool,
    pub(super) stream: Option<StreamId>,
    pub(super) state: State,
    /// Chosen by whoever sent CLIENT_IDENT.
    pub(super) client_cookie: u64,
    /// Chosen by whoever sent SERVER_IDENT; 0 before there is a session to come back to.
    pub(super) server_cookie: u64,
    /// Our count of connection attempts when this session's last one began.
    pub(super) global_seq: u64,
    /// The peer's count when its last one began.
    pub(super) peer_global_seq: u64,
    /// Attempts to come back to this session.
    pub(super) connect_seq: u64,
    /// The last message that arrived.
    pub(super) in_seq: u64,
    pub(super) backlog: Backlog,
    /// Messages that arrived since our last acknowledgement.
    pub(super) unacked: u32,
    /// Their bytes.
    pub(super) unacked_bytes: usize,
    /// The pause before the next attempt; zero after a session that held.
    pub(super) backoff: Duration,
    /// Its entry among the timers.
    pub(super) deadline: Option<Instant>,
}

impl Session {
    pub(super) fn new(conn: ConnId, policy: Policy, kind: EntityType) -> Session {
        Session {
            conn,
            former: Vec::new(),
            policy,
            kind,
            target: None,
            key: None,
            peer: None,
            opened: false,
            stream: None,
            state: State::Connecting,
            client_cookie: 0,
            server_cookie: 0,
            global_seq: 0,
            peer_global_seq: 0,
            connect_seq: 0,
            in_seq: 0,
            backlog: Backlog::new(),
            unacked: 0,
            unacked_bytes: 0,
            backoff: Duration::ZERO,
            deadline: None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// The peer says at its return what it has: the rest is sent again.
    pub(super) fn has_up_to(&mut self, seq: u64) {
        if !Bug::RepeatsDelivered.is_planted() {
            self.backlog.acknowledge(seq);
        }
    }

    /// Forgets everything that both ends shared: the peer has forgotten it.
    pub(super) fn reset(&mut self) {
        self.client_cookie = 0;
        self.server_cookie = 0;
        self.peer_global_seq = 0;
        self.connect_seq = 0;
        self.begin();
        self.backlog.clear();
    }

    /// Starts counting anew at a CLIENT_IDENT or SERVER_IDENT; what waits keeps waiting.
    pub(super) fn begin(&mut self) {
        self.in_seq = 0;
        self.unacked = 0;
        self.unacked_bytes = 0;
        self.backlog.renumber();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(len: usize) -> Outgoing {
        Outgoing { tid: 0, priority: 127, payload: Payload { front: Bytes::from(vec![0; len]), ..Payload::default() } }
    }

    #[test]
    fn the_backlog_counts_and_forgets() {
        let mut backlog = Backlog::new();
        assert_eq!(backlog.pass(), 1);
        assert_eq!((backlog.push(message(10)), backlog.push(message(20))), (2, 3));
        backlog.acknowledge(2);
        assert_eq!((backlog.bytes(), backlog.last_seq()), (20, 3));
        assert_eq!(backlog.iter().map(|(seq, _)| seq).collect::<Vec<_>>(), [3]);
        backlog.acknowledge(u64::MAX);
        assert_eq!((backlog.bytes(), backlog.push(message(1))), (0, 4));
        backlog.renumber();
        assert_eq!(backlog.last_seq(), 1);
    }
}
