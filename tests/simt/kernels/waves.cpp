/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Collectives of a wave.
 */
#include "module.h"

static void sync_rounds(uint32_t *counter, uint32_t *wrong, uint32_t rounds) {
    const uint32_t wave = tt_host_thread_index_x() / TT_WAVE_WIDTH;
    const uint32_t first = wave * TT_WAVE_WIDTH;
    const uint32_t left = tt_host_block_size_x() - first;
    const uint32_t lanes = left < TT_WAVE_WIDTH ? left : TT_WAVE_WIDTH;
    for (uint32_t round = 1; round <= rounds; ++round) {
        tt_host_atomic_add_dev_u32(counter + wave, 1);
        tt_host_wave_sync();
        if (tt_host_atomic_add_dev_u32(counter + wave, 0) != round * lanes)
            tt_host_atomic_add_dev_u32(wrong, 1);
        tt_host_wave_sync();
    }
}

static void sync_early_exit(uint32_t *passed) {
    if (tt_host_lane_index() % 3 == 0)
        return;
    tt_host_wave_sync();
    tt_host_atomic_add_dev_u32(passed, 1);
}

#if TT_WAVE_WIDTH <= 64

/* Each lane writes the group that it found itself in; the leader of each group adds its size. */
static void active_groups(uint64_t *mask_of, uint32_t *members) {
    const uint32_t me = tt_host_thread_index_x();
    const tt_host_mask mask = tt_host_wave_active();
    if (tt_host_wave_elect(mask))
        tt_host_atomic_add_dev_u32(members, tt_host_mask_popcount(mask));
    tt_host_store_relaxed_dev_u64(mask_of + me, mask);
}

/* Two sides of a branch: a group never holds lanes of both. */
static void active_in_branches(uint64_t *mask_of) {
    const uint32_t me = tt_host_thread_index_x();
    if (tt_host_lane_index() % 4 == 0) {
        const tt_host_mask mask = tt_host_wave_active();
        tt_host_store_relaxed_dev_u64(mask_of + me, tt_host_wave_ballot(mask, true));
    } else {
        /* Ends in another way than the first side, or the compiler makes one of the two. */
        const tt_host_mask mask = tt_host_wave_active();
        tt_host_atomic_or_dev_u64(mask_of + me, tt_host_wave_ballot(mask, true));
    }
}

/* Lane 0 comes late, and those who are through wait for all the others: no lane may be held by one that went ahead. Who
 * waited for longer than `ns` says so. Only for schedules that let lanes of a wave progress alone. */
static void active_then_wait(uint32_t *through, uint32_t *late, uint64_t ns) {
    if (tt_host_lane_index() == 0)
        for (int i = 0; i < 200; ++i)
            tt_host_pause();
    const uint64_t end = tt_host_clock_ns() + ns;
    tt_host_atomic_add_dev_u32(through, static_cast<uint32_t>(tt_host_wave_active() != 0));
    while (tt_host_load_relaxed_dev_u32(through) != tt_host_block_size_x()) {
        if (tt_host_clock_ns() > end) {
            tt_host_atomic_add_dev_u32(late, 1);
            return;
        }
        tt_host_pause();
    }
}

static void ballot_odd(uint64_t *out) {
    const uint32_t me = tt_host_thread_index_x();
    const tt_host_mask mask = tt_host_wave_active();
    tt_host_store_relaxed_dev_u64(out + me * 2, mask);
    tt_host_store_relaxed_dev_u64(out + me * 2 + 1, tt_host_wave_ballot(mask, tt_host_lane_index() % 2 == 1));
}

static void shuffle_from_first(uint64_t *out) {
    const uint32_t me = tt_host_thread_index_x();
    const tt_host_mask mask = tt_host_wave_active();
    const uint32_t first = tt_host_mask_first(mask);
    const uint64_t sent = (uint64_t{me} << 33) + 5;
    tt_host_store_relaxed_dev_u64(out + me * 2, tt_host_wave_shuffle_u64(mask, sent, first));
    tt_host_store_relaxed_dev_u64(
        out + me * 2 + 1, tt_host_wave_shuffle_u32(mask, tt_host_mask_popcount(tt_host_mask_below(first)), first));
    tt_host_wave_sync_mask(mask);
}

static void ballot_without_caller() {
    tt_host_wave_ballot(static_cast<tt_host_mask>(~(1u << tt_host_lane_index())), true);
}

static void ballot_of_the_gone() {
    if (tt_host_lane_index() == 0)
        return;
    tt_host_wave_sync();
    tt_host_wave_ballot(static_cast<tt_host_mask>((1u << tt_host_block_size_x()) - 1u), true);
}

#if TT_HOST_MODE == 0

/* Lanes come late, each by its own number of pauses and some asleep; every third ends on the way. */
static void together_late(uint64_t *mask_of, uint32_t rounds) {
    const uint32_t me = tt_host_thread_index_x();
    for (uint32_t round = 0; round < rounds; ++round) {
        if (round == 2 && me % 3 == 0)
            return;
        for (uint32_t i = 0; i < (me * 7 + round * 3) % 5; ++i)
            tt_host_pause();
        if (me % 16 == round)
            tt_host_sleep_ns(100000);
        tt_host_store_relaxed_dev_u64(mask_of + round * tt_host_block_size_x() + me, tt_host_wave_together());
    }
}

/* Half of a wave waits at a barrier that the other half comes to later: it cannot come to the first place. */
static void together_without_those_at_a_barrier(uint64_t *mask_of) {
    const uint32_t me = tt_host_thread_index_x();
    if (me % 2 == 0) {
        for (int i = 0; i < 9; ++i)
            tt_host_pause();
        tt_host_store_relaxed_dev_u64(mask_of + me, tt_host_wave_together());
    }
    tt_host_block_barrier();
}

/* A lane that waits for one of its own wave holds it: the contract forbids it, and the limit ends it. */
static void together_against_a_spin(uint32_t *flag) {
    if (tt_host_lane_index() == 0) {
        while (tt_host_load_relaxed_dev_u32(flag) == 0)
            tt_host_pause();
    } else {
        tt_host_store_relaxed_dev_u32(flag, static_cast<uint32_t>(tt_host_wave_together()));
    }
}

#define TOGETHER , KERNEL(together_late), KERNEL(together_without_those_at_a_barrier), KERNEL(together_against_a_spin)
#else
#define TOGETHER
#endif

MODULE(KERNEL(sync_rounds), KERNEL(sync_early_exit), KERNEL(active_groups), KERNEL(active_in_branches),
       KERNEL(active_then_wait), KERNEL(ballot_odd), KERNEL(shuffle_from_first), KERNEL(ballot_without_caller),
       KERNEL(ballot_of_the_gone) TOGETHER)

#else

MODULE(KERNEL(sync_rounds), KERNEL(sync_early_exit))

#endif
