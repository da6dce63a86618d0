"""`loligo study`: the files that a study leaves, how one goes on, and a short one with stock fio on a cluster that the
study starts, and on one that runs already."""
import json
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from harness import Loligo, free_port, has_ended, run, running, wait_for


def processes_about(text):
    """The command lines of all processes in which a text stands, but for a study's own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and " study " not in line:
            found.append(line)
    return found


class Study(unittest.TestCase):
    def setUp(self):
        self.parent = Path(tempfile.mkdtemp(prefix="loligo-test-"))
        self.addCleanup(shutil.rmtree, self.parent, ignore_errors=True)
        self.out = self.parent / "out"

    def study(self, *args, check=True):
        return run(Loligo.binary(), "study", *args, "--out", self.out, "--runs", "1", check=check, seconds=300)

    def figures(self):
        results = json.loads((self.out / "results.json").read_text())
        return {of["configuration"]: {key: figure["mean"] for key, figure in of["figures"].items()}
                for of in results["configurations"]}

    def test_fairness_in_virtual_time_and_again(self):
        args = ("fairness", "--device-model", "ssd", "--readers", "2", "--seconds", "5")
        first = self.study(*args)
        self.assertIn("ssd, IOPS mode, 2 readers a group", first.stdout)
        self.assertLess(self.figures()["ssd, IOPS mode, 2 readers a group"]["share_error_percent"], 2)
        page = (self.out / "report.html").read_text()
        self.assertIn("<svg", page)
        # What is recorded is not run again, and options are not mixed.
        self.assertEqual(self.study(*args).stdout, first.stdout)
        refused = self.study("fairness", "--seconds", "6", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("choose another --out", refused.stderr)
        self.assertEqual(len(refused.stderr.splitlines()), 1)

    def test_a_client_alone_on_a_cluster_of_the_study(self):
        self.study("baseline", "--on", "live", "--seconds", "2", "--image-mib", "16", "--port", str(free_port()))
        figures = self.figures()["client alone"]
        self.assertGreater(figures["client_iops"], 10)
        self.assertGreaterEqual(figures["client_p99_ms"], figures["client_p95_ms"])
        self.assertFalse((self.out / "cluster").exists())

    def test_a_client_alone_on_disks_with_flash(self):
        self.study("baseline", "--on", "live", "--device-model", "hdd with", "--seconds", "2", "--image-mib", "16",
                   "--port", str(free_port()))
        self.assertGreater(self.figures()["client alone"]["client_iops"], 10)
        results = json.loads((self.out / "results.json").read_text())
        self.assertEqual(results["record"]["options"]["device-model"], "hdd with log and metadata on flash")
        self.assertEqual([path for path in self.out.iterdir() if path.name.startswith("cluster")], [])

    def test_recovery_on_a_cluster_that_runs(self):
        with running(self.parent / "c", "--osds", "4") as cluster:
            run("ceph", "config", "set", "osd", "osd_max_backfills", "3", conf=cluster.conf)
            self.study("recovery", "--on", cluster.conf, "--seconds", "2", "--image-mib", "16", "--objects", "40",
                       "--only", "high_recovery_ops", "--pgs", "16")
            figures = self.figures()["mclock, high_recovery_ops"]
            self.assertGreater(figures["client_iops"], 10)
            table = (self.out / "table.txt").read_text()
            self.assertRegex(table, r"served \d+ client requests a second, and reserved \d+ for them")
            # All is as it was.
            self.assertEqual(cluster.ceph("osd", "pool", "ls").stdout.split(), [])
            left = json.loads(cluster.ceph("config", "dump", "-f", "json").stdout)
            self.assertEqual([(of["name"], of["value"]) for of in left], [("osd_max_backfills", "3")])
            osds = json.loads(cluster.ceph("osd", "dump", "-f", "json").stdout)["osds"]
            self.assertEqual([(osd["up"], osd["in"]) for osd in osds], [(1, 1)] * 4)

    def test_a_pool_of_somebody_else_is_refused_at_once_and_stays(self):
        """A pool with the name of one of the study's was used as if it were, and removed at the end with all in it."""
        with running(self.parent / "c", "--osds", "4") as cluster:
            before = cluster.ceph("config", "dump", "-f", "json").stdout
            for study, pool in [("baseline", "study-client"), ("recovery", "study-client"), ("recovery", "study-recovery")]:
                with self.subTest(study=study, pool=pool):
                    cluster.ceph("osd", "pool", "create", pool, "8")
                    run("rados", "-p", pool, "put", "thesis", "/etc/hostname", conf=cluster.conf)
                    refused = self.study(study, "--on", cluster.conf, check=False)
                    self.assertEqual(refused.returncode, 1)
                    self.assertRegex(refused.stderr, f"a pool {pool}, .*rename or remove it")
                    self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
                    self.assertEqual(cluster.ceph("osd", "pool", "ls").stdout.split(), [pool])
                    self.assertEqual(run("rados", "-p", pool, "ls", conf=cluster.conf).stdout.split(), ["thesis"])
                    self.assertEqual(cluster.ceph("config", "dump", "-f", "json").stdout, before)
                    cluster.ceph("osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it")
                    shutil.rmtree(self.out, ignore_errors=True)

    def interrupted(self, *args, when, by, times=1):
        """Begins a study, asks it to stop when a condition is true, and waits for its end."""
        line = [str(word) for word in [Loligo.binary(), "study", *args, "--out", self.out, "--runs", "1"]]
        study = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(study.kill)
        wait_for(lambda: when() or study.poll() is not None, "the study has come so far", seconds=120)
        for _ in range(times):
            study.send_signal(by)
            # Until it has been taken: signals of one kind that wait together are one.
            time.sleep(0.05)
        _, said = study.communicate(timeout=120)
        self.assertEqual(study.returncode, 1, said)
        self.assertIn("interrupted; the same command goes on from there", said)
        self.assertNotIn("left behind", said)
        self.assertEqual(len(said.splitlines()), 1, said)

    def test_an_interrupted_study_takes_its_cluster_away(self):
        args = ("baseline", "--on", "live", "--seconds", "600", "--image-mib", "16", "--port", free_port())
        cluster, pids = self.out / "cluster", []

        def client_works():
            pids[:] = [int(path.read_text().split()[0]) for path in cluster.glob("run/*.pid")]
            return any("randwrite" in line for line in processes_about(str(self.out)))

        # Twice, as coreutils' `timeout` does it: that was once taken for a person who has lost patience.
        self.interrupted(*args, when=client_works, by=signal.SIGTERM, times=2)
        self.assertFalse(cluster.exists())
        self.assertEqual(len(pids), 5, "a monitor and four OSDs")
        self.assertTrue(all(has_ended(pid) for pid in pids))
        self.assertEqual(processes_about(str(self.out)), [])
        # While its cluster starts there is as little to be seen of it afterwards.
        self.interrupted(*args, when=lambda: processes_about(str(cluster)), by=signal.SIGINT)
        self.assertFalse(cluster.exists())
        self.assertEqual(processes_about(str(self.out)), [])

    def test_an_interrupted_study_leaves_a_cluster_as_it_was(self):
        with running(self.parent / "c", "--osds", "4") as cluster:
            def pool_is_filled():
                return any("rados" in line for line in processes_about("study-recovery"))

            # The recovery pool is filled while an OSD is away: all that the study ever changes is changed then.
            self.interrupted("recovery", "--on", cluster.conf, "--image-mib", "16", "--objects", "100000", "--only",
                             "high_recovery_ops", "--pgs", "16", when=pool_is_filled, by=signal.SIGINT)
            self.assertEqual(cluster.ceph("osd", "pool", "ls").stdout.split(), [])
            self.assertEqual(json.loads(cluster.ceph("config", "dump", "-f", "json").stdout), [])
            dump = json.loads(cluster.ceph("osd", "dump", "-f", "json").stdout)
            self.assertNotIn("noup", dump["flags"])
            wait_for(lambda: json.loads(cluster.ceph("osd", "stat", "-f", "json").stdout)["num_up_osds"] == 4,
                     "the OSD is back")
            self.assertEqual([osd["in"] for osd in dump["osds"]], [1] * 4)
            self.assertEqual(processes_about("study-recovery"), [])

    def test_what_cannot_be_is_one_line(self):
        for args, said in [
            (("recovery", "--on", "/nonexistent/ceph.conf"), "--on: '/nonexistent/ceph.conf' is neither sim nor live nor a ceph.conf"),
            (("fairness", "--device-model", "tape"), "--device-model tape: neither one of nvme"),
            (("recovery", "--only", "nothing"), "--only: no configuration's name contains 'nothing'"),
        ]:
            with self.subTest(args=args):
                refused = self.study(*args, check=False)
                self.assertEqual(refused.returncode, 1)
                self.assertIn(said, refused.stderr)
                self.assertEqual(len(refused.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
