//! `osd crush rule`: placement rules.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` and `src/crush/CrushWrapper.cc` (`dump_rule`).

use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::Errno;
use crush::edit::{Mode, SimpleRule};
use crush::{CrushMap, Rule, Step};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd crush rule list", "list the rules", "osd", "r", ls).deprecated(),
    spec("osd crush rule ls", "list the rules", "osd", "r", ls),
    spec(
        "osd crush rule ls-by-class name=class,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "list the rules that use a device class",
        "osd",
        "r",
        ls_by_class,
    ),
    spec(
        "osd crush rule dump name=name,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        "show one rule or all",
        "osd",
        "r",
        dump,
    ),
    spec(
        "osd crush rule create-simple name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=mode,type=CephChoices,strings=firstn|indep,req=false",
        "make a rule that spreads replicas over buckets of a type",
        "osd",
        "rw",
        create_simple,
    ),
    spec(
        "osd crush rule create-replicated name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=root,type=CephString,goodchars=[A-Za-z0-9-_.] name=type,type=CephString,goodchars=[A-Za-z0-9-_.] name=class,type=CephString,goodchars=[A-Za-z0-9-_.],req=false",
        "make a rule that spreads replicas over buckets of a type, of one device class or any",
        "osd",
        "rw",
        create_replicated,
    ),
    spec(
        "osd crush rule create-erasure name=name,type=CephString,goodchars=[A-Za-z0-9-_.] name=profile,type=CephString,goodchars=[A-Za-z0-9-_.=],req=false",
        "make a rule for an erasure-coded pool",
        "osd",
        "rw",
        create_erasure,
    ),
    spec("osd crush rule rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]", "remove a rule", "osd", "rw", remove),
    spec(
        "osd crush rule rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_.] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "rename a rule",
        "osd",
        "rw",
        rename,
    ),
];

/// A rule as programs read it.
pub(super) fn rule_value(crush: &CrushMap, id: i32, rule: &Rule) -> Value {
    object! {
        "rule_id" => id,
        "rule_name" => crush.rule_name(id).unwrap_or_default(),
        "ruleset" => rule.ruleset,
        "type" => rule.kind,
        "min_size" => rule.min_size,
        "max_size" => rule.max_size,
        "steps" => Value::array(rule.steps.iter().map(|step| step_value(crush, step))),
    }
}

fn step_value(crush: &CrushMap, step: &Step) -> Value {
    let Some(name) = step.op.name() else {
        return object! { "opcode" => step.op.0, "arg1" => step.arg1, "arg2" => step.arg2 };
    };
    let mut value = object! { "op" => name };
    match name {
        "take" => {
            value.push("item", step.arg1);
            value.push("item_name", crush.item_name(step.arg1).unwrap_or_default());
        }
        "emit" | "noop" => {}
        _ if name.starts_with("set_") => value.push("num", step.arg1),
        _ => {
            value.push("num", step.arg1);
            value.push("type", crush.type_name(step.arg2).unwrap_or_default());
        }
    }
    value
}

fn names(crush: &CrushMap) -> Vec<String> {
    crush.rules().filter_map(|(id, _)| crush.rule_name(id)).map(str::to_owned).collect()
}

fn name_list(call: &Call, names: Vec<String>) -> Reply {
    Reply::either(call, || Value::array(&names), || names.iter().map(|n| format!("{n}\n")).collect())
}

fn ls(mon: &mut Mon, call: &Call) -> Answer {
    Ok(name_list(call, names(&mon.osds.map().crush)))
}

fn ls_by_class(mon: &mut Mon, call: &Call) -> Answer {
    let class = call.text("class")?;
    let crush = &mon.osds.map().crush;
    let Some(id) = crush.class_id(&class) else {
        return refuse(Errno::ENOENT, format!("class '{class}' does not exist"));
    };
    let rules = crush.rules_of_class(id).into_iter().filter_map(|id| crush.rule_name(id)).map(str::to_owned).collect();
    Ok(name_list(call, rules))
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let crush = &mon.osds.map().crush;
    let Some(name) = call.text_opt("name")?.filter(|n| !n.is_empty()) else {
        let all = Value::array(crush.rules().map(|(id, rule)| rule_value(crush, id, rule)));
        return Ok(Reply::value(call, &all).with_line_end());
    };
    let Some((id, rule)) = crush.rule_id(&name).and_then(|id| Some((id, crush.rule(id)?))) else {
        return refuse(Errno::ENOENT, format!("unknown crush rule '{name}'"));
    };
    Ok(Reply::value(call, &rule_value(crush, id, rule)).with_line_end())
}

fn create(mon: &mut Mon, rule: &SimpleRule<'_>) -> Answer {
    let mut crush = (*mon.osds.upcoming().crush).clone();
    if let Some(id) = crush.rule_id(rule.name) {
        let replicated = crush.rule(id).is_some_and(|r| r.kind == rule.kind);
        if replicated {
            return Ok(Reply::status(format!("rule {} already exists", rule.name)));
        }
    }
    crush.add_simple_rule(rule).map_err(|e| Refused::new(e.errno(), e.to_string()))?;
    mon.osds.set_crush(&crush);
    Ok(Reply::empty())
}

fn create_simple(mon: &mut Mon, call: &Call) -> Answer {
    let (name, root, kind) = (call.text("name")?, call.text("root")?, call.text("type")?);
    let mode = if call.text_opt("mode")?.as_deref() == Some("indep") { Mode::Indep } else { Mode::Firstn };
    create(mon, &SimpleRule { mode, ..SimpleRule::replicated(&name, &root, &kind) })
}

fn create_replicated(mon: &mut Mon, call: &Call) -> Answer {
    let (name, root, kind) = (call.text("name")?, call.text("root")?, call.text("type")?);
    let class = call.text_opt("class")?.unwrap_or_default();
    create(mon, &SimpleRule { class: &class, ..SimpleRule::replicated(&name, &root, &kind) })
}

fn create_erasure(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "erasure coding is not supported")
}

fn remove(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("name")?;
    let next = mon.osds.upcoming();
    let Some(id) = next.crush.rule_id(&name) else {
        return Ok(Reply::status(format!("rule {name} does not exist")));
    };
    if next.pools.values().any(|pool| i32::from(pool.crush_rule) == id) {
        return refuse(Errno::EBUSY, format!("crush rule {name} ({id}) is in use"));
    }
    let mut crush = (*next.crush).clone();
    crush.remove_rule(id).map_err(|e| Refused::new(e.errno(), e.to_string()))?;
    mon.osds.set_crush(&crush);
    Ok(Reply::empty())
}

fn rename(mon: &mut Mon, call: &Call) -> Answer {
    let (from, to) = (call.text("srcname")?, call.text("dstname")?);
    let mut crush = (*mon.osds.upcoming().crush).clone();
    if from == to {
        return Ok(Reply::status("destination rule name is equal to source rule name"));
    }
    if crush.rule_id(&from).is_none() {
        return refuse(Errno::ENOENT, format!("source rule name '{from}' does not exist"));
    }
    crush.rename_rule(&from, &to).map_err(|e| Refused::new(e.errno(), e.to_string()))?;
    mon.osds.set_crush(&crush);
    Ok(Reply::empty())
}
