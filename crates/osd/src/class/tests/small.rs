//! The small classes: `hello`, `numops`, `refcount`, `version`, `log`, `timeindex`, `cas`; and the rules of a call.

use super::bench::{Bench, call, enveloped, no, nothing, text};
use base::{Errno, PoolId};
use bytes::Bytes;
use wire::osd::{HObject, OpCode, OsdOpItem};
use wire::types::UTime;
use wire::{Decoder, Encode, Encoder};

#[test]
fn calls_follow_their_rules() {
    let mut b = Bench::new();
    assert_eq!(b.call("nobody", "x", ""), no(Errno::EPERM));
    assert_eq!(b.call("rgw", "x", ""), no(Errno::EOPNOTSUPP));
    assert_eq!(b.call("hello", "x", ""), no(Errno::EOPNOTSUPP));
    let mut beyond = call("hello", "say_hello", "x");
    beyond.args[3] = 200;
    assert_eq!(b.run(&[beyond]).map(|o| o.result), Err(Errno::EINVAL));
    assert_eq!(b.call("hello", "say_hello", ""), no(Errno::ENOENT), "reading wants an object");
    assert_eq!(b.call("hello", "record_hello", "me"), nothing());
    assert_eq!(b.call("hello", "record_hello", "me"), no(Errno::EEXIST));
    assert_eq!(b.call("hello", "replay", ""), Ok("Hello, me!".into()));
    assert_eq!(b.call("hello", "turn_it_to_11", ""), nothing());
    assert_eq!(b.call("hello", "replay", ""), Ok("HELLO, ME!".into()));
    assert_eq!(b.call("hello", "bad_reader", ""), no(Errno::EIO));
    assert_eq!(b.call("hello", "bad_writer", "x"), no(Errno::EIO));
    assert_eq!(b.call("hello", "replay", ""), Ok("HELLO, ME!".into()));
    let who = b.run(&[OsdOpItem::xattr(OpCode::GETXATTR, b"said_by", b"")]).expect("one op");
    assert!(who.ops[0].item.payload.starts_with(b"client.4100 "), "{who:?}");
}

#[test]
fn a_writing_method_s_output_is_bounded() {
    let mut b = Bench::new();
    let outcome = b.run(&[call("hello", "write_return_data", "")]).expect("known");
    assert_eq!((outcome.result, outcome.ops[0].result), (42, 42));
    assert_eq!(outcome.ops[0].item.payload, "you might see this");
    let outcome = b.run(&[call("hello", "write_return_data", "x")]).expect("known");
    assert_eq!(
        (outcome.result, &outcome.ops[0].item.payload[..]),
        (Errno::EINVAL.code(), &b"too much input data!"[..])
    );
    assert_eq!(b.call("hello", "write_too_much_return_data", ""), no(Errno::EOVERFLOW));
}

#[test]
fn numops_add_and_multiply() {
    let mut b = Bench::new();
    let pair = |key: &str, n: &str| (text(key), text(n)).0.into_iter().chain(text(n)).collect::<Bytes>();
    assert_eq!(b.call("numops", "add", pair("k", "1.5")), nothing());
    assert_eq!(b.call("numops", "mul", pair("k", "-2")), nothing());
    assert_eq!(b.call("numops", "add", pair("k", "x")), no(Errno::EINVAL));
    assert_eq!(b.call("numops", "add", "k"), no(Errno::EINVAL));
    let keys = wire::osd::payload::KeySet::from([Bytes::from("k")]).to_bytes();
    let read = b.run(&[OsdOpItem::new(OpCode::OMAPGETVALSBYKEYS).with_payload(keys)]).expect("one op");
    assert!(read.ops[0].item.payload.ends_with(b"\x02\0\0\0-3"), "{read:?}");
}

#[test]
fn refcount_removes_with_the_last_reference() {
    let mut b = Bench::new();
    let named = |tag: &str, implicit: bool| {
        enveloped(|e| {
            e.string(tag);
            e.bool(implicit);
        })
    };
    let names = |names: &[&str]| enveloped(|e| e.put(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()));
    let read = |b: &mut Bench, implicit: bool| b.call("refcount", "read", enveloped(|e| e.bool(implicit)));
    assert_eq!(b.call("refcount", "get", named("a", false)), no(Errno::ENOENT));
    b.create();
    assert_eq!(b.call("refcount", "put", named("a", false)), no(Errno::EINVAL));
    assert_eq!(read(&mut b, true), Ok(names(&[""])));
    assert_eq!(b.call("refcount", "get", named("a", true)), nothing());
    assert_eq!(read(&mut b, false), Ok(names(&["", "a"])));
    assert_eq!(b.call("refcount", "put", named("b", true)), nothing(), "takes the nameless one");
    assert_eq!(b.call("refcount", "put", named("b", true)), nothing(), "does nothing");
    assert_eq!(read(&mut b, false), Ok(names(&["a"])));
    assert_eq!(b.call("refcount", "set", names(&["x", "y"])), nothing());
    assert_eq!(b.call("refcount", "put", named("x", false)), nothing());
    assert!(b.exists());
    assert_eq!(b.call("refcount", "put", named("y", false)), nothing());
    assert!(!b.exists());
    b.create();
    assert_eq!(b.call("refcount", "set", names(&[])), nothing());
    assert!(!b.exists());
}

fn version(e: &mut Encoder, number: u64, tag: &str) {
    e.versioned(1, 1, |e| {
        e.u64(number);
        e.string(tag);
    });
}

#[test]
fn versions_grow_under_conditions() {
    let mut b = Bench::new();
    assert_eq!(b.call("version", "set", enveloped(|e| version(e, 5, "t"))), nothing());
    let conditions = |conditions: &[(u64, &str, u32)]| {
        enveloped(|e| {
            version(e, 0, "");
            e.len(conditions.len());
            for (number, tag, kind) in conditions {
                e.versioned(1, 1, |e| {
                    version(e, *number, tag);
                    e.u32(*kind);
                });
            }
        })
    };
    assert_eq!(b.call("version", "inc_conds", conditions(&[(5, "t", 1), (4, "", 2)])), nothing());
    assert_eq!(b.call("version", "inc_conds", conditions(&[(5, "t", 1)])), no(Errno::ECANCELED));
    assert_eq!(b.call("version", "check_conds", conditions(&[(6, "", 3), (6, "", 5), (0, "u", 7)])), nothing());
    assert_eq!(b.call("version", "check_conds", conditions(&[(6, "", 4)])), no(Errno::ECANCELED));
    assert_eq!(b.call("version", "read", ""), Ok(enveloped(|e| version(e, 6, "t"))));
    let mut fresh = Bench::new();
    assert_eq!(fresh.call("version", "inc", conditions(&[])), nothing());
    let read = fresh.call("version", "read", "").expect("there is one");
    assert_eq!(read.len(), 6 + 6 + 8 + 4 + 24);
    assert_eq!(read[12..20], 2u64.to_le_bytes());
}

fn log_entry(e: &mut Encoder, secs: u32, name: &str) {
    e.versioned(2, 1, |e| {
        e.string("section");
        e.string(name);
        e.put(&UTime { secs, nanos: 5000 });
        e.string("data");
        e.string("");
    });
}

/// How many entries a listing has, its marker and whether there is more.
fn listed(reply: &Bytes, entry: impl Fn(&mut Decoder<'_>)) -> (u32, String, bool) {
    let mut d = Decoder::shared(reply);
    d.versioned("list", 1, |d, _| {
        let count = d.u32()?;
        (0..count).for_each(|_| entry(d));
        Ok((count, d.string()?, d.bool()?))
    })
    .expect("well-formed")
}

#[test]
fn logs_are_listed_and_trimmed_by_time() {
    let mut b = Bench::new();
    let mut e = Encoder::new();
    e.versioned(2, 1, |e| {
        e.len(3);
        [10, 30, 20].into_iter().for_each(|secs| log_entry(e, secs, "n"));
        e.bool(true);
    });
    assert_eq!(b.call("log", "add", e.finish()), nothing());
    let list = |b: &mut Bench, from: u32, to: u32, max: u32| {
        let input = enveloped(|e| {
            e.put(&UTime { secs: from, nanos: 0 });
            e.string("");
            e.put(&UTime { secs: to, nanos: 0 });
            e.u32(max);
        });
        let reply = b.call("log", "list", input).expect("there is a log");
        listed(&reply, |d| d.versioned("entry", 2, |_, _| Ok(())).expect("an entry"))
    };
    // The third entry is older than the second: it is put after it.
    let (count, marker, more) = list(&mut b, 0, 0, 0);
    assert_eq!((count, more), (3, false));
    assert!(marker.starts_with("1_0000000030.000005_0."), "{marker}");
    assert_eq!(list(&mut b, 1, 30, 0).0, 1);
    assert_eq!((list(&mut b, 0, 0, 2).0, list(&mut b, 0, 0, 2).2), (2, true));
    let info = b.call("log", "info", enveloped(|_| ())).expect("there is a log");
    assert!(info.ends_with(&[&30u32.to_le_bytes()[..], &5000u32.to_le_bytes()].concat()));
    let trim = |to: u32| {
        let mut e = Encoder::new();
        e.versioned(2, 1, |e| {
            e.put(&UTime::default());
            e.put(&UTime { secs: to, nanos: 5000 });
            ["", ""].into_iter().for_each(|s| e.string(s));
        });
        e.finish()
    };
    assert_eq!(b.call("log", "trim", trim(10)), nothing());
    assert_eq!(list(&mut b, 0, 0, 0).0, 2);
    assert_eq!(b.call("log", "trim", trim(10)), no(Errno::ENODATA));
    assert_eq!(b.call("log", "trim", trim(30)), nothing());
    assert_eq!(list(&mut b, 0, 0, 0).0, 0);
}

#[test]
fn time_indexes_are_listed_and_trimmed() {
    let mut b = Bench::new();
    let input = enveloped(|e| {
        e.len(2);
        for (secs, name) in [(10, "a"), (20, "b")] {
            e.versioned(1, 1, |e| {
                e.put(&UTime { secs, nanos: 7000 });
                e.string(name);
                e.string("value");
            });
        }
    });
    assert_eq!(b.call("timeindex", "add", input), nothing());
    let input = enveloped(|e| {
        e.put(&UTime::default());
        e.string("");
        e.put(&UTime { secs: 100, nanos: 0 });
        e.u32(10);
    });
    let reply = b.call("timeindex", "list", input).expect("there is an index");
    let found = listed(&reply, |d| {
        d.versioned("entry", 1, |d, _| {
            assert_eq!(d.get::<UTime>()?.nanos, 7, "microseconds, where Ceph puts them");
            Ok(())
        })
        .expect("an entry");
    });
    assert_eq!(found, (2, "1_0000000020.000007_b".to_owned(), false));
    let trim = enveloped(|e| {
        e.put(&UTime::default());
        e.put(&UTime { secs: 10, nanos: 7000 });
        ["", ""].into_iter().for_each(|s| e.string(s));
    });
    assert_eq!(b.call("timeindex", "trim", trim.clone()), nothing());
    assert_eq!(b.call("timeindex", "trim", trim), no(Errno::ENODATA));
}

#[test]
fn chunks_live_as_long_as_they_are_referred_to() {
    let mut b = Bench::new();
    let source = |name: &'static str| HObject::head(PoolId(3), Bytes::new(), Bytes::new(), name.into(), 77);
    let create = |name: &'static str, data: &str| {
        enveloped(|e| {
            e.put(&source(name));
            e.u64(1);
            e.string(data);
        })
    };
    let named = |name: &'static str| enveloped(|e| e.put(&source(name)));
    assert_eq!(b.call("cas", "chunk_create_or_get_ref", create("a", "data")), nothing());
    assert_eq!(b.call("cas", "chunk_create_or_get_ref", create("b", "other")), no(Errno::ENOMSG));
    assert_eq!(b.call("cas", "chunk_create_or_get_ref", create("b", "data")), nothing());
    assert_eq!(b.call("cas", "chunk_get_ref", named("a")), nothing());
    assert_eq!(b.call("cas", "chunk_put_ref", named("c")), no(Errno::ENOLINK));
    for name in ["a", "b"] {
        assert_eq!(b.call("cas", "chunk_put_ref", named(name)), nothing());
    }
    assert!(b.exists());
    assert_eq!(b.call("cas", "references_chunk", text("x")), no(Errno::ENOLINK));
    assert_eq!(b.call("cas", "chunk_put_ref", named("a")), nothing());
    assert!(!b.exists());
}
