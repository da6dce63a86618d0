"""Block images through python3-rbd and the `rbd` tool: headers, data, snapshots, clones, trash, groups, namespaces.

The expectations hold on Ceph 16.2 as well.
"""
import errno
import hashlib
import os
import unittest

import rados
import rbd

import harness

POOL = f"rbd-{os.getpid()}"
MIB = 1 << 20
SIZE = 16 * MIB


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL)
        cls.cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
        cls.cluster.connect(timeout=30)
        cls.io = cls.cluster.open_ioctx(POOL)
        cls.rbd = rbd.RBD()
        cls.rbd.pool_init(cls.io, True)

    @classmethod
    def tearDownClass(cls):
        cls.io.close()
        cls.cluster.shutdown()
        harness.drop_pool(POOL)

    def create(self, name, size=SIZE, **options):
        self.rbd.create(self.io, name, size, old_format=False, **options)
        return name

    def image(self, name, **options):
        return rbd.Image(self.io, name, **options)

    def tool(self, *args, **options):
        return harness.run("rbd", *args, **options).stdout


class Headers(Images):
    def test_an_image_is_what_it_was_made(self):
        self.create("plain", order=20)
        self.assertIn("plain", self.rbd.list(self.io))
        with self.image("plain") as image:
            info = image.stat()
            self.assertEqual((info["size"], info["obj_size"], info["num_objs"]), (SIZE, MIB, 16))
            self.assertEqual(image.features() & 61, 61)
            self.assertEqual(image.size(), SIZE)
            self.assertTrue(image.block_name_prefix().startswith("rbd_data."))
        with self.assertRaises(rbd.ImageExists):
            self.create("plain")
        with self.assertRaises(rbd.ImageNotFound):
            self.image("none")

    def test_striping(self):
        self.create("striped", features=rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_STRIPINGV2, stripe_unit=65536,
                    stripe_count=4)
        with self.image("striped") as image:
            self.assertEqual((image.stripe_unit(), image.stripe_count()), (65536, 4))
            data = os.urandom(700000)
            image.write(data, 12345)
            self.assertEqual(image.read(12345, len(data)), data)

    def test_resize_rename_remove(self):
        self.create("resize")
        with self.image("resize") as image:
            image.write(b"x" * 4096, 9 * MIB)
            image.resize(8 * MIB)
            image.resize(SIZE)
            self.assertEqual(image.read(9 * MIB, 4096), bytes(4096))
        self.rbd.rename(self.io, "resize", "renamed")
        self.assertNotIn("resize", self.rbd.list(self.io))
        self.rbd.remove(self.io, "renamed")
        self.assertNotIn("renamed", self.rbd.list(self.io))

    def test_metadata(self):
        self.create("meta")
        with self.image("meta") as image:
            image.metadata_set("key", "value")
            image.metadata_set("other", "1")
            self.assertEqual(image.metadata_get("key"), "value")
            self.assertEqual(dict(image.metadata_list()), {"key": "value", "other": "1"})
            image.metadata_remove("key")
            with self.assertRaises(KeyError):
                image.metadata_get("key")

    def test_features_can_be_switched(self):
        self.create("features")
        with self.image("features") as image:
            image.update_features(rbd.RBD_FEATURE_FAST_DIFF | rbd.RBD_FEATURE_OBJECT_MAP, False)
            self.assertEqual(image.features() & 24, 0)
            image.update_features(rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF, True)
            self.assertEqual(image.features() & 24, 24)
        self.assertIn("object map invalid", self.tool("info", f"{POOL}/features"))
        self.tool("object-map", "rebuild", f"{POOL}/features", "--no-progress")
        self.assertNotIn("invalid", self.tool("info", f"{POOL}/features"))


class Data(Images):
    def test_what_is_written_is_read(self):
        self.create("data")
        with self.image("data") as image:
            data = os.urandom(6 * MIB)
            image.write(data, 3 * MIB + 17)
            image.flush()
            self.assertEqual(image.read(3 * MIB + 17, len(data)), data)
            self.assertEqual(image.read(0, 4096), bytes(4096))
            image.discard(4 * MIB, 4 * MIB)
            self.assertEqual(image.read(4 * MIB, 4 * MIB), bytes(4 * MIB))
        with self.image("data", read_only=True) as image:
            self.assertEqual(image.read(3 * MIB + 17, 100), data[:100])

    def test_used_extents(self):
        self.create("extents")
        with self.image("extents") as image:
            image.write(b"a" * 8192, 0)
            image.write(b"b" * 8192, 8 * MIB)
            found = []
            image.diff_iterate(0, SIZE, None, lambda offset, length, exists: found.append((offset, exists)))
            self.assertEqual([offset // (4 * MIB) for offset, exists in found if exists], [0, 2])

    def test_export_and_import(self):
        self.create("export")
        with self.image("export") as image:
            data = os.urandom(MIB)
            image.write(data, 5 * MIB)
        path = f"/tmp/{POOL}.img"
        try:
            self.tool("export", f"{POOL}/export", path, "--no-progress")
            with open(path, "rb") as file:
                exported = file.read()
            self.assertEqual(hashlib.sha1(exported).digest(),
                             hashlib.sha1(bytes(5 * MIB) + data + bytes(10 * MIB)).digest())
            self.tool("import", path, f"{POOL}/imported", "--no-progress")
            with self.image("imported") as image:
                self.assertEqual(image.read(5 * MIB, MIB), data)
        finally:
            os.unlink(path)

    def test_two_clients_hand_the_lock_over(self):
        self.create("handover")
        with self.image("handover") as first, rados.Rados(conffile=os.environ["CEPH_CONF"]) as other:
            with other.open_ioctx(POOL) as io, rbd.Image(io, "handover") as second:
                for turn in range(4):
                    first.write(b"first%d" % turn, 0)
                    self.assertTrue(first.is_exclusive_lock_owner())
                    second.write(b"second%d" % turn, 100)
                    self.assertTrue(second.is_exclusive_lock_owner())
                self.assertEqual(first.read(0, 6) + first.read(100, 7), b"first3second3")

    def test_writes_go_through_a_journal(self):
        self.create("journaled", features=rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_JOURNALING)
        with self.image("journaled") as image:
            image.write(b"journaled", 123)
            image.flush()
            self.assertEqual(image.read(123, 9), b"journaled")
            ident = image.id()
        self.assertIn("object_number", self.tool("journal", "status", "--pool", POOL, "--journal", ident))
        with self.image("journaled") as image:
            image.update_features(rbd.RBD_FEATURE_JOURNALING, False)
            self.assertEqual(image.read(123, 9), b"journaled")

    def test_copy(self):
        self.create("source")
        with self.image("source") as image:
            image.write(b"copied", MIB)
            image.copy(self.io, "copy")
            image.deep_copy(self.io, "deep-copy")
        for name in ("copy", "deep-copy"):
            with self.image(name) as image:
                self.assertEqual(image.read(MIB, 6), b"copied")


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
            self.assertEqual(list(image.list_children()), [(POOL, "child")])
        with self.image("child") as image:
            self.assertEqual(image.parent_info(), (POOL, "parent", "base"))
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
        self.tool("clone", "--rbd-default-clone-format", "2", f"{POOL}/parent2@base", f"{POOL}/child2")
        with self.image("parent2") as image:
            image.remove_snap("base")
            self.assertEqual([s["namespace"] for s in image.list_snaps()], [rbd.RBD_SNAP_NAMESPACE_TYPE_TRASH])
        with self.image("child2") as image:
            self.assertEqual(image.read(0, 4), b"data")
        self.rbd.remove(self.io, "child2")
        with self.image("parent2") as image:
            self.assertEqual(list(image.list_snaps()), [])


class Pools(Images):
    def test_trash(self):
        self.create("trashed")
        self.rbd.trash_move(self.io, "trashed", 0)
        self.assertNotIn("trashed", self.rbd.list(self.io))
        entry = next(e for e in self.rbd.trash_list(self.io) if e["name"] == "trashed")
        self.rbd.trash_restore(self.io, entry["id"], "restored")
        self.assertIn("restored", self.rbd.list(self.io))
        self.rbd.trash_move(self.io, "restored", 3600)
        with self.assertRaises(rbd.PermissionError):
            self.rbd.trash_remove(self.io, entry["id"])
        self.rbd.trash_remove(self.io, entry["id"], force=True)
        self.assertEqual([e["id"] for e in self.rbd.trash_list(self.io)], [])

    def test_namespaces(self):
        self.rbd.namespace_create(self.io, "tenant")
        with self.assertRaises(rbd.ImageExists):
            self.rbd.namespace_create(self.io, "tenant")
        self.assertEqual(self.rbd.namespace_list(self.io), ["tenant"])
        with self.cluster.open_ioctx(POOL) as io:
            io.set_namespace("tenant")
            self.rbd.create(io, "inside", SIZE)
            self.assertEqual(self.rbd.list(io), ["inside"])
            self.assertNotIn("inside", self.rbd.list(self.io))
            with self.assertRaises(rbd.ImageBusy):
                self.rbd.namespace_remove(self.io, "tenant")
            self.rbd.remove(io, "inside")
        self.rbd.namespace_remove(self.io, "tenant")
        self.assertEqual(self.rbd.namespace_list(self.io), [])

    def test_groups(self):
        self.create("member")
        self.rbd.group_create(self.io, "group")
        self.assertEqual(self.rbd.group_list(self.io), ["group"])
        group = rbd.Group(self.io, "group")
        group.add_image(self.io, "member")
        self.assertEqual([i["name"] for i in group.list_images()], ["member"])
        with self.image("member") as image:
            self.assertEqual(image.group()["name"], "group")
        group.remove_image(self.io, "member")
        self.rbd.group_rename(self.io, "group", "renamed")
        self.rbd.group_remove(self.io, "renamed")
        self.assertEqual(self.rbd.group_list(self.io), [])

    def test_a_group_goes_back_to_its_snapshot(self):
        for name in ("one", "two"):
            self.create(name)
            with self.image(name) as image:
                image.write(name.encode(), 0)
        self.rbd.group_create(self.io, "several")
        group = rbd.Group(self.io, "several")
        for name in ("one", "two"):
            group.add_image(self.io, name)
        group.create_snap("then")
        for name in ("one", "two"):
            with self.image(name) as image:
                image.write(b"NEW", 0)
        self.assertEqual([s["name"] for s in group.list_snaps()], ["then"])
        group.rollback_to_snap("then")
        for name in ("one", "two"):
            with self.image(name) as image:
                self.assertEqual(image.read(0, 3), name.encode())
        group.remove_snap("then")
        self.rbd.group_remove(self.io, "several")

    def test_an_image_migrates_with_its_snapshots(self):
        self.create("here")
        with self.image("here") as image:
            image.write(b"old", 0)
            image.create_snap("s")
            image.write(b"new", 0)
        self.rbd.migration_prepare(self.io, "here", self.io, "there")
        self.rbd.migration_execute(self.io, "there")
        self.rbd.migration_commit(self.io, "there")
        self.assertNotIn("here", self.rbd.list(self.io))
        with self.image("there") as image:
            self.assertEqual(image.read(0, 3), b"new")
            image.set_snap("s")
            self.assertEqual(image.read(0, 3), b"old")

    def test_mirroring_is_off(self):
        self.assertEqual(self.rbd.mirror_mode_get(self.io), rbd.RBD_MIRROR_MODE_DISABLED)

    def test_a_tenant_reaches_only_its_namespace(self):
        self.rbd.namespace_create(self.io, "own")
        name = f"client.{POOL}"
        keyring = harness.run("ceph", "auth", "get-or-create", name, "mon", "profile rbd", "osd",
                              f"profile rbd pool={POOL} namespace=own").stdout
        path = f"/tmp/{POOL}.keyring"
        try:
            with open(path, "w") as file:
                file.write(keyring)
            as_tenant = ("--name", name, "--keyring", path)
            self.tool(*as_tenant, "create", f"{POOL}/own/image", "--size", "8M")
            self.assertEqual(self.tool(*as_tenant, "ls", f"{POOL}/own").split(), ["image"])
            refused = harness.run("rbd", *as_tenant, "create", f"{POOL}/image", "--size", "8M", check=False)
            self.assertEqual(refused.returncode, errno.EPERM, refused.stderr)
            self.tool(*as_tenant, "rm", f"{POOL}/own/image", "--no-progress")
        finally:
            os.unlink(path)
            harness.run("ceph", "auth", "rm", name)
            self.rbd.namespace_remove(self.io, "own")


if __name__ == "__main__":
    unittest.main()
