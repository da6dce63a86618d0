#!/usr/bin/python3
"""How fast an OSD that was away gets what it has missed while no client works, and what that costs.

    recovery_speed.py --loligo PATH [--objects N]                  a cluster of its own, with the defaults
    recovery_speed.py --dir DIR --restart COMMAND [--objects N]    a cluster that runs (`victims`), of three OSDs

One of three OSDs is killed, and N objects of 4 MiB are written whose third copy it should have. Then it is started, with
limits on recovery lifted. Measured from when the map shows it as up until every group's primary says that it is clean:
MiB/s, and CPU of all OSDs per object. Beside it the same bytes copied by hand, from one file to another on the same disk,
past the page cache and flushed.
"""
import json
import mmap
import os
import sys
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


def copy_by_hand(directory, count):
    """Copies as many bytes; how long that takes."""
    buffer = mmap.mmap(-1, SIZE)
    buffer.write(os.urandom(SIZE))
    here, there = directory / "from", directory / "to"
    open_for = {here: os.O_RDONLY | os.O_DIRECT, there: os.O_WRONLY | os.O_CREAT | os.O_DIRECT}
    try:
        source = os.open(here, open_for[there])
        for _ in range(count):
            os.write(source, buffer)
        os.fsync(source)
        os.close(source)
        source, target = os.open(here, open_for[here]), os.open(there, open_for[there])
        began = time.monotonic()
        for _ in range(count):
            os.readv(source, [buffer])
            os.write(target, buffer)
        os.fsync(target)
        took = time.monotonic() - began
        os.close(source)
        os.close(target)
        return took
    finally:
        here.unlink(missing_ok=True)
        there.unlink(missing_ok=True)


def measure(cluster, args):
    mib = args.objects * SIZE / (1 << 20)
    for key, value in LIFTED.items():
        run("ceph", "config", "set", "osd", key, value, conf=cluster.conf)
    run("ceph", "osd", "set", "noout", conf=cluster.conf)
    with cluster.with_pool(("size", 3), ("min_size", 1)), rados.Rados(conffile=str(cluster.conf)) as cluster.rados:
        cluster.kill(VICTIM)
        wait_for(lambda: not is_up(cluster), "the OSD is down", 120)
        fill(cluster, args.objects)
        by_hand = copy_by_hand(cluster.scratch, args.objects)
        cluster.start(VICTIM)
        wait_for(lambda: is_up(cluster), "the OSD is up", 120, 0.01)
        began, cpu = time.monotonic(), cpu_seconds(cluster)
        wait_clean(cluster)
        took, cpu = time.monotonic() - began, cpu_seconds(cluster) - cpu
    run("ceph", "osd", "unset", "noout", conf=cluster.conf)
    for key in LIFTED:
        run("ceph", "config", "rm", "osd", key, conf=cluster.conf)
    print(f"recovery: {mib / took:.0f} MiB/s, {cpu / args.objects * 1000:.2f} ms of CPU per object of 4 MiB "
          f"({args.objects} in {took:.2f} s)")
    print(f"by hand:  {mib / by_hand:.0f} MiB/s; recovery has {by_hand / took:.0%} of it")


if __name__ == "__main__":
    sys.exit(victims.main(__doc__, OSDS, measure, objects=400))
