// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "controller/transfer.h"

namespace tutti::controller {

namespace {

constexpr uint64_t kEntriesAtOnce = 64;

// A list: it may begin inside a page, ends with its page, and its last entry names the next page if entries remain.
Status parse_list(const Port &port, uint64_t page_bytes, uint64_t list, uint64_t left, Segments &segments) {
    if (list % 8 != 0)
        return status::kPrpOffset;
    uint64_t entries[kEntriesAtOnce];
    while (left > 0) {
        const uint64_t pages_left = (left + page_bytes - 1) / page_bytes;
        const uint64_t room = (page_bytes - list % page_bytes) / 8;
        const uint64_t here = std::min(pages_left, room);
        const bool chained = pages_left > room;
        for (uint64_t at = 0; at < here;) {
            const uint64_t count = std::min(kEntriesAtOnce, here - at);
            if (!port.read(list + at * 8, entries, count * 8))
                return status::kDataTransfer;
            for (uint64_t i = 0; i < count; ++i) {
                const uint64_t entry = entries[i];
                if (entry == 0)
                    return status::kInvalidField;
                if (entry % page_bytes != 0)
                    return status::kPrpOffset;
                if (chained && at + i == here - 1) {
                    list = entry;
                    break;
                }
                const uint64_t bytes = std::min(left, page_bytes);
                append_segment(segments, entry, bytes);
                left -= bytes;
            }
            at += count;
        }
    }
    return status::kSuccess;
}

} // namespace

Status parse_prp(const Port &port, uint64_t page_bytes, uint64_t prp1, uint64_t prp2, uint64_t len,
                 Segments &segments) {
    if (prp1 % 4 != 0)
        return status::kPrpOffset;
    if (prp1 == 0)
        return status::kInvalidField;
    const uint64_t first = std::min(len, page_bytes - prp1 % page_bytes);
    append_segment(segments, prp1, first);
    const uint64_t left = len - first;
    if (left == 0)
        return status::kSuccess;
    if (prp2 == 0)
        return status::kInvalidField;
    if (left > page_bytes)
        return parse_list(port, page_bytes, prp2, left, segments);
    if (prp2 % page_bytes != 0)
        return status::kPrpOffset;
    append_segment(segments, prp2, left);
    return status::kSuccess;
}

} // namespace tutti::controller
