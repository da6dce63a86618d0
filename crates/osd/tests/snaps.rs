//! Snapshots against a model: whatever is written, removed and rolled back, under whatever snapshots, every snapshot
//! that is kept reads as the object was, on whichever member leads.

mod harness;

use base::{Duration, OsdId, Rng, SnapId};
use bytes::Bytes;
use harness::{Cluster, POOL};
use maps::pool::PoolFlags;
use osd::pg::snaps::index_object;
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::OsdOpReply;
use wire::osd::{OpCode, OpParams, OsdOpItem, SnapContext};

/// A clone as list-snaps tells of it: its number, its snapshots, its size, what it shares.
type Listed = (u64, Vec<u64>, u64, Vec<(u64, u64)>);

fn write(offset: u64, data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::WRITE, offset, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

fn write_full(data: &[u8]) -> OsdOpItem {
    OsdOpItem::extent(OpCode::WRITEFULL, 0, data.len() as u64).with_payload(Bytes::copy_from_slice(data))
}

fn rollback(snap: u64) -> OsdOpItem {
    OsdOpItem::new(OpCode::ROLLBACK).with_params(OpParams::Snap { snap: SnapId(snap) })
}

fn context(snaps: &[u64]) -> SnapContext {
    let seq = snaps.iter().max().copied().unwrap_or(0);
    let mut snaps: Vec<SnapId> = snaps.iter().copied().map(SnapId).collect();
    snaps.sort_unstable_by(|a, b| b.cmp(a));
    SnapContext { seq: SnapId(seq), snaps }
}

fn change(c: &mut Cluster, name: &str, snaps: &[u64], ops: Vec<OsdOpItem>) -> i32 {
    let mut op = c.request(name, ops);
    op.snap_context = context(snaps);
    c.call_op(op).result
}

fn at(c: &mut Cluster, name: &str, snap: SnapId, ops: Vec<OsdOpItem>) -> OsdOpReply {
    let mut op = c.request(name, ops);
    op.snap = snap;
    c.call_op(op)
}

fn read_at(c: &mut Cluster, name: &str, snap: SnapId) -> Result<Bytes, i32> {
    let reply = at(c, name, snap, vec![OsdOpItem::extent(OpCode::READ, 0, 0)]);
    if reply.result < 0 { Err(reply.result) } else { Ok(reply.ops[0].item.payload.clone()) }
}

fn listed(c: &mut Cluster, name: &str) -> Result<Vec<Listed>, i32> {
    let reply = at(c, name, SnapId::DIR, vec![OsdOpItem::new(OpCode::LIST_SNAPS)]);
    if reply.result < 0 {
        return Err(reply.result);
    }
    let payload = reply.ops[0].item.payload.clone();
    let mut d = wire::Decoder::shared(&payload);
    let clones = d.versioned("obj_list_snap_response_t", 2, |d, _| {
        let count = d.len(20)?;
        let mut clones = Vec::new();
        for _ in 0..count {
            clones.push(d.versioned("clone_info", 1, |d, _| {
                let (id, snaps, overlap, size) = (d.u64()?, d.get()?, d.get()?, d.u64()?);
                Ok((id, snaps, size, overlap))
            })?);
        }
        let _seq = d.u64()?;
        Ok(clones)
    });
    Ok(clones.expect("Ceph's encoding"))
}

fn remove_snaps(c: &mut Cluster, snaps: &[u64]) {
    c.publish(|_, inc| {
        let queue = inc.new_removed_snaps.entry(POOL).or_default();
        snaps.iter().for_each(|snap| queue.insert(SnapId(*snap)));
    });
}

fn head(size: u64) -> Listed {
    (SnapId::HEAD.0, vec![], size, vec![])
}

#[test]
fn the_reply_to_list_snaps_is_what_ceph_sends() {
    let golden = include_bytes!("../../wire/tests/golden/messages/0043_MOSDOpReply_68.bin");
    let mut c = Cluster::new(20, 1, 1, 1, 1);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(&[1; 50])]), 0);
    assert_eq!(change(&mut c, "x", &[1], vec![write_full(&[2; 5000])]), 0);
    let reply = at(&mut c, "x", SnapId::DIR, vec![OsdOpItem::new(OpCode::LIST_SNAPS)]);
    assert_eq!(reply.ops[0].item.payload.as_ref(), &golden[golden.len() - 86..]);
}

#[test]
fn a_write_under_a_new_snapshot_leaves_a_clone() {
    let mut c = Cluster::new(21, 3, 3, 2, 4);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(b"one")]), 0);
    assert_eq!(change(&mut c, "x", &[3, 2], vec![write(1, b"X")]), 0);
    assert_eq!(read_at(&mut c, "x", SnapId(2)).as_deref(), Ok(&b"one"[..]));
    assert_eq!(read_at(&mut c, "x", SnapId(3)).as_deref(), Ok(&b"one"[..]));
    assert_eq!(read_at(&mut c, "x", SnapId(1)), Err(-2));
    assert_eq!(read_at(&mut c, "x", SnapId(4)).as_deref(), Ok(&b"oXe"[..]), "nothing was written since");
    assert_eq!(listed(&mut c, "x"), Ok(vec![(3, vec![2, 3], 3, vec![(0, 1), (2, 1)]), head(3)]));
    // An old context leaves none, and nothing is forgotten of what was seen.
    assert_eq!(change(&mut c, "x", &[2], vec![write(0, b"Z")]), 0);
    assert_eq!(listed(&mut c, "x"), Ok(vec![(3, vec![2, 3], 3, vec![(2, 1)]), head(3)]));
    let mut ordered = c.request("x", vec![write(0, b"z")]);
    ordered.snap_context = context(&[2]);
    ordered.flags = ordered.flags | wire::osd::RequestFlags::ORDERSNAP;
    assert_eq!(c.call_op(ordered).result, -85);
    let mut wrong = c.request("x", vec![write(0, b"z")]);
    wrong.snap_context = SnapContext { seq: SnapId(3), snaps: vec![SnapId(2), SnapId(3)] };
    assert_eq!(c.call_op(wrong).result, -22);
    for osd in 1..3 {
        assert_eq!(c.store(osd).held_bytes(), c.store(0).held_bytes(), "every member has the same");
    }
}

#[test]
fn what_is_asked_of_the_wrong_life_is_refused() {
    let mut c = Cluster::new(22, 1, 1, 1, 1);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(b"one")]), 0);
    assert_eq!(change(&mut c, "x", &[1], vec![write_full(b"two")]), 0);
    assert_eq!(at(&mut c, "x", SnapId(1), vec![write_full(b"no")]).result, -22);
    assert_eq!(at(&mut c, "x", SnapId::DIR, vec![OsdOpItem::new(OpCode::STAT)]).result, -22);
    assert_eq!(at(&mut c, "x", SnapId::HEAD, vec![OsdOpItem::new(OpCode::LIST_SNAPS)]).result, -22);
    assert_eq!(listed(&mut c, "nothing"), Err(-2));
}

#[test]
fn a_deleted_object_with_clones_is_gone_and_comes_back() {
    let mut c = Cluster::new(23, 3, 3, 2, 2);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(b"one")]), 0);
    assert_eq!(change(&mut c, "x", &[1], vec![OsdOpItem::new(OpCode::DELETE)]), 0);
    assert_eq!(c.read("x"), Err(-2));
    assert_eq!(change(&mut c, "x", &[1], vec![OsdOpItem::new(OpCode::DELETE)]), -2);
    assert_eq!(at(&mut c, "x", SnapId::HEAD, vec![OsdOpItem::new(OpCode::STAT)]).result, -2);
    assert_eq!(read_at(&mut c, "x", SnapId(1)).as_deref(), Ok(&b"one"[..]));
    assert_eq!(read_at(&mut c, "x", SnapId(2)), Err(-2));
    assert_eq!(listed(&mut c, "x"), Ok(vec![(1, vec![1], 3, vec![])]));
    assert_eq!(change(&mut c, "x", &[2, 1], vec![write_full(b"again")]), 0);
    assert_eq!(read_at(&mut c, "x", SnapId(2)), Err(-2), "it was deleted then");
    assert_eq!(c.read("x").as_deref(), Ok(&b"again"[..]));
    assert_eq!(change(&mut c, "x", &[2, 1], vec![rollback(1)]), 0);
    assert_eq!(c.read("x").as_deref(), Ok(&b"one"[..]));
    assert_eq!(change(&mut c, "x", &[2, 1], vec![rollback(2)]), 0);
    assert_eq!(c.read("x"), Err(-2), "rolled back to when it was deleted");
}

#[test]
fn a_pools_own_snapshots_are_kept_whatever_the_client_says() {
    let mut c = Cluster::new(24, 3, 3, 2, 2);
    assert_eq!(c.write("x", b"one"), 0);
    let mut pool = maps::PgPool::clone(c.map.pool(POOL).expect("the pool"));
    let snap = pool.add_snap("s", Default::default(), c.map.epoch.next());
    assert!(pool.flags.contains(PoolFlags::POOL_SNAPS));
    c.publish(|_, inc| inc.new_pools.extend([(POOL, pool.clone())]));
    c.settle();
    assert_eq!(c.write("x", b"two"), 0);
    assert_eq!(read_at(&mut c, "x", snap).as_deref(), Ok(&b"one"[..]));
    assert_eq!(c.read("x").as_deref(), Ok(&b"two"[..]));
}

/// What an object is to the model: data, one attribute, one map entry.
type Content = Option<(Vec<u8>, Bytes)>;

struct Model {
    head: Content,
    /// By snapshot: what it was; with none where the snapshot was taken while it was not there.
    past: BTreeMap<u64, Content>,
}

/// Random changes and reads under snapshots that come and go, with members that come and go.
fn random_life(seed: u64, faults: bool) {
    let mut c = Cluster::new(300 + seed, 3, 3, 2, 2);
    let mut rng = Rng::new(seed);
    let names = ["a", "b", "c"];
    let mut models: BTreeMap<&str, Model> =
        names.iter().map(|name| (*name, Model { head: None, past: BTreeMap::new() })).collect();
    let (mut snaps, mut newest): (BTreeSet<u64>, u64) = (BTreeSet::new(), 0);
    for step in 0..150 {
        let name = names[rng.below(3) as usize];
        let all: Vec<u64> = snaps.iter().copied().collect();
        let model = models.get_mut(name).expect("one of them");
        match rng.below(20) {
            0..=2 => {
                newest += 1 + rng.below(2);
                snaps.insert(newest);
                models.values_mut().for_each(|m| drop(m.past.insert(newest, m.head.clone())));
            }
            3 if !snaps.is_empty() => {
                let gone = all[rng.below(all.len() as u64) as usize];
                snaps.remove(&gone);
                models.values_mut().for_each(|m| drop(m.past.remove(&gone)));
                remove_snaps(&mut c, &[gone]);
            }
            4 | 5 => {
                let result = change(&mut c, name, &all, vec![OsdOpItem::new(OpCode::DELETE)]);
                assert_eq!(result, if model.head.is_some() { 0 } else { -2 }, "seed {seed} step {step}");
                model.head = None;
            }
            6 | 7 if !all.is_empty() => {
                let to = all[rng.below(all.len() as u64) as usize];
                assert_eq!(change(&mut c, name, &all, vec![rollback(to)]), 0, "seed {seed} step {step}");
                model.head = model.past[&to].clone();
            }
            8 if faults => {
                let victim = rng.below(3) as i32;
                if c.is_running(victim) && (0..3).all(|osd| c.is_running(osd)) {
                    c.kill(victim);
                } else if !c.is_running(victim) {
                    c.start(victim);
                }
                c.settle();
            }
            9..=12 => {
                for (snap, content) in &models[name].past {
                    let told = read_at(&mut c, name, SnapId(*snap)).ok().map(|data| data.to_vec());
                    let wanted = content.as_ref().map(|(data, _)| data.clone());
                    assert_eq!(told, wanted, "seed {seed} step {step}: {name} at {snap}");
                }
            }
            _ => random_change(&mut c, &mut rng, name, &all, model),
        }
        let model = &models[name];
        let told = c.read(name).ok().map(|data| data.to_vec());
        assert_eq!(told, model.head.as_ref().map(|(data, _)| data.clone()), "seed {seed} step {step}: {name}");
    }
    (0..3).filter(|osd| !c.is_running(*osd)).collect::<Vec<_>>().into_iter().for_each(|osd| c.start(osd));
    c.settle();
    check_all(&mut c, &models, seed);
    // Whoever leads has the same.
    c.kill(seed as i32 % 3);
    c.settle();
    check_all(&mut c, &models, seed);
    c.start(seed as i32 % 3);
    // When all snapshots are gone, so are all clones, on every member.
    let all: Vec<u64> = snaps.iter().copied().collect();
    remove_snaps(&mut c, &all);
    c.settle();
    for (name, model) in &models {
        let wanted = model.head.as_ref().map(|(data, _)| vec![head(data.len() as u64)]).ok_or(-2);
        assert_eq!(listed(&mut c, name), wanted, "seed {seed}: {name}");
    }
}

fn random_change(c: &mut Cluster, rng: &mut Rng, name: &str, snaps: &[u64], model: &mut Model) {
    let (mut data, attr) = model.head.clone().unwrap_or_default();
    let (offset, len) = (rng.below(300) as usize, 1 + rng.below(200) as usize);
    let fill = vec![rng.below(255) as u8 + 1; len];
    let item = match rng.below(6) {
        0 | 1 => {
            data.resize(data.len().max(offset + len), 0);
            data[offset..offset + len].copy_from_slice(&fill);
            write(offset as u64, &fill)
        }
        2 => {
            data = fill.clone();
            write_full(&fill)
        }
        3 => {
            data.extend_from_slice(&fill);
            OsdOpItem::extent(OpCode::APPEND, 0, len as u64).with_payload(fill)
        }
        4 if model.head.is_some() => {
            data.resize(offset, 0);
            OsdOpItem::extent(OpCode::TRUNCATE, offset as u64, 0)
        }
        5 if model.head.is_some() => {
            if offset + len >= data.len() {
                data.truncate(offset.min(data.len()));
            } else {
                data[offset..offset + len].fill(0);
            }
            OsdOpItem::extent(OpCode::ZERO, offset as u64, len as u64)
        }
        _ => {
            data = fill.clone();
            write_full(&fill)
        }
    };
    assert_eq!(change(c, name, snaps, vec![item]), 0);
    model.head = Some((data, attr));
}

fn check_all(c: &mut Cluster, models: &BTreeMap<&str, Model>, seed: u64) {
    for (name, model) in models {
        for (snap, content) in &model.past {
            let told = read_at(c, name, SnapId(*snap)).ok().map(|data| data.to_vec());
            assert_eq!(told, content.as_ref().map(|(data, _)| data.clone()), "seed {seed}: {name} at {snap}");
        }
        check_overlaps(c, name, model, seed);
    }
}

/// What a clone is said to share with the next life is the same in both.
fn check_overlaps(c: &mut Cluster, name: &str, model: &Model, seed: u64) {
    let Ok(clones) = listed(c, name) else { return };
    for pair in clones.windows(2) {
        let ((id, snaps, size, shared), next) = (&pair[0], &pair[1]);
        let Some(snap) = snaps.last() else { continue };
        let old = read_at(c, name, SnapId(*snap)).unwrap_or_else(|e| panic!("seed {seed}: {name} at {snap}: {e}"));
        assert_eq!(old.len() as u64, *size, "seed {seed}: {name} clone {id}");
        let new = if next.0 == SnapId::HEAD.0 {
            model.head.as_ref().map(|(data, _)| data.clone()).unwrap_or_default()
        } else {
            let Some(at) = next.1.last() else { continue };
            read_at(c, name, SnapId(*at)).map(|data| data.to_vec()).unwrap_or_default()
        };
        for (offset, len) in shared {
            let range = *offset as usize..(*offset + *len) as usize;
            assert_eq!(old.get(range.clone()), new.get(range), "seed {seed}: {name} clone {id} shares {offset}~{len}");
        }
    }
}

#[test]
fn random_lives_keep_their_past() {
    (0..12).for_each(|seed| random_life(seed, false));
}

#[test]
fn random_lives_keep_their_past_while_members_come_and_go() {
    (50..56).for_each(|seed| random_life(seed, true));
}

#[test]
fn a_member_that_missed_snapshots_is_made_equal() {
    let mut c = Cluster::new(30, 3, 3, 2, 1);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(b"one")]), 0);
    let (_, _, primary) = c.locate("x");
    c.kill(primary);
    c.settle();
    assert_eq!(change(&mut c, "x", &[1], vec![write_full(b"two")]), 0);
    assert_eq!(change(&mut c, "x", &[2, 1], vec![OsdOpItem::new(OpCode::DELETE)]), 0);
    c.start(primary);
    c.settle();
    assert!(c.map.is_up(OsdId(primary)));
    // It leads again, and has what it missed.
    assert_eq!(c.locate("x").2, primary);
    assert_eq!(read_at(&mut c, "x", SnapId(1)).as_deref(), Ok(&b"one"[..]));
    assert_eq!(read_at(&mut c, "x", SnapId(2)).as_deref(), Ok(&b"two"[..]));
    assert_eq!(c.read("x"), Err(-2));
    c.settle_for(Duration::from_millis(300));
}

/// Every PG says that these are purged: the monitor's part of it.
fn all_purged(c: &Cluster, snaps: &[u64]) -> bool {
    let stats: Vec<maps::stats::PgStat> = c.pg_stats.values().map(harness::open).collect();
    !stats.is_empty() && stats.iter().all(|stat| snaps.iter().all(|snap| stat.purged_snaps.contains(SnapId(*snap))))
}

#[test]
fn removed_snapshots_are_trimmed_on_every_member() {
    let mut c = Cluster::new(31, 3, 3, 2, 4);
    for i in 0..40u8 {
        let name = format!("o{i}");
        assert_eq!(change(&mut c, &name, &[], vec![write_full(&[i; 100])]), 0);
        assert_eq!(change(&mut c, &name, &[1], vec![write(0, b"new")]), 0);
        assert_eq!(change(&mut c, &name, &[2, 1], vec![write(0, b"newer")]), 0);
    }
    assert_eq!(change(&mut c, "o7", &[3, 2, 1], vec![OsdOpItem::new(OpCode::DELETE)]), 0);
    remove_snaps(&mut c, &[2, 3]);
    c.settle();
    assert!(all_purged(&c, &[2, 3]), "{:#?}", c.log);
    let (pg, _, leads) = c.locate("o3");
    let query = c.admin(leads, &format!(r#"{{"prefix":"query","pgid":"{pg}"}}"#));
    assert_eq!(query["info"]["purged_snaps"], serde_json::json!([{"start": "2", "length": "2"}]));
    assert_eq!((&query["snap_trimq"], &query["snap_trimq_len"]), (&"[]".into(), &0.into()));
    assert_eq!(listed(&mut c, "o3").map(|l| l.len()), Ok(2));
    assert_eq!(read_at(&mut c, "o3", SnapId(1)).as_deref(), Ok(&[3; 100][..]));
    assert_eq!(read_at(&mut c, "o3", SnapId(2)), Err(-2));
    // Nothing is made for what is being removed.
    assert_eq!(change(&mut c, "o3", &[3, 2, 1], vec![write(0, b"newest")]), 0);
    assert_eq!(listed(&mut c, "o3").map(|l| l.len()), Ok(2));
    // The next one to lead goes on where this one was.
    let (_, _, primary) = c.locate("o3");
    c.kill(primary);
    c.settle();
    remove_snaps(&mut c, &[1]);
    c.settle();
    c.start(primary);
    c.settle();
    assert!(all_purged(&c, &[1, 2, 3]), "{:#?}", c.log);
    assert_eq!(listed(&mut c, "o3"), Ok(vec![head(100)]));
    assert_eq!(listed(&mut c, "o7"), Err(-2), "nothing is left of what was deleted");
    let sums: Vec<i64> = c
        .pg_stats
        .values()
        .map(|s| harness::open::<maps::stats::PgStat>(s).stats.sum)
        .map(|sum| {
            assert_eq!(sum.num_object_clones, 0);
            sum.num_objects
        })
        .collect();
    assert_eq!(sums.iter().sum::<i64>(), 39);
}

#[test]
fn nosnaptrim_stops_trimming_for_as_long() {
    let mut c = Cluster::new(32, 3, 3, 2, 1);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(b"one")]), 0);
    assert_eq!(change(&mut c, "x", &[1], vec![write_full(b"two")]), 0);
    let flags = c.map.flags;
    c.publish(|_, inc| inc.new_flags = Some(flags.with(maps::osd_map::MapFlags::NOSNAPTRIM)));
    remove_snaps(&mut c, &[1]);
    c.settle();
    assert_eq!(listed(&mut c, "x").map(|l| l.len()), Ok(2));
    c.publish(|_, inc| inc.new_flags = Some(flags));
    c.settle();
    assert_eq!(listed(&mut c, "x"), Ok(vec![head(3)]));
}

/// What is to be trimmed cannot be read: that is shown, and tried again with the next map that says what is to be removed.
#[test]
fn trimming_that_fails_is_shown_and_begins_again() {
    let mut c = Cluster::new(33, 3, 3, 2, 1);
    assert_eq!(change(&mut c, "x", &[], vec![write_full(b"one")]), 0);
    assert_eq!(change(&mut c, "x", &[1], vec![write_full(b"two")]), 0);
    let (pg, _, primary) = c.locate("x");
    c.rotten.insert((primary, index_object()));
    remove_snaps(&mut c, &[1]);
    c.settle();
    let state = |c: &Cluster| harness::open::<maps::stats::PgStat>(&c.pg_stats[&pg]).state;
    assert_eq!(state(&c).to_string(), "active+clean+snaptrim_error");
    assert_eq!(listed(&mut c, "x").map(|l| l.len()), Ok(2));
    c.rotten.clear();
    remove_snaps(&mut c, &[2]);
    c.settle();
    assert_eq!(state(&c).to_string(), "active+clean");
    assert!(all_purged(&c, &[1, 2]), "{:#?}", c.log);
}
