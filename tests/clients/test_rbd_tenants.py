"""Tenants with `profile rbd` and `profile rbd-read-only`: what their keys reach, and that they reach nothing else.

The expectations hold on Ceph 16.2 as well.
"""
import contextlib
import errno
import json
import os
import unittest

import rados
import rbd

import harness
from rbd_pool import MIB, Images


@contextlib.contextmanager
def tenant(name, osd, mon="profile rbd", mgr=None):
    """A client with such caps and a key of its own."""
    entity = f"client.{name}-{os.getpid()}"
    caps = ["mon", mon, "osd", osd, *(["mgr", mgr] if mgr else [])]
    key = json.loads(harness.run("ceph", "auth", "get-or-create", entity, *caps, "-f", "json").stdout)[0]["key"]
    client = rados.Rados(conffile=os.environ["CEPH_CONF"], name=entity, conf={"key": key, "keyring": ""})
    try:
        client.connect(timeout=30)
        yield client
    finally:
        client.shutdown()
        harness.run("ceph", "auth", "rm", entity)


class Tenants(Images):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.foreign = f"{cls.pool}-foreign"
        cls.mon("osd pool create", pool=cls.foreign, pg_num=8, pgp_num=8)
        cls.mon("osd pool application enable", pool=cls.foreign, app="rbd")
        with cls.cluster.open_ioctx(cls.foreign) as io:
            cls.rbd.create(io, "secret", MIB)
            cls.rbd.namespace_create(io, "own")
        for namespace in ("own", "next"):
            cls.rbd.namespace_create(cls.io, namespace)
        cls.rbd.create(cls.io, "outside", MIB)
        with rbd.Image(cls.io, "outside") as image:
            image.write(b"outside", 0)
            image.create_snap("s")
            image.protect_snap("s")
        cls.rbd.create(cls.within("next"), "neighbour", MIB)

    @classmethod
    def tearDownClass(cls):
        cls.mon("osd pool rm", pool=cls.foreign, pool2=cls.foreign, yes_i_really_really_mean_it=True)
        super().tearDownClass()

    @classmethod
    def within(cls, namespace, client=None, pool=None):
        io = (client or cls.cluster).open_ioctx(pool or cls.pool)
        io.set_namespace(namespace)
        return io

    def denied(self, call, *args, **kwargs):
        """The call is refused for want of permission, be it in librbd's words or librados's."""
        with self.assertRaises((rbd.PermissionError, rados.PermissionDeniedError, rados.PermissionError)):
            call(*args, **kwargs)

    def life(self, io):
        """All that an owner does with an image."""
        self.rbd.create(io, "image", 8 * MIB)
        with rbd.Image(io, "image") as image:
            image.write(b"mine", 0)
            image.create_snap("s")
            image.protect_snap("s")
            image.write(b"new!", 0)
            image.metadata_set("k", "v")
            image.resize(4 * MIB)
            image.flush()
        self.rbd.clone(io, "image", "s", io, "clone")
        with rbd.Image(io, "clone") as image:
            self.assertEqual(image.read(0, 4), b"mine")
            image.flatten()
        self.assertEqual(sorted(self.rbd.list(io)), ["clone", "image"])
        with rbd.Image(io, "image") as image:
            image.unprotect_snap("s")
            image.remove_snap("s")
        self.rbd.trash_move(io, "clone", 0)
        for entry in list(self.rbd.trash_list(io)):
            self.rbd.trash_remove(io, entry["id"])
        self.rbd.remove(io, "image")
        self.assertEqual(self.rbd.list(io), [])

    def test_a_pool(self):
        with tenant("pool", f"profile rbd pool={self.pool}") as client:
            self.life(self.within("own", client))
            with client.open_ioctx(self.pool) as io:
                self.assertEqual(self.rbd.list(io), ["outside"])
                with rbd.Image(io, "outside") as image:
                    image.write(b"outside", 0)
            with client.open_ioctx(self.foreign) as io:
                self.denied(self.rbd.list, io)
                self.denied(rbd.Image, io, "secret")
                self.denied(self.rbd.create, io, "mine", MIB)
                self.denied(io.write_full, "rbd_directory", b"")
                self.denied(io.read, "rbd_directory")

    def test_a_namespace(self):
        with tenant("namespace", f"profile rbd pool={self.pool} namespace=own") as client:
            own = self.within("own", client)
            self.life(own)
            for io in (client.open_ioctx(self.pool), self.within("next", client), self.within("own", client, self.foreign),
                       self.within("", client, self.foreign)):
                self.denied(self.rbd.list, io)
                self.denied(self.rbd.create, io, "mine", MIB)
                self.denied(rbd.Image, io, "outside")
                self.denied(rbd.Image, io, "neighbour", read_only=True)
                self.denied(io.write_full, "x", b"")
                self.denied(io.remove_object, "rbd_directory")
                self.denied(io.read, "rbd_directory")
                self.denied(io.execute, "rbd_header.1", "lock", "get_info", b"")
                # The binding takes any error for the end of the list.
                self.assertEqual([o.key for o in io.list_objects()], [])
            with client.open_ioctx(self.pool) as io:
                self.denied(self.rbd.namespace_create, io, "third")
                self.denied(self.rbd.namespace_remove, io, "next")
                self.denied(self.rbd.clone, io, "outside", "s", own, "stolen")

    def test_read_only(self):
        with tenant("reader", f"profile rbd-read-only pool={self.pool}") as client:
            with client.open_ioctx(self.pool) as io:
                self.assertEqual(self.rbd.list(io), ["outside"])
                with rbd.Image(io, "outside", read_only=True) as image:
                    self.assertEqual(image.read(0, 7), b"outside")
                    self.assertEqual([s["name"] for s in image.list_snaps()], ["s"])
                    with self.assertRaises(rbd.ReadOnlyImage):
                        image.write(b"x", 0)
                self.denied(rbd.Image, io, "outside")
                self.denied(self.rbd.create, io, "mine", MIB)
                self.denied(self.rbd.remove, io, "outside")
                self.denied(io.write_full, "x", b"")
                self.denied(io.execute, "rbd_directory", "rbd", "dir_add_image", b"")
            with client.open_ioctx(self.foreign) as io:
                self.denied(rbd.Image, io, "secret", read_only=True)

    def test_read_only_in_a_namespace_beside_a_namespace_of_ones_own(self):
        caps = f"profile rbd pool={self.pool} namespace=own, profile rbd-read-only pool={self.pool} namespace=next"
        with tenant("both", caps) as client:
            self.life(self.within("own", client))
            reads = self.within("next", client)
            with rbd.Image(reads, "neighbour", read_only=True) as image:
                self.assertEqual(image.read(0, 4), bytes(4))
            self.denied(self.rbd.create, reads, "mine", MIB)
            self.denied(self.rbd.remove, reads, "neighbour")

    def test_what_a_monitor_lets_a_tenant_do(self):
        with tenant("mon", f"profile rbd pool={self.pool}") as client:
            def command(prefix, **arguments):
                code, out, says = client.mon_command(json.dumps({"prefix": prefix, **arguments}), b"")
                return -code
            denied = [
                ("osd pool create", {"pool": "mine", "pg_num": 8}),
                ("osd pool rm", {"pool": self.foreign}),
                ("auth ls", {}),
                ("auth get-key", {"entity": "client.admin"}),
                ("config set", {"who": "global", "name": "debug_osd", "value": "1"}),
                ("osd down", {"ids": ["0"]}),
                ("osd blocklist", {"blocklistop": "rm", "addr": "127.0.0.1:0/4242"}),
                ("osd blocklist", {"blocklistop": "add", "addr": "127.0.0.1:0"}),
            ]
            for prefix, arguments in denied:
                with self.subTest(denied=prefix, **arguments):
                    self.assertEqual(command(prefix, **arguments), errno.EACCES)
            for prefix in ("osd dump", "osd blocklist ls", "mon dump", "pg dump", "config dump"):
                with self.subTest(allowed=prefix):
                    self.assertEqual(command(prefix), 0)
            fence = "127.0.0.1:0/4242"
            self.assertEqual(command("osd blocklist", blocklistop="add", addr=fence), 0)
            harness.run("ceph", "osd", "blocklist", "rm", fence)

    def test_a_tenant_takes_over_from_a_client_that_hangs(self):
        """Breaking a lock takes fencing its holder, which needs the monitor's consent."""
        caps = f"profile rbd pool={self.pool} namespace=own"
        with tenant("first", caps) as first, tenant("second", caps) as second:
            self.rbd.create(self.within("own"), "shared", MIB)
            holder = rbd.Image(self.within("own", first), "shared")
            holder.write(b"first", 0)
            with rbd.Image(self.within("own", second), "shared") as image:
                owner, = image.lock_get_owners()
                image.lock_break(rbd.RBD_LOCK_MODE_EXCLUSIVE, owner["owner"])
                image.write(b"second", 5)
                self.assertEqual(image.read(0, 11), b"firstsecond")
                with self.assertRaises((rbd.ConnectionShutdown, rbd.OSError)):
                    holder.write(b"again", 0)
                self.assertEqual(image.read(0, 11), b"firstsecond")
            with contextlib.suppress(rbd.Error):
                holder.close()
            harness.run("ceph", "osd", "blocklist", "clear")
            self.rbd.remove(self.within("own"), "shared")


if __name__ == "__main__":
    unittest.main()
