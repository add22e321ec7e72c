/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Hand-written kernel modules for the engine's own tests: what a rendered module does, without the renderer.
 */
#ifndef TUTTI_TEST_MODULE_H
#define TUTTI_TEST_MODULE_H

#include "tutti/host_device.h"

#include <utility>

struct tt_u32x4 {
    uint32_t x, y, z, w;
};

template <auto kernel> struct Entry;
template <class... Arguments, void (*kernel)(Arguments...)> struct Entry<kernel> {
    static constexpr uint32_t count = sizeof...(Arguments);
    static constexpr uint32_t sizes[count + 1] = {sizeof(Arguments)..., 0};
    template <size_t... index> static void call([[maybe_unused]] void **args, std::index_sequence<index...>) {
        kernel(*static_cast<Arguments *>(args[index])...);
    }
    static void run(void **args) { call(args, std::index_sequence_for<Arguments...>{}); }
};

#define KERNEL(name) {#name, &Entry<&name>::run, Entry<&name>::count, 0, Entry<&name>::sizes, nullptr}

#define MODULE(...)                                                                                                    \
    static const tt_kernel_desc kernels[] = {__VA_ARGS__};                                                             \
    static const tt_module_desc module = {                                                                             \
        TT_ABI_VERSION, TT_HOST_MODE, TT_WAVE_WIDTH, sizeof kernels / sizeof kernels[0], kernels, "test"};             \
    extern "C" TT_EXPORT const tt_module_desc *tt_module_describe(void) { return &module; }                            \
    extern "C" TT_EXPORT void tt_module_bind(const tt_device_api *api) { tt_host_bind(api); }

#endif
