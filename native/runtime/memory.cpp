// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace ttrt {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kDefaultLimit = size_t{8} << 30;
// Arenas lie at fixed addresses where possible, so that a replayed run sees the same pointers. ThreadSanitizer keeps
// most addresses for itself: there they are small, and lie where the kernel puts them.
#if defined(__SANITIZE_THREAD__)
constexpr bool kFixedArenas = false;
constexpr size_t kArenaSize = size_t{16} << 30;
#else
constexpr bool kFixedArenas = true;
constexpr size_t kArenaSize = size_t{256} << 30;
#endif
constexpr uintptr_t kArenaHint = uintptr_t{0x2000} << 32;
// Fresh memory holds nothing a program may rely on. Small allocations show it; large ones keep the kernel's zeroes,
// for filling them would cost their pages.
constexpr size_t kPoisonUpTo = size_t{1} << 20;
constexpr int kPoison = 0xa5;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

std::string hex(uintptr_t address) {
    char text[24];
    const int length = snprintf(text, sizeof text, "0x%zx", static_cast<size_t>(address));
    return {text, static_cast<size_t>(length)};
}

// True when every page of the range is mapped in this process.
bool is_mapped(uintptr_t base, size_t size) {
    const uintptr_t first = base & ~(kPage - 1);
    const size_t length = round_up(base + size - first, kPage);
    std::vector<unsigned char> present(length / kPage);
    return mincore(reinterpret_cast<void *>(first), length, present.data()) == 0;
}

void lock_pages(Range &range) {
    range.locked = mlock(reinterpret_cast<void *>(range.base), range.size) == 0;
    range.refused = range.locked ? 0 : errno;
}

} // namespace

bool Range::mapped() const {
    switch (kind) {
    case Kind::device:
    case Kind::managed:
        return true;
    case Kind::host:
        return (flags & ttrtHostAllocMapped) != 0;
    case Kind::registered:
        return (flags & ttrtHostRegisterMapped) != 0;
    }
    return false;
}

Arena::~Arena() {
    if (size_ != 0) {
        munmap(reinterpret_cast<void *>(base_), size_);
    }
}

bool Arena::reserve(uintptr_t hint) {
    for (size_t size = kArenaSize; size >= (size_t{1} << 30); size /= 4) {
        for (const bool fixed : {true, false}) {
            if (fixed && !kFixedArenas) {
                continue;
            }
            void *at = mmap(reinterpret_cast<void *>(fixed ? hint : 0), size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (fixed ? MAP_FIXED_NOREPLACE : 0), -1, 0);
            if (at != MAP_FAILED) {
                base_ = reinterpret_cast<uintptr_t>(at);
                size_ = size;
                next_ = base_;
                return true;
            }
        }
    }
    return false;
}

uintptr_t Arena::find_gap(size_t bytes, size_t alignment, const std::map<uintptr_t, Range> &live) {
    const uintptr_t end = base_ + size_;
    // Fresh addresses first: an address that was freed stays dead for as long as possible.
    const uintptr_t fresh = round_up(next_, alignment);
    if (fresh + bytes + kPage <= end) {
        return fresh;
    }
    uintptr_t candidate = round_up(base_, alignment);
    for (auto it = live.lower_bound(base_); it != live.end() && it->first < end; ++it) {
        if (candidate + bytes + kPage <= it->first) {
            return candidate;
        }
        candidate = round_up(it->first + it->second.reserved + kPage, alignment);
    }
    return candidate + bytes + kPage <= end ? candidate : 0;
}

uintptr_t Arena::take(size_t bytes, const std::map<uintptr_t, Range> &live) {
    const bool huge = bytes >= kHugePage;
    const uintptr_t base = find_gap(bytes, huge ? kHugePage : kPage, live);
    if (base == 0 || mprotect(reinterpret_cast<void *>(base), bytes, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    if (huge) {
        madvise(reinterpret_cast<void *>(base), bytes, MADV_HUGEPAGE); // only speed: a refusal changes nothing
    }
    if (base >= next_) {
        next_ = base + bytes + kPage;
    }
    return base;
}

void Arena::give(uintptr_t base, size_t bytes) {
    mmap(reinterpret_cast<void *>(base), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
}

AddressSpace::AddressSpace(int device_count)
    : arenas_(static_cast<size_t>(device_count) + 1),
      accounts_(static_cast<size_t>(device_count), Account{0, kDefaultLimit}) {
    for (size_t i = 0; i < arenas_.size(); ++i) {
        if (!arenas_[i].reserve(kArenaHint + i * kArenaSize)) {
            throw std::bad_alloc();
        }
    }
}

Status AddressSpace::allocate(Kind kind, int device, size_t size, unsigned flags, void **ptr) {
    if (size > kArenaSize) {
        return fail(ttrtErrorMemoryAllocation, size, " bytes asked for, more than the address space");
    }
    Range range;
    range.size = size;
    range.reserved = round_up(size, kPage);
    range.kind = kind;
    range.device = device;
    range.flags = flags;

    const std::unique_lock lock(mutex_);
    Account &account = accounts_[static_cast<size_t>(device)];
    if (range.on_device() && range.reserved > account.limit - std::min(account.used, account.limit)) {
        return fail(ttrtErrorMemoryAllocation, size, " bytes asked for, ",
                    account.limit - std::min(account.used, account.limit), " of ", account.limit,
                    " are free on device ", device);
    }
    range.base = arena(kind, device).take(range.reserved, live_);
    if (range.base == 0) {
        return fail(ttrtErrorMemoryAllocation, size, " bytes asked for: ", strerror(errno));
    }
    if (kind == Kind::host) {
        lock_pages(range);
    }
    if (size <= kPoisonUpTo) {
        memset(reinterpret_cast<void *>(range.base), kPoison, range.reserved);
    }
    if (range.on_device()) {
        account.used += range.reserved;
    }
    live_.emplace(range.base, range);
    *ptr = reinterpret_cast<void *>(range.base);
    return success();
}

Status AddressSpace::register_host(int device, void *ptr, size_t size, unsigned flags) {
    Range range;
    range.base = reinterpret_cast<uintptr_t>(ptr);
    range.size = size;
    range.reserved = size;
    range.kind = Kind::registered;
    range.device = device;
    range.flags = flags;
    if (range.base + size < range.base || !is_mapped(range.base, size)) {
        return fail(ttrtErrorInvalidValue, "[", hex(range.base), ", +", size, ") is not wholly mapped in this process");
    }
    const std::unique_lock lock(mutex_);
    auto next = live_.lower_bound(range.base);
    const bool overlaps_next = next != live_.end() && next->first < range.end();
    const bool overlaps_previous = next != live_.begin() && std::prev(next)->second.end() > range.base;
    if (overlaps_next || overlaps_previous) {
        return fail(ttrtErrorHostMemoryAlreadyRegistered, "[", hex(range.base), ", +", size,
                    ") overlaps memory that is already known");
    }
    if ((flags & ttrtHostRegisterIoMemory) == 0) {
        lock_pages(range);
    }
    live_.emplace(range.base, range);
    return success();
}

Status AddressSpace::begin_release(void *ptr, const std::function<bool(const Range &)> &is, Range *range) {
    const auto base = reinterpret_cast<uintptr_t>(ptr);
    const std::unique_lock lock(mutex_);
    const auto it = live_.find(base);
    if (it != live_.end() && is(it->second) && !it->second.releasing) {
        it->second.releasing = true;
        *range = it->second;
        return success();
    }
    const Range *around = locate(base);
    if (around != nullptr && around->base != base) {
        return fail(ttrtErrorInvalidValue, hex(base), " is inside an allocation, not its beginning");
    }
    if (it != live_.end() && !it->second.releasing) {
        return fail(ttrtErrorInvalidValue, hex(base), " is memory of another kind");
    }
    for (const Arena &arena : arenas_) {
        if (arena.contains(base)) {
            return fail(ttrtErrorInvalidValue, hex(base), " was already freed, or never allocated");
        }
    }
    return fail(ttrtErrorInvalidValue, hex(base), " is no memory of this runtime");
}

void AddressSpace::finish_release(const Range &range) {
    const std::unique_lock lock(mutex_);
    if (range.locked) {
        munlock(reinterpret_cast<void *>(range.base), range.size);
    }
    if (range.kind != Kind::registered) {
        arena(range.kind, range.device).give(range.base, range.reserved);
    }
    if (range.on_device()) {
        accounts_[static_cast<size_t>(range.device)].used -= range.reserved;
    }
    live_.erase(range.base);
}

const Range *AddressSpace::locate(uintptr_t address) const {
    auto it = live_.upper_bound(address);
    if (it == live_.begin()) {
        return nullptr;
    }
    const Range &range = std::prev(it)->second;
    return address < range.end() ? &range : nullptr;
}

Place AddressSpace::find(const void *ptr, size_t size) const {
    const auto address = reinterpret_cast<uintptr_t>(ptr);
    const std::shared_lock lock(mutex_);
    if (const Range *range = locate(address); range != nullptr && !range->releasing) {
        const bool inside = size <= range->end() - address;
        return {inside ? Place::What::live : Place::What::outside, *range, range->device};
    }
    for (size_t i = 0; i < arenas_.size(); ++i) {
        if (arenas_[i].contains(address)) {
            return {Place::What::freed, {}, i < accounts_.size() ? static_cast<int>(i) : -1};
        }
    }
    return {};
}

std::vector<Range> AddressSpace::ranges(const std::function<bool(const Range &)> &is) const {
    const std::shared_lock lock(mutex_);
    std::vector<Range> found;
    for (const auto &[base, range] : live_) {
        if (is(range)) {
            found.push_back(range);
        }
    }
    return found;
}

Status AddressSpace::set_limit(int device, size_t bytes) {
    const std::unique_lock lock(mutex_);
    Account &account = accounts_[static_cast<size_t>(device)];
    if (bytes < account.used) {
        return fail(ttrtErrorInvalidValue, account.used, " bytes are in use on device ", device);
    }
    account.limit = bytes;
    return success();
}

void AddressSpace::info(int device, size_t *free_bytes, size_t *total_bytes) const {
    const std::shared_lock lock(mutex_);
    const Account &account = accounts_[static_cast<size_t>(device)];
    *free_bytes = account.limit - account.used;
    *total_bytes = account.limit;
}

} // namespace ttrt
