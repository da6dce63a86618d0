// What only the C++ interface reaches: copies, sparse reads, snapshots listed, numeric comparisons, watchers listed.
#include "case.h"

#include <list>
#include <map>
#include <rados/librados.hpp>
#include <string>
#include <vector>

using librados::bufferlist;
using librados::ObjectReadOperation;
using librados::ObjectWriteOperation;

namespace {

librados::IoCtx &cxx() {
    static librados::IoCtx context;
    static bool made = (librados::IoCtx::from_rados_ioctx_t(io, context), true);
    (void)made;
    return context;
}

bufferlist text(const std::string &characters) {
    bufferlist made;
    made.append(characters);
    return made;
}

#define HOLDS(list, want)                                                                                              \
    do {                                                                                                               \
        std::string got = (list).to_str();                                                                             \
        BYTES(got.data(), got.size(), want);                                                                           \
    } while (0)

} // namespace

CASE(a_copy_takes_everything) {
    PUT("copy_source", "data to copy");
    OK(rados_setxattr(io, "copy_source", "a", TEXT("1")));
    OK(cxx().omap_set("copy_source", {{"k", text("v")}}));
    OK(cxx().omap_set_header("copy_source", text("header")));
    ObjectWriteOperation op;
    op.copy_from("copy_source", cxx(), 0, 0);
    OK(cxx().operate("copy_target", &op));
    CONTENT("copy_target", "data to copy");
    bufferlist value, header;
    EQ(cxx().getxattr("copy_target", "a", value), 1);
    HOLDS(value, "1");
    std::map<std::string, bufferlist> entries;
    OK(cxx().omap_get_vals("copy_target", "", 10, &entries));
    EQ(entries.size(), 1);
    HOLDS(entries["k"], "v");
    OK(cxx().omap_get_header("copy_target", &header));
    HOLDS(header, "header");
}

CASE(a_copy_replaces_its_target) {
    PUT("copy_over_source", "new");
    PUT("copy_over_target", "something longer");
    OK(rados_setxattr(io, "copy_over_target", "old", TEXT("1")));
    ObjectWriteOperation op;
    op.copy_from("copy_over_source", cxx(), 0, 0);
    op.setxattr("after", text("2"));
    OK(cxx().operate("copy_over_target", &op));
    CONTENT("copy_over_target", "new");
    std::map<std::string, bufferlist> attributes;
    OK(cxx().getxattrs("copy_over_target", attributes));
    EQ(attributes.count("old"), 0);
    EQ(attributes.count("after"), 1);
}

CASE(a_copy_of_a_large_object) {
    std::string large(9 << 20, 'x');
    for (size_t i = 0; i < large.size(); i += 4096)
        large[i] = (char)(i >> 12);
    bufferlist data = text(large), got;
    OK(cxx().write_full("copy_large_source", data));
    ObjectWriteOperation op;
    op.copy_from("copy_large_source", cxx(), 0, 0);
    OK(cxx().operate("copy_large_target", &op));
    EQ(cxx().read("copy_large_target", got, large.size() + 1, 0), large.size());
    TRUE(got.to_str() == large);
    OK(cxx().remove("copy_large_source"));
    OK(cxx().remove("copy_large_target"));
}

CASE(a_copy_of_what_is_not_there) {
    ObjectWriteOperation op;
    op.copy_from("missing", cxx(), 0, 0);
    EQ(cxx().operate("copy_of_missing", &op), -ENOENT);
    uint64_t size;
    EQ(cxx().stat("copy_of_missing", &size, nullptr), -ENOENT);
}

CASE(a_copy_of_another_version) {
    PUT("copy_version", "one");
    uint64_t version = rados_get_last_version(io);
    PUT("copy_version", "two");
    ObjectWriteOperation op;
    op.copy_from("copy_version", cxx(), version, 0);
    EQ(cxx().operate("copy_version_target", &op), -ERANGE);
}

CASE(sparse_reads_name_what_is_there) {
    bufferlist head = text("head"), tail = text("tail"), data;
    OK(cxx().write("sparse", head, 4, 0));
    OK(cxx().write("sparse", tail, 4, 1 << 20));
    std::map<uint64_t, uint64_t> extents;
    TRUE(cxx().sparse_read("sparse", extents, data, 2 << 20, 0) >= 0);
    // A store may name more than was written, yet never less, and all of it in order.
    std::string whole(1 << 20, 0), all = data.to_str();
    whole += "tail";
    whole.replace(0, 4, "head");
    std::string rebuilt(whole.size(), 0);
    size_t at = 0;
    for (auto &[offset, length] : extents) {
        TRUE(offset + length <= whole.size());
        rebuilt.replace(offset, length, all.substr(at, length));
        at += length;
    }
    EQ(at, all.size());
    TRUE(rebuilt == whole);
    EQ(cxx().sparse_read("missing", extents, data, 10, 0), -ENOENT);
}

CASE(sparse_reads_of_large_data_give_all_of_it) {
    std::string whole(1 << 20, 0);
    for (size_t at = 0; at < whole.size(); at++)
        whole[at] = char(at * 131 >> 5);
    bufferlist content = text(whole);
    OK(cxx().write_full("sparse_large", content));
    struct { uint64_t offset, length; } parts[] = {{0, 1 << 20}, {0, 2 << 20}, {65536, 131072}, {5, 100001}, {1000000, 99}};
    for (auto &[offset, length] : parts) {
        std::map<uint64_t, uint64_t> extents;
        bufferlist data;
        TRUE(cxx().sparse_read("sparse_large", extents, data, length, offset) >= 0);
        std::string expected = whole.substr(offset, length);
        EQ(extents.size(), 1);
        EQ(extents.begin()->first, offset);
        EQ(extents.begin()->second, expected.size());
        TRUE(data.to_str() == expected);
    }
}

CASE(mapext_tells_the_extents) {
    PUT("mapext", "0123456789");
    std::map<uint64_t, uint64_t> extents;
    OK(cxx().mapext("mapext", 0, 100, extents) < 0 ? -1 : 0);
    EQ(extents.size(), 1);
    EQ(extents[0], 10);
}

CASE(listed_snaps) {
    uint64_t first, second;
    PUT("list_snaps", "0123456789");
    OK(cxx().selfmanaged_snap_create(&first));
    OK(cxx().selfmanaged_snap_create(&second));
    std::vector<librados::snap_t> context{second, first};
    OK(cxx().selfmanaged_snap_set_write_ctx(second, context));
    bufferlist two = text("xy");
    OK(cxx().write("list_snaps", two, 2, 4));
    cxx().snap_set_read(LIBRADOS_SNAP_DIR);
    librados::snap_set_t snaps;
    int listed = cxx().list_snaps("list_snaps", &snaps);
    cxx().snap_set_read(LIBRADOS_SNAP_HEAD);
    OK(listed);
    EQ(snaps.seq, second);
    EQ(snaps.clones.size(), 2);
    EQ(snaps.clones[0].cloneid, second);
    EQ(snaps.clones[0].snaps.size(), 2);
    EQ(snaps.clones[0].size, 10);
    EQ(snaps.clones[0].overlap.size(), 2);
    EQ(snaps.clones[0].overlap[1].first, 6);
    EQ(snaps.clones[1].cloneid, LIBRADOS_SNAP_HEAD);
    std::vector<librados::snap_t> none;
    OK(cxx().selfmanaged_snap_set_write_ctx(0, none));
    OK(cxx().selfmanaged_snap_remove(first));
    OK(cxx().selfmanaged_snap_remove(second));
}

CASE(rollback_within_a_compound) {
    uint64_t snap;
    PUT("op_rollback", "before");
    OK(cxx().selfmanaged_snap_create(&snap));
    std::vector<librados::snap_t> context{snap};
    OK(cxx().selfmanaged_snap_set_write_ctx(snap, context));
    bufferlist after = text("after");
    OK(cxx().write_full("op_rollback", after));
    ObjectWriteOperation op;
    op.selfmanaged_snap_rollback(snap);
    op.setxattr("a", text("1"));
    OK(cxx().operate("op_rollback", &op));
    std::vector<librados::snap_t> none;
    OK(cxx().selfmanaged_snap_set_write_ctx(0, none));
    CONTENT("op_rollback", "before");
    OK(cxx().selfmanaged_snap_remove(snap));
}

CASE(numeric_comparisons_of_attributes) {
    OK(rados_setxattr(io, "numbers", "n", TEXT("10")));
    struct {
        uint8_t how;
        uint64_t value;
        bool holds;
    } rows[] = {{LIBRADOS_CMPXATTR_OP_EQ, 10, true}, {LIBRADOS_CMPXATTR_OP_EQ, 9, false},
                {LIBRADOS_CMPXATTR_OP_NE, 9, true},  {LIBRADOS_CMPXATTR_OP_GT, 11, true},
                {LIBRADOS_CMPXATTR_OP_GT, 9, false}, {LIBRADOS_CMPXATTR_OP_LT, 9, true},
                {LIBRADOS_CMPXATTR_OP_LT, 11, false}, {LIBRADOS_CMPXATTR_OP_GTE, 10, true},
                {LIBRADOS_CMPXATTR_OP_LTE, 10, true}};
    for (auto &row : rows) {
        ObjectReadOperation op;
        op.cmpxattr("n", row.how, row.value);
        bufferlist out;
        EQ(cxx().operate("numbers", &op, &out), row.holds ? 1 : -ECANCELED);
    }
    OK(rados_setxattr(io, "numbers", "text", TEXT("ten")));
    ObjectReadOperation op;
    op.cmpxattr("text", LIBRADOS_CMPXATTR_OP_EQ, (uint64_t)10);
    bufferlist out;
    // What is no number counts as 0.
    EQ(cxx().operate("numbers", &op, &out), -ECANCELED);
}

CASE(map_headers) {
    bufferlist header;
    PUT("header", "");
    OK(cxx().omap_get_header("header", &header));
    EQ(header.length(), 0);
    OK(cxx().omap_set_header("header", text("first")));
    OK(cxx().omap_set("header", {{"k", text("v")}}));
    ObjectReadOperation op;
    int code;
    op.omap_get_header(&header, &code);
    OK(cxx().operate("header", &op, nullptr));
    HOLDS(header, "first");
    OK(cxx().omap_clear("header"));
    header.clear();
    OK(cxx().omap_get_header("header", &header));
    EQ(header.length(), 0);
}

CASE(listed_watchers) {
    struct Quiet : librados::WatchCtx2 {
        void handle_notify(uint64_t, uint64_t, uint64_t, bufferlist &) override {}
        void handle_error(uint64_t, int) override {}
    } quiet;
    PUT("watchers", "");
    uint64_t handle;
    OK(cxx().watch3("watchers", &handle, &quiet, 17));
    std::list<obj_watch_t> watchers;
    OK(cxx().list_watchers("watchers", &watchers));
    EQ(watchers.size(), 1);
    EQ(watchers.front().cookie, handle);
    EQ(watchers.front().timeout_seconds, 17);
    EQ(watchers.front().watcher_id, rados_get_instance_id(cluster));
    OK(cxx().unwatch2(handle));
    watchers.clear();
    OK(cxx().list_watchers("watchers", &watchers));
    EQ(watchers.size(), 0);
}
