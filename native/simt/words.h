/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of real memory, and where their histories lie. For the parts of Memory.
 */
#ifndef TUTTI_SIMT_WORDS_H
#define TUTTI_SIMT_WORDS_H

#include <cstddef>
#include <cstdint>

namespace tutti::simt {

constexpr std::size_t kPageWords = 1024;
constexpr std::size_t kHistory = 16; /* messages of one word that are kept; litmus shapes have far fewer */

using AnyWord = std::uint32_t __attribute__((may_alias));

inline std::uint32_t raw(std::uint64_t word) {
    return __atomic_load_n(reinterpret_cast<const AnyWord *>(word << 2), __ATOMIC_RELAXED);
}
inline void set_raw(std::uint64_t word, std::uint32_t value) {
    __atomic_store_n(reinterpret_cast<AnyWord *>(word << 2), value, __ATOMIC_RELAXED);
}
inline std::uint32_t low_half(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
inline std::uint32_t high_half(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
inline std::uint64_t join_halves(std::uint32_t low, std::uint32_t high) {
    return low | static_cast<std::uint64_t>(high) << 32;
}

} // namespace tutti::simt

#endif
