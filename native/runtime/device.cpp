// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>

#include "runtime/simulation.h"

namespace ttrt {
namespace {

constexpr std::array<Arch, 6> kArchs{{
    {"threads-w32", TT_MODE_THREADS, 32},
    {"threads-w64", TT_MODE_THREADS, 64},
    {"threads-w128", TT_MODE_THREADS, 128},
    {"sim-w32", TT_MODE_SIM, 32},
    {"sim-w64", TT_MODE_SIM, 64},
    {"sim-w128", TT_MODE_SIM, 128},
}};

constexpr int kDefaultDevicesPerArch = 2;
constexpr int kMaxDevicesPerArch = 16;

int devices_per_arch() {
    const char *text = std::getenv("TUTTI_HOST_DEVICES");
    const int asked = text != nullptr ? std::atoi(text) : kDefaultDevicesPerArch;
    return asked >= 1 && asked <= kMaxDevicesPerArch ? asked : kDefaultDevicesPerArch;
}

thread_local int current = 0;

// The calling thread's own default streams, one for each device it used.
std::map<int, ttrtStream_t> &own_streams() {
    thread_local struct Own {
        std::map<int, ttrtStream_t> handles;
        ~Own() {
            for (const auto &[ordinal, handle] : handles) {
                if (auto stream = Machine::get().streams.remove(reinterpret_cast<uint64_t>(handle))) {
                    stream->device().retire_stream(stream);
                }
            }
        }
    } own;
    return own.handles;
}

ttrtError error_of(int outcome) {
    switch (outcome) {
    case TT_RUN_LIMIT:
        return ttrtErrorLaunchTimeout;
    case TT_RUN_INVALID:
        return ttrtErrorInvalidConfiguration;
    case TT_RUN_NO_MEMORY:
        return ttrtErrorLaunchOutOfResources;
    default:
        return ttrtErrorLaunchFailure;
    }
}

} // namespace

uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

Device::Device(Machine &machine, int ordinal, const Arch &arch)
    : machine_(machine), ordinal_(ordinal), arch_(arch), legacy_(std::make_shared<Stream>(*this, 0u, true)) {}

Device::~Device() { tt_pool_destroy(pool_); }

Simulation *Device::simulation() {
    if (!simulated()) {
        return nullptr;
    }
    const std::lock_guard lock(state_);
    if (simulation_ == nullptr) {
        simulation_ = std::make_unique<Simulation>(*this);
    }
    return simulation_.get();
}

Simulation *Device::simulation_in_use() {
    const std::lock_guard lock(state_);
    return simulation_.get();
}

Status Device::failure() const {
    const std::lock_guard lock(state_);
    return failure_;
}

void Device::set_failure(ttrtError code, const std::string &detail, const tt_launch_report &report) {
    const std::lock_guard lock(state_);
    if (failure_.ok()) {
        failure_ = fail(code, detail);
        report_ = report;
        report_is_failure_ = true;
    }
}

void Device::clear_failure() {
    const std::lock_guard lock(state_);
    failure_ = success();
    report_is_failure_ = false;
}

void Device::set_report(const tt_launch_report &report) {
    const std::lock_guard lock(state_);
    if (!report_is_failure_) {
        report_ = report;
    }
}

std::optional<tt_launch_report> Device::report() const {
    const std::lock_guard lock(state_);
    return report_;
}

void Device::judge(const Launch &launch, int outcome, const tt_launch_report &report) {
    if (outcome == TT_RUN_DONE) {
        set_report(report);
        return;
    }
    const std::string text(report.message, strnlen(report.message, sizeof report.message));
    set_failure(error_of(outcome), std::string("kernel ") + launch.kernel->name + ": " + text, report);
}

std::shared_ptr<Stream> Device::create_stream(unsigned flags) {
    auto stream = std::make_shared<Stream>(*this, flags, false);
    const std::lock_guard lock(order_);
    streams_.push_back(stream);
    return stream;
}

void Device::retire_stream(const std::shared_ptr<Stream> &stream) {
    {
        const std::lock_guard lock(order_);
        std::erase(streams_, stream);
        if (stream->tail != nullptr && !stream->tail->done()) {
            retired_.push_back({stream->tail, stream->blocking()});
        }
    }
    stream->close();
}

Status Device::submit(Stream &stream, Operation operation, CompletionRef *done) {
    if (Status failed = failure(); !failed.ok() && !operation.always) {
        return failed;
    }
    operation.done = std::make_shared<Completion>();
    if (done != nullptr) {
        *done = operation.done;
    }
    Simulation *world = simulation();
    const std::lock_guard lock(order_);
    std::erase_if(retired_, [](const Retired &r) { return r.tail->done(); });
    if (stream.legacy()) {
        const auto marks = collect([](const Stream *, bool blocking) { return blocking; });
        operation.waits.insert(operation.waits.end(), marks.begin(), marks.end());
    } else if (stream.blocking()) {
        if (const CompletionRef &mark = legacy_->tail; mark != nullptr && !mark->done()) {
            operation.waits.push_back(mark);
        }
    }
    stream.tail = operation.done;
    if (world != nullptr) {
        world->push(stream, std::move(operation));
    } else {
        stream.push(std::move(operation));
    }
    return success();
}

// The pending marks of the streams that `wanted` accepts (a retired stream: by whether it was a blocking one).
template <typename Wanted> std::vector<CompletionRef> Device::collect(Wanted &&wanted) const {
    std::vector<CompletionRef> marks;
    const auto add = [&](const CompletionRef &mark, const Stream *stream, bool blocking) {
        if (mark != nullptr && !mark->done() && wanted(stream, blocking)) {
            marks.push_back(mark);
        }
    };
    add(legacy_->tail, legacy_.get(), false);
    for (const auto &stream : streams_) {
        add(stream->tail, stream.get(), stream->blocking());
    }
    for (const Retired &retired : retired_) {
        add(retired.tail, nullptr, retired.blocking);
    }
    return marks;
}

std::vector<CompletionRef> Device::marks_of(const Stream &stream) const {
    const std::lock_guard lock(order_);
    return collect(
        [&](const Stream *other, bool blocking) { return other == &stream || (stream.legacy() && blocking); });
}

Status Device::wait(const CompletionRef &mark) {
    if (mark != nullptr && !mark->done()) {
        if (Simulation *world = simulation()) {
            if (!world->run([&] { return mark->done(); }, 0) && !mark->done()) {
                return fail(ttrtErrorUnknown, "the simulated device has nothing left to run, and the work is not done");
            }
        } else {
            mark->wait();
        }
    }
    return failure();
}

Status Device::query(const CompletionRef &mark) {
    if (mark != nullptr && !mark->done()) {
        if (Simulation *world = simulation()) {
            world->run([&] { return mark->done(); }, Simulation::kQuerySteps);
        }
    }
    if (Status failed = failure(); !failed.ok()) {
        return failed;
    }
    return mark == nullptr || mark->done() ? success() : fail(ttrtErrorNotReady, "work is still pending");
}

Status Device::synchronize() {
    std::vector<CompletionRef> marks;
    {
        const std::lock_guard lock(order_);
        marks = collect([](const Stream *, bool) { return true; });
    }
    for (const CompletionRef &mark : marks) {
        static_cast<void>(wait(mark)); // the failure, if any, is the device's: below
    }
    return failure();
}

Status Device::reset() {
    static_cast<void>(synchronize()); // whatever failed is what the reset is for
    const auto mine = [&](const auto &object) { return &object.device() == this; };
    for (const auto &stream : machine_.streams.remove_if(mine)) {
        retire_stream(stream);
    }
    machine_.events.remove_if([&](const Event &event) { return &event.device == this; });
    machine_.functions.remove_if([&](const Function &f) { return f.module->device() == ordinal_; });
    machine_.modules.remove_if([&](const Module &m) { return m.device() == ordinal_; });
    for (const Range &range : machine_.memory().ranges([&](const Range &r) { return r.device == ordinal_; })) {
        Range taken;
        const auto any = [](const Range &) { return true; };
        if (machine_.memory().begin_release(reinterpret_cast<void *>(range.base), any, &taken).ok()) {
            if (Simulation *world = simulation(); world != nullptr && taken.on_device()) {
                world->unmap(taken);
            }
            if (!taken.on_device()) {
                machine_.unmap_host(taken);
            }
            machine_.memory().finish_release(taken);
        }
    }
    {
        const std::lock_guard lock(order_);
        peers_.clear();
        retired_.clear();
    }
    if (Simulation *world = simulation()) {
        if (Status status = world->reset(world->options()); !status.ok()) {
            return status;
        }
    }
    clear_failure();
    return success();
}

void Device::copy_now(void *dst, const void *src, size_t size) {
    if (Simulation *world = simulation()) {
        world->copy(dst, src, size);
    } else {
        std::memmove(dst, src, size);
    }
}

void Device::fill_now(void *dst, int value, size_t size) {
    if (Simulation *world = simulation()) {
        world->fill(dst, value, size);
    } else {
        std::memset(dst, value, size);
    }
}

void Device::execute(Operation &operation) {
    if (failure().ok() || operation.always) {
        if (operation.launch != nullptr) {
            tt_launch_report report{};
            Launch &launch = *operation.launch;
            tt_pool *pool;
            {
                const std::lock_guard lock(state_);
                if (pool_ == nullptr) {
                    pool_ = tt_pool_create(0);
                }
                pool = pool_;
            }
            if (pool == nullptr) {
                report.outcome = TT_RUN_NO_MEMORY;
                std::strncpy(report.message, "no threads for the device's pool", sizeof report.message - 1);
                judge(launch, TT_RUN_NO_MEMORY, report);
            } else {
                const int outcome = tt_pool_launch(pool, &launch.module->desc(), launch.kernel, &launch.config,
                                                   launch.args.data(), &report);
                judge(launch, outcome, report);
            }
        } else if (operation.run) {
            operation.run();
        }
    }
    operation.done->set(monotonic_ns());
}

bool Device::peer_enabled(int peer) {
    const std::lock_guard lock(order_);
    return peers_.contains(peer);
}

bool Device::set_peer(int peer, bool enabled) {
    const std::lock_guard lock(order_);
    return enabled ? peers_.insert(peer).second : peers_.erase(peer) != 0;
}

Machine &Machine::get() {
    static Machine *const machine = std::unique_ptr<Machine>(new Machine).release();
    return *machine;
}

Machine::Machine() : memory_(static_cast<int>(kArchs.size()) * devices_per_arch()) {
    const int per_arch = devices_per_arch();
    for (const Arch &arch : kArchs) {
        for (int i = 0; i < per_arch; ++i) {
            devices_.push_back(std::make_unique<Device>(*this, device_count(), arch));
        }
    }
}

void Machine::map_host(const Range &range) {
    for (const auto &device : devices_) {
        if (Simulation *world = device->simulation_in_use()) {
            world->map(range);
        }
    }
}

void Machine::unmap_host(const Range &range) {
    for (const auto &device : devices_) {
        if (Simulation *world = device->simulation_in_use()) {
            world->unmap(range);
        }
    }
}

int current_ordinal() { return current; }
void set_current_ordinal(int ordinal) { current = ordinal; }
Device &current_device() { return *Machine::get().device(current); }

Status resolve_stream(ttrtStream_t handle, std::shared_ptr<Stream> *stream) {
    const auto value = reinterpret_cast<uint64_t>(handle);
    Device &device = current_device();
    if (value <= 1) {
        *stream = device.default_stream();
        return success();
    }
    auto &streams = Machine::get().streams;
    if (value == 2) {
        ttrtStream_t &own = own_streams()[device.ordinal()];
        *stream = streams.find(reinterpret_cast<uint64_t>(own));
        if (*stream == nullptr) { // the first use, or the device was reset
            *stream = device.create_stream(ttrtStreamDefault);
            own = reinterpret_cast<ttrtStream_t>(streams.insert(*stream));
        }
        return success();
    }
    *stream = streams.find(value);
    return *stream != nullptr ? success()
                              : fail(ttrtErrorInvalidResourceHandle, "the stream was destroyed, or never was one");
}

} // namespace ttrt
