#!/usr/bin/python3
"""What a client keeps and how fast a cluster recovers under WPQ and under each of mClock's profiles, of Loligo and of real
Ceph in turn, on devices that are slowed down alike.

    recovery_peers.py --loligo PATH [--only loligo|ceph] [--queue QUEUE] [--iops N] [--read-iops N] [--mib-per-second N] [--capacity N] ...

Needs root, loop devices and the cgroup controller blkio. Each of four OSDs has a loop device that does no more than
--iops writes and --read-iops reads a second, and --mib-per-second each way. By default it reads ten times as often as it
writes, as cheap flash does. `loligo study baseline` and then `loligo study
recovery` run against each cluster with the same parameters, one row at a time. There is a cluster for each scheduler, as
Ceph's OSDs choose theirs when they start.

mClock is told how many client writes an OSD does a second. That is what the client does alone, divided by the OSDs: three
copies are made of each write, and whoever executes a request counts it once, while the copies use the devices of others.
(The rate of one device by itself, which `ceph tell osd.N bench` gives, is several times that, and half of it for clients is
more than the whole cluster can do.) Each system is told what it can do itself, or what --capacity says. A reservation counts
as met if an OSD served that many client writes a second on average, less 2%, in each of --runs runs. Rows show means and,
of several runs, their standard deviations. WPQ reserves nothing.

The processors have to be idle part of the time while the client works, or else they are what is compared: see the last
column.
"""
import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import real_ceph
import slow_devices
from harness import Loligo, run

OSDS = 4
# What a profile reserves for clients, in parts of the capacity: Ceph's documentation of mClock (v16.2).
RESERVED = {"high_client_ops": 0.5, "balanced": 0.4, "high_recovery_ops": 0.3}
WITHIN = 0.02
RUN_SECONDS_MAX = 900
# The configurations of the study by scheduler.
CONFIGURATIONS = {"mclock_scheduler": [f"mclock, {profile}" for profile in RESERVED],
                  "wpq": ["wpq, default limits", "wpq, limits lifted"]}


class System:
    """One of those that are compared, with devices of its own. It is started on fast devices, and works on slow ones."""

    def __init__(self, name, queue, scratch, undo, args):
        self.name, self.queue, self.args, self.scratch = name, queue, args, scratch / f"{name}-{queue}"
        self.scratch.mkdir()
        devices = slow_devices.SlowDevices(self.scratch, undo, OSDS, args.gib)
        options = {"osd_op_queue": queue, "osd_pool_default_size": 3, "bluestore_block_path": devices.pattern}
        directory = self.scratch / "cluster"
        if name == "loligo":
            self.cluster = Loligo(directory)
            undo.callback(self.down)
            self.cluster.up("--processes", "--store", "extent", "--osds", str(OSDS), options=options)
        else:
            self.cluster = real_ceph.RealCeph(directory)
            undo.callback(self.down)
            self.cluster.up(OSDS, options)
        devices.slow_down(args.mib_per_second, args.iops, args.read_iops)

    def down(self):
        if self.name == "ceph":
            self.cluster.down()
        elif self.cluster.conf.exists():
            self.cluster.down(check=False)

    def study(self, out, name, *more):
        """A row of a study: means of its figures and how far its runs lie apart, the least rate of any run, and what the
        processors were busy with."""
        args = self.args
        flags = ["--on", self.cluster.conf, "--out", self.scratch / out, "--runs", args.runs, "--format", "json",
                 "--depth", args.depth, "--pgs", args.pgs, "--image-mib", args.image_mib, *more]
        with Processors(self.cluster.dir / "run") as processors:
            told = finished([args.loligo, "study", name, *flags], RUN_SECONDS_MAX * args.runs)
        of = json.loads(told)["configurations"][0]
        return {"processors": processors.shares(), "mean": {key: of["mean"] for key, of in of["figures"].items()},
                "apart": {key: of["deviation"] for key, of in of["figures"].items()},
                "least_iops": min(run["values"]["client_iops"] for run in of["runs"])}

    def alone(self):
        row = self.study("alone", "baseline", "--seconds", self.args.seconds)
        show(f"{self.name}, {self.queue}, client alone", row)
        return row["mean"]["client_iops"] / OSDS

    def recovering(self, capacity):
        """A row for each configuration."""
        rows = {}
        for configuration in CONFIGURATIONS[self.queue]:
            more = ("--only", configuration, "--objects", self.args.objects, "--seconds", 1)
            row = self.study(configuration, "recovery", *more, "--capacity-iops", capacity)
            show(f"{self.name}, {configuration}", row, reserved(configuration, capacity))
            rows[configuration] = row
        return rows


def finished(command, seconds_max):
    """What a study prints. If it is not to go on it is asked to stop, so that its own tools end with it."""
    study = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        told, _ = study.communicate(timeout=seconds_max)
    except BaseException:
        study.terminate()
        try:
            study.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            # It is still putting back what goes with the cluster anyway.
            study.kill()
            study.communicate()
        raise
    if study.returncode:
        sys.exit(f"recovery_peers.py: {' '.join(map(str, command))}: exit {study.returncode}")
    return told


class Processors:
    """What the processors do while the client works: the part of their time that is left, and for how many of them the OSDs
    wait, which is more than nothing where somebody else is at work here."""

    def __init__(self, run_dir):
        pids = [int(file.read_text()) for file in run_dir.glob("osd.*.pid")]
        self.threads = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
        self.done = threading.Event()
        self.idle = self.total = self.waited_s = self.ran_s = self.lasted_s = 0
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def shares(self):
        def of(part, whole):
            return 100 * part / whole if whole else float("nan")
        return {"idle": of(self.idle, self.total), "ran": of(self.ran_s, self.lasted_s),
                "waited": of(self.waited_s, self.lasted_s)}

    def _watch(self):
        before = None
        while not self.done.wait(1):
            now = (time.monotonic(), *self._times(), *self._of_threads()) if self._client_works() else None
            if before and now:
                since = [a - b for a, b in zip(now, before)]
                self.lasted_s, self.idle, self.total = self.lasted_s + since[0], self.idle + since[1], self.total + since[2]
                self.ran_s, self.waited_s = self.ran_s + since[3], self.waited_s + since[4]
            before = now

    @staticmethod
    def _times():
        times = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(times[3:5]), sum(times[:8])

    def _of_threads(self):
        ran = waited = 0
        for thread in self.threads:
            with contextlib.suppress(OSError):
                fields = (thread / "schedstat").read_text().split()
                ran, waited = ran + int(fields[0]), waited + int(fields[1])
        return ran / 1e9, waited / 1e9

    @staticmethod
    def _client_works():
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = process.read_bytes()
                if line.startswith(b"fio\0--name=study\0") and b"--rw=randwrite" in line:
                    return True
        return False


def reserved(configuration, capacity):
    """Client writes a second that all OSDs together reserve."""
    return RESERVED.get(configuration.rpartition(" ")[2], 0) * capacity * OSDS


def is_met(row, least):
    return row["least_iops"] >= least * (1 - WITHIN)


# What is shown of a row: key, heading, width and decimals.
FIGURES = [("client_iops", "IOPS", 15, 0), ("client_mean_ms", "mean ms", 15, 1), ("client_p99_ms", "99% ms", 15, 1),
           ("recovered_objects_per_s", "obj/s", 13, 2)]


def shown(row, key, width, decimals):
    if key not in row["mean"]:
        return " " * width
    apart = f" ±{row['apart'][key]:.{decimals}f}" if row["apart"][key] else ""
    return f"{row['mean'][key]:{width - 7}.{decimals}f}{apart:7}"


NAME_WIDTH = 38


def show(name, row, least=0):
    cells = [f"{name:{NAME_WIDTH}}", *(shown(row, key, width, decimals) for key, _, width, decimals in FIGURES)]
    met = "" if not least else f"{'met' if is_met(row, least) else 'NOT MET'} ({row['least_iops'] / least:.0%} of {least:.0f})"
    ran, waited, idle = (row["processors"][key] for key in ("ran", "waited", "idle"))
    print(" ".join(cells), f"{met:24}", f"{ran:7.0f}% {waited:5.0f}% {idle:4.0f}%", flush=True)


def heading():
    cells = [" " * NAME_WIDTH, *(f"{name:>{width - 7}}       " for _, name, width, _ in FIGURES)]
    print(" ".join(cells), f"{'reservation':24}", "OSDs ran  wait  idle", flush=True)


def compare(rows):
    print("\n" + f"{'Loligo to Ceph:':{NAME_WIDTH}}", " ".join(f"{name:>8}" for _, name, _, _ in FIGURES))
    for configuration, ours in rows["loligo"].items():
        pairs = ((ours["mean"].get(key), rows["ceph"][configuration]["mean"].get(key)) for key, *_ in FIGURES)
        ratios = (f"{a / b:8.2f}" if a and b else " " * 8 for a, b in pairs)
        print(f"{configuration:{NAME_WIDTH}}", *ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path, required=True)
    parser.add_argument("--only", choices=["loligo", "ceph"])
    parser.add_argument("--queue", choices=list(CONFIGURATIONS), action="append", help="may be repeated; default: both")
    numbers = {"runs": 1, "iops": 600, "read-iops": 6000, "mib-per-second": 200, "capacity": 0, "objects": 150, "seconds": 15,
               "depth": 64, "pgs": 64, "image-mib": 256, "gib": 3}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    os.environ["LOLIGO"] = str(args.loligo.resolve())
    chosen = [args.only] if args.only else ["loligo", "ceph"]
    if not slow_devices.may_be_had():
        sys.exit("recovery_peers.py: needs root and the cgroup controller blkio (version 1), to slow devices down")
    if "ceph" in chosen and not real_ceph.is_installed():
        sys.exit(f"recovery_peers.py: needs Debian's packages {real_ceph.PACKAGES}; or --only loligo")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="loligo-peers-", ignore_cleanup_errors=True) as scratch:
        return measure(args, chosen, Path(scratch))


def measure(args, chosen, scratch):
    print(f"each device: {args.iops} writes/s, {args.read_iops} reads/s, {args.mib_per_second} MiB/s each way; "
          f"{args.objects} objects of 4 MiB")
    heading()
    rows, kept = {name: {} for name in chosen}, True
    for name in chosen:
        for queue in args.queue or CONFIGURATIONS:
            with contextlib.ExitStack() as undo:
                system = System(name, queue, scratch, undo, args)
                capacity = args.capacity or round(system.alone())
                if queue == "mclock_scheduler":
                    print(f"{name}: mClock is told {capacity} client writes a second of an OSD", flush=True)
                of_queue = system.recovering(capacity)
            rows[name].update(of_queue)
            if name == "loligo":
                kept &= all(is_met(row, reserved(configuration, capacity)) for configuration, row in of_queue.items())
    if len(rows) > 1:
        compare(rows)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
