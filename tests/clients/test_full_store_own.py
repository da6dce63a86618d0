"""A store that runs out of space: writes are refused in time, reads and removals go on, and writes again after that.

One test fills a pool until the map calls it full, as an operator would see it; the other is faster than the map and
meets the stores' own last line of defence."""
import errno
import os
import subprocess
import unittest

from harness import Loligo, OwnCluster, run, wait_for

DEVICE_BYTES = 256 << 20
OBJECT_BYTES = 1 << 20


def content(index):
    return bytes([index % 251]) * OBJECT_BYTES


class FullStore(OwnCluster):
    def start(self, **options):
        options = {"bluestore_block_size": DEVICE_BYTES, "osd_pool_default_pg_num": 8, **options}
        self.cluster.up("--store", "extent", "--processes", options=options)
        run("ceph", "osd", "pool", "create", "p", "8", conf=self.cluster.conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "test", conf=self.cluster.conf)

    def open(self):
        import rados
        cluster = rados.Rados(conffile=str(self.cluster.conf))
        cluster.connect()
        self.addCleanup(cluster.shutdown)
        return rados, cluster.open_ioctx("p")

    def fill(self, rados, io, depth):
        """Writes until the first refusal; says which objects were acknowledged and which refused."""
        written, refused, index, under_way = [], [], 0, []
        while not refused:
            under_way.append((index, io.aio_write_full(f"o{index}", content(index))))
            index += 1
            self.assertLess(index, 2 * DEVICE_BYTES // OBJECT_BYTES, "there is an end")
            while len(under_way) >= depth or refused and under_way:
                number, completion = under_way.pop(0)
                completion.wait_for_complete_and_cb()
                result = completion.get_return_value()
                if result == 0:
                    written.append(number)
                else:
                    self.assertEqual(result, -errno.ENOSPC)
                    refused.append(number)
        for number, completion in under_way:
            completion.wait_for_complete_and_cb()
            (written if completion.get_return_value() == 0 else refused).append(number)
        return written, refused

    def health(self):
        return self.cluster.ceph("health", "detail").stdout

    def assert_all_live(self):
        self.assertEqual(sorted(self.cluster.pids()), ["mon.a", "osd.0", "osd.1", "osd.2"])
        for pid in self.cluster.pids().values():
            os.kill(pid, 0)

    def use_again(self, rados, io, written, refused):
        for number in written:
            self.assertEqual(io.read(f"o{number}", OBJECT_BYTES), content(number), f"o{number}")
        for number in refused:
            with self.assertRaises(rados.ObjectNotFound):
                io.stat(f"o{number}")
        for number in written:
            io.remove_object(f"o{number}")
        wait_for(lambda: "full" not in self.health(), "there is room again", seconds=30)
        for number in range(20):
            io.write_full(f"again{number}", content(number))
        for number in range(20):
            self.assertEqual(io.read(f"again{number}", OBJECT_BYTES), content(number))
        self.assert_all_live()
        self.cluster.down()
        run(Loligo.binary(), "fsck", "--dir", self.cluster.dir, "--deep")

    def test_the_stores_refuse_what_the_map_does_not_know_yet(self):
        # Ratios that are never reached: nobody but the stores' reserve stands between the writers and the end.
        self.start(mon_osd_full_ratio=1.0, mon_osd_backfillfull_ratio=0.99, mon_osd_nearfull_ratio=0.98)
        rados, io = self.open()
        written, refused = self.fill(rados, io, depth=32)
        self.assertGreater(len(written), 100, "most of the device can be used")
        self.assertTrue(refused)
        self.assert_all_live()
        self.use_again(rados, io, written, refused)

    def test_the_map_calls_the_pool_full_and_writers_wait(self):
        # On so small a device a second's writes lie between the usual ratios and the stores' reserve.
        self.start(mon_osd_full_ratio=0.8, mon_osd_backfillfull_ratio=0.75, mon_osd_nearfull_ratio=0.7)
        writer = subprocess.Popen(
            ["rados", "-p", "p", "bench", "600", "write", "--no-cleanup", "-t", "4", "-b", str(OBJECT_BYTES)],
            env=dict(os.environ, CEPH_CONF=str(self.cluster.conf), CEPH_ARGS=""), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.addCleanup(writer.wait)
        self.addCleanup(writer.kill)
        wait_for(lambda: "POOL_FULL" in self.health() and "OSD_FULL" in self.health(), "full", seconds=120)
        self.assertIsNone(writer.poll(), "it waits, and does not fail")
        self.assert_all_live()
        writer.kill()
        rados, io = self.open()
        names = [entry.key for entry in io.list_objects()]
        self.assertGreater(len(names), 100)
        for name in names:
            self.assertGreater(len(io.read(name, OBJECT_BYTES)), 0)
        # A client holds removals back, too, unless it is told that they are meant to make room.
        run("rados", "-p", "p", "rm", "--force-full", *names, conf=self.cluster.conf)
        wait_for(lambda: "full" not in self.health(), "there is room again", seconds=30)
        io.write_full("again", content(1))
        self.assert_all_live()


if __name__ == "__main__":
    unittest.main()
