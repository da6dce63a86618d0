//! `loligo`: a storage cluster for stock Ceph clients, in one binary.
//!
//! Owns the command line, a cluster's directory, processes and logs. No logic worth a unit test of its own lives here
//! beyond reading and writing files: engines decide, `rt` drives them.
//!
//! Read next: `cli` (the verbs), `up` (the main one), `daemons` (from a directory to running daemons).
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod out;

#[cfg(feature = "jemalloc")]
mod allocator;
mod cli;
mod cluster_dir;
mod conf;
mod daemons;
mod down;
mod images;
mod join;
mod layout;
mod logging;
mod qos;
mod reach;
mod readiness;
mod servers;
mod sim;
mod status;
mod store_verbs;
mod study;
mod top;
mod up;

use clap::Parser;
use cli::{Cli, Verb};
use cluster_dir::ClusterDir;
use std::process::ExitCode;

fn run(verb: &Verb) -> anyhow::Result<()> {
    if matches!(verb, Verb::Up(_) | Verb::Mon(_) | Verb::Osd(_) | Verb::Serve(_)) {
        out::serve();
    }
    match verb {
        Verb::Up(args) => up::run(args),
        Verb::Down(args) => down::run(&ClusterDir::new(&args.dir)?),
        Verb::Status(args) => status::run(&ClusterDir::new(&args.dir)?, args.format),
        Verb::Mon(args) => daemons::run_mon(&ClusterDir::new(&args.dir)?),
        Verb::Osd(args) => daemons::run_osd(&ClusterDir::new(&args.dir)?, args),
        Verb::Fsck(args) => store_verbs::fsck(args),
        Verb::Store(verb) => store_verbs::store(verb),
        Verb::Sim(args) => sim::run(args),
        Verb::Qos(verb) => qos::run(verb),
        Verb::Top(args) => top::run(args),
        Verb::Study(args) => study::run(args),
        Verb::Serve(args) => daemons::run_embedded(&ClusterDir::new(&args.dir)?),
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, causes after colons.
            out::complain(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
