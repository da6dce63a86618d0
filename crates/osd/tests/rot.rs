//! Objects that a store cannot read: writes that would keep a part of one, and copies from one.

mod harness;

use base::SnapId;
use bytes::Bytes;
use harness::{Cluster, POOL};
use store::ObjectId;
use wire::Encoder;
use wire::osd::{ObjectLocator, OpCode, OpParams, OsdOpItem};

fn rot(c: &mut Cluster, osd: i32, name: &str) {
    let (_, hash, _) = c.locate(name);
    let id = ObjectId::new(hash, b"", b"", name.as_bytes(), SnapId::HEAD);
    c.rotten.insert((osd, id));
}

fn overwrite(c: &mut Cluster, name: &str, offset: u64, data: &'static [u8]) -> i32 {
    let item = OsdOpItem::extent(OpCode::WRITE, offset, data.len() as u64);
    c.call(name, vec![item.with_payload(Bytes::from_static(data))]).result
}

fn copy_from(name: &str) -> OsdOpItem {
    let mut e = Encoder::new();
    e.blob(name.as_bytes());
    e.put(&ObjectLocator::new(POOL));
    let params = OpParams::CopyFrom { snap: SnapId::HEAD, version: 0, flags: 0, fadvise_flags: 0 };
    OsdOpItem::new(OpCode::COPY_FROM2).with_params(params).with_payload(e.finish())
}

fn lives(c: &Cluster) -> usize {
    c.log.iter().filter(|line| line.contains("beginning again")).count()
}

/// The write failed in the store, the OSD began again, the client sent it again: twenty times, then the OSD was given up.
#[test]
fn a_write_to_the_only_copy_which_is_rotten_is_refused() {
    let mut c = Cluster::new(41, 1, 1, 1, 1);
    for name in ["o", "p", "sound"] {
        assert_eq!(c.write(name, b"0123456789"), 0);
    }
    rot(&mut c, 0, "o");
    let op = |c: &Cluster| {
        let item = OsdOpItem::extent(OpCode::WRITE, 3, 2);
        c.request("o", vec![item.with_payload(Bytes::from_static(b"ab"))])
    };
    let first = op(&c);
    let tid = c.send(1, first);
    c.settle();
    assert!(!c.replies.contains_key(&(1, tid)) && lives(&c) == 1, "nobody can know better: {:#?}", c.log);
    // As its client does, to the new life.
    let again = op(&c);
    c.resend(1, tid, again);
    c.settle();
    assert_eq!((c.replies[&(1, tid)][0].result, lives(&c)), (-5, 1), "{:#?}", c.log);
    assert_eq!(overwrite(&mut c, "sound", 3, b"ab"), 0);
    assert_eq!(c.read("sound").as_deref(), Ok(&b"012ab56789"[..]));
    c.kill(0);
    c.start(0);
    c.settle();
    assert_eq!((overwrite(&mut c, "o", 3, b"ab"), lives(&c)), (-5, 1), "that is not forgotten");
    assert_eq!(c.write("o", b"all of it"), 0, "what keeps nothing can be written");
    assert_eq!(overwrite(&mut c, "o", 0, b"ALL"), 0);
    assert_eq!(c.read("o").as_deref(), Ok(&b"ALL of it"[..]));
    assert_eq!(lives(&c), 1);
}

/// Others have a good copy: it is fetched, and the write is done.
#[test]
fn a_write_to_a_rotten_copy_is_done_where_others_have_a_good_one() {
    let mut c = Cluster::new(42, 3, 3, 2, 1);
    assert_eq!(c.write("o", b"0123456789"), 0);
    let (_, _, primary) = c.locate("o");
    for osd in [primary, (primary + 1) % 3] {
        rot(&mut c, osd, "o");
        let before = lives(&c);
        let item = OsdOpItem::extent(OpCode::WRITE, 3, 2);
        let op = c.request("o", vec![item.with_payload(Bytes::from_static(b"ab"))]);
        let tid = c.send(1, op.clone());
        c.settle();
        if !c.replies.contains_key(&(1, tid)) {
            let op = wire::messages::OsdOp { map_epoch: c.map.epoch, ..op };
            c.resend(1, tid, op);
            c.settle();
        }
        assert_eq!((c.replies[&(1, tid)][0].result, lives(&c)), (0, before + 1), "{:#?}", c.log);
        assert!(c.rotten.is_empty(), "it was replaced");
        assert_eq!(overwrite(&mut c, "o", 0, b"XY"), 0);
        assert_eq!(c.read("o").as_deref(), Ok(&b"XY2ab56789"[..]));
    }
    for osd in 0..3 {
        assert_eq!(c.store(osd).held_bytes(), c.store((osd + 1) % 3).held_bytes());
    }
}

/// A copy from what only one has, rotten, ends with EIO; where others have a good copy, it is mended first.
#[test]
fn copies_from_rotten_objects_end() {
    for (size, expected) in [(1, -5), (2, 0)] {
        let mut c = Cluster::new(43, 3, size, 1, 8);
        assert_eq!(c.write("a", b"a"), 0);
        let (_, _, primary) = c.locate("a");
        rot(&mut c, primary, "a");
        assert_eq!(c.call("to", vec![copy_from("a")]).result, expected, "{:#?}", c.log);
        if expected == 0 {
            assert_eq!(c.read("to").as_deref(), Ok(&b"a"[..]));
        }
    }
}

/// Each was read for the other's copy, could not be read, and was to be mended once its own copy was done.
#[test]
fn two_rotten_objects_that_are_copied_to_each_other_do_not_wait_for_each_other() {
    for seed in 0..20 {
        let mut c = Cluster::new(seed, 3, 2, 1, 8);
        for name in ["a", "b"] {
            assert_eq!(c.write(name, name.as_bytes()), 0);
            let (_, _, primary) = c.locate(name);
            rot(&mut c, primary, name);
        }
        let (first, second) = (c.request("a", vec![copy_from("b")]), c.request("b", vec![copy_from("a")]));
        let tids = [c.send(1, first), c.send(2, second)];
        c.settle();
        for (client, tid) in [1, 2].into_iter().zip(tids) {
            let reply = c.replies.get(&(client, tid)).unwrap_or_else(|| panic!("no answer: {:#?}", c.log));
            assert!(matches!(reply[0].result, 0 | -5), "{:?}", reply[0].result);
        }
    }
}

/// A member that was away could not be given what the primary could not read, and lacked it until a client read it.
#[test]
fn a_member_that_lacks_what_rots_on_the_primary_gets_it_from_another() {
    for size in [3, 2] {
        let mut c = Cluster::new(44, 3, size, 1, 1);
        assert_eq!(c.write("o", b"first"), 0);
        let (pg, _, primary) = c.locate("o");
        let away = c.map.pg_to_up_acting(pg).acting[1].0;
        c.kill(away);
        c.mark_down(away);
        c.settle();
        assert_eq!(c.write("o", b"second"), 0);
        rot(&mut c, primary, "o");
        c.start(away);
        c.settle();
        let told = c.log.iter().filter(|line| line.contains("others are asked for it")).count();
        assert_eq!(told, 1, "once for each copy that rots: {:#?}", c.log);
        assert_eq!(c.rotten.is_empty(), size == 3, "it is replaced where somebody has a good one");
        if size == 3 {
            assert_eq!(c.read("o").as_deref(), Ok(&b"second"[..]));
            assert_eq!(c.store(away).held_bytes(), c.store(primary).held_bytes());
        }
    }
}
