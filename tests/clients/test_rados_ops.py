"""Every operation that a replicated pool takes, byte by byte: what Ceph 16.2.15 answered, this cluster has to answer.

The questions are in `ops_scenarios`, the answers in `ops_answers.txt`, one line a request: scenario, object, flags,
operations (code:flags:parameters:payload), result, version, then each operation's result:output. `crates/osd` replays
the same file against its engine. Run by hand as `test_rados_ops.py CEPH_CONF` it records the answers of that cluster.

Versions count the changes of a placement group, so the scenarios run in order on a fresh pool with only one. What
operations do that depends on where objects are is in `Copies`.
"""
import errno
import os
import re
import sys
import unittest
from pathlib import Path

import harness
import ops_scenarios
import raw_ops

ANSWERS = Path(__file__).resolve().parent / "ops_answers.txt"
POOL = f"rados-ops-{os.getpid()}"
# The pool that recorded questions name, in the payload of copies.
RECORDED_POOL = 1


def packed(data):
    """Bytes as hexadecimal text; long runs of one byte as BYTE*COUNT, parts joined by +."""
    parts, at = [], 0
    for run in re.finditer(rb"(.)\1{63,}", data, re.S):
        parts += [data[at : run.start()].hex(), f"{run.group(1).hex()}*{len(run.group())}"]
        at = run.end()
    parts.append(data[at:].hex())
    return "+".join(part for part in parts if part)


def question(step, name):
    ops = " ".join(
        f"{int.from_bytes(op.head()[:2], 'little'):x}:{op.flags:x}:{op.head()[6:].rstrip(bytes(1)).hex()}:{packed(op.payload)}"
        for op in step.ops)
    return f"{step.on or name}|{step.flags}|{ops}"


def ask(client, name, step):
    got = client.operate(step.on or name, *step.ops, flags=step.flags)
    return f"{got.result}|{got.version}|" + " ".join(f"{r}:{packed(out)}" for r, out in zip(got.results, got.outputs))


def recorded():
    """The answers by scenario, in order."""
    answers = {}
    for line in ANSWERS.read_text().splitlines():
        name, _, _, _, answer = line.split("|", 4)
        answers.setdefault(name, []).append(answer)
    return answers


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.run("ceph", "osd", "pool", "create", POOL, 1, 1)
        cls.client = raw_ops.Client(os.environ["CEPH_CONF"], POOL)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        harness.drop_pool(POOL)

    def test_all(self):
        self.maxDiff = None
        expected = recorded()
        every = ops_scenarios.scenarios(self.client.pool)
        self.assertEqual(set(every), set(expected))
        for name, steps in every.items():
            for at, (step, answer) in enumerate(zip(steps, expected[name], strict=True)):
                with self.subTest(name, step=at, ops=[op.name for op in step.ops], flags=step.flags):
                    self.assertEqual(ask(self.client, name, step), answer)


class Copies(unittest.TestCase):
    """Copies across placement groups, namespaces and pools, small and in many parts."""

    @classmethod
    def setUpClass(cls):
        cls.pools = [f"{POOL}-{name}" for name in ("from", "to")]
        for pool in cls.pools:
            harness.make_pool(pool)
        cls.source, cls.target = (raw_ops.Client(os.environ["CEPH_CONF"], pool) for pool in cls.pools)

    @classmethod
    def tearDownClass(cls):
        cls.source.close()
        cls.target.close()
        for pool in cls.pools:
            harness.drop_pool(pool)

    def copy(self, client, name, source, **kwargs):
        return client.operate(name, ops_scenarios.copy_from(self.source.pool, source, **kwargs)).result

    def test_small_and_large_to_any_placement_group_and_pool(self):
        for size in (0, 100, 9 << 20, (20 << 20) + 1):
            data = os.urandom(size)
            name = f"source of {size}"
            harness.run("rados", "-p", self.pools[0], "put", name, "-", input=data, text=False)
            attribute = raw_ops.xattr("setxattr", "a", b"%d" % size)
            entries = raw_ops.plain("omap-set-vals", raw_ops.key_values({f"{i:05}": b"x" * 500 for i in range(50)}))
            self.assertEqual(self.source.operate(name, attribute, entries).result, 0)
            for client in (self.source, self.target):
                for at in range(4):
                    with self.subTest(size=size, pool=client.pool, copy=at):
                        self.assertEqual(self.copy(client, f"copy {at} of {size}", name), 0)
                        got = client.operate(
                            f"copy {at} of {size}", raw_ops.extent("read"), raw_ops.xattr("getxattr", "a"),
                            raw_ops.plain("omap-get-keys", ops_scenarios.omap_range("", 1000)))
                        self.assertTrue(got.outputs[0] == data)
                        self.assertEqual(got.outputs[1], b"%d" % size)
                        self.assertEqual(int.from_bytes(got.outputs[2][:4], "little"), 50)

    def test_namespaces_and_locator_keys(self):
        self.source.namespace("one")
        self.source.locator_key("key")
        try:
            self.assertEqual(self.source.operate("located", raw_ops.write_full(b"here")).result, 0)
        finally:
            self.source.namespace("")
            self.source.locator_key("")
        self.assertEqual(self.copy(self.target, "copy", "located"), -errno.ENOENT)
        self.assertEqual(self.copy(self.target, "copy", "located", nspace="one", key="key"), 0)
        self.assertEqual(self.target.operate("copy", raw_ops.extent("read")).outputs, [b"here"])

    def test_rados_cp(self):
        harness.run("rados", "-p", self.pools[0], "put", "tool", "-", input="by the tool")
        harness.run("rados", "-p", self.pools[0], "cp", "tool", "tool too")
        harness.run("rados", "-p", self.pools[0], "cp", "tool", "--target-pool", self.pools[1])
        for pool, name in ((self.pools[0], "tool too"), (self.pools[1], "tool")):
            self.assertEqual(harness.run("rados", "-p", pool, "get", name, "-").stdout, "by the tool")


def record(conf):
    os.environ["CEPH_CONF"] = conf
    harness.run("ceph", "osd", "pool", "create", POOL, 1, 1)
    client = raw_ops.Client(conf, POOL)
    lines = []
    written = ops_scenarios.scenarios(RECORDED_POOL)
    for name, steps in ops_scenarios.scenarios(client.pool).items():
        for step, as_written in zip(steps, written[name], strict=True):
            lines.append(f"{name}|{question(as_written, name)}|{ask(client, name, step)}")
    ANSWERS.write_text("\n".join(lines) + "\n")
    client.close()
    harness.drop_pool(POOL)


if __name__ == "__main__":
    record(sys.argv[1])
