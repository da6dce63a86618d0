"""The calls of class `rbd` that `class_calls` makes: life of an image's header and of a pool's directories."""
from class_calls import HEAD, brief, env, i64, seq, text, time, u8, u32, u64

LAYERING, STRIPING, DEEP_FLATTEN, DATA_POOL = 1, 2, 32, 128
DEFAULT = 61


def snap_space(kind=0, body=b""):
    return env(u32(kind), body)


def parent(pool, image, snap, nspace=""):
    return env(i64(pool), text(nspace, image), u64(snap))


def child(pool, image, nspace=""):
    return env(i64(pool), text(image, nspace), version=2)


def create(obj, c, features=DEFAULT, size=8 << 20, extra=b""):
    c.call(obj, "rbd.create", u64(size) + u8(22) + u64(features) + text("rbd_data.1") + extra)


def headers(c):
    create("h", c)
    create("h", c)
    create("h-unknown", c, features=1 << 40)
    create("h-internal", c, features=256)
    create("h-pool", c, features=DEFAULT | DATA_POOL, extra=i64(7))
    create("h-no-pool", c, features=DEFAULT | DATA_POOL)
    create("h-wrong-pool", c, extra=i64(7))
    c.call("h-pool", "rbd.get_data_pool")
    c.calls(
        "h", "rbd",
        ("get_features", u64(HEAD)), ("get_features", u64(HEAD) + u8(1)), ("get_all_features", b""),
        ("set_features", u64(0, 4)), ("set_features", u64(64, 64)), ("set_features", u64(0, 32)),
        ("set_features", u64(32, 32)), ("set_features", u64(256, 256)), ("set_features", u64(0, 1)),
        ("set_features", u64(0, 1 << 50)), ("get_features", u64(HEAD)), ("get_size", u64(HEAD)), ("get_size", u64(3)),
        ("set_size", u64(16 << 20)), ("get_size", u64(HEAD)), ("get_object_prefix", b""), ("get_data_pool", b""),
        ("get_stripe_unit_count", b""), ("set_stripe_unit_count", u64(65536, 4)), ("get_create_timestamp", b""),
        ("set_access_timestamp", b""), ("get_access_timestamp", b""), ("set_modify_timestamp", b""),
        ("get_modify_timestamp", b""), ("get_flags", u64(HEAD)), ("set_flags", u64(3, 1)), ("get_flags", u64(HEAD)),
        ("set_flags", u64(2, 2, HEAD)), ("get_flags", u64(HEAD)), ("get_flags", u64(9)), ("set_flags", u64(1, 1, 9)),
        ("op_features_get", b""), ("op_features_set", u64(4, 4)), ("op_features_get", b""), ("get_features", u64(HEAD)),
        ("op_features_set", u64(0, 4)), ("op_features_set", u64(16, 16)), ("get_features", u64(HEAD)),
    )
    c.state("h")
    create("striped", c, features=DEFAULT | STRIPING)
    c.calls(
        "striped", "rbd",
        ("get_stripe_unit_count", b""), ("set_stripe_unit_count", u64(65536, 4)), ("get_stripe_unit_count", b""),
        ("set_stripe_unit_count", u64(65537, 4)), ("set_stripe_unit_count", u64(0, 4)),
        ("set_stripe_unit_count", u64(8 << 20, 1)),
    )


def snapshots(c):
    create("s", c)
    c.calls(
        "s", "rbd",
        ("get_snapcontext", b""), ("snapshot_add", text("one") + u64(4)), ("snapshot_add", text("one") + u64(5)),
        ("snapshot_add", text("two") + u64(4)), ("snapshot_add", text("two") + u64(3)),
        ("snapshot_add", text("two") + u64(HEAD)), ("snapshot_add", text("two") + u64(6) + snap_space()),
        ("snapshot_add", text("group") + u64(7) + snap_space(1, i64(3) + text("g", "gs"))),
        ("snapshot_add", text("odd") + u64(8) + snap_space(9)), ("get_snapcontext", b""), ("snapshot_get", u64(4)),
        ("snapshot_get", u64(7)), ("snapshot_get", u64(5)), ("snapshot_get", u64(HEAD)), ("get_snapshot_name", u64(4)),
        ("get_snapshot_timestamp", u64(4)), ("get_size", u64(4)), ("get_flags", u64(4)), ("set_flags", u64(1, 1, 4)),
        ("get_flags", u64(4)), ("snapshot_rename", u64(4) + text("two")), ("snapshot_rename", u64(4) + text("uno")),
        ("snapshot_rename", u64(7) + text("x")), ("snapshot_rename", u64(99) + text("x")), ("get_snapshot_name", u64(4)),
        ("get_protection_status", u64(4)), ("set_protection_status", u64(4) + u8(2)),
        ("set_protection_status", u64(4) + u8(3)), ("set_protection_status", u64(HEAD) + u8(1)),
        ("get_protection_status", u64(4)), ("snapshot_remove", u64(4)), ("snapshot_trash_add", u64(4)),
        ("set_protection_status", u64(4) + u8(0)), ("snapshot_get_limit", b""), ("snapshot_set_limit", u64(2)),
        ("snapshot_set_limit", u64(3)), ("snapshot_get_limit", b""), ("snapshot_add", text("more") + u64(9)),
        ("snapshot_set_limit", u64(2**64 - 1)), ("snapshot_get_limit", b""), ("snapshot_trash_add", u64(6)),
        ("snapshot_trash_add", u64(6)), ("get_snapshot_name", u64(6)), ("snapshot_get", u64(6)),
        ("op_features_get", b""), ("snapshot_remove", u64(6)), ("op_features_get", b""), ("snapshot_remove", u64(6)),
        ("snapshot_remove", u64(4)), ("get_snapcontext", b""),
    )
    c.state("s")
    create("many", c)
    for n in range(1, 80):
        c.call("many", "rbd.snapshot_add", text(f"snap{n}") + u64(n))
    c.call("many", "rbd.get_snapcontext")
    c.call("many", "rbd.snapshot_set_limit", u64(70))


def clones(c):
    create("p", c)
    c.calls(
        "p", "rbd",
        ("snapshot_add", text("base") + u64(4)), ("children_list", u64(4)), ("child_attach", u64(4) + child(3, "b")),
        ("child_attach", u64(4) + child(3, "b")), ("child_attach", u64(4) + child(3, "a", "ns")),
        ("child_attach", u64(4) + child(3, "a")), ("child_attach", u64(9) + child(3, "a")), ("children_list", u64(4)),
        ("snapshot_remove", u64(4)), ("op_features_get", b""), ("snapshot_trash_add", u64(4)),
        ("child_attach", u64(4) + child(5, "late")), ("child_detach", u64(4) + child(3, "none")),
        ("child_detach", u64(4) + child(3, "a", "ns")), ("child_detach", u64(4) + child(3, "a")),
        ("child_detach", u64(4) + child(3, "b")), ("children_list", u64(4)), ("op_features_get", b""),
        ("snapshot_remove", u64(4)),
    )
    c.state("p")
    for name, features in (("c-deep", DEFAULT), ("c-shallow", DEFAULT & ~DEEP_FLATTEN), ("c-flat", 0)):
        create(name, c, features=features)
        c.calls(
            name, "rbd",
            ("parent_get", b""), ("parent_overlap_get", u64(HEAD)), ("get_parent", u64(HEAD)),
            ("parent_attach", parent(2, "p", 4) + u64(0)), ("parent_attach", parent(-1, "p", 4) + u64(4 << 20)),
            ("parent_attach", parent(2, "p", 4, "ns") + u64(99 << 20)), ("parent_attach", parent(2, "q", 4) + u64(1 << 20)),
            ("parent_get", b""), ("parent_overlap_get", u64(HEAD)), ("get_parent", u64(HEAD)), ("remove_parent", b""),
            ("snapshot_add", text("one") + u64(5)), ("parent_overlap_get", u64(5)), ("parent_overlap_get", u64(6)),
            ("get_parent", u64(5)), ("set_size", u64(2 << 20)), ("parent_overlap_get", u64(HEAD)),
            ("parent_attach", parent(2, "p", 4) + u64(4 << 20) + u8(1)), ("get_parent", u64(5)), ("parent_detach", b""),
            ("parent_get", b""), ("parent_overlap_get", u64(HEAD)), ("parent_overlap_get", u64(5)),
            ("parent_detach", b""), ("set_parent", i64(2) + text("p") + u64(4) + u64(1 << 20)), ("remove_parent", b""),
            ("snapshot_remove", u64(5)), ("parent_get", b""), ("get_parent", u64(HEAD)),
        )
        c.state(name)
    key = lambda image: u64(2) + text(image) + u64(4)
    c.calls(
        "rbd_children", "rbd",
        ("add_child", key("p") + text("a")), ("add_child", key("p") + text("a")), ("add_child", key("p") + text("b")),
        ("get_children", key("p")), ("get_children", key("q")), ("remove_child", key("p") + text("z")),
        ("remove_child", key("p") + text("a")), ("remove_child", key("p") + text("b")), ("get_children", key("p")),
    )
    c.state("rbd_children")


def directories(c):
    for obj, verbs in (
        ("rbd_directory", ("dir_add_image", "dir_rename_image", "dir_remove_image", "dir_list")),
        ("rbd_group_directory", ("group_dir_add", "group_dir_rename", "group_dir_remove", "group_dir_list")),
    ):
        add, rename, remove, listing = verbs
        c.calls(
            obj, "rbd",
            (add, text("one", "1a")), (add, text("one", "2b")), (add, text("uno", "1a")), (add, text("", "3c")),
            (add, text("bad", "not-good")), (add, text("two", "2b")), ("dir_get_id", text("one")),
            ("dir_get_id", text("none")), ("dir_get_name", text("2b")), (listing, text("") + u64(10)),
            (listing, text("one") + u64(10)), (listing, text("") + u64(1)), (listing, text("") + u64(0)),
            (rename, text("one", "eins", "1a")), (rename, text("eins", "two", "1a")), (rename, text("eins", "x", "2b")),
            (remove, text("one", "1a")), (remove, text("eins", "2b")), (remove, text("eins", "1a")),
            (listing, text("") + u64(10)),
        )
        c.state(obj)
    c.calls(
        "rbd_directory", "rbd",
        ("dir_state_assert", u8(0)), ("dir_state_set", u8(1)), ("dir_state_set", u8(2)), ("dir_state_set", u8(0)),
        ("dir_state_assert", u8(0)), ("dir_state_assert", u8(1)), ("dir_remove_image", text("two", "2b")),
        ("dir_state_set", u8(1)), ("dir_state_assert", u8(1)),
    )
    for n in range(150):
        c.call("big_directory", "rbd.dir_add_image", text(f"image{n:03}", f"{n:03x}"))
    c.call("big_directory", "rbd.dir_list", text("image010") + u64(1000))
    c.call("big_directory", "rbd.dir_list", text("") + u64(70))
    c.io.write_full("rbd_id.x", b"")
    c.calls("rbd_id.x", "rbd", ("get_id", b""), ("set_id", text("!")), ("set_id", text("1a")), ("set_id", text("2b")),
            ("get_id", b""))


def object_maps(c):
    for obj, count in (("small", 9), ("large", 40000)):
        update = lambda start, end, state, only=b"\0": u64(start, end) + u8(state) + only
        c.calls(
            obj, "rbd",
            ("object_map_resize", u64(count) + u8(0)), ("object_map_load", b""),
            ("object_map_update", update(1, 4, 1)), ("object_map_update", update(3, 5, 3, b"\1" + u8(1))),
            ("object_map_update", update(0, count, 2, b"\1" + u8(0))), ("object_map_load", b""),
            ("object_map_update", update(3, 3, 1)), ("object_map_update", update(3, count + 1, 1)),
            ("object_map_update", update(count - 1, count, 1)), ("object_map_snap_add", b""), ("object_map_load", b""),
            ("object_map_resize", u64(5) + u8(0)), ("object_map_resize", u64(count + 9) + u8(1)), ("object_map_load", b""),
            ("object_map_resize", u64(count + 9 - 3) + u8(1)), ("object_map_load", b""),
            ("object_map_resize", u64(300000000) + u8(1)),
        )
        c.state(obj)
        saved = c.io.read(obj, 1 << 20)
        c.answers.append([f"{obj}'s map", 0, brief(saved)])
        c.calls(f"{obj}-copy", "rbd", ("object_map_save", saved), ("object_map_snap_add", b""),
                ("object_map_snap_remove", saved), ("object_map_load", b""), ("object_map_save", saved[:-1]),
                ("object_map_save", saved[:20] + b"\x77" + saved[21:]))


def lesser(c):
    create("m", c)
    c.calls(
        "m", "rbd",
        ("metadata_set", seq([text("a", "1"), text("b", "2"), text("conf_x", "3")])), ("metadata_get", text("a")),
        ("metadata_get", text("z")), ("metadata_list", text("") + u64(0)), ("metadata_list", text("a") + u64(1)),
        ("metadata_remove", text("a")), ("metadata_remove", text("a")), ("metadata_list", text("") + u64(10)),
        ("image_group_get", b""), ("image_group_add", env(i64(3), text("g1"))), ("image_group_add", env(i64(3), text("g1"))),
        ("image_group_add", env(i64(3), text("g2"))), ("image_group_get", b""), ("op_features_get", b""),
        ("image_group_remove", env(i64(3), text("g2"))), ("image_group_remove", env(i64(3), text("g1"))),
        ("image_group_remove", env(i64(3), text("g1"))), ("op_features_get", b""),
    )
    migration = lambda side: env(u8(side), i64(3), text("ns", "name", "1a"), seq([u64(1, 2)]), u64(77), u8(0), u8(0), u8(1),
                                 text("about"), u8(0), text(""), version=3)
    c.calls(
        "m", "rbd",
        ("migration_get", b""), ("migration_set", migration(1)), ("migration_set", migration(1)), ("migration_get", b""),
        ("migration_set_state", u8(3) + text("on its way")), ("migration_get", b""), ("get_features", u64(HEAD)),
        ("migration_remove", b""), ("migration_remove", b""), ("migration_get", b""), ("get_features", u64(HEAD)),
    )
    image = lambda name, pool: env(text(name), i64(pool))
    member = lambda name, pool, state: env(image(name, pool), u8(state))
    snap = lambda ident, name, state: env(text(ident, name), u8(state), seq([env(i64(3), text("1a"), u64(4))]))
    c.calls(
        "rbd_group.1", "rbd",
        ("group_image_set", member("1a", 3, 0)), ("group_image_set", member("2b", 18, 1)), ("group_image_set", member("1a", 3, 1)),
        ("group_image_list", image("", -1) + u64(10)), ("group_image_list", image("1a", 3) + u64(10)),
        ("group_image_list", image("", -1) + u64(1)), ("group_image_remove", image("1a", 3)),
        ("group_image_remove", image("1a", 3)), ("group_image_list", image("", -1) + u64(10)),
        ("group_snap_set", snap("s1", "one", 0)), ("group_snap_set", snap("s1", "one", 0)), ("group_snap_set", snap("s1", "one", 1)),
        ("group_snap_set", snap("s2", "one", 0)), ("group_snap_set", snap("", "x", 0)), ("group_snap_set", snap("s3", "", 0)),
        ("group_snap_set", snap("s2", "two", 0)), ("group_snap_get_by_id", text("s1")), ("group_snap_get_by_id", text("s9")),
        ("group_snap_list", env(text("", ""), u8(0), seq([])) + u64(10)), ("group_snap_list", env(text("s1", ""), u8(0), seq([])) + u64(10)),
        ("group_snap_remove", text("s1")), ("group_snap_remove", text("s1")),
        ("group_snap_list", env(text("", ""), u8(0), seq([])) + u64(10)),
    )
    c.state("rbd_group.1")
    trashed = lambda name, state: env(u8(0), text(name), time(5), time(9), u8(state), version=2)
    c.calls(
        "rbd_trash", "rbd",
        ("trash_add", text("1a") + trashed("one", 0)), ("trash_add", text("1a") + trashed("one", 0)),
        ("trash_add", text("-") + trashed("x", 0)), ("trash_add", text("2b") + trashed("two", 1)), ("trash_get", text("1a")),
        ("trash_get", text("9z")), ("trash_list", text("") + u64(10)), ("trash_list", text("1a") + u64(10)),
        ("trash_state_set", text("1a") + u8(2) + u8(0)), ("trash_state_set", text("1a") + u8(2) + u8(0)),
        ("trash_state_set", text("1a") + u8(1) + u8(0)), ("trash_state_set", text("9z") + u8(1) + u8(0)),
        ("trash_get", text("1a")), ("trash_remove", text("1a")), ("trash_remove", text("1a")), ("trash_list", text("") + u64(10)),
    )
    c.calls(
        "rbd_namespace", "rbd",
        ("namespace_add", text("a")), ("namespace_add", text("a")), ("namespace_add", text("b")),
        ("namespace_list", text("") + u64(10)), ("namespace_list", text("a") + u64(10)), ("namespace_list", text("") + u64(1)),
        ("namespace_remove", text("a")), ("namespace_remove", text("a")), ("namespace_list", text("") + u64(10)),
    )


def mirrors(c):
    peer = lambda uuid, site, client="c", way=0, mirror="": env(text(uuid, site, client), i64(-1), u8(way), text(mirror), time(0), version=2)
    image = lambda name, state: env(text(name), u8(state), u8(0), version=2)
    c.calls(
        "rbd_mirroring", "rbd",
        ("mirror_uuid_get", b""), ("mirror_mode_set", u32(1)), ("mirror_uuid_set", text("")), ("mirror_uuid_set", text("me")),
        ("mirror_uuid_get", b""), ("mirror_mode_get", b""), ("mirror_mode_set", u32(3)), ("mirror_peer_add", peer("u1", "site1")),
        ("mirror_mode_set", u32(1)), ("mirror_mode_get", b""), ("mirror_uuid_set", text("other")), ("mirror_peer_list", b""),
        ("mirror_peer_add", peer("u1", "site1")), ("mirror_peer_add", peer("u1", "site2")), ("mirror_peer_add", peer("u2", "site1")),
        ("mirror_peer_add", peer("me", "site3")), ("mirror_peer_add", peer("u3", "site3", way=1)),
        ("mirror_peer_add", peer("u3", "site3", client="")), ("mirror_peer_add", peer("u2", "site2", mirror="mm")),
        ("mirror_peer_set_client", text("u1", "new")), ("mirror_peer_set_client", text("u9", "new")),
        ("mirror_peer_set_cluster", text("u1", "site2")), ("mirror_peer_set_cluster", text("u1", "site9")),
        ("mirror_peer_set_cluster", text("u9", "site8")), ("mirror_peer_set_direction", text("u1") + u8(2)),
        ("mirror_peer_ping", text("site2", "mm") + u8(1)), ("mirror_peer_ping", text("site2", "mm") + u8(0)),
        ("mirror_peer_ping", text("", "mm") + u8(1)), ("mirror_peer_ping", text("site7", "m7") + u8(1)), ("mirror_peer_list", b""),
        ("mirror_mode_set", u32(0)), ("mirror_image_set", text("1a") + image("g1", 1)), ("mirror_image_set", text("1a") + image("g2", 1)),
        ("mirror_image_set", text("2b") + image("g1", 1)), ("mirror_image_set", text("2b") + image("g2", 0)),
        ("mirror_image_set", text("2b") + image("g2", 1)), ("mirror_image_get", text("1a")), ("mirror_image_get", text("9z")),
        ("mirror_image_get_image_id", text("g2")), ("mirror_image_list", text("") + u64(10)), ("mirror_image_list", text("1a") + u64(10)),
        ("mirror_image_remove", text("1a")), ("mirror_image_set", text("1a") + image("g1", 0)), ("mirror_image_remove", text("1a")),
        ("mirror_image_list", text("") + u64(10)), ("mirror_peer_remove", text("u1")), ("mirror_peer_remove", text("u1")),
    )


def mirror_reports(c):
    image = lambda name, state: env(text(name), u8(state), u8(0), version=2)
    status = lambda state, about: env(u8(state), text(about), time(0), u8(1))
    remote = lambda site, state, about: env(text(site), u8(state), text(about), time(0), u8(1), version=2, compat=2)
    peer = lambda way, mirror: env(text("u", "s", "c"), i64(-1), u8(way), text(mirror), time(0), version=2)
    mapped = lambda who: env(text(who), time(5), text("data"))
    c.calls(
        "reports", "rbd",
        ("mirror_image_set", text("1a") + image("g1", 1)), ("mirror_image_set", text("2b") + image("g2", 1)),
        ("mirror_image_status_set", text("g1") + status(4, "well")), ("mirror_image_status_set", text("none") + status(4, "x")),
        ("mirror_image_status_get", text("g1")), ("mirror_image_status_get", text("g2")),
        ("mirror_image_status_set", text("g1") + remote("m1", 1, "ill")), ("mirror_image_status_get", text("g1")),
        ("mirror_image_status_list", text("") + u64(10)), ("mirror_image_status_list", text("1a") + u64(10)),
        ("mirror_image_status_get_summary", b""), ("mirror_image_status_get_summary", seq([peer(1, "m1")])),
        ("mirror_image_status_get_summary", seq([peer(2, "m1"), peer(1, "m2")])), ("mirror_image_instance_get", text("g1")),
        ("mirror_image_instance_get", text("g2")), ("mirror_image_instance_list", text("") + u64(10)),
        ("mirror_image_status_remove_down", b""), ("mirror_image_status_get", text("g1")),
        ("mirror_image_status_set", text("g2") + status(6, "ends")), ("mirror_image_status_remove", text("g2")),
        ("mirror_image_status_get", text("g2")), ("mirror_instances_add", text("i1")), ("mirror_instances_add", text("i2")),
        ("mirror_instances_list", b""), ("mirror_instances_remove", text("i1")), ("mirror_instances_list", b""),
        ("mirror_image_map_update", text("g1") + mapped("i2")), ("mirror_image_map_update", text("g2") + mapped("")),
        ("mirror_image_map_list", text("") + u64(10)), ("mirror_image_map_list", text("g1") + u64(10)),
        ("mirror_image_map_remove", text("g1")), ("mirror_image_map_list", text("") + u64(10)),
    )
    c.state("reports")


def data_objects(c):
    c.calls("up", "rbd", ("copyup", b"parent's data"), ("copyup", b"too late"))
    c.calls("up-sparse", "rbd", ("sparse_copyup", seq([u64(0, 4), u64(4096, 3)]) + text("abcdefg")),
            ("sparse_copyup", seq([u64(0, 4)]) + text("late")))
    c.call("up-empty", "rbd.sparse_copyup", seq([]) + text(""))
    c.call("up-short", "rbd.sparse_copyup", seq([u64(0, 9)]) + text("short"))
    for obj in ("up", "up-sparse", "up-empty", "up-short"):
        c.state(obj)
    for name, data in (("zeros", b"\0" * 9000), ("ends", b"x" + b"\0" * 8190 + b"y" + b"\0" * 4096), ("full", b"z" * 8192)):
        for remove in (0, 1):
            obj = f"sparse-{name}-{remove}"
            c.io.write_full(obj, data)
            c.call(obj, "rbd.sparsify", u64(4096) + u8(remove))
            c.state(obj)
    for relation in (0, 1, 2):
        c.call("no-object", "rbd.assert_snapc_seq", u64(5) + u8(relation))
        c.call("up", "rbd.assert_snapc_seq", u64(5) + u8(relation))
        c.call("up", "rbd.assert_snapc_seq", u64(0) + u8(relation))


def old_format(c):
    header = b"<<< Rados Block Device Image >>>\n".ljust(40, b"\0") + b"rb.0.1".ljust(24, b"\0") + b"RBD\0" + b"001.005\0"
    header += bytes([22, 0, 0, 0]) + u64(1 << 20, 0) + u32(0) * 2 + u64(0)
    c.io.write_full("old.rbd", header)
    c.calls(
        "old.rbd", "rbd",
        ("snap_list", b""), ("snap_add", text("one") + u64(3)), ("snap_add", text("one") + u64(4)),
        ("snap_add", text("two") + u64(2)), ("snap_add", text("two") + u64(5)), ("snap_list", b""),
        ("snap_rename", u64(3) + text("two")), ("snap_rename", u64(3) + text("longer name")), ("snap_rename", u64(9) + text("x")),
        ("snap_list", b""), ("snapshot_set_limit", u64(1)), ("snapshot_set_limit", u64(2)), ("snap_add", text("three") + u64(6)),
        ("snap_remove", text("none")), ("snap_remove", text("longer name")), ("snap_list", b""), ("snap_remove", text("two")),
        ("snap_list", b""),
    )
    c.answers.append(["old.rbd's header", 0, brief(c.io.read("old.rbd", 4096))])


SCENARIOS = [headers, snapshots, clones, directories, object_maps, lesser, mirrors, mirror_reports, data_objects, old_format]
