//! CRUSH: from a seed and a map of buckets and rules to devices.
//!
//! Owns Ceph's crush map: its bytes, the placement that clients and daemons compute from it, and the edits that the
//! monitor makes. Refuses to know about pools, OSD states or time: weights and seeds are handed in.
//!
//! Read next: [`map`] for the tables and their invariants, [`mapper`] for placement.
#![forbid(unsafe_code)]

pub mod bucket;
pub mod build;
mod choose;
pub mod choose_args;
mod codec;
pub mod dump;
pub mod edit;
pub mod hash;
pub mod limits;
mod ln;
pub mod map;
pub mod mapper;
pub mod rule;
pub mod tree;
pub mod tunables;
mod validate;

pub use bucket::{Algorithm, Bucket};
pub use choose_args::{ChooseArg, ChooseArgs};
pub use edit::{EditError, Location, SimpleRule};
pub use map::{CrushMap, ITEM_NONE};
pub use mapper::Scratch;
pub use rule::{Op, Rule, Step};
pub use tunables::{Profile, Tunables};
