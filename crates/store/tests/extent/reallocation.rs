//! Ranges that are laid out anew once they were read in many pieces.

use crate::driver::{DEVICE_BYTES, Driven, LOG_BYTES, assert_clean, everything, formatted, options};
use crate::workload::{collection, object};
use base::{Instant, Rng};
use store::extent::layout::BLOCK;
use store::{
    CollectionId, CommitId, Extent, ObjectStore, ObjectWant, Op, ReadId, ReadRequest, ReadResult, ReadWhat, Transaction,
};

const BLOCKS: u64 = 64;
const BYTES: usize = (BLOCKS * BLOCK) as usize;

fn id() -> CollectionId {
    collection(1)
}

fn write(driven: &mut Driven, offset: u64, data: &[u8]) {
    let mut t = Transaction::new(id());
    t.push(&object(1), Op::Write(offset, data.to_vec().into()));
    driven.commit(t).expect("there is room");
}

/// A store with an object that was written block by block, in no order, and what the object holds.
fn scattered(seed: u64) -> (Driven, Vec<u8>) {
    let mut driven = Driven::open(formatted(DEVICE_BYTES, LOG_BYTES), options(), Rng::new(seed));
    driven.commit(Transaction::create(id())).expect("new");
    let mut rng = Rng::new(seed);
    let mut content = vec![0; BYTES];
    rng.fill(&mut content);
    // Every block is written once, as the step has no factor in common with their number.
    for at in 0..BLOCKS {
        let from = (at * 27 % BLOCKS * BLOCK) as usize;
        write(&mut driven, from as u64, &content[from..from + BLOCK as usize]);
    }
    driven.checkpoint();
    (driven, content)
}

fn question(uncached: bool) -> ReadRequest {
    let data = vec![Extent { offset: 0, len: u64::MAX }];
    let want = ObjectWant { data, uncached, ..ObjectWant::default() };
    ReadRequest { collection: id(), what: ReadWhat::Object(object(1), want) }
}

/// What the object holds, and how many reads of the device that took.
fn read(driven: &mut Driven, uncached: bool) -> (Vec<u8>, u64) {
    let before = driven.store.counts().device_reads;
    match driven.ask(question(uncached)) {
        Ok(ReadResult::Object(view)) => (view.data[0].to_vec(), driven.store.counts().device_reads - before),
        other => panic!("a read gives the object: {other:?}"),
    }
}

#[test]
fn what_was_read_in_many_pieces_lies_together() {
    let (mut driven, content) = scattered(1);
    let usage = driven.store.usage();
    let (found, reads) = read(&mut driven, true);
    assert!(found == content && reads == BLOCKS, "{reads}");
    driven.settle();
    assert_eq!(driven.store.counts().reallocated_bytes, 0, "a read that is not to be remembered changes nothing");
    assert!(read(&mut driven, false).0 == content);
    driven.checkpoint();
    assert_eq!(driven.store.counts().reallocated_bytes, BYTES as u64);
    assert_eq!(driven.store.usage(), usage, "the old blocks are free");
    let (found, reads) = read(&mut driven, true);
    assert!(found == content && reads <= 2, "{reads}");
    let media = driven.close();
    assert_clean(&media, "at the end");
    let mut again = Driven::open(media, options(), Rng::new(2));
    assert!(read(&mut again, false).0 == content);
}

#[test]
fn what_has_more_than_one_holder_stays_where_it_is() {
    let (mut driven, content) = scattered(1);
    let mut t = Transaction::new(id());
    t.clone_object(&object(1), &object(2));
    driven.commit(t).expect("there is room");
    assert!(read(&mut driven, false).0 == content);
    driven.settle();
    assert_eq!(driven.store.counts().reallocated_bytes, 0);
}

/// Whatever is written while the range is on its way, and whenever.
#[test]
fn what_is_written_meanwhile_is_kept() {
    let mut moved = 0;
    for steps in 0..100 {
        let (mut driven, mut content) = scattered(steps);
        driven.store.submit_read(Instant::ZERO, ReadId(1), question(false));
        for _ in 0..steps {
            driven.step();
        }
        let from = steps as usize * 2000;
        content[from..from + 5000].fill(0xEE);
        write(&mut driven, from as u64, &[0xEE; 5000]);
        driven.settle();
        moved += driven.store.counts().reallocated_bytes / BYTES as u64;
        assert!(read(&mut driven, false).0 == content, "after {steps} steps");
        assert_clean(&driven.close(), &format!("after {steps} steps"));
    }
    assert!((1..100).contains(&moved), "before some writes, and not after others: {moved}");
}

#[test]
fn a_power_cut_meanwhile_changes_nothing() {
    for steps in 0..150 {
        let (mut driven, content) = scattered(steps);
        driven.store.submit_read(Instant::ZERO, ReadId(1), question(false));
        // What is committed beside it takes its record to the device.
        let mut t = Transaction::new(id());
        t.push(&object(3), Op::Touch);
        for step in 0..steps {
            if step == 80 {
                driven.store.submit_commit(Instant::ZERO, CommitId(1), t.clone());
            }
            driven.step();
        }
        let Driven { disk, mut rng, .. } = driven;
        let media = disk.cut(&mut rng);
        assert_clean(&media, &format!("after {steps} steps"));
        let mut again = Driven::open(media, options(), Rng::new(steps));
        assert!(read(&mut again, false).0 == content, "after {steps} steps");
    }
}

/// A device that fails while the range is on its way fails the store, and nobody is told of a transaction that nobody made.
#[test]
fn a_device_that_fails_meanwhile_fails_the_store() {
    let (mut driven, content) = scattered(1);
    assert!(read(&mut driven, false).0 == content);
    driven.disk.fail_after = Some(1);
    driven.settle();
    assert!(driven.store.is_failed());
    assert!(driven.completion().is_none(), "nobody asked for anything");
    let what = ReadWhat::Object(object(1), everything());
    assert!(matches!(driven.ask(ReadRequest { collection: id(), what }), Ok(ReadResult::Object(_))), "it still reads");
}
