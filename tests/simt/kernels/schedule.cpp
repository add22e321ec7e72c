/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Kernels whose outcome depends on who runs when.
 */
#include "module.h"

/* Every lane of the block adds to a counter between two barriers; then each checks that all did. */
static void barrier_rounds(uint32_t *counter, uint32_t *wrong, uint32_t rounds) {
    const uint32_t threads = tt_host_block_size_x();
    for (uint32_t round = 1; round <= rounds; ++round) {
        tt_host_atomic_add_dev_u32(counter + tt_host_block_index_x(), 1);
        tt_host_block_barrier();
        if (tt_host_load_relaxed_dev_u32(counter + tt_host_block_index_x()) != round * threads)
            tt_host_atomic_add_dev_u32(wrong, 1);
        tt_host_block_barrier();
    }
}

/* Odd lanes leave before the barrier: they count as arrived. */
static void barrier_early_exit(uint32_t *passed) {
    if (tt_host_thread_index_x() % 2 == 1)
        return;
    tt_host_block_barrier();
    tt_host_atomic_add_dev_u32(passed, 1);
}

/* Half of the block waits at the barrier, the other half at a wave sync that they never share: a deadlock. */
static void barrier_mismatch() {
    if (tt_host_lane_index() % 2 == 0)
        tt_host_block_barrier();
    else
        tt_host_wave_sync();
}

/* A spin lock between lanes of one wave. Correct only where lanes progress alone. */
static void lock_in_wave(uint32_t *lock, uint32_t *sum) {
    while (tt_host_atomic_cas_dev_u32(lock, 0, 1) != 0)
        tt_host_pause();
    tt_host_fence_device();
    tt_host_store_relaxed_dev_u32(sum, tt_host_load_relaxed_dev_u32(sum) + 1);
    tt_host_fence_device();
    tt_host_store_release_dev_u32(lock, 0);
}

/* Wave 1 waits for wave 0 of its block. */
static void wait_across_waves(uint32_t *flag, uint32_t *done) {
    if (tt_host_thread_index_x() / TT_WAVE_WIDTH == 0) {
        if (tt_host_lane_index() == 0)
            tt_host_store_release_dev_u32(flag, 1);
    } else {
        while (tt_host_load_acquire_dev_u32(flag) == 0)
            tt_host_pause();
    }
    tt_host_atomic_add_dev_u32(done, 1);
}

/* Block 0 waits for the last block of the grid. */
static void wait_across_blocks(uint32_t *flag, uint32_t *done) {
    if (tt_host_block_index_x() + 1 == tt_host_grid_size_x()) {
        tt_host_store_release_dev_u32(flag, 1);
    } else {
        while (tt_host_load_acquire_dev_u32(flag) == 0)
            tt_host_pause();
    }
    tt_host_atomic_add_dev_u32(done, 1);
}

static void spin_without_pause(uint32_t *flag) {
    while (tt_host_load_relaxed_dev_u32(flag) == 0) {
    }
}

static void spin_with_pause(uint32_t *flag) {
    while (tt_host_load_relaxed_dev_u32(flag) == 0)
        tt_host_pause();
}

static void spin_on_clock(uint64_t ns) {
    const uint64_t end = tt_host_clock_ns() + ns;
    while (tt_host_clock_ns() < end)
        tt_host_pause();
}

static void sleeper(uint64_t *slept, uint32_t ns) {
    const uint64_t start = tt_host_clock_ns();
    tt_host_sleep_ns(ns);
    tt_host_store_relaxed_dev_u64(slept + tt_host_thread_index_x(), tt_host_clock_ns() - start);
}

static void trap_one(uint32_t who) {
    if (tt_host_thread_index_x() == who)
        tt_host_trap();
    tt_host_block_barrier();
}

/* Writes what each thread knows of itself: 13 words a thread. */
static void geometry(uint32_t *out) {
    const uint32_t threads = tt_host_block_size_x() * tt_host_block_size_y() * tt_host_block_size_z();
    const uint32_t block =
        (tt_host_block_index_z() * tt_host_grid_size_y() + tt_host_block_index_y()) * tt_host_grid_size_x() +
        tt_host_block_index_x();
    const uint32_t thread =
        (tt_host_thread_index_z() * tt_host_block_size_y() + tt_host_thread_index_y()) * tt_host_block_size_x() +
        tt_host_thread_index_x();
    uint32_t *row = out + (static_cast<uint64_t>(block) * threads + thread) * 13;
    const uint32_t values[13] = {tt_host_thread_index_x(), tt_host_thread_index_y(), tt_host_thread_index_z(),
                                 tt_host_block_index_x(),  tt_host_block_index_y(),  tt_host_block_index_z(),
                                 tt_host_block_size_x(),   tt_host_block_size_y(),   tt_host_block_size_z(),
                                 tt_host_grid_size_x(),    tt_host_grid_size_y(),    tt_host_grid_size_z(),
                                 tt_host_lane_index()};
    for (int i = 0; i < 13; ++i)
        tt_host_store_relaxed_dev_u32(row + i, values[i]);
}

/* Shared storage: one array a block, another for each key, all lanes see the same. */
static void shared_storage(uint32_t *out) {
    TT_HOST_SHARED(uint32_t, first, 64);
    TT_HOST_SHARED(uint64_t, second, 64);
    const uint32_t me = tt_host_thread_index_x();
    tt_host_store_relaxed_dev_u32(first + me, me + 100 * tt_host_block_index_x());
    tt_host_store_relaxed_dev_u64(second + me, me);
    tt_host_block_barrier();
    const uint32_t next = (me + 1) % tt_host_block_size_x();
    const uint32_t got =
        tt_host_load_relaxed_dev_u32(first + next) + static_cast<uint32_t>(tt_host_load_relaxed_dev_u64(second + next));
    tt_host_store_relaxed_dev_u32(out + tt_host_block_index_x() * tt_host_block_size_x() + me, got);
}

static void lane_switches(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; ++i)
        tt_host_pause();
}

/* Eight sums of a lane of its own, over many switches between the lanes: false when one of them was not kept. */
template <class Number> static bool keeps_sums(Number me, uint32_t rounds) {
    Number a = me, b = me + 1, c = me + 2, d = me + 3, e = me + 4, f = me + 5, g = me + 6, h = me + 7;
    for (uint32_t round = 0; round < rounds; ++round) {
        tt_host_pause();
        a += 1, b += a, c += 3, d += c, e += 5, f += e, g += 7, h += g;
    }
    const Number n = rounds;
    const Number steps = n * (n + 1) / 2;
    return a == me + n && b == me + 1 + n * me + steps && c == me + 2 + 3 * n &&
           d == me + 3 + n * (me + 2) + 3 * steps && e == me + 4 + 5 * n && f == me + 5 + n * (me + 4) + 5 * steps &&
           g == me + 6 + 7 * n && h == me + 7 + n * (me + 6) + 7 * steps;
}

/* Needs the callee-saved registers of both kinds. */
static void kept_registers(uint32_t rounds) {
    const uint64_t me = tt_host_thread_index_x() + 1000 * tt_host_block_index_x();
    if (!keeps_sums<uint64_t>(me, rounds) || !keeps_sums<double>(static_cast<double>(me), rounds))
        tt_host_trap();
}

/* A plain data race between lanes of one OS thread, for ThreadSanitizer to find: they take turns and never agree. */
static void plain_race(uint32_t *word) {
    for (int i = 0; i < 10; ++i) {
        volatile uint32_t *plain = word;
        *plain = *plain + 1;
        tt_host_pause();
    }
}

/* Plain data handed over by fences and relaxed flags: no race. */
static void fenced_handover(uint32_t *data, uint32_t *flag) {
    if (tt_host_thread_index_x() == 0) {
        *data = 42;
        tt_host_fence_device();
        tt_host_store_relaxed_dev_u32(flag, 1);
    } else {
        while (tt_host_load_relaxed_dev_u32(flag) == 0)
            tt_host_pause();
        tt_host_fence_device();
        if (*data != 42)
            tt_host_trap();
    }
}

static void crc_of(uint32_t *out, uint64_t value) {
    tt_host_store_relaxed_dev_u32(out, tt_host_crc32c_u32(0xffffffffu, static_cast<uint32_t>(value)));
    tt_host_store_relaxed_dev_u32(out + 1, tt_host_crc32c_u64(0xffffffffu, value));
}

MODULE(KERNEL(barrier_rounds), KERNEL(barrier_early_exit), KERNEL(barrier_mismatch), KERNEL(lock_in_wave),
       KERNEL(wait_across_waves), KERNEL(wait_across_blocks), KERNEL(spin_without_pause), KERNEL(spin_with_pause),
       KERNEL(spin_on_clock), KERNEL(sleeper), KERNEL(trap_one), KERNEL(geometry), KERNEL(shared_storage),
       KERNEL(lane_switches), KERNEL(crc_of), KERNEL(plain_race), KERNEL(kept_registers), KERNEL(fenced_handover))
