//! Live watches alone: what comes of each effect and of time. Read next: the parent module.

use super::*;
use base::Errno;
use wire::Decode;
use wire::osd::payload::NotifyReply;
use wire::types::EntityType;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1000 + seconds)
}

fn object() -> ObjectId {
    ObjectId::new(7, b"", b"", b"header", base::SnapId::HEAD)
}

fn client(num: i64) -> EntityName {
    EntityName { kind: EntityType::CLIENT, num }
}

fn name(num: i64, cookie: u64) -> WatchName {
    WatchName { cookie, entity: client(num) }
}

fn addr(nonce: u32) -> EntityAddr {
    EntityAddr::msgr2("127.0.0.1:0".parse().expect("an address"), nonce)
}

fn record(timeout_s: u32) -> WatchRecord {
    WatchRecord { timeout_s, addr: addr(9) }
}

struct World {
    live: LiveWatches,
    now: Instant,
}

impl World {
    fn new() -> World {
        World { live: LiveWatches::default(), now: at(0) }
    }

    fn apply(&mut self, num: i64, effect: Effect) -> Sends {
        let mut out = Sends::new();
        let caller = Caller { conn: ConnId(num as u64), entity: client(num) };
        self.live.apply(self.now, &object(), caller, 26, effect, &mut out);
        self.live.check_invariants();
        out
    }

    fn watch(&mut self, num: i64, cookie: u64, pings: bool) -> Sends {
        self.apply(num, Effect::Connect { watch: name(num, cookie), record: record(30), pings })
    }

    fn notify(&mut self, num: i64, id: u64) -> Sends {
        self.apply(num, Effect::Notify { id, cookie: 5, timeout_s: 10, payload: Bytes::from_static(b"hi") })
    }

    fn ack(&mut self, num: i64, id: u64, cookie: u64, said: &'static str) -> Sends {
        self.apply(num, Effect::Ack { id, cookie: Some(cookie), payload: Bytes::from_static(said.as_bytes()) })
    }

    fn expire(&mut self, seconds: u64) -> (Vec<Watched>, Sends) {
        self.now = at(seconds);
        let mut out = Sends::new();
        let over = self.live.expire(self.now, &mut out);
        self.live.check_invariants();
        (over, out)
    }
}

fn replies(message: &WatchNotify) -> NotifyReply {
    NotifyReply::from_bytes(&message.replies).expect("what was encoded")
}

fn said(num: u64, cookie: u64, text: &'static str) -> ((u64, u64), Bytes) {
    ((num, cookie), Bytes::from_static(text.as_bytes()))
}

#[test]
fn a_notification_ends_when_all_have_answered_and_tells_who_said_what() {
    let mut w = World::new();
    assert!(w.watch(2, 20, true).is_empty());
    assert!(w.watch(1, 10, true).is_empty());
    let calls = w.notify(3, 77);
    let called: Vec<_> = calls.iter().map(|(conn, m)| (conn.0, m.event, m.cookie, m.notify_id)).collect();
    assert_eq!(called, [(1, watch_event::NOTIFY, 10, 77), (2, watch_event::NOTIFY, 20, 77)]);
    assert_eq!((calls[0].1.version, calls[0].1.notifier, &calls[0].1.payload[..]), (26, 3, &b"hi"[..]));
    assert!(w.ack(2, 77, 20, "two").is_empty(), "one is still waited for");
    assert!(w.ack(2, 77, 20, "again").is_empty(), "a second answer is none");
    assert!(w.ack(1, 78, 10, "other").is_empty(), "of another notification");
    let end = w.ack(1, 77, 10, "one");
    let [(conn, end)] = &end[..] else { panic!("one message: {end:?}") };
    assert_eq!((conn.0, end.event, end.cookie, end.result), (3, watch_event::NOTIFY_COMPLETE, 5, 0));
    let expected = NotifyReply { answers: vec![said(1, 10, "one"), said(2, 20, "two")], missed: vec![] };
    assert_eq!(replies(end), expected);
    assert!(w.live.has_room(NOTIFICATION_BYTES_MAX), "nothing is held any more");
}

#[test]
fn nobody_watching_is_everybody_answered() {
    let mut w = World::new();
    let end = w.notify(3, 77);
    assert_eq!(end.len(), 1);
    assert_eq!((end[0].1.event, end[0].1.result), (watch_event::NOTIFY_COMPLETE, 0));
    assert_eq!(replies(&end[0].1), NotifyReply::default());
    assert!(w.live.is_empty());
}

#[test]
fn who_does_not_answer_in_time_is_named() {
    let mut w = World::new();
    w.watch(1, 10, true);
    w.watch(2, 20, true);
    w.notify(3, 77);
    w.ack(1, 77, 10, "one");
    assert_eq!(w.expire(9), (vec![], vec![]));
    let (over, end) = w.expire(10);
    assert!(over.is_empty());
    assert_eq!(end[0].1.result, Errno::ETIMEDOUT.code());
    assert_eq!(replies(&end[0].1), NotifyReply { answers: vec![said(1, 10, "one")], missed: vec![(2, 20)] });
    assert!(w.ack(2, 77, 20, "late").is_empty());
}

#[test]
fn a_silent_watch_ends_and_a_pinged_one_does_not() {
    let mut w = World::new();
    w.watch(1, 10, true);
    w.watch(2, 20, true);
    w.now = at(20);
    w.apply(1, Effect::Ping { watch: name(1, 10) });
    assert_eq!(w.expire(29).0, []);
    assert_eq!(w.expire(30).0, [(object(), name(2, 20))]);
    assert!(w.live.is_ending(&object(), &name(2, 20)));
    assert!(!w.live.is_ending(&object(), &name(1, 10)));
    // The record is gone: the watcher is told, and nobody waits for it.
    w.notify(3, 77);
    let out = w.apply(0, Effect::Disconnect { watch: name(2, 20), tell: true });
    assert_eq!(
        out.iter().map(|(c, m)| (c.0, m.event, m.cookie)).collect::<Vec<_>>(),
        [(2, watch_event::DISCONNECT, 20)]
    );
    assert_eq!(w.ack(1, 77, 10, "").len(), 1);
    assert_eq!(w.expire(49).0, []);
    assert_eq!(w.expire(50).0, [(object(), name(1, 10))]);
}

#[test]
fn the_end_of_a_watch_completes_what_waited_for_it() {
    let mut w = World::new();
    w.watch(1, 10, true);
    w.notify(3, 77);
    let out = w.apply(1, Effect::Disconnect { watch: name(1, 10), tell: false });
    assert_eq!(out.len(), 1, "no word to the watcher, who knows");
    assert_eq!((out[0].0, out[0].1.event, out[0].1.result), (ConnId(3), watch_event::NOTIFY_COMPLETE, 0));
    assert_eq!(replies(&out[0].1), NotifyReply::default(), "gone is not missed");
}

#[test]
fn a_watcher_that_comes_back_hears_what_it_missed() {
    let mut w = World::new();
    w.watch(1, 10, true);
    w.live.session_closed(at(1), ConnId(1));
    assert!(!w.live.is_connected(&object(), &name(1, 10)));
    assert!(w.notify(3, 77).is_empty(), "nobody to call now, but it is waited for");
    let caller = Caller { conn: ConnId(100), entity: client(1) };
    let mut out = Sends::new();
    let again = Effect::Connect { watch: name(1, 10), record: record(30), pings: true };
    w.live.apply(at(2), &object(), caller, 26, again.clone(), &mut out);
    assert_eq!(out.iter().map(|(c, m)| (c.0, m.event)).collect::<Vec<_>>(), [(100, watch_event::NOTIFY)]);
    out.clear();
    w.live.apply(at(2), &object(), caller, 26, again, &mut out);
    assert!(out.is_empty(), "the same session is told once");
}

#[test]
fn recorded_watchers_have_their_time_to_come_back() {
    let mut w = World::new();
    let watchers = Watchers::from([(name(1, 10), record(30)), (name(2, 20), record(5))]);
    w.live.load(at(0), &object(), &watchers);
    w.live.check_invariants();
    assert!(!w.live.is_connected(&object(), &name(1, 10)));
    assert_eq!(w.notify(3, 77), [], "both are waited for");
    assert_eq!(w.expire(5).0, [(object(), name(2, 20))]);
    w.apply(0, Effect::Disconnect { watch: name(2, 20), tell: true });
    w.watch(1, 10, true);
    assert_eq!(w.ack(1, 77, 10, "here").len(), 1);
}

#[test]
fn a_watch_without_pings_lives_as_long_as_its_session() {
    let mut w = World::new();
    w.watch(1, 10, false);
    assert_eq!(w.expire(100_000).0, []);
    w.live.session_closed(w.now, ConnId(1));
    w.live.check_invariants();
    assert_eq!(w.expire(100_029).0, []);
    assert_eq!(w.expire(100_030).0, [(object(), name(1, 10))]);
}

#[test]
fn a_watch_that_is_reconnected_while_it_ends_goes_on() {
    let mut w = World::new();
    w.watch(1, 10, true);
    assert_eq!(w.expire(30).0.len(), 1);
    w.watch(1, 10, true);
    assert!(!w.live.is_ending(&object(), &name(1, 10)));
    assert_eq!(w.expire(59).0, []);
    assert_eq!(w.expire(60).0.len(), 1);
}

#[test]
fn watches_of_clients_that_are_shut_out_end_once() {
    let mut w = World::new();
    w.watch(1, 10, true);
    let other =
        Effect::Connect { watch: name(2, 20), record: WatchRecord { timeout_s: 30, addr: addr(8) }, pings: true };
    w.apply(2, other);
    let shut = |a: &EntityAddr| a.nonce == 9;
    assert_eq!(w.live.shut_out(shut), [(object(), name(1, 10))]);
    assert_eq!(w.live.shut_out(shut), []);
}

/// A notifier that died took its notifications with it, and a watcher whose session had broken just then never heard them. On
/// Ceph it hears them when it comes back, for as long as the notifier would have waited.
#[test]
fn a_notifier_that_is_gone_is_not_answered_but_heard() {
    let mut w = World::new();
    w.watch(1, 10, true);
    w.watch(2, 20, true);
    w.live.session_closed(at(0), ConnId(2));
    assert_eq!(w.notify(3, 77).len(), 1, "the other is away");
    w.live.session_closed(at(1), ConnId(3));
    w.live.check_invariants();
    let [(ConnId(2), call)] = &w.watch(2, 20, true)[..] else { panic!("it is told") };
    assert_eq!((call.event, call.notify_id, call.cookie), (watch_event::NOTIFY, 77, 20));
    assert!(w.ack(1, 77, 10, "one").is_empty());
    assert!(w.ack(2, 77, 20, "two").is_empty());
    assert_eq!(w.watch(2, 20, true), [], "it has answered");

    w.notify(3, 78);
    w.live.session_closed(at(2), ConnId(3));
    assert_eq!(w.expire(10).1, []);
    w.live.session_closed(at(10), ConnId(2));
    assert_eq!(w.watch(2, 20, true), [], "its time is over");
}

#[test]
fn what_notifications_hold_is_bounded() {
    let mut w = World::new();
    w.watch(1, 10, true);
    let big = Bytes::from(vec![1; NOTIFICATION_BYTES_MAX - 10]);
    w.apply(3, Effect::Notify { id: 1, cookie: 5, timeout_s: u32::MAX, payload: big });
    assert!(w.live.has_room(10) && !w.live.has_room(11) && !w.live.has_room_for_answer(11));
    let (_, out) = w.expire(u64::from(NOTIFICATION_TIMEOUT_S_MAX));
    assert_eq!(out.len(), 1, "nobody waits longer than the longest time");
    w.watch(1, 10, true);
    for id in 10..10 + NOTIFICATIONS_MAX as u64 {
        assert!(w.live.has_room(2));
        w.notify(3, id);
    }
    assert!(!w.live.has_room(0));
}
