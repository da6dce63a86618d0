"""Where placement groups go, changed by hand: weight sets of pools, buckets that change places, OSDs whose weights are
lowered because they have too much.

The expectations hold on Ceph 16.2 as well.
"""
import json
import re
import tempfile
import unittest
from pathlib import Path

import harness
from ceph_tool import Ceph
from harness import run, wait_for

POOL = "balanced"
ceph = ceph_json = None


def setUpModule():
    global ceph, ceph_json
    ceph = Ceph()
    ceph_json = ceph.json
    # What it moves meanwhile would be taken for what a test has moved.
    ceph("balancer", "off")
    ceph("osd", "pool", "create", POOL, "32", "32")
    ceph("osd", "pool", "set", POOL, "pg_autoscale_mode", "off")
    wait_for(lambda: {pg["state"] for pg in pgs(POOL)} == {"active+clean"}, "the pool serves", 60, 0.3)


def tearDownModule():
    ceph.close()
    harness.drop_pool(POOL)


def pgs(pool):
    return ceph_json("pg", "ls-by-pool", pool)["pg_stats"]


class Crush(unittest.TestCase):
    def refused(self, done, errno, text):
        self.assertEqual(done.returncode, errno, done.stderr)
        self.assertIn(text, done.stderr)


class WeightSets(Crush):
    def setUp(self):
        self.addCleanup(ceph, "osd", "crush", "weight-set", "rm", POOL)
        self.addCleanup(ceph, "osd", "crush", "weight-set", "rm-compat")

    def set(self, *words, check=True):
        return ceph("osd", "crush", "weight-set", *words, check=check)

    def test_they_are_made_and_listed_and_go_with_their_pool(self):
        self.assertEqual(self.set("ls").stdout.split(), [])
        self.set("create-compat")
        self.assertIn("compat weight-set already created", self.set("create-compat").stderr)
        self.set("create", POOL, "positional")
        self.assertIn(f"weight-set for pool '{POOL}' already created", self.set("create", POOL, "flat").stderr)
        self.refused(self.set("create", "nowhere", "flat", check=False), 2, "pool 'nowhere' not found")
        ceph("osd", "pool", "create", "balanced-2", "8", "8")
        self.set("create", "balanced-2", "flat")
        self.assertEqual(self.set("ls").stdout.split(), ["(compat)", POOL, "balanced-2"])
        self.assertEqual(ceph_json("osd", "crush", "weight-set", "ls"), ["(compat)", POOL, "balanced-2"])
        harness.drop_pool("balanced-2")
        self.assertEqual(self.set("ls").stdout.split(), ["(compat)", POOL])
        self.set("rm", POOL)
        self.set("rm", POOL)
        self.set("rm-compat")
        self.assertEqual(ceph_json("osd", "crush", "weight-set", "dump"), {})

    def test_weights_add_up_and_are_shown(self):
        self.set("create-compat")
        self.set("create", POOL, "positional")
        size = ceph_json("osd", "pool", "get", POOL, "size")["size"]
        self.refused(self.set("reweight", POOL, "osd.0", "0.5", check=False), 22, f"must specify exact {size} weight values")
        self.refused(self.set("reweight", POOL, "osd.99", *["1"] * size, check=False), 2, "item 'osd.99' does not exist")
        self.refused(self.set("reweight", POOL, "default", *["1"] * size, check=False), 2, "not found in crush map")
        self.set("reweight", POOL, "osd.0", *(f"0.{5 + n}" for n in range(size)))
        self.set("reweight-compat", "osd.1", "0.25")
        dump = ceph_json("osd", "crush", "dump")
        self.assertEqual(dump["choose_args"], ceph_json("osd", "crush", "weight-set", "dump"))
        number = str(next(p["poolnum"] for p in ceph_json("osd", "lspools") if p["poolname"] == POOL))
        sets = {key: {arg["bucket_id"]: arg["weight_set"] for arg in args} for key, args in dump["choose_args"].items()}
        self.assertEqual({key: len(args[-1]) for key, args in sets.items()}, {"-1": 1, number: size})
        for args in sets.values():
            for bucket in dump["buckets"]:
                for position, item in enumerate(bucket["items"]):
                    if item["id"] < 0:
                        below = [sum(weights) for weights in args[item["id"]]]
                        above = [weights[position] for weights in args[bucket["id"]]]
                        self.assertEqual(above, below, item)
        nodes = {node["name"]: node for node in ceph_json("osd", "crush", "tree")["nodes"]}
        weights = nodes["osd.0"]["pool_weights"][POOL]
        self.assertEqual([round(weight, 2) for weight in weights], [round(0.5 + n / 10, 2) for n in range(size)])
        self.assertEqual(nodes["osd.1"]["pool_weights"]["(compat)"], [0.25])
        lines = ceph("osd", "crush", "tree").stdout.splitlines()
        self.assertEqual(lines[0].split(), ["ID", "CLASS", "WEIGHT", "(compat)", POOL, "TYPE", "NAME"])
        self.assertRegex(next(line for line in lines if "osd.1" in line), r" 0\.25000 ")

    def placed_by_ceph(self):
        """Where Ceph's own tool puts the pool's groups, by the cluster's map."""
        with tempfile.TemporaryDirectory() as where:
            path = str(Path(where) / "map")
            run("ceph", "osd", "getmap", "-o", path)
            number = next(p["poolnum"] for p in ceph_json("osd", "lspools") if p["poolname"] == POOL)
            dump = run("osdmaptool", path, "--test-map-pgs-dump-all", "--pool", number).stdout
            return dict(re.findall(r"^(\d+\.[0-9a-f]+) raw .* up \(\[([\d,]*)\]", dump, re.M))

    def is_placed(self, said):
        wait_for(lambda: {pg["pgid"]: ",".join(map(str, pg["up"])) for pg in pgs(POOL)} == said, "as the tool says", 60, 0.3)

    def test_their_pool_is_placed_by_them_as_ceph_places(self):
        plain = self.placed_by_ceph()
        self.set("create", POOL, "flat")
        self.assertEqual(self.placed_by_ceph(), plain, "a set begins with the buckets' own weights")
        self.set("reweight", POOL, "osd.0", "0.0001")
        moved = self.placed_by_ceph()
        self.assertNotEqual(moved, plain)
        self.is_placed(moved)
        self.set("rm", POOL)
        self.assertEqual(self.placed_by_ceph(), plain)
        self.is_placed(plain)

    def test_there_has_to_be_one(self):
        self.refused(self.set("reweight", POOL, "osd.0", "1", check=False), 2, f"no weight-set for pool '{POOL}'")
        self.refused(self.set("reweight-compat", "osd.0", "1", check=False), 2, "no backward-compatible weight-set")
        self.refused(self.set("rm", "nowhere", check=False), 2, "pool 'nowhere' not found")


class Buckets(Crush):
    def test_they_change_places(self):
        swap = lambda *words: ceph("osd", "crush", "swap-bucket", *words, check=False)
        names = [("left", "host"), ("right", "rack")]
        for name, kind in names:
            ceph("osd", "crush", "add-bucket", name, kind)
            self.addCleanup(ceph, "osd", "crush", "rm", name)
        ceph("osd", "crush", "move", "left", "root=default")
        before = {node["name"]: node["id"] for node in ceph_json("osd", "crush", "tree")["nodes"]}
        self.refused(swap("left", "right"), 1, "source item left is not an orphan bucket; pass --yes-i-really-mean-it")
        self.refused(swap("nowhere", "right"), 2, "source item nowhere does not exist")
        self.refused(swap("right", "nowhere"), 2, "dest item nowhere does not exist")
        done = swap("left", "right", "--yes-i-really-mean-it")
        self.assertEqual((done.returncode, done.stderr.strip()), (0, "swapped bucket of left to right"))
        after = {node["name"]: node["id"] for node in ceph_json("osd", "crush", "tree")["nodes"]}
        self.assertEqual((after["left"], after["right"]), (before["right"], before["left"]))
        self.assertEqual(swap("left", "right").returncode, 0, "left is nowhere now")

    def test_straw_buckets_become_straw2(self):
        ceph("osd", "crush", "set-all-straw-buckets-to-straw2")
        self.assertEqual({bucket["alg"] for bucket in ceph_json("osd", "crush", "dump")["buckets"]}, {"straw2"})


class Reweighting(Crush):
    def tearDown(self):
        for osd in ceph_json("osd", "ls"):
            ceph("osd", "reweight", f"osd.{osd}", "1")

    def weights(self):
        return {osd["osd"]: osd["weight"] for osd in ceph_json("osd", "dump")["osds"]}

    def test_it_is_refused_where_it_makes_no_sense(self):
        by = lambda *words: ceph("osd", *words, check=False)
        self.refused(by("reweight-by-utilization", "90"), 22, "You must give a percentage higher than 100.")
        self.refused(by("test-reweight-by-utilization", "120", "0"), 22, "max_change 0 must be positive")
        self.refused(by("test-reweight-by-utilization", "120", "0.1", "0"), 22, "max_osds 0 must be positive")
        self.refused(by("test-reweight-by-pg", "120", "0.1", "4", "nowhere"), 2, "pool 'nowhere' does not exist")
        ceph("osd", "pool", "create", "balanced-8", "8", "8")
        self.addCleanup(harness.drop_pool, "balanced-8")
        wait_for(lambda: {pg["state"] for pg in pgs("balanced-8")} == {"active+clean"}, "the pool serves", 60, 0.3)
        few = by("test-reweight-by-pg", "120", "0.1", "4", "balanced-8")
        self.refused(few, 33, "Refusing to reweight: we only have 24 PGs across 3 osds!")

    def test_who_has_more_groups_gets_a_lower_weight(self):
        osds = ceph_json("osd", "ls")
        # With three copies on three OSDs everybody would have as much as everybody else.
        ceph("osd", "pool", "set", POOL, "size", "2")
        self.addCleanup(ceph, "osd", "pool", "set", POOL, "size", "3")
        wait_for(lambda: all(len(pg["acting"]) == 2 for pg in pgs(POOL)), "two copies", 60, 0.3)
        counts = {osd: sum(osd in pg["acting"] for pg in pgs(POOL)) for osd in osds}
        mean = sum(counts.values()) / len(osds)
        heavy = [osd for osd in osds if counts[osd] >= mean * 1.01]
        if not heavy:
            self.skipTest(f"the groups lie evenly: {counts}")
        before = self.weights()
        dry = ceph("osd", "test-reweight-by-pg", "101", "0.5", "10", POOL)
        self.assertIn("no change", dry.stderr)
        self.assertEqual(self.weights(), before)
        self.assertIn(f"avg {mean:.6g}\n", dry.stdout)
        lines = re.findall(r"^osd\.(\d+) weight 1\.0000 -> (0\.\d{4})$", dry.stdout, re.M)
        self.assertEqual({int(osd) for osd, _ in lines}, set(heavy), dry.stdout)
        for osd, weight in lines:
            self.assertAlmostEqual(float(weight), max(mean / counts[int(osd)], 0.5), delta=0.0002)
        shown = ceph("osd", "test-reweight-by-pg", "101", "0.5", "10", POOL, form="json").stdout
        shown = json.loads(shown.strip().splitlines()[0])
        self.assertEqual((shown["overload_min"], shown["max_change_osds"]), (101, 10))
        self.assertEqual({change["osd"] for change in shown["reweights"]}, set(heavy))
        self.assertEqual(shown["utilization"]["total_pgs"], sum(counts.values()))
        ceph("osd", "reweight-by-pg", "101", "0.5", "10", POOL)
        new = {osd: round(weight, 4) for osd, weight in self.weights().items()}
        self.assertEqual(new, {**{osd: 1 for osd in osds}, **{int(osd): float(weight) for osd, weight in lines}})

    def test_the_spread_is_shown(self):
        shown = ceph_json("osd", "utilization")
        self.assertEqual(set(shown), {"avg_pgs", "std_dev", "expected_baseline_std_dev", "min_osd", "min_osd_pgs", "max_osd",
                                      "max_osd_pgs"})
        self.assertRegex(ceph("osd", "utilization").stdout, r"^avg [\d.]+\nstddev [\d.]+ \(expected baseline [\d.]+\)\nmin osd")


if __name__ == "__main__":
    unittest.main()
