//! Where log lines go: the daemon's file under DIR/log, or standard error for the short-lived verbs.

use anyhow::Context;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;

/// The filter's variable: `LOLIGO_LOG=debug`, `LOLIGO_LOG=osd=trace,info`.
const VARIABLE: &str = "LOLIGO_LOG";

fn filter() -> EnvFilter {
    EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Sends this process's log lines to the end of a file.
pub(crate) fn to_file(path: &Path) -> anyhow::Result<()> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("{}: cannot be written", path.display()))?;
    tracing_subscriber::fmt().with_env_filter(filter()).with_ansi(false).with_writer(Mutex::new(file)).init();
    Ok(())
}
