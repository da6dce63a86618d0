//! `query`: everything an OSD knows of a placement group that it leads.
//!
//! Follows the shape of Ceph v16.2 `src/osd/PeeringState.cc` (`PeeringState::dump_pg_info`, `pg_info_t::dump`), as far
//! as this OSD's peering has the same things to tell.

use crate::osd::Osd;
use crate::pg::info::LastBackfill;
use crate::pg::member::Member;
use crate::pg::peering::Step;
use crate::pg::{Pg, Role};
use crate::stats::{pg_stat, pg_state};
use crate::unfound;
use admin::format::quantity::local_time;
use admin::{Answer, Call, CommandSpec, Reply, Value, object, refuse, spec};
use base::{Epoch, Errno, OsdId};
use maps::stats::PgStat;
use maps::stats::show::{ids, stat_value, state_text, version};
use std::collections::BTreeSet;

pub(crate) const COMMANDS: &[CommandSpec<Osd>] = &[
    spec("query", "show everything that is known of a PG", "osd", "r", query),
    spec("pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=query", "show a PG", "osd", "r", pg_command),
    spec(
        "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=mark_unfound_lost \
         name=mulcmd,type=CephChoices,strings=revert|delete",
        "give up a PG's objects of which no copy is known: back to an older version, or deleted",
        "osd",
        "rw",
        unfound::on_the_socket,
    ),
    spec(
        "pg name=pgid,type=CephPgid name=cmd,type=CephChoices,strings=list_unfound \
         name=offset,type=CephString,req=false",
        "list a PG's objects of which no copy is known",
        "osd",
        "r",
        pg_command,
    ),
    spec(
        "mark_unfound_lost name=pgid,type=CephPgid,req=false name=mulcmd,type=CephChoices,strings=revert|delete",
        "give up a PG's objects of which no copy is known: back to an older version, or deleted",
        "osd",
        "rw",
        unfound::on_the_socket,
    ),
    spec(
        "list_unfound name=pgid,type=CephPgid,req=false name=offset,type=CephString,req=false",
        "list a PG's objects of which no copy is known",
        "osd",
        "r",
        unfound::list,
    ),
];

fn pg_command(osd: &mut Osd, call: &Call) -> Answer {
    match call.text("cmd")?.as_str() {
        "query" => query(osd, call),
        "list_unfound" => unfound::list(osd, call),
        other => refuse(Errno::EOPNOTSUPP, format!("pg {other} is not supported")),
    }
}

/// The PG that a call names, if this OSD leads it.
pub(crate) fn led<'a>(
    osd: &'a mut Osd,
    call: &Call,
) -> Result<(&'a mut crate::core::Core, &'a mut Pg), admin::Refused> {
    let id = call.pg("pgid")?;
    match osd.pgs.get_mut(&id) {
        Some(pg) if pg.is_primary() => Ok((&mut osd.core, pg)),
        Some(_) => refuse(Errno::EAGAIN, format!("not primary for pgid {id}")),
        None => refuse(Errno::ENOENT, format!("i don't have pgid {id}")),
    }
}

/// How far a holder is.
struct Progress {
    last_update: base::EVersion,
    last_complete: base::EVersion,
    last_backfill: LastBackfill,
}

fn info_value(pg: &Pg, known_since: Epoch, at: &Progress, stat: &PgStat) -> Value {
    let info = &pg.info;
    let history = object! {
        "epoch_created" => known_since.0,
        "epoch_pool_created" => known_since.0,
        "last_epoch_started" => info.last_epoch_started.0,
        "last_interval_started" => pg.since.0,
        "last_epoch_clean" => info.last_epoch_clean.0,
        "last_interval_clean" => info.last_epoch_clean.0,
        "last_epoch_split" => 0,
        "last_epoch_marked_full" => 0,
        "same_up_since" => pg.since.0,
        "same_interval_since" => pg.since.0,
        "same_primary_since" => pg.since.0,
        "last_scrub" => version(stat.last_scrub),
        "last_scrub_stamp" => local_time(stat.last_scrub_stamp.into()),
        "last_deep_scrub" => version(stat.last_deep_scrub),
        "last_deep_scrub_stamp" => local_time(stat.last_deep_scrub_stamp.into()),
        "last_clean_scrub_stamp" => local_time(stat.last_clean_scrub_stamp.into()),
        "prior_readable_until_ub" => 0,
    };
    object! {
        "pgid" => pg.id.to_string(),
        "last_update" => version(at.last_update),
        "last_complete" => version(at.last_complete),
        "log_tail" => version(info.log_tail),
        "last_user_version" => info.last_user_version,
        "last_backfill" => at.last_backfill.shown(pg.id.pool),
        "purged_snaps" => Value::Array(vec![]),
        "history" => history,
        "stats" => stat_value(stat),
        "empty" => u32::from(at.last_update == base::EVersion::default()),
        "dne" => 0,
        "incomplete" => u32::from(!at.last_backfill.is_max()),
        "last_epoch_started" => info.last_epoch_started.0,
        "hit_set_history" => object! { "current_last_update" => "0'0", "history" => Value::Array(vec![]) },
    }
}

fn query(osd: &mut Osd, call: &Call) -> Answer {
    let (core, pg) = led(osd, call)?;
    let stat = pg_stat(core, pg);
    let created = core.placement.get(pg.id).map_or(Epoch(0), |history| history.known_since);
    let all: BTreeSet<OsdId> = pg.sets.acting.iter().chain(&pg.sets.up).copied().collect();
    let members: Vec<OsdId> = all.into_iter().filter(|osd| *osd != OsdId::NONE).collect();
    let mut sorted: Vec<String> = members.iter().map(|osd| osd.to_string()).collect();
    sorted.sort_unstable();
    // Only what the members have said is shown of them: how far each is, while their counts are the primary's.
    let peers = members.iter().filter(|osd| **osd != core.me()).filter_map(|osd| {
        let at = progress_of(pg, *osd)?;
        let mut peer = object! { "peer" => osd.to_string() };
        peer.extend(info_value(pg, created, &at, &PgStat::default()));
        Some(peer)
    });
    let peers = Value::Array(peers.collect());
    let own = Progress {
        last_update: pg.info.last_update,
        last_complete: pg.missing.last_complete(&pg.log),
        last_backfill: pg.info.last_backfill.clone(),
    };
    let of_members = |is: fn(&Member) -> bool| {
        let members = pg.recovery.members.iter().filter(|(_, member)| is(member));
        Value::Array(members.map(|(osd, _)| osd.to_string().into()).collect())
    };
    let value = object! {
        "snap_trimq" => "[]",
        "snap_trimq_len" => stat.snaptrimq_len,
        "state" => state_text(pg_state(core, pg)),
        "epoch" => core.epoch().0,
        "up" => ids(&pg.sets.up),
        "acting" => ids(&pg.sets.acting),
        "backfill_targets" => of_members(Member::is_backfilled),
        "async_recovery_targets" => of_members(Member::recovers_beside),
        "acting_recovery_backfill" => sorted,
        "info" => info_value(pg, created, &own, &stat),
        "peer_info" => peers,
        "recovery_state" => Value::Array(vec![step_value(pg), started_value(pg)]),
    };
    Ok(Reply::value(call, &value))
}

/// How far another member is, as far as it has said so.
fn progress_of(pg: &Pg, osd: OsdId) -> Option<Progress> {
    let (last_update, member) = match &pg.role {
        Role::Active(replication) => (replication.progress(osd)?, pg.recovery.members.get(&osd)?),
        Role::Peered(_) => (pg.info.last_update, pg.recovery.members.get(&osd)?),
        Role::Peering(peering) => {
            let info = peering.answers.get(&osd)?.info.as_ref()?;
            let (last_update, last_backfill) = (info.last_update, info.last_backfill.clone());
            return Some(Progress { last_update, last_complete: last_update, last_backfill });
        }
        Role::Waiting | Role::Replica(..) => return None,
    };
    let last_complete = member.missing.last_complete(&pg.log).min(last_update);
    Some(Progress { last_update, last_complete, last_backfill: member.last_backfill.clone() })
}

/// Where a PG is in Ceph's machine of states (v16.2 `src/osd/PeeringState.h`), as far as ours has the same.
pub(crate) fn state_name(pg: &Pg) -> &'static str {
    match &pg.role {
        Role::Active(_) | Role::Peered(_) => "Started/Primary/Active",
        Role::Peering(peering) => match &peering.step {
            Step::Asking(_) => "Started/Primary/Peering/GetInfo",
            Step::Fetching(_) => "Started/Primary/Peering/GetLog",
            Step::Down(stuck) if stuck.blocked_by.is_empty() => "Started/Primary/Peering/Incomplete",
            Step::Down(_) => "Started/Primary/Peering/Down",
            Step::Remapping => "Started/Primary/Peering/WaitActingChange",
            Step::Promising => "Started/Primary/Peering/WaitUpThru",
            Step::Activating { .. } => "Started/Primary/Active/Activating",
        },
        Role::Replica(..) => "Started/ReplicaActive",
        Role::Waiting => "Started/Stray",
    }
}

fn step_value(pg: &Pg) -> Value {
    let entered = if pg.is_active() { pg.last_active } else { pg.last_change };
    let mut value = object! { "name" => state_name(pg), "enter_time" => local_time(entered) };
    let Some(stuck) = pg.stuck() else { return value };
    value.push("blocked", stuck.why);
    let osds = stuck.blocked_by.iter();
    value.push("down_osds_we_would_probe", osds.clone().map(|osd| Value::from(osd.0)).collect::<Vec<_>>());
    let help = "starting or marking this osd lost may let us proceed";
    let one = |osd: &OsdId| object! { "osd" => osd.0, "comment" => help };
    value.push("peering_blocked_by", osds.map(one).collect::<Vec<_>>());
    value
}

fn started_value(pg: &Pg) -> Value {
    object! { "name" => "Started", "enter_time" => local_time(pg.last_change) }
}
