#!/usr/bin/python3
"""Random mixed operations from several stock clients, each object held against a model in memory, also at its snaps.

    stress_rados.py --loligo PATH [--shape SHAPE]... [--seconds N] [--seed S]     starts clusters with the binary PATH
    stress_rados.py --conf CEPH_CONF [--seconds N] [--seed S]                      uses a cluster that runs

Each client is a process. It owns objects whose every byte, attribute and map entry it knows, now and at its snaps; it
shares with the others a log that all append to, a counter that all add to, and an object that all watch and notify.
Connections break at random, in the clients, which must neither lose nor repeat anything. A seed decides each client's
operations (not how they interleave); a failure prints it. Runs in both msgr modes: crc and secure.
"""
import argparse
import collections
import errno
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import rados

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import harness  # noqa: E402
from rados_pool import connect, omap, reading_at, write_op, zero  # noqa: E402

OBJECTS = 12
SNAPS_MAX = 5
SIZE_MAX = 200_000
# An operation takes milliseconds; what takes this long will not end.
STUCK_S = 90
LOG, COUNTER, BELL = "shared-log", "shared-counter", "shared-bell"
RECORD = 16


class Wrong(Exception):
    """The cluster answered something else than the model."""


class Object:
    """What an object is: never changed, only replaced, so that a snapshot of all is a copied dict."""

    def __init__(self, data=b"", xattrs=None, entries=None):
        self.data, self.xattrs, self.entries = data, xattrs or {}, entries or {}

    def having(self, data=None, xattrs=None, entries=None):
        pick = lambda new, old: old if new is None else new
        return Object(pick(data, self.data), pick(xattrs, self.xattrs), pick(entries, self.entries))

    def overwritten(self, offset, data):
        return self.having(data=self.data[:offset].ljust(offset, b"\0") + data + self.data[offset + len(data):])


class Rings:
    """A client's notifies, "rings": what its own watch heard of them, and which answers they may have.

    Each execution of a notify answers once, and answers the ring that asked. With one exception where connections break:
    librados knows a notify by the address of its `LingerOp`, and until the OSD's reply has told it the notify's id, takes
    any completion that bears this address (Ceph 16.2 `src/osdc/Objecter.cc`, `handle_watch_notify`). An answered notify is
    ended a little later, in another thread. If its connection breaks in between, it is sent and executed once more, and
    the second completion may find a later ring at the address: that ring gets an earlier one's answer. This is so with
    Ceph's OSDs as well: with a break every 150 socket calls, in one of some 3,000 notifies in a row.

    So a ring may get the answer of an earlier ring of the same client, but no ring is answered more often than it was
    executed. Each execution has an id of its own, and the client's own watch is told all of them.
    """

    def __init__(self, number, cuts):
        self.number, self.cuts = number, cuts
        self.rung, self.belated = [], 0
        self.heard, self.answered = collections.defaultdict(set), collections.Counter()

    def begin(self):
        """The message of the next ring."""
        self.rung.append(f"{self.number} rings {len(self.rung)}".encode())
        return self.rung[-1]

    def hear(self, notify_id, message):
        self.heard[message].add(notify_id)

    def judge(self, answers):
        """What is wrong with these answers to the last ring: None if nothing is."""
        want, got = self.rung[-1], set(answers)
        if got != {want}:
            if not (self.cuts and len(got) == 1 and got <= set(self.rung)):
                return f"{want} was answered {sorted(got)}"
            self.belated += 1
        message, = got
        self.answered[message] += 1
        if self.answered[message] > len(self.heard[message]):
            return (f"{want} was answered {message}, which makes {self.answered[message]} answers of what own watch heard "
                    f"{len(self.heard[message])} times")
        return None


class Client:
    """One client's objects, its model of them, and the operations it draws."""

    def __init__(self, pool, number, seed, cut_every):
        self.number, self.pool = number, pool
        self.random = random.Random(f"{seed}-{number}")
        cuts = {"ms_inject_socket_failures": str(cut_every)} if cut_every else {}
        self.cuts = bool(cuts)
        self.cluster = connect(**cuts)
        self.io = self.cluster.open_ioctx(pool)
        self.shared = self.cluster.open_ioctx(pool)
        self.model, self.snaps = {}, {}
        self.done, self.records, self.added, self.missed = 0, 0, 0, 0
        self.step = "nothing yet"
        self.rings = Rings(number, self.cuts)
        self.watch = self.shared.watch(BELL, self.on_notify, lambda *_: None)
        owned = [self.write, self.write_full, self.append, self.truncate, self.zero, self.writesame, self.remove,
                 self.create, self.xattr, self.remove_xattr, self.fill_map, self.cut_map, self.compound, self.refused,
                 self.count_up]
        looks = [self.read, self.look, self.look_back, self.look_back]
        self.kinds = owned * 3 + looks * 3 + [self.snapshot, self.snapshot, self.drop_snap, self.roll_back, self.roll_back,
                                              self.log, self.log, self.add, self.ring]

    def name(self):
        return f"own-{self.number}-{self.random.randrange(OBJECTS)}"

    def bytes(self, most=20_000):
        # Mostly small; a piece of a random block, which is cheaper than as many random bytes.
        length = min(int(self.random.paretovariate(0.5) * 10), most)
        unit = self.random.randbytes(min(length, 512))
        return (unit * (length // 512 + 1))[:length]

    def run_one(self):
        kind = self.random.choice(self.kinds)
        name = self.name()
        self.step = f"{kind.__name__} {name} (operation {self.done})"
        kind(name)
        self.done += 1

    def wrong(self, what, got, want):
        show = lambda value: repr(value) if len(repr(value)) < 200 else f"{repr(value)[:200]}... ({len(value)} long)"
        raise Wrong(f"{what}: got {show(got)}, not {show(want)}")

    def expect(self, what, got, want):
        if got == want:
            return
        if isinstance(got, bytes) and isinstance(want, bytes) and len(got) == len(want):
            first = next(i for i, (a, b) in enumerate(zip(got, want)) if a != b)
            what = f"{what}, first different at {first} of {len(want)}"
            got, want = got[first : first + 32], want[first : first + 32]
        self.wrong(what, got, want)

    def expect_error(self, codes, call, *args):
        try:
            call(*args)
        except rados.Error as refused:
            if abs(refused.errno) not in codes:
                raise
            return
        self.wrong("answer", "success", [errno.errorcode[code] for code in codes])

    # What changes an object of this client's.

    def write(self, name):
        data, offset = self.bytes(), self.random.randrange(SIZE_MAX)
        offset = self.random.choice((0, offset, len(self.model.get(name, Object()).data)))
        self.io.write(name, data, offset)
        self.model[name] = self.model.get(name, Object()).overwritten(offset, data) if data else self.model.get(name, Object())

    def write_full(self, name):
        data = self.bytes(SIZE_MAX)
        self.io.write_full(name, data)
        self.model[name] = self.model.get(name, Object()).having(data=data)

    def append(self, name):
        data = self.bytes()
        self.io.append(name, data)
        old = self.model.get(name, Object())
        self.model[name] = old.having(data=old.data + data)

    def truncate(self, name):
        size = self.random.randrange(SIZE_MAX)
        self.io.trunc(name, size)
        if name in self.model:
            self.model[name] = self.model[name].having(data=self.model[name].data[:size].ljust(size, b"\0"))

    def zero(self, name):
        offset, length = self.random.randrange(SIZE_MAX), self.random.randrange(1, SIZE_MAX)
        if name not in self.model:
            return
        write_op(self.io, name, lambda op: zero(op, offset, length))
        old = self.model[name].data
        if offset < len(old):
            end = offset + length
            self.model[name] = self.model[name].having(data=old[:offset] + (bytes(length) + old[end:] if end < len(old) else b""))

    def writesame(self, name):
        unit, times = self.random.randbytes(self.random.randrange(1, 600)), self.random.randrange(1, 30)
        offset = self.random.randrange(SIZE_MAX)
        self.io.writesame(name, unit, len(unit) * times, offset)
        self.model[name] = self.model.get(name, Object()).overwritten(offset, unit * times)

    def remove(self, name):
        if name in self.model:
            self.io.remove_object(name)
            del self.model[name]
        else:
            self.expect_error([errno.ENOENT], self.io.remove_object, name)

    def create(self, name):
        step = lambda op: op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
        if name in self.model:
            self.expect_error([errno.EEXIST], write_op, self.io, name, step)
        else:
            write_op(self.io, name, step)
            self.model[name] = Object()

    def xattr(self, name):
        key, value = f"x{self.random.randrange(6)}", self.bytes(3000)
        self.io.set_xattr(name, key, value)
        old = self.model.get(name, Object())
        self.model[name] = old.having(xattrs={**old.xattrs, key: value})

    def remove_xattr(self, name):
        key = f"x{self.random.randrange(6)}"
        if name in self.model:
            self.io.rm_xattr(name, key)
            kept = {k: v for k, v in self.model[name].xattrs.items() if k != key}
            self.model[name] = self.model[name].having(xattrs=kept)

    def fill_map(self, name):
        entries = {f"k{self.random.randrange(60):02}": self.bytes(500) for _ in range(self.random.randrange(1, 12))}
        write_op(self.io, name, lambda op: self.io.set_omap(op, tuple(entries), tuple(entries.values())))
        old = self.model.get(name, Object())
        self.model[name] = old.having(entries={**old.entries, **entries})

    def cut_map(self, name):
        if name not in self.model:
            return
        first, last = sorted(f"k{self.random.randrange(60):02}" for _ in range(2))
        how = self.random.randrange(3)
        if how == 0 and first < last:
            write_op(self.io, name, lambda op: self.io.remove_omap_range2(op, first, last))
            gone = lambda key: first <= key < last
        elif how == 1:
            write_op(self.io, name, lambda op: self.io.remove_omap_keys(op, (first, last)))
            gone = lambda key: key in (first, last)
        else:
            write_op(self.io, name, lambda op: self.io.clear_omap(op))
            gone = lambda key: True
        kept = {k: v for k, v in self.model[name].entries.items() if not gone(k)}
        self.model[name] = self.model[name].having(entries=kept)

    def compound(self, name):
        data, more, value = self.bytes(), self.bytes(300), self.bytes(100)
        write_op(self.io, name, lambda op: op.write_full(data), lambda op: op.append(more),
                 lambda op: op.set_xattr("x0", value), lambda op: self.io.set_omap(op, ("k00",), (value,)))
        old = self.model.get(name, Object())
        self.model[name] = Object(data + more, {**old.xattrs, "x0": value}, {**old.entries, "k00": value})

    def refused(self, name):
        """A compound that its last step undoes."""
        data = self.bytes()
        self.expect_error([errno.ECANCELED, errno.ENOENT], write_op, self.io, name, lambda op: op.write_full(data),
                          lambda op: op.omap_cmp("k00", "never this", rados.LIBRADOS_CMPXATTR_OP_EQ))

    def count_up(self, name):
        """A class method that must run once: it adds to what is there."""
        text = lambda value: len(value).to_bytes(4, "little") + value
        # Within a compound: a bare call of librados brings no snaps along.
        write_op(self.io, name, lambda op: op.execute("numops", "add", text(b"count") + text(b"3")))
        old = self.model.get(name, Object())
        count = b"%d" % (int(old.entries.get("count", b"0")) + 3)
        self.model[name] = old.having(entries={**old.entries, "count": count})

    # Snapshots.

    def use_snaps(self):
        self.io.set_self_managed_snap_write(sorted(self.snaps, reverse=True))

    def snapshot(self, _):
        if len(self.snaps) < SNAPS_MAX:
            self.snaps[self.io.create_self_managed_snap()] = dict(self.model)
            self.use_snaps()

    def drop_snap(self, _):
        if len(self.snaps) > 1:
            snap = self.random.choice(sorted(self.snaps))
            self.io.remove_self_managed_snap(snap)
            del self.snaps[snap]
            self.use_snaps()

    def roll_back(self, name):
        if not self.snaps:
            return
        snap = self.random.choice(sorted(self.snaps))
        then = self.snaps[snap].get(name)
        if then is None and name not in self.model:
            return
        self.io.rollback_self_managed_snap(name, snap)
        if then is None:
            del self.model[name]
        else:
            self.model[name] = then

    # What only looks.

    def read(self, name):
        offset, length = self.random.randrange(SIZE_MAX), self.random.randrange(1, SIZE_MAX)
        if name in self.model:
            want = self.model[name].data[offset : offset + length]
            self.expect("a read", self.io.read(name, length, offset), want)
        else:
            self.expect_error([errno.ENOENT], self.io.read, name, length, offset)

    def look(self, name):
        self.compare(name, self.model.get(name), "now")

    def look_back(self, name):
        if self.snaps:
            snap = self.random.choice(sorted(self.snaps))
            with reading_at(self.io, snap):
                self.compare(name, self.snaps[snap].get(name), f"at snap {snap}")

    def compare(self, name, want, when):
        """Everything about an object, now or at the snap that the context reads."""
        if want is None:
            self.expect_error([errno.ENOENT], self.io.stat, name)
            return
        self.expect(f"size of {name} {when}", self.io.stat(name)[0], len(want.data))
        self.expect(f"data of {name} {when}", self.io.read(name, len(want.data) + 1), want.data)
        self.expect(f"attributes of {name} {when}", dict(self.io.get_xattrs(name)), want.xattrs)
        self.expect(f"map of {name} {when}", omap(self.io, name), want.entries)

    # What all clients share.

    def log(self, _):
        self.shared.append(LOG, b"%03d %011d\n" % (self.number, self.records))
        self.records += 1

    def add(self, _):
        text = lambda value: len(value).to_bytes(4, "little") + value
        self.shared.execute(COUNTER, "numops", "add", text(b"sum") + text(b"1"), 64)
        self.added += 1

    def on_notify(self, notify_id, notifier, watch_id, data):
        self.rings.hear(notify_id, data)
        return data.decode()

    def ring(self, _):
        message, answers = self.rings.begin(), []
        done = self.shared.aio_notify(BELL, lambda _, code, acks, missed: answers.append((code, acks or [])),
                                      message.decode(), 20_000)
        done.wait_for_complete_and_cb()
        (code, acks), = answers
        if code == -errno.ETIMEDOUT and self.cuts:
            # A watcher may have been cut off for long; the others' answers are lost with it.
            self.missed += 1
            return
        self.expect("code of a notify", code, 0)
        if wrong := self.rings.judge([answer for _, _, answer in acks]):
            raise Wrong(wrong)

    def finish(self):
        """Holds every object against the model, now and at every snap, without and with the snaps."""
        self.watch.close()
        names = [f"own-{self.number}-{i}" for i in range(OBJECTS)]
        for name in names:
            self.step = f"last look at {name}"
            self.compare(name, self.model.get(name), "at the end")
            for snap, then in self.snaps.items():
                with reading_at(self.io, snap):
                    self.compare(name, then.get(name), f"at snap {snap} at the end")
        listed = [o.key for o in self.io.list_objects() if o.key in names]
        self.expect("names listed twice", len(listed) - len(set(listed)), 0)
        self.expect("objects that no listing shows", sorted(set(self.model) - set(listed)), [])
        for snap in sorted(self.snaps):
            self.step = f"removal of snap {snap}"
            self.io.remove_self_managed_snap(snap)
        for name in names:
            self.compare(name, self.model.get(name), "without snaps")


def client_main(args):
    client = Client(args.pool, args.client, args.seed, args.cut_every)
    end = time.monotonic() + args.seconds
    told = 0
    try:
        while time.monotonic() < end:
            client.run_one()
            if time.monotonic() - told > 1:
                told = time.monotonic()
                print(f"at {client.step}", flush=True)
        client.finish()
    except (Wrong, rados.Error, OSError) as error:
        print(f"wrong: {client.step}: {error!r}", flush=True)
        os._exit(1)
    rings = client.rings
    print(f"done {client.done} {client.records} {client.added} {len(rings.rung)} {client.missed} {rings.belated}", flush=True)
    # Ends without farewell: what librados does at its end is not what this is about.
    os._exit(0)


class Watched:
    """A client's process and what it last said."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=HERE)
        self.lines, self.said_at = [], time.monotonic()
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self):
        for line in self.process.stdout:
            self.said_at = time.monotonic()
            self.lines = self.lines[-20:] + [line.rstrip()]

    def wait(self):
        """None if it ended well, else why not."""
        while self.process.poll() is None:
            if time.monotonic() - self.said_at > STUCK_S:
                self.process.kill()
                return f"stuck for {STUCK_S} s: {self.lines[-1:]}"
            time.sleep(0.05)
        self.reader.join()
        if self.process.returncode or not self.lines[-1].startswith("done "):
            return f"exit {self.process.returncode}: " + "\n".join(self.lines[-10:])
        return None


def check_shared(io, counts):
    """What all clients wrote to together: each record once and each client's in order, and the sum."""
    size = io.stat(LOG)[0]
    text = b""
    while len(text) < size:
        text += io.read(LOG, 1 << 20, len(text))
    seen = {number: [] for number in range(len(counts))}
    for at in range(0, size, RECORD):
        number, count = text[at : at + RECORD].split()
        seen[int(number)].append(int(count))
    for number, (_, records, *_) in enumerate(counts):
        if seen[number] != list(range(records)):
            return f"client {number} appended {records} records, and the log has {len(seen[number])} of them or in another order"
    total = sum(added for _, _, added, *_ in counts)
    with rados.ReadOpCtx() as op:
        entries, _ = io.get_omap_vals(op, "", "", 10)
        io.operate_read_op(op, COUNTER)
        got = int(dict(entries).get("sum", b"0"))
    return None if got == total else f"{total} additions made a sum of {got}"


def stress(*, seconds, clients, seed, cut_every):
    """Runs against the cluster of CEPH_CONF; returns (what was done, what was wrong)."""
    cluster = connect()
    pool = f"stress-{os.getpid()}-{seed}"
    harness.make_pool(pool)
    try:
        with cluster.open_ioctx(pool) as io:
            for name in (LOG, COUNTER, BELL):
                io.write_full(name, b"")
            command = [sys.executable, __file__, "--pool", pool, "--seed", str(seed), "--seconds", str(seconds),
                       "--cut-every", str(cut_every)]
            running = [Watched([*command, "--client", str(number)]) for number in range(clients)]
            failures = [f"client {number}: {why}" for number, one in enumerate(running) if (why := one.wait())]
            if failures:
                return "", "\n".join(failures)
            counts = [[int(n) for n in one.lines[-1].split()[1:]] for one in running]
            done, records, added, rung, missed, belated = (sum(column) for column in zip(*counts))
            said = (f"{done} operations ({records} shared records, {added} additions, {rung} notifies: {missed} too late, "
                    f"{belated} with an earlier one's answer)")
            return said, check_shared(io, counts)
    finally:
        harness.drop_pool(pool)
        cluster.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loligo", type=Path)
    parser.add_argument("--conf", type=Path)
    parser.add_argument("--shape", action="append")
    parser.add_argument("--seconds", type=float, default=120, help="how long each shape is used (120)")
    parser.add_argument("--clients", type=int, default=4, help="how many client processes (4)")
    parser.add_argument("--seed", type=int, default=None, help="decides the operations; random if not given")
    parser.add_argument("--cut-every", type=int, default=400, help="break a connection every so many socket calls, 0 never (400)")
    parser.add_argument("--pool", help=argparse.SUPPRESS)
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client is not None:
        return client_main(args)
    if bool(args.loligo) == bool(args.conf):
        parser.error("exactly one of --loligo and --conf is needed")
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    wrong = 0
    def one(label):
        nonlocal wrong
        said, failure = stress(seconds=args.seconds, clients=args.clients, seed=seed, cut_every=args.cut_every)
        if failure:
            wrong += 1
            print(f"{label}, seed {seed}: WRONG\n{failure}\nagain: {' '.join(sys.argv)} --seed {seed}", flush=True)
        else:
            print(f"{label}, seed {seed}: {said}, every object as the model has it", flush=True)
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
