// SPDX-License-Identifier: Apache-2.0
//
// The table of faults: which command is struck, and by what.
#ifndef TUTTI_CONTROLLER_FAULTS_H
#define TUTTI_CONTROLLER_FAULTS_H

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "controller/random.h"
#include "controller/status.h"
#include "controller/wire.h"
#include "tutti/controller.h"

namespace tutti::controller {

struct Fault {
    uint32_t action = 0; // TT_FAULT_*; 0: none
    Status status = 0;
    uint64_t delay_ns = 0;
    uint64_t corrupt_byte = 0;
    uint64_t forge = 0;
};

class FaultTable {
  public:
    explicit FaultTable(uint64_t seed) : random_(seed) {}

    uint64_t add(const tt_fault_rule &rule);
    bool remove(uint64_t id); // 0: all
    uint64_t hits(uint64_t id) const;
    bool empty() const { return !active_.load(std::memory_order_acquire); }

    Fault strike(uint16_t qid, const Sqe &sqe);

  private:
    struct Entry {
        uint64_t id;
        tt_fault_rule rule;
        uint64_t matches;
        uint64_t hits;
    };
    static bool matches(const tt_fault_rule &rule, uint16_t qid, const Sqe &sqe);

    mutable std::mutex mutex_;
    std::atomic<bool> active_{false};
    Random random_;
    uint64_t last_id_ = 0;
    std::vector<Entry> entries_;
};

} // namespace tutti::controller

#endif
