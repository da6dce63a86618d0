//! `osd crush weight-set`: other weights for placing the groups of one pool, or of all that have none of their own.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_command_impl`) and `src/crush/CrushWrapper.cc`
//! (`dump_choose_args`); the editing is `crush::edit`'s.

use super::osd_crush::{edit, refused};
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::crush_view;
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::{Errno, PoolId};
use crush::choose_args::DEFAULT;
use crush::edit::parse_weight;
use crush::{ChooseArg, CrushMap};
use maps::OsdMap;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd crush weight-set ls", "list weight sets", "osd", "r", ls),
    spec("osd crush weight-set dump", "show weight sets", "osd", "r", dump),
    spec("osd crush weight-set create-compat", "make the weight set of pools without one", "osd", "rw", create_compat),
    spec(
        "osd crush weight-set create name=pool,type=CephPoolname name=mode,type=CephChoices,strings=flat|positional",
        "make a pool's weight set, with one weight for an item or one for each position",
        "osd",
        "rw",
        create,
    ),
    spec("osd crush weight-set rm name=pool,type=CephPoolname", "remove a pool's weight set", "osd", "rw", rm),
    spec("osd crush weight-set rm-compat", "remove the weight set of pools without one", "osd", "rw", rm_compat),
    spec(
        "osd crush weight-set reweight name=pool,type=CephPoolname name=item,type=CephString \
         name=weight,type=CephFloat,range=0.0,n=N",
        "set an item's weight in a pool's weight set",
        "osd",
        "rw",
        reweight,
    ),
    spec(
        "osd crush weight-set reweight-compat name=item,type=CephString name=weight,type=CephFloat,range=0.0,n=N",
        "set an item's weight in the weight set of pools without one",
        "osd",
        "rw",
        reweight_compat,
    ),
];

/// What the set of pools without one of their own is called.
const COMPAT: &str = "(compat)";

/// Each weight set by the name of its pool, the one for all others first.
pub(super) fn names(map: &OsdMap) -> Vec<(i64, String)> {
    let keys = map.crush.choose_args().keys().copied();
    keys.filter_map(|key| match key {
        DEFAULT => Some((key, COMPAT.to_owned())),
        _ => Some((key, map.pool_name(PoolId(key))?.to_owned())),
    })
    .collect()
}

/// An item's weights in a set, one for each position: none where its bucket has none there.
pub(super) fn weights(crush: &CrushMap, key: i64, item: i32) -> Option<Vec<f64>> {
    let holder = crush.buckets().find(|bucket| bucket.position(item).is_some())?;
    let position = holder.position(item)?;
    let arg = crush.choose_args().get(&key)?.arg(holder.id())?;
    Some(arg.weight_sets.iter().map(|set| crush_view::weight(set[position])).collect())
}

/// All sets, as `osd crush dump` shows them, too.
pub(super) fn sets_value(crush: &CrushMap) -> Value {
    let bucket = |(id, arg): (i32, &ChooseArg)| {
        let mut value = object! { "bucket_id" => id };
        if !arg.weight_sets.is_empty() {
            let set = |set: &Vec<u32>| Value::array(set.iter().map(|weight| crush_view::weight(*weight)));
            value.push("weight_set", Value::array(arg.weight_sets.iter().map(set)));
        }
        if !arg.ids.is_empty() {
            value.push("ids", Value::array(arg.ids.iter().copied()));
        }
        value
    };
    Value::members(
        crush.choose_args().iter().map(|(key, args)| (key.to_string(), Value::array(args.iter().map(bucket)))),
    )
}

fn ls(mon: &mut Mon, call: &Call) -> Answer {
    let names = names(mon.osds.map());
    let plain = || names.iter().map(|(_, name)| format!("{name}\n")).collect();
    Ok(Reply::either(call, || Value::array(names.iter().map(|(_, name)| name.as_str())), plain))
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &sets_value(&mon.osds.map().crush)).with_line_end_if(!call.format.is_plain()))
}

fn create_compat(mon: &mut Mon, _: &Call) -> Answer {
    match edit(mon, |crush| Ok(crush.create_weight_set(DEFAULT, 1)))? {
        true => Ok(Reply::empty()),
        false => Ok(Reply::status("compat weight-set already created")),
    }
}

/// The pool that a command names.
fn pool(mon: &mut Mon, call: &Call) -> Result<(String, PoolId), Refused> {
    let name = call.text("pool")?;
    match mon.osds.upcoming().pool_id(&name) {
        Some(id) => Ok((name, id)),
        None => refuse(Errno::ENOENT, format!("pool '{name}' not found")),
    }
}

fn create(mon: &mut Mon, call: &Call) -> Answer {
    let (name, id) = pool(mon, call)?;
    let size = mon.osds.upcoming().pool(id).map_or(1, |pool| usize::from(pool.size));
    let positions = if call.text("mode")? == "flat" { 1 } else { size };
    match edit(mon, |crush| Ok(crush.create_weight_set(id.0, positions)))? {
        true => Ok(Reply::empty()),
        false => Ok(Reply::status(format!("weight-set for pool '{name}' already created"))),
    }
}

fn rm(mon: &mut Mon, call: &Call) -> Answer {
    let (_, id) = pool(mon, call)?;
    edit(mon, |crush| Ok(crush.remove_weight_set(id.0)))?;
    Ok(Reply::empty())
}

fn rm_compat(mon: &mut Mon, _: &Call) -> Answer {
    edit(mon, |crush| Ok(crush.remove_weight_set(DEFAULT)))?;
    Ok(Reply::empty())
}

fn reweight(mon: &mut Mon, call: &Call) -> Answer {
    let (name, id) = pool(mon, call)?;
    reweight_in(mon, call, id.0, || format!("no weight-set for pool '{name}'"))
}

fn reweight_compat(mon: &mut Mon, call: &Call) -> Answer {
    reweight_in(mon, call, DEFAULT, || "no backward-compatible weight-set".to_owned())
}

fn reweight_in(mon: &mut Mon, call: &Call, key: i64, none: impl FnOnce() -> String) -> Answer {
    let item = call.text("item")?;
    let weights = call.floats("weight")?.into_iter().map(parse_weight).collect::<Result<Vec<u32>, _>>();
    let weights = weights.map_err(refused)?;
    let crush = &mon.osds.upcoming().crush;
    if crush.item_id(&item).is_none() {
        return refuse(Errno::ENOENT, format!("item '{item}' does not exist"));
    }
    match crush.weight_set_positions(key) {
        None => refuse(Errno::ENOENT, none()),
        Some(positions) if positions != weights.len() => {
            refuse(Errno::EINVAL, format!("must specify exact {positions} weight values"))
        }
        Some(_) => {
            edit(mon, |crush| crush.reweight_in_weight_set(key, &item, &weights).map(|()| true))?;
            Ok(Reply::empty())
        }
    }
}
