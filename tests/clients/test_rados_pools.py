"""Pools as programs meet them: quotas, full and pause flags, applications, renaming, listing by placement group.

The expectations hold on Ceph 16.2 as well.
"""
import contextlib
import errno
import json
import time
import unittest

import rados

from harness import run
from rados_pool import Pool, wait_for

KIB = 1 << 10


class Pools(Pool):
    def flags(self):
        return set(self.details(self.pool)["flags_names"].split(","))

    def details(self, name):
        return next(p for p in self.mon("osd pool ls", detail="detail") if p["pool_name"] == name)

    def quota(self, field, value):
        self.mon("osd pool set-quota", pool=self.pool, field=field, val=str(value))

    @contextlib.contextmanager
    def full_pool(self, field, limit):
        """Inside, the pool is over its quota."""
        self.quota(field, limit)
        try:
            wait_for(lambda: "full_quota" in self.flags(), "the pool is over its quota", seconds=40)
            self.cluster.wait_for_latest_osdmap()
            yield
        finally:
            self.quota(field, 0)
            wait_for(lambda: "full_quota" not in self.flags(), "the quota is lifted", seconds=40)
            self.cluster.wait_for_latest_osdmap()

    def test_quotas_are_told(self):
        self.quota("max_objects", 1000)
        self.quota("max_bytes", 10 << 30)
        try:
            self.assertEqual(self.mon("osd pool get-quota", pool=self.pool)["quota_max_objects"], 1000)
            told = run("ceph", "osd", "pool", "get-quota", self.pool).stdout
            self.assertRegex(told, r"max objects: 1k objects")
            self.assertRegex(told, r"max bytes  : 10 GiB")
        finally:
            self.quota("max_objects", 0)
            self.quota("max_bytes", 0)
        self.assertIn("max objects: N/A", run("ceph", "osd", "pool", "get-quota", self.pool).stdout)

    def test_a_pool_over_its_quota_takes_deletes_and_reads_only(self):
        for i in range(6):
            self.io.write_full(f"quota{i}", b"x" * 64 * KIB)
        with self.full_pool("max_objects", 2):
            self.assertEqual(self.io.read("quota0", 4), b"xxxx")
            # A plain write waits; one that will not wait hears why.
            self.io.set_osdmap_full_try()
            try:
                self.assertErrno(errno.EDQUOT, self.io.write_full, "more", b"x")
                self.assertErrno(errno.EDQUOT, self.io.append, "quota1", b"x")
                self.io.remove_object("quota0")
            finally:
                self.io.unset_osdmap_full_try()
        self.io.write_full("more", b"x")

    def test_writes_wait_for_room(self):
        for i in range(3):
            self.io.write_full(f"bytes{i}", b"x" * 64 * KIB)
        with self.full_pool("max_bytes", 10 * KIB):
            self.assertIn("POOL_FULL", json.loads(run("ceph", "health", "-f", "json").stdout)["checks"])
            waits = self.io.aio_write_full("waits", b"x")
            time.sleep(0.5)
            self.assertFalse(waits.is_complete())
        waits.wait_for_complete()
        self.assertEqual(waits.get_return_value(), 0)

    def test_a_pause_stops_io_and_its_end_resumes_it(self):
        self.io.write_full("paused", b"before")
        run("ceph", "osd", "set", "pause")
        try:
            self.cluster.wait_for_latest_osdmap()
            dump = self.mon("osd dump")
            self.assertLessEqual({"pauserd", "pausewr"}, set(dump["flags_set"]))
            self.assertIn("OSDMAP_FLAGS", self.mon("health")["checks"])
            write, read = self.io.aio_write_full("paused", b"after"), self.io.aio_stat("paused", lambda *_: None)
            time.sleep(0.5)
            self.assertFalse(write.is_complete() or read.is_complete())
        finally:
            run("ceph", "osd", "unset", "pause")
        write.wait_for_complete()
        read.wait_for_complete()
        self.assertEqual(self.io.read("paused"), b"after")

    def test_full_osds_take_deletes_only(self):
        for name in ("full", "goes"):
            self.io.write_full(name, b"x" * 64 * KIB)
        ratios = [("nearfull", 0.85), ("backfillfull", 0.9), ("full", 0.95)]
        checks = lambda: self.mon("health")["checks"]
        try:
            for i, (name, _) in enumerate(ratios):
                self.mon(f"osd set-{name}-ratio", ratio=(i + 1) * 1e-9)
            wait_for(lambda: {"OSD_FULL", "POOL_FULL"} <= set(checks()), "the OSDs are full", seconds=40)
            self.assertEqual(checks()["OSD_FULL"]["severity"], "HEALTH_ERR")
            self.cluster.wait_for_latest_osdmap()
            self.assertIn("full", self.flags())
            waits = self.io.aio_write_full("waits", b"x")
            self.io.set_osdmap_full_try()
            try:
                self.assertErrno(errno.ENOSPC, self.io.append, "full", b"more")
                self.io.remove_object("goes")
            finally:
                self.io.unset_osdmap_full_try()
            self.assertEqual(self.io.read("full", 4), b"xxxx")
            self.assertFalse(waits.is_complete())
        finally:
            for name, ratio in reversed(ratios):
                self.mon(f"osd set-{name}-ratio", ratio=ratio)
        waits.wait_for_complete()
        self.assertEqual(waits.get_return_value(), 0)
        wait_for(lambda: "OSD_FULL" not in checks(), "there is room again", seconds=40)

    def test_applications(self):
        self.assertEqual(self.io.application_list(), ["test"])
        self.io.application_metadata_set("test", "key", "value")
        self.assertEqual(self.io.application_metadata_get("test", "key"), "value")
        self.assertEqual(self.io.application_metadata_list("test"), [("key", "value")])
        self.io.application_metadata_remove("test", "key")
        with self.assertRaises(KeyError):
            self.io.application_metadata_get("test", "key")
        self.assertErrno(errno.ENOENT, self.io.application_metadata_set, "none", "key", "value")
        self.assertErrno(errno.EPERM, self.io.application_enable, "second")
        self.io.application_enable("second", True)
        self.assertEqual(sorted(self.io.application_list()), ["second", "test"])
        self.mon("osd pool application disable", pool=self.pool, app="second", yes_i_really_mean_it=True)
        self.cluster.wait_for_latest_osdmap()
        self.assertEqual(self.io.application_list(), ["test"])

    def test_renaming_keeps_the_contents(self):
        name, new = self.pool + "-old", self.pool + "-new"
        self.cluster.create_pool(name)
        try:
            with self.cluster.open_ioctx(name) as io:
                io.write_full("kept", b"x")
                number = io.get_pool_id()
                self.mon("osd pool rename", srcpool=name, destpool=new)
                self.cluster.wait_for_latest_osdmap()
                self.assertFalse(self.cluster.pool_exists(name))
                self.assertEqual(self.cluster.pool_lookup(new), number)
                self.assertEqual(self.cluster.pool_reverse_lookup(number), new)
                self.assertEqual(io.read("kept"), b"x")
            refused = run("ceph", "osd", "pool", "rename", new, self.pool, check=False)
            self.assertEqual(refused.returncode, errno.EEXIST, refused.stderr)
            refused = run("ceph", "osd", "pool", "rename", "no-such-pool", "other", check=False)
            self.assertEqual(refused.returncode, errno.ENOENT, refused.stderr)
        finally:
            self.cluster.delete_pool(new if self.cluster.pool_exists(new) else name)

    def test_a_deleted_pool_is_gone_for_its_users(self):
        self.cluster.create_pool(self.pool + "-gone")
        with self.cluster.open_ioctx(self.pool + "-gone") as io:
            io.write_full("o", b"x")
            self.cluster.delete_pool(self.pool + "-gone")
            self.assertErrno(errno.ENOENT, io.read, "o")
            self.assertErrno(errno.ENOENT, io.write_full, "o", b"x")
        self.assertErrno(errno.ENOENT, self.cluster.open_ioctx, self.pool + "-gone")
        self.assertErrno(errno.ENOENT, self.cluster.delete_pool, self.pool + "-gone")

    def test_pools_of_one_name_are_refused(self):
        self.assertErrno(errno.EEXIST, self.cluster.create_pool, self.pool)

    def test_a_placement_group_lists_what_is_placed_there(self):
        names = {f"listed{i}" for i in range(40)}
        for name in names:
            self.io.write_full(name, b"x")
        places = {}
        for name in names:
            places.setdefault(self.mon("osd map", pool=self.pool, object=name)["pgid"], set()).add(name)
        for pgid, here in places.items():
            # The tool seeks to the group's place in the listing, and stops where it ends.
            listed = set(run("rados", "--pgid", pgid, "ls").stdout.split())
            self.assertEqual(listed & names, here)

    def test_statistics_count_what_is_done(self):
        for i in range(7):
            self.io.write_full(f"counted{i}", b"x" * 4 * KIB)
        self.io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
        objects = len(list(self.io.list_objects()))
        self.io.set_namespace("")
        wait_for(lambda: self.io.get_stats()["num_objects"] == objects, f"{objects} objects", seconds=40)
        self.assertGreaterEqual(self.io.get_stats()["num_bytes"], 7 * 4 * KIB)


del Pool

if __name__ == "__main__":
    unittest.main()
