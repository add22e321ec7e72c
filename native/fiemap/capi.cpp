// SPDX-License-Identifier: Apache-2.0
//
// The C ABI, and the threads that share the files of a call.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "fiemap/extents.h"
#include "fiemap/files.h"

struct tt_extent_list {
    tutti::fiemap::Extents extents;
};

namespace {

using tutti::fiemap::Extents;

static_assert(sizeof(tt_file) == 80 && sizeof(tt_file_id) == 16);

// Files for which another thread pays, and files that a thread takes at a time.
constexpr uint32_t kEach = 64;
constexpr uint32_t kAtOnce = 16;

// Hands every file to `work` with the extents of whoever works, then puts those into the order of the files.
// Throws std::bad_alloc.
template <typename Work>
void share(std::span<tt_file> files, uint32_t threads, tt_extent_list *list, const Work &work) {
    const auto count = static_cast<uint32_t>(files.size());
    const uint32_t crew = std::clamp(count / kEach, 1u, std::max(threads, 1u));
    std::vector<Extents> found(crew);
    std::vector<uint32_t> finder(crew > 1 ? count : 0);
    std::atomic<uint32_t> next{0};
    const auto run = [&](uint32_t me) {
        for (uint32_t first; (first = next.fetch_add(kAtOnce, std::memory_order_relaxed)) < count;) {
            for (uint32_t at = first; at < std::min(first + kAtOnce, count); ++at) {
                work(&files[at], &found[me]);
                if (crew > 1)
                    finder[at] = me;
            }
        }
    };
    {
        std::vector<std::jthread> others;
        others.reserve(crew - 1);
        try {
            for (uint32_t me = 1; me < crew; ++me)
                others.emplace_back(run, me);
        } catch (const std::system_error &) {
            // The system gives no more threads: those that there are do it.
        }
        run(0);
    }
    Extents &all = list->extents;
    if (crew == 1)
        all = std::move(found[0]);
    else
        all.clear();
    std::vector<size_t> taken(crew);
    uint64_t first = 0;
    for (uint32_t at = 0; at < count; ++at) {
        tt_file &file = files[at];
        if (crew > 1) {
            const uint32_t who = finder[at];
            const auto begin = found[who].begin() + static_cast<std::ptrdiff_t>(taken[who]);
            all.insert(all.end(), begin, begin + file.extents);
            taken[who] += file.extents;
        }
        file.first_extent = first;
        first += file.extents;
    }
}

} // namespace

extern "C" {

tt_extent_list *tt_extent_list_new(void) { return new (std::nothrow) tt_extent_list; }

void tt_extent_list_free(tt_extent_list *list) { delete list; }

const void *tt_extent_list_data(const tt_extent_list *list, uint64_t *count) {
    *count = list->extents.size();
    return list->extents.data();
}

int32_t tt_files_open(const char *paths, tt_file *files, uint32_t count, const tt_file_id *known, uint32_t known_count,
                      uint32_t threads, tt_extent_list *list) {
    const std::span<tt_file> all(files, count);
    const std::span<const tt_file_id> skipped(known, known_count);
    for (tt_file &file : all) {
        const uint64_t path = file.path;
        const uint32_t writable = file.writable;
        file = {};
        file.path = path;
        file.writable = writable;
        file.fd = -1;
    }
    try {
        share(all, threads, list, [&](tt_file *file, Extents *into) {
            tutti::fiemap::open_file(paths + file->path, skipped, file);
            if (file->stage == TT_FILE_READY)
                tutti::fiemap::read_extents({}, true, file, into);
        });
    } catch (const std::bad_alloc &) {
        std::for_each(all.begin(), all.end(), [](tt_file &file) { tutti::fiemap::close_file(&file); });
        return ENOMEM;
    }
    return 0;
}

int32_t tt_files_read_extents(tt_file *files, uint32_t count, uint32_t sync, uint32_t threads, tt_fiemap_call call,
                              void *context, tt_extent_list *list) {
    const tutti::fiemap::Teller teller{call, context};
    try {
        share(std::span(files, count), threads, list,
              [&](tt_file *file, Extents *into) { tutti::fiemap::read_extents(teller, sync != 0, file, into); });
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
    return 0;
}

} // extern "C"
