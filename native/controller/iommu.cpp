// SPDX-License-Identifier: Apache-2.0
#include "controller/iommu.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <thread>

#include "controller/random.h"

namespace {

uint64_t align_up(uint64_t value, uint64_t to) { return (value + to - 1) & ~(to - 1); }

} // namespace

tt_iommu::tt_iommu(uint64_t seed) : seed_(seed) {
    // Reserved, not used: pages of the table come into being as mappings touch them.
    void *table = mmap(nullptr, kPages * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table != MAP_FAILED)
        table_ = static_cast<std::atomic<uint64_t> *>(table);
}

tt_iommu::~tt_iommu() {
    if (table_ != nullptr)
        munmap(static_cast<void *>(table_), kPages * sizeof(uint64_t));
}

std::vector<tt_iommu::Cluster> tt_iommu::spread(uint64_t len, uint64_t granule, uint32_t flags,
                                                uint64_t *bus_bytes) const {
    std::vector<Cluster> clusters;
    if ((flags & TT_MAP_CONTIGUOUS) != 0) {
        clusters.push_back({0, 0, len});
        *bus_bytes = len;
        return clusters;
    }
    tutti::Random random(seed_ ^ (mapped_ * 0x9E3779B97F4A7C15ULL));
    // Mostly short runs with a long one here and there: what a page allocator gives after some use.
    for (uint64_t at = 0; at < len;) {
        const uint64_t longest = random.below(8) == 0 ? 64 : 4;
        const uint64_t bytes = std::min((1 + random.below(longest)) * granule, len - at);
        clusters.push_back({at, 0, bytes});
        at += bytes;
    }
    std::vector<uint64_t> order(clusters.size());
    for (uint64_t i = 0; i < order.size(); ++i)
        order[i] = i;
    for (uint64_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.below(i)]);
    uint64_t bus = 0;
    for (const uint64_t i : order) {
        if (random.below(4) == 0)
            bus += granule; // a hole: reading past the end of a run is sometimes a fault
        clusters[i].bus_offset = bus;
        bus += clusters[i].len;
    }
    *bus_bytes = bus;
    return clusters;
}

bool tt_iommu::find_free(uint64_t from, uint64_t to, uint64_t bytes, uint64_t granule, uint64_t *bus) const {
    uint64_t at = align_up(from, granule);
    auto next = by_bus_.upper_bound(at);
    if (next != by_bus_.begin()) {
        const auto before = std::prev(next);
        at = std::max(at, align_up(before->first + before->second + kPageBytes, granule));
    }
    for (;; ++next) {
        const uint64_t end = next == by_bus_.end() ? to : std::min(to, next->first);
        // A page stays free on either side, so that running over the end of a mapping is always a fault.
        if (at < end && end - at > bytes + kPageBytes) {
            *bus = at;
            return true;
        }
        if (next == by_bus_.end() || next->first >= to)
            return false;
        at = std::max(at, align_up(next->first + next->second + kPageBytes, granule));
    }
}

bool tt_iommu::reserve(uint64_t bytes, uint64_t granule, uint64_t *bus) {
    if (!find_free(cursor_, kBusBytes, bytes, granule, bus) && !find_free(kPageBytes, kBusBytes, bytes, granule, bus))
        return false;
    cursor_ = *bus + bytes + kPageBytes;
    return true;
}

int tt_iommu::map(void *ptr, uint64_t len, uint64_t granule, uint32_t flags, tt_bus_run *runs, uint64_t capacity,
                  uint64_t *count) {
    const auto host = reinterpret_cast<uint64_t>(ptr);
    if (count == nullptr || granule < kPageBytes || (granule & (granule - 1)) != 0 || len == 0 || host == 0 ||
        ((host | len) & (granule - 1)) != 0 || host + len < host || (flags & kFlags) == 0 ||
        (flags & ~(kFlags | TT_MAP_CONTIGUOUS)) != 0)
        return EINVAL;
    const std::lock_guard lock(mutex_);
    const auto after = by_host_.lower_bound(host);
    if (after != by_host_.end() && after->first < host + len)
        return EEXIST;
    if (after != by_host_.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second.len > host)
            return EEXIST;
    }
    uint64_t bus_bytes = 0;
    const std::vector<Cluster> clusters = spread(len, granule, flags, &bus_bytes);
    uint64_t needed = 0;
    for (uint64_t i = 0; i < clusters.size(); ++i)
        if (i == 0 || clusters[i].bus_offset != clusters[i - 1].bus_offset + clusters[i - 1].len)
            ++needed;
    *count = needed;
    if (capacity < needed || runs == nullptr)
        return ENOSPC;
    uint64_t bus = 0;
    if (!reserve(bus_bytes, granule, &bus))
        return ENOMEM;
    by_bus_.emplace(bus, bus_bytes);
    by_host_.emplace(host, Mapping{len, bus, bus_bytes});
    ++mapped_;
    uint64_t filled = 0;
    for (uint64_t i = 0; i < clusters.size(); ++i) {
        const Cluster &cluster = clusters[i];
        for (uint64_t at = 0; at < cluster.len; at += kPageBytes)
            table_[(bus + cluster.bus_offset + at) >> kPageBits].store(
                (host + cluster.host_offset + at) | (flags & kFlags), std::memory_order_release);
        if (i > 0 && cluster.bus_offset == clusters[i - 1].bus_offset + clusters[i - 1].len)
            runs[filled - 1].len += cluster.len;
        else
            runs[filled++] = {kBusBase + bus + cluster.bus_offset, cluster.len};
    }
    return 0;
}

int tt_iommu::unmap(void *ptr) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = by_host_.find(reinterpret_cast<uint64_t>(ptr));
        if (found == by_host_.end())
            return ENOENT;
        const Mapping mapping = found->second;
        const uint64_t first = mapping.bus >> kPageBits;
        const uint64_t last = (mapping.bus + mapping.bus_bytes) >> kPageBits;
        for (uint64_t page = first; page < last; ++page)
            table_[page].store(0, std::memory_order_release);
        // Whole pages of the table go back to the system; they read as zero, that is as unmapped, at every moment.
        const uint64_t per_page = kPageBytes / sizeof(uint64_t);
        const uint64_t from = align_up(first, per_page);
        const uint64_t to = last & ~(per_page - 1);
        if (from < to)
            madvise(static_cast<void *>(table_ + from), (to - from) * sizeof(uint64_t), MADV_DONTNEED);
        by_host_.erase(found);
        by_bus_.erase(mapping.bus);
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint64_t epoch = epoch_.fetch_add(1, std::memory_order_seq_cst) + 1;
    const std::lock_guard lock(readers_mutex_);
    for (const tutti::IommuReader *reader : readers_)
        for (;;) {
            const uint64_t seen = reader->epoch.load(std::memory_order_seq_cst);
            if (seen == 0 || seen >= epoch)
                break;
            std::this_thread::yield();
        }
    return 0;
}

void tt_iommu::join(tutti::IommuReader *reader) {
    const std::lock_guard lock(readers_mutex_);
    readers_.push_back(reader);
}

void tt_iommu::leave(tutti::IommuReader *reader) {
    offline(*reader); // first: an unmap that waits for this reader holds the lock
    const std::lock_guard lock(readers_mutex_);
    std::erase(readers_, reader);
}

extern "C" {

tt_iommu *tt_iommu_create(uint64_t seed) {
    auto *iommu = new (std::nothrow) tt_iommu(seed);
    if (iommu != nullptr && !iommu->valid()) {
        delete iommu;
        return nullptr;
    }
    return iommu;
}

void tt_iommu_destroy(tt_iommu *iommu) { delete iommu; }

int tt_iommu_map(tt_iommu *iommu, void *ptr, uint64_t len, uint64_t granule, uint32_t flags, tt_bus_run *runs,
                 uint64_t capacity, uint64_t *count) {
    try {
        return iommu->map(ptr, len, granule, flags, runs, capacity, count);
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
}

int tt_iommu_unmap(tt_iommu *iommu, void *ptr) { return iommu->unmap(ptr); }

uint64_t tt_iommu_translate(tt_iommu *iommu, uint64_t bus, uint64_t len, uint32_t need, void **ptr) {
    return iommu->translate(bus, len, need, ptr);
}
}
