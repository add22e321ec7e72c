// SPDX-License-Identifier: Apache-2.0
#ifndef TUTTI_CONTROLLER_MEMORY_PORT_H
#define TUTTI_CONTROLLER_MEMORY_PORT_H

#include "tutti/port.h"

namespace tutti::controller {

// tt_port with a face for C++.
class Port {
  public:
    Port() = default;
    explicit Port(tt_port port) : port_(port) {}

    bool read(uint64_t bus, void *dst, uint64_t len) const {
        return port_.ops->dma_read(port_.ctx, bus, dst, len) == TT_PORT_OK;
    }
    bool write(uint64_t bus, const void *src, uint64_t len) const {
        return port_.ops->dma_write(port_.ctx, bus, src, len) == TT_PORT_OK;
    }
    void *map(uint64_t bus, uint64_t len) const { return port_.ops->dma_map(port_.ctx, bus, len); }
    uint32_t load(const uint32_t *reg) const { return port_.ops->mmio_load(port_.ctx, reg); }
    void store(uint32_t *reg, uint32_t value) const { port_.ops->mmio_store(port_.ctx, reg, value); }
    uint64_t now_ns() const { return port_.ops->now_ns(port_.ctx); }
    bool wait_until(uint64_t deadline_ns) const { return port_.ops->wait_until(port_.ctx, deadline_ns) == TT_PORT_OK; }

  private:
    tt_port port_{nullptr, nullptr};
};

} // namespace tutti::controller

#endif
