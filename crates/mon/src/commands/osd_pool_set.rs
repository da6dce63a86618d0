//! `osd pool set`: changing a pool's settings.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_command_pool_set`). Of the number of placement groups only the
//! target is set here; `pg_num_steps` goes there.

use super::osd_pool::pool_named;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::mon::Mon;
use base::{Errno, PoolId};
use maps::PgPool;
use maps::pool::{AutoscaleMode, PoolFlags};
use maps::pool_options::{OptionKey, OptionKind, OptionValue};

pub(super) const COMMANDS: &[CommandSpec] = &[spec(
    "osd pool set name=pool,type=CephPoolname name=var,type=CephChoices,strings=size|min_size|pg_num|pgp_num|pgp_num_actual|\
crush_rule|hashpspool|nodelete|nopgchange|nosizechange|write_fadvise_dontneed|noscrub|nodeep-scrub|hit_set_type|\
hit_set_period|hit_set_count|hit_set_fpp|use_gmt_hitset|target_max_bytes|target_max_objects|cache_target_dirty_ratio|\
cache_target_dirty_high_ratio|cache_target_full_ratio|cache_min_flush_age|cache_min_evict_age|\
min_read_recency_for_promote|min_write_recency_for_promote|fast_read|hit_set_grade_decay_rate|hit_set_search_last_n|\
scrub_min_interval|scrub_max_interval|deep_scrub_interval|recovery_priority|recovery_op_priority|scrub_priority|\
compression_mode|compression_algorithm|compression_required_ratio|compression_max_blob_size|compression_min_blob_size|\
csum_type|csum_min_block|csum_max_block|allow_ec_overwrites|fingerprint_algorithm|pg_autoscale_mode|pg_autoscale_bias|\
pg_num_min|pg_num_max|target_size_bytes|target_size_ratio|dedup_tier|dedup_chunk_algorithm|dedup_cdc_chunk_size|bulk \
name=val,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
    "change a pool's setting",
    "osd",
    "rw",
    set,
)];

fn set(mon: &mut Mon, call: &Call) -> Answer {
    let (name, var, val) = (call.text("pool")?, call.text("var")?, call.text("val")?);
    let id = pool_named(mon.osds.upcoming(), &name)?;
    let Some(pool) = mon.osds.upcoming().pool(id).cloned() else {
        return refuse(Errno::ENOENT, format!("unrecognized pool '{name}'"));
    };
    match var.as_str() {
        "size" => set_size(mon, call, id, &pool, &val)?,
        "min_size" => set_min_size(mon, id, &pool, &val)?,
        "pg_num" | "pgp_num" | "pgp_num_actual" => set_pg_num(mon, id, &pool, &var, &val)?,
        "crush_rule" => set_rule(mon, id, &val)?,
        "pg_autoscale_mode" => {
            let Some(mode) = AutoscaleMode::from_name(&val) else {
                return refuse(Errno::EINVAL, format!("specified invalid mode {val}"));
            };
            mon.osds.edit_pool(id, |pool| pool.autoscale_mode = mode);
        }
        "fast_read" => return refuse(Errno::EINVAL, "fast read is not supported in replication pool"),
        "use_gmt_hitset" => {
            let flag = parse_flag(&val)?;
            mon.osds.edit_pool(id, |pool| pool.tiering.use_gmt_hitset = flag);
        }
        "allow_ec_overwrites" => {
            return refuse(Errno::EINVAL, "ec overwrites can only be enabled for an erasure coded pool");
        }
        _ if PoolFlags::from_name(&var).is_some() => set_flag(mon, call, id, &var, &val)?,
        _ => set_option(mon, id, &var, &val)?,
    }
    Ok(Reply::status(format!("set pool {id} {var} to {val}")))
}

fn parse_int(val: &str) -> Result<i64, Refused> {
    val.parse().map_err(|_| {
        Refused::new(
            Errno::EINVAL,
            format!("error parsing integer value '{val}': Expected option value to be integer, got '{val}'"),
        )
    })
}

fn parse_flag(val: &str) -> Result<bool, Refused> {
    match val {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => refuse(Errno::EINVAL, "expecting value 'true', 'false', '0', or '1'"),
    }
}

fn set_size(mon: &mut Mon, call: &Call, id: PoolId, pool: &PgPool, val: &str) -> Result<(), Refused> {
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let text = "pool size change is disabled; you must unset nosizechange flag for the pool first";
        return refuse(Errno::EPERM, text);
    }
    let size = parse_int(val)?;
    let size = u8::try_from(size).map_err(|_| Refused::new(Errno::EINVAL, "pool size must be between 1 and 10"))?;
    mon.check_size(size)?;
    if size == 1 {
        if !mon.option_bool("mon_allow_pool_size_one") {
            return refuse(Errno::EPERM, "configuring pool size as 1 is disabled by default.");
        }
        if !call.flag("yes_i_really_mean_it") {
            return refuse(
                Errno::EPERM,
                "WARNING: setting pool size 1 could lead to data loss without recovery. If you are *ABSOLUTELY CERTAIN* \
                 that is what you want, pass the flag --yes-i-really-mean-it.",
            );
        }
    }
    if size > pool.size {
        mon.check_pg_count(Some(id), pool.pg_num, size)?;
    }
    mon.osds.edit_pool(id, |pool| {
        let old = pool.size;
        pool.size = size;
        // min_size follows: never above size, and half of it again where it was half before.
        if size < pool.min_size || pool.min_size == old - old / 2 {
            pool.min_size = size - size / 2;
        }
    });
    Ok(())
}

fn set_min_size(mon: &mut Mon, id: PoolId, pool: &PgPool, val: &str) -> Result<(), Refused> {
    if pool.flags.contains(PoolFlags::NOSIZECHANGE) {
        let text = "pool min size change is disabled; you must unset nosizechange flag for the pool first";
        return refuse(Errno::EPERM, text);
    }
    let min_size = parse_int(val)?;
    if min_size < 1 || min_size > i64::from(pool.size) {
        let text = format!("pool min_size must be between 1 and size, which is set to {}", pool.size);
        return refuse(Errno::EINVAL, text);
    }
    mon.osds.edit_pool(id, |pool| pool.min_size = min_size as u8);
    Ok(())
}

fn set_pg_num(mon: &mut Mon, id: PoolId, pool: &PgPool, var: &str, val: &str) -> Result<(), Refused> {
    let shown = var.trim_end_matches("_actual");
    if pool.flags.contains(PoolFlags::NOPGCHANGE) {
        let text = format!("pool {shown} change is disabled; you must unset nopgchange flag for the pool first");
        return refuse(Errno::EPERM, text);
    }
    let number = parse_int(val)?;
    if var == "pg_num" {
        return set_pg_num_target(mon, id, pool, number);
    }
    if number <= 0 {
        return refuse(Errno::EINVAL, format!("specified pgp_num must > 0, but you set to {number}"));
    }
    let most = if var == "pgp_num" { pool.pg_num_target } else { pool.pg_num };
    if number > i64::from(most) {
        return refuse(Errno::EINVAL, format!("specified pgp_num {number} > pg_num {most}"));
    }
    let number = number as u32;
    mon.osds.edit_pool(id, |pool| {
        *if var == "pgp_num" { &mut pool.pgp_num_target } else { &mut pool.pgp_num } = number;
    });
    Ok(())
}

fn set_pg_num_target(mon: &mut Mon, id: PoolId, pool: &PgPool, number: i64) -> Result<(), Refused> {
    if number == i64::from(pool.pg_num_target) {
        return Ok(());
    }
    let max = mon.pool_pg_num_max();
    if number <= 0 || number > max {
        let text = format!(
            "'pg_num' must be greater than 0 and less than or equal to {max} (you may adjust 'mon max pool pg num' for higher values)"
        );
        return refuse(Errno::ERANGE, text);
    }
    let bound = |key: OptionKey| match pool.options.0.get(&key) {
        Some(OptionValue::Int(bound)) => Some(*bound),
        _ => None,
    };
    if let Some(min) = bound(OptionKey::PG_NUM_MIN).filter(|min| number < *min) {
        return refuse(Errno::EINVAL, format!("specified pg_num {number} < pg_num_min {min}"));
    }
    if let Some(max) = bound(OptionKey::PG_NUM_MAX).filter(|max| number > *max) {
        return refuse(Errno::EINVAL, format!("specified pg_num {number} > pg_num_max {max}"));
    }
    let number = number as u32;
    if number > pool.pg_num_target {
        mon.check_pg_count(Some(id), number, pool.size)?;
    }
    mon.osds.edit_pool(id, |pool| {
        // pgp_num follows, unless the operator has given it a way of its own.
        if pool.pg_num_target == pool.pgp_num_target {
            pool.pgp_num_target = number;
        }
        pool.pg_num_target = number;
    });
    Ok(())
}

fn set_rule(mon: &mut Mon, id: PoolId, val: &str) -> Result<(), Refused> {
    let crush = &mon.osds.upcoming().crush;
    let Some(rule) = crush.rule_id(val).or_else(|| val.parse().ok().filter(|id| crush.rule(*id).is_some())) else {
        return refuse(Errno::ENOENT, format!("crush rule {val} does not exist"));
    };
    if crush.rule(rule).is_some_and(|r| r.kind != 1) {
        return refuse(Errno::EINVAL, format!("crush rule {rule} type does not match pool"));
    }
    let Ok(rule) = u8::try_from(rule) else {
        return refuse(Errno::EINVAL, format!("crush rule {rule} is beyond what pools can use"));
    };
    mon.osds.edit_pool(id, |pool| pool.crush_rule = rule);
    Ok(())
}

fn set_flag(mon: &mut Mon, call: &Call, id: PoolId, var: &str, val: &str) -> Result<(), Refused> {
    const SETTABLE: [&str; 8] = [
        "hashpspool",
        "nodelete",
        "nopgchange",
        "nosizechange",
        "write_fadvise_dontneed",
        "noscrub",
        "nodeep-scrub",
        "bulk",
    ];
    let Some(flag) = PoolFlags::from_name(var).filter(|_| SETTABLE.contains(&var)) else {
        return refuse(Errno::EINVAL, format!("unrecognized variable '{var}'"));
    };
    let wanted = parse_flag(val)?;
    if var == "hashpspool" && !call.flag("yes_i_really_mean_it") {
        let text = "are you SURE?  this will remap all placement groups in this pool, this might happen during \
                    client I/O and result in high latency. pass --yes-i-really-mean-it if you really mean it.";
        return refuse(Errno::EPERM, text);
    }
    mon.osds.edit_pool(id, |pool| {
        pool.flags = if wanted { pool.flags.with(flag) } else { pool.flags.without(flag) };
    });
    Ok(())
}

fn set_option(mon: &mut Mon, id: PoolId, var: &str, val: &str) -> Result<(), Refused> {
    let Some((key, kind)) = OptionKey::from_name(var).and_then(|key| Some((key, key.kind()?))) else {
        return refuse(Errno::EINVAL, format!("pool is not a tier pool: variable not applicable: '{var}'"));
    };
    let value = match kind {
        OptionKind::Text => Some(OptionValue::Text(val.to_owned())).filter(|_| val != "unset" && !val.is_empty()),
        OptionKind::Int => {
            let sized = ["target_size_bytes", "compression_max_blob_size", "compression_min_blob_size"].contains(&var);
            let number = if sized {
                let parsed = crate::options::parse_number(crate::options::OptionKind::Size, val);
                let number =
                    parsed.map_err(|e| Refused::new(Errno::EINVAL, format!("error parsing int value '{val}': {e}")))?;
                i64::try_from(number).map_err(|_| Refused::new(Errno::ERANGE, format!("'{val}' is too large")))?
            } else {
                parse_int(val)?
            };
            // 0 takes a setting back, except where it is a priority.
            Some(OptionValue::Int(number)).filter(|_| number != 0)
        }
        OptionKind::Double => {
            let number: Option<f64> = val.parse().ok().filter(|n: &f64| n.is_finite());
            let Some(number) = number else {
                return refuse(Errno::EINVAL, format!("error parsing floating point value '{val}'"));
            };
            Some(OptionValue::Double(number)).filter(|_| number != 0.0)
        }
    };
    mon.osds.edit_pool(id, |pool| match value {
        Some(value) => drop(pool.options.0.insert(key, value)),
        None => drop(pool.options.0.remove(&key)),
    });
    Ok(())
}
