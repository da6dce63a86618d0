"""A cluster whose OSDs are killed and started again to measure what comes of that: one of its own, or one that runs, such
as a real Ceph. For tools with these arguments:

    TOOL --loligo PATH                       a cluster of its own, with the defaults
    TOOL --loligo PATH --mib-per-second N    the same on devices that do no more than that each way (`slow_devices`)
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
import sys
import tempfile
from pathlib import Path

import slow_devices
from harness import Loligo, has_ended, run, wait_for


# Devices beside those of OSDs, where they are slowed down, and the size of each.
SPARE = 2
GIB = 4


class Victims:
    def __init__(self, conf, run_dir, restart, scratch):
        self.conf, self.run_dir, self.restart, self.scratch = conf, run_dir, restart, scratch
        self.pool = f"victims-{os.getpid()}"
        # Of devices that are slowed down, those that no OSD has.
        self.spare = []
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


@contextlib.contextmanager
def own_cluster(scratch, binary, osds, mib_per_second):
    """A new cluster, and its devices where they are to be slow."""
    os.environ["LOLIGO"] = str(binary.resolve())
    with contextlib.ExitStack() as undo:
        cluster, options = Loligo(scratch / "c"), {}
        restart = shlex.join([cluster.binary(), "osd", "--dir", str(cluster.dir), "--id"]) + " {}"
        victims = Victims(cluster.conf, cluster.dir / "run", restart, scratch)
        if mib_per_second:
            devices = slow_devices.SlowDevices(scratch, undo, osds + SPARE, GIB)
            # Telling a device what is free would count as writing to it.
            options = {"bluestore_block_path": devices.pattern, "bdev_enable_discard": "false"}
            victims.spare = [devices.path(osds + number) for number in range(SPARE)]
        undo.callback(lambda: [process.wait(60) for process in victims.started.values()])
        undo.callback(cluster.down, check=False)
        cluster.up("--processes", "--osds", str(osds), options=options)
        if mib_per_second:
            devices.slow_down(mib_per_second)
        yield victims


def main(doc, osds, measure, **options):
    """Runs a tool: `measure` gets the victims and the arguments. `options` are numbers, with their defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path)
    parser.add_argument("--mib-per-second", type=int)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--restart", metavar="COMMAND")
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    if bool(args.dir) != bool(args.restart) or not (args.dir or args.loligo):
        parser.error("either --loligo, or --dir and --restart are needed")
    if args.mib_per_second and (args.dir or not slow_devices.may_be_had()):
        parser.error("--mib-per-second needs --loligo, root, and the cgroup controller blkio (version 1)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    scratch = Path(tempfile.mkdtemp(prefix="loligo-victims-"))
    try:
        if args.dir:
            home = args.dir.resolve()
            measure(Victims(home / "ceph.conf", home / "run", args.restart, scratch), args)
        else:
            with own_cluster(scratch, args.loligo, osds, args.mib_per_second) as victims:
                measure(victims, args)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
