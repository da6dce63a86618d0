//! The engine: requests for the device out, their ends in.
//!
//! Owns the order of work between commits, reads and checkpoints; refuses to know what a transaction means.
//!
//! Read next: `store` (the engine itself), `checkpoint` (the log's content becomes the tree's), `jobs` (reads under way).

pub(crate) mod checkpoint;
pub(crate) mod jobs;
pub(crate) mod store;
