//! `osd pool`: listing, removing, renaming, quotas, snapshots and statistics of pools.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` and `src/osd/osd_types.cc` (`pg_pool_t::dump`, `operator<<`).

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Value, quantity};
use crate::mon::Mon;
use crate::object;
use crate::pool_snaps::Made;
use base::{Errno, PoolId};
use maps::pool::{AutoscaleMode, CACHE_MODES, PoolFlags};
use maps::pool_options::OptionValue;
use maps::{OsdMap, PgPool};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd pool ls name=detail,type=CephChoices,strings=detail,req=false", "list pools", "osd", "r", ls),
    spec("osd lspools", "list pools with their numbers", "osd", "r", lspools).deprecated(),
    spec("osd pool rm name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false", "remove a pool and all its data", "osd", "rw", remove),
    spec("osd pool delete name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false", "remove a pool and all its data", "osd", "rw", remove).deprecated(),
    spec("osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname", "give a pool another name", "osd", "rw", rename),
    spec("osd pool set-quota name=pool,type=CephPoolname name=field,type=CephChoices,strings=max_objects|max_bytes name=val,type=CephString", "limit a pool's objects or bytes", "osd", "rw", set_quota),
    spec("osd pool get-quota name=pool,type=CephPoolname", "show a pool's limits", "osd", "r", get_quota),
    spec("osd pool stats name=pool_name,type=CephPoolname,req=false", "show what is going on in pools", "osd", "r", stats),
    spec("osd pool mksnap name=pool,type=CephPoolname name=snap,type=CephString", "take a snapshot of a pool", "osd", "rw", mksnap),
    spec("osd pool rmsnap name=pool,type=CephPoolname name=snap,type=CephString", "remove a snapshot of a pool", "osd", "rw", rmsnap),
];

/// The pool that an argument names.
pub(super) fn pool_named(map: &OsdMap, name: &str) -> Result<PoolId, Refused> {
    map.pool_id(name).ok_or_else(|| Refused::new(Errno::ENOENT, format!("unrecognized pool '{name}'")))
}

/// A pool's settings as programs read them; the number's key differs by command.
pub(super) fn pool_value(map: &OsdMap, id: PoolId, pool: &PgPool, id_key: &str) -> Value {
    let merge = &pool.last_pg_merge;
    let version = |v: base::EVersion| format!("{}'{}", v.epoch, v.version);
    let mut value = Value::object();
    value.push(id_key, id.0);
    value.extend(object! {
        "pool_name" => map.pool_name(id).unwrap_or_default(),
        "create_time" => quantity::local_time(pool.create_time.into()),
        "flags" => pool.flags.0,
        "flags_names" => flag_names(pool),
        "type" => if pool.kind.name() == "erasure" { 3 } else { 1 },
        "size" => pool.size,
        "min_size" => pool.min_size,
        "crush_rule" => pool.crush_rule,
        "peering_crush_bucket_count" => pool.stretch.bucket_count,
        "peering_crush_bucket_target" => pool.stretch.bucket_target,
        "peering_crush_bucket_barrier" => pool.stretch.bucket_barrier,
        "peering_crush_bucket_mandatory_member" => i32::MAX,
        "object_hash" => pool.object_hash as u32,
        "pg_autoscale_mode" => pool.autoscale_mode.name(),
        "pg_num" => pool.pg_num,
        "pg_placement_num" => pool.pgp_num,
        "pg_placement_num_target" => pool.pgp_num_target,
        "pg_num_target" => pool.pg_num_target,
        "pg_num_pending" => pool.pg_num_pending,
        "last_pg_merge_meta" => object! {
            "source_pgid" => merge.source.to_string(),
            "ready_epoch" => merge.ready_epoch.0,
            "last_epoch_started" => merge.last_epoch_started.0,
            "last_epoch_clean" => merge.last_epoch_clean.0,
            "source_version" => version(merge.source_version),
            "target_version" => version(merge.target_version),
        },
        "last_change" => pool.last_change.to_string(),
        "last_force_op_resend" => pool.last_force_op_resend.to_string(),
        "last_force_op_resend_prenautilus" => pool.last_force_op_resend_prenautilus.to_string(),
        "last_force_op_resend_preluminous" => pool.last_force_op_resend_preluminous.to_string(),
        "auid" => pool.auid,
        "snap_mode" => if pool.flags.contains(PoolFlags::POOL_SNAPS) { "pool" } else { "selfmanaged" },
        "snap_seq" => pool.snap_seq.0,
        "snap_epoch" => pool.snap_epoch.0,
        "pool_snaps" => Value::array(pool.snaps.values().map(|snap| object! {
            "snapid" => snap.id.0,
            "stamp" => quantity::local_time(snap.stamp.into()),
            "name" => snap.name.as_str(),
        })),
        "removed_snaps" => "[]",
        "quota_max_bytes" => pool.quota_max_bytes,
        "quota_max_objects" => pool.quota_max_objects,
    });
    value.extend(tiering_value(pool));
    value.extend(object! {
        "stripe_width" => pool.stripe_width,
        "expected_num_objects" => pool.expected_num_objects,
        "fast_read" => pool.fast_read,
        "options" => Value::members(pool.options.0.iter().filter_map(|(key, v)| Some((key.name()?, option_value(v))))),
        "application_metadata" => Value::members(pool.applications.iter().map(|(app, keys)| {
            (app.clone(), Value::members(keys.clone()))
        })),
    });
    value
}

fn tiering_value(pool: &PgPool) -> Value {
    let t = &pool.tiering;
    object! {
        "tiers" => Value::array(t.tiers.iter().copied()),
        "tier_of" => t.tier_of.0,
        "read_tier" => t.read_tier.0,
        "write_tier" => t.write_tier.0,
        "cache_mode" => CACHE_MODES.get(usize::from(t.cache_mode)).copied().unwrap_or("none"),
        "target_max_bytes" => t.target_max_bytes,
        "target_max_objects" => t.target_max_objects,
        "cache_target_dirty_ratio_micro" => t.target_dirty_ratio_micro,
        "cache_target_dirty_high_ratio_micro" => t.target_dirty_high_ratio_micro,
        "cache_target_full_ratio_micro" => t.target_full_ratio_micro,
        "cache_min_flush_age" => t.min_flush_age_secs,
        "cache_min_evict_age" => t.min_evict_age_secs,
        "erasure_code_profile" => pool.erasure_code_profile.as_str(),
        "hit_set_params" => object! { "type" => "none" },
        "hit_set_period" => t.hit_set_period_secs,
        "hit_set_count" => t.hit_set_count,
        "use_gmt_hitset" => t.use_gmt_hitset,
        "min_read_recency_for_promote" => t.min_read_recency,
        "min_write_recency_for_promote" => t.min_write_recency,
        "hit_set_grade_decay_rate" => t.hit_set_grade_decay_rate,
        "hit_set_search_last_n" => t.hit_set_search_last,
        "grade_table" => Value::Array(vec![]),
    }
}

/// An optional setting's value.
pub(super) fn option_value(value: &OptionValue) -> Value {
    match value {
        OptionValue::Text(text) => text.into(),
        OptionValue::Int(number) => (*number).into(),
        OptionValue::Double(number) => (*number).into(),
    }
}

fn flag_names(pool: &PgPool) -> String {
    pool.flags.names().collect::<Vec<_>>().join(",")
}

/// A pool as people read it: a line of `osd dump` and `osd pool ls detail`.
pub(super) fn pool_line(map: &OsdMap, id: PoolId, pool: &PgPool) -> String {
    let mut line = format!(
        "pool {id} '{}' {} size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {}",
        map.pool_name(id).unwrap_or_default(),
        pool.kind.name(),
        pool.size,
        pool.min_size,
        pool.crush_rule,
        pool.pg_num,
        pool.pgp_num
    );
    if pool.pg_num_target != pool.pg_num {
        line += &format!(" pg_num_target {}", pool.pg_num_target);
    }
    if pool.pgp_num_target != pool.pgp_num {
        line += &format!(" pgp_num_target {}", pool.pgp_num_target);
    }
    if pool.autoscale_mode != AutoscaleMode::Off {
        line += &format!(" autoscale_mode {}", pool.autoscale_mode.name());
    }
    line += &format!(" last_change {}", pool.last_change);
    let resend =
        [pool.last_force_op_resend, pool.last_force_op_resend_prenautilus, pool.last_force_op_resend_preluminous];
    if resend.iter().any(|e| e.0 > 0) {
        line += &format!(" lfor {}/{}/{}", resend[0], resend[1], resend[2]);
    }
    if pool.flags.0 != 0 {
        line += &format!(" flags {}", flag_names(pool));
    }
    if pool.quota_max_bytes > 0 {
        line += &format!(" max_bytes {}", pool.quota_max_bytes);
    }
    if pool.quota_max_objects > 0 {
        line += &format!(" max_objects {}", pool.quota_max_objects);
    }
    line += &format!(" stripe_width {}", pool.stripe_width);
    if pool.expected_num_objects > 0 {
        line += &format!(" expected_num_objects {}", pool.expected_num_objects);
    }
    if pool.fast_read {
        line += " fast_read 1";
    }
    // In the order of the settings' names, as Ceph dumps them.
    let mut options: Vec<_> = pool.options.0.iter().filter_map(|(key, v)| Some((key.name()?, v))).collect();
    options.sort_unstable_by_key(|(name, _)| *name);
    for (name, value) in options {
        line += &match value {
            OptionValue::Text(text) => format!(" {name} {text}"),
            OptionValue::Int(number) => format!(" {name} {number}"),
            OptionValue::Double(number) => format!(" {name} {}", crate::format::value::percent_g(*number, 6)),
        };
    }
    if !pool.applications.is_empty() {
        let apps: Vec<&str> = pool.applications.keys().map(String::as_str).collect();
        line += &format!(" application {}", apps.join(","));
    }
    line
}

/// The lines below a pool's: its snapshots, and those being removed.
pub(super) fn snap_lines(map: &OsdMap, id: PoolId, pool: &PgPool) -> String {
    let mut text = String::new();
    for snap in pool.snaps.values() {
        let at = quantity::local_time(snap.stamp.into());
        text += &format!("\tsnap {} '{}' {at}\n", snap.id.0, snap.name);
    }
    if let Some(queue) = map.removed_snaps_queue.get(&id) {
        text += &format!("\tremoved_snaps_queue {queue}\n");
    }
    text
}

fn ls(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    if call.has("detail") {
        let value = || Value::array(map.pools.iter().map(|(id, pool)| pool_value(map, *id, pool, "pool_id")));
        let plain = || {
            let mut text = String::new();
            for (id, pool) in &map.pools {
                text += &pool_line(map, *id, pool);
                text.push('\n');
                text += &snap_lines(map, *id, pool);
            }
            text + "\n"
        };
        return Ok(Reply::either(call, value, plain));
    }
    let names = || map.pool_names.values();
    Ok(Reply::either(call, || Value::array(names()), || names().map(|n| format!("{n}\n")).collect()))
}

fn lspools(mon: &mut Mon, call: &Call) -> Answer {
    let names = &mon.osds.map().pool_names;
    let value = || Value::array(names.iter().map(|(id, name)| object! { "poolnum" => id.0, "poolname" => name }));
    Ok(Reply::either(call, value, || names.iter().map(|(id, name)| format!("{id} {name}\n")).collect()))
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("pool")?;
    let Some(id) = mon.osds.upcoming().pool_id(&name) else {
        return Ok(Reply::status(format!("pool '{name}' does not exist")));
    };
    let faked = call.flag("yes_i_really_really_mean_it_not_faking");
    let sure = call.flag("yes_i_really_really_mean_it") && call.text_opt("pool2")?.as_deref() == Some(&name);
    if !faked && !sure {
        return refuse(
            Errno::EPERM,
            format!(
                "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}.  If you are *ABSOLUTELY CERTAIN* \
                 that is what you want, pass the pool name *twice*, followed by --yes-i-really-really-mean-it."
            ),
        );
    }
    mon.delete_pool(id)?;
    Ok(Reply::status(format!("pool '{name}' removed")))
}

impl Mon {
    /// Removes a pool, if that is allowed.
    pub(crate) fn delete_pool(&mut self, id: PoolId) -> Result<(), Refused> {
        if !self.option_bool("mon_allow_pool_delete") {
            return refuse(
                Errno::EPERM,
                "pool deletion is disabled; you must first set the mon_allow_pool_delete config option to true before you \
                 can destroy a pool",
            );
        }
        let protected = self.osds.upcoming().pool(id).is_some_and(|p| p.flags.contains(PoolFlags::NODELETE));
        if protected {
            return refuse(Errno::EPERM, "pool deletion is disabled; you must unset nodelete flag for the pool first");
        }
        let created_now = !self.osds.map().pools.contains_key(&id);
        let temps: Vec<_> = self.osds.upcoming().pg_temp.keys().filter(|pg| pg.pool == id).copied().collect();
        let change = self.osds.change();
        change.new_pools.remove(&id);
        change.new_pool_names.remove(&id);
        if !created_now {
            change.old_pools.insert(id);
        }
        change.new_pg_temp.extend(temps.into_iter().map(|pg| (pg, Vec::new())));
        let mut crush = (*self.osds.upcoming().crush).clone();
        if crush.remove_weight_set(id.0) {
            self.osds.set_crush(&crush);
        }
        self.forget_snaps(id);
        Ok(())
    }
}

fn rename(mon: &mut Mon, call: &Call) -> Answer {
    let (from, to) = (call.text("srcpool")?, call.text("destpool")?);
    let next = mon.osds.upcoming();
    let Some(id) = next.pool_id(&from) else {
        // Asked for again after it was done: done.
        return match next.pool_id(&to) {
            Some(_) => Ok(Reply::status(format!("pool '{from}' renamed to '{to}'"))),
            None => refuse(Errno::ENOENT, format!("unrecognized pool '{from}'")),
        };
    };
    if next.pool_id(&to).is_some() {
        return refuse(Errno::EEXIST, format!("pool '{to}' already exists"));
    }
    super::osd_pool_create::check_name(&to)?;
    mon.osds.change().new_pool_names.insert(id, to.clone());
    Ok(Reply::status(format!("pool '{from}' renamed to '{to}'")))
}

fn set_quota(mon: &mut Mon, call: &Call) -> Answer {
    let (name, field, text) = (call.text("pool")?, call.text("field")?, call.text("val")?);
    let id = pool_named(mon.osds.upcoming(), &name)?;
    let kind = if field == "max_bytes" { crate::options::OptionKind::Size } else { crate::options::OptionKind::Uint };
    if field == "max_objects" && text.contains('i') {
        let why = "strict_si_cast: unit prefix not recognized";
        return refuse(Errno::EINVAL, format!("error parsing value '{text}': {why}"));
    }
    let value = crate::options::parse_number(kind, &text)
        .map_err(|why| Refused::new(Errno::EINVAL, format!("error parsing value '{text}': {why}")))?;
    match field.as_str() {
        "max_bytes" => mon.osds.edit_pool(id, |pool| pool.quota_max_bytes = value),
        "max_objects" => mon.osds.edit_pool(id, |pool| pool.quota_max_objects = value),
        _ => return refuse(Errno::EINVAL, format!("unrecognized option '{field}'")),
    };
    Ok(Reply::status(format!("set-quota {field} = {value} for pool {name}")))
}

fn get_quota(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("pool")?;
    let map = mon.osds.map();
    let Some((id, pool)) = map.pool_id(&name).and_then(|id| Some((id, map.pool(id)?))) else {
        return refuse(Errno::ENOENT, format!("unrecognized pool '{name}'"));
    };
    let sum = mon.stats.pool_sum(id);
    let value = || {
        object! {
            "pool_name" => name.as_str(),
            "pool_id" => id.0,
            "quota_max_objects" => pool.quota_max_objects,
            "current_num_objects" => sum.objects(),
            "quota_max_bytes" => pool.quota_max_bytes,
            "current_num_bytes" => sum.bytes(),
        }
    };
    let plain = || {
        let objects = match pool.quota_max_objects {
            0 => "N/A".to_owned(),
            n => {
                let current = quantity::count(sum.objects());
                format!("{} objects  (current num objects: {current} objects)", quantity::count(n))
            }
        };
        let bytes = match pool.quota_max_bytes {
            0 => "N/A".to_owned(),
            n => format!("{}  (current num bytes: {} bytes)", quantity::bytes(n), sum.bytes()),
        };
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {bytes}")
    };
    Ok(Reply::either(call, value, plain).with_line_end())
}

fn stats(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let wanted = match call.text_opt("pool_name")? {
        Some(name) => Some(pool_named(map, &name)?),
        None => None,
    };
    let pools: Vec<_> = map.pool_names.iter().filter(|(id, _)| wanted.is_none_or(|w| w == **id)).collect();
    let value = || {
        Value::array(pools.iter().map(|(id, name)| {
            let rates = mon.stats.pool_rates(**id);
            object! {
                "pool_name" => name.as_str(),
                "pool_id" => id.0,
                "recovery" => mon.stats.pool_sum(**id).recovery_value(),
                "recovery_rate" => rates.recovery_value(),
                "client_io_rate" => rates.client_value(),
            }
        }))
    };
    let plain = || {
        let mut text = String::new();
        for (id, name) in &pools {
            let rates = mon.stats.pool_rates(**id);
            text += &format!("pool {name} id {id}\n");
            let lines = [
                mon.stats.pool_sum(**id).recovery_lines().into_iter().map(|l| format!("  {l}\n")).collect::<String>(),
                rates.recovery_text().map_or(String::new(), |t| format!("  recovery io {t}\n")),
                rates.client_text().map_or(String::new(), |t| format!("  client io {t}\n")),
            ]
            .concat();
            text += if lines.is_empty() { "  nothing is going on\n" } else { &lines };
            text.push('\n');
        }
        text
    };
    Ok(Reply::either(call, value, plain))
}

fn mksnap(mon: &mut Mon, call: &Call) -> Answer {
    let (pool, snap) = (call.text("pool")?, call.text("snap")?);
    let id = pool_named(mon.osds.upcoming(), &pool)?;
    Ok(Reply::status(match mon.make_pool_snap(call.now, id, &snap).map_err(|errno| unmanaged(&pool, errno))? {
        Made::Now => format!("created pool {pool} snap {snap}"),
        Made::Before => format!("pool {pool} snap {snap} already exists"),
    }))
}

fn rmsnap(mon: &mut Mon, call: &Call) -> Answer {
    let (pool, snap) = (call.text("pool")?, call.text("snap")?);
    let id = pool_named(mon.osds.upcoming(), &pool)?;
    Ok(Reply::status(match mon.remove_pool_snap(id, &snap).map_err(|errno| unmanaged(&pool, errno))? {
        Made::Now => format!("removed pool {pool} snap {snap}"),
        Made::Before => format!("pool {pool} snap {snap} does not exist"),
    }))
}

fn unmanaged(pool: &str, errno: Errno) -> Refused {
    Refused::new(errno, format!("pool {pool} is in unmanaged snaps mode"))
}
