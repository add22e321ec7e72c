// SPDX-License-Identifier: Apache-2.0
#include "controller/registers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "controller/controller.h"

namespace tutti::controller {

namespace {

constexpr uint32_t kAllOnes = 0xFFFFFFFF;
constexpr uint32_t kMainBytes = 0x70;       // registers that this controller has
constexpr uint32_t kRegisterBytes = 0x1000; // those and reserved ones
constexpr uint32_t kEnable = 1;
constexpr uint32_t kReady = 1, kFatal = 1u << 1;
constexpr uint32_t kMaxArrivals = 1u << 17; // of one register between two looks

uint32_t field(uint32_t value, uint32_t shift, uint32_t bits) { return value >> shift & ((1u << bits) - 1); }

} // namespace

Registers::Registers(Controller &controller) : controller_(controller) {
    const tt_controller_config &config = controller.config();
    doorbells_ = 2 * (config.io_queues + 1);
    const uint64_t needed = reg::kDoorbells + static_cast<uint64_t>(doorbells_) * (4ULL << config.dstrd);
    bytes_ = (needed + 0x3FFF) & ~0x3FFFULL;
    void *base = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        throw Refusal(TT_CTRL_NO_MEMORY, "no memory for the BAR", errno);
    base_ = static_cast<uint32_t *>(base);
    open_.assign(doorbells_, false);
    last_.assign(doorbells_, 0);
    for (uint32_t offset = 0; offset < kMainBytes; offset += 4)
        *at(offset) = expected(offset);
}

Registers::~Registers() { munmap(base_, bytes_); }

uint32_t *Registers::doorbell(uint32_t index) const {
    return at(reg::kDoorbells + index * (4u << controller_.config().dstrd));
}

uint32_t Registers::expected(uint32_t offset) const {
    const tt_controller_config &config = controller_.config();
    if (state_ == State::gone)
        return kAllOnes;
    const bool ready_modes = config.version >= 0x00020000;
    switch (offset) {
    case reg::kCap:
        return config.mqes | config.cqr << 16 | config.timeout_500ms << 24;
    case reg::kCap + 4:
        return config.dstrd | 1u << (37 - 32) | config.mpsmin << (48 - 32) | config.mpsmax << (52 - 32) |
               (ready_modes ? 1u << (59 - 32) : 0);
    case reg::kVs:
        return config.version;
    case reg::kCsts:
        return csts_;
    case reg::kCrto:
        return ready_modes ? config.timeout_500ms : 0;
    default:
        return 0;
    }
}

bool Registers::turn(const Port &port) {
    if (controller_.gone() && state_ != State::gone)
        return vanish(port);
    if (state_ == State::gone)
        return scan(port);
    const bool not_ready = state_ == State::enabling || state_ == State::failed;
    const AdminSettings settings = not_ready ? read_admin(port) : latched_;
    const uint32_t cc = port.load(at(reg::kCc)); // after the settings, which are written before it
    bool moved = true;
    if (not_ready && (cc & kEnable) != 0 && !(settings == latched_ && cc == cc_))
        restart(port, cc);
    else if (cc != cc_)
        configure(port, cc);
    else
        moved = false;
    moved |= advance(port);
    show_status(port);
    return scan(port) || moved;
}

uint64_t Registers::deadline() const {
    uint64_t first = UINT64_MAX;
    if (!controller_.ready_stuck() && (state_ == State::enabling || state_ == State::resetting))
        first = due_ns_;
    if (shutdown_ == 1)
        first = std::min(first, shutdown_due_ns_);
    return first;
}

void Registers::configure(const Port &port, uint32_t cc) {
    const uint32_t before = cc_;
    cc_ = cc;
    const uint64_t now = port.now_ns();
    if ((cc & kEnable) != 0 && (before & kEnable) == 0 && state_ != State::resetting) {
        state_ = enable(port) ? State::enabling : State::failed;
        due_ns_ = now + controller_.config().ready_delay_ns;
    } else if ((cc & kEnable) == 0 && (before & kEnable) != 0) {
        begin_reset(port);
        due_ns_ = now + controller_.config().ready_delay_ns;
    }
    const uint32_t notice = field(cc, 14, 2);
    if (notice == 0) {
        if ((before & kEnable) == 0 || (cc & kEnable) == 0)
            shutdown_ = 0; // only a reset takes a shutdown back
    } else if (shutdown_ == 0) {
        shutdown_ = 1;
        shutdown_due_ns_ = now + controller_.config().shutdown_delay_ns;
    }
}

// While RDY is 0 a host need not wait between EN = 0 and EN = 1, and a poll can miss the 0. It shows in what the admin
// queues are set to; with the same settings the same would come of it.
void Registers::restart(const Port &port, uint32_t cc) {
    cc_ = cc;
    controller_.set_serving(false);
    controller_.reset(port); // nothing was served, so nothing is under way
    state_ = enable(port) ? State::enabling : State::failed;
    due_ns_ = port.now_ns() + controller_.config().ready_delay_ns;
}

Registers::AdminSettings Registers::read_admin(const Port &port) const {
    return {settled(port, reg::kAqa),
            settled(port, reg::kAsq) | static_cast<uint64_t>(settled(port, reg::kAsq + 4)) << 32,
            settled(port, reg::kAcq) | static_cast<uint64_t>(settled(port, reg::kAcq + 4)) << 32};
}

void Registers::begin_reset(const Port &port) {
    state_ = State::resetting;
    controller_.set_serving(false);
    controller_.drop_commands(port);
}

// False: the configuration is one that this controller does not have.
bool Registers::enable(const Port &port) {
    const tt_controller_config &config = controller_.config();
    latched_ = read_admin(port);
    const auto &[aqa, asq, acq] = latched_;
    const uint32_t sq_entries = field(aqa, 0, 12) + 1;
    const uint32_t cq_entries = field(aqa, 16, 12) + 1;
    const uint32_t mps = field(cc_, 7, 4);
    const bool fits = field(cc_, 4, 3) == 0 && field(cc_, 11, 3) == 0 && mps >= config.mpsmin && mps <= config.mpsmax &&
                      sq_entries >= 2 && cq_entries >= 2;
    const uint64_t page = 1ULL << (12 + mps);
    if (!fits || asq % page != 0 || acq % page != 0) {
        controller_.fail(true);
        return false;
    }
    controller_.set_page_bytes(page);
    controller_.set_entry_sizes(field(cc_, 16, 4), field(cc_, 20, 4));
    controller_.create_admin_queues(port, asq, sq_entries, acq, cq_entries);
    return true;
}

// In `sim` a load gives the next value that arrived: several may be waiting.
uint32_t Registers::settled(const Port &port, uint32_t offset) const {
    uint32_t value = port.load(at(offset));
    for (int again = 0; again < 8; ++again) {
        const uint32_t next = port.load(at(offset));
        if (next == value)
            break;
        value = next;
    }
    return value;
}

bool Registers::advance(const Port &port) {
    bool moved = false;
    if (state_ == State::enabling && !controller_.ready_stuck() && port.now_ns() >= due_ns_) {
        state_ = State::ready;
        controller_.set_serving(shutdown_ != 2);
        moved = true;
    }
    if (state_ == State::resetting && !controller_.ready_stuck() && controller_.drained(port) &&
        port.now_ns() >= due_ns_) {
        controller_.reset(port);
        state_ = State::disabled;
        moved = true;
        if ((cc_ & kEnable) != 0) { // asked for again before the reset was over
            state_ = enable(port) ? State::enabling : State::failed;
            due_ns_ = port.now_ns() + controller_.config().ready_delay_ns;
        }
    }
    if (shutdown_ == 1 && port.now_ns() >= shutdown_due_ns_) {
        controller_.set_serving(false);
        controller_.sync_namespaces();
        shutdown_ = 2;
        moved = true;
    }
    return moved;
}

void Registers::show_status(const Port &port) {
    uint32_t csts = shutdown_ << 2;
    if (state_ == State::ready || (state_ == State::resetting && (csts_ & kReady) != 0))
        csts |= kReady;
    if (controller_.fatal())
        csts |= kFatal;
    if (csts != csts_) {
        csts_ = csts;
        port.store(at(reg::kCsts), csts);
    }
}

bool Registers::vanish(const Port &port) {
    state_ = State::gone;
    controller_.set_serving(false);
    for (uint32_t offset = 0; offset < kRegisterBytes; offset += 4)
        port.store(at(offset), kAllOnes);
    for (uint32_t index = 0; index < doorbells_; ++index)
        port.store(doorbell(index), kAllOnes);
    return true;
}

void Registers::power_on(const Port &port) {
    state_ = State::disabled;
    cc_ = 0;
    csts_ = 0;
    shutdown_ = 0;
    for (uint32_t offset = 0; offset < kRegisterBytes; offset += 4)
        port.store(at(offset), expected(offset));
}

// ---- what the host has no business to write: a few registers each turn ----

bool Registers::scan(const Port &port) {
    bool moved = scan_register(port, next_main_);
    next_main_ = (next_main_ + 4) % kMainBytes;
    // Then reserved registers and doorbells without a queue, which are many and rarely written.
    const uint32_t reserved = (kRegisterBytes - kMainBytes) / 4;
    if (next_rest_ < doorbells_)
        moved |= scan_doorbell(port, next_rest_);
    else
        moved |= scan_register(port, kMainBytes + (next_rest_ - doorbells_) * 4);
    next_rest_ = (next_rest_ + 1) % (doorbells_ + reserved);
    return moved;
}

bool Registers::scan_register(const Port &port, uint32_t offset) {
    const bool writable = offset == reg::kCc || (offset >= reg::kAqa && offset < reg::kAcq + 8);
    if (writable && state_ != State::gone) {
        if (offset != reg::kCc) // which has a look of its own, and must lose no value
            port.load(at(offset));
        return false;
    }
    const uint32_t wanted = expected(offset);
    if (port.load(at(offset)) == wanted)
        return false;
    port.store(at(offset), wanted);
    controller_.shard(0).counters.restored_registers.add();
    return true;
}

bool Registers::scan_doorbell(const Port &port, uint32_t index) {
    if (open_[index])
        return false;
    const uint32_t value = port.load(doorbell(index));
    if (state_ == State::gone) {
        if (value != kAllOnes)
            port.store(doorbell(index), kAllOnes);
        return value != kAllOnes;
    }
    if (value == last_[index])
        return false;
    last_[index] = value;
    if (state_ == State::ready) {
        controller_.shard(0).counters.bad_doorbells.add();
        controller_.events().raise(0, 0, 1);
    }
    return true;
}

void Registers::open_doorbell(const Port &port, uint32_t index) {
    // In `sim`, values that were rung before a reset may still be waiting: they are not for the new queue.
    uint32_t value = port.load(doorbell(index));
    for (uint32_t again = 0; again < kMaxArrivals; ++again) {
        const uint32_t next = port.load(doorbell(index));
        if (next == value)
            break;
        value = next;
    }
    port.store(doorbell(index), 0);
    open_[index] = true;
}

void Registers::close_doorbell(uint32_t index, uint32_t value) {
    last_[index] = value;
    open_[index] = false;
}

} // namespace tutti::controller
