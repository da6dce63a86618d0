//! Code in the order in which it runs, by BOLT, LLVM's post-link optimizer: a linker keeps functions in one piece, and
//! what is hardly ever run lies between what always is.
//!
//! Owns its programs' arguments. Refuses to say what a binary is to be counted at.

use crate::run::{output, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// What a binary has to be linked with, so that its functions can be moved.
pub(crate) const LINKED_WITH: &str = "-Clink-arg=-Wl,--emit-relocs";

/// How systems tell releases of LLVM apart in the names of its programs: not at all, or as Debian does. Its release 19 does
/// not find the library that counts.
const RELEASES: [&str; 2] = ["", "-22"];

/// How code is laid out: blocks that follow each other, functions that call each other, and the cold parts of both
/// elsewhere. What tells lines of source from it moves along.
const WAYS: [&str; 5] = [
    "--reorder-blocks=ext-tsp",
    "--reorder-functions=cdsort",
    "--split-functions",
    "--split-all-cold",
    "--update-debug-sections",
];

/// BOLT as the system has it.
pub(crate) struct Bolt {
    release: &'static str,
}

impl Bolt {
    /// The one that there is, if any.
    pub(crate) fn of_this_system() -> Option<Bolt> {
        let runs = |program: String| output(&program, &["--version"]).is_ok();
        let has = |release: &&str| runs(format!("llvm-bolt{release}")) && runs(format!("merge-fdata{release}"));
        RELEASES.into_iter().find(has).map(|release| Bolt { release })
    }

    /// Writes a copy of a binary to `laid_out`, in order of how often its parts run while `train` works with one that counts.
    /// The counts go to a directory that is made anew.
    pub(crate) fn lay_out(
        &self,
        binary: &str,
        laid_out: &str,
        counts: &Path,
        train: impl Fn(&str) -> Result<()>,
    ) -> Result<()> {
        if counts.exists() {
            fs::remove_dir_all(counts).context("the counts of an earlier build cannot be removed")?;
        }
        fs::create_dir_all(counts)?;
        let inside = |name: &str| counts.join(name).to_str().map(str::to_owned).context("the counts have plain names");
        let (bolt, merge) = (format!("llvm-bolt{}", self.release), format!("merge-fdata{}", self.release));
        let counting = inside("loligo")?;
        let processes = inside("process")?;
        fs::create_dir(&processes)?;
        // Each process of the cluster writes a file of its own when it ends.
        let file = format!("--instrumentation-file={processes}/counts");
        output(&bolt, &[binary, "--instrument", &file, "--instrumentation-file-append-pid", "-o", &counting])?;
        train(&counting)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(&processes)? {
            files.push(inside(&format!("process/{}", entry?.file_name().to_string_lossy()))?);
        }
        let merged = inside("merged")?;
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        output(&merge, &[&["-o", &merged], &files[..]].concat())?;
        output(&bolt, &[&[binary, "--data", &merged, "-o", laid_out], &WAYS[..]].concat())?;
        // One that does not start is found here, not on the machine that is to serve.
        run(laid_out, &["--version"])
    }
}
