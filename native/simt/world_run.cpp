/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done on the fibre of run()'s caller: limits, the end of launches, and what happens when nobody can run.
 */
#include "simt/world.h"

#include <algorithm>

namespace tutti::simt {
namespace {

constexpr std::uint64_t kHostPollNs = 1000;
constexpr const char *kDeadlock = "deadlock: nothing can run and no timer is set";

} // namespace

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

} // namespace tutti::simt
