//! The monitors' map: who they are and where they listen (`MonMap`).
//!
//! Follows Ceph v16.2 `src/mon/MonMap.{h,cc}`, version 9, and `mon_info_t` version 5. Monitors are told apart by name;
//! their rank, by which messages name them, is their place in `ranks`.

use crate::record::record;
use crate::release::Release;
use base::Epoch;
use std::collections::{BTreeMap, BTreeSet};
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::{AddrVec, UTime, Uuid};

record! {
    /// Features that monitors agree on, a bit each (`mon_feature_t`).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    MonFeatures("mon_feature_t", 1, 1, 1) {
        /// The bits.
        bits: u64,
    }
}

impl MonFeatures {
    const NAMES: [&'static str; 8] =
        ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

    /// All that a Pacific monitor has (`ceph::features::mon::get_persistent`).
    pub const PACIFIC: MonFeatures = MonFeatures { bits: 0xff };

    /// The names of the bits that are set, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().enumerate().filter(move |(bit, _)| self.bits >> bit & 1 == 1).map(|(_, name)| name)
    }
}

record! {
    /// One monitor (`mon_info_t`).
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    MonInfo("mon_info_t", 5, 1, 5) {
        /// Its name, without "mon.".
        name: String,
        /// Where it listens.
        public_addrs: AddrVec,
        /// Clients prefer the lowest.
        priority: u16,
        /// Among equals, how often it is chosen.
        weight: u16,
        /// Where it stands: CRUSH type to bucket.
        crush_location: BTreeMap<String, String>,
    }
}

/// How monitors elect their leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ElectionStrategy {
    /// The lowest rank.
    #[default]
    Classic,
    /// The lowest rank that is not in `disallowed_leaders`.
    Disallow,
    /// The best connected.
    Connectivity,
}

impl ElectionStrategy {
    /// Its number in bytes and dumps.
    pub fn number(self) -> u8 {
        match self {
            ElectionStrategy::Classic => 1,
            ElectionStrategy::Disallow => 2,
            ElectionStrategy::Connectivity => 3,
        }
    }
}

impl Encode for ElectionStrategy {
    fn encode(&self, e: &mut Encoder) {
        e.u8(self.number());
    }
}

impl Decode for ElectionStrategy {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match d.u8()? {
            1 => Ok(ElectionStrategy::Classic),
            2 => Ok(ElectionStrategy::Disallow),
            3 => Ok(ElectionStrategy::Connectivity),
            _ => Err(Malformed::new("MonMap", "has an unknown election strategy")),
        }
    }
}

record! {
    /// The monitors' map.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    MonMap("MonMap", 9, 6, 9) {
        /// The cluster.
        fsid: Uuid,
        /// Which version this is.
        epoch: Epoch,
        /// When this version was made.
        last_changed: UTime,
        /// When the cluster was made.
        created: UTime,
        /// Features without which no monitor may join.
        persistent_features: MonFeatures,
        /// Features that may be switched on.
        optional_features: MonFeatures,
        /// The monitors by name.
        monitors: BTreeMap<String, MonInfo>,
        /// Their names by rank.
        ranks: Vec<String>,
        /// The oldest release among them.
        min_mon_release: Release,
        /// Ranks of monitors removed in this version.
        removed_ranks: BTreeSet<u32>,
        /// How they elect their leader.
        strategy: ElectionStrategy,
        /// Who may not lead.
        disallowed_leaders: BTreeSet<String>,
        /// Stretch mode.
        stretch_mode_enabled: bool,
        /// Stretch mode's third site.
        tiebreaker_mon: String,
        /// Monitors of a lost site.
        stretch_marked_down_mons: BTreeSet<String>,
    }
}

impl MonMap {
    /// The first map of a cluster with one monitor.
    pub fn single(fsid: Uuid, created: UTime, name: &str, addrs: AddrVec) -> MonMap {
        let info = MonInfo { name: name.to_owned(), public_addrs: addrs, ..MonInfo::default() };
        MonMap {
            fsid,
            epoch: Epoch(1),
            last_changed: created,
            created,
            persistent_features: MonFeatures::PACIFIC,
            monitors: [(name.to_owned(), info)].into(),
            ranks: vec![name.to_owned()],
            min_mon_release: Release::PACIFIC,
            ..MonMap::default()
        }
    }

    /// The monitor of a rank.
    pub fn by_rank(&self, rank: usize) -> Option<&MonInfo> {
        self.monitors.get(self.ranks.get(rank)?)
    }

    /// The rank of a monitor by its name.
    pub fn rank_of(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|known| known == name)
    }

    /// The monitors with their ranks, in order of rank.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &MonInfo)> {
        self.ranks.iter().enumerate().filter_map(|(rank, name)| Some((rank, self.monitors.get(name)?)))
    }
}
