"""Bounds that an operator sets, of requests, objects and connections, and what clients meet there.

The expectations hold on Ceph 16.2 as well.
"""
import contextlib
import errno
import json
import re
import threading

import rados

from rados_pool import Pool, connect, wait_for, write_op


def same(value, wanted):
    return value == wanted if isinstance(wanted, str) else float(value) == wanted


class Limits(Pool):
    @contextlib.contextmanager
    def option(self, **options):
        """The OSDs obey these options inside."""
        osds = self.mon("osd ls")

        def value(osd, name):
            code, out, says = self.cluster.osd_command(osd, json.dumps({"prefix": "config get", "var": name}), b"")
            self.assertEqual(code, 0, says)
            return json.loads(out)[name]

        before = {name: [value(osd, name) for osd in osds] for name in options}
        try:
            for name, wanted in options.items():
                self.mon("config set", who="osd", name=name, value=str(wanted))
                wait_for(lambda: all(same(value(osd, name), wanted) for osd in osds), f"{name} is {wanted}")
            yield
        finally:
            for name in options:
                self.mon("config rm", who="osd", name=name)
                wait_for(lambda: [value(osd, name) for osd in osds] == before[name], f"{name} is as it was")

    def test_objects(self):
        self.io.write_full("large", b"x" * 6000)
        with self.option(osd_max_object_size=5000):
            self.io.write("small", b"x" * 1000, 4000)
            self.assertErrno(errno.EFBIG, self.io.write, "small", b"x", 5000)
            self.assertErrno(errno.EFBIG, self.io.write, "small", b"xx", 4999)
            self.assertErrno(errno.EFBIG, self.io.write_full, "small", b"x" * 5001)
            self.assertErrno(errno.EFBIG, self.io.trunc, "small", 5001)
            self.assertEqual(self.io.stat("small")[0], 5000)
            self.assertEqual(len(self.io.read("large", 8192)), 6000, "what is there can be read")
        self.io.write("small", b"x", 5000)

    def test_attributes(self):
        with self.option(osd_max_attr_name_len=10, osd_max_attr_size=100):
            self.io.set_xattr("o", "a" * 9, b"v" * 100)
            self.assertErrno(errno.ENAMETOOLONG, self.io.set_xattr, "o", "a" * 11, b"v")
            self.assertErrno(errno.EFBIG, self.io.set_xattr, "o", "a", b"v" * 101)
        self.io.set_xattr("o", "a" * 11, b"v" * 101)

    def test_names(self):
        with self.option(osd_max_object_name_len=20, osd_max_object_namespace_len=5):
            self.io.write_full("n" * 20, b"x")
            self.assertErrno(errno.ENAMETOOLONG, self.io.write_full, "n" * 21, b"x")
            self.io.set_namespace("s" * 6)
            try:
                self.assertErrno(errno.ENAMETOOLONG, self.io.write_full, "n", b"x")
            finally:
                self.io.set_namespace("")

    def test_parts_of_maps(self):
        keys = tuple(f"k{i:03}" for i in range(200))
        write_op(self.io, "map", lambda op: self.io.set_omap(op, keys, tuple(b"v" * 100 for _ in keys)))

        def listed(after=""):
            with rados.ReadOpCtx() as op:
                entries, _ = self.io.get_omap_vals(op, after, "", 1000)
                self.io.operate_read_op(op, "map")
                return [key for key, _ in entries]

        with self.option(osd_max_omap_entries_per_request=30):
            self.assertEqual(listed(), list(keys[:30]))
            self.assertEqual(listed("k029"), list(keys[30:60]))
        with self.option(osd_max_omap_bytes_per_request=3000):
            part = listed()
            self.assertTrue(10 < len(part) < 100 and part == list(keys[: len(part)]), len(part))
        self.assertEqual(len(listed()), 200)

    def test_a_request(self):
        with self.option(osd_max_write_size=4):
            self.io.write_full("w", b"x" * (4 << 20))
            self.assertErrno(errno.EMSGSIZE, self.io.write_full, "w", b"x" * ((4 << 20) + 1))

    def test_many_requests_of_many_clients_get_through_a_narrow_door(self):
        clients = [connect() for _ in range(4)]
        try:
            with self.option(osd_client_message_cap=4, osd_client_message_size_cap=100_000):
                failed = []

                def run(number):
                    io = clients[number].open_ioctx(self.pool)
                    writes = [io.aio_write_full(f"c{number}-{i}", b"%d" % i * 5000) for i in range(200)]
                    for write in writes:
                        write.wait_for_complete_and_cb()
                        failed.extend([write.get_return_value()] if write.get_return_value() else [])
                    io.close()

                threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
                [thread.start() for thread in threads]
                [thread.join(120) for thread in threads]
                self.assertFalse(any(thread.is_alive() for thread in threads))
                self.assertEqual(failed, [])
            self.assertEqual(self.io.read("c3-199", 3), b"199")
        finally:
            [client.shutdown() for client in clients]

    def test_one_client_with_many_requests_for_one_group_keeps_their_order(self):
        count, objects = 2000, 100
        # Whole blocks: of others librados 16.2 says ERANGE for an asynchronous read in secure mode.
        value = lambda i: (b"%05d" % i).ljust(4096)
        with self.option(osd_client_message_cap=100):
            self.io.set_locator_key("together")
            try:
                writes = [self.io.aio_write_full(f"o{i % objects}", value(i)) for i in range(count)]
                wait_for(lambda: all(write.is_complete() for write in writes), "all is written")
                found = {}
                reads = [
                    self.io.aio_read(f"o{i % objects}", 4096, 0, lambda _, data, i=i: found.update({i: data}))
                    for i in range(count)
                ]
                wait_for(lambda: all(read.is_complete() for read in reads), "all is read")
                for read in reads:
                    read.wait_for_complete_and_cb()
            finally:
                self.io.set_locator_key("")
        self.assertEqual([write.get_return_value() for write in writes], [0] * count)
        wrong = [i for i in range(count) if found[i] != value(count - objects + i % objects)]
        self.assertEqual(wrong, [])

    def test_connections_that_are_too_open(self):
        def writes(mode):
            client = connect(ms_client_mode=mode, rados_osd_op_timeout="3")
            try:
                io = client.open_ioctx(self.pool)
                io.write_full("o", mode.encode())
                io.close()
            finally:
                client.shutdown()

        with self.option(ms_service_mode="secure"):
            self.assertErrno(errno.ETIMEDOUT, writes, "crc")
            writes("crc secure")
            self.io.write_full("o", b"over a connection from before")
        writes("crc")
        with self.option(ms_cluster_mode="secure"):
            writes("crc")

    def test_groups_of_a_pool(self):
        self.mon("config set", who="mon", name="mon_max_pool_pg_num", value="16")
        try:
            refused = rf"-{errno.ERANGE} .*less than or equal to 16"
            wait_for(lambda: self.refuses(refused, "osd pool create", pool=f"{self.pool}-2", pg_num=32), refused)
            with self.assertRaisesRegex(AssertionError, refused):
                self.mon("osd pool set", pool=self.pool, var="pg_num", val="32")
        finally:
            self.mon("config rm", who="mon", name="mon_max_pool_pg_num")

    def refuses(self, answer, prefix, **arguments):
        """Whether the monitor refuses the command so; what it made in vain is removed."""
        try:
            self.mon(prefix, **arguments)
        except AssertionError as refused:
            return re.search(answer, str(refused))
        self.mon("osd pool rm", pool=arguments["pool"], pool2=arguments["pool"], yes_i_really_really_mean_it=True)
        return False
