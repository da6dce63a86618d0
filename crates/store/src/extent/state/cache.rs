//! What is kept in memory of the device: pages of the tree, blocks and runs of data, objects read from pages.
//!
//! Owns the bound in bytes and the choice of what goes: a clock's hand passes over the entries, spares those used since
//! its last round and takes the others. Data that finds the cache full is let in when it comes a second time soon after,
//! and a small part of it at once: who goes through more than fits, again and again, would else find nothing each time.
//! What nobody has looked at for long has gone out of use, and newcomers take its place. A run is kept as it came, in one
//! buffer, until much of it holds something else; and no longer one than a part of the cache: one long read is not worth a
//! thousand short ones. Leaves that a checkpoint has written and nobody has looked at since go before all else: most hold
//! entries of logs, which are read at the next start. Everything here is also on the device.

use crate::extent::device::{room_to_keep, to_keep};
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::objects::object::Object;
use crate::extent::tree::key::Key;
use crate::extent::tree::page::Page;
use base::hash::{FixedHashMap, FixedState};
use bytes::Bytes;
use core::hash::BuildHasher;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What names an entry: an object by its key, all else by its first block.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Name {
    Block(u64),
    Run(BlockRun),
    Object(Box<Key>),
}

#[derive(Clone, Debug)]
enum Kept {
    Page(Arc<Page>),
    Data(Bytes),
    Run(Box<RunData>),
    Object(Arc<Object>),
}

/// The data of a run, of which some blocks may hold something else by now.
#[derive(Clone, Debug)]
struct RunData {
    data: Bytes,
    /// The places of these blocks in the run, in order.
    gone: Vec<u32>,
}

impl RunData {
    /// The data from a place on, as far as it holds; none where it does not.
    fn from(&self, place: u32) -> Option<Bytes> {
        let next = self.gone.partition_point(|gone| *gone < place);
        let bytes = |place: u32| place as usize * BLOCK as usize;
        match self.gone.get(next) {
            Some(gone) if *gone == place => None,
            Some(gone) => Some(self.data.slice(bytes(place)..bytes(*gone))),
            None => Some(self.data.slice(bytes(place)..)),
        }
    }

    /// Notes that a block holds something else; says whether the run is worth its room still.
    fn lose(&mut self, place: u32) -> bool {
        if let Err(at) = self.gone.binary_search(&place) {
            self.gone.insert(at, place);
        }
        (self.gone.len() * GONE_PART) as u64 * BLOCK <= self.data.len() as u64
    }
}

#[derive(Debug)]
struct Entry {
    name: Name,
    kept: Kept,
    bytes: usize,
    /// Whether someone looked at it since the hand's last round.
    used: bool,
    /// When someone last did, by the cache's time.
    seen: u64,
}

/// There is one for each block that is kept.
const _: () = assert!(size_of::<Option<Entry>>() <= 88);

/// How often something was found, and how often not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Found in memory.
    pub hits: u64,
    /// Had to be read.
    pub misses: u64,
    /// Bytes held now.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache {
    /// The clock's face: entries, and places that were left.
    entries: Vec<Option<Entry>>,
    left: Vec<u32>,
    /// The place that the hand looks at next.
    hand: usize,
    /// The place where what has gone out of use is looked for next.
    sweep: usize,
    /// The cache's time: what the data cost that had to be read.
    time: u64,
    /// Leaves as they were written, the oldest first: block and place. Some are gone.
    written: VecDeque<(u64, u32)>,
    blocks: FixedHashMap<u64, u32>,
    /// Runs of data by their first block; no two of them overlap.
    runs: BTreeMap<u64, u32>,
    objects: FixedHashMap<Key, u32>,
    /// What a buffer takes beside its content, at the worst so far.
    slack: usize,
    bytes: usize,
    bytes_max: usize,
    turned_away: TurnedAway,
    hits: u64,
    misses: u64,
}

/// What an entry costs beside its content.
const OVERHEAD: usize = 128;

/// So many written leaves are noted before those that are gone are looked for.
const WRITTEN_MIN: usize = 64;

/// Of the data that finds the cache full, one in so many is let in at once. A range larger than the cache that is read over
/// and over leaves as much of itself there as fits (bimodal insertion: Qureshi et al., "Adaptive insertion policies for
/// high performance caching", ISCA 2007).
const ADMITTED_ONE_IN: u32 = 64;

/// For so many entries there is room for one name of what was turned away. With more, a range some times larger than the
/// cache would come again while its names are still there, and turn over all that is kept.
const ENTRIES_A_NAME: usize = 4;

/// A run of data that is longer than this part of the cache is not kept.
const RUN_PART: usize = 16;

/// A run of which more than this part holds something else is not kept: it takes the memory of all of it.
const GONE_PART: usize = 4;

/// Reading from the device costs as much as so many bytes more would.
const READ_COST: u64 = 64 << 10;

/// An entry has gone out of use when nobody has looked at it while so many caches full of its like were read. Who goes
/// through fewer, again and again, still finds a part; and as short reads cost more for what they bring, a long run goes
/// soon where only short ones come. With twice as many, reads that turned to another range, half as large again as the
/// cache, found a tenth of it for six passes.
const OUT_OF_USE: u64 = 4;

/// So many entries are looked at, for some that have gone out of use, when data finds the cache full.
const SWEEP: usize = 4;

/// What was turned away lately, so that it is let in if it comes again (as the ghost queue of 2Q: Johnson and Shasha, VLDB
/// 1994). A name stays until another one falls on its place.
#[derive(Debug, Default)]
struct TurnedAway {
    /// By a hash of them: numbers of blocks, a power of two of them; 0 is none, as no data is there.
    names: Vec<u64>,
    /// How often something came.
    count: u32,
}

impl TurnedAway {
    /// Whether data that begins at this block is let in, where `kept` entries are there.
    fn lets_in(&mut self, block: u64, kept: usize) -> bool {
        let places = 1 << (kept / ENTRIES_A_NAME).max(1).ilog2();
        self.names.resize(places, 0);
        self.count = self.count.wrapping_add(1);
        let hash = FixedState::default().hash_one(block) as usize;
        let name = &mut self.names[hash % places];
        let comes_again = *name == block;
        let is_let_in = comes_again || self.count.is_multiple_of(ADMITTED_ONE_IN);
        *name = if is_let_in { 0 } else { block };
        is_let_in
    }
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Cache {
        Cache {
            entries: Vec::new(),
            left: Vec::new(),
            hand: 0,
            sweep: 0,
            time: 0,
            written: VecDeque::new(),
            blocks: FixedHashMap::default(),
            runs: BTreeMap::new(),
            objects: FixedHashMap::default(),
            slack: 0,
            bytes: 0,
            bytes_max,
            turned_away: TurnedAway::default(),
            hits: 0,
            misses: 0,
        }
    }

    /// Changes the bound; what is too much goes at once.
    pub(crate) fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        while self.bytes > self.bytes_max {
            self.turn();
        }
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        CacheCounts { hits: self.hits, misses: self.misses, bytes: self.bytes as u64 }
    }

    fn find(&mut self, at: Option<u32>) -> Option<&Entry> {
        match at.and_then(|at| self.entries[at as usize].as_mut()) {
            Some(entry) => {
                entry.used = true;
                entry.seen = self.time;
                self.hits += 1;
                Some(entry)
            }
            None => {
                self.misses += 1;
                None
            }
        }
    }

    pub(crate) fn page(&mut self, block: u64) -> Option<Arc<Page>> {
        match &self.find(self.blocks.get(&block).copied())?.kept {
            Kept::Page(page) => Some(page.clone()),
            _ => None,
        }
    }

    /// Data from this block on: as much as is kept in one buffer, a block at the least.
    pub(crate) fn data(&mut self, block: u64) -> Option<Bytes> {
        let at = self.blocks.get(&block).copied().or_else(|| self.run_with(block));
        self.data_at(at, block)
    }

    /// The same, where it is kept as part of a run.
    pub(crate) fn data_of_run(&mut self, block: u64) -> Option<Bytes> {
        let at = self.run_with(block);
        self.data_at(at, block)
    }

    fn data_at(&mut self, at: Option<u32>, block: u64) -> Option<Bytes> {
        match self.find(at)? {
            Entry { name: Name::Run(run), kept: Kept::Run(data), .. } => data.from((block - run.start) as u32),
            Entry { kept: Kept::Data(data), .. } => Some(data.clone()),
            _ => None,
        }
    }

    /// Where the run is that has this block, and its content.
    fn run_with(&self, block: u64) -> Option<u32> {
        let (run, at) = self.last_run_before(block + 1).filter(|(run, _)| block < run.end())?;
        match &self.entries[at as usize].as_ref()?.kept {
            Kept::Run(data) => data.from((block - run.start) as u32).map(|_| at),
            _ => None,
        }
    }

    pub(crate) fn object(&mut self, key: &Key) -> Option<Arc<Object>> {
        match &self.find(self.objects.get(key).copied())?.kept {
            Kept::Object(object) => Some(object.clone()),
            _ => None,
        }
    }

    /// Whether something that begins at this block is here.
    pub(crate) fn has_block(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Says what a buffer of the device takes beside its content.
    pub(crate) fn note_slack(&mut self, bytes: usize) {
        self.slack = self.slack.max(bytes);
    }

    pub(crate) fn keep_page(&mut self, block: u64, page: Arc<Page>) {
        let bytes = page.bytes() + self.slack;
        self.keep(Name::Block(block), Kept::Page(page), bytes);
    }

    /// Keeps a page that has just been written.
    pub(crate) fn keep_written(&mut self, block: u64, page: Arc<Page>) {
        let is_leaf = page.level() == 0;
        self.keep_page(block, page);
        if let Some(&at) = self.blocks.get(&block).filter(|_| is_leaf) {
            if self.written.len() >= WRITTEN_MIN.max(2 * self.blocks.len()) {
                let blocks = &self.blocks;
                self.written.retain(|(block, at)| blocks.get(block) == Some(at));
            }
            self.written.push_back((block, at));
        }
    }

    /// Keeps data that begins at this block, if it is let in. It is the whole of its buffer.
    pub(crate) fn keep_data(&mut self, block: u64, data: Bytes) {
        let run = BlockRun::new(block, data.len() as u64 / BLOCK);
        let bytes = room_to_keep(data.len()) + self.slack;
        let (forget, name): (fn(&mut Cache, BlockRun), Name) = match run.len {
            0 | 1 => (|cache, run| cache.forget_block(run.start), Name::Block(block)),
            _ if bytes > self.bytes_max / RUN_PART => return,
            _ => (Cache::forget_runs, Name::Run(run)),
        };
        self.time += READ_COST + bytes as u64;
        if !self.has_room_for(bytes) && self.written.is_empty() {
            self.sweep(bytes);
        }
        if !self.has_room_for(bytes) && self.written.is_empty() {
            let kept = self.entries.len() - self.left.len();
            if !self.turned_away.lets_in(block, kept) {
                return forget(self, run);
            }
        }
        let data = to_keep(data);
        let kept = match name {
            Name::Run(_) => Kept::Run(Box::new(RunData { data, gone: Vec::new() })),
            _ => Kept::Data(data),
        };
        self.keep(name, kept, bytes);
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes + bytes + OVERHEAD <= self.bytes_max
    }

    /// Lets go of what has gone out of use among the next few entries, until there is room for so many bytes: of long runs
    /// one is enough for many blocks.
    fn sweep(&mut self, bytes: usize) {
        for _ in 0..SWEEP.min(self.entries.len()) {
            if self.has_room_for(bytes) {
                return;
            }
            let at = self.sweep;
            self.sweep = (at + 1) % self.entries.len();
            let out_of_use = |entry: &Entry| {
                let (bytes, bytes_max) = (entry.bytes as u64, self.bytes_max as u64);
                self.time - entry.seen > OUT_OF_USE * bytes_max / bytes * (READ_COST + bytes)
            };
            if self.entries[at].as_ref().is_some_and(out_of_use) {
                self.forget_at(at);
            }
        }
    }

    pub(crate) fn keep_object(&mut self, key: Key, object: Arc<Object>) {
        let bytes = object.held_bytes() + 2 * key.len();
        self.keep(Name::Object(Box::new(key)), Kept::Object(object), bytes);
    }

    fn keep(&mut self, name: Name, kept: Kept, bytes: usize) {
        match &name {
            Name::Block(block) => self.forget_block(*block),
            Name::Run(run) => self.forget_runs(*run),
            Name::Object(key) => self.forget_object(key),
        }
        let bytes = bytes + OVERHEAD;
        if bytes > self.bytes_max {
            return;
        }
        // Room is made first: then the new entry takes a place that the hand has just passed.
        while self.bytes + bytes > self.bytes_max {
            self.turn();
        }
        let at = self.left.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).expect("the bound in bytes allows fewer")
        });
        match &name {
            Name::Block(block) => drop(self.blocks.insert(*block, at)),
            Name::Run(run) => drop(self.runs.insert(run.start, at)),
            Name::Object(key) => drop(self.objects.insert(Key::clone(key), at)),
        }
        self.entries[at as usize] = Some(Entry { name, kept, bytes, used: false, seen: self.time });
        self.bytes += bytes;
    }

    /// Lets go of the oldest written leaf that nobody has looked at; where there is none, moves the hand by one.
    fn turn(&mut self) {
        while let Some((block, at)) = self.written.pop_front() {
            let is_there = self.blocks.get(&block) == Some(&at);
            if is_there && self.entries[at as usize].as_ref().is_some_and(|entry| !entry.used) {
                return self.forget_block(block);
            }
        }
        let at = self.hand;
        self.hand = (at + 1) % self.entries.len();
        match &mut self.entries[at] {
            Some(entry) if entry.used => entry.used = false,
            _ => self.forget_at(at),
        }
    }

    /// Forgets the entry at this place, if there is one.
    fn forget_at(&mut self, at: usize) {
        match self.entries[at].as_ref().map(|entry| entry.name.clone()) {
            Some(Name::Block(block)) => self.forget_block(block),
            Some(Name::Run(run)) => self.forget_runs(run),
            Some(Name::Object(key)) => self.forget_object(&key),
            None => {}
        }
    }

    /// Forgets what began at one of these blocks, and data of them: they hold something else now. A run that has some of
    /// them keeps the others.
    pub(crate) fn forget(&mut self, run: BlockRun) {
        (run.start..run.end()).for_each(|block| self.forget_block(block));
        let mut end = run.end();
        while let Some((kept, at)) = self.last_run_before(end).filter(|(kept, _)| kept.end() > run.start) {
            end = kept.start;
            let mut lost = run.start.max(kept.start)..run.end().min(kept.end());
            let is_worth_it = match self.entries[at as usize].as_mut().map(|entry| &mut entry.kept) {
                Some(Kept::Run(data)) => lost.all(|block| data.lose((block - kept.start) as u32)),
                _ => false,
            };
            if !is_worth_it {
                self.runs.remove(&kept.start);
                self.leave(at);
            }
        }
    }

    /// Forgets runs of data that have one of these blocks.
    fn forget_runs(&mut self, run: BlockRun) {
        while let Some((kept, at)) = self.last_run_before(run.end()).filter(|(kept, _)| kept.end() > run.start) {
            self.runs.remove(&kept.start);
            self.leave(at);
        }
    }

    /// The last run of data that begins before this block, and its place.
    fn last_run_before(&self, block: u64) -> Option<(BlockRun, u32)> {
        let (_, &at) = self.runs.range(..block).next_back()?;
        match self.entries[at as usize].as_ref()?.name {
            Name::Run(run) => Some((run, at)),
            _ => None,
        }
    }

    fn forget_block(&mut self, block: u64) {
        if let Some(at) = self.blocks.remove(&block) {
            self.leave(at);
        }
    }

    /// Forgets an object that has changed.
    pub(crate) fn forget_object(&mut self, key: &Key) {
        if let Some(at) = self.objects.remove(key) {
            self.leave(at);
        }
    }

    fn leave(&mut self, at: u32) {
        if let Some(entry) = self.entries[at as usize].take() {
            self.bytes -= entry.bytes;
            self.left.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::tree::page::{self, PagePtr};
    use base::checksum::{CRC_SEED, crc32c};

    #[test]
    fn the_bound_holds_and_what_is_used_stays() {
        let mut cache = Cache::new(100 * 1024);
        for block in 1..500 {
            cache.keep_data(block, Bytes::from(vec![0; 512]));
            assert!(cache.data(1).is_some(), "used again and again");
            assert!(cache.bytes <= 100 * 1024 && cache.entries.len() < 400);
        }
        assert!(cache.data(150).is_some(), "of those that come later, few are let in");
        cache.forget(BlockRun::new(0, 1000));
        assert_eq!((cache.bytes, cache.blocks.len(), cache.left.len()), (0, 0, cache.entries.len()));
    }

    #[test]
    fn who_reads_more_than_fits_again_and_again_finds_a_part() {
        let mut cache = Cache::new(100 * (512 + OVERHEAD));
        let mut found = 0;
        for round in 0..20 {
            for block in 0..200 {
                match cache.data(block) {
                    Some(_) if round >= 10 => found += 1,
                    Some(_) => {}
                    None => cache.keep_data(block, Bytes::from(vec![0; 512])),
                }
            }
        }
        assert!((600..=1000).contains(&found), "{found} of 2000, where half fits");
    }

    #[test]
    fn what_nobody_looks_at_any_more_makes_room() {
        let mut cache = Cache::new(100 * (4096 + OVERHEAD));
        let mut found = [0; 2];
        // All of 80 blocks again and again, then of 80 others; one stays in use.
        for (half, found) in found.iter_mut().enumerate() {
            for round in 0..20 {
                for block in (0..80).map(|block| half as u64 * 100 + block) {
                    assert!(cache.data(50).is_some() || (half, round) == (0, 0));
                    match cache.data(block) {
                        Some(_) => *found += usize::from(round >= 15),
                        None => cache.keep_data(block, Bytes::from(vec![0; 4096])),
                    }
                }
            }
        }
        assert!(found.iter().all(|found| *found >= 380), "{found:?} of 400");
    }

    #[test]
    fn who_turns_to_a_range_larger_than_the_cache_finds_most_of_it_before_long() {
        let mut cache = Cache::new(1000 * (4096 + OVERHEAD));
        let mut pass = |blocks: core::ops::Range<u64>| {
            let count = blocks.end - blocks.start;
            let found = blocks.filter(|block| {
                let is_there = cache.data(*block).is_some();
                if !is_there {
                    cache.keep_data(*block, Bytes::from(vec![0; 4096]));
                }
                is_there
            });
            found.count() as u64 * 100 / count
        };
        for _ in 0..10 {
            pass(0..1500);
        }
        let found: Vec<_> = (0..5).map(|_| pass(10_000..11_500)).collect();
        assert!(found[4] >= 50, "{found:?} percent, where two thirds fit");
        // A range three times as large as the cache keeps its part.
        let found: Vec<_> = (0..20).map(|_| pass(20_000..23_000)).collect();
        assert!(found[19] >= 25, "{found:?} percent, where a third fits");
    }

    #[test]
    fn long_runs_soon_make_room_where_short_reads_are_all_there_is() {
        let mut cache = Cache::new(64 << 20);
        (0..64).for_each(|run| cache.keep_data(run * 256, Bytes::from(vec![0; 1 << 20])));
        assert!(cache.bytes > 60 << 20);
        // Twice as many as fit: of the second round a third is found, at the least.
        let mut found = [0; 2];
        for found in &mut found {
            for block in (0..2 * (64 << 20) / 4096).map(|block| 100_000 + block) {
                match cache.data(block) {
                    Some(_) => *found += 1,
                    None => cache.keep_data(block, Bytes::from(vec![0; 4096])),
                }
            }
        }
        assert!(found[0] == 0 && found[1] > 32768 / 3, "{found:?} of 32768 each");
    }

    #[test]
    fn what_comes_again_soon_is_let_in() {
        let mut cache = Cache::new(100 * (512 + OVERHEAD));
        let mut keep = |block| {
            cache.keep_data(block, Bytes::from(vec![0; 512]));
            cache.has_block(block)
        };
        assert!((0..100).all(&mut keep), "while there is room");
        assert!(!keep(1000) && keep(1000));
        // A crowd in between: its name is gone.
        assert!(!keep(2000));
        assert!((3000..3200).filter(|block| keep(*block)).count() < 8);
        assert!(!keep(2000));
    }

    #[test]
    fn what_is_read_often_takes_the_place_of_what_was_read_often_before() {
        let mut cache = Cache::new(100 * (512 + OVERHEAD));
        let mut found = [0; 2];
        // Four of five reads are of ten blocks, the others of 500; then of other ten.
        for (half, found) in found.iter_mut().enumerate() {
            for step in 0..2000u64 {
                let block = if step % 5 < 4 { half as u64 * 10 + step * 7 % 10 } else { 100 + step * 13 % 500 };
                match cache.data(block) {
                    Some(_) => *found += 1,
                    None => cache.keep_data(block, Bytes::from(vec![0; 512])),
                }
            }
        }
        assert!(found.iter().all(|found| *found >= 1500), "{found:?} of 1600 and some");
    }

    fn leaf(block: u64, level: u8) -> Arc<Page> {
        let bytes = Bytes::from_owner(page::encode(level, &[(vec![1].into(), Bytes::from(vec![0; 16]))]));
        let ptr = PagePtr { block, blocks: 1, crc: crc32c(CRC_SEED, &bytes) };
        Arc::new(Page::parse(ptr, bytes).expect("ours"))
    }

    #[test]
    fn written_leaves_that_nobody_looks_at_go_first() {
        let mut cache = Cache::new(10 * (4096 + OVERHEAD));
        (1..=4).for_each(|block| cache.keep_data(block, Bytes::from(vec![0; 4096])));
        cache.keep_written(9, leaf(9, 1));
        (10..200).for_each(|block| {
            cache.keep_written(block, leaf(block, 0));
            assert!(cache.page(12).is_some() || block < 12, "what is looked at stays");
            assert!(cache.written.len() <= WRITTEN_MIN + 1);
        });
        assert!((1..=4).all(|block| cache.has_block(block)) && cache.has_block(9), "neither data nor inner pages went");
        let leaves = (10..200).filter(|block| cache.has_block(*block));
        assert_eq!(leaves.collect::<Vec<_>>(), [12, 196, 197, 198, 199]);
        // Data takes their places without waiting for its turn.
        (300..304).for_each(|block| cache.keep_data(block, Bytes::from(vec![0; 4096])));
        assert!((300..304).all(|block| cache.has_block(block)) && cache.has_block(12));
    }

    #[test]
    fn an_entry_replaces_one_of_its_name_and_slack_counts() {
        let mut cache = Cache::new(10 * 1024);
        cache.keep_data(1, Bytes::from(vec![1; 512]));
        cache.note_slack(512);
        cache.keep_data(1, Bytes::from(vec![2; 512]));
        assert_eq!(cache.data(1).expect("kept")[0], 2);
        assert_eq!(cache.counts(), CacheCounts { hits: 1, misses: 0, bytes: 1024 + OVERHEAD as u64 });
    }

    #[test]
    fn a_run_is_found_from_each_of_its_blocks_until_one_has_another_content() {
        let run =
            |first: u8, blocks: u8| Bytes::from((first..first + blocks).flat_map(|n| [n; 4096]).collect::<Vec<_>>());
        let mut cache = Cache::new(64 * (64 << 10));
        cache.keep_data(10, run(10, 8));
        cache.keep_data(30, run(30, 2));
        for block in 10..18 {
            let data = cache.data(block).expect("kept");
            assert_eq!((data[0], data.len() as u64), (block as u8, (18 - block) * 4096));
        }
        assert!([9, 18, 29, 32].iter().all(|block| cache.data(*block).is_none()));
        // One block by itself is found first, and says nothing of others; long reads are told of runs only.
        cache.keep_data(12, run(12, 1));
        assert_eq!(cache.data(12).expect("kept").len(), 4096);
        assert_eq!(cache.data_of_run(12).expect("kept").len(), 6 * 4096);
        cache.keep_data(40, run(40, 1));
        assert!(cache.data_of_run(40).is_none());
        // What is read again and lies otherwise takes the place of what it overlaps.
        cache.keep_data(16, run(16, 4));
        assert!(cache.data(15).is_none() && cache.data(19).is_some() && cache.data(12).is_some());
        cache.forget(BlockRun::new(15, 2));
        assert!(cache.data(16).is_none() && cache.data(17).is_some(), "the others stay");
        cache.forget(BlockRun::new(17, 1));
        assert!(cache.data(18).is_none() && cache.data(30).is_some(), "as long as they are most of it");
        cache.forget(BlockRun::new(0, 100));
        assert_eq!((cache.bytes, cache.runs.len(), cache.left.len()), (0, 0, cache.entries.len()));
        cache.keep_data(0, run(0, 65));
        assert!(cache.data(0).is_none(), "too long for a cache of this size");
    }

    #[test]
    fn of_long_reads_that_do_not_fit_a_part_stays() {
        let mut cache = Cache::new(64 * (16 << 10) + 100 * OVERHEAD);
        let mut found = 0;
        for round in 0..20 {
            for first in (0..128 * 4).step_by(4) {
                match cache.data_of_run(first) {
                    Some(data) if round >= 10 => found += data.len() >> 14,
                    Some(_) => {}
                    None => cache.keep_data(first, Bytes::from(vec![0; 16 << 10])),
                }
                assert!(cache.bytes <= cache.bytes_max);
            }
        }
        assert!((400..=640).contains(&found), "{found} of 1280, where half fits");
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_not_kept() {
        let mut cache = Cache::new(1000);
        cache.keep_data(1, Bytes::from(vec![0; 4096]));
        assert!(cache.data(1).is_none());
        assert_eq!(cache.bytes, 0);
    }
}
