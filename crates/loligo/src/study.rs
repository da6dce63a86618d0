//! `loligo study`: a benchmark study, and what it showed.

use crate::cli::{Format, StudyArgs, StudyName};
use ::study::{Conduct, DeviceModel, Fairness, FairnessOptions, Study, Target, conduct};
use anyhow::Context;
use std::path::{Path, PathBuf};

/// What `fairness` measures unless it is told otherwise.
const READERS: [u32; 4] = [1, 2, 4, 8];

/// Runs the verb.
pub(crate) fn run(args: &StudyArgs) -> anyhow::Result<()> {
    let on = Target::named(&args.on);
    let out = args.out.clone().unwrap_or_else(|| default_out(args, &on));
    let mut study = study(args, &on, &out)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let how = Conduct { on, out: out.clone(), runs: args.runs, seed: args.seed, version };
    let results = conduct(study.as_mut(), &how)?;
    match args.format {
        Format::Plain => {
            print!("{}", results.table());
            println!("Report: {}", out.join("report.html").display());
        }
        Format::Json => println!("{}", results.to_json()),
    }
    Ok(())
}

fn default_out(args: &StudyArgs, on: &Target) -> PathBuf {
    let on = if matches!(on, Target::Cluster(_)) { "cluster" } else { on.name() };
    PathBuf::from(format!("study-{:?}-{on}", args.name).to_lowercase())
}

fn study(args: &StudyArgs, on: &Target, out: &Path) -> anyhow::Result<Box<dyn Study>> {
    Ok(match args.name {
        StudyName::Fairness => Box::new(Fairness::new(FairnessOptions {
            on: on.clone(),
            devices: models(&args.device_model, &["hdd-array", "hdd", "ssd", "nvme"])?,
            readers: if args.readers.is_empty() { READERS.to_vec() } else { args.readers.clone() },
            seconds: args.seconds.unwrap_or(if *on == Target::Sim { 30 } else { 5 }),
            read_ahead_kib: args.read_ahead_kib,
            scratch: out.to_owned(),
        })?),
    })
}

fn models(names: &[String], usual: &[&str]) -> anyhow::Result<Vec<DeviceModel>> {
    if names.is_empty() {
        return Ok(usual.iter().map(|name| DeviceModel::named(name).expect("a model of that name")).collect());
    }
    names.iter().map(|name| model(name)).collect()
}

/// A model by its name, or as a file describes it.
fn model(name: &str) -> anyhow::Result<DeviceModel> {
    if let Some(model) = DeviceModel::named(name) {
        return Ok(model);
    }
    let names = DeviceModel::NAMES.join(", ");
    let text = std::fs::read_to_string(name)
        .with_context(|| format!("--device-model {name}: neither one of {names} nor a file that can be read"))?;
    DeviceModel::from_figures(&text).with_context(|| format!("--device-model {name}"))
}
