//! `loligo down`: stops the cluster of a directory cleanly.

use crate::cluster_dir::ClusterDir;
use crate::servers;
use anyhow::bail;

/// Runs the verb. A cluster that does not run is a success: it is down.
pub(crate) fn run(dir: &ClusterDir) -> anyhow::Result<()> {
    if !dir.is_laid_out() {
        bail!("{}: no cluster here", dir.root().display());
    }
    let running = dir.running()?;
    servers::stop(dir, &running)?;
    dir.sweep_stale_pid_files()?;
    match running.len() {
        0 => say!("Nothing was running in {}.", dir.root().display()),
        _ => say!("Stopped: {}.", running.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
    Ok(())
}
