"""The extent store from outside: what is acknowledged survives kill -9 of everything, and fsck finds nothing wrong.

`LOLIGO_KILLS` says how often (3)."""
import errno
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from harness import Loligo, OwnCluster, has_ended, run, wait_for

WRITER = r"""
import random, rados, sys, threading
conf, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
cluster = rados.Rados(conffile=conf); cluster.connect()
io = cluster.open_ioctx("p")
lock = threading.Lock()
room = threading.Semaphore(16)
def content(name, version, size):
    return (f"{name} {version} " * (size // 4)).encode()[:size]
for step in range(10**9):
    name, version = f"o{rng.randrange(40)}.{seed}", step + 1
    size = rng.choice([20, 4096, 5000, 70000, 300000])
    room.acquire()
    def done(completion, name=name, version=version, size=size):
        with lock:
            sys.stdout.write(f"done {name} {version} {size}\n"); sys.stdout.flush()
        room.release()
    with lock:
        sys.stdout.write(f"begin {name} {version} {size}\n"); sys.stdout.flush()
    io.aio_write_full(name, content(name, version, size), oncomplete=done)
"""


def content(name, version, size):
    return (f"{name} {version} " * (size // 4)).encode()[:size]


class ExtentStore(OwnCluster):
    def fsck(self):
        out = subprocess.run([Loligo.binary(), "fsck", "--dir", self.cluster.dir, "--deep", "--format", "json"],
                             capture_output=True, text=True, timeout=300)
        reports = json.loads(out.stdout)
        self.assertEqual([(r["osd"], r["problems"]) for r in reports if r["problems"]], [], out.stderr)
        self.assertEqual(out.returncode, 0, out.stderr)
        return reports

    def kill(self):
        pids = self.cluster.pids()
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        for pid in pids.values():
            wait_for(lambda: has_ended(pid), f"{pid} is gone")

    def write_until_killed(self, seed, seconds, begun, done):
        log = self.parent / "acknowledged"
        with log.open("w") as out:
            writer = subprocess.Popen(["/usr/bin/python3", "-c", WRITER, str(self.cluster.conf), str(seed)], stdout=out)
        try:
            wait_for(lambda: log.stat().st_size > 1000, "the writer writes")
            time.sleep(seconds)
            self.kill()
        finally:
            writer.kill()
            writer.wait()
        for line in log.read_text().splitlines():
            match line.split():
                case ["begin", name, version, size]:
                    begun.setdefault(name, {})[int(version)] = int(size)
                case ["done", name, version, _]:
                    done[name] = max(done.get(name, 0), int(version))

    def verify(self, begun, done):
        import rados
        with rados.Rados(conffile=str(self.cluster.conf)) as cluster, cluster.open_ioctx("p") as io:
            for name, versions in begun.items():
                try:
                    data = io.read(name, 1 << 20)
                except rados.ObjectNotFound:
                    self.assertNotIn(name, done, "what was acknowledged is there")
                    continue
                version = int(data.split()[1])
                self.assertGreaterEqual(version, done.get(name, 0), f"{name}: nothing acknowledged is lost")
                self.assertEqual(data, content(name, version, versions[version]), f"{name}: whole")

    def test_fsck_of_nothing_is_no_clean_bill(self):
        os.makedirs(self.cluster.dir, exist_ok=True)
        out = subprocess.run([Loligo.binary(), "fsck", "--dir", self.cluster.dir], capture_output=True, text=True)
        self.assertEqual((out.returncode, out.stdout), (1, ""))
        self.assertIn("has no OSDs", out.stderr)

    def test_kill_9_of_everything_loses_nothing_acknowledged(self):
        kills = int(os.environ.get("LOLIGO_KILLS", "3"))
        begun, done = {}, {}
        for flags in ([], ["--processes"]):
            with self.subTest(flags=flags):
                self.cluster.up("--store", "extent", *flags)
                run("ceph", "osd", "pool", "create", "p", "8", conf=self.cluster.conf)
                for life in range(kills):
                    self.write_until_killed(life, 1 + life % 3, begun, done)
                    self.fsck()
                    self.cluster.up(*flags, new=False)
                    self.verify(begun, done)
                self.assertGreater(len(done), 20, "much was acknowledged")
                self.cluster.down()
                for report in self.fsck():
                    self.assertEqual(report["torn_superblocks"], [])
                shutil.rmtree(self.cluster.dir)
                begun.clear()
                done.clear()

    def test_data_logs_and_metadata_on_devices_of_their_own(self):
        fast = self.parent / "fast"
        fast.mkdir()
        devices = ["--log-device", fast, "--meta-device", str(fast / "meta-$id")]
        refused = self.cluster.up("--log-device", self.parent / "one", check=False)
        self.assertIn("cannot share", refused.stderr)
        data = {"bluestore_block_size": 1 << 30, "bluestore_block_path": fast / "data-$id"}
        self.cluster.up("--processes", *devices, options=data)
        names = [name.format(n) for name in ("data-{}", "meta-{}", "osd.{}.log") for n in range(3)]
        self.assertEqual(sorted(p.name for p in fast.iterdir()), names)
        run("ceph", "osd", "pool", "create", "p", "8", conf=self.cluster.conf)
        begun, done = {}, {}
        for life in range(2):
            self.write_until_killed(life, 1, begun, done)
            self.fsck()
            self.cluster.up("--processes", new=False)
            self.verify(begun, done)
        self.cluster.down()
        self.fsck()
        (fast / "osd.1.log").rename(fast / "away")
        for tried in (self.cluster.up("--processes", new=False, check=False),
                      run(Loligo.binary(), "fsck", "--dir", self.cluster.dir, check=False)):
            self.assertNotEqual(tried.returncode, 0)
            self.assertIn("block.wal", tried.stderr)
            self.assertIn("is missing: the log of this store", tried.stderr)
        shutil.copy(fast / "osd.0.log", fast / "osd.1.log")
        tried = self.cluster.up("--processes", new=False, check=False)
        self.assertIn("belongs to another store", tried.stderr)
        shutil.move(fast / "away", fast / "osd.1.log")
        self.cluster.up("--processes", new=False)
        self.verify(begun, done)

    def test_a_placement_group_travels_between_stores(self):
        import rados
        self.cluster.up(options={"mon_allow_pool_size_one": "true"})
        conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "1", conf=conf)
        run("ceph", "osd", "pool", "set", "p", "size", "1", "--yes-i-really-mean-it", conf=conf)
        with rados.Rados(conffile=str(conf)) as cluster, cluster.open_ioctx("p") as io:
            for number in range(30):
                io.write(f"o{number}", random.Random(number).randbytes(number * 10_000), offset=number * 4096)
                io.set_xattr(f"o{number}", "a", b"x" * number)
            with rados.WriteOpCtx() as op:
                io.set_omap(op, tuple(f"key{n:04}" for n in range(2500)), tuple(b"v" * (n % 50) for n in range(2500)))
                io.operate_write_op(op, "o7")
        self.cluster.down()

        def store(*args, osd, check=True):
            return run(Loligo.binary(), "store", *args, "--dir", self.cluster.dir, "--id", osd, check=check)

        has = {osd: json.loads(store("list", "--format", "json", osd=osd).stdout) for osd in range(3)}
        (pg,) = {name for names in has.values() for name in names if name.endswith(".0") and name != "meta"}
        home = next(osd for osd in has if pg in has[osd])
        away = next(osd for osd in has if pg not in has[osd])
        first, second = self.parent / "first", self.parent / "second"
        said = store("export", "--pg", pg, "--file", first, osd=home).stdout
        self.assertIn(f"pg {pg}", said)
        for tried, why in ((store("import", "--file", first, osd=home, check=False), "has pg"),
                           (store("export", "--pg", "77.0", "--file", second, osd=home, check=False), "no such"),
                           (store("export", "--pg", pg, "--file", first, osd=home, check=False), "exists")):
            self.assertNotEqual(tried.returncode, 0)
            self.assertIn(why, tried.stderr)
        whole = first.read_bytes()
        for at, byte, why in ((8, 9, "unknown version"), (len(whole) // 2, whole[len(whole) // 2] ^ 1, "checksum")):
            second.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1:])
            self.assertIn(why, store("import", "--file", second, osd=away, check=False).stderr)
        second.write_bytes(whole[:-30])
        self.assertIn("cut off", store("import", "--file", second, osd=away, check=False).stderr)
        second.unlink()
        self.assertEqual(json.loads(store("list", "--format", "json", osd=away).stdout), has[away], "nothing of it was taken")
        store("import", "--file", first, osd=away)
        store("export", "--pg", pg, "--file", second, osd=away)
        self.assertEqual(second.read_bytes(), whole, "what went in comes out")
        self.fsck()
        self.cluster.up(new=False)
        with rados.Rados(conffile=str(conf)) as cluster, cluster.open_ioctx("p") as io:
            self.assertEqual(io.read("o29", 1 << 20)[29 * 4096:], random.Random(29).randbytes(290_000))

    def flip_where(self, pattern):
        """Turns a bit over in the middle of `pattern`, wherever an OSD's device has it; says on which."""
        hit = []
        for block in sorted(self.cluster.dir.glob("osd.*/block")):
            with block.open("r+b") as device, mmap.mmap(device.fileno(), 0) as view:
                at = view.find(pattern)
                while at >= 0:
                    middle = at + len(pattern) // 2
                    view[middle] ^= 1
                    hit.append(block.parent.name)
                    at = view.find(pattern, at + 1)
        return hit

    def test_what_rots_is_never_served_and_the_operator_hears_of_it(self):
        import rados
        # Small, as all of it is searched.
        self.cluster.up("--store", "extent", options={"bluestore_block_size": 256 << 20, "mon_allow_pool_size_one": "true"})
        conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "8", conf=conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "test", conf=conf)
        run("ceph", "osd", "pool", "set", "p", "size", "1", "--yes-i-really-mean-it", conf=conf)
        rng = random.Random(5)
        bad, good = rng.randbytes(100_000), rng.randbytes(100_000)
        with rados.Rados(conffile=str(conf)) as cluster, cluster.open_ioctx("p") as io:
            io.write_full("bad", bad)
            io.write_full("good", good)
        self.cluster.down()
        hit = self.flip_where(bad[40_000:41_000])
        self.assertEqual(len(hit), 1, "one copy, and the log's use is over")
        tool = lambda *args: subprocess.run([Loligo.binary(), *args, "--dir", self.cluster.dir], capture_output=True, text=True, timeout=60)
        deep = tool("fsck", "--deep", "--format", "json")
        self.assertNotEqual(deep.returncode, 0)
        problems = {f"osd.{r['osd']}": r["problems"] for r in json.loads(deep.stdout) if r["problems"]}
        self.assertEqual(list(problems), hit)
        self.cluster.up(new=False)
        with rados.Rados(conffile=str(conf)) as cluster, cluster.open_ioctx("p") as io:
            with self.assertRaises(rados.Error) as caught:
                io.read("bad", 100_000)
            self.assertEqual(abs(caught.exception.errno), errno.EIO)
            self.assertEqual(io.read("good", 100_000), good)
            self.assertEqual(io.read("bad", 4096), bad[:4096], "what is whole is served")
            detail = wait_for(lambda: (d := self.cluster.ceph("health", "detail").stdout) and "EXTENT_READ_ERRORS" in d and d, "a warning")
            self.assertIn(hit[0], detail)
            io.write_full("bad", good)
            self.assertEqual(io.read("bad", 100_000), good, "what is written anew is whole")
        self.cluster.down()
        self.fsck()

    def test_a_clean_stop_leaves_no_log_and_the_tools_see_the_objects(self):
        self.cluster.up("--store", "extent")
        conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "1", conf=conf)
        run("rados", "-p", "p", "put", "o", "/etc/hostname", conf=conf)
        run("rados", "-p", "p", "setomapval", "o", "key", "value", conf=conf)
        tool = lambda *args: subprocess.run([Loligo.binary(), *args, "--dir", self.cluster.dir], capture_output=True, text=True, timeout=60)
        busy = tool("fsck")
        self.assertNotEqual(busy.returncode, 0)
        self.assertIn("in use", busy.stderr)
        self.cluster.down()
        self.assertEqual([r["log_records"] for r in self.fsck()], [0, 0, 0])
        pg = next(name for name in json.loads(tool("store", "list", "--id", "0", "--format", "json").stdout) if name != "meta")
        listed = json.loads(tool("store", "list", "--id", "0", "--collection", pg, "--format", "json").stdout)
        mine = [o for o in listed if "::o:head" in o["id"]]
        self.assertEqual([o["size"] for o in mine], [Path("/etc/hostname").stat().st_size])
        dump = json.loads(tool("store", "dump", "--id", "0", "--collection", pg, "--object", mine[0]["id"]).stdout)
        self.assertEqual(dump["omap"], [{"key": "key", "value": b"value".hex()}])
        data = tool("store", "dump", "--id", "0", "--collection", pg, "--object", mine[0]["id"], "--data").stdout
        self.assertEqual(data, Path("/etc/hostname").read_text())
        self.assertIn("LOLIGOX1", subprocess.run([Loligo.binary(), "store", "format"], capture_output=True, text=True).stdout)
        self.cluster.up(new=False)
        self.assertEqual(run("rados", "-p", "p", "get", "o", "-", conf=conf).stdout, Path("/etc/hostname").read_text())


if __name__ == "__main__":
    unittest.main()
