"""What an operator sees: admin sockets, counters, histories of operations, the cluster log, metrics.

Runs against Loligo and, but where a test says otherwise, against real Ceph with the same expectations.
"""
import json
import os
import unittest
import urllib.request

import rados

from harness import ceph_json, drop_pool, make_pool, run, wait_for

POOL = "operability"


def daemon(name, *command, check=True):
    done = run("ceph", "daemon", name, *command, check=check)
    return done.stdout if done.returncode else json.loads(done.stdout)


def tell(name, *command):
    return json.loads(run("ceph", "tell", name, *command).stdout)


def osds():
    return [f"osd.{n}" for n in ceph_json("osd", "ls")]


class OperabilityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        make_pool(POOL)
        cls.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
        cls.cluster.connect()
        cls.io = cls.cluster.open_ioctx(POOL)

    @classmethod
    def tearDownClass(cls):
        cls.io.close()
        cls.cluster.shutdown()
        drop_pool(POOL)

    def work(self):
        for n in range(20):
            self.io.write_full(f"o{n}", b"x" * 4096)
            self.assertEqual(self.io.read(f"o{n}"), b"x" * 4096)

    def test_counters_count_what_clients_do(self):
        for name in osds():
            daemon(name, "perf", "reset", "all")
        self.work()
        dumps = [daemon(name, "perf", "dump")["osd"] for name in osds()]
        total = lambda counter: sum(dump[counter] for dump in dumps)
        self.assertEqual(total("op_w"), 20)
        self.assertEqual(total("op_r"), 20)
        self.assertGreaterEqual(total("op"), 40)
        self.assertEqual(total("op_in_bytes"), 20 * 4096)
        self.assertEqual(total("op_out_bytes"), 20 * 4096)
        self.assertEqual(total("subop_w"), 40)
        self.assertEqual(sum(dump["op_w_latency"]["avgcount"] for dump in dumps), 20)
        self.assertGreater(sum(dump["op_w_latency"]["sum"] for dump in dumps), 0)
        self.assertTrue(all(dump["numpg"] > 0 for dump in dumps))

    def test_schema_describes_every_counter(self):
        for name in [osds()[0], "mon.a"]:
            dump, schema = daemon(name, "perf", "dump"), daemon(name, "perf", "schema")
            for section, counters in dump.items():
                self.assertEqual(set(counters), set(schema[section]), section)
                for described in schema[section].values():
                    self.assertLessEqual({"type", "metric_type", "value_type", "description", "nick", "priority"},
                                         set(described))

    def test_both_doors_answer_alike(self):
        for name in [osds()[0], "mon.a"]:
            self.assertEqual(daemon(name, "version")["version"], tell(name, "version")["version"])
            self.assertIn("perf dump", daemon(name, "help"))
            one = ("config", "get", "osd_max_backfills")
            self.assertEqual(daemon(name, *one), tell(name, *one))

    def test_status(self):
        status = daemon("osd.0", "status")
        self.assertEqual((status["whoami"], status["state"]), (0, "active"))
        self.assertEqual(status["cluster_fsid"], run("ceph", "fsid").stdout.strip())
        self.assertGreater(status["num_pgs"], 0)
        self.assertEqual(daemon("mon.a", "mon_status")["name"], "a")
        names = {session["entity_name"] for session in daemon("mon.a", "sessions")}
        self.assertLessEqual({"osd.0", "client.admin"}, names)

    def test_options_are_set_for_a_while(self):
        before = daemon("osd.0", "config", "get", "osd_max_backfills")["osd_max_backfills"]
        said = daemon("osd.0", "config", "set", "osd_max_backfills", "7")
        self.assertEqual(said, {"success": "osd_max_backfills = '7' "})
        self.assertEqual(daemon("osd.0", "config", "show")["osd_max_backfills"], "7")
        diff = daemon("osd.0", "config", "diff")["diff"]["osd_max_backfills"]
        self.assertEqual((diff["override"], diff["final"]), (7, 7))
        daemon("osd.0", "config", "unset", "osd_max_backfills")
        self.assertEqual(daemon("osd.0", "config", "get", "osd_max_backfills")["osd_max_backfills"], before)

    def test_the_central_configuration_reaches_daemons(self):
        run("ceph", "config", "set", "osd.0", "osd_recovery_op_priority", "5")
        self.addCleanup(run, "ceph", "config", "rm", "osd.0", "osd_recovery_op_priority")
        get = lambda: daemon("osd.0", "config", "get", "osd_recovery_op_priority")["osd_recovery_op_priority"]
        wait_for(lambda: get() == "5", "osd.0 has the option", 20)

    def test_refusals(self):
        bad = run("ceph", "daemon", "osd.0", "config", "set", "osd_max_backfills", "many", check=False)
        text = "ERROR: (22) Invalid argument\nerror setting 'osd_max_backfills' to 'many': (22) Invalid argument"
        self.assertIn(text, bad.stdout + bad.stderr)
        none = run("ceph", "daemon", "osd.0", "config", "get", "nosuch", check=False)
        self.assertIn("(2) No such file or directory", none.stdout + none.stderr)
        self.assertNotEqual(run("ceph", "daemon", "osd.0", "no", "such", check=False).returncode, 0)

    def test_operations_have_a_history(self):
        self.work()
        found = []
        for name in osds():
            history = daemon(name, "dump_historic_ops")
            self.assertEqual((history["size"], history["duration"]), (20, 600))
            self.assertLessEqual(len(history["ops"]), 20)
            found += [op for op in history["ops"] if "client." in op["description"]]
            slowest = daemon(name, "dump_historic_ops_by_duration")["ops"]
            durations = [op["duration"] for op in slowest]
            self.assertEqual(durations, sorted(durations, reverse=True))
        self.assertTrue(found)
        writes = [op for op in found if "write" in op["description"]]
        for op in writes:
            self.assertRegex(op["description"], r"^osd_op\(client\.\d+\.\d+:\d+ \d+\.[0-9a-f]+ \d+:[0-9a-f]{8}:")
            events = [event["event"] for event in op["type_data"]["events"]]
            self.assertEqual((events[0], events[-1]), ("initiated", "done"))
            self.assertEqual(op["type_data"]["flag_point"], "commit sent; apply or cleanup")
            for needed in ["queued_for_pg", "reached_pg", "started", "op_commit", "sub_op_commit_rec", "commit_sent"]:
                self.assertIn(needed, events)
            self.assertRegex(op["type_data"]["client_info"]["client"], r"^client\.\d+$")
        self.assertEqual(daemon("osd.0", "ops"), {"ops": [], "num_ops": 0})
        blocked = {"ops": [], "complaint_time": 30, "num_blocked_ops": 0}
        self.assertEqual(daemon("osd.0", "dump_blocked_ops"), blocked)
        slow = {"num to keep": 20, "threshold to keep": 10, "Ops": []}
        self.assertEqual(daemon("osd.0", "dump_historic_slow_ops"), slow)

    def test_a_placement_group_tells_everything(self):
        pgid = ceph_json("osd", "map", POOL, "o1")["pgid"]
        query = json.loads(run("ceph", "pg", pgid, "query").stdout)
        self.assertEqual(query["state"], "active+clean")
        self.assertEqual(query["up"], query["acting"])
        self.assertEqual(query["info"]["pgid"], pgid)
        self.assertEqual(len(query["peer_info"]), len(query["acting"]) - 1)
        self.assertEqual(query["recovery_state"][0]["name"], "Started/Primary/Active")
        self.assertIn("stat_sum", query["info"]["stats"])
        self.assertEqual(json.loads(run("ceph", "tell", pgid, "query").stdout)["info"]["pgid"], pgid)

    def test_lines_reach_the_cluster_log(self):
        run("ceph", "log", "a", "line", "of", "the", "operator")
        last = lambda: run("ceph", "log", "last", "20", "info", "cluster").stdout
        wait_for(lambda: "a line of the operator" in last(), "the line is in the log", 20)


class MetricsTest(unittest.TestCase):
    """Loligo's own: real Ceph's exporter is a module that may not be there."""

    NAMES = """health_status osd_up osd_in osd_metadata osd_apply_latency_ms pool_metadata pool_stored pool_rd
        pool_wr_bytes cluster_total_bytes cluster_total_used_bytes pg_active pg_clean pg_total mon_quorum_status
        mon_metadata osd_flag_noout osd_op_r osd_op_r_latency_sum osd_op_r_latency_count num_objects_degraded
        osd_recovery_ops osd_recovery_bytes osd_numpg_removing pool_recovering_bytes_per_sec
        pool_num_objects_recovered"""

    def setUp(self):
        if "loligo" not in run("ceph", "version").stdout:
            self.skipTest("of Loligo only")
        make_pool("metrics")
        self.addCleanup(drop_pool, "metrics")

    def test_metrics_have_cephs_names(self):
        url = ceph_json("mgr", "services")["prometheus"]
        page = lambda: urllib.request.urlopen(url + "metrics", timeout=20).read().decode()
        pool = ceph_json("osd", "pool", "stats", "metrics")[0]["pool_id"]
        clean = f'ceph_pg_clean{{pool_id="{pool}"}} 8.0'
        wait_for(lambda: "ceph_osd_op_w{" in page() and clean in page(), "counters and groups are there", 30)
        lines = [line for line in page().splitlines() if line]
        for line in lines:
            if not line.startswith("#"):
                self.assertRegex(line, r"^ceph_[a-z0-9_]+(\{.*\})? -?[0-9.e+-]+$")
        typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
        shown = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
        self.assertEqual(typed, shown)
        self.assertLessEqual({"ceph_" + name for name in self.NAMES.split()}, shown)
        self.assertIn('ceph_osd_up{ceph_daemon="osd.0"} 1.0', lines)
        self.assertIn("ceph_cluster_total_bytes", shown)

    def test_counters_outlive_a_mark_down(self):
        """An OSD that is marked down keeps its session and comes back: its counters were gone for good."""
        page = lambda: urllib.request.urlopen(url + "metrics", timeout=20).read().decode()
        url = ceph_json("mgr", "services")["prometheus"]
        shown = 'ceph_osd_op_w{ceph_daemon="osd.0"}'
        wait_for(lambda: shown in page(), "osd.0 has reported", 30)
        run("ceph", "osd", "down", "0")
        wait_for(lambda: 'ceph_osd_up{ceph_daemon="osd.0"} 1.0' in page(), "it is up again", 30)
        wait_for(lambda: shown in page(), "it has reported again", 30)


if __name__ == "__main__":
    unittest.main()
