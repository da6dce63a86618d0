"""A cluster whose OSDs are killed and started again to measure what comes of that: one of its own, or one that runs, such
as a real Ceph. For tools with these arguments:

    TOOL --loligo PATH                       a cluster of its own, with the defaults
    TOOL --dir DIR --restart COMMAND         a cluster that runs

DIR has ceph.conf and run/osd.N.pid; COMMAND, with {} for the number, starts an OSD that was killed, for example
'ceph-osd -i {}'.
"""
import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from harness import Loligo, has_ended, run, wait_for


class Victims:
    def __init__(self, conf, run_dir, restart, scratch):
        self.conf, self.run_dir, self.restart, self.scratch = conf, run_dir, restart, scratch
        self.pool = f"victims-{os.getpid()}"
        self.started = {}

    def ceph(self, *command):
        return json.loads(run("ceph", *command, "--format", "json", conf=self.conf).stdout or "{}")

    def is_up(self, osd):
        return next(node["up"] for node in self.ceph("osd", "dump")["osds"] if node["osd"] == osd) == 1

    def is_clean(self):
        states = self.ceph("status")["pgmap"].get("pgs_by_state", [])
        return bool(states) and all(state["state_name"].startswith("active+clean") for state in states)

    @contextlib.contextmanager
    def with_pool(self, *settings):
        """A pool of 32 groups, with these (key, value) settings. It goes at the end."""
        run("ceph", "osd", "pool", "create", self.pool, 32, 32, conf=self.conf)
        try:
            for key, value in [("pg_autoscale_mode", "off"), *settings]:
                run("ceph", "osd", "pool", "set", self.pool, key, value, conf=self.conf)
            run("ceph", "osd", "pool", "application", "enable", self.pool, "test", conf=self.conf)
            wait_for(self.is_clean, "the pool is clean", 120)
            yield
        finally:
            remove = ("pool", "rm", self.pool, self.pool, "--yes-i-really-really-mean-it")
            run("ceph", "osd", *remove, conf=self.conf, check=False)

    def pid(self, osd):
        """Of an OSD that runs. What COMMAND has started in the background has written its pid file."""
        started = self.started.get(osd)
        return started.pid if started and started.poll() is None else int((self.run_dir / f"osd.{osd}.pid").read_text())

    def kill(self, osd):
        """Ends its process, and waits until it is gone."""
        pid = self.pid(osd)
        os.kill(pid, signal.SIGKILL)
        if osd in self.started:
            self.started.pop(osd).wait(60)
        wait_for(lambda: has_ended(pid), f"osd.{osd} is gone")

    def start(self, osd):
        """Starts an OSD that was killed, and does not wait for it."""
        command = shlex.split(self.restart.replace("{}", str(osd)))
        environment = dict(os.environ, CEPH_CONF=str(self.conf))
        self.started[osd] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def main(doc, osds, measure, **options):
    """Runs a tool: `measure` gets the victims and the arguments. `options` are numbers, with their defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--restart", metavar="COMMAND")
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    if bool(args.dir) != bool(args.restart) or not (args.dir or args.loligo):
        parser.error("either --loligo, or --dir and --restart are needed")
    scratch = Path(tempfile.mkdtemp(prefix="loligo-victims-"))
    try:
        if args.dir:
            home = args.dir.resolve()
            measure(Victims(home / "ceph.conf", home / "run", args.restart, scratch), args)
            return
        os.environ["LOLIGO"] = str(args.loligo.resolve())
        cluster = Loligo(scratch / "c")
        cluster.up("--processes", "--osds", str(osds))
        restart = shlex.join([cluster.binary(), "osd", "--dir", str(cluster.dir), "--id"]) + " {}"
        victims = Victims(cluster.conf, cluster.dir / "run", restart, scratch)
        try:
            measure(victims, args)
        finally:
            cluster.down(check=False)
            for process in victims.started.values():
                process.wait(60)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
