// SPDX-License-Identifier: Apache-2.0
//
// Counters that one thread writes and any thread reads.
#ifndef TUTTI_CONTROLLER_COUNTERS_H
#define TUTTI_CONTROLLER_COUNTERS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::controller {

class Counter {
  public:
    // Not a read-modify-write: the thread that owns the counter is the only writer.
    void add(uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }
    void clear() { value_.store(0, std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> value_{0};
};

struct Counters {
    Counter admin_commands[256];
    Counter io_commands[256];
    Counter sqes_fetched, fetches, cqes_posted, cqes_lost, errors, bytes_read, bytes_written, sq_doorbells,
        cq_doorbells, bad_doorbells, cq_full_waits, faults, resets, power_cuts, restored_registers;

    void take(const Counters &other) {
        auto *to = reinterpret_cast<Counter *>(this);
        const auto *from = reinterpret_cast<const Counter *>(&other);
        for (size_t i = 0; i < sizeof(Counters) / sizeof(Counter); ++i)
            to[i].add(from[i].get());
    }
};

} // namespace tutti::controller

#endif
