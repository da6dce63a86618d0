#!/usr/bin/python3
"""How fast and how well an OSD learns what its device can do, while a client writes and the device becomes five times slower
and faster again.

    learnt_capacity.py --loligo PATH [--depth N ...] [--profile NAME ...] [--rounds N] [--iops N] [--seconds N]

Needs root, loop devices, fio and the cgroup controller blkio. One OSD has a loop device that does --iops writes a second, or
a fifth of that. At each depth the client first writes without a limit (high_client_ops): what is done then is what the OSD
should know. Then there are --rounds slower and faster phases under each profile, each a few seconds longer or shorter than
--seconds, so that changes fall anywhere between tries of what a limited client could do.

A row says what part of that the OSD knew ten seconds after the change, the least and the most that it knew from then until
the next, and what part the client did. Exits with 1 if what was known after ten seconds was off by more than 10%.
"""
import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rados

import slow_devices
from harness import Loligo, run, wait_for

SLOWER = 5
LEARNT_S = 10
WITHIN = 0.1
SAMPLES_APART_S = 0.25
MIB_PER_SECOND = 200
# As cheap flash does.
READS_PER_WRITE = 10
# While the image is filled.
FILLING_IOPS = 2000
UNLIMITED = "high_client_ops"


class Osd:
    """A cluster of one OSD, and its device."""

    def __init__(self, scratch, undo, iops):
        self.devices, self.iops = slow_devices.SlowDevices(scratch, undo, 1, 2), iops
        self.cluster = Loligo(scratch / "cluster")
        undo.callback(lambda: self.cluster.conf.exists() and self.cluster.down(check=False))
        options = {"osd_pool_default_size": 1, "bluestore_block_path": self.devices.pattern}
        self.cluster.up("--store", "extent", "--osds", "1", options=options)
        self.cluster.ceph("osd", "pool", "create", "p", "8", "8")
        self.cluster.ceph("osd", "pool", "application", "enable", "p", "rbd")
        self.cluster.ceph("config", "set", "osd", "osd_op_queue", "mclock_scheduler")
        # A cache would have more under way than the depth says.
        self.cluster.ceph("config", "set", "client", "rbd_cache", "false")
        # `ceph tell` would take a good part of a processor from the OSD.
        self.admin = undo.enter_context(rados.Rados(conffile=str(self.cluster.conf), name="client.admin"))

    def tell(self, command):
        code, out, error = self.admin.osd_command(0, json.dumps({"prefix": command, "format": "json"}), b"")
        if code:
            raise AssertionError(f"{command}: {code} {error}")
        return json.loads(out)

    def known(self):
        return self.tell("dump_op_pq_state")["OSD:ShardedOpWQ:0"]["capacity"]["iops"]

    def writes(self):
        return self.tell("perf dump")["osd"]["op_w"]

    def use(self, profile):
        self.cluster.ceph("config", "set", "osd", "osd_mclock_profile", profile)

    def set_speed(self, iops):
        self.devices.slow_down(MIB_PER_SECOND, iops, READS_PER_WRITE * iops)

    def become(self, fast):
        self.set_speed(self.iops if fast else self.iops // SLOWER)

    @contextlib.contextmanager
    def client(self, depth):
        """Somebody writes 4 KiB at random places of an image that is all there."""
        image = f"image-{depth}"
        rbd = ["fio", "--name=learnt", "--ioengine=rbd", "--clientname=admin", "--pool=p", f"--rbdname={image}", "--size=256m"]
        self.set_speed(FILLING_IOPS)
        run("rbd", "create", "--size", 256, f"p/{image}", conf=self.cluster.conf)
        run(*rbd, "--rw=write", "--bs=1m", "--iodepth=8", conf=self.cluster.conf)
        begun = self.writes()
        writer = subprocess.Popen([*rbd, "--rw=randwrite", "--bs=4k", f"--iodepth={depth}", "--time_based", "--runtime=1d"],
                                  env={**os.environ, "CEPH_CONF": str(self.cluster.conf), "CEPH_ARGS": ""},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: self.writes() > begun, "the client writes")
            yield
        finally:
            writer.terminate()
            writer.wait()
            run("rbd", "rm", f"p/{image}", conf=self.cluster.conf)

    def phase(self, seconds):
        """What was known from time to time, and how many writes a second there were once it should be known."""
        began, known, counted = time.monotonic(), [], []
        while (passed := time.monotonic() - began) < seconds:
            known.append((passed, self.known()))
            if passed >= LEARNT_S:
                counted.append((time.monotonic(), self.writes()))
            time.sleep(SAMPLES_APART_S)
        (first, before), (last, after) = counted[0], counted[-1]
        return [of for passed, of in known if passed >= LEARNT_S], (after - before) / (last - first)


def measure(osd, args, depth, chance):
    """Whether all was known in time at this depth."""
    all_known = True
    with osd.client(depth):
        osd.use(UNLIMITED)
        unlimited = {True: [], False: []}
        for fast in (True, False) * 3:
            osd.become(fast)
            unlimited[fast].append(osd.phase(args.seconds + LEARNT_S)[1])
        of = {fast: statistics.mean(rates) for fast, rates in unlimited.items()}
        print(f"depth {depth}: " + ", ".join(f"{'fast' if fast else 'slow'} " + " and ".join(f"{r:.0f}" for r in rates)
                                             for fast, rates in unlimited.items()) + " writes a second", flush=True)
        for profile in args.profile:
            osd.use(profile)
            for fast in (True, False) * args.rounds:
                osd.become(fast)
                known, rate = osd.phase(args.seconds + chance.uniform(-2, 4))
                parts = [one / of[fast] for one in known]
                in_time = abs(parts[0] - 1) <= WITHIN
                all_known &= in_time
                print(f"  {profile:20} {'faster' if fast else 'slower':8} known {parts[0]:5.2f}, then {min(parts):.2f} to "
                      f"{max(parts):.2f}; done {rate / of[fast]:.2f}{'' if in_time else '  OFF'}", flush=True)
    return all_known


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path, required=True)
    parser.add_argument("--depth", type=int, nargs="+", default=[64, 16, 4])
    parser.add_argument("--profile", nargs="+", default=[UNLIMITED, "balanced", "high_recovery_ops"])
    for name, default in {"rounds": 2, "iops": 600, "seconds": 16, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    os.environ["LOLIGO"] = str(args.loligo.resolve())
    if not slow_devices.may_be_had():
        sys.exit("learnt_capacity.py: needs root and the cgroup controller blkio (version 1), to slow devices down")
    if args.seconds < LEARNT_S + 3:
        parser.error(f"phases last at least {LEARNT_S + 3} s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="loligo-learnt-", ignore_cleanup_errors=True) as scratch:
        with contextlib.ExitStack() as undo:
            osd, chance = Osd(Path(scratch), undo, args.iops), random.Random(args.seed)
            # All depths are measured, whatever the first is like.
            return 0 if all([measure(osd, args, depth, chance) for depth in args.depth]) else 1


if __name__ == "__main__":
    sys.exit(main())
