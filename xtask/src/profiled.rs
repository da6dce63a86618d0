//! The release binary for this processor, laid out for what OSDs do all day: built once to count where its code goes under
//! stock clients' reads and writes, and again by those counts (profile-guided optimisation, as rustc documents it). Where the
//! system has BOLT, that binary's code is then put in order, by counts of its own (`layout`).
//!
//! Owns `training` and `profiled` below the target directory. Refuses another compiler's tool for merging the counts:
//! it may not read their format.

use crate::clients::{ensure_installed, target};
use crate::cluster::with_cluster;
use crate::layout::{self, Bolt};
use crate::run::{cargo_with_flags, output, run, workspace_root};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// What the OSDs are counted at: fio's engine, how it calls the pattern, the size of a request, and how many are under way.
/// They take a few seconds each; the compiler takes minutes. The first of an engine has no time: it lays out what the others
/// read and overwrite.
const TRAINING: [(&str, &str, &str, &str); 9] = [
    ("rados", "write", "1m", "8"),
    ("rados", "read", "1m", "8"),
    ("rados", "randwrite", "4k", "32"),
    ("rados", "randread", "4k", "32"),
    ("rados", "randwrite", "4k", "1"),
    ("rados", "randread", "4k", "1"),
    ("rbd", "write", "1m", "8"),
    ("rbd", "randwrite", "4k", "32"),
    ("rbd", "randread", "4k", "32"),
];

/// The pool, and the image in it.
const NAME: &str = "training";

/// The code is for the processor that it is built on, whose newer instructions older ones lack.
const PROCESSOR: &str = "-Ctarget-cpu=native";

/// The system the compiler builds for, and where it lies.
struct Compiler {
    host: String,
    sysroot: PathBuf,
}

impl Compiler {
    fn of_this_build() -> Result<Self> {
        let version = output("rustc", &["--version", "--verbose"])?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names its host")?;
        Ok(Self { host: host.to_owned(), sysroot: output("rustc", &["--print", "sysroot"])?.trim_end().into() })
    }

    /// The program that merges counts, installed by rustup where it is missing.
    fn profdata(&self) -> Result<String> {
        let tool = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        if !tool.exists() && run("rustup", &["component", "add", "llvm-tools"]).is_err() {
            bail!("merging the counts takes this compiler's llvm-profdata, which rustup's component llvm-tools brings");
        }
        Ok(tool.to_str().context("the compiler lies below a plain name")?.to_owned())
    }

    /// Builds the binary with flags for its own code: naming the host keeps them from build scripts and macros.
    fn build(&self, flags: &str, directory: &str) -> Result<String> {
        let directory = format!("{}/{directory}", target());
        let wanted = ["--release", "--quiet", "--package", "loligo", "--target", &self.host];
        cargo_with_flags(flags, &[&["build"], &wanted[..], &["--target-dir", &directory]].concat())?;
        Ok(format!("{directory}/{}/release/loligo", self.host))
    }
}

/// Builds, and prints where the binary is.
pub(crate) fn build() -> Result<()> {
    ensure_installed()?;
    let compiler = Compiler::of_this_build()?;
    let profdata = compiler.profdata()?;
    let target = workspace_root().join(target());
    let counts = target.join("training/counts");
    if counts.exists() {
        std::fs::remove_dir_all(&counts).context("the counts of an earlier build cannot be removed")?;
    }
    let counts = counts.to_str().context("the target directory has a plain name")?;
    let counting = compiler.build(&format!("{PROCESSOR} -Cprofile-generate={counts}"), "training")?;
    train_with(&counting)?;
    let merged = format!("{counts}/merged.profdata");
    run(&profdata, &["merge", "--output", &merged, counts])?;
    let flags = format!("{PROCESSOR} -Cprofile-use={merged} {}", layout::LINKED_WITH);
    let binary = compiler.build(&flags, "profiled")?;
    let Some(bolt) = Bolt::of_this_system() else {
        eprintln!("no llvm-bolt here (Debian's package is bolt-22): the code stays as it was linked");
        println!("{binary}");
        return Ok(());
    };
    let laid_out = target.join("profiled/loligo");
    let laid_out = laid_out.to_str().context("the target directory has a plain name")?;
    bolt.lay_out(&binary, laid_out, &target.join("training/layout"), train_with)?;
    println!("{laid_out}");
    Ok(())
}

/// Has a stock client read and write in clusters that this binary makes, with each store.
fn train_with(binary: &str) -> Result<()> {
    ["extent", "memory"].into_iter().try_for_each(|store| with_cluster(binary, store, train))
}

/// Has stock clients read and write in a new cluster.
fn train(dir: &str) -> Result<()> {
    let conf = format!("{dir}/ceph.conf");
    let ceph = |words: &[&str]| output("ceph", &[&["--conf", &conf], words].concat());
    ceph(&["osd", "pool", "create", NAME, "32"])?;
    ceph(&["osd", "pool", "application", "enable", NAME, "rbd"])?;
    // Else librbd would gather small writes.
    ceph(&["config", "set", "client", "rbd_cache", "false"])?;
    output("rbd", &["--conf", &conf, "create", "--size", "256M", &format!("{NAME}/{NAME}")])?;
    // fio's rbd engine finds the cluster by its environment alone.
    let environment = format!("CEPH_CONF={conf}");
    for (engine, pattern, size, depth) in TRAINING {
        let objects = match engine {
            "rbd" => vec![format!("--rbdname={NAME}")],
            _ => vec![format!("--conf={conf}"), "--nrfiles=64".to_owned()],
        };
        let mut words = vec![environment.clone(), "fio".to_owned(), format!("--name={NAME}"), "--size=256m".to_owned()];
        words.extend([format!("--ioengine={engine}"), "--clientname=admin".to_owned(), format!("--pool={NAME}")]);
        words.extend(objects);
        words.extend([format!("--rw={pattern}"), format!("--bs={size}"), format!("--iodepth={depth}")]);
        if pattern != "write" {
            words.extend(["--time_based".to_owned(), "--runtime=2".to_owned()]);
        }
        output("env", &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    Ok(())
}
