//! Where things lie on the device: blocks, runs of them, and the areas.
//!
//! Owns the arithmetic of addresses. Everything on the device is a whole number of blocks of 4 KiB; block 0 holds a
//! superblock, so that 0 can stand for "nowhere". A store whose metadata or log has a device of its own counts its
//! blocks through: first those of the main device, then those of the metadata's, then those of the log's.
//!
//! Read next: `FORMAT.md` beside this file.

use wire::Malformed;

/// The unit of space, of checksums and of device requests, in bytes.
pub const BLOCK: u64 = 4096;

/// The blocks of the superblock's copies: two of each even generation, two of each odd one.
pub(crate) const SUPERBLOCKS: [[u64; 2]; 2] = [[0, 8], [4, 12]];

/// The first block after the superblocks.
const BITMAP_START: u64 = 16;

/// How many blocks one page of the bitmap of space tells of: what follows its header of 32 bytes.
pub(crate) const BITMAP_PAGE_BLOCKS: u64 = (BLOCK - 32) * 8;

/// The smallest device for metadata.
const META_BLOCKS_MIN: u64 = 256;

/// The smallest log: below it a few large groups fill it.
const LOG_BLOCKS_MIN: u64 = 64;

/// Consecutive blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct BlockRun {
    /// The first.
    pub start: u64,
    /// How many.
    pub len: u64,
}

impl BlockRun {
    /// `len` blocks from `start`.
    pub fn new(start: u64, len: u64) -> BlockRun {
        BlockRun { start, len }
    }

    /// The block after the last.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Appends a block to runs, which stay as few as the order of their making allows.
pub(crate) fn push_block(runs: &mut Vec<BlockRun>, block: u64) {
    push_run(runs, BlockRun::new(block, 1));
}

/// Appends a run to runs, joining it with the last where they touch.
pub(crate) fn push_run(runs: &mut Vec<BlockRun>, run: BlockRun) {
    match runs.last_mut() {
        Some(last) if last.end() == run.start => last.len += run.len,
        _ if run.len > 0 => runs.push(run),
        _ => {}
    }
}

/// How large a store's devices are to be, in bytes, and where its log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// The main device.
    pub main: u64,
    /// The metadata's device; 0 where it has none of its own.
    pub meta: u64,
    /// The log.
    pub log: u64,
    /// Whether the log has a device of its own: a block longer than the log, which labels it.
    pub log_apart: bool,
}

impl Areas {
    /// Everything on one device.
    pub fn single(main: u64, log: u64) -> Areas {
        Areas { main, meta: 0, log, log_apart: false }
    }
}

/// A device beside the main one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It has the metadata.
    Meta,
    /// It has the log.
    Log,
}

/// The areas of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// How many blocks of the main device the store uses.
    pub blocks: u64,
    /// How many blocks the metadata's device has; 0 where there is none.
    pub meta_blocks: u64,
    /// How many blocks the log has.
    pub log_blocks: u64,
    /// Whether the log has a device of its own.
    pub log_apart: bool,
}

impl Geometry {
    /// The areas on devices of these sizes; none where that is too little.
    pub fn new(areas: &Areas) -> Result<Geometry, Malformed> {
        let (blocks, meta_blocks, log_blocks) = (areas.main / BLOCK, areas.meta / BLOCK, areas.log / BLOCK);
        let geometry = Geometry { blocks, meta_blocks, log_blocks, log_apart: areas.log_apart };
        geometry.check()?;
        Ok(geometry)
    }

    /// Refuses areas that do not fit: a log that is too short, or no room for data.
    pub fn check(&self) -> Result<(), Malformed> {
        let most = u64::MAX / BLOCK / 4;
        let impossible = self.blocks > most || self.meta_blocks > most || self.log_blocks > most;
        if impossible || self.log_blocks < LOG_BLOCKS_MIN || !self.log_apart && self.log_blocks > self.blocks {
            return Err(Malformed::new("extent store geometry", "has an impossible log or size"));
        }
        let no_pages = self.meta_blocks > 0 && self.meta_blocks < META_BLOCKS_MIN;
        if self.data_start() + LOG_BLOCKS_MIN > self.blocks || no_pages {
            return Err(Malformed::new("extent store geometry", "leaves no room for data or metadata"));
        }
        Ok(())
    }

    /// Where a device beside the main one begins, if the store has it: the block with its label.
    pub fn member(&self, role: Role) -> Option<BlockRun> {
        match role {
            Role::Meta if self.meta_blocks > 0 => Some(BlockRun::new(self.blocks, self.meta_blocks)),
            Role::Log if self.log_apart => Some(BlockRun::new(self.space_blocks(), 1 + self.log_blocks)),
            _ => None,
        }
    }

    /// How many blocks all devices have.
    pub fn all_blocks(&self) -> u64 {
        self.member(Role::Log).map_or(self.space_blocks(), |log| log.end())
    }

    /// How many blocks the bitmap of space tells of.
    pub(crate) fn space_blocks(&self) -> u64 {
        self.blocks + self.meta_blocks
    }

    /// The blocks that are never free: the areas before the data, and the label of the metadata's device.
    pub(crate) fn fixed(&self) -> impl Iterator<Item = BlockRun> {
        let label = self.member(Role::Meta).map(|meta| BlockRun::new(meta.start, 1));
        core::iter::once(BlockRun::new(0, self.data_start())).chain(label)
    }

    /// How many pages the bitmap of space has; each has two places.
    pub fn bitmap_pages(&self) -> u64 {
        self.space_blocks().div_ceil(BITMAP_PAGE_BLOCKS)
    }

    /// The block of one of the two places of a page of the bitmap.
    pub(crate) fn bitmap_block(&self, page: u64, slot: u64) -> u64 {
        BITMAP_START + page * 2 + slot
    }

    /// The first block of the log.
    pub fn log_start(&self) -> u64 {
        self.member(Role::Log).map_or(self.bitmap_end(), |log| log.start + 1)
    }

    fn bitmap_end(&self) -> u64 {
        BITMAP_START + self.bitmap_pages() * 2
    }

    /// The log's size in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.log_blocks * BLOCK
    }

    /// The first block of data.
    pub fn data_start(&self) -> u64 {
        self.bitmap_end() + if self.log_apart { 0 } else { self.log_blocks }
    }

    /// The first of the blocks that data leaves to pages of the tree: the last sixteenth of the device, or the device
    /// that metadata has for itself. So a device full of data still has room for the checkpoints that removals need.
    pub fn pages_start(&self) -> u64 {
        let kept = if self.meta_blocks > 0 { 0 } else { (self.blocks - self.data_start()) / 16 };
        self.blocks - kept
    }

    /// How many blocks data and metadata share.
    pub fn data_blocks(&self) -> u64 {
        self.space_blocks() - self.fixed().map(|run| run.len).sum::<u64>()
    }

    /// Whether a run lies where data or pages may lie, on one device.
    pub(crate) fn is_data(&self, run: BlockRun) -> bool {
        let Some(end) = run.start.checked_add(run.len) else { return false };
        let on_main = run.start >= self.data_start() && end <= self.blocks;
        on_main || run.start > self.blocks && end <= self.space_blocks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_impossible_ones_are_refused() {
        let g = Geometry::new(&Areas::single(16 << 30, 64 << 20)).expect("there is room");
        assert_eq!((g.bitmap_pages(), g.log_start()), (130, 16 + 260));
        assert_eq!(g.data_start(), g.log_start() + 16384);
        assert!(g.is_data(BlockRun::new(g.data_start(), g.data_blocks())));
        assert!(!g.is_data(BlockRun::new(g.data_start(), g.data_blocks() + 1)));
        assert!(!g.is_data(BlockRun::new(g.data_start() - 1, 1)));
        assert!(!g.is_data(BlockRun::new(u64::MAX, 2)));
        for (bytes, log) in [(1 << 20, 1 << 20), (8 << 20, 4096), (0, 0), (u64::MAX, 1 << 20)] {
            assert!(Geometry::new(&Areas::single(bytes, log)).is_err(), "{bytes} {log}");
        }
    }

    #[test]
    fn devices_of_their_own_follow_the_main_one() {
        let areas = Areas { main: 64 << 20, meta: 8 << 20, log: 4 << 20, log_apart: true };
        let g = Geometry::new(&areas).expect("there is room");
        let (meta, log) = (g.member(Role::Meta).expect("apart"), g.member(Role::Log).expect("apart"));
        assert_eq!((meta, log), (BlockRun::new(16384, 2048), BlockRun::new(18432, 1025)));
        assert_eq!((g.log_start(), g.all_blocks()), (18433, 19457));
        assert_eq!((g.pages_start(), g.data_start()), (16384, 18));
        assert!(g.is_data(BlockRun::new(18, 16384 - 18)) && g.is_data(BlockRun::new(16385, 2047)));
        assert!(!g.is_data(BlockRun::new(16384, 1)), "the label");
        assert!(!g.is_data(BlockRun::new(16383, 2)) && !g.is_data(BlockRun::new(18431, 2)), "over an edge");
        assert_eq!(g.data_blocks(), 16384 - 18 + 2047);
        let single = Geometry::new(&Areas::single(64 << 20, 4 << 20)).expect("there is room");
        assert_eq!((single.member(Role::Meta), single.member(Role::Log), single.all_blocks()), (None, None, 16384));
        assert!(Geometry::new(&Areas { meta: 4096, ..areas }).is_err());
    }

    #[test]
    fn runs_join_where_they_touch() {
        let mut runs = Vec::new();
        [5, 6, 7, 9, 8].into_iter().for_each(|b| push_block(&mut runs, b));
        assert_eq!(runs, [BlockRun::new(5, 3), BlockRun::new(9, 1), BlockRun::new(8, 1)]);
    }
}
