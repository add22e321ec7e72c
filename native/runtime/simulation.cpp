// SPDX-License-Identifier: Apache-2.0
#include "runtime/simulation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "runtime/device.h"

namespace ttrt {
namespace {

// While several launches are in the world, each is looked at this often, so that the stream of one that ended goes on.
constexpr uint64_t kSliceSteps = 512;

uint32_t world_kind(const Range &range) {
    if (range.kind == Kind::device) {
        return TT_MEM_DEVICE;
    }
    return range.kind == Kind::registered && (range.flags & ttrtHostRegisterIoMemory) != 0 ? TT_MEM_MMIO : TT_MEM_HOST;
}

// The widest access that keeps `address` aligned and within `left` bytes.
uint32_t access_bytes(uintptr_t address, size_t left) {
    for (const uint32_t bytes : {8u, 4u, 2u}) {
        if (address % bytes == 0 && left >= bytes) {
            return bytes;
        }
    }
    return 1;
}

} // namespace

Simulation::Simulation(Device &device) : device_(device) {
    options_.struct_size = sizeof options_;
    options_.policy = TT_SCHED_FAIR;
    options_.barrier_orders_memory = 1;
    options_.wave_sync_orders_memory = 1;
    world_ = tt_world_create(&options_);
    if (world_ == nullptr) {
        throw std::bad_alloc();
    }
    const int ordinal = device.ordinal();
    for (const Range &range : device.machine().memory().ranges([&](const Range &r) {
             return r.device == ordinal || r.kind == Kind::host || r.kind == Kind::registered;
         })) {
        map(range);
    }
}

Simulation::~Simulation() { tt_world_destroy(world_); }

void Simulation::map(const Range &range) {
    const std::lock_guard lock(mutex_);
    tt_world_map(world_, reinterpret_cast<void *>(range.base), range.reserved, world_kind(range));
}

void Simulation::unmap(const Range &range) {
    const std::lock_guard lock(mutex_);
    tt_world_unmap(world_, reinterpret_cast<void *>(range.base));
}

void Simulation::push(Stream &stream, Operation operation) {
    const std::lock_guard lock(mutex_);
    auto self = stream.shared_from_this();
    if (std::find(streams_.begin(), streams_.end(), self) == streams_.end()) {
        streams_.push_back(std::move(self));
    }
    stream.queue.push_back(std::move(operation));
}

void Simulation::run_controllers(uint64_t budget_steps) {
    const std::lock_guard lock(mutex_);
    tt_launch_report report{};
    tt_world_run(world_, 0, budget_steps, &report);
}

bool Simulation::idle() {
    const std::lock_guard lock(mutex_);
    start_ready();
    return streams_.empty();
}

// Runs every operation whose turn has come, and puts every launch whose turn has come into the world.
void Simulation::start_ready() {
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < streams_.size(); ++i) {
            Stream &stream = *streams_[i];
            while (!stream.queue.empty() && !stream.in_world) {
                Operation &head = stream.queue.front();
                const bool ready =
                    std::all_of(head.waits.begin(), head.waits.end(), [](const CompletionRef &w) { return w->done(); });
                if (!ready) {
                    break;
                }
                moved = true;
                const bool skip = !device_.failure().ok() && !head.always;
                if (head.launch != nullptr && !skip) {
                    uint64_t id = 0;
                    Launch &launch = *head.launch;
                    const int refused = tt_world_launch(world_, &launch.module->desc(), launch.kernel, &launch.config,
                                                        launch.args.data(), &id);
                    stream.in_world = true;
                    running_.push_back({streams_[i], head.launch, head.done, id});
                    if (refused != 0) {
                        tt_launch_report report{};
                        report.outcome = static_cast<uint32_t>(refused);
                        if (refused == TT_RUN_INVALID) {
                            tt_world_run(world_, id, 1, &report); // the engine keeps why
                        }
                        finish(running_.size() - 1, refused, report);
                    }
                    continue;
                }
                if (head.run && !skip) {
                    head.run();
                }
                head.done->set(tt_world_now_ns(world_));
                stream.queue.pop_front();
            }
        }
    }
    std::erase_if(streams_, [](const std::shared_ptr<Stream> &s) { return s->queue.empty(); });
}

// The launch at the head of its stream has ended.
void Simulation::finish(size_t index, int outcome, const tt_launch_report &report) {
    const Running ended = running_[index];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    device_.judge(*ended.launch, outcome, report);
    ended.stream->in_world = false;
    ended.stream->queue.pop_front();
    ended.done->set(tt_world_now_ns(world_));
}

// The device has failed: what is queued will not run, and nobody may wait for it for ever. What is in the world ends by
// itself, for every launch is bounded.
void Simulation::drop_all() {
    if (!running_.empty()) {
        tt_launch_report report{};
        tt_world_run(world_, 0, 0, &report);
    }
    for (const Running &running : running_) {
        running.stream->in_world = false;
        running.stream->queue.pop_front();
        running.done->set(tt_world_now_ns(world_));
    }
    running_.clear();
    start_ready();
}

bool Simulation::run(const std::function<bool()> &until, uint64_t budget_steps) {
    const std::lock_guard lock(mutex_);
    if (inside_) {
        throw Refusal(fail(ttrtErrorNotPermitted, "a host function of a stream must not call into the runtime"));
    }
    struct Inside {
        bool &flag;
        explicit Inside(bool &f) : flag(f) { flag = true; }
        ~Inside() { flag = false; }
    } guard(inside_);

    const uint64_t begin = tt_world_steps(world_);
    while (true) {
        start_ready();
        if (!device_.failure().ok()) {
            drop_all();
        }
        if (until()) {
            return true;
        }
        if (running_.empty()) {
            return false; // nothing queued can end it: the mark belongs to another device
        }
        const uint64_t used = tt_world_steps(world_) - begin;
        if (budget_steps != 0 && used >= budget_steps) {
            return false;
        }
        uint64_t slice = budget_steps != 0 ? budget_steps - used : 0;
        if (running_.size() > 1) {
            slice = slice != 0 ? std::min(slice, kSliceSteps) : kSliceSteps;
        }
        tt_launch_report report{};
        int outcome = tt_world_run(world_, running_[0].id, slice, &report);
        const bool starved = outcome == TT_RUN_PENDING && report.stuck_lanes != 0;
        const size_t before = running_.size();
        if (outcome != TT_RUN_PENDING) {
            finish(0, outcome, report);
        }
        for (size_t i = outcome == TT_RUN_PENDING ? 1 : 0; i < running_.size() && device_.failure().ok();) {
            outcome = tt_world_run(world_, running_[i].id, 1, &report);
            if (outcome == TT_RUN_PENDING) {
                ++i;
            } else {
                finish(i, outcome, report);
            }
        }
        if (starved && budget_steps == 0 && running_.size() == before) {
            // No launch has ended whose stream could go on, and the host waits in here: nobody is left to feed them.
            finish(0, tt_world_run(world_, running_[0].id, 0, &report), report);
        }
    }
}

void Simulation::copy(void *dst, const void *src, size_t size) {
    const std::lock_guard lock(mutex_);
    if (running_.empty()) {
        std::memmove(dst, src, size);
        return;
    }
    auto to = reinterpret_cast<uintptr_t>(dst);
    auto from = reinterpret_cast<uintptr_t>(src);
    while (size != 0) {
        const uint32_t bytes = access_bytes(to | from, size);
        const uint64_t value = tt_world_host_load(world_, reinterpret_cast<const void *>(from), bytes);
        tt_world_host_store(world_, reinterpret_cast<void *>(to), value, bytes);
        to += bytes;
        from += bytes;
        size -= bytes;
    }
}

void Simulation::fill(void *dst, int value, size_t size) {
    const std::lock_guard lock(mutex_);
    if (running_.empty()) {
        std::memset(dst, value, size);
        return;
    }
    auto to = reinterpret_cast<uintptr_t>(dst);
    const uint64_t pattern = static_cast<uint8_t>(value) * 0x0101010101010101u;
    while (size != 0) {
        const uint32_t bytes = access_bytes(to, size);
        tt_world_host_store(world_, reinterpret_cast<void *>(to), pattern >> (64 - 8 * bytes), bytes);
        to += bytes;
        size -= bytes;
    }
}

Status Simulation::reset(const tt_sim_options &options) {
    const std::lock_guard lock(mutex_);
    if (options.struct_size > sizeof options || options.struct_size < offsetof(tt_sim_options, idle_pauses) ||
        (options.script_length != 0 && options.script == nullptr)) {
        return fail(ttrtErrorInvalidValue, "the options are of another version, or name a script without choices");
    }
    if (!device_.failure().ok()) {
        drop_all();
    } else if (start_ready(); !streams_.empty()) {
        return fail(ttrtErrorNotReady, "work is queued on device ", device_.ordinal(), ": synchronize it first");
    }
    std::vector<uint32_t> script(options.script, options.script + options.script_length);
    tt_sim_options kept{};
    std::memcpy(&kept, &options, options.struct_size);
    kept.struct_size = sizeof kept;
    kept.script = script.data();
    if (const int refused = tt_world_reset(world_, &kept); refused != 0) {
        return fail(ttrtErrorInvalidValue, "the engine refused the reset: ", strerror(refused));
    }
    script_ = std::move(script);
    options_ = kept;
    options_.script = script_.data();
    device_.clear_failure();
    return success();
}

tt_sim_options Simulation::options() const {
    const std::lock_guard lock(mutex_);
    return options_;
}

uint64_t Simulation::now_ns() const {
    const std::lock_guard lock(mutex_);
    return tt_world_now_ns(world_);
}

uint64_t Simulation::steps() const {
    const std::lock_guard lock(mutex_);
    return tt_world_steps(world_);
}

uint64_t Simulation::choices(uint32_t *pairs, uint64_t capacity) const {
    const std::lock_guard lock(mutex_);
    return tt_world_choices(world_, pairs, capacity);
}

Status Simulation::host_load(const void *address, uint32_t bytes, uint64_t *value) {
    const std::lock_guard lock(mutex_);
    *value = tt_world_host_load(world_, address, bytes);
    return success();
}

Status Simulation::host_store(void *address, uint64_t value, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    tt_world_host_store(world_, address, value, bytes);
    return success();
}

Status Simulation::add_controller(const char *name, void (*fn)(void *, tt_port), void *arg, tt_iommu *iommu,
                                  uint64_t *agent) {
    const std::lock_guard lock(mutex_);
    if (const int refused = tt_world_add_controller(world_, name, fn, arg, iommu, agent); refused != 0) {
        return fail(ttrtErrorInvalidValue, "the engine refused the controller: ", strerror(refused));
    }
    agents_.push_back(*agent);
    return success();
}

Status Simulation::remove_controller(uint64_t agent) {
    const std::lock_guard lock(mutex_);
    if (std::erase(agents_, agent) == 0) {
        return fail(ttrtErrorInvalidResourceHandle, "no controller ", agent, " is attached");
    }
    if (const int refused = tt_world_remove_controller(world_, agent); refused != 0) {
        return fail(ttrtErrorUnknown, "the engine did not end the controller: ", strerror(refused));
    }
    return success();
}

Status Simulation::explore(Launch &launch, const tt_explore_task &task, tt_explore_report &report) {
    const std::lock_guard lock(mutex_);
    if (start_ready(); !streams_.empty() || !agents_.empty()) {
        return fail(ttrtErrorNotReady, "work is queued on device ", device_.ordinal(), ", or a controller is attached");
    }
    const int refused = tt_world_explore(world_, &launch.module->desc(), launch.kernel, &launch.config,
                                         launch.args.data(), &task, &report);
    if (refused != 0) {
        return fail(ttrtErrorInvalidValue, "the engine refused the exploration: ", strerror(refused));
    }
    options_ = task.options;
    options_.policy = TT_SCHED_FAIR;
    script_.clear();
    options_.script = script_.data();
    options_.script_length = 0;
    return success();
}

Status Simulation::ending(uint64_t index, tt_explore_ending &ending) const {
    const std::lock_guard lock(mutex_);
    return tt_world_ending(world_, index, &ending) == 0
               ? success()
               : fail(ttrtErrorInvalidValue, "the exploration had no ending ", index);
}

} // namespace ttrt
