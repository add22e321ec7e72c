/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/pool.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <sched.h>

namespace tutti::simt {
namespace {

constexpr std::uint64_t kDefaultLimitNs = 60'000'000'000;
#if defined(TUTTI_TSAN)
constexpr std::uint64_t kResidentLanes = 2048; /* ThreadSanitizer takes 0.8 MB a fibre, and 8,128 of them at most */
#else
constexpr std::uint64_t kResidentLanes = 16384;
#endif
constexpr std::uint64_t kReportedPlaces = 4096;

std::uint32_t usable_cpus() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return static_cast<std::uint32_t>(CPU_COUNT(&set));
    return std::max(1u, std::thread::hardware_concurrency());
}

void run_lane(void *argument) {
    Fibre::arrived();
    Lane &lane = *static_cast<Lane *>(argument);
    auto &resident = static_cast<ResidentBlock &>(lane.block->host);
    lane.block->shape.kernel->entry(lane.block->shape.args);
    resident.end(lane);
}

} // namespace

std::uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

void PoolLaunch::fail(int why, const std::string &text) {
    const std::lock_guard lock(trouble_mutex);
    if (outcome.load() != TT_RUN_DONE)
        return;
    message = text;
    outcome.store(why);
}

/* ---- a block on its worker ---- */

ResidentBlock::ResidentBlock(Worker &worker, PoolLaunch &launch, std::uint64_t index, std::vector<Stack> stacks)
    : worker_(worker), launch_(launch), block_(launch.shape, index, std::move(stacks), *this, run_lane, 0),
      ready_(std::make_unique<Lane *[]>(block_.count)) {
    for (std::uint32_t i = 0; i < block_.count; ++i)
        push(block_.lanes[i]);
}

void ResidentBlock::pass(std::uint64_t now_ns) {
    if (!sleeping_.empty())
        wake_sleepers(now_ns);
    if (ready_count_ != 0) {
        turns_left_ = ready_count_ - 1;
        Lane &first = pop();
        ++switches_;
        Fibre::swap(worker_.root(), first.fibre);
        happens_after(this);
    }
    if (block_.open_active != 0)
        close_stale_active();
    if (block_.open_together != 0)
        block_.close_parted();
    if (ready_count_ == 0 && sleeping_.empty() && block_.live != 0 && !block_.close_any_active())
        launch_.fail(TT_RUN_DEADLOCK, "deadlock: every lane of a block waits for another");
}

void ResidentBlock::yield(Lane &self) {
    happens_before(this); /* the worker comes after its lanes; lanes do not come after one another */
    if (turns_left_ != 0 && ready_count_ != 0) {
        --turns_left_;
        ++switches_;
        Lane &next = pop();
        if (self.state == LaneState::ready)
            push(self);
        Fibre::swap(self.fibre, next.fibre);
        return;
    }
    if (self.state == LaneState::ready)
        push(self);
    Fibre::swap(self.fibre, worker_.root());
}

void ResidentBlock::end(Lane &self) {
    {
        std::string error;
        block_.leave(self, error);
        if (!error.empty())
            launch_.fail(TT_RUN_TRAP, error);
    }
    yield(self);
    __builtin_trap(); /* nobody switches to a lane that is done */
}

void ResidentBlock::sleep(Lane &self, std::uint64_t wake_ns) {
    self.at = Primitive::sleep;
    self.wake_ns = wake_ns;
    self.state = LaneState::sleeping;
    sleeping_.push_back(&self);
    yield(self);
}

void ResidentBlock::wake_sleepers(std::uint64_t now_ns) {
    for (std::size_t i = 0; i < sleeping_.size();) {
        Lane &lane = *sleeping_[i];
        if (lane.wake_ns > now_ns) {
            ++i;
            continue;
        }
        sleeping_[i] = sleeping_.back();
        sleeping_.pop_back();
        lane.state = LaneState::ready;
        push(lane);
    }
}

std::uint64_t ResidentBlock::next_wake_ns() const {
    std::uint64_t next = UINT64_MAX;
    for (const Lane *lane : sleeping_)
        next = std::min(next, lane->wake_ns);
    return next;
}

void ResidentBlock::close_stale_active() {
    /* Lanes run one after another here, so a group waits one whole pass for company before it goes on. */
    for (Wave &wave : block_.waves) {
        if (!wave.fresh)
            for (std::size_t i = wave.groups.size(); i-- > 0;)
                if (wave.groups[i].kind == Primitive::wave_active)
                    block_.close_active(wave, i);
        wave.fresh = false;
    }
}

void ResidentBlock::abandon() {
    if (block_.live == 0)
        return;
    std::vector<Place> places;
    collect_places(block_, places);
    const std::lock_guard lock(launch_.trouble_mutex);
    launch_.stuck_lanes += places.size();
    if (launch_.places.size() < kReportedPlaces)
        launch_.places.insert(launch_.places.end(), places.begin(), places.end());
}

/* ---- a worker ---- */

void Worker::admit() {
    std::vector<Ticket> tickets;
    {
        const std::lock_guard lock(pool_.mutex_);
        tickets.swap(inbox);
        mail.store(false, std::memory_order_relaxed);
    }
    for (const Ticket &ticket : tickets) {
        const std::uint32_t lanes = ticket.launch->shape.block_lanes();
        try {
            std::vector<Stack> stacks;
            if (!pool_.stacks_.acquire(lanes, stacks))
                throw std::bad_alloc();
            resident_.push_back(
                std::make_unique<ResidentBlock>(*this, *ticket.launch, ticket.block, std::move(stacks)));
        } catch (const std::bad_alloc &) {
            ticket.launch->fail(TT_RUN_NO_MEMORY, "no memory for the lanes of a block");
            const std::lock_guard lock(pool_.mutex_);
            load_lanes -= lanes;
            pool_.free_lanes_ += lanes;
            pool_.block_ended(*ticket.launch, 1);
            pool_.distribute();
        }
    }
}

void Worker::retire(std::size_t index) {
    ResidentBlock &gone = *resident_[index];
    gone.abandon();
    PoolLaunch &launch = gone.launch();
    const std::uint32_t lanes = gone.block().count;
    const std::uint64_t switches = gone.switches();
    const std::vector<Stack> stacks = std::move(gone.block().stacks);
    resident_[index] = std::move(resident_.back());
    resident_.pop_back();
    pool_.stacks_.release(stacks);
    const std::lock_guard lock(pool_.mutex_);
    load_lanes -= lanes;
    pool_.free_lanes_ += lanes;
    launch.switches += switches;
    pool_.block_ended(launch, 1);
    pool_.distribute();
}

void Worker::idle(std::uint64_t switches, std::uint64_t pauses) {
    if (switches == 0) {
        std::uint64_t wake_ns = UINT64_MAX;
        for (const auto &resident : resident_) {
            if (resident->can_run())
                return;
            wake_ns = std::min({wake_ns, resident->next_wake_ns(), resident->launch().deadline_ns});
        }
        /* Another worker may end the launch meanwhile: look again after a millisecond at the latest. */
        const std::uint64_t now = monotonic_ns();
        if (wake_ns > now) {
            std::unique_lock lock(pool_.mutex_);
            wake.wait_for(lock, std::chrono::nanoseconds(std::min<std::uint64_t>(wake_ns - now, 1'000'000)),
                          [&] { return !inbox.empty() || pool_.stopping_; });
        }
        return;
    }
    /* Every lane only waits: whoever they wait for may need this CPU. */
    idle_passes_ = switches == pauses ? idle_passes_ + 1 : 0;
    if (idle_passes_ >= 4)
        sched_yield();
}

void Worker::run() {
    root_.adopt_thread();
    std::uint64_t now_ns = monotonic_ns();
    for (std::uint32_t round = 0;; ++round) {
        if (mail.load(std::memory_order_relaxed))
            admit();
        if (resident_.empty()) {
            std::unique_lock lock(pool_.mutex_);
            wake.wait(lock, [&] { return !inbox.empty() || pool_.stopping_; });
            if (inbox.empty())
                return;
            continue;
        }
        if (round % 16 == 0 || idle_passes_ != 0)
            now_ns = monotonic_ns();
        std::uint64_t switches = 0;
        std::uint64_t pauses = 0;
        bool asleep = false;
        for (std::size_t i = 0; i < resident_.size();) {
            ResidentBlock &resident = *resident_[i];
            if (now_ns > resident.launch().deadline_ns)
                resident.launch().fail(TT_RUN_LIMIT, "the launch outran its limit of " +
                                                         std::to_string(resident.launch().limit_ns) + " ns");
            if (resident.finished() || resident.launch().outcome.load(std::memory_order_relaxed) != TT_RUN_DONE) {
                retire(i);
                switches += 1;
                continue;
            }
            const std::uint64_t switches_before = resident.switches();
            const std::uint64_t pauses_before = resident.pauses();
            resident.pass(now_ns);
            switches += resident.switches() - switches_before;
            pauses += resident.pauses() - pauses_before;
            asleep = asleep || resident.next_wake_ns() != UINT64_MAX;
            if (!resident.finished())
                ++i;
        }
        idle(switches, pauses);
        if (asleep)
            now_ns = monotonic_ns();
    }
}

/* ---- the pool ---- */

Pool::Pool(std::uint32_t workers) : free_lanes_(kResidentLanes) {
    const std::uint32_t count = workers != 0 ? workers : usable_cpus();
    for (std::uint32_t i = 0; i < count; ++i)
        workers_.push_back(std::make_unique<Worker>(*this));
    try {
        for (const auto &worker : workers_)
            threads_.emplace_back([&w = *worker] { w.run(); });
    } catch (...) {
        stop();
        throw;
    }
}

Pool::~Pool() { stop(); }

void Pool::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        for (const auto &worker : workers_)
            worker->wake.notify_all();
    }
    for (std::thread &thread : threads_)
        thread.join();
}

void Pool::block_ended(PoolLaunch &launch, std::uint64_t n) {
    launch.blocks_left -= n;
    if (launch.blocks_left == 0)
        launch.ended.notify_all();
}

void Pool::distribute() {
    while (!pending_.empty()) {
        PoolLaunch &launch = *pending_.front();
        const std::uint64_t total = launch.shape.blocks();
        if (launch.outcome.load() != TT_RUN_DONE) {
            pending_.pop_front();
            block_ended(launch, total - launch.next_block);
            continue;
        }
        const std::uint64_t lanes = launch.shape.block_lanes();
        while (launch.next_block < total && free_lanes_ >= lanes) {
            Worker &worker = **std::min_element(workers_.begin(), workers_.end(), [](const auto &a, const auto &b) {
                return a->load_lanes < b->load_lanes;
            });
            worker.inbox.push_back({&launch, launch.next_block++});
            worker.load_lanes += lanes;
            free_lanes_ -= lanes;
            worker.mail.store(true, std::memory_order_relaxed);
            worker.wake.notify_one();
        }
        if (launch.next_block < total)
            return;
        pending_.pop_front();
    }
}

int Pool::launch(const tt_module_desc &module, const tt_kernel_desc &kernel, const tt_launch_config &config,
                 void **args, tt_launch_report &report) {
    std::memset(&report, 0, sizeof report);
    PoolLaunch launch;
    launch.shape = {&kernel, config, module.wave_width, args};
    if (const char *why = launch.shape.refusal(module, TT_MODE_THREADS); why != nullptr) {
        report.outcome = TT_RUN_INVALID;
        write_message(report, std::string("invalid launch of ") + kernel.name + ": " + why);
        return TT_RUN_INVALID;
    }
    const std::uint64_t start_ns = monotonic_ns();
    launch.limit_ns = config.limit_ns != 0 ? config.limit_ns : kDefaultLimitNs;
    launch.deadline_ns = launch.limit_ns < UINT64_MAX - start_ns ? start_ns + launch.limit_ns : UINT64_MAX;
    launch.blocks_left = launch.shape.blocks();
    {
        std::unique_lock lock(mutex_);
        pending_.push_back(&launch);
        distribute();
        launch.ended.wait(lock, [&] { return launch.blocks_left == 0; });
    }
    report.outcome = static_cast<std::uint32_t>(launch.outcome.load());
    report.elapsed_ns = monotonic_ns() - start_ns;
    report.steps = launch.switches;
    report.stuck_lanes = static_cast<std::uint32_t>(std::min<std::uint64_t>(launch.stuck_lanes, UINT32_MAX));
    if (report.outcome != TT_RUN_DONE)
        write_message(report, std::string(kernel.name) + ": " + launch.message + ": " + describe_places(launch.places));
    return static_cast<int>(report.outcome);
}

} // namespace tutti::simt
