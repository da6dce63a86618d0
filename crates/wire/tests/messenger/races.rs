//! Two peers that connect to each other.

use crate::world::{Weather, World, numbered};
use base::Duration;
use wire::net::{ConnId, NetCommand, Policy};

/// Both open a session to the other within the same millisecond, in any weather; both engines use their own name.
fn race(seed: u64, weather: Weather) {
    const COUNT: u64 = 40;
    let mut world = World::new(seed);
    let nodes = [world.osd(1), world.osd(2)];
    world.weather = weather;
    let mut conns = [ConnId(0); 2];
    let first = world.rng.below(2) as usize;
    for i in [first, 1 - first] {
        conns[i] = world.open(nodes[i], nodes[1 - i], Policy::Lossless);
        world.send(nodes[i], conns[i], numbered(0, 10));
        let pause = Duration::from_micros(world.rng.below(2000));
        world.run(pause);
    }
    for number in 1..COUNT {
        for i in 0..2 {
            world.send(nodes[i], conns[i], numbered(number, 500));
            let pause = Duration::from_micros(world.rng.below(30_000));
            world.run(pause);
        }
    }
    world.weather = Weather::CALM;
    world.run(Duration::from_secs(60));
    for i in 0..2 {
        let seen = &world.nodes[nodes[i]].seen;
        // Messages that came before our own name was opened carried the accepted session's.
        let mut got: Vec<u64> = world.all_messages(nodes[i]);
        let own = world.messages(nodes[i], conns[i]).len();
        got.rotate_left(own);
        assert_eq!(got, (0..COUNT).collect::<Vec<_>>(), "seed {seed}, node {i}: {seen:?}");
        assert!(seen.resets.is_empty() && seen.closed.is_empty(), "seed {seed}, node {i}: {seen:?}");
        assert_eq!(seen.opened.iter().filter(|(conn, _)| *conn == conns[i]).count(), 1, "seed {seed}, node {i}");
    }
    assert_eq!(world.pipes(), 1, "seed {seed}: one stream is left");
}

#[test]
fn one_session_comes_of_two_and_nothing_is_lost() {
    for seed in 0..24 {
        race(seed, Weather { delay_us: 2000, cut_in: 0, damage_in: 0, fragment: 1000 });
    }
}

#[test]
fn races_survive_cuts() {
    for seed in 1000..1040 {
        race(seed, Weather { delay_us: 3000, cut_in: 25, damage_in: 0, fragment: 5000 });
    }
}

#[test]
fn opening_towards_a_peer_that_has_opened_joins_its_session() {
    let mut world = World::new(1);
    let (a, b) = (world.osd(1), world.osd(2));
    let there = world.open(a, b, Policy::Lossless);
    world.run(Duration::from_secs(1));
    let accepted = ConnId(ConnId::ACCEPTED | 1);
    let back = world.open(b, a, Policy::Lossless);
    assert_eq!(world.nodes[b].seen.opened.iter().map(|(conn, _)| *conn).collect::<Vec<_>>(), [accepted, back]);
    world.send(b, back, numbered(1, 10));
    world.send(b, accepted, numbered(2, 10));
    world.send(a, there, numbered(3, 10));
    world.run(Duration::from_secs(1));
    assert_eq!(world.messages(a, there), [1, 2]);
    assert_eq!(world.messages(b, back), [3]);
    assert_eq!(world.pipes(), 1);
    world.command(b, NetCommand::Close { conn: back });
    world.run(Duration::from_secs(1));
    assert_eq!(world.nodes[b].seen.closed.iter().map(|(conn, _)| *conn).collect::<Vec<_>>(), [accepted]);
}

#[test]
fn whoever_opened_comes_back_even_if_the_other_side_gives_up() {
    let mut world = World::new(2);
    let (a, b) = (world.osd(1), world.osd(2));
    let there = world.open(a, b, Policy::Lossless);
    world.run(Duration::from_secs(1));
    let back = world.open(b, a, Policy::Lossless);
    world.command(a, NetCommand::Close { conn: there });
    world.run(Duration::from_secs(10));
    assert_eq!(world.nodes[b].seen.resets, [back]);
    world.send(b, back, numbered(7, 10));
    world.run(Duration::from_secs(1));
    assert_eq!(world.all_messages(a), [7]);
}
