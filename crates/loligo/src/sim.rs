//! `loligo sim`: one deterministic run of a whole cluster, and what it showed.

use crate::cli::{Format, SimArgs};
use ::sim::Options;
use anyhow::bail;
use std::time::{Duration, Instant};

/// Runs the verb. Fails where the cluster broke a promise.
pub(crate) fn run(args: &SimArgs) -> anyhow::Result<()> {
    let options = options(args);
    if options.pool_size > options.osds {
        bail!("--pool-size {} needs as many OSDs, there are {}", options.pool_size, options.osds);
    }
    if args.format == Format::Plain {
        // Said first: an engine's broken invariant ends the process where it stands.
        println!("{}", options.command());
    }
    let began = Instant::now();
    let report = ::sim::run(&options);
    let speed = report.simulated.as_secs_f64() / began.elapsed().as_secs_f64().max(1e-9);
    match args.format {
        Format::Plain => {
            println!(
                "seed {}: {:.1} s of virtual time at {speed:.0} times real time",
                options.seed,
                report.simulated.as_secs_f64()
            );
            println!(
                "{} operations, {} without an answer, {} faults",
                report.operations, report.unknown, report.faults
            );
            println!("trace hash {:016x}", report.trace_hash);
        }
        Format::Json => println!(
            "{}",
            serde_json::json!({
                "seed": options.seed,
                "virtual_seconds": report.simulated.as_secs_f64(),
                "times_real_time": speed,
                "operations": report.operations,
                "unknown": report.unknown,
                "faults": report.faults,
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

fn options(args: &SimArgs) -> Options {
    let usual = Options::new(args.seed);
    Options {
        osds: args.osds.unwrap_or(usual.osds),
        clients: args.clients.unwrap_or(usual.clients),
        objects: args.objects.unwrap_or(usual.objects),
        depth: args.depth.unwrap_or(usual.depth),
        think: args.think_ms.map_or(usual.think, Duration::from_millis),
        pool_size: args.pool_size.unwrap_or(usual.pool_size),
        pg_num: args.pg_num.unwrap_or(usual.pg_num),
        duration: args.seconds.map_or(usual.duration, Duration::from_secs),
        fault_every: args.fault_every_ms.map_or(usual.fault_every, Duration::from_millis),
        faults: !args.no_faults,
        log_entries: args.log_entries.unwrap_or(usual.log_entries),
        recovery_sleep: args.recovery_sleep_ms.map_or(usual.recovery_sleep, Duration::from_millis),
        secure: args.secure,
        ..usual
    }
}
