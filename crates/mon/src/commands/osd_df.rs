//! `osd df`: how full OSDs are.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc` (`OSDUtilizationDumper`).

use super::osd_tree::{Node, indented_name, item_value, strays, walk, weight_text};
use super::{Answer, Call, CommandSpec, Reply, refuse, spec};
use crate::crush_view;
use crate::format::{Align, Table, Value, quantity};
use crate::mon::Mon;
use crate::object;
use base::{Errno, OsdId};
use maps::OsdMap;
use maps::stats::OsdStat;
use std::collections::BTreeSet;

pub(super) const COMMANDS: &[CommandSpec] = &[spec(
    "osd df name=output_method,type=CephChoices,strings=plain|tree,req=false \
     name=filter_by,type=CephChoices,strings=class|name,req=false name=filter,type=CephString,req=false",
    "show how full OSDs are",
    "osd",
    "r",
    df,
)];

/// One line: an item with what it or the OSDs below it report.
struct Line {
    node: Node,
    osd: bool,
    reweight: f64,
    stat: OsdStat,
    pgs: u64,
}

impl Line {
    fn utilization(&self) -> f64 {
        if self.stat.kb > 0 { self.stat.kb_used as f64 * 100.0 / self.stat.kb as f64 } else { 0.0 }
    }
}

fn add(sum: &mut OsdStat, stat: &OsdStat) {
    sum.kb = sum.kb.saturating_add(stat.kb);
    sum.kb_used = sum.kb_used.saturating_add(stat.kb_used);
    sum.kb_used_data = sum.kb_used_data.saturating_add(stat.kb_used_data);
    sum.kb_used_omap = sum.kb_used_omap.saturating_add(stat.kb_used_omap);
    sum.kb_used_meta = sum.kb_used_meta.saturating_add(stat.kb_used_meta);
    sum.kb_avail = sum.kb_avail.saturating_add(stat.kb_avail);
}

fn lines(mon: &Mon, map: &OsdMap, roots: &[i32], wanted: &dyn Fn(OsdId) -> bool, prune: bool) -> Vec<Line> {
    let counts = super::osd::pgs_by_osd(map);
    let line = |node: Node| {
        let osd = node.id >= 0;
        let mut stat = OsdStat::default();
        let below = crush_view::osds_below(&map.crush, node.id);
        below
            .iter()
            .filter(|o| map.is_in(**o) && wanted(**o))
            .filter_map(|o| mon.stats.osd(*o))
            .for_each(|s| add(&mut stat, s));
        let id = OsdId(node.id);
        let reweight = if osd { f64::from(map.weight(id)) / 65536.0 } else { -1.0 };
        let pgs = if osd { counts.get(&id).copied().unwrap_or(0) } else { 0 };
        Line { osd, reweight, stat, pgs, node }
    };
    walk(map, roots, false, prune, wanted).into_iter().map(line).collect()
}

/// What the last lines say of all OSDs shown.
struct Summary {
    total: OsdStat,
    average: f64,
    min: f64,
    max: f64,
    deviation: f64,
}

fn summarize(lines: &[&Line]) -> Summary {
    let mut total = OsdStat::default();
    lines.iter().for_each(|line| add(&mut total, &line.stat));
    let average = if total.kb > 0 { total.kb_used as f64 * 100.0 / total.kb as f64 } else { 0.0 };
    let var = |line: &&&Line| variance(line, average);
    let counted: Vec<&&Line> = lines.iter().filter(|l| l.stat.kb > 0).collect();
    let min = counted.iter().map(var).min_by(f64::total_cmp).unwrap_or(0.0);
    let max = counted.iter().map(var).max_by(f64::total_cmp).unwrap_or(0.0);
    let squares: f64 = counted.iter().map(|l| (l.utilization() - average).powi(2)).sum();
    let deviation = if counted.is_empty() { 0.0 } else { (squares / counted.len() as f64).sqrt() };
    Summary { total, average, min, max, deviation }
}

fn variance(line: &Line, average: f64) -> f64 {
    if average > 0.0 { line.utilization() / average } else { 0.0 }
}

fn df(mon: &mut Mon, call: &Call) -> Answer {
    let map = mon.osds.map();
    let tree = call.text_opt("output_method")?.as_deref() == Some("tree");
    let (by, filter) = (call.text_opt("filter_by")?, call.text_opt("filter")?.unwrap_or_default());
    let members: Option<BTreeSet<OsdId>> = match by.as_deref() {
        None => None,
        Some("class") => {
            let Some(class) = map.crush.class_id(&filter) else {
                return refuse(Errno::EINVAL, format!("specified class '{filter}' does not exist"));
            };
            Some(map.crush.class_devices(class).map(OsdId).collect())
        }
        Some("name") => {
            let Some(id) = map.crush.item_id(&filter) else {
                return refuse(Errno::EINVAL, format!("specified name '{filter}' does not exist"));
            };
            Some(crush_view::osds_below(&map.crush, id))
        }
        Some(other) => return refuse(Errno::EINVAL, format!("unknown filter '{other}'")),
    };
    let wanted = |osd: OsdId| members.as_ref().is_none_or(|m| m.contains(&osd));
    let all = lines(mon, map, &crush_view::roots(&map.crush), &wanted, members.is_some());
    let shown: Vec<&Line> = all.iter().filter(|line| tree || line.osd).collect();
    let osds: Vec<&Line> = all.iter().filter(|line| line.osd).collect();
    let summary = summarize(&osds);
    let nodes: Vec<Node> = all.iter().map(|l| l.node.clone()).collect();
    let stray = if members.is_some() { Vec::new() } else { strays(map, &nodes) };
    let value = || {
        object! {
            "nodes" => Value::array(shown.iter().map(|l| line_value(map, l, &summary))),
            "stray" => Value::array(stray.iter().map(|osd| object! { "id" => osd.0, "name" => format!("osd.{osd}") })),
            "summary" => summary_value(&summary),
        }
    };
    Ok(Reply::either(call, value, || table(map, &shown, &summary, tree)).with_line_end_if(!call.format.is_plain()))
}

fn line_value(map: &OsdMap, line: &Line, summary: &Summary) -> Value {
    let mut value = item_value(map, &line.node);
    let s = &line.stat;
    value.extend(object! {
        "reweight" => line.reweight,
        "kb" => s.kb,
        "kb_used" => s.kb_used,
        "kb_used_data" => s.kb_used_data,
        "kb_used_omap" => s.kb_used_omap,
        "kb_used_meta" => s.kb_used_meta,
        "kb_avail" => s.kb_avail,
        "utilization" => line.utilization(),
        "var" => variance(line, summary.average),
        "pgs" => line.pgs,
    });
    if line.osd {
        value.push("status", if map.is_up(OsdId(line.node.id)) { "up" } else { "down" });
    } else {
        value.push("children", Value::array(line.node.children.iter().copied()));
    }
    value
}

fn summary_value(s: &Summary) -> Value {
    object! {
        "total_kb" => s.total.kb,
        "total_kb_used" => s.total.kb_used,
        "total_kb_used_data" => s.total.kb_used_data,
        "total_kb_used_omap" => s.total.kb_used_omap,
        "total_kb_used_meta" => s.total.kb_used_meta,
        "total_kb_avail" => s.total.kb_avail,
        "average_utilization" => s.average,
        "min_var" => s.min,
        "max_var" => s.max,
        "dev" => s.deviation,
    }
}

fn room_cells(s: &OsdStat) -> Vec<String> {
    let shown = |kb: i64| quantity::bytes(u64::try_from(kb).unwrap_or(0).saturating_mul(1024));
    [s.kb, s.kb_used, s.kb_used_data, s.kb_used_omap, s.kb_used_meta, s.kb_avail].map(shown).into()
}

fn table(map: &OsdMap, lines: &[&Line], summary: &Summary, tree: bool) -> String {
    let mut table = Table::new();
    for heading in [
        "ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE", "VAR", "PGS",
        "STATUS",
    ] {
        table.column_with(heading, Align::Left, Align::Right);
    }
    if tree {
        table.column("TYPE NAME", Align::Left);
    }
    for line in lines {
        let class = if line.osd { map.crush.item_class(line.node.id).unwrap_or_default() } else { "" };
        let reweight = if line.osd { format!("{:.5}", line.reweight) } else { "-".to_owned() };
        let mut row = vec![line.node.id.to_string(), class.to_owned(), weight_text(line.node.weight), reweight];
        row.extend(room_cells(&line.stat));
        row.push(format!("{:.2}", line.utilization()));
        row.push(format!("{:.2}", variance(line, summary.average)));
        row.push(if line.osd { line.pgs.to_string() } else { "-".to_owned() });
        row.push(match () {
            () if !line.osd => String::new(),
            () if map.is_up(OsdId(line.node.id)) => "up".to_owned(),
            () => "down".to_owned(),
        });
        if tree {
            row.push(indented_name(map, &line.node));
        }
        table.row(row);
    }
    let mut total = vec![String::new(), String::new(), String::new(), "TOTAL".to_owned()];
    total.extend(room_cells(&summary.total));
    total.push(format!("{:.2}", summary.average));
    table.row(total);
    let g = |n: f64| format!("{n:.2}");
    let deviation = if summary.deviation < 0.005 { "0".to_owned() } else { g(summary.deviation) };
    format!("{}MIN/MAX VAR: {}/{}  STDDEV: {deviation}\n", table.render(), g(summary.min), g(summary.max))
}
