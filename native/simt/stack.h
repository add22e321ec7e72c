/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of lanes: reserved in slabs, committed by the first touch, reused, guarded.
 */
#ifndef TUTTI_SIMT_STACK_H
#define TUTTI_SIMT_STACK_H

#include <cstddef>
#include <mutex>
#include <vector>

namespace tutti::simt {

struct Stack {
    std::byte *base = nullptr; /* lowest usable byte, above the guard */
    std::byte *top = nullptr;  /* one past the highest; aligned to TT_HOST_STACK_BYTES for lanes */
};

/* Every lane stack of a pool or a world. Thread safe. Stacks go back to the system when the StackPool ends. */
class StackPool {
  public:
    StackPool() = default;
    ~StackPool();
    StackPool(const StackPool &) = delete;
    StackPool &operator=(const StackPool &) = delete;

    /* Appends `count` stacks to `out`. False, with nothing appended, when the system refuses the memory. */
    bool acquire(std::size_t count, std::vector<Stack> &out);
    /* Takes stacks back; nothing may run on them. */
    void release(const std::vector<Stack> &stacks);

  private:
    struct Slab {
        void *address;
        std::size_t bytes;
    };
    bool grow();

    std::mutex mutex_;
    std::vector<Stack> free_;
    std::vector<Slab> slabs_;
};

/* One stack of its own, for a controller. */
class OwnStack {
  public:
    explicit OwnStack(std::size_t bytes);
    ~OwnStack();
    OwnStack(const OwnStack &) = delete;
    OwnStack &operator=(const OwnStack &) = delete;
    bool valid() const { return map_ != nullptr; }
    Stack stack() const { return stack_; }

  private:
    void *map_ = nullptr;
    std::size_t bytes_ = 0;
    Stack stack_;
};

} // namespace tutti::simt

#endif
