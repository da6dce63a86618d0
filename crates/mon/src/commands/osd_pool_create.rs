//! `osd pool create`, and pools made by clients' messages.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_new_pool`, `prepare_pool_size`, `check_pg_num`). Erasure-coded
//! pools are outside the present scope and refused with EOPNOTSUPP.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::mon::Mon;
use base::{Errno, Instant, PoolId};
use maps::PgPool;
use maps::pool::{AutoscaleMode, PoolFlags};
use maps::pool_options::{OptionKey, OptionValue};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false \
         name=pgp_num,type=CephInt,range=0,req=false name=pool_type,type=CephChoices,strings=replicated|erasure,req=false \
         name=erasure_code_profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.] name=rule,type=CephString,req=false \
         name=expected_num_objects,type=CephInt,range=0,req=false name=size,type=CephInt,range=0,req=false \
         name=pg_num_min,type=CephInt,range=0,req=false name=pg_num_max,type=CephInt,range=0,req=false \
         name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false name=bulk,type=CephBool,req=false \
         name=target_size_bytes,type=CephInt,range=0,req=false name=target_size_ratio,type=CephFloat,range=0.0,req=false",
        "make a pool",
        "osd",
        "rw",
        create,
    ),
    spec("osd erasure-code-profile ls", "list erasure code profiles", "osd", "r", profiles),
    spec(
        "osd erasure-code-profile get name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "show an erasure code profile",
        "osd",
        "r",
        profile,
    ),
    spec(
        "osd erasure-code-profile set name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=profile,type=CephString,n=N,req=false name=force,type=CephBool,req=false",
        "make an erasure code profile",
        "osd",
        "rw",
        set_profile,
    ),
    spec(
        "osd erasure-code-profile rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "remove an erasure code profile",
        "osd",
        "rw",
        set_profile,
    ),
];

/// What a new pool is to be like; nothing said means the options' defaults.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewPool {
    pub(crate) name: String,
    pub(crate) pg_num: Option<i64>,
    pub(crate) pgp_num: Option<i64>,
    pub(crate) rule: Option<String>,
    pub(crate) rule_id: Option<i32>,
    pub(crate) size: Option<i64>,
    pub(crate) expected_num_objects: u64,
    pub(crate) autoscale_mode: Option<String>,
    pub(crate) bulk: bool,
    pub(crate) options: Vec<(OptionKey, OptionValue)>,
}

/// Refuses names that commands could not be given.
pub(super) fn check_name(name: &str) -> Result<(), Refused> {
    if name.is_empty() {
        return refuse(Errno::EINVAL, "a pool needs a name");
    }
    if name.chars().any(char::is_control) || name.len() > 255 {
        return refuse(Errno::EINVAL, "a pool's name has up to 255 bytes and no control characters");
    }
    Ok(())
}

fn create(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("pool")?;
    let mut rule = call.text_opt("rule")?.filter(|r| !r.is_empty());
    match call.text_opt("pool_type")?.as_deref() {
        None | Some("replicated") => {}
        Some("erasure") => {
            return refuse(Errno::EOPNOTSUPP, "erasure-coded pools are not supported; make a replicated one");
        }
        Some(other) => return refuse(Errno::EINVAL, format!("unknown pool type '{other}'")),
    }
    // Of old, a replicated pool's rule came in the erasure code profile's place.
    if let Some(profile) = call.text_opt("erasure_code_profile")?.filter(|p| !p.is_empty()) {
        rule = rule.or(Some(profile));
    }
    if mon.osds.upcoming().pool_id(&name).is_some() {
        return Ok(Reply::status(format!("pool '{name}' already exists")));
    }
    let mut options = Vec::new();
    for (argument, key) in [
        ("pg_num_min", OptionKey::PG_NUM_MIN),
        ("pg_num_max", OptionKey::PG_NUM_MAX),
        ("target_size_bytes", OptionKey::TARGET_SIZE_BYTES),
    ] {
        options.extend(call.int_opt(argument)?.filter(|v| *v > 0).map(|v| (key, OptionValue::Int(v))));
    }
    let ratio = call.float_opt("target_size_ratio")?.filter(|v| *v > 0.0);
    options.extend(ratio.map(|v| (OptionKey::TARGET_SIZE_RATIO, OptionValue::Double(v))));
    let new = NewPool {
        name: name.clone(),
        pg_num: call.int_opt("pg_num")?.filter(|n| *n != 0 || !call.has("pg_num")),
        pgp_num: call.int_opt("pgp_num")?,
        rule,
        rule_id: None,
        size: call.int_opt("size")?.filter(|n| *n != 0),
        expected_num_objects: u64::try_from(call.int_opt("expected_num_objects")?.unwrap_or(0)).unwrap_or(0),
        autoscale_mode: call.text_opt("autoscale_mode")?,
        bulk: call.flag("bulk"),
        options,
    };
    mon.create_pool(call.now, new)?;
    Ok(Reply::status(format!("pool '{name}' created")))
}

impl Mon {
    /// Makes a pool in the next epoch.
    pub(crate) fn create_pool(&mut self, now: Instant, new: NewPool) -> Result<PoolId, Refused> {
        check_name(&new.name)?;
        let rule = self.rule_for_pool(&new)?;
        let size = match new.size {
            Some(size) => u8::try_from(size).unwrap_or(u8::MAX),
            None => self.option_number("osd_pool_default_size") as u8,
        };
        self.check_size(size)?;
        let default_min = self.option_number("osd_pool_default_min_size") as u8;
        let min_size = if default_min > 0 && new.size.is_none() { default_min.min(size) } else { size - size / 2 };
        let pg_num = new.pg_num.unwrap_or_else(|| self.option_number("osd_pool_default_pg_num") as i64);
        let pgp_default = self.option_number("osd_pool_default_pgp_num") as i64;
        let pgp_num = new.pgp_num.filter(|n| *n > 0).unwrap_or(if pgp_default > 0 && new.pg_num.is_none() {
            pgp_default
        } else {
            pg_num
        });
        let max = self.pool_pg_num_max();
        if pg_num <= 0 || pg_num > max {
            let text = format!(
                "'pg_num' must be greater than 0 and less than or equal to {max} (you may adjust 'mon max pool pg num' for higher values)"
            );
            return refuse(Errno::ERANGE, text);
        }
        if pgp_num <= 0 || pgp_num > pg_num {
            let text = format!(
                "'pgp_num' must be greater than 0 and lower or equal than 'pg_num', which in this case is {pg_num}"
            );
            return refuse(Errno::ERANGE, text);
        }
        self.check_pg_count(None, pg_num as u32, size)?;
        let mode = new.autoscale_mode.unwrap_or_else(|| self.option("osd_pool_default_pg_autoscale_mode"));
        let mut flags = PoolFlags::default();
        for (flag, wanted) in [
            (PoolFlags::HASHPSPOOL, self.option_bool("osd_pool_default_flag_hashpspool")),
            (PoolFlags::NODELETE, self.option_bool("osd_pool_default_flag_nodelete")),
            (PoolFlags::BULK, new.bulk),
        ] {
            flags = if wanted { flags.with(flag) } else { flags };
        }
        let (pg_num, pgp_num) = (pg_num as u32, pgp_num as u32);
        let epoch = self.osds.next_epoch();
        let mut pool = PgPool {
            size,
            min_size,
            crush_rule: rule,
            pg_num,
            pgp_num,
            pg_num_target: pg_num,
            pgp_num_target: pgp_num,
            pg_num_pending: pg_num,
            last_change: epoch,
            flags,
            expected_num_objects: new.expected_num_objects,
            create_time: now.into(),
            autoscale_mode: AutoscaleMode::from_name(&mode).unwrap_or(AutoscaleMode::Off),
            ..PgPool::default()
        };
        pool.options.0.extend(new.options);
        let id = PoolId(self.osds.upcoming().pool_max.0.max(0) + 1);
        let change = self.osds.change();
        change.new_pool_max = Some(id);
        change.new_pools.insert(id, pool);
        change.new_pool_names.insert(id, new.name);
        Ok(id)
    }

    fn rule_for_pool(&mut self, new: &NewPool) -> Result<u8, Refused> {
        let default = self.option_number("osd_pool_default_crush_rule") as i32;
        let crush = &self.osds.upcoming().crush;
        let id = match (&new.rule, new.rule_id.filter(|id| *id >= 0)) {
            (Some(name), _) => crush
                .rule_id(name)
                .ok_or_else(|| Refused::new(Errno::ENOENT, format!("specified rule {name} doesn't exist")))?,
            (None, Some(id)) if crush.rule(id).is_some() => id,
            (None, Some(id)) => return refuse(Errno::ENOENT, format!("specified rule {id} doesn't exist")),
            (None, None) => {
                let lowest = crush.first_rule(1);
                let id = Some(default).filter(|id| crush.rule(*id).is_some()).or(lowest);
                id.ok_or_else(|| Refused::new(Errno::EINVAL, "there is no CRUSH rule for replicated pools"))?
            }
        };
        u8::try_from(id).map_err(|_| Refused::new(Errno::EINVAL, format!("rule {id} is beyond what pools can use")))
    }

    /// Refuses sizes that no pool may have.
    pub(crate) fn check_size(&self, size: u8) -> Result<(), Refused> {
        if size == 0 || size > 10 {
            return refuse(Errno::EINVAL, "pool size must be between 1 and 10");
        }
        Ok(())
    }

    /// Refuses more placement groups than the OSDs should carry.
    pub(crate) fn check_pg_count(&mut self, pool: Option<PoolId>, pg_num: u32, size: u8) -> Result<(), Refused> {
        let per_osd_max = (self.option_number("mon_max_pg_per_osd") as u64).clamp(1, u64::from(u32::MAX)).max(1);
        let next = self.osds.upcoming();
        let others: u64 = (next.pools.iter().filter(|(id, _)| Some(**id) != pool))
            .map(|(_, p)| u64::from(p.pg_num_target) * u64::from(p.size))
            .sum();
        let projected = others + u64::from(pg_num) * u64::from(size);
        let osds = next.osd_counts().r#in.max(1) as u64;
        // OSDs that have not booted yet count: a pool may be made before the first of them is in.
        let osds = osds.max(next.osd_ids().count() as u64).max(3);
        if projected > per_osd_max * osds {
            let shown = pool.map_or(String::new(), |id| format!("pool id {id} "));
            let text = format!(
                "{shown}pg_num {pg_num} size {size} would mean {} total pgs, which exceeds max {} (mon_max_pg_per_osd {per_osd_max} * num_in_osds {osds})",
                projected,
                per_osd_max * osds
            );
            return refuse(Errno::ERANGE, text);
        }
        Ok(())
    }
}

fn profiles(mon: &mut Mon, call: &Call) -> Answer {
    let names = || mon.osds.map().erasure_code_profiles.keys();
    let value = || crate::format::Value::array(names());
    Ok(Reply::either(call, value, || names().map(|n| format!("{n}\n")).collect())
        .with_line_end_if(!call.format.is_plain()))
}

fn profile(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("name")?;
    let Some(profile) = mon.osds.map().erasure_code_profiles.get(&name) else {
        return refuse(Errno::ENOENT, format!("unknown erasure code profile '{name}'"));
    };
    let value = || crate::format::Value::members(profile.clone());
    Ok(Reply::either(call, value, || profile.iter().map(|(k, v)| format!("{k}={v}\n")).collect()))
}

fn set_profile(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "erasure coding is not supported")
}
