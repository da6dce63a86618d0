"""Snapshots and clones of block images, through python3-rbd.

The expectations hold on Ceph 16.2 as well.
"""
import os
import unittest

import rbd

from rbd_pool import MIB, SIZE, Images


class Snapshots(Images):
    def test_snapshots_keep_what_was(self):
        self.create("snap")
        with self.image("snap") as image:
            image.write(b"before", 0)
            image.create_snap("s1")
            image.write(b"after!", 0)
            image.create_snap("s2")
            self.assertEqual([s["name"] for s in image.list_snaps()], ["s1", "s2"])
            with self.assertRaises(rbd.ImageExists):
                image.create_snap("s1")
        for name, content in (("s1", b"before"), ("s2", b"after!")):
            with self.image("snap", snapshot=name, read_only=True) as image:
                self.assertEqual(image.read(0, 6), content)
        with self.image("snap") as image:
            image.rollback_to_snap("s1")
            self.assertEqual(image.read(0, 6), b"before")
            image.rename_snap("s2", "s3")
            image.protect_snap("s3")
            self.assertTrue(image.is_protected_snap("s3"))
            with self.assertRaises(rbd.ImageBusy):
                image.remove_snap("s3")
            image.unprotect_snap("s3")
            image.remove_snap("s3")
            image.remove_snap("s1")
            image.set_snap_limit(1)
            image.create_snap("only")
            with self.assertRaises(rbd.DiskQuotaExceeded):
                image.create_snap("too many")
            image.remove_snap("only")

    def test_an_image_goes_back_to_another_size(self):
        self.create("sized")
        with self.image("sized") as image:
            image.write(b"tail", SIZE - 4)
            image.create_snap("large")
            image.resize(4 * MIB)
            image.create_snap("small")
            image.resize(32 * MIB)
            image.rollback_to_snap("large")
            self.assertEqual((image.size(), image.read(SIZE - 4, 4)), (SIZE, b"tail"))
            image.rollback_to_snap("small")
            self.assertEqual(image.size(), 4 * MIB)
            self.assertEqual([s["size"] for s in image.list_snaps()], [SIZE, 4 * MIB])

    def test_many_snapshots_of_one_block(self):
        self.create("often")
        with self.image("often") as image:
            for number in range(20):
                image.write(b"%02d" % number, 0)
                image.create_snap(f"s{number}")
            ids = {s["name"]: s["id"] for s in image.list_snaps()}
            for number in range(1, 20, 2):
                image.remove_snap_by_id(ids[f"s{number}"])
            for number in range(0, 20, 2):
                image.set_snap_by_id(ids[f"s{number}"])
                self.assertEqual((image.snap_get_name(ids[f"s{number}"]), image.read(0, 2)), (f"s{number}", b"%02d" % number))
            with self.assertRaises(rbd.ImageNotFound):
                image.set_snap("s1")
            image.set_snap(None)
            self.assertEqual(image.read(0, 2), b"19")

    def test_a_snapshot_is_read_only(self):
        self.create("fixed")
        with self.image("fixed") as image:
            image.create_snap("s")
        with self.image("fixed", snapshot="s") as image:
            for change in (lambda: image.write(b"x", 0), lambda: image.resize(MIB), lambda: image.discard(0, MIB)):
                with self.assertRaises(rbd.ReadOnlyImage):
                    change()


class Clones(Images):
    def test_clones_see_their_parent_until_flattened(self):
        self.create("parent")
        with self.image("parent") as image:
            image.write(b"parent's", 0)
            image.write(b"second", 8 * MIB)
            image.create_snap("base")
            image.protect_snap("base")
            image.write(b"changed!", 0)
        self.rbd.clone(self.io, "parent", "base", self.io, "child")
        with self.image("parent", snapshot="base") as image:
            self.assertEqual(list(image.list_children()), [(self.pool, "child")])
        with self.image("child") as image:
            self.assertEqual(image.parent_info(), (self.pool, "parent", "base"))
            self.assertEqual(image.read(0, 8), b"parent's")
            image.write(b"CHILD", 3)
            self.assertEqual(image.read(0, 8), b"parCHILD")
            image.flatten()
            self.assertEqual(image.read(0, 8) + image.read(8 * MIB, 6), b"parCHILDsecond")
            with self.assertRaises(rbd.ImageNotFound):
                image.parent_info()
        with self.image("parent") as image:
            image.unprotect_snap("base")
            image.remove_snap("base")

    def test_clones_of_the_second_format_need_no_protection(self):
        self.create("parent2")
        with self.image("parent2") as image:
            image.write(b"data", 0)
            image.create_snap("base")
        self.tool("clone", "--rbd-default-clone-format", "2", f"{self.pool}/parent2@base", f"{self.pool}/child2")
        with self.image("parent2") as image:
            image.remove_snap("base")
            self.assertEqual([s["namespace"] for s in image.list_snaps()], [rbd.RBD_SNAP_NAMESPACE_TYPE_TRASH])
        with self.image("child2") as image:
            self.assertEqual(image.read(0, 4), b"data")
        self.rbd.remove(self.io, "child2")
        with self.image("parent2") as image:
            self.assertEqual(list(image.list_snaps()), [])

    def base(self, name, io=None):
        """An image of random data with a protected snapshot `s`; its data."""
        data = os.urandom(6 * MIB)
        io = io or self.io
        self.rbd.create(io, name, SIZE, features=61, old_format=False)
        with self.image(name, io) as image:
            image.write(data, MIB)
            image.create_snap("s")
            image.protect_snap("s")
        return bytes(MIB) + data + bytes(9 * MIB)

    def test_a_chain(self):
        data = bytearray(self.base("first"))
        self.rbd.clone(self.io, "first", "s", self.io, "second", features=61)
        with self.image("second") as image:
            image.write(b"2" * 1000, 2 * MIB)
            image.create_snap("s")
            image.protect_snap("s")
        self.rbd.clone(self.io, "second", "s", self.io, "third", features=61, order=20, stripe_unit=MIB, stripe_count=1)
        data[2 * MIB : 2 * MIB + 1000] = b"2" * 1000
        with self.image("third") as image:
            image.write(b"3" * 1000, 5 * MIB)
            data[5 * MIB : 5 * MIB + 1000] = b"3" * 1000
            image.discard(3 * MIB, MIB)
            data[3 * MIB : 4 * MIB] = bytes(MIB)
            self.assertEqual(image.read(0, SIZE), data)
            image.flatten()
            self.assertEqual(image.read(0, SIZE), data)
            self.assertEqual(image.overlap(), 0)
        with self.image("first") as image:
            self.assertEqual([c["image"] for c in image.list_descendants()], ["second"])

    def test_a_smaller_clone_hides_what_it_lost(self):
        self.base("large")
        self.rbd.clone(self.io, "large", "s", self.io, "shrunk", features=61)
        with self.image("shrunk") as image:
            image.resize(3 * MIB)
            self.assertEqual(image.overlap(), 3 * MIB)
            image.resize(SIZE)
            self.assertEqual(image.read(3 * MIB, 4 * MIB), bytes(4 * MIB))
            self.assertEqual(image.overlap(), 3 * MIB)

    def test_a_flattened_clone_keeps_its_snapshots(self):
        data = self.base("deep")
        self.rbd.clone(self.io, "deep", "s", self.io, "deeper", features=61)
        with self.image("deeper") as image:
            image.create_snap("untouched")
            image.write(b"new", MIB)
            image.flatten()
        with self.image("deep") as image:
            image.unprotect_snap("s")
            image.remove_snap("s")
        self.rbd.remove(self.io, "deep")
        self.assertEqual(self.read("deeper", 0, SIZE, "untouched"), data)
        self.assertEqual(self.read("deeper", MIB, 3), b"new")

    def test_a_clone_in_another_pool(self):
        other = f"{self.pool}-other"
        self.mon("osd pool create", pool=other, pg_num=8, pgp_num=8)
        self.mon("osd pool application enable", pool=other, app="rbd")
        try:
            data = self.base("wide")
            with self.cluster.open_ioctx(other) as far:
                self.rbd.clone(self.io, "wide", "s", far, "far", features=61)
                with self.image("far", far) as image:
                    self.assertEqual(image.read(0, SIZE), data)
                with self.image("wide", snapshot="s") as image:
                    self.assertEqual([(c["pool"], c["image"]) for c in image.list_children2()], [(other, "far")])
                with self.image("wide") as image, self.assertRaises(rbd.ImageBusy):
                    image.unprotect_snap("s")
                self.rbd.remove(far, "far")
            with self.image("wide") as image:
                image.unprotect_snap("s")
        finally:
            self.mon("osd pool rm", pool=other, pool2=other, yes_i_really_really_mean_it=True)

    def test_a_clone_in_another_namespace(self):
        """Which takes the second format of clones."""
        data = self.base("outer")
        self.rbd.namespace_create(self.io, "inner")
        with self.cluster.open_ioctx(self.pool) as inner, self.assertRaises(rbd.OSError):
            inner.set_namespace("inner")
            self.rbd.clone(self.io, "outer", "s", inner, "inside", features=61)
        with self.another_client(["inner"], rbd_default_clone_format="2") as (outer, inner):
            self.rbd.clone(outer, "outer", "s", inner, "inside", features=61)
            with self.image("inside", inner) as image:
                self.assertEqual(image.read(0, SIZE), data)
            with self.image("outer", snapshot="s") as image:
                self.assertEqual([(c["pool_namespace"], c["image"]) for c in image.list_children2()], [("inner", "inside")])
            self.rbd.remove(inner, "inside")

    def test_what_may_not_be_cloned(self):
        self.base("bare")
        with self.assertRaises(rbd.ImageNotFound):
            self.rbd.clone(self.io, "bare", "none", self.io, "no", features=61)
        with self.assertRaises(rbd.ImageNotFound):
            self.rbd.clone(self.io, "none", "s", self.io, "no", features=61)
        self.create("taken")
        with self.assertRaises(rbd.ImageExists):
            self.rbd.clone(self.io, "bare", "s", self.io, "taken", features=61)


if __name__ == "__main__":
    unittest.main()
