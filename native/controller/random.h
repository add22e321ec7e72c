// SPDX-License-Identifier: Apache-2.0
//
// A small seeded generator (splitmix64): the same seed gives the same run on every machine.
#ifndef TUTTI_CONTROLLER_RANDOM_H
#define TUTTI_CONTROLLER_RANDOM_H

#include <cstdint>

namespace tutti {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        state_ += 0x9E3779B97F4A7C15ULL;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }

    // In [0, bound); bound > 0. The bias of the remainder does not matter for bounds far below 2^64.
    uint64_t below(uint64_t bound) { return next() % bound; }

    // True with a probability of `ppm` parts in a million.
    bool chance(uint32_t ppm) { return ppm != 0 && below(1'000'000) < ppm; }

  private:
    uint64_t state_;
};

} // namespace tutti

#endif
