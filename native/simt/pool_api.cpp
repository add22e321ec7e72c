/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode `threads`: what the primitives that are not inline do. Every function runs on a lane's stack.
 */
#include "simt/pool.h"

#include <cstdio>

namespace tutti::simt {
namespace {

std::uint32_t fence_word = 0;

/* A clock read is dear against a load; a loop of them must yield in good time too. */
constexpr std::int32_t kClockFuel = 64;

ResidentBlock &resident_of(Lane &lane) { return static_cast<ResidentBlock &>(lane.block->host); }

Lane &enter(tt_lane_face *face, Primitive at, const void *site) {
    Lane &lane = *static_cast<Lane *>(face->engine);
    lane.at = at;
    lane.site = site;
    return lane;
}

void block_until_woken(Lane &lane) {
    lane.state = LaneState::blocked;
    resident_of(lane).yield(lane);
}

/* After the launch has failed: the caller is never run again, and nothing on its stack is destroyed. */
[[noreturn]] void never_return(Lane &lane) {
    block_until_woken(lane);
    __builtin_trap();
}

void block_barrier(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::block_barrier, __builtin_return_address(0));
    happens_before(lane.block);
    if (!lane.block->arrive_barrier(lane))
        block_until_woken(lane);
    happens_after(lane.block);
}

void wave_sync(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::wave_sync, __builtin_return_address(0));
    if (!lane.block->arrive_wave_sync(lane))
        block_until_woken(lane);
}

std::uint64_t collective(Lane &lane, std::uint64_t mask) {
    bool complete = false;
    {
        std::string error;
        complete = lane.block->arrive_collective(lane, lane.at, mask, error);
        if (!error.empty()) {
            resident_of(lane).launch().fail(TT_RUN_TRAP, error);
            complete = false;
        }
    }
    if (!complete)
        block_until_woken(lane);
    return lane.result;
}

void wave_sync_mask(tt_lane_face *face, std::uint64_t mask) {
    collective(enter(face, Primitive::wave_sync_mask, __builtin_return_address(0)), mask);
}

std::uint64_t wave_active(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::wave_active, __builtin_return_address(0));
    if (!lane.block->arrive_active(lane))
        block_until_woken(lane);
    return lane.result;
}

std::uint64_t wave_together(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::wave_together, __builtin_return_address(0));
    if (!lane.block->arrive_together(lane))
        block_until_woken(lane);
    return lane.result;
}

std::uint64_t wave_ballot(tt_lane_face *face, std::uint64_t mask, std::uint32_t predicate) {
    Lane &lane = enter(face, Primitive::wave_ballot, __builtin_return_address(0));
    lane.value = predicate;
    return collective(lane, mask);
}

std::uint64_t wave_shuffle(tt_lane_face *face, std::uint64_t mask, std::uint64_t value, std::uint32_t source) {
    Lane &lane = enter(face, Primitive::wave_shuffle, __builtin_return_address(0));
    lane.value = value;
    lane.source = source;
    return collective(lane, mask);
}

void pause(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::pause, __builtin_return_address(0));
    face->fuel = TT_HOST_FUEL;
    ResidentBlock &resident = resident_of(lane);
    resident.count_pause();
    resident.yield(lane);
}

void refuel(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::load, __builtin_return_address(0));
    face->fuel = TT_HOST_FUEL;
    resident_of(lane).yield(lane);
}

void sleep_ns(tt_lane_face *face, std::uint32_t ns) {
    Lane &lane = enter(face, Primitive::sleep, __builtin_return_address(0));
    resident_of(lane).sleep(lane, monotonic_ns() + ns);
}

std::uint64_t clock_ns(tt_lane_face *face) {
    face->fuel -= kClockFuel;
    if (face->fuel < 0) {
        Lane &lane = enter(face, Primitive::clock, __builtin_return_address(0));
        face->fuel = TT_HOST_FUEL;
        resident_of(lane).yield(lane);
    }
    return monotonic_ns();
}

void trap(tt_lane_face *face) {
    Lane &lane = enter(face, Primitive::trap, __builtin_return_address(0));
    resident_of(lane).launch().fail(TT_RUN_TRAP, "trap by block " + std::to_string(lane.block->index) + " thread " +
                                                     std::to_string(lane.index) + " (" + describe_site(lane.site) +
                                                     ")");
    never_return(lane);
}

void print(tt_lane_face *, const char *format, va_list arguments) { std::vprintf(format, arguments); }

void *shared(tt_lane_face *face, const void *key, std::uint64_t bytes, std::uint64_t align) {
    Lane &lane = *static_cast<Lane *>(face->engine);
    if (void *storage = lane.block->shared(key, bytes, align); storage != nullptr)
        return storage;
    resident_of(lane).launch().fail(TT_RUN_NO_MEMORY, "no memory for shared storage of a block");
    never_return(lane);
}

} // namespace

const tt_device_api &threads_device_api() {
    static const tt_device_api api = [] {
        tt_device_api table{};
        table.struct_size = sizeof table;
        table.mode = TT_MODE_THREADS;
        table.block_barrier = block_barrier;
        table.wave_sync = wave_sync;
        table.wave_sync_mask = wave_sync_mask;
        table.wave_active = wave_active;
        table.wave_ballot = wave_ballot;
        table.wave_shuffle = wave_shuffle;
        table.pause = pause;
        table.refuel = refuel;
        table.sleep_ns = sleep_ns;
        table.clock_ns = clock_ns;
        table.trap = trap;
        table.print = print;
        table.shared = shared;
        table.fence_word = &fence_word;
        table.wave_together = wave_together;
        return table;
    }();
    return api;
}

} // namespace tutti::simt
