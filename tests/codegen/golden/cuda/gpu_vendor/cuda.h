// SPDX-License-Identifier: GPL-2.0-only
//
// What cuda is, on archs whose waves have 32 lanes. Rendered from its record.
#ifndef TUTTI_GPU_VENDOR_CUDA_H
#define TUTTI_GPU_VENDOR_CUDA_H

#include <stdint.h>

#if !(defined(__CUDACC__) || defined(__CUDA__))
#error "this header is for cuda, and another compiler reads it"
#endif

#if defined(__MACA__) || defined(__MUSACC__) || defined(__HIP__)
#error "macros of two vendors in one translation unit: not those of cuda alone"
#endif

#define TT_VENDOR_NAME "cuda"
#define TT_WAVE_WIDTH 32u

#include <cstdint>
#include <cstdio>

// Capabilities: 1 where the record says true. What a false one guards is absent.
#define TT_HAS_WAVE_BALLOT 1
#define TT_HAS_WAVE_SYNC_ORDERS_MEMORY 1
#define TT_HAS_BARRIER_ORDERS_MEMORY 1
#define TT_HAS_MEMORY_DEVICE_STORES_VISIBLE_TO_PEERS 1
#define TT_HAS_ATOMIC_SYSTEM 1
#define TT_HAS_CLOCK_GLOBAL_NS 1
#define TT_HAS_TIME_SLEEP 1
#define TT_HAS_DEBUG_PRINT 1
#define TT_HAS_PROGRESS_LANES_INDEPENDENT 1
#define TT_HAS_ENGINE_SIMULATION 0

// One bit for each lane of a wave.
typedef uint32_t tt_mask;

// Attributes.
#define TT_DEVICE __device__
#define TT_INLINE __forceinline__
#define TT_RESTRICT __restrict__
#define TT_LAUNCH_BOUNDS(n) __launch_bounds__(n)
#define TT_ENTRY extern "C" __global__
#define TT_SHARED(type, name, count)                                                                                   \
    static_assert(tt_is_shared<type>::value, "TT_SHARED holds opaque words only");                                     \
    __shared__ type name[count]
#define TT_PRINT(fmt, ...) printf(fmt __VA_OPT__(, ) __VA_ARGS__)

#endif
