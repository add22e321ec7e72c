/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI of the engine. Nothing is thrown across it.
 */
#include "tutti/engine.h"

#include "simt/pool.h"

#include <new>
#include <system_error>

static_assert(sizeof(tt_launch_config) == 40);
static_assert(sizeof(tt_launch_report) == 24 + 512);
static_assert(sizeof(tt_kernel_desc) == 40);
static_assert(sizeof(tt_module_desc) == 32);

using tutti::simt::Pool;

extern "C" {

const struct tt_device_api *tt_engine_device_api(uint32_t mode) {
    switch (mode) {
    case TT_MODE_THREADS:
        return &tutti::simt::threads_device_api();
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

} /* extern "C" */
