//! `loligo sim`: deterministic runs of a whole cluster, and what they showed.
//!
//! One run is done here; many (`many`), with known bugs (`planted`), or a failing one made simpler, in processes of their
//! own (`worker`).

mod args;
mod many;
mod planted;
mod worker;

pub(crate) use args::SimArgs;

use crate::cli::Format;
use ::sim::{Options, shrink};
use anyhow::bail;
use base::planted::BUGS;
use std::time::Instant;
use worker::Worker;

/// Runs that are tried to make a failing one simpler.
const SHRINK_RUNS_MAX: usize = 300;

/// Runs the verb. Fails where the cluster broke a promise, or a bug is not found.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<()> {
    if args.worker {
        return worker::serve();
    }
    match (args.planted.as_deref(), args.seed, args.seeds) {
        (Some("list"), ..) => planted::list(args.format),
        (Some("all"), ..) => {
            let bugs: Vec<_> = BUGS.iter().map(|listed| listed.bug).filter(|bug| bug.is_simulated()).collect();
            return planted::run(args, &bugs);
        }
        (_, Some(seed), _) if args.shrink => return make_simpler(args, seed),
        (_, Some(seed), _) => return run_one(args, seed),
        (_, None, seeds) => match (args.bug(), seeds) {
            (Some(bug), _) => return planted::run(args, &[bug]),
            (None, Some(seeds)) => return many::run(args, seeds),
            (None, None) => bail!("--seed or --seeds says which runs"),
        },
    }
    Ok(())
}

fn run_one(args: &SimArgs, seed: u64) -> anyhow::Result<()> {
    let options = args.options(seed)?;
    if args.format == Format::Plain {
        // Said first: an engine's broken invariant ends the process where it stands.
        say!("{}", options.command());
    }
    let began = Instant::now();
    let report = ::sim::run_with_log(&options, args.log.then_some(crate::out::log_line));
    let speed = report.simulated.as_secs_f64() / began.elapsed().as_secs_f64().max(1e-9);
    match args.format {
        Format::Plain => {
            say!(
                "seed {}: {:.1} s of virtual time at {speed:.0} times real time",
                options.seed,
                report.simulated.as_secs_f64()
            );
            say!(
                "{} operations, {} without an answer, {} faults, {} events",
                report.operations,
                report.unknown,
                report.faults,
                report.events
            );
            say!("trace hash {:016x}", report.trace_hash);
        }
        Format::Json => say!(
            "{}",
            serde_json::json!({
                "seed": options.seed,
                "virtual_seconds": report.simulated.as_secs_f64(),
                "times_real_time": speed,
                "operations": report.operations,
                "unknown": report.unknown,
                "faults": report.faults,
                "events": report.events,
                "trace_hash": format!("{:016x}", report.trace_hash),
                "failures": report.failures,
            })
        ),
    }
    match report.failures.as_slice() {
        [] => Ok(()),
        [first, more @ ..] => bail!("{first} (and {} more); to see it again: {}", more.len(), report.command),
    }
}

/// Prints the simplest run found that fails as the one of this seed does.
fn make_simpler(args: &SimArgs, seed: u64) -> anyhow::Result<()> {
    let options = args.options(seed)?;
    let (mut worker, mut trouble) = (Worker::default(), None);
    let mut why = None;
    let mut fails = |options: &Options| match worker.run(options) {
        Ok(ran) => {
            let first = ran.failures.into_iter().next();
            let failed = first.is_some();
            why = first.or(why.take());
            failed
        }
        Err(error) => {
            trouble = Some(error);
            false
        }
    };
    if !fails(&options) {
        return trouble.map_or_else(
            || {
                say!("{} does not fail", options.command());
                Ok(())
            },
            Err,
        );
    }
    let simplest = shrink(&options, SHRINK_RUNS_MAX, &mut fails);
    say!("{}", simplest.command());
    bail!("{}", why.unwrap_or_default())
}
