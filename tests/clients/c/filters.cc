// Listings that choose: filters by attribute, filters of classes, and what is refused. Objects of a namespace each.
#include "case.h"

#include <rados/librados.hpp>
#include <set>
#include <string>

using librados::bufferlist;

namespace {

enum { OBJECTS = 30 };

/* Strings as librados' users encode them for filters: length, then characters. */
bufferlist encoded(std::initializer_list<std::string> parts) {
    bufferlist made;
    for (const std::string &part : parts) {
        uint32_t length = (uint32_t)part.size();
        char bytes[4];
        for (int i = 0; i < 4; i++)
            bytes[i] = (char)(length >> 8 * i);
        made.append(bytes, 4);
        made.append(part);
    }
    return made;
}

librados::IoCtx in_namespace(const char *name) {
    librados::IoCtx own, copy;
    librados::IoCtx::from_rados_ioctx_t(io, own);
    copy.dup(own);
    copy.set_namespace(name);
    return copy;
}

/* A context on objects n-0 ..., a third of which have "color" set to "1". */
librados::IoCtx &filled() {
    static librados::IoCtx context;
    static bool made;
    if (!made) {
        made = true;
        context = in_namespace("filtered");
        for (int i = 0; i < OBJECTS; i++) {
            bufferlist value;
            value.append(std::to_string(i % 3));
            OK(context.setxattr("n-" + std::to_string(i), "color", value));
        }
    }
    return context;
}

std::set<std::string> found(librados::IoCtx &context, const bufferlist &filter) {
    std::set<std::string> names;
    for (auto it = context.nobjects_begin(filter); it != context.nobjects_end(); ++it)
        TRUE(names.insert(it->get_oid()).second);
    return names;
}

/* What a listing by cursor answers to a filter at once. */
int refusal(const bufferlist &filter) {
    librados::IoCtx context = filled();
    std::vector<librados::ObjectItem> items;
    librados::ObjectCursor next;
    return context.object_list(context.object_list_begin(), context.object_list_end(), 10, filter, &items, &next);
}

} // namespace

CASE(a_filter_chooses_by_attribute) {
    for (const char *kind : {"plain", "hello.hello"}) {
        std::set<std::string> names = found(filled(), encoded({kind, "_color", "1"}));
        EQ(names.size(), OBJECTS / 3);
        EQ(names.count("n-1"), 1);
        EQ(names.count("n-2"), 0);
        EQ(found(filled(), encoded({kind, "_color", "9"})).size(), 0);
        EQ(found(filled(), encoded({kind, "_none", ""})).size(), 0);
        EQ(found(filled(), encoded({kind, "color", "1"})).size(), 0);
        EQ(found(filled(), encoded({kind, "", ""})).size(), OBJECTS);
        EQ(found(filled(), encoded({kind, "", "x"})).size(), 0);
    }
}

CASE(a_filter_goes_with_cursors_and_small_pages) {
    librados::IoCtx context = filled();
    for (size_t page : {1, 4, 100}) {
        std::set<std::string> names;
        librados::ObjectCursor at = context.object_list_begin(), end = context.object_list_end();
        while (!context.object_list_is_end(at)) {
            std::vector<librados::ObjectItem> items;
            librados::ObjectCursor next;
            int count = context.object_list(at, end, page, encoded({"plain", "_color", "2"}), &items, &next);
            TRUE(count >= 0 && count <= (int)page);
            for (const librados::ObjectItem &item : items)
                TRUE(names.insert(item.oid).second);
            at = next;
        }
        EQ(names.size(), OBJECTS / 3);
    }
}

CASE(a_filter_in_c_goes_with_cursors) {
    filled();
    rados_ioctx_set_namespace(io, "filtered");
    bufferlist filter = encoded({"plain", "_color", "0"});
    rados_object_list_cursor at = rados_object_list_begin(io), end = rados_object_list_end(io);
    int seen = 0;
    while (rados_object_list_cursor_cmp(io, at, end) < 0) {
        rados_object_list_item items[8];
        int count = rados_object_list(io, at, end, 8, filter.c_str(), filter.length(), items, &at);
        TRUE(count >= 0);
        seen += count;
        rados_object_list_free((size_t)count, items);
    }
    rados_object_list_cursor_free(io, at);
    rados_object_list_cursor_free(io, end);
    rados_ioctx_set_namespace(io, "");
    EQ(seen, OBJECTS / 3);
}

CASE(inodes_are_found_by_tag) {
    librados::IoCtx context = in_namespace("inodes");
    bufferlist data, tag = encoded({"run"}), other = encoded({"walk"});
    for (const char *name : {"10.00000000", "10.00000001", "11.00000000", "12.00000000", "odd"})
        OK(context.write_full(name, data));
    OK(context.setxattr("11.00000000", "scrub_tag", tag));
    OK(context.setxattr("12.00000000", "scrub_tag", other));
    auto filter = [](const std::string &wanted) {
        bufferlist made = encoded({"cephfs.inode_tag"}), arguments = encoded({wanted});
        made.append("\1\1", 2);
        char length[4] = {(char)arguments.length(), 0, 0, 0};
        made.append(length, 4);
        made.append(arguments);
        return made;
    };
    EQ(found(context, filter("")).size(), 3);
    std::set<std::string> fresh = found(context, filter("run"));
    EQ(fresh.size(), 2);
    EQ(fresh.count("11.00000000"), 0);
}

CASE(unknown_filters_are_refused) {
    EQ(refusal(encoded({"plane", "_color", "1"})), -EINVAL);
    EQ(refusal(encoded({"hello.nothing", "_color", "1"})), -EINVAL);
    EQ(refusal(encoded({"lock.lock", "_color", "1"})), -EINVAL);
    EQ(refusal(encoded({"hello."})), -EINVAL);
    EQ(refusal(encoded({".hello"})), -EINVAL);
    EQ(refusal(encoded({"nobody.filter", "_color", "1"})), -EPERM);
    EQ(refusal(encoded({"plain"})), -EINVAL);
}

CASE(nobody_counts_hits) {
    librados::IoCtx context = filled();
    librados::AioCompletion *done = librados::Rados::aio_create_completion();
    std::list<std::pair<time_t, time_t>> sets;
    OK(context.hit_set_list(0, done, &sets));
    done->wait_for_complete();
    OK(done->get_return_value());
    done->release();
    EQ(sets.size(), 0);
}
