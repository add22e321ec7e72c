/* SPDX-License-Identifier: Apache-2.0
 *
 * The port: how a controller reaches memory that is not its own. One controller, many ports: plain memory (threads),
 * the deterministic engine (sim), later a GPU runtime's batched copies.
 *
 * Bus addresses are handed out by an IOMMU object and differ from host addresses on purpose, so that a mix-up is seen.
 */
#ifndef TUTTI_PORT_H
#define TUTTI_PORT_H

#include "tutti/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TT_PORT_OK = 0,
    TT_PORT_FAULT = 1, /* the range [bus, bus + len) is not wholly mapped: nothing was moved */
    TT_PORT_STOP = 2,  /* the controller is asked to end; unwind and return */
};

typedef struct tt_port_ops {
    uint32_t struct_size;

    /* Copies [bus, bus + len) into dst. Word by word in `sim` (each word may be stale); len > 0. */
    int (*dma_read)(void *ctx, uint64_t bus, void *dst, uint64_t len);

    /* Copies src to [bus, bus + len). Posted and ordered: whoever sees a byte of this write with acquire order sees
     * every earlier dma_write of this port. An aligned 4- or 8-byte write is single-copy atomic. */
    int (*dma_write)(void *ctx, uint64_t bus, const void *src, uint64_t len);

    /* A host pointer good for direct access to the whole range until the next return of wait_until, or NULL when
     * there is none (always NULL in `sim`): then use dma_read and dma_write. */
    void *(*dma_map)(void *ctx, uint64_t bus, uint64_t len);

    /* A device register in the controller's own BAR memory: the next value that arrived, in order of arrival, or the
     * current one when nothing new came. A value that repeats what was read last is not told apart from a second look:
     * who reads what it knew has missed nothing so far. Acquire order for what the writer made visible at system scope.
     */
    uint32_t (*mmio_load)(void *ctx, const uint32_t *reg);

    /* The controller changes a register that the host reads. Release order. */
    void (*mmio_store)(void *ctx, uint32_t *reg, uint32_t value);

    /* Nanoseconds of the port's clock: CLOCK_MONOTONIC, or the virtual clock in `sim`. */
    uint64_t (*now_ns)(void *ctx);

    /* Nothing to do before deadline_ns (UINT64_MAX: none) unless a register changes: may return early at any time.
     * Returns TT_PORT_OK or TT_PORT_STOP. In `sim` this is where the virtual clock may jump. */
    int (*wait_until)(void *ctx, uint64_t deadline_ns);
} tt_port_ops;

typedef struct tt_port {
    const tt_port_ops *ops;
    void *ctx;
} tt_port;

/* ---- IOMMU: which host memory a controller may touch, and under which bus addresses ---- */

typedef struct tt_iommu tt_iommu;

enum {
    TT_MAP_READ = 1u,       /* the device may read */
    TT_MAP_WRITE = 2u,      /* the device may write */
    TT_MAP_CONTIGUOUS = 4u, /* one bus run; without it the granules of the range are spread, as an allocator would */
};

typedef struct tt_bus_run {
    uint64_t bus;
    uint64_t len;
} tt_bus_run;

/* A fresh, empty map. `seed` decides how ranges without TT_MAP_CONTIGUOUS are spread. NULL on out of memory. */
TT_EXPORT tt_iommu *tt_iommu_create(uint64_t seed);
TT_EXPORT void tt_iommu_destroy(tt_iommu *iommu);

/* Maps [ptr, ptr + len); both multiples of `granule` (a power of two >= 4096). Writes up to `capacity` runs in address
 * order of ptr, adjacent ones merged, and the number needed to *count. Returns 0; EINVAL misaligned, zero or wrapping;
 * EEXIST overlaps a live mapping; ENOSPC capacity too small (nothing is mapped, *count says how many). Thread safe. */
TT_EXPORT int tt_iommu_map(tt_iommu *iommu, void *ptr, uint64_t len, uint64_t granule, uint32_t flags, tt_bus_run *runs,
                           uint64_t capacity, uint64_t *count);

/* Removes the mapping that began at ptr. Returns 0, or ENOENT. Waits until no translation of it is in use. */
TT_EXPORT int tt_iommu_unmap(tt_iommu *iommu, void *ptr);

/* The longest piece at `bus` that is contiguous in host memory, at most len bytes, with `need` (TT_MAP_READ|WRITE)
 * allowed: writes its host pointer to *ptr and returns its length; 0 when bus is not mapped so. */
TT_EXPORT uint64_t tt_iommu_translate(tt_iommu *iommu, uint64_t bus, uint64_t len, uint32_t need, void **ptr);

/* ---- The plain port of mode `threads`: host memory through the map, CLOCK_MONOTONIC ---- */

typedef struct tt_direct_port tt_direct_port;
TT_EXPORT tt_direct_port *tt_direct_port_create(tt_iommu *iommu);
TT_EXPORT void tt_direct_port_destroy(tt_direct_port *port);
TT_EXPORT tt_port tt_direct_port_view(tt_direct_port *port);
/* Makes wait_until return TT_PORT_STOP from now on. Thread safe. */
TT_EXPORT void tt_direct_port_stop(tt_direct_port *port);

#ifdef __cplusplus
}
#endif

#endif
