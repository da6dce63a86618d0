//! The ground floor: ids, epochs, time, checksums, seeded randomness, fixed-hash maps, errno values.
//!
//! Owns the vocabulary every other crate shares. Refuses to know about encodings (see `wire`), clocks, files or
//! sockets: time is a number somebody hands in, randomness a generator somebody seeds.
//!
//! Read next: `wire::codec`, which puts these values into bytes.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod errno;
pub mod hash;
pub mod id;
pub mod log;
pub mod planted;
pub mod rng;
pub mod sums;
pub mod time;
pub mod xxhash;

pub use errno::Errno;
pub use id::{EVersion, Epoch, GlobalId, OsdId, PgId, PoolId, SnapId};
pub use planted::Bug;
pub use rng::Rng;
pub use time::Instant;

pub use core::time::Duration;
