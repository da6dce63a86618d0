//! Flags of the whole cluster in the OSD map (`CEPH_OSDMAP_*`).
//!
//! Follows Ceph v16.2 `src/include/rados.h`; the order of names is that of `OSDMap::get_flag_string`.

/// Flags of the whole cluster. Bits unknown here are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapFlags(pub u32);

macro_rules! flags {
    ($($name:ident = $bit:literal, $text:literal, $doc:literal;)*) => {
        impl MapFlags {
            $(#[doc = $doc] pub const $name: MapFlags = MapFlags(1 << $bit);)*

            const NAMES: &'static [(u32, &'static str)] = &[$((1 << $bit, $text)),*];
        }
    };
}

flags! {
    NEARFULL = 0, "nearfull", "Some OSD is nearly full; set by releases before Luminous.";
    FULL = 1, "full", "Some OSD is full; set by releases before Luminous.";
    PAUSERD = 2, "pauserd", "Reads wait.";
    PAUSEWR = 3, "pausewr", "Writes wait.";
    PAUSEREC = 4, "pauserec", "Recovery waits.";
    NOUP = 5, "noup", "OSDs may not be marked up.";
    NODOWN = 6, "nodown", "OSDs may not be marked down.";
    NOOUT = 7, "noout", "OSDs are not marked out by themselves.";
    NOIN = 8, "noin", "OSDs are not marked in when they boot.";
    NOBACKFILL = 9, "nobackfill", "Backfill waits.";
    NOREBALANCE = 14, "norebalance", "Backfill of groups that are not degraded waits.";
    NORECOVER = 10, "norecover", "Recovery and backfill wait.";
    NOSCRUB = 11, "noscrub", "No scrubs.";
    NODEEP_SCRUB = 12, "nodeep-scrub", "No deep scrubs.";
    NOTIERAGENT = 13, "notieragent", "Cache tiers neither flush nor evict.";
    NOSNAPTRIM = 21, "nosnaptrim", "Removed snapshots are not trimmed.";
    SORTBITWISE = 15, "sortbitwise", "Objects are ordered by their reversed hash.";
    REQUIRE_JEWEL = 16, "require_jewel_osds", "Of old.";
    REQUIRE_KRAKEN = 17, "require_kraken_osds", "Of old.";
    REQUIRE_LUMINOUS = 18, "require_luminous_osds", "Of old.";
    RECOVERY_DELETES = 19, "recovery_deletes", "Deletes are recovered, not peered.";
    PURGED_SNAPDIRS = 20, "purged_snapdirs", "No snapshot directories of old are left.";
    PGLOG_HARDLIMIT = 22, "pglog_hardlimit", "Logs of groups are trimmed to a hard limit.";
    NOAUTOSCALE = 23, "noautoscale", "The autoscaler is off in every pool.";
}

impl MapFlags {
    /// Are all of these set?
    pub fn contains(self, flags: MapFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// With these set.
    pub fn with(self, flags: MapFlags) -> MapFlags {
        MapFlags(self.0 | flags.0)
    }

    /// With these clear.
    pub fn without(self, flags: MapFlags) -> MapFlags {
        MapFlags(self.0 & !flags.0)
    }

    /// The names of the flags that are set, in Ceph's order (dumps join them by commas).
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name)
    }

    /// The flag of that name.
    pub fn from_name(name: &str) -> Option<MapFlags> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(bit, _)| MapFlags(*bit))
    }
}

wire::newtype_codec! {
    MapFlags = MapFlags as u32;
}
