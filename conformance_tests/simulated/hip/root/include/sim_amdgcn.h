/* SPDX-License-Identifier: Apache-2.0
 *
 * What clang has for amdgcn without any header: the atomics with a scope, and the builtins. Included first by the
 * compiler stand-in, as the compiler knows them.
 */
#ifndef TUTTI_SIM_AMDGCN_H
#define TUTTI_SIM_AMDGCN_H

#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5

#include "sim_device.h"

/* A scope that clang does not know is refused. */
template <int Scope> SIM_INLINE void sim_scope() {
    static_assert(Scope >= __HIP_MEMORY_SCOPE_SINGLETHREAD && Scope <= __HIP_MEMORY_SCOPE_SYSTEM,
                  "synchronization scope argument to atomic operation is invalid");
}
template <class T> struct sim_plain {
    typedef T type;
};
template <class T> struct sim_plain<const T> {
    typedef T type;
};
template <class T> struct sim_plain<volatile T> {
    typedef T type;
};
template <class T> struct sim_plain<const volatile T> {
    typedef T type;
};
template <class T> SIM_INLINE typename sim_plain<T>::type *sim_word(T *word) {
    return const_cast<typename sim_plain<T>::type *>(word);
}
template <class T, class V> SIM_INLINE typename sim_plain<T>::type sim_value(T *, V value) {
    return static_cast<typename sim_plain<T>::type>(value);
}
template <class T, class V> SIM_INLINE bool sim_compare_exchange(T *word, T *expected, V desired, int order) {
    const T before = *expected;
    *expected = sim_cas(word, before, static_cast<T>(desired), order);
    return *expected == before;
}

#define __hip_atomic_load(p, order, scope) (sim_scope<scope>(), sim_load(sim_word(p), order))
#define __hip_atomic_store(p, v, order, scope) (sim_scope<scope>(), sim_store(sim_word(p), sim_value(p, v), order))
#define __hip_atomic_fetch_add(p, v, order, scope) (sim_scope<scope>(), sim_add(sim_word(p), sim_value(p, v), order))
#define __hip_atomic_fetch_or(p, v, order, scope) (sim_scope<scope>(), sim_or(sim_word(p), sim_value(p, v), order))
#define __hip_atomic_fetch_and(p, v, order, scope) (sim_scope<scope>(), sim_and(sim_word(p), sim_value(p, v), order))
#define __hip_atomic_exchange(p, v, order, scope)                                                                      \
    (sim_scope<scope>(), sim_exchange(sim_word(p), sim_value(p, v), order))
#define __hip_atomic_compare_exchange_strong(p, e, v, success, failure, scope)                                         \
    (sim_scope<scope>(), static_cast<void>(failure), sim_compare_exchange(sim_word(p), e, v, success))
#define __hip_atomic_compare_exchange_weak __hip_atomic_compare_exchange_strong

/* The scope is a text: "" is system. */
constexpr bool sim_same(const char *a, const char *b) {
    for (; *a && *a == *b; ++a, ++b) {
    }
    return *a == *b;
}
constexpr bool sim_fence_scope(const char *scope) {
    return sim_same(scope, "") || sim_same(scope, "agent") || sim_same(scope, "workgroup") ||
           sim_same(scope, "wavefront") || sim_same(scope, "singlethread");
}
#define __builtin_amdgcn_fence(order, scope, ...)                                                                      \
    do {                                                                                                               \
        static_assert(sim_fence_scope(scope), "unknown synchronization scope");                                        \
        static_assert((order) >= __ATOMIC_ACQUIRE && (order) <= __ATOMIC_SEQ_CST, "memory order argument is invalid"); \
        sim_fence();                                                                                                   \
    } while (false)

#define __builtin_amdgcn_workitem_id_x() tt_host_thread_index_x()
#define __builtin_amdgcn_workitem_id_y() tt_host_thread_index_y()
#define __builtin_amdgcn_workitem_id_z() tt_host_thread_index_z()
#define __builtin_amdgcn_workgroup_id_x() tt_host_block_index_x()
#define __builtin_amdgcn_workgroup_id_y() tt_host_block_index_y()
#define __builtin_amdgcn_workgroup_id_z() tt_host_block_index_z()
#define __builtin_amdgcn_workgroup_size_x() static_cast<unsigned short>(tt_host_block_size_x())
#define __builtin_amdgcn_workgroup_size_y() static_cast<unsigned short>(tt_host_block_size_y())
#define __builtin_amdgcn_workgroup_size_z() static_cast<unsigned short>(tt_host_block_size_z())
/* Of the dispatch packet: work items, not groups. */
#define __builtin_amdgcn_grid_size_x() (tt_host_grid_size_x() * tt_host_block_size_x())
#define __builtin_amdgcn_grid_size_y() (tt_host_grid_size_y() * tt_host_block_size_y())
#define __builtin_amdgcn_grid_size_z() (tt_host_grid_size_z() * tt_host_block_size_z())
/* The words that a code object of version 5 is given behind its arguments: groups, then sizes of a group. */
struct sim_implicit {
    uint32_t block_count[3];
    uint16_t group_size[3];
    uint16_t remainder[3];
};
SIM_INLINE sim_implicit *sim_implicit_arguments() {
    static thread_local sim_implicit words;
    words = {{tt_host_grid_size_x(), tt_host_grid_size_y(), tt_host_grid_size_z()},
             {static_cast<uint16_t>(tt_host_block_size_x()), static_cast<uint16_t>(tt_host_block_size_y()),
              static_cast<uint16_t>(tt_host_block_size_z())},
             {0, 0, 0}};
    return &words;
}
#define __builtin_amdgcn_implicitarg_ptr() static_cast<void *>(sim_implicit_arguments())
/* The packet of a dispatch: 4 bytes, then sizes of a group, then work items of the grid. */
struct sim_dispatch {
    uint16_t header, setup, group_size[3], reserved;
    uint32_t grid_size[3];
};
SIM_INLINE sim_dispatch *sim_dispatch_packet() {
    static thread_local sim_dispatch words;
    words = {0,
             0,
             {static_cast<uint16_t>(tt_host_block_size_x()), static_cast<uint16_t>(tt_host_block_size_y()),
              static_cast<uint16_t>(tt_host_block_size_z())},
             0,
             {__builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(), __builtin_amdgcn_grid_size_z()}};
    return &words;
}
#define __builtin_amdgcn_dispatch_ptr() static_cast<void *>(sim_dispatch_packet())

#define __builtin_amdgcn_s_barrier() tt_host_block_barrier()
/* Orders the instructions of those lanes that run it together, and waits for no other. The lanes of this engine do not
 * run together, so that those that are here meet. */
#define __builtin_amdgcn_wave_barrier() tt_host_wave_sync_mask(tt_host_wave_together())
#define __builtin_amdgcn_s_sleep(n) ((void)(n), tt_host_pause())
#define __builtin_amdgcn_s_memrealtime() sim_ticks(100000)
#define __builtin_readsteadycounter() sim_ticks(100000)
#define __builtin_readcyclecounter() sim_ticks(SIM_CLOCK_KHZ)
#define __builtin_amdgcn_s_memtime() sim_ticks(SIM_CLOCK_KHZ)
#define __builtin_amdgcn_wavefrontsize() static_cast<unsigned>(SIM_WAVE_WIDTH)
#define __builtin_amdgcn_s_waitcnt(n) static_cast<void>(n)

/* Lanes of `mask` below the caller, of the low and of the high half. */
SIM_INLINE unsigned sim_below(unsigned mask, unsigned from) {
    const unsigned lane = sim_lane();
    const unsigned count = lane <= from ? 0 : lane - from;
    return static_cast<unsigned>(__builtin_popcountll(count >= 32 ? mask : mask & ((1u << count) - 1u)));
}
#define __builtin_amdgcn_mbcnt_lo(mask, add) (sim_below(mask, 0) + (add))
#define __builtin_amdgcn_mbcnt_hi(mask, add) (sim_below(mask, 32) + (add))
#define __builtin_amdgcn_read_exec() static_cast<unsigned long long>(tt_host_wave_together())
#if SIM_WAVE_WIDTH == 64
#define __builtin_amdgcn_ballot_w64(p) tt_host_wave_ballot(tt_host_wave_together(), p)
#else
#define __builtin_amdgcn_ballot_w32(p) tt_host_wave_ballot(tt_host_wave_together(), p)
#endif
/* A comparison of unsigned words in every lane, by LLVM's number of the predicate. */
SIM_INLINE sim_mask sim_compare(unsigned a, unsigned b, int predicate) {
    const bool holds = predicate == 32   ? a == b
                       : predicate == 33 ? a != b
                       : predicate == 34 ? a > b
                       : predicate == 35 ? a >= b
                       : predicate == 36 ? a < b
                                         : a <= b;
    return tt_host_wave_ballot(tt_host_wave_together(), holds);
}
#define __builtin_amdgcn_uicmp(a, b, predicate) static_cast<unsigned long long>(sim_compare(a, b, predicate))
/* Bytes: the lane is address / 4, of the lanes that came here together. */
SIM_INLINE int sim_permute(int address, int value) {
    const unsigned lane = static_cast<unsigned>(address) / 4u % SIM_WAVE_WIDTH;
    const sim_mask here = tt_host_wave_together();
    const bool live = (here >> lane & 1u) != 0;
    const int got = sim_shuffle(here, value, live ? lane : sim_lane());
    return live ? got : 0;
}
#define __builtin_amdgcn_ds_bpermute(address, value) sim_permute(static_cast<int>(address), static_cast<int>(value))
SIM_INLINE int sim_first(int value) {
    const sim_mask here = tt_host_wave_together();
    return sim_shuffle(here, value, tt_host_mask_first(here));
}
#define __builtin_amdgcn_readfirstlane(value) sim_first(static_cast<int>(value))
SIM_INLINE int sim_read(int value, unsigned lane) { return sim_shuffle(tt_host_wave_together(), value, lane); }
#define __builtin_amdgcn_readlane(value, lane) sim_read(static_cast<int>(value), static_cast<unsigned>(lane))

#endif
