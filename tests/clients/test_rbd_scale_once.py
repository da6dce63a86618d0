"""Much of everything: snapshots, names, metadata, generations of clones, terabytes; each is as right as a few are.

What an image's header or a pool's directory holds is read in pages, or at once where librbd asks for all of it in one
request: hundreds of snapshots, thousands of names. The expectations hold on Ceph 16.2 as well.
"""
import struct
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import rbd

from rados_pool import write_op
from rbd_pool import KIB, MIB, SIZE, Images, extents

TIB = 1 << 40


def text(*words):
    """Words as an input of a class's method has them."""
    return b"".join(struct.pack("<I", len(word)) + word for word in (w.encode() for w in words))


class Snapshots(Images):
    COUNT = 400

    def test_hundreds_of_snapshots_of_an_image_with_much_metadata(self):
        self.create("i")
        names = [f"s{n:03}" for n in range(self.COUNT)]
        with self.image("i") as image:
            for n, name in enumerate(names):
                image.write(b"%03d" % n, n % 4 * 4 * MIB)
                image.create_snap(name)
            image.write(b"now", 0)
            header = f"rbd_header.{image.id()}"
        self.assertEqual([s["name"] for s in self.tool_json("snap", "ls", self.spec("i"))], names)
        # More entries than a client gets at once. Opening the image asks several things of each snapshot.
        pairs = {f"key{n:04}": f"value{n}" for n in range(3000)}
        self.fill_metadata(header, pairs)
        began = time.monotonic()
        with self.image("i") as image:
            opened_s = time.monotonic() - began
            self.assertEqual([s["name"] for s in image.list_snaps()], names)
            self.assertEqual(dict(image.metadata_list()), pairs)
            self.assertEqual(image.metadata_get("key2999"), "value2999")
            image.metadata_remove("key2999")
            image.metadata_set("key3000", "new")
            self.assertEqual(len(list(image.metadata_list())), 3000)
        self.assertLess(opened_s, 2)
        for n in (0, 199, self.COUNT - 1):
            self.assertEqual(self.read("i", n % 4 * 4 * MIB, 3, names[n]), b"%03d" % n)
        with self.image("i") as image:
            image.rollback_to_snap(names[101])
            self.assertEqual([image.read(n * 4 * MIB, 3) for n in range(4)], [b"100", b"101", b"098", b"099"])
            image.protect_snap(names[7])
        said = self.run_tool("snap", "purge", self.spec("i"), "--no-progress").stdout
        self.assertIn("'s007', which is protected", said)
        self.assertEqual([s["name"] for s in self.tool_json("snap", "ls", self.spec("i"))], ["s007"])
        self.assertEqual(self.read("i", 12 * MIB, 3, "s007"), b"007")
        self.tool("snap", "unprotect", self.spec("i@s007"))
        self.tool("snap", "purge", self.spec("i"), "--no-progress")
        self.assertEqual(self.tool_json("snap", "ls", self.spec("i")), [])
        self.assertEqual(self.read("i", 4 * MIB, 3), b"101")

    def fill_metadata(self, header, pairs):
        """As `metadata_set` of each, in one call."""
        given = struct.pack("<I", len(pairs)) + b"".join(text(*pair) for pair in pairs.items())
        self.io.execute(header, "rbd", "metadata_set", given)


class Names(Images):
    COUNT = 4000
    IMAGES = 48

    def test_a_directory_of_thousands(self):
        """Most are names and ids alone, which is what a directory knows of an image."""
        images = [f"image{n:02}" for n in range(self.IMAGES)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self.create(name, MIB, features=rbd.RBD_FEATURE_LAYERING), images))
        others = [f"other{n:04}" for n in range(self.COUNT)]
        for first in range(0, self.COUNT, 100):
            adds = [text(name, f"id{first + n}") for n, name in enumerate(others[first : first + 100])]
            steps = [lambda op, add=add: op.execute("rbd", "dir_add_image", add) for add in adds]
            write_op(self.io, "rbd_directory", *steps)
        self.assertEqual(sorted(self.rbd.list(self.io)), images + others)
        self.assertEqual(self.tool("ls", self.pool).split(), images + others)
        self.assertEqual({i["name"]: i["id"] for i in self.rbd.list2(self.io)}[others[-1]], f"id{self.COUNT - 1}")
        self.rbd.rename(self.io, "image00", "zzz")
        self.rbd.remove(self.io, "image01")
        self.assertEqual(sorted(self.rbd.list(self.io)), images[2:] + others + ["zzz"])
        with self.assertRaises(rbd.ImageExists):
            self.create(others[1234])
        self.trash(images[2:])

    def trash(self, images):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self.rbd.trash_move(self.io, name, 3600), images))
        self.assertEqual(sorted(entry["name"] for entry in self.rbd.trash_list(self.io)), images)
        self.assertNotIn(images[0], self.rbd.list(self.io))


class Generations(Images):
    DEPTH = 8

    def test_clones_of_clones(self):
        expected = bytearray(SIZE)
        seen = []
        for n in range(self.DEPTH + 1):
            name = f"g{n}"
            if n:
                self.rbd.clone(self.io, f"g{n - 1}", "s", self.io, name, features=61)
            else:
                self.create(name)
            with self.image(name) as image:
                # Partly over what the generation before wrote, so that some of it is copied up.
                for offset, data in ((n * MIB, b"%d" % n * (MIB + 64 * KIB)), (12 * MIB + n * 100, b"%d" % n * 150)):
                    image.write(data, offset)
                    expected[offset : offset + len(data)] = data
                image.create_snap("s")
                image.protect_snap("s")
                image.write(b"after", 15 * MIB)
            seen.append(bytes(expected))
        self.check(seen)
        with self.image("g0") as image:
            self.assertEqual(sorted(d["image"] for d in image.list_descendants()), [f"g{n}" for n in range(1, self.DEPTH + 1)])
        with self.image("g4") as image:
            image.flatten()
        self.check(seen)
        with self.image("g4") as image, self.assertRaises(rbd.ImageNotFound):
            image.parent_info()
        with self.image("g0") as image:
            self.assertEqual(sorted(d["image"] for d in image.list_descendants()), ["g1", "g2", "g3"])

    def check(self, seen):
        for n, expected in enumerate(seen):
            self.assertTrue(self.read(f"g{n}", 0, SIZE, "s") == expected, f"snapshot of generation {n}")
            head = bytearray(expected)
            head[15 * MIB : 15 * MIB + 5] = b"after"
            self.assertTrue(self.read(f"g{n}", 0, SIZE) == head, f"generation {n}")


class Large(Images):
    SIZE = 8 * TIB
    # Where it is written: the first and the last object, and some on the way.
    PLACES = [0, 1 * TIB + 4 * MIB, 2 * TIB, 5 * TIB + MIB, 8 * TIB - 4 * KIB]

    def test_terabytes_of_nothing(self):
        self.create("i", self.SIZE)
        with self.image("i") as image:
            for place in self.PLACES:
                image.write(b"here" * KIB, place)
            self.assertEqual([image.read(place, 4) for place in self.PLACES], [b"here"] * 5)
            self.assertEqual(image.read(3 * TIB, 4), bytes(4))
            image.create_snap("s")
            image.write(b"later", 6 * TIB)
            image.discard(0, 4 * MIB)
            whole = lambda place: (place // (4 * MIB) * 4 * MIB, 4 * MIB)
            self.assertEqual([e[:2] for e in extents(image, whole=True, size=self.SIZE)],
                             [whole(place) for place in sorted([*self.PLACES[1:], 6 * TIB])])
            self.assertEqual(extents(image, since="s", whole=True, size=self.SIZE),
                             [(0, 4 * MIB, False), (6 * TIB, 4 * MIB, True)])
        used = self.tool_json("du", self.spec("i"))["images"]
        self.assertEqual([(u["provisioned_size"], u["used_size"]) for u in used], [(self.SIZE, 20 * MIB), (self.SIZE, 4 * MIB)])
        self.resized()

    def resized(self):
        """What a smaller size cuts off is gone, but for the snapshot; a larger one begins with zeros there."""
        with self.image("i") as image:
            image.resize(TIB + 5 * MIB)
            self.assertEqual([image.read(place, 4) for place in (0, TIB + 4 * MIB)], [bytes(4), b"here"])
            image.resize(16 * TIB)
            self.assertEqual([image.read(place, 4) for place in self.PLACES], [bytes(4), b"here"] + [bytes(4)] * 3)
            image.write(b"beyond", 16 * TIB - 6)
            self.assertEqual([e[:2] for e in extents(image, whole=True, size=16 * TIB)],
                             [(TIB + 4 * MIB, 4 * MIB), (16 * TIB - 4 * MIB, 4 * MIB)])
        self.assertEqual(self.tool_json("info", self.spec("i"))["flags"], [])
        with self.image("i", snapshot="s") as image:
            self.assertEqual((image.size(), [image.read(place, 4) for place in self.PLACES]), (self.SIZE, [b"here"] * 5))


if __name__ == "__main__":
    unittest.main()
