"""What commands of an operator answer where there is nothing to do, or where it would do harm: exit codes and words.

The expectations hold on Ceph 16.2 as well.
"""
import json
import unittest
import uuid

import harness
from ceph_tool import Ceph
from harness import run, wait_for

POOL = "operator-refusals"
ceph = ceph_json = None

ENOENT, ENOEXEC, EBUSY, EEXIST, EINVAL = 2, 8, 16, 17, 22


def setUpModule():
    global ceph, ceph_json
    harness.make_pool(POOL)
    ceph = Ceph()
    ceph_json = ceph.json
    # Groups that are divided are unknown for a moment, and then nothing is said of OSDs that hold them.
    ceph("osd", "pool", "set", POOL, "pg_autoscale_mode", "off")


def all_clean():
    states = ceph_json("pg", "stat")["pg_summary"]["num_pg_by_state"]
    return {state["name"] for state in states} == {"active+clean"}


def tearDownModule():
    ceph.close()
    harness.drop_pool(POOL)


class Answers(unittest.TestCase):
    def setUp(self):
        wait_for(all_clean, "all groups are clean", 60, 0.3)

    def answers(self, command, code, text):
        """The exit code, and words among what is printed."""
        done = ceph(*command.split(), check=False)
        self.assertEqual(done.returncode, code, f"{command}: {done.stdout}{done.stderr}")
        self.assertIn(text, done.stdout + done.stderr, command)

    def all_answer(self, table):
        for command, code, text in table:
            with self.subTest(command=command):
                self.answers(command, code, text)


class Refusals(Answers):
    def test_of_the_crush_map(self):
        self.all_answer([
            ("osd crush rename-bucket nosuch other", ENOENT, "srcname = 'nosuch' does not exist"),
            ("osd crush rename-bucket default default", EEXIST, "dstname = 'default' already exists"),
            ("osd crush rule rename nosuch other", ENOENT, "source rule name 'nosuch' does not exist"),
            ("osd crush rule rename replicated_rule replicated_rule", 0, "destination rule name is equal to source"),
            ("osd crush class rename nosuch other", ENOENT, "fail to rename 'nosuch' to 'other' : (2) No such file"),
            ("osd crush get-device-class 77", 0, ""),
            ("osd tree-from nosuch", ENOENT, "bucket 'nosuch' does not exist"),
        ])
        name = ceph_json("osd", "crush", "class", "ls")[0]
        self.answers(f"osd crush class rename {name} {name}", EEXIST, f"fail to rename '{name}' to '{name}' : (17)")
        self.assertEqual(ceph_json("osd", "crush", "get-device-class", 77), [{"osd": 77, "device_class": ""}])
        self.assertEqual(set(ceph_json("osd", "tree-from", "default")), {"nodes"})

    def test_of_settings(self):
        self.all_answer([
            ("osd set full", EINVAL, "unrecognized flag 'full'"),
            ("osd unset full", EINVAL, "unrecognized flag 'full'"),
            (f"osd pool set-quota {POOL} max_objects 10Ki", EINVAL, "error parsing value '10Ki'"),
            (f"osd pool set-quota {POOL} max_objects 10K", 0, "set-quota max_objects = 10000"),
            (f"osd pool set-quota {POOL} max_objects 0", 0, "set-quota max_objects = 0"),
            ("config-key rm nosuch", 0, "key deleted"),
            ("auth import", EINVAL, "auth import: no data supplied"),
            ("mon metadata nosuch", ENOENT, "requested mon not found"),
        ])

    def test_of_options_given_as_arguments(self):
        for who in ("osd.0", "mon.a"):
            self.all_answer([
                (f"tell {who} injectargs --nosuch_option=1", EINVAL, "failed to parse arguments: --nosuch_option=1"),
                (f"tell {who} injectargs foo", EINVAL, "failed to parse arguments: foo"),
                (f"tell {who} injectargs --osd_max_backfills=many", EINVAL,
                 "Parse error setting osd_max_backfills to 'many' using injectargs"),
                (f"tell {who} injectargs --osd_max_backfills=2", 0, "osd_max_backfills = '2'"),
            ])
            # What names an option is set, whatever stands beside it.
            done = ceph("tell", who, "injectargs", "--osd_max_backfills 3 --nosuch 4", check=False)
            self.assertEqual(done.returncode, EINVAL)
            self.assertIn("failed to parse arguments: --nosuch,4\nosd_max_backfills = '3'", done.stderr)
            option = json.loads(ceph("tell", who, "config", "get", "osd_max_backfills").stdout)
            self.assertEqual(option, {"osd_max_backfills": "3"})
            ceph("tell", who, "config", "unset", "osd_max_backfills")
            self.assertIn("ERROR: (22) Invalid argument", ceph("daemon", who, "injectargs", "--nosuch=1").stdout)

    def test_of_groups(self):
        self.all_answer([
            ("pg scrub 99.0", ENOENT, "pg 99.0 does not exist"),
            ("pg repair 99.0", ENOENT, "pg 99.0 does not exist"),
        ])


class Removal(Answers):
    """OSDs that are needed stay; those that never started come and go."""

    def test_of_osds_in_use(self):
        self.all_answer([
            ("osd destroy 0", EBUSY, "pgs currently mapped to them"),
            ("osd purge 0", EBUSY, "pgs currently mapped to them"),
            ("osd destroy 0 --yes-i-really-mean-it", EBUSY, "osd.0 is not `down`"),
            ("osd purge 0 --force", EBUSY, "osd.0 is not `down`"),
            ("osd purge-new 0", 1, "Are you SURE?"),
            ("osd purge-new 0 --yes-i-really-mean-it", EBUSY, "osd.0 is not `down`"),
            ("osd lost 0 --yes-i-really-mean-it", EBUSY, "osd.0 is not down"),
            ("osd destroy 77", 0, "osd.77 does not exist"),
            ("osd purge 77", 0, "osd.77 does not exist"),
            ("osd last-stat-seq 77", 0, "0"),
        ])

    def test_of_osds_that_never_started(self):
        one, highest = uuid.uuid4(), ceph_json("osd", "getmaxosd")["max_osd"]
        self.answers(f"osd new {one} 0", EINVAL, f"id 0 already in use and does not match uuid {one}")
        osd = int(ceph("osd", "new", one).stdout)
        try:
            self.assertEqual(int(ceph("osd", "new", one).stdout), osd, "asked for again")
            self.all_answer([
                (f"osd new {one} 0", EEXIST, f"uuid {one} already in use for different id {osd}"),
                ("osd scrub all", 0, "instructed osd(s) 0,1,2 to scrub"),
                (f"osd destroy {osd}", 0, f"destroyed osd.{osd}"),
                (f"osd purge {osd}", 0, f"purged osd.{osd}"),
            ])
        finally:
            ceph("osd", "purge", osd, "--force")
            ceph("osd", "setmaxosd", highest)
        self.assertNotIn(osd, ceph_json("osd", "ls"))


class Modules(Answers):
    """Commands of the manager's modules."""

    def test_crashes_and_devices(self):
        self.all_answer([
            ("crash stat", 0, "0 crashes recorded"),
            ("crash ls", 0, ""),
            ("crash ls-new", 0, ""),
            ("crash info nosuch", 0, "crash info: nosuch not found"),
            ("crash archive-all", 0, ""),
            ("crash prune 10", 0, ""),
            ("device ls-by-daemon osd.0", 0, "DEVICE  HOST:DEV  EXPECTED FAILURE\n"),
            ("device ls-by-host nosuch", 0, "DEVICE  DEV  DAEMONS  EXPECTED FAILURE\n"),
            ("device info nosuch", ENOENT, "device nosuch not found"),
        ])
        self.assertEqual(ceph_json("crash", "ls-new"), [])
        self.assertEqual(ceph_json("device", "ls-by-daemon", "osd.0"), [])

    def test_the_balancer(self):
        ceph("balancer", "off")
        self.all_answer([
            ("balancer mode none", 0, ""),
            ("balancer pool ls", 0, ""),
            ("balancer optimize x", ENOEXEC, "to choose a valid mode first"),
            ("balancer show x", ENOENT, "plan x not found"),
            ("balancer dump x", ENOENT, "plan x not found"),
            ("balancer rm x", 0, ""),
        ])

    def test_rates_of_clients(self):
        def asked(**arguments):
            code, out, says = ceph.cluster.mgr_command(json.dumps({"prefix": "iostat", **arguments}), b"")
            self.assertEqual(code, 0, says)
            return out.decode().splitlines()
        line, = asked()
        self.assertRegex(line, r"^\|( +-?[\d.]+ [KMG]?i?B/s \|){3}( +-?\d+ \|){3}$")
        self.assertEqual(len(line), 79)
        rule, headings, again, line = asked(print_header=True, width=120)
        self.assertEqual((rule, again), ("+" + ("-" * 19 + "+") * 6,) * 2)
        self.assertEqual(headings.split(), "| Read | Write | Total | Read IOPS | Write IOPS | Total IOPS |".split())
        self.assertEqual({len(headings), len(line)}, {121})

    def test_which_modules_there_are(self):
        listed = ceph_json("mgr", "module", "ls")
        self.assertLessEqual({"balancer", "crash", "devicehealth", "pg_autoscaler", "progress", "status"},
                             set(listed["always_on_modules"]))
        self.assertEqual(set(listed), {"always_on_modules", "enabled_modules", "disabled_modules"})


class Monitor(Answers):
    def test_a_ping_is_answered_with_a_report(self):
        report = json.loads(run("ceph", "ping", "mon.a").stdout)
        self.assertEqual(set(report), {"health", "mon_status"})
        self.assertLessEqual({"status", "checks", "mutes"}, set(report["health"]))
        self.assertEqual((report["mon_status"]["name"], report["mon_status"]["quorum"]), ("a", [0]))

    def test_who_blocks(self):
        nobody = {"pg_ready": True, "osd_blocked_by": {"osd_blocked_by_infos": []}}
        wait_for(lambda: ceph_json("osd", "blocked-by") == nobody, "nobody blocks", 30, 0.3)


if __name__ == "__main__":
    unittest.main()
