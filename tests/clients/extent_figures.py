#!/usr/bin/python3
"""Figures of the extent store on this machine's disk: how it restarts, how steady it is, how close to the device.

    extent_figures.py --loligo PATH [restart|steady|device]... [--objects N] [--seconds S] [--dir DIR]

restart   fills a cluster of one OSD with N objects (200,000), kills it and starts it again: milliseconds until its process
          serves, with the log to replay as the kill left it, and again after a clean stop.
steady    S seconds (120) of 4 KiB writes at depth 64 into three OSDs: the latencies of each second (p50, p99, the longest) and
          of all, beside the seconds in which checkpoints ended and what a flush of the device takes at the time.
device    fio by itself on the file system that the OSDs lie on (io_uring, direct, the same block sizes and flushes) beside one
          OSD in a pool without copies, in turn.

Each has a cluster of its own in DIR (the system's temporary directory), processes over TCP, gone afterwards. Without a name
all three are measured.
"""
import argparse
import bisect
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness import Loligo, has_ended, run, wait_for

FILL = """
import rados, sys
conf, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with rados.Rados(conffile=conf) as cluster, cluster.open_ioctx("p") as io:
    waiting = []
    for at in range(first, first + count):
        waiting.append(io.aio_write_full(f"object-{at:08}", b"%08d" % at * 64))
        if len(waiting) == 128:
            for done in waiting[:64]:
                done.wait_for_complete_and_cb()
            del waiting[:64]
    for done in waiting:
        done.wait_for_complete_and_cb()
"""


def admin(cluster, osd, *command):
    return json.loads(run("ceph", "daemon", cluster.dir / f"run/osd.{osd}.asok", *command).stdout)


def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def table(head, rows):
    widths = [max(len(str(row[at])) for row in [head, *rows]) for at in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(str(cell).rjust(width) for cell, width in zip(row, widths)))


def one_osd(directory):
    """A cluster of one OSD, and a pool without copies."""
    cluster = Loligo(directory)
    cluster.up("--store", "extent", "--osds", "1", "--processes")
    cluster.ceph("config", "set", "global", "mon_allow_pool_size_one", "true")
    cluster.ceph("osd", "pool", "create", "p", "32", "32")
    cluster.ceph("osd", "pool", "set", "p", "size", "1", "--yes-i-really-mean-it")
    cluster.ceph("osd", "pool", "application", "enable", "p", "rbd")
    return cluster


def state(cluster, osd):
    """What an OSD says of itself; nothing as long as it says nothing."""
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(10)
        try:
            door.connect(str(cluster.dir / f"run/osd.{osd}.asok"))
            door.sendall(b'{"prefix": "status"}\0')
            answer = b"".join(iter(lambda: door.recv(1 << 16), b""))
        except OSError:
            return None
    return json.loads(answer[4:]).get("state")


def starts(cluster):
    """Starts the OSD: its process, the milliseconds until it is active, and those until a new client has read an object. The
    client starts only then: one that knew the map of before would wait for its own timer of ten seconds."""
    began = time.monotonic()
    process = subprocess.Popen([cluster.binary(), "osd", "--dir", cluster.dir, "--id", "0"], stdout=subprocess.DEVNULL)
    wait_for(lambda: state(cluster, 0) == "active", "the OSD is active", period=0.005)
    active = (time.monotonic() - began) * 1000
    run("rados", "-p", "p", "get", "object-00000000", os.devnull, conf=cluster.conf)
    return process, active, (time.monotonic() - began) * 1000


def restart(parent, args):
    cluster = one_osd(parent / "restart")
    try:
        began = time.monotonic()
        quarter = args.objects // 4
        fillers = [subprocess.Popen(["/usr/bin/python3", "-c", FILL, cluster.conf, str(at * quarter), str(quarter)])
                   for at in range(4)]
        if any(filler.wait() for filler in fillers):
            raise AssertionError("filling failed")
        print(f"{args.objects} objects in {time.monotonic() - began:.0f} s")
        rows = []
        pid = cluster.pids()["osd.0"]
        process = None
        for how, signal in (("killed", 9), ("stopped", 15), ("killed", 9), ("stopped", 15)):
            os.kill(pid, signal)
            if process:
                process.wait()
            wait_for(lambda: has_ended(pid), "the OSD is gone")
            process, active, read = starts(cluster)
            pid = process.pid
            rows.append((how, f"{active:.0f}", f"{read:.0f}"))
        table(("the OSD was", "ms until active", "ms until a new client has read"), rows)
    finally:
        cluster.down(check=False)


def flush_us(directory, seconds):
    """What one 4 KiB write with a flush takes: p50 and p99."""
    job = fio_file(directory, "randwrite", "4k", 1, seconds, "--fdatasync=1", "--size=64m")
    total = [job["sync"]["lat_ns"]["percentile"][p] / 1000 for p in ("50.000000", "99.000000")]
    return total


def fio_file(directory, rw, bs, depth, seconds, *flags):
    out = run("fio", "--name=device", f"--filename={directory}/device", "--ioengine=io_uring", "--direct=1", f"--rw={rw}",
              f"--bs={bs}", f"--iodepth={depth}", "--size=1g", "--time_based", f"--runtime={seconds}", *flags,
              "--output-format=json", seconds=seconds + 120).stdout
    return json.loads(out[out.index("{"):])["jobs"][0]


def fio_rados(conf, rw, bs, depth, seconds, *flags):
    timed = ["--time_based", f"--runtime={seconds}"] if seconds else []
    out = run("fio", "--name=device", "--ioengine=rados", "--pool=p", "--clientname=admin", f"--conf={conf}", "--nrfiles=64",
              f"--rw={rw}", f"--bs={bs}", f"--iodepth={depth}", "--size=1g", *timed, *flags, "--output-format=json", conf=conf,
              seconds=(seconds or 300) + 120).stdout
    return json.loads(out[out.index("{"):])["jobs"][0]


def steady(parent, args):
    cluster = Loligo(parent / "steady")
    cluster.up("--store", "extent", "--processes")
    try:
        cluster.ceph("osd", "pool", "create", "p", "32", "32")
        fio_rados(cluster.conf, "write", "1m", 8, None)
        before = flush_us(parent, 3)
        checkpoints, ends = [], threading.Event()

        def watch():
            while not ends.wait(1 - time.time() % 1):
                checkpoints.append((time.time(), sum(admin(cluster, osd, "perf", "dump")["extent"]["checkpoints"] for osd in range(3))))

        began = time.time()
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            job = fio_rados(cluster.conf, "randwrite", "4k", 64, args.seconds, f"--write_lat_log={parent}/steady",
                            "--log_avg_msec=0")
        finally:
            ends.set()
            watcher.join()
        by_second = {}
        for line in (parent / "steady_clat.1.log").read_text().splitlines():
            at, ns = line.split(",")[:2]
            by_second.setdefault(int(at) // 1000, []).append(int(ns) / 1e6)
        every = sorted(value for values in by_second.values() for value in values)
        rows = []
        for second, values in sorted(by_second.items()):
            values.sort()
            near = [count for at, count in checkpoints if second - 0.5 <= at - began < second + 1.5]
            rows.append((second, len(values), f"{percentile(values, .5):.1f}", f"{percentile(values, .99):.1f}", f"{values[-1]:.1f}",
                         near[-1] - near[0] if near else ""))
        table(("second", "writes", "p50 ms", "p99 ms", "longest ms", "checkpoints"), rows)
        p99 = sorted(percentile(sorted(values), .99) for values in by_second.values())
        longest = sorted(max(values) for values in by_second.values())
        print(f"all: {len(every)} writes, p50 {percentile(every, .5):.1f} ms, p99 {percentile(every, .99):.1f} ms, p99.9 "
              f"{percentile(every, .999):.1f} ms, longest {every[-1]:.1f} ms; {checkpoints[-1][1] - checkpoints[0][1]} checkpoints")
        print(f"seconds' p99: median {statistics.median(p99):.1f} ms, worst {p99[-1]:.1f} ms; seconds' longest: median "
              f"{statistics.median(longest):.1f} ms, worst {longest[-1]:.1f} ms")
        edges = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        counts = [0] * (len(edges) + 1)
        for value in every:
            counts[bisect.bisect_right(edges, value)] += 1
        names = [f"< {edge} ms" for edge in edges] + [f">= {edges[-1]} ms"]
        table(("latency", "writes", "part"), [(n, c, f"{100 * c / len(every):.3f}%") for n, c in zip(names, counts)])
        after = flush_us(parent, 3)
        print(f"a flush of the device: before p50 {before[0]:.0f} us, p99 {before[1]:.0f} us; after p50 {after[0]:.0f} us, p99 {after[1]:.0f} us")
        print(f"fio: {job['write']['iops']:.0f} writes a second")
    finally:
        cluster.down(check=False)


def device(parent, args):
    cluster = one_osd(parent / "device-cluster")
    try:
        fio_rados(cluster.conf, "write", "1m", 8, None)
        fio_file(parent, "write", "1m", 8, 3)
        rows = []
        # What the log does to be durable is one write with a flush of its own; a large write is one, and a flush.
        for name, rw, bs, depth, flags in (
            ("4 KiB durable write, depth 1", "randwrite", "4k", 1, ["--fdatasync=1"]),
            ("4 KiB durable write, depth 32", "randwrite", "4k", 32, ["--sync=dsync"]),
            ("4 KiB read, depth 1", "randread", "4k", 1, []),
            ("4 KiB read, depth 32", "randread", "4k", 32, []),
            ("1 MiB write, depth 8", "randwrite", "1m", 8, ["--fdatasync=8"]),
            ("1 MiB read, depth 8", "randread", "1m", 8, []),
        ):
            side = "write" if "write" in rw else "read"
            rates = {"disk": [], "osd": []}
            latency = {"disk": [], "osd": []}
            for _ in range(3):
                for who, job in (("disk", fio_file(parent, rw, bs, depth, 4, *flags)), ("osd", fio_rados(cluster.conf, rw, bs, depth, 4))):
                    rates[who].append(job[side]["iops"])
                    latency[who].append((job[side]["clat_ns"]["mean"] + (job["sync"]["lat_ns"].get("mean", 0) if depth == 1 and flags and who == "disk" else 0)) / 1000)
            disk, osd = statistics.median(rates["disk"]), statistics.median(rates["osd"])
            rows.append((name, f"{disk:.0f}", f"{osd:.0f}", f"{osd / disk:.2f}", f"{statistics.median(latency['disk']):.0f}",
                         f"{statistics.median(latency['osd']):.0f}"))
        table(("", "disk/s", "OSD/s", "ratio", "disk mean us", "OSD mean us"), rows)
    finally:
        cluster.down(check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="restart|steady|device")
    parser.add_argument("--loligo", type=Path, required=True)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--dir", type=Path, default=None)
    args = parser.parse_args()
    known = {"restart": restart, "steady": steady, "device": device}
    if unknown := [name for name in args.figures if name not in known]:
        parser.error(f"there is no figure {unknown[0]}; there are {', '.join(known)}")
    os.environ["LOLIGO"] = str(args.loligo.resolve())
    for name in args.figures or known:
        parent = Path(tempfile.mkdtemp(prefix="loligo-figures-", dir=args.dir))
        print(f"== {name}", flush=True)
        try:
            known[name](parent, args)
        finally:
            shutil.rmtree(parent, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
