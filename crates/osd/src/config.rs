//! What an OSD is told at its start; nothing is read later.

use base::{Duration, OsdId};
use std::collections::BTreeMap;
use wire::cephx::CryptoKey;
use wire::types::{AddrVec, Uuid};

/// An OSD's parameters. Names and defaults are Ceph's where Ceph has the option.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    /// Its number.
    pub id: OsdId,
    /// The cluster it belongs to.
    pub fsid: Uuid,
    /// Names its store; a new store has a new one.
    pub osd_fsid: Uuid,
    /// Its key; none where authentication is off.
    pub key: Option<CryptoKey>,
    /// Where the monitors are.
    pub mon_addrs: Vec<AddrVec>,
    /// Where clients reach it, with this life's nonce.
    pub public_addrs: AddrVec,
    /// Where other OSDs reach it.
    pub cluster_addrs: AddrVec,
    /// What `ceph osd metadata` shows, beside what the engine knows.
    pub metadata: BTreeMap<String, String>,
    /// How many bytes the store can hold, for `ceph df`.
    pub store_bytes: u64,
    /// A member whose store is newer than an interval counts as having lost nothing. For stores that forget by
    /// intent (memory), whose owner prefers an empty cluster to none.
    pub accept_loss: bool,
    /// How often statistics go out without cause (`mgr_stats_period`).
    pub stats_interval: Duration,
    /// Options from the configuration file.
    pub options: BTreeMap<String, String>,
}

impl OsdConfig {
    /// Whether the store is on a rotating disk.
    pub fn is_rotational(&self) -> bool {
        self.metadata.get("rotational").is_some_and(|value| value == "1")
    }
}
