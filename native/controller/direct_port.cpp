// SPDX-License-Identifier: Apache-2.0
#include "controller/direct_port.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace {

uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000ULL + static_cast<uint64_t>(now.tv_nsec);
}

void cpu_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Nothing tells this port that a register changed, so an idle controller looks again after a while: at once for the
// first few microseconds, then giving the CPU away, then asleep for longer and longer.
constexpr uint32_t kSpins = 64;
constexpr uint32_t kYields = 256;
constexpr uint64_t kShortestSleepNs = 10'000;
constexpr uint64_t kLongestSleepNs = 100'000;

// Aligned words are stored whole and after everything that was stored before.
void store_ordered(void *dst, const void *src, uint64_t len) {
    const auto at = reinterpret_cast<uint64_t>(dst);
    if (len == 4 && at % 4 == 0) {
        uint32_t value = 0;
        std::memcpy(&value, src, 4);
        std::atomic_ref(*static_cast<uint32_t *>(dst)).store(value, std::memory_order_release);
    } else if (len == 8 && at % 8 == 0) {
        uint64_t value = 0;
        std::memcpy(&value, src, 8);
        std::atomic_ref(*static_cast<uint64_t *>(dst)).store(value, std::memory_order_release);
    } else {
        std::atomic_thread_fence(std::memory_order_release);
        std::memcpy(dst, src, len);
    }
}

} // namespace

class tt_direct_port::Access {
  public:
    explicit Access(tt_direct_port &port) : port_(port) {
        if (!port_.online_)
            port_.iommu_.online(port_.reader_);
    }
    ~Access() {
        if (!port_.online_)
            tt_iommu::offline(port_.reader_);
    }
    Access(const Access &) = delete;
    Access &operator=(const Access &) = delete;

  private:
    tt_direct_port &port_;
};

template <typename Copy> int tt_direct_port::each_piece(uint64_t bus, uint64_t len, uint32_t need, Copy copy) {
    const Access access(*this);
    void *ptr = nullptr;
    uint64_t piece = iommu_.translate(bus, len, need, &ptr);
    if (piece == len && piece != 0) {
        copy(ptr, 0, len);
        return TT_PORT_OK;
    }
    // Several pieces: all of them must be there before the first byte moves.
    for (uint64_t at = 0; at < len; at += piece) {
        piece = iommu_.translate(bus + at, len - at, need, &ptr);
        if (piece == 0)
            return TT_PORT_FAULT;
    }
    for (uint64_t at = 0; at < len; at += piece) {
        piece = iommu_.translate(bus + at, len - at, need, &ptr);
        if (piece == 0)
            return TT_PORT_FAULT; // unmapped meanwhile
        copy(ptr, at, piece);
    }
    return len == 0 ? TT_PORT_FAULT : TT_PORT_OK;
}

int tt_direct_port::read(uint64_t bus, void *dst, uint64_t len) {
    return each_piece(bus, len, TT_MAP_READ, [dst](const void *host, uint64_t at, uint64_t bytes) {
        std::memcpy(static_cast<char *>(dst) + at, host, bytes);
    });
}

int tt_direct_port::write(uint64_t bus, const void *src, uint64_t len) {
    return each_piece(bus, len, TT_MAP_WRITE, [src](void *host, uint64_t at, uint64_t bytes) {
        store_ordered(host, static_cast<const char *>(src) + at, bytes);
    });
}

void *tt_direct_port::map(uint64_t bus, uint64_t len) {
    if (!online_) {
        iommu_.online(reader_);
        online_ = true;
    }
    void *ptr = nullptr;
    return iommu_.translate(bus, len, TT_MAP_READ | TT_MAP_WRITE, &ptr) == len && len != 0 ? ptr : nullptr;
}

int tt_direct_port::wait_until(uint64_t deadline_ns) {
    if (online_) {
        tt_iommu::offline(reader_);
        online_ = false;
    }
    if (stop_.load(std::memory_order_acquire))
        return TT_PORT_STOP;
    if (deadline_ns == 0) {
        idle_waits_ = 0;
        return TT_PORT_OK;
    }
    ++idle_waits_;
    if (idle_waits_ <= kSpins) {
        for (int i = 0; i < 8; ++i)
            cpu_pause();
    } else if (idle_waits_ <= kSpins + kYields) {
        sched_yield();
    } else {
        const uint64_t now = monotonic_ns();
        if (now < deadline_ns) {
            const uint64_t longest =
                std::min(kLongestSleepNs, kShortestSleepNs * ((idle_waits_ - kSpins - kYields) / 16 + 1));
            const uint64_t ns = std::min(deadline_ns - now, longest);
            const timespec pause{0, static_cast<long>(ns)};
            nanosleep(&pause, nullptr);
        }
    }
    return stop_.load(std::memory_order_acquire) ? TT_PORT_STOP : TT_PORT_OK;
}

tt_port tt_direct_port::view() {
    static const tt_port_ops ops = {
        sizeof(tt_port_ops),
        [](void *ctx, uint64_t bus, void *dst, uint64_t len) {
            return static_cast<tt_direct_port *>(ctx)->read(bus, dst, len);
        },
        [](void *ctx, uint64_t bus, const void *src, uint64_t len) {
            return static_cast<tt_direct_port *>(ctx)->write(bus, src, len);
        },
        [](void *ctx, uint64_t bus, uint64_t len) { return static_cast<tt_direct_port *>(ctx)->map(bus, len); },
        [](void *, const uint32_t *reg) { return __atomic_load_n(reg, __ATOMIC_ACQUIRE); },
        [](void *, uint32_t *reg, uint32_t value) { __atomic_store_n(reg, value, __ATOMIC_RELEASE); },
        [](void *) { return monotonic_ns(); },
        [](void *ctx, uint64_t deadline_ns) { return static_cast<tt_direct_port *>(ctx)->wait_until(deadline_ns); },
    };
    return {&ops, this};
}

extern "C" {

tt_direct_port *tt_direct_port_create(tt_iommu *iommu) { return new (std::nothrow) tt_direct_port(*iommu); }
void tt_direct_port_destroy(tt_direct_port *port) { delete port; }
tt_port tt_direct_port_view(tt_direct_port *port) { return port->view(); }
void tt_direct_port_stop(tt_direct_port *port) { port->stop(); }
}
