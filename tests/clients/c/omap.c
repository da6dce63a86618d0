/* An object's map: values of any bytes, ranges, pages, comparisons. */
#include "case.h"

enum { EQUAL = 1, DIFFERS, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL };

/* Fills a map with k00 ... of `count` entries, values v0 ... . */
static void fill(const char *name, int count) {
    rados_write_op_t op = rados_create_write_op();
    for (int i = 0; i < count; i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "k%02d", i);
        snprintf(value, sizeof value, "v%d", i);
        const char *keys[] = {key}, *values[] = {value};
        size_t lens[] = {strlen(value)};
        rados_write_op_omap_set(op, keys, values, lens, 1);
    }
    RUN_WRITE(op, name);
}

/* The keys of an answer in one line, each with its value where it has one: `k00=v0 k01=v1`. */
static const char *line(rados_omap_iter_t iter) {
    static char text[4096];
    size_t used = 0;
    char *key, *value;
    size_t key_len, value_len;
    text[0] = 0;
    unsigned count = rados_omap_iter_size(iter), seen = 0;
    for (;;) {
        OK(rados_omap_get_next2(iter, &key, &value, &key_len, &value_len));
        if (!key)
            break;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", seen++ ? " " : "", (int)key_len, key);
        if (value_len)
            used += (size_t)snprintf(text + used, sizeof text - used, "=%.*s", (int)value_len, value);
    }
    EQ(seen, count);
    rados_omap_get_end(iter);
    return text;
}

#define LINE(iter, want)                                                                                               \
    do {                                                                                                               \
        const char *got = line(iter);                                                                                  \
        BYTES(got, strlen(got), want);                                                                                 \
    } while (0)

static void keys_are(const char *name, const char *want) {
    rados_read_op_t op = rados_create_read_op();
    rados_omap_iter_t iter;
    unsigned char more;
    int code;
    rados_read_op_omap_get_keys2(op, "", 100, &iter, &more, &code);
    RUN_READ(op, name);
    OK(code);
    EQ(more, 0);
    const char *got = line(iter);
    check_bytes(got, strlen(got), want, strlen(want), "keys", __FILE__, __LINE__);
}

CASE(map_pages) {
    fill("map_pages", 5);
    rados_read_op_t op = rados_create_read_op();
    rados_omap_iter_t all, two, rest, keys, prefixed;
    unsigned char more[5];
    int codes[5];
    rados_read_op_omap_get_vals2(op, "", "", 100, &all, &more[0], &codes[0]);
    rados_read_op_omap_get_vals2(op, "", "", 2, &two, &more[1], &codes[1]);
    rados_read_op_omap_get_vals2(op, "k02", "", 2, &rest, &more[2], &codes[2]);
    rados_read_op_omap_get_keys2(op, "k00", 3, &keys, &more[3], &codes[3]);
    rados_read_op_omap_get_vals2(op, "", "k03", 100, &prefixed, &more[4], &codes[4]);
    RUN_READ(op, "map_pages");
    for (int i = 0; i < 5; i++)
        OK(codes[i]);
    LINE(all, "k00=v0 k01=v1 k02=v2 k03=v3 k04=v4");
    LINE(two, "k00=v0 k01=v1");
    LINE(rest, "k03=v3 k04=v4");
    LINE(keys, "k01 k02 k03");
    LINE(prefixed, "k03=v3");
    EQ(more[0], 0);
    EQ(more[1], 1);
    EQ(more[2], 0);
    EQ(more[3], 1);
    EQ(more[4], 0);
}

CASE(map_values_by_key) {
    fill("by_key", 4);
    rados_read_op_t op = rados_create_read_op();
    rados_omap_iter_t iter;
    int code;
    const char *keys[] = {"k03", "none", "k01"};
    size_t lens[] = {3, 4, 3};
    rados_read_op_omap_get_vals_by_keys2(op, keys, 3, lens, &iter, &code);
    RUN_READ(op, "by_key");
    OK(code);
    LINE(iter, "k01=v1 k03=v3");
}

CASE(map_keys_of_any_bytes) {
    const char *keys[] = {"a\0b", "\xff\xfe", "a"}, *values[] = {"x\0y", "", "plain"};
    size_t key_lens[] = {3, 2, 1}, value_lens[] = {3, 0, 5};
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_set2(op, keys, values, key_lens, value_lens, 3);
    RUN_WRITE(op, "any_bytes");
    rados_read_op_t read = rados_create_read_op();
    rados_omap_iter_t iter;
    int code;
    rados_read_op_omap_get_vals_by_keys2(read, keys, 1, key_lens, &iter, &code);
    RUN_READ(read, "any_bytes");
    char *key, *value;
    size_t key_len, value_len;
    OK(rados_omap_get_next2(iter, &key, &value, &key_len, &value_len));
    BYTES(key, key_len, "a\0b");
    BYTES(value, value_len, "x\0y");
    rados_omap_get_end(iter);
    op = rados_create_write_op();
    rados_write_op_omap_rm_keys2(op, keys, key_lens, 2);
    RUN_WRITE(op, "any_bytes");
    keys_are("any_bytes", "a");
}

CASE(map_removals) {
    fill("map_removals", 8);
    rados_write_op_t op = rados_create_write_op();
    const char *keys[] = {"k00", "none"};
    rados_write_op_omap_rm_keys(op, keys, 2);
    /* From the first, up to and without the last. */
    rados_write_op_omap_rm_range2(op, TEXT("k02"), TEXT("k05"));
    RUN_WRITE(op, "map_removals");
    keys_are("map_removals", "k01 k05 k06 k07");
    op = rados_create_write_op();
    rados_write_op_omap_rm_range2(op, TEXT("k08"), TEXT("k09"));
    RUN_WRITE(op, "map_removals");
    keys_are("map_removals", "k01 k05 k06 k07");
    op = rados_create_write_op();
    rados_write_op_omap_clear(op);
    RUN_WRITE(op, "map_removals");
    keys_are("map_removals", "");
}

CASE(map_ops_see_those_before) {
    fill("in_order", 2);
    rados_write_op_t op = rados_create_write_op();
    const char *keys[] = {"new"}, *values[] = {"x"};
    size_t lens[] = {1};
    rados_write_op_omap_clear(op);
    rados_write_op_omap_set(op, keys, values, lens, 1);
    RUN_WRITE(op, "in_order");
    keys_are("in_order", "new");
    op = rados_create_write_op();
    rados_write_op_omap_set(op, keys, values, lens, 1);
    rados_write_op_omap_clear(op);
    RUN_WRITE(op, "in_order");
    keys_are("in_order", "");
}

static int map_compares(uint8_t how, const char *value, int in_write) {
    int code, prval = 1;
    if (in_write) {
        rados_write_op_t op = rados_create_write_op();
        rados_write_op_omap_cmp2(op, "k", how, value, 1, strlen(value), &prval);
        rados_write_op_setxattr(op, "touched", TEXT("x"));
        code = finish_write(op, "map_cmp");
    } else {
        rados_read_op_t op = rados_create_read_op();
        rados_read_op_omap_cmp2(op, "k", how, value, 1, strlen(value), &prval);
        code = finish_read(op, "map_cmp");
    }
    return code;
}

CASE(map_comparisons) {
    const char *keys[] = {"k"}, *values[] = {"5"};
    size_t lens[] = {1};
    rados_write_op_t op = rados_create_write_op();
    rados_write_op_omap_set(op, keys, values, lens, 1);
    RUN_WRITE(op, "map_cmp");
    for (int write = 0; write < 2; write++) {
        OK(map_compares(EQUAL, "5", write));
        EQ(map_compares(EQUAL, "4", write), -ECANCELED);
        /* As in `stored HOW value`. */
        OK(map_compares(LESS, "6", write));
        EQ(map_compares(LESS, "5", write), -ECANCELED);
        EQ(map_compares(LESS, "4", write), -ECANCELED);
        OK(map_compares(GREATER, "4", write));
        EQ(map_compares(GREATER, "5", write), -ECANCELED);
        EQ(map_compares(GREATER, "6", write), -ECANCELED);
        EQ(map_compares(DIFFERS, "4", write), -EINVAL);
        EQ(map_compares(GREATER_OR_EQUAL, "4", write), -EINVAL);
        EQ(map_compares(LESS_OR_EQUAL, "4", write), -EINVAL);
    }
    rados_read_op_t read = rados_create_read_op();
    int prval;
    rados_read_op_omap_cmp(read, "none", EQUAL, "", 0, &prval);
    EQ(finish_read(read, "map_cmp"), 0);
    read = rados_create_read_op();
    rados_read_op_omap_cmp(read, "none", EQUAL, TEXT("x"), &prval);
    EQ(finish_read(read, "map_cmp"), -ECANCELED);
}

CASE(maps_of_missing_objects) {
    rados_read_op_t op = rados_create_read_op();
    rados_omap_iter_t iter;
    unsigned char more;
    int code;
    rados_read_op_omap_get_keys2(op, "", 100, &iter, &more, &code);
    EQ(finish_read(op, "missing"), -ENOENT);
    rados_omap_get_end(iter);
}
