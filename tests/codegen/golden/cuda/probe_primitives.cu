// SPDX-License-Identifier: GPL-2.0-only
//
// Rendered from kernels/probe_primitives.cu.j2 for cuda. Edit the template or the record, not this file.
#include "gpu_vendor/cuda_primitives.cuh"

// Every primitive, with results that a test on the host can predict. Whoever runs this and finds each row as predicted
// has lowered the families right, but for orders and scopes: litmus cases judge those.

TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_geometry(tt_word32 *rows) {
    // Row of the calling thread, counted as the contract says: blocks and threads x fastest.
    const uint32_t layer = tt_block_index_z() * tt_grid_size_y() + tt_block_index_y();
    const uint32_t block = layer * tt_grid_size_x() + tt_block_index_x();
    tt_word32 *row = rows + (block * tt_block_threads() + tt_thread_rank()) * 16u;
    tt_store_relaxed_dev_u32(row + 0, tt_thread_index_x());
    tt_store_relaxed_dev_u32(row + 1, tt_thread_index_y());
    tt_store_relaxed_dev_u32(row + 2, tt_thread_index_z());
    tt_store_relaxed_dev_u32(row + 3, tt_block_index_x());
    tt_store_relaxed_dev_u32(row + 4, tt_block_index_y());
    tt_store_relaxed_dev_u32(row + 5, tt_block_index_z());
    tt_store_relaxed_dev_u32(row + 6, tt_block_size_x());
    tt_store_relaxed_dev_u32(row + 7, tt_block_size_y());
    tt_store_relaxed_dev_u32(row + 8, tt_block_size_z());
    tt_store_relaxed_dev_u32(row + 9, tt_grid_size_x());
    tt_store_relaxed_dev_u32(row + 10, tt_grid_size_y());
    tt_store_relaxed_dev_u32(row + 11, tt_grid_size_z());
    tt_store_relaxed_dev_u32(row + 12, tt_lane_index());
    tt_store_relaxed_dev_u32(row + 13, tt_wave_index());
    tt_store_relaxed_dev_u32(row + 14, TT_WAVE_WIDTH);
    tt_store_relaxed_dev_u32(row + 15, static_cast<uint32_t>(tt_global_index_x()));
}
TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_wave(tt_word64 *rows) {
    tt_word64 *row = rows + tt_thread_rank() * 10u;
    const uint32_t lane = tt_lane_index();
    tt_wave_sync();
#if TT_HAS_WAVE_BALLOT
    const tt_mask live = tt_wave_active();
    // The source of a shuffle must be in the mask: the last lane of a partial wave may have no partner.
    const uint32_t partner = ((live >> (lane ^ 1u)) & 1u) != 0 ? lane ^ 1u : lane;
    tt_wave_sync_mask(live);
    tt_store_relaxed_dev_u64(row, 1);
    tt_store_relaxed_dev_u64(row + 1, live);
    tt_store_relaxed_dev_u64(row + 2, tt_wave_ballot(live, lane % 3u == 0u));
    tt_store_relaxed_dev_u64(row + 3, tt_wave_shuffle_u32(live, lane * 5u + 1u, tt_mask_first(live)));
    tt_store_relaxed_dev_u64(row + 4, tt_wave_shuffle_u64(live, (static_cast<uint64_t>(lane) << 40) | 7u, partner));
    tt_store_relaxed_dev_u64(row + 5, tt_mask_popcount(live));
    tt_store_relaxed_dev_u64(row + 6, tt_mask_first(live));
    tt_store_relaxed_dev_u64(row + 7, tt_mask_below(lane));
    tt_store_relaxed_dev_u64(row + 8, tt_wave_elect(live) ? 1u : 0u);
    tt_store_relaxed_dev_u64(row + 9, tt_mask_below(TT_WAVE_WIDTH));
#else
    tt_store_relaxed_dev_u64(row, 0);
    tt_store_relaxed_dev_u64(row + 1, lane);
#endif
}
TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_block(tt_word32 *rows) {
    TT_SHARED(tt_word32, mine, 256);
    TT_SHARED(tt_word64, sum, 1);
    const uint32_t rank = tt_thread_rank();
    const uint32_t threads = tt_block_threads();
    if (rank == 0) {
        tt_store_relaxed_dev_u64(sum, 0);
    }
    tt_store_relaxed_dev_u32(mine + rank, rank * 3u + tt_block_index_x());
    tt_block_barrier();
    const uint32_t neighbour = tt_load_relaxed_dev_u32(mine + (rank + 1u) % threads);
    tt_atomic_add_dev_u64(sum, neighbour);
    tt_block_barrier();
    tt_word32 *row = rows + (tt_block_index_x() * threads + rank) * 2u;
    tt_store_relaxed_dev_u32(row, neighbour);
    tt_store_relaxed_dev_u32(row + 1, static_cast<uint32_t>(tt_load_relaxed_dev_u64(sum)));
}
// One thread: `cells` are 32-bit words to work on, `seen` what each step gave back.
TT_ENTRY void TT_LAUNCH_BOUNDS(1) probe_memory_u32(tt_word32 *cells, tt_word64 *seen, uint32_t v) {
    uint32_t step = 0;
    tt_store_relaxed_dev_u32(cells, v);
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_dev_u32(cells));
    tt_store_release_dev_u32(cells, static_cast<uint32_t>(v + 1u));
    tt_store_relaxed_sys_u64(seen + step++, tt_load_acquire_dev_u32(cells));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_add_dev_u32(cells, v));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_exchange_dev_u32(cells, 12u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_or_dev_u32(cells, 3u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_dev_u32(cells, 14u, 99u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_dev_u32(cells, 15u, v));
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_dev_u32(cells));
    tt_store_relaxed_sys_u32(cells, v);
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_sys_u32(cells));
    tt_store_release_sys_u32(cells, static_cast<uint32_t>(v + 1u));
    tt_store_relaxed_sys_u64(seen + step++, tt_load_acquire_sys_u32(cells));
#if TT_HAS_ATOMIC_SYSTEM
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_add_sys_u32(cells, v));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_exchange_sys_u32(cells, 12u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_or_sys_u32(cells, 3u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_sys_u32(cells, 14u, 99u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_sys_u32(cells, 15u, v));
#else
    step += 5u;
#endif
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_sys_u32(cells));
    tt_fence_block();
    tt_fence_device();
    tt_fence_system();
}
// One thread: `cells` are 64-bit words to work on, `seen` what each step gave back.
TT_ENTRY void TT_LAUNCH_BOUNDS(1) probe_memory_u64(tt_word64 *cells, tt_word64 *seen, uint64_t v) {
    uint32_t step = 0;
    tt_store_relaxed_dev_u64(cells, v);
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_dev_u64(cells));
    tt_store_release_dev_u64(cells, static_cast<uint64_t>(v + 1u));
    tt_store_relaxed_sys_u64(seen + step++, tt_load_acquire_dev_u64(cells));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_add_dev_u64(cells, v));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_exchange_dev_u64(cells, 12u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_or_dev_u64(cells, 3u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_dev_u64(cells, 14u, 99u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_dev_u64(cells, 15u, v));
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_dev_u64(cells));
    tt_store_relaxed_sys_u64(cells, v);
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_sys_u64(cells));
    tt_store_release_sys_u64(cells, static_cast<uint64_t>(v + 1u));
    tt_store_relaxed_sys_u64(seen + step++, tt_load_acquire_sys_u64(cells));
#if TT_HAS_ATOMIC_SYSTEM
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_add_sys_u64(cells, v));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_exchange_sys_u64(cells, 12u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_or_sys_u64(cells, 3u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_sys_u64(cells, 14u, 99u));
    tt_store_relaxed_sys_u64(seen + step++, tt_atomic_cas_sys_u64(cells, 15u, v));
#else
    step += 5u;
#endif
    tt_store_relaxed_sys_u64(seen + step++, tt_load_relaxed_sys_u64(cells));
    tt_fence_block();
    tt_fence_device();
    tt_fence_system();
}
// Every thread: counts that come out wrong when an update is lost.
TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_atomics(tt_word32 *counters, tt_word64 *wide, uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; ++i) {
        tt_atomic_add_dev_u32(counters, 1u);
#if TT_HAS_ATOMIC_SYSTEM
        tt_atomic_add_sys_u32(counters + 1, 3u);
#endif
        tt_atomic_add_dev_u64(wide, 1ull << 32);
#if TT_HAS_ATOMIC_SYSTEM
        tt_atomic_add_sys_u64(wide + 1, 5u);
#endif
        uint32_t old = tt_load_relaxed_dev_u32(counters + 2);
        uint32_t found = tt_atomic_cas_dev_u32(counters + 2, old, old + 1u);
        while (found != old) {
            tt_pause();
            old = found;
            found = tt_atomic_cas_dev_u32(counters + 2, old, old + 1u);
        }
    }
}
// Quads move between two arrays, one a thread.
TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_vectors(const tt_quad *from, tt_quad *to, uint32_t count) {
    for (uint64_t i = tt_global_index_x(); i < count; i += tt_global_size_x()) {
        if (i % 2u == 0u) {
            tt_store_relaxed_dev_u32x4(to + i, tt_load_relaxed_dev_u32x4(from + i));
        } else {
            const tt_u32x4 value = tt_load_relaxed_sys_u32x4(from + i);
            tt_store_relaxed_sys_u32x4(to + i, tt_u32x4{value.w, value.z, value.y, value.x});
        }
    }
}
// CRC-32C of `count` 64-bit words, once by whole words and once by halves.
TT_ENTRY void TT_LAUNCH_BOUNDS(1) probe_crc32c(const tt_word64 *words, uint32_t count, tt_word32 *sums) {
    uint32_t whole = 0xffffffffu;
    uint32_t halves = 0xffffffffu;
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t word = tt_load_relaxed_dev_u64(words + i);
        whole = tt_crc32c_u64(whole, word);
        halves = tt_crc32c_u32(halves, static_cast<uint32_t>(word));
        halves = tt_crc32c_u32(halves, static_cast<uint32_t>(word >> 32));
    }
    tt_store_relaxed_dev_u32(sums, ~whole);
    tt_store_relaxed_dev_u32(sums + 1, ~halves);
}
TT_ENTRY void TT_LAUNCH_BOUNDS(1) probe_mmio(tt_mmio32 *reg, uint32_t value, tt_word32 *seen) {
    tt_store_relaxed_sys_u32(seen, tt_mmio_load_u32(reg));
    tt_fence_system();
    tt_mmio_store_u32(reg, value);
}
// `address` is a number from the host; the pause, the sleep and the clock let other threads run.
TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_time(uint64_t address, uint32_t ns) {
    tt_word64 *row = tt_address_as<tt_word64>(address) + tt_thread_rank() * 2u;
    const uint64_t before = tt_clock_ns();
    tt_sleep_ns(ns);
    tt_pause();
    const uint64_t after = tt_clock_ns();
    tt_store_relaxed_dev_u64(row, before);
    tt_store_relaxed_dev_u64(row + 1, after);
#if TT_HAS_DEBUG_PRINT
    if (tt_thread_rank() == 0) {
        TT_PRINT("probe %u\n", 42u);
        TT_PRINT("plain\n");
    }
#endif
}
TT_ENTRY void TT_LAUNCH_BOUNDS(256) probe_trap(uint32_t victim) {
    if (tt_thread_rank() == victim) {
        tt_trap();
    }
}
