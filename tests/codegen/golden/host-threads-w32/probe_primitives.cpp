// SPDX-License-Identifier: GPL-2.0-only
//
// Rendered from kernels/probe_primitives.cu.j2 for host. Edit the template or the record, not this file.
#include "gpu_vendor/host_primitives.cuh"

// Every primitive, with results that a test on the host can predict. Whoever runs this and finds each row as predicted
// has lowered the families right, but for orders and scopes: litmus cases judge those.

static void tt_body_probe_geometry(tt_word32 *rows) {
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

static void tt_entry_probe_geometry(void **args) { tt_body_probe_geometry(*static_cast<tt_word32 **>(args[0])); }
static void tt_body_probe_wave(tt_word64 *rows) {
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

static void tt_entry_probe_wave(void **args) { tt_body_probe_wave(*static_cast<tt_word64 **>(args[0])); }
static void tt_body_probe_block(tt_word32 *rows) {
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

static void tt_entry_probe_block(void **args) { tt_body_probe_block(*static_cast<tt_word32 **>(args[0])); }
// One thread: `cells` are 32-bit words to work on, `seen` what each step gave back.
static void tt_body_probe_memory_u32(tt_word32 *cells, tt_word64 *seen, uint32_t v) {
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

static void tt_entry_probe_memory_u32(void **args) {
    tt_body_probe_memory_u32(*static_cast<tt_word32 **>(args[0]), *static_cast<tt_word64 **>(args[1]),
                             *static_cast<uint32_t *>(args[2]));
}
// One thread: `cells` are 64-bit words to work on, `seen` what each step gave back.
static void tt_body_probe_memory_u64(tt_word64 *cells, tt_word64 *seen, uint64_t v) {
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

static void tt_entry_probe_memory_u64(void **args) {
    tt_body_probe_memory_u64(*static_cast<tt_word64 **>(args[0]), *static_cast<tt_word64 **>(args[1]),
                             *static_cast<uint64_t *>(args[2]));
}
// Every thread: counts that come out wrong when an update is lost.
static void tt_body_probe_atomics(tt_word32 *counters, tt_word64 *wide, uint32_t rounds) {
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

static void tt_entry_probe_atomics(void **args) {
    tt_body_probe_atomics(*static_cast<tt_word32 **>(args[0]), *static_cast<tt_word64 **>(args[1]),
                          *static_cast<uint32_t *>(args[2]));
}
// Quads move between two arrays, one a thread.
static void tt_body_probe_vectors(const tt_quad *from, tt_quad *to, uint32_t count) {
    for (uint64_t i = tt_global_index_x(); i < count; i += tt_global_size_x()) {
        if (i % 2u == 0u) {
            tt_store_relaxed_dev_u32x4(to + i, tt_load_relaxed_dev_u32x4(from + i));
        } else {
            const tt_u32x4 value = tt_load_relaxed_sys_u32x4(from + i);
            tt_store_relaxed_sys_u32x4(to + i, tt_u32x4{value.w, value.z, value.y, value.x});
        }
    }
}

static void tt_entry_probe_vectors(void **args) {
    tt_body_probe_vectors(*static_cast<const tt_quad **>(args[0]), *static_cast<tt_quad **>(args[1]),
                          *static_cast<uint32_t *>(args[2]));
}
// CRC-32C of `count` 64-bit words, once by whole words and once by halves.
static void tt_body_probe_crc32c(const tt_word64 *words, uint32_t count, tt_word32 *sums) {
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

static void tt_entry_probe_crc32c(void **args) {
    tt_body_probe_crc32c(*static_cast<const tt_word64 **>(args[0]), *static_cast<uint32_t *>(args[1]),
                         *static_cast<tt_word32 **>(args[2]));
}
static void tt_body_probe_mmio(tt_mmio32 *reg, uint32_t value, tt_word32 *seen) {
    tt_store_relaxed_sys_u32(seen, tt_mmio_load_u32(reg));
    tt_fence_system();
    tt_mmio_store_u32(reg, value);
}

static void tt_entry_probe_mmio(void **args) {
    tt_body_probe_mmio(*static_cast<tt_mmio32 **>(args[0]), *static_cast<uint32_t *>(args[1]),
                       *static_cast<tt_word32 **>(args[2]));
}
// `address` is a number from the host; the pause, the sleep and the clock let other threads run.
static void tt_body_probe_time(uint64_t address, uint32_t ns) {
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

static void tt_entry_probe_time(void **args) {
    tt_body_probe_time(*static_cast<uint64_t *>(args[0]), *static_cast<uint32_t *>(args[1]));
}
static void tt_body_probe_trap(uint32_t victim) {
    if (tt_thread_rank() == victim) {
        tt_trap();
    }
}

static void tt_entry_probe_trap(void **args) { tt_body_probe_trap(*static_cast<uint32_t *>(args[0])); }

// ---- the module's table ----

static const uint32_t tt_sizes_probe_geometry[] = {sizeof(tt_word32 *)};
static const char *const tt_names_probe_geometry[] = {"rows"};
static const uint32_t tt_sizes_probe_wave[] = {sizeof(tt_word64 *)};
static const char *const tt_names_probe_wave[] = {"rows"};
static const uint32_t tt_sizes_probe_block[] = {sizeof(tt_word32 *)};
static const char *const tt_names_probe_block[] = {"rows"};
static const uint32_t tt_sizes_probe_memory_u32[] = {sizeof(tt_word32 *), sizeof(tt_word64 *), sizeof(uint32_t)};
static const char *const tt_names_probe_memory_u32[] = {"cells", "seen", "v"};
static const uint32_t tt_sizes_probe_memory_u64[] = {sizeof(tt_word64 *), sizeof(tt_word64 *), sizeof(uint64_t)};
static const char *const tt_names_probe_memory_u64[] = {"cells", "seen", "v"};
static const uint32_t tt_sizes_probe_atomics[] = {sizeof(tt_word32 *), sizeof(tt_word64 *), sizeof(uint32_t)};
static const char *const tt_names_probe_atomics[] = {"counters", "wide", "rounds"};
static const uint32_t tt_sizes_probe_vectors[] = {sizeof(const tt_quad *), sizeof(tt_quad *), sizeof(uint32_t)};
static const char *const tt_names_probe_vectors[] = {"from", "to", "count"};
static const uint32_t tt_sizes_probe_crc32c[] = {sizeof(const tt_word64 *), sizeof(uint32_t), sizeof(tt_word32 *)};
static const char *const tt_names_probe_crc32c[] = {"words", "count", "sums"};
static const uint32_t tt_sizes_probe_mmio[] = {sizeof(tt_mmio32 *), sizeof(uint32_t), sizeof(tt_word32 *)};
static const char *const tt_names_probe_mmio[] = {"reg", "value", "seen"};
static const uint32_t tt_sizes_probe_time[] = {sizeof(uint64_t), sizeof(uint32_t)};
static const char *const tt_names_probe_time[] = {"address", "ns"};
static const uint32_t tt_sizes_probe_trap[] = {sizeof(uint32_t)};
static const char *const tt_names_probe_trap[] = {"victim"};

static const tt_kernel_desc tt_kernels[] = {
    {"probe_geometry", tt_entry_probe_geometry, 1, 256, tt_sizes_probe_geometry, tt_names_probe_geometry},
    {"probe_wave", tt_entry_probe_wave, 1, 256, tt_sizes_probe_wave, tt_names_probe_wave},
    {"probe_block", tt_entry_probe_block, 1, 256, tt_sizes_probe_block, tt_names_probe_block},
    {"probe_memory_u32", tt_entry_probe_memory_u32, 3, 1, tt_sizes_probe_memory_u32, tt_names_probe_memory_u32},
    {"probe_memory_u64", tt_entry_probe_memory_u64, 3, 1, tt_sizes_probe_memory_u64, tt_names_probe_memory_u64},
    {"probe_atomics", tt_entry_probe_atomics, 3, 256, tt_sizes_probe_atomics, tt_names_probe_atomics},
    {"probe_vectors", tt_entry_probe_vectors, 3, 256, tt_sizes_probe_vectors, tt_names_probe_vectors},
    {"probe_crc32c", tt_entry_probe_crc32c, 3, 1, tt_sizes_probe_crc32c, tt_names_probe_crc32c},
    {"probe_mmio", tt_entry_probe_mmio, 3, 1, tt_sizes_probe_mmio, tt_names_probe_mmio},
    {"probe_time", tt_entry_probe_time, 2, 256, tt_sizes_probe_time, tt_names_probe_time},
    {"probe_trap", tt_entry_probe_trap, 1, 256, tt_sizes_probe_trap, tt_names_probe_trap},
};

static const char tt_content_hash[] = "2901c70f1b8da131c3cfa3e98d60e6fe6ad0f5507f894fc682b7813da7dc063c";
static const tt_module_desc tt_module = {
    TT_ABI_VERSION, TT_HOST_MODE, TT_WAVE_WIDTH, 11, tt_kernels, tt_content_hash,
};

extern "C" TT_EXPORT const tt_module_desc *tt_module_describe(void) { return &tt_module; }
extern "C" TT_EXPORT void tt_module_bind(const tt_device_api *api) { tt_host_bind(api); }
