#!/usr/bin/python3
"""OSDs are killed, stopped, started, marked out and in and replaced by empty ones while pools get more and
fewer placement groups, under fio that verifies what it writes and clients whose every object is held against a model.

    thrash.py --loligo PATH [--seconds N] [--seed S] [--osds N]

Every daemon is a process of its own on the extent store. At most two OSDs are away at a time. Each client sends one
request at a time, so that its model is exact: an append that is done twice, or not at all, shows. In the end every OSD is
back, everything has to become active+clean, every object is read once more, and all copies pass a deep scrub and every
store a deep fsck. The longest operations are shown with what they waited for (`waits`).
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
from collections import Counter
from pathlib import Path

from harness import Loligo, has_ended, run, wait_for
from waits import Waits

IMAGE_MIB = 64
AWAY_MAX = 2
CLEAN_SECONDS = 300
# How long a request may take: longer than an OSD stays away, and than a lease lasts.
STUCK_SECONDS = 180
# How long one may wait although its group serves, and nobody has it: it was dropped, and its client not told.
LOST_SECONDS = 8
# How much is shown of what a stuck client does, by its own log.
LOG_LINES = 80

# Mixed operations on its own objects, each checked against what it must answer; reports after each.
CLIENT = r"""
import os, random, sys, time
import rados
conf, prefix, stop, report, now = sys.argv[1:]
rng = random.Random(prefix)
cluster = rados.Rados(conffile=conf, conf={"admin_socket": report + ".asok"}); cluster.connect()
io = cluster.open_ioctx("p")
model, ops, longest = {}, 0, 0.0
def fail(what):
    print(what, flush=True)
    os._exit(1)
def fill(n):
    return bytes(rng.choices(b"abcdefghijklmnop", k=16)) * (n // 16 + 1)
def read(name):
    try:
        data = io.read(name, 1 << 20)
    except rados.ObjectNotFound:
        data = None
    want = model[name]["data"] if name in model else None
    if data != want:
        lens = [None if d is None else len(d) for d in (data, want)]
        fail(f"{name}: its data differ, lengths {lens[0]}, not {lens[1]}")
    if want is None:
        return
    if dict(io.get_xattrs(name)) != model[name]["attrs"]:
        fail(f"{name}: its attributes are {dict(io.get_xattrs(name))}, not {model[name]['attrs']}")
    with rados.ReadOpCtx() as op:
        found, _ = io.get_omap_vals(op, "", "", 1000)
        io.operate_read_op(op, name)
        found = dict(found)
    if found != model[name]["omap"]:
        fail(f"{name}: its map has {len(found)} entries, not {len(model[name]['omap'])}")
def one(name):
    kind = rng.choice("wwwaaafftrrxooOdRRR")
    with open(now, "w") as out: out.write(f"{time.time()} {kind} {name}")
    new = {"data": b"", "attrs": {}, "omap": {}}
    if kind == "R":
        return read(name)
    if kind in "dt" and name not in model:
        return
    if kind == "d":
        io.remove_object(name); del model[name]
        return
    m = model.setdefault(name, new)
    data = fill(rng.choice((30, 3000, 40000)))[:rng.choice((17, 2900, 33333))]
    if kind == "w":
        at = rng.randrange(len(m["data"]) + 1)
        io.write(name, data, at)
        m["data"] = m["data"][:at].ljust(at, b"\0") + data + m["data"][at + len(data):]
    elif kind == "a":
        if len(m["data"]) > 400000: data = data[:5]
        io.append(name, data); m["data"] += data
    elif kind == "f":
        io.write_full(name, data); m["data"] = data
    elif kind == "t":
        size = rng.randrange(len(m["data"]) + 1)
        io.trunc(name, size); m["data"] = m["data"][:size]
    elif kind == "x" or kind == "r":
        key, value = f"x{rng.randrange(4)}", fill(20)[:12]
        io.set_xattr(name, key, value); m["attrs"][key] = value
    elif kind == "o":
        keys = [f"k{rng.randrange(30):02}" for _ in range(3)]; values = [fill(20)[:15] for _ in keys]
        keys = list(dict.fromkeys(keys)); values = values[:len(keys)]
        with rados.WriteOpCtx() as op:
            io.set_omap(op, tuple(keys), tuple(values)); io.operate_write_op(op, name)
        m["omap"].update(zip(keys, values))
    elif kind == "O":
        key = f"k{rng.randrange(30):02}"
        with rados.WriteOpCtx() as op:
            op.new(0); io.remove_omap_keys(op, (key,)); io.operate_write_op(op, name)
        m["omap"].pop(key, None)
while not os.path.exists(stop):
    began = time.monotonic()
    one(f"{prefix}.{rng.randrange(80)}")
    ops += 1
    longest = max(longest, time.monotonic() - began)
    with open(report, "w") as out: out.write(f"{ops} {longest:.1f}")
open(now, "w").close()
for number in range(80):
    read(f"{prefix}.{number}")
print(f"ok {ops} {longest:.1f}", flush=True)
"""


class Wrong(Exception):
    """What must not be."""


class Thrasher:
    """A cluster, what is done to it, and who works on it meanwhile."""

    def __init__(self, cluster, parent, rng, osds):
        self.cluster, self.parent, self.rng, self.osds = cluster, parent, rng, osds
        self.away, self.out, self.started, self.done = {}, set(), [], Counter()
        self.clients, self.fio, self.waits = [], None, None
        # When, and what.
        self.events = []

    def note(self, what):
        self.events.append((time.time(), what))

    def ceph(self, *command):
        return run("ceph", *command, conf=self.cluster.conf, seconds=60).stdout

    def osd_dump(self):
        return json.loads(self.ceph("osd", "dump", "--format", "json"))

    def states(self):
        states = json.loads(self.ceph("-s", "--format", "json"))["pgmap"]["pgs_by_state"]
        return {state["state_name"]: state["count"] for state in states}

    def is_clean(self):
        return list(self.states()) == ["active+clean"]

    def is_resized(self):
        counts = ("pg_num", "pg_num_target"), ("pg_placement_num", "pg_placement_num_target")
        return all(pool[now] == pool[target] for pool in self.osd_dump()["pools"] for now, target in counts)

    def is_up(self, osd):
        return next(node["up"] for node in self.osd_dump()["osds"] if node["osd"] == osd) == 1

    # What is done.

    def take_away(self, osd, how):
        pid = self.cluster.pids()[f"osd.{osd}"]
        self.note(f"osd.{osd} gets {how.name}")
        os.kill(pid, how)
        wait_for(lambda: has_ended(pid), f"osd.{osd} has ended")
        self.away[osd] = time.monotonic()

    def kill(self):
        self.take_away(self.rng.choice(self.present()), signal.SIGKILL)

    def stop(self):
        self.take_away(self.rng.choice(self.present()), signal.SIGTERM)

    def present(self):
        return [osd for osd in range(self.osds) if osd not in self.away]

    def start(self):
        osd = self.rng.choice(list(self.away))
        command = [Loligo.binary(), "osd", "--dir", self.cluster.dir, "--id", str(osd)]
        self.started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        del self.away[osd]
        self.note(f"osd.{osd} starts")
        wait_for(lambda: self.is_up(osd), f"osd.{osd} is up")
        self.note(f"osd.{osd} is up")

    def restart(self):
        osd = self.rng.choice(self.present())
        self.take_away(osd, signal.SIGKILL)
        self.away = {osd: 0} | self.away
        self.start()

    def mark_out(self):
        osd = self.rng.choice([osd for osd in range(self.osds) if osd not in self.out])
        self.note(f"osd.{osd} is marked out")
        self.ceph("osd", "out", str(osd))
        self.out.add(osd)

    def mark_in(self):
        osd = self.rng.choice(list(self.out))
        self.note(f"osd.{osd} is marked in")
        self.ceph("osd", "in", str(osd))
        self.out.discard(osd)

    def replace(self):
        """An OSD loses its disk: only where nothing depends on it."""
        if self.away or not self.is_clean():
            return False
        osd = self.rng.choice(self.present())
        self.take_away(osd, signal.SIGKILL)
        self.note(f"osd.{osd} loses its disk")
        for file in ("block", "fsid"):
            (self.cluster.dir / f"osd.{osd}" / file).unlink()
        wait_for(lambda: not self.is_up(osd), f"osd.{osd} is down")
        self.start()
        return True

    def resize(self):
        pool = self.rng.choice(("p", "r"))
        now = next(p["pg_num"] for p in self.osd_dump()["pools"] if p["pool_name"] == pool)
        number = max(4, min(48, now + self.rng.choice((-9, -4, -3, -2, -1, 1, 2, 3, 5, 8, now))))
        self.note(f"pool {pool} goes from {now} groups to {number}")
        self.ceph("osd", "pool", "set", pool, "pg_num", str(number))

    def choices(self):
        away, enough = len(self.away), len(self.present()) + len(self.out) > 3
        yield 3, self.resize
        if away < AWAY_MAX and enough:
            yield from ((3, self.kill), (2, self.stop), (2, self.restart))
        if away:
            yield 4 * away, self.start
        else:
            yield 1, self.replace
        if self.out:
            yield 2, self.mark_in
        elif away == 0:
            yield 1, self.mark_out

    def thrash(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            weights, actions = zip(*self.choices())
            action = self.rng.choices(actions, weights)[0]
            if action() is not False:
                self.done[action.__name__] += 1
                print(f"{time.strftime('%H:%M:%S')} {action.__name__}: away {sorted(self.away)} out {sorted(self.out)}",
                      file=sys.stderr, flush=True)
            self.look_after_clients()
            time.sleep(self.rng.uniform(0.1, 4))

    # Who works.

    def begin_work(self, clients):
        conf = self.cluster.conf
        for number in range(clients):
            files = [self.parent / "stop", self.parent / f"ops.{number}", self.parent / f"now.{number}"]
            command = ["/usr/bin/python3", "-c", CLIENT, conf, f"c{number}", *files]
            self.clients.append(subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, text=True))
        files = [[self.parent / f"{kind}.{number}{end}" for number in range(clients)]
                 for kind, end in (("now", ""), ("ops", ".asok"))]
        self.waits = Waits(self.cluster, "p", *files, self.events)
        self.waits.start()
        flags = ["--name=thrash", "--ioengine=rbd", "--clientname=admin", "--pool=r", "--rbdname=disk",
                 "--rw=randwrite", "--bsrange=4k-64k", "--iodepth=8", "--time_based", "--runtime=1000000",
                 "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=128", "--randrepeat=0", "--rate_iops=300"]
        self.fio_log = self.parent / "fio.log"
        env = dict(os.environ, CEPH_CONF=str(conf))
        with self.fio_log.open("w") as log:
            self.fio = subprocess.Popen(["fio", *flags], stdout=log, stderr=subprocess.STDOUT, env=env)

    def look_after_clients(self):
        for client in self.clients:
            if client.poll() is not None:
                raise Wrong(f"a client ended: {client.stdout.read()}")
        if self.fio.poll() is not None:
            raise Wrong(f"fio ended: {self.fio_log.read_text()[-2000:]}")
        for number in range(len(self.clients)):
            report = self.parent / f"ops.{number}"
            if report.exists() and time.time() - report.stat().st_mtime > STUCK_SECONDS:
                raise Wrong(f"client {number} is stuck: {self.whereabouts(number)}")

    def whereabouts(self, number):
        """What a client waits for, by its own account and by the OSDs'."""
        own, log = self.parent / f"ops.{number}.asok", self.parent / f"client.{number}.log"
        for name, value in (("log_file", log), ("debug_objecter", "20"), ("debug_ms", "1"), ("debug_monc", "10")):
            run("ceph", "--admin-daemon", own, "config", "set", name, value, conf=self.cluster.conf, check=False)
        time.sleep(2)
        sockets = {f"client {number}": (own, ["objecter_requests"])}
        for osd in self.present():
            sockets[f"osd.{osd}"] = (self.cluster.dir / "run" / f"osd.{osd}.asok", ["dump_ops_in_flight"])
        told = {}
        for name, (socket, words) in sockets.items():
            out = run("ceph", "--admin-daemon", socket, *words, conf=self.cluster.conf, seconds=20, check=False)
            told[name] = out.stdout or out.stderr
        if log.exists():
            told["its log"] = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
        return "\n".join(f"{name}: {words}" for name, words in told.items())

    def end_work(self):
        (self.parent / "stop").touch()
        said = []
        for number, client in enumerate(self.clients):
            try:
                said.append(client.communicate(timeout=STUCK_SECONDS)[0].strip())
            except subprocess.TimeoutExpired:
                raise Wrong(f"client {number} is stuck: {self.whereabouts(number)}") from None
        if any(not words.startswith("ok ") for words in said):
            raise Wrong(f"clients: {said}")
        self.fio.send_signal(signal.SIGINT)
        self.fio.wait(120)
        text = self.fio_log.read_text()
        if "bad" in text.lower() or "verify failed" in text.lower():
            raise Wrong(f"fio: {text[-2000:]}")
        wrote = next((line.strip() for line in text.splitlines() if line.strip().startswith("write:")), "no summary")
        return sum(int(words.split()[1]) for words in said), max(float(words.split()[2]) for words in said), wrote

    def settle(self):
        while self.away:
            self.start()
        while self.out:
            self.mark_in()
        began = time.monotonic()
        try:
            wait_for(self.is_resized, "pools have the placement groups they should", seconds=CLEAN_SECONDS, period=1)
            wait_for(self.is_clean, "everything is active+clean", seconds=CLEAN_SECONDS, period=1)
        except AssertionError as late:
            raise Wrong(f"{late}: {self.states()} {self.ceph('health', 'detail')[:2000]}") from None
        return time.monotonic() - began

    def scrub(self):
        """Compares all copies of everything."""
        def groups():
            stats = json.loads(self.ceph("pg", "dump", "pgs", "--format", "json"))
            return {pg["pgid"]: pg for pg in stats["pg_stats"]}

        before = groups()
        for group in before:
            self.ceph("pg", "deep-scrub", group)
        compared = lambda: all(pg["last_deep_scrub_stamp"] != before[name]["last_deep_scrub_stamp"]
                               for name, pg in groups().items())
        wait_for(compared, "all groups are compared", seconds=CLEAN_SECONDS, period=1)
        errors = {name: pg["stat_sum"]["num_scrub_errors"] for name, pg in groups().items()}
        if any(errors.values()):
            raise Wrong(f"copies differ: {errors}")


def fsck(cluster):
    out = subprocess.run([Loligo.binary(), "fsck", "--dir", cluster.dir, "--format", "json", "--deep"],
                         capture_output=True, text=True, timeout=600)
    problems = [(r["osd"], r["problems"]) for r in json.loads(out.stdout or "[]") if r["problems"]]
    if problems or out.returncode:
        raise Wrong(f"fsck: {problems} {out.stderr}")


def thrash(cluster, parent, args, rng):
    cluster.up("--store", "extent", "--processes", "--osds", args.osds, options={"bluestore_block_size": 2 << 30})
    for pool in ("p", "r"):
        run("ceph", "osd", "pool", "create", pool, "8", "8", conf=cluster.conf)
    # The placement of a pool's groups is to follow at once: that is what is tried here.
    run("ceph", "config", "set", "global", "target_max_misplaced_ratio", "0.5", conf=cluster.conf)
    run("rbd", "pool", "init", "r", conf=cluster.conf)
    run("rbd", "create", "r/disk", "--size", f"{IMAGE_MIB}M", conf=cluster.conf)
    thrasher = Thrasher(cluster, parent, rng, args.osds)
    try:
        thrasher.begin_work(args.clients)
        thrasher.thrash(args.seconds)
        took = thrasher.settle()
        ops, longest, wrote = thrasher.end_work()
        thrasher.waits.end()
        print(thrasher.waits.table())
        lost, long = thrasher.waits.lost()
        if lost > LOST_SECONDS:
            raise Wrong(f"an operation waited for nothing: {thrasher.waits.table([long])}")
        thrasher.scrub()
    finally:
        for worker in [*thrasher.clients, thrasher.fio]:
            if worker:
                worker.kill()
    cluster.down()
    for osd in thrasher.started:
        osd.wait(timeout=60)
    fsck(cluster)
    actions = ", ".join(f"{count} {name}" for name, count in sorted(thrasher.done.items()))
    return f"{actions}; {ops} operations, the longest {longest} s; clean after {took:.0f} s; fio {wrote}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300, help="how long OSDs are thrashed (300)")
    parser.add_argument("--osds", type=int, default=5, help="how many there are (5)")
    parser.add_argument("--clients", type=int, default=3, help="how many check their objects (3)")
    parser.add_argument("--keep", action="store_true", help="leave the cluster's directory where something is wrong")
    parser.add_argument("--seed", type=int, default=None, help="decides what is done; random if not given")
    args = parser.parse_args()
    os.environ["LOLIGO"] = str(args.loligo.resolve())
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    parent = Path(tempfile.mkdtemp(prefix="loligo-test-"))
    cluster = Loligo(parent / "c")
    wrong = None
    try:
        print(f"seed {seed}: {thrash(cluster, parent, args, random.Random(seed))}")
    except (Wrong, AssertionError, subprocess.SubprocessError) as error:
        wrong = error
        print(f"seed {seed}: WRONG: {wrong}")
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            cluster.down(check=False)
        if wrong is None or not args.keep:
            subprocess.run(["rm", "-r", parent], check=True)
    sys.exit(0 if wrong is None else 1)


if __name__ == "__main__":
    main()
