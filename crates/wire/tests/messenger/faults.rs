//! Sessions under cuts, delays, damage and restarts.

use crate::world::{Weather, World, numbered};
use base::Duration;
use wire::auth::ConMode;
use wire::msgr::StreamError;
use wire::net::{CloseReason, ConnId, NetCommand, Policy};

fn all(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// Sends numbered messages one way and their echoes the other through bad weather, then lets it clear up.
fn storm(seed: u64, mode: ConMode, weather: Weather) -> (World, ConnId) {
    const COUNT: u64 = 120;
    let mut world = World::new(seed);
    let (a, b) = (world.osd(1), world.osd(2));
    for node in &mut world.nodes {
        node.auth.modes = vec![mode];
    }
    world.nodes[b].echoes = true;
    world.weather = weather;
    let conn = world.open(a, b, Policy::Lossless);
    for number in 0..COUNT {
        let size = if world.rng.chance(1, 8) { 20_000 } else { 100 };
        world.send(a, conn, numbered(number, size));
        let pause = Duration::from_micros(world.rng.below(20_000));
        world.run(pause);
    }
    world.weather = Weather::CALM;
    world.run(Duration::from_secs(60));
    assert_eq!(world.all_messages(b), all(COUNT), "seed {seed}: what went there");
    assert_eq!(world.messages(a, conn), all(COUNT), "seed {seed}: what came back");
    for node in &world.nodes {
        assert!(node.seen.resets.is_empty() && node.seen.closed.is_empty(), "seed {seed}: {:?}", node.seen);
        assert_eq!(node.seen.opened.len(), 1, "seed {seed}");
    }
    (world, conn)
}

#[test]
fn lossless_sessions_deliver_exactly_once_through_cuts() {
    for seed in 0..16 {
        let mode = if seed % 2 == 0 { ConMode::Crc } else { ConMode::Secure };
        storm(seed, mode, Weather { delay_us: 3000, cut_in: 40, damage_in: 0, fragment: 2000 });
    }
}

#[test]
fn lossless_sessions_deliver_exactly_once_through_damage() {
    for seed in 100..112 {
        let mode = if seed % 2 == 0 { ConMode::Crc } else { ConMode::Secure };
        let (world, _) = storm(seed, mode, Weather { delay_us: 1000, cut_in: 0, damage_in: 60, fragment: 3000 });
        assert!(world.nodes.iter().any(|node| !node.seen.stream_errors.is_empty()), "seed {seed}: nothing was hurt");
    }
}

#[test]
fn handshakes_that_are_cut_anywhere_are_repeated() {
    for seed in 200..224 {
        storm(seed, ConMode::Crc, Weather { delay_us: 500, cut_in: 12, damage_in: 0, fragment: 100_000 });
    }
}

#[test]
fn a_lossy_session_ends_at_the_first_fault() {
    let mut world = World::new(9);
    let (osd, client) = (world.osd(1), world.client(7));
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_millis(100));
    world.cut_all();
    world.run(Duration::from_millis(100));
    world.send(client, conn, numbered(1, 10));
    world.run(Duration::from_secs(60));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Fault)]);
    assert_eq!(world.nodes[osd].seen.closed.len(), 1);
    assert!(world.all_messages(osd).is_empty());
    assert!(world.nodes.iter().all(|node| node.messenger.next_wakeup().is_none()), "nothing is left");
}

#[test]
fn a_restarted_peer_means_reset_and_the_session_goes_on() {
    let mut world = World::new(10);
    let (a, b) = (world.osd(1), world.osd(2));
    let conn = world.open(a, b, Policy::Lossless);
    world.send(a, conn, numbered(0, 10));
    world.run(Duration::from_secs(1));
    world.restart(b);
    world.run(Duration::from_secs(10));
    assert_eq!(world.nodes[a].seen.resets, [conn]);
    world.send(a, conn, numbered(1, 10));
    world.run(Duration::from_secs(1));
    assert_eq!(world.all_messages(b), [1]);
    assert!(world.nodes[a].seen.closed.is_empty());
}

#[test]
fn a_session_that_is_opened_again_resets_the_other_side() {
    let mut world = World::new(11);
    let (a, b) = (world.osd(1), world.osd(2));
    let first = world.open(a, b, Policy::Lossless);
    world.run(Duration::from_secs(1));
    world.command(a, NetCommand::Close { conn: first });
    let second = world.open(a, b, Policy::Lossless);
    world.send(a, second, numbered(5, 10));
    world.run(Duration::from_secs(5));
    assert_eq!(world.nodes[b].seen.resets.len(), 1);
    assert_eq!(world.all_messages(b), [5]);
    assert!(world.nodes[a].seen.closed.is_empty());
}

#[test]
fn an_accepted_lossless_session_waits_and_is_forgotten_in_the_end() {
    let mut world = World::new(12);
    let (a, b) = (world.osd(1), world.osd(2));
    let conn = world.open(a, b, Policy::Lossless);
    world.run(Duration::from_secs(1));
    world.command(a, NetCommand::Close { conn });
    world.run(Duration::from_secs(800));
    assert!(world.nodes[b].seen.closed.is_empty());
    world.run(Duration::from_secs(200));
    assert_eq!(world.nodes[b].seen.closed.len(), 1);
    assert!(world.nodes[b].messenger.next_wakeup().is_none());
}

#[test]
fn keepalives_find_a_dead_peer_and_keep_a_living_one() {
    let mut world = World::new(13);
    let (osd, client) = (world.osd(1), world.client(7));
    let conn = world.open(client, osd, Policy::Lossy);
    world.run(Duration::from_secs(3600));
    assert!(world.nodes[client].seen.closed.is_empty(), "an idle session lives on keepalives");
    // The osd's machine stops: nothing reaches it, nothing comes from it, no pipe breaks.
    world.nodes[osd].reads = false;
    world.run(Duration::from_secs(29));
    assert!(world.nodes[client].seen.closed.is_empty());
    world.run(Duration::from_secs(12));
    assert_eq!(world.nodes[client].seen.closed, [(conn, CloseReason::Fault)]);
}

#[test]
fn a_client_that_does_not_read_loses_its_session_only() {
    let mut world = World::new(14);
    let (osd, deaf, fine) = (world.osd(1), world.client(7), world.client(8));
    world.nodes[osd].echoes = true;
    // This one never complains.
    world.nodes[deaf].config.timing.silence_max = Duration::from_secs(100_000);
    world.restart(deaf);
    let conns = [world.open(deaf, osd, Policy::Lossy), world.open(fine, osd, Policy::Lossy)];
    world.run(Duration::from_secs(1));
    world.nodes[deaf].reads = false;
    for number in 0..50 {
        world.send(deaf, conns[0], numbered(number, 1000));
        world.send(fine, conns[1], numbered(number, 1000));
        world.run(Duration::from_secs(3));
    }
    assert_eq!(world.nodes[osd].seen.closed.len(), 1);
    assert_eq!(world.nodes[osd].seen.stream_errors, [StreamError::NotReading]);
    assert_eq!(world.messages(fine, conns[1]), all(50));
}

#[test]
fn a_backlog_has_a_bound() {
    let mut world = World::new(15);
    let (a, b) = (world.osd(1), world.osd(2));
    world.nodes[b].socket = None;
    world.nodes[a].config.backlog_bytes_max = 100_000;
    world.restart(a);
    let conn = world.open(a, b, Policy::Lossless);
    for number in 0..9 {
        world.send(a, conn, numbered(number, 10_000));
    }
    world.run(Duration::from_secs(1));
    assert!(world.nodes[a].seen.closed.is_empty());
    world.send(a, conn, numbered(9, 20_000));
    assert_eq!(world.nodes[a].seen.closed, [(conn, CloseReason::Fault)]);
}

#[test]
fn back_off_grows_and_ends() {
    let mut world = World::new(16);
    let (a, b) = (world.osd(1), world.osd(2));
    let socket = world.nodes[b].socket.take();
    let conn = world.open(a, b, Policy::Lossless);
    world.send(a, conn, numbered(0, 10));
    world.run(Duration::from_secs(60));
    assert!(world.nodes[a].seen.closed.is_empty());
    world.nodes[b].socket = socket;
    world.run(Duration::from_secs(6));
    assert_eq!(world.all_messages(b), [0]);
}
