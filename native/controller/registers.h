// SPDX-License-Identifier: Apache-2.0
//
// BAR0 as memory that is polled: what the host wrote is found by looking, and read-only registers are put back.
#ifndef TUTTI_CONTROLLER_REGISTERS_H
#define TUTTI_CONTROLLER_REGISTERS_H

#include <cstdint>
#include <vector>

#include "controller/memory_port.h"

namespace tutti::controller {

class Controller;

class Registers {
  public:
    explicit Registers(Controller &controller);
    ~Registers();
    Registers(const Registers &) = delete;
    Registers &operator=(const Registers &) = delete;

    void *base() const { return base_; }
    uint64_t bytes() const { return bytes_; }
    uint32_t *sq_doorbell(uint32_t qid) const { return doorbell(2 * qid); }
    uint32_t *cq_doorbell(uint32_t qid) const { return doorbell(2 * qid + 1); }

    bool turn(const Port &port);
    uint64_t deadline() const;
    // The queue's doorbell starts at zero, and is served by the queue from now on (or no longer).
    void open_doorbell(const Port &port, uint32_t index);
    void close_doorbell(uint32_t index, uint32_t value);
    // All state as after power-on.
    void power_on(const Port &port);

  private:
    enum class State { disabled, enabling, ready, resetting, failed, gone };

    struct AdminSettings {
        uint32_t aqa = 0;
        uint64_t asq = 0;
        uint64_t acq = 0;
        bool operator==(const AdminSettings &) const = default;
    };

    void restart(const Port &port, uint32_t cc);
    AdminSettings read_admin(const Port &port) const;
    uint32_t *at(uint32_t offset) const { return base_ + offset / 4; }
    uint32_t *doorbell(uint32_t index) const;
    uint32_t expected(uint32_t offset) const; // of a register that the host cannot change
    void set_static(const Port &port);
    void configure(const Port &port, uint32_t cc);
    void begin_reset(const Port &port);
    bool enable(const Port &port);
    bool advance(const Port &port);
    void show_status(const Port &port);
    bool vanish(const Port &port);
    bool scan(const Port &port);
    bool scan_register(const Port &port, uint32_t offset);
    bool scan_doorbell(const Port &port, uint32_t index);
    uint32_t settled(const Port &port, uint32_t offset) const;

    Controller &controller_;
    uint32_t *base_ = nullptr;
    uint64_t bytes_ = 0;
    uint32_t doorbells_ = 0;
    State state_ = State::disabled;
    uint32_t cc_ = 0;
    AdminSettings latched_; // when it was enabled
    uint32_t csts_ = 0;
    uint32_t shutdown_ = 0; // CSTS.SHST
    uint64_t due_ns_ = 0;
    uint64_t shutdown_due_ns_ = 0;
    uint32_t next_main_ = 0;
    uint32_t next_rest_ = 0;
    std::vector<bool> open_;     // doorbells that a queue polls
    std::vector<uint32_t> last_; // values of those that none does
};

} // namespace tutti::controller

#endif
