//! Statistics as dumps show them.
//!
//! Follows the names and order of Ceph v16.2 `src/osd/osd_types.cc` (`pg_stat_t::dump`, `object_stat_sum_t::dump`).
//! Here because both the monitor (`pg dump`) and the OSDs (`pg query`) show them.

use super::{ObjectStatSum, PgStat, PgState};
use admin::format::{Value, quantity};
use admin::object;
use base::{EVersion, OsdId, PgId};

/// A log version: `26'33`.
pub fn version(v: EVersion) -> String {
    format!("{}'{}", v.epoch, v.version)
}

/// Counts over objects with the names that dumps use.
pub fn counts_value(c: &ObjectStatSum) -> Value {
    object! {
        "num_bytes" => c.num_bytes,
        "num_objects" => c.num_objects,
        "num_object_clones" => c.num_object_clones,
        "num_object_copies" => c.num_object_copies,
        "num_objects_missing_on_primary" => c.num_objects_missing_on_primary,
        "num_objects_missing" => c.num_objects_missing,
        "num_objects_degraded" => c.num_objects_degraded,
        "num_objects_misplaced" => c.num_objects_misplaced,
        "num_objects_unfound" => c.num_objects_unfound,
        "num_objects_dirty" => c.num_objects_dirty,
        "num_whiteouts" => c.num_whiteouts,
        "num_read" => c.num_rd,
        "num_read_kb" => c.num_rd_kb,
        "num_write" => c.num_wr,
        "num_write_kb" => c.num_wr_kb,
        "num_scrub_errors" => c.num_scrub_errors,
        "num_shallow_scrub_errors" => c.num_shallow_scrub_errors,
        "num_deep_scrub_errors" => c.num_deep_scrub_errors,
        "num_objects_recovered" => c.num_objects_recovered,
        "num_bytes_recovered" => c.num_bytes_recovered,
        "num_keys_recovered" => c.num_keys_recovered,
        "num_objects_omap" => c.num_objects_omap,
        "num_objects_hit_set_archive" => c.num_objects_hit_set_archive,
        "num_bytes_hit_set_archive" => c.num_bytes_hit_set_archive,
        "num_flush" => c.num_flush,
        "num_flush_kb" => c.num_flush_kb,
        "num_evict" => c.num_evict,
        "num_evict_kb" => c.num_evict_kb,
        "num_promote" => c.num_promote,
        "num_flush_mode_high" => c.num_flush_mode_high,
        "num_flush_mode_low" => c.num_flush_mode_low,
        "num_evict_mode_some" => c.num_evict_mode_some,
        "num_evict_mode_full" => c.num_evict_mode_full,
        "num_objects_pinned" => c.num_objects_pinned,
        "num_legacy_snapsets" => c.num_legacy_snapsets,
        "num_large_omap_objects" => c.num_large_omap_objects,
        "num_objects_manifest" => c.num_objects_manifest,
        "num_omap_bytes" => c.num_omap_bytes,
        "num_omap_keys" => c.num_omap_keys,
        "num_objects_repaired" => c.num_objects_repaired,
    }
}

/// OSDs by number.
pub fn ids(osds: &[OsdId]) -> Value {
    Value::array(osds.iter().map(|o| o.0))
}

/// A state as people read it; nothing known is `unknown`.
pub fn state_text(state: PgState) -> String {
    if state == PgState::default() { "unknown".to_owned() } else { state.to_string() }
}

/// One placement group as programs read it.
pub fn pg_value(pg: PgId, s: &PgStat) -> Value {
    let mut value = object! { "pgid" => pg.to_string() };
    value.extend(stat_value(s));
    value
}

/// A placement group's statistics.
pub fn stat_value(s: &PgStat) -> Value {
    let time = |at: wire::types::UTime| quantity::local_time(at.into());
    object! {
        "version" => version(s.version),
        "reported_seq" => s.reported_seq,
        "reported_epoch" => s.reported_epoch.0,
        "state" => state_text(s.state),
        "last_fresh" => time(s.last_fresh),
        "last_change" => time(s.last_change),
        "last_active" => time(s.last_active),
        "last_peered" => time(s.last_peered),
        "last_clean" => time(s.last_clean),
        "last_became_active" => time(s.last_became_active),
        "last_became_peered" => time(s.last_became_peered),
        "last_unstale" => time(s.last_unstale),
        "last_undegraded" => time(s.last_undegraded),
        "last_fullsized" => time(s.last_fullsized),
        "mapping_epoch" => s.mapping_epoch.0,
        "log_start" => version(s.log_start),
        "ondisk_log_start" => version(s.ondisk_log_start),
        "created" => s.created.0,
        "last_epoch_clean" => s.last_epoch_clean.0,
        "parent" => s.parent.to_string(),
        "parent_split_bits" => s.parent_split_bits,
        "last_scrub" => version(s.last_scrub),
        "last_scrub_stamp" => time(s.last_scrub_stamp),
        "last_deep_scrub" => version(s.last_deep_scrub),
        "last_deep_scrub_stamp" => time(s.last_deep_scrub_stamp),
        "last_clean_scrub_stamp" => time(s.last_clean_scrub_stamp),
        "log_size" => s.log_size,
        "ondisk_log_size" => s.ondisk_log_size,
        "stats_invalid" => s.invalid.all,
        "dirty_stats_invalid" => s.invalid.dirty,
        "omap_stats_invalid" => s.invalid.omap,
        "hitset_stats_invalid" => s.invalid.hit_set,
        "hitset_bytes_stats_invalid" => s.invalid.hit_set_bytes,
        "pin_stats_invalid" => s.invalid.pin,
        "manifest_stats_invalid" => s.invalid.manifest,
        "snaptrimq_len" => s.snaptrimq_len,
        "stat_sum" => counts_value(&s.stats.sum),
        "up" => ids(&s.up),
        "acting" => ids(&s.acting),
        "avail_no_missing" => Value::array(s.avail_no_missing.iter().map(|shard| shard.osd.to_string())),
        "object_location_counts" => Value::Array(vec![]),
        "blocked_by" => ids(&s.blocked_by),
        "up_primary" => s.up_primary.0,
        "acting_primary" => s.acting_primary.0,
        "purged_snaps" => Value::array(s.purged_snaps.intervals().map(|(start, len)| {
            object! { "start" => start.0, "length" => len }
        })),
    }
}
