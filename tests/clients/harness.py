"""What the client tests share: starting Loligo, running Ceph's tools, waiting for conditions.

CEPH_CONF names the cluster under test; LOLIGO the binary, for tests that start clusters of their own.
"""
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TOOL_SECONDS = 120


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*command, check=True, conf=None, seconds=TOOL_SECONDS, **kwargs):
    """Runs a tool against the cluster; returns the finished process with text output."""
    env = dict(os.environ, CEPH_ARGS="")
    if conf:
        env["CEPH_CONF"] = str(conf)
    kwargs.setdefault("text", True)
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, timeout=seconds, **kwargs)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


@functools.cache
def client_release():
    """The major version of the clients here: 16, 18, 20."""
    return int(re.search(r"ceph version (\d+)", run("rados", "--version").stdout).group(1))


def ceph_json(*command):
    """The answer of `ceph ... -f json`, parsed."""
    return json.loads(run("ceph", *command, "-f", "json").stdout)


def wait_for(condition, what, seconds=60, period=0.05):
    """Waits until condition() is true, and returns its value; fails with `what` after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what}")
        time.sleep(period)


def stop_process(pid):
    """Stops a process with SIGSTOP, and returns when each of its threads stands still: the signal itself is answered by one
    thread at a time, and what the others have to do goes on for as long as that one waits for a processor."""
    def stands(thread):
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"

    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(map(stands, Path(f"/proc/{pid}/task").iterdir())), f"process {pid} is stopped", 10, 0.001)


class Loligo:
    """A cluster in a directory."""

    def __init__(self, directory):
        self.dir = Path(directory)
        self.conf = self.dir / "ceph.conf"

    @staticmethod
    def binary():
        return os.environ["LOLIGO"]

    def up(self, *flags, check=True, new=True, options=None):
        port = ["--port", str(free_port())] if new else []
        sets = [f"--set={k}={v}" for k, v in (options or {}).items()]
        return run(self.binary(), "up", "--dir", self.dir, "--detach", *port, *sets, *flags, check=check)

    def down(self, check=True):
        return run(self.binary(), "down", "--dir", self.dir, check=check)

    def pids(self):
        return {p.stem: int(p.read_text()) for p in (self.dir / "run").glob("*.pid")}

    def ceph(self, *command, check=True):
        return run("ceph", *command, conf=self.conf, check=check)

    def health(self):
        return self.ceph("health").stdout.strip()


def has_ended(pid):
    """Whether a process is gone, or only waits to be collected. One whose first thread has ended holds its locks as long as
    another still ends."""
    try:
        only_waits = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        return only_waits and len(os.listdir(f"/proc/{pid}/task")) == 1
    except FileNotFoundError:
        return True


class OwnCluster(unittest.TestCase):
    """A test that starts, stops and kills its own cluster, laid out where `setUp` says."""

    def setUp(self):
        self.parent = Path(tempfile.mkdtemp(prefix="loligo-test-"))
        self.cluster = Loligo(self.parent / "c")

    def tearDown(self):
        if self.cluster.conf.exists():
            self.cluster.down(check=False)
        shutil.rmtree(self.parent, ignore_errors=True)


@contextlib.contextmanager
def running(directory, *flags, options=None):
    """A fresh cluster that is stopped at the end, also when a test fails. Many tests mark OSDs down, one after the other: more
    often than an OSD would come back."""
    cluster = Loligo(directory)
    cluster.up(*flags, options={"osd_max_markdown_count": 1000, **(options or {})})
    try:
        yield cluster
    finally:
        cluster.down(check=False)


def make_pool(name, *, size=None, pg_num=8):
    """A pool for one test; 8 placement groups unless it says otherwise."""
    run("ceph", "osd", "pool", "create", name, pg_num, pg_num)
    if size:
        run("ceph", "osd", "pool", "set", name, "size", size)
    run("ceph", "osd", "pool", "application", "enable", name, "test")


def drop_pool(name):
    run("ceph", "osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it", check=False)


def unittest_counts(report):
    """How many tests of a unittest run passed, failed and were skipped, from what it printed."""
    ran = sum(int(n) for n in re.findall(r"^Ran (\d+) tests?", report, re.M))
    failed = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", report))
    skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", report))
    return {"passed": max(0, ran - failed - skipped), "failed": failed, "skipped": skipped}
