"""`loligo up`, `down` and `status` as a person meets them: shapes, resuming, crashes, bad input."""
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

import harness
from harness import Loligo, OwnCluster, has_ended, run, wait_for


class Lifecycle(OwnCluster):
    def test_up_is_healthy_at_once_in_both_shapes(self):
        for flags in ([], ["--processes"]):
            with self.subTest(flags=flags):
                out = self.cluster.up(*flags).stdout
                self.assertIn("HEALTH_OK", out)
                self.assertIn("CEPH_CONF=", out)
                self.assertEqual(self.cluster.health(), "HEALTH_OK")
                names = sorted(self.cluster.pids())
                self.assertEqual(names, ["mon.a", "osd.0", "osd.1", "osd.2"] if flags else ["loligo"])
                self.cluster.down()
                self.assertEqual(self.cluster.pids(), {})
                shutil.rmtree(self.cluster.dir)

    def test_nobody_has_to_read_what_is_printed(self):
        """`loligo up | head -1` once panicked, which ended the cluster that had just been started."""
        def unread(*command):
            reading, writing = os.pipe()
            os.close(reading)
            process = subprocess.Popen([Loligo.binary(), *map(str, command)], stdout=writing, stderr=subprocess.PIPE, text=True)
            os.close(writing)
            return process

        port = harness.free_port()
        # A pipe that holds one line at a time: the next is being written when the reader goes.
        reading, writing = os.pipe2(os.O_DIRECT)
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        command = [Loligo.binary(), "up", "--dir", str(self.cluster.dir), "--port", str(port)]
        serving = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
        self.assertIn(b"HEALTH_OK", os.read(reading, 4096))
        os.close(reading)
        for verb in (["status", "--dir", self.cluster.dir], ["sim", "--seed", "1"], ["sim", "--planted", "list"], ["store", "format"]):
            with self.subTest(verb=verb):
                process = unread(*verb)
                said = process.communicate(timeout=60)[1]
                self.assertNotIn("panicked", said)
                self.assertGreaterEqual(process.returncode, 0, "ended by a signal")
        self.assertIsNone(serving.poll(), "it goes on")
        self.assertEqual(self.cluster.health(), "HEALTH_OK")
        serving.send_signal(signal.SIGTERM)
        said = serving.communicate(timeout=60)[1]
        self.assertNotIn("panicked", said)
        self.assertEqual(serving.returncode, 0, said)
        with self.subTest("detached"):
            process = unread("up", "--dir", self.cluster.dir, "--detach")
            process.communicate(timeout=60)
            self.assertEqual((process.returncode, self.cluster.health()), (0, "HEALTH_OK"))

    def test_a_clean_stop_keeps_objects_and_pools(self):
        for flags in ([], ["--processes"]):
            with self.subTest(flags=flags):
                self.cluster.up(*flags)
                conf = self.cluster.conf
                run("ceph", "osd", "pool", "create", "p", "8", conf=conf)
                run("rados", "-p", "p", "put", "o", "/etc/hostname", conf=conf)
                run("rados", "-p", "p", "setomapval", "o", "key", "value", conf=conf)
                self.cluster.down()
                self.cluster.up(*flags, new=False)
                self.assertEqual(run("rados", "-p", "p", "get", "o", "-", conf=conf).stdout, Path("/etc/hostname").read_text())
                self.assertIn("value", run("rados", "-p", "p", "getomapval", "o", "key", conf=conf).stdout)
                self.cluster.down()
                shutil.rmtree(self.cluster.dir)

    def test_kill_9_leaves_nothing_that_the_next_up_trips_over(self):
        for flags in ([], ["--processes"]):
            with self.subTest(flags=flags):
                self.cluster.up(*flags)
                pids = self.cluster.pids()
                for pid in pids.values():
                    os.kill(pid, signal.SIGKILL)
                for pid in pids.values():
                    wait_for(lambda: has_ended(pid), f"{pid} is gone")
                self.cluster.up(*flags, new=False)
                self.assertEqual(self.cluster.health(), "HEALTH_OK")
                self.cluster.down()
                shutil.rmtree(self.cluster.dir)

    def test_ctrl_c_and_sigterm_stop_a_foreground_cluster(self):
        for flags in ([], ["--processes"]):
            for stop in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(flags=flags, signal=stop.name):
                    command = [Loligo.binary(), "up", "--dir", self.cluster.dir, "--port", str(harness.free_port()), *flags]
                    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                    try:
                        self.assertIn("HEALTH_OK", process.stdout.readline())
                        process.send_signal(stop)
                        self.assertEqual(process.wait(30), 0)
                    finally:
                        process.kill()
                        process.stdout.close()
                        process.wait()
                    self.assertEqual(self.cluster.pids(), {})
                    shutil.rmtree(self.cluster.dir)

    def refused(self, done, *words):
        """The command failed with one line that has these words."""
        self.assertNotEqual(done.returncode, 0)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_taken_port_is_named_and_nothing_is_left(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.refused(self.cluster.up("--port", port, new=False, check=False), port)
        self.assertFalse(self.cluster.dir.exists())

    def test_a_directory_in_use_is_refused_and_the_cluster_lives_on(self):
        self.cluster.up()
        before = self.cluster.pids()
        self.refused(self.cluster.up(new=False, check=False), "in use", str(before["loligo"]))
        self.assertEqual(self.cluster.pids(), before)
        self.assertEqual(self.cluster.health(), "HEALTH_OK")

    def test_a_directory_that_cannot_be_written_is_refused(self):
        blocker = self.parent / "file"
        blocker.write_text("in the way")
        self.refused(Loligo(blocker / "c").up(check=False), str(blocker))
        self.assertEqual(blocker.read_text(), "in the way")

    def test_a_directory_with_other_things_in_it_is_left_alone(self):
        self.cluster.dir.mkdir()
        (self.cluster.dir / "thesis.txt").write_text("two years")
        self.refused(self.cluster.up(check=False), "not empty")
        self.assertEqual([p.name for p in self.cluster.dir.iterdir()], ["thesis.txt"])

    def test_a_corrupt_keyring_is_named_and_nothing_runs(self):
        for keyring in ("ceph.client.admin.keyring", "mon.a/keyring", "osd.1/keyring"):
            for flags in ([], ["--processes"]):
                with self.subTest(keyring=keyring, flags=flags):
                    self.cluster.up()
                    self.cluster.down()
                    (self.cluster.dir / keyring).write_text("[client.admin]\n\tkey = garbage\n")
                    self.refused(self.cluster.up(*flags, new=False, check=False), keyring)
                    self.assertEqual(self.cluster.pids(), {})
                    shutil.rmtree(self.cluster.dir)

    def test_status_tells_people_and_programs(self):
        self.cluster.up("--processes")
        plain = run(Loligo.binary(), "status", "--dir", self.cluster.dir).stdout
        self.assertIn("HEALTH_OK", plain)
        answer = json.loads(run(Loligo.binary(), "status", "--dir", self.cluster.dir, "--format", "json").stdout)
        self.assertEqual(answer["servers"], self.cluster.pids())
        self.assertEqual(answer["status"]["health"]["status"], "HEALTH_OK")
        self.assertEqual(answer["not_running"], [])
        # Those that ended were left out, as if there were none.
        pid = self.cluster.pids()["osd.1"]
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: has_ended(pid), "osd.1 has stopped")
        plain = run(Loligo.binary(), "status", "--dir", self.cluster.dir).stdout
        self.assertRegex(plain, r"(?m)^osd\.1 +not running$")
        answer = json.loads(run(Loligo.binary(), "status", "--dir", self.cluster.dir, "--format", "json").stdout)
        self.assertEqual((answer["servers"], answer["not_running"]), (self.cluster.pids(), ["osd.1"]))
        self.cluster.down()
        self.refused(run(Loligo.binary(), "status", "--dir", self.cluster.dir, check=False), "not running")

    def test_a_killed_osd_is_noticed_and_comes_back(self):
        self.cluster.up("--processes")
        conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "8", conf=conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "test", conf=conf)
        run("rados", "-p", "p", "put", "o", "/etc/hostname", conf=conf)
        os.kill(self.cluster.pids()["osd.2"], signal.SIGKILL)
        # A write makes the survivors talk to the dead one.
        run("rados", "-p", "p", "put", "o2", "/etc/hostname", conf=conf, seconds=60)
        wait_for(lambda: "1 osds down" in self.cluster.ceph("health", "detail").stdout, "osd.2 is marked down")
        with open(self.parent / "osd.log", "w") as log:
            again = subprocess.Popen([Loligo.binary(), "osd", "--id", "2", "--dir", self.cluster.dir], stdout=log, stderr=log)
        try:
            wait_for(lambda: self.cluster.health() == "HEALTH_OK", "healthy again")
            for name in ("o", "o2"):
                got = run("rados", "-p", "p", "get", name, "-", conf=conf).stdout
                self.assertEqual(got, Path("/etc/hostname").read_text())
        finally:
            again.terminate()
            again.wait(20)

    def test_what_a_purged_osd_left_is_named_and_hinders_nobody(self):
        """`up` once waited a minute for such an OSD, said that HEALTH_OK is not healthy, and stopped all."""
        self.cluster.up("--osds", "4", "--processes")
        pid = self.cluster.pids()["osd.3"]
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: has_ended(pid), "osd.3 has stopped")
        self.cluster.ceph("osd", "purge", "3", "--yes-i-really-mean-it")
        self.cluster.down()
        for flags in ([], ["--processes"]):
            with self.subTest(flags=flags):
                out = self.cluster.up(*flags, new=False).stdout
                self.assertIn("3 OSDs", out.splitlines()[0])
                self.assertRegex(out, rf"(?m)^osd\.3 is not up: .*purge.* delete {self.cluster.dir}/osd\.3\)$")
                self.assertEqual(self.cluster.health(), "HEALTH_OK")
                self.cluster.down()

    def test_an_osd_that_the_map_leaves_no_place_stops(self):
        """One that was destroyed once lived on, as nobody; `ceph osd stop` only marked down, and the OSD came back."""
        self.cluster.up("--processes")
        pids = self.cluster.pids()
        self.cluster.ceph("osd", "stop", "1")
        wait_for(lambda: has_ended(pids["osd.1"]), "osd.1 has stopped")
        self.cluster.ceph("osd", "set", "noup")
        self.cluster.ceph("osd", "down", "2")
        self.assertFalse(has_ended(pids["osd.2"]))
        self.cluster.ceph("osd", "destroy", "2", "--yes-i-really-mean-it")
        wait_for(lambda: has_ended(pids["osd.2"]), "osd.2 has stopped")
        self.cluster.ceph("osd", "unset", "noup")
        self.assertFalse(has_ended(pids["osd.0"]))
        # Who was asked to stop may come again.
        with open(self.parent / "osd.log", "w") as log:
            again = subprocess.Popen([Loligo.binary(), "osd", "--id", "1", "--dir", self.cluster.dir], stdout=log, stderr=log)
        try:
            wait_for(lambda: "2 up" in self.cluster.ceph("osd", "stat").stdout, "osd.1 is up")
        finally:
            again.terminate()
            again.wait(20)

    def test_a_cluster_whose_groups_cannot_work_is_resumed(self):
        """`up` once stopped it after a minute, so that nobody could tell it to go on without what is lost."""
        self.cluster.up("--osds", "3")
        conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "8", "8", conf=conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "test", conf=conf)
        wait_for(lambda: self.cluster.health() == "HEALTH_OK", "all clean")
        self.cluster.down()
        # More copies than there can be: no group becomes active.
        self.cluster.up(new=False)
        run("ceph", "osd", "pool", "set", "p", "size", "5", conf=conf)
        run("ceph", "osd", "pool", "set", "p", "min_size", "4", conf=conf)
        wait_for(lambda: "inactive" in self.cluster.ceph("health", "detail").stdout, "groups that are not active")
        self.cluster.down()
        began = time.monotonic()
        self.assertIn("inactive", self.cluster.up(new=False).stdout.splitlines()[0])
        self.assertLess(time.monotonic() - began, 50)
        self.assertIn("inactive", self.cluster.ceph("health", "detail").stdout)

    def serves_as(self, osds, objects):
        """So many OSDs are up and in, everything is clean, and every object is whole."""
        def clean():
            status = json.loads(self.cluster.ceph("-s", "--format", "json").stdout)
            counted = [status["osdmap"][key] for key in ("num_osds", "num_up_osds", "num_in_osds")]
            states = [state["state_name"] for state in status["pgmap"]["pgs_by_state"]]
            return counted == [osds] * 3 and states == ["active+clean"]
        wait_for(clean, f"{osds} OSDs and all clean")
        for name in objects:
            self.assertEqual(run("rados", "-p", "p", "get", name, "-", conf=self.cluster.conf).stdout, name * 1000)
        used = [node["kb_used_data"] for node in json.loads(self.cluster.ceph("osd", "df", "--format", "json").stdout)["nodes"]]
        self.assertEqual(len(used), osds)

    def test_a_cluster_grows_by_up_and_by_osds_that_join(self):
        self.cluster.up()
        conf = self.cluster.conf
        run("ceph", "osd", "pool", "create", "p", "32", conf=conf)
        run("ceph", "osd", "pool", "application", "enable", "p", "test", conf=conf)
        objects = [f"object-{number}" for number in range(20)]
        for name in objects:
            (self.parent / "data").write_text(name * 1000)
            run("rados", "-p", "p", "put", name, self.parent / "data", conf=conf)
        self.cluster.down()
        self.refused(run(Loligo.binary(), "up", "--dir", self.cluster.dir, "--osds", "2", check=False), "3 OSDs")
        self.cluster.up("--osds", "5", new=False)
        self.serves_as(5, objects)
        with open(self.parent / "osd.log", "w") as log:
            joined = subprocess.Popen([Loligo.binary(), "osd", "--join", "--dir", self.cluster.dir], stdout=log, stderr=log)
        try:
            self.serves_as(6, objects)
            self.assertIn("osd.5", self.cluster.ceph("osd", "tree").stdout)
        finally:
            joined.terminate()
            joined.wait(20)
        self.cluster.down()
        self.cluster.up("--processes", new=False)
        self.serves_as(6, objects)
        # What a removed OSD leaves is nobody's to overwrite.
        self.cluster.ceph("osd", "out", "5")
        wait_for(lambda: "safe" in self.cluster.ceph("osd", "safe-to-destroy", "5", check=False).stderr, "osd.5 is not needed")
        pid = self.cluster.pids()["osd.5"]
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: has_ended(pid), "osd.5 has stopped")
        self.cluster.ceph("osd", "purge", "5", "--yes-i-really-mean-it")
        self.refused(run(Loligo.binary(), "osd", "--join", "--dir", self.cluster.dir, check=False), "osd.5", "delete it")
        shutil.rmtree(self.cluster.dir / "osd.5")
        self.serves_as(5, objects)

    def test_start_is_quick_and_small(self):
        began = time.monotonic()
        self.cluster.up()
        seconds = time.monotonic() - began
        pid = self.cluster.pids()["loligo"]
        rss = next(l for l in Path(f"/proc/{pid}/status").read_text().splitlines() if l.startswith("VmRSS"))
        mib = int(rss.split()[1]) / 1024
        print(f"up to HEALTH_OK in {seconds * 1000:.0f} ms, {mib:.0f} MiB resident")
        # Generous bounds: a shared machine may be slow; what is measured is printed.
        self.assertLess(seconds, 5)
        self.assertLess(mib, 100)


if __name__ == "__main__":
    unittest.main()
