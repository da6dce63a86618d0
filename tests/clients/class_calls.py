"""Calls of object classes, and what they answer: the same list for Ceph and for Loligo.

`CEPH_CONF=... python3 class_calls.py` prints the answers of a cluster as JSON; `golden/class_calls.json` holds those of
Ceph 16.2.15. An answer is the result and the output in hexadecimal (of a long one its hash); where an output depends on who asks or when, only
its length counts.
"""
import hashlib
import json
import os
import struct
import sys

import rados

HEAD = 2**64 - 2

# Every method that is served, by class.
METHODS = {
    "cas": "chunk_create_or_get_ref chunk_get_ref chunk_put_ref references_chunk",
    "hello": "say_hello record_hello write_return_data writes_dont_return_data write_too_much_return_data replay"
    " turn_it_to_11 bad_reader bad_writer",
    "journal": "create get_order get_splay_width get_pool_id get_minimum_set set_minimum_set get_active_set"
    " set_active_set get_client client_register client_update_data client_update_state client_unregister client_commit"
    " client_list get_next_tag_tid get_tag tag_create tag_list guard_append append",
    "lock": "lock unlock break_lock get_info list_locks assert_locked set_cookie",
    "log": "add list trim info",
    "numops": "add mul",
    "rbd": "create get_features set_features get_size set_size get_object_prefix get_data_pool get_all_features"
    " get_stripe_unit_count set_stripe_unit_count get_create_timestamp get_access_timestamp get_modify_timestamp"
    " set_modify_timestamp set_access_timestamp get_flags set_flags op_features_get op_features_set get_snapcontext"
    " get_snapshot_name get_snapshot_timestamp snapshot_get snapshot_add snapshot_remove snapshot_rename"
    " snapshot_trash_add snapshot_get_limit snapshot_set_limit set_protection_status get_protection_status get_parent"
    " set_parent remove_parent parent_get parent_overlap_get parent_attach parent_detach child_attach child_detach"
    " children_list add_child remove_child get_children metadata_list metadata_set metadata_remove metadata_get"
    " migration_set migration_set_state migration_get migration_remove get_id set_id dir_get_id dir_get_name dir_list"
    " dir_add_image dir_remove_image dir_rename_image dir_state_assert dir_state_set object_map_load object_map_save"
    " object_map_resize object_map_update object_map_snap_add object_map_snap_remove snap_list snap_add snap_remove"
    " snap_rename mirror_uuid_get mirror_uuid_set mirror_mode_get mirror_mode_set mirror_peer_ping mirror_peer_list"
    " mirror_peer_add mirror_peer_remove mirror_peer_set_client mirror_peer_set_cluster mirror_peer_set_direction"
    " mirror_image_list mirror_image_get_image_id mirror_image_get mirror_image_set mirror_image_remove"
    " mirror_image_status_set mirror_image_status_remove mirror_image_status_get mirror_image_status_list"
    " mirror_image_status_get_summary mirror_image_status_remove_down mirror_image_instance_get"
    " mirror_image_instance_list mirror_instances_list mirror_instances_add mirror_instances_remove"
    " mirror_image_map_list mirror_image_map_update mirror_image_map_remove mirror_image_snapshot_unlink_peer mirror_image_snapshot_set_copy_progress group_dir_list group_dir_add"
    " group_dir_remove group_dir_rename group_image_remove group_image_list group_image_set image_group_add"
    " image_group_remove image_group_get group_snap_set group_snap_remove group_snap_get_by_id group_snap_list trash_add"
    " trash_remove trash_list trash_get trash_state_set namespace_add namespace_remove namespace_list copyup"
    " sparse_copyup assert_snapc_seq sparsify",
    "refcount": "get put set read",
    "timeindex": "add list trim",
    "version": "set inc inc_conds read check_conds",
    "nobody": "x",
}

# Inputs that an OSD of Ceph 16.2.15 does not survive: it believes the number of elements.
DEADLY = {("rbd.mirror_image_status_get_summary", "garbage")}

# Whose outputs hold times, addresses or something random.
VARIES = {
    "lock.get_info", "version.read", "rbd.get_create_timestamp", "rbd.get_access_timestamp",
    "rbd.get_modify_timestamp", "rbd.get_snapshot_timestamp", "rbd.snapshot_get", "rbd.mirror_peer_list",
    "rbd.get_snapshot_name", "rbd.mirror_image_status_get", "rbd.mirror_image_status_list",
}


# Whose outputs hold numbers that are longer or shorter from run to run.
NUMBERED = {"log.list", "log.info"}


def u8(n):
    return struct.pack("<B", n)


def u32(n):
    return struct.pack("<I", n)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def i64(n):
    return struct.pack("<q", n)


def text(*texts):
    return b"".join(u32(len(t)) + t for t in (t if isinstance(t, bytes) else t.encode() for t in texts))


def env(*parts, version=1, compat=1):
    body = b"".join(parts)
    return u8(version) + u8(compat) + u32(len(body)) + body


def seq(items):
    items = list(items)
    return u32(len(items)) + b"".join(items)


def time(secs, nanos=0):
    return u32(secs) + u32(nanos)


def brief(data):
    """Bytes in hexadecimal; long ones by their length and hash."""
    return data.hex() if len(data) <= 120 else f"{len(data)} bytes {hashlib.sha1(data).hexdigest()}"


class Calls:
    """Makes calls and notes their answers."""

    def __init__(self, io):
        self.io = io
        self.answers = []

    def call(self, obj, name, data=b""):
        cls, method = name.split(".")
        try:
            result, out = self.io.execute(obj, cls, method, data, 65536)
            out = f"{len(out)} bytes" if name in VARIES else brief(out)
            if name in NUMBERED:
                result, out = 0, "varies"
        except rados.Error as error:
            result, out = -abs(error.errno), ""
        self.answers.append([f"{obj} {name} {brief(data)}", result, out])

    def calls(self, obj, cls, *calls):
        for method, data in calls:
            self.call(obj, f"{cls}.{method}", data)

    def state(self, obj):
        """What an object is left with: its size, the names of its attributes and the keys of its map."""
        try:
            size = self.io.stat(obj)[0]
            attrs = sorted(name for name, _ in self.io.get_xattrs(obj))
            with rados.ReadOpCtx() as op:
                entries, _ = self.io.get_omap_vals(op, "", "", 1000)
                self.io.operate_read_op(op, obj)
                keys = sorted(key for key, _ in entries)
            found = [size, attrs, keys]
        except rados.ObjectNotFound:
            found = "none"
        self.answers.append([f"{obj} is", 0, json.dumps(found)])


def refusals(c):
    """Every method without an object, without an input, and with an input that cannot be read."""
    for cls, methods in METHODS.items():
        for method in methods.split():
            name = f"{cls}.{method}"
            for kind, data in (("empty", b""), ("garbage", b"\xff" * 11)):
                if (name, kind) in DEADLY:
                    continue
                missing, there = f"{name}-{kind}-missing", f"{name}-{kind}"
                c.call(missing, name, data)
                c.io.write_full(there, b"")
                c.call(there, name, data)
                c.state(there)


def lock(name, kind=1, cookie="c", tag="", secs=0, flags=0):
    return env(text(name), u8(kind), text(cookie, tag, "about"), time(secs), u8(flags))


def locks(c):
    held = lambda cookie, kind=1, tag="": env(text("l"), u8(kind), text(cookie, tag))
    c.calls(
        "locked", "lock",
        ("lock", lock("l")), ("lock", lock("l")), ("lock", lock("l", cookie="d")), ("lock", lock("l", kind=2)),
        ("lock", lock("l", flags=1)), ("lock", lock("l", flags=2)), ("lock", lock("l", flags=3)),
        ("lock", lock("l", kind=4)), ("lock", lock("")), ("lock", lock("m", cookie="x", flags=2)),
        ("get_info", env(text("l"))), ("get_info", env(text("none"))), ("list_locks", b""),
        ("assert_locked", held("c")), ("assert_locked", held("d")), ("assert_locked", held("c", kind=2)),
        ("assert_locked", held("c", tag="t")), ("assert_locked", held("c", kind=0)),
        ("set_cookie", env(text("l"), u8(1), text("c", "", "e"))),
        ("set_cookie", env(text("l"), u8(1), text("c", "", "e"))), ("assert_locked", held("e")),
        ("unlock", env(text("l", "c"))), ("unlock", env(text("l", "e"))), ("unlock", env(text("l", "e"))),
        ("lock", lock("s", kind=2, tag="t")), ("lock", lock("s", kind=2, tag="t", cookie="d")),
        ("lock", lock("s", kind=2, tag="u", cookie="e")), ("lock", lock("s", kind=1, tag="t", cookie="e")),
        ("list_locks", b""), ("get_info", env(text("s"))),
        ("break_lock", env(text("s"), u8(8), i64(12345), text("c"))),
    )
    c.state("locked")
    c.calls("gone", "lock", ("lock", lock("l", kind=3)), ("unlock", env(text("l", "c"))))
    c.state("gone")


def versions(c):
    version = lambda n, tag: env(u64(n), text(tag))
    conds = lambda *conds: env(version(0, ""), seq(env(version(n, tag), u32(kind)) for n, tag, kind in conds))
    c.calls(
        "version", "version",
        ("set", env(version(5, "t"))), ("read", b""), ("check_conds", conds((5, "t", 1))),
        ("check_conds", conds((5, "u", 1))), *[("check_conds", conds((n, "", k))) for n in (4, 5, 6) for k in range(9)],
        ("inc_conds", conds((5, "t", 1))), ("inc_conds", conds((5, "t", 1))), ("inc", conds()), ("read", b""),
    )
    c.calls("version-new", "version", ("inc", conds()), ("read", b""))


def refcounts(c):
    named = lambda tag, implicit: env(text(tag), u8(implicit))
    names = lambda *names: env(seq(text(n) for n in names))
    c.io.write_full("refs", b"x")
    c.calls(
        "refs", "refcount",
        ("read", env(u8(1))), ("put", named("a", 0)), ("get", named("a", 1)), ("read", env(u8(0))),
        ("put", named("b", 1)), ("put", named("b", 1)), ("read", env(u8(0))), ("get", named("b", 0)),
        ("put", named("b", 0)), ("read", env(u8(0))), ("set", names("x", "y")), ("read", env(u8(0))),
        ("put", named("x", 0)),
    )
    c.state("refs")
    c.calls("refs", "refcount", ("put", named("y", 0)))
    c.state("refs")


def numbers(c):
    for n in ("1", "-2.5", "1e300", "1e-7", "0x10", " 3", "3 ", "", "abc", "inf", "nan", "0.1", "123456789012", "+.5"):
        c.call("sum", "numops.add", text("key", n))
        c.call("product-" + n.strip(), "numops.add", text("key", "3"))
        c.call("product-" + n.strip(), "numops.mul", text("key", n))
        for obj in ("sum", "product-" + n.strip()):
            with rados.ReadOpCtx() as op:
                entries, _ = c.io.get_omap_vals(op, "", "", 9)
                c.io.operate_read_op(op, obj)
                c.answers.append([f"{obj} after {n}", 0, str(list(entries))])


def logs(c):
    entry = lambda secs, ident="": env(text("s", "n"), time(secs, 5000), text("data", ident), version=2)
    listing = lambda lo, hi, marker="", most=0: env(time(lo), text(marker), time(hi), u32(most))
    trim = lambda lo, hi, after="", to="": env(time(lo), time(hi, 5000), text(after, to), version=2)
    c.calls(
        "log", "log",
        ("add", env(seq([entry(10), entry(30), entry(20), entry(40, "1_mine")]), u8(1), version=2)),
        ("list", listing(0, 0)), ("list", listing(1, 30)), ("list", listing(0, 0, most=2)),
        ("list", listing(0, 0, marker="1_0000000020")), ("info", env()), ("trim", trim(0, 10)), ("list", listing(0, 0)),
        ("trim", trim(0, 10)), ("trim", trim(0, 0, to="1_0000000031")), ("list", listing(0, 0)),
        ("trim", trim(0, 0, to="2")), ("trim", trim(0, 0, to="2")),
    )
    stamp = lambda secs, name: env(time(secs, 7000), text(name, "value"))
    c.calls(
        "index", "timeindex",
        ("add", env(seq([stamp(10, "a"), stamp(20, "b c"), stamp(30, "d")]))),
        ("list", listing(0, 100, most=10)), ("list", listing(0, 20, most=10)), ("list", listing(50, 20, most=10)),
        ("list", listing(0, 100, most=1)), ("trim", env(time(0), time(10, 7000), text("", ""))),
        ("trim", env(time(0), time(10, 7000), text("", ""))), ("list", listing(0, 100, most=10)),
    )


def chunks(c):
    source = lambda name: env(text("", name) + u64(HEAD) + u32(7) + u8(0) + text("") + i64(3), version=4, compat=3)
    create = lambda name, data, flags=1: env(source(name), u64(flags), text(data))
    c.calls(
        "chunk", "cas",
        ("chunk_create_or_get_ref", create("a", "data")), ("chunk_create_or_get_ref", create("b", "other")),
        ("chunk_create_or_get_ref", create("b", "other", 0)), ("chunk_get_ref", env(source("a"))),
        ("chunk_put_ref", env(source("z"))), ("references_chunk", text("x")),
    )
    c.answers.append(["chunk's references", 0, brief(c.io.get_xattr("chunk", "chunk_refs"))])
    c.calls("chunk", "cas", *[("chunk_put_ref", env(source(name))) for name in "aba"])
    c.state("chunk")


def journals(c):
    positions = lambda *tags: env(seq(env(u64(1, tag, 2)) for tag in tags))
    tags = lambda after, most, client, cls=b"\0": u64(after, most) + text(client) + cls
    c.calls(
        "journal", "journal",
        ("create", u8(24) + u8(4) + i64(-1)), ("create", u8(24) + u8(4) + i64(-1)), ("get_order", b""),
        ("get_splay_width", b""), ("get_pool_id", b""), ("set_active_set", u64(5)), ("set_active_set", u64(4)),
        ("set_minimum_set", u64(6)), ("set_minimum_set", u64(3)), ("set_active_set", u64(2)), ("get_active_set", b""),
        ("get_minimum_set", b""), ("client_register", text("", "image")), ("client_register", text("m", "mirror")),
        ("client_register", text("m", "again")), ("get_client", text("m")), ("get_client", text("none")),
        ("client_update_data", text("m", "new")), ("client_list", text("") + u64(10)),
        ("client_list", text("a") + u64(10)), ("tag_create", u64(0, 2**64 - 1) + text("t0")),
        ("tag_create", u64(0, 0) + text("t0")), ("tag_create", u64(9, 0) + text("t")),
        ("tag_create", u64(1, 7) + text("t")), ("tag_create", u64(1, 0) + text("t1")),
        ("tag_create", u64(2, 2**64 - 1) + text("t2")), ("tag_create", u64(3, 1) + text("t3")),
        ("get_next_tag_tid", b""), ("get_tag", u64(1)), ("get_tag", u64(7)), ("tag_list", tags(0, 10, "")),
        ("tag_list", tags(0, 2, "")), ("tag_list", tags(1, 10, "")), ("tag_list", tags(0, 10, "", b"\1" + u64(1))),
        ("tag_list", tags(0, 10, "none")), ("client_commit", text("") + positions(3, 2)),
        ("client_commit", text("") + positions(1, 1, 1, 1, 1)), ("client_commit", text("none") + positions()),
        ("tag_list", tags(0, 10, "")), ("tag_list", tags(0, 10, "m")), ("tag_create", u64(4, 0) + text("t4")),
        ("client_update_state", text("m") + u8(1)), ("tag_create", u64(5, 0) + text("t5")), ("tag_list", tags(0, 10, "m")),
        ("client_unregister", text("m")), ("client_unregister", text("m")), ("client_register", text("late", "")),
        ("get_client", text("late")),
    )
    c.state("journal")
    c.calls(
        "journal-data", "journal",
        ("guard_append", u64(10)), ("append", u64(10) + text("12345")), ("append", u64(10) + text("6789")),
        ("append", u64(10) + text("x")), ("guard_append", u64(10)), ("guard_append", u64(1 << 30)),
    )


SCENARIOS = [refusals, locks, versions, refcounts, numbers, logs, chunks, journals]


def answers(io):
    """The answers of a cluster, in the empty pool of `io`."""
    import rbd_calls

    calls = Calls(io)
    for scenario in SCENARIOS + rbd_calls.SCENARIOS:
        scenario(calls)
    return calls.answers


def main():
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect(timeout=30)
    io = cluster.open_ioctx(sys.argv[1])
    print("[\n" + ",\n".join(json.dumps(answer) for answer in answers(io)) + "\n]")
    io.close()
    cluster.shutdown()


if __name__ == "__main__":
    main()
