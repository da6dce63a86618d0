//! `loligo fsck` and `loligo store`: an OSD's extent store, while the OSD is down.
//!
//! Owns finding the devices and printing. Only `store import` writes to one.

use crate::cli::{Format, FsckArgs, StoreArgs, StoreVerb};
use crate::cluster_dir::ClusterDir;
use crate::daemons;
use anyhow::{Context, bail};
use base::OsdId;
use rt::pg_transfer::{self, Transferred};
use rt::store_tools::{self, CheckReport, FORMAT, StoreReader};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The device of an OSD.
fn block(dir: &ClusterDir, id: i32) -> anyhow::Result<PathBuf> {
    let path = dir.data(&format!("osd.{id}")).join("block");
    if path.exists() { Ok(path) } else { bail!("osd.{id} of {} has no extent store", dir.root().display()) }
}

/// Runs `fsck`. Fails where something is wrong.
pub(crate) fn fsck(args: &FsckArgs) -> anyhow::Result<()> {
    let dir = ClusterDir::new(&args.dir)?;
    let ids = match args.id {
        Some(id) => vec![id],
        None => dir.osd_ids()?,
    };
    if ids.is_empty() {
        bail!("{} has no OSDs", dir.root().display());
    }
    let mut wrong = 0;
    let mut reports = Vec::new();
    for id in ids {
        let path = block(&dir, id)?;
        let report = store_tools::check(&path, args.deep).with_context(|| path.display().to_string())?;
        wrong += report.problems.len();
        match args.format {
            Format::Plain => print_report(id, &report),
            Format::Json => reports.push(report_json(id, &report)),
        }
    }
    if args.format == Format::Json {
        say!("{}", Value::from(reports));
    }
    if wrong > 0 { bail!("{wrong} problems") } else { Ok(()) }
}

fn print_report(id: i32, report: &CheckReport) {
    let found = if report.problems.is_empty() { "clean" } else { "DAMAGED" };
    let depth = if report.deep { ", data read" } else { "" };
    say!(
        "osd.{id}: {found}{depth}: {} collections, {} objects, {} map entries, {} blocks of data, {} pages in {} \
         blocks, {} log records, checkpoint {}",
        report.collections,
        report.objects,
        report.omap_entries,
        report.data_blocks,
        report.pages,
        report.page_blocks,
        report.log_records,
        report.generation
    );
    for block in &report.torn_superblocks {
        say!("osd.{id}: the copy of the superblock at block {block} is torn; another one serves");
    }
    for problem in &report.problems {
        say!("osd.{id}: {problem}");
    }
}

fn report_json(id: i32, report: &CheckReport) -> Value {
    json!({
        "osd": id,
        "deep": report.deep,
        "problems": report.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "torn_superblocks": report.torn_superblocks,
        "checkpoint": report.generation,
        "collections": report.collections,
        "objects": report.objects,
        "omap_entries": report.omap_entries,
        "data_blocks": report.data_blocks,
        "pages": report.pages,
        "page_blocks": report.page_blocks,
        "log_records": report.log_records,
    })
}

/// Runs `store`.
pub(crate) fn store(verb: &StoreVerb) -> anyhow::Result<()> {
    match verb {
        StoreVerb::Format => {
            say_as_is!("{FORMAT}");
            Ok(())
        }
        StoreVerb::Stats(args) => stats(args),
        StoreVerb::List { at, collection } => list(at, collection.as_deref()),
        StoreVerb::Dump { at, collection, object, data } => dump(at, collection, object, *data),
        StoreVerb::Export { at, pg, file } => export(at, pg, file),
        StoreVerb::Import { at, file } => import(at, file),
    }
}

fn export(args: &StoreArgs, pg: &str, file: &Path) -> anyhow::Result<()> {
    let path = block(&ClusterDir::new(&args.dir)?, args.id)?;
    let out = std::fs::File::create_new(file).with_context(|| file.display().to_string())?;
    let done = pg_transfer::export(&path, pg, &mut std::io::BufWriter::new(&out)).map_err(anyhow::Error::from);
    match done.and_then(|done| out.sync_all().map(|()| done).map_err(anyhow::Error::from)) {
        Ok(done) => {
            say_transferred(args, pg, &done);
            Ok(())
        }
        Err(error) => {
            // Half a file is worse than none.
            let _ = std::fs::remove_file(file);
            Err(error.context(format!("osd.{}", args.id)))
        }
    }
}

fn import(args: &StoreArgs, file: &Path) -> anyhow::Result<()> {
    let dir = ClusterDir::new(&args.dir)?;
    block(&dir, args.id)?;
    let setup = daemons::StoreSetup::read(&dir, args.id)?;
    let done = pg_transfer::import(&setup.data, OsdId(args.id), setup.fsid, &setup.options, file);
    let (pg, done) = done.with_context(|| file.display().to_string())?;
    say_transferred(args, &pg, &done);
    Ok(())
}

fn say_transferred(args: &StoreArgs, pg: &str, done: &Transferred) {
    match args.format {
        Format::Plain => say!("osd.{}: pg {pg}, {} objects, {} bytes of data", args.id, done.objects, done.bytes),
        Format::Json => {
            say!("{}", json!({ "osd": args.id, "pg": pg, "objects": done.objects, "bytes": done.bytes }));
        }
    }
}

fn open(args: &StoreArgs) -> anyhow::Result<StoreReader> {
    let path = block(&ClusterDir::new(&args.dir)?, args.id)?;
    StoreReader::open(&path).with_context(|| path.display().to_string())
}

fn stats(args: &StoreArgs) -> anyhow::Result<()> {
    let mut reader = open(args)?;
    let (whose, usage) = reader.describe();
    let collections = reader.collections()?;
    match args.format {
        Format::Plain => {
            say!("{whose}");
            say!("{} bytes, {} of them free, {} collections", usage.total, usage.free, collections.len());
        }
        Format::Json => {
            say!("{}", json!({ "store": whose, "total": usage.total, "free": usage.free, "collections": collections }))
        }
    }
    Ok(())
}

fn list(args: &StoreArgs, collection: Option<&str>) -> anyhow::Result<()> {
    let mut reader = open(args)?;
    let Some(collection) = collection else {
        let collections = reader.collections()?;
        match args.format {
            Format::Plain => collections.iter().for_each(|name| say!("{name}")),
            Format::Json => say!("{}", json!(collections)),
        }
        return Ok(());
    };
    let objects = reader.objects(collection)?;
    let objects = objects.with_context(|| format!("{collection}: expected `meta` or a placement group such as 1.a"))?;
    match args.format {
        Format::Plain => {
            objects.iter().for_each(|object| say!("{:>12} {}", object.size, object.id));
        }
        Format::Json => {
            let all: Vec<_> = objects.iter().map(|o| json!({ "id": o.id, "size": o.size })).collect();
            say!("{}", Value::from(all));
        }
    }
    Ok(())
}

fn dump(args: &StoreArgs, collection: &str, object: &str, data: bool) -> anyhow::Result<()> {
    let mut reader = open(args)?;
    let view = reader.object(collection, object, data)?;
    let view =
        view.with_context(|| format!("{collection} has no object `{object}`; `loligo store list` names them"))?;
    if data {
        view.data.iter().for_each(|part| crate::out::bytes(part));
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let entries = view.omap.iter().flat_map(|part| &part.entries);
    let extents = view.allocated.iter().flatten();
    let shown = json!({
        "size": view.size,
        "attrs": view.attrs.iter().map(|(n, v)| json!({ "key": text(n), "value": hex(v) })).collect::<Vec<_>>(),
        "omap_header": hex(&view.omap_header),
        "omap": entries.map(|(k, v)| json!({ "key": text(k), "value": hex(v) })).collect::<Vec<_>>(),
        "extents": extents.map(|e| json!({ "offset": e.offset, "length": e.len })).collect::<Vec<_>>(),
    });
    say!("{}", if args.format == Format::Json { shown.to_string() } else { format!("{shown:#}") });
    Ok(())
}
