#!/usr/bin/python3
"""How fast an OSD that was away gets what it has missed while no client works, and what that costs.

    recovery_speed.py --loligo PATH                        a cluster of its own, with the defaults
    recovery_speed.py --loligo PATH --mib-per-second N     the same on devices that do no more than that each way
    recovery_speed.py --dir DIR --restart COMMAND          a cluster that runs (`victims`), of three OSDs

One of three OSDs is killed, and --objects of 4 MiB are written whose third copy it should have. Then it is started, with
limits on recovery lifted. Measured from when the map shows it as up until every group's primary says that it is clean:
MiB/s, and CPU of all OSDs per object. Just before and after it the same bytes are copied by hand, from one file to another
on the same disk or from one device to another that is as slow, past the page cache and flushed: a disk's speed may change
within a minute. All that --rounds times.
"""
import json
import mmap
import os
import queue
import statistics
import sys
import threading
import time

import rados
import victims
from harness import run, wait_for

OSDS = 3
VICTIM = 2
SIZE = 4 << 20
DEPTH = 8
LIFTED = {"osd_max_backfills": 1000, "osd_recovery_max_active": 1000, "osd_recovery_sleep": 0}


def fill(cluster, count):
    io = cluster.rados.open_ioctx(cluster.pool)
    data, under_way = bytearray(os.urandom(SIZE)), []
    for number in range(count):
        data[:8] = number.to_bytes(8, "little")
        under_way.append(io.aio_write_full(f"o{number}", bytes(data)))
        if len(under_way) == DEPTH:
            under_way.pop(0).wait_for_complete()
    for one in under_way:
        one.wait_for_complete()
        assert one.get_return_value() == 0, one.get_return_value()


def asked(answer):
    code, out, said = answer
    if code:
        raise OSError(-code, said)
    return json.loads(out)


def is_up(cluster):
    dump = asked(cluster.rados.mon_command(json.dumps({"prefix": "osd dump", "format": "json"}), b""))
    return dump["osds"][VICTIM]["up"] == 1


def wait_clean(cluster):
    """Asks the primaries, who know it at once."""
    pool = cluster.rados.pool_lookup(cluster.pool)
    left = [f"{pool}.{seed:x}" for seed in range(32)]

    def all_are():
        while left:
            query = json.dumps({"prefix": "query", "pgid": left[0], "format": "json"})
            code, out, _ = cluster.rados.pg_command(left[0], query, b"")
            if code or json.loads(out)["state"] != "active+clean":
                return False
            left.pop(0)
        return True
    wait_for(all_are, "everything is clean", 600, 0.02)


def cpu_seconds(cluster):
    def of(pid):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(of(cluster.pid(osd)) for osd in range(OSDS))


def copy_by_hand(cluster, count):
    """Copies as many bytes, reading ahead of what is written; how long that takes. Where devices are slow, from one of those
    to another."""
    here, there = cluster.spare or (cluster.scratch / "from", cluster.scratch / "to")
    buffers = [mmap.mmap(-1, SIZE) for _ in range(DEPTH)]
    buffers[0].write(os.urandom(SIZE))
    free, read = queue.SimpleQueue(), queue.SimpleQueue()
    try:
        source = os.open(here, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        target = os.open(there, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        if not cluster.spare:
            for _ in range(count):
                os.write(source, buffers[0])
            os.fsync(source)

        def read_all():
            for number in range(count):
                buffer = free.get()
                os.preadv(source, [buffer], number * SIZE)
                read.put(buffer)
        began = time.monotonic()
        for buffer in buffers:
            free.put(buffer)
        reader = threading.Thread(target=read_all)
        reader.start()
        for number in range(count):
            buffer = read.get()
            os.pwritev(target, [buffer], number * SIZE)
            free.put(buffer)
        reader.join()
        os.fsync(target)
        took = time.monotonic() - began
        os.close(source)
        os.close(target)
        return took
    finally:
        if not cluster.spare:
            here.unlink(missing_ok=True)
            there.unlink(missing_ok=True)


def one_round(cluster, count):
    """Seconds that recovery takes, those of copying by hand just before and after it, and CPU seconds of all OSDs."""
    cluster.kill(VICTIM)
    wait_for(lambda: not is_up(cluster), "the OSD is down", 120)
    fill(cluster, count)
    before = copy_by_hand(cluster, count)
    cluster.start(VICTIM)
    wait_for(lambda: is_up(cluster), "the OSD is up", 120, 0.01)
    began, cpu = time.monotonic(), cpu_seconds(cluster)
    wait_clean(cluster)
    took, cpu = time.monotonic() - began, cpu_seconds(cluster) - cpu
    return took, (before + copy_by_hand(cluster, count)) / 2, cpu


def measure(cluster, args):
    mib = args.objects * SIZE / (1 << 20)
    for key, value in LIFTED.items():
        run("ceph", "config", "set", "osd", key, value, conf=cluster.conf)
    run("ceph", "osd", "set", "noout", conf=cluster.conf)
    rounds = []
    with cluster.with_pool(("size", 3), ("min_size", 1)), rados.Rados(conffile=str(cluster.conf)) as cluster.rados:
        for number in range(args.rounds):
            took, by_hand, cpu = one_round(cluster, args.objects)
            rounds.append((mib / took, mib / by_hand, by_hand / took, cpu / args.objects * 1000))
            print("round {}: {:.0f} MiB/s, by hand {:.0f}: {:.0%} of it; {:.2f} ms of CPU per object"
                  .format(number + 1, *rounds[-1]), flush=True)
    run("ceph", "osd", "unset", "noout", conf=cluster.conf)
    for key in LIFTED:
        run("ceph", "config", "rm", "osd", key, conf=cluster.conf)
    print("medians: {:.0f} MiB/s, by hand {:.0f}, {:.0%} of it; {:.2f} ms of CPU per object of 4 MiB"
          .format(*(statistics.median(column) for column in zip(*rounds))))


if __name__ == "__main__":
    sys.exit(victims.main(__doc__, OSDS, measure, objects=400, rounds=5))
