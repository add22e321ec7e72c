// SPDX-License-Identifier: GPL-2.0-only
//
// Rendered from kernels/saxpy.cu.j2 for host. Edit the template or the record, not this file.
#include "gpu_vendor/host_primitives.cuh"

// y = a * x + y over n elements: the smallest whole kernel, for a first look at a port.
static void tt_body_saxpy(uint64_t n, float a, const float *x, float *y) {
    for (uint64_t i = tt_global_index_x(); i < n; i += tt_global_size_x()) {
        y[i] = a * x[i] + y[i];
    }
}

static void tt_entry_saxpy(void **args) {
    tt_body_saxpy(*static_cast<uint64_t *>(args[0]), *static_cast<float *>(args[1]),
                  *static_cast<const float **>(args[2]), *static_cast<float **>(args[3]));
}

// ---- the module's table ----

static const uint32_t tt_sizes_saxpy[] = {sizeof(uint64_t), sizeof(float), sizeof(const float *), sizeof(float *)};
static const char *const tt_names_saxpy[] = {"n", "a", "x", "y"};

static const tt_kernel_desc tt_kernels[] = {
    {"saxpy", tt_entry_saxpy, 4, 1024, tt_sizes_saxpy, tt_names_saxpy},
};

static const char tt_content_hash[] = "dd33706209c28ba849e19797d5ffaf855d65711908e1d43a8489eaecb679f8e6";
static const tt_module_desc tt_module = {
    TT_ABI_VERSION, TT_HOST_MODE, TT_WAVE_WIDTH, 1, tt_kernels, tt_content_hash,
};

extern "C" TT_EXPORT const tt_module_desc *tt_module_describe(void) { return &tt_module; }
extern "C" TT_EXPORT void tt_module_bind(const tt_device_api *api) { tt_host_bind(api); }
