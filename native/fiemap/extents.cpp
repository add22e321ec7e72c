// SPDX-License-Identifier: Apache-2.0
#include "fiemap/extents.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

namespace tutti::fiemap {

namespace {

static_assert(sizeof(fiemap_extent) == 56 && sizeof(struct fiemap) == 32);

// Extents of the first call; files of a store have few. Then of each further call: 28 KiB.
constexpr uint32_t kFew = 16;
constexpr uint32_t kMany = 512;

struct Answer {
    alignas(8) unsigned char bytes[sizeof(struct fiemap) + kMany * sizeof(fiemap_extent)];

    struct fiemap *map() { return reinterpret_cast<struct fiemap *>(bytes); }
};

// Returns 0, an errno, or -1 when extents do not advance.
int append(const Teller &teller, bool sync, const tt_file &file, Extents *into) {
    Answer answer;
    uint64_t start = 0;
    for (uint32_t room = kFew; start < file.size; room = kMany) {
        struct fiemap head{};
        head.fm_start = start;
        head.fm_length = file.size - start;
        // Dirty pages once: later calls look at the same state.
        head.fm_flags = sync && start == 0 ? FIEMAP_FLAG_SYNC : 0;
        head.fm_extent_count = room;
        std::memcpy(answer.bytes, &head, sizeof head);
        const int error = teller.ask(file.fd, answer.map());
        if (error != 0)
            return error;
        std::memcpy(&head, answer.bytes, sizeof head);
        const uint32_t count = std::min(head.fm_mapped_extents, room);
        if (count == 0)
            break;
        const size_t before = into->size();
        into->resize(before + count);
        std::memcpy(into->data() + before, answer.bytes + sizeof head, count * sizeof(fiemap_extent));
        const fiemap_extent &last = into->back();
        if ((last.fe_flags & FIEMAP_EXTENT_LAST) != 0)
            break;
        if (last.fe_logical + last.fe_length <= start)
            return -1;
        start = last.fe_logical + last.fe_length;
    }
    return 0;
}

} // namespace

int Teller::ask(int fd, struct fiemap *map) const {
    if (call != nullptr)
        return call(context, fd, map);
    return ioctl(fd, FS_IOC_FIEMAP, map) == 0 ? 0 : errno;
}

void read_extents(const Teller &teller, bool sync, tt_file *file, Extents *into) {
    const size_t before = into->size();
    int error = 0;
    try {
        error = append(teller, sync, *file, into);
    } catch (const std::bad_alloc &) {
        error = ENOMEM;
    }
    if (error > 0)
        into->resize(before);
    file->stage = error > 0 ? TT_FILE_EXTENTS : error < 0 ? TT_FILE_STUCK : TT_FILE_READY;
    file->error = std::max(error, 0);
    file->extents = static_cast<uint32_t>(into->size() - before);
}

} // namespace tutti::fiemap
