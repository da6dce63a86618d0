//! What fuzzers throw at `wire`: one function per target, from bytes to "nothing bad happened".
//!
//! `cargo +nightly fuzz run TARGET` drives these with libFuzzer; `crates/wire/tests/fuzz.rs` includes this file and
//! drives the same functions with a seeded mutator, on any compiler and in every test run.
#![forbid(unsafe_code)]

use base::rng::SecretRng;
use base::{Errno, Instant};
use bytes::{Bytes, BytesMut};
use wire::auth::{
    AUTH_NONE, AuthClient, AuthRequest, AuthServer, Authenticated, ClientDone, ClientExchange, ConMode, Secrets,
    ServerExchange, ServerStep,
};
use wire::messages::{Message, Payload};
use wire::msgr::crypto::{Side, aes_gcm};
use wire::msgr::frame::{FrameReader, FrameWriter};
use wire::msgr::{Messenger, MessengerConfig, SendQueue, StreamCommand, StreamId};
use wire::net::{ConnId, NetCommand, NetEvent, Policy, TicketCaps};
use wire::types::{AddrVec, EntityAddr, EntityName, EntityType};

const NOW: Instant = Instant::from_secs(1_700_000_000);
const SECRET: [u8; 64] = [0x5A; 64];

/// Frames from arbitrary bytes. The first byte chooses: secure or crc mode, whether messages are taken, whether the
/// checksums of preambles are put right first (so that the lengths behind them are reached), and the size of pieces.
pub fn frame_parser(input: &[u8]) {
    let Some((&options, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    let mut reader = FrameReader::default();
    if options & 1 != 0 {
        reader.allow_messages();
    }
    if options & 2 != 0 {
        repair(&mut bytes);
    }
    if options & 4 != 0 {
        reader.secure(aes_gcm(&SECRET, Side::Accepting).expect("long enough").rx);
        if options & 2 != 0 {
            bytes = seal(&bytes);
        }
    }
    let step = [1, 7, 64, usize::MAX][usize::from(options >> 6)];
    let mut buf = BytesMut::new();
    for piece in bytes.chunks(step) {
        buf.extend_from_slice(piece);
        loop {
            match reader.next(&mut buf) {
                Ok(Some(frame)) => rewrite(&frame),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(reader.want(buf.len()) < 256 << 20, "a bounded promise");
    }
}

/// A frame that was taken can be written, and then is taken as the same.
fn rewrite(frame: &wire::msgr::frame::Frame) {
    let Ok(header) = frame.header() else { return };
    if frame.tag != wire::msgr::tag::Tag::Message {
        return;
    }
    let mut out = SendQueue::default();
    let segments = [frame.segment(1), frame.segment(2), frame.segment(3)];
    FrameWriter::default().message(&mut out, &header, &segments[0], &segments[1], (&segments[2]).into());
    let mut buf: BytesMut = out.take().iter().flat_map(|piece| piece.to_vec()).collect();
    let mut reader = FrameReader::default();
    reader.allow_messages();
    let again = reader.next(&mut buf).expect("our own frame").expect("a whole frame");
    assert_eq!(again.header(), Ok(header));
    assert_eq!([again.segment(1), again.segment(2), again.segment(3)], segments);
}

/// Puts the checksum of what looks like a preamble at the front right, and those of its segments.
fn repair(bytes: &mut [u8]) {
    if bytes.len() < 32 {
        return;
    }
    bytes[0] = bytes[0] % 21 + 1;
    bytes[1] %= 5;
    bytes[26] = 0;
    let crc = base::checksum::crc32c(0, &bytes[..28]);
    bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    let len = u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]) as usize;
    if len > 0 && bytes.len() - 32 >= len.saturating_add(4) {
        let crc = base::checksum::crc32c(u32::MAX, &bytes[32..32 + len]);
        bytes[32 + len..36 + len].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The bytes as blocks of secure mode: the first 80 as a preamble's, the rest as one.
fn seal(bytes: &[u8]) -> Vec<u8> {
    let mut tx = aes_gcm(&SECRET, Side::Connecting).expect("long enough").tx;
    let mut out = Vec::new();
    let (head, rest) = bytes.split_at(bytes.len().min(80));
    for block in [head, rest] {
        let start = out.len();
        out.extend_from_slice(block);
        let seal = tx.seal(&mut out[start..]);
        out.extend_from_slice(&seal);
    }
    out
}

/// A message from arbitrary sections: type, version, compat and the lengths of front and middle, then the sections.
pub fn message_decoder(input: &[u8]) {
    let Some((head, body)) = input.split_first_chunk::<10>() else { return };
    let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let mut body = Bytes::copy_from_slice(body);
    let front = body.split_to(usize::from(u16_at(6)).min(body.len()));
    let middle = body.split_to(usize::from(u16_at(8)).min(body.len()));
    let (kind, version, compat) = (u16_at(0), u16_at(2), u16_at(4));
    let Ok(message) =
        Message::decode(Payload { kind, version, compat, front, middle, data: body, ..Payload::default() })
    else {
        return;
    };
    // What we made of it can be written and read again.
    let written = message.clone().into_payload();
    Message::decode(written).expect("what we write we can read");
}

/// A peer that follows its own script. The first byte chooses the side we are on; then come records of a tag, a u16
/// length and a payload, each sent as a frame with right checksums; tag 0 stands for raw bytes, tag 255 for time.
pub fn handshake(input: &[u8]) {
    let Some((&options, mut script)) = input.split_first() else { return };
    let here = EntityAddr::msgr2("127.0.0.1:6800".parse().expect("a literal"), 7);
    let mut config = MessengerConfig::new(EntityName { kind: EntityType::OSD, num: 1 }, AddrVec::one(here));
    config.lossless_from = vec![EntityType::OSD];
    config.replace_lossy = options & 8 != 0;
    let mut messenger = Messenger::new(config, SecretRng::from_entropy([3; 32]));
    let mode = if options & 2 != 0 { ConMode::Secure } else { ConMode::Crc };
    let mut auth = Everybody { mode };
    let stream = first_stream(&mut messenger, options);
    let mut buf = BytesMut::new();
    let mut now = NOW;
    let (mut said, mut heard) = (0, 0);
    if options & 4 == 0 {
        let mut banner = *b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        banner[10] = 1;
        feed(&mut messenger, now, stream, &mut buf, &banner, &mut auth);
    }
    while let Some((&[tag, low, high], rest)) = script.split_first_chunk::<3>() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (payload, rest) = rest.split_at(len);
        script = rest;
        match tag {
            0 => feed(&mut messenger, now, stream, &mut buf, payload, &mut auth),
            255 => {
                now = now + base::Duration::from_secs(len as u64);
                messenger.handle_timer(now);
            }
            _ => feed(&mut messenger, now, stream, &mut buf, &crc_frame(tag, payload), &mut auth),
        }
        heard += payload.len() + 64;
        while messenger.poll_dirty().is_some() {
            said += messenger.take_outgoing(stream).iter().map(Bytes::len).sum::<usize>();
        }
        while let Some(event) = messenger.poll_event() {
            if let NetEvent::Message { conn, envelope } = event {
                messenger.command(now, NetCommand::Send { conn, envelope });
            }
        }
        while messenger.poll_stream_command().is_some() {}
        messenger.check_invariants();
    }
    assert!(said <= 4096 + 16 * heard, "we said {said} bytes to {heard}");
}

/// The stream that the script plays on: one that we accepted, or one that we connect.
fn first_stream(messenger: &mut Messenger, options: u8) -> StreamId {
    let peer = "127.0.0.1:6801".parse().expect("a literal");
    if options & 1 == 0 {
        return messenger.accepted(NOW, peer);
    }
    let policy = if options & 16 != 0 { Policy::Lossy } else { Policy::Lossless };
    let to = AddrVec::one(EntityAddr::msgr2(peer, 9));
    messenger.command(NOW, NetCommand::Open { conn: ConnId(1), to, kind: EntityType::OSD, policy });
    match messenger.poll_stream_command() {
        Some(StreamCommand::Connect { stream, to }) => {
            messenger.connected(NOW, stream, to);
            stream
        }
        other => panic!("opening a session connects a stream, not {other:?}"),
    }
}

fn feed(
    messenger: &mut Messenger,
    now: Instant,
    stream: StreamId,
    buf: &mut BytesMut,
    bytes: &[u8],
    auth: &mut Everybody,
) {
    buf.extend_from_slice(bytes);
    messenger.received(now, stream, buf, auth);
}

/// A frame of one segment in crc mode, whatever its tag. A message's payload is its header and then its front.
fn crc_frame(tag: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 32];
    let (first, front) = if tag == 17 { payload.split_at(payload.len().min(41)) } else { (payload, &[][..]) };
    out[0] = tag;
    out[1] = 1 + u8::from(!front.is_empty());
    out[2..6].copy_from_slice(&(first.len() as u32).to_le_bytes());
    out[8..12].copy_from_slice(&(front.len() as u32).to_le_bytes());
    let crc = base::checksum::crc32c(0, &out[..28]);
    out[28..].copy_from_slice(&crc.to_le_bytes());
    if !first.is_empty() {
        out.extend_from_slice(first);
        out.extend_from_slice(&base::checksum::crc32c(u32::MAX, first).to_le_bytes());
    }
    if !front.is_empty() {
        out.extend_from_slice(front);
        out.push(0x0E);
        out.extend_from_slice(&base::checksum::crc32c(u32::MAX, front).to_le_bytes());
        out.extend_from_slice(&[0; 8]);
    }
    out
}

/// Authentication that lets everybody in, unsigned.
#[derive(Debug)]
struct Everybody {
    mode: ConMode,
}

impl Everybody {
    fn secrets(&self) -> Secrets {
        Secrets { session_key: Bytes::new(), connection_secret: Bytes::from_static(&SECRET) }
    }
}

impl AuthServer for Everybody {
    fn step(&mut self, _: Instant, _: EntityType, _: &mut ServerExchange, payload: &Bytes) -> ServerStep {
        match payload.first() {
            Some(b'?') => ServerStep::More(payload.clone()),
            Some(b'!') => ServerStep::Refused(Errno::EACCES),
            _ => ServerStep::Done(Box::new(Authenticated {
                entity: String::from_utf8_lossy(payload).into_owned(),
                global_id: 5,
                caps: TicketCaps::default(),
                con_mode: self.mode,
                payload: Bytes::new(),
                secrets: self.secrets(),
            })),
        }
    }

    fn methods(&self) -> Vec<u32> {
        vec![AUTH_NONE]
    }

    fn modes(&self, _: EntityType) -> Vec<ConMode> {
        vec![self.mode]
    }
}

impl AuthClient for Everybody {
    fn request(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange) -> Result<AuthRequest, Errno> {
        Ok(AuthRequest { method: AUTH_NONE, preferred_modes: vec![1, 2], payload: Bytes::from_static(b"osd.1") })
    }

    fn more(&mut self, _: Instant, _: EntityType, _: &mut ClientExchange, payload: &Bytes) -> Result<Bytes, Errno> {
        Ok(payload.clone())
    }

    fn done(
        &mut self,
        _: Instant,
        _: EntityType,
        _: &mut ClientExchange,
        global_id: u64,
        _: ConMode,
        _: &Bytes,
    ) -> Result<ClientDone, Errno> {
        Ok(ClientDone { global_id, secrets: self.secrets() })
    }
}
