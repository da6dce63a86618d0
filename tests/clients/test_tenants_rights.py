"""Tenants that share a cluster: what each kind of OSD capability lets its holder do, where, and what not.

The expectations are what real Ceph 16.2 answers.
"""
import os
import tempfile
import unittest
from pathlib import Path

import rados

import harness
from harness import run

POOLS = "rights-a", "rights-b"
# Where it is tried: pool, namespace, object.
PLACES = (POOLS[0], "", "obj"), (POOLS[0], "", "pre.x"), (POOLS[0], "n1", "obj"), (POOLS[1], "", "obj")

NOTHING, EVERYWHERE, ONLY_A = "l", "1111", "1110"
# Capabilities; what they allow (see `Rights.attempts`); at which of the places. Elsewhere only listing is allowed, which
# needs no right to any object, or what stands behind.
CASES = [
    ("allow r", "rnl", EVERYWHERE),
    ("allow w", "wld", EVERYWHERE),
    ("allow x", "xXl", EVERYWHERE),
    ("allow rw", "rwonld", EVERYWHERE),
    ("allow rx", "rxXnl", EVERYWHERE),
    ("allow wx", "wxXld", EVERYWHERE),
    ("allow rwx", "rwxXonld", EVERYWHERE),
    ("allow *", "rwxXonld", EVERYWHERE),
    ("allow all", "rwxXonld", EVERYWHERE),
    ("allow class-read", "xl", EVERYWHERE),
    ("allow class-write", "Xl", EVERYWHERE),
    ("allow r class-read", "rxnl", EVERYWHERE),
    ("allow rw class-read", "rwxonld", EVERYWHERE),
    ("allow w class-write", "wXld", EVERYWHERE),
    ("allow rw pool=rights-a", "rwonld", ONLY_A),
    ("allow rw pool=rights-b", "rwonld", "0001"),
    ("allow r pool=rights-a, allow rw pool=rights-b", "rwonld", "0001", "rnl"),
    ("allow r, allow rw pool=rights-a namespace=n1", "rwonld", "0010", "rnl"),
    ("allow rw namespace=n1", "rwonld", "0010"),
    ("allow rw namespace=n*", "rwonld", "0010"),
    ("allow rw namespace=\"\"", "rwonld", "1101"),
    ("allow rwx pool=rights-a namespace=n1", "rwxXonld", "0010"),
    ("allow rw pool=rights-a object_prefix pre.", "rwonld", "0100"),
    ("allow rwx object_prefix pre", "rwxXonld", "0100"),
    ("allow rw pool rights-a", "rwonld", ONLY_A),
    ("allow pool rights-a rw", "rwonld", ONLY_A),
    ("allow pool rights-a namespace n1 rw", "rwonld", "0010"),
    ("allow rw tag myapp data=fs1", "rwonld", ONLY_A),
    ("allow rw tag myapp data=*", "rwonld", ONLY_A),
    ("allow rw tag myapp *=*", "rwonld", EVERYWHERE),
    ("allow rw tag myapp *=fs1", "rwonld", ONLY_A),
    ("allow rw tag myapp data=fs2", NOTHING, EVERYWHERE),
    ("allow rw tag other data=fs1", NOTHING, EVERYWHERE),
    ("allow r tag myapp data=fs1, allow w", "rwnld", ONLY_A, "wld"),
    ("allow class hello", "xXl", EVERYWHERE),
    ("allow class hello say_hello", "xl", EVERYWHERE),
    ("allow class hello say_hello, allow class hello record_hello", "xXl", EVERYWHERE),
    ("allow rw, allow class hello", "rwxXonld", EVERYWHERE),
    ("profile rbd", "rwxXonld", EVERYWHERE),
    ("profile rbd pool=rights-a", "rwxXonld", ONLY_A),
    ("profile rbd pool=rights-a namespace=n1", "rwxXonld", "0010"),
    ("profile rbd-read-only", "rxnl", EVERYWHERE),
    ("allow rw network 127.0.0.0/8", "rwonld", EVERYWHERE),
    ("allow rw network 10.0.0.0/8", NOTHING, EVERYWHERE),
    ("allow rw pool=rights-a network 127.0.0.1/32", "rwonld", ONLY_A),
]


class Rights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for pool in POOLS:
            harness.make_pool(pool)
            run("ceph", "osd", "pool", "application", "enable", pool, "myapp", "--yes-i-really-mean-it")
        run("ceph", "osd", "pool", "application", "set", POOLS[0], "myapp", "data", "fs1")
        cls.admin = rados.Rados(conffile=os.environ["CEPH_CONF"])
        cls.admin.connect()
        for pool, space, name in PLACES:
            with cls.admin.open_ioctx(pool) as io:
                io.set_namespace(space)
                io.write_full(name, b"x")

    @classmethod
    def tearDownClass(cls):
        cls.admin.shutdown()
        for pool in POOLS:
            harness.drop_pool(pool)

    def attempts(self, io, name):
        """What is tried, each under its letter."""
        def watch():
            io.watch(name, lambda *_: None).close()
        return {
            "r": lambda: io.read(name),
            "w": lambda: io.write_full(name, b"x"),
            "x": lambda: io.execute(name, "hello", "say_hello", b""),
            "X": lambda: io.execute(name, "hello", "record_hello", b"x"),
            "o": watch,
            "n": lambda: io.notify(name, "", 2000),
            "l": lambda: list(io.list_objects()),
            "d": lambda: io.remove_object(name + ".none"),
        }

    def allowed(self, io, name):
        letters = ""
        for letter, attempt in self.attempts(io, name).items():
            try:
                attempt()
            except rados.Error as refused:
                if refused.errno == 1:
                    continue
                # Whoever may remove finds nothing there, and who may greet finds that it was done.
                self.assertIn((letter, refused.errno), {("d", 2), ("X", 17)})
            letters += letter
        return letters

    def test_who_may_do_what_where(self):
        with tempfile.TemporaryDirectory(prefix="loligo-test-") as where:
            for number, (caps, letters, places, *elsewhere) in enumerate(CASES):
                with self.subTest(caps=caps):
                    name = f"client.rights{number}"
                    keyring = Path(where) / str(number)
                    keyring.write_text(run("ceph", "auth", "get-or-create", name, "mon", "allow r", "osd", caps).stdout)
                    self.addCleanup(run, "ceph", "auth", "rm", name)
                    self.judge(name, keyring, [letters if here == "1" else (*elsewhere, NOTHING)[0] for here in places])

    def judge(self, name, keyring, expected):
        tenant = rados.Rados(conffile=os.environ["CEPH_CONF"], name=name, conf={"keyring": str(keyring)})
        tenant.connect(timeout=30)
        try:
            for (pool, space, object_name), letters in zip(PLACES, expected):
                with tenant.open_ioctx(pool) as io:
                    io.set_namespace(space)
                    self.assertEqual(self.allowed(io, object_name), letters, (pool, space, object_name))
        finally:
            tenant.shutdown()

    def test_what_is_no_capability(self):
        for caps in ("allow rw tag myapp k2=", "allow rw class hello", "allow profile rbd"):
            refused = run("ceph", "auth", "get-or-create", "client.rights", "mon", "allow r", "osd", caps, check=False)
            self.assertEqual(refused.returncode, 22, refused.stderr)
            self.assertIn("osd capability parse failed, stopped at", refused.stderr)


if __name__ == "__main__":
    unittest.main()
