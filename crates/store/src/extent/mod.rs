//! The extent store: durable, checksummed, on one file or block device, or with its log and metadata on faster ones.
//!
//! Owns the format (`FORMAT.md`) and the engine behind it, which does no I/O itself: it hands out requests for a
//! device and takes their ends (`device`). A transaction is carried out in memory, written to the log with everything
//! else that arrived meanwhile, and acknowledged when that is durable; checkpoints bring what the log holds into a
//! copy-on-write tree in the background. Nothing that is valid is ever overwritten; everything is checked when it is
//! read.
//!
//! The folders: `open` (the start), `engine` (the order of work), `log` (durability), `objects` (what transactions and
//! reads mean), `state` (what is in memory), `tree` and `space` (what is on the device: metadata, and which blocks are
//! free).
//!
//! Read next: `FORMAT.md`, `engine::store`, `state::db`, `objects::execute`, `engine::checkpoint`.

mod check;
pub mod device;
mod engine;
pub mod layout;
mod log;
mod objects;
mod open;
mod space;
mod state;
mod superblock;
mod tree;

pub use check::{CheckReport, Problem, check};
pub use engine::figures::{ExtentCounts, ExtentOptions, Usage};
pub use engine::store::ExtentStore;
pub use open::{format, geometry, open};
pub use state::cache::CacheCounts;
pub use superblock::{Label, OpenError};

/// The format, described byte by byte.
pub const FORMAT: &str = include_str!("FORMAT.md");
