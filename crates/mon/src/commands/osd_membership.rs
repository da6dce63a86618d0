//! Commands that change which OSDs there are and what they carry: down, out, in, new, rm, purge, reweight.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_command_impl`, `prepare_command_osd_new`, `..._purge`). The
//! texts of a command over several OSDs follow one another, each with a space behind it, as Ceph's do.

use super::osd::osds_named;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::mon::Mon;
use crate::services::osd_map::IN;
use crate::{crush_view, object};
use base::{Errno, OsdId, PgId};
use maps::OsdState;
use std::collections::BTreeMap;
use wire::cephx::{AuthName, CryptoKey, EntityAuth};
use wire::types::{EntityType, Uuid};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "osd down name=ids,type=CephString,n=N name=definitely_dead,type=CephBool,req=false",
        "mark OSDs down",
        "osd",
        "rw",
        down,
    ),
    spec("osd stop name=ids,type=CephString,n=N", "ask OSDs to stop and mark them down", "osd", "rw", stop),
    spec("osd out name=ids,type=CephString,n=N", "mark OSDs out, so that their data moves away", "osd", "rw", out),
    spec("osd in name=ids,type=CephString,n=N", "mark OSDs in", "osd", "rw", in_),
    spec("osd rm name=ids,type=CephString,n=N", "remove OSDs from the map", "osd", "rw", rm).deprecated(),
    spec(
        "osd reweight name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        "set an OSD's override weight",
        "osd",
        "rw",
        reweight,
    ),
    spec(
        "osd reweightn name=weights,type=CephString",
        "set override weights from {\"id\": weight, ...} as 16.16 integers",
        "osd",
        "rw",
        reweightn,
    ),
    spec(
        "osd primary-affinity name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        "set how willing an OSD is to be primary",
        "osd",
        "rw",
        primary_affinity,
    ),
    spec(
        "osd new name=uuid,type=CephUUID,req=true name=id,type=CephOsdName,req=false",
        "enter a new OSD; its secret may come with -i <json>",
        "osd",
        "rw",
        new,
    ),
    spec(
        "osd create name=uuid,type=CephUUID,req=false name=id,type=CephOsdName,req=false",
        "enter a new OSD without a key",
        "osd",
        "rw",
        create,
    )
    .deprecated(),
    spec(
        "osd destroy name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "remove an OSD's key but keep its id for a new disk",
        "osd",
        "rw",
        destroy,
    ),
    spec(
        "osd purge name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "remove an OSD with its key and its place",
        "osd",
        "rw",
        purge,
    ),
    spec(
        "osd purge-new name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "remove an OSD that never started",
        "osd",
        "rw",
        purge_new,
    ),
    spec(
        "osd lost name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "declare an OSD's data lost",
        "osd",
        "rw",
        lost,
    ),
    spec(
        "osd force-create-pg name=pgid,type=CephPgid name=yes_i_really_mean_it,type=CephBool,req=false",
        "make a placement group anew of which all copies are lost",
        "osd",
        "rw",
        force_create_pg,
    ),
    spec(
        "osd pg-temp name=pgid,type=CephPgid name=id,type=CephOsdName,n=N,req=false",
        "set a temporary acting set",
        "osd",
        "rw",
        pg_temp,
    ),
    spec(
        "osd primary-temp name=pgid,type=CephPgid name=id,type=CephOsdName",
        "set a temporary primary; -1 takes it back",
        "osd",
        "rw",
        primary_temp,
    ),
    spec("pg repeer name=pgid,type=CephPgid", "let a placement group peer anew", "osd", "rw", repeer),
];

/// Runs `one` for each OSD named and joins what it says.
fn for_each(mon: &mut Mon, call: &Call, one: impl Fn(&mut Mon, OsdId) -> Result<String, String>) -> Answer {
    let (mut text, mut failed) = (String::new(), false);
    for osd in osds_named(mon, &call.list("ids")?)? {
        if !mon.osds.upcoming().exists(osd) {
            text += &format!("osd.{osd} does not exist. ");
            continue;
        }
        match one(mon, osd) {
            Ok(said) => text += &said,
            Err(said) => {
                text += &said;
                failed = true;
            }
        }
    }
    if failed { refuse(Errno::EBUSY, text) } else { Ok(Reply::status(text)) }
}

fn down(mon: &mut Mon, call: &Call) -> Answer {
    let dead = call.flag("definitely_dead");
    for_each(mon, call, |mon, osd| {
        if mon.osds.upcoming().is_down(osd) {
            return Ok(format!("osd.{osd} is already down. "));
        }
        mon.osds.mark_down(osd);
        if dead {
            let epoch = mon.osds.epoch();
            let mut xinfo = mon.osds.upcoming().xinfo(osd).copied().unwrap_or_default();
            xinfo.dead_epoch = epoch;
            mon.osds.change().new_xinfo.insert(osd, xinfo);
        }
        Ok(format!("marked down osd.{osd}. "))
    })
}

fn stop(mon: &mut Mon, call: &Call) -> Answer {
    for_each(mon, call, |mon, osd| {
        if mon.osds.upcoming().is_down(osd) {
            return Ok(format!("osd.{osd} is already down. "));
        }
        mon.osds.mark_down(osd);
        mon.osds.flip_state(osd, OsdState::STOP);
        Ok(format!("stop down osd.{osd}. "))
    })
}

fn out(mon: &mut Mon, call: &Call) -> Answer {
    for_each(mon, call, |mon, osd| {
        if mon.osds.upcoming().is_out(osd) {
            return Ok(format!("osd.{osd} is already out. "));
        }
        mon.osds.set_weight(osd, 0);
        let mut xinfo = mon.osds.upcoming().xinfo(osd).copied().unwrap_or_default();
        if xinfo.old_weight != 0 {
            xinfo.old_weight = 0;
            mon.osds.change().new_xinfo.insert(osd, xinfo);
        }
        Ok(format!("marked out osd.{osd}. "))
    })
}

fn in_(mon: &mut Mon, call: &Call) -> Answer {
    for_each(mon, call, |mon, osd| {
        if mon.osds.upcoming().is_in(osd) {
            return Ok(format!("osd.{osd} is already in. "));
        }
        let old = mon.osds.upcoming().xinfo(osd).map_or(0, |x| x.old_weight);
        mon.osds.set_weight(osd, if old > 0 { old } else { IN });
        Ok(format!("marked in osd.{osd}. "))
    })
}

fn rm(mon: &mut Mon, call: &Call) -> Answer {
    for_each(mon, call, |mon, osd| {
        if mon.osds.upcoming().is_up(osd) {
            return Err(format!("osd.{osd} is still up; must be down before removal. "));
        }
        mon.forget_osd(osd);
        Ok(format!("removed osd.{osd} "))
    })
}

impl Mon {
    /// Removes an OSD that is down from the map.
    pub(crate) fn forget_osd(&mut self, osd: OsdId) {
        let state = self.osds.upcoming().state(osd);
        if self.osds.map().exists(osd) {
            // Flipping EXISTS clears everything else that is known.
            self.osds.change().new_state.insert(osd, state);
        } else {
            self.osds.change().new_state.remove(&osd);
        }
        let change = self.osds.change();
        change.new_up.remove(&osd);
        change.new_uuid.insert(osd, Uuid::default());
        change.new_weight.remove(&osd);
        self.osds.remove_metadata(osd);
    }
}

fn existing(mon: &mut Mon, call: &Call) -> Result<OsdId, Refused> {
    let osd = call.osd("id")?;
    let exists = mon.osds.upcoming().exists(osd);
    if exists { Ok(osd) } else { refuse(Errno::ENOENT, format!("osd.{osd} does not exist")) }
}

fn fraction(call: &Call) -> Result<f64, Refused> {
    let weight = call.float("weight")?;
    if !(0.0..=1.0).contains(&weight) {
        return refuse(Errno::EINVAL, format!("weight {weight} is not between 0 and 1"));
    }
    Ok(weight)
}

fn shown(number: f64) -> String {
    crate::format::value::percent_g(number, 6)
}

fn reweight(mon: &mut Mon, call: &Call) -> Answer {
    let (osd, weight) = (existing(mon, call)?, fraction(call)?);
    let fixed = (weight * f64::from(IN)) as u32;
    mon.osds.set_weight(osd, fixed);
    Ok(Reply::status(format!("reweighted osd.{osd} to {} ({fixed:x})", shown(weight))))
}

fn reweightn(mon: &mut Mon, call: &Call) -> Answer {
    let text = call.text("weights")?;
    let parsed: Option<BTreeMap<String, String>> =
        serde_json::from_str(&text).ok().map(|m: BTreeMap<String, serde_json::Value>| {
            m.into_iter().map(|(k, v)| (k, v.to_string().trim_matches('"').to_owned())).collect()
        });
    let Some(weights) = parsed else {
        return refuse(Errno::EINVAL, format!("unable to parse 'weights' value '{text}'"));
    };
    let mut parsed = Vec::new();
    for (osd, weight) in &weights {
        let osd = super::parse_osd(osd)?;
        let Some(weight) = weight.parse::<u32>().ok().filter(|w| *w <= IN) else {
            return refuse(Errno::EINVAL, format!("'{weight}' is no weight between 0 and {IN}"));
        };
        if !mon.osds.upcoming().exists(osd) {
            return refuse(Errno::ENOENT, format!("osd.{osd} does not exist"));
        }
        parsed.push((osd, weight));
    }
    parsed.into_iter().for_each(|(osd, weight)| mon.osds.set_weight(osd, weight));
    Ok(Reply::status(format!("reweighted {text}")))
}

fn primary_affinity(mon: &mut Mon, call: &Call) -> Answer {
    let (osd, weight) = (existing(mon, call)?, fraction(call)?);
    let fixed = (weight * f64::from(IN)) as u32;
    mon.osds.change().new_primary_affinity.insert(osd, fixed);
    // Ceph means to show hexadecimal here and shows its stream's flags instead; we show what it means.
    Ok(Reply::status(format!("set osd.{osd} primary-affinity to {} ({fixed:x})", shown(weight))))
}

/// The lowest id that no OSD has.
fn free_id(mon: &mut Mon) -> Result<OsdId, Refused> {
    let id_max = mon.osd_id_max();
    let next = mon.osds.upcoming();
    let free = (0..id_max).map(OsdId).find(|osd| !next.exists(*osd));
    free.ok_or_else(|| Refused::new(Errno::ERANGE, "there are as many OSDs as there may be"))
}

fn enter(mon: &mut Mon, osd: OsdId, uuid: Uuid) {
    if osd.0 >= mon.osds.upcoming().max_osd() {
        mon.osds.change().new_max_osd = Some(osd.0 as u32 + 1);
    }
    let state = mon.osds.upcoming().state(osd);
    if !state.contains(OsdState::EXISTS) {
        mon.osds.flip_state(osd, OsdState::EXISTS.with(OsdState::NEW));
        mon.osds.set_weight(osd, 0);
    } else if state.contains(OsdState::DESTROYED) {
        mon.osds.flip_state(osd, OsdState::DESTROYED);
    }
    mon.osds.change().new_uuid.insert(osd, uuid);
}

/// The OSD that a uuid or an id asks for; true if it was there already.
fn chosen(mon: &mut Mon, uuid: Uuid, id: Option<OsdId>) -> Result<(OsdId, bool), Refused> {
    if uuid != Uuid::default()
        && let Some(osd) = mon.osds.upcoming().osd_by_uuid(uuid).filter(|_| true)
        && mon.osds.upcoming().exists(osd)
        && !mon.osds.upcoming().state(osd).contains(OsdState::DESTROYED)
    {
        if id.is_some_and(|id| id != osd) {
            return refuse(Errno::EEXIST, format!("uuid {uuid} already in use for different id {osd}"));
        }
        return Ok((osd, true));
    }
    match id {
        None => Ok((free_id(mon)?, false)),
        Some(osd) if osd.0 >= mon.osd_id_max() => refuse(Errno::ERANGE, format!("osd id {osd} is out of bounds")),
        Some(osd) => {
            let state = mon.osds.upcoming().state(osd);
            if state.contains(OsdState::EXISTS) && !state.contains(OsdState::DESTROYED) {
                return refuse(Errno::EINVAL, format!("id {osd} already in use and does not match uuid {uuid}"));
            }
            Ok((osd, false))
        }
    }
}

fn uuid(call: &Call) -> Result<Uuid, Refused> {
    let text = call.text("uuid")?;
    Uuid::parse(&text).ok_or_else(|| Refused::new(Errno::EINVAL, format!("invalid uuid '{text}'")))
}

fn new(mon: &mut Mon, call: &Call) -> Answer {
    let (uuid, id) = (uuid(call)?, call.osd_opt("id")?);
    let (osd, existed) = chosen(mon, uuid, id)?;
    if !call.input.is_empty() {
        let secrets: serde_json::Value = serde_json::from_slice(&call.input)
            .map_err(|e| Refused::new(Errno::EINVAL, format!("the secrets are not JSON: {e}")))?;
        let text = secrets.get("cephx_secret").and_then(|v| v.as_str());
        let Some(Ok(key)) = text.map(CryptoKey::parse) else {
            return refuse(Errno::EINVAL, "the secrets have no valid cephx_secret");
        };
        let name = AuthName::new(EntityType::OSD, osd.to_string());
        let caps = [("osd", "allow *"), ("mon", "allow profile osd"), ("mgr", "allow profile osd")];
        let caps = caps.map(|(service, text)| (service.to_owned(), text.to_owned())).into();
        let auth = EntityAuth { key, caps };
        match mon.auth.mon.keys.entity(&name) {
            Some(have) if have.key != auth.key => {
                return refuse(Errno::EEXIST, format!("entity {name} exists but key does not match"));
            }
            Some(_) => {}
            None => mon.auth.mon.keys.set(name, auth),
        }
    }
    if !existed {
        enter(mon, osd, uuid);
    }
    Ok(Reply::either(call, || object! { "osdid" => osd.0 }, || format!("{osd}\n")))
}

fn create(mon: &mut Mon, call: &Call) -> Answer {
    let uuid = if call.has("uuid") { uuid(call)? } else { Uuid::default() };
    let id = call.osd_opt("id")?;
    let (osd, existed) = chosen(mon, uuid, id)?;
    if !existed {
        enter(mon, osd, uuid);
    }
    Ok(Reply::either(call, || object! { "osdid" => osd.0 }, || format!("{osd}\n")))
}

fn must_be_down(mon: &mut Mon, osd: OsdId) -> Result<(), Refused> {
    if mon.osds.upcoming().is_up(osd) {
        return refuse(Errno::EBUSY, format!("osd.{osd} is not `down`."));
    }
    Ok(())
}

fn remove_key(mon: &mut Mon, osd: OsdId) {
    mon.auth.mon.keys.remove(&AuthName::new(EntityType::OSD, osd.to_string()));
}

/// An OSD that is there and may go: nobody needs it, or the operator knows better. None where there is none, which is as
/// well (v16.2 `src/mgr/DaemonServer.cc`, `osd destroy`).
fn may_go(mon: &mut Mon, call: &Call) -> Result<Option<OsdId>, Refused> {
    let osd = call.osd("id")?;
    if !mon.osds.upcoming().exists(osd) {
        return Ok(None);
    }
    if !call.flag("yes_i_really_mean_it") && !call.flag("force") {
        super::osd::refuse_unless_safe(mon, &[osd].into()).map_err(|no| {
            let text = format!("{}\nPass --force to go on all the same: what only it has is lost for good.", no.text);
            Refused { text, ..no }
        })?;
    }
    must_be_down(mon, osd)?;
    Ok(Some(osd))
}

fn none_there(call: &Call) -> Answer {
    Ok(Reply::status(format!("osd.{} does not exist", call.osd("id")?)))
}

fn destroy(mon: &mut Mon, call: &Call) -> Answer {
    let Some(osd) = may_go(mon, call)? else { return none_there(call) };
    remove_key(mon, osd);
    let state = mon.osds.upcoming().state(osd);
    if !state.contains(OsdState::DESTROYED) {
        mon.osds.flip_state(osd, OsdState::DESTROYED);
        mon.osds.change().new_uuid.insert(osd, Uuid::default());
    }
    Ok(Reply::status(format!("destroyed osd.{osd}")))
}

fn purge(mon: &mut Mon, call: &Call) -> Answer {
    let Some(osd) = may_go(mon, call)? else { return none_there(call) };
    remove_key(mon, osd);
    let mut crush = (*mon.osds.upcoming().crush).clone();
    if crush.item_exists(osd.0) {
        let name = crush.item_name(osd.0).unwrap_or_default().to_owned();
        crush.remove_item(&name, false).map_err(|e| Refused::new(e.errno(), e.to_string()))?;
        mon.osds.set_crush(&crush);
    }
    mon.forget_osd(osd);
    Ok(Reply::status(format!("purged osd.{osd}")))
}

fn purge_new(mon: &mut Mon, call: &Call) -> Answer {
    let osd = call.osd("id")?;
    if !call.flag("yes_i_really_mean_it") {
        let text = "Are you SURE?  What only this OSD has is lost for good, with its key.  Pass --yes-i-really-mean-it if you do.";
        return refuse(Errno::EPERM, text);
    }
    must_be_down(mon, osd)?;
    let state = mon.osds.upcoming().state(osd);
    if state.contains(OsdState::EXISTS) && !state.contains(OsdState::NEW) {
        return refuse(Errno::EPERM, format!("osd.{osd} is not new"));
    }
    if crush_view::parent(&mon.osds.upcoming().crush, osd.0).is_some() || !state.contains(OsdState::EXISTS) {
        return purge(mon, call);
    }
    remove_key(mon, osd);
    mon.forget_osd(osd);
    Ok(Reply::status(format!("purged osd.{osd}")))
}

fn lost(mon: &mut Mon, call: &Call) -> Answer {
    let osd = existing(mon, call)?;
    if !call.flag("yes_i_really_mean_it") {
        let text =
            "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you really do.";
        return refuse(Errno::EPERM, text);
    }
    if mon.osds.upcoming().is_up(osd) {
        return refuse(Errno::EBUSY, format!("osd.{osd} is not down"));
    }
    let down_at = mon.osds.upcoming().info(osd).map(|i| i.down_at);
    let epoch = down_at.unwrap_or_else(|| mon.osds.epoch());
    mon.osds.change().new_lost.insert(osd, epoch);
    Ok(Reply::status(format!("marked osd lost in epoch {epoch}")))
}

fn force_create_pg(mon: &mut Mon, call: &Call) -> Answer {
    let pg = pg_that_exists(mon, call)?;
    if !call.flag("yes_i_really_mean_it") {
        let text = "This command will recreate a lost (as in data lost) PG with data in it, such that the cluster will give \
                    up ever trying to recover the lost data.  Do this only if you are certain that all copies of the PG \
                    are in fact lost and you are willing to accept that the data is permanently destroyed.  Pass \
                    --yes-i-really-mean-it to proceed.";
        return refuse(Errno::EPERM, text);
    }
    if mon.creating_pgs.since(pg).is_some() {
        return Ok(Reply::status(format!("pg {pg} already creating")));
    }
    mon.creating_pgs.add(pg, mon.osds.epoch(), call.now.into());
    let primary = mon.osds.map().pg_to_up_acting(pg).acting_primary;
    mon.send_pg_creates(primary);
    Ok(Reply::status(format!("pg {pg} now creating, ok")))
}

pub(super) fn pg_that_exists(mon: &mut Mon, call: &Call) -> Result<PgId, Refused> {
    let pg = call.pg("pgid")?;
    let exists = mon.osds.upcoming().pg_exists(pg);
    if exists { Ok(pg) } else { refuse(Errno::ENOENT, format!("pgid '{pg}' does not exist")) }
}

fn osd_list(mon: &mut Mon, call: &Call) -> Result<Vec<OsdId>, Refused> {
    let osds: Vec<OsdId> = call.list("id")?.iter().map(|id| super::parse_osd(id)).collect::<Result<_, _>>()?;
    match osds.iter().find(|osd| !mon.osds.upcoming().exists(**osd)) {
        Some(osd) => refuse(Errno::ENOENT, format!("osd.{osd} does not exist")),
        None => Ok(osds),
    }
}

fn pg_temp(mon: &mut Mon, call: &Call) -> Answer {
    let (pg, osds) = (pg_that_exists(mon, call)?, osd_list(mon, call)?);
    let shown = super::osd::set_text(&osds);
    mon.osds.change().new_pg_temp.insert(pg, osds);
    Ok(Reply::status(format!("set {pg} pg_temp mapping to {shown}")))
}

/// Another acting set for a moment, which its primary does not want: the way back makes it peer (v16.2
/// `src/mon/OSDMonitor.cc`).
fn repeer(mon: &mut Mon, call: &Call) -> Answer {
    let pg = pg_that_exists(mon, call)?;
    let map = mon.osds.map();
    let sets = map.pg_to_up_acting(pg);
    let primary = sets.acting_primary;
    if primary == OsdId::NONE {
        return refuse(Errno::EAGAIN, "pg currently has no primary");
    }
    let other = (0..map.max_osd()).map(OsdId).find(|osd| *osd != primary && map.is_up(*osd));
    let temporary = match (sets.acting.len(), other) {
        (2.., _) => vec![primary],
        (_, Some(other)) => vec![primary, other],
        (_, None) => return refuse(Errno::EAGAIN, "not enough up OSDs to force repeer"),
    };
    mon.osds.change().new_pg_temp.insert(pg, temporary);
    Ok(Reply::empty())
}

fn primary_temp(mon: &mut Mon, call: &Call) -> Answer {
    let pg = pg_that_exists(mon, call)?;
    let osd = match call.text("id")?.as_str() {
        "-1" => OsdId::NONE,
        _ => existing(mon, call)?,
    };
    mon.osds.change().new_primary_temp.insert(pg, osd);
    Ok(Reply::status(format!("set {pg} primary_temp mapping to {osd}")))
}
