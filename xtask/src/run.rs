//! Starting other programs, and where the workspace is.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the workspace's Cargo.toml.
pub(crate) fn workspace_root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_owned()
}

/// Inside `cargo xtask`, CARGO names the cargo that runs us.
fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs cargo in the workspace; its output is the user's.
pub(crate) fn cargo(args: &[&str]) -> Result<()> {
    run(&cargo_program(), args)
}

/// Runs cargo with these flags for the compiler, in place of those of the environment and of cargo's configuration.
pub(crate) fn cargo_with_flags(flags: &str, args: &[&str]) -> Result<()> {
    run_with(&[("RUSTFLAGS", flags)], &cargo_program(), args)
}

/// Runs a program in the workspace; its output is the user's. Failing is an error that names the command.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    run_with(&[], program, args)
}

fn run_with(environment: &[(&str, &str)], program: &str, args: &[&str]) -> Result<()> {
    let line = format!("{program} {}", args.join(" "));
    let status = Command::new(program)
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(workspace_root())
        .status()
        .with_context(|| format!("{line} does not start"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// What a program prints.
pub(crate) fn output(program: &str, args: &[&str]) -> Result<String> {
    let line = format!("{program} {}", args.join(" "));
    let output = Command::new(program)
        .args(args)
        .current_dir(workspace_root())
        .output()
        .with_context(|| format!("{line} does not start"))?;
    if !output.status.success() {
        bail!("{line}: {}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a command succeeds, quietly.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    output(program, args).is_ok()
}
