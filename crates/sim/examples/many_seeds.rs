//! Runs many seeds, one after the other, and says which of them fail: `many_seeds FIRST COUNT [FAULT_EVERY_MS]`.

use base::Duration;
use sim::{Options, run};

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let (&first, &count) = (args.first().unwrap_or(&0), args.get(1).unwrap_or(&10));
    let mut failed = 0;
    for seed in first..first + count {
        let mut options = Options::new(seed);
        if let Some(ms) = args.get(2) {
            options.fault_every = Duration::from_millis(*ms);
        }
        let result = std::panic::catch_unwind(|| run(&options));
        let trouble = match &result {
            Ok(report) => report.failures.first().cloned(),
            Err(_) => Some("an assertion of an engine failed".to_owned()),
        };
        if let Some(trouble) = trouble {
            failed += 1;
            println!("seed {seed}: {trouble}\n  {}", options.command());
        }
    }
    println!("{failed} of {count} seeds failed");
}
