// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "runtime/device.h"
#include "runtime/module.h"
#include "runtime/simulation.h"

using namespace ttrt;

namespace {

// Runs body with the device's world; refuses devices without one.
template <typename Body> ttrtError with_world(int ordinal, Body &&body) {
    return call([&]() -> Status {
        Device *device = Machine::get().device(ordinal);
        if (device == nullptr) {
            return fail(ttrtErrorInvalidDevice, "device ", ordinal, " of ", Machine::get().device_count());
        }
        Simulation *world = device->simulation();
        if (world == nullptr) {
            return fail(ttrtErrorNotSupported, "device ", ordinal, " is ", device->arch().name,
                        ", which is not simulated");
        }
        return body(*device, *world);
    });
}

Status null_argument() { return fail(ttrtErrorInvalidValue, "an argument is NULL"); }

Status check_access(const void *address, uint32_t bytes) {
    const bool size_ok = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    if (address == nullptr || !size_ok || reinterpret_cast<uintptr_t>(address) % bytes != 0) {
        return fail(ttrtErrorInvalidValue, "an access has 1, 2, 4 or 8 bytes and is aligned to them");
    }
    return success();
}

} // namespace

extern "C" ttrtError ttrtSimReset(int device, const tt_sim_options *options) {
    return with_world(device, [&](Device &, Simulation &world) {
        return options == nullptr ? null_argument() : world.reset(*options);
    });
}

extern "C" ttrtError ttrtSimGetOptions(int device, tt_sim_options *options) {
    return with_world(device, [&](Device &, Simulation &world) {
        if (options == nullptr) {
            return null_argument();
        }
        *options = world.options();
        return success();
    });
}

extern "C" ttrtError ttrtSimNow(int device, uint64_t *now_ns) {
    return with_world(device, [&](Device &, Simulation &world) {
        if (now_ns == nullptr) {
            return null_argument();
        }
        *now_ns = world.now_ns();
        return success();
    });
}

extern "C" ttrtError ttrtSimSteps(int device, uint64_t *steps) {
    return with_world(device, [&](Device &, Simulation &world) {
        if (steps == nullptr) {
            return null_argument();
        }
        *steps = world.steps();
        return success();
    });
}

extern "C" ttrtError ttrtSimChoices(int device, uint32_t *pairs, uint64_t capacity, uint64_t *count) {
    return with_world(device, [&](Device &, Simulation &world) {
        if (count == nullptr || (pairs == nullptr && capacity != 0)) {
            return null_argument();
        }
        *count = world.choices(pairs, capacity);
        return success();
    });
}

extern "C" ttrtError ttrtSimRun(int device, uint64_t budget_steps) {
    return with_world(device, [&](Device &owner, Simulation &world) {
        if (budget_steps == 0) {
            return fail(ttrtErrorInvalidValue, "a run needs a budget");
        }
        if (world.idle()) {
            world.run_controllers(budget_steps);
            return owner.failure();
        }
        const bool idle = world.run([&] { return world.idle(); }, budget_steps);
        if (Status failed = owner.failure(); !failed.ok()) {
            return failed;
        }
        return idle ? success() : fail(ttrtErrorNotReady, "work is left");
    });
}

extern "C" ttrtError ttrtSimHostLoad(int device, const void *address, uint32_t bytes, uint64_t *value) {
    return with_world(device, [&](Device &, Simulation &world) {
        if (value == nullptr) {
            return null_argument();
        }
        Status status = check_access(address, bytes);
        return status.ok() ? world.host_load(address, bytes, value) : status;
    });
}

extern "C" ttrtError ttrtSimHostStore(int device, void *address, uint64_t value, uint32_t bytes) {
    return with_world(device, [&](Device &, Simulation &world) {
        Status status = check_access(address, bytes);
        return status.ok() ? world.host_store(address, value, bytes) : status;
    });
}

extern "C" ttrtError ttrtSimAddController(int device, const char *name, void (*fn)(void *arg, tt_port port), void *arg,
                                          tt_iommu *iommu, uint64_t *agent) {
    return with_world(device, [&](Device &, Simulation &world) {
        return name == nullptr || fn == nullptr || agent == nullptr ? null_argument()
                                                                    : world.add_controller(name, fn, arg, iommu, agent);
    });
}

extern "C" ttrtError ttrtSimRemoveController(int device, uint64_t agent) {
    return with_world(device, [&](Device &, Simulation &world) { return world.remove_controller(agent); });
}

extern "C" ttrtError ttrtSimExplore(int device, ttrtFunction_t function, unsigned int grid, unsigned int block,
                                    void **params, const tt_explore_task *task, tt_explore_report *report) {
    return with_world(device, [&](Device &owner, Simulation &world) -> Status {
        if (task == nullptr || report == nullptr || params == nullptr) {
            return null_argument();
        }
        const std::shared_ptr<Function> found = Machine::get().functions.find(reinterpret_cast<uint64_t>(function));
        if (found == nullptr || found->module->device() != owner.ordinal()) {
            return fail(ttrtErrorInvalidResourceHandle, "the function is not of device ", owner.ordinal());
        }
        tt_launch_config config{};
        std::fill_n(config.grid, 3, 1u);
        std::fill_n(config.block, 3, 1u);
        config.grid[0] = grid;
        config.block[0] = block;
        return world.explore(*make_launch(*found, config, params), *task, *report);
    });
}

extern "C" ttrtError ttrtSimEnding(int device, uint64_t index, tt_explore_ending *ending) {
    return with_world(device, [&](Device &, Simulation &world) {
        return ending == nullptr ? null_argument() : world.ending(index, *ending);
    });
}
