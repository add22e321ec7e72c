// SPDX-License-Identifier: Apache-2.0
#include "controller/controller.h"

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>

#include "controller/direct_port.h"

namespace tutti::controller {

namespace {

constexpr uint64_t kDefaultCacheBytes = 64ULL << 20;
constexpr uint32_t kIdleTurns = 4;

void check(bool holds, const char *field) {
    if (!holds)
        throw Refusal(TT_CTRL_INVALID, std::string(field) + " is out of its range");
}

void in_range(uint64_t value, uint64_t low, uint64_t high, const char *field) {
    if (value < low || value > high)
        throw Refusal(TT_CTRL_INVALID, std::string(field) + " is " + std::to_string(value) + ", and must be " +
                                           std::to_string(low) + " to " + std::to_string(high));
}

tt_controller_config checked(tt_controller_config config) {
    in_range(config.kind, 0, TT_KIND_NULL, "kind");
    in_range(config.mqes, 1, 65535, "mqes");
    in_range(config.dstrd, 0, 8, "dstrd");
    in_range(config.mpsmin, 0, 4, "mpsmin");
    check(config.mpsmax >= config.mpsmin && config.mpsmax <= 8, "mpsmax");
    in_range(config.mdts, 0, 20, "mdts");
    in_range(config.cqr, 0, 1, "cqr");
    in_range(config.timeout_500ms, 1, 255, "timeout_500ms");
    in_range(config.io_queues, 1, 1024, "io_queues");
    in_range(config.interrupt_vectors, 1, 2048, "interrupt_vectors");
    check((config.sgls & ~0xF0003u) == 0 && (config.sgls & 3) != 3, "sgls");
    check((config.sgls & 3) != 0 || config.sgls == 0, "sgls");
    in_range(config.volatile_cache, 0, TT_CACHE_MODELLED, "volatile_cache");
    in_range(config.aerl, 0, 255, "aerl");
    in_range(config.order, 0, TT_ORDER_STARVE, "order");
    in_range(config.fetch_batch, 0, 64, "fetch_batch");
    in_range(config.slow_ppm, 0, 1'000'000, "slow_ppm");
    in_range(config.file_workers, 0, 64, "file_workers");
    check(config.namespace_count <= 1024 && (config.namespace_count == 0 || config.namespaces != nullptr),
          "namespace_count");
    check(config.serial == nullptr || std::string(config.serial).size() <= 20, "serial");
    if (config.order_window == 0)
        config.order_window = 16;
    if (config.cqe_batch == 0)
        config.cqe_batch = 1;
    if (config.fetch_batch == 0)
        config.fetch_batch = 32;
    if (config.file_workers == 0)
        config.file_workers = 2;
    if (config.cache_bytes == 0)
        config.cache_bytes = kDefaultCacheBytes;
    return config;
}

std::unique_ptr<Namespace> open_namespace(const tt_namespace_config &config, bool durable) {
    check(config.struct_size == sizeof(tt_namespace_config), "namespace struct_size");
    in_range(config.nsid, 1, 0xFFFFFFFE, "nsid");
    in_range(config.lba_shift, 9, 16, "lba_shift");
    check(config.metadata_bytes == 0 || config.metadata_bytes == 8 || config.metadata_bytes == 64, "metadata_bytes");
    in_range(config.metadata_inline, 0, 1, "metadata_inline");
    check((config.protection & ~0xBu) == 0 && (config.protection == 0 || config.metadata_bytes != 0) &&
              config.protection != 8,
          "protection");
    in_range(config.format_index, 0, 63, "format_index");
    in_range(config.read_only, 0, 1, "read_only");
    in_range(config.direct, 0, TT_DIRECT_OFF, "direct");
    switch (config.kind) {
    case TT_NS_MEMORY:
        return open_memory_namespace(config);
    case TT_NS_FILE:
        return open_file_namespace(config, durable);
    default:
        throw Refusal(TT_CTRL_INVALID, "namespace kind is out of its range");
    }
}

} // namespace

Status run_io_guarded(Controller &controller, IoContext &context, Command &command) {
    try {
        return run_io(controller, context, command);
    } catch (const std::bad_alloc &) {
        return status::kInternal;
    }
}

Controller::Controller(const tt_controller_config &config, tt_iommu &iommu)
    : config_(checked(config)), serial_(config.serial == nullptr ? "TUTTI0001" : config.serial), iommu_(iommu),
      queue_counters_(std::make_unique<QueueCounters[]>(config_.io_queues + 1)), faults_(config_.seed),
      registers_(*this), admin_(*this), workers_(*this) {
    for (uint32_t i = 0; i < config_.namespace_count; ++i) {
        auto ns = open_namespace(config_.namespaces[i], config_.volatile_cache == TT_CACHE_NONE);
        if (config_.volatile_cache == TT_CACHE_MODELLED)
            ns->cache().enable(config_.cache_bytes);
        any_blocking_ = any_blocking_ || ns->blocking();
        namespaces_.push_back(std::move(ns));
    }
    config_.namespaces = nullptr; // the caller's; each namespace keeps its own
    config_.serial = nullptr;
    std::sort(namespaces_.begin(), namespaces_.end(),
              [](const auto &a, const auto &b) { return a->nsid() < b->nsid(); });
    const auto twice = std::adjacent_find(namespaces_.begin(), namespaces_.end(),
                                          [](const auto &a, const auto &b) { return a->nsid() == b->nsid(); });
    if (twice != namespaces_.end())
        throw Refusal(TT_CTRL_INVALID, "two namespaces have id " + std::to_string((*twice)->nsid()));
    write_back_ = config_.volatile_cache != TT_CACHE_NONE;
    make_shards(1);
}

Controller::~Controller() {
    stop();
    sync_namespaces();
}

void Controller::make_shards(uint32_t count) {
    if (count == shards_.size())
        return;
    std::vector<std::unique_ptr<Shard>> shards;
    if (!shards_.empty())
        shards.push_back(std::move(shards_.front())); // with the admin queue
    while (shards.size() < count)
        shards.push_back(std::make_unique<Shard>(*this, static_cast<uint32_t>(shards.size())));
    for (size_t i = 1; i < shards_.size(); ++i)
        shards.front()->take_counters(*shards_[i]);
    shards_ = std::move(shards);
}

Namespace *Controller::find_namespace(uint32_t nsid) const {
    const auto found = std::lower_bound(namespaces_.begin(), namespaces_.end(), nsid,
                                        [](const auto &ns, uint32_t id) { return ns->nsid() < id; });
    return found != namespaces_.end() && (*found)->nsid() == nsid ? found->get() : nullptr;
}

uint64_t Controller::transfer_limit() const {
    return config_.mdts == 0 ? 0 : 1ULL << (config_.mdts + 12 + config_.mpsmin);
}

// ---- running ----

void Controller::start(uint32_t threads) {
    const std::lock_guard lock(control_mutex_);
    if (running_.load() != 0)
        throw Refusal(TT_CTRL_BUSY, "the controller runs already");
    in_range(threads, 1, 64, "threads");
    if (threads != shards_.size()) {
        if (admin_.has_io_queues())
            throw Refusal(TT_CTRL_BUSY, "I/O queues exist: start it with as many threads as before");
        make_shards(threads);
    }
    ports_.clear();
    for (uint32_t i = 0; i < threads; ++i)
        ports_.push_back(std::make_unique<tt_direct_port>(iommu_));
    // Signals are for the threads of the caller: Ctrl-C must find the interpreter, not this loop.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        if (any_blocking_)
            workers_.start(config_.file_workers);
        running_.store(threads);
        for (uint32_t i = 0; i < threads; ++i)
            threads_.emplace_back([this, i] {
                prctl(PR_SET_TIMERSLACK, 1000); // short sleeps shall be short
                loop_guarded(i, ports_[i]->view());
            });
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        for (const auto &port : ports_)
            port->stop();
        for (std::thread &thread : threads_)
            thread.join();
        threads_.clear();
        workers_.stop();
        running_.store(0);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Controller::stop() {
    const std::lock_guard lock(control_mutex_);
    for (const auto &port : ports_)
        port->stop();
    for (std::thread &thread : threads_)
        thread.join();
    threads_.clear();
    workers_.stop(); // what they finished waits in the shards for the next start
    if (!ports_.empty())
        running_.store(0);
    ports_.clear();
}

void Controller::run(tt_port port) {
    uint32_t idle = 0;
    if (shards_.size() != 1 || !running_.compare_exchange_strong(idle, 1))
        return;
    loop_guarded(0, port);
    running_.store(0);
}

void Controller::loop_guarded(uint32_t index, tt_port port) {
    try {
        loop(index, Port(port));
    } catch (const std::bad_alloc &) {
        fail(true);
    }
}

void Controller::loop(uint32_t index, const Port &port) {
    Shard &shard = *shards_[index];
    const bool shared = shards_.size() > 1;
    uint32_t idle = 0;
    for (;;) {
        uint64_t deadline = 0;
        {
            std::unique_lock<std::mutex> lock;
            if (shared) {
                while (shard.wanted.load(std::memory_order_acquire))
                    std::this_thread::yield(); // a mutex alone may never let the admin thread in
                lock = std::unique_lock(shard.mutex);
            }
            bool moved = false;
            if (index == 0) {
                if (cut_wanted_.load(std::memory_order_acquire))
                    cut_power(port);
                moved |= registers_.turn(port);
            }
            moved |= shard.turn(port);
            if (index == 0)
                moved |= admin_.turn(port);
            // A register may hold several values that arrived, the same one twice among them: look again before
            // sleeping.
            idle = moved ? 0 : idle + 1;
            if (idle > kIdleTurns) {
                deadline = shard.deadline();
                if (index == 0)
                    deadline = std::min(deadline, registers_.deadline());
            }
        }
        if (!port.wait_until(deadline))
            return;
    }
}

// ---- enable, reset, power ----

void Controller::fail(bool stop) {
    fatal_.store(true, std::memory_order_release);
    if (stop) {
        stopped_.store(true);
        serving_.store(false, std::memory_order_release);
    }
}

void Controller::create_admin_queues(const Port &port, uint64_t asq, uint32_t sq_entries, uint64_t acq,
                                     uint32_t cq_entries) {
    Shard &shard = *shards_.front();
    auto cq = std::make_unique<CompletionQueue>(uint16_t{0}, cq_entries, QueueMemory(acq, kCqeBytes));
    cq->users = 1;
    auto sq = std::make_unique<SubmissionQueue>(uint16_t{0}, sq_entries, QueueMemory(asq, kSqeBytes), cq.get());
    registers_.open_doorbell(port, 0);
    registers_.open_doorbell(port, 1);
    queue_counters_[0].depth.store(sq_entries, std::memory_order_relaxed);
    shard.add(std::move(cq));
    shard.add(std::move(sq));
}

void Controller::drop_commands(const Port &) {
    admin_.drop_commands();
    for (const auto &shard : shards_)
        with_shard(*shard, [](Shard &locked) { locked.drop_commands(); });
}

bool Controller::drained(const Port &port) {
    bool empty = true;
    for (const auto &shard : shards_)
        with_shard(*shard, [&](Shard &locked) {
            locked.turn(port); // serves nothing, and takes back what workers finished
            empty = empty && locked.jobs() == 0;
        });
    return empty;
}

void Controller::reset(const Port &port) {
    drop_commands(port);
    for (const auto &shard : shards_)
        with_shard(*shard, [](Shard &locked) { locked.drop_queues(); });
    for (uint32_t qid = 0; qid <= config_.io_queues; ++qid) {
        registers_.open_doorbell(port, 2 * qid); // to zero
        registers_.open_doorbell(port, 2 * qid + 1);
        registers_.close_doorbell(2 * qid, 0);
        registers_.close_doorbell(2 * qid + 1, 0);
        QueueCounters &counters = queue_counters_[qid];
        counters.depth.store(0, std::memory_order_relaxed);
        counters.sq_doorbells.clear();
        counters.cq_doorbells.clear();
        counters.commands.clear();
        counters.completions.clear();
    }
    events_.clear();
    admin_.reset();
    set_write_back(config_.volatile_cache != TT_CACHE_NONE);
    stopped_.store(false);
    fatal_.store(false, std::memory_order_release);
    shards_.front()->counters.resets.add();
}

void Controller::sync_namespaces() {
    for (const auto &ns : namespaces_)
        if (ns->sync() == 0)
            ns->cache().settle_all();
}

void Controller::power_cut(uint64_t seed, uint32_t survive_ppm) {
    const std::lock_guard lock(control_mutex_);
    cut_seed_ = seed;
    cut_survive_ppm_ = survive_ppm;
    if (running_.load() == 0) {
        tt_direct_port port(iommu_);
        cut_power(Port(port.view()));
        return;
    }
    cut_wanted_.store(true, std::memory_order_release);
    while (!threads_.empty() && cut_wanted_.load(std::memory_order_acquire))
        std::this_thread::yield();
}

void Controller::cut_power(const Port &port) {
    set_serving(false);
    drop_commands(port);
    while (!drained(port))
        std::this_thread::yield();
    reset(port);
    for (const auto &ns : namespaces_)
        ns->cache().lose(*ns, cut_seed_ ^ ns->nsid(), cut_survive_ppm_);
    gone_.store(false, std::memory_order_release);
    ready_stuck_.store(false, std::memory_order_release);
    registers_.power_on(port);
    shards_.front()->counters.power_cuts.add();
    cut_wanted_.store(false, std::memory_order_release);
}

void Controller::read_counters(tt_controller_counters &out) const {
    out.threads = running_.load(std::memory_order_relaxed);
    for (const auto &shard : shards_) {
        const Counters &in = shard->counters;
        for (int i = 0; i < 256; ++i) {
            out.admin_commands[i] += in.admin_commands[i].get();
            out.io_commands[i] += in.io_commands[i].get();
        }
        out.sqes_fetched += in.sqes_fetched.get();
        out.fetches += in.fetches.get();
        out.cqes_posted += in.cqes_posted.get();
        out.cqes_lost += in.cqes_lost.get();
        out.errors += in.errors.get();
        out.bytes_read += in.bytes_read.get();
        out.bytes_written += in.bytes_written.get();
        out.sq_doorbells += in.sq_doorbells.get();
        out.cq_doorbells += in.cq_doorbells.get();
        out.bad_doorbells += in.bad_doorbells.get();
        out.cq_full_waits += in.cq_full_waits.get();
        out.faults += in.faults.get();
        out.resets += in.resets.get();
        out.power_cuts += in.power_cuts.get();
        out.restored_registers += in.restored_registers.get();
    }
}

} // namespace tutti::controller
