/* Snapshots through the C interface: a pool's and self-managed ones. */
#include "case.h"

/* What Ceph answers to an old snap context; not an errno of the system. */
enum { EOLDSNAPC = 85 };

CASE(pool_snaps) {
    char data[16];
    rados_snap_t id, ids[4];
    OK(rados_write_full(snap_io, "object", TEXT("before")));
    OK(rados_ioctx_snap_create(snap_io, "first"));
    EQ(rados_ioctx_snap_create(snap_io, "first"), -EEXIST);
    OK(rados_write_full(snap_io, "object", TEXT("after")));
    OK(rados_ioctx_snap_lookup(snap_io, "first", &id));
    EQ(rados_ioctx_snap_lookup(snap_io, "none", &id), -ENOENT);
    EQ(rados_ioctx_snap_list(snap_io, ids, 4), 1);
    EQ(ids[0], id);
    EQ(rados_ioctx_snap_list(snap_io, ids, 0), -ERANGE);
    OK(rados_ioctx_snap_get_name(snap_io, id, data, sizeof data));
    BYTES(data, strlen(data), "first");
    time_t stamp;
    OK(rados_ioctx_snap_get_stamp(snap_io, id, &stamp));
    TRUE(stamp > 1600000000);
    rados_ioctx_snap_set_read(snap_io, id);
    EQ(rados_read(snap_io, "object", data, sizeof data, 0), 6);
    BYTES(data, 6, "before");
    EQ(rados_write_full(snap_io, "object", TEXT("x")), -EROFS);
    rados_ioctx_snap_set_read(snap_io, LIBRADOS_SNAP_HEAD);
    EQ(rados_read(snap_io, "object", data, sizeof data, 0), 5);
    EQ(rados_ioctx_snap_rollback(snap_io, "object", "none"), -ENOENT);
    OK(rados_ioctx_snap_rollback(snap_io, "object", "first"));
    EQ(rados_read(snap_io, "object", data, sizeof data, 0), 6);
    OK(rados_ioctx_snap_remove(snap_io, "first"));
    EQ(rados_ioctx_snap_remove(snap_io, "first"), -ENOENT);
    EQ(rados_ioctx_selfmanaged_snap_create(snap_io, &id), -EINVAL);
}

CASE(self_managed_snaps) {
    char data[16];
    rados_snap_t first, second;
    PUT("managed", "one");
    OK(rados_ioctx_selfmanaged_snap_create(io, &first));
    OK(rados_ioctx_selfmanaged_snap_set_write_ctx(io, first, (rados_snap_t[]){first}, 1));
    OK(rados_append(io, "managed", TEXT("two")));
    OK(rados_ioctx_selfmanaged_snap_create(io, &second));
    TRUE(second > first);
    OK(rados_ioctx_selfmanaged_snap_set_write_ctx(io, second, (rados_snap_t[]){second, first}, 2));
    OK(rados_remove(io, "managed"));
    rados_ioctx_snap_set_read(io, first);
    EQ(rados_read(io, "managed", data, sizeof data, 0), 3);
    rados_ioctx_snap_set_read(io, second);
    EQ(rados_read(io, "managed", data, sizeof data, 0), 6);
    rados_ioctx_snap_set_read(io, LIBRADOS_SNAP_HEAD);
    EQ(rados_read(io, "managed", data, sizeof data, 0), -ENOENT);
    OK(rados_ioctx_selfmanaged_snap_rollback(io, "managed", first));
    CONTENT("managed", "one");
    /* Ids that do not fall, or that are newer than the newest, are no context. */
    EQ(rados_ioctx_selfmanaged_snap_set_write_ctx(io, second, (rados_snap_t[]){first, second}, 2), -EINVAL);
    EQ(rados_ioctx_selfmanaged_snap_set_write_ctx(io, first, (rados_snap_t[]){second, first}, 2), -EINVAL);
    OK(rados_ioctx_selfmanaged_snap_set_write_ctx(io, 0, NULL, 0));
    OK(rados_ioctx_selfmanaged_snap_remove(io, first));
    OK(rados_ioctx_selfmanaged_snap_remove(io, second));
}

CASE(writes_with_an_old_context_are_refused_where_asked) {
    rados_snap_t first, second;
    PUT("ordersnap", "one");
    OK(rados_ioctx_selfmanaged_snap_create(io, &first));
    OK(rados_ioctx_selfmanaged_snap_create(io, &second));
    OK(rados_ioctx_selfmanaged_snap_set_write_ctx(io, second, (rados_snap_t[]){second, first}, 2));
    PUT("ordersnap", "two");
    OK(rados_ioctx_selfmanaged_snap_set_write_ctx(io, first, (rados_snap_t[]){first}, 1));
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_write_full(op, TEXT("three"));
    EQ(rados_write_op_operate(op, io, "ordersnap", NULL, LIBRADOS_OPERATION_ORDERSNAP), -EOLDSNAPC);
    rados_release_write_op(op);
    CONTENT("ordersnap", "two");
    /* Without the flag the object keeps its newer context. */
    PUT("ordersnap", "three");
    CONTENT("ordersnap", "three");
    OK(rados_ioctx_selfmanaged_snap_set_write_ctx(io, 0, NULL, 0));
    OK(rados_ioctx_selfmanaged_snap_remove(io, first));
    OK(rados_ioctx_selfmanaged_snap_remove(io, second));
}
