//! A cluster of processes for a chore, below the system's temporary directory and gone afterwards.

use crate::run::run;
use anyhow::{Context, Result};
use std::net::TcpListener;

/// A port that nobody has at this moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).context("no free port")?.port())
}

/// Starts a cluster of processes, lets `chore` have its directory, and stops it; by then, every daemon has ended by
/// itself. `store` is what `up` knows by that word.
pub(crate) fn with_cluster(loligo: &str, store: &str, chore: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    let port = free_port()?.to_string();
    let path = std::env::temp_dir().join(format!("loligo-chore-{}-{port}", std::process::id()));
    let dir = path.to_str().context("the temporary directory has a plain name")?;
    let started = run(loligo, &["up", "--dir", dir, "--store", store, "--processes", "--detach", "--port", &port]);
    let done = started.and_then(|()| chore(dir));
    let down = run(loligo, &["down", "--dir", dir]);
    let removed = std::fs::remove_dir_all(&path).with_context(|| format!("{dir} cannot be removed"));
    // The first failure is the cause; later ones follow from it.
    done.and(down).and(removed)
}
