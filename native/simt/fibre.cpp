/* SPDX-License-Identifier: Apache-2.0 */
#include "simt/fibre.h"

#include <cstdint>
#include <cstring>
#include <pthread.h>

namespace tutti::simt {

extern "C" void tt_fibre_begin(void);

void Fibre::adopt_thread() {
#if defined(TUTTI_TSAN)
    tsan_ = __tsan_get_current_fiber();
    tsan_own_ = false;
#endif
#if defined(TUTTI_ASAN)
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *bottom = nullptr;
        std::size_t size = 0;
        pthread_attr_getstack(&attributes, &bottom, &size);
        bottom_ = bottom;
        size_ = size;
        pthread_attr_destroy(&attributes);
    }
#endif
}

void Fibre::prepare(const Stack &stack, std::size_t reserved, Entry entry, void *argument) {
    auto top = reinterpret_cast<std::uintptr_t>(stack.top) - reserved;
    top &= ~std::uintptr_t{15};
    auto *slots = reinterpret_cast<void **>(top);
#if defined(__x86_64__)
    /* As tt_fibre_swap leaves a stack: r15 r14 r13 r12 rbx rbp, return address; then, after `ret`, the stack pointer
     * must be a multiple of 16 for the call in tt_fibre_begin. */
    slots -= 3;
    slots[0] = reinterpret_cast<void *>(&tt_fibre_begin);
    slots[1] = nullptr;
    slots[2] = nullptr;
    slots -= 6;
    slots[0] = nullptr;                         /* r15 */
    slots[1] = nullptr;                         /* r14 */
    slots[2] = nullptr;                         /* r13 */
    slots[3] = argument;                        /* r12 */
    slots[4] = reinterpret_cast<void *>(entry); /* rbx */
    slots[5] = nullptr;                         /* rbp */
#elif defined(__aarch64__)
    slots -= 20;
    std::memset(slots, 0, 160);
    slots[1] = reinterpret_cast<void *>(&tt_fibre_begin); /* x30 */
    slots[2] = reinterpret_cast<void *>(entry);           /* x19 */
    slots[3] = argument;                                  /* x20 */
#endif
    sp_ = slots;
#if defined(TUTTI_TSAN)
    retire();
    tsan_ = __tsan_create_fiber(0);
    tsan_own_ = true;
#endif
#if defined(TUTTI_ASAN)
    fake_stack_ = nullptr;
    bottom_ = stack.base;
    size_ = static_cast<std::size_t>(stack.top - stack.base);
#endif
}

void Fibre::retire() {
#if defined(TUTTI_TSAN)
    if (tsan_own_ && tsan_ != nullptr)
        __tsan_destroy_fiber(tsan_);
    tsan_ = nullptr;
    tsan_own_ = false;
#endif
}

} // namespace tutti::simt
