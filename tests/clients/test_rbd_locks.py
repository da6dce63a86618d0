"""Block images shared by several clients, through python3-rbd: locks, their owners, what one client hears of another.

The expectations hold on Ceph 16.2 as well.
"""
import contextlib
import os
import unittest

import rados
import rbd

import harness
from harness import wait_for
from rbd_pool import MIB, SIZE, Images


class Locks(Images):
    def test_two_clients_hand_the_lock_over(self):
        self.create("handover")
        with self.image("handover") as first, rados.Rados(conffile=os.environ["CEPH_CONF"]) as other:
            with other.open_ioctx(self.pool) as io, rbd.Image(io, "handover") as second:
                for turn in range(4):
                    first.write(b"first%d" % turn, 0)
                    self.assertTrue(first.is_exclusive_lock_owner())
                    second.write(b"second%d" % turn, 100)
                    self.assertTrue(second.is_exclusive_lock_owner())
                self.assertEqual(first.read(0, 6) + first.read(100, 7), b"first3second3")

    def test_a_lock_is_kept_by_who_asked_for_it(self):
        """A lock that was asked for by name is not given up, and whoever wants to write hears so."""
        self.create("kept")
        with self.image("kept") as first, self.another_client() as io, rbd.Image(io, "kept") as second:
            first.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            owner, = second.lock_get_owners()
            self.assertEqual(owner["mode"], rbd.RBD_LOCK_MODE_EXCLUSIVE)
            with self.assertRaises(rbd.ReadOnlyImage):
                second.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            first.write(b"mine", 0)
            self.assertEqual(second.read(0, 4), b"mine")
            first.lock_release()
            second.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            self.assertTrue(second.is_exclusive_lock_owner())
            self.assertFalse(first.is_exclusive_lock_owner())

    def test_the_owner_works_for_others(self):
        """What changes an image is done by the lock's owner, at the word of whoever wants it."""
        self.create("served")
        with self.image("served") as first, self.another_client() as io, rbd.Image(io, "served") as second:
            first.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            first.write(b"before", 0)
            second.resize(8 * MIB)
            second.create_snap("s")
            second.rename_snap("s", "t")
            second.protect_snap("t")
            second.unprotect_snap("t")
            second.metadata_set("key", "value")
            second.update_features(rbd.RBD_FEATURE_FAST_DIFF, False)
            self.assertTrue(first.is_exclusive_lock_owner())
            self.assertEqual((first.size(), [s["name"] for s in first.list_snaps()]), (8 * MIB, ["t"]))
            first.write(b"after!", 0)
            second.remove_snap("t")
            self.assertEqual(list(first.list_snaps()), [])
            self.assertTrue(first.is_exclusive_lock_owner())

    def test_each_hears_of_the_other(self):
        """A client without the lock sees sizes and snapshots as they change."""
        self.create("heard", features=rbd.RBD_FEATURE_LAYERING)
        with self.image("heard") as first, self.another_client() as io, rbd.Image(io, "heard") as second:
            first.resize(SIZE * 2)
            wait_for(lambda: second.size() == SIZE * 2, "the other client sees the new size", seconds=10)
            first.write(b"old", 0)
            first.create_snap("s")
            wait_for(lambda: [s["name"] for s in second.list_snaps()] == ["s"], "the other client sees the snapshot", seconds=10)
            # The other's writes must leave the snapshot alone.
            second.write(b"new", 0)
            first.set_snap("s")
            self.assertEqual(first.read(0, 3), b"old")
            self.assertEqual(len(list(second.watchers_list())), 2)

    def test_locks_that_only_advise(self):
        self.create("advised", features=rbd.RBD_FEATURE_LAYERING)
        with self.image("advised") as first, self.another_client() as io, rbd.Image(io, "advised") as second:
            first.lock_exclusive("cookie")
            with self.assertRaises(rbd.ImageExists):
                first.lock_exclusive("cookie")
            with self.assertRaises(rbd.ImageBusy):
                second.lock_exclusive("cookie")
            listed = second.list_lockers()
            self.assertEqual((listed["exclusive"], listed["tag"]), (True, ""))
            name, cookie, _ = listed["lockers"][0]
            self.assertEqual((name, cookie), (f"client.{self.cluster.get_instance_id()}", "cookie"))
            first.unlock("cookie")
            first.lock_shared("one", "tag")
            second.lock_shared("two", "tag")
            with self.assertRaises(rbd.ImageBusy):
                second.lock_shared("three", "another")
            self.assertEqual(sorted(cookie for _, cookie, _ in first.list_lockers()["lockers"]), ["one", "two"])
            first.unlock("one")
            second.unlock("two")
            with self.assertRaises(rbd.ImageNotFound):
                second.unlock("two")

    def test_who_loses_its_lock_loses_the_cluster(self):
        self.create("lost")
        with self.another_client() as io:
            old = rbd.Image(io, "lost")
            old.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            old.write(b"old", 0)
            with self.image("lost") as image:
                owner, = image.lock_get_owners()
                image.lock_break(rbd.RBD_LOCK_MODE_EXCLUSIVE, owner["owner"])
                image.write(b"new", 0)
                with self.assertRaises((rbd.ConnectionShutdown, rbd.ReadOnlyImage)):
                    old.write(b"OLD", 0)
                self.assertEqual(image.read(0, 3), b"new")
            with contextlib.suppress(rbd.Error):
                old.close()
        harness.run("ceph", "osd", "blocklist", "clear")

    def test_an_image_in_use_is_not_removed(self):
        self.create("used")
        with self.another_client() as io, rbd.Image(io, "used"):
            with self.assertRaises(rbd.ImageBusy):
                self.rbd.remove(self.io, "used")
        self.rbd.remove(self.io, "used")


if __name__ == "__main__":
    unittest.main()
