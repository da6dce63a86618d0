/*
 * What every case needs: a connection, a pool, and checks that end the case with what was got and what was wanted.
 *
 * A case is a function that main.c runs by name. Cases share the pool, so each names its objects after itself.
 */
#ifndef CASE_H
#define CASE_H

#include <errno.h>
#include <rados/librados.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The connection, the pool of most cases, and one for the cases of pool snapshots. */
extern rados_t cluster;
extern rados_ioctx_t io, snap_io;

void add_case(const char *name, void (*run)(void));
void check_equal(long long got, long long want, const char *what, const char *file, int line);
void check_bytes(const void *got, size_t got_len, const void *want, size_t want_len, const char *what, const char *file,
                 int line);

#ifdef __cplusplus
}
#endif

/* Defines a case and makes it known. */
#define CASE(name)                                                                                                     \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void add_##name(void) { add_case(#name, name); }                               \
    static void name(void)

/* A number is what it should be; for calls, what they return. */
#define EQ(got, want) check_equal((long long)(got), (long long)(want), #got, __FILE__, __LINE__)
#define OK(call) EQ(call, 0)
#define TRUE(condition) EQ(!!(condition), 1)
/* `len` bytes at `got` are the characters of a literal. */
#define BYTES(got, len, text) check_bytes(got, len, text, sizeof(text) - 1, #got, __FILE__, __LINE__)

/* An object's whole content is the characters of a literal. */
#define CONTENT(name, text)                                                                                            \
    do {                                                                                                               \
        static char content[1 << 16];                                                                                  \
        int length = rados_read(io, name, content, sizeof content, 0);                                                 \
        EQ(length, sizeof(text) - 1);                                                                                  \
        check_bytes(content, (size_t)length, text, sizeof(text) - 1, "content of " name, __FILE__, __LINE__);          \
    } while (0)

/* Text and its length, as most calls take them. */
#define TEXT(text) (text), (sizeof(text) - 1)
#define PUT(name, text) OK(rados_write_full(io, name, TEXT(text)))

/* Sends a compound, which must succeed, and releases it; finish_write and finish_read return how it went instead. */
#define RUN_WRITE(op, name) EQ(finish_write(op, name), 0)
#define RUN_READ(op, name) EQ(finish_read(op, name), 0)

static inline int finish_write(rados_write_op_t op, const char *name) {
    int code = rados_write_op_operate(op, io, name, NULL, 0);
    rados_release_write_op(op);
    return code;
}

static inline int finish_read(rados_read_op_t op, const char *name) {
    int code = rados_read_op_operate(op, io, name, 0);
    rados_release_read_op(op);
    return code;
}

#endif
