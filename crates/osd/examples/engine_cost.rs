//! What an op costs the primary's engine: CPU time per 4 KiB replicated write and per 4 KiB read.
//!
//! `cargo run --release -p osd --example engine_cost`. One engine is driven by hand with its memory store; the two
//! replicas answer at once. Counted is everything between a request's arrival as a decoded message and its answer as
//! a message: session, checks, execution, log, transaction, encoding for replicas, store, confirmations.

#[path = "../tests/harness/mod.rs"]
mod harness;

use base::Instant;
use bytes::Bytes;
use harness::Cluster;
use osd::{Command, Osd};
use std::collections::VecDeque;
use store::MemoryStore;
use wire::messages::{Confirmed, Message, OsdOp, SubCommit};
use wire::net::{ConnId, Envelope, NetCommand, NetEvent};
use wire::osd::{OpCode, OsdOpItem};

const OBJECTS: u64 = 512;
const OPS: u64 = 200_000;
/// Requests that arrive before the first is answered, as from a client with this queue depth.
const DEPTH: usize = 32;

/// The CPU time of this thread so far: what others do on the machine does not count.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("it begins with nanoseconds")
}

/// Runs the engine until it rests; gives the number of answers.
fn drain(osd: &mut Osd, store: &mut MemoryStore, now: Instant, confirmations: &mut VecDeque<NetEvent>) -> u64 {
    let mut answers = 0;
    loop {
        while let Some(command) = osd.poll_command() {
            match command {
                Command::Net(NetCommand::Send { conn, envelope }) => match envelope.message {
                    Message::OsdOpReply(reply) => {
                        assert!(reply.result >= 0, "{reply:?}");
                        answers += 1;
                    }
                    Message::SubWrite(write) => {
                        let commit = Confirmed { pg: write.pg, peering: write.peering, version: write.version };
                        let commit = SubCommit { writes: vec![commit] };
                        confirmations.push_back(NetEvent::Message { conn, envelope: Envelope::new(commit) });
                    }
                    _ => {}
                },
                Command::Read { id, request } => {
                    let result = store.read(&request);
                    osd.handle_read(now, id, result);
                }
                Command::Commit { id, transaction } => {
                    let result = store.commit(&transaction);
                    osd.handle_committed(now, id, result);
                }
                _ => {}
            }
        }
        match confirmations.pop_front() {
            Some(event) => osd.handle_net(now, event),
            None => return answers,
        }
    }
}

fn run(name: &str, cluster: &Cluster, osd: &mut Osd, store: &mut MemoryStore, conn: ConnId, item: &OsdOpItem) {
    let requests: Vec<OsdOp> =
        (0..OBJECTS).map(|i| cluster.request(&format!("object{i}"), vec![item.clone()])).collect();
    let mut confirmations = VecDeque::new();
    let (mut answers, mut tid) = (0, 1u64 << 40);
    let mut total_ns = 0;
    for batch in 0..OPS / DEPTH as u64 {
        // Decoding is the messenger's; what is counted begins with the message.
        let events: Vec<NetEvent> = (0..DEPTH as u64)
            .map(|i| {
                tid += 1;
                let mut op = requests[((batch * DEPTH as u64 + i) % OBJECTS) as usize].clone();
                op.ops[0].args[..8].copy_from_slice(&(4096 * (tid % 1024)).to_le_bytes());
                NetEvent::Message { conn, envelope: Envelope::with_tid(tid, op) }
            })
            .collect();
        let start = cpu_ns();
        for event in events {
            osd.handle_net(cluster.now, event);
        }
        answers += drain(osd, store, cluster.now, &mut confirmations);
        total_ns += cpu_ns() - start;
    }
    assert_eq!(answers, OPS / DEPTH as u64 * DEPTH as u64, "every request is answered");
    println!("{name}: {:.2} us per op", total_ns as f64 / 1e3 / answers as f64);
}

fn main() {
    let mut cluster = Cluster::new(1, 3, 3, 2, 1);
    let (_, _, primary) = cluster.locate("object0");
    let (mut osd, mut store) = cluster.take(primary);
    let conn = Cluster::open_client(&mut osd, cluster.now);
    drain(&mut osd, &mut store, cluster.now, &mut VecDeque::new());
    let write = OsdOpItem::extent(OpCode::WRITE, 0, 4096).with_payload(Bytes::from(vec![7; 4096]));
    let read = OsdOpItem::extent(OpCode::READ, 0, 4096);
    // Once to fill the objects, once to measure overwrites.
    run("4 KiB replicated write, first", &cluster, &mut osd, &mut store, conn, &write);
    run("4 KiB replicated write", &cluster, &mut osd, &mut store, conn, &write);
    run("4 KiB read", &cluster, &mut osd, &mut store, conn, &read);
}
