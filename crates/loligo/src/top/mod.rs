//! `loligo top`: what each tenant gets now, beside what it is promised.
//!
//! Asks all OSDs twice, some time apart, and shows the difference. On a terminal the view is drawn again in place until it is
//! interrupted; elsewhere each is printed below the one before. An OSD that was not there at one of the two moments is not
//! counted, and named. A view in place is as large as the terminal, and where nothing can be asked it says why and goes on.

mod table;

use crate::cli::{Format, TopArgs};
use crate::images::Images;
use crate::reach::Reach;
use anyhow::{Context, bail};
use base::OsdId;
use rt::errand::Question;
use rustix::termios::tcgetwinsize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Instant;
use table::Table;

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

/// What one OSD said: of each tenant its promise, and what was done for it.
type Said = BTreeMap<String, (Value, Done)>;

/// What OSDs said at one moment; none who did not answer.
struct View {
    at: Instant,
    osds: BTreeMap<i32, Option<Said>>,
}

/// What a tenant gets.
struct Row {
    tenant: String,
    /// Its name, where it is an image that has one.
    image: Option<String>,
    promise: Value,
    ops: f64,
    bytes: f64,
    latency_ms: f64,
}

/// Runs the verb.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let reach = Reach::new(args.at.dir.as_deref())?;
    let images = Images::new(&reach)?;
    let mut before = look(&reach)?;
    let in_place = std::io::stdout().is_terminal() && args.format == Format::Plain && !args.once;
    loop {
        std::thread::sleep(args.interval);
        let seen = look(&reach).and_then(|now| {
            let rows = named_rows(&images, &before, &now)?;
            Ok((rows, uncounted(&before, &now), now))
        });
        let (rows, uncounted, now) = match seen {
            Ok(seen) => seen,
            // Whoever watches wants to see it come back.
            Err(error) if in_place => {
                say_as_is!("{REDRAW}{error:#}\n");
                continue;
            }
            Err(error) => return Err(error),
        };
        match args.format {
            Format::Plain if in_place => {
                say_as_is!("{REDRAW}{}", Table::new(&rows, &uncounted).within(terminal_size()))
            }
            Format::Plain => say_as_is!("{}", Table::new(&rows, &uncounted)),
            Format::Json => say_as_is!("{}\n", as_json(&rows, &uncounted)),
        }
        if args.once {
            return Ok(());
        }
        before = now;
    }
}

/// Columns and lines of the terminal; none of what it does not know.
fn terminal_size() -> (Option<usize>, Option<usize>) {
    let known = |size: u16| Some(usize::from(size)).filter(|size| *size > 0);
    tcgetwinsize(std::io::stdout()).map_or((None, None), |size| (known(size.ws_col), known(size.ws_row)))
}

/// What each gets, images with their names.
fn named_rows(images: &Images, before: &View, now: &View) -> anyhow::Result<Vec<Row>> {
    let mut rows = rows(before, now);
    let names = images.names(rows.iter().map(|row| &row.tenant[..]))?;
    rows.iter_mut().for_each(|row| row.image = names.get(&row.tenant).cloned());
    Ok(rows)
}

fn look(reach: &Reach) -> anyhow::Result<View> {
    let osds = reach.ask(&json!({ "prefix": "osd ls", "format": "json" }))?;
    let osds: Vec<i32> = serde_json::from_slice(&osds).context("the monitor's list of OSDs")?;
    let command = json!({ "prefix": "dump_tenants", "format": "json" }).to_string();
    let questions: Vec<Question> = osds.iter().map(|id| Question::Tell(OsdId(*id), command.clone())).collect();
    let answers = reach.find_out(&questions)?;
    let said = |answer: &[u8]| serde_json::from_slice(answer).ok().map(|dump| said(&dump));
    let osds: BTreeMap<i32, Option<Said>> =
        osds.into_iter().zip(answers).map(|(id, answer)| (id, answer.ok().and_then(|answer| said(&answer)))).collect();
    if osds.values().all(Option::is_none) {
        bail!("none of the cluster's OSDs answers");
    }
    Ok(View { at: Instant::now(), osds })
}

fn said(dump: &Value) -> Said {
    let listed = dump["tenants"].as_array().into_iter().flatten();
    let listed = listed.filter_map(|entry| Some((entry["tenant"].as_str()?, entry)));
    let done = |entry: &Value| Done {
        ops: entry["ops"].as_u64().unwrap_or(0),
        bytes: entry["bytes"].as_u64().unwrap_or(0),
        latency_s: entry["latency_sum"].as_f64().unwrap_or(0.0),
    };
    let all = listed.chain([(OTHERS, &dump["others"])]);
    all.map(|(name, entry)| (name.to_owned(), (entry.clone(), done(entry)))).collect()
}

/// OSDs that did not answer at one of both moments.
fn uncounted(before: &View, now: &View) -> Vec<i32> {
    let answered = |view: &View, id: &i32| view.osds.get(id).is_some_and(Option::is_some);
    now.osds.keys().copied().filter(|id| !answered(before, id) || !answered(now, id)).collect()
}

/// The most busy first, those of nobody in particular last.
fn rows(before: &View, now: &View) -> Vec<Row> {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let mut all: BTreeMap<&String, (&Value, Done)> = BTreeMap::new();
    for (id, said) in &now.osds {
        let (Some(said), Some(Some(old))) = (said, before.osds.get(id)) else { continue };
        for (tenant, (promise, done)) in said {
            // An OSD that was restarted begins at nothing.
            let old =
                old.get(tenant).map(|(_, done)| done.clone()).filter(|old| old.ops <= done.ops).unwrap_or_default();
            let sum = &mut all.entry(tenant).or_insert_with(|| (promise, Done::default())).1;
            sum.ops += done.ops - old.ops;
            sum.bytes += done.bytes.saturating_sub(old.bytes);
            sum.latency_s += (done.latency_s - old.latency_s).max(0.0);
        }
    }
    let row = |(tenant, (promise, done)): (&String, (&Value, Done))| Row {
        tenant: tenant.clone(),
        image: None,
        promise: promise.clone(),
        ops: done.ops as f64 / seconds,
        bytes: done.bytes as f64 / seconds,
        latency_ms: if done.ops > 0 { done.latency_s / done.ops as f64 * 1000.0 } else { 0.0 },
    };
    let mut rows: Vec<Row> = all.into_iter().map(row).collect();
    rows.sort_by(|a, b| (a.tenant == OTHERS).cmp(&(b.tenant == OTHERS)).then(b.ops.total_cmp(&a.ops)));
    rows
}

fn as_json(rows: &[Row], uncounted: &[i32]) -> Value {
    let row = |row: &Row| {
        let mut value = json!({
            "tenant": if row.tenant == OTHERS { Value::Null } else { json!(row.tenant) },
            "ops_per_s": row.ops,
            "bytes_per_s": row.bytes,
            "latency_ms": row.latency_ms,
        });
        if let Some(name) = &row.image {
            value["image"] = json!(name);
        }
        for figure in ["reservation", "reservation_bytes", "weight", "limit", "limit_bytes"] {
            if row.tenant != OTHERS {
                value[figure] = row.promise[figure].clone();
            }
        }
        value
    };
    json!({ "tenants": rows.iter().map(row).collect::<Vec<_>>(), "osds_not_counted": uncounted })
}
