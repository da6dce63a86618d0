//! The monitor client against a monitor's real judgement (`MonAuth`), in virtual time.

use super::*;
use base::rng::SecretRng;
use base::{Duration, Errno, Instant};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::auth::{Auth, AuthClient, AuthServer, ClientExchange, ConMode, ServerExchange, ServerStep};
use wire::cephx::{AuthName, CryptoKey, EntityAuth, KeyServer, KeyServerConfig, MonAuth};
use wire::messages::{self, Message};
use wire::net::{CloseReason, ConnId, ConnIds, Envelope, NetCommand, NetEvent, Peer, Policy, TicketCaps};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType, Uuid};

const T0: Instant = Instant::from_secs(1_800_000_000);
const SECOND: Duration = Duration::from_secs(1);
const FSID: Uuid = Uuid([7; 16]);

fn name(text: &str) -> AuthName {
    AuthName::parse(text).expect("a literal name")
}

fn rng(seed: u8) -> SecretRng {
    SecretRng::from_entropy([seed; 32])
}

fn addr(port: u16) -> AddrVec {
    AddrVec::one(EntityAddr::msgr2(([127, 0, 0, 1], port).into(), 0))
}

/// A monitor behind a network without delay, and what it heard.
struct World {
    now: Instant,
    mon: MonAuth,
    conns: ConnIds,
    /// Addresses where nobody listens.
    down: bool,
    /// Sessions without a handshake, as inside one process.
    embedded: bool,
    /// Answers to `MAuth` are withheld.
    mute: bool,
    session: Option<ConnId>,
    opened: Vec<AddrVec>,
    heard: Vec<Message>,
    events: Vec<MonEvent>,
}

impl World {
    fn new() -> (World, CryptoKey) {
        let mut rng = rng(1);
        let key = CryptoKey::generate(T0, &mut rng);
        let mut keys = KeyServer::new(KeyServerConfig::default());
        let caps: BTreeMap<_, _> = ["mon", "osd"].map(|s| (s.to_owned(), "allow *".to_owned())).into();
        for who in ["client.admin", "osd.0"] {
            keys.set(name(who), EntityAuth { key: key.clone(), caps: caps.clone() });
        }
        let mut mon = MonAuth::new(keys, vec![ConMode::Secure, ConMode::Crc], rng);
        mon.rotate(T0);
        let world = World {
            now: T0,
            mon,
            conns: ConnIds::default(),
            down: false,
            embedded: false,
            mute: false,
            session: None,
            opened: vec![],
            heard: vec![],
            events: vec![],
        };
        (world, key)
    }

    fn client(&self, who: &str, key: Option<&CryptoKey>) -> MonClient {
        let mut config = MonClientConfig::new(name(who), key.cloned(), vec![addr(1), addr(2), addr(3)]);
        config.hostname = "here".into();
        MonClient::new(self.now, config, rng(2))
    }

    /// Carries out commands until there are none.
    fn settle(&mut self, client: &mut MonClient) {
        while let Some(command) = client.poll_command(&mut self.conns) {
            match command {
                NetCommand::Open { conn, to, kind, policy } => {
                    assert_eq!((kind, policy), (EntityType::MON, Policy::Lossy));
                    self.opened.push(to);
                    let event = self.open(client, conn);
                    self.feed(client, event);
                }
                NetCommand::Send { conn, envelope } => {
                    assert_eq!(Some(conn), self.session);
                    self.heard.push(envelope.message.clone());
                    if let Message::Auth(auth) = &envelope.message
                        && !self.mute
                    {
                        let reply = self.answer(client, auth);
                        self.say(client, Envelope::new(reply));
                    }
                }
                NetCommand::Close { conn } => {
                    assert_eq!(Some(conn), self.session);
                    self.session = None;
                }
            }
            client.check_invariants();
        }
        while let Some(event) = client.poll_event() {
            self.events.push(event);
        }
    }

    fn open(&mut self, client: &mut MonClient, conn: ConnId) -> NetEvent {
        if self.down {
            return NetEvent::Closed { conn, why: CloseReason::Refused };
        }
        if !self.embedded
            && let Err(errno) = shake(self.now, client.auth(), &mut self.mon, EntityType::MON)
        {
            return NetEvent::Closed { conn, why: CloseReason::Denied(errno) };
        }
        self.session = Some(conn);
        let peer = Peer {
            name: EntityName::mon(0),
            entity: "mon.".into(),
            called: None,
            addrs: AddrVec::default(),
            socket: None,
            global_id: 0,
            features: u64::MAX,
            caps: TicketCaps::default(),
        };
        NetEvent::Opened { conn, peer: Arc::new(peer) }
    }

    fn answer(&mut self, client: &MonClient, auth: &messages::Auth) -> messages::AuthReply {
        let global_id = client.global_id();
        let answer = self.mon.message(self.now, client.entity(), global_id, &auth.payload);
        let (result, payload) = answer.map_or_else(|errno| (errno.code(), Bytes::new()), |payload| (0, payload));
        messages::AuthReply { protocol: 2, result, global_id, payload, ..messages::AuthReply::default() }
    }

    fn feed(&mut self, client: &mut MonClient, event: NetEvent) {
        assert_eq!(client.handle_net(self.now, &event), Handled::Yes);
    }

    fn say(&mut self, client: &mut MonClient, envelope: Envelope) {
        let conn = self.session.expect("a session stands");
        self.feed(client, NetEvent::Message { conn, envelope });
    }

    fn lose(&mut self, client: &mut MonClient) {
        let conn = self.session.take().expect("a session stands");
        self.feed(client, NetEvent::Closed { conn, why: CloseReason::Fault });
        self.settle(client);
    }

    /// Lets time pass, waking the client and the monitor when they want it.
    fn run(&mut self, client: &mut MonClient, until: Instant) {
        self.settle(client);
        let mut steps = 0;
        while let Some(at) = client.next_wakeup().into_iter().chain(self.mon.keys.next_rotation()).min()
            && at <= until
        {
            self.now = self.now.max(at);
            if self.mon.keys.next_rotation().is_some_and(|at| at <= self.now) {
                self.mon.rotate(self.now);
            }
            client.handle_timer(self.now);
            self.settle(client);
            steps += 1;
            assert!(steps < 100_000, "the client wakes without getting anywhere at {:?}", self.now);
        }
        self.now = until;
    }

    fn took(&mut self) -> (Vec<Message>, Vec<MonEvent>) {
        (core::mem::take(&mut self.heard), core::mem::take(&mut self.events))
    }
}

/// A handshake as the messenger runs it.
fn shake(
    now: Instant,
    client: &mut dyn AuthClient,
    server: &mut dyn AuthServer,
    kind: EntityType,
) -> Result<u64, Errno> {
    let mut ours = ClientExchange::default();
    let request = client.request(now, kind, &mut ours)?;
    let mut theirs = ServerExchange {
        method: request.method,
        preferred_modes: request.preferred_modes,
        ..ServerExchange::default()
    };
    let mut payload = request.payload;
    loop {
        match server.step(now, EntityType::CLIENT, &mut theirs, &payload) {
            ServerStep::More(more) => payload = client.more(now, kind, &mut ours, &more)?,
            ServerStep::Refused(errno) => return Err(errno),
            ServerStep::Done(d) => {
                return client
                    .done(now, kind, &mut ours, d.global_id, d.con_mode, &d.payload)
                    .map(|done| done.global_id);
            }
        }
    }
}

fn mon_map(epoch: u32, fsid: Uuid) -> Envelope {
    let mut e = wire::Encoder::new();
    e.versioned(9, 6, |e| {
        e.put(&fsid);
        e.u32(epoch);
    });
    Envelope::new(messages::MonMap { map: e.finish() })
}

fn subscribed(messages: &[Message]) -> Vec<(String, u64)> {
    let subscriptions = messages.iter().filter_map(|m| match m {
        Message::MonSubscribe(s) => Some(s),
        _ => None,
    });
    subscriptions.flat_map(|s| s.what.iter().map(|(what, s)| (what.clone(), s.start))).collect()
}

#[test]
fn a_session_opens_and_says_what_waited() {
    let (mut world, key) = World::new();
    let mut client = world.client("client.admin", Some(&key));
    client.subscribe("osdmap", 5, false);
    client.send(Envelope::new(messages::MonGetMap::default()));
    world.settle(&mut client);
    let (heard, events) = world.took();
    let expected = [("config", 0), ("monmap", 0), ("osdmap", 5)].map(|(w, s)| (w.to_owned(), s));
    assert_eq!(subscribed(&heard), expected);
    assert!(matches!(heard[1], Message::MonGetMap(_)) && heard.len() == 2, "{heard:?}");
    assert_eq!(events, [MonEvent::Ready]);
    assert_eq!(client.global_id(), 4096);
    assert!(client.can_verify(), "a client verifies nobody");
}

#[test]
fn a_new_session_asks_from_where_the_last_one_ended() {
    let (mut world, key) = World::new();
    let mut client = world.client("client.admin", Some(&key));
    client.subscribe("osdmap", 0, false);
    client.subscribe("mgrmap", 0, true);
    world.settle(&mut client);
    client.got("osdmap", 17);
    client.got("mgrmap", 3);
    world.say(&mut client, mon_map(4, FSID));
    world.settle(&mut client);
    world.took();
    world.lose(&mut client);
    world.run(&mut client, T0 + SECOND);
    let (heard, events) = world.took();
    let expected = [("config", 0), ("monmap", 5), ("osdmap", 18)].map(|(w, s)| (w.to_owned(), s));
    assert_eq!(subscribed(&heard), expected);
    assert_eq!(events, [MonEvent::Lost, MonEvent::Ready]);
    assert_eq!(client.global_id(), 4096, "it showed its ticket and kept its number");
}

#[test]
fn asking_again_asks_again_and_only_for_that() {
    let (mut world, key) = World::new();
    let mut client = world.client("client.admin", Some(&key));
    client.subscribe("osdmap", 5, false);
    world.settle(&mut client);
    world.took();
    client.subscribe("osdmap", 5, false);
    world.settle(&mut client);
    assert_eq!(subscribed(&world.took().0), [("osdmap".to_owned(), 5)]);
    client.unsubscribe("osdmap");
    world.settle(&mut client);
    assert_eq!(world.took().0, []);
}

#[test]
fn commands_and_queries_are_repeated_until_answered() {
    let (mut world, key) = World::new();
    let mut client = world.client("client.admin", Some(&key));
    let tid = client.command(vec!["{\"prefix\":\"status\"}".into()], Bytes::new());
    let handle = client.get_version("osdmap");
    world.settle(&mut client);
    let sent = |heard: &[Message]| heard.iter().filter(|m| matches!(m, Message::MonCommand(_))).count();
    assert_eq!(sent(&world.took().0), 0, "the cluster's id is not known yet");
    world.say(&mut client, mon_map(1, FSID));
    world.settle(&mut client);
    let (heard, _) = world.took();
    assert!(heard.iter().any(|m| matches!(m, Message::MonCommand(c) if c.fsid == FSID)));
    world.lose(&mut client);
    world.run(&mut client, T0 + SECOND);
    let (heard, _) = world.took();
    assert_eq!(sent(&heard), 1);
    assert_eq!(heard.iter().filter(|m| matches!(m, Message::MonGetVersion(_))).count(), 1);
    let ack = messages::MonCommandAck { result: -22, ..messages::MonCommandAck::default() };
    for _ in 0..2 {
        world.say(&mut client, Envelope::with_tid(tid, ack.clone()));
        let version = messages::MonGetVersionReply { handle, version: 9, oldest_version: 2 };
        world.say(&mut client, Envelope::with_tid(handle, version));
    }
    world.settle(&mut client);
    let (_, events) = world.took();
    let reply = MonEvent::CommandReply { tid, reply: Box::new(ack) };
    assert_eq!(events, [reply, MonEvent::Version { handle, newest: 9, oldest: 2 }], "each answer once");
}

#[test]
fn the_search_goes_round_with_growing_pauses_and_ends() {
    let (mut world, key) = World::new();
    world.down = true;
    let mut client = world.client("client.admin", Some(&key));
    world.run(&mut client, T0 + SECOND * 600);
    let tries = world.opened.len();
    assert!((20..60).contains(&tries), "{tries} attempts in ten minutes");
    assert!(world.opened.windows(2).all(|pair| pair[0] != pair[1]), "another monitor each time");
    world.down = false;
    world.run(&mut client, T0 + SECOND * 650);
    assert_eq!(world.took().1, [MonEvent::Ready]);
}

#[test]
fn a_monitor_that_does_not_answer_is_left() {
    let (mut world, key) = World::new();
    let mut client = world.client("client.admin", Some(&key));
    let Some(NetCommand::Open { conn, .. }) = client.poll_command(&mut world.conns) else { panic!("no attempt") };
    world.session = Some(conn);
    world.run(&mut client, T0 + SECOND * 10);
    assert_eq!(world.took().1, [MonEvent::Ready]);
    // What the first one says too late is swallowed.
    let late = NetEvent::Closed { conn, why: CloseReason::Fault };
    assert_eq!(client.handle_net(world.now, &late), Handled::Yes);
    assert!(client.session().is_some());
    let other = NetEvent::Closed { conn: ConnId(99), why: CloseReason::Fault };
    assert_eq!(client.handle_net(world.now, &other), Handled::No);
}

#[test]
fn a_wrong_key_is_reported_and_tried_again() {
    let (mut world, _) = World::new();
    let wrong = CryptoKey::aes(T0, [3; 16]);
    for (key, errno) in [(Some(&wrong), Errno::EACCES), (None, Errno::ENOENT)] {
        let mut client = world.client("client.admin", key);
        world.run(&mut client, T0 + SECOND);
        let (_, events) = world.took();
        assert!(events.len() > 1 && events.iter().all(|e| *e == MonEvent::Denied(errno)), "{events:?}");
        world.now = T0;
    }
}

#[test]
fn a_number_that_is_lost_for_good_is_given_up() {
    let (mut world, key) = World::new();
    let mut client = world.client("client.admin", Some(&key));
    world.settle(&mut client);
    assert_eq!(client.global_id(), 4096);
    // The monitor starts anew from nothing but the keys: our ticket is worth nothing to it.
    let mut fresh = MonAuth::new(KeyServer::new(KeyServerConfig::default()), vec![ConMode::Crc], rng(78));
    for (who, auth) in world.mon.keys.entities() {
        fresh.keys.set(who.clone(), auth.clone());
    }
    fresh.rotate(T0);
    fresh.keys.assign_global_id();
    world.mon = fresh;
    world.lose(&mut client);
    world.run(&mut client, T0 + SECOND * 5);
    assert_eq!(world.took().1, [MonEvent::Ready, MonEvent::Lost, MonEvent::Ready]);
    assert_eq!(client.global_id(), 4097);
}

#[test]
fn a_daemon_gets_rotating_secrets_with_and_without_a_handshake() {
    for embedded in [false, true] {
        let (mut world, key) = World::new();
        let mut client = world.client("client.admin", Some(&key));
        world.settle(&mut client);
        world.took();
        world.embedded = embedded;
        let mut osd = world.client("osd.0", Some(&key));
        assert!(!osd.can_verify());
        assert_eq!(shake(T0, client.auth(), osd.auth(), EntityType::OSD), Err(Errno::EACCES));
        world.settle(&mut osd);
        assert_eq!(world.took().1, [MonEvent::Ready, MonEvent::Rotating]);
        assert!(osd.can_verify());
        assert_eq!(shake(T0, client.auth(), osd.auth(), EntityType::OSD), Ok(client.global_id()));
        assert_eq!(osd.global_id() == 0, embedded);
    }
}

#[test]
fn tickets_and_secrets_are_renewed_for_a_week_of_one_session() {
    let (mut world, key) = World::new();
    let mut osd = world.client("osd.0", Some(&key));
    world.settle(&mut osd);
    let mut client = world.client("client.admin", Some(&key));
    let mut other_session = None;
    for hour in 1..24 * 7_u64 {
        world.run(&mut osd, T0 + SECOND * 3600 * hour as u32);
        // The client shares the monitor, over its own session.
        core::mem::swap(&mut world.session, &mut other_session);
        client.handle_timer(world.now);
        world.settle(&mut client);
        client.handle_timer(world.now);
        world.settle(&mut client);
        core::mem::swap(&mut world.session, &mut other_session);
        assert!(shake(world.now, client.auth(), osd.auth(), EntityType::OSD).is_ok(), "hour {hour}");
    }
    let (heard, events) = world.took();
    assert!(!events.contains(&MonEvent::Lost));
    let rotations = events.iter().filter(|e| **e == MonEvent::Rotating).count();
    assert!((160..180).contains(&rotations), "{rotations}");
    let asked = heard.iter().filter(|m| matches!(m, Message::Auth(_))).count();
    assert!(asked < 700, "{asked} questions in a week");
}

#[test]
fn a_monitor_that_leaves_a_question_open_is_left() {
    let (mut world, key) = World::new();
    world.mute = true;
    let mut osd = world.client("osd.0", Some(&key));
    world.run(&mut osd, T0 + SECOND * 29);
    assert_eq!(world.took().1, [MonEvent::Ready]);
    world.mute = false;
    world.run(&mut osd, T0 + SECOND * 31);
    assert_eq!(world.took().1, [MonEvent::Lost, MonEvent::Ready, MonEvent::Rotating]);
}

#[test]
fn a_monitor_of_another_cluster_is_left() {
    let (mut world, key) = World::new();
    let mut config = MonClientConfig::new(name("client.admin"), Some(key), vec![addr(1)]);
    config.fsid = Some(Uuid([8; 16]));
    let mut client = MonClient::new(T0, config, rng(3));
    world.settle(&mut client);
    world.say(&mut client, mon_map(1, FSID));
    world.settle(&mut client);
    assert_eq!(world.took().1, [MonEvent::Ready, MonEvent::Lost]);
    assert_eq!(client.session(), None);
    assert!(client.next_wakeup().is_some());
    client.shutdown();
    assert_eq!(client.next_wakeup(), None);
}

#[test]
fn what_waits_is_bounded() {
    let (mut world, key) = World::new();
    world.down = true;
    let mut client = world.client("client.admin", Some(&key));
    for _ in 0..limits::OUTBOX_MAX + 10 {
        client.send(Envelope::new(messages::MonGetMap::default()));
    }
    for _ in 0..limits::PENDING_MAX + 1 {
        client.command(vec![], Bytes::new());
    }
    client.check_invariants();
    assert!(matches!(client.poll_event(), Some(MonEvent::CommandDropped { .. })));
}

#[test]
fn both_sides_of_auth_serve_one_messenger() {
    let (world, key) = World::new();
    let mut osd = world.client("osd.0", Some(&key));
    let auth: &mut dyn Auth = osd.auth();
    assert_eq!((auth.methods(), auth.modes(EntityType::CLIENT)), (vec![2], vec![ConMode::Crc, ConMode::Secure]));
}
