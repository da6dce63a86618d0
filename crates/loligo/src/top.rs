//! `loligo top`: what each tenant gets now, beside what it is promised.
//!
//! Asks the OSDs of this machine twice, some time apart, and shows the difference. On a terminal the view is drawn again in
//! place until it is interrupted; elsewhere each is printed below the one before.

use crate::admin_client;
use crate::cli::{Format, TopArgs};
use crate::daemons::ClusterConfig;
use crate::reach::Reach;
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What requests of nobody in particular are shown as.
const OTHERS: &str = "(no tenant)";

/// To the upper left, and nothing below: how a terminal draws a view in place of the one before.
const REDRAW: &str = "\x1b[H\x1b[J";

/// What OSDs have done for one tenant since they were started.
#[derive(Clone, Default)]
struct Done {
    ops: u64,
    bytes: u64,
    latency_s: f64,
}

/// A tenant's promise, and what was done for it.
#[derive(Clone, Default)]
struct Tenant {
    promise: Value,
    done: Done,
}

/// What all OSDs said at one moment.
struct View {
    at: Instant,
    tenants: BTreeMap<String, Tenant>,
    /// OSDs that do not run on this machine, or not at all.
    unreached: Vec<i32>,
}

/// What a tenant gets.
struct Row {
    tenant: String,
    promise: Value,
    ops: f64,
    bytes: f64,
    latency_ms: f64,
}

/// Runs the verb.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let reach = Reach::new(args.at.dir.as_deref())?;
    let apart = Duration::from_secs_f64(args.interval.clamp(0.1, 3600.0));
    let mut before = look(&reach)?;
    let in_place = std::io::stdout().is_terminal() && args.format == Format::Plain && !args.once;
    loop {
        std::thread::sleep(apart);
        let now = look(&reach)?;
        let rows = rows(&before, &now);
        let text = match args.format {
            Format::Plain => plain(&rows, &now),
            Format::Json => format!("{}\n", as_json(&rows, &now)),
        };
        if in_place {
            say_as_is!("{REDRAW}");
        }
        say_as_is!("{text}");
        if args.once {
            return Ok(());
        }
        before = now;
    }
}

fn look(reach: &Reach) -> anyhow::Result<View> {
    let osds = reach.ask(&json!({ "prefix": "osd ls", "format": "json" }))?;
    let osds: Vec<i32> = serde_json::from_slice(&osds).context("the monitor's list of OSDs")?;
    let mut view = View { at: Instant::now(), tenants: BTreeMap::new(), unreached: Vec::new() };
    for id in &osds {
        match ask_osd(&reach.cluster, *id) {
            Some(dump) => add(&mut view.tenants, &dump),
            None => view.unreached.push(*id),
        }
    }
    if view.unreached.len() == osds.len() {
        bail!("none of the cluster's OSDs runs on this machine");
    }
    Ok(view)
}

fn ask_osd(cluster: &ClusterConfig, id: i32) -> Option<Value> {
    let socket = cluster.admin_socket(&format!("osd.{id}"))?;
    admin_client::ask(&socket, "dump_tenants").ok()
}

/// Adds what one OSD says.
fn add(tenants: &mut BTreeMap<String, Tenant>, dump: &Value) {
    let listed = dump["tenants"].as_array().into_iter().flatten();
    let listed = listed.filter_map(|entry| Some((entry["tenant"].as_str()?, entry)));
    for (name, entry) in listed.chain([(OTHERS, &dump["others"])]) {
        let tenant = tenants.entry(name.to_owned()).or_default();
        tenant.promise = entry.clone();
        tenant.done.ops += entry["ops"].as_u64().unwrap_or(0);
        tenant.done.bytes += entry["bytes"].as_u64().unwrap_or(0);
        tenant.done.latency_s += entry["latency_sum"].as_f64().unwrap_or(0.0);
    }
}

/// The most busy first, those of nobody in particular last.
fn rows(before: &View, now: &View) -> Vec<Row> {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let row = |(name, tenant): (&String, &Tenant)| {
        let old = before.tenants.get(name).map(|tenant| tenant.done.clone()).unwrap_or_default();
        // An OSD that was restarted begins at nothing.
        let ops = tenant.done.ops.saturating_sub(old.ops) as f64;
        let latency_s = (tenant.done.latency_s - old.latency_s).max(0.0);
        Row {
            tenant: name.clone(),
            promise: tenant.promise.clone(),
            ops: ops / seconds,
            bytes: tenant.done.bytes.saturating_sub(old.bytes) as f64 / seconds,
            latency_ms: if ops > 0.0 { latency_s / ops * 1000.0 } else { 0.0 },
        }
    };
    let mut rows: Vec<Row> = now.tenants.iter().map(row).collect();
    rows.sort_by(|a, b| (a.tenant == OTHERS).cmp(&(b.tenant == OTHERS)).then(b.ops.total_cmp(&a.ops)));
    rows
}

fn plain(rows: &[Row], view: &View) -> String {
    let all: f64 = rows.iter().map(|row| row.ops).sum();
    let width = rows.iter().map(|row| row.tenant.chars().count()).max().unwrap_or(0).max(10);
    let mut text = format!(
        "{:width$} {:>9} {:>6} {:>9} {:>9} {:>11} {:>9} {:>9} {:>6}\n",
        "TENANT", "OPS/S", "SHARE", "MB/S", "LATENCY", "RESERVATION", "LIMIT", "MB LIMIT", "WEIGHT",
    );
    for row in rows {
        let share = if all > 0.0 { row.ops / all * 100.0 } else { 0.0 };
        let figure = |name: &str| row.promise[name].as_u64().filter(|value| *value > 0);
        let shown = |name: &str| figure(name).map_or("-".to_owned(), |value| value.to_string());
        let limit_mb = figure("limit_bytes").map_or("-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        let _ = writeln!(
            text,
            "{:width$} {:>9.1} {:>5.1}% {:>9.2} {:>6.2} ms {:>11} {:>9} {:>9} {:>6}",
            row.tenant,
            row.ops,
            share,
            row.bytes / 1e6,
            row.latency_ms,
            shown("reservation"),
            shown("limit"),
            limit_mb,
            shown("weight"),
        );
    }
    for osd in &view.unreached {
        let _ = writeln!(text, "osd.{osd} is not counted: it does not answer on this machine");
    }
    text
}

fn as_json(rows: &[Row], view: &View) -> Value {
    let row = |row: &Row| {
        let mut value = json!({
            "tenant": if row.tenant == OTHERS { Value::Null } else { json!(row.tenant) },
            "ops_per_s": row.ops,
            "bytes_per_s": row.bytes,
            "latency_ms": row.latency_ms,
        });
        for figure in ["reservation", "reservation_bytes", "weight", "limit", "limit_bytes"] {
            if row.tenant != OTHERS {
                value[figure] = row.promise[figure].clone();
            }
        }
        value
    };
    json!({ "tenants": rows.iter().map(row).collect::<Vec<_>>(), "osds_not_counted": view.unreached })
}
