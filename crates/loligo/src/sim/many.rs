//! Many runs, one for each seed of a range, on all processors.

use super::args::{Seeds, SimArgs};
use super::worker::{Ran, Worker};
use crate::cli::Format;
use ::sim::Options;
use anyhow::bail;
use base::Bug;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;
use study::Progress;

/// Failures that are printed; of the others, only how many there are.
const PRINTED_MAX: usize = 20;

/// What many runs came to.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    pub(crate) runs: u64,
    pub(crate) virtual_seconds: f64,
    pub(crate) run_seconds: f64,
    pub(crate) operations: u64,
    pub(crate) unknown: u64,
    pub(crate) faults: u64,
    /// What failed, and why.
    pub(crate) failed: Vec<(Options, String)>,
}

impl Sum {
    fn add(&mut self, options: Options, ran: Ran) {
        self.runs += 1;
        self.virtual_seconds += ran.virtual_seconds;
        self.run_seconds += ran.real_seconds;
        self.operations += ran.operations;
        self.unknown += ran.unknown;
        self.faults += ran.faults;
        if let Some(first) = ran.failures.into_iter().next() {
            self.failed.push((options, first));
        }
    }
}

/// Runs each seed, `seen` with what each came to, until `enough` have failed.
pub(crate) fn run_each(
    args: &SimArgs,
    seeds: Seeds,
    bug: Option<Bug>,
    enough: usize,
    mut seen: impl FnMut(&Sum),
) -> anyhow::Result<Sum> {
    let jobs = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |n| n as usize);
    let (next, stop) = (AtomicU64::new(seeds.first), AtomicBool::new(false));
    let (results, come) = mpsc::channel::<anyhow::Result<(Options, Ran)>>();
    let mut sum = Sum::default();
    let mut trouble = None;
    std::thread::scope(|scope| {
        for results in vec![results; jobs] {
            let (next, stop) = (&next, &stop);
            scope.spawn(move || {
                let mut worker = Worker::default();
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds.last {
                        break;
                    }
                    let ran = args.options(seed).and_then(|drawn| {
                        let options = Options { planted: bug, ..drawn };
                        let ran = worker.run(&options)?;
                        Ok((options, ran))
                    });
                    if results.send(ran).is_err() {
                        break;
                    }
                }
            });
        }
        for result in come {
            match result {
                Ok((options, ran)) => sum.add(options, ran),
                Err(error) => trouble = trouble.take().or(Some(error)),
            }
            seen(&sum);
            if sum.failed.len() >= enough || trouble.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    sum.failed.sort_by_key(|(options, _)| options.seed);
    trouble.map_or(Ok(sum), Err)
}

/// Runs the verb with a range of seeds. Fails where one of them does.
pub(crate) fn run(args: &SimArgs, seeds: Seeds) -> anyhow::Result<()> {
    let (began, count) = (Instant::now(), seeds.last - seeds.first + 1);
    let progress = Progress::new(1);
    let sum = run_each(args, seeds, args.bug(), usize::MAX, |sum| {
        progress.part(sum.runs as f64 / count as f64);
        progress.say(&format!("{} of {count} seeds, {} failed", sum.runs, sum.failed.len()));
    })?;
    progress.clear();
    let elapsed = began.elapsed().as_secs_f64();
    let (per_second, per_run) = (sum.virtual_seconds / elapsed, sum.virtual_seconds / sum.run_seconds.max(1e-9));
    let short = |why: &str| why.lines().next().unwrap_or_default().to_owned();
    match args.format {
        Format::Plain => {
            for (options, why) in sum.failed.iter().take(PRINTED_MAX) {
                say!("seed {} failed: {}\n  {}", options.seed, short(why), options.command());
            }
            say!(
                "{} seeds, {} failed, in {elapsed:.1} s: {:.0} s of virtual time, {per_second:.0} per second, {per_run:.0} per \
                 second and run",
                sum.runs,
                sum.failed.len(),
                sum.virtual_seconds
            );
            say!("{} operations, {} without an answer, {} faults", sum.operations, sum.unknown, sum.faults);
        }
        Format::Json => {
            let failed = sum.failed.iter().map(|(options, why)| json!({"command": options.command(), "why": why}));
            say!(
                "{}",
                json!({
                    "seeds": sum.runs,
                    "failed": failed.collect::<Vec<_>>(),
                    "real_seconds": elapsed,
                    "virtual_seconds": sum.virtual_seconds,
                    "times_real_time": per_second,
                    "times_real_time_per_run": per_run,
                    "operations": sum.operations,
                    "unknown": sum.unknown,
                    "faults": sum.faults,
                })
            );
        }
    }
    match sum.failed.len() {
        0 => Ok(()),
        count => bail!("{count} of {} seeds failed", sum.runs),
    }
}
