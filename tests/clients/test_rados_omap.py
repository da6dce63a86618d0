"""Objects' maps and compound ops through python3-rados.

The expectations hold on Ceph 16.2 as well.
"""
import errno
import unittest

import rados

from test_rados_data import Pool


class Maps(Pool):
    def read(self, name, build):
        """Runs one read op and returns what `build` asked for."""
        with rados.ReadOpCtx() as op:
            answer = build(op)
            self.io.operate_read_op(op, name)
            return answer

    def keys(self, name, after="", most=1000):
        entries, _ = self.read(name, lambda op: self.io.get_omap_keys(op, after, most))
        return [key for key, _ in entries]

    def values(self, name, after="", prefix="", most=1000):
        entries, _ = self.read(name, lambda op: self.io.get_omap_vals(op, after, prefix, most))
        return dict(entries)

    def fill(self, name, count):
        with rados.WriteOpCtx() as op:
            self.io.set_omap(op, tuple(f"k{i:04}" for i in range(count)), tuple(b"v%d" % i for i in range(count)))
            self.io.operate_write_op(op, name)

    def test_set_and_get(self):
        self.fill("map", 5)
        self.assertEqual(self.values("map"), {f"k{i:04}": b"v%d" % i for i in range(5)})
        entries, _ = self.read("map", lambda op: self.io.get_omap_vals_by_keys(op, ("k0001", "none")))
        self.assertEqual(dict(entries), {"k0001": b"v1"})

    def test_pages(self):
        self.fill("pages", 50)
        self.assertEqual(self.keys("pages", most=3), ["k0000", "k0001", "k0002"])
        self.assertEqual(self.keys("pages", after="k0047"), ["k0048", "k0049"])
        self.assertEqual(list(self.values("pages", prefix="k001", most=99)), [f"k001{i}" for i in range(10)])
        self.assertEqual(list(self.values("pages", after="k0015", prefix="k001", most=2)), ["k0016", "k0017"])

    def test_one_answer_has_at_most_1024_entries(self):
        self.fill("many", 1500)
        self.assertEqual(len(self.keys("many", most=5000)), 1024)

    def test_remove_range_and_clear(self):
        self.fill("remove", 10)
        with rados.WriteOpCtx() as op:
            self.io.remove_omap_keys(op, ("k0000", "none"))
            self.io.operate_write_op(op, "remove")
        with rados.WriteOpCtx() as op:
            self.io.remove_omap_range2(op, "k0002", "k0005")
            self.io.operate_write_op(op, "remove")
        self.assertEqual(self.keys("remove"), ["k0001", "k0005", "k0006", "k0007", "k0008", "k0009"])
        with rados.WriteOpCtx() as op:
            self.io.clear_omap(op)
            self.io.operate_write_op(op, "remove")
        self.assertEqual(self.keys("remove"), [])

    def test_maps_of_missing_objects(self):
        self.assertErrno(errno.ENOENT, self.keys, "missing")
        with rados.WriteOpCtx() as op:
            self.io.clear_omap(op)
            self.assertErrno(errno.ENOENT, self.io.operate_write_op, op, "missing")

    def test_an_object_has_data_and_map(self):
        self.io.write_full("both", b"data")
        self.fill("both", 1)
        self.assertEqual((self.io.read("both"), self.keys("both")), (b"data", ["k0000"]))
        self.io.remove_object("both")
        self.io.write_full("both", b"")
        self.assertEqual(self.keys("both"), [])


class Compounds(Pool):
    def test_all_or_nothing(self):
        self.io.write_full("there", b"1")
        with rados.WriteOpCtx() as op:
            op.write_full(b"2")
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            self.assertErrno(errno.EEXIST, self.io.operate_write_op, op, "there")
        self.assertEqual(self.io.read("there"), b"1")

    def test_exclusive_creation(self):
        with rados.WriteOpCtx() as op:
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            self.io.operate_write_op(op, "exclusive")
        with rados.WriteOpCtx() as op:
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            self.assertErrno(errno.EEXIST, self.io.operate_write_op, op, "exclusive")
        with rados.WriteOpCtx() as op:
            op.new(rados.LIBRADOS_CREATE_IDEMPOTENT)
            self.io.operate_write_op(op, "exclusive")

    def test_many_changes_at_once(self):
        with rados.WriteOpCtx() as op:
            op.write_full(b"0123456789")
            op.write(b"AB", 2)
            op.append(b"+")
            op.zero(4, 4)  # equal: bindings disagree about which is the offset
            op.truncate(9)
            op.set_xattr("a", b"1")
            self.io.set_omap(op, ("k",), (b"v",))
            self.io.operate_write_op(op, "many")
        self.assertEqual(self.io.read("many"), b"01AB\0\0\0\0" + b"8")
        self.assertEqual(self.io.get_xattr("many", "a"), b"1")

    def test_zeros_at_the_end_cut_the_object(self):
        self.io.write_full("zeros", b"0123456789")
        with rados.WriteOpCtx() as op:
            op.zero(6, 6)
            self.io.operate_write_op(op, "zeros")
        self.assertEqual(self.io.read("zeros"), b"012345")

    def test_remove_in_a_compound(self):
        self.io.write_full("removed", b"old")
        self.io.set_xattr("removed", "a", b"1")
        with rados.WriteOpCtx() as op:
            op.remove()
            op.write_full(b"new")
            self.io.operate_write_op(op, "removed")
        self.assertEqual(self.io.read("removed"), b"new")
        self.assertEqual(dict(self.io.get_xattrs("removed")), {})

    def test_omap_compare_guards_a_write(self):
        with rados.WriteOpCtx() as op:
            self.io.set_omap(op, ("state",), (b"ready",))
            self.io.operate_write_op(op, "guard")
        with rados.WriteOpCtx() as op:
            op.omap_cmp("state", "ready", rados.LIBRADOS_CMPXATTR_OP_EQ)
            op.write_full(b"went through")
            self.io.operate_write_op(op, "guard")
        with rados.WriteOpCtx() as op:
            op.omap_cmp("state", "other", rados.LIBRADOS_CMPXATTR_OP_EQ)
            op.write_full(b"must not")
            self.assertErrno(errno.ECANCELED, self.io.operate_write_op, op, "guard")
        self.assertEqual(self.io.read("guard"), b"went through")

    def test_the_clients_time_is_the_objects(self):
        with rados.WriteOpCtx() as op:
            op.write_full(b"x")
            self.io.operate_write_op(op, "mtime", mtime=1234567890)
        self.assertEqual(self.io.stat("mtime")[1][0], __import__("time").gmtime(1234567890)[0])


if __name__ == "__main__":
    unittest.main()
