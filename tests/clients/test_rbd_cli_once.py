"""What people type: every command of the `rbd` tool that works on images of one cluster, and what it says and refuses.

Files that images go to and come from are in test_rbd_files_once. The expectations hold on Ceph 16.2 as well.
"""
import contextlib
import errno
import json
import unittest

import rbd

import harness
from rbd_pool import KIB, MIB, SIZE, Images

FEATURES = ["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten"]


class Making(Images):
    def test_create_and_info(self):
        self.tool("create", self.spec("i"), "--size", "16M", "--object-size", "1M")
        info = self.tool_json("info", self.spec("i"))
        self.assertEqual([info[k] for k in ("name", "size", "objects", "order", "object_size", "snapshot_count", "format")],
                         ["i", SIZE, 16, 20, MIB, 0, 2])
        self.assertEqual((info["features"], info["op_features"], info["flags"]), (FEATURES, [], []))
        self.assertEqual(info["block_name_prefix"], "rbd_data." + info["id"])
        self.assertEqual({"create_timestamp", "access_timestamp", "modify_timestamp"} - set(info), set())
        self.refused(errno.EEXIST, "create", self.spec("i"), "--size", "1M")
        self.refused(errno.ENOENT, "info", self.spec("none"))
        self.refused(errno.ENOENT, "info", f"{self.pool}-none/i")
        self.refused(errno.EINVAL, "create", self.spec("unsized"))
        self.refused(errno.EDOM, "create", self.spec("odd"), "--size", "1M", "--object-size", "1K")
        self.assertIn("i", self.tool("ls", self.pool).split())

    def test_create_striped_with_its_data_elsewhere(self):
        data = f"{self.pool}-data"
        self.mon("osd pool create", pool=data, pg_num=8, pgp_num=8)
        self.mon("osd pool application enable", pool=data, app="rbd")
        try:
            self.tool("create", self.spec("s"), "--size", "16M", "--stripe-unit", "64K", "--stripe-count", "4", "--data-pool",
                      data, "--image-feature", "layering,striping")
            info = self.tool_json("info", self.spec("s"))
            self.assertEqual((info["stripe_unit"], info["stripe_count"], info["data_pool"]), (64 * KIB, 4, data))
            self.assertEqual(info["features"], ["layering", "striping", "data-pool"])
            self.write("s", (0, b"x" * 256 * KIB))
            with self.cluster.open_ioctx(data) as io:
                names = {o.key for o in io.list_objects()}
            self.assertEqual(names, {"rbd_info", *(f"{info['block_name_prefix']}.{n:016x}" for n in range(4))})
            self.assertFalse([o.key for o in self.io.list_objects() if o.key.startswith(info["block_name_prefix"])])
            self.tool("rm", self.spec("s"), "--no-progress")
        finally:
            self.mon("osd pool rm", pool=data, pool2=data, yes_i_really_really_mean_it=True)

    def test_resize(self):
        self.create("r")
        self.tool("resize", self.spec("r"), "--size", "32M", "--no-progress")
        self.write("r", (20 * MIB, b"gone"))
        self.assertIn("shrink", self.refused(errno.EINVAL, "resize", self.spec("r"), "--size", "8M", "--no-progress"))
        self.tool("resize", self.spec("r"), "--size", "8M", "--allow-shrink", "--no-progress")
        self.assertEqual(self.tool_json("info", self.spec("r"))["objects"], 2)
        self.tool("resize", self.spec("r"), "--size", "32M", "--no-progress")
        self.assertEqual(self.read("r", 20 * MIB, 4), bytes(4))

    def test_rename_and_remove(self):
        self.create("before")
        self.tool("rename", self.spec("before"), self.spec("after"))
        self.refused(errno.ENOENT, "rename", self.spec("before"), self.spec("after"))
        self.create("other")
        self.refused(errno.EEXIST, "rename", self.spec("after"), self.spec("other"))
        with self.image("after"):
            self.assertIn("watchers", self.refused(errno.EBUSY, "rm", self.spec("after"), "--no-progress"))
        self.tool("snap", "create", self.spec("after@s"), "--no-progress")
        self.assertIn("snapshots", self.refused(errno.ENOTEMPTY, "rm", self.spec("after"), "--no-progress"))
        self.tool("snap", "rm", self.spec("after@s"), "--no-progress")
        self.tool("rm", self.spec("after"), "--no-progress")
        self.refused(errno.ENOENT, "rm", self.spec("after"), "--no-progress")

    def test_thick_provisioning(self):
        self.tool("create", self.spec("thick"), "--size", "8M", "--thick-provision", "--no-progress")
        self.assertEqual(self.tool_json("du", self.spec("thick"))["images"][0]["used_size"], 8 * MIB)

    def test_long_list(self):
        namespace = f"{self.pool}/list"
        self.tool("namespace", "create", namespace)
        self.tool("create", f"{namespace}/l", "--size", "4M")
        self.tool("snap", "create", f"{namespace}/l@s", "--no-progress")
        self.tool("snap", "protect", f"{namespace}/l@s")
        self.tool("clone", f"{namespace}/l@s", f"{namespace}/m", "--rbd-default-clone-format", "1")
        listed = self.tool_json("ls", "-l", namespace)
        self.assertEqual([(i["image"], i.get("snapshot"), i["size"], i["format"], i.get("protected")) for i in listed],
                         [("l", None, 4 * MIB, 2, None), ("l", "s", 4 * MIB, 2, "true"), ("m", None, 4 * MIB, 2, None)])
        self.assertEqual(listed[2]["parent"], {"pool": self.pool, "pool_namespace": "list", "image": "l", "snapshot": "s"})
        lines = [line.split() for line in self.tool("ls", "-l", namespace).splitlines()]
        self.assertEqual(lines, [["NAME", "SIZE", "PARENT", "FMT", "PROT", "LOCK"], ["l", "4", "MiB", "2"],
                                 ["l@s", "4", "MiB", "2", "yes"], ["m", "4", "MiB", f"{namespace}/l@s", "2"]])

    def test_copies(self):
        self.create("c")
        self.write("c", (0, b"first"))
        self.tool("snap", "create", self.spec("c@s"), "--no-progress")
        self.write("c", (0, b"second"))
        self.tool("image-meta", "set", self.spec("c"), "who", "me")
        self.tool("cp", self.spec("c"), self.spec("c1"), "--no-progress")
        self.tool("cp", self.spec("c@s"), self.spec("c2"), "--object-size", "1M", "--stripe-unit", "1M",
                  "--stripe-count", "1", "--no-progress")
        self.tool("deep", "cp", self.spec("c"), self.spec("c3"), "--no-progress")
        self.refused(errno.EEXIST, "cp", self.spec("c"), self.spec("c1"), "--no-progress")
        self.assertEqual((self.read("c1", 0, 6), self.read("c2", 0, 6)), (b"second", b"first\0"))
        self.assertEqual((self.read("c3", 0, 6), self.read("c3", 0, 5, "s")), (b"second", b"first"))
        self.assertEqual(self.tool("image-meta", "get", self.spec("c3"), "who").strip(), "me")
        self.assertEqual([self.tool_json("info", self.spec(c))["snapshot_count"] for c in ("c1", "c2", "c3")], [0, 0, 1])
        self.assertEqual(self.tool_json("info", self.spec("c2"))["order"], 20)

    def test_bench(self):
        self.create("bench")
        for kind, pattern in (("write", "seq"), ("write", "rand"), ("read", "rand"), ("rw", "full-seq")):
            said = self.tool("bench", "--io-type", kind, "--io-pattern", pattern, "--io-size", "4K", "--io-total", "1M",
                             "--io-threads", "8", self.spec("bench"))
            self.assertRegex(said, r"elapsed: \d+ +ops: 256 +ops/sec: ")
        self.refused(errno.EINVAL, "bench", "--io-type", "write", "--io-total", "32M", "--io-size", "32M", self.spec("bench"))
        self.refused(errno.ENOENT, "bench", "--io-type", "read", self.spec("none"))


class SnapshotsAndClones(Images):
    def snapshots(self, name):
        return [s["name"] for s in self.tool_json("snap", "ls", self.spec(name))]

    def snap(self, verb, name, *args):
        progress = ["--no-progress"] if verb in ("create", "rm", "rollback", "purge") else []
        self.tool("snap", verb, self.spec(name), *args, *progress)

    def test_snapshots(self):
        self.create("i")
        self.write("i", (0, b"one"))
        self.snap("create", "i@s1")
        self.write("i", (0, b"two"))
        self.snap("create", "i@s2")
        self.write("i", (0, b"three"))
        self.refused(errno.EEXIST, "snap", "create", self.spec("i@s1"), "--no-progress")
        self.assertEqual(self.snapshots("i"), ["s1", "s2"])
        first = self.tool_json("snap", "ls", self.spec("i"))[0]
        self.assertEqual((first["size"], first["protected"]), (SIZE, "false"))
        self.assertEqual(self.tool_json("info", self.spec("i@s1"))["protected"], "false")
        self.snap("rollback", "i@s1")
        self.assertEqual(self.read("i", 0, 5), b"one\0\0")
        self.refused(errno.ENOENT, "snap", "rollback", self.spec("i@none"), "--no-progress")
        self.tool("snap", "rename", self.spec("i@s2"), self.spec("i@s3"))
        self.refused(errno.EEXIST, "snap", "rename", self.spec("i@s3"), self.spec("i@s1"))
        self.snap("protect", "i@s3")
        self.refused(errno.EBUSY, "snap", "protect", self.spec("i@s3"))
        self.refused(errno.EBUSY, "snap", "rm", self.spec("i@s3"), "--no-progress")
        said = self.run_tool("snap", "purge", self.spec("i"), "--no-progress").stdout
        self.assertIn("'s3', which is protected", said)
        self.assertEqual(self.snapshots("i"), ["s3"])
        self.snap("unprotect", "i@s3")
        self.refused(errno.EINVAL, "snap", "unprotect", self.spec("i@s3"))
        self.snap("purge", "i")
        self.assertEqual(self.snapshots("i"), [])
        self.refused(errno.ENOENT, "snap", "rm", self.spec("i@s3"), "--no-progress")

    def test_a_limit_of_snapshots(self):
        self.create("limited")
        self.tool("snap", "limit", "set", self.spec("limited"), "--limit", "1")
        self.snap("create", "limited@s1")
        self.refused(errno.EDQUOT, "snap", "create", self.spec("limited@s2"), "--no-progress")
        self.assertEqual(self.tool_json("info", self.spec("limited"))["snapshot_limit"], 1)
        self.tool("snap", "limit", "clear", self.spec("limited"))
        self.snap("create", "limited@s2")

    def parent(self, name):
        self.create(name)
        self.write(name, (0, b"parent's"), (8 * MIB, b"second"))
        self.snap("create", f"{name}@s")

    def test_clones_of_the_first_format(self):
        self.parent("p1")
        clone = ("clone", self.spec("p1@s"), self.spec("k1"), "--rbd-default-clone-format", "1")
        self.refused(errno.EINVAL, *clone)
        self.snap("protect", "p1@s")
        self.tool(*clone)
        self.refused(errno.EBUSY, "snap", "unprotect", self.spec("p1@s"))
        parent = self.tool_json("info", self.spec("k1"))["parent"]
        self.assertEqual([parent[k] for k in ("pool", "pool_namespace", "image", "snapshot", "trash", "overlap")],
                         [self.pool, "", "p1", "s", False, SIZE])
        children = [{"pool": self.pool, "pool_namespace": "", "image": "k1"}]
        self.assertEqual(self.tool_json("children", self.spec("p1@s")), children)
        self.assertEqual(self.tool("children", self.spec("p1")).split(), [self.spec("k1")])
        self.write("k1", (3, b"CHILD"))
        self.tool("flatten", self.spec("k1"), "--no-progress")
        self.assertNotIn("parent", self.tool_json("info", self.spec("k1")))
        self.refused(errno.EINVAL, "flatten", self.spec("k1"), "--no-progress")
        self.assertEqual(self.tool_json("children", self.spec("p1@s")), [])
        self.snap("unprotect", "p1@s")
        self.snap("rm", "p1@s")
        self.assertEqual(self.read("k1", 0, 8) + self.read("k1", 8 * MIB, 6), b"parCHILDsecond")

    def test_clones_of_the_second_format(self):
        self.parent("p2")
        self.tool("clone", self.spec("p2@s"), self.spec("k2"), "--rbd-default-clone-format", "2")
        self.snap("create", "k2@t")
        self.tool("clone", self.spec("k2@t"), self.spec("g2"), "--rbd-default-clone-format", "2")
        self.assertEqual(sorted(self.tool("children", "--descendants", self.spec("p2@s")).split()),
                         [self.spec("g2"), self.spec("k2")])
        self.assertEqual(self.tool_json("info", self.spec("p2"))["op_features"], ["clone-parent"])
        self.assertEqual(self.tool_json("info", self.spec("g2"))["op_features"], ["clone-child"])
        self.snap("rm", "p2@s")
        self.assertEqual(self.snapshots("p2"), [])
        trashed = self.tool_json("snap", "ls", "--all", self.spec("p2"))[0]
        self.assertEqual((trashed["namespace"]["type"], trashed["namespace"]["original_name"]), ("trash", "s"))
        self.assertEqual(self.read("g2", 0, 8), b"parent's")
        self.refused(errno.ENOTEMPTY, "rm", self.spec("p2"), "--no-progress")
        self.tool("flatten", self.spec("k2"), "--no-progress")
        self.tool("rm", self.spec("g2"), "--no-progress")
        self.snap("rm", "k2@t")
        self.assertEqual(self.tool_json("snap", "ls", "--all", self.spec("p2")), [])
        self.tool("rm", self.spec("p2"), "--no-progress")

    def test_removing_a_snapshot_by_force_flattens_its_clones(self):
        self.parent("p3")
        self.snap("protect", "p3@s")
        self.tool("clone", self.spec("p3@s"), self.spec("k3"))
        self.snap("rm", "p3@s", "--force")
        self.assertNotIn("parent", self.tool_json("info", self.spec("k3")))
        self.assertEqual(self.read("k3", 8 * MIB, 6), b"second")

    def test_sparsify(self):
        self.create("zeros")
        self.write("zeros", (0, bytes(4 * MIB)), (4 * MIB, b"data"))
        self.tool("sparsify", self.spec("zeros"), "--no-progress")
        prefix = self.tool_json("info", self.spec("zeros"))["block_name_prefix"]
        self.assertEqual([o.key for o in self.io.list_objects() if o.key.startswith(prefix)], [f"{prefix}.{1:016x}"])


class Settings(Images):
    def test_image_meta(self):
        self.create("i")
        meta = lambda verb, *args: self.tool("image-meta", verb, self.spec("i"), *args)
        meta("set", "key", "value")
        meta("set", "other", "two words")
        self.assertEqual(meta("get", "key"), "value\n")
        self.assertEqual(json.loads(meta("ls", "--format", "json")), {"key": "value", "other": "two words"})
        meta("rm", "key")
        self.refused(errno.ENOENT, "image-meta", "get", self.spec("i"), "key")
        self.refused(errno.ENOENT, "image-meta", "rm", self.spec("i"), "key")

    def test_config(self):
        self.create("c")
        option = "rbd_cache_max_dirty"
        source = lambda *args: next(o for o in self.tool_json("config", *args) if o["name"] == option)
        default = source("image", "ls", self.spec("c"))
        self.assertEqual(default["source"], "config")
        self.tool("config", "pool", "set", self.pool, option, "1048576")
        self.assertEqual(source("pool", "ls", self.pool), {"name": option, "value": "1048576", "source": "pool"})
        self.assertEqual(source("image", "ls", self.spec("c"))["source"], "pool")
        self.tool("config", "image", "set", self.spec("c"), option, "2097152")
        self.assertEqual(self.tool("config", "image", "get", self.spec("c"), option), "2097152\n")
        self.assertEqual(source("image", "ls", self.spec("c")), {"name": option, "value": "2097152", "source": "image"})
        self.tool("config", "image", "rm", self.spec("c"), option)
        self.tool("config", "pool", "rm", self.pool, option)
        self.assertEqual(source("image", "ls", self.spec("c")), default)
        self.refused(errno.EINVAL, "config", "image", "set", self.spec("c"), "rbd_no_such_option", "1")
        self.tool("config", "global", "set", "client", option, "3145728")
        self.assertEqual(self.tool("config", "global", "get", "client", option), "3145728\n")
        self.assertIn(option, [o["name"] for o in self.tool_json("config", "global", "ls", "client")])
        self.tool("config", "global", "rm", "client", option)

    def test_features(self):
        self.create("f")
        feature = lambda verb, *names: self.tool("feature", verb, self.spec("f"), *names)
        features = lambda: self.tool_json("info", self.spec("f"))["features"]
        feature("disable", "fast-diff", "object-map")
        self.assertEqual(features(), ["layering", "exclusive-lock", "deep-flatten"])
        feature("disable", "deep-flatten", "exclusive-lock")
        self.assertEqual(features(), ["layering"])
        self.refused(errno.EINVAL, "feature", "enable", self.spec("f"), "object-map")
        self.refused(errno.EINVAL, "feature", "enable", self.spec("f"), "deep-flatten")
        self.refused(errno.EINVAL, "feature", "disable", self.spec("f"), "layering")
        feature("enable", "exclusive-lock", "object-map", "fast-diff")
        self.assertEqual(features(), ["layering", "exclusive-lock", "object-map", "fast-diff"])

    def test_object_maps(self):
        self.create("m")
        self.write("m", (0, b"x"), (9 * MIB, b"y"))
        flags = lambda: self.tool_json("info", self.spec("m"))["flags"]
        self.tool("object-map", "check", self.spec("m"), "--no-progress")
        self.assertEqual(flags(), [])
        # An object that nobody entered into the map.
        with self.image("m") as image:
            prefix = image.block_name_prefix()
        self.io.remove_object(f"{prefix}.{2:016x}")
        self.io.write_full(f"{prefix}.{3:016x}", b"z")
        self.tool("object-map", "check", self.spec("m"), "--no-progress")
        self.assertEqual(flags(), ["object map invalid", "fast diff invalid"])
        self.tool("object-map", "rebuild", self.spec("m"), "--no-progress")
        self.assertEqual(flags(), [])
        self.assertEqual(self.read("m", 9 * MIB, 1) + self.read("m", 12 * MIB, 1), b"\0z")
        used = self.tool_json("du", self.spec("m"))["images"][0]
        self.assertEqual((used["provisioned_size"], used["used_size"]), (SIZE, 12 * MIB))

    def test_journaling(self):
        self.create("j")
        self.tool("feature", "enable", self.spec("j"), "journaling")
        info = self.tool_json("info", self.spec("j"))
        self.assertEqual(info["features"], [*FEATURES, "journaling"])
        self.assertEqual(info["journal"], info["id"])
        self.write("j", (0, b"journaled"))
        journal = self.tool_json("journal", "info", "--pool", self.pool, "--image", "j")
        self.assertEqual((journal["journal_id"], journal["order"], journal["splay_width"]), (info["id"], 24, 4))
        status = self.tool_json("journal", "status", "--pool", self.pool, "--image", "j")
        self.assertEqual((status["minimum_set"], [c["state"] for c in status["registered_clients"]]), (0, ["connected"]))
        said = self.tool("journal", "inspect", "--pool", self.pool, "--image", "j")
        self.assertRegex(said, r"\d+ entries inspected, 0 errors")
        with self.files() as directory:
            self.tool("journal", "export", "--pool", self.pool, "--image", "j", "--path", directory / "journal")
            self.assertIn(f"# journal_id: {info['id']}", (directory / "journal").read_text())
        self.tool("journal", "reset", "--pool", self.pool, "--image", "j")
        self.tool("feature", "disable", self.spec("j"), "journaling")
        self.assertNotIn("journal", self.tool_json("info", self.spec("j")))
        self.assertEqual(self.read("j", 0, 9), b"journaled")


class Locks(Images):
    def test_locks_that_people_take(self):
        self.tool("create", self.spec("i"), "--size", "8M", "--image-shared")
        self.assertEqual(self.tool_json("lock", "ls", self.spec("i")), [])
        self.tool("lock", "add", self.spec("i"), "mine")
        self.refused(errno.EBUSY, "lock", "add", self.spec("i"), "yours")
        lock = self.tool_json("lock", "ls", self.spec("i"))[0]
        self.assertEqual(lock["id"], "mine")
        self.assertRegex(lock["locker"], r"^client\.\d+$")
        self.refused(errno.ENOENT, "lock", "rm", self.spec("i"), "mine", "client.1")
        self.tool("lock", "rm", self.spec("i"), "mine", lock["locker"])
        for name in ("one", "two"):
            self.tool("lock", "add", self.spec("i"), name, "--shared", "tag")
        self.refused(errno.EBUSY, "lock", "add", self.spec("i"), "three", "--shared", "another tag")
        locks = self.tool_json("lock", "ls", self.spec("i"))
        self.assertEqual(sorted(l["id"] for l in locks), ["one", "two"])
        self.assertIn("SHARED", self.tool("lock", "ls", self.spec("i")).upper())
        self.assertEqual(self.tool_json("ls", "-l", self.pool)[0]["lock_type"], "shared")
        for lock in locks:
            self.tool("lock", "rm", self.spec("i"), lock["id"], lock["locker"])

    def test_who_has_it_open(self):
        self.create("open")
        self.assertEqual(self.tool_json("status", self.spec("open"))["watchers"], [])
        with self.image("open") as image:
            watcher, = self.tool_json("status", self.spec("open"))["watchers"]
            self.assertEqual(watcher["client"], self.cluster.get_instance_id())
            self.assertRegex(watcher["address"], r"^127\.0\.0\.1:0/\d+$")
            image.write(b"x", 0)
            lock, = self.tool_json("lock", "ls", self.spec("open"))
            self.assertRegex(lock["id"], r"^auto \d+$")
            self.assertEqual(lock["address"], watcher["address"])
        self.assertEqual(self.tool_json("lock", "ls", self.spec("open")), [])

    def test_the_lock_of_a_client_is_broken_and_the_client_shut_out(self):
        self.create("broken")
        with self.another_client() as io:
            image = rbd.Image(io, "broken")
            image.write(b"before", 0)
            lock, = self.tool_json("lock", "ls", self.spec("broken"))
            self.tool("lock", "rm", self.spec("broken"), lock["id"], lock["locker"])
            try:
                listed = harness.run("ceph", "osd", "blocklist", "ls").stdout
                self.assertIn(lock["address"], listed)
                with self.assertRaises(rbd.ConnectionShutdown):
                    image.write(b"after!", 0)
                self.assertEqual(self.read("broken", 0, 6), b"before")
                self.write("broken", (0, b"others"))
            finally:
                harness.run("ceph", "osd", "blocklist", "rm", lock["address"])
                with contextlib.suppress(rbd.Error):
                    image.close()


class PoolWide(Images):
    def test_trash(self):
        self.create("t")
        self.create("u")
        ident = self.tool_json("info", self.spec("t"))["id"]
        self.tool("trash", "mv", self.spec("t"))
        self.refused(errno.ENOENT, "trash", "mv", self.spec("t"))
        self.assertEqual([(e["id"], e["name"]) for e in self.tool_json("trash", "ls", self.pool)], [(ident, "t")])
        entry, = self.tool_json("trash", "ls", "-l", self.pool)
        self.assertEqual((entry["source"], entry["status"][:7]), ("USER", "expired"))
        self.tool("trash", "restore", f"{self.pool}/{ident}", "--image", "u2")
        self.refused(errno.ENOENT, "trash", "restore", f"{self.pool}/{ident}")
        self.tool("trash", "mv", self.spec("u2"), "--expires-at", "2 hours")
        refused = self.refused(errno.EPERM, "trash", "rm", f"{self.pool}/{ident}", "--no-progress")
        self.assertIn("Deferment time has not expired", refused)
        self.assertIn("protected until", self.tool_json("trash", "ls", "-l", self.pool)[0]["status"])
        self.tool("trash", "mv", self.spec("u"))
        self.tool("trash", "purge", self.pool, "--no-progress")
        self.assertEqual([e["id"] for e in self.tool_json("trash", "ls", self.pool)], [ident])
        self.tool("trash", "purge", self.pool, "--expired-before", "2 days", "--no-progress")
        self.assertEqual(self.tool_json("trash", "ls", self.pool), [])

    def test_removal_of_what_is_deferred_by_force(self):
        self.create("forced")
        ident = self.tool_json("info", self.spec("forced"))["id"]
        self.tool("trash", "mv", self.spec("forced"), "--expires-at", "tomorrow")
        self.tool("trash", "rm", f"{self.pool}/{ident}", "--force", "--no-progress")
        self.refused(errno.ENOENT, "trash", "rm", f"{self.pool}/{ident}", "--no-progress")

    def test_namespaces(self):
        one = f"{self.pool}/one"
        self.tool("namespace", "create", one)
        self.refused(errno.EEXIST, "namespace", "create", one)
        self.assertEqual(self.tool_json("namespace", "ls", self.pool), [{"name": "one"}])
        self.tool("create", f"{one}/i", "--size", "4M")
        self.assertEqual(self.tool("ls", one).split(), ["i"])
        self.refused(errno.ENOENT, "info", self.spec("i"))
        self.refused(errno.EBUSY, "namespace", "rm", one)
        self.tool("rm", f"{one}/i", "--no-progress")
        self.tool("namespace", "rm", one)
        self.refused(errno.ENOENT, "namespace", "rm", one)
        self.refused(errno.ENOENT, "create", f"{one}/i", "--size", "4M")

    def test_groups(self):
        group = f"{self.pool}/g"
        for name in ("a", "b"):
            self.create(name)
            self.write(name, (0, name.encode()))
        self.tool("group", "create", group)
        self.refused(errno.EEXIST, "group", "create", group)
        for name in ("a", "b"):
            self.tool("group", "image", "add", group, self.spec(name))
        # Once more is no more.
        self.tool("group", "image", "add", group, self.spec("a"))
        self.assertEqual(self.tool_json("group", "ls", self.pool), ["g"])
        self.assertEqual([i["image"] for i in self.tool_json("group", "image", "ls", group)], ["a", "b"])
        self.assertEqual(self.tool_json("info", self.spec("a"))["group"], group)
        self.tool("group", "snap", "create", f"{group}@s", "--skip-quiesce")
        for name in ("a", "b"):
            self.write(name, (0, b"X"))
        self.tool("group", "snap", "rename", f"{group}@s", "t")
        whole = "complete" if harness.client_release() >= 20 else "ok"
        snapshots = self.tool_json("group", "snap", "ls", group)
        self.assertEqual([(s["snapshot"], s["state"]) for s in snapshots], [("t", whole)])
        snapshot, = self.tool_json("snap", "ls", "--all", self.spec("a"))
        self.assertEqual([snapshot["namespace"][k] for k in ("type", "group", "group snap")], ["group", "g", "t"])
        self.tool("group", "snap", "rollback", f"{group}@t", "--no-progress")
        self.assertEqual(self.read("a", 0, 1) + self.read("b", 0, 1), b"ab")
        self.tool("group", "snap", "rm", f"{group}@t")
        self.tool("group", "image", "rm", group, self.spec("a"))
        self.tool("group", "rename", group, f"{self.pool}/h")
        self.tool("group", "rm", f"{self.pool}/h")
        self.assertNotIn("group", self.tool_json("info", self.spec("b")))

    def test_usage(self):
        space = f"{self.pool}/usage"
        self.tool("namespace", "create", space)
        self.tool("create", f"{space}/d", "--size", "16M")
        with self.cluster.open_ioctx(self.pool) as io:
            io.set_namespace("usage")
            with self.image("d", io) as image:
                image.write(b"x" * 4 * KIB, 0)
                image.create_snap("s")
                image.write(b"y" * 4 * KIB, 8 * MIB)
        used = self.tool_json("du", "--pool", self.pool, "--namespace", "usage")
        self.assertEqual([(i["name"], i.get("snapshot"), i["provisioned_size"], i["used_size"]) for i in used["images"]],
                         [("d", "s", SIZE, 4 * MIB), ("d", None, SIZE, 4 * MIB)])
        self.assertEqual((used["total_provisioned_size"], used["total_used_size"]), (SIZE, 8 * MIB))
        exact = self.tool_json("du", "--exact", f"{space}/d")
        self.assertEqual([i["used_size"] for i in exact["images"]], [4 * KIB, 4 * KIB])
        merged = self.tool_json("du", "--merge-snapshots", f"{space}/d")
        self.assertEqual([i["used_size"] for i in merged["images"]], [8 * MIB])
        stats = self.tool_json("pool", "stats", space)
        self.assertEqual((stats["images"]["count"], stats["images"]["provisioned_bytes"], stats["images"]["snap_count"]),
                         (1, SIZE, 1))

    def migrated(self, name):
        self.create(name)
        self.write(name, (0, b"old"))
        self.tool("snap", "create", self.spec(f"{name}@s"), "--no-progress")
        self.write(name, (0, b"new"), (5 * MIB, b"more"))

    def test_migration(self):
        self.migrated("m")
        there = self.spec("there")
        self.tool("migration", "prepare", self.spec("m"), there, "--object-size", "1M", "--stripe-unit", "1M",
                  "--stripe-count", "1")
        self.assertEqual(self.tool_json("status", there)["migration"]["state"], "prepared")
        self.assertEqual(self.read("there", 0, 3), b"new")
        self.write("there", (0, b"NEWER"))
        self.refused(errno.EINVAL, "migration", "commit", there, "--no-progress")
        self.tool("migration", "execute", there, "--no-progress")
        self.assertEqual(self.tool_json("status", there)["migration"]["state"], "executed")
        self.tool("migration", "commit", there, "--no-progress")
        self.refused(errno.ENOENT, "info", self.spec("m"))
        self.assertNotIn("migration", self.tool_json("status", there))
        self.assertEqual(self.read("there", 0, 5) + self.read("there", 5 * MIB, 4), b"NEWERmore")
        self.assertEqual(self.read("there", 0, 3, "s"), b"old")

    def test_a_migration_is_given_up(self):
        self.migrated("stay")
        self.tool("migration", "prepare", self.spec("stay"), self.spec("left"))
        self.tool("migration", "abort", self.spec("left"), "--no-progress")
        self.refused(errno.ENOENT, "info", self.spec("left"))
        self.assertEqual(self.read("stay", 0, 3) + self.read("stay", 0, 3, "s"), b"newold")

    def test_mirroring_waits_for_a_daemon(self):
        """What an image says of its mirroring is kept; who would carry it out is another program."""
        mirror = lambda *args: self.tool("mirror", *args)
        self.assertEqual(self.tool_json("mirror", "pool", "info", self.pool)["mode"], "disabled")
        self.create("mirrored")
        self.refused(errno.EINVAL, "mirror", "image", "enable", self.spec("mirrored"), "snapshot")
        self.refused(errno.EINVAL, "mirror", "pool", "status", self.pool)
        mirror("pool", "enable", self.pool, "image")
        self.assertEqual(self.tool_json("mirror", "pool", "info", self.pool)["mode"], "image")
        mirror("image", "enable", self.spec("mirrored"), "snapshot")
        info = self.tool_json("info", self.spec("mirrored"))["mirroring"]
        self.assertEqual((info["mode"], info["state"], info["primary"]), ("snapshot", "enabled", True))
        self.assertIn("no mirror tx peers", self.refused(errno.EINVAL, "mirror", "image", "snapshot", self.spec("mirrored")))
        status = self.tool_json("mirror", "pool", "status", self.pool)["summary"]
        self.assertEqual((status["health"], status["states"]), ("WARNING", {"unknown": 1}))
        mirror("image", "disable", self.spec("mirrored"))
        mirror("pool", "disable", self.pool)
        self.assertEqual(self.tool_json("mirror", "pool", "info", self.pool)["mode"], "disabled")
        self.assertEqual(self.tool_json("snap", "ls", "--all", self.spec("mirrored")), [])

    def test_journaled_mirroring_changes_sides(self):
        self.tool("mirror", "pool", "enable", self.pool, "image")
        self.create("sides", features=rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_JOURNALING)
        self.tool("mirror", "image", "enable", self.spec("sides"), "journal")
        primary = lambda: self.tool_json("info", self.spec("sides"))["mirroring"]["primary"]
        self.assertTrue(primary())
        self.tool("mirror", "image", "demote", self.spec("sides"))
        self.assertFalse(primary())
        with self.image("sides") as image, self.assertRaises(rbd.PermissionError):
            image.write(b"x", 0)
        self.tool("mirror", "image", "promote", self.spec("sides"))
        self.assertTrue(primary())
        self.write("sides", (0, b"x"))
        self.tool("mirror", "image", "disable", self.spec("sides"))
        self.tool("mirror", "pool", "disable", self.pool)

    def test_statistics_are_shown_or_said_to_be_missing(self):
        """Ceph's manager keeps them in a module, and the tool knows what to say where it is not there: as on Loligo.

        Where it is there, the tool waits for images that are worked on, here for no longer than a moment.
        """
        done = harness.run("timeout", "5", "rbd", "perf", "image", "iostat", self.pool, check=False)
        is_missing = "'rbd_support' mgr module is not enabled" in done.stderr
        self.assertEqual(done.returncode, errno.EOPNOTSUPP if is_missing else 124, done.stderr)

    def test_encryption(self):
        """It is the client's work; what the cluster stores is unreadable."""
        self.create("secret", size=32 * MIB)
        with self.files() as files:
            (files / "passphrase").write_text("open sesame")
            self.tool("encryption", "format", self.spec("secret"), "luks2", files / "passphrase")
        self.assertEqual(self.read("secret", 0, 6), b"LUKS\xba\xbe")


if __name__ == "__main__":
    unittest.main()
