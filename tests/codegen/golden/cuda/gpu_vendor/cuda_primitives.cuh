// SPDX-License-Identifier: GPL-2.0-only
//
// How cuda does each primitive. Rendered from its record; the contracts are in cuda_like.h.
#ifndef TUTTI_GPU_VENDOR_CUDA_PRIMITIVES_CUH
#define TUTTI_GPU_VENDOR_CUDA_PRIMITIVES_CUH

#include "../gpu_vendor/cuda.h"

#include "../cuda_like.h"

TT_DEVICE TT_INLINE uint32_t tt_thread_index_x() { return threadIdx.x; }

TT_DEVICE TT_INLINE uint32_t tt_thread_index_y() { return threadIdx.y; }

TT_DEVICE TT_INLINE uint32_t tt_thread_index_z() { return threadIdx.z; }

TT_DEVICE TT_INLINE uint32_t tt_block_index_x() { return blockIdx.x; }

TT_DEVICE TT_INLINE uint32_t tt_block_index_y() { return blockIdx.y; }

TT_DEVICE TT_INLINE uint32_t tt_block_index_z() { return blockIdx.z; }

TT_DEVICE TT_INLINE uint32_t tt_block_size_x() { return blockDim.x; }

TT_DEVICE TT_INLINE uint32_t tt_block_size_y() { return blockDim.y; }

TT_DEVICE TT_INLINE uint32_t tt_block_size_z() { return blockDim.z; }

TT_DEVICE TT_INLINE uint32_t tt_grid_size_x() { return gridDim.x; }

TT_DEVICE TT_INLINE uint32_t tt_grid_size_y() { return gridDim.y; }

TT_DEVICE TT_INLINE uint32_t tt_grid_size_z() { return gridDim.z; }

TT_DEVICE TT_INLINE uint32_t tt_lane_index() {
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

TT_DEVICE TT_INLINE void tt_wave_sync() { __syncwarp(0xffffffffu); }

TT_DEVICE TT_INLINE tt_mask tt_wave_active() { return __activemask(); }

TT_DEVICE TT_INLINE tt_mask tt_wave_ballot(tt_mask m, bool p) { return __ballot_sync(m, p); }

TT_DEVICE TT_INLINE uint32_t tt_wave_shuffle_u32(tt_mask m, uint32_t v, uint32_t src_lane) {
    return __shfl_sync(m, static_cast<unsigned int>(v), static_cast<int>(src_lane));
}

TT_DEVICE TT_INLINE uint64_t tt_wave_shuffle_u64(tt_mask m, uint64_t v, uint32_t src_lane) {
    return __shfl_sync(m, static_cast<unsigned long long>(v), static_cast<int>(src_lane));
}

TT_DEVICE TT_INLINE void tt_wave_sync_mask(tt_mask m) { __syncwarp(m); }

TT_DEVICE TT_INLINE uint32_t tt_mask_popcount(tt_mask m) { return static_cast<uint32_t>(__popc(m)); }

TT_DEVICE TT_INLINE uint32_t tt_mask_first(tt_mask m) { return static_cast<uint32_t>(__ffs(static_cast<int>(m)) - 1); }

TT_DEVICE TT_INLINE tt_mask tt_mask_below(uint32_t lane) { return lane < 32u ? (1u << lane) - 1u : 0xffffffffu; }

TT_DEVICE TT_INLINE bool tt_wave_elect(tt_mask m) { return tt_lane_index() == tt_mask_first(m); }

TT_DEVICE TT_INLINE void tt_block_barrier() { __syncthreads(); }

TT_DEVICE TT_INLINE void tt_fence_block() { asm volatile("fence.sc.cta;" ::: "memory"); }

TT_DEVICE TT_INLINE void tt_fence_device() { asm volatile("fence.sc.gpu;" ::: "memory"); }

TT_DEVICE TT_INLINE void tt_fence_system() { asm volatile("fence.sc.sys;" ::: "memory"); }

TT_DEVICE TT_INLINE uint32_t tt_load_relaxed_dev_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    uint32_t v;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint64_t tt_load_relaxed_dev_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    uint64_t v;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint32_t tt_load_relaxed_sys_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    uint32_t v;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint64_t tt_load_relaxed_sys_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    uint64_t v;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint32_t tt_load_acquire_dev_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    uint32_t v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint64_t tt_load_acquire_dev_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    uint64_t v;
    asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint32_t tt_load_acquire_sys_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    uint32_t v;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint64_t tt_load_acquire_sys_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    uint64_t v;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_release_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_release_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_release_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

TT_DEVICE TT_INLINE void tt_store_release_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

TT_DEVICE TT_INLINE tt_u32x4 tt_load_relaxed_dev_u32x4(const tt_quad *quad) {
    const uint32_t *p = tt_raw::of(quad);
    tt_u32x4 v;
    asm volatile("ld.relaxed.gpu.v4.u32 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

TT_DEVICE TT_INLINE tt_u32x4 tt_load_relaxed_sys_u32x4(const tt_quad *quad) {
    const uint32_t *p = tt_raw::of(quad);
    tt_u32x4 v;
    asm volatile("ld.relaxed.sys.v4.u32 { %0, %1, %2, %3 }, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u32x4(tt_quad *quad, tt_u32x4 v) {
    uint32_t *p = tt_raw::of(quad);
    asm volatile("st.relaxed.gpu.v4.u32 [%0], { %1, %2, %3, %4 };" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u32x4(tt_quad *quad, tt_u32x4 v) {
    uint32_t *p = tt_raw::of(quad);
    asm volatile("st.relaxed.sys.v4.u32 [%0], { %1, %2, %3, %4 };" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_add_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_add_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.gpu.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_add_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.sys.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_add_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.sys.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_exchange_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.gpu.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_exchange_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.gpu.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_exchange_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.sys.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_exchange_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.sys.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_or_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.gpu.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_or_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.gpu.or.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_or_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.sys.or.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_or_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.sys.or.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_cas_dev_u32(tt_word32 *word, uint32_t expected, uint32_t desired) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(desired)
                 : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_cas_dev_u64(tt_word64 *word, uint64_t expected, uint64_t desired) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.gpu.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(p), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_cas_sys_u32(tt_word32 *word, uint32_t expected, uint32_t desired) {
    uint32_t *p = tt_raw::of(word);
    uint32_t old;
    asm volatile("atom.relaxed.sys.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(desired)
                 : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_cas_sys_u64(tt_word64 *word, uint64_t expected, uint64_t desired) {
    uint64_t *p = tt_raw::of(word);
    uint64_t old;
    asm volatile("atom.relaxed.sys.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(p), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}

TT_DEVICE TT_INLINE uint32_t tt_crc32c_u32(uint32_t crc, uint32_t v) {
    uint32_t state = crc;
    for (int word = 0; word < 1; ++word) {
        state ^= static_cast<uint32_t>(static_cast<uint64_t>(v) >> (32 * word));
        for (int bit = 0; bit < 32; ++bit) {
            state = (state >> 1) ^ (0x82f63b78u & (0u - (state & 1u)));
        }
    }
    return state;
}

TT_DEVICE TT_INLINE uint32_t tt_crc32c_u64(uint32_t crc, uint64_t v) {
    uint32_t state = crc;
    for (int word = 0; word < 2; ++word) {
        state ^= static_cast<uint32_t>(static_cast<uint64_t>(v) >> (32 * word));
        for (int bit = 0; bit < 32; ++bit) {
            state = (state >> 1) ^ (0x82f63b78u & (0u - (state & 1u)));
        }
    }
    return state;
}

TT_DEVICE TT_INLINE void tt_mmio_store_u32(tt_mmio32 *reg, uint32_t v) {
    uint32_t *p = tt_raw::of(reg);
    asm volatile("st.mmio.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

TT_DEVICE TT_INLINE uint32_t tt_mmio_load_u32(const tt_mmio32 *reg) {
    const uint32_t *p = tt_raw::of(reg);
    uint32_t v;
    asm volatile("ld.mmio.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

TT_DEVICE TT_INLINE uint64_t tt_clock_ns() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

TT_DEVICE TT_INLINE void tt_sleep_ns(uint32_t ns) { __nanosleep(ns); }

TT_DEVICE TT_INLINE void tt_pause() { __nanosleep(20u); }

TT_DEVICE TT_INLINE void tt_trap() { __trap(); }

#endif
