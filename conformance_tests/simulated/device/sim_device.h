/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulated vendors' device languages have in common, over the HOST engine in mode `threads`. A vendor's own
 * header (musa_runtime.h, mc_runtime.h, hip/hip_runtime.h) includes this and gives the vendor's names to it, or leaves
 * them out where the vendor has none. Never included by the product.
 *
 * The compiler stand-in defines SIM_WAVE_WIDTH, SIM_CLOCK_KHZ and SIM_SDK_NUMBER.
 */
#ifndef TUTTI_SIM_DEVICE_H
#define TUTTI_SIM_DEVICE_H

#include <cstdio>
#include <stdint.h>

/* The engine's header wants these names; the vendor's sources have their own of the same names. */
#pragma push_macro("TT_HOST_MODE")
#pragma push_macro("TT_WAVE_WIDTH")
#undef TT_HOST_MODE
#undef TT_WAVE_WIDTH
#define TT_HOST_MODE 0
#define TT_WAVE_WIDTH SIM_WAVE_WIDTH
#include "tutti/host_device.h"
#pragma pop_macro("TT_HOST_MODE")
#pragma pop_macro("TT_WAVE_WIDTH")

#define SIM_INLINE static inline __attribute__((always_inline, unused))
/* A name that the vendor has not: its use is an error that says why. */
#define SIM_ABSENT(why) __attribute__((error(why)))

SIM_INLINE unsigned sim_lane() { return tt_host_lane_index(); }

/* ---- memory ----
 * The engine runs many lanes on a thread: whatever may be in a loop that waits gives way now and then. */

SIM_INLINE void sim_fence() {
    tt_host_burn();
    tt_host_fence_any();
}
template <class Word> SIM_INLINE Word sim_load(const Word *word, int order) {
    tt_host_burn();
    Word value;
    __atomic_load(const_cast<Word *>(word), &value, order);
    return value;
}
template <class Word> SIM_INLINE void sim_store(Word *word, Word value, int order) {
    tt_host_burn();
    __atomic_store(word, &value, order);
}
template <class Word> SIM_INLINE Word sim_add(Word *word, Word value, int order) {
    tt_host_burn();
    return __atomic_fetch_add(word, value, order);
}
template <class Word> SIM_INLINE Word sim_or(Word *word, Word value, int order) {
    tt_host_burn();
    return __atomic_fetch_or(word, value, order);
}
template <class Word> SIM_INLINE Word sim_and(Word *word, Word value, int order) {
    tt_host_burn();
    return __atomic_fetch_and(word, value, order);
}
template <class Word> SIM_INLINE Word sim_exchange(Word *word, Word value, int order) {
    tt_host_burn();
    return __atomic_exchange_n(word, value, order);
}
template <class Word> SIM_INLINE Word sim_cas(Word *word, Word expected, Word desired, int order) {
    tt_host_burn();
    __atomic_compare_exchange_n(word, &expected, desired, false, order, __ATOMIC_RELAXED);
    return expected;
}

/* ---- time, the end ---- */

/* Ticks of a clock of so many kHz; a loop over it gives way. */
SIM_INLINE unsigned long long sim_ticks(unsigned khz) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(tt_host_clock_ns()) * khz / 1000000u);
}

SIM_INLINE void sim_trap() {
    tt_host_api->trap(tt_host_lane());
    TT_HOST_STAY();
}
/* Also the compiler's own way to stop. */
#define __builtin_trap() sim_trap()

/* ---- wave ---- */

#if SIM_WAVE_WIDTH <= 64
typedef tt_host_mask sim_mask;
template <class T> SIM_INLINE T sim_shuffle(sim_mask mask, T value, unsigned source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a value of 4 or 8 bytes is shuffled");
    T got;
    if constexpr (sizeof(T) == 4) {
        uint32_t bits;
        __builtin_memcpy(&bits, &value, 4);
        bits = tt_host_wave_shuffle_u32(mask, bits, source);
        __builtin_memcpy(&got, &bits, 4);
    } else {
        uint64_t bits;
        __builtin_memcpy(&bits, &value, 8);
        bits = tt_host_wave_shuffle_u64(mask, bits, source);
        __builtin_memcpy(&got, &bits, 8);
    }
    return got;
}
/* The lane that a shuffle within `width` lanes reads. */
SIM_INLINE unsigned sim_source(int source, int width) {
    const unsigned lanes = static_cast<unsigned>(width);
    return (sim_lane() & ~(lanes - 1u)) + (static_cast<unsigned>(source) & (lanes - 1u));
}
SIM_INLINE unsigned sim_near(int lane, int width) {
    const int first = static_cast<int>(sim_lane() & ~(static_cast<unsigned>(width) - 1u));
    return static_cast<unsigned>(lane < first || lane >= first + width ? static_cast<int>(sim_lane()) : lane);
}
#endif

#endif
