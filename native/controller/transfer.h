// SPDX-License-Identifier: Apache-2.0
//
// Where a command's bytes lie in host memory, and moving along them.
#ifndef TUTTI_CONTROLLER_TRANSFER_H
#define TUTTI_CONTROLLER_TRANSFER_H

#include <cstdint>
#include <vector>

#include "controller/memory_port.h"
#include "controller/status.h"
#include "controller/wire.h"

namespace tutti::controller {

// A bit bucket takes bytes and keeps none.
constexpr uint64_t kBitBucket = ~0ULL;

struct Segment {
    uint64_t bus; // or kBitBucket
    uint64_t len;
};

using Segments = std::vector<Segment>;

// Adds to the list, joined to its last segment where both touch.
void append_segment(Segments &segments, uint64_t bus, uint64_t len);

enum class Direction { to_host, from_host };

class Cursor {
  public:
    explicit Cursor(const Segments &segments) : segments_(segments) {}

    // Each moves `len` bytes and goes on by as many; false: an address is not mapped (or the list is too short).
    bool to_host(const Port &port, const void *src, uint64_t len);
    bool from_host(const Port &port, void *dst, uint64_t len);

  private:
    template <typename Move> bool advance(uint64_t len, Move move);

    const Segments &segments_;
    size_t index_ = 0;
    uint64_t offset_ = 0;
};

// PRP1 and PRP2 of `sqe` for a transfer of `len` bytes > 0.
Status parse_prp(const Port &port, uint64_t page_bytes, uint64_t prp1, uint64_t prp2, uint64_t len, Segments &segments);

// What may appear in an SGL, from Identify's SGLS.
struct SglRules {
    bool dword_granular = false;
    bool bit_bucket = false;
    bool excess_length = false;
};
SglRules sgl_rules(uint32_t sgls);

// The 16-byte descriptor, for a transfer of `len` bytes; `length_error` is what a sum that does not fit gives.
Status parse_sgl(const Port &port, const SglRules &rules, uint64_t low, uint64_t high, uint64_t len,
                 Direction direction, Status length_error, Segments &segments);

} // namespace tutti::controller

#endif
