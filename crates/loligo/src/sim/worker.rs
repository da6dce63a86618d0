//! Runs in processes beside this one: an assertion of an engine ends the process where it stands, and the others go on.
//!
//! A worker reads command lines from standard input, one a line, and answers each with a line of JSON.

use super::args::SimArgs;
use ::sim::Options;
use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

/// What a run in another process came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    /// Virtual time that passed.
    pub(crate) virtual_seconds: f64,
    /// Processor time or less, that it took.
    pub(crate) real_seconds: f64,
    pub(crate) operations: u64,
    pub(crate) unknown: u64,
    pub(crate) faults: u64,
    /// What was wrong.
    pub(crate) failures: Vec<String>,
}

/// The worker's side.
pub(crate) fn serve() -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        let args = SimArgs::try_parse_from(line?.split_whitespace().skip(1))?;
        let began = Instant::now();
        let report = ::sim::run(&args.options(args.seed.unwrap_or_default())?);
        let answer = json!({
            "virtual_seconds": report.simulated.as_secs_f64(),
            "real_seconds": began.elapsed().as_secs_f64(),
            "operations": report.operations,
            "unknown": report.unknown,
            "faults": report.faults,
            "failures": report.failures,
        });
        say!("{answer}");
    }
    Ok(())
}

/// A worker as its master sees it; begun anew when it has died.
#[derive(Default)]
pub(crate) struct Worker {
    running: Option<Running>,
}

struct Running {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// What it has complained of.
    complaints: JoinHandle<String>,
}

impl Running {
    fn start() -> anyhow::Result<Running> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["sim", "--worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("a worker cannot be started")?;
        let (to, from, complaints) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(to), Some(from), Some(complaints)) = (to, from, complaints) else {
            unreachable!("all are asked for")
        };
        // Read as it comes: a worker must never wait for somebody to hear it.
        let complaints = std::thread::spawn(move || std::io::read_to_string(complaints).unwrap_or_default());
        Ok(Running { child, to, from: BufReader::new(from), complaints })
    }
}

impl Worker {
    /// Carries out a run; one that ends its process has failed by what that wrote last.
    pub(crate) fn run(&mut self, options: &Options) -> anyhow::Result<Ran> {
        let began = Instant::now();
        let mut running = match self.running.take() {
            Some(running) => running,
            None => Running::start()?,
        };
        let mut line = String::new();
        writeln!(running.to, "{}", options.command())?;
        running.from.read_line(&mut line)?;
        if let Ok(answer) = serde_json::from_str(&line) {
            self.running = Some(running);
            return Ok(read(&answer));
        }
        running.child.wait()?;
        let complaints = running.complaints.join().unwrap_or_default();
        let real_seconds = began.elapsed().as_secs_f64();
        Ok(Ran { real_seconds, failures: vec![complaints.trim().to_owned()], ..Ran::default() })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(Running { mut child, to, .. }) = self.running.take() {
            // The end of its input is the end of its work.
            drop(to);
            drop(child.wait());
        }
    }
}

fn read(answer: &Value) -> Ran {
    let number = |name: &str| answer[name].as_u64().unwrap_or_default();
    let failures = answer["failures"].as_array().into_iter().flatten();
    Ran {
        virtual_seconds: answer["virtual_seconds"].as_f64().unwrap_or_default(),
        real_seconds: answer["real_seconds"].as_f64().unwrap_or_default(),
        operations: number("operations"),
        unknown: number("unknown"),
        faults: number("faults"),
        failures: failures.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}
