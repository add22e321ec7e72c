// SPDX-License-Identifier: GPL-2.0-only
//
// Rendered from kernels/ring.cu.j2 for cuda. Edit the template or the record, not this file.
#include "gpu_vendor/cuda_primitives.cuh"

// One request, as the host packs it. 32 bytes; read by the device, written by the host's one copy.
struct ring_request {
    // I/O opcode; bits 1:0 tell where data go, as NVMe has it: 1 to the drive, 2 from it, 0 nowhere
    uint8_t opcode;
    // which of the target's queue classes
    uint8_t queue_class;
    // row of the table of targets
    uint16_t target;
    // logical blocks; 0 for a flush
    uint32_t block_count;
    uint64_t first_lba;
    // registered buffer of the target's controller
    uint32_t buffer;
    // or-ed into dword 12: FUA, LR, PRINFO
    uint32_t command_bits;
    // bytes
    uint64_t buffer_offset;
};
static_assert(sizeof(ring_request) == 32 && alignof(ring_request) == 8);
static_assert(__builtin_offsetof(ring_request, opcode) == 0);
static_assert(__builtin_offsetof(ring_request, queue_class) == 1);
static_assert(__builtin_offsetof(ring_request, target) == 2);
static_assert(__builtin_offsetof(ring_request, block_count) == 4);
static_assert(__builtin_offsetof(ring_request, first_lba) == 8);
static_assert(__builtin_offsetof(ring_request, buffer) == 16);
static_assert(__builtin_offsetof(ring_request, command_bits) == 20);
static_assert(__builtin_offsetof(ring_request, buffer_offset) == 24);

// One namespace of one drive, and the queues that lead to it. Not written while kernels run. A pair of numbers is for
// commands without PRACT, and with it: then no metadata move that are nothing but protection information.
struct ring_target {
    uint32_t nsid;
    // log2 of the controller's memory page (CC.MPS + 12)
    uint32_t page_shift;
    // first row in the table of queues
    uint32_t queue_first;
    // first row in the table of buffers
    uint32_t buffer_first;
    uint32_t buffer_count;
    // the most blocks one command may carry (MDTS); never 0
    uint32_t max_blocks;
    // bytes that move for one logical block; metadata counted where it is inline
    uint32_t block_bytes[2];
    // bytes that move for one logical block by MPTR
    uint32_t metadata_bytes[2];
    // log2 of the data bytes of a block
    uint32_t lba_shift;
    // of the block number as the reference tag; 0 where there is none
    uint32_t reference_mask;
    // application tag and << 16 its mask
    uint32_t application;
    uint32_t reserved;
    // blocks of the namespace
    uint64_t block_limit;
    // queues of each class: how many << 16 | the first, counted from queue_first
    uint32_t classes[4];
};
static_assert(sizeof(ring_target) == 80 && alignof(ring_target) == 8);
static_assert(__builtin_offsetof(ring_target, nsid) == 0);
static_assert(__builtin_offsetof(ring_target, page_shift) == 4);
static_assert(__builtin_offsetof(ring_target, queue_first) == 8);
static_assert(__builtin_offsetof(ring_target, buffer_first) == 12);
static_assert(__builtin_offsetof(ring_target, buffer_count) == 16);
static_assert(__builtin_offsetof(ring_target, max_blocks) == 20);
static_assert(__builtin_offsetof(ring_target, block_bytes) == 24);
static_assert(__builtin_offsetof(ring_target, metadata_bytes) == 32);
static_assert(__builtin_offsetof(ring_target, lba_shift) == 40);
static_assert(__builtin_offsetof(ring_target, reference_mask) == 44);
static_assert(__builtin_offsetof(ring_target, application) == 48);
static_assert(__builtin_offsetof(ring_target, reserved) == 52);
static_assert(__builtin_offsetof(ring_target, block_limit) == 56);
static_assert(__builtin_offsetof(ring_target, classes) == 64);

// One registered buffer as one controller reaches it. Ranges never cross a piece. The PRP list lies in DMA memory:
// `entries` page addresses a list page and, where a list page has room for one more word, the address of the next. It
// may exist twice, the second time `skew` entries further on, because a list that ends in the last place of its page is
// read as data and not as a pointer.
struct ring_buffer {
    uint64_t bytes;
    // bus address of byte 0; meaningful when contiguous
    uint64_t bus;
    // 1 when the buffer is one run of bus addresses
    uint32_t contiguous;
    // page addresses in a list page
    uint32_t entries;
    // address of the first list
    uint64_t list;
    // address of the bus addresses of the first list's pages
    uint64_t list_pages;
    // the same of the second list
    uint64_t skewed_pages;
    uint32_t skew;
    // 1: the drive may read, 2: the drive may write
    uint32_t access;
    // 1 when SGL descriptors are used; they cover every range but parts of pieces in several runs
    uint32_t sgl;
    // log2 of the bytes of a piece; 63 when the buffer is one
    uint32_t piece_shift;
    // address of one SGL descriptor a piece; 0 when contiguous
    uint64_t pieces;
    // bus address of the metadata of byte 0
    uint64_t metadata;
    uint64_t metadata_bytes;
};
static_assert(sizeof(ring_buffer) == 88 && alignof(ring_buffer) == 8);
static_assert(__builtin_offsetof(ring_buffer, bytes) == 0);
static_assert(__builtin_offsetof(ring_buffer, bus) == 8);
static_assert(__builtin_offsetof(ring_buffer, contiguous) == 16);
static_assert(__builtin_offsetof(ring_buffer, entries) == 20);
static_assert(__builtin_offsetof(ring_buffer, list) == 24);
static_assert(__builtin_offsetof(ring_buffer, list_pages) == 32);
static_assert(__builtin_offsetof(ring_buffer, skewed_pages) == 40);
static_assert(__builtin_offsetof(ring_buffer, skew) == 48);
static_assert(__builtin_offsetof(ring_buffer, access) == 52);
static_assert(__builtin_offsetof(ring_buffer, sgl) == 56);
static_assert(__builtin_offsetof(ring_buffer, piece_shift) == 60);
static_assert(__builtin_offsetof(ring_buffer, pieces) == 64);
static_assert(__builtin_offsetof(ring_buffer, metadata) == 72);
static_assert(__builtin_offsetof(ring_buffer, metadata_bytes) == 80);

// A submission queue and the completion queue that it completes to. Queues that share one are rows, and identifiers,
// side by side. Not written while kernels run; what changes is in its ring_queue_state.
struct ring_queue {
    // address of the ring_queue_state
    uint64_t state;
    // address of the ring_queue_state that has the words of the completion queue
    uint64_t cq_state;
    uint64_t sq;
    uint64_t cq;
    uint64_t sq_doorbell;
    uint64_t cq_doorbell;
    // address of the controller status register; 0 when the device cannot reach it
    uint64_t csts;
    // sq_depth words; ticket + 1 once the entry of that ticket is written
    uint64_t marks;
    // command_limit words; status << 32 | flags << 16 | identifier
    uint64_t commands;
    // command_limit words; ticket << 16 | the identifier which that ticket may use
    uint64_t cells;
    // (2^64 - 1) / sq_depth
    uint64_t sq_reciprocal;
    uint64_t cq_reciprocal;
    uint64_t command_reciprocal;
    uint32_t sq_depth;
    uint32_t cq_depth;
    // values that the high bits of an identifier take before they repeat
    uint32_t generations;
    // the most commands outstanding
    uint16_t command_limit;
    // low bits of an identifier that are its row in commands
    uint16_t index_bits;
    // identifier of the submission queue
    uint16_t id;
    // completions taken before the CQ doorbell is written; at most half the depth
    uint16_t cq_interval;
    // how many queues share the completion queue
    uint16_t cq_queues;
    // rows from the first of them to this one
    uint16_t cq_place;
};
static_assert(sizeof(ring_queue) == 128 && alignof(ring_queue) == 8);
static_assert(__builtin_offsetof(ring_queue, state) == 0);
static_assert(__builtin_offsetof(ring_queue, cq_state) == 8);
static_assert(__builtin_offsetof(ring_queue, sq) == 16);
static_assert(__builtin_offsetof(ring_queue, cq) == 24);
static_assert(__builtin_offsetof(ring_queue, sq_doorbell) == 32);
static_assert(__builtin_offsetof(ring_queue, cq_doorbell) == 40);
static_assert(__builtin_offsetof(ring_queue, csts) == 48);
static_assert(__builtin_offsetof(ring_queue, marks) == 56);
static_assert(__builtin_offsetof(ring_queue, commands) == 64);
static_assert(__builtin_offsetof(ring_queue, cells) == 72);
static_assert(__builtin_offsetof(ring_queue, sq_reciprocal) == 80);
static_assert(__builtin_offsetof(ring_queue, cq_reciprocal) == 88);
static_assert(__builtin_offsetof(ring_queue, command_reciprocal) == 96);
static_assert(__builtin_offsetof(ring_queue, sq_depth) == 104);
static_assert(__builtin_offsetof(ring_queue, cq_depth) == 108);
static_assert(__builtin_offsetof(ring_queue, generations) == 112);
static_assert(__builtin_offsetof(ring_queue, command_limit) == 116);
static_assert(__builtin_offsetof(ring_queue, index_bits) == 118);
static_assert(__builtin_offsetof(ring_queue, id) == 120);
static_assert(__builtin_offsetof(ring_queue, cq_interval) == 122);
static_assert(__builtin_offsetof(ring_queue, cq_queues) == 124);
static_assert(__builtin_offsetof(ring_queue, cq_place) == 126);

// What the lanes share about one queue; each group of words on a line of its own. Of queues that share a completion
// queue the first one's `completion`, `cq_rung`, `cq_doorbells`, `reaps` and `cq_loads` are used, by all of them.
struct alignas(128) ring_queue_state {
    // tail << 1 | held
    tt_word64 doorbell;
    uint64_t line_0[15];
    // signed; what may still be granted
    tt_word64 credits;
    // the next ticket
    tt_word64 ticket;
    // RING_HEALTH bits; 0 is well
    tt_word32 health;
    uint32_t line_1[27];
    // head << 1 | held
    tt_word64 completion;
    uint64_t line_2[15];
    // identifiers given back; written by who holds the queue's completion word
    tt_word64 retired;
    // entries that the drive is known to have fetched
    tt_word64 sq_head;
    // tickets below this number have had their credit
    tt_word64 allowed;
    // head last written to the CQ doorbell
    tt_word64 cq_rung;
    uint64_t line_3[12];
    // SQ doorbell writes
    tt_word64 doorbells;
    tt_word64 cq_doorbells;
    // passes that held the completion word
    tt_word64 reaps;
    // completions believed
    tt_word64 completions;
    // completions of unknown, repeated or outdated identifiers: not believed
    tt_word64 strays;
    // completions of quarantined identifiers
    tt_word64 lates;
    // identifiers withdrawn on a deadline or a stop
    tt_word64 quarantined;
    // reads of completion queue entries
    tt_word64 cq_loads;
    uint64_t line_4[8];
};
static_assert(sizeof(ring_queue_state) == 640 && alignof(ring_queue_state) == 128);
static_assert(__builtin_offsetof(ring_queue_state, doorbell) == 0);
static_assert(__builtin_offsetof(ring_queue_state, line_0) == 8);
static_assert(__builtin_offsetof(ring_queue_state, credits) == 128);
static_assert(__builtin_offsetof(ring_queue_state, ticket) == 136);
static_assert(__builtin_offsetof(ring_queue_state, health) == 144);
static_assert(__builtin_offsetof(ring_queue_state, line_1) == 148);
static_assert(__builtin_offsetof(ring_queue_state, completion) == 256);
static_assert(__builtin_offsetof(ring_queue_state, line_2) == 264);
static_assert(__builtin_offsetof(ring_queue_state, retired) == 384);
static_assert(__builtin_offsetof(ring_queue_state, sq_head) == 392);
static_assert(__builtin_offsetof(ring_queue_state, allowed) == 400);
static_assert(__builtin_offsetof(ring_queue_state, cq_rung) == 408);
static_assert(__builtin_offsetof(ring_queue_state, line_3) == 416);
static_assert(__builtin_offsetof(ring_queue_state, doorbells) == 512);
static_assert(__builtin_offsetof(ring_queue_state, cq_doorbells) == 520);
static_assert(__builtin_offsetof(ring_queue_state, reaps) == 528);
static_assert(__builtin_offsetof(ring_queue_state, completions) == 536);
static_assert(__builtin_offsetof(ring_queue_state, strays) == 544);
static_assert(__builtin_offsetof(ring_queue_state, lates) == 552);
static_assert(__builtin_offsetof(ring_queue_state, quarantined) == 560);
static_assert(__builtin_offsetof(ring_queue_state, cq_loads) == 568);
static_assert(__builtin_offsetof(ring_queue_state, line_4) == 576);
template <> struct tt_is_shared<ring_queue_state> {
    static constexpr bool value = true;
};

// What became of one request. 32 bytes; a person reads it through tutti_hal.io_uring.
struct ring_status {
    // state << 24 | status field of the completion, or the reason of a request that was not run
    tt_word32 code;
    // dword 0 of the completion
    tt_word32 result;
    tt_word64 submitted_ns;
    tt_word64 completed_ns;
    // row in the table of queues
    tt_word32 queue;
    tt_word32 identifier;
};
static_assert(sizeof(ring_status) == 32 && alignof(ring_status) == 8);
static_assert(__builtin_offsetof(ring_status, code) == 0);
static_assert(__builtin_offsetof(ring_status, result) == 4);
static_assert(__builtin_offsetof(ring_status, submitted_ns) == 8);
static_assert(__builtin_offsetof(ring_status, completed_ns) == 16);
static_assert(__builtin_offsetof(ring_status, queue) == 24);
static_assert(__builtin_offsetof(ring_status, identifier) == 28);
template <> struct tt_is_shared<ring_status> {
    static constexpr bool value = true;
};

// A completion queue entry.
struct ring_cqe {
    tt_word32 dword_0;
    tt_word32 dword_1;
    // SQ head and SQ identifier
    tt_word32 dword_2;
    // identifier, phase, status
    tt_word32 dword_3;
};
static_assert(sizeof(ring_cqe) == 16 && alignof(ring_cqe) == 4);
static_assert(__builtin_offsetof(ring_cqe, dword_0) == 0);
static_assert(__builtin_offsetof(ring_cqe, dword_1) == 4);
static_assert(__builtin_offsetof(ring_cqe, dword_2) == 8);
static_assert(__builtin_offsetof(ring_cqe, dword_3) == 12);
template <> struct tt_is_shared<ring_cqe> {
    static constexpr bool value = true;
};

// ---- numbers that the host half knows too (tutti_hal/io_uring/layout.py) ----

// State of a request, in the top byte of ring_status.code.
[[maybe_unused]] static constexpr uint32_t RING_NOT_RUN = 0;
[[maybe_unused]] static constexpr uint32_t RING_IN_FLIGHT = 1;
[[maybe_unused]] static constexpr uint32_t RING_COMPLETED = 2;
[[maybe_unused]] static constexpr uint32_t RING_TIMED_OUT = 3;
[[maybe_unused]] static constexpr uint32_t RING_GONE = 4;
[[maybe_unused]] static constexpr uint32_t RING_STOPPED = 5;
[[maybe_unused]] static constexpr uint32_t RING_REFUSED = 6;
[[maybe_unused]] static constexpr uint32_t RING_STATE_SHIFT = 24;

// Why a request was not run, in the low bits of ring_status.code.
[[maybe_unused]] static constexpr uint32_t RING_WHY_QUEUE_FAILED = 1;
[[maybe_unused]] static constexpr uint32_t RING_WHY_STOPPED = 2;
[[maybe_unused]] static constexpr uint32_t RING_WHY_STARVED = 3;

// Health of a queue.
[[maybe_unused]] static constexpr uint32_t RING_HEALTH_TIMED_OUT = 1;
[[maybe_unused]] static constexpr uint32_t RING_HEALTH_GONE = 2;
[[maybe_unused]] static constexpr uint32_t RING_HEALTH_FATAL = 4;
[[maybe_unused]] static constexpr uint32_t RING_HEALTH_STOPPED = 8;

// Flags of a word of ring_queue.commands, beside its identifier.
[[maybe_unused]] static constexpr uint32_t RING_BUSY = 1u << 16;
[[maybe_unused]] static constexpr uint32_t RING_QUARANTINED = 2u << 16;
[[maybe_unused]] static constexpr uint32_t RING_LATE = 4u << 16;

[[maybe_unused]] static constexpr uint32_t RING_CLASSES = 4; // of queues, a target
[[maybe_unused]] static constexpr uint32_t RING_NO_IDENTIFIER = 0xffffu;
[[maybe_unused]] static constexpr uint64_t RING_TAG = 0xffffffffffffu;

// ---- places ----

// High half of a 128-bit product.
TT_DEVICE TT_INLINE uint64_t ring_multiply_high(uint64_t a, uint64_t b) {
    const uint64_t a_low = a & 0xffffffffu, a_high = a >> 32;
    const uint64_t b_low = b & 0xffffffffu, b_high = b >> 32;
    const uint64_t middle = a_high * b_low + ((a_low * b_low) >> 32);
    const uint64_t rest = a_low * b_high + (middle & 0xffffffffu);
    return a_high * b_high + (middle >> 32) + (rest >> 32);
}

struct ring_place {
    uint64_t lap;
    uint32_t slot;
};

// Where a 64-bit index lies in a ring of any length >= 1. The reciprocal is (2^64 - 1) / length: its quotient is right
// or one too small, for every index.
TT_DEVICE TT_INLINE ring_place ring_place_of(uint64_t index, uint32_t length, uint64_t reciprocal) {
    uint64_t lap = ring_multiply_high(index, reciprocal);
    uint64_t slot = index - lap * length;
    if (slot >= length) {
        slot -= length;
        lap++;
    }
    return {lap, static_cast<uint32_t>(slot)};
}

TT_DEVICE TT_INLINE tt_word64 *ring_word(uint64_t array, uint32_t index) {
    return tt_address_as<tt_word64>(array + 8ull * index);
}

TT_DEVICE TT_INLINE ring_queue_state *ring_state_of(const ring_queue *queue) {
    return tt_address_as<ring_queue_state>(queue->state);
}

// Where the words of its completion queue are: the same, unless it shares one.
TT_DEVICE TT_INLINE ring_queue_state *ring_cq_state_of(const ring_queue *queue) {
    return tt_address_as<ring_queue_state>(queue->cq_state);
}

// ---- lanes that act together ----
// The lanes of a wave that entered together stay together: each collective is reached by all of them. Where the wave
// has no ballot, every lane is a group of one and the same code runs.

#if TT_HAS_WAVE_BALLOT
typedef tt_mask ring_lanes;
TT_DEVICE TT_INLINE ring_lanes ring_lanes_here() { return tt_wave_active(); }
TT_DEVICE TT_INLINE ring_lanes ring_ballot(ring_lanes lanes, bool yes) { return tt_wave_ballot(lanes, yes); }
TT_DEVICE TT_INLINE uint32_t ring_count(ring_lanes lanes) { return tt_mask_popcount(lanes); }
TT_DEVICE TT_INLINE uint32_t ring_first(ring_lanes lanes) { return tt_mask_first(lanes); }
TT_DEVICE TT_INLINE uint32_t ring_lane() { return tt_lane_index(); }
TT_DEVICE TT_INLINE ring_lanes ring_below(uint32_t lane) { return tt_mask_below(lane); }
TT_DEVICE TT_INLINE uint32_t ring_shuffle_u32(ring_lanes lanes, uint32_t value, uint32_t from) {
    return tt_wave_shuffle_u32(lanes, value, from);
}
TT_DEVICE TT_INLINE uint64_t ring_shuffle_u64(ring_lanes lanes, uint64_t value, uint32_t from) {
    return tt_wave_shuffle_u64(lanes, value, from);
}
TT_DEVICE TT_INLINE bool ring_any(ring_lanes lanes, bool yes) { return ring_ballot(lanes, yes) != 0; }
TT_DEVICE TT_INLINE void ring_meet(ring_lanes lanes) { tt_wave_sync_mask(lanes); }
TT_DEVICE TT_INLINE void ring_rejoin() {}
#else
typedef uint32_t ring_lanes;
TT_DEVICE TT_INLINE ring_lanes ring_lanes_here() { return 1; }
TT_DEVICE TT_INLINE ring_lanes ring_ballot(ring_lanes, bool yes) { return yes ? 1u : 0u; }
TT_DEVICE TT_INLINE uint32_t ring_count(ring_lanes lanes) { return lanes; }
TT_DEVICE TT_INLINE uint32_t ring_first(ring_lanes) { return 0; }
TT_DEVICE TT_INLINE uint32_t ring_lane() { return 0; }
TT_DEVICE TT_INLINE ring_lanes ring_below(uint32_t) { return 0; }
TT_DEVICE TT_INLINE uint32_t ring_shuffle_u32(ring_lanes, uint32_t value, uint32_t) { return value; }
TT_DEVICE TT_INLINE uint64_t ring_shuffle_u64(ring_lanes, uint64_t value, uint32_t) { return value; }
// Nobody knows of the others: one of the wave may always.
TT_DEVICE TT_INLINE bool ring_any(ring_lanes, bool) { return true; }
TT_DEVICE TT_INLINE void ring_meet(ring_lanes) {}
// Where lanes of a wave only move together, one that tries again and again would keep back the one it tries after.
TT_DEVICE TT_INLINE void ring_rejoin() { tt_wave_sync(); }
#endif

// The caller's place among the lanes.
TT_DEVICE TT_INLINE uint32_t ring_rank(ring_lanes lanes) { return ring_count(lanes & ring_below(ring_lane())); }
// ---- the command ----

// Bus address of a page of the buffer. Pages are counted in 32 bits: the host registers no more.
TT_DEVICE TT_INLINE uint64_t ring_page(const ring_buffer *buffer, uint32_t page_shift, uint32_t page) {
    if (buffer->contiguous) {
        return buffer->bus + (static_cast<uint64_t>(page) << page_shift);
    }
    // A list page holds `entries` addresses and, maybe, one pointer.
    const uint32_t row = page / buffer->entries;
    return tt_load_relaxed_sys_u64(ring_word(buffer->list, page + row * ((1u << (page_shift - 3)) - buffer->entries)));
}

// Where the list begins that names the pages first..last of the buffer, two or more, as the drive sees it. A list
// page's last place is read as data when exactly one page is left to name, and the pointer to the next list page lies
// there: so a transfer whose last page would fall there uses the skewed list, in which it does not. Where list pages
// have no pointer no range goes from one to the next.
TT_DEVICE TT_INLINE uint64_t ring_list(const ring_buffer *buffer, uint32_t first, uint32_t last) {
    const bool skewed = last % buffer->entries == 0;
    const uint32_t place = first + (skewed ? buffer->skew : 0);
    const uint32_t row = place / buffer->entries;
    const uint64_t pages = skewed ? buffer->skewed_pages : buffer->list_pages;
    return tt_load_relaxed_sys_u64(ring_word(pages, row)) + 8 * (place - row * buffer->entries);
}

// Bits 1:0 of an opcode: what the drive does with the buffer. The same bits as ring_buffer.access.
TT_DEVICE TT_INLINE uint32_t ring_direction(const ring_request *request) { return request->opcode & 3; }

// 1 when the drive makes protection information on the way in and takes it away on the way out (PRACT), else 0.
TT_DEVICE TT_INLINE uint32_t ring_action(const ring_request *request) { return (request->command_bits >> 29) & 1; }

// True when the request's range lies in a buffer that is registered for it, its blocks in its namespace, and its size
// within the drive's limit. The host has checked what it packed; another kernel may have packed this one.
TT_DEVICE TT_INLINE bool ring_request_fits(const ring_request *request, const ring_target *target,
                                           const ring_buffer *buffers) {
    const uint32_t direction = ring_direction(request);
    const uint64_t blocks = request->block_count;
    if (request->queue_class >= RING_CLASSES || target->classes[request->queue_class] == 0) {
        return false;
    }
    if (blocks == 0) {
        return direction == 0;
    }
    if (blocks > target->max_blocks || request->first_lba >= target->block_limit ||
        blocks > target->block_limit - request->first_lba) {
        return false;
    }
    if (direction == 0) {
        return true;
    }
    if (request->buffer >= target->buffer_count || (request->buffer_offset & 3)) {
        return false;
    }
    const ring_buffer *buffer = &buffers[target->buffer_first + request->buffer];
    const uint64_t offset = request->buffer_offset;
    const uint64_t bytes = blocks * target->block_bytes[ring_action(request)];
    if ((buffer->access & direction) != direction || offset > buffer->bytes || bytes > buffer->bytes - offset ||
        (offset >> buffer->piece_shift) != ((offset + bytes - 1) >> buffer->piece_shift)) {
        return false;
    }
    // Metadata of their own lie where the buffer's block does: so it must be a block.
    const uint64_t beside = target->metadata_bytes[ring_action(request)];
    const uint64_t block = offset >> target->lba_shift;
    return beside == 0 || (offset == block << target->lba_shift && (block + blocks) * beside <= buffer->metadata_bytes);
}

TT_DEVICE TT_INLINE void ring_store_halves(tt_quad *quad, uint64_t low, uint64_t high) {
    tt_store_relaxed_sys_u32x4(quad, {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                                      static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)});
}

// The SGL descriptor of the piece that holds the byte at an offset of the buffer.
TT_DEVICE TT_INLINE uint64_t ring_piece(const ring_buffer *buffer, uint64_t offset) {
    return buffer->pieces + 16 * (offset >> buffer->piece_shift);
}

// True when SGL descriptors say the range. A piece in one run has a data block descriptor (type 0), any part of which
// may be named; one in several has that of a segment, which names the whole piece or nothing.
TT_DEVICE TT_INLINE bool ring_sgl_covers(const ring_buffer *buffer, uint64_t offset, uint64_t bytes) {
    if (!buffer->sgl || !buffer->pieces) {
        return buffer->sgl;
    }
    const uint32_t shift = buffer->piece_shift;
    return tt_load_relaxed_sys_u64(ring_word(ring_piece(buffer, offset), 1)) >> 60 == 0 ||
           ((offset & ((1ull << shift) - 1)) == 0 && (bytes >> shift || bytes == buffer->bytes - offset));
}

// Writes the submission queue entry. Nobody may read it before its mark. Piece by piece: what is stored needs no
// register any more.
TT_DEVICE TT_INLINE void ring_write_command(tt_quad *entry, const ring_request *request, const ring_target *target,
                                            const ring_buffer *buffers, uint32_t identifier) {
    const uint32_t blocks = request->block_count;
    // The reference tag of types 1 and 2 is that of the first block; the drive counts on from there.
    tt_store_relaxed_sys_u32x4(&entry[3], {request->command_bits | (blocks ? blocks - 1 : 0), 0,
                                           static_cast<uint32_t>(request->first_lba) & target->reference_mask,
                                           target->application});
    const uint32_t dword_0 = request->opcode | (identifier << 16);
    if (blocks == 0 || ring_direction(request) == 0) {
        tt_store_relaxed_sys_u32x4(&entry[0], {dword_0, target->nsid, 0, 0});
        ring_store_halves(&entry[1], 0, 0);
        ring_store_halves(&entry[2], 0, request->first_lba);
        return;
    }
    const ring_buffer *buffer = &buffers[target->buffer_first + request->buffer];
    const uint64_t offset = request->buffer_offset;
    const uint64_t bytes = static_cast<uint64_t>(blocks) * target->block_bytes[ring_action(request)];
    const bool sgl = ring_sgl_covers(buffer, offset, bytes);
    tt_store_relaxed_sys_u32x4(&entry[0], {dword_0 | (sgl ? 1u << 14 : 0), target->nsid, 0, 0});
    const uint64_t beside = target->metadata_bytes[ring_action(request)];
    const uint64_t metadata = beside ? buffer->metadata + (offset >> target->lba_shift) * beside : 0;
    if (sgl) {
        // A data block: address, then length in the low half. Or the descriptor of the whole piece.
        uint64_t address = buffer->bus + offset;
        uint64_t tail = bytes;
        if (buffer->pieces) {
            const uint64_t piece = ring_piece(buffer, offset);
            address = tt_load_relaxed_sys_u64(ring_word(piece, 0)) + (offset & ((1ull << buffer->piece_shift) - 1));
            const uint64_t whole = tt_load_relaxed_sys_u64(ring_word(piece, 1));
            tail = whole >> 60 ? whole : bytes;
        }
        ring_store_halves(&entry[1], metadata, address);
        ring_store_halves(&entry[2], tail, request->first_lba);
        return;
    }
    const uint32_t shift = target->page_shift;
    const uint32_t first = static_cast<uint32_t>(offset >> shift);
    const uint32_t last = static_cast<uint32_t>((offset + bytes - 1) >> shift);
    ring_store_halves(&entry[1], metadata, ring_page(buffer, shift, first) + (offset & ((1ull << shift) - 1)));
    uint64_t second = 0;
    if (last == first + 1) {
        second = ring_page(buffer, shift, last);
    } else if (last > first) {
        second = ring_list(buffer, first + 1, last);
    }
    ring_store_halves(&entry[2], second, request->first_lba);
}
// ---- reserve ----

struct ring_grant {
    uint64_t first; // ticket
    uint32_t count;
};

// Tries to reserve `wanted` tickets and grants 0 to all of them. A try: it waits for nobody. Credits come first, so
// that a ticket is never held without a place, and the ticket add cannot fail. Two lanes may see each other's overdraft
// for a moment: both then get less, and what was taken too much is given back.
TT_DEVICE TT_INLINE ring_grant ring_reserve(ring_queue_state *state, uint32_t wanted) {
    if (static_cast<int64_t>(tt_load_relaxed_dev_u64(&state->credits)) <= 0) {
        return {0, 0};
    }
    const int64_t had = static_cast<int64_t>(tt_atomic_add_dev_u64(&state->credits, 0 - static_cast<uint64_t>(wanted)));
    uint32_t granted = wanted;
    if (had < static_cast<int64_t>(wanted)) {
        granted = had > 0 ? static_cast<uint32_t>(had) : 0;
        tt_atomic_add_dev_u64(&state->credits, wanted - granted);
    }
    return {granted ? tt_atomic_add_dev_u64(&state->ticket, granted) : 0, granted};
}

// The identifier that a ticket may use. It was put into its cell before the credit was given, so this waits for no
// lane: only until the store, which carries the ticket's own number, is seen. RING_NO_IDENTIFIER after limit_ns.
// Acquire: whatever the identifier's former command left behind comes before its next use.
TT_DEVICE TT_INLINE uint32_t ring_identifier(const ring_queue *queue, uint64_t ticket, uint64_t limit_ns) {
    const ring_place place = ring_place_of(ticket, queue->command_limit, queue->command_reciprocal);
    const tt_word64 *cell = ring_word(queue->cells, place.slot);
    uint64_t seen = tt_load_acquire_dev_u64(cell);
    if ((seen >> 16) != (ticket & RING_TAG)) {
        const uint64_t start_ns = tt_clock_ns();
        do {
            if (tt_clock_ns() - start_ns > limit_ns) {
                return RING_NO_IDENTIFIER;
            }
            tt_pause();
            seen = tt_load_acquire_dev_u64(cell);
        } while ((seen >> 16) != (ticket & RING_TAG));
    }
    return static_cast<uint32_t>(seen) & 0xffffu;
}

// ---- publish ----

// Marks the entries of `count` tickets as written. Release: who sees a mark may have its entry and the command's record
// read. One fence for all of them, and one behind: mark before knock, for the leader that unlocks just now.
TT_DEVICE TT_INLINE void ring_publish(const ring_queue *queue, uint64_t ticket, uint32_t count) {
    tt_fence_device();
    for (uint32_t row = 0; row < count; row++) {
        const uint32_t slot = ring_place_of(ticket + row, queue->sq_depth, queue->sq_reciprocal).slot;
        tt_store_relaxed_dev_u64(ring_word(queue->marks, slot), ticket + row + 1);
    }
    tt_fence_device();
}

// ---- doorbell ----

// Marks that a leader asks for at once: where it waited for each, a queue would be no faster than its memory answers.
[[maybe_unused]] static constexpr uint32_t RING_SCAN = 8;

// How many entries from a ticket on are marked without a gap, of the next RING_SCAN.
TT_DEVICE TT_INLINE uint32_t ring_marked(const ring_queue *queue, uint64_t ticket) {
    uint64_t seen[RING_SCAN];
    for (uint32_t row = 0; row < RING_SCAN; row++) {
        const uint32_t slot = ring_place_of(ticket + row, queue->sq_depth, queue->sq_reciprocal).slot;
        seen[row] = tt_load_relaxed_dev_u64(ring_word(queue->marks, slot));
    }
    uint32_t count = 0;
    for (uint32_t row = 0; row < RING_SCAN; row++) {
        count += count == row && seen[row] == ticket + row + 1 ? 1 : 0;
    }
    return count;
}

// Tells the drive of all entries marked without a gap. One lane, after its group's marks and fences. Whoever finds the
// word held goes away, for the holder looks again: mark, fence, knock here; let go, fence, look there. The fences are
// sequentially consistent, so either the knock finds the word free or the look finds the mark.
TT_DEVICE TT_INLINE void ring_doorbell(const ring_queue *queue, ring_queue_state *state) {
    for (;;) { // tt-lint: spin, because it ends as soon as somebody else leads or nothing new is marked
        const uint64_t word = tt_atomic_or_dev_u64(&state->doorbell, 1);
        if (word & 1) {
            return;
        }
        const uint64_t rung = word >> 1;
        uint64_t tail = rung;
        uint32_t marked;
        do { // tt-lint: spin, because each mark is seen once
            marked = ring_marked(queue, tail);
            tail += marked;
        } while (marked == RING_SCAN);
        const uint32_t slot = ring_place_of(tail, queue->sq_depth, queue->sq_reciprocal).slot;
        if (tail != rung) {
            // Acquires the marks read above, orders their entries before the doorbell at system scope, and this
            // doorbell after the one of the leader before, whose release of the word was read.
            tt_fence_system();
            tt_mmio_store_u32(tt_address_as<tt_mmio32>(queue->sq_doorbell), slot);
            tt_atomic_add_dev_u64(&state->doorbells, 1);
        }
        tt_store_release_dev_u64(&state->doorbell, tail << 1);
        tt_fence_device();
        if (tt_load_relaxed_dev_u64(ring_word(queue->marks, slot)) != tail + 1) {
            return;
        }
    }
}

// ---- submit ----

// What a launch works on.
struct ring_batch {
    const ring_target *targets;
    const ring_queue *queues;
    const ring_buffer *buffers;
    const ring_request *requests;
    ring_status *statuses; // of the whole ring; this launch's begin at first_status
    uint32_t first_status;
    uint64_t limit_ns;
};

// Gives one request to the ticket's entry. False when the queue cannot go on.
TT_DEVICE TT_INLINE bool ring_send(const ring_batch &batch, const ring_queue *queue, uint32_t queue_row,
                                   uint64_t ticket, uint32_t request_row) {
    const uint32_t identifier = ring_identifier(queue, ticket, batch.limit_ns);
    if (identifier == RING_NO_IDENTIFIER) {
        // The queue's memory is not what it was; its tickets are spent, so it must be made anew.
        tt_atomic_or_dev_u32(&ring_state_of(queue)->health, RING_HEALTH_FATAL);
        return false;
    }
    const uint32_t status_row = batch.first_status + request_row;
    ring_status *status = &batch.statuses[status_row];
    tt_store_relaxed_dev_u64(&status->submitted_ns, tt_clock_ns());
    tt_store_relaxed_dev_u32(&status->result, 0);
    tt_store_relaxed_dev_u32(&status->queue, queue_row);
    tt_store_relaxed_dev_u32(&status->identifier, identifier);
    tt_store_relaxed_dev_u32(&status->code, RING_IN_FLIGHT << RING_STATE_SHIFT);
    const uint32_t row = identifier & ((1u << queue->index_bits) - 1);
    tt_store_relaxed_dev_u64(ring_word(queue->commands, row),
                             (static_cast<uint64_t>(status_row) << 32) | RING_BUSY | identifier);
    const ring_request *request = &batch.requests[request_row];
    const uint32_t slot = ring_place_of(ticket, queue->sq_depth, queue->sq_reciprocal).slot;
    ring_write_command(tt_address_as<tt_quad>(queue->sq + 64ull * slot), request, &batch.targets[request->target],
                       batch.buffers, identifier);
    return true;
}

// Each lane of `group` tries to submit `each` requests: request_row, request_row + stride, ... All of `lanes` come
// here; `group` is a part of them, and its members name the same queue. Returns how many of the caller's are sent.
TT_DEVICE TT_INLINE uint32_t ring_submit(const ring_batch &batch, ring_lanes lanes, ring_lanes group, bool member,
                                         uint32_t queue_row, uint32_t request_row, uint32_t stride, uint32_t each) {
    const ring_queue *queue = &batch.queues[queue_row];
    ring_queue_state *state = ring_state_of(queue);
    const uint32_t leader = ring_first(group);
    ring_grant grant = {0, 0};
    if (ring_lane() == leader) {
        grant = ring_reserve(state, ring_count(group) * each);
    }
    const uint32_t granted = ring_shuffle_u32(lanes, grant.count, leader);
    if (granted == 0) {
        return 0;
    }
    // The first lanes get all that they ask for; one may get a part.
    const uint32_t before = ring_rank(group) * each;
    const uint64_t ticket = ring_shuffle_u64(lanes, grant.first, leader) + before;
    uint32_t mine = 0;
    if (member && before < granted) {
        mine = granted - before < each ? granted - before : each;
    }
    uint32_t sent = 0;
    while (sent < mine && ring_send(batch, queue, queue_row, ticket + sent, request_row)) {
        sent++;
        request_row += stride;
    }
    if (sent) {
        ring_publish(queue, ticket, sent);
    }
    ring_meet(lanes);
    if (ring_lane() == leader) {
        ring_doorbell(queue, state);
    }
    return sent;
}
// ---- reap ----

// Completions after which a group lets go, so that it gets on with its own requests.
[[maybe_unused]] static constexpr uint32_t RING_REAP_MOST = 256;

// Expected phase: 1 on the first lap, then the other way round each lap.
TT_DEVICE TT_INLINE bool ring_phase_is(uint32_t dword_3, uint64_t lap) { return ((dword_3 >> 16) & 1) == (~lap & 1); }

TT_DEVICE TT_INLINE ring_cqe *ring_entry(const ring_queue *queue, uint32_t slot) {
    return tt_address_as<ring_cqe>(queue->cq + 16ull * slot);
}

// Judges one completion and, when it belongs to a command in flight, writes the request's status and returns true.
// The word of the command decides, by one compare-and-swap, between this completion, its repetition and a deadline.
TT_DEVICE TT_INLINE bool ring_complete(const ring_queue *queue, ring_status *statuses, const ring_cqe *entry,
                                       uint32_t dword_2, uint32_t dword_3) {
    ring_queue_state *state = ring_state_of(queue);
    const uint32_t identifier = dword_3 & 0xffffu;
    const uint32_t row = identifier & ((1u << queue->index_bits) - 1);
    if (row < queue->command_limit && (dword_2 >> 16) == queue->id) {
        tt_word64 *command = ring_word(queue->commands, row);
        uint64_t seen = tt_load_relaxed_dev_u64(command);
        if (static_cast<uint32_t>(seen) == (RING_BUSY | identifier)) {
            const uint64_t was = tt_atomic_cas_dev_u64(command, seen, seen ^ RING_BUSY);
            if (was == seen) {
                ring_status *status = &statuses[seen >> 32];
                tt_store_relaxed_dev_u32(&status->result, tt_load_relaxed_sys_u32(&entry->dword_0));
                tt_store_relaxed_dev_u64(&status->completed_ns, tt_clock_ns());
                tt_store_release_dev_u32(&status->code, (RING_COMPLETED << RING_STATE_SHIFT) | (dword_3 >> 17));
                return true;
            }
            seen = was;
        }
        if (static_cast<uint32_t>(seen) == (RING_QUARANTINED | identifier) &&
            tt_atomic_cas_dev_u64(command, seen, seen ^ RING_QUARANTINED ^ RING_LATE) == seen) {
            tt_atomic_add_dev_u64(&state->lates, 1);
            return false;
        }
    }
    tt_atomic_add_dev_u64(&state->strays, 1);
    return false;
}

// Gives an identifier, in its next generation, to the ticket that comes command_limit after the number of its return.
// Release: pairs with the acquire in ring_identifier.
TT_DEVICE TT_INLINE void ring_give_back(const ring_queue *queue, uint32_t identifier, uint64_t number) {
    const uint32_t row = identifier & ((1u << queue->index_bits) - 1);
    uint32_t generation = (identifier >> queue->index_bits) + 1;
    if (generation == queue->generations) {
        generation = 0;
    }
    const ring_place place = ring_place_of(number, queue->command_limit, queue->command_reciprocal);
    const uint64_t ticket = (number + queue->command_limit) & RING_TAG;
    tt_store_release_dev_u64(ring_word(queue->cells, place.slot),
                             (ticket << 16) | (generation << queue->index_bits) | row);
}

// Entries that the drive has fetched: SQHD, a place, made a 64-bit number. One that passes the tickets given out is not
// believed. Not the doorbell word: its leader rings first and writes it then, and the drive may be quicker; what was
// not believed of the last completion would leave places taken for ever. An add of 0, for a plain load may be older.
TT_DEVICE TT_INLINE uint64_t ring_fetched(const ring_queue *queue, ring_queue_state *state, uint64_t known,
                                          uint32_t sq_head) {
    const uint32_t before = ring_place_of(known, queue->sq_depth, queue->sq_reciprocal).slot;
    if (sq_head >= queue->sq_depth) {
        return known;
    }
    const uint64_t head = known + (sq_head >= before ? sq_head - before : sq_head + queue->sq_depth - before);
    return head <= tt_atomic_add_dev_u64(&state->ticket, 0) ? head : known;
}

// Tells the drive that all entries before `head` were read. By the holder of the completion word; the fence keeps this
// store behind that of the holder before.
TT_DEVICE TT_INLINE void ring_cq_doorbell(const ring_queue *queue, ring_queue_state *state, uint64_t head) {
    tt_fence_system();
    tt_mmio_store_u32(tt_address_as<tt_mmio32>(queue->cq_doorbell),
                      ring_place_of(head, queue->cq_depth, queue->cq_reciprocal).slot);
    tt_store_relaxed_dev_u64(&state->cq_rung, head);
    tt_atomic_add_dev_u64(&state->cq_doorbells, 1);
}

// Becomes the one that takes completions, when there are any. One lane. A try. Returns head << 1 | held: 0 when another
// holds the word, or nothing is there.
TT_DEVICE TT_INLINE uint64_t ring_take_completions(const ring_queue *queue, ring_queue_state *state) {
    const uint64_t word = tt_load_relaxed_dev_u64(&state->completion);
    const ring_place peek = ring_place_of(word >> 1, queue->cq_depth, queue->cq_reciprocal);
    tt_atomic_add_dev_u64(&state->cq_loads, 1);
    if ((word & 1) || !ring_phase_is(tt_load_relaxed_sys_u32(&ring_entry(queue, peek.slot)->dword_3), peek.lap)) {
        return 0;
    }
    const uint64_t before = tt_atomic_or_dev_u64(&state->completion, 1);
    if (before & 1) {
        return 0;
    }
    // Acquire: what the holder before left in the words beside it.
    tt_fence_device();
    return before | 1;
}

// Gives the credits for what came back. By the holder of the completion word, after the identifiers.
TT_DEVICE TT_INLINE void ring_credit(const ring_queue *queue, uint64_t retired, uint32_t sq_head) {
    ring_queue_state *state = ring_state_of(queue);
    uint64_t allowed = retired + queue->command_limit;
    if (queue->command_limit >= queue->sq_depth) {
        // More commands than entries: an entry is free once fetched, which is not when its command is done.
        const uint64_t fetched = ring_fetched(queue, state, tt_load_relaxed_dev_u64(&state->sq_head), sq_head);
        tt_store_relaxed_dev_u64(&state->sq_head, fetched);
        const uint64_t room = fetched + queue->sq_depth - 1;
        allowed = allowed < room ? allowed : room;
    }
    const uint64_t granted = tt_load_relaxed_dev_u64(&state->allowed);
    tt_atomic_add_dev_u64(&state->completions, retired - tt_load_relaxed_dev_u64(&state->retired));
    tt_store_relaxed_dev_u64(&state->retired, retired);
    tt_store_relaxed_dev_u64(&state->allowed, allowed);
    if (allowed != granted) {
        tt_atomic_add_dev_u64(&state->credits, allowed - granted);
    }
}

// The queue, of those that complete where `queue` does, that has this identifier; `queue` when none has.
TT_DEVICE TT_INLINE const ring_queue *ring_sibling(const ring_queue *queue, uint32_t id) {
    const uint32_t place = id - queue->id + queue->cq_place;
    return place < queue->cq_queues ? queue - queue->cq_place + place : queue;
}

// What ring_reap does with a group's entries where several queues share the completion queue: each lane gives its own
// entry to the queue that it is of. Such queues have no more commands than entries, so one back is one credit.
TT_DEVICE TT_INLINE void ring_take_shared(const ring_queue *queue, ring_status *statuses, ring_lanes lanes, bool mine,
                                          const ring_cqe *entry, uint32_t dword_2, uint32_t dword_3) {
    queue = ring_sibling(queue, dword_2 >> 16);
    ring_queue_state *state = ring_state_of(queue);
    const bool believed = mine && ring_complete(queue, statuses, entry, dword_2, dword_3);
    if (believed) {
        ring_give_back(queue, dword_3 & 0xffffu, tt_atomic_add_dev_u64(&state->retired, 1));
    }
    // The identifiers of all lower numbers are given back before a credit is: who takes it waits for no lane.
    ring_meet(lanes);
    if (believed) {
        tt_atomic_add_dev_u64(&state->completions, 1);
        tt_atomic_add_dev_u64(&state->credits, 1);
    }
}

// Takes the completions at the head of the queue, all of `lanes` together; all of them come here. Returns how many were
// taken. A try: when another group holds the completion word, or nothing is there, it returns 0 at once.
TT_DEVICE TT_INLINE uint32_t ring_reap(const ring_queue *queue, ring_status *statuses, ring_lanes lanes) {
    ring_queue_state *state = ring_cq_state_of(queue);
    const uint32_t leader = ring_first(lanes);
    const bool leads = ring_lane() == leader;
    const uint64_t word = ring_shuffle_u64(lanes, leads ? ring_take_completions(queue, state) : 0, leader);
    if (!(word & 1)) {
        return 0;
    }
    if (!leads) {
        // What the leader acquired, these lanes need as well: with an older view they could take an entry of two laps
        // ago, which has the right phase, for a new one.
        tt_fence_device();
    }
    uint64_t retired = ring_shuffle_u64(lanes, leads ? tt_load_relaxed_dev_u64(&state->retired) : 0, leader);
    uint64_t head = word >> 1;
    // No place, until an entry tells one: another group may have taken what the leader saw.
    uint32_t sq_head = ~0u, total = 0, taken;
    // No more at once than after which the drive must be told.
    const uint32_t rank = ring_rank(lanes);
    const uint32_t most = ring_count(lanes) < queue->cq_interval ? ring_count(lanes) : queue->cq_interval;
    do {
        const ring_place place = ring_place_of(head + rank, queue->cq_depth, queue->cq_reciprocal);
        const ring_cqe *entry = ring_entry(queue, place.slot);
        uint32_t dword_2 = 0, dword_3 = 0;
        bool ready = false;
        if (rank < most) {
            // Dword 3 first, acquire, then the rest: the drive writes it last.
            dword_3 = tt_load_acquire_sys_u32(&entry->dword_3);
            ready = ring_phase_is(dword_3, place.lap);
            dword_2 = tt_load_relaxed_sys_u32(&entry->dword_2);
        }
        const ring_lanes gaps = lanes & ~ring_ballot(lanes, ready);
        taken = gaps ? ring_count(lanes & ring_below(ring_first(gaps))) : most;
        if (queue->cq_queues == 1) {
            const bool believed = rank < taken && ring_complete(queue, statuses, entry, dword_2, dword_3);
            const ring_lanes returned = ring_ballot(lanes, believed);
            if (believed) {
                ring_give_back(queue, dword_3 & 0xffffu, retired + ring_count(returned & ring_below(ring_lane())));
            }
            if (queue->command_limit >= queue->sq_depth && taken) {
                // The drive reports its head in the order of its entries: the last one knows most.
                const ring_lanes last = ring_ballot(lanes, rank + 1 == taken);
                sq_head = ring_shuffle_u32(lanes, dword_2 & 0xffffu, ring_first(last));
            }
            retired += ring_count(returned);
        } else {
            ring_take_shared(queue, statuses, lanes, rank < taken, entry, dword_2, dword_3);
        }
        head += taken;
        total += taken;
        if (leads && head - tt_load_relaxed_dev_u64(&state->cq_rung) >= queue->cq_interval) {
            // The ballot is behind every lane's last read of its entry.
            ring_cq_doorbell(queue, state, head);
        }
    } while (taken == most && total < RING_REAP_MOST);
    // Every identifier is given back before a lane is told so.
    ring_meet(lanes);
    if (leads) {
        tt_atomic_add_dev_u64(&state->cq_loads, 3 * static_cast<uint64_t>(total) + 2);
        if (queue->cq_queues == 1) {
            ring_credit(queue, retired, sq_head);
        }
        tt_atomic_add_dev_u64(&state->reaps, 1);
        tt_store_release_dev_u64(&state->completion, head << 1);
    }
    return total;
}

// Gives back what was read and not yet told to the drive, for a time in which nothing comes. One lane. A try.
TT_DEVICE TT_INLINE void ring_settle(const ring_queue *queue) {
    ring_queue_state *state = ring_cq_state_of(queue);
    uint64_t word = tt_load_relaxed_dev_u64(&state->completion);
    if ((word & 1) || (word >> 1) == tt_load_relaxed_dev_u64(&state->cq_rung)) {
        return;
    }
    word = tt_atomic_or_dev_u64(&state->completion, 1);
    if (word & 1) {
        return;
    }
    tt_fence_device();
    const uint64_t head = word >> 1;
    if (head != tt_load_relaxed_dev_u64(&state->cq_rung)) {
        ring_cq_doorbell(queue, state, head);
    }
    tt_store_release_dev_u64(&state->completion, word);
}
// ---- a batch ----

// Requests that a lane submits at once. A wave shares its collectives among so many, and where there is no ballot it is
// this that keeps doorbells few.
[[maybe_unused]] static constexpr uint32_t RING_BURST = 8;
// Steps between two looks at the epoch word, and one more for each wave of the grid. It may lie in host memory, of
// which a device reads one place no more than about a million times a second, whoever asks (seen on an H200).
[[maybe_unused]] static constexpr uint32_t RING_EPOCH_STEPS = 32;
// More waves than these are a crowd, of which each pauses once for each of them where it only waits for a place.
[[maybe_unused]] static constexpr uint32_t RING_CROWD = 16;
// Steps in which a lane got nothing done, after which it settles its queue.
[[maybe_unused]] static constexpr uint32_t RING_IDLE_STEPS = 16;

// Waves of as many blocks: their last one may be short.
TT_DEVICE TT_INLINE uint32_t ring_waves(uint32_t blocks) {
    return blocks * ((tt_block_size_x() - 1) / TT_WAVE_WIDTH + 1);
}

// The caller's wave, counted through the grid.
TT_DEVICE TT_INLINE uint32_t ring_wave() {
    return ring_waves(tt_block_index_x()) + tt_thread_index_x() / TT_WAVE_WIDTH;
}

// The queue that a request goes through: of its target's queues, those of its class, spread over waves.
TT_DEVICE TT_INLINE uint32_t ring_queue_row(const ring_target *targets, const ring_request *request) {
    const ring_target *target = &targets[request->target];
    // A class that does not exist is refused before its queue is used.
    const uint32_t queues = target->classes[request->queue_class & (RING_CLASSES - 1)];
    const uint32_t count = queues >> 16;
    return target->queue_first + (queues & 0xffffu) + (count > 1 ? ring_wave() % count : 0);
}

// What the drive's status register says of it, as RING_HEALTH bits: 0 when nothing is wrong, or kernels cannot read it.
TT_DEVICE TT_INLINE uint32_t ring_drive_health(const ring_queue *queue) {
    if (!queue->csts) {
        return 0;
    }
    const uint32_t csts = tt_mmio_load_u32(tt_address_as<tt_mmio32>(queue->csts));
    return csts == 0xffffffffu ? RING_HEALTH_GONE : csts & 2 ? RING_HEALTH_FATAL : 0;
}

// Withdraws a command that is not waited for any longer, so that its completion is not believed when it comes. Returns
// the request's last state; RING_IN_FLIGHT when a reaper was quicker, whose status comes without further waiting.
TT_DEVICE TT_INLINE uint32_t ring_withdraw(const ring_queue *queue, const ring_status *status, uint32_t status_row,
                                           bool stopped) {
    ring_queue_state *state = ring_state_of(queue);
    uint32_t verdict = RING_STOPPED;
    uint32_t health = RING_HEALTH_STOPPED;
    if (!stopped) {
        health = ring_drive_health(queue);
        verdict = health & RING_HEALTH_GONE ? RING_GONE : RING_TIMED_OUT;
        health |= verdict == RING_GONE ? 0 : RING_HEALTH_TIMED_OUT;
    }
    const uint32_t identifier = tt_load_relaxed_dev_u32(&status->identifier);
    tt_word64 *command = ring_word(queue->commands, identifier & ((1u << queue->index_bits) - 1));
    const uint64_t busy = (static_cast<uint64_t>(status_row) << 32) | RING_BUSY | identifier;
    if (tt_atomic_cas_dev_u64(command, busy, busy ^ RING_BUSY ^ RING_QUARANTINED) != busy) {
        return RING_IN_FLIGHT;
    }
    tt_atomic_or_dev_u32(&state->health, health);
    tt_atomic_add_dev_u64(&state->quarantined, 1);
    return verdict;
}

// Ends a request that is not submitted at all.
TT_DEVICE TT_INLINE void ring_skip(ring_status *status, uint32_t code) {
    tt_store_relaxed_dev_u32(&status->code, code);
    tt_store_relaxed_dev_u32(&status->result, 0);
    tt_store_relaxed_dev_u64(&status->submitted_ns, 0);
    tt_store_relaxed_dev_u64(&status->completed_ns, 0);
    tt_store_relaxed_dev_u32(&status->queue, 0);
    tt_store_relaxed_dev_u32(&status->identifier, RING_NO_IDENTIFIER);
}

// Hands a request's end to the host.
TT_DEVICE TT_INLINE void ring_report(tt_quad *result, const ring_status *status, uint32_t code, uint64_t completed_ns) {
    const uint64_t submitted_ns = tt_load_relaxed_dev_u64(&status->submitted_ns);
    tt_store_relaxed_sys_u32x4(&result[0],
                               {code, tt_load_relaxed_dev_u32(&status->result), static_cast<uint32_t>(submitted_ns),
                                static_cast<uint32_t>(submitted_ns >> 32)});
    tt_store_relaxed_sys_u32x4(&result[1],
                               {static_cast<uint32_t>(completed_ns), static_cast<uint32_t>(completed_ns >> 32),
                                tt_load_relaxed_dev_u32(&status->queue), tt_load_relaxed_dev_u32(&status->identifier)});
}

// Runs the requests [0, count): lane n takes n, n + lanes, n + 2 lanes, ... in that order, as many at once as the
// queues have room for. Every lane submits, reaps for everybody, and watches its oldest request; so the grid needs no
// other kernel and no number of lanes is too many or too few. Ends when each request has its result: at the latest
// limit_ns after the last submission to each queue, or soon after the epoch word changes.
TT_ENTRY void TT_LAUNCH_BOUNDS(1024)
    ring_run(const ring_target *targets, const ring_queue *queues, const ring_buffer *buffers,
             const ring_request *requests, ring_status *statuses, tt_quad *results, uint32_t first_status,
             uint32_t count, uint64_t limit_ns, const tt_word32 *epoch, uint32_t epoch_expected) {
    const ring_batch batch = {targets, queues, buffers, requests, statuses, first_status, limit_ns};
    const ring_lanes lanes = ring_lanes_here();
    const uint32_t stride = tt_grid_size_x() * tt_block_size_x();
    const uint32_t waves = ring_waves(tt_grid_size_x());
    const uint32_t lane_row = tt_block_index_x() * tt_block_size_x() + tt_thread_index_x();
    uint32_t next = lane_row;        // the next request to submit
    uint32_t oldest = lane_row;      // the first one without a result; [oldest, next) are in flight or skipped
    uint32_t reap = lane_row;        // the one whose queue is reaped next
    uint32_t fit = 0;                // [next, next + fit) were found fit to be submitted
    uint32_t unlooked = ring_wave(); // steps until the next look at the epoch; waves take turns
    uint32_t idle = 0;               // steps since this lane last got on
    uint32_t why = 0;                // not 0: this lane submits nothing more
    uint32_t starved = ~0u;          // the queue that stood still while this lane had no place: asked no more

    for (ring_lanes alive = ring_ballot(lanes, oldest < count); alive; alive = ring_ballot(lanes, oldest < count)) {
        uint32_t sent = 0; // or skipped
        if (unlooked-- == 0) {
            unlooked = RING_EPOCH_STEPS + waves;
            if (tt_load_relaxed_sys_u32(epoch) != epoch_expected) {
                why = RING_WHY_STOPPED;
            }
        }

        // What may be submitted next: a few requests in a row that fit and go through one queue.
        uint32_t next_queue = 0;
        if (next < count) {
            next_queue = ring_queue_row(targets, &requests[next]);
            uint32_t skip = why;
            if (!skip) {
                const uint32_t health = tt_load_relaxed_dev_u32(&ring_state_of(&queues[next_queue])->health);
                if (health) {
                    skip = health & RING_HEALTH_GONE ? RING_GONE << RING_STATE_SHIFT : RING_WHY_QUEUE_FAILED;
                } else if (next_queue == starved) {
                    skip = RING_WHY_STARVED;
                }
            }
            while (!skip && fit < RING_BURST) {
                const uint32_t row = next + fit * stride;
                if (row >= count || ring_queue_row(targets, &requests[row]) != next_queue) {
                    break;
                }
                if (!ring_request_fits(&requests[row], &targets[requests[row].target], buffers)) {
                    if (fit == 0) {
                        skip = RING_REFUSED << RING_STATE_SHIFT;
                    }
                    break;
                }
                fit++;
            }
            if (skip) {
                ring_skip(&statuses[first_status + next], skip);
                fit = 0;
                sent = 1;
            }
        }

        // Submit: the lanes of one queue together, queue by queue; those with a whole burst before the others.
        uint32_t wants = fit;
        for (;;) {
            ring_lanes waiting = ring_ballot(lanes, wants == RING_BURST);
            const uint32_t each = waiting ? RING_BURST : 1;
            if (!waiting) {
                waiting = ring_ballot(lanes, wants != 0);
                if (!waiting) {
                    break;
                }
            }
            const uint32_t row = ring_shuffle_u32(lanes, next_queue, ring_first(waiting));
            const bool member = wants >= each && next_queue == row;
            const uint32_t now_sent =
                ring_submit(batch, lanes, ring_ballot(lanes, member), member, row, next, stride, each);
            if (member) {
                sent += now_sent;
                fit -= now_sent;
                wants = 0;
            }
        }
        next += sent * stride;

        // Reap: all lanes together, for each queue that one of them waits for. While its oldest request does not get
        // on, a lane takes the queues of its others in turn: one drive that stands still holds up no other.
        uint32_t oldest_queue = oldest < count ? ring_queue_row(targets, &requests[oldest]) : 0;
        if (idle == 0 || reap >= next) {
            reap = oldest;
        }
        const uint32_t reap_queue = reap < count ? ring_queue_row(targets, &requests[reap]) : 0;
        reap += stride;
        while (alive) {
            const uint32_t row = ring_shuffle_u32(lanes, reap_queue, ring_first(alive));
            ring_reap(&queues[row], statuses, lanes);
            alive &= ~ring_ballot(lanes, reap_queue == row);
        }

        // Watch the oldest requests: one read of its own record for each.
        bool moved = sent != 0;
        for (uint32_t look = 0; look < RING_BURST && oldest < next && oldest < count; look++) {
            ring_status *status = &statuses[first_status + oldest];
            uint32_t code = tt_load_acquire_dev_u32(&status->code);
            uint64_t ended_ns = 0;
            if ((code >> RING_STATE_SHIFT) == RING_IN_FLIGHT) {
                ended_ns = tt_clock_ns();
                const bool stopped = why == RING_WHY_STOPPED;
                if (!stopped && ended_ns - tt_load_relaxed_dev_u64(&status->submitted_ns) < limit_ns) {
                    break;
                }
                if (oldest_queue != reap_queue) {
                    // Its completion may lie there: it is looked for first.
                    reap = oldest;
                    break;
                }
                code = ring_withdraw(&queues[oldest_queue], status, first_status + oldest, stopped) << RING_STATE_SHIFT;
                if ((code >> RING_STATE_SHIFT) == RING_IN_FLIGHT) {
                    break;
                }
            } else {
                ended_ns = tt_load_relaxed_dev_u64(&status->completed_ns);
            }
            ring_report(&results[2ull * oldest], status, code, ended_ns);
            moved = true;
            oldest += stride;
            if (oldest < count) {
                oldest_queue = ring_queue_row(targets, &requests[oldest]);
            }
        }
        if (moved) {
            idle = 0;
        } else if (oldest < count && idle++ % RING_IDLE_STEPS == 0 && oldest == next) {
            // Nothing of this lane's is in flight: does anybody give a place back? The record of the request that waits
            // keeps which ticket was next, and since when. Where others get on it is a crowd: the time begins anew.
            const ring_queue *queue = &queues[oldest_queue];
            ring_status *status = &statuses[first_status + next];
            const uint32_t ticket = static_cast<uint32_t>(tt_load_relaxed_dev_u64(&ring_state_of(queue)->ticket));
            if (idle == 1 || tt_load_relaxed_dev_u32(&status->result) != ticket) {
                tt_store_relaxed_dev_u32(&status->result, ticket);
                tt_store_relaxed_dev_u64(&status->submitted_ns, tt_clock_ns());
            } else if (tt_clock_ns() - tt_load_relaxed_dev_u64(&status->submitted_ns) >= limit_ns) {
                // A drive that is gone gives no place back either; and a queue that stands still holds up no other.
                tt_atomic_or_dev_u32(&ring_state_of(queue)->health, ring_drive_health(queue) & RING_HEALTH_GONE);
                starved = oldest_queue;
            }
        }
        if ((moved && oldest >= count) || idle == RING_IDLE_STEPS) {
            ring_settle(&queues[oldest_queue]);
        } else if (idle > RING_IDLE_STEPS && reap_queue != oldest_queue) {
            ring_settle(&queues[reap_queue]);
        }
        // From here to the next step no lane holds anything that another one of its wave could wait for.
        ring_rejoin();
        // A crowd looks no more often, all of it together, than a few waves: who has commands in flight comes first.
        const bool waits = !ring_any(lanes, moved || (oldest < count && oldest != next));
        for (uint32_t pauses = moved ? 0 : waits && waves > RING_CROWD ? waves : 1; pauses; pauses--) {
            tt_pause();
        }
    }
}
