/* Several ops as one: what they see of each other, what guards them, what their flags and results are. */
#include "case.h"

enum { EQUAL = 1, DIFFERS, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL };

static rados_write_op_t writing(void) { return rados_create_write_op(); }
static rados_read_op_t reading(void) { return rados_create_read_op(); }

CASE(every_write_in_one_op) {
    rados_write_op_t op = writing();
    /* First: a hint would make the object. */
    rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    rados_write_op_set_alloc_hint(op, 4096, 4096);
    rados_write_op_set_alloc_hint2(op, 4096, 4096, LIBRADOS_ALLOC_HINT_FLAG_SEQUENTIAL_WRITE);
    rados_write_op_assert_exists(op);
    rados_write_op_write_full(op, TEXT("0123456789"));
    rados_write_op_write(op, TEXT("ab"), 2);
    rados_write_op_append(op, TEXT("+"));
    rados_write_op_zero(op, 5, 2);
    rados_write_op_writesame(op, TEXT("xy"), 4, 11);
    rados_write_op_truncate(op, 14);
    rados_write_op_setxattr(op, "a", TEXT("1"));
    rados_write_op_setxattr(op, "b", TEXT("2"));
    rados_write_op_rmxattr(op, "b");
    RUN_WRITE(op, "every_write");
    CONTENT("every_write", "01ab4\0\0" "789+xyx");
    char value[4];
    EQ(rados_getxattr(io, "every_write", "a", value, sizeof value), 1);
    EQ(rados_getxattr(io, "every_write", "b", value, sizeof value), -ENODATA);
}

CASE(every_read_in_one_op) {
    PUT("every_read", "hello world");
    OK(rados_setxattr(io, "every_read", "a", TEXT("1")));
    rados_read_op_t op = reading();
    uint64_t size;
    time_t mtime;
    char data[32];
    size_t len;
    uint32_t init = 0xffffffff, sums[4];
    rados_xattrs_iter_t attrs;
    int codes[5] = {-1, -1, -1, -1, -1};
    rados_read_op_assert_exists(op);
    rados_read_op_stat(op, &size, &mtime, &codes[0]);
    rados_read_op_read(op, 6, sizeof data, data, &len, &codes[1]);
    rados_read_op_checksum(op, LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, sizeof init, 0, 11, 0, (char *)sums,
                           sizeof sums, &codes[2]);
    rados_read_op_getxattrs(op, &attrs, &codes[3]);
    rados_read_op_cmpext(op, TEXT("world"), 6, &codes[4]);
    RUN_READ(op, "every_read");
    for (int i = 0; i < 5; i++)
        EQ(codes[i], 0);
    EQ(size, 11);
    TRUE(mtime > 1000000000);
    BYTES(data, len, "world");
    EQ(sums[0], 1);
    EQ(sums[1], 0x366b9a55u);
    const char *name, *value;
    OK(rados_getxattrs_next(attrs, &name, &value, &len));
    BYTES(name, strlen(name), "a");
    BYTES(value, len, "1");
    rados_getxattrs_end(attrs);
}

CASE(reads_of_missing_objects) {
    rados_read_op_t op = reading();
    rados_read_op_assert_exists(op);
    EQ(finish_read(op, "missing"), -ENOENT);
    op = reading();
    uint64_t size;
    int code = 1;
    rados_read_op_stat(op, &size, NULL, &code);
    EQ(finish_read(op, "missing"), -ENOENT);
}

CASE(a_failing_op_undoes_the_ops_before) {
    PUT("undo", "before");
    rados_write_op_t op = writing();
    rados_write_op_write_full(op, TEXT("after"));
    rados_write_op_cmpxattr(op, "none", EQUAL, TEXT("x"));
    EQ(finish_write(op, "undo"), -ECANCELED);
    CONTENT("undo", "before");
    op = writing();
    rados_write_op_write_full(op, TEXT("after"));
    rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    EQ(finish_write(op, "undo"), -EEXIST);
    CONTENT("undo", "before");
}

CASE(ops_that_may_fail) {
    PUT("failok", "before");
    rados_write_op_t op = writing();
    rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
    rados_write_op_set_flags(op, LIBRADOS_OP_FLAG_FAILOK | LIBRADOS_OP_FLAG_EXCL);
    rados_write_op_write_full(op, TEXT("after"));
    RUN_WRITE(op, "failok");
    CONTENT("failok", "after");
}

CASE(an_exclusive_flag_makes_a_creation_exclusive) {
    PUT("excl", "x");
    rados_write_op_t op = writing();
    rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
    rados_write_op_set_flags(op, LIBRADOS_OP_FLAG_EXCL);
    EQ(finish_write(op, "excl"), -EEXIST);
    op = writing();
    rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
    RUN_WRITE(op, "excl");
    CONTENT("excl", "x");
}

CASE(hints_for_caches_are_taken) {
    const int flags[] = {LIBRADOS_OP_FLAG_FADVISE_RANDOM,   LIBRADOS_OP_FLAG_FADVISE_SEQUENTIAL,
                         LIBRADOS_OP_FLAG_FADVISE_WILLNEED, LIBRADOS_OP_FLAG_FADVISE_DONTNEED,
                         LIBRADOS_OP_FLAG_FADVISE_NOCACHE};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        rados_write_op_t op = writing();
        rados_write_op_write_full(op, TEXT("data"));
        rados_write_op_set_flags(op, flags[i]);
        RUN_WRITE(op, "fadvise");
        rados_read_op_t read = reading();
        char data[8];
        size_t len;
        int code;
        rados_read_op_read(read, 0, sizeof data, data, &len, &code);
        rados_read_op_set_flags(read, flags[i]);
        RUN_READ(read, "fadvise");
        BYTES(data, len, "data");
    }
}

CASE(flags_of_whole_operations) {
    const int flags[] = {LIBRADOS_OPERATION_BALANCE_READS, LIBRADOS_OPERATION_LOCALIZE_READS,
                         LIBRADOS_OPERATION_ORDER_READS_WRITES, LIBRADOS_OPERATION_SKIPRWLOCKS,
                         LIBRADOS_OPERATION_IGNORE_CACHE, LIBRADOS_OPERATION_IGNORE_OVERLAY};
    PUT("operation_flags", "data");
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
            rados_read_op_t op = reading();
            char data[8];
            size_t len;
            int code;
            rados_read_op_read(op, 0, sizeof data, data, &len, &code);
            OK(rados_read_op_operate(op, io, "operation_flags", flags[i]));
            rados_release_read_op(op);
            OK(code);
            BYTES(data, len, "data");
        }
}

CASE(balanced_reads_see_what_was_acknowledged) {
    for (int round = 0; round < 50; round++) {
        char text[16];
        int size = snprintf(text, sizeof text, "round %d", round);
        OK(rados_write_full(io, "balanced", text, size));
        rados_read_op_t op = reading();
        char data[16];
        size_t len;
        int code;
        rados_read_op_read(op, 0, sizeof data, data, &len, &code);
        OK(rados_read_op_operate(op, io, "balanced", LIBRADOS_OPERATION_BALANCE_READS));
        rados_release_read_op(op);
        check_bytes(data, len, text, (size_t)size, "data", __FILE__, __LINE__);
    }
}

CASE(results_of_writes_come_back_where_asked) {
    PUT("returnvec", "x");
    rados_write_op_t op = writing();
    int code = 1;
    rados_write_op_exec(op, "hello", "write_return_data", NULL, 0, &code);
    EQ(rados_write_op_operate2(op, io, "returnvec", NULL, LIBRADOS_OPERATION_RETURNVEC), 42);
    rados_release_write_op(op);
    EQ(code, 42);
}

CASE(an_operations_time_is_the_objects) {
    rados_write_op_t op = writing();
    rados_write_op_write_full(op, TEXT("x"));
    struct timespec stamp = {.tv_sec = 1234567890, .tv_nsec = 0};
    OK(rados_write_op_operate2(op, io, "mtime", &stamp, 0));
    rados_release_write_op(op);
    uint64_t size;
    time_t mtime;
    OK(rados_stat(io, "mtime", &size, &mtime));
    EQ(mtime, 1234567890);
}

CASE(asserted_versions) {
    PUT("version", "1");
    uint64_t version = rados_get_last_version(io);
    rados_write_op_t op = writing();
    rados_write_op_assert_version(op, version);
    rados_write_op_write_full(op, TEXT("2"));
    RUN_WRITE(op, "version");
    op = writing();
    rados_write_op_assert_version(op, version);
    rados_write_op_write_full(op, TEXT("3"));
    EQ(finish_write(op, "version"), -ERANGE);
    op = writing();
    rados_write_op_assert_version(op, version + 1000000);
    rados_write_op_write_full(op, TEXT("3"));
    EQ(finish_write(op, "version"), -EOVERFLOW);
    rados_read_op_t read = reading();
    rados_read_op_assert_version(read, version);
    EQ(finish_read(read, "version"), -ERANGE);
    read = reading();
    rados_read_op_assert_version(read, version + 1000000);
    EQ(finish_read(read, "version"), -EOVERFLOW);
    CONTENT("version", "2");
}

CASE(cmpext_guards) {
    PUT("cmpext_guard", "0123456789");
    int code = 1;
    rados_write_op_t op = writing();
    rados_write_op_cmpext(op, TEXT("345"), 3, &code);
    rados_write_op_write(op, TEXT("x"), 0);
    RUN_WRITE(op, "cmpext_guard");
    EQ(code, 0);
    op = writing();
    rados_write_op_cmpext(op, TEXT("349"), 3, &code);
    rados_write_op_write(op, TEXT("y"), 0);
    EQ(finish_write(op, "cmpext_guard"), -4095 - 2);
    EQ(code, -4095 - 2);
    CONTENT("cmpext_guard", "x123456789");
}

/* What a comparison of an attribute's value `5` says; 1 if it holds, or an errno. */
static int attribute_compares(uint8_t how, const char *value, int in_write) {
    int code;
    if (in_write) {
        rados_write_op_t op = writing();
        rados_write_op_cmpxattr(op, "n", how, value, strlen(value));
        rados_write_op_setxattr(op, "touched", TEXT("x"));
        code = finish_write(op, "cmpxattr");
    } else {
        rados_read_op_t op = reading();
        rados_read_op_cmpxattr(op, "n", how, value, strlen(value));
        code = finish_read(op, "cmpxattr");
    }
    return code >= 0 ? 1 : code;
}

CASE(attribute_comparisons) {
    OK(rados_setxattr(io, "cmpxattr", "n", TEXT("5")));
    /* As in `value HOW attribute`: greater holds where the given value is greater than the attribute's. */
    const struct {
        uint8_t how;
        int less, equal, greater;
    } rows[] = {{EQUAL, 0, 1, 0}, {DIFFERS, 1, 0, 1}, {GREATER, 0, 0, 1}, {GREATER_OR_EQUAL, 0, 1, 1},
                {LESS, 1, 0, 0},  {LESS_OR_EQUAL, 1, 1, 0}};
    for (int write = 0; write < 2; write++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            EQ(attribute_compares(rows[i].how, "4", write), rows[i].less ? 1 : -ECANCELED);
            EQ(attribute_compares(rows[i].how, "5", write), rows[i].equal ? 1 : -ECANCELED);
            EQ(attribute_compares(rows[i].how, "6", write), rows[i].greater ? 1 : -ECANCELED);
        }
    EQ(attribute_compares(9, "5", 0), -EINVAL);
    EQ(attribute_compares(0, "5", 0), -EINVAL);
    /* A missing attribute is empty text. */
    rados_read_op_t op = reading();
    rados_read_op_cmpxattr(op, "none", EQUAL, "", 0);
    EQ(finish_read(op, "cmpxattr"), 1);
}

CASE(removal_within_an_op) {
    PUT("removal", "old");
    OK(rados_setxattr(io, "removal", "a", TEXT("1")));
    rados_write_op_t op = writing();
    rados_write_op_remove(op);
    rados_write_op_append(op, TEXT("new"));
    RUN_WRITE(op, "removal");
    CONTENT("removal", "new");
    char value[4];
    EQ(rados_getxattr(io, "removal", "a", value, sizeof value), -ENODATA);
    op = writing();
    rados_write_op_remove(op);
    EQ(finish_write(op, "missing"), -ENOENT);
}

CASE(ops_in_vain) {
    rados_write_op_t op = writing();
    OK(rados_write_op_operate(op, io, "vain", NULL, 0));
    rados_release_write_op(op);
    rados_read_op_t read = reading();
    OK(rados_read_op_operate(read, io, "vain", 0));
    rados_release_read_op(read);
}
