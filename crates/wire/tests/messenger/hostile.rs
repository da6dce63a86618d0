//! Peers that do not follow the protocol lose their own stream and harm nobody else.

use crate::world::{World, numbered};
use base::{Duration, Rng};
use wire::msgr::frame::FrameWriter;
use wire::msgr::{SendQueue, StreamError, banner, control, limits};
use wire::net::Policy;
use wire::types::EntityType;

/// A world with an OSD and an honest client that keeps talking to it.
fn besieged() -> (World, usize) {
    let mut world = World::new(1);
    let (osd, client) = (world.osd(1), world.client(7));
    world.nodes[osd].echoes = true;
    world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_millis(100));
    (world, osd)
}

fn still_serves(mut world: World, osd: usize) {
    let (client, conn) = (1, wire::net::ConnId(1));
    world.send(client, conn, numbered(77, 4096));
    world.run(Duration::from_secs(1));
    assert_eq!(world.messages(client, conn), [77]);
    assert!(world.nodes[osd].seen.closed.is_empty());
}

fn bytes(queue: &mut SendQueue) -> Vec<u8> {
    queue.take().iter().flat_map(|piece| piece.to_vec()).collect()
}

fn frame<C: control::Control>(payload: &C) -> Vec<u8> {
    let mut queue = SendQueue::default();
    FrameWriter::default().control(&mut queue, payload);
    bytes(&mut queue)
}

fn hello() -> control::Hello {
    control::Hello { kind: EntityType::CLIENT, peer_addr: Default::default() }
}

#[test]
fn garbage_old_clients_and_half_frames_are_shown_out() {
    let (mut world, osd) = besieged();
    let cases: Vec<(Vec<u8>, StreamError)> = vec![
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), StreamError::NotMsgr2),
        (b"ceph v027\0\0\0\0\0\0\0\0".to_vec(), StreamError::PeerSpeaksMsgr1),
        ([&banner::ours()[..], &[0; 64]].concat(), wire::msgr::frame::FrameError::UnknownTag(0).into()),
        (banner::ours().to_vec(), StreamError::HandshakeTimeout),
        ([&banner::ours()[..], &frame(&hello())[..20]].concat(), StreamError::HandshakeTimeout),
    ];
    for (shot, expected) in cases {
        let pipe = world.attack(osd);
        world.shoot(pipe, &shot);
        world.run(Duration::from_secs(11));
        assert_eq!(world.nodes[osd].seen.stream_errors.pop(), Some(expected), "{shot:?}");
        assert_eq!(world.loot(pipe), None);
    }
    still_serves(world, osd);
}

#[test]
fn frames_out_of_turn_end_the_stream() {
    let request = control::AuthRequest { method: 1, preferred_modes: vec![1], payload: b"client.x"[..].into() };
    let ident = control::Ack { seq: 1 };
    for shots in [
        vec![frame(&ident)],
        vec![frame(&hello()), frame(&hello())],
        vec![frame(&hello()), frame(&control::AuthReplyMore { payload: b"x"[..].into() })],
        vec![frame(&hello()), frame(&request), frame(&ident)],
        vec![
            frame(&hello()),
            frame(&request),
            frame(&control::AuthSignature { signature: control::Signature([1; 32]) }),
        ],
    ] {
        let (mut world, osd) = besieged();
        let pipe = world.attack(osd);
        world.shoot(pipe, &banner::ours());
        for shot in shots {
            world.shoot(pipe, &shot);
        }
        world.run(Duration::from_secs(1));
        let why = world.nodes[osd].seen.stream_errors.pop();
        assert!(matches!(why, Some(StreamError::OutOfTurn(_) | StreamError::BadSignature)), "{why:?}");
        still_serves(world, osd);
    }
}

#[test]
fn endless_authentication_ends() {
    let (mut world, osd) = besieged();
    world.nodes[osd].auth.refuse = Some(base::Errno::EACCES);
    let pipe = world.attack(osd);
    world.shoot(pipe, &[&banner::ours()[..], &frame(&hello())].concat());
    let request = frame(&control::AuthRequest { method: 1, preferred_modes: vec![1], payload: vec![7; 60_000].into() });
    for _ in 0..30 {
        world.shoot(pipe, &request);
        world.run(Duration::from_millis(10));
    }
    assert_eq!(world.nodes[osd].seen.stream_errors, [StreamError::EndlessHandshake]);
    world.nodes[osd].auth.refuse = None;
    still_serves(world, osd);
}

#[test]
fn a_crowd_of_half_open_handshakes_pushes_out_its_own_oldest() {
    let (mut world, osd) = besieged();
    for _ in 0..limits::HANDSHAKES_MAX + 10 {
        world.nodes[osd].messenger.accepted(world.now, "127.0.0.9:9".parse().unwrap());
    }
    let pipe = world.attack(osd);
    assert_eq!(world.nodes[osd].seen.stream_errors, vec![StreamError::Crowded; 11]);
    world.run(Duration::from_millis(10));
    assert!(world.loot(pipe).is_some_and(|bytes| bytes.starts_with(b"ceph v2\n")));
    still_serves(world, osd);
}

#[test]
fn random_damage_to_a_handshake_never_opens_a_session() {
    let shots = [
        banner::ours().to_vec(),
        frame(&hello()),
        frame(&control::AuthRequest { method: 1, preferred_modes: vec![1], payload: b"client.x"[..].into() }),
    ]
    .concat();
    let mut rng = Rng::new(5);
    let (mut world, osd) = besieged();
    for _ in 0..300 {
        let mut damaged = shots.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.u64() as u8;
        }
        let pipe = world.attack(osd);
        world.shoot(pipe, &damaged);
        world.run(Duration::from_millis(1));
    }
    world.run(Duration::from_secs(12));
    assert_eq!(world.nodes[osd].seen.opened.len(), 1, "the honest client's only");
    still_serves(world, osd);
}
