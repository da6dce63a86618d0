//! The monitor engine: the cluster's maps and keys, the manager's duties, and the commands of the `ceph` CLI.
//!
//! Owns the truth about the cluster: which OSDs there are and how they fare, which pools, who may do what, how it is
//! configured. Refuses to know about sockets, files, clocks and threads: events come in through `handle_*` with the
//! present time, commands come out of `poll_command`; and about Paxos: there is one monitor.
//!
//! Invariant: nothing leaves before the batch it depends on is on disk (`outbox`).
//!
//! Read next: `mon`.
#![forbid(unsafe_code)]

mod administration;
pub mod commands;
mod crush_view;
mod dispatch;
pub mod format;
mod fullness;
mod genesis;
mod health_checks;
pub mod limits;
pub mod manager_door;
mod metrics;
pub mod mon;
mod osd_boot;
mod osd_watch;
pub mod outbox;
mod pg_create;
mod pg_num_steps;
mod pool_ops;
mod pool_snaps;
mod queue_settings;
pub mod services;
pub mod sessions;
mod small_maps;
pub mod store;
mod subscriptions;
mod tenants;
mod tracking;
pub mod version;

pub(crate) use admin::{object, options};
pub use mon::{Command, InitialOsd, LogLevel, Mon, MonConfig, NewCluster};
pub use outbox::PersistId;
pub use store::{BadStore, BatchWrites};
