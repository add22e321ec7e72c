/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace tutti::simt {
namespace {

constexpr std::uint32_t kResidentLanes = 8192;
constexpr std::uint64_t kDefaultLimitNs = 10'000'000'000;
constexpr std::uint64_t kDefaultMaxSteps = 100'000'000;
constexpr std::uint32_t kDefaultStaleReads = 16;
constexpr std::uint32_t kDefaultIdlePauses = 4096;
constexpr std::size_t kControllerStackBytes = 1u << 20;
constexpr std::size_t kKeptReports = 4096;
constexpr std::uint64_t kHostPollNs = 1000;
/* How long a wave_active group waits for company after the last lane that joined it: time for some hundred steps of
 * each lane. A kernel cannot help it when lanes went ahead in an earlier group, and may well wait for those that are
 * left. */
constexpr std::uint64_t kCompanyPs = 2'000'000;
constexpr std::uint32_t kPauseNs = 40;
constexpr std::uint64_t kStepsToStop = 10'000'000;

constexpr const char *kDeadlock = "deadlock: nothing can run and no timer is set";

std::uint64_t ps_of(std::uint64_t ns) { return ns < UINT64_MAX / 1000 ? ns * 1000 : UINT64_MAX; }

void run_lane(void *argument) {
    Fibre::arrived();
    Lane &lane = *static_cast<Lane *>(argument);
    lane.block->shape.kernel->entry(lane.block->shape.args);
    Agent &agent = *static_cast<Agent *>(lane.agent);
    agent.world->end_lane(agent);
}

void run_controller(void *argument) {
    Fibre::arrived();
    Controller &controller = *static_cast<Controller *>(argument);
    controller.fn(controller.argument, sim_port(controller));
    controller.at = "end";
    controller.agent.world->block(controller.agent, AgentState::done);
    __builtin_trap();
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
    return options.policy <= TT_SCHED_SCRIPT && (options.script != nullptr || options.script_length == 0) &&
           options.reserved == 0;
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
    memory_.forget();
    forget_agent(host_);
    for (const auto &controller : controllers_)
        forget_agent(controller->agent);
    ended_view_.clear();
    ended_.clear();
    current_ = nullptr;
    host_.stale.clear();
    configure(options);
    return 0;
}

void World::forget_agent(Agent &agent) {
    agent.current.clear();
    agent.stale.clear();
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
        memory_.forget();
        forget_agent(host_);
        for (const auto &controller : controllers_)
            forget_agent(controller->agent);
        ended_view_.clear();
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
        const std::string places = places_of(launch, report.stuck_lanes);
        write_message(report, std::string(launch.shape.kernel->name) + ": " + launch.message + ": " + places);
        for (const auto &block : launch.resident)
            for (std::uint32_t i = 0; i < block->block.count; ++i)
                if (block->block.lanes[i].state != LaneState::done)
                    launch.end.join(block->agents[i].current, memory_.floor());
        while (!launch.resident.empty())
            retire_block(launch, launch.resident.size() - 1);
    }
    ended_view_.join(launch.end, memory_.floor());
    ended_[launch.id] = report;
    if (ended_.size() > kKeptReports)
        ended_.erase(ended_.begin());
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    if (live_.empty()) {
        memory_.forget();
        forget_agent(host_);
        for (const auto &controller : controllers_)
            forget_agent(controller->agent);
        ended_view_.clear();
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

/* ---- steps, on an agent's fibre ---- */

void World::advance(std::uint32_t cost_ns) {
    /* Agents work side by side: a step of one of n costs an n-th of its time. */
    const std::uint32_t runnable = scheduler_.runnable();
    clock_ps_ += std::uint64_t{cost_ns} * 1000 / (runnable > 1 ? runnable : 1);
}

Agent *World::next() {
    ++steps_;
    if (exclusive_ != nullptr)
        return exclusive_;
    if (clock_ps_ >= timer_ps_)
        fire_timers();
    if (clock_ps_ >= active_ps_)
        close_due_active();
    if (attention_ || steps_ >= stop_step_ || clock_ps_ >= stop_ps_)
        return nullptr;
    return scheduler_.pick(current_);
}

void World::leave(Agent &self, Agent *to) {
    if (to != nullptr)
        current_ = to;
    Fibre::swap(*self.fibre, to != nullptr ? *to->fibre : root_);
}

void World::step(Agent &self, std::uint32_t cost_ns) {
    advance(cost_ns);
    Agent *to = next();
    if (to != &self)
        leave(self, to);
}

void World::block(Agent &self, AgentState state) {
    self.state = state;
    scheduler_.set_runnable(self, false);
    if (self.lane != nullptr && self.sim_block->block.open_active != 0)
        close_stuck_active(*self.lane);
    Agent *to = state == AgentState::done && exclusive_ == &self ? nullptr : next();
    if (to != &self)
        leave(self, to);
}

/* A wave_active group whose wave has nobody left that could still come goes on with the lanes that it has. */
void World::close_stuck_active(Lane &lane) {
    const Wave &wave = *lane.wave;
    for (std::uint32_t i = 0; i < wave.count; ++i) {
        const AgentState state = static_cast<const Agent *>(wave.lanes[i].agent)->state;
        if (state != AgentState::blocked && state != AgentState::done)
            return;
    }
    lane.block->close_any_active(*lane.wave);
}

void World::wait_for_company(Agent &self) {
    Group &group = self.lane->block->active_of(*self.lane);
    group.due_ps = clock_ps_ + kCompanyPs;
    active_ps_ = std::min(active_ps_, group.due_ps);
    block_lane(self);
}

/* Not a choice: to go on at once was one for each lane that joined, and who runs next is one now. */
void World::close_due_active() {
    active_ps_ = UINT64_MAX;
    for (const auto &launch : live_)
        for (const auto &block : launch->resident)
            active_ps_ = std::min(active_ps_, block->block.close_due_active(clock_ps_));
}

void World::wake(Agent &agent) {
    agent.state = AgentState::runnable;
    scheduler_.set_runnable(agent, true);
}

void World::wake_idle() {
    changes_ = memory_.changes();
    for (Agent *agent : idle_)
        if (agent->state == AgentState::idle)
            wake(*agent);
    idle_.clear();
}

void World::pause(Agent &self) {
    if (self.changes_seen != memory_.changes()) {
        self.changes_seen = memory_.changes();
        self.idle_pauses = 0;
    }
    scheduler_.paused(self);
    self.yielded = true;
    if (++self.idle_pauses > options_.idle_pauses) {
        if (idle_.empty())
            changes_ = memory_.changes();
        idle_.push_back(&self);
        block(self, AgentState::idle);
    } else {
        step(self, kPauseNs);
    }
    self.yielded = false;
}

void World::set_timer(Agent &agent) {
    if (agent.wake_ns == UINT64_MAX)
        return;
    timers_.push({agent.wake_ns, agent.slot, agent.serial});
    timer_ps_ = ps_of(timers_.top().wake_ns);
}

void World::fire_timers() {
    while (!timers_.empty() && ps_of(timers_.top().wake_ns) <= clock_ps_) {
        const Timer timer = timers_.top();
        timers_.pop();
        Agent *agent = scheduler_.agent_at(timer.slot);
        if (agent != nullptr && agent->serial == timer.serial && agent->wake_ns == timer.wake_ns &&
            (agent->state == AgentState::sleeping || agent->state == AgentState::waiting))
            wake(*agent);
    }
    timer_ps_ = timers_.empty() ? UINT64_MAX : ps_of(timers_.top().wake_ns);
}

void World::sleep(Agent &self, std::uint64_t wake_ns) {
    self.wake_ns = wake_ns;
    set_timer(self);
    block(self, AgentState::sleeping);
}

bool World::wait(Controller &controller, std::uint64_t deadline_ns) {
    Agent &self = controller.agent;
    advance(20);
    if (!controller.stop && controller.registers_seen == register_changes_ && deadline_ns > now_ns()) {
        controller.at = "wait_until";
        self.wake_ns = deadline_ns;
        set_timer(self);
        block(self, AgentState::waiting);
        controller.at = "its own code";
    } else {
        step(self, 0);
    }
    controller.registers_seen = register_changes_;
    return controller.stop;
}

void World::register_changed() {
    ++register_changes_;
    for (const auto &controller : controllers_)
        if (controller->agent.state == AgentState::waiting)
            wake(controller->agent);
}

void World::end_lane(Agent &self) {
    Lane &lane = *self.lane;
    {
        std::string error;
        lane.block->leave(lane, error);
        if (!error.empty())
            fail(self.sim_block->launch, TT_RUN_TRAP, error);
    }
    self.sim_block->launch.end.join(self.current, memory_.floor());
    if (lane.block->live == 0)
        attention_ = true;
    if (!idle_.empty())
        wake_idle();
    block(self, AgentState::done);
    __builtin_trap();
}

/* ---- the root ---- */

void World::find_next_stop() {
    stop_step_ = budget_end_;
    stop_ps_ = UINT64_MAX;
    for (const auto &launch : live_) {
        stop_step_ = std::min(stop_step_, launch->first_step + options_.max_steps);
        stop_ps_ = std::min(stop_ps_, ps_of(launch->deadline_ns));
    }
}

void World::housekeeping() {
    attention_ = false;
    for (const auto &launch : live_) {
        if (launch->outcome == TT_RUN_DONE) {
            if (clock_ps_ >= ps_of(launch->deadline_ns))
                fail(*launch, TT_RUN_LIMIT,
                     "the launch outran its limit of " + std::to_string(launch->limit_ns) + " ns");
            else if (steps_ >= launch->first_step + options_.max_steps)
                fail(*launch, TT_RUN_LIMIT,
                     "the launch took more than " + std::to_string(options_.max_steps) + " steps");
        }
        for (std::size_t i = launch->resident.size(); i-- > 0;)
            if (launch->resident[i]->block.live == 0)
                retire_block(*launch, i);
    }
    for (std::size_t i = live_.size(); i-- > 0;)
        if (live_[i]->outcome != TT_RUN_DONE || live_[i]->blocks_left == 0)
            end_launch(i);
    admit();
    attention_ = false;
    for (const auto &launch : live_)
        attention_ = attention_ || launch->outcome != TT_RUN_DONE;
    find_next_stop();
}

bool World::waits_for_a_store(const SimLaunch &launch) const {
    return std::any_of(idle_.begin(), idle_.end(), [&](const Agent *agent) {
        return agent->state == AgentState::idle && &agent->sim_block->launch == &launch;
    });
}

/* Only the host can wake the idle lanes, and it waits for the budget to be used up: the rest passes as their pauses. */
void World::spend_budget() {
    for (const auto &launch : live_)
        if (!launch->resident.empty() && !waits_for_a_store(*launch))
            fail(*launch, TT_RUN_DEADLOCK, kDeadlock);
    if (attention_)
        return;
    const std::uint64_t pause_ps = std::max<std::uint64_t>(kPauseNs * 1000 / idle_.size(), 1);
    const std::uint64_t to_limit = clock_ps_ < stop_ps_ ? (stop_ps_ - clock_ps_ - 1) / pause_ps + 1 : 0;
    const std::uint64_t pauses = std::min(stop_step_ - steps_, to_limit);
    steps_ += pauses;
    clock_ps_ = pauses == to_limit ? std::max(clock_ps_, stop_ps_) : clock_ps_ + pauses * pause_ps;
    host_is_due_ = true;
}

void World::nothing_can_run() {
    for (const auto &launch : live_)
        for (const auto &block : launch->resident)
            if (block->block.close_any_active())
                return;
    if (timer_ps_ != UINT64_MAX) {
        clock_ps_ = std::max(clock_ps_, std::min(timer_ps_, stop_ps_));
        fire_timers();
        return;
    }
    if (budget_end_ != UINT64_MAX &&
        std::any_of(live_.begin(), live_.end(), [this](const auto &launch) { return waits_for_a_store(*launch); })) {
        spend_budget();
        return;
    }
    for (const auto &launch : live_)
        fail(*launch, TT_RUN_DEADLOCK, kDeadlock);
}

int World::run(std::uint64_t id, std::uint64_t budget_steps, tt_launch_report &report) {
    report = {};
    root_.adopt_thread();
    budget_end_ = budget_steps != 0 && budget_steps < UINT64_MAX - steps_ ? steps_ + budget_steps : UINT64_MAX;
    const std::uint64_t first_step = steps_;
    const std::uint64_t first_ns = now_ns();
    if (host_is_due_) {
        /* It may have written plainly, which nobody notices but who looks. */
        host_is_due_ = false;
        wake_idle();
    }
    const std::uint64_t first_launch = live_.empty() ? last_launch_ + 1 : live_.front()->id;
    for (;;) {
        housekeeping();
        if (attention_)
            continue;
        if (id != 0) {
            if (const auto found = ended_.find(id); found != ended_.end()) {
                report = found->second;
                ended_.erase(found);
                return static_cast<int>(report.outcome);
            }
            if (std::none_of(live_.begin(), live_.end(), [id](const auto &launch) { return launch->id == id; })) {
                report.outcome = TT_RUN_INVALID;
                write_message(report, "no such launch");
                return TT_RUN_INVALID;
            }
        }
        report.elapsed_ns = now_ns() - first_ns;
        report.steps = steps_ - first_step;
        if (live_.empty() && first_launch <= last_launch_)
            break;
        if (steps_ >= budget_end_) {
            report.outcome = TT_RUN_PENDING;
            if (host_is_due_) {
                report.stuck_lanes = static_cast<std::uint32_t>(idle_.size());
                write_message(report, "nothing can run until the host stores something");
            }
            return TT_RUN_PENDING;
        }
        fire_timers();
        Agent *agent = scheduler_.pick(current_);
        if (agent != nullptr) {
            current_ = agent;
            Fibre::swap(root_, *agent->fibre);
        } else if (!live_.empty()) {
            nothing_can_run();
        } else if (budget_steps != 0 && timer_ps_ != UINT64_MAX) {
            clock_ps_ = std::max(clock_ps_, timer_ps_);
            ++steps_;
        } else {
            if (budget_steps != 0)
                clock_ps_ += kHostPollNs * 1000;
            break;
        }
    }
    for (auto ended = ended_.lower_bound(first_launch); ended != ended_.end(); ++ended)
        if (ended->second.outcome != TT_RUN_DONE) {
            report = ended->second;
            break;
        }
    return static_cast<int>(report.outcome);
}

/* ---- controllers and the host ---- */

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

std::uint64_t World::host_load(std::uint64_t address, std::uint32_t bytes) {
    std::uint64_t value = 0;
    if (memory_.kind_of(address) == std::uint32_t{TT_MEM_MMIO}) {
        value = memory_.register_load(host_, address);
        if (bytes == 8)
            value |= std::uint64_t{memory_.register_load(host_, address + 4)} << 32;
    } else {
        memory_.fence(host_, TT_SCOPE_SYSTEM);
        value = memory_.load(host_, address, bytes, TT_ORDER_ACQUIRE, TT_SCOPE_SYSTEM);
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
        memory_.store(host_, address, value, bytes, TT_ORDER_RELEASE, TT_SCOPE_SYSTEM);
        memory_.fence(host_, TT_SCOPE_SYSTEM);
    }
    note_change();
}

} // namespace tutti::simt
