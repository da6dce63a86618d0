//! `osd pool get`: a pool's settings one by one, or all that are set.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`preprocess_command_impl`, "osd pool get").

use super::osd_pool::{option_value, pool_named};
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::Errno;
use maps::pool::PoolFlags;
use maps::pool_options::{OptionKey, OptionKind};
use maps::{OsdMap, PgPool};

pub(super) const COMMANDS: &[CommandSpec] = &[spec(
    "osd pool get name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|crush_rule|\
hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|hit_set_period|\
hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_objects|target_max_bytes|cache_target_dirty_ratio|\
cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|erasure_code_profile|\
min_read_recency_for_promote|all|min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|\
scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|\
compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|\
csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|\
pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|bulk",
    "show a pool's setting",
    "osd",
    "r",
    get,
)];

/// The settings that every pool has, in the order of `all`.
const ALWAYS: [&str; 15] = [
    "size",
    "min_size",
    "pg_num",
    "pgp_num",
    "crush_rule",
    "hashpspool",
    "nodelete",
    "nopgchange",
    "nosizechange",
    "write_fadvise_dontneed",
    "noscrub",
    "nodeep-scrub",
    "use_gmt_hitset",
    "fast_read",
    "pg_autoscale_mode",
];

/// Settings of cache tiers and erasure-coded pools, which no pool here is.
const NEVER: [&str; 17] = [
    "hit_set_type",
    "hit_set_period",
    "hit_set_count",
    "hit_set_fpp",
    "target_max_objects",
    "target_max_bytes",
    "cache_target_dirty_ratio",
    "cache_target_dirty_high_ratio",
    "cache_target_full_ratio",
    "cache_min_flush_age",
    "cache_min_evict_age",
    "erasure_code_profile",
    "min_read_recency_for_promote",
    "min_write_recency_for_promote",
    "hit_set_grade_decay_rate",
    "hit_set_search_last_n",
    "allow_ec_overwrites",
];

fn fixed_setting(map: &OsdMap, pool: &PgPool, var: &str) -> Option<Value> {
    Some(match var {
        "size" => pool.size.into(),
        "min_size" => pool.min_size.into(),
        "pg_num" => pool.pg_num.into(),
        "pgp_num" => pool.pgp_num.into(),
        "crush_rule" => {
            let id = i32::from(pool.crush_rule);
            map.crush.rule_name(id).map_or_else(|| id.to_string(), str::to_owned).into()
        }
        "use_gmt_hitset" => pool.tiering.use_gmt_hitset.into(),
        "fast_read" => i32::from(pool.fast_read).into(),
        "pg_autoscale_mode" => pool.autoscale_mode.name().into(),
        flag => pool.flags.contains(PoolFlags::from_name(flag)?).into(),
    })
}

fn text(var: &str, value: &Value) -> String {
    let shown = match value {
        Value::Text(text) => text.clone(),
        Value::Bool(flag) if var == "use_gmt_hitset" => i32::from(*flag).to_string(),
        Value::Float(number) => crate::format::value::percent_g(*number, 6),
        other => other.to_json(),
    };
    format!("{var}: {shown}\n")
}

fn get(mon: &mut Mon, call: &Call) -> Answer {
    let (name, var) = (call.text("pool")?, call.text("var")?);
    let map = mon.osds.map();
    let id = pool_named(map, &name)?;
    let Some(pool) = map.pool(id) else { return refuse(Errno::ENOENT, format!("unrecognized pool '{name}'")) };
    let found = settings(map, pool, &var)?;
    let value = || {
        let mut value = object! { "pool" => name.as_str(), "pool_id" => id.0 };
        found.iter().for_each(|(var, v)| value.push(var, v.clone()));
        value
    };
    Ok(Reply::either(call, value, || found.iter().map(|(var, v)| text(var, v)).collect()))
}

fn settings(map: &OsdMap, pool: &PgPool, var: &str) -> Result<Vec<(&'static str, Value)>, Refused> {
    let options = || OptionKey::ALL.iter().filter_map(|key| Some((key.name()?, pool.options.0.get(key)?)));
    if var == "all" {
        let mut all: Vec<_> = ALWAYS.iter().filter_map(|v| Some((*v, fixed_setting(map, pool, v)?))).collect();
        all.extend(options().map(|(name, value)| (name, option_value(value))));
        all.extend(fixed_setting(map, pool, "bulk").map(|v| ("bulk", v)));
        return Ok(all);
    }
    if let Some(value) = fixed_setting(map, pool, var) {
        let name = ALWAYS.iter().find(|v| **v == var).copied().unwrap_or("bulk");
        return Ok(vec![(name, value)]);
    }
    if NEVER.contains(&var) {
        let text = match var {
            "erasure_code_profile" | "allow_ec_overwrites" => format!("pool is not an erasure coded pool: no '{var}'"),
            _ => format!("pool is not a tier pool: variable not applicable: '{var}'"),
        };
        return refuse(Errno::EACCES, text);
    }
    let Some(key) = OptionKey::from_name(var) else {
        return refuse(Errno::EINVAL, format!("unrecognized variable '{var}'"));
    };
    match (pool.options.0.get(&key), key.kind(), key.name()) {
        (Some(value), _, Some(name)) => Ok(vec![(name, option_value(value))]),
        (None, Some(OptionKind::Text | OptionKind::Int | OptionKind::Double), _) => {
            refuse(Errno::ENOENT, format!("option '{var}' is not set on pool"))
        }
        _ => refuse(Errno::EINVAL, format!("unrecognized variable '{var}'")),
    }
}
