//! Every captured message of a real Ceph 16.2.15 cluster decodes and is written again byte for byte.
//!
//! A file under `golden/messages` is a msgr2 message header (41 bytes), three u32 lengths, and the three sections.
//! A type that the table does not list fails the test unless it is listed here with a reason. The same messages with
//! bytes changed, cut off or added must not panic, and what is accepted must mean the same when written again.

use base::Rng;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::Path;
use wire::messages::{Message, Payload, WatchNotify};
use wire::osd::payload::{NotifyAck, NotifyReply, NotifyRequest, WatcherList};
use wire::{Decode, Encode};

/// Types that are decoded as `Unknown`, and why.
const UNKNOWN: &[(core::ops::RangeInclusive<u16>, &str)] = &[
    (70..=70, "heartbeats between OSDs; Loligo's OSDs speak their own protocol among themselves"),
    (80..=86, "peering between OSDs"),
    (92..=95, "scrub and backfill between OSDs"),
    (99..=115, "recovery and replication between OSDs"),
    (117..=119, "scrub and recovery between OSDs"),
    (130..=134, "peering between OSDs"),
    (150..=150, "recovery between OSDs"),
    (0x703..=0x703, "the manager's beacon; the monitor does the manager's duties itself"),
    (0x705..=0x706, "between monitor and manager"),
];

fn load(path: &Path) -> Payload {
    let bytes = Bytes::from(std::fs::read(path).expect("a readable fixture"));
    let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let len_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let (front, middle, data) = (len_at(41), len_at(45), len_at(49));
    assert_eq!(bytes.len(), 53 + front + middle + data, "{}", path.display());
    Payload {
        kind: u16_at(16),
        version: u16_at(20),
        compat: u16_at(37),
        front: bytes.slice(53..53 + front),
        middle: bytes.slice(53 + front..53 + front + middle),
        data: bytes.slice(53 + front + middle..),
        ..Payload::default()
    }
}

fn fixtures() -> Vec<(String, Payload)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages");
    let mut paths: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "bin"))
        .collect();
    paths.sort();
    assert!(paths.len() > 100, "only {} fixtures in {}", paths.len(), dir.display());
    let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), load(path))).collect()
}

#[test]
fn captured_messages_decode_and_encode_to_the_same_bytes() {
    let mut failures = Vec::new();
    let mut counts = BTreeMap::<&str, usize>::new();
    for (name, payload) in fixtures() {
        let known = !UNKNOWN.iter().any(|(kinds, _)| kinds.contains(&payload.kind));
        match Message::decode(payload.clone()) {
            Err(e) => failures.push(format!("{name}: {e}")),
            Ok(Message::Unknown(_)) if known => failures.push(format!("{name}: not in the table")),
            Ok(message) => {
                *counts.entry(message.name()).or_default() += 1;
                let shown = format!("{message:?}");
                let again = message.into_payload();
                if again != payload {
                    failures.push(format!("{name}: differs\n  was {payload:?}\n  now {again:?}\n  as {shown:.1500}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures of {counts:?}:\n{}", failures.len(), failures.join("\n"));
}

/// A fixture with a few of its bytes changed, its end cut off, or a length made absurd.
fn mutate(payload: &Payload, rng: &mut Rng) -> Payload {
    let mut front = payload.front.to_vec();
    for _ in 0..=rng.below(3) {
        if front.is_empty() {
            break;
        }
        let at = rng.below(front.len() as u64) as usize;
        match rng.below(5) {
            0 => front[at] = rng.u64() as u8,
            1 => front[at] ^= 1 << rng.below(8),
            2 => front.truncate(at),
            3 => front.insert(at, rng.u64() as u8),
            _ => front[at..].iter_mut().take(4).for_each(|byte| *byte = 0xFF),
        }
    }
    let data_len = rng.below(payload.data.len() as u64 + 1) as usize;
    let data = if rng.chance(1, 4) { payload.data.slice(..data_len) } else { payload.data.clone() };
    Payload {
        front: front.into(),
        data,
        version: payload.version.wrapping_add(rng.chance(1, 20).into()),
        ..payload.clone()
    }
}

#[test]
fn damaged_messages_are_refused_or_mean_what_they_say() {
    let mut rng = Rng::new(16_215);
    let (mut refused, mut accepted) = (0, 0);
    for (name, payload) in fixtures() {
        for _ in 0..300 {
            let Ok(message) = Message::decode(mutate(&payload, &mut rng)) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            if matches!(message, Message::Unknown(_)) {
                continue;
            }
            // Compared as bytes, so that a NaN equals itself.
            let written = message.into_payload();
            let again = Message::decode(written.clone()).unwrap_or_else(|e| panic!("{name}: {e}: {written:?}"));
            assert_eq!(again.into_payload(), written, "{name}");
        }
    }
    assert!(refused > 1000 && accepted > 1000, "the damage is not of both kinds: {refused} refused, {accepted} not");
}

/// What watches' messages carry inside is Ceph's to the byte as well.
#[test]
fn captured_notifications_and_lists_of_watchers_are_understood() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages");
    let payload = |name: &str| load(&dir.join(name));
    let list = payload("0043_MOSDOpReply_64.bin").data;
    let watchers = WatcherList::from_bytes(&list).expect("a list");
    assert_eq!(watchers.to_bytes(), list);
    let [one] = &watchers.watchers[..] else { panic!("one watcher: {watchers:?}") };
    assert_eq!((one.name.num, one.cookie, one.timeout_s), (0x119f, 0x17bc_e2c0, 30));
    let Ok(Message::WatchNotify(end)) = Message::decode(payload("0044_MWatchNotify_02.bin")) else { panic!("an end") };
    let WatchNotify { replies, version, notify_id, notifier, result: 0, .. } = *end else { panic!("in time") };
    assert_eq!((version, notify_id, notifier), (26, 28 << 32, 4311));
    let reply = NotifyReply::from_bytes(&replies).expect("a reply");
    let answers = vec![((4311, 0x3a08_b780), Bytes::from_static(b"ackdata"))];
    assert_eq!(reply, NotifyReply { answers, missed: vec![] });
    assert_eq!(reply.to_bytes(), replies);
    let asked = payload("0042_MOSDOp_27.bin").data;
    let request = NotifyRequest::from_bytes(&asked).expect("a request");
    assert_eq!((request.timeout_s, &request.payload[..]), (5, &b"msg"[..]));
    assert_eq!(request.to_bytes(), asked);
    let acked = payload("0042_MOSDOp_31.bin").data;
    let ack = NotifyAck::from_bytes(&acked).expect("an answer");
    assert_eq!((ack.notify_id, ack.cookie, &ack.payload[..]), (94 << 32, 0x17bc_e2c0, &b"ackdata"[..]));
    assert_eq!(ack.to_bytes(), acked);
}
