/* SPDX-License-Identifier: Apache-2.0
 *
 * Mode `threads`: blocks on OS threads, lanes as fibres. A block stays on one worker for its whole life.
 */
#ifndef TUTTI_SIMT_POOL_H
#define TUTTI_SIMT_POOL_H

#include "simt/lane.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti::simt {

std::uint64_t monotonic_ns();

/* One kernel in flight. Lives on the stack of the thread that launched it. */
struct PoolLaunch {
    LaunchShape shape;
    std::uint64_t deadline_ns = 0;
    std::uint64_t limit_ns = 0;
    std::atomic<int> outcome{TT_RUN_DONE}; /* anything else ends the launch */

    /* Ends the launch; the first reason is kept. Thread safe. */
    void fail(int why, const std::string &message);

    /* guarded by the pool's mutex */
    std::uint64_t next_block = 0;
    std::uint64_t blocks_left = 0;
    std::uint64_t switches = 0;
    std::condition_variable ended;

    std::mutex trouble_mutex;
    std::string message;
    std::vector<Place> places;
    std::uint64_t stuck_lanes = 0;
};

class Pool;
class Worker;

/* A block on a worker: which of its lanes can run, and in what order. */
class ResidentBlock final : public LaneHost {
  public:
    ResidentBlock(Worker &worker, PoolLaunch &launch, std::uint64_t index, std::vector<Stack> stacks);

    void wake(Lane &lane) override { push(lane); }
    void barrier_complete(Block &) override {}
    void wave_sync_complete(Wave &) override {}

    /* Runs every lane that is ready once. */
    void pass(std::uint64_t now_ns);
    /* Leaves the running lane; it comes back when it is ready and its turn has come. */
    void yield(Lane &self);
    /* Leaves the running lane for good. */
    [[noreturn]] void end(Lane &self);
    /* The launch is over for everyone: reports the lanes that are left. */
    void abandon();

    void count_pause() { ++pauses_; }
    void sleep(Lane &self, std::uint64_t wake_ns);
    bool finished() const { return block_.live == 0; }
    bool can_run() const { return ready_count_ != 0; }
    std::uint64_t next_wake_ns() const;

    PoolLaunch &launch() { return launch_; }
    Block &block() { return block_; }
    Worker &worker() { return worker_; }
    std::uint64_t switches() const { return switches_; }
    std::uint64_t pauses() const { return pauses_; }

  private:
    void push(Lane &lane) {
        std::uint32_t slot = ready_first_ + ready_count_++;
        if (slot >= block_.count)
            slot -= block_.count;
        ready_[slot] = &lane;
    }
    Lane &pop() {
        Lane *lane = ready_[ready_first_];
        if (++ready_first_ == block_.count)
            ready_first_ = 0;
        --ready_count_;
        return *lane;
    }
    void wake_sleepers(std::uint64_t now_ns);
    void close_stale_active();

    Worker &worker_;
    PoolLaunch &launch_;
    Block block_;
    std::unique_ptr<Lane *[]> ready_; /* a ring of at most block_.count lanes */
    std::uint32_t ready_first_ = 0;
    std::uint32_t ready_count_ = 0;
    std::uint32_t turns_left_ = 0; /* lanes that may still be switched to in this pass */
    std::vector<Lane *> sleeping_;
    std::uint64_t switches_ = 0;
    std::uint64_t pauses_ = 0;
};

class Worker {
  public:
    explicit Worker(Pool &pool) : pool_(pool) {}
    void run();
    Fibre &root() { return root_; }

    /* guarded by the pool's mutex */
    struct Ticket {
        PoolLaunch *launch;
        std::uint64_t block;
    };
    std::vector<Ticket> inbox;
    std::uint64_t load_lanes = 0;
    std::condition_variable wake;
    std::atomic<bool> mail{false};

  private:
    void admit();
    void retire(std::size_t index);
    void idle(std::uint64_t switches, std::uint64_t pauses);

    Pool &pool_;
    Fibre root_;
    std::vector<std::unique_ptr<ResidentBlock>> resident_;
    std::uint32_t idle_passes_ = 0;
};

class Pool {
  public:
    explicit Pool(std::uint32_t workers);
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    int launch(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config, void **args,
               tt_launch_report &report);

  private:
    friend class Worker;
    void stop();
    void distribute();                                     /* with the mutex held */
    void block_ended(PoolLaunch &launch, std::uint64_t n); /* with the mutex held */

    std::mutex mutex_;
    bool stopping_ = false;
    std::deque<PoolLaunch *> pending_;
    std::uint64_t free_lanes_;
    StackPool stacks_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::thread> threads_;
};

const tt_device_api &threads_device_api();

} // namespace tutti::simt

#endif
