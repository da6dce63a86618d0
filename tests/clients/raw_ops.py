"""Any operation on an object, whether librados has a call for it or not: code, flags, parameters and payload as given.

librados has one operation that takes bytes in and gives bytes back, whatever they mean: a class call. Each operation
here is put into a compound as a class call whose code, flags and parameters are then written over in librados' memory
(the 38 bytes of `struct ceph_osd_op` at the start of each 152 byte `OSDOp`, in librados 16.2 on x86-64), so that
librados sends it as any other and hands over each operation's result and output as they came.
"""
import ctypes
import os
import struct
import unittest
from dataclasses import dataclass

import harness

OSDOP_BYTES, HEAD_BYTES, ARGS_BYTES = 152, 34, 28

RD, WR, CACHE, DATA, ATTR, EXEC, PG = 0x1000, 0x2000, 0x8000, 0x200, 0x300, 0x400, 0x500

CODES = {
    "read": RD | DATA | 1, "stat": RD | DATA | 2, "mapext": RD | DATA | 3, "masktrunc": RD | DATA | 4,
    "sparse-read": RD | DATA | 5, "notify": RD | DATA | 6, "notify-ack": RD | DATA | 7,
    "assert-version": RD | DATA | 8, "list-watchers": RD | DATA | 9, "list-snaps": RD | DATA | 10,
    "sync-read": RD | DATA | 11, "tmapget": RD | DATA | 12, "omap-get-keys": RD | DATA | 17,
    "omap-get-vals": RD | DATA | 18, "omap-get-header": RD | DATA | 19, "omap-get-vals-by-keys": RD | DATA | 20,
    "omap-cmp": RD | DATA | 25, "isdirty": RD | DATA | 29, "copy-get": RD | DATA | 30, "checksum": RD | DATA | 31,
    "cmpext": RD | DATA | 32,
    "write": WR | DATA | 1, "writefull": WR | DATA | 2, "truncate": WR | DATA | 3, "zero": WR | DATA | 4,
    "delete": WR | DATA | 5, "append": WR | DATA | 6, "startsync": WR | DATA | 7, "settrunc": WR | DATA | 8,
    "trimtrunc": WR | DATA | 9, "tmapup": RD | WR | DATA | 10, "tmapput": WR | DATA | 11, "create": WR | DATA | 13,
    "rollback": WR | DATA | 14, "watch": WR | DATA | 15, "omap-set-vals": WR | DATA | 21,
    "omap-set-header": WR | DATA | 22, "omap-clear": WR | DATA | 23, "omap-rm-keys": WR | DATA | 24,
    "copy-from": WR | DATA | 26, "undirty": WR | DATA | 28, "tmap2omap": RD | WR | DATA | 34,
    "set-alloc-hint": WR | DATA | 35, "cache-pin": WR | DATA | 36, "cache-unpin": WR | DATA | 37,
    "write-same": WR | DATA | 38, "set-redirect": WR | DATA | 39, "tier-promote": WR | DATA | 41,
    "unset-manifest": WR | DATA | 42, "omap-rm-key-range": WR | DATA | 44, "copy-from2": WR | DATA | 45,
    "cache-flush": CACHE | DATA | 31, "cache-evict": CACHE | DATA | 32, "cache-try-flush": CACHE | DATA | 33,
    "set-chunk": CACHE | DATA | 40, "tier-flush": CACHE | DATA | 43, "tier-evict": CACHE | DATA | 44,
    "getxattr": RD | ATTR | 1, "getxattrs": RD | ATTR | 2, "cmpxattr": RD | ATTR | 3,
    "setxattr": WR | ATTR | 1, "setxattrs": WR | ATTR | 2, "resetxattrs": WR | ATTR | 3, "rmxattr": WR | ATTR | 4,
    "call": RD | EXEC | 1, "pgls": RD | PG | 1, "pgnls": RD | PG | 5,
}

EXCL, FAILOK = 1, 2
# librados' own flags of whole requests (LIBRADOS_OPERATION_*).
BALANCE_READS, LOCALIZE_READS, ORDER_READS_WRITES, IGNORE_CACHE = 1, 2, 4, 8
SKIPRWLOCKS, IGNORE_OVERLAY, FULL_TRY, FULL_FORCE, IGNORE_REDIRECT, ORDERSNAP, RETURNVEC = (
    16, 32, 64, 128, 256, 512, 1024)
EQ, NE, GT, GTE, LT, LTE = 1, 2, 3, 4, 5, 6
STRING, U64 = 1, 2


def blob(data):
    """A string or buffer with its length before it."""
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("<I", len(data)) + data


def versioned(version, compat, body):
    """A structure with Ceph's envelope: version, the oldest that can read it, length."""
    return struct.pack("<BBI", version, compat, len(body)) + body


def locator(pool, key="", nspace=""):
    """object_locator_t."""
    return versioned(6, 3, struct.pack("<qi", pool, -1) + blob(key) + blob(nspace) + struct.pack("<q", -1))


def key_values(entries):
    """A map of keys to values."""
    return struct.pack("<I", len(entries)) + b"".join(blob(k) + blob(v) for k, v in sorted(entries.items()))


def key_set(keys):
    """A set of keys."""
    return struct.pack("<I", len(keys)) + b"".join(blob(k) for k in sorted(keys))


@dataclass
class Op:
    """One operation."""

    name: str
    args: bytes = b""
    payload: bytes = b""
    flags: int = 0

    def head(self):
        code = CODES[self.name] if self.name in CODES else int(self.name, 0)
        return struct.pack("<HI", code, self.flags) + self.args.ljust(ARGS_BYTES, b"\0")


def extent(name, offset=0, length=0, payload=b"", size=0, seq=0, flags=0):
    """An operation on a range of data."""
    return Op(name, struct.pack("<QQQI", offset, length, size, seq), payload, flags)


def write(offset, data, **kwargs):
    return extent("write", offset, len(data), data, **kwargs)


def write_full(data, **kwargs):
    return extent("writefull", 0, len(data), data, **kwargs)


def xattr(name, key, value=b"", op=0, mode=0, flags=0, given=None):
    """An operation on an attribute; `given` is what follows the name where that is not the value itself."""
    key = key.encode() if isinstance(key, str) else key
    payload = key + (value if given is None else given)
    return Op(name, struct.pack("<IIBB", len(key), len(value), op, mode), payload, flags)


def plain(name, payload=b"", flags=0):
    """An operation without parameters."""
    return Op(name, b"", payload, flags)


@dataclass
class Answer:
    """What came of a compound: the whole's result, then each operation's result and output."""

    result: int
    results: list
    outputs: list
    version: int


class Client:
    """A connection and a pool."""

    def __init__(self, conf, pool, nspace=""):
        if harness.client_release() >= 20:
            raise unittest.SkipTest("it is not known here how librados 20.2 lays out the operations of a request")
        self.lib = ctypes.CDLL("librados.so.2", use_errno=True)
        for name in ("rados_create_read_op", "rados_create_write_op"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        self.lib.rados_get_last_version.restype = ctypes.c_uint64
        self.lib.rados_ioctx_get_id.restype = ctypes.c_int64
        self.cluster, self.io = ctypes.c_void_p(), ctypes.c_void_p()
        self._ok(self.lib.rados_create(ctypes.byref(self.cluster), None))
        self._ok(self.lib.rados_conf_read_file(self.cluster, os.fsencode(conf)))
        # An operation that an OSD never answers must not hold the test up for ever.
        self._ok(self.lib.rados_conf_set(self.cluster, b"rados_osd_op_timeout", b"20"))
        self._ok(self.lib.rados_connect(self.cluster))
        self._ok(self.lib.rados_ioctx_create(self.cluster, pool.encode(), ctypes.byref(self.io)))
        self.pool = self.lib.rados_ioctx_get_id(self.io)
        self.namespace(nspace)

    @staticmethod
    def _ok(code):
        if code < 0:
            raise OSError(-code, os.strerror(-code))

    def namespace(self, nspace):
        self.lib.rados_ioctx_set_namespace(self.io, nspace.encode())

    def locator_key(self, key):
        self.lib.rados_ioctx_locator_set_key(self.io, key.encode() if key else None)

    def close(self):
        self.lib.rados_ioctx_destroy(self.io)
        self.lib.rados_shutdown(self.cluster)

    def operate(self, name, *ops, flags=0):
        """Runs a compound and returns its `Answer`."""
        lib = self.lib
        compound = ctypes.c_void_p(lib.rados_create_read_op())
        outs = [(ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int(0)) for _ in ops]
        try:
            for op, (buf, size, code) in zip(ops, outs):
                lib.rados_read_op_exec(
                    compound, b"", b"", op.payload, ctypes.c_size_t(len(op.payload)),
                    ctypes.byref(buf), ctypes.byref(size), ctypes.byref(code))
            first = ctypes.c_uint64.from_address(compound.value).value
            for i, op in enumerate(ops):
                ctypes.memmove(first + i * OSDOP_BYTES, op.head(), HEAD_BYTES)
            name = name.encode() if isinstance(name, str) else name
            result = lib.rados_read_op_operate(compound, self.io, name, flags)
            outputs = [ctypes.string_at(buf.value, size.value) if buf.value else b"" for buf, size, _ in outs]
            version = lib.rados_get_last_version(self.io)
            return Answer(result, [code.value for _, _, code in outs], outputs, version)
        finally:
            for buf, _, _ in outs:
                if buf.value:
                    lib.rados_buffer_free(buf)
            lib.rados_release_read_op(compound)
