"""What a virtual machine trusts its disk to: nothing that was acknowledged is lost, whatever is done to the image.

Seconds of what `cargo xtask stress-rbd` does for minutes, and fio's own verification under the same treatment. The
expectations hold on Ceph 16.2 as well.
"""
import os
import random
import subprocess
import unittest

import rbd

import stress_rbd
from rbd_pool import MIB, Images


class Integrity(unittest.TestCase):
    def run_for(self, seconds, **how):
        seed = random.SystemRandom().randrange(1 << 32)
        said, wrong = stress_rbd.stress(seed=seed, seconds=seconds, **how)
        if wrong:
            self.fail(f"seed {seed}: {wrong}")
        self.assertRegex(said, r"[1-9]\d* snapshots")
        self.assertRegex(said, r"[1-9]\d* versions")
        return said

    def test_two_writers_among_snapshots_clones_and_resizes(self):
        self.assertIn("1 flattened", self.run_for(5, kills=0))

    def test_a_writer_killed_with_the_lock_is_fenced_and_loses_nothing_it_was_told(self):
        self.assertIn("1 killed", self.run_for(3, kills=1))


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
