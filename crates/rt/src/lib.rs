//! The runtime: sockets, disks, threads and the real clock, driving the engines.
//!
//! Owns everything that touches the operating system on behalf of a daemon. Refuses to know what messages mean or how
//! bytes are framed: engines and `wire` do. The only crate that names tokio.
//!
//! Read next: `reactor`, one daemon's thread; then `mon_daemon` and `osd_daemon`, what it drives.
#![deny(unsafe_code)]

mod admin_socket;
pub mod ask;
mod bell;
pub mod block_device;
pub mod clock;
pub mod daemon;
pub mod errand;
pub mod extent_devices;
mod gather;
mod host;
pub mod hub;
pub mod image;
mod linger;
pub mod local;
mod log;
pub mod metrics;
pub mod mon_daemon;
pub mod mon_store;
pub mod osd_daemon;
pub mod osd_store;
pub mod pg_transfer;
mod preemption;
pub mod program;
pub mod reactor;
pub mod shaped_device;
pub mod signals;
pub mod store_tools;
mod stream;
pub mod threads;
