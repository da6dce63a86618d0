"""A copy rots on one OSD's disk: a deep scrub finds it, stock clients list it, reads meanwhile are right, and it is
repaired; a read that meets it first gets the right bytes from another copy, and heals it."""
import json
import mmap
import os
import random
import subprocess
import time
import unittest

from harness import Loligo, OwnCluster, run, wait_for


def content(name, size=300_000):
    return random.Random(name).randbytes(size)


class Scrub(OwnCluster):
    def setUp(self):
        super().setUp()
        self.osds = []

    def tearDown(self):
        super().tearDown()
        for osd in self.osds:
            osd.wait(timeout=60)

    def up(self, size=3, **options):
        self.cluster.up("--processes", "--store", "extent", options={"mon_allow_pool_size_one": "true", **options})
        self.conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "1", conf=self.conf)
        run("ceph", "osd", "pool", "set", "p", "size", size, "--yes-i-really-mean-it", conf=self.conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "rados", conf=self.conf)
        wait_for(lambda: self.pg()["state"] == "active+clean", "the pool is clean")

    def json(self, *command):
        return json.loads(run(*command, "--format", "json", conf=self.conf).stdout)

    def pg(self):
        stats = self.json("ceph", "pg", "dump", "pgs")
        stats = stats.get("pg_stats", stats) if isinstance(stats, dict) else stats
        return stats[0]

    def write(self, names):
        import rados
        with rados.Rados(conffile=str(self.conf)) as cluster, cluster.open_ioctx("p") as io:
            for name in names:
                io.write_full(name, content(name))
                io.set_xattr(name, "a", name.encode())

    def read(self, name, length=1 << 20, offset=0):
        import rados
        with rados.Rados(conffile=str(self.conf)) as cluster, cluster.open_ioctx("p") as io:
            return io.read(name, length, offset)

    def is_up(self, osd):
        nodes = self.json("ceph", "osd", "dump")["osds"]
        return next(node["up"] for node in nodes if node["osd"] == osd) == 1

    def stop(self, osd):
        pid = self.cluster.pids()[f"osd.{osd}"]
        os.kill(pid, 15)
        wait_for(lambda: not self.is_up(osd), f"osd.{osd} is down")
        wait_for(lambda: f"osd.{osd}" not in self.cluster.pids(), f"osd.{osd} has stopped")

    def start(self, osd):
        command = [Loligo.binary(), "osd", "--dir", self.cluster.dir, "--id", str(osd)]
        self.osds.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for(lambda: self.is_up(osd), f"osd.{osd} is up again")

    def rot(self, osd, name, at=100_000):
        """Turns a bit of an object on a stopped OSD's device."""
        self.stop(osd)
        wanted = content(name)[at:at + 64]
        with (self.cluster.dir / f"osd.{osd}" / "block").open("r+b") as file:
            with mmap.mmap(file.fileno(), 0) as block:
                found = block.find(wanted)
                self.assertGreaterEqual(found, 0, f"{name} is on osd.{osd}")
                block[found] ^= 1
        self.start(osd)
        wait_for(lambda: self.pg()["state"].startswith("active+clean"), "it is clean again")

    def scrub(self, verb):
        before = self.pg()["last_deep_scrub_stamp"]
        run("ceph", "pg", verb, self.pg()["pgid"], conf=self.conf)
        wait_for(lambda: self.pg()["last_deep_scrub_stamp"] != before, f"{verb} is done")

    def inconsistent(self, what="obj"):
        return self.json("rados", f"list-inconsistent-{what}", self.pg()["pgid"])

    def followers(self):
        pg = self.pg()
        return [osd for osd in pg["acting"] if osd != pg["acting_primary"]]

    def check_all(self, names):
        for name in names:
            self.assertEqual(self.read(name), content(name), name)

    def test_a_rotten_copy_is_found_listed_and_repaired(self):
        self.up()
        names = [f"o{number}" for number in range(8)]
        self.write(names)
        self.scrub("deep-scrub")
        self.assertEqual(self.pg()["state"], "active+clean")
        self.assertEqual(self.inconsistent()["inconsistents"], [])
        victim = self.followers()[0]
        self.rot(victim, "o3")
        self.scrub("deep-scrub")
        wait_for(lambda: self.pg()["state"] == "active+clean+inconsistent", "it is inconsistent")
        self.assertEqual(self.pg()["stat_sum"]["num_deep_scrub_errors"], 1)
        health = self.cluster.ceph("health", "detail").stdout
        self.assertIn("OSD_SCRUB_ERRORS: 1 scrub errors", health)
        self.assertIn("PG_DAMAGED: Possible data damage: 1 pg inconsistent", health)
        self.assertEqual(json.loads(run("rados", "list-inconsistent-pg", "p", conf=self.conf).stdout), [self.pg()["pgid"]])
        found, = self.inconsistent()["inconsistents"]
        self.assertEqual((found["object"]["name"], found["object"]["snap"], found["errors"]), ("o3", "head", []))
        self.assertEqual(found["union_shard_errors"], ["read_error"])
        self.assertEqual(found["selected_object_info"]["size"], len(content("o3")))
        shards = {shard["osd"]: shard for shard in found["shards"]}
        self.assertEqual(sorted(shards), sorted(self.pg()["acting"]))
        self.assertEqual(shards[victim]["errors"], ["read_error"])
        digests = {shard["data_digest"] for osd, shard in shards.items() if osd != victim}
        self.assertEqual(len(digests), 1)
        self.check_all(names)
        self.scrub("repair")
        wait_for(lambda: self.pg()["state"] == "active+clean", "it is repaired")
        # The store goes on to say that it could not read something.
        health = self.cluster.ceph("health", "detail").stdout
        self.assertFalse("OSD_SCRUB_ERRORS" in health or "PG_DAMAGED" in health, health)
        self.scrub("deep-scrub")
        self.assertEqual(self.inconsistent()["inconsistents"], [])
        self.check_all(names)

    def test_a_read_of_a_rotten_primary_is_right_and_heals_it(self):
        self.up()
        names = [f"o{number}" for number in range(4)]
        self.write(names)
        self.rot(self.pg()["acting_primary"], "o1")
        self.assertEqual(self.read("o1", 4096, 98_304), content("o1")[98_304:102_400])
        self.check_all(names)
        wait_for(lambda: self.pg()["state"] == "active+clean", "it is healed")
        self.scrub("deep-scrub")
        self.assertEqual(self.pg()["stat_sum"]["num_scrub_errors"], 0)
        self.assertEqual(self.inconsistent()["inconsistents"], [])

    def test_a_write_into_a_rotten_block_waits_until_the_object_is_healed(self):
        import rados
        self.up()
        names = ["o1", "o2"]
        self.write(names)
        primary = self.pg()["acting_primary"]
        for osd, name in ((primary, "o1"), (self.followers()[0], "o2")):
            self.rot(osd, name, at=100_000)
            with rados.Rados(conffile=str(self.conf)) as cluster, cluster.open_ioctx("p") as io:
                # A part of the block: what is left of it has to be read.
                io.write(name, b"new", 100_500)
                io.write(name, b"more", 200_000)
            right = bytearray(content(name))
            right[100_500:100_503], right[200_000:200_004] = b"new", b"more"
            self.assertEqual(self.read(name), right, name)
            wait_for(lambda: self.pg()["state"] == "active+clean", "it is clean again")
            self.assertTrue(all(self.is_up(osd) for osd in range(3)))
            self.scrub("deep-scrub")
            self.assertEqual(self.inconsistent()["inconsistents"], [])

    def test_the_only_copy_that_rots_is_an_error(self):
        import rados
        self.up(size=1)
        self.write(["o1"])
        self.rot(self.pg()["acting_primary"], "o1")
        with self.assertRaises(rados.Error) as failed:
            self.read("o1")
        self.assertEqual(failed.exception.errno, 5)
        self.assertEqual(self.read("o1", 4096), content("o1")[:4096])
        self.scrub("deep-scrub")
        wait_for(lambda: "inconsistent" in self.pg()["state"], "it is inconsistent")
        found, = self.inconsistent()["inconsistents"]
        self.assertEqual((found["union_shard_errors"], found["shards"][0]["errors"]), (["read_error"], ["read_error"]))

    def test_a_write_into_the_only_copy_that_rots_is_an_error(self):
        """Nobody can heal it: the write is refused, whole objects can be written, and the OSD lives."""
        import rados
        self.up(size=1)
        self.write(["o1", "o2"])
        osd = self.pg()["acting_primary"]
        self.rot(osd, "o1")
        pid = self.cluster.pids()[f"osd.{osd}"]
        with rados.Rados(conffile=str(self.conf)) as cluster, cluster.open_ioctx("p") as io:
            for _ in range(3):
                with self.assertRaises(rados.Error) as failed:
                    io.write("o1", b"new", 100_500)
                self.assertEqual(failed.exception.errno, 5)
            io.write("o2", b"new", 100_500)
            self.assertEqual(self.read("o2", 3, 100_500), b"new")
            io.write_full("o1", b"all of it")
            io.write("o1", b"ALL", 0)
        self.assertEqual(self.read("o1"), b"ALL of it")
        self.assertEqual(self.cluster.pids()[f"osd.{osd}"], pid)

    def test_clients_work_while_their_objects_are_scrubbed(self):
        import rados
        self.up(osd_scrub_chunk_max=5)
        names = [f"o{number}" for number in range(60)]
        self.write(names)
        with rados.Rados(conffile=str(self.conf)) as cluster, cluster.open_ioctx("p") as io:
            end, longest, count = time.monotonic() + 6, 0, 0
            run("ceph", "osd", "pool", "deep-scrub", "p", conf=self.conf)
            while time.monotonic() < end:
                name, began = random.choice(names), time.monotonic()
                io.write_full(name, content(name))
                longest, count = max(longest, time.monotonic() - began), count + 1
        self.assertLess(longest, 3)
        self.assertGreater(count, 50)
        self.scrub("deep-scrub")
        self.assertEqual(self.pg()["stat_sum"]["num_scrub_errors"], 0)
        self.check_all(names)

    def test_scrubs_come_by_themselves_unless_they_are_forbidden(self):
        self.up(osd_scrub_min_interval=5, osd_deep_scrub_interval=10, osd_scrub_auto_repair="true",
                osd_scrub_interval_randomize_ratio=0)
        names = [f"o{number}" for number in range(4)]
        self.write(names)
        first = self.pg()["last_scrub_stamp"]
        wait_for(lambda: self.pg()["last_scrub_stamp"] != first, "a scrub comes")
        for flag in ("noscrub", "nodeep-scrub"):
            run("ceph", "osd", "set", flag, conf=self.conf)
        victim = self.followers()[1]
        self.rot(victim, "o2")
        time.sleep(1)
        still = self.pg()["last_deep_scrub_stamp"]
        time.sleep(12)
        self.assertEqual(self.pg()["last_deep_scrub_stamp"], still, "it is forbidden")
        for flag in ("noscrub", "nodeep-scrub"):
            run("ceph", "osd", "unset", flag, conf=self.conf)
        wait_for(lambda: self.pg()["last_deep_scrub_stamp"] != still, "a deep scrub comes")
        wait_for(lambda: self.pg()["state"] == "active+clean" and self.pg()["stat_sum"]["num_scrub_errors"] == 0,
                 "what it found is repaired")
        self.scrub("deep-scrub")
        self.assertEqual(self.inconsistent()["inconsistents"], [])


if __name__ == "__main__":
    unittest.main()
