/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode `sim`: one world of agents on one OS thread. Agents step by calling step(); everything that ends, begins or
 * waits for time is done on the fibre of the caller of run(), the root.
 */
#ifndef TUTTI_SIMT_WORLD_H
#define TUTTI_SIMT_WORLD_H

#include "simt/agent.h"
#include "simt/explorer.h"
#include "simt/memory.h"
#include "simt/scheduler.h"

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

namespace tutti::simt {

constexpr std::uint32_t kPauseNs = 40;

inline std::uint64_t ps_of(std::uint64_t ns) { return ns < UINT64_MAX / 1000 ? ns * 1000 : UINT64_MAX; }

class World final : public ReadChooser {
  public:
    explicit World(const tt_sim_options &options);
    ~World() override;
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    static bool valid(const tt_sim_options &options);
    /* EBUSY while launches are live. */
    int reset(const tt_sim_options &options);

    int launch(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config, void **args,
               std::uint64_t &id);
    int run(std::uint64_t id, std::uint64_t budget_steps, tt_launch_report &report);
    std::uint64_t add_controller(const char *name, void (*fn)(void *, tt_port), void *argument, tt_iommu *iommu);
    int remove_controller(std::uint64_t serial);
    /* Runs a launch once for each schedule that the task's options allow. EBUSY while anything is in the world. */
    int explore(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config, void **args,
                const tt_explore_task &task, tt_explore_report &report);
    const std::vector<Ending> &endings() const { return endings_; }
    std::uint64_t host_load(std::uint64_t address, std::uint32_t bytes);
    void host_store(std::uint64_t address, std::uint64_t value, std::uint32_t bytes);

    bool explores() const { return explorer_ != nullptr; }

    Memory &memory() { return memory_; }
    const Memory &memory() const { return memory_; }
    const Scheduler &scheduler() const { return scheduler_; }
    std::uint64_t now_ns() const { return clock_ps_ / 1000; }
    std::uint64_t steps() const { return steps_; }
    std::uint32_t choose_read(Agent &, std::uint32_t alternatives) override {
        return scheduler_.choose_read(alternatives);
    }

    /* ---- called on an agent's own fibre ---- */

    /* A scheduling point: the effect of a primitive comes after it. */
    void step(Agent &self, std::uint32_t cost_ns);
    /* One that nobody else can notice, and that notices nobody else. */
    void step_alone(Agent &self, std::uint32_t cost_ns);
    /* One that reads or writes words of memory. */
    void step_to(Agent &self, std::uint32_t cost_ns, std::uint64_t address, std::uint32_t bytes, bool writes) {
        if (explorer_ == nullptr || explorer_->meets(self.serial, address >> 2, bytes / 4, writes))
            step(self, cost_ns);
        else
            step_alone(self, cost_ns);
    }
    /* A controller's transfer: what it touches is shared with the lanes that touch it. */
    void moved(Agent &self, std::uint64_t address, std::uint64_t bytes, bool writes) {
        if (explorer_ != nullptr)
            explorer_->meets(self.serial, address >> 2, static_cast<std::uint32_t>((bytes + 3) / 4), writes);
    }
    void pause(Agent &self);
    void sleep(Agent &self, std::uint64_t wake_ns);
    /* Leaves until somebody wakes the agent. */
    void block(Agent &self, AgentState state);
    void block_lane(Agent &self) {
        self.lane->state = LaneState::blocked;
        block(self, AgentState::blocked);
    }
    /* A lane in an incomplete wave_active group: leaves until the group is complete, or has waited long enough. */
    void wait_for_company(Agent &self);
    [[noreturn]] void end_lane(Agent &self);
    bool close_early() { return scheduler_.close_early(); }
    void fail(SimLaunch &launch, int outcome, std::string message);
    /* Tells idle agents when the last effect changed anything. */
    void note_change() {
        if (!idle_.empty() && memory_.changes() != changes_)
            wake_idle();
    }
    void register_changed();
    /* A controller's wait_until; true: it is asked to stop. */
    bool wait(Controller &controller, std::uint64_t deadline_ns);

    /* ---- called by blocks ---- */
    void wake(Agent &agent);
    void joined(Agent *const *agents, std::size_t count) { memory_.barrier(agents, count); }
    bool barrier_orders_memory() const { return options_.barrier_orders_memory != 0; }
    bool wave_sync_orders_memory() const { return options_.wave_sync_orders_memory != 0; }

  private:
    struct Timer {
        std::uint64_t wake_ns;
        std::uint32_t slot;
        std::uint32_t serial;
        bool operator>(const Timer &other) const {
            return wake_ns != other.wake_ns ? wake_ns > other.wake_ns : serial > other.serial;
        }
    };

    void configure(const tt_sim_options &options);
    void advance(std::uint32_t cost_ns);
    Agent *next();
    Trace state_of_all() const;
    bool was_here_before();
    int explore_once(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config,
                     void **args, const tt_explore_task &task, tt_launch_report &report);
    void leave(Agent &self, Agent *to);
    void set_timer(Agent &agent);
    void fire_timers();
    void wake_idle();
    void nothing_can_run();
    bool waits_for_a_store(const SimLaunch &launch) const;
    void spend_budget();
    void housekeeping();
    void admit();
    bool admit_block(SimLaunch &launch);
    void retire_block(SimLaunch &launch, std::size_t index);
    void end_launch(std::size_t index);
    void forget();
    static void forget_agent(Agent &agent);
    void find_next_stop();
    void close_stuck_active(Lane &lane);
    void close_due_active();
    std::string places_of(const SimLaunch &launch, std::uint32_t &stuck) const;

    tt_sim_options options_{};
    Scheduler scheduler_;
    Agent host_;
    Memory memory_;
    StackPool stacks_;
    Fibre root_;
    Agent *current_ = nullptr;
    Explorer *explorer_ = nullptr; /* while explore() runs */
    std::vector<Ending> endings_;  /* of the last exploration */
    Agent *exclusive_ = nullptr;   /* a controller that is being removed: only it runs */

    std::vector<std::unique_ptr<SimLaunch>> live_;
    std::map<std::uint64_t, tt_launch_report> ended_;
    std::vector<std::unique_ptr<Controller>> controllers_;
    std::vector<std::unique_ptr<OwnStack>> spare_stacks_; /* of controllers that ended */
    View ended_view_;
    std::uint64_t last_launch_ = 0;
    std::uint32_t last_serial_ = 0;
    std::uint32_t last_block_ = 0;
    std::uint32_t resident_lanes_ = 0;
    std::uint32_t resident_blocks_ = 0;

    std::uint64_t clock_ps_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t budget_end_ = UINT64_MAX;
    std::uint64_t stop_step_ = UINT64_MAX; /* the root must look at step counts then */
    std::uint64_t stop_ps_ = UINT64_MAX;   /* the root must look at deadlines then */
    std::uint64_t timer_ps_ = UINT64_MAX;
    std::uint64_t active_ps_ = UINT64_MAX; /* no wave_active group is due before */
    bool attention_ = false;               /* the root has something to do */
    bool host_is_due_ = false;             /* run() returned because only a store of the host wakes anybody */
    std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
    std::vector<Agent *> idle_;
    Sequence changes_ = 0;
    std::uint64_t register_changes_ = 0;
};

const tt_device_api &sim_device_api();
tt_port sim_port(Controller &controller);

} // namespace tutti::simt

#endif
