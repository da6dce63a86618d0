//! The objecter alone: maps and network events in, commands and completions out.

use super::*;
use crate::request::{Reply, Target};
use base::{EVersion, PgId, PoolId};
use bytes::Bytes;
use crush::CrushMap;
use maps::osd_map::MapFlags;
use maps::{OsdAddrs, OsdState, PgPool};
use wire::Encode;
use wire::messages::{Backoff, Message, OsdMap as OsdMapMessage, OsdOpReply, backoff_op};
use wire::net::CloseReason;
use wire::osd::OpCode;
use wire::types::{AddrVec, EntityAddr, UTime, Uuid};

const POOL: PoolId = PoolId(1);
const FSID: Uuid = Uuid([3; 16]);

fn addr(osd: i32, life: u32) -> AddrVec {
    let socket = std::net::SocketAddr::from(([127, 0, 0, 1], 6800 + osd as u16));
    AddrVec::one(EntityAddr::msgr2(socket, life))
}

fn addrs(osd: i32, life: u32) -> OsdAddrs {
    OsdAddrs { client: addr(osd, life), ..OsdAddrs::default() }
}

/// The objecter, and a cluster of three OSDs with one pool of two copies as its maps tell of it.
struct World {
    now: Instant,
    objecter: Objecter,
    conns: ConnIds,
    map: OsdMap,
}

impl World {
    fn new() -> World {
        let now = Instant::from_secs(1_800_000_000);
        World { now, objecter: Objecter::new(now, 7, Rng::new(1)), conns: ConnIds::default(), map: OsdMap::new(FSID) }
    }

    /// A world whose objecter has the first map: all OSDs up, the pool there.
    fn ready() -> World {
        let mut world = World::new();
        world.first_map();
        world
    }

    fn first_map(&mut self) {
        let mut crush = CrushMap::simple("osd").expect("a new map");
        let place = [("root", "default"), ("host", "here")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        for osd in 0..3 {
            crush.create_or_move_item(osd, 0x10000, &format!("osd.{osd}"), &place).expect("a new device");
        }
        let mut pool = PgPool { size: 2, min_size: 1, ..PgPool::default() };
        pool.set_pg_num(8);
        self.change(|inc| {
            inc.new_max_osd = Some(3);
            inc.crush = crush.to_bytes();
            inc.new_pool_max = Some(POOL);
            inc.new_pools.insert(POOL, pool);
            inc.new_pool_names.insert(POOL, "p".to_owned());
            for osd in 0..3 {
                inc.new_state.insert(OsdId(osd), OsdState::EXISTS);
                inc.new_up.insert(OsdId(osd), addrs(osd, 1));
                inc.new_weight.insert(OsdId(osd), 0x10000);
            }
        });
    }

    /// The next map, told to the objecter.
    fn change(&mut self, edit: impl FnOnce(&mut Incremental)) {
        let inc = self.next(edit);
        self.tell(&[inc]);
    }

    /// The next map, not told to anybody yet.
    fn next(&mut self, edit: impl FnOnce(&mut Incremental)) -> Incremental {
        let mut inc = Incremental::new(FSID, self.map.epoch.next(), UTime::default());
        edit(&mut inc);
        self.map.apply(&inc).expect("a change that fits");
        inc
    }

    /// Tells the objecter of maps, in one message.
    fn tell(&mut self, maps: &[Incremental]) {
        let mut message = OsdMapMessage { fsid: FSID, newest: self.map.epoch, oldest: Epoch(1), ..Default::default() };
        for inc in maps {
            if inc.epoch == Epoch(1) {
                message.full.insert(inc.epoch, self.map.to_bytes());
            } else {
                message.incremental.insert(inc.epoch, inc.to_bytes());
            }
        }
        self.objecter.handle_maps(self.now, &message);
        self.objecter.check_invariants();
    }

    fn submit(&mut self, id: u64, name: &'static str) {
        let request = Request::new(Target::object(POOL, name)).append(Bytes::from_static(b"x"));
        self.objecter.submit(self.now, OpId(id), request).expect("room");
        self.objecter.check_invariants();
    }

    fn sets_of(&self, name: &str) -> maps::UpActing {
        let pg = self.map.object_to_pg(&maps::ObjectLocator::pool(POOL), name.as_bytes()).expect("the pool exists");
        self.map.pg_to_up_acting(pg)
    }

    /// The OSD that serves an object.
    fn osd_of(&self, name: &str) -> OsdId {
        self.sets_of(name).acting_primary
    }

    fn commands(&mut self) -> Vec<NetCommand> {
        let (now, conns) = (self.now, &mut self.conns);
        let commands = std::iter::from_fn(|| self.objecter.poll_command(now, conns)).collect();
        self.objecter.check_invariants();
        commands
    }

    /// Requests sent, with connection and transaction id.
    fn sent(&mut self) -> Vec<(ConnId, u64, OsdOp)> {
        let op = |command| match command {
            NetCommand::Send { conn, envelope: Envelope { tid, message: Message::OsdOp(op), .. } } => {
                Some((conn, tid, *op))
            }
            _ => None,
        };
        self.commands().into_iter().filter_map(op).collect()
    }

    fn receive(&mut self, conn: ConnId, tid: u64, message: impl Into<Message>) {
        let event = NetEvent::Message { conn, envelope: Envelope::with_tid(tid, message) };
        self.objecter.handle_net(self.now, event);
        self.objecter.check_invariants();
    }

    fn answer(&mut self, (conn, tid, op): &(ConnId, u64, OsdOp), result: i32) {
        let reply = OsdOpReply::to(op, result, self.map.epoch).on_disk().versions(EVersion::new(Epoch(1), 9), 9);
        self.receive(*conn, *tid, reply);
    }

    fn close(&mut self, conn: ConnId) {
        self.objecter.handle_net(self.now, NetEvent::Closed { conn, why: CloseReason::Fault });
        self.objecter.check_invariants();
    }

    fn completed(&mut self) -> Vec<(OpId, Result<Reply, Failure>)> {
        std::iter::from_fn(|| self.objecter.poll_completion()).map(|done| (done.id, done.result)).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.objecter.handle_timer(self.now);
        self.objecter.check_invariants();
    }
}

#[test]
fn a_request_waits_for_the_map_then_goes_to_its_primary_and_completes_once() {
    let mut w = World::new();
    w.submit(1, "a");
    assert_eq!(w.commands(), []);
    w.first_map();
    let commands = w.commands();
    let NetCommand::Open { conn, to, policy: Policy::Lossy, .. } = &commands[0] else { panic!("{commands:?}") };
    assert_eq!(*to, addr(w.osd_of("a").0, 1));
    let NetCommand::Send { envelope, .. } = &commands[1] else { panic!("{commands:?}") };
    let Message::OsdOp(op) = &envelope.message else { panic!("{envelope:?}") };
    assert_eq!((op.map_epoch, op.retry_attempt, op.ops[0].op), (Epoch(1), 0, OpCode::APPEND));
    assert_eq!(op.flags, RequestFlags::ONDISK | RequestFlags::WRITE | RequestFlags::KNOWN_REDIR);
    let sent = (*conn, envelope.tid, (**op).clone());
    w.answer(&sent, 0);
    w.answer(&sent, 0);
    let done = w.completed();
    assert_eq!(done.len(), 1);
    let reply = done[0].1.as_ref().expect("an answer");
    assert_eq!((done[0].0, reply.result, reply.user_version), (OpId(1), 0, 9));
    assert_eq!(w.objecter.in_flight(), 0);
}

#[test]
fn a_lost_connection_sends_everything_again_in_order_as_a_retry() {
    let mut w = World::ready();
    w.submit(1, "a");
    w.submit(2, "a");
    let first = w.sent();
    w.close(first[0].0);
    assert_eq!(w.sent(), [], "not before the wait is over");
    w.pass(Duration::from_millis(40));
    let again = w.sent();
    assert_eq!(again.iter().map(|s| s.1).collect::<Vec<_>>(), [first[0].1, first[1].1]);
    assert_ne!(again[0].0, first[0].0);
    for (_, _, op) in &again {
        assert!(op.retry_attempt == 1 && op.flags.has(RequestFlags::RETRY), "{op:?}");
    }
    // The wait grows, up to its bound, until the OSD answers.
    let mut waits = vec![];
    let mut conn = again[0].0;
    while waits.len() < 9 {
        w.close(conn);
        let since = w.now;
        conn = loop {
            let at = w.objecter.next_wakeup().expect("a time to try again");
            w.pass(at.since(w.now));
            let opened = w.commands().into_iter().find_map(|c| match c {
                NetCommand::Open { conn, .. } => Some(conn),
                _ => None,
            });
            if let Some(conn) = opened {
                break conn;
            }
        };
        waits.push(w.now.since(since));
    }
    assert!(waits[..6].is_sorted() && waits[5] > waits[0] * 8, "{waits:?}");
    assert!(waits[8] <= limits::REOPEN_MAX + Duration::from_millis(10), "{waits:?}");
}

#[test]
fn a_new_map_moves_requests_of_a_failed_osd_and_leaves_the_others() {
    let mut w = World::ready();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    names.iter().enumerate().for_each(|(id, name)| w.submit(id as u64, name));
    let first = w.sent();
    let failed = w.osd_of("a");
    // A new interval begins also where the failed OSD held a copy only.
    let concerned = |name: &&str| w.sets_of(name).concerns(failed);
    let lost: Vec<_> = names.into_iter().filter(concerned).collect();
    assert!(lost.len() < names.len(), "all on one OSD");
    w.change(|inc| {
        inc.new_state.insert(failed, OsdState::UP);
    });
    let commands = w.commands();
    assert_eq!(commands.iter().filter(|c| matches!(c, NetCommand::Close { .. })).count(), 1);
    let opened = commands.iter().filter(|c| matches!(c, NetCommand::Open { to, .. } if *to == addr(failed.0, 1)));
    assert_eq!(opened.count(), 0);
    let moved: Vec<_> = commands
        .iter()
        .filter_map(|c| match c {
            NetCommand::Send { envelope: Envelope { message: Message::OsdOp(op), .. }, .. } => Some(op),
            _ => None,
        })
        .collect();
    assert_eq!(moved.len(), lost.len());
    assert!(moved.iter().all(|op| op.retry_attempt == 1 && op.map_epoch == Epoch(2)));
    // An answer of the failed OSD that is still on its way changes nothing.
    let stale = first.iter().find(|(_, _, op)| op.object == "a").expect("it was sent").clone();
    w.answer(&stale, 0);
    assert_eq!(w.completed(), []);
}

#[test]
fn an_osd_that_restarts_at_another_address_is_found_there() {
    let mut w = World::ready();
    w.submit(1, "a");
    w.sent();
    let osd = w.osd_of("a");
    w.change(|inc| drop(inc.new_up.insert(osd, addrs(osd.0, 2))));
    let commands = w.commands();
    assert!(commands.iter().any(|c| matches!(c, NetCommand::Open { to, .. } if *to == addr(osd.0, 2))), "{commands:?}");
}

/// A map by which an OSD has no data, and one that gives it back what it had.
fn there_and_back(w: &mut World, osd: OsdId) -> [Incremental; 2] {
    [0, 0x10000].map(|weight| w.next(|inc| inc.new_weight.extend([(osd, weight)])))
}

/// An OSD that took many maps at once did what it had held since before another led the group, who had refused it: it drops
/// that now, as Ceph's do, and whoever looks at the last map alone never sends it again.
#[test]
fn what_has_moved_away_and_back_within_one_message_of_maps_is_sent_again() {
    let mut w = World::ready();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    names.iter().enumerate().for_each(|(id, name)| w.submit(id as u64, name));
    assert_eq!(w.sent().len(), names.len());
    let osd = w.osd_of("a");
    let concerned = |w: &World| names.iter().filter(|name| w.sets_of(name).concerns(osd)).count();
    let moved = concerned(&w);
    assert!(moved < names.len(), "all on one OSD");
    let maps = there_and_back(&mut w, osd);
    assert_eq!(concerned(&w), moved, "all is where it was");
    w.tell(&maps);
    let again = w.sent();
    assert_eq!(again.len(), moved);
    assert!(again.iter().all(|(_, _, op)| op.retry_attempt == 1 && op.map_epoch == Epoch(3)), "{again:?}");
    assert_eq!(again.iter().filter(|(_, _, op)| op.object == "a").count(), 1);
}

#[test]
fn after_maps_that_nobody_tells_of_everything_is_sent_again() {
    let mut w = World::ready();
    w.submit(1, "a");
    assert_eq!(w.sent().len(), 1);
    w.next(|_| ());
    w.next(|_| ());
    let epoch = w.map.epoch;
    let mut message = OsdMapMessage { fsid: FSID, newest: epoch, oldest: epoch, ..Default::default() };
    message.full.insert(epoch, w.map.to_bytes());
    w.objecter.handle_maps(w.now, &message);
    let again = w.sent();
    assert_eq!(again.iter().map(|(_, _, op)| (op.retry_attempt, op.map_epoch)).collect::<Vec<_>>(), [(1, epoch)]);
    w.change(|_| ());
    assert_eq!(w.sent(), [], "this one follows");
}

#[test]
fn pauses_hold_what_they_name() {
    let mut w = World::ready();
    w.change(|inc| inc.new_flags = Some(MapFlags::PAUSEWR));
    w.submit(1, "a");
    let read = Request::new(Target::object(POOL, "a")).read(0, 0);
    w.objecter.submit(w.now, OpId(2), read).expect("room");
    let sent = w.sent();
    assert_eq!(sent.iter().map(|(_, _, op)| op.ops[0].op).collect::<Vec<_>>(), [OpCode::READ]);
    w.change(|inc| inc.new_flags = Some(MapFlags::default()));
    let sent = w.sent();
    assert_eq!(sent.iter().map(|(_, _, op)| op.ops[0].op).collect::<Vec<_>>(), [OpCode::APPEND]);
}

#[test]
fn a_back_off_holds_its_range_until_it_is_taken_back() {
    let mut w = World::ready();
    w.submit(1, "a");
    let first = w.sent().remove(0);
    let pgid = first.2.pgid;
    let begin = HObject::pg_start(POOL, pgid.pg.seed);
    let backoff = Backoff { pgid, map_epoch: Epoch(1), op: backoff_op::BLOCK, id: 5, begin, end: HObject::MAX };
    w.receive(first.0, 0, backoff.clone());
    w.submit(2, "a");
    let commands = w.commands();
    let [NetCommand::Send { envelope, .. }] = commands.as_slice() else { panic!("{commands:?}") };
    let expect = Message::from(Backoff { op: backoff_op::ACK_BLOCK, ..backoff.clone() });
    assert_eq!(envelope.message, expect);
    w.receive(first.0, 0, Backoff { op: backoff_op::UNBLOCK, ..backoff });
    let again = w.sent();
    assert_eq!(again.iter().map(|(_, tid, op)| (*tid, op.retry_attempt)).collect::<Vec<_>>(), [(1, 1), (2, 0)]);
}

#[test]
fn a_pool_that_the_newest_map_lacks_fails_a_newer_one_is_waited_for() {
    let mut w = World::ready();
    let request = |pool| Request::new(Target::object(PoolId(pool), "a")).stat();
    w.objecter.submit(w.now, OpId(1), request(9)).expect("room");
    assert_eq!(std::iter::from_fn(|| w.objecter.poll_wish()).collect::<Vec<_>>(), [Wish::NewestEpoch]);
    w.objecter.handle_newest_epoch(w.now, Epoch(2));
    assert_eq!(w.completed(), []);
    assert_eq!(w.objecter.poll_wish(), Some(Wish::Maps(Epoch(2))));
    w.change(|_| ());
    w.objecter.handle_newest_epoch(w.now, Epoch(2));
    assert_eq!(w.completed(), [(OpId(1), Err(Failure::Refused(Errno::ENOENT)))]);
}

#[test]
fn time_outs_and_cancellations_end_a_request() {
    let mut w = World::ready();
    let request = Request::new(Target::object(POOL, "a")).stat().within(Duration::from_secs(5));
    w.objecter.submit(w.now, OpId(1), request.clone()).expect("room");
    w.objecter.submit(w.now, OpId(2), request.clone()).expect("room");
    assert_eq!(w.objecter.submit(w.now, OpId(2), request), Err(Errno::EEXIST));
    w.sent();
    w.objecter.cancel(OpId(2));
    w.pass(Duration::from_secs(5));
    assert_eq!(w.completed(), [(OpId(1), Err(Failure::TimedOut))]);
    assert_eq!(w.objecter.in_flight(), 0);
}

#[test]
fn an_osd_that_wants_the_request_again_gets_it_under_a_new_number() {
    let mut w = World::ready();
    w.submit(1, "a");
    let first = w.sent().remove(0);
    w.answer(&first, Errno::EAGAIN.code());
    let again = w.sent().remove(0);
    assert!(again.1 > first.1 && again.2.retry_attempt == 0);
    w.answer(&again, 0);
    assert_eq!(w.completed().len(), 1);
}

#[test]
fn what_waits_for_long_has_its_session_probed() {
    let mut w = World::ready();
    w.submit(1, "a");
    let sent = w.sent();
    w.pass(limits::LAGGY_AFTER);
    let commands = w.commands();
    assert!(
        matches!(&commands[..], [NetCommand::Send { conn, envelope: Envelope { message: Message::Ping(_), .. } }] if *conn == sent[0].0)
    );
}

#[test]
fn listings_go_to_the_placement_group_they_name() {
    let mut w = World::ready();
    let pg = PgId::new(POOL, 5);
    let request = Request::new(Target::pg(pg, "")).list(&HObject::MIN, 10);
    w.objecter.submit(w.now, OpId(1), request).expect("room");
    let (_, _, op) = w.sent().remove(0);
    assert_eq!((op.pgid.pg, op.hash, op.locator.hash), (pg, 5, 5));
    assert!(op.flags.has(RequestFlags::PGOP) && op.flags.has(RequestFlags::READ));
}
