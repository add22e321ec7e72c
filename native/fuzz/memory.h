// SPDX-License-Identifier: Apache-2.0
//
// Host memory of a few pages, and what the controller may do with each.
#ifndef TUTTI_FUZZ_MEMORY_H
#define TUTTI_FUZZ_MEMORY_H

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tutti/port.h"

namespace tutti::fuzz {

class Memory {
  public:
    static constexpr uint64_t kPage = 4096;
    static constexpr uint64_t kPages = 32;
    // Far from any pointer of this process: an address that was mixed up is not mapped.
    static constexpr uint64_t kBase = 1ULL << 52;

    // 24 pages for both directions, 2 that can only be read, 2 that can only be written, 4 that are not there.
    Memory() : bytes_(kPages * kPage) {
        for (uint64_t page = 0; page < kPages; ++page)
            flags_[page] = page < 24   ? TT_MAP_READ | TT_MAP_WRITE
                           : page < 26 ? uint32_t{TT_MAP_READ}
                           : page < 28 ? uint32_t{TT_MAP_WRITE}
                                       : 0;
    }

    static uint64_t bus(uint64_t page) { return kBase + page % kPages * kPage; }
    void grant(uint64_t page, uint32_t flags) { flags_[page % kPages] = flags; }

    // The whole range or nothing.
    bool allowed(uint64_t address, uint64_t len, uint32_t need) const {
        const uint64_t offset = address - kBase;
        if (len == 0 || offset >= kPages * kPage || len > kPages * kPage - offset)
            return false;
        for (uint64_t page = offset / kPage; page <= (offset + len - 1) / kPage; ++page)
            if ((flags_[page] & need) != need)
                return false;
        return true;
    }
    // The host's own access, which no grant binds; false: not in this memory.
    bool poke(uint64_t address, const void *src, uint64_t len) {
        if (!within(address, len))
            return false;
        std::memcpy(&bytes_[address - kBase], src, len);
        return true;
    }
    bool peek(uint64_t address, void *dst, uint64_t len) const {
        if (!within(address, len))
            return false;
        std::memcpy(dst, &bytes_[address - kBase], len);
        return true;
    }

  private:
    bool within(uint64_t address, uint64_t len) const {
        const uint64_t offset = address - kBase;
        return offset < bytes_.size() && len <= bytes_.size() - offset;
    }

    std::vector<uint8_t> bytes_;
    std::array<uint32_t, kPages> flags_{};
};

} // namespace tutti::fuzz

#endif
