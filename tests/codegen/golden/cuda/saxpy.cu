// SPDX-License-Identifier: GPL-2.0-only
//
// Rendered from kernels/saxpy.cu.j2 for cuda. Edit the template or the record, not this file.
#include "gpu_vendor/cuda_primitives.cuh"

// y = a * x + y over n elements: the smallest whole kernel, for a first look at a port.
TT_ENTRY void TT_LAUNCH_BOUNDS(1024) saxpy(uint64_t n, float a, const float *x, float *y) {
    for (uint64_t i = tt_global_index_x(); i < n; i += tt_global_size_x()) {
        y[i] = a * x[i] + y[i];
    }
}
