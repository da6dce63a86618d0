//! How evenly placement groups and bytes lie on OSDs, and the override weights that make them lie more evenly:
//! `osd utilization`, `osd reweight-by-utilization`, `osd reweight-by-pg` and their dry runs.
//!
//! Follows Ceph v16.2 `src/osd/OSDMap.cc` (`summarize_mapping_stats`) and `src/mon/PGMap.cc`
//! (`reweight::by_utilization`); the fractions are floats of 32 bits, as Ceph's are.

use super::osd_pool::pool_named;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::crush_view;
use crate::format::Value;
use crate::format::value::percent_g;
use crate::mon::Mon;
use crate::object;
use crate::services::osd_map::IN;
use base::{Errno, OsdId, PoolId};
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd utilization", "show how evenly placement groups are spread", "osd", "r", utilization),
    spec(
        "osd reweight-by-utilization name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false \
         name=no_increasing,type=CephChoices,strings=--no-increasing,req=false",
        "lower the weights of OSDs that are fuller than a percentage of the average [120]",
        "osd",
        "rw",
        by_utilization,
    ),
    spec(
        "osd test-reweight-by-utilization name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false \
         name=no_increasing,type=CephChoices,strings=--no-increasing,req=false",
        "show what reweight-by-utilization would do",
        "osd",
        "r",
        by_utilization,
    ),
    spec(
        "osd reweight-by-pg name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false",
        "lower the weights of OSDs with more placement groups than a percentage of the average [120]",
        "osd",
        "rw",
        by_pg,
    ),
    spec(
        "osd test-reweight-by-pg name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false",
        "show what reweight-by-pg would do",
        "osd",
        "r",
        by_pg,
    ),
];

/// How many placement groups the OSDs that are up and in have, now and under other weights.
struct Spread {
    now: BTreeMap<OsdId, u32>,
    then: Option<BTreeMap<OsdId, u32>>,
    total: u32,
    moved: u32,
}

impl Spread {
    /// The groups of some pools, or of all if none are given.
    fn of(map: &OsdMap, other: Option<&OsdMap>, pools: &BTreeSet<PoolId>) -> Spread {
        let none = || map.osd_ids().filter(|osd| map.is_up(*osd) && map.is_in(*osd)).map(|osd| (osd, 0)).collect();
        let mut spread = Spread { now: none(), then: other.map(|_| none()), total: 0, moved: 0 };
        let count = |counts: &mut BTreeMap<OsdId, u32>, osds: &[OsdId]| {
            osds.iter().for_each(|osd| {
                counts.entry(*osd).and_modify(|count| *count += 1);
            });
        };
        let counted = |pool: PoolId| pools.is_empty() || pools.contains(&pool);
        for pg in crate::services::stats::all_pgs(map).filter(|pg| counted(pg.pool)) {
            let (up, _) = map.pg_to_up(pg);
            spread.total += up.len() as u32;
            count(&mut spread.now, &up);
            if let (Some(other), Some(then)) = (other, &mut spread.then) {
                let (up_then, _) = other.pg_to_up(pg);
                spread.moved += up_then.iter().filter(|osd| !up.contains(osd)).count() as u32;
                count(then, &up_then);
            }
        }
        spread
    }

    fn mean(&self) -> f32 {
        if self.now.is_empty() { 0.0 } else { self.total as f32 / self.now.len() as f32 }
    }

    fn deviation(&self, counts: &BTreeMap<OsdId, u32>) -> f32 {
        let squares: f32 = self.now.keys().map(|osd| (counts[osd] as f32 - self.mean()).powi(2)).sum();
        (squares / self.now.len().max(1) as f32).sqrt()
    }

    /// What throwing the groups at random would give (a binomial distribution's).
    fn expected(&self) -> f32 {
        (f64::from(self.mean()) * (1.0 - 1.0 / self.now.len().max(1) as f64)).sqrt() as f32
    }

    /// The OSD with the fewest groups and the one with the most, the first of equals.
    fn extremes(&self) -> [(&'static str, OsdId); 2] {
        let min = self.now.iter().min_by_key(|(_, count)| **count);
        let max = self.now.iter().max_by_key(|(osd, count)| (**count, -osd.0));
        [("min", min), ("max", max)].map(|(name, found)| (name, found.map_or(OsdId::NONE, |(osd, _)| *osd)))
    }

    fn value(&self) -> Value {
        let mut value = Value::object();
        if self.then.is_some() {
            value.push("moved_pgs", self.moved);
            value.push("total_pgs", self.total);
        }
        value.push("avg_pgs", self.mean());
        value.push("std_dev", self.deviation(&self.now));
        value.push("expected_baseline_std_dev", self.expected());
        if let Some(then) = &self.then {
            value.push("new_std_dev", self.deviation(then));
        }
        for (name, osd) in self.extremes() {
            value.push(&format!("{name}_osd"), osd.0);
            value.push(&format!("{name}_osd_pgs"), self.now.get(&osd).copied().unwrap_or(0));
            if let Some(then) = &self.then {
                value.push(&format!("new_{name}_osd_pgs"), then.get(&osd).copied().unwrap_or(0));
            }
        }
        value
    }

    fn text(&self) -> String {
        let g = |value: f32| percent_g(f64::from(value), 6);
        let (mean, mut out) = (self.mean(), String::new());
        let mut line = |text: String| out += &(text + "\n");
        if self.then.is_some() {
            let share = 100.0 * self.moved as f32 / self.total.max(1) as f32;
            let percent = if self.total > 0 { format!(" ({}%)", g(share)) } else { String::new() };
            line(format!("moved {} / {}{percent}", self.moved, self.total));
        }
        line(format!("avg {}", g(mean)));
        let then = self.then.as_ref().map_or(String::new(), |then| format!(" -> {}", g(self.deviation(then))));
        line(format!("stddev {}{then} (expected baseline {})", g(self.deviation(&self.now)), g(self.expected())));
        let of_mean = |count: u32| g(if mean > 0.0 { count as f32 / mean } else { 0.0 });
        for (name, osd) in self.extremes() {
            let now = self.now.get(&osd).copied().unwrap_or(0);
            let then = self.then.as_ref().map(|then| then.get(&osd).copied().unwrap_or(0));
            let count = then.map_or_else(|| now.to_string(), |then| format!("{now} -> {then}"));
            let ratio = then.map_or_else(|| of_mean(now), |then| format!("{} -> {}", of_mean(now), of_mean(then)));
            line(format!("{name} osd.{osd} with {count} pgs ({ratio} * mean)"));
        }
        out
    }
}

fn utilization(mon: &mut Mon, call: &Call) -> Answer {
    let spread = Spread::of(mon.osds.map(), None, &BTreeSet::new());
    Ok(Reply::either(call, || spread.value(), || spread.text()))
}

/// What a command was given, or the options' defaults.
struct Wanted {
    /// Percent of the average above which an OSD is overloaded.
    overload: i64,
    max_change: f64,
    max_osds: i64,
    no_increasing: bool,
    pools: BTreeSet<PoolId>,
    dry: bool,
}

/// How loaded OSDs are, in a measure of which the average is given.
struct Loads {
    average: f64,
    /// The heaviest first.
    of: Vec<(OsdId, f64)>,
}

impl Loads {
    fn new(average: f64, mut of: Vec<(OsdId, f64)>) -> Loads {
        of.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Loads { average, of }
    }
}

/// A new weight of an OSD.
struct Change {
    osd: OsdId,
    from: u32,
    to: u32,
}

fn wanted(mon: &mut Mon, call: &Call) -> Result<Wanted, Refused> {
    let max_change = call.float_opt("max_change")?.unwrap_or_else(|| mon.option_number("mon_reweight_max_change"));
    if max_change <= 0.0 {
        return refuse(Errno::EINVAL, format!("max_change {} must be positive", percent_g(max_change, 6)));
    }
    let max_osds = call.int_opt("max_osds")?.unwrap_or_else(|| mon.option_number("mon_reweight_max_osds") as i64);
    if max_osds <= 0 {
        return refuse(Errno::EINVAL, format!("max_osds {max_osds} must be positive"));
    }
    let map = mon.osds.map();
    let pool = |name: &String| match pool_named(map, name) {
        Ok(id) => Ok(id),
        Err(_) => refuse(Errno::ENOENT, format!("pool '{name}' does not exist")),
    };
    Ok(Wanted {
        overload: call.int_opt("oload")?.unwrap_or(120),
        max_change,
        max_osds,
        no_increasing: call.has("no_increasing"),
        pools: call.list("pools")?.iter().map(pool).collect::<Result<_, _>>()?,
        dry: call.prefix.starts_with("osd test-"),
    })
}

/// The status line of every refusal that follows, whichever the command.
fn failed<T>(errno: Errno, text: String) -> Result<T, Refused> {
    refuse(errno, text + "FAILED reweight-by-pg")
}

fn by_utilization(mon: &mut Mon, call: &Call) -> Answer {
    let wanted = wanted(mon, call)?;
    check_overload(&wanted)?;
    let stats: Vec<_> = mon.stats.osds().filter(|(_, stat)| stat.kb > 0).collect();
    let (used, total) = stats.iter().fold((0i64, 0i64), |(used, total), (_, stat)| {
        (used.saturating_add(stat.kb_used), total.saturating_add(stat.kb))
    });
    let enough = mon.option_number("mon_reweight_min_bytes_per_osd");
    if (used as f64) * 1024.0 < enough * stats.len().max(1) as f64 {
        return failed(Errno::EDOM, format!("Refusing to reweight: we only have {used} kb used across all osds!\n"));
    }
    let of = stats.iter().map(|(osd, stat)| (*osd, stat.kb_used as f64 / stat.kb as f64)).collect();
    let loads = Loads::new(used as f64 / total as f64, of);
    reweight(mon, call, &wanted, &loads)
}

fn by_pg(mon: &mut Mon, call: &Call) -> Answer {
    let wanted = wanted(mon, call)?;
    check_overload(&wanted)?;
    let map = mon.osds.map();
    let mut counts: BTreeMap<OsdId, u64> = BTreeMap::new();
    let counted = |pool: PoolId| wanted.pools.is_empty() || wanted.pools.contains(&pool);
    for pg in crate::services::stats::all_pgs(map).filter(|pg| counted(pg.pool)) {
        map.pg_to_up_acting(pg).acting.into_iter().for_each(|osd| *counts.entry(osd).or_default() += 1);
    }
    let (copies, osds) = (counts.values().sum::<u64>(), counts.len() as u64);
    if osds == 0 || copies / osds < mon.option_number("mon_reweight_min_pgs_per_osd") as u64 {
        let text = format!("Refusing to reweight: we only have {copies} PGs across {osds} osds!\n");
        return failed(Errno::EDOM, text);
    }
    let weight = |osd: OsdId| crush_view::weight(map.crush.item_weight(osd.0).unwrap_or(0));
    let all: f64 = counts.keys().map(|osd| weight(*osd)).sum();
    let placed = counts.iter().filter(|(osd, _)| weight(**osd) > 0.0);
    let loads = Loads::new(copies as f64 / all, placed.map(|(osd, n)| (*osd, *n as f64 / weight(*osd))).collect());
    reweight(mon, call, &wanted, &loads)
}

fn check_overload(wanted: &Wanted) -> Result<(), Refused> {
    if wanted.overload > 100 {
        return Ok(());
    }
    let text = "You must give a percentage higher than 100. The reweighting threshold will be calculated as \
                <average-utilization> times <input-percentage>. For example, an argument of 200 would reweight OSDs which \
                are twice as utilized as the average OSD.\n";
    failed(Errno::EINVAL, text.to_owned())
}

/// Lower weights for those above the threshold, higher ones (up to 1) for those below the average.
fn changes(map: &OsdMap, wanted: &Wanted, loads: &Loads) -> Vec<Change> {
    let most = (wanted.max_change * f64::from(IN)) as u32;
    let threshold = loads.average * wanted.overload as f64 / 100.0;
    let change = |(osd, load): &(OsdId, f64)| {
        let from = map.weight(*osd);
        // As a float of 32 bits, like the load in Ceph's code; what does not fit is cut off.
        let even = ((loads.average / load) as f32 * from as f32) as u32;
        let to = match () {
            () if from == 0 => return None,
            () if *load >= threshold => even.max(from.saturating_sub(most)),
            () if !wanted.no_increasing && *load <= loads.average => even.min(from.saturating_add(most)).min(IN),
            () => return None,
        };
        (*load >= threshold || to > from).then_some(Change { osd: *osd, from, to })
    };
    loads.of.iter().filter_map(change).take(wanted.max_osds as usize).collect()
}

fn reweight(mon: &mut Mon, call: &Call, wanted: &Wanted, loads: &Loads) -> Answer {
    let map = mon.osds.map();
    let changes = changes(map, wanted, loads);
    let weights: BTreeMap<OsdId, u32> = changes.iter().map(|change| (change.osd, change.to)).collect();
    let spread = Spread::of(map, Some(&map.with_weights(&weights)), &wanted.pools);
    let threshold = loads.average * wanted.overload as f64 / 100.0;
    let fixed = |weight: u32| weight as f32 / IN as f32;
    let value = || {
        let one = |change: &Change| {
            object! {
                "osd" => change.osd.0, "weight" => fixed(change.from), "new_weight" => fixed(change.to),
            }
        };
        object! {
            "overload_min" => wanted.overload,
            "max_change" => wanted.max_change,
            "max_change_osds" => wanted.max_osds,
            "average_utilization" => loads.average,
            "overload_utilization" => threshold,
            "reweights" => Value::array(changes.iter().map(one)),
            "utilization" => spread.value(),
        }
    };
    let plain = || {
        let mut text = spread.text() + "\n";
        let _ = write!(text, "oload {}\nmax_change {}\n", wanted.overload, percent_g(wanted.max_change, 6));
        let _ = writeln!(text, "max_change_osds {}", wanted.max_osds);
        let _ = write!(text, "average_utilization {:.4}\noverload_utilization {threshold:.4}\n", loads.average);
        for Change { osd, from, to } in &changes {
            let _ = writeln!(text, "osd.{osd} weight {:.4} -> {:.4}", fixed(*from), fixed(*to));
        }
        text
    };
    let reply = Reply::either(call, value, plain);
    if wanted.dry || changes.is_empty() {
        return Ok(reply.with_status("no change"));
    }
    weights.into_iter().for_each(|(osd, weight)| mon.osds.set_weight(osd, weight));
    Ok(reply)
}
