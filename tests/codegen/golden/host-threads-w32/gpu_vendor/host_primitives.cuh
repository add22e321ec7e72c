// SPDX-License-Identifier: GPL-2.0-only
//
// How host does each primitive. Rendered from its record; the contracts are in cuda_like.h.
#ifndef TUTTI_GPU_VENDOR_HOST_PRIMITIVES_CUH
#define TUTTI_GPU_VENDOR_HOST_PRIMITIVES_CUH

#include "../gpu_vendor/host.h"

#include "../cuda_like.h"

TT_DEVICE TT_INLINE uint32_t tt_thread_index_x() { return tt_host_thread_index_x(); }

TT_DEVICE TT_INLINE uint32_t tt_thread_index_y() { return tt_host_thread_index_y(); }

TT_DEVICE TT_INLINE uint32_t tt_thread_index_z() { return tt_host_thread_index_z(); }

TT_DEVICE TT_INLINE uint32_t tt_block_index_x() { return tt_host_block_index_x(); }

TT_DEVICE TT_INLINE uint32_t tt_block_index_y() { return tt_host_block_index_y(); }

TT_DEVICE TT_INLINE uint32_t tt_block_index_z() { return tt_host_block_index_z(); }

TT_DEVICE TT_INLINE uint32_t tt_block_size_x() { return tt_host_block_size_x(); }

TT_DEVICE TT_INLINE uint32_t tt_block_size_y() { return tt_host_block_size_y(); }

TT_DEVICE TT_INLINE uint32_t tt_block_size_z() { return tt_host_block_size_z(); }

TT_DEVICE TT_INLINE uint32_t tt_grid_size_x() { return tt_host_grid_size_x(); }

TT_DEVICE TT_INLINE uint32_t tt_grid_size_y() { return tt_host_grid_size_y(); }

TT_DEVICE TT_INLINE uint32_t tt_grid_size_z() { return tt_host_grid_size_z(); }

TT_DEVICE TT_INLINE uint32_t tt_lane_index() { return tt_host_lane_index(); }

TT_DEVICE TT_INLINE void tt_wave_sync() { return tt_host_wave_sync(); }

TT_DEVICE TT_INLINE tt_mask tt_wave_active() { return tt_host_wave_active(); }

TT_DEVICE TT_INLINE tt_mask tt_wave_ballot(tt_mask m, bool p) { return tt_host_wave_ballot(m, p); }

TT_DEVICE TT_INLINE uint32_t tt_wave_shuffle_u32(tt_mask m, uint32_t v, uint32_t src_lane) {
    return tt_host_wave_shuffle_u32(m, v, src_lane);
}

TT_DEVICE TT_INLINE uint64_t tt_wave_shuffle_u64(tt_mask m, uint64_t v, uint32_t src_lane) {
    return tt_host_wave_shuffle_u64(m, v, src_lane);
}

TT_DEVICE TT_INLINE void tt_wave_sync_mask(tt_mask m) { return tt_host_wave_sync_mask(m); }

TT_DEVICE TT_INLINE uint32_t tt_mask_popcount(tt_mask m) { return tt_host_mask_popcount(m); }

TT_DEVICE TT_INLINE uint32_t tt_mask_first(tt_mask m) { return tt_host_mask_first(m); }

TT_DEVICE TT_INLINE tt_mask tt_mask_below(uint32_t lane) { return tt_host_mask_below(lane); }

TT_DEVICE TT_INLINE bool tt_wave_elect(tt_mask m) { return tt_host_wave_elect(m); }

TT_DEVICE TT_INLINE void tt_block_barrier() { return tt_host_block_barrier(); }

TT_DEVICE TT_INLINE void tt_fence_block() { return tt_host_fence_block(); }

TT_DEVICE TT_INLINE void tt_fence_device() { return tt_host_fence_device(); }

TT_DEVICE TT_INLINE void tt_fence_system() { return tt_host_fence_system(); }

TT_DEVICE TT_INLINE uint32_t tt_load_relaxed_dev_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    return tt_host_load_relaxed_dev_u32(p);
}

TT_DEVICE TT_INLINE uint64_t tt_load_relaxed_dev_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    return tt_host_load_relaxed_dev_u64(p);
}

TT_DEVICE TT_INLINE uint32_t tt_load_relaxed_sys_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    return tt_host_load_relaxed_sys_u32(p);
}

TT_DEVICE TT_INLINE uint64_t tt_load_relaxed_sys_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    return tt_host_load_relaxed_sys_u64(p);
}

TT_DEVICE TT_INLINE uint32_t tt_load_acquire_dev_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    return tt_host_load_acquire_dev_u32(p);
}

TT_DEVICE TT_INLINE uint64_t tt_load_acquire_dev_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    return tt_host_load_acquire_dev_u64(p);
}

TT_DEVICE TT_INLINE uint32_t tt_load_acquire_sys_u32(const tt_word32 *word) {
    const uint32_t *p = tt_raw::of(word);
    return tt_host_load_acquire_sys_u32(p);
}

TT_DEVICE TT_INLINE uint64_t tt_load_acquire_sys_u64(const tt_word64 *word) {
    const uint64_t *p = tt_raw::of(word);
    return tt_host_load_acquire_sys_u64(p);
}

TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_store_relaxed_dev_u32(p, v);
}

TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_store_relaxed_dev_u64(p, v);
}

TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_store_relaxed_sys_u32(p, v);
}

TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_store_relaxed_sys_u64(p, v);
}

TT_DEVICE TT_INLINE void tt_store_release_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_store_release_dev_u32(p, v);
}

TT_DEVICE TT_INLINE void tt_store_release_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_store_release_dev_u64(p, v);
}

TT_DEVICE TT_INLINE void tt_store_release_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_store_release_sys_u32(p, v);
}

TT_DEVICE TT_INLINE void tt_store_release_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_store_release_sys_u64(p, v);
}

TT_DEVICE TT_INLINE tt_u32x4 tt_load_relaxed_dev_u32x4(const tt_quad *quad) {
    const uint32_t *p = tt_raw::of(quad);
    return tt_host_load_relaxed_dev_u32x4(p);
}

TT_DEVICE TT_INLINE tt_u32x4 tt_load_relaxed_sys_u32x4(const tt_quad *quad) {
    const uint32_t *p = tt_raw::of(quad);
    return tt_host_load_relaxed_sys_u32x4(p);
}

TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u32x4(tt_quad *quad, tt_u32x4 v) {
    uint32_t *p = tt_raw::of(quad);
    return tt_host_store_relaxed_dev_u32x4(p, v);
}

TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u32x4(tt_quad *quad, tt_u32x4 v) {
    uint32_t *p = tt_raw::of(quad);
    return tt_host_store_relaxed_sys_u32x4(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_add_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_add_dev_u32(p, v);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_add_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_add_dev_u64(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_add_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_add_sys_u32(p, v);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_add_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_add_sys_u64(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_exchange_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_exchange_dev_u32(p, v);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_exchange_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_exchange_dev_u64(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_exchange_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_exchange_sys_u32(p, v);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_exchange_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_exchange_sys_u64(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_or_dev_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_or_dev_u32(p, v);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_or_dev_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_or_dev_u64(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_or_sys_u32(tt_word32 *word, uint32_t v) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_or_sys_u32(p, v);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_or_sys_u64(tt_word64 *word, uint64_t v) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_or_sys_u64(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_cas_dev_u32(tt_word32 *word, uint32_t expected, uint32_t desired) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_cas_dev_u32(p, expected, desired);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_cas_dev_u64(tt_word64 *word, uint64_t expected, uint64_t desired) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_cas_dev_u64(p, expected, desired);
}

TT_DEVICE TT_INLINE uint32_t tt_atomic_cas_sys_u32(tt_word32 *word, uint32_t expected, uint32_t desired) {
    uint32_t *p = tt_raw::of(word);
    return tt_host_atomic_cas_sys_u32(p, expected, desired);
}

TT_DEVICE TT_INLINE uint64_t tt_atomic_cas_sys_u64(tt_word64 *word, uint64_t expected, uint64_t desired) {
    uint64_t *p = tt_raw::of(word);
    return tt_host_atomic_cas_sys_u64(p, expected, desired);
}

TT_DEVICE TT_INLINE uint32_t tt_crc32c_u32(uint32_t crc, uint32_t v) { return tt_host_crc32c_u32(crc, v); }

TT_DEVICE TT_INLINE uint32_t tt_crc32c_u64(uint32_t crc, uint64_t v) { return tt_host_crc32c_u64(crc, v); }

TT_DEVICE TT_INLINE void tt_mmio_store_u32(tt_mmio32 *reg, uint32_t v) {
    uint32_t *p = tt_raw::of(reg);
    return tt_host_mmio_store_u32(p, v);
}

TT_DEVICE TT_INLINE uint32_t tt_mmio_load_u32(const tt_mmio32 *reg) {
    const uint32_t *p = tt_raw::of(reg);
    return tt_host_mmio_load_u32(p);
}

TT_DEVICE TT_INLINE uint64_t tt_clock_ns() { return tt_host_clock_ns(); }

TT_DEVICE TT_INLINE void tt_sleep_ns(uint32_t ns) { return tt_host_sleep_ns(ns); }

TT_DEVICE TT_INLINE void tt_pause() { return tt_host_pause(); }

TT_DEVICE TT_INLINE void tt_trap() { return tt_host_trap(); }

#endif
