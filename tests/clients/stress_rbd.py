#!/usr/bin/python3
"""Writers of one image, among snapshots, clones, resizes and kill -9; every block held against what was acknowledged.

    stress_rbd.py --loligo PATH [--shape SHAPE]... [--seconds N] [--seed S]     starts clusters with the binary PATH
    stress_rbd.py --conf CEPH_CONF [--seconds N] [--seed S]                      uses a cluster that runs

The image begins as a clone. Two writers, a process each, keep several writes of their own blocks in flight; as they
share the image, its exclusive lock goes back and forth. A writer notes each block's version in memory that all processes
share: before it sends it ("issued") and when it is told that it is written ("acked"). So whoever looks knows what it
may find: a block is never older than what was acked before the look, never newer than what was issued after it. The
operator takes snapshots and looks into them at once and again later, copies them into clones that it flattens, resizes
the image, flattens it, says of OSDs that they are down, and kills a writer with kill -9. The next writer takes the lock from the dead one, which the
cluster must shut out, and finds every block that the dead one was told of.
"""
import argparse
import contextlib
import hashlib
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import rbd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import harness  # noqa: E402
from rados_pool import connect  # noqa: E402

BLOCK = 4096
# Blocks that one writer owns together, and of which it has one write in flight.
GROUP = 8
BLOCKS = 2048
SIZE = BLOCK * BLOCKS
ORDER = 18
WRITERS = 2
DEPTH = 6
# Each so many versions of a block, it is zeroes.
ZERO_EVERY = 7
# How soon the dead are believed dead: watches that nobody renews end, and their owners' locks may be broken.
WATCH_TIMEOUT_S = 5
STUCK_S = 120
IMAGE = "disk"


class Wrong(Exception):
    """A block is not what it may be."""


def content(block, version):
    """What a block is at a version; version 0 is the parent's."""
    if version and version % ZERO_EVERY == 0:
        return bytes(BLOCK)
    return struct.pack("<IIQ", block, version, 0x106C) * (BLOCK // 16)


def version_of(block, data, low, high):
    """Which of the versions from low to high the data is."""
    if any(data):
        found = struct.unpack_from("<II", data)[1]
        if low <= found <= high and data == content(block, found):
            return found
        raise Wrong(f"block {block}: versions {low} to {high} may be there, and {struct.unpack_from('<II', data)} is")
    for version in range(high, low - 1, -1):
        if version and version % ZERO_EVERY == 0:
            return version
    raise Wrong(f"block {block}: versions {low} to {high} may be there, none of them zero, and zeroes are")


class Ledger:
    """What was issued and acked of every block, shared by all processes."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 8 * BLOCKS)
        words = memoryview(self.map).cast("I")
        self.issued, self.acked = words[:BLOCKS], words[BLOCKS:]

    @staticmethod
    def make(path):
        with open(path, "wb") as file:
            file.truncate(8 * BLOCKS)
        return Ledger(path)


def client(cut_every=0):
    """A client whose watches live by WATCH_TIMEOUT_S: it says every second that it is alive."""
    cuts = {"ms_inject_socket_failures": str(cut_every)} if cut_every else {}
    return connect(objecter_tick_interval="1", rbd_cache="false", **cuts)


@contextlib.contextmanager
def short_watches():
    """While it lasts, new watches end WATCH_TIMEOUT_S after their client's last sign of life."""
    harness.run("ceph", "config", "set", "osd", "osd_client_watch_timeout", WATCH_TIMEOUT_S)
    try:
        yield
    finally:
        harness.run("ceph", "config", "rm", "osd", "osd_client_watch_timeout")


class Writer:
    """A process that writes, zeroes and reads its own blocks."""

    def __init__(self, pool, number, ledger, seed, cut_every):
        self.random = random.Random(f"{seed}-{number}")
        self.ledger, self.number = ledger, number
        self.cluster = client(cut_every)
        self.io = self.cluster.open_ioctx(pool)
        self.image = rbd.Image(self.io, IMAGE)
        self.groups = [g for g in range(BLOCKS // GROUP) if g % WRITERS == number]
        self.idle = set(self.groups)
        self.changed = threading.Condition()
        self.error = None
        self.writes = 0

    def take_over(self):
        """Finds out what the last writer left. With the lock, as only then can nothing of its come later."""
        self.image.write(b"\0" * BLOCK, SIZE + self.number * BLOCK)
        for group in self.groups:
            first = group * GROUP
            data = self.image.read(first * BLOCK, GROUP * BLOCK)
            for block in range(first, first + GROUP):
                at = (block - first) * BLOCK
                low, high = self.ledger.acked[block], self.ledger.issued[block]
                version = version_of(block, data[at : at + BLOCK], low, high)
                self.ledger.issued[block] = self.ledger.acked[block] = version

    def step(self):
        with self.changed:
            while len(self.groups) - len(self.idle) >= DEPTH and not self.error:
                self.changed.wait(STUCK_S)
            if self.error:
                raise Wrong(f"a write failed: {self.error}")
            group = self.random.choice(sorted(self.idle)) if self.random.random() < 0.1 else next(iter(self.idle))
            self.idle.discard(group)
        first = group * GROUP + self.random.randrange(GROUP)
        count = self.random.randrange(1, (group + 1) * GROUP - first + 1)
        if self.random.random() < 0.1:
            return self.look(group, first, count)
        versions = [self.ledger.issued[b] + 1 for b in range(first, first + count)]
        data = b"".join(content(first + n, version) for n, version in enumerate(versions))
        for n, version in enumerate(versions):
            self.ledger.issued[first + n] = version
        done = lambda completion: self.on_done(completion.get_return_value(), group, first, versions)
        if any(data):
            self.image.aio_write(data, first * BLOCK, done)
        else:
            self.image.aio_write_zeroes(first * BLOCK, len(data), done)

    def look(self, group, first, count):
        data = self.image.read(first * BLOCK, count * BLOCK)
        for n in range(count):
            version = self.ledger.acked[first + n]
            version_of(first + n, data[n * BLOCK : (n + 1) * BLOCK], version, version)
        with self.changed:
            self.idle.add(group)

    def on_done(self, code, group, first, versions):
        if code >= 0:
            for n, version in enumerate(versions):
                self.ledger.acked[first + n] = version
        with self.changed:
            self.writes += 1
            self.error = self.error or (code if code < 0 else None)
            self.idle.add(group)
            self.changed.notify()

    def run(self, seconds):
        end, told = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            # Bursts, so that the other writer gets its turn.
            for _ in range(self.random.randrange(20, 200)):
                self.step()
            time.sleep(self.random.random() * 0.05)
            if time.monotonic() - told > 1:
                told = time.monotonic()
                print(f"at {self.writes} writes", flush=True)
        with self.changed:
            while len(self.idle) < len(self.groups):
                if not self.changed.wait(STUCK_S):
                    raise Wrong("writes that never end")
        if self.error:
            raise Wrong(f"a write failed: {self.error}")
        self.image.close()


def writer_main(args):
    writer = None
    try:
        writer = Writer(args.pool, args.writer, Ledger(args.ledger), args.seed, args.cut_every)
        writer.take_over()
        print("took over", flush=True)
        writer.run(args.seconds)
    except (Wrong, rbd.Error) as error:
        print(f"wrong: {error!r}", flush=True)
        os._exit(1)
    print(f"done {writer.writes}", flush=True)
    os._exit(0)


class Running:
    """A writer's process and what it last said."""

    def __init__(self, pool, number, ledger, seed, seconds, cut_every):
        self.number = number
        command = [sys.executable, __file__, "--pool", pool, "--writer", str(number), "--ledger", str(ledger), "--seed",
                   str(seed), "--seconds", str(seconds), "--cut-every", str(cut_every)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HERE)
        self.lines, self.said_at = [], time.monotonic()
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self):
        for line in self.process.stdout:
            self.said_at = time.monotonic()
            self.lines = self.lines[-20:] + [line.rstrip()]

    def took_over(self):
        return any(line == "took over" or line.startswith(("at ", "done ")) for line in self.lines)

    def complaint(self):
        """Why it is not well; None while it is, or when it ended well."""
        code = self.process.poll()
        if code is None:
            return f"writer {self.number} is stuck: {self.lines[-1:]}" if time.monotonic() - self.said_at > STUCK_S else None
        self.reader.join()
        if code == 0 and self.lines[-1].startswith("done "):
            return None
        return f"writer {self.number}: exit {code}: " + "\n".join(self.lines[-10:])

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class Operator:
    """Takes snapshots, clones, resizes, flattens and kills, while the writers write."""

    def __init__(self, pool, ledger_path, seed, kills, downs, cut_every):
        self.random = random.Random(f"{seed}-operator")
        self.pool, self.kills, self.seed, self.ledger_path = pool, kills, seed, ledger_path
        self.cut_every, self.downs = cut_every, downs
        self.ledger = Ledger.make(ledger_path)
        self.cluster = client()
        self.io = self.cluster.open_ioctx(pool)
        self.rbd = rbd.RBD()
        self.seen, self.counts, self.next_snap = {}, {}, 0
        self.writers = []

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def make_image(self):
        self.rbd.create(self.io, "parent", SIZE, order=ORDER)
        with rbd.Image(self.io, "parent") as parent:
            for first in range(0, BLOCKS, 256):
                parent.write(b"".join(content(b, 0) for b in range(first, first + 256)), first * BLOCK)
            parent.create_snap("base")
            parent.protect_snap("base")
        self.rbd.clone(self.io, "parent", "base", self.io, IMAGE, order=ORDER, features=61)
        # Room for the resizes to come and go, and for what new writers write to get the lock.
        with rbd.Image(self.io, IMAGE) as image:
            image.resize(SIZE + (1 << 20))

    def snapshot(self):
        name = f"s{self.next_snap}"
        self.next_snap += 1
        with rbd.Image(self.io, IMAGE) as image:
            low = list(self.ledger.acked)
            image.create_snap(name)
            high = list(self.ledger.issued)
        data = self.snapshot_data(name)
        for block in range(BLOCKS):
            version_of(block, data[block * BLOCK : (block + 1) * BLOCK], low[block], high[block])
        self.seen[name] = hashlib.sha256(data).digest()
        self.count("snapshots")

    def snapshot_data(self, name):
        with rbd.Image(self.io, IMAGE, snapshot=name, read_only=True) as image:
            return image.read(0, SIZE)

    def look_again(self):
        """An older snapshot is what it was; then it may go."""
        if not self.seen:
            return
        name = self.random.choice(sorted(self.seen))
        if hashlib.sha256(self.snapshot_data(name)).digest() != self.seen[name]:
            raise Wrong(f"snapshot {name} has changed")
        if len(self.seen) > 3:
            del self.seen[name]
            with rbd.Image(self.io, IMAGE) as image:
                image.remove_snap(name)
            self.count("removed")

    def clone(self):
        if not self.seen:
            return
        name = self.random.choice(sorted(self.seen))
        with rbd.Image(self.io, IMAGE) as image:
            if not image.is_protected_snap(name):
                image.protect_snap(name)
        self.rbd.clone(self.io, IMAGE, name, self.io, "copy", features=61)
        with rbd.Image(self.io, "copy") as copy:
            copy.flatten()
            if hashlib.sha256(copy.read(0, SIZE)).digest() != self.seen[name]:
                raise Wrong(f"a flattened clone of snapshot {name} is something else")
        self.rbd.remove(self.io, "copy")
        with rbd.Image(self.io, IMAGE) as image:
            image.unprotect_snap(name)
        self.count("clones flattened")

    def resize(self):
        with rbd.Image(self.io, IMAGE) as image:
            image.resize(SIZE + self.random.randrange(1, 9) * (1 << 20))
        self.count("resizes")

    def flatten(self):
        with rbd.Image(self.io, IMAGE) as image:
            try:
                image.parent_info()
            except rbd.ImageNotFound:
                return
            image.flatten()
        self.count("flattened")

    def kill(self, until):
        victim = self.random.randrange(len(self.writers))
        old = self.writers[victim]
        if old.complaint() or not old.took_over():
            return
        old.process.send_signal(signal.SIGKILL)
        old.end()
        self.writers[victim] = Running(self.pool, old.number, self.ledger_path, f"{self.seed}+{self.next_snap}",
                                       max(2, until - time.monotonic()), self.cut_every)
        harness.wait_for(lambda: self.writers[victim].took_over() or self.check_writers(), "a new writer has taken over", STUCK_S)
        self.count("killed")
        self.snapshot()

    def osd_down(self):
        """An OSD is said to be down, which it denies: its placement groups find together anew, with all that is under way."""
        ask = lambda **words: self.cluster.mon_command(json.dumps({"format": "json", **words}), b"")
        osds = json.loads(ask(prefix="osd ls")[1])
        code, _, says = ask(prefix="osd down", ids=[str(self.random.choice(osds))])
        if code:
            raise Wrong(f"osd down: {code} {says}")
        self.count("OSDs said to be down")

    def check_writers(self):
        for writer in self.writers:
            if complaint := writer.complaint():
                raise Wrong(complaint)

    def run(self, seconds):
        self.make_image()
        until = time.monotonic() + seconds
        self.writers = [Running(self.pool, n, self.ledger_path, self.seed, seconds, self.cut_every) for n in range(WRITERS)]
        kinds = [self.snapshot, self.snapshot, self.look_again, self.look_again, self.clone, self.resize]
        flatten_at = time.monotonic() + seconds / 2
        spread = lambda times: [time.monotonic() + seconds * (n + 1) / (times + 1) for n in range(times)]
        kill_at, down_at = spread(self.kills), spread(self.downs)
        harness.wait_for(lambda: all(w.took_over() for w in self.writers) or self.check_writers(), "the writers write", STUCK_S)
        while time.monotonic() < until:
            self.check_writers()
            self.random.choice(kinds)()
            if flatten_at and time.monotonic() > flatten_at:
                flatten_at = self.flatten()
            if kill_at and time.monotonic() > kill_at[0]:
                kill_at.pop(0)
                self.kill(until)
            if down_at and time.monotonic() > down_at[0]:
                down_at.pop(0)
                self.osd_down()
            time.sleep(self.random.random() * 0.2)
        harness.wait_for(lambda: self.check_writers() or all(w.process.poll() is not None for w in self.writers), "the writers end", STUCK_S)
        self.check_writers()
        self.last_look()

    def last_look(self):
        with rbd.Image(self.io, IMAGE) as image:
            data = image.read(0, SIZE)
            for block in range(BLOCKS):
                version = self.ledger.acked[block]
                version_of(block, data[block * BLOCK : (block + 1) * BLOCK], version, version)
        for name in sorted(self.seen):
            if hashlib.sha256(self.snapshot_data(name)).digest() != self.seen[name]:
                raise Wrong(f"snapshot {name} has changed at the end")
        self.counts["versions"] = sum(self.ledger.acked)
        check = harness.run("rbd", "object-map", "check", f"{self.pool}/{IMAGE}", "--no-progress")
        info = harness.run("rbd", "info", f"{self.pool}/{IMAGE}").stdout
        if "invalid" in check.stdout + info:
            raise Wrong(f"the object map is wrong: {check.stdout} {check.stderr} {info}")


def stress(*, seconds, seed, kills, downs=0, cut_every=0):
    """Runs against the cluster of CEPH_CONF; returns (what was done, what was wrong)."""
    pool = f"stress-rbd-{os.getpid()}-{seed}"
    harness.make_pool(pool)
    with short_watches(), tempfile.TemporaryDirectory(prefix="loligo-test-") as directory:
        operator = None
        try:
            operator = Operator(pool, Path(directory) / "ledger", seed, kills, downs, cut_every)
            operator.run(seconds)
            return ", ".join(f"{count} {what}" for what, count in sorted(operator.counts.items())), None
        except (Wrong, rbd.Error, AssertionError) as error:
            return "", f"{error!r} after {operator and operator.counts}"
        finally:
            for writer in operator.writers if operator else []:
                writer.end()
            if operator:
                operator.io.close()
                operator.cluster.shutdown()
            harness.drop_pool(pool)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path)
    parser.add_argument("--conf", type=Path)
    parser.add_argument("--shape", action="append")
    parser.add_argument("--seconds", type=float, default=120, help="how long each shape is used (120)")
    parser.add_argument("--kills", type=int, default=None, help="writers killed in that time; one every 20 seconds if not given")
    parser.add_argument("--downs", type=int, default=None, help="OSDs marked down in that time; one every 15 seconds if not given")
    parser.add_argument("--cut-every", type=int, default=0, help="break a writer's connection every so many socket calls (0: never)")
    parser.add_argument("--seed", default=None, help="decides the operations; random if not given")
    parser.add_argument("--pool", help=argparse.SUPPRESS)
    parser.add_argument("--ledger", help=argparse.SUPPRESS)
    parser.add_argument("--writer", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.writer is not None:
        return writer_main(args)
    if bool(args.loligo) == bool(args.conf):
        parser.error("exactly one of --loligo and --conf is needed")
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    kills = args.kills if args.kills is not None else int(args.seconds / 20)
    downs = args.downs if args.downs is not None else int(args.seconds / 15)
    wrong = []

    def one(label):
        said, failure = stress(seconds=args.seconds, seed=seed, kills=kills, downs=downs, cut_every=args.cut_every)
        print(f"{label}, seed {seed}: {'WRONG: ' + failure if failure else said}", flush=True)
        wrong.extend([failure] if failure else [])

    if args.conf:
        os.environ["CEPH_CONF"] = str(args.conf.resolve())
        one(args.conf)
    else:
        import run

        os.environ["LOLIGO"] = str(args.loligo.resolve())
        for shape in args.shape or ["processes-crc", "processes-secure"]:
            flags, mode = run.SHAPES[shape]
            with tempfile.TemporaryDirectory(prefix="loligo-test-") as parent:
                with harness.running(Path(parent) / "c", *flags, options={"ms_client_mode": mode}) as cluster:
                    os.environ["CEPH_CONF"] = str(cluster.conf)
                    one(shape)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
