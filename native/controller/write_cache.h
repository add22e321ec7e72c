// SPDX-License-Identifier: Apache-2.0
//
// The volatile write cache, kept backwards: the namespace holds the newest bytes, and here lie the durable ones of
// every block that was overwritten since the last flush. Losing power puts them back.
#ifndef TUTTI_CONTROLLER_WRITE_CACHE_H
#define TUTTI_CONTROLLER_WRITE_CACHE_H

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tutti::controller {

class Namespace;

class WriteCache {
  public:
    void enable(uint64_t capacity_bytes) { capacity_bytes_ = capacity_bytes; }
    bool enabled() const { return capacity_bytes_ != 0; }

    // Before blocks [lba, lba + count) are overwritten. 0 or an errno.
    int before_write(Namespace &ns, uint64_t lba, uint64_t count);
    // These blocks are durable as they stand.
    void settle(uint64_t lba, uint64_t count);
    void settle_all();
    // Puts the durable bytes back, but for blocks that are lucky. 0 or an errno.
    int lose(Namespace &ns, uint64_t seed, uint32_t survive_ppm);
    uint64_t size() const;

  private:
    mutable std::mutex mutex_;
    uint64_t capacity_bytes_ = 0;
    uint64_t bytes_ = 0;
    std::unordered_map<uint64_t, std::vector<uint8_t>> durable_; // by LBA: data, then metadata
};

} // namespace tutti::controller

#endif
