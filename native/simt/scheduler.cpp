/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/scheduler.h"

#include <algorithm>

namespace tutti::simt {
namespace {

constexpr std::uint64_t kRecordedPairs = 16'777'216;
constexpr std::uint64_t kHighPriority = std::uint64_t{1} << 63;
constexpr std::uint32_t kDefaultPctDepth = 3;

} // namespace

void Scheduler::configure(const tt_sim_options &options) {
    policy_ = options.policy;
    /* SplitMix64, so that neighbouring seeds do not begin alike. */
    state_ = options.seed + 0x9e3779b97f4a7c15u;
    script_.assign(options.script, options.script + options.script_length);
    script_at_ = 0;
    bounded_ = options.policy == TT_SCHED_SCRIPT && options.preemptions != 0;
    preemptions_left_ = bounded_ ? options.preemptions - 1 : 0;
    delays_only_ = options.delays_only != 0;
    stale_reads_bounded_ = options.policy == TT_SCHED_SCRIPT && options.stale_reads != 0;
    stale_reads_left_ = stale_reads_bounded_ ? options.stale_reads - 1 : 0;
    record_.clear();
    choices_ = 0;
    cursor_ = 0;
    round_.clear();
    victim_until_ = 0;
    picks_ = 0;
    holders_.clear();
    change_points_.clear();
    lowest_priority_ = kHighPriority - 1;
    if (policy_ == TT_SCHED_PCT) {
        const std::uint32_t depth = options.pct_depth != 0 ? options.pct_depth : kDefaultPctDepth;
        /* The length of a run is not known: every order of magnitude is as likely. */
        for (std::uint32_t i = 0; i < depth; ++i)
            change_points_.push_back(1 + below(1u << (4 + below(14))));
        std::sort(change_points_.begin(), change_points_.end(), std::greater<>());
    }
    for (Agent *agent : slots_)
        if (agent != nullptr)
            agent->priority = kHighPriority | random() >> 1;
}

std::uint64_t Scheduler::random() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void Scheduler::add(Agent *agents, std::uint32_t count) {
    std::uint32_t first = 0;
    for (std::uint32_t slot = 0; slot < slots_.size() && slot - first < count; ++slot)
        if (slots_[slot] != nullptr)
            first = slot + 1;
    if (slots_.size() < first + count) {
        slots_.resize(first + count, nullptr);
        bits_.resize((slots_.size() + 63) / 64, 0);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        slots_[first + i] = &agents[i];
        agents[i].slot = first + i;
        agents[i].priority = kHighPriority | random() >> 1;
    }
}

void Scheduler::remove(Agent &agent) {
    set_runnable(agent, false);
    slots_[agent.slot] = nullptr;
    std::erase(round_, &agent);
    std::erase_if(holders_, [&agent](const auto &held) { return held.second == &agent; });
    agent.slot = kNobody;
}

void Scheduler::set_runnable(Agent &agent, bool runnable) {
    std::uint64_t &bits = bits_[agent.slot / 64];
    const std::uint64_t bit = std::uint64_t{1} << agent.slot % 64;
    if (((bits & bit) != 0) == runnable)
        return;
    bits ^= bit;
    runnable_ += runnable ? 1u : UINT32_MAX;
}

std::uint32_t Scheduler::rank_of(std::uint32_t slot) const {
    std::uint32_t rank = 0;
    for (std::uint32_t i = 0; i < slot / 64; ++i)
        rank += static_cast<std::uint32_t>(__builtin_popcountll(bits_[i]));
    if (slot % 64 != 0)
        rank +=
            static_cast<std::uint32_t>(__builtin_popcountll(bits_[slot / 64] & ((std::uint64_t{1} << slot % 64) - 1)));
    return rank;
}

Agent *Scheduler::runnable_at(std::uint32_t rank) const {
    std::uint32_t word = 0;
    for (;; ++word) {
        const auto here = static_cast<std::uint32_t>(__builtin_popcountll(bits_[word]));
        if (rank < here)
            break;
        rank -= here;
    }
    std::uint64_t bits = bits_[word];
    for (; rank != 0; --rank)
        bits &= bits - 1;
    return slots_[word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits))];
}

Agent *Scheduler::next_from(std::uint32_t slot) const {
    const std::uint32_t rank = slot < slots_.size() ? rank_of(slot) : runnable_;
    return runnable_at(rank < runnable_ ? rank : 0);
}

void Scheduler::record(std::uint32_t taken, std::uint32_t alternatives) {
    if (choices_++ < kRecordedPairs) {
        record_.push_back(taken);
        record_.push_back(alternatives);
    }
}

std::uint32_t Scheduler::from_script(std::uint32_t alternatives) {
    const std::uint32_t wanted = script_at_ < script_.size() ? script_[script_at_] : 0;
    ++script_at_;
    return std::min(wanted, alternatives - 1);
}

Agent *Scheduler::pick(Agent *last) {
    ++picks_;
    if (runnable_ == 0)
        return nullptr;
    const bool stays = last != nullptr && last->state == AgentState::runnable && !last->yielded;
    const std::uint32_t start = stays ? last->slot : cursor_ + 1;
    Agent *chosen = nullptr;
    if (runnable_ == 1 && policy_ != TT_SCHED_LOCKSTEP && policy_ != TT_SCHED_ONE_LANE) {
        chosen = runnable_at(0);
    } else {
        const std::uint32_t base = start < slots_.size() ? rank_of(start) : 0;
        const auto alternative = [&](std::uint32_t k) { return runnable_at((base + k) % runnable_); };
        std::uint32_t taken = 0;
        bool is_free = true;
        switch (policy_) {
        case TT_SCHED_FAIR:
            taken = stays ? 1 : 0;
            chosen = alternative(taken);
            break;
        case TT_SCHED_LOCKSTEP:
            chosen = pick_lockstep();
            break;
        case TT_SCHED_ONE_LANE:
            chosen = pick_one_lane();
            break;
        case TT_SCHED_STARVE_ONE:
            if (picks_ > victim_until_) {
                victim_ = runnable_at(below(runnable_))->slot;
                victim_until_ = picks_ + 64 + below(2048);
            }
            taken = below(runnable_);
            chosen = alternative(taken);
            if (chosen->slot == victim_)
                chosen = alternative(taken + 1);
            break;
        case TT_SCHED_PCT:
            chosen = pick_priority(last);
            break;
        case TT_SCHED_SCRIPT:
            /* Leaving an agent that could go on is a pre-emption; so is any other way round after a pause, or the
             * choices of a spinning agent would swamp the rest. */
            if (bounded_ && (stays || delays_only_ || (last != nullptr && last->yielded)))
                is_free = false;
            if (!is_free && preemptions_left_ == 0) {
                chosen = alternative(0);
                cursor_ = chosen->slot;
                return chosen;
            }
            taken = from_script(runnable_);
            if (!is_free && taken != 0)
                --preemptions_left_;
            chosen = alternative(taken);
            break;
        default:
            chosen = alternative(below(runnable_));
        }
        if (chosen == nullptr)
            return nullptr;
        if (runnable_ > 1) {
            const std::uint32_t rank = rank_of(chosen->slot);
            record(rank >= base ? rank - base : rank + runnable_ - base, runnable_);
        }
    }
    cursor_ = chosen->slot;
    return chosen;
}

Agent *Scheduler::pick_lockstep() {
    while (!round_.empty()) {
        Agent *agent = round_.back();
        round_.pop_back();
        if (agent->state == AgentState::runnable)
            return agent;
    }
    /* The next wave, or the next controller, after the one that stepped last. In a wave the lanes that are furthest
     * behind in the program step, and the others wait for them to arrive: as on hardware that reconverges. */
    std::uint32_t slot = cursor_ + 1;
    if (cursor_ < slots_.size() && slots_[cursor_] != nullptr && slots_[cursor_]->lane != nullptr)
        slot = cursor_ + slots_[cursor_]->lane->wave->count - slots_[cursor_]->lane->bit;
    for (std::uint32_t tried = 0; tried <= slots_.size();) {
        if (slot >= slots_.size())
            slot = 0;
        Agent *agent = slots_[slot];
        if (agent == nullptr || agent->lane == nullptr) {
            if (agent != nullptr && agent->state == AgentState::runnable)
                return agent;
            ++slot;
            ++tried;
            continue;
        }
        const Wave &wave = *agent->lane->wave;
        const auto agent_of = [&](std::uint32_t i) { return static_cast<Agent *>(wave.lanes[i].agent); };
        const auto site_of = [&](std::uint32_t i) { return reinterpret_cast<std::uintptr_t>(wave.lanes[i].site); };
        std::uintptr_t behind = UINTPTR_MAX;
        for (std::uint32_t i = 0; i < wave.count; ++i)
            if (agent_of(i)->state == AgentState::runnable || agent_of(i)->state == AgentState::idle)
                behind = std::min(behind, site_of(i));
        for (std::uint32_t i = wave.count; i-- > 0;)
            if (agent_of(i)->state == AgentState::runnable && site_of(i) == behind)
                round_.push_back(agent_of(i));
        if (!round_.empty()) {
            Agent *first = round_.back();
            round_.pop_back();
            return first;
        }
        const std::uint32_t after = slot + wave.count - agent->lane->bit;
        tried += after - slot;
        slot = after;
    }
    return nullptr;
}

/* Of each wave one lane goes on until it waits for the others at a collective or a barrier, or ends: the worst that a
 * device may do whose lanes make no progress of their own. A pause gives way to other waves only. */
Agent *Scheduler::pick_one_lane() {
    const std::uint32_t first = below(runnable_);
    for (std::uint32_t k = 0; k < runnable_; ++k) {
        Agent *agent = runnable_at((first + k) % runnable_);
        if (agent->lane == nullptr)
            return agent;
        Agent *&holder = holders_[agent->lane->wave];
        if (holder == nullptr || holder->state == AgentState::blocked || holder->state == AgentState::done)
            holder = agent;
        if (holder == agent)
            return agent;
    }
    return nullptr;
}

Agent *Scheduler::pick_priority(Agent *last) {
    if (!change_points_.empty() && picks_ >= change_points_.back()) {
        change_points_.pop_back();
        if (last != nullptr)
            last->priority = lowest_priority_--;
    }
    Agent *highest = nullptr;
    for (std::uint32_t word = 0; word < bits_.size(); ++word)
        for (std::uint64_t bits = bits_[word]; bits != 0; bits &= bits - 1) {
            Agent *agent = slots_[word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bits))];
            if (highest == nullptr || agent->priority > highest->priority)
                highest = agent;
        }
    return highest;
}

void Scheduler::paused(Agent &agent) {
    if (policy_ == TT_SCHED_PCT)
        agent.priority = lowest_priority_--;
}

std::uint32_t Scheduler::choose_read(std::uint32_t alternatives) {
    std::uint32_t taken = 0;
    switch (policy_) {
    case TT_SCHED_FAIR:
        break;
    case TT_SCHED_SCRIPT:
        if (stale_reads_bounded_ && stale_reads_left_ == 0)
            return 0;
        taken = from_script(alternatives);
        if (stale_reads_bounded_ && taken != 0)
            --stale_reads_left_;
        break;
    default:
        if ((random() & 1) != 0)
            taken = below(alternatives);
    }
    record(taken, alternatives);
    return taken;
}

bool Scheduler::close_early() {
    std::uint32_t taken = 0;
    switch (policy_) {
    case TT_SCHED_FAIR:
    case TT_SCHED_LOCKSTEP:
        return false;
    case TT_SCHED_SCRIPT:
        if (bounded_ && preemptions_left_ == 0)
            return false;
        taken = from_script(2);
        if (bounded_ && taken != 0)
            --preemptions_left_;
        break;
    default:
        taken = below(8) == 0 ? 1 : 0;
    }
    record(taken, 2);
    return taken != 0;
}

std::uint64_t Scheduler::copy_choices(std::uint32_t *pairs, std::uint64_t capacity) const {
    const std::uint64_t kept = std::min<std::uint64_t>(record_.size() / 2, capacity);
    if (kept != 0)
        std::copy_n(record_.begin(), kept * 2, pairs);
    return choices_;
}

} // namespace tutti::simt
