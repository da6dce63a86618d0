"""Recovery and backfill as an operator steers them: flags of the cluster, groups that go first, groups that peer anew,
members that recover beside those who serve.

The expectations hold on Ceph 16.2 as well. An OSD is marked out and in again, so that groups move with all their
copies, or down for a while; nobody is killed.
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


def clean_without(osd):
    """All groups are clean on others. What a group says may be older than the map: its sets tell."""
    return all_clean() and all(osd not in pg["up"] + pg["acting"] for pg in groups().values())


def clean_with(osd):
    """All groups are clean, some of them there again."""
    return all_clean() and any(osd in pg["acting"] for pg in groups().values())


def waiting():
    return {pgid for pgid, words in states().items() if words & {"backfill_wait", "backfilling", "recovery_wait", "recovering"}}


def waiting_still():
    """The groups that wait, once no more join or leave them for a while: on a busy machine they peer one by one."""
    def stays():
        before = waiting()
        time.sleep(STILL_SECONDS)
        return before if before == waiting() else None
    return wait_for(stays, "the same groups wait", 60, 0.3)


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
        wait_for(lambda: clean_with(self.osd), "all groups are clean again", 90, 0.3)

    def test_flags_hold_groups_back(self):
        for flag in ("norebalance", "nobackfill", "norecover"):
            with self.subTest(flag=flag):
                ceph("osd", "set", flag)
                ceph("osd", "out", self.osd)
                wait_for(lambda: waiting() and misplaced() > 0, "groups are to move", 60, 0.3)
                held = waiting_still()
                before = misplaced()
                time.sleep(STILL_SECONDS)
                self.assertEqual(waiting(), held)
                self.assertGreaterEqual(misplaced(), before)
                self.assertIn(f"{flag} flag(s) set", ceph("health", "detail").stdout)
                ceph("osd", "unset", flag)
                wait_for(lambda: clean_without(self.osd), "they have moved", 90, 0.3)
                ceph("osd", "in", self.osd)
                wait_for(lambda: clean_with(self.osd), "they are back", 90, 0.3)

    def test_progress_is_shown(self):
        events = lambda: [event["message"] for event in ceph_json("status")["progress_events"].values()]
        recovers = lambda: any(message.startswith("Global Recovery Event (") for message in events())
        ceph("osd", "set", "nobackfill")
        ceph("osd", "out", self.osd)
        wait_for(recovers, "it is shown that groups are to move", 60, 0.3)
        self.assertRegex(ceph("status").stdout, r"(?s)  progress:\n.*    Global Recovery Event \(\S+\)\n +\[=*\.*\]")
        self.assertIn("Global Recovery Event (", ceph("progress").stdout)
        ceph("osd", "unset", "nobackfill")
        wait_for(lambda: clean_without(self.osd), "they have moved", 90, 0.3)
        wait_for(lambda: not recovers(), "that is over", 60, 0.3)
        completed = ceph_json("progress", "json")["completed"]
        self.assertIn("Global Recovery Event", [event["message"] for event in completed])
        self.assertIn("[Complete]: Global Recovery Event", ceph("progress").stdout)

    def test_a_forced_group_says_so_until_it_is_clean(self):
        ceph("osd", "set", "nobackfill")
        ceph("osd", "out", self.osd)
        # One that is filled: what recovers by its log waits for a moment only.
        chosen = min(waiting_still())
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


class Rejoining(unittest.TestCase):
    """A pool of one group whose members are all OSDs."""

    @classmethod
    def setUpClass(cls):
        ceph("osd", "pool", "create", POOL, 1, 1)
        ceph("osd", "pool", "set", POOL, "pg_autoscale_mode", "off")
        ceph("osd", "pool", "application", "enable", POOL, "test")
        ceph("config", "set", "osd", "osd_async_recovery_min_cost", 5)

    @classmethod
    def tearDownClass(cls):
        ceph("config", "rm", "osd", "osd_async_recovery_min_cost")
        drop_pool(POOL)

    def setUp(self):
        wait_for(self.is_clean, "the group is clean", 90, 0.3)
        self.pgid, pg = groups().popitem()
        self.acting = pg["acting"]

    def tearDown(self):
        for flag in ("norecover", "noup"):
            ceph("osd", "unset", flag)
        wait_for(self.is_clean, "the group is clean again", 90, 0.3)

    @staticmethod
    def is_clean():
        return [{"active", "clean"}] == list(states().values())

    def query(self):
        return ceph_json("pg", self.pgid, "query")

    def put(self, numbers, source):
        for number in numbers:
            run("rados", "-p", POOL, "put", f"o{number}", source)

    def test_who_lacks_much_recovers_beside_those_who_serve(self):
        away = self.acting[-1]
        self.put(range(20), "/etc/hostname")
        ceph("osd", "set", "norecover")
        ceph("osd", "set", "noup")
        ceph("osd", "down", away)
        wait_for(lambda: away not in groups()[self.pgid]["acting"], "it is away", 30, 0.3)
        self.put(range(20), "/etc/services")
        ceph("osd", "unset", "noup")

        def recovers_beside():
            found = self.query()
            return away in found["up"] and str(away) in found.get("async_recovery_targets", [])

        wait_for(recovers_beside, "it is back and recovers beside the others", 60, 0.3)
        self.assertEqual(self.query()["acting"], self.acting[:-1])
        # Nobody recovers anything, and no write waits for that.
        self.put(range(20), "/etc/hostname")
        self.assertTrue(recovers_beside())
        ceph("osd", "unset", "norecover")
        wait_for(self.is_clean, "it has everything", 90, 0.3)
        self.assertEqual(groups()[self.pgid]["acting"], self.acting)
        self.assertFalse(self.query().get("async_recovery_targets"))

    def test_a_group_peers_anew_when_asked_to(self):
        def interval():
            return self.query()["info"]["history"]["same_interval_since"]

        self.put(range(3), "/etc/hostname")
        before = interval()
        ceph("pg", "repeer", self.pgid)
        wait_for(lambda: interval() > before and self.is_clean(), "it has peered", 60, 0.3)
        self.assertEqual(groups()[self.pgid]["acting"], self.acting)
        missing = ceph("pg", "repeer", self.pgid.split(".")[0] + ".77", check=False)
        self.assertEqual(missing.returncode, 2)


if __name__ == "__main__":
    unittest.main()
