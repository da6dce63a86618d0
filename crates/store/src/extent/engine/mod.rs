//! The engine: requests for the device out, their ends in.
//!
//! Owns the order of work between commits, reads and checkpoints; refuses to know what a transaction means.
//!
//! Read next: `store` (the engine itself), `submissions` (transactions and reads in their turn) and `out_of_line` (those
//! too long for the log), `direct` and `ahead` (large data goes to its place with its transaction, or before it) and what
//! they share, `paced`, `placing` (data goes from the log to its place), `background` and `checkpoint` (the log's content
//! becomes the tree's), `untold` (the device hears what is free), `fetching`, `jobs` and `long_reads` (what comes from the
//! device), `reallocation` (what came in many pieces is laid out anew).

mod ahead;
mod background;
pub(crate) mod checkpoint;
mod direct;
mod fetching;
pub(crate) mod figures;
pub(crate) mod jobs;
mod long_reads;
mod out_of_line;
mod paced;
mod placing;
mod reallocation;
pub(crate) mod store;
mod submissions;
mod untold;
