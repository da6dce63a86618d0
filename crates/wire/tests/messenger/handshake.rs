//! What both sides know of each other after a handshake, and how handshakes fail.

use crate::world::{World, addr, numbered};
use base::{Duration, Errno};
use wire::auth::ConMode;
use wire::msgr::StreamError;
use wire::net::{CloseReason, ConnId, Policy};
use wire::types::{AddrKind, EntityName, EntityType};

const FIRST_ACCEPTED: ConnId = ConnId(ConnId::ACCEPTED | 1);

#[test]
fn a_client_and_an_osd_meet_in_every_mode() {
    for (modes, signed, rounds) in [
        (vec![ConMode::Crc], true, 0),
        (vec![ConMode::Crc], false, 3),
        (vec![ConMode::Secure], true, 1),
        (vec![ConMode::Secure, ConMode::Crc], false, 0),
    ] {
        let mut world = World::new(1);
        let (osd, client) = (world.osd(1), world.client(7));
        for node in &mut world.nodes {
            (node.auth.modes, node.auth.signed, node.auth.rounds) = (modes.clone(), signed, rounds);
        }
        let conn = world.open(client, osd, Policy::Lossy);
        for number in 0..20 {
            world.send(client, conn, numbered(number, 5000 * number as usize));
        }
        world.nodes[osd].echoes = true;
        world.run(Duration::from_secs(1));

        let (opened, peer) = &world.nodes[client].seen.opened[0];
        assert_eq!((*opened, peer.name), (conn, EntityName { kind: EntityType::OSD, num: 1 }));
        assert_eq!(peer.addrs.0, [addr(1, 101)]);
        let (opened, peer) = &world.nodes[osd].seen.opened[0];
        assert_eq!((*opened, &peer.entity[..]), (FIRST_ACCEPTED, "client.admin"));
        assert!(peer.caps.allow_all);
        assert_eq!(peer.name.num as u64, peer.global_id);
        assert_eq!(peer.addrs.0[0].socket, Some("127.0.0.1:0".parse().unwrap()));
        assert_eq!(peer.addrs.0[0].kind, AddrKind::Msgr2);
        assert_eq!(peer.socket.map(|socket| socket.ip()), Some([127, 0, 0, 1].into()));
        assert_eq!(world.messages(osd, FIRST_ACCEPTED), (0..20).collect::<Vec<_>>());
        assert_eq!(world.messages(client, conn), (0..20).collect::<Vec<_>>());
    }
}

#[test]
fn nobody_listening_is_refused() {
    let mut world = World::new(2);
    let (osd, client) = (world.osd(1), world.client(7));
    world.nodes[osd].socket = None;
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Refused)]);
}

#[test]
fn refused_authentication_names_its_errno_and_opens_nothing() {
    let mut world = World::new(3);
    let (osd, client) = (world.osd(1), world.client(7));
    world.nodes[osd].auth.refuse = Some(Errno::EACCES);
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Denied(Errno::EACCES))]);
    assert!(world.nodes[osd].seen.opened.is_empty());
}

#[test]
fn a_mode_that_the_server_does_not_offer_is_refused() {
    let mut world = World::new(4);
    let (osd, client) = (world.osd(1), world.client(7));
    world.nodes[client].auth.modes = vec![ConMode::Secure];
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Denied(Errno::EOPNOTSUPP))]);
}

#[test]
fn a_wrong_signature_ends_it_on_both_sides() {
    let mut world = World::new(5);
    let (osd, client) = (world.osd(1), world.client(7));
    world.nodes[osd].auth.wrong_key = true;
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[client].seen.closed.len(), 1);
    assert_eq!(world.nodes[client].seen.closed[0].0, conn);
    assert!(world.nodes[client].seen.opened.is_empty() && world.nodes[osd].seen.opened.is_empty());
    let errors = world.nodes.iter().flat_map(|node| &node.seen.stream_errors);
    assert!(errors.clone().all(|why| *why == StreamError::BadSignature) && errors.count() >= 1);
}

#[test]
fn a_daemon_of_another_kind_or_life_is_not_the_one_we_look_for() {
    let mut world = World::new(6);
    let (osd, client) = (world.osd(1), world.client(7));
    // Another kind than expected.
    world.nodes[osd].config.me.kind = EntityType::MON;
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Misbehaved)]);
    assert_eq!(world.nodes[client].seen.stream_errors, [StreamError::WrongDaemon]);
    // Another nonce: the daemon restarted since the map was made.
    world.nodes[osd].config.me.kind = EntityType::OSD;
    world.nodes[osd].config.addrs.0[0].nonce = 999;
    let addrs = world.nodes[osd].messenger.addrs().clone();
    world.restart(osd);
    let to = wire::net::NetCommand::Open { conn: ConnId(50), to: addrs, kind: EntityType::OSD, policy: Policy::Lossy };
    world.command(client, to);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[osd].seen.stream_errors, [StreamError::WrongAddress]);
    assert_eq!(world.nodes[client].seen.closed[1].0, ConnId(50));
}

#[test]
fn an_osd_must_prove_to_be_that_osd() {
    let mut world = World::new(7);
    let (a, b) = (world.osd(1), world.osd(2));
    world.nodes[a].auth.entity = "osd.5".to_owned();
    world.open(a, b, Policy::Lossy);
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[b].seen.stream_errors, [StreamError::Impostor]);
    assert!(world.nodes[b].seen.opened.is_empty());
}

#[test]
fn a_silent_peer_times_out() {
    let mut world = World::new(8);
    let (osd, client) = (world.osd(1), world.client(7));
    world.nodes[client].reads = false;
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(9));
    assert!(world.nodes[client].seen.closed.is_empty());
    world.run(Duration::from_secs(2));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Fault)]);
    assert_eq!(world.pipes(), 0);
}
