"""The order of work as an operator sees it: limits that hold, changes that take effect at once, the queue on show."""
import contextlib
import json
import os
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import slow_devices
from harness import Loligo, OwnCluster, run, wait_for

OSDS = 3
# Operations a second that clients get of each OSD.
LIMIT = 40
SECONDS = 5


class Scheduling(OwnCluster):
    def set(self, *options):
        for name, value in options:
            run("ceph", "config", "set", "osd", name, value, conf=self.cluster.conf)

    def queue(self, osd=0):
        return json.loads(self.cluster.ceph("tell", f"osd.{osd}", "dump_op_pq_state").stdout)["OSD:ShardedOpWQ:0"]

    def wait_for_queue(self, scheduler, profile, osds=OSDS):
        def in_force():
            return all((q["scheduler"], q["profile"]) == (scheduler, profile) for q in map(self.queue, range(osds)))

        wait_for(in_force, f"{scheduler} with {profile} is in force")

    def written(self, pool="p"):
        """4 KiB writes that a stock client finishes in so many seconds."""
        out = run("rados", "-p", pool, "bench", str(SECONDS), "write", "-b", "4096", "-t", "32", "--format", "json",
                  "--no-cleanup", conf=self.cluster.conf).stdout
        return int(json.loads(out[out.index("{"):])["total_writes_made"])

    def test_a_limit_holds_and_a_profile_lifts_it_at_once(self):
        self.cluster.up()
        run("ceph", "osd", "pool", "create", "p", "32", conf=self.cluster.conf)
        self.set(("osd_mclock_profile", "custom"), ("osd_mclock_scheduler_client_lim", str(LIMIT)),
                 ("osd_op_queue", "mclock_scheduler"))
        self.wait_for_queue("mclock_scheduler", "custom")
        clients = next(q for q in self.queue()["queues"] if q["name"] == "client")
        self.assertEqual(clients["limit"], LIMIT)
        done = self.written()
        # A bench may last a little longer than it was told to, for the writes that are under way at its end.
        most = OSDS * LIMIT * (SECONDS + 1.5)
        self.assertLessEqual(done, most)
        # Load elsewhere makes it less, but hardly nothing.
        self.assertGreater(done, LIMIT)
        # What was set for `custom` has no effect under a built-in profile, and somebody says so.
        told = run("ceph", "config", "set", "osd", "osd_mclock_profile", "high_client_ops", conf=self.cluster.conf)
        self.assertIn(f"osd_mclock_scheduler_client_lim = {LIMIT} of osd has no effect", told.stderr)
        self.assertIn("OSD_MCLOCK_SETTINGS_IGNORED", self.cluster.ceph("health", "detail").stdout)
        self.wait_for_queue("mclock_scheduler", "high_client_ops")
        self.assertGreater(self.written(), most)

    def test_a_device_s_capacity_is_learnt_unless_it_is_set(self):
        self.cluster.up("--osds", "1", "--device-model", "hdd", options={"osd_pool_default_size": "1"})
        run("ceph", "osd", "pool", "create", "p", "8", conf=self.cluster.conf)
        self.set(("osd_op_queue", "mclock_scheduler"))
        self.wait_for_queue("mclock_scheduler", "high_client_ops", osds=1)
        self.written()
        rate = self.written() / SECONDS
        state = self.queue()
        capacity = state["capacity"]
        self.assertEqual(capacity["source"], "learnt")
        # Each write is one transaction, and some ask the store for the object first. The store would do more if it did not
        # wait for clients part of the time.
        self.assertGreater(capacity["iops"], 0.8 * rate)
        self.assertLess(capacity["iops"], 6 * rate)
        promised = next(q for q in state["queues"] if q["name"] == "client")
        self.assertAlmostEqual(promised["reservation"], capacity["iops"] / 2, delta=1)
        self.set(("osd_mclock_max_capacity_iops_hdd", "500"))
        override = {"iops": 500, "believed": 500, "source": "set"}
        wait_for(lambda: self.queue()["capacity"] == override, "the option overrides it")

    @unittest.skipUnless(slow_devices.may_be_had(), "needs root and the cgroup controller blkio (version 1)")
    def test_what_a_device_does_is_known_in_ten_seconds_and_followed(self):
        """Slow, five times slower than that, and as it was: what has been learnt is what the OSD does at the same load."""
        undo = contextlib.ExitStack()
        self.addCleanup(undo.close)
        device = slow_devices.SlowDevices(self.parent, undo, 1, 2)
        self.cluster.up("--osds", "1", options={"osd_pool_default_size": "1", "bluestore_block_path": device.pattern})
        run("ceph", "osd", "pool", "create", "p", "8", conf=self.cluster.conf)
        self.set(("osd_op_queue", "mclock_scheduler"))
        run("rbd", "create", "--size", "256M", "p/image", conf=self.cluster.conf)
        fio = ["fio", "--name=t", "--ioengine=rbd", "--pool=p", "--rbdname=image", "--clientname=admin", "--direct=1"]
        run(*fio, "--rw=write", "--bs=1m", "--iodepth=8", conf=self.cluster.conf)
        writer = subprocess.Popen(
            [*fio, "--rw=randwrite", "--bs=4k", "--iodepth=32", "--time_based", "--runtime=300"],
            env={**os.environ, "CEPH_ARGS": "", "CEPH_CONF": str(self.cluster.conf)}, stdout=subprocess.DEVNULL)
        undo.callback(writer.wait)
        undo.callback(writer.kill)

        def written():
            return json.loads(self.cluster.ceph("tell", "osd.0", "perf", "dump").stdout)["osd"]["op_w"], time.monotonic()

        for writes in (600, 120, 600):
            device.slow_down(200, writes, 10 * writes)
            time.sleep(10)
            before, began = written()
            known = []
            for _ in range(8):
                time.sleep(0.5)
                known.append(self.queue()["capacity"]["iops"])
            after, ended = written()
            rate = (after - before) / (ended - began)
            # Neither of the two is known better than this from so few seconds of a device that works in jerks.
            self.assertAlmostEqual(sum(known) / len(known) / rate, 1, delta=0.2, msg=f"{writes}: {rate:.0f} of {known}")

    def test_shares_follow_weights_under_every_scheduler(self):
        """Three tenants that always have work, on one slow device."""
        self.cluster.up("--osds", "1", "--device-model", "hdd", options={"osd_pool_default_size": "1"})
        weights = {"light": 1, "middling": 2, "heavy": 4}
        # What waits does so in the scheduler.
        self.set(("osd_op_queue_store_ios", "4"))
        for name, weight in weights.items():
            run("ceph", "osd", "pool", "create", name, "8", conf=self.cluster.conf)
            run(Loligo.binary(), "qos", "set", f"pool:{name}", "--weight", str(weight), "--dir", self.cluster.dir)
        # Where time is divided, the heavy do more in theirs: shares of time are not shares of writes on such a store.
        for scheduler, is_by_requests, *options in [
            ("wpq", True), ("mclock_scheduler", True), ("cfq", True, ("osd_cfq_slice_idle", "0")),
            ("cfq", False, ("osd_cfq_slice_idle", "8")),
        ]:
            with self.subTest(scheduler=scheduler, options=options):
                self.set(("osd_op_queue", scheduler), *options)
                self.wait_for_queue(scheduler, "high_client_ops", osds=1)
                with ThreadPoolExecutor() as pool:
                    done = dict(zip(weights, pool.map(self.written, weights)))
                self.assertGreater(sum(done.values()), 200, done)
                if is_by_requests:
                    each = [done[name] / weight for name, weight in weights.items()]
                    self.assertLess(max(each) / min(each), 1.35, done)
                else:
                    self.assertTrue(done["light"] < done["middling"] < done["heavy"], done)

    def test_every_queue_serves_stock_clients(self):
        self.cluster.up()
        run("ceph", "osd", "pool", "create", "p", "32", conf=self.cluster.conf)
        self.set(("osd_op_queue_store_ios", "2"))
        for scheduler in ["fifo", "cfq", "mclock_scheduler", "wpq"]:
            with self.subTest(scheduler=scheduler):
                self.set(("osd_op_queue", scheduler))
                self.wait_for_queue(scheduler, "high_client_ops")
                self.assertGreater(self.written(), 100)
        refused = self.cluster.ceph("config", "set", "osd", "osd_op_queue", "prioritized", check=False)
        self.assertEqual(refused.returncode, 22)
        self.assertIn("not one of the permitted values: wpq, mclock_scheduler, cfq, fifo", refused.stderr)


if __name__ == "__main__":
    unittest.main()
