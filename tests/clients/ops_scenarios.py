"""Compounds to run one after the other on a pool, and what to record of each: the questions of `test_rados_ops`.

A scenario is a name and steps; a step is an object's name (its scenario's unless given), operations and flags of the
whole request. Nothing here says what the right answer is: those are in `ops_answers.json`, recorded from Ceph.
"""
import struct

from raw_ops import (
    EQ, EXCL, FAILOK, FULL_FORCE, FULL_TRY, GT, GTE, IGNORE_CACHE, IGNORE_OVERLAY, IGNORE_REDIRECT, LT, LTE, NE,
    ORDER_READS_WRITES, ORDERSNAP, RETURNVEC, SKIPRWLOCKS, STRING, U64, BALANCE_READS, LOCALIZE_READS, Op, blob,
    extent, key_set, key_values, locator, plain, write, write_full, xattr,
)

MAX = 128 << 20
READ, STAT = extent("read"), plain("stat")
ADVICE = 0x4 | 0x8 | 0x10 | 0x20 | 0x40


class Step:
    """One request."""

    def __init__(self, *ops, flags=0, on=None):
        self.ops, self.flags, self.on = ops, flags, on


def scenarios(pool):
    """All scenarios by name, for the pool of this number."""
    every = {}
    for part in (data(), cephfs(), reading(), checksums(), comparisons(), attributes(), maps(), compounds(), flags(),
                 unknown(), copies(pool), hostile(), old_maps(), empty_names()):
        every.update(part)
    return every


def data():
    return {
        "missing": [Step(op) for op in (
            READ, STAT, extent("sparse-read", 0, 9), extent("mapext", 0, 9), extent("sync-read"), plain("getxattrs"),
            xattr("getxattr", "a"), plain("delete"), extent("truncate", 5), extent("zero", 0, 5),
            xattr("rmxattr", "a"), plain("omap-clear"), plain("omap-rm-keys", key_set(["a"])),
            plain("omap-rm-key-range", blob("a") + blob("b")), plain("omap-get-header"), plain("list-watchers"),
            extent("trimtrunc", 0, 0, size=3, seq=2), extent("cmpext", 0, 1, b"x"),
            extent("cmpext", 0, 1, b"\0"), STAT)],
        "write": [Step(write(3, b"abc")), Step(READ), Step(write(0, b"")), Step(write(9, b"")), Step(READ),
                  Step(write(4, b"Z", flags=ADVICE)), Step(READ), Step(extent("write", 0, 3, b"no")),
                  Step(extent("write", 0, 1, b"no")), Step(STAT)],
        "largest": [Step(write(MAX, b"x")), Step(write(MAX - 1, b"xy")), Step(write(MAX - 1, b"x")), Step(STAT),
                    Step(write(1 << 63, b"x")), Step(write((1 << 64) - 1, b"x")), Step(extent("append", 0, 1, b"y")),
                    Step(extent("truncate", MAX)), Step(extent("truncate", MAX + 1)), Step(extent("truncate", MAX - 1)),
                    Step(extent("zero", MAX, 1)), Step(extent("zero", 0, MAX + 1)),
                    Step(extent("zero", (1 << 64) - 2, 9)), Step(plain("delete"))],
        "full": [Step(write_full(b"hello world")), Step(write_full(b"hi")), Step(READ), Step(write_full(b"")),
                 Step(READ, STAT), Step(extent("writefull", 7, 2, b"at")), Step(READ),
                 Step(extent("writefull", 0, 3, b"no"))],
        "append": [Step(extent("append", 0, 2, b"ab")), Step(extent("append", 99, 2, b"cd")), Step(READ),
                   Step(extent("append", 0, 0)), Step(READ), Step(extent("append", 0, 3, b"no")),
                   Step(extent("append", 0, 1, b"e"), extent("append", 0, 1, b"f")), Step(READ)],
        "zero": [Step(write_full(b"0123456789")), Step(extent("zero", 2, 3)), Step(READ), Step(extent("zero", 10, 5)),
                 Step(extent("zero", 50, 5)), Step(STAT), Step(extent("zero", 8, 100)), Step(READ, STAT),
                 Step(extent("zero", 0, MAX)), Step(STAT)],
        "truncate": [Step(write_full(b"0123456789")), Step(extent("truncate", 4)), Step(extent("truncate", 6)),
                     Step(READ), Step(extent("truncate", 6)), Step(extent("truncate", 0)), Step(READ, STAT)],
        "create": [Step(plain("create", flags=EXCL)), Step(plain("create", flags=EXCL)), Step(plain("create")),
                   Step(plain("create", blob("category"))), Step(plain("create", b"\xff")), Step(STAT)],
        "delete": [Step(write_full(b"x"), xattr("setxattr", "a", b"1")), Step(plain("delete")), Step(STAT),
                   Step(plain("delete")), Step(plain("delete", flags=FAILOK)), Step(write_full(b"y")),
                   Step(plain("delete"), plain("delete")), Step(plain("getxattrs"), READ),
                   Step(plain("delete"), plain("create")), Step(plain("getxattrs"), STAT)],
        "writesame": [Step(Op("write-same", struct.pack("<QQQ", 2, 6, 3), b"abc")), Step(READ),
                      Step(Op("write-same", struct.pack("<QQQ", 0, 0, 3), b"abc")),
                      Step(Op("write-same", struct.pack("<QQQ", 0, 7, 3), b"abc")),
                      Step(Op("write-same", struct.pack("<QQQ", 0, 6, 0))),
                      Step(Op("write-same", struct.pack("<QQQ", 0, 6, 2), b"abc")),
                      Step(Op("write-same", struct.pack("<QQQ", MAX, 6, 3), b"abc")),
                      Step(Op("write-same", struct.pack("<QQQ", 1, 4, 2), b"zy")), Step(READ)],
        "hints": [Step(Op("set-alloc-hint", struct.pack("<QQI", 4096, 512, 0))), Step(STAT),
                  Step(Op("set-alloc-hint", struct.pack("<QQI", 1 << 22, 512, 0x3FF))), Step(STAT),
                  Step(write_full(b"x"), Op("set-alloc-hint", struct.pack("<QQI", 0, 0, 0))), Step(READ)],
        "startsync": [Step(write_full(b"x")), Step(plain("startsync")),
                      Step(READ)],
    }


def cephfs():
    """Truncations by sequence."""
    return {
        "trimtrunc": [Step(write_full(b"0123456789")), Step(extent("trimtrunc", 0, 0, size=4, seq=2)), Step(READ),
                      Step(extent("trimtrunc", 0, 0, size=1, seq=2)), Step(READ),
                      Step(extent("write", 2, 4, b"xxxx", size=10, seq=1)), Step(READ),
                      Step(extent("write", 8, 2, b"yy", size=10, seq=1)), Step(READ),
                      Step(extent("write", 3, 1, b"y", size=1, seq=3)), Step(READ),
                      Step(extent("read", 0, 9, size=2, seq=4)), Step(extent("read", 0, 0, size=2, seq=4)),
                      Step(extent("read", 0, 1, size=2, seq=4)),
                      Step(extent("read", 0, 9, size=(1 << 64) - 1, seq=1)),
                      Step(extent("write", 0, 1, b"Q", size=(1 << 64) - 1, seq=1)), Step(READ),
                      Step(extent("truncate", 2, 0, size=2, seq=9)), Step(READ),
                      Step(extent("sparse-read", 0, 9, size=1, seq=10)),
                      Step(extent("cmpext", 0, 2, b"Q\0", size=1, seq=10)),
                      Step(extent("cmpext", 0, 2, b"Qx", size=1, seq=10)),
                      Step(extent("append", 0, 1, b"A")), Step(READ)],
        "newborn": [Step(extent("write", 5, 1, b"n", size=3, seq=7)), Step(READ),
                    Step(extent("trimtrunc", 0, 0, size=2, seq=7)), Step(READ),
                    Step(extent("trimtrunc", 0, 0, size=2, seq=8)), Step(READ)],
    }


def reading():
    return {
        "read": [Step(write_full(b"0123456789")), *(
            Step(extent(op, o, n)) for op in ("read", "sync-read", "sparse-read", "mapext")
            for o, n in ((0, 0), (4, 3), (8, 9), (10, 5), (99, 0), (5, 0), (0, 1 << 40), (1 << 63, 1 << 63))
            # How much a sparse read of no length reads is up to Ceph's stores, which do not agree.
            if n or "read" == op or "sync-read" == op)],
        "empty": [Step(write_full(b"")), Step(READ), Step(extent("sparse-read", 0, 10)), Step(extent("mapext", 0, 10)),
                  Step(plain("masktrunc")), Step(plain("settrunc"))],
        "advice": [Step(write_full(b"data")), *(Step(extent("read", 0, 0, flags=f)) for f in (4, 8, 16, 32, 64, 128))],
        "versions": [Step(write_full(b"1")), Step(Op("assert-version", struct.pack("<QQ", 0, 0)), READ),
                     Step(Op("assert-version", struct.pack("<QQ", 0, 1)), READ),
                     Step(Op("assert-version", struct.pack("<QQ", 0, 1 << 40)), READ),
                     Step(Op("assert-version", struct.pack("<QQ", 0, 1)), write_full(b"2")), Step(READ)],
    }


def checksum(kind, offset, length, chunk, init):
    return Op("checksum", struct.pack("<QQIB", offset, length, chunk, kind), init)


def checksums():
    one, eight = struct.pack("<I", 1), struct.pack("<Q", 1)
    ones = struct.pack("<I", 0xFFFFFFFF)
    text = bytes(range(256)) * 33 + b"tail!"
    steps = [Step(write_full(text))]
    for kind, init in ((0, one), (1, eight), (2, ones), (2, one)):
        for offset, length, chunk in ((0, 0, 0), (0, 64, 16), (7, 31, 0), (0, 8192, 4096), (3, 1, 1), (0, 32, 32),
                                      (0, 33, 33), (5, 0, 0)):
            steps.append(Step(checksum(kind, offset, length, chunk, init)))
    for bad in (checksum(9, 0, 0, 0, eight), checksum(2, 0, 0, 16, ones), checksum(2, 0, 33, 16, ones),
                checksum(2, 0, 0, 0, b""), checksum(1, 0, 0, 0, ones), checksum(2, 99999, 16, 0, ones),
                checksum(2, len(text) - 5, 16, 0, ones), checksum(2, len(text) - 5, 16, 4, ones),
                checksum(2, len(text) - 8, 16, 4, ones), checksum(9, 99999, 1, 0, b""),
                checksum(2, 99999, 16, 5, ones)):
        steps.append(Step(bad))
    return {"checksum": steps, "nothing to sum": [Step(write_full(b"")), Step(checksum(2, 0, 0, 0, ones)),
                                                  Step(checksum(2, 0, 8, 4, ones)), Step(checksum(0, 0, 0, 0, one)),
                                                  Step(checksum(2, 0, 0, 0, ones), on="no such object"),
                                                  Step(checksum(2, 0, 0, 0, ones), write(0, b"x"), flags=RETURNVEC),
                                                  Step(checksum(2, 0, 0, 0, ones), write(0, b"y"), flags=RETURNVEC)]}


def comparisons():
    steps = [Step(write_full(b"0123456789"))]
    for offset, text in ((0, b"01"), (0, b"0x"), (3, b"345"), (3, b"3x5"), (8, b"89\0\0"), (8, b"89\0x"), (20, b"\0"),
                         (20, b"x"), (0, b"")):
        steps.append(Step(extent("cmpext", offset, len(text), text)))
        steps.append(Step(extent("cmpext", offset, len(text), text), write(0, b"0")))
    steps += [Step(extent("cmpext", 0, 1, b"01")), Step(extent("cmpext", 0, 9, b"01")), Step(extent("cmpext", 0, 0, b"x")),
              Step(write(0, b"X"), extent("cmpext", 0, 1, b"0")), Step(READ),
              Step(write(0, b"Y"), extent("cmpext", 0, 1, b"Z")), Step(READ),
              Step(extent("cmpext", 0, 1, b"Q", flags=FAILOK), write(1, b"f")), Step(READ),
              Step(extent("cmpext", 0, 1, b"Q", flags=FAILOK), write(1, b"g"), flags=RETURNVEC),
              Step(extent("cmpext", 0, 2, b"0q"), on="no such object"),
              Step(extent("cmpext", 0, 2, b"\0q"), write(0, b"n"), on="not there"),
              Step(extent("cmpext", 0, 2, b"\0\0"), write(0, b"n"), on="not there"), Step(READ, on="not there")]
    return {"cmpext": steps}


def attributes():
    steps = [Step(write_full(b""), xattr("setxattr", "s", b"m"), xattr("setxattr", "n", b"5"),
                  xattr("setxattr", "e", b""), xattr("setxattr", "t", b"12x"), xattr("setxattr", "z", b"7\0"),
                  xattr("setxattr", "neg", b"-1"), xattr("setxattr", "sp", b" 8"), xattr("setxattr", "w", b"x9"),
                  xattr("setxattr", "big", b"99999999999999999999"), xattr("setxattr", "hex", b"0x10"))]
    for key, value in (("s", b"m"), ("s", b"a"), ("s", b"z"), ("s", b""), ("none", b""), ("none", b"x"), ("e", b"")):
        for op in (EQ, NE, GT, GTE, LT, LTE, 0, 7):
            steps.append(Step(xattr("cmpxattr", key, value, op, STRING)))
    for key in ("n", "none", "e", "t", "z", "neg", "sp", "w", "big", "hex"):
        for op in (EQ, NE, GT, GTE, LT, LTE, 9):
            for number in (0, 5, 7, 9):
                steps.append(Step(xattr("cmpxattr", key, struct.pack("<Q", number), op, U64)))
    steps += [Step(xattr("cmpxattr", "n", b"", EQ, U64)), Step(xattr("cmpxattr", "n", b"5", EQ, 9)),
              Step(xattr("cmpxattr", "s", b"m", EQ, STRING), write_full(b"w")), Step(READ),
              Step(xattr("cmpxattr", "s", b"q", EQ, STRING), write_full(b"v")), Step(READ),
              Step(xattr("cmpxattr", "s", b"m", EQ, STRING), plain("stat")),
              Step(xattr("cmpxattr", "s", b"m", EQ, STRING), write_full(b"w"), flags=RETURNVEC),
              Step(xattr("cmpxattr", "s", b"q", EQ, STRING, flags=FAILOK), write_full(b"u"), flags=RETURNVEC),
              Step(xattr("cmpxattr", "none", b"", EQ, STRING), write_full(b"c"), on="compared and created"),
              Step(READ, on="compared and created"),
              Step(xattr("cmpxattr", "none", b"x", EQ, STRING), write_full(b"c"), on="compared, not created"),
              Step(xattr("cmpxattr", "none", struct.pack("<Q", 0), EQ, U64), on="no such object")]
    life = [Step(xattr("setxattr", "a", b"1")), Step(plain("getxattrs")), Step(xattr("getxattr", "b")),
            Step(xattr("setxattr", "b", b"\0\xff" * 40)), Step(xattr("getxattr", "b")), Step(xattr("rmxattr", "none")),
            Step(xattr("rmxattr", "a")),
            Step(xattr("getxattr", "a")), Step(plain("getxattrs")), Step(xattr("setxattr", "n" * 100, b"")),
            Step(xattr("setxattr", "n" * 101, b"")), Step(xattr("setxattr", "k", b"x" * 65536)),
            Step(xattr("setxattr", "k", b"x" * 65537)), Step(xattr("setxattr", "k", b"x" * (1 << 20))),
            Step(xattr("getxattr", "n" * 200)),
            Step(xattr("setxattr", "new", b"1"), xattr("getxattr", "new"), flags=RETURNVEC),
            Step(xattr("rmxattr", "new"), xattr("getxattr", "new"), flags=RETURNVEC),
            Step(plain("setxattrs")), Step(plain("resetxattrs"))]
    return {"cmpxattr": steps, "xattrs": life}


def omap_range(after, most, prefix=None):
    return blob(after) + struct.pack("<Q", most) + (blob(prefix) if prefix is not None else b"")


def assertions(entries):
    return struct.pack("<I", len(entries)) + b"".join(
        blob(k) + blob(v) + struct.pack("<i", op) for k, (v, op) in sorted(entries.items()))


def maps():
    fill = {f"k{i:02}": b"v%d" % i for i in range(12)}
    fill.update({"p/a": b"1", "p/b": b"2", "q": b""})
    steps = [Step(plain("omap-set-vals", key_values(fill)))]
    for after, most in (("", 3), ("", 0), ("k03", 2), ("k03x", 2), ("zz", 5), ("", 1 << 40), ("q", 1)):
        steps.append(Step(plain("omap-get-keys", omap_range(after, most))))
        for prefix in ("", "k0", "p/", "none", "q"):
            steps.append(Step(plain("omap-get-vals", omap_range(after, most, prefix))))
    steps += [Step(plain("omap-get-vals-by-keys", key_set(keys))) for keys in ([], ["k01", "none", "q"], [""])]
    steps += [Step(plain("omap-get-header")), Step(plain("omap-set-header", b"header\0")), Step(plain("omap-get-header")),
              Step(plain("omap-set-header", b"")), Step(plain("omap-get-header")), Step(plain("omap-set-header", b"H"))]
    for key, value in (("k01", b"v1"), ("k01", b"v0"), ("k01", b"v2"), ("k01", b""), ("none", b""), ("none", b"x"),
                       ("q", b"")):
        for op in (EQ, NE, GT, GTE, LT, LTE, 0, 300):
            steps.append(Step(plain("omap-cmp", assertions({key: (value, op)}))))
    steps += [Step(plain("omap-cmp", assertions({"k01": (b"v1", EQ), "k02": (b"v9", LT)}))),
              Step(plain("omap-cmp", assertions({"k01": (b"v1", EQ), "k02": (b"v9", GT)}))),
              Step(plain("omap-cmp", assertions({}))), Step(plain("omap-cmp", assertions({})), on="no such object"),
              Step(plain("omap-cmp", assertions({})), write_full(b"x"), on="no such object"),
              Step(plain("omap-cmp", assertions({"k01": (b"v1", EQ)})), plain("omap-set-vals", key_values({"n": b"1"}))),
              Step(plain("omap-cmp", assertions({"k01": (b"no", EQ)})), plain("omap-set-vals", key_values({"m": b"1"}))),
              Step(plain("omap-rm-keys", key_set(["k00", "none"]))),
              Step(plain("omap-rm-key-range", blob("k02") + blob("k05"))),
              Step(plain("omap-get-keys", omap_range("", 99))),
              Step(plain("omap-set-vals", key_values({"new": b"1"})), plain("omap-get-vals-by-keys", key_set(["new"])),
                   flags=RETURNVEC),
              Step(plain("omap-clear")), Step(plain("omap-get-keys", omap_range("", 99)), plain("omap-get-header")),
              Step(plain("omap-rm-keys", key_set([]))), Step(plain("omap-set-vals", key_values({}))),
              Step(STAT)]
    many = [Step(plain("omap-set-vals", key_values({f"{i:05}": b"" for i in range(1030)}))),
            Step(plain("omap-get-keys", omap_range("", 5000))), Step(plain("omap-get-keys", omap_range("00005", 1024))),
            Step(plain("omap-get-keys", omap_range("00006", 1024)))]
    return {"omap": steps, "many keys": many}


def compounds():
    return {
        "failure undoes": [Step(write_full(b"a"), plain("create", flags=EXCL)), Step(STAT), Step(write_full(b"1")),
                           Step(write_full(b"2"), plain("create", flags=EXCL)), Step(READ),
                           Step(write_full(b"2"), plain("create", flags=EXCL), write(0, b"3"), flags=RETURNVEC), Step(READ)],
        "failok": [Step(plain("create")), Step(xattr("getxattr", "a", flags=FAILOK), READ),
                   Step(xattr("getxattr", "a", flags=FAILOK)), Step(xattr("getxattr", "a", flags=FAILOK), write_full(b"b")),
                   Step(xattr("getxattr", "a", flags=FAILOK), write_full(b"c"), flags=RETURNVEC), Step(READ),
                   Step(plain("create", flags=EXCL | FAILOK), write_full(b"d")), Step(READ),
                   Step(plain("create", flags=EXCL | FAILOK)), Step(write(0, b"q"), plain("0x2fff", flags=FAILOK)),
                   Step(READ), Step(extent("write", 0, 3, b"no", flags=FAILOK), xattr("setxattr", "x", b"1")),
                   Step(plain("getxattrs"), READ)],
        "returned": [Step(write_full(b"old"), xattr("setxattr", "a", b"1")), Step(READ, write(0, b"N")),
                     Step(READ, write(0, b"M"), flags=RETURNVEC), Step(write(0, b"L"), READ, STAT, flags=RETURNVEC),
                     Step(write_full(b"long" * 16)), Step(READ, write(0, b"K"), flags=RETURNVEC),
                     Step(xattr("cmpxattr", "a", b"1", EQ, STRING), write(0, b"I"), flags=RETURNVEC),
                     Step(xattr("cmpxattr", "a", b"1", EQ, STRING), write(0, b"H")),
                     Step(plain("create", flags=EXCL), READ, flags=RETURNVEC),
                     Step(READ, plain("create", flags=EXCL), flags=RETURNVEC), Step(READ, plain("create", flags=EXCL))],
        # Ceph forgets to undo its own idea of the object here: nothing may follow.
        "too much returned": [Step(write_full(b"long" * 16 + b"!")), Step(READ, write(0, b"J"), flags=RETURNVEC)],
        "views": [Step(write_full(b"0123456789"), READ, flags=RETURNVEC), Step(write_full(b"0123456789")),
                  Step(extent("truncate", 4), READ, STAT, flags=RETURNVEC),
                  Step(write(0, b"ABCDEFGHIJ"), READ, flags=RETURNVEC), Step(READ),
                  Step(plain("delete"), READ, flags=RETURNVEC), Step(STAT), Step(write_full(b"x")),
                  Step(plain("delete"), STAT, flags=RETURNVEC), Step(plain("delete"), write_full(b"new"), STAT, flags=RETURNVEC),
                  Step(READ), Step(plain("delete"), xattr("getxattr", "none"), flags=RETURNVEC), Step(STAT),
                  *(Step(plain("create"), op, flags=RETURNVEC, on=f"created by {op.name}") for op in (
                      READ, extent("read", 0, 5), extent("sparse-read", 0, 5), extent("mapext", 0, 5), plain("getxattrs"),
                      xattr("getxattr", "a"), xattr("cmpxattr", "a", b"", EQ, STRING), plain("omap-get-header"),
                      plain("omap-get-keys", omap_range("", 9)), plain("omap-get-vals", omap_range("", 9, "")),
                      plain("omap-get-vals-by-keys", key_set(["a"])), plain("omap-cmp", assertions({"a": (b"", EQ)})),
                      plain("list-watchers"), extent("cmpext", 0, 1, b"\0"),
                      checksum(2, 0, 0, 0, struct.pack("<I", 1)))),
                  Step(write_full(b"text"), checksum(2, 0, 0, 0, struct.pack("<I", 1)), flags=RETURNVEC, on="new"),
                  Step(write_full(b"text"), extent("cmpext", 0, 4, b"text"), flags=RETURNVEC, on="new"),
                  Step(xattr("setxattr", "a", b"1"), xattr("getxattr", "a"), flags=RETURNVEC, on="new"),
                  Step(STAT, on="new")],
        "no change": [Step(write_full(b"x")), Step(xattr("cmpxattr", "a", b"", EQ, STRING), extent("zero", 5, 5)),
                      Step(extent("zero", 5, 5), flags=RETURNVEC), Step(extent("zero", 5, 5), READ), Step(READ),
                      Step(extent("truncate", 0, 0, size=0, seq=0)), Step(READ), Step(write_full(b"z"))],
        "many ops": [Step(*(extent("append", 0, 1, b"%d" % (i % 10)) for i in range(100))), Step(READ),
                     Step(*(STAT for _ in range(16)))],
    }


def flags():
    reads = (0, BALANCE_READS, LOCALIZE_READS)
    names = (0, ORDER_READS_WRITES, IGNORE_CACHE, SKIPRWLOCKS, IGNORE_OVERLAY, FULL_TRY, FULL_FORCE, IGNORE_REDIRECT,
             ORDERSNAP, RETURNVEC)
    return {
        "request flags": [Step(write_full(b"0"))] + [Step(READ, flags=f) for f in reads] + [s for f in names for s in (
            Step(READ, flags=f), Step(write_full(b"%d" % f), flags=f), Step(READ))],
    }


def unknown():
    ops = (plain("0x12fe"), plain("0x22fe"), plain("0x1000"), plain("0"), plain("0x2601"), plain("0x1602"),
           plain("0x1603"), plain("0x4201"), plain("list-snaps"))
    return {"unknown": [Step(write_full(b"x"))] + [Step(op) for op in ops] + [Step(READ)],
            "unknown, missing": [Step(op) for op in ops] + [Step(STAT)]}


def copy_from(pool, name, version=0, flags=0, op="copy-from", snap=0xFFFFFFFFFFFFFFFE, tail=b"", nspace="", key=""):
    return Op(op, struct.pack("<QQBI", snap, version, flags, 0), blob(name) + locator(pool, key, nspace) + tail)


def copies(pool):
    everything = (READ, plain("getxattrs"), plain("omap-get-header"), plain("omap-get-vals", omap_range("", 99, "")), STAT)
    return {
        "copy": [Step(write_full(b"source data"), xattr("setxattr", "a", b"1"), plain("omap-set-header", b"head"),
                      plain("omap-set-vals", key_values({"k": b"v", "l": b"w"})), on="copy source"),
                 Step(copy_from(pool, "copy source")), Step(*everything),
                 Step(write_full(b"old and longer than the source"), xattr("setxattr", "old", b"x"),
                      plain("omap-set-vals", key_values({"old": b"x"})), on="copied over"),
                 Step(copy_from(pool, "copy source"), on="copied over"), Step(*everything, on="copied over"),
                 Step(copy_from(pool, "no such object")), Step(copy_from(pool, "copy")), Step(*everything),
                 Step(copy_from(pool, "copy source", version=1 << 40)), Step(copy_from(pool, "copy source", version=1)),
                 Step(copy_from(pool, "copy source"), xattr("setxattr", "b", b"2"), on="copied and more"),
                 Step(*everything, on="copied and more"),
                 Step(write_full(b"zz"), copy_from(pool, "copy source"), on="more and copied"),
                 Step(*everything, on="more and copied"),
                 Step(copy_from(pool, "copy source"), READ, STAT, flags=RETURNVEC, on="copied and read"),
                 Step(copy_from(pool, "copy source"), plain("create", flags=EXCL), on="copied in vain"),
                 Step(STAT, on="copied in vain"),
                 Step(copy_from(pool, "no such object", flags=0), write_full(b"x"), on="copied from nothing"),
                 Step(copy_from(pool, "copy source", op="copy-from2", flags=0x40)),
                 Step(copy_from(pool, "copy source", op="copy-from2"), on="copied two"), Step(*everything, on="copied two"),
                 Step(copy_from(pool, "copy source", op="copy-from2", flags=32, tail=struct.pack("<IQ", 7, 6)), on="cut"),
                 Step(*everything, on="cut"), Step(extent("trimtrunc", 0, 0, size=2, seq=7), READ, flags=RETURNVEC, on="cut"),
                 Step(copy_from(pool, "copy source", op="copy-from2", flags=32), on="cut"),
                 Step(copy_from(pool, "copy source", nspace="other"), on="copy source"),
                 Step(copy_from(12345, "copy source")), Step(Op("copy-from", b"", b"\xff")),
                 Step(plain("create"), on="empty source"), Step(copy_from(pool, "empty source")), Step(*everything)],
        "copy-get": [Step(write_full(b"x"), on="copy-get"), Step(plain("copy-get", b""))],
    }


def old_maps():
    """Maps in an object's data, as there were before omaps. What is cut short stops Ceph's OSDs: nothing of that here."""
    def update(*commands):
        return plain("tmapup", b"".join(commands))

    def header(text):
        return b"h" + blob(text)

    def put(key, value="1"):
        return b"s" + blob(key) + blob(value)

    def create(key, value="1"):
        return b"c" + blob(key) + blob(value)

    def remove(key):
        return b"r" + blob(key)

    def remove_if_there(key):
        return b"R" + blob(key)

    get, convert = plain("tmapget"), plain("tmap2omap")
    null_ok = Op("tmap2omap", b"\1")
    everything = (READ, STAT, plain("omap-get-header"), plain("omap-get-vals", omap_range("", 99, "")))
    pairs = struct.pack("<I", 2) + blob("l") + blob("1") + blob("k") + blob("2")
    return {
        "tmap": [Step(op, on="no such map") for op in (get, update(), convert, null_ok, STAT)] + [
            Step(update(put("b"), put("a", "2"))), Step(get), Step(extent("tmapget", 3, 4)),
            Step(update(header("head"), put("a", "9"), put("c", "3"))), Step(READ), Step(update(create("a"))),
            Step(update(create("d"))), Step(update(create("z"), create("y"))), Step(update(remove("none"))),
            Step(update(remove("a"))), Step(update(remove_if_there("none"))), Step(READ),
            Step(update(b"x" + blob("k"))), Step(update(b"s" + blob("k"))), Step(update(b"s\xff")),
            Step(update(header("only"))), Step(update(put("a"), header("late"))), Step(READ),
            Step(update(put("z"), remove("b0"))), Step(update(put("z"), remove_if_there("b"))), Step(READ),
            Step(update(put("q")), STAT, flags=RETURNVEC), Step(update()), Step(READ),
            Step(write_full(b""), update(put("new"))), Step(READ),
            Step(update(put("x")), plain("create", flags=EXCL)), Step(READ)],
        "tmapput": [Step(plain("tmapput", blob("H") + key_values({"k": b"1", "l": b"2"}))), Step(READ),
                    Step(extent("tmapput", 0, 9, blob("") + key_values({"k": b"1"}))), Step(READ),
                    Step(plain("tmapput", blob("H") + pairs)), Step(READ), Step(convert), Step(*everything),
                    Step(convert), Step(null_ok), Step(*everything),
                    Step(write_full(b"this is no map")), Step(convert), Step(null_ok), Step(READ),
                    Step(write_full(b"ab")), Step(convert), Step(get), Step(plain("tmapput", blob("") + key_values({}))),
                    Step(convert), Step(*everything)],
    }


def empty_names():
    keys, values = plain("omap-get-keys", omap_range("", 9)), plain("omap-get-vals", omap_range("", 9, ""))
    return {
        "empty attribute name": [Step(xattr("setxattr", "", b"v")), Step(STAT), Step(plain("getxattrs")),
                                 Step(xattr("rmxattr", "")), Step(STAT), Step(xattr("getxattr", ""), on="nothing"),
                                 Step(xattr("setxattr", "", b"v"), xattr("setxattr", "a", b"1")),
                                 Step(plain("getxattrs"))],
        "empty key": [Step(plain("omap-set-vals", key_values({"": b"e", "a": b"1", "b": b"2"}))), Step(values), Step(keys),
                      *(Step(plain("omap-get-keys", omap_range("", most))) for most in (0, 1, 2, 3)),
                      Step(plain("omap-get-vals-by-keys", key_set([""]))),
                      Step(plain("omap-cmp", assertions({"": (b"e", EQ)}))), Step(plain("omap-cmp", assertions({"": (b"x", EQ)}))),
                      Step(plain("omap-rm-keys", key_set([""]))), Step(plain("omap-get-vals-by-keys", key_set([""]))),
                      Step(plain("omap-set-vals", key_values({"": b"e"}))),
                      Step(plain("omap-rm-key-range", blob("") + blob("b"))), Step(keys),
                      Step(plain("omap-get-vals-by-keys", key_set([""])))],
        "clear": [Step(write_full(b"x")), Step(plain("omap-clear")), Step(READ), Step(plain("omap-set-header", b"H")),
                  Step(plain("omap-clear")), Step(plain("omap-get-header"), keys), Step(plain("omap-clear")), Step(STAT),
                  Step(plain("omap-set-vals", key_values({"": b"e"}))), Step(plain("omap-clear")), Step(READ),
                  Step(plain("omap-set-vals", key_values({"a": b"1"})), plain("omap-clear")), Step(keys), Step(READ),
                  Step(plain("omap-clear"), plain("omap-set-vals", key_values({"b": b"2"}))), Step(keys),
                  Step(plain("omap-clear")), Step(plain("omap-clear"), on="nothing"), Step(write_full(b"y")), Step(READ)],
    }


def hostile():
    return {
        "lies": [Step(plain("create"))] + [Step(plain(op, payload)) for op in (
            "omap-get-keys", "omap-get-vals", "omap-get-vals-by-keys", "omap-cmp", "omap-set-vals", "omap-rm-keys",
            "omap-rm-key-range") for payload in (b"", b"\xff\xff\xff\xff", b"\1\0\0\0")] + [
                Step(plain("omap-set-vals", key_values({"a": b"1"}) + b"trailing")),
                Step(plain("omap-get-keys", omap_range("", 9) + b"trailing")), Step(STAT)],
    }
