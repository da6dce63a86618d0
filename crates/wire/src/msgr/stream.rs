//! One byte stream and how far its conversation has come.
//!
//! Owns what ends with the stream: its ciphers, its partial frames, its handshake. What outlives it is in `session`.

use super::config::DoorId;
use super::crypto::Side;
use super::error::StreamError;
use super::frame::{FrameReader, FrameWriter};
use super::send_queue::SendQueue;
use super::session::SessionId;
use crate::auth::{Authenticated, ClientExchange, Secrets, ServerExchange};
use crate::types::EntityType;
use base::Instant;
use core::net::SocketAddr;

/// Names one byte stream of a messenger; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);

/// What a driver reports about a stream that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamFault {
    /// Nobody listens at the address, or it cannot be reached.
    Refused,
    /// It broke, or the peer closed it.
    Broken,
}

/// What a messenger asks of its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamCommand {
    /// Connect a new stream, then call `connected` or `stream_failed`.
    Connect {
        /// The stream's name.
        stream: StreamId,
        /// Where to.
        to: SocketAddr,
    },
    /// Close a stream; the messenger has forgotten it.
    Close {
        /// The stream.
        stream: StreamId,
        /// Where its other end is.
        peer: SocketAddr,
        /// Why, for the log.
        why: StreamError,
    },
}

/// How far the conversation has come: what we wait for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Phase {
    /// The connection.
    Dial,
    /// The peer's banner.
    Banner,
    /// The peer's HELLO.
    Hello,
    /// The next step of authentication.
    Auth,
    /// The peer's signature.
    Sign,
    /// The session's identification or reconnection.
    Ident,
    /// Messages.
    Ready,
}

/// What is remembered during a handshake only.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    pub(super) client: ClientExchange,
    pub(super) server: ServerExchange,
    /// Steps of authentication or of session negotiation so far.
    pub(super) rounds: u8,
    /// What we sent up to AUTH_DONE, until the peer has signed it.
    pub(super) sent: Vec<u8>,
    pub(super) secrets: Secrets,
    /// The accepting side: who the peer has proved to be.
    pub(super) authenticated: Option<Box<Authenticated>>,
}

/// One byte stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) side: Side,
    /// The other end's socket address.
    pub(super) peer: SocketAddr,
    pub(super) phase: Phase,
    /// The door it came through; the first for streams of our own.
    pub(super) door: DoorId,
    /// The kind of peer: wanted on the connecting side, said in HELLO on the accepting one.
    pub(super) kind: EntityType,
    pub(super) reader: FrameReader,
    pub(super) writer: FrameWriter,
    pub(super) out: SendQueue,
    /// Whether the driver has been told that bytes wait.
    pub(super) dirty: bool,
    pub(super) session: Option<SessionId>,
    /// There until the stream is ready.
    pub(super) handshake: Option<Box<Handshake>>,
    /// When bytes last came.
    pub(super) heard: Instant,
    /// Since when bytes wait without any of them leaving; `None` while none wait.
    pub(super) waiting_since: Option<Instant>,
    /// How many received bytes wait for the rest of their frame.
    pub(super) held: usize,
    /// Its entry among the timers.
    pub(super) deadline: Instant,
}

impl Stream {
    pub(super) fn new(side: Side, peer: SocketAddr, kind: EntityType, phase: Phase, now: Instant) -> Stream {
        Stream {
            side,
            peer,
            phase,
            door: DoorId::default(),
            kind,
            reader: FrameReader::recording(),
            writer: FrameWriter::recording(),
            out: SendQueue::default(),
            dirty: false,
            session: None,
            handshake: Some(Box::default()),
            heard: now,
            waiting_since: None,
            held: 0,
            deadline: now,
        }
    }
}
