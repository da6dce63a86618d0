//! Known bugs put back one after the other: the runs have to find each.

use super::args::{Seeds, SimArgs};
use super::many::run_each;
use crate::cli::Format;
use anyhow::bail;
use base::Bug;
use base::planted::{BUGS, Listed};
use serde_json::json;
use std::time::Instant;
use study::Progress;

/// Within so many seeds a bug has to be found.
const SEEDS: Seeds = Seeds { first: 1, last: 1000 };

/// Characters of what found a bug that a table shows.
const SHOWN: usize = 90;

/// Says which bugs there are.
pub(crate) fn list(format: Format) {
    match format {
        Format::Plain => {
            for Listed { name, breaks, origin, .. } in BUGS.iter().filter(|listed| listed.bug.is_simulated()) {
                say!("{name:26} {breaks} ({origin})");
            }
        }
        Format::Json => {
            let one = |listed: &Listed| json!({"name": listed.name, "breaks": listed.breaks, "origin": listed.origin});
            say!("{}", json!(BUGS.iter().filter(|listed| listed.bug.is_simulated()).map(one).collect::<Vec<_>>()));
        }
    }
}

/// Looks for one bug, or for each. Fails where one is not found.
pub(crate) fn run(args: &SimArgs, bugs: &[Bug]) -> anyhow::Result<()> {
    let seeds = args.seeds.unwrap_or(SEEDS);
    let mut progress = Progress::new(bugs.len() as u64);
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    for &bug in bugs {
        let name = bug.listed().name;
        let (began, count) = (Instant::now(), seeds.last - seeds.first + 1);
        progress.say(name);
        let sum = run_each(args, seeds, Some(bug), 1, |sum| progress.part(sum.runs as f64 / count as f64))?;
        progress.run_done();
        let found = sum.failed.first();
        if found.is_none() {
            missed.push(name);
        }
        let seconds = began.elapsed().as_secs_f64();
        match (args.format, found) {
            (Format::Json, _) => rows.push(json!({
                "name": name,
                "seed": found.map(|(options, _)| options.seed),
                "runs": sum.runs,
                "found_by": found.map(|(_, why)| why),
                "seconds": seconds,
            })),
            (Format::Plain, Some((options, why))) => {
                say!("{name:26} {:>6} {seconds:>8.1} s  {}", options.seed, words_of(why));
                if bugs.len() == 1 {
                    say!("to see it again: {}", options.command());
                }
            }
            (Format::Plain, None) => say!("{name:26}      - {seconds:>8.1} s  not found in {} seeds", sum.runs),
        }
    }
    progress.clear();
    if args.format == Format::Json {
        say!("{}", json!(rows));
    }
    if missed.is_empty() { Ok(()) } else { bail!("not found: {}", missed.join(", ")) }
}

/// What found it, in a line: of an assertion the words after its place in the source.
fn words_of(why: &str) -> String {
    let mut lines = why.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let line = if first.contains("panicked at") { lines.next().unwrap_or(first) } else { first };
    line.chars().take(SHOWN).collect()
}
