//! Where things lie on the device: blocks, runs of them, and the areas.
//!
//! Owns the arithmetic of addresses. Everything on the device is a whole number of blocks of 4 KiB; block 0 holds a
//! superblock, so that 0 can stand for "nowhere".
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

/// The areas of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// How many blocks the store uses.
    pub blocks: u64,
    /// How many of them the log has.
    pub log_blocks: u64,
}

impl Geometry {
    /// The areas of a device of `bytes` with a log of `log_bytes`; none where that is too little.
    pub fn new(bytes: u64, log_bytes: u64) -> Result<Geometry, Malformed> {
        let geometry = Geometry { blocks: bytes / BLOCK, log_blocks: log_bytes / BLOCK };
        geometry.check()?;
        Ok(geometry)
    }

    /// Refuses areas that do not fit: a log that is too short, or no room for data.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.blocks > u64::MAX / BLOCK / 4 || self.log_blocks < LOG_BLOCKS_MIN || self.log_blocks > self.blocks {
            return Err(Malformed::new("extent store geometry", "has an impossible log or size"));
        }
        if self.data_start() + LOG_BLOCKS_MIN > self.blocks {
            return Err(Malformed::new("extent store geometry", "leaves no room for data"));
        }
        Ok(())
    }

    /// How many pages the bitmap of space has; each has two places.
    pub fn bitmap_pages(&self) -> u64 {
        self.blocks.div_ceil(BITMAP_PAGE_BLOCKS)
    }

    /// The block of one of the two places of a page of the bitmap.
    pub(crate) fn bitmap_block(&self, page: u64, slot: u64) -> u64 {
        BITMAP_START + page * 2 + slot
    }

    /// The first block of the log.
    pub fn log_start(&self) -> u64 {
        BITMAP_START + self.bitmap_pages() * 2
    }

    /// The log's size in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.log_blocks * BLOCK
    }

    /// The first block of data.
    pub fn data_start(&self) -> u64 {
        self.log_start() + self.log_blocks
    }

    /// The first of the blocks that data leaves to pages of the tree: the last sixteenth of the device. So a device full
    /// of data still has room for the checkpoints that removals need.
    pub fn pages_start(&self) -> u64 {
        self.blocks - self.data_blocks() / 16
    }

    /// How many blocks data and metadata share.
    pub fn data_blocks(&self) -> u64 {
        self.blocks - self.data_start()
    }

    /// Whether a run lies where data may lie.
    pub(crate) fn is_data(&self, run: BlockRun) -> bool {
        run.start >= self.data_start() && run.start.checked_add(run.len).is_some_and(|end| end <= self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_follow_each_other_and_impossible_ones_are_refused() {
        let g = Geometry::new(16 << 30, 64 << 20).expect("there is room");
        assert_eq!((g.bitmap_pages(), g.log_start()), (130, 16 + 260));
        assert_eq!(g.data_start(), g.log_start() + 16384);
        assert!(g.is_data(BlockRun::new(g.data_start(), g.data_blocks())));
        assert!(!g.is_data(BlockRun::new(g.data_start(), g.data_blocks() + 1)));
        assert!(!g.is_data(BlockRun::new(g.data_start() - 1, 1)));
        assert!(!g.is_data(BlockRun::new(u64::MAX, 2)));
        for (bytes, log) in [(1 << 20, 1 << 20), (8 << 20, 4096), (0, 0), (u64::MAX, 1 << 20)] {
            assert!(Geometry::new(bytes, log).is_err(), "{bytes} {log}");
        }
    }

    #[test]
    fn runs_join_where_they_touch() {
        let mut runs = Vec::new();
        [5, 6, 7, 9, 8].into_iter().for_each(|b| push_block(&mut runs, b));
        assert_eq!(runs, [BlockRun::new(5, 3), BlockRun::new(9, 1), BlockRun::new(8, 1)]);
    }
}
