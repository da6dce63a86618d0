//! A small world in virtual time: messengers, and pipes between them that delay, fragment, cut and damage.
//!
//! One seed decides everything. A failing test prints its seed.

use crate::no_auth::NoAuth;
use base::rng::SecretRng;
use base::{Duration, Instant, Rng};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::auth::Auth;
use wire::messages::{Message, Payload};
use wire::msgr::{DoorId, Messenger, MessengerConfig, StreamCommand, StreamError, StreamFault, StreamId};
use wire::net::{CloseReason, ConnId, Envelope, NetCommand, NetEvent, Peer, Policy};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType};

/// The type number of the tests' messages: one that nobody uses.
const KIND: u16 = 0x7F77;

/// A numbered message with `size` bytes of data.
pub(crate) fn numbered(number: u64, size: usize) -> Envelope {
    let payload = Payload {
        kind: KIND,
        version: 1,
        compat: 1,
        front: Bytes::copy_from_slice(&number.to_le_bytes()),
        middle: Bytes::new(),
        data: Bytes::from_iter((0..size).map(|i| (i as u64 + number) as u8)),
        ..Payload::default()
    };
    Envelope::with_tid(number, Message::Unknown(Box::new(payload)))
}

fn number_of(envelope: &Envelope) -> u64 {
    let Message::Unknown(payload) = &envelope.message else { panic!("not a test message: {envelope:?}") };
    let number = u64::from_le_bytes(payload.front[..].try_into().expect("eight bytes of front"));
    assert_eq!(envelope.tid, number);
    let expected = numbered(number, payload.data.len());
    assert_eq!(*envelope, expected, "the message's bytes");
    number
}

/// How the pipes treat bytes.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// The longest delay of a piece, in microseconds.
    pub(crate) delay_us: u64,
    /// One piece in so many is where its pipe breaks; 0 for never.
    pub(crate) cut_in: u64,
    /// One piece in so many has a bit flipped; 0 for never.
    pub(crate) damage_in: u64,
    /// The largest fragment.
    pub(crate) fragment: u64,
}

impl Weather {
    pub(crate) const CALM: Weather = Weather { delay_us: 200, cut_in: 0, damage_in: 0, fragment: 1 << 20 };
}

/// What a node's engine has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) opened: Vec<(ConnId, Arc<Peer>)>,
    pub(crate) messages: BTreeMap<ConnId, Vec<u64>>,
    pub(crate) resets: Vec<ConnId>,
    pub(crate) closed: Vec<(ConnId, CloseReason)>,
    pub(crate) stream_errors: Vec<StreamError>,
}

pub(crate) struct Node {
    pub(crate) messenger: Messenger,
    pub(crate) auth: NoAuth,
    /// Real authentication in place of `auth`.
    pub(crate) keys: Option<Box<dyn Auth>>,
    pub(crate) socket: Option<SocketAddr>,
    pub(crate) config: MessengerConfig,
    pub(crate) seen: Seen,
    /// Whether every message is sent back.
    pub(crate) echoes: bool,
    /// Whether the node's sockets take bytes.
    pub(crate) reads: bool,
    buffers: BTreeMap<StreamId, BytesMut>,
    next_conn: u64,
}

impl Node {
    /// The door that listens at an address.
    fn door_at(&self, at: SocketAddr) -> Option<DoorId> {
        let aside = self.config.doors.iter().position(|door| door.addrs.0.iter().any(|addr| addr.socket == Some(at)));
        (self.socket == Some(at)).then_some(DoorId(0)).or(aside.map(|n| DoorId(n + 1)))
    }
}

/// One end: a node and its stream, or the test itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Node(usize, StreamId),
    Test,
}

struct Pipe {
    ends: [End; 2],
    /// What travels to each end, and when it arrives.
    flying: [VecDeque<(Instant, Bytes)>; 2],
    /// When each end learns that the pipe broke.
    broken: Option<Instant>,
    /// What the test received.
    taken: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) rng: Rng,
    pub(crate) nodes: Vec<Node>,
    pub(crate) weather: Weather,
    /// Everything each stream ever sent.
    pub(crate) tapes: BTreeMap<(usize, StreamId), Vec<u8>>,
    pipes: BTreeMap<u64, Pipe>,
    next_pipe: u64,
}

pub(crate) fn addr(n: u16, nonce: u32) -> EntityAddr {
    EntityAddr::msgr2(SocketAddr::from(([127, 0, 0, 1], 6800 + n)), nonce)
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        World {
            now: Instant::from_secs(1_700_000_000),
            rng: Rng::new(seed),
            nodes: Vec::new(),
            weather: Weather::CALM,
            tapes: BTreeMap::new(),
            pipes: BTreeMap::new(),
            next_pipe: 0,
        }
    }

    /// Adds an OSD that listens and whose peers' sessions are lossless.
    pub(crate) fn osd(&mut self, n: u16) -> usize {
        let me = EntityName { kind: EntityType::OSD, num: i64::from(n) };
        let mut config = MessengerConfig::new(me, AddrVec::one(addr(n, 100 + u32::from(n))));
        config.lossless_from = vec![EntityType::OSD];
        self.node(config, &format!("osd.{n}"))
    }

    /// Adds a client that does not listen.
    pub(crate) fn client(&mut self, nonce: u32) -> usize {
        let me = EntityName { kind: EntityType::CLIENT, num: -1 };
        let mut config = MessengerConfig::new(me, AddrVec::one(addr(0, nonce)));
        config.addrs.0[0].socket = Some(SocketAddr::from(([0, 0, 0, 0], 0)));
        self.node(config, "client.admin")
    }

    pub(crate) fn node(&mut self, config: MessengerConfig, entity: &str) -> usize {
        let socket = config.addrs.msgr2().and_then(|addr| addr.socket).filter(|socket| socket.port() != 0);
        let rng = self.secret_rng();
        self.nodes.push(Node {
            messenger: Messenger::new(config.clone(), rng),
            auth: NoAuth::new(entity),
            keys: None,
            socket,
            config,
            seen: Seen::default(),
            echoes: false,
            reads: true,
            buffers: BTreeMap::new(),
            next_conn: 0,
        });
        self.nodes.len() - 1
    }

    fn secret_rng(&mut self) -> SecretRng {
        let mut entropy = [0; 32];
        self.rng.fill(&mut entropy);
        SecretRng::from_entropy(entropy)
    }

    /// Replaces a node's messenger by a new one at the same address: it has forgotten everything.
    pub(crate) fn restart(&mut self, node: usize) {
        for pipe in self.pipes.values_mut() {
            if pipe.ends.iter().any(|end| matches!(end, End::Node(n, _) if *n == node)) {
                pipe.broken.get_or_insert(self.now);
                for end in &mut pipe.ends {
                    if matches!(end, End::Node(n, _) if *n == node) {
                        *end = End::Test;
                    }
                }
            }
        }
        let rng = self.secret_rng();
        let node = &mut self.nodes[node];
        node.messenger = Messenger::new(node.config.clone(), rng);
        node.buffers.clear();
        node.seen = Seen::default();
    }

    /// Opens a session from one node to another.
    pub(crate) fn open(&mut self, from: usize, to: usize, policy: Policy) -> ConnId {
        let addrs = self.nodes[to].messenger.addrs().clone();
        let kind = self.nodes[to].config.me.kind;
        self.nodes[from].next_conn += 1;
        let conn = ConnId(self.nodes[from].next_conn);
        self.command(from, NetCommand::Open { conn, to: addrs, kind, policy });
        conn
    }

    pub(crate) fn send(&mut self, from: usize, conn: ConnId, envelope: Envelope) {
        self.command(from, NetCommand::Send { conn, envelope });
    }

    pub(crate) fn command(&mut self, node: usize, command: NetCommand) {
        self.nodes[node].messenger.command(self.now, command);
        self.settle(node);
    }

    /// Breaks every pipe.
    pub(crate) fn cut_all(&mut self) {
        for pipe in self.pipes.values_mut() {
            pipe.broken.get_or_insert(self.now);
        }
    }

    pub(crate) fn pipes(&self) -> usize {
        self.pipes.len()
    }

    /// Connects the test itself to a node; returns the pipe.
    pub(crate) fn attack(&mut self, node: usize) -> u64 {
        let stream = self.nodes[node].messenger.accepted(self.now, SocketAddr::from(([127, 0, 0, 9], 9999)));
        let pipe = self.join([End::Test, End::Node(node, stream)]);
        self.settle(node);
        pipe
    }

    /// Sends raw bytes over a pipe of the test's.
    pub(crate) fn shoot(&mut self, pipe: u64, bytes: &[u8]) {
        let at = self.now;
        if let Some(pipe) = self.pipes.get_mut(&pipe) {
            pipe.flying[1].push_back((at, Bytes::copy_from_slice(bytes)));
        }
    }

    /// What the test has received over a pipe of its own; `None` once that is closed.
    pub(crate) fn loot(&self, pipe: u64) -> Option<&[u8]> {
        self.pipes.get(&pipe).filter(|pipe| pipe.broken.is_none()).map(|pipe| &pipe.taken[..])
    }

    fn join(&mut self, ends: [End; 2]) -> u64 {
        self.next_pipe += 1;
        let pipe = Pipe { ends, flying: [VecDeque::new(), VecDeque::new()], broken: None, taken: Vec::new() };
        self.pipes.insert(self.next_pipe, pipe);
        self.next_pipe
    }

    /// Runs until nothing is due before `until`.
    pub(crate) fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(at) = self.next_event()
            && at <= until
        {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = until;
    }

    fn next_event(&self) -> Option<Instant> {
        let pieces = self.pipes.values().flat_map(|pipe| pipe.flying.iter().filter_map(|q| Some(q.front()?.0)));
        let breaks = self.pipes.values().filter_map(|pipe| pipe.broken);
        let timers = self.nodes.iter().filter_map(|node| node.messenger.next_wakeup());
        pieces.chain(breaks).chain(timers).min()
    }

    fn step(&mut self) {
        let ids: Vec<u64> = self.pipes.keys().copied().collect();
        for id in ids {
            for to in 0..2 {
                self.deliver(id, to);
            }
            if self.pipes.get(&id).is_some_and(|pipe| pipe.broken.is_some_and(|at| at <= self.now)) {
                let pipe = self.pipes.remove(&id).expect("it was there");
                for end in pipe.ends {
                    if let End::Node(node, stream) = end {
                        self.nodes[node].buffers.remove(&stream);
                        self.nodes[node].messenger.stream_failed(self.now, stream, StreamFault::Broken);
                        self.settle(node);
                    }
                }
            }
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].messenger.next_wakeup().is_some_and(|at| at <= self.now) {
                self.nodes[node].messenger.handle_timer(self.now);
                self.settle(node);
            }
        }
    }

    fn deliver(&mut self, id: u64, to: usize) {
        while let Some(pipe) = self.pipes.get_mut(&id)
            && let Some((at, _)) = pipe.flying[to].front()
            && *at <= self.now
        {
            let (_, piece) = pipe.flying[to].pop_front().expect("there is one");
            match pipe.ends[to] {
                End::Test => pipe.taken.extend_from_slice(&piece),
                End::Node(n, stream) => {
                    let node = &mut self.nodes[n];
                    let buf = node.buffers.entry(stream).or_default();
                    buf.extend_from_slice(&piece);
                    let auth: &mut dyn Auth = match &mut node.keys {
                        Some(keys) => keys.as_mut(),
                        None => &mut node.auth,
                    };
                    node.messenger.received(self.now, stream, buf, auth);
                    self.settle(n);
                }
            }
        }
    }

    /// Lets a node's engine and driver do all they can.
    fn settle(&mut self, n: usize) {
        loop {
            let node = &mut self.nodes[n];
            if let Some(event) = node.messenger.poll_event() {
                self.engine(n, event);
            } else if let Some(command) = node.messenger.poll_stream_command() {
                self.drive(n, command);
            } else if let Some(stream) = node.messenger.poll_dirty() {
                self.carry(n, stream);
            } else {
                break;
            }
        }
        self.nodes[n].messenger.check_invariants();
    }

    fn engine(&mut self, n: usize, event: NetEvent) {
        let now = self.now;
        let node = &mut self.nodes[n];
        match event {
            NetEvent::Opened { conn, peer } => node.seen.opened.push((conn, peer)),
            NetEvent::Message { conn, envelope } => {
                node.seen.messages.entry(conn).or_default().push(number_of(&envelope));
                if node.echoes {
                    node.messenger.command(now, NetCommand::Send { conn, envelope });
                }
            }
            NetEvent::Reset { conn } => node.seen.resets.push(conn),
            NetEvent::Closed { conn, why } => node.seen.closed.push((conn, why)),
        }
    }

    fn drive(&mut self, n: usize, command: StreamCommand) {
        match command {
            StreamCommand::Connect { stream, to } => {
                let local = SocketAddr::from(([127, 0, 0, 1], 40000 + (stream.0 % 20000) as u16));
                let listening = self.nodes.iter().enumerate().find_map(|(at, node)| Some((at, node.door_at(to)?)));
                match listening {
                    None => self.nodes[n].messenger.stream_failed(self.now, stream, StreamFault::Refused),
                    Some((peer, door)) => {
                        let theirs = self.nodes[peer].messenger.accepted_at(self.now, local, door);
                        self.join([End::Node(n, stream), End::Node(peer, theirs)]);
                        self.nodes[n].messenger.connected(self.now, stream, local);
                        if peer != n {
                            self.settle(peer);
                        }
                    }
                }
            }
            StreamCommand::Close { stream, why, .. } => {
                self.nodes[n].seen.stream_errors.push(why);
                self.nodes[n].buffers.remove(&stream);
                let mine = End::Node(n, stream);
                for pipe in self.pipes.values_mut() {
                    if let Some(end) = pipe.ends.iter().position(|end| *end == mine) {
                        // What was written before still arrives; then the other end learns of the break.
                        pipe.ends[end] = End::Test;
                        let last = pipe.flying[1 - end].back().map_or(self.now, |(at, _)| *at);
                        pipe.broken = Some(pipe.broken.map_or(last, |at| at.min(last)));
                    }
                }
            }
        }
    }

    /// Puts a stream's waiting bytes on their way.
    fn carry(&mut self, n: usize, stream: StreamId) {
        let mine = End::Node(n, stream);
        let Some(pipe) = self.pipes.values_mut().find(|pipe| pipe.ends.contains(&mine)) else { return };
        let other = usize::from(pipe.ends[0] == mine);
        if let End::Node(peer, _) = pipe.ends[other]
            && !self.nodes[peer].reads
        {
            return;
        }
        for piece in self.nodes[n].messenger.take_outgoing(stream) {
            if pipe.broken.is_some() {
                return;
            }
            self.tapes.entry((n, stream)).or_default().extend_from_slice(&piece);
            let mut rest = piece;
            while !rest.is_empty() {
                let len = (1 + self.rng.below(self.weather.fragment) as usize).min(rest.len());
                let mut fragment = rest.split_to(len);
                if self.weather.damage_in > 0 && self.rng.chance(1, self.weather.damage_in) {
                    let mut damaged = fragment.to_vec();
                    damaged[self.rng.below(len as u64) as usize] ^= 1 << self.rng.below(8);
                    fragment = damaged.into();
                }
                let mut at = self.now + Duration::from_micros(self.rng.below(self.weather.delay_us.max(1)));
                if let Some((last, _)) = pipe.flying[other].back() {
                    at = at.max(*last);
                }
                if self.weather.cut_in > 0 && self.rng.chance(1, self.weather.cut_in) {
                    pipe.broken.get_or_insert(at);
                    return;
                }
                pipe.flying[other].push_back((at, fragment));
            }
        }
    }

    pub(crate) fn messages(&self, node: usize, conn: ConnId) -> &[u64] {
        self.nodes[node].seen.messages.get(&conn).map_or(&[], |list| &list[..])
    }

    /// All messages of a node, whichever name their session had.
    pub(crate) fn all_messages(&self, node: usize) -> Vec<u64> {
        self.nodes[node].seen.messages.values().flatten().copied().collect()
    }
}
