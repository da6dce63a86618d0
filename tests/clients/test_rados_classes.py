"""Object classes: every method with many inputs against what Ceph 16.2.15 answered, and locks as librados has them.

The expectations hold on Ceph 16.2 as well; `class_calls` says how the answers are made.
"""
import errno
import json
import unittest
from pathlib import Path

import rados

import class_calls
import harness
from test_rados_data import POOL, Pool

GOLDEN = Path(__file__).parent / "golden" / "class_calls.json"


class Classes(Pool):
    def test_every_method_answers_as_ceph_does(self):
        expected = json.loads(GOLDEN.read_text())
        answers = class_calls.answers(self.io)
        wrong = [f"{want}\n  but {got}" for want, got in zip(expected, answers) if want != list(got)]
        self.assertFalse(wrong, "\n".join(wrong[:20]))
        self.assertEqual(len(answers), len(expected))

    def test_exclusive_and_shared_locks(self):
        self.io.lock_exclusive("held", "name", "cookie", "about")
        self.assertErrno(errno.EBUSY, self.io.lock_exclusive, "held", "name", "other")
        self.assertErrno(errno.EEXIST, self.io.lock_exclusive, "held", "name", "cookie")
        self.io.unlock("held", "name", "cookie")
        self.assertErrno(errno.ENOENT, self.io.unlock, "held", "name", "cookie")
        self.io.lock_shared("held", "name", "one", "tag")
        self.io.lock_shared("held", "name", "two", "tag")
        self.assertErrno(errno.EBUSY, self.io.lock_shared, "held", "name", "three", "another tag")

    def test_a_lock_ends_with_its_time(self):
        # python3-rados leaves part of a lock's time unset, so the call is made by hand.
        self.io.execute("timed", "lock", "lock", class_calls.lock("name", cookie="one", secs=1))
        self.assertErrno(errno.EBUSY, self.io.lock_exclusive, "timed", "name", "two")
        harness.wait_for(lambda: self.locked("timed", "two"), "locked by the other", seconds=10)

    def locked(self, name, cookie):
        try:
            self.io.lock_exclusive(name, "name", cookie)
            return True
        except rados.ObjectBusy:
            return False

    def test_rados_lock(self):
        rados_tool = lambda *args: harness.run("rados", "-p", POOL, "lock", *args).stdout
        rados_tool("get", "tool", "lock1", "--lock-cookie", "c", "--lock-tag", "t", "--lock-description", "d")
        self.assertEqual(json.loads(rados_tool("list", "tool")), {"objname": "tool", "locks": [{"name": "lock1"}]})
        info = json.loads(rados_tool("info", "tool", "lock1"))
        holder = info["lockers"][0]
        self.assertEqual((info["type"], info["tag"], holder["cookie"], holder["description"]), ("exclusive", "t", "c", "d"))
        self.assertRegex(holder["addr"], r"^127\.0\.0\.1:0/\d+$")
        rados_tool("break", "tool", "lock1", holder["name"], "--lock-cookie", "c")
        self.assertEqual(json.loads(rados_tool("info", "tool", "lock1"))["lockers"], [])

    def test_who_said_hello(self):
        self.io.execute("hello", "hello", "record_hello", b"you")
        who = self.io.get_xattr("hello", "said_by").decode()
        self.assertRegex(who, rf"^client\.{self.cluster.get_instance_id()} 127\.0\.0\.1:0/\d+$")
        self.assertEqual(self.io.execute("hello", "hello", "replay", b"")[1], b"Hello, you!")


if __name__ == "__main__":
    unittest.main()
