/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI of the engine. Nothing is thrown across it.
 */
#include "tutti/engine.h"

#include "simt/pool.h"
#include "simt/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

static_assert(sizeof(tt_launch_config) == 40);
static_assert(sizeof(tt_launch_report) == 24 + 512);
static_assert(sizeof(tt_kernel_desc) == 40);
static_assert(sizeof(tt_module_desc) == 32);

static_assert(sizeof(tt_sim_options) == 80);

using tutti::simt::Pool;
using tutti::simt::World;

namespace {

World *world_of(tt_world *world) { return reinterpret_cast<World *>(world); }
const World *world_of(const tt_world *world) { return reinterpret_cast<const World *>(world); }
std::uint64_t number(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }

/* The options as this library knows them: a caller of an older header sets fewer. */
bool read_options(const tt_sim_options *given, tt_sim_options &options) {
    options = {};
    if (given == nullptr || given->struct_size < offsetof(tt_sim_options, idle_pauses))
        return false;
    std::memcpy(&options, given, std::min<std::size_t>(given->struct_size, sizeof options));
    return World::valid(options);
}

} // namespace

extern "C" {

const struct tt_device_api *tt_engine_device_api(uint32_t mode) {
    switch (mode) {
    case TT_MODE_THREADS:
        return &tutti::simt::threads_device_api();
    case TT_MODE_SIM:
        return &tutti::simt::sim_device_api();
    default:
        return nullptr;
    }
}

tt_pool *tt_pool_create(uint32_t workers) {
    try {
        return reinterpret_cast<tt_pool *>(new Pool(workers));
    } catch (const std::bad_alloc &) {
    } catch (const std::system_error &) {
    }
    return nullptr;
}

void tt_pool_destroy(tt_pool *pool) { delete reinterpret_cast<Pool *>(pool); }

int tt_pool_launch(tt_pool *pool, const tt_module_desc *module, const tt_kernel_desc *kernel,
                   const tt_launch_config *config, void **args, tt_launch_report *report) {
    try {
        return reinterpret_cast<Pool *>(pool)->launch(*module, *kernel, *config, args, *report);
    } catch (const std::bad_alloc &) {
        report->outcome = TT_RUN_NO_MEMORY;
        return TT_RUN_NO_MEMORY;
    }
}

tt_world *tt_world_create(const tt_sim_options *options) {
    tt_sim_options checked;
    if (!read_options(options, checked))
        return nullptr;
    try {
        return reinterpret_cast<tt_world *>(new World(checked));
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void tt_world_destroy(tt_world *world) { delete world_of(world); }

int tt_world_reset(tt_world *world, const tt_sim_options *options) {
    tt_sim_options checked;
    if (!read_options(options, checked))
        return EINVAL;
    return world_of(world)->reset(checked);
}

int tt_world_map(tt_world *world, const void *base, uint64_t len, uint32_t kind) {
    return world_of(world)->memory().map(number(base), len, kind);
}

int tt_world_unmap(tt_world *world, const void *base) { return world_of(world)->memory().unmap(number(base)); }

int tt_world_launch(tt_world *world, const tt_module_desc *module, const tt_kernel_desc *kernel,
                    const tt_launch_config *config, void **args, uint64_t *launch) {
    try {
        return world_of(world)->launch(*module, *kernel, *config, args, *launch);
    } catch (const std::bad_alloc &) {
        return TT_RUN_NO_MEMORY;
    }
}

int tt_world_run(tt_world *world, uint64_t launch, uint64_t budget_steps, tt_launch_report *report) {
    try {
        return world_of(world)->run(launch, budget_steps, *report);
    } catch (const std::bad_alloc &) {
        report->outcome = TT_RUN_NO_MEMORY;
        return TT_RUN_NO_MEMORY;
    }
}

int tt_world_add_controller(tt_world *world, const char *name, void (*fn)(void *arg, tt_port port), void *arg,
                            tt_iommu *iommu, uint64_t *agent) {
    try {
        *agent = world_of(world)->add_controller(name, fn, arg, iommu);
        return 0;
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
}

int tt_world_remove_controller(tt_world *world, uint64_t agent) { return world_of(world)->remove_controller(agent); }

int tt_world_explore(tt_world *world, const tt_module_desc *module, const tt_kernel_desc *kernel,
                     const tt_launch_config *config, void **args, const tt_explore_task *task,
                     tt_explore_report *report) {
    if (task == nullptr || task->struct_size != sizeof *task)
        return EINVAL;
    tt_explore_task checked = *task;
    checked.options.policy = TT_SCHED_SCRIPT;
    checked.options.script = nullptr;
    checked.options.script_length = 0;
    if (!read_options(&task->options, checked.options))
        return EINVAL;
    try {
        return world_of(world)->explore(*module, *kernel, *config, args, checked, *report);
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
}

int tt_world_ending(const tt_world *world, uint64_t index, tt_explore_ending *ending) {
    const auto &endings = world_of(world)->endings();
    if (index >= endings.size())
        return EINVAL;
    const tutti::simt::Ending &found = endings[index];
    *ending = {found.outcome,       0,
               found.runs,          found.script.data(),
               found.script.size(), found.result.data(),
               found.result.size(), found.message.c_str()};
    return 0;
}

uint64_t tt_world_host_load(tt_world *world, const void *address, uint32_t bytes) {
    return world_of(world)->host_load(number(address), bytes);
}

void tt_world_host_store(tt_world *world, void *address, uint64_t value, uint32_t bytes) {
    world_of(world)->host_store(number(address), value, bytes);
}

uint64_t tt_world_now_ns(const tt_world *world) { return world_of(world)->now_ns(); }

uint64_t tt_world_steps(const tt_world *world) { return world_of(world)->steps(); }

uint64_t tt_world_live_words(const tt_world *world) { return world_of(world)->memory().live_words(); }

uint64_t tt_world_choices(const tt_world *world, uint32_t *pairs, uint64_t capacity) {
    return world_of(world)->scheduler().copy_choices(pairs, capacity);
}

} /* extern "C" */
