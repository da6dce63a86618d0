//! Counts over objects: of a placement group, a pool, the cluster (`object_stat_sum_t`, version 20).
//!
//! Counts are signed, since differences travel too, and wrap rather than panic: they come from peers.

use crate::record::record;
use core::ops::{AddAssign, SubAssign};
use std::collections::BTreeMap;

macro_rules! counts {
    ($($(#[$meta:meta])* $field:ident: $ty:ty,)*) => {
        record! {
            /// Counts over objects.
            #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
            ObjectStatSum("object_stat_sum_t", 20, 14, 20) {
                $($(#[$meta])* $field: $ty,)*
            }
        }

        impl AddAssign<&ObjectStatSum> for ObjectStatSum {
            fn add_assign(&mut self, other: &ObjectStatSum) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }

        impl SubAssign<&ObjectStatSum> for ObjectStatSum {
            fn sub_assign(&mut self, other: &ObjectStatSum) {
                $(self.$field = self.$field.wrapping_sub(other.$field);)*
            }
        }

        impl ObjectStatSum {
            /// Every count with Ceph's name for it, in the order of the bytes.
            pub fn counts(&self) -> impl Iterator<Item = (&'static str, i64)> {
                [$((stringify!($field), i64::from(self.$field)),)*].into_iter()
            }
        }
    };
}

counts! {
    /// Bytes of data.
    num_bytes: i64,
    /// Objects, clones included.
    num_objects: i64,
    /// Of these, snapshots' clones.
    num_object_clones: i64,
    /// Copies there should be.
    num_object_copies: i64,
    /// Objects the primary lacks.
    num_objects_missing_on_primary: i64,
    /// Copies missing for want of OSDs.
    num_objects_degraded: i64,
    /// Objects that nobody has.
    num_objects_unfound: i64,
    /// Reads.
    num_rd: i64,
    /// KiB read.
    num_rd_kb: i64,
    /// Writes.
    num_wr: i64,
    /// KiB written.
    num_wr_kb: i64,
    /// Errors that scrubs found.
    num_scrub_errors: i64,
    /// Objects recovered.
    num_objects_recovered: i64,
    /// Bytes recovered.
    num_bytes_recovered: i64,
    /// Omap keys recovered.
    num_keys_recovered: i64,
    /// Errors that shallow scrubs found.
    num_shallow_scrub_errors: i64,
    /// Errors that deep scrubs found.
    num_deep_scrub_errors: i64,
    /// Objects not flushed from a cache tier.
    num_objects_dirty: i64,
    /// Deleted objects a cache tier remembers.
    num_whiteouts: i64,
    /// Objects with omap.
    num_objects_omap: i64,
    /// Hit set objects.
    num_objects_hit_set_archive: i64,
    /// Copies in the wrong place.
    num_objects_misplaced: i64,
    /// Bytes of hit sets.
    num_bytes_hit_set_archive: i64,
    /// Flushes of a cache tier.
    num_flush: i64,
    /// KiB flushed.
    num_flush_kb: i64,
    /// Evictions from a cache tier.
    num_evict: i64,
    /// KiB evicted.
    num_evict_kb: i64,
    /// Promotions to a cache tier.
    num_promote: i64,
    /// Groups flushing fast.
    num_flush_mode_high: i32,
    /// Groups flushing slowly.
    num_flush_mode_low: i32,
    /// Groups evicting some.
    num_evict_mode_some: i32,
    /// Groups evicting all they can.
    num_evict_mode_full: i32,
    /// Objects pinned in a cache tier.
    num_objects_pinned: i64,
    /// Copies missing.
    num_objects_missing: i64,
    /// Snapshot sets in the format of old.
    num_legacy_snapsets: i64,
    /// Objects with too much omap.
    num_large_omap_objects: i64,
    /// Objects that only refer to others.
    num_objects_manifest: i64,
    /// Bytes of omap.
    num_omap_bytes: i64,
    /// Keys of omap.
    num_omap_keys: i64,
    /// Objects repaired.
    num_objects_repaired: i64,
}

record! {
    /// Counts, and counts by category, of which there are none today (`object_stat_collection_t`).
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    ObjectStatCollection("object_stat_collection_t", 2, 2, 2) {
        /// Over all.
        sum: ObjectStatSum,
        /// By category.
        by_category: BTreeMap<String, ObjectStatSum>,
    }
}
