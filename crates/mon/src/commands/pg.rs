//! `pg`: placement groups one by one, and requests to their primaries.
//!
//! Follows Ceph v16.2 `src/mon/PGMap.cc` (`process_pg_map_command`) and `src/mgr/DaemonServer.cc`.

use super::osd::{osds_named, set_text};
use super::osd_pool::pool_named;
use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::format::{Value, quantity};
use crate::mon::Mon;
use crate::object;
use base::{Errno, PgId};
use std::collections::BTreeMap;
use wire::messages::OsdScrub;
use wire::net::ConnId;
use wire::osd::SpgId;
use wire::types::EntityName;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("pg stat", "summarize placement groups", "pg", "r", stat),
    spec("pg map name=pgid,type=CephPgid", "show where a placement group is", "pg", "r", map),
    spec("pg scrub name=pgid,type=CephPgid", "compare a placement group's copies", "pg", "rw", |m, c| {
        scrub_pg(m, c, "scrub", false, false)
    }),
    spec(
        "pg deep-scrub name=pgid,type=CephPgid",
        "compare a placement group's copies, data too",
        "pg",
        "rw",
        |m, c| scrub_pg(m, c, "deep-scrub", false, true),
    ),
    spec("pg repair name=pgid,type=CephPgid", "compare and repair a placement group's copies", "pg", "rw", |m, c| {
        scrub_pg(m, c, "repair", true, true)
    }),
    spec("osd scrub name=who,type=CephString", "compare the copies an OSD leads", "osd", "rw", |m, c| {
        scrub_osds(m, c, "scrub", false, false)
    }),
    spec(
        "osd deep-scrub name=who,type=CephString",
        "compare the copies an OSD leads, data too",
        "osd",
        "rw",
        |m, c| scrub_osds(m, c, "deep-scrub", false, true),
    ),
    spec("osd repair name=who,type=CephString", "compare and repair the copies an OSD leads", "osd", "rw", |m, c| {
        scrub_osds(m, c, "repair", true, true)
    }),
    spec("osd pool scrub name=who,type=CephPoolname,n=N", "compare the copies of pools", "osd", "rw", |m, c| {
        scrub_pools(m, c, false, false)
    }),
    spec(
        "osd pool deep-scrub name=who,type=CephPoolname,n=N",
        "compare the copies of pools, data too",
        "osd",
        "rw",
        |m, c| scrub_pools(m, c, false, true),
    ),
    spec(
        "osd pool repair name=who,type=CephPoolname,n=N",
        "compare and repair the copies of pools",
        "osd",
        "rw",
        |m, c| scrub_pools(m, c, true, true),
    ),
];

fn stat(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let (states, sum, osds) = (mon.stats.by_state(map), mon.stats.sum(), mon.stats.osd_sum());
    let total: u64 = states.iter().map(|(_, n)| n).sum();
    let rates = mon.stats.total_rates();
    let value = || {
        let mut summary = object! {
            "num_pg_by_state" => Value::array(states.iter().map(|(name, n)| object! { "name" => name, "num" => *n })),
            "num_pgs" => total,
            "num_bytes" => sum.bytes(),
            "total_bytes" => osds.total_bytes(),
            "total_avail_bytes" => osds.available_bytes(),
            "total_used_bytes" => osds.used_bytes(),
            "total_used_raw_bytes" => osds.used_bytes(),
        };
        summary.extend(rates.client_value());
        summary.extend(sum.recovery_value());
        object! { "pg_ready" => true, "pg_summary" => summary }
    };
    let plain = || {
        let shown: Vec<String> = states.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let mut text = format!(
            "{total} pgs: {}; {} data, {} used, {} / {} avail",
            shown.join(", "),
            quantity::bytes(sum.bytes()),
            quantity::bytes(osds.used_bytes()),
            quantity::bytes(osds.available_bytes()),
            quantity::bytes(osds.total_bytes())
        );
        for part in rates.client_text().into_iter().chain(sum.recovery_lines()) {
            text += &format!("; {part}");
        }
        if let Some(recovery) = rates.recovery_text() {
            text += &format!(", {recovery} recovering");
        }
        text + "\n"
    };
    Ok(Reply::either(call, value, plain).with_line_end_if(!call.format.is_plain()))
}

fn map(mon: &mut Mon, call: &Call) -> Answer {
    let pg = call.pg("pgid")?;
    let map = mon.osds.map();
    let Some(pool) = map.pool(pg.pool) else {
        return refuse(Errno::ENOENT, format!("pg '{pg}' does not exist"));
    };
    let folded = pool.raw_pg_to_pg(pg);
    let sets = map.pg_to_up_acting(folded);
    let value = || {
        object! {
            "epoch" => map.epoch.0,
            "raw_pgid" => pg.to_string(),
            "pgid" => folded.to_string(),
            "up" => Value::array(sets.up.iter().map(|o| o.0)),
            "acting" => Value::array(sets.acting.iter().map(|o| o.0)),
        }
    };
    let plain = || {
        format!(
            "osdmap e{} pg {pg} ({folded}) -> up {} acting {}\n",
            map.epoch,
            set_text(&sets.up),
            set_text(&sets.acting)
        )
    };
    Ok(Reply::either(call, value, plain))
}

impl Mon {
    /// The session of an OSD.
    pub(crate) fn session_of_osd(&self, osd: base::OsdId) -> Option<ConnId> {
        self.sessions.iter().filter(|(_, s)| s.peer.name == EntityName::osd(osd)).map(|(conn, _)| conn).last()
    }

    /// Asks primaries to scrub; gives the primaries asked.
    fn request_scrub(&mut self, pgs: impl Iterator<Item = PgId>, repair: bool, deep: bool) -> Vec<base::OsdId> {
        let map = self.osds.map();
        let mut by_primary: BTreeMap<base::OsdId, Vec<SpgId>> = BTreeMap::new();
        for pg in pgs {
            let primary = map.pg_to_up_acting(pg).acting_primary;
            if map.is_up(primary) {
                by_primary.entry(primary).or_default().push(SpgId::replicated(pg));
            }
        }
        let (fsid, epoch) = (map.fsid, map.epoch);
        let mut asked = Vec::new();
        for (osd, pgs) in by_primary {
            if let Some(conn) = self.session_of_osd(osd) {
                self.send(conn, OsdScrub { fsid, epoch, pgs, repair, deep });
                asked.push(osd);
            }
        }
        asked
    }
}

fn scrub_pg(mon: &mut Mon, call: &Call, verb: &str, repair: bool, deep: bool) -> Answer {
    let pg = call.pg("pgid")?;
    if !mon.osds.map().pg_exists(pg) {
        return refuse(Errno::ENOENT, format!("pg {pg} does not exist"));
    }
    match mon.request_scrub(core::iter::once(pg), repair, deep).first() {
        Some(osd) => Ok(Reply::status(format!("instructing pg {pg} on osd.{osd} to {verb}"))),
        None => refuse(Errno::EAGAIN, format!("pg {pg} has no primary osd")),
    }
}

fn scrub_osds(mon: &mut Mon, call: &Call, verb: &str, repair: bool, deep: bool) -> Answer {
    let who = call.text("who")?;
    let mut osds = osds_named(mon, core::slice::from_ref(&who))?;
    let map = mon.osds.map();
    if matches!(who.as_str(), "all" | "any" | "*") {
        osds.retain(|osd| map.is_up(*osd));
    }
    if let Some(osd) = osds.iter().find(|osd| !map.is_up(**osd)) {
        return refuse(Errno::EAGAIN, format!("osd.{osd} is not up"));
    }
    let pgs: Vec<PgId> = crate::services::stats::all_pgs(map)
        .filter(|pg| osds.contains(&map.pg_to_up_acting(*pg).acting_primary))
        .collect();
    mon.request_scrub(pgs.into_iter(), repair, deep);
    let ids: Vec<String> = osds.iter().map(|o| o.to_string()).collect();
    Ok(Reply::status(format!("instructed osd(s) {} to {verb}", ids.join(","))))
}

fn scrub_pools(mon: &mut Mon, call: &Call, repair: bool, deep: bool) -> Answer {
    let names = call.list("who")?;
    let map = mon.osds.map();
    let mut pgs = Vec::new();
    for name in &names {
        let id = pool_named(map, name)?;
        let count = map.pool(id).map_or(0, |p| p.pg_num);
        pgs.extend((0..count).map(|seed| PgId::new(id, seed)));
    }
    mon.request_scrub(pgs.into_iter(), repair, deep);
    Ok(Reply::empty())
}
