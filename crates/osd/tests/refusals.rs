//! What clients are refused or asked to hold: writes to full pools, networks that are shut out, groups that do not serve.

mod harness;

use base::{Duration, Errno, OsdId};
use harness::{Cluster, POOL, client_addr};
use maps::pool::PoolFlags;
use maps::{OsdState, PgPool};
use wire::messages::backoff_op::{BLOCK, UNBLOCK};
use wire::osd::{OpCode, OsdOpItem, RequestFlags};
use wire::types::{AddrKind, EntityAddr, UTime};

fn write(data: &'static str) -> Vec<OsdOpItem> {
    vec![OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(data)]
}

fn set_flags(c: &mut Cluster, flags: PoolFlags) {
    c.publish(|map, inc| {
        let pool = PgPool::clone(map.pool(POOL).expect("the pool"));
        inc.new_pools.insert(POOL, PgPool { flags, ..pool });
    });
    c.settle_for(Duration::from_secs(1));
}

/// The answer to a request with these flags; none where the OSD leaves it to be sent again.
fn answer(c: &mut Cluster, name: &str, ops: Vec<OsdOpItem>, flags: RequestFlags) -> Option<i32> {
    let mut op = c.request(name, ops);
    op.flags = op.flags | flags;
    let tid = c.send(1, op);
    c.settle_for(Duration::from_secs(1));
    c.replies.get(&(1, tid)).map(|replies| replies[0].result)
}

#[test]
fn a_full_pool_takes_what_does_not_grow_it() {
    let mut c = Cluster::new(11, 3, 3, 2, 8);
    let (none, tries, forces) = (RequestFlags(0), RequestFlags::FULL_TRY, RequestFlags::FULL_FORCE);
    assert_eq!(c.write("a", b"1234"), 0);
    assert_eq!(c.write("b", b"1234"), 0);
    for (flags, errno) in
        [(PoolFlags::FULL.with(PoolFlags::FULL_QUOTA), Errno::EDQUOT), (PoolFlags::FULL, Errno::ENOSPC)]
    {
        let stale = c.request("a", write("4321"));
        set_flags(&mut c, flags);
        assert_eq!(answer(&mut c, "new", write("x"), none), None, "its client will send it again");
        assert_eq!(answer(&mut c, "new", write("x"), tries), Some(errno.code()));
        assert_eq!(answer(&mut c, "a", write("12345"), tries), Some(errno.code()));
        assert_eq!(answer(&mut c, "a", write("abcd"), none), Some(0), "no more than there was");
        let tid = c.send(1, stale);
        c.settle_for(Duration::from_secs(1));
        assert!(!c.replies.contains_key(&(1, tid)), "it was sent before its client knew");
        assert_eq!(c.read("a").expect("it is there"), "abcd");
        assert_eq!(answer(&mut c, "forced", write("xyz"), forces), Some(0));
        assert_eq!(answer(&mut c, "forced", vec![OsdOpItem::new(OpCode::DELETE)], none), Some(0));
        set_flags(&mut c, PoolFlags::default());
    }
    assert_eq!(answer(&mut c, "new", write("x"), none), Some(0));
}

/// A replica whose store was full refused what the primary had taken and sent, and stopped; the next one followed. So
/// every primary knows how much room its group's members have, before the map does.
#[test]
fn no_member_is_given_what_its_store_would_refuse() {
    const MIB: u64 = 1 << 20;
    let mut c = Cluster::new(13, 3, 3, 2, 8);
    let (none, tries) = (RequestFlags(0), RequestFlags::FULL_TRY);
    let delete = || vec![OsdOpItem::new(OpCode::DELETE)];
    let rest_of_attr = || vec![OsdOpItem::extent(OpCode::WRITE, 0, 2).with_payload("ab")];
    assert_eq!(c.write("a", b"1234"), 0);
    assert_eq!(c.write("b", b"1234"), 0);
    (0..3).for_each(|osd| c.set_room(osd, 1000 * MIB, 500 * MIB));
    c.settle_for(Duration::from_secs(1));
    assert_eq!(answer(&mut c, "a", write("12345"), none), Some(0), "there is room");
    // Without ratios in the map nobody would ever call the OSDs full.
    for tight in 0..3 {
        c.set_room(tight, 1000 * MIB, 30 * MIB);
        c.settle_for(Duration::from_secs(1));
        for (flags, name) in [(none, "a"), (tries, "b"), (none, "new")] {
            let growing = answer(&mut c, name, write("123456"), flags);
            assert_eq!(growing, Some(Errno::ENOSPC.code()), "osd.{tight} has only its reserve");
        }
        assert_eq!(c.read("a").expect("reads go on"), "12345");
        assert_eq!(answer(&mut c, "a", rest_of_attr(), none), Some(Errno::ENOSPC.code()), "also in place");
        assert_eq!(answer(&mut c, "a", rest_of_attr(), tries), Some(0), "but for who makes room");
        assert_eq!(answer(&mut c, "b", delete(), none), Some(0), "removals always go");
        c.set_room(tight, 1000 * MIB, 500 * MIB);
        c.settle_for(Duration::from_secs(1));
        assert_eq!(answer(&mut c, "b", write("1234"), none), Some(0), "there is room again");
        assert_eq!(answer(&mut c, "a", write("12345"), none), Some(0));
    }
    // With them the map is about to, and clients wait for it: it has to come, even if there is room again at once.
    c.publish(|_, inc| inc.new_full_ratio = Some(0.95));
    c.settle_for(Duration::from_secs(1));
    c.set_room(1, 1024 * MIB, 30 * MIB);
    assert_eq!(answer(&mut c, "new", write("1"), none), None, "sent again once the map says that there is room");
    assert_eq!(answer(&mut c, "new", write("1"), tries), Some(Errno::ENOSPC.code()));
    c.set_room(1, 1024 * MIB, 500 * MIB);
    c.settle_for(Duration::from_secs(10));
    assert!(c.used_ratio(1) > 0.95, "what was is reported until the map has it");
    c.publish(|_, inc| inc.new_state.extend([(OsdId(1), OsdState::FULL)]));
    c.settle_for(Duration::from_secs(10));
    assert!(c.used_ratio(1) < 0.95, "and the truth from then on");
    assert_eq!(answer(&mut c, "new", write("1"), none), Some(0));
}

#[test]
fn a_network_is_shut_out_and_let_in_again() {
    let mut c = Cluster::new(12, 3, 3, 2, 8);
    assert_eq!(c.write("a", b"1"), 0);
    let range = EntityAddr { kind: AddrKind::Cidr, nonce: 24, ..client_addr(0) };
    let until = UTime { secs: u32::MAX, nanos: 0 };
    c.publish(|_, inc| inc.new_range_blocklist.extend([(range, until)]));
    assert_eq!(c.write("a", b"2"), Errno::ESHUTDOWN.code());
    assert_eq!(c.read("a"), Err(Errno::ESHUTDOWN.code()));
    c.publish(|_, inc| inc.old_range_blocklist.push(range));
    assert_eq!(c.read("a").expect("let in again"), "1");
}

/// What clients were told about holding.
fn told(c: &Cluster) -> Vec<u8> {
    c.backoffs.iter().map(|backoff| backoff.op).collect()
}

fn send_many(c: &mut Cluster, count: usize) -> Vec<u64> {
    let tids = (0..count).map(|_| {
        let op = c.request("a", write("2"));
        c.send(1, op)
    });
    tids.collect()
}

fn send_large(c: &mut Cluster, count: usize) -> Vec<u64> {
    let tids = (0..count).map(|_| {
        let op = c.request("a", large());
        c.send(1, op)
    });
    tids.collect()
}

fn large() -> Vec<OsdOpItem> {
    let data = vec![7; 1 << 20];
    vec![OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(data)]
}

fn answered(c: &Cluster, tids: &[u64]) -> usize {
    tids.iter().filter(|tid| c.replies.contains_key(&(1, **tid))).count()
}

#[test]
fn requests_to_a_group_with_too_few_members_are_held_by_their_clients() {
    let mut c = Cluster::new(13, 3, 3, 2, 1);
    assert_eq!(c.write("a", b"1"), 0);
    let (_, _, primary) = c.locate("a");
    let others: Vec<i32> = (0..3).filter(|osd| *osd != primary).collect();
    for osd in &others {
        c.kill(*osd);
        c.mark_down(*osd);
    }
    c.settle();
    let tids = send_many(&mut c, 10);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK], "told once, not to go on meanwhile");
    c.settle();
    assert_eq!(told(&c), [BLOCK]);
    c.start(others[0]);
    c.settle();
    assert_eq!(told(&c), [BLOCK, UNBLOCK]);
    assert_eq!(c.backoffs[0].id, c.backoffs[1].id);
    assert_eq!(answered(&c, &tids), 0, "they are for the client to send again");
    assert_eq!(c.write("a", b"3"), 0);
}

/// Requests that clients held back because an OSD had no room for them were asked for again only after one of its own
/// commits or reads. Where the last word that a request waited for was a replica's, they were held for ever.
#[test]
fn requests_held_for_want_of_room_go_on_when_a_replica_has_confirmed_the_last() {
    let mut c = Cluster::new(16, 3, 3, 2, 1);
    assert_eq!(c.write("a", b"1"), 0);
    let (_, _, primary) = c.locate("a");
    // Little room is left: few bytes may be under way.
    c.set_room(primary, 1 << 30, (1 << 30) / 25);
    let tids = send_large(&mut c, 6);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK, UNBLOCK], "{} answered", answered(&c, &tids));
    assert!(answered(&c, &tids) >= 1);
}

/// What a client has sent before it heard that it should hold was taken when there was room again: a write overtook one
/// that had been dropped, and its answer was to an attempt that the client had given up. With enough requests none was
/// answered ever.
#[test]
fn requests_sent_before_their_client_heard_that_it_should_hold_are_not_taken_afterwards() {
    let mut c = Cluster::new(17, 3, 3, 2, 1);
    assert_eq!(c.write("a", b"1"), 0);
    let (_, _, primary) = c.locate("a");
    c.set_room(primary, 1 << 30, (1 << 30) / 25);
    let tids = send_large(&mut c, 20);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK, UNBLOCK]);
    let taken: Vec<bool> = tids.iter().map(|tid| c.replies.contains_key(&(1, *tid))).collect();
    let first = taken.iter().filter(|taken| **taken).count();
    assert!(first > 0 && first < tids.len(), "{first} of {}", tids.len());
    assert!(taken[..first].iter().all(|taken| *taken), "what was taken was not the first {first}");
    let again = tids[first..].to_vec();
    for tid in &again {
        let op = c.request("a", large());
        c.resend(1, *tid, op);
    }
    c.settle_for(Duration::from_secs(1));
    assert!(again.iter().any(|tid| c.replies.contains_key(&(1, *tid))), "it goes on");
}

/// Clients held back by `osd_client_message_cap` went on only with the end of a request, and not when the option let in
/// more.
#[test]
fn requests_held_by_an_option_go_on_when_it_lets_in_more() {
    let mut c = Cluster::new(17, 3, 3, 2, 1);
    assert_eq!(c.write("a", b"1"), 0);
    let (_, _, primary) = c.locate("a");
    let allow = |c: &mut Cluster, requests: u32| {
        c.admin(primary, &format!(r#"{{"prefix":"config set","var":"osd_client_message_cap","val":["{requests}"]}}"#));
    };
    allow(&mut c, 2);
    // No write can end.
    c.cut.extend((0..3).filter(|osd| *osd != primary).map(|osd| (primary, osd)));
    let tids = send_many(&mut c, 4);
    c.settle_for(Duration::from_millis(500));
    assert_eq!((told(&c), answered(&c, &tids)), (vec![BLOCK], 0));
    allow(&mut c, 100);
    c.settle_for(Duration::from_millis(500));
    assert_eq!((told(&c), answered(&c, &tids)), (vec![BLOCK, UNBLOCK], 0));
    c.cut.clear();
    c.settle();
    assert!(answered(&c, &tids) >= 1, "what was let in");
}

#[test]
fn requests_that_wait_when_a_group_loses_its_members_are_held_as_well() {
    let mut c = Cluster::new(14, 3, 3, 2, 1);
    assert_eq!(c.write("a", b"1"), 0);
    let (_, _, primary) = c.locate("a");
    let others: Vec<i32> = (0..3).filter(|osd| *osd != primary).collect();
    // One is gone; the other cannot answer yet, so that the group is on its way.
    c.cut.push((primary, others[0]));
    c.kill(others[1]);
    c.settle();
    assert_eq!(c.active(), 0);
    let tids = send_many(&mut c, 600);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK], "more than may wait");
    c.kill(others[0]);
    c.settle();
    assert_eq!((told(&c), answered(&c, &tids)), (vec![BLOCK, UNBLOCK, BLOCK], 0), "each interval begins anew");
    c.cut.clear();
    c.start(others[1]);
    c.settle();
    assert_eq!(told(&c), [BLOCK, UNBLOCK, BLOCK, UNBLOCK]);
    assert_eq!(answered(&c, &tids), 0, "what waited was dropped with the rest");
}

#[test]
fn requests_to_a_group_on_its_way_wait_and_beyond_some_are_held_by_their_clients() {
    let mut c = Cluster::new(15, 3, 3, 2, 1);
    assert_eq!(c.write("a", b"1"), 0);
    let (_, _, primary) = c.locate("a");
    let others: Vec<i32> = (0..3).filter(|osd| *osd != primary).collect();
    c.cut.push((primary, others[0]));
    c.kill(others[1]);
    c.settle();
    let tids = send_many(&mut c, 600);
    c.settle_for(Duration::from_secs(1));
    assert_eq!(told(&c), [BLOCK], "told once, not to go on meanwhile");
    c.cut.clear();
    c.settle();
    assert_eq!(told(&c), [BLOCK, UNBLOCK]);
    assert_eq!(c.backoffs[0].id, c.backoffs[1].id);
    assert_eq!(answered(&c, &tids), 512, "what waited is answered, the rest is for the client to send again");
}
