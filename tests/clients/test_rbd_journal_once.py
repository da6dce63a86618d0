"""A journaled image whose writer dies: what is in the journal, and not yet in the image, comes to the image from there.

Events are appended to the journal at once, while what they write may stay in the client's cache. A writer killed with -9
leaves events that no object of the image shows; who takes the image's lock next replays them. The expectations hold on
Ceph 16.2 as well.
"""
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

import rbd

import stress_rbd
from harness import wait_for
from rbd_pool import KIB, MIB, Images

FEATURES = rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_JOURNALING
BLOCK, BLOCKS = 4 * KIB, 64
# Where the blocks are that stay in the writer's cache: in an object of their own.
CACHED_AT = 8 * MIB

# Writes numbered blocks for ever, round and round, and says of each when it is flushed; or so many blocks that it does not
# flush, and then says so.
WRITER = """
import itertools, signal, sys, rados_pool, rbd
options = dict(rbd_cache="true", rbd_cache_policy="writeback", rbd_cache_writethrough_until_flush="false",
               rbd_cache_max_dirty="25165824", rbd_cache_target_dirty="25165824", rbd_cache_max_dirty_age="1000")
image = rbd.Image(rados_pool.connect(**options).open_ioctx(sys.argv[1]), sys.argv[2])
size, blocks, cached_at = map(int, sys.argv[3:])
for number in itertools.count():
    image.write(b"%08d" % number * (size // 8), number % blocks * size + cached_at)
    if not cached_at and number % 4 == 3:
        image.flush()
        print(number, flush=True)
    if cached_at and number == blocks - 1:
        print("cached", flush=True)
        signal.pause()
"""


class Replayed(Images):
    def setUp(self):
        short = stress_rbd.short_watches()
        short.__enter__()
        self.addCleanup(short.__exit__, None, None, None)

    def make(self, name):
        self.create(name, features=FEATURES)
        return self.tool_json("info", self.spec(name))["id"]

    def writer(self, name, cached_at):
        command = [sys.executable, "-c", WRITER, self.pool, name, *map(str, (BLOCK, BLOCKS, cached_at))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)

    def journal(self, verb, name):
        return self.tool_json("journal", verb, "--pool", self.pool, "--image", name)

    def entries(self, name):
        """How many entries the journal has that the image is not said to have; all of them can be read."""
        said = self.tool("journal", "inspect", "--pool", self.pool, "--image", name)
        inspected, = re.findall(r"(\d+) entries inspected, 0 errors", said)
        return int(inspected)

    def committed(self, name):
        """The newest entry that the image has: its tag and number; -1 if it has none."""
        client, = self.journal("status", name)["registered_clients"]
        self.assertEqual((client["id"], client["state"]), ("", "connected"))
        found = client["commit_position"]["object_positions"]
        return max(((int(p["tag_tid"]), int(p["entry_tid"])) for p in found), default=(-1, -1))

    def data_objects(self, ident):
        return sorted(int(o.key[-16:], 16) for o in self.io.list_objects() if o.key.startswith(f"rbd_data.{ident}."))

    def open_for_writing(self, name):
        """Takes the lock, before which what the journal has is replayed."""
        began = time.monotonic()
        with self.image(name) as image:
            image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
        self.assertLess(time.monotonic() - began, 30)

    def numbers(self, name, at):
        """What each block says, which it must say throughout."""
        blocks = [self.read(name, at + slot * BLOCK, BLOCK) for slot in range(BLOCKS)]
        self.assertEqual([block for block in blocks if block != block[:8] * (BLOCK // 8)], [])
        return [int(block[:8]) for block in blocks]

    def test_what_only_the_journal_has(self):
        ident = self.make("only")
        self.write("only", (0, b"before"))
        before = self.committed("only")
        writer = self.writer("only", CACHED_AT)
        try:
            self.assertEqual(writer.stdout.readline(), "cached\n")
            wait_for(lambda: self.entries("only") >= BLOCKS, "the journal has all writes", 30)
            self.assertEqual(self.data_objects(ident), [0], "the writer keeps its blocks in its cache")
        finally:
            writer.kill()
            writer.communicate()
        self.open_for_writing("only")
        self.assertEqual(self.data_objects(ident), [0, CACHED_AT // (4 * MIB)])
        self.assertEqual(self.numbers("only", CACHED_AT), list(range(BLOCKS)))
        self.assertEqual(self.read("only", 0, 6), b"before")
        self.assertEqual(self.entries("only"), 0)
        self.assertGreater(self.committed("only"), before)
        info = self.journal("info", "only")
        self.assertEqual((info["journal_id"], info["order"], info["splay_width"]), (ident, 24, 4))
        self.off_and_on("only", ident)

    def off_and_on(self, name, ident):
        journals = lambda: [o.key for o in self.io.list_objects() if o.key.startswith("journal") and ident in o.key]
        self.assertNotEqual(journals(), [])
        self.tool("feature", "disable", self.spec(name), "journaling")
        self.assertNotIn("journal", self.tool_json("info", self.spec(name)))
        self.assertEqual(journals(), [])
        self.assertEqual(self.numbers(name, CACHED_AT), list(range(BLOCKS)))
        self.tool("feature", "enable", self.spec(name), "journaling")
        self.assertEqual(self.tool_json("info", self.spec(name))["journal"], ident)
        self.write(name, (0, b"again!"))
        self.assertEqual(self.read(name, 0, 6), b"again!")
        self.assertEqual(self.entries(name), 0)
        self.assertGreater(self.committed(name), (-1, -1))

    def test_a_writer_is_killed_while_it_writes(self):
        """Each block is the last that was said to be safe, or one that was on its way."""
        self.make("busy")
        writer, told = self.writer("busy", 0), []
        try:
            while not told or told[-1] < 300:
                told.append(int(writer.stdout.readline()))
        finally:
            writer.kill()
            told += [int(line) for line in writer.communicate()[0].split()]
        before = self.committed("busy")
        self.assertGreater(self.entries("busy"), 0)
        self.open_for_writing("busy")
        for slot, number in enumerate(self.numbers("busy", 0)):
            acknowledged = told[-1] - (told[-1] - slot) % BLOCKS
            self.assertIn(number - acknowledged, (0, BLOCKS), f"block {slot}: {number} after {told[-1]}")
        self.assertEqual(self.entries("busy"), 0)
        self.assertGreater(self.committed("busy"), before)


if __name__ == "__main__":
    unittest.main()
