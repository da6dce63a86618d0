//! `lock`: who gets it, who keeps it, and when it is free again.

use super::bench::{Bench, enveloped, no, nothing};
use base::{Errno, GlobalId};
use bytes::Bytes;
use wire::types::{EntityName, UTime};
use wire::{Decoder, Encoder};

const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;
const EPHEMERAL: u8 = 3;

struct Asked {
    kind: u8,
    cookie: &'static str,
    tag: &'static str,
    secs: u32,
    flags: u8,
}

fn asked(kind: u8, cookie: &'static str) -> Asked {
    Asked { kind, cookie, tag: "", secs: 0, flags: 0 }
}

fn take(b: &mut Bench, asked: &Asked) -> Result<Bytes, i32> {
    let input = enveloped(|e| {
        e.string("name");
        e.u8(asked.kind);
        e.string(asked.cookie);
        e.string(asked.tag);
        e.string("described");
        e.put(&UTime { secs: asked.secs, nanos: 0 });
        e.u8(asked.flags);
    });
    b.call("lock", "lock", input)
}

fn give(b: &mut Bench, cookie: &str) -> Result<Bytes, i32> {
    b.call("lock", "unlock", enveloped(|e| ["name", cookie].into_iter().for_each(|s| e.string(s))))
}

/// How many hold the lock, and in which way.
fn holders(b: &mut Bench) -> (u32, u8) {
    let info = b.call("lock", "get_info", enveloped(|e| e.string("name"))).expect("there is an object");
    let mut d = Decoder::shared(&info);
    d.versioned("reply", 1, |d, _| {
        let count = d.u32()?;
        for _ in 0..count {
            d.versioned("id", 1, |_, _| Ok(()))?;
            d.versioned("holder", 1, |_, _| Ok(()))?;
        }
        Ok((count, d.u8()?))
    })
    .expect("well-formed")
}

#[test]
fn an_exclusive_lock_has_one_holder() {
    let mut b = Bench::new();
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "a")), nothing());
    assert!(b.exists(), "locking creates");
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "a")), no(Errno::EEXIST));
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "b")), no(Errno::EBUSY));
    assert_eq!(take(&mut b, &asked(SHARED, "b")), no(Errno::EBUSY));
    assert_eq!(take(&mut b, &Asked { flags: 1, ..asked(EXCLUSIVE, "a") }), nothing(), "renewed");
    b.client += 1;
    assert_eq!(give(&mut b, "a"), no(Errno::ENOENT), "not its own");
    let broken = enveloped(|e| {
        e.string("name");
        e.put(&EntityName::client(GlobalId(4100)));
        e.string("a");
    });
    assert_eq!(b.call("lock", "break_lock", broken.clone()), nothing());
    assert_eq!(b.call("lock", "break_lock", broken), no(Errno::ENOENT));
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "b")), nothing());
    assert_eq!(holders(&mut b), (1, EXCLUSIVE));
}

#[test]
fn a_shared_lock_has_holders_with_one_tag() {
    let mut b = Bench::new();
    let tagged = |cookie| Asked { tag: "t", ..asked(SHARED, cookie) };
    assert_eq!(take(&mut b, &tagged("a")), nothing());
    assert_eq!(take(&mut b, &tagged("b")), nothing());
    assert_eq!(take(&mut b, &asked(SHARED, "c")), no(Errno::EBUSY), "another tag");
    assert_eq!(holders(&mut b), (2, SHARED));
    assert_eq!(give(&mut b, "a"), nothing());
    assert_eq!(give(&mut b, "b"), nothing());
    assert_eq!(holders(&mut b), (0, SHARED));
    let names = b.call("lock", "list_locks", Bytes::new());
    assert_eq!(names, Ok(enveloped(|e| e.put(&vec![Bytes::from("name")]))));
}

#[test]
fn a_lock_ends_with_its_time() {
    let mut b = Bench::new();
    assert_eq!(take(&mut b, &Asked { secs: 10, ..asked(EXCLUSIVE, "a") }), nothing());
    b.now_secs += 10;
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "b")), no(Errno::EBUSY));
    b.now_secs += 1;
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "b")), nothing());
}

#[test]
fn must_renew_renews_only_what_is_held() {
    let mut b = Bench::new();
    let renew = |cookie| Asked { flags: 2, ..asked(EXCLUSIVE, cookie) };
    assert_eq!(take(&mut b, &renew("a")), no(Errno::ENOENT));
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "a")), nothing());
    assert_eq!(take(&mut b, &renew("a")), nothing());
    assert_eq!(take(&mut b, &Asked { flags: 3, ..asked(EXCLUSIVE, "a") }), no(Errno::EINVAL));
    assert_eq!(take(&mut b, &asked(4, "a")), no(Errno::EINVAL));
}

#[test]
fn an_ephemeral_lock_takes_its_object_along() {
    let mut b = Bench::new();
    assert_eq!(take(&mut b, &asked(EPHEMERAL, "a")), nothing());
    assert_eq!(give(&mut b, "a"), nothing());
    assert!(!b.exists());
    assert_eq!(take(&mut b, &Asked { secs: 1, ..asked(EPHEMERAL, "a") }), nothing());
    b.now_secs += 2;
    let info = b.call("lock", "get_info", enveloped(|e| e.string("name")));
    assert_eq!(info, no(Errno::EIO), "a method that may not write must not remove");
    assert_eq!(take(&mut b, &asked(EXCLUSIVE, "b")), nothing());
    assert_eq!(holders(&mut b), (1, EXCLUSIVE));
}

#[test]
fn a_holder_can_prove_it_and_change_its_cookie() {
    let mut b = Bench::new();
    let held = |e: &mut Encoder, cookie: &str| {
        e.string("name");
        e.u8(EXCLUSIVE);
        e.string(cookie);
        e.string("");
    };
    take(&mut b, &asked(EXCLUSIVE, "a")).expect("free");
    assert_eq!(b.call("lock", "assert_locked", enveloped(|e| held(e, "a"))), nothing());
    assert_eq!(b.call("lock", "assert_locked", enveloped(|e| held(e, "b"))), no(Errno::EBUSY));
    let change = enveloped(|e| {
        held(e, "a");
        e.string("b");
    });
    assert_eq!(b.call("lock", "set_cookie", change.clone()), nothing());
    assert_eq!(b.call("lock", "set_cookie", change), no(Errno::EBUSY));
    assert_eq!(b.call("lock", "assert_locked", enveloped(|e| held(e, "b"))), nothing());
    assert_eq!(b.call("lock", "assert_locked", "short"), no(Errno::EINVAL));
}
