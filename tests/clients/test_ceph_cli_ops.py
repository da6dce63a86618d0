"""What an operator types at a running cluster: flags, weights, placement, crush, blocklists of keys, logs, muted health.

The expectations hold on Ceph 16.2 as well.
"""
import json
import os
import re
import subprocess
import time
import unittest

import harness
from ceph_tool import Ceph
from harness import run, wait_for

POOL = "cli-ops"
ceph = ceph_json = None


def setUpModule():
    global ceph, ceph_json
    harness.make_pool(POOL)
    ceph = Ceph()
    ceph_json = ceph.json


def tearDownModule():
    ceph.close()
    harness.drop_pool(POOL)


class Operator(unittest.TestCase):

    def refused(self, done, errno, text):
        self.assertEqual(done.returncode, errno, done.stderr)
        self.assertIn(text, done.stderr)

    def clean(self):
        wait_for(lambda: {pg["state"] for pg in ceph_json("pg", "ls-by-pool", POOL)["pg_stats"]} == {"active+clean"},
                 "all PGs are active+clean", seconds=60, period=0.3)


class Osds(Operator):
    def flags(self):
        return set(ceph_json("osd", "dump")["flags_set"])

    def test_flags(self):
        for flag in ("noout", "nodown", "noup", "noin", "nobackfill", "norebalance", "norecover", "noscrub",
                     "nodeep-scrub", "notieragent", "nosnaptrim"):
            with self.subTest(flag=flag):
                self.assertIn(f"{flag} is set", ceph("osd", "set", flag).stderr)
                self.assertIn(flag, self.flags())
                self.assertIn(f"{flag} is unset", ceph("osd", "unset", flag).stderr)
                self.assertNotIn(flag, self.flags())
        self.refused(ceph("osd", "set", "noflag", check=False), 22, "EINVAL")

    def test_flags_are_a_health_warning(self):
        ceph("osd", "set", "noout")
        try:
            self.assertIn("noout flag(s) set", ceph("health").stdout)
            self.assertIn("OSDMAP_FLAGS", ceph_json("health")["checks"])
        finally:
            ceph("osd", "unset", "noout")

    def test_flags_of_groups(self):
        ceph("osd", "set-group", "noout", "osd.0")
        try:
            state = next(o for o in ceph_json("osd", "dump")["osds"] if o["osd"] == 0)["state"]
            self.assertIn("noout", state)
        finally:
            ceph("osd", "unset-group", "noout", "osd.0")

    def test_out_and_in(self):
        self.assertIn("marked out osd.2", ceph("osd", "out", "2").stderr)
        try:
            self.assertIn("osd.2 is already out", ceph("osd", "out", "osd.2").stderr)
            self.assertEqual(ceph_json("osd", "stat")["num_in_osds"], 2)
        finally:
            self.assertIn("marked in osd.2", ceph("osd", "in", "2").stderr)
        self.assertIn("osd.2 is already in", ceph("osd", "in", "2").stderr)
        self.assertIn("osd.77 does not exist", ceph("osd", "out", "77", check=False).stderr)
        self.clean()

    def test_down_comes_up_again(self):
        up_from = lambda: ceph_json("osd", "dump")["osds"][1]["up_from"]
        before = up_from()
        self.assertIn("marked down osd.1", ceph("osd", "down", "1").stderr)
        wait_for(lambda: ceph_json("osd", "stat")["num_up_osds"] == 3 and up_from() > before, "osd.1 is up again")
        self.clean()

    def test_reweight_and_affinity(self):
        try:
            self.assertIn("reweighted osd.0 to 0.5 (8000)", ceph("osd", "reweight", "0", "0.5").stderr)
            self.assertIn("set osd.0 primary-affinity to 0.25", ceph("osd", "primary-affinity", "0", "0.25").stderr)
            osd = ceph_json("osd", "dump")["osds"][0]
            self.assertAlmostEqual(osd["weight"], 0.5, 2)
            self.assertAlmostEqual(osd["primary_affinity"], 0.25, 2)
        finally:
            ceph("osd", "reweight", "0", "1")
            ceph("osd", "primary-affinity", "0", "1")
        self.refused(ceph("osd", "reweight", "0", "1.5", check=False), 22, "EINVAL")
        self.clean()

    def test_metadata_and_where(self):
        metadata = ceph_json("osd", "metadata", "0")
        self.assertEqual(metadata["id"], 0)
        self.assertLessEqual({"hostname", "ceph_version", "front_addr", "back_addr", "osd_objectstore"}, set(metadata))
        self.assertEqual({m["id"] for m in ceph_json("osd", "metadata")}, {0, 1, 2})
        self.assertEqual(ceph_json("osd", "find", "0")["osd"], 0)
        self.assertEqual(ceph_json("osd", "getmaxosd")["max_osd"], 3)
        self.assertEqual(ceph_json("osd", "ls"), [0, 1, 2])
        nodes = ceph_json("node", "ls")
        self.assertEqual(sorted(osd for ids in nodes["osd"].values() for osd in ids), [0, 1, 2])

    def test_what_osds_hold_and_do(self):
        text = ceph("osd", "status").stdout
        headings = ["ID", "HOST", "USED", "AVAIL", "WR", "OPS", "WR", "DATA", "RD", "OPS", "RD", "DATA", "STATE"]
        self.assertEqual(text.split("\n")[0].split(), headings)
        if "loligo" not in ceph("version").stdout:
            return  # 16.2 heeds no format here, and finds nothing wrong with a bucket that is not there
        lines = ceph_json("osd", "status")["OSDs"]
        self.assertEqual([line["id"] for line in lines], ceph_json("osd", "ls"))
        self.assertEqual(lines[0]["state"], ["exists", "up"])
        self.assertGreater(lines[0]["kb available"], 0)
        self.assertNotEqual(ceph("osd", "status", "nowhere", check=False).returncode, 0)

    def test_latencies(self):
        self.assertIn("commit_latency(ms)", ceph("osd", "perf").stdout)
        told = ceph_json("osd", "perf")
        infos = told.get("osdstats", told)["osd_perf_infos"]
        self.assertEqual(sorted(info["id"] for info in infos), [0, 1, 2])

    def test_features_and_versions(self):
        features = ceph_json("features")
        self.assertLessEqual({"mon", "osd", "client"}, set(features))
        self.assertEqual(sum(group["num"] for group in features["osd"]), 3)

    def test_placement_of_an_object(self):
        place = ceph_json("osd", "map", POOL, "some-object")
        self.assertEqual(len(place["up"]), 3)
        self.assertEqual(place["up"], ceph_json("pg", "map", place["pgid"])["up"])
        self.assertRegex(ceph("osd", "map", POOL, "some-object").stdout, r"-> pg \S+ \(\S+\) -> up \(\[")


    def test_maps_of_the_past(self):
        # Whoever asked for an epoch whose map is kept whole, such as the first, brought the monitor down.
        newest = ceph_json("osd", "stat")["epoch"]
        for epoch in range(1, newest + 1):
            self.assertEqual(ceph_json("osd", "dump", epoch)["epoch"], epoch)
        self.assertIn("root default", ceph("osd", "tree", 1).stdout)
        self.refused(ceph("osd", "dump", newest + 1000, check=False), 2, "ENOENT")

    def test_use_and_targets_of_pools(self):
        ceph("osd", "pool", "set", POOL, "target_size_ratio", "0.5")
        try:
            line = next(line for line in ceph_json("osd", "pool", "autoscale-status") if line["pool_name"] == POOL)
            self.assertEqual((line["raw_used_rate"], line["target_ratio"], line["bias"]), (3.0, 0.5, 1.0))
            self.assertEqual(line["effective_target_ratio"], 1.0)
            self.assertGreater(line["subtree_capacity"], 0)
            heading, *rows = ceph("osd", "pool", "autoscale-status").stdout.splitlines()
            self.assertEqual(heading.split(), ["POOL", "SIZE", "TARGET", "SIZE", "RATE", "RAW", "CAPACITY", "RATIO", "TARGET",
                                               "RATIO", "EFFECTIVE", "RATIO", "BIAS", "PG_NUM", "NEW", "PG_NUM",
                                               "AUTOSCALE", "BULK"])
            self.assertTrue(any(row.startswith(f"{POOL} ") for row in rows), rows)
        finally:
            ceph("osd", "pool", "set", POOL, "target_size_ratio", "0")


class Groups(Operator):
    def test_an_operator_chooses_who_leads(self):
        # It peered without end: the group wished for the leader whom CRUSH puts first, the map stayed with the other.
        self.clean()
        pg = ceph_json("pg", "ls-by-pool", POOL)["pg_stats"][0]
        chosen = pg["acting"][1]
        ceph("osd", "primary-temp", pg["pgid"], f"osd.{chosen}")
        wait_for(lambda: ceph_json("pg", pg["pgid"], "query")["info"]["stats"]["acting_primary"] == chosen,
                 "it leads", seconds=30, period=0.3)
        self.clean()
        ceph("osd", "down", chosen)
        self.clean()
        wait_for(lambda: ceph_json("osd", "dump")["primary_temp"] == [], "the choice ends with its OSD", seconds=30)

    def test_lists(self):
        everything = {pg["pgid"] for pg in ceph_json("pg", "ls")["pg_stats"]}
        mine = ceph_json("pg", "ls-by-pool", POOL)["pg_stats"]
        self.assertEqual(len(mine), ceph_json("osd", "dump")["pools"][-1]["pg_num"])
        self.assertLessEqual({pg["pgid"] for pg in mine}, everything)
        for osd in range(3):
            on_it = {pg["pgid"] for pg in ceph_json("pg", "ls-by-osd", f"osd.{osd}")["pg_stats"]}
            led = {pg["pgid"] for pg in ceph_json("pg", "ls-by-primary", f"osd.{osd}")["pg_stats"]}
            self.assertEqual(led & {pg["pgid"] for pg in mine},
                             {pg["pgid"] for pg in mine if pg["acting_primary"] == osd})
            self.assertLessEqual(led, on_it)
        self.refused(ceph("pg", "ls-by-osd", "osd.99", check=False), 11, "osd 99 is not up")
        self.clean()
        self.assertEqual(ceph_json("pg", "ls", "degraded").get("pg_stats", []), [])

    def test_query(self):
        pg = ceph_json("pg", "ls-by-pool", POOL)["pg_stats"][0]
        told = json.loads(ceph("pg", pg["pgid"], "query").stdout)
        self.assertEqual(told["acting"], pg["acting"])
        self.assertEqual(told["info"]["pgid"], pg["pgid"])
        self.assertLessEqual({"state", "epoch", "up", "acting", "info", "peer_info", "recovery_state"}, set(told))
        self.assertNotEqual(ceph("pg", "99999.0", "query", check=False).returncode, 0)

    def test_stuck_ones(self):
        self.clean()
        for what in ("inactive", "unclean", "stale", "undersized", "degraded"):
            ceph("pg", "dump_stuck", what)


class Crush(Operator):
    def test_buckets(self):
        try:
            ceph("osd", "crush", "add-bucket", "rack-x", "rack")
            self.assertIn("already exists", ceph("osd", "crush", "add-bucket", "rack-x", "rack").stderr)
            ceph("osd", "crush", "move", "rack-x", "root=default")
            root = next(n for n in ceph_json("osd", "tree")["nodes"] if n["name"] == "default")
            rack = next(n for n in ceph_json("osd", "tree")["nodes"] if n["name"] == "rack-x")
            self.assertIn(rack["id"], root["children"])
            ceph("osd", "crush", "rename-bucket", "rack-x", "rack-y")
            self.assertIn("rack-y", ceph_json("osd", "crush", "ls", "default"))
        finally:
            ceph("osd", "crush", "rm", "rack-x", check=False)
            ceph("osd", "crush", "rm", "rack-y", check=False)
        self.assertNotIn("rack-y", ceph("osd", "tree").stdout)

    def test_rules(self):
        ceph("osd", "crush", "rule", "create-replicated", "by-osd", "default", "osd")
        try:
            self.assertIn("by-osd", ceph_json("osd", "crush", "rule", "ls"))
            rule = ceph_json("osd", "crush", "rule", "dump", "by-osd")
            self.assertEqual([step["op"] for step in rule["steps"]], ["take", "choose_firstn", "emit"])
            ceph("osd", "pool", "set", POOL, "crush_rule", "by-osd")
            self.assertEqual(ceph_json("osd", "pool", "get", POOL, "crush_rule")["crush_rule"], "by-osd")
            self.refused(ceph("osd", "crush", "rule", "rm", "by-osd", check=False), 16, "EBUSY")
        finally:
            ceph("osd", "pool", "set", POOL, "crush_rule", "replicated_rule")
            ceph("osd", "crush", "rule", "rm", "by-osd")
        self.refused(ceph("osd", "pool", "set", POOL, "crush_rule", "no-rule", check=False), 2, "ENOENT")

    def test_weights(self):
        weight = lambda: next(n for n in ceph_json("osd", "tree")["nodes"] if n["name"] == "osd.1")["crush_weight"]
        before = weight()
        try:
            self.assertIn("reweighted item id 1 name 'osd.1' to 2", ceph("osd", "crush", "reweight", "osd.1", "2.0").stderr)
            self.assertEqual(weight(), 2)
        finally:
            ceph("osd", "crush", "reweight", "osd.1", str(before))
        self.clean()

    def test_device_classes(self):
        classes = lambda: {n["name"]: n.get("device_class", "") for n in ceph_json("osd", "tree")["nodes"] if n["type"] == "osd"}
        before = classes()["osd.0"]
        try:
            if before:
                ceph("osd", "crush", "rm-device-class", "osd.0")
            ceph("osd", "crush", "set-device-class", "nvme", "osd.0")
            self.assertEqual(classes()["osd.0"], "nvme")
            self.assertIn("nvme", ceph_json("osd", "crush", "class", "ls"))
            self.assertEqual(ceph_json("osd", "crush", "class", "ls-osd", "nvme"), [0])
        finally:
            ceph("osd", "crush", "rm-device-class", "osd.0")
            if before:
                ceph("osd", "crush", "set-device-class", before, "osd.0")
        self.clean()


class Cluster(Operator):
    def test_config_keys(self):
        ceph("config-key", "set", "test/one", "value")
        try:
            self.assertEqual(ceph("config-key", "get", "test/one").stdout, "value")
            self.assertIn("test/one", ceph_json("config-key", "ls"))
            self.assertEqual(ceph("config-key", "exists", "test/one").returncode, 0)
            self.assertEqual(ceph_json("config-key", "dump", "test/"), {"test/one": "value"})
        finally:
            ceph("config-key", "rm", "test/one")
        self.refused(ceph("config-key", "get", "test/one", check=False), 2, "ENOENT")
        self.refused(ceph("config-key", "exists", "test/one", check=False), 2, "ENOENT")

    def test_options_are_described(self):
        told = ceph_json("config", "help", "osd_max_backfills")
        self.assertEqual((told["name"], told["type"]), ("osd_max_backfills", "uint"))
        self.assertLessEqual({"level", "desc", "default", "flags"}, set(told))
        self.assertIn("osd_max_backfills - ", ceph("config", "help", "osd_max_backfills").stdout)
        self.refused(ceph("config", "help", "no_such_option", check=False), 2, "ENOENT")
        self.assertIn("osd_max_backfills", ceph_json("config", "ls"))

    def test_muted_health(self):
        ceph("osd", "set", "noout")
        try:
            self.assertIn("HEALTH_WARN", ceph("health").stdout)
            ceph("health", "mute", "OSDMAP_FLAGS", "10m")
            self.assertTrue(ceph("health").stdout.startswith("HEALTH_OK (muted: OSDMAP_FLAGS"))
            self.assertEqual([mute["code"] for mute in ceph_json("health")["mutes"]], ["OSDMAP_FLAGS"])
            self.assertTrue(ceph_json("health")["checks"]["OSDMAP_FLAGS"]["muted"])
            ceph("health", "unmute", "OSDMAP_FLAGS")
            self.assertIn("HEALTH_WARN", ceph("health").stdout)
        finally:
            ceph("osd", "unset", "noout")
        self.refused(ceph("health", "mute", "NO_SUCH_CHECK", check=False), 2, "ENOENT")

    def test_the_log_keeps_what_was_said(self):
        ceph("log", "a line", "of the test")
        wait_for(lambda: "a line of the test" in ceph("log", "last", "50").stdout, "the log shows it", period=0.3)
        entries = ceph_json("log", "last", "5")
        self.assertLessEqual(len(entries), 5)
        self.assertLessEqual({"name", "stamp", "priority", "message", "channel"}, set(entries[-1]))

    def test_watching_the_log(self):
        with subprocess.Popen(["ceph", "-w"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=dict(os.environ, CEPH_ARGS="")) as watch:
            try:
                # It starts with a status; whoever reads it is subscribed by then.
                for line in watch.stdout:
                    if "pgs:" in line or "usage:" in line:
                        break
                mark = f"mark-{time.time()}"
                time.sleep(0.5)
                ceph("log", mark)
                self.assertTrue(any(mark in line for line in iter(watch.stdout.readline, "")))
            finally:
                watch.kill()

    def test_the_manager(self):
        manager = ceph_json("mgr", "dump")
        self.assertTrue(manager["available"])
        self.assertIn("active_name", manager)
        self.assertIn("enabled_modules", ceph_json("mgr", "module", "ls"))
        ceph("mgr", "stat")

    def test_small_questions(self):
        for question in ("mon metadata", "mon versions", "osd versions", "osd blocklist ls", "osd utilization",
                         "osd lspools", "osd pool stats", "osd pool autoscale-status", "osd numa-status",
                         "device ls", "auth ls", "time-sync-status", "osd dump", "osd df tree", "osd tree up",
                         "osd ok-to-stop 0", "osd safe-to-destroy 0", "balancer status"):
            with self.subTest(question=question):
                done = ceph(*question.split(), check=False)
                # Some answer no, yet none is unknown.
                self.assertNotIn("no valid command found", done.stderr)
        self.assertEqual(len(ceph_json("osd", "pool", "stats", POOL)), 1)


class Sockets(Operator):
    """`ceph daemon NAME ...`, which speaks to a daemon's socket in the cluster's directory."""

    def daemon(self, name, *command):
        return json.loads(ceph("daemon", name, *command).stdout)

    def test_counters_have_a_schema(self):
        for name in ("osd.0", "mon.a"):
            with self.subTest(name=name):
                counters, schema = self.daemon(name, "perf", "dump"), self.daemon(name, "perf", "schema")
                self.assertEqual(set(counters), set(schema))
                for section, values in counters.items():
                    self.assertEqual(set(values), set(schema[section]))

    def test_counters_count(self):
        total = lambda: sum(self.daemon(f"osd.{i}", "perf", "dump")["osd"]["op_w"] for i in range(3))
        before = total()
        run("rados", "-p", POOL, "put", "counted", "/etc/hostname")
        self.assertGreater(total(), before)

    def test_configuration(self):
        self.assertIn("osd_max_backfills", self.daemon("osd.0", "config", "show"))
        old = self.daemon("osd.0", "config", "get", "osd_max_backfills")["osd_max_backfills"]
        self.assertIn("success", self.daemon("osd.0", "config", "set", "osd_max_backfills", "7"))
        self.assertEqual(self.daemon("osd.0", "config", "get", "osd_max_backfills")["osd_max_backfills"], "7")
        self.daemon("osd.0", "config", "set", "osd_max_backfills", old)

    def test_operations_in_hindsight(self):
        for osd in map(str, range(3)):
            # A history keeps the slowest, and a busy cluster had slower ones.
            old = self.daemon(f"osd.{osd}", "config", "get", "osd_op_history_size")["osd_op_history_size"]
            self.daemon(f"osd.{osd}", "config", "set", "osd_op_history_size", "10000")
            self.addCleanup(self.daemon, f"osd.{osd}", "config", "set", "osd_op_history_size", old)
        run("rados", "-p", POOL, "put", "history", "/etc/hostname")
        self.assertEqual(self.daemon("osd.0", "dump_ops_in_flight")["num_ops"], 0)
        def of_mine():
            ops = [op for i in range(3) for op in self.daemon(f"osd.{i}", "dump_historic_ops")["ops"]]
            return [op for op in ops if "history" in op["description"]]
        # Ceph enters them a moment after the answer.
        mine = wait_for(of_mine, "the operation is in a history")
        events = [event["event"] for event in mine[0]["type_data"]["events"]]
        self.assertIn("initiated", events)
        self.assertIn("commit_sent", [e for op in mine for e in (x["event"] for x in op["type_data"]["events"])])

    def test_who_is_there(self):
        self.assertIn("version", self.daemon("osd.0", "version"))
        self.assertEqual(self.daemon("osd.0", "status")["state"], "active")
        self.assertEqual(self.daemon("mon.a", "mon_status")["name"], "a")
        self.assertIn("perf dump", self.daemon("osd.0", "help"))
        self.refused(ceph("daemon", "osd.0", "make", "coffee", check=False), 22, "")


del Operator

if __name__ == "__main__":
    unittest.main()
