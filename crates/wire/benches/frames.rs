//! Nanoseconds per message through the frames: a 4 KiB write request encoded, framed, parsed and decoded.
//!
//! Prints one line each; run with `cargo bench -p wire --bench frames`. Batches of 16 messages share a buffer, as
//! they do on a busy stream. On Linux the figure is CPU time, which a busy machine does not spoil.
#![allow(clippy::disallowed_methods)] // It measures, so it reads the clock.

use base::{Epoch, PgId, PoolId};
use bytes::{Bytes, BytesMut};
use std::hint::black_box;
use std::time::Instant;
use wire::messages::{Message, OsdOp, OsdOpReply, Payload};
use wire::msgr::SendQueue;
use wire::msgr::crypto::{Side, aes_gcm};
use wire::msgr::frame::{FrameReader, FrameWriter, Segment};
use wire::msgr::header::MessageHeader;
use wire::osd::{ObjectLocator, OpCode, OsdOpItem, RequestFlags, SpgId};

const BATCH: u32 = 16;

fn measure(what: &str, batches: u32, mut run: impl FnMut()) {
    for _ in 0..batches / 10 {
        run();
    }
    let (start, cpu) = (Instant::now(), cpu_ns());
    for _ in 0..batches {
        run();
    }
    let spent = match (cpu, cpu_ns()) {
        (Some(before), Some(after)) => after - before,
        _ => start.elapsed().as_nanos() as u64,
    };
    println!("{what:56} {:7.1} ns", spent as f64 / f64::from(batches * BATCH));
}

/// How long this process has run on a processor.
fn cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

fn request(len: usize) -> OsdOp {
    let pgid = SpgId::replicated(PgId::new(PoolId(1), 7));
    let name = Bytes::from_static(b"benchmark_data_host_1234_object567");
    let op = OsdOpItem::extent(OpCode::WRITE, 0, len as u64).with_payload(Bytes::from(vec![7; len]));
    let mut request = OsdOp::new(pgid, 0x1234_5678, ObjectLocator::new(PoolId(1)), name, vec![op]);
    request.flags = RequestFlags::ONDISK | RequestFlags::WRITE;
    request
}

fn put(writer: &mut FrameWriter, out: &mut SendQueue, seq: u64, payload: &Payload) {
    let (kind, version, compat) = (payload.kind, payload.version, payload.compat);
    let header = MessageHeader { seq, tid: seq, kind, priority: 127, version, compat, ack_seq: 0 };
    let data = Segment { lead: &payload.lead, bytes: &payload.data, sum: payload.sums.find(&payload.data) };
    writer.message(out, &header, &payload.front, &payload.middle, data);
}

/// The ends of a stream, in the mode asked for.
fn ends(secure: bool) -> (FrameWriter, FrameReader) {
    let (mut writer, mut reader) = (FrameWriter::default(), FrameReader::default());
    reader.allow_messages();
    if secure {
        writer.secure(aes_gcm(&[9; 64], Side::Connecting).expect("long enough").tx);
        reader.secure(aes_gcm(&[9; 64], Side::Accepting).expect("long enough").rx);
    }
    (writer, reader)
}

fn journey(what: &str, secure: bool, message: &Message, batches: u32) {
    let (mut writer, mut reader) = ends(secure);
    let mut out = SendQueue::default();
    let mode = if secure { "secure" } else { "crc" };
    let payload = message.clone().into_payload();

    measure(&format!("{mode}: frame {what}"), batches, || {
        for seq in 0..u64::from(BATCH) {
            put(&mut writer, &mut out, seq, black_box(&payload));
        }
        out.advance(out.len());
    });

    let (mut writer, _) = ends(secure);
    let mut buf = BytesMut::new();
    measure(&format!("{mode}: encode, frame, copy, parse, decode {what}"), batches, || {
        for seq in 0..u64::from(BATCH) {
            put(&mut writer, &mut out, seq, &black_box(message).clone().into_payload());
        }
        // What the kernel does between two sockets, at its cheapest.
        while !out.is_empty() {
            buf.extend_from_slice(out.chunk());
            out.advance(out.chunk().len());
        }
        while let Some(frame) = reader.next(&mut buf).expect("our own frames") {
            let (front, middle, data) = (frame.segment(1), frame.segment(2), frame.segment(3));
            let Payload { kind, version, compat, .. } = payload;
            let decoded = Message::decode(Payload { kind, version, compat, front, middle, data, ..Payload::default() });
            black_box(decoded.expect("our own bytes"));
        }
    });
}

fn main() {
    let request_4k = request(4096);
    let answer = Message::from(OsdOpReply::to(&request_4k, 0, Epoch(9)).on_disk());
    for secure in [false, true] {
        journey("a 4 KiB write request", secure, &Message::from(request_4k.clone()), 5_000);
        journey("its answer", secure, &answer, 5_000);
        journey("a 64 KiB write request", secure, &Message::from(request(64 << 10)), 500);
    }
}
