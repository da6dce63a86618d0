//! `df`: room, by device class and by pool.
//!
//! Follows Ceph v16.2 `src/mon/PGMap.cc` (`dump_cluster_stats`, `dump_pool_stats_full`, `dump_object_stat_sum`,
//! `get_rule_avail`).

use super::{Answer, Call, CommandSpec, Reply, spec};
use crate::format::{Align, Table, Value, quantity};
use crate::mon::Mon;
use crate::object;
use crate::services::stats::OsdSum;
use base::{OsdId, PoolId};
use crush::{CrushMap, Op};
use maps::{OsdMap, PgPool};
use std::collections::BTreeMap;

pub(super) const COMMANDS: &[CommandSpec] =
    &[spec("df name=detail,type=CephChoices,strings=detail,req=false", "show used and free room", "mon", "r", df)];

/// A pool's room.
pub(crate) struct PoolRoom {
    pub(crate) stored: u64,
    stored_raw: u64,
    pub(crate) objects: u64,
    used: u64,
    used_ratio: f64,
    pub(crate) available: u64,
    available_raw: u64,
}

impl Mon {
    pub(crate) fn pool_room(&self, id: PoolId, pool: &PgPool) -> PoolRoom {
        let sum = self.stats.pool_sum(id);
        let (counts, by_pool) = (sum.counts(), self.stats.osd_sum().counts_by_pool());
        let mut rate = f64::from(pool.size);
        if counts.num_object_copies > 0 {
            rate *= (counts.num_object_copies - counts.num_objects_degraded) as f64 / counts.num_object_copies as f64;
        }
        let bytes = sum.bytes();
        let store = &sum.stat.store;
        let positive = |n: i64| u64::try_from(n).unwrap_or(0);
        let (used, stored) = if by_pool {
            let stored = if rate > 0.0 { positive(store.data_stored) as f64 / rate } else { 0.0 };
            (positive(store.allocated).saturating_add(positive(store.omap_allocated)), stored as u64)
        } else {
            (bytes, bytes)
        };
        let available_raw = self.rule_room(i32::from(pool.crush_rule));
        let all = used as f64 + available_raw as f64;
        PoolRoom {
            stored,
            stored_raw: (stored as f64 * rate) as u64,
            objects: sum.objects(),
            used,
            used_ratio: if all > 0.0 { used as f64 / all } else { 0.0 },
            available: if rate > 0.0 { (available_raw as f64 / rate) as u64 } else { 0 },
            available_raw,
        }
    }

    /// How many raw bytes fit before the first OSD of a rule is full.
    fn rule_room(&self, rule: i32) -> u64 {
        let map = self.osds.map();
        let room = rule_weights(&map.crush, rule).into_iter().filter_map(|(osd, share)| {
            let stat = self.stats.osd(osd)?;
            let share = share * f64::from(map.weight(osd)) / 65536.0;
            if share <= 0.0 || stat.statfs.total == 0 {
                return None;
            }
            let unusable = stat.statfs.total as f64 * (1.0 - f64::from(map.full_ratio));
            Some((stat.statfs.available as f64 - unusable).max(0.0) / share)
        });
        room.min_by(f64::total_cmp).map_or(0, |bytes| bytes as u64)
    }
}

/// Each OSD's share of what a rule places, from the weights below the buckets it takes
/// (`CrushWrapper::get_rule_weight_osd_map`).
pub(super) fn rule_weights(crush: &CrushMap, rule: i32) -> BTreeMap<OsdId, f64> {
    let mut shares = BTreeMap::new();
    let takes = crush.rule(rule).map_or(&[] as &[crush::Step], |r| &r.steps);
    for step in takes.iter().filter(|step| step.op == Op::TAKE) {
        let (mut weights, mut stack, mut left) = (BTreeMap::new(), vec![step.arg1], crush.max_buckets() + 1);
        while let (Some(at), true) = (stack.pop(), left > 0) {
            left -= 1;
            for (item, weight) in crush.bucket(at).into_iter().flat_map(|b| b.weighted_items()) {
                match item {
                    0.. => drop(weights.insert(OsdId(item), f64::from(weight))),
                    _ => stack.push(item),
                }
            }
        }
        let total: f64 = weights.values().sum();
        if total > 0.0 {
            weights.into_iter().for_each(|(osd, w)| *shares.entry(osd).or_insert(0.0) += w / total);
        }
    }
    shares
}

fn df(mon: &mut Mon, call: &Call) -> Answer {
    let detail = call.text_opt("detail")?.is_some();
    let map = mon.osds.map();
    Ok(Reply::either(call, || value(mon, map, detail), || plain(mon, map, detail))
        .with_line_end_if(!call.format.is_plain()))
}

fn room_value(sum: &OsdSum) -> Value {
    object! {
        "total_bytes" => sum.total_bytes(),
        "total_avail_bytes" => sum.available_bytes(),
        "total_used_bytes" => sum.used_bytes(),
        "total_used_raw_bytes" => sum.used_bytes(),
        "total_used_raw_ratio" => sum.stat.statfs.used_ratio() as f32,
    }
}

fn classes(map: &OsdMap) -> Vec<String> {
    map.crush.class_names().values().cloned().collect()
}

fn value(mon: &Mon, map: &OsdMap, detail: bool) -> Value {
    let total = mon.stats.osd_sum();
    let mut stats = room_value(&total);
    stats.push("num_osds", total.stat.num_osds);
    stats.push("num_per_pool_osds", total.stat.num_per_pool_osds);
    stats.push("num_per_pool_omap_osds", total.stat.num_per_pool_omap_osds);
    let by_class = classes(map).into_iter().map(|class| {
        let sum = mon.stats.osd_sum_of(map, Some(&class));
        (class, room_value(&sum))
    });
    let pools = map.pools.iter().map(|(id, pool)| {
        object! {
            "name" => map.pool_name(*id).unwrap_or_default(),
            "id" => id.0,
            "stats" => pool_stats_value(mon, *id, pool, detail),
        }
    });
    object! { "stats" => stats, "stats_by_class" => Value::members(by_class), "pools" => Value::array(pools) }
}

pub(crate) fn pool_stats_value(mon: &Mon, id: PoolId, pool: &PgPool, detail: bool) -> Value {
    let (room, sum) = (mon.pool_room(id, pool), mon.stats.pool_sum(id));
    let mut value = object! { "stored" => room.stored };
    if detail {
        value.push("stored_data", room.stored);
        value.push("stored_omap", 0);
    }
    value.push("objects", room.objects);
    value.push("kb_used", room.used.div_ceil(1024));
    value.push("bytes_used", room.used);
    if detail {
        value.push("data_bytes_used", room.used);
        value.push("omap_bytes_used", 0);
    }
    value.push("percent_used", room.used_ratio as f32);
    value.push("max_avail", room.available);
    if detail {
        let counts = sum.counts();
        value.extend(object! {
            "quota_objects" => pool.quota_max_objects,
            "quota_bytes" => pool.quota_max_bytes,
            "dirty" => 0,
            "rd" => counts.num_rd,
            "rd_bytes" => counts.num_rd_kb.saturating_mul(1024),
            "wr" => counts.num_wr,
            "wr_bytes" => counts.num_wr_kb.saturating_mul(1024),
            "compress_bytes_used" => sum.stat.store.data_compressed_allocated,
            "compress_under_bytes" => sum.stat.store.data_compressed_original,
            "stored_raw" => room.stored_raw,
            "avail_raw" => room.available_raw,
        });
    }
    value
}

/// A percentage as the tables show it: two decimals, or a bare 0.
fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent < 0.005 { "0".to_owned() } else { format!("{percent:.2}") }
}

fn plain(mon: &Mon, map: &OsdMap, detail: bool) -> String {
    let mut raw = Table::new();
    raw.column("CLASS", Align::Left);
    for heading in ["SIZE", "AVAIL", "USED", "RAW USED", "%RAW USED"] {
        raw.column(heading, Align::Right);
    }
    let mut row = |name: &str, sum: &OsdSum| {
        raw.row([
            name.to_owned(),
            quantity::bytes(sum.total_bytes()),
            quantity::bytes(sum.available_bytes()),
            quantity::bytes(sum.used_bytes()),
            quantity::bytes(sum.used_bytes()),
            percent(sum.stat.statfs.used_ratio()),
        ]);
    };
    for class in classes(map) {
        row(&class, &mon.stats.osd_sum_of(map, Some(&class)));
    }
    row("TOTAL", &mon.stats.osd_sum());
    format!("--- RAW STORAGE ---\n{} \n--- POOLS ---\n{}", raw.render(), pools_table(mon, map, detail))
}

fn pools_table(mon: &Mon, map: &OsdMap, detail: bool) -> String {
    let mut table = Table::new();
    table.column("POOL", Align::Left);
    let more: &[&str] = if detail { &["(DATA)", "(OMAP)"] } else { &[] };
    let tail: &[&str] =
        if detail { &["QUOTA OBJECTS", "QUOTA BYTES", "DIRTY", "USED COMPR", "UNDER COMPR"] } else { &[] };
    let parts: [&[&str]; 6] =
        [&["ID", "PGS", "STORED"], more, &["OBJECTS", "USED"], more, &["%USED", "MAX AVAIL"], tail];
    parts.concat().iter().for_each(|heading| table.column(heading, Align::Right));
    for (id, pool) in &map.pools {
        let room = mon.pool_room(*id, pool);
        let mut row = vec![map.pool_name(*id).unwrap_or_default().to_owned(), id.to_string(), pool.pg_num.to_string()];
        let both = |bytes: u64| [quantity::bytes(bytes), quantity::bytes(0)];
        row.push(quantity::bytes(room.stored));
        if detail {
            row.extend(both(room.stored));
        }
        row.push(quantity::count(room.objects));
        row.push(quantity::bytes(room.used));
        if detail {
            row.extend(both(room.used));
        }
        row.push(percent(room.used_ratio));
        row.push(quantity::bytes(room.available));
        if detail {
            let quota = |n: u64, text: String| if n == 0 { "N/A".to_owned() } else { text };
            row.push(quota(pool.quota_max_objects, quantity::count(pool.quota_max_objects)));
            row.push(quota(pool.quota_max_bytes, quantity::bytes(pool.quota_max_bytes)));
            row.extend(["N/A".to_owned(), quantity::bytes(0), quantity::bytes(0)]);
        }
        table.row(row);
    }
    table.render()
}
