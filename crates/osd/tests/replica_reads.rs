//! Reads at members that do not lead: what they answer, and what they leave to the primary.

mod harness;

use base::{Duration, Errno, SnapId};
use bytes::Bytes;
use harness::Cluster;
use wire::osd::{OpCode, OpParams, OsdOpItem, RequestFlags, SnapContext};

const CLIENT: u64 = 5;

fn read() -> Vec<OsdOpItem> {
    vec![OsdOpItem::extent(OpCode::READ, 0, 0), OsdOpItem::xattr(OpCode::GETXATTR, b"a", b"")]
}

fn write(data: &'static str) -> Vec<OsdOpItem> {
    let write = OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(data);
    vec![write, OsdOpItem::xattr(OpCode::SETXATTR, b"a", data.as_bytes())]
}

/// The members of an object's placement group that do not lead it.
fn replicas(c: &Cluster, name: &str) -> Vec<i32> {
    let (pg, _, primary) = c.locate(name);
    c.map.pg_to_up_acting(pg).acting.iter().map(|osd| osd.0).filter(|osd| *osd != primary).collect()
}

/// Sends operations to an OSD that may answer reads; gives their number.
fn send(c: &mut Cluster, osd: i32, tid: u64, name: &str, ops: Vec<OsdOpItem>) -> u64 {
    let mut op = c.request(name, ops);
    op.flags = op.flags | RequestFlags::BALANCE_READS | RequestFlags::READ;
    c.send_to(osd, CLIENT, tid, op);
    tid
}

/// What an OSD answers: the data, or the errno; none if it says nothing.
fn ask(c: &mut Cluster, osd: i32, tid: u64, name: &str, ops: Vec<OsdOpItem>) -> Option<Result<Bytes, i32>> {
    send(c, osd, tid, name, ops);
    c.settle_for(Duration::from_secs(1));
    answer(c, tid)
}

fn answer(c: &Cluster, tid: u64) -> Option<Result<Bytes, i32>> {
    let replies = c.replies.get(&(CLIENT, tid))?;
    assert_eq!(replies.len(), 1, "one question, one answer");
    let reply = &replies[0];
    if reply.result < 0 {
        return Some(Err(reply.result));
    }
    if let [data, attribute] = &reply.ops[..] {
        assert_eq!(data.item.payload, attribute.item.payload, "a write seen by half");
    }
    Some(Ok(reply.ops[0].item.payload.clone()))
}

const AGAIN: Option<Result<Bytes, i32>> = Some(Err(-11));

fn data(text: &'static str) -> Option<Result<Bytes, i32>> {
    Some(Ok(text.into()))
}

#[test]
fn every_member_answers_what_all_have() {
    let mut c = Cluster::new(31, 3, 3, 2, 8);
    let mut tid = 0;
    for name in ["one", "two", "three"] {
        assert_eq!(c.call(name, write("first")).result, 0);
        for text in ["first", "second"] {
            let version = c.call(name, read()).user_version;
            for osd in replicas(&c, name) {
                tid += 1;
                assert_eq!(ask(&mut c, osd, tid, name, read()), data(text), "{name} at osd.{osd}");
                assert_eq!(c.replies[&(CLIENT, tid)][0].user_version, version, "as the primary tells it");
            }
            assert_eq!(c.call(name, write("second")).result, 0);
        }
        for osd in replicas(&c, "missing") {
            tid += 1;
            assert_eq!(ask(&mut c, osd, tid, "missing", read()), Some(Err(Errno::ENOENT.code())));
        }
    }
}

#[test]
fn what_a_member_lacks_is_not_shown_by_the_others() {
    let mut c = Cluster::new(32, 3, 3, 2, 1);
    assert_eq!(c.call("x", write("old")).result, 0);
    assert_eq!(c.call("y", write("other")).result, 0);
    let (primary, members) = (c.locate("x").2, replicas(&c, "x"));
    let (has, lacks) = (members[0], members[1]);
    assert_eq!(ask(&mut c, has, 1, "x", read()), data("old"));
    assert_eq!(ask(&mut c, lacks, 2, "x", read()), data("old"));
    // The write reaches one replica, and is on its way to the other.
    c.cut.push((primary, lacks));
    let op = c.request("x", write("new"));
    let written = c.send(1, op);
    c.settle_for(Duration::from_secs(1));
    assert!(!c.replies.contains_key(&(1, written)));
    assert_eq!(ask(&mut c, has, 3, "x", read()), AGAIN, "it may yet be lost");
    assert_eq!(ask(&mut c, has, 4, "y", read()), data("other"), "that has nothing to do with other objects");
    assert_eq!(ask(&mut c, lacks, 5, "x", read()), data("old"), "nobody was told that there is anything newer");
    c.cut.clear();
    c.settle_for(Duration::from_secs(1));
    assert_eq!(c.replies[&(1, written)][0].result, 0);
    assert_eq!(ask(&mut c, has, 6, "x", read()), data("new"));
    assert_eq!(ask(&mut c, lacks, 7, "x", read()), data("new"));
}

#[test]
fn a_read_that_the_store_answers_after_a_write_came_is_not_answered() {
    // The order of messages and completions is the seed's: in some of these the write overtakes the read.
    let (mut again, mut old) = (0, 0);
    for seed in 0..150 {
        let mut c = Cluster::new(1000 + seed, 3, 3, 2, 1);
        assert_eq!(c.call("x", write("old")).result, 0);
        let (primary, members) = (c.locate("x").2, replicas(&c, "x"));
        assert_eq!(ask(&mut c, members[0], 1, "x", read()), data("old"));
        c.cut.push((primary, members[1]));
        let op = c.request("x", write("new"));
        c.send(1, op);
        for _ in 0..seed % 6 {
            c.step();
        }
        match ask(&mut c, members[0], 2, "x", read()) {
            AGAIN => again += 1,
            found => {
                assert_eq!(found, data("old"), "seed {seed}: not everybody has the new one");
                old += 1;
            }
        }
    }
    assert!(again > 5 && old > 5, "{again} sent away, {old} answered");
}

#[test]
fn what_only_the_primary_can_answer_goes_there() {
    let mut c = Cluster::new(33, 3, 3, 2, 1);
    assert_eq!(c.call("x", write("here")).result, 0);
    let osd = replicas(&c, "x")[0];
    for (tid, op) in [
        OsdOpItem::new(OpCode::LIST_WATCHERS),
        OsdOpItem::new(OpCode::NOTIFY).with_params(OpParams::Notify { cookie: 1 }),
        OsdOpItem::extent(OpCode::WRITE, 0, 1).with_payload("x"),
        OsdOpItem::new(OpCode::DELETE),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(ask(&mut c, osd, tid as u64, "x", vec![op.clone()]), AGAIN, "{op:?}");
    }
    let mut ordered = c.request("x", read());
    ordered.flags = ordered.flags | RequestFlags::BALANCE_READS | RequestFlags::RWORDERED;
    c.send_to(osd, CLIENT, 10, ordered);
    let mut plain = c.request("x", read());
    plain.flags = plain.flags | RequestFlags::READ;
    c.send_to(osd, CLIENT, 11, plain);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(answer(&c, 10), AGAIN);
    assert_eq!(answer(&c, 11), Some(Err(Errno::ENXIO.code())), "its client did not say that any member will do");
    assert_eq!(c.read("x").as_deref(), Ok(&b"here"[..]));
}

#[test]
fn snapshots_are_read_at_replicas() {
    let mut c = Cluster::new(34, 3, 3, 2, 1);
    assert_eq!(c.call("x", write("then")).result, 0);
    let mut op = c.request("x", write("now"));
    op.snap_context = SnapContext { seq: SnapId(1), snaps: vec![SnapId(1)] };
    assert_eq!(c.call_op(op).result, 0);
    for (tid, osd) in replicas(&c, "x").into_iter().enumerate() {
        let mut op = c.request("x", read());
        op.snap = SnapId(1);
        op.flags = op.flags | RequestFlags::LOCALIZE_READS | RequestFlags::READ;
        c.send_to(osd, CLIENT, tid as u64, op);
        c.settle_for(Duration::from_secs(1));
        assert_eq!(answer(&c, tid as u64), data("then"));
        assert_eq!(ask(&mut c, osd, 10 + tid as u64, "x", read()), data("now"));
    }
}

#[test]
fn who_waits_for_the_primary_s_word_is_sent_away_when_the_interval_ends() {
    let mut c = Cluster::new(35, 3, 3, 2, 1);
    assert_eq!(c.call("x", write("old")).result, 0);
    let (primary, members) = (c.locate("x").2, replicas(&c, "x"));
    c.cut.push((primary, members[0]));
    assert_eq!(ask(&mut c, members[0], 1, "x", read()), None, "it cannot know");
    c.kill(primary);
    c.cut.clear();
    c.settle();
    assert_eq!(answer(&c, 1), AGAIN);
    // One of the two leads now, the other answers as before.
    let other = replicas(&c, "x")[0];
    assert_eq!(ask(&mut c, other, 2, "x", read()), data("old"));
    c.start(primary);
    c.settle();
    for (tid, osd) in replicas(&c, "x").into_iter().enumerate() {
        assert_eq!(ask(&mut c, osd, 10 + tid as u64, "x", read()), data("old"), "osd.{osd}");
    }
}

#[test]
fn nobody_answers_while_the_group_does_not_serve() {
    let mut c = Cluster::new(36, 3, 3, 3, 1);
    assert_eq!(c.call("x", write("old")).result, 0);
    let members = replicas(&c, "x");
    c.kill(members[0]);
    c.settle();
    assert_eq!(c.active(), 0);
    let lead = c.locate("x").2;
    let other = replicas(&c, "x")[0];
    assert_ne!(other, lead);
    assert_eq!(ask(&mut c, other, 1, "x", read()), AGAIN);
}
