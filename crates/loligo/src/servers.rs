//! Server processes: starting them apart from this one, and ending them.
//!
//! Owns the rule that only processes of this cluster are touched: those this process started, or those whose locked
//! pid file in DIR says who they are.

use crate::cluster_dir::{ClusterDir, Server};
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to stop cleanly before it is killed. An OSD with a full memory store writes gigabytes.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// How often a condition is looked at again.
const POLL: Duration = Duration::from_millis(2);

/// Starts `loligo ARGS` as a server of its own whose output goes to its log.
pub(crate) fn spawn(dir: &ClusterDir, name: &str, args: &[String]) -> anyhow::Result<Child> {
    let log = dir.log(name);
    let open = || OpenOptions::new().create(true).append(true).open(&log);
    let stderr = open().with_context(|| format!("{}: cannot be written", log.display()))?;
    let program = std::env::current_exe().context("this program's own path")?;
    Command::new(program)
        .args(args)
        // A group of its own: a Ctrl-C at the terminal is for the process that watches over the servers.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stderr.try_clone()?)
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("{name}: cannot be started"))
}

/// What a server that ended too early said last.
pub(crate) fn last_words(dir: &ClusterDir, name: &str) -> String {
    let text = std::fs::read_to_string(dir.log(name)).unwrap_or_default();
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it left no message");
    line.strip_prefix("loligo: ").unwrap_or(line).to_owned()
}

fn signal(pid: i32, signal: Signal) {
    // The process may have ended meanwhile: then there is nothing to do.
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Waits until `done`, or until the limit. True where it was done.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    let began = Instant::now();
    loop {
        if done()? {
            return Ok(true);
        }
        if began.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
}

/// Stops servers of `dir` and waits until they are gone: the OSDs first, which tell the monitor that they leave.
pub(crate) fn stop(dir: &ClusterDir, servers: &[Server]) -> anyhow::Result<()> {
    let (monitors, others): (Vec<Server>, Vec<Server>) =
        servers.iter().cloned().partition(|s| s.name.starts_with("mon."));
    let mut killed: Vec<String> = Vec::new();
    for group in [others, monitors] {
        for server in &group {
            signal(server.pid, Signal::TERM);
        }
        let gone = || Ok(!dir.running()?.iter().any(|s| group.contains(s)));
        if !wait_until(STOP_LIMIT, gone)? {
            let late: Vec<Server> = dir.running()?.into_iter().filter(|s| group.contains(s)).collect();
            for server in &late {
                signal(server.pid, Signal::KILL);
            }
            killed.extend(late.into_iter().map(|s| s.name));
        }
    }
    match &killed[..] {
        [] => Ok(()),
        [one] => bail!("{one} did not stop within {} s and was killed", STOP_LIMIT.as_secs()),
        many => bail!("{} did not stop within {} s and were killed", many.join(", "), STOP_LIMIT.as_secs()),
    }
}

/// Ends children that this process started and that must not stay.
pub(crate) fn abandon(children: &mut [(String, Child)]) {
    for (_, child) in children.iter() {
        signal(child.id() as i32, Signal::TERM);
    }
    for (_, child) in children.iter_mut() {
        let gone = wait_until(Duration::from_secs(3), || Ok(child.try_wait()?.is_some()));
        if !matches!(gone, Ok(true)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
