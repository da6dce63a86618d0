//! Watches and notifications through whole OSDs: sessions that break, primaries that change, clients that are shut out.

mod harness;

use base::{Duration, Epoch, Errno};
use bytes::Bytes;
use harness::{Cluster, client_addr, open};
use wire::Encode;
use wire::messages::watch_event::{DISCONNECT, NOTIFY, NOTIFY_COMPLETE};
use wire::osd::op::watch_op;
use wire::osd::payload::{NotifyAck, NotifyReply, NotifyRequest, WatcherList};
use wire::osd::{OpCode, OpParams, OsdOpItem};
use wire::types::{AddrKind, EntityAddr, UTime};

fn watch(op: u8, cookie: u64) -> Vec<OsdOpItem> {
    let params = OpParams::Watch { cookie, version: 0, op, generation: 0, timeout_s: 20 };
    vec![OsdOpItem::new(OpCode::WATCH).with_params(params)]
}

fn notify(timeout_s: u32) -> Vec<OsdOpItem> {
    let payload = NotifyRequest { protocol: 1, timeout_s, payload: Bytes::from_static(b"hi") }.to_bytes();
    vec![OsdOpItem::new(OpCode::NOTIFY).with_params(OpParams::Notify { cookie: 5 }).with_payload(payload)]
}

fn ack(notify_id: u64, cookie: u64, said: &'static str) -> Vec<OsdOpItem> {
    let payload = NotifyAck { notify_id, cookie, payload: Bytes::from_static(said.as_bytes()) }.to_bytes();
    vec![OsdOpItem::new(OpCode::NOTIFY_ACK).with_params(OpParams::Notify { cookie: 0 }).with_payload(payload)]
}

fn watchers(c: &mut Cluster) -> Vec<(i64, u64)> {
    let reply = c.call("header", vec![OsdOpItem::new(OpCode::LIST_WATCHERS)]);
    assert_eq!(reply.result, 0);
    let list: WatcherList = open(&reply.ops[0].item.payload);
    list.watchers.iter().map(|w| (w.name.num, w.cookie)).collect()
}

/// The events that a client heard, with their handles.
fn heard(c: &mut Cluster, client: u64) -> Vec<(u8, u64)> {
    let (ours, others) = core::mem::take(&mut c.notices).into_iter().partition(|(to, _)| *to == client);
    c.notices = others;
    let ours: Vec<(u64, wire::messages::WatchNotify)> = ours;
    ours.iter().map(|(_, m)| (m.event, m.cookie)).collect()
}

fn watched(seed: u64) -> Cluster {
    let mut c = Cluster::new(seed, 3, 3, 2, 8);
    assert_eq!(c.write("header", b"x"), 0);
    assert_eq!(c.call_as(2, "header", watch(watch_op::WATCH, 20)).result, 0);
    assert_eq!(c.call_as(3, "header", watch(watch_op::WATCH, 30)).result, 0);
    c
}

#[test]
fn a_notification_reaches_all_and_its_end_the_notifier() {
    let mut c = watched(1);
    assert_eq!(watchers(&mut c), [(2, 20), (3, 30)]);
    let reply = c.call("header", notify(10));
    let id: u64 = open(&reply.ops[0].item.payload);
    c.settle_for(Duration::from_millis(100));
    assert_eq!(heard(&mut c, 2), [(NOTIFY, 20)]);
    assert_eq!(heard(&mut c, 3), [(NOTIFY, 30)]);
    assert_eq!(c.call_as(3, "header", ack(id, 30, "three")).result, 0);
    assert_eq!(heard(&mut c, 1), []);
    assert_eq!(c.call_as(2, "header", ack(id, 20, "two")).result, 0);
    c.settle_for(Duration::from_millis(100));
    let [(1, end)] = &c.notices[..] else { panic!("one end: {:?}", c.notices) };
    assert_eq!((end.event, end.cookie, end.notify_id, end.result), (NOTIFY_COMPLETE, 5, id, 0));
    let reply: NotifyReply = open(&end.replies);
    let said = |client, cookie, text: &'static str| ((client, cookie), Bytes::from_static(text.as_bytes()));
    assert_eq!(reply, NotifyReply { answers: vec![said(2, 20, "two"), said(3, 30, "three")], missed: vec![] });
}

/// A notification within a write goes out when the write is durable. It had its number from the execution, but the number was
/// only taken when it went out: the next write that notified meanwhile had the same, and one of the two was forgotten.
#[test]
fn notifications_of_writes_under_way_have_numbers_of_their_own() {
    let mut c = watched(9);
    let ops = || {
        let write = OsdOpItem::extent(OpCode::WRITEFULL, 0, 1).with_payload("z");
        [vec![write], notify(10)].concat()
    };
    for client in [1, 4] {
        let op = c.request("header", ops());
        c.send(client, op);
    }
    c.settle_for(Duration::from_millis(200));
    let told = c.notices.iter().filter(|(client, _)| *client == 2).map(|(_, m)| m.notify_id);
    let ids: Vec<u64> = told.collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    for id in ids {
        c.call_as(2, "header", ack(id, 20, ""));
        c.call_as(3, "header", ack(id, 30, ""));
    }
    c.settle_for(Duration::from_millis(100));
    assert_eq!(heard(&mut c, 1), [(NOTIFY_COMPLETE, 5)]);
    assert_eq!(heard(&mut c, 4), [(NOTIFY_COMPLETE, 5)]);
}

#[test]
fn who_is_silent_is_missed_and_then_forgotten() {
    let mut c = watched(2);
    c.call("header", notify(2));
    c.settle_for(Duration::from_secs(3));
    let end = c.notices.iter().find(|(client, _)| *client == 1).map(|(_, m)| m.clone()).expect("an end");
    assert_eq!(end.result, Errno::ETIMEDOUT.code());
    assert_eq!(open::<NotifyReply>(&end.replies).missed, [(2, 20), (3, 30)]);
    c.notices.clear();
    c.settle_for(Duration::from_secs(8));
    assert_eq!(c.call_as(2, "header", watch(watch_op::PING, 20)).result, 0);
    c.settle_for(Duration::from_secs(14));
    assert_eq!(watchers(&mut c), [(2, 20)], "the one that says that it lives stays");
    assert_eq!(heard(&mut c, 3), [(DISCONNECT, 30)]);
    assert_eq!(c.call_as(3, "header", watch(watch_op::PING, 30)).result, Errno::ENOTCONN.code());
    assert_eq!(c.call_as(3, "header", watch(watch_op::RECONNECT, 30)).result, Errno::ENOTCONN.code());
}

#[test]
fn a_watcher_comes_back_after_its_session_broke_and_after_the_primary_changed() {
    let mut c = watched(3);
    c.drop_client(2);
    c.settle_for(Duration::from_millis(200));
    assert_eq!(c.call_as(2, "header", watch(watch_op::PING, 20)).result, Errno::ETIMEDOUT.code());
    let reply = c.call("header", notify(10));
    let id: u64 = open(&reply.ops[0].item.payload);
    assert_eq!(heard(&mut c, 2), []);
    assert_eq!(c.call_as(2, "header", watch(watch_op::RECONNECT, 20)).result, 0);
    c.settle_for(Duration::from_millis(100));
    assert_eq!(heard(&mut c, 2), [(NOTIFY, 20)], "what it missed");
    c.call_as(2, "header", ack(id, 20, ""));
    c.call_as(3, "header", ack(id, 30, ""));
    c.settle_for(Duration::from_millis(100));
    assert_eq!(heard(&mut c, 1), [(NOTIFY_COMPLETE, 5)]);
    let (_, _, primary) = c.locate("header");
    c.mark_down(primary);
    c.kill(primary);
    c.settle();
    assert_ne!(c.locate("header").2, primary);
    assert_eq!(c.call_as(2, "header", watch(watch_op::RECONNECT, 20)).result, 0, "the new primary has the record");
    assert_eq!(c.call_as(2, "header", watch(watch_op::PING, 20)).result, 0);
    let mut early = c.request("header", watch(watch_op::PING, 30));
    early.map_epoch = Epoch(c.map.epoch.0 - 3);
    let tid = c.send(3, early);
    c.settle_for(Duration::from_millis(500));
    assert!(!c.replies.contains_key(&(3, tid)), "who does not know the new interval is not told off");
    c.notices.clear();
    c.call("header", notify(10));
    c.settle_for(Duration::from_secs(11));
    let end = c.notices.iter().find(|(client, _)| *client == 1).map(|(_, m)| m.clone()).expect("an end");
    assert_eq!(open::<NotifyReply>(&end.replies).missed, [(2, 20), (3, 30)], "who did not come back is waited for");
    c.call_as(2, "header", watch(watch_op::PING, 20));
    c.settle_for(Duration::from_secs(12));
    assert_eq!(watchers(&mut c), [(2, 20)], "and forgotten after its time");
}

#[test]
fn the_end_of_the_object_is_the_end_of_its_watches() {
    let mut c = watched(4);
    assert_eq!(c.call("header", vec![OsdOpItem::new(OpCode::DELETE)]).result, 0);
    c.settle_for(Duration::from_millis(100));
    assert_eq!(heard(&mut c, 2), [(DISCONNECT, 20)]);
    assert_eq!(heard(&mut c, 3), [(DISCONNECT, 30)]);
    assert_eq!(c.call_as(2, "header", watch(watch_op::PING, 20)).result, Errno::ENOENT.code());
    assert_eq!(c.call("header", notify(1)).result, Errno::ENOENT.code());
    assert_eq!(c.write("header", b"y"), 0);
    assert_eq!(watchers(&mut c), []);
    c.call("header", notify(1));
    assert_eq!(heard(&mut c, 1), [(NOTIFY_COMPLETE, 5)], "nobody watches");
}

fn shut_out(c: &mut Cluster, client: u64) {
    let addr = EntityAddr { kind: AddrKind::Any, ..client_addr(client) };
    let until = UTime { secs: u32::MAX, nanos: 0 };
    c.publish(|_, inc| inc.new_blocklist.extend([(addr, until)]));
}

#[test]
fn who_is_shut_out_watches_and_writes_no_more() {
    let mut c = watched(5);
    c.call("header", notify(30));
    shut_out(&mut c, 2);
    c.settle_for(Duration::from_millis(500));
    assert_eq!(watchers(&mut c), [(3, 30)]);
    assert_eq!(c.call_as(2, "header", watch(watch_op::RECONNECT, 20)).result, Errno::ESHUTDOWN.code());
    let write = OsdOpItem::extent(OpCode::WRITEFULL, 0, 1).with_payload("z");
    assert_eq!(c.call_as(2, "header", vec![write]).result, Errno::ESHUTDOWN.code());
    assert_eq!(c.read("header").expect("it is there"), "x");
}

/// A request that was on the OSD already when the map came must not be executed after it: it waits for its group.
#[test]
fn a_request_that_waits_is_not_executed_once_its_client_is_shut_out() {
    let mut c = watched(6);
    let (_, _, primary) = c.locate("header");
    let other = (0..3).find(|osd| *osd != primary).expect("three OSDs");
    let third = 3 - primary - other;
    // One of three is gone and another does not answer yet: the group is on its way.
    c.cut.push((primary, other));
    c.kill(third);
    c.settle();
    assert_eq!(c.active(), 0);
    let write = OsdOpItem::extent(OpCode::WRITEFULL, 0, 6).with_payload("fenced");
    let op = c.request("header", vec![write]);
    let tid = c.send(2, op);
    c.settle_for(Duration::from_secs(1));
    assert!(!c.replies.contains_key(&(2, tid)), "it waits");
    shut_out(&mut c, 2);
    c.settle_for(Duration::from_secs(1));
    c.cut.clear();
    c.settle();
    assert_eq!(c.read("header").expect("it serves again"), "x");
    let replies = c.replies.get(&(2, tid)).expect("an answer");
    assert_eq!(replies[0].result, Errno::ESHUTDOWN.code());
}

/// Whoever waits for the watch of a dead client to end (librbd, to break its lock) may be given less than half a minute.
#[test]
fn a_watch_lasts_as_long_as_its_client_says_or_as_the_operator_does() {
    let mut c = watched(7);
    let (_, _, primary) = c.locate("header");
    let unsaid = |cookie| {
        let params = OpParams::Watch { cookie, version: 0, op: watch_op::WATCH, generation: 0, timeout_s: 0 };
        vec![OsdOpItem::new(OpCode::WATCH).with_params(params)]
    };
    assert_eq!(c.call_as(4, "header", unsaid(40)).result, 0);
    c.admin(primary, r#"{"prefix":"config set","var":"osd_client_watch_timeout","val":["5"]}"#);
    assert_eq!(c.call_as(5, "header", unsaid(50)).result, 0);
    let reply = c.call("header", vec![OsdOpItem::new(OpCode::LIST_WATCHERS)]);
    let list: WatcherList = open(&reply.ops[0].item.payload);
    let lasts: Vec<(u64, u32)> = list.watchers.iter().map(|w| (w.cookie, w.timeout_s)).collect();
    assert_eq!(lasts, [(20, 20), (30, 20), (40, 30), (50, 5)]);
    c.settle_for(Duration::from_secs(7));
    assert_eq!(watchers(&mut c), [(2, 20), (3, 30), (4, 40)]);
}
