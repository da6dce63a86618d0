"""What concerns more than one image: trash, namespaces, groups, migration, statistics; through python3-rbd.

The expectations hold on Ceph 16.2 as well.
"""
import unittest

import rbd

from rbd_pool import MIB, SIZE, Images


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
        self.assertIn("tenant", self.rbd.namespace_list(self.io))
        with self.cluster.open_ioctx(self.pool) as io:
            io.set_namespace("tenant")
            self.rbd.create(io, "inside", SIZE)
            self.assertEqual(self.rbd.list(io), ["inside"])
            self.assertNotIn("inside", self.rbd.list(self.io))
            with self.assertRaises(rbd.ImageBusy):
                self.rbd.namespace_remove(self.io, "tenant")
            self.rbd.remove(io, "inside")
        self.rbd.namespace_remove(self.io, "tenant")
        self.assertNotIn("tenant", self.rbd.namespace_list(self.io))

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

    def test_trash_is_purged(self):
        for number in range(3):
            self.create(f"rubbish{number}")
            self.rbd.trash_move(self.io, f"rubbish{number}", 0 if number else 3600)
        entries = {e["name"]: e for e in self.rbd.trash_list(self.io)}
        kept = entries["rubbish0"]
        self.assertEqual((kept["source"], self.rbd.trash_get(self.io, kept["id"])["name"]), ("USER", "rubbish0"))
        self.rbd.trash_purge(self.io)
        self.assertEqual([e["name"] for e in self.rbd.trash_list(self.io)], ["rubbish0"])
        self.rbd.trash_remove(self.io, kept["id"], force=True)

    def test_pool_metadata_and_configuration(self):
        self.rbd.pool_metadata_set(self.io, "key", "value")
        self.assertEqual(self.rbd.pool_metadata_get(self.io, "key"), "value")
        self.assertEqual(dict(self.rbd.pool_metadata_list(self.io))["key"], "value")
        self.rbd.pool_metadata_remove(self.io, "key")
        with self.assertRaises(KeyError):
            self.rbd.pool_metadata_get(self.io, "key")
        self.rbd.config_set(self.io, "rbd_cache", "false")
        self.assertEqual(self.rbd.config_get(self.io, "rbd_cache"), "false")
        self.rbd.config_remove(self.io, "rbd_cache")
        with self.assertRaises(KeyError):
            self.rbd.config_get(self.io, "rbd_cache")

    def test_statistics(self):
        self.rbd.namespace_create(self.io, "counted")
        with self.cluster.open_ioctx(self.pool) as io:
            io.set_namespace("counted")
            for name in ("a", "b", "c"):
                self.rbd.create(io, name, SIZE)
            with self.image("a", io) as image:
                image.create_snap("s")
                image.resize(4 * MIB)
            self.rbd.trash_move(io, "c", 0)
            stats = self.rbd.pool_stats_get(io)
            expected = {"image_count": 2, "image_provisioned_bytes": SIZE + 4 * MIB, "image_max_provisioned_bytes": 2 * SIZE,
                        "image_snap_count": 1, "trash_count": 1, "trash_provisioned_bytes": SIZE, "trash_snap_count": 0}
            self.assertEqual({key: stats[key] for key in expected}, expected)

    def test_a_migration_into_a_namespace_is_given_up(self):
        self.create("home")
        with self.image("home") as image:
            image.write(b"home", 0)
        self.rbd.namespace_create(self.io, "abroad")
        with self.cluster.open_ioctx(self.pool) as io:
            io.set_namespace("abroad")
            with self.image("home"), self.assertRaises(rbd.ImageBusy):
                self.rbd.migration_prepare(self.io, "home", io, "away")
            self.rbd.migration_prepare(self.io, "home", io, "away")
            status = self.rbd.migration_status(io, "away")
            self.assertEqual((status["source_image_name"], status["dest_pool_namespace"], status["state"]),
                             ("home", "abroad", rbd.RBD_IMAGE_MIGRATION_STATE_PREPARED))
            with self.image("away", io) as image:
                self.assertEqual(image.read(0, 4), b"home")
            self.rbd.migration_abort(io, "away")
            self.assertEqual(self.rbd.list(io), [])
        self.assertEqual(self.read("home", 0, 4), b"home")


if __name__ == "__main__":
    unittest.main()
