"""Groups whose last members are away: they wait until these come back, are marked lost, or an operator makes them anew.

The expectations hold on Ceph 16.2 as well. Nobody is killed: who is to be away is marked down and kept from coming back.
"""
import os
import tempfile
import unittest
from pathlib import Path

from harness import ceph_json, drop_pool, run, wait_for

POOL = f"lost-{os.getpid()}"


def ceph(*words, check=True):
    return run("ceph", *words, check=check)


def group():
    return ceph_json("pg", "ls-by-pool", POOL)["pg_stats"][0]


def state():
    return set(group()["state"].split("+"))


class LostGroups(unittest.TestCase):
    SIZE = 2

    def make_pool(self, size):
        ceph("osd", "pool", "create", POOL, 1, 1)
        ceph("osd", "pool", "set", POOL, "pg_autoscale_mode", "off")
        if size == 1:
            ceph("config", "set", "global", "mon_allow_pool_size_one", "true")
            ceph("osd", "pool", "set", POOL, "size", 1, "--yes-i-really-mean-it")
        else:
            ceph("osd", "pool", "set", POOL, "size", size)
            ceph("osd", "pool", "set", POOL, "min_size", 1)
        ceph("osd", "pool", "application", "enable", POOL, "test")
        wait_for(lambda: state() == {"active", "clean"} and len(group()["acting"]) == size, "it is clean", 90, 0.3)
        self.pgid = group()["pgid"]

    def setUp(self):
        self.files = tempfile.TemporaryDirectory()
        self.flagged = set()

    def tearDown(self):
        drop_pool(POOL)
        for osd in self.flagged:
            ceph("osd", "unset-group", "noup", f"osd.{osd}")
            ceph("osd", "in", osd)
        wait_for(lambda: all(osd["up"] for osd in ceph_json("osd", "dump")["osds"]), "all OSDs are up", 90, 0.3)
        ceph("config", "rm", "global", "mon_allow_pool_size_one", check=False)
        self.files.cleanup()

    def away(self, osd):
        self.flagged.add(osd)
        ceph("osd", "set-group", "noup", f"osd.{osd}")
        ceph("osd", "down", osd)
        wait_for(lambda: not self.is_up(osd), f"osd.{osd} is away", 60, 0.3)

    def back(self, osd):
        ceph("osd", "unset-group", "noup", f"osd.{osd}")
        wait_for(lambda: self.is_up(osd), f"osd.{osd} is back", 90, 0.3)

    @staticmethod
    def is_up(osd):
        return next(o["up"] for o in ceph_json("osd", "dump")["osds"] if o["osd"] == osd) == 1

    def put(self, name, text):
        path = Path(self.files.name) / "in"
        path.write_text(text)
        run("rados", "-p", POOL, "put", name, path)

    def get(self, name):
        return run("rados", "-p", POOL, "get", name, "-", check=False)

    def test_a_group_is_down_until_its_last_writer_is_lost(self):
        self.make_pool(2)
        first, second = group()["acting"]
        self.put("o", "old")
        self.away(second)
        wait_for(lambda: group()["acting"] == [first] and "active" in state(), "one serves", 60, 0.3)
        self.put("o", "written to one")
        self.away(first)
        self.back(second)
        wait_for(lambda: "down" in state(), "who is back does not know the last writes", 90, 0.3)
        self.assertEqual(ceph("osd", "lost", first, check=False).returncode, 1, "not without being sure")
        self.assertEqual(ceph("osd", "lost", second, "--yes-i-really-mean-it", check=False).returncode, 16, "it is up")
        ceph("osd", "lost", first, "--yes-i-really-mean-it")
        wait_for(lambda: "active" in state(), "it serves with what there is", 90, 0.3)
        self.assertEqual(self.get("o").stdout, "old")
        self.put("o", "new")
        self.back(first)
        wait_for(lambda: state() == {"active", "clean"} and len(group()["acting"]) == 2, "both are clean", 120, 0.3)
        self.away(second)
        wait_for(lambda: group()["acting"] == [first] and "active" in state(), "the other serves", 60, 0.3)
        self.assertEqual(self.get("o").stdout, "new")

    def test_a_group_is_made_anew(self):
        self.make_pool(1)
        holder = group()["acting"][0]
        self.put("old", "old")
        self.away(holder)
        ceph("osd", "out", holder)
        wait_for(lambda: holder not in group()["acting"] and not state() & {"active"} or "stale" in state(),
                 "nobody serves it", 90, 0.3)
        unsure = ceph("osd", "force-create-pg", self.pgid, check=False)
        self.assertEqual(unsure.returncode, 1)
        self.assertIn("--yes-i-really-mean-it to proceed", unsure.stderr)
        nowhere = ceph("osd", "force-create-pg", "4711.0", "--yes-i-really-mean-it", check=False)
        self.assertNotEqual(nowhere.returncode, 0)
        made = ceph("osd", "force-create-pg", self.pgid, "--yes-i-really-mean-it")
        self.assertIn(f"pg {self.pgid} now creating, ok", made.stderr + made.stdout)
        wait_for(lambda: state() == {"active", "clean"}, "it serves, empty", 120, 0.3)
        self.assertEqual(run("rados", "-p", POOL, "ls").stdout, "")
        self.put("new", "new")
        self.back(holder)
        ceph("osd", "in", holder)
        wait_for(lambda: state() == {"active", "clean"} and group()["acting"] == [holder], "it is back", 120, 0.3)
        self.assertEqual(run("rados", "-p", POOL, "ls").stdout.split(), ["new"])
        self.assertEqual(self.get("new").stdout, "new")
        self.assertEqual(self.get("old").returncode, 1)


if __name__ == "__main__":
    unittest.main()
