//! Which blocks are free: the allocator's view, and the bitmap that a checkpoint makes durable.
//!
//! Owns both. They differ by what has happened since the last checkpoint: blocks handed out since are taken for the
//! allocator and still free in the bitmap; blocks given up since are free in neither, because the durable tree still
//! names them.
//!
//! Invariant: a block that the durable tree names, or that a request in flight reads, is never handed out.

pub(crate) mod shared;

use crate::extent::device::IoBuf;
use crate::extent::layout::{BITMAP_PAGE_BLOCKS, BLOCK, BlockRun, Geometry, push_run};
use base::checksum::{CRC_SEED, crc32c};
use std::collections::BTreeSet;
use wire::Malformed;

/// A set of blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BlockSet {
    words: Vec<u64>,
}

impl BlockSet {
    pub(crate) fn new(blocks: u64) -> BlockSet {
        BlockSet { words: vec![0; blocks.div_ceil(64) as usize] }
    }

    /// The bytes of memory it takes.
    fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// Adds a run; false where some block was in already.
    pub(crate) fn insert(&mut self, run: BlockRun) -> bool {
        let mut new = true;
        for_words(run, |at, mask| {
            new &= self.words[at] & mask == 0;
            self.words[at] |= mask;
        });
        new
    }

    /// Takes a run out; false where some block was not in.
    pub(crate) fn remove(&mut self, run: BlockRun) -> bool {
        let mut all = true;
        for_words(run, |at, mask| {
            all &= self.words[at] & mask == mask;
            self.words[at] &= !mask;
        });
        all
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The first block from `from` up to, without, `end` that is (or is not) in.
    fn find(&self, from: u64, end: u64, is_in: bool) -> Option<u64> {
        let mut at = from;
        while at < end {
            let word = self.words[(at / 64) as usize];
            let word = if is_in { word } else { !word } >> (at % 64);
            if word != 0 {
                return Some(at + u64::from(word.trailing_zeros())).filter(|&found| found < end);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The block behind the last one below `end` that is in; `from` where none is.
    fn end_of(&self, from: u64, end: u64) -> u64 {
        let words = self.words[..end.div_ceil(64) as usize].iter().enumerate().rev();
        let below = |at: u64, word: u64| if at + 64 > end { word & ((1 << (end - at)) - 1) } else { word };
        let mut last = words.map(|(at, word)| (at as u64 * 64, below(at as u64 * 64, *word)));
        last.find(|(_, word)| *word != 0)
            .map_or(from, |(at, word)| (at + 64 - u64::from(word.leading_zeros())).max(from))
    }

    /// The first whole span from `from` up to, without, `end` that is not in.
    fn find_span(&self, from: u64, end: u64) -> Option<u64> {
        let (first, last) = (from.div_ceil(SPAN_BLOCKS) as usize, (end / SPAN_BLOCKS) as usize);
        let words = self.words.get(first..last)?;
        words.iter().position(|word| *word == 0).map(|at| (first + at) as u64 * SPAN_BLOCKS)
    }

    /// The runs of blocks that are in this set and not in the other.
    pub(crate) fn without(&self, other: &BlockSet) -> Vec<BlockRun> {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & !b);
        let only = BlockSet { words: words.collect() };
        let (mut runs, mut at, end) = (Vec::new(), 0, only.words.len() as u64 * 64);
        while let Some(start) = only.find(at, end, true) {
            at = only.find(start, end, false).unwrap_or(end);
            push_run(&mut runs, BlockRun::new(start, at - start));
        }
        runs
    }
}

fn for_words(run: BlockRun, mut each: impl FnMut(usize, u64)) {
    let mut at = run.start;
    while at < run.end() {
        let len = (64 - at % 64).min(run.end() - at);
        let mask = if len == 64 { u64::MAX } else { ((1 << len) - 1) << (at % 64) };
        each((at / 64) as usize, mask);
        at += len;
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Space {
    geometry: Geometry,
    /// Not to be handed out.
    used: BlockSet,
    free: u64,
    /// The part of them that data may have.
    free_for_data: u64,
    data: Area,
    pages_area: Area,
    /// What the next checkpoint makes durable.
    image: BlockSet,
    image_used: u64,
    changed: BTreeSet<u64>,
    /// For each page of the bitmap: its generation, its place and its checksum.
    pages: Vec<PageState>,
}

/// Where blocks of one kind are looked for.
///
/// The lowest free span is the next one: so what has been used is used again, soon, before anything new is. A file system
/// has to find room for a new block of a file, and to remember it with the next flush. But only whole spans count, so
/// that what is written together lies together. Small runs share a span until it is full, large ones begin with one.
#[derive(Clone, Copy, Debug)]
struct Area {
    first: u64,
    end: u64,
    /// Behind the last find.
    cursor: u64,
    /// Nothing from here on has ever been handed out.
    top: u64,
    /// No whole span below this is free.
    free_from: u64,
}

/// Blocks of a span: those of one word of the bitmap.
const SPAN_BLOCKS: u64 = 64;

impl Area {
    fn new(first: u64, end: u64) -> Area {
        Area { first, end, cursor: first, top: first, free_from: first }
    }

    /// The first block of the next free span.
    fn next_span(&mut self, used: &BlockSet) -> Option<u64> {
        let found = used.find_span(self.free_from, self.top);
        self.free_from = found.unwrap_or(self.top);
        let new = [self.top.next_multiple_of(SPAN_BLOCKS), self.top];
        found.or_else(|| new.into_iter().find(|at| *at < self.end))
    }

    /// The next free block of the span that was begun.
    fn begun(&self, used: &BlockSet) -> Option<u64> {
        let at = self.cursor;
        let within = !at.is_multiple_of(SPAN_BLOCKS) && at < self.end;
        (within && used.find(at, at + 1, true).is_none()).then_some(at)
    }

    /// The first of free blocks to hand out, in a span of their own where there is one.
    fn next(&mut self, used: &BlockSet) -> Option<u64> {
        let (first, at, end) = (self.first, self.cursor, self.end);
        let any = |from| used.find(from, end, false);
        self.next_span(used).or_else(|| any(at)).or_else(|| any(first))
    }

    fn took(&mut self, run: BlockRun) {
        if run.start >= self.first && run.end() <= self.end {
            self.cursor = run.end();
            self.top = self.top.max(run.end());
        }
    }

    fn gave_back(&mut self, run: BlockRun) {
        if run.end() > self.first && run.start < self.end {
            self.free_from = self.free_from.min(run.start.max(self.first));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PageState {
    slot: u64,
    generation: u64,
    crc: u32,
}

const MAGIC: u32 = 0x4D42_584C;

impl Space {
    /// A device of which only the fixed areas are taken. Every page of its bitmap is to be written.
    pub(crate) fn new(geometry: Geometry) -> Space {
        let mut used = BlockSet::new(geometry.space_blocks());
        for run in geometry.fixed() {
            used.insert(run);
        }
        let pages = vec![PageState::default(); geometry.bitmap_pages() as usize];
        let changed = (0..geometry.bitmap_pages()).collect();
        let data = Area::new(geometry.data_start(), geometry.pages_start());
        let pages_area = Area::new(geometry.pages_start(), geometry.space_blocks());
        let (free, free_for_data) = (geometry.data_blocks(), geometry.pages_start() - geometry.data_start());
        let image = used.clone();
        Space { geometry, used, free, free_for_data, data, pages_area, image, image_used: 0, changed, pages }
    }

    /// The bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.used.bytes() + self.image.bytes() + self.pages.len() * size_of::<PageState>()
    }

    /// Blocks that can be handed out, to data or pages.
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// The bitmap as the last checkpoint left it.
    pub(crate) fn image(&self) -> &BlockSet {
        &self.image
    }

    /// Hands out up to `len` consecutive blocks for data: the next free run, which may be shorter. None when all is
    /// taken but what is kept for pages.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<BlockRun> {
        let begun = self.data.begun(&self.used);
        let (found, end) = match begun.filter(|_| len < SPAN_BLOCKS) {
            Some(at) => (at, at.next_multiple_of(SPAN_BLOCKS).min(self.data.end)),
            None => (self.data.next(&self.used)?, self.data.end),
        };
        let limit = end.min(found.saturating_add(len));
        let stop = self.used.find(found, limit, true).unwrap_or(limit);
        let run = BlockRun::new(found, stop - found);
        self.hand_out(run);
        if let Some(begun) = begun.filter(|at| *at != found) {
            self.data.cursor = begun;
        }
        Some(run)
    }

    /// Hands out exactly `len` consecutive blocks for pages: from the end of the device, where no data lies, and, once
    /// that is full, from anywhere.
    pub(crate) fn allocate_whole(&mut self, len: u64) -> Option<BlockRun> {
        let span = if len <= SPAN_BLOCKS { self.pages_area.next_span(&self.used) } else { None };
        let span = span.map(|start| BlockRun::new(start, len)).filter(|run| run.end() <= self.pages_area.end);
        let Area { first, end, cursor, .. } = self.pages_area;
        let areas = [(cursor, end), (first, end), (self.data.first, self.data.end)];
        let anywhere = || areas.into_iter().find_map(|(from, to)| self.find_whole(from, to, len));
        let run = span.or_else(anywhere)?;
        self.hand_out(run);
        Some(run)
    }

    fn find_whole(&self, from: u64, to: u64, len: u64) -> Option<BlockRun> {
        let mut at = from;
        loop {
            let start = self.used.find(at, to, false)?;
            let limit = start.checked_add(len).filter(|&limit| limit <= to)?;
            match self.used.find(start, limit, true) {
                None => return Some(BlockRun::new(start, len)),
                Some(taken) => at = taken,
            }
        }
    }

    fn hand_out(&mut self, run: BlockRun) {
        self.used.insert(run);
        self.free -= run.len;
        self.free_for_data -= self.data_part(run);
        self.data.took(run);
        self.pages_area.took(run);
    }

    /// Takes what is free of a run, where at least `min` blocks of it lie together; they come back by `release`.
    pub(crate) fn take_free(&mut self, run: BlockRun, min: u64) -> Vec<BlockRun> {
        let (mut taken, mut at) = (Vec::new(), run.start);
        while let Some(start) = self.used.find(at, run.end(), false) {
            at = self.used.find(start, run.end(), true).unwrap_or(run.end());
            if at - start >= min {
                taken.push(BlockRun::new(start, at - start));
            }
        }
        let areas = (self.data, self.pages_area);
        taken.iter().for_each(|run| self.hand_out(*run));
        (self.data, self.pages_area) = areas;
        taken
    }

    /// How many blocks of a run data may have.
    fn data_part(&self, run: BlockRun) -> u64 {
        run.end().min(self.geometry.pages_start()).saturating_sub(run.start)
    }

    /// Blocks that can be handed out to data.
    pub(crate) fn free_for_data(&self) -> u64 {
        self.free_for_data
    }

    /// Takes blocks that a record of the log names; false where they are taken or no data's.
    pub(crate) fn take(&mut self, run: BlockRun) -> bool {
        if !self.geometry.is_data(run) || !self.used.insert(run) {
            return false;
        }
        self.free -= run.len;
        self.free_for_data -= self.data_part(run);
        self.data.took(run);
        true
    }

    /// Makes blocks free again: nothing durable names them, nobody reads them.
    pub(crate) fn release(&mut self, run: BlockRun) {
        assert!(self.used.remove(run), "only what was handed out comes back");
        self.free += run.len;
        self.free_for_data += self.data_part(run);
        self.data.gave_back(run);
        self.pages_area.gave_back(run);
    }

    /// The durable tree is going to name these blocks; false where it does already, or where they are no data's.
    #[must_use]
    pub(crate) fn image_insert(&mut self, run: BlockRun) -> bool {
        if !self.geometry.is_data(run) || !self.image.insert(run) {
            return false;
        }
        self.image_used += run.len;
        self.note_changed(run);
        true
    }

    /// The durable tree is not going to name these blocks any more; false where it never did.
    #[must_use]
    pub(crate) fn image_remove(&mut self, run: BlockRun) -> bool {
        if !self.geometry.is_data(run) || !self.image.remove(run) {
            return false;
        }
        self.image_used -= run.len;
        self.note_changed(run);
        true
    }

    fn note_changed(&mut self, run: BlockRun) {
        let (first, last) = (run.start / BITMAP_PAGE_BLOCKS, (run.end() - 1) / BITMAP_PAGE_BLOCKS);
        self.changed.extend(first..=last);
    }

    /// The next page of the bitmap that has changed, in the form and for the place where the checkpoint of
    /// `generation` writes it.
    pub(crate) fn next_page(&mut self, generation: u64) -> Option<(u64, IoBuf)> {
        let index = self.changed.pop_first()?;
        let mut buf = IoBuf::new(BLOCK as usize);
        let out = buf.as_mut();
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&generation.to_le_bytes());
        out[16..24].copy_from_slice(&index.to_le_bytes());
        let first = (index * BITMAP_PAGE_BLOCKS / 64) as usize;
        let words = self.image.words[first..].iter().take((BITMAP_PAGE_BLOCKS / 64) as usize);
        for (at, word) in words.enumerate() {
            out[32 + at * 8..40 + at * 8].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c(CRC_SEED, &out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        let page = &mut self.pages[index as usize];
        *page = PageState { slot: 1 - page.slot, generation, crc };
        Some((self.geometry.bitmap_block(index, page.slot), buf))
    }

    /// A number that stands for all pages of the bitmap: the superblock holds it, so that none can be another's.
    pub(crate) fn sum(&self) -> u64 {
        let of = |(index, page): (usize, &PageState)| {
            let text = [index as u64, page.generation, u64::from(page.crc)].map(u64::to_le_bytes).concat();
            u64::from(crc32c(CRC_SEED, &text)) << 32 | u64::from(crc32c(1, &text))
        };
        self.pages.iter().enumerate().map(of).fold(0, u64::wrapping_add)
    }

    /// Reads one page of the bitmap from its two places, as of the checkpoint of `generation`.
    pub(crate) fn load_page(&mut self, index: u64, places: [&[u8]; 2], generation: u64) -> Result<(), Malformed> {
        let states = [0, 1].map(|slot| parse_page(index, slot, places[slot as usize]));
        let valid = states.into_iter().flatten().filter(|page| page.generation <= generation);
        let page = valid.max_by_key(|page| page.generation);
        let page = page.ok_or(Malformed::new("bitmap of space", "has a page without a valid copy"))?;
        self.pages[index as usize] = page;
        let first = (index * BITMAP_PAGE_BLOCKS / 64) as usize;
        let words = self.image.words[first..].iter_mut().take((BITMAP_PAGE_BLOCKS / 64) as usize);
        for (at, word) in words.enumerate() {
            let bytes = &places[page.slot as usize][32 + at * 8..40 + at * 8];
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        Ok(())
    }

    /// All pages are loaded: checks them against their sum and makes the allocator's view.
    pub(crate) fn finish_loading(&mut self, sum: u64) -> Result<(), Malformed> {
        let bad = |why| Malformed::new("bitmap of space", why);
        if self.sum() != sum {
            return Err(bad("does not match the superblock"));
        }
        let end = self.geometry.space_blocks();
        let beyond = BlockRun::new(end, self.image.words.len() as u64 * 64 - end);
        let mut without = self.image.clone();
        if !self.geometry.fixed().all(|run| without.remove(run)) || !without.insert(beyond) {
            return Err(bad("has the fixed areas free or what is beyond the end taken"));
        }
        self.image_used = self.image.count() - self.geometry.fixed().map(|run| run.len).sum::<u64>();
        self.used = self.image.clone();
        self.free = self.geometry.data_blocks() - self.image_used;
        let pages = BlockRun::new(self.geometry.pages_start(), end - self.geometry.pages_start());
        let mut for_data = self.image.clone();
        for_data.remove(pages);
        let taken = for_data.count() - self.geometry.data_start();
        self.free_for_data = self.geometry.pages_start() - self.geometry.data_start() - taken;
        for area in [&mut self.data, &mut self.pages_area] {
            area.top = self.image.end_of(area.first, area.end);
        }
        self.changed.clear();
        Ok(())
    }
}

fn parse_page(index: u64, slot: u64, bytes: &[u8]) -> Option<PageState> {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let crc = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
    let valid = bytes[..4] == MAGIC.to_le_bytes() && crc == crc32c(CRC_SEED, &bytes[8..]) && u64_at(16) == index;
    valid.then(|| PageState { slot, generation: u64_at(8), crc })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::layout::Areas;
    use base::Rng;

    fn geometry() -> Geometry {
        Geometry::new(&Areas::single(600 << 20, 1 << 20)).expect("there is room")
    }

    #[test]
    fn what_is_handed_out_is_free_and_neighbours_follow() {
        let mut space = Space::new(geometry());
        let first = space.allocate(10).expect("empty");
        assert_eq!(first, BlockRun::new(geometry().data_start(), 10));
        assert_eq!(space.allocate(5).expect("room").start, first.end());
        space.release(BlockRun::new(first.start + 2, 3));
        let pages = geometry().blocks - geometry().pages_start();
        let all = space.free() - pages;
        let mut given = 0;
        let mut last = BlockRun::default();
        while let Some(run) = space.allocate(1 << 20) {
            given += run.len;
            last = run;
        }
        assert_eq!((given, space.free()), (all, pages));
        assert_eq!(last, BlockRun::new(first.start + 2, 3), "the search wraps around");
        assert!(!space.take(last) && !space.take(BlockRun::new(0, 1)));
        space.release(BlockRun::new(first.start + 2, 2));
        let first_page = space.allocate_whole(3).expect("what data leaves alone");
        assert_eq!(first_page.start, geometry().pages_start().next_multiple_of(SPAN_BLOCKS));
        while space.allocate_whole(3).is_some() {}
        assert_eq!(space.allocate_whole(2), Some(BlockRun::new(first.start + 2, 2)), "then anywhere");
    }

    #[test]
    fn what_was_used_is_used_again_in_spans_before_anything_new() {
        let mut space = Space::new(geometry());
        let used: Vec<BlockRun> = (0..10).map(|_| space.allocate(100).expect("room")).collect();
        let is_span = |run: &BlockRun| run.start.is_multiple_of(SPAN_BLOCKS);
        assert!(used.iter().all(is_span), "what is large begins with a span");
        // A hole of a few blocks is left alone as long as there is better.
        space.release(BlockRun::new(used[1].start, 5));
        let begun = geometry().data_start();
        assert_eq!(space.allocate(1), Some(BlockRun::new(begun, 1)), "the span that was begun");
        let rest = used[0].start - begun - 1;
        assert_eq!(space.allocate(rest + 2), Some(BlockRun::new(begun + 1, rest)), "up to its end");
        used[3..5].iter().for_each(|run| space.release(*run));
        let again: Vec<u64> = (0..5).filter_map(|_| space.allocate(64)).map(|run| run.start).collect();
        let new = used[9].end().next_multiple_of(SPAN_BLOCKS);
        assert_eq!(again, [used[3].start, used[3].start + 64, used[4].start, used[4].start + 64, new]);
        let hole = BlockRun::new(used[0].end(), used[1].start + 5 - used[0].end());
        assert_eq!(space.take_free(BlockRun::new(used[0].start, 200), 5), [hole]);
        assert!(!space.take(BlockRun::new(used[1].start, 5)), "taken for as long as the device is told");
    }

    /// One small run once let all large ones go on behind it, ever further.
    #[test]
    fn what_is_written_again_and_again_stays_where_it_is() {
        let mut space = Space::new(geometry());
        space.allocate(1).expect("empty");
        let mut live: Vec<BlockRun> = (0..8).map(|_| space.allocate(256).expect("room")).collect();
        let top = live[7].end();
        for at in 0..100 {
            let run = space.allocate(256).expect("room");
            assert!(run.len == 256 && run.end() <= top + 256, "{run:?} after {at}");
            space.release(core::mem::replace(&mut live[at % 8], run));
        }
    }

    #[test]
    fn after_a_start_the_top_is_where_it_was() {
        let mut set = BlockSet::new(200);
        assert_eq!(set.end_of(3, 200), 3);
        for last in [70, 127, 128, 199] {
            set.insert(BlockRun::new(last, 1));
            assert_eq!((set.end_of(3, 200), set.end_of(3, last)), (last + 1, set.end_of(3, last)));
            assert!(set.end_of(3, last) <= last);
        }
    }

    #[test]
    fn the_bitmap_is_read_as_it_was_written() {
        let mut rng = Rng::new(5);
        let mut space = Space::new(geometry());
        let pages = geometry().bitmap_pages();
        let mut device = vec![[vec![0; 4096], vec![0; 4096]]; pages as usize];
        for generation in 1..6 {
            for _ in 0..100 {
                let run = BlockRun::new(
                    geometry().data_start() + rng.below(geometry().data_blocks() - 70),
                    1 + rng.below(64),
                );
                if space.image.clone().insert(run) {
                    assert!(space.image_insert(run));
                } else if space.image.clone().remove(run) {
                    assert!(space.image_remove(run));
                }
            }
            while let Some((block, buf)) = space.next_page(generation) {
                let at = block - 16;
                device[(at / 2) as usize][(at % 2) as usize] = buf.as_ref().to_vec();
            }
            let mut again = Space::new(geometry());
            let places = |index: u64| [0, 1].map(|slot: usize| &device[index as usize][slot][..]);
            (0..pages).for_each(|i| again.load_page(i, places(i), generation).expect("just written"));
            again.finish_loading(space.sum()).expect("just written");
            assert_eq!(again.image, space.image);
            assert_eq!(again.free(), geometry().data_blocks() - space.image_used);
            assert!(again.finish_loading(space.sum() ^ 1).is_err());
        }
        let mut bad = device[1].clone();
        bad.iter_mut().for_each(|copy| copy[100] ^= 1);
        let mut again = Space::new(geometry());
        assert!(again.load_page(1, [&bad[0], &bad[1]], 9).is_err());
    }
}
