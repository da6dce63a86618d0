//! What idle clients cost a cluster: starts one, and `crates/rt/examples/idle_clients.rs` beside it.
//!
//! Owns the cluster for as long as that takes: processes, a memory store, a directory under the system's temporary one
//! that is gone afterwards.

use crate::clients::{ensure_installed, release_binary};
use crate::run::{cargo, output, run};
use anyhow::{Context, Result};
use std::net::TcpListener;
use std::path::Path;

/// How many clients, where nobody says.
const CLIENTS: &str = "2000";

/// A port that nobody has at this moment.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).context("no free port")?.port())
}

/// Measures and prints.
pub(crate) fn measure(clients: Option<&str>) -> Result<()> {
    ensure_installed()?;
    let loligo = release_binary()?;
    cargo(&["build", "--release", "--quiet", "--package", "rt", "--example", "idle_clients"])?;
    let program = Path::new(&loligo).with_file_name("examples").join("idle_clients");
    let program = program.to_str().context("the target directory has a plain name")?;
    let port = free_port()?.to_string();
    let dir = std::env::temp_dir().join(format!("loligo-idle-{}", std::process::id()));
    let dir_text = dir.to_str().context("the temporary directory has a plain name")?;
    run(&loligo, &["up", "--dir", dir_text, "--store", "memory", "--processes", "--detach", "--port", &port])?;
    let measured = with_pool(dir_text, program, clients.unwrap_or(CLIENTS));
    let down = run(&loligo, &["down", "--dir", dir_text]);
    std::fs::remove_dir_all(&dir).with_context(|| format!("{dir_text} cannot be removed"))?;
    measured.and(down)
}

fn with_pool(dir: &str, program: &str, clients: &str) -> Result<()> {
    let conf = format!("{dir}/ceph.conf");
    output("ceph", &["--conf", &conf, "osd", "pool", "create", "idle", "32"])?;
    let pools = output("ceph", &["--conf", &conf, "osd", "lspools"])?;
    let line = pools.lines().find(|line| line.ends_with(" idle")).context("the pool was just made")?;
    run(program, &[dir, line.trim_end_matches(" idle"), clients])
}
