//! The OSD as a state machine: placement groups, clients' requests, replication, peering.
//!
//! Owns one OSD's state and decides everything about it; touches no socket, store, clock or thread: inputs are the
//! `handle_*` calls of [`Osd`], outputs its [`Command`]s. `rt` drives it in production, `sim` in virtual time.
//!
//! Named invariants: *acknowledged means everywhere* (a write is answered when every member of the acting set has it
//! durably); *once* (a request that was executed is never executed again while the log remembers it); *no stale
//! primary* (a PG serves only after it knows that it has everything that may have been acknowledged).
//!
//! Read next: `osd` (the front), `pg::peering`, `pg::client_io`, `ops`.
#![forbid(unsafe_code)]

pub mod administration;
mod bench;
pub mod boot;
pub mod caps;
mod class;
pub mod cluster_log;
pub mod commands;
pub mod config;
pub mod copies;
pub mod core;
pub mod counters;
pub mod deletion;
mod dumps;
pub mod following;
pub mod heartbeats;
pub mod life;
pub mod limits;
pub mod manager_report;
pub mod map_follower;
mod markdowns;
mod memory;
pub mod neighbours;
pub mod ops;
pub mod osd;
pub mod peer_messages;
pub mod peers;
pub mod pg;
pub mod pg_query;
pub mod ping_times;
pub mod placement;
pub mod pull_pace;
pub mod push_pace;
mod recovering;
pub mod recovery_pace;
pub mod replication;
pub mod reply;
pub mod requests;
pub mod reservations;
mod resizing;
pub mod room;
pub mod scheduler;
pub mod scrub_pace;
mod scrubs;
pub mod session;
pub mod stats;
pub mod store_meter;
pub mod suspects;
pub mod tenants;
pub mod testimony;
pub mod tracking;
pub mod trim_pace;
mod unfound;
pub mod watch;
pub mod wishes;

pub use boot::BootImage;
pub use config::OsdConfig;
pub use core::{Command, Level};
pub use memory::Resident;
pub use osd::Osd;

/// The release whose behaviour is followed.
pub const VERSION: &str = "16.2.15";
/// What `version` commands say: the release whose behaviour is followed, and who follows it.
pub const VERSION_TEXT: &str =
    concat!("ceph version 16.2.15 (loligo ", env!("CARGO_PKG_VERSION"), ") pacific (stable)");
