"""Watch and notify, and fencing by blocklist: who is told, what comes back, and what becomes of the silent and the dead.

The expectations hold on Ceph 16.2 as well.
"""
import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import rados

from harness import run
from rados_pool import Pool, connect, wait_for


class Heard:
    """A watch's callback that remembers what it heard and answers with `answer`, after `delay_s`."""

    def __init__(self, answer=None, delay_s=0):
        self.answer, self.delay_s = answer, delay_s
        self.messages, self.errors, self.notifiers = [], [], []
        self.failed = threading.Event()

    def __call__(self, notify_id, notifier, watch_id, data):
        self.messages.append(data)
        self.notifiers.append(notifier)
        time.sleep(self.delay_s)
        return self.answer

    def error(self, watch_id, code):
        self.errors.append(abs(code))
        self.failed.set()


def watchers(pool, name):
    """Who watches, as `rados listwatchers` tells: [(address, client, cookie)]."""
    told = run("rados", "-p", pool, "listwatchers", name).stdout
    return [(m[1], int(m[2]), int(m[3])) for m in re.finditer(r"watcher=(\S+) client\.(\d+) cookie=(\d+)", told)]


def notify(io, name, message, timeout_ms=5000):
    """Notifies and returns (code, acknowledgements, who did not answer)."""
    answers = []
    done = io.aio_notify(name, lambda _, code, acks, missed: answers.append((code, acks, missed)), message, timeout_ms)
    done.wait_for_complete_and_cb()
    return answers[0]


# A watcher in a process of its own, so that it can die without saying anything.
WATCHER = """
import sys, time
from rados_pool import connect
client = connect()
watch = client.open_ioctx(sys.argv[1]).watch(sys.argv[2], lambda *_: b"alive", timeout=int(sys.argv[3]))
print("watching", flush=True)
time.sleep(600)
"""


class Watch(Pool):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.other = connect()
        cls.far = cls.other.open_ioctx(cls.pool)

    @classmethod
    def tearDownClass(cls):
        cls.far.close()
        cls.other.shutdown()
        super().tearDownClass()

    def watch(self, name, heard, io=None, **options):
        watch = (io or self.io).watch(name, heard, heard.error, **options)
        self.addCleanup(watch.close)
        return watch

    def test_a_notify_reaches_every_watcher_with_its_message(self):
        self.io.write_full("all", b"")
        near, far = Heard(), Heard()
        self.watch("all", near)
        self.watch("all", far, self.far)
        self.assertTrue(self.far.notify("all", "hello"))
        self.assertEqual((near.messages, far.messages), ([b"hello"], [b"hello"]))
        self.assertEqual(near.notifiers, [self.other.get_instance_id()])

    def test_acknowledgements_carry_an_answer(self):
        self.io.write_full("answers", b"")
        first = self.watch("answers", Heard(answer="one"))
        second = self.watch("answers", Heard(answer="two"))
        code, acks, missed = notify(self.far, "answers", "question")
        me = self.cluster.get_instance_id()
        self.assertEqual((code, missed), (0, []))
        self.assertEqual(sorted(acks), sorted([(me, first.get_id(), b"one"), (me, second.get_id(), b"two")]))

    def test_a_watch_is_listed_until_it_ends(self):
        self.io.write_full("listed", b"")
        self.assertEqual(watchers(self.pool, "listed"), [])
        watch = self.io.watch("listed", Heard())
        address = self.cluster.get_addrs()
        self.assertEqual(watchers(self.pool, "listed"), [(address, self.cluster.get_instance_id(), watch.get_id())])
        watch.close()
        self.assertEqual(watchers(self.pool, "listed"), [])

    def test_who_no_longer_watches_hears_nothing(self):
        self.io.write_full("closed", b"")
        gone, stays = Heard(), Heard()
        watch = self.io.watch("closed", gone)
        self.watch("closed", stays)
        watch.close()
        self.far.notify("closed", "x")
        self.assertEqual((gone.messages, stays.messages), ([], [b"x"]))

    def test_a_notify_that_nobody_hears_succeeds(self):
        self.io.write_full("alone", b"")
        self.assertEqual(notify(self.io, "alone", "x"), (0, [], []))

    def test_missing_objects_are_enoent(self):
        self.assertErrno(errno.ENOENT, self.io.watch, "missing", Heard())
        self.assertErrno(errno.ENOENT, self.io.notify, "missing")
        self.assertIn("(2)", run("rados", "-p", self.pool, "listwatchers", "missing", check=False).stderr)

    def test_who_answers_late_is_reported(self):
        self.io.write_full("late", b"")
        self.watch("late", Heard(delay_s=2.5))
        self.watch("late", Heard(answer="prompt"), self.far)
        began = time.monotonic()
        self.assertErrno(errno.ETIMEDOUT, self.far.notify, "late", "x", 1000)
        self.assertLess(time.monotonic() - began, 2.4)

    def test_removal_ends_the_watches(self):
        self.io.write_full("removed", b"")
        heard = Heard()
        watch = self.io.watch("removed", heard, heard.error)
        self.assertGreaterEqual(watch.check().total_seconds(), 0)
        self.far.remove_object("removed")
        self.assertTrue(heard.failed.wait(10))
        self.assertEqual(heard.errors, [errno.ENOTCONN])
        self.assertErrno(errno.ENOTCONN, watch.check)
        self.io.write_full("removed", b"")
        self.assertEqual(watchers(self.pool, "removed"), [])
        watch.close()

    def test_notifies_to_one_object_do_not_wait_for_each_other(self):
        self.io.write_full("crowd", b"")
        heard = Heard(answer="x")
        self.watch("crowd", heard)
        dones = [self.far.aio_notify("crowd", lambda *_: None, f"{i}", 10000) for i in range(20)]
        for done in dones:
            done.wait_for_complete_and_cb()
            self.assertEqual(done.get_return_value(), 0)
        self.assertEqual(sorted(heard.messages), sorted(b"%d" % i for i in range(20)))

    def test_messages_may_be_large(self):
        self.io.write_full("large", b"")
        heard = Heard()
        self.watch("large", heard)
        message = "m" * 500_000
        self.far.notify("large", message)
        self.assertEqual(heard.messages, [message.encode()])

    def test_a_watch_does_not_hinder_writes(self):
        self.io.write_full("busy", b"1")
        self.watch("busy", Heard())
        self.far.write_full("busy", b"2")
        self.io.append("busy", b"3")
        self.assertEqual(self.far.read("busy"), b"23")

    def test_a_watch_outlives_its_osds_interval(self):
        self.io.write_full("moved", b"")
        heard = Heard(answer="still here")
        self.watch("moved", heard)
        primary = self.primary("moved")
        up_from = lambda: self.mon("osd dump")["osds"][primary]["up_from"]
        before = up_from()
        self.mon("osd down", ids=[str(primary)])
        wait_for(lambda: up_from() > before, "the OSD has come up again")
        wait_for(lambda: [ack[2] for ack in notify(self.far, "moved", "x", 1000)[1] or []] == [b"still here"],
                 "the watch hears again")
        self.assertEqual(heard.errors, [])

    def test_the_dead_are_dropped_after_their_timeout(self):
        self.io.write_full("dead", b"")
        command = [sys.executable, "-c", WATCHER, self.pool, "dead", "4"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=os.path.dirname(os.path.abspath(__file__))) as process:
            self.assertEqual(process.stdout.readline(), b"watching\n")
            self.assertEqual([ack[2] for ack in notify(self.far, "dead", "x")[1]], [b"alive"])
            process.send_signal(signal.SIGKILL)
        self.assertErrno(errno.ETIMEDOUT, self.far.notify, "dead", "x", 1000)
        wait_for(lambda: not watchers(self.pool, "dead"), "the dead watcher is dropped", seconds=20)
        self.assertEqual(notify(self.far, "dead", "x"), (0, [], []))


class Fencing(Pool):
    def setUp(self):
        self.victim = connect()
        self.addCleanup(self.victim.shutdown)
        self.theirs = self.victim.open_ioctx(self.pool)
        self.addCleanup(self.mon, "osd blocklist clear")
        self.address = self.victim.get_addrs()

    def blocklist(self):
        code, out, _ = self.cluster.mon_command('{"prefix": "osd blocklist ls", "format": "json"}', b"")
        self.assertEqual(code, 0)
        # One array for clients, and one for ranges right behind it.
        clients, end = json.JSONDecoder().raw_decode(out.decode())
        ranges, _ = json.JSONDecoder().raw_decode(out.decode()[end:].strip())
        return {entry["addr"] for entry in clients}, {entry["range"] for entry in ranges}

    def test_the_fenced_can_neither_write_nor_read(self):
        self.theirs.write_full("fenced", b"before")
        self.cluster.blocklist_add(self.address, 600)
        self.cluster.wait_for_latest_osdmap()
        # The OSDs have the map as soon as they serve an op of it.
        self.assertEqual(self.io.read("fenced"), b"before")
        self.assertErrno(errno.ESHUTDOWN, self.theirs.write_full, "fenced", b"after")
        self.assertErrno(errno.ESHUTDOWN, self.theirs.read, "fenced")
        self.assertEqual(self.io.read("fenced"), b"before")

    def test_others_are_not_fenced(self):
        self.cluster.blocklist_add(self.address, 600)
        self.io.write_full("free", b"x")
        self.assertEqual(self.io.read("free"), b"x")

    def test_a_fence_ends_by_itself(self):
        self.theirs.write_full("expires", b"1")
        self.mon("osd blocklist", blocklistop="add", addr=self.address, expire=1.0)
        self.assertIn(self.address, self.blocklist()[0])
        wait_for(lambda: self.address not in self.blocklist()[0], "the entry is gone", seconds=20)
        wait_for(lambda: self.theirs.read("expires") == b"1", "the client is let in again")

    def test_a_fence_can_be_lifted(self):
        self.mon("osd blocklist", blocklistop="add", addr=self.address)
        self.cluster.wait_for_latest_osdmap()
        self.io.write_full("lifted", b"1")
        self.assertErrno(errno.ESHUTDOWN, self.theirs.read, "lifted")
        self.mon("osd blocklist", blocklistop="rm", addr=self.address)
        wait_for(lambda: self.theirs.read("lifted") == b"1", "the client is let in again")

    def test_an_address_without_nonce_means_all_of_its_clients(self):
        self.mon("osd blocklist", blocklistop="add", addr="127.0.0.1")
        self.cluster.wait_for_latest_osdmap()
        self.assertEqual(self.blocklist()[0], {"127.0.0.1:0/0"})
        self.assertErrno(errno.ESHUTDOWN, self.io.write_full, "all", b"")
        self.assertErrno(errno.ESHUTDOWN, self.theirs.write_full, "all", b"")
        self.mon("osd blocklist", blocklistop="rm", addr="127.0.0.1")
        self.cluster.wait_for_latest_osdmap()
        self.io.write_full("all", b"")

    def test_ranges_are_fenced(self):
        self.mon("osd blocklist", range="range", blocklistop="add", addr="127.0.0.0/30", expire=600.0)
        self.cluster.wait_for_latest_osdmap()
        self.assertEqual(self.blocklist(), (set(), {"127.0.0.0:0/30"}))
        self.assertErrno(errno.ESHUTDOWN, self.io.write_full, "range", b"")
        self.mon("osd blocklist", range="range", blocklistop="rm", addr="127.0.0.0/30")
        self.mon("osd blocklist", range="range", blocklistop="add", addr="127.0.0.4/30", expire=600.0)
        self.cluster.wait_for_latest_osdmap()
        self.io.write_full("range", b"")

    def test_the_fenced_lose_their_watches(self):
        self.io.write_full("watched", b"")
        heard = Heard()
        watch = self.theirs.watch("watched", heard, heard.error)
        self.assertEqual(len(watchers(self.pool, "watched")), 1)
        self.cluster.blocklist_add(self.address, 600)
        self.cluster.wait_for_latest_osdmap()
        wait_for(lambda: not watchers(self.pool, "watched"), "the watch is gone", seconds=10)
        self.assertEqual(notify(self.io, "watched", "x"), (0, [], []))
        self.assertEqual(heard.messages, [])
        # Lets the watch end in peace.
        self.mon("osd blocklist clear")
        self.cluster.wait_for_latest_osdmap()
        self.io.read("watched")
        watch.close()

    def test_junk_is_refused(self):
        self.assertErrno(errno.EINVAL, self.cluster.blocklist_add, "junk", 10)

    def test_the_tool_says_what_it_did(self):
        address = "192.0.2.7:0/42"
        add = run("ceph", "osd", "blocklist", "add", address, "100").stderr
        self.assertRegex(add, rf"blocklisting {address} until \S+ \(100 sec\)")
        listed = run("ceph", "osd", "blocklist", "ls")
        self.assertRegex(listed.stdout, rf"(?m)^{address} \S+$")
        self.assertIn("listed 1 entries", listed.stderr)
        self.assertIn(f"un-blocklisting {address}", run("ceph", "osd", "blocklist", "rm", address).stderr)
        self.assertIn(f"{address} isn't blocklisted", run("ceph", "osd", "blocklist", "rm", address).stderr)
        self.assertIn("removed all blocklist entries", run("ceph", "osd", "blocklist", "clear").stderr)


del Pool

if __name__ == "__main__":
    unittest.main()
