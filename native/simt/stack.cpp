/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/stack.h"

#include "simt/sanitizer.h"
#include "tutti/host_device.h"

#include <atomic>
#include <sys/mman.h>
#include <unistd.h>

namespace tutti::simt {
namespace {

constexpr std::size_t kStackBytes = TT_HOST_STACK_BYTES;
constexpr std::size_t kSlabStacks = 64;

/* A guard page splits a mapping in two, and the kernel allows 65,530 mappings a process by default. Beyond this many
 * single guards a slab gets one guard, below its lowest stack. */
constexpr std::size_t kSingleGuards = 16384;
std::atomic<std::size_t> single_guards{0};

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void *reserve(std::size_t bytes) {
    void *map =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (map == MAP_FAILED)
        return nullptr;
    /* A huge page would commit sixteen stacks at the first touch of one. */
    madvise(map, bytes, MADV_NOHUGEPAGE);
    return map;
}

void clean(const Stack &stack) {
#if defined(TUTTI_ASAN)
    /* A lane that was ended from outside leaves its red zones behind. */
    __asan_unpoison_memory_region(stack.base, static_cast<std::size_t>(stack.top - stack.base));
#else
    static_cast<void>(stack);
#endif
}

} // namespace

StackPool::~StackPool() {
    for (const Slab &slab : slabs_)
        munmap(slab.address, slab.bytes);
}

bool StackPool::grow() {
    /* One stack more than used: its room pays for the alignment and for the slab's own guard. */
    const std::size_t bytes = (kSlabStacks + 1) * kStackBytes;
    void *map = reserve(bytes);
    if (map == nullptr)
        return false;
    slabs_.push_back({map, bytes});
    const std::size_t page = page_bytes();
    const auto start = reinterpret_cast<std::uintptr_t>(map);
    const std::uintptr_t first = (start + page + kStackBytes - 1) & ~static_cast<std::uintptr_t>(kStackBytes - 1);
    const bool single = single_guards.fetch_add(kSlabStacks) < kSingleGuards;
    if (mprotect(reinterpret_cast<void *>(first - page), page, PROT_NONE) != 0)
        return false;
    const std::size_t count = first + kSlabStacks * kStackBytes <= start + bytes ? kSlabStacks : kSlabStacks - 1;
    for (std::size_t i = 0; i < count; ++i) {
        auto *bottom = reinterpret_cast<std::byte *>(first + i * kStackBytes);
        if (single && mprotect(bottom, page, PROT_NONE) != 0)
            return false;
        free_.push_back({bottom + page, bottom + kStackBytes});
    }
    return true;
}

bool StackPool::acquire(std::size_t count, std::vector<Stack> &out) {
    const std::lock_guard lock(mutex_);
    while (free_.size() < count)
        if (!grow())
            return false;
    out.insert(out.end(), free_.end() - static_cast<std::ptrdiff_t>(count), free_.end());
    free_.resize(free_.size() - count);
    return true;
}

void StackPool::release(const std::vector<Stack> &stacks) {
    for (const Stack &stack : stacks)
        clean(stack);
    const std::lock_guard lock(mutex_);
    free_.insert(free_.end(), stacks.begin(), stacks.end());
}

OwnStack::OwnStack(std::size_t bytes) : bytes_(bytes) {
    map_ = reserve(bytes);
    if (map_ == nullptr)
        return;
    auto *bottom = static_cast<std::byte *>(map_);
    if (mprotect(bottom, page_bytes(), PROT_NONE) != 0) {
        munmap(map_, bytes_);
        map_ = nullptr;
        return;
    }
    stack_ = {bottom + page_bytes(), bottom + bytes};
}

OwnStack::~OwnStack() {
    if (map_ == nullptr)
        return;
    clean(stack_);
    munmap(map_, bytes_);
}

} // namespace tutti::simt
