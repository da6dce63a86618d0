#!/usr/bin/python3
"""All daemons killed with -9, over and over, under fio that verifies what it writes: nothing acknowledged is lost.

    stress_kill.py --loligo PATH [--rounds N] [--seed S] [--devices apart]

fio writes an RBD image at depth 16 with sizes from 4 to 64 KiB and reads back what it wrote, checksums and numbers of
writes included. It lives through all rounds: its requests wait while there is no cluster, and what was acknowledged
before a kill is verified after it. Beside it a writer of RADOS objects notes what was acknowledged; each of its objects
is held against that after each round. Every round ends with an fsck of every store while it lies there as it was
killed, the last with a deep one. `--devices apart` gives logs and metadata devices of their own.
"""
import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Loligo, has_ended, run, wait_for
from test_extent_store_own import WRITER, content

IMAGE_MIB = 128


class Wrong(Exception):
    """What must not be."""


def kill_all(cluster):
    pids = cluster.pids()
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for pid in pids.values():
        wait_for(lambda: has_ended(pid), f"{pid} is gone")


def fsck(cluster, deep):
    flags = ["--deep"] if deep else []
    out = subprocess.run([Loligo.binary(), "fsck", "--dir", cluster.dir, "--format", "json", *flags],
                         capture_output=True, text=True, timeout=600)
    reports = json.loads(out.stdout or "[]")
    problems = [(r["osd"], r["problems"]) for r in reports if r["problems"]]
    if problems or out.returncode or not reports:
        raise Wrong(f"fsck: {problems} {out.stderr}")
    return sum(r["log_records"] for r in reports)


class Objects:
    """A writer of objects and what it was told."""

    def __init__(self, conf, seed, log):
        self.conf, self.begun, self.done, self.log = conf, {}, {}, log
        with log.open("w") as out:
            self.process = subprocess.Popen(["/usr/bin/python3", "-c", WRITER, str(conf), str(seed)], stdout=out)

    def stop(self):
        self.process.kill()
        self.process.wait()
        for line in self.log.read_text().splitlines():
            match line.split():
                case ["begin", name, version, size]:
                    self.begun.setdefault(name, {})[int(version)] = int(size)
                case ["done", name, version, _]:
                    self.done[name] = max(self.done.get(name, 0), int(version))

    def verify(self):
        import rados
        with rados.Rados(conffile=str(self.conf)) as cluster, cluster.open_ioctx("p") as io:
            for name, versions in self.begun.items():
                acknowledged = self.done.get(name, 0)
                try:
                    data = io.read(name, 1 << 20)
                except rados.ObjectNotFound:
                    if acknowledged:
                        raise Wrong(f"{name} is gone, version {acknowledged} was acknowledged") from None
                    continue
                version = int(data.split()[1])
                if version < acknowledged or data != content(name, version, versions[version]):
                    raise Wrong(f"{name} has version {version}, {acknowledged} was acknowledged")
        return len(self.done)


def start_fio(conf, log):
    flags = ["--name=kill", "--ioengine=rbd", "--clientname=admin", "--pool=p", "--rbdname=disk",
             "--rw=randwrite", "--bsrange=4k-64k", "--iodepth=16", "--time_based", "--runtime=1000000",
             "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=256", "--randrepeat=0"]
    # The engine reads the configuration that the environment names.
    return subprocess.Popen(["fio", *flags], stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ, CEPH_CONF=str(conf)))


def rounds(cluster, parent, count, rng, flags):
    cluster.up("--store", "extent", "--processes", *flags, options={"bluestore_block_size": 2 << 30})
    run("ceph", "osd", "pool", "create", "p", "8", conf=cluster.conf)
    run("rbd", "pool", "init", "p", conf=cluster.conf)
    run("rbd", "create", "p/disk", "--size", f"{IMAGE_MIB}M", conf=cluster.conf)
    acknowledged = records = 0
    fio_log = parent / "fio.log"
    with fio_log.open("w") as log:
        fio = start_fio(cluster.conf, log)
        try:
            for number in range(count):
                objects = Objects(cluster.conf, number, parent / "acknowledged")
                try:
                    wait_for(lambda: objects.log.stat().st_size > 1000, "the writer writes")
                    time.sleep(rng.uniform(0.1, 2.0))
                    kill_all(cluster)
                finally:
                    objects.stop()
                records += fsck(cluster, deep=number + 1 == count)
                cluster.up("--processes", new=False)
                acknowledged += objects.verify()
                if fio.poll() is not None:
                    raise Wrong(f"fio: {fio_log.read_text()[-2000:]}")
                print(f"\r{number + 1} of {count} rounds", end="", file=sys.stderr, flush=True)
            # What is still to be verified is, and then it stops by itself.
            time.sleep(2)
            fio.send_signal(signal.SIGINT)
            fio.wait(120)
        finally:
            fio.kill()
            fio.wait()
    print(file=sys.stderr)
    said = fio_log.read_text()
    if "verify" in said.lower() and ("bad" in said.lower() or "verify failed" in said.lower()):
        raise Wrong(f"fio: {said[-2000:]}")
    summary = next((line.strip() for line in said.splitlines() if line.strip().startswith("write:")), "no summary")
    return f"{count} kills of all daemons, {acknowledged} acknowledged objects verified, {records} records replayed; fio {summary}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=200, help="how often all daemons are killed (200)")
    parser.add_argument("--devices", choices=["single", "apart"], default="single")
    parser.add_argument("--seed", type=int, default=None, help="decides when; random if not given")
    args = parser.parse_args()
    os.environ["LOLIGO"] = str(args.loligo.resolve())
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory(prefix="loligo-test-") as directory:
        parent = Path(directory)
        flags = []
        if args.devices == "apart":
            (parent / "fast").mkdir()
            flags = ["--log-device", str(parent / "fast"), "--meta-device", str(parent / "fast")]
        cluster = Loligo(parent / "c")
        try:
            print(f"seed {seed}: {rounds(cluster, parent, args.rounds, random.Random(seed), flags)}")
        except (Wrong, AssertionError) as wrong:
            print(f"seed {seed}: WRONG: {wrong}")
            sys.exit(1)
        finally:
            with contextlib.suppress(subprocess.SubprocessError):
                cluster.down(check=False)


if __name__ == "__main__":
    main()
