//! `loligo study`: a benchmark study, and what it showed.

use crate::cli::{Format, StudyArgs, StudyName};
use crate::out;
use ::study::{
    Conduct, DeviceModel, Fairness, FairnessOptions, OnCluster, OnClusterOptions, RecoverySim, RecoverySimOptions,
    Stop, Study, Target, TenantsOptions, TenantsStudy, conduct,
};
use anyhow::{Context, bail};
use rt::signals::StopSignals;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What `fairness` measures unless it is told otherwise.
const READERS: [u32; 4] = [1, 2, 4, 8];
/// Seconds of the study of tenants unless it is told otherwise. The worst of 500 victims' 99th percentiles says little of
/// fewer requests than each sends in that time, some 20,000.
const TENANTS_SECONDS: u32 = 300;
/// Objects that are recovered live unless it is told otherwise: seconds' worth.
const OBJECTS_LIVE: u32 = 128;
/// How long signals count as one request: longer than a program takes to send two, shorter than a person to lose patience.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Runs the verb.
pub(crate) fn run(args: &StudyArgs) -> anyhow::Result<()> {
    let on = Target::named(&args.on);
    let out = args.out.clone().unwrap_or_else(|| default_out(args, &on));
    let stop = Stop::default();
    if on != Target::Sim {
        ask_when_signalled(stop.clone())?;
    }
    let mut study = study(args, &on, &out, &stop)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let how = Conduct { on, out: out.clone(), runs: args.runs, seed: args.seed, only: args.only.clone(), version };
    let results = conduct(study.as_mut(), &how)?;
    match args.format {
        Format::Plain => {
            say_as_is!("{}", results.table());
            say!("Report: {}", out.join("report.html").display());
        }
        Format::Json => say!("{}", results.to_json()),
    }
    Ok(())
}

/// The first signal asks the study to stop; one more, should the cluster not answer any longer, ends it as it is. One that
/// comes at once is no second request: coreutils' `timeout` signals the program, and then the group that it is in.
fn ask_when_signalled(stop: Stop) -> anyhow::Result<()> {
    let mut signals = StopSignals::catch()?;
    std::thread::spawn(move || {
        signals.wait(std::future::pending::<()>());
        stop.ask();
        let asked = Instant::now();
        loop {
            signals.wait(std::future::pending::<()>());
            if asked.elapsed() >= SAME_REQUEST {
                break;
            }
        }
        out::complain(format_args!("ended at once: what the study has set up is left behind"));
        std::process::exit(1);
    });
    Ok(())
}

fn default_out(args: &StudyArgs, on: &Target) -> PathBuf {
    let on = if matches!(on, Target::Cluster(_)) { "cluster" } else { on.name() };
    PathBuf::from(format!("study-{:?}-{on}", args.name).to_lowercase())
}

fn study(args: &StudyArgs, on: &Target, out: &Path, stop: &Stop) -> anyhow::Result<Box<dyn Study>> {
    Ok(match args.name {
        StudyName::Fairness => Box::new(Fairness::new(FairnessOptions {
            on: on.clone(),
            devices: models(&args.device_model, &["hdd-array", "hdd", "ssd", "nvme"])?,
            readers: if args.readers.is_empty() { READERS.to_vec() } else { args.readers.clone() },
            seconds: args.seconds.unwrap_or(if *on == Target::Sim { 30 } else { 5 }),
            read_ahead_kib: args.read_ahead_kib,
            scratch: out.to_owned(),
            stop: stop.clone(),
        })?),
        StudyName::Tenants if *on == Target::Sim => Box::new(TenantsStudy::new(TenantsOptions {
            devices: models(&args.device_model, &["ssd"])?,
            tenants: args.tenants,
            shards: args.tenants_shards(),
            seconds: args.seconds.unwrap_or(TENANTS_SECONDS),
        })?),
        StudyName::Tenants => bail!("--on {}: the study tenants is one in virtual time, --on sim", args.on),
        StudyName::Baseline | StudyName::Recovery if *on == Target::Sim => {
            Box::new(RecoverySim::new(RecoverySimOptions {
                baseline: args.name == StudyName::Baseline,
                devices: args.device_model.clone(),
                objects: args.objects,
                shards: args.shards.first().copied(),
            })?)
        }
        StudyName::Baseline | StudyName::Recovery => Box::new(OnCluster::new(on_cluster(args, on, out, stop)?)?),
    })
}

fn on_cluster(args: &StudyArgs, on: &Target, out: &Path, stop: &Stop) -> anyhow::Result<OnClusterOptions> {
    let device_model = match (&args.device_model[..], on) {
        ([], Target::Live) => Some("nvme".to_owned()),
        ([], _) => None,
        ([one], Target::Live) => Some(one.clone()),
        (_, Target::Live) => bail!("--device-model: one at a time --on live"),
        (..) => bail!("--device-model: the disks of a cluster that runs are what they are"),
    };
    Ok(OnClusterOptions {
        on: on.clone(),
        baseline: args.name == StudyName::Baseline,
        binary: std::env::current_exe().context("this program's own path")?,
        device_model,
        port: args.port,
        objects: args.objects.unwrap_or(OBJECTS_LIVE),
        seconds: args.seconds.unwrap_or(10),
        depth: args.depth,
        image_mib: args.image_mib,
        pgs: args.pgs,
        capacity_iops: args.capacity_iops,
        restart: args.restart.clone(),
        scratch: std::path::absolute(out).with_context(|| out.display().to_string())?,
        stop: stop.clone(),
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
