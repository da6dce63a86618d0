"""Object classes as their users call them: bytes in, bytes and an errno out.

The expectations hold on Ceph 16.2 as well. The layouts are those of its src/cls/*/cls_*_ops.h and _types.h.
"""
import errno
import json
import struct
import unittest

import rados

from harness import run
from rados_pool import Pool, connect, omap, wait_for, write_op

# An output buffer that holds every answer here.
ROOM = 1 << 16


def u8(n):
    return struct.pack("<B", n)


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n & (1 << 64) - 1)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return u32(len(value)) + value


def when(seconds):
    """A time: whole seconds and nanoseconds."""
    return u32(int(seconds)) + u32(round(seconds % 1 * 1e9))


def several(items):
    return u32(len(items)) + b"".join(items)


def framed(*fields, version=1):
    """Fields behind version, oldest compatible version and length."""
    body = b"".join(fields)
    return u8(version) + u8(1) + u32(len(body)) + body


class Answer:
    """Reads what a method returned."""

    def __init__(self, data):
        self.data = data

    def take(self, count):
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count, "the answer ends early"
        return taken

    def number(self, shape):
        return struct.unpack("<" + shape, self.take(struct.calcsize(shape)))[0]

    def text(self):
        return self.take(self.number("I"))

    def frame(self):
        self.take(2)
        return Answer(self.take(self.number("I")))

    def several(self, read):
        return [read(self) for _ in range(self.number("I"))]

    def when(self):
        return self.number("I") + self.number("I") / 1e9


class Called(Pool):
    """Calls one class's methods on objects."""

    def call(self, name, method, data=b"", cls=None):
        code, out = self.io.execute(name, cls or self.CLASS, method, data, ROOM)
        return out[:code] if code >= 0 else b""

    def refused(self, code, name, method, data=b"", cls=None):
        self.assertErrno(code, self.call, name, method, data, cls)


class Registry(Called):
    def test_what_is_not_there_is_eopnotsupp(self):
        self.io.write_full("o", b"x")
        self.refused(errno.EOPNOTSUPP, "o", "no_such_method", cls="hello")
        # Classes beyond those that the OSDs load are as forbidden as others are unknown.
        self.refused(errno.EPERM, "o", "method", cls="no_such_class")
        self.refused(errno.EOPNOTSUPP, "missing", "no_such_method", cls="lock")

    def test_arguments_that_do_not_parse_are_einval(self):
        self.io.write_full("junk", b"x")
        for cls, method in (("lock", "lock"), ("version", "set"), ("refcount", "get"), ("log", "add"),
                            ("timeindex", "add"), ("journal", "create"), ("numops", "add")):
            with self.subTest(cls=cls):
                self.refused(errno.EINVAL, "junk", method, b"\1", cls=cls)
        self.assertEqual(self.io.read("junk"), b"x")


class Hello(Called):
    CLASS = "hello"

    def test_greeting(self):
        self.io.write_full("o", b"")
        self.assertEqual(self.call("o", "say_hello"), b"Hello, world!")
        self.assertEqual(self.call("o", "say_hello", b"tester"), b"Hello, tester!")
        self.refused(errno.EINVAL, "o", "say_hello", b"n" * 101)

    def test_recorded_greetings(self):
        self.call("recorded", "record_hello", b"you")
        self.assertEqual(self.call("recorded", "replay"), b"Hello, you!")
        self.assertEqual(self.io.read("recorded"), b"Hello, you!")
        self.refused(errno.EEXIST, "recorded", "record_hello", b"me")
        self.call("recorded", "turn_it_to_11")
        self.assertEqual(self.io.read("recorded"), b"HELLO, YOU!")

    def test_flags_of_methods_are_held(self):
        self.io.write_full("flags", b"x")
        # It writes although it is declared a reader, and reads although it is declared a writer.
        self.refused(errno.EIO, "flags", "bad_reader")
        self.refused(errno.EIO, "flags", "bad_writer")
        self.assertEqual(self.io.read("flags"), b"x")


class Lock(Called):
    CLASS = "lock"
    NONE, EXCLUSIVE, SHARED = 0, 1, 2

    def setUp(self):
        self.other = connect()
        self.addCleanup(self.other.shutdown)
        self.far = self.other.open_ioctx(self.pool)

    def test_one_holder_at_a_time(self):
        self.io.lock_exclusive("excl", "l", "mine", "desc")
        self.assertErrno(errno.EBUSY, self.far.lock_exclusive, "excl", "l", "theirs")
        self.assertErrno(errno.EBUSY, self.io.lock_exclusive, "excl", "l", "another cookie")
        self.assertErrno(errno.EEXIST, self.io.lock_exclusive, "excl", "l", "mine")
        self.assertErrno(errno.EBUSY, self.far.lock_shared, "excl", "l", "theirs", "tag")
        self.io.unlock("excl", "l", "mine")
        self.far.lock_exclusive("excl", "l", "theirs")

    def test_locks_have_names(self):
        self.io.lock_exclusive("names", "a", "c")
        self.far.lock_exclusive("names", "b", "c")

    def test_shared_holders_agree_on_a_tag(self):
        self.io.lock_shared("shared", "l", "1", "tag")
        self.far.lock_shared("shared", "l", "2", "tag")
        self.assertErrno(errno.EBUSY, self.far.lock_shared, "shared", "l", "3", "other tag")
        self.assertErrno(errno.EBUSY, self.far.lock_exclusive, "shared", "l", "4")

    def test_who_unlocks_must_hold(self):
        self.io.lock_exclusive("holds", "l", "mine")
        self.assertErrno(errno.ENOENT, self.far.unlock, "holds", "l", "mine")
        self.assertErrno(errno.ENOENT, self.io.unlock, "holds", "l", "other")
        self.io.unlock("holds", "l", "mine")
        self.assertErrno(errno.ENOENT, self.io.unlock, "holds", "l", "mine")

    def test_durations_end(self):
        self.io.lock_exclusive("ends", "l", "mine", duration=2)
        self.assertErrno(errno.EBUSY, self.far.lock_exclusive, "ends", "l", "theirs")
        def free():
            try:
                self.far.lock_exclusive("ends", "l", "theirs")
                return True
            except rados.ObjectBusy:
                return False
        wait_for(free, "the lock has expired", seconds=10)

    def test_renewal(self):
        self.io.lock_exclusive("renewed", "l", "mine", duration=100, flags=0)
        may_renew, must_renew = 1, 2
        self.io.lock_exclusive("renewed", "l", "mine", duration=100, flags=may_renew)
        self.io.lock_exclusive("renewed", "l", "mine", duration=100, flags=must_renew)
        self.assertErrno(errno.ENOENT, self.io.lock_exclusive, "renewed", "none", "mine", flags=must_renew)

    def test_assertions_guard_writes(self):
        self.io.lock_exclusive("guard", "l", "mine")
        held = lambda cookie: framed(text("l"), u8(self.EXCLUSIVE), text(cookie), text(""))
        for cookie, code in (("mine", 0), ("other", errno.EBUSY)):
            with rados.WriteOpCtx() as op:
                op.execute("lock", "assert_locked", held(cookie))
                op.write_full(cookie.encode())
                if code:
                    self.assertErrno(code, self.io.operate_write_op, op, "guard")
                else:
                    self.io.operate_write_op(op, "guard")
        self.assertEqual(self.io.read("guard"), b"mine")

    def test_cookies_may_change(self):
        self.io.lock_exclusive("cookie", "l", "old")
        change = framed(text("l"), u8(self.EXCLUSIVE), text("old"), text(""), text("new"))
        self.call("cookie", "set_cookie", change)
        self.refused(errno.EBUSY, "cookie", "set_cookie", change)
        self.io.unlock("cookie", "l", "new")

    def test_the_tool(self):
        tool = ("rados", "-p", self.pool, "lock")
        self.io.write_full("tool", b"")
        run(*tool, "get", "tool", "l", "--lock-cookie", "c", "--lock-type", "shared", "--lock-tag", "t",
            "--lock-description", "words")
        self.assertEqual(json.loads(run(*tool, "list", "tool", "-f", "json").stdout)["locks"], [{"name": "l"}])
        told = json.loads(run(*tool, "info", "tool", "l", "-f", "json").stdout)
        self.assertEqual((told["name"], told["type"], told["tag"]), ("l", "shared", "t"))
        (locker,) = told["lockers"]
        self.assertEqual((locker["cookie"], locker["description"]), ("c", "words"))
        self.assertTrue(locker["addr"].startswith("127.0.0.1:0/"), locker)
        busy = run(*tool, "get", "tool", "l", check=False)
        self.assertIn("(16) Device or resource busy", busy.stderr)
        run(*tool, "break", "tool", "l", locker["name"], "--lock-cookie", "c")
        self.assertEqual(json.loads(run(*tool, "info", "tool", "l", "-f", "json").stdout).get("lockers", []), [])
        self.assertIn("(2)", run(*tool, "break", "tool", "l", locker["name"], check=False).stderr)


class Version(Called):
    CLASS = "version"
    EQUAL, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL, TAG_EQUAL, TAG_DIFFERS = 1, 2, 3, 4, 5, 6, 7

    @staticmethod
    def version(number, tag=""):
        return framed(u64(number), text(tag))

    def read(self, name):
        version = Answer(self.call(name, "read")).frame().frame()
        return version.number("Q"), version.text()

    def checks(self, name, number, tag, condition, method="check_conds"):
        wanted = framed(self.version(number, tag), u32(condition))
        self.call(name, method, framed(self.version(0), several([wanted])))

    def test_set_and_read(self):
        self.call("o", "set", framed(self.version(7, "tag")))
        self.assertEqual(self.read("o"), (7, b"tag"))

    def test_increments_keep_the_tag(self):
        self.call("inc", "set", framed(self.version(7, "tag")))
        self.call("inc", "inc", framed(self.version(0), several([])))
        self.assertEqual(self.read("inc"), (8, b"tag"))

    def test_a_first_increment_makes_a_tag(self):
        self.io.write_full("fresh", b"")
        self.call("fresh", "inc", framed(self.version(0), several([])))
        number, tag = self.read("fresh")
        self.assertEqual((number, len(tag)), (2, 24))

    def test_conditions(self):
        self.call("cond", "set", framed(self.version(7, "tag")))
        holds = ((7, "tag", self.EQUAL), (6, "", self.GREATER), (7, "", self.GREATER_OR_EQUAL), (8, "", self.LESS),
                 (7, "", self.LESS_OR_EQUAL), (0, "tag", self.TAG_EQUAL), (0, "other", self.TAG_DIFFERS))
        for case in holds:
            with self.subTest(holds=case):
                self.checks("cond", *case)
        fails = ((8, "tag", self.EQUAL), (7, "other", self.EQUAL), (7, "", self.GREATER), (8, "", self.GREATER_OR_EQUAL), (7, "", self.LESS),
                 (6, "", self.LESS_OR_EQUAL), (0, "other", self.TAG_EQUAL), (0, "tag", self.TAG_DIFFERS))
        for case in fails:
            with self.subTest(fails=case):
                self.assertErrno(errno.ECANCELED, self.checks, "cond", *case)

    def test_conditional_increments(self):
        self.call("guard", "set", framed(self.version(7, "tag")))
        self.checks("guard", 7, "tag", self.EQUAL, "inc_conds")
        self.assertErrno(errno.ECANCELED, self.checks, "guard", 7, "tag", self.EQUAL, "inc_conds")
        self.assertEqual(self.read("guard"), (8, b"tag"))


class Refcount(Called):
    CLASS = "refcount"

    def refs(self, name):
        answer = Answer(self.call(name, "read", framed(u8(0)))).frame()
        return sorted(answer.several(Answer.text))

    def test_the_last_put_removes(self):
        self.io.write_full("o", b"x")
        for tag in ("a", "b"):
            self.call("o", "get", framed(text(tag), u8(0)))
        self.assertEqual(self.refs("o"), [b"a", b"b"])
        self.call("o", "put", framed(text("a"), u8(0)))
        self.assertEqual(self.io.read("o"), b"x")
        self.call("o", "put", framed(text("b"), u8(0)))
        self.assertErrno(errno.ENOENT, self.io.read, "o")

    def test_a_tag_counts_once(self):
        self.io.write_full("once", b"x")
        for tag in ("a", "a", "b"):
            self.call("once", "get", framed(text(tag), u8(0)))
        self.call("once", "put", framed(text("a"), u8(0)))
        self.call("once", "put", framed(text("a"), u8(0)))
        self.assertEqual(self.refs("once"), [b"b"])

    def test_an_implicit_reference(self):
        self.io.write_full("implicit", b"x")
        self.call("implicit", "get", framed(text("new"), u8(1)))
        self.call("implicit", "put", framed(text("first owner"), u8(1)))
        self.assertEqual(self.refs("implicit"), [b"new"])
        self.call("implicit", "put", framed(text("new"), u8(1)))
        self.assertErrno(errno.ENOENT, self.io.read, "implicit")

    def test_set_replaces_all(self):
        self.io.write_full("set", b"x")
        self.call("set", "set", framed(several([text("x"), text("y")])))
        self.assertEqual(self.refs("set"), [b"x", b"y"])
        self.call("set", "set", framed(several([])))
        self.assertErrno(errno.ENOENT, self.io.read, "set")


class Numops(Called):
    CLASS = "numops"

    def test_add_and_mul(self):
        self.call("n", "add", text("key") + text("20"))
        self.assertEqual(omap(self.io, "n"), {"key": b"20"})
        self.call("n", "add", text("key") + text("-5"))
        self.call("n", "mul", text("key") + text("4"))
        self.assertEqual(omap(self.io, "n"), {"key": b"60"})
        self.call("n", "add", text("key") + text("0.5"))
        self.assertEqual(omap(self.io, "n"), {"key": b"60.5"})

    def test_what_is_not_a_number(self):
        self.refused(errno.EINVAL, "n", "add", text("key") + text("many"))
        with rados.WriteOpCtx() as op:
            self.io.set_omap(op, ("words",), (b"text",))
            self.io.operate_write_op(op, "bad")
        self.refused(errno.EBADMSG, "bad", "add", text("words") + text("1"))


class Cas(Called):
    CLASS = "cas"

    @staticmethod
    def source(name, hash=0x1234, pool=7):
        return framed(text(""), text(name), u64(-2), u32(hash), u8(0), text(""), u64(pool), version=4).replace(
            b"\4\1", b"\4\3", 1)

    def get(self, name, source):
        self.call(name, "chunk_get_ref", framed(self.source(source)))

    def put(self, name, source):
        self.call(name, "chunk_put_ref", framed(self.source(source)))

    def create(self, name, source, data):
        self.call(name, "chunk_create_or_get_ref", framed(self.source(source), u64(0), text(data)))

    def test_chunks_live_while_referenced(self):
        self.create("chunk", "one", b"data")
        self.create("chunk", "two", b"data")
        self.assertEqual(self.io.read("chunk"), b"data")
        self.put("chunk", "one")
        self.assertEqual(self.io.read("chunk"), b"data")
        self.put("chunk", "two")
        self.assertErrno(errno.ENOENT, self.io.read, "chunk")

    def test_the_first_data_stays(self):
        self.create("fixed", "one", b"data")
        self.create("fixed", "two", b"else")
        self.assertEqual(self.io.read("fixed"), b"data")

    def test_a_missing_reference_cannot_be_put(self):
        self.create("counted", "one", b"data")
        self.assertErrno(errno.ENOLINK, self.put, "counted", "other")

    def test_references_are_taken_of_what_is_there(self):
        self.assertErrno(errno.ENOENT, self.get, "missing", "one")


class Log(Called):
    CLASS = "log"

    @staticmethod
    def entry(at, name, data=b"", section="section"):
        return framed(text(section), text(name), when(at), text(data), text(""), version=2)

    def add(self, log, *entries, monotonic=False):
        self.call(log, "add", framed(several(entries), u8(monotonic), version=2))

    def list(self, log, start=0, end=0, marker="", most=100):
        answer = Answer(self.call(log, "list", framed(when(start), text(marker), when(end), u32(most)))).frame()
        def entry(answer):
            fields = answer.frame()
            section, name, at, data, key = fields.text(), fields.text(), fields.when(), fields.text(), fields.text()
            return name.decode(), at, data, key.decode()
        entries = answer.several(entry)
        return entries, answer.text().decode(), bool(answer.number("B"))

    def test_entries_are_kept_by_time(self):
        self.add("log", self.entry(30, "third", b"3"), self.entry(10, "first", b"1"), self.entry(20.5, "second", b"2"))
        entries, _, more = self.list("log")
        self.assertEqual([entry[:3] for entry in entries],
                         [("first", 10, b"1"), ("second", 20.5, b"2"), ("third", 30, b"3")])
        self.assertFalse(more)
        # The end is not part of it.
        self.assertEqual([entry[0] for entry in self.list("log", 20, 30)[0]], ["second"])

    def test_pages(self):
        self.add("pages", *(self.entry(i + 1, f"e{i}") for i in range(10)))
        names, marker, more = [], "", True
        while more:
            entries, marker, more = self.list("pages", marker=marker, most=3)
            self.assertLessEqual(len(entries), 3)
            names += [entry[0] for entry in entries]
        self.assertEqual(names, [f"e{i}" for i in range(10)])

    def test_trimming(self):
        self.add("trim", *(self.entry(i + 1, f"e{i}") for i in range(10)))
        trim = framed(when(0), when(5), text(""), text(""), version=2)
        self.call("trim", "trim", trim)
        self.assertEqual([entry[0] for entry in self.list("trim")[0]], [f"e{i}" for i in range(5, 10)])
        self.refused(errno.ENODATA, "trim", "trim", trim)

    def test_times_that_go_back_are_raised_where_asked(self):
        for log, monotonic, names in (("raised", True, ["late", "early"]), ("free", False, ["early", "late"])):
            self.add(log, self.entry(7, "late"), self.entry(5, "early"), monotonic=monotonic)
            self.assertEqual([entry[0] for entry in self.list(log)[0]], names)

    def test_info_knows_the_newest(self):
        self.add("info", self.entry(7, "a"), self.entry(5, "b"))
        header = Answer(self.call("info", "info", framed())).frame().frame()
        marker, at = header.text(), header.when()
        self.assertEqual(at, 7)
        self.assertEqual(marker.decode(), self.list("info")[0][-1][3])


class Timeindex(Called):
    CLASS = "timeindex"

    def add(self, index, *entries):
        packed = [framed(when(at), text(key), text(value)) for at, key, value in entries]
        self.call(index, "add", framed(several(packed)))

    def list(self, index, start=0, end=1 << 31, marker="", most=100):
        answer = Answer(self.call(index, "list", framed(when(start), text(marker), when(end), u32(most)))).frame()
        def entry(answer):
            fields = answer.frame()
            return fields.when(), fields.text().decode(), fields.text()
        return answer.several(entry), answer.text().decode(), bool(answer.number("B"))

    def test_entries_are_kept_by_time(self):
        entries = [(10, "a", b"1"), (10, "b", b"2"), (20, "a", b"3")]
        self.add("index", *reversed(entries))
        self.assertEqual(self.list("index")[0], entries)
        self.assertEqual(self.list("index", 15, 30)[0], entries[2:])

    def test_microseconds_come_back_as_nanoseconds(self):
        # The key holds microseconds, and the listing reads them as a time's nanoseconds.
        self.add("fraction", (20.25, "a", b""))
        self.assertEqual(self.list("fraction")[0], [(20.00025, "a", b"")])

    def test_pages(self):
        self.add("pages", *((i + 1, f"k{i}", b"") for i in range(5)))
        first, marker, more = self.list("pages", most=2)
        self.assertEqual(([key for _, key, _ in first], more), (["k0", "k1"], True))
        rest, _, more = self.list("pages", marker=marker, most=100)
        self.assertEqual(([key for _, key, _ in rest], more), (["k2", "k3", "k4"], False))

    def test_trimming(self):
        self.add("trim", *((i + 1, f"k{i}", b"") for i in range(5)))
        trim = framed(when(0), when(3), text(""), text(""))
        self.call("trim", "trim", trim)
        left = [key for _, key, _ in self.list("trim")[0]]
        self.assertEqual(left[-2:], ["k3", "k4"])
        self.assertNotIn("k0", left)


class Journal(Called):
    CLASS = "journal"

    def setUp(self):
        self.name = self.id().rpartition(".")[2]
        self.call(self.name, "create", u8(24) + u8(4) + u64(-1))

    def number(self, method):
        return Answer(self.call(self.name, method)).number("Q")

    def test_a_journal_is_made_once(self):
        self.refused(errno.EEXIST, self.name, "create", u8(24) + u8(4) + u64(-1))
        self.assertEqual(self.call(self.name, "get_order"), u8(24))
        self.assertEqual(self.call(self.name, "get_splay_width"), u8(4))
        self.assertEqual(self.call(self.name, "get_pool_id"), u64(-1))
        self.refused(errno.ENOENT, "none", "get_order")

    def test_sets_only_grow(self):
        self.refused(errno.EINVAL, self.name, "set_minimum_set", u64(1))
        self.call(self.name, "set_active_set", u64(5))
        self.call(self.name, "set_minimum_set", u64(3))
        self.refused(errno.ESTALE, self.name, "set_minimum_set", u64(2))
        self.refused(errno.ESTALE, self.name, "set_active_set", u64(4))
        self.refused(errno.EINVAL, self.name, "set_active_set", u64(2))
        self.assertEqual((self.number("get_minimum_set"), self.number("get_active_set")), (3, 5))

    def clients(self, after="", most=100):
        answer = Answer(self.call(self.name, "client_list", text(after) + u64(most)))
        def client(answer):
            fields = answer.frame()
            return fields.text(), fields.text()
        return answer.several(client)

    def test_clients(self):
        for name in ("a", "b"):
            self.call(self.name, "client_register", text(name) + text("data"))
        self.refused(errno.EEXIST, self.name, "client_register", text("a") + text("data"))
        self.call(self.name, "client_update_data", text("a") + text("new"))
        self.assertEqual(self.clients(), [(b"a", b"new"), (b"b", b"data")])
        self.assertEqual(self.clients(after="a"), [(b"b", b"data")])
        self.call(self.name, "client_unregister", text("a"))
        self.refused(errno.ENOENT, self.name, "client_unregister", text("a"))
        self.refused(errno.ENOENT, self.name, "get_client", text("a"))
        self.assertEqual(self.clients(), [(b"b", b"data")])

    def test_tags(self):
        new_class = u64(-1)
        self.assertEqual(self.number("get_next_tag_tid"), 0)
        self.call(self.name, "tag_create", u64(0) + new_class + text("first"))
        self.refused(errno.EEXIST, self.name, "tag_create", u64(0) + new_class + text("again"))
        self.refused(errno.ESTALE, self.name, "tag_create", u64(5) + new_class + text("too far"))
        self.call(self.name, "tag_create", u64(1) + u64(0) + text("second"))
        self.refused(errno.EINVAL, self.name, "tag_create", u64(2) + u64(9) + text("no such class"))
        tag = Answer(self.call(self.name, "get_tag", u64(1))).frame()
        self.assertEqual((tag.number("Q"), tag.number("Q"), tag.text()), (1, 0, b"second"))
        self.refused(errno.ENOENT, self.name, "get_tag", u64(7))
        self.assertEqual(self.number("get_next_tag_tid"), 2)

    def test_guarded_appends(self):
        def append(data):
            write_op(self.io, "entries", lambda op: op.execute("journal", "guard_append", u64(10)),
                     lambda op: op.append(data))
        append(b"01234")
        append(b"56789")
        self.assertErrno(errno.EOVERFLOW, append, b"more")
        self.assertEqual(self.io.read("entries"), b"0123456789")


del Pool, Called

if __name__ == "__main__":
    unittest.main()
