//! `loligo up`: from a directory, or none, to a cluster that is HEALTH_OK.
//!
//! Owns the order: look before anything is touched, lay out, start, wait, say what to type next. Whatever fails leaves
//! one clear line and, where the cluster is new, nothing else. How long is waited, and for what, is `readiness.rs`.

use crate::cli;
use crate::cluster_dir::{ClusterDir, Server};
use crate::daemons::{self, ClusterConfig};
use crate::layout::{self, MON_NAME, NewCluster, Undo};
use crate::readiness::{Condition, Lives, Started};
use crate::servers;
use anyhow::{Context, bail};
use rt::osd_store::StoreKind;
use rt::signals::StopSignals;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Child;
use std::time::{Duration, Instant};

/// The monitor's well-known port.
const PORT_DEFAULT: u16 = 3300;
/// Where the objects are kept, unless said otherwise.
const STORE_DEFAULT: cli::Store = cli::Store::Extent;
/// Enough for three copies.
const OSDS_DEFAULT: u16 = 3;
/// How long a killed process may take to be gone.
const DYING_LIMIT: Duration = Duration::from_secs(1);

/// Runs the verb.
pub(crate) fn run(args: &cli::Up) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut signals = StopSignals::catch()?;
    let dir = ClusterDir::new(&args.dir)?;
    if let Some(server) = still_running(&dir)? {
        bail!(
            "{} is in use by a running cluster ({}, pid {}); stop it with `loligo down --dir {}`",
            dir.root().display(),
            server.name,
            server.pid,
            args.dir.display()
        );
    }
    let resumed = dir.is_laid_out();
    let mut undo = if resumed { check_existing(&dir, args)? } else { lay_out_new(&dir, args)? };
    dir.sweep_stale_pid_files()?;
    let cluster = ClusterConfig::read(&dir)?;
    check_port(cluster.mon_port()?)?;
    let asker = cluster.admin_asker(&dir)?;
    let started = Started { dir: &dir, cluster: &cluster, asker: &asker, resumed, processes: args.processes };
    if args.detach || args.processes {
        apart(&started, args, &mut undo, began, &mut signals)
    } else {
        let embedded = daemons::Embedded::start(&dir, &cluster)?;
        let lives = cluster.osds.iter().map(|&id| (id, daemons::osd_nonce(std::process::id(), id))).collect();
        let condition = match started.wait(&lives, &mut signals, || embedded.failure()) {
            Ok(condition) => condition,
            Err(error) => {
                // Where a daemon has failed, its own words say more than our waiting in vain.
                embedded.stop()?;
                return Err(error);
            }
        };
        undo.keep();
        announce(args, &cluster, &condition, began);
        embedded.run_until_stopped(&mut signals)
    }
}

/// A server of the cluster that runs and goes on running. One that was killed a moment ago holds its pid file until the
/// last of its threads is gone.
fn still_running(dir: &ClusterDir) -> anyhow::Result<Option<Server>> {
    let began = Instant::now();
    loop {
        let server = dir.running()?.into_iter().next();
        if server.is_none() || began.elapsed() > DYING_LIMIT {
            return Ok(server);
        }
        std::thread::sleep(DYING_LIMIT / 20);
    }
}

fn check_existing(dir: &ClusterDir, args: &cli::Up) -> anyhow::Result<Undo> {
    let osds = dir.osd_ids()?.len();
    let wanted = args.osds.map_or(osds, usize::from);
    if wanted < osds {
        let dir = dir.root().display();
        bail!("{dir} holds a cluster of {osds} OSDs; leave --osds out to resume it, then `ceph osd purge` removes one");
    }
    if !args.set.is_empty() {
        bail!(
            "{} holds a cluster already: change {} instead of --set",
            dir.root().display(),
            dir.ceph_conf().display()
        );
    }
    if args.device_model.is_some() {
        let conf = dir.ceph_conf();
        bail!("{} holds a cluster already: set osd_device_model in {}", dir.root().display(), conf.display());
    }
    if args.log_device.is_some() || args.meta_device.is_some() {
        bail!("{} holds a cluster already: its stores stay on the devices they were made on", dir.root().display());
    }
    let there = ClusterConfig::read(dir)?.store()?;
    if args.store.is_some_and(|store| store.option() != there) {
        bail!("{} holds a cluster whose store is {there}; leave --store out to resume it", dir.root().display());
    }
    let port = ClusterConfig::read(dir)?.mon_port()?;
    if args.port.is_some_and(|p| p != port) {
        bail!("{} holds a cluster whose monitor has port {port}; leave --port out to resume it", dir.root().display());
    }
    if wanted > osds {
        check_port(port)?;
        dir.sweep_stale_pid_files()?;
        daemons::make_more_osds(dir, wanted - osds)?;
    }
    Ok(Undo::nothing())
}

fn lay_out_new(dir: &ClusterDir, args: &cli::Up) -> anyhow::Result<Undo> {
    let mut options = vec![("osd_objectstore".to_owned(), args.store.unwrap_or(STORE_DEFAULT).option().to_owned())];
    if let Some(model) = &args.device_model {
        options.push(("osd_device_model".to_owned(), device_model(args, model)?));
    }
    for (flag, path, option) in
        [("log", &args.log_device, daemons::LOG_PATH), ("meta", &args.meta_device, daemons::META_PATH)]
    {
        if let Some(path) = path {
            options.push((option.to_owned(), member_path(args, flag, path)?));
        }
    }
    for option in &args.set {
        let (key, value) = option.split_once('=').with_context(|| format!("--set {option}: expected KEY=VALUE"))?;
        options.push((key.to_owned(), value.to_owned()));
    }
    if let Ok(mut entries) = std::fs::read_dir(dir.root())
        && entries.next().is_some()
    {
        bail!("{} is not empty and holds no cluster; name a directory that is empty or new", dir.root().display());
    }
    let port = args.port.unwrap_or(PORT_DEFAULT);
    check_port(port)?;
    layout::lay_out(dir, &NewCluster { osds: args.osds.unwrap_or(OSDS_DEFAULT), port, options })
}

/// The device model that a new cluster's OSDs follow, as their option names it.
fn device_model(args: &cli::Up, model: &str) -> anyhow::Result<String> {
    if args.store.unwrap_or(STORE_DEFAULT) != cli::Store::Extent {
        bail!("--device-model {model}: a store in memory has no device; add --store extent");
    }
    if rt::shaped_device::device_model(model).is_ok() {
        return Ok(model.to_owned());
    }
    let path = std::path::absolute(model).with_context(|| format!("--device-model {model}: not a usable path"))?;
    let text = path.to_str().with_context(|| format!("--device-model {model}: not a usable path"))?;
    match rt::shaped_device::device_model(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => bail!("--device-model {model}: {error}"),
    }
}

/// Where the OSDs of a new cluster keep their logs, or metadata, as their option has it: `$id` is an OSD's number.
fn member_path(args: &cli::Up, flag: &str, path: &str) -> anyhow::Result<String> {
    if args.store.unwrap_or(STORE_DEFAULT) != cli::Store::Extent {
        bail!("--{flag}-device {path}: a store in memory has no devices; leave --store out");
    }
    let whole = std::path::absolute(path).with_context(|| format!("--{flag}-device {path}: not a usable path"))?;
    let whole = if whole.is_dir() { whole.join(format!("osd.$id.{flag}")) } else { whole };
    let text = whole.to_str().with_context(|| format!("--{flag}-device {path}: not a usable path"))?;
    let osds = args.osds.unwrap_or(OSDS_DEFAULT);
    if osds > 1 && !text.contains("$id") && !text.contains("${id}") {
        bail!("--{flag}-device {path}: {osds} OSDs cannot share it; name a directory, or a path with $id in it");
    }
    Ok(text.to_owned())
}

fn check_port(port: u16) -> anyhow::Result<()> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(()),
        Err(error) => bail!("127.0.0.1:{port}, the monitor's address, cannot be used: {error}; choose with --port"),
    }
}

/// Starts servers in processes of their own; stays to watch over them unless they are to be left alone.
fn apart(
    started: &Started<'_>,
    args: &cli::Up,
    undo: &mut Undo,
    began: Instant,
    signals: &mut StopSignals,
) -> anyhow::Result<()> {
    let Started { dir, cluster, .. } = *started;
    let dir_arg = dir.root().display().to_string();
    let line = |verb: &[&str]| verb.iter().map(|w| (*w).to_owned()).chain(["--dir".into(), dir_arg.clone()]).collect();
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    if args.processes {
        commands.push((format!("mon.{MON_NAME}"), line(&["mon"])));
        for id in &cluster.osds {
            commands.push((format!("osd.{id}"), line(&["osd", "--id", &id.to_string()])));
        }
    } else {
        commands.push((daemons::EMBEDDED.to_owned(), line(&["serve"])));
    }
    if cluster.store()? != StoreKind::Memory.name() {
        // A process has it from its parent before its first memory.
        rt::program::take_small_pages();
    }
    let mut children: Vec<(String, Child)> = Vec::new();
    let ready = commands
        .iter()
        .try_for_each(|(name, arguments)| {
            children.push((name.clone(), servers::spawn(dir, name, arguments)?));
            Ok(())
        })
        .and_then(|()| {
            let lives = lives(&cluster.osds, &children);
            started.wait(&lives, signals, || ended_early(dir, &mut children))
        });
    let condition = match ready {
        Ok(condition) => condition,
        Err(error) => {
            servers::abandon(&mut children);
            return Err(error);
        }
    };
    undo.keep();
    announce(args, cluster, &condition, began);
    if args.detach {
        return Ok(());
    }
    signals.wait(std::future::pending::<()>());
    let stopped = servers::stop(dir, &dir.running()?);
    servers::abandon(&mut children);
    stopped
}

/// What the addresses of OSDs in processes of their own, or of all in one, are known by.
fn lives(osds: &[i32], children: &[(String, Child)]) -> Lives {
    let process = |id: i32| {
        let of = [format!("osd.{id}"), daemons::EMBEDDED.to_owned()];
        let (_, child) = children.iter().find(|(name, _)| of.contains(name))?;
        Some((id, daemons::osd_nonce(child.id(), id)))
    };
    osds.iter().filter_map(|&id| process(id)).collect()
}

fn ended_early(dir: &ClusterDir, children: &mut [(String, Child)]) -> Option<String> {
    children.iter_mut().find_map(|(name, child)| match child.try_wait() {
        Ok(Some(_)) => Some(format!("{name} ended: {}", servers::last_words(dir, name))),
        _ => None,
    })
}

fn announce(args: &cli::Up, cluster: &ClusterConfig, condition: &Condition, began: Instant) {
    let Condition { health, not_up } = condition;
    let osds = cluster.osds.len() - not_up.len();
    let shape = if args.processes { "processes" } else { "threads of one process" };
    say!("{health} after {} ms: a monitor and {osds} OSDs, {shape}.", began.elapsed().as_millis());
    for line in not_up {
        say!("{line}");
    }
    say!("Type next:");
    say!("  export CEPH_CONF={}", cluster.conf_path.display());
    say!("  ceph -s");
    say!("  ceph osd pool create demo && rados bench -p demo 5 write");
    if args.detach {
        say!("  loligo down --dir {}", args.dir.display());
    } else {
        say!("Ctrl-C stops the cluster.");
    }
}
