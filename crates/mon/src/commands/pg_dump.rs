//! `pg dump`: everything reported of placement groups, pools and OSDs.
//!
//! Follows Ceph v16.2 `src/mon/PGMap.cc` (`dump`, `dump_basic`, `dump_pg_stats_plain`) and `src/osd/osd_types.cc`
//! (`pg_stat_t::dump`, `osd_stat_t::dump`, `object_stat_sum_t::dump`).

use super::osd::set_text;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::{Align, Table, Value, quantity};
use crate::mon::Mon;
use crate::object;
use crate::services::stat_sum::StatSum;
use crate::services::stats::all_pgs;
use base::{Errno, OsdId, PgId, PoolId};
use maps::stats::show::state_text;
use maps::stats::{ObjectStatSum, OsdStat, PgStat, StoreStatfs};
use std::borrow::Cow;
use std::collections::BTreeMap;

use maps::stats::show::{counts_value, ids};
pub(super) use maps::stats::show::{pg_value, version};

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(
        "pg dump name=dumpcontents,type=CephChoices,strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief,n=N,req=false",
        "show what is reported of placement groups, pools and OSDs",
        "pg",
        "r",
        dump,
    ),
    spec(
        "pg dump_json name=dumpcontents,type=CephChoices,strings=all|summary|sum|pools|osds|pgs,n=N,req=false",
        "show what is reported of placement groups, pools and OSDs as JSON",
        "pg",
        "r",
        dump_json,
    ),
    spec("pg dump_pools_json", "show what is reported of pools as JSON", "pg", "r", dump_pools_json),
    spec("pg getmap", "write the encoded statistics", "pg", "r", getmap),
];

/// What Ceph says below every table with omap columns.
pub(super) const OMAP_NOTE: &str = "* NOTE: Omap statistics are gathered during deep scrub and may be inaccurate soon \
afterwards depending on utilization. See http://docs.ceph.com/en/latest/dev/placement-group/#omap-statistics for further details.";

fn statfs_value(s: &StoreStatfs) -> Value {
    object! {
        "total" => s.total,
        "available" => s.available,
        "internally_reserved" => s.internally_reserved,
        "allocated" => s.allocated,
        "data_stored" => s.data_stored,
        "data_compressed" => s.data_compressed,
        "data_compressed_allocated" => s.data_compressed_allocated,
        "data_compressed_original" => s.data_compressed_original,
        "omap_allocated" => s.omap_allocated,
        "internal_metadata" => s.internal_metadata,
    }
}

fn sum_members(sum: &StatSum) -> Value {
    let s = &sum.stat;
    object! {
        "stat_sum" => counts_value(sum.counts()),
        "store_stats" => statfs_value(&s.store),
        "log_size" => s.log_size,
        "ondisk_log_size" => s.ondisk_log_size,
        "up" => s.up,
        "acting" => s.acting,
        "num_store_stats" => s.num_store_stats,
    }
}

/// An OSD's latencies.
pub(super) fn perf_value(s: &OsdStat) -> Value {
    let (commit, apply) = (s.perf.commit_latency_ms, s.perf.apply_latency_ms);
    object! {
        "commit_latency_ms" => commit,
        "apply_latency_ms" => apply,
        "commit_latency_ns" => u64::from(commit) * 1_000_000,
        "apply_latency_ns" => u64::from(apply) * 1_000_000,
    }
}

fn osd_stat_members(s: &OsdStat) -> Value {
    object! {
        "up_from" => s.up_from.0,
        "seq" => s.seq,
        "num_pgs" => s.num_pgs,
        "num_osds" => s.num_osds,
        "num_per_pool_osds" => s.num_per_pool_osds,
        "num_per_pool_omap_osds" => s.num_per_pool_omap_osds,
        "kb" => s.kb,
        "kb_used" => s.kb_used,
        "kb_used_data" => s.kb_used_data,
        "kb_used_omap" => s.kb_used_omap,
        "kb_used_meta" => s.kb_used_meta,
        "kb_avail" => s.kb_avail,
        "statfs" => statfs_value(&s.statfs),
        "hb_peers" => ids(&s.hb_peers),
        "snap_trim_queue_len" => s.snap_trim_queue_len,
        "num_snap_trimming" => s.num_snap_trimming,
        "num_shards_repaired" => s.num_shards_repaired,
        "op_queue_age_hist" => object! { "histogram" => Value::array(s.op_queue_age_hist.bins.iter().copied()), "upper_bound" => 1 },
        "perf_stat" => perf_value(s),
        "alerts" => Value::Array(vec![]),
        "network_ping_times" => Value::Array(vec![]),
    }
}

fn osd_value(osd: OsdId, s: &OsdStat) -> Value {
    let mut value = object! { "osd" => osd.0 };
    value.extend(osd_stat_members(s));
    value
}

fn pool_value(id: PoolId, sum: &StatSum) -> Value {
    let mut value = object! { "poolid" => id.0, "num_pg" => sum.num_pg };
    value.extend(sum_members(sum));
    value
}

/// All that a dump shows, collected once.
struct Dump<'a> {
    mon: &'a Mon,
    pgs: Vec<(PgId, Cow<'a, PgStat>)>,
    pools: Vec<(PoolId, StatSum)>,
}

impl<'a> Dump<'a> {
    fn new(mon: &'a Mon) -> Dump<'a> {
        let map = mon.osds.map();
        let pgs = all_pgs(map).map(|pg| (pg, mon.stats.stat_or_unknown(map, pg))).collect();
        let pools = map.pools.keys().rev().map(|id| (*id, mon.stats.pool_sum(*id))).collect();
        Dump { mon, pgs, pools }
    }

    fn basic_value(&self) -> Value {
        let mut delta = sum_members(&StatSum::default());
        delta.push("stamp_delta", "0.000000");
        object! {
            "version" => self.mon.stats.version(),
            "stamp" => quantity::local_time(self.mon.stats.stamp()),
            "last_osdmap_epoch" => self.mon.osds.epoch().0,
            "last_pg_scan" => 0,
            "pg_stats_sum" => sum_members(&self.mon.stats.sum()),
            "osd_stats_sum" => osd_stat_members(&self.mon.stats.osd_sum().stat),
            "pg_stats_delta" => delta,
        }
    }

    fn pgs_value(&self) -> Value {
        Value::array(self.pgs.iter().map(|(pg, stat)| pg_value(*pg, stat)))
    }

    fn pools_value(&self) -> Value {
        Value::array(self.pools.iter().map(|(id, sum)| pool_value(*id, sum)))
    }

    fn osds_value(&self) -> Value {
        Value::array(self.mon.stats.osds().rev().map(|(osd, stat)| osd_value(osd, stat)))
    }

    fn value(&self, what: &str) -> Value {
        match what {
            "all" => {
                let mut map = self.basic_value();
                map.push("pg_stats", self.pgs_value());
                map.push("pool_stats", self.pools_value());
                map.push("osd_stats", self.osds_value());
                map.push("pool_statfs", Value::Array(vec![]));
                object! { "pg_ready" => true, "pg_map" => map }
            }
            "pgs" => object! { "pg_ready" => true, "pg_stats" => self.pgs_value() },
            "pools" => object! { "pg_ready" => true, "pool_stats" => self.pools_value() },
            "osds" => {
                object! { "pg_ready" => true, "osd_stats" => self.osds_value(), "pool_statfs" => Value::Array(vec![]) }
            }
            "pgs_brief" => {
                let brief = self.pgs.iter().map(|(pg, s)| {
                    object! {
                        "pgid" => pg.to_string(),
                        "state" => state_text(s.state),
                        "up" => ids(&s.up),
                        "acting" => ids(&s.acting),
                        "up_primary" => s.up_primary.0,
                        "acting_primary" => s.acting_primary.0,
                    }
                });
                object! { "pg_ready" => true, "pg_stats" => Value::array(brief) }
            }
            "delta" => {
                let basic = self.basic_value();
                object! { "pg_ready" => true, "pg_stats_delta" => basic.member("pg_stats_delta").cloned().unwrap_or(Value::object()) }
            }
            _ => object! { "pg_ready" => true, "pg_map" => self.basic_value() },
        }
    }

    fn head_text(&self) -> String {
        format!(
            "version {}\nstamp {}\nlast_osdmap_epoch {}\nlast_pg_scan 0\n",
            self.mon.stats.version(),
            quantity::local_time(self.mon.stats.stamp()),
            self.mon.osds.epoch()
        )
    }

    fn pgs_text(&self) -> String {
        let mut table = Table::new();
        table.column("PG_STAT", Align::Left);
        for heading in COUNT_COLUMNS {
            table.column_with(heading, Align::Left, Align::Right);
        }
        for heading in [
            "STATE",
            "STATE_STAMP",
            "VERSION",
            "REPORTED",
            "UP",
            "UP_PRIMARY",
            "ACTING",
            "ACTING_PRIMARY",
            "LAST_SCRUB",
            "SCRUB_STAMP",
            "LAST_DEEP_SCRUB",
            "DEEP_SCRUB_STAMP",
            "SNAPTRIMQ_LEN",
        ] {
            table.column_with(heading, Align::Left, Align::Right);
        }
        let time = |at: wire::types::UTime| quantity::local_time(at.into());
        for (pg, s) in &self.pgs {
            let mut row = vec![pg.to_string()];
            row.extend(count_cells(&s.stats.sum, s.log_size, s.ondisk_log_size));
            row.extend([
                state_text(s.state),
                time(s.last_change),
                version(s.version),
                format!("{}:{}", s.reported_epoch, s.reported_seq),
                set_text(&s.up),
                s.up_primary.to_string(),
                set_text(&s.acting),
                s.acting_primary.to_string(),
                version(s.last_scrub),
                time(s.last_scrub_stamp),
                version(s.last_deep_scrub),
                time(s.last_deep_scrub_stamp),
                s.snaptrimq_len.to_string(),
            ]);
            table.row(row);
        }
        table.render()
    }

    fn brief_text(&self) -> String {
        let mut table = Table::new();
        for heading in ["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"] {
            table.column_with(heading, Align::Left, if heading == "PG_STAT" { Align::Left } else { Align::Right });
        }
        for (pg, s) in &self.pgs {
            table.row([
                pg.to_string(),
                state_text(s.state),
                set_text(&s.up),
                s.up_primary.to_string(),
                set_text(&s.acting),
                s.acting_primary.to_string(),
            ]);
        }
        table.render()
    }

    fn pools_text(&self, header: bool) -> String {
        let mut table = Table::new();
        table.column(if header { "POOLID" } else { "" }, Align::Left);
        for heading in COUNT_COLUMNS {
            table.column_with(if header { heading } else { "" }, Align::Left, Align::Right);
        }
        for (id, sum) in &self.pools {
            let mut row = vec![id.to_string()];
            row.extend(count_cells(sum.counts(), sum.stat.log_size, sum.stat.ondisk_log_size));
            table.row(row);
        }
        table.render()
    }

    fn sum_text(&self, header: bool) -> String {
        let sum = self.mon.stats.sum();
        let mut table = Table::new();
        table.column(if header { "PG_STAT" } else { "" }, Align::Left);
        for heading in COUNT_COLUMNS {
            table.column_with(if header { heading } else { "" }, Align::Left, Align::Right);
        }
        let mut row = vec!["sum".to_owned()];
        row.extend(count_cells(sum.counts(), sum.stat.log_size, sum.stat.ondisk_log_size));
        table.row(row);
        table.render()
    }

    fn osds_text(&self) -> String {
        let mut leads: BTreeMap<OsdId, u64> = BTreeMap::new();
        let mut holds: BTreeMap<OsdId, u64> = BTreeMap::new();
        for (_, stat) in &self.pgs {
            *leads.entry(stat.acting_primary).or_insert(0) += 1;
            stat.acting.iter().for_each(|osd| *holds.entry(*osd).or_insert(0) += 1);
        }
        let mut table = Table::new();
        table.column("OSD_STAT", Align::Left);
        for heading in ["USED", "AVAIL", "USED_RAW", "TOTAL", "HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"] {
            table.column_with(heading, Align::Left, Align::Right);
        }
        for (osd, s) in self.mon.stats.osds().rev() {
            let mut row = vec![osd.to_string()];
            row.extend(room_cells(s));
            row.push(set_text(&s.hb_peers));
            row.push(holds.get(&osd).copied().unwrap_or(0).to_string());
            row.push(leads.get(&osd).copied().unwrap_or(0).to_string());
            table.row(row);
        }
        let mut row = vec!["sum".to_owned()];
        row.extend(room_cells(&self.mon.stats.osd_sum().stat));
        table.row(row);
        table.render()
    }

    fn room_text(&self) -> String {
        let mut table = Table::new();
        table.column("OSD_STAT", Align::Left);
        for heading in ["USED", "AVAIL", "USED_RAW", "TOTAL"] {
            table.column_with(heading, Align::Left, Align::Right);
        }
        let mut row = vec!["sum".to_owned()];
        row.extend(room_cells(&self.mon.stats.osd_sum().stat));
        table.row(row);
        table.render()
    }

    fn text(&self, what: &str) -> String {
        let note = format!("\n{OMAP_NOTE}\n");
        match what {
            "all" => {
                let parts = [
                    self.head_text(),
                    self.pgs_text(),
                    self.pools_text(false),
                    self.sum_text(false),
                    self.osds_text(),
                    note,
                ];
                parts.concat()
            }
            "pgs" => self.pgs_text() + &note,
            "pools" => self.pools_text(true) + &note,
            "osds" => self.osds_text(),
            "pgs_brief" => self.brief_text(),
            "delta" => self.sum_text(true) + &note,
            _ => [self.head_text(), self.sum_text(true), self.room_text(), note].concat(),
        }
    }
}

const COUNT_COLUMNS: [&str; 10] = [
    "OBJECTS",
    "MISSING_ON_PRIMARY",
    "DEGRADED",
    "MISPLACED",
    "UNFOUND",
    "BYTES",
    "OMAP_BYTES*",
    "OMAP_KEYS*",
    "LOG",
    "DISK_LOG",
];

fn count_cells(c: &ObjectStatSum, log: i64, disk_log: i64) -> [String; 10] {
    [
        c.num_objects,
        c.num_objects_missing_on_primary,
        c.num_objects_degraded,
        c.num_objects_misplaced,
        c.num_objects_unfound,
        c.num_bytes,
        c.num_omap_bytes,
        c.num_omap_keys,
        log,
        disk_log,
    ]
    .map(|n| n.to_string())
}

fn room_cells(s: &OsdStat) -> [String; 4] {
    let f = &s.statfs;
    [f.used_raw(), f.available, f.used_raw(), f.total].map(quantity::bytes)
}

fn wanted(call: &Call) -> Result<String, Refused> {
    let contents = call.list("dumpcontents")?;
    let known = ["all", "summary", "sum", "delta", "pools", "osds", "pgs", "pgs_brief"];
    match contents.first() {
        None => Ok("all".to_owned()),
        Some(first) if known.contains(&first.as_str()) => Ok(first.clone()),
        Some(other) => refuse(Errno::EINVAL, format!("'{other}' is not among {}", known.join("|"))),
    }
}

fn dump(mon: &mut Mon, call: &Call) -> Answer {
    let what = wanted(call)?;
    let dump = Dump::new(mon);
    let reply = Reply::either(call, || dump.value(&what), || dump.text(&what));
    Ok(reply.with_status(format!("dumped {what}")))
}

fn dump_json(mon: &mut Mon, call: &Call) -> Answer {
    let what = wanted(call)?;
    let value = Dump::new(mon).value(&what);
    let text = if call.format.is_plain() { value.to_json() } else { call.format.render(&value) };
    Ok(Reply::data(text).with_status(format!("dumped {what}")))
}

fn dump_pools_json(mon: &mut Mon, _: &Call) -> Answer {
    let value = Dump::new(mon).value("pools");
    Ok(Reply::data(value.to_json()).with_status("dumped pools"))
}

fn getmap(_: &mut Mon, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "statistics have no encoding of their own here; use pg dump --format json")
}
