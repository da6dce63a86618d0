//! `pg force-recovery`, `force-backfill` and their opposites, for placement groups and for pools.
//!
//! Follows Ceph v16.2 `src/mgr/DaemonServer.cc` for what is said of groups that need nothing. Groups here
//! take turns in recovery, an object at a time, and what a client waits for comes first: none waits for another to be done,
//! so that there is nothing to overtake and nothing is ever forced.

use super::osd_pool::pool_named;
use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::mon::Mon;
use base::{Errno, PgId};
use maps::stats::PgState;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("pg force-recovery name=pgid,type=CephPgid,n=N", "recover these groups first", "pg", "rw", force_recovery),
    spec("pg force-backfill name=pgid,type=CephPgid,n=N", "backfill these groups first", "pg", "rw", force_backfill),
    spec(
        "pg cancel-force-recovery name=pgid,type=CephPgid,n=N",
        "recover these groups in their turn",
        "pg",
        "rw",
        cancel_recovery,
    ),
    spec(
        "pg cancel-force-backfill name=pgid,type=CephPgid,n=N",
        "backfill these groups in their turn",
        "pg",
        "rw",
        cancel_backfill,
    ),
    spec(
        "osd pool force-recovery name=who,type=CephPoolname,n=N",
        "recover these pools' groups first",
        "osd",
        "rw",
        force_recovery,
    ),
    spec(
        "osd pool force-backfill name=who,type=CephPoolname,n=N",
        "backfill these pools' groups first",
        "osd",
        "rw",
        force_backfill,
    ),
    spec(
        "osd pool cancel-force-recovery name=who,type=CephPoolname,n=N",
        "recover these pools' groups in their turn",
        "osd",
        "rw",
        cancel_recovery,
    ),
    spec(
        "osd pool cancel-force-backfill name=who,type=CephPoolname,n=N",
        "backfill these pools' groups in their turn",
        "osd",
        "rw",
        cancel_backfill,
    ),
];

/// Says of each group that the call names what `say` says.
fn of_each(mon: &mut Mon, call: &Call, say: impl Fn(&Mon, PgId) -> String) -> Answer {
    let map = mon.osds.map();
    let mut groups = Vec::new();
    for name in call.list("pgid")? {
        match PgId::parse(&name) {
            Some(pg) if map.pg_exists(pg) => groups.push(pg),
            Some(pg) => return refuse(Errno::ENOENT, format!("pg {pg} does not exist; ")),
            None => return refuse(Errno::EINVAL, format!("invalid pgid '{name}'; ")),
        }
    }
    for name in call.list("who")? {
        let id = pool_named(map, &name)?;
        groups.extend((0..map.pool(id).map_or(0, |pool| pool.pg_num)).map(|seed| PgId::new(id, seed)));
    }
    Ok(Reply::status(groups.into_iter().map(|pg| say(mon, pg)).collect::<String>()))
}

fn force_recovery(mon: &mut Mon, call: &Call) -> Answer {
    of_each(mon, call, |mon, pg| match mon.stats.state(pg) {
        Some(state) if state.contains(PgState::DEGRADED) => format!("pg {pg} recovers as soon as it can; "),
        _ => format!("pg {pg} doesn't require recovery; "),
    })
}

fn force_backfill(mon: &mut Mon, call: &Call) -> Answer {
    of_each(mon, call, |_, pg| format!("pg {pg} doesn't require backfilling; "))
}

fn cancel_recovery(mon: &mut Mon, call: &Call) -> Answer {
    of_each(mon, call, |_, pg| format!("pg {pg} recovery not forced; "))
}

fn cancel_backfill(mon: &mut Mon, call: &Call) -> Answer {
    of_each(mon, call, |_, pg| format!("pg {pg} backfill not forced; "))
}
