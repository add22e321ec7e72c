// SPDX-License-Identifier: Apache-2.0
#include "controller/write_cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "controller/namespace.h"
#include "controller/random.h"

namespace tutti::controller {

namespace {

// Direct I/O needs aligned memory: one block at a time goes through this.
class BlockBuffer {
  public:
    explicit BlockBuffer(const Namespace &ns)
        : bytes_(std::aligned_alloc(4096, std::max<uint64_t>(4096, ns.block_bytes())), std::free) {
        if (bytes_ == nullptr)
            throw std::bad_alloc();
    }
    uint8_t *data() const { return static_cast<uint8_t *>(bytes_.get()); }

  private:
    std::unique_ptr<void, decltype(&std::free)> bytes_;
};

} // namespace

int WriteCache::before_write(Namespace &ns, uint64_t lba, uint64_t count) {
    const uint64_t each = ns.block_bytes() + ns.metadata_bytes();
    const std::lock_guard lock(mutex_);
    if (count > capacity_bytes_ / each || bytes_ + count * each > capacity_bytes_) {
        // No room: the cache writes back what it has, as a drive may at any time. What is too large for it goes
        // through.
        if (const int error = ns.sync(); error != 0)
            return error;
        durable_.clear();
        bytes_ = 0;
        if (count > capacity_bytes_ / each)
            return 0;
    }
    const BlockBuffer buffer(ns);
    for (uint64_t at = lba; at < lba + count; ++at) {
        if (durable_.contains(at))
            continue;
        std::vector<uint8_t> block(each);
        if (const int error = ns.read(Region::data, at << ns.lba_shift(), buffer.data(), ns.block_bytes()); error != 0)
            return error;
        std::memcpy(block.data(), buffer.data(), ns.block_bytes());
        if (ns.metadata_bytes() != 0)
            if (const int error = ns.read(Region::metadata, at * ns.metadata_bytes(), block.data() + ns.block_bytes(),
                                          ns.metadata_bytes());
                error != 0)
                return error;
        durable_.emplace(at, std::move(block));
        bytes_ += each;
    }
    return 0;
}

void WriteCache::settle(uint64_t lba, uint64_t count) {
    const std::lock_guard lock(mutex_);
    const auto drop = [this](auto at) {
        bytes_ -= at->second.size();
        return durable_.erase(at);
    };
    if (count < durable_.size()) {
        for (uint64_t at = lba; at < lba + count; ++at)
            if (const auto found = durable_.find(at); found != durable_.end())
                drop(found);
    } else {
        for (auto at = durable_.begin(); at != durable_.end();)
            at = at->first - lba < count ? drop(at) : std::next(at);
    }
}

void WriteCache::settle_all() {
    const std::lock_guard lock(mutex_);
    durable_.clear();
    bytes_ = 0;
}

int WriteCache::lose(Namespace &ns, uint64_t seed, uint32_t survive_ppm) {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> order;
    for (const auto &entry : durable_)
        order.push_back(entry.first);
    std::sort(order.begin(), order.end()); // the same seed loses the same blocks
    Random random(seed);
    const BlockBuffer buffer(ns);
    int result = 0;
    for (const uint64_t lba : order) {
        if (random.chance(survive_ppm))
            continue;
        const std::vector<uint8_t> &block = durable_.at(lba);
        std::memcpy(buffer.data(), block.data(), ns.block_bytes());
        if (const int error = ns.write(Region::data, lba << ns.lba_shift(), buffer.data(), ns.block_bytes());
            error != 0)
            result = error;
        if (ns.metadata_bytes() != 0)
            if (const int error = ns.write(Region::metadata, lba * ns.metadata_bytes(), block.data() + ns.block_bytes(),
                                           ns.metadata_bytes());
                error != 0)
                result = error;
    }
    durable_.clear();
    bytes_ = 0;
    return result;
}

uint64_t WriteCache::size() const {
    const std::lock_guard lock(mutex_);
    return durable_.size();
}

} // namespace tutti::controller
