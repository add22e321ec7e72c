// SPDX-License-Identifier: Apache-2.0
//
// The unified address space. Each device's memory, and all host memory of this runtime, lives in an arena of its own:
// a reserved range of addresses of which only live allocations are backed. So any address tells whose it is, one that
// was freed is known as such and faults when touched, and every allocation ends at a page that is not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "runtime/status.h"

namespace ttrt {

enum class Kind { device, managed, host, registered };

struct Range {
    uintptr_t base = 0;
    size_t size = 0;     // what was asked for
    size_t reserved = 0; // what it takes: whole pages
    Kind kind = Kind::device;
    int device = 0;
    unsigned flags = 0;
    bool locked = false;
    int refused = 0; // errno of the page lock when it was refused
    bool releasing = false;

    uintptr_t end() const { return base + size; }
    bool on_device() const { return kind == Kind::device || kind == Kind::managed; }
    bool mapped() const;
};

// What an address is.
struct Place {
    enum class What { pageable, live, freed, outside } what = What::pageable;
    Range range; // live: the range; outside: the range that is overrun
    int device = -1;
};

class Arena {
  public:
    Arena() = default;
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    ~Arena();

    // Reserves addresses; false when the process cannot have so many.
    bool reserve(uintptr_t hint);
    bool contains(uintptr_t address) const { return address - base_ < size_; }
    // Backs `bytes` (whole pages, zeroed) that no live range holds, never right behind another one; 0: none left.
    uintptr_t take(size_t bytes, const std::map<uintptr_t, Range> &live);
    void give(uintptr_t base, size_t bytes);

  private:
    uintptr_t find_gap(size_t bytes, size_t alignment, const std::map<uintptr_t, Range> &live);

    uintptr_t base_ = 0;
    size_t size_ = 0;
    uintptr_t next_ = 0;
};

class AddressSpace {
  public:
    explicit AddressSpace(int device_count);

    // kind: not registered.
    Status allocate(Kind kind, int device, size_t size, unsigned flags, void **ptr);
    Status register_host(int device, void *ptr, size_t size, unsigned flags);
    // The range that begins at ptr and satisfies `is`: marks it as going, so that a second release is refused.
    Status begin_release(void *ptr, const std::function<bool(const Range &)> &is, Range *range);
    void finish_release(const Range &range);

    Place find(const void *ptr, size_t size) const;
    std::vector<Range> ranges(const std::function<bool(const Range &)> &is) const;

    Status set_limit(int device, size_t bytes);
    void info(int device, size_t *free_bytes, size_t *total_bytes) const;

  private:
    struct Account {
        size_t used = 0;
        size_t limit = 0;
    };

    Arena &arena(Kind kind, int device) {
        return arenas_[kind == Kind::host ? accounts_.size() : static_cast<size_t>(device)];
    }
    const Range *locate(uintptr_t address) const;

    mutable std::shared_mutex mutex_;
    std::map<uintptr_t, Range> live_;
    std::vector<Arena> arenas_; // one for each device, then the host's
    std::vector<Account> accounts_;
};

} // namespace ttrt
