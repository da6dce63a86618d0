//! `query`: everything an OSD knows of a placement group that it leads.
//!
//! Follows the shape of Ceph v16.2 `src/osd/PeeringState.cc` (`PeeringState::dump_pg_info`, `pg_info_t::dump`), as far
//! as this OSD's peering has the same things to tell.

use crate::core::Core;
use crate::osd::Osd;
use crate::pg::info::LastBackfill;
use crate::pg::member::Member;
use crate::pg::peering::Step;
use crate::pg::{Pg, Role};
use crate::placement::{PastInterval, PgHistory};
use crate::stats::{pg_stat, pg_state};
use crate::unfound;
use admin::format::quantity::local_time;
use admin::{Answer, Call, CommandSpec, Reply, Value, object, refuse, spec};
use base::{Epoch, Errno, OsdId};
use maps::SnapSet;
use maps::stats::PgStat;
use maps::stats::show::{ids, stat_value, state_text, version};
use std::collections::BTreeSet;
use store::ObjectId;

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
pub(crate) fn led<'a>(osd: &'a mut Osd, call: &Call) -> Result<(&'a mut Core, &'a mut Pg), admin::Refused> {
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

/// Since which maps a PG is as it is: known at all, served by these OSDs, led by this one.
#[derive(Clone, Copy, Default)]
struct Since {
    known: Epoch,
    up: Epoch,
    led: Epoch,
}

impl Since {
    fn of(history: &PgHistory) -> Since {
        Since { known: history.known_since, up: history.up_since, led: history.led_since }
    }
}

fn info_value(pg: &Pg, since: Since, at: &Progress, stat: &PgStat) -> Value {
    let info = &pg.info;
    let purged = pg.snaps.purged.intervals();
    let purged =
        purged.map(|(start, len)| object! { "start" => format!("{:x}", start.0), "length" => format!("{len:x}") });
    let history = object! {
        "epoch_created" => since.known.0,
        "epoch_pool_created" => since.known.0,
        "last_epoch_started" => info.last_epoch_started.0,
        "last_interval_started" => pg.since.0,
        "last_epoch_clean" => info.last_epoch_clean.0,
        "last_interval_clean" => info.last_epoch_clean.0,
        "last_epoch_split" => 0,
        "last_epoch_marked_full" => 0,
        "same_up_since" => since.up.0,
        "same_interval_since" => pg.since.0,
        "same_primary_since" => since.led.0,
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
        "purged_snaps" => Value::Array(purged.collect()),
        "history" => history,
        "stats" => stat_value(stat),
        "empty" => u32::from(at.last_update == base::EVersion::default()),
        "dne" => 0,
        "incomplete" => u32::from(!at.last_backfill.is_max()),
        "last_epoch_started" => info.last_epoch_started.0,
        "hit_set_history" => object! { "current_last_update" => "0'0", "history" => Value::Array(vec![]) },
    }
}

/// A set of snapshots as Ceph writes it: first numbers and lengths, in hexadecimal.
fn interval_text(snaps: &SnapSet) -> String {
    let runs: Vec<String> = snaps.intervals().map(|(start, len)| format!("{:x}~{len:x}", start.0)).collect();
    format!("[{}]", runs.join(","))
}

fn query(osd: &mut Osd, call: &Call) -> Answer {
    let (core, pg) = led(osd, call)?;
    let stat = pg_stat(core, pg);
    let since = core.placement.get(pg.id).map(Since::of).unwrap_or_default();
    let all: BTreeSet<OsdId> = pg.sets.acting.iter().chain(&pg.sets.up).copied().collect();
    let members: Vec<OsdId> = all.into_iter().filter(|osd| *osd != OsdId::NONE).collect();
    let mut sorted: Vec<String> = members.iter().map(|osd| osd.to_string()).collect();
    sorted.sort_unstable();
    // Only what the members have said is shown of them: how far each is, while their counts are the primary's.
    let peers = members.iter().filter(|osd| **osd != core.me()).filter_map(|osd| {
        let at = progress_of(pg, *osd)?;
        let mut peer = object! { "peer" => osd.to_string() };
        peer.extend(info_value(pg, since, &at, &PgStat::default()));
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
        "snap_trimq" => interval_text(&pg.snaps.to_trim()),
        "snap_trimq_len" => stat.snaptrimq_len,
        "state" => state_text(pg_state(core, pg)),
        "epoch" => core.epoch().0,
        "up" => ids(&pg.sets.up),
        "acting" => ids(&pg.sets.acting),
        "backfill_targets" => of_members(Member::is_backfilled),
        "async_recovery_targets" => of_members(Member::recovers_beside),
        "acting_recovery_backfill" => sorted,
        "info" => info_value(pg, since, &own, &stat),
        "peer_info" => peers,
        "recovery_state" => Value::Array(recovery_state(core, pg)),
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

/// Where the PG is, from within outwards, as Ceph nests its states.
fn recovery_state(core: &Core, pg: &Pg) -> Vec<Value> {
    let entered = if pg.is_active() { pg.last_active } else { pg.last_change };
    let state = |name: &str, entered| object! { "name" => name, "enter_time" => local_time(entered) };
    let mut innermost = state(state_name(pg), entered);
    let mut states = Vec::new();
    match &pg.role {
        Role::Peering(peering) => {
            if let Step::Down(stuck) = &peering.step {
                innermost.push("comment", stuck.why);
            }
            let mut around = state("Started/Primary/Peering", pg.last_change);
            around.extend(peering_value(core, pg));
            states.extend([innermost, around]);
        }
        _ => {
            if matches!(pg.role, Role::Active(_) | Role::Peered(_)) {
                innermost.extend(progress_value(core, pg));
            }
            states.push(innermost);
        }
    }
    states.push(state("Started", pg.last_change));
    states
}

/// What peering goes by, and who would have to come back.
fn peering_value(core: &Core, pg: &Pg) -> Value {
    let (stuck, mut asked) = (pg.stuck(), pg.whom_to_ask(core));
    asked.insert(core.me());
    let down = || stuck.iter().flat_map(|stuck| &stuck.blocked_by);
    let help = "starting or marking this osd lost may let us proceed";
    let blocker = |osd: &OsdId| {
        let lost_at = core.map.info(*osd).map_or(Epoch(0), |info| info.lost_at);
        object! { "osd" => osd.0, "current_lost_at" => lost_at.0, "comment" => help }
    };
    let mut value = object! {
        "past_intervals" => Value::Array(past_value(core, pg).into_iter().collect()),
        "probing_osds" => asked.iter().map(OsdId::to_string).collect::<Vec<_>>(),
    };
    if down().next().is_some() {
        value.push("blocked", "peering is blocked due to down osds");
    }
    value.push("down_osds_we_would_probe", down().map(|osd| Value::from(osd.0)).collect::<Vec<_>>());
    value.push("peering_blocked_by", down().map(blocker).collect::<Vec<_>>());
    value
}

/// The past intervals that count, if there are any.
fn past_value(core: &Core, pg: &Pg) -> Option<Value> {
    let past: Vec<_> = pg.unclean_past(core).collect();
    let (first, last) = (past.first()?.first, past.last()?.last);
    let all: BTreeSet<OsdId> = past.iter().flat_map(|interval| &interval.acting).copied().collect();
    let interval = |interval: &&PastInterval| {
        let acting: Vec<String> = interval.acting.iter().map(OsdId::to_string).collect();
        object! {
            "first" => interval.first.0.to_string(),
            "last" => interval.last.0.to_string(),
            "acting" => acting.join(","),
        }
    };
    Some(object! {
        "first" => first.0.to_string(),
        "last" => last.0.to_string(),
        "all_participants" => all.iter().map(|osd| object! { "osd" => osd.0 }).collect::<Vec<_>>(),
        "intervals" => past.iter().map(interval).collect::<Vec<_>>(),
    })
}

/// Who may have what is lacking, and what is on its way.
fn progress_value(core: &Core, pg: &Pg) -> Value {
    let recovery = &pg.recovery;
    let status = |osd: &OsdId| match (core.map.is_up(*osd), recovery.has_answered(*osd)) {
        (false, _) => "osd is down",
        (true, true) => "already probed",
        (true, false) => "not queried",
    };
    let may_have = if recovery.complete { BTreeSet::new() } else { pg.who_may_have(core) };
    let may_have = may_have.iter().map(|osd| object! { "osd" => osd.to_string(), "status" => status(osd) });
    let filled = recovery.members.iter().filter(|(_, member)| member.is_backfilled());
    let waits = recovery.members.keys().filter(|osd| recovery.lists_for(**osd));
    let shown = |head: &ObjectId| format!("{}:{head:?}", pg.id.pool.0);
    object! {
        "might_have_unfound" => may_have.collect::<Vec<_>>(),
        "recovery_progress" => object! {
            "backfill_targets" => filled.map(|(osd, _)| osd.to_string()).collect::<Vec<_>>(),
            "waiting_on_backfill" => waits.map(OsdId::to_string).collect::<Vec<_>>(),
            "recovering" => recovery.objects_under_way().map(shown).collect::<Vec<_>>(),
        },
    }
}
