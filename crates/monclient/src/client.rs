//! The monitor client itself: finding a monitor, keeping a session with it, speaking over it.
//!
//! Read next: `auth` for what it proves, `subscriptions` for what it asks.

use crate::auth::{Answer, Credentials};
use crate::event::MonEvent;
use crate::limits::{
    ABANDONED_MAX, BACKOFF_MAX, BACKOFF_MIN, HUNT_INTERVAL, OUTBOX_MAX, PENDING_MAX, SESSION_GOOD_AFTER,
};
use crate::subscriptions::Subscriptions;
use base::rng::SecretRng;
use base::{Duration, Errno, Instant, Rng};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use wire::cephx::{AuthName, CephxClient, ClientModes, CryptoKey, ServerModes};
use wire::messages::{self, Message};
use wire::net::{CloseReason, ConnId, ConnIds, Envelope, NetCommand, NetEvent, Policy};
use wire::types::{AddrVec, EntityType, Uuid};
use wire::{Decode, Decoder, Malformed};

/// Who we are and where the monitors are.
#[derive(Clone, Debug)]
pub struct MonClientConfig {
    /// Our name: `osd.0`, `client.admin`.
    pub entity: AuthName,
    /// Our key; without one only sessions inside the process can be had.
    pub key: Option<CryptoKey>,
    /// Where monitors may be; one at least, or nothing is ever opened.
    pub mon_addrs: Vec<AddrVec>,
    /// The services whose tickets we need, an `EntityType` bit each.
    pub want: u32,
    /// The cluster, if we know: a monitor of another one is left.
    pub fsid: Option<Uuid>,
    /// Our host's name, as subscriptions carry it for the configuration database.
    pub hostname: String,
    /// The modes we ask for.
    pub modes: ClientModes,
    /// The modes we offer to those who come to us; for service daemons.
    pub service_modes: ServerModes,
}

impl MonClientConfig {
    /// What a service daemon or client needs beyond its name, key and monitors is what Ceph's defaults say: tickets
    /// for monitors, OSDs and managers; crc before secure towards daemons, secure before crc towards monitors.
    pub fn new(entity: AuthName, key: Option<CryptoKey>, mon_addrs: Vec<AddrVec>) -> MonClientConfig {
        MonClientConfig {
            entity,
            key,
            mon_addrs,
            want: u32::from(EntityType::MON.0 | EntityType::OSD.0 | EntityType::MGR.0),
            fsid: None,
            hostname: String::new(),
            modes: ClientModes::default(),
            service_modes: ServerModes::default(),
        }
    }
}

/// Whether a network event was the monitor client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Handled {
    /// It was; the owner need not look at it.
    Yes,
    /// It is somebody else's.
    No,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A session is to be opened at the next poll.
    Wanted {
        since: Instant,
    },
    Opening {
        conn: ConnId,
        deadline: Instant,
    },
    Ready {
        conn: ConnId,
        since: Instant,
    },
    Waiting {
        until: Instant,
    },
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct MonClient {
    config: MonClientConfig,
    auth: Credentials,
    rng: Rng,
    state: State,
    /// Where monitors are by the newest map, or by the configuration.
    addrs: Vec<AddrVec>,
    tried: Option<usize>,
    backoff: Duration,
    abandoned: VecDeque<ConnId>,
    subscriptions: Subscriptions,
    outbox: VecDeque<Envelope>,
    commands: BTreeMap<u64, (Vec<String>, Bytes)>,
    versions: BTreeMap<u64, String>,
    last_tid: u64,
    net: VecDeque<NetCommand>,
    events: VecDeque<MonEvent>,
}

impl MonClient {
    /// A client that opens its first session at the next `poll_command`.
    pub fn new(now: Instant, config: MonClientConfig, mut rng: SecretRng) -> MonClient {
        let fork = |rng: &mut SecretRng| SecretRng::from_entropy(rng.bytes());
        let (client_rng, server_rng) = (fork(&mut rng), fork(&mut rng));
        let client =
            CephxClient::new(config.entity.clone(), config.key.clone(), config.want, config.modes.clone(), client_rng);
        let auth = Credentials::new(client, config.service_modes.clone(), config.key.is_some(), server_rng);
        let mut subscriptions = Subscriptions::default();
        subscriptions.want("monmap", 0, false);
        subscriptions.want("config", 0, false);
        MonClient {
            addrs: config.mon_addrs.clone(),
            config,
            auth,
            rng: Rng::new(rng.u64()),
            state: State::Wanted { since: now },
            tried: None,
            backoff: BACKOFF_MIN,
            abandoned: VecDeque::new(),
            subscriptions,
            outbox: VecDeque::new(),
            commands: BTreeMap::new(),
            versions: BTreeMap::new(),
            last_tid: 0,
            net: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Our number; 0 before a handshake with a monitor gave one.
    pub fn global_id(&self) -> u64 {
        self.auth.client.global_id()
    }

    /// Our name.
    pub fn entity(&self) -> &AuthName {
        &self.config.entity
    }

    /// The cluster, once it is known.
    pub fn fsid(&self) -> Option<Uuid> {
        self.config.fsid
    }

    /// The session with the monitor, while one stands.
    pub fn session(&self) -> Option<ConnId> {
        match self.state {
            State::Ready { conn, .. } => Some(conn),
            _ => None,
        }
    }

    /// Whether authorizers of those who come to us can be verified. A daemon should not announce itself before.
    pub fn can_verify(&self) -> bool {
        self.auth.can_verify()
    }

    /// Asks for and offers these modes from now on; connections that stand keep theirs.
    pub fn set_modes(&mut self, asked: ClientModes, offered: ServerModes) {
        self.auth.set_modes(asked, offered);
    }

    /// Who answers handshakes for us, on both sides.
    pub fn auth(&mut self) -> &mut (impl wire::auth::Auth + use<>) {
        &mut self.auth
    }

    /// Asks to be kept informed of `what` (`osdmap`, `mgrmap`, ...) from version `start` on, or to be told once. Each
    /// call asks the monitor, also for what it was asked before: callers that wait for something pace themselves.
    pub fn subscribe(&mut self, what: &str, start: u64, onetime: bool) {
        self.subscriptions.want(what, start, onetime);
    }

    /// Drops a subscription; what the monitor already plans to send still comes.
    pub fn unsubscribe(&mut self, what: &str) {
        self.subscriptions.unwant(what);
    }

    /// Notes that the owner has version `have` of `what`: a new session asks for what follows.
    pub fn got(&mut self, what: &str, have: u64) {
        self.subscriptions.got(what, have);
    }

    /// Sends a message to the monitor, at once or when a session stands. What was under way when a session is lost
    /// stays lost: the owner sends again on `Ready` what it still wants.
    pub fn send(&mut self, envelope: Envelope) {
        match self.state {
            State::Ready { conn, .. } => self.net.push_back(NetCommand::Send { conn, envelope }),
            _ => {
                if self.outbox.len() >= OUTBOX_MAX {
                    self.outbox.pop_front();
                }
                self.outbox.push_back(envelope);
            }
        }
    }

    /// Runs a command on the monitor: one JSON object, as `ceph` sends it, and its input. Repeated on each new
    /// session until it is answered. Gives the number that its `CommandReply` carries.
    pub fn command(&mut self, command: Vec<String>, input: Bytes) -> u64 {
        self.last_tid += 1;
        let tid = self.last_tid;
        if self.commands.len() >= PENDING_MAX {
            self.events.push_back(MonEvent::CommandDropped { tid });
            return tid;
        }
        self.commands.insert(tid, (command, input));
        self.send_command(tid);
        tid
    }

    /// Asks for the newest version of a map; gives the number that the `Version` event carries.
    pub fn get_version(&mut self, what: &str) -> u64 {
        self.last_tid += 1;
        let handle = self.last_tid;
        if self.versions.len() >= PENDING_MAX {
            self.versions.pop_first();
        }
        self.versions.insert(handle, what.to_owned());
        self.send_version_query(handle);
        handle
    }

    /// Leaves the monitor. Whoever calls this wants no more events; `reconnect` starts again.
    pub fn shutdown(&mut self) {
        self.close_session();
        self.state = State::Waiting { until: Instant(u64::MAX) };
    }

    /// Leaves the present session, if any, and opens another at once.
    pub fn reconnect(&mut self, now: Instant) {
        if self.close_session() {
            self.events.push_back(MonEvent::Lost);
        }
        self.state = State::Wanted { since: now };
    }

    /// A daemon of kind `service` refused our ticket: it will be replaced before the next attempt.
    pub fn ticket_refused(&mut self, service: EntityType) {
        self.auth.client.forget_ticket(service);
    }

    /// Takes an event if it is of a monitor session.
    pub fn handle_net(&mut self, now: Instant, event: &NetEvent) -> Handled {
        let conn = match event {
            NetEvent::Opened { conn, .. }
            | NetEvent::Message { conn, .. }
            | NetEvent::Reset { conn }
            | NetEvent::Closed { conn, .. } => *conn,
        };
        match self.state {
            State::Opening { conn: ours, .. } | State::Ready { conn: ours, .. } if ours == conn => {}
            _ if self.abandoned.contains(&conn) => return Handled::Yes,
            _ => return Handled::No,
        }
        match event {
            NetEvent::Opened { .. } => self.session_up(now, conn),
            NetEvent::Message { envelope, .. } => self.message(now, envelope),
            NetEvent::Reset { .. } => {}
            NetEvent::Closed { why, .. } => self.session_lost(now, *why),
        }
        self.speak(now);
        Handled::Yes
    }

    /// To be called at `next_wakeup`, or at any other time.
    pub fn handle_timer(&mut self, now: Instant) {
        match self.state {
            State::Waiting { until } if until <= now => self.state = State::Wanted { since: now },
            State::Opening { deadline, .. } if deadline <= now => {
                self.close_session();
                self.pause(now);
            }
            State::Ready { .. } if self.auth.overdue(now) => self.reconnect(now),
            _ => {}
        }
        self.speak(now);
    }

    /// When `handle_timer` should be called.
    pub fn next_wakeup(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => (until.0 != u64::MAX).then_some(until),
            State::Opening { deadline, .. } => Some(deadline),
            State::Ready { .. } => self.auth.next_wakeup(),
            State::Wanted { .. } => None,
        }
    }

    /// The next command for the transport.
    pub fn poll_command(&mut self, conns: &mut ConnIds) -> Option<NetCommand> {
        if let State::Ready { .. } = self.state
            && let Some(message) = self.subscriptions.message(&self.config.hostname)
        {
            self.send(Envelope::new(message));
        }
        if let Some(command) = self.net.pop_front() {
            return Some(command);
        }
        let State::Wanted { since } = self.state else { return None };
        let to = self.choose()?;
        let conn = conns.allocate();
        self.state = State::Opening { conn, deadline: since + HUNT_INTERVAL.max(self.backoff) };
        Some(NetCommand::Open { conn, to, kind: EntityType::MON, policy: Policy::Lossy })
    }

    /// The next event for the owner.
    pub fn poll_event(&mut self) -> Option<MonEvent> {
        self.events.pop_front()
    }

    /// Panics if what must always hold does not.
    pub fn check_invariants(&self) {
        assert!(self.outbox.len() <= OUTBOX_MAX && self.commands.len() <= PENDING_MAX, "a queue passed its bound");
        if let State::Ready { .. } = self.state {
            assert!(self.outbox.is_empty(), "messages wait although a session stands");
        }
    }

    /// Any monitor but the last one tried, if there is another.
    fn choose(&mut self) -> Option<AddrVec> {
        let count = self.addrs.len();
        let index = match (count, self.tried.filter(|&last| last < count)) {
            (0, _) => return None,
            (1, _) => 0,
            (_, None) => self.rng.below(count as u64) as usize,
            (_, Some(last)) => (last + 1 + self.rng.below(count as u64 - 1) as usize) % count,
        };
        self.tried = Some(index);
        Some(self.addrs[index].clone())
    }

    fn session_up(&mut self, now: Instant, conn: ConnId) {
        self.state = State::Ready { conn, since: now };
        self.auth.new_session();
        self.subscriptions.new_session();
        if let Some(message) = self.subscriptions.message(&self.config.hostname) {
            self.send(Envelope::new(message));
        }
        for envelope in core::mem::take(&mut self.outbox) {
            self.send(envelope);
        }
        for tid in self.commands.keys().copied().collect::<Vec<_>>() {
            self.send_command(tid);
        }
        for handle in self.versions.keys().copied().collect::<Vec<_>>() {
            self.send_version_query(handle);
        }
        self.events.push_back(MonEvent::Ready);
    }

    fn session_lost(&mut self, now: Instant, why: CloseReason) {
        match self.state {
            State::Ready { since, .. } => {
                if now.since(since) >= SESSION_GOOD_AFTER {
                    self.backoff = BACKOFF_MIN;
                }
                self.events.push_back(MonEvent::Lost);
            }
            _ => match why {
                // Our number may be no longer ours (its ticket ended while no monitor was there): begin as new.
                CloseReason::Denied(Errno::EACCES) if self.global_id() != 0 => self.auth.client.forget_identity(),
                CloseReason::Denied(errno) => self.events.push_back(MonEvent::Denied(errno)),
                CloseReason::Fault | CloseReason::Refused | CloseReason::Misbehaved => {}
            },
        }
        self.pause(now);
    }

    /// Waits a while before the next attempt, longer each time.
    fn pause(&mut self, now: Instant) {
        // A jitter of up to a half keeps a herd of clients from coming back at once.
        let jitter = self.rng.below(u64::try_from(self.backoff.as_nanos() / 2).unwrap_or(u64::MAX).max(1));
        self.state = State::Waiting { until: now + self.backoff + Duration::from_nanos(jitter) };
        self.backoff = (self.backoff * 3 / 2).min(BACKOFF_MAX);
    }

    /// Closes the session or the attempt at one; tells whether a session stood.
    fn close_session(&mut self) -> bool {
        let (conn, stood) = match self.state {
            State::Ready { conn, .. } => (conn, true),
            State::Opening { conn, .. } => (conn, false),
            State::Wanted { .. } | State::Waiting { .. } => return false,
        };
        self.net.push_back(NetCommand::Close { conn });
        self.abandoned.push_back(conn);
        if self.abandoned.len() > ABANDONED_MAX {
            self.abandoned.pop_front();
        }
        stood
    }

    /// Asks for tickets and secrets that are due.
    fn speak(&mut self, now: Instant) {
        if let State::Ready { .. } = self.state
            && let Some(question) = self.auth.question(now)
        {
            self.send(Envelope::new(question));
        }
    }

    fn send_command(&mut self, tid: u64) {
        // Without the cluster's id the monitor would refuse it; the first monitor map brings it.
        let (State::Ready { conn, .. }, Some(fsid)) = (self.state, self.config.fsid) else { return };
        let Some((command, input)) = self.commands.get(&tid).cloned() else { return };
        let message = messages::MonCommand { fsid, command, input, paxos: messages::PaxosHead::default() };
        self.net.push_back(NetCommand::Send { conn, envelope: Envelope::with_tid(tid, message) });
    }

    fn send_version_query(&mut self, handle: u64) {
        let State::Ready { conn, .. } = self.state else { return };
        let Some(what) = self.versions.get(&handle).cloned() else { return };
        let message = messages::MonGetVersion { handle, what };
        self.net.push_back(NetCommand::Send { conn, envelope: Envelope::with_tid(handle, message) });
    }

    fn message(&mut self, now: Instant, envelope: &Envelope) {
        match &envelope.message {
            Message::AuthReply(reply) => match self.auth.answer(now, reply) {
                Answer::Nothing => {}
                Answer::Rotating => self.events.push_back(MonEvent::Rotating),
                Answer::NeedsHandshake => self.reconnect(now),
            },
            Message::MonMap(map) => self.mon_map(now, &map.map),
            Message::Config(config) => self.events.push_back(MonEvent::Config(config.clone())),
            Message::OsdMap(map) => self.events.push_back(MonEvent::OsdMap(map.clone())),
            Message::MgrMap(map) => self.events.push_back(MonEvent::MgrMap(map.clone())),
            // Subscriptions hold as long as the session: nothing has to be renewed.
            Message::MonSubscribeAck(_) => {}
            Message::MonGetVersionReply(reply) => {
                if self.versions.remove(&reply.handle).is_some() {
                    self.events.push_back(MonEvent::Version {
                        handle: reply.handle,
                        newest: reply.version,
                        oldest: reply.oldest_version,
                    });
                }
            }
            Message::MonCommandAck(reply) => {
                if self.commands.remove(&envelope.tid).is_some() {
                    self.events.push_back(MonEvent::CommandReply { tid: envelope.tid, reply: reply.clone() });
                }
            }
            _ => self.events.push_back(MonEvent::Message(envelope.clone())),
        }
    }

    /// Learns the cluster's id and the monitors' addresses. A monitor of another cluster is left.
    fn mon_map(&mut self, now: Instant, map: &Bytes) {
        let Ok((fsid, epoch)) = map_head(map) else { return };
        match self.config.fsid {
            Some(ours) if ours != fsid => {
                self.close_session();
                self.events.push_back(MonEvent::Lost);
                self.pause(now);
                return;
            }
            Some(_) => {}
            None => {
                self.config.fsid = Some(fsid);
                for tid in self.commands.keys().copied().collect::<Vec<_>>() {
                    self.send_command(tid);
                }
            }
        }
        self.subscriptions.got("monmap", u64::from(epoch));
        self.events.push_back(MonEvent::MonMap(map.clone()));
    }
}

/// The cluster's id and the epoch, with which every monitor map begins (v16.2 `MonMap::encode`).
fn map_head(map: &Bytes) -> Result<(Uuid, u32), Malformed> {
    Decoder::shared(map).versioned("MonMap", 9, |d, _| Ok((Uuid::decode(d)?, d.u32()?)))
}
