//! `osd pg-upmap*`: exceptions to where CRUSH puts a placement group.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_command_impl`, the four upmap commands): what is asked twice or
//! means nothing is left out and said; only if nothing is left the command fails.

use super::osd_membership::pg_that_exists;
use super::{Answer, Call, CommandSpec, Refused, Reply, parse_osd, refuse, spec};
use crate::mon::Mon;
use base::{Errno, OsdId, PgId};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "osd pg-upmap name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        "replace a placement group's mapping",
        "osd",
        "rw",
        pg_upmap,
    ),
    spec("osd rm-pg-upmap name=pgid,type=CephPgid", "take back a replaced mapping", "osd", "rw", rm_pg_upmap),
    spec(
        "osd pg-upmap-items name=pgid,type=CephPgid name=id,type=CephOsdName,n=N",
        "replace single OSDs in a mapping: FROM TO ...",
        "osd",
        "rw",
        pg_upmap_items,
    ),
    spec(
        "osd rm-pg-upmap-items name=pgid,type=CephPgid",
        "take back replaced OSDs of a mapping",
        "osd",
        "rw",
        rm_pg_upmap_items,
    ),
];

/// What stands for no OSD at all (`CRUSH_ITEM_NONE`): a mapping may have holes.
const NOBODY: OsdId = OsdId(i32::MAX);

/// What Ceph says where nothing of a command is left.
const NOTHING_LEFT: &str = "no valid upmap items(pairs) is specified";

/// What a command asks for.
struct Asked {
    pg: PgId,
    /// The sizes of the group's pool.
    min_size: usize,
    size: usize,
    osds: Vec<OsdId>,
}

fn asked(mon: &mut Mon, call: &Call) -> Result<Asked, Refused> {
    let pg = pg_that_exists(mon, call)?;
    let (min_size, size) =
        mon.osds.upcoming().pool(pg.pool).map_or((0, 0), |p| (usize::from(p.min_size), usize::from(p.size)));
    let osds = call.list("id")?.iter().map(|id| parse_osd(id)).collect::<Result<_, _>>()?;
    Ok(Asked { pg, min_size, size, osds })
}

fn must_exist(mon: &mut Mon, osd: OsdId) -> Result<(), Refused> {
    if osd == NOBODY || mon.osds.upcoming().exists(osd) {
        Ok(())
    } else {
        refuse(Errno::ENOENT, format!("osd.{osd} does not exist"))
    }
}

fn pg_upmap(mon: &mut Mon, call: &Call) -> Answer {
    let Asked { pg, min_size, size, osds } = asked(mon, call)?;
    let count = osds.len();
    if count < min_size {
        return refuse(Errno::EINVAL, format!("num of osds ({count}) < pool min size ({min_size})"));
    }
    if count > size {
        return refuse(Errno::EINVAL, format!("num of osds ({count}) > pool size ({size})"));
    }
    let (mut chosen, mut said) = (Vec::new(), String::new());
    for osd in osds {
        must_exist(mon, osd)?;
        if chosen.contains(&osd) {
            said += &format!("osd.{osd} already exists, ");
        } else {
            chosen.push(osd);
        }
    }
    if chosen.is_empty() {
        return refuse(Errno::EINVAL, said + NOTHING_LEFT);
    }
    let shown: Vec<String> = chosen.iter().map(ToString::to_string).collect();
    let change = mon.osds.change();
    change.old_pg_upmap.remove(&pg);
    change.new_pg_upmap.insert(pg, chosen);
    Ok(Reply::status(format!("{said}set {pg} pg_upmap mapping to [{}]", shown.join(","))))
}

fn rm_pg_upmap(mon: &mut Mon, call: &Call) -> Answer {
    let pg = pg_that_exists(mon, call)?;
    let change = mon.osds.change();
    change.new_pg_upmap.remove(&pg);
    change.old_pg_upmap.insert(pg);
    Ok(Reply::status(format!("clear {pg} pg_upmap mapping")))
}

fn pg_upmap_items(mon: &mut Mon, call: &Call) -> Answer {
    let Asked { pg, size, osds, .. } = asked(mon, call)?;
    if osds.len() % 2 != 0 {
        return refuse(Errno::EINVAL, "you must specify pairs of osd ids to be remapped");
    }
    let count = osds.len() / 2;
    if count > size {
        return refuse(Errno::EINVAL, format!("num of osd pairs ({count}) > pool size ({size})"));
    }
    let (mut chosen, mut said) = (Vec::new(), String::new());
    for pair in osds.chunks_exact(2) {
        let (from, to) = (pair[0], pair[1]);
        if from == to {
            said += &format!("from osd.{from} == to osd.{to}, ");
            continue;
        }
        if from == NOBODY {
            return refuse(Errno::ENOENT, format!("osd.{from} does not exist"));
        }
        must_exist(mon, from)?;
        must_exist(mon, to)?;
        if chosen.contains(&(from, to)) {
            said += &format!("osd.{from} -> osd.{to} already exists, ");
        } else {
            chosen.push((from, to));
        }
    }
    if chosen.is_empty() {
        return refuse(Errno::EINVAL, said + NOTHING_LEFT);
    }
    let shown: Vec<String> = chosen.iter().map(|(from, to)| format!("{from}->{to}")).collect();
    let change = mon.osds.change();
    change.old_pg_upmap_items.remove(&pg);
    change.new_pg_upmap_items.insert(pg, chosen);
    Ok(Reply::status(format!("{said}set {pg} pg_upmap_items mapping to [{}]", shown.join(","))))
}

fn rm_pg_upmap_items(mon: &mut Mon, call: &Call) -> Answer {
    let pg = pg_that_exists(mon, call)?;
    let change = mon.osds.change();
    change.new_pg_upmap_items.remove(&pg);
    change.old_pg_upmap_items.insert(pg);
    Ok(Reply::status(format!("clear {pg} pg_upmap_items mapping")))
}
