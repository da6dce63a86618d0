//! What idle clients cost a cluster: starts one, and `crates/rt/examples/idle_clients.rs` beside it.

use crate::clients::{ensure_installed, release_binary};
use crate::cluster::with_cluster;
use crate::run::{cargo, output, run};
use anyhow::{Context, Result};
use std::path::Path;

/// How many clients, where nobody says.
const CLIENTS: &str = "2000";

/// Measures and prints.
pub(crate) fn measure(clients: Option<&str>) -> Result<()> {
    ensure_installed()?;
    let loligo = release_binary()?;
    cargo(&["build", "--release", "--quiet", "--package", "rt", "--example", "idle_clients"])?;
    let program = Path::new(&loligo).with_file_name("examples").join("idle_clients");
    let program = program.to_str().context("the target directory has a plain name")?;
    with_cluster(&loligo, "memory", |dir| {
        let conf = format!("{dir}/ceph.conf");
        output("ceph", &["--conf", &conf, "osd", "pool", "create", "idle", "32"])?;
        let pools = output("ceph", &["--conf", &conf, "osd", "lspools"])?;
        let line = pools.lines().find(|line| line.ends_with(" idle")).context("the pool was just made")?;
        run(program, &[dir, line.trim_end_matches(" idle"), clients.unwrap_or(CLIENTS)])
    })
}
