//! `osd tree` and `osd crush tree`: the CRUSH tree with its OSDs.
//!
//! Owns the order in which the tree is walked, which `osd df` follows too: roots by id, buckets by name, OSDs by class
//! and number (v16.2 `src/crush/CrushTreeDumper.h`). Follows `src/osd/OSDMap.cc` (`print_tree`).

use super::osd::map_of;
use super::osd_crush_weight_set;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::crush_view;
use crate::format::{Align, Table, Value};
use crate::mon::Mon;
use crate::object;
use base::{Errno, OsdId};
use maps::OsdMap;
use maps::OsdState;
use std::collections::BTreeSet;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "osd tree name=epoch,type=CephInt,range=0,req=false \
         name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        "show the OSDs in the CRUSH tree",
        "osd",
        "r",
        tree,
    ),
    spec(
        "osd tree-from name=epoch,type=CephInt,range=0,req=false name=bucket,type=CephString \
         name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        "show the OSDs in a part of the CRUSH tree",
        "osd",
        "r",
        tree_from,
    ),
    spec(
        "osd ls-tree name=epoch,type=CephInt,range=0,req=false name=name,type=CephString,req=true",
        "list the OSDs below a bucket",
        "osd",
        "r",
        ls_tree,
    ),
    spec(
        "osd crush tree name=shadow,type=CephChoices,strings=--show-shadow,req=false",
        "show the CRUSH tree",
        "osd",
        "r",
        crush_tree,
    ),
    spec(
        "node ls name=type,type=CephChoices,strings=all|osd|mon|mds|mgr,req=false",
        "list daemons by host",
        "mon",
        "r",
        node_ls,
    ),
];

/// One line of the tree.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    /// The item.
    pub id: i32,
    /// How far below its root.
    pub depth: usize,
    /// Its weight in the bucket above.
    pub weight: f64,
    /// The items below, in the order of Ceph's JSON: the reverse of the lines'.
    pub children: Vec<i32>,
}

/// The whole tree in the order of lines. `wanted` says which OSDs count; buckets without any of them are left out if
/// `prune`.
pub(super) fn walk(
    map: &OsdMap,
    roots: &[i32],
    shadow: bool,
    prune: bool,
    wanted: &dyn Fn(OsdId) -> bool,
) -> Vec<Node> {
    let mut nodes = Vec::new();
    let shown = |id: i32| match id {
        0.. => wanted(OsdId(id)),
        _ => !prune || crush_view::osds_below(&map.crush, id).into_iter().any(wanted),
    };
    let mut stack: Vec<(i32, usize, u32)> = Vec::new();
    let mut roots: Vec<i32> = roots.to_vec();
    roots.sort_unstable_by_key(|id| core::cmp::Reverse(*id));
    for root in roots.into_iter().filter(|r| shadow || !map.crush.is_shadow(*r)) {
        let weight = map.crush.bucket(root).map_or(0, |b| b.weight());
        stack.push((root, 0, weight));
    }
    let mut seen = BTreeSet::new();
    while let Some((id, depth, weight)) = stack.pop() {
        if !shown(id) || !seen.insert((id, depth)) || nodes.len() > limit(map) {
            continue;
        }
        let mut below: Vec<(String, i32, u32)> = map.crush.bucket(id).map_or(Vec::new(), |bucket| {
            bucket
                .weighted_items()
                .filter(|(item, _)| shown(*item))
                .map(|(item, w)| (sort_key(map, item), item, w))
                .collect()
        });
        below.sort_unstable();
        below.reverse();
        stack.extend(below.iter().map(|(_, item, w)| (*item, depth + 1, *w)));
        let children = below.iter().map(|(_, item, _)| *item).collect();
        nodes.push(Node { id, depth, weight: crush_view::weight(weight), children });
    }
    nodes
}

fn limit(map: &OsdMap) -> usize {
    (map.crush.max_buckets() + map.max_osd().max(0) as usize) * 4
}

fn sort_key(map: &OsdMap, item: i32) -> String {
    match item {
        0.. => format!("{}_osd.{item:08}", map.crush.item_class(item).unwrap_or_default()),
        _ => format!("_{}", map.crush.item_name(item).unwrap_or_default()),
    }
}

/// OSDs that exist but are nowhere in the tree.
pub(super) fn strays(map: &OsdMap, nodes: &[Node]) -> Vec<OsdId> {
    let placed: BTreeSet<i32> = nodes.iter().map(|n| n.id).collect();
    map.osd_ids().filter(|osd| !placed.contains(&osd.0)).collect()
}

/// A name as the tree shows it.
pub(super) fn name(map: &OsdMap, id: i32) -> String {
    match map.crush.item_name(id) {
        Some(name) => name.to_owned(),
        None if id >= 0 => format!("osd.{id}"),
        None => format!("bucket{id}"),
    }
}

/// The name of an item's type.
pub(super) fn type_of(map: &OsdMap, id: i32) -> (i32, String) {
    let kind = map.crush.bucket(id).map_or(0, |b| i32::from(b.kind()));
    (kind, map.crush.type_name(kind).unwrap_or_default().to_owned())
}

/// The members that every dump of the tree begins a node with (`dump_item_fields`).
pub(super) fn item_value(map: &OsdMap, node: &Node) -> Value {
    let (kind, kind_name) = type_of(map, node.id);
    let mut value = object! { "id" => node.id };
    if node.id >= 0
        && let Some(class) = map.crush.item_class(node.id)
    {
        value.push("device_class", class);
    }
    value.push("name", name(map, node.id));
    value.push("type", kind_name);
    value.push("type_id", kind);
    if node.id >= 0 {
        value.push("crush_weight", node.weight);
        value.push("depth", node.depth);
    }
    if crush_view::parent(&map.crush, node.id).is_some() {
        let sets = osd_crush_weight_set::names(map).into_iter();
        let weights = |(key, name)| {
            let weights = osd_crush_weight_set::weights(&map.crush, key, node.id)?;
            Some((name, Value::array(weights)))
        };
        value.push("pool_weights", Value::members(sets.filter_map(weights)));
    }
    value
}

/// A weight as tables show it (`weightf_t`).
pub(super) fn weight_text(weight: f64) -> String {
    match weight {
        w if w < -0.01 => "-".to_owned(),
        w if w < 0.000_001 => "0".to_owned(),
        w => format!("{w:.5}"),
    }
}

fn status(map: &OsdMap, osd: OsdId) -> &'static str {
    match () {
        () if !map.exists(osd) => "DNE",
        () if map.is_up(osd) => "up",
        () if map.state(osd).contains(OsdState::DESTROYED) => "destroyed",
        () => "down",
    }
}

fn fixed(value: u32) -> f64 {
    f64::from(value) / 65536.0
}

fn node_value(map: &OsdMap, node: &Node) -> Value {
    let mut value = item_value(map, node);
    if node.id >= 0 {
        let osd = OsdId(node.id);
        value.push("exists", i32::from(map.exists(osd)));
        value.push("status", status(map, osd));
        value.push("reweight", fixed(map.weight(osd)));
        value.push("primary_affinity", fixed(map.primary_affinity(osd)));
    } else {
        value.push("children", Value::array(node.children.iter().copied()));
    }
    value
}

fn render(map: &OsdMap, nodes: &[Node], strays: Option<&[OsdId]>, call: &Call) -> Reply {
    let stray_nodes: Vec<Node> = strays
        .unwrap_or_default()
        .iter()
        .map(|osd| Node { id: osd.0, depth: 0, weight: 0.0, children: Vec::new() })
        .collect();
    let value = || {
        let mut value = object! { "nodes" => Value::array(nodes.iter().map(|n| node_value(map, n))) };
        if strays.is_some() {
            value.push("stray", Value::array(stray_nodes.iter().map(|n| node_value(map, n))));
        }
        value
    };
    let plain = || {
        let mut table = Table::new();
        table.column_with("ID", Align::Left, Align::Right);
        table.column_with("CLASS", Align::Left, Align::Right);
        table.column_with("WEIGHT", Align::Left, Align::Right);
        table.column("TYPE NAME", Align::Left);
        for heading in ["STATUS", "REWEIGHT", "PRI-AFF"] {
            table.column_with(heading, Align::Left, Align::Right);
        }
        for node in nodes.iter().chain(&stray_nodes) {
            let mut row = tree_cells(map, node);
            if node.id >= 0 {
                let osd = OsdId(node.id);
                row.push(status(map, osd).to_owned());
                let shown = |w: f64| if map.exists(osd) { weight_text(w) } else { "0".to_owned() };
                row.push(shown(fixed(map.weight(osd))));
                row.push(shown(fixed(map.primary_affinity(osd))));
            }
            table.row(row);
        }
        table.render()
    };
    Reply::either(call, value, plain).with_line_end_if(!call.format.is_plain())
}

/// Id, class, weight and indented name.
fn tree_cells(map: &OsdMap, node: &Node) -> Vec<String> {
    let class = if node.id >= 0 { map.crush.item_class(node.id).unwrap_or_default() } else { "" };
    vec![node.id.to_string(), class.to_owned(), weight_text(node.weight), indented_name(map, node)]
}

/// The cell TYPE NAME.
pub(super) fn indented_name(map: &OsdMap, node: &Node) -> String {
    let indent = "    ".repeat(node.depth);
    let name = name(map, node.id);
    if node.id >= 0 { format!("{indent}{name}") } else { format!("{indent}{} {name}", type_of(map, node.id).1) }
}

/// Which OSDs `states` asks for; `None` for all.
fn filter(call: &Call) -> Result<impl Fn(&OsdMap, OsdId) -> bool + use<>, Refused> {
    let states = call.list("states")?;
    if states.iter().any(|s| s == "up") && states.iter().any(|s| s == "down") {
        return refuse(Errno::EINVAL, "cannot specify both 'up' and 'down'");
    }
    if states.iter().any(|s| s == "in") && states.iter().any(|s| s == "out") {
        return refuse(Errno::EINVAL, "cannot specify both 'in' and 'out'");
    }
    Ok(move |map: &OsdMap, osd: OsdId| {
        states.iter().all(|state| match state.as_str() {
            "up" => map.is_up(osd),
            "down" => map.is_down(osd),
            "in" => map.is_in(osd),
            "out" => map.is_out(osd),
            "destroyed" => map.state(osd).contains(OsdState::DESTROYED),
            _ => false,
        })
    })
}

fn tree(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    let (wanted, prune) = (filter(call)?, call.has("states"));
    let nodes = walk(&map, &crush_view::roots(&map.crush), false, prune, &|osd| wanted(&map, osd));
    let all = walk(&map, &crush_view::roots(&map.crush), false, false, &|_| true);
    let strays: Vec<OsdId> = strays(&map, &all).into_iter().filter(|osd| wanted(&map, *osd)).collect();
    Ok(render(&map, &nodes, Some(&strays), call))
}

fn tree_from(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    let bucket = call.text("bucket")?;
    let Some(id) = map.crush.item_id(&bucket).filter(|id| *id < 0) else {
        return refuse(Errno::ENOENT, format!("bucket '{bucket}' does not exist"));
    };
    let (wanted, prune) = (filter(call)?, call.has("states"));
    let nodes = walk(&map, &[id], true, prune, &|osd| wanted(&map, osd));
    Ok(render(&map, &nodes, None, call))
}

fn ls_tree(mon: &mut Mon, call: &Call) -> Answer {
    let map = map_of(mon, call)?;
    let name = call.text("name")?;
    let Some(id) = map.crush.item_id(&name) else {
        return refuse(Errno::ENOENT, format!("\"{name}\" does not exist"));
    };
    let osds = crush_view::osds_below(&map.crush, id);
    let plain = || osds.iter().map(|osd| format!("{osd}\n")).collect();
    Ok(Reply::either(call, || Value::array(osds.iter().map(|o| o.0)), plain))
}

fn crush_tree(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let shadow = call.has("shadow");
    let mut roots = crush_view::roots(&map.crush);
    if shadow {
        let above = |id: i32| map.crush.buckets().any(|b| b.position(id).is_some());
        roots.extend(map.crush.buckets().map(|b| b.id()).filter(|id| map.crush.is_shadow(*id) && !above(*id)));
    }
    let nodes = walk(map, &roots, shadow, false, &|_| true);
    let value = || {
        let members = nodes.iter().map(|node| {
            let mut value = item_value(map, node);
            if node.id < 0 {
                value.push("children", Value::array(node.children.iter().copied()));
            }
            value
        });
        object! { "nodes" => Value::array(members), "stray" => Value::Array(vec![]) }
    };
    let plain = || {
        let mut table = Table::new();
        table.column_with("ID", Align::Left, Align::Right);
        table.column_with("CLASS", Align::Left, Align::Right);
        table.column_with("WEIGHT", Align::Left, Align::Right);
        let sets = osd_crush_weight_set::names(map);
        sets.iter().for_each(|(_, name)| table.column_with(name, Align::Left, Align::Right));
        table.column("TYPE NAME", Align::Left);
        for node in &nodes {
            let first = |key: i64| osd_crush_weight_set::weights(&map.crush, key, node.id)?.first().copied();
            let mut row = tree_cells(map, node);
            row.splice(3..3, sets.iter().map(|(key, _)| first(*key).map_or_else(String::new, weight_text)));
            table.row(row);
        }
        table.render()
    };
    Ok(Reply::either(call, value, plain))
}

fn node_ls(mon: &mut Mon, call: &Call) -> Answer {
    let kind = call.text_opt("type")?.unwrap_or_else(|| "all".to_owned());
    let mon_host = mon.config.hostname.clone();
    let mons = Value::members([(mon_host, Value::array([mon.config.name.as_str()]))]);
    let mut hosts: std::collections::BTreeMap<String, Vec<i32>> = std::collections::BTreeMap::new();
    for osd in mon.osds.map().osd_ids() {
        if let Some(host) = mon.osds.metadata(osd).and_then(|m| m.get("hostname")) {
            hosts.entry(host.clone()).or_default().push(osd.0);
        }
    }
    let osds = Value::members(hosts);
    // The manager is the monitor's process.
    let mgrs = mons.clone();
    let value = match kind.as_str() {
        "all" => object! { "mon" => mons, "osd" => osds, "mgr" => mgrs },
        "mon" | "mgr" => mons,
        "osd" => osds,
        _ => Value::object(),
    };
    Ok(Reply::value(call, &value).with_line_end_if(!call.format.is_plain()))
}
