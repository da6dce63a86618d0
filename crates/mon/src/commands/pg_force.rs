//! `pg force-recovery`, `force-backfill` and their opposites, for placement groups and for pools: their primaries are
//! told, and give them slots before others.
//!
//! Follows Ceph v16.2 `src/mgr/DaemonServer.cc`.

use super::osd_pool::pool_named;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::mon::Mon;
use base::{Errno, PgId};
use maps::stats::PgState;
use std::collections::BTreeMap;
use wire::messages::{OsdForceRecovery, force_recovery as bits};
use wire::osd::SpgId;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("pg force-recovery name=pgid,type=CephPgid,n=N", "recover these groups first", "pg", "rw", |m, c| {
        tell(m, c, &FORCE_RECOVERY)
    }),
    spec("pg force-backfill name=pgid,type=CephPgid,n=N", "backfill these groups first", "pg", "rw", |m, c| {
        tell(m, c, &FORCE_BACKFILL)
    }),
    spec("pg cancel-force-recovery name=pgid,type=CephPgid,n=N", "recover these in their turn", "pg", "rw", |m, c| {
        tell(m, c, &CANCEL_RECOVERY)
    }),
    spec("pg cancel-force-backfill name=pgid,type=CephPgid,n=N", "backfill these in their turn", "pg", "rw", |m, c| {
        tell(m, c, &CANCEL_BACKFILL)
    }),
    spec("osd pool force-recovery name=who,type=CephPoolname,n=N", "recover these pools first", "osd", "rw", |m, c| {
        tell(m, c, &FORCE_RECOVERY)
    }),
    spec(
        "osd pool force-backfill name=who,type=CephPoolname,n=N",
        "backfill these pools first",
        "osd",
        "rw",
        |m, c| tell(m, c, &FORCE_BACKFILL),
    ),
    spec(
        "osd pool cancel-force-recovery name=who,type=CephPoolname,n=N",
        "recover these pools in their turn",
        "osd",
        "rw",
        |m, c| tell(m, c, &CANCEL_RECOVERY),
    ),
    spec(
        "osd pool cancel-force-backfill name=who,type=CephPoolname,n=N",
        "backfill these pools in their turn",
        "osd",
        "rw",
        |m, c| tell(m, c, &CANCEL_BACKFILL),
    ),
];

/// What is asked of groups.
struct Wish {
    options: u8,
    /// As Ceph calls it.
    verb: &'static str,
    /// What a group needs to be in one of, for this to make sense.
    needs: PgState,
    /// What is said of one that is not.
    no_need: &'static str,
    /// What a group is in for which that has been asked for already, and what is said of it.
    already: Option<(PgState, &'static str)>,
}

const FORCE_RECOVERY: Wish = Wish {
    options: bits::RECOVERY,
    verb: "force-recovery",
    needs: PgState::DEGRADED.with(PgState::RECOVERY_WAIT).with(PgState::RECOVERING),
    no_need: "doesn't require recovery",
    already: Some((PgState::FORCED_RECOVERY, "recovery already forced")),
};

const FORCE_BACKFILL: Wish = Wish {
    options: bits::BACKFILL,
    verb: "force-backfill",
    needs: PgState::DEGRADED.with(PgState::BACKFILL_WAIT).with(PgState::BACKFILLING),
    no_need: "doesn't require backfilling",
    already: Some((PgState::FORCED_BACKFILL, "backfill already forced")),
};

const CANCEL_RECOVERY: Wish = Wish {
    options: bits::RECOVERY | bits::CANCEL,
    verb: "cancel-force-recovery",
    needs: PgState::FORCED_RECOVERY,
    no_need: "recovery not forced",
    already: None,
};

const CANCEL_BACKFILL: Wish = Wish {
    options: bits::BACKFILL | bits::CANCEL,
    verb: "cancel-force-backfill",
    needs: PgState::FORCED_BACKFILL,
    no_need: "backfill not forced",
    already: None,
};

/// The groups that a call names.
fn groups_named(mon: &Mon, call: &Call) -> Result<Vec<PgId>, Refused> {
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
    Ok(groups)
}

/// Tells the primaries of the groups that the call names, as far as that makes sense.
fn tell(mon: &mut Mon, call: &Call, wish: &Wish) -> Answer {
    let (mut text, mut refused) = (String::new(), false);
    let mut by_primary: BTreeMap<base::OsdId, Vec<SpgId>> = BTreeMap::new();
    for pg in groups_named(mon, call)? {
        let state = mon.stats.state(pg).unwrap_or_default();
        if state.0 & wish.needs.0 == 0 {
            text += &format!("pg {pg} {}; ", wish.no_need);
        } else if let Some((_, said)) = wish.already.filter(|(already, _)| state.contains(*already)) {
            text += &format!("pg {pg} {said}; ");
            refused = true;
        } else {
            let primary = mon.osds.map().pg_to_up_acting(pg).acting_primary;
            by_primary.entry(primary).or_default().push(SpgId::replicated(pg));
        }
    }
    // As in Ceph, what went wrong is an error where nothing went well.
    refused &= by_primary.is_empty();
    by_primary.retain(|osd, _| mon.osds.map().is_up(*osd));
    for (osd, pgs) in by_primary {
        let Some(conn) = mon.session_of_osd(osd) else {
            return refuse(Errno::EAGAIN, format!("{text}osd.{osd} is not currently connected"));
        };
        let names: Vec<String> = pgs.iter().map(|spg| spg.pg.to_string()).collect();
        text += &format!("instructing pg(s) [{}] on osd.{osd} to {}; ", names.join(","), wish.verb);
        let (fsid, options) = (mon.osds.map().fsid, wish.options);
        mon.send(conn, OsdForceRecovery { fsid, pgs, options });
    }
    if refused { refuse(Errno::EINVAL, text) } else { Ok(Reply::status(text)) }
}
