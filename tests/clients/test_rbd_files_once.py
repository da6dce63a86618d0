"""Images as files and files as images: whole, as differences, and what `rbd diff` says has changed.

The expectations hold on Ceph 16.2 as well.
"""
import errno
import hashlib
import os
import unittest

from rbd_pool import KIB, MIB, SIZE, Images

QUIET = "--no-progress"


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Files(Images):
    def content(self, name, snapshot=None):
        with self.image(name, snapshot=snapshot, read_only=True) as image:
            return image.read(0, image.size())

    def history(self, name):
        """An image with two snapshots, of which each and the head differ: written, overwritten, discarded, grown."""
        self.create(name)
        with self.image(name) as image:
            image.write(os.urandom(MIB), 0)
            image.write(os.urandom(100), 9 * MIB + 5)
            image.create_snap("one")
            image.write(os.urandom(8 * KIB), 4 * KIB)
            image.discard(8 * MIB, 4 * MIB)
            image.create_snap("two")
            image.resize(20 * MIB)
            image.write(os.urandom(64 * KIB), 17 * MIB)
            image.discard(512 * KIB, 64 * KIB)
            image.metadata_set("made by", "hand")
        return [sha(self.content(name, snapshot)) for snapshot in ("one", "two", None)]

    def same_history(self, name, shas):
        self.assertEqual([sha(self.content(name, snapshot)) for snapshot in ("one", "two", None)], shas)

    def test_export_and_import_of_the_first_format(self):
        shas = self.history("plain")
        with self.files() as files:
            self.tool("export", self.spec("plain"), files / "head", QUIET)
            self.tool("export", self.spec("plain@one"), files / "one", QUIET)
            self.assertEqual(sha((files / "head").read_bytes()), shas[2])
            self.assertEqual(sha((files / "one").read_bytes()), shas[0])
            self.tool("import", files / "head", self.spec("back"), QUIET, "--object-size", "1M")
            self.assertEqual(sha(self.content("back")), shas[2])
            self.assertEqual(self.tool_json("info", self.spec("back"))["order"], 20)
            self.refused(errno.EEXIST, "import", files / "head", self.spec("back"), QUIET)
            self.refused(errno.ENOENT, "import", files / "none", self.spec("none"), QUIET)
        used = self.tool_json("du", self.spec("back"))["images"][0]["used_size"]
        self.assertLessEqual(used, 2 * MIB, "what is zero is not written")

    def test_export_and_import_of_the_second_format_carry_snapshots_and_metadata(self):
        shas = self.history("complete")
        with self.files() as files:
            self.tool("export", "--export-format", "2", self.spec("complete"), files / "whole", QUIET)
            self.tool("import", "--export-format", "2", files / "whole", self.spec("again"), QUIET)
        self.same_history("again", shas)
        self.assertEqual(self.tool("image-meta", "get", self.spec("again"), "made by"), "hand\n")

    def test_through_pipes(self):
        self.create("piped")
        data = os.urandom(3 * MIB)
        self.write("piped", (MIB, data))
        exported = self.run_tool("export", self.spec("piped"), "-", QUIET, text=False).stdout
        self.assertEqual(sha(exported), sha(bytes(MIB) + data + bytes(12 * MIB)))
        self.run_tool("import", "-", self.spec("unpiped"), QUIET, text=False, input=exported)
        self.assertEqual(sha(self.content("unpiped")), sha(exported))

    def test_differences_bring_a_copy_up_to_date(self):
        shas = self.history("source")
        steps = (([], "@one"), (["--from-snap", "one"], "@two"), (["--from-snap", "two"], ""))
        for way, flags in (("exact", []), ("whole", ["--whole-object"])):
            with self.subTest(way=way), self.files() as files:
                for number, (since, until) in enumerate(steps):
                    self.tool("export-diff", *flags, *since, self.spec(f"source{until}"), files / str(number), QUIET)
                self.create(way, size=1)
                for number in range(3):
                    self.tool("import-diff", files / str(number), self.spec(way), QUIET)
                self.same_history(way, shas)
                self.refused(errno.EEXIST, "import-diff", files / "0", self.spec(way), QUIET)
                self.create(f"{way}-merged", size=1)
                self.tool("merge-diff", files / "0", files / "1", files / "01", QUIET)
                self.tool("merge-diff", files / "01", files / "2", files / "012", QUIET)
                self.tool("import-diff", files / "012", self.spec(f"{way}-merged"), QUIET)
                self.assertEqual(sha(self.content(f"{way}-merged")), shas[2])
                self.assertLess((files / "1").stat().st_size, 2 * MIB if way == "exact" else 16 * MIB)

    def test_a_difference_needs_its_beginning(self):
        self.history("origin")
        with self.files() as files:
            self.tool("export-diff", "--from-snap", "one", self.spec("origin@two"), files / "d", QUIET)
            self.create("other")
            self.refused(errno.EINVAL, "import-diff", files / "d", self.spec("other"), QUIET)
            (files / "garbage").write_bytes(os.urandom(4096))
            self.refused(errno.EINVAL, "import-diff", files / "garbage", self.spec("other"), QUIET)
        self.refused(errno.ENOENT, "export-diff", "--from-snap", "none", self.spec("origin"), "-", QUIET)

    def diff(self, *args):
        """The extents as `rbd diff` lists them; what does not exist is `false` in its words."""
        return [(e["offset"], e["length"], e["exists"]) for e in self.tool_json("diff", *args)]

    def test_differences_listed(self):
        for features in (1, 61):
            with self.subTest(features=features):
                name = f"listed{features}"
                self.create(name, features=features)
                self.write(name, (0, b"a" * 8 * KIB), (6 * MIB, b"b" * 4 * KIB))
                self.tool("snap", "create", self.spec(f"{name}@s"), QUIET)
                with self.image(name) as image:
                    image.write(b"c" * 4 * KIB, 4 * KIB)
                    image.write(b"d" * 4 * KIB, 13 * MIB)
                    image.discard(4 * MIB, 4 * MIB)
                self.assertEqual(self.diff(self.spec(f"{name}@s")), [(0, 8 * KIB, "true"), (4 * MIB, 2 * MIB + 4 * KIB, "true")])
                self.assertEqual(self.diff("--from-snap", "s", self.spec(name)),
                                 [(4 * KIB, 4 * KIB, "true"), (4 * MIB, 2 * MIB + 4 * KIB, "false"),
                                  (12 * MIB, MIB + 4 * KIB, "true")])
                self.assertEqual(self.diff("--whole-object", "--from-snap", "s", self.spec(name)),
                                 [(0, 4 * MIB, "true"), (4 * MIB, 4 * MIB, "false"), (12 * MIB, 4 * MIB, "true")])
                lines = [line.split() for line in self.tool("diff", self.spec(f"{name}@s")).splitlines()]
                self.assertEqual(lines, [["Offset", "Length", "Type"], ["0", "8192", "data"], ["4194304", "2101248", "data"]])

    def test_differences_of_a_clone(self):
        self.create("parent")
        self.write("parent", (0, b"p" * 4 * KIB), (4 * MIB, b"p" * 4 * KIB))
        self.tool("snap", "create", self.spec("parent@s"), QUIET)
        self.tool("clone", self.spec("parent@s"), self.spec("clone"), "--rbd-default-clone-format", "2")
        self.write("clone", (5 * MIB, b"c" * 4 * KIB))
        self.assertEqual(self.diff("--whole-object", self.spec("clone")), [(0, 4 * MIB, "true"), (4 * MIB, 4 * MIB, "true")])
        with self.files() as files:
            self.tool("export", self.spec("clone"), files / "c", QUIET)
            self.assertEqual(sha((files / "c").read_bytes()), sha(self.content("clone")))
            self.tool("export-diff", self.spec("clone"), files / "d", QUIET)
            self.create("from-diff")
            self.tool("import-diff", files / "d", self.spec("from-diff"), QUIET)
        self.assertEqual(sha(self.content("from-diff")), sha(self.content("clone")))


if __name__ == "__main__":
    unittest.main()
