/* SPDX-License-Identifier: Apache-2.0
 *
 * The device half of the HOST profile: what a rendered kernel's primitives call. A kernel module is one translation
 * unit that defines TT_HOST_MODE (0 threads, 1 sim) and TT_WAVE_WIDTH (32, 64, 128) and then includes this header.
 *
 * In mode `threads` loads, stores, atomics and fences are inline; in mode `sim` each is one call into the engine, which
 * makes it a scheduling point and answers from its memory model. Everything else goes through the table in both modes.
 *
 * A shared word arrives here as a plain pointer: uint32_t *, uint64_t *, and for a quad a pointer to its first word.
 * Every function may be called by lanes only.
 */
#ifndef TUTTI_HOST_DEVICE_H
#define TUTTI_HOST_DEVICE_H

#include "tutti/engine.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_SCOPE_BLOCK = 0, TT_SCOPE_DEVICE = 1, TT_SCOPE_SYSTEM = 2 };
enum { TT_ORDER_RELAXED = 0, TT_ORDER_ACQUIRE = 1, TT_ORDER_RELEASE = 2 };
enum { TT_ATOMIC_ADD = 0, TT_ATOMIC_EXCHANGE = 1, TT_ATOMIC_OR = 2, TT_ATOMIC_CAS = 3 };

/* Bytes of a lane's stack, and their alignment: a lane finds its face by masking its stack pointer. */
#define TT_HOST_STACK_BYTES 131072u
/* Memory operations that a lane may do before it must let others run, so that a spin loop without pause is bounded. */
#define TT_HOST_FUEL 4096

/* What a lane can read of itself without a call: the last bytes of its stack. */
typedef struct tt_lane_face {
    uint32_t thread[3];
    uint32_t block[3];
    uint32_t block_size[3];
    uint32_t grid_size[3];
    uint32_t lane;
    int32_t fuel;
    void *dynamic_shared;
    void *engine; /* the engine's own record of the lane */
} tt_lane_face;

/* The engine's entry points for device code, one table a mode. `lane` is always the caller's own face. */
typedef struct tt_device_api {
    uint32_t struct_size;
    uint32_t mode;
    void (*block_barrier)(tt_lane_face *lane);
    void (*wave_sync)(tt_lane_face *lane);
    void (*wave_sync_mask)(tt_lane_face *lane, uint64_t mask);
    uint64_t (*wave_active)(tt_lane_face *lane);
    uint64_t (*wave_ballot)(tt_lane_face *lane, uint64_t mask, uint32_t predicate);
    uint64_t (*wave_shuffle)(tt_lane_face *lane, uint64_t mask, uint64_t value, uint32_t source);
    void (*pause)(tt_lane_face *lane);
    void (*refuel)(tt_lane_face *lane);
    void (*sleep_ns)(tt_lane_face *lane, uint32_t ns);
    uint64_t (*clock_ns)(tt_lane_face *lane);
    void (*trap)(tt_lane_face *lane);
    void (*print)(tt_lane_face *lane, const char *format, va_list arguments);
    /* Per-block storage named by `key`: one piece for each key, the same for every lane of the block. Its first
     * contents are not defined. */
    void *(*shared)(tt_lane_face *lane, const void *key, uint64_t bytes, uint64_t align);
    uint32_t *fence_word; /* threads, under ThreadSanitizer: every fence is a read-modify-write of this word */

    /* sim only; `bytes` is 4 or 8, a quad is 16 bytes in four words */
    uint64_t (*load)(tt_lane_face *lane, const void *address, uint32_t bytes, uint32_t order, uint32_t scope);
    void (*store)(tt_lane_face *lane, void *address, uint64_t value, uint32_t bytes, uint32_t order, uint32_t scope);
    void (*load_quad)(tt_lane_face *lane, const uint32_t *address, uint32_t *words, uint32_t scope);
    void (*store_quad)(tt_lane_face *lane, uint32_t *address, const uint32_t *words, uint32_t scope);
    uint64_t (*atomic)(tt_lane_face *lane, void *address, uint32_t bytes, uint32_t operation, uint64_t operand,
                       uint64_t expected, uint32_t scope);
    void (*fence)(tt_lane_face *lane, uint32_t scope);
    uint32_t (*mmio_load)(tt_lane_face *lane, const uint32_t *address);
    void (*mmio_store)(tt_lane_face *lane, uint32_t *address, uint32_t value);

    /* threads only, null in sim: for compilers whose wave functions name no lanes. */
    uint64_t (*wave_together)(tt_lane_face *lane);
} tt_device_api;

#if defined(TT_HOST_MODE) /* a kernel module; the engine itself includes only what is above */

#if TT_HOST_MODE != 0 && TT_HOST_MODE != 1
#error "TT_HOST_MODE is 0 (threads) or 1 (sim)"
#endif
#ifndef TT_WAVE_WIDTH
#error "define TT_WAVE_WIDTH: 32, 64 or 128"
#endif

#define TT_HOST_INLINE static inline __attribute__((always_inline))
/* After a call into the engine: keeps it from becoming a tail call, whose place in the kernel would be lost. */
#define TT_HOST_STAY() __asm__ volatile("")
#if defined(__SANITIZE_THREAD__)
#define TT_HOST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TT_HOST_TSAN 1
#endif
#endif

/* One table a module: static on purpose, an inline variable would be shared by modules of different modes. */
static const tt_device_api *tt_host_api;
TT_HOST_INLINE void tt_host_bind(const tt_device_api *api) { tt_host_api = api; }

/* Not volatile: the answer never changes during a lane's life, so the compiler may keep it. */
TT_HOST_INLINE tt_lane_face *tt_host_lane() {
    uintptr_t stack;
#if defined(__x86_64__)
    __asm__("mov %%rsp, %0" : "=r"(stack));
#elif defined(__aarch64__)
    __asm__("mov %0, sp" : "=r"(stack));
#else
    stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#endif
    return reinterpret_cast<tt_lane_face *>((stack | (TT_HOST_STACK_BYTES - 1u)) + 1u - sizeof(tt_lane_face));
}

/* ---- geometry ---- */

TT_HOST_INLINE uint32_t tt_host_thread_index_x() { return tt_host_lane()->thread[0]; }
TT_HOST_INLINE uint32_t tt_host_thread_index_y() { return tt_host_lane()->thread[1]; }
TT_HOST_INLINE uint32_t tt_host_thread_index_z() { return tt_host_lane()->thread[2]; }
TT_HOST_INLINE uint32_t tt_host_block_index_x() { return tt_host_lane()->block[0]; }
TT_HOST_INLINE uint32_t tt_host_block_index_y() { return tt_host_lane()->block[1]; }
TT_HOST_INLINE uint32_t tt_host_block_index_z() { return tt_host_lane()->block[2]; }
TT_HOST_INLINE uint32_t tt_host_block_size_x() { return tt_host_lane()->block_size[0]; }
TT_HOST_INLINE uint32_t tt_host_block_size_y() { return tt_host_lane()->block_size[1]; }
TT_HOST_INLINE uint32_t tt_host_block_size_z() { return tt_host_lane()->block_size[2]; }
TT_HOST_INLINE uint32_t tt_host_grid_size_x() { return tt_host_lane()->grid_size[0]; }
TT_HOST_INLINE uint32_t tt_host_grid_size_y() { return tt_host_lane()->grid_size[1]; }
TT_HOST_INLINE uint32_t tt_host_grid_size_z() { return tt_host_lane()->grid_size[2]; }
TT_HOST_INLINE uint32_t tt_host_lane_index() { return tt_host_lane()->lane; }

/* ---- block, shared storage, time, trouble ---- */

TT_HOST_INLINE void tt_host_block_barrier() {
    tt_host_api->block_barrier(tt_host_lane());
    TT_HOST_STAY();
}
TT_HOST_INLINE void tt_host_pause() {
    tt_host_api->pause(tt_host_lane());
    TT_HOST_STAY();
}
TT_HOST_INLINE void tt_host_sleep_ns(uint32_t ns) {
    tt_host_api->sleep_ns(tt_host_lane(), ns);
    TT_HOST_STAY();
}
TT_HOST_INLINE uint64_t tt_host_clock_ns() {
    const uint64_t now = tt_host_api->clock_ns(tt_host_lane());
    TT_HOST_STAY();
    return now;
}
[[noreturn]] TT_HOST_INLINE void tt_host_trap() {
    tt_host_api->trap(tt_host_lane());
    __builtin_unreachable();
}
__attribute__((format(printf, 1, 2), unused)) static void tt_host_print(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    tt_host_api->print(tt_host_lane(), format, arguments);
    va_end(arguments);
}
#define TT_HOST_PRINT(format, ...) tt_host_print(format __VA_OPT__(, ) __VA_ARGS__)

TT_HOST_INLINE void *tt_host_shared(const void *key, uint64_t bytes, uint64_t align) {
    return tt_host_api->shared(tt_host_lane(), key, bytes, align);
}
TT_HOST_INLINE void *tt_host_dynamic_shared() { return tt_host_lane()->dynamic_shared; }
/* Per-block storage: `name` is an array of `count` objects of `type`, not initialised. */
#define TT_HOST_SHARED(type, name, count)                                                                              \
    static const char tt_host_key_##name = 0;                                                                          \
    type *const name = static_cast<type *>(                                                                            \
        tt_host_shared(&tt_host_key_##name, sizeof(type) * static_cast<uint64_t>(count), alignof(type)))

/* ---- wave ---- */

TT_HOST_INLINE void tt_host_wave_sync() {
    tt_host_api->wave_sync(tt_host_lane());
    TT_HOST_STAY();
}

#if TT_WAVE_WIDTH <= 64
#if TT_WAVE_WIDTH <= 32
typedef uint32_t tt_host_mask;
#else
typedef uint64_t tt_host_mask;
#endif
TT_HOST_INLINE void tt_host_wave_sync_mask(tt_host_mask mask) {
    tt_host_api->wave_sync_mask(tt_host_lane(), mask);
    TT_HOST_STAY();
}
TT_HOST_INLINE tt_host_mask tt_host_wave_active() {
    const uint64_t mask = tt_host_api->wave_active(tt_host_lane());
    TT_HOST_STAY();
    return static_cast<tt_host_mask>(mask);
}
#if TT_HOST_MODE == 0
/* The lanes that a wave without lane masks would have here: the caller waits as long as another lane of its wave runs,
 * pauses or sleeps, for that one may still come. So a lane must not wait for one of its own wave. */
TT_HOST_INLINE tt_host_mask tt_host_wave_together() {
    const uint64_t mask = tt_host_api->wave_together(tt_host_lane());
    TT_HOST_STAY();
    return static_cast<tt_host_mask>(mask);
}
#endif
TT_HOST_INLINE tt_host_mask tt_host_wave_ballot(tt_host_mask mask, bool predicate) {
    const uint64_t ballot = tt_host_api->wave_ballot(tt_host_lane(), mask, predicate ? 1u : 0u);
    TT_HOST_STAY();
    return static_cast<tt_host_mask>(ballot);
}
TT_HOST_INLINE uint32_t tt_host_wave_shuffle_u32(tt_host_mask mask, uint32_t value, uint32_t source) {
    const uint64_t got = tt_host_api->wave_shuffle(tt_host_lane(), mask, value, source);
    TT_HOST_STAY();
    return static_cast<uint32_t>(got);
}
TT_HOST_INLINE uint64_t tt_host_wave_shuffle_u64(tt_host_mask mask, uint64_t value, uint32_t source) {
    const uint64_t got = tt_host_api->wave_shuffle(tt_host_lane(), mask, value, source);
    TT_HOST_STAY();
    return got;
}
TT_HOST_INLINE uint32_t tt_host_mask_popcount(tt_host_mask mask) {
    return static_cast<uint32_t>(__builtin_popcountll(mask));
}
/* The lowest lane of a mask; the mask must not be empty. */
TT_HOST_INLINE uint32_t tt_host_mask_first(tt_host_mask mask) { return static_cast<uint32_t>(__builtin_ctzll(mask)); }
TT_HOST_INLINE tt_host_mask tt_host_mask_below(uint32_t lane) {
    return static_cast<tt_host_mask>(lane < 64u ? (uint64_t{1} << lane) - 1u : ~uint64_t{0});
}
TT_HOST_INLINE bool tt_host_wave_elect(tt_host_mask mask) {
    return mask != 0 && tt_host_mask_first(mask) == tt_host_lane()->lane;
}
#endif

/* ---- CRC32C step: as the instruction of that name, without initial or final inversion ---- */

struct tt_host_crc32c_table {
    uint32_t entry[256];
    constexpr tt_host_crc32c_table() : entry() {
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; ++bit)
                crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
            entry[i] = crc;
        }
    }
};
static constexpr tt_host_crc32c_table tt_host_crc32c{};

TT_HOST_INLINE uint32_t tt_host_crc32c_u32(uint32_t crc, uint32_t value) {
    crc ^= value;
    for (int byte = 0; byte < 4; ++byte)
        crc = (crc >> 8) ^ tt_host_crc32c.entry[crc & 0xffu];
    return crc;
}
TT_HOST_INLINE uint32_t tt_host_crc32c_u64(uint32_t crc, uint64_t value) {
    return tt_host_crc32c_u32(tt_host_crc32c_u32(crc, static_cast<uint32_t>(value)),
                              static_cast<uint32_t>(value >> 32));
}

/* ---- memory ---- */

#if TT_HOST_MODE == 0

/* A fence orders by C++ rules. ThreadSanitizer does not understand fences: a read-modify-write of one global word
 * stands in for them, which orders more than a fence does. So under it plain races are found and no fence is proved. */
TT_HOST_INLINE void tt_host_fence_any() {
#if defined(TT_HOST_TSAN)
    __atomic_fetch_add(tt_host_api->fence_word, 0u, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

TT_HOST_INLINE void tt_host_burn() {
    tt_lane_face *lane = tt_host_lane();
    if (__builtin_expect(--lane->fuel < 0, 0))
        tt_host_api->refuel(lane);
}

template <class Word> TT_HOST_INLINE Word tt_host_load(const Word *word, int order, int) {
    tt_host_burn();
    return order == TT_ORDER_ACQUIRE ? __atomic_load_n(word, __ATOMIC_ACQUIRE)
                                     : __atomic_load_n(word, __ATOMIC_RELAXED);
}
template <class Word> TT_HOST_INLINE void tt_host_store(Word *word, Word value, int order, int) {
    tt_host_burn();
    if (order == TT_ORDER_RELEASE)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
}
template <class Word> TT_HOST_INLINE Word tt_host_atomic(Word *word, int operation, Word operand, Word expected, int) {
    tt_host_burn();
    switch (operation) {
    case TT_ATOMIC_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_RELAXED);
    case TT_ATOMIC_EXCHANGE:
        return __atomic_exchange_n(word, operand, __ATOMIC_RELAXED);
    case TT_ATOMIC_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_RELAXED);
    default:
        __atomic_compare_exchange_n(word, &expected, operand, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return expected;
    }
}
typedef uint64_t __attribute__((may_alias)) tt_host_half_quad;
template <class Quad> TT_HOST_INLINE Quad tt_host_load_quad(const uint32_t *words, int) {
    tt_host_burn();
    const tt_host_half_quad *half = reinterpret_cast<const tt_host_half_quad *>(words);
    uint64_t low = __atomic_load_n(half, __ATOMIC_RELAXED);
    uint64_t high = __atomic_load_n(half + 1, __ATOMIC_RELAXED);
    return Quad{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                static_cast<uint32_t>(high >> 32)};
}
template <class Quad> TT_HOST_INLINE void tt_host_store_quad(uint32_t *words, const Quad &value, int) {
    tt_host_burn();
    tt_host_half_quad *half = reinterpret_cast<tt_host_half_quad *>(words);
    __atomic_store_n(half, value.x | static_cast<uint64_t>(value.y) << 32, __ATOMIC_RELAXED);
    __atomic_store_n(half + 1, value.z | static_cast<uint64_t>(value.w) << 32, __ATOMIC_RELAXED);
}
TT_HOST_INLINE void tt_host_fence_block() { tt_host_fence_any(); }
TT_HOST_INLINE void tt_host_fence_device() { tt_host_fence_any(); }
TT_HOST_INLINE void tt_host_fence_system() { tt_host_fence_any(); }
TT_HOST_INLINE uint32_t tt_host_mmio_load_u32(const uint32_t *reg) {
    tt_host_burn();
    return __atomic_load_n(reg, __ATOMIC_ACQUIRE);
}
TT_HOST_INLINE void tt_host_mmio_store_u32(uint32_t *reg, uint32_t value) {
    tt_host_burn();
    __atomic_store_n(reg, value, __ATOMIC_RELEASE);
}

#else

template <class Word> TT_HOST_INLINE Word tt_host_load(const Word *word, uint32_t order, uint32_t scope) {
    const uint64_t value = tt_host_api->load(tt_host_lane(), word, sizeof(Word), order, scope);
    TT_HOST_STAY();
    return static_cast<Word>(value);
}
template <class Word> TT_HOST_INLINE void tt_host_store(Word *word, Word value, uint32_t order, uint32_t scope) {
    tt_host_api->store(tt_host_lane(), word, value, sizeof(Word), order, scope);
    TT_HOST_STAY();
}
template <class Word>
TT_HOST_INLINE Word tt_host_atomic(Word *word, uint32_t operation, Word operand, Word expected, uint32_t scope) {
    const uint64_t old = tt_host_api->atomic(tt_host_lane(), word, sizeof(Word), operation, operand, expected, scope);
    TT_HOST_STAY();
    return static_cast<Word>(old);
}
template <class Quad> TT_HOST_INLINE Quad tt_host_load_quad(const uint32_t *words, uint32_t scope) {
    uint32_t value[4];
    tt_host_api->load_quad(tt_host_lane(), words, value, scope);
    return Quad{value[0], value[1], value[2], value[3]};
}
template <class Quad> TT_HOST_INLINE void tt_host_store_quad(uint32_t *words, const Quad &quad, uint32_t scope) {
    const uint32_t value[4] = {quad.x, quad.y, quad.z, quad.w};
    tt_host_api->store_quad(tt_host_lane(), words, value, scope);
    TT_HOST_STAY();
}
TT_HOST_INLINE void tt_host_fence(uint32_t scope) {
    tt_host_api->fence(tt_host_lane(), scope);
    TT_HOST_STAY();
}
TT_HOST_INLINE void tt_host_fence_block() { tt_host_fence(TT_SCOPE_BLOCK); }
TT_HOST_INLINE void tt_host_fence_device() { tt_host_fence(TT_SCOPE_DEVICE); }
TT_HOST_INLINE void tt_host_fence_system() { tt_host_fence(TT_SCOPE_SYSTEM); }
TT_HOST_INLINE uint32_t tt_host_mmio_load_u32(const uint32_t *reg) {
    const uint32_t value = tt_host_api->mmio_load(tt_host_lane(), reg);
    TT_HOST_STAY();
    return value;
}
TT_HOST_INLINE void tt_host_mmio_store_u32(uint32_t *reg, uint32_t value) {
    tt_host_api->mmio_store(tt_host_lane(), reg, value);
    TT_HOST_STAY();
}

#endif

#define TT_HOST_MEMORY_OF(scope, SCOPE, bits)                                                                          \
    TT_HOST_INLINE uint##bits##_t tt_host_load_relaxed_##scope##_u##bits(const uint##bits##_t *word) {                 \
        return tt_host_load(word, TT_ORDER_RELAXED, SCOPE);                                                            \
    }                                                                                                                  \
    TT_HOST_INLINE uint##bits##_t tt_host_load_acquire_##scope##_u##bits(const uint##bits##_t *word) {                 \
        return tt_host_load(word, TT_ORDER_ACQUIRE, SCOPE);                                                            \
    }                                                                                                                  \
    TT_HOST_INLINE void tt_host_store_relaxed_##scope##_u##bits(uint##bits##_t *word, uint##bits##_t value) {          \
        tt_host_store(word, value, TT_ORDER_RELAXED, SCOPE);                                                           \
    }                                                                                                                  \
    TT_HOST_INLINE void tt_host_store_release_##scope##_u##bits(uint##bits##_t *word, uint##bits##_t value) {          \
        tt_host_store(word, value, TT_ORDER_RELEASE, SCOPE);                                                           \
    }                                                                                                                  \
    TT_HOST_INLINE uint##bits##_t tt_host_atomic_add_##scope##_u##bits(uint##bits##_t *word, uint##bits##_t value) {   \
        return tt_host_atomic(word, TT_ATOMIC_ADD, value, uint##bits##_t{0}, SCOPE);                                   \
    }                                                                                                                  \
    TT_HOST_INLINE uint##bits##_t tt_host_atomic_exchange_##scope##_u##bits(uint##bits##_t *word,                      \
                                                                            uint##bits##_t value) {                    \
        return tt_host_atomic(word, TT_ATOMIC_EXCHANGE, value, uint##bits##_t{0}, SCOPE);                              \
    }                                                                                                                  \
    TT_HOST_INLINE uint##bits##_t tt_host_atomic_or_##scope##_u##bits(uint##bits##_t *word, uint##bits##_t value) {    \
        return tt_host_atomic(word, TT_ATOMIC_OR, value, uint##bits##_t{0}, SCOPE);                                    \
    }                                                                                                                  \
    TT_HOST_INLINE uint##bits##_t tt_host_atomic_cas_##scope##_u##bits(uint##bits##_t *word, uint##bits##_t expected,  \
                                                                       uint##bits##_t desired) {                       \
        return tt_host_atomic(word, TT_ATOMIC_CAS, desired, expected, SCOPE);                                          \
    }

TT_HOST_MEMORY_OF(dev, TT_SCOPE_DEVICE, 32)
TT_HOST_MEMORY_OF(dev, TT_SCOPE_DEVICE, 64)
TT_HOST_MEMORY_OF(sys, TT_SCOPE_SYSTEM, 32)
TT_HOST_MEMORY_OF(sys, TT_SCOPE_SYSTEM, 64)
#undef TT_HOST_MEMORY_OF

/* A quad's value type {x, y, z, w} is defined after this header; these bind to it when they are used. */
struct tt_u32x4;
template <class Quad = tt_u32x4> TT_HOST_INLINE Quad tt_host_load_relaxed_dev_u32x4(const uint32_t *words) {
    return tt_host_load_quad<Quad>(words, TT_SCOPE_DEVICE);
}
template <class Quad = tt_u32x4> TT_HOST_INLINE Quad tt_host_load_relaxed_sys_u32x4(const uint32_t *words) {
    return tt_host_load_quad<Quad>(words, TT_SCOPE_SYSTEM);
}
template <class Quad> TT_HOST_INLINE void tt_host_store_relaxed_dev_u32x4(uint32_t *words, const Quad &value) {
    tt_host_store_quad(words, value, TT_SCOPE_DEVICE);
}
template <class Quad> TT_HOST_INLINE void tt_host_store_relaxed_sys_u32x4(uint32_t *words, const Quad &value) {
    tt_host_store_quad(words, value, TT_SCOPE_SYSTEM);
}

#endif /* TT_HOST_MODE */

#endif
