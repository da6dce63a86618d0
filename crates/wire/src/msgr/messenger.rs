//! The messenger: many sessions over many byte streams, without input, output or clock of its own.
//!
//! Owns the tables of streams and sessions and the public interface. The engine's side speaks `net::NetCommand` and
//! `net::NetEvent`; the driver's side reports what happens to byte streams and carries out `StreamCommand`s. Refuses
//! to block, to read clocks, and to know what messages mean.
//!
//! A driver's loop: report everything that happened (`accepted`, `connected`, `received`, `stream_failed`,
//! `handle_timer` when `next_wakeup` has come), hand `poll_event`s to the engine and the engine's commands to
//! `command`, carry out `poll_stream_command`s, then write out each `poll_dirty` stream's `outgoing` bytes and report
//! them with `written`. A stream whose socket is full is written again when the socket is writable.
//!
//! Invariants (`check_invariants`): a session has at most one stream, and that stream knows it; every `ConnId` that
//! was reported `Opened` and that the engine did not close gets exactly one `Closed`.
//!
//! Read next: `handshake`, `delivery`, `timers`.

use super::config::{DoorId, MessengerConfig};
use super::error::StreamError;
use super::send_queue::{SendQueue, SpareBuffers};
use super::session::{Session, SessionId, State};
use super::stream::{Phase, Stream, StreamCommand, StreamFault, StreamId};
use super::timers::{Timer, Timers};
use super::{banner, crypto::Side, limits};
use crate::auth::Auth;
use crate::net::{CloseReason, ConnId, Envelope, NetCommand, NetEvent, Peer, Policy};
use crate::types::{AddrVec, EntityAddr, EntityType};
use base::hash::FixedHashMap;
use base::rng::SecretRng;
use base::{Duration, Instant};
use bytes::BytesMut;
use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Many sessions over many byte streams.
#[derive(Debug)]
pub struct Messenger {
    pub(super) config: MessengerConfig,
    pub(super) rng: SecretRng,
    /// Counts our connection attempts and accepted sessions (`global_seq`).
    pub(super) global_seq: u64,
    last_stream: u64,
    last_session: u64,
    last_accepted: u64,
    pub(super) streams: FixedHashMap<StreamId, Stream>,
    pub(super) sessions: FixedHashMap<SessionId, Session>,
    pub(super) conns: FixedHashMap<ConnId, SessionId>,
    /// Sessions that a connecting peer may come back to. Peers choose these keys.
    pub(super) by_addr: BTreeMap<EntityAddr, SessionId>,
    /// Accepted streams whose handshake is not over, oldest first.
    pub(super) handshakes: BTreeSet<StreamId>,
    pub(super) timers: Timers,
    pub(super) events: VecDeque<NetEvent>,
    commands: VecDeque<StreamCommand>,
    dirty: VecDeque<StreamId>,
    pub(super) spare: SpareBuffers,
}

impl Messenger {
    /// A messenger without any session. `rng` makes its cookies.
    pub fn new(config: MessengerConfig, rng: SecretRng) -> Messenger {
        Messenger {
            config,
            rng,
            global_seq: 0,
            last_stream: 0,
            last_session: 0,
            last_accepted: 0,
            streams: FixedHashMap::default(),
            sessions: FixedHashMap::default(),
            conns: FixedHashMap::default(),
            by_addr: BTreeMap::new(),
            handshakes: BTreeSet::new(),
            timers: Timers::default(),
            events: VecDeque::new(),
            commands: VecDeque::new(),
            dirty: VecDeque::new(),
            spare: SpareBuffers::default(),
        }
    }

    /// Our addresses, as peers are told.
    pub fn addrs(&self) -> &AddrVec {
        &self.config.addrs
    }

    /// Changes our addresses: once the driver knows the ports it is bound to.
    pub fn set_addrs(&mut self, addrs: AddrVec) {
        self.config.addrs = addrs;
    }

    /// Changes the number of our name: a client's becomes its global id.
    pub fn set_number(&mut self, number: i64) {
        self.config.me.num = number;
    }

    // The driver's side.

    /// A peer has connected to us; the stream's name is returned. Its first bytes wait at once.
    pub fn accepted(&mut self, now: Instant, peer: SocketAddr) -> StreamId {
        self.accepted_at(now, peer, DoorId::default())
    }

    /// The same, for a peer that came through one of our other doors.
    pub fn accepted_at(&mut self, now: Instant, peer: SocketAddr, door: DoorId) -> StreamId {
        if self.handshakes.len() >= limits::HANDSHAKES_MAX
            && let Some(oldest) = self.handshakes.first().copied()
        {
            self.fail(now, oldest, StreamError::Crowded);
        }
        let id = self.add_stream(now, Side::Accepting, peer, EntityType(0), Phase::Banner);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.door = door;
        }
        self.handshakes.insert(id);
        self.send_banner(now, id);
        id
    }

    /// A stream that we asked for is connected; `local` is its own end.
    pub fn connected(&mut self, now: Instant, id: StreamId, local: SocketAddr) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.phase == Phase::Dial) else { return };
        stream.phase = Phase::Banner;
        stream.heard = now;
        for addr in &mut self.config.addrs.0 {
            if let Some(socket) = &mut addr.socket
                && socket.ip().is_unspecified()
            {
                socket.set_ip(local.ip());
            }
        }
        self.send_banner(now, id);
    }

    /// Bytes have come. Takes all whole frames off the front of `buf`; what is left belongs to the messenger until
    /// the next call, which must pass it again with more bytes behind it. Messages share the buffer's memory.
    pub fn received(&mut self, now: Instant, id: StreamId, buf: &mut BytesMut, auth: &mut dyn Auth) {
        loop {
            let Some(stream) = self.streams.get_mut(&id) else { return buf.clear() };
            stream.heard = now;
            let step = if stream.phase <= Phase::Banner {
                match banner::take(buf) {
                    Ok(Some(banner)) => self.on_banner(now, id, &banner).map_err(Some),
                    Ok(None) => {
                        stream.held = buf.len();
                        Err(None)
                    }
                    Err(error) => Err(Some(error)),
                }
            } else {
                match stream.reader.next(buf) {
                    Ok(Some(frame)) => self.on_frame(now, id, &frame, auth).map_err(Some),
                    Ok(None) => {
                        stream.held = buf.len();
                        Err(None)
                    }
                    Err(error) => Err(Some(error.into())),
                }
            };
            match step {
                Ok(()) => {}
                Err(None) => return,
                Err(Some(error)) => {
                    self.fail(now, id, error);
                    return buf.clear();
                }
            }
        }
    }

    /// How many more bytes the frame that is being received needs: reserve at least as much before reading.
    pub fn want(&self, id: StreamId) -> usize {
        self.streams.get(&id).map_or(1, |stream| stream.reader.want(stream.held))
    }

    /// A stream broke, was closed by the peer, or could not be connected. Not for streams that we closed.
    pub fn stream_failed(&mut self, now: Instant, id: StreamId, fault: StreamFault) {
        let why = match fault {
            StreamFault::Refused => StreamError::ConnectionRefused,
            StreamFault::Broken => StreamError::Broken,
        };
        self.lose_stream(now, id, &why);
    }

    /// The next stream to connect or to close.
    pub fn poll_stream_command(&mut self) -> Option<StreamCommand> {
        self.commands.pop_front()
    }

    /// The next stream with new bytes to write.
    pub fn poll_dirty(&mut self) -> Option<StreamId> {
        while let Some(id) = self.dirty.pop_front() {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.dirty = false;
                return Some(id);
            }
        }
        None
    }

    /// The bytes that wait for a stream; `None` once it is closed.
    pub fn outgoing(&self, id: StreamId) -> Option<&SendQueue> {
        self.streams.get(&id).map(|stream| &stream.out)
    }

    /// The first `bytes` of those have been written.
    pub fn written(&mut self, now: Instant, id: StreamId, bytes: usize) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.out.advance(bytes);
            self.spare.take_back(&mut stream.out);
            stream.waiting_since = (!stream.out.is_empty()).then_some(now);
        }
    }

    /// Takes all the bytes that wait, as slices of where they are: for drivers that pass buffers on.
    pub fn take_outgoing(&mut self, id: StreamId) -> VecDeque<bytes::Bytes> {
        self.streams.get_mut(&id).map_or_else(VecDeque::new, |stream| {
            stream.waiting_since = None;
            stream.out.take()
        })
    }

    /// The most bytes that wait for any one peer. Not more than `backlog_bytes_max`: beyond, its session ends.
    pub fn backlog_bytes(&self) -> usize {
        let unsent = self.streams.values().map(|stream| stream.out.len());
        self.sessions.values().map(|session| session.backlog.bytes()).chain(unsent).max().unwrap_or(0)
    }

    // The engine's side.

    /// Carries out a command.
    pub fn command(&mut self, now: Instant, command: NetCommand) {
        match command {
            NetCommand::Open { conn, to, kind, policy } => self.open(now, conn, &to, kind, policy),
            NetCommand::Send { conn, envelope } => self.send(now, conn, envelope),
            NetCommand::Close { conn } => self.close(conn),
        }
    }

    /// How many events `poll_event` has to give.
    pub fn events_waiting(&self) -> usize {
        self.events.len()
    }

    /// The next thing to tell the engine.
    pub fn poll_event(&mut self) -> Option<NetEvent> {
        self.events.pop_front()
    }

    /// Who is at the other end of a session, once that is known.
    pub fn peer(&self, conn: ConnId) -> Option<&Arc<Peer>> {
        self.sessions.get(self.conns.get(&conn)?)?.peer.as_ref()
    }

    /// The same by its stream.
    pub fn peer_of(&self, id: StreamId) -> Option<&Arc<Peer>> {
        self.sessions.get(&self.streams.get(&id)?.session?)?.peer.as_ref()
    }

    fn open(&mut self, now: Instant, conn: ConnId, to: &AddrVec, kind: EntityType, policy: Policy) {
        assert!(!conn.is_accepted() && !self.conns.contains_key(&conn), "{conn:?} is not the engine's to open");
        let Some(target) = to.msgr2().filter(|addr| addr.socket.is_some()) else {
            self.events.push_back(NetEvent::Closed { conn, why: CloseReason::Refused });
            return;
        };
        if policy == Policy::Lossless
            && let Some(&sid) = self.by_addr.get(&target)
            && self.sessions[&sid].policy == Policy::Lossless
        {
            return self.join(now, sid, conn, target);
        }
        let mut session = Session::new(conn, policy, kind);
        session.target = Some(target);
        let sid = self.add_session(session);
        if policy == Policy::Lossless {
            self.register(sid, target);
        }
        self.dial(now, sid);
    }

    /// The engine opens a session to a peer that has opened one to us: that one gets the new name.
    fn join(&mut self, now: Instant, sid: SessionId, conn: ConnId, target: EntityAddr) {
        self.conns.insert(conn, sid);
        let session = self.sessions.get_mut(&sid).expect("registered sessions exist");
        let former = core::mem::replace(&mut session.conn, conn);
        session.former.push(former);
        session.target = Some(target);
        session.opened = session.is_ready();
        match (session.state, session.peer.clone()) {
            (State::Ready { .. }, Some(peer)) => self.events.push_back(NetEvent::Opened { conn, peer }),
            (State::Standby, _) => {
                session.connect_seq += u64::from(session.server_cookie != 0);
                self.dial(now, sid);
            }
            _ => {}
        }
    }

    fn send(&mut self, now: Instant, conn: ConnId, envelope: Envelope) {
        let Some(&sid) = self.conns.get(&conn) else { return };
        self.enqueue(now, sid, envelope);
    }

    fn close(&mut self, conn: ConnId) {
        let Some(&sid) = self.conns.get(&conn) else { return };
        self.conns.remove(&conn);
        self.events.retain(|event| event.conn() != conn);
        let session = self.sessions.get_mut(&sid).expect("named sessions exist");
        session.former.retain(|former| *former != conn);
        if session.conn == conn {
            // An older name of the same session, if there is one, still has its `Closed` to come.
            match session.former.pop() {
                Some(former) => session.conn = former,
                None => return self.drop_session(sid),
            }
        }
        self.end_session(sid, CloseReason::Fault);
    }

    // Tables.

    fn add_stream(&mut self, now: Instant, side: Side, peer: SocketAddr, kind: EntityType, phase: Phase) -> StreamId {
        self.last_stream += 1;
        let id = StreamId(self.last_stream);
        let mut stream = Stream::new(side, peer, kind, phase, now);
        stream.deadline = now + self.config.timing.handshake_max;
        self.timers.set(stream.deadline, Timer::Stream(id));
        self.streams.insert(id, stream);
        id
    }

    pub(super) fn add_session(&mut self, session: Session) -> SessionId {
        self.last_session += 1;
        let sid = SessionId(self.last_session);
        self.conns.insert(session.conn, sid);
        self.sessions.insert(sid, session);
        sid
    }

    /// A name for a session that a peer opens.
    pub(super) fn name_accepted(&mut self) -> ConnId {
        self.last_accepted += 1;
        ConnId(ConnId::ACCEPTED | self.last_accepted)
    }

    /// Lets a connecting peer find the session.
    pub(super) fn register(&mut self, sid: SessionId, key: EntityAddr) {
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.key = Some(key);
            self.by_addr.insert(key, sid);
        }
    }

    /// Begins a connection attempt for a session that has a target.
    pub(super) fn dial(&mut self, now: Instant, sid: SessionId) {
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        let Some(to) = session.target.and_then(|addr| addr.socket) else { return };
        assert!(session.stream.is_none(), "a session has one stream at a time");
        self.global_seq += 1;
        session.global_seq = self.global_seq;
        session.state = State::Connecting;
        let kind = session.kind;
        self.set_session_timer(sid, None);
        let id = self.add_stream(now, Side::Connecting, to, kind, Phase::Dial);
        self.attach_stream(id, sid);
        self.commands.push_back(StreamCommand::Connect { stream: id, to });
    }

    /// Makes `id` the session's stream.
    pub(super) fn attach_stream(&mut self, id: StreamId, sid: SessionId) {
        if let (Some(stream), Some(session)) = (self.streams.get_mut(&id), self.sessions.get_mut(&sid)) {
            stream.session = Some(sid);
            session.stream = Some(id);
        }
    }

    pub(super) fn set_session_timer(&mut self, sid: SessionId, at: Option<Instant>) {
        if let Some(session) = self.sessions.get_mut(&sid) {
            if let Some(old) = session.deadline {
                self.timers.clear(old, Timer::Session(sid));
            }
            session.deadline = at;
            if let Some(at) = at {
                self.timers.set(at, Timer::Session(sid));
            }
        }
    }

    pub(super) fn mark_dirty(&mut self, now: Instant, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.dirty
        {
            stream.dirty = true;
            stream.waiting_since.get_or_insert(now);
            self.dirty.push_back(id);
        }
    }

    // Endings.

    /// Closes a stream because of `why`, and does with its session what follows from that.
    pub(super) fn fail(&mut self, now: Instant, id: StreamId, why: StreamError) {
        let Some(stream) = self.streams.get(&id) else { return };
        self.commands.push_back(StreamCommand::Close { stream: id, peer: stream.peer, why: why.clone() });
        self.lose_stream(now, id, &why);
    }

    /// Closes a stream that its session no longer needs.
    pub(super) fn discard_stream(&mut self, id: StreamId) {
        if let Some(stream) = self.forget_stream(id) {
            let why = StreamError::Superseded;
            self.commands.push_back(StreamCommand::Close { stream: id, peer: stream.peer, why });
        }
    }

    fn forget_stream(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.streams.remove(&id)?;
        self.timers.clear(stream.deadline, Timer::Stream(id));
        self.handshakes.remove(&id);
        Some(stream)
    }

    /// The stream is gone; its session, if it had one, comes back later, waits, or ends.
    fn lose_stream(&mut self, now: Instant, id: StreamId, why: &StreamError) {
        let Some(sid) = self.forget_stream(id).and_then(|stream| stream.session) else { return };
        let Some(session) = self.sessions.get_mut(&sid) else { return };
        session.stream = None;
        if session.policy == Policy::Lossy || why.is_final() {
            return self.end_session(sid, why.close_reason());
        }
        let timing = &self.config.timing;
        let held = match session.state {
            State::Ready { since } => now.since(since) > timing.backoff_max,
            _ => false,
        };
        if session.target.is_none() {
            session.state = State::Standby;
            let at = now + timing.standby_max;
            return self.set_session_timer(sid, Some(at));
        }
        session.connect_seq += u64::from(session.server_cookie != 0);
        session.backoff = if *why == StreamError::Wait {
            timing.backoff_max
        } else if held {
            Duration::ZERO
        } else {
            (session.backoff * 2).clamp(timing.backoff_min, timing.backoff_max)
        };
        session.state = State::Backoff;
        let at = now + session.backoff;
        self.set_session_timer(sid, Some(at));
    }

    /// Ends a session and tells the engine.
    pub(super) fn end_session(&mut self, sid: SessionId, why: CloseReason) {
        let Some(session) = self.sessions.get(&sid) else { return };
        for conn in session.former.iter().chain([&session.conn]) {
            self.events.push_back(NetEvent::Closed { conn: *conn, why });
        }
        self.drop_session(sid);
    }

    fn drop_session(&mut self, sid: SessionId) {
        self.set_session_timer(sid, None);
        let Some(session) = self.sessions.remove(&sid) else { return };
        for conn in session.former.iter().chain([&session.conn]) {
            self.conns.remove(conn);
        }
        if let Some(key) = session.key
            && self.by_addr.get(&key) == Some(&sid)
        {
            self.by_addr.remove(&key);
        }
        if let Some(id) = session.stream {
            self.discard_stream(id);
        }
    }

    /// How much is in each table, and how much ever was. Where this stays the same the tables hold the same, though not
    /// always what they held of it.
    pub fn census(&self) -> [u64; 8] {
        let lengths = [self.streams.len(), self.sessions.len(), self.conns.len(), self.by_addr.len()];
        let [streams, sessions, conns, addrs] = lengths.map(|length| length as u64);
        let (handshakes, timers) = (self.handshakes.len() as u64, self.timers.len() as u64);
        [streams, sessions, conns, addrs, handshakes, timers, self.last_stream, self.last_session]
    }

    /// Panics if the tables disagree with each other. For tests and simulations.
    pub fn check_invariants(&self) {
        for (sid, session) in &self.sessions {
            for conn in session.former.iter().chain([&session.conn]) {
                assert_eq!(self.conns.get(conn), Some(sid), "{conn:?} leads to its session");
            }
            if let Some(id) = session.stream {
                assert_eq!(self.streams[&id].session, Some(*sid), "a session's stream knows it");
            }
            if let Some(key) = session.key {
                assert!(self.by_addr.contains_key(&key), "a session with a key is registered");
            }
            assert_eq!(session.is_ready(), session.stream.is_some_and(|id| self.streams[&id].phase == Phase::Ready));
        }
        let names: usize = self.sessions.values().map(|session| session.former.len() + 1).sum();
        assert_eq!(names, self.conns.len(), "every name belongs to a session");
        for (id, stream) in &self.streams {
            if let Some(sid) = stream.session {
                assert_eq!(self.sessions[&sid].stream, Some(*id), "a stream's session knows it");
            }
        }
        let deadlines = self.sessions.values().filter(|session| session.deadline.is_some()).count();
        assert_eq!(self.timers.len(), self.streams.len() + deadlines, "one timer per stream and per waiting session");
    }
}
