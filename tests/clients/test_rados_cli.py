"""The `rados` tool: objects in and out, attributes, maps, listing, bench with its own verification."""
import filecmp
import os
import re
import tempfile
import unittest
from pathlib import Path

import harness
from harness import run

POOL = "rados-cli"


def rados(*command, check=True, **kwargs):
    return run("rados", "-p", POOL, *command, check=check, **kwargs)


class RadosCli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL)
        cls.files = tempfile.TemporaryDirectory(prefix="loligo-test-")

    @classmethod
    def tearDownClass(cls):
        harness.drop_pool(POOL)
        cls.files.cleanup()

    def file(self, size):
        path = Path(self.files.name) / f"{size}"
        path.write_bytes(os.urandom(size))
        return path

    def test_what_is_put_is_got(self):
        # 4 MiB is the tool's own chunk: around it and past it.
        for size in (0, 1, 4095, 4096, 4 << 20, (4 << 20) + 1, 9_999_999):
            with self.subTest(size=size):
                source, target = self.file(size), Path(self.files.name) / "got"
                rados("put", f"o{size}", source)
                rados("get", f"o{size}", target)
                self.assertTrue(filecmp.cmp(source, target, shallow=False))
                self.assertRegex(rados("stat", f"o{size}").stdout, rf"size {size}$")
                rados("rm", f"o{size}")

    def test_put_replaces_the_whole_object(self):
        rados("put", "replaced", self.file(10000))
        rados("put", "replaced", self.file(10))
        self.assertRegex(rados("stat", "replaced").stdout, "size 10$")
        rados("rm", "replaced")

    def test_append_and_truncate(self):
        ten = self.file(10)
        rados("append", "log", ten)
        rados("append", "log", ten)
        self.assertEqual(rados("get", "log", "-", text=False).stdout, ten.read_bytes() * 2)
        rados("truncate", "log", "15")
        self.assertRegex(rados("stat", "log").stdout, "size 15$")
        rados("truncate", "log", "30")
        self.assertEqual(rados("get", "log", "-", text=False).stdout, (ten.read_bytes() * 2)[:15] + bytes(15))
        rados("rm", "log")

    def test_what_is_not_there_is_enoent(self):
        for command in (["get", "none", "/dev/null"], ["stat", "none"], ["rm", "none"], ["listxattr", "none"]):
            done = rados(*command, check=False)
            self.assertNotEqual(done.returncode, 0, command)
            self.assertIn("(2) No such file or directory", done.stderr, command)

    def test_create_makes_an_empty_object_once(self):
        rados("create", "made")
        self.assertIn("(17) File exists", rados("create", "made", check=False).stderr)
        self.assertRegex(rados("stat", "made").stdout, "size 0$")
        rados("rm", "made")

    def test_listing_sees_all_namespaces_apart(self):
        names = {f"object-{i}" for i in range(150)}
        for name in names:
            rados("create", name)
        for i in range(3):
            rados("-N", "ns", "create", f"inside-{i}")
        self.assertEqual(set(rados("ls").stdout.split()), names)
        self.assertEqual(set(rados("-N", "ns", "ls").stdout.split()), {f"inside-{i}" for i in range(3)})
        both = {tuple(line.split("\t")) for line in rados("--all", "ls").stdout.splitlines()}
        self.assertEqual(both, {("", n) for n in names} | {("ns", f"inside-{i}") for i in range(3)})
        for name in names:
            rados("rm", name)
        for i in range(3):
            rados("-N", "ns", "rm", f"inside-{i}")
        self.assertEqual(rados("--all", "ls").stdout, "")

    def test_attributes(self):
        rados("create", "a")
        rados("setxattr", "a", "colour", "red")
        rados("setxattr", "a", "size", "xl")
        self.assertEqual(rados("listxattr", "a").stdout.split(), ["colour", "size"])
        self.assertEqual(rados("getxattr", "a", "colour").stdout, "red")
        rados("rmxattr", "a", "colour")
        self.assertEqual(rados("listxattr", "a").stdout.split(), ["size"])
        self.assertIn("(61) No data available", rados("getxattr", "a", "colour", check=False).stderr)
        rados("rm", "a")

    def test_maps(self):
        rados("setomapval", "m", "key1", "value1")
        rados("setomapval", "m", "key2", "value2")
        rados("setomapheader", "m", "the header")
        self.assertEqual(rados("listomapkeys", "m").stdout.split(), ["key1", "key2"])
        self.assertIn("value1", rados("getomapval", "m", "key1").stdout)
        self.assertIn("the header", rados("getomapheader", "m").stdout)
        rados("rmomapkey", "m", "key1")
        self.assertEqual(rados("listomapkeys", "m").stdout.split(), ["key2"])
        rados("clearomap", "m")
        self.assertEqual(rados("listomapkeys", "m").stdout, "")
        rados("rm", "m")

    def test_a_copy_by_the_tool(self):
        source = self.file(5000)
        rados("put", "from", source)
        rados("--object-locator", "elsewhere", "put", "located", source)
        self.assertEqual(rados("--object-locator", "elsewhere", "get", "located", "-", text=False).stdout, source.read_bytes())
        self.assertIn("(2)", rados("get", "located", "/dev/null", check=False).stderr)
        rados("rm", "from")
        rados("--object-locator", "elsewhere", "rm", "located")

    def test_a_copy_in_the_pool(self):
        source = self.file(70000)
        rados("put", "original", source)
        rados("setxattr", "original", "colour", "red")
        rados("setomapval", "original", "key", "value")
        rados("cp", "original", "copy")
        self.assertEqual(rados("get", "copy", "-", text=False).stdout, source.read_bytes())
        self.assertEqual(rados("getxattr", "copy", "colour").stdout, "red")
        self.assertEqual(rados("listomapkeys", "copy").stdout.split(), ["key"])
        rados("rm", "original", "copy")

    def test_times_and_extents(self):
        rados("put", "timed", self.file(100))
        rados("touch", "timed", "1234567890")
        self.assertIn("mtime 2009-02-13T23:31:30", rados("stat", "timed").stdout)
        self.assertRegex(rados("stat2", "timed").stdout, r"mtime 2009-02-13T23:31:30\.0+\+0000, size 100$")
        self.assertRegex(rados("mapext", "timed").stdout, r"^0\t64$")  # in hexadecimal
        rados("set-alloc-hint", "timed", "4194304", "4096")
        rados("rm", "timed")

    def test_export_and_import(self):
        source, dump = self.file(5000), Path(self.files.name) / "dump"
        rados("put", "exported", source)
        rados("setxattr", "exported", "colour", "red")
        rados("setomapval", "exported", "key", "value")
        rados("export", dump)
        rados("rm", "exported")
        rados("import", dump)
        self.assertEqual(rados("get", "exported", "-", text=False).stdout, source.read_bytes())
        self.assertEqual(rados("getxattr", "exported", "colour").stdout, "red")
        self.assertIn("value", rados("getomapval", "exported", "key").stdout)
        rados("rm", "exported")

    def test_a_purge_leaves_nothing(self):
        harness.make_pool("rados-cli-purged")
        try:
            for name in ("a", "b"):
                run("rados", "-p", "rados-cli-purged", "create", name)
            run("rados", "purge", "rados-cli-purged", "--yes-i-really-really-mean-it")
            self.assertEqual(run("rados", "-p", "rados-cli-purged", "ls").stdout, "")
        finally:
            harness.drop_pool("rados-cli-purged")

    def test_what_is_out_of_scope_says_so(self):
        rados("create", "manifest")
        done = rados("set-redirect", "manifest", "--target-pool", POOL, "target", check=False)
        try:
            if done.returncode == 0:
                rados("unset-manifest", "manifest")
                self.skipTest("this cluster has manifests")
            self.assertIn("(95) Operation not supported", done.stderr)
            self.assertIn("(95)", rados("tier-promote", "manifest", check=False).stderr)
        finally:
            rados("rm", "manifest", check=False)

    def test_pool_is_seen_by_lspools_and_df(self):
        self.assertIn(POOL, run("rados", "lspools").stdout.split())
        self.assertIn(POOL, run("rados", "df").stdout)
        self.assertIn("(2)", run("rados", "-p", "no-such-pool", "ls", check=False).stderr)

    def test_bench_verifies_what_it_wrote(self):
        for size in ("4096", "1048576"):
            with self.subTest(size=size):
                wrote = rados("bench", "2", "write", "-b", size, "-t", "16", "--no-cleanup").stdout
                self.assertGreater(int(re.search(r"Total writes made:\s+(\d+)", wrote)[1]), 0)
                for how in ("seq", "rand"):
                    # bench compares every byte unless told not to.
                    read = rados("bench", "2", how, "-t", "16").stdout
                    self.assertGreater(int(re.search(r"Total reads made:\s+(\d+)", read)[1]), 0)
                rados("cleanup")
        self.assertEqual(rados("ls").stdout, "")


if __name__ == "__main__":
    unittest.main()
