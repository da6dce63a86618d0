//! The stock Ceph clients: what the tests need of them, getting it from Debian, and running the tests.
//!
//! Owns the list of packages. Refuses to install anything except as root with apt-get at hand; then it says what is
//! wanted instead.

use crate::run::{cargo, output, run, succeeds};
use anyhow::{Result, bail};

/// What has to be there, by the package that brings it.
struct Wanted {
    package: &'static str,
    /// A command that succeeds when it is there.
    probe: (&'static str, &'static [&'static str]),
}

const WANTED: [Wanted; 5] = [
    Wanted { package: "ceph-common", probe: ("rados", &["--version"]) },
    Wanted { package: "ceph-base", probe: ("crushtool", &["--help"]) },
    Wanted { package: "python3-rados", probe: (PYTHON, &["-c", "import rados"]) },
    Wanted { package: "fio", probe: ("fio", &["--enghelp=rados"]) },
    Wanted { package: "python3", probe: (PYTHON, &["--version"]) },
];

/// Debian's own Python: another one earlier on the path would not find Debian's bindings.
const PYTHON: &str = "/usr/bin/python3";

fn missing() -> Vec<&'static str> {
    let there = |wanted: &&Wanted| !succeeds(wanted.probe.0, wanted.probe.1);
    WANTED.iter().filter(there).map(|wanted| wanted.package).collect()
}

/// Installs the packages that are missing, or fails with their names.
pub(crate) fn ensure_installed() -> Result<()> {
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    let is_root = output("id", &["-u"]).is_ok_and(|id| id.trim() == "0");
    if !is_root || !succeeds("apt-get", &["--version"]) {
        bail!("the tests need Debian's packages {list}: run `apt-get install --no-install-recommends {list}` as root");
    }
    eprintln!("installing {list}");
    run("apt-get", &["update", "--quiet"])?;
    let install =
        ["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--quiet", "--no-install-recommends"];
    run("env", &[&install[..], &packages].concat())?;
    match missing().join(" ") {
        still if still.is_empty() => Ok(()),
        still => bail!("{still}: installed, yet not usable"),
    }
}

/// Runs every test of `tests/clients` against the binary as users build it.
pub(crate) fn test() -> Result<()> {
    cargo(&["build", "--release", "--quiet", "--package", "loligo"])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    run(PYTHON, &["tests/clients/run.py", "--loligo", &format!("{target}/release/loligo")])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe that fails for a program that is there would install it again on every run.
    #[test]
    fn programs_that_are_there_are_found() {
        for wanted in WANTED {
            let (program, args) = wanted.probe;
            let is_there = succeeds("sh", &["-c", &format!("command -v {program}")]);
            // A module of Python's is not told by the program's presence.
            if is_there && program != PYTHON {
                assert!(succeeds(program, args), "{program} is there and `{program} {}` fails", args.join(" "));
            }
        }
        assert!(!succeeds("a-program-that-nobody-has", &[]));
    }
}
