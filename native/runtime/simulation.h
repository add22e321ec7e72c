// SPDX-License-Identifier: Apache-2.0
//
// A device in mode `sim`: a world, and the streams whose heads run in it. Everything happens in the thread that waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/memory.h"
#include "runtime/status.h"
#include "runtime/stream.h"

namespace ttrt {

class Simulation {
  public:
    explicit Simulation(Device &device);
    Simulation(const Simulation &) = delete;
    Simulation &operator=(const Simulation &) = delete;
    ~Simulation();

    // Tells the world what a range of memory is; twice is once.
    void map(const Range &range);
    void unmap(const Range &range);

    void push(Stream &stream, Operation operation);

    // Runs until `until` holds, or the budget (0: none) is used up, or the device fails. True when `until` holds.
    bool run(const std::function<bool()> &until, uint64_t budget_steps);
    bool idle();
    // No launch is there: lets the controllers work, and the clock go on to their timers.
    void run_controllers(uint64_t budget_steps);

    void copy(void *dst, const void *src, size_t size);
    void fill(void *dst, int value, size_t size);

    Status reset(const tt_sim_options &options);
    tt_sim_options options() const;
    uint64_t now_ns() const;
    uint64_t steps() const;
    uint64_t choices(uint32_t *pairs, uint64_t capacity) const;
    Status host_load(const void *address, uint32_t bytes, uint64_t *value);
    Status host_store(void *address, uint64_t value, uint32_t bytes);
    Status add_controller(const char *name, void (*fn)(void *, tt_port), void *arg, tt_iommu *iommu, uint64_t *agent);
    Status remove_controller(uint64_t agent);
    Status explore(Launch &launch, const tt_explore_task &task, tt_explore_report &report);
    Status ending(uint64_t index, tt_explore_ending &ending) const;
    uint32_t resident_blocks() const { return options_.resident_blocks; }

    static constexpr uint64_t kQuerySteps = 4096;

  private:
    struct Running {
        std::shared_ptr<Stream> stream;
        std::shared_ptr<Launch> launch;
        CompletionRef done;
        uint64_t id;
    };

    void start_ready();
    void finish(size_t index, int outcome, const tt_launch_report &report);
    void drop_all();

    Device &device_;
    mutable std::recursive_mutex mutex_;
    tt_world *world_;
    tt_sim_options options_{};
    std::vector<uint32_t> script_;
    std::vector<std::shared_ptr<Stream>> streams_; // with queued work, in order of their first operation
    std::vector<Running> running_;
    std::vector<uint64_t> agents_;
    bool inside_ = false;
};

} // namespace ttrt
