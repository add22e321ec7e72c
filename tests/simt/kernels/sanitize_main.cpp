/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs kernels of test modules in both modes, for sanitizers: `sanitize_main MODE MODULE KERNEL GRID BLOCK [WORDS...]`.
 * Each further argument is a parameter: a number, or `@` for a zeroed buffer. Prints the outcome; exits 0 when it ran.
 */
#include "tutti/engine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    const bool sim = std::strcmp(argv[1], "sim") == 0;
    void *handle = dlopen(argv[2], RTLD_NOW);
    if (handle == nullptr) {
        std::puts(dlerror());
        return 2;
    }
    const auto describe = reinterpret_cast<tt_module_describe_fn>(dlsym(handle, "tt_module_describe"));
    const auto bind = reinterpret_cast<tt_module_bind_fn>(dlsym(handle, "tt_module_bind"));
    const tt_module_desc *module = describe();
    bind(tt_engine_device_api(module->mode));
    const tt_kernel_desc *kernel = nullptr;
    for (uint32_t i = 0; i < module->kernel_count; ++i)
        if (std::strcmp(module->kernels[i].name, argv[3]) == 0)
            kernel = &module->kernels[i];
    if (kernel == nullptr || kernel->param_count != static_cast<uint32_t>(argc - 6))
        return 2;
    tt_launch_config config{};
    config.grid[0] = static_cast<uint32_t>(std::atoi(argv[4]));
    config.block[0] = static_cast<uint32_t>(std::atoi(argv[5]));
    config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
    config.limit_ns = 2'000'000'000;

    std::vector<std::vector<uint64_t>> buffers(kernel->param_count, std::vector<uint64_t>(1 << 14));
    std::vector<uint64_t> values(kernel->param_count);
    std::vector<void *> args;
    for (uint32_t i = 0; i < kernel->param_count; ++i) {
        const char *word = argv[6 + i];
        values[i] = *word == '@' ? reinterpret_cast<uint64_t>(buffers[i].data()) : std::strtoull(word, nullptr, 0);
        args.push_back(&values[i]);
    }
    args.push_back(nullptr);

    tt_launch_report report{};
    for (int round = 0; round < 2; ++round) { /* twice: stacks of the first are used again */
        if (sim) {
            tt_sim_options options{};
            options.struct_size = sizeof options;
            options.policy = TT_SCHED_RANDOM;
            options.seed = 1;
            options.max_steps = 200'000;
            options.barrier_orders_memory = 1;
            tt_world *world = tt_world_create(&options);
            uint64_t id = 0;
            tt_world_launch(world, module, kernel, &config, args.data(), &id);
            tt_world_run(world, id, 0, &report);
            tt_world_destroy(world);
        } else {
            tt_pool *pool = tt_pool_create(2);
            tt_pool_launch(pool, module, kernel, &config, args.data(), &report);
            tt_pool_destroy(pool);
        }
    }
    std::printf("outcome %u\n", report.outcome);
    return 0;
}
