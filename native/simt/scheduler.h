/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler of mode `sim`: which agent steps next, and which message a read takes. Every decision with more than
 * one alternative is one choice, recorded, so that a script of choices replays any run.
 *
 * Alternatives of a step are numbered round robin: 0 is the agent that ran last if it can go on and did not pause, else
 * the next one after it. Alternatives of a read: 0 is the newest message.
 */
#ifndef TUTTI_SIMT_SCHEDULER_H
#define TUTTI_SIMT_SCHEDULER_H

#include "simt/agent.h"
#include "tutti/engine.h"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tutti::simt {

class Scheduler {
  public:
    /* Takes new options and starts its choices anew. The script is copied. */
    void configure(const tt_sim_options &options);

    /* Gives `count` agents neighbouring slots, in order. */
    void add(Agent *agents, std::uint32_t count);
    void remove(Agent &agent);
    Agent *agent_at(std::uint32_t slot) const { return slot < slots_.size() ? slots_[slot] : nullptr; }
    void set_runnable(Agent &agent, bool runnable);
    std::uint32_t runnable() const { return runnable_; }

    /* The agent to step next; nullptr when none may. `last` ran last; nullptr if it is gone. */
    Agent *pick(Agent *last);
    std::uint32_t choose_read(std::uint32_t alternatives);
    /* Whether a wave_active group goes on with fewer lanes than could still join. */
    bool close_early();
    /* The agent paused: policies with priorities let others go first. */
    void paused(Agent &agent);

    std::uint64_t choices() const { return choices_; }
    /* Under a script: every choice of it was taken, so that what comes now is new. */
    bool script_is_used_up() const { return script_at_ >= script_.size(); }
    /* What is left of the bounds, and who comes next where nobody is asked. */
    std::uint64_t standing() const {
        return (std::uint64_t{preemptions_left_} << 32 | stale_reads_left_) * 65536 + cursor_;
    }
    const std::vector<std::uint32_t> &recorded() const { return record_; }
    std::uint64_t copy_choices(std::uint32_t *pairs, std::uint64_t capacity) const;

  private:
    std::uint32_t rank_of(std::uint32_t slot) const;
    Agent *runnable_at(std::uint32_t rank) const;
    Agent *next_from(std::uint32_t slot) const;
    Agent *pick_lockstep();
    Agent *pick_priority(Agent *last);
    Agent *pick_one_lane();
    std::uint64_t random();
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>((random() >> 32) * bound >> 32); }
    std::uint32_t from_script(std::uint32_t alternatives);
    void record(std::uint32_t taken, std::uint32_t alternatives);

    std::uint32_t policy_ = TT_SCHED_RANDOM;
    std::uint64_t state_ = 1;
    std::vector<Agent *> slots_;
    std::vector<std::uint64_t> bits_; /* runnable, by slot */
    std::uint32_t runnable_ = 0;
    std::uint32_t cursor_ = 0; /* slot of the agent that ran last */

    std::vector<std::uint32_t> script_;
    std::uint64_t script_at_ = 0;
    std::uint32_t preemptions_left_ = 0;
    bool bounded_ = false;
    std::uint32_t stale_reads_left_ = 0;
    bool stale_reads_bounded_ = false;
    bool delays_only_ = false;
    std::vector<std::uint32_t> record_;
    std::uint64_t choices_ = 0;

    std::vector<Agent *> round_; /* lockstep: lanes of one wave that still step in this round, last first */
    std::uint32_t victim_ = 0;   /* starve one */
    std::uint64_t victim_until_ = 0;
    std::uint64_t picks_ = 0;
    std::vector<std::uint64_t> change_points_; /* PCT, latest first */
    std::uint64_t lowest_priority_ = 0;
    std::unordered_map<const Wave *, Agent *> holders_; /* one lane: who went on last in each wave */
};

} // namespace tutti::simt

#endif
