/* Single ops on an object's data and attributes. */
#include "case.h"

CASE(checksums_of_the_whole_and_of_chunks) {
    PUT("checksums", "hello worldhello world");
    uint32_t init = 0xffffffff, answer[8];
    /* The answer: how many checksums, then they. */
    OK(rados_checksum(io, "checksums", LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, sizeof init, 11, 0, 0,
                      (char *)answer, sizeof answer));
    EQ(answer[0], 1);
    EQ(answer[1], 0x366b9a55u);
    OK(rados_checksum(io, "checksums", LIBRADOS_CHECKSUM_TYPE_CRC32C, (char *)&init, sizeof init, 22, 0, 11,
                      (char *)answer, sizeof answer));
    EQ(answer[0], 2);
    EQ(answer[1], 0x366b9a55u);
    EQ(answer[2], 0x366b9a55u);
}

CASE(checksums_of_each_kind) {
    PUT("kinds", "hello world");
    uint32_t seed32 = 7, xxh32[2];
    OK(rados_checksum(io, "kinds", LIBRADOS_CHECKSUM_TYPE_XXHASH32, (char *)&seed32, sizeof seed32, 11, 0, 0,
                      (char *)xxh32, sizeof xxh32));
    EQ(xxh32[0], 1);
    EQ(xxh32[1], 0xcabf9745u);
    uint64_t seed64 = 7;
    struct {
        uint32_t count;
        uint64_t sum;
    } __attribute__((packed)) xxh64;
    OK(rados_checksum(io, "kinds", LIBRADOS_CHECKSUM_TYPE_XXHASH64, (char *)&seed64, sizeof seed64, 11, 0, 0,
                      (char *)&xxh64, sizeof xxh64));
    EQ(xxh64.count, 1);
    EQ(xxh64.sum, (long long)0xe3188f1f1023e4d0ull);
}

CASE(checksums_have_limits) {
    PUT("limits", "hello world");
    uint32_t init = 0, answer[8];
    char *seed = (char *)&init, *out = (char *)answer;
    /* A chunk size that does not divide the length, and a seed of the wrong size. */
    EQ(rados_checksum(io, "limits", LIBRADOS_CHECKSUM_TYPE_CRC32C, seed, 4, 11, 0, 4, out, sizeof answer), -EINVAL);
    EQ(rados_checksum(io, "limits", LIBRADOS_CHECKSUM_TYPE_CRC32C, seed, 2, 11, 0, 0, out, sizeof answer), -EINVAL);
    EQ(rados_checksum(io, "missing", LIBRADOS_CHECKSUM_TYPE_CRC32C, seed, 4, 11, 0, 0, out, sizeof answer), -ENOENT);
    /* No more than is there. */
    OK(rados_checksum(io, "limits", LIBRADOS_CHECKSUM_TYPE_CRC32C, seed, 4, 4096, 0, 0, out, sizeof answer));
    EQ(answer[0], 1);
}

CASE(cmpext_tells_where_they_differ) {
    PUT("cmpext", "0123456789");
    OK(rados_cmpext(io, "cmpext", TEXT("345"), 3));
    OK(rados_cmpext(io, "cmpext", TEXT("0123456789"), 0));
    EQ(rados_cmpext(io, "cmpext", TEXT("3x5"), 3), -4095 - 1);
    EQ(rados_cmpext(io, "cmpext", TEXT("x"), 0), -4095);
    /* Beyond the end are zeros. */
    OK(rados_cmpext(io, "cmpext", TEXT("89\0\0"), 8));
    EQ(rados_cmpext(io, "cmpext", TEXT("89ab"), 8), -4095 - 2);
    EQ(rados_cmpext(io, "missing", TEXT("x"), 0), -ENOENT);
}

CASE(writesame_repeats) {
    OK(rados_writesame(io, "writesame", TEXT("abc"), 9, 2));
    CONTENT("writesame", "\0\0abcabcabc");
    EQ(rados_writesame(io, "writesame", TEXT("abc"), 10, 0), -EINVAL);
    OK(rados_writesame(io, "writesame", TEXT("abc"), 0, 0));
    CONTENT("writesame", "\0\0abcabcabc");
}

CASE(data_at_its_edges) {
    PUT("edges", "0123456789");
    OK(rados_write(io, "edges", TEXT("ab"), 9));
    CONTENT("edges", "012345678ab");
    OK(rados_append(io, "edges", TEXT("c")));
    OK(rados_trunc(io, "edges", 3));
    OK(rados_trunc(io, "edges", 5));
    CONTENT("edges", "012\0\0");
    OK(rados_write_full(io, "edges", "", 0));
    CONTENT("edges", "");
    uint64_t size;
    time_t mtime;
    OK(rados_stat(io, "edges", &size, &mtime));
    EQ(size, 0);
    OK(rados_remove(io, "edges"));
    EQ(rados_stat(io, "edges", &size, &mtime), -ENOENT);
    EQ(rados_remove(io, "edges"), -ENOENT);
}

CASE(objects_have_a_largest_size) {
    EQ(rados_write(io, "size", TEXT("x"), 128 << 20), -EFBIG);
    PUT("size", "x");
    EQ(rados_trunc(io, "size", (128 << 20) + 1), -EFBIG);
    EQ(rados_writesame(io, "size", TEXT("x"), 2, (128 << 20) - 1), -EFBIG);
}

CASE(allocation_hints_change_nothing_visible) {
    OK(rados_set_alloc_hint(io, "hint", 4 << 20, 64 << 10));
    CONTENT("hint", "");
    PUT("hint", "data");
    OK(rados_set_alloc_hint2(io, "hint", 4 << 20, 64 << 10,
                             LIBRADOS_ALLOC_HINT_FLAG_APPEND_ONLY | LIBRADOS_ALLOC_HINT_FLAG_COMPRESSIBLE));
    CONTENT("hint", "data");
}

CASE(attributes) {
    char value[16];
    OK(rados_setxattr(io, "xattr", "b", TEXT("2")));
    OK(rados_setxattr(io, "xattr", "a", TEXT("one")));
    OK(rados_setxattr(io, "xattr", "empty", "", 0));
    EQ(rados_getxattr(io, "xattr", "a", value, sizeof value), 3);
    BYTES(value, 3, "one");
    EQ(rados_getxattr(io, "xattr", "a", value, 2), -ERANGE);
    EQ(rados_getxattr(io, "xattr", "empty", value, sizeof value), 0);
    EQ(rados_getxattr(io, "xattr", "none", value, sizeof value), -ENODATA);
    OK(rados_rmxattr(io, "xattr", "b"));
    rados_xattrs_iter_t iter;
    const char *name, *got;
    size_t len;
    OK(rados_getxattrs(io, "xattr", &iter));
    OK(rados_getxattrs_next(iter, &name, &got, &len));
    BYTES(name, strlen(name), "a");
    BYTES(got, len, "one");
    OK(rados_getxattrs_next(iter, &name, &got, &len));
    BYTES(name, strlen(name), "empty");
    EQ(len, 0);
    OK(rados_getxattrs_next(iter, &name, &got, &len));
    TRUE(name == NULL);
    rados_getxattrs_end(iter);
}

CASE(attributes_may_be_large) {
    static char value[100 << 10], got[100 << 10];
    memset(value, 'v', sizeof value);
    OK(rados_setxattr(io, "xattr_size", "a", value, sizeof value));
    EQ(rados_getxattr(io, "xattr_size", "a", got, sizeof got), sizeof got);
    TRUE(memcmp(value, got, sizeof got) == 0);
}

CASE(removing_a_missing_attribute) {
    PUT("rmxattr", "");
    OK(rados_rmxattr(io, "rmxattr", "none"));
    EQ(rados_rmxattr(io, "missing", "none"), -ENOENT);
}

CASE(versions) {
    PUT("versions", "1");
    uint64_t first = rados_get_last_version(io);
    PUT("versions", "2");
    uint64_t second = rados_get_last_version(io);
    TRUE(second > first);
    char byte;
    EQ(rados_read(io, "versions", &byte, 1, 0), 1);
    EQ(rados_get_last_version(io), second);
}

CASE(statistics_of_pool_and_cluster) {
    struct rados_cluster_stat_t all;
    OK(rados_cluster_stat(cluster, &all));
    TRUE(all.kb > 0 && all.kb_avail <= all.kb);
    struct rados_pool_stat_t pool;
    OK(rados_ioctx_pool_stat(io, &pool));
    char names[4096], pool_name[256];
    TRUE(rados_ioctx_get_pool_name(io, pool_name, sizeof pool_name) > 0);
    TRUE(rados_pool_list(cluster, names, sizeof names) <= (int)sizeof names);
    int seen = 0;
    for (const char *name = names; *name; name += strlen(name) + 1)
        seen |= strcmp(name, pool_name) == 0;
    TRUE(seen);
    int64_t id = rados_ioctx_get_id(io);
    EQ(rados_pool_lookup(cluster, pool_name), id);
    EQ(rados_pool_lookup(cluster, "no such pool"), -ENOENT);
}
