/* SPDX-License-Identifier: Apache-2.0
 *
 * The world and its launches: how they begin and end.
 */
#include "simt/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti::simt {
namespace {

constexpr std::uint32_t kResidentLanes = 8192;
constexpr std::uint64_t kDefaultLimitNs = 10'000'000'000;
constexpr std::uint64_t kDefaultMaxSteps = 100'000'000;
constexpr std::uint32_t kDefaultStaleReads = 16;
constexpr std::uint32_t kDefaultIdlePauses = 4096;
constexpr std::size_t kKeptReports = 4096;

void run_lane(void *argument) {
    Fibre::arrived();
    Lane &lane = *static_cast<Lane *>(argument);
    lane.block->shape.kernel->entry(lane.block->shape.args);
    Agent &agent = *static_cast<Agent *>(lane.agent);
    agent.world->end_lane(agent);
}

} // namespace

/* ---- a block of the world ---- */

SimBlock::SimBlock(World &owner, SimLaunch &of_launch, std::uint64_t index, std::uint32_t number,
                   std::vector<Stack> stacks, Fibre::Entry entry, std::uint64_t fill_seed)
    : world(owner), launch(of_launch), serial(number),
      block(of_launch.shape, index, std::move(stacks), *this, entry, fill_seed),
      agents(std::make_unique<Agent[]>(block.count)) {}

void SimBlock::wake(Lane &lane) { world.wake(*static_cast<Agent *>(lane.agent)); }

void SimBlock::barrier_complete(Block &) {
    if (!world.barrier_orders_memory())
        return;
    std::vector<Agent *> all;
    for (std::uint32_t i = 0; i < block.count; ++i)
        if (block.lanes[i].state != LaneState::done)
            all.push_back(&agents[i]);
    world.joined(all.data(), all.size());
}

void SimBlock::wave_sync_complete(Wave &wave) {
    if (!world.wave_sync_orders_memory())
        return;
    std::vector<Agent *> all;
    for (std::uint32_t i = 0; i < wave.count; ++i)
        if (wave.lanes[i].state != LaneState::done)
            all.push_back(static_cast<Agent *>(wave.lanes[i].agent));
    world.joined(all.data(), all.size());
}

/* ---- the world itself ---- */

bool World::valid(const tt_sim_options &options) {
    return options.policy <= TT_SCHED_ONE_LANE && (options.script != nullptr || options.script_length == 0);
}

World::World(const tt_sim_options &options) : memory_(*this, host_) {
    host_.world = this;
    host_.kind = AgentKind::host;
    configure(options);
}

World::~World() {
    while (!controllers_.empty()) {
        const std::uint64_t serial = controllers_.back()->agent.serial;
        if (remove_controller(serial) != 0)
            controllers_.pop_back();
    }
}

void World::configure(const tt_sim_options &options) {
    options_ = options;
    options_.script = nullptr;
    if (options_.staleness_reads == 0)
        options_.staleness_reads = kDefaultStaleReads;
    if (options_.idle_pauses == 0)
        options_.idle_pauses = kDefaultIdlePauses;
    if (options_.max_steps == 0)
        options_.max_steps = kDefaultMaxSteps;
    active_ps_ = UINT64_MAX;
    host_is_due_ = false;
    scheduler_.configure(options);
    memory_.configure({options_.staleness_reads, options_.device_stores_invisible != 0});
    steps_ = 0;
    if (controllers_.empty()) {
        /* With a controller about, its timers hold times of this clock. */
        memory_.drop_arrivals();
        clock_ps_ = 0;
        last_serial_ = 0;
        timers_ = {};
        timer_ps_ = UINT64_MAX;
    }
    host_.serial = host_.serial != 0 && !controllers_.empty() ? host_.serial : ++last_serial_;
}

int World::reset(const tt_sim_options &options) {
    if (!live_.empty())
        return EBUSY;
    forget();
    ended_.clear();
    current_ = nullptr;
    host_.stale.clear();
    configure(options);
    return 0;
}

/* Nothing runs: all agree on everything. */
void World::forget() {
    memory_.forget();
    forget_agent(host_);
    for (const auto &controller : controllers_)
        forget_agent(controller->agent);
    ended_view_.clear();
}

void World::forget_agent(Agent &agent) {
    agent.current.clear();
    agent.stale.clear();
    agent.trace = agent.serial;
    for (int distance = 0; distance < 3; ++distance) {
        agent.acquire[distance].clear();
        agent.release[distance].clear();
    }
}

/* ---- launches ---- */

int World::launch(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config,
                  void **args, std::uint64_t &id) {
    auto launch = std::make_unique<SimLaunch>();
    launch->shape = {&kernel, config, module.wave_width, nullptr};
    launch->id = id = ++last_launch_;
    const char *why = launch->shape.refusal(module, TT_MODE_SIM);
    if (why != nullptr) {
        tt_launch_report &report = ended_[id];
        report = {};
        report.outcome = TT_RUN_INVALID;
        write_message(report, std::string("invalid launch of ") + kernel.name + ": " + why);
        return TT_RUN_INVALID;
    }
    for (std::uint32_t i = 0; i < kernel.param_count; ++i) {
        launch->values.push_back(std::make_unique<std::byte[]>(kernel.param_sizes[i] + 16u));
        std::memcpy(launch->values.back().get(), args[i], kernel.param_sizes[i]);
        launch->arguments.push_back(launch->values.back().get());
    }
    launch->shape.args = launch->arguments.data();
    launch->serial = ++last_serial_;
    launch->blocks_left = launch->shape.blocks();
    launch->started_ns = now_ns();
    launch->limit_ns = config.limit_ns != 0 ? config.limit_ns : kDefaultLimitNs;
    launch->deadline_ns =
        launch->limit_ns < UINT64_MAX - launch->started_ns ? launch->started_ns + launch->limit_ns : UINT64_MAX;
    launch->first_step = steps_;
    if (live_.empty()) {
        forget();
    } else {
        memory_.absorb_plain_writes();
    }
    launch->start = ended_view_;
    launch->start.join(host_.current, memory_.floor());
    live_.push_back(std::move(launch));
    attention_ = true;
    return 0;
}

bool World::admit_block(SimLaunch &launch) {
    const std::uint32_t lanes = launch.shape.block_lanes();
    if (resident_blocks_ != 0 && (resident_lanes_ + lanes > kResidentLanes ||
                                  (options_.resident_blocks != 0 && resident_blocks_ >= options_.resident_blocks)))
        return false;
    std::vector<Stack> stacks;
    if (!stacks_.acquire(lanes, stacks)) {
        fail(launch, TT_RUN_NO_MEMORY, "no memory for the lanes of a block");
        return false;
    }
    auto sim_block = std::make_unique<SimBlock>(*this, launch, launch.next_block++, ++last_block_, std::move(stacks),
                                                run_lane, options_.seed);
    scheduler_.add(sim_block->agents.get(), lanes);
    for (std::uint32_t i = 0; i < lanes; ++i) {
        Agent &agent = sim_block->agents[i];
        Lane &lane = sim_block->block.lanes[i];
        agent.world = this;
        agent.kind = AgentKind::lane;
        agent.serial = ++last_serial_;
        agent.block = sim_block->serial;
        agent.launch = launch.serial;
        agent.fibre = &lane.fibre;
        agent.current = launch.start;
        agent.trace = agent.serial;
        agent.lane = &lane;
        agent.sim_block = sim_block.get();
        agent.state = AgentState::runnable;
        lane.agent = &agent;
        scheduler_.set_runnable(agent, true);
    }
    resident_lanes_ += lanes;
    ++resident_blocks_;
    launch.resident.push_back(std::move(sim_block));
    return true;
}

void World::admit() {
    for (const auto &launch : live_)
        while (launch->outcome == TT_RUN_DONE && launch->next_block < launch->shape.blocks())
            if (!admit_block(*launch))
                break;
}

void World::retire_block(SimLaunch &launch, std::size_t index) {
    SimBlock &block = *launch.resident[index];
    for (std::uint32_t i = 0; i < block.block.count; ++i) {
        Agent &agent = block.agents[i];
        if (current_ == &agent)
            current_ = nullptr;
        scheduler_.remove(agent);
    }
    std::erase_if(idle_, [&](const Agent *agent) { return agent->sim_block == &block; });
    resident_lanes_ -= block.block.count;
    --resident_blocks_;
    --launch.blocks_left;
    /* Histories of its storage would outlive it, and be compared with whatever lies there next. */
    block.block.each_storage([this](const std::byte *begin, std::uint64_t bytes) {
        memory_.discard(reinterpret_cast<std::uintptr_t>(begin), bytes);
    });
    const std::vector<Stack> stacks = std::move(block.block.stacks);
    launch.resident.erase(launch.resident.begin() + static_cast<std::ptrdiff_t>(index));
    stacks_.release(stacks);
}

std::string World::places_of(const SimLaunch &launch, std::uint32_t &stuck) const {
    std::vector<Place> places;
    for (const auto &block : launch.resident)
        collect_places(block->block, places);
    stuck = static_cast<std::uint32_t>(places.size());
    std::string text = describe_places(std::move(places));
    for (const auto &controller : controllers_)
        text.append("; controller ").append(controller->name).append(" at ").append(controller->at);
    return text;
}

void World::end_launch(std::size_t index) {
    SimLaunch &launch = *live_[index];
    tt_launch_report report{};
    report.outcome = static_cast<std::uint32_t>(launch.outcome);
    report.elapsed_ns = now_ns() - launch.started_ns;
    report.steps = steps_ - launch.first_step;
    if (launch.outcome != TT_RUN_DONE) {
        const bool cut = explorer_ != nullptr && explorer_->cut;
        const std::string places = cut ? std::string() : places_of(launch, report.stuck_lanes);
        write_message(report, std::string(launch.shape.kernel->name) + ": " + launch.message + ": " + places);
        for (const auto &block : launch.resident)
            for (std::uint32_t i = 0; i < block->block.count; ++i)
                if (block->block.lanes[i].state != LaneState::done)
                    launch.end.join(block->agents[i].current, memory_.floor());
        while (!launch.resident.empty())
            retire_block(launch, launch.resident.size() - 1);
    }
    ended_view_.join(launch.end, memory_.floor());
    /* The host copies in stream order while other launches run: what has ended is behind it. */
    host_.current.join(launch.end, memory_.floor());
    ended_[launch.id] = report;
    if (ended_.size() > kKeptReports)
        ended_.erase(ended_.begin());
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    if (live_.empty()) {
        forget();
    } else {
        std::vector<std::uint32_t> running;
        for (const auto &other : live_)
            running.push_back(other->serial);
        memory_.launch_ended(running);
    }
}

void World::fail(SimLaunch &launch, int outcome, std::string message) {
    if (launch.outcome != TT_RUN_DONE)
        return;
    launch.outcome = outcome;
    launch.message = std::move(message);
    attention_ = true;
}

} // namespace tutti::simt
