//! The services, one file each: what the monitor knows, apart from who asks for it.
//!
//! Each owns its part of the store and hands its unwritten changes to the batch that `mon` builds (`flush`).

pub mod auth;
pub mod config;
pub mod config_key;
pub mod creating_pgs;
pub mod daemon_reports;
pub mod health;
pub mod log;
pub mod mon_map;
pub mod osd_map;
pub mod osd_reports;
pub mod progress;
pub mod purged_snaps;
pub mod stat_sum;
pub mod stats;
