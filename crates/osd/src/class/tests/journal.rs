//! `journal`: sets, clients, tags and guarded appends.

use super::bench::{Bench, no, nothing, text};
use base::Errno;
use bytes::Bytes;
use wire::{Encode, Encoder};

fn encoded(body: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut e = Encoder::new();
    body(&mut e);
    e.finish()
}

fn journal() -> Bench {
    let mut b = Bench::new();
    let create = encoded(|e| {
        e.u8(24);
        e.u8(4);
        e.i64(7);
    });
    assert_eq!(b.call("journal", "create", create.clone()), nothing());
    assert_eq!(b.call("journal", "create", create), no(Errno::EEXIST));
    b
}

fn number(n: u64) -> Bytes {
    n.to_bytes()
}

fn register(b: &mut Bench, id: &str) -> Result<Bytes, i32> {
    b.call("journal", "client_register", [text(id), text("data")].concat())
}

fn commit(b: &mut Bench, id: &str, tags: &[u64]) -> Result<Bytes, i32> {
    let input = encoded(|e| {
        e.string(id);
        e.versioned(1, 1, |e| {
            e.len(tags.len());
            for tag in tags {
                e.versioned(1, 1, |e| [0, *tag, 1].into_iter().for_each(|n| e.u64(n)));
            }
        });
    });
    b.call("journal", "client_commit", input)
}

fn create_tag(b: &mut Bench, id: u64, class: u64) -> Result<Bytes, i32> {
    let input = encoded(|e| {
        e.u64(id);
        e.u64(class);
        e.string("who");
    });
    b.call("journal", "tag_create", input)
}

/// The ids of the tags that a client has to know.
fn tags(b: &mut Bench, client: &str) -> Vec<u64> {
    let input = encoded(|e| {
        [0, 100].into_iter().for_each(|n| e.u64(n));
        e.string(client);
        e.bool(false);
    });
    let reply = b.call("journal", "tag_list", input).expect("a client");
    let mut d = wire::Decoder::shared(&reply);
    let count = d.u32().expect("a count");
    (0..count).map(|_| d.versioned("tag", 1, |d, _| d.u64()).expect("a tag")).collect()
}

#[test]
fn sets_only_grow_and_stay_in_order() {
    let mut b = journal();
    assert_eq!(b.call("journal", "get_order", ""), Ok(Bytes::from_static(&[24])));
    assert_eq!(b.call("journal", "get_pool_id", ""), Ok(number(7)));
    assert_eq!(b.call("journal", "set_active_set", number(5)), nothing());
    assert_eq!(b.call("journal", "set_active_set", number(4)), no(Errno::ESTALE));
    assert_eq!(b.call("journal", "set_minimum_set", number(6)), no(Errno::EINVAL));
    assert_eq!(b.call("journal", "set_minimum_set", number(3)), nothing());
    assert_eq!(b.call("journal", "set_active_set", number(2)), no(Errno::EINVAL));
    assert_eq!(b.call("journal", "get_minimum_set", ""), Ok(number(3)));
    assert_eq!(b.call("journal", "set_minimum_set", ""), no(Errno::EINVAL));
}

#[test]
fn tags_that_no_client_needs_are_pruned() {
    let mut b = journal();
    assert_eq!(register(&mut b, ""), nothing());
    assert_eq!(register(&mut b, "mirror"), nothing());
    assert_eq!(register(&mut b, "mirror"), no(Errno::EEXIST));
    assert_eq!(create_tag(&mut b, 0, u64::MAX), nothing());
    assert_eq!(create_tag(&mut b, 0, 0), no(Errno::EEXIST));
    assert_eq!(create_tag(&mut b, 5, 0), no(Errno::ESTALE));
    assert_eq!(create_tag(&mut b, 1, 9), no(Errno::EINVAL));
    assert_eq!(create_tag(&mut b, 1, 0), nothing());
    assert_eq!(create_tag(&mut b, 2, 0), nothing());
    assert_eq!(b.call("journal", "get_next_tag_tid", ""), Ok(number(3)));
    assert_eq!(commit(&mut b, "", &[2]), nothing());
    assert_eq!(commit(&mut b, "", &[0; 5]), no(Errno::EINVAL));
    assert_eq!(tags(&mut b, ""), [2]);
    assert_eq!(tags(&mut b, "mirror"), [0, 1, 2], "nothing committed yet: everything is needed");
    assert_eq!(b.call("journal", "client_unregister", text("mirror")), nothing());
    assert_eq!(b.call("journal", "client_unregister", text("mirror")), no(Errno::ENOENT));
    assert_eq!(b.call("journal", "get_tag", number(1)), no(Errno::ENOENT), "pruned");
    assert!(b.call("journal", "get_tag", number(2)).is_ok());
    assert_eq!(register(&mut b, "late"), nothing());
    assert_eq!(tags(&mut b, "late"), [2], "begins where the other is");
}

#[test]
fn clients_are_kept_and_listed() {
    let mut b = journal();
    for id in ["a", "b", "c"] {
        register(&mut b, id).expect("new");
    }
    let update = [text("b"), text("news")].concat();
    assert_eq!(b.call("journal", "client_update_data", update), nothing());
    let state = encoded(|e| {
        e.string("b");
        e.u8(1);
    });
    assert_eq!(b.call("journal", "client_update_state", state), nothing());
    let client = b.call("journal", "get_client", text("b")).expect("registered");
    assert_eq!(client.last(), Some(&1));
    let list = encoded(|e| {
        e.string("a");
        e.u64(1);
    });
    let reply = b.call("journal", "client_list", list).expect("a journal");
    assert_eq!(reply, [&1u32.to_le_bytes()[..], &client].concat());
}

#[test]
fn appends_stop_at_the_soft_limit() {
    let mut b = Bench::new();
    let append = |max: u64, data: &str| [number(max), text(data)].concat();
    assert_eq!(b.call("journal", "guard_append", number(10)), nothing());
    assert_eq!(b.call("journal", "append", append(10, "12345")), nothing());
    assert_eq!(b.call("journal", "append", append(10, "67890")), nothing());
    assert_eq!(b.call("journal", "append", append(10, "x")), no(Errno::EOVERFLOW));
    assert_eq!(b.call("journal", "guard_append", number(10)), no(Errno::EOVERFLOW));
    assert_eq!(b.call("journal", "guard_append", number(11)), nothing());
}
