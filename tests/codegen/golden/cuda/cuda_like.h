// SPDX-License-Identifier: GPL-2.0-only
//
// What a kernel may use: types, primitives and their contracts. Rendered from tutti_hal/spec; the same text for every
// vendor. The lowerings are in gpu_vendor/<vendor>_primitives.cuh.
#ifndef TUTTI_CUDA_LIKE_H
#define TUTTI_CUDA_LIKE_H

#include <stdint.h>

// ---- memory that another lane, the host or a device can see ----
// Opaque on purpose: a plain read, write, copy or assignment does not compile. Only primitives reach the bits.

struct tt_raw;

// A 32-bit word.
class tt_word32 {
  public:
    tt_word32() = default;
    tt_word32(const tt_word32 &) = delete;
    tt_word32 &operator=(const tt_word32 &) = delete;

  private:
    friend struct tt_raw;
    uint32_t bits_;
};
static_assert(sizeof(tt_word32) == 4 && alignof(tt_word32) == 4);

// A 64-bit word.
class tt_word64 {
  public:
    tt_word64() = default;
    tt_word64(const tt_word64 &) = delete;
    tt_word64 &operator=(const tt_word64 &) = delete;

  private:
    friend struct tt_raw;
    uint64_t bits_;
};
static_assert(sizeof(tt_word64) == 8 && alignof(tt_word64) == 8);

// Four 32-bit words, moved by one vector access; they may become visible separately.
class alignas(16) tt_quad {
  public:
    tt_quad() = default;
    tt_quad(const tt_quad &) = delete;
    tt_quad &operator=(const tt_quad &) = delete;

  private:
    friend struct tt_raw;
    uint32_t bits_[4];
};
static_assert(sizeof(tt_quad) == 16 && alignof(tt_quad) == 16);

// A 32-bit device register.
class tt_mmio32 {
  public:
    tt_mmio32() = default;
    tt_mmio32(const tt_mmio32 &) = delete;
    tt_mmio32 &operator=(const tt_mmio32 &) = delete;

  private:
    friend struct tt_raw;
    uint32_t bits_;
};
static_assert(sizeof(tt_mmio32) == 4 && alignof(tt_mmio32) == 4);

// A value of four words, as a quad is loaded and stored.
struct tt_u32x4 {
    uint32_t x, y, z, w;
};

// The way into an opaque type, for lowerings alone. The lint refuses it in a kernel.
struct tt_raw {
    TT_DEVICE TT_INLINE static uint32_t *of(tt_word32 *word) { return &word->bits_; }
    TT_DEVICE TT_INLINE static const uint32_t *of(const tt_word32 *word) { return &word->bits_; }
    TT_DEVICE TT_INLINE static uint64_t *of(tt_word64 *word) { return &word->bits_; }
    TT_DEVICE TT_INLINE static const uint64_t *of(const tt_word64 *word) { return &word->bits_; }
    TT_DEVICE TT_INLINE static uint32_t *of(tt_quad *word) { return word->bits_; }
    TT_DEVICE TT_INLINE static const uint32_t *of(const tt_quad *word) { return word->bits_; }
    TT_DEVICE TT_INLINE static uint32_t *of(tt_mmio32 *word) { return &word->bits_; }
    TT_DEVICE TT_INLINE static const uint32_t *of(const tt_mmio32 *word) { return &word->bits_; }
};

// True for types that may lie in shared memory: the opaque ones, and records made of them.
template <class T> struct tt_is_shared {
    static constexpr bool value = false;
};
template <class T> struct tt_is_shared<const T> {
    static constexpr bool value = tt_is_shared<T>::value;
};
template <> struct tt_is_shared<tt_word32> {
    static constexpr bool value = true;
};
template <> struct tt_is_shared<tt_word64> {
    static constexpr bool value = true;
};
template <> struct tt_is_shared<tt_quad> {
    static constexpr bool value = true;
};
template <> struct tt_is_shared<tt_mmio32> {
    static constexpr bool value = true;
};

// A shared object at an address that the host handed over as a number.
template <class T> TT_DEVICE TT_INLINE T *tt_address_as(uint64_t address) {
    static_assert(tt_is_shared<T>::value, "only opaque words and shared records can be addressed");
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address));
}

// ---- primitives ----

// The index of the calling thread within its block along one axis, from 0. Never: give two live lanes of one block the
// same triple.
TT_DEVICE TT_INLINE uint32_t tt_thread_index_x();
TT_DEVICE TT_INLINE uint32_t tt_thread_index_y();
TT_DEVICE TT_INLINE uint32_t tt_thread_index_z();

// The index of the calling block within the grid along one axis, from 0. Never: give two blocks of one launch the same
// triple.
TT_DEVICE TT_INLINE uint32_t tt_block_index_x();
TT_DEVICE TT_INLINE uint32_t tt_block_index_y();
TT_DEVICE TT_INLINE uint32_t tt_block_index_z();

// The number of threads of a block along one axis, as launched. Never: report a padded size.
TT_DEVICE TT_INLINE uint32_t tt_block_size_x();
TT_DEVICE TT_INLINE uint32_t tt_block_size_y();
TT_DEVICE TT_INLINE uint32_t tt_block_size_z();

// The number of blocks of the grid along one axis, as launched. Never: report threads instead of blocks.
TT_DEVICE TT_INLINE uint32_t tt_grid_size_x();
TT_DEVICE TT_INLINE uint32_t tt_grid_size_y();
TT_DEVICE TT_INLINE uint32_t tt_grid_size_z();

// The index of the calling lane within its wave, in [0, TT_WAVE_WIDTH). Waves are made of TT_WAVE_WIDTH consecutive
// threads of a block, x fastest, then y, then z; the last wave of a block may be partial. Never: be at or above
// TT_WAVE_WIDTH.
TT_DEVICE TT_INLINE uint32_t tt_lane_index();

// Waits until every live lane of the wave has called it. Lanes that ended do not count. Orders no memory: the lanes'
// words still need their own orders or fences. Never: wait for a lane that has ended.
TT_DEVICE TT_INLINE void tt_wave_sync();

// The lanes that reached this call together: it includes the caller and may be any subset of the live lanes. Call it
// where the lanes have converged. Never: name a lane that did not reach the call.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE tt_mask tt_wave_active();
#endif

// Bit i of the result is lane i's p, for the lanes in m; other bits are 0. Every lane of m makes the same call with the
// same m. Never: set a bit of a lane outside m.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE tt_mask tt_wave_ballot(tt_mask m, bool p);
#endif

// The v of lane src_lane, which must be in m. Every lane of m makes the same call; src_lane may differ. Never: truncate
// to 32 bits, or read a lane outside m.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE uint32_t tt_wave_shuffle_u32(tt_mask m, uint32_t v, uint32_t src_lane);
TT_DEVICE TT_INLINE uint64_t tt_wave_shuffle_u64(tt_mask m, uint64_t v, uint32_t src_lane);
#endif

// Waits until every live lane of m has called it with the same m. Orders no memory. Never: wait for a lane outside m,
// or for one that has ended.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE void tt_wave_sync_mask(tt_mask m);
#endif

// The number of lanes in m. Never: drop the upper half of a 64-bit mask.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE uint32_t tt_mask_popcount(tt_mask m);
#endif

// The lowest lane in m; m is not empty. Never: count from 1.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE uint32_t tt_mask_first(tt_mask m);
#endif

// The lanes below the given one; lane may be as large as the width of the mask. Never: shift by the width of the mask.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE tt_mask tt_mask_below(uint32_t lane);
#endif

// True in exactly one lane of m, its lowest; the caller is in m. Never: elect two lanes, or none.
#if TT_HAS_WAVE_BALLOT
TT_DEVICE TT_INLINE bool tt_wave_elect(tt_mask m);
#endif

// Waits until every live thread of the block has called it; what any of them did before it is visible to all of them
// after it. Never: leave memory unordered because the compiler's barrier only waits.
TT_DEVICE TT_INLINE void tt_block_barrier();

// A sequentially consistent fence at its scope. What the thread did or has seen before it, in any memory, is visible at
// that scope before anything it does after it; all fences of a scope have one order. Never: be narrower than its scope,
// or be only a compiler barrier.
TT_DEVICE TT_INLINE void tt_fence_block();
TT_DEVICE TT_INLINE void tt_fence_device();
TT_DEVICE TT_INLINE void tt_fence_system();

// One single-copy atomic load. Never served for ever from a cache that the scope's writers do not reach. With acquire
// order, what the writer of the value had released at that scope is visible to what follows. Never: be merged,
// repeated, split, or hoisted out of a loop; be narrower than its scope.
TT_DEVICE TT_INLINE uint32_t tt_load_relaxed_dev_u32(const tt_word32 *p);
TT_DEVICE TT_INLINE uint64_t tt_load_relaxed_dev_u64(const tt_word64 *p);
TT_DEVICE TT_INLINE uint32_t tt_load_relaxed_sys_u32(const tt_word32 *p);
TT_DEVICE TT_INLINE uint64_t tt_load_relaxed_sys_u64(const tt_word64 *p);
TT_DEVICE TT_INLINE uint32_t tt_load_acquire_dev_u32(const tt_word32 *p);
TT_DEVICE TT_INLINE uint64_t tt_load_acquire_dev_u64(const tt_word64 *p);
TT_DEVICE TT_INLINE uint32_t tt_load_acquire_sys_u32(const tt_word32 *p);
TT_DEVICE TT_INLINE uint64_t tt_load_acquire_sys_u64(const tt_word64 *p);

// One single-copy atomic store that becomes visible at its scope without further action. With release order, what the
// thread did or has seen before is visible to whoever acquires the value at that scope. Never: be merged, repeated,
// split, or held back; be narrower than its scope.
TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE void tt_store_release_dev_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE void tt_store_release_dev_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE void tt_store_release_sys_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE void tt_store_release_sys_u64(tt_word64 *p, uint64_t v);

// Loads the four words of an aligned 16-byte cell. Each word is single-copy atomic; the words may come from different
// stores. Never: be served for ever from a cache that the scope's writers do not reach.
TT_DEVICE TT_INLINE tt_u32x4 tt_load_relaxed_dev_u32x4(const tt_quad *p);
TT_DEVICE TT_INLINE tt_u32x4 tt_load_relaxed_sys_u32x4(const tt_quad *p);

// Stores the four words of an aligned 16-byte cell. Each word is single-copy atomic; the words may become visible
// separately and in any order. Never: write outside the cell, or be held back.
TT_DEVICE TT_INLINE void tt_store_relaxed_dev_u32x4(tt_quad *p, tt_u32x4 v);
TT_DEVICE TT_INLINE void tt_store_relaxed_sys_u32x4(tt_quad *p, tt_u32x4 v);

// One indivisible read-modify-write; gives the value before it. Relaxed: orders nothing else. Addition wraps. Never:
// lose an update of another agent within its scope; be a load and a store.
TT_DEVICE TT_INLINE uint32_t tt_atomic_add_dev_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE uint64_t tt_atomic_add_dev_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE uint32_t tt_atomic_exchange_dev_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE uint64_t tt_atomic_exchange_dev_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE uint32_t tt_atomic_or_dev_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE uint64_t tt_atomic_or_dev_u64(tt_word64 *p, uint64_t v);
#if TT_HAS_ATOMIC_SYSTEM
TT_DEVICE TT_INLINE uint32_t tt_atomic_add_sys_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE uint64_t tt_atomic_add_sys_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE uint32_t tt_atomic_exchange_sys_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE uint64_t tt_atomic_exchange_sys_u64(tt_word64 *p, uint64_t v);
TT_DEVICE TT_INLINE uint32_t tt_atomic_or_sys_u32(tt_word32 *p, uint32_t v);
TT_DEVICE TT_INLINE uint64_t tt_atomic_or_sys_u64(tt_word64 *p, uint64_t v);
#endif

// Stores desired if the word equals expected, indivisibly; gives the value before it either way. Never fails
// spuriously. Relaxed. Never: write when the comparison failed; fail although the word equals expected.
TT_DEVICE TT_INLINE uint32_t tt_atomic_cas_dev_u32(tt_word32 *p, uint32_t expected, uint32_t desired);
TT_DEVICE TT_INLINE uint64_t tt_atomic_cas_dev_u64(tt_word64 *p, uint64_t expected, uint64_t desired);
#if TT_HAS_ATOMIC_SYSTEM
TT_DEVICE TT_INLINE uint32_t tt_atomic_cas_sys_u32(tt_word32 *p, uint32_t expected, uint32_t desired);
TT_DEVICE TT_INLINE uint64_t tt_atomic_cas_sys_u64(tt_word64 *p, uint64_t expected, uint64_t desired);
#endif

// One step of CRC-32C (Castagnoli, reflected, polynomial 82F63B78h) over the bytes of v, least significant byte first,
// without inversion before or after. Never: use the polynomial of CRC-32 (Ethernet).
TT_DEVICE TT_INLINE uint32_t tt_crc32c_u32(uint32_t crc, uint32_t v);
TT_DEVICE TT_INLINE uint32_t tt_crc32c_u64(uint32_t crc, uint64_t v);

// One 32-bit store to a device register, ordered after all that the calling thread made visible at system scope by a
// fence or a release. Stores of one thread to one register arrive in order. Never: be merged with another, repeated,
// split, cached, or combined in a write buffer that delays it for ever.
TT_DEVICE TT_INLINE void tt_mmio_store_u32(tt_mmio32 *p, uint32_t v);

// One 32-bit load from a device register; it reaches the device each time. Never: be served from a cache, merged,
// repeated, or speculated.
TT_DEVICE TT_INLINE uint32_t tt_mmio_load_u32(const tt_mmio32 *p);

// Nanoseconds of a clock that never goes backwards for one thread. Differences are real time; the resolution is the
// vendor's, and stated in its record. Where clock.global_ns is false, readings are compared within a thread only, and a
// difference is no longer than the real time and no shorter than a quarter of it, so that a deadline may come late and
// never comes early. Never: read longer than the real time; go backwards for one thread.
TT_DEVICE TT_INLINE uint64_t tt_clock_ns();

// Gives way to other lanes for about ns nanoseconds; may return earlier, and never sleeps without end. Never: sleep
// longer than twice ns plus the vendor's granularity; be dropped by the compiler.
TT_DEVICE TT_INLINE void tt_sleep_ns(uint32_t ns);

// Gives way to other lanes for a moment; every loop that waits contains a pause, a sleep or a clock read. Never: be
// dropped by the compiler.
TT_DEVICE TT_INLINE void tt_pause();

// Ends the launch as failed; does not return. Never: let the kernel go on, or end as a success.
TT_DEVICE TT_INLINE void tt_trap();

// ---- derived from primitives ----

// Threads of the block.
TT_DEVICE TT_INLINE uint32_t tt_block_threads() { return tt_block_size_x() * tt_block_size_y() * tt_block_size_z(); }

// The calling thread's number in its block: x fastest, then y, then z.
TT_DEVICE TT_INLINE uint32_t tt_thread_rank() {
    return (tt_thread_index_z() * tt_block_size_y() + tt_thread_index_y()) * tt_block_size_x() + tt_thread_index_x();
}

// The calling wave's number in its block.
TT_DEVICE TT_INLINE uint32_t tt_wave_index() { return tt_thread_rank() / TT_WAVE_WIDTH; }

// The calling thread's number along x in the whole grid, and how many there are.
TT_DEVICE TT_INLINE uint64_t tt_global_index_x() {
    return static_cast<uint64_t>(tt_block_index_x()) * tt_block_size_x() + tt_thread_index_x();
}
TT_DEVICE TT_INLINE uint64_t tt_global_size_x() { return static_cast<uint64_t>(tt_grid_size_x()) * tt_block_size_x(); }

#endif
