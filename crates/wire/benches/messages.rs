//! Nanoseconds per message on the hot path: requests decoded and answers encoded, with a 4 KiB payload.
//!
//! Prints one line each; run with `cargo bench -p wire --bench messages`. A plain loop, because what is asked is one
//! number on a quiet machine, not a distribution.
#![allow(clippy::disallowed_methods)] // It measures, so it reads the clock.

use base::{EVersion, Epoch, PgId, PoolId};
use bytes::Bytes;
use std::hint::black_box;
use std::time::Instant;
use wire::messages::{Message, OsdOp, OsdOpReply, Payload};
use wire::osd::{ObjectLocator, OpCode, OsdOpItem, RequestFlags, SpgId};

const ROUNDS: u32 = 2_000_000;

fn measure(what: &str, mut run: impl FnMut()) {
    for _ in 0..ROUNDS / 10 {
        run();
    }
    let start = Instant::now();
    for _ in 0..ROUNDS {
        run();
    }
    println!("{what:40} {:7.1} ns", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
}

fn request(op: OsdOpItem) -> OsdOp {
    let pgid = SpgId::replicated(PgId::new(PoolId(1), 7));
    let name = Bytes::from_static(b"benchmark_data_host_1234_object567");
    let mut request = OsdOp::new(pgid, 0x1234_5678, ObjectLocator::new(PoolId(1)), name, vec![op]);
    request.flags = RequestFlags::ONDISK | RequestFlags::WRITE;
    request
}

fn main() {
    let data = Bytes::from(vec![7; 4096]);
    let write = request(OsdOpItem::extent(OpCode::WRITE, 0, 4096).with_payload(data.clone()));
    let read = request(OsdOpItem::extent(OpCode::READ, 0, 4096));
    let mut answer = OsdOpReply::to(&read, 0, Epoch(9)).versions(EVersion::new(Epoch(9), 4), 4);
    answer.ops[0].item.payload = data;

    for (what, request) in [("write", &write), ("read", &read)] {
        let payload: Payload = Message::from(request.clone()).into_payload();
        measure(&format!("decode a {what} request"), || {
            black_box(Message::decode(black_box(payload.clone())).expect("our own bytes"));
        });
        measure(&format!("encode a {what} request"), || {
            black_box(Message::from(black_box(request).clone()).into_payload());
        });
    }
    measure("make and encode a write's answer", || {
        black_box(Message::from(OsdOpReply::to(black_box(&write), 0, Epoch(9)).on_disk()).into_payload());
    });
    measure("encode a read's answer", || {
        black_box(Message::from(black_box(&answer).clone()).into_payload());
    });
    let payload = Message::from(answer.clone()).into_payload();
    measure("decode a read's answer", || {
        black_box(Message::decode(black_box(payload.clone())).expect("our own bytes"));
    });
}
