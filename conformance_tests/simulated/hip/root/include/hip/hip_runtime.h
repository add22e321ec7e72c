/* SPDX-License-Identifier: Apache-2.0
 *
 * HIP's device language as the simulated SDK has it. Sources: the headers of ROCm 6 (clr), clang's documentation of
 * __hip_atomic_* and of the amdgcn builtins. Masks have 64 bits on every part; the functions with a mask argument want
 * HIP_ENABLE_WARP_SYNC_BUILTINS, from 6.2 on.
 */
#ifndef HIP_RUNTIME_H
#define HIP_RUNTIME_H

#if !defined(__HIP__)
#error "hip_runtime.h declares device functions for hipcc"
#endif

#define SIM_MASK_TYPE unsigned long long
#define SIM_MASK_BITS 64
#include "sim_language.h"

#if SIM_SDK_NUMBER >= 60200 && defined(HIP_ENABLE_WARP_SYNC_BUILTINS)
#include "sim_wave.h"
#endif

#if __has_include("hip_runtime_api.h") /* beside this file alone: never a HIP that the machine has */
#include "hip_runtime_api.h"
#endif

/* Without a mask: the lanes that came here together. */
SIM_INLINE unsigned long long __activemask() { return tt_host_wave_together(); }
SIM_INLINE unsigned long long __ballot(int predicate) {
    return tt_host_wave_ballot(tt_host_wave_together(), predicate != 0);
}
SIM_INLINE int __any(int predicate) { return __ballot(predicate) != 0; }
SIM_INLINE int __all(int predicate) { return __ballot(!predicate) == 0; }
template <class T> SIM_INLINE T __shfl(T value, int source, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(tt_host_wave_together(), value, sim_source(source, width));
}
template <class T> SIM_INLINE T __shfl_xor(T value, int lanes, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(tt_host_wave_together(), value, sim_near(static_cast<int>(sim_lane()) ^ lanes, width));
}
template <class T> SIM_INLINE T __shfl_down(T value, unsigned lanes, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(tt_host_wave_together(), value, sim_near(static_cast<int>(sim_lane() + lanes), width));
}
template <class T> SIM_INLINE T __shfl_up(T value, unsigned lanes, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(tt_host_wave_together(), value,
                       sim_near(static_cast<int>(sim_lane()) - static_cast<int>(lanes), width));
}
SIM_INLINE unsigned __lane_id() { return sim_lane(); }

SIM_ATOMIC_WORDS(atomicAdd_system, sim_add)
SIM_ATOMIC_CAS_WORDS(atomicCAS_system)
SIM_ATOMIC_WORDS(atomicExch_system, sim_exchange)
SIM_ATOMIC_WORDS(atomicOr_system, sim_or)

template <class T> SIM_INLINE T __ldg(const T *word) { return *word; }
SIM_INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(high) << 32 | low;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i)
        result |= static_cast<unsigned>(bytes >> (8 * ((selector >> (4 * i)) & 7u)) & 0xffu) << (8 * i);
    return result;
}
SIM_INLINE void abort() { sim_trap(); }

/* The constant clock of 100 MHz. */
SIM_INLINE long long wall_clock64() { return static_cast<long long>(sim_ticks(100000)); }

#include "sim_amdgcn.h"

#endif
