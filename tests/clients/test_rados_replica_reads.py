"""Reads that any member of a placement group may answer: by whom they are answered, and that they are never stale."""
import json
import os
import threading
import unittest

import harness
import raw_ops

POOL = f"replica-reads-{os.getpid()}"
READ = raw_ops.extent("read")


class ReplicaReads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL, size=3, pg_num=1)
        cls.client = raw_ops.Client(os.environ["CEPH_CONF"], POOL)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        harness.drop_pool(POOL)

    @staticmethod
    def reads(osd):
        """How many reads an OSD has answered."""
        counters = harness.run("ceph", "tell", f"osd.{osd}", "perf", "dump", "osd").stdout
        return json.loads(counters)["osd"]["op_r"]

    def test_every_member_answers(self):
        self.assertEqual(self.client.operate("x", raw_ops.write_full(b"data")).result, 0)
        # What is durable everywhere Ceph's replicas learn from the next writes.
        for i in range(5):
            self.assertEqual(self.client.operate(f"y{i}", raw_ops.write_full(b"more")).result, 0)
        members = harness.ceph_json("osd", "map", POOL, "x")["acting"]
        self.assertEqual(len(members), 3)
        before = {osd: self.reads(osd) for osd in members}
        for _ in range(60):
            answer = self.client.operate("x", READ, raw_ops.plain("stat"), flags=raw_ops.BALANCE_READS)
            self.assertEqual((answer.result, answer.outputs[0]), (0, b"data"))
        for osd in members:
            self.assertGreater(self.reads(osd) - before[osd], 5, f"osd.{osd}")

    def test_localized_reads_and_missing_objects(self):
        self.assertEqual(self.client.operate("near", raw_ops.write_full(b"here")).result, 0)
        for flag in (raw_ops.BALANCE_READS, raw_ops.LOCALIZE_READS):
            for _ in range(10):
                self.assertEqual(self.client.operate("near", READ, flags=flag).outputs, [b"here"])
                self.assertEqual(self.client.operate("no such object", READ, flags=flag).result, -2)

    def test_reads_beside_writes_are_never_stale(self):
        """Each read sees at least what was acknowledged when it began."""
        acknowledged, ends, wrong = [0], threading.Event(), []

        def read():
            client = raw_ops.Client(os.environ["CEPH_CONF"], POOL)
            try:
                seen = 0
                while not ends.is_set():
                    least = max(seen, acknowledged[0])
                    answer = client.operate("counter", READ, flags=raw_ops.BALANCE_READS)
                    seen = int(answer.outputs[0])
                    if answer.result or seen < least:
                        wrong.append((answer, least))
            finally:
                client.close()

        self.assertEqual(self.client.operate("counter", raw_ops.write_full(b"0")).result, 0)
        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        try:
            for i in range(1, 400):
                self.assertEqual(self.client.operate("counter", raw_ops.write_full(b"%d" % i)).result, 0)
                acknowledged[0] = i
        finally:
            ends.set()
            for reader in readers:
                reader.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
