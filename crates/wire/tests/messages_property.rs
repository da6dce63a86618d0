//! What we write, we read back: requests, answers and the payloads of operations, with names of any bytes.

use base::checksum::{CRC_SEED, crc32c};
use base::sums::Sums;
use base::{EVersion, Epoch, PgId, PoolId, SnapId};
use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use wire::messages::{Backoff, Body, Message, OpOutcome, OsdMap, OsdOp, OsdOpReply, Payload};
use wire::osd::payload::{ListEntry, ListReply, NotifyReply, OmapPage, OmapRange, Redirect, StatReply, xattr_parts};
use wire::osd::{HObject, ObjectLocator, OpCode, OpFlags, OsdOpItem, OsdReqId, RequestFlags, SnapContext, SpgId};
use wire::types::{EntityName, EntityType, UTime, Uuid};
use wire::{Decode, Encode};

fn blob(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn pg() -> impl Strategy<Value = PgId> {
    (any::<i64>(), any::<u32>()).prop_map(|(pool, seed)| PgId::new(PoolId(pool), seed))
}

fn spg() -> impl Strategy<Value = SpgId> {
    (pg(), any::<i8>()).prop_map(|(pg, shard)| SpgId { pg, shard })
}

fn utime() -> impl Strategy<Value = UTime> {
    (any::<u32>(), any::<u32>()).prop_map(|(secs, nanos)| UTime { secs, nanos })
}

fn eversion() -> impl Strategy<Value = EVersion> {
    (any::<u32>(), any::<u64>()).prop_map(|(epoch, version)| EVersion::new(Epoch(epoch), version))
}

fn locator() -> impl Strategy<Value = ObjectLocator> {
    let by_key = (any::<i64>(), blob(9), blob(9)).prop_map(|(pool, key, nspace)| (pool, key, nspace, -1));
    let by_hash = (any::<i64>(), blob(9), 0..1i64 << 32).prop_map(|(pool, ns, hash)| (pool, Bytes::new(), ns, hash));
    prop_oneof![by_key, by_hash].prop_map(|(pool, key, nspace, hash)| ObjectLocator {
        pool: PoolId(pool),
        key,
        nspace,
        hash,
    })
}

fn hobject() -> impl Strategy<Value = HObject> {
    (blob(9), blob(20), any::<u64>(), any::<u32>(), any::<bool>(), blob(9), any::<i64>()).prop_map(
        |(key, name, snap, hash, max, nspace, pool)| HObject {
            key,
            name,
            snap: SnapId(snap),
            hash,
            max,
            nspace,
            pool: PoolId(pool),
        },
    )
}

fn item() -> impl Strategy<Value = OsdOpItem> {
    (any::<u16>(), any::<u32>(), any::<[u8; 28]>(), blob(40)).prop_map(|(op, flags, args, payload)| OsdOpItem {
        op: OpCode(op),
        flags: OpFlags(flags),
        args,
        payload,
    })
}

fn request() -> impl Strategy<Value = OsdOp> {
    let place = (spg(), any::<u32>(), locator(), blob(30), any::<u64>(), any::<u64>(), vec(any::<u64>(), 0..4));
    let who = (any::<u8>(), any::<i64>(), any::<u64>(), any::<i32>());
    let rest = (any::<u32>(), any::<u32>(), any::<[u64; 3]>(), any::<u32>(), utime(), any::<i32>(), any::<u64>());
    (place, who, rest, vec(item(), 0..5)).prop_map(|(place, who, rest, ops)| {
        let (pgid, hash, locator, object, snap, seq, snaps) = place;
        let (map_epoch, flags, trace, client_inc, mtime, retry_attempt, features) = rest;
        OsdOp {
            map_epoch: Epoch(map_epoch),
            flags: RequestFlags(flags),
            reqid: OsdReqId { name: EntityName { kind: EntityType(who.0), num: who.1 }, tid: who.2, inc: who.3 },
            trace,
            client_inc,
            mtime,
            snap: SnapId(snap),
            snap_context: SnapContext { seq: SnapId(seq), snaps: snaps.into_iter().map(SnapId).collect() },
            retry_attempt,
            features,
            ..OsdOp::new(pgid, hash, locator, object, ops)
        }
    })
}

fn reply() -> impl Strategy<Value = OsdOpReply> {
    let outcomes =
        vec((item(), any::<i32>()).prop_map(|(item, result)| OpOutcome { result, ..OpOutcome::of(item) }), 0..5);
    let redirect = proptest::option::of((locator(), blob(9)));
    let rest = (any::<u64>(), any::<i32>(), any::<u32>(), any::<i32>(), any::<u64>(), any::<[u64; 3]>());
    (blob(30), pg(), eversion(), eversion(), outcomes, redirect, rest).prop_map(
        |(object, pg, bad_replay_version, replay_version, ops, redirect, rest)| OsdOpReply {
            object,
            pg,
            flags: rest.0,
            result: rest.1,
            bad_replay_version,
            map_epoch: Epoch(rest.2),
            ops,
            retry_attempt: rest.3,
            replay_version,
            user_version: rest.4,
            redirect: redirect.map(|(locator, object)| Redirect { locator, object }),
            trace: rest.5,
        },
    )
}

fn travels(message: impl Into<Message>) {
    let message = message.into();
    assert_eq!(Message::decode(message.clone().into_payload()), Ok(message));
}

fn survives<T: Encode + Decode + PartialEq + core::fmt::Debug>(value: T) {
    assert_eq!(T::from_bytes(&value.to_bytes()), Ok(value));
}

proptest! {
    #[test]
    fn requests_and_answers(request in request(), reply in reply()) {
        travels(request);
        travels(reply);
    }

    #[test]
    fn maps_and_backoffs(
        full in btree_map(any::<u32>().prop_map(Epoch), blob(50), 0..4),
        incremental in btree_map(any::<u32>().prop_map(Epoch), blob(50), 0..4),
        fsid: [u8; 16], begin in hobject(), end in hobject(), pgid in spg(), id: u64,
    ) {
        travels(OsdMap { fsid: Uuid(fsid), full, incremental, ..OsdMap::default() });
        travels(Backoff { pgid, id, begin, end, ..Backoff::default() });
    }

    #[test]
    fn payloads(
        keys in btree_set(blob(9), 0..9), pairs in btree_map(blob(9), blob(30), 0..9), truncated: bool,
        handle in hobject(), names in vec((blob(5), blob(9), blob(5)), 0..9), size: u64, mtime in utime(),
    ) {
        survives(OmapPage { found: keys, truncated });
        survives(OmapPage { found: pairs, truncated });
        survives(StatReply { size, mtime });
        survives(NotifyReply { answers: vec![((size, 1), handle.name.clone())], missed: vec![(2, size)] });
        let entries = names.into_iter().map(|(nspace, name, locator)| ListEntry { nspace, name, locator }).collect();
        survives(ListReply { handle, entries });
    }

    #[test]
    fn ranges_and_attributes(start_after in blob(9), max: u64, prefix in blob(9), name in blob(9), value in blob(9)) {
        let range = OmapRange { start_after, max, prefix };
        prop_assert_eq!(OmapRange::values(&range.to_values()), Ok(range.clone()));
        let keys = OmapRange { prefix: Bytes::new(), ..range };
        prop_assert_eq!(OmapRange::keys(&keys.to_keys()), Ok(keys));
        let item = OsdOpItem::xattr(OpCode::SETXATTR, &name, &value);
        prop_assert_eq!(xattr_parts(&item), Ok((name, value)));
    }

    #[test]
    fn the_order_of_objects_is_total(a in hobject(), b in hobject(), c in hobject()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b || (a.max && b.max));
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }
}

/// A request for so much, of no particular object.
fn asked(ops: Vec<OsdOpItem>) -> OsdOp {
    let pgid = SpgId { pg: PgId::new(PoolId(1), 0), shard: -1 };
    OsdOp::new(pgid, 0, ObjectLocator::new(PoolId(1)), Bytes::from_static(b"a"), ops)
}

#[test]
fn what_is_known_of_a_request_s_data_is_known_of_its_operation() {
    let data = Bytes::from(vec![5; 3 * 4096]);
    let item = OsdOpItem { payload: data.clone(), ..OsdOpItem::default() };
    let payload = asked(vec![item]).into_payload();
    let payload = Payload { sums: Sums::of(payload.data.clone()), ..payload };
    let request = OsdOp::from_payload(&payload).expect("it is one");
    let first = &request.ops[0].payload[..4096];
    assert_eq!(request.sums.find(first), Some(crc32c(CRC_SEED, first)));
}

#[test]
fn what_is_known_of_an_outcome_is_known_of_a_reply_without_another() {
    let outcome = |data: &'static [u8], sum| {
        let item = OsdOpItem { payload: Bytes::from_static(data), ..OsdOpItem::default() };
        OpOutcome { sum, ..OpOutcome::of(item) }
    };
    let known = |ops| {
        let payload = OsdOpReply { ops, ..OsdOpReply::to(&asked(Vec::new()), 0, Epoch(1)) }.into_payload();
        payload.sums.find(&payload.data)
    };
    assert_eq!(known(vec![outcome(b"", None), outcome(b"data", Some(7))]), Some(7));
    assert_eq!(known(vec![outcome(b"data", None)]), None);
    assert_eq!(known(vec![outcome(b"data", Some(7)), outcome(b"more", Some(8))]), None);
}

#[test]
fn a_lead_stands_before_what_came_out() {
    let outcome = |lead: &'static [u8], data: &'static [u8]| {
        let item = OsdOpItem { payload: Bytes::from_static(data), ..OsdOpItem::default() };
        OpOutcome { lead: Bytes::from_static(lead), sum: Some(7), ..OpOutcome::of(item) }
    };
    let reply = |ops| OsdOpReply { ops, ..OsdOpReply::to(&asked(Vec::new()), 0, Epoch(1)) };
    let alone = reply(vec![outcome(b"", b""), outcome(b"lead", b"data")]).into_payload();
    assert_eq!((&alone.lead[..], &alone.data[..], alone.sums.find(&alone.data)), (&b"lead"[..], &b"data"[..], Some(7)));
    let several = reply(vec![outcome(b"lead", b"data"), outcome(b"of", b""), outcome(b"", b"more")]).into_payload();
    assert_eq!((several.lead.len(), &several.data[..]), (0, &b"leaddataofmore"[..]));
    // What came is in one piece, and is dealt out by the lengths that the operations say.
    let came = Payload { lead: Bytes::new(), data: [&alone.lead[..], &alone.data].concat().into(), ..alone };
    let outputs = |payload| {
        let ops = OsdOpReply::from_payload(payload).expect("it is one").ops;
        ops.into_iter().map(|outcome| outcome.item.payload).collect::<Vec<_>>()
    };
    assert_eq!(outputs(&came), ["", "leaddata"]);
    assert_eq!(outputs(&several), ["leaddata", "of", "more"]);
}
