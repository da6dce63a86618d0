"""Tenants as an operator promises them and stock clients get them: limits that are one in all, reservations beside hogs,
what cannot be kept refused."""
import json
import os
import pty
import select
import signal
import subprocess
import threading
import unittest
from pathlib import Path

from harness import Loligo, OwnCluster, run, wait_for

OSDS = 3
SECONDS = 6
# Operations a second that an OSD does for clients, at most and at least: what stands for a slow device.
OF_AN_OSD = 150


class Tenants(OwnCluster):
    def setUp(self):
        super().setUp()
        self.cluster.up()
        run("ceph", "osd", "pool", "create", "p", "32", conf=self.cluster.conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "rbd", conf=self.cluster.conf)
        for name in ["victim", "hog"]:
            run("ceph", "auth", "get-or-create", f"client.{name}", "mon", "allow r", "osd", "allow rwx", "-o",
                f"{self.cluster.dir}/{name}.keyring", conf=self.cluster.conf)

    def set(self, *options):
        for name, value in options:
            run("ceph", "config", "set", "osd", name, str(value), conf=self.cluster.conf)

    def keep_promises(self):
        """The scheduler that keeps promises, on OSDs that do so much for clients and no more."""
        self.set(("osd_mclock_profile", "custom"), ("osd_mclock_scheduler_client_res", OF_AN_OSD),
                 ("osd_mclock_scheduler_client_lim", OF_AN_OSD), ("osd_op_queue", "mclock_scheduler"))

        def in_force():
            dumps = [json.loads(self.cluster.ceph("tell", f"osd.{osd}", "perf", "dump").stdout) for osd in range(OSDS)]
            return all(dump["qos"]["client_res"] == OF_AN_OSD for dump in dumps)

        wait_for(in_force, "OSDs promise their clients what the profile says")

    def qos(self, *command, check=True):
        return run(Loligo.binary(), "qos", *command, "--dir", self.cluster.dir, check=check)

    def tenants(self):
        return {t["tenant"]: t for t in json.loads(self.qos("ls", "--format", "json").stdout)}

    def bench(self, name, *flags, depth=16, size=4096):
        """Operations that a stock client of an entity finishes in so many seconds."""
        out = run("rados", "--id", name, "--keyring", f"{self.cluster.dir}/{name}.keyring", "-p", "p", *flags, "bench",
                  str(SECONDS), "write", "-b", str(size), "-t", str(depth), "--run-name", name, "--format", "json",
                  "--no-cleanup", conf=self.cluster.conf).stdout
        return int(json.loads(out[out.index("{"):])["total_writes_made"])

    def bench_beside_a_hog(self):
        done = {}
        threads = [threading.Thread(target=lambda n=n, d=d: done.update({n: self.bench(n, depth=d)}))
                   for n, d in [("hog", 64), ("victim", 32)]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done["victim"], done["hog"]

    def assertLimited(self, done, limit, slack=0):
        # A bench lasts a little longer than it was told to, for the writes that are under way at its end.
        self.assertLessEqual(done, limit * (SECONDS + 1) + slack)
        self.assertGreaterEqual(done, 0.7 * limit * SECONDS)

    def test_limits_are_one_in_all(self):
        self.keep_promises()
        self.qos("set", "client.victim", "--limit", "60")
        # What OSDs take in before they have heard of one another.
        slack = 30
        self.assertLimited(self.bench("victim"), 60, slack)
        self.qos("set", "client.victim", "--limit", "0", "--limit-bytes", "2M")
        self.assertLimited(self.bench("victim", size=32 << 10), 64, slack)
        # The namespace is more specific than the entity.
        self.qos("set", "namespace:p/blue", "--limit", "90")
        self.assertLimited(self.bench("victim", "-N", "blue", size=32 << 10), 90, slack)
        self.qos("rm", "namespace:p/blue")
        self.qos("rm", "client.victim")
        self.assertEqual(self.tenants(), {})
        self.assertGreater(self.bench("victim"), 120 * SECONDS)

    def test_an_image_is_a_tenant(self):
        self.keep_promises()
        run("rbd", "create", "--size", "64M", "p/disk", conf=self.cluster.conf)
        self.qos("set", "image:p/disk", "--limit", "100")
        out = run("rbd", "bench", "--io-type", "write", "--io-size", "4096", "--io-threads", "16", "--io-total",
                  str(500 * 4096), "--io-pattern", "rand", "p/disk", conf=self.cluster.conf).stdout
        seconds = float(out.split("elapsed:")[1].split()[0])
        self.assertGreaterEqual(seconds, 3.9, out)

    def test_images_are_named(self):
        def image_id(image):
            return json.loads(run("rbd", "info", "--format", "json", image, conf=self.cluster.conf).stdout)["id"]

        run("rbd", "namespace", "create", "p/blue", conf=self.cluster.conf)
        for image in ["p/disk", "p/blue/disk", "p/other"]:
            run("rbd", "create", "--size", "8M", image, conf=self.cluster.conf)
        disk, blue, other = [f"{place}{image_id(f'{place}{name}')}" for place, name in
                             [("p/", "disk"), ("p/blue/", "disk"), ("p/", "other")]]
        # By name, in a namespace, and by id as before.
        self.qos("set", "image:p/disk", "--weight", "5")
        self.qos("set", "image:p/blue/disk", "--weight", "6")
        self.qos("set", f"image:{other}", "--weight", "7")
        self.qos("set", "pool:p", "--weight", "8")

        def names():
            return {name: (of["weight"], of.get("image")) for name, of in self.tenants().items()}

        self.assertEqual(names(), {f"image:{disk}": (5, "disk"), f"image:{blue}": (6, "disk"),
                                   f"image:{other}": (7, "other"), "pool:p": (8, None)})
        # A promise is the image's, whatever name it has.
        run("rbd", "rename", "p/disk", "p/renamed", conf=self.cluster.conf)
        plain = self.qos("ls").stdout.splitlines()
        self.assertRegex(plain[0], r"^TENANT .* IMAGE$")
        self.assertRegex(next(line for line in plain if disk in line), r" 5 .* renamed$")
        self.assertRegex(next(line for line in plain if "pool:p" in line), r" 8 [ -]*$")
        self.assertIn("weight: 5\n", self.qos("show", "image:p/renamed").stdout)
        for gone, said in [("image:p/disk", "image:p/disk: there is no image of that name or id"),
                           ("image:nosuch/disk", "'nosuch' is no pool"), ("image:p", "is no tenant: client.NAME")]:
            refused = self.qos("set", gone, "--weight", "5", check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(said, refused.stderr)
        self.qos("rm", "image:p/renamed")
        # What is left of an image that is gone can still be taken back.
        run("rbd", "rm", "--no-progress", "p/other", conf=self.cluster.conf)
        self.assertEqual(names(), {f"image:{blue}": (6, "disk"), f"image:{other}": (7, None), "pool:p": (8, None)})
        self.qos("rm", f"image:{other}")
        self.assertEqual(names(), {f"image:{blue}": (6, "disk"), "pool:p": (8, None)})

    def test_an_image_is_promised_service_of_the_pool_that_its_data_lies_in(self):
        self.keep_promises()
        # All OSDs hold all of p, and each about a third of the other, where more fits.
        self.cluster.ceph("config", "set", "mon", "mon_allow_pool_size_one", "true")
        self.cluster.ceph("osd", "pool", "create", "single", "32")
        self.cluster.ceph("osd", "pool", "set", "single", "size", "1", "--yes-i-really-mean-it")
        self.cluster.ceph("osd", "pool", "application", "enable", "single", "rbd")
        run("rbd", "create", "--size", "64M", "p/near", conf=self.cluster.conf)
        run("rbd", "create", "--size", "64M", "--data-pool", "single", "p/far", conf=self.cluster.conf)

        def is_single():
            groups = json.loads(self.cluster.ceph("pg", "ls-by-pool", "single", "--format", "json").stdout)["pg_stats"]
            return len(groups) == 32 and all(len(group["acting"]) == 1 for group in groups)

        wait_for(is_single, "the pool has one copy of each group")
        refused = self.qos("set", "image:p/near", "--reservation", "200", check=False)
        self.assertIn("150 would fit", refused.stderr)
        self.qos("set", "image:p/far", "--reservation", "200")
        (far,) = self.tenants().values()
        self.assertEqual((far["image"], far["data_pool"], far["reservation"]), ("far", "single", 200))
        self.assertIn("data_pool: single\n", self.qos("show", "image:p/far").stdout)
        for tenant, pool, errno, words in [("pool:p", "single", 22, "only an image"), (far["tenant"], "nosuch", 2, "is no pool"),
                                           (far["tenant"], "p", 34, "cannot be promised 200 operations")]:
            refused = self.cluster.ceph("qos", "set", tenant, "--data-pool", pool, "--weight", "2", check=False)
            self.assertEqual(refused.returncode, errno, refused.stderr)
            self.assertIn(words, refused.stderr)
        # Its requests are known for its own there.
        self.qos("set", "image:p/far", "--reservation", "0", "--limit", "100")
        out = run("rbd", "bench", "--io-type", "write", "--io-size", "4096", "--io-threads", "16", "--io-total",
                  str(500 * 4096), "--io-pattern", "rand", "p/far", conf=self.cluster.conf).stdout
        seconds = float(out.split("elapsed:")[1].split()[0])
        self.assertGreaterEqual(seconds, 3.9, out)
        # An image is no more without its own pool either.
        self.cluster.ceph("config", "set", "mon", "mon_allow_pool_delete", "true")
        self.cluster.ceph("osd", "pool", "rm", "p", "p", "--yes-i-really-really-mean-it")
        self.assertIn("is promised service of a pool that is no more", self.cluster.ceph("health", "detail").stdout)

    def test_a_reservation_is_kept_beside_a_hog(self):
        self.keep_promises()
        self.qos("set", "client.hog", "--weight", "10")
        self.qos("set", "client.victim", "--weight", "1")
        before, _ = self.bench_beside_a_hog()
        self.assertLess(before, 100 * SECONDS, "a hog with ten times the weight leaves little")
        self.qos("set", "client.victim", "--reservation", "140")
        shown = self.tenants()["client.victim"]
        self.assertEqual((shown["reservation"], shown["weight"], shown["limit"]), (140, 1, 0))
        victim, hog = self.bench_beside_a_hog()
        self.assertGreaterEqual(victim, 0.95 * 140 * SECONDS, f"the hog had {hog}, and the victim {before} before")
        dump = json.loads(self.cluster.ceph("tell", "osd.0", "dump_tenants").stdout)
        counted = {t["tenant"]: t["ops"] for t in dump["tenants"]}
        self.assertGreater(counted["client.hog"], counted["client.victim"])

    def test_top_shows_what_each_gets(self):
        self.keep_promises()
        self.qos("set", "client.victim", "--limit", "60")
        load = threading.Thread(target=self.bench, args=("victim",))
        load.start()

        def top(*flags):
            return run(Loligo.binary(), "top", "--dir", self.cluster.dir, "--interval", "2", "--once", *flags).stdout

        def shown():
            rows = {row["tenant"]: row for row in json.loads(top("--format", "json"))["tenants"]}
            return rows if rows["client.victim"]["ops_per_s"] > 40 else None

        victim = wait_for(shown, "the tenant has its limit")["client.victim"]
        self.assertLess(victim["ops_per_s"], 75)
        self.assertEqual(victim["limit"], 60)
        self.assertGreater(victim["latency_ms"], 1)
        plain = top()
        load.join()
        self.assertEqual(json.loads(top("--format", "json"))["osds_not_counted"], [])
        self.assertRegex(plain, r"TENANT +OPS/S +SHARE +MB/S +LATENCY +RESERVATION +LIMIT")
        self.assertRegex(plain, r"\nclient.victim +[\d.]+ +[\d.]+% +[\d.]+ +[\d.]+ ms +- +60 +- +1\n")

    def test_top_asks_all_osds_wherever_they_run(self):
        self.qos("set", "pool:p", "--weight", "5")
        # As if they ran on other machines: nothing of them can be reached by a path of this one.
        for socket in Path(self.cluster.dir, "run").glob("*.asok"):
            socket.unlink()
        stop = threading.Event()

        def write():
            while not stop.is_set():
                run("rados", "-p", "p", "bench", "1", "write", "-b", "4096", conf=self.cluster.conf)

        load = threading.Thread(target=write)
        load.start()
        try:
            served = [json.loads(self.cluster.ceph("tell", f"osd.{osd}", "dump_tenants").stdout)["tenants"][0]["ops"]
                      for osd in range(OSDS)]

            def rate():
                out = run(Loligo.binary(), "top", "--once", "--format", "json", conf=self.cluster.conf).stdout
                seen = json.loads(out)
                self.assertEqual(seen["osds_not_counted"], [])
                return {row["tenant"]: row["ops_per_s"] for row in seen["tenants"]}["pool:p"] > 10

            wait_for(rate, "the pool's writes are seen")
            now = [json.loads(self.cluster.ceph("tell", f"osd.{osd}", "dump_tenants").stdout)["tenants"][0]["ops"]
                   for osd in range(OSDS)]
            self.assertTrue(all(after > before for before, after in zip(served, now)), f"{served} {now}")
            self.assertGreaterEqual(self.views_on_a_terminal(), 3)
        finally:
            stop.set()
            load.join()

    def views_on_a_terminal(self):
        """How often `top` draws its view in place in some seconds, until Ctrl-C."""
        ours, its = pty.openpty()
        line = [Loligo.binary(), "top", "--dir", self.cluster.dir, "--interval", "0.3"]
        with subprocess.Popen([str(word) for word in line], stdin=its, stdout=its, stderr=its) as top:
            os.close(its)
            seen = b""
            try:
                def enough():
                    nonlocal seen
                    if select.select([ours], [], [], 0)[0]:
                        seen += os.read(ours, 65536)
                    return seen.count(b"\x1b[H\x1b[JTENANT") >= 3

                wait_for(enough, "three views", seconds=30)
            finally:
                top.send_signal(signal.SIGINT)
                os.close(ours)
        return seen.count(b"pool:p ")

    def test_what_cannot_be_kept_is_refused(self):
        refused = self.qos("set", "client.victim", "--reservation", "10", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("osd_op_queue is not mclock_scheduler", refused.stderr)
        self.keep_promises()
        self.qos("set", "pool:p", "--reservation", "100")
        refused = self.cluster.ceph("qos", "set", "client.victim", "--reservation", "51", check=False)
        self.assertEqual(refused.returncode, 34)
        self.assertIn("client.victim cannot be promised 51 operations a second", refused.stderr)
        self.assertIn("50 would fit", refused.stderr)
        self.assertEqual(list(self.tenants()), ["pool:p"])
        self.cluster.ceph("qos", "set", "client.victim", "--reservation", "50")
        for text, errno, words in [
            (("set", "pool:nosuch", "--limit", "5"), 2, "'nosuch' is no pool"),
            (("set", "client.nosuch", "--limit", "5"), 2, "client.nosuch does not exist"),
            (("set", "osd.1", "--limit", "5"), 22, "is no tenant: client.NAME"),
            (("set", "client.hog"), 22, "nothing is promised"),
            (("set", "client.hog", "--weight", "0"), 22, "weight is beyond the range from 1 to 1000"),
            (("set", "client.victim", "--limit", "49"), 22, "limit is less than what is reserved"),
            (("rm", "client.hog"), 2, "client.hog is promised nothing"),
        ]:
            with self.subTest(text=text):
                refused = self.cluster.ceph("qos", *text, check=False)
                self.assertEqual(refused.returncode, errno, refused.stderr)
                self.assertIn(words, refused.stderr)
        kept = self.tenants()
        self.assertEqual({who: t["reservation"] for who, t in kept.items()}, {"client.victim": 50, "pool:p": 100})
        # What is promised is the cluster's, and stays.
        bad = self.cluster.ceph("config", "set", "osd", "osd_qos_tenants", "client.a speed=5", check=False)
        self.assertEqual(bad.returncode, 22)
        self.cluster.down()
        self.cluster.up(new=False)
        self.assertEqual(self.tenants(), kept)
        through_conf = run(Loligo.binary(), "qos", "show", "pool:p", conf=self.cluster.conf)
        self.assertIn("reservation: 100\n", through_conf.stdout, through_conf.stderr)

    def test_promises_that_cannot_be_kept_any_more_are_shown(self):
        def broken():
            checks = json.loads(self.cluster.ceph("health", "detail", "--format", "json").stdout)["checks"]
            return [line["message"] for line in checks.get("TENANT_PROMISES", {}).get("detail", [])]

        self.qos("set", "pool:p", "--limit", "5000")
        names = ", ".join(f"osd.{osd}" for osd in range(OSDS))
        wait_for(lambda: broken() == [f"limits are not kept by {names}: osd_op_queue is not mclock_scheduler"],
                 "OSDs say that they keep no promises")
        self.keep_promises()
        wait_for(lambda: not broken(), "OSDs say that they keep promises")
        self.cluster.ceph("config", "set", "osd.1", "osd_op_queue", "wpq")
        wait_for(lambda: broken() == ["limits are not kept by osd.1: osd_op_queue is not mclock_scheduler"],
                 "one of them does not")
        self.cluster.ceph("config", "rm", "osd.1", "osd_op_queue")
        wait_for(lambda: self.cluster.ceph("config", "show", "osd.1", "osd_op_queue").stdout.strip() == "mclock_scheduler",
                 "it does again")
        self.qos("set", "pool:p", "--reservation", "100")
        self.assertEqual(broken(), [])
        self.set(("osd_mclock_scheduler_client_res", 50))
        wait_for(lambda: len(broken()) == OSDS, "all OSDs promise less than they would have to keep")
        self.assertEqual(broken()[0], "osd.0 would have to keep 100 operations a second for tenants, copies included, "
                                      "and promises its clients 50")
        self.set(("osd_mclock_scheduler_client_res", OF_AN_OSD))
        wait_for(lambda: not broken(), "it fits again")
        number = json.loads(self.cluster.ceph("osd", "pool", "ls", "detail", "--format", "json").stdout)[0]["pool_id"]
        self.cluster.ceph("config", "set", "mon", "mon_allow_pool_delete", "true")
        self.cluster.ceph("osd", "pool", "rm", "p", "p", "--yes-i-really-really-mean-it")
        self.assertEqual(broken(), [f"pool:{number} is promised service of a pool that is no more; "
                                    f"`ceph qos rm pool:{number}` takes that back"])
        self.qos("rm", f"pool:{number}")
        self.assertEqual((self.tenants(), broken()), ({}, []))


if __name__ == "__main__":
    unittest.main()
