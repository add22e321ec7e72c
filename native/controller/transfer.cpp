// SPDX-License-Identifier: Apache-2.0
#include "controller/transfer.h"

#include <algorithm>

namespace tutti::controller {

void append_segment(Segments &segments, uint64_t bus, uint64_t len) {
    if (!segments.empty()) {
        Segment &last = segments.back();
        const bool bucket = bus == kBitBucket;
        if (bucket == (last.bus == kBitBucket) && (bucket || last.bus + last.len == bus)) {
            last.len += len;
            return;
        }
    }
    segments.push_back({bus, len});
}

template <typename Move> bool Cursor::advance(uint64_t len, Move move) {
    uint64_t done = 0;
    while (done < len) {
        if (index_ == segments_.size())
            return false;
        const Segment &segment = segments_[index_];
        const uint64_t bytes = std::min(len - done, segment.len - offset_);
        if (segment.bus != kBitBucket && !move(segment.bus + offset_, done, bytes))
            return false;
        done += bytes;
        offset_ += bytes;
        if (offset_ == segment.len) {
            ++index_;
            offset_ = 0;
        }
    }
    return true;
}

bool Cursor::to_host(const Port &port, const void *src, uint64_t len) {
    return advance(len, [&](uint64_t bus, uint64_t at, uint64_t bytes) {
        return port.write(bus, static_cast<const char *>(src) + at, bytes);
    });
}

bool Cursor::from_host(const Port &port, void *dst, uint64_t len) {
    return advance(len, [&](uint64_t bus, uint64_t at, uint64_t bytes) {
        return port.read(bus, static_cast<char *>(dst) + at, bytes);
    });
}

} // namespace tutti::controller
