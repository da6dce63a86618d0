"""What OSDs show of their insides: ceph tell osd.N dump_watchers, dump_scrubs, dump_osd_network, dump_mempools and the like.

The expectations hold on Ceph 16.2 as well.
"""
import json
import time
import unittest

import harness
from ceph_tool import Ceph
from harness import wait_for

POOL = "operator-inside"
ceph = ceph_json = None


def setUpModule():
    global ceph, ceph_json
    harness.make_pool(POOL)
    ceph = Ceph()
    ceph_json = ceph.json
    wait_for(lambda: {pg["state"] for pg in groups()} == {"active+clean"}, "all groups are clean", 60, 0.3)


def tearDownModule():
    ceph.close()
    harness.drop_pool(POOL)


def groups():
    return ceph_json("pg", "ls-by-pool", POOL)["pg_stats"]


def tell(osd, *words):
    return json.loads(ceph("tell", f"osd.{osd}", *words).stdout)


def documents(text):
    """The JSON documents that follow one another in a text."""
    decoder, found = json.JSONDecoder(), []
    while text.strip():
        text = text.lstrip()
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


class Inside(unittest.TestCase):
    def test_watchers(self):
        def listed():
            primary = ceph_json("osd", "map", POOL, "watched", "space")["acting_primary"]
            return [one for one in tell(primary, "dump_watchers") if one["object"] == "watched"]
        with ceph.cluster.open_ioctx(POOL) as io:
            io.set_namespace("space")
            io.write_full("watched", b"x")
            with io.watch("watched", lambda *_: None) as watch:
                one, = listed()
                self.assertEqual((one["namespace"], one["cookie"], one["timeout"]), ("space", watch.get_id(), 30))
                self.assertEqual(one["entity_name"], {"type": "client", "num": ceph.cluster.get_instance_id()})
                self.assertEqual(set(one["entity_addr_t"]), {"type", "addr", "nonce"})
                self.assertRegex(one["entity_addr_t"]["addr"], r"^127\.0\.0\.1:\d+$")
        wait_for(lambda: listed() == [], "the watch is gone", 30, 0.3)

    def test_scrubs_to_come(self):
        for osd in ceph_json("osd", "ls"):
            led = {pg["pgid"] for pg in groups() if pg["acting_primary"] == osd}
            shown = {one["pgid"]: one for one in tell(osd, "dump_scrubs")}
            self.assertLessEqual(led, set(shown))
            for one in shown.values():
                self.assertEqual(set(one), {"pgid", "sched_time", "deadline", "forced"})
                self.assertFalse(one["forced"])
                self.assertLessEqual(one["sched_time"], one["deadline"])
                self.assertRegex(one["sched_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+0000$")

    def test_slots(self):
        places = tell(0, "dump_scrub_reservations")
        self.assertEqual(set(places), {"scrubs_local", "scrubs_remote", "osd_max_scrubs"})
        self.assertEqual(str(places["osd_max_scrubs"]), tell(0, "config", "get", "osd_max_scrubs")["osd_max_scrubs"])
        slots = tell(0, "dump_recovery_reservations")
        self.assertEqual(set(slots), {"local_reservations", "remote_reservations"})
        for side in slots.values():
            self.assertEqual(set(side), {"max_allowed", "min_priority", "queues", "in_progress"})
            self.assertEqual(str(side["max_allowed"]),
                             tell(0, "config", "get", "osd_max_backfills")["osd_max_backfills"])

    def test_ping_times(self):
        def peers():
            return {entry["to osd"] for entry in tell(0, "dump_osd_network", 0)["entries"]}
        others = set(ceph_json("osd", "ls")) - {0}
        wait_for(lambda: peers() == others, "all others have answered", 60, 0.5)
        shown = tell(0, "dump_osd_network", 0)
        self.assertEqual(shown["threshold"], 0)
        for entry in shown["entries"]:
            self.assertEqual((entry["from osd"], entry["stale"]), (0, False))
            self.assertIn(entry["interface"], ("front", "back"))
            self.assertRegex(entry["last update"], r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$")
            for part in ("average", "min", "max"):
                self.assertEqual(set(entry[part]), {"1min", "5min", "15min"})
                self.assertGreaterEqual(min(entry[part].values()), 0)
            self.assertGreaterEqual(entry["last"], 0)
        # Whoever stood still of late, as one does for the warning of slow requests, is slow on average for a minute or more.
        def named(entries):
            return {(entry["to osd"], entry["interface"]) for entry in entries}

        def slow():
            entries = tell(0, "dump_osd_network", 0)["entries"]
            return named(entry for entry in entries if max(entry["average"].values()) >= 1000)
        usual = lambda: tell(0, "dump_osd_network")
        self.assertEqual(usual()["threshold"], 1000)
        wait_for(lambda: slow() == named(usual()["entries"]), "only the slow ones are shown", 10, 0.5)

        def lately():
            return [entry["last"] for entry in tell(0, "dump_osd_network", 0)["entries"]]
        wait_for(lambda: max(lately()) < 1000, "the last pings were quick", 20, 0.5)

    def test_where_groups_are(self):
        for osd in ceph_json("osd", "ls"):
            shown = {one["pg"]: one for one in tell(osd, "dump_pgstate_history")["pgs"]}
            for pg in groups():
                if osd in pg["acting"]:
                    leads = pg["acting_primary"] == osd
                    begins = "Started/Primary/Active" if leads else "Started/ReplicaActive"
                    self.assertTrue(shown[pg["pgid"]]["currently"].startswith(begins), shown[pg["pgid"]])

    def test_memory(self):
        with ceph.cluster.open_ioctx(POOL) as io:
            for n in range(20):
                io.write_full(f"o{n}", b"x")
        shown = tell(0, "dump_mempools")["mempool"]
        pools = shown["by_pool"]
        self.assertGreater(pools["osd_pglog"]["items"], 0)
        self.assertGreater(pools["osd_pglog"]["bytes"], 0)
        self.assertGreater(pools["osd_mapbl"]["bytes"], 0)
        for part in ("items", "bytes"):
            self.assertEqual(sum(pool[part] for pool in pools.values()), shown["total"][part])

    def test_who_is_shut_out(self):
        client, network = {"type": "any", "addr": "9.8.7.6:0", "nonce": 5}, {"type": "cidr", "addr": "9.9.0.0:0", "nonce": 16}
        ceph("osd", "blocklist", "add", "9.8.7.6:0/5", "1000")
        ceph("osd", "blocklist", "range", "add", "9.9.0.0/16", "1000")

        def lists():
            return documents(ceph("tell", "osd.0", "dump_blocklist").stdout)
        try:
            addresses = lambda entries: [entry["entity_addr_t"] for entry in entries]
            wait_for(lambda: client in addresses(lists()[0]) and network in addresses(lists()[1]), "the OSD knows", 30, 0.3)
            for entry in lists()[0] + lists()[1]:
                self.assertRegex(entry["expire_time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+0000$")
        finally:
            ceph("osd", "blocklist", "rm", "9.8.7.6:0/5")
            ceph("osd", "blocklist", "range", "rm", "9.9.0.0/16")
        wait_for(lambda: client not in addresses(lists()[0]) and len(lists()) == 2, "the OSD has heard", 30, 0.3)

    def test_what_is_kept_in_memory_may_go(self):
        with ceph.cluster.open_ioctx(POOL) as io:
            io.write_full("kept", b"x" * 5000)
            self.assertEqual(io.read("kept"), b"x" * 5000)
            for osd in ceph_json("osd", "ls"):
                self.assertGreaterEqual(tell(osd, "cache", "status")["object_ctx"], 0)
                # A store that is all memory has nothing to let go.
                in_memory = ceph_json("osd", "metadata", osd)["osd_objectstore"].startswith("mem")
                dropped = ceph("tell", f"osd.{osd}", "cache", "drop", check=False)
                self.assertEqual(dropped.returncode, 1 if in_memory else 0, dropped.stderr)
                for verb in ("flush_store_cache", "flush_journal"):
                    ceph("tell", f"osd.{osd}", verb)
            self.assertEqual(io.read("kept"), b"x" * 5000)

    def test_recovery_waits_as_long_as_it_is_told(self):
        delay = lambda: float(tell(0, "config", "get", "osd_recovery_delay_start")["osd_recovery_delay_start"])
        try:
            said = ceph("tell", "osd.0", "set_recovery_delay", 7).stdout
            self.assertIn("set osd_recovery_delay_start to 7", said)
            self.assertEqual(delay(), 7)
            said = ceph("tell", "osd.0", "debug", "kick_recovery_wq", 3)
            self.assertIn("set osd_recovery_delay_start to 3", said.stdout + said.stderr)
            self.assertEqual(delay(), 3)
        finally:
            self.assertIn("to 0", ceph("tell", "osd.0", "set_recovery_delay").stdout)
        self.assertEqual(delay(), 0)

    def test_a_delay_holds_recovery_back(self):
        """The option was shown and set, and nobody went by it."""
        with ceph.cluster.open_ioctx(POOL) as io:
            io.write_full("delayed", b"before")
            placed = ceph_json("osd", "map", POOL, "delayed")
            group, primary = placed["pgid"], placed["acting_primary"]
            victim = next(osd for osd in placed["acting"] if osd != primary)
            state = lambda: next(pg["state"] for pg in groups() if pg["pgid"] == group)
            for osd in ceph_json("osd", "ls"):
                ceph("tell", f"osd.{osd}", "set_recovery_delay", 3600)
            try:
                ceph("osd", "set", "noup")
                ceph("osd", "down", victim)
                wait_for(lambda: "degraded" in state(), "a member is missing", 60, 0.3)
                for n in range(20):
                    io.write_full("delayed", b"after %d" % n)
                ceph("osd", "unset", "noup")
                wait_for(lambda: len(ceph_json("osd", "map", POOL, "delayed")["acting"]) == 3, "it is back", 60, 0.3)
                time.sleep(3)
                self.assertNotEqual(state(), "active+clean")
            finally:
                ceph("osd", "unset", "noup")
                for osd in ceph_json("osd", "ls"):
                    ceph("tell", f"osd.{osd}", "debug", "kick_recovery_wq", 0)
            wait_for(lambda: {pg["state"] for pg in groups()} == {"active+clean"}, "all groups are clean", 60, 0.3)
            self.assertEqual(io.read("delayed"), b"after 19")

    def test_what_is_not_there_says_so(self):
        self.assertEqual(tell(0, "smart"), {})
        self.assertIsInstance(tell(0, "list_devices"), list)
        self.assertEqual(tell(0, "get_heap_property", "x"), {"error": "invalid property", "success": False, "value": 0})
        self.assertEqual(tell(0, "set_heap_property", "x", 1), {"error": "invalid property", "success": False})
        heap = ceph("tell", "osd.0", "heap", "stats", check=False)
        self.assertEqual(heap.returncode, 95, heap.stderr)
        self.assertEqual(ceph("tell", "osd.0", "heap", "nosuch", check=False).returncode, 22)
        self.assertEqual(ceph("tell", "osd.0", "cpu_profiler", "status").stdout.strip(), "cpu_profiler support not linked in")


if __name__ == "__main__":
    unittest.main()
