// SPDX-License-Identifier: GPL-2.0-only
//
// Kernels that show what each primitive does on a device. The primitives, over plain pointers, come before this text.

extern "C" __global__ void probe_geometry(uint32_t *seen) {
    uint32_t x = tt_block_index_x() * tt_block_size_x() + tt_thread_index_x();
    uint32_t y = tt_block_index_y() * tt_block_size_y() + tt_thread_index_y();
    uint32_t z = tt_block_index_z() * tt_block_size_z() + tt_thread_index_z();
    uint32_t width = tt_grid_size_x() * tt_block_size_x(), height = tt_grid_size_y() * tt_block_size_y();
    tt_atomic_add_dev_u32(&seen[(z * height + y) * width + x], 1u);
}

extern "C" __global__ void probe_lanes(uint32_t *lanes) {
    uint32_t linear = tt_thread_index_x() + tt_block_size_x() * (tt_thread_index_y() + tt_block_size_y() * tt_thread_index_z());
    lanes[linear] = tt_lane_index();
}

// Odd lanes end at once; the others meet, also in the partial wave at the end of the block.
extern "C" __global__ void probe_exited(uint32_t *out) {
    if (tt_thread_index_x() & 1u) return;
    tt_wave_sync();
    tt_store_relaxed_dev_u32(&out[tt_thread_index_x()], 7u);
    tt_block_barrier();
    out[64 + tt_thread_index_x()] = tt_load_relaxed_dev_u32(&out[tt_thread_index_x() ^ 2u]);
}

struct wave_row { uint32_t active, ballot, elected, first, count, below, shuffled; uint32_t pad; uint64_t wide; };

extern "C" __global__ void probe_wave(wave_row *rows) {
    uint32_t lane = tt_lane_index();
    if (lane % 3u == 1u) return;
    tt_wave_sync();
    tt_mask m = tt_wave_active();
    wave_row row;
    row.active = m;
    row.ballot = tt_wave_ballot(m, (lane & 4u) != 0u);
    row.elected = tt_wave_elect(m) ? 1u : 0u;
    row.first = tt_mask_first(m);
    row.count = tt_mask_popcount(m);
    row.below = tt_mask_below(lane);
    row.shuffled = tt_wave_shuffle_u32(m, 100u + lane, tt_mask_first(m));
    row.wide = tt_wave_shuffle_u64(m, (uint64_t(lane) << 40) | 5u, tt_mask_first(m));
    row.pad = 0u;
    tt_wave_sync_mask(m);
    rows[tt_thread_index_x()] = row;
}

extern "C" __global__ void probe_mask_edges(uint32_t *out) {
    out[0] = tt_mask_below(0u);
    out[1] = tt_mask_below(31u);
    out[2] = tt_mask_below(32u);
    out[3] = tt_mask_popcount(0xffffffffu);
    out[4] = tt_mask_first(0x80000000u);
    out[5] = tt_mask_popcount(0u);
}

#define WORDS(scope, bits) \
    extern "C" __global__ void probe_words_##scope##_##bits(uint##bits##_t *w, uint##bits##_t *old, uint##bits##_t v) { \
        tt_store_relaxed_##scope##_u##bits(&w[1], v); \
        old[0] = tt_load_relaxed_##scope##_u##bits(&w[1]); \
        tt_store_release_##scope##_u##bits(&w[3], v + 1u); \
        old[1] = tt_load_acquire_##scope##_u##bits(&w[3]); \
        old[2] = tt_atomic_add_##scope##_u##bits(&w[5], v); \
        old[3] = tt_atomic_exchange_##scope##_u##bits(&w[5], 9u); \
        old[4] = tt_atomic_or_##scope##_u##bits(&w[5], 6u); \
        old[5] = tt_atomic_cas_##scope##_u##bits(&w[5], 1u, 77u); \
        old[6] = tt_atomic_cas_##scope##_u##bits(&w[5], 15u, v); \
        old[7] = tt_load_relaxed_##scope##_u##bits(&w[5]); \
    } \
    extern "C" __global__ void probe_contend_##scope##_##bits(uint##bits##_t *w, uint32_t *tickets) { \
        uint##bits##_t mine = tt_atomic_add_##scope##_u##bits(&w[0], 1u); \
        tt_atomic_add_dev_u32(&tickets[uint32_t(mine)], 1u); \
        for (uint##bits##_t seen = tt_load_relaxed_##scope##_u##bits(&w[1]);;) { \
            uint##bits##_t was = tt_atomic_cas_##scope##_u##bits(&w[1], seen, seen + 1u); \
            if (was == seen) break; \
            seen = was; \
            tt_pause(); \
        } \
        tt_atomic_or_##scope##_u##bits(&w[2], uint##bits##_t(1u) << (mine % bits##u)); \
    }
WORDS(dev, 32)
WORDS(dev, 64)
WORDS(sys, 32)
WORDS(sys, 64)

extern "C" __global__ void probe_vectors(uint32_t *cells, uint32_t *out) {
    tt_u32x4 v = {1u, 2u, 3u, 4u}, w = {5u, 6u, 7u, 8u};
    tt_store_relaxed_dev_u32x4(&cells[4], v);
    tt_store_relaxed_sys_u32x4(&cells[12], w);
    tt_u32x4 a = tt_load_relaxed_dev_u32x4(&cells[4]), b = tt_load_relaxed_sys_u32x4(&cells[12]);
    uint32_t got[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    for (int i = 0; i < 8; ++i) out[i] = got[i];
}

extern "C" __global__ void probe_crc(const uint64_t *in, uint32_t count, uint32_t *out) {
    uint32_t wide = 0xffffffffu, narrow = 0xffffffffu;
    for (uint32_t i = 0; i < count; ++i) {
        wide = tt_crc32c_u64(wide, in[i]);
        narrow = tt_crc32c_u32(tt_crc32c_u32(narrow, uint32_t(in[i])), uint32_t(in[i] >> 32));
    }
    out[0] = wide;
    out[1] = narrow;
}

extern "C" __global__ void probe_clock(uint64_t *out) {
    uint64_t last = tt_clock_ns(), backwards = 0;
    out[0] = last;
    for (int i = 0; i < 20000; ++i) {
        uint64_t now = tt_clock_ns();
        backwards += now < last;
        last = now;
    }
    out[1] = backwards;
    uint64_t before = tt_clock_ns();
    for (int i = 0; i < 100; ++i) tt_sleep_ns(20000u);
    out[2] = tt_clock_ns() - before;
    out[3] = tt_clock_ns();
}

extern "C" __global__ void probe_trap(uint32_t *out) {
    tt_store_relaxed_dev_u32(out, 1u);
    tt_trap();
    tt_store_relaxed_dev_u32(out, 2u);
}

// Every block beyond the first writes data and then a flag; the reader checks that no flag is seen before its data.
// how: 0 relaxed only (may go wrong), 1 release and acquire, 2 fences around relaxed accesses.
extern "C" __global__ void probe_message(uint32_t *data, uint32_t *flag, uint32_t rounds, uint32_t how, uint32_t *bad) {
    if (tt_thread_index_x() != 0u) return;
    uint32_t pair = tt_block_index_x() >> 1, reader = tt_block_index_x() & 1u;
    uint32_t *d = data + pair * 4096u, *f = flag + pair * 4096u;
    for (uint32_t round = 1; round <= rounds; ++round) {
        if (!reader) {
            tt_store_relaxed_dev_u32(&d[(round * 64u) % 4096u], round);
            if (how == 1u) tt_store_release_dev_u32(f, round);
            if (how == 2u) tt_fence_device();
            if (how != 1u) tt_store_relaxed_dev_u32(f, round);
        } else {
            uint32_t seen = how == 1u ? tt_load_acquire_dev_u32(f) : tt_load_relaxed_dev_u32(f);
            if (how == 2u) tt_fence_device();
            if (seen != 0u && tt_load_relaxed_dev_u32(&d[(seen * 64u) % 4096u]) < seen) tt_atomic_add_dev_u32(bad, 1u);
        }
    }
}

// Talks to the host while it runs, through mapped host memory, and gives up after limit_ns.
extern "C" __global__ void probe_host(uint32_t *words, uint32_t *bell, uint64_t limit_ns) {
    uint64_t end = tt_clock_ns() + limit_ns;
    for (uint32_t turn = 1; turn <= 1000u; ++turn) {
        for (uint32_t i = 0; i < 16u; ++i) tt_store_relaxed_sys_u32(&words[16 + i], turn * 16u + i);
        tt_fence_system();
        tt_mmio_store_u32(bell, turn);
        while (tt_load_acquire_sys_u32(&words[0]) != turn) {
            if (tt_clock_ns() > end) {
                tt_store_relaxed_sys_u32(&words[1], turn);
                return;
            }
            tt_pause();
        }
        if (tt_load_relaxed_sys_u32(&words[2]) != turn * 3u) tt_atomic_add_sys_u32(&words[3], 1u);
    }
    tt_store_relaxed_sys_u32(&words[4], tt_mmio_load_u32(bell));
}
