/* Listing objects: iterators, cursors and slices, namespaces, positions. */
#include "case.h"

enum { OBJECTS = 60 };

/* Objects listing-0 ... in a namespace of their own, made once. */
static void fill(void) {
    static int filled;
    rados_ioctx_set_namespace(io, "listing");
    for (; filled < OBJECTS; filled++) {
        char name[32];
        snprintf(name, sizeof name, "listing-%d", filled);
        OK(rados_write_full(io, name, TEXT("x")));
    }
}

/* Counts one sighting of listing-N. */
static void sight(int *seen, const char *name) {
    int number = -1;
    EQ(sscanf(name, "listing-%d", &number), 1);
    TRUE(number >= 0 && number < OBJECTS);
    seen[number]++;
}

static void all_once(const int *seen) {
    for (int i = 0; i < OBJECTS; i++)
        EQ(seen[i], 1);
}

CASE(an_iterator_sees_every_object_once) {
    fill();
    int seen[OBJECTS] = {0};
    rados_list_ctx_t list;
    const char *name, *key, *space;
    OK(rados_nobjects_list_open(io, &list));
    while (rados_nobjects_list_next(list, &name, &key, &space) == 0) {
        BYTES(space, strlen(space), "listing");
        TRUE(key == NULL);
        sight(seen, name);
    }
    EQ(rados_nobjects_list_next(list, &name, &key, &space), -ENOENT);
    rados_nobjects_list_close(list);
    rados_ioctx_set_namespace(io, "");
    all_once(seen);
}

CASE(an_iterator_of_all_namespaces) {
    fill();
    rados_ioctx_set_namespace(io, "");
    PUT("in the default one", "x");
    rados_ioctx_set_namespace(io, LIBRADOS_ALL_NSPACES);
    int in_default = 0, in_listing = 0;
    rados_list_ctx_t list;
    const char *name, *key, *space;
    size_t name_len, key_len, space_len;
    OK(rados_nobjects_list_open(io, &list));
    while (rados_nobjects_list_next2(list, &name, &key, &space, &name_len, &key_len, &space_len) == 0) {
        in_default += space_len == 0 && strcmp(name, "in the default one") == 0;
        in_listing += space_len == 7 && memcmp(space, "listing", 7) == 0;
        EQ(name_len, strlen(name));
    }
    rados_nobjects_list_close(list);
    rados_ioctx_set_namespace(io, "");
    EQ(in_default, 1);
    EQ(in_listing, OBJECTS);
}

CASE(an_iterator_shows_locator_keys) {
    rados_ioctx_set_namespace(io, "located");
    rados_ioctx_locator_set_key(io, "place");
    OK(rados_write_full(io, "object", TEXT("x")));
    rados_ioctx_locator_set_key(io, NULL);
    rados_list_ctx_t list;
    const char *name, *key, *space;
    OK(rados_nobjects_list_open(io, &list));
    OK(rados_nobjects_list_next(list, &name, &key, &space));
    BYTES(name, strlen(name), "object");
    BYTES(key, strlen(key), "place");
    rados_nobjects_list_close(list);
    rados_ioctx_set_namespace(io, "");
}

CASE(an_iterator_returns_to_a_cursor) {
    fill();
    rados_list_ctx_t list;
    const char *name, *key, *space;
    char first[64], again[64];
    rados_object_list_cursor cursor;
    OK(rados_nobjects_list_open(io, &list));
    for (int i = 0; i < OBJECTS / 2; i++)
        OK(rados_nobjects_list_next(list, &name, &key, &space));
    /* A cursor is at the object that was seen last. */
    snprintf(first, sizeof first, "%s", name);
    OK(rados_nobjects_list_get_cursor(list, &cursor));
    OK(rados_nobjects_list_next(list, &name, &key, &space));
    OK(rados_nobjects_list_next(list, &name, &key, &space));
    rados_nobjects_list_seek_cursor(list, cursor);
    OK(rados_nobjects_list_next(list, &name, &key, &space));
    snprintf(again, sizeof again, "%s", name);
    rados_object_list_cursor_free(io, cursor);
    rados_nobjects_list_close(list);
    rados_ioctx_set_namespace(io, "");
    EQ(strcmp(first, again), 0);
}

CASE(an_iterator_seeks_by_position) {
    fill();
    rados_list_ctx_t list;
    const char *name, *key, *space;
    int seen[OBJECTS] = {0};
    OK(rados_nobjects_list_open(io, &list));
    EQ(rados_nobjects_list_get_pg_hash_position(list), 0);
    while (rados_nobjects_list_next(list, &name, &key, &space) == 0)
        ;
    EQ(rados_nobjects_list_seek(list, 0), 0);
    while (rados_nobjects_list_next(list, &name, &key, &space) == 0)
        sight(seen, name);
    rados_nobjects_list_close(list);
    rados_ioctx_set_namespace(io, "");
    all_once(seen);
}

/* Lists from `at`, which moves, to `end` in pages of `page`, counting sightings; returns how many objects. */
static int sight_range(rados_object_list_cursor at, rados_object_list_cursor end, size_t page, int *seen) {
    int total = 0;
    rados_object_list_item items[32];
    while (rados_object_list_cursor_cmp(io, at, end) < 0) {
        int count = rados_object_list(io, at, end, page, NULL, 0, items, &at);
        TRUE(count >= 0 && count <= (int)page);
        for (int i = 0; i < count; i++) {
            BYTES(items[i].nspace, items[i].nspace_length, "listing");
            /* Names come with their lengths, and without a zero at the end. */
            char name[32];
            TRUE(items[i].oid_length < sizeof name);
            snprintf(name, sizeof name, "%.*s", (int)items[i].oid_length, items[i].oid);
            sight(seen, name);
        }
        rados_object_list_free((size_t)count, items);
        total += count;
    }
    return total;
}

CASE(cursors_page_through_a_pool) {
    fill();
    for (size_t page = 1; page <= 32; page += 31) {
        int seen[OBJECTS] = {0};
        rados_object_list_cursor start = rados_object_list_begin(io), end = rados_object_list_end(io);
        EQ(rados_object_list_is_end(io, start), 0);
        EQ(rados_object_list_is_end(io, end), 1);
        EQ(sight_range(start, end, page, seen), OBJECTS);
        rados_object_list_cursor_free(io, start);
        rados_object_list_cursor_free(io, end);
        all_once(seen);
    }
    rados_ioctx_set_namespace(io, "");
}

CASE(slices_split_a_pool) {
    fill();
    int seen[OBJECTS] = {0};
    rados_object_list_cursor start = rados_object_list_begin(io), end = rados_object_list_end(io);
    const size_t slices = 5;
    int total = 0;
    for (size_t i = 0; i < slices; i++) {
        rados_object_list_cursor from = rados_object_list_begin(io), to = rados_object_list_end(io);
        rados_object_list_slice(io, start, end, i, slices, &from, &to);
        total += sight_range(from, to, 7, seen);
        rados_object_list_cursor_free(io, from);
        rados_object_list_cursor_free(io, to);
    }
    rados_object_list_cursor_free(io, start);
    rados_object_list_cursor_free(io, end);
    rados_ioctx_set_namespace(io, "");
    EQ(total, OBJECTS);
    all_once(seen);
}
