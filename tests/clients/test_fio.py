"""fio's rados engine with its own verification, and `rados load-gen`: stock load generators as checkers."""
import json
import os
import unittest

import harness
from harness import run

POOL = "fio"


class Fio(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL)

    @classmethod
    def tearDownClass(cls):
        harness.drop_pool(POOL)

    def fio(self, *flags):
        out = run("fio", "--name=t", "--ioengine=rados", f"--pool={POOL}", "--clientname=admin",
                  f"--conf={os.environ['CEPH_CONF']}", "--nrfiles=16", *flags, "--output-format=json").stdout
        job = json.loads(out[out.index("{"):])["jobs"][0]
        self.assertEqual(job["error"], 0)
        return job

    def test_random_writes_read_back_right(self):
        for bs, size in (("4k", "16m"), ("13k", "16m"), ("1m", "64m")):
            with self.subTest(bs=bs):
                job = self.fio("--rw=randwrite", f"--bs={bs}", f"--size={size}", "--iodepth=32",
                               "--verify=crc32c", "--do_verify=1", "--verify_fatal=1")
                self.assertGreater(job["write"]["total_ios"], 0)
                self.assertEqual(job["read"]["total_ios"], job["write"]["total_ios"])

    def test_mixed_reads_and_writes(self):
        job = self.fio("--rw=randrw", "--bs=8k", "--size=16m", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1")
        self.assertGreater(job["read"]["total_ios"], 0)

    def test_load_gen(self):
        out = run("rados", "-p", POOL, "load-gen", "--num-objects", "20", "--min-object-size", "4096",
                  "--max-object-size", "65536", "--min-op-len", "512", "--max-op-len", "16384", "--max-ops", "8",
                  "--run-length", "2", "--percent", "50", "--target-throughput", "100").stdout
        self.assertIn("completed", out)
        self.assertIn("cleaning up objects", out)


if __name__ == "__main__":
    unittest.main()
