#!/usr/bin/python3
"""Runs the tests with real Ceph clients against Loligo in every shape it comes in, or against any running cluster.

    run.py --loligo PATH [--shape SHAPE]... [TEST]...     starts clusters with the binary PATH
    run.py --conf CEPH_CONF [TEST]...                      uses a cluster that runs, such as a real Ceph

With --root DIR the clients are those of another Debian release that lies in DIR (`cargo xtask clients-of SUITE` makes
one); tests that start clusters of their own are left out.

TEST is a module beside this file, `test_rados_cli`; without any, all run. A shape is how daemons are placed and how
clients connect: embedded-crc, embedded-secure, processes-crc, processes-secure; those that encrypt keep their objects
in memory, the others on disk. Without any, all run, except that tests of what operators do and of recovery, which take
long, run in two that differ in everything. Tests whose name ends in `_own` start clusters of their own and run once;
those in `_once`, which take long and to which it makes no difference how clients connect, run in the first shape only.
Ends with 'N passed, N failed, N skipped' and exits non-zero if any failed.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import harness  # noqa: E402

SHAPES = {
    "embedded-crc": ([], "crc"),
    "embedded-secure": (["--store", "memory"], "secure"),
    "processes-crc": (["--processes"], "crc"),
    "processes-secure": (["--processes", "--store", "memory"], "secure"),
}
# What hardly depends on how clients connect, by how the names of the tests begin, and the shapes that it runs in.
OPERATING = ("test_ceph_cli", "test_operability", "test_operator", "test_recovery", "test_tenants")
OPERATED = ("embedded-secure", "processes-crc")


def modules(chosen):
    found = sorted(p.stem for p in HERE.glob("test_*.py"))
    unknown = set(chosen) - set(found)
    if unknown:
        sys.exit(f"run.py: no such tests: {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return [m for m in found if not chosen or m in chosen]


def inside(root, command):
    """A command as it runs with a directory as its root, where this machine's devices, /tmp and the tests appear too. Its
    mounts are its own and end with it."""
    shared = ["/dev", "/proc", "/sys", "/tmp", str(HERE)]
    binds = "".join(f'mkdir -p "$0{path}" && mount --rbind {path} "$0{path}" && ' for path in shared)
    enter = f'exec chroot "$0" sh -c \'cd {HERE} && exec "$0" "$@"\' "$@"'
    return ["unshare", "--mount", "sh", "-c", binds + enter, str(root), *command]


class Tally:
    """Counts over all runs of the suite."""

    def __init__(self, root=None):
        self.root = root
        self.passed = self.failed = self.skipped = 0

    def run(self, label, module):
        print(f"== {module} on {label}", flush=True)
        began = time.monotonic()
        # A process each: librados reads its configuration once.
        command = ["/usr/bin/python3", "-m", "unittest", "-v", module]
        if self.root:
            command = inside(self.root, command)
        done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=1200)
        sys.stdout.write(done.stderr)
        counts = harness.unittest_counts(done.stderr)
        if done.returncode and not counts["failed"]:
            counts["failed"] = 1
        self.passed += counts["passed"]
        self.failed += counts["failed"]
        self.skipped += counts["skipped"]
        print(f"== {module} on {label}: {time.monotonic() - began:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path)
    parser.add_argument("--conf", type=Path)
    parser.add_argument("--shape", action="append", choices=list(SHAPES))
    parser.add_argument("--root", type=Path)
    parser.add_argument("tests", nargs="*", metavar="TEST")
    args = parser.parse_args()
    if bool(args.loligo) == bool(args.conf):
        parser.error("exactly one of --loligo and --conf is needed")
    chosen, tally = modules(args.tests), Tally(args.root and args.root.resolve())
    shared = [m for m in chosen if not m.endswith("_own")]
    with tempfile.TemporaryDirectory(prefix="loligo-test-build-") as build:
        # Where tests put what they compile, once for all clusters.
        os.environ["TEST_BUILD_DIR"] = build
        run_all(args, chosen, shared, tally)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    sys.exit(1 if tally.failed or not tally.passed else 0)


def run_all(args, chosen, shared, tally):
    if args.conf:
        os.environ["CEPH_CONF"] = str(args.conf.resolve())
        for module in shared:
            tally.run(args.conf, module)
    else:
        os.environ["LOLIGO"] = str(args.loligo.resolve())
        for module in (m for m in chosen if m.endswith("_own") and not args.root):
            tally.run("its own clusters", module)
        for number, shape in enumerate((args.shape or SHAPES) if shared else []):
            flags, mode = SHAPES[shape]
            here = [m for m in shared if number == 0 or not m.endswith("_once")]
            if not args.shape and shape not in OPERATED:
                here = [m for m in here if not m.startswith(OPERATING)]
            if not here:
                continue
            with tempfile.TemporaryDirectory(prefix="loligo-test-") as parent:
                with harness.running(Path(parent) / "c", *flags, options={"ms_client_mode": mode}) as cluster:
                    os.environ["CEPH_CONF"] = str(cluster.conf)
                    for module in here:
                        tally.run(shape, module)


if __name__ == "__main__":
    main()
