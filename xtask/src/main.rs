//! The project's chores, as `cargo xtask VERB`.
//!
//! Owns what has to pass before a commit and in CI: format, lints, house rules, tests, tests with real Ceph clients.
//! Refuses to be clever about building: cargo does that. Only `fix` rewrites files.
//!
//! Read next: `tidy` for the house rules, `clients` for what the tests with real clients need.
#![forbid(unsafe_code)]

mod clients;
mod cluster;
mod idle;
mod layout;
mod profiled;
mod run;
mod tidy;

use anyhow::{Result, bail};
use run::{cargo, workspace_root};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask VERB
  verify           reads only: format, clippy with warnings denied, tidy
  fix              rewrites: format, clippy's own suggestions
  tidy             the house rules that a machine can hold
  profiled         the release binary for this processor, built by counts of where its code goes under stock clients:
                   15 to 20% less CPU for twice the building
  idle [CLIENTS]   what so many idle clients (2000) cost a cluster's servers, and a client that works beside them
  test [WHICH...]  everything, or some of: unit (cargo test of the workspace), clients (the stock Ceph clients against
                   a live cluster; installs them from Debian where it may)
  clients-of SUITE [TEST...]
                   the same tests with the clients of another Debian release, such as trixie (18.2) or forky (20.2)
  stress [ARGS...] random operations of several clients, verified, minutes long: ARGS are those of
                   tests/clients/stress_rados.py, such as --seconds 600 --seed 1
  stress-rbd [ARGS...]
                   writers of one block image among snapshots, clones, resizes and kill -9, verified, minutes long:
                   ARGS are those of tests/clients/stress_rbd.py
  stress-kill [ARGS...]
                   all daemons killed with -9 again and again under fio with verification, fsck after each: ARGS are
                   those of tests/clients/stress_kill.py, such as --rounds 200
  extent-figures [ARGS...]
                   how the extent store restarts, how steady its latency is, how close it is to the disk, on this machine:
                   ARGS are those of tests/clients/extent_figures.py, such as steady --seconds 120
  kill-pauses [ARGS...]
                   the longest request that a client at depth 1 sees when one of four OSDs is killed with -9, by default 8
                   times, and when it comes back; or the same of any running cluster: ARGS are those of
                   tests/clients/kill_pauses.py
  recovery-speed [ARGS...]
                   how fast an OSD that was away gets what it has missed, beside copying the same bytes by hand, and the CPU
                   that it takes; or the same of any running cluster: ARGS are those of tests/clients/recovery_speed.py
  recovery-peers [ARGS...]
                   what a client keeps and how fast OSDs recover under WPQ and each of mClock's profiles, of Loligo and real
                   Ceph in turn, on loop devices slowed down alike; needs root: ARGS are those of
                   tests/clients/recovery_peers.py, such as --iops 600
  learnt-capacity [ARGS...]
                   how fast and how well an OSD learns what its device can do that becomes five times slower and faster again
                   while a client writes; needs root: ARGS are those of tests/clients/learnt_capacity.py, such as --depth 16
  thrash [ARGS...] OSDs killed, stopped, restarted, marked out and in and replaced while pools get more and fewer placement
                   groups, under fio with verification and clients with models: ARGS are those of tests/clients/thrash.py,
                   such as --seconds 600
  planted [ARGS...]
                   known bugs put back one by one, which simulated runs have to find within 1000 seeds: ARGS are those of
                   `loligo sim`, such as --seeds 100 or --planted NAME";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match verb(&words) {
        Ok(()) => ExitCode::SUCCESS,
        // The line alone: a backtrace through us says nothing about what is wrong.
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn verb(words: &[&str]) -> Result<()> {
    match *words {
        ["verify"] => verify(),
        ["fix"] => fix(),
        ["tidy"] => tidy_tree(),
        ["profiled"] => profiled::build(),
        ["idle"] => idle::measure(None),
        ["idle", clients] => idle::measure(Some(clients)),
        ["test"] => test(&["unit", "clients"]),
        ["test", ref which @ ..] => test(which),
        ["clients-of", suite, ref tests @ ..] => clients::test_with_release(suite, tests),
        ["stress", ref args @ ..] => stress("stress_rados.py", args),
        ["stress-kill", ref args @ ..] => stress("stress_kill.py", args),
        ["extent-figures", ref args @ ..] => stress("extent_figures.py", args),
        ["recovery-speed", ref args @ ..] => stress("recovery_speed.py", args),
        ["recovery-peers", ref args @ ..] => stress("recovery_peers.py", args),
        ["learnt-capacity", ref args @ ..] => stress("learnt_capacity.py", args),
        ["kill-pauses", ref args @ ..] => stress("kill_pauses.py", args),
        ["thrash", ref args @ ..] => stress("thrash.py", args),
        ["planted", ref args @ ..] => planted(args),
        ["stress-rbd", ref args @ ..] => stress("stress_rbd.py", args),
        _ => bail!("{USAGE}"),
    }
}

fn verify() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    tidy_tree()
}

fn fix() -> Result<()> {
    cargo(&["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged", "--quiet"])?;
    cargo(&["fmt", "--all"])
}

fn stress(script: &str, args: &[&str]) -> Result<()> {
    clients::ensure_installed()?;
    clients::stress(script, args)
}

/// Has simulated runs look for known bugs, all of them unless one is named.
fn planted(args: &[&str]) -> Result<()> {
    let all: &[&str] = if args.contains(&"--planted") { &[] } else { &["--planted", "all"] };
    cargo(&[&["run", "--release", "--quiet", "--package", "loligo", "--", "sim"], all, args].concat())
}

fn tidy_tree() -> Result<()> {
    let complaints = tidy::tidy(&workspace_root())?;
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => Ok(()),
        count => bail!("tidy: {count} complaint(s)"),
    }
}

fn test(which: &[&str]) -> Result<()> {
    if let Some(unknown) = which.iter().find(|which| !["unit", "clients"].contains(which)) {
        bail!("test: there is no '{unknown}'\n{USAGE}");
    }
    // The unit tests ask Ceph's tools too (crushtool, osdmaptool), so these come first in any case.
    clients::ensure_installed()?;
    if which.contains(&"unit") {
        cargo(&["test", "--workspace", "--quiet"])?;
    }
    if which.contains(&"clients") {
        clients::test()?;
    }
    Ok(())
}
