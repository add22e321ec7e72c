// SPDX-License-Identifier: Apache-2.0
#ifndef TUTTI_FUZZ_INPUT_H
#define TUTTI_FUZZ_INPUT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti::fuzz {

// What must hold does not: end as a crash does, with the reason.
[[noreturn]] inline void broken(const char *what) {
    std::fprintf(stderr, "INVARIANT BROKEN: %s\n", what);
    std::abort();
}
inline void must(bool holds, const char *what) {
    if (!holds)
        broken(what);
}

// The input, read from its front, little-endian. Past its end everything is zero.
class Input {
  public:
    Input(const uint8_t *data, size_t size) : at_(data), left_(size) {}

    bool empty() const { return left_ == 0; }
    void bytes(void *out, size_t len) {
        const size_t here = std::min(len, left_);
        std::memset(out, 0, len);
        if (here != 0)
            std::memcpy(out, at_, here);
        at_ += here;
        left_ -= here;
    }
    template <typename Word> Word take() {
        Word value{};
        bytes(&value, sizeof value);
        return value;
    }
    uint8_t u8() { return take<uint8_t>(); }
    uint16_t u16() { return take<uint16_t>(); }
    uint32_t u32() { return take<uint32_t>(); }
    uint64_t u64() { return take<uint64_t>(); }

  private:
    const uint8_t *at_;
    size_t left_;
};

} // namespace tutti::fuzz

#endif
