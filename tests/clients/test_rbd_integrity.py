"""What a virtual machine trusts its disk to: nothing that was acknowledged is lost, whatever is done to the image.

Seconds of what `cargo xtask stress-rbd` does for minutes, and fio's own verification under the same treatment. The
expectations hold on Ceph 16.2 as well.
"""
import os
import random
import subprocess
import sys
import time
import unittest

import harness
import stress_rbd
from rbd_pool import MIB, Images


class Integrity(unittest.TestCase):
    def test_two_writers_among_snapshots_clones_and_resizes_of_whom_one_is_killed(self):
        seed = random.SystemRandom().randrange(1 << 32)
        said, wrong = stress_rbd.stress(seed=seed, seconds=6, kills=1, downs=1)
        if wrong:
            self.fail(f"seed {seed}: {wrong}")
        for done in (r"[1-9]\d* snapshots", r"[1-9]\d* versions", "1 flattened", "1 killed", "1 OSDs said to be down"):
            self.assertRegex(said, done)


# Writes numbered blocks round and round, and says of each when it is written.
HOLDER = """
import itertools, rbd, stress_rbd, sys
image = rbd.Image(stress_rbd.client().open_ioctx(sys.argv[1]), sys.argv[2])
image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
for number in itertools.count():
    image.write(b"%010d" % number * 100, number % 50 * 1000)
    print(number, flush=True)
"""


class Fenced(Images):
    def test_the_lock_of_the_dead_is_broken_and_the_dead_shut_out(self):
        self.create("held")
        with stress_rbd.short_watches():
            holder = subprocess.Popen([sys.executable, "-c", HOLDER, self.pool, "held"], stdout=subprocess.PIPE, text=True,
                                      cwd=os.path.dirname(__file__))
            told = []
            try:
                told += [int(holder.stdout.readline()) for _ in range(200)]
                with self.image("held", read_only=True) as image:
                    (_, _, address), = image.list_lockers()["lockers"]
            finally:
                holder.kill()
                told += [int(line) for line in holder.communicate()[0].split()]
            # Whoever writes has to wait until the dead one's watch is over, and no longer.
            began = time.monotonic()
            with self.image("held") as image:
                image.write(b"taken over", 8 * MIB)
                self.assertLess(time.monotonic() - began, 30)
                self.assertIn(address, harness.run("ceph", "osd", "blocklist", "ls").stdout)
                self.assertIn(self.numbers(image), [self.last_numbers(told[-1]), self.last_numbers(told[-1] + 1)])
            harness.run("ceph", "osd", "blocklist", "rm", address)

    def numbers(self, image):
        """What each block says, which it must say throughout."""
        blocks = [image.read(slot * 1000, 1000) for slot in range(50)]
        self.assertEqual([block for block in blocks if block != block[:10] * 100], [])
        return [int(block[:10]) for block in blocks]

    @staticmethod
    def last_numbers(last):
        return [last - (last - slot) % 50 for slot in range(50)]


class Verified(Images):
    def test_fio_verifies_while_its_image_is_worked_on(self):
        self.create("parent", size=24 * MIB)
        with self.image("parent") as parent:
            parent.write(os.urandom(4 * MIB), 2 * MIB)
            parent.create_snap("base")
            parent.protect_snap("base")
        self.rbd.clone(self.io, "parent", "base", self.io, "disk", features=61)
        command = ["fio", "--name=t", "--ioengine=rbd", f"--pool={self.pool}", "--rbdname=disk", "--clientname=admin",
                   "--rw=randwrite", "--bsrange=4k-64k", "--bs_unaligned=0", "--size=16m", "--io_size=24m", "--rate=6m", "--iodepth=16",
                   "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--serialize_overlap=1"]
        fio = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            turns = self.work_on_the_image(fio)
            said = fio.communicate(timeout=120)[0]
        finally:
            fio.kill()
            fio.communicate()
        self.assertEqual(fio.returncode, 0, said)
        self.assertRegex(said, r"err= 0")
        self.assertGreater(turns, 2)

    def work_on_the_image(self, fio):
        """Until fio is done: snapshots, resizes, a write that takes the lock away, and once a flatten."""
        turns = 0
        while fio.poll() is None:
            with self.image("disk") as image:
                image.create_snap(f"s{turns}")
                image.resize((24 + turns % 3) * MIB)
                image.write(b"mine", 20 * MIB)
                if turns == 2:
                    image.flatten()
                if turns > 1:
                    image.remove_snap(f"s{turns - 2}")
            turns += 1
        return turns


if __name__ == "__main__":
    unittest.main()
