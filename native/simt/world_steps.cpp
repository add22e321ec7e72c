/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps, on an agent's own fibre: who goes on, who waits, and what wakes them.
 */
#include "simt/world.h"

#include <algorithm>

namespace tutti::simt {
namespace {

/* How long a wave_active group waits for company after the last lane that joined it: time for some hundred steps of
 * each lane. A kernel cannot help it when lanes went ahead in an earlier group, and may well wait for those that are
 * left. */
constexpr std::uint64_t kCompanyPs = 2'000'000;

} // namespace

void World::advance(std::uint32_t cost_ns) {
    /* Agents work side by side: a step of one of n costs an n-th of its time. */
    const std::uint32_t runnable = scheduler_.runnable();
    const std::uint64_t later = clock_ps_ + std::uint64_t{cost_ns} * 1000 / (runnable > 1 ? runnable : 1);
    /* A step over a launch's deadline is cut there, so that the launch ends at its limit and not a step after it. */
    clock_ps_ = std::max(clock_ps_, std::min(later, stop_ps_));
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
    if (explorer_ != nullptr && was_here_before())
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

void World::step_alone(Agent &self, std::uint32_t cost_ns) {
    if (explorer_ == nullptr || attention_ || steps_ + 1 >= stop_step_) {
        step(self, cost_ns);
        return;
    }
    advance(cost_ns);
    ++steps_;
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
    /* Time does not count while all schedules are explored: a group goes without company when nobody can come. */
    group.due_ps = explorer_ != nullptr ? UINT64_MAX : clock_ps_ + kCompanyPs;
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
    self.trace = followed_by(self.trace, controller.registers_seen == register_changes_);
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

} // namespace tutti::simt
