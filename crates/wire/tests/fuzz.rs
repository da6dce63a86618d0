//! The fuzz targets of `fuzz/`, driven by a seeded mutator in every test run.
//!
//! By default each target gets some thousand inputs from a fixed seed, which takes seconds. `LOLIGO_FUZZ_SECONDS=300`
//! runs each for that long from new seeds; a failure prints the input as hex. Inputs start from captured frames and
//! messages, so that mutations go deep. For coverage-guided runs: `cargo +nightly fuzz run TARGET` (see `fuzz/`).
#![allow(clippy::disallowed_methods)] // LOLIGO_FUZZ_SECONDS is measured by the clock.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "public in the crate that this file belongs to")]
mod targets;

use base::Rng;
use bytes::Bytes;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::msgr::control::*;
use wire::msgr::header::MessageHeader;
use wire::types::{AddrVec, EntityAddr, EntityType, UTime};

/// How many inputs each target gets by default.
const ROUNDS: u64 = 20_000;

fn golden(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

/// Numbers at which lengths and counts go wrong.
const EDGES: [u32; 10] = [0, 1, 15, 16, 47, 48, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF];

fn mutate(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[rng.below(seeds.len() as u64) as usize].clone();
    for _ in 0..rng.below(6) {
        let at = rng.below(input.len() as u64 + 1) as usize;
        match rng.below(7) {
            0 if at < input.len() => input[at] ^= 1 << rng.below(8),
            1 if at < input.len() => input[at] = rng.u64() as u8,
            2 => input.truncate(at),
            3 => input.insert(at, rng.u64() as u8),
            4 if at + 4 <= input.len() => {
                let edge = EDGES[rng.below(EDGES.len() as u64) as usize];
                input[at..at + 4].copy_from_slice(&edge.to_le_bytes());
            }
            5 => {
                let other = &seeds[rng.below(seeds.len() as u64) as usize];
                let from = rng.below(other.len() as u64 + 1) as usize;
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                let until = (at + rng.below(64) as usize).min(input.len());
                let copy = input[at..until].to_vec();
                input.splice(at..at, copy);
            }
        }
    }
    input
}

/// Prints the input if the target panics.
struct Witness<'a>(&'a str, &'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.1.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{} failed on this input: {hex}", self.0);
        }
    }
}

fn drive(name: &str, seeds: &[Vec<u8>], target: fn(&[u8])) {
    let seconds: Option<u64> = std::env::var("LOLIGO_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seed = seconds.map_or(1, |_| std::process::id().into());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut rng = Rng::new(seed);
    for seed in seeds {
        let _witness = Witness(name, seed);
        target(seed);
    }
    for round in 0.. {
        if until.map_or(round >= ROUNDS, |until| round % 256 == 0 && Instant::now() >= until) {
            eprintln!("{name}: {round} inputs from seed {seed}");
            return;
        }
        let input = mutate(&mut rng, seeds);
        let _witness = Witness(name, &input);
        target(&input);
    }
}

#[test]
fn frame_parser() {
    let frames: Vec<Vec<u8>> = golden("frames")
        .into_iter()
        .chain(golden("streams/crc").into_iter().map(|stream| stream[26..].to_vec()))
        .collect();
    // Each with several options before it: see the target.
    let options = [0x00u8, 0x03, 0x07, 0x41, 0x83, 0xC7, 0xC1];
    let seeds: Vec<Vec<u8>> =
        frames.iter().flat_map(|frame| options.map(|option| [&[option][..], frame].concat())).collect();
    drive("frame_parser", &seeds, targets::frame_parser);
}

#[test]
fn message_decoder() {
    // Fixtures are a header of 41 bytes, three u32 lengths, and the sections.
    let seeds: Vec<Vec<u8>> = golden("messages")
        .iter()
        .filter(|message| message.len() < 4096)
        .map(|message| {
            let (front, middle) = (&message[41..43], &message[45..47]);
            [&message[16..18], &message[20..22], &message[37..39], front, middle, &message[53..]].concat()
        })
        .collect();
    drive("message_decoder", &seeds, targets::message_decoder);
}

/// A record of a script: a tag, a length, a payload.
fn record(tag: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("a short payload").to_le_bytes();
    [&[tag][..], &len, payload].concat()
}

fn control<C: Control>(payload: C) -> Vec<u8> {
    record(C::TAG as u8, &payload.to_bytes())
}

/// Every frame that decides over a session, as an honest peer of the target would send it.
fn session_frames() -> Vec<Vec<u8>> {
    let addr = |port: u16, nonce| EntityAddr::msgr2(std::net::SocketAddr::from(([127, 0, 0, 1], port)), nonce);
    let addrs = AddrVec::one(addr(6801, 9));
    let (supported_features, required_features) = (u64::MAX, 0);
    let (gid, global_seq, flags, cookie) = (2, 1, 0, 77);
    vec![
        control(ClientIdent {
            addrs: addrs.clone(),
            target_addr: addr(6800, 7),
            gid,
            global_seq,
            supported_features,
            required_features,
            flags,
            cookie,
        }),
        control(ServerIdent {
            addrs: addrs.clone(),
            gid,
            global_seq,
            supported_features,
            required_features,
            flags,
            cookie,
        }),
        control(SessionReconnect {
            addrs,
            client_cookie: 77,
            server_cookie: 78,
            global_seq: 2,
            connect_seq: 1,
            msg_seq: 1,
        }),
        control(IdentMissingFeatures { features: 1 }),
        control(SessionReset { full: true }),
        control(SessionReset { full: false }),
        control(SessionRetry { connect_seq: 5 }),
        control(SessionRetryGlobal { global_seq: 5 }),
        control(SessionReconnectOk { msg_seq: 1 }),
        control(Wait {}),
    ]
}

#[test]
fn handshake() {
    let hello = control(Hello { kind: EntityType::OSD, peer_addr: EntityAddr::default() });
    let accepted = control(AuthRequest { method: 1, preferred_modes: vec![1, 2], payload: b"osd.2"[..].into() });
    let done = |con_mode| control(AuthDone { global_id: 5, con_mode, payload: Bytes::new() });
    let sign = control(AuthSignature { signature: Signature([0; 32]) });
    let messages: Vec<u8> = (1..4u8)
        .flat_map(|seq| {
            let header = MessageHeader { seq: seq.into(), kind: 0x7F77, priority: 127, ..MessageHeader::default() };
            record(17, &[&header.to_wire()[..], &[seq; 30]].concat())
        })
        .collect();
    let tail = [messages, control(Ack { seq: 1 }), control(Keepalive2 { at: UTime::default() }), record(255, &[0; 40])];
    let mut seeds = Vec::new();
    for options in 0..32u8 {
        let opening = if options & 1 == 0 { accepted.clone() } else { done(1) };
        for session in session_frames() {
            seeds.push([&[options][..], &hello, &opening, &sign, &session, &tail.concat()].concat());
        }
    }
    drive("handshake", &seeds, targets::handshake);
}
