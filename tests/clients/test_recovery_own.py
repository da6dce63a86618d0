"""OSDs are killed, written past, started again, and replaced by empty ones, while stock clients work and verify: their
I/O goes on, every byte is right, and in the end everything is clean.

`LOLIGO_RECOVERY_SECONDS` says how long clients work past an OSD that is away (4)."""
import json
import os
import signal
import subprocess
import time
import unittest

from harness import Loligo, OwnCluster, has_ended, run, wait_for
from verifying import Workers

SECONDS = float(os.environ.get("LOLIGO_RECOVERY_SECONDS", 4))


class Recovery(OwnCluster):
    def setUp(self):
        super().setUp()
        self.cluster.up("--processes", "--osds", "4", "--store", "extent")
        self.conf = self.cluster.conf
        self.workers, self.fio, self.osds = Workers(self.conf, self.parent), None, []
        run("ceph", "osd", "pool", "create", "p", "16", "16", conf=self.conf)
        wait_for(self.is_clean, "a new pool is clean")

    def tearDown(self):
        self.workers.kill()
        if self.fio:
            self.fio.kill()
            self.fio.communicate()
        super().tearDown()
        for osd in self.osds:
            osd.wait(timeout=60)

    def status(self):
        return json.loads(run("ceph", "-s", "--format", "json", conf=self.conf).stdout)

    def is_clean(self):
        states = self.status()["pgmap"]["pgs_by_state"]
        return [state["state_name"] for state in states] == ["active+clean"]

    def node(self, osd):
        nodes = json.loads(run("ceph", "osd", "dump", "--format", "json", conf=self.conf).stdout)["osds"]
        return next(node for node in nodes if node["osd"] == osd)

    def is_up(self, osd):
        return self.node(osd)["up"] == 1

    def kill(self, osd):
        pid = self.cluster.pids()[f"osd.{osd}"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: has_ended(pid), f"osd.{osd} is gone")

    def start(self, osd):
        command = [Loligo.binary(), "osd", "--dir", self.cluster.dir, "--id", str(osd)]
        self.osds.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for(lambda: self.is_up(osd), f"osd.{osd} is up again")

    def end_work(self):
        wrong, longest = self.workers.end()
        self.assertEqual(wrong, [])
        return longest

    def wait_until_clean(self):
        """Clients get on while recovery does."""
        wait_for(self.is_clean, "everything is clean", seconds=120)
        self.workers.go_on()

    def test_a_killed_osd_comes_back_to_what_was_written_without_it(self):
        self.workers.begin()
        for osd in (0, 2):
            self.kill(osd)
            wait_for(lambda: not self.is_up(osd), f"osd.{osd} is down")
            before = self.workers.ops()
            time.sleep(SECONDS)
            self.assertGreater(self.workers.ops(), before)
            self.assertIn("PG_DEGRADED", run("ceph", "health", "detail", conf=self.conf).stdout)
            self.start(osd)
            self.wait_until_clean()
        self.assertLess(self.end_work(), 30)

    def test_an_osd_is_replaced_by_an_empty_one(self):
        for option, value in (("osd_min_pg_log_entries", 1), ("osd_max_pg_log_entries", 10)):
            run("ceph", "config", "set", "osd", option, value, conf=self.conf)
        self.workers.begin()
        time.sleep(SECONDS)
        for osd in (1, 3):
            self.kill(osd)
            # Without its mark, too: an OSD whose store is gone refuses to begin anew by itself.
            for file in ("block", "fsid"):
                (self.cluster.dir / f"osd.{osd}" / file).unlink()
            wait_for(lambda: not self.is_up(osd), f"osd.{osd} is down")
            time.sleep(SECONDS)
            self.start(osd)
            self.wait_until_clean()
        # Groups whose other members are those two are read from nothing but what they were given.
        self.end_work()

    def test_fio_verifies_what_it_wrote_past_a_dead_osd(self):
        self.fio = fio = subprocess.Popen(
            ["fio", "--name=t", "--ioengine=rados", "--pool=p", "--clientname=admin", f"--conf={self.conf}",
             "--nrfiles=32", "--rw=randwrite", "--bs=16k", "--size=64m", "--iodepth=8", "--verify=crc32c", "--do_verify=1",
             "--verify_fatal=1", "--rate_iops=250", "--output-format=json"], stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        self.kill(1)
        wait_for(lambda: not self.is_up(1), "osd.1 is down")
        time.sleep(SECONDS)
        self.start(1)
        out = fio.communicate(timeout=200)[0]
        self.fio = None
        job = json.loads(out[out.index("{"):])["jobs"][0]
        self.assertEqual(job["error"], 0)
        self.assertEqual(job["read"]["total_ios"], job["write"]["total_ios"])
        wait_for(self.is_clean, "everything is clean", seconds=120)

    def test_an_osd_that_is_marked_down_too_often_stays_down_until_it_is_started_anew(self):
        run("ceph", "config", "set", "osd", "osd_max_markdown_count", 2, conf=self.conf)
        for _ in range(2):
            before = self.node(1)["up_from"]
            run("ceph", "osd", "down", "1", conf=self.conf)
            wait_for(lambda: self.is_up(1) and self.node(1)["up_from"] > before, "osd.1 is back")
        run("ceph", "osd", "down", "1", conf=self.conf)
        told = "osd.1 marked down 3 > osd_max_markdown_count 2 in last 600 seconds"
        wait_for(lambda: told in run("ceph", "log", "last", "20", conf=self.conf).stdout, "the cluster log says why")
        self.assertFalse(self.is_up(1))
        self.kill(1)
        self.start(1)
        wait_for(self.is_clean, "everything is clean", seconds=120)


if __name__ == "__main__":
    unittest.main()
