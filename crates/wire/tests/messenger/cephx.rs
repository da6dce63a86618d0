//! The messenger with real keys: a monitor, an OSD and clients who hold the right key, the wrong one, or a recording.

use crate::world::{World, addr, numbered};
use base::rng::SecretRng;
use base::{Duration, Errno, Instant};
use bytes::Bytes;
use wire::auth::{
    AUTH_CEPHX, AuthClient, AuthRequest, AuthServer, ClientDone, ClientExchange, ConMode, ServerExchange, ServerStep,
};
use wire::cephx::{
    AuthName, CephxClient, ClientModes, CryptoKey, EntityAuth, KeyServer, KeyServerConfig, MonAuth, ServerModes,
    ServiceVerifier,
};
use wire::msgr::{Door, MessengerConfig, StreamError, StreamId};
use wire::net::{CloseReason, ConnId, NetCommand, Policy};
use wire::types::{AddrVec, EntityName, EntityType};

/// A client's tickets; nobody connects to it.
struct Holder(CephxClient);

impl AuthServer for Holder {
    fn step(&mut self, _: Instant, _: EntityType, _: &mut ServerExchange, _: &Bytes) -> ServerStep {
        ServerStep::Refused(Errno::EOPNOTSUPP)
    }

    fn methods(&self) -> Vec<u32> {
        Vec::new()
    }

    fn modes(&self, _: EntityType) -> Vec<ConMode> {
        Vec::new()
    }
}

impl AuthClient for Holder {
    fn request(&mut self, now: Instant, kind: EntityType, at: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        self.0.request(now, kind, at)
    }

    fn more(&mut self, now: Instant, kind: EntityType, at: &mut ClientExchange, p: &Bytes) -> Result<Bytes, Errno> {
        self.0.more(now, kind, at, p)
    }

    fn done(
        &mut self,
        now: Instant,
        kind: EntityType,
        at: &mut ClientExchange,
        global_id: u64,
        mode: ConMode,
        payload: &Bytes,
    ) -> Result<ClientDone, Errno> {
        self.0.done(now, kind, at, global_id, mode, payload)
    }
}

/// An OSD's rotating secrets; it connects to nobody.
struct Verifier(ServiceVerifier, SecretRng);

impl AuthServer for Verifier {
    fn step(&mut self, _: Instant, kind: EntityType, exchange: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        self.0.step(&mut self.1, kind, exchange, payload)
    }

    fn methods(&self) -> Vec<u32> {
        vec![AUTH_CEPHX]
    }

    fn modes(&self, peer_kind: EntityType) -> Vec<ConMode> {
        self.0.modes(peer_kind).to_vec()
    }
}

impl AuthClient for Verifier {
    fn request(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        Err(Errno::EACCES)
    }

    fn more(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange, _: &Bytes) -> Result<Bytes, Errno> {
        Err(Errno::EACCES)
    }

    fn done(
        &mut self,
        _: Instant,
        _: EntityType,
        _: &mut ClientExchange,
        _: u64,
        _: ConMode,
        _: &Bytes,
    ) -> Result<ClientDone, Errno> {
        Err(Errno::EACCES)
    }
}

fn rng(n: u8) -> SecretRng {
    SecretRng::from_entropy([n; 32])
}

fn holder(key: CryptoKey, mode: ConMode, n: u8) -> Box<Holder> {
    let name = AuthName::parse("client.admin").expect("a name");
    let modes = ClientModes { monitor: vec![mode], service: vec![mode] };
    Box::new(Holder(CephxClient::new(name, Some(key), u32::from(EntityType::OSD.0 | EntityType::MGR.0), modes, rng(n))))
}

/// As what the monitor is called at its second address.
const AT_THE_DOOR: EntityName = EntityName { kind: EntityType::MGR, num: 77 };

/// A monitor (node 0), an OSD (node 1) and a client with a key (node 2) that has a session with each.
fn cluster(mode: ConMode) -> (World, CryptoKey) {
    let mut world = World::new(1);
    let key = CryptoKey::generate(world.now, &mut rng(1));
    let mut keys = KeyServer::new(KeyServerConfig::default());
    let mut client = EntityAuth { key: key.clone(), ..EntityAuth::default() };
    client.caps.insert("mon".to_owned(), "allow r".to_owned());
    client.caps.insert("osd".to_owned(), "allow rw".to_owned());
    client.caps.insert("mgr".to_owned(), "allow r".to_owned());
    keys.set(AuthName::parse("client.admin").expect("a name"), client);
    let mut mon_auth = MonAuth::new(keys, vec![ConMode::Crc, ConMode::Secure], rng(2));
    mon_auth.rotate(world.now);
    let mut verifier = ServiceVerifier::new(EntityType::OSD, ServerModes::default());
    verifier.set_secrets(mon_auth.keys.rotating(EntityType::OSD).expect("rotated just now").clone());

    let mut config = MessengerConfig::new(EntityName::mon(0), AddrVec::one(addr(50, 0)));
    config.doors = vec![Door { me: AT_THE_DOOR, addrs: AddrVec::one(addr(60, 5)) }];
    let mon = world.node(config, "mon.");
    world.nodes[mon].keys = Some(Box::new(mon_auth));
    let osd = world.osd(1);
    world.nodes[osd].keys = Some(Box::new(Verifier(verifier, rng(3))));
    let client = world.client(7);
    world.nodes[client].keys = Some(holder(key.clone(), mode, 4));
    (world, key)
}

#[test]
fn tickets_open_sessions_in_both_modes() {
    for mode in [ConMode::Crc, ConMode::Secure] {
        let (mut world, _) = cluster(mode);
        let to_mon = world.open(2, 0, Policy::Lossy);
        world.run(Duration::from_secs(1));
        let to_osd = world.open(2, 1, Policy::Lossy);
        world.nodes[1].echoes = true;
        for number in 0..50 {
            world.send(2, to_mon, numbered(number, 10));
            world.send(2, to_osd, numbered(number, 4096));
        }
        world.run(Duration::from_secs(1));
        let faults: Vec<_> = world.nodes.iter().map(|node| (&node.seen.closed, &node.seen.stream_errors)).collect();
        assert_eq!(world.messages(2, to_osd), (0..50).collect::<Vec<_>>(), "{mode:?}: {faults:?}");
        assert_eq!(world.all_messages(0), (0..50).collect::<Vec<_>>(), "{mode:?}");
        let (_, at_mon) = &world.nodes[0].seen.opened[0];
        let (_, at_osd) = &world.nodes[1].seen.opened[0];
        assert_eq!((&at_osd.entity[..], at_osd.global_id), ("client.admin", at_mon.global_id));
        assert_eq!(at_osd.name, EntityName { kind: EntityType::CLIENT, num: at_mon.global_id as i64 });
        assert!(at_osd.caps.caps.ends_with(b"allow rw"));
    }
}

/// The monitor answers to another name at another address, to those who have a ticket for that service, and its
/// ordinary sessions with the same client go on beside.
#[test]
fn a_door_has_its_own_name_and_wants_its_own_ticket() {
    let at_the_door =
        |conn, kind| NetCommand::Open { conn, to: AddrVec::one(addr(60, 5)), kind, policy: Policy::Lossy };
    let (mut world, _) = cluster(ConMode::Secure);
    let to_mon = world.open(2, 0, Policy::Lossy);
    world.run(Duration::from_secs(1));
    world.command(2, at_the_door(ConnId(50), EntityType::MGR));
    world.nodes[0].echoes = true;
    for number in 0..5 {
        world.send(2, ConnId(50), numbered(number, 10));
        world.send(2, to_mon, numbered(100 + number, 10));
    }
    world.run(Duration::from_secs(1));
    assert_eq!(world.messages(2, ConnId(50)), (0..5).collect::<Vec<_>>());
    assert_eq!(world.messages(2, to_mon), (100..105).collect::<Vec<_>>());
    let (_, manager) = &world.nodes[2].seen.opened[1];
    assert_eq!((manager.name, &manager.addrs.0[..]), (AT_THE_DOOR, &[addr(60, 5)][..]));
    let [(_, own), (_, aside)] = &world.nodes[0].seen.opened[..] else { panic!("two sessions") };
    assert_eq!((own.called, aside.called), (None, Some(EntityType::MGR)));
    assert!(aside.caps.caps.ends_with(b"allow r") && aside.global_id == own.global_id);
    // Neither is a monitor there, nor is anybody let in without a ticket.
    world.command(2, at_the_door(ConnId(51), EntityType::MON));
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[2].seen.closed, [(ConnId(51), CloseReason::Misbehaved)]);
    let key = CryptoKey::generate(world.now, &mut rng(9));
    world.nodes[2].keys = Some(holder(key, ConMode::Secure, 5));
    world.command(2, at_the_door(ConnId(52), EntityType::MGR));
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[2].seen.closed[1], (ConnId(52), CloseReason::Denied(Errno::EACCES)));
    assert_eq!(world.nodes[0].seen.opened.len(), 2);
}

#[test]
fn a_wrong_key_and_no_ticket_are_denied() {
    let (mut world, _) = cluster(ConMode::Secure);
    let other = CryptoKey::generate(world.now, &mut rng(9));
    world.nodes[2].keys = Some(holder(other, ConMode::Secure, 5));
    let to_mon = world.open(2, 0, Policy::Lossy);
    let to_osd = world.open(2, 1, Policy::Lossy);
    world.run(Duration::from_secs(1));
    let mut closed = world.nodes[2].seen.closed.clone();
    closed.sort_by_key(|(conn, _)| *conn);
    let denied = CloseReason::Denied(Errno::EACCES);
    assert_eq!(closed, [(to_mon, denied), (to_osd, denied)]);
    assert!(world.nodes[0].seen.opened.is_empty() && world.nodes[1].seen.opened.is_empty());
}

#[test]
fn a_recorded_session_opens_nothing_when_it_is_played_again() {
    for mode in [ConMode::Crc, ConMode::Secure] {
        let (mut world, _) = cluster(mode);
        world.open(2, 0, Policy::Lossy);
        world.run(Duration::from_secs(1));
        let conn = world.open(2, 1, Policy::Lossy);
        world.send(2, conn, numbered(1, 100));
        world.run(Duration::from_secs(1));
        assert_eq!(world.all_messages(1), [1]);
        let tapes = [world.tapes[&(2, StreamId(1))].clone(), world.tapes[&(2, StreamId(2))].clone()];
        for (node, tape) in tapes.iter().enumerate() {
            let opened = world.nodes[node].seen.opened.len();
            let pipe = world.attack(node);
            world.shoot(pipe, tape);
            world.run(Duration::from_secs(1));
            assert_eq!(world.nodes[node].seen.opened.len(), opened, "{mode:?}");
            let why = world.nodes[node].seen.stream_errors.pop();
            assert!(matches!(why, Some(StreamError::OutOfTurn(_) | StreamError::Frame(_))), "{mode:?}: {why:?}");
        }
        assert_eq!(world.all_messages(1), [1]);
        assert_eq!(conn, ConnId(2));
    }
}
