//! The extent store from outside: the contract, power cuts, flipped bits, failing devices, full ones.

mod disk;
mod driver;
mod reallocation;
mod restart;
mod workload;

use base::{Duration, Instant, Rng};
use bytes::Bytes;
use disk::Still;
use driver::{DEVICE_BYTES, Driven, LOG_BYTES, assert_clean, contents, formatted, formatted_apart, options, roomy};
use std::collections::BTreeMap;
use store::extent::layout::BLOCK;
use store::extent::{check, open};
use store::{
    CollectionId, CommitId, Completion, Extent, ExtentOptions, MemoryStore, ObjectStore, ObjectWant, Op, ReadId,
    ReadRequest, ReadResult, ReadWhat, StoreError, Transaction,
};
use workload::{COLLECTIONS, collection, object};

type Contents = Option<Vec<(String, store::ObjectView)>>;

/// Long after everything that was asked, as `Driven` asks at the beginning of time.
const LATER: Instant = Instant::from_secs(60);

#[test]
fn passes_the_conformance_suite() {
    store::conformance::run(Driven::new);
    store::conformance::run(|| Driven::open(formatted_apart(), options(), Rng::new(1)));
}

fn of_memory(model: &MemoryStore, id: CollectionId) -> Contents {
    contents(id, &mut |request| model.read(&request))
}

fn of_store(driven: &mut Driven, id: CollectionId) -> Contents {
    contents(id, &mut |request| driven.ask(request))
}

/// Random transactions, one after the other, now and then a checkpoint or a reopening; always the same as in memory.
#[test]
fn does_what_the_memory_store_does() {
    let mut reallocated = 0;
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let options = if seed % 2 == 0 { options() } else { roomy() };
        let mut driven = Driven::open(laid_down(seed), options, Rng::new(1));
        let mut model = MemoryStore::new();
        for step in 0..150 {
            let id = collection(rng.below(COLLECTIONS));
            let exists = of_memory(&model, id).is_some();
            let mut t = workload::transaction(&mut rng, id, exists);
            let other = collection(rng.below(COLLECTIONS));
            if other != id && !t.remove && rng.chance(1, 8) {
                let exists = of_memory(&model, other).is_some();
                workload::add_part(&mut rng, &mut t, other, exists);
            }
            driven.give_ahead(&mut rng, &mut t);
            assert_eq!(driven.commit(t.clone()), model.commit(&t), "seed {seed} step {step}");
            match rng.below(12) {
                0 => driven.checkpoint(),
                1 => {
                    driven.checkpoint();
                    let usage = driven.store.usage();
                    let media = driven.close();
                    assert_clean(&media, &format!("seed {seed} step {step}"));
                    driven = Driven::open(media, options, rng.fork());
                    assert_eq!(driven.store.usage(), usage, "nothing is held that nobody has: seed {seed} step {step}");
                }
                2 => driven.store.rest(LATER),
                _ => {}
            }
            assert_eq!(of_store(&mut driven, id), of_memory(&model, id), "seed {seed} step {step}");
            assert_eq!(of_store(&mut driven, other), of_memory(&model, other), "seed {seed} step {step}");
        }
        for id in (0..COLLECTIONS).map(collection) {
            assert_eq!(of_store(&mut driven, id), of_memory(&model, id), "seed {seed}");
        }
        reallocated += driven.store.counts().reallocated_bytes;
    }
    assert!(reallocated > 0, "reads in many pieces were among them");
}

/// What was submitted to a collection in one life, and what it held before.
#[derive(Default)]
struct History {
    states: Vec<Contents>,
    acknowledged: usize,
}

/// One life: transactions until the power goes. Gives what the disk holds then.
fn live(seed: u64, life: u64, mut driven: Driven, models: &mut BTreeMap<u64, MemoryStore>) -> Vec<u8> {
    let mut rng = driven.rng.fork();
    let mut histories: BTreeMap<u64, History> = BTreeMap::new();
    for index in 0..COLLECTIONS {
        let model = models.entry(index).or_default();
        histories.insert(index, History { states: vec![of_memory(model, collection(index))], acknowledged: 0 });
    }
    let mut ids: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    let cut_at = 20 + rng.below(600);
    let mut next = 0;
    while driven.disk.steps < cut_at {
        // Bursts, so that groups have several transactions.
        for _ in 0..rng.below(4) {
            let index = rng.below(COLLECTIONS);
            let (model, id) = (models.get_mut(&index).expect("made above"), collection(index));
            let history = histories.get_mut(&index).expect("made above");
            let exists = history.states.last().is_some_and(Option::is_some);
            let mut t = workload::transaction(&mut rng, id, exists);
            driven.give_ahead(&mut rng, &mut t);
            model.commit(&t).expect("it is valid");
            history.states.push(of_memory(model, id));
            next += 1;
            ids.insert(next, (index, history.states.len() - 1));
            driven.store.submit_commit(Instant::ZERO, CommitId(next), t);
        }
        // Whatever reads change of where data lies.
        let what = ReadWhat::Object(object(rng.below(6)), driver::everything());
        let id = collection(rng.below(COLLECTIONS));
        driven.store.submit_read(Instant::ZERO, ReadId(next), ReadRequest { collection: id, what });
        for _ in 0..1 + rng.below(6) {
            driven.step();
        }
        if rng.chance(1, 4) {
            driven.store.rest(LATER);
        }
        while let Some(completion) = driven.completion() {
            let Completion::Committed(id, result) = completion else { continue };
            assert_eq!(result, Ok(()), "seed {seed} life {life}");
            let (index, at) = ids[&id.0];
            let history = histories.get_mut(&index).expect("made above");
            assert_eq!(history.acknowledged + 1, at, "in order: seed {seed} life {life}");
            history.acknowledged = at;
        }
    }
    let Driven { disk, mut rng, .. } = driven;
    let media = disk.cut(&mut rng);
    let when = format!("seed {seed} life {life} after {cut_at} requests");
    assert_clean(&media, &when);
    let mut again = Driven::open(media.clone(), options(), Rng::new(seed));
    for (index, history) in histories {
        let id = collection(index);
        let found = of_store(&mut again, id);
        let kept = (history.acknowledged..history.states.len()).find(|&at| history.states[at] == found);
        assert!(kept.is_some(), "{when}: {id:?} holds no prefix with everything acknowledged: {found:?}");
        // The next life begins with what is there.
        let mut model = MemoryStore::new();
        if let Some(objects) = &found {
            model.commit(&Transaction::create(id)).expect("it is new");
            copy_into(&mut model, id, objects);
        }
        models.insert(index, model);
    }
    media
}

fn copy_into(model: &mut MemoryStore, id: CollectionId, objects: &[(String, store::ObjectView)]) {
    for (name, view) in objects {
        let object = (0..99).map(object).find(|o| format!("{o:?}") == *name).expect("one of ours");
        let mut t = Transaction::new(id);
        t.push(&object, Op::Truncate(view.size));
        t.push(&object, Op::Write(0, view.data[0].clone()));
        view.attrs.iter().for_each(|(n, v)| t.push(&object, Op::SetAttr(n.clone(), v.clone())));
        t.push(&object, Op::OmapHeader(view.omap_header.clone()));
        t.push(&object, Op::OmapSet(view.omap[0].entries.clone()));
        model.commit(&t).expect("it is valid");
    }
}

/// Every third store has devices of their own for its log and metadata.
fn laid_down(seed: u64) -> Vec<u8> {
    if seed % 3 == 2 { formatted_apart() } else { formatted(DEVICE_BYTES, LOG_BYTES) }
}

/// Whenever the power goes, a split and what follows it has happened in both collections or in neither.
#[test]
fn a_split_is_whole_whenever_the_power_goes() {
    for cut_at in 0..40 {
        let mut rng = Rng::new(cut_at);
        let (mut model, mut driven) = (MemoryStore::new(), Driven::open(laid_down(cut_at), options(), Rng::new(1)));
        let (parent, child) = (collection(1), collection(2));
        for _ in 0..20 {
            let exists = of_memory(&model, parent).is_some();
            let t = workload::transaction(&mut rng, parent, exists);
            assert_eq!(driven.commit(t.clone()), model.commit(&t));
        }
        if rng.chance(1, 2) {
            driven.checkpoint();
        }
        let both = |model: &MemoryStore| (of_memory(model, parent), of_memory(model, child));
        let mut states = vec![both(&model)];
        let mut split = Transaction::new(parent);
        if of_memory(&model, parent).is_none() {
            continue;
        }
        workload::add_part(&mut rng, &mut split, child, false);
        for (id, t) in [split, workload::transaction(&mut rng, child, true)].into_iter().enumerate() {
            model.commit(&t).expect("it is valid");
            states.push(both(&model));
            driven.store.submit_commit(Instant::ZERO, CommitId(90_000 + id as u64), t);
        }
        let mut acknowledged = 0;
        for _ in 0..cut_at {
            driven.step();
            while let Some(completion) = driven.completion() {
                let Completion::Committed(_, result) = completion else { panic!("nobody reads") };
                assert_eq!(result, Ok(()), "cut at {cut_at}");
                acknowledged += 1;
            }
        }
        let Driven { disk, mut rng, .. } = driven;
        let media = disk.cut(&mut rng);
        assert_clean(&media, &format!("cut at {cut_at}"));
        let mut again = Driven::open(media, options(), Rng::new(cut_at));
        let found = (of_store(&mut again, parent), of_store(&mut again, child));
        assert!(states[acknowledged..].contains(&found), "cut at {cut_at}: neither before nor after the split");
    }
}

/// Several lives of one store, each ended by a power cut.
fn lives(seed: u64) {
    let mut media = laid_down(seed);
    let mut models = BTreeMap::new();
    for life in 0..4 {
        let driven = Driven::open(media, options(), Rng::new(seed * 1000 + life));
        media = live(seed, life, driven, &mut models);
    }
    let media = Driven::open(media, options(), Rng::new(seed)).close();
    assert_clean(&media, &format!("seed {seed} at the end"));
}

#[test]
fn survives_power_cuts() {
    let seeds: u64 = std::env::var("LOLIGO_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    (0..seeds).for_each(lives);
}

/// A store with something of everything, stopped cleanly.
fn filled() -> (Vec<u8>, MemoryStore) {
    let mut rng = Rng::new(78);
    let (mut model, mut driven) = (MemoryStore::new(), Driven::new());
    for _ in 0..120 {
        let id = collection(rng.below(COLLECTIONS));
        let exists = of_memory(&model, id).is_some();
        let t = workload::transaction(&mut rng, id, exists);
        assert_eq!(driven.commit(t.clone()), model.commit(&t));
    }
    (driven.close(), model)
}

#[test]
fn flipped_bits_are_never_served() {
    let (media, model) = filled();
    let mut rng = Rng::new(5);
    let report = check(&mut Still(media.clone()), true);
    assert!(report.objects > 5 && report.pages > 3 && report.data_blocks > 50, "{report:?}");
    let mut found = 0;
    for round in 0..400 {
        let mut bad = media.clone();
        let at = match round % 4 {
            // The superblocks, the bitmap, the log's beginning; then the rest, most of which nothing uses.
            0 => rng.below(18 * 4096),
            1 => (round / 4) * 37 % 4096,
            _ => rng.below(media.len() as u64),
        };
        bad[at as usize] ^= 1 << rng.below(8);
        let report = check(&mut Still(bad.clone()), true);
        let seen = !report.problems.is_empty() || !report.torn_superblocks.is_empty();
        found += usize::from(seen);
        let Ok(store) = open(&mut Still(bad.clone()), options()) else {
            assert!(seen, "what does not open is not clean: byte {at}");
            continue;
        };
        drop(store);
        let mut driven = Driven::open(bad, options(), Rng::new(round));
        for id in (0..COLLECTIONS).map(collection) {
            let mut wrong = 0;
            for index in 0..6 {
                let request =
                    ReadRequest { collection: id, what: ReadWhat::Object(object(index), driver::everything()) };
                match (driven.ask(request.clone()), model.read(&request)) {
                    (Err(StoreError::Corrupt(_)), _) => wrong += 1,
                    (ours, theirs) => assert_eq!(ours, theirs, "byte {at}"),
                }
            }
            assert!(wrong == 0 || seen, "what a read finds, the check finds: byte {at}");
        }
    }
    assert!(found > 50, "some flips hit something: {found}");
}

/// A transaction that would keep a part of a block which cannot be read was refused, and the next ones of the same
/// collection were not: after a restart a log told of them, but not of the one before.
#[test]
fn a_transaction_that_meets_a_rotten_block_ends_its_collections_commits() {
    let mut driven = Driven::new();
    let (one, other) = (collection(1), collection(2));
    let write = |id, index, offset, byte, len| {
        let mut t = Transaction::new(id);
        t.push(&object(index), Op::Write(offset, vec![byte; len].into()));
        t
    };
    for id in [one, other] {
        driven.commit(Transaction::create(id)).expect("new");
    }
    driven.commit(write(one, 1, 0, 0xA5, 100_000)).expect("room");
    driven.checkpoint();
    let mut media = driven.close();
    let rotten = media.chunks_mut(4096).filter(|block| block.iter().all(|byte| *byte == 0xA5));
    assert!(rotten.map(|block| block[0] ^= 1).count() >= 24, "it is there");
    let mut driven = Driven::open(media, options(), Rng::new(1));
    assert!(matches!(driven.commit(write(one, 1, 50_000, 1, 10)), Err(StoreError::Corrupt(_))));
    assert!(matches!(driven.commit(write(one, 2, 0, 1, 10)), Err(StoreError::Corrupt(_))), "nothing after it");
    driven.commit(write(other, 1, 0, 1, 10)).expect("other collections go on");
    let mut driven = Driven::open(driven.close(), options(), Rng::new(2));
    let mut t = Transaction::new(one);
    [Op::Remove, Op::Write(0, vec![7; 100_000].into())].into_iter().for_each(|op| t.push(&object(1), op));
    driven.commit(t).expect("what replaces it needs nothing of it");
    driven.commit(write(one, 1, 50_000, 1, 10)).expect("and heals it");
}

/// A transaction that cannot fail changes its objects where they are. Some may have to be read first: then the others stay
/// what they are.
#[test]
fn a_transaction_that_waits_for_an_object_leaves_the_others_as_they_are() {
    let id = collection(1);
    // In leaves of their own.
    let all: Vec<u64> = (0..40).collect();
    let write = |of: &[u64], offset, byte| {
        let mut t = Transaction::new(id);
        for index in of {
            t.push(&object(*index), Op::Write(offset, vec![byte; 4096].into()));
            t.push(&object(*index), Op::SetAttr(Bytes::from_static(b"a"), vec![byte; 2000].into()));
        }
        t
    };
    let mut model = MemoryStore::new();
    let mut driven = Driven::new();
    driven.commit(Transaction::create(id)).expect("new");
    driven.commit(write(&all, 0, 1)).expect("room");
    let media = driven.close();
    model.commit(&Transaction::create(id)).expect("new");
    for (of, offset, byte) in [(&all[..], 0, 1), (&all[..1], 4096, 2), (&all, 8192, 3), (&all, 0, 4)] {
        model.commit(&write(of, offset, byte)).expect("room");
    }
    for seed in 0..20 {
        let mut driven = Driven::open(media.clone(), options(), Rng::new(seed));
        driven.commit(write(&all[..1], 4096, 2)).expect("room");
        driven.store.submit_commit(Instant::ZERO, CommitId(1), write(&all, 8192, 3));
        driven.store.submit_commit(Instant::ZERO, CommitId(2), write(&all, 0, 4));
        if seed % 2 == 0 {
            driven.store.request_checkpoint();
        }
        driven.settle();
        assert_eq!(of_store(&mut driven, id), of_memory(&model, id), "seed {seed}");
    }
}

#[test]
fn a_failed_write_ends_all_commits() {
    for seed in 0..30 {
        let mut driven = Driven::new();
        driven.rng = Rng::new(seed);
        let id = collection(1);
        driven.commit(Transaction::create(id)).expect("new");
        driven.disk.fail_after = Some(1 + seed * 3);
        let mut failed = false;
        for index in 0..200 {
            let mut t = Transaction::new(id);
            t.push(&object(index % 5), Op::Write(0, vec![1; 30_000].into()));
            match driven.commit(t) {
                Ok(()) => assert!(!failed, "nothing is acknowledged after a failure"),
                Err(error) => {
                    assert_eq!(error, StoreError::Device);
                    failed = true;
                }
            }
        }
        assert!(failed && driven.store.is_failed(), "seed {seed}");
        let request = ReadRequest { collection: id, what: ReadWhat::Object(object(0), ObjectWant::default()) };
        assert!(driven.ask(request).is_ok(), "reads are still served");
    }
}

#[test]
fn a_full_store_refuses_writes_and_takes_removals() {
    fill_and_empty(Driven::new());
    fill_and_empty(Driven::open(formatted_apart(), options(), Rng::new(2)));
}

fn fill_and_empty(mut driven: Driven) {
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    let write = |index: u64| {
        let mut t = Transaction::new(id);
        t.push(&object(index), Op::Write(0, vec![index as u8; 200_000].into()));
        t
    };
    for round in 0..3 {
        let mut written = 0;
        while driven.commit(write(written)).is_ok() {
            written += 1;
            assert!(written < 1000, "there is an end");
        }
        assert_eq!(driven.commit(write(written)), Err(StoreError::NoSpace), "round {round}");
        assert!(written > 50, "most of the device can be used: {written}");
        let what = ReadWhat::Object(
            object(3),
            ObjectWant { data: vec![Extent { offset: 0, len: 10 }], ..ObjectWant::default() },
        );
        let Ok(ReadResult::Object(view)) = driven.ask(ReadRequest { collection: id, what }) else { panic!("a view") };
        assert_eq!(view.data, [Bytes::from(vec![3; 10])], "reads go on");
        for index in 0..written {
            let mut t = Transaction::new(id);
            t.push(&object(index), Op::Remove);
            assert_eq!(driven.commit(t), Ok(()), "removals always go");
        }
        // Nothing else asks for the checkpoint that gives the room back.
        driven.settle();
        let usage = driven.store.usage();
        assert!(usage.free > usage.total * 3 / 4, "{usage:?}");
    }
    assert_clean(&driven.close(), "at the end");
}

fn map(id: store::CollectionId, entries: u32, bytes: usize) -> Transaction {
    let mut t = Transaction::new(id);
    let entry = |i: u32| (Bytes::from(format!("{i:06}")), Bytes::from(vec![i as u8; bytes]));
    t.push(&object(1), Op::OmapSet((0..entries).map(entry).collect()));
    t
}

#[test]
fn a_transaction_may_be_larger_than_the_log() {
    let mut driven = Driven::open(formatted(96 << 20, 8 << 20), options(), Rng::new(3));
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    // One after the other, so that each goes around the ring or beside it; among them small ones.
    for round in 0..8 {
        assert_eq!(driven.commit(map(id, 30, 120_000)), Ok(()), "round {round}");
        assert_eq!(driven.commit(map(id, 1, 10)), Ok(()), "round {round}");
        assert_eq!(driven.commit(map(id, 80, 120_000)), Ok(()), "round {round}");
    }
    assert_eq!(driven.commit(map(id, 400, 120_000)), Err(StoreError::NoSpace), "but not than the device");
    let expected = of_store(&mut driven, id);
    let Driven { disk, mut rng, .. } = driven;
    let media = disk.cut(&mut rng);
    assert_clean(&media, "after the cut");
    let mut again = Driven::open(media, options(), Rng::new(4));
    assert_eq!(of_store(&mut again, id), expected);
    again.checkpoint();
    again.checkpoint();
    let usage = again.store.usage();
    assert!(usage.total - usage.free < 12 << 20, "there is the map, and nothing that the log alone named: {usage:?}");
    assert_clean(&again.close(), "at the end");
}

#[test]
fn damage_to_an_entry_beside_the_log_is_found() {
    let mut driven = Driven::new();
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    driven.commit(map(id, 12, 26_000)).expect("there is room");
    // The next record says that it had become durable.
    driven.commit(map(id, 1, 10)).expect("there is room");
    let Driven { disk, mut rng, .. } = driven;
    let mut media = disk.cut(&mut rng);
    assert_clean(&media, "as it was written");
    let body = media.chunks_mut(4096).find(|block| block.iter().all(|byte| *byte == 7));
    body.expect("the entry lies somewhere")[99] ^= 1;
    assert!(!check(&mut Still(media.clone()), false).problems.is_empty());
    assert!(open(&mut Still(media), options()).is_err(), "what was acknowledged is not left out");
}

#[test]
fn what_is_removed_as_a_whole_is_not_read() {
    let mut driven = Driven::open(formatted(32 << 20, 8 << 20), options(), Rng::new(5));
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    driven.commit(map(id, 5_000, 100)).expect("there is room");
    let mut driven = Driven::open(driven.close(), options(), Rng::new(6));
    let mut t = Transaction::new(id);
    // All but the last hundred, with one of them written anew.
    t.push(&object(1), Op::OmapRemoveRange(Bytes::new(), "004900".into()));
    t.push(&object(1), Op::OmapSet(vec![("002000".into(), "anew".into())]));
    driven.commit(t).expect("there is room");
    driven.checkpoint();
    let reads = driven.store.counts().device_reads;
    assert!(reads < 12, "{reads} of about 70 leaves");
    let objects = of_store(&mut driven, id).expect("it is there");
    let keys: Vec<&[u8]> = objects[0].1.omap[0].entries.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!((keys.len(), keys[0], keys[1], keys[100]), (101, &b"002000"[..], &b"004900"[..], &b"004999"[..]));
    assert_clean(&driven.close(), "at the end");
}

#[test]
fn a_removed_collection_gives_its_space_back() {
    let mut driven = Driven::new();
    let free = driven.store.usage().free;
    let id = collection(2);
    driven.commit(Transaction::create(id)).expect("new");
    for index in 0..300 {
        let mut t = Transaction::new(id);
        t.push(&object(index), Op::Write(0, vec![7; 9000].into()));
        t.push(&object(index), Op::OmapSet(vec![(Bytes::from_static(b"k"), Bytes::from_static(b"v"))]));
        driven.commit(t).expect("there is room");
    }
    driven.checkpoint();
    driven.commit(Transaction::remove(id)).expect("it exists");
    driven.checkpoint();
    driven.checkpoint();
    let usage = driven.store.usage();
    assert!(free - usage.free < 100 * 4096, "{free} {usage:?}");
    assert_clean(&driven.close(), "at the end");
}

/// A device hears of free blocks when nobody asks for anything, and before that where much has come together.
#[test]
fn a_device_is_told_of_what_is_free_when_nobody_works() {
    let mut driven = Driven::new();
    let id = collection(2);
    driven.commit(Transaction::create(id)).expect("new");
    let write_and_remove = |driven: &mut Driven, blocks: u64| {
        let (mut write, mut remove) = (Transaction::new(id), Transaction::new(id));
        write.push(&object(1), Op::Write(0, vec![7; (blocks * BLOCK) as usize].into()));
        remove.push(&object(1), Op::Remove);
        driven.commit(write).expect("there is room");
        driven.commit(remove).expect("it exists");
        driven.checkpoint();
    };
    let told_until = |driven: &mut Driven, ms: u64| {
        driven.store.rest(Instant::ZERO + Duration::from_millis(ms));
        driven.settle();
        driven.disk.discarded / BLOCK
    };
    write_and_remove(&mut driven, 300);
    assert_eq!(told_until(&mut driven, 999), 0, "others may go on");
    assert_eq!(told_until(&mut driven, 1000), 300);
    write_and_remove(&mut driven, 40);
    assert_eq!(told_until(&mut driven, 2000), 300, "little is soon used again");
    write_and_remove(&mut driven, 1000);
    let busy = told_until(&mut driven, 0);
    assert!(busy > 1000, "{busy}: much is not kept until nobody works");
    assert_clean(&driven.close(), "at the end");
}

/// They come from the blocks' own: out of the log, out of the cache, from the device in one piece and in several.
#[test]
fn whole_blocks_come_with_their_checksum() {
    let mut driven = Driven::open(formatted(DEVICE_BYTES, LOG_BYTES), roomy(), Rng::new(1));
    let (id, blocks) = (collection(1), 32);
    driven.commit(Transaction::create(id)).expect("new");
    let mut rng = Rng::new(2);
    for index in (0..blocks).rev().chain([3, 9]) {
        let mut t = Transaction::new(id);
        let data: Vec<u8> = (0..BLOCK).map(|_| rng.below(256) as u8).collect();
        t.push(&object(1), Op::Write(index * BLOCK, data.into()));
        driven.commit(t).expect("there is room");
    }
    let mut t = Transaction::new(id);
    t.push(&object(1), Op::Write(blocks * BLOCK, vec![1; 100].into()));
    driven.commit(t).expect("there is room");
    let has_sum = |driven: &mut Driven, offset: u64, len: u64, uncached: bool| {
        let want = ObjectWant { data: vec![Extent { offset, len }], uncached, ..ObjectWant::default() };
        let request = ReadRequest { collection: id, what: ReadWhat::Object(object(1), want) };
        let Ok(ReadResult::Object(view)) = driven.ask_with_sums(request) else { panic!("it is there") };
        view.sums[0].is_some()
    };
    for in_place in [false, true] {
        for (uncached, index) in
            [true, false, false].into_iter().flat_map(|uncached| (0..8).map(move |n| (uncached, n)))
        {
            for count in [1, 2, 8, blocks - index] {
                assert!(has_sum(&mut driven, index * BLOCK, count * BLOCK, uncached), "{in_place} {index} {count}");
            }
            let parts = [(1, BLOCK), (0, BLOCK - 1), (0, 2 * BLOCK - 1), (BLOCK - 1, 2), (0, u64::MAX)];
            for (from, len) in parts {
                assert!(!has_sum(&mut driven, index * BLOCK + from, len, uncached), "{in_place} {index} {from} {len}");
            }
        }
        driven.checkpoint();
    }
}

/// What is read at once is kept as it came, where there is room for so much, and serves whoever asks for any of it.
#[test]
fn long_reads_are_kept_until_what_they_read_changes() {
    let mut driven = Driven::open(formatted(DEVICE_BYTES, LOG_BYTES), roomy(), Rng::new(1));
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    let mut content: Vec<u8> = (0..200_000u32).map(|at| (at / 7) as u8).collect();
    let mut t = Transaction::new(id);
    t.push(&object(1), Op::Write(0, content.clone().into()));
    driven.commit(t).expect("there is room");
    driven.settle();
    let read = |driven: &mut Driven, offset: u64, len: u64, uncached: bool| {
        let before = driven.store.counts().device_reads;
        let want = ObjectWant { data: vec![Extent { offset, len }], uncached, ..ObjectWant::default() };
        let request = ReadRequest { collection: id, what: ReadWhat::Object(object(1), want) };
        let Ok(ReadResult::Object(view)) = driven.ask(request) else { panic!("it is there") };
        (view.data[0].clone(), driven.store.counts().device_reads - before)
    };
    assert_eq!(
        read(&mut driven, 0, u64::MAX, true).1,
        read(&mut driven, 0, u64::MAX, true).1,
        "not kept if not wanted"
    );
    let (whole, reads) = read(&mut driven, 0, u64::MAX, false);
    assert!(whole == content && reads > 0, "{reads}");
    for (offset, len) in [(0, 200_000), (4096, 4096), (5000, 100_000), (199_000, 1)] {
        let (part, reads) = read(&mut driven, offset, len, false);
        assert!(part == content[offset as usize..(offset + len) as usize] && reads == 0, "{offset} {len}");
    }
    // Through the log and directly.
    for (offset, len) in [(70_000, 100), (20_000, 40_000)] {
        content[offset..offset + len].fill(0xEE);
        let mut t = Transaction::new(id);
        t.push(&object(1), Op::Write(offset as u64, vec![0xEE; len].into()));
        driven.commit(t).expect("there is room");
        assert!(read(&mut driven, 0, u64::MAX, false).0 == content);
        driven.checkpoint();
        assert!(read(&mut driven, 0, u64::MAX, false).0 == content);
    }
    assert_clean(&driven.close(), "at the end");
}

#[test]
fn data_in_its_place_does_not_stay_in_memory_until_the_checkpoint_ends() {
    for seed in 0..10 {
        // All of it goes by the log.
        let options = ExtentOptions { direct_min: 64 << 10, ..options() };
        let mut driven = Driven::open(formatted(DEVICE_BYTES, LOG_BYTES), options, Rng::new(seed));
        let id = collection(1);
        driven.commit(Transaction::create(id)).expect("new");
        for index in 0..3 {
            let mut t = Transaction::new(id);
            t.push(&object(index), Op::Write(0, vec![index as u8 + 1; 8_000].into()));
            driven.commit(t).expect("there is room");
        }
        let expected = of_store(&mut driven, id);
        let before = driven.store.counts();
        assert!(before.waiting_bytes >= 3 * 8_000, "{before:?}");
        driven.store.request_checkpoint();
        let mut gone = false;
        while driven.step() {
            let counts = driven.store.counts();
            gone |= counts.waiting_bytes == 0 && counts.checkpoints == before.checkpoints;
            if gone {
                break;
            }
        }
        assert!(gone, "seed {seed}");
        assert_eq!(of_store(&mut driven, id), expected, "seed {seed}");
        assert_clean(&driven.close(), "at the end");
    }
}

/// Data beyond what may wait in memory, a sixteenth of this log, goes to its place although no checkpoint is due; what
/// is written again meanwhile does not.
#[test]
fn what_waits_in_memory_is_bounded_without_a_checkpoint() {
    for seed in 0..20 {
        let mut driven = Driven::open(formatted(DEVICE_BYTES, LOG_BYTES), options(), Rng::new(seed));
        let (mut model, id) = (MemoryStore::new(), collection(1));
        let mut commit = |driven: &mut Driven, t: Transaction| {
            model.commit(&t).expect("it is valid");
            driven.commit(t).expect("there is room");
            assert_eq!(of_store(driven, id), of_memory(&model, id), "seed {seed}");
        };
        commit(&mut driven, Transaction::create(id));
        let mut write = |driven: &mut Driven, block: u64, byte: u8| {
            let mut t = Transaction::new(id);
            t.push(&object(block % 3), Op::Write(block * 4096, vec![byte; 4096].into()));
            commit(driven, t);
        };
        (0..3).for_each(|byte| write(&mut driven, 1, byte));
        driven.settle();
        let same = driven.store.counts();
        assert_eq!((same.waiting_bytes, same.checkpoint_bytes, same.checkpoints), (4096, 0, 0), "seed {seed}");
        (0..11).for_each(|block| write(&mut driven, block, 100 + block as u8));
        driven.settle();
        let counts = driven.store.counts();
        assert_eq!(counts.checkpoints, 0, "seed {seed}");
        assert!(counts.waiting_bytes <= LOG_BYTES / 16, "seed {seed}: {counts:?}");
        assert_eq!(counts.waiting_bytes + counts.checkpoint_bytes, 11 * 4096, "seed {seed}: {counts:?}");
        // What is in its place counts for nothing yet: the log still tells of it.
        let Driven { disk, mut rng, .. } = driven;
        let media = disk.cut(&mut rng);
        assert_clean(&media, &format!("seed {seed}"));
        let mut again = Driven::open(media, options(), rng);
        assert_eq!(of_store(&mut again, id), of_memory(&model, id), "seed {seed}");
        again.checkpoint();
        assert_eq!(of_store(&mut again, id), of_memory(&model, id), "seed {seed}");
    }
}

/// Where nobody writes any more nothing waits in memory, unless it is little.
#[test]
fn a_pause_is_used_for_a_checkpoint() {
    const LOG_BYTES: u64 = 16 << 20;
    let mut driven = Driven::open(formatted(192 << 20, LOG_BYTES), roomy(), Rng::new(3));
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    let write = |driven: &mut Driven, block: u64| {
        let mut t = Transaction::new(id);
        t.push(&object(1), Op::Write(block * BLOCK, vec![block as u8; BLOCK as usize].into()));
        driven.commit(t).expect("there is room");
    };
    let checkpoints_after = |driven: &mut Driven, blocks: core::ops::Range<u64>, ms: u64| {
        for block in blocks {
            write(driven, block);
        }
        driven.store.rest(Instant::ZERO + Duration::from_millis(ms));
        driven.settle();
        driven.store.counts().checkpoints
    };
    assert_eq!(checkpoints_after(&mut driven, 0..32, 2000), 0, "little is not worth one");
    assert_eq!(checkpoints_after(&mut driven, 32..128, 1999), 0, "others may go on");
    assert_eq!(checkpoints_after(&mut driven, 128..128, 2000), 1);
    let counts = driven.store.counts();
    assert_eq!((counts.waiting_bytes, counts.change_bytes), (0, 0));
    assert_eq!(checkpoints_after(&mut driven, 128..128, 60_000), 1, "there is nothing new");
    for block in 128..256 {
        write(&mut driven, block);
    }
    let rest = |driven: &mut Driven| driven.store.rest(Instant::ZERO + Duration::from_secs(60));
    let before = driven.store.counts().checkpoint_bytes;
    rest(&mut driven);
    while driven.store.counts().checkpoint_bytes == before {
        driven.step();
    }
    rest(&mut driven);
    write(&mut driven, 256);
    driven.settle();
    assert_eq!(driven.store.counts().checkpoints, 2, "what a checkpoint under way takes up asks for no other");
    assert_clean(&driven.close(), "at the end");
}

/// A checkpoint that wrote all at once took a slow disk for itself, from whose turn it was.
#[test]
fn a_checkpoint_is_spread_over_the_commits_beside_it() {
    const LOG_BYTES: u64 = 16 << 20;
    let mut driven = Driven::open(formatted(192 << 20, LOG_BYTES), roomy(), Rng::new(3));
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    let (mut next, mut open) = (0, 0);
    // Of each checkpoint: the log's bytes from its first write to its end, what it wrote, and most of that at once.
    let mut seen = Vec::new();
    let (mut began, mut at_once, mut most) = (None, 0, 0);
    let mut last = driven.store.counts();
    while seen.len() < 4 {
        // One by one: while a record is on its way, the next one grows.
        if open < 8 {
            let mut t = Transaction::new(id);
            t.push(&object(next % 200), Op::SetAttr("value".into(), Bytes::from(vec![next as u8; 3_000])));
            driven.store.submit_commit(Instant::ZERO, CommitId(next), t);
            (next, open) = (next + 1, open + 1);
        }
        driven.step();
        while let Some(completion) = driven.store.poll_completion() {
            assert!(matches!(completion, Completion::Committed(_, Ok(()))));
            open -= 1;
        }
        let counts = driven.store.counts();
        let wrote = counts.checkpoint_bytes - last.checkpoint_bytes;
        at_once = if counts.records == last.records { at_once + wrote } else { wrote };
        most = at_once.max(most);
        if wrote > 0 {
            began.get_or_insert((last.record_bytes, last.checkpoint_bytes));
        }
        if counts.checkpoints > last.checkpoints {
            let (log, before) = began.take().expect("it wrote something");
            seen.push((counts.record_bytes - log, counts.checkpoint_bytes - before, core::mem::take(&mut most)));
        }
        last = counts;
    }
    // The first one does not know how much it will be.
    for (log, wrote, at_once) in &seen[1..] {
        assert!((LOG_BYTES / 4 / 3..=LOG_BYTES / 4 * 3 / 4).contains(log) && *at_once < wrote / 2, "{seen:?}");
    }
    driven.settle();
    assert_clean(&driven.close(), "at the end");
}

/// An object of 4 MiB that was written block by block was read in a thousand requests at once, and whatever else needed the
/// device stood behind them: commits waited for seconds while a cluster recovered.
#[test]
fn a_read_in_many_pieces_does_not_take_the_device_for_itself() {
    let mut driven = Driven::new();
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    let content: Vec<u8> = (0..200 * BLOCK).map(|at| (at / BLOCK) as u8).collect();
    for (at, block) in content.chunks(BLOCK as usize).enumerate() {
        let mut t = Transaction::new(id);
        // Neighbours on the device belong to different objects.
        [1, 2].into_iter().for_each(|n| t.push(&object(n), Op::Write(at as u64 * BLOCK, block.to_vec().into())));
        driven.commit(t).expect("there is room");
    }
    let mut driven = Driven::open(driven.close(), options(), Rng::new(2));
    let want = ObjectWant { data: vec![Extent { offset: 0, len: u64::MAX }], ..ObjectWant::default() };
    for n in [1, 2] {
        let what = ReadWhat::Object(object(n), want.clone());
        driven.store.submit_read(Instant::ZERO, ReadId(n), ReadRequest { collection: id, what });
    }
    let (mut under_way, mut most, mut asked) = (0, 0, 0);
    loop {
        while let Some((id, io)) = driven.store.poll_device() {
            (under_way, asked) = (under_way + 1, asked + 1);
            driven.disk.submit(id, io);
        }
        most = most.max(under_way);
        let Some((id, result)) = driven.disk.step(&mut driven.rng) else { break };
        under_way -= 1;
        driven.store.device_done(id, result);
    }
    assert!(asked >= 400 && (32..=48).contains(&most), "{asked} requests, {most} at once");
    assert!(driven.store.is_quiet());
    for _ in [1, 2] {
        match driven.store.poll_completion() {
            Some(Completion::Read(_, Ok(ReadResult::Object(view)))) => assert!(view.data[0] == content),
            other => panic!("a read gives its object: {other:?}"),
        }
    }
}
