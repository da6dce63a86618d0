#!/usr/bin/python3
"""The pause that a client sees when one of four OSDs is killed: by kill -9, while it sends one request at a time.

    kill_pauses.py --loligo PATH [--kills N]                       a cluster of its own, with the defaults
    kill_pauses.py --dir DIR --restart COMMAND [--kills N]         a cluster that runs, such as a real Ceph of four OSDs

DIR has ceph.conf and run/osd.N.pid; COMMAND, with {} for the number, starts an OSD that was killed, for example
'ceph-osd -i {}'. The client writes and reads 4 KiB objects in turn, which lie on all OSDs; so each kill hits primaries of
some and other members of the rest. For each kill it shows the longest request that was under way after it, and when the
monitor's map had the OSD as down. The next kill comes when everything is clean again.
"""
import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Loligo, has_ended, run, wait_for

OSDS = 4
# How long the client is watched after the map shows the OSD as down.
AFTER_SECONDS = 3

CLIENT = r"""
import rados, sys, time
conf, pool, out = sys.argv[1:]
cluster = rados.Rados(conffile=conf); cluster.connect()
io = cluster.open_ioctx(pool)
data = bytes(4096)
with open(out, "w") as log:
    for number in range(10**9):
        name = f"o{number // 2 % 128}"
        began = time.monotonic()
        io.read(name) if number % 2 else io.write_full(name, data)
        log.write(f"{began} {time.monotonic() - began}\n"); log.flush()
"""


class Kills:
    """A cluster with a client at work, in a pool that goes at the end."""

    def __init__(self, conf, run_dir, restart, scratch):
        self.conf, self.run_dir, self.restart, self.log = conf, run_dir, restart, scratch / "requests"
        self.pool = f"pauses-{os.getpid()}"

    def ceph(self, *command):
        return json.loads(run("ceph", *command, "--format", "json", conf=self.conf).stdout or "{}")

    def is_up(self, osd):
        return next(node["up"] for node in self.ceph("osd", "dump")["osds"] if node["osd"] == osd) == 1

    def is_clean(self):
        states = self.ceph("status")["pgmap"].get("pgs_by_state", [])
        return bool(states) and all(state["state_name"].startswith("active+clean") for state in states)

    @contextlib.contextmanager
    def at_work(self):
        run("ceph", "osd", "pool", "create", self.pool, 32, 32, conf=self.conf)
        run("ceph", "osd", "pool", "set", self.pool, "pg_autoscale_mode", "off", conf=self.conf)
        run("ceph", "osd", "pool", "application", "enable", self.pool, "test", conf=self.conf)
        wait_for(self.is_clean, "the pool is clean", 120)
        client = subprocess.Popen(["/usr/bin/python3", "-c", CLIENT, self.conf, self.pool, self.log])
        try:
            wait_for(lambda: self.log.exists() and len(self.log.read_text().splitlines()) > 300, "the client works")
            yield
        finally:
            client.kill()
            client.wait()
            remove = ("pool", "rm", self.pool, self.pool, "--yes-i-really-really-mean-it")
            run("ceph", "osd", *remove, conf=self.conf, check=False)

    def requests(self):
        lines = self.log.read_text().splitlines()[:-1]
        return [tuple(map(float, line.split())) for line in lines]

    def kill(self, osd):
        """Kills an OSD. The longest request after that, and how long the map took."""
        pid = int((self.run_dir / f"osd.{osd}.pid").read_text())
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: has_ended(pid), f"osd.{osd} is gone")
        wait_for(lambda: not self.is_up(osd), f"osd.{osd} is down", 120)
        down = time.monotonic() - killed
        wait_for(lambda: self.requests()[-1][0] > killed + down + AFTER_SECONDS, "the client goes on", 120)
        return max(took for began, took in self.requests() if began + took > killed), down

    def start(self, osd):
        process = subprocess.Popen(shlex.split(self.restart.replace("{}", str(osd))), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=dict(os.environ, CEPH_CONF=str(self.conf)))
        wait_for(lambda: self.is_up(osd), f"osd.{osd} is up", 120)
        wait_for(self.is_clean, "everything is clean", 240)
        return process


def measure(kills, count):
    pauses, started = [], []
    with kills.at_work():
        for number in range(count):
            osd = number % OSDS
            before = max(took for _, took in kills.requests()[-200:])
            pause, down = kills.kill(osd)
            pauses.append(pause)
            told = f"down after {down * 1000:.0f} ms (before, at most {before * 1000:.1f} ms)"
            print(f"osd.{osd}: {pause * 1000:.0f} ms, {told}", flush=True)
            started.append(kills.start(osd))
    print(f"{count} kills: median {statistics.median(pauses) * 1000:.0f} ms, longest {max(pauses) * 1000:.0f} ms")
    return started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--restart", metavar="COMMAND")
    parser.add_argument("--kills", type=int, default=8)
    args = parser.parse_args()
    if bool(args.dir) != bool(args.restart) or not (args.dir or args.loligo):
        parser.error("either --loligo, or --dir and --restart are needed")
    scratch = Path(tempfile.mkdtemp(prefix="loligo-pauses-"))
    try:
        if args.dir:
            measure(Kills(args.dir.resolve() / "ceph.conf", args.dir.resolve() / "run", args.restart, scratch), args.kills)
            return
        os.environ["LOLIGO"] = str(args.loligo.resolve())
        cluster = Loligo(scratch / "c")
        cluster.up("--processes", "--osds", str(OSDS))
        started = []
        try:
            restart = shlex.join([cluster.binary(), "osd", "--dir", str(cluster.dir), "--id"]) + " {}"
            started = measure(Kills(cluster.conf, cluster.dir / "run", restart, scratch), args.kills)
        finally:
            cluster.down(check=False)
            for process in started:
                process.wait(60)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
