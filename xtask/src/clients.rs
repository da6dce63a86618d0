//! The stock Ceph clients: what the tests need of them, getting it from Debian, and running the tests.
//!
//! Owns the reading of tests/clients/packages.txt, the list of packages that .ci/run reads too. Refuses to install
//! anything except as root with apt-get at hand; then it says what is wanted instead.

use crate::run::{cargo, output, run, succeeds};
use anyhow::{Result, bail};

/// What has to be there, by the package that brings it.
struct Wanted {
    package: &'static str,
    /// A shell command that succeeds when it is there.
    probe: &'static str,
}

const PACKAGES: &str = include_str!("../../tests/clients/packages.txt");

/// Debian's own Python: another one earlier on the path would not find Debian's bindings.
const PYTHON: &str = "/usr/bin/python3";

fn wanted() -> impl Iterator<Item = Wanted> {
    let lines = PACKAGES.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(package, probe)| Wanted { package, probe: probe.trim() })
}

fn is_there(wanted: &Wanted) -> bool {
    succeeds("sh", &["-c", wanted.probe])
}

fn missing() -> Vec<&'static str> {
    wanted().filter(|wanted| !is_there(wanted)).map(|wanted| wanted.package).collect()
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
    run(PYTHON, &["tests/clients/run.py", "--loligo", &release_binary()?])
}

/// Runs the tests, or some of them, with the clients of another release of Debian, which are unpacked below the target
/// directory the first time. Needs root: they run with that directory as their root.
pub(crate) fn test_with_release(suite: &str, tests: &[&str]) -> Result<()> {
    let binary = release_binary()?;
    let root = format!("{}/clients-of-{suite}", target());
    let packages: Vec<_> = wanted().map(|wanted| wanted.package).collect();
    if !succeeds("test", &["-e", &format!("{root}/usr/bin/rados")]) {
        if !succeeds("debootstrap", &["--version"]) {
            bail!("unpacking another Debian needs debootstrap: run `apt-get install debootstrap` as root");
        }
        // A release that debootstrap does not know yet is unpacked as the newest that it does.
        let known = format!("/usr/share/debootstrap/scripts/{suite}");
        let script = if succeeds("test", &["-e", &known]) { suite } else { "sid" };
        let script = format!("/usr/share/debootstrap/scripts/{script}");
        let made = format!("{root}.part");
        run("rm", &["-rf", &made])?;
        // From where this machine has its packages.
        let sources = output("apt-get", &["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"])?;
        let from = sources.lines().find(|source| !source.contains("security")).unwrap_or_default();
        run("debootstrap", &["--variant=minbase", suite, &made, from, &script])?;
        // Packages set themselves up with the machine's devices at hand, which a plain debootstrap does not give them.
        let install = "mount --rbind /dev $0/dev && mount -t proc proc $0/proc && \
            DEBIAN_FRONTEND=noninteractive exec chroot $0 \
            apt-get install --yes --quiet --no-install-recommends \"$@\"";
        run("unshare", &[&["--mount", "sh", "-c", install, &made], &packages[..]].concat())?;
        run("mv", &[&made, &root])?;
    }
    run(PYTHON, &[&["tests/clients/run.py", "--loligo", &binary, "--root", &root], tests].concat())
}

/// Runs random operations of several clients, by default for two minutes in each msgr mode. `script` in tests/clients
/// knows which.
pub(crate) fn stress(script: &str, args: &[&str]) -> Result<()> {
    let binary = release_binary()?;
    let script = format!("tests/clients/{script}");
    run(PYTHON, &[&[script.as_str(), "--loligo", &binary], args].concat())
}

/// Builds the binary as users build it, and says where it is.
pub(crate) fn release_binary() -> Result<String> {
    cargo(&["build", "--release", "--quiet", "--package", "loligo"])?;
    Ok(format!("{}/release/loligo", target()))
}

/// Where cargo builds.
pub(crate) fn target() -> String {
    std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe that fails for a program that is there would install it again on every run.
    #[test]
    fn programs_that_are_there_are_found() {
        assert!(wanted().count() > 5, "the list of packages is read");
        for wanted in wanted() {
            let program = wanted.probe.split(' ').next().unwrap_or_default();
            // Neither a module of Python's nor a header is told by a program's presence.
            if program != PYTHON && program != "test" && succeeds("sh", &["-c", &format!("command -v {program}")]) {
                assert!(is_there(&wanted), "{program} is there and `{}` fails", wanted.probe);
            }
        }
        assert!(!is_there(&Wanted { package: "nothing", probe: "a-program-that-nobody-has" }));
    }
}
