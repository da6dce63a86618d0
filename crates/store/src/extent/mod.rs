//! The extent store: durable, checksummed, on one file or block device.
//!
//! Owns the format (`FORMAT.md`) and the engine behind it, which does no I/O itself: it hands out requests for a
//! device and takes their ends (`device`). A transaction is carried out in memory, written to the log with everything
//! else that arrived meanwhile, and acknowledged when that is durable; checkpoints bring what the log holds into a
//! copy-on-write tree in the background. Nothing that is valid is ever overwritten; everything is checked when it is
//! read.
//!
//! Read next: `FORMAT.md`, `store` (the engine), `db` (its state), `execute` (what transactions do), `checkpoint`.

mod cache;
mod check;
mod checkpoint;
mod db;
pub mod device;
mod execute;
mod jobs;
mod keys;
pub mod layout;
mod log;
mod memtable;
mod merge;
mod object;
mod open;
mod page;
mod place;
mod record;
mod replay;
mod shared;
mod space;
mod store;
mod superblock;
mod tree;
mod view;

pub use cache::CacheCounts;
pub use check::{CheckReport, Problem, check};
pub use open::{format, open};
pub use store::{ExtentCounts, ExtentOptions, ExtentStore, Usage};
pub use superblock::{Label, OpenError};

/// The format, described byte by byte.
pub const FORMAT: &str = include_str!("FORMAT.md");
