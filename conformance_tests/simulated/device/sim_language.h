/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that the vendors' languages share: keywords, geometry, fences, atomics of the device, bits. A vendor's own
 * header brings them in; without it they are not there.
 */
#ifndef TUTTI_SIM_LANGUAGE_H
#define TUTTI_SIM_LANGUAGE_H

#include "sim_device.h"

#define __global__ __sim_global__
#define __shared__ __sim_shared__
#define __launch_bounds__(...) __sim_bounds__(__VA_ARGS__)
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
/* Plain structures: a copy through volatile does not compile, as it does not with the vendors' compilers. */
struct int2 {
    int x, y;
};
struct uint2 {
    unsigned x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

SIM_INLINE uint3 sim_thread() { return {tt_host_thread_index_x(), tt_host_thread_index_y(), tt_host_thread_index_z()}; }
SIM_INLINE uint3 sim_block() { return {tt_host_block_index_x(), tt_host_block_index_y(), tt_host_block_index_z()}; }
SIM_INLINE uint3 sim_block_size() { return {tt_host_block_size_x(), tt_host_block_size_y(), tt_host_block_size_z()}; }
SIM_INLINE uint3 sim_grid_size() { return {tt_host_grid_size_x(), tt_host_grid_size_y(), tt_host_grid_size_z()}; }
#define threadIdx sim_thread()
#define blockIdx sim_block()
#define blockDim sim_block_size()
#define gridDim sim_grid_size()
[[maybe_unused]] static const int warpSize = SIM_WAVE_WIDTH;
#define printf tt_host_print

SIM_INLINE void __threadfence() { sim_fence(); }
SIM_INLINE void __threadfence_block() { sim_fence(); }
SIM_INLINE void __threadfence_system() { sim_fence(); }
SIM_INLINE void __syncthreads() { tt_host_block_barrier(); }

/* Overloads of one atomic for a type: `name(T *, T)`. */
#define SIM_ATOMIC(name, how, T)                                                                                       \
    SIM_INLINE T name(T *word, T value) { return how(word, value, __ATOMIC_RELAXED); }
#define SIM_ATOMIC_CAS(name, T)                                                                                        \
    SIM_INLINE T name(T *word, T expected, T desired) { return sim_cas(word, expected, desired, __ATOMIC_RELAXED); }
#define SIM_ATOMIC_WORDS(name, how)                                                                                    \
    SIM_ATOMIC(name, how, int)                                                                                         \
    SIM_ATOMIC(name, how, unsigned)                                                                                    \
    SIM_ATOMIC(name, how, unsigned long long)
#define SIM_ATOMIC_CAS_WORDS(name)                                                                                     \
    SIM_ATOMIC_CAS(name, int)                                                                                          \
    SIM_ATOMIC_CAS(name, unsigned)                                                                                     \
    SIM_ATOMIC_CAS(name, unsigned long long)

SIM_ATOMIC_WORDS(atomicAdd, sim_add)
SIM_ATOMIC_WORDS(atomicExch, sim_exchange)
SIM_ATOMIC_WORDS(atomicOr, sim_or)
SIM_ATOMIC_WORDS(atomicAnd, sim_and)
SIM_ATOMIC_CAS_WORDS(atomicCAS)

SIM_INLINE long long clock64() { return static_cast<long long>(sim_ticks(SIM_CLOCK_KHZ)); }

SIM_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
SIM_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
SIM_INLINE int __ffs(unsigned v) { return __builtin_ffs(static_cast<int>(v)); }
SIM_INLINE int __ffsll(unsigned long long v) { return __builtin_ffsll(static_cast<long long>(v)); }
SIM_INLINE int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }

#endif
