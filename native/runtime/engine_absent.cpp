// SPDX-License-Identifier: Apache-2.0
//
// Built only while native/simt is not part of the tree: every launch is refused, and says why.
#include <cerrno>
#include <cstdio>

#include "tutti/engine.h"

namespace {

int refuse(tt_launch_report *report) {
    *report = {};
    report->outcome = TT_RUN_INVALID;
    snprintf(report->message, sizeof report->message, "this build has no engine for the mode");
    return TT_RUN_INVALID;
}

} // namespace

#define TT_WEAK extern "C" __attribute__((weak))

TT_WEAK const tt_device_api *tt_engine_device_api(uint32_t) { return nullptr; }
TT_WEAK tt_pool *tt_pool_create(uint32_t) { return nullptr; }
TT_WEAK void tt_pool_destroy(tt_pool *) {}
TT_WEAK int tt_pool_launch(tt_pool *, const tt_module_desc *, const tt_kernel_desc *, const tt_launch_config *, void **,
                           tt_launch_report *report) {
    return refuse(report);
}
TT_WEAK tt_world *tt_world_create(const tt_sim_options *) {
    static char world;
    return reinterpret_cast<tt_world *>(&world);
}
TT_WEAK void tt_world_destroy(tt_world *) {}
TT_WEAK int tt_world_reset(tt_world *, const tt_sim_options *) { return 0; }
TT_WEAK int tt_world_map(tt_world *, const void *, uint64_t, uint32_t) { return 0; }
TT_WEAK int tt_world_unmap(tt_world *, const void *) { return 0; }
TT_WEAK int tt_world_launch(tt_world *, const tt_module_desc *, const tt_kernel_desc *, const tt_launch_config *,
                            void **, uint64_t *) {
    return ENOSYS;
}
TT_WEAK int tt_world_run(tt_world *, uint64_t, uint64_t, tt_launch_report *report) { return refuse(report); }
TT_WEAK int tt_world_add_controller(tt_world *, const char *, void (*)(void *, tt_port), void *, tt_iommu *,
                                    uint64_t *) {
    return ENOSYS;
}
TT_WEAK int tt_world_remove_controller(tt_world *, uint64_t) { return ENOSYS; }
TT_WEAK uint64_t tt_world_host_load(tt_world *, const void *, uint32_t) { return 0; }
TT_WEAK void tt_world_host_store(tt_world *, void *, uint64_t, uint32_t) {}
TT_WEAK uint64_t tt_world_now_ns(const tt_world *) { return 0; }
TT_WEAK uint64_t tt_world_steps(const tt_world *) { return 0; }
TT_WEAK uint64_t tt_world_choices(const tt_world *, uint32_t *, uint64_t) { return 0; }
