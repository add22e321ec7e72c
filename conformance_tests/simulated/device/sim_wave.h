/* SPDX-License-Identifier: Apache-2.0
 *
 * Wave functions with a mask argument, of a vendor whose masks are SIM_MASK_TYPE.
 */
#ifndef TUTTI_SIM_WAVE_H
#define TUTTI_SIM_WAVE_H

#include "sim_language.h"

#if SIM_WAVE_WIDTH <= SIM_MASK_BITS

/* Lanes that the wave has not are left out of a full mask. */
SIM_INLINE sim_mask sim_lanes(SIM_MASK_TYPE mask) { return static_cast<sim_mask>(mask); }
/* A full mask means every live lane: those that have ended do not count. */
SIM_INLINE bool sim_everyone(SIM_MASK_TYPE mask) { return sim_lanes(mask) == static_cast<sim_mask>(~sim_mask{0}); }

SIM_INLINE void __syncwarp(SIM_MASK_TYPE mask = static_cast<SIM_MASK_TYPE>(-1)) {
    if (sim_everyone(mask))
        tt_host_wave_sync();
    else
        tt_host_wave_sync_mask(sim_lanes(mask));
}
SIM_INLINE SIM_MASK_TYPE __ballot_sync(SIM_MASK_TYPE mask, int predicate) {
    return tt_host_wave_ballot(sim_lanes(mask), predicate != 0);
}
SIM_INLINE int __any_sync(SIM_MASK_TYPE mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
SIM_INLINE int __all_sync(SIM_MASK_TYPE mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
template <class T> SIM_INLINE T __shfl_sync(SIM_MASK_TYPE mask, T value, int source, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(sim_lanes(mask), value, sim_source(source, width));
}
template <class T> SIM_INLINE T __shfl_xor_sync(SIM_MASK_TYPE mask, T value, int lanes, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(sim_lanes(mask), value, sim_near(static_cast<int>(sim_lane()) ^ lanes, width));
}
template <class T>
SIM_INLINE T __shfl_down_sync(SIM_MASK_TYPE mask, T value, unsigned lanes, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(sim_lanes(mask), value, sim_near(static_cast<int>(sim_lane() + lanes), width));
}
template <class T>
SIM_INLINE T __shfl_up_sync(SIM_MASK_TYPE mask, T value, unsigned lanes, int width = SIM_WAVE_WIDTH) {
    return sim_shuffle(sim_lanes(mask), value, sim_near(static_cast<int>(sim_lane()) - static_cast<int>(lanes), width));
}

#else

/* A mask that is narrower than the wave cannot name its lanes. */
#define SIM_NARROW "a lane mask cannot describe a wave that has more lanes than the mask has bits"
SIM_INLINE void __syncwarp() { tt_host_wave_sync(); }
SIM_ABSENT(SIM_NARROW) void __syncwarp(SIM_MASK_TYPE mask);
SIM_ABSENT(SIM_NARROW) SIM_MASK_TYPE __ballot_sync(SIM_MASK_TYPE mask, int predicate);
SIM_ABSENT(SIM_NARROW) int __any_sync(SIM_MASK_TYPE mask, int predicate);
SIM_ABSENT(SIM_NARROW) int __all_sync(SIM_MASK_TYPE mask, int predicate);
template <class T> SIM_ABSENT(SIM_NARROW) T __shfl_sync(SIM_MASK_TYPE mask, T value, int source, int width = 32);
template <class T> SIM_ABSENT(SIM_NARROW) T __shfl_xor_sync(SIM_MASK_TYPE mask, T value, int lanes, int width = 32);
template <class T>
SIM_ABSENT(SIM_NARROW)
T __shfl_down_sync(SIM_MASK_TYPE mask, T value, unsigned lanes, int width = 32);
template <class T> SIM_ABSENT(SIM_NARROW) T __shfl_up_sync(SIM_MASK_TYPE mask, T value, unsigned lanes, int width = 32);

#endif

#endif
