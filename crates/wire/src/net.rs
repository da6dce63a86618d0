//! The network as an engine sees it: sessions that open, deliver messages in order, and close.
//!
//! Owns the contract between engines and whatever carries their messages (the msgr2 messenger over TCP, the mailbox
//! between daemons of one process, the simulator's network). Refuses to know about bytes or sockets.
//!
//! Invariants: messages of one session arrive in the order they were sent; a lossless session either delivers each
//! message exactly once or reports `Reset`; a lossy one reports `Closed` at the first fault and never comes back.
//!
//! Read next: `msgr::messenger`, which keeps the contract over byte streams.

use crate::messages::Message;
use crate::types::{AddrVec, EntityName, EntityType};
use bytes::Bytes;
use core::net::SocketAddr;
use std::sync::Arc;

/// Names one session at one daemon. Those an engine opens are numbered by the engine, from 1; those the transport
/// accepts have the top bit set and are numbered by the transport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

impl ConnId {
    /// The bit that marks an accepted session.
    pub const ACCEPTED: u64 = 1 << 63;

    /// Whether the peer opened it.
    pub fn is_accepted(self) -> bool {
        self.0 & Self::ACCEPTED != 0
    }
}

/// Numbers the sessions that one engine opens. Each engine has one, and lends it to the components inside.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConnIds {
    given: u64,
}

impl ConnIds {
    /// A number never given before.
    pub fn allocate(&mut self) -> ConnId {
        self.given += 1;
        ConnId(self.given)
    }
}

/// What becomes of a session when its stream breaks (v16.2 `src/msg/Policy.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The session ends; the peers begin anew. Clients, and everybody towards a monitor.
    Lossy,
    /// Both ends keep unacknowledged messages, the opener reconnects, nothing is lost or delivered twice. OSD to OSD.
    Lossless,
}

/// What an accepted or opened session's peer has proved about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The name messages carry: `osd.3`, `client.4123`.
    pub name: EntityName,
    /// The authenticated entity: `client.admin`.
    pub entity: String,
    /// As what it called us, where that is not our own name (`MessengerConfig::doors`).
    pub called: Option<EntityType>,
    /// Where it listens, as it says; a client's address has port 0.
    pub addrs: AddrVec,
    /// Where its stream comes from, whatever it says of itself; none inside one process. Capabilities that are bound to
    /// a network go by this.
    pub socket: Option<SocketAddr>,
    /// Its number from the monitor.
    pub global_id: u64,
    /// The features it announced.
    pub features: u64,
    /// What its ticket allows with this kind of daemon.
    pub caps: TicketCaps,
}

/// The capabilities that came with a ticket (`AuthCapsInfo`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TicketCaps {
    /// Everything is allowed.
    pub allow_all: bool,
    /// The capability string, as the monitor encoded it: a u32 length and the text, or empty.
    pub caps: Bytes,
}

/// A message with what its header carries beside it.
#[derive(Clone, PartialEq, Debug)]
pub struct Envelope {
    /// The sender's transaction id, by which replies are matched; 0 where the message type has none.
    pub tid: u64,
    /// 63 low, 127 default, 196 high, 255 highest (`CEPH_MSG_PRIO_*`).
    pub priority: u16,
    /// The message.
    pub message: Message,
}

impl Envelope {
    /// The priority of an ordinary message.
    pub const PRIORITY_DEFAULT: u16 = 127;
    /// The priority of a message that overtakes ordinary ones.
    pub const PRIORITY_HIGH: u16 = 196;

    /// A message without a transaction id.
    pub fn new(message: impl Into<Message>) -> Envelope {
        Envelope { tid: 0, priority: Self::PRIORITY_DEFAULT, message: message.into() }
    }

    /// A message with a transaction id.
    pub fn with_tid(tid: u64, message: impl Into<Message>) -> Envelope {
        Envelope { tid, ..Envelope::new(message) }
    }
}

/// What the transport tells an engine.
#[derive(Clone, PartialEq, Debug)]
pub enum NetEvent {
    /// A session is authenticated and ready. Sends before this on a session the engine opened are queued.
    Opened {
        /// The session.
        conn: ConnId,
        /// Who is there.
        peer: Arc<Peer>,
    },
    /// A message arrived.
    Message {
        /// The session.
        conn: ConnId,
        /// The message.
        envelope: Envelope,
    },
    /// A lossless session's peer forgot it (it restarted): what was unacknowledged may be lost; the session goes on.
    Reset {
        /// The session.
        conn: ConnId,
    },
    /// The session is over; the id will not be used again.
    Closed {
        /// The session.
        conn: ConnId,
        /// Why.
        why: CloseReason,
    },
}

impl NetEvent {
    /// The session it is about.
    pub fn conn(&self) -> ConnId {
        match self {
            NetEvent::Opened { conn, .. }
            | NetEvent::Message { conn, .. }
            | NetEvent::Reset { conn }
            | NetEvent::Closed { conn, .. } => *conn,
        }
    }
}

/// Why a session ended or could not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The stream broke or the peer closed it.
    Fault,
    /// Nobody listens there.
    Refused,
    /// Authentication failed; the errno is what the peer or we gave as reason.
    Denied(base::Errno),
    /// The peer did not follow the protocol.
    Misbehaved,
}

/// What an engine asks of the transport.
#[derive(Clone, PartialEq, Debug)]
pub enum NetCommand {
    /// Open a session. Lossy: one attempt, then `Closed`. Lossless: reconnects with back-off until `Close`; a refused
    /// connection is reported as `Closed { Refused }` only for lossy sessions.
    Open {
        /// The engine's number for it, never used before.
        conn: ConnId,
        /// Where.
        to: AddrVec,
        /// What kind of daemon should be there.
        kind: EntityType,
        /// What to do when the stream breaks.
        policy: Policy,
    },
    /// Send a message on a session. Sends to a closed session vanish: its `Closed` is on the way.
    Send {
        /// The session.
        conn: ConnId,
        /// The message.
        envelope: Envelope,
    },
    /// Close a session; no `Closed` comes back.
    Close {
        /// The session.
        conn: ConnId,
    },
}
