/* Object classes: called alone, within compounds, and the lock class behind its own calls. */
#include "case.h"

CASE(a_method_alone) {
    char out[64];
    PUT("exec", "");
    EQ(rados_exec(io, "exec", "hello", "say_hello", TEXT("case"), out, sizeof out), 12);
    BYTES(out, 12, "Hello, case!");
    EQ(rados_exec(io, "exec", "hello", "say_hello", NULL, 0, out, 4), -ERANGE);
    EQ(rados_exec(io, "exec", "hello", "no_such_method", NULL, 0, out, sizeof out), -EOPNOTSUPP);
}

CASE(methods_within_compounds) {
    rados_write_op_t op = rados_create_write_op();
    int code = 1;
    rados_write_op_exec(op, "hello", "record_hello", TEXT("you"), &code);
    rados_write_op_setxattr(op, "a", TEXT("1"));
    RUN_WRITE(op, "exec_compound");
    CONTENT("exec_compound", "Hello, you!");
    rados_read_op_t read = rados_create_read_op();
    char *out, fixed[64];
    size_t out_len, fixed_len;
    int codes[2] = {1, 1};
    rados_read_op_exec(read, "hello", "replay", NULL, 0, &out, &out_len, &codes[0]);
    rados_read_op_exec_user_buf(read, "hello", "say_hello", NULL, 0, fixed, sizeof fixed, &fixed_len, &codes[1]);
    RUN_READ(read, "exec_compound");
    OK(codes[0]);
    OK(codes[1]);
    BYTES(out, out_len, "Hello, you!");
    BYTES(fixed, fixed_len, "Hello, world!");
    rados_buffer_free(out);
}

CASE(a_refusing_method_undoes_the_compound) {
    PUT("exec_undone", "x");
    rados_write_op_t op = rados_create_write_op();
    int code = 1;
    rados_write_op_append(op, TEXT("y"));
    rados_write_op_exec(op, "hello", "record_hello", TEXT("you"), &code);
    EQ(finish_write(op, "exec_undone"), -EEXIST);
    CONTENT("exec_undone", "x");
}

CASE(writing_methods_return_no_data) {
    char out[64] = "untouched";
    EQ(rados_exec(io, "exec_silent", "hello", "writes_dont_return_data", NULL, 0, out, sizeof out), 0);
}

CASE(locks) {
    struct timeval duration = {.tv_sec = 60, .tv_usec = 0};
    OK(rados_lock_exclusive(io, "locked", "l", "cookie", "about", &duration, 0));
    EQ(rados_lock_exclusive(io, "locked", "l", "cookie", "about", &duration, 0), -EEXIST);
    OK(rados_lock_exclusive(io, "locked", "l", "cookie", "about", &duration, LIBRADOS_LOCK_FLAG_MAY_RENEW));
    EQ(rados_lock_shared(io, "locked", "l", "other", "tag", "", NULL, 0), -EBUSY);
    int exclusive;
    char tag[64], clients[256], cookies[256], addrs[512];
    size_t tag_len = sizeof tag, clients_len = sizeof clients, cookies_len = sizeof cookies, addrs_len = sizeof addrs;
    EQ(rados_list_lockers(io, "locked", "l", &exclusive, tag, &tag_len, clients, &clients_len, cookies, &cookies_len,
                          addrs, &addrs_len), 1);
    EQ(exclusive, 1);
    BYTES(cookies, strlen(cookies), "cookie");
    TRUE(strncmp(clients, "client.", 7) == 0);
    EQ(rados_break_lock(io, "locked", "l", clients, "other"), -ENOENT);
    OK(rados_break_lock(io, "locked", "l", clients, "cookie"));
    OK(rados_lock_shared(io, "locked", "l", "one", "tag", "", NULL, 0));
    OK(rados_lock_shared(io, "locked", "l", "two", "tag", "", NULL, 0));
    OK(rados_unlock(io, "locked", "l", "one"));
    EQ(rados_unlock(io, "locked", "l", "one"), -ENOENT);
    rados_completion_t done;
    OK(rados_aio_create_completion2(NULL, NULL, &done));
    OK(rados_aio_unlock(io, "locked", "l", "two", done));
    rados_aio_wait_for_complete(done);
    OK(rados_aio_get_return_value(done));
    rados_aio_release(done);
}
