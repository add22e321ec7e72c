/* SPDX-License-Identifier: Apache-2.0
 *
 * A fibre: a stack and a place to continue on it. One OS thread runs one fibre at a time, and switches by hand.
 */
#ifndef TUTTI_SIMT_FIBRE_H
#define TUTTI_SIMT_FIBRE_H

#include "simt/sanitizer.h"
#include "simt/stack.h"

#include <cstddef>

namespace tutti::simt {

extern "C" void *tt_fibre_swap(void **save, void *load, void *carry);

class Fibre {
  public:
    using Entry = void (*)(void *argument);

    Fibre() = default;
    Fibre(const Fibre &) = delete;
    Fibre &operator=(const Fibre &) = delete;
    ~Fibre() { retire(); }

    /* The fibre of the calling thread itself: what others switch back to. */
    void adopt_thread();

    /* Prepares `entry(argument)` on `stack`, keeping the last `reserved` bytes of it free. `entry` must not return. */
    void prepare(const Stack &stack, std::size_t reserved, Entry entry, void *argument);

    /* Leaves `from`, which must be running on this thread, and continues `to`. Returns when somebody switches to
     * `from` again. A fibre may be left for ever: nothing on its stack is destroyed then. */
    static void swap(Fibre &from, Fibre &to) {
#if defined(TUTTI_TSAN)
        /* 1: no synchronisation. With the default a race between two lanes of one thread is missed. */
        __tsan_switch_to_fiber(to.tsan_, 1);
#endif
#if defined(TUTTI_ASAN)
        __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
        tt_fibre_swap(&from.sp_, to.sp_, nullptr);
#if defined(TUTTI_ASAN)
        __sanitizer_finish_switch_fiber(from.fake_stack_, nullptr, nullptr);
#endif
    }

    /* Called first by an entry function: tells the sanitizers that the first switch has arrived. */
    static void arrived() {
#if defined(TUTTI_ASAN)
        __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    }

    /* Forgets the fibre; it must not be running. */
    void retire();

  private:
    void *sp_ = nullptr;
#if defined(TUTTI_TSAN)
    void *tsan_ = nullptr;
    bool tsan_own_ = false;
#endif
#if defined(TUTTI_ASAN)
    void *fake_stack_ = nullptr;
    const void *bottom_ = nullptr;
    std::size_t size_ = 0;
#endif
};

} // namespace tutti::simt

#endif
