"""What an operator asks of single daemons and of the manager: ceph tell mgr, bench, histograms, options in force, requests
in hindsight, lines of the log, rules for device classes, slow requests.

The expectations hold on Ceph 16.2 as well.
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import rados

import harness
from ceph_tool import Ceph
from harness import run, stop_process, wait_for

POOL = "operator"
ceph = ceph_json = None


def setUpModule():
    global ceph, ceph_json
    harness.make_pool(POOL)
    ceph = Ceph()
    ceph_json = ceph.json


def tearDownModule():
    ceph.close()
    harness.drop_pool(POOL)


def tell(target, *words, check=True):
    done = ceph("tell", target, *words, check=check)
    return json.loads(done.stdout) if check else done


class Operator(unittest.TestCase):
    def refused(self, done, errno, text):
        self.assertEqual(done.returncode, errno, done.stderr)
        self.assertIn(text, done.stderr)


class Manager(Operator):
    def manager(self, **command):
        return ceph.cluster.mgr_command(json.dumps({"format": "json", **command}), b"")

    def test_it_answers_for_itself(self):
        name = ceph_json("mgr", "dump")["active_name"]
        for target in ("mgr", f"mgr.{name}"):
            self.assertEqual(tell(target, "version")["release"], "pacific")
            self.assertTrue(tell(target, "mgr_status")["initialized"])
        self.assertIn("config show", tell("mgr", "help"))
        self.assertIn("Tell mgr commands", run("ceph", "tell", "mgr", "help").stdout)
        self.assertIn("success", tell("mgr", "config", "set", "debug_ms", "1"))
        self.assertEqual(tell("mgr", "config", "get", "debug_ms")["debug_ms"].split("/")[0], "1")
        tell("mgr", "config", "unset", "debug_ms")
        self.assertEqual(tell("mgr", "config", "show")["name"], f"mgr.{name}")
        self.refused(tell("mgr", "pg", "dump", check=False), 22, "EINVAL")

    def test_it_answers_for_the_cluster(self):
        code, out, _ = self.manager(prefix="osd df")
        self.assertEqual((code, len(json.loads(out)["nodes"])), (0, len(ceph_json("osd", "ls"))))
        code, out, _ = self.manager(prefix="pg stat")
        self.assertGreaterEqual(json.loads(out)["pg_summary"]["num_pgs"], 8)
        code, out, says = self.manager(prefix="no such")
        self.assertEqual((code, out), (-22, b""), says)
        code, out, _ = self.manager(prefix="get_command_descriptions")
        self.assertIn(b'"pg","dump"', out)
        self.assertEqual(code, 0)

    def test_it_is_where_its_map_says(self):
        manager = ceph_json("mgr", "dump")
        self.assertTrue(manager["available"] and manager["active_gid"] > 0)
        self.assertRegex(manager["active_addrs"]["addrvec"][0]["addr"], r"^127\.0\.0\.1:\d+$")

    def test_it_goes_by_its_own_capabilities(self):
        with tempfile.TemporaryDirectory() as where:
            keyring = Path(where) / "keyring"
            keyring.write_text(ceph("auth", "get-or-create", "client.watcher", "mon", "allow r", "mgr", "allow r").stdout)
            self.addCleanup(ceph, "auth", "rm", "client.watcher")
            options = {"keyring": str(keyring)}
            watcher = rados.Rados(conffile=os.environ["CEPH_CONF"], name="client.watcher", conf=options)
            watcher.connect(timeout=30)
            try:
                code, out, says = watcher.mgr_command(json.dumps({"prefix": "pg stat", "format": "json"}), b"")
                self.assertEqual(code, 0, says)
                code, out, says = watcher.mgr_command(json.dumps({"prefix": "pg scrub", "pgid": "1.0"}), b"")
                self.assertEqual(code, -13, says)
                self.assertIn("does your client key have mgr caps?", says)
                code, out, says = watcher.mgr_command(json.dumps({"prefix": "version"}), b"", target="")
                self.assertEqual(code, -13, says)
            finally:
                watcher.shutdown()

    def test_who_it_is(self):
        name = ceph_json("mgr", "dump")["active_name"]
        about, = [one for one in ceph_json("mgr", "metadata") if one["name"] == name]
        self.assertLessEqual({"addr", "addrs", "hostname", "ceph_version", "kernel_version", "mem_total_kb"}, set(about))
        self.refused(ceph("mgr", "metadata", "nosuch", check=False), 2, "mgr.nosuch does not exist")
        self.assertEqual(sum(ceph_json("mgr", "versions").values()), 1)
        self.assertEqual(sum(ceph_json("versions")["mgr"].values()), 1)
        self.assertEqual(list(ceph_json("node", "ls")["mgr"].values()), [[name]])
        self.assertIn("already failed?", ceph("mgr", "fail", "nosuch").stderr)

    def test_its_modules(self):
        self.refused(ceph("mgr", "module", "enable", "nosuch", check=False), 2, "all mgr daemons do not support module 'nosuch'")
        self.assertIn("module 'crash' is already enabled (always-on)", ceph("mgr", "module", "enable", "crash").stderr)
        self.assertIn("module 'nosuch' is already disabled", ceph("mgr", "module", "disable", "nosuch").stderr)
        self.refused(ceph("mgr", "module", "disable", "crash", check=False), 22, "cannot be disabled (always-on)")

    def test_groups_that_need_nothing_are_not_forced(self):
        pg = ceph_json("pg", "ls-by-pool", POOL)["pg_stats"][0]["pgid"]
        wait_for(lambda: {pg["state"] for pg in ceph_json("pg", "ls-by-pool", POOL)["pg_stats"]} == {"active+clean"},
                 "all groups are clean", 60, 0.3)
        for verb, text in (("force-recovery", "doesn't require recovery"), ("force-backfill", "doesn't require backfilling"),
                           ("cancel-force-recovery", "recovery not forced"), ("cancel-force-backfill", "backfill not forced")):
            with self.subTest(verb=verb):
                self.assertIn(f"pg {pg} {text}", ceph("pg", verb, pg).stderr)
                self.assertIn(text, ceph("osd", "pool", verb, POOL).stderr)
        self.refused(ceph("pg", "force-recovery", "999.0", check=False), 2, "pg 999.0 does not exist")

    def test_nothing_is_reported_to_anybody(self):
        status = ceph_json("telemetry", "status")
        self.assertFalse(status["enabled"])
        self.assertLessEqual({"channel_basic", "channel_crash", "contact", "last_upload", "url", "interval"}, set(status))
        ceph("telemetry", "off")


class Daemons(Operator):
    def test_bench(self):
        for words, written, block in ((("12288", "4096"), 12288, 4096), (("8388608", "65536", "1048576", "4"), 8388608, 65536),
                                      (("16777216",), 16777216, 4 << 20), (("0", "4096"), 0, 4096)):
            with self.subTest(words=words):
                told = tell("osd.0", "bench", *words)
                self.assertEqual((told["bytes_written"], told["blocksize"]), (written, block))
                self.assertEqual(set(told), {"bytes_written", "blocksize", "elapsed_sec", "bytes_per_sec", "iops"})
                self.assertGreaterEqual(told["elapsed_sec"], 0)
        for words, text in (
            (("1000", "100000000"), "block 'size' values are capped at 64 MiB. If you wish to use a higher value, please "
                                    "adjust 'osd_bench_max_block_size'"),
            (("1073741824", "4096"), "'count' values greater than 12288000 for a block size of 4 KiB, assuming 100 IOPS, "
                                     "for 30 seconds, can cause ill effects on osd.  Please adjust "
                                     "'osd_bench_small_size_max_iops' with a higher value"),
            (("10737418240", "4194304"), "'count' values greater than 3145728000 for a block size of 4 MiB, assuming "
                                         "100 MiB/s, for 30 seconds"),
        ):
            self.refused(tell("osd.0", "bench", *words, check=False), 22, text)

    def test_what_they_say_of_themselves(self):
        said = ceph_json("osd", "metadata", "0")
        for key in ("arch", "kernel_version", "kernel_description", "distro", "distro_version", "os", "mem_total_kb", "cpu",
                    "osd_data", "osd_objectstore", "default_device_class", "rotational", "front_addr", "hb_back_addr"):
            self.assertIn(key, said)
        self.assertIn("kernel_version", ceph_json("mon", "metadata", "a"))

    def histograms(self):
        return [tell(f"osd.{osd}", "perf", "histogram", "dump")["osd"] for osd in ceph_json("osd", "ls")]

    def test_histograms(self):
        def writes():
            return sum(sum(map(sum, one["op_w_latency_in_bytes_histogram"]["values"])) for one in self.histograms())
        before = writes()
        with ceph.cluster.open_ioctx(POOL) as io:
            for n in range(10):
                io.write_full(f"histogram-{n}", b"x" * 5000)
        self.assertEqual(writes() - before, 10)
        one = self.histograms()[0]["op_w_latency_in_bytes_histogram"]
        latency, size = one["axes"]
        self.assertEqual((latency["name"], latency["quant_size"], latency["buckets"]), ("Latency (usec)", 100000, 32))
        self.assertEqual((size["name"], size["scale_type"]), ("Request size (bytes)", "log2"))
        self.assertEqual((size["ranges"][0], size["ranges"][1], size["ranges"][31]),
                         ({"max": -1}, {"min": 0, "max": 511}, {"min": 274877906944}))
        # 5000 bytes are in the bucket from 4096 on.
        rows = [row for one in self.histograms() for row in one["op_w_latency_in_bytes_histogram"]["values"]]
        self.assertGreater(sum(row[5] for row in rows), 0)
        schema = tell("osd.0", "perf", "histogram", "schema")["osd"]
        self.assertEqual(set(schema), set(self.histograms()[0]))
        self.assertEqual(schema["op_r_latency_out_bytes_histogram"]["value_type"], "integer-2d-histogram")
        chosen = tell("osd.0", "perf", "histogram", "dump", "osd", "op_r_latency_out_bytes_histogram")
        self.assertEqual(list(chosen["osd"]), ["op_r_latency_out_bytes_histogram"])
        socket = json.loads(ceph("daemon", "osd.0", "perf", "histogram", "dump").stdout)
        self.assertEqual(set(socket["osd"]), set(schema))

    def test_options_in_force_are_shown(self):
        def shown():
            return {option["name"]: option for option in ceph_json("config", "show", "osd.0")}.get("osd_max_scrubs")
        wait_for(lambda: ceph("config", "show", "osd.0", check=False).returncode == 0, "osd.0 has reported", 30, 0.3)
        ceph("config", "set", "osd.0", "osd_max_scrubs", "2")
        try:
            wait_for(lambda: shown() and shown()["source"] == "mon", "the central value is shown", 30, 0.3)
            tell("osd.0", "config", "set", "osd_max_scrubs", "3")
            wait_for(lambda: shown()["source"] == "override", "the value set at run time is shown", 30, 0.3)
            self.assertEqual(shown()["value"], "3")
            self.assertIn({"source": "mon", "value": "2"}, shown()["overrides"])
            self.assertEqual(ceph("config", "show", "osd.0", "osd_max_scrubs").stdout.strip(), "3")
            self.assertRegex(ceph("config", "show", "osd.0").stdout, r"osd_max_scrubs +3 +override +mon\[2\]")
        finally:
            tell("osd.0", "config", "unset", "osd_max_scrubs")
            ceph("config", "rm", "osd.0", "osd_max_scrubs")
        wait_for(lambda: not shown(), "nothing sets it", 30, 0.3)
        self.refused(ceph("config", "show", "osd.99", check=False), 2, "no config state for daemon osd.99")

    def test_the_monitors_requests_in_hindsight(self):
        ceph("osd", "pool", "application", "set", POOL, "test", "key", "value")
        for history in (tell("mon.a", "dump_historic_ops"),
                        json.loads(ceph("daemon", "mon.a", "dump_historic_ops").stdout)):
            self.assertEqual((history["size"], history["duration"]), (20, 600))
            for op in history["ops"]:
                self.assertLessEqual({"description", "initiated_at", "age", "duration", "type_data"}, set(op))
                self.assertEqual(op["type_data"]["events"][0]["event"], "initiated")
                self.assertLessEqual({"seq", "source", "src_is_mon"}, set(op["type_data"]["info"]))
        under_way = tell("mon.a", "ops")
        self.assertEqual(len(under_way["ops"]), under_way["num_ops"])
        self.assertEqual(tell("mon.a", "dump_historic_slow_ops")["num to keep"], 20)


class Log(Operator):
    def test_lines_say_who_speaks(self):
        mark = f"mark-{time.time()}"
        ceph("log", mark)
        last = lambda *words: ceph("log", "last", *words).stdout
        wait_for(lambda: mark in last("20"), "the line is kept", 30, 0.3)
        line = next(line for line in last("20").splitlines() if mark in line)
        self.assertRegex(line, r"^\d{4}-.*\+0000 client\.admin \(client\.\?\) 0 : cluster \[INF\] mark-")
        ceph("osd", "set", "noscrub")
        ceph("osd", "unset", "noscrub")
        audit = lambda: last("30", "info", "audit")
        wait_for(lambda: re.search(r"cmd='\[.*osd unset.*: finished", audit()), "the audit shows the command's end", 30, 0.3)
        self.assertRegex(audit(), r"from='client\.\? 127\.0\.0\.1:0/\d+' entity='client\.admin' cmd=\[.*osd set.*\]: dispatch")

    def test_a_channel_is_watched(self):
        with subprocess.Popen(["ceph", "-w", "-W", "audit"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=dict(os.environ, CEPH_ARGS="")) as watch:
            try:
                # Whoever waits in vain is woken by the end of the output.
                patience = threading.Timer(60, watch.kill)
                patience.start()
                for line in watch.stdout:
                    if "pgs:" in line or "usage:" in line:
                        break
                time.sleep(0.5)
                mark = f"mark-{time.time()}"
                ceph("log", mark)
                # What may hold secrets is not told.
                ceph("config-key", "set", "watched", "secret")
                ceph("osd", "set", "noscrub")
                ceph("osd", "unset", "noscrub")
                lines = []
                for line in iter(watch.stdout.readline, ""):
                    lines.append(line)
                    if "osd unset" in line:
                        break
                self.assertRegex(lines[-1], r" \[INF\] from='client\.\? 127\.0\.0\.1:0/\d+' entity='client\.admin' cmd=")
                self.assertFalse([line for line in lines if "secret" in line or " client.admin [INF] mark" in line])
            finally:
                patience.cancel()
                watch.kill()
                ceph("config-key", "rm", "watched")


class Placement(Operator):
    def test_upmaps_that_mean_nothing(self):
        pg = ceph_json("pg", "ls-by-pool", POOL)["pg_stats"][0]["pgid"]
        items = lambda *ids: ceph("osd", "pg-upmap-items", pg, *ids, check=False)
        self.refused(items(0, 0), 22, "from osd.0 == to osd.0, no valid upmap items(pairs) is specified")
        self.refused(items(0), 22, "you must specify pairs of osd ids to be remapped")
        self.refused(items(0, 99), 2, "osd.99 does not exist")
        self.refused(ceph("osd", "pg-upmap", pg, 0, check=False), 22, "num of osds (1) < pool min size (2)")
        self.refused(ceph("osd", "pg-upmap", pg, 0, 1, 2, 0, check=False), 22, "num of osds (4) > pool size (3)")
        done = ceph("osd", "pg-upmap", pg, 0, 0, 1)
        self.assertEqual(done.stderr.strip(), f"osd.0 already exists, set {pg} pg_upmap mapping to [0,1]")
        ceph("osd", "rm-pg-upmap", pg)
        done = items(0, 1, 0, 1)
        self.assertEqual(done.stderr.strip(), f"osd.0 -> osd.1 already exists, set {pg} pg_upmap_items mapping to [0->1]")
        ceph("osd", "rm-pg-upmap-items", pg)

    def test_the_tunable_that_stands_alone(self):
        self.assertEqual(ceph("osd", "crush", "get-tunable", "straw_calc_version").stdout.strip(), "1")
        self.assertEqual(ceph_json("osd", "crush", "get-tunable", "straw_calc_version"), {"straw_calc_version": 1})
        done = ceph("osd", "crush", "set-tunable", "straw_calc_version", "1")
        self.assertIn("adjusted tunable straw_calc_version to 1", done.stderr)

    def test_a_rule_for_a_class_places_in_it_as_ceph_does(self):
        osds = ceph_json("osd", "ls")
        before = {node["id"]: node.get("device_class") for node in ceph_json("osd", "tree")["nodes"] if node["type"] == "osd"}
        quick = osds[:2]
        pool = "operator-quick"
        try:
            for osd in osds:
                ceph("osd", "crush", "rm-device-class", f"osd.{osd}")
                ceph("osd", "crush", "set-device-class", "quick" if osd in quick else "slow", f"osd.{osd}")
            ceph("osd", "crush", "rule", "create-replicated", "quickly", "default", "osd", "quick")
            self.refused(ceph("osd", "crush", "rule", "create-replicated", "x", "default", "osd", "none", check=False), 22,
                         "device class none does not exist")
            take = ceph_json("osd", "crush", "rule", "dump", "quickly")["steps"][0]
            self.assertEqual((take["op"], take["item_name"]), ("take", "default~quick"))
            self.assertEqual(ceph_json("osd", "crush", "rule", "ls-by-class", "quick"), ["quickly"])
            ceph("osd", "pool", "create", pool, "16", "16", "replicated", "quickly")
            ceph("osd", "pool", "set", pool, "size", "2")
            ceph("osd", "pool", "set", pool, "min_size", "1")
            wait_for(lambda: {pg["state"] for pg in ceph_json("pg", "ls-by-pool", pool)["pg_stats"]} == {"active+clean"},
                     "the pool serves", 60, 0.3)
            acting = {pg["pgid"]: pg["acting"] for pg in ceph_json("pg", "ls-by-pool", pool)["pg_stats"]}
            for pg, osds_of in acting.items():
                self.assertEqual(set(osds_of), set(quick), pg)
            self.placed_as_osdmaptool_says(pool, acting)
        finally:
            harness.drop_pool(pool)
            ceph("osd", "crush", "rule", "rm", "quickly", check=False)
            for osd, name in before.items():
                ceph("osd", "crush", "rm-device-class", f"osd.{osd}")
                if name:
                    ceph("osd", "crush", "set-device-class", name, f"osd.{osd}")

    def placed_as_osdmaptool_says(self, pool, acting):
        """Ceph's own tool reads the cluster's map, shadow trees and all, and places the same."""
        number = next(p["poolnum"] for p in ceph_json("osd", "lspools") if p["poolname"] == pool)
        with tempfile.TemporaryDirectory() as where:
            path = str(Path(where) / "map")
            run("ceph", "osd", "getmap", "-o", path)
            dump = run("osdmaptool", path, "--test-map-pgs-dump-all", "--pool", number).stdout
            said = re.findall(r"^(\d+\.[0-9a-f]+) raw .* acting \(\[([\d,]*)\]", dump, re.M)
            self.assertEqual({pg: [int(n) for n in osds.split(",")] for pg, osds in said}, acting)
            crush = str(Path(where) / "crush")
            run("osdmaptool", path, "--export-crush", crush)
            text = run("crushtool", "-d", crush).stdout
            self.assertIn("step take default class quick", text)
            self.assertEqual(len(re.findall(r"id -\d+ class quick", text)), len(re.findall(r"id -\d+ class slow", text)))


class SlowRequests(Operator):
    """An OSD that is stopped for a while makes a request slow: the cluster warns, and the warning goes away."""

    def processes(self):
        files = Path(os.environ["CEPH_CONF"]).parent.glob("run/osd.*.pid")
        pids = {int(re.search(r"osd\.(\d+)", file.name)[1]): int(file.read_text()) for file in files}
        if not pids:
            self.skipTest("the OSDs have no processes of their own")
        return pids

    def test_a_slow_request_is_a_warning(self):
        pids = self.processes()
        with ceph.cluster.open_ioctx(POOL) as io:
            io.write_full("slow", b"before")
        placed = ceph_json("osd", "map", POOL, "slow")
        primary, victim = placed["acting_primary"], next(osd for osd in placed["acting"] if osd != placed["acting_primary"])
        for osd in pids:
            tell(f"osd.{osd}", "config", "set", "osd_op_complaint_time", "1")
        ceph("osd", "set", "nodown")
        stop_process(pids[victim])
        try:
            with ceph.cluster.open_ioctx(POOL) as io:
                detail = lambda: ceph("health", "detail").stdout
                done = io.aio_write_full("slow", b"x")
                wait_for(lambda: "SLOW_OPS" in detail(), "the warning is there", 60, 0.5)
                self.assertRegex(detail(), r"SLOW_OPS: \d+ slow ops, oldest one blocked for \d+ sec, .*osd\.%d" % primary)
                self.assertIn("slow", json.dumps(tell(f"osd.{primary}", "dump_blocked_ops")["ops"][0]["description"]))
                self.assertFalse(done.is_complete())
                os.kill(pids[victim], signal.SIGCONT)
                done.wait_for_complete()
                wait_for(lambda: "SLOW_OPS" not in detail(), "the warning is gone", 60, 0.5)
                wait_for(lambda: "slow requests" in ceph("log", "last", "100", "warn").stdout, "the log tells of it", 30, 0.5)
        finally:
            os.kill(pids[victim], signal.SIGCONT)
            ceph("osd", "unset", "nodown")
            for osd in pids:
                tell(f"osd.{osd}", "config", "unset", "osd_op_complaint_time")


if __name__ == "__main__":
    unittest.main()
