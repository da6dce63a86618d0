"""Block images through python3-rbd: what a header says, what is written, what is copied, what has changed.

The expectations hold on Ceph 16.2 as well.
"""
import datetime
import os
import unittest

import rbd

from rbd_pool import KIB, MIB, SIZE, Images, extents


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
        self.assertIn("object map invalid", self.tool("info", f"{self.pool}/features"))
        self.tool("object-map", "rebuild", f"{self.pool}/features", "--no-progress")
        self.assertNotIn("invalid", self.tool("info", f"{self.pool}/features"))

    def test_data_in_another_pool(self):
        data = f"{self.pool}-data"
        self.mon("osd pool create", pool=data, pg_num=8, pgp_num=8)
        self.mon("osd pool application enable", pool=data, app="rbd")
        try:
            self.create("apart", data_pool=data)
            self.write("apart", (5 * MIB, b"there"))
            with self.image("apart") as image, self.cluster.open_ioctx(data) as io:
                self.assertEqual(image.data_pool_id(), self.cluster.pool_lookup(data))
                names = {o.key for o in io.list_objects()}
                self.assertEqual(names, {"rbd_info", f"{image.block_name_prefix()}.{1:016x}"})
            self.assertEqual(self.read("apart", 5 * MIB, 5), b"there")
            self.rbd.remove(self.io, "apart")
        finally:
            self.mon("osd pool rm", pool=data, pool2=data, yes_i_really_really_mean_it=True)

    def test_times(self):
        now = lambda: datetime.datetime.now(datetime.timezone.utc)
        before = now().replace(microsecond=0) - datetime.timedelta(seconds=1)
        self.create("timed")
        with self.image("timed") as image:
            image.create_snap("s")
            stamps = [image.create_timestamp(), image.access_timestamp(), image.modify_timestamp(),
                      image.get_snap_timestamp(image.snap_get_id("s"))]
        after = now() + datetime.timedelta(seconds=1)
        # Universal time; only the binding of 20.2 says so.
        for stamp in (stamp.replace(tzinfo=datetime.timezone.utc) for stamp in stamps):
            self.assertTrue(before <= stamp <= after, (before, stamps, after))

    def test_configuration(self):
        self.create("configured")
        with self.image("configured") as image:
            image.config_set("rbd_cache", "false")
            self.assertEqual(image.config_get("rbd_cache"), "false")
            listed = {o["name"]: (o["value"], o["source"]) for o in image.config_list()}
            self.assertEqual(listed["rbd_cache"], ("false", rbd.RBD_CONFIG_SOURCE_IMAGE))
            image.config_remove("rbd_cache")
            with self.assertRaises(KeyError):
                image.config_get("rbd_cache")

    def test_refusals(self):
        for refusal, options in ((rbd.ArgumentOutOfRange, {"order": 11}), (rbd.ArgumentOutOfRange, {"order": 27}),
                                 (rbd.InvalidArgument, {"features": rbd.RBD_FEATURE_OBJECT_MAP}),
                                 (rbd.InvalidArgument, {"features": 61, "stripe_unit": 1000, "stripe_count": 3})):
            with self.subTest(**options), self.assertRaises(refusal):
                self.create("refused", **options)
        with self.assertRaises(rbd.ImageNotFound):
            self.rbd.remove(self.io, "refused")
        self.assertEqual([n for n in self.rbd.list(self.io) if n == "refused"], [])


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

    def test_copy(self):
        self.create("source")
        with self.image("source") as image:
            image.write(b"copied", MIB)
            image.copy(self.io, "copy")
            image.deep_copy(self.io, "deep-copy")
        for name in ("copy", "deep-copy"):
            with self.image(name) as image:
                self.assertEqual(image.read(MIB, 6), b"copied")

    def test_writes_go_through_a_journal(self):
        self.create("journaled", features=rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_JOURNALING)
        with self.image("journaled") as image:
            image.write(b"journaled", 123)
            image.flush()
            self.assertEqual(image.read(123, 9), b"journaled")
            ident = image.id()
        self.assertIn("object_number", self.tool("journal", "status", "--pool", self.pool, "--journal", ident))
        with self.image("journaled") as image:
            image.update_features(rbd.RBD_FEATURE_JOURNALING, False)
            self.assertEqual(image.read(123, 9), b"journaled")

    def test_edges(self):
        self.create("edges", size=SIZE - 1000)
        with self.image("edges") as image:
            end = image.size()
            self.assertEqual(image.write(b"last", end - 4), 4)
            self.assertEqual(image.read(end - 8, 100), bytes(4) + b"last")
            with self.assertRaises(rbd.InvalidArgument):
                image.write(b"x", end + 1)
            across = os.urandom(8 * MIB + 2)
            image.write(across, 4 * MIB - 1)
            self.assertEqual(image.read(4 * MIB - 1, len(across)), across)
            self.assertEqual(image.read(4 * MIB - 2, 2), b"\0" + across[:1])

    def test_zeroes(self):
        self.create("zeroes")
        with self.image("zeroes") as image:
            image.write(b"x" * 12 * MIB, 0)
            image.write_zeroes(100, 1000)
            image.write_zeroes(4 * MIB, 4 * MIB)
            image.write_zeroes(8 * MIB + 512, 512, rbd.RBD_WRITE_ZEROES_FLAG_THICK_PROVISION)
            self.assertEqual(image.read(0, 1200), b"x" * 100 + bytes(1000) + b"x" * 100)
            self.assertEqual(image.read(4 * MIB, 4 * MIB), bytes(4 * MIB))
            self.assertEqual(image.read(8 * MIB, 1536), b"x" * 512 + bytes(512) + b"x" * 512)
            self.assertEqual([e[0] // (4 * MIB) for e in extents(image, whole=True) if e[2]], [0, 2])

    def test_many_at_once(self):
        self.create("aio", order=20)
        wrote = {n: os.urandom(24 * KIB) for n in range(300)}
        with self.image("aio") as image:
            done = [image.aio_write(data, n * 48 * KIB, lambda _: None) for n, data in wrote.items()]
            done.append(image.aio_flush(lambda _: None))
            for completion in done:
                completion.wait_for_complete_and_cb()
                self.assertEqual(completion.get_return_value(), 0)
            got = {}
            def keep(n):
                return lambda _, data: got.__setitem__(n, data)
            done = [image.aio_read(n * 48 * KIB, 24 * KIB, keep(n)) for n in wrote]
            for completion in done:
                completion.wait_for_complete_and_cb()
            self.assertEqual(got, wrote)

    def test_what_changed(self):
        """With an object map (fast diff) and without, exactly and by whole objects."""
        for features in (rbd.RBD_FEATURE_LAYERING, 61):
            with self.subTest(features=features):
                name = self.create(f"diff{features}", features=features)
                with self.image(name) as image:
                    image.write(b"a" * 8 * KIB, 0)
                    image.write(b"b" * 4 * KIB, 4 * MIB)
                    image.create_snap("s1")
                    image.write(b"c" * 4 * KIB, 4 * KIB)
                    image.create_snap("s2")
                    image.discard(4 * MIB, 4 * MIB)
                    image.write(b"d" * 4 * KIB, 12 * MIB)
                    self.assertEqual(extents(image), [(0, 8 * KIB, True), (12 * MIB, 4 * KIB, True)])
                    self.assertEqual(extents(image, since="s1"), [(4 * KIB, 4 * KIB, True), (4 * MIB, 4 * KIB, False), (12 * MIB, 4 * KIB, True)])
                    self.assertEqual(extents(image, since="s2"), [(4 * MIB, 4 * KIB, False), (12 * MIB, 4 * KIB, True)])
                    self.assertEqual(extents(image, since="s1", whole=True),
                                     [(0, 4 * MIB, True), (4 * MIB, 4 * MIB, False), (12 * MIB, 4 * MIB, True)])
                    image.set_snap("s2")
                    self.assertEqual(extents(image, since="s1"), [(4 * KIB, 4 * KIB, True)])
                    self.assertEqual(extents(image, since="s1", whole=True), [(0, 4 * MIB, True)])

    def test_sparsify(self):
        self.create("sparse")
        with self.image("sparse") as image:
            image.write(bytes(8 * MIB), 0)
            image.write(b"x" * 64 * KIB, MIB)
            image.sparsify(64 * KIB)
            self.assertEqual(image.read(MIB, 64 * KIB), b"x" * 64 * KIB)
            self.assertEqual(extents(image, whole=True), [(0, 4 * MIB, True)])

    def test_deep_copy_of_a_history(self):
        self.create("history")
        with self.image("history") as image:
            for number in range(3):
                image.write(b"%d" % number * 4096, number * 3 * MIB)
                image.create_snap(f"s{number}")
            image.resize(8 * MIB)
            image.metadata_set("k", "v")
            image.deep_copy(self.io, "history2", order=20, stripe_unit=MIB, stripe_count=1)
        with self.image("history2") as image:
            self.assertEqual([(s["name"], s["size"]) for s in image.list_snaps()], [(f"s{n}", SIZE) for n in range(3)])
            self.assertEqual((image.size(), image.metadata_get("k")), (8 * MIB, "v"))
        for number in range(3):
            for offset in range(3):
                expected = b"%d" % offset * 10 if offset <= number else bytes(10)
                self.assertEqual(self.read("history2", offset * 3 * MIB, 10, f"s{number}"), expected)


if __name__ == "__main__":
    unittest.main()
