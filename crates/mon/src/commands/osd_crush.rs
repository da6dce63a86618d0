//! `osd crush`: the CRUSH tree, changed and shown.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc`; the editing itself is `crush::edit`'s.

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::crush_view;
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::{Errno, OsdId};
use crush::edit::{EditError, Location, parse_location, parse_weight};
use crush::{CrushMap, Profile};
use maps::OsdMap;
use wire::codec::Decode;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd crush dump", "show the CRUSH map", "osd", "r", dump),
    spec("osd crush show-tunables", "show the tunables", "osd", "r", show_tunables),
    spec(
        "osd crush get-tunable name=tunable,type=CephChoices,strings=straw_calc_version",
        "show one tunable",
        "osd",
        "r",
        get_tunable,
    ),
    spec(
        "osd crush set-tunable name=tunable,type=CephChoices,strings=straw_calc_version name=value,type=CephInt",
        "set one tunable",
        "osd",
        "rw",
        set_tunable,
    ),
    spec("osd crush tunables name=profile,type=CephChoices,strings=legacy|argonaut|bobtail|firefly|hammer|jewel|optimal|default", "set the tunables to a profile", "osd", "rw", tunables),
    spec("osd setcrushmap name=prior_version,type=CephInt,req=false", "replace the CRUSH map by the input file", "osd", "rw", setcrushmap),
    spec("osd crush set name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]", "set an OSD's weight and place", "osd", "rw", set),
    spec("osd crush set name=prior_version,type=CephInt,req=false", "replace the CRUSH map by the input file", "osd", "rw", setcrushmap),
    spec("osd crush add name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]", "add an OSD with a weight at a place, or change both", "osd", "rw", add),
    spec("osd crush create-or-move name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0 name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]", "add an OSD at a place, or move it there keeping its weight", "osd", "rw", create_or_move),
    spec("osd crush add-bucket name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=],req=false", "add a bucket", "osd", "rw", add_bucket),
    spec("osd crush rename-bucket name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]", "rename a bucket", "osd", "rw", rename_bucket),
    spec("osd crush swap-bucket name=source,type=CephString,goodchars=[A-Za-z0-9-_.] name=dest,type=CephString,goodchars=[A-Za-z0-9-_.] name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false", "exchange what two buckets contain", "osd", "rw", swap_bucket),
    spec("osd crush set-all-straw-buckets-to-straw2", "make all straw buckets straw2 ones", "osd", "rw", straw_to_straw2),
    spec("osd crush move name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]", "move an item to a place", "osd", "rw", move_),
    spec("osd crush link name=name,type=CephString name=args,type=CephString,n=N,goodchars=[A-Za-z0-9-_.=]", "put a bucket at one more place", "osd", "rw", link),
    spec("osd crush unlink name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]", "take a bucket away from a place", "osd", "rw", unlink),
    spec("osd crush rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]", "remove an item", "osd", "rw", remove),
    spec("osd crush remove name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=ancestor,type=CephString,req=false,goodchars=[A-Za-z0-9-_.]", "remove an item", "osd", "rw", remove).deprecated(),
    spec("osd crush reweight name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0", "set an item's weight", "osd", "rw", reweight),
    spec("osd crush reweight-subtree name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=weight,type=CephFloat,range=0.0", "set the weight of all OSDs below a bucket", "osd", "rw", reweight_subtree),
    spec("osd crush reweight-all", "make all buckets weigh what is in them", "osd", "rw", reweight_all),
    spec("osd crush ls name=node,type=CephString,goodchars=[A-Za-z0-9-_.]", "list what is in a bucket", "osd", "r", ls),
];

pub(super) fn refused(error: EditError) -> Refused {
    Refused::new(error.errno(), error.to_string())
}

/// Edits the next epoch's CRUSH map; keeps it only if the edit says that something changed.
pub(super) fn edit(
    mon: &mut Mon,
    change: impl FnOnce(&mut CrushMap) -> Result<bool, EditError>,
) -> Result<bool, Refused> {
    let mut crush = (*mon.osds.upcoming().crush).clone();
    let changed = change(&mut crush).map_err(refused)?;
    if changed {
        mon.osds.set_crush(&crush);
    }
    Ok(changed)
}

fn location(call: &Call) -> Result<Location, Refused> {
    let args = call.list("args")?;
    parse_location(args.iter().map(String::as_str)).map_err(refused)
}

/// A place as Ceph prints it: `{host=a,root=default}`.
fn shown(location: &Location) -> String {
    let parts: Vec<String> = location.iter().map(|(kind, name)| format!("{kind}={name}")).collect();
    format!("{{{}}}", parts.join(","))
}

fn weight(call: &Call) -> Result<(u32, String), Refused> {
    let weight = call.float("weight")?;
    Ok((parse_weight(weight).map_err(refused)?, crate::format::value::percent_g(weight, 6)))
}

fn osd(mon: &mut Mon, call: &Call) -> Result<OsdId, Refused> {
    let osd = call.osd("id")?;
    if !mon.osds.upcoming().exists(osd) {
        return refuse(Errno::ENOENT, format!("osd.{osd} does not exist. Create it before updating the crush map"));
    }
    Ok(osd)
}

/// The rules, devices, buckets and tunables as programs read them.
fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    Ok(Reply::value(call, &dump_value(map)).with_line_end_if(!call.format.is_plain()))
}

/// The whole CRUSH map (v16.2 `CrushWrapper::dump`).
pub(super) fn dump_value(map: &OsdMap) -> Value {
    let crush = &map.crush;
    let devices = (0..crush.max_devices()).map(|id| {
        let mut device =
            object! { "id" => id, "name" => crush.item_name(id).map_or_else(|| format!("device{id}"), str::to_owned) };
        if let Some(class) = crush.item_class(id) {
            device.push("class", class);
        }
        device
    });
    let types = crush.type_names().iter().map(|(id, name)| object! { "type_id" => *id, "name" => name });
    let mut buckets: Vec<_> = crush.buckets().collect();
    buckets.sort_by_key(|b| core::cmp::Reverse(b.id()));
    let buckets = buckets.into_iter().map(|b| {
        let items =
            b.weighted_items().enumerate().map(|(pos, (id, w))| object! { "id" => id, "weight" => w, "pos" => pos });
        object! {
            "id" => b.id(),
            "name" => crush.item_name(b.id()).unwrap_or_default(),
            "type_id" => b.kind(),
            "type_name" => crush.type_name(i32::from(b.kind())).unwrap_or_default(),
            "weight" => b.weight(),
            "alg" => b.algorithm().name(),
            "hash" => "rjenkins1",
            "items" => Value::array(items),
        }
    });
    object! {
        "devices" => Value::array(devices),
        "types" => Value::array(types),
        "buckets" => Value::array(buckets),
        "rules" => Value::array(crush.rules().map(|(id, rule)| super::osd_crush_rules::rule_value(crush, id, rule))),
        "tunables" => tunables_value(crush),
        "choose_args" => super::osd_crush_weight_set::sets_value(crush),
    }
}

fn tunables_value(crush: &CrushMap) -> Value {
    let t = crush.tunables();
    let straw2 = crush.buckets().any(|b| b.algorithm().name() == "straw2");
    object! {
        "choose_local_tries" => t.choose_local_tries,
        "choose_local_fallback_tries" => t.choose_local_fallback_tries,
        "choose_total_tries" => t.choose_total_tries,
        "chooseleaf_descend_once" => t.chooseleaf_descend_once,
        "chooseleaf_vary_r" => t.chooseleaf_vary_r,
        "chooseleaf_stable" => t.chooseleaf_stable,
        "straw_calc_version" => t.straw_calc_version,
        "allowed_bucket_algs" => t.allowed_bucket_algs,
        "profile" => t.profile().map_or("unknown", Profile::name),
        "optimal_tunables" => i32::from(t.is_optimal()),
        "legacy_tunables" => i32::from(t.profile() == Some(Profile::Argonaut)),
        "minimum_required_version" => minimum_version(crush),
        "require_feature_tunables" => i32::from(t.choose_local_tries != 2 || t.choose_total_tries != 19),
        "require_feature_tunables2" => i32::from(t.chooseleaf_descend_once != 0),
        "has_v2_rules" => 0,
        "require_feature_tunables3" => i32::from(t.chooseleaf_vary_r != 0),
        "has_v3_rules" => 0,
        "has_v4_buckets" => i32::from(straw2),
        "require_feature_tunables5" => i32::from(t.chooseleaf_stable != 0),
        "has_v5_rules" => 0,
    }
}

/// The oldest release whose clients can place by this map.
fn minimum_version(crush: &CrushMap) -> &'static str {
    let t = crush.tunables();
    match () {
        () if t.chooseleaf_stable != 0 => "jewel",
        () if crush.buckets().any(|b| b.algorithm().name() == "straw2") => "hammer",
        () if t.chooseleaf_vary_r != 0 => "firefly",
        () if t.chooseleaf_descend_once != 0 => "bobtail",
        () => "argonaut",
    }
}

fn show_tunables(mon: &mut Mon, call: &Call) -> Answer {
    let value = tunables_value(&mon.osds.map().crush);
    Ok(Reply::value(call, &value).with_line_end_if(!call.format.is_plain()))
}

fn tunables(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("profile")?;
    let profile = match name.as_str() {
        "legacy" => Some(Profile::Argonaut),
        "optimal" | "default" => Profile::parse("jewel"),
        other => Profile::parse(other),
    };
    let Some(profile) = profile else {
        return refuse(Errno::EINVAL, format!("unrecognized profile '{name}'"));
    };
    edit(mon, |crush| {
        crush.set_tunables(profile.tunables());
        Ok(true)
    })?;
    Ok(Reply::status(format!("adjusted tunables profile to {name}")))
}

/// The one tunable that is set by itself; the others come in profiles.
const STRAW_CALC_VERSION: &str = "straw_calc_version";

fn get_tunable(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("tunable")?;
    if name != STRAW_CALC_VERSION {
        return refuse(Errno::EINVAL, format!("'{name}' is no tunable that stands alone"));
    }
    let value = mon.osds.map().crush.tunables().straw_calc_version;
    let shown = || Value::members([(STRAW_CALC_VERSION, i64::from(value))]);
    Ok(Reply::either(call, shown, || format!("{value}\n")))
}

fn set_tunable(mon: &mut Mon, call: &Call) -> Answer {
    let (name, value) = (call.text("tunable")?, call.int("value")?);
    let Some(version) = u8::try_from(value).ok().filter(|version| name == STRAW_CALC_VERSION && *version < 2) else {
        return refuse(Errno::EINVAL, "value must be 0 or 1; got ".to_owned() + &value.to_string());
    };
    edit(mon, |crush| {
        let mut tunables = *crush.tunables();
        tunables.straw_calc_version = version;
        crush.set_tunables(tunables);
        Ok(true)
    })?;
    Ok(Reply::status(format!("adjusted tunable {name} to {value}")))
}

fn setcrushmap(mon: &mut Mon, call: &Call) -> Answer {
    if call.input.is_empty() {
        return refuse(Errno::EINVAL, "Error: no input; pass the compiled map with -i <file>");
    }
    let version = i64::from(mon.osds.upcoming().crush_version);
    if let Some(prior) = call.int_opt("prior_version")?
        && prior != version
    {
        return refuse(Errno::EPERM, format!("prior_version {prior} != crush version {version}"));
    }
    let crush = CrushMap::from_bytes(&call.input)
        .map_err(|e| Refused::new(Errno::EINVAL, format!("Failed to parse crushmap: {e}")))?;
    let missing = mon.osds.upcoming().pools.values().find(|p| crush.rule(i32::from(p.crush_rule)).is_none());
    if let Some(pool) = missing {
        return refuse(Errno::EINVAL, format!("pools use rule {}, which the new map does not have", pool.crush_rule));
    }
    mon.osds.set_crush(&crush);
    Ok(Reply::status((version + 1).to_string()))
}

fn place(mon: &mut Mon, call: &Call, verb: &str) -> Answer {
    let (osd, (weight, weight_text), place) = (osd(mon, call)?, weight(call)?, location(call)?);
    let name = format!("osd.{osd}");
    if verb == "set" && !mon.osds.upcoming().crush.item_exists(osd.0) {
        return refuse(
            Errno::ENOENT,
            format!(
                "unable to set item id {osd} name '{name}' weight {weight_text} at location {}: does not exist",
                shown(&place)
            ),
        );
    }
    let changed = edit(mon, |crush| crush.update_item(osd.0, weight, &name, &place))?;
    let place = shown(&place);
    Ok(Reply::status(match (verb, changed) {
        ("add", true) => {
            format!("add item id {osd} name '{name}' weight {weight_text} at location {place} to crush map")
        }
        ("set", true) => {
            format!("set item id {osd} name '{name}' weight {weight_text} at location {place} to crush map")
        }
        _ => format!("{verb} item id {osd} name '{name}' weight {weight_text} at location {place}: no change"),
    }))
}

fn set(mon: &mut Mon, call: &Call) -> Answer {
    place(mon, call, "set")
}

fn add(mon: &mut Mon, call: &Call) -> Answer {
    place(mon, call, "add")
}

fn create_or_move(mon: &mut Mon, call: &Call) -> Answer {
    let (osd, (weight, weight_text), place) = (osd(mon, call)?, weight(call)?, location(call)?);
    let name = format!("osd.{osd}");
    edit(mon, |crush| crush.create_or_move_item(osd.0, weight, &name, &place))?;
    let place = shown(&place);
    Ok(Reply::status(format!(
        "create-or-move updating item name '{name}' weight {weight_text} at location {place} to crush map"
    )))
}

fn add_bucket(mon: &mut Mon, call: &Call) -> Answer {
    let (name, kind, place) = (call.text("name")?, call.text("type")?, location(call)?);
    if mon.osds.upcoming().crush.item_id(&name).is_some() {
        return Ok(Reply::status(format!("bucket '{name}' already exists")));
    }
    edit(mon, |crush| {
        crush.add_named_bucket(&name, &kind)?;
        if !place.is_empty() {
            crush.move_item(&name, &place)?;
        }
        Ok(true)
    })?;
    let at = if place.is_empty() { String::new() } else { format!(" to location {}", shown(&place)) };
    Ok(Reply::status(format!("added bucket {name} type {kind}{at} to crush map").replace("to location", "at location")))
}

fn rename_bucket(mon: &mut Mon, call: &Call) -> Answer {
    let (from, to) = (call.text("srcname")?, call.text("dstname")?);
    let crush = &mon.osds.upcoming().crush;
    if crush.item_id(&from).is_none() {
        return refuse(Errno::ENOENT, format!("srcname = '{from}' does not exist"));
    }
    if crush.item_id(&to).is_some() {
        return refuse(Errno::EEXIST, format!("dstname = '{to}' already exists"));
    }
    edit(mon, |crush| crush.rename_bucket(&from, &to).map(|()| true))?;
    Ok(Reply::status(format!("renamed bucket {from} into {to}")))
}

fn swap_bucket(mon: &mut Mon, call: &Call) -> Answer {
    let (source, dest) = (call.text("source")?, call.text("dest")?);
    let force = call.flag("force") || call.flag("yes_i_really_mean_it");
    let crush = &mon.osds.upcoming().crush;
    let there = |what: &str, name: &str| {
        let none = || Refused::new(Errno::ENOENT, format!("{what} item {name} does not exist"));
        crush.item_id(name).ok_or_else(none)
    };
    let (from, to) = (there("source", &source)?, there("dest", &dest)?);
    if !force && crush_view::parent(crush, from).is_some() {
        return refuse(
            Errno::EPERM,
            format!("source item {source} is not an orphan bucket; pass --yes-i-really-mean-it to proceed anyway"),
        );
    }
    let algorithm = |id| crush.bucket(id).map_or("none", |bucket| bucket.algorithm().name());
    if !force && algorithm(from) != algorithm(to) {
        let (source, dest) = (algorithm(from), algorithm(to));
        return refuse(
            Errno::EPERM,
            format!(
                "source bucket alg {source} != dest bucket alg {dest}; pass --yes-i-really-mean-it to proceed anyway"
            ),
        );
    }
    edit(mon, |crush| crush.swap_buckets(&source, &dest).map(|()| true))?;
    Ok(Reply::status(format!("swapped bucket of {source} to {dest}")))
}

fn straw_to_straw2(mon: &mut Mon, _: &Call) -> Answer {
    edit(mon, |crush| crush.straw_to_straw2().map(|count| count > 0))?;
    Ok(Reply::empty())
}

fn named(mon: &mut Mon, name: &str) -> Result<i32, Refused> {
    let id = mon.osds.upcoming().crush.item_id(name);
    id.ok_or_else(|| Refused::new(Errno::ENOENT, format!("item {name} does not exist")))
}

fn move_(mon: &mut Mon, call: &Call) -> Answer {
    let (name, place) = (call.text("name")?, location(call)?);
    let id = named(mon, &name)?;
    let changed = edit(mon, |crush| crush.move_item(&name, &place))?;
    let place = shown(&place);
    Ok(Reply::status(if changed {
        format!("moved item id {id} name '{name}' to location {place} in crush map")
    } else {
        format!("no need to move item id {id} name '{name}' to location {place} in crush map")
    }))
}

fn link(mon: &mut Mon, call: &Call) -> Answer {
    let (name, place) = (call.text("name")?, location(call)?);
    let id = named(mon, &name)?;
    edit(mon, |crush| crush.link_bucket(&name, &place).map(|()| true))?;
    Ok(Reply::status(format!("linked item id {id} name '{name}' to location {} in crush map", shown(&place))))
}

fn take_away(mon: &mut Mon, call: &Call, unlink: bool) -> Answer {
    let name = call.text("name")?;
    let Some(id) = mon.osds.upcoming().crush.item_id(&name) else {
        return Ok(Reply::status(format!("device '{name}' does not appear in the crush map")));
    };
    let ancestor = call.text_opt("ancestor")?;
    edit(mon, |crush| match &ancestor {
        Some(ancestor) => crush.remove_item_under(&name, ancestor, unlink).map(|()| true),
        None => crush.remove_item(&name, unlink).map(|()| true),
    })?;
    Ok(Reply::status(format!("removed item id {id} name '{name}' from crush map")))
}

fn unlink(mon: &mut Mon, call: &Call) -> Answer {
    take_away(mon, call, true)
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    take_away(mon, call, false)
}

fn reweight(mon: &mut Mon, call: &Call) -> Answer {
    let (name, (weight, text)) = (call.text("name")?, weight(call)?);
    let id = named(mon, &name)
        .map_err(|_| Refused::new(Errno::ENOENT, format!("device '{name}' does not appear in the crush map")))?;
    if id < 0 {
        return refuse(Errno::EINVAL, format!("device '{name}' is not a leaf in the crush map"));
    }
    edit(mon, |crush| crush.reweight_item(&name, weight).map(|()| true))?;
    Ok(Reply::status(format!("reweighted item id {id} name '{name}' to {text} in crush map")))
}

fn reweight_subtree(mon: &mut Mon, call: &Call) -> Answer {
    let (name, (weight, text)) = (call.text("name")?, weight(call)?);
    let id = named(mon, &name)?;
    edit(mon, |crush| crush.reweight_subtree(&name, weight).map(|changed| changed > 0))?;
    Ok(Reply::status(format!("reweighted subtree id {id} name '{name}' to {text} in crush map")))
}

fn reweight_all(mon: &mut Mon, _: &Call) -> Answer {
    edit(mon, |crush| crush.reweight_all().map(|()| true))?;
    Ok(Reply::status("reweighted crush hierarchy"))
}

fn ls(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("node")?;
    let crush = &mon.osds.map().crush;
    let Some(id) = crush.item_id(&name) else { return refuse(Errno::ENOENT, format!("node '{name}' does not exist")) };
    let items = crush.bucket(id).map_or(&[] as &[i32], |b| b.items());
    let names: Vec<String> =
        items.iter().map(|i| crush.item_name(*i).map_or_else(|| format!("osd.{i}"), str::to_owned)).collect();
    Ok(Reply::either(call, || Value::array(&names), || names.iter().map(|n| format!("{n}\n")).collect()))
}
