"""A pool and a connection for the tests of a class, through python3-rados.

Beside `harness`, which needs no bindings: what only tests over librados share.
"""
import contextlib
import json
import os
import time
import unittest

import rados

import harness


def connect(**options):
    """A client of its own, with options of its own."""
    client = rados.Rados(conffile=os.environ["CEPH_CONF"], conf=options)
    client.connect(timeout=30)
    return client


class Pool(unittest.TestCase):
    """A pool of 8 placement groups that lives as long as the tests of its class."""

    @classmethod
    def setUpClass(cls):
        cls.pool = f"{cls.__name__.lower()}-{os.getpid()}"
        cls.cluster = connect()
        cls.mon("osd pool create", pool=cls.pool, pg_num=8, pgp_num=8)
        cls.mon("osd pool application enable", pool=cls.pool, app="test")
        cls.io = cls.cluster.open_ioctx(cls.pool)

    @classmethod
    def tearDownClass(cls):
        cls.io.close()
        cls.mon("osd pool rm", pool=cls.pool, pool2=cls.pool, yes_i_really_really_mean_it=True)
        cls.cluster.shutdown()

    @classmethod
    def mon(cls, prefix, **arguments):
        """A monitor's command; its answer, parsed where it is JSON. Fails with the monitor's own words."""
        command = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, out, says = cls.cluster.mon_command(command, b"")
        if code:
            raise AssertionError(f"{command}: {code} {says}")
        return json.loads(out) if out.strip() else None

    def assertErrno(self, code, call, *args, **kwargs):
        """The call is refused with this errno. Compound ops raise bare errnos of either sign."""
        with self.assertRaises(rados.Error) as caught:
            call(*args, **kwargs)
        self.assertEqual(abs(caught.exception.errno), code, caught.exception)

    def primary(self, name):
        """The OSD that serves the object now."""
        return self.mon("osd map", pool=self.pool, object=name)["acting_primary"]


@contextlib.contextmanager
def reading_at(io, snap):
    """The context reads at a snap inside, and at the head again after."""
    io.set_read(snap)
    try:
        yield
    finally:
        io.set_read(rados.LIBRADOS_SNAP_HEAD)


def write_op(io, name, *steps, **options):
    """One compound write: each step is called with the op."""
    with rados.WriteOpCtx() as op:
        for step in steps:
            step(op)
        io.operate_write_op(op, name, **options)


def zero(op, offset, length):
    """Adds a zeroing to a compound write: the bindings of 16.2 and 18.2 swap the two, those of 20.2 do not."""
    op.zero(*((offset, length) if harness.client_release() >= 20 else (length, offset)))


def omap(io, name):
    """An object's whole map."""
    with rados.ReadOpCtx() as op:
        entries, _ = io.get_omap_vals(op, "", "", 1000)
        io.operate_read_op(op, name)
        return dict(entries)


def wait_for(condition, what, seconds=60, period=0.05):
    """Like harness.wait_for, and patient with the errors of a cluster that is on its way."""
    end = time.monotonic() + seconds
    while True:
        try:
            value, error = condition(), None
        except rados.Error as refused:
            value, error = None, refused
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what} ({error})")
        time.sleep(period)
