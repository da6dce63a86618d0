"""Recovery and backfill as an operator steers them: flags of the cluster, groups that go first, groups that peer anew.

The expectations hold on Ceph 16.2 as well. An OSD is marked out and in again, so that groups move with all their
copies; nobody is killed.
"""
import os
import time
import unittest

from harness import ceph_json, drop_pool, run, wait_for

POOL = f"operator-{os.getpid()}"
GROUPS = 8
OBJECTS = 64
# How long to look at groups of which nothing is to become.
STILL_SECONDS = 3
LOG_OPTIONS = ("osd_min_pg_log_entries", "osd_max_pg_log_entries", "osd_pg_log_trim_min")


def ceph(*words, check=True):
    return run("ceph", *words, check=check)


def groups():
    return {pg["pgid"]: pg for pg in ceph_json("pg", "ls-by-pool", POOL)["pg_stats"]}


def states():
    return {pgid: set(pg["state"].split("+")) for pgid, pg in groups().items()}


def all_clean():
    found = states()
    # With an OSD out, CRUSH may find no place for some, which then stay where they are.
    return len(found) == GROUPS and all({"active", "clean"} <= words for words in found.values())


def waiting():
    return {pgid for pgid, words in states().items() if words & {"backfill_wait", "backfilling", "recovery_wait", "recovering"}}


def misplaced():
    return sum(pg["stat_sum"]["num_objects_misplaced"] for pg in groups().values())


class Steering(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Logs that tell of a few writes only: who comes anew is filled.
        for option in LOG_OPTIONS:
            # Not every cluster has all of them.
            ceph("config", "set", "osd", option, 2, check=False)
        ceph("osd", "pool", "create", POOL, GROUPS, GROUPS)
        # On clusters of three OSDs, one of which is to leave.
        ceph("osd", "pool", "set", POOL, "size", 2)
        ceph("osd", "pool", "set", POOL, "pg_autoscale_mode", "off")
        ceph("osd", "pool", "application", "enable", POOL, "test")
        for number in range(OBJECTS):
            run("rados", "-p", POOL, "put", f"o{number}", "/etc/hostname")

    @classmethod
    def tearDownClass(cls):
        drop_pool(POOL)
        for option in LOG_OPTIONS:
            ceph("config", "rm", "osd", option, check=False)

    def setUp(self):
        wait_for(all_clean, "all groups are clean", 90, 0.3)
        self.osd = groups()[min(groups())]["acting_primary"]

    def tearDown(self):
        for flag in ("norecover", "nobackfill", "norebalance"):
            ceph("osd", "unset", flag)
        ceph("osd", "in", self.osd)
        wait_for(all_clean, "all groups are clean again", 90, 0.3)

    def test_flags_hold_groups_back(self):
        for flag in ("norebalance", "nobackfill", "norecover"):
            with self.subTest(flag=flag):
                ceph("osd", "set", flag)
                ceph("osd", "out", self.osd)
                wait_for(lambda: waiting() and misplaced() > 0, "groups are to move", 60, 0.3)
                held = wait_for(waiting, "groups wait", 30, 0.3)
                before = misplaced()
                time.sleep(STILL_SECONDS)
                self.assertEqual(waiting(), held)
                self.assertGreaterEqual(misplaced(), before)
                self.assertIn(f"{flag} flag(s) set", ceph("health", "detail").stdout)
                ceph("osd", "unset", flag)
                wait_for(all_clean, "they have moved", 90, 0.3)
                ceph("osd", "in", self.osd)
                wait_for(all_clean, "they are back", 90, 0.3)

    def test_a_forced_group_says_so_until_it_is_clean(self):
        ceph("osd", "set", "nobackfill")
        ceph("osd", "out", self.osd)
        chosen = min(wait_for(waiting, "groups wait", 60, 0.3))
        self.assertRegex(ceph("pg", "force-backfill", chosen).stderr,
                         rf"instructing pg\(s\) \[{chosen}\] on osd\.\d+ to force-backfill; ")
        wait_for(lambda: "forced_backfill" in states()[chosen], "it is forced", 30, 0.3)
        again = ceph("pg", "force-backfill", chosen, check=False)
        self.assertEqual(again.returncode, 22)
        self.assertIn(f"pg {chosen} backfill already forced; ", again.stderr)
        self.assertIn(f"instructing pg(s) [{chosen}]", ceph("pg", "cancel-force-backfill", chosen).stderr)
        wait_for(lambda: "forced_backfill" not in states()[chosen], "it is not any more", 30, 0.3)
        ceph("osd", "pool", "force-backfill", POOL)
        wait_for(lambda: "forced_backfill" in states()[chosen], "its pool is", 30, 0.3)
        ceph("osd", "unset", "nobackfill")
        wait_for(all_clean, "nothing is forced any more", 90, 0.3)


if __name__ == "__main__":
    unittest.main()
