"""Snapshots: those of a pool and those that a client manages itself, clones and what they share, rollback, trimming.

The expectations hold on Ceph 16.2 as well.
"""
import errno
import json
import time
import unittest

import rados

from harness import run
from rados_pool import Pool, omap, reading_at, wait_for, write_op, zero

KIB = 1 << 10


def listed(pool, name, namespace=""):
    """What `rados listsnaps` says: [(clone or "head", snaps, size, overlap)]."""
    space = ("-N", namespace) if namespace else ()
    told = json.loads(run("rados", "-p", pool, *space, "listsnaps", name, "-f", "json").stdout)
    clones = []
    for clone in told["clones"]:
        overlap = [(part["start"], part["length"]) for part in clone.get("overlaps", [])]
        snaps = [snap["id"] for snap in clone["snapshots"]]
        clones.append((clone["id"], snaps, clone["size"], overlap))
    return clones


class PoolSnaps(Pool):
    def tearDown(self):
        for snap in list(self.io.list_snaps()):
            self.io.remove_snap(snap.name)

    def snap(self, name):
        self.io.create_snap(name)
        return self.io.lookup_snap(name).snap_id

    def test_a_snaps_life(self):
        before = time.time()
        self.io.create_snap("one")
        self.assertErrno(errno.EEXIST, self.io.create_snap, "one")
        self.io.create_snap("two")
        names = {snap.name: snap.snap_id for snap in self.io.list_snaps()}
        self.assertEqual(set(names), {"one", "two"})
        self.assertLess(names["one"], names["two"])
        self.assertAlmostEqual(self.io.lookup_snap("one").get_timestamp().timestamp(), before, delta=60)
        self.assertEqual(self.io.lookup_snap("one").snap_id, names["one"])
        self.io.remove_snap("one")
        self.assertErrno(errno.ENOENT, self.io.remove_snap, "one")
        self.assertErrno(errno.ENOENT, self.io.lookup_snap, "one")
        self.assertGreater(self.snap("one"), names["two"])

    def test_a_snap_keeps_what_was(self):
        self.io.write_full("kept", b"before")
        self.io.set_xattr("kept", "a", b"1")
        write_op(self.io, "kept", lambda op: self.io.set_omap(op, ("k",), (b"1",)))
        snap = self.snap("keep")
        self.io.write_full("kept", b"and after")
        self.io.set_xattr("kept", "a", b"2")
        write_op(self.io, "kept", lambda op: self.io.set_omap(op, ("k", "l"), (b"2", b"2")))
        with reading_at(self.io, snap):
            self.assertEqual(self.io.read("kept"), b"before")
            self.assertEqual(self.io.stat("kept")[0], 6)
            self.assertEqual(dict(self.io.get_xattrs("kept")), {"a": b"1"})
            self.assertEqual(omap(self.io, "kept"), {"k": b"1"})
        self.assertEqual(self.io.read("kept"), b"and after")
        self.assertEqual(omap(self.io, "kept"), {"k": b"2", "l": b"2"})

    def test_what_came_later_is_not_there(self):
        snap = self.snap("early")
        self.io.write_full("late", b"x")
        with reading_at(self.io, snap):
            self.assertErrno(errno.ENOENT, self.io.read, "late")

    def test_what_did_not_change_is_read_through_the_head(self):
        self.io.write_full("still", b"same")
        snap = self.snap("still")
        with reading_at(self.io, snap):
            self.assertEqual(self.io.read("still"), b"same")
        self.assertEqual(listed(self.pool, "still"), [("head", [], 4, [])])

    def test_removed_objects_stay_readable_at_their_snap(self):
        self.io.write_full("removed", b"x" * 10)
        snap = self.snap("before removal")
        self.io.remove_object("removed")
        self.assertErrno(errno.ENOENT, self.io.read, "removed")
        self.assertErrno(errno.ENOENT, self.io.remove_object, "removed")
        with reading_at(self.io, snap):
            self.assertEqual(self.io.read("removed"), b"x" * 10)
        self.assertEqual(listed(self.pool, "removed"), [(snap, [snap], 10, [])])
        self.io.write_full("removed", b"again")
        with reading_at(self.io, snap):
            self.assertEqual(self.io.read("removed"), b"x" * 10)
        self.assertEqual(self.io.read("removed"), b"again")

    def test_nothing_is_written_at_a_snap(self):
        self.io.write_full("frozen", b"x")
        snap = self.snap("frozen")
        with reading_at(self.io, snap):
            self.assertErrno(errno.EROFS, self.io.write_full, "frozen", b"y")
            self.assertErrno(errno.EROFS, self.io.remove_object, "frozen")

    def test_rollback(self):
        self.io.write_full("back", b"before")
        self.io.set_xattr("back", "a", b"1")
        self.snap("back")
        self.io.write_full("back", b"much later")
        self.io.set_xattr("back", "b", b"2")
        write_op(self.io, "back", lambda op: self.io.set_omap(op, ("k",), (b"1",)))
        self.io.snap_rollback("back", "back")
        self.assertEqual(self.io.read("back"), b"before")
        self.assertEqual(dict(self.io.get_xattrs("back")), {"a": b"1"})
        self.assertEqual(omap(self.io, "back"), {})
        self.assertErrno(errno.ENOENT, self.io.snap_rollback, "back", "no such snap")

    def test_rollback_to_before_the_objects_time_removes_it(self):
        self.snap("none yet")
        self.io.write_full("young", b"x")
        self.io.snap_rollback("young", "none yet")
        self.assertErrno(errno.ENOENT, self.io.read, "young")

    def test_rollback_brings_removed_objects_back(self):
        self.io.write_full("returns", b"x")
        self.snap("alive")
        self.io.remove_object("returns")
        self.io.snap_rollback("returns", "alive")
        self.assertEqual(self.io.read("returns"), b"x")

    def test_the_tool_speaks_of_snaps_by_name(self):
        tool = ("rados", "-p", self.pool)
        self.io.write_full("tool", b"before")
        self.assertIn("created pool", run(*tool, "mksnap", "by-tool").stdout)
        self.cluster.wait_for_latest_osdmap()
        self.io.write_full("tool", b"after")
        self.assertIn("by-tool", run(*tool, "lssnap").stdout)
        self.assertRegex(run(*tool, "-s", "by-tool", "get", "tool", "-").stdout, r"^selected snap \d+ 'by-tool'\nbefore$")
        run(*tool, "rollback", "tool", "by-tool")
        self.assertEqual(self.io.read("tool"), b"before")
        run(*tool, "rmsnap", "by-tool")
        self.assertNotIn("by-tool", run(*tool, "lssnap").stdout)
        self.assertNotEqual(run(*tool, "rmsnap", "by-tool", check=False).returncode, 0)

    def test_the_monitor_makes_them_too(self):
        self.mon("osd pool mksnap", pool=self.pool, snap="monitors")
        self.cluster.wait_for_latest_osdmap()
        self.assertIn("monitors", [snap.name for snap in self.io.list_snaps()])
        self.mon("osd pool rmsnap", pool=self.pool, snap="monitors")
        self.cluster.wait_for_latest_osdmap()
        self.assertNotIn("monitors", [snap.name for snap in self.io.list_snaps()])

    def test_a_pool_has_one_kind_of_snaps(self):
        self.snap("mine")
        self.assertErrno(errno.EINVAL, self.io.create_self_managed_snap)

    def test_removal_frees_the_clones(self):
        self.io.write_full("freed", b"x" * KIB)
        self.snap("to free")
        self.io.write_full("freed", b"y")
        self.assertEqual(len(listed(self.pool, "freed")), 2)
        self.io.remove_snap("to free")
        wait_for(lambda: len(listed(self.pool, "freed")) == 1, "the clone is trimmed")
        self.assertEqual(self.io.read("freed"), b"y")


class ManagedSnaps(Pool):
    """Snaps whose ids the client keeps, newest first, and hands in with every write."""

    def setUp(self):
        self.snaps = []

    def tearDown(self):
        self.io.set_self_managed_snap_write([])
        for snap in self.snaps:
            self.io.remove_self_managed_snap(snap)

    def snap(self):
        snap = self.io.create_self_managed_snap()
        self.snaps.insert(0, snap)
        self.io.set_self_managed_snap_write(self.snaps)
        return snap

    def drop(self, snap):
        self.io.remove_self_managed_snap(snap)
        self.snaps.remove(snap)
        self.io.set_self_managed_snap_write(self.snaps)

    def at(self, snap, name):
        with reading_at(self.io, snap):
            return self.io.read(name, 16 * KIB)

    def test_ids_grow(self):
        ids = [self.snap() for _ in range(3)]
        self.assertEqual(ids, sorted(set(ids)))

    def test_pools_have_one_kind_of_snaps(self):
        self.snap()
        self.assertErrno(errno.EINVAL, self.io.create_snap, "named")

    def test_each_snap_keeps_its_content(self):
        contents = {}
        for i in range(5):
            self.io.write_full("many", b"content %d" % i)
            contents[self.snap()] = b"content %d" % i
        self.io.write_full("many", b"head")
        for snap, content in contents.items():
            self.assertEqual(self.at(snap, "many"), content)
        self.assertEqual([clone[:2] for clone in listed(self.pool, "many")],
                         [(snap, [snap]) for snap in sorted(contents)] + [("head", [])])

    def test_snaps_between_two_writes_share_a_clone(self):
        self.io.write_full("shared", b"one")
        first, second, third = self.snap(), self.snap(), self.snap()
        self.io.write_full("shared", b"two")
        self.assertEqual(listed(self.pool, "shared")[0][:2], (third, [first, second, third]))
        for snap in (first, second, third):
            self.assertEqual(self.at(snap, "shared"), b"one")
        self.drop(second)
        wait_for(lambda: listed(self.pool, "shared")[0][1] == [first, third], "the snap leaves its clone")
        self.assertEqual(self.at(first, "shared"), b"one")

    def test_writes_shrink_what_clone_and_head_share(self):
        self.io.write_full("overlap", b"a" * 16 * KIB)
        snap = self.snap()
        self.io.write("overlap", b"b" * 4 * KIB, 4 * KIB)
        self.assertEqual(listed(self.pool, "overlap"), [
            (snap, [snap], 16 * KIB, [(0, 4 * KIB), (8 * KIB, 8 * KIB)]),
            ("head", [], 16 * KIB, []),
        ])
        self.io.trunc("overlap", 12 * KIB)
        self.assertEqual(listed(self.pool, "overlap")[0][3], [(0, 4 * KIB), (8 * KIB, 4 * KIB)])
        write_op(self.io, "overlap", lambda op: zero(op, 0, KIB))
        self.assertEqual(listed(self.pool, "overlap")[0][3], [(KIB, 3 * KIB), (8 * KIB, 4 * KIB)])
        self.io.append("overlap", b"c" * 8 * KIB)
        self.assertEqual(listed(self.pool, "overlap")[0][3], [(KIB, 3 * KIB), (8 * KIB, 4 * KIB)])
        self.io.write_full("overlap", b"d")
        self.assertEqual(listed(self.pool, "overlap")[0][3], [])
        self.assertEqual(self.at(snap, "overlap"), b"a" * 16 * KIB)

    def test_attributes_and_maps_are_cloned(self):
        self.io.write_full("meta", b"")
        self.io.set_xattr("meta", "a", b"1")
        write_op(self.io, "meta", lambda op: self.io.set_omap(op, ("k",), (b"1",)))
        snap = self.snap()
        self.io.rm_xattr("meta", "a")
        write_op(self.io, "meta", lambda op: self.io.clear_omap(op))
        with reading_at(self.io, snap):
            self.assertEqual(dict(self.io.get_xattrs("meta")), {"a": b"1"})
            self.assertEqual(omap(self.io, "meta"), {"k": b"1"})
        self.assertEqual(omap(self.io, "meta"), {})

    def test_a_write_with_no_newer_snap_clones_nothing(self):
        self.io.write_full("quiet", b"one")
        self.snap()
        self.io.write_full("quiet", b"two")
        self.io.write_full("quiet", b"three")
        self.io.set_xattr("quiet", "a", b"1")
        self.assertEqual(len(listed(self.pool, "quiet")), 2)

    def test_reading_at_any_time(self):
        self.io.write_full("times", b"one")
        first = self.snap()
        self.io.remove_object("times")
        second = self.snap()
        self.io.write_full("times", b"two")
        third = self.snap()
        self.io.append("times", b"+")
        self.assertEqual(self.at(first, "times"), b"one")
        with reading_at(self.io, second):
            self.assertErrno(errno.ENOENT, self.io.read, "times")
        self.assertEqual(self.at(third, "times"), b"two")
        self.assertEqual(self.io.read("times"), b"two+")

    def test_rollback(self):
        self.io.write_full("back", b"0123456789")
        self.io.set_xattr("back", "a", b"1")
        snap = self.snap()
        self.io.write("back", b"xx", 4)
        later = self.snap()
        self.io.write_full("back", b"other")
        self.io.set_xattr("back", "a", b"2")
        self.io.rollback_self_managed_snap("back", snap)
        self.assertEqual(self.io.read("back"), b"0123456789")
        self.assertEqual(self.io.get_xattr("back", "a"), b"1")
        self.assertEqual(self.at(later, "back"), b"0123xx6789")
        self.io.rollback_self_managed_snap("back", later)
        self.assertEqual(self.io.read("back"), b"0123xx6789")
        self.assertEqual(self.at(snap, "back"), b"0123456789")

    def test_rollback_of_removed_and_young_objects(self):
        early = self.snap()
        self.io.write_full("gone", b"x")
        snap = self.snap()
        self.io.remove_object("gone")
        self.io.rollback_self_managed_snap("gone", snap)
        self.assertEqual(self.io.read("gone"), b"x")
        self.io.rollback_self_managed_snap("gone", early)
        self.assertErrno(errno.ENOENT, self.io.read, "gone")
        self.assertEqual(self.at(snap, "gone"), b"x")

    def test_rolled_back_content_keeps_its_snaps_apart(self):
        self.io.write_full("again", b"a" * 8 * KIB)
        first = self.snap()
        self.io.write("again", b"b" * 2 * KIB, 0)
        self.io.rollback_self_managed_snap("again", first)
        second = self.snap()
        self.io.write("again", b"c" * 2 * KIB, 4 * KIB)
        self.assertEqual(self.at(first, "again"), b"a" * 8 * KIB)
        self.assertEqual(self.at(second, "again"), b"a" * 8 * KIB)
        self.assertEqual(self.io.read("again", 8 * KIB), b"a" * 4 * KIB + b"c" * 2 * KIB + b"a" * 2 * KIB)

    def test_heads_that_are_gone_leave_their_clones(self):
        self.io.write_full("headless", b"x" * KIB)
        snap = self.snap()
        self.io.remove_object("headless")
        self.assertErrno(errno.ENOENT, self.io.stat, "headless")
        self.assertEqual(listed(self.pool, "headless"), [(snap, [snap], KIB, [])])
        self.drop(snap)
        gone = lambda: "(2)" in run("rados", "-p", self.pool, "listsnaps", "headless", check=False).stderr
        wait_for(gone, "nothing is left of it")

    def test_namespaces_have_clones_too(self):
        self.io.set_namespace("space")
        try:
            self.io.write_full("named", b"one")
            snap = self.snap()
            self.io.write_full("named", b"two")
            self.assertEqual(self.at(snap, "named"), b"one")
            self.assertEqual(listed(self.pool, "named", "space")[0][0], snap)
        finally:
            self.io.set_namespace("")

    def test_a_list_of_missing_objects_is_enoent(self):
        self.assertIn("(2)", run("rados", "-p", self.pool, "listsnaps", "missing", check=False).stderr)

    def test_trimming_frees_space(self):
        clones = lambda: self.io.get_stats()["num_object_clones"]
        wait_for(lambda: clones() == 0, "no clones left by other tests")
        for i in range(20):
            self.io.write_full(f"trim{i}", b"x" * 64 * KIB)
        snap = self.snap()
        for i in range(20):
            self.io.write_full(f"trim{i}", b"y" * 64 * KIB)
        wait_for(lambda: clones() == 20, "statistics count the clones")
        self.drop(snap)
        wait_for(lambda: clones() == 0, "the clones are trimmed")
        for i in range(20):
            self.assertEqual(self.io.read(f"trim{i}", 64 * KIB), b"y" * 64 * KIB)

    def test_a_removed_snap_cannot_be_written_with(self):
        snap = self.snap()
        self.io.write_full("stale", b"one")
        self.io.remove_self_managed_snap(snap)
        self.io.write_full("stale", b"two")
        self.assertEqual(listed(self.pool, "stale"), [("head", [], 3, [])])
        self.snaps.remove(snap)


del Pool

if __name__ == "__main__":
    unittest.main()
