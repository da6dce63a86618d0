//! `osd pool autoscale-status`: what each pool uses of what it may use, and what it was said to need.
//!
//! Pools have the number of placement groups that an operator gives them: nothing here changes it, so nothing would be
//! adjusted. The columns and how they are counted follow Ceph v16.2 `src/pybind/mgr/pg_autoscaler/module.py`.

use super::df::rule_weights;
use super::osd_status::in_digits;
use super::{Answer, Call, CommandSpec, Reply, spec};
use crate::format::{Align, Table, Value};
use crate::mon::Mon;
use crate::object;
use base::PoolId;
use crush::Op;
use maps::PgPool;
use maps::pool::PoolFlags;
use maps::pool_options::OptionKey;

pub(super) const COMMANDS: &[CommandSpec] =
    &[spec("osd pool autoscale-status", "show what pools use of what they may use", "osd", "r", autoscale_status)];

/// What is shown of a pool.
struct Line {
    id: PoolId,
    name: String,
    mode: &'static str,
    bulk: bool,
    pg_num: u32,
    bias: f64,
    /// Bytes that clients see.
    used: u64,
    /// Bytes that an operator expects.
    target_bytes: u64,
    /// Parts that an operator expects.
    target_parts: f64,
    /// Copies of each byte.
    rate: f64,
    /// The CRUSH bucket that the pool's rule takes, and the bytes of the OSDs below it.
    root: i32,
    capacity: u64,
    /// The part of the capacity that `target_parts` comes to among those of all pools.
    effective_parts: f64,
}

impl Line {
    fn of(mon: &Mon, id: PoolId, pool: &PgPool) -> Line {
        let map = mon.osds.map();
        let rule = i32::from(pool.crush_rule);
        let steps = map.crush.rule(rule).map_or(&[] as &[crush::Step], |rule| &rule.steps);
        let below = rule_weights(&map.crush, rule).into_keys();
        Line {
            id,
            name: map.pool_name(id).unwrap_or_default().to_owned(),
            mode: pool.autoscale_mode.name(),
            bulk: pool.flags.contains(PoolFlags::BULK),
            pg_num: pool.pg_num_target,
            bias: pool.options.double(OptionKey::PG_AUTOSCALE_BIAS).unwrap_or(1.0),
            used: mon.pool_room(id, pool).stored,
            target_bytes: pool.options.int(OptionKey::TARGET_SIZE_BYTES).and_then(|n| n.try_into().ok()).unwrap_or(0),
            target_parts: pool.options.double(OptionKey::TARGET_SIZE_RATIO).unwrap_or(0.0),
            rate: f64::from(pool.size),
            root: steps.iter().find(|step| step.op == Op::TAKE).map_or(0, |step| step.arg1),
            capacity: below.filter_map(|osd| Some(mon.stats.osd(osd)?.statfs.total)).sum(),
            effective_parts: 0.0,
        }
    }

    /// Bytes of all copies, as they are.
    fn raw_used(&self) -> f64 {
        self.used as f64 * self.rate
    }

    /// The same, or as they are expected to be.
    fn raw_expected(&self) -> f64 {
        self.used.max(self.target_bytes) as f64 * self.rate
    }

    fn part(&self, bytes: f64) -> f64 {
        if self.capacity > 0 { bytes / self.capacity as f64 } else { 0.0 }
    }

    /// The part of the capacity by which the pool counts.
    fn ratio(&self) -> f64 {
        self.part(self.raw_expected()).max(self.effective_parts)
    }

    fn value(&self) -> Value {
        object! {
            "actual_capacity_ratio" => self.part(self.raw_used()),
            "actual_raw_used" => self.raw_used(),
            "bias" => self.bias,
            "bulk" => self.bulk,
            "capacity_ratio" => self.ratio(),
            "crush_root_id" => self.root,
            "effective_target_ratio" => self.effective_parts,
            "logical_used" => self.used,
            "pg_autoscale_mode" => self.mode,
            "pg_num_final" => self.pg_num,
            "pg_num_ideal" => self.pg_num,
            "pg_num_target" => self.pg_num,
            "pool_id" => self.id.0,
            "pool_name" => self.name.as_str(),
            "raw_used" => self.raw_expected(),
            "raw_used_rate" => self.rate,
            "subtree_capacity" => self.capacity,
            "target_bytes" => self.target_bytes,
            "target_ratio" => self.target_parts,
            "would_adjust" => false,
        }
    }

    fn row(&self) -> [String; 13] {
        let unless_none = |given: bool, text: String| if given { text } else { String::new() };
        let bytes = |count| in_digits(count, 1024, 5);
        [
            self.name.clone(),
            bytes(self.used),
            unless_none(self.target_bytes > 0, bytes(self.target_bytes)),
            format!("{:.1}", self.rate),
            bytes(self.capacity),
            format!("{:.4}", self.ratio()),
            unless_none(self.target_parts > 0.0, format!("{:.4}", self.target_parts)),
            unless_none(self.effective_parts > 0.0, format!("{:.4}", self.effective_parts)),
            format!("{:.1}", self.bias),
            self.pg_num.to_string(),
            String::new(),
            self.mode.to_owned(),
            if self.bulk { "True" } else { "False" }.to_owned(),
        ]
    }
}

/// Divides what bytes that are expected leave of each root among the pools that are expected to have parts of it.
fn settle_parts(lines: &mut [Line]) {
    let roots: std::collections::BTreeSet<i32> = lines.iter().map(|line| line.root).collect();
    for root in roots {
        let here = |line: &&Line| line.root == root;
        let parts: f64 = lines.iter().filter(here).map(|line| line.target_parts).sum();
        let has_none = |line: &&Line| line.target_parts == 0.0;
        let bytes: f64 =
            lines.iter().filter(here).filter(has_none).map(|line| line.target_bytes as f64 * line.rate).sum();
        for line in lines.iter_mut().filter(|line| line.root == root && line.target_parts > 0.0) {
            let left = 1.0 - line.part(bytes).min(1.0);
            line.effective_parts = line.target_parts / parts * left;
        }
    }
}

fn autoscale_status(mon: &mut Mon, call: &Call) -> Answer {
    let mut lines: Vec<Line> = mon.osds.map().pools.iter().map(|(id, pool)| Line::of(mon, *id, pool)).collect();
    settle_parts(&mut lines);
    Ok(Reply::either(call, || Value::array(lines.iter().map(Line::value)), || table(&lines)))
}

fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.column("POOL", Align::Left);
    let numbers = [
        "SIZE",
        "TARGET SIZE",
        "RATE",
        "RAW CAPACITY",
        "RATIO",
        "TARGET RATIO",
        "EFFECTIVE RATIO",
        "BIAS",
        "PG_NUM",
        "NEW PG_NUM",
    ];
    numbers.iter().for_each(|heading| table.column(heading, Align::Right));
    ["AUTOSCALE", "BULK"].iter().for_each(|heading| table.column(heading, Align::Left));
    lines.iter().for_each(|line| table.row(line.row()));
    table.render()
}
