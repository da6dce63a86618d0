//! The object-store contract: collections of objects with data, attributes and an ordered key-value map.
//!
//! Owns what a store promises an OSD (`contract`), the transactions and read requests it is spoken to with, the store
//! that keeps everything in memory, the durable one, the stream by which a collection travels between stores, and the
//! conformance suite that every store passes. Refuses to know about PGs'
//! meaning, replication or clients; does no I/O and reads no clock.
//!
//! Invariants: a transaction applies as a whole or not at all; transactions of one collection apply in the order of
//! their submission; a read sees every transaction submitted before it, and commits say when those are durable.
//!
//! Read next: `contract`, then `memory`, then `extent`.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod contract;
pub mod extent;
pub mod hash_range;
pub mod id;
pub mod limits;
pub mod memory;
pub mod pg_stream;
pub mod read;
pub mod transaction;

pub use base::SnapId;
pub use contract::{AheadId, CommitId, Completion, ObjectStore, ReadId, StoreError};
pub use extent::{ExtentOptions, ExtentStore};
pub use hash_range::HashRange;
pub use id::{CollectionId, ObjectId, RECORD, STAGED};
pub use memory::{MemoryStore, Restore};
pub use read::{
    AttrsWant, Extent, ListEntry, ListWant, ObjectView, ObjectWant, OmapWant, ReadRequest, ReadResult, ReadWhat,
};
pub use transaction::{Op, Part, Transaction};
