"""The `ceph` tool: the commands of every day, for people and for programs."""
import json
import re
import unittest

import harness
from harness import ceph_json, run, wait_for

POOL = "cli"


def ceph(*command, check=True):
    return run("ceph", *command, check=check)


class CephCli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL, pg_num=16)

    @classmethod
    def tearDownClass(cls):
        harness.drop_pool(POOL)

    def refused(self, done, errno, text):
        self.assertEqual(done.returncode, errno, done.stderr)
        self.assertIn(text, done.stderr)

    def test_every_report_has_a_plain_and_a_json_form(self):
        # The keys are what programs rely on; more may be there.
        reports = {
            "status": {"fsid", "health", "quorum", "monmap", "osdmap", "pgmap", "mgrmap", "servicemap"},
            "health": {"status", "checks", "mutes"},
            "health detail": {"status", "checks", "mutes"},
            "df": {"stats", "pools"},
            "df detail": {"stats", "pools"},
            "fsid": {"fsid"},
            "versions": {"mon", "osd", "overall"},
            "mon dump": {"epoch", "fsid", "mons", "quorum"},
            "mon stat": {"epoch", "leader", "quorum"},
            "quorum_status": {"quorum", "quorum_names", "quorum_leader_name", "monmap"},
            "osd tree": {"nodes", "stray"},
            "osd dump": {"epoch", "fsid", "pools", "osds", "flags", "max_osd", "erasure_code_profiles"},
            "osd df": {"nodes", "stray", "summary"},
            "osd stat": {"epoch", "num_osds", "num_up_osds", "num_in_osds"},
            "pg stat": set(),
            "pg dump": set(),
            "pg ls": set(),
            "config dump": set(),
            "auth ls": {"auth_dump"},
            "osd pool ls detail": set(),
        }
        for report, keys in reports.items():
            with self.subTest(report=report):
                ceph(*report.split())
                answer = ceph_json(*report.split())
                if keys:
                    self.assertLessEqual(keys, set(answer))

    def test_status_counts_what_is_there(self):
        status = ceph_json("status")
        self.assertEqual(status["health"]["status"], "HEALTH_OK")
        self.assertEqual((status["osdmap"]["num_osds"], status["osdmap"]["num_up_osds"]), (3, 3))
        self.assertEqual(ceph_json("fsid")["fsid"], status["fsid"])
        self.assertIn("osd: 3 osds: 3 up", ceph("-s").stdout)

    def test_a_pools_life(self):
        self.assertIn("pool 'life' created", ceph("osd", "pool", "create", "life", "8", "8").stderr)
        self.assertIn("pool 'life' already exists", ceph("osd", "pool", "create", "life", "8", "8").stderr)
        self.assertIn("life", ceph_json("osd", "pool", "ls"))
        wait_for(lambda: all(p["state"] == "active+clean" for p in self.placement_groups("life")), "all PGs are active+clean")
        self.assertEqual(ceph_json("osd", "pool", "get", "life", "size")["size"], 3)
        ceph("osd", "pool", "set", "life", "min_size", "1")
        self.assertIn("min_size: 1", ceph("osd", "pool", "get", "life", "min_size").stdout)
        ceph("osd", "pool", "application", "enable", "life", "test")
        self.assertEqual(ceph_json("osd", "pool", "application", "get", "life"), {"test": {}})
        self.refused(ceph("osd", "pool", "rm", "life", check=False), 1, "EPERM")
        self.refused(ceph("osd", "pool", "set", "life", "size", "99", check=False), 22, "EINVAL")
        self.refused(ceph("osd", "pool", "get", "none", "size", check=False), 2, "ENOENT")
        ceph("osd", "pool", "rm", "life", "life", "--yes-i-really-really-mean-it")
        self.assertNotIn("life", ceph_json("osd", "pool", "ls"))

    def placement_groups(self, pool):
        return ceph_json("pg", "ls-by-pool", pool)["pg_stats"]

    def test_size_follows_the_pool(self):
        harness.make_pool("narrow", size=2)
        try:
            wait_for(lambda: {len(p["acting"]) for p in self.placement_groups("narrow")} == {2}, "two OSDs a PG")
        finally:
            harness.drop_pool("narrow")

    def test_objects_are_counted(self):
        harness.make_pool("counted")
        try:
            for i in range(5):
                run("rados", "-p", "counted", "put", f"o{i}", "/etc/hostname")
            def counted():
                pools = {p["name"]: p["stats"] for p in ceph_json("df")["pools"]}
                # A new pool's statistics come a while after the pool.
                return "counted" in pools and pools["counted"]["objects"] == 5
            wait_for(counted, "df shows 5 objects")
            self.assertRegex(run("rados", "df").stdout, r"counted\s.*\s5\s")
        finally:
            harness.drop_pool("counted")

    def test_an_entitys_life(self):
        made = ceph("auth", "get-or-create", "client.life", "mon", "allow r", "osd", f"allow rw pool={POOL}").stdout
        self.assertIn("[client.life]", made)
        key = re.search(r"key = (\S+)", made)[1]
        self.assertEqual(ceph("auth", "get-key", "client.life").stdout.strip(), key)
        self.assertEqual(ceph("auth", "get-or-create", "client.life", "mon", "allow r", "osd", f"allow rw pool={POOL}").stdout, made)
        self.refused(ceph("auth", "get-or-create", "client.life", "mon", "allow *", check=False), 22, "EINVAL")
        ceph("auth", "caps", "client.life", "mon", "allow *")
        self.assertEqual(ceph_json("auth", "get", "client.life")[0]["caps"], {"mon": "allow *"})
        self.assertIn("client.life", ceph("auth", "ls").stdout)
        self.refused(ceph("auth", "caps", "client.life", "mon", "allow everything", check=False), 22, "EINVAL")
        ceph("auth", "rm", "client.life")
        self.refused(ceph("auth", "get", "client.life", check=False), 2, "ENOENT")

    def test_central_configuration(self):
        ceph("config", "set", "osd", "osd_max_backfills", "3")
        try:
            self.assertEqual(ceph("config", "get", "osd.0", "osd_max_backfills").stdout.strip(), "3")
            self.assertIn("osd_max_backfills", ceph("config", "dump").stdout)
            wait_for(lambda: "osd_max_backfills" in ceph("config", "show", "osd.0").stdout, "osd.0 shows it")
        finally:
            ceph("config", "rm", "osd", "osd_max_backfills")
        self.assertNotIn("osd_max_backfills", ceph("config", "dump").stdout)
        self.refused(ceph("config", "set", "osd", "osd_max_backfills", "many", check=False), 22, "EINVAL")
        self.refused(ceph("config", "set", "osd", "no_such_option", "1", check=False), 22, "EINVAL")
        self.refused(ceph("config", "set", "osd", "mon_host", "10.0.0.1", check=False), 22, "special")

    def test_daemons_answer_for_themselves(self):
        version = json.loads(ceph("tell", "osd.0", "version").stdout)
        self.assertIn("version", version)
        # No such OSD: the tool says so itself.
        self.assertNotEqual(ceph("tell", "osd.77", "version", check=False).returncode, 0)

    def test_what_is_not_a_command(self):
        self.refused(ceph("make", "coffee", check=False), 22, "no valid command found")
        self.refused(ceph("osd", "pool", "create", check=False), 22, "EINVAL")

    def test_what_is_out_of_scope_says_so(self):
        done = ceph("osd", "pool", "create", "ec", "8", "8", "erasure", check=False)
        if done.returncode == 0:
            harness.drop_pool("ec")
            self.skipTest("this cluster has erasure coding")
        # Python names errno 95 ENOTSUP.
        self.refused(done, 95, "ENOTSUP")


if __name__ == "__main__":
    unittest.main()
