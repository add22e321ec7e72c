/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUTTI_SIMT_SANITIZER_H
#define TUTTI_SIMT_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__)
#define TUTTI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TUTTI_ASAN 1
#endif
#endif

/* ThreadSanitizer takes each lane for a thread, and switches between them do not synchronise (or races between lanes of
 * one OS thread would be missed). The engine's own books are shared by the lanes of a worker, which only ever run one
 * at a time; so the engine itself is built without instrumentation, with TUTTI_TSAN defined, and says at which of its
 * primitives lanes synchronise. What is checked are the kernels. */
#if defined(__SANITIZE_THREAD__) && !defined(TUTTI_TSAN)
#error "build the engine with -DTUTTI_TSAN -fno-sanitize=thread, and only the kernels with -fsanitize=thread"
#endif

#if defined(TUTTI_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(TUTTI_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace tutti::simt {

/* What the running lane did happens before what follows happens_after(point) elsewhere. */
inline void happens_before([[maybe_unused]] void *point) {
#if defined(TUTTI_TSAN)
    __tsan_release(point);
#endif
}
inline void happens_after([[maybe_unused]] void *point) {
#if defined(TUTTI_TSAN)
    __tsan_acquire(point);
#endif
}

} // namespace tutti::simt

#endif
