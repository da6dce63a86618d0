//! Questions and answers recorded from Ceph 16.2.15 (`tests/clients/test_rados_ops.py`), asked of the engine: each
//! operation's result and output, and the versions, have to be the same.

mod harness;

use harness::Cluster;
use wire::osd::{OpCode, OpFlags, OsdOpItem, RequestFlags};
use wire::types::UTime;

const RECORD: &str = include_str!("../../../tests/clients/ops_answers.txt");

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("the record is hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Hexadecimal parts joined by +; BYTE*COUNT is a run.
fn unpacked(text: &str) -> Vec<u8> {
    let part = |part: &str| match part.split_once('*') {
        Some((byte, count)) => unhex(byte).repeat(count.parse().expect("a count")),
        None => unhex(part),
    };
    text.split('+').flat_map(part).collect()
}

fn item(text: &str) -> OsdOpItem {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize| u32::from_str_radix(parts[at], 16).expect("a hexadecimal number");
    let mut item = OsdOpItem::new(OpCode(number(0) as u16)).with_flags(OpFlags(number(1)));
    for (to, from) in item.args.iter_mut().zip(unhex(parts[2])) {
        *to = from;
    }
    item.with_payload(unpacked(parts[3]))
}

/// What the flags of librados (`LIBRADOS_OPERATION_*`) become on the wire.
fn request_flags(librados: u32) -> RequestFlags {
    let table = [
        (1, RequestFlags::BALANCE_READS),
        (2, RequestFlags::LOCALIZE_READS),
        (4, RequestFlags::RWORDERED),
        (8, RequestFlags::IGNORE_CACHE),
        (16, RequestFlags::SKIPRWLOCKS),
        (32, RequestFlags::IGNORE_OVERLAY),
        (64, RequestFlags::FULL_TRY),
        (128, RequestFlags::FULL_FORCE),
        (256, RequestFlags::IGNORE_REDIRECT),
        (512, RequestFlags::ORDERSNAP),
        (1024, RequestFlags::RETURNVEC),
    ];
    let base = RequestFlags::ACK | RequestFlags::ONDISK | RequestFlags::READ;
    table.iter().filter(|(bit, _)| librados & bit != 0).fold(base, |flags, (_, flag)| flags | *flag)
}

#[test]
fn the_engine_answers_as_ceph_does() {
    let mut c = Cluster::new(7, 3, 3, 2, 1);
    let mut wrong = Vec::new();
    for line in RECORD.lines() {
        let parts: Vec<&str> = line.split('|').collect();
        let [scenario, object, flags, ops, result, version, outcomes] = parts[..] else { panic!("{line}") };
        let mut request = c.request(object, ops.split(' ').map(item).collect());
        request.flags = request_flags(flags.parse().expect("a number"));
        // The record was made with requests that librados takes for reads, to which it gives no time.
        request.mtime = UTime::default();
        let reply = c.call_op(request);
        let got: Vec<String> = reply
            .ops
            .iter()
            .map(|op| format!("{}:{}", op.result, packed(&[&op.lead[..], &op.item.payload].concat())))
            .collect();
        let got = format!("{}|{}|{}", reply.result, reply.user_version, got.join(" "));
        let expected = format!("{result}|{version}|{outcomes}");
        if got != expected {
            wrong.push(format!("{scenario}: {object} {flags} {ops}\n  ceph   {expected}\n  loligo {got}"));
        }
    }
    let shown = wrong.iter().map(|w| w.chars().take(1000).collect::<String>()).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {} differ:\n{shown}", wrong.len(), RECORD.lines().count());
}

/// As the record writes bytes.
fn packed(data: &[u8]) -> String {
    let hex = |data: &[u8]| data.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < data.len() {
        let run = data[at..].iter().take_while(|byte| **byte == data[at]).count();
        if run >= 64 {
            parts.push(hex(&data[from..at]));
            parts.push(format!("{:02x}*{run}", data[at]));
            from = at + run;
        }
        at += run;
    }
    parts.push(hex(&data[from..]));
    parts.retain(|part| !part.is_empty());
    parts.join("+")
}

#[test]
fn requests_have_limits() {
    let mut c = Cluster::new(8, 3, 3, 2, 1);
    let stat = || OsdOpItem::new(OpCode::STAT);
    let large = vec![7; (90 << 20) + 1];
    let op = OsdOpItem::extent(OpCode::WRITE, 0, large.len() as u64).with_payload(large);
    assert_eq!(c.call("x", vec![op]).result, -90, "more than osd_max_write_size");
    assert_eq!(c.call(&"n".repeat(2049), vec![stat()]).result, -36);
    assert_eq!(c.call("x", vec![stat(); 1025]).result, -22);
    let mut parallel = c.request("x", vec![stat()]);
    parallel.flags = parallel.flags | RequestFlags::PARALLELEXEC;
    assert_eq!(c.call_op(parallel).result, -22, "Ceph has never had it");
    assert_eq!(c.read("x"), Err(-2));
}
