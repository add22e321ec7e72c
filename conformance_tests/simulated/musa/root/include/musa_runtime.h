/* SPDX-License-Identifier: Apache-2.0
 *
 * MUSA's device language as the simulated SDK has it. Sources: the MUSA programming guide (atomics, warp functions,
 * lane masks of 32 bits, warp sizes), torch_musa's mapping table, and what Mooncake's musa_ops.cuh works around in SDK
 * 4.3.3. No __shfl without mask, no __ldg, no __byte_perm, no __nanosleep, no __trap, no inline PTX.
 */
#ifndef MUSA_RUNTIME_H
#define MUSA_RUNTIME_H

#if !defined(__MUSACC__)
#error "musa_runtime.h declares device functions for mcc"
#endif

#define SIM_MASK_TYPE unsigned
#define SIM_MASK_BITS 32
#include "sim_language.h"
#include "sim_wave.h"

#if __has_include("musa_runtime_api.h")
#include "musa_runtime_api.h"
#endif

/* 4.3.3 has none; the official code for later versions uses it. */
#if SIM_SDK_NUMBER >= 50000 && SIM_WAVE_WIDTH <= 32
SIM_INLINE unsigned __activemask() { return tt_host_wave_active(); }
#endif

/* Documented; the compiler of 4.3.3 does not end on the first two, which its stand-in says (see the driver). */
SIM_ATOMIC_WORDS(atomicAdd_system, sim_add)
SIM_ATOMIC_CAS_WORDS(atomicCAS_system)
SIM_ATOMIC_WORDS(atomicExch_system, sim_exchange)
SIM_ATOMIC_WORDS(atomicOr_system, sim_or)

/* Builtins of the vendor's compiler for vectors that may change at any time; 1 to 16 bytes. */
template <class T> SIM_INLINE T volatile_load(const volatile T *word) {
    tt_host_burn();
    T value;
    if constexpr (sizeof(T) <= 8) {
        __atomic_load(const_cast<const T *>(word), &value, __ATOMIC_RELAXED);
    } else {
        const uint64_t *half = reinterpret_cast<const uint64_t *>(const_cast<const T *>(word));
        const uint64_t halves[2] = {__atomic_load_n(half, __ATOMIC_RELAXED),
                                    __atomic_load_n(half + 1, __ATOMIC_RELAXED)};
        __builtin_memcpy(&value, halves, sizeof(T));
    }
    return value;
}
template <class T> SIM_INLINE void volatile_store(T value, volatile T *word) {
    tt_host_burn();
    if constexpr (sizeof(T) <= 8) {
        __atomic_store(const_cast<T *>(word), &value, __ATOMIC_RELAXED);
    } else {
        uint64_t halves[2];
        __builtin_memcpy(halves, &value, sizeof(T));
        uint64_t *half = reinterpret_cast<uint64_t *>(const_cast<T *>(word));
        __atomic_store_n(half, halves[0], __ATOMIC_RELAXED);
        __atomic_store_n(half + 1, halves[1], __ATOMIC_RELAXED);
    }
}

#endif
