// SPDX-License-Identifier: Apache-2.0
//
// The plain port of mode `threads`: host memory through the IOMMU. One port serves one thread.
#ifndef TUTTI_CONTROLLER_DIRECT_PORT_H
#define TUTTI_CONTROLLER_DIRECT_PORT_H

#include <atomic>
#include <cstdint>

#include "controller/iommu.h"
#include "tutti/port.h"

struct tt_direct_port {
  public:
    explicit tt_direct_port(tt_iommu &iommu) : iommu_(iommu) { iommu_.join(&reader_); }
    ~tt_direct_port() { iommu_.leave(&reader_); }
    tt_direct_port(const tt_direct_port &) = delete;
    tt_direct_port &operator=(const tt_direct_port &) = delete;

    int read(uint64_t bus, void *dst, uint64_t len);
    int write(uint64_t bus, const void *src, uint64_t len);
    void *map(uint64_t bus, uint64_t len);
    int wait_until(uint64_t deadline_ns);
    void stop() { stop_.store(true, std::memory_order_release); }
    tt_port view();

  private:
    class Access; // online for the length of a scope

    template <typename Copy> int each_piece(uint64_t bus, uint64_t len, uint32_t need, Copy copy);

    tt_iommu &iommu_;
    tutti::IommuReader reader_;
    bool online_ = false;     // a pointer was handed out since the last wait
    uint32_t idle_waits_ = 0; // waits in a row that had nothing to do
    std::atomic<bool> stop_{false};
};

#endif
