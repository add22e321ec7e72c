// SPDX-License-Identifier: Apache-2.0
//
// The IOMMU: one flat table with an entry for every 4 KiB page of the bus window, read without a lock.
#ifndef TUTTI_CONTROLLER_IOMMU_H
#define TUTTI_CONTROLLER_IOMMU_H

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "tutti/port.h"

namespace tutti {

// Someone who keeps host pointers across calls (a port). Offline: keeps none.
struct IommuReader {
    std::atomic<uint64_t> epoch{0}; // 0: offline; else the epoch in which it came online
};

} // namespace tutti

struct tt_iommu {
  public:
    explicit tt_iommu(uint64_t seed);
    ~tt_iommu();
    tt_iommu(const tt_iommu &) = delete;
    tt_iommu &operator=(const tt_iommu &) = delete;

    bool valid() const { return table_ != nullptr; }
    int map(void *ptr, uint64_t len, uint64_t granule, uint32_t flags, tt_bus_run *runs, uint64_t capacity,
            uint64_t *count);
    int unmap(void *ptr);

    // One load for the first page and one for each further page of the piece.
    uint64_t translate(uint64_t bus, uint64_t len, uint32_t need, void **ptr) const {
        const uint64_t offset = bus - kBusBase;
        if (offset >= kBusBytes || len == 0)
            return 0;
        uint64_t page = offset >> kPageBits;
        const uint64_t entry = table_[page].load(std::memory_order_acquire);
        if ((entry & need) != need || (entry & kFlags) == 0)
            return 0;
        const uint64_t in_page = offset & (kPageBytes - 1);
        const uint64_t host = entry & ~kFlags;
        *ptr = reinterpret_cast<void *>(host + in_page);
        uint64_t reach = kPageBytes - in_page;
        uint64_t next_host = host + kPageBytes;
        while (reach < len && ++page < kPages) {
            const uint64_t next = table_[page].load(std::memory_order_acquire);
            if ((next & ~kFlags) != next_host || (next & need) != need || (next & kFlags) == 0)
                break;
            reach += kPageBytes;
            next_host += kPageBytes;
        }
        return reach < len ? reach : len;
    }

    void join(tutti::IommuReader *reader);
    void leave(tutti::IommuReader *reader);
    // From here on the reader may hold pointers; an unmap waits for it to go offline.
    void online(tutti::IommuReader &reader) const {
        reader.epoch.store(epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    static void offline(tutti::IommuReader &reader) { reader.epoch.store(0, std::memory_order_release); }

  private:
    static constexpr uint64_t kPageBits = 12;
    static constexpr uint64_t kPageBytes = 1ULL << kPageBits;
    static constexpr uint64_t kFlags = TT_MAP_READ | TT_MAP_WRITE;
    // A window that no host pointer of a process falls into, so that a mix-up of the two is a fault.
    static constexpr uint64_t kBusBase = 1ULL << 52;
    static constexpr uint64_t kBusBytes = 1ULL << 40;
    static constexpr uint64_t kPages = kBusBytes >> kPageBits;

    struct Mapping {
        uint64_t len;
        uint64_t bus;       // of the extent of the window that is set aside for the mapping
        uint64_t bus_bytes; // gaps counted
    };
    struct Cluster { // pages of the mapping that stay together on the bus
        uint64_t host_offset;
        uint64_t bus_offset;
        uint64_t len;
    };

    std::vector<Cluster> spread(uint64_t len, uint64_t granule, uint32_t flags, uint64_t *bus_bytes) const;
    bool reserve(uint64_t bytes, uint64_t granule, uint64_t *bus);
    bool find_free(uint64_t from, uint64_t to, uint64_t bytes, uint64_t granule, uint64_t *bus) const;

    std::atomic<uint64_t> *table_ = nullptr;
    const uint64_t seed_;
    std::mutex mutex_;
    std::map<uint64_t, Mapping> by_host_;
    std::map<uint64_t, uint64_t> by_bus_; // start -> bytes, within the window
    uint64_t mapped_ = 0;                 // mappings made so far; with the seed it decides how the next one is spread
    uint64_t cursor_ = kPageBytes;        // where to look for free bus space next: what was freed is reused late
    mutable std::atomic<uint64_t> epoch_{1};
    std::mutex readers_mutex_;
    std::vector<tutti::IommuReader *> readers_;
};

#endif
