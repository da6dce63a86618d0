/*
 * Runs the cases: `librados_cases POOL SNAP_POOL` connects as CEPH_CONF says and prints a line for each,
 * `ok NAME` or `FAILED NAME: why`. test_rados_c_api.py compiles this and makes a test of every line.
 */
#include "case.h"

#include <setjmp.h>

enum { CASES_MAX = 200 };

struct named_case {
    const char *name;
    void (*run)(void);
};

rados_t cluster;
rados_ioctx_t io, snap_io;

static struct named_case cases[CASES_MAX];
static int case_count;
static jmp_buf failed;
static char reason[2048];

void add_case(const char *name, void (*run)(void)) {
    if (case_count == CASES_MAX) {
        fprintf(stderr, "more than %d cases\n", CASES_MAX);
        exit(2);
    }
    cases[case_count++] = (struct named_case){name, run};
}

void check_equal(long long got, long long want, const char *what, const char *file, int line) {
    if (got == want)
        return;
    snprintf(reason, sizeof reason, "%s:%d: %s is %lld, not %lld", file, line, what, got, want);
    longjmp(failed, 1);
}

void check_bytes(const void *got, size_t got_len, const void *want, size_t want_len, const char *what, const char *file,
                 int line) {
    if (got_len == want_len && memcmp(got, want, want_len) == 0)
        return;
    snprintf(reason, sizeof reason, "%s:%d: %s is '%.*s' (%zu bytes), not '%.*s' (%zu)", file, line, what,
             (int)(got_len > 99 ? 99 : got_len), (const char *)got, got_len, (int)(want_len > 99 ? 99 : want_len),
             (const char *)want, want_len);
    longjmp(failed, 1);
}

/* What a case may have left behind, and the next must not meet. */
static void begin_anew(rados_ioctx_t context) {
    rados_ioctx_set_namespace(context, "");
    rados_ioctx_locator_set_key(context, NULL);
    rados_ioctx_snap_set_read(context, LIBRADOS_SNAP_HEAD);
    rados_ioctx_selfmanaged_snap_set_write_ctx(context, 0, NULL, 0);
}

static void must(int code, const char *what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", what, strerror(-code));
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s POOL SNAP_POOL [CASE...]\n", argv[0]);
        return 2;
    }
    must(rados_create(&cluster, "admin"), "create");
    must(rados_conf_read_file(cluster, NULL), "configuration");
    must(rados_connect(cluster), "connect");
    must(rados_ioctx_create(cluster, argv[1], &io), argv[1]);
    must(rados_ioctx_create(cluster, argv[2], &snap_io), argv[2]);
    int failures = 0;
    for (int i = 0; i < case_count; i++) {
        int chosen = argc == 3;
        for (int arg = 3; arg < argc; arg++)
            chosen |= strcmp(argv[arg], cases[i].name) == 0;
        if (!chosen)
            continue;
        begin_anew(io);
        if (setjmp(failed) == 0) {
            cases[i].run();
            printf("ok %s\n", cases[i].name);
        } else {
            failures++;
            printf("FAILED %s: %s\n", cases[i].name, reason);
        }
        fflush(stdout);
    }
    rados_ioctx_destroy(snap_io);
    rados_ioctx_destroy(io);
    rados_shutdown(cluster);
    return failures != 0;
}
