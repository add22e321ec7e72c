// SPDX-License-Identifier: Apache-2.0
#include "tutti/checksum.h"

#include <array>
#include <cstring>

namespace {

constexpr uint32_t polynomial = 0x82F63B78u;

// entry[k][b]: the register after byte b and k bytes of 0.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
    Tables tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? polynomial : 0u);
        tables[0][byte] = crc;
    }
    for (size_t k = 1; k < 8; ++k)
        for (uint32_t byte = 0; byte < 256; ++byte)
            tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFFu];
    return tables;
}

constexpr Tables tables = make_tables();

uint32_t by_tables(uint32_t crc, const uint8_t *at, uint64_t nbytes) {
    for (; nbytes >= 8; at += 8, nbytes -= 8) {
        crc ^= static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8 | static_cast<uint32_t>(at[2]) << 16 |
               static_cast<uint32_t>(at[3]) << 24;
        crc = tables[7][crc & 0xFFu] ^ tables[6][(crc >> 8) & 0xFFu] ^ tables[5][(crc >> 16) & 0xFFu] ^
              tables[4][crc >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
    }
    for (; nbytes != 0; ++at, --nbytes)
        crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFFu];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t by_instruction(uint32_t crc, const uint8_t *at, uint64_t nbytes) {
    uint64_t wide = crc;
    for (; nbytes >= 8; at += 8, nbytes -= 8) {
        uint64_t word = 0;
        std::memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    auto narrow = static_cast<uint32_t>(wide);
    for (; nbytes != 0; ++at, --nbytes)
        narrow = __builtin_ia32_crc32qi(narrow, *at);
    return narrow;
}
#endif

} // namespace

extern "C" uint32_t tt_crc32c_bytes(uint32_t crc, const void *data, uint64_t nbytes) {
    const auto *at = static_cast<const uint8_t *>(data);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~by_instruction(~crc, at, nbytes);
#endif
    return ~by_tables(~crc, at, nbytes);
}
