/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode `sim`: what each primitive does. Every function runs on a lane's stack: first a scheduling point, then the
 * effect.
 */
#include "simt/world.h"

#include <cstdio>

namespace tutti::simt {
namespace {

/* Virtual nanoseconds of a step: round figures of a GPU's order of magnitude. */
namespace cost {
constexpr std::uint32_t load = 20, store = 10, atomic = 30, fence = 50, collective = 10, clock = 5, mmio_load = 500,
                        mmio_store = 50;
}

Agent &enter(tt_lane_face *face, Primitive at, const void *site) {
    Lane &lane = *static_cast<Lane *>(face->engine);
    lane.at = at;
    lane.site = site;
    Agent &agent = *static_cast<Agent *>(lane.agent);
    agent.trace = followed_by(agent.trace, static_cast<std::uint64_t>(at));
    return agent;
}

void block_until_woken(Agent &agent) { agent.world->block_lane(agent); }

/* After the launch has failed: the caller is never run again, and nothing on its stack is destroyed. */
[[noreturn]] void never_return(Agent &agent) {
    block_until_woken(agent);
    __builtin_trap();
}

void block_barrier(tt_lane_face *face) {
    Agent &agent = enter(face, Primitive::block_barrier, __builtin_return_address(0));
    agent.world->step_alone(agent, cost::collective);
    if (!agent.lane->block->arrive_barrier(*agent.lane))
        block_until_woken(agent);
}

void wave_sync(tt_lane_face *face) {
    Agent &agent = enter(face, Primitive::wave_sync, __builtin_return_address(0));
    agent.world->step_alone(agent, cost::collective);
    if (!agent.lane->block->arrive_wave_sync(*agent.lane))
        block_until_woken(agent);
}

std::uint64_t collective(Agent &agent, std::uint64_t mask) {
    agent.world->step_alone(agent, cost::collective);
    Lane &lane = *agent.lane;
    bool complete = false;
    {
        std::string error;
        complete = lane.block->arrive_collective(lane, lane.at, mask, error);
        if (!error.empty()) {
            agent.world->fail(agent.sim_block->launch, TT_RUN_TRAP, error);
            complete = false;
        }
    }
    if (!complete)
        block_until_woken(agent);
    agent.trace = followed_by(agent.trace, lane.result);
    return lane.result;
}

void wave_sync_mask(tt_lane_face *face, std::uint64_t mask) {
    collective(enter(face, Primitive::wave_sync_mask, __builtin_return_address(0)), mask);
}

std::uint64_t wave_active(tt_lane_face *face) {
    Agent &agent = enter(face, Primitive::wave_active, __builtin_return_address(0));
    agent.world->step_alone(agent, cost::collective);
    Lane &lane = *agent.lane;
    if (!lane.block->arrive_active(lane)) {
        if (agent.world->close_early())
            lane.block->close_active_of(lane);
        else
            agent.world->wait_for_company(agent);
    }
    agent.trace = followed_by(agent.trace, lane.result);
    return lane.result;
}

std::uint64_t wave_ballot(tt_lane_face *face, std::uint64_t mask, std::uint32_t predicate) {
    Agent &agent = enter(face, Primitive::wave_ballot, __builtin_return_address(0));
    agent.lane->value = predicate;
    agent.trace = followed_by(agent.trace, mask, predicate);
    return collective(agent, mask);
}

std::uint64_t wave_shuffle(tt_lane_face *face, std::uint64_t mask, std::uint64_t value, std::uint32_t source) {
    Agent &agent = enter(face, Primitive::wave_shuffle, __builtin_return_address(0));
    agent.lane->value = value;
    agent.lane->source = source;
    agent.trace = followed_by(agent.trace, mask, value, source);
    return collective(agent, mask);
}

void pause(tt_lane_face *face) {
    Agent &agent = enter(face, Primitive::pause, __builtin_return_address(0));
    agent.world->pause(agent);
}

void refuel(tt_lane_face *) {}

void sleep_ns(tt_lane_face *face, std::uint32_t ns) {
    Agent &agent = enter(face, Primitive::sleep, __builtin_return_address(0));
    agent.world->sleep(agent, agent.world->now_ns() + ns);
}

std::uint64_t clock_ns(tt_lane_face *face) {
    Agent &agent = enter(face, Primitive::clock, __builtin_return_address(0));
    agent.world->step_alone(agent, cost::clock);
    if (agent.world->explores())
        return 0; /* it stands still, or runs that differ in time only could differ in what they do */
    agent.idle_pauses = 0;
    return agent.world->now_ns();
}

void trap(tt_lane_face *face) {
    Agent &agent = enter(face, Primitive::trap, __builtin_return_address(0));
    const Lane &lane = *agent.lane;
    agent.world->fail(agent.sim_block->launch, TT_RUN_TRAP,
                      "trap by block " + std::to_string(lane.block->index) + " thread " + std::to_string(lane.index) +
                          " (" + describe_site(lane.site) + ")");
    never_return(agent);
}

void print(tt_lane_face *, const char *format, va_list arguments) { std::vprintf(format, arguments); }

void *shared(tt_lane_face *face, const void *key, std::uint64_t bytes, std::uint64_t align) {
    Lane &lane = *static_cast<Lane *>(face->engine);
    Agent &agent = *static_cast<Agent *>(lane.agent);
    if (void *storage = lane.block->shared(key, bytes, align); storage != nullptr)
        return storage;
    agent.world->fail(agent.sim_block->launch, TT_RUN_NO_MEMORY, "no memory for shared storage of a block");
    never_return(agent);
}

std::uint64_t at(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

std::uint64_t load(tt_lane_face *face, const void *address, std::uint32_t bytes, std::uint32_t order,
                   std::uint32_t scope) {
    Agent &agent = enter(face, Primitive::load, __builtin_return_address(0));
    agent.world->step_to(agent, cost::load, at(address), bytes, false);
    return agent.world->memory().load(agent, at(address), bytes, order, scope);
}

void store(tt_lane_face *face, void *address, std::uint64_t value, std::uint32_t bytes, std::uint32_t order,
           std::uint32_t scope) {
    Agent &agent = enter(face, Primitive::store, __builtin_return_address(0));
    agent.world->step_to(agent, cost::store, at(address), bytes, true);
    agent.world->memory().store(agent, at(address), value, bytes, order, scope);
    agent.world->note_change();
}

void load_quad(tt_lane_face *face, const std::uint32_t *address, std::uint32_t *words, std::uint32_t scope) {
    Agent &agent = enter(face, Primitive::load, __builtin_return_address(0));
    agent.world->step_to(agent, cost::load, at(address), 16, false);
    for (int i = 0; i < 4; ++i)
        words[i] =
            static_cast<std::uint32_t>(agent.world->memory().load(agent, at(address + i), 4, TT_ORDER_RELAXED, scope));
}

void store_quad(tt_lane_face *face, std::uint32_t *address, const std::uint32_t *words, std::uint32_t scope) {
    Agent &agent = enter(face, Primitive::store, __builtin_return_address(0));
    agent.world->step_to(agent, cost::store, at(address), 16, true);
    for (int i = 0; i < 4; ++i)
        agent.world->memory().store(agent, at(address + i), words[i], 4, TT_ORDER_RELAXED, scope);
    agent.world->note_change();
}

std::uint64_t atomic(tt_lane_face *face, void *address, std::uint32_t bytes, std::uint32_t operation,
                     std::uint64_t operand, std::uint64_t expected, std::uint32_t scope) {
    Agent &agent = enter(face, Primitive::atomic, __builtin_return_address(0));
    agent.world->step_to(agent, cost::atomic, at(address), bytes, true);
    const std::uint64_t old =
        agent.world->memory().atomic(agent, at(address), bytes, operation, operand, expected, scope);
    agent.world->note_change();
    return old;
}

void fence(tt_lane_face *face, std::uint32_t scope) {
    Agent &agent = enter(face, Primitive::fence, __builtin_return_address(0));
    agent.world->step(agent, cost::fence);
    agent.world->memory().fence(agent, scope);
}

std::uint32_t mmio_load(tt_lane_face *face, const std::uint32_t *address) {
    Agent &agent = enter(face, Primitive::mmio_load, __builtin_return_address(0));
    agent.world->step(agent, cost::mmio_load);
    return agent.world->memory().register_load(agent, at(address));
}

void mmio_store(tt_lane_face *face, std::uint32_t *address, std::uint32_t value) {
    Agent &agent = enter(face, Primitive::mmio_store, __builtin_return_address(0));
    agent.world->step(agent, cost::mmio_store);
    agent.world->memory().register_store(agent, at(address), value, agent.release[TT_SCOPE_SYSTEM]);
    agent.world->register_changed();
    agent.world->note_change();
}

} // namespace

const tt_device_api &sim_device_api() {
    static const tt_device_api api = [] {
        tt_device_api table{};
        table.struct_size = sizeof table;
        table.mode = TT_MODE_SIM;
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
        table.load = load;
        table.store = store;
        table.load_quad = load_quad;
        table.store_quad = store_quad;
        table.atomic = atomic;
        table.fence = fence;
        table.mmio_load = mmio_load;
        table.mmio_store = mmio_store;
        return table;
    }();
    return api;
}

} // namespace tutti::simt
