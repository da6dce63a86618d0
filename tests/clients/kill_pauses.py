#!/usr/bin/python3
"""The pause that a client sees when one of four OSDs is killed, by kill -9, and when it comes back.

    kill_pauses.py --loligo PATH [--kills N]                       a cluster of its own, with the defaults
    kill_pauses.py --dir DIR --restart COMMAND [--kills N]         a cluster that runs (`victims`), of four OSDs

The client sends one request at a time: it writes and reads 4 KiB objects in turn, which lie on all OSDs; so each kill hits
primaries of some and other members of the rest. For each kill it shows the longest request that was under way after it,
when the monitor's map had the OSD as down, and the longest one after it was started again until everything was clean.
"""
import contextlib
import statistics
import subprocess
import sys
import time

import victims
from harness import wait_for

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


class Client:
    """At work, and what each of its requests took."""

    def __init__(self, cluster):
        self.cluster, self.log = cluster, cluster.scratch / "requests"

    @contextlib.contextmanager
    def at_work(self):
        client = subprocess.Popen(["/usr/bin/python3", "-c", CLIENT, self.cluster.conf, self.cluster.pool, self.log])
        try:
            wait_for(lambda: self.log.exists() and len(self.log.read_text().splitlines()) > 300, "the client works")
            yield
        finally:
            client.kill()
            client.wait()

    def requests(self):
        lines = self.log.read_text().splitlines()[:-1]
        return [tuple(map(float, line.split())) for line in lines]

    def longest_since(self, moment):
        return max(took for began, took in self.requests() if began + took > moment)

    def kill(self, osd):
        """Kills an OSD. The longest request after that, and how long the map took."""
        killed = time.monotonic()
        self.cluster.kill(osd)
        wait_for(lambda: not self.cluster.is_up(osd), f"osd.{osd} is down", 120)
        down = time.monotonic() - killed
        wait_for(lambda: self.requests()[-1][0] > killed + down + AFTER_SECONDS, "the client goes on", 120)
        return self.longest_since(killed), down

    def start(self, osd):
        """Starts an OSD. The longest request from then on until everything is clean."""
        started = time.monotonic()
        self.cluster.start(osd)
        wait_for(lambda: self.cluster.is_up(osd), f"osd.{osd} is up", 120)
        wait_for(self.cluster.is_clean, "everything is clean", 240)
        return self.longest_since(started)


def measure(cluster, args):
    client, pauses, returns = Client(cluster), [], []
    with cluster.with_pool(), client.at_work():
        for number in range(args.kills):
            osd = number % OSDS
            before = max(took for _, took in client.requests()[-200:])
            pause, down = client.kill(osd)
            back = client.start(osd)
            pauses.append(pause)
            returns.append(back)
            told = f"down after {down * 1000:.0f} ms, {back * 1000:.0f} ms when it came back"
            print(f"osd.{osd}: {pause * 1000:.0f} ms, {told} (before, at most {before * 1000:.1f} ms)", flush=True)
    for what, taken in (("kills", pauses), ("starts", returns)):
        print(f"{args.kills} {what}: median {statistics.median(taken) * 1000:.0f} ms, longest {max(taken) * 1000:.0f} ms")


if __name__ == "__main__":
    sys.exit(victims.main(__doc__, OSDS, measure, kills=8))
