/* SPDX-License-Identifier: Apache-2.0
 *
 * The agents beside the lanes: controllers and the host.
 */
#include "simt/world.h"

#include <algorithm>
#include <cerrno>
#include <new>

namespace tutti::simt {
namespace {

constexpr std::size_t kControllerStackBytes = 1u << 20;
constexpr std::uint64_t kStepsToStop = 10'000'000;

void run_controller(void *argument) {
    Fibre::arrived();
    Controller &controller = *static_cast<Controller *>(argument);
    controller.fn(controller.argument, sim_port(controller));
    controller.at = "end";
    controller.agent.world->block(controller.agent, AgentState::done);
    __builtin_trap();
}

} // namespace

std::uint64_t World::add_controller(const char *name, void (*fn)(void *, tt_port), void *argument, tt_iommu *iommu) {
    auto controller = std::make_unique<Controller>();
    controller->name = name;
    if (spare_stacks_.empty()) {
        controller->stack = std::make_unique<OwnStack>(kControllerStackBytes);
    } else {
        controller->stack = std::move(spare_stacks_.back());
        spare_stacks_.pop_back();
    }
    if (!controller->stack->valid())
        throw std::bad_alloc();
    Agent &agent = controller->agent;
    agent.world = this;
    agent.kind = AgentKind::controller;
    agent.serial = ++last_serial_;
    agent.fibre = &controller->fibre;
    agent.trace = agent.serial;
    controller->fn = fn;
    controller->argument = argument;
    controller->iommu = iommu;
    controller->registers_seen = register_changes_;
    controller->fibre.prepare(controller->stack->stack(), 0, run_controller, controller.get());
    scheduler_.add(&agent, 1);
    wake(agent);
    controllers_.push_back(std::move(controller));
    return agent.serial;
}

int World::remove_controller(std::uint64_t serial) {
    const auto found = std::find_if(controllers_.begin(), controllers_.end(),
                                    [serial](const auto &controller) { return controller->agent.serial == serial; });
    if (found == controllers_.end())
        return ENOENT;
    Controller &controller = **found;
    Agent &agent = controller.agent;
    controller.stop = true;
    const std::uint64_t last_step = steps_ + kStepsToStop;
    if (agent.state != AgentState::done) {
        root_.adopt_thread();
        wake(agent);
        exclusive_ = &agent;
        while (agent.state != AgentState::done && steps_ < last_step) {
            Fibre::swap(root_, controller.fibre);
        }
        exclusive_ = nullptr;
        if (agent.state != AgentState::done)
            return ETIMEDOUT;
    }
    if (current_ == &agent)
        current_ = nullptr;
    scheduler_.remove(agent);
    spare_stacks_.push_back(std::move(controller.stack));
    controllers_.erase(found);
    if (controllers_.empty())
        memory_.drop_arrivals();
    return 0;
}

namespace {

/* The word or double word that an aligned access of 1, 2, 4 or 8 bytes lies in, and where in it. */
struct PartOfWord {
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint32_t shift;
    std::uint64_t mask;

    PartOfWord(std::uint64_t at, std::uint32_t size)
        : address(size < 4 ? at & ~std::uint64_t{3} : at), bytes(std::max(size, 4u)),
          shift(static_cast<std::uint32_t>(at - address) * 8),
          mask(size == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * size)) - 1) {}
};

} // namespace

std::uint64_t World::host_load(std::uint64_t address, std::uint32_t bytes) {
    std::uint64_t value = 0;
    if (memory_.kind_of(address) == std::uint32_t{TT_MEM_MMIO}) {
        value = memory_.register_load(host_, address);
        if (bytes == 8)
            value |= std::uint64_t{memory_.register_load(host_, address + 4)} << 32;
    } else {
        memory_.fence(host_, TT_SCOPE_SYSTEM);
        const PartOfWord part(address, bytes);
        value = memory_.load(host_, part.address, part.bytes, TT_ORDER_ACQUIRE, TT_SCOPE_SYSTEM);
        value = (value >> part.shift) & part.mask;
    }
    memory_.fence(host_, TT_SCOPE_SYSTEM);
    return value;
}

void World::host_store(std::uint64_t address, std::uint64_t value, std::uint32_t bytes) {
    memory_.fence(host_, TT_SCOPE_SYSTEM);
    if (memory_.kind_of(address) == std::uint32_t{TT_MEM_MMIO}) {
        memory_.register_store(host_, address, static_cast<std::uint32_t>(value), host_.current);
        if (bytes == 8)
            memory_.register_store(host_, address + 4, static_cast<std::uint32_t>(value >> 32), host_.current);
        register_changed();
    } else {
        const PartOfWord part(address, bytes);
        if (bytes < part.bytes) {
            // Memory is made of words: the newest one is stored again with its part exchanged.
            const std::uint64_t newest =
                memory_.atomic(host_, part.address, part.bytes, TT_ATOMIC_OR, 0, 0, TT_SCOPE_SYSTEM);
            value = (newest & ~(part.mask << part.shift)) | ((value & part.mask) << part.shift);
        }
        memory_.store(host_, part.address, value, part.bytes, TT_ORDER_RELEASE, TT_SCOPE_SYSTEM);
        memory_.fence(host_, TT_SCOPE_SYSTEM);
    }
    note_change();
}

} // namespace tutti::simt
