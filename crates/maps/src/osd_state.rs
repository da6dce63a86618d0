//! What the OSD map holds about one OSD: state bits, epochs of its lives, addresses.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.{h,cc}` (`osd_info_t` version 1, `osd_xinfo_t` version 4) and
//! `src/include/rados.h` (`CEPH_OSD_*`). Read next: `osd_map`, which keeps these per OSD id.

use base::Epoch;
use wire::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use wire::types::{AddrVec, UTime};

/// A weight or affinity of 1, in 16.16 fixed point: fully in, and willing to be primary.
pub const WEIGHT_ONE: u32 = 0x1_0000;

/// State bits of an OSD (`CEPH_OSD_*`). Bits unknown here are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct OsdState(pub u32);

macro_rules! states {
    ($($name:ident = $bit:literal, $text:literal, $doc:literal;)*) => {
        impl OsdState {
            $(#[doc = $doc] pub const $name: OsdState = OsdState(1 << $bit);)*

            const NAMES: &'static [(u32, &'static str)] = &[$((1 << $bit, $text)),*];
        }
    };
}

states! {
    EXISTS = 0, "exists", "There is an OSD of this id.";
    UP = 1, "up", "It has booted and is thought alive.";
    AUTOOUT = 2, "autoout", "The monitor marked it out by itself.";
    NEW = 3, "new", "It has never been in.";
    FULL = 4, "full", "Its store is full.";
    NEARFULL = 5, "nearfull", "Its store is nearly full.";
    BACKFILLFULL = 6, "backfillfull", "Its store is too full to backfill to.";
    DESTROYED = 7, "destroyed", "Its data is gone; the id waits for a new disk.";
    NOUP = 8, "noup", "It may not be marked up.";
    NODOWN = 9, "nodown", "It may not be marked down.";
    NOIN = 10, "noin", "It may not be marked in.";
    NOOUT = 11, "noout", "It may not be marked out.";
    STOP = 12, "stop", "It was asked to stop.";
}

impl OsdState {
    /// Are all of these set?
    pub fn contains(self, bits: OsdState) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// With these set.
    pub const fn with(self, bits: OsdState) -> OsdState {
        OsdState(self.0 | bits.0)
    }

    /// With these clear.
    pub const fn without(self, bits: OsdState) -> OsdState {
        OsdState(self.0 & !bits.0)
    }

    /// With these flipped.
    pub fn flipped(self, bits: OsdState) -> OsdState {
        OsdState(self.0 ^ bits.0)
    }

    /// The names of the bits that are set, in order of bit. Ceph's JSON sorts them by name.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name)
    }
}

wire::newtype_codec! {
    OsdState = OsdState as u32;
}

/// Epochs of an OSD's lives (`osd_info_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OsdInfo {
    /// Start of the last life that ended with a clean stop.
    pub last_clean_begin: Epoch,
    /// Its end.
    pub last_clean_end: Epoch,
    /// When it was last marked up.
    pub up_from: Epoch,
    /// The last epoch it told the monitor it was alive in; before a group's first write of an interval this must
    /// reach the interval's start.
    pub up_thru: Epoch,
    /// When it was last marked down.
    pub down_at: Epoch,
    /// When an operator declared its data lost.
    pub lost_at: Epoch,
}

impl Encode for OsdInfo {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.put(&self.last_clean_begin);
        e.put(&self.last_clean_end);
        e.put(&self.up_from);
        e.put(&self.up_thru);
        e.put(&self.down_at);
        e.put(&self.lost_at);
    }
}

impl Decode for OsdInfo {
    const MIN_BYTES: usize = 25;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        if d.u8()? != 1 {
            return Err(Malformed::new("osd_info_t", "has an unknown version"));
        }
        Ok(OsdInfo {
            last_clean_begin: d.get()?,
            last_clean_end: d.get()?,
            up_from: d.get()?,
            up_thru: d.get()?,
            down_at: d.get()?,
            lost_at: d.get()?,
        })
    }
}

/// What else is known of an OSD (`osd_xinfo_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OsdXInfo {
    /// When it was last marked down.
    pub down_stamp: UTime,
    /// How likely it is slow rather than dead when others report it, in units of 1 / (2^32 - 1).
    pub laggy_probability: u32,
    /// How long such slowness lasted, seconds, decaying.
    pub laggy_interval_secs: u32,
    /// The features it booted with.
    pub features: u64,
    /// The weight it had before it was marked out by the monitor; given back when it returns.
    pub old_weight: u32,
    /// When its purged snapshots were last checked.
    pub last_purged_snaps_scrub: UTime,
    /// The last epoch it is known to have been dead in.
    pub dead_epoch: Epoch,
}

impl OsdXInfo {
    /// The laggy probability as a fraction.
    pub fn laggy_fraction(&self) -> f32 {
        self.laggy_probability as f32 / u32::MAX as f32
    }
}

impl Encode for OsdXInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 1, |e| {
            e.put(&self.down_stamp);
            e.u32(self.laggy_probability);
            e.u32(self.laggy_interval_secs);
            e.u64(self.features);
            e.u32(self.old_weight);
            e.put(&self.last_purged_snaps_scrub);
            e.put(&self.dead_epoch);
        });
    }
}

impl Decode for OsdXInfo {
    const MIN_BYTES: usize = 46;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.versioned("osd_xinfo_t", 4, |d, version| {
            if version < 4 {
                return Err(Malformed::new("osd_xinfo_t", "is older than Octopus writes"));
            }
            Ok(OsdXInfo {
                down_stamp: d.get()?,
                laggy_probability: d.u32()?,
                laggy_interval_secs: d.u32()?,
                features: d.u64()?,
                old_weight: d.u32()?,
                last_purged_snaps_scrub: d.get()?,
                dead_epoch: d.get()?,
            })
        })
    }
}

/// Where an OSD listens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdAddrs {
    /// For clients.
    pub client: AddrVec,
    /// For other OSDs.
    pub cluster: AddrVec,
    /// For heartbeats over the clients' network.
    pub heartbeat_front: AddrVec,
    /// For heartbeats over the cluster's network.
    pub heartbeat_back: AddrVec,
}
