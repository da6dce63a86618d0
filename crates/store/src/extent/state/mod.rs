//! The state in memory: changes since the last checkpoint, and what is kept of the device.
//!
//! Owns the layers that lookups go through; what none of them has is in the tree.
//!
//! Read next: `db` (the layers), `memtable` (one layer's changes), `cache` and `fresh` (what was read).

pub(crate) mod cache;
pub(crate) mod collection;
pub(crate) mod db;
pub(crate) mod fresh;
pub(crate) mod memtable;
