//! What an owner sets of a store, and what it is shown: options, counts, room.

use crate::extent::state::cache::CacheCounts;

/// How a store is to work; nothing of it is on the device.
#[derive(Clone, Copy, Debug)]
pub struct ExtentOptions {
    /// Bytes of pages, objects and data kept in memory.
    pub cache_bytes: usize,
    /// Writes of at least so many bytes go to their places at once, smaller ones by the log.
    pub direct_min: usize,
    /// The device is told which blocks are free, in runs of at least so many; none where it is not.
    pub discard_blocks_min: Option<u64>,
    /// A range that a read finds in so many pieces is laid out anew.
    pub scattered_pieces_min: usize,
    /// Whether it is only looked at: nothing is written, no transaction taken.
    pub read_only: bool,
}

impl Default for ExtentOptions {
    fn default() -> ExtentOptions {
        ExtentOptions {
            cache_bytes: 32 << 20,
            direct_min: 64 << 10,
            discard_blocks_min: None,
            scattered_pieces_min: 16,
            read_only: false,
        }
    }
}

/// What a store has counted since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtentCounts {
    /// Transactions.
    pub transactions: u64,
    /// Records of the log, each the durability of a group of transactions.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Bytes of data written to their places at once.
    pub direct_bytes: u64,
    /// Bytes of data that were laid out anew.
    pub reallocated_bytes: u64,
    /// Checkpoints that ended.
    pub checkpoints: u64,
    /// Bytes that they wrote.
    pub checkpoint_bytes: u64,
    /// Reads that needed the device.
    pub device_reads: u64,
    /// Pages or blocks whose checksum was wrong.
    pub checksum_errors: u64,
    /// Bytes of data held now that are not yet in their place.
    pub waiting_bytes: u64,
    /// Bytes of metadata that no checkpoint has taken up yet.
    pub change_bytes: u64,
    /// Bytes that tell which blocks are free.
    pub space_bytes: u64,
    /// Bytes of buffers that the thread keeps for the next ones.
    pub buffer_bytes: u64,
    /// The cache's.
    pub cache: CacheCounts,
}

/// How full a store is, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// What data may have.
    pub total: u64,
    /// What of that is free.
    pub free: u64,
}
