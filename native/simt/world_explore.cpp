/* SPDX-License-Identifier: Apache-2.0
 *
 * All runs of a launch within the bounds of its options, depth first: each script repeats the run before up to its last
 * choice that has an alternative left, and takes that.
 */
#include "simt/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

namespace tutti::simt {

bool Explorer::meets(std::uint32_t agent, std::uint64_t word, std::uint32_t words, bool writes) {
    bool shared = false;
    for (std::uint32_t i = 0; i < words; ++i) {
        Touched &touched = touched_.try_emplace(word + i, Touched{agent}).first->second;
        const bool before = touched.by_others && touched.written;
        touched.by_others = touched.by_others || touched.first != agent;
        touched.written = touched.written || writes;
        const bool now = touched.by_others && touched.written;
        learned_ = learned_ || now != before;
        shared = shared || now;
    }
    return shared;
}

/* Whoever may still step, with all that it did and saw; what is in memory follows from that. */
Trace World::state_of_all() const {
    Trace all = 0;
    const auto add = [&all](const Agent &agent) {
        Trace one = followed_by(agent.trace, agent.serial, static_cast<std::uint64_t>(agent.state), agent.yielded,
                                agent.idle_pauses);
        for (const auto &[word, reads] : agent.stale)
            one += scrambled(word * 64 + reads);
        all += scrambled(one);
    };
    for (const auto &launch : live_)
        for (const auto &block : launch->resident)
            for (std::uint32_t i = 0; i < block->block.count; ++i)
                add(block->agents[i]);
    for (const auto &controller : controllers_)
        add(controller->agent);
    return followed_by(all, current_ != nullptr ? current_->serial : 0, scheduler_.standing());
}

bool World::was_here_before() {
    if (!scheduler_.script_is_used_up() || live_.empty() || explorer_->is_new(state_of_all()))
        return false;
    explorer_->cut = true;
    for (const auto &launch : live_)
        fail(*launch, TT_RUN_PENDING, {});
    return true;
}

int World::explore_once(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config,
                        void **args, const tt_explore_task &task, tt_launch_report &report) {
    for (std::uint32_t i = 0; i < task.region_count; ++i)
        std::memcpy(task.regions[i].address, task.regions[i].before, task.regions[i].bytes);
    std::uint64_t drive = 0;
    if (task.drive != nullptr)
        drive = add_controller("drive", task.drive, task.drive_arg, task.drive_iommu);
    std::uint64_t id = 0;
    int outcome = launch(module, kernel, config, args, id);
    if (outcome == 0)
        outcome = run(id, 0, report);
    if (drive != 0) {
        tt_launch_report rest;
        if (!explorer_->cut)
            run(0, 0, rest); /* what it still has to do */
        if (remove_controller(drive) != 0)
            return TT_RUN_INVALID;
    }
    return outcome;
}

int World::explore(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config,
                   void **args, const tt_explore_task &task, tt_explore_report &report) {
    if (!live_.empty() || !controllers_.empty())
        return EBUSY;
    Explorer explorer;
    struct Guard {
        Explorer *&mine;
        ~Guard() { mine = nullptr; }
    } guard{explorer_};
    explorer_ = &explorer;
    std::map<std::string, std::size_t> known;
    std::vector<std::uint32_t> script;
    endings_.clear();
    report = {};
    while (report.complete == 0 && (task.max_runs == 0 || report.runs < task.max_runs)) {
        tt_sim_options options = task.options;
        options.policy = TT_SCHED_SCRIPT;
        options.script = script.data();
        options.script_length = script.size();
        explorer.cut = false;
        if (const int refused = reset(options); refused != 0)
            return refused;
        tt_launch_report ended{};
        const int outcome = explore_once(module, kernel, config, args, task, ended);
        if (explorer.learned()) {
            explorer.start_again();
            endings_.clear();
            known.clear();
            script.clear();
            report = {};
            continue;
        }
        ++report.runs;
        report.steps += ended.steps;
        const std::vector<std::uint32_t> &record = scheduler_.recorded();
        std::vector<std::uint32_t> taken(record.size() / 2);
        for (std::size_t i = 0; i < taken.size(); ++i)
            taken[i] = record[2 * i];
        report.longest = std::max<std::uint64_t>(report.longest, taken.size());
        if (explorer.cut) {
            ++report.cuts;
        } else {
            std::string result;
            for (std::uint32_t i = 0; i < task.result_count; ++i)
                result.append(static_cast<const char *>(task.results[i].address), task.results[i].bytes);
            const auto [place, fresh] = known.try_emplace(std::to_string(outcome) + ' ' + result, endings_.size());
            if (fresh)
                endings_.push_back({static_cast<std::uint32_t>(outcome), 0, taken, std::move(result),
                                    outcome == TT_RUN_DONE ? "" : ended.message});
            ++endings_[place->second].runs;
        }
        std::size_t last = taken.size();
        while (last != 0 && record[2 * last - 2] + 1 >= record[2 * last - 1])
            --last;
        if (last == 0) {
            report.complete = 1;
        } else {
            script.assign(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(last));
            ++script.back();
        }
    }
    report.states = explorer.states();
    report.endings = endings_.size();
    tt_sim_options options = task.options;
    options.policy = TT_SCHED_FAIR;
    return reset(options);
}

} // namespace tutti::simt
