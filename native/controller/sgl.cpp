// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "controller/transfer.h"

namespace tutti::controller {

namespace {

struct Descriptor {
    uint64_t address;
    uint64_t tail; // length 31:0, reserved 55:32, subtype 59:56, type 63:60

    uint64_t length() const { return tail & 0xFFFFFFFF; }
    uint32_t type() const { return static_cast<uint32_t>(tail >> 60); }
    uint32_t subtype() const { return static_cast<uint32_t>(tail >> 56) & 0xF; }
};
static_assert(sizeof(Descriptor) == 16);

constexpr uint32_t kDataBlock = 0, kBucket = 1, kSegment = 2, kLastSegment = 3;
constexpr uint64_t kDescriptorsAtOnce = 32;
// Descriptors that a command may use in all: what keeps a chain that bites its own tail from going on for ever.
constexpr uint64_t kDescriptorLimit = 1 << 17;

class Parser {
  public:
    Parser(const Port &port, const SglRules &rules, uint64_t len, Direction direction, Status length_error,
           Segments &segments)
        : port_(port), rules_(rules), left_(len), direction_(direction), length_error_(length_error),
          segments_(segments) {}

    Status parse(const Descriptor &first) {
        if (Status bad = check_type(first); bad != status::kSuccess)
            return bad;
        if (!is_segment(first)) {
            const Status bad = data(first);
            return bad != status::kSuccess ? bad : finish();
        }
        Descriptor segment = first;
        for (bool more = true; more;)
            if (Status bad = walk(segment, &more); bad != status::kSuccess)
                return bad;
        return finish();
    }

  private:
    static bool is_segment(const Descriptor &descriptor) {
        return descriptor.type() == kSegment || descriptor.type() == kLastSegment;
    }

    Status check_type(const Descriptor &descriptor) const {
        const bool known = descriptor.type() == kDataBlock || is_segment(descriptor) ||
                           (descriptor.type() == kBucket && rules_.bit_bucket);
        return known && descriptor.subtype() == 0 ? status::kSuccess : status::kSglType;
    }

    // One segment; on return *segment is the next one if *more.
    Status walk(Descriptor &segment, bool *more) {
        const bool last = segment.type() == kLastSegment;
        if (segment.length() == 0 || segment.length() % 16 != 0 || segment.address % 8 != 0)
            return status::kSglSegment;
        const uint64_t count = segment.length() / 16;
        used_ += count;
        if (used_ > kDescriptorLimit)
            return status::kSglCount;
        const uint64_t base = segment.address;
        *more = false;
        Descriptor entries[kDescriptorsAtOnce];
        for (uint64_t at = 0; at < count;) {
            const uint64_t here = std::min(kDescriptorsAtOnce, count - at);
            if (!port_.read(base + at * 16, entries, here * 16))
                return status::kDataTransfer;
            for (uint64_t i = 0; i < here; ++i) {
                const Descriptor &entry = entries[i];
                const bool final = at + i == count - 1;
                if (Status bad = check_type(entry); bad != status::kSuccess)
                    return bad;
                if (is_segment(entry)) {
                    if (last)
                        return status::kSglSegment;
                    if (!final)
                        return status::kSglCount;
                    segment = entry;
                    *more = true;
                    break;
                }
                if (final && !last)
                    return status::kSglSegment; // a segment that says it is not the last, and names no next
                if (Status bad = data(entry); bad != status::kSuccess)
                    return bad;
            }
            at += here;
        }
        return status::kSuccess;
    }

    Status data(const Descriptor &entry) {
        const uint64_t length = entry.length();
        const bool bucket = entry.type() == kBucket;
        if (rules_.dword_granular && (length % 4 != 0 || (!bucket && entry.address % 4 != 0)))
            return status::kSglGranularity;
        if (!bucket && entry.address + length < entry.address)
            return status::kSglDataLength;
        // A bucket is where data from the controller can be left; on the way to the controller it is passed over.
        if (length == 0 || (bucket && direction_ == Direction::from_host))
            return status::kSuccess;
        if (length > left_ && !rules_.excess_length)
            return length_error_;
        const uint64_t bytes = std::min(length, left_);
        if (bytes > 0)
            append_segment(segments_, bucket ? kBitBucket : entry.address, bytes);
        left_ -= bytes;
        return status::kSuccess;
    }

    Status finish() const { return left_ == 0 ? status::kSuccess : length_error_; }

    const Port &port_;
    const SglRules &rules_;
    uint64_t left_;
    const Direction direction_;
    const Status length_error_;
    Segments &segments_;
    uint64_t used_ = 0;
};

} // namespace

SglRules sgl_rules(uint32_t sgls) { return {(sgls & 3) == 2, (sgls >> 16 & 1) != 0, (sgls >> 18 & 1) != 0}; }

Status parse_sgl(const Port &port, const SglRules &rules, uint64_t low, uint64_t high, uint64_t len,
                 Direction direction, Status length_error, Segments &segments) {
    return Parser(port, rules, len, direction, length_error, segments).parse({low, high});
}

} // namespace tutti::controller
