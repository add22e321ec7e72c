// SPDX-License-Identifier: Apache-2.0
//
// The controller: what its shards share, and the order in which they are stopped and reset.
#ifndef TUTTI_CONTROLLER_CONTROLLER_H
#define TUTTI_CONTROLLER_CONTROLLER_H

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "controller/admin.h"
#include "controller/events.h"
#include "controller/faults.h"
#include "controller/iommu.h"
#include "controller/namespace.h"
#include "controller/registers.h"
#include "controller/shard.h"
#include "controller/workers.h"
#include "tutti/controller.h"

struct tt_direct_port;

namespace tutti::controller {

// run_io, with running out of memory as a status.
Status run_io_guarded(Controller &controller, IoContext &context, Command &command);

class Controller {
  public:
    Controller(const tt_controller_config &config, tt_iommu &iommu); // throws Refusal
    ~Controller();
    Controller(const Controller &) = delete;
    Controller &operator=(const Controller &) = delete;

    // -- the outside --
    void start(uint32_t threads); // throws Refusal
    void stop();
    void run(tt_port port);
    uint32_t threads() const { return running_.load(std::memory_order_relaxed); }
    void power_cut(uint64_t seed, uint32_t survive_ppm);
    void read_counters(tt_controller_counters &counters) const;

    // -- what parts ask each other --
    const tt_controller_config &config() const { return config_; }
    const std::string &serial() const { return serial_; }
    tt_iommu &iommu() const { return iommu_; }
    Registers &registers() { return registers_; }
    Admin &admin() { return admin_; }
    Workers &workers() { return workers_; }
    FaultTable &faults() { return faults_; }
    Events &events() { return events_; }
    ErrorLog &errors() { return errors_; }
    Shard &shard(uint32_t index) { return *shards_[index]; }
    Shard &shard_of_cq(uint16_t cqid) { return *shards_[cqid == 0 ? 0 : (cqid - 1u) % shards_.size()]; }
    uint32_t shard_count() const { return static_cast<uint32_t>(shards_.size()); }
    QueueCounters &queue_counters(uint32_t qid) { return queue_counters_[qid]; }
    const std::vector<std::unique_ptr<Namespace>> &namespaces() const { return namespaces_; }
    Namespace *find_namespace(uint32_t nsid) const;
    uint32_t highest_nsid() const { return namespaces_.empty() ? 0 : namespaces_.back()->nsid(); }
    bool any_blocking() const { return any_blocking_; }
    uint64_t page_bytes() const { return page_bytes_; }
    uint64_t transfer_limit() const; // bytes, 0: none
    bool write_back() const { return write_back_.load(std::memory_order_relaxed); }
    void set_write_back(bool on) { write_back_.store(on, std::memory_order_relaxed); }
    bool entry_sizes_fit_sq() const { return iosqes_ == 6; }
    bool entry_sizes_fit_cq() const { return iocqes_ == 4; }

    // Calls `use` with the shard's lock held. Only from the thread that serves shard 0, which holds that one already.
    template <typename Use> auto with_shard(Shard &shard, Use use) {
        std::unique_lock<std::mutex> lock;
        if (&shard != shards_.front().get()) {
            shard.wanted.store(true, std::memory_order_release);
            lock = std::unique_lock(shard.mutex);
            shard.wanted.store(false, std::memory_order_release);
        }
        return use(shard);
    }

    bool serving() const { return serving_.load(std::memory_order_acquire); }
    void set_serving(bool serving) { serving_.store(serving && !stopped_.load(), std::memory_order_release); }
    // CSTS.CFS; with `stop` nothing is served until a reset.
    void fail(bool stop);
    bool fatal() const { return fatal_.load(std::memory_order_acquire); }
    void vanish() {
        gone_.store(true, std::memory_order_release);
        serving_.store(false, std::memory_order_release);
    }
    bool gone() const { return gone_.load(std::memory_order_acquire); }
    bool ready_stuck() const { return ready_stuck_.load(std::memory_order_acquire); }
    void stick_ready() { ready_stuck_.store(true, std::memory_order_release); }

    // -- for the registers: enable and reset --
    void set_page_bytes(uint64_t bytes) { page_bytes_ = bytes; }
    void set_entry_sizes(uint32_t sqes, uint32_t cqes) {
        iosqes_ = sqes;
        iocqes_ = cqes;
    }
    void create_admin_queues(const Port &port, uint64_t asq, uint32_t sq_entries, uint64_t acq, uint32_t cq_entries);
    void drop_commands(const Port &port);
    bool drained(const Port &port); // no worker holds a command
    void reset(const Port &port);
    void sync_namespaces();

  private:
    void loop(uint32_t index, const Port &port);
    void loop_guarded(uint32_t index, tt_port port);
    void make_shards(uint32_t count);
    void cut_power(const Port &port);

    tt_controller_config config_;
    std::string serial_;
    tt_iommu &iommu_;
    std::vector<std::unique_ptr<Namespace>> namespaces_; // by nsid
    bool any_blocking_ = false;
    std::unique_ptr<QueueCounters[]> queue_counters_;
    FaultTable faults_;
    Events events_;
    ErrorLog errors_;
    Registers registers_;
    std::vector<std::unique_ptr<Shard>> shards_;
    Admin admin_;
    Workers workers_;

    uint64_t page_bytes_ = 4096;
    uint32_t iosqes_ = 0;
    uint32_t iocqes_ = 0;
    std::atomic<bool> write_back_{false};
    std::atomic<bool> serving_{false};
    std::atomic<bool> stopped_{false}; // by a fatal fault
    std::atomic<bool> fatal_{false};
    std::atomic<bool> gone_{false};
    std::atomic<bool> ready_stuck_{false};

    std::mutex control_mutex_; // start, stop, power_cut against each other
    std::atomic<uint32_t> running_{0};
    std::atomic<bool> cut_wanted_{false};
    uint64_t cut_seed_ = 0;
    uint32_t cut_survive_ppm_ = 0;
    std::vector<std::unique_ptr<tt_direct_port>> ports_;
    std::vector<std::thread> threads_;
};

} // namespace tutti::controller

#endif
